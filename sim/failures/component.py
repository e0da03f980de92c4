"""Parts of the cluster that fail one by one, each with a life of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from sim.failures.source import Clock, Renews, Source
from sim.fields import Fraction, Rate, Strategy
from sim.laws import Exponential, Law

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.laws import LawModel

__all__ = ["Component"]


class Component(Strategy):
    """A class of part of the topology; every part of it has its own life."""

    use: Literal["component"] = "component"
    name: str = Field(min_length=1, description="The cause, as it appears in the results.")
    part: str = Field("node", description="Class of part: gpu, node, nic, leaf, rack, power, ...")
    rate: Rate | None = Field(None, description="Constant failure rate, for example '6.5 per 1000 node-day'.")
    law: Law | None = Field(None, description="Law of the lives, in place of a constant rate.")
    scale: float = Field(1.0, gt=0, description="Multiplies the rate.")
    renews: Renews = Field("at_failure", description="When the next life begins.")
    clock: Clock = Field("wall", description="Which time wears the part out.")
    idle_hazard: Fraction = Field(1.0, description="Hazard of a node without a job, relative to one with a job.")
    interrupts: Fraction = Field(1.0, description="Probability that a fault stops the node.")
    repair: Law | None = Field(None, description="Repair time of this cause, in place of the scenario's.")
    detection: Law | None = Field(None, description="Detection time of this cause, in place of the scenario's.")
    planned: bool = Field(False, description="Whether its interruptions count as planned.")
    events: int | None = Field(
        None, ge=0, description="Number of observed events behind the rate, for its uncertainty."
    )
    source: str = Field("", description="Where the numbers come from.")

    @model_validator(mode="after")
    def _rate_or_law(self) -> Self:
        if (self.rate is None) == (self.law is None):
            message = "give exactly one of rate and law"
            raise ValueError(message)
        if self.idle_hazard < 1 and self.clock == "wall" and self.law is not None and not self.law.memoryless:
            message = (
                f"idle_hazard below 1 thins the failures, which is right only for a constant rate; "
                f"with law '{self.law.law}' let the life run on clock: busy instead"
            )
            raise ValueError(message)
        return self

    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for a topology with `counts` of parts.

        Raises
        ------
        ValueError
            If the topology has no such part, or the rate is stated for another kind of part.
        """
        del jobs
        if self.part not in counts:
            message = f"the cluster has no part '{self.part}'"
            raise ValueError(message)
        part, law = self.part, self.life(counts)
        if part == "gpu" and law is not None and law.memoryless and self.renews != "never":
            # Memoryless lives of the GPUs of one node are one life of the node at their summed rate: an eighth of
            # the numbers to draw, and no other difference.
            part, law = "node", law.scaled(counts["node"] / counts["gpu"])
        return Source(
            name=self.name,
            part=part,
            units=counts[part],
            law=law,
            renews=self.renews,
            clock=self.clock,
            idle_hazard=self.idle_hazard,
            interrupts=self.interrupts,
            repair=self.repair,
            detection=self.detection,
            planned=self.planned,
            events=self.events,
        )

    def life(self, counts: Mapping[str, int]) -> LawModel | None:
        """Return the law of one part's life; ``None`` if nothing ever fails (a rate of zero)."""
        if self.law is not None:
            return self.law.scaled(1 / self.scale)
        assert self.rate is not None
        per_second = self.rate.per_second * self.scale
        of = self.rate.of or self.part
        if of != self.part:
            if of not in counts:
                message = f"the rate is per {of}, and the cluster has no part '{of}'"
                raise ValueError(message)
            per_second *= counts[of] / counts[self.part]
        return Exponential.from_seconds(mean=1 / per_second) if per_second else None

"""Parts of the cluster that fail one by one, each with a life of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from sim.failures.cause import Cause
from sim.failures.source import Clock, Renews, Source
from sim.fields import Fraction
from sim.laws import Law

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.laws import LawModel

__all__ = ["Component"]


class Component(Cause):
    """A class of part of the topology; every part of it has its own life."""

    use: Literal["component"] = "component"
    part: str = Field("node", description="Class of part: gpu, node, nic, leaf, rack, power, ...")
    renews: Renews = Field("at_failure", description="When the next life begins.")
    clock: Clock = Field("wall", description="Which time wears the part out.")
    idle_hazard: Fraction = Field(1.0, description="Hazard of a node without a job, relative to one with a job.")
    interrupts: Fraction = Field(1.0, description="Probability that a fault stops the node.")
    repair: Law | None = Field(None, description="Repair time of this cause, in place of the scenario's.")

    @model_validator(mode="after")
    def _thinning_is_right(self) -> Self:
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
        of = self.part if self.rate is None else self.rate.of or self.part
        if of not in counts:
            message = f"the rate is per {of}, and the cluster has no part '{of}'"
            raise ValueError(message)
        return self.lives(counts[of] / counts[self.part])

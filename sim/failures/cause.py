"""What a user says of every cause with a law, whatever it strikes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from sim.failures.fault import Aftermath, Fault, fault_of
from sim.fields import Rate, RuleError, Strategy
from sim.laws import Exponential, Law, LawModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.failures.effects import EffectModel
    from sim.failures.source import Source

__all__ = ["Cause"]


class Cause(Strategy, ABC):
    """A cause with a constant rate or a law of lives."""

    name: str = Field(min_length=1, description="The cause, as it appears in the results.")
    rate: Rate | None = Field(
        None, description="Constant rate, for example '6.5 per 1000 node-day' or '1 per job-day'."
    )
    law: Law | None = Field(None, description="Law of the lives, in place of a constant rate.")
    scale: float = Field(1.0, gt=0, description="Multiplies the rate.")
    detection: Law | None = Field(None, description="Detection time of this cause, in place of the scenario's.")
    planned: bool = Field(False, description="Whether its interruptions count as planned.")
    fault: Fault | None = Field(
        None,
        description="Class of its faults: what those who watch see of them, and strategies of recovery answer to. "
        "Without it: planned for what is planned; hang, slow (degrade too), corrupt or spike by the effect; else by "
        "the part: process for a job, gpu, nic, switch for switches and the cables between them, host for all others.",
    )
    damage: Aftermath = Field(
        "process",
        description="What happens to the hosts that stay in the job: process ends their processes, and what is in "
        "their memory outlives that; reboot starts them anew, and their memory is lost.",
    )
    events: int | None = Field(
        None, ge=0, description="Number of observed events behind the rate, for its uncertainty."
    )
    source: str = Field("", description="Where the numbers come from.")

    @model_validator(mode="after")
    def _rate_or_law(self) -> Self:
        if (self.rate is None) == (self.law is None):
            message = "give exactly one of rate and law"
            raise ValueError(message)
        if self.law is not None and self.law.mean_value == 0:
            raise RuleError(("law",), "must have a mean above zero: who lives no time fails without end")
        return self

    def watched(self, part: str, effect: EffectModel) -> dict[str, Any]:
        """Return what the runtime source takes over for those who watch a part, and for those who come after them.

        Raises
        ------
        RuleError
            If a fault of the class stated does not stop a job, and the effect does.
        """
        if effect.stops and self.fault in ("slow", "corrupt", "spike"):
            rule = f"'{self.name}': a fault of class {self.fault} does not stop a job, and effect {effect.kind} does"
            raise RuleError(("fault",), rule)
        return {
            "fault": self.fault or fault_of(part, effect, planned=self.planned),
            "damage": self.damage,
            "detection": self.detection,
            "planned": self.planned,
            "events": self.events,
        }

    @abstractmethod
    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for a topology with `counts` of parts and for `jobs` jobs.

        Raises
        ------
        ValueError
            If the topology has no such part, or the rate is stated for another kind of part.
        """

    def lives(self, units_per_slot: float = 1.0) -> LawModel | None:
        """Return the law of a slot's life; ``None`` if nothing ever fails (a rate of zero).

        Parameters
        ----------
        units_per_slot
            How many of the units that the rate is stated for one slot stands for [-].
        """
        if self.law is not None:
            return self.law.scaled(1 / self.scale)
        assert self.rate is not None
        per_second = self.rate.per_second * self.scale * units_per_slot
        return Exponential.from_seconds(mean=1 / per_second) if per_second else None

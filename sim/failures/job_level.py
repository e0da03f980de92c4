"""Failures of a job as a whole: software, dependencies, an operator's stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from sim.failures.source import Source
from sim.fields import Rate, Strategy
from sim.laws import Exponential, Law

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["JobLevel"]


class JobLevel(Strategy):
    """One life per job, whatever its size; it runs while failures can hit the job. No node goes down."""

    use: Literal["job"] = "job"
    name: str = Field(min_length=1, description="The cause, as it appears in the results.")
    rate: Rate | None = Field(None, description="Constant rate per job, for example '1 per job-day'.")
    law: Law | None = Field(None, description="Law of the lives, in place of a constant rate.")
    scale: float = Field(1.0, gt=0, description="Multiplies the rate.")
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
        if self.rate is not None and self.rate.of not in ("", "job"):
            message = f"a job-level cause has a rate per job, not per {self.rate.of}; use a component for parts"
            raise ValueError(message)
        return self

    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for `jobs` jobs."""
        del counts
        law = self.law.scaled(1 / self.scale) if self.law is not None else None
        if self.rate is not None and self.rate.per_second > 0:
            law = Exponential.from_seconds(mean=1 / (self.rate.per_second * self.scale))
        return Source(
            name=self.name,
            part="job",
            units=jobs,
            law=law,
            clock="busy",
            detection=self.detection,
            planned=self.planned,
            events=self.events,
        )

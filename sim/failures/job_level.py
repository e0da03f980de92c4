"""Failures of a job as a whole: software, dependencies, an operator's stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from sim.failures.cause import Cause
from sim.failures.effects import Crash, Hang
from sim.failures.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["JobLevel"]


class JobLevel(Cause):
    """One life per job, whatever its size; it runs while failures can hit the job. No node goes down."""

    use: Literal["job"] = "job"
    effect: Literal["crash", "hang"] = Field("crash", description="Whether it reports an error or stops silently.")

    @model_validator(mode="after")
    def _rate_is_per_job(self) -> Self:
        if self.rate is not None and self.rate.of not in ("", "job"):
            message = f"a job-level cause has a rate per job, not per {self.rate.of}; use a component for parts"
            raise ValueError(message)
        return self

    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for `jobs` jobs."""
        del counts
        return Source(
            name=self.name,
            part="job",
            units=jobs,
            law=self.lives(),
            clock="busy",
            effect=Hang() if self.effect == "hang" else Crash(),
            detection=self.detection,
            planned=self.planned,
            events=self.events,
        )

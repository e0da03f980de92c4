"""Failures of a job as a whole: software, dependencies, an operator's stop."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from sim.failures.cause import Cause
from sim.failures.effects import Crash, Hang
from sim.failures.source import Source
from sim.fields import RuleError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["JobLevel", "OfJob"]


class OfJob(Cause):
    """What every cause has that strikes a job as a whole: one life per job, whatever its size."""

    @model_validator(mode="after")
    def _rate_is_per_job(self) -> Self:
        if self.rate is not None and self.rate.of not in ("", "job"):
            rule = f"must be per job, not per {self.rate.of}: it strikes the job as a whole; use a component for parts"
            raise RuleError(("rate",), rule)
        return self

    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for `jobs` jobs."""
        del counts
        return Source(
            name=self.name,
            part="job",
            units=jobs,
            law=self.lives(),
            detection=self.detection,
            planned=self.planned,
            events=self.events,
        )


class JobLevel(OfJob):
    """One life per job, whatever its size; it runs while failures can hit the job. No node goes down."""

    use: Literal["job"] = "job"
    effect: Literal["crash", "hang"] = Field("crash", description="Whether it reports an error or stops silently.")

    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for `jobs` jobs."""
        effect = Hang() if self.effect == "hang" else Crash()
        return replace(super().build(counts, jobs), clock="busy", effect=effect)

"""Failures of a job as a whole: software, dependencies, an operator's stop."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from sim.failures.cause import Cause
from sim.failures.effects import CRASH, Hang
from sim.failures.source import Source
from sim.fields import RuleError
from sim.laws import Law

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.failures.effects import EffectModel

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
        effect = self._effect()
        return Source(
            name=self.name,
            part="job",
            units=jobs,
            law=self.lives(),
            effect=effect,
            **self.watched("job", effect),
        )

    def _effect(self) -> EffectModel:
        """Return what it does to the job."""
        return CRASH


class JobLevel(OfJob):
    """One life per job, whatever its size; it runs while failures can hit the job. No node goes down."""

    use: Literal["job"] = "job"
    effect: Literal["crash", "hang"] = Field("crash", description="Whether it reports an error or stops silently.")

    store_out: Law | None = Field(
        None, description="How long the stores outside the nodes cannot be read afterwards; for faults of storage."
    )

    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for `jobs` jobs."""
        return replace(super().build(counts, jobs), clock="busy", store_out=self.store_out)

    def _effect(self) -> EffectModel:
        """Return what it does to the job."""
        return Hang() if self.effect == "hang" else CRASH

"""Failures of a job as a whole: software, dependencies, an operator's stop."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from sim.failures.effects import CRASH, Hang, Spike
from sim.failures.parts import Cause
from sim.failures.source import KNOWN, Source
from sim.scenario.fields import Duration, RuleError
from sim.scenario.laws import Law

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.failures.effects import EffectModel


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


# ----------------------------------------
# Bugs of a job's software that strike again at the same step until somebody mends them.


class Bug(OfJob):
    """A deterministic fault: the job fails at one point of its work, and again each time it gets there, until mended.

    Its lives count healthy work, not time: a job that stands still meets no new bug.
    """

    use: Literal["bug"] = "bug"
    fix: Law = Field(description="From the first failure to the mended program.")

    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for `jobs` jobs."""
        return replace(super().build(counts, jobs), fix=self.fix)


# ----------------------------------------
# Loss spikes: training leaves its course, somebody notices, and the job goes back to before it did.


class LossSpike(OfJob):
    """The loss spikes for no fault of the hardware; the job steps on until somebody notices and rewinds it.

    Runs rewind some hundred steps and leave out the data that they met there: PaLM did so some twenty times
    (arXiv 2204.02311, section 5.1). The data that are left out cost no time.
    """

    use: Literal["loss-spike"] = "loss-spike"
    rewind: Duration = Field(
        "0 s",
        description="How much work before the spike is given up too, as time of healthy stepping.",
    )  # type: ignore[assignment]

    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for `jobs` jobs."""
        return replace(super().build(counts, jobs), clock="busy")

    def _effect(self) -> EffectModel:
        return Spike(rewind=f"{self.rewind!r} s")


# ----------------------------------------
# Preemption: somebody else needs the nodes of a job, and says so beforehand.


class Preemption(OfJob):
    """A job gives all its nodes back for a while; with enough notice it saves first."""

    use: Literal["preemption"] = "preemption"
    notice: Duration = Field(
        "0 s",
        description="Time between being told and being stopped: the job saves if a save takes no longer.",
    )  # type: ignore[assignment]
    away: Law = Field(description="How long its nodes are taken: it is eligible in the queue again after that.")
    planned: bool = Field(True, description="Whether its interruptions count as planned.")

    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for `jobs` jobs."""
        source = super().build(counts, jobs)
        return replace(source, clock="busy", detection=KNOWN, saves=True, notice=self.notice, away=self.away)

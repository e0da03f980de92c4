"""Bugs of a job's software that strike again at the same step until somebody mends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from sim.failures.cause import Cause
from sim.failures.source import Source
from sim.fields import RuleError
from sim.laws import Law

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Bug"]


class Bug(Cause):
    """A deterministic fault: the job fails at one point of its work, and again each time it gets there, until mended.

    Its lives count healthy work, not time: a job that stands still meets no new bug.
    """

    use: Literal["bug"] = "bug"
    fix: Law = Field(description="From the first failure to the mended program.")

    @model_validator(mode="after")
    def _rate_is_per_job(self) -> Self:
        if self.rate is not None and self.rate.of not in ("", "job"):
            raise RuleError(("rate",), f"a bug has a rate per job, not per {self.rate.of}")
        return self

    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for `jobs` jobs."""
        del counts
        return Source(
            name=self.name,
            part="job",
            units=jobs,
            law=self.lives(),
            fix=self.fix,
            detection=self.detection,
            planned=self.planned,
            events=self.events,
        )

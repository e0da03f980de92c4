"""Bugs of a job's software that strike again at the same step until somebody mends them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sim.failures.job_level import OfJob
from sim.laws import Law

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.failures.source import Source

__all__ = ["Bug"]


class Bug(OfJob):
    """A deterministic fault: the job fails at one point of its work, and again each time it gets there, until mended.

    Its lives count healthy work, not time: a job that stands still meets no new bug.
    """

    use: Literal["bug"] = "bug"
    fix: Law = Field(description="From the first failure to the mended program.")

    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for `jobs` jobs."""
        return replace(super().build(counts, jobs), fix=self.fix)

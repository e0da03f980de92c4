"""Preemption: somebody else needs the nodes of a job, and says so beforehand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sim.failures.job_level import OfJob
from sim.failures.source import KNOWN, Source
from sim.fields import Duration
from sim.laws import Law

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Preemption"]


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

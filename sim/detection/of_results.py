"""Observers of what a job makes: who finds nodes that step slowly or compute wrongly while the job goes on.

(P) is read in the source that is named, (S) reported by another, (A) assumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sim.detection.watcher import Shares, Watcher, shares
from sim.fields import Duration
from sim.laws import Law, Uniform

if TYPE_CHECKING:
    from sim.laws import LawModel

__all__ = ["SdcCheck", "Straggler"]


class Straggler(Watcher):
    """Reports compare the speed of ranks; a node that is behind in some of them in a row is slow.

    It begins somewhere between two reports: with k confirmations the time is ``U(k - 1, k)`` periods. A report every
    300 s is the default of the NVIDIA Resiliency Extension (P); three in a row are assumed (A). It calls slow what has
    less than 0.7 to 0.75 of the speed of others: where slow nodes are faster than that, `covers` is less than 1.
    """

    observer: Literal["straggler"] = "straggler"
    period: Duration = Field("300 s", gt=0, description="Time between two reports.")  # type: ignore[assignment]
    confirmations: int = Field(3, ge=1, description="How many reports in a row it takes.")
    covers: Shares = Field(
        shares("slow"),  # type: ignore[arg-type]
        description="Share of the faults that reports show, by class; by default 100 % of slow.",
    )
    _needs_stop = False

    def law_of(self, fault: str) -> LawModel:
        """Return ``U(k - 1, k)`` periods."""
        del fault
        return Uniform.from_seconds(low=self.period * (self.confirmations - 1), high=self.period * self.confirmations)


class SdcCheck(Watcher):
    """Checks for silent data corruption: the same work twice, or with a known result.

    Tests of a GPU find some 70 % of those that compute wrongly, and checks of a running job need up to an hour (S: both
    as reported of AEGIS and SDCHunter).
    """

    observer: Literal["sdc-check"] = "sdc-check"
    latency: Law = Field("1 h", description="From the first wrong result to the find.")  # type: ignore[assignment]
    covers: Shares = Field(
        shares(corrupt="70 %"),  # type: ignore[arg-type]
        description="Share of the faults that are ever found, by class; by default 70 % of corrupt.",
    )
    _needs_stop = False

    def law_of(self, fault: str) -> LawModel:
        """Return the same law for all classes."""
        del fault
        return self.latency

"""Loss spikes: training leaves its course, somebody notices, and the job goes back to before it did."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sim.failures.effects import Spike
from sim.failures.job_level import OfJob
from sim.fields import Duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.failures.effects import EffectModel
    from sim.failures.source import Source

__all__ = ["LossSpike"]


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

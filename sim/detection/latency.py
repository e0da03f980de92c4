"""The simplest detection: one latency for each kind of fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sim.detection.base import Detection
from sim.laws import Law
from sim.noticing import Noticing

if TYPE_CHECKING:
    from sim.laws import LawModel

__all__ = ["Latency"]


class Latency(Detection):
    """The job knows of a failure after a time drawn from one law; until then its GPUs wait.

    Slow, degraded and wrongly computing nodes go on until they are noticed, which without a law they never are.
    """

    use: Literal["latency"] = "latency"
    time: Law = Field("0 s", description="From a failure to the moment when the job knows.")  # type: ignore[assignment]
    hang: Law | None = Field(None, description="The same for a hang; without it, as for others.")
    slow: Law | None = Field(
        None, description="From a node becoming slow to somebody taking it out; without it, never."
    )
    degrade: Law | None = Field(None, description="The same for a node that lost bandwidth.")
    corrupt: Law | None = Field(None, description="The same for a node that computes wrongly.")
    spike: Law | None = Field(None, description="The same for a loss that has left its course.")

    def unscaled(self, fault: str, kind: str) -> Noticing | None:
        """Return who notices, by the kind of the fault's effect."""
        del fault
        law: LawModel | None = self.time if kind == "crash" else getattr(self, kind)
        if kind == "hang" and law is None:
            law = self.time
        return Noticing.by(law) if law is not None else None

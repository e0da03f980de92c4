"""One latency for each kind of fault, unless its source states another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sim.fields import Strategy
from sim.laws import Law

if TYPE_CHECKING:
    from sim.laws import LawModel

__all__ = ["Latency"]


class Latency(Strategy):
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

    def law_of(self, kind: str) -> LawModel | None:
        """Return the law for a kind of fault; ``None`` if nobody ever notices."""
        if kind == "crash":
            return self.time
        if kind == "hang":
            return self.hang or self.time
        law: LawModel | None = getattr(self, kind)
        return law

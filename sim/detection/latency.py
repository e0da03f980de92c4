"""One latency for every failure, unless its source states another."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sim.fields import Strategy
from sim.laws import Law

__all__ = ["Latency"]


class Latency(Strategy):
    """The job knows of a failure after a time drawn from one law; until then its GPUs wait."""

    use: Literal["latency"] = "latency"
    time: Law = Field("0 s", description="From a failure to the moment when the job knows.")  # type: ignore[assignment]

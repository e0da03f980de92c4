"""Every repair succeeds after a time drawn from one law."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sim.fields import Strategy
from sim.laws import Law

__all__ = ["Simple"]


class Simple(Strategy):
    """A failed node is repaired at once, by as many crews as it takes, and is then healthy.

    A time of zero means that the node never leaves: the failure interrupts the job and nothing has to be replaced.
    """

    use: Literal["simple"] = "simple"
    time: Law = Field(description="From the moment when the failure is known to the node's return.")

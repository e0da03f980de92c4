"""What the strategies of this folder have in common: how a job starts from its store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.contracts import Bucket, Restore, Run, Stall
from sim.fields import Strategy
from sim.laws import draw

if TYPE_CHECKING:
    from sim.contracts import JobView, Plan
    from sim.laws import Law

__all__ = ["FromStore"]


class FromStore(Strategy):
    """A rigid job that initializes, restores and runs, always exposed to failures; a strategy overrides what differs.

    Each strategy declares its own field ``initialize``, at its place among the others.
    """

    if TYPE_CHECKING:
        initialize: Law

    @property
    def elastic(self) -> bool:
        """Whether replicas may go on without one another."""
        return False

    @property
    def has_unexposed_phases(self) -> bool:
        """Whether failures are kept out of some phase."""
        return False

    def start(self, job: JobView) -> Plan:
        """Initialize and restore, all replicas together."""
        return (Stall(Bucket.INITIALIZE, draw(self.initialize, job.mark, "initialize")), Restore("stored"), Run())

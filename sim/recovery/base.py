"""What the strategies of this folder have in common: how a job starts from its store."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from sim.contracts import Bucket, Restore, Run, Stall
from sim.fields import Strategy
from sim.laws import Fixed, LawModel, draw

if TYPE_CHECKING:
    from sim.contracts import ClusterView, FailureView, JobView, Memory, Plan
    from sim.laws import Law

__all__ = ["FromStore", "InPlace"]


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

    @property
    def absence(self) -> object | None:
        """What the closed form of replicas that leave alone has to know; ``None`` where they do not."""
        return None

    def start(self, job: JobView) -> Plan:
        """Initialize and restore, all replicas together."""
        return (Stall(Bucket.INITIALIZE, draw(self.initialize, job.mark, "initialize")), Restore("stored"), Run())


class InPlace(FromStore, ABC):
    """A job that keeps its nodes and swaps what is missing; two times of each failure make its plan."""

    _times: ClassVar[tuple[str, str]]
    """Names of the two laws, in the order in which `_steps` takes their times."""

    if TYPE_CHECKING:
        exposed: bool

    @property
    def has_unexposed_phases(self) -> bool:
        """Whether failures are kept out of some phase."""
        return not self.exposed

    def plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Restart in place, with a swap if nodes are missing."""
        del cluster
        if self._fixed is not None:
            return self._fixed[job.nodes_missing > 0], memory
        first, second = (draw(law, failure.mark, name) for name, law in self._laws.items())
        return self._steps(first, second, swap=job.nodes_missing > 0), memory

    @property
    def _laws(self) -> dict[str, LawModel]:
        return {name: getattr(self, name) for name in self._times}

    @functools.cached_property
    def _fixed(self) -> tuple[Plan, Plan] | None:
        """The two plans, without and with a swap, when no time is random."""
        times = [law.value for law in self._laws.values() if isinstance(law, Fixed)]
        if len(times) < len(self._times):
            return None
        return self._steps(*times, swap=False), self._steps(*times, swap=True)

    @abstractmethod
    def _steps(self, first: float, second: float, /, *, swap: bool) -> Plan:
        """Return the plan for the two times [s]."""

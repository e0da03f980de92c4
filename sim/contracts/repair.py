"""What repair is asked, and what it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.contracts.plan import Memory
    from sim.contracts.views import NodeView
    from sim.laws import LawModel

__all__ = [
    "Course",
    "LemonPolicy",
    "RepairStrategy",
    "Visit",
]


class Visit(NamedTuple):
    """A stay in one tier of repair, or in qualification (tier -1)."""

    tier: int
    seconds: float


class Course(NamedTuple):
    """What repair will do to a node, all of it: the stays one after another, and how it ends.

    ``fixed`` tells whether the fault is gone, which nobody knows; ``retires`` whether the node is given up.
    """

    visits: tuple[Visit, ...]
    fixed: bool
    retires: bool = False


class LemonPolicy(Protocol):
    """From the blames of a node to the decision that it is a lemon. Tested by the harness ``check_lemons``."""

    def blame(self, memory: Memory, time: float, uptime: float) -> tuple[Memory, bool]:
        """Return what to remember of a blame at `time` [s] after `uptime` [s], and whether the node is a lemon now."""
        ...

    def score(self, memory: Memory) -> float:
        """Return how good a node looks; higher is better."""
        ...


class RepairStrategy(Protocol):
    """What becomes of a node that is blamed for a failure. Tested by the harness ``check_repair``."""

    @property
    def single_time(self) -> LawModel | None:
        """Law of the repair time, if there is nothing else to it: then it is that of shared parts too."""
        ...

    @property
    def is_stated(self) -> bool:
        """Whether it says how long repairs take; if not, every cause has to."""
        ...

    @property
    def scale(self) -> float:
        """Factor of all times of repair, those that causes state included [-]."""
        ...

    @property
    def success(self) -> float:
        """Probability that a node comes back without the fault [-]."""
        ...

    @property
    def crews(self) -> tuple[int | None, ...]:
        """Nodes that each tier can work on at once; ``None`` for any number."""
        ...

    @property
    def replacement(self) -> LawModel | None:
        """Law of the time until a retired node is replaced, if it ever is."""
        ...

    def diagnose(self, mark: Callable[[str], float]) -> Literal["right", "other", "none"]:
        """Return which node is blamed: the one that failed, another one of the job, or none."""
        ...

    def course(self, node: NodeView, memory: Memory) -> tuple[Course, Memory]:
        """Return what repair does to a node, given what is remembered of it (``None`` at the start)."""
        ...

    def score(self, memory: Memory) -> float:
        """Return how good a node looks; higher is better."""
        ...

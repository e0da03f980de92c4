"""What a checkpoint strategy is asked, and what it answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.contracts.plan import Keeps

__all__ = [
    "CheckpointState",
    "CheckpointStrategy",
    "Damage",
    "Pace",
    "Progress",
    "Restoration",
]


class Pace(NamedTuple):
    """How fast a group steps.

    ``rate`` [-] is healthy seconds of work gained in a second of stepping; ``step`` [s] is the wall time of one
    step (0: continuous progress).
    """

    rate: float
    step: float = 0.0


class CheckpointState(NamedTuple):
    """Progress in healthy seconds of work; positions in seconds of wall time.

    ``committed`` is durable, ``at_risk`` is not. The group has stepped for ``position`` since the last save, and is in
    the stall of a save when ``stall_left`` is above zero. ``draining`` of the work at risk is on its way to the store
    and becomes durable in ``drain_left``.
    """

    committed: float = 0.0
    at_risk: float = 0.0
    position: float = 0.0
    draining: float = 0.0
    drain_left: float = 0.0
    stall_left: float = 0.0


class Progress(Protocol):
    """What the engine reads of the state of a checkpoint strategy, whatever else that holds [s of healthy work]."""

    @property
    def committed(self) -> float:
        """Work that survives whatever happens to the nodes."""
        ...

    @property
    def at_risk(self) -> float:
        """Work beyond that."""
        ...


class Damage(NamedTuple):
    """What has happened to the nodes of a job since it last stepped.

    Parameters
    ----------
    keeps
        What the plan keeps of the nodes that have not failed.
    lost
        Positions whose node has left the job, with everything on it.
    rebooted
        Positions whose node has started anew: its memory is gone, its disks are not.
    live
        Whether some replica has lost nothing and still holds the state of training.
    """

    keeps: Keeps
    lost: frozenset[int] = frozenset()
    rebooted: frozenset[int] = frozenset()
    live: bool = False


class Restoration(NamedTuple):
    """What a restore goes back to: the state afterwards, how long it takes [s], and the store that it is read from."""

    state: Any
    seconds: float
    store: str = ""


class CheckpointStrategy(Protocol):
    """Closed-form progress between events. Tested by the harness ``check_checkpoint``.

    Its states are opaque to the engine, but for :class:`Progress`.
    """

    @property
    def minds_nodes(self) -> bool:
        """Whether it makes a difference what has happened to the nodes."""
        ...

    @property
    def transfer(self) -> tuple[float, float]:
        """What a restore from the remote store takes at the bandwidth of the nodes, and of the whole store [s].

        Zero where jobs do not share it.
        """
        ...

    @property
    def begin(self) -> Any:
        """The state of a job that has done nothing yet."""
        ...

    def advance(self, state: Any, pace: Pace, seconds: float) -> tuple[Any, float, float]:
        """Return the state after `seconds` of RUNNING, and how many of them were stepping and periodic work [s].

        The rest are stalls of saves.
        """
        ...

    def time_to(self, state: Any, pace: Pace, work: float) -> float:
        """Return the time [s] until `work` more healthy seconds have been done."""
        ...

    def restore(
        self,
        state: Any,
        pace: Pace,
        damage: Damage,
        sound: float = math.inf,
        mark: Callable[[str], float] | None = None,
    ) -> Restoration:
        """Return what a restore goes back to: the newest step of which every shard survives in some store.

        Parameters
        ----------
        state
            State at the failure.
        pace
            Pace before it.
        damage
            What has happened to the nodes. With ``keeps`` of ``live``, only the step in flight is lost.
        sound
            Work up to which the state is known to be right [s]; later copies are of no use.
        mark
            Numbers that decide whether a copy can be read; without them every copy can.
        """
        ...

    def saved(self, state: Any) -> Any:
        """Return the state after a save outside the schedule has made everything durable."""
        ...

    def save_time(self) -> float:
        """Return how long such a save takes until it is durable [s]."""
        ...

    def sound(self, state: Any) -> float:
        """Return the work that a copy holds which was begun before now [s]: what happens now cannot spoil it."""
        ...

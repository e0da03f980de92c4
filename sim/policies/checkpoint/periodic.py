"""Periodic checkpoints to one store outside the nodes, blocking or asynchronous.

A save cycle is ``interval`` of stepping and then a stall. A blocking save is durable when its stall ends. An
asynchronous one copies the state during the stall, goes on stepping, and is durable ``drain`` later.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from sim.policies.checkpoint.stores import TIE, Rung, in_flight, whole
from sim.policies.contracts import CheckpointState, Damage, Pace, Restoration

if TYPE_CHECKING:
    from collections.abc import Callable


class Periodic(NamedTuple):
    """Closed form of a periodic save; every time in seconds of wall time.

    Parameters
    ----------
    interval
        Stepping between two saves [s]. Rounded up to whole steps, and to the drain: a save waits until the one
        before is durable.
    stall
        How long stepping stops for a save [s].
    drain
        From the end of the stall until the save is durable [s].
    load
        Time of a restore [s].
    transfer
        What its transfer takes at the bandwidth of the nodes, and at that of the whole store [s]; zero where that is
        not known, and then it is not shared.
    """

    interval: float
    stall: float
    drain: float
    load: float
    transfer: tuple[float, float] = (0.0, 0.0)

    @property
    def begin(self) -> CheckpointState:
        """The state of a job that has done nothing yet."""
        return CheckpointState()

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """The store, as those of a ladder."""
        return (Rung("remote", self.interval, self.stall, self.drain, self.load, self.load, transfer=self.transfer),)

    @property
    def minds_nodes(self) -> bool:
        """What is outside the nodes survives whatever happens to them."""
        return False

    @property
    def pauses(self) -> tuple[()]:
        """Periodic work beside the saves: none."""
        return ()

    def stepping(self, pace: Pace) -> float:
        """Return how long the group steps between two saves [s]: whole steps, at least the drain."""
        return stepping(self, pace.step)

    def advance(self, state: CheckpointState, pace: Pace, seconds: float) -> tuple[CheckpointState, float, float]:
        """Return the state after `seconds` [s] of RUNNING, and how many were stepping and periodic work [s].

        There is no periodic work beside these saves.
        """
        state, stepped = advance(self, state, pace.rate, stepping(self, pace.step), seconds)
        return state, stepped, 0.0

    def time_to(self, state: CheckpointState, pace: Pace, work: float) -> float:
        """Return the time [s] until `work` [s] more healthy seconds have been done; the last save is not awaited."""
        return time_to(self, state, stepping(self, pace.step), work / pace.rate)

    def restore(
        self,
        state: CheckpointState,
        pace: Pace,
        damage: Damage,
        sound: float = math.inf,
        mark: Callable[[str], float] | None = None,
    ) -> Restoration:
        """Return what a restore goes back to: the newest durable save, whatever has happened to the nodes.

        What is kept live loses the step in flight only, unless it is not `sound`. A save that has not become durable is
        void in both.
        """
        if damage.keeps == "live":
            kept = self._whole_steps(state, pace)
            work = kept.committed + kept.at_risk
            if work <= sound + TIE * (state.committed + state.at_risk):
                return Restoration(kept, 0.0, "peer")
        committed = min(state.committed, sound)
        seconds = self.load if committed > 0 else 0.0
        return Restoration(CheckpointState(committed), seconds, "remote")

    def _whole_steps(self, state: CheckpointState, pace: Pace) -> CheckpointState:
        """Return the state without the step in flight and without the save on its way."""
        if state.stall_left > 0:
            # The save that was cut off is still due.
            return CheckpointState(state.committed, state.at_risk, self.stepping(pace))
        lost = in_flight(state.position, pace.step)
        return CheckpointState(state.committed, max(state.at_risk - lost * pace.rate, 0.0), state.position - lost)

    def saved(self, state: CheckpointState) -> CheckpointState:
        """Return the state after a save outside the schedule has made everything durable."""
        return CheckpointState(committed=state.committed + state.at_risk)

    def save_time(self) -> float:
        """Return how long it takes to save and wait until that is durable [s]."""
        return self.stall + self.drain

    def sound(self, state: CheckpointState) -> float:
        """Return the work that a copy holds which was begun before now [s]; a save is, once its stall has."""
        return state.committed + (state.at_risk if state.stall_left > 0 else state.draining)


# ----------------------------------------
# The arithmetic of it, over numbers and named tuples: what the compiled loop compiles.


def stepping(save: Periodic, step: float) -> float:
    """Return how long a group steps between two saves [s]: whole steps of `step` [s], at least the drain."""
    wanted = max(save.interval, save.drain)
    return wanted if step <= 0 else whole(wanted / step) * step


def place_of(save: Periodic, state: CheckpointState, interval: float) -> float:
    """Return where in the cycle of stepping and stall a state is [s].

    After a change of pace the interval may be shorter than what has been stepped: then a save is due.
    """
    if state.stall_left > 0:
        return interval + save.stall - state.stall_left
    return state.position if state.position < interval else interval


def advance(
    save: Periodic, state: CheckpointState, rate: float, interval: float, seconds: float
) -> tuple[CheckpointState, float]:
    """Return the state after `seconds` [s] of RUNNING, and how many of them were stepping [s].

    Parameters
    ----------
    save, state
        The rhythm, and where in it the group is.
    rate
        Healthy seconds of work in a second of stepping [-].
    interval
        What :func:`stepping` returns [s].
    seconds
        How long the group runs [s].
    """
    cycle = interval + save.stall
    place = place_of(save, state, interval)
    before = place if place < interval else interval
    total = place + seconds
    cycles = int(total // cycle)
    rest = total - cycles * cycle
    tail, stall_left = (rest, 0.0) if rest <= interval else (interval, cycle - rest)
    committed, at_risk, draining, drain_left = state.committed, state.at_risk, state.draining, state.drain_left
    if draining > 0 and seconds >= drain_left:
        committed, at_risk, draining, drain_left = committed + draining, at_risk - draining, 0.0, 0.0
    if cycles == 0:
        stepped = tail - before
        left = drain_left - seconds if draining > 0 else 0.0
        return CheckpointState(committed, at_risk + stepped * rate, tail, draining, left, stall_left), stepped
    first = at_risk + (interval - before) * rate
    between = (cycles - 1) * interval
    stepped = interval - before + between + tail
    if rest >= save.drain:
        return CheckpointState(committed + first + between * rate, tail * rate, tail, 0.0, 0.0, stall_left), stepped
    # The newest save is still on its way; the one before it is durable.
    newest = interval * rate if cycles > 1 else first
    committed += first + between * rate - newest
    return CheckpointState(committed, newest + tail * rate, tail, newest, save.drain - rest, stall_left), stepped


def time_to(save: Periodic, state: CheckpointState, interval: float, needed: float) -> float:
    """Return the time [s] until a group has stepped for `needed` [s] more; the last save is not awaited."""
    if state.stall_left > 0:
        return state.stall_left + needed + save.stall * max(whole(needed / interval) - 1, 0)
    beyond = needed - (interval - place_of(save, state, interval))
    return needed + save.stall * max(whole(beyond / interval), 0)

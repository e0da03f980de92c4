"""Periodic checkpoints to one store outside the nodes, blocking or asynchronous.

A save cycle is ``interval`` of stepping and then a stall. A blocking save is durable when its stall ends. An
asynchronous one copies the state during the stall, goes on stepping, and is durable ``drain`` later.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ettrick.sim.policies.checkpoint.stores import TIE, StorePlan, in_flight, whole, whole_steps
from ettrick.sim.policies.contracts import CheckpointState, Damage, Pace, Restoration

if TYPE_CHECKING:
    from collections.abc import Callable


class Periodic(NamedTuple):
    """Closed form of a periodic save; every time in seconds of wall time.

    Parameters
    ----------
    interval
        Stepping until a save is due [s], rounded up to whole steps; it waits until the one before is durable.
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
    def rungs(self) -> tuple[StorePlan, ...]:
        """The store, as those of a ladder."""
        return (
            StorePlan("remote", self.interval, self.stall, self.drain, self.load, self.load, transfer=self.transfer),
        )

    @property
    def minds_nodes(self) -> bool:
        """Stores outside the nodes survive whatever happens to the nodes."""
        return False

    @property
    def pauses(self) -> tuple[()]:
        """Periodic work in addition to the saves: none."""
        return ()

    def stepping(self, pace: Pace) -> float:
        """Return how long the group steps between two saves [s]: whole steps, at least the drain."""
        return stepping(self, pace.step)

    def advance(self, state: CheckpointState, pace: Pace, seconds: float) -> tuple[CheckpointState, float, float]:
        """Return the state after `seconds` [s] of RUNNING, and how many were stepping and periodic work [s].

        There is no periodic work next to these saves.
        """
        state, stepped = advance(self, state, pace.rate, pace.step, seconds)
        return state, stepped, 0.0

    def time_to(self, state: CheckpointState, pace: Pace, work: float) -> float:
        """Return the time [s] until `work` [s] more healthy seconds have been done; the last save is not awaited."""
        return time_to(self, state, pace.step, work / pace.rate)

    def restore(
        self,
        state: CheckpointState,
        pace: Pace,
        damage: Damage,
        sound: float = math.inf,
        mark: Callable[[str], float] | None = None,
    ) -> Restoration:
        """Return what a restore goes back to: the newest durable save, whatever has happened to the nodes.

        What is kept live loses the step in flight only, unless it is not `sound`, and is written on. Otherwise a save
        that has not become durable is void.
        """
        if damage.keeps == "live":
            live = self._whole_steps(state, pace)
            work = live.committed + live.at_risk
            if work <= sound + TIE * (state.committed + state.at_risk):
                return Restoration(live, 0.0, "peer")
        committed = min(state.committed, sound)
        seconds = self.load if committed > 0 else 0.0
        return Restoration(CheckpointState(committed), seconds, "remote")

    def _whole_steps(self, state: CheckpointState, pace: Pace) -> CheckpointState:
        """Return the state without the step in flight and without a save that is in its stall: that is still due."""
        if state.stall_left > 0:
            return state._replace(position=self.stepping(pace), stall_left=0.0)
        lost = in_flight(state.position, pace.step)
        return state._replace(at_risk=max(state.at_risk - lost * pace.rate, 0.0), position=state.position - lost)

    def wait(self, state: CheckpointState, seconds: float) -> CheckpointState:
        """Return the state after `seconds` [s] in which nobody steps, but the replicas write on what they save."""
        if state.draining <= 0:
            return state
        if seconds < state.drain_left:
            return state._replace(drain_left=state.drain_left - seconds)
        committed, at_risk = state.committed + state.draining, state.at_risk - state.draining
        return state._replace(committed=committed, at_risk=at_risk, draining=0.0, drain_left=0.0)

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
    return whole_steps(max(save.interval, save.drain), step)


def head_start(save: Periodic, state: CheckpointState, interval: float, step: float) -> float:
    """Return by how much the first save comes earlier than one that has to wait for the one before [s]."""
    return interval - whole_steps(save.interval, step) if state.is_first and save.drain > save.interval else 0.0


def place_of(save: Periodic, state: CheckpointState, interval: float, head: float) -> float:
    """Return where in the cycle of stepping and stall a state is [s].

    After a change of pace the interval may be shorter than what has been stepped: then a save is due.
    """
    if state.stall_left > 0:
        return interval + save.stall - state.stall_left
    place = state.position + head
    return place if place < interval else interval


def advance(
    save: Periodic, state: CheckpointState, rate: float, step: float, seconds: float
) -> tuple[CheckpointState, float]:
    """Return the state after `seconds` [s] of RUNNING, and how many of them were stepping [s].

    A second of stepping is `rate` healthy seconds of work [-], and a step takes `step` [s]; 0 for continuous progress.
    """
    interval = stepping(save, step)
    cycle = interval + save.stall
    head = head_start(save, state, interval, step)
    place = place_of(save, state, interval, head)
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
        at_risk += stepped * rate
        position = tail - head
        return CheckpointState(committed, at_risk, position, draining, left, stall_left, state.is_first), stepped
    first = at_risk + (interval - before) * rate
    between = (cycles - 1) * interval
    stepped = interval - before + between + tail
    if rest >= save.drain:
        committed += first + between * rate
        return CheckpointState(committed, tail * rate, tail, 0.0, 0.0, stall_left, False), stepped
    # The newest save is still on its way; the one before it is durable.
    newest = interval * rate if cycles > 1 else first
    committed += first + between * rate - newest
    return CheckpointState(committed, newest + tail * rate, tail, newest, save.drain - rest, stall_left, False), stepped


def time_to(save: Periodic, state: CheckpointState, step: float, needed: float) -> float:
    """Return the time [s] until a group has stepped for `needed` [s] more; the last save is not awaited."""
    interval = stepping(save, step)
    if state.stall_left > 0:
        return state.stall_left + needed + save.stall * max(whole(needed / interval) - 1, 0)
    beyond = needed - (interval - place_of(save, state, interval, head_start(save, state, interval, step)))
    return needed + save.stall * max(whole(beyond / interval), 0)

"""Checkpoints in several stores, each with a rhythm of its own, and work that stops the job next to them: closed form.

Every store has its series of saves, and every kind of periodic work has one. A series counts the time spent stepping.
Where some are due at once, stepping stops for as long as all of them take, the saves first. When the stop is over the
saves are taken, and each becomes complete after the drain of its store, during which the job steps on.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ettrick.sim.policies.checkpoint.stores import (
    TIE,
    PeriodicStalls,
    RestoreCost,
    RestoreSource,
    StoredCheckpoints,
    StoreName,
    StorePlan,
    after,
    before,
    cut,
    in_flight,
    missing,
    newer_than,
    reach,
    read,
    waited,
    whole_steps,
    without_end,
    work_in,
)
from ettrick.sim.policies.contracts import Damage, Pace, Restoration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_NEVER = 1e15

"""Stepping after which a series is due that somebody else begins [s]: longer than anything that is simulated."""

# Which checkpoint a restore reads: the newest of which every shard is left, from the quickest stores that hold it.


class Choice(NamedTuple):
    """The work that a restore goes back to [s], how long it reads [s], from where, and what the stores hold then."""

    work: float
    seconds: float
    store: StoreName
    shelves: list[StoredCheckpoints]


class _Search:
    """Checkpoints that may be read, store by store; the newest ones that are of no use are passed over."""

    def __init__(
        self,
        sources: Sequence[RestoreSource | None],
        shelves: Sequence[StoredCheckpoints],
        spacings: Sequence[float],
        sound: float,
    ) -> None:
        self.sources = sources
        self.shelves = [
            without_end(shelf, spacing) if source is not None and source.rung.keeps_all else shelf
            for source, shelf, spacing in zip(sources, shelves, spacings, strict=True)
        ]
        self.spacings = spacings
        self.passed = [newer_than(shelf, sound, spacing) for shelf, spacing in zip(self.shelves, spacings, strict=True)]
        self.spent = 0.0

    def newest(self) -> tuple[float, list[int]]:
        """Return the most work in a checkpoint that is left [s], and the stores that hold it, if any."""
        works = {
            index: work_in(shelf, self.passed[index], self.spacings[index])
            for index, shelf in enumerate(self.shelves)
            if self.sources[index] is not None and self.passed[index] < shelf.checkpoints
        }
        most = max(works.values(), default=0.0)
        return most, [index for index, work in works.items() if work >= most * (1 - TIE)]

    def attempt(
        self, holders: list[int], damaged: frozenset[int], nodes: int, mark: Callable[[str], float] | None
    ) -> RestoreCost | None:
        """Return how a step that some stores hold is read; ``None`` if it cannot be: then skip its checkpoints."""
        sources = [source for index in holders if (source := self.sources[index]) is not None]
        reading = read(sources, damaged, nodes)
        if reading is None:
            useless = holders
        else:
            self.spent += reading.seconds
            useless = [
                index
                for index, source in zip(holders, sources, strict=True)
                if source.rung.store in reading.stores and not self._can_read(index, source, mark)
            ]
        for index in useless:
            self.passed[index] += 1
        return None if useless else reading

    def _can_read(self, index: int, source: RestoreSource, mark: Callable[[str], float] | None) -> bool:
        """Return whether a checkpoint can be read; one that has been read before can."""
        number = self.passed[index]
        if mark is None or source.rung.corrupt == 0 or (number == 0 and self.shelves[index].good):
            return True
        return mark(f"unreadable {source.rung.store} {number}") >= source.rung.corrupt

    def left(self, work: float, stores: frozenset[StoreName], *, was_read: bool) -> list[StoredCheckpoints]:
        """Return what is held when `work` [s] has been read from some stores; `was_read`: its marks were drawn."""
        shelves = []
        for shelf, source, spacing, passed in zip(self.shelves, self.sources, self.spacings, self.passed, strict=True):
            remaining = cut(shelf, shelf.checkpoints if source is None or source.lacks else passed, spacing)
            if source is not None and remaining.checkpoints and abs(remaining.newest - work) <= TIE * work:
                remaining = remaining._replace(
                    newest=work, good=remaining.good or (was_read and source.rung.store in stores)
                )
            shelves.append(remaining)
        return shelves


def choose(
    sources: Sequence[RestoreSource | None],
    shelves: Sequence[StoredCheckpoints],
    spacings: Sequence[float],
    damaged: frozenset[int],
    nodes: int,
    sound: float,
    mark: Callable[[str], float] | None,
) -> Choice:
    """Return which checkpoint a restore reads.

    Parameters
    ----------
    sources
        What is left of each store, the remote one first; ``None`` for nothing.
    shelves, spacings
        What they held, and how far apart their checkpoints are [s of work].
    damaged
        Positions that have lost something.
    nodes
        Positions [-].
    sound
        Work up to which checkpoints are of use [s].
    mark
        Numbers that decide whether a checkpoint can be read.
    """
    search = _Search(sources, shelves, spacings, sound)
    while True:
        work, holders = search.newest()
        if not holders:
            break
        reading = search.attempt(holders, damaged, nodes, mark)
        if reading is not None:
            stored = search.left(work, reading.stores, was_read=mark is not None)
            return Choice(work, search.spent, reading.store, stored)
    return _oldest(search, sound, nodes, mark)


def _oldest(search: _Search, sound: float, nodes: int, mark: Callable[[str], float] | None) -> Choice:
    """Return the oldest remote checkpoint, if none from before the fault is left; else the start of the job."""
    remote, source, spacing = search.shelves[0], search.sources[0], search.spacings[0]
    oldest = work_in(remote, remote.checkpoints - 1, spacing)
    deleted = source is not None and not source.rung.keeps_all and oldest > spacing * (1 + TIE)
    if deleted and newer_than(remote, sound, spacing) >= remote.checkpoints:
        for number in reversed(range(remote.checkpoints)):
            work = work_in(remote, number, spacing)
            search.passed = [
                newer_than(shelf, work, between) for shelf, between in zip(search.shelves, search.spacings, strict=True)
            ]
            search.passed[0] = number
            reading = search.attempt([0], frozenset(), nodes, mark)
            if reading is not None:
                stored = search.left(work, reading.stores, was_read=mark is not None)
                # All older ones have been read.
                stored[0] = stored[0]._replace(checkpoints=1)
                return Choice(work, search.spent, reading.store, stored)
    return Choice(0.0, search.spent, "remote", [cut(shelf, shelf.checkpoints, 1.0) for shelf in search.shelves])


class Pause(NamedTuple):
    """Work of a job that comes round like a save, takes `seconds` [s], and makes nothing durable.

    It comes after `interval` [s] of stepping at the healthy pace, or after `in_steps` steps of any pace if above zero.
    """

    interval: float
    in_steps: int
    seconds: float

    def period(self, step: float) -> float:
        """Return how long the group steps in between [s]: whole steps of `step` [s]."""
        if step <= 0:
            return self.interval
        return self.in_steps * step if self.in_steps else whole_steps(self.interval, step)


class LadderState(NamedTuple):
    """Progress in healthy seconds of work; times in seconds of wall time.

    Each series has stepped ``since`` its last stop [s]. One shelf belongs to each store, the remote one first; their
    series come first too, in the same order. In a stop, ``stall_left`` [s] of it are to come and ``due`` are the series
    that it is for.
    """

    work: float
    since: tuple[float, ...]
    shelves: tuple[StoredCheckpoints, ...]
    due: tuple[int, ...] = ()
    stall_left: float = 0.0

    @property
    def committed(self) -> float:
        """Work in the newest checkpoint outside the nodes [s]."""
        return self.shelves[0].newest

    @property
    def at_risk(self) -> float:
        """Work beyond that [s]."""
        return self.work - self.shelves[0].newest


@dataclass(frozen=True)
class MultiLevelCheckpoint:
    """Closed form of a ladder of stores and of periodic work.

    Parameters
    ----------
    rungs
        The stores, one of them remote.
    pauses
        Periodic work.
    nodes, replicas
        Positions of the job, and the replicas that they form in order [-].
    """

    rungs: tuple[StorePlan, ...]
    pauses: tuple[Pause, ...] = ()
    nodes: int = 1
    replicas: int = 1
    _grids: dict[float, PeriodicStalls] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def stores(self) -> tuple[StorePlan, ...]:
        """The stores that checkpoints are saved to, the remote one first."""
        saved = [rung for rung in self.rungs if rung.store != "peer"]
        return tuple(sorted(saved, key=lambda rung: rung.store != "remote"))

    @cached_property
    def _limits(self) -> tuple[int, ...]:
        """Checkpoints that each store keeps [-]."""
        return tuple(rung.retain or sys.maxsize for rung in self.stores)

    @cached_property
    def _drains(self) -> tuple[float, ...]:
        """The time that each store takes to complete a checkpoint, after the stop [s]."""
        return tuple(rung.drain for rung in self.stores)

    @cached_property
    def peer(self) -> StorePlan | None:
        """Reading from a live replica, if the job can."""
        return next((rung for rung in self.rungs if rung.store == "peer"), None)

    @property
    def interval(self) -> float:
        """Stepping between two saves to the remote store [s]."""
        return self.stores[0].interval

    @property
    def stall(self) -> float:
        """The time for which stepping stops for a save to the remote store [s]."""
        return self.stores[0].stall

    @property
    def drain(self) -> float:
        """From the end of the stall until the save is in the remote store [s]."""
        return self.stores[0].drain

    @property
    def load(self) -> float:
        """Time of a restore from the remote store [s]."""
        return self.stores[0].load

    @property
    def minds_nodes(self) -> bool:
        """Checkpoints on nodes go with them."""
        return len(self.rungs) > 1

    @property
    def transfer(self) -> tuple[float, float]:
        """The time that the nodes take to read a remote restore by themselves, and the time of the store [s]."""
        return self.stores[0].transfer

    @property
    def begin(self) -> LadderState:
        """The state of a job that has done nothing yet."""
        series = len(self.stores) + len(self.pauses)
        return LadderState(0.0, (0.0,) * series, (StoredCheckpoints(),) * len(self.stores))

    def stepping(self, pace: Pace) -> float:
        """Return how long the group steps between two saves to the remote store [s]."""
        return self.grid(pace).periods[0]

    def grid(self, pace: Pace) -> PeriodicStalls:
        """Return the series at some pace."""
        grid = self._grids.get(pace.step)
        if grid is None:
            pauses = [pause.period(pace.step) for pause in self.pauses]
            grid = PeriodicStalls.of(
                [*(rung.period(pace.step) for rung in self.stores), *pauses],
                [*(rung.stall for rung in self.stores), *(pause.seconds for pause in self.pauses)],
                [*(rung.start(pace.step) for rung in self.stores), *pauses],
            )
            # Paces repeat; those of nodes that are slow by chance do not.
            if len(self._grids) < 256:
                self._grids[pace.step] = grid
        return grid

    def _running_grid(self, pace: Pace) -> PeriodicStalls:
        """Return the series that stop the job by themselves at some pace."""
        grid = self.grid(pace)
        if not self._shares:
            return grid
        return PeriodicStalls.of(
            (_NEVER, *grid.periods[1:]), (0.0, *grid.stalls[1:]), (_NEVER, *grid.first_periods[1:])
        )

    def advance(self, state: LadderState, pace: Pace, seconds: float) -> tuple[LadderState, float, float]:
        """Return the state after `seconds` [s] of RUNNING, and how many were stepping and periodic work [s]."""
        left = state.stall_left
        grid = self._running_grid(pace)
        if seconds < left:
            shelves = tuple(map(waited, state.shelves, (seconds,) * len(state.shelves), self._limits))
            later = LadderState(state.work, state.since, shelves, state.due, left - seconds)
            return later, 0.0, self._pausing(grid, state.due, left) - self._pausing(grid, state.due, left - seconds)
        firsts = self._firsts(state, grid)
        counts, is_due = [0] * grid.series, [False] * grid.series
        stepped, stall_left = reach(grid, firsts, seconds - left, counts, is_due)
        due = tuple([index for index, is_so in enumerate(is_due) if is_so]) if stall_left > 0 else ()
        paused = 0.0
        for index in range(len(self.stores), grid.series):
            paused += counts[index] * grid.stalls[index]
        if self.pauses:
            paused += self._pausing(grid, state.due, left) - self._pausing(grid, due, stall_left)
        due_before = state.due
        since = [
            since_stop(grid, index, firsts[index], counts[index], last, stepped, index in due_before, is_due[index])
            for index, last in enumerate(state.since)
        ]
        rate = pace.rate
        shelves = tuple(
            [
                filled(
                    grid, firsts, index, shelf, state.work, left, rate, seconds, stepped, counts[index],
                    index in due_before, is_due[index], self._limits[index], self._drains[index],
                )
                for index, shelf in enumerate(state.shelves)
            ]
        )  # fmt: skip
        return LadderState(state.work + stepped * rate, tuple(since), shelves, due, stall_left), stepped, paused

    @staticmethod
    def _firsts(state: LadderState, grid: PeriodicStalls) -> list[float]:
        """Return how long each series steps until it is due, from the end of the stop if there is one [s]."""
        due, shelves = state.due, state.shelves
        return [
            first_due(grid, index, since, index in due, index < len(shelves) and shelves[index].is_first)
            for index, since in enumerate(state.since)
        ]

    def _pausing(self, grid: PeriodicStalls, due: Sequence[int], left: float) -> float:
        """Return how much periodic work is in what is `left` of a stop [s]: it comes after the saves."""
        return min(left, sum(grid.stalls[index] for index in due if index >= len(self.stores)))

    def time_to(self, state: LadderState, pace: Pace, work: float) -> float:
        """Return the time [s] until `work` [s] more healthy seconds have been done; the last stop is not awaited."""
        grid = self._running_grid(pace)
        return state.stall_left + before(grid, self._firsts(state, grid), work / pace.rate)

    def restore(
        self,
        state: LadderState,
        pace: Pace,
        damage: Damage,
        sound: float = math.inf,
        mark: Callable[[str], float] | None = None,
    ) -> Restoration:
        """Return what a restore goes back to: the newest step of which every shard can be read in some store.

        A live peer holds the last step. Of stores with the same step each node reads the quickest; the restore takes as
        long as the slowest node, and as all attempts at checkpoints that could not be read. What did not survive is
        empty until the next save; the series go on as if the job had just come to this step for the first time. Where
        all checkpoints that are kept are newer than what is `sound`, and older ones were deleted, the oldest is taken.
        """
        last = self._whole_steps(state, pace)
        sources = [missing(rung, damage, self.nodes, self.replicas) for rung in self.stores]
        if damage.keeps == "live" and last.work <= sound + TIE * state.work:
            # Checkpoints of which those who leave held a part are of no use; the next ones are spread over who is left.
            useful = tuple(
                shelf if source is not None and not source.lacks else cut(shelf, shelf.checkpoints, 1.0)
                for shelf, source in zip(last.shelves, sources, strict=True)
            )
            return Restoration(last._replace(shelves=useful), 0.0, "peer")
        grid = self.grid(pace)
        spacings = [period * pace.rate for period in grid.periods[: len(self.stores)]]
        shelves = list(state.shelves)
        if self.peer is not None and damage.live and damage.keeps in ("live", "processes") and last.work > 0:
            sources.append(RestoreSource(self.peer, frozenset(), frozenset()))
            shelves.append(StoredCheckpoints(last.work, 1))
            spacings.append(1.0)
        damaged = damage.lost | damage.rebooted if damage.keeps != "stores" else frozenset()
        choice = choose(sources, shelves, spacings, damaged, self.nodes, sound, mark)
        stored = tuple(shelf._replace(is_first=True) for shelf in choice.shelves[: len(self.stores)])
        since = self._since(state, grid, stored, choice.work, (state.work - choice.work) / pace.rate)
        return Restoration(LadderState(choice.work, since, stored), choice.seconds, choice.store)

    def _whole_steps(self, state: LadderState, pace: Pace) -> LadderState:
        """Return the state without the step in flight and without a stop that has begun: that is still due."""
        shelves = state.shelves
        if state.stall_left > 0:
            periods = enumerate(zip(self.grid(pace).periods, state.since, strict=True))
            since = tuple(period if index in state.due else last for index, (period, last) in periods)
            return LadderState(state.work, since, shelves)
        lost = in_flight(state.since[0], pace.step)
        # After a change of pace within a step, it may seem to have begun before the newest checkpoint was taken.
        work = max(state.work - lost * pace.rate, *(max(shelf.newest, shelf.draining) for shelf in shelves))
        stepped = tuple(max(since - lost, 0.0) for since in state.since)
        return LadderState(work if work > TIE * state.work else 0.0, stepped, shelves)

    @staticmethod
    def _since(
        state: LadderState, grid: PeriodicStalls, shelves: Sequence[StoredCheckpoints], work: float, back: float
    ) -> tuple[float, ...]:
        """Return how long each series has stepped since it was last due [s], `back` [s] of stepping ago, at `work`."""
        if work <= 0:
            return (0.0,) * len(state.since)
        return tuple(
            since_step(grid, index, last, index in state.due, back)
            if index >= len(shelves) or shelves[index].newest != work
            else 0.0
            for index, last in enumerate(state.since)
        )

    def wait(self, state: LadderState, seconds: float) -> LadderState:
        """Return the state after `seconds` [s] in which nobody steps, but the replicas write on what they save.

        A save that shares its store is written on by the engine, when the job steps again.
        """
        shelves = tuple(map(waited, state.shelves, (seconds,) * len(state.shelves), self._limits))
        return state._replace(shelves=(state.shelves[0], *shelves[1:]) if self._shares else shelves)

    def saved(self, state: LadderState) -> LadderState:
        """Return the state after a save outside the schedule has put everything into the remote store."""
        remote, *on_nodes = state.shelves
        shelves = (
            StoredCheckpoints(state.work, min(remote.checkpoints + 1, self._limits[0])),
            *(shelf._replace(draining=0.0, drain_left=0.0) for shelf in on_nodes),
        )
        return LadderState(state.work, (0.0, *state.since[1:]), shelves)

    def save_time(self) -> float:
        """Return how long it takes to save to the remote store and wait until that is durable [s]."""
        return self.stall + self.drain

    # Saves that others are in the way of: the engine says when they begin and end.

    @property
    def _shares(self) -> bool:
        """Whether the engine begins saves to the remote store, and no closed form does."""
        return self.stores[0].save_share > 0

    def staggered(self, state: LadderState, part: float, pace: Pace) -> LadderState:
        """Return the state with a next save to the remote store a `part` of a period early, in whole steps."""
        early = part * self.grid(pace).first_periods[0]
        return state._replace(since=(early - in_flight(early, pace.step), *state.since[1:]))

    def until_save(self, state: LadderState, pace: Pace) -> float:
        """Return the time [s] until the next stop for a save to the remote store begins: it comes between two steps."""
        grid = self.grid(pace)
        since = 0.0 if 0 in state.due else state.since[0]
        period = grid.first_periods[0] if state.shelves[0].is_first and 0 not in state.due else grid.periods[0]
        first = max(period, whole_steps(since, pace.step)) - since
        running_grid = self._running_grid(pace)
        return state.stall_left + before(running_grid, self._firsts(state, running_grid), first)

    def at_save(self, state: LadderState, pace: Pace) -> LadderState:
        """Return the state when that stop begins, together with all others that are due."""
        grid = self.grid(pace)
        due, left = state.due, state.stall_left
        if not due:
            due = tuple(i for i in range(1, grid.series) if state.since[i] >= grid.periods[i] * (1 - TIE))
            left = sum(grid.stalls[index] for index in due)
        since = tuple(grid.periods[index] if index in (0, *due) else last for index, last in enumerate(state.since))
        return state._replace(since=since, due=(0, *due), stall_left=left + self.stall)

    def others(self, state: LadderState, pace: Pace) -> float:
        """Return how much of a stop follows the save to the remote store [s]."""
        stalls = self.grid(pace).stalls
        return sum(stalls[index] for index in state.due if index)

    def taken(self, state: LadderState, pace: Pace) -> LadderState:
        """Return the state at the end of a stop, when checkpoints are taken."""
        return self.advance(state._replace(stall_left=0.0), pace, 0.0)[0] if state.due else state

    def retimed(self, state: LadderState, left: float) -> LadderState:
        """Return the state with the remote checkpoint on its way complete in `left` [s]."""
        remote, *on_nodes = state.shelves
        if left <= 0:
            return state._replace(shelves=(waited(remote, remote.drain_left, self._limits[0]), *on_nodes))
        return state._replace(shelves=(remote._replace(drain_left=left), *on_nodes))

    def saves_remotely(self, state: LadderState) -> bool:
        """Return whether a save to the remote store is on its way."""
        return state.shelves[0].draining > 0 if self.drain else 0 in state.due

    def sound(self, state: LadderState) -> float:
        """Return the work that a checkpoint holds which was begun before now [s]; a save is, once its stop has."""
        if any(index < len(self.stores) for index in state.due):
            return state.work
        return max(max(shelf.newest, shelf.draining) for shelf in state.shelves)


# ----------------------------------------
# The arithmetic of one series and of one shelf: what the compiled loop compiles.


def first_due(grid: PeriodicStalls, index: int, since: float, is_due: bool, is_first: bool) -> float:
    """Return how long a series steps until it is due, from the end of its stop if it is in one [s].

    One that has stepped `since` its last stop [s] without a save since the last start finds none on its way.
    """
    if is_due:
        return grid.periods[index]
    period = grid.first_periods[index] if is_first else grid.periods[index]
    return period - since if since < period else 0.0


def since_stop(
    grid: PeriodicStalls, index: int, first: float, count: int, last: float, stepped: float, was_due: bool, is_due: bool
) -> float:
    """Return how long a series has stepped since its last stop [s], after so much was `stepped` [s].

    Parameters
    ----------
    grid, index
        Which one.
    first
        How long it stepped until it was due, from the end of the stop if it was in one [s].
    count
        How often it came due [-].
    last
        How long it had stepped since its last stop before [s].
    stepped
        Stepping [s].
    was_due, is_due
        Whether it was in a stop, and whether it is.
    """
    if is_due:
        return grid.periods[index]
    if count:
        return stepped - first - (count - 1) * grid.periods[index]
    return stepped if was_due else last + stepped


def since_step(grid: PeriodicStalls, index: int, last: float, is_due: bool, back: float) -> float:
    """Return how long a series had stepped since it was due [s], `back` [s] of stepping ago; now it is `last` [s].

    Nothing is on its way there, so a save that was late or left out is none: multiples of the first period count.
    """
    period = grid.periods[index]
    left = (period if is_due else last) - back
    if left < 0:
        left %= period
        slack = TIE * (back + period)
        left = 0.0 if left < slack or period - left < slack else left
    return left % grid.first_periods[index] if grid.first_periods[index] <= left < period else left


def filled(
    grid: PeriodicStalls,
    firsts: Sequence[float],
    index: int,
    shelf: StoredCheckpoints,
    work: float,
    stall_left: float,
    rate: float,
    seconds: float,
    stepped: float,
    count: int,
    was_due: bool,
    is_due: bool,
    limit: int,
    drain: float,
) -> StoredCheckpoints:
    """Return what a store holds after some time. A save never finds the one before on its way.

    Parameters
    ----------
    grid, firsts, index
        The series, how long each steps until it is due [s], and which one is the store's.
    shelf, work, stall_left
        What it held, the work that was done, and what was to come of a stop [s].
    rate
        Healthy seconds of work in a second of stepping [-].
    seconds, stepped
        The time, and how much of it was stepping [s].
    count, was_due, is_due
        How often it came due [-], and whether it was in a stop, and is.
    limit, drain
        Checkpoints that are kept [-], and how long one takes from the stop until it is complete [s].
    """
    if is_due:
        count -= 1
    saves = count + 1 if was_due else count
    if saves == 0:
        return waited(shelf, seconds, limit)
    place = firsts[index] + (count - 1) * grid.periods[index] if count else 0.0
    saved_work = work + place * rate
    checkpoints = shelf.checkpoints + saves + (1 if shelf.draining > 0 else 0)
    drain_left = 0.0
    if drain > stepped - place:
        wall = after(grid, firsts, place) if count else 0.0
        drain_left = stall_left + wall + drain - seconds
    if drain_left <= 0:
        return StoredCheckpoints(saved_work, min(checkpoints, limit), False, 0.0, 0.0, False)
    if count > 1:
        newest = saved_work - grid.periods[index] * rate
    elif saves > 1:
        newest = work
    else:
        newest = shelf.draining if shelf.draining > 0 else shelf.newest
    good = shelf.good and saves == 1 and shelf.draining == 0
    return StoredCheckpoints(newest, min(checkpoints - 1, limit), good, saved_work, drain_left, False)

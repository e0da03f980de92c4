"""Stores of checkpoints: which shards survive what happens to the nodes, and how long each node reads.

A checkpoint is spread over the nodes of a job, a shard each, and is of use while every shard is somewhere.

==========  ==================================  ===========================================
store       what a process that ends leaves     what takes a shard
==========  ==================================  ===========================================
peer        while a replica lives               that no replica is left whole
host        all                                 reboot or loss of the node
peer-host   all                                 reboot or loss of every node of the clique
disk        all                                 loss of the node
remote      all                                 nothing that happens to nodes
==========  ==================================  ===========================================

References
----------
Z. Wang et al., "GEMINI: Fast failure recovery in distributed training with in-memory checkpoints", SOSP 2023: cliques,
there groups, whose members hold each other's shards. Its rest of machines forms a ring, here a larger clique.
NVIDIA Resiliency Extension, local checkpoints: ``replication_factor`` is our clique, ``replication_jump`` our jump.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableSequence, Sequence

    from ettrick.sim.policies.contracts import Damage

# Work that stops a job again and again: series of it, each due after so much stepping. Where some are due at the same
# instant, stepping stops once, for as long as all of them take.

TIE = 1e-9

"""Relative difference below which two times, or two amounts of work, are the same [-]."""


def whole(number: float) -> int:
    """Return `number` rounded up, where a whole number that rounding has moved stays what it was."""
    return math.ceil(number - TIE)


def whole_steps(seconds: float, step: float) -> float:
    """Return some stepping [s] rounded up to whole steps of `step` [s]; without steps as it is."""
    return seconds if step <= 0 else whole(seconds / step) * step


def in_flight(stepped: float, step: float) -> float:
    """Return how much of some stepping [s] belongs to a step that is not over, of `step` [s] each; 0 without steps."""
    if step <= 0:
        return 0.0
    steps = stepped / step
    return max(stepped - math.floor(steps + TIE * (1.0 + steps)) * step, 0.0)


class PeriodicStalls(NamedTuple):
    r"""Series that stop a job for ``stalls`` [s] each time that they have stepped for ``periods`` [s].

    After a start, with nothing on its way, a series is due after ``first_periods`` [s] of stepping. With series j first
    due after :math:`f_j` of stepping, the wall time at which stepping reaches x is

    .. math:: T(x) = x + \sum_j s_j \max\left(0, \left\lceil (x - f_j) / e_j \right\rceil\right)

    and it goes on from there when those due at x are over too.

    The functions below, like those of :mod:`ettrick.sim.policies.checkpoint.ladder` over numbers and shelves, run on
    tuples and lists in the event engine and on arrays in the compiled loop.
    """

    series: int
    periods: Sequence[float]
    stalls: Sequence[float]
    ratios: Sequence[float]
    """Stall over period, each [-]."""
    slope: float
    """Mean wall time for a second of stepping [-]."""
    spread: float
    """Wall time of a stop of all series [s]."""
    longest: Sequence[int]
    """Series by their stalls, longest first."""
    first_periods: Sequence[float]

    @classmethod
    def of(cls, periods: Sequence[float], stalls: Sequence[float], first_periods: Sequence[float]) -> PeriodicStalls:
        """Return the series with these periods, stalls and first periods after a start [s]."""
        ratios = tuple(stall / period for stall, period in zip(stalls, periods, strict=True))
        longest = tuple(sorted(range(len(stalls)), key=lambda index: -stalls[index]))
        slope, spread = 1.0 + sum(ratios), sum(stalls)
        return cls(len(periods), tuple(periods), tuple(stalls), ratios, slope, spread, longest, tuple(first_periods))


def before(grid: PeriodicStalls, firsts: Sequence[float], stepped: float) -> float:
    """Return the wall time [s] until so much has been `stepped` [s]; stops that begin then are not in it."""
    wall = stepped
    for index in range(grid.series):
        if grid.stalls[index] > 0 and stepped > firsts[index]:
            cycles = (stepped - firsts[index]) / grid.periods[index]
            wall += grid.stalls[index] * math.ceil(cycles - TIE * (1.0 + cycles))
    return wall


def after(grid: PeriodicStalls, firsts: Sequence[float], stepped: float) -> float:
    """Return the wall time [s] when the stops are over that begin when so much has been `stepped` [s]."""
    wall = stepped
    for index in range(grid.series):
        if grid.stalls[index] > 0:
            cycles = (stepped - firsts[index]) / grid.periods[index]
            wall += grid.stalls[index] * (math.floor(cycles + TIE * (2.0 + cycles)) + 1)
    return wall


def reach(
    grid: PeriodicStalls, firsts: Sequence[float], wall: float, counts: MutableSequence[int], due: MutableSequence[bool]
) -> tuple[float, float]:
    """Find where a wall time leads to.

    Between two bounds of what is stepped that lie no further apart than one stop of each series, few times are left at
    which a series may or may not have come due.

    Parameters
    ----------
    grid, firsts
        The series, and after how much stepping each is due for the first time [s].
    wall
        The time [s].
    counts, due
        Set to how often each series has come due, and to whether it has the stop that is not over (which is counted).

    Returns
    -------
    tuple of float
        How much of the time was stepping, and how much of the stop is to come [s].
    """
    offset = 0.0
    for index in range(grid.series):
        offset += grid.ratios[index] * firsts[index]
        due[index] = False
    high = (wall + offset) / grid.slope
    width = min(grid.spread / grid.slope, high)
    settled = True
    for index in range(grid.series):
        period = grid.periods[index]
        cycles = (high - firsts[index]) / period
        slack = TIE * (2.0 + cycles)
        count = int(cycles + slack + 1.0)
        counts[index] = count
        if count and cycles - slack - width / period < count - 1:
            settled = False
    if not settled:
        _count(grid, firsts, wall, high - width, high, offset, counts)
    return _place(grid, firsts, wall, counts, due)


def _count(
    grid: PeriodicStalls,
    firsts: Sequence[float],
    wall: float,
    low: float,
    high: float,
    offset: float,
    counts: MutableSequence[int],
) -> None:
    """Set how often each series comes due, given that what is stepped lies between `low` and `high` [s].

    The one with the longest stops is settled first: few of them fit between the bounds. What is left of the wall
    time then bounds the others more closely; `offset` is the sum of the ratios times the first stepping of all [s].
    """
    slope, spread = grid.slope, grid.spread
    remaining = wall + offset
    for place in range(grid.series):
        index = grid.longest[place]
        first, period, stall = firsts[index], grid.periods[index], grid.stalls[index]
        slack = TIE * (2.0 + (high - first) / period)
        count = max(math.floor((low - first) / period - slack) + 1, 0)
        most = max(math.floor((high - first) / period + slack) + 1, 0)
        while count < most and before(grid, firsts, first + count * period) <= wall:
            count += 1
        counts[index] = count
        if count:
            low = max(low, first + (count - 1) * period)
        high = min(high, first + count * period)
        remaining -= stall * count + grid.ratios[index] * first
        slope -= grid.ratios[index]
        spread -= stall
        high = max(min(high, remaining / slope), low)
        low = min(max(low, (remaining - spread) / slope), high)


def _place(
    grid: PeriodicStalls, firsts: Sequence[float], wall: float, counts: MutableSequence[int], due: MutableSequence[bool]
) -> tuple[float, float]:
    """Return where a wall time [s] leads to, given how often each series has come due; see `reach`."""
    stepped = wall
    stop = 0.0
    for index in range(grid.series):
        if counts[index]:
            stepped -= grid.stalls[index] * counts[index]
            last = firsts[index] + (counts[index] - 1) * grid.periods[index]
            if last > stop:
                stop = last
    if stepped >= stop:
        return stepped, 0.0
    whole_stop = 0.0
    for index in range(grid.series):
        period = grid.periods[index]
        if counts[index] and firsts[index] + (counts[index] - 1) * period >= stop - TIE * (stop + period):
            due[index] = True
            whole_stop += grid.stalls[index]
    left = stop - stepped
    if left < whole_stop:
        return stop, left
    # It has been reached, but nothing of the stop is over.
    for index in range(grid.series):
        if due[index]:
            due[index] = False
            counts[index] -= 1
    return stop, 0.0


StoreName: TypeAlias = Literal["peer", "host", "peer-host", "disk", "remote"]

"""Nearest first."""


class StorePlan(NamedTuple):
    """A store of a ladder, in numbers.

    Parameters
    ----------
    store
        Which one.
    interval
        Stepping between two saves [s]; 0 for a live peer, which holds the last step.
    stall
        How long stepping stops for a save [s].
    drain
        From the end of the stall until the checkpoint is complete [s].
    load
        Time that a node reads whose own shard has survived, or that reads from elsewhere by nature [s].
    fetch
        Time that a node reads whose own shard is gone [s].
    skips
        Whether a save that comes due during the drain of the one before is left out, not put off.
    retain
        Complete checkpoints that are kept [-]; ``None`` keeps all.
    corrupt
        Probability that a checkpoint cannot be read [-].
    clique, jump
        Nodes that hold each other's shards, and their distance in positions [-].
    every_replica
        Whether each replica holds the whole state.
    transfer
        Of the remote store's load, what the nodes take to read at their own bandwidth, and what the store takes to give
        it at its aggregate [s]; the longer counts. Zero where no bandwidth is known.
    save_share
        Share of the aggregate that the saves of all jobs have together [-]; 0 where each has what is stated.
    staggers
        Whether the first saves of the jobs are spread over an interval.
    """

    store: StoreName
    interval: float
    stall: float
    drain: float
    load: float
    fetch: float = 0.0
    skips: bool = False
    retain: int | None = None
    corrupt: float = 0.0
    clique: int = 2
    jump: int = 1
    every_replica: bool = False
    transfer: tuple[float, float] = (0.0, 0.0)
    save_share: float = 0.0
    staggers: bool = False

    @property
    def keeps_all(self) -> bool:
        """Whether no checkpoint is ever deleted. A live peer has one state, the last."""
        return self.retain is None and self.store != "peer"

    def period(self, step: float) -> float:
        """Return how long the group steps between two saves [s]: whole steps of `step` [s], at least the drain."""
        period = whole_steps(self.interval if self.skips else max(self.interval, self.drain), step)
        return period * max(whole(self.drain / period), 1) if self.skips else period

    def start(self, step: float) -> float:
        """Return how long the group steps from a start to the first save [s]: none is on its way, so none is late."""
        return whole_steps(self.interval, step)


class RestoreSource(NamedTuple):
    """A store that holds the step in question: the positions whose shard it has lost, and what is gone with nodes.

    A position in ``gone`` has lost its own shard, and reads that of another one.
    """

    rung: StorePlan
    lacks: frozenset[int]
    gone: frozenset[int]


class RestoreCost(NamedTuple):
    """The cost of a restore: the time of the slowest node [s], its store, and all stores that are read."""

    seconds: float
    store: StoreName
    stores: frozenset[StoreName]


def _last(nodes: int, clique: int, jump: int) -> tuple[int, int]:
    """Return the first position after the last whole block of cliques, and how many cliques follow."""
    first = nodes // (clique * jump) * clique * jump
    rest = nodes - first
    return first, rest // clique if rest >= clique else int(rest > 1)


def clique_of(position: int, nodes: int, clique: int, jump: int) -> int:
    """Return the number of the clique that holds the shard of a position.

    A block of ``clique * jump`` positions has `jump` cliques, whose members lie `jump` apart. What is left at the end
    forms cliques of neighbours, of which the last takes the rest; one node alone joins the clique before it.
    """
    first, more = _last(nodes, clique, jump)
    if position < first:
        block, place = divmod(position, clique * jump)
        return block * jump + place % jump
    before = first // clique
    if not more:
        return max(before - 1, 0)
    return before + min((position - first) // clique, more - 1)


def cliques(nodes: int, clique: int, jump: int) -> tuple[tuple[int, ...], ...]:
    """Return the positions of every clique."""
    members: dict[int, list[int]] = {}
    for position in range(nodes):
        members.setdefault(clique_of(position, nodes, clique, jump), []).append(position)
    return tuple(tuple(members[number]) for number in sorted(members))


def clique_size(number: int, nodes: int, clique: int, jump: int) -> int:
    """Return how many positions a clique has."""
    first, more = _last(nodes, clique, jump)
    before = first // clique
    if number < before:
        return clique + (nodes - first if not more and number == before - 1 else 0)
    if not before and not more:
        return nodes
    return clique if number < before + more - 1 else nodes - first - (more - 1) * clique


def _dead(rung: StorePlan, gone: frozenset[int], nodes: int) -> frozenset[int]:
    """Return the positions of the cliques that have lost every member."""
    by_clique: dict[int, list[int]] = {}
    for position in gone:
        by_clique.setdefault(clique_of(position, nodes, rung.clique, rung.jump), []).append(position)
    return frozenset(
        itertools.chain.from_iterable(
            members
            for number, members in by_clique.items()
            if len(members) == clique_size(number, nodes, rung.clique, rung.jump)
        )
    )


def missing(rung: StorePlan, damage: Damage, nodes: int, replicas: int) -> RestoreSource | None:
    """Return what a store has lost, or ``None`` if nothing of it is left."""
    if rung.store == "remote":
        return RestoreSource(rung, frozenset(), frozenset())
    if damage.keeps == "stores":
        return None
    gone = damage.lost if rung.store == "disk" else damage.lost | damage.rebooted
    lacks = _dead(rung, gone, nodes) if rung.store == "peer-host" else gone
    if rung.every_replica and len({position * replicas // nodes for position in lacks}) < replicas:
        lacks = frozenset()
    return RestoreSource(rung, lacks, gone) if len(lacks) < nodes else None


def read(sources: Iterable[RestoreSource], damaged: frozenset[int], nodes: int) -> RestoreCost | None:
    """Return how a step that all of `sources` hold is read, each shard from the quickest; ``None`` if one is nowhere.

    Only the nodes in `damaged` may have lost something. Of stores that are equally slow the
    first counts that one of them reads.
    """
    sources = tuple(sources)
    shared = frozenset.intersection(*(source.lacks for source in sources))
    if shared:
        return None
    slowest, slowest_at, stores = -1.0, 0, set()
    # Nodes that have lost nothing all read alike.
    for position in itertools.chain(damaged, (-1,) if len(damaged) < nodes else ()):
        seconds, best = min(
            (source.rung.fetch if position in source.gone else source.rung.load, index)
            for index, source in enumerate(sources)
            if position not in source.lacks
        )
        stores.add(sources[best].rung.store)
        if seconds > slowest or (seconds == slowest and best < slowest_at and position >= 0):
            slowest, slowest_at = seconds, best
    return RestoreCost(slowest, sources[slowest_at].rung.store, frozenset(stores))


class StoredCheckpoints(NamedTuple):
    """Checkpoints of a store, by the work in them [s].

    The newest complete one holds ``newest``; of the ``checkpoints`` that are kept each older one holds one interval
    less. ``good`` says whether the newest is known to be readable. The checkpoint on its way holds ``draining``, and is
    complete in ``drain_left`` [s]. ``is_first`` says whether none has been taken since the last start.
    """

    newest: float = 0.0
    checkpoints: int = 0
    good: bool = False
    draining: float = 0.0
    drain_left: float = 0.0
    is_first: bool = True


def waited(shelf: StoredCheckpoints, seconds: float, limit: int) -> StoredCheckpoints:
    """Return what is held `seconds` [s] later without a new save, of `limit` checkpoints at most."""
    if shelf.draining == 0:
        return shelf
    if seconds >= shelf.drain_left:
        return StoredCheckpoints(shelf.draining, min(shelf.checkpoints + 1, limit), False, 0.0, 0.0, shelf.is_first)
    left = shelf.drain_left - seconds
    return StoredCheckpoints(shelf.newest, shelf.checkpoints, shelf.good, shelf.draining, left, shelf.is_first)


def work_in(shelf: StoredCheckpoints, number: int, spacing: float) -> float:
    """Return the work in the checkpoint that `number` newer ones follow, at a `spacing` of the checkpoints [s]."""
    return max(shelf.newest - number * spacing, 0.0)


def without_end(shelf: StoredCheckpoints, spacing: float) -> StoredCheckpoints:
    """Return what a store holds that keeps everything: checkpoints at a `spacing` [s] since the job began."""
    if shelf.newest == 0:
        return shelf
    count = max(whole(shelf.newest / spacing), 0)
    return StoredCheckpoints(shelf.newest, count, shelf.good, shelf.draining, shelf.drain_left, shelf.is_first)


def newer_than(shelf: StoredCheckpoints, work: float, spacing: float) -> int:
    """Return how many checkpoints hold more than some `work` [s], were there no end of them."""
    beyond = shelf.newest - work
    return max(whole(beyond / spacing), 0) if beyond > TIE * shelf.newest else 0


def cut(shelf: StoredCheckpoints, number: int, spacing: float) -> StoredCheckpoints:
    """Return what is held without the `number` newest checkpoints and the one on its way."""
    if number >= shelf.checkpoints:
        return StoredCheckpoints(0.0, 0, False, 0.0, 0.0, shelf.is_first)
    if number == 0 and shelf.draining == 0:
        return shelf
    newest = work_in(shelf, number, spacing)
    return StoredCheckpoints(newest, shelf.checkpoints - number, shelf.good and number == 0, 0.0, 0.0, shelf.is_first)

"""Lives and failures: the clock ``busy`` on which lives end, and what the engine keeps available of each source.

Lives on the clock ``busy`` run only while the processes of a job do, on their node or in their job.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ettrick.sim import rng
from ettrick.sim.engine.kernel import order_of
from ettrick.sim.failures.effects import Victims
from ettrick.sim.failures.trace import fleet_of, life_key
from ettrick.sim.scenario.laws import Fixed, draw

if TYPE_CHECKING:
    from collections.abc import Callable

    from ettrick.sim.engine.kernel import Environment
    from ettrick.sim.engine.prepared import Prepared
    from ettrick.sim.failures.source import FailureSource
    from ettrick.sim.policies.contracts import Exposure
    from ettrick.sim.scenario.law_model import LawModel


NEVER = math.inf, 0

"""The time and the order of the event of a clock that has no lives."""

RELAPSE = 1 << 50
"""Added to the number of a failure for each relapse: far above the number of any life or incident."""


@dataclass(slots=True, eq=False)
class Lifetime:
    """A life of a slot."""

    node: int
    """Node that the life belongs to, or -1 for a life of a job."""
    source: int
    slot: int
    round: int
    due: float
    """Reading of the busy clock at which it ends [s]."""
    token: int = 0


class ExposureClock:
    """Time that runs now and then, and a heap of the lives that it ends."""

    __slots__ = ("at", "exposures", "is_on", "lives", "since", "total")

    def __init__(self, now: float, *exposures: Exposure) -> None:
        self.exposures = exposures
        """At which exposures of its group it runs."""
        self.is_on = False
        self.since = now
        self.total = 0.0
        self.lives: list[tuple[float, int, int, int, int, Lifetime]] = []
        self.at: tuple[float, int] = (math.inf, 0)
        """The time of the event that checks whether the first of them has ended [s], and its order at that moment."""

    def read(self, now: float) -> float:
        """Return for how long it has run so far [s]."""
        return self.total + (now - self.since) if self.is_on else self.total

    def turn(self, now: float) -> None:
        """Let it run if it stands still, and stand still if it runs."""
        if self.is_on:
            self.total += now - self.since
        self.since = now
        self.is_on = not self.is_on


@dataclass(slots=True, eq=False)
class _NodeClock:
    """Busy time of one node: what it had before it joined its group, and the group's clock at that moment."""

    before: float = 0.0
    joined: float = 0.0
    group: ExposureClock | None = None
    """The clock of its group."""
    lives: list[Lifetime] = field(default_factory=list)

    def push(self, group: ExposureClock, life: Lifetime) -> None:
        """Let a life of the node end with the clock of its group."""
        _push(group, life, life.due - self.before + self.joined)


class ExposureClocks:
    """Each group has a few clocks, of its processes and of its nodes, each with its lives and an event for the first.

    An event is armed only while its clock runs, so the cost follows the failures, not the phases.
    """

    occur: Callable[[Lifetime, float], Lifetime | None]
    """Gets each life that ends, and when [s]; returns the next one of its slot."""
    busy_clock_of: Callable[[int], ExposureClock | None]
    """The clock ``busy`` of the group that a node is in, of one that holds its nodes or not."""

    def __init__(self, kernel: Environment) -> None:
        self.kernel = kernel
        self.nodes: dict[int, _NodeClock] = {}

    def add_node_life(self, life: Lifetime) -> None:
        """Give a node that is in no group a life."""
        self.nodes.setdefault(life.node, _NodeClock()).lives.append(life)

    def add_group_life(self, clock: ExposureClock, life: Lifetime) -> None:
        """Give a clock of a group a life that belongs to no node."""
        _push(clock, life, life.due)

    def begin(self, life: Lifetime, seconds: float, now: float) -> None:
        """Let a life of a node, which may be in a group, end after `seconds` of its busy time."""
        clock = self.nodes.get(life.node)
        group = self.busy_clock_of(life.node)
        if clock is None:
            clock = self.nodes[life.node] = _NodeClock()
            if group is not None:
                clock.group = group
                clock.joined = group.read(now)
        life.due = clock.before + seconds
        if clock.group is not None:
            life.due += clock.group.read(now) - clock.joined
        clock.lives.append(life)
        if clock.group is not None:
            clock.push(clock.group, life)
            self.arm(clock.group, now)

    def void(self, life: Lifetime) -> None:
        """Forget a life."""
        life.token += 1
        clock = self.nodes.get(life.node)
        if clock is not None and life in clock.lives:
            clock.lives.remove(life)

    def void_slot(self, node: int, source: int, slot: int) -> None:
        """Forget the life of a slot, if it has one."""
        clock = self.nodes.get(node)
        for life in [] if clock is None else list(clock.lives):
            if (life.source, life.slot) == (source, slot):
                self.void(life)

    def join(self, node: int, group: ExposureClock, now: float) -> None:
        """Let the lives of a node run with a group."""
        clock = self.nodes.get(node)
        if clock is None:
            return
        clock.group = group
        clock.joined = group.read(now)
        for life in clock.lives:
            clock.push(group, life)
        self.arm(group, now)

    def leave(self, node: int, group: ExposureClock, now: float) -> None:
        """Stop the lives of a node."""
        clock = self.nodes.get(node)
        if clock is None:
            return
        clock.before += group.read(now) - clock.joined
        clock.group = None
        for life in clock.lives:
            life.token += 1

    def arm(self, clock: ExposureClock, now: float) -> None:
        """Arrange the event of the first life to end, if the clock runs.

        One event waits for each clock: waiting only moves the end away, and an event that comes too early looks again.
        """
        if clock.is_on and self._first(clock) is not None:
            due, source, slot, *_ = clock.lives[0]
            at = now + max(due - clock.read(now), 0.0), order_of(source, slot)
            if at < clock.at:
                clock.at = at
                self.kernel.at(*at, self._on_due, clock, at)

    def _first(self, clock: ExposureClock) -> Lifetime | None:
        """Return the first life of a clock to end; forget those whose node has left."""
        heap = clock.lives
        while heap and heap[0][5].token != heap[0][4]:
            heappop(heap)
        return heap[0][5] if heap else None

    def _on_due(self, clock: ExposureClock, at: tuple[float, int], now: float) -> None:
        if at != clock.at:
            return
        clock.at = NEVER
        life = self._first(clock)
        if life is None or not clock.is_on:
            return
        if now + (clock.lives[0][0] - clock.read(now)) > now or order_of(life.source, life.slot) > at[1]:
            self.arm(clock, now)
            return
        heappop(clock.lives)
        node = self.nodes.get(life.node)
        if node is not None:
            node.lives.remove(life)
        following = self.occur(life, now)
        if following is not None:
            if node is None:
                self.add_group_life(clock, following)
            else:
                node.lives.append(following)
                if node.group is not None:
                    node.push(node.group, following)
        self.arm(clock, now)


def _push(clock: ExposureClock, life: Lifetime, due: float) -> None:
    """Let a life end at a reading of a clock [s]."""
    heappush(clock.lives, (due, life.source, life.slot, life.round, life.token, life))


_COLUMNS = 64

_ANY_NUMBER = 1 << 50
"""Slots of jobs of a stream, which nobody has counted."""

_ONE_BY_ONE = 50
"""A look-up of its own costs about as much as fifty in a column."""


class UniformStream:
    """The uniform numbers of the slots of a source, by number of the life: the same as one by one, only sooner.

    `convert` makes something else of a slot's number, a life for example.
    """

    __slots__ = ("_asked", "_convert", "_few", "_key", "_slots", "columns")

    def __init__(self, key: int, slots: int, convert: Callable[[int, float], float] | None = None) -> None:
        self._key = key
        self._slots = slots
        self._few = max(slots // _ONE_BY_ONE, 1)
        self.columns: dict[int, list[float]] = {}
        self._asked: dict[int, int] = {}
        self._convert = convert

    def get(self, slot: int, number: int) -> float:
        """Return the number of a slot's life `number`."""
        column = self.columns.get(number)
        if column is None and number < _COLUMNS:
            count = self._asked[number] = self._asked.get(number, 0) + 1
            if count > self._few:
                column = self.columns[number] = rng.uniform(self._key, range(self._slots), number).tolist()
        u = rng.uniform_one(self._key, slot, number) if column is None else column[slot]
        return u if self._convert is None else self._convert(slot, u)


@dataclass(slots=True)
class FailureCounts:
    """Events by what became of them; ``docs/reference/metrics.md`` says how they add up."""

    candidates: int = 0
    suppressed: int = 0
    faults: int = 0
    harmless: int = 0
    degraded: int = 0
    healed: int = 0
    failures: int = 0
    masked: int = 0
    outside: int = 0
    hits: int = 0
    relapses: int = 0
    repairs: int = 0
    false_repairs: int = 0
    unblamed: int = 0
    evicted: int = 0
    wrong_blames: int = 0
    retired: int = 0
    retired_sound: int = 0
    true_alarms: int = 0
    false_alarms: int = 0
    missed: int = 0

    def clear(self) -> None:
        """Begin to count again."""
        for name in self.__slots__:
            setattr(self, name, 0)

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in sorted(self.__slots__)}


@dataclass(slots=True, eq=False)
class FailureEvent:
    """A failure and the random numbers that belong to it."""

    info: SourceInfo
    slot: int
    round: int
    is_found: bool = False
    """Whether a check has found the fault before it struck."""

    @property
    def is_foreseen(self) -> bool:
        """Whether it is known which node it is before that fails, or seems to."""
        recall = self.info.source.recall
        return self.is_found or (recall > 0 and (recall >= 1 or self.mark("foreseen") < recall))

    @property
    def is_found_before(self) -> bool:
        """Whether a check of its node, before that joins a job, finds what is wrong."""
        share = self.info.source.preflight
        return share > 0 and (share >= 1 or self.mark("preflight") < share)

    @property
    def notice(self) -> float:
        """Time from the moment when somebody knows to the stop [s]: a job that can save by then does; -1 for none."""
        source = self.info.source
        if self.info.saves or self.is_found:
            return source.notice
        if source.lead is None or not self.is_foreseen:
            return -1.0
        return draw(source.lead, self.mark, "lead")

    def mark(self, purpose: str) -> float:
        """Return the uniform number of this failure for `purpose`."""
        numbers = self.info.numbers.get(purpose)
        if numbers is None:
            numbers = self.info.numbers_for(purpose)
        return numbers.get(self.slot, self.round)

    def mark_at(self, node: int, purpose: str) -> float:
        """Return the uniform number for one of its nodes; where each is repaired by itself, each has its own."""
        if not self.info.apart:
            return self.mark(purpose)
        # The number of the failure is the key of those of its nodes: no text is hashed for each failure.
        return rng.uniform_one(int(self.mark(purpose) * 2.0**53), node)


class SourceInfo:
    """A source with what the hot path needs available; of a `stream`, whose jobs have lives of their own."""

    def __init__(self, source: FailureSource, index: int, prepared: Prepared, replication: int, *stream: str) -> None:
        self.source = source
        self.index = index
        self.cause = index + 1
        self.prefix = (prepared.seed, replication)
        self.stream = stream
        self.numbers: dict[str, UniformStream] = {}
        self.of_job = source.part == "job"
        self.of_fabric = source.of_fabric
        """Whether the cables decide whom its failures strike."""
        self.bucket = source.down_bucket
        self.stops = source.effect.stops
        self.saves = source.saves or source.effect.saves
        self.warns = self.saves or max(source.recall, source.checked[0], source.preflight) > 0
        """Whether somebody may know of its failures before they stop a node."""
        self.always = source.interrupts >= 1 and source.idle_hazard >= 1 and not source.thinned
        self.reboots = source.damage == "reboot"
        self._set_times(prepared)
        self._set_units(prepared)

    def _set_times(self, prepared: Prepared) -> None:
        """Set when its failures are detected, repaired and followed by the next."""
        source = self.source
        detection_race = source.detection_race
        fixed = detection_race.fixed if detection_race is not None else 0.0
        self.detection = detection_race.draw if detection_race is not None and fixed is None else fixed or 0.0
        """Time from a failure to its detection [s], or a function of the failure's marks."""
        self.repair = _sampler(source.repair) if source.repair is not None else 0.0
        self.returns = source.renews == "at_return" and source.clock != "in_service"
        """Whether the next life begins at the return; the clock in_service stands still until then anyway."""
        self.in_service = source.clock == "in_service"
        # A life that renews at failure is in the trace, at its own time.
        later = source.tempo is not None and source.renews != "at_failure"
        end = prepared.warmup + prepared.horizon
        self.tempo = source.tempo.realise(end, *self.prefix) if later and source.tempo is not None else None
        self.by_course = (
            source.repair is None and source.recorded is None and source.rollout is None and not self.of_job
        )
        """Whether the tiers of repair decide what becomes of a node."""
        self.keeps = source.fault in prepared.recovery.narrows_on and not self.by_course
        """Whether a node that it strikes may stay in its job with fewer GPUs; by the class of the fault, because the
        lives of the GPUs of a node may have been put together to one."""

    def _set_units(self, prepared: Prepared) -> None:
        """Set what its slots are, and which nodes a failure of one takes down."""
        source, blast = self.source, self.source.blast
        scattered = blast is not None and blast.spread is not None
        self.slots = _ANY_NUMBER if self.stream else prepared.nodes if scattered else source.units
        """The number of slots of its failures; those of scattered nodes have their node."""
        self.divisor = 1 if scattered else 0 if self.of_fabric else prepared.slots_per_node.get(source.part, 0)
        self.blast = prepared.blast.get(source.part, ((), ()))
        """Offsets and nodes of its units, of one whose failures take down several nodes."""
        self.apart = blast is not None and blast.repair == "nodes" and not scattered
        """Whether the nodes of one failure are repaired each by itself."""
        drawn = blast is not None and blast.size is not None and not scattered
        self.victims = Victims(blast, source.name, *self.prefix) if drawn and blast is not None else None

    @functools.cached_property
    def lives(self) -> UniformStream:
        """Lives of its slots by number, for those that are not all in the trace [s]."""
        fleet = fleet_of(self.source, *self.prefix)
        return UniformStream(life_key(self.source, *self.prefix), self.source.units, fleet.life)

    def numbers_for(self, purpose: str) -> UniformStream:
        """Return the marks for a purpose."""
        key = rng.stream(*self.prefix, *self.stream, "mark", self.source.name, purpose)
        stream = self.numbers[purpose] = UniformStream(key, self.slots)
        return stream


def process_sources(prepared: Prepared, replication: int, owner: str) -> list[SourceInfo]:
    """Return the sources of failures that strike processes and no node, with the lives of a stream or a service."""
    return [
        SourceInfo(source, index, prepared, replication, owner)
        for index, source in enumerate(prepared.sources)
        if source.of_processes
    ]


def _sampler(law: LawModel) -> float | Callable[[float], float]:
    """Return a constant time [s], or the inverse CDF of a law."""
    return law.value if isinstance(law, Fixed) else law.ppf_one

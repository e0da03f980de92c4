"""Lives on the clock ``busy``: they run only while the processes of a job do, on their node or in their job."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sim import rng
from sim.engine.kernel import Order
from sim.failures.spread import Victims, hidden_at_start
from sim.failures.trace import PARTS
from sim.scenario.laws import Fixed

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sim.engine.kernel import Call, Kernel
    from sim.engine.simulation import Simulation
    from sim.engine.state_jobs import Clock, Group
    from sim.failures.source import Source
    from sim.scenario.law_model import LawModel


class Life:
    """One life of one slot; ``due`` is the reading of the busy clock at which it ends [s]."""

    __slots__ = ("due", "node", "round", "slot", "source", "token")

    def __init__(self, node: int, source: int, slot: int, number: int, due: float) -> None:
        self.node = node
        """Node that the life belongs to, or -1 for a life of a job."""
        self.source = source
        self.slot = slot
        self.round = number
        self.due = due
        self.token = 0


class _NodeClock:
    """Busy time of one node: what it had before it joined its group, and the group's clock at that moment."""

    __slots__ = ("before", "group", "joined", "lives")

    def __init__(self) -> None:
        self.before = 0.0
        self.joined = 0.0
        self.group: Group | None = None
        self.lives: list[Life] = []

    def push(self, life: Life) -> None:
        """Let a life of the node end with the clock of its group."""
        assert self.group is not None
        _push(self.group.busy, life, life.due - self.before + self.joined)


class Lives:
    """Each group has a few clocks, of its processes and of its nodes, each with its lives and an event for the first.

    An event is armed only while its clock runs, so the cost follows the failures, not the phases.
    """

    def __init__(self, kernel: Kernel, group_of: Callable[[int], Group | None]) -> None:
        self.kernel = kernel
        self.occur: Callable[[Life], Life | None] = lambda _: None
        """Told each life that ends; returns the next one of its slot. Set once there is somebody to tell."""
        self.group_of = group_of
        """Which group a node is in, of one that holds its nodes or not."""
        self.nodes: dict[int, _NodeClock] = {}

    def add_node_life(self, life: Life) -> None:
        """Give a node that is in no group a life."""
        self.nodes.setdefault(life.node, _NodeClock()).lives.append(life)

    def add_group_life(self, clock: Clock, life: Life) -> None:
        """Give a clock of a group a life that belongs to no node."""
        _push(clock, life, life.due)

    def begin(self, life: Life, seconds: float, now: float) -> None:
        """Let a life of a node, which may be in a group, end after `seconds` of its busy time."""
        clock = self.nodes.get(life.node)
        group = self.group_of(life.node)
        if clock is None:
            clock = self.nodes[life.node] = _NodeClock()
            if group is not None:
                clock.group = group
                clock.joined = group.busy.read(now)
        life.due = clock.before + seconds
        if clock.group is not None:
            life.due += clock.group.busy.read(now) - clock.joined
        clock.lives.append(life)
        if clock.group is not None:
            clock.push(life)
            self.arm(clock.group.busy, now)

    def void(self, life: Life) -> None:
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

    def join(self, node: int, group: Group, now: float) -> None:
        """Let the lives of a node run with a group."""
        clock = self.nodes.get(node)
        if clock is None:
            return
        clock.group = group
        clock.joined = group.busy.read(now)
        for life in clock.lives:
            clock.push(life)
        self.arm(group.busy, now)

    def leave(self, node: int, group: Group, now: float) -> None:
        """Stop the lives of a node."""
        clock = self.nodes.get(node)
        if clock is None:
            return
        clock.before += group.busy.read(now) - clock.joined
        clock.group = None
        for life in clock.lives:
            life.token += 1

    def arm(self, clock: Clock, now: float) -> None:
        """Arrange the event of the first life to end, if the clock runs.

        One event waits for each clock: waiting only moves the end away, and an event that comes too early looks again.
        """
        if clock.is_on and self._first(clock) is not None:
            time = now + max(clock.lives[0][0] - clock.read(now), 0.0)
            if time < clock.at:
                clock.at = time
                self.kernel.at(time, Order.FAILURE, self._on_due, (clock, time))

    def _first(self, clock: Clock) -> Life | None:
        """Return the first life of a clock to end; forget those whose node has left."""
        heap = clock.lives
        while heap and heap[0][5].token != heap[0][4]:
            heappop(heap)
        return heap[0][5] if heap else None

    def _on_due(self, call: Call) -> None:
        clock, time = call.argument
        if time != clock.at:
            return
        clock.at = math.inf
        life = self._first(clock)
        if life is None or not clock.is_on:
            return
        now = self.kernel.now
        if now + (clock.lives[0][0] - clock.read(now)) > now:
            self.arm(clock, now)
            return
        heappop(clock.lives)
        node = self.nodes.get(life.node)
        if node is not None:
            node.lives.remove(life)
        following = self.occur(life)
        if following is not None:
            if node is None:
                self.add_group_life(clock, following)
            else:
                node.lives.append(following)
                if node.group is not None:
                    node.push(following)
        self.arm(clock, now)


def _push(clock: Clock, life: Life, due: float) -> None:
    """Let a life end at a reading of a clock [s]."""
    heappush(clock.lives, (due, life.source, life.slot, life.round, life.token, life))


# ----------------------------------------
# Random numbers of one purpose, looked up one by one or, where many are asked for, a whole column at once.

_COLUMNS = 64

_ONE_BY_ONE = 50

"""A look-up of its own costs about as much as fifty in a column."""


class Numbers:
    """The numbers of the slots of a source, by number of the life: the same as one by one, only sooner.

    `convert` makes something else of them, all at once (lives, for example); `convert_one` does so with one.
    """

    __slots__ = ("_asked", "_convert", "_convert_one", "_few", "_key", "_slots", "columns")

    def __init__(
        self,
        key: int,
        slots: int,
        convert: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
        convert_one: Callable[[int, float], float] | None = None,
    ) -> None:
        self._key = key
        self._slots = slots
        self._few = max(slots // _ONE_BY_ONE, 1)
        self.columns: dict[int, list[float]] = {}
        self._asked: dict[int, int] = {}
        self._convert = convert
        self._convert_one = convert_one

    def get(self, slot: int, number: int) -> float:
        """Return the number of a slot's life `number`."""
        column = self.columns.get(number)
        if column is not None:
            return column[slot]
        if number < _COLUMNS:
            asked = self._asked[number] = self._asked.get(number, 0) + 1
            if asked > self._few:
                column = self.columns[number] = self._column(number)
                return column[slot]
        found = rng.uniform_one(self._key, slot, number)
        return found if self._convert_one is None else self._convert_one(slot, found)

    def _column(self, number: int) -> list[float]:
        numbers = rng.uniform(self._key, range(self._slots), number)
        column: list[float] = (numbers if self._convert is None else self._convert(numbers)).tolist()
        return column


# ----------------------------------------
# One failure, what is known of its source, and what becomes of failures.


class Counts:
    """Events by what became of them; ``docs/reference/metrics.md`` says how they add up."""

    __slots__ = (
        "candidates",
        "degraded",
        "evicted",
        "failures",
        "false_repairs",
        "faults",
        "harmless",
        "healed",
        "hits",
        "masked",
        "outside",
        "relapses",
        "repairs",
        "retired",
        "suppressed",
        "unblamed",
        "wrong_blames",
    )

    def __init__(self) -> None:
        self.candidates = 0
        self.suppressed = 0
        self.faults = 0
        self.harmless = 0
        self.degraded = 0
        self.healed = 0
        self.failures = 0
        self.masked = 0
        self.outside = 0
        self.hits = 0
        self.relapses = 0
        self.repairs = 0
        self.false_repairs = 0
        self.unblamed = 0
        self.evicted = 0
        self.wrong_blames = 0
        self.retired = 0

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in sorted(self.__slots__)}


class Failure:
    """One failure and the random numbers that belong to it."""

    __slots__ = ("info", "round", "slot")

    def __init__(self, info: SourceInfo, slot: int, number: int) -> None:
        self.info = info
        self.slot = slot
        self.round = number

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
        key = rng.stream(*self.info.prefix, "mark", self.info.source.name, purpose, self.slot, self.round)
        return rng.uniform_one(key, node)


class Renewal(NamedTuple):
    """A life that begins when a node returns."""

    source: int
    slot: int
    round: int


class SourceInfo:
    """A source with what the hot path needs at hand."""

    __slots__ = (
        "always",
        "apart",
        "blast",
        "bucket",
        "by_course",
        "cause",
        "detection",
        "divisor",
        "in_service",
        "index",
        "keeps",
        "numbers",
        "of_fabric",
        "of_job",
        "prefix",
        "reboots",
        "repair",
        "returns",
        "saves",
        "slots",
        "source",
        "stops",
        "tempo",
        "victims",
    )

    def __init__(self, source: Source, index: int, simulation: Simulation) -> None:
        prepared = simulation.prepared
        self.source = source
        self.index = index
        self.cause = index + 1
        self.prefix = (prepared.seed, simulation.replication)
        self.numbers: dict[str, Numbers] = {}
        noticing = source.noticing
        fixed = noticing.fixed if noticing is not None else 0.0
        self.detection = noticing.draw if noticing is not None and fixed is None else fixed or 0.0
        """Time from a failure to its detection [s], or a function of the failure's marks."""
        self.repair = _sampler(source.repair) if source.repair is not None else 0.0
        self.returns = source.renews == "at_return" and source.clock == "wall"
        self.in_service = source.clock == "in_service"
        self.of_job = source.part == "job"
        self.of_fabric = source.of_fabric
        """Whether the cables decide whom its failures strike."""
        self.bucket = source.down_bucket
        self.stops = source.effect.stops
        self.saves = source.saves or source.effect.saves
        self.always = source.interrupts >= 1 and source.idle_hazard >= 1 and not source.thinned
        blast = source.blast
        scattered = blast is not None and blast.spread is not None
        self.slots = prepared.nodes if scattered else source.units
        """How many slots its failures can have; those of scattered nodes have their node."""
        self.divisor = 1 if scattered else 0 if self.of_fabric else prepared.slots_per_node.get(source.part, 0)
        self.blast = prepared.blast.get(source.part)
        self.apart = blast is not None and blast.repair == "nodes" and not scattered
        """Whether the nodes of one failure are repaired each by itself."""
        self.by_course = (
            source.repair is None and source.recorded is None and source.rollout is None and not self.of_job
        )
        """Whether the tiers of repair decide what becomes of a node."""
        self.keeps = source.fault in prepared.recovery.narrows_on and not self.by_course
        """Whether a node that it strikes may stay in its job with fewer GPUs; by the class of the fault, because the
        lives of the GPUs of a node may have been put together to one."""
        self.reboots = source.damage == "reboot"
        drawn = blast is not None and blast.size is not None and not scattered
        self.victims = Victims(blast, source.name, *self.prefix) if drawn and blast is not None else None
        # A life that renews at failure is in the trace, at its own time.
        later = source.tempo is not None and source.renews != "at_failure"
        self.tempo = source.tempo.realise(simulation.end, *self.prefix) if later and source.tempo is not None else None

    def numbers_for(self, purpose: str) -> Numbers:
        """Return the marks for a purpose."""
        key = rng.stream(*self.prefix, "mark", self.source.name, purpose)
        found = self.numbers[purpose] = Numbers(key, self.slots)
        return found


def _sampler(law: LawModel) -> float | Callable[[float], float]:
    """Return a constant time [s], or the inverse CDF of a law."""
    return law.value if isinstance(law, Fixed) else law.ppf_one


# ----------------------------------------
# Hidden faults: what a repair left in a node, or what it had from the beginning, until a repair removes it.

ONSET = 1 << 30

"""Between the numbers of the first lives of hidden faults that a node catches one after another."""

RELAPSE = 1 << 50

"""Added to the number of a failure for each relapse: far above the number of any life or incident."""


class Defects:
    """Keeps the lives of hidden faults, on the wall clock or on the busy clock of their node."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.open: dict[int, list[Life]] = {}
        """Hidden faults of each node."""
        self.parked: dict[int, list[Life]] = {}
        """Those that came due while their node was down."""

    def start(self, info: SourceInfo, node: int, seconds: float, number: int = 0) -> None:
        """Give a node a hidden fault that strikes after `seconds`, at the start or when it catches one."""
        self._begin(Life(node, info.index, node, number, seconds), seconds, self.kernel.now)

    def start_onsets(self) -> None:
        """Arrange when nodes without a hidden fault catch it, once the faults of the trace have been handed over."""
        for info in self.simulation.sources.infos:
            hidden = info.source.hidden
            if hidden is None:
                continue
            self._keep_dormant(info)
            if hidden.onset is None:
                continue
            key = rng.stream(*info.prefix, "onset", info.source.name)
            reach = float(hidden.onset.cdf(np.asarray([self.simulation.end]))[0])
            nodes, numbers = rng.below(key, info.source.units, 0, reach)
            for node, number in zip(nodes.tolist(), numbers.tolist(), strict=True):
                self._at_onset(info, node, 0, hidden.onset.ppf_one(number))

    def _keep_dormant(self, info: SourceInfo) -> None:
        """Remember the hidden faults that would strike after the end; nodes that have one cannot catch another."""
        for node in np.flatnonzero(hidden_at_start(info.source, *info.prefix)).tolist():
            mine = self.open.setdefault(node, [])
            if not any(life.source == info.index for life in mine):
                mine.append(Life(node, info.index, node, 0, math.inf))

    def _at_onset(self, info: SourceInfo, node: int, number: int, time: float) -> None:
        if time < self.simulation.end:
            self.kernel.at(time, Order.FAILURE, self._on_onset, (info, node, number))

    def _on_onset(self, call: Call) -> None:
        info, node, number = call.argument
        if not any(life.source == info.index for life in self.open.get(node, ())):
            first = (number + 1) * ONSET
            self.start(info, node, self.simulation.sources.life(info.index, node, first), first)
        key = rng.stream(*info.prefix, "onset", info.source.name)
        law = info.source.hidden.onset
        self._at_onset(info, node, number + 1, self.kernel.now + law.ppf_one(rng.uniform_one(key, node, number + 1)))

    # ------------------------------------------------------------------------------------------------- lives

    def remain(self, node: int, failure: Failure, now: float) -> None:
        """Leave the fault behind a failure in its node: it strikes again."""
        residue = failure.info.source.residue
        if residue is None:
            return
        slot, number = failure.slot, failure.round
        if not failure.info.divisor and number < RELAPSE:
            # One of the nodes that an incident took: it strikes again alone, and its slot is the node.
            slot, number = node, number * PARTS + slot
        number += RELAPSE
        after = self._after(failure.info, slot, number)
        self._begin(Life(node, failure.info.index, slot, number, after), after, now)

    def _after(self, info: SourceInfo, slot: int, number: int) -> float:
        """Return how long a fault that a repair left takes to strike again [s]."""
        residue = info.source.residue
        assert residue is not None
        numbers = info.numbers.get("relapse after") or info.numbers_for("relapse after")
        return residue.after.ppf_one(numbers.get(slot, number))

    def _begin(self, life: Life, seconds: float, now: float) -> None:
        """Let a hidden fault strike after `seconds` of its clock."""
        self.open.setdefault(life.node, []).append(life)
        info = self.simulation.sources.infos[life.source]
        if info.source.clock == "busy":
            self.simulation.lives.begin(life, seconds, now)
        elif now + seconds < self.simulation.end:
            self.kernel.at(now + seconds, Order.FAILURE, self._on_due, (life, life.token))

    def _on_due(self, call: Call) -> None:
        life, token = call.argument
        if life.token == token:
            self.strike(life)

    def strike(self, life: Life) -> None:
        """Let a hidden fault make its node fail."""
        now = self.kernel.now
        simulation = self.simulation
        node = life.node
        if simulation.cluster.outages[node]:
            self.parked.setdefault(node, []).append(life)
            return
        info = simulation.sources.infos[life.source]
        mine = self.open[node]
        mine.remove(life)
        if life.round >= RELAPSE:
            simulation.faults.counts.relapses += 1
            simulation.faults.occur(info, life.slot, life.round)
            return
        following = Life(node, life.source, life.slot, life.round + 1, 0.0)
        self._begin(following, simulation.sources.life(life.source, life.slot, life.round + 1), now)
        simulation.faults.occur(info, life.slot, life.round)

    def resume(self, node: int, now: float) -> None:
        """Let hidden faults that came due while their node was down strike some time after its return."""
        for life in self.parked.pop(node, ()):
            if life in self.open.get(node, ()):
                self.open[node].remove(life)
                info = self.simulation.sources.infos[life.source]
                if life.round >= RELAPSE:
                    number = life.round + RELAPSE
                    seconds = self._after(info, life.slot, number)
                else:
                    number = life.round + 1
                    seconds = self.simulation.sources.life(life.source, life.slot, number)
                self._begin(Life(node, life.source, life.slot, number, 0.0), seconds, now)

    def clear(self, node: int) -> None:
        """Forget the hidden faults of a node that has been repaired."""
        for life in self.open.pop(node, ()):
            self.simulation.lives.void(life)

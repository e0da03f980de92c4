"""What every closed form of progress owes: the same as living through one save at a time, whatever happens."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick.sim import rng
from ettrick.sim.policies.checkpoint import Periodic, cliques
from ettrick.sim.policies.contracts import Damage, Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ettrick.sim.policies.checkpoint import Pause, StorePlan

# ----------------------------------------
# Checkpoints lived through one event at a time, every copy an object with its shards: the rival of the closed form.

CLOSE = 1e-9


@dataclass(eq=False)
class Copy:
    """A copy of the state in one store: for each replica that holds all of it, the nodes that hold each shard."""

    rung: StorePlan
    work: float
    drain_left: float
    replicas: list[dict[int, set[int]]]
    good: bool = False

    def lose(self, nodes: frozenset[int]) -> None:
        """Some nodes no longer hold anything of it."""
        for shards in self.replicas:
            for holders in shards.values():
                holders -= nodes

    @property
    def whole(self) -> bool:
        """Whether one replica has all its shards."""
        return any(all(shards.values()) for shards in self.replicas)

    def seconds(self, position: int) -> float:
        """Return how long a node takes to read its shard; infinite if nobody has it."""
        if self.rung.store in ("remote", "peer"):
            return self.rung.load
        for shards in self.replicas:
            if position in shards.get(position, ()):
                return self.rung.load
        if self.whole or any(shards.get(position) for shards in self.replicas):
            return self.rung.fetch
        return math.inf


@dataclass
class Rival:
    """A job and its copies. ``stops`` has the work at which each series was over, from the beginning."""

    rungs: tuple[StorePlan, ...]
    pauses: tuple[Pause, ...] = ()
    nodes: int = 1
    replicas: int = 1
    is_plain: bool = False
    work: float = 0.0
    stepped: float = 0.0
    paused: float = 0.0
    stalled: float = 0.0
    copies: list[Copy] = field(default_factory=list)
    since: list[float] = field(default_factory=list)
    stops: list[list[float]] = field(default_factory=list)
    stop: list[tuple[int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.saving = [rung for rung in self.rungs if rung.store != "peer"]
        self.series: list[StorePlan | Pause] = [*self.saving, *self.pauses]
        self.since = [0.0 for _ in self.series]
        self.first = [True for _ in self.series]
        self.stops = [[] for _ in self.series]

    # ----------------------------------------------------------------------------------------- stepping

    def period(self, series: Any, step: float) -> float:
        """Return the stepping between two stops of a series."""
        if series in self.pauses and step > 0 and series.in_steps:
            return float(series.in_steps * step)
        period = series.interval
        if series in self.saving and not series.skips:
            period = max(period, series.drain)
        if step > 0:
            period = math.ceil(period / step - CLOSE) * step
        one = period
        while series in self.saving and period < series.drain - CLOSE:
            period += one
        return float(period)

    def until_due(self, index: int, step: float) -> float:
        """Return the stepping until a series is due; the first save after a start has none before it to wait for."""
        series: Any = self.series[index]
        if series not in self.saving or not self.first[index]:
            return self.period(series, step)
        return math.ceil(series.interval / step - CLOSE) * step if step > 0 else float(series.interval)

    def advance(self, pace: Pace, span: float) -> None:
        """Live through `span` seconds."""
        left = span
        while left > 0 or (self.stop and self.stop[0][1] <= 0):
            if not self.stop:
                periods = [self.until_due(index, pace.step) for index in range(len(self.series))]
                nearest = min(max(period - since, 0.0) for period, since in zip(periods, self.since, strict=True))
                part = min([left, nearest, *(copy.drain_left for copy in self.copies if copy.drain_left)])
                self._pass(part)
                self.work += part * pace.rate
                self.stepped += part
                left -= part
                self.since = [since + part for since in self.since]
                due = [
                    index
                    for index, (period, since) in enumerate(zip(periods, self.since, strict=True))
                    if since >= period * (1 - CLOSE)
                ]
                if due and (left > 0 or not any(self._length(index) for index in due)):
                    self.stop = [(index, self._length(index)) for index in due]
                continue
            index, seconds = self.stop[0]
            part = min([left, seconds, *(copy.drain_left for copy in self.copies if copy.drain_left)])
            self._pass(part)
            left -= part
            if self.series[index] in self.saving:
                self.stalled += part
            else:
                self.paused += part
            self._shorten(part)

    def _length(self, index: int) -> float:
        series: Any = self.series[index]
        return float(series.stall if series in self.saving else series.seconds)

    def _shorten(self, part: float) -> None:
        """Go on in the stop; when it is over everything that it was for is taken."""
        self.due = getattr(self, "due", [])
        index, seconds = self.stop[0]
        seconds -= part
        if seconds > 1e-12 * max(self._length(index), 1.0):
            self.stop[0] = (index, seconds)
            return
        self.stop.pop(0)
        self.due.append(index)
        if self.stop:
            return
        for done in self.due:
            self.since[done] = 0.0
            self.first[done] = False
            self.stops[done].append(self.work)
            if self.series[done] in self.saving:
                self._take(self.saving[done])
        self.due = []

    def _take(self, rung: StorePlan) -> None:
        assert not any(copy.rung is rung and copy.drain_left for copy in self.copies), "two saves on their way"
        self.copies.append(Copy(rung, self.work, rung.drain, self._shards(rung)))
        self._complete(rung)

    def _shards(self, rung: StorePlan) -> list[dict[int, set[int]]]:
        """Return which nodes hold which shards of a copy, for each replica that has all of it."""
        groups: dict[int, tuple[int, ...]] = {position: (position,) for position in range(self.nodes)}
        if rung.store == "peer-host":
            for clique in cliques(self.nodes, rung.clique, rung.jump):
                groups.update(dict.fromkeys(clique, clique))
        parts = self.replicas if rung.every_replica else 1
        width = self.nodes // parts
        return [
            {position: set(groups[position]) for position in range(part * width, (part + 1) * width)}
            for part in range(parts)
        ]

    def _pass(self, part: float) -> None:
        for copy in list(self.copies):
            if copy.drain_left:
                copy.drain_left -= part
                if copy.drain_left <= 1e-9 * copy.rung.drain:
                    copy.drain_left = 0.0
                    self._complete(copy.rung)

    def _complete(self, rung: StorePlan) -> None:
        """Delete the oldest copies of a store beyond those that it keeps; what is known is known of the newest."""
        for copy in self.held(rung)[1:]:
            copy.good = False
        for copy in self.held(rung)[rung.retain or len(self.copies) + 1 :]:
            self.copies.remove(copy)

    def held(self, rung: StorePlan) -> list[Copy]:
        """Return the complete copies of a store, newest first."""
        return [copy for copy in reversed(self.copies) if copy.rung is rung and not copy.drain_left]

    @property
    def committed(self) -> float:
        """Work in the newest remote copy."""
        return max(
            (copy.work for copy in self.copies if copy.rung.store == "remote" and not copy.drain_left), default=0
        )

    # -------------------------------------------------------------------------------------- coming back

    def restore(
        self, pace: Pace, damage: Damage, sound: float, mark: Callable[[str], float] | None
    ) -> tuple[float, str]:
        """Go back to the newest step that is left; return how long that takes and where the last shard is read."""
        steps = self.since[0] / pace.step if pace.step > 0 and not self.stop else 0.0
        in_flight = (steps - math.floor(steps + CLOSE)) * pace.step
        last = self.work - max(in_flight, 0.0) * pace.rate
        interrupted = {index for index, _ in self.stop} | set(getattr(self, "due", []))
        self.stop, self.due = [], []
        is_live = damage.keeps == "live" and last - sound <= CLOSE * self.work
        # What is kept live is written on.
        self.copies = [copy for copy in self.copies if is_live or not copy.drain_left]
        if not self.is_plain:
            self._space(pace)
        if is_live:
            self._lose(damage)
            self.copies = [copy for copy in self.copies if copy.whole or copy.rung.store == "remote"]
            for copy in self.copies:
                copy.replicas = self._shards(copy.rung)
            self._back_to(last, pace, interrupted)
            return 0.0, "peer"
        self._lose(damage)
        readable = [copy for copy in self.copies if copy.rung.store == "remote" or damage.keeps != "stores"]
        peer = next((rung for rung in self.rungs if rung.store == "peer"), None)
        if peer is not None and damage.live and damage.keeps in ("live", "processes") and last > CLOSE * self.work:
            readable.append(Copy(peer, last, 0.0, []))
        good = [copy for copy in readable if copy.work <= sound * (1 + CLOSE)]
        self.first = [True for _ in self.series]
        seconds, store, work, bad = self._read(good, damage, mark)
        remote = [copy for copy in readable if copy.rung.store == "remote"]
        if store == "" and remote and not any(copy in good for copy in remote):
            period = self.period(remote[0].rung, pace.step) * pace.rate
            if remote[0].rung.retain and remote[0].work > period * (1 + CLOSE):
                for copy in remote:
                    more, store, work, worse = self._read([copy], damage, mark, seconds)
                    seconds, bad = seconds + more, bad + worse
                    if store:
                        break
        self.copies = [
            copy
            for copy in self.copies
            if copy in readable
            and copy not in bad
            and copy.work <= work * (1 + CLOSE)
            and (copy.whole or copy.rung.store == "remote")
        ]
        for copy in self.copies:
            # Who has read a shard holds it.
            copy.replicas = self._shards(copy.rung)
        self._back_to(work, pace, interrupted)
        return seconds, store or "remote"

    def _lose(self, damage: Damage) -> None:
        """Take from every copy the shards of nodes that are gone."""
        for copy in self.copies:
            if copy.rung.store != "remote":
                copy.lose(damage.lost if copy.rung.store == "disk" else damage.lost | damage.rebooted)

    def _space(self, pace: Pace) -> None:
        """Count older copies at the present spacing, as is said of them; a store that keeps all has one at each."""
        for rung in self.saving:
            held = self.held(rung)
            spacing = self.period(rung, pace.step) * pace.rate
            while held and rung.retain is None and held[0].work - len(held) * spacing > CLOSE * held[0].work:
                held.append(Copy(rung, 0.0, 0.0, deepcopy(held[-1].replicas)))
                self.copies.insert(0, held[-1])
            for number, one in enumerate(held):
                one.work = max(held[0].work - number * spacing, 0.0)
                if rung.retain is None and number and one.work <= CLOSE * held[0].work:
                    self.copies.remove(one)

    def _read(
        self, copies: list[Copy], damage: Damage, mark: Callable[[str], float] | None, before: float = 0.0
    ) -> tuple[float, str, float, list[Copy]]:
        """Return the time, the slowest store and the work of what is read, and what could not be."""
        spent, bad = 0.0, []
        while copies:
            work = max(copy.work for copy in copies)
            holders = [copy for copy in copies if copy.work >= work * (1 - CLOSE)]
            best = [
                min(((copy.seconds(position), number), (copy, number))[0] for number, copy in enumerate(holders))
                for position in range(self.nodes)
            ]
            slowest, number = max(best)
            if math.isinf(slowest):
                copies = [copy for copy in copies if copy not in holders]
                continue
            spent += slowest
            used = {index for _, index in best}
            broken = [holders[index] for index in used if not self._can_read(holders[index], mark)]
            if not broken:
                for index in used:
                    holders[index].good |= mark is not None
                return spent, holders[number].rung.store, work, bad
            bad += broken
            copies = [copy for copy in copies if copy not in broken]
        return spent, "", 0.0, bad

    def _can_read(self, copy: Copy, mark: Callable[[str], float] | None) -> bool:
        if mark is None or copy.rung.store == "peer":
            return True
        number = self.held(copy.rung).index(copy)
        if copy.good and number == 0:
            return True
        return mark(f"unreadable {copy.rung.store} {number}") >= copy.rung.corrupt

    def _back_to(self, work: float, pace: Pace, interrupted: set[int]) -> None:
        """Go on from `work` as if the job had come to it for the first time."""
        for index, stops in enumerate(self.stops):
            while stops and stops[-1] > work * (1 + CLOSE):
                stops.pop()
            last = stops[-1] if stops else 0.0
            again = index in interrupted and work >= self.work * (1 - CLOSE)
            series: Any = self.series[index]
            self.since[index] = self.period(series, pace.step) if again else max(work - last, 0.0) / pace.rate
            if not again and self.until_due(index, pace.step) < self.period(series, pace.step):
                # A save that was late, or left out, is none where nothing is on its way.
                self.since[index] %= self.until_due(index, pace.step)
        self.work = work


def rival_of(strategy: Any) -> Rival:
    """Return a job that lives through the saves of a strategy one at a time."""
    if isinstance(strategy, Periodic):
        return Rival(strategy.rungs, is_plain=True)
    return Rival(strategy.rungs, strategy.pauses, strategy.nodes, strategy.replicas)


def step_by_step(strategy: Any, pace: Pace, spans: Iterable[float]) -> tuple[float, float, float]:
    """Return committed work, work at risk and time spent stepping [s] after `spans`, one save at a time."""
    rival = rival_of(strategy)
    for span in spans:
        rival.advance(pace, span)
    return rival.committed, rival.work - rival.committed, rival.stepped


def marks(number: int) -> Callable[[str], float]:
    """Return the uniform numbers of a failure."""
    return lambda purpose: rng.uniform_one(rng.stream(11, 0, "mark", purpose), number)


def damages(generator: np.random.Generator, nodes: int) -> Iterator[Damage]:
    """Draw what happens to nodes, from nothing to all of them, some next to each other."""
    while True:
        chance = float(generator.choice([0.0, 0.02, 0.1, 0.5, 1.0]))
        lost = {position for position in range(nodes) if generator.random() < chance}
        if generator.random() < 0.3:
            first = int(generator.integers(nodes))
            lost |= set(range(first, min(first + int(generator.integers(1, 5)), nodes)))
        rebooted = {position for position in range(nodes) if generator.random() < chance / 2}
        yield Damage(
            keeps=generator.choice(["live", "processes", "hosts", "hosts", "stores"]),  # type: ignore[arg-type]
            lost=frozenset(lost),
            rebooted=frozenset(rebooted),
            live=bool(generator.random() < 0.5),
        )


def check_checkpoint(strategy: Any, step: float = 0.0, seed: int = 1) -> None:
    """Assert that a closed form of progress is one.

    It is conserved, monotone and additive; it equals living through one save at a time, with every copy an object that
    loses shards, through changes of pace and restores; `time_to` is exact, and a job that goes back is not further than
    before.
    """
    generator = np.random.default_rng(seed)
    cycle = sum(strategy.stepping(Pace(1.0, step)) + rung.stall for rung in strategy.rungs if rung.store == "remote")
    for rate in (1.0, 0.5):
        pace = Pace(rate, step)
        for _ in range(40):
            spans = generator.exponential(generator.choice([0.05, 0.5, 3.0]) * cycle, size=6).tolist()
            _check_spans(strategy, pace, spans)
            _check_time_to(strategy, pace, spans)
        _check_lives(strategy, pace, cycle, generator)
    _check_change_of_pace(strategy, step, cycle, generator)
    _check_live(strategy, Pace(1.0, step), cycle, generator)
    _check_saved(strategy, Pace(1.0, step), cycle, generator)


def _flat(state: Any) -> list[float]:
    """Return all numbers of a state."""
    return [number for part in state for number in (_flat(part) if isinstance(part, tuple) else [float(part)])]


def _check_spans(strategy: Any, pace: Pace, spans: Sequence[float]) -> None:
    """Additive over splits, conserved and monotone; equal to stepping through the same spans."""
    state = strategy.begin
    rival = rival_of(strategy)
    stepped = paused = 0.0
    tolerance = 1e-9 * max(sum(spans), 1.0)
    for span in spans:
        after, part, idle = strategy.advance(state, pace, span)
        assert -tolerance <= part <= span + tolerance
        assert -tolerance <= idle <= span - part + tolerance
        assert after.committed >= state.committed
        assert after.committed + after.at_risk >= state.committed + state.at_risk - tolerance
        assert strategy.sound(after) >= after.committed
        state, stepped, paused = after, stepped + part, paused + idle
        rival.advance(pace, span)
        assert state.committed + state.at_risk == pytest.approx(stepped * pace.rate, rel=1e-9)
        assert state.committed == pytest.approx(rival.committed, abs=tolerance)
    elapsed = sum(spans)
    once, stepped_once, paused_once = strategy.advance(strategy.begin, pace, elapsed)
    assert _flat(once) == pytest.approx(_flat(state), abs=tolerance)
    assert (stepped_once, paused_once) == pytest.approx((stepped, paused), abs=tolerance)
    assert (stepped, paused) == pytest.approx((rival.stepped, rival.paused), abs=tolerance)
    # With the rate of a healthy job, every second is committed, at risk, a stall or periodic work.
    assert (once.committed + once.at_risk) / pace.rate + rival.stalled + paused == pytest.approx(elapsed, rel=1e-9)


def _check_time_to(strategy: Any, pace: Pace, spans: Sequence[float]) -> None:
    """The announced time does the work, and no shorter time does."""
    state, _, _ = strategy.advance(strategy.begin, pace, spans[0])
    for work in (spans[1], spans[1] + spans[2]):
        needed = strategy.time_to(state, pace, work)
        after, stepped, _ = strategy.advance(state, pace, needed)
        assert stepped * pace.rate == pytest.approx(work, rel=1e-9)
        assert after.committed + after.at_risk == pytest.approx(state.committed + state.at_risk + work, rel=1e-9)
        sooner = needed - 1e-3 * work / pace.rate
        if sooner > 0:
            assert strategy.advance(state, pace, sooner)[1] * pace.rate < work
    assert strategy.time_to(strategy.begin, pace, 0.0) == 0.0


def _check_lives(strategy: Any, pace: Pace, cycle: float, generator: np.random.Generator) -> None:
    """Jobs that go back again and again hold what the rival's copies say, and read it in the same time."""
    hits = damages(generator, getattr(strategy, "nodes", 1))
    for life in range(12):
        state, rival = strategy.begin, rival_of(strategy)
        sounds = [0.0]
        for event, span in enumerate(generator.exponential(2 * cycle, size=12).tolist()):
            state, _, _ = strategy.advance(state, pace, span)
            rival.advance(pace, span)
            _check_equal(state, rival)
            sounds.append(strategy.sound(state))
            sound = float(generator.choice([math.inf, math.inf, *sounds[-3:]]))
            mark = marks(100 * life + event) if generator.random() < 0.7 else None
            damage = Damage("hosts")
            # A second failure may come before the job steps again: nodes that are gone stay gone.
            for _ in range(int(generator.integers(1, 3))):
                more = next(hits)
                damage = more._replace(lost=more.lost | damage.lost, rebooted=more.rebooted | damage.rebooted)
                found = strategy.restore(state, pace, damage, sound, mark)
                seconds, store = rival.restore(pace, damage, sound, mark)
                assert found.store == store
                assert found.seconds == pytest.approx(seconds, abs=1e-9)
                assert found.state.committed + found.state.at_risk <= (state.committed + state.at_risk) * (1 + 1e-9)
                state = found.state
                # Copies that were on their way are void.
                sounds = [min(known, strategy.sound(state)) for known in sounds]
                sound = min(sound, sounds[-1]) if sound < math.inf else sound
                _check_equal(state, rival)


def _check_equal(state: Any, rival: Rival) -> None:
    """A state and its rival agree on what is done, and on what is durable."""
    tolerance = 1e-9 * max(rival.stepped, 1.0)
    assert state.committed + state.at_risk == pytest.approx(rival.work, abs=tolerance)
    assert state.committed == pytest.approx(rival.committed, abs=tolerance)
    assert state.at_risk >= -tolerance
    for shelf, rung in zip(getattr(state, "shelves", ()), sorted(rival.saving, key=_is_inside), strict=False):
        newest = max((copy.work for copy in rival.held(rung)), default=0.0)
        assert shelf.newest == pytest.approx(newest, abs=tolerance)
        if rung.retain is not None:
            assert shelf.checkpoints == len(rival.held(rung))


def _is_inside(rung: StorePlan) -> bool:
    """Return whether a store is inside the nodes; the shelves of a state begin with the one that is not."""
    return rung.store != "remote"


def _check_change_of_pace(strategy: Any, step: float, cycle: float, generator: np.random.Generator) -> None:
    """A slower or faster pace in the middle keeps every second in its place."""
    for _ in range(40):
        state, rival = strategy.begin, rival_of(strategy)
        work = 0.0
        for _ in range(6):
            pace = Pace(float(generator.choice([1.0, 0.75, 0.25])), step * float(generator.choice([1.0, 1.5, 4.0])))
            span = float(generator.exponential(cycle))
            state, stepped, _ = strategy.advance(state, pace, span)
            rival.advance(pace, span)
            work += stepped * pace.rate
            assert state.committed + state.at_risk == pytest.approx(work, rel=1e-9, abs=1e-9)
            _check_equal(state, rival)


def _check_live(strategy: Any, pace: Pace, cycle: float, generator: np.random.Generator) -> None:
    """What is kept live loses less than a step and takes no time; what is on its way to a store is written on."""
    for span in generator.uniform(0, 4 * cycle, size=60):
        state, _, _ = strategy.advance(strategy.begin, pace, float(span))
        live, seconds, store = strategy.restore(state, pace, Damage("live"))
        assert (seconds, store) == (0.0, "peer")
        assert live.committed == state.committed
        assert 0 <= state.at_risk - live.at_risk <= pace.step * (1 + 1e-9)
        if pace.step > 0:
            whole = (live.committed + live.at_risk) / pace.step
            assert whole == pytest.approx(round(whole), abs=1e-6), "what is left is whole steps"
        else:
            assert live.at_risk == state.at_risk
        later, _, _ = strategy.advance(live, pace, 1e-3)
        assert strategy.sound(later) <= max(state.committed, strategy.sound(state))
        assert later.committed == live.committed or live.committed + live.at_risk == pytest.approx(later.committed)


def _check_saved(strategy: Any, pace: Pace, cycle: float, generator: np.random.Generator) -> None:
    """A save outside the schedule makes everything durable, outside the nodes too; the schedule goes on."""
    for span in generator.uniform(0, 4 * cycle, size=20):
        state, _, _ = strategy.advance(strategy.begin, pace, float(span))
        saved = strategy.saved(state)
        assert saved.committed == pytest.approx(state.committed + state.at_risk, rel=1e-12)
        assert saved.at_risk == 0
        back = strategy.restore(saved, pace, Damage("stores"))
        assert back.state.committed == saved.committed
        assert strategy.advance(saved, pace, 50 * cycle)[0].committed > saved.committed
    assert strategy.save_time() == strategy.stall + strategy.drain

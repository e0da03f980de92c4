"""Checkpoints lived through one event at a time, every copy an object with its shards: the rival of the closed form."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sim.policies.checkpoint import cliques

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.policies.checkpoint import Pause, Rung
    from sim.policies.contracts import Damage, Pace


CLOSE = 1e-9


@dataclass(eq=False)
class Copy:
    """A copy of the state in one store: for each replica that holds all of it, the nodes that hold each shard."""

    rung: Rung
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

    rungs: tuple[Rung, ...]
    pauses: tuple[Pause, ...] = ()
    nodes: int = 1
    replicas: int = 1
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
        self.series: list[Rung | Pause] = [*self.saving, *self.pauses]
        self.since = [0.0 for _ in self.series]
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

    def advance(self, pace: Pace, span: float) -> None:
        """Live through `span` seconds."""
        periods = [self.period(series, pace.step) for series in self.series]
        left = span
        while left > 0 or (self.stop and self.stop[0][1] <= 0):
            if not self.stop:
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
            self.stops[done].append(self.work)
            if self.series[done] in self.saving:
                self._take(self.saving[done])
        self.due = []

    def _take(self, rung: Rung) -> None:
        assert not any(copy.rung is rung and copy.drain_left for copy in self.copies), "two saves on their way"
        self.copies.append(Copy(rung, self.work, rung.drain, self._shards(rung)))
        self._complete(rung)

    def _shards(self, rung: Rung) -> list[dict[int, set[int]]]:
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

    def _complete(self, rung: Rung) -> None:
        """Delete the oldest copies of a store beyond those that it keeps; what is known is known of the newest."""
        for copy in self.held(rung)[1:]:
            copy.good = False
        for copy in self.held(rung)[rung.retain or len(self.copies) + 1 :]:
            self.copies.remove(copy)

    def held(self, rung: Rung) -> list[Copy]:
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
        self.copies = [copy for copy in self.copies if not copy.drain_left]
        self._space(pace)
        if damage.keeps == "live" and last - sound <= CLOSE * self.work:
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
                one.work = held[0].work - number * spacing

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
            self.since[index] = (
                self.period(self.series[index], pace.step) if again else max(work - last, 0.0) / pace.rate
            )
        self.work = work

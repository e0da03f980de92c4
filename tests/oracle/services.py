"""A plain second simulator of one service: replicas that fail, and requests as a fluid between them.

Written from the pages on semantics, inference, buckets and scenarios; it shares no code with the product. What one
replica can (its capacity, by its load the requests in flight and the share in SLO, its times to start) is an input.

`Simulator.run` goes from one change to the next: `Fluid` has the requests, `Simulator` the gangs and the nodes.
Outages are rows of a log: node, start, end, cause.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

DAY, YEAR = 86_400.0, 31_556_952.0
EPSILON = 1e-7

Outage = tuple[int, float, float, str]


@dataclass(frozen=True)
class Replica:
    """What one replica can, and how long it takes to start.

    Attributes
    ----------
    capacity
        Requests that it admits [1/s].
    batch, attainment
        Requests in flight and the share in SLO at equally spaced loads from 0 to its capacity.
    longer
        Tokens of the mean answer in flight over those of the mean answer [-].
    slack
        Wait that leaves time for the first token [s].
    load, start, interruption
        Times to read the weights, to start, and until what is left serves [s].
    tpot, answer, limit
        Time per token by load [s], tokens of an answer, and the time per token of the SLO [s].
    again
        Time to read prompt and tokens of a request in flight again [s].
    """

    capacity: float
    batch: tuple[float, ...]
    attainment: tuple[float, ...]
    longer: float
    slack: float
    load: float
    start: float
    interruption: float
    tpot: tuple[float, ...]
    answer: float
    limit: float
    again: float

    def at(self, table: tuple[float, ...], load: float) -> float:
        """Return what a table has at a load."""
        position = min(max(load, 0.0), 1.0) * (len(table) - 1)
        low = min(int(position), len(table) - 2)
        return table[low] + (position - low) * (table[low + 1] - table[low])


@dataclass
class Waiting:
    """Requests that were asked from `start` to `end`, all at once where these are the same, and wait."""

    start: float
    end: float
    count: float
    work: float = 1.0  # of one, in requests
    lost: float = 0.0  # part of the work that is lost; all of those who gave up
    cause: str = ""
    leaves: float = math.inf  # when all give up together
    due: float | None = None  # until when all are in SLO; each has the slack without it
    share: float | None = None  # in SLO, of those that were in flight


@dataclass
class Admitted:
    """Requests that replicas got: so many for each request a second of capacity."""

    start: float
    end: float
    density: float
    window: int
    share: float
    load: float
    tpot: float


@dataclass
class Fluid:
    """The requests of a service: those who wait, and sums by the window in which they were asked."""

    replica: Replica
    patience: float  # inf: no queue
    has_queue: bool
    cancels: bool
    asks: int
    edges: list[float]
    sums: dict[str, list[float]] = field(default_factory=dict)
    queue: deque[Waiting] = field(default_factory=deque)
    busy: float = 0.0
    vain: dict[str, float] = field(default_factory=dict)
    load: float = 0.0
    is_vain: bool = False
    cause: str = "demand"  # why those who come from now on would be served in vain
    root: str = "demand"
    history: list[Admitted] = field(default_factory=list)

    def window(self, time: float) -> int:
        """Return the window of a moment."""
        return next((at for at, edge in enumerate(self.edges[1:-1]) if time < edge - EPSILON), len(self.edges) - 2)

    def add(self, name: str, window: int, amount: float) -> None:
        """Add to the sum of a window."""
        self.sums.setdefault(name, [0.0] * (len(self.edges) - 1))[window] += amount

    def advance(self, now: float, until: float, rate: float, capacity: float) -> None:
        """Pass the time with a capacity; `busy` are the seconds of work, `vain` those of lost work by cause."""
        self.busy, self.vain = 0.0, defaultdict(float)
        if not self.has_queue and capacity <= 0:
            for each in self.queue:
                self.add("rejected", self.window(each.start), each.count)
            self.queue.clear()
        # Without a queue there is no room for more than the capacity, and none as long as others wait who have moved.
        admitted = rate if self.has_queue or rate <= capacity else 0.0
        while now < until - EPSILON:
            if self.has_queue or self.queue:
                clears = self.backlog() / capacity if admitted == 0 and capacity > 0 else math.inf
                part = min(until, now + max(clears, EPSILON)) if rate > admitted else until
                self._pass_queue(now, part, admitted, capacity)
            else:
                part, admitted = until, min(rate, capacity)
                self.load = admitted / capacity if capacity > 0 else 0.0
                share = self.replica.at(self.replica.attainment, self.load)
                self._admit(now, until, admitted * (until - now), capacity, self.window(now), share)
                self.busy += self.load * (until - now)
            self.add("rejected", self.window(now), (rate - admitted) * (part - now))
            if part < until:
                self.queue.clear()
            now = part

    def _admit(self, now: float, until: float, count: float, live: float, window: int, share: float) -> None:
        """Give requests to the replicas, in proportion."""
        tpot = self.replica.at(self.replica.tpot, self.load)
        self.history.append(Admitted(now, until, count / live if live > 0 else 0.0, window, share, self.load, tpot))
        self.add("served", window, count)
        self.add("in_slo", window, count * share)

    def backlog(self) -> float:
        """Return the work of the requests that wait."""
        return sum(each.count * each.work for each in self.queue)

    def _is_vain(self, rate: float, capacity: float) -> bool:
        """Return whether who comes now gives up before it is served."""
        over = self.backlog() - self.patience * capacity
        vain = not self.cancels and (over > EPSILON or (over > -EPSILON and rate > capacity))
        if vain and not self.is_vain:
            self.root = self.cause
        self.is_vain = vain
        return vain

    def _pass_queue(self, now: float, until: float, rate: float, capacity: float) -> None:
        """Pass time while requests wait, or begin to: the first is served, or gives up."""
        while now < until - EPSILON:
            while self.queue and (self.queue[0].count < EPSILON or self.queue[0].leaves <= now):
                each = self.queue.popleft()
                self.add("rejected", self.window(each.start), each.count)
            if not self.queue and rate <= capacity:
                self.load = rate / capacity if capacity > 0 else 0.0
                share = self.replica.at(self.replica.attainment, self.load)
                self._admit(now, until, rate * (until - now), capacity, self.window(now), share)
                self.busy += (until - now) * self.load
                return
            now += self._pass_first(now, until - now, rate, capacity)

    def _come(self, now: float, step: float, rate: float, lost: float) -> None:
        """Let requests come and wait: as more of the last ones, where these are alike."""
        last = self.queue[-1]
        length = last.end - last.start
        is_like = last.lost == lost and last.leaves == math.inf and last.share is None and length > 0
        is_like = is_like and abs(last.end - now) < EPSILON and self.window(last.start) == self.window(now)
        if is_like and abs(last.count / length - rate) < EPSILON * rate:
            last.end, last.count = now + step, last.count + rate * step
            return
        self.queue.append(Waiting(now, now + step, rate * step, lost=lost, cause=self.root))

    def _pass_first(self, now: float, step: float, rate: float, capacity: float) -> float:
        """Serve the first who waits, for as long as nothing changes; return for how long."""
        self.load = 1.0
        vain, held = self._is_vain(rate, capacity), self.backlog()
        incoming = rate * (self.asks if vain else 1)
        head = self.queue[0] if self.queue else Waiting(now, now + 1, incoming)
        if not self.queue:
            self.queue.append(head)
            head.count, head.end = 0.0, now
        density = head.count / (head.end - head.start) if head.end > head.start else math.inf
        density = density if head.count else incoming
        served = capacity / head.work
        each_leaves = self.cancels and self.has_queue and head.leaves == math.inf
        gives_up = each_leaves and now - head.start >= self.patience - EPSILON and served < density
        leaves = density if gives_up else served
        moves = leaves / density  # of the moment at which the first was asked
        due, slides = (head.start + self.replica.slack, moves) if head.due is None else (head.due, 0.0)
        last = head.count / leaves if head.count and leaves else math.inf
        bounds = [math.inf, head.leaves - now]
        if slides != 1.0:
            bounds.append((due - now) / (1 - slides))
        if each_leaves and moves != 1.0:
            bounds.append((head.start + self.patience - now) / (1 - moves))
        if not self.cancels and incoming != capacity:
            bounds.append((self.patience * capacity - held) / (incoming - capacity))
        step = min(step, last, *(bound for bound in bounds if bound > EPSILON))
        in_time = now + step / 2 <= due + slides * step / 2
        self._come(now, step, incoming, float(vain))
        if not head.count:
            self.queue.popleft()
            head = self.queue[0]
        window = self.window(head.start)
        if head.lost < 1:
            share = self.replica.at(self.replica.attainment, 1.0) if head.share is None else head.share
            self._admit(now, now + step, served * step, capacity, window, share * in_time)
            self.add("rejected", window, (leaves - served) * step)
        else:
            self._admit(now, now + step, 0.0, capacity, window, 0.0)
        if vain:
            self.add("rejected", self.window(now), rate * step)
        self.busy += step * (capacity > 0)
        self.vain[head.cause] += step * head.lost * (capacity > 0)
        head.count = max(head.count - leaves * step, 0.0) if step < last or head is self.queue[-1] else 0.0
        head.start += moves * step * (head.end > head.start)
        return step

    def residence(self, load: float) -> float:
        """Return how long a request is in flight [s]."""
        load = max(load, 1 / (len(self.replica.batch) - 1))
        return self.replica.at(self.replica.batch, load) / (load * self.replica.capacity)

    def cut(self, now: float, since: float, size: float) -> list[tuple[Admitted, float]]:
        """Return what is in flight on so much capacity, which was admitted last, and count it as not served."""
        flight = []
        residence = self.residence(self.history[-1].load) if self.history else 0.0
        for each in self.history:
            start = max(each.start, since, now - residence)
            if each.end > start and each.density:
                count = each.density * size * self.replica.capacity * (each.end - start) / (each.end - each.start)
                self.add("served", each.window, -count)
                self.add("in_slo", each.window, -count * each.share)
                flight.append((each, count))
        return flight

    def work(self, now: float, since: float) -> float:
        """Return the seconds of work of a replica on what it has in flight."""
        longest = self.residence(self.history[-1].load) * self.replica.longer if self.history else 0.0
        spans = [(max(each.start, since, now - longest), each) for each in self.history]
        # Of what was worked on so long ago a part has ended since.
        return sum(
            each.load * (each.end - start) * (1 - (now - (start + each.end) / 2) / longest)
            for start, each in spans
            if each.end > start
        )


@dataclass
class Gang:
    """Replicas that fail as one: the nodes that they have, and what they do."""

    number: int
    size: int  # replicas
    nodes: list[int] = field(default_factory=list)
    state: str = "queued"  # queued, dead, recovers, serves
    phases: list[tuple[str, float]] = field(default_factory=list)
    until: float = math.inf
    warm_until: float = 0.0
    cause: str = "no_failure"
    width: int = 0  # nodes that serve
    suspects: dict[int, str] = field(default_factory=dict)  # nodes that failed since the last detection, first causes
    flight: list[Waiting] = field(default_factory=list)  # what stands still with it, while its failure is unknown
    joining: list[tuple[str, float]] = field(default_factory=list)
    joins: float = math.inf
    had_served: bool = False
    since: float = 0.0
    queued: float = 0.0
    is_cold: bool = True


class Simulator:
    """The gangs of a service, their nodes, and everything that changes them."""

    def __init__(self, content: dict[str, Any], replica: Replica, outages: list[Outage], gang: tuple[int, int]) -> None:
        """Read a scenario with numbers in seconds; a gang is (nodes, replicas)."""
        self.content, self.replica, self.outages, self.gpus = content, replica, outages, 8
        self.service = service = content["services"][0]
        self.size, self.together = gang
        self.horizon: float = content["horizon"]
        width = content["windows"]
        self.edges = [width * at for at in range(int(self.horizon / width - EPSILON) + 1)] + [self.horizon]
        overload = service.get("overload", {"use": "reject"})
        self.fluid = Fluid(
            replica,
            overload.get("patience", math.inf) * (1 + overload.get("retries", 0) * overload.get("cancel", True)),
            has_queue=overload["use"] == "queue",
            cancels=overload.get("cancel", True),
            asks=1 + overload.get("retries", 0),
            edges=self.edges,
        )
        self.down: dict[int, tuple[float, str]] = {}
        self.failed = "demand"
        self.failover: str = service.get("failover", "fail")
        self.loses = self.failover == "fail"
        self.hot: int = content.get("spares", {}).get("hot", 0)
        nodes: int = content["cluster"]["nodes"]
        self.idle = set(range(nodes - self.hot))
        self.spare = set(range(nodes - self.hot, nodes))
        self.ledger: dict[tuple[str, str], float] = defaultdict(float)
        self.gangs: list[Gang] = []
        self.came = 0
        self._open(service["replicas"], 0.0)
        for each in self.gangs:
            self._take(each, self.size)
            each.state = "serves" if each.nodes else "queued"
            each.width = len(each.nodes)
        self.upgrading: list[Gang] = []
        self.upgraded: list[Gang] = []

    # What changes by itself.

    def rate(self, now: float) -> float:
        """Return the requests per second at a moment."""
        demand = self.service["demand"]
        profile = demand.get("profile", {"every": self.horizon, "factors": [1.0]})
        part = profile["every"] / len(profile["factors"])
        factor = profile["factors"][int((now + EPSILON) / part) % len(profile["factors"])]
        return float(demand["rate"] * factor)

    def changes(self) -> list[float]:
        """Return the moments at which something is known to change."""
        demand, moments = self.service["demand"], [*self.edges]
        profile = demand.get("profile")
        if profile:
            part = profile["every"] / len(profile["factors"])
            steps = [part * at for at in range(1, int(self.horizon / part) + 1)]
            moments += steps + [step + self.service.get("scale", {"window": 0.0})["window"] for step in steps]
        if "scale" in self.service:
            moments.append(self.service["scale"]["window"])
        if "upgrade" in self.service:
            every = self.service["upgrade"]["every"]
            moments += [every * at for at in range(1, int(self.horizon / every) + 1)]
        for _, start, end, _ in self.outages:
            moments += [start, end]
        return moments

    def run(self) -> None:
        """Go from one change to the next, up to the horizon."""
        now, moments = 0.0, sorted(self.changes())
        while now < self.horizon:
            known = next(moment for moment in moments if moment > now)
            after = min([known, self.horizon, *(t for g in self.gangs for t in (g.until, g.joins, self._warm(g, now)))])
            self.pass_time(now, after)
            now = after
            if now >= self.horizon:
                break
            for _ in range(4):  # phases of no length end at once
                self._return_nodes(now)
                for gang in list(self.gangs):
                    self._end_phases(gang, now)
            for outage in self.outages:
                if outage[1] == now:
                    self._fail(outage, now)
            self._scale(now)
            self._upgrade(now)
            for _ in range(4):
                self._queue(now)
                for gang in list(self.gangs):
                    self._end_phases(gang, now)
                self._renew(now)
        for each in [*self.fluid.queue, *(each for gang in self.gangs for each in gang.flight)]:
            self.fluid.add("waiting", self.fluid.window(each.start), each.count * (each.lost < 1))

    @staticmethod
    def _warm(gang: Gang, now: float) -> float:
        return gang.warm_until if gang.state == "serves" and gang.warm_until > now else math.inf

    # The accounts.

    def speed(self, gang: Gang, now: float) -> float:
        """Return the capacity of a gang over that of a whole one."""
        warm = self.service.get("recovery", {}).get("warm", {})
        speed = warm.get("speed", 1.0) if now < gang.warm_until else 1.0
        return speed * gang.width / self.size

    def pass_time(self, now: float, until: float) -> None:
        """Charge everybody for a span in which nothing changes."""
        span, rate, window = until - now, self.rate(now), self.fluid.window(now)
        if span <= 0:
            return
        unit = self.replica.capacity
        serving = [g for g in self.gangs if g.state == "serves"]
        live = sum(self.speed(g, now) * g.size for g in serving)
        heads = sum(g.size for g in serving)
        dead = sum(g.size for g in self.gangs if g.state == "dead" and g.had_served)
        sent = rate * dead / (heads + dead) if dead else 0.0
        self.fluid.add("offered", window, rate * span)
        if self.loses:
            self.fluid.add("failed", window, sent * span)
        for gang in self.gangs:
            if gang.state == "dead" and gang.had_served and not self.loses and sent:
                gang.flight.append(Waiting(now, until, sent * span * gang.size / dead))
        self.fluid.cause = self.failed if live < sum(g.size for g in self.gangs) - EPSILON else "demand"
        self.fluid.advance(now, until, rate - sent, live * unit)
        busy, vain = self.fluid.busy, sum(self.fluid.vain.values())
        wanted = sum(g.size for g in self.gangs)
        for name, amount in {
            "below": span * (live * unit < rate * (1 - 1e-12)),
            "replicas": span * live,
            "wanted": span * wanted,
            "full": span * (live >= wanted),
        }.items():
            self.fluid.add(name, window, amount)
        for gang in self.gangs:
            held = len(gang.nodes) * self.gpus
            if gang.state == "serves":
                speed = self.speed(gang, now) * self.size / len(gang.nodes)
                self.ledger["degraded", gang.cause] += held * (1 - speed) * busy
                self.ledger["productive", "no_failure"] += held * speed * (busy - vain)
                for cause, seconds in self.fluid.vain.items():
                    self.ledger["lost_work", cause] += held * speed * seconds
                self.ledger["headroom", "no_failure"] += held * (span - busy)
            elif gang.state != "queued":
                self.ledger["detection" if gang.state == "dead" else gang.phases[0][0], gang.cause] += held * span
        self.ledger["spare_idle", "no_failure"] += len(self.spare) * self.gpus * span
        self.ledger["unallocated", "no_failure"] += len(self.idle) * self.gpus * span
        members = {node for gang in self.gangs for node in gang.nodes}
        for node, (_, cause) in self.down.items():
            if node not in members:
                self.ledger["repair", cause] += self.gpus * span

    def _cut(self, gang: Gang, size: float, cause: str, now: float) -> None:
        """Fail what is in flight on a gang, or keep it until the failure is known."""
        replica, gang.flight = self.replica, []
        for each, count in self.fluid.cut(now, self._since(gang, now), size):
            if self.loses:
                self.fluid.add("failed", each.window, count)
                continue
            asked = self.edges[each.window]
            if self.failover == "retry":
                gang.flight.append(Waiting(asked, asked, count, replica.longer, due=-math.inf, share=each.share))
                continue
            again = replica.again * replica.capacity if self.failover == "migrate" else 0.0
            work = replica.longer / 2 + again
            due = now + (replica.limit - each.tpot) * replica.answer - replica.again
            gang.flight.append(Waiting(asked, asked, count, work, again / work, cause, due=due, share=each.share))

    def _move(self, gang: Gang, now: float) -> None:
        """Let what stands still with a gang that is known to have failed wait behind the others."""
        for each in gang.flight:
            self.fluid.add("moved", self.fluid.window(each.start), each.count)
            if self.fluid.has_queue and self.fluid.cancels:
                each.leaves = now + self.fluid.patience
            self.fluid.queue.append(each)
        gang.flight = []

    @staticmethod
    def _since(gang: Gang, now: float) -> float:
        """Return since when a gang has served as fast as now."""
        return gang.warm_until if gang.since < gang.warm_until <= now else gang.since

    # Nodes.

    def _fail(self, outage: Outage, now: float) -> None:
        """Take a node down; one that is down stays until all its outages are over."""
        node, _, end, cause = outage
        if node in self.down:
            self.down[node] = (max(end, self.down[node][0]), self.down[node][1])
            return
        self.down[node] = (end, cause)
        self.idle.discard(node)
        self.spare.discard(node)
        gang = next((gang for gang in self.gangs if node in gang.nodes), None)
        if gang is None:
            return
        gang.suspects.setdefault(node, cause)
        if gang.state == "dead":
            return
        if gang.state == "serves":
            self.failed = cause
            size = self.speed(gang, now)
            if self.failover in ("fail", "retry"):
                work = self.fluid.work(now, self._since(gang, now)) * size * self.size * self.gpus
                self.ledger["lost_work", cause] += work
                self.ledger["productive", "no_failure"] -= work
            self._cut(gang, size * gang.size, cause, now)
        gang.had_served = gang.state == "serves"
        gang.state, gang.cause, gang.until = "dead", cause, now + self.content["detection"]["time"]
        gang.joining, gang.joins = [], math.inf

    def _return_nodes(self, now: float) -> None:
        """Bring back the nodes whose outages are over; those outside gangs fill the spares first."""
        members = {node for gang in self.gangs for node in gang.nodes}
        for node in [node for node, (end, _) in self.down.items() if end <= now]:
            del self.down[node]
            if node not in members:
                self._free(node)

    def _free(self, node: int) -> None:
        """Put a node outside gangs where it belongs."""
        if node not in self.down:
            (self.spare if len(self.spare) < self.hot else self.idle).add(node)

    def _take(self, gang: Gang, count: int, *, replaces: bool = False) -> bool:
        """Give a gang so many nodes, or none: spares first where they replace others."""
        pools = (self.spare, self.idle) if replaces else (self.idle, self.spare)
        order = [node for pool in pools for node in sorted(pool)]
        if len(order) < count:
            return False
        for node in order[:count]:
            self.idle.discard(node)
            self.spare.discard(node)
            gang.nodes.append(node)
        return True

    # Gangs.

    def _open(self, replicas: int, now: float) -> None:
        """Open gangs for so many more replicas."""
        while replicas > 0:
            self.gangs.append(Gang(self.came, min(self.together, replicas), queued=now))
            replicas -= self.gangs[-1].size
            self.came += 1

    def _start(self, gang: Gang, phases: list[tuple[str, float]], now: float) -> None:
        gang.state, gang.phases, gang.until = "recovers", phases, now + phases[0][1]
        gang.is_cold = len(phases) > 1

    def _whole_start(self) -> list[tuple[str, float]]:
        return [("restore", self.replica.load), ("initialize", self.replica.start)]

    def _end_phases(self, gang: Gang, now: float) -> None:
        """End what a gang does, where it is over."""
        if gang.state == "dead" and gang.until <= now:
            self._recover(gang, now)
        elif gang.state == "recovers" and gang.until <= now:
            gang.phases.pop(0)
            if gang.phases:
                gang.until = now + gang.phases[0][1]
                return
            gang.state, gang.until, gang.width, gang.since = "serves", math.inf, len(gang.nodes), now
            gang.warm_until = now + self.service.get("recovery", {}).get("warm", {}).get("time", 0.0) * gang.is_cold

    def _recover(self, gang: Gang, now: float) -> None:
        """Plan what follows the detection of a failure."""
        self._move(gang, now)
        recovery = self.service.get("recovery", {}).get("use", "reload")
        lost = [node for node in gang.nodes if node in self.down]
        gang.nodes = [node for node in gang.nodes if node not in self.down]
        for node in lost:
            self.down[node] = (self.down[node][0], gang.suspects[node])
        gang.suspects = {}
        if not lost and recovery == "shadow" and gang.had_served:
            self._start(gang, [("initialize", self.replica.interruption)], now)
        elif self._take(gang, self.size - len(gang.nodes), replaces=True):
            self._start(gang, self._whole_start(), now)
        else:
            self.idle |= set(gang.nodes) - set(self.down)
            gang.nodes, gang.state, gang.until, gang.queued = [], "queued", math.inf, now

    def _queue(self, now: float) -> None:
        """Start the gangs that wait, as far as there are nodes."""
        waiting = [gang for gang in self.gangs if gang.state == "queued"]
        for gang in sorted(waiting, key=lambda gang: (gang.queued, gang.number)):
            if self._take(gang, self.size):
                self._start(gang, self._whole_start(), now)

    def _scale(self, now: float) -> None:
        """Follow the demand as it was a window ago."""
        scale = self.service.get("scale")
        if scale is None or now < scale["window"]:
            return
        need = self.rate(now - scale["window"]) / (scale["target"] * self.replica.capacity)
        wanted = min(max(math.ceil(need - 1e-9), scale["min"]), scale["max"])
        gangs = -(-wanted // self.together)
        for gang in sorted(self.gangs, key=lambda g: (g.state == "queued", g.number), reverse=True)[
            : max(len(self.gangs) - gangs, 0)
        ]:
            self.gangs.remove(gang)
            self._move(gang, now)
            self.idle |= set(gang.nodes) - set(self.down)
        self._open((gangs - len(self.gangs)) * self.together, now)

    def _upgrade(self, now: float) -> None:
        """Start replicas again, a few at a time."""
        upgrade = self.service.get("upgrade")
        if upgrade is None:
            return
        if now > 0 and abs(now / upgrade["every"] - round(now / upgrade["every"])) < EPSILON:
            self.upgrading = list(self.gangs)
        self._renew(now)

    def _renew(self, now: float) -> None:
        """Start the next replicas again, as many as may at a time."""
        upgrade = self.service.get("upgrade")
        if upgrade is None:
            return
        self.upgraded = [gang for gang in self.upgraded if gang.state in ("recovers", "dead") and gang in self.gangs]
        count = max(upgrade["batch"] // self.together, 1)
        while self.upgrading and len(self.upgraded) < count:
            gang = self.upgrading.pop(0)
            if gang in self.gangs and gang.state == "serves":
                gang.cause = "drain"
                self._start(gang, self._whole_start(), now)
                self.upgraded.append(gang)

"""A second implementation of one job that shrinks and grows, from the documentation alone.

`simulate` takes the mapping of a scenario and its logs; times are whole seconds, laws are fixed, nothing is random. A
*group* is replicas that share hosts. A *party* goes through its phases in lockstep: the groups that step together (the
`main` one), or one group beside them. A plan is a list of phases and their times.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

Logs = dict[str, list[tuple[int, int, int, str]]]
"""Rows of each log: node, start, end [s] and cause."""

Order = tuple[int, int, str, int]

RETURN, PHASE, READY, KNOWN = (0, 0, "", 0), (1, 0, "", 0), (1, 1, "", 0), (1, 2, "", 0)
"""What comes first at one instant; then come failures: by source, cause and unit."""

STOPS_ALL: Final = ("hang", "storage", "switch", "planned")
"""Classes of faults that stop all replicas."""

WAIT: Final = -1
"""Time of a phase that ends when enough replicas are whole."""

DARK: Final = ("starved", "dark detection")
"""Phases in which no process runs."""


def seconds(text: Any, default: int = 0) -> int:
    """Return a time [s] such as ``90 s``."""
    return default if text is None else int(str(text).removesuffix(" s"))


def scaled(section: dict[str, Any], text: Any) -> int:
    """Return a time [s] of a section that has a factor of all its times."""
    return int(Fraction(str(section.get("scale", 1))) * seconds(text))


@dataclass(eq=False)
class Node:
    """A node: the outages that keep it down, who holds it, and the pool that it is in when free."""

    outages: list[object] = field(default_factory=list)
    group: Group | None = None
    pool: str = ""
    lives: list[Life] = field(default_factory=list)


@dataclass(eq=False)
class Group:
    """Replicas that share hosts, with their nodes by position (None where one is lost)."""

    nodes: list[Node | None] = field(default_factory=list)
    ready_at: int = 0

    def is_whole(self, now: int) -> bool:
        """Return whether all nodes are there."""
        return None not in self.nodes and self.ready_at <= now


@dataclass(eq=False)
class Failure:
    """A failure of nodes, or of a process alone, and what its outages do when the job knows of it."""

    cause: str
    fault: str
    latency: int
    nodes: list[Node]
    outages: list[Outage] = field(default_factory=list)


@dataclass(eq=False)
class Outage:
    """An outage of a node; its end is stated, or it is repaired from the moment when it is known."""

    node: Node
    repair: int | None
    is_begun: bool = False
    life: Life | None = None


@dataclass(eq=False)
class Party:
    """Groups in lockstep: the phase that they are in, since when, and what it is charged to."""

    groups: list[Group]
    phase: str = "starved"
    cause: str = "no_failure"
    since: int = 0
    token: int = 0
    course: int = 0
    plan: list[tuple[str, int]] = field(default_factory=list)
    pending: list[Failure] = field(default_factory=list)
    known_at: int = 0


@dataclass(eq=False)
class Life:
    """Lives of a node or of the job, one after another: what is left of this one, and since when it runs."""

    length: int
    strike: Callable[[], None]
    may_run: Callable[[], bool]
    left: int | None
    order: Order
    is_shared: bool = False
    since: int | None = None
    token: int = 0


class Simulation:
    """One replication of one job."""

    def __init__(self, document: dict[str, Any], logs: Logs) -> None:
        """Read the scenario, and begin."""
        self.document, self.logs = document, logs
        self.now, self.horizon = 0, seconds(document["horizon"])
        self.queue: list[tuple[int, Order, int, Callable[[], None]]] = []
        self.count = itertools.count()
        self.buckets: dict[tuple[str, str], int] = {}
        self.interruptions: dict[str, int] = {}
        job, store = document["jobs"][0], document["checkpoint"]["tiers"][0]
        self.recovery = document["recovery"]
        self.kind = self.recovery["use"]
        self.step_time, self.gpus_per_node = seconds(job["step_time"]), document["cluster"]["gpus_per_node"]
        self.interval = -(-seconds(store["interval"]) // self.step_time) * self.step_time
        self.is_blocking = store.get("mode", "async") == "blocking"
        self.write, self.restore = seconds(store["write"]), seconds(store["restore"])
        self.stall = self.write if self.is_blocking else seconds(store.get("stall"))
        self.progress = self.last_save = self.committed = 0
        self.in_writing: tuple[int, int] | None = None
        self.segments: list[tuple[int, int, int]] = []
        self.is_live = self.is_quorum = self.is_orphaned = False
        self.first_cause, self.stopped_at, self.resumed_at, self.survivors = "", 0, -1, 0
        self.lives: list[Life] = []
        self.away: list[Party] = []
        self.waiting: list[Party] = []
        self.ready: list[Party] = []
        self._lay_out(job)
        self._fill_pools(document.get("spares", {}))
        self.main = Party(self.groups[:])
        for self.source, entry in enumerate(document["failures"]):
            getattr(self, "_begin_" + entry["use"])(entry)
        self._enter(self.main, self._launch("first"), "no_failure")

    def run(self) -> tuple[dict[tuple[str, str], int], dict[str, int]]:
        """Simulate; return GPU-seconds by bucket and cause, and interruptions by cause."""
        while self.queue and self.queue[0][0] < self.horizon:
            self.now, _, _, call = heapq.heappop(self.queue)
            call()
        self.now = self.horizon
        for party in [self.main, *self.away]:
            self._charge(party)
        for start, end, gpus in self.segments:
            self._add("productive", "no_failure", (end - start) * gpus)
        return self.buckets, self.interruptions

    def at(self, time: int, order: Order, call: Callable[[], None]) -> None:
        """Call something later."""
        heapq.heappush(self.queue, (time, order, next(self.count), call))

    # What the scenario says.

    def _lay_out(self, job: dict[str, Any]) -> None:
        """Find the sets of replicas that share hosts, and the positions of each."""
        sizes = {"tensor": 1, "data": 1, "pipeline": 1} | job["parallelism"]
        hosts: list[set[int]] = [set() for _ in range(job["gpus"] // self.gpus_per_node)]
        for rank in range(job["gpus"]):
            rest, replica = rank, 0
            for key in ("tensor", "data", "pipeline"):
                rest, place = divmod(rest, sizes[key])
                replica = place if key == "data" else replica
            hosts[rank // self.gpus_per_node].add(replica)
        owner = {replica: replica for replica in range(sizes["data"])}
        for replicas in hosts:
            roots = {owner[replica] for replica in replicas}
            owner = {replica: min(roots) if root in roots else root for replica, root in owner.items()}
        groups = {root: Group() for root in sorted(set(owner.values()))}
        self.groups = list(groups.values())
        self.places = [groups[owner[min(replicas)]] for replicas in hosts]
        self.minimum = int(self.recovery.get("min_replicas", 1))
        if self.recovery.get("majority"):
            self.minimum = max(self.minimum, len(self.groups) // 2 + 1)

    def _fill_pools(self, spares: dict[str, Any]) -> None:
        """Give the job the lowest nodes, and the pools of spares the last ones."""
        self.nodes = [Node() for _ in range(self.document["cluster"]["nodes"])]
        self.pools = {"spare": {"nodes": spares.get("hot", 0)}, "warm": {"nodes": 0} | spares.get("warm", {})}
        for node, group in zip(self.nodes, self.places, strict=False):
            node.group = group
            group.nodes.append(node)
        free = self.nodes[len(self.places) :]
        names = [pool for pool, entry in reversed(self.pools.items()) for _ in range(entry["nodes"])]
        for node, pool in zip(free, ["idle"] * (len(free) - len(names)) + names, strict=True):
            node.pool = pool

    def _latency(self, entry: dict[str, Any]) -> int:
        """Return the time from a failure to its being known."""
        detection = self.document["detection"]
        general = detection.get("hang") if entry.get("effect") == "hang" else None
        return scaled(detection, entry.get("detection", general or detection["time"]))

    def _times(self, key: str) -> int:
        """Return a time of the recovery, scaled."""
        return scaled(self.recovery, self.recovery.get(key))

    def _repair_time(self, entry: dict[str, Any]) -> int | None:
        """Return the time of a repair, or None with tiers."""
        repair = self.document.get("repair", {})
        stated = entry.get("repair", repair.get("time"))
        return None if stated is None else scaled(repair, stated)

    # Sources of failures.

    def _begin_replay(self, entry: dict[str, Any]) -> None:
        """Play a log whose rows of one node neither overlap nor touch."""
        fault = entry.get("fault", "host")
        for unit, start, end, cause in self.logs[entry["file"]]:
            failure = Failure(cause, fault, self._latency(entry), [self.nodes[unit]])
            self.at(start, (2, self.source, cause, unit), partial(self._fail, failure, end=end))

    def _begin_component(self, entry: dict[str, Any]) -> None:
        """Give each unit its lives."""
        width = self.document["cluster"]["rack"]["nodes"] if entry.get("part") == "rack" else 1
        for first in range(0, len(self.nodes), width):
            self._begin_unit(entry, first, self.nodes[first : first + width])

    def _begin_unit(self, entry: dict[str, Any], unit: int, nodes: list[Node]) -> None:
        """Give a unit its lives, by its clock."""
        clock, renews, node = entry.get("clock", "wall"), entry.get("renews", "at_failure"), nodes[0]

        def strike() -> None:
            fault = entry.get("fault", "host")
            failure = Failure(entry["name"], fault, self._latency(entry), nodes)
            if renews == "at_failure":
                self._renew(life)
            self._fail(failure, repair=self._repair_time(entry), life=life if renews == "at_return" else None)

        def may_run() -> bool:
            if clock == "wall":
                return True
            party = self._party(node.group)
            return not node.outages if clock == "in_service" else party is not None and party.phase not in DARK

        length = seconds(entry["law"])
        life = Life(length, strike, may_run, length, (2, self.source, "", unit), is_shared=entry.get("part") == "rack")
        self._run(life)

    def _begin_job(self, entry: dict[str, Any]) -> None:
        """Give the job lives of its own."""
        fault = "hang" if entry.get("effect") == "hang" else entry.get("fault", "process")

        def strike() -> None:
            self._renew(life)
            self._hit(Failure(entry["name"], fault, self._latency(entry), []))

        length = seconds(entry["law"])
        life = Life(length, strike, lambda: self.main.phase not in DARK, length, (2, self.source, "", 0))
        self._run(life)

    def _begin_maintenance(self, entry: dict[str, Any]) -> None:
        """Take nodes out at a date."""
        for window in entry["windows"]:
            nodes = self.nodes[window.get("first", 0) :][: window.get("units", 1)]
            start = seconds(window["start"])
            failure = Failure(entry["name"], "planned", 0, nodes)
            end = start + seconds(window["duration"])
            saves = entry.get("saves", True)
            self.at(start, (2, self.source, "", 0), partial(self._fail, failure, end=end, saves=saves))

    def _begin_rollout(self, entry: dict[str, Any]) -> None:
        """Take the nodes out in their order, so many at a time."""
        batch, duration = entry.get("batch", 1), seconds(entry["duration"])
        step = int(Fraction(86400 * batch) / Fraction(str(entry["nodes_per_day"])))
        for index in range(0, len(self.nodes), batch):
            start = seconds(entry.get("start")) + index // batch * step
            failure = Failure(entry["name"], "planned", 0, self.nodes[index : index + batch])
            self.at(start, (2, self.source, "", 0), partial(self._fail, failure, end=start + duration, saves=True))

    # Lives.

    def _run(self, life: Life) -> None:
        """Begin the lives of a unit."""
        self.lives.append(life)
        self._refresh()

    def _renew(self, life: Life) -> None:
        """Begin the next life."""
        life.left, life.since, life.token = life.length, None, life.token + 1
        self._refresh()

    def _refresh(self) -> None:
        """Let clocks run or stand still as what they count says now."""
        for life in self.lives:
            if life.since is not None and not life.may_run():
                life.left, life.since, life.token = (life.left or 0) - (self.now - life.since), None, life.token + 1
            elif life.since is None and life.left is not None and life.may_run():
                life.since = self.now
                self.at(self.now + life.left, life.order, partial(self._end, life, life.token))

    def _end(self, life: Life, token: int) -> None:
        """End a life that has run to its length."""
        if life.token == token:
            life.left, life.since, life.token = None, None, life.token + 1
            life.strike()

    # Nodes.

    def _party(self, group: Group | None) -> Party | None:
        """Return the party that a group is in."""
        return next((party for party in [self.main, *self.away] if group in party.groups), None)

    def _fail(
        self,
        failure: Failure,
        end: int | None = None,
        repair: int | None = None,
        *,
        saves: bool = False,
        life: Life | None = None,
    ) -> None:
        """Take nodes down: until a stated end, or for a repair from when it is known."""
        hit = [node for node in failure.nodes if not node.outages]
        holders = [party for party in (self._party(node.group) for node in failure.nodes) if party is not None]
        # A node goes one way through the tiers at a time.
        is_masked = end is None and repair is None and not hit
        is_over = end == self.now or repair == 0 or is_masked
        failure.outages = [Outage(node, repair, is_begun=end is not None) for node in failure.nodes if not is_over]
        if failure.outages:
            failure.outages[0].life = life
        elif life and not hit and not life.is_shared:
            failure.nodes[0].lives.append(life)
        elif life:
            self._renew(life)
        for outage in failure.outages:
            outage.node.outages.append(outage)
            outage.node.pool = ""
        if end is not None:
            self.at(end, RETURN, lambda: self._end_outages(failure.outages[:]))
        elif not holders:
            self._begin_repair(failure.outages)
        failure.nodes = hit
        self._refresh()
        if hit:
            self._hit(failure, saves=saves)
        for party in holders if failure.outages else []:
            if failure not in party.pending:
                party.pending.append(Failure("", "", 0, [], failure.outages))

    def _begin_repair(self, outages: list[Outage]) -> None:
        """Repair the nodes of a unit: for one time, or one node through the tiers."""
        outages = [outage for outage in outages if not outage.is_begun]
        for outage in outages:
            outage.is_begun = True
        if outages and outages[0].repair is not None:
            self.at(self.now + outages[0].repair, RETURN, lambda: self._end_outages(outages))
        elif outages:
            self._enter_tier(outages[0], 0)

    def _enter_tier(self, outage: Outage, index: int) -> None:
        """Work on a node in a tier, then go on to the next one, to the tests, or back."""
        repair = self.document["repair"]
        tier, tests = repair["tiers"][index], repair.get("qualification")
        following, time = min(index + 1, len(repair["tiers"]) - 1), scaled(repair, tier["time"])
        if tier.get("escalates") and following > index:
            self.at(self.now + time, RETURN, lambda: self._enter_tier(outage, following))
            return
        time += 0 if tests is None else scaled(repair, tests["time"])
        is_over = tier.get("fixes", 1) or tests is None or not tests.get("finds", 1)
        self.at(
            self.now + time,
            RETURN,
            lambda: self._end_outages([outage]) if is_over else self._enter_tier(outage, following),
        )

    def _end_outages(self, outages: list[Outage]) -> None:
        """End outages of a unit; a node is back when all of its own are over."""
        for outage in outages:
            self._close(outage)
            if not outage.node.outages and outage.node.group is None:
                self._give(outage.node)
        for party in self.waiting[:]:
            self._take(party)
        self._refresh()

    def _close(self, outage: Outage) -> None:
        """Close an outage; the next life of its part begins, or that of its node when nothing holds that down."""
        node = outage.node
        node.outages.remove(outage)
        node.lives += [outage.life] if outage.life else []
        for life in [life for life in node.lives if life.is_shared or not node.outages]:
            self._renew(life)
            node.lives.remove(life)

    def _give(self, node: Node) -> None:
        """Let a node that is back fill the pools, or serve those who wait."""
        counts = {pool: sum(other.pool == pool for other in self.nodes) for pool in self.pools}
        short = [pool for pool, entry in self.pools.items() if counts[pool] < entry["nodes"]]
        node.pool = short[0] if short else "idle"

    def _take(self, party: Party) -> None:
        """Take nodes for the positions that lack one, from the pools in their order."""
        group = party.groups[0]
        for index in [index for index, node in enumerate(group.nodes) if node is None]:
            free = [node for pool in ("spare", "warm", "idle") for node in self.nodes if node.pool == pool]
            if not free:
                break
            node = free[0]
            if node.pool == "warm":
                group.ready_at = self.now + seconds(self.pools["warm"]["delay"])
                self.at(group.ready_at, PHASE, lambda: self._look(party))
            node.pool, node.group, group.nodes[index] = "", group, node
        self._look(party)

    # Phases.

    def _add(self, bucket: str, cause: str, amount: int) -> None:
        """Add GPU-seconds to a bucket."""
        if amount:
            self.buckets[bucket, cause] = self.buckets.get((bucket, cause), 0) + amount

    def _charge(self, party: Party) -> None:
        """Charge the time since the last charge to the phase that the party is in."""
        passed, gpus = self.now - party.since, sum(len(group.nodes) for group in party.groups) * self.gpus_per_node
        party.since = self.now
        if party.phase != "productive":
            self._add(party.phase.removeprefix("dark "), party.cause, passed * gpus)
        elif passed:
            self.segments.append((self.progress, self.progress + passed, gpus))
            self.progress += passed

    def _set(self, party: Party, phase: str, cause: str) -> None:
        """Enter a phase; what was to end the phase before is void."""
        self._charge(party)
        party.phase, party.cause, party.token = phase, cause, party.token + 1
        self._refresh()

    def _after(self, party: Party, time: int, call: Callable[[], None], order: Order = PHASE) -> None:
        """Call something after a time, unless the party has left the phase."""
        token = party.token
        self.at(self.now + time, order, lambda: call() if party.token == token else None)

    def _enter(self, party: Party, plan: list[tuple[str, int]], cause: str) -> None:
        """Go through phases one after another, then step, or be ready to."""
        party.plan = [(phase, time) for phase, time in plan if time]
        party.course += 1
        if party is not self.main and party.plan:
            end, course = self.now + sum(time for _, time in party.plan), party.course
            self.at(end, PHASE, lambda: self._be_ready(party) if party.course == course else None)
        self._next(party, cause)

    def _next(self, party: Party, cause: str) -> None:
        """Begin the next phase of the plan."""
        if party.plan:
            phase, time = party.plan.pop(0)
            if phase == "wait":
                self._wait(cause)
                return
            self._set(party, phase, cause)
            self._after(party, time, lambda: self._next(party, cause))
        elif party is self.main:
            party.cause, self.resumed_at = cause, self.now
            self._step()
        elif party.phase == "starved":
            party.cause = cause
            self._be_ready(party)

    def _launch(self, after: str) -> list[tuple[str, int]]:
        """Return the phases up to stepping: at the first start, after a failure, or when a replica is back."""
        start = {"first": "start_up", "return": "rejoin"}.get(after, "launch")
        start = start if start in self.recovery and self.kind == "restart-smaller" else "launch"
        stop = self._times("stop") if after != "first" and start != "rejoin" else 0
        launch = self._times(start if self.kind == "restart-smaller" else "initialize")
        wait = WAIT if after == "failure" and self.survivors < self.minimum else 0
        read = self.restore if self.committed else 0
        return [("reschedule", stop), ("wait", wait), ("initialize", launch), ("restore", read)]

    # Stepping and saving.

    def _step(self) -> None:
        """Step to the next save."""
        self.is_live, self.is_orphaned, self.first_cause = True, False, ""
        self._set(self.main, "productive", "")
        self._after(self.main, max(0, self.last_save + self.interval - self.progress), self._save)

    def _save(self) -> None:
        """Save: stop for the stall, then step on."""
        self._set(self.main, "checkpoint_stall", "no_failure")
        if self.stall:
            self._after(self.main, self.stall, self._end_save)
        else:
            self._end_save()

    def _end_save(self) -> None:
        """End the stall of a save: it is durable, or will be."""
        self._settle(self.now)
        self.last_save = self.progress
        self.in_writing = (self.progress, self.now + (0 if self.is_blocking else self.write))
        self._settle(self.now)
        self._step()

    def _settle(self, time: int) -> None:
        """Commit the save in writing if it was durable by a time."""
        if self.in_writing and self.in_writing[1] <= time:
            self.committed, self.in_writing = self.in_writing[0], None

    def _lose(self, progress: int, cause: str) -> None:
        """Throw away what was done beyond some progress."""
        while self.segments and self.segments[-1][1] > progress:
            start, end, gpus = self.segments.pop()
            self._add("lost_work", cause, (end - max(start, progress)) * gpus)
            if start < progress:
                self.segments.append((start, progress, gpus))
        self.progress = progress

    def _roll_back(self, cause: str, stopped_at: int) -> None:
        """Go back to what is durable; a save that was on its way when the job stopped is void."""
        self._settle(stopped_at)
        self.in_writing = None
        self._lose(self.committed, cause)
        self.last_save = self.committed
        self.is_live = False

    # Failures and plans.

    def _hit(self, failure: Failure, *, saves: bool = False) -> None:
        """Let those whose nodes failed, or whose process ended, know of it after the latency."""
        holders = [self._party(node.group) for node in failure.nodes] if failure.nodes else [self.main]
        parties = [party for party in dict.fromkeys(holders) if party is not None]
        parties.sort(key=lambda party: party is self.main)
        if not parties:
            return
        self.interruptions[failure.cause] = self.interruptions.get(failure.cause, 0) + 1
        for party in parties:
            if saves and party is self.main and party.phase == "productive":
                self._charge(party)
                self._lose(self.progress - self.progress % self.step_time, failure.cause)
                self.committed = self.last_save = self.progress
                self.in_writing = None
            self._detect(party, failure)

    def _detect(self, party: Party, failure: Failure) -> None:
        """Wait for the detection; whichever failure is known first ends the wait."""
        known_at, phase, cause = self.now + failure.latency, "detection", failure.cause
        if party.pending:
            phase, cause, known_at = party.phase, party.cause, min(known_at, party.known_at)
        elif party.phase in DARK:
            phase = "dark detection"
        if not party.pending and party is self.main:
            self.stopped_at = self.now
            self.is_quorum = False
        if party is self.main:
            self.first_cause = self.first_cause or failure.cause
        party.pending.append(failure)
        party.course += 1
        self.waiting = [other for other in self.waiting if other is not party]
        self.ready = [other for other in self.ready if other is not party]
        if len(party.pending) == 1 or known_at < party.known_at:
            party.known_at = known_at
            self._set(party, phase, cause)
            self._after(party, known_at - self.now, lambda: self._plan(party), KNOWN)

    def _let_go(self, party: Party, failures: list[Failure]) -> list[Node]:
        """Send the nodes that are still down to repair; return those that nobody blames."""
        outages = [failure.outages for failure in failures if failure.outages]
        unblamed = [node for each in outages for node in self._diagnose(each, party)]
        for group in party.groups:
            for index, node in enumerate(group.nodes):
                if node is not None and (node.outages or node in unblamed):
                    group.nodes[index], node.group = None, None
        return unblamed

    def _diagnose(self, outages: list[Outage], party: Party) -> list[Node]:
        """Begin the repair of the blamed node; return the failed one if it is swapped unrepaired."""
        outage = outages[0]
        if outage.is_begun or outage.node.group not in party.groups:
            self._begin_repair(outages)
            return []
        diagnosis = self.document.get("repair", {}).get("diagnosis", {}) if outage.repair is None else {}
        if not diagnosis.get("finds", 1):
            self._close(outage)
            return [] if outage.node.outages else [outage.node]
        self._begin_repair(outages)
        return []

    def _plan(self, party: Party) -> None:
        """Plan what follows the failures that are known now."""
        failures, party.pending = party.pending, []
        unblamed = self._let_go(party, failures)
        if party is self.main:
            self._plan_main(failures, party.cause, unblamed)
        else:
            self._acquire(party, party.cause)
            self._release(unblamed)

    def _release(self, unblamed: list[Node]) -> None:
        """Let nodes that were swapped unrepaired wait for work, after others have been taken for them."""
        for node in unblamed:
            node.pool = "idle"
        for waiting in self.waiting[:]:
            self._take(waiting)

    def _plan_main(self, failures: list[Failure], cause: str, unblamed: list[Node]) -> None:
        """Go on without those that were lost, or restart all from the checkpoint."""
        main = self.main
        lost = [group for group in main.groups if None in group.nodes]
        gone = {node for failure in failures for node in failure.nodes if node.group is None}
        stops = any(failure.fault in STOPS_ALL and not gone & set(failure.nodes) for failure in failures)
        stops_all = not self.is_live or self.kind != "shrink-rejoin" or stops
        if not stops_all:
            ended = [node.group for failure in failures for node in failure.nodes if node.group in main.groups]
            ended += [main.groups[-1] for failure in failures if not failure.nodes and not failure.outages]
            lost += [group for group in dict.fromkeys(ended) if group is not None and group not in lost]
        restarts = stops_all or len(main.groups) - len(lost) < self.minimum
        self._charge(main)
        if restarts:
            self._roll_back(self.first_cause, self.stopped_at)
        else:
            self._lose(self.progress - self.progress % self.step_time, self.first_cause)
        main.groups = [group for group in main.groups if group not in lost]
        self.survivors = len(main.groups)
        fresh = [Party([group], since=self.now, cause=cause) for group in lost]
        self.away += fresh
        self._orphan()
        for party in fresh:
            self._acquire(party, cause)
        self._release(unblamed)
        self._join()
        self.is_orphaned = self.is_orphaned and len(main.groups) < self.minimum
        self._enter(main, self._launch("failure") if restarts else [("reschedule", self._times("reconfigure"))], cause)

    def _orphan(self) -> None:
        """Let those who take the state from a peer wait for a start of all, where no peer is left."""
        self.is_orphaned = self.is_orphaned or not self.main.groups
        for party in self.away if not self.main.groups else []:
            if party.phase in ("initialize", "restore"):
                self._set(party, "starved", party.cause)
                self._be_ready(party)

    def _acquire(self, party: Party, cause: str) -> None:
        """Take the nodes that are missing, and wait for those that are not there."""
        self._set(party, "starved", cause)
        self.waiting.append(party)
        self._take(party)

    def _look(self, party: Party) -> None:
        """Go on with all nodes: get ready beside the others, or start with them."""
        if party not in self.waiting or not party.groups[0].is_whole(self.now):
            return
        self.waiting.remove(party)
        if self.kind == "shrink-rejoin" and not self.is_orphaned:
            plan = [("initialize", self._times("initialize")), ("restore", self._times("catch_up"))]
            self._enter(party, plan, party.cause)
        else:
            self._be_ready(party)

    def _be_ready(self, party: Party) -> None:
        """Join the others after all returns of this instant."""
        party.course += 1
        self.ready += [party] * (party not in self.ready)
        if self.kind == "shrink-rejoin" and not self.is_orphaned and not self._has_partner():
            self._set(party, "restore", party.cause)
        self.at(self.now, READY, self._admit)

    # Joining.

    def _join(self) -> str:
        """Make those that are ready part of the others; return the cause of the last one, or nothing."""
        cause = ""
        self._charge(self.main)
        for party in [party for party in self.away if party in self.ready]:
            cause = party.cause
            self._charge(party)
            self.away.remove(party)
            party.token += 1
            self.main.groups += party.groups
        self.ready = []
        self.main.groups.sort(key=self.groups.index)
        self._refresh()
        return cause

    def _has_partner(self) -> bool:
        """Return whether a replica that no failure has struck is there to take the state from."""
        struck = {node for failure in self.main.pending for node in failure.nodes}
        return any(not struck & set(group.nodes) for group in self.main.groups)

    def _admit(self) -> None:
        """Let those that are ready join: at once where the others stand still, else with a stall or a restart."""
        main = self.main
        if not self.ready or (main.pending and self.kind == "shrink-rejoin" and not self._has_partner()):
            return
        first = next(party for party in self.away if party in self.ready).cause
        cause = self._join()
        if main.phase == "starved" or self.is_quorum:
            if len(main.groups) >= self.minimum:
                self.is_quorum = self.is_orphaned = False
                self._next(main, main.cause)
        elif self.kind == "restart-smaller" and not main.pending and ("wait", WAIT) not in main.plan:
            self._grow(cause)
        elif main.phase in ("productive", "checkpoint_stall") and self.resumed_at < self.now:
            self._settle(self.now)
            self._lose(self.progress - self.progress % self.step_time, first)
            self._enter(main, [("initialize", self._times("rejoin"))], first)

    def _grow(self, cause: str) -> None:
        """Start all again, from the newest checkpoint or from the last step."""
        if self.is_live and self.recovery.get("rejoin_keeps") == "live":
            self._lose(self.progress - self.progress % self.step_time, cause)
            self._enter(self.main, self._launch("return")[:-1], cause)
            return
        self._roll_back(cause, self.now)
        self._enter(self.main, self._launch("return"), cause)

    def _wait(self, cause: str) -> None:
        """Go on if enough replicas are whole, else wait for more: for a quorum's time with processes, then without."""
        main = self.main
        if len(main.groups) >= self.minimum:
            self.is_orphaned = False
            self._next(main, cause)
            return
        quorum = self._times("quorum_timeout") if self.survivors else 0
        self.is_quorum = quorum > 0
        self._set(main, "reschedule" if quorum else "starved", cause)
        if quorum:
            self._after(main, quorum, self._end_quorum)

    def _end_quorum(self) -> None:
        """End the processes of too few replicas."""
        self.is_quorum = False
        self._set(self.main, "starved", self.main.cause)


def simulate(document: dict[str, Any], logs: Logs) -> tuple[dict[tuple[str, str], int], dict[str, int]]:
    """Return GPU-seconds by bucket and cause, and interruptions by cause."""
    return Simulation(document, logs).run()

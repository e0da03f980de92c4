"""A second, plain simulator of fleets, written from the documentation alone: no code of `sim` is used.

Streams from a trace, outages from a log, nodes of eight GPUs, whole seconds. `Fleet` takes a scenario, the rows of its
trace and those of its log; `simulate` returns attempts. Its rules are in this order: what happens at an instant,
how a run goes, how it stops, the pass over the queue, places, quotas, preemption.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

Rows: TypeAlias = "list[dict[str, Any]]"
Log: TypeAlias = "list[tuple[int, int, int]]"
Attempt: TypeAlias = "tuple[int, float, float, str, tuple[tuple[int, ...], ...]]"
"""Job, start, end, state, and nodes: those that it began with, then those after each change."""
GPUS, INF = 8, math.inf
PREEMPT = {"mode": "none", "who": "priority", "exempt": 0, "grace": 0, "order": "youngest", "reclaim": "none",
           "within": "cluster"}  # fmt: skip
CHECKPOINT: dict[str, float] = {"interval": INF, "save": 0, "restore": 0}
KEYS = {"preempted": "signal", "detected": "failure"}  # what arranged the end of a run, if not its start


class Kind(NamedTuple):
    """Nodes that are alike to the queue."""

    domain: int
    partitions: tuple[str, ...]


@dataclass(eq=False)
class Job:
    """A job, and what has become of it: `future`, `delayed`, `queued`, `running`, `lost` (stands still) or `over`."""

    number: int
    submit: float
    gpus: int
    work: float
    limit: float
    outcome: str
    tenant: str
    priority: float
    partition: str
    status: str = "future"
    eligible: float = 0  # when it enters the queue
    place: float = 0  # its age
    saved: float = 0
    nodes: list[int] = field(default_factory=list)
    had: list[tuple[int, ...]] = field(default_factory=list)
    start: float = 0
    begun: float = 0  # when it last began to run: at its start, or at a restart in place
    serial: int = 0  # how many starts there were until its own
    detected: float = INF  # when its failure is known, or when it has held its nodes for the delay
    holds: bool = False
    kill: float = INF  # when its grace is over
    arranged: Counter[str] = field(default_factory=Counter)  # of what is to come, which was arranged before which
    victims: list[Job] = field(default_factory=list)
    claim: Counter[Kind] = field(default_factory=Counter)  # nodes that are kept for it while its victims leave
    corner: int | None = None  # the node that it will share with those who stay there

    def __post_init__(self) -> None:
        """Work out what it takes: nodes, one if it shares one, and nodes of the quota."""
        self.is_small, self.count = self.gpus < GPUS, -(-self.gpus // GPUS)
        self.size = self.gpus / GPUS if self.is_small else self.count


class Fleet:
    """A cluster, its jobs, and the queue."""

    def __init__(self, scenario: dict[str, Any], rows: Rows, log: Log) -> None:
        (stream,), self.scheduler = scenario["streams"], scenario["scheduler"]
        self.preempt = PREEMPT | self.scheduler.get("preempt", {})
        self.requeue, self.cycle = self.scheduler["requeue"], self.scheduler["cycle"]
        self.horizon, self.latency = scenario["horizon"], scenario["detection"]["time"]
        checkpoint: dict[str, float] = CHECKPOINT | stream["checkpoint"]
        self.restart: float = stream["restart"]
        self.chain, self.exact = stream.get("chain"), stream.get("limit") == "exact"
        self.interval, self.save, self.restore = checkpoint.values()
        partitions = scenario.get("partitions") or [{"name": "", "nodes": range(scenario["cluster"]["nodes"])}]
        self.partitions = {partition["name"]: set(partition["nodes"]) for partition in partitions}
        self.tiers = {partition["name"]: partition.get("tier", 1) for partition in partitions}
        self.caps: dict[str, float] = {partition["name"]: partition.get("limit", INF) for partition in partitions}
        numbers = range(scenario["cluster"]["nodes"])
        rack = scenario["cluster"]["rack"]["nodes"] if self.scheduler.get("need") == "required" else len(numbers)
        self.kinds = [Kind(node // rack, tuple(name for name, nodes in self.partitions.items() if node in nodes))
                      for node in numbers]  # fmt: skip
        self.preference = sorted(numbers, key=lambda node: (len(self.kinds[node].partitions), node))
        self.tenants = {tenant["name"]: tenant for tenant in scenario.get("tenants", [])}
        self.jobs = [self._job(number, row) for number, row in enumerate(rows)]
        self.log = sorted(log, key=lambda row: row[1])
        self.now = self.later = 0.0  # who is beyond the limit may end a moment later at the earliest
        self.down, self.starts, self.arranged = set[int](), 0, 0
        self.opened: dict[int, int] = {}  # how many starts there were when a node was last begun to be used
        self.claimers, self.gone = list[Job](), list[Job]()
        self.held: dict[str, float] = {}  # of each quota, what those who block or have a reservation hold
        self.reservations: list[tuple[float, float, Counter[Kind]]] = []
        self.attempts: list[Attempt] = []

    def _job(self, number: int, row: dict[str, Any]) -> Job:
        partition = row.get("partition") or next(iter(self.partitions))
        job = Job(number, row["submit"], row["gpus"], row["run"], INF if row["limit"] is None else row["limit"],
                  row["state"], row.get("tenant", ""), row["priority"], partition)  # fmt: skip
        # The log knows that its limit did not end it; a cancelled job is ended minutes after its limit at the latest.
        ended_late = 1.1 * job.limit + 300 if row["state"] == "cancelled" else job.limit
        if self.scheduler["at_limit"] == "kill" and row["run"] > ended_late:
            job.limit = max(job.limit, self._left(job))
        job.limit = min(self._left(job) if self.exact else INF if self.chain else job.limit, self._longest(job))
        return job

    def _longest(self, job: Job) -> float:
        return min(self.caps[job.partition], self.chain["limit"] if self.chain else INF)

    # What happens at an instant.

    def simulate(self) -> list[Attempt]:
        """Return all attempts that end before the horizon."""
        while self.now < self.horizon:
            happened = self._happen()
            if self.now % self.cycle == 0 if self.cycle else happened or self.now in self._wakes():
                while self._pass() | self._happen():
                    pass
            self.now = min((time for time in self._times() if time > self.now), default=INF)
        return sorted(attempt for attempt in self.attempts if attempt[2] < self.horizon)

    def _times(self) -> list[float]:
        """Return when something may happen next."""
        times: list[float] = [time for row in self.log for time in row[1:]]
        for job in self.jobs:
            times += self._ends(job).values() if job.nodes else (job.submit, job.eligible)
        if self.cycle and any(job.status == "queued" for job in self.jobs):
            times.append((self.now // self.cycle + 1) * self.cycle)
        return times if self.cycle else [*times, *self._wakes()]

    def _wakes(self) -> set[float]:
        """Return the ends of exempt times: passes that no event asks for."""
        return {job.start + self.preempt["exempt"] for job in self.jobs if job.nodes and self.preempt["mode"] != "none"}

    def _happen(self) -> bool:
        """Let all happen that is due: returns, ends of phases, failures, arrivals; return whether anything did."""
        returns = [row for row in self.log if row[2] == self.now and row[0] in self.down]
        for row in returns:
            self.down.remove(row[0])
            self.log.remove(row)
        happened = self._end_phases() or bool(returns)
        for node, start, _ in self.log:
            if start == self.now and node not in self.down:
                happened = True
                self.down.add(node)
                for job in self.jobs:
                    if node in job.nodes and job.status == "running":
                        self._fail(job)
                self._end_phases()
        for job in self.jobs:
            if job.status == "future" and job.submit == self.now:
                happened = True
                job.status, job.place = "queued", self.now
        return happened and (self._happen() or True)

    def _end_phases(self) -> bool:
        """End the phases that are due, in the order in which that was arranged."""
        due = [(job.arranged["eligible"], job.number, "eligible") for job in self.jobs
               if job.status == "delayed" and job.eligible == self.now]  # fmt: skip
        for job in self.jobs:
            ends = ((time, job.arranged[KEYS.get(reason, "run")], reason) for reason, time in self._ends(job).items())
            time, arranged, reason = min(ends) if job.nodes else (INF, 0, "")
            if time == self.now:
                due.append((arranged, job.number, reason))
        for _, number, reason in sorted(due):
            job = self.jobs[number]
            if reason == "eligible":
                job.status = "queued"
            elif reason == "detected":
                self._recover(job)
            else:
                self._stop(job, reason)
        return bool(due)

    def _arrange(self, job: Job, *keys: str) -> None:
        for key in keys:
            job.arranged[key] = self.arranged = self.arranged + 1

    # How a run goes.

    def _ends(self, job: Job) -> dict[str, float]:
        """Return when the run of a job ends for each reason."""
        ends = {"preempted": job.kill, "detected": job.detected}
        if job.status == "running":
            ends[job.outcome] = job.begun + self._left(job)
        if self.chain:
            ends["chain"] = self._leave(job)
        elif self.scheduler["at_limit"] == "kill":
            limit = self._longest(job) if self.exact else job.limit
            ends["timeout"] = job.start + limit + self.scheduler["overtime"]
        return ends

    def _setup(self, job: Job) -> float:
        return self.restart + (self.restore if job.saved else 0)

    def _saves(self, job: Job) -> int:
        """Return how many saves a run has if nothing happens; there is none where the work ends with an interval."""
        return int(max(0, math.ceil((job.work - job.saved) / self.interval) - 1))

    def _left(self, job: Job) -> float:
        """Return how long a run takes if nothing happens."""
        return self._setup(job) + job.work - job.saved + self._saves(job) * self.save

    def _progress(self, job: Job, time: float) -> tuple[float, float, bool]:
        """Return the work that is saved and that is done at a time, and whether the job works then."""
        elapsed = time - job.begun - self._setup(job)
        if job.status != "running" or elapsed < 0:
            return job.saved, job.saved, False
        if self.interval == INF:
            return job.saved, job.saved + elapsed, True
        cycles = min(elapsed // (self.interval + self.save), self._saves(job))
        rest = elapsed - cycles * (self.interval + self.save)
        saved = job.saved + cycles * self.interval
        return saved, saved + min(rest, self.interval), rest <= self.interval

    def _leave(self, job: Job) -> float:
        """Return when a run of a chain ends: a save after its notice, if that is long enough, else at its limit."""
        limit = job.start + self._longest(job)
        in_time = job.status == "running" and self.save <= self.chain["notice"]
        return max(job.begun, limit - self.chain["notice"] + self.save if in_time else limit)

    # How it stops.

    def _fail(self, job: Job) -> None:
        """Stop a job until its failure is known, or for good within its grace; what it has not saved is lost."""
        job.saved = self._progress(job, self.now)[0]
        job.status, job.detected = "lost", self.now + self.latency
        self._arrange(job, "run", "failure")
        if job.kill < INF:
            self._stop(job, "preempted")

    def _recover(self, job: Job) -> None:
        """Go on with the nodes that are left and with replacements, or give them back and queue again."""
        kept = [node for node in job.nodes if node not in self.down]
        if len(kept) < job.count:
            nodes = kept + self._replacements(job, job.count - len(kept))
            if len(nodes) < job.count and (not self.requeue["holds_nodes"] or job.holds or not kept):
                self._stop(job, "node_fail")
                return
            job.had.append(tuple(sorted(nodes)))
            job.nodes = list(job.had[-1])
            if len(nodes) < job.count:
                job.holds, job.detected = True, self.now + self.requeue["delay"]
                self._arrange(job, "failure")
                return
        for other in self.jobs if job.is_small else ():
            if other.nodes == job.nodes and other.status == "lost":
                other.detected = self.now
        job.status, job.begun, job.detected, job.holds = "running", self.now, INF, False
        self._arrange(job, "run")

    def _replacements(self, job: Job, count: int) -> list[int]:
        """Return free nodes that nobody has claimed, of the partition and the domain of a job; all or none."""
        if self.scheduler["replacement"] != "first" or job.is_small:
            return []
        domain, chosen = self.kinds[job.nodes[0]].domain, []
        for kind in (kind for kind in self._kinds_of(job.partition) if kind.domain == domain):
            idle, claimed = self._idle(kind), self._claimed(job, kind, self.now, takes=False)
            chosen += idle[: max(0, len(idle) - claimed)]
        return chosen[:count] if len(chosen) >= count else []

    def _stop(self, job: Job, reason: str) -> None:
        notice = self.chain["notice"] if reason == "chain" else self.preempt["grace"]
        if job.status == "running" and reason in ("chain", "preempted"):
            # What was done when the last save began; one that was under way is finished.
            saved, (_, done, works) = self._progress(job, self.now)[0], self._progress(job, self.now - self.save)
            job.saved = max(saved, done) if works and self.save <= notice else saved
        state = "timeout" if reason == "chain" else reason
        self.attempts.append((job.number, job.start, self.now, state, tuple(job.had)))
        delay = 0 if reason == "chain" or job.holds else self.requeue["delay"]
        job.nodes, job.detected, job.kill, job.status, job.holds = [], INF, INF, "over", False
        if reason in ("chain", "node_fail") or (reason == "preempted" and self.preempt["mode"] == "requeue"):
            job.status, job.eligible = "delayed" if delay else "queued", self.now + delay
            job.place = job.eligible if self.requeue["age"] == "reset" else job.place
            job.limit = min(self._left(job), self._longest(job)) if self.exact else job.limit
            self._arrange(job, "eligible")

    # The pass over the queue.

    def _pass(self) -> bool:
        """Go through the queue once; return whether anything changed."""
        self.reservations, self.held, self.later = [], dict.fromkeys(self.tenants, 0.0), math.nextafter(self.now, INF)
        for job in self.claimers:
            if job.corner is not None and not self._used(job.corner):
                job.claim, job.corner = Counter([self.kinds[job.corner]]), None
        blocked: set[tuple[str, ...]] = set()
        counts: Counter[str] = Counter()
        changed = False
        for job in sorted((job for job in self.jobs if job.status == "queued"), key=self._order):
            is_blocked = bool(blocked & {(job.partition,), (job.partition, job.tenant)})
            nodes = self._place(job) if not is_blocked or job in self.claimers else None
            if nodes:
                self._start(job, nodes)
            changed |= bool(nodes) or (not is_blocked and self._preempt(job))
            if nodes or is_blocked:
                continue
            has_quota, need, depth = self._has_quota(job), self._need(job), self.scheduler.get("depth", 0)
            if self.scheduler["head"] == "blocks":
                blocked.add((job.partition,) if has_quota else (job.partition, job.tenant))
                self.held[job.tenant] = self.held.get(job.tenant, 0) + need * has_quota
            elif has_quota and (depth == "all" or counts[job.partition] < depth):
                counts[job.partition] += 1
                self.held[job.tenant] = self.held.get(job.tenant, 0) + need
                self._reserve(job)
        return changed

    def _order(self, job: Job) -> tuple[float, ...]:
        then = job.limit if self.scheduler["order"]["then"] == "limit" else 0
        return (-self.tiers[job.partition], -job.priority, then, job.place, job.number)

    def _start(self, job: Job, nodes: list[int]) -> None:
        self.opened |= {node: self.starts for node in nodes if not self._used(node)}
        self.claimers = [other for other in self.claimers if other is not job]
        # Who starts on a node that has failed, of which its jobs do not know yet, waits with them.
        others = [other.detected for other in self.jobs if nodes[0] in other.nodes and nodes[0] in self.down]
        job.status, job.detected = "lost" if others else "running", min(others, default=INF)
        job.victims, job.claim, job.corner = [], Counter(), None
        job.nodes, job.had, job.start, job.begun = sorted(nodes), [tuple(sorted(nodes))], self.now, self.now
        job.serial = self.starts = self.starts + 1
        self._arrange(job, "run")

    # Places.

    def _used(self, node: int) -> int:
        """Return how many GPUs of a node are taken."""
        return sum(min(job.gpus, GPUS) for job in self.jobs if node in job.nodes and job not in self.gone)

    def _free_at(self, node: int) -> float:
        """Return when a node is expected to be free; never if it is known to be down."""
        jobs = [job for job in self.jobs if node in job.nodes]
        ends = [max(self.later, min(job.start + job.limit, job.kill)) for job in jobs if job not in self.gone]
        return max(ends, default=self.now if jobs or node not in self.down else INF)

    def _kinds_of(self, partition: str) -> list[Kind]:
        """Return the kinds of nodes of a partition: those of the fewest partitions first, then by number."""
        return list(dict.fromkeys(self.kinds[node] for node in self.preference if node in self.partitions[partition]))

    def _idle(self, kind: Kind) -> list[int]:
        taken = self.down.union(*(job.nodes for job in self.jobs))
        return [node for node in self.preference if self.kinds[node] == kind and node not in taken]

    def _place(self, job: Job) -> list[int] | None:
        """Return the nodes on which a job may start now; claimed ones that it may take only if there are no others."""
        if not self._has_quota(job):
            return None
        return self._place_beside(job, takes=False) or self._place_beside(job, takes=True)

    def _place_beside(self, job: Job, *, takes: bool) -> list[int] | None:
        """Return nodes beside what is reserved and claimed; below a node, one in use or an idle one."""
        end, kinds = self.now + job.limit, self._kinds_of(job.partition)
        idle = self._fit(job, self.now, end, takes=takes)
        sign = 1 if self.scheduler["share_nodes"] == "spread" else -1
        corners = {other.corner for other in self.jobs if other is not job}
        rooms = []
        for node in self.partitions[job.partition] - corners if job.is_small else ():
            used, since = self._used(node), self._free_at(node)
            stays = any(other.kill == INF for other in self.jobs if node in other.nodes and other not in self.gone)
            # It is in use until then, or nobody else's.
            lasts = end <= since or self._spare(job, self.kinds[node], since, end, takes=takes) > 0
            if 0 < used <= GPUS - job.gpus and stays and lasts:
                rooms.append((sign * used, kinds.index(self.kinds[node]), -since, self.opened[node], node))
        return idle if idle and (sign > 0 or not rooms) else [min(rooms)[-1]] if rooms else None

    def _fit(self, job: Job, start: float, end: float, *, takes: bool) -> list[int] | None:
        """Return nodes that a job may have for all of a stretch, in the domain that has the fewest that do."""
        spare = {kind: self._spare(job, kind, start, end, takes=takes) for kind in self._kinds_of(job.partition)}
        totals: Counter[int] = Counter()
        for kind, count in spare.items():
            totals[kind.domain] += count
        _, domain = min(((total, domain) for domain, total in totals.items() if total >= job.count), default=(0, -1))
        nodes: list[int] = []
        for kind in (kind for kind in spare if kind.domain == domain):
            free = [node for node in self.preference if self.kinds[node] == kind and self._free_at(node) <= start]
            nodes += free[: min(spare[kind], job.count - len(nodes))]
        return nodes or None

    def _spare(self, job: Job, kind: Kind, start: float, end: float, *, takes: bool) -> int:
        """Return how many nodes of a kind are nobody else's at any time of a stretch, by reservation or by claim."""
        changes = [time for time, _, _ in self.reservations] + [self._last(other) for other in self.claimers]
        least = len(self.kinds)
        for time in [start, *(time for time in changes if start < time < end)]:
            free = sum(self._free_at(node) <= time for node, other in enumerate(self.kinds) if other == kind)
            reserved = sum(kinds[kind] for begin, stop, kinds in self.reservations if begin <= time < stop)
            least = min(least, free - reserved - self._claimed(job, kind, time, takes=takes))
        return max(0, least)

    def _claimed(self, job: Job, kind: Kind, time: float, *, takes: bool) -> int:
        """Return how many nodes of a kind others have claimed: idle ones first, then those of their victims."""
        idle, total = len(self._idle(kind)), 0
        for other in self.claimers:
            if other is not job and not (takes and self._may_take(job, other)):
                count = min(other.claim[kind], idle)
                idle -= count
                total += other.claim[kind] if time >= self._last(other) else count
        return total

    def _last(self, job: Job) -> float:
        """Return when the last of those who leave for a job is gone."""
        return max((other.kill for other in job.victims if other.kill < INF), default=INF)

    def _may_take(self, job: Job, claimer: Job) -> bool:
        """Return whether a job may take what another has claimed: ahead of it, and none that it may stop."""
        may_stop = self._may_reclaim(claimer, job) or self._outranks(claimer, job)
        return self._order(job) < self._order(claimer) and not may_stop

    def _reserve(self, job: Job) -> None:
        """Reserve nodes for a job at the earliest time at which it is expected to have them."""
        times = {self._free_at(node) for node in range(len(self.kinds))} | {end for _, end, _ in self.reservations}
        for time in sorted(time for time in times if self.now <= time < INF and job not in self.claimers):
            nodes = self._fit(job, time, time + job.limit, takes=False)
            if nodes:
                self.reservations.append((time, time + job.limit, Counter(self.kinds[node] for node in nodes)))
                return

    # Quotas.

    def _use(self, tenant: str, *, waits: bool = True) -> float:
        """Return the nodes that the jobs of a tenant have, and what those hold of its quota that wait."""
        jobs = (job for job in self.jobs if job.nodes or (waits and job in self.claimers))
        own = sum(job.size for job in jobs if job.tenant == tenant and job not in self.gone)
        return own + (self.held[tenant] if waits else 0)

    def _need(self, job: Job) -> float:
        """Return the nodes by which a job adds to the use of its tenant."""
        return 0 if job in self.claimers or job.nodes else job.size

    def _has_quota(self, job: Job) -> bool:
        """Return whether its tenant has, or may borrow, so many nodes, and the others lend what all borrow."""
        if not self.tenants:
            return True
        use = {name: self._use(name) + (self._need(job) if name == job.tenant else 0) for name in self.tenants}
        lent = {name: min(tenant["nodes"], tenant.get("lend", INF)) for name, tenant in self.tenants.items()}
        taken: float = sum(max(0, use[name] - (tenant["nodes"] - lent[name])) for name, tenant in self.tenants.items())
        own = self.tenants[job.tenant]
        return bool(use[job.tenant] <= own["nodes"] + own.get("borrow", INF) and taken <= sum(lent.values()))

    # Preemption.

    def _rank(self, job: Job) -> float:
        return self.tiers[job.partition] if self.preempt["who"] == "tier" else job.priority

    def _outranks(self, job: Job, victim: Job) -> bool:
        """Return whether its class lets a job stop another one, which may not take its nodes back."""
        is_near = self.preempt["within"] == "cluster" or job.tenant == victim.tenant
        is_lower = self.preempt["who"] != "none" and self._rank(victim) < self._rank(job)
        return bool(is_lower and is_near) and not self._may_reclaim(victim, job)

    def _is_within(self, job: Job) -> bool:
        return bool(self.tenants) and self._use(job.tenant) + self._need(job) <= self.tenants[job.tenant]["nodes"]

    def _may_reclaim(self, job: Job, victim: Job) -> bool:
        """Return whether a job within the quota of its tenant may stop one of a tenant beyond its own."""
        reclaim = self.preempt["reclaim"] == "any" or (
            self.preempt["reclaim"] == "lower" and victim.priority < job.priority
        )
        if not self.tenants or job.tenant == victim.tenant or not reclaim:
            return False
        more = 0 if victim.nodes else victim.size
        is_beyond = self._use(victim.tenant, waits=False) + more > self.tenants[victim.tenant]["nodes"]
        return self._is_within(job) and is_beyond

    def _preempt(self, job: Job) -> bool:
        """Signal those whom a job stops; claim as many nodes as it needs of them and of the free ones."""
        victims = [] if self.preempt["mode"] == "none" or self._last(job) < INF else self._victims(job)
        nodes = self._fits(job, victims)
        if not victims or not nodes:
            return False
        for victim in victims:
            victim.kill = self.now + self.preempt["grace"]
            self._arrange(victim, "signal")
        is_shared = any(nodes[0] in other.nodes for other in self.jobs if other not in victims)
        job.victims, job.corner = victims, nodes[0] if is_shared else None
        job.claim = Counter() if is_shared else Counter(self.kinds[node] for node in nodes)
        self.claimers = [*(other for other in self.claimers if other is not job), job]
        return True

    def _fits(self, job: Job, without: list[Job]) -> list[int] | None:
        """Return where a job could start if some that run were gone."""
        self.gone = without
        nodes = self._place(job)
        self.gone = []
        return nodes

    def _victims(self, job: Job) -> list[Job]:
        """Return whom a job stops: those who have borrowed first, then lower classes, until it fits; none in vain."""
        sizes, sign = self.preempt["order"] == "smallest", 1 if self.preempt["order"] == "oldest" else -1
        candidates = [other for other in self.jobs if self.partitions[job.partition] & set(other.nodes)
                      and other.kill == INF and other.start + self.preempt["exempt"] <= self.now]  # fmt: skip
        chosen: list[Job] = []
        for may_stop in (self._may_reclaim, self._outranks) if self._is_within(job) else (self._outranks,):
            for other in sorted(candidates, key=lambda one: (self._rank(one), one.size * sizes, sign * one.serial)):
                if other not in chosen and not self._fits(job, chosen):
                    self.gone = chosen
                    chosen = [*chosen, other] if may_stop(job, other) else chosen
                    self.gone = []
        for other in chosen[-2::-1]:
            fewer = [one for one in chosen if one is not other]
            chosen = fewer if self._fits(job, fewer) else chosen
        return chosen

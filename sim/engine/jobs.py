"""Jobs: charging their time, carrying plans out step by step, and giving them nodes.

What a failure does to them stands in :mod:`ettrick.sim.engine.interruptions`, how far their work gets in
:mod:`ettrick.sim.engine.progress`.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from ettrick.sim.engine.holders import Job, ReplicaGroup
from ettrick.sim.engine.interruptions import Interruptions
from ettrick.sim.engine.kernel import EventPriority
from ettrick.sim.engine.ledger import Account
from ettrick.sim.engine.progress import Paces, Restores, SharedStores, StepCounter
from ettrick.sim.engine.result import NO_FLEET
from ettrick.sim.policies.checkpoint import MultiLevelCheckpoint
from ettrick.sim.policies.contracts import Acquire, Background, Bucket, Evict, Requeue, Restore, Run, Save, Stall
from ettrick.sim.policies.recovery import Redundant
from ettrick.sim.policies.recovery.base import check_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from ettrick.sim.engine.failures import Failures, Interrupt
    from ettrick.sim.engine.holders import Recorder, Segment
    from ettrick.sim.engine.kernel import Environment
    from ettrick.sim.engine.nodes import Cluster
    from ettrick.sim.engine.prepared import Prepared
    from ettrick.sim.engine.progress import Power
    from ettrick.sim.engine.result import Attempt, FleetResult
    from ettrick.sim.policies.contracts import Exposure, Plan

_TIMED = (Stall, Restore, Save)

_AFTER_JOINING = (Stall, Restore, Run, Background)

_ROUNDING = 1e-9

"""Share of a GPU-time that is nothing but rounding [-]."""


def _named_jobs(prepared: Prepared) -> list[Job]:
    """Return the named jobs, each with its account."""
    causes, recovery = len(prepared.sources) + 1, prepared.recovery
    redundant = recovery if isinstance(recovery, Redundant) else None
    # Of each second of work so much goes into what is done for redundancy.
    extra = redundant.overhead / (1 - redundant.overhead) if redundant is not None else 0.0
    accounts = (Account(causes, job.gpus, job.gpus * extra) for job in prepared.jobs)
    return [
        Job(index, job, prepared.warmup + job.arrival, account, recovery.reroutes, redundant, prepared.network)
        for index, (job, account) in enumerate(zip(prepared.jobs, accounts, strict=True))
    ]


def _rounded(gpu_s: float, total: float) -> float:
    """Return a part of a GPU-time, 0 where it is nothing but rounding."""
    return 0.0 if abs(gpu_s) < _ROUNDING * total else gpu_s


class JobPhases:
    """Moves groups of jobs from phase to phase. Every phase is charged when it is left.

    Failures and repair ask for :meth:`settle`, :meth:`offer`, :meth:`hold` and what concerns the pace and the work of a
    job: ``paces`` and ``restores``. The queue says who interrupts what a failure strikes.
    """

    queue: Queue

    def __init__(
        self, prepared: Prepared, replication: int, failures: Failures, recorder: Recorder | None,
        when_all_done: Callable[[float], None],
    ) -> None:  # fmt: skip
        self.prepared = prepared
        self.replication = replication
        self.kernel: Environment = failures.kernel
        self.cluster: Cluster = failures.cluster
        self.failures = failures
        self.repair = failures.repair
        self.lives = failures.lives
        self.recorder = recorder
        self.when_all_done = when_all_done
        self.gpus_per_node = failures.cluster.gpus_per_node
        self.all = _named_jobs(prepared)
        self.reaching_back = {job.index for job in self.all if self._reaches_back(job)}
        """Jobs that may go back beyond their newest copy outside the nodes."""
        self.interruptions = Interruptions(self)
        self.replicas = Replicas(self)
        self.replacements = Replacements(self)
        self.preflight = PreflightCheck(self)
        self.paces = Paces(self)
        self.stores = SharedStores(self)
        self.power: Power | None = None
        """The power of the site, where that changes in time."""
        self.ramping: Power | None = None
        """The same, where it takes time to rise."""
        self.begins_by_event = prepared.upkeep.ramp < math.inf or self.stores.save_share > 0
        """Whether something is decided when a job begins to step."""
        self.steps: StepCounter = StepCounter()
        self.restores = Restores(self)
        self.open = len(self.all)
        """Named jobs, jobs of streams, streams and services that are not over."""
        self.handlers = self._handlers()

    def _handlers(self) -> dict[type, Callable[[ReplicaGroup, Any, float], bool]]:
        """Return what carries out each kind of step of a plan."""
        return {
            **dict.fromkeys(_TIMED, self._stall),
            Acquire: self.replacements.acquire,
            Evict: self.repair.evict,
            Requeue: self._requeue,
            Run: self._run,
            Background: self.replicas.send_away,
        }

    def offer(self, now: float) -> None:
        """Offer nodes that have become free: first to jobs that lack some, then to the queue."""
        if self.replacements.short_groups:
            self.replacements.serve(now)
        self.queue.serve(now)

    def hold(self, job: Job, cause: int, seconds: float, now: float) -> None:
        """Let a job stand still for some time, then step on."""
        job.main.cause = cause
        self.stop(job.main, now)
        self.follow(job.main, (Stall(Bucket.RESCHEDULE, seconds), Run()), now)

    def close(self, now: float) -> None:
        """Charge every job up to now and end it."""
        for job in self.all:
            if job.arrival < now and not job.finished:
                self.settle(job.main, now)
                self.queue.finish(job, now, finished=False)

    # ------------------------------------------------------------------------------------------- charging

    def settle(self, group: ReplicaGroup, now: float) -> None:
        """Charge everything up to `now`."""
        if group.run_at <= now:
            self._wait_out(group, group.run_at)
            self._begin_run(group, group.run_step)
        if now <= group.since:
            return
        if not group.running:
            self._wait_out(group, now)
            return
        job = group.job
        seconds = now - group.since
        share = group.gpus
        pace = job.pace
        job.state, stepped, paused = job.checkpoint.advance(job.state, pace, seconds)
        pace_of_nodes = job.fraction * job.speed * job.evenness
        degraded = stepped * (1.0 - pace_of_nodes) * share if pace_of_nodes != 1.0 else 0.0
        if job.account.overhead:
            degraded = _rounded(degraded - stepped * pace.rate * job.account.overhead, stepped * share)
        cause = job.slow_cause if job.speed < 1.0 else group.cause
        at_risk = job.work if job.index in self.reaching_back else job.at_risk if job.taints else job.state.at_risk
        stalled = seconds - stepped - paused
        if stalled < 0.0:
            stalled = 0.0  # a rounding error
        job.account.step(stepped * pace.rate, degraded, stalled * share, cause, at_risk)
        if stalled and self.stores.transfers:
            self._blame_late(group, stalled)
        if paused:
            job.account.table[Bucket.AUXILIARY][0] += paused * share
        job.running_seconds += seconds
        job.node_seconds += seconds * (group.replicas * job.nodes_per_replica - len(group.missing))
        if self.recorder is not None:
            self.recorder.stepping(group, group.since, now)
            self.recorder.progress(now, job)
        if group.missing:
            job.account.leave_out(Bucket.DEGRADED, cause, seconds * len(group.missing) * self.gpus_per_node)
        group.since = now

    def _blame_late(self, group: ReplicaGroup, stalled: float) -> None:
        """Give the part of a stall by which a save is later than alone to what slows it down."""
        late, cause = self.stores.late(group, stalled)
        if late:
            stalls = group.job.account.table[Bucket.CHECKPOINT_STALL]
            stalls[0] -= late * group.gpus
            stalls[cause] += late * group.gpus

    def _reaches_back(self, job: Job) -> bool:
        """Return whether a job may have to go back beyond its newest copy outside the nodes.

        It cannot be read, or is wrong where older ones are not, or the work before a loss spike is given up too.
        """
        wrong = [source.effect for source in self.prepared.sources if source.effect.use in ("corrupt", "spike")]
        if isinstance(job.checkpoint, MultiLevelCheckpoint):
            return bool(wrong) or any(rung.corrupt for rung in job.checkpoint.rungs)
        return any(effect.undone for effect in wrong)

    def _wait_out(self, group: ReplicaGroup, now: float) -> None:
        """Charge a waiting group up to `now`, phase by phase."""
        job = group.job
        share = group.gpus
        absent = len(group.missing) * self.gpus_per_node if job.holding else share
        time = group.since
        segments = group.segments
        account = job.account
        table = account.table
        while time < now:
            bucket, end = segments[0][:2]
            cause = segments[0][2] if len(segments[0]) > 2 else group.cause
            if end <= now:
                del segments[0]
            else:
                end = now
            seconds = end - time
            table[bucket][cause] += seconds * share
            if absent:
                account.leave_out(bucket, cause, seconds * absent)
            if bucket == Bucket.CHECKPOINT_STALL:
                # The save before a stop that is known beforehand.
                job.running_seconds += seconds
                job.node_seconds += seconds * (group.replicas * job.nodes_per_replica - len(group.missing))
            if self.recorder is not None:
                self.recorder.span(group, bucket, time, end, cause)
            time = end
        group.since = now

    def expose(self, group: ReplicaGroup, now: float, exposed: Exposure) -> None:
        """Say who can fail from now on: the processes of the group, its nodes, both or none."""
        if group.exposed == exposed:
            return
        group.exposed = exposed
        for clock in (group.processes, group.occupied, group.busy):
            on = exposed in clock.exposures
            if clock.is_on != on:
                clock.turn(now)
            if on and clock.lives:
                self.lives.arm(clock, now)
        if group.deferred and group.occupied.is_on:
            self.deliver(group, now)

    def deliver(self, group: ReplicaGroup, now: float) -> None:
        """Let happen to a group whose nodes are exposed what has waited for that."""
        self.failures.happen_later(group.deferred, now)
        group.deferred = []

    def wait(self, group: ReplicaGroup, segments: list[Segment], now: float, *, exposed: Exposure) -> None:
        """Put a settled group into waiting phases."""
        group.running = False
        group.segments = segments
        if group.exposed != exposed:
            self.expose(group, now, exposed)

    def stop(self, group: ReplicaGroup, now: float) -> None:
        """Charge a group and void what it was going to do."""
        self.settle(group, now)
        group.epoch += 1
        group.run_at = math.inf
        group.has_power = group.is_ready = False
        job = group.job
        if group is job.main:
            if group.running:
                job.written_at = now
            elif job.writes_on:
                self.restores.write_on(job, now)
            job.finish_at = math.inf
            if job.saved_at > now:
                # A save that is cut off is void.
                job.state = job.unsaved
                job.saved_at = now
                self.failures.end_save(job, now)
        if group.acquisition is not None:
            group.acquisition = None
            self.replacements.forget(group)
        if self.stores.transfers:
            self.stores.forget(group, now)

    # ---------------------------------------------------------------------------------------------- plans

    def follow(self, group: ReplicaGroup, plan: Plan, now: float) -> None:
        """Start a plan. What it gives up is lost now, not when the restore comes."""
        if group.ready_at > now and not any(type(step) in (Acquire, Requeue) for step in plan):
            # Nodes that were taken before this failure are not there yet, even if it took none itself.
            plan = (Acquire(), *plan)
        group.plan = plan
        group.step = 0
        group.called = False
        job = group.job
        if group is job.main:
            saves = False
            for step in plan:
                if type(step) is Save:
                    saves = True
                    job.unsaved = job.state
                    shares = self.stores.shares(job, step)
                    job.saved_at = math.inf if shares else now + job.checkpoint.save_time()
                    job.state = job.checkpoint.saved(job.state)
                elif type(step) is Evict:
                    job.lost.update(self.repair.evicted(group, step))
                elif type(step) is Requeue:
                    self.restores.roll_back(job, "stores", reads=False)
                    break
                elif type(step) is Restore:
                    # What a save that may still be cut off has made durable cannot be lost yet.
                    self.restores.roll_back(job, step.keeps, reads=not saves)
                    break
        self.proceed(group, now)

    def proceed(self, group: ReplicaGroup, now: float) -> None:
        """Carry out the steps of the plan until one has to wait."""
        while group.step < len(group.plan):
            if group.job.is_orphaned and group is not group.job.main and group.step and not group.missing:
                break  # Nobody is there to take the state from.
            step = group.plan[group.step]
            if group.joined and type(step) in _AFTER_JOINING:
                if self.preflight.check(group, now):
                    return
                continue
            group.step += 1
            if self.handlers[type(step)](group, step, now):
                return
        if group is not group.job.main:
            self.replicas.rejoin(group, now)

    def on_phase_end(self, group: ReplicaGroup, now: float) -> None:
        """Go on with the plan of a group."""
        self.settle(group, now)
        self.proceed(group, now)

    def _stall(self, group: ReplicaGroup, step: Stall | Restore | Save, now: float) -> bool:
        """Wait through this and the following timed steps of the same exposure, with one event at their end."""
        job = group.job
        stores = self.stores
        if not isinstance(step, Stall) and stores.shares(job, step):
            return stores.carry_out(group, step, now)
        exposed = step.exposed
        segments: list[Segment] = []
        end = now
        while True:
            bucket, seconds, cause = self._phase(group, step, end)
            if seconds > 0:
                end += seconds
                segments.append((bucket, end, cause) if cause else (bucket, end))
            following = (*group.plan, None)[group.step]
            if not isinstance(following, _TIMED) or following.exposed != exposed or stores.shares(job, following):
                break
            step = following
            group.step += 1
        if not segments:
            return False
        self.wait(group, segments, now, exposed=exposed)
        if exposed == "both" and isinstance(following, Run) and group is job.main and not self.begins_by_event:
            # Nothing is decided when the waiting ends: no event, settle() turns it into running.
            group.run_at = end
            group.run_step = following
            if job.stops_at < math.inf:
                self.paces.set(job, following.fraction)
                self.paces.expect_finish(group, end)
            return True
        self.kernel.unless_changed(end, EventPriority.PHASE, self.on_phase_end, group)
        return True

    def _phase(self, group: ReplicaGroup, step: Stall | Restore | Save, time: float) -> tuple[int, float, int]:
        """Return the bucket of a timed step that begins at a time, how long it takes [s], and its own cause, if any."""
        job = group.job
        if isinstance(step, Stall):
            if group is job.main:
                job.excess += step.excess
            return step.bucket, step.seconds, step.cause
        if isinstance(step, Save):
            return Bucket.CHECKPOINT_STALL, job.checkpoint.save_time(), 0
        return Bucket.RESTORE, self.restores.begin(job, time), 0

    def _requeue(self, group: ReplicaGroup, step: Requeue, now: float) -> bool:
        """Give the nodes back; after the delay the job enters the queue."""
        job = group.job
        main = job.main
        self.stop(main, now)
        job.excess += step.excess
        self.replicas.absorb(job, now)
        self.restores.roll_back(job, "stores", reads=False)
        if job.narrow:
            self.interruptions.let_go(job, now)
        if not self.queue.holds:
            self.cluster.release(job, now)
        if step.delay == math.inf:
            job.given_up = now
        bucket = Bucket.RESCHEDULE if step.delay < math.inf else Bucket.GIVEN_UP
        self.wait(main, [(bucket, math.inf)], now, exposed="none")
        self.kernel.unless_changed(now + step.delay, EventPriority.PHASE, self._on_eligible, main)
        self.offer(now)
        return True

    def _on_eligible(self, group: ReplicaGroup, now: float) -> None:
        self.settle(group, now)
        self.wait(group, [(Bucket.QUEUED, math.inf)], now, exposed="none")
        self.queue.enter(group.job, now)

    def _run(self, group: ReplicaGroup, step: Run, now: float) -> bool:
        """Step on until something happens."""
        job = group.job
        if group is not job.main:
            return False
        power = self.ramping
        if power is not None and not group.has_power:
            group.has_power = True
            group.step -= 1
            end = power.ramp(job, now)
            self.wait(group, [(Bucket.INITIALIZE, end)], now, exposed="both")
            power.ramps.append((end, group, group.epoch))
            self.kernel.unless_changed(end, EventPriority.PHASE, self.on_phase_end, group)
            return True
        self._begin_run(group, step)
        if group.exposed != "both":
            self.expose(group, now, "both")
        if job.stops_at < math.inf:
            self.paces.expect_finish(group, now)
        return True

    def _begin_run(self, group: ReplicaGroup, step: Run) -> None:
        """Close the incident; from now on the group steps."""
        job = group.job
        is_other = step.fraction != job.fraction or group.replicas != job.paced_replicas or job.spec.stages > 1
        if is_other or self.paces.may_slow(job):
            self.paces.set(job, step.fraction)
        self.failures.silent.taint(job)
        if job.writes_on:
            self.restores.write_on(job, group.since)
        job.live, job.writes_on, job.written_at = True, True, group.since
        job.is_orphaned = False
        if job.lost or job.rebooted or job.dead or job.unblamed:
            job.unblamed.clear()
            job.lost.clear()
            job.rebooted.clear()
            job.dead.clear()
        if job.read_from:
            job.restores[job.read_from] = job.restores.get(job.read_from, 0) + 1
            job.read_from = ""
        group.incident = 0
        group.attempt = 0
        group.run_at = math.inf
        group.running = True
        if self.stores.save_share:
            self.stores.begin_run(job, self.kernel.now)


# ----------------------------------------
# Replicas that leave the others and rejoin.


class Replicas:
    """Splits groups off the main group of a job and merges them again."""

    def __init__(self, jobs: JobPhases) -> None:
        self.jobs = jobs

    def send_away(self, main: ReplicaGroup, step: Background, now: float) -> bool:
        """Send the replicas that lost a node away, each on its own, even where another one sits in already."""
        job = main.job
        width = job.nodes_per_replica
        leaving = []
        for replica in sorted({position // width for position in (*main.missing, *main.replaced, *main.ended)}):
            group = ReplicaGroup(job, 1, now, first=replica * width)
            group.missing = [position for position in main.missing if position // width == replica]
            group.cause = main.cause
            group.incident = main.incident
            group.resume, group.then, group.restarts = step.steps, step.then, step.restarts
            main.replicas -= 1
            leaving.append(group)
        main.missing = []
        main.replaced = []
        main.ended = []
        if not main.replicas:
            job.is_orphaned = True
            for group in job.away:
                # It was taking the state from one of those who leave.
                if not (group.missing or group.detecting or group.acquisition or group.ready_at > now):
                    self.jobs.stop(group, now)
                    self.rejoin(group, now)
        job.away += leaving
        for group in leaving:
            self.jobs.cluster.regroup(job.nodes[group.first : group.first + width], main, group, now)
            self.jobs.follow(group, group.resume, now)
        for group in leaving:
            if group.is_ready:
                # It starts with the others.
                self._merge(group, now)
        return False

    def rejoin(self, group: ReplicaGroup, now: float) -> None:
        """Put a whole replica back among the others: with all that return now where it needs a start with them."""
        job = group.job
        if not (group.restarts or job.is_orphaned or self._is_alone(group)):
            self._admit(job, [group], now)
            return
        group.is_ready = True
        bucket = Bucket.STARVED if group.restarts or job.is_orphaned else Bucket.RESTORE
        self.jobs.wait(group, [(bucket, math.inf)], now, exposed="nodes" if bucket == Bucket.STARVED else "both")
        self.jobs.kernel.at(now, EventPriority.PHASE, self.gather, job)

    def _is_alone(self, group: ReplicaGroup) -> bool:
        """Return whether an undetected failure has struck all whom a replica could take the state from."""
        job, main = group.job, group.job.main
        if not main.detecting:
            return False
        interruptions = self.jobs.interruptions
        places = (interruptions.place_of(main, node, failure) for node, failure in main.suspects)
        struck = {place // job.nodes_per_replica for place in places if place >= 0}
        return len(struck) >= main.replicas

    def gather(self, job: Job, now: float) -> None:
        """Put all replicas back that are ready and have somebody to go on with."""
        ready = [group for group in job.away if group.is_ready and (group.restarts or not self._is_alone(group))]
        if ready:
            for group in ready:
                self.jobs.settle(group, now)
            self._admit(job, ready, now)

    def _admit(self, job: Job, groups: list[ReplicaGroup], now: float) -> None:
        """Put whole replicas back among the others, who stand still for it unless they have not stepped since."""
        main, last = job.main, groups[-1]
        self.jobs.settle(main, now)
        steps = main.running and (job.written_at < now or last.restarts)
        for group in groups:
            self._merge(group, now)
        if steps or (last.restarts and self._is_starting(main)):
            self.jobs.stop(main, now)
            main.running = False
            main.cause = last.cause
            self.jobs.follow(main, last.then or (Run(),), now)
        elif main.acquisition is not None and main.acquisition.unit != "node" and job.suffices(main.acquisition):
            main.acquisition = None
            main.epoch += 1
            job.is_orphaned = False
            self.jobs.proceed(main, now)
        elif main.running or main.run_at < math.inf:
            self.jobs.paces.respeed(job, now)

    def _is_starting(self, main: ReplicaGroup) -> bool:
        """Return whether replicas are about to step, and do not wait for others before."""
        waits = main.acquisition is not None or any(type(step) is Acquire for step in main.plan[main.step :])
        return not main.detecting and not waits

    def absorb(self, job: Job, now: float) -> None:
        """Merge every group that is away, whole or not."""
        for group in list(job.away):
            self.jobs.stop(group, now)
            self.jobs.interruptions.remove_victims(group, now)
            self._merge(group, now)

    def _merge(self, group: ReplicaGroup, now: float) -> None:
        job = group.job
        main = job.main
        self.jobs.expose(group, now, "none")
        group.epoch += 1
        job.away.remove(group)
        main.replicas += 1
        main.missing += group.missing
        group.is_ready = False
        if group.deferred:
            # What could not strike while the replica was away waits on with the others.
            main.deferred += group.deferred
            if main.exposed in ("both", "nodes"):
                self.jobs.deliver(main, now)
        replica = job.nodes[group.first : group.first + job.nodes_per_replica]
        self.jobs.cluster.regroup(replica, group, main, now)


# ----------------------------------------
# Nodes for groups that miss some: from which pool, when they are ready, and who waits for them.


class Replacements:
    """Carries out the step of a plan that takes nodes."""

    def __init__(self, jobs: JobPhases) -> None:
        self.jobs = jobs
        self.kernel = jobs.kernel
        self.cluster = jobs.cluster
        self.reserves = jobs.prepared.reserves
        self.short_groups: list[ReplicaGroup] = []
        """Groups that wait for nodes, longest first."""

    def forget(self, group: ReplicaGroup) -> None:
        """Let a group wait for nodes no longer."""
        if group in self.short_groups:
            self.short_groups.remove(group)

    def acquire(self, group: ReplicaGroup, step: Acquire, now: float) -> bool:
        """Take nodes; wait if there are too few, or until they are ready."""
        if step.unit == "node":
            may_miss = max(len(group.missing) - step.wanted, 0) if step.wanted else 0
            if self._replace(group, step, may_miss, now):
                return self._await_nodes(group, step, now)
            if step.timeout <= 0 and step.otherwise:
                self._give_up(group, step, now)
                return True
            group.acquisition = step._replace(wanted=may_miss)
            self.short_groups.append(group)
        else:
            if group.job.suffices(step):
                group.job.is_orphaned = False
                return False
            group.acquisition = step
        self.jobs.wait(group, [(step.bucket, math.inf)], now, exposed=step.exposed)
        if step.timeout < math.inf:
            self.kernel.unless_changed(now + step.timeout, EventPriority.PHASE, self._on_timeout, group)
        return True

    def _replace(self, group: ReplicaGroup, step: Acquire, may_miss: int, now: float) -> bool:
        """Give a group nodes until it misses no more than `may_miss`; return whether there were enough.

        Nodes that the job has swapped although nobody was blamed come last, after others who wait for nodes.
        """
        if group.job.unblamed:
            with self.cluster.hiding(group.job.unblamed, now):
                is_enough = self._take_missing(group, step, may_miss, now)
            if is_enough:
                return True
            if group.acquisition is None:
                self.jobs.offer(now)
        return self._take_missing(group, step, may_miss, now)

    def _take_missing(self, group: ReplicaGroup, step: Acquire, may_miss: int, now: float) -> bool:
        """Give a group nodes of the pools until it misses no more than `may_miss`; return whether there were enough."""
        missing = group.missing
        if len(missing) > 1:
            # Replacements come in the order of their numbers: a unit keeps neighbouring positions.
            missing.sort(reverse=True)
        while len(missing) > may_miss:
            for pool in step.pools:
                node = self.cluster.take(pool, now, group.job.homes[missing[-1]] if group.job.homes else -1)
                if node >= 0:
                    break
            else:
                return False
            alone = pool in ("warm", "cold") and self._get_ready(group, pool, now)
            self.cluster.seat(group, missing.pop(), node, now)
            if self.jobs.preflight.is_on:
                group.joined.append(node)
            if alone and (step.fill or len(missing) > may_miss):
                group.step -= 1
                return True
        if step.fill:
            self._fill_spares(group, now)
        return True

    def _get_ready(self, group: ReplicaGroup, pool: str, now: float) -> bool:
        """Note when a node of a reserve will be there; return whether the next one is asked for only then.

        By that time a node that was repaired meanwhile may have made the next one needless. The nodes of a unit are
        asked for together: half a unit is of no use.
        """
        reserve = self.reserves[pool]
        group.called = True
        group.ready_at = reserve.ready(group.ready_at, now)
        return reserve.one_by_one and reserve.delay > 0 and self.cluster.units is None

    def _fill_spares(self, group: ReplicaGroup, now: float) -> None:
        """Fill the hot spares up: from the idle nodes, and from the cold ones if those were called upon anyway."""
        spare = self.cluster.spare
        self.cluster.move("idle", "spare", spare.target - spare.count, now)
        while group.called and spare.count < spare.target and self.cluster.move("cold", "spare", 1, now):
            if self._get_ready(group, "cold", now):
                group.step -= 1
                return

    def _await_nodes(self, group: ReplicaGroup, step: Acquire, now: float) -> bool:
        """Wait until all nodes that were taken are ready; return whether there is anything to wait for."""
        ready = group.ready_at
        if ready <= now:
            return False
        self.jobs.wait(group, [(Bucket.STARVED, ready)], now, exposed=step.exposed)
        self.kernel.unless_changed(ready, EventPriority.PHASE, self.jobs.on_phase_end, group)
        return True

    def serve(self, now: float) -> None:
        """Serve the groups that wait for nodes, longest first."""
        for group in list(self.short_groups):
            if group.acquisition is None:
                continue
            self.jobs.settle(group, now)
            step = group.acquisition
            if self._replace(group, step, step.wanted, now):
                self.short_groups.remove(group)
                group.acquisition = None
                group.epoch += 1
                if not self._await_nodes(group, step, now):
                    self.jobs.proceed(group, now)

    def _on_timeout(self, group: ReplicaGroup, now: float) -> None:
        step = group.acquisition
        if step is not None and step.otherwise:
            self.jobs.stop(group, now)
            self._give_up(group, step, now)

    def _give_up(self, group: ReplicaGroup, step: Acquire, now: float) -> None:
        """Follow the way out of a group that has waited for nodes in vain."""
        if step.memory is not None:
            group.job.memory = step.memory
        self.jobs.follow(group, step.otherwise, now)


# ----------------------------------------
# Checks of nodes before they join a job.


class PreflightCheck:
    """Lets a job stand still while nodes that have joined it are checked, and drains those that are found to be bad."""

    def __init__(self, jobs: JobPhases) -> None:
        self.jobs = jobs
        self.is_on = jobs.prepared.preflight is not None
        self.time = jobs.prepared.preflight or 0.0
        """The time that they take [s]."""

    def check(self, group: ReplicaGroup, now: float) -> bool:
        """Check the nodes that have joined a group; return whether that takes time.

        Those that are found leave at once, and others are taken for them when the check is over.
        """
        cluster = self.jobs.cluster
        nodes, group.joined = group.joined, []
        for node in nodes:
            faults = self.jobs.failures.found_before(node)
            if faults and cluster.group[node] is group and not cluster.outages[node]:
                cluster.set_aside(node, now)
                faults[0](now)
        cluster.let_go_torn(group, now)
        if group.missing:
            again = next((step for step in group.plan if type(step) is Acquire), Acquire())
            group.plan = (*group.plan[: group.step], again, *group.plan[group.step :])
        if not self.time:
            return False
        self.jobs.wait(group, [(Bucket.INITIALIZE, now + self.time)], now, exposed="nodes")
        self.jobs.kernel.unless_changed(now + self.time, EventPriority.PHASE, self.jobs.on_phase_end, group)
        return True


# ----------------------------------------
# The queue of jobs: arrivals, allocations, ends.


class Queue:
    """Jobs that wait for a whole gang of nodes."""

    holds = False
    """Whether a job that is requeued keeps the nodes that are left."""

    def __init__(self, jobs: JobPhases) -> None:
        self.jobs = jobs
        self.kernel = jobs.kernel
        self.cluster = jobs.cluster
        self.eligible: list[Job] = []
        """Eligible jobs, in the order in which they became so."""
        for job in jobs.all:
            self.kernel.at(job.arrival, EventPriority.ARRIVAL, self.enter, job)

    @property
    def interrupt(self) -> Interrupt:
        """The call that stops the groups which a failure strikes; all of them are of named jobs."""
        return self.jobs.interruptions.hit

    def enter(self, job: Job, now: float) -> None:
        """Put a job at the end of the queue."""
        self.eligible.append(job)
        self.serve(now)

    def settle(self, now: float) -> None:
        """Charge holders that have no groups, up to now: there are none."""

    def close(self, now: float) -> None:
        """Close holders that have no groups: there are none."""

    def edges(self) -> Iterator[float]:
        """Return where windows meet, after the warm-up [s]; none where the scenario states none."""
        prepared = self.jobs.prepared
        if prepared.windows is None:
            return iter(())
        return itertools.islice(
            itertools.accumulate(itertools.repeat(prepared.windows), initial=prepared.warmup), 1, None
        )

    def result(self, now: float, allocated: NDArray[np.float64]) -> tuple[FleetResult, NDArray[np.float64]]:
        """Return what holders came to, and the cluster's GPU-seconds by bucket; named jobs have had `allocated`."""
        outside, prepared = self.cluster.account, self.jobs.prepared
        owned = prepared.nodes * self.cluster.gpus_per_node * (now - prepared.warmup)
        outside.close(owned - float(allocated.sum()), "the cluster", owned)
        return NO_FLEET, allocated + outside.totals().sum(axis=(0, 2))

    def attempts(self) -> tuple[Attempt, ...]:
        """Return the logged attempts of jobs of streams."""
        return ()

    def serve(self, now: float) -> None:
        """Start jobs in their order until the first that does not fit; the next does not overtake it."""
        while self.eligible:
            job = self.eligible[0]
            self._call_spares(job, now)
            if job.nodes_needed > self.cluster.idle.count:
                return
            del self.eligible[0]
            self._start(job, now)

    def _call_spares(self, job: Job, now: float) -> None:
        """Let the first job have hot spares, if it can start with them.

        They are kept for restarts: a first start has them only while no other job holds nodes. It
        fits in addition to all spares, so that it is never short of more nodes than are out of use.
        """
        short = job.nodes_needed - self.cluster.idle.count
        if not 0 < short <= self.cluster.spare.count:
            return
        if job.starts or not any(rival.holding for rival in self.jobs.all):
            self.cluster.move("spare", "idle", short, now)

    def _start(self, job: Job, now: float) -> None:
        """Give a job its gang and let the recovery strategy start it."""
        main = job.main
        self.jobs.settle(main, now)
        nodes = self.cluster.allocate(job, now)
        if self.jobs.preflight.is_on:
            main.joined = nodes
        if self.cluster.packed_by:
            job.homes = [self.cluster.packed_by[node] for node in job.nodes]
        if math.isnan(job.start):
            job.start = now
        interruptions = self.jobs.interruptions
        view = interruptions.start_view(job, now)
        plan = self.jobs.prepared.recovery.start(view)
        if interruptions.is_of_plugin:
            check_plan(plan, view)
        self.jobs.follow(main, plan, now)
        job.starts += 1

    def finish(self, job: Job, now: float, *, finished: bool) -> None:
        """Close a job whose groups are settled, and free its nodes."""
        self.jobs.replicas.absorb(job, now)
        self.jobs.stop(job.main, now)
        self.jobs.expose(job.main, now, "none")
        job.main.running = False
        job.end = now
        job.finished = finished
        if not finished:
            return
        if job.narrow:
            self.jobs.interruptions.let_go(job, now)
        self.cluster.release(job, now)
        self.jobs.failures.rollouts.change_free()
        self.jobs.open -= 1
        if self.jobs.open == 0:
            self.jobs.when_all_done(now)
        else:
            self.jobs.offer(now)

"""Groups of jobs: charging time, and carrying plans out step by step."""

from __future__ import annotations

import math
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from sim.engine.kernel import Order
from sim.policies.checkpoint import Ladder
from sim.policies.contracts import Acquire, Background, Bucket, Damage, Evict, Plan, Requeue, Restore, Run, Save, Stall

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation
    from sim.engine.state_jobs import Group, Job
    from sim.policies.contracts import Exposure, Keeps

_TIMED = (Stall, Restore, Save)


class Groups:
    """Moves groups from phase to phase. Every phase is charged when it is left."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.gpus_per_node = simulation.cluster.gpus_per_node
        self.lives = simulation.lives
        self.paces = simulation.paces
        self.recorder = simulation.recorder
        self.reaching_back = {job.index for job in simulation.jobs if self._reaches_back(job)}
        """Jobs that may go back beyond their newest copy outside the nodes."""
        self.handlers: dict[type, Callable[[Group, Any, float], bool]] = {
            Stall: self._stall,
            Restore: self._stall,
            Save: self._stall,
            Acquire: simulation.supply.acquire,
            Evict: simulation.lifecycle.evict,
            Requeue: self._requeue,
            Run: self._run,
            Background: simulation.replicas.send_away,
        }

    # ------------------------------------------------------------------------------------------- charging

    def settle(self, group: Group, now: float) -> None:
        """Charge everything up to `now`."""
        if group.run_at <= now:
            self._wait_out(group, group.run_at)
            step = group.run_step
            assert step is not None
            self._begin_run(group, step)
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
        cause = job.slow_cause if job.speed < 1.0 else group.cause
        at_risk = job.work if job.index in self.reaching_back else job.at_risk if job.taints else job.state.at_risk
        stalled = seconds - stepped - paused
        if stalled < 0.0:
            stalled = 0.0  # a rounding error
        job.account.step(stepped * pace.rate, degraded, stalled * share, cause, at_risk)
        if paused:
            job.account.table[Bucket.AUXILIARY][0] += paused * share
        job.running_seconds += seconds
        job.node_seconds += seconds * (group.replicas * job.nodes_per_replica - len(group.missing))
        if self.recorder is not None:
            self.recorder.stepping(group, group.since, now)
            self.recorder.progress(now, job)
        if group.missing:
            job.account.absent[Bucket.DEGRADED] += seconds * len(group.missing) * self.gpus_per_node
        group.since = now

    def _reaches_back(self, job: Job) -> bool:
        """Return whether a job may have to go back beyond its newest copy outside the nodes.

        It cannot be read, or is wrong where older ones are not, or the work before a loss spike is given up too.
        """
        wrong = [
            source.effect for source in self.simulation.prepared.sources if source.effect.kind in ("corrupt", "spike")
        ]
        if isinstance(job.checkpoint, Ladder):
            return bool(wrong) or any(rung.corrupt for rung in job.checkpoint.rungs)
        return any(effect.undone for effect in wrong)

    def _wait_out(self, group: Group, now: float) -> None:
        """Charge a waiting group up to `now`, phase by phase."""
        job = group.job
        share = group.gpus
        absent = len(group.missing) * self.gpus_per_node if job.holding else share
        time = group.since
        segments = group.segments
        index = group.segment
        cause = group.cause
        account = job.account
        table = account.table
        while time < now:
            bucket, end = segments[index]
            stop = end if end < now else now
            table[bucket][cause] += (stop - time) * share
            if absent:
                account.absent[bucket] += (stop - time) * absent
            if self.recorder is not None:
                self.recorder.span(group, bucket, time, stop, cause)
            time = stop
            if end <= now:
                index += 1
        group.segment = index
        group.since = now

    def expose(self, group: Group, now: float, exposed: Exposure) -> None:
        """Say who can fail from now on: the processes of the group, its nodes, both or none."""
        if group.exposed == exposed:
            return
        group.exposed = exposed
        nodes, processes = exposed in ("both", "nodes"), exposed in ("both", "processes")
        for clock, on in ((group.processes, processes), (group.held, nodes), (group.busy, nodes and processes)):
            clock.turn(now, on=on)
            self.lives.arm(clock, now)
        if group.deferred and nodes:
            self.deliver(group, now)

    def deliver(self, group: Group, now: float) -> None:
        """Let happen to a group whose nodes are exposed what has waited for that."""
        for candidate in group.deferred:
            self.kernel.at(now, Order.FAILURE, self.simulation.faults.on_deferred, candidate)
        group.deferred = []

    def wait(self, group: Group, segments: list[tuple[int, float]], now: float, *, exposed: Exposure) -> None:
        """Put a settled group into waiting phases."""
        group.running = False
        group.segments = segments
        group.segment = 0
        if group.exposed != exposed:
            self.expose(group, now, exposed)

    def stop(self, group: Group, now: float) -> None:
        """Charge a group and void what it was going to do."""
        self.settle(group, now)
        group.epoch += 1
        group.run_at = math.inf
        job = group.job
        if group is job.main:
            job.finish_at = math.inf
            if job.saved_at > now:
                # A save that is cut off is void.
                job.state = job.unsaved
                job.saved_at = now
        if group.waiting is not None:
            group.waiting = None
            self.simulation.supply.forget(group)
        if self.simulation.stores.readings:
            self.simulation.stores.forget(group, now)

    # ---------------------------------------------------------------------------------------------- plans

    def follow(self, group: Group, plan: Plan, now: float) -> None:
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
                    job.saved_at = now + job.checkpoint.save_time()
                    job.state = job.checkpoint.saved(job.state)
                elif type(step) is Evict:
                    job.lost.update(self.simulation.lifecycle.evicted(group, step))
                elif type(step) is Restore:
                    # What a save that may still be cut off has made durable cannot be lost yet.
                    self.simulation.restores.roll_back(job, step.keeps, reads=not saves)
                    break
        self.proceed(group, now)

    def proceed(self, group: Group, now: float) -> None:
        """Carry out the steps of the plan until one has to wait."""
        while group.step < len(group.plan):
            step = group.plan[group.step]
            group.step += 1
            if self.handlers[type(step)](group, step, now):
                return
        if group is not group.job.main:
            self.simulation.replicas.rejoin(group, now)

    def on_phase_end(self, call: Call) -> None:
        """Go on with the plan of a group, unless it was given up meanwhile."""
        group, epoch = call.argument
        if epoch == group.epoch:
            now = self.kernel.now
            self.settle(group, now)
            self.proceed(group, now)

    def _stall(self, group: Group, step: Stall | Restore | Save, now: float) -> bool:
        """Wait through this and the following timed steps of the same exposure, with one event at their end."""
        job = group.job
        stores = self.simulation.stores
        if stores.is_shared and stores.shares(job, step):
            return stores.restore(group, step, now)  # type: ignore[arg-type]
        exposed = step.exposed
        segments: list[tuple[int, float]] = []
        end = now
        plan = group.plan
        while True:
            kind = type(step)
            if kind is Stall:
                bucket, seconds = step.bucket, step.seconds  # type: ignore[union-attr]
                if group is job.main:
                    job.excess += step.excess  # type: ignore[union-attr]
            elif kind is Save:
                bucket, seconds = Bucket.CHECKPOINT_STALL, job.checkpoint.save_time()
            else:
                bucket, seconds = Bucket.RESTORE, self.simulation.restores.begin(job, end)
            if seconds > 0:
                end += seconds
                segments.append((bucket, end))
            following = plan[group.step] if group.step < len(plan) else None
            if type(following) not in _TIMED or following.exposed != exposed:  # type: ignore[union-attr]
                break
            if stores.is_shared and stores.shares(job, following):
                break
            step = following  # type: ignore[assignment]
            group.step += 1
        if not segments:
            return False
        self.wait(group, segments, now, exposed=exposed)
        if exposed == "both" and isinstance(following, Run) and group is job.main:
            # Nothing is decided when the waiting ends: no event, settle() turns it into running.
            group.run_at = end
            group.run_step = following
            if job.stops_at < math.inf:
                self.paces.set(job, following.fraction)
                self.paces.expect_finish(group, end)
            return True
        self.kernel.at(end, Order.PHASE, self.on_phase_end, (group, group.epoch))
        return True

    def _requeue(self, group: Group, step: Requeue, now: float) -> bool:
        """Give the nodes back; after the delay the job enters the queue."""
        job = group.job
        main = job.main
        self.stop(main, now)
        job.excess += step.excess
        self.simulation.replicas.absorb(job, now)
        self.simulation.restores.roll_back(job, "stores", reads=False)
        if job.narrow:
            self.simulation.incidents.let_go(job, now)
        self.cluster.release(job, now)
        self.wait(main, [(Bucket.RESCHEDULE, math.inf)], now, exposed="none")
        self.kernel.at(now + step.delay, Order.PHASE, self._on_eligible, (main, main.epoch))
        self.simulation.queue.serve(now)
        return True

    def _on_eligible(self, call: Call) -> None:
        group, epoch = call.argument
        if epoch == group.epoch:
            now = self.kernel.now
            self.settle(group, now)
            self.wait(group, [(Bucket.QUEUED, math.inf)], now, exposed="none")
            self.simulation.queue.enter(group.job, now)

    def _run(self, group: Group, step: Run, now: float) -> bool:
        """Step on until something happens."""
        job = group.job
        if group is not job.main:
            return False
        self._begin_run(group, step)
        if group.exposed != "both":
            self.expose(group, now, "both")
        if job.stops_at < math.inf:
            self.paces.expect_finish(group, now)
        return True

    def _begin_run(self, group: Group, step: Run) -> None:
        """Close the incident; from now on the group steps."""
        job = group.job
        if step.fraction != job.fraction or group.replicas != job.paced_replicas or self.paces.may_be_slow(job):
            self.paces.set(job, step.fraction)
        if self.simulation.conditions.of_node:
            self.simulation.conditions.taint(job)
        job.live = True
        if job.lost or job.rebooted or job.dead:
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


# ----------------------------------------
# How fast jobs step, and when a fixed amount of work is done.

NOT_YET = -math.inf

"""End of a job that is not worked out, because an event that looks again comes before."""


class Paces:
    """Sets the pace of jobs, and looks when one comes to its end or to its next bug."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel

    def may_be_slow(self, job: Job) -> bool:
        """Return whether a job is slow, or may have become so."""
        return job.speed != 1.0 or job.footprint is not None or bool(self.simulation.conditions.of_node)

    def set(self, job: Job, fraction: float) -> None:
        """Set the pace of a job: its plan's, its nodes'."""
        if self.may_be_slow(job):
            job.speed, job.slow_cause = self._slowest(job)
        job.set_pace(fraction)
        self.simulation.steps.change(job)

    def _slowest(self, job: Job) -> tuple[float, int]:
        """Return the pace that the network and the nodes of a job allow [-], and the cause."""
        fabric, conditions = self.simulation.fabric, self.simulation.conditions
        network = fabric.pace(job)
        if not conditions.of_node:
            return network if network[0] <= 1.0 else (1.0, 0)
        # Ties go to the fabric; a synchronous job waits for the slowest of all.
        return min(network, conditions.slowest(job), key=itemgetter(0))

    def follow(self, job: Job, now: float) -> None:
        """Let a job step at the pace that its nodes have now, if the fabric has changed that.

        A job that does not notice is not charged up to now.
        """
        group = job.main
        if not group.running:
            self.respeed(job, now)
            return
        found = self._slowest(job)
        if found != (job.speed, job.slow_cause):
            self.simulation.groups.settle(group, now)
            job.speed, job.slow_cause = found
            job.set_pace(job.fraction)
            self.simulation.steps.change(job)
            if job.stops_at < math.inf:
                self.expect_finish(group, now)

    def respeed(self, job: Job, now: float) -> None:
        """Let a job step at the pace that its nodes have now."""
        group = job.main
        self.simulation.groups.settle(group, now)
        if group.running:
            self.set(job, job.fraction)
            if job.stops_at < math.inf:
                self.expect_finish(group, now)
        elif group.run_at < math.inf and job.stops_at < math.inf:
            assert group.run_step is not None
            self.set(job, group.run_step.fraction)
            self.expect_finish(group, group.run_at)

    def expect_finish(self, group: Group, start: float) -> None:
        """Say when a job with a fixed amount of work ends if it steps from `start` on undisturbed.

        One event waits for each job: most failures only move the end away, and an event that comes too early looks
        again. What cannot end before that event is worked out then.
        """
        job = group.job
        todo = max(job.stops_at - job.work, 0.0)
        if start + todo / job.pace.rate > job.looks_at:
            job.finish_at = NOT_YET
            return
        left = job.checkpoint.time_to(job.state, job.pace, todo)
        job.finish_at = start + left
        if job.finish_at < job.looks_at:
            job.looks_at = job.finish_at
            self.kernel.at(job.looks_at, Order.PHASE, self._on_look, (job, job.looks_at))

    def _on_look(self, call: Call) -> None:
        job, time = call.argument
        if time != job.looks_at:
            return
        job.looks_at = math.inf
        main = job.main
        if job.finish_at == NOT_YET:
            self.simulation.groups.settle(main, time)
            self.expect_finish(main, main.run_at if main.run_at < math.inf else time)
        elif job.finish_at <= time:
            self.simulation.groups.settle(job.main, time)
            if job.stops_at < job.target:
                self.simulation.bugs.meet(job, time)
            else:
                self.simulation.queue.finish(job, time, finished=True)
        elif job.finish_at < math.inf:
            job.looks_at = job.finish_at
            self.kernel.at(job.looks_at, Order.PHASE, self._on_look, (job, job.looks_at))


# ----------------------------------------
# How many optimizer steps a job has done, as far as its work survives.

_SAME = 1e-9

"""Relative difference below which two paces make as many steps of the same work [-]."""


class _Stretch(NamedTuple):
    """From some work on [s], after so many steps [-], a second of healthy work takes so many steps [1/s]."""

    work: float
    steps: float
    slope: float


class Steps:
    """Counts the steps behind the work of each job: fewer replicas need more of them for the same work."""

    def __init__(self) -> None:
        self.stretches: dict[int, list[_Stretch]] = {}

    def change(self, job: Job) -> None:
        """Note that a job, whose work is charged, has the pace of now from here on."""
        if job.step_time <= 0:
            return
        slope = 1.0 / (job.pace.rate * job.pace.step)
        mine = self.stretches.setdefault(job.index, [_Stretch(0.0, 0.0, 1.0 / job.step_time)])
        last = mine[-1]
        if abs(last.slope - slope) > _SAME * slope:
            mine.append(_Stretch(job.work, last.steps + (job.work - last.work) * last.slope, slope))

    def roll_back(self, job: Job) -> None:
        """Forget the paces of work that a job has lost; it goes on at the pace that it has now."""
        mine = self.stretches.get(job.index)
        if mine is None:
            return
        while len(mine) > 1 and mine[-1].work >= job.work:
            mine.pop()
        self.change(job)

    def done(self, job: Job) -> float:
        """Return the steps behind the work that a job has now [-]; 0 without the time of a step."""
        if job.step_time <= 0:
            return 0.0
        mine = self.stretches.get(job.index)
        if not mine:
            return job.work / job.step_time
        return mine[-1].steps + (job.work - mine[-1].work) * mine[-1].slope


# ----------------------------------------
# Going back to a copy: what has happened to the nodes, what is lost, and how long the reading takes.

_TIE = 1e-12

"""Relative difference below which two amounts of work are the same [-]."""


class Restores:
    """Asks the checkpoint strategy what survives, and takes back what does not."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.steps = simulation.steps

    def roll_back(self, job: Job, keeps: Keeps, *, reads: bool = True) -> None:
        """Go back to what survives, given what a plan `keeps`, and charge the loss to the incident's first failure.

        Whether a copy is good is found out when it is read.
        """
        before = job.work
        sound = (
            min((taint.sound for taint in job.taints if taint.is_known), default=math.inf) if job.taints else math.inf
        )
        mark = self._mark(job) if reads else None
        damage = self._damage(job, keeps)
        restoration = job.checkpoint.restore(job.state, job.pace, damage, sound, mark)
        job.state = restoration.state
        job.restoration = restoration
        if job.taints:
            self._clear(job)
        lost = before - job.work
        if lost > 0:
            job.account.lose(lost, job.main.incident or job.main.cause)
            self.steps.roll_back(job)
        recorder = self.simulation.recorder
        if recorder is not None:
            recorder.progress(self.kernel.now, job)
        if restoration.store != "peer":
            job.live = False

    def _clear(self, job: Job) -> None:
        """Forget what was wrong with work that is taken back.

        A sound save that was on its way is void. Where no copy from before a fault is left, the job lives on with what
        it has.
        """
        newest = job.checkpoint.sound(job.state)
        for taint in job.taints:
            taint.sound = min(taint.sound, newest)
        wrong = [taint for taint in job.taints if taint.sound < job.work * (1 - _TIE)]
        job.accepted += sum(taint.is_known for taint in wrong)
        job.taints = [taint for taint in wrong if not taint.is_known]

    def _damage(self, job: Job, keeps: Keeps) -> Damage:
        """Return what has happened to the nodes of a job since it last stepped."""
        if not job.checkpoint.minds_nodes:
            return Damage(keeps)
        # A replica hands its state to others, so there have to be some; one whose node started anew has none.
        stateless = {position // job.nodes_per_replica for position in (*job.lost, *job.rebooted, *job.dead)}
        live = job.live and job.replicas > 1 and len(stateless) < job.main.replicas
        return Damage(keeps, frozenset(job.lost), frozenset(job.rebooted), live)

    def _mark(self, job: Job) -> Callable[[str], float] | None:
        """Return the numbers that decide what a job can read: each time that it reads, others."""
        failure = job.main.failure
        if failure is None:
            return None
        job.reads += 1
        number = job.reads
        return lambda purpose: failure.mark(f"{purpose} at reading {number}")

    def begin(self, job: Job, now: float) -> float:
        """Let a job begin to read what it goes back to; return how long that takes [s]."""
        seconds = job.restoration.seconds + self.wait(job, now)
        if job.restoration.seconds > 0:
            job.read_from = job.restoration.store
        return seconds

    def wait(self, job: Job, now: float) -> float:
        """Return how long a restore that would begin `now` [s] waits for the store that it reads [s]."""
        back = self.simulation.stores.back
        return back - now if back > now and job.restoration.store == "remote" and job.work > 0 else 0.0


# ----------------------------------------
# Restores of several jobs that read one store at the same time and share its bandwidth.

_DONE = 1e-9

"""Part of a restore that rounding may leave [-]."""


class _Reading:
    """One restore: what is left of it [-], how fast it goes [1/s], and its two least times [s].

    ``alone`` is what the nodes need at their own bandwidth, ``whole`` what the store needs if nobody else reads.
    """

    __slots__ = ("alone", "group", "left", "speed", "whole")

    def __init__(self, group: Group, alone: float, whole: float) -> None:
        self.group = group
        self.alone = alone
        self.whole = whole
        self.left = 1.0
        self.speed = 0.0


class Stores:
    """Lets restores from the remote store share its bandwidth, each as fast as its own nodes can at most.

    The store gives everybody the same, and what somebody cannot use to the others (max-min fairness).
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.is_shared = len(simulation.jobs) > 1
        """Whether somebody else may read at the same time."""
        self.back = -math.inf
        """When the stores outside the nodes can be read again [s]."""
        self.readings: list[_Reading] = []
        self.since = 0.0
        self.epoch = 0

    def shares(self, job: Job, step: object) -> bool:
        """Return whether a step of a plan is a restore that has to share its store."""
        if not self.is_shared or type(step) is not Restore:
            return False
        restoration = job.restoration
        return restoration.store == "remote" and restoration.seconds > 0 and job.checkpoint.transfer[1] > 0

    def restore(self, group: Group, step: Restore, now: float) -> bool:
        """Let a group restore: first what it does not share, waiting and reading in, then the transfer."""
        job = group.job
        self.simulation.groups.wait(group, [(Bucket.RESTORE, math.inf)], now, exposed=step.exposed)
        before = self.simulation.restores.begin(job, now) - max(job.checkpoint.transfer)
        if before > 0:
            self.kernel.at(now + before, Order.PHASE, self._on_ready, (group, group.epoch))
        else:
            self._begin(group, now)
        return True

    def forget(self, group: Group, now: float) -> None:
        """Let a group read no longer."""
        if any(reading.group is group for reading in self.readings):
            self._advance(now)
            self.readings = [reading for reading in self.readings if reading.group is not group]
            self._share(now)

    def _on_ready(self, call: Call) -> None:
        group, epoch = call.argument
        if epoch == group.epoch:
            self._begin(group, self.kernel.now)

    def _begin(self, group: Group, now: float) -> None:
        self._advance(now)
        self.readings.append(_Reading(group, *group.job.checkpoint.transfer))
        self._share(now)

    def _advance(self, now: float) -> None:
        """Take off what has been read since the speeds last changed."""
        for reading in self.readings:
            reading.left = max(reading.left - reading.speed * (now - self.since), 0.0)
        self.since = now

    def _share(self, now: float) -> None:
        """Give everybody a speed, the least demanding first, and wait for the first who is done."""
        self.epoch += 1
        free = 1.0
        ordered = sorted(self.readings, key=lambda reading: reading.whole / max(reading.alone, reading.whole * _DONE))
        for index, reading in enumerate(ordered):
            fair = free / (len(ordered) - index)
            reading.speed = min(fair / reading.whole, 1 / reading.alone if reading.alone > 0 else math.inf)
            free -= reading.speed * reading.whole
        if ordered:
            end = now + min(reading.left / reading.speed for reading in ordered)
            self.kernel.at(end, Order.PHASE, self._on_end, self.epoch)

    def _on_end(self, call: Call) -> None:
        """Let those go on that have read everything."""
        if call.argument != self.epoch:
            return
        now = self.kernel.now
        self._advance(now)
        done = [reading for reading in self.readings if reading.left <= _DONE]
        self.readings = [reading for reading in self.readings if reading.left > _DONE]
        self._share(now)
        for reading in done:
            group = reading.group
            self.simulation.groups.settle(group, now)
            self.simulation.groups.proceed(group, now)

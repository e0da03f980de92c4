"""Groups of jobs: charging time, and carrying plans out step by step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sim.checkpoint import Ladder
from sim.contracts import Acquire, Background, Bucket, Evict, Plan, Requeue, Restore, Run, Save, Stall
from sim.engine.kernel import Order

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.contracts import Exposure
    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation
    from sim.job import Group, Job

__all__ = ["Groups"]

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

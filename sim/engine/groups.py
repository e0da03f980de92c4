"""Groups of jobs: charging time, and carrying plans out step by step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sim.contracts import Acquire, Background, Bucket, Plan, Requeue, Restore, Run, Stall
from sim.engine.kernel import Order

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation
    from sim.job import Group, Job

__all__ = ["Groups"]


class Groups:
    """Moves groups from phase to phase. Every phase is charged when it is left."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.gpus_per_node = simulation.cluster.gpus_per_node
        self.lives = simulation.lives
        self.hungry: list[Group] = []
        """Groups that wait for nodes, longest first."""
        self.handlers: dict[type, Callable[[Group, Any, float], bool]] = {
            Stall: self._stall,
            Restore: self._stall,
            Acquire: self._acquire,
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
        job.state, stepped = job.checkpoint.advance(job.state, pace, seconds)
        degraded = stepped * (1.0 - job.fraction) * share if job.fraction != 1.0 else 0.0
        job.account.step(stepped * pace.rate, degraded, (seconds - stepped) * share, group.cause, job.state.at_risk)
        job.running_seconds += seconds
        if group.missing:
            job.account.absent[Bucket.DEGRADED] += seconds * len(group.missing) * self.gpus_per_node
        group.since = now

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
            time = stop
            if end <= now:
                index += 1
        group.segment = index
        group.since = now

    def expose(self, group: Group, now: float, *, exposed: bool) -> None:
        """Say whether failures can hit the group from now on."""
        if group.exposed == exposed:
            return
        if exposed:
            group.exposed_from = now
        else:
            group.exposed_total += now - group.exposed_from
        group.exposed = exposed
        self.lives.arm(group, now)

    def wait(self, group: Group, segments: list[tuple[int, float]], now: float, *, exposed: bool) -> None:
        """Put a settled group into waiting phases."""
        group.running = False
        group.segments = segments
        group.segment = 0
        if group.exposed != exposed:
            self.expose(group, now, exposed=exposed)

    def stop(self, group: Group, now: float) -> None:
        """Charge a group and void what it was going to do."""
        self.settle(group, now)
        group.epoch += 1
        group.run_at = math.inf
        if group is group.job.main:
            group.job.finish_at = math.inf
        if group.waiting is not None:
            group.waiting = None
            if group in self.hungry:
                self.hungry.remove(group)

    # ---------------------------------------------------------------------------------------------- plans

    def follow(self, group: Group, plan: Plan, now: float) -> None:
        """Start a plan. What it gives up is lost now, not when the restore comes."""
        group.plan = plan
        group.step = 0
        if group is group.job.main:
            for step in plan:
                if type(step) is Restore:
                    self._roll_back(group.job, step.tier)
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

    def _on_phase_end(self, call: Call) -> None:
        group, epoch = call.argument
        if epoch == group.epoch:
            now = self.kernel.now
            self.settle(group, now)
            self.proceed(group, now)

    def _roll_back(self, job: Job, tier: str) -> None:
        """Go back to what a tier holds and charge the loss to the incident's first failure."""
        before = job.work
        job.state = job.checkpoint.roll_back(job.state, tier, job.pace)
        lost = before - job.work
        if lost > 0:
            job.account.lose(lost, job.main.incident or job.main.cause)
        if tier != "peer":
            job.live = False

    def _stall(self, group: Group, step: Stall | Restore, now: float) -> bool:
        """Wait through this and the following timed steps of the same exposure, with one event at their end."""
        job = group.job
        exposed = step.exposed
        segments: list[tuple[int, float]] = []
        end = now
        plan = group.plan
        while True:
            if isinstance(step, Stall):
                bucket, seconds = step.bucket, step.seconds
            else:
                bucket, seconds = Bucket.RESTORE, job.checkpoint.restore_time(job.state, step.tier)
            if seconds > 0:
                end += seconds
                segments.append((bucket, end))
            following = plan[group.step] if group.step < len(plan) else None
            if not isinstance(following, (Stall, Restore)) or following.exposed != exposed:
                break
            step = following
            group.step += 1
        if not segments:
            return False
        self.wait(group, segments, now, exposed=exposed)
        if exposed and isinstance(following, Run) and group is job.main:
            # Nothing is decided when the waiting ends: no event, settle() turns it into running.
            group.run_at = end
            group.run_step = following
            if job.target < math.inf:
                job.set_pace(following.fraction)
                self.expect_finish(group, end)
            return True
        self.kernel.at(end, Order.PHASE, self._on_phase_end, (group, group.epoch))
        return True

    def _acquire(self, group: Group, step: Acquire, now: float) -> bool:
        """Take nodes; wait if there are too few."""
        if step.unit == "node":
            may_miss = max(len(group.missing) - step.wanted, 0) if step.wanted else 0
            if self._feed(group, step.pools, may_miss, now):
                return False
            group.waiting = step._replace(wanted=may_miss)
            self.hungry.append(group)
        else:
            if group.replicas >= step.wanted:
                return False
            group.waiting = step
        self.wait(group, [(Bucket.STARVED, math.inf)], now, exposed=True)
        if step.timeout < math.inf:
            self.kernel.at(now + step.timeout, Order.PHASE, self._on_timeout, (group, group.epoch))
        return True

    def _feed(self, group: Group, pools: tuple[str, ...], may_miss: int, now: float) -> bool:
        """Give a group nodes until it misses no more than `may_miss`; return whether there were enough."""
        while len(group.missing) > may_miss:
            for pool in pools:
                node = self.cluster.take(pool, now)
                if node >= 0:
                    break
            else:
                return False
            self.cluster.seat(group, group.missing.pop(), node)
            if self.lives.nodes:
                self.lives.join(node, group, now)
        return True

    def feed_hungry(self, now: float) -> None:
        """Serve the groups that wait for nodes, longest first."""
        for group in list(self.hungry):
            if group.waiting is None:
                continue
            self.settle(group, now)
            if self._feed(group, group.waiting.pools, group.waiting.wanted, now):
                self.hungry.remove(group)
                group.waiting = None
                group.epoch += 1
                self.proceed(group, now)

    def _on_timeout(self, call: Call) -> None:
        group, epoch = call.argument
        if epoch != group.epoch or group.waiting is None:
            return
        step = group.plan[group.step - 1]
        if step.otherwise:
            now = self.kernel.now
            self.stop(group, now)
            self.follow(group, step.otherwise, now)

    def _requeue(self, group: Group, step: Requeue, now: float) -> bool:
        """Give the nodes back; after the delay the job enters the queue."""
        job = group.job
        main = job.main
        self.stop(main, now)
        self.simulation.replicas.absorb(job, now)
        self._roll_back(job, "stored")
        self.cluster.release(job, now)
        self.wait(main, [(Bucket.RESCHEDULE, math.inf)], now, exposed=False)
        self.kernel.at(now + step.delay, Order.PHASE, self._on_eligible, (main, main.epoch))
        self.simulation.queue.serve(now)
        return True

    def _on_eligible(self, call: Call) -> None:
        group, epoch = call.argument
        if epoch == group.epoch:
            now = self.kernel.now
            self.settle(group, now)
            self.wait(group, [(Bucket.QUEUED, math.inf)], now, exposed=False)
            self.simulation.queue.enter(group.job, now)

    def _run(self, group: Group, step: Run, now: float) -> bool:
        """Step on until something happens."""
        job = group.job
        if group is not job.main:
            return False
        self._begin_run(group, step)
        if not group.exposed:
            self.expose(group, now, exposed=True)
        if job.target < math.inf:
            self.expect_finish(group, now)
        return True

    def _begin_run(self, group: Group, step: Run) -> None:
        """Close the incident; from now on the group steps."""
        job = group.job
        if step.fraction != job.fraction or group.replicas != job.paced_replicas:
            job.set_pace(step.fraction)
        job.live = True
        group.incident = 0
        group.attempt = 0
        group.run_at = math.inf
        group.running = True

    def expect_finish(self, group: Group, start: float) -> None:
        """Say when a job with a fixed amount of work ends if it steps from `start` on undisturbed.

        One event waits for each job: most failures only move the end away, and an event that comes too early looks
        again.
        """
        job = group.job
        left = job.checkpoint.time_to(job.state, job.pace, max(job.target - job.work, 0.0))
        job.finish_at = start + left
        if job.finish_at < job.looks_at:
            job.looks_at = job.finish_at
            self.kernel.at(job.looks_at, Order.PHASE, self._on_look, (job, job.looks_at))

    def _on_look(self, call: Call) -> None:
        job, time = call.argument
        if time != job.looks_at:
            return
        job.looks_at = math.inf
        if job.finish_at <= time:
            self.settle(job.main, time)
            self.simulation.queue.finish(job, time, finished=True)
        elif job.finish_at < math.inf:
            job.looks_at = job.finish_at
            self.kernel.at(job.looks_at, Order.PHASE, self._on_look, (job, job.looks_at))

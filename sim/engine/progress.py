"""Progress: how fast jobs step and when they are done, what a rollback takes, and how long its reading takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, get_args

from ettrick.sim.engine.kernel import EventPriority
from ettrick.sim.policies.contracts import Damage, Keeps

if TYPE_CHECKING:
    from collections.abc import Callable

    from ettrick.sim.engine.job import Job, ReplicaGroup, Taint
    from ettrick.sim.engine.jobs import JobPhases
    from ettrick.sim.engine.kernel import ScheduledCall

_NOT_YET = -math.inf
"""End of a job that is not worked out, because an event that looks again comes before."""


class Paces:
    """Sets the pace of jobs, and looks when one comes to its end or to its next bug."""

    def __init__(self, jobs: JobPhases) -> None:
        self.jobs = jobs
        self.kernel = jobs.kernel

    def set(self, job: Job, fraction: float) -> None:
        """Set the pace of a job: its plan's, its nodes'."""
        if self.jobs.failures.may_slow(job):
            job.speed, job.slow_cause = self.jobs.failures.slowest(job)
        job.set_pace(fraction)
        self.jobs.steps.change(job)

    def repace(self, job: Job, now: float) -> None:
        """Let a job step at the pace that its nodes have now, if the fabric has changed that.

        A job that does not notice is not charged up to now.
        """
        group = job.main
        if not group.running:
            self.respeed(job, now)
            return
        found = self.jobs.failures.slowest(job)
        if found != (job.speed, job.slow_cause):
            self.jobs.settle(group, now)
            job.speed, job.slow_cause = found
            job.set_pace(job.fraction)
            self.jobs.steps.change(job)
            self._look_again(job, now)

    def respeed(self, job: Job, now: float) -> None:
        """Let a job step at the pace that its nodes have now."""
        group = job.main
        self.jobs.settle(group, now)
        if group.running:
            self.set(job, job.fraction)
            self._look_again(job, now)
        elif group.run_at < math.inf and job.stops_at < math.inf:
            assert group.run_step is not None
            self.set(job, group.run_step.fraction)
            self.expect_finish(group, group.run_at)

    def _look_again(self, job: Job, now: float) -> None:
        """Say when a job whose pace has changed saves next, and ends."""
        if self.jobs.stores.save_share:
            self.jobs.stores.expect(job, now)
        if job.stops_at < math.inf:
            self.expect_finish(job.main, now)

    def expect_finish(self, group: ReplicaGroup, start: float) -> None:
        """Say when a job with a fixed amount of work ends if it steps from `start` on undisturbed.

        One event waits for each job: most failures only move the end away, and an event that comes too early looks
        again. What cannot end before that event is worked out then.
        """
        job = group.job
        todo = max(job.stops_at - job.work, 0.0)
        if start + todo / job.pace.rate > job.looks_at:
            job.finish_at = _NOT_YET
            return
        left = job.checkpoint.time_to(job.state, job.pace, todo)
        job.finish_at = start + left
        if job.finish_at < job.looks_at:
            job.looks_at = job.finish_at
            self.kernel.at(job.looks_at, EventPriority.PHASE, self._on_look, (job, job.looks_at))

    def _on_look(self, call: ScheduledCall) -> None:
        job, time = call.argument
        if time != job.looks_at:
            return
        job.looks_at = math.inf
        main = job.main
        if job.finish_at == _NOT_YET:
            self.jobs.settle(main, time)
            self.expect_finish(main, main.run_at if main.run_at < math.inf else time)
        elif job.finish_at <= time:
            self.jobs.settle(job.main, time)
            if job.stops_at < job.target:
                self.jobs.failures.bugs.meet(job, time)
            else:
                self.jobs.queue.finish(job, time, finished=True)
        elif job.finish_at < math.inf:
            job.looks_at = job.finish_at
            self.kernel.at(job.looks_at, EventPriority.PHASE, self._on_look, (job, job.looks_at))


# ----------------------------------------
# How many optimizer steps a job has done, as far as its work survives.

_SAME = 1e-9

"""Relative difference below which two paces make as many steps of the same work [-]."""


class _Stretch(NamedTuple):
    """From some work on [s], after so many steps [-], a second of healthy work takes so many steps [1/s]."""

    work: float
    steps: float
    slope: float


class StepCounter:
    """Counts the steps behind the work of each job: fewer replicas need more of them for the same work."""

    def __init__(self) -> None:
        self.stretches: dict[int, list[_Stretch]] = {}

    def change(self, job: Job) -> None:
        """Note that a job, whose work is charged, has the pace of now from here on."""
        if job.spec.step_time <= 0:
            return
        slope = 1.0 / (job.pace.rate * job.pace.step)
        mine = self.stretches.setdefault(job.index, [_Stretch(0.0, 0.0, 1.0 / job.spec.step_time)])
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
        if job.spec.step_time <= 0:
            return 0.0
        mine = self.stretches.get(job.index)
        if not mine:
            return job.work / job.spec.step_time
        return mine[-1].steps + (job.work - mine[-1].work) * mine[-1].slope


# ----------------------------------------
# Going back to a copy: what has happened to the nodes, what is lost, and how long the reading takes.

_NOT_MINDED: dict[Keeps, Damage] = {keeps: Damage(keeps) for keeps in get_args(Keeps)}

"""What strategies get that do not mind what has happened to the nodes."""

_TIE = 1e-12

"""Relative difference below which two amounts of work are the same [-]."""


class Restores:
    """Asks the checkpoint strategy what survives, and takes back what does not."""

    def __init__(self, jobs: JobPhases) -> None:
        self.jobs = jobs
        self.kernel = jobs.kernel
        self.steps = jobs.steps

    def roll_back(self, job: Job, keeps: Keeps, *, reads: bool = True) -> None:
        """Go back to what survives, given what a plan `keeps`, and charge the loss to the incident's first failure.

        Whether a copy is good is found out when it is read.
        """
        job.writes_on = keeps == "live" and job.live
        if job.writes_on:
            self.write_on(job, self.kernel.now)
        elif keeps == "live":
            keeps = "hosts"
        before = job.work
        sound = (
            min((taint.sound for taint in job.taints if taint.is_known), default=math.inf) if job.taints else math.inf
        )
        mark = self._mark(job) if reads else None
        damage = self._damage(job, keeps)
        restoration = job.checkpoint.restore(job.state, job.pace, damage, sound, mark)
        job.state = restoration.state
        job.restoration = restoration
        accepted = self._clear(job) if job.taints else []
        lost = before - job.work
        if lost > 0:
            job.account.lose(lost, job.main.incident or job.main.cause)
            self.steps.roll_back(job)
        for taint in accepted:
            job.account.accept(job.work - taint.sound, taint.fault.failure.info.cause)
        recorder = self.jobs.recorder
        if recorder is not None:
            recorder.progress(self.kernel.now, job)
        if restoration.store != "peer":
            job.live = False

    def write_on(self, job: Job, now: float) -> None:
        """Let the replicas of a job that does not step, but holds its state, write on what they save."""
        if now > job.written_at:
            job.state = job.checkpoint.wait(job.state, now - job.written_at)
            job.written_at = now

    def _clear(self, job: Job) -> list[Taint]:
        """Forget what was wrong with work that is taken back; return what is known to be wrong and stays.

        A sound save that was on its way is void. Where no copy from before a fault is left, the job lives on with what
        it has.
        """
        newest = job.checkpoint.sound(job.state)
        for taint in job.taints:
            taint.sound = min(taint.sound, newest)
        wrong = [taint for taint in job.taints if taint.sound < job.work * (1 - _TIE)]
        accepted = [taint for taint in wrong if taint.is_known]
        job.accepted += len(accepted)
        job.taints = [taint for taint in wrong if not taint.is_known]
        return accepted

    def _damage(self, job: Job, keeps: Keeps) -> Damage:
        """Return what has happened to the nodes of a job since it last stepped."""
        if not job.checkpoint.minds_nodes:
            return _NOT_MINDED[keeps]
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
        back = self.jobs.stores.back
        return back - now if back > now and job.restoration.store == "remote" and job.work > 0 else 0.0

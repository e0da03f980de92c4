"""Progress: how fast jobs step and when they are done, what a rollback takes, the store that saves use, and power.

:class:`Paces`, :class:`StepCounter`, :class:`Restores`, :class:`Power`; :class:`SharedStores` is the store outside the
nodes. Jobs that restore from it share it, and those that save where the scenario says so. It gives everybody the same,
and what somebody cannot use to the others (max-min fairness); all saves together have no more than their share of it.
While it is out nobody saves, and where saves share it nobody reads either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np

from ettrick.sim.engine.kernel import EventPriority
from ettrick.sim.engine.result import EnergyMeter
from ettrick.sim.failures.source import CONTENTION
from ettrick.sim.policies.checkpoint import LadderState, MultiLevelCheckpoint
from ettrick.sim.policies.contracts import CLUSTER_BUCKETS, Bucket, Damage, Keeps, Restore, Save
from ettrick.sim.steps.power import energy_by_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ettrick.sim.engine.holders import Holder, Job, ReplicaGroup, Taint
    from ettrick.sim.engine.jobs import JobPhases

_NOT_YET = -math.inf
"""End of a job that is not worked out, because an event that looks again comes before."""

_DONE = 1e-9

"""Part of a transfer that rounding may leave [-]."""


class Paces:
    """Sets the pace of jobs, and looks when one comes to its end or to its next bug."""

    fabric_pace: Callable[[Job], tuple[float, int]]
    """Gives the pace that the network allows a job [-], and the cause."""

    def __init__(self, jobs: JobPhases) -> None:
        self.jobs = jobs
        self.kernel = jobs.kernel
        self.silent = jobs.failures.silent

    def may_slow(self, job: Job) -> bool:
        """Return whether a job is slow, or may have become so."""
        power = self.jobs.power
        is_throttled = power is not None and power.throttle[0] < 1.0
        return job.speed != 1.0 or job.footprint is not None or bool(self.silent.of_node) or is_throttled

    def _slowest(self, job: Job) -> tuple[float, int]:
        """Return the pace that the network, the nodes and the power of a job allow [-], and the cause."""
        network = self.fabric_pace(job)
        if self.jobs.power is not None:
            network = min(network, self.jobs.power.throttle, key=itemgetter(0))
        if not self.silent.of_node:
            return network if network[0] <= 1.0 else (1.0, 0)
        # Ties go to the fabric; a synchronous job waits for the slowest of all.
        return min(network, self.silent.slowest(job), key=itemgetter(0))

    def set(self, job: Job, fraction: float) -> None:
        """Set the pace of a job: its plan's, its nodes'."""
        if self.may_slow(job):
            job.speed, job.slow_cause = self._slowest(job)
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
        slowest = self._slowest(job)
        if slowest != (job.speed, job.slow_cause):
            self.jobs.settle(group, now)
            job.speed, job.slow_cause = slowest
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
            self.set(job, group.run_step.fraction)
            self.expect_finish(group, group.run_at)

    def _look_again(self, job: Job, now: float) -> None:
        """Say when a job whose pace has changed saves next, and ends."""
        if self.jobs.stores.save_share:
            self.jobs.stores.expect_save(job, now)
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
            self.kernel.at(job.looks_at, EventPriority.PHASE, self._on_look, job)

    def _on_look(self, job: Job, time: float) -> None:
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
            self.kernel.at(job.looks_at, EventPriority.PHASE, self._on_look, job)


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
        stretches = self.stretches.setdefault(job.index, [_Stretch(0.0, 0.0, 1.0 / job.spec.step_time)])
        last = stretches[-1]
        if abs(last.slope - slope) > _SAME * slope:
            stretches.append(_Stretch(job.work, last.steps + (job.work - last.work) * last.slope, slope))

    def roll_back(self, job: Job) -> None:
        """Forget the paces of work that a job has lost; it goes on at the pace that it has now."""
        stretches = self.stretches.get(job.index)
        if stretches is None:
            return
        while len(stretches) > 1 and stretches[-1].work >= job.work:
            stretches.pop()
        self.change(job)

    def done(self, job: Job) -> float:
        """Return the steps behind the work that a job has now [-]; 0 without the time of a step."""
        if job.spec.step_time <= 0:
            return 0.0
        stretches = self.stretches.get(job.index)
        if not stretches:
            return job.work / job.spec.step_time
        return stretches[-1].steps + (job.work - stretches[-1].work) * stretches[-1].slope


# ----------------------------------------
# Going back to a copy: what has happened to the nodes, what is lost, and how long the reading takes.

_NOT_MINDED: dict[Keeps, Damage] = {keeps: Damage(keeps) for keeps in get_args(Keeps)}

"""The damage as strategies see it that do not mind what has happened to the nodes."""

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
        # A replica hands its state to others, so there have to be some; one whose node started again has none.
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


# ----------------------------------------
# The store outside the nodes.


@dataclass(slots=True, eq=False)
class Transfer:
    """A restore or save: its remaining part and its pace."""

    owner: ReplicaGroup | Holder
    alone: float
    """The time that the nodes need at their own bandwidth [s]."""
    whole: float
    """The time that the store needs without other transfers [s]."""
    complete: Callable[[Transfer, float], None]
    """Goes on when it is complete."""
    saves: bool = False
    periodic: Job | None = None
    """The job whose periodic save it is."""
    left: float = 1.0
    speed: float = 0.0
    late: dict[int, float] = field(default_factory=dict)
    """By how much it is later than alone by now, by cause [s]."""


class SharedStores:
    """Lets transfers to and from the remote store share its bandwidth, each as fast as its own nodes can at most."""

    def __init__(self, jobs: JobPhases) -> None:
        self.jobs = jobs
        self.kernel = jobs.kernel
        plans = [job.checkpoint for job in jobs.all]
        shares = [plan.stores[0].save_share for plan in plans if isinstance(plan, MultiLevelCheckpoint)]
        shares += [plan.save_share for stream in jobs.prepared.streams for plan in stream.saves.values()]
        self.save_share = max(shares, default=0.0)
        """Share of the store that saves have together [-]; 0 where they are in nobody's way."""
        self.is_shared = len(jobs.all) > 1 or self.save_share > 0
        """Whether somebody else may read or write at the same time."""
        self.back = -math.inf
        """The time at which the stores outside the nodes can be read again [s]."""
        self.out_cause = 0
        """The last cause of their outage."""
        self.transfers: list[Transfer] = []
        self.since = 0.0
        self.epoch = 0
        self.due: dict[int, float] = {}
        """The time at which each job stops for its next save [s]."""
        self.cut: dict[int, float] = {}
        """The remaining part of a periodic save when its job stopped to step [-]."""
        if self.save_share:
            names = ["", *(source.name for source in jobs.prepared.sources)]
            self.contention = names.index(CONTENTION) if CONTENTION in names else 0

    def shares(self, job: Job, step: object) -> bool:
        """Return whether a step of a plan is a restore, or a save, that has to share its store."""
        if not self.is_shared:
            return False
        if type(step) is Save:
            return _shares(job)
        if type(step) is not Restore:
            return False
        restoration = job.restoration
        return restoration.store == "remote" and restoration.seconds > 0 and job.checkpoint.transfer[1] > 0

    def carry_out(self, group: ReplicaGroup, step: Restore | Save, now: float) -> bool:
        """Let a group restore or save: first what it does not share, such as reading in, then the transfer."""
        job = group.job
        saves = type(step) is Save
        bucket = Bucket.CHECKPOINT_STALL if saves else Bucket.RESTORE
        self.jobs.wait(group, [(bucket, math.inf)], now, exposed=step.exposed)
        seconds = job.checkpoint.save_time() if saves else self.jobs.restores.begin(job, now)
        transfer = Transfer(group, *job.checkpoint.transfer, partial(self._end_step, group), saves)
        before = seconds - self._alone(transfer)
        if before > 0:
            self.expect(now + before, transfer)
        else:
            self.begin(transfer, now)
        return True

    def transfer_of(self, owner: ReplicaGroup | Holder) -> Transfer | None:
        """Return what somebody saves or reads, if anything."""
        return next((transfer for transfer in self.transfers if transfer.owner is owner), None)

    def late_of(self, transfer: Transfer, now: float) -> dict[int, float]:
        """Return by how much a transfer is later than alone by now, by cause [s]."""
        late, passed = dict(transfer.late), now - self.since
        cause, part = self._lateness(transfer)
        if part and passed > 0:
            late[cause] = late.get(cause, 0.0) + part * passed
        return late

    def _lateness(self, transfer: Transfer) -> tuple[int, float]:
        """Return why a transfer is slower than alone at the moment, and the part of the time that this takes [-]."""
        cause = self.contention if transfer.speed else self.out_cause
        return cause, max(1.0 - transfer.speed * self._alone(transfer), 0.0)

    def forget(self, owner: ReplicaGroup | Holder, now: float) -> None:
        """Stop what somebody reads or writes; a periodic save that a step of a plan interrupts goes on after it."""
        transfer = self.transfer_of(owner)
        if transfer is not None:
            self._advance(now)
            if transfer.periodic is not None:
                self.cut[transfer.periodic.index] = transfer.left
            self.transfers = [transfer for transfer in self.transfers if transfer.owner is not owner]
            self._share(now)

    def go_out(self, until: float, cause: int, now: float) -> None:
        """Take the stores away."""
        if until <= self.back:
            return
        if self.save_share:
            self._advance(now)
        self.back, self.out_cause = until, cause
        if self.save_share:
            self._share(now)

    def _alone(self, transfer: Transfer) -> float:
        """Return how long a transfer takes if there is nobody else [s]."""
        return max(transfer.alone, transfer.whole / self.save_share if transfer.saves else transfer.whole)

    def expect(self, time: float, transfer: Transfer) -> None:
        """Begin a transfer at a time [s], when its owner has read in what it does not share."""
        self.kernel.unless_changed(time, EventPriority.PHASE, self._on_ready, transfer.owner, transfer)

    def _on_ready(self, owner: ReplicaGroup | Holder, transfer: Transfer, now: float) -> None:
        del owner
        self.begin(transfer, now)

    def begin(self, transfer: Transfer, now: float) -> None:
        """Let somebody begin to read or to write."""
        self._advance(now)
        self.transfers.append(transfer)
        self._share(now)

    def _advance(self, now: float) -> None:
        """Take off what has been transferred since the speeds last changed."""
        for transfer in self.transfers:
            if transfer.periodic is not None:
                self.jobs.settle(transfer.periodic.main, now)
            elif self.save_share:
                transfer.late = self.late_of(transfer, now)
            transfer.left = max(transfer.left - transfer.speed * (now - self.since), 0.0)
        self.since = now

    def _share(self, now: float) -> None:
        """Give everybody a speed, and wait for the first who is done."""
        self.epoch += 1
        if not self.transfers:
            return
        if self.save_share and now < self.back:
            for transfer in self.transfers:
                transfer.speed = 0.0
            end = self.back
        else:
            _fair_shares(self.transfers, 1.0)
            saves = [transfer for transfer in self.transfers if transfer.saves]
            used = sum(transfer.speed * transfer.whole for transfer in saves)
            if used > self.save_share:
                _fair_shares(saves, self.save_share)
                used = sum(transfer.speed * transfer.whole for transfer in saves)
                _fair_shares([transfer for transfer in self.transfers if not transfer.saves], 1.0 - used)
            end = now + min(transfer.left / transfer.speed for transfer in self.transfers)
        self.kernel.at(end, EventPriority.PHASE, self._on_end, self.epoch)
        for transfer in self.transfers:
            if transfer.periodic is not None:
                self._retime(transfer.periodic, transfer, now)

    def _on_end(self, epoch: int, now: float) -> None:
        """Let those go on that are done."""
        if epoch != self.epoch:
            return
        self._advance(now)
        done = [transfer for transfer in self.transfers if transfer.left <= _DONE]
        self.transfers = [transfer for transfer in self.transfers if transfer.left > _DONE]
        self._share(now)
        for transfer in done:
            transfer.complete(transfer, now)

    def _end_step(self, group: ReplicaGroup, transfer: Transfer, now: float) -> None:
        """Go on with the plan of a group whose restore or save is complete."""
        self.jobs.settle(group, now)
        if transfer.saves:
            group.job.saved_at = now
            self.jobs.failures.end_save(group.job, now)
        self.jobs.proceed(group, now)

    # ------------------------------------------------------------------------------------------- periodic saves

    def begin_run(self, job: Job, now: float) -> None:
        """Expect the next save of a job that begins to step; one that was interrupted, and is not void, goes on."""
        if not _shares(job):
            return
        checkpoint, state = _saving(job)
        if state.since[0] == 0 and checkpoint.stores[0].staggers:
            job.state = state = checkpoint.staggered(state, job.index / len(self.jobs.all), job.pace)
        left = self.cut.pop(job.index, 0.0)
        if checkpoint.drain and 0 in state.due:
            self.kernel.unless_changed(now + state.stall_left, EventPriority.PHASE, self._on_copied, job.main)
        elif left and checkpoint.saves_remotely(state):
            self._write(job, left, now)
        else:
            self.expect_save(job, now)

    def expect_save(self, job: Job, now: float) -> None:
        """Say when a job that steps, and is charged up to `now`, stops for its next save; one waits for the other."""
        if not _shares(job) or self.transfer_of(job.main) is not None:
            return
        checkpoint, state = _saving(job)
        due = self.due[job.index] = now + checkpoint.until_save(state, job.pace)
        self.kernel.at(due, EventPriority.PHASE, self._on_due, job)

    def late(self, group: ReplicaGroup, seconds: float) -> tuple[float, int]:
        """Return how much of a blocking save is longer than it would be alone [s], and why."""
        transfer = self.transfer_of(group)
        if transfer is None or transfer.periodic is None or _saving(group.job)[0].drain:
            return 0.0, 0
        cause, part = self._lateness(transfer)
        return seconds * part, cause

    def _on_due(self, job: Job, now: float) -> None:
        if self.due.get(job.index) != now or not job.main.running or self.transfer_of(job.main) is not None:
            return
        del self.due[job.index]
        self.jobs.settle(job.main, now)
        checkpoint, state = _saving(job)
        job.state = state = checkpoint.at_save(state, job.pace)
        if checkpoint.drain and state.stall_left > 0:
            self.kernel.unless_changed(now + state.stall_left, EventPriority.PHASE, self._on_copied, job.main)
            if job.stops_at < math.inf:
                self.jobs.paces.expect_finish(job.main, now)
        else:
            self._save(job, now)

    def _on_copied(self, main: ReplicaGroup, now: float) -> None:
        self.jobs.settle(main, now)
        self._save(main.job, now)

    def _save(self, job: Job, now: float) -> None:
        """Let a periodic save of a job begin to write."""
        checkpoint, state = _saving(job)
        if checkpoint.drain:
            job.state = checkpoint.taken(state, job.pace)
        self._write(job, 1.0, now)

    def _write(self, job: Job, left: float, now: float) -> None:
        """Begin to write a periodic save, of which so much is left [-]."""
        complete = partial(self._complete, job)
        self.begin(Transfer(job.main, *job.checkpoint.transfer, complete, saves=True, periodic=job, left=left), now)

    def _retime(self, job: Job, transfer: Transfer, now: float) -> None:
        """Tell a job when its save is complete, as things are."""
        if transfer.speed:
            left = transfer.left / transfer.speed
        else:
            left = self.back - now + transfer.left * self._alone(transfer)
        checkpoint, state = _saving(job)
        if checkpoint.drain:
            job.state = checkpoint.retimed(state, left)
        else:
            job.state = state._replace(stall_left=left + checkpoint.others(state, job.pace))
        if job.stops_at < math.inf:
            self.jobs.paces.expect_finish(job.main, now)

    def _complete(self, job: Job, transfer: Transfer, now: float) -> None:
        """End a periodic save, and wait for the next."""
        del transfer
        checkpoint, state = _saving(job)
        if checkpoint.drain:
            job.state = checkpoint.retimed(state, 0.0)
        else:
            left = checkpoint.others(state, job.pace)
            job.state = state._replace(stall_left=left) if left else checkpoint.taken(state, job.pace)
        self.expect_save(job, now)
        if job.stops_at < math.inf:
            self.jobs.paces.expect_finish(job.main, now)


def _shares(job: Job) -> bool:
    """Return whether the saves of a job are shared."""
    return isinstance(job.checkpoint, MultiLevelCheckpoint) and job.checkpoint.stores[0].save_share > 0


def _saving(job: Job) -> tuple[MultiLevelCheckpoint, LadderState]:
    """Return how a job saves whose saves are shared, and where it is in that."""
    assert isinstance(job.checkpoint, MultiLevelCheckpoint)
    assert isinstance(job.state, LadderState)
    return job.checkpoint, job.state


def _fair_shares(transfers: Sequence[Transfer], free: float) -> None:
    """Share out what is `free` of the store [-], the least demanding first."""
    ordered = sorted(transfers, key=lambda candidate: candidate.whole / max(candidate.alone, candidate.whole * _DONE))
    for index, transfer in enumerate(ordered):
        fair = free / (len(ordered) - index)
        transfer.speed = min(fair / transfer.whole, 1 / transfer.alone if transfer.alone > 0 else math.inf)
        free -= transfer.speed * transfer.whole


# ----------------------------------------
# The power of the site: caps and heat that lower the pace of jobs as time goes on, ramps, and what is drawn when.


class Power:
    """Lets a site go from level to level, and meters it where each level ends.

    A job that starts waits until the power of the facility has risen as far as it needs, one after another. What it
    draws on the way up, and what has to be burnt on the way down when it stops, are two triangles: together the
    difference of power times the length of a ramp.
    """

    def __init__(
        self, jobs: JobPhases, settle: Callable[[float], None], charged: Callable[[], NDArray[np.float64]]
    ) -> None:
        prepared = jobs.prepared
        self.jobs = jobs
        self.settle = settle
        """Charges everything up to a time [s]."""
        self.charged_by_bucket = charged
        """Gives what is charged so far, by bucket of the cluster [GPU s]."""
        self.upkeep = prepared.upkeep
        facility = self.upkeep.facility
        self.rise = 0.0 if facility is None else facility.node.training - facility.node.idle
        """Power that a node draws more when it steps [W], where that is known."""
        self.pue = 1.0 if facility is None else facility.pue
        self.meters = not prepared.has_queue
        self.level = self.upkeep.levels[0] if self.upkeep.levels else None
        causes = {source.name: index + 1 for index, source in enumerate(prepared.sources)}
        self.causes = [causes.get(level.cause, 0) for level in self.upkeep.levels]
        self.throttle = (self.level.pace, self.causes[0]) if self.level is not None else (1.0, 0)
        """Pace that caps and heat allow [-], and which of them."""
        self.ramps: list[tuple[float, ReplicaGroup, int]] = []
        """Until when which groups wait for power [s], and the epoch in which they do: a failure ends it."""
        self.ramped = 0.0
        """Energy of ramps that has not been metered [J]."""
        self.since = prepared.warmup
        self.charged = np.zeros(len(Bucket))
        """GPU-seconds by bucket up to the last reading [GPU s]."""
        self.drawn = EnergyMeter(np.zeros(len(Bucket)), 0.0, 0.0)
        for index, level in enumerate(self.upkeep.levels[1:], 1):
            if prepared.warmup + level.start < prepared.warmup + prepared.horizon:
                jobs.kernel.at(prepared.warmup + level.start, EventPriority.BOUNDARY, self._on_level, index)

    def ramp(self, job: Job, now: float) -> float:
        """Return when the power has risen for a job that is ready to step, after all who wait already [s]."""
        share = self.level.share if self.level is not None else 1.0
        risen = job.main.replicas * job.nodes_per_replica * share * self.rise
        seconds = risen * self.pue / self.upkeep.ramp
        self.ramped += risen * seconds
        self.ramps = [ramp for ramp in self.ramps if ramp[0] > now and ramp[1].epoch == ramp[2]]
        return max((end for end, _, _ in self.ramps), default=now) + seconds

    def _on_level(self, index: int, now: float) -> None:
        """Go to the next level: meter what was drawn, and let every job step as fast as it may now."""
        self.settle(now)
        self.read(now)
        level = self.level = self.upkeep.levels[index]
        self.throttle = (level.pace, self.causes[index])
        for job in self.jobs.all:
            if job.arrival <= now and math.isnan(job.end):
                self.jobs.paces.repace(job, now)

    def read(self, now: float) -> None:
        """Meter what was drawn at this level; all is charged up to `now`."""
        level, facility = self.level, self.upkeep.facility
        if level is None or facility is None or not self.meters:
            return
        total = self.charged_by_bucket()
        gpu_seconds = dict(zip(CLUSTER_BUCKETS, (total - self.charged).tolist(), strict=True))
        nodes = np.array(list(energy_by_bucket(gpu_seconds, facility.node, level.share).values()))
        nodes[Bucket.INITIALIZE] += self.ramped
        whole = (float(nodes.sum()) + (facility.network + facility.storage) * (now - self.since)) * facility.pue
        before = self.drawn
        self.drawn = EnergyMeter(
            before.nodes + nodes, before.carbon + whole * level.carbon, before.priced + whole * level.price
        )
        self.charged, self.since, self.ramped = total, now, 0.0

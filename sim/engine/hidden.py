"""The fabric: which of its parts are out, whom that cuts off, and how fast the others can still talk."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim.cluster.left import FabricState
from sim.engine.kernel import Order
from sim.engine.lives import Failure
from sim.engine.state_jobs import Taint
from sim.engine.state_nodes import Place
from sim.failures.trace import ROUNDS
from sim.policies.checkpoint import Periodic
from sim.policies.checkpoint.stores import whole
from sim.policies.contracts import Bucket, Run, Stall
from sim.scenario.laws import draw
from sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sim.cluster.left import Change
    from sim.engine.failures import Inside
    from sim.engine.kernel import Call
    from sim.engine.lives import SourceInfo
    from sim.engine.simulation import Simulation
    from sim.engine.state_jobs import Footprint, Job
    from sim.failures.planned import Rollout
    from sim.policies.contracts import Plan

# ----------------------------------------
# Nodes that are up and not well: slow ones, and those that compute wrongly.


class Condition:
    """One such fault: which nodes have it, and whether they still do."""

    __slots__ = ("bandwidth", "corrupts", "failure", "is_counted", "is_open", "nodes", "speed")

    def __init__(self, failure: Failure, nodes: tuple[int, ...]) -> None:
        effect = failure.info.source.effect
        self.failure = failure
        self.nodes = nodes
        self.speed = effect.speed
        self.bandwidth = effect.bandwidth_left
        self.corrupts = effect.kind in ("corrupt", "spike")
        self.is_open = True
        self.is_counted = False
        """Whether it has been counted as noticed, or as gone."""


class Conditions:
    """Slows jobs, taints their work, and turns a fault that is noticed into a failure."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.of_node: dict[int, list[Condition]] = {}
        """What is open on each node."""
        self.unnoticed = 0
        """Faults that have neither been noticed nor gone away."""

    def begin(self, failure: Failure, nodes: Sequence[int]) -> None:
        """Let nodes have a fault that does not stop them."""
        now = self.kernel.now
        up = tuple(node for node in nodes if not self.cluster.outages[node])
        condition = Condition(failure, up)
        self.unnoticed += 1
        jobs = self._settle(up, now)
        for node in up:
            self.of_node.setdefault(node, []).append(condition)
        for job in jobs:
            self.simulation.paces.respeed(job, now)
            if job.main.running:
                self.taint(job)
        self._expect(condition, now)

    def derail(self, job: Job, failure: Failure) -> None:
        """Let the loss of a job leave its course; if it does not step now, nothing has happened."""
        now = self.kernel.now
        main = job.main
        if not main.is_running(now):
            self.simulation.faults.counts.harmless += 1
            return
        self.simulation.groups.settle(main, now)
        condition = Condition(failure, ())
        self.unnoticed += 1
        sound = job.checkpoint.sound(job.state)
        wanted = job.work - failure.info.source.effect.undone
        if wanted < sound:
            sound = self._save_before(job, sound, wanted)
        job.taints.append(Taint(max(sound, 0.0), condition))
        self._expect(condition, now)

    @staticmethod
    def _save_before(job: Job, newest: float, work: float) -> float:
        """Return the most work in a save of some work or less [s], of saves a period apart with the `newest` known.

        A ladder of stores finds its copies itself.
        """
        if not isinstance(job.checkpoint, Periodic):
            return work
        spacing = job.checkpoint.stepping(job.pace) * job.pace.rate
        return newest - whole((newest - work) / spacing) * spacing

    def _expect(self, condition: Condition, now: float) -> None:
        """Arrange what comes first: the fault goes away by itself, or somebody notices."""
        failure = condition.failure
        effect = failure.info.source.effect
        heals = now + draw(effect.heal, failure.mark, "heals") if effect.heal is not None else math.inf
        noticing = failure.info.source.noticing
        noticed = now + noticing.draw(failure.mark) if noticing is not None else math.inf
        if heals < min(noticed, self.simulation.end):
            self.kernel.at(heals, Order.RETURN, self._on_healed, condition)
        elif noticed < self.simulation.end:
            self.kernel.at(noticed, Order.FAILURE, self._on_noticed, condition)

    def clear(self, node: int) -> None:
        """Forget what a node had before it was repaired."""
        if node not in self.of_node:
            return
        self._settle((node,), self.kernel.now)
        for condition in self.of_node.pop(node):
            condition.nodes = tuple(other for other in condition.nodes if other != node)
            if not condition.nodes:
                condition.is_open = False
                self.simulation.sources.renew(condition.failure)
                if not self._wronged(condition):
                    self._count(condition)

    def _close(self, condition: Condition) -> None:
        """Take a fault from its nodes; what was stepped so far was stepped with it."""
        self._settle(condition.nodes, self.kernel.now)
        condition.is_open = False
        for node in condition.nodes:
            mine = self.of_node[node]
            mine.remove(condition)
            if not mine:
                del self.of_node[node]

    def _is_first(self, condition: Condition) -> bool:
        """Return whether a fault that is noticed, or gone, has been neither before; from now on it has."""
        if condition.is_counted:
            return False
        condition.is_counted = True
        self.unnoticed -= 1
        return True

    def _count(self, condition: Condition) -> None:
        """Count a fault that went away before anybody noticed."""
        if self._is_first(condition):
            self.simulation.faults.counts.healed += 1

    def _on_healed(self, call: Call) -> None:
        condition: Condition = call.argument
        if condition.is_open:
            self._close(condition)
            self._count(condition)
            self.simulation.sources.renew(condition.failure)
            for job in self._settle(condition.nodes, self.kernel.now):
                self.simulation.paces.respeed(job, self.kernel.now)

    def _on_noticed(self, call: Call) -> None:
        """Stop the nodes that still have the fault, and the jobs whose work it made wrong.

        From now on it is a failure like others. Of nodes that are in repair for something else nothing more is asked.
        """
        condition: Condition = call.argument
        nodes = condition.nodes
        was_open = condition.is_open
        if was_open:
            self._close(condition)
        wronged = self._wronged(condition)
        if not wronged and not (was_open and nodes):
            self._count(condition)
            return
        for job in wronged:
            job.live = False
            for taint in job.taints:
                taint.is_known |= taint.condition is condition
            if not job.holding:
                # Its nodes are gone, but it will not start from a checkpoint that is wrong.
                self.simulation.restores.roll_back(job, "stores", reads=False)
        up = tuple(node for node in nodes if not self.cluster.outages[node])
        inside, outside = self.simulation.faults.find(up)
        groups = [job.main for job in wronged if job.holding]
        self._is_first(condition)
        self.simulation.faults.strike(condition.failure, up or nodes[:1], inside, outside, wronged=groups)

    # --------------------------------------------------------------------------------------------------- jobs

    def slowest(self, job: Job) -> tuple[float, int]:
        """Return the pace of the slowest node that steps with a job [-], and the cause; (1, 0) if none is slow."""
        speed, cause = 1.0, 0
        for node, conditions in self.of_node.items():
            if self._serves(node, job):
                for condition in conditions:
                    pace = job.pace_at(condition.bandwidth, condition.speed)
                    if pace < speed:
                        speed, cause = pace, condition.failure.info.cause
        return speed, cause

    def taint(self, job: Job) -> None:
        """Remember up to where the work of a job that steps from now on is sound.

        A save that is on its way was taken before, and so was one whose stall has begun.
        """
        for node, conditions in self.of_node.items():
            for condition in conditions:
                if condition.corrupts and self._serves(node, job):
                    sound = job.checkpoint.sound(job.state)
                    if all(taint.condition is not condition for taint in job.taints):
                        job.taints.append(Taint(sound, condition))

    def _wronged(self, condition: Condition) -> list[Job]:
        """Return the unfinished jobs that still have work which a fault made wrong."""
        if not condition.corrupts:
            return []
        jobs = self.simulation.jobs
        return [job for job in jobs if not job.finished and any(taint.condition is condition for taint in job.taints)]

    def _serves(self, node: int, job: Job) -> bool:
        """Return whether a node steps with the main group of a job."""
        return self.cluster.group[node] is job.main and job.holding

    def _settle(self, nodes: Sequence[int], now: float) -> list[Job]:
        """Charge the jobs whose main group nodes belong to, and return them."""
        jobs: list[Job] = []
        for node in nodes:
            group = self.cluster.group[node]
            if group is not None and self._serves(node, group.job) and group.job not in jobs:
                jobs.append(group.job)
                self.simulation.groups.settle(group, now)
        return jobs


# ----------------------------------------
# Bugs of a job's software: failures at a point of its work, again and again until they are mended.


class Bug:
    """The next bug of a job: where it waits [s of healthy work], and when it is mended [s]."""

    __slots__ = ("at", "attempts", "info", "mended", "met", "number")

    def __init__(self, info: SourceInfo, at: float) -> None:
        self.info = info
        self.at = at
        self.number = 0
        self.attempts = 0
        self.mended = float("inf")
        self.met = -1.0
        """When it last made the job fail [s]."""


class Bugs:
    """Keeps the bugs of every job in the order in which it will meet them."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.open: dict[int, list[Bug]] = {}

    def start(self) -> None:
        """Put the first bug of each source before each job."""
        for info in self.simulation.sources.infos:
            if info.source.fix is None or info.source.law is None:
                continue
            for job in self.simulation.jobs:
                bug = Bug(info, self.simulation.sources.life(info.index, job.index, 0))
                self.open.setdefault(job.index, []).append(bug)
        for job in self.simulation.jobs:
            self._expect(job)

    def _expect(self, job: Job) -> None:
        job.stops_at = min([job.target, *(bug.at for bug in self.open.get(job.index, ()))])

    def meet(self, job: Job, now: float) -> None:
        """Let a job, which has come to its next bug and is settled, pass it if it is mended, or fail."""
        bug = min(self.open[job.index], key=lambda each: each.at)
        if now >= bug.mended:
            bug.number += 1
            bug.attempts = 0
            bug.mended = float("inf")
            bug.at += self.simulation.sources.life(bug.info.index, job.index, bug.number)
            self._expect(job)
            self.simulation.paces.expect_finish(job.main, now)
            return
        if now <= bug.met * (1 + 1e-12):
            # Restarts that take no time (or no more than rounding makes of the work that a checkpoint does not hold)
            # would go on for ever; the next one is made with the mended program.
            job.main.cause = bug.info.cause
            self.simulation.groups.stop(job.main, now)
            self.simulation.groups.follow(job.main, (Stall(Bucket.RESCHEDULE, bug.mended - now), Run()), now)
            return
        bug.met = now
        failure = Failure(bug.info, job.index, bug.number + ROUNDS * bug.attempts)
        if not bug.attempts:
            assert bug.info.source.fix is not None
            bug.mended = now + draw(bug.info.source.fix, failure.mark, "fix")
        bug.attempts += 1
        self.simulation.faults.counts.candidates += 1
        self.simulation.faults.strike_job(failure)


# ----------------------------------------
# Rollouts: a change that is brought to the nodes, and the hazard that they have afterwards.


class _Progress:
    """How far one rollout has come."""

    __slots__ = ("changed", "failures", "info", "is_due", "is_stopped", "next", "pending", "plan", "visits")

    def __init__(self, info: SourceInfo, plan: Rollout) -> None:
        self.info = info
        self.plan = plan
        self.next = 0
        self.changed: set[int] = set()
        self.pending: set[int] = set()
        """Nodes that are due and wait for their job to be interrupted."""
        self.visits: dict[Job, tuple[float, list[int]]] = {}
        """Nodes that are changed within their job, and when that is done [s]."""
        self.is_due = False
        """Whether the canaries are watched as soon as all have been changed."""
        self.failures = 0
        """Failures of changed canaries, for the causes whose hazard changes."""
        self.is_stopped = False


class Rollouts:
    """Takes nodes out of service a few at a time, and knows which have been changed."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.all: list[_Progress] = []

    def start(self) -> None:
        """Arrange the first step of each rollout."""
        for info in self.simulation.sources.infos:
            plan = info.source.rollout
            if plan is not None:
                progress = _Progress(info, plan)
                self.all.append(progress)
                self._at(plan.start, self._on_step, progress)

    def _at(self, time: float, function: object, argument: object) -> None:
        if time < self.simulation.end:
            self.kernel.at(time, Order.FAILURE, function, argument)  # type: ignore[arg-type]

    def hazard(self, info: SourceInfo, node: int) -> float:
        """Return the hazard of a node for a cause relative to the stated one [-]."""
        hazard = 1.0
        for progress in self.all:
            ratio = progress.plan.hazard.get(info.source.name)
            if ratio is not None and node in progress.changed:
                hazard *= ratio
        return hazard

    def note(self, info: SourceInfo, node: int) -> None:
        """Count a failure of a changed node, for those who watch the canaries."""
        for progress in self.all:
            if info.source.name in progress.plan.hazard and node in progress.changed:
                progress.failures += 1

    # -------------------------------------------------------------------------------------------------- steps

    def _on_step(self, call: Call) -> None:
        """Change the next nodes, and arrange what follows."""
        progress: _Progress = call.argument
        if progress.is_stopped or progress.next >= self.cluster.nodes:
            return
        plan = progress.plan
        now = self.kernel.now
        first = progress.next
        canaries = plan.canary.nodes if plan.canary is not None else 0
        last = first + plan.batch
        if first < canaries:
            last = min(last, canaries)
        nodes = tuple(range(first, min(last, self.cluster.nodes)))
        progress.next = nodes[-1] + 1
        self._change(progress, nodes)
        if progress.next == canaries:
            progress.is_due = True
            self._watch(progress, now + plan.duration)
        else:
            self._at(now + len(nodes) * DAY / plan.nodes_per_day, self._on_step, progress)

    def _watch(self, progress: _Progress, start: float) -> None:
        """Watch the canaries from `start` [s] on, if all have been changed by then."""
        if progress.is_due and not progress.pending:
            assert progress.plan.canary is not None
            progress.is_due = False
            self._at(start + progress.plan.canary.soak, self._on_soaked, progress)

    def _on_soaked(self, call: Call) -> None:
        """Go on if the canaries are well, or take the change back."""
        progress: _Progress = call.argument
        canary = progress.plan.canary
        assert canary is not None
        if progress.failures <= canary.tolerates:
            self._on_step(call)
            return
        progress.is_stopped = True
        back = tuple(sorted(progress.changed))
        progress.changed.clear()
        progress.pending.clear()
        progress.visits.clear()
        self._take_out(progress, back, ROLLBACK)

    def _change(self, progress: _Progress, nodes: tuple[int, ...]) -> None:
        """Change nodes now, or at the next interruption of their job."""
        now_nodes = []
        for node in nodes:
            group = self.cluster.group[node]
            if progress.plan.mode == "at_interruption" and group is not None and group.job.holding:
                progress.pending.add(node)
            else:
                now_nodes.append(node)
        progress.changed.update(now_nodes)
        self._take_out(progress, tuple(now_nodes), 0)

    def _take_out(self, progress: _Progress, nodes: tuple[int, ...], number: int) -> None:
        """Take nodes out of service; what is down anyway is changed there."""
        up = tuple(node for node in nodes if not self.cluster.outages[node])
        if not up:
            return
        faults = self.simulation.faults
        counts = faults.counts
        counts.candidates += 1
        counts.faults += 1
        failure = Failure(progress.info, up[0], number)
        inside, outside = faults.find(up)
        faults.strike(failure, up, inside, outside, self.kernel.now + progress.plan.duration)

    def visit(self, job: Job, plan: Plan, start: float) -> Plan:
        """Return the plan of an interrupted job that begins at `start` [s], with the change of its nodes before it."""
        stalls: list[Stall] = []
        for progress in self.all:
            done, nodes = progress.visits.pop(job, (0.0, []))
            if self.kernel.now < done:
                # A change that is cut short begins again.
                progress.changed.difference_update(nodes)
                progress.pending.update(nodes)
            due = [node for node in progress.pending if self._belongs(node, job)]
            if due:
                progress.pending.difference_update(due)
                progress.changed.update(due)
                stalls.append(Stall(Bucket.MAINTENANCE, progress.plan.duration))
                start += progress.plan.duration
                progress.visits[job] = (start, due)
                self._watch(progress, start)
        self.change_free()
        return (*stalls, *plan)

    def change_free(self) -> None:
        """Change nodes that have left the job whose interruption they waited for."""
        for progress in self.all:
            free = [node for node in progress.pending if not self._is_held(node)]
            if free:
                progress.pending.difference_update(free)
                progress.changed.update(free)
                self._take_out(progress, tuple(sorted(free)), 0)
                self._watch(progress, self.kernel.now + progress.plan.duration)

    def _belongs(self, node: int, job: Job) -> bool:
        group = self.cluster.group[node]
        return group is not None and group.job is job and job.holding

    def _is_held(self, node: int) -> bool:
        group = self.cluster.group[node]
        return group is not None and group.job.holding


ROLLBACK = 1

"""Number of the outages in which a change is taken back."""


class Fabric:
    """Lets parts of the fabric fail and return.

    A node that loses its last path is down until it has one again, whichever part gives it back; a node that keeps
    some is only slower, and so is the job on it. Where a fabric falls into pieces, the largest one is the cluster: a
    failure that makes another piece the largest gives nodes back, and so does a repair cut some off.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        network = simulation.prepared.network
        self.state = FabricState(network.paths) if network is not None and network.paths is not None else None
        self.out: list[Failure] = []
        """Failures of parts that are out, newest last."""
        self.blamed: dict[int, tuple[float, Failure]] = {}
        """For each job that is slow, by its number: the bandwidth that is left, and who brought it down to that."""

    # ------------------------------------------------------------------------------------------------ events

    def fail(self, failure: Failure, until: float) -> None:
        """Let a part fail; a window says `until` when [s], else the repair takes its time.

        What is out already is not hit again, but a window of planned work keeps it out until it closes.
        """
        faults = self.simulation.faults
        info = failure.info
        now = self.kernel.now
        assert self.state is not None
        if self.state.is_out(info.source.part, failure.slot) and not (info.source.planned and until > now):
            faults.count(hits=False, outside=False, masked=True)
            self.simulation.sources.renew(failure)
            return
        change = self._take_out(failure)
        inside, outside = faults.find(change.cut)
        faults.count(hits=bool(inside), outside=bool(outside), masked=bool(change.cut), degraded=True)
        returned = False
        latency = faults.detect(failure) if inside else 0.0
        if math.isnan(until):
            repair = info.repair if isinstance(info.repair, float) else info.repair(failure.mark("repair"))
            until = now + latency + repair if repair > 0 else now
        if until > now:
            faults.repairs[info.cause] += 1
            self._take_down(failure, change.cut, outside)
            returned = self._let_return(change.restored, now)
            self.kernel.at(until, Order.RETURN, self._on_mended, failure)
            self._respeed(now)
        else:
            self._put_back(failure)
            self.simulation.sources.renew(failure)
        if inside:
            faults.tell(failure, inside, latency)
        if returned:
            self.simulation.serve(now)

    def start_out(self, failure: Failure, remaining: float) -> None:
        """Begin the simulation with a part in repair for `remaining` [s]."""
        cut, restored = self._take_out(failure)
        out = (Place.REPAIR, Place.WITHHELD)
        self._take_down(failure, cut, [node for node in cut if self.cluster.place[node] not in out])
        self._let_return(restored, 0.0)
        self.kernel.at(remaining, Order.RETURN, self._on_mended, failure)

    def _on_mended(self, call: Call) -> None:
        failure: Failure = call.argument
        now = self.kernel.now
        change = self._put_back(failure)
        inside: Inside = []
        if change.cut:
            # The newest of the parts that are still out strikes once more.
            faults, blamed = self.simulation.faults, self.out[-1]
            inside, outside = faults.find(change.cut)
            faults.counts.candidates += 1
            faults.counts.faults += 1
            faults.count(hits=bool(inside), outside=bool(outside), masked=True)
            self._take_down(blamed, change.cut, outside)
        returned = self._let_return(change.restored, now)
        self.simulation.sources.renew(failure)
        self._respeed(now)
        if inside:
            faults.tell(blamed, inside, faults.detect(blamed))
        if returned:
            self.simulation.serve(now)

    def _take_out(self, failure: Failure) -> Change:
        """Note that a part is out; return whom this cuts off, and who has a path again."""
        assert self.state is not None
        self._settle()
        self.out.append(failure)
        return self.state.fail(failure.info.source.part, failure.slot)

    def _put_back(self, failure: Failure) -> Change:
        """Note that a part is back; return whom this cuts off, and who has a path again."""
        assert self.state is not None
        self._settle()
        self.out.remove(failure)
        return self.state.mend(failure.info.source.part, failure.slot)

    def _take_down(self, failure: Failure, cut: Sequence[int], outside: Sequence[int]) -> None:
        """Take nodes down that are cut off; those of jobs stay at their places until the job knows."""
        now = self.kernel.now
        info = failure.info
        for node in cut:
            self.simulation.outages.take_down(node, now, info.cause)
        for node in outside:
            self.simulation.faults.leave_block(node, now)
            self.cluster.send_to_repair(node, info.cause, now, info.bucket)

    def _let_return(self, restored: Sequence[int], now: float) -> bool:
        """End the outages of nodes that have a path again; return whether that brings one back."""
        returned = False
        for node in restored:
            returned |= self.simulation.outages.close(node, now)
        return returned

    # -------------------------------------------------------------------------------------------------- jobs

    def _settle(self) -> None:
        """Let jobs step whose waiting has ended: they began with the fabric as it was."""
        now = self.kernel.now
        for job in self.simulation.jobs:
            if job.holding and job.footprint is not None and job.main.run_at <= now:
                self.simulation.groups.settle(job.main, now)

    def _respeed(self, now: float) -> None:
        """Let the jobs step at the pace that the fabric now allows."""
        for job in self.simulation.jobs:
            if job.holding and job.footprint is not None:
                self.simulation.paces.follow(job, now)

    def pace(self, job: Job) -> tuple[float, int]:
        """Return the pace that a job's network and its slowest pool allow, relative to its plan [-], and the cause.

        The cause is 0 where the job would be as slow with all parts of the fabric back.
        """
        if job.footprint is None:
            return 1.0, 0
        footprint = self._of_main(job, job.footprint)
        pace = 1.0
        if len(footprint.pools) > 1:
            paces = zip(job.pool_paces, footprint.pools, strict=True)
            pace = min((speed for speed, nodes in paces if nodes), default=1.0)
        if not job.waits:
            return pace, 0
        bandwidth = footprint.network.bandwidth[footprint.level] / job.planned_bandwidth
        pace = min(pace, job.pace_at(bandwidth))
        if self.state is None or self.state.is_whole:
            return pace, 0
        left = self.state.share(footprint.presence, self._holds(job), footprint.reach)
        # With none left some nodes are cut off, and the job is about to stop.
        slowed = job.pace_at(bandwidth * left) if left > 0 else pace
        return (slowed, self._culprit(job, footprint, left)) if slowed < pace else (pace, 0)

    def _of_main(self, job: Job, footprint: Footprint) -> Footprint:
        """Return where the nodes sit that step together: those of replicas that are away do not."""
        if not job.away:
            return footprint
        width = job.nodes_per_replica
        seats = (job.nodes[group.first : group.first + width] for group in job.away)
        return footprint.without(node for nodes in seats for node in nodes if node >= 0)

    def _holds(self, job: Job) -> Callable[[int], bool]:
        """Return who tells whether the main group of a job holds a node."""
        group_of, main = self.cluster.group, job.main
        return lambda node: group_of[node] is main

    def _culprit(self, job: Job, footprint: Footprint, left: float) -> int:
        """Return the cause of the failure that brought the bandwidth of a job down to the share that is left of it.

        When that part is back, it is the newest of the others that take bandwidth from the job.
        """
        known = self.blamed.get(job.index)
        if known is None or known[0] != left or known[1] not in self.out:
            known = self.blamed[job.index] = left, self._newest(job, footprint, left)
        return known[1].info.cause

    def _newest(self, job: Job, footprint: Footprint, left: float) -> Failure:
        """Return the newest failure that takes bandwidth from a job, of which a share is `left` [-]."""
        assert self.state is not None
        presence, holds, reach = footprint.presence, self._holds(job), footprint.reach
        for failure in reversed(self.out):
            if self.state.hurts(failure.info.source.part, failure.slot, presence, holds, reach):
                return failure
        # It cuts off whole switches, behind which the others cannot see it: try what each would give back.
        for failure in reversed(self.out):
            unit = failure.info.source.part, failure.slot
            self.state.mend(*unit)
            without = self.state.share(presence, holds, reach)
            self.state.fail(*unit)
            if without > left:
                return failure
        return self.out[-1]

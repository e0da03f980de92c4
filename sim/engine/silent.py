"""Faults that are not detected at once: nodes that are slow or compute wrongly, hidden faults, and bugs of jobs."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ettrick.sim import rng
from ettrick.sim.engine.holders import SilentFault, Taint
from ettrick.sim.engine.kernel import EventPriority, order_of
from ettrick.sim.engine.lives import RELAPSE, FailureEvent, Lifetime
from ettrick.sim.failures.trace import PARTS, ROUNDS, first_onsets, hidden_at_start
from ettrick.sim.policies.checkpoint import Periodic
from ettrick.sim.policies.checkpoint.stores import whole
from ettrick.sim.scenario.laws import draw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ettrick.sim.engine.failures import Failures
    from ettrick.sim.engine.holders import Job
    from ettrick.sim.engine.lives import SourceInfo
    from ettrick.sim.scenario.law_model import LawModel

# ----------------------------------------
# Silent faults: nodes that go on, slowly or wrongly, until somebody notices.


class SilentFaults:
    """Slows jobs, taints their work, and turns a fault that is noticed into a failure."""

    def __init__(self, failures: Failures) -> None:
        self.failures = failures
        self.kernel = failures.kernel
        self.cluster = failures.cluster
        self.of_node: dict[int, list[SilentFault]] = {}
        """The open faults of each node."""
        self.unnoticed = 0
        """Faults that have neither been noticed nor gone away."""

    def begin(self, failure: FailureEvent, nodes: Sequence[int]) -> None:
        """Let nodes have a fault that does not stop them."""
        now = self.kernel.now
        up = tuple(node for node in nodes if not self.cluster.outages[node])
        fault = SilentFault(failure, up)
        self.unnoticed += 1
        jobs = self._settle(up, now)
        for node in up:
            self.of_node.setdefault(node, []).append(fault)
        for job in jobs:
            self.failures.jobs.paces.respeed(job, now)
            if job.main.running:
                self.taint(job)
        self._expect(fault, now)

    def derail(self, job: Job, failure: FailureEvent) -> None:
        """Let the loss of a job leave its course; if it does not step now, nothing has happened."""
        now = self.kernel.now
        main = job.main
        if not main.is_running(now):
            self.failures.counts.harmless += 1
            return
        self.failures.jobs.settle(main, now)
        fault = SilentFault(failure, ())
        self.unnoticed += 1
        sound = job.checkpoint.sound(job.state)
        wanted = job.work - failure.info.source.effect.undone
        if wanted < sound:
            sound = self._save_before(job, sound, wanted)
        job.taints.append(Taint(max(sound, 0.0), fault))
        self._expect(fault, now)

    @staticmethod
    def _save_before(job: Job, newest: float, work: float) -> float:
        """Return the most work in a save of some work or less [s], of saves a period apart with the `newest` known.

        A ladder of stores finds its copies itself.
        """
        if not isinstance(job.checkpoint, Periodic):
            return work
        spacing = job.checkpoint.stepping(job.pace) * job.pace.rate
        return newest - whole((newest - work) / spacing) * spacing

    def _expect(self, fault: SilentFault, now: float) -> None:
        """Arrange what comes first: the fault goes away by itself, or somebody notices."""
        failure = fault.failure
        effect = failure.info.source.effect
        heals = now + draw(effect.heal, failure.mark, "heals") if effect.heal is not None else math.inf
        detection_race = failure.info.source.detection_race
        noticed = now + detection_race.draw(failure.mark) if detection_race is not None else math.inf
        if heals < min(noticed, self.failures.end):
            self.kernel.at(heals, EventPriority.RETURN, self._on_healed, fault)
        elif noticed < self.failures.end:
            self.kernel.at(noticed, EventPriority.FAILURE, self._notice, fault)

    def clear(self, node: int) -> None:
        """Forget what a node had before it was repaired."""
        if node not in self.of_node:
            return
        self._settle((node,), self.kernel.now)
        for fault in self.of_node.pop(node):
            fault.nodes = tuple(member for member in fault.nodes if member != node)
            if not fault.nodes:
                fault.is_open = False
                self.failures.renewals.renew(fault.failure)
                if not self._wronged(fault):
                    self._count(fault)

    def _close(self, fault: SilentFault, now: float) -> None:
        """Take a fault from its nodes; what was stepped so far was stepped with it."""
        self._settle(fault.nodes, now)
        fault.is_open = False
        for node in fault.nodes:
            faults = self.of_node[node]
            faults.remove(fault)
            if not faults:
                del self.of_node[node]

    def _is_first(self, fault: SilentFault) -> bool:
        """Return whether a fault that is noticed, or gone, has been neither before; from now on it has."""
        if fault.is_counted:
            return False
        fault.is_counted = True
        self.unnoticed -= 1
        return True

    def _count(self, fault: SilentFault) -> None:
        """Count a fault that went away before anybody noticed."""
        if self._is_first(fault):
            self.failures.counts.healed += 1

    def _on_healed(self, fault: SilentFault, now: float) -> None:
        if fault.is_open:
            self._close(fault, now)
            self._count(fault)
            self.failures.renewals.renew(fault.failure)
            for job in self._settle(fault.nodes, now):
                self.failures.jobs.paces.respeed(job, now)

    def found_before(self, node: int) -> list[Callable[[float], None]]:
        """Return what a check of a node before it joins a job finds."""
        faults = self.of_node.get(node, ())
        return [functools.partial(self._notice, fault) for fault in faults if fault.failure.is_found_before]

    def _notice(self, fault: SilentFault, now: float) -> None:
        """Stop the nodes that still have the fault, and the jobs whose work it made wrong.

        From now on it is a failure like others. Of nodes that are in repair for something else nothing more is asked.
        """
        nodes = fault.nodes
        was_open = fault.is_open
        if was_open:
            self._close(fault, now)
        wronged = self._wronged(fault)
        if not wronged and not (was_open and nodes):
            self._count(fault)
            return
        for job in wronged:
            job.live = False
            for taint in job.taints:
                taint.is_known |= taint.fault is fault
            if not job.holding:
                # Its nodes are gone, but it will not start from a checkpoint that is wrong.
                self.failures.jobs.restores.roll_back(job, "stores", reads=False)
        up = tuple(node for node in nodes if not self.cluster.outages[node])
        inside, outside = self.failures.find(up)
        groups = [job.main for job in wronged if job.holding]
        self._is_first(fault)
        self.failures.strike(fault.failure, up or nodes[:1], inside, outside, wronged=groups)

    # --------------------------------------------------------------------------------------------------- jobs

    def slowest(self, job: Job) -> tuple[float, int]:
        """Return the pace of the slowest node that steps with a job [-], and the cause; (1, 0) if none is slow."""
        speed, cause = 1.0, 0
        for node, faults in self.of_node.items():
            if self._serves(node, job):
                for fault in faults:
                    pace = job.pace_at(fault.bandwidth, fault.speed)
                    if pace < speed:
                        speed, cause = pace, fault.failure.info.cause
        return speed, cause

    def taint(self, job: Job) -> None:
        """Remember up to where the work of a job that steps from now on is sound.

        A save that is on its way was taken before, and so was one whose stall has begun.
        """
        for node, faults in self.of_node.items():
            for fault in faults:
                if fault.corrupts and self._serves(node, job):
                    sound = job.checkpoint.sound(job.state)
                    if all(taint.fault is not fault for taint in job.taints):
                        job.taints.append(Taint(sound, fault))

    def _wronged(self, fault: SilentFault) -> list[Job]:
        """Return the unfinished jobs that still have work which a fault made wrong."""
        if not fault.corrupts:
            return []
        jobs = self.failures.jobs.all
        return [job for job in jobs if not job.finished and any(taint.fault is fault for taint in job.taints)]

    def _serves(self, node: int, job: Job) -> bool:
        """Return whether a node steps with the main group of a job."""
        return self.cluster.group[node] is job.main and job.holding

    def _settle(self, nodes: Sequence[int], now: float) -> list[Job]:
        """Charge the jobs whose main group nodes belong to, and return them."""
        jobs: list[Job] = []
        for node in nodes:
            group = self.cluster.group[node]
            # What is slow or wrong on nodes of streams does nothing to their jobs until it is noticed.
            if group is not None and group.replans and self._serves(node, group.job) and group.job not in jobs:
                jobs.append(group.job)
                self.failures.jobs.settle(group, now)
        return jobs


# ----------------------------------------
# Hidden faults: what a repair left in a node, or what it had from the beginning, until a repair removes it.

ONSET = 1 << 30
"""Between the numbers of the first lives of hidden faults that a node catches one after another."""


class HiddenFaults:
    """Keeps the lives of hidden faults, on the wall clock or on the busy clock of their node."""

    def __init__(self, failures: Failures) -> None:
        self.failures = failures
        self.kernel = failures.kernel
        self.open: dict[int, list[Lifetime]] = {}
        """Hidden faults of each node."""
        self.dormant: dict[int, set[int]] = {}
        """By source, nodes that have its fault from the start, which would strike after the end."""
        self.keys: dict[int, int] = {}
        """By source, the key of the times at which nodes catch its fault."""
        self.parked: dict[int, list[Lifetime]] = {}
        """The lives that came due while their node was down."""

    def start(self, info: SourceInfo, node: int, seconds: float, number: int = 0) -> None:
        """Give a node a hidden fault that strikes after `seconds`, at the start or when it catches one."""
        self._begin(Lifetime(node, info.index, node, number, seconds), seconds, self.kernel.now)

    def start_onsets(self) -> None:
        """Arrange when nodes without a hidden fault catch it, once the faults of the trace have been handed over."""
        for info in self.failures.infos:
            hidden = info.source.hidden
            if hidden is None:
                continue
            # Nodes that have the fault cannot catch another.
            waiting = (node for node, lives in self.open.items() if any(life.source == info.index for life in lives))
            having = np.flatnonzero(hidden_at_start(info.source, *info.prefix)).tolist()
            self.dormant[info.index] = set(having).difference(waiting)
            for node in self.dormant[info.index]:
                self._look(Lifetime(node, info.index, node, 0, math.inf), self.kernel.now)
            if hidden.onset is None:
                continue
            key = self.keys[info.index] = rng.stream(*info.prefix, "onset", info.source.name)
            for node, time in first_onsets(info.source, key, self.failures.end):
                self._at_onset(info, hidden.onset, node, 0, time)

    def _at_onset(self, info: SourceInfo, onset: LawModel, node: int, number: int, time: float) -> None:
        if time < self.failures.end:
            self.kernel.at(time, EventPriority.FAILURE, self._on_onset, info, onset, node, number)

    def _on_onset(self, info: SourceInfo, onset: LawModel, node: int, number: int, now: float) -> None:
        has_it = any(life.source == info.index for life in self.open.get(node, ()))
        if not has_it and node not in self.dormant[info.index]:
            first = (number + 1) * ONSET
            self.start(info, node, info.lives.get(node, first), first)
        u = rng.uniform_one(self.keys[info.index], node, number + 1)
        self._at_onset(info, onset, node, number + 1, now + onset.ppf_one(u))

    # ------------------------------------------------------------------------------------------------- lives

    def remain(self, node: int, failure: FailureEvent, now: float) -> None:
        """Leave the fault behind a failure in its node: it strikes again."""
        residue = failure.info.source.residue
        if residue is None:
            return
        slot, number = failure.slot, failure.round
        if not failure.info.divisor and number < RELAPSE:
            # One of the nodes that an incident took: it strikes again alone, and its slot is the node.
            slot, number = node, number * PARTS + slot
        number += RELAPSE
        after = self._after(failure.info, residue.after, slot, number)
        self._begin(Lifetime(node, failure.info.index, slot, number, after), after, now)

    def _after(self, info: SourceInfo, law: LawModel, slot: int, number: int) -> float:
        """Return how long a fault that a repair left takes to strike again [s]."""
        numbers = info.numbers.get("relapse after") or info.numbers_for("relapse after")
        return law.ppf_one(numbers.get(slot, number))

    def _begin(self, life: Lifetime, seconds: float, now: float) -> None:
        """Let a hidden fault strike after `seconds` of its clock."""
        self.open.setdefault(life.node, []).append(life)
        info = self.failures.infos[life.source]
        self._look(life, now)
        if info.source.clock == "busy":
            self.failures.lives.begin(life, seconds, now)
        elif now + seconds < self.failures.end:
            self.kernel.at(now + seconds, order_of(life.source, life.slot), self._on_due, life, life.token)

    def _look(self, life: Lifetime, now: float) -> None:
        """Arrange when a check of the nodes finds a fault, if one ever does: with the next one anywhere ahead."""
        info = self.failures.infos[life.source]
        share, every = info.source.checked
        failure = FailureEvent(info, life.slot, life.round)
        if share and (share >= 1 or failure.mark("check finds") < share):
            self.kernel.at(now + failure.mark("check") * every, EventPriority.FAILURE, self._find, life)

    def _find(self, life: Lifetime, now: float) -> None:
        """Drain a node whose fault a check has found before it struck, unless it is in repair or cured."""
        node = life.node
        if self.failures.cluster.outages[node]:
            return
        if life in self.open.get(node, ()):
            self.failures.lives.void(life)
            self.strike(life, now, is_found=True)
        elif node in self.dormant.get(life.source, ()):
            self.failures.occur(self.failures.infos[life.source], life.slot, life.round, is_found=True)

    def found_before(self, node: int) -> list[Callable[[float], None]]:
        """Return what a check of a node before it joins a job finds."""
        lives = [*self.open.get(node, ())]
        for source, nodes in self.dormant.items():
            if node in nodes:
                lives.append(Lifetime(node, source, node, 0, math.inf))
        infos = self.failures.infos
        hidden = (life for life in lives if FailureEvent(infos[life.source], life.slot, life.round).is_found_before)
        return [functools.partial(self._find, life) for life in hidden]

    def _on_due(self, life: Lifetime, token: int, now: float) -> None:
        if life.token == token:
            self.strike(life, now)

    def strike(self, life: Lifetime, now: float, *, is_found: bool = False) -> None:
        """Let a hidden fault make its node fail, or be drained because the fault is found."""
        node = life.node
        if self.failures.cluster.outages[node]:
            self.parked.setdefault(node, []).append(life)
            return
        info = self.failures.infos[life.source]
        lives = self.open[node]
        lives.remove(life)
        if life.round >= RELAPSE:
            self.failures.counts.relapses += 1
            self.failures.occur(info, life.slot, life.round, is_found=is_found)
            return
        following = Lifetime(node, life.source, life.slot, life.round + 1, 0.0)
        self._begin(following, info.lives.get(life.slot, life.round + 1), now)
        self.failures.occur(info, life.slot, life.round, is_found=is_found)

    def resume(self, node: int, now: float) -> None:
        """Let hidden faults that came due while their node was down strike some time after its return."""
        for life in self.parked.pop(node, ()):
            if life in self.open.get(node, ()):
                self.open[node].remove(life)
                info = self.failures.infos[life.source]
                residue = info.source.residue
                if residue is not None and life.round >= RELAPSE:
                    number = life.round + RELAPSE
                    seconds = self._after(info, residue.after, life.slot, number)
                else:
                    number = life.round + 1
                    seconds = info.lives.get(life.slot, number)
                self._begin(Lifetime(node, life.source, life.slot, number, 0.0), seconds, now)

    def clear(self, node: int) -> None:
        """Forget the hidden faults of a node that has been repaired."""
        for life in self.open.pop(node, ()):
            self.failures.lives.void(life)
        for nodes in self.dormant.values():
            nodes.discard(node)


# ----------------------------------------
# Bugs of a job's software: failures at a point of its work, again and again until they are mended.


@dataclass(slots=True, eq=False)
class PendingBug:
    """The next bug of a job: where it waits, and when it is mended."""

    info: SourceInfo
    fix: LawModel
    at: float
    """Work at which the job meets it [s]."""
    number: int = 0
    attempts: int = 0
    mended: float = math.inf
    """The time of its repair [s]."""
    met: float = -1.0
    """The time of the last failure that it caused [s]."""


class Bugs:
    """Keeps the bugs of every job in the order in which it will meet them."""

    def __init__(self, failures: Failures) -> None:
        self.failures = failures
        self.open: dict[int, list[PendingBug]] = {}

    def start(self) -> None:
        """Put the first bug of each source before each job."""
        for info in self.failures.infos:
            fix = info.source.fix
            if fix is None or info.source.law is None:
                continue
            for job in self.failures.jobs.all:
                bug = PendingBug(info, fix, info.lives.get(job.index, 0))
                self.open.setdefault(job.index, []).append(bug)
        for job in self.failures.jobs.all:
            self._expect(job)

    def _expect(self, job: Job) -> None:
        job.stops_at = min([job.target, *(bug.at for bug in self.open.get(job.index, ()))])

    def meet(self, job: Job, now: float) -> None:
        """Let a job, which has come to its next bug and is settled, pass it if it is mended, or fail."""
        bug = min(self.open[job.index], key=lambda candidate: candidate.at)
        if now >= bug.mended:
            bug.number += 1
            bug.attempts = 0
            bug.mended = math.inf
            bug.at += bug.info.lives.get(job.index, bug.number)
            self._expect(job)
            self.failures.jobs.paces.expect_finish(job.main, now)
            return
        if now <= bug.met * (1 + 1e-12):
            # Restarts that take no time (or no more than rounding makes of the work that a checkpoint does not hold)
            # would go on for ever; the next one is made with the mended program.
            self.failures.jobs.hold(job, bug.info.cause, bug.mended - now, now)
            return
        bug.met = now
        failure = FailureEvent(bug.info, job.index, bug.number + ROUNDS * bug.attempts)
        if not bug.attempts:
            bug.mended = now + draw(bug.fix, failure.mark, "fix")
        bug.attempts += 1
        self.failures.counts.candidates += 1
        self.failures.strike_job(failure)

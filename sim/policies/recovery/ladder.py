"""Ladder: recovery strategies from the quickest to the most thorough, each with a budget, then operator escalation."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from ettrick.sim.policies.contracts import ANY_POOL, Acquire, Bucket, Evict, Requeue, Restore, Run
from ettrick.sim.policies.recovery.base import (
    QUEUE,
    RecoveryPath,
    RecoveryStrategy,
    RestartPhase,
    SampledTime,
    SpareWait,
    spans,
)
from ettrick.sim.policies.recovery.phases import (
    Fault,
    Participants,
    Phases,
    Pools,
    back_to_queue,
    exposures,
    mean,
    some,
    steps,
)
from ettrick.sim.scenario.fields import Duration, Model, default
from ettrick.sim.scenario.laws import Fixed, Law

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ettrick.sim.policies.contracts import ClusterView, Exposure, FailureView, JobView, Keeps, Memory, Plan, Step
    from ettrick.sim.policies.recovery.base import ExpectedFailure
    from ettrick.sim.policies.recovery.phases import Held
    from ettrick.sim.scenario.fields import BrokenRules


class Backoff(Model):
    """A delay that doubles with every try in a row."""

    first: Duration = Field(gt=0, description="Delay of the first try.")
    most: Duration = Field(gt=0, description="Longest delay.")

    def seconds(self, tries: int) -> float:
        """Return the delay of a try, counted from 1 [s]: first x 2^(tries - 1), at most the longest one."""
        return min(self.first * 2.0 ** min(tries - 1, 1000), self.most)


class Eviction(Model):
    """Healthy nodes that leave with the suspects, because it is unknown which one it is."""

    faults: tuple[Fault, ...] = Field(min_length=1, description="Classes of faults after which nodes are evicted.")
    nodes: int = Field(ge=1, description="Nodes that leave together, with the suspect among them.")
    test: Duration = Field(description="How long the healthy ones are tested before they may work again.")


class Rung(Model):
    """A recovery strategy of the ladder."""

    name: str = Field(min_length=1, description="Name: in-process, in-job, requeue, ...")
    keeps: Literal["processes", "hosts", "nothing"] = Field(
        description="Parts of the job that are left: its processes; its nodes, with new processes; or nothing: all "
        "nodes go back and the job enters the queue again."
    )
    stop: Phases = default("0 s", description="From the failure being known to everything being stopped (reschedule).")
    launch: Phases = default(
        "0 s",
        description="From nodes to processes that are ready to restore (initialize); of the last rung also at a start.",
    )
    pools: Pools = ANY_POOL
    patience: Duration | None = Field(
        None, description="How long to wait for replacements before the next rung; without it, for ever."
    )
    delay: Phases = default("0 s", description="From the nodes going back to the job being eligible in the queue.")
    backoff: Backoff | None = Field(
        None, description="Additional delay of the queue, longer with every retry in a row."
    )
    budget: int | None = Field(None, ge=0, description="Attempts in a row at most; without it, always.")
    handles: tuple[Fault, ...] | None = Field(
        None, min_length=1, description="Classes of faults that it is for; without them, all."
    )
    except_first: bool = Field(
        False, description="Whether it cannot bear the loss of the first node, on which rank 0 is."
    )

    def _broken_rules(self) -> BrokenRules:
        if self.keeps == "nothing":
            if self.patience is not None or self.pools != ANY_POOL:
                key = "pools" if self.patience is None else "patience"
                yield (key,), "is for a rung that keeps nodes; one that keeps nothing waits in the queue"
        elif self.backoff is not None or some(self.delay, bool) or sum(mean(self.delay, Participants(1, 1))) > 0:
            key = "delay" if self.backoff is None else "backoff"
            yield (key,), f"is for a rung that goes back to the queue (keeps: nothing), not '{self.keeps}'"

    @property
    def timed(self) -> tuple[Held, Held, Held]:
        """All its phases."""
        return self.stop, self.launch, self.delay

    def is_for(self, fault: str, *, first_lost: bool) -> bool:
        """Return whether it is for faults of a class, and bears the loss of the first node if that is lost."""
        return (self.handles is None or fault in self.handles) and not (self.except_first and first_lost)

    def may_try(self, failure: FailureView, job: JobView, tries: int) -> bool:
        """Return whether it applies to a failure, given its attempts in a row."""
        return self.is_for(failure.fault, first_lost=job.first_lost) and (self.budget is None or tries < self.budget)

    def spans(self, members: Participants, fault: str) -> tuple[RestartPhase, ...]:
        """Return its times after a fault of some class, at the first try; if it keeps nothing, until it queues."""
        stop = spans(self.stop, members, fault)
        if self.keeps != "nothing":
            return (*stop, *spans(self.launch, members, fault))
        delay = (*stop, *spans(self.delay, members, fault, exposed=False))
        if self.backoff is None:
            return delay
        return (*delay, RestartPhase(Fixed.from_seconds(value=self.backoff.seconds(1)), exposed=False))

    def stopping(self, members: Participants, failure: FailureView) -> tuple[Step, ...]:
        """Return the steps that stop the job."""
        return steps(self.stop, Bucket.RESCHEDULE, members, failure.mark, f"{self.name} stop", failure.fault)

    def launching(self, members: Participants, mark: Callable[[str], float], fault: str = "") -> tuple[Step, ...]:
        """Return the steps that launch it."""
        return steps(self.launch, Bucket.INITIALIZE, members, mark, f"{self.name} launch", fault)

    def requeue(self, members: Participants, failure: FailureView, tries: int) -> Requeue:
        """Return the step that waits until the job is eligible in the queue, at some try, counted from 1."""
        backoff = self.backoff.seconds(tries) if self.backoff is not None else 0.0
        return back_to_queue(self.delay, members, failure.mark, f"{self.name} delay", failure.fault, backoff)

    def swap(self, otherwise: Callable[[], tuple[Plan, Memory]]) -> Acquire:
        """Return the step that takes replacements, with the way out for when they do not come in time."""
        if self.patience is None:
            return Acquire(pools=self.pools)
        plan, memory = otherwise()
        return Acquire(timeout=self.patience, otherwise=plan, pools=self.pools, memory=memory)

    def mean_times(self, gpus: int, nodes: int) -> tuple[float, float]:
        """Return the mean times in which failures cannot and can hit the job before it restores [s].

        A rung that keeps nodes is taken to replace one of them.
        """
        members = Participants(gpus, nodes, nodes if self.keeps == "nothing" else 1)
        hidden, exposed = (
            sum(times) for times in zip(*(mean(phases, members) for phases in self.timed[:2]), strict=True)
        )
        backoff = self.backoff.seconds(1) if self.backoff is not None else 0.0
        return hidden + sum(mean(self.delay, members)) + backoff, exposed


def _mean_of(phases: Iterable[RestartPhase]) -> float:
    """Return the mean time of phases one after another [s]."""
    return sum(phase.mean for phase in phases)


SAME_WORK = 1e-6

"""Work that counts as none [s]: sums of the same steps differ by rounding."""


class LadderMemory(NamedTuple):
    """The memory of a ladder about a job.

    Parameters
    ----------
    tries
        Attempts of each rung since the last progress, or since an operator restarted the job.
    rung
        The rung that the present incident is at.
    in_vain
        Restarts in a row that brought no new work.
    work
        The furthest that the job has come [s].
    """

    tries: tuple[int, ...]
    rung: int = 0
    in_vain: int = 0
    work: float = 0.0


class Ladder(RecoveryStrategy):
    """Recovery strategies, from the quickest to the most thorough: the first rung that applies is taken.

    A rung that waits for nodes in vain hands over to the next.
    A failure during the recovery is planned at the same rung again and counts as another try, wherever patience has
    led. With no rung left, or with too many restarts in a row that bring no new work, the job waits until an operator
    restarts it, and begins again.
    """

    use: Literal["ladder"] = "ladder"
    rungs: tuple[Rung, ...] = Field(min_length=1, description="Recovery strategies, in order of escalation.")
    resets_on_progress: bool = Field(True, description="Whether new work makes all budgets new.")
    no_progress: int | None = Field(
        None, ge=1, description="Restarts in a row without new work until operator escalation; without it, any."
    )
    exhausted: Law = default(
        {"use": "lognormal", "median": "15 min", "sigma": 1.6856},
        description="Time until an operator restarts the job, with all budgets new. The default is an assumption: "
        "median 15 min, 95 % within 4 h.",
    )
    gives_up: bool = Field(False, description="Whether the job has failed for good then, without operator escalation.")
    evict: Eviction | None = Field(None, description="Whether healthy nodes leave with those that failed.")

    def _broken_rules(self) -> BrokenRules:
        names = [rung.name for rung in self.rungs]
        for index, rung in enumerate(self.rungs):
            if rung.name in names[:index]:
                yield ("rungs", index, "name"), f"'{rung.name}' is also the name of an earlier rung"
            if rung.keeps == "nothing" and index < len(names) - 1:
                yield ("rungs", index, "keeps"), "can be nothing in the last rung only: nothing is left for more"

    @property
    def exposures(self) -> frozenset[Exposure]:
        """The exposure of its phases to failures, as far as it says so."""
        return exposures(*(phases for rung in self.rungs for phases in (rung.stop, rung.launch)))

    @property
    def restores(self) -> frozenset[Keeps]:
        """The state that each rung keeps."""
        return frozenset("stores" if rung.keeps == "nothing" else rung.keeps for rung in self.rungs)

    @property
    def no_formula(self) -> str:
        """The reason why no closed form describes the strategy; nothing where one does."""
        return "with no way left the job has failed for good" if self.gives_up else super().no_formula

    def _returns(self, hit: ExpectedFailure) -> tuple[RecoveryPath, ...] | None:
        """Return what the first rung that applies takes: without the first node it may be another one."""
        lost = hit.takes / hit.nodes if any(rung.except_first for rung in self.rungs) else 0.0
        chances = ((False, 1.0 - lost), (True, lost))
        paths = [self._return(hit, chance, first_lost=first_lost) for first_lost, chance in chances if chance > 0]
        return None if None in paths else tuple(way for way in paths if way is not None)

    def _return(self, hit: ExpectedFailure, chance: float, *, first_lost: bool) -> RecoveryPath | None:
        """Return the recovery after a failure that struck the first node, or did not; ``None`` if there is none."""
        rungs = (rung for rung in self.rungs if rung.is_for(hit.fault, first_lost=first_lost) and rung.budget != 0)
        rung = next(rungs, None)
        evict = self.evict
        joiners = max(hit.takes, evict.nodes) if evict is not None and hit.fault in evict.faults else hit.takes
        if rung is not None and rung.keeps != "nothing":
            return RecoveryPath(
                rung.keeps, rung.spans(Participants(hit.gpus, hit.nodes, joiners), hit.fault), joiners, chance
            )
        if rung is None and self.gives_up:
            return None
        everybody = Participants(hit.gpus, hit.nodes, hit.nodes)
        start = tuple(spans(self.rungs[-1].launch, everybody))
        if rung is None:
            return RecoveryPath("stores", (RestartPhase(self.exhausted, exposed=False), *start), hit.nodes, chance)
        members = Participants(hit.gpus, hit.nodes, joiners)
        return RecoveryPath("stores", (*rung.spans(members, hit.fault), *start), hit.nodes, chance)

    def _waits(self, hit: ExpectedFailure) -> SpareWait | None:
        """Return how the rungs wait one after another; ``None`` where they differ in more than their patience."""
        rungs = [rung for rung in self.rungs if rung.is_for(hit.fault, first_lost=False) and rung.budget != 0]
        if not rungs or self.evict is not None or any(rung.except_first for rung in self.rungs):
            return None
        if rungs[0].keeps == "nothing":
            members = Participants(hit.gpus, hit.nodes, hit.takes)
            return SpareWait(QUEUE, before=_mean_of(rungs[0].spans(members, hit.fault)), patience=0.0)
        return self._wait_in_place(rungs, hit)

    def _wait_in_place(self, rungs: list[Rung], hit: ExpectedFailure) -> SpareWait | None:
        """Return how some rungs wait, of which the first one keeps nodes; ``None`` if they take them elsewhere."""
        first, last = rungs[0], self.rungs[-1]
        members = Participants(hit.gpus, hit.nodes, hit.takes)
        before = _mean_of(spans(first.stop, members, hit.fault))
        staying = list(itertools.takewhile(lambda rung: rung.keeps != "nothing", rungs))
        if len({rung.pools for rung in staying}) > 1:
            return None
        if any(rung.patience is None for rung in staying):
            return SpareWait(first.pools, before=before)
        is_queued = len(staying) < len(rungs)
        start = _mean_of(spans(last.launch, Participants(hit.gpus, hit.nodes, hit.nodes)))
        return SpareWait(
            first.pools,
            before=before,
            patience=sum(rung.patience or 0.0 for rung in staying),
            delay=_mean_of(rungs[-1].spans(members, hit.fault)) if is_queued else self.exhausted.mean_value,
            more=start - _mean_of(spans(first.launch, members, hit.fault)),
        )

    def _start(self, job: JobView) -> Plan:
        """Launch from nothing, which is how the last rung does it."""
        launch = self.rungs[-1].launching(Participants(job.gpus, job.nodes, job.nodes), job.mark)
        return (*launch, Restore("stores"), Run())

    def _plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Take the first rung that applies, from where the incident is."""
        now = self._look(job, memory)
        if self.no_progress is not None and now.in_vain >= self.no_progress:
            return self._escalate(failure, now)
        now = now._replace(in_vain=now.in_vain + 1)
        evict = self.evict if self.evict is not None and failure.fault in self.evict.faults else None
        if evict is not None:
            # Whether a rung can bear the loss is asked of who is left.
            job = job.after_eviction(evict.nodes)
        plan, now, climbs = self._climb(now.rung if job.attempt > 1 else 0, failure, job, now)
        if evict is not None and climbs:
            plan = (Evict(min(evict.nodes, job.nodes), evict.test), *plan)
        return plan, now

    def _look(self, job: JobView, memory: Memory) -> LadderMemory:
        """Return the memory with what the job has done since."""
        before: LadderMemory = memory or LadderMemory((0,) * len(self.rungs))
        if job.work <= before.work + SAME_WORK:
            return before
        tries = (0,) * len(self.rungs) if self.resets_on_progress else before.tries
        return before._replace(tries=tries, in_vain=0, work=job.work)

    def _climb(
        self, start: int, failure: FailureView, job: JobView, now: LadderMemory
    ) -> tuple[Plan, LadderMemory, bool]:
        """Return the plan of the first rung from `start` on that applies, with what is remembered; whether one does."""
        for index, rung in enumerate(self.rungs[start:], start):
            if rung.may_try(failure, job, now.tries[index]):
                break
        else:
            return (*self._escalate(failure, now), False)
        tries = (*now.tries[:index], now.tries[index] + 1, *now.tries[index + 1 :])
        now = now._replace(tries=tries, rung=index)
        members = Participants(job.gpus, job.nodes, job.nodes_missing)
        stop = rung.stopping(members, failure)
        if rung.keeps == "nothing":
            return (*stop, rung.requeue(members, failure, tries[index])), now, True
        swap = (rung.swap(lambda: self._climb(index + 1, failure, job, now)[:2]),) if job.nodes_missing else ()
        launch = rung.launching(members, failure.mark, failure.fault)
        return (*stop, *swap, *launch, Restore(rung.keeps), Run()), now, True

    def _escalate(self, failure: FailureView, now: LadderMemory) -> tuple[Plan, LadderMemory]:
        """Give every node back until somebody starts the job again, with all budgets new."""
        new = LadderMemory((0,) * len(self.rungs), work=now.work)
        if self.gives_up:
            return (Requeue(math.inf),), new
        return (Requeue(*SampledTime.of(self.exhausted, failure.mark, "human")),), new

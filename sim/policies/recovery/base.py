"""The common part of the strategies of this folder: one factor for all their times, and the start of a job."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple, get_args

import numpy as np
from pydantic import Field

from ettrick.sim.formulas.arrays import Expansion, decay
from ettrick.sim.policies.contracts import Acquire, Background, Bucket, Evict, Requeue, Restore, Run, Stall, Step
from ettrick.sim.policies.recovery.phases import each_phase, longest, rule_of_longest
from ettrick.sim.scenario.fields import Strategy
from ettrick.sim.scenario.laws import Fixed, draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ettrick.sim.formulas.arrays import Number
    from ettrick.sim.policies.contracts import ClusterView, Exposure, FailureView, JobView, Keeps, Memory, Plan
    from ettrick.sim.policies.recovery.phases import Held, Participants
    from ettrick.sim.scenario.law_model import LawModel


def scaled(plan: Plan, factor: float) -> Plan:
    """Return a plan with all its times multiplied by a factor [-], those of its ways out included."""
    return plan if factor == 1.0 else tuple(_scaled_step(step, factor) for step in plan)


def _scaled_step(step: Step, factor: float) -> Step:
    """Return one step with its times multiplied by a factor [-]."""
    if isinstance(step, Stall):
        return step._replace(seconds=step.seconds * factor, excess=step.excess * factor)
    if isinstance(step, Evict):
        return step._replace(seconds=step.seconds * factor)
    if isinstance(step, Requeue):
        return Requeue(step.delay * factor, step.excess * factor)
    if isinstance(step, Acquire):
        return step._replace(timeout=step.timeout * factor, otherwise=scaled(step.otherwise, factor))
    if isinstance(step, Background):
        return step._replace(steps=scaled(step.steps, factor), then=scaled(step.then, factor))
    return step


def check_plan(plan: Plan, job: JobView) -> None:
    """Refuse a plan that cannot be followed; the engine asks it of strategies of other packages.

    It ends once, in running or in the queue, restores once before it runs, and takes the nodes that are missing.

    Raises
    ------
    ValueError
        With what is wrong with the plan.
    """
    if not isinstance(plan, tuple) or not all(isinstance(step, get_args(Step)) for step in plan):
        raise ValueError("a plan is a tuple of steps of ettrick.sim.policies.contracts")
    if [isinstance(step, Run | Requeue) for step in plan] != [*[False] * (len(plan) - 1), True]:
        raise ValueError("a plan ends, once, in Run or Requeue")
    is_short = job.nodes_missing > 0
    for step in plan:
        match step:
            case Evict():
                is_short = True
            case Background():
                is_short = False
                _check_background(step, job)
            case Acquire():
                is_short = False
                _check_acquire(step, job)
            case Run() if is_short:
                raise ValueError("a plan runs without the nodes that are missing")
            case Run() if not 0 < step.fraction <= 1:
                raise ValueError("a plan runs at no speed")
        _check_numbers(step, job)
    if isinstance(plan[-1], Run) and sum(isinstance(step, Restore) for step in plan) != 1:
        raise ValueError("a plan that runs restores once")


def _check_background(step: Background, job: JobView) -> None:
    """Refuse steps in the background that do not take nodes, or do more than that."""
    if any(isinstance(inner, Run | Requeue | Restore | Background) for inner in step.steps):
        raise ValueError("steps in the background neither restore nor run")
    if not any(isinstance(inner, Acquire) for inner in step.steps):
        raise ValueError("steps in the background acquire nodes")
    check_plan(step.then, job._replace(nodes_missing=0))


def _check_acquire(step: Acquire, job: JobView) -> None:
    """Refuse a step that takes nodes from nowhere, or has no way out where it needs one."""
    if not step.pools or (step.timeout < math.inf) != bool(step.otherwise):
        raise ValueError("a plan that acquires nodes names pools, and with a timeout a way out")
    if step.otherwise:
        # A way out has the nodes still missing; whole replicas are the business of others.
        check_plan(step.otherwise, job if step.unit == "node" else job._replace(nodes_missing=0))


def _check_numbers(step: Step, job: JobView) -> None:
    """Refuse nodes that are not there, and a time below zero, of a step or of those that it has in the background."""
    if isinstance(step, Evict) and not 1 <= step.nodes <= job.nodes:
        raise ValueError(f"a plan evicts {step.nodes} of {job.nodes} nodes")
    for part in (step, *(step.steps if isinstance(step, Background) else ())):
        if not all(getattr(part, name, 0.0) >= 0 for name in ("seconds", "timeout", "delay")):
            raise ValueError("a time of a plan is below zero")


class Absence(NamedTuple):
    """Replicas that leave and rejoin, as a closed form needs them.

    Parameters
    ----------
    stall, rejoin
        Mean stalls of the others when replicas leave, and when they are back [s].
    away, in_place
        Mean time away of a replica that lost a node, once the new one is there, and of one that lost none [s].
    restart
        Mean time of a restart of all, its restore left out [s].
    fewest
        Fewest replicas that may step on [-].
    is_fixed
        Whether none of these times is random.
    """

    stall: float
    rejoin: float
    away: float
    in_place: float
    restart: float
    fewest: int
    is_fixed: bool


class SampledTime(NamedTuple):
    """A time [s], and by how much it is above the mean of its law [s]."""

    seconds: float
    excess: float = 0.0

    @classmethod
    def of(cls, law: LawModel, mark: Callable[[str], float], purpose: str) -> SampledTime:
        """Return a time of a law, by the number that belongs to a purpose."""
        if isinstance(law, Fixed):
            return cls(law.value)
        seconds = draw(law, mark, purpose)
        return cls(seconds, seconds - law.mean_value)

    def stall(self, bucket: Bucket, *, exposed: Exposure = "both") -> tuple[Step, ...]:
        """Return the step that waits so long; none where there is never anything to wait for."""
        return (Stall(bucket, self.seconds, exposed, self.excess),) if self.seconds > 0 or self.excess else ()


class RecoveryStrategy(Strategy, ABC):
    """From a failure to a plan, in times that `scale` multiplies. Tested by the harness ``check_recovery``.

    A strategy overrides what differs from a rigid job that starts from the newest checkpoint and is always exposed to
    failures.
    """

    scale: float = Field(1.0, gt=0, description="Factor of all times of the recovery [-].")

    elastic: ClassVar[bool] = False
    """Whether replicas may go on without one another."""
    narrows_on: ClassVar[frozenset[str]] = frozenset()
    """Classes of faults after which a node may stay in its job with fewer GPUs."""

    @property
    def restores(self) -> frozenset[Keeps]:
        """The state that its restores from checkpoints keep of the nodes; empty where it does not say."""
        return frozenset()

    @property
    def reroutes(self) -> bool:
        """Whether the others do the work of lost stages, so that the batch stays as it is."""
        return False

    def keeps(self, lost: int, gpus: int) -> bool:
        """Return whether a tensor group of `gpus` GPUs that has lost some of them may step on, of `narrows_on`."""
        return False

    @property
    def exposures(self) -> frozenset[Exposure]:
        """The exposure of its phases to failures, as far as it says so."""
        return frozenset()

    @property
    def has_unexposed_phases(self) -> bool:
        """Whether failures of nodes are kept out of some phase."""
        return not self.exposures.isdisjoint({"none", "processes"})

    @property
    def no_formula(self) -> str:
        """The reason why no closed form describes the strategy; nothing where one does."""
        return "" if self.exposures <= {"both", "none"} else "in some phase only processes or only nodes can fail"

    def returns(self, hit: ExpectedFailure) -> tuple[RecoveryPath, ...] | None:
        """Return the recoveries after a failure, if the closed form of a restart describes them; else ``None``.

        Every failure is taken to be the first one, with healthy nodes available.
        """
        paths = self._returns(hit) if self.exposures <= {"both", "none"} else None
        return None if paths is None else tuple(back.scaled(self.scale) for back in paths)

    def waits(self, hit: ExpectedFailure) -> SpareWait | None:
        """Return how a job waits for nodes after a failure, if the closed form of it describes that; else ``None``."""
        wait = self._waits(hit)
        return None if wait is None else wait.scaled(self.scale)

    def absence_for(self, gpus: int, nodes: int, replicas: int) -> Absence | None:
        """Return what the closed form of replicas that leave alone has to know; ``None`` where they do not."""
        absence = self._absence_for(gpus, nodes, replicas)
        if absence is None:
            return None
        stall, rejoin, away, in_place, restart = (time * self.scale for time in absence[:5])
        return Absence(stall, rejoin, away, in_place, restart, absence.fewest, absence.is_fixed)

    def start(self, job: JobView) -> Plan:
        """Return what happens between the allocation of nodes and the first step."""
        return scaled(self._start(job), self.scale)

    def plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Return what to do now that the failure is known, and what to remember."""
        plan, memory = self._plan(failure, job, cluster, memory)
        return (plan if self.scale == 1.0 else scaled(plan, self.scale)), memory

    def _returns(self, hit: ExpectedFailure) -> tuple[RecoveryPath, ...] | None:
        """Return `returns` at a scale of one."""
        return None

    def _waits(self, hit: ExpectedFailure) -> SpareWait | None:
        """Return `waits` at a scale of one."""
        return None

    def _absence_for(self, gpus: int, nodes: int, replicas: int) -> Absence | None:
        """Return `absence_for` at a scale of one."""
        return None

    @abstractmethod
    def _start(self, job: JobView) -> Plan:
        """Return `start` at a scale of one."""

    @abstractmethod
    def _plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Return `plan` at a scale of one."""


def initialized(initialize: LawModel, job: JobView) -> Plan:
    """Return the start of a job that initializes and restores, all replicas together."""
    return (*SampledTime.of(initialize, job.mark, "initialize").stall(Bucket.INITIALIZE), Restore("stores"), Run())


class InPlace(RecoveryStrategy, ABC):
    """A rigid job that keeps its nodes and swaps what is missing; two times of each failure make its plan."""

    _times: ClassVar[tuple[str, str]]
    """Names of the two laws, in the order in which `_steps` takes their times."""

    if TYPE_CHECKING:
        exposed: Exposure

    @property
    def restores(self) -> frozenset[Keeps]:
        """The restores keep the nodes: the job restarts on them with new processes."""
        return frozenset({"hosts"})

    @property
    def exposures(self) -> frozenset[Exposure]:
        """The exposure of its phases to failures."""
        return frozenset({self.exposed})

    def _plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Restart in place, with a swap if nodes are missing."""
        if self._fixed is not None:
            return self._fixed[job.nodes_missing > 0], memory
        first, second = (SampledTime.of(law, failure.mark, name) for name, law in self._laws.items())
        return self._steps(first, second, swap=job.nodes_missing > 0), memory

    @property
    def _laws(self) -> dict[str, LawModel]:
        return {name: getattr(self, name) for name in self._times}

    @functools.cached_property
    def _fixed(self) -> tuple[Plan, Plan] | None:
        """The two plans, without and with a swap, when no time is random."""
        times = [SampledTime(law.value) for law in self._laws.values() if isinstance(law, Fixed)]
        if len(times) < len(self._times):
            return None
        return self._steps(*times, swap=False), self._steps(*times, swap=True)

    @abstractmethod
    def _steps(self, first: SampledTime, second: SampledTime, /, *, swap: bool) -> Plan:
        """Return the plan for the two times."""


# Recovery after a failure, as a closed form has to know them: by the laws of their times, and from which checkpoints.


class ExpectedFailure(NamedTuple):
    """A failure as a closed form knows it: its class, and what it takes of a job.

    Parameters
    ----------
    fault
        Class of the fault.
    gpus, nodes
        Size of the job [-].
    takes
        Nodes that leave the job for a while [-].
    """

    fault: str
    gpus: int
    nodes: int
    takes: int


class SpareWait(NamedTuple):
    """The wait of a job for spare nodes, as a closed form knows it.

    Parameters
    ----------
    pools
        Where it takes nodes.
    before
        Mean time from the failure being known to the job asking for nodes [s].
    patience
        How long it waits with the nodes that are left before it gives all back to the queue [s].
    delay
        Mean time from then on in which it is not eligible [s].
    more
        By how much its restart is longer after the queue, mean [s].
    exposed
        Whether failures can hit its other nodes while it waits.
    fills
        Whether it fills hot spares up from other pools when it takes nodes.
    """

    pools: tuple[str, ...]
    before: float = 0.0
    patience: float = math.inf
    delay: float = 0.0
    more: float = 0.0
    exposed: bool = True
    fills: bool = False

    def scaled(self, factor: float) -> SpareWait:
        """Return the same with all its times multiplied by a factor [-]."""
        times = {name: getattr(self, name) * factor for name in ("before", "patience", "delay", "more")}
        return self._replace(**times)


QUEUE = ("idle", "spare")

"""The pools from which a requeued job takes nodes."""


class RestartPhase(NamedTuple):
    """A phase of a restart.

    Parameters
    ----------
    law
        Law of the time.
    factor
        What it is multiplied by [-].
    draws
        How many draw it [-]; the longest counts.
    exposed
        Whether failures can hit the job meanwhile.
    """

    law: LawModel
    factor: float = 1.0
    draws: int = 1
    exposed: bool = True

    @property
    def mean(self) -> float:
        """Mean of the time [s]."""
        return self.factor * longest(self.law, self.draws)

    def survival(self, rate: Number) -> Number:
        r"""Return the probability that no failure strikes meanwhile, ``E exp(-rate X)`` [-]: the Laplace transform.

        Of an expansion it is ``1 - rate E X + rate^2 E X^2 / 2``.

        Parameters
        ----------
        rate
            Failures of the job [1/s].
        """
        if isinstance(self.law, Fixed):
            return decay(rate * (self.factor * self.law.value))
        times, weights = rule_of_longest(self.law, self.draws)
        if isinstance(rate, Expansion):
            square = self.factor**2 * float(weights @ times**2)
            return 1.0 - rate * self.mean + rate * rate * (square / 2)
        return float(weights @ np.exp(-rate * self.factor * times))


class RecoveryPath(NamedTuple):
    """A recovery of a strategy.

    Parameters
    ----------
    keeps
        What is left of the job for its restore.
    spans
        Times between the failure being known and the restore, in their order.
    joiners
        Nodes that join [-]: all of the job out of the queue (`hit.nodes`), those that it lost in place (`hit.takes`).
    chance
        Probability that a failure of the kind is recovered from like this [-].
    exposed
        Whether failures can hit the restore.
    """

    keeps: Keeps
    spans: tuple[RestartPhase, ...]
    joiners: int = 0
    chance: float = 1.0
    exposed: bool = True

    def scaled(self, factor: float) -> RecoveryPath:
        """Return the same with all its times multiplied by a factor [-]."""
        return self._replace(spans=tuple(span._replace(factor=span.factor * factor) for span in self.spans))


def spans(phases: Held, members: Participants, fault: str = "", *, exposed: bool = True) -> Iterator[RestartPhase]:
    """Yield the times of phases that are due; `exposed` says whether failures can hit those that do not say.

    Parameters
    ----------
    phases
        The phases, as a field holds them.
    members
        Who goes through them.
    fault
        Class of the fault; nothing at a start.
    """
    for phase in each_phase(phases):
        if phase.is_due(members, fault):
            yield RestartPhase(
                phase.time, phase.factor(members), phase.count(members), exposed and phase.exposed == "both"
            )

"""Narrow: a tensor-parallel domain that lost a GPU goes on with fewer, and its replica with a smaller share."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from ettrick.sim.policies.contracts import ANY_POOL, Acquire, Bucket, Restore, Run
from ettrick.sim.policies.recovery.base import ExpectedFailure, RecoveryPath, RecoveryStrategy, spans
from ettrick.sim.policies.recovery.phases import Participants, Phases, Pools, back_to_queue, exposures, steps
from ettrick.sim.scenario.fields import Duration, Fraction, default

if TYPE_CHECKING:
    from ettrick.sim.policies.contracts import ClusterView, Exposure, FailureView, JobView, Memory, Plan
    from ettrick.sim.scenario.fields import BrokenRules


class Narrow(RecoveryStrategy):
    r"""Restart in place; a failed GPU stays in the job as a gap until it is repaired, a failed node is replaced.

    Ranks are laid out again so that the domains with gaps are in the fewest replicas, the worst together. Such a
    replica runs at the width T' of its worst domain, the widest allowed one of at most T less what that lost. With b
    the power boost, it does the share ``min(1, b T'/T)`` of its part of the batch, and of R replicas n do less:

    .. math:: f = (1 - \rho)\left(1 - \frac{1}{R} \sum_{i = 1}^{n} \bigl(1 - \min(1, b\, T'_i / T)\bigr)\right)

    where rho is what resharding takes.

    References
    ----------
    "Nonuniform-tensor-parallelism: mitigating GPU failure impact for scaled-up LLM training", arXiv 2504.06095.
    """

    use: Literal["narrow"] = "narrow"
    tensor: int = Field(ge=2, description="GPUs of a domain: the width of tensor parallelism.")
    allowed: tuple[int, ...] | None = Field(
        None, min_length=1, description="Widths at which a domain can run; without them, any."
    )
    give_up_below: int | None = Field(
        None,
        ge=1,
        description="GPUs with which a domain stays as it is; with fewer the node that failed is replaced. Without it, "
        "the least width.",
    )
    power_boost: float = Field(
        1.0, ge=1, le=1.3, description="How much faster GPUs of a narrow domain may run, with the power of the missing."
    )
    reshard: Fraction = Field(
        0.0, lt=1, description="Share of the time that resharding takes while some domain is narrow."
    )
    stop: Phases = default("0 s", description="From the failure being known to everything being stopped (reschedule).")
    launch: Phases = Field(description="From nodes to processes that are ready to restore (initialize).")
    pools: Pools = ANY_POOL
    patience: Duration | None = Field(
        None, description="How long to wait for a replacement before going back to the queue; without it, for ever."
    )
    requeue: Phases = default("0 s", description="From the job being given up to being eligible in the queue.")

    def _broken_rules(self) -> BrokenRules:
        for index, width in enumerate(self.allowed or ()):
            if not 1 <= width < self.tensor:
                yield ("allowed", index), f"must be from 1 to {self.tensor - 1}: narrower than tensor is"
        if self.give_up_below is not None and not self._least <= self.give_up_below <= self.tensor:
            rule = f"must be from {self._least}, the least width, to {self.tensor}, which replaces every domain"
            yield ("give_up_below",), rule

    @property
    def _least(self) -> int:
        """The least width at which a domain can run."""
        return min(self.allowed) if self.allowed is not None else 1

    narrows_on: ClassVar[frozenset[str]] = frozenset({"gpu"})

    def keeps(self, lost: int, gpus: int) -> bool:
        """Return whether enough GPUs of a tensor group are left."""
        fewest = self._least if self.give_up_below is None else self.give_up_below
        return min(gpus, self.tensor) - lost >= fewest

    @property
    def exposures(self) -> frozenset[Exposure]:
        """The exposure of its phases to failures, as far as it says so."""
        return exposures(self.stop, self.launch)

    @property
    def no_formula(self) -> str:
        """The reason why no closed form describes the strategy where none does."""
        return "the pace is known of domains that are nodes, and of repairs that have a law"

    @property
    def paces(self) -> tuple[float, ...]:
        """The pace of a replica whose worst domain misses 0, 1, ... GPUs, up to as many as it may [-]."""
        fewest = self._least if self.give_up_below is None else self.give_up_below
        return tuple(self._share(self._width(lost)) if lost else 1.0 for lost in range(self.tensor - fewest + 1))

    def _returns(self, hit: ExpectedFailure) -> tuple[RecoveryPath, ...] | None:
        """Return the stop and the launch; only nodes that are lost as a whole are replaced."""
        if hit.gpus != hit.nodes * self.tensor:
            return None
        joiners = 0 if hit.fault in self.narrows_on else hit.takes
        members = Participants(hit.gpus, hit.nodes, joiners)
        times = (*spans(self.stop, members, hit.fault), *spans(self.launch, members, hit.fault))
        return (RecoveryPath("hosts", times, joiners=joiners),)

    def _start(self, job: JobView) -> Plan:
        """Launch on what there is."""
        everybody = Participants(job.gpus, job.nodes, job.nodes)
        launch = steps(self.launch, Bucket.INITIALIZE, everybody, job.mark, "launch")
        return (*launch, Restore("stores"), Run(self.fraction(job)))

    def _plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Restart in place, narrower if a GPU is lost, with replacements for nodes that are lost."""
        mark, fault = failure.mark, failure.fault
        everybody = Participants(job.gpus, job.nodes, job.nodes_missing)
        stop = steps(self.stop, Bucket.RESCHEDULE, everybody, mark, "stop", fault)
        swap = (self._swap(failure, everybody),) if job.nodes_missing else ()
        launch = steps(self.launch, Bucket.INITIALIZE, everybody, mark, "launch", fault)
        return (*stop, *swap, *launch, Restore(), Run(self.fraction(job))), memory

    def _swap(self, failure: FailureView, everybody: Participants) -> Acquire:
        """Return the step that takes replacements."""
        if self.patience is None:
            return Acquire(pools=self.pools)
        back = back_to_queue(self.requeue, everybody, failure.mark, "requeue", failure.fault)
        return Acquire(timeout=self.patience, otherwise=(back,), pools=self.pools)

    def fraction(self, job: JobView) -> float:
        """Return the share of the healthy pace at which the job runs with its narrow domains [-]."""
        losses = sorted((lost for _, lost in job.narrowed), reverse=True)
        if not losses:
            return 1.0
        domains = max(job.gpus // job.replicas // self.tensor, 1)
        # The first domain of each replica is its worst one.
        missing = sum(1.0 - self._share(self._width(lost)) for lost in losses[::domains])
        return (1.0 - self.reshard) * (1.0 - missing / job.replicas)

    def _width(self, lost: int) -> int:
        """Return the widest allowed width of a domain that lost some GPUs."""
        left = self.tensor - lost
        return left if self.allowed is None else max((width for width in self.allowed if width <= left), default=0)

    def _share(self, width: int) -> float:
        """Return what a replica of some width does of its part of the batch [-]."""
        return min(1.0, self.power_boost * width / self.tensor)

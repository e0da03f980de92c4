"""Restart smaller: the survivors start again without the replicas that lost a node, and again when those are back."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from pydantic import Field

from ettrick.sim.policies.contracts import ANY_POOL, Acquire, Background, Bucket, Requeue, Restore, Run
from ettrick.sim.policies.recovery.base import RecoveryStrategy
from ettrick.sim.policies.recovery.phases import Participants, Phases, Pools, back_to_queue, exposures, steps
from ettrick.sim.scenario.fields import Duration, default

if TYPE_CHECKING:
    from ettrick.sim.policies.contracts import ClusterView, Exposure, FailureView, JobView, Memory, Plan, Step


class Restarts(NamedTuple):
    """The memory of the strategy: the restarts of processes since the job left the queue, and how often it left it."""

    spent: int = 0
    starts: int = 0


class RestartSmaller(RecoveryStrategy):
    """Every change of membership stops all processes; who is there starts again from the newest checkpoint.

    A failure that takes no node is paid for from a budget, a change of membership is free. With too few replicas left
    the others wait for nodes, and go back to the queue when none come. This is how torchrun works with a range of nodes
    (PyTorch, ``torch/distributed/elastic``); only whole replicas leave, because the others could not be laid out again.
    """

    use: Literal["restart-smaller"] = "restart-smaller"
    stop: Phases = default("0 s", description="From the failure being known to everything being stopped (reschedule).")
    launch: Phases = Field(description="From nodes to processes that are ready to restore (initialize).")
    rejoin: Phases | None = Field(
        None, description="The same when replicas are back and all start again; without it, stop and launch."
    )
    rejoin_keeps: Literal["hosts", "live"] = Field(
        "hosts",
        description="From where all go on: hosts, the newest checkpoint; live, the last step, grown at its boundary.",
    )
    min_replicas: int = Field(1, ge=1, description="Fewest replicas that may step on.")
    max_restarts: int | None = Field(
        None, ge=0, description="Failures without a lost node that the job outlives; without it, any number."
    )
    except_first: bool = Field(
        False, description="Whether the loss of the first node, on which rank 0 and its store are, ends the job."
    )
    pools: Pools = ANY_POOL
    patience: Duration | None = Field(
        None, description="How long too few replicas wait before the job goes back to the queue; without it, for ever."
    )
    requeue: Phases = default("0 s", description="From the job being given up to being eligible in the queue.")
    start_up: Phases | None = Field(
        None, description="From nodes that the queue gave to processes that are ready to restore; without it, launch."
    )

    elastic: ClassVar[bool] = True

    @property
    def exposures(self) -> frozenset[Exposure]:
        """The exposure of its phases to failures, as far as it says so."""
        return exposures(self.stop, self.launch, self.rejoin, self.start_up)

    @property
    def no_formula(self) -> str:
        """The reason why no closed form describes the strategy; nothing where one does."""
        return "every absence and every return restarts the others"

    def _start(self, job: JobView) -> Plan:
        """Start up all replicas together."""
        everybody = Participants(job.gpus, job.nodes, job.nodes)
        if self.start_up is None:
            launch = steps(self.launch, Bucket.INITIALIZE, everybody, job.mark, "launch")
        else:
            launch = steps(self.start_up, Bucket.INITIALIZE, everybody, job.mark, "start_up")
        return (*launch, Restore("stores"), Run())

    def _plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Leave the victims behind and start the others again, as long as the budget and the replicas last."""
        before: Restarts = memory or Restarts()
        # Whoever comes from the queue has a new budget.
        spent = before.spent if before.starts == job.starts else 0
        # Without a lost node no replica leaves: the processes start again where they were.
        gone = failure.replicas_lost if job.nodes_missing else 0
        survivors = job.replicas_running - gone
        again = max(survivors, self.min_replicas)
        members = Participants(job.gpus * again / job.replicas, job.nodes * again // job.replicas)
        stop = steps(self.stop, Bucket.RESCHEDULE, members, failure.mark, "stop", failure.fault)
        if not gone:
            spent += 1
        over = self.max_restarts is not None and spent > self.max_restarts
        if over or (self.except_first and job.first_lost):
            return (*stop, self._requeue(failure, members)), Restarts(0, job.starts)
        away = (self._away(failure, job),) if gone else ()
        wait = (self._wait(failure, members),) if survivors < self.min_replicas else ()
        launch = steps(self.launch, Bucket.INITIALIZE, members, failure.mark, "launch", failure.fault)
        return (*away, *stop, *wait, *launch, Restore(), Run()), Restarts(spent, job.starts)

    def _away(self, failure: FailureView, job: JobView) -> Background:
        """Return what a replica waits for on its own, and what all do when it has its nodes."""
        everybody = Participants(job.gpus, job.nodes, job.nodes_missing)
        again: tuple[Step, ...]
        if self.rejoin is not None:
            again = steps(self.rejoin, Bucket.INITIALIZE, everybody, failure.mark, "rejoin", failure.fault)
        else:
            again = (
                *steps(self.stop, Bucket.RESCHEDULE, everybody, failure.mark, "rejoin stop", failure.fault),
                *steps(self.launch, Bucket.INITIALIZE, everybody, failure.mark, "rejoin launch", failure.fault),
            )
        return Background((Acquire(pools=self.pools),), (*again, Restore(self.rejoin_keeps), Run()), restarts=True)

    def _wait(self, failure: FailureView, members: Participants) -> Acquire:
        """Return the step that waits until enough replicas are whole."""
        if self.patience is None:
            return Acquire(self.min_replicas, "replica")
        return Acquire(self.min_replicas, "replica", self.patience, (self._requeue(failure, members),))

    def _requeue(self, failure: FailureView, members: Participants) -> Requeue:
        """Return the step that gives every node back."""
        return back_to_queue(self.requeue, members, failure.mark, "requeue", failure.fault)

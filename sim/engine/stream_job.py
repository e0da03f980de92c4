"""What the fleet keeps: nodes in use, a job of a stream from submission to end, a named job that waits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ettrick.sim.engine.fleet_result import DIRECT
from ettrick.sim.engine.job import ExposureClock
from ettrick.sim.policies.queue import PlannerJob

if TYPE_CHECKING:
    from ettrick.sim.engine.job import Job
    from ettrick.sim.engine.lives import FailureEvent, SourceInfo
    from ettrick.sim.engine.prepared import PreparedStream
    from ettrick.sim.engine.repair import RepairJob
    from ettrick.sim.scenario.streams import Arrival


class Allocation:
    """Nodes of a job of a stream, or one node of several smaller jobs: to failures and repair what a group of a job is.

    Whatever its jobs do at the moment, failures can hit all of its nodes.
    """

    __slots__ = (
        "busy", "deferred", "detect_at", "epoch", "footprint", "free", "holding", "jobs", "missing", "nodes",
        "ready_at", "repairs", "replaced", "suspects", "unblamed",
        "waits",
    )  # fmt: skip

    main = None
    exposed = "both"

    def __init__(self, nodes: list[int], now: float) -> None:
        self.nodes = nodes
        """Node at each position, or -1."""
        self.free = 0
        """GPUs of a shared node that no job has [-]."""
        self.jobs: list[StreamJob] = []
        self.holding = True
        self.missing: list[int] = []
        """Positions without a node."""
        self.replaced: list[int] = []
        """Positions that lost their node to another one at once."""
        self.suspects: list[tuple[int, FailureEvent]] = []
        """Nodes that failed and of which the jobs do not know yet, with the failure."""
        self.repairs: list[RepairJob] = []
        """Repairs that begin when the jobs know of the failure."""
        self.unblamed: list[int] = []
        """Nodes that were swapped although nobody was blamed, until others have replaced them."""
        self.deferred: list[tuple[int, int, int, float]] = []
        self.footprint = None
        self.detect_at = math.inf
        """When the jobs know of a failure [s]."""
        self.waits = False
        """Whether its job holds what is left of its nodes for the delay of a requeue, which ends at `detect_at`."""
        self.ready_at = -math.inf
        """When nodes that had to be got ready are there [s]."""
        self.epoch = 0
        self.busy = ExposureClock(now)
        self.busy.is_on = True

    @property
    def job(self) -> Allocation:
        """What others read of the job of a group: its nodes, and whether it holds them."""
        return self


class StreamJob(PlannerJob):
    """A job of a stream, from its submission to its end."""

    __slots__ = (
        "account", "alive", "allocation", "attempts", "began", "durable", "epoch", "failures", "first", "flush",
        "is_exact", "lived", "lives", "lost", "next_at", "notice", "preempted", "queued", "root", "run", "run_at",
        "save", "saves", "saving_at", "seats", "since", "spec", "stages", "stands", "stream", "useful", "via",
        "waited", "why",
    )  # fmt: skip

    def __init__(self, number: int, spec: Arrival, stream: PreparedStream, account: int, nodes: int) -> None:
        super().__init__(
            number, nodes, spec.gpus, limit=spec.limit, priority=spec.priority, submit=spec.submit, tenant=spec.tenant,
            partition=spec.partition, qos=stream.qos,
        )  # fmt: skip
        self.spec = spec
        self.stream = stream
        self.account = account
        self.allocation: Allocation | None = None
        self.attempts = 0
        """How often it has begun to run."""
        self.root = 0
        """Why it is in the queue, or had to start anew: index of the root cause; 0 because it arrived."""
        self.via = DIRECT
        self.why = 0
        """Index of the cause that its stages are charged to."""
        self.queued = spec.submit
        """Since when it waits [s]."""
        self.waited = 0.0
        self.first = math.nan
        """When it first started [s]."""
        self.began = math.nan
        """When it last got its nodes [s]."""
        self.lost = 0.0
        """Work that stops have undone since then [s]."""
        self.since = math.nan
        """Up to when its nodes have been charged [s]."""
        self.stages: list[tuple[int, float]] = []
        """What comes before it runs on: bucket and end [s]."""
        self.seats: tuple[tuple[int, ...], ...] = ()
        """Nodes that it began with and had after each change, for the log."""
        self.stands = False
        """Whether a failure has stopped it, and it waits with its nodes."""
        self.run_at = math.inf
        """When it runs on [s]."""
        self.saving_at = math.inf
        """When the save began that is on its way in a shared store [s]."""
        self.next_at = math.inf
        """When something happens next to a job whose saves are shared [s]."""
        self.durable = 0.0
        """Work that is saved [s]."""
        self.saves = stream.saves[spec.gpus]
        self.save = self.saves.save.of(spec.work)
        """How long a save stops it [s]."""
        self.flush = self.save + self.saves.drain
        """How long it takes to make its progress durable before it stops [s]."""
        self.is_exact = stream.exact
        """Whether its limit is what it takes, whatever delays it, and no estimate."""
        self.run = 0.0
        """How long it has held nodes [s]."""
        self.useful = 0.0
        """Stepping whose result was kept [s]."""
        self.notice: tuple[int, int] | None = None
        """Root cause and size class of the job that preempts it, while it may still save."""
        self.failures = 0
        self.preempted = 0
        self.epoch = 0
        """Raised at each change of plan; an event that carries an older one is void."""
        self.lives: list[tuple[float, int, int, SourceInfo]] = []
        """Its own lives, which its processes end by failing: due when they have run so long [s], source, number."""
        self.lived = 0.0
        """How long its processes have run [s]."""
        self.alive = math.inf
        """Since when they run, or from when on they will [s]."""

    def stand_still(self, now: float) -> None:
        """Void what the job was going to do; its processes run no longer."""
        self.epoch += 1
        self.lived += max(now - self.alive, 0.0)
        self.alive = math.inf


class NamedJob(PlannerJob):
    """A named job in the queue."""

    __slots__ = ("job",)

    def __init__(self, number: int, job: Job, now: float) -> None:
        spec = job.spec
        super().__init__(
            number, job.nodes_needed, job.gpus, priority=spec.priority, submit=now, tenant=spec.tenant,
            partition=spec.partition, qos=spec.qos,
        )  # fmt: skip
        self.job = job

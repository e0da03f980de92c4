"""The state of jobs: what each group is doing, and what it has done."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sim.cluster.switches import Reach
from sim.policies.contracts import Bucket, Pace, Plan, Restoration, Run
from sim.steps import Impairment, rerouted_pace, stated_pace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sim.cluster.paths import Paths
    from sim.engine.ledger import Account
    from sim.policies.contracts import CheckpointStrategy, Exposure, Progress
    from sim.steps import StepPlan

# ----------------------------------------
# Where in the network jobs sit: which leaf groups, pods and pools their nodes are in.


class Network(NamedTuple):
    """What the engine knows of the fabric.

    Attributes
    ----------
    class_of_node : sequence of int
        Leaf group of each node.
    pod_of_class : (classes,) int32
        Pod of each leaf group.
    pool_of_node : sequence of int
        Which pool of hosts each node is of.
    bandwidth : mapping of str to float
        What a healthy NIC gets, by how far the traffic goes: leaf, pod, cluster [B/s].
    paths : Paths or None
        The cables; ``None`` when nothing of the fabric fails.
    """

    class_of_node: Sequence[int]
    pod_of_class: NDArray[np.int32]
    pool_of_node: Sequence[int]
    bandwidth: Mapping[str, float]
    paths: Paths | None = None


class Footprint:
    """How many nodes of a job are in each leaf group and in each pool."""

    __slots__ = ("_reach", "network", "pools", "presence")

    def __init__(self, network: Network) -> None:
        self.network = network
        self.presence = np.zeros(len(network.pod_of_class), dtype=np.int64)
        """Nodes in each leaf group [-]."""
        self.pools = [0] * (max(network.pool_of_node) + 1)
        """Nodes of each pool [-]."""
        self._reach: Reach | None = None

    def add(self, node: int) -> None:
        """Let a node join."""
        group = self.network.class_of_node[node]
        self.presence[group] += 1
        if self.presence[group] == 1:
            self._reach = None
        self.pools[self.network.pool_of_node[node]] += 1

    def remove(self, node: int) -> None:
        """Let a node leave."""
        group = self.network.class_of_node[node]
        self.presence[group] -= 1
        if self.presence[group] == 0:
            self._reach = None
        self.pools[self.network.pool_of_node[node]] -= 1

    def without(self, nodes: Iterable[int]) -> Footprint:
        """Return a copy in which nodes have left."""
        found = Footprint(self.network)
        found.presence = self.presence.copy()
        found.pools = self.pools.copy()
        for node in nodes:
            found.remove(node)
        return found

    @property
    def level(self) -> str:
        """How far the job's traffic goes: leaf, pod or cluster."""
        return self.reach.level

    @property
    def reach(self) -> Reach:
        """How far the job's traffic goes."""
        if self._reach is None:
            self._reach = Reach.between(self.presence > 0, self.network.pod_of_class)
        return self._reach


class Taint:
    """Wrong results in the work of a job: up to where it is sound [s], and whether the job knows."""

    __slots__ = ("condition", "is_known", "sound")

    def __init__(self, sound: float, condition: Any) -> None:
        self.sound = sound
        self.condition = condition
        self.is_known = False


class Clock:
    """Time that runs now and then, and a heap of the lives that it ends."""

    __slots__ = ("at", "is_on", "lives", "since", "total")

    def __init__(self, now: float) -> None:
        self.is_on = False
        self.since = now
        self.total = 0.0
        self.lives: list[Any] = []
        self.at = math.inf
        """When an event looks whether the first of them has ended [s]."""

    def read(self, now: float) -> float:
        """Return for how long it has run so far [s]."""
        return self.total + (now - self.since) if self.is_on else self.total

    def turn(self, now: float, *, on: bool) -> None:
        """Let it run, or stand still."""
        if not on:
            self.total = self.read(now)
        elif not self.is_on:
            self.since = now
        self.is_on = on


class Group:
    """Replicas of one job that move through phases together.

    A rigid job has one group. An elastic one has a main group, whose replicas step in lockstep, and one more for
    each replica that is away; so the cost of an event does not grow with the number of replicas.
    """

    __slots__ = (
        "attempt",
        "busy",
        "called",
        "cause",
        "deferred",
        "detect_at",
        "detecting",
        "ended",
        "epoch",
        "exposed",
        "failure",
        "first",
        "held",
        "incident",
        "job",
        "missing",
        "plan",
        "processes",
        "ready_at",
        "replaced",
        "replicas",
        "resume",
        "run_at",
        "run_step",
        "running",
        "saves",
        "segment",
        "segments",
        "since",
        "step",
        "suspects",
        "then",
        "waiting",
    )

    def __init__(self, job: Job, replicas: int, now: float, first: int = 0) -> None:
        self.job = job
        self.replicas = replicas
        """How many replicas belong to this group."""
        self.first = first
        """First position of a group that is away; it has the positions of one replica."""
        self.missing: list[int] = []
        """Positions of the job that belong to this group and have no node."""
        self.ended: list[int] = []
        """Positions whose processes ended and whose node is still there, until a plan has answered that."""
        self.replaced: list[int] = []
        """Positions that lost their node to another one at once, until a plan has answered that."""
        self.since = now
        """Up to when time has been charged [s]."""
        self.cause = 0
        """Index of the cause that waiting is charged to."""
        self.incident = 0
        """Index of the cause of the open incident's first failure; 0 when there is none."""
        self.running = False
        self.run_at = math.inf
        """When waiting turns into running without an event [s]; ``run_step`` is the step that then counts."""
        self.run_step: Run | None = None
        self.detecting = False
        self.waiting: Any = None
        """The Acquire that the group waits for."""
        self.segments: list[tuple[int, float]] = [(Bucket.QUEUED, math.inf)]
        """Waiting ahead: bucket and end [s]."""
        self.segment = 0
        self.plan: Plan = ()
        self.step = 0
        self.resume: Plan = ()
        """Steps that this group starts again with after a failure while it is away."""
        self.then: Plan = ()
        """Steps of the main group when this one rejoins."""
        self.epoch = 0
        """Raised at each change of plan; an event that carries an older one is void."""
        self.failure: Any = None
        self.detect_at = math.inf
        self.suspects: list[tuple[int, Any]] = []
        """Nodes that failed and that the job does not know of yet, with the failure."""
        self.saves = False
        """Whether the job was told beforehand and saves before it stops."""
        self.ready_at = -math.inf
        """When nodes that had to be got ready are there [s]."""
        self.called = False
        """Whether the plan has called upon nodes that had to be got ready."""
        self.deferred: list[tuple[int, int, int, float]] = []
        """Candidates that wait until its nodes are exposed again: source, slot, round, end."""
        self.attempt = 0
        self.exposed: Exposure = "none"
        """Who can fail now."""
        self.processes = Clock(now)
        """Runs while the processes of the job are exposed: lives of the job."""
        self.held = Clock(now)
        """Runs while its nodes are exposed: when somebody takes them all."""
        self.busy = Clock(now)
        """Runs while both are: lives of its nodes that end only with processes on them."""

    @property
    def gpus(self) -> float:
        """GPUs that this group's part of the job asks for."""
        job = self.job
        return job.gpus if self.replicas == job.replicas else job.gpus * self.replicas / job.replicas

    def is_running(self, now: float) -> bool:
        """Return whether the group steps at `now` [s]; it may not have been settled since it began to."""
        return self.running or self.run_at <= now


class Job:
    """A job: its groups, its progress and its account."""

    __slots__ = (
        "accepted",
        "account",
        "arrival",
        "away",
        "checkpoint",
        "communication",
        "dead",
        "disruptions",
        "end",
        "evenness",
        "excess",
        "finish_at",
        "finished",
        "first",
        "footprint",
        "fraction",
        "gpus",
        "holding",
        "homes",
        "index",
        "interruptions",
        "known_paces",
        "latencies",
        "live",
        "looks_at",
        "lost",
        "main",
        "memory",
        "merged",
        "name",
        "narrow",
        "node_seconds",
        "nodes",
        "nodes_needed",
        "nodes_per_domain",
        "nodes_per_replica",
        "pace",
        "paced_replicas",
        "plan",
        "planned_bandwidth",
        "pool_paces",
        "rank_of",
        "read_from",
        "reads",
        "rebooted",
        "replicas",
        "reroutes",
        "restoration",
        "restores",
        "running_seconds",
        "saved_at",
        "slow_cause",
        "speed",
        "start",
        "starts",
        "state",
        "step_keep",
        "step_time",
        "stops_at",
        "taints",
        "target",
        "unsaved",
        "waits",
    )

    def __init__(
        self,
        *,
        index: int,
        name: str,
        gpus: int,
        nodes: int,
        replicas: int,
        nodes_per_domain: int = 1,
        reroutes: bool = False,
        step_time: float,
        keeps_batch: bool,
        target: float,
        arrival: float,
        checkpoint: CheckpointStrategy,
        account: Account,
        communication: float | None = None,
        plan: StepPlan | None = None,
        planned_bandwidth: float = 1.0,
        pool_paces: tuple[float, ...] = (1.0,),
        network: Network | None = None,
        seats: tuple[int, ...] = (),
    ) -> None:
        self.index = index
        self.name = name
        self.gpus = gpus
        self.nodes_needed = nodes
        self.replicas = replicas
        self.nodes_per_replica = nodes // replicas
        self.nodes_per_domain = nodes_per_domain
        """Nodes of a tensor group, at least one."""
        self.narrow: dict[int, list[Any]] = {}
        """Positions whose node steps on with fewer GPUs, and the failures that took them."""
        self.first = seats[0] if seats else 0
        """Position of rank 0."""
        self.step_time = step_time
        self.step_keep = keeps_batch
        self.reroutes = reroutes
        """Whether other replicas do the work of those that are away, stage by stage."""
        self.target = target
        """Healthy seconds of work to do [s]; infinite when the job runs to the horizon."""
        self.stops_at = target
        """Work at which the job stops of itself, because it is done or meets a bug [s]."""
        self.arrival = arrival
        self.checkpoint = checkpoint
        self.account = account
        self.communication = communication
        """Share of a healthy step that waits for communication between nodes [-], if the scenario states it."""
        self.plan = plan
        """What the model of steps says, if it was told enough."""
        self.waits = plan is not None and plan.uses_network if communication is None else communication > 0
        """Whether it steps more slowly with less bandwidth between nodes."""
        self.known_paces: dict[Impairment, float] = {}
        """What the model of steps has said before: it is asked once for each configuration."""
        self.planned_bandwidth = planned_bandwidth
        """Bandwidth of a NIC when the job sits as closely together as it can, all well [B/s]."""
        self.pool_paces = pool_paces
        """Pace on nodes of each pool, relative to the first [-]."""
        self.homes: list[int] = []
        """Domain that each position was first packed into; empty when jobs are not packed."""
        self.rank_of = sorted(range(len(seats)), key=seats.__getitem__)
        """Place of each position in the order of ranks; empty where they are the same."""
        self.footprint = Footprint(network) if network is not None else None
        """Where in the network its nodes are; ``None`` when that makes no difference."""
        self.nodes = [-1] * nodes
        """Node at each position, or -1; position // nodes_per_replica is the replica."""
        self.holding = False
        """Whether the nodes at the positions are the job's; if not they are idle, and may still be here."""
        self.main = Group(self, replicas, arrival)
        self.main.missing = list(range(nodes - 1, -1, -1))
        self.away: list[Group] = []
        self.state: Progress = checkpoint.begin
        self.unsaved = self.state
        """What the state was before the save that a plan begins with."""
        self.saved_at = -math.inf
        """When that save is complete [s]."""
        self.restoration = Restoration(self.state, 0.0)
        """What the plan goes back to."""
        self.lost: set[int] = set()
        """Positions whose node has left since the job last stepped: what was kept there is gone."""
        self.dead: set[int] = set()
        """Positions whose processes have ended since: their state is gone, what is in memory and on disks is not."""
        self.reads = 0
        """How often it has looked for a copy to go back to."""
        self.rebooted: set[int] = set()
        """Positions whose node has started anew since."""
        self.read_from = ""
        """Store that the job reads on its way back; nothing while it has not begun to."""
        self.restores: dict[str, int] = {}
        """How often the job came back from each store."""
        self.accepted = 0
        """Faults of which wrong work has stayed, because no copy from before them was left."""
        self.pace = Pace(1.0, step_time)
        self.fraction = 1.0
        self.speed = 1.0
        """Pace of the slowest node of the main group [-]."""
        self.slow_cause = 0
        """Why it is slow."""
        self.evenness = 1.0
        """Work of its GPUs over that of as many in a whole job, where fewer replicas keep the batch [-]; may pass 1."""
        self.taints: list[Taint] = []
        """What is wrong with the work done since, oldest first."""
        self.paced_replicas = replicas
        """Replicas that `pace` was worked out for."""
        self.live = False
        """Whether the replicas hold the state of training."""
        self.memory: Any = None
        self.finish_at = math.inf
        """When a fixed amount of work is done if nothing disturbs it [s]; infinite while the main group waits."""
        self.looks_at = math.inf
        """When an event looks whether it is done [s]."""
        self.starts = 0
        self.start = math.nan
        self.end = math.nan
        self.finished = False
        self.running_seconds = 0.0
        self.node_seconds = 0.0
        """Time of the nodes that stepped or saved in the main group [node s]."""
        self.latencies: dict[int, float] = {}
        """Drawn detection times of disruptions, by index of the cause [s]."""
        self.excess = 0.0
        """By how much the drawn times of its plans were above the means of their laws [s]."""
        self.interruptions: dict[int, int] = {}
        self.disruptions: dict[int, int] = {}
        self.merged = 0

    def set_pace(self, fraction: float) -> None:
        """Set the pace of the main group: its share of the replicas, each at `fraction` of what its nodes can do."""
        share = self.main.replicas / self.replicas
        self.evenness = 1.0
        keeps = self.step_keep or self.reroutes
        if keeps and self.plan is not None and share < 1:
            work = self.plan.work
            missing = (self.replicas - self.main.replicas) * (work.data // self.replicas)
            if self.reroutes:
                done = rerouted_pace(work.microbatches, work.pipeline, work.data, missing)
            else:
                # The others' part of the batch grows by whole microbatches, and what a step has but once is shared by
                # more.
                done = self._planned(Impairment(missing=missing, keeps_batch=True))
            self.evenness = done / share
        # With the batch kept, fewer replicas take longer for the same step.
        pace = fraction * self.speed * self.evenness
        stretch = 1 / (share * pace) if keeps else 1 / pace
        self.fraction = fraction
        self.paced_replicas = self.main.replicas
        self.pace = Pace(share * pace, self.step_time * stretch)

    def pace_at(self, bandwidth: float, speed: float = 1.0) -> float:
        """Return the pace with the narrowest bandwidth and the slowest node [-], relative to what it was planned for.

        Where the scenario states the share c of a step that waits for the network, it is 1 / (1 - c + c / b), or that
        of the slow node if that is less; else the model of steps tells.
        """
        if self.communication is None and self.plan is not None:
            return self._planned(Impairment(compute=speed, network=min(bandwidth, 1.0)))
        return stated_pace(self.communication or 0.0, bandwidth, speed)

    def _planned(self, state: Impairment) -> float:
        """Return the pace that the model of steps gives, asked once for each state [-]."""
        assert self.plan is not None, "only of a job with a plan"
        pace = self.known_paces.get(state)
        if pace is None:
            pace = self.known_paces[state] = self.plan.pace(state)
        return pace

    @property
    def at_risk(self) -> float:
        """Healthy seconds of work that a failure may still take [s]: not durable yet, or wrong and not known to be."""
        if not self.taints:
            return self.state.at_risk
        return max(self.state.at_risk, self.work - self.taints[0].sound)

    @property
    def taint(self) -> Taint | None:
        """The oldest of what is wrong with the work, if anything is."""
        return self.taints[0] if self.taints else None

    @property
    def work(self) -> float:
        """Healthy seconds of work that survive so far [s]."""
        return self.state.committed + self.state.at_risk

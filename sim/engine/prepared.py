"""The parts of a scenario that all replications share, prepared once by ``ettrick.sim.prepare``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel

from ettrick.sim.policies.detection.race import DetectionRace
from ettrick.sim.scenario.law_model import LawModel
from ettrick.sim.scenario.laws import Fixed
from ettrick.sim.units import DAY, YEAR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ettrick.sim.cluster.paths import Paths
    from ettrick.sim.failures import FailureSource
    from ettrick.sim.input.scenario import AnyRecovery, AnyRepair, AnyScheduler, Scenario
    from ettrick.sim.policies.checkpoint import MultiLevelCheckpoint, Periodic
    from ettrick.sim.policies.repair import Stock
    from ettrick.sim.policies.scheduler.nodes import PlannerPool
    from ettrick.sim.scenario.model import CostSpec
    from ettrick.sim.scenario.streams import Arrival, Chain, JobOverhead, Partition, Tenant
    from ettrick.sim.steps import StepPlan
    from ettrick.sim.steps.power import Facility


class EngineError(ValueError):
    """A scenario asks for machine code that cannot simulate it; the message is one line that names the key."""


class SparePool(NamedTuple):
    """Nodes that a pool holds back at the start, and whether returning nodes fill it again.

    A node that is taken is ready after `delay` [s]; with `one_by_one` the next one only then begins to get ready.
    """

    nodes: int
    refills: bool = True
    delay: float = 0.0
    one_by_one: bool = False

    def ready(self, before: float, now: float) -> float:
        """Return when a node that is taken now is ready, and all that were taken with it, ready `before` [s]."""
        return max(before, (max(before, now) if self.one_by_one else now) + self.delay)


class AllocationUnits(NamedTuple):
    """Racks or scale-up domains that jobs use as wholes.

    A job takes ``needed`` nodes of a unit, the others are spares inside it. With ``drains`` a unit is of use only while
    all its nodes are healthy: to repair one of them takes the unit out of use. The numbers of a unit's nodes follow one
    another.
    """

    nodes: tuple[tuple[int, ...], ...]
    needed: int
    drains: bool = False

    def without(self, withheld: int) -> AllocationUnits:
        """Return the units that are left when so many of the last nodes are withheld."""
        return self._replace(nodes=self.nodes[: len(self.nodes) - withheld // len(self.nodes[0])])


class FabricView(NamedTuple):
    """The fabric as the engine sees it.

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


class PowerPeriod(NamedTuple):
    """A period of the power of a site.

    Attributes
    ----------
    start
        From when on [s after the warm-up].
    pace
        Pace of jobs, relative to full clocks [-].
    cause
        What lowers it; empty for nothing.
    share
        Utilisation that caps leave nodes [-].
    carbon
        What a joule emits [kg of CO2 for a J].
    price
        What multiplies the price of energy [-].
    """

    start: float
    pace: float = 1.0
    cause: str = ""
    share: float = 1.0
    carbon: float = 0.0
    price: float = 1.0


@dataclass(frozen=True)
class PowerAndCost:
    """The power and the cost of the cluster.

    Parameters
    ----------
    facility
        What draws power; ``None`` where it is not known what a node does.
    levels
        What holds of its power over time, one level after another; empty where nothing is said of that.
    ramp
        How fast the power of the facility may change [W/s]; infinite for at once.
    cap
        What the facility may draw at all times [W]; infinite without a cap.
    cost
        Its prices, if there are any.
    repaired
        For each source, the class of part that its repairs mend; empty where nothing is paid for. Without prices, none.
    """

    facility: Facility | None = None
    cost: CostSpec | None = None
    repaired: tuple[str, ...] = ()
    levels: tuple[PowerPeriod, ...] = ()
    ramp: float = math.inf
    cap: float = math.inf

    @property
    def is_steady(self) -> bool:
        """Whether its power slows no job down and means the same at all times."""
        return self.ramp == math.inf and all(level[1:] == (1.0, "", 1.0, *self.levels[0][4:]) for level in self.levels)

    def mean(self, what: Callable[[PowerPeriod], float], end: float) -> float:
        """Return the mean of something over the levels up to an end [s after the warm-up]."""
        edges = [*(min(level.start, end) for level in self.levels), end]
        return math.fsum(what(level) * (edges[i + 1] - edges[i]) for i, level in enumerate(self.levels)) / end


@dataclass(frozen=True, eq=False, repr=False)
class PreparedJob:
    """A job, ready to run.

    Parameters
    ----------
    step_time
        Time of a healthy step [s]; 0 when the scenario states none, and then progress is continuous.
    target
        Healthy seconds of work [s]; infinite for a job that runs to the horizon.
    mtti
        Mean time to interrupt that the scenario states [s].
    detection_mean
        Mean time from a failure to its detection, over the causes [s].
    mfu
        Model FLOP utilisation of the healthy step [-], if the model and its step are known.
    tokens
        Tokens of a step, 0 if unknown.
    seats
        Position of each host, in the order of ranks; empty where they follow the ranks.
    nodes_per_domain
        Nodes of a tensor group, at least one.
    stages
        Parts of a set of replicas of which each leaves alone [-]: one, or its stages.
    communication
        Share of a healthy step that waits for communication between nodes [-], where the scenario states it.
    plan
        What the step-time model says of its step, if it has its inputs.
    is_measured
        Whether the time of a step is a measurement, and not the model's.
    planned_bandwidth
        Bandwidth of a NIC when the job sits as closely together as it can [B/s].
    pool_paces
        Pace on the nodes of each pool of hosts, relative to the first [-].
    tenant, partition
        Positions in `Prepared.tenants` and `Prepared.partitions`, in addition to streams.
    """

    name: str
    gpus: int
    nodes: int
    replicas: int
    step_time: float
    keeps_batch: bool
    target: float
    arrival: float
    deadline: float | None
    checkpoint: Periodic | MultiLevelCheckpoint
    mtti: float
    detection_mean: float
    mfu: float | None
    tokens: int
    seats: tuple[int, ...] = ()
    nodes_per_domain: int = 1
    stages: int = 1
    communication: float | None = None
    plan: StepPlan | None = None
    is_measured: bool = False
    planned_bandwidth: float = 1.0
    pool_paces: tuple[float, ...] = (1.0,)
    priority: int = 0
    qos: int = 0
    tenant: int = 0
    partition: int = 0

    @property
    def parts(self) -> int:
        """The number of parts that can leave alone [-]."""
        return self.replicas * self.stages

    @property
    def tokens_per_second(self) -> float:
        """Tokens of a healthy second [1/s]; 0 if unknown."""
        return self.tokens / self.step_time if self.step_time > 0 else 0.0


class PartPlan(NamedTuple):
    """A stock of parts, and which repairs need one: of which causes, at which tier [-1 for all]."""

    stock: Stock
    causes: frozenset[str]
    tier: int


class SavePlan(NamedTuple):
    """Checkpoints of a job of a stream in closed form: each `interval` of stepping [s], infinite for none but the last.

    A save stops the job for `save` and is durable `drain` [s] later; a restore takes `restore`. The first save after
    a start comes `head` [s] earlier. Where saves share the store, `transfer` and `save_share` are those
    of a `ettrick.sim.policies.checkpoint.stores.Rung`.
    """

    interval: float
    save: JobOverhead
    restore: JobOverhead
    drain: float = 0.0
    transfer: tuple[float, float] = (0.0, 0.0)
    save_share: float = 0.0
    head: float = 0.0


@dataclass(frozen=True, eq=False, repr=False)
class PreparedStream:
    """Many jobs, ready to arrive.

    Parameters
    ----------
    index
        Its position among the streams.
    arrivals
        Jobs in order of submission for a seed, a replication and an end [s], which no submission is after.
    saves
        Checkpoints by GPUs of the job.
    restart
        From nodes to running, at each start [s].
    detection
        From a failure to its detection, mean over the causes [s].
    pending
        Jobs that are kept in the queue: whenever one starts, the next arrives; 0 where they arrive by themselves.
        Where it is not, all are submitted at 0 and there is no end of them.
    chain
        Limit and notice of work that is done in several runs.
    exact
        Whether the limit of a job is what it takes, whatever delays it.
    is_recorded
        Whether its jobs are those of a trace, the same in every replication.
    gpus
        Sizes of its jobs and how likely each is [-]; of a trace, how frequent.
    rate
        Mean arrivals [1/s]; 0 for a backlog, of a log those until the horizon.
    last
        When the last job of a log arrives [s]; infinite where they go on to arrive.
    mean_work
        Mean GPU-time of a job [GPU s]; infinite where some never end.
    mttf
        Expected running time between unplanned failures of a job, by its GPUs [s].
    """

    name: str
    index: int
    arrivals: Callable[[int, int, float], Iterator[Arrival]]
    saves: Mapping[int, SavePlan]
    restart: float = 0.0
    detection: float = 0.0
    pending: int = 0
    chain: Chain | None = None
    exact: bool = False
    is_recorded: bool = False
    qos: int = 0
    gpus: Mapping[int, float] = field(default_factory=dict)
    rate: float = 0.0
    last: float = math.inf
    mean_work: float = 0.0
    mttf: Mapping[int, float] = field(default_factory=dict)


class PreparedFleet(NamedTuple):
    """The streams of a scenario, and who shares the cluster."""

    streams: tuple[PreparedStream, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    partitions: tuple[Partition, ...] = ()
    warnings: tuple[str, ...] = ()
    jobs: tuple[tuple[int, int], ...] = ()
    """Tenant and partition of each named job, by position."""
    events: float = 0.0
    """About how many events jobs of streams have: arrival, start, end, and one more for the queue [-]."""


class RequestRates(NamedTuple):
    """Requests of a service over time: a rate [1/s] times factors in equal parts of a period [s], and growth a year.

    What grows has the rate of the middle of each `step`, or of parts of equal length that are no longer [s].
    """

    rate: float
    every: float
    factors: tuple[float, ...] = (1.0,)
    growth: float = 0.0
    step: float = DAY

    def pieces(self) -> Iterator[tuple[float, float]]:
        """Yield until when a rate holds [s], and the rate [1/s]."""
        width, count = self.every / len(self.factors), 0
        pieces = math.ceil(width / self.step) if self.growth else 1
        width /= pieces
        if len({*self.factors}) == 1 and not self.growth:
            yield math.inf, self.rate * self.factors[0]
        while True:
            grown = (1 + self.growth) ** ((count + 0.5) * width / YEAR)
            yield (count + 1) * width, self.rate * self.factors[count // pieces % len(self.factors)] * grown
            count += 1


@dataclass(frozen=True, eq=False, repr=False)
class ServicePlan:
    """A service, ready to serve.

    Parameters
    ----------
    index
        Its position among the services; as an account it comes after the streams.
    replicas, together
        Replicas, and how many of them share a node and fail as one.
    stream
        What its gangs are to the queue: jobs without an end.
    nodes, gpus
        Of a gang: whole nodes, and the GPUs of one replica.
    priority, tenant, partition
        As of a job.
    capacity
        Requests that a replica admits [1/s].
    batch, tpot, attainment
        Of a replica, at equal steps of its use from 0 to 1: sequences in flight [-], time per token [s], share of
        requests in SLO [-].
    doubt
        How far `attainment` may be off, at 95 %, because a replay has only so many requests [-].
    output
        Tokens of an answer [-].
    whole
        Length of the answers that are in flight over that of all: long ones are there for longer [-].
    slack
        Wait with which a request is still in SLO [s].
    limit
        Time per token of the SLO [s].
    rates
        What is asked.
    patience
        How long clients wait, all their retries together [s]; 0 where they are turned away at once.
    load, start, interruption
        Weights are read, processes start; until a standby or what is left of a gang serves [s].
    keeps_nodes, has_standby
        Whether a gang goes on with the nodes that are left, and whether a standby takes over from processes.
    most_lost
        GPUs of a node without which its replicas serve on [-].
    warm_time, warm_speed
        For how long a started replica is slower [s], and its capacity then [-].
    loses, begins_anew
        Whether requests in flight fail, and whether the others begin again.
    recompute
        Time of a replica to read prompt and tokens of a request again [s]; 0 with a copy.
    scale
        Demand over capacity that is aimed at, fewest and most replicas, reaction [s].
    upgrade
        Time between rolling upgrades [s], and replicas that start again together.
    asks
        How often a client in all asks that gives up after `patience`, where what it asked for is served in vain; 0
        where it leaves the queue.
    readers
        Those that read the prompts, where these replicas do not: `batch` are prompts that a reader has, `attainment` is
        of TTFT, and that of these replicas of TPOT.
    """

    name: str
    index: int
    replicas: int
    together: int
    stream: PreparedStream
    nodes: int
    gpus: int
    priority: int
    tenant: int
    partition: int
    capacity: float
    batch: tuple[float, ...]
    tpot: tuple[float, ...]
    attainment: tuple[float, ...]
    doubt: tuple[float, ...]
    output: float
    whole: float
    slack: float
    limit: float
    rates: RequestRates
    patience: float
    load: float = 0.0
    start: float = 0.0
    interruption: float = 0.0
    keeps_nodes: bool = False
    has_standby: bool = False
    most_lost: int = 0
    warm_time: float = 0.0
    warm_speed: float = 1.0
    loses: bool = False
    begins_anew: bool = False
    recompute: float = 0.0
    scale: tuple[float, int, int, float] | None = None
    upgrade: tuple[float, int] | None = None
    asks: int = 0
    readers: ServicePlan | None = None

    @property
    def admitted(self) -> float:
        """Requests that all replicas admit [1/s]."""
        capacity = self.replicas * self.capacity
        return capacity if self.readers is None else min(capacity, self.readers.admitted)

    @property
    def gangs(self) -> int:
        """Gangs at the start [-]."""
        return -(-self.replicas // self.together)


class TargetPlan(NamedTuple):
    """The target of a service, a job or a stream in each window of time.

    Parameters
    ----------
    name, of
        Its name, and that of the service, job or stream.
    kind, place
        The key of the scenario that has it, and its place there.
    metric, least
        A metric, and what it has to reach [-].
    windows
        Of how many windows of results one of the target consists [-].
    credits
        Below what a part of the bill is given back, and which part [-].
    bill
        What a window is billed at; ``None`` where it is not known.
    """

    name: str
    of: str
    kind: str
    place: int
    metric: str
    least: float
    windows: int
    credits: tuple[tuple[float, float], ...] = ()
    bill: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Prepared:
    """A scenario with everything worked out that its replications share. Read-only; can be pickled."""

    scenario: Scenario
    name: str
    nodes: int
    gpus_per_node: int
    reserves: Mapping[str, SparePool]
    horizon: float
    warmup: float
    windows: float | None
    stationary: bool
    seed: int
    slots_per_node: Mapping[str, int]
    repair: AnyRepair
    recovery: AnyRecovery
    scheduler: AnyScheduler
    counts: Mapping[str, int]
    units: AllocationUnits | None = None
    sources: tuple[FailureSource, ...] = ()
    blast: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    jobs: tuple[PreparedJob, ...] = ()
    merged_intervals: int = 0
    network: FabricView | None = None
    capacity: float = 1.0
    packed_by: tuple[int, ...] = ()
    withheld: int = 0
    warnings: tuple[str, ...] = ()
    parts: Mapping[str, PartPlan] = field(default_factory=dict)
    """Stock of parts by class; empty where no repair waits for any."""
    preflight: float | None = None
    """The time that a job stands still while nodes that join it are checked [s]; without it nobody checks them."""
    upkeep: PowerAndCost = PowerAndCost()
    expected_events: float = 0.0
    """Events of one replication, about: see `ettrick.sim.prepare.failures.FailureRates.events`."""
    engine: Literal["auto", "events", "compiled"] = "auto"
    """The engine of its replications; undecided (``auto``), the event engine."""
    engine_reason: str = ""
    """The reason for the event engine: the key of what the compiled loop does not know, or that it would not pay."""
    streams: tuple[PreparedStream, ...] = ()
    services: tuple[ServicePlan, ...] = ()
    targets: tuple[TargetPlan, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    """Whose jobs those of streams are: those that the scenario states, then others that jobs name."""
    partitions: tuple[Partition, ...] = ()
    """At least one where there are streams; the first is that of jobs that name none."""
    pools: tuple[PlannerPool, ...] = ()
    """Nodes that are alike to the planner of streams, while they are simulated; `packed_by` says which each is of."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave the description behind when a worker process takes over: it needs the plans only."""
        return {**self.__dict__, "scenario": None}

    @property
    def has_queue(self) -> bool:
        """Whether streams or services share the queue of the cluster."""
        return bool(self.streams or self.services)

    @property
    def serving(self) -> int:
        """Nodes that jobs can get; the last ones may be withheld [-]."""
        return self.nodes - self.withheld

    @property
    def spares(self) -> int:
        """Hot spares."""
        return self.reserves["spare"].nodes

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether nothing is random, so that all replications are the same; ``False`` also where this is not known."""
        if self.has_queue or self.scheduler.pick == "random" or any(job.parts > job.nodes for job in self.jobs):
            return False
        if any(self._is_drawn(source) for source in self.sources):
            return False
        return not any(
            map(_has_chance, (self.repair, self.recovery, self.parts, [job.checkpoint for job in self.jobs]))
        )

    @property
    def is_replay(self) -> bool:
        """Whether jobs of traces are all that happens, so that one replication tells all."""
        has_others = self.jobs or self.services or self.sources or self.scheduler.pick == "random"
        return not has_others and all(stream.is_recorded for stream in self.streams)

    def _is_drawn(self, source: FailureSource) -> bool:
        """Return whether chance decides when a source strikes, whom, or for how long."""
        return bool(
            (source.law is not None and (self.stationary or source.ages))
            or (source.recorded is not None and source.recorded.spread)
            or (source.blast is not None and source.blast.size is not None)
            or any((source.variety, source.tempo, source.hidden, source.rollout))
            or any((source.of_fabric, source.thinned, source.alarm, any(source.checked)))
            or _has_chance(source)
        )

    def with_sources(self, sources: tuple[FailureSource, ...]) -> Prepared:
        """Return the same with other failure sources."""
        return replace(self, sources=sources)


_PROBABILITIES = frozenset(
    ("blames_other", "corrupt", "escalates", "finds", "fixes", "idle_hazard", "interrupts", "preflight", "probability")
) | {"recall", "repaired", "share"}
"""Fields of descriptions that are probabilities: chance decides unless they are 0 or 1."""


def _has_chance(value: object, name: str = "") -> bool:
    """Return whether a description has a time with more than one value, or a probability, in any of its parts."""
    if isinstance(value, LawModel):
        return not isinstance(value, Fixed)
    if isinstance(value, DetectionRace):
        return value.fixed is None
    if isinstance(value, float):
        return name in _PROBABILITIES and 0 < value < 1
    if isinstance(value, BaseModel):
        return any(_has_chance(getattr(value, field), field) for field in type(value).model_fields)
    if is_dataclass(value):
        return any(_has_chance(getattr(value, field.name), field.name) for field in fields(value))
    if isinstance(value, Mapping):
        return any(map(_has_chance, value.values()))
    if isinstance(value, tuple | list):
        names = getattr(value, "_fields", ("",) * len(value))
        return any(map(_has_chance, value, names))
    return False

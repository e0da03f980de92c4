"""The results of commands, as frozen models: their dump is the JSON of the commands, and can be read back.

Those of commands that look at a scenario without leaving a folder are in `ettrick.analysis.results.explained`.

The reference page and the JSON Schema are written from them. Times are in seconds, GPU-time in GPU-seconds, shares
between 0 and 1; what the data do not support is null. A key that another version writes next to these is left out on
reading; one with a default may be missing.
"""

# Annotations are not postponed: pydantic would compile each at the start, a fifth of what these models cost.
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, WrapSerializer, model_validator

from ettrick.analysis.parts import (
    Count,
    DifferenceSummary,
    Document,
    EventCount,
    Labels,
    MetricSummary,
    Number,
    Numbers,
    Pair,
    Part,
    Real,
    Texts,
    Whole,
)
from ettrick.sim.yamlfile import suggest


class Provenance(Part):
    """The origin of the numbers: command, version, seed, inputs."""

    version: str = Field(description="Version of Ettrick.")
    scenario_sha256: str = Field("", description="Of the scenario's content, the same wherever its files lie.")
    python: str = Field(description="Version of Python.")
    numpy: str = Field(description="Version of NumPy.")
    command: str = Field(description="The command, to be typed again.")
    engine: str = Field("", description="Engine of the replications: `events`, or `compiled`, machine code.")
    engine_reason: str = Field("", description="Why events did.")
    model: str = Field("", description="Of a sweep, digest of the simulator.")
    sha256: str = Field(
        "", description="Checksum of all but `provenance`: `report` and `plot` refuse a document that was changed."
    )


# Keys that stand in several documents.
ScenarioName: TypeAlias = Annotated[str, Field(description="Name of the scenario.")]
Origin: TypeAlias = Annotated[Provenance, Field(description="How the numbers were made.")]


# ----------------------------------------
# A run.


Metrics: TypeAlias = Annotated[dict[str, MetricSummary], Field(description="By [metric](metrics.md).")]


class JobSummary(Part):
    """A job of a run; `band90` of its metrics is null."""

    gpus: Count = Field(description="GPUs of the job.")
    requested_gpu_s: Real = Field(description="Requested GPU-time of a mean replication [GPU s].")
    metrics: Metrics
    time_shares: Numbers = Field(description="By [bucket](buckets.md#of-a-job): share of its requested GPU-time.")
    finished: Count = Field(0, description="Replications in which a fixed amount of work was done.")
    censored: Count = Field(0, description="Replications in which it was not.")
    never_started: Count = Field(0, description="Replications in which the job never got its nodes.")
    restores: Numbers = Field({}, description="By store, restores from it, mean over replications.")
    accepted_taints: Number = Field(None, description="Faults whose wrong work has stayed, mean over replications.")
    given_up: Count = Field(0, description="Replications in which it failed for good.")
    given_up_at_s: Number = Field(None, description="When, mean over these [s].")
    given_up_for: dict[str, Count] = Field({}, description="Replications in which it failed for good, by cause.")
    never_arrived: Count = Field(0, description="Replications that ended before the job arrived.")


class NodePowerSummary(Part):
    """The power of a node by activity."""

    idle_w: Real = Field(description="Idle [W].")
    training_w: Real = Field(description="In training [W].")
    gpus: Count = Field(description="GPUs of the node.")
    measured: bool = Field(description="Whether both were measured.")
    source: str = Field(description="Source of the value.")


class Energy(Part):
    """Energy of a mean replication; [what a run takes](../explanation/power-and-cost.md) has the formulas."""

    nodes_j: Numbers = Field(description="Of the nodes by [bucket of the cluster](buckets.md#of-the-cluster) [J].")
    network_j: Real = Field(description="Of switches [J].")
    storage_j: Real = Field(description="Of storage [J].")
    overhead_j: Real = Field(description="Overhead of the facility by PUE [J].")
    total_j: Real = Field(description="All of it, the mean of the metric `energy` [J].")
    pue: Real = Field(description="Power of the facility over that of what stands in it.")
    switches: Whole = Field(description="Number of switches.")
    switch_w: Real = Field(description="Power of one [W].")
    node: NodePowerSummary | None = Field(None, description="Power of a node.")
    assumptions: Texts = Field(description="Assumptions of the energy that are not measured.")


class ClusterCost(Part):
    """Cost of a mean replication, in its currency; 0 for what has no price."""

    currency: str = Field(description="Currency of the scenario.")
    allocation: str | None = Field(None, description="How jobs share what is paid for; null where it is not needed.")
    capex: Number = Field(None, description="Hardware.")
    energy: Number = Field(None, description="Energy.")
    storage: Number = Field(None, description="Storage.")
    repair: Number = Field(None, description="Parts of repairs.")
    labour: Number = Field(None, description="Labour of repairs.")
    rent: Number = Field(None, description="GPU-hours at a price.")
    parts: Number = Field(None, description="Parts bought for stock, and held there.")
    total: Real = Field(description="All of it, the mean of the metric `cost`.")
    repairs: Numbers = Field(description="Repairs that began, by class of part.")


class Quantiles(Part):
    """Fewest nodes such that no more are down for so much of the time."""

    p50: Whole = Field(description="50 % of the time.")
    p90: Whole = Field(description="90 % of the time.")
    p99: Whole = Field(description="99 % of the time.")
    p999: Whole | None = Field(None, description="99.9 % of the time.")


class ExceedanceShare(Part):
    """For how much of the time more than a number are down."""

    count: Count = Field(description="A number of nodes: 0, 1, 2, 4, 8, ... below `max`, and that of the hot spares.")
    gpus: Count = Field(description="GPUs of these nodes.")
    time_share: Real = Field(description="Share of the time with more.")


class NodesDown(Part):
    """The number of nodes, or domains, that are down at once, over the time of all replications after warm-up."""

    mean: Real = Field(description="Mean number that is down.")
    p50: Whole = Field(description="Smallest number such that no more are down for 50 % of the time.")
    p90: Whole = Field(description="Smallest number such that no more are down for 90 % of the time.")
    p99: Whole = Field(description="Smallest number such that no more are down for 99 % of the time.")
    p999: Whole | None = Field(None, description="Smallest number such that no more are down for 99.9 % of the time.")
    max: Whole = Field(description="Most that were down at once.")
    dispersion: Number = Field(
        description="Variance over that of independent nodes with the same mean; null if none was ever down."
    )
    independent: Quantiles = Field(description="Of independent nodes with the same mean (binomial).")
    more_than: list[ExceedanceShare] = Field([], description="The share of the time with more than so many.")


class EmptyRun(Part):
    """Empty: no time passed."""

    model_config = ConfigDict(extra="forbid")


class Window(Part):
    """A stretch of time."""

    start_s: Real = Field(description="Its start, after the warm-up [s].")
    end_s: Real = Field(description="Its end [s].")


class RunWindow(Window):
    """A window of a scenario with `windows` or `targets`; lost work counts in the window in which it was done."""

    replications: Count = Field(description="How many got that far.")
    ettr: Number = Field(description="ETTR of this window.")
    time_shares: Numbers = Field(description="By bucket, of this window.")


class Extrapolated(Part):
    """A failure bundle that was counted on jobs of other sizes."""

    bundle: str = Field(description="Name of the bundle.")
    counted_on_gpus: list[Whole] = Field(description="The smallest and the largest of those jobs.")
    job: str = Field(description="The job that is furthest from these.")
    gpus: Count = Field(description="Its GPUs.")
    ettr: Real = Field(
        description="ETTR by the formula with failures of GPUs and nodes in proportion to the GPUs, and those of "
        "`kept` as often as in a job of `counted_on_gpus`."
    )
    kept: Texts = Field([], description="Causes of jobs, whose rate is not scaled with the GPUs.")
    ettr_proportional: Number = Field(
        None, description="With these in proportion to the GPUs too; null where there are none."
    )
    ettr_superlinear: Number = Field(
        description="With failures growing with the power `exponent` beyond; null for a smaller job."
    )
    exponent: Number = Field(description="That power.")
    exponent_source: str = Field("", description="Source of the value.")


class SimulatedEttr(Part):
    """ETTR of the replications compared with a formula.

    There is no interval for one replication, where all come to the same, and for a log, which is one history.
    """

    replications: Count = Field(description="Number of replications.")
    ettr: Number = Field(description="Their ETTR.")
    ettr_ci95: Pair = Field(description="The part of its 95 % interval that is within 0..1.")
    standard_error: Number = Field(description="Of the ETTR.")
    standard_errors_above: Number = Field(description="By how many of these it is above the formula's.")
    outside_ci95: Number = Field(description="How far the formula's is outside of the interval, 0 inside.")


class ClosedFormSummary(Part):
    """The closed form of a scenario."""

    applies: bool = Field(True, description="Whether a formula applies.")
    reasons: Texts = Field(
        [],
        description="Why none does: the recovery has none, or what it leaves out takes "
        "[more than a point](../explanation/semantics.md#where-the-closed-form-does-not-apply).",
    )
    ettr: Number = Field(description="Expected ETTR in the long run; null where no formula applies.")
    form: str | None = Field(
        description="Which formula: `renewal`, with `classes of failures` or `several stores`; or `elastic replicas`."
    )
    time_shares: Numbers = Field(
        description="Expected shares; `restart` is reschedule + initialize + restore, `queued` the wait after a rung's "
        "patience. Empty where no formula applies."
    )
    availability: Numbers = Field(
        {},
        description="`node_availability` and, of domains used as wholes, `domain_availability` expected in the long "
        "run of identical nodes that fail one by one or as a domain, and wait for no repair; else empty.",
    )
    assumptions: Texts = Field(description="Assumptions of the formula that the scenario breaks.")
    waste: dict[str, Numbers] | None = Field(
        description="By order in the failure rate, `first`, `second`, `exact`: shares lost, by bucket, and `total`; "
        "null where the formula does not tell causes apart."
    )
    waste_by_cause: dict[str, dict[str, Numbers]] | None = Field(
        description="Shares lost by order in the failure rate, cause and bucket; `checkpoint_stall` is that of "
        "`no_failure`."
    )
    extrapolated: list[Extrapolated] = Field(description="Failure bundles that were counted on jobs of other sizes.")
    simulated: SimulatedEttr | None = Field(
        description="The simulated values to compare with; null where nothing was simulated."
    )


class StepSummary(Part):
    """A healthy step; what needs the step model is null for a job without `model`, `batch` and `parallelism`."""

    time_s: Number = Field(description="Time of the step [s]; null if nothing tells it.")
    basis: str | None = Field(
        description="`measured`, `calibrated`, or the step model with efficiencies that are `fitted`, `assumed`, "
        "or of an accelerator of which there is the `peak only`."
    )
    stated: str | None = Field(description="The key of the scenario that tells it, `step_time` or `mfu`; else null.")
    sigma: Number = Field(None, description="Standard deviation of the logarithm of true over stated time.")
    band90_s: Pair = Field(None, description="Interval that holds the time with 90 % [s]; null for a measured step.")
    model_s: Number = Field(None, description="Time by the step model only [s].")
    model_sigma: Number = Field(None, description="Standard deviation of the logarithm of true over modelled time.")
    model_band90_s: Pair = Field(
        None, description="Interval that holds the time with 90 %, by the step model only [s]."
    )
    scale: Number = Field(None, description="`time_s` over `model_s`: a measured step scales all terms.")
    breakdown: Numbers = Field(
        description="By term [s]; they sum to `time_s`. `gemm`, `attention`, `elementwise`, `launch`, `logits` compute "
        "on the slowest stage; `tensor`, `context`, `expert`, `pipeline`, `data` communicate unhidden; `bubble` fills "
        "the pipeline; `optimizer`, `overhead` come once a step."
    )
    mfu: Number = Field(description="Model FLOP utilisation of the step.")
    mfu_convention: str | None = Field(None, description="FLOP that `mfu` counts.")
    memory_bytes: Numbers | None = Field(
        None, description="Memory used on the fullest GPU, by part, the `total` of these, and the `capacity` [B]."
    )


class JobDistribution(Part):
    """The distribution over single jobs of all replications; exact to a bin of 9 %."""

    p05: Number = Field(description="5 % of the jobs have less.")
    p50: Number = Field(description="The median.")
    p95: Number = Field(description="95 % of the jobs have less.")


class GroupSummary(Part):
    """Jobs of streams that have something in common."""

    jobs: Real = Field(description="Submitted in a mean replication.")
    gpu_s: Real = Field(description="GPU-time that they held, in a mean replication [GPU s].")
    metrics: dict[str, MetricSummary] = Field(
        description="By [metric](metrics.md); those that end in `@weight=gpu_time` count a job by its GPU-time."
    )
    single_jobs: dict[str, JobDistribution] = Field(description="By metric, its quantiles over jobs.")
    longest_wait_s: Number = Field(None, description="Longest time in the queue of one job, over or not [s].")
    mttf_expected_s: Number = Field(
        None, description="Of a size: running time between failures by their laws, 1 / (nodes × rate of a node) [s]."
    )


class TenantSummary(Part):
    """The share of a tenant in the GPU-time of all jobs."""

    held_share: Real = Field(description="Its share.")
    entitled_share: Real = Field(description="Its quota over all quotas where all have one, else so of weights.")


class LedgerRow(Part):
    """GPU-time by bucket, root cause, and how the cause reached the job."""

    bucket: str = Field(description="A [bucket](buckets.md).")
    cause: str = Field(
        description="Root cause: a failure source, `drain`, `demand` (a job of a higher class arrived), `reclaim`, "
        "`limit`, or `no_failure`; of `unallocated` why no job had the GPUs."
    )
    via: str = Field(description="`direct`, or `preemption`: another job took the nodes.")
    gpu_s: Real = Field(description="In a mean replication [GPU s].")


class StopsSummary(Part):
    """Running jobs of a size that were stopped."""

    size: Whole = Field(description="Class of the stopped jobs: a power of two of GPUs, and more.")
    cause: str = Field(description="Root cause, as in the ledger.")
    via: str = Field(description="`direct`, or `preemption`: another job took the nodes.")
    by: Whole | None = Field(description="Class of the job that took the nodes; null without one.")
    stops: Real = Field(description="In a mean replication.")
    gpus: Real = Field(description="GPUs of the stopped jobs together.")
    lost_gpu_s: Real = Field(description="Work that they lost [GPU s].")


class EndsSummary(Part):
    """Jobs with the same outcome."""

    jobs: Real = Field(description="In a mean replication.")
    gpu_s: Real = Field(description="GPU-time that they held [GPU s].")


class QueueGrowth(Part):
    """The growth of the queue over the run."""

    gpus_per_day: Real = Field(description="GPUs that the jobs in the queue ask for.")
    ci95: Pair = Field(description="Its 95 % interval; null where the queue is the same all the time.")
    saturated: bool = Field(
        description="Whether more work arrives than the cluster does, at 99 % confidence: what depends on the queue "
        "has no mean then."
    )


class FleetWindow(Window):
    """Means over a stretch of time, and over replications."""

    allocated: Real = Field(description="GPUs of jobs.")
    healthy: Real = Field(description="GPUs in working order.")
    queued_gpus: Real = Field(description="GPUs that waiting jobs ask for.")
    queued_jobs: Real = Field(description="Waiting jobs.")


class FleetSummary(Part):
    """The results of the streams of jobs of a run."""

    gpus: Count = Field(description="GPUs of the cluster.")
    jobs: Real = Field(description="Jobs that were submitted in a mean replication.")
    owned_gpu_s: Real = Field(description="GPU-time of the cluster in a mean replication [GPU s].")
    intervals: str = Field(description="Samples behind the intervals: `replications`, `batch means`, or `none`.")
    batches: Count = Field(description="How many batches, of all replications; 0 where intervals are of these.")
    correlated: Texts = Field(description="Metrics without an interval, because adjacent batches are too correlated.")
    growth: QueueGrowth | None = Field(
        description="Of the queue; null with too few windows for a line, and where all jobs are of logs that end."
    )
    outcomes: dict[str, EndsSummary] = Field(description="By how the jobs ended, or what they did at the end.")
    single_jobs: dict[str, JobDistribution] = Field(description="By metric, its quantiles over all jobs.")
    by: dict[str, dict[str, GroupSummary]] = Field(
        description="By `size`, `stream`, `tenant`, `priority`, `partition` with several groups: each group."
    )
    ledger: list[LedgerRow] = Field(
        description="Where the GPU-time of the cluster went; without the rows of `queued`, which no GPU spent, it adds "
        "up to `owned_gpu_s`, named jobs aside."
    )
    stops: list[StopsSummary] = Field(description="Stops of running jobs.")
    tenants: dict[str, TenantSummary] = Field({}, description="By name, where there are several.")
    windows: list[FleetWindow] = Field(description="The cluster over time.")

    @property
    def is_empty(self) -> bool:
        """Whether the run had no streams; the document has null then."""
        return not self.gpus


# Not validated: that would compile the model at the start.
NO_STREAMS = FleetSummary.model_construct(
    gpus=0, jobs=0.0, owned_gpu_s=0.0, intervals="", batches=0, correlated=[], growth=None, outcomes={}, single_jobs={},
    by={}, ledger=[], stops=[], windows=[],
)  # fmt: skip

if TYPE_CHECKING:
    Streams: TypeAlias = FleetSummary
else:
    Streams = Annotated[
        FleetSummary | None,
        Field(description="Results of streams of jobs; null without any."),
        AfterValidator(lambda fleet: fleet or NO_STREAMS),
        WrapSerializer(lambda fleet, serialize: None if fleet.is_empty else serialize(fleet)),
    ]


class ServiceWindow(Window):
    """A service in a window of time, mean over the replications."""

    demand_per_s: Real = Field(description="Requests offered [1/s].")
    capacity_per_s: Real = Field(description="Requests that the replicas that serve admit [1/s].")
    replicas: Real = Field(description="Replicas that serve.")
    slo_attainment: Number = Field(description="Requests in SLO over those offered; null without any.")


class StandingSummary(Part):
    """The closed form of replicas that fail, with spare nodes."""

    capacity_share: Real = Field(description="Share of the replicas that serve, mean over time.")
    all_serving: Real = Field(description="Share of the time with all of them.")
    capacity_availability: Real = Field(description="Share of the time in which they admit the mean demand.")


class ServiceSummary(Part):
    """The results of a service of a run."""

    replicas: Count = Field(description="Replicas.")
    gpus: Count = Field(description="GPUs of one.")
    capacity_per_s: Real = Field(description="Requests that a replica admits [1/s].")
    metrics: Metrics
    requests: Numbers = Field(
        description="Requests of a mean replication by what became of them: `in_slo`, `late`, `rejected` or given up, "
        "`failed`, or `waiting` at the end; their sum is `offered`. Of these `moved` from a failed replica to another."
    )
    stops: Real = Field(description="Failures that stopped a replica, or a node full of them, in a mean replication.")
    in_flight: Number = Field(description="Requests in flight at such a stop, mean; null without any.")
    tokens_lost: Real = Field(description="Tokens that were made and lost, in a mean replication.")
    recomputed_s: Real = Field(description="Time of replicas to read moved requests again, in a mean replication [s].")
    closed_form: StandingSummary | None = Field(description="Closed-form results; null where replicas are scaled.")
    windows: list[ServiceWindow] = Field(description="The service over time.")


class TargetSummary(Part):
    """The results of a target of a run."""

    of: str = Field(description="Name of the service, job or stream.")
    metric: str = Field(description="The [metric](metrics.md) that is promised.")
    at_least: Real = Field(description="Value that a window has to reach.")
    window_s: Real = Field(description="Width of a window [s].")
    windows: Count = Field(description="Whole windows of a run.")
    metrics: Metrics


# What a run and each variant of a comparison state.
OverallMetrics: TypeAlias = Annotated[
    dict[str, MetricSummary], Field(description="By [metric](metrics.md), over all jobs.")
]
RequestedShares: TypeAlias = Annotated[
    Numbers, Field(description="By [bucket](buckets.md#of-a-job): share of the requested GPU-time; sum 1.")
]
OwnedShares: TypeAlias = Annotated[
    Numbers, Field(description="By [bucket](buckets.md#of-the-cluster): share of the owned GPU-time; sum 1.")
]
CauseCounts: TypeAlias = Annotated[dict[str, EventCount], Field(description="By cause, most frequent first.")]
CauseLosses: TypeAlias = Annotated[
    dict[str, dict[str, Real]],
    Field(description="By cause, `no_failure` included, and bucket: GPU-seconds in a mean replication."),
]
EnergyUse: TypeAlias = Annotated[
    Energy | None, Field(description="Energy by consumer; null if the power of a node is not known.")
]
Spending: TypeAlias = Annotated[ClusterCost | None, Field(description="Costs by item; null without prices.")]
Jobs: TypeAlias = Annotated[
    dict[str, JobSummary], Field(description="By name of the job; empty where all are of streams.")
]
Assumptions: TypeAlias = Annotated[Texts, Field(description="Assumptions of the scenario.")]
Advice: TypeAlias = Annotated[Texts, Field(description="Settings of a valid scenario that cost more than necessary.")]
Notes: TypeAlias = Annotated[Texts, Field(description="Points to know before you use the numbers.")]


class RunDocument(Document):
    """`ettrick run SCENARIO --json` prints this document; `--out DIR` writes it to `run.json`."""

    scenario: ScenarioName
    engine: str = Field("des", description="`des`, discrete-event simulation.")
    replications: Annotated[int, Field(ge=1)] = Field(description="Replications that were simulated.")
    interrupted: Count = Field(0, description="In how many of them a job was interrupted.")
    seed: Whole = Field(description="Seed of all random numbers.")
    initial: str = Field("", description="State of the parts at the start: `new` or `stationary`.")
    horizon_s: Real = Field(description="Simulated time [s].")
    warmup_s: Real = Field(description="Of it, before anything is counted [s].")
    metrics: OverallMetrics
    time_shares: RequestedShares
    cluster_shares: OwnedShares
    interruptions_by_cause: CauseCounts
    loss_gpu_s: CauseLosses
    repair_from: Labels = Field(
        {},
        description="By cause, whose repair applies: of the `source` itself, of the `entry` of `failures` that uses a "
        "bundle, of the `scenario` or of the `bundle`. Causes that take no node are left out.",
    )
    counts: Numbers = Field(
        description="Events by what became of them, mean of a replication; "
        "[how they add up](metrics.md#counts-that-must-add-up)."
    )
    nodes_down: NodesDown | EmptyRun = Field(description="How many nodes are down at once; empty if no time passed.")
    domains_down: NodesDown | None = Field(
        None, description="Number of domains, of those used as wholes, that are unusable at once; null without these."
    )
    energy: EnergyUse
    cost: Spending
    windows: list[RunWindow] = Field(
        description="An entry for each window if the scenario sets `windows` or `targets`, else empty."
    )
    closed_form: ClosedFormSummary = Field(description="Closed-form results.")
    step: StepSummary = Field(description="The healthy step of the first job.")
    per_job: Jobs
    per_service: dict[str, ServiceSummary] = Field({}, description="By name of the service.")
    per_target: dict[str, TargetSummary] = Field({}, description="By name of the target.")
    fleet: Streams = NO_STREAMS
    measured: Numbers = Field({}, description="With `--measured`: shares of the file by bucket, means over its days.")
    assumptions: Assumptions
    warnings: Advice
    notes: Notes
    provenance: Origin


# ----------------------------------------
# A comparison.


class VariantSummary(Part):
    """A variant: as in [the document of a run](#run-document), and its differences."""

    scenario_sha256: str = Field(description="Of the scenario's content.")
    scenario: ScenarioName
    metrics: OverallMetrics
    time_shares: RequestedShares
    cluster_shares: OwnedShares
    interruptions_by_cause: CauseCounts
    loss_gpu_s: CauseLosses
    energy: EnergyUse
    cost: Spending
    per_job: Jobs
    fleet: Streams = NO_STREAMS
    assumptions: Assumptions
    warnings: Advice
    notes: Notes
    difference: dict[str, DifferenceSummary | None] = Field(
        description="By metric, to the first variant, or null. Empty for the first."
    )


class StoresSummary(Part):
    """The effect of the checkpoint stores of a preset on the headline."""

    without: str = Field("", description="The variant without them.")
    gain: DifferenceSummary | None = Field(description="How far it is above that.")
    rest: DifferenceSummary | None = Field(description="How far that is above the first, without its stores.")


class TimesSummary(Part):
    """The best variant over another."""

    mean: Real = Field(description="How many times the headline of the other it has.")
    ci95: Pair = Field(description="Its interval; null where it is the same in all replications.")


class Shortfall(Part):
    """The distance of a variant from the best of the others."""

    mean: Real = Field(description="The difference.")
    ci95: Pair = Field(
        description="Its interval, together for all variants; null where it is the same in all replications."
    )


class RankingSummary(Part):
    """The variants, of three or more, that may be the best, together at 95 %."""

    behind: dict[str, Shortfall] = Field(description="By name.")
    may_be_best: Texts = Field(description="Variants that may be the best.")
    replications_to_resolve: Whole | None = Field(
        description="Replications after which only one would remain; null for too many."
    )


class TakenSummary(Part):
    """The resources of a variant."""

    gpus: Number = Field(description="GPUs owned.")
    in_jobs: Number = Field(description="GPUs that its jobs ask for.")
    megawatts: Number = Field(description="Power that the facility is built for [MW].")
    cost_per_day: Number = Field(description="Cost of a mean day, in `currency`.")
    currency: str = Field(description="Empty without prices.")


class AtEqual(Part):
    """The amount at which unlike clusters are compared."""

    kind: str = Field(description="`gpus`, `power` or `cost`.")
    variants: dict[str, TakenSummary] = Field(description="By name.")
    lines: Texts = Field(description="Ratios computed, in words.")


class CompareDocument(Document):
    """`ettrick compare --json` prints this document; `--out DIR` writes it to `compare.json`."""

    replications: Annotated[int, Field(ge=1)] = Field(description="Common to all variants.")
    seed: Whole = Field(description="Common to all variants.")
    precise: bool | None = Field(description="Whether the precision asked for was reached; null if none was.")
    first: str = Field(description="The variant that the others are compared with.")
    instead_of: str | None = Field(None, description="The one that they were to be compared with, if it cannot run.")
    headline: str = Field(description="The metric that they are compared by.")
    order: Texts = Field(description="Best first by the headline; empty where there is no rank.")
    ranking: RankingSummary | None = Field(description="Of three variants or more.")
    times: dict[str, TimesSummary] = Field({}, description="The best variant over each other one, by its name.")
    at_equal: AtEqual | None = Field(description="With `--at-equal`.")
    differs: Texts = Field(description="Which of model, precision, layout and accelerator are not the same in all.")
    varied: Texts = Field([], description="Paths that `--vary` varied.")
    also_differ: dict[str, dict[str, Any]] = Field(
        {}, description="Every other key that is not the same in all: its value by variant, null where not stated."
    )
    stores: dict[str, StoresSummary] = Field({}, description="With `--split`, by variant.")
    unranked_because: str | None = Field(description="Why goodput does not rank them; null where it does.")
    variants: Annotated[dict[str, VariantSummary], Field(min_length=1)] = Field(description="By name.")
    cannot_run: Labels = Field(description="By name, why a variant cannot run.")
    provenance: Origin

    @model_validator(mode="after")
    def _names_are_those_of_variants(self) -> Self:
        keyed = [name for values in self.also_differ.values() for name in values]
        for name in (self.first, *self.order, *self.stores, *keyed):
            refuse_unknown("variant", name, self.variants)
        for variant in self.variants.values():
            refuse_unknown("metric", self.headline, variant.metrics)
        return self


def refuse_unknown(what: str, name: str, names: dict[str, Any]) -> None:
    """Raise if a name is not one of those that are there."""
    if name not in names:
        raise ValueError(f"names the {what} '{name}', which is not there{suggest(name, names)}")

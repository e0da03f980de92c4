"""The results of explain, its worth, layouts and kernels, as frozen models; and the JSON Schema of all documents."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from pydantic.json_schema import models_json_schema

from ettrick.analysis.parts import (
    Count,
    DifferenceSummary,
    Document,
    Labels,
    Number,
    Numbers,
    Pair,
    Part,
    Real,
    Texts,
    Whole,
)
from ettrick.analysis.results import documents
from ettrick.analysis.results.fitted import FitDocument, LivesDocument, TrackDocument
from ettrick.analysis.results.models import ClosedFormSummary, Origin, ScenarioName, StepSummary

# ----------------------------------------
# What everything is worth.


class WorthBase(Part):
    """A metric of the scenario as it is."""

    mean: Number = Field(description="The mean.")
    ci95: Pair = Field(description="Its 95 % interval.")
    closed_form: Number = Field(description="By a formula.")


class WorthRow(Part):
    """A change."""

    name: str = Field(description="The cause or the knob.")
    change: str = Field(description="The change, in words.")
    gain: dict[str, DifferenceSummary | None] = Field(
        description="By metric of `base`, above the scenario as it is; what is the same in all replications is not "
        "`resolved`; null where the data do not show it."
    )
    money_per_year: DifferenceSummary | None = Field(
        description="Price of the additional work of a year, at `price_of_work`; null without prices."
    )
    closed_form: Numbers = Field(description="By metric, the formula's gain; empty where none applies.")
    counts: bool = Field(True, description="Of `rows` only: whether it is part of `together` and `added`.")


class WorthGroup(Part):
    """Changes of a kind."""

    rows: list[WorthRow] = Field(description="The most valuable first.")
    together: WorthRow | None = Field(description="All of them at once; null where there are fewer than two.")
    added: WorthRow | None = Field(description="The sum of the rows that count; null with `together`.")
    residual: WorthRow | None = Field(description="`together` less `added`: what they are not additive by.")


class OnePoint(Part):
    """The amounts that do as much work as one percentage point of ETTR: a part 0.01 / ETTR of each."""

    gpus: Real = Field(description="Of the GPUs of the jobs [-].")
    time_s: Real = Field(description="Of the length of a replication [s].")
    money_per_year: Number = Field(description="Of the cost a year; null without prices.")


class WorthDocument(Document):
    """`ettrick explain SCENARIO --worth --json`; see [what to improve](../howto/find-what-to-improve.md)."""

    scenario: ScenarioName
    description: str = Field(description="Of the scenario.")
    replications: Count = Field(description="Common to all changes.")
    seed: Whole = Field(description="Common to all changes.")
    one_history: bool = Field(description="Whether a log is replayed at the same nodes in each replication.")
    by: str = Field(description="The metric that rows are sorted by: `tokens_per_day`, or `ettr`.")
    base: dict[str, WorthBase] = Field(description="The scenario as it is, by metric.")
    currency: str | None = Field(description="Null without prices.")
    price_of_work: Number = Field(description="Of a token, or with `by: ettr` of a productive GPU-second.")
    one_point: OnePoint | None = Field(None, description="Worth of one point of ETTR; null where it is 0.")
    causes: WorthGroup = Field(description="Each cause removed in turn.")
    knobs: WorthGroup = Field(description="Each knob better by a tenth.")
    left_out: Labels = Field(description="By knob, why it does not apply, or not together with those before it.")
    closed_form_reasons: Texts = Field(description="Why no closed form applies.")
    closed_form_assumptions: Texts = Field(description="Its assumptions that the scenario breaks.")
    assumptions: Texts = Field(description="Assumptions of the scenario.")
    warnings: Texts = Field(description="Assumptions of the scenario.")
    provenance: Origin


# ----------------------------------------
# What a scenario rests on.


class FaultClassSummary(Part):
    """A class of faults; those of a class that do not stop the job are another one."""

    fault: str = Field(description="The class.")
    stops: bool = Field(description="Whether they stop the job.")
    causes: Texts = Field(description="Names of the causes.")
    per_day: Real = Field(description="Interruptions per day; all add up to `interruptions_per_day`.")
    known_after_s: Number = Field(description="Mean time until they are known [s]; null if they never are.")
    first: Numbers = Field(
        description="Probability that each observer is the first; `human` takes what no observer covers, `stated` is a "
        "time without an observer."
    )


class StoreSummary(Part):
    """A store of checkpoints; a live `peer` is never saved to."""

    store: str = Field(description="Its name.")
    interval_s: Number = Field(description="Stepping between saves [s].")
    period_s: Number = Field(description="Duration of these steps [s].")
    steps: Whole | None = Field(description="How many steps these are; null without a time of a step.")
    stall_s: Number = Field(description="Stall of a save [s].")
    durable_after_s: Number = Field(description="From the end of the stall [s].")
    read_in_s: Number = Field(description="Reading a checkpoint [s].")
    fetched_in_s: Number = Field(description="Reading by a node whose own checkpoint is gone [s].")
    retain: Whole | None = Field(description="Complete checkpoints that it keeps; null for all.")
    unreadable: Real = Field(description="Probability that one is unreadable.")
    clique: Whole | None = Field(description="Nodes of a clique.")
    every_replica: bool = Field(description="Whether every replica holds the whole state.")


class Note(Part):
    """The basis of a number of a preset."""

    basis: str = Field(description="P read in a source, S quoted by others, D derived, A assumed.")
    text: str = Field(description="The note.")


class Preset(Part):
    """The recovery preset that the scenario names."""

    name: str = Field(description="Its name.")
    title: str = Field(description="In words.")
    source: str = Field(description="Source of the value.")
    notes: list[Note] = Field(description="Sources of its numbers.")


class PhasePart(Part):
    """A part of a phase; the parts follow one another."""

    name: str = Field(description="Its name.")
    mean_s: Number = Field(description="Mean time [s].")
    faults: Texts | None = Field(description="Classes of faults after which it is needed; null for all.")


class PhaseSummary(Part):
    """A phase of a recovery: means at the size of the job, for a fault that takes one of its nodes."""

    mean_s: Number = Field(description="Mean of what is needed after all faults [s].")
    parts: list[PhasePart] = Field(description="Parts, in order.")


class RungSummary(Part):
    """A rung of a ladder."""

    name: str = Field(description="Its name.")
    keeps: str = Field(description="State that it keeps.")
    pools: Texts = Field(description="Pools of replacements; empty: the queue.")
    patience_s: Number = Field(description="How long it waits for them [s]; null for ever.")
    budget: Whole | None = Field(description="Tries in a row; null for any.")
    not_for: Texts = Field(description="Classes of faults that it is not for.")
    except_first: bool = Field(description="Whether it is passed over when rank 0 is lost.")
    phases: dict[str, PhaseSummary] = Field(description="By what they are part of.")


class OperatorEscalation(Part):
    """Escalation to an operator, when a ladder has no rung left."""

    after_s: Number = Field(description="Until the job starts again [s]; null if it has failed for good.")
    no_progress: Whole | None = Field(description="Restarts in a row without new work that come to the same.")


class Scales(Part):
    """Factors of all times; they are in all times of this table."""

    detection: Real = Field(description="Of detection.")
    recovery: Real = Field(description="Of recovery.")
    repair: Real = Field(description="Of repair.")


class Recovery(Part):
    """The recovery of a job."""

    interruptions_per_day: Real = Field(description="How often it is interrupted, before any simulation.")
    detection_mean_s: Number = Field(description="Mean time until an interruption is known [s].")
    classes: list[FaultClassSummary] = Field(description="Classes of faults that the scenario has.")
    stores: list[StoreSummary] = Field(description="The one that is saved to most often first.")
    strategy: str = Field(description="Name of the strategy.")
    summary: str = Field(description="A sentence about it.")
    preset: Preset | None = Field(description="The preset that the scenario names.")
    scales: Scales = Field(description="Factors of all times.")
    settings: dict[str, Any] = Field(description="The other keys of the strategy, as the scenario writes it.")
    rungs: list[RungSummary] = Field(description="Of a ladder, from the first to the last.")
    phases: dict[str, PhaseSummary] = Field(description="Of other strategies, by what they are part of.")
    human: OperatorEscalation | None = Field(description="Null where some rung may always be attempted.")


class CalibrationSummary(Part):
    """The measured step that scales the model's."""

    measured_s: Real = Field(description="The measured time [s].")
    modelled_s: Real = Field(description="By the model [s].")


class JobPower(Part):
    """The power of a stepping job."""

    node_idle_w: Real = Field(description="An idle node [W].")
    node_training_w: Real = Field(description="A node in training [W].")
    job_w: Real = Field(description="All nodes of the job in training [W].")
    joules_per_token: Number = Field(description="Energy of a token [J].")
    measured: bool = Field(description="Whether it was measured.")
    source: str = Field(description="Source of the value.")


class TermShare(Part):
    """A term of a step."""

    time_s: Real = Field(description="Its time [s].")
    share: Real = Field(description="Of the step.")


class StepPart(TermShare):
    """Compute, memory, communication or waiting in a step, with its terms."""

    terms: dict[str, TermShare] = Field(description="Its terms.")


class Utilisation(Part):
    """Use of the peak, by a convention."""

    flop_per_token: Real = Field(description="Without recomputation [FLOP].")
    recomputed_flop_per_token: Real = Field(description="FLOP that the backward pass computes again [FLOP].")
    mfu: Real = Field(description="Model FLOP utilisation.")
    hfu: Real = Field(description="Hardware FLOP utilisation, which counts both.")


class ModelSummary(Part):
    """The model of a job."""

    title: str = Field(description="Its name.")
    source: str = Field(description="Source of the value.")
    parameters: Real = Field(description="Embeddings included.")
    active_parameters: Real = Field(description="For a token.")
    has_experts: bool = Field(description="Whether it has experts.")


class AcceleratorSummary(Part):
    """The numbers of the data sheet that a step rests on."""

    title: str = Field(description="Its name.")
    source: str = Field(description="Source of the value.")
    generation: str = Field(description="Its generation.")
    announced: bool = Field(description="Whether its numbers are announced or stated, and not those of a data sheet.")
    precision: str = Field(description="Of the job.")
    peak_flop_per_s: Real = Field(description="Dense peak at it [FLOP/s].")
    peak_16bit_flop_per_s: Real = Field(description="Dense peak at 16 bits [FLOP/s].")
    memory_bytes: Real = Field(description="Memory [B].")
    memory_bytes_per_s: Real = Field(description="Its bandwidth [B/s].")
    host_bytes_per_s: Real = Field(description="Bandwidth to the host's memory, one direction [B/s].")
    scale_up_bytes_per_s: Number = Field(description="Of the scale-up links, one direction [B/s].")


class PeakShare(Part):
    """Throughput or bandwidth that kernels reach, relative to the data sheet."""

    share: Real = Field(description="The share.")
    basis: str = Field(description="`fitted`, `assumed` or `peak only`.")


class Constant(Part):
    """A number of the step model that no data sheet gives; in seconds, bytes and shares."""

    value: Real = Field(description="The number.")
    basis: str = Field(description="`fitted` or `textbook`.")


class LayoutSummary(Part):
    """The layout of model and batch."""

    tensor: Whole = Field(description="Tensor ranks.")
    context: Whole = Field(description="Context ranks.")
    pipeline: Whole = Field(description="Pipeline stages.")
    data: Whole = Field(description="Data-parallel replicas.")
    expert: Whole = Field(description="Expert ranks.")
    virtual_pipeline: Whole = Field(description="Model chunks of a stage.")
    sequence: Whole = Field(description="Tokens of a sequence.")
    sequences: Number = Field(description="Sequences of the batch.")
    tokens: Number = Field(description="Tokens of the batch.")
    microbatches: Whole = Field(description="Microbatches of a replica.")


class GroupLink(Part):
    """The link of a kind of group."""

    ranks: Whole = Field(description="Ranks of a group.")
    through: str = Field(description="`scale_up` links or `nic`.")
    bytes_per_s: Real = Field(description="Of a GPU, one direction [B/s].")
    nics_together: Whole | None = Field(description="Ranks of a domain that divide its traffic among their NICs.")
    reached_bytes_per_s: Real = Field(description="Bandwidth that collectives reach [B/s].")


class CheckpointSize(Part):
    """Bytes that a save writes, in all and by GPU."""

    bytes: Real = Field(description="All of it [B].")
    bytes_per_gpu: Real = Field(description="If all write as much [B].")
    bytes_per_parameter: Real = Field(description="Of a parameter [B].")


class Degraded(Part):
    """A step when something is slow, narrow or missing."""

    time_s: Real = Field(description="Time of the step [s].")
    pace: Real = Field(description="In tokens, relative to the healthy job.")
    basis: str = Field(description="The `model` of steps, or the `communication` that the scenario states.")
    compute: Real = Field(description="Share of the compute that is left.")
    network: Real = Field(description="Share of the network that is left.")
    missing: Whole = Field(description="Replicas missing.")
    tensor: Whole = Field(description="Tensor ranks left.")


_NOT_KNOWN = Field(None, description="Null: the step model does not know it.")


class ExplainedJob(Part):
    """A job; what only the step model knows is null where it does not."""

    gpus: Count = Field(description="Of the job.")
    nodes: Count = Field(description="Of the job.")
    lacks: Any = Field(description="Keys that the scenario lacks for a breakdown; empty if none.")
    step: StepSummary = Field(description="Its healthy step.")
    calibration: CalibrationSummary | None = Field(description="The measured step that scales the model's.")
    tokens_per_s: Number = Field(description="Of the whole job.")
    tokens_per_day: Number = Field(description="Of the whole job.")
    power: JobPower | None = Field(description="Null if it is not known.")
    pool_paces: list[Real] = Field(description="Pace on the nodes of each pool of hosts, relative to the first.")
    recovery: Recovery = Field(description="How it returns.")
    parts: dict[str, StepPart] | None = _NOT_KNOWN
    utilisation: dict[str, Utilisation] | None = _NOT_KNOWN
    model: ModelSummary | None = _NOT_KNOWN
    accelerator: AcceleratorSummary | None = _NOT_KNOWN
    efficiencies: dict[str, PeakShare] | None = _NOT_KNOWN
    constants: dict[str, Constant] | None = _NOT_KNOWN
    layout: LayoutSummary | None = _NOT_KNOWN
    execution: dict[str, Any] | None = _NOT_KNOWN
    groups: dict[str, GroupLink] | None = _NOT_KNOWN
    memory_shares: Numbers | None = _NOT_KNOWN
    checkpoint: CheckpointSize | None = _NOT_KNOWN
    degraded: dict[str, Degraded] | None = _NOT_KNOWN


class PlannedJob(ExplainedJob):
    """A job that the step model knows."""

    parts: dict[str, StepPart] = Field(description="`computing`, `communication`, `bubble` and `rest`.")
    utilisation: dict[str, Utilisation] = Field(description="By convention, `causal` and `full`.")
    model: ModelSummary = Field(description="Its size, and who says so.")
    accelerator: AcceleratorSummary = Field(description="Of the pool on which it starts.")
    efficiencies: dict[str, PeakShare] = Field(
        description="Of `gemm`, `logits` and `attention`; attention and logits stay at 16 bits."
    )
    constants: dict[str, Constant] = Field(description="By name.")
    layout: LayoutSummary = Field(description="How model and batch are spread.")
    execution: dict[str, Any] = Field(description="[As the scenario states it](scenario/jobs.md).")
    groups: dict[str, GroupLink] = Field(description="By kind of group.")
    memory_shares: Numbers = Field(description="Memory used over memory available on the fullest GPU, by part.")
    checkpoint: CheckpointSize = Field(description="Size of a checkpoint.")
    degraded: dict[str, Degraded] = Field(
        description="`slow_gpu`, `narrow_nics`, `replica_missing_keep`, `replica_missing_shrink` (the batch is kept or "
        "shrinks) and `tensor_rank_missing`."
    )


class Fit(Part):
    """The data to which the step model is fitted."""

    steps: Count = Field(description="Measured steps.")
    mean_error: Real = Field(description="Their mean error.")
    unseen_source_error: Real = Field(description="That of sources which a fit had not seen.")


class ExplainedStream(Part):
    """Jobs of a stream."""

    jobs_per_day: Real | None = Field(description="Mean arrivals; null of a backlog.")
    gpus: dict[str, Real] = Field(description="Share of the jobs by their GPUs.")
    mean_gpus: Real = Field(description="Of a job.")
    mean_gpu_hours: Real | None = Field(description="Work of a job [GPU-h]; null if some never end.")
    offered_load: Real | None = Field(description="Work that arrives over what the cluster can do.")
    restart_s: Real = Field(description="From nodes to running [s].")
    detection_s: Real = Field(description="Of a failure [s].")
    save_interval_s: list[Real | None] = Field(description="Of the smallest and the largest job [s]; null for none.")


class ExplainedFleet(Part):
    """The jobs of all streams together."""

    streams: dict[str, ExplainedStream] = Field(description="By name.")
    offered_load: Real | None = Field(description="Work over what the cluster without its spares can do; saves aside.")
    saturation: Real | None = Field(
        description="Occupancy that strict FIFO cannot exceed, by a formula; null where none is known."
    )


class ServiceAmounts(Part):
    """The rates and times of a replica at some number of requests in flight."""

    batch: Real = Field(description="Requests in flight of a replica.")
    tpot_s: Real = Field(description="Mean time per token, prefills included [s].")
    tpot_s_band90: Pair = Field(description="Interval that holds it with 90 % [s].")
    ttft_s: Number = Field(
        None,
        description="Mean time to the first token while so many are in flight [s]; null where others read prompts.",
    )
    tokens_per_gpu_s: Real = Field(description="Output tokens of a GPU [1/s].")
    tokens_per_s_user: Real = Field(description="Output tokens of a request [1/s].")
    requests_per_s: Real = Field(description="Of a replica [1/s].")
    gpu_w: Number = Field(description="Power of a GPU [W]; null where not known.")
    joules_per_million_tokens: Number = Field(description="Of the GPUs [J]; null where power is not known.")
    facility_joules_per_million_tokens: Number = Field(
        None, description="With hosts and PUE [J]; null where the power of a node is not known."
    )
    money_per_million_tokens: Number = Field(description="At the price of a GPU-hour; null without one.")


class ServiceTail(Part):
    """Times of requests, replayed one by one."""

    requests: Count = Field(description="Replayed, those that fill the replica first left out.")
    ttft_mean_s: Number = Field(None, description="Mean time to the first token [s].")
    ttft_p50_s: Real = Field(description="Median of it [s].")
    ttft_p99_s: Real = Field(description="P99 of it [s].")
    tpot_p50_s: Real = Field(description="Median of a request's own mean time per token [s].")
    tpot_p99_s: Real = Field(description="P99 of it [s].")
    slo_attainment: Real = Field(description="Share of requests in SLO.")
    evictions: Count = Field(description="How often a request lost its keys and values for want of room.")


class SpareRow(Part):
    """The worth of a number of spare nodes to a service."""

    spares: Count = Field(description="Nodes that stand in for failed ones.")
    capacity_share: Real = Field(description="Mean share of replicas that serve.")
    all_up: Real = Field(description="Share of time with all of them.")
    capacity_availability: Real = Field(description="Share of time in which demand is carried within the SLO.")
    served_share: Real = Field(description="Share of requests that find capacity within the SLO.")


class PrefillSummary(Part):
    """Replicas that read the prompts of a service."""

    replicas: Count = Field(description="Number of replicas that read prompts.")
    tensor: Count = Field(description="Ranks that share the attention of a sequence.")
    data: Count = Field(description="Ranks with sequences of their own.")
    pipeline: Count = Field(description="Stages.")
    prompts_per_s: Real = Field(description="Prompts that they read together [1/s].")
    busy: Real = Field(description="Stated demand over that.")
    balance: Real = Field(
        description="Prompts that they read over the requests that decoders carry within the TPOT of the SLO; 1 is "
        "even."
    )
    handover_s: Real = Field(description="Until keys and values of a mean prompt have passed to a decoder [s].")


class ExplainedService(Part):
    """Model, accelerator, engine and layout of a service with its times and limits."""

    model: str = Field(description="Title of the model.")
    accelerator: str = Field(description="Title of the accelerator.")
    engine: str = Field(description="Title of the engine, and the releases that were fitted.")
    engine_source: str = Field(description="Where its numbers come from.")
    replicas: Count = Field(description="Number of replicas.")
    tensor: Count = Field(description="Ranks that share the attention of a sequence.")
    data: Count = Field(description="Ranks with sequences of their own.")
    pipeline: Count = Field(description="Stages.")
    basis: str = Field(description="Basis of the times: fitted, calibrated, or fitted to other accelerators or models.")
    sigma: Real = Field(description="Standard deviation of the logarithm of the times.")
    weight_bytes: Real = Field(description="Of a GPU [B].")
    cache_room_bytes: Real = Field(description="For keys and values, of a GPU [B].")
    cache_bytes_per_token: Real = Field(description="Of a GPU [B].")
    admission: str = Field(description="on-demand or reserve.")
    readers: PrefillSummary | None = Field(None, description="Replicas that read prompts; null where all do.")
    speculated_tokens: Real = Field(1.0, description="Tokens of a step, by speculative decoding.")
    prefill_s: Real = Field(description="Of a mean prompt [s].")
    input_tokens: Real = Field(description="Of a mean request.")
    output_tokens: Real = Field(description="Of a mean request.")
    tpot_terms_s: Numbers = Field(description="Time per token by term, at the batch that the SLO allows [s].")
    largest: ServiceAmounts = Field(description="At the largest batch by room and admission.")
    within_slo: ServiceAmounts = Field(description="At the batch at which the mean TPOT is that of the SLO.")
    at_demand: ServiceAmounts | None = Field(description="At the stated demand; null where it overloads.")
    demand_per_s: Real = Field(description="Requests of the service [1/s].")
    load: Real = Field(description="Demand over what all replicas carry within the mean TPOT of the SLO.")
    tail: ServiceTail = Field(description="Times of requests at the stated demand.")
    attainment: list[Pair] = Field(description="Load, and share of requests in SLO, by replay.")
    slo_load: Number = Field(description="Load up to which the SLO holds; null where it never does.")
    slo_goodput_per_s: Number = Field(
        description="Requests of the service at that load, or those that it admits, if they are fewer [1/s]."
    )
    capacity_per_s: Real = Field(description="Requests that all replicas admit; beyond that most are late [1/s].")
    failures_per_day: Real = Field(description="That stop a replica, of all together.")
    down_s: Real = Field(description="Detection, reading weights and start, where a spare is available [s].")
    repair_s: Number = Field(description="Mean repair of a node [s]; null where none is taken.")
    spares: list[SpareRow] = Field(description="By number of spare nodes, those of the scenario first.")


class ExplainDocument(Document):
    """`ettrick explain SCENARIO --json` prints this document."""

    scenario: ScenarioName
    description: str = Field(description="Of the scenario.")
    seed: Whole = Field(description="Seed of all random numbers.")
    jobs: dict[str, PlannedJob | ExplainedJob] = Field(description="By name.")
    fleet: ExplainedFleet | None = Field(None, description="Jobs of streams; null without any.")
    services: dict[str, ExplainedService] = Field(default_factory=dict, description="By name.")
    fit: Fit = Field(description="Data that the step model is fitted to.")
    closed_form: ClosedFormSummary = Field(description="Closed-form results.")
    assumptions: Texts = Field(description="Assumptions of the scenario.")
    warnings: Texts = Field(description="Assumptions of the scenario.")
    provenance: Origin


# ----------------------------------------
# Layouts of a job.


class LayoutRow(Part):
    """Ranks and batch of a job spread one way, with its step, memory and goodput."""

    rank_goodput: Whole | None = Field(description="By what failures leave; null without a closed form.")
    rank_step: Whole = Field(description="By the time of a step.")
    is_own: bool = Field(description="Whether it is the scenario's own.")
    tensor: Whole = Field(description="Tensor ranks.")
    context: Whole = Field(description="Context ranks.")
    pipeline: Whole = Field(description="Pipeline stages.")
    data: Whole = Field(description="Data-parallel replicas.")
    expert: Whole = Field(description="Expert ranks.")
    virtual_pipeline: Whole = Field(description="Model chunks of a stage.")
    microbatch: Whole = Field(description="Sequences of a microbatch.")
    microbatches: Whole = Field(description="Microbatches of a replica.")
    schedule: str = Field(description="Pipeline schedule.")
    recompute: str = Field(description="Recomputation in the backward pass: a word, or modules.")
    sharding: str = Field(description="State that is sharded over replicas.")
    shard_ranks: Whole | None = Field(description="Over how many; null for all.")
    step_s: Real = Field(description="Time of a step [s].")
    step_s_band90: Pair = Field(description="Interval that holds it with 90 % [s].")
    mfu: Real = Field(description="Model FLOP utilisation.")
    memory_bytes: Real = Field(description="Memory used on the fullest GPU [B].")
    memory_share: Real = Field(description="Over what it has.")
    bubble_share: Real = Field(description="Pipeline bubble over the step.")
    breakdown_s: Numbers = Field(description="By term [s].")
    replica_sets: Whole | None = Field(description="Sets of replicas that share experts or shards.")
    ettr: Number = Field(description="By the closed form.")
    tokens_per_second: Real = Field(description="While it steps.")
    tokens_per_day: Number = Field(description="That survive failures, by the closed form.")


class LayoutsDocument(Document):
    """`ettrick layouts SCENARIO --json` prints this document."""

    scenario: ScenarioName
    job: str = Field(description="Name of the job.")
    gpus: Count = Field(description="Of the job.")
    accelerator: str = Field(description="Of the pool on which it starts.")
    found: Count = Field(description="Layouts that fit.")
    sort: Literal["goodput", "step"] = Field(description="Sort key.")
    layouts: list[LayoutRow] = Field(description="The best ones.")
    own: LayoutRow | None = Field(description="The scenario's own.")
    notes: Texts = Field(description="Notes on the numbers.")
    assumptions: Texts = Field(description="Assumptions of the closed form that the scenario breaks.")
    reasons: Texts = Field(description="Why no closed form applies.")


# ----------------------------------------
# Kernels of a step.


class KernelRow(Part):
    """A kernel of the slowest stage, as one GPU runs it."""

    kernel: str = Field(description="Kind of layer, pass and name, as in files.")
    kind: str = Field(description="`gemm`, `attention`, `elementwise`, `collective` or `wait`.")
    term: str = Field(description="Term of the breakdown that it is a part of.")
    format: str = Field(description="Of what it reads; empty where it computes nothing.")
    m: Real = Field(description="Rows of the result; of attention queries.")
    n: Real = Field(description="Columns of the result; of attention keys.")
    k: Real = Field(description="Length of the sums; of attention width of a head.")
    groups: Real = Field(description="Products in one kernel; of attention heads times sequences.")
    ranks: Whole = Field(description="GPUs of the group of a collective.")
    calls: Real = Field(description="In a step.")
    flop: Real = Field(description="Of a call [FLOP].")
    bytes: Real = Field(description="Of a call: moved in memory, or of a collective the message [B].")
    flop_per_byte: Number = Field(description="Arithmetic intensity.")
    bound: str | None = Field(
        description="Largest part of its time when it runs on its own: `compute`, `memory`, `latency`, `waves` that "
        "are partly filled, or `bandwidth` of links; null of what waits."
    )
    waves: Number = Field(description="Share of the multiprocessors that work, mean over waves; null where unknown.")
    alone_s: Real = Field(description="Predicted time of a call by itself [s].")
    best_s: Number = Field(description="Shortest time that the accelerator is known to reach [s]; null where unknown.")
    call_s: Real = Field(description="Time that a call adds to the step [s].")
    step_s: Real = Field(description="Time that all calls add to the step [s].")
    share: Real = Field(description="Of the step.")
    reached: Number = Field(description="Rate in the step over that of the benchmark; above 1 if the step is faster.")


class MeasuredKernel(Part):
    """Measured against predicted time of calls of a kernel."""

    kernel: str = Field(description="Its name.")
    measurements: Count = Field(description="Of it in the file.")
    measured_s: Real = Field(description="Mean time of a call by itself [s].")
    predicted_s: Real = Field(description="The prediction of that [s].")
    saved_s: Real = Field(description="Time that the step would save at the shortest known time [s].")


class KernelChange(Part):
    """A kernel in two files."""

    kernel: str = Field(description="Its name.")
    before_s: Real = Field(description="Mean time of a call in the first file [s].")
    after_s: Real = Field(description="In the second one [s].")
    change: Real = Field(description="Relative change.")
    noise: Real = Field(description="Half of its 95 % interval, all kernels together (Bonferroni).")
    verdict: Literal["slower", "faster", "same"] = Field(description="Beyond the threshold and the noise.")


class KernelComparison(Part):
    """Two files of measured times."""

    threshold: Real = Field(description="Relative change that counts at least.")
    noise: Real = Field(description="Relative standard deviation of one measurement.")
    noise_basis: str = Field(description="`repeated measurements` or `stated`.")
    changes: list[KernelChange] = Field(description="The largest increase first.")
    not_in_both: Texts = Field(description="Kernels of only one file.")


class KernelsDocument(Document):
    """`ettrick kernels SCENARIO --json`; see [what a step is made of](../howto/find-slow-kernels.md)."""

    scenario: ScenarioName
    job: str = Field(description="Name of the job.")
    job_index: Whole = Field(description="Its place among the jobs, counted from 0.")
    accelerator: str = Field(description="Of the pool on which it starts.")
    benchmarks: str = Field(description="Accelerator whose kernels were measured; empty if none of the generation.")
    step_s: Real = Field(description="Time of a step [s].")
    step_s_band90: Pair = Field(description="Interval that holds it with 90 % [s]; null for a measured step.")
    breakdown_s: Numbers = Field(description="By term; the kernels of a term add up to it [s].")
    roofs: Numbers = Field(description="Best measured rate of matrix products by format [FLOP/s].")
    memory_bytes_per_s: Real = Field(description="Bandwidth of the memory [B/s].")
    kernels: list[KernelRow] = Field(description="The largest share of the step first.")
    measured: list[MeasuredKernel] = Field(description="The largest possible gain first; empty without a file.")
    calibrated_step_s: Number = Field(description="The step with measured kernels [s]; null without a file.")
    software: Numbers = Field(description="Shares to state as `software` of the job; empty without a file.")
    comparison: KernelComparison | None = Field(description="Of two files.")
    notes: Texts = Field(description="Notes on the numbers.")


class ServiceLayoutRow(Part):
    """A layout of a replica at some batch."""

    tensor: Count = Field(description="Ranks that share the attention of a sequence.")
    data: Count = Field(description="Ranks with sequences of their own.")
    pipeline: Count = Field(description="Stages.")
    replicas: Count = Field(description="That the GPUs of the service are enough for.")
    prefill_replicas: Count | None = Field(None, description="Further replicas that read prompts; null without.")
    prefill_gpus: Count | None = Field(None, description="GPUs of one of them.")
    is_own: bool = Field(description="Whether the layout is the scenario's own.")
    is_within_slo: bool = Field(description="Whether mean TPOT and mean TTFT are within the SLO.")
    amounts: ServiceAmounts = Field(description="Amounts of a replica.")
    tokens_per_mw_s: Number = Field(
        description="Output tokens of a megawatt of the facility [1/s]; null where not known."
    )
    serving_share: Real = Field(description="Mean share of replicas that serve, failures counted.")
    tokens_per_gpu_s_after_failures: Real = Field(description="Output tokens of a GPU, failures counted [1/s].")


class ServiceLayoutsDocument(Document):
    """`ettrick layouts SCENARIO --json` prints this document for a service."""

    scenario: ScenarioName
    service: str = Field(description="Name of the service.")
    gpus: Count = Field(description="Of the service.")
    accelerator: str = Field(description="Of the pool on which it starts.")
    basis: str = Field("", description="Basis of the times, as in `explain`.")
    found: Count = Field(description="Layouts that fit.")
    sort: str = Field(description="Quantity weighed against tokens/s of a user.")
    layouts: list[ServiceLayoutRow] = Field(description="The Pareto set, fastest for the user first.")


class FormulaResult(Part):
    """A number that an equation gives."""

    value: Number = Field(description="In `unit`; null where it is not finite.")
    unit: Literal["s", "share", "count", "1/d"] = Field(description="Seconds, a share, a number, or of a day.")
    meaning: str = Field(description="Meaning of the result.")
    note: str = Field("", description="Of an approximation outside its range: that it is, and a bound.")


class FormulaDocument(Document):
    """`ettrick formula NAME --json` prints this document."""

    formula: str = Field(description="Name of the question.")
    question: str = Field(description="In words.")
    equation: str = Field(description="In the symbols of its source.")
    inputs: Numbers = Field(description="By option, in SI; null where it is infinite.")
    results: dict[str, FormulaResult] = Field(description="By name.")
    assumptions: Texts = Field(description="Conditions that have to hold.")
    reference: str = Field(description="Its source.")


# All documents by command; `worth` is ``explain --worth``.
DOCUMENTS: dict[str, type[Document]] = {
    **documents.DOCUMENTS,
    "explain": ExplainDocument,
    "worth": WorthDocument,
    "layouts": LayoutsDocument,
    "fit": FitDocument,
    "formula": FormulaDocument,
    "kernels": KernelsDocument,
    "lives": LivesDocument,
    "service_layouts": ServiceLayoutsDocument,
    "track": TrackDocument,
}


def results_schema() -> dict[str, Any]:
    """Return the JSON Schema of all documents."""
    _, schema = models_json_schema([(model, "validation") for model in DOCUMENTS.values()])
    listed = [{"$ref": f"#/$defs/{model.__name__}"} for model in DOCUMENTS.values()]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Documents that Ettrick prints with --json",
        "anyOf": listed,
        **schema,
    }

"""The description of many jobs: streams of them by law or from a trace, tenants, and partitions.

A stream is a law of arrivals and of what each job is; a trace says the same row by row. Both become `Arrival`.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, PlainSerializer, Tag, WithJsonSchema

from ettrick.sim import units
from ettrick.sim.scenario.fields import (
    Completed,
    Count,
    Duration,
    Model,
    OneOf,
    Profile,
    Weight,
    default,
    rate_of_whole,
)
from ettrick.sim.scenario.laws import Law

if TYPE_CHECKING:
    from ettrick.sim.scenario.fields import BrokenRules

Outcome = Literal["completed", "failed", "cancelled"]
OUTCOMES: tuple[Outcome, ...] = ("completed", "failed", "cancelled")


class Arrival(NamedTuple):
    """A job of a stream as it is submitted.

    Attributes
    ----------
    submit
        When it enters the queue, from the start of the simulation, warm-up included [s].
    gpus
        What it asks for [-].
    work
        Run time without any loss [s]; infinite for a job that never ends.
    limit
        Time limit of a run, which the planner sees [s]; infinite without one.
    ends
        Work after which `outcome` happens [s]: `work` where the job completes, less where it ends early.
    outcome
        How it ends, if neither limit nor horizon end it.
    tenant, partition
        Positions in `Prepared.tenants` and `Prepared.partitions`.
    priority
        Higher goes first, and preempts where the scheduler does.
    under_way
        Whether it has its nodes when the simulation starts; `submit` is before that then, as of one that waits.
    """

    number: int
    submit: float
    gpus: int
    work: float
    limit: float
    ends: float
    outcome: Outcome
    tenant: int = 0
    priority: float = 0
    partition: int = 0
    under_way: bool = False


def _with_use(usual: str) -> Completed:
    """Return the annotation of a union that ``use`` distinguishes: a mapping without the key is of the usual kind."""
    return Completed(lambda value: {"use": usual, **value} if isinstance(value, dict) else value)


# When jobs arrive.


ArrivalRate = Annotated[
    float, *rate_of_whole("a rate of arrivals", "jobs arrive at the whole cluster", "40 per h", "7200 per day")
]


class Poisson(Model):
    """Independent arrivals at a rate."""

    use: Literal["poisson"] = "poisson"
    rate: ArrivalRate = Field(description="Arrivals per time.")
    profile: Profile | None = Field(None, description="How the rate varies over a day or a week.")


class Renewal(Model):
    """Independent times between arrivals, of any law."""

    use: Literal["renewal"] = "renewal"
    gap: Law = Field(description="Time between two arrivals.")
    profile: Profile | None = Field(None, description="How the rate varies over a day or a week.")

    def _broken_rules(self) -> BrokenRules:
        if self.gap.mean_value <= 0:
            yield ("gap",), "must have a mean above zero"


class Diurnal(Model):
    """Poisson arrivals whose rate follows a sine of one day."""

    use: Literal["diurnal"] = "diurnal"
    peak: ArrivalRate = Field(description="Highest rate.")
    trough: ArrivalRate = Field(description="Lowest rate, half a day later.")
    at: Duration = default("14 h", description="Time of the day of the peak.")

    def _broken_rules(self) -> BrokenRules:
        if self.trough > self.peak:
            yield ("trough",), "is above the peak"


class MmppState(Model):
    """A state of the environment, in which jobs arrive at one rate."""

    rate: ArrivalRate = Field(description="Arrivals per time while it lasts.")
    stay: Duration = Field(ge=60, description="Mean time that it lasts, a minute or more; exponential.")


class Mmpp(Model):
    """Bursts: Poisson arrivals whose rate changes at random (Markov-modulated), from state to state in a circle.

    It begins in the first state.
    """

    use: Literal["mmpp"] = "mmpp"
    states: tuple[MmppState, ...] = Field(min_length=2, description="The states, in order.")


class Backlog(Model):
    """A queue that never empties: whenever a job starts, the next one is submitted."""

    use: Literal["backlog"] = "backlog"
    pending: Count = Field(gt=0, le=10**6, description="Jobs that are kept in the queue.")


AnyArrivals: TypeAlias = Annotated[Poisson | Renewal | Diurnal | Mmpp | Backlog, OneOf("use"), _with_use("poisson")]


# What a job is.


class PowersOfTwo(Model):
    """GPUs by a lognormal law, rounded to the nearest power of two on a logarithmic scale."""

    median: float = Field(gt=0, description="Median of the law [GPUs].")
    sigma: float = Field(gt=0, le=10, description="Standard deviation of its natural logarithm [-].")
    least: Count = Field(1, gt=0, description="Smallest job; smaller ones are drawn as this.")
    most: Count = Field(gt=0, description="Largest job; larger ones are drawn as this.")

    def _broken_rules(self) -> BrokenRules:
        for name in ("least", "most"):
            value = getattr(self, name)
            if value & (value - 1):
                low = 1 << (value.bit_length() - 1)
                yield (name,), f"{value} is not a power of two; nearest: {low} or {2 * low}"
        if self.least > self.most:
            yield ("least",), f"is {self.least}, but the largest job has {self.most} GPUs"

    def weights(self) -> dict[int, float]:
        """Return the probability of each size [-]: that of the law between the geometric means of neighbours."""

        def below(power: float) -> float:
            return 0.5 * math.erfc(-(power * math.log(2) - math.log(self.median)) / (self.sigma * math.sqrt(2)))

        first, last = self.least.bit_length() - 1, self.most.bit_length() - 1
        edges = [0.0, *(below(power + 0.5) for power in range(first, last)), 1.0]
        return {1 << power: edges[power - first + 1] - edges[power - first] for power in range(first, last + 1)}


def _form_of_choice(value: object) -> str:
    """Return whether a value is one for all jobs, weights, or the parameters of a law."""
    if isinstance(value, PowersOfTwo) or (isinstance(value, dict) and value.keys() & {"median", "sigma"}):
        return "law"
    return "weights" if isinstance(value, dict) else "one"


Sizes: TypeAlias = Annotated[
    Annotated[Count, Field(gt=0), Tag("one")]
    | Annotated[dict[str, Weight], Tag("weights")]
    | Annotated[PowersOfTwo, Tag("law")],
    Discriminator(_form_of_choice),
]

Names: TypeAlias = Annotated[
    Annotated[str, Field(min_length=1), Tag("one")] | Annotated[dict[str, Weight], Tag("weights")],
    Discriminator(_form_of_choice),
]

Priorities: TypeAlias = Annotated[
    Annotated[int, Field(ge=-(10**6), le=10**6), Tag("one")] | Annotated[dict[str, Weight], Tag("weights")],
    Discriminator(_form_of_choice),
]


class UniformFactor(Model):
    """A factor that is equally likely anywhere between two numbers."""

    low: float = Field(gt=0, le=1e6, description="Lowest factor.")
    high: float = Field(gt=0, le=1e6, description="Highest factor.")

    def _broken_rules(self) -> BrokenRules:
        if self.low > self.high:
            yield ("low",), f"is {self.low:g}, above high, {self.high:g}"


def _form_of_limit(value: object) -> str:
    if isinstance(value, str):
        return "time" if any(map(str.isdecimal, value)) else "word"
    return "factor" if isinstance(value, dict | LimitFactor) else "time"


class LimitFactor(Model):
    """A time limit as users estimate it: a multiple of the run time."""

    factor: Annotated[
        Annotated[float, Field(gt=0, le=1e6), Tag("one")] | Annotated[UniformFactor, Tag("weights")],
        Discriminator(lambda value: "weights" if isinstance(value, dict | UniformFactor) else "one"),
    ] = Field(description="Limit over run time; below 1 the limit ends the job.")
    least: Duration = default("0 s", description="Shortest limit.")
    most: Duration | None = Field(None, gt=0, description="Longest limit.")


AnyLimit: TypeAlias = Annotated[
    Annotated[Literal["exact", "none"], Tag("word")]
    | Annotated[Duration, Field(gt=0), Tag("time")]
    | Annotated[LimitFactor, Tag("factor")],
    Discriminator(_form_of_limit),
]

AnyStreamWork: TypeAlias = Annotated[
    Annotated[Literal["horizon"], Tag("word")] | Annotated[Law, Tag("law")],
    Discriminator(lambda value: "word" if value == "horizon" else "law"),
    PlainSerializer(lambda work: work if isinstance(work, str) else work.model_dump(mode="json", exclude_none=True)),
]


class Outcomes(Model):
    """The outcomes of jobs, by weight; those that do not complete end at a uniform point of their work."""

    completed: Weight = Field(1.0, description="Do all their work.")
    failed: Weight = Field(0.0, description="End with an error of their own.")
    cancelled: Weight = Field(0.0, description="Are cancelled by their user.")

    def _broken_rules(self) -> BrokenRules:
        if self.completed + self.failed + self.cancelled <= 0:
            yield (), "give at least one weight above zero"


# What a job of a stream is next to its size and its work.


class JobOverhead(NamedTuple):
    """A time [s], or a share [-] of the work of a job."""

    time: float = 0.0
    share: float = 0.0

    def of(self, work: float) -> float:
        """Return the time [s] for a job of so much work [s]; of endless work a share is nothing."""
        return self.time + self.share * work if math.isfinite(work) else self.time


def _parse_cost(value: object) -> JobOverhead:
    if isinstance(value, JobOverhead):
        return value
    if isinstance(value, str) and value.strip().endswith("%"):
        return JobOverhead(share=units.parse(value, units.FRACTION))
    return JobOverhead(time=units.parse(value, units.DURATION))


def _show_cost(cost: JobOverhead) -> str:
    return units.show(cost.share, units.FRACTION) if cost.share else units.show(cost.time, units.DURATION)


AnyCost = Annotated[
    Any,
    BeforeValidator(_parse_cost),
    PlainSerializer(_show_cost),
    WithJsonSchema({"type": "string", "description": "a time, or a share of the work", "examples": ["30 s", "3 %"]}),
]


class Saves(Model):
    """Checkpoints of the jobs of a stream, instead of the scenario's."""

    interval: Duration | None = Field(
        None,
        gt=0,
        description="Stepping between saves; without it, jobs save only when they are preempted, or at a limit.",
    )
    save: AnyCost = Field("0 s", description="How long a save stops a job: a time, or a share of its work.")
    restore: AnyCost = Field("0 s", description="How long a restore takes: a time, or a share of its work.")


class Chain(Model):
    """Work in pieces: at its limit a job saves, ends, and queues again for the rest."""

    limit: Duration = Field(gt=0, description="Time limit of one run.")
    notice: Duration = default("0 s", description="How long before the limit the job gets a signal to save.")

    def _broken_rules(self) -> BrokenRules:
        if self.notice >= self.limit:
            yield ("notice",), "leaves no time to work before the limit"


class StreamBase(Model):
    """The keys that jobs of a stream have, wherever they come from."""

    name: str = Field(min_length=1, description="Name of the stream; unique among streams and jobs.")
    template: str | None = Field(
        None, description="An entry of templates, whose model, layout and batch these jobs have."
    )
    checkpoint: Saves | None = Field(None, description="Checkpoints; without it, by the checkpoint of the scenario.")
    restart: Duration | None = Field(
        None, description="From nodes to running at each start; without it, initialize of the recovery."
    )
    chain: Chain | None = Field(None, description="Work longer than a limit, done in several runs.")
    fidelity: Literal["count", "full"] = Field(
        "count", description="How a job is simulated: count, in closed form from start to stop; full is for named jobs."
    )
    tenant: Names | None = Field(None, description="Whose jobs they are: a name, or names by weight.")
    priority: Priorities | None = Field(
        None, description="Priority: a number, or numbers by weight; higher goes first. By default 0, or the trace's."
    )
    partition: Names | None = Field(None, description="Where they queue: a name, or names by weight; first by default.")
    qos: int = Field(
        0,
        ge=-(10**6),
        le=10**6,
        description="Quality of service: with scheduler.preempt.who: qos, a higher one may stop jobs of a lower one.",
    )

    def _broken_rules(self) -> BrokenRules:
        if self.fidelity == "full":
            rule = "streams have no full recovery ladder, stores or step model; name the few jobs that need them"
            yield ("fidelity",), f"{rule} (jobs), or say fidelity: count"


class Generated(StreamBase):
    """Jobs by law."""

    use: Literal["generated"] = "generated"
    arrivals: AnyArrivals = Field(description="When jobs arrive; use: poisson may be left out.")
    load: float = Field(1.0, gt=0, le=1e6, description="Factor of the rate; the k-th job stays the same job.")
    gpus: Sizes | None = Field(
        None,
        description="GPUs of a job: a number, numbers by weight, or a law rounded to powers of two; by default as the "
        "template.",
    )
    work: AnyStreamWork | None = Field(
        None,
        description="Run time without any loss: a law, or horizon for jobs that never end; by default the work of the "
        "template.",
    )
    limit: AnyLimit = Field("exact", description="Time limit: the run time itself, none, a time, or a factor of it.")
    outcome: Outcomes = Field(
        default_factory=lambda: Outcomes.model_validate({}), description="How jobs end, by weight."
    )


class TraceColumns(Model):
    """Names of the columns of a trace; the usual names are those of the table of jobs."""

    job: str = Field("job", description="Name or number; unique for a tenant.")
    submit: str = Field("submit", description="When it was submitted.")
    gpus: str = Field("gpus", description="Column of the GPUs it held: a number, or AllocTRES of Slurm.")
    run: str = Field("run", description="How long it ran; without it, end less start.")
    limit: str = Field("limit", description="Its time limit; empty for none.")
    state: str = Field("state", description="How it ended, in the words of Slurm: completed, failed, cancelled, ...")
    tenant: str = Field("tenant", description="Whose it was.")
    priority: str = Field("priority", description="Its priority.")
    partition: str = Field("partition", description="Where it was submitted.")
    start: str = Field("start", description="When it began to run.")
    end: str = Field("end", description="When it ended.")


class TraceScale(Model):
    """A trace made longer or denser."""

    time: float = Field(1.0, gt=0, le=1e6, description="Factor of run times and limits.")
    load: float = Field(1.0, gt=0, le=1e6, description="Divisor of the times between arrivals.")


class JobTrace(StreamBase):
    """Jobs row by row from a file: CSV with a header, or the Standard Workload Format (.swf); either may be gzipped."""

    use: Literal["trace"] = "trace"
    file: str = Field(description="The file, relative to this one.")
    columns: TraceColumns = Field(
        default_factory=lambda: TraceColumns.model_validate({}), description="Names of the columns of a CSV file."
    )
    time_unit: Literal["s", "min", "h", "d"] = Field(
        "s", description="Unit of times that are numbers, where the name of their column states none (run_h)."
    )
    origin: float | str | None = Field(
        None,
        description="Moment of the trace that is time zero: a number or a date; by default the first submission. Jobs "
        "that run or wait then are carried over; without a column start, a job is taken to run from its submission.",
    )
    scale: TraceScale = Field(
        default_factory=lambda: TraceScale.model_validate({}), description="Longer runs, denser arrivals."
    )
    limit: AnyLimit | None = Field(None, description="Time limits instead of those of the trace; see generated jobs.")
    other_partitions: Literal["refuse", "leave out"] = Field(
        "refuse", description="Treatment of jobs of partitions that the scenario does not have."
    )
    states: dict[str, Outcome | Literal["not over"]] = Field(
        default_factory=dict,
        description="Meaning of further words of the column state: completed, failed, cancelled, or not over.",
    )
    skip_bad_rows: bool = Field(False, description="Whether rows that cannot be used are left out, and counted.")

    def _broken_rules(self) -> BrokenRules:
        yield from super()._broken_rules()
        if self.limit is not None and self.columns.limit != "limit":
            yield ("limit",), "give limits, or the column that has them (columns.limit), not both"


AnyStream: TypeAlias = Annotated[Generated | JobTrace, OneOf("use"), _with_use("generated")]


# Who shares the cluster, and how it is divided.


class Tenant(Model):
    """A share of the cluster: a quota, what may be borrowed beyond it and lent of it."""

    name: str = Field(min_length=1, description="Name of the tenant.")
    nodes: Count | None = Field(None, description="Nodes that are guaranteed; without it, there is no quota.")
    borrow: Count | None = Field(None, description="Nodes beyond these at most; without it, all that others lend.")
    lend: Count | None = Field(None, description="Nodes of its own that others may use; without it, all.")
    weight: float = Field(1.0, gt=0, le=1e6, description="Share in fair sharing.")

    def _broken_rules(self) -> BrokenRules:
        if self.lend is not None and self.lend > (self.nodes or 0):
            yield ("lend",), f"is {self.lend} nodes, but {self.nodes or 0} are its own"


_RANGE = re.compile(r"(?P<first>[0-9]{1,9})(?:-(?P<last>[0-9]{1,9}))?")


def _parse_ranges(value: object) -> tuple[tuple[int, int], ...]:
    """Return ranges of nodes, first and last, of text such as ``0-31,64-95``."""
    if isinstance(value, tuple):
        return value
    ranges: list[tuple[int, int]] = []
    for part in str(value).split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"'{part.strip()}' is not a range of nodes such as 0-31")
        first, last = int(match["first"]), int(match["last"] or match["first"])
        if last < first:
            raise ValueError(f"'{part.strip()}' ends before it begins")
        ranges.append((first, last))
    ranges.sort()
    for (_, last), (first, _) in itertools.pairwise(ranges):
        if first <= last:
            raise ValueError(f"node {first} is in it twice")
    return tuple(ranges)


Ranges = Annotated[
    Any,
    BeforeValidator(_parse_ranges),
    PlainSerializer(lambda ranges: ",".join(f"{a}-{b}" if b > a else str(a) for a, b in ranges)),
    WithJsonSchema({"anyOf": [{"type": "string", "examples": ["0-31,64-95"]}, {"type": "integer", "minimum": 0}]}),
]


class Partition(Model):
    """Nodes with a queue of their own; partitions may share nodes."""

    name: str = Field(min_length=1, description="Name of the partition.")
    nodes: Ranges | None = Field(None, description="Numbers of its nodes, such as 0-31,64-95; without it, all nodes.")
    tier: int = Field(1, ge=0, le=2**16, description="Its jobs are looked at before those of lower tiers.")
    limit: Duration | None = Field(None, gt=0, description="Longest time limit; longer ones are cut to it.")

    def node_count(self, nodes: int) -> int:
        """Return how many of the nodes of a cluster are in it [-]."""
        return nodes if self.nodes is None else sum(last - first + 1 for first, last in self.nodes)


def chances(choice: float | str | dict[str, float] | PowersOfTwo) -> dict[str, float]:
    """Return what may be drawn, as text, with its probability [-]."""
    weights = choice
    if isinstance(choice, PowersOfTwo):
        return {str(size): chance for size, chance in choice.weights().items()}
    if not isinstance(weights, dict):
        return {str(choice): 1.0}
    total = math.fsum(weights.values())
    return {name: weight / total for name, weight in weights.items()}

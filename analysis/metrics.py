"""The metrics and buckets by name: what each is called, what it needs, in which tables it stands.

`METRICS` and `BUCKETS` have all facts about them; `ettrick.analysis.ratios` has the numbers of a replication.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from ettrick.sim import JOB_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ettrick.sim import Prepared, PreparedJob

# Buckets: where a GPU-second can land.


class BucketWords(NamedTuple):
    """The words and the colour of a bucket of the ledger.

    Parameters
    ----------
    label
        In tables and charts.
    gloss
        What it holds, in plain words; docs/reference/buckets.md has it exactly.
    hue
        Colour in charts, as a number for `ettrick.analysis.page.charts.sheet.hue`.
    noun
        The name as a noun, where the label is none.
    served
        What it holds of services, where that is something else.
    """

    label: str
    gloss: str
    hue: int
    noun: str = ""
    served: str = ""

    @property
    def words(self) -> str:
        """The name as a noun, to stand after "goes to"."""
        return self.noun or self.label


_GREY, _INK = -1, -2

# fmt: off
BUCKETS: Mapping[str, BucketWords] = MappingProxyType({
    "productive": BucketWords(
        "productive", "training whose result was kept", 0, noun="productive training",
        served="replicas that serve, as far as they are busy"),
    "degraded": BucketWords(
        "degraded", "the slower part of training with a slow node, lost bandwidth or missing replicas", 5,
        noun="degraded training", served="what replicas lack that are slower, as far as they are busy"),
    "checkpoint_stall": BucketWords(
        "checkpoint stall", "training is paused while its state is saved", 6, noun="checkpoint stalls"),
    "lost_work": BucketWords(
        "lost work", "training since the last checkpoint, which a failure discards and which is redone", 7,
        served="work for answers that a failure ended, or that has to be redone"),
    "detection": BucketWords(
        "detection", "a failure is not detected yet", 1,
        served="a replica has failed, and the router has not detected it yet"),
    "reschedule": BucketWords(
        "reschedule", "failed nodes are taken out and others put in", 4, noun="rescheduling"),
    "initialize": BucketWords(
        "initialize", "processes start and connect until they can load their state", 2, noun="initializing",
        served="processes of a replica start"),
    "restore": BucketWords(
        "restore", "the last checkpoint is loaded", 3, noun="restoring", served="a replica reads its weights"),
    "starved": BucketWords(
        "starved", "the job holds its place and waits for nodes to replace lost ones", _GREY,
        noun="waiting for nodes (starved)"),
    "queued": BucketWords("queued", "the job waits in the queue for all its nodes", _GREY, noun="queueing"),
    "maintenance": BucketWords("maintenance", "planned work on nodes while they stay in the job", _INK),
    "auxiliary": BucketWords(
        "auxiliary", "periodic work that stops training, such as evaluation", _INK, noun="auxiliary work"),
    "wrong_work": BucketWords(
        "wrong work", "training that a fault made wrong and that stays, because no earlier checkpoint is left",
        7),
    "given_up": BucketWords(
        "given up", "the job has failed for good and is not started again", 4, noun="jobs given up"),
    "spare_idle": BucketWords("spare idle", "healthy nodes kept ready as spares", 2, noun="idle spares"),
    "repair": BucketWords("repair", "nodes in repair, or waiting for it", 3),
    "qualification": BucketWords("qualification", "nodes in tests after a repair", 6),
    "stranded": BucketWords(
        "stranded", "healthy nodes in a unit of which too few nodes are healthy", 7, noun="stranded nodes"),
    "unallocated": BucketWords(
        "unallocated", "healthy nodes that no job asked for", _GREY, noun="unallocated nodes"),
    "headroom": BucketWords(
        "headroom", "replicas of services that serve, as far as there is nothing to serve", 1),
})
# fmt: on

"""Every bucket, in the order of the ledger."""

RESTART = ("reschedule", "initialize", "restore")
"""Buckets that a closed form has as one, ``restart``."""


def bucket_label(name: str) -> str:
    """Return what a bucket is called, or several that a closed form has as one."""
    return BUCKETS[name].label if name in BUCKETS else name.replace("_", " ")


# Metrics.


class Need(NamedTuple):
    """A part of a scenario that some metrics need.

    Parameters
    ----------
    rule
        What to say where it does not.
    every_job
        Whether the metric says nothing about a scenario unless every job has it.
    """

    has: Callable[[Prepared], bool]
    rule: str
    every_job: bool = False


_PRICES = Need(
    lambda prepared: prepared.upkeep.cost is not None,
    "prices are not known: give cost.gpu_hour, or cost.capex and cost.years",
)

_POWER = Need(
    lambda prepared: prepared.upkeep.facility is not None,
    "it is not known what a node draws: give power.idle and power.training",
)

_CARBON = Need(
    lambda prepared: any(level.carbon for level in prepared.upkeep.levels),
    "what a kWh emits is not known: give power.carbon",
)

_TENANTS = Need(lambda prepared: len(prepared.tenants) > 1, "it takes several tenants: give jobs of streams tenants")
_STREAMS = Need(lambda prepared: bool(prepared.streams), "only jobs of streams have it: give the scenario streams")

_ALARMS = Need(
    lambda prepared: any(source.is_watched for source in prepared.sources),
    "nobody gives alarms: give the scenario health.prediction, health.false_alarms or health.checks",
)

_PARTS = Need(lambda prepared: bool(prepared.parts), "no repair waits for a part: give the scenario parts")
_SERVICES = Need(lambda prepared: bool(prepared.services), "only services have it: give the scenario one")
_TARGETS = Need(lambda prepared: bool(prepared.targets), "nothing is promised: give the scenario targets")

_CREDITS = Need(
    lambda prepared: any(target.credits for target in prepared.targets), "nothing is given back: give a target credits"
)

_BILLS = Need(
    lambda prepared: any(target.bill is not None for target in prepared.targets),
    "it is not known what windows are billed at: give a target credits and a bill",
)


def _every(prepared: Prepared, has: Callable[[PreparedJob], bool]) -> bool:
    """Return whether all that runs is jobs that have something; of jobs of streams nothing is known."""
    return not prepared.has_queue and all(map(has, prepared.jobs))


_TOKENS = Need(
    lambda prepared: serves_alone(prepared) or _every(prepared, lambda plan: plan.tokens_per_second > 0),
    "the tokens of every job are not known: give each a batch, and a step_time or a model; those of training and of "
    "serving are not added up",
    every_job=True,
)


def serves_alone(prepared: Prepared) -> bool:
    """Return whether there is nothing but services."""
    return bool(prepared.services) and not prepared.streams and not prepared.jobs


_MFU = Need(
    lambda prepared: _every(prepared, lambda plan: plan.mfu is not None),
    "the utilisation of every job is not known: give each a model, a batch and a layout, or an mfu",
    every_job=True,
)

_STEP = Need(
    lambda prepared: _every(prepared, lambda plan: plan.step_time > 0),
    "the step of every job is not known: give each a step_time or a model",
    every_job=True,
)

_WORK = Need(
    lambda prepared: any(math.isfinite(plan.target) for plan in prepared.jobs), "no job has an end: give it work"
)

_DEADLINE = Need(
    lambda prepared: any(plan.deadline is not None for plan in prepared.jobs), "no job has a deadline: give it one"
)


def _never(_: Prepared) -> bool:
    return False


def _pays_for_time_alone(prepared: Prepared) -> bool:
    """Return whether costs are those of the nodes and of the horizon, whatever fails."""
    cost = prepared.upkeep.cost
    return (
        cost is not None
        and not (cost.energy or cost.labour or any(cost.repair.values()) or prepared.parts)
        and all(math.isinf(plan.target) for plan in prepared.jobs)
    )


Weight = Literal["job", "gpu_time"]

Table = Literal[
    "run", "streams", "service", "run in short", "streams in short", "service in short", "variants",
    "variants of streams",
]  # fmt: skip
"""First tables of what is delivered: of a run, of its streams, of its one service, and the first of these that there
are on one screen; and of variants beside a headline.
"""

Unit = Literal[
    "share", "count", "s", "J", "J per token", "kg", "kg per token", "currency", "currency per token", "1/d", "1/s"
]


class Metric(NamedTuple):
    """The name, the unit and the needs of a number of a result.

    Parameters
    ----------
    label
        In sentences and headings.
    plain
        In sentences for who has never seen the tool.
    unit
        Of its values: SI, money, or per day.
    definition
        What is divided by what, or what is counted, for the reference; docs/reference/metrics.md is made of these.
    of
        Whether each job has it, and all of them together, each service or target alike, or only the cluster.
    head
        In the heads and first columns of tables, where that is shorter than the label.
    detail
        What may stand in brackets behind the head.
    counted
        What its numbers count, in words: ``tokens a day``.
    is_probability
        Whether what it counts happens in a replication or does not.
    is_of_windows
        Whether it is the share of windows in which something happens.
    is_sliced, is_weighted
        Whether groups of the jobs of streams have it, and whether it also counts each job by its GPU-time.
    is_of_queue
        Whether it has no long-run mean where the queue grows without end.
    is_between_events
        Whether it is a time between events, of which a run may see none.
    constant
        Of what scenario it is the same in all replications by its definition, whatever fails.
    per_step
        The power of the time of a step that it goes with [-].
    together
        What several jobs or targets have of it: both parts of the ratio added up, a sum, a sum over the days from the
        first arrival to the last end, or the least of them.
    rows
        In which first tables it stands, with the number of its row.
    sign, gloss
        In the first table of a run: how it follows from the rows above it, and what it is.
    """

    name: str
    label: str
    plain: str
    unit: Unit
    definition: str
    better: Literal["higher", "lower"] = "higher"
    of: Literal["job", "cluster", "service", "target"] = "job"
    head: str = ""
    detail: str = ""
    counted: str = ""
    needs: tuple[Need, ...] = ()
    is_plural: bool = False
    is_probability: bool = False
    is_of_windows: bool = False
    is_signed: bool = False
    is_sliced: bool = False
    is_weighted: bool = False
    is_of_queue: bool = False
    is_between_events: bool = False
    constant: Callable[[Prepared], bool] = _never
    per_step: Literal[-1, 0, 1] = 0
    together: Literal["ratio", "sum", "daily", "least"] = "ratio"
    rows: Mapping[Table, int] = MappingProxyType({})
    sign: str = ""
    gloss: str = ""

    @property
    def is_share(self) -> bool:
        """Whether it is a share of something; its precision is stated in points."""
        return self.unit == "share"

    def lacks(self, prepared: Prepared) -> Need | None:
        """Return the first thing that it needs and that a scenario does not state; ``None`` if it has all."""
        return next((need for need in self.needs if not need.has(prepared)), None)

    @property
    def short(self) -> str:
        """The name in the head of a table."""
        return self.head or self.label

    @property
    def title(self) -> str:
        """The head with the name that may stand behind it."""
        return f"{self.short} ({self.detail})" if self.detail else self.short

    def is_sliced_by(self, by: str) -> bool:
        """Return whether groups of a kind have it: those of jobs, each service or each target."""
        return self.is_sliced if by in BY else by == self.of and by in ("service", "target")


BY = ("size", "stream", "tenant", "priority", "partition")
"""The keys by which jobs are divided; `size` in classes of powers of two, ``1024+`` of that class and larger ones."""


class Slice(NamedTuple):
    """A metric of some jobs: ``wait_first@size=1024+@weight=gpu_time``."""

    metric: str
    by: str = ""
    group: str = ""
    weight: Weight = "job"

    @property
    def name(self) -> str:
        """The name as it is written."""
        group = f"@{self.by}={self.group}" if self.by else ""
        return self.metric + group + ("@weight=gpu_time" if self.weight == "gpu_time" else "")

    @property
    def least(self) -> int:
        """The fewest GPUs of the jobs of a size."""
        return int(self.group.removesuffix("+"))

    @property
    def words(self) -> str:
        """The words that stand behind the label of the metric."""
        of = f" of {self.by} {self.group}" if self.by else ""
        of = f" ({self.group})" if self.by == "target" else of
        if self.by == "size":
            of = f" of jobs of {self.least:,} GPU{'s' * (self.least > 1)}{' or more' * self.group.endswith('+')}"
        return of + (", weighted by GPU-time" if self.weight == "gpu_time" else "")

    @classmethod
    def parse(cls, name: str) -> Slice | None:
        """Return what a name means; ``None`` if it is not written like this."""
        metric, *parts = name.split("@")
        selection, entry = cls(metric), METRICS.get(metric)
        for part in parts:
            by, _, group = part.partition("=")
            if entry is None:
                return None
            if part == "weight=gpu_time" and entry.is_weighted:
                selection = selection._replace(weight="gpu_time")
            elif group and not selection.by and entry.is_sliced_by(by) and (by != "size" or _is_size(group)):
                selection = selection._replace(by=by, group=group)
            else:
                return None
        return selection if selection.name == name else None


def _is_size(group: str) -> bool:
    text = group.removesuffix("+")
    return text.isdecimal() and int(text) > 0 and int(text) & (int(text) - 1) == 0


TIME_SHARE = "time_shares."
"""The prefix of metrics that are the share of a bucket in the requested GPU-time."""

# fmt: off
_OWN = (
    Metric("ettr", "ETTR", "the useful share of the time (ETTR)", "share",
           "productive / requested GPU-time: the effective training time ratio, queueing included",
           detail="productive / requested", is_sliced=True, is_of_queue=True,
           rows={"run": 1, "streams": 4, "variants of streams": 3, "run in short": 1, "streams in short": 6},
           gloss="effective training time ratio: share of the requested GPU-time that became training which was kept"),
    Metric("ettr_no_queue", "ETTR without the queue", "the useful share of the time without the queue", "share",
           "productive / (requested − `queued`)", is_sliced=True, rows={"streams": 5}),
    Metric("scheduling_goodput", "scheduling goodput", "the share of time in which the job has its nodes", "share",
           "(requested − `queued` − `starved` − `reschedule` − `given_up`) / requested", rows={"run": 2},
           sign="  ", gloss="share of the requested GPU-time in which the jobs had their nodes"),
    Metric("runtime_goodput", "runtime goodput", "the useful share of the time with nodes", "share",
           "productive / (requested − `queued` − `starved` − `reschedule` − `given_up`)", rows={"run": 3},
           sign="  x ", gloss="share of that time that became training progress"),
    Metric("program_goodput", "program goodput", "the share of the peak speed that a step reaches (MFU)", "share",
           "model FLOP utilisation (MFU) of the healthy step; over several jobs weighted by productive GPU-time",
           detail="MFU", needs=(_MFU,), per_step=-1,
           constant=lambda prepared: len({plan.mfu for plan in prepared.jobs}) == 1, rows={"run": 4},
           sign="  x ", gloss="share of the GPUs' peak arithmetic that a healthy step uses"),
    Metric("goodput", "goodput", "goodput", "share",
           "MFU × productive / requested: the share of the requested peak that became training",
           detail="effective MFU", needs=(_MFU,), per_step=-1, rows={"run": 5, "variants": 3},
           sign="  = ", gloss="share of the requested peak arithmetic that became training"),
    Metric("effective_mfu", "effective MFU", "goodput", "share",
           "another name of `goodput`",
           needs=(_MFU,), per_step=-1,
           rows={"run in short": 6}),
    Metric("cluster_goodput", "cluster goodput", "the useful share of the time of all GPUs (cluster goodput)", "share",
           "productive GPU-time of all jobs / owned GPU-time; in a cluster of several pools GPUs count by their peak"
           " relative to the first pool",
           detail="all owned", of="cluster",
           rows={"run": 6, "streams": 3, "variants of streams": 2, "run in short": 9, "streams in short": 1}),
    Metric("job_availability", "availability of jobs", "the share of time in which the job runs", "share",
           "time in which the job steps or saves / time from its first start to its end"),
    Metric("node_availability", "availability of nodes", "the share of nodes in working order", "share",
           "1 − node-time with an open outage / all node-time of the accounting window, without withheld nodes. "
           "A node without a path through the fabric has an outage; a node that is only slower has none",
           of="cluster", rows={"service": 8}),
    Metric("domain_availability", "availability of domains", "the share of domains in working order", "share",
           "time in which units (racks, scale-up domains) are usable / all time of units. Only if jobs use whole "
           "units: `spares.unit`, or scale-up domains of several nodes that are swapped whole",
           of="cluster"),
    Metric("interruptions", "interruptions", "the number of interruptions", "count",
           "failures that hit a job, in whatever phase",
           better="lower", is_plural=True, together="sum", rows={"run": 11, "variants": 7, "run in short": 7}),
    Metric("interruptions_planned", "planned interruptions", "the number of planned interruptions", "count",
           "those of sources marked `planned`",
           better="lower", is_plural=True, together="sum",
           constant=lambda prepared: not any(source.planned for source in prepared.sources)),
    Metric("interruptions_unplanned", "unplanned interruptions", "the number of unplanned interruptions", "count",
           "the others",
           better="lower", is_plural=True, together="sum"),
    Metric("disruptions", "disruptions", "the number of stops", "count",
           "failures that took a job out of stepping; the other interruptions merged into an open incident",
           better="lower", is_plural=True, together="sum"),
    Metric("mtti", "time between interruptions", "the time between interruptions", "s",
           "time from first start to end / interruptions. Without any interruption, the mean is null and "
           "`lower_bound95` is its lower bound at 95 % confidence: the observed time / ln 20",
           head="MTTI", is_between_events=True, rows={"run": 10, "run in short": 8}),
    Metric("mtti_running", "running time between interruptions", "the running time between interruptions", "s",
           "time in which the job steps or saves / interruptions",
           head="running MTTI", is_between_events=True),
    Metric("at_risk_at_end", "share of work at risk at the end", "work not yet saved at the end", "share",
           "work not yet durable at the job's end, in GPU-time / requested; it is part of `productive`",
           better="lower", head="at risk at the end"),
    Metric("tokens_per_day", "tokens per day", "training speed", "1/d",
           "tokens that survived / days from arrival to end; of all jobs together, from the first arrival to the "
           "last end. Needs `batch` and a step time in every job. In a scenario with only services, tokens of "
           "their answers",
           counted="tokens a day", needs=(_TOKENS,), is_plural=True, per_step=-1, together="daily",
           rows={"run": 7, "service": 1, "variants": 4, "run in short": 4, "service in short": 7}),
    Metric("tokens_per_gpu_day", "tokens per GPU-day", "training speed for each GPU", "1/d",
           "tokens that survived / days of the GPUs owned, whatever they do; GPUs of all pools count the same",
           counted="tokens for each GPU and day", needs=(_TOKENS,), is_plural=True, of="cluster", per_step=-1,
           rows={"service": 2}),
    Metric("tokens_per_mw_day", "tokens per MW-day", "training speed for each megawatt", "1/d",
           "tokens that survived / days of the megawatts of provisioned power: (all nodes in training, spares "
           "too + switches + storage) × PUE, or `power.cap`. Needs the power of a node",
           counted="tokens for each megawatt and day", needs=(_POWER, _TOKENS), is_plural=True, of="cluster",
           per_step=-1, rows={"service": 3}),
    Metric("steps_per_day", "steps per day", "training speed", "1/d",
           "optimizer steps that survived / days from arrival to end, of all jobs together as for tokens. A step "
           "with a replica missing counts as one step, and trains fewer tokens. Needs a step time in every job",
           counted="steps a day", needs=(_STEP,), is_plural=True, per_step=-1, together="daily"),
    Metric("time_to_work", "time to finish", "the time to finish", "s",
           "time from arrival to the end of a fixed amount of work",
           better="lower", needs=(_WORK,), rows={"run": 8, "run in short": 3}),
    Metric("p_finish_by", "probability to finish in time", "the probability to finish in time", "share",
           "jobs finished within their `deadline` after arrival / jobs with a deadline",
           head="P(finish by the deadline)", needs=(_WORK, _DEADLINE), is_probability=True,
           rows={"run": 9, "run in short": 2}),
    Metric("energy", "energy per run", "the energy per run", "J",
           "energy of the facility in a replication. Needs the power of a node: from the catalog of accelerators, or"
           " `power`",
           better="lower", head="facility energy per run", needs=(_POWER,), of="cluster",
           rows={"run": 18, "service": 6, "run in short": 11}),
    Metric("energy_per_token", "energy of a million tokens", "the energy of training", "J per token",
           "energy / tokens that survived",
           better="lower", needs=(_POWER, _TOKENS), of="cluster", per_step=1, rows={"service": 4}),
    Metric("carbon", "CO2 per run", "the CO2 per run", "kg",
           "Σ energy of the facility × carbon intensity of the grid at that time. Needs `power.carbon`",
           better="lower", needs=(_POWER, _CARBON), of="cluster", rows={"run": 19}),
    Metric("carbon_per_token", "CO2 of a million tokens", "the CO2 of training", "kg per token",
           "CO2 / tokens that survived",
           better="lower", needs=(_POWER, _CARBON, _TOKENS), of="cluster", per_step=1),
    Metric("cost", "cost per run", "the cost per run", "currency",
           "cost of a replication. Needs `cost`",
           better="lower", needs=(_PRICES,), of="cluster", constant=_pays_for_time_alone,
           rows={"run": 20, "service": 7, "variants": 6, "run in short": 10, "service in short": 3}),
    Metric("false_alarms_per_day", "false alarms per day", "the healthy nodes drained in a day", "1/d",
           "healthy nodes drained, in jobs or not / days of the accounting window",
           better="lower", counted="false alarms a day", needs=(_ALARMS,), is_plural=True, of="cluster",
           rows={"run": 12}),
    Metric("alarm_precision", "precision of alarms", "the share of drained nodes that were bad", "share",
           "nodes drained before a failure / all nodes drained by an alarm",
           detail="seen", needs=(_ALARMS,), of="cluster", rows={"run": 13}),
    Metric("alarm_recall", "recall of alarms", "the share of failures that were seen coming", "share",
           "nodes drained before a failure / (these + failures of the same causes without an alarm); only nodes "
           "that are not down already",
           detail="seen", needs=(_ALARMS,), of="cluster", rows={"run": 14}),
    Metric("fill_rate", "fill rate of parts", "the share of repairs that find their part on the shelf", "share",
           "repairs that find their part on the shelf / repairs that need one, over all stocks of parts",
           detail="on the shelf", needs=(_PARTS,), of="cluster", rows={"run": 15}),
    Metric("stock_outs", "stock-outs", "the number of repairs that wait for a part", "count",
           "repairs that find no part on the shelf",
           better="lower", needs=(_PARTS,), of="cluster", is_plural=True, rows={"run": 16}),
    Metric("parts_wait", "node-hours that wait for parts", "the node-hours that wait for a part", "count",
           "node-hours out of service from the fault until the part of the repair arrives; up to the end of the "
           "run if the repair still waits",
           better="lower", needs=(_PARTS,), of="cluster", is_plural=True, rows={"run": 17}),
    Metric("occupancy", "occupancy", "the share of working GPUs that jobs have", "share",
           "GPU-time of jobs and services / owned GPU-time without `repair`, `qualification` and `maintenance` "
           "of nodes"
           " outside jobs",
           detail="allocated / healthy", needs=(_STREAMS,), of="cluster",
           rows={"streams": 1, "variants of streams": 1, "streams in short": 2}),
    Metric("allocation", "allocation", "the share of all GPUs that jobs have", "share",
           "GPU-time of jobs and services / owned GPU-time",
           detail="allocated / owned", needs=(_STREAMS,), of="cluster", rows={"streams": 2}),
    Metric("fragmentation", "fragmentation", "the share of free GPUs that the largest possible job cannot use", "share",
           "1 − largest job that could start / free GPUs, over time weighted by the free GPUs",
           better="lower", needs=(_STREAMS,), of="cluster", rows={"streams": 12}),
    Metric("fragmentation_in_need", "fragmentation while jobs wait",
           "the share of free GPUs that the largest possible job cannot use while jobs wait", "share",
           "as `fragmentation`, over the time in which a job waits",
           better="lower", needs=(_STREAMS,), of="cluster", rows={"streams": 13}),
    Metric("stranded", "stranded GPUs", "the share of all GPUs that are free on nodes with jobs", "share",
           "free GPU-time of nodes that smaller jobs share / owned GPU-time: no whole-node job can use it",
           better="lower", detail="free on shared nodes", needs=(_STREAMS,), is_plural=True, of="cluster",
           rows={"streams": 14}),
    Metric("fairness", "fairness between tenants", "how even the tenants' shares are", "share",
           "Jain's index (Σx)² / (n Σx²) of the n tenants, x = share of the GPU-time of jobs and services / "
           "entitled share: the quota if all tenants have one, else the weight. It is 1 if all x are equal, 1/n "
           "if one tenant has everything; a tenant that requests less than its share lowers it too. Only with "
           "several tenants",
           detail="Jain's index", needs=(_STREAMS, _TENANTS), of="cluster", rows={"streams": 17}),
    Metric("queue_length", "jobs in the queue", "the number of waiting jobs", "count",
           "jobs in the queue, mean over time",
           better="lower", needs=(_STREAMS,), is_plural=True, of="cluster", is_of_queue=True, rows={"streams": 11}),
    Metric("second_order_share", "second-order share", "the share of failure losses that preemptions pass on", "share",
           "GPU-time lost via preemptions whose root is a failure / all GPU-time lost whose root is a failure",
           better="lower", needs=(_STREAMS,), of="cluster", rows={"streams": 16}),
    Metric("wait_first", "first wait", "the wait before a job first starts", "s",
           "first submission to first start, mean of the jobs that started",
           better="lower", needs=(_STREAMS,), is_sliced=True, is_weighted=True, is_of_queue=True,
           rows={"streams": 6, "streams in short": 3}),
    Metric("wait_total", "total wait", "all the time that a job waits", "s",
           "all time in the queue, requeues included, mean of the jobs that ended",
           better="lower", needs=(_STREAMS,), is_sliced=True, is_weighted=True, is_of_queue=True, rows={"streams": 7}),
    Metric("jct", "job completion time", "the time from submission to completion", "s",
           "first submission to end, mean of the jobs that completed",
           better="lower", head="JCT", needs=(_STREAMS,), is_sliced=True, is_weighted=True, is_of_queue=True,
           rows={"streams": 8, "variants of streams": 4, "streams in short": 5}),
    Metric("bounded_slowdown", "bounded slowdown", "how many times its run time a job takes", "count",
           "max(1, (total wait + run) / max(run, τ)) with τ = 10 s, mean of the jobs that ended",
           better="lower", detail="τ = 10 s", needs=(_STREAMS,), is_sliced=True, is_weighted=True, is_of_queue=True,
           rows={"streams": 9, "variants of streams": 5}),
    Metric("bounded_slowdown_10min", "bounded slowdown of long jobs", "how many times its run time a job takes",
           "count", "as `bounded_slowdown`, with τ = 10 min",
           better="lower", head="bounded slowdown", detail="τ = 10 min", needs=(_STREAMS,),
           is_sliced=True, is_weighted=True, is_of_queue=True, rows={"streams": 10}),
    Metric("ettr_above_90", "GPU-time with an ETTR of 90 %", "the share of GPU-time in jobs that lose at most a tenth",
           "share",
           "GPU-time of the jobs whose own ETTR is 0.9 or more / GPU-time of all jobs",
           head="GPU-time with ETTR ≥ 0.9", needs=(_STREAMS,), is_sliced=True, is_of_queue=True),
    Metric("preemptions", "preemptions", "the number of preemptions in 1,000 GPU-hours", "count",
           "running jobs stopped for another job, per 1,000 GPU-hours of jobs",
           better="lower", detail="per 1,000 GPU-h", needs=(_STREAMS,), is_plural=True, is_sliced=True,
           rows={"streams": 15, "variants of streams": 6, "streams in short": 7}),
    Metric("second_order_preemptions", "second-order preemptions",
           "the number of preemptions in 1,000 GPU-hours that a failure began", "count",
           "preemptions by a job that a failure had put back into the queue, per 1,000 GPU-hours of jobs",
           better="lower", detail="per 1,000 GPU-h", needs=(_STREAMS,), is_plural=True, is_sliced=True),
    Metric("mttf", "MTTF of jobs", "the running time between failures of a job", "s",
           "time of jobs with their nodes / stops by failures of infrastructure",
           head="MTTF", needs=(_STREAMS,), is_sliced=True, is_between_events=True),
    Metric("slo_attainment", "SLO attainment", "the share of requests that meet the SLO", "share",
           "requests whose TTFT and mean TPOT are within the SLO / requests offered",
           needs=(_SERVICES,), of="service", detail="in SLO / offered",
           rows={"variants": 1, "streams in short": 4, "service in short": 1}),
    Metric("served_share", "requests served", "the share of requests that are answered", "share",
           "requests answered, in SLO or late / requests offered; the others are turned away, give up, are lost with "
           "their replica, or wait at the end",
           needs=(_SERVICES,), of="service", is_plural=True, detail="answered / offered"),
    Metric("slo_goodput", "SLO goodput", "the requests in SLO a second", "1/s",
           "requests in SLO / time",
           counted="requests a second", needs=(_SERVICES,), of="service", detail="requests/s"),
    Metric("capacity_availability", "capacity availability", "the share of time with enough replicas", "share",
           "time in which the serving replicas admit the whole demand / time",
           needs=(_SERVICES,), of="service", detail="share of the time, capacity ≥ demand",
           rows={"service in short": 6}),
    Metric("capacity_share", "replicas that serve", "the share of replicas that serve", "share",
           "serving replicas, slower ones in part / replicas that the service has, or that scaling wants",
           needs=(_SERVICES,), of="service", is_plural=True, detail="share of the replicas, mean over time"),
    Metric("all_serving", "time with all replicas", "the share of time with all replicas", "share",
           "time in which all replicas serve that the service has, or that scaling wants / time",
           needs=(_SERVICES,), of="service"),
    Metric("minutes_below_demand", "minutes below demand", "the minutes with too few replicas", "count",
           "minutes of a run in which the serving replicas admit less than the demand; summed over services",
           better="lower", needs=(_SERVICES,), of="service", is_plural=True),
    Metric("failed_share", "requests lost with a replica", "the share of requests that fail with their replica",
           "share", "requests that were in flight when their replica failed, or reached it before the detection, "
           "and were not taken over / requests offered",
           better="lower", needs=(_SERVICES,), of="service", is_plural=True,
           rows={"service in short": 4}),
    Metric("wasted_work", "work for clients that gave up", "the share of work for clients that have given up", "share",
           "served requests whose clients have given up (`overload.cancel: false`) / all served requests; that "
           "time is `lost_work`",
           better="lower", needs=(_SERVICES,), of="service"),
    Metric("busy_share", "busy share of the replicas", "the share of the replicas' time with work", "share",
           "busy GPU-time of serving replicas / GPU-time of serving replicas; the rest is `headroom`",
           needs=(_SERVICES,), of="service",
           rows={"service in short": 5}),
    Metric("tokens_per_s_user", "tokens per second and user", "the speed that a user sees", "1/s",
           "tokens of answers / their time after the first token: 1 over the mean TPOT",
           counted="tokens a second", needs=(_SERVICES,), of="service", is_plural=True),
    Metric("missed_windows", "windows below the target", "the probability that a window misses its target", "share",
           "windows of a target in which its metric is below `at_least` / whole windows with any demand. Its "
           "interval is that of the number of independent windows with the same variance between replications; "
           "if none or all miss, all windows are taken as independent. A service without a target has its "
           "`slo.attainment`, in every window of `windows`, or of a 120th of the horizon",
           better="lower", needs=(_TARGETS,), of="target", is_plural=True, head="P(miss)", detail="of a window",
           is_of_windows=True, rows={"variants": 2}),
    Metric("worst_window", "worst window", "the lowest value of a window", "share",
           "the lowest value of the metric of a target in a window of a run; for several targets the lowest",
           needs=(_TARGETS,), of="target", together="least"),
    Metric("error_budget_left", "error budget left", "the part of the error budget that is left", "share",
           "1 − misses / allowed misses of a target, over all its windows: (1 − `at_least`) of the requests "
           "offered, or that share of the GPU-time of jobs. Below 0 the target is missed; for several targets "
           "the lowest",
           needs=(_TARGETS,), of="target", is_signed=True, together="least"),
    Metric("credit_share", "part of the bill given back", "the part of the bill that is given back", "share",
           "credits of a target, by the tier of each window / its bill",
           better="lower", needs=(_CREDITS,), of="target"),
    Metric("credits", "credits per run", "the money that is given back", "currency",
           "`bill` of a target times the shares that are given back, summed over all windows of a run",
           better="lower", needs=(_BILLS,), of="target", is_plural=True, together="sum"),
    Metric("cost_per_token", "cost of a million tokens", "the cost of training", "currency per token",
           "cost / tokens that survived. Needs `batch` and a step time in every job, like all metrics per token",
           better="lower", needs=(_PRICES, _TOKENS), of="cluster", per_step=1,
           rows={"run": 21, "service": 5, "variants": 5, "run in short": 5, "service in short": 2}),
)
# fmt: on

_OF_TIME = tuple(
    Metric(
        f"{TIME_SHARE}{name}",
        f"share of time in {BUCKETS[name].label}",
        f"the share of time for {BUCKETS[name].words}",
        "share",
        "GPU-time in the bucket / requested GPU-time",
        better="higher" if name == "productive" else "lower",
    )
    for name in JOB_BUCKETS
)


class _Metrics(Mapping[str, Metric]):
    """The metrics by name; one such as ``ettr@size=1024+``, of a slice, is made where it is asked for."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._own = {metric.name: metric for metric in metrics}

    def __getitem__(self, name: str) -> Metric:
        if name in self._own:
            return self._own[name]
        part = Slice.parse(name) if "@" in name else None
        if part is None:
            raise KeyError(name)
        whole = self._own[part.metric]
        return whole._replace(
            name=name,
            label=whole.label + part.words,
            plain=whole.plain + part.words,
            head=whole.head and whole.head + part.words,
            needs=whole.needs if part.by in ("service", "target") else (_STREAMS,),
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


METRICS: Mapping[str, Metric] = _Metrics((*_OWN, *_OF_TIME))
"""Every metric that a scenario may have; iteration gives those of all jobs, slices of them are found by name."""


def headline(prepared: Prepared) -> str:
    """Return the metric that a scenario is judged by where nobody names one."""
    return "slo_attainment" if serves_alone(prepared) else "ettr"


def is_share(metric: str) -> bool:
    """Return whether a metric is a share; its precision is stated in points."""
    return metric in METRICS and METRICS[metric].is_share


@functools.lru_cache(maxsize=2)
def metrics_of(owner: Literal["service", "target"]) -> tuple[str, ...]:
    """Return the metrics of services or of targets; ``slo_attainment@service=chat`` is that of one."""
    return tuple(name for name, metric in METRICS.items() if metric.of == owner)


def rows_of(table: Table) -> tuple[str, ...]:
    """Return the metrics of a first table, row by row."""
    rows = sorted((metric.rows[table], name) for name, metric in METRICS.items() if table in metric.rows)
    assert len({row for row, _ in rows}) == len(rows), f"two metrics have the same row of the table {table!r}"
    return tuple(name for _, name in rows)


WEIGHTED = tuple(name for name, metric in METRICS.items() if metric.is_weighted)
"""Means over jobs that also exist with each job weighted by its GPU-time."""

PROBABILITIES = frozenset(name for name, metric in METRICS.items() if metric.is_probability)
"""Metrics whose mean is a probability: what happens in a replication happens or does not."""


def is_exact(prepared: Prepared, metric: str) -> bool:
    """Return whether all replications have the same of a metric by construction: then its mean has no sampling error.

    So it is where nothing is random, and where the definition of the metric leaves nothing to chance.
    """
    return prepared.is_deterministic or (metric in METRICS and METRICS[metric].constant(prepared))


def lower_is_better(metric: str) -> bool:
    """Return whether of two values of a metric the lower one is the better."""
    return metric in METRICS and METRICS[metric].better == "lower"

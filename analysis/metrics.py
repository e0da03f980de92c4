"""The metrics and buckets by name, and from amounts in results to ratios."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ettrick.analysis.fleet import Slice, fleet_ratios
from ettrick.analysis.targets import target_ratios
from ettrick.sim import CLUSTER_BUCKETS, JOB_BUCKETS, Bucket, JobResult, Prepared, PreparedJob, Ratio, Result
from ettrick.sim.formulas.arrays import quantile
from ettrick.sim.formulas.nodes import missing_nodes_pmf
from ettrick.sim.steps.power import energy_by_bucket, facility_energy
from ettrick.sim.units import DAY, ENERGY, HOUR, YEAR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ettrick.sim.steps.power import FacilityEnergy

# Buckets: where a GPU-second can land.


class BucketWords(NamedTuple):
    """How a bucket of the ledger is worded and drawn.

    Parameters
    ----------
    label
        In tables and charts.
    gloss
        What it holds, in plain words; docs/reference/buckets.md has it exactly.
    lost_to
        What the time of a job goes to, in words that stand after "goes to".
    hue, opacity
        Colour in charts, as a number for `ettrick.analysis.page.charts.sheet.hue`.
    noun
        What there is more or less of, where the label does not say it.
    served
        What it holds of services, where that is something else.
    """

    label: str
    gloss: str
    lost_to: str
    hue: int
    opacity: float = 1.0
    noun: str = ""
    served: str = ""


_GREY, _INK = -1, -2

# fmt: off
BUCKETS: Mapping[str, BucketWords] = MappingProxyType({
    "productive": BucketWords(
        "productive", "training whose result was kept", "training that lasts", 0,
        served="replicas that serve, as far as they are busy"),
    "degraded": BucketWords(
        "degraded", "the slower part of training with a slow node, lost bandwidth or missing replicas",
        "training slower than in health", 5, noun="slow training",
        served="what replicas lack that are slower, as far as they are busy"),
    "checkpoint_stall": BucketWords(
        "checkpoint stall", "training stands still while its state is saved", "standing still while saving", 6),
    "lost_work": BucketWords(
        "lost work", "training since the last saved state, thrown away by a failure and done again",
        "redoing what failures undid", 7,
        served="work for answers that a failure ended, or that has to be done again"),
    "detection": BucketWords(
        "detection", "something has failed and the job does not know yet", "detecting that something has failed", 1,
        served="a replica has failed, and the router does not know yet"),
    "reschedule": BucketWords(
        "reschedule", "failed nodes are taken out and others put in", "swapping nodes after a failure", 4,
        noun="rescheduling"),
    "initialize": BucketWords(
        "initialize", "processes start and connect until they can load their state", "starting the processes again", 2,
        noun="initialising", served="processes of a replica start"),
    "restore": BucketWords(
        "restore", "the last saved state is loaded", "loading what was saved last", 3, noun="restoring",
        served="a replica reads its weights"),
    "starved": BucketWords(
        "starved", "the job holds its place and waits for nodes to replace lost ones",
        "waiting for nodes that replace failed ones", _GREY, noun="waiting for nodes"),
    "queued": BucketWords(
        "queued", "the job waits in the queue for all its nodes", "waiting in the queue to start", _GREY, 0.5,
        noun="queueing"),
    "maintenance": BucketWords(
        "maintenance", "planned work on nodes while they stay in the job", "planned work on the nodes", _INK, 0.7),
    "auxiliary": BucketWords(
        "auxiliary", "periodic work that stops training, such as evaluation", "other stops", _INK, 0.3),
    "wrong_work": BucketWords(
        "wrong work", "training that a fault made wrong and that stays, because no saved state from before is left",
        "training that is wrong and stays", 7, 0.5),
    "given_up": BucketWords(
        "given up", "the job has failed for good, and nobody starts it again",
        "the time after the job has failed for good", 4, 0.5),
    "spare_idle": BucketWords("spare idle", "healthy nodes kept ready as spares", "spares that wait", 2),
    "repair": BucketWords("repair", "nodes in repair, or waiting for it", "nodes in repair", 3),
    "qualification": BucketWords("qualification", "nodes in tests after a repair", "tests after a repair", 6),
    "stranded": BucketWords(
        "stranded", "healthy nodes in a unit of which too few nodes are healthy",
        "healthy nodes whose unit is not of use", 7),
    "unallocated": BucketWords(
        "unallocated", "healthy nodes that no job asked for", "nodes that nobody asked for", _GREY),
    "headroom": BucketWords(
        "headroom", "replicas of services that serve, as far as there is nothing to serve",
        "replicas that wait for requests", 1, 0.5),
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
    """What a scenario must state for some metrics.

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
    lambda prepared: _serves_alone(prepared) or _every(prepared, lambda plan: plan.tokens_per_second > 0),
    "the tokens of every job are not known: give each a batch, and a step_time or a model; those of training and of "
    "serving are not added up",
    every_job=True,
)


def _serves_alone(prepared: Prepared) -> bool:
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


Unit = Literal[
    "share", "count", "s", "J", "J per token", "kg", "kg per token", "currency", "currency per token", "1/d", "1/s"
]


class Metric(NamedTuple):
    """What a number of a result is called, what it is in, and what it needs.

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
    constant
        Of what scenario it is the same in all replications by its definition, whatever fails.
    per_step
        The power of the time of a step that it goes with [-].
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
    constant: Callable[[Prepared], bool] = _never
    per_step: Literal[-1, 0, 1] = 0

    @property
    def is_share(self) -> bool:
        """Whether it is a share of something; its precision is stated in points."""
        return self.unit == "share"

    def lacks(self, prepared: Prepared) -> Need | None:
        """Return the first thing that it needs and that a scenario does not state; ``None`` if it has all."""
        return next((need for need in self.needs if not need.has(prepared)), None)

    @property
    def short(self) -> str:
        """What it is called in the head of a table."""
        return self.head or self.label

    @property
    def title(self) -> str:
        """Its head with what may stand behind it."""
        return f"{self.short} ({self.detail})" if self.detail else self.short


TIME_SHARE = "time_shares."
"""What the names of metrics begin with that are the share of a bucket in the requested GPU-time."""

# fmt: off
_OWN = (
    Metric("ettr", "ETTR", "the useful share of the time (ETTR)", "share",
           "productive / requested GPU-time: the effective training time ratio, queueing included",
           detail="productive / requested"),
    Metric("ettr_no_queue", "ETTR without the queue", "the useful share of the time without the queue", "share",
           "productive / (requested − `queued`)"),
    Metric("scheduling_goodput", "scheduling goodput", "the share of time in which the job has its nodes", "share",
           "(requested − `queued` − `starved` − `reschedule` − `given_up`) / requested"),
    Metric("runtime_goodput", "runtime goodput", "the useful share of the time with nodes", "share",
           "productive / (requested − `queued` − `starved` − `reschedule` − `given_up`)"),
    Metric("program_goodput", "program goodput", "the share of the peak speed that a step reaches (MFU)", "share",
           "model FLOP utilisation (MFU) of the healthy step; over several jobs weighted by productive GPU-time",
           detail="MFU", needs=(_MFU,), per_step=-1,
           constant=lambda prepared: len({plan.mfu for plan in prepared.jobs}) == 1),
    Metric("goodput", "goodput", "goodput", "share",
           "MFU × productive / requested: the share of the peak that was asked for and became training",
           detail="effective MFU", needs=(_MFU,), per_step=-1),
    Metric("effective_mfu", "effective MFU", "goodput", "share",
           "another name of `goodput`",
           needs=(_MFU,), per_step=-1),
    Metric("cluster_goodput", "cluster goodput", "the useful share of the time of all GPUs (cluster goodput)", "share",
           "productive GPU-time of all jobs / owned GPU-time; in a cluster of several pools GPUs count by their peak"
           " relative to the first pool",
           detail="all owned", of="cluster"),
    Metric("job_availability", "availability of jobs", "the share of time in which the job runs", "share",
           "time in which the job steps or saves / time from its first start to its end"),
    Metric("node_availability", "availability of nodes", "the share of nodes in working order", "share",
           "1 − node-time with an open outage / all node-time of the accounting window, that of withheld nodes left "
           "out. A node without a path through the fabric has one; a node that is only slower has none",
           of="cluster"),
    Metric("domain_availability", "availability of domains", "the share of domains in working order", "share",
           "time of units (racks, scale-up domains) that are of use / all time of units. Only where jobs use units "
           "as wholes: `spares.unit`, or scale-up domains of several nodes that are swapped whole",
           of="cluster"),
    Metric("interruptions", "interruptions", "the number of interruptions", "count",
           "failures that hit a job, in whatever phase",
           better="lower", is_plural=True),
    Metric("interruptions_planned", "planned interruptions", "the number of planned interruptions", "count",
           "those of sources marked `planned`",
           better="lower", is_plural=True,
           constant=lambda prepared: not any(source.planned for source in prepared.sources)),
    Metric("interruptions_unplanned", "unplanned interruptions", "the number of unplanned interruptions", "count",
           "the others",
           better="lower", is_plural=True),
    Metric("disruptions", "disruptions", "the number of stops", "count",
           "failures that took a job out of stepping; the other interruptions merged into an open incident",
           better="lower", is_plural=True),
    Metric("mtti", "time between interruptions", "the time between interruptions", "s",
           "time from first start to end / interruptions. Without any, the mean is null and `lower_bound95` says "
           "what it is longer than, at 95 % confidence: the time seen / ln 20",
           head="MTTI"),
    Metric("mtti_running", "running time between interruptions", "the running time between interruptions", "s",
           "time in which the job steps or saves / interruptions",
           head="running MTTI"),
    Metric("at_risk_at_end", "share of work at risk at the end", "work not yet saved at the end", "share",
           "work not yet durable at the job's end, in GPU-time / requested; it is part of `productive`",
           better="lower", head="at risk at the end"),
    Metric("tokens_per_day", "tokens per day", "training speed", "1/d",
           "tokens that survived / days from arrival to end; of all jobs together, from the first arrival to the "
           "last end. Needs `batch` and a step time in every job. Of services alone, tokens of their answers",
           counted="tokens a day", needs=(_TOKENS,), is_plural=True, per_step=-1),
    Metric("tokens_per_gpu_day", "tokens per GPU-day", "training speed for each GPU", "1/d",
           "tokens that survived / days of the GPUs owned, whatever they do; GPUs of all pools count alike",
           counted="tokens for each GPU and day", needs=(_TOKENS,), is_plural=True, of="cluster", per_step=-1),
    Metric("tokens_per_mw_day", "tokens per MW-day", "training speed for each megawatt", "1/d",
           "tokens that survived / days of the megawatts that the facility is built for: (all nodes in training, "
           "spares too + switches + storage) × PUE, or `power.cap`. Needs the power of a node",
           counted="tokens for each megawatt and day", needs=(_POWER, _TOKENS), is_plural=True, of="cluster",
           per_step=-1),
    Metric("steps_per_day", "steps per day", "training speed", "1/d",
           "optimizer steps that survived / days from arrival to end, of all jobs together as for tokens. A step "
           "with a replica less counts as one step, and trains fewer tokens. Needs a step time in every job",
           counted="steps a day", needs=(_STEP,), is_plural=True, per_step=-1),
    Metric("time_to_work", "time to finish", "the time to finish", "s",
           "time from arrival to the end of a fixed amount of work",
           better="lower", needs=(_WORK,)),
    Metric("p_finish_by", "probability to finish in time", "the probability to finish in time", "share",
           "jobs finished within their `deadline` after arrival / jobs with a deadline",
           head="P(finish by the deadline)", needs=(_WORK, _DEADLINE), is_probability=True),
    Metric("energy", "energy per run", "the energy per run", "J",
           "energy of the facility in a replication. Needs the power of a node: from the catalog of accelerators, or"
           " `power`",
           better="lower", head="facility energy per run", needs=(_POWER,), of="cluster"),
    Metric("energy_per_token", "energy of a million tokens", "the energy of training", "J per token",
           "energy / tokens that survived",
           better="lower", needs=(_POWER, _TOKENS), of="cluster", per_step=1),
    Metric("carbon", "CO2 per run", "the CO2 per run", "kg",
           "Σ energy of the facility × carbon intensity of the grid at that time. Needs `power.carbon`",
           better="lower", needs=(_POWER, _CARBON), of="cluster"),
    Metric("carbon_per_token", "CO2 of a million tokens", "the CO2 of training", "kg per token",
           "CO2 / tokens that survived",
           better="lower", needs=(_POWER, _CARBON, _TOKENS), of="cluster", per_step=1),
    Metric("cost", "cost per run", "the cost per run", "currency",
           "cost of a replication. Needs `cost`",
           better="lower", needs=(_PRICES,), of="cluster", constant=_pays_for_time_alone),
    Metric("false_alarms_per_day", "false alarms per day", "the healthy nodes drained in a day", "1/d",
           "healthy nodes that are drained, of jobs or not / days of the accounting window",
           better="lower", counted="false alarms a day", needs=(_ALARMS,), is_plural=True, of="cluster"),
    Metric("alarm_precision", "precision of alarms", "the share of drained nodes that were bad", "share",
           "nodes drained before a failure / all nodes drained by an alarm",
           detail="seen", needs=(_ALARMS,), of="cluster"),
    Metric("alarm_recall", "recall of alarms", "the share of failures that were seen coming", "share",
           "nodes drained before a failure / these and the failures of the same causes without an alarm; of nodes "
           "that are not down already",
           detail="seen", needs=(_ALARMS,), of="cluster"),
    Metric("fill_rate", "fill rate of parts", "the share of repairs that find their part on the shelf", "share",
           "repairs that find their part on the shelf / repairs that need one, over all stocks of parts",
           detail="on the shelf", needs=(_PARTS,), of="cluster"),
    Metric("stock_outs", "stock-outs", "the number of repairs that wait for a part", "count",
           "repairs that find no part on the shelf",
           better="lower", needs=(_PARTS,), of="cluster", is_plural=True),
    Metric("parts_wait", "node-hours that wait for parts", "the node-hours that wait for a part", "count",
           "hours of nodes out of service from the fault to the part that their repair needs; of a stop of a run that "
           "still waits, up to its end",
           better="lower", needs=(_PARTS,), of="cluster", is_plural=True),
    Metric("occupancy", "occupancy", "the share of working GPUs that jobs have", "share",
           "GPU-time of jobs and services / owned GPU-time without `repair`, `qualification` and `maintenance` of nodes"
           " outside jobs",
           detail="allocated / healthy", needs=(_STREAMS,), of="cluster"),
    Metric("allocation", "allocation", "the share of all GPUs that jobs have", "share",
           "GPU-time of jobs and services / owned GPU-time",
           detail="allocated / owned", needs=(_STREAMS,), of="cluster"),
    Metric("fragmentation", "fragmentation", "the share of free GPUs that the largest possible job cannot use", "share",
           "1 − largest job that could start / free GPUs, over time weighted by the free GPUs",
           better="lower", needs=(_STREAMS,), of="cluster"),
    Metric("fragmentation_in_need", "fragmentation while jobs wait",
           "the share of free GPUs that the largest possible job cannot use while jobs wait", "share",
           "as `fragmentation`, over the time in which a job waits",
           better="lower", needs=(_STREAMS,), of="cluster"),
    Metric("stranded", "stranded GPUs", "the share of all GPUs that are free on nodes with jobs", "share",
           "free GPU-time of nodes that smaller jobs share / owned GPU-time: no job of a whole node can have it",
           better="lower", detail="free on shared nodes", needs=(_STREAMS,), is_plural=True, of="cluster"),
    Metric("fairness", "fairness between tenants", "how even the tenants' shares are", "share",
           "Jain's index (Σx)² / (n Σx²) of the n tenants, x = share of the GPU-time of jobs and services / share that"
           " it is entitled to: its quota where all have one, else its weight. It is 1 where all x are equal, 1/n where"
           " one has all; a tenant that asks for less than its share lowers it too. Only with several tenants",
           detail="Jain's index", needs=(_STREAMS, _TENANTS), of="cluster"),
    Metric("queue_length", "jobs in the queue", "the number of waiting jobs", "count",
           "jobs in the queue, mean over time",
           better="lower", needs=(_STREAMS,), is_plural=True, of="cluster"),
    Metric("second_order_share", "second-order share", "the share of failure losses that preemptions pass on", "share",
           "GPU-time lost via preemptions whose root is a failure / all GPU-time lost whose root is a failure",
           better="lower", needs=(_STREAMS,), of="cluster"),
    Metric("wait_first", "first wait", "the wait before a job first starts", "s",
           "first submission to first start, mean of the jobs that started",
           better="lower", needs=(_STREAMS,)),
    Metric("wait_total", "total wait", "all the time that a job waits", "s",
           "all time in the queue, requeues included, mean of the jobs that ended",
           better="lower", needs=(_STREAMS,)),
    Metric("jct", "job completion time", "the time from submission to completion", "s",
           "first submission to end, mean of the jobs that completed",
           better="lower", head="JCT", needs=(_STREAMS,)),
    Metric("bounded_slowdown", "bounded slowdown", "how many times its run time a job takes", "count",
           "max(1, (total wait + run) / max(run, τ)) with τ = 10 s, mean of the jobs that ended",
           better="lower", detail="τ = 10 s", needs=(_STREAMS,)),
    Metric("bounded_slowdown_10min", "bounded slowdown of long jobs", "how many times its run time a job takes",
           "count", "as `bounded_slowdown`, with τ = 10 min",
           better="lower", head="bounded slowdown", detail="τ = 10 min", needs=(_STREAMS,)),
    Metric("ettr_above_90", "GPU-time with an ETTR of 90 %", "the share of GPU-time in jobs that lose at most a tenth",
           "share",
           "GPU-time of the jobs whose own ETTR is 0.9 or more / GPU-time of all jobs",
           head="GPU-time with ETTR ≥ 0.9", needs=(_STREAMS,)),
    Metric("preemptions", "preemptions", "the number of preemptions in 1,000 GPU-hours", "count",
           "running jobs stopped for another job, per 1,000 GPU-hours of jobs",
           better="lower", detail="per 1,000 GPU-h", needs=(_STREAMS,), is_plural=True),
    Metric("second_order_preemptions", "second-order preemptions",
           "the number of preemptions in 1,000 GPU-hours that a failure began", "count",
           "preemptions by a job that a failure had put back into the queue, per 1,000 GPU-hours of jobs",
           better="lower", detail="per 1,000 GPU-h", needs=(_STREAMS,), is_plural=True),
    Metric("mttf", "MTTF of jobs", "the running time between failures of a job", "s",
           "time of jobs with their nodes / stops by failures of infrastructure",
           head="MTTF", needs=(_STREAMS,)),
    Metric("slo_attainment", "SLO attainment", "the share of requests that meet the SLO", "share",
           "requests whose TTFT and mean TPOT are within the SLO / requests offered",
           needs=(_SERVICES,), of="service", detail="in SLO / offered"),
    Metric("served_share", "requests served", "the share of requests that are answered", "share",
           "requests answered, in SLO or late / requests offered; the others are turned away, give up, are lost with "
           "their replica, or wait at the end",
           needs=(_SERVICES,), of="service", is_plural=True, detail="answered / offered"),
    Metric("slo_goodput", "SLO goodput", "the requests in SLO a second", "1/s",
           "requests in SLO / time",
           counted="requests a second", needs=(_SERVICES,), of="service", detail="requests/s"),
    Metric("capacity_availability", "capacity availability", "the share of time with enough replicas", "share",
           "time in which the replicas that serve admit all that is asked / time",
           needs=(_SERVICES,), of="service", detail="share of the time, capacity ≥ demand"),
    Metric("capacity_share", "replicas that serve", "the share of replicas that serve", "share",
           "replicas that serve, slower ones in part / replicas that the service has, or wants where they are scaled",
           needs=(_SERVICES,), of="service", is_plural=True, detail="share of the replicas, mean over time"),
    Metric("all_serving", "time with all replicas", "the share of time with all replicas", "share",
           "time in which as many replicas serve as the service has, or wants / time",
           needs=(_SERVICES,), of="service"),
    Metric("minutes_below_demand", "minutes below demand", "the minutes with too few replicas", "count",
           "minutes of a run in which the replicas that serve admit less than is asked; of several services added up",
           better="lower", needs=(_SERVICES,), of="service", is_plural=True),
    Metric("failed_share", "requests lost with a replica", "the share of requests that fail with their replica",
           "share", "requests that were in flight when their replica failed, or reached it before that was known, and "
           "were not taken over / requests offered",
           better="lower", needs=(_SERVICES,), of="service", is_plural=True),
    Metric("wasted_work", "work for clients that gave up", "the share of work for clients that have given up", "share",
           "requests that are served although their clients have given up (`overload.cancel: false`) / all that are "
           "served; that time is `lost_work`",
           better="lower", needs=(_SERVICES,), of="service"),
    Metric("busy_share", "busy share of the replicas", "the share of the replicas' time with work", "share",
           "GPU-time of replicas that serve, as far as they are used / that GPU-time; the rest is `headroom`",
           needs=(_SERVICES,), of="service"),
    Metric("tokens_per_s_user", "tokens per second and user", "the speed that a user sees", "1/s",
           "tokens of answers / time that they took after the first: 1 over the mean TPOT",
           counted="tokens a second", needs=(_SERVICES,), of="service", is_plural=True),
    Metric("missed_windows", "windows below the target", "the probability that a window misses its target", "share",
           "windows of a target in which its metric is below `at_least` / whole windows in which anything was asked "
           "for. Its interval is that of as many independent windows as the replications vary like; where none or all "
           "miss, all are taken as independent. A service without a target has its `slo.attainment`, in every window "
           "of `windows`, or of a 120th of the horizon",
           better="lower", needs=(_TARGETS,), of="target", is_plural=True, head="P(miss)", detail="of a window",
           is_of_windows=True),
    Metric("worst_window", "worst window", "the lowest value of a window", "share",
           "the lowest value that the metric of a target has in a window of a run; of several targets the lowest",
           needs=(_TARGETS,), of="target"),
    Metric("error_budget_left", "error budget left", "the part of the error budget that is left", "share",
           "1 − what a target missed / what it may miss, over all its windows: of requests (1 − `at_least`) of those "
           "offered, of jobs that part of their GPU-time. Below 0 the target is missed; of several targets the least",
           needs=(_TARGETS,), of="target", is_signed=True),
    Metric("credit_share", "part of the bill given back", "the part of the bill that is given back", "share",
           "credits of a target, by the tier that each window falls into / its bill",
           better="lower", needs=(_CREDITS,), of="target"),
    Metric("credits", "credits per run", "the money that is given back", "currency",
           "`bill` of a target times the parts that are given back, of all windows of a run",
           better="lower", needs=(_BILLS,), of="target", is_plural=True),
    Metric("cost_per_token", "cost of a million tokens", "the cost of training", "currency per token",
           "cost / tokens that survived. Needs `batch` and a step time in every job, as all that is per token",
           better="lower", needs=(_PRICES, _TOKENS), of="cluster", per_step=1),
)
# fmt: on

_OF_TIME = tuple(
    Metric(
        f"{TIME_SHARE}{name}",
        f"share of time in {BUCKETS[name].label}",
        f"the share of time for {BUCKETS[name].lost_to}",
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
        part = Slice.parse(name)
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
    return "slo_attainment" if _serves_alone(prepared) else "ettr"


def is_share(metric: str) -> bool:
    """Return whether a metric is a share; its precision is stated in points."""
    return metric in METRICS and METRICS[metric].is_share


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


# What a run took: energy by what drew it, and money by what it was paid for.

_KWH, _MW = ENERGY.units["kWh"], 1e6


def spending(prepared: Prepared, result: Result) -> dict[str, Ratio]:
    """Return what a replication took as metrics of the whole cluster; nothing that is not known.

    ``energy`` [J] and ``cost`` are those of the facility in the accounting window, idle nodes and repairs included;
    ``carbon`` [kg of CO2] is that of this energy; these three ``_per_token`` are over the tokens that survived, of all
    jobs;
    ``tokens_per_gpu_day`` and ``tokens_per_mw_day`` are these tokens over what is there to make them, used or not: the
    GPUs, and the power that the facility is built for.
    """
    tokens = math.fsum(_tokens(prepared, result, index) for index in range(len(prepared.jobs)))
    if _serves_alone(prepared):
        tokens = _tokens_served(prepared, result)
    return _metrics(_amounts(prepared, result), _endowment(prepared, result), tokens, has_tokens=_TOKENS.has(prepared))


def job_spending(prepared: Prepared, result: Result) -> list[dict[str, Ratio]]:
    """Return the same for each job: its share of what the cluster took, as the scenario shares it out."""
    shares = _shares(prepared, result)
    if shares is None:
        return [{} for _ in prepared.jobs]
    amounts, endowment = _amounts(prepared, result), _endowment(prepared, result)
    return [
        _metrics(
            {name: share * amount for name, amount in amounts.items()},
            {name: share * amount for name, amount in endowment.items()},
            _tokens(prepared, result, index),
            has_tokens=known,
        )
        for index, (share, known) in enumerate(zip(shares, _has_tokens(prepared), strict=True))
    ]


def amounts_of(prepared: Prepared, result: Result) -> tuple[dict[str, float], dict[str, int]]:
    """Return what a replication took, by name, and its repairs that are paid for, by class of part [-].

    ``seconds`` [s]; ``energy.<bucket>`` [J], where it is known what a node draws; ``cost.<what for>``, with prices.
    """
    found = {"seconds": _seconds(result)}
    if prepared.upkeep.facility is not None:
        found |= {f"energy.{bucket}": amount for bucket, amount in _of_nodes(prepared, result).items()}
    if prepared.upkeep.cost is None:
        return found, {}
    found |= {f"cost.{what}": amount for what, amount in _cost(prepared, result).items()}
    return found, _repairs(prepared, result)


def _metrics(
    amounts: Mapping[str, float], endowment: Mapping[str, float], tokens: float, *, has_tokens: bool
) -> dict[str, Ratio]:
    found = {name: Ratio(amount, 1) for name, amount in amounts.items()}
    if has_tokens:
        found |= {f"{name}_per_token": Ratio(amount, tokens) for name, amount in amounts.items()}
        found |= {f"tokens_per_{name}": Ratio(tokens, amount) for name, amount in endowment.items()}
    return found


def _amounts(prepared: Prepared, result: Result) -> dict[str, float]:
    """Return what is known of the energy of a replication [J] and of its cost."""
    amounts = {}
    energy = _energy(prepared, result)
    if energy is not None:
        amounts["energy"] = energy.total
        if _CARBON.has(prepared):
            amounts["carbon"] = (
                result.drawn.carbon
                if result.drawn is not None
                else energy.total * prepared.upkeep.mean(lambda level: level.carbon, _seconds(result))
            )
    if prepared.upkeep.cost is not None:
        amounts["cost"] = math.fsum(_cost(prepared, result).values())
    return amounts


def _endowment(prepared: Prepared, result: Result) -> dict[str, float]:
    """Return what a replication had at hand, used or not: GPU-days, and MW-days where the power of a node is known."""
    found = {"gpu_day": result.owned / DAY}
    power = provisioned(prepared)
    if power is not None:
        found["mw_day"] = power / _MW * _seconds(result) / DAY
    return found


def provisioned(prepared: Prepared) -> float | None:
    """Return the power that the facility has to be built for [W]; ``None`` if it is not known what a node draws.

    ``P = (N P_training + P_network + P_storage) x PUE``, or its cap: all nodes train at once, spares among them.
    """
    facility = prepared.upkeep.facility
    if facility is None:
        return None
    full = facility_energy(
        prepared.nodes * facility.node.training, facility.network, facility.storage, facility.pue
    ).total
    return min(full, prepared.upkeep.cap)


def _has_tokens(prepared: Prepared) -> list[bool]:
    return [plan.tokens_per_second > 0 for plan in prepared.jobs]


def _tokens(prepared: Prepared, result: Result, index: int) -> float:
    """Return the tokens of a job that survived [-]."""
    return result.jobs[index].work * prepared.jobs[index].tokens_per_second


def _tokens_served(prepared: Prepared, result: Result) -> float:
    """Return the tokens of all answers of services [-]."""
    assert result.fleet is not None, "services have one"
    return math.fsum(
        float(result.fleet.service_sum(plan.index, "served").sum()) * plan.output for plan in prepared.services
    )


def _shares(prepared: Prepared, result: Result) -> list[float] | None:
    """Return the share of each job in what the cluster takes [-]; ``None`` if it is not stated how they share it."""
    cost = prepared.upkeep.cost
    rule = cost.allocation if cost is not None else None
    if len(prepared.jobs) == 1:
        return [1.0]
    if rule is None:
        return None
    asked = [job.requested if rule == "requested" else float(job.gpus) for job in result.jobs]
    total = sum(asked)
    return [amount / total if total else 0.0 for amount in asked]


def _seconds(result: Result) -> float:
    """Return the length of the accounting window [s]."""
    return float(result.edges[-1] - result.edges[0])


def _of_nodes(prepared: Prepared, result: Result) -> dict[str, float]:
    """Return the energy of the nodes by bucket of the cluster [J]."""
    facility = prepared.upkeep.facility
    assert facility is not None
    if result.drawn is not None:
        return dict(zip(CLUSTER_BUCKETS, result.drawn.nodes.tolist(), strict=True))
    return energy_by_bucket(dict(zip(CLUSTER_BUCKETS, result.cluster.tolist(), strict=True)), facility.node)


def _energy(prepared: Prepared, result: Result) -> FacilityEnergy | None:
    """Return the energy of the facility by part [J]; ``None`` if it is not known."""
    facility = prepared.upkeep.facility
    if facility is None:
        return None
    seconds = _seconds(result)
    nodes = sum(_of_nodes(prepared, result).values())
    return facility_energy(nodes, facility.network * seconds, facility.storage * seconds, facility.pue)


def _repairs(prepared: Prepared, result: Result) -> dict[str, int]:
    """Return the repairs that are paid for, by class of part [-]."""
    found: dict[str, int] = {}
    for part, number in ((prepared.upkeep.repaired[cause - 1], number) for cause, number in result.repairs.items()):
        if part:
            found[part] = found.get(part, 0) + number
    return found


def _cost(prepared: Prepared, result: Result) -> dict[str, float]:
    """Return the cost of a replication by what it is paid for, in the currency of the scenario."""
    cost = prepared.upkeep.cost
    assert cost is not None
    repairs = _repairs(prepared, result)
    energy = _energy(prepared, result)
    priced = energy.total if energy is not None else 0.0
    if result.drawn is not None:
        priced = result.drawn.priced
    elif prepared.upkeep.levels:
        priced *= prepared.upkeep.mean(lambda level: level.price, _seconds(result))
    years = _seconds(result) / YEAR
    gpu_years = result.owned / YEAR
    found = {
        "capex": (cost.capex or 0.0) * gpu_years / (cost.years or 1.0),
        "energy": (cost.energy or 0.0) * priced / _KWH,
        "storage": (cost.storage or 0.0) * years,
        "repair": math.fsum(cost.repair.get(part, 0.0) * number for part, number in repairs.items()),
        "labour": (cost.labour or 0.0) * sum(repairs.values()),
        "rent": (cost.gpu_hour or 0.0) * result.owned / HOUR,
    }
    if prepared.parts:
        found["parts"] = math.fsum(
            (prepared.parts[name].stock.price or 0.0) * use.bought
            + (prepared.parts[name].stock.holding or 0.0) * use.part_seconds / YEAR
            for name, use in result.parts.items()
        )
    return found


# From what a replication counted to metrics.


def job_ratios(plan: PreparedJob, job: JobResult, causes: Sequence[bool]) -> dict[str, Ratio]:
    """Return the metrics of one job in one replication.

    Returns
    -------
    dict
        An amount and a base for each metric; bases add up over jobs and replications.
    """
    requested, productive = job.requested, float(job.buckets[Bucket.PRODUCTIVE])
    scheduling = job.waiting_for_nodes
    queued = float(job.buckets[Bucket.QUEUED])
    hits = sum(job.interruptions.values())
    planned = sum(count for cause, count in job.interruptions.items() if causes[cause - 1])
    # A job that arrives after the horizon is neither there nor late.
    since_arrival = max(job.end - job.arrival, 0.0)
    metrics = {
        "ettr": Ratio(productive, requested),
        "ettr_no_queue": Ratio(productive, requested - queued),
        "scheduling_goodput": Ratio(requested - scheduling, requested),
        "runtime_goodput": Ratio(productive, requested - scheduling),
        "job_availability": Ratio(job.running, job.elapsed),
        "at_risk_at_end": Ratio(job.at_risk * job.gpus, requested),
        "interruptions": Ratio(hits, 1),
        "interruptions_planned": Ratio(planned, 1),
        "interruptions_unplanned": Ratio(hits - planned, 1),
        "disruptions": Ratio(sum(job.disruptions.values()), 1),
        "mtti": Ratio(job.elapsed, hits),
        "mtti_running": Ratio(job.running, hits),
    }
    if plan.mfu is not None:
        # Weighed by productive time, so that goodput is ettr times this over several jobs too.
        metrics["program_goodput"] = Ratio(plan.mfu * productive, productive)
        metrics["goodput"] = metrics["effective_mfu"] = Ratio(plan.mfu * productive, requested)
    if plan.tokens_per_second:
        metrics["tokens_per_day"] = Ratio(job.work * plan.tokens_per_second, since_arrival / DAY)
    if plan.step_time > 0:
        metrics["steps_per_day"] = Ratio(job.steps, since_arrival / DAY)
    if math.isfinite(plan.target):
        # Unfinished is later than anything that was seen, not a number of its own.
        metrics["time_to_work"] = Ratio(since_arrival if job.finished else math.inf, 1)
        if plan.deadline is not None:
            metrics["p_finish_by"] = Ratio(float(job.finished and since_arrival <= plan.deadline), 1)
    return metrics


def ratios(prepared: Prepared, result: Result) -> dict[str, Ratio]:
    """Return the metrics of one replication, over all its jobs.

    Amounts and bases are summed over the jobs, with two exceptions: counts stay counts of the scenario, and tokens and
    steps per day are those of all jobs in the time from the first arrival to the last end. Energy and cost are those of
    the cluster.
    """
    planned = [source.planned for source in prepared.sources]
    jobs = [job_ratios(plan, job, planned) for plan, job in zip(prepared.jobs, result.jobs, strict=True)]
    pooled: dict[str, Ratio] = {}
    for name in dict.fromkeys(name for row in jobs for name in row):
        mine = [row[name] for row in jobs if name in row]
        if len(mine) < len(jobs) and any(need.every_job for need in METRICS[name].needs):
            continue
        unit = METRICS[name].unit
        base = sum(ratio.base for ratio in mine)
        if unit in ("count", "1/d"):
            base = 1.0 if unit == "count" else max(_last_end(result) - _first_arrival(result), 0.0) / DAY
        pooled[name] = Ratio(sum(ratio.amount for ratio in mine), base)
    if not _serves_alone(prepared):
        productive = sum(float(job.buckets[Bucket.PRODUCTIVE]) for job in result.jobs)
        pooled["cluster_goodput"] = Ratio(productive, result.capacity)
    else:
        pooled["tokens_per_day"] = Ratio(_tokens_served(prepared, result), _seconds(result) / DAY)
    if result.fleet is not None:
        pooled |= fleet_ratios(prepared, result.fleet)
    pooled |= target_ratios(prepared, result)
    pooled["node_availability"] = Ratio(result.node_seconds - result.down_node_seconds, result.node_seconds)
    if _ALARMS.has(prepared):
        right, wrong, missed = (result.counts[name] for name in ("true_alarms", "false_alarms", "missed"))
        pooled["false_alarms_per_day"] = Ratio(wrong, _seconds(result) / DAY)
        pooled["alarm_precision"] = Ratio(right, right + wrong)
        pooled["alarm_recall"] = Ratio(right, right + missed)
    if prepared.parts:
        asked, waited = (sum(use[place] for use in result.parts.values()) for place in (0, 1))
        pooled["fill_rate"] = Ratio(asked - waited, asked)
        pooled["stock_outs"] = Ratio(waited, 1)
        pooled["parts_wait"] = Ratio(math.fsum(use.node_seconds for use in result.parts.values()) / HOUR, 1)
    if result.unit_seconds:
        pooled["domain_availability"] = Ratio(result.whole_unit_seconds, result.unit_seconds)
    return pooled | spending(prepared, result)


def _first_arrival(result: Result) -> float:
    return min(job.arrival for job in result.jobs)


def _last_end(result: Result) -> float:
    return max(job.end for job in result.jobs)


def time_shares(result: Result) -> dict[str, Ratio]:
    """Return the share of the jobs' requested GPU-time in each bucket, as metrics ``time_shares.<bucket>``."""
    requested = sum(job.requested for job in result.jobs)
    spent = sum((job.buckets for job in result.jobs), np.zeros(len(JOB_BUCKETS)))
    if result.fleet is not None:
        spent = spent + result.fleet.buckets
        requested += float(result.fleet.buckets.sum())
    return {
        f"{TIME_SHARE}{name}": Ratio(time, requested) for name, time in zip(JOB_BUCKETS, spent.tolist(), strict=True)
    }


# How many nodes are missing at once, and how far that is from what independent nodes would do.

LEVELS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


def add_times(times: dict[int, float], more: Mapping[int, float]) -> None:
    """Add for how long a count had each value in a replication to what is in `times` [s]."""
    for count, seconds in more.items():
        times[count] = times.get(count, 0.0) + seconds


def nodes_down(times: Mapping[int, float], nodes: int, gpus: int = 1, spares: int = 0) -> dict[str, Any]:
    """Return the distribution over time of the number of nodes, or domains, that are down, pooled over replications.

    Parameters
    ----------
    times
        For how long how many were down, in all replications of a scenario [s].
    spares
        A number that `more_than` has in any case.

    Returns
    -------
    dict
        ``mean`` [-], the smallest numbers that are enough for 50, 90, 99 and 99.9 % of the time, ``max``, the variance
        over that of independent nodes (``dispersion``; null if no node was ever down), under ``independent`` what
        independent nodes with the same mean would need, and under ``more_than`` the share of the time with more than 0,
        1, 2, 4, 8, ... down.
    """
    counts = np.array(sorted(times), dtype=np.int64)
    share = np.array([times[count] for count in counts])
    if not share.sum():
        return {}
    share /= share.sum()
    mean = float(counts @ share)
    unavailability = mean / nodes
    variance = float((counts - mean) ** 2 @ share)
    reached = np.cumsum(share)
    # A rounding error must not ask for one node more.
    found = {name: int(counts[np.searchsorted(reached, level * (1 - 1e-12))]) for name, level in LEVELS.items()}
    law = missing_nodes_pmf(nodes, unavailability)  # its quantiles in closed form would need scipy
    chance = nodes * unavailability * (1 - unavailability)
    most = int(counts[share > 0][-1])
    steps = sorted({0, spares, *(2**power for power in range(most.bit_length()))})
    return {
        "mean": mean,
        **found,
        "max": most,
        "dispersion": variance / chance if chance > 0 else None,
        "independent": {name: quantile(law, level) for name, level in LEVELS.items()},
        "more_than": [
            {"count": step, "gpus": step * gpus, "time_share": float(share[counts > step].sum())}
            for step in steps
            if step < most or step == spares
        ],
    }

"""From what a replication counted and took to amounts over bases: the metrics of `ettrick.analysis.metrics`.

Of a block of replications, whose results are columns, amounts and bases are columns too: these formulas hold for both.
`ReplicationMetrics` has those of a scenario, energy, CO2 and cost among them; `job_ratios` those of a job,
`target_ratios` what was promised of a service or a job.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick.analysis.fleet import fleet_ratios
from ettrick.analysis.metrics import METRICS, TIME_SHARE, Slice, metrics_of, serves_alone
from ettrick.sim import CLUSTER_BUCKETS, JOB_BUCKETS, SCHEDULING, SERVICE_SUMS, Bucket, Ratio, window_width
from ettrick.sim.steps.power import energy_by_bucket, facility_energy
from ettrick.sim.units import DAY, ENERGY, HOUR, YEAR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from ettrick.sim import JobResult, PowerPeriod, Prepared, PreparedJob, Result, TargetPlan
    from ettrick.sim.steps.power import FacilityEnergy

    FloatArray = npt.NDArray[np.float64]

# What a run took: energy by what drew it, and money by what it was paid for.

_KWH, _MW = ENERGY.units["kWh"], 1e6


def _metrics(
    amounts: Mapping[str, float], endowment: Mapping[str, float], tokens: float, *, has_tokens: bool
) -> dict[str, Ratio]:
    metrics = {name: Ratio(amount, 1) for name, amount in amounts.items()}
    if has_tokens:
        metrics |= {f"{name}_per_token": Ratio(amount, tokens) for name, amount in amounts.items()}
        metrics |= {f"tokens_per_{name}": Ratio(tokens, amount) for name, amount in endowment.items()}
    return metrics


def provisioned(prepared: Prepared) -> float | None:
    """Return the power that the facility has to be built for [W]; ``None`` if it is not known what a node draws.

    ``P = (N P_training + P_network + P_storage) x PUE``, or its cap: all nodes train at once, spares among them.
    """
    facility = prepared.upkeep.facility
    if facility is None:
        return None
    return min(facility.provisioned(prepared.nodes), prepared.upkeep.cap)


def _tokens(prepared: Prepared, result: Result, index: int) -> float:
    """Return the tokens of a job that survived [-]."""
    return result.jobs[index].work * prepared.jobs[index].tokens_per_second


def _tokens_served(prepared: Prepared, result: Result) -> float:
    """Return the tokens of all answers of services [-]."""
    return math.fsum(
        float(result.fleet.service_sum(plan.index, "served").sum()) * plan.output for plan in prepared.services
    )


def _exact_sum(numbers: Iterable[float]) -> Any:
    """Return the exact sum of numbers, of columns row by row."""
    columns = np.broadcast_arrays(0.0, *numbers)
    sums = [math.fsum(row) for row in zip(*map(np.ravel, columns), strict=True)]
    return np.reshape(sums, columns[0].shape)[()]


def _shares(prepared: Prepared, result: Result) -> list[float] | None:
    """Return the share of each job in what the cluster takes [-]; ``None`` if it is not stated how they share it."""
    cost = prepared.upkeep.cost
    rule = cost.allocation if cost is not None else None
    if len(prepared.jobs) == 1:
        return [1.0]
    if rule is None:
        return None
    requests = [job.requested if rule == "requested" else float(job.gpus) for job in result.jobs]
    total = sum(requests)
    return [amount / total if total else 0.0 for amount in requests]


# From what a replication counted to metrics.


def job_ratios(plan: PreparedJob, job: JobResult, causes: Sequence[bool]) -> dict[str, Ratio]:
    """Return the metrics of one job in one replication.

    Returns
    -------
    dict
        An amount and a base for each metric; bases add up over jobs and replications.
    """
    buckets = job.buckets.T
    requested, productive = job.requested, buckets[Bucket.PRODUCTIVE]
    scheduling = job.waiting_for_nodes
    queued = buckets[Bucket.QUEUED]
    hits = sum(job.interruptions.values())
    planned = sum(count for cause, count in job.interruptions.items() if causes[cause - 1])
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
    return metrics | _since_arrival(plan, job)


def _since_arrival(plan: PreparedJob, job: JobResult) -> dict[str, Ratio]:
    """Return the metrics of a job that count from its arrival: what it does in a day, and when it is done."""
    # A job that arrives after the horizon is neither there nor late.
    since_arrival: Any = np.maximum(job.end - job.arrival, 0.0)
    metrics = {}
    if plan.tokens_per_second:
        metrics["tokens_per_day"] = Ratio(job.work * plan.tokens_per_second, since_arrival / DAY)
    if plan.step_time > 0:
        metrics["steps_per_day"] = Ratio(job.steps, since_arrival / DAY)
    if math.isfinite(plan.target):
        # Unfinished is later than anything that was seen, not a number of its own.
        time: Any = np.where(job.finished, since_arrival, math.inf)[()]
        metrics["time_to_work"] = Ratio(time, 1)
        if plan.deadline is not None:
            metrics["p_finish_by"] = Ratio(1.0 * (job.finished & (since_arrival <= plan.deadline)), 1)
    return metrics


def ratios(prepared: Prepared, result: Result) -> dict[str, Ratio]:
    """Return the metrics of one replication, over all its jobs, in plain numbers."""
    metrics = ReplicationMetrics(prepared, result).metrics()
    return {name: Ratio(*(np.asarray(number).item() for number in ratio)) for name, ratio in metrics.items()}


class ReplicationMetrics:
    """The metrics of a replication, or of a block of them, and what it took; each part is worked out once."""

    def __init__(self, prepared: Prepared, result: Result) -> None:
        self.prepared, self.result = prepared, result
        self.seconds = result.edges.T[-1] - result.edges.T[0]
        """The length of the accounting window [s]."""

    @functools.cached_property
    def jobs(self) -> list[dict[str, Ratio]]:
        """The metrics of each named job, without what it took."""
        planned = [source.planned for source in self.prepared.sources]
        jobs = zip(self.prepared.jobs, self.result.jobs, strict=True)
        return [job_ratios(plan, job, planned) for plan, job in jobs]

    @functools.cached_property
    def nodes(self) -> dict[str, float]:
        """The energy of the nodes by bucket of the cluster [J]; empty where it is not known what a node draws."""
        facility, drawn = self.prepared.upkeep.facility, self.result.drawn
        if facility is None:
            return {}
        if drawn is not None:
            return dict(zip(CLUSTER_BUCKETS, drawn.nodes.tolist(), strict=True))
        return energy_by_bucket(dict(zip(CLUSTER_BUCKETS, self.result.cluster.T, strict=True)), facility.node)

    @functools.cached_property
    def energy(self) -> FacilityEnergy | None:
        """The energy of the facility by part [J]; ``None`` if it is not known."""
        facility, seconds = self.prepared.upkeep.facility, self.seconds
        if facility is None:
            return None
        nodes = sum(self.nodes.values())
        return facility_energy(nodes, facility.network * seconds, facility.storage * seconds, facility.pue)

    @functools.cached_property
    def repairs(self) -> dict[str, int]:
        """The repairs that are paid for, by class of part [-]; none without prices."""
        repairs: dict[str, int] = {}
        upkeep = self.prepared.upkeep
        for cause, number in self.result.repairs.items() if upkeep.cost is not None else ():
            part = upkeep.repaired[cause - 1]
            if part:
                repairs[part] = repairs.get(part, 0) + number
        return repairs

    @functools.cached_property
    def costs(self) -> dict[str, float]:
        """The cost by what it is paid for, in the currency of the scenario; none without prices."""
        prepared, result, cost = self.prepared, self.result, self.prepared.upkeep.cost
        if cost is None:
            return {}
        gpu_years = result.owned / YEAR
        costs: dict[str, Any] = {
            "capex": (cost.capex or 0.0) * gpu_years / (cost.years or 1.0),
            "energy": (cost.energy or 0.0) * self._priced_energy() / _KWH,
            "storage": (cost.storage or 0.0) * (self.seconds / YEAR),
            "repair": _exact_sum(cost.repair.get(part, 0.0) * number for part, number in self.repairs.items()),
            "labour": (cost.labour or 0.0) * sum(self.repairs.values()),
            "rent": (cost.gpu_hour or 0.0) * result.owned / HOUR,
        }
        if prepared.parts:
            costs["parts"] = math.fsum(
                (prepared.parts[name].stock.price or 0.0) * use.bought
                + (prepared.parts[name].stock.holding or 0.0) * use.part_seconds / YEAR
                for name, use in result.parts.items()
            )
        return costs

    def _priced_energy(self) -> float:
        """Return the energy [J], each joule times the price of its moment over the stated one."""
        if self.result.drawn is not None:
            return self.result.drawn.priced
        levels, energy = self.prepared.upkeep.levels, self.energy
        price = self._mean(lambda level: level.price) if levels else 1.0
        return energy.total * price if energy is not None else 0.0

    def _mean(self, quantity: Callable[[PowerPeriod], float]) -> Any:
        """Return the mean of a quantity of the power of the site."""
        means = [self.prepared.upkeep.mean(quantity, seconds) for seconds in np.ravel(self.seconds).tolist()]
        return np.reshape(means, np.shape(self.seconds))[()]

    def amounts(self) -> dict[str, float]:
        """Return what the replication took, by name.

        ``seconds`` [s]; ``energy.<bucket>`` [J], where it is known what a node draws; ``cost.<what for>``, with prices.
        """
        energies = {f"energy.{bucket}": amount for bucket, amount in self.nodes.items()}
        return {"seconds": self.seconds, **energies, **{f"cost.{what}": cost for what, cost in self.costs.items()}}

    @functools.cached_property
    def _totals(self) -> dict[str, float]:
        """The energy of the replication [J] and its cost, where they are known."""
        prepared, drawn = self.prepared, self.result.drawn
        totals = {}
        if self.energy is not None:
            totals["energy"] = self.energy.total
            if METRICS["carbon"].lacks(prepared) is None:
                totals["carbon"] = (
                    drawn.carbon if drawn is not None else self.energy.total * self._mean(lambda level: level.carbon)
                )
        if prepared.upkeep.cost is not None:
            totals["cost"] = _exact_sum(self.costs.values())
        return totals

    @functools.cached_property
    def _endowment(self) -> dict[str, float]:
        """The GPU-days that were there, used or not, and MW-days where the power of a node is known."""
        endowment = {"gpu_day": self.result.owned / DAY}
        power = provisioned(self.prepared)
        if power is not None:
            endowment["mw_day"] = power / _MW * self.seconds / DAY
        return endowment

    def spending(self) -> dict[str, Ratio]:
        """Return what the replication took as metrics of the whole cluster; nothing that is not known.

        ``energy`` [J] and ``cost`` are those of the facility in the accounting window, idle nodes and repairs included;
        ``carbon`` [kg of CO2] is that of this energy; these three ``_per_token`` are over the tokens that survived, of
        all jobs; ``tokens_per_gpu_day`` and ``tokens_per_mw_day`` are these tokens over what is there to make them,
        used or not: the GPUs, and the power that the facility is built for.
        """
        prepared, result = self.prepared, self.result
        tokens = _exact_sum(_tokens(prepared, result, index) for index in range(len(prepared.jobs)))
        if serves_alone(prepared):
            tokens = _tokens_served(prepared, result)
        return _metrics(
            self._totals, self._endowment, tokens, has_tokens=METRICS["tokens_per_day"].lacks(prepared) is None
        )

    def job_spending(self) -> list[dict[str, Ratio]]:
        """Return the same for each job: its share of what the cluster took, as the scenario shares it out."""
        prepared, result = self.prepared, self.result
        shares = _shares(prepared, result)
        if shares is None:
            return [{} for _ in prepared.jobs]
        return [
            _metrics(
                {name: share * amount for name, amount in self._totals.items()},
                {name: share * amount for name, amount in self._endowment.items()},
                _tokens(prepared, result, index),
                has_tokens=plan.tokens_per_second > 0,
            )
            for index, (share, plan) in enumerate(zip(shares, prepared.jobs, strict=True))
        ]

    def metrics(self) -> dict[str, Ratio]:
        """Return the metrics over all jobs.

        What all jobs have is as `Metric.together` says; energy and cost are those of the cluster.
        """
        prepared, result = self.prepared, self.result
        metrics = self._pooled()
        if serves_alone(prepared):
            metrics["tokens_per_day"] = Ratio(_tokens_served(prepared, result), self.seconds / DAY)
        else:
            productive = sum(job.buckets.T[Bucket.PRODUCTIVE] for job in result.jobs)
            metrics["cluster_goodput"] = Ratio(productive, result.capacity)
        metrics |= fleet_ratios(prepared, result.fleet) | target_ratios(prepared, result)
        return metrics | self._of_the_cluster() | self.spending()

    def _pooled(self) -> dict[str, Ratio]:
        """Return the metrics of all named jobs together."""
        jobs = self.jobs
        if len(jobs) == 1:
            return dict(jobs[0])
        arrival = min((job.arrival for job in self.result.jobs), default=0.0)
        days = max(max((job.end for job in self.result.jobs), default=0.0) - arrival, 0.0) / DAY
        pooled: dict[str, Ratio] = {}
        for name in dict.fromkeys(name for row in jobs for name in row):
            shares = [row[name] for row in jobs if name in row]
            if len(shares) < len(jobs) and any(need.every_job for need in METRICS[name].needs):
                continue
            pooled[name] = _together(name, shares, days)
        return pooled

    def _of_the_cluster(self) -> dict[str, Ratio]:
        """Return the metrics of nodes, alarms, parts and units."""
        prepared, result = self.prepared, self.result
        metrics = {"node_availability": Ratio(result.node_seconds - result.down_node_seconds, result.node_seconds)}
        if METRICS["alarm_recall"].lacks(prepared) is None:
            right, wrong, missed = (result.counts[name] for name in ("true_alarms", "false_alarms", "missed"))
            metrics["false_alarms_per_day"] = Ratio(wrong, self.seconds / DAY)
            metrics["alarm_precision"] = Ratio(right, right + wrong)
            metrics["alarm_recall"] = Ratio(right, right + missed)
        if prepared.parts:
            demands, waited = (sum(use[index] for use in result.parts.values()) for index in (0, 1))
            metrics["fill_rate"] = Ratio(demands - waited, demands)
            metrics["stock_outs"] = Ratio(waited, 1)
            metrics["parts_wait"] = Ratio(math.fsum(use.node_seconds for use in result.parts.values()) / HOUR, 1)
        if np.any(result.unit_seconds):
            metrics["domain_availability"] = Ratio(result.whole_unit_seconds, result.unit_seconds)
        return metrics


def _together(name: str, shares: Sequence[Ratio], days: float) -> Ratio:
    """Return a metric of several jobs in so many days, or of several targets, as `Metric.together` says."""
    rule = METRICS[name].together
    if rule == "least" and len(shares) > 1:
        values = (Ratio(share.amount / share.base, 1, share.doubt / share.base) for share in shares if share.base)
        return min(values, default=Ratio(0.0, 0.0))
    base = {"sum": 1.0, "daily": days}.get(rule, sum(share.base for share in shares))
    return Ratio(sum(share.amount for share in shares), base, sum(share.doubt for share in shares))


def time_shares(result: Result) -> dict[str, Ratio]:
    """Return the share of the jobs' requested GPU-time in each bucket, as metrics ``time_shares.<bucket>``.

    Of a block of replications amounts and bases are columns.
    """
    of_streams = result.fleet.buckets
    requested = sum(job.requested for job in result.jobs) + float(of_streams.sum())
    spent = sum((job.buckets for job in result.jobs), np.zeros(len(JOB_BUCKETS))) + of_streams
    return {f"{TIME_SHARE}{name}": Ratio(time, requested) for name, time in zip(JOB_BUCKETS, spent.T, strict=True)}


# Targets: what is promised of a service or a job in each window of time, how often that is missed, what it costs.

_WAITING = list(SCHEDULING)


class TargetResult(NamedTuple):
    """The outcome of a target in one replication.

    Parameters
    ----------
    amounts, bases, doubts
        Of each whole window in which anything was asked for: what was in the target, all of it, and how far the first
        may be off at 95 % by what all windows share; shape (n,).
    """

    amounts: FloatArray
    bases: FloatArray
    doubts: FloatArray


def target_ratios(prepared: Prepared, result: Result) -> dict[str, Ratio]:
    """Return the metrics of all targets together, as `Metric.together` says, and of each."""
    if not prepared.targets:
        return {}
    rows = {plan.name: _target_metrics(plan, target_result(prepared, plan, result)) for plan in prepared.targets}
    metrics: dict[str, Ratio] = {}
    for name in metrics_of("target"):
        shares = [row[name] for row in rows.values() if name in row]
        if shares:
            metrics[name] = _together(name, shares, float(result.edges[-1] - result.edges[0]) / DAY)
        metrics |= {Slice(name, "target", target).name: row[name] for target, row in rows.items() if name in row}
    return metrics


def target_result(prepared: Prepared, target: TargetPlan, result: Result) -> TargetResult:
    """Return what a target came to, window by window; one that the run did not reach the end of is none."""
    columns = _target_columns(target, result)
    width = window_width(prepared.horizon, prepared.windows)
    whole = int(np.sum(np.diff(result.edges) >= width * (1 - 1e-9))) // target.windows
    sums = [row[: whole * target.windows].reshape(whole, target.windows).sum(axis=1) for row in columns]
    is_used = sums[1] > 0
    return TargetResult(*(row[is_used] for row in sums))


def _target_columns(target: TargetPlan, result: Result) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what there was of the metric of a target, all that was asked for, and the doubt, by window."""
    fleet = result.fleet
    if target.kind == "services":
        sums = dict(zip(SERVICE_SUMS, fleet.services[target.place].T, strict=True))
        offered, seconds = sums["offered"], sums["seconds"]
        sure = np.zeros(len(offered))
        return {
            "slo_attainment": (sums["in_slo"], offered, sums["unsure"]),
            "served_share": (sums["served"], offered, sure),
            "capacity_availability": (seconds - sums["below"], seconds, sure),
        }[target.metric]
    if target.kind == "jobs":
        totals = result.jobs[target.place].totals
        buckets = np.zeros((len(result.edges) - 1, len(JOB_BUCKETS)))
        buckets[: len(totals)] = totals[:, : len(JOB_BUCKETS)].sum(axis=2)
    else:
        buckets = np.zeros((len(fleet.seconds), len(JOB_BUCKETS)))
        for key, row in fleet.ledger.items():
            if key.account.stream == target.place:
                buckets[:, key.bucket] += row
    requested, waiting = buckets.sum(axis=1), buckets[:, _WAITING].sum(axis=1)
    productive, sure = buckets[:, Bucket.PRODUCTIVE], np.zeros(len(requested))
    return {
        "ettr": (productive, requested, sure),
        "scheduling_goodput": (requested - waiting, requested, sure),
        "runtime_goodput": (productive, requested - waiting, sure),
    }[target.metric]


def _target_metrics(target: TargetPlan, result: TargetResult) -> dict[str, Ratio]:
    """Return the metrics of a target in one replication, as far off as the amounts of all windows together may be."""
    stated = _of_windows(target, result.amounts, result.bases)
    if not result.doubts.any():
        return stated
    less, more = (
        _of_windows(target, np.clip(result.amounts + sign * result.doubts, 0, result.bases), result.bases)
        for sign in (-1, 1)
    )
    return {
        name: ratio._replace(doubt=max(abs(end[name].amount - ratio.amount) for end in (less, more)))
        for name, ratio in stated.items()
    }


def _of_windows(target: TargetPlan, amounts: FloatArray, bases: FloatArray) -> dict[str, Ratio]:
    """Return the metrics of a target in one replication; over nothing where no whole window has what was asked for."""
    count, values = len(bases), amounts / bases
    budget = (1 - target.least) * float(bases.sum())
    missed = float(bases.sum() - amounts.sum())
    metrics = {
        "missed_windows": Ratio(float(np.count_nonzero(values < target.least)), count),
        "worst_window": Ratio(float(values.min(initial=1.0)), min(count, 1)),
        "error_budget_left": Ratio(budget - missed, budget),
    }
    if target.credits:
        shares = np.max([np.where(values < below, share, 0.0) for below, share in target.credits], axis=0)
        metrics["credit_share"] = Ratio(float(shares.sum()), count)
        if target.bill is not None:
            metrics["credits"] = Ratio(float(shares.sum()) * target.bill, 1)
    return metrics

"""The metrics of DESIGN by name: from amounts in results to ratios, and from replications to summaries."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.statistics.estimates import Summary, summarise_ratio
from sim import CLUSTER_BUCKETS, JOB_BUCKETS, Bucket, JobResult, Prepared, PreparedJob, Ratio, Result, units
from sim.formulas.arrays import quantile
from sim.formulas.nodes import missing_nodes_pmf
from sim.steps.power import STATE_OF_BUCKET, STATES, energy_by_bucket, facility_energy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from analysis.runs import Tally
    from sim.steps.power import Facility, FacilityEnergy, PowerState

# ----------------------------------------
# What a run took: energy by what drew it, and money by what it was paid for.

_YEAR = units.DURATION.units["year"]

_DAY = units.DURATION.units["d"]

_HOUR = units.DURATION.units["h"]

_KWH = units.ENERGY.units["kWh"]

_MW = 1e6


def spending(prepared: Prepared, result: Result) -> dict[str, Ratio]:
    """Return what a replication took as metrics of the whole cluster; nothing that is not known.

    ``energy`` [J] and ``cost`` are those of the facility in the accounting window, idle nodes and repairs included;
    ``energy_per_token`` [J] and ``cost_per_token`` are over the tokens that survived, of all jobs;
    ``tokens_per_gpu_day`` and ``tokens_per_mw_day`` are these tokens over what is there to make them, used or not: the
    GPUs, and the power that the facility is built for.
    """
    tokens = [_tokens(prepared, result, index) for index in range(len(prepared.jobs))]
    return _metrics(
        _amounts(prepared, result), _endowment(prepared, result), sum(tokens), has_tokens=all(_has_tokens(prepared))
    )


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
    if prepared.upkeep.cost is not None:
        amounts["cost"] = math.fsum(_cost(prepared, result).values())
    return amounts


def _endowment(prepared: Prepared, result: Result) -> dict[str, float]:
    """Return what a replication had at hand, used or not: GPU-days, and MW-days where the power of a node is known."""
    found = {"gpu_day": result.owned / _DAY}
    power = provisioned(prepared)
    if power is not None:
        found["mw_day"] = power / _MW * _seconds(result) / _DAY
    return found


def provisioned(prepared: Prepared) -> float | None:
    """Return the power that the facility has to be built for [W]; ``None`` if it is not known what a node draws.

    ``P = (N P_training + P_network + P_storage) x PUE``: all nodes train at once, spares among them.
    """
    facility = prepared.upkeep.facility
    if facility is None:
        return None
    return facility_energy(
        prepared.nodes * facility.node.training, facility.network, facility.storage, facility.pue
    ).total


def _has_tokens(prepared: Prepared) -> list[bool]:
    return [plan.tokens_per_second > 0 for plan in prepared.jobs]


def _tokens(prepared: Prepared, result: Result, index: int) -> float:
    """Return the tokens of a job that survived [-]."""
    return result.jobs[index].work * prepared.jobs[index].tokens_per_second


def _shares(prepared: Prepared, result: Result) -> list[float] | None:
    """Return the share of each job in what the cluster takes [-]; ``None`` if nobody says how they share it."""
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
    return energy_by_bucket(dict(zip(CLUSTER_BUCKETS, result.cluster.tolist(), strict=True)), facility.node)


def _energy(prepared: Prepared, result: Result) -> FacilityEnergy | None:
    """Return the energy of the facility by part [J]; ``None`` if it is not known."""
    facility = prepared.upkeep.facility
    if facility is None:
        return None
    seconds = _seconds(result)
    nodes = sum(_of_nodes(prepared, result).values())
    return facility_energy(nodes, facility.network * seconds, facility.storage * seconds, facility.pue)


def energy_content(tally: Tally) -> dict[str, Any] | None:
    """Return the energy of a mean replication by what drew it, and what that rests on, as plain data.

    Returns
    -------
    dict or None
        ``None`` if it is not known what a node draws.
    """
    facility = tally.prepared.upkeep.facility
    if facility is None:
        return None
    nodes = {bucket: float(np.mean(tally.amounts[f"energy.{bucket}"])) for bucket in CLUSTER_BUCKETS}
    seconds = float(np.mean(tally.amounts["seconds"]))
    whole = facility_energy(sum(nodes.values()), facility.network * seconds, facility.storage * seconds, facility.pue)
    node = facility.node
    return {
        "nodes_j": nodes,
        "network_j": whole.network,
        "storage_j": whole.storage,
        "overhead_j": whole.overhead,
        "total_j": whole.total,
        "pue": facility.pue,
        "switches": facility.switches,
        "switch_w": facility.switch,
        "node": {
            "idle_w": node.idle,
            "training_w": node.training,
            "gpus": node.gpus,
            "measured": node.measured,
            "source": node.source,
        },
        "assumptions": _assumptions(facility, tally.cluster),
    }


def _assumptions(facility: Facility, cluster: Any) -> list[str]:
    """Return what the energy rests on that nobody has measured."""
    lines = [] if facility.node.measured else [f"power of a node: estimate ({facility.node.source})"]
    spent = dict(zip(CLUSTER_BUCKETS, cluster.tolist(), strict=True))
    for name, state in STATES.items():
        buckets = [bucket for bucket, of in STATE_OF_BUCKET.items() if of == name and spent[bucket]]
        if buckets and not state.measured:
            lines.append(f"nodes in {', '.join(buckets)}: {_told(state)} ({state.basis})")
    lines.append(f"facility: PUE {facility.pue:g}, {facility.switches:,} switches of {facility.switch:g} W")
    if not facility.storage:
        lines.append("storage: not counted, for power.storage is 0 W")
    return lines


def _told(state: PowerState) -> str:
    """Return what a node in a state draws, in words."""
    if state.utilisation is None:
        return "off"
    if state.utilisation in (0, 1):
        return "as in training" if state.utilisation else "as idle"
    return f"{100 * state.utilisation:g} % of the way from idle to training"


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
    years = _seconds(result) / _YEAR
    gpu_years = result.owned / _YEAR
    return {
        "capex": (cost.capex or 0.0) * gpu_years / (cost.years or 1.0),
        "energy": (cost.energy or 0.0) * (energy.total if energy is not None else 0.0) / _KWH,
        "storage": (cost.storage or 0.0) * years,
        "repair": math.fsum(cost.repair.get(part, 0.0) * number for part, number in repairs.items()),
        "labour": (cost.labour or 0.0) * sum(repairs.values()),
        "rent": (cost.gpu_hour or 0.0) * result.owned / _HOUR,
    }


def cost_content(tally: Tally) -> dict[str, Any] | None:
    """Return the cost of a mean replication by what it is paid for, as plain data.

    Returns
    -------
    dict or None
        ``None`` if the scenario has no prices.
    """
    cost = tally.prepared.upkeep.cost
    if cost is None:
        return None
    parts = {
        name.removeprefix("cost."): float(np.mean(each))
        for name, each in tally.amounts.items()
        if name.startswith("cost.")
    }
    return {
        "currency": cost.currency,
        "allocation": cost.allocation,
        **parts,
        "total": math.fsum(parts.values()),
        "repairs": {part: number / tally.replications for part, number in sorted(tally.repairs.items())},
    }


_DAY_METRICS = 86400.0

SHARES = frozenset(
    {
        "ettr",
        "ettr_no_queue",
        "scheduling_goodput",
        "runtime_goodput",
        "program_goodput",
        "goodput",
        "effective_mfu",
        "cluster_goodput",
        "node_availability",
        "domain_availability",
        "job_availability",
        "p_finish_by",
        "at_risk_at_end",
    }
)

"""Metrics that are shares; their precision is stated in points."""

_LOWER = (
    "at_risk_at_end",
    "cost",
    "cost_per_token",
    "disruptions",
    "energy",
    "energy_per_token",
    "interruptions",
    "interruptions_planned",
    "interruptions_unplanned",
    "time_to_work",
)

_TIME_SHARE = "time_shares."

METRICS = (
    "ettr",
    "ettr_no_queue",
    "scheduling_goodput",
    "runtime_goodput",
    "program_goodput",
    "goodput",
    "effective_mfu",
    "cluster_goodput",
    "job_availability",
    "node_availability",
    "domain_availability",
    "interruptions",
    "interruptions_planned",
    "interruptions_unplanned",
    "disruptions",
    "mtti",
    "mtti_running",
    "at_risk_at_end",
    "tokens_per_day",
    "tokens_per_gpu_day",
    "tokens_per_mw_day",
    "steps_per_day",
    "time_to_work",
    "p_finish_by",
    "energy",
    "energy_per_token",
    "cost",
    "cost_per_token",
    *(f"{_TIME_SHARE}{bucket}" for bucket in JOB_BUCKETS),
)

"""Every metric that a scenario may have."""

_OF_ALL_JOBS = frozenset({"program_goodput", "goodput", "effective_mfu", "tokens_per_day", "steps_per_day"})

"""Metrics that say nothing about a scenario unless every job has them."""


def job_ratios(plan: PreparedJob, job: JobResult, causes: Sequence[bool]) -> dict[str, Ratio]:
    """Return the metrics of one job in one replication.

    Parameters
    ----------
    plan, job
        What was asked for, and what came of it.
    causes
        For each source, whether its interruptions are planned.

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
        metrics["tokens_per_day"] = Ratio(job.work * plan.tokens_per_second, since_arrival / _DAY_METRICS)
    if plan.step_time > 0:
        metrics["steps_per_day"] = Ratio(job.steps, since_arrival / _DAY_METRICS)
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
        if name in _OF_ALL_JOBS and len(mine) < len(jobs):
            continue
        is_count = name.startswith(("interruptions", "disruptions"))
        base = 1.0 if is_count else sum(ratio.base for ratio in mine)
        pooled[name] = Ratio(sum(ratio.amount for ratio in mine), base)
    for name in ("tokens_per_day", "steps_per_day"):
        if name not in pooled:
            continue
        span = max(job.end for job in result.jobs) - min(job.arrival for job in result.jobs)
        pooled[name] = Ratio(pooled[name].amount, max(span, 0.0) / _DAY_METRICS)
    productive = sum(float(job.buckets[Bucket.PRODUCTIVE]) for job in result.jobs)
    pooled["cluster_goodput"] = Ratio(productive, result.capacity)
    pooled["node_availability"] = Ratio(result.node_seconds - result.down_node_seconds, result.node_seconds)
    if result.unit_seconds:
        pooled["domain_availability"] = Ratio(result.whole_unit_seconds, result.unit_seconds)
    return pooled | spending(prepared, result)


def time_shares(result: Result) -> dict[str, Ratio]:
    """Return the share of the jobs' requested GPU-time in each bucket, as metrics ``time_shares.<bucket>``."""
    requested = sum(job.requested for job in result.jobs)
    spent = np.sum([job.buckets for job in result.jobs], axis=0).tolist()
    return {f"{_TIME_SHARE}{name}": Ratio(time, requested) for name, time in zip(JOB_BUCKETS, spent, strict=True)}


def lower_is_better(metric: str) -> bool:
    """Return whether of two values of a metric the lower one is the better."""
    return metric in _LOWER or (metric.startswith(_TIME_SHARE) and metric != f"{_TIME_SHARE}productive")


def summaries(rows: Sequence[Mapping[str, Ratio]]) -> dict[str, Summary]:
    """Return the summary of each metric over replications; ratios are ratios of sums."""
    return {name: summarise_ratio(*_columns(rows, name)) for name in (rows[0] if rows else ())}


def means(rows: Sequence[Mapping[str, Ratio]]) -> dict[str, float | None]:
    """Return the mean of each metric as in `summaries`, without the rest."""
    found: dict[str, float | None] = {}
    for name in rows[0] if rows else ():
        amount, base = map(sum, _columns(rows, name))
        found[name] = amount / base if base and math.isfinite(amount) else None
    return found


def contributions(ratios: Sequence[Ratio]) -> npt.NDArray[np.float64] | None:
    """Return what each replication contributes to a ratio of sums, shape (n,); their mean is that ratio.

    ``None`` with nothing in the denominators, or an infinite amount.
    """
    amounts, bases = np.array(ratios, dtype=np.float64).reshape(-1, 2).T
    base = float(bases.mean()) if len(bases) else 0.0
    if not (np.all(np.isfinite(amounts)) and base):
        return None
    if np.all(bases == bases[0]):
        return amounts / base  # not the same to the last bit, and it is what the docstring says
    ratio = float(amounts.mean()) / base
    found: npt.NDArray[np.float64] = ratio + (amounts - ratio * bases) / base
    return found


def lower_bound(rows: Sequence[Mapping[str, Ratio]], name: str) -> float | None:
    """Return what a time between events is longer than, at 95 % confidence, when no event was seen [s].

    No event in a time T has a probability of exp(-T / mean): 5 % for a mean of ``T / ln 20``, about a third of T.

    Returns
    -------
    float or None
        ``None`` when there were events (the mean says more), or no time in which to see one.
    """
    amount, base = map(sum, _columns(rows, name))
    return amount / math.log(20) if amount and not base else None


def _columns(rows: Sequence[Mapping[str, Ratio]], name: str) -> tuple[list[float], list[float]]:
    """Return the amounts and the bases of a metric, one of each per replication."""
    return [row[name].amount for row in rows], [row[name].base for row in rows]


# ----------------------------------------
# How many nodes are missing at once, and how far that is from what independent nodes would do.

LEVELS = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def add_down_times(times: dict[int, float], result: Result) -> None:
    """Add for how long how many nodes were down in a replication to what is in `times` [s]."""
    for count, seconds in result.down_times.items():
        times[count] = times.get(count, 0.0) + seconds


def nodes_down(times: Mapping[int, float], nodes: int) -> dict[str, Any]:
    """Return the distribution over time of the number of nodes that are down, pooled over replications.

    Parameters
    ----------
    times
        For how long how many were down, in all replications of a scenario [s].
    nodes
        Nodes of the cluster.

    Returns
    -------
    dict
        ``mean`` [-], the smallest numbers that are enough for 50, 90 and 99 % of the time, ``max``, the variance over
        that of independent nodes (``dispersion``; null if no node was ever down), and under ``independent`` what
        independent nodes with the same mean would need.
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
    return {
        "mean": mean,
        **found,
        "max": int(counts[share > 0][-1]),
        "dispersion": variance / chance if chance > 0 else None,
        "independent": {name: quantile(law, level) for name, level in LEVELS.items()},
    }


def log_csv(results: Iterable[Result], causes: Sequence[str]) -> str:
    """Return a CSV file of all stretches in which a node was down; times [s] after the warm-up."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("replication", "node", "start", "end", "cause"))
    for result in results:
        rows.writerows(
            (result.replication, outage.node, outage.start, outage.end, causes[outage.cause - 1])
            for outage in result.outages
        )
    return text.getvalue()

"""The document of a run: everything that was found, and how to find it again."""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections import Counter
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick import sim
from ettrick.analysis import parts
from ettrick.analysis.metrics import METRICS, Slice, is_exact, metrics_of
from ettrick.analysis.results import models
from ettrick.analysis.results.fleet import describe_fleet, describe_services, fleet_notes, settled
from ettrick.analysis.statistics.differences import controlled
from ettrick.analysis.statistics.estimates import lower_bound, ratio_interval, summaries, summarise
from ettrick.analysis.statistics.intervals import mean_estimate, possible, unseen, widened
from ettrick.analysis.statistics.rows import column
from ettrick.sim import (
    CLUSTER_BUCKETS,
    JOB_BUCKETS,
    NO_FAILURE,
    ROOTS,
    Bucket,
    availability,
    closed_form,
    window_width,
    yamlfile,
)
from ettrick.sim.formulas.arrays import quantile
from ettrick.sim.formulas.nodes import missing_nodes_pmf
from ettrick.sim.steps.power import STATE_OF_BUCKET, STATES, facility_energy
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from ettrick.analysis.results.ensemble import Ensemble, JobTally
    from ettrick.analysis.statistics.estimates import Interval
    from ettrick.sim import Prepared, PreparedJob, Ratio, Scenario, TargetPlan
    from ettrick.sim.steps import StepPlan, Workload
    from ettrick.sim.steps.power import Facility, PowerState

# Those that are always there; time that a job is starved of nodes is where it is known.
_BUCKETS = ("lost_work", "detection", "restart", "checkpoint_stall")
_SAME = 1e-9  # standard error over the mean that is but the rounding of sums


def describe_closed_form(prepared: Prepared, simulated: Ensemble | None = None) -> models.ClosedFormSummary:
    """Return the closed form of a scenario, next to its replications if there are any."""
    formula = closed_form(prepared)
    waste: Mapping[str, Any] | None = formula.waste
    content = {
        **{name: getattr(formula, name) for name in ("ettr", "reasons", "assumptions", "extrapolated")},
        "applies": not formula.reasons,
        "form": formula.form or None,
        "time_shares": formula.shares,
        "availability": availability(prepared),
        "waste": waste and {order: _by_bucket(causes) for order, causes in waste.items()},
        "waste_by_cause": waste
        and {
            order: {name: {**row, "total": sum(row.values())} for name, row in causes.items()}
            for order, causes in waste.items()
        },
        "simulated": _simulated(simulated, formula.ettr)
        if simulated is not None and "ettr" in simulated.rows[0]
        else None,
    }
    return models.ClosedFormSummary.model_validate(content, strict=False)


def _by_bucket(causes: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    row = dict.fromkeys(_BUCKETS, 0.0)
    for buckets in causes.values():
        for name, value in buckets.items():
            row[name] = row.get(name, 0.0) + value
    return {**row, "total": sum(row.values())}


def replays_a_log(prepared: Prepared) -> bool:
    """Return whether failures are those of a log: one history, however many replications there are of it."""
    return any(getattr(entry, "spread_unknown", "") == "once" for entry in prepared.scenario.failures)


def _simulated(ensemble: Ensemble, formula: float | None) -> models.SimulatedEttr:
    """Return the simulated ETTR, and how far that of the formula is from it; no interval where chance is not in it."""
    amounts, bases, _ = np.array(column(ensemble.rows, "ettr")).T.copy()
    total = float(bases.sum())
    mean = float(amounts.sum()) / total if total > 0 else None
    estimate = None if replays_a_log(ensemble.prepared) else ratio_interval(amounts, bases)
    interval = error = apart = outside = None
    if estimate is not None and mean is not None and estimate[2] - estimate[1] > _SAME * mean:
        interval = (max(estimate[1], 0.0), min(estimate[2], 1.0))
        scatter = float(np.std(amounts - mean * bases, ddof=1))
        error = scatter / math.sqrt(len(amounts)) / float(bases.mean())
        if formula is not None:
            apart = (mean - formula) / error
            outside = max(interval[0] - formula, formula - interval[1], 0.0)
    return models.SimulatedEttr(
        replications=len(ensemble.rows),
        ettr=mean,
        ettr_ci95=interval,
        standard_error=error,
        standard_errors_above=apart,
        outside_ci95=outside,
    )


# ----------------------------------------
# By what and how the numbers of a document were made.


def provenance(command: str, scenario: Scenario | None = None, **more: str) -> models.Provenance:
    """Return by what and how numbers were made, of one scenario or of none in particular."""
    if scenario is not None:
        more["scenario_sha256"] = scenario_digest(scenario)
    return models.Provenance(
        version=metadata.version("ettrick"),
        python=platform.python_version(),
        numpy=np.__version__,
        command=command,
        **more,
    )


def scenario_digest(scenario: Scenario) -> str:
    """Return the SHA-256 of a scenario's content, the same wherever its files lie."""
    content = scenario.dump()
    content.pop("engine", None)  # what simulates changes no number
    for reader in (*content["failures"], *content.get("streams", ()), content["cluster"]["fabric"]):
        for key in yamlfile.FILE_KEYS:
            if key in reader:
                reader[key] = hashlib.sha256(Path(reader[key]).read_bytes()).hexdigest()
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def document(
    ensemble: Ensemble, *, command: str, bands: Mapping[str, Interval | None] | None = None
) -> models.RunDocument:
    """Return the document of a run."""
    prepared = ensemble.prepared
    estimates = settled(ensemble, _metrics(prepared, ensemble.rows, bands or {}, ensemble.controls))
    fleet = describe_fleet(ensemble, estimates) if prepared.streams else models.NO_STREAMS
    metrics = estimates.metrics
    targets = {target.name: _target(target, metrics, prepared) for target in prepared.targets}
    metrics = {name: summary for name, summary in metrics.items() if not (Slice.parse(name) or Slice(name)).by}
    return models.RunDocument(
        format=parts.FORMAT,
        scenario=prepared.name,
        engine="des",
        replications=len(ensemble.rows),
        interrupted=ensemble.interrupted,
        seed=prepared.seed,
        initial=prepared.scenario.initial,
        horizon_s=prepared.horizon,
        warmup_s=prepared.warmup,
        metrics=metrics,
        time_shares=_time_shares(float(ensemble.requested), ensemble.buckets),
        cluster_shares=dict(zip(CLUSTER_BUCKETS, (ensemble.cluster / ensemble.owned).tolist(), strict=True)),
        **_of_failures(ensemble),
        **_down(ensemble),
        energy=energy_of(ensemble),
        cost=cost_of(ensemble),
        windows=_windows(ensemble),
        closed_form=describe_closed_form(prepared, ensemble),
        step=describe_step(prepared, 0),
        per_job=_per_job(ensemble),
        per_service=describe_services(ensemble, metrics) if prepared.services else {},
        per_target=targets,
        fleet=fleet,
        assumptions=list(prepared.scenario.assumptions),
        warnings=list(prepared.warnings),
        notes=_notes(ensemble, fleet, metrics),
        provenance=provenance(command, prepared.scenario, engine=prepared.engine, engine_reason=prepared.engine_reason),
    )


def _of_failures(ensemble: Ensemble) -> dict[str, Any]:
    """Return what failures took by their source, and how often what happened in a mean replication."""
    sources, count = ensemble.prepared.sources, len(ensemble.rows)
    names = [NO_FAILURE, *(source.name for source in sources)]
    counts = {name: number / count for name, number in ensemble.counts.items()}
    return {
        "interruptions_by_cause": _by_cause(ensemble, names),
        "loss_gpu_s": _losses(ensemble, names),
        "repair_from": {source.name: source.repair_from for source in sources if source.repair_from},
        "counts": counts | {"merged_intervals": ensemble.prepared.merged_intervals},
    }


def _down(ensemble: Ensemble) -> dict[str, Any]:
    """Return how many nodes, and how many units of several of them, were down at once."""
    prepared, units = ensemble.prepared, ensemble.prepared.units
    gpus, spares = prepared.gpus_per_node, prepared.spares
    nodes, domains = nodes_down(ensemble.down_times, prepared.serving, gpus, spares), None
    if units is not None:
        size = len(units.nodes[0])
        domains = nodes_down(ensemble.unit_down_times, len(units.nodes), gpus * size, spares // size)
    return {"nodes_down": nodes or models.EmptyRun(), "domains_down": domains}


def _target(target: TargetPlan, metrics: Mapping[str, parts.MetricSummary], prepared: Prepared) -> models.TargetSummary:
    width = target.windows * window_width(prepared.horizon, prepared.windows)
    return models.TargetSummary(
        of=target.of,
        metric=target.metric,
        at_least=target.least,
        window_s=width,
        windows=int(prepared.horizon / width * (1 + 1e-12)),
        metrics={
            name: metrics[key]
            for name in metrics_of("target")
            if (key := Slice(name, "target", target.name).name) in metrics
        },
    )


def plain(part: parts.Part) -> dict[str, Any]:
    """Return a document, or a part of one, as plain data; numbers that JSON does not have are ``None``."""
    content: dict[str, Any] = _plain(part.model_dump(exclude_unset=True, by_alias=True))
    return content


def render(document: parts.Document) -> str:
    """Return a document as JSON text, with a checksum of all but how it was made."""
    content = plain(document)
    if "provenance" in content:
        content["provenance"]["sha256"] = checksum(content)
    return json.dumps(content, indent=2, allow_nan=False)


def checksum(content: dict[str, Any]) -> str:
    """Return the SHA-256 of a document but for its provenance, in which it stands."""
    rest = {key: value for key, value in content.items() if key != "provenance"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _metrics(
    prepared: Prepared,
    rows: Sequence[Mapping[str, Ratio]],
    bands: Mapping[str, Interval | None],
    controls: Sequence[tuple[float, ...]] = (),
) -> dict[str, parts.MetricSummary]:
    metrics = {}
    for name, summary in summaries(rows).items():
        ratios = column(rows, name)
        # Few runs that all finished are no proof that every run does.
        estimate = mean_estimate(ratios, name, is_exact=is_exact(prepared, name), follows_tail=False)
        adjusted = controlled(ratios, controls) if controls else None
        is_time = METRICS[name].is_between_events and not prepared.is_deterministic
        bound = {"lower_bound95": lower_bound(rows, name)} if is_time else {}
        control = adjusted and parts.ControlledSummary(
            mean=adjusted.mean,
            mean_ci95=widened(adjusted.mean, possible(name, adjusted.ci95), ratios, name),
            worth=adjusted.worth,
        )
        band = possible(name, _band(prepared, name, estimate.mean, bands.get(name)))
        more = {"mean_ci95": estimate.interval, "method": estimate.method or None, "controlled": control}
        metrics[name] = summary.model_copy(update={**more, "band90": band, **bound})
    return metrics


def _band(prepared: Prepared, name: str, mean: float | None, of_rates: Interval | None) -> Interval | None:
    """Return the 90 % band of a mean from what is not known of rates and of modelled steps; their squares add up."""
    power, factor = METRICS[name].per_step if name in METRICS else 0, slower(prepared)
    if mean is None or not power or factor == 1.0:
        return of_rates
    low, high = of_rates or (mean, mean)
    less, more = sorted((mean * factor**power, mean / factor**power))
    return mean - math.hypot(mean - low, mean - less), mean + math.hypot(high - mean, more - mean)


def _time_shares(total: float, sums: npt.NDArray[np.float64]) -> dict[str, float]:
    # Of nothing there are no shares: not finite, they are null in the document.
    return dict(zip(JOB_BUCKETS, (sums / (total or math.nan)).tolist(), strict=True))


def _by_cause(ensemble: Ensemble, names: Sequence[str]) -> dict[str, parts.EventCount]:
    rows = {}
    for name, counts in zip(names[1:], ensemble.interruptions, strict=True):
        summary = summarise(counts)
        interval = possible("interruptions", summary.mean_ci95)
        rows[name] = parts.EventCount(mean=summary.mean or 0.0, mean_ci95=interval, std=summary.std)
    return dict(sorted(rows.items(), key=lambda row: row[1].mean, reverse=True))


def _losses(ensemble: Ensemble, names: Sequence[str]) -> dict[str, dict[str, float]]:
    mean = ensemble.losses / len(ensemble.rows)
    buckets = [bucket for bucket in range(len(JOB_BUCKETS)) if bucket != Bucket.PRODUCTIVE]
    return {
        name: {JOB_BUCKETS[bucket]: float(mean[bucket, index]) for bucket in buckets}
        for index, name in enumerate((*names, *ROOTS))
        if name not in ROOTS or mean[:, index].any()
    }


def _windows(ensemble: Ensemble) -> list[models.RunWindow]:
    shares = [_time_shares(float(sums.sum()), sums) for sums in ensemble.windows]
    return [
        models.RunWindow(start_s=start, end_s=end, replications=count, ettr=row["productive"], time_shares=row)
        for row, (count, start, end) in zip(shares, ensemble.reached, strict=True)
    ]


def _per_job(ensemble: Ensemble) -> dict[str, models.JobSummary]:
    count = len(ensemble.rows)
    return {
        plan.name: models.JobSummary(
            gpus=plan.gpus,
            requested_gpu_s=float(np.mean(tally.requested)),
            metrics=_metrics(ensemble.prepared, tally.rows, {}),
            time_shares=_time_shares(sum(tally.requested), tally.buckets),
            finished=tally.finished,
            censored=tally.censored,
            never_started=tally.never_started,
            restores={store: number / count for store, number in sorted(tally.restores.items())},
            accepted_taints=tally.accepted / count,
            given_up=len(tally.given_up),
            given_up_at_s=float(np.mean([time for time, *_ in tally.given_up])) if tally.given_up else None,
            given_up_for=dict(Counter(ensemble.prepared.sources[cause - 1].name for _, cause, _ in tally.given_up)),
            never_arrived=tally.never_arrived,
        )
        for plan, tally in zip(ensemble.prepared.jobs, ensemble.jobs, strict=True)
    }


def _ends(name: str, tally: JobTally, count: int) -> Iterator[str]:
    """Yield in how many of `count` replications a job failed for good, and how much wrong work it has kept."""
    if tally.given_up:
        when, _, hits = np.mean(tally.given_up, axis=0)
        yield (
            f"job '{name}' failed for good in {len(tally.given_up)} of {count} replications, at "
            f"{when / DAY:.3g} d after {hits:.3g} interruptions on average: what follows is given up"
        )
    if tally.accepted:
        share = float(tally.buckets[Bucket.WRONG_WORK]) / sum(tally.requested)
        yield (
            f"job '{name}' goes on with wrong work after {tally.accepted / count:.3g} faults a run, because no "
            f"checkpoint from before them is left: {100 * share:.3g} % of its time, which is not productive"
        )


def _notes(ensemble: Ensemble, fleet: models.FleetSummary, metrics: Mapping[str, parts.MetricSummary]) -> list[str]:
    prepared = ensemble.prepared
    count = len(ensemble.rows)
    notes = list(fleet_notes(fleet, count))
    for plan, tally in zip(prepared.jobs, ensemble.jobs, strict=True):
        if tally.waiting:
            notes.append(f"job '{plan.name}' never got its nodes in {tally.waiting} of {count} replications")
        if tally.censored:
            notes.append(
                f"job '{plan.name}' was not finished at the horizon in {tally.censored} of {count} replications: they "
                f"count as not finished, and no mean of the time to finish is given"
            )
        notes += _ends(plan.name, tally, count)
    for service in sim.services_of(prepared) if prepared.services else ():
        error = 100 * float(service.doubt(np.array([min(service.load, service.admitted)]))[0])
        notes.append(
            f"SLO attainment of '{service.spec.name}' without failures is known to {error:.2g} percentage points: it "
            f"rests on one replay of {sim.REPLAYED:,} requests of this seed. This error is in "
            "the intervals, and no replications shrink it; that of the admitted load, and of differences, is in none"
        )
    if prepared.is_deterministic:
        notes.append("nothing is random: one replication tells all, and its numbers are exact")
    elif count > 1 and any(_is_constant(summary) for summary in metrics.values()):
        notes.append(
            f"a mean without an interval is the same in all {count} replications; what happens in fewer than "
            f"{100 * unseen(count):.1f} % of all runs may not be among them"
        )
    if prepared.merged_intervals:
        notes.append(f"intervals of the log that were joined because they overlap: {prepared.merged_intervals}")
    if ensemble.precise is False:
        notes.append(f"the precision asked for was not reached in {count} replications")
    return notes


def _is_constant(summary: parts.MetricSummary) -> bool:
    """Return whether a mean has no interval because all replications are equal, and is not exact."""
    return summary.mean is not None and summary.mean_ci95 is None and summary.method is None


# ----------------------------------------
# What runs and explanations share of a job: its step, its sizes and its stores.

# The terms of a step, in the order of tables.
PARTS = {
    "computing": ("gemm", "attention", "elementwise", "launch", "logits"),
    "communication": ("tensor", "context", "expert", "pipeline", "data", "offload"),
    "bubble": ("bubble",),
    "rest": ("optimizer", "overhead"),
}

_CONVENTION = "model FLOP without recomputation, causal half of attention, over the dense peak"


def slower(prepared: Prepared) -> float:
    """Return how many times as long as modelled the steps of jobs may be, with 90 %; 1 where all are measured.

    The model errs alike for all jobs: the widest of their bands counts.
    """
    plans = [job.plan for job in prepared.jobs if job.plan is not None and not job.is_measured]
    return max((plan.band90[1] / plan.time for plan in plans), default=1.0)


def describe_step(prepared: Prepared, index: int) -> models.StepSummary:
    """Return the time of a job's healthy step, where it goes, and what is known of its memory."""
    if not prepared.jobs:
        return models.StepSummary(time_s=None, basis=None, stated=None, breakdown={}, mfu=None)
    job, spec = prepared.jobs[index], prepared.scenario.jobs[index]
    return models.StepSummary(
        time_s=job.step_time or None,
        basis=_basis(prepared, index),
        stated=next((name for name in ("step_time", "mfu") if getattr(spec, name) is not None), None),
        mfu=job.mfu,
        mfu_convention=_CONVENTION if job.mfu is not None else None,
        **_of_plan(job.plan, is_measured=job.is_measured),
    )


def _of_plan(plan: StepPlan | None, *, is_measured: bool) -> dict[str, Any]:
    """Return what the model says of a step, as it is and as it would be without what was measured of it."""
    if plan is None:
        keys = ("sigma", "band90_s", "model_s", "model_sigma", "model_band90_s", "scale", "memory_bytes")
        return {**dict.fromkeys(keys), "breakdown": {}}
    alone = replace(plan, scale=1.0, sigma=plan.machine.shares.sigma)
    return {
        "sigma": None if is_measured else plan.sigma,
        "band90_s": None if is_measured else plan.band90,
        "model_s": alone.time,
        "model_sigma": alone.sigma,
        "model_band90_s": alone.band90,
        "scale": plan.scale,
        "breakdown": plan.breakdown._asdict(),
        "memory_bytes": {**plan.memory._asdict(), "total": plan.memory.total, "capacity": plan.machine.chip.memory},
    }


def _basis(prepared: Prepared, index: int) -> str | None:
    job = prepared.jobs[index]
    if job.is_measured:
        return "measured"
    if job.plan is None:
        return None
    return "calibrated" if prepared.scenario.jobs[index].calibration is not None else job.plan.machine.shares.basis


def sizes(work: Workload) -> dict[str, int]:
    """Return the sizes of the groups of a layout."""
    return {
        "tensor": work.tensor,
        "context": work.context,
        "pipeline": work.pipeline,
        "data": work.data,
        "expert": work.expert,
        "virtual_pipeline": work.virtual,
    }


def stores_of(job: PreparedJob) -> list[Any]:
    """Return the stores of a job, the one that is saved to most often first."""
    return sorted(job.checkpoint.rungs, key=lambda rung: rung.interval)


def unit_text(value: float, unit: str) -> str:
    """Return a number with its unit and prefix, to four digits."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:,.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


# ----------------------------------------
# How many nodes are missing at once, and how far that is from what independent nodes would do.

LEVELS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


def nodes_down(times: Mapping[int, float], nodes: int, gpus: int = 1, spares: int = 0) -> models.NodesDown | None:
    """Return the distribution over time of the number of nodes, or domains, that are down, pooled over replications.

    ``None`` if no time passed.

    Parameters
    ----------
    times
        For how long how many were down, in all replications of a scenario [s].
    spares
        A number that `more_than` has in any case.
    """
    counts = np.array(sorted(times), dtype=np.int64)
    share = np.array([times[count] for count in counts])
    if not share.sum():
        return None
    share /= share.sum()
    mean = float(counts @ share)
    unavailability = mean / nodes
    variance = float((counts - mean) ** 2 @ share)
    reached = np.cumsum(share)
    law = missing_nodes_pmf(nodes, unavailability)  # its quantiles in closed form would need scipy
    chance = nodes * unavailability * (1 - unavailability)
    most = int(counts[share > 0][-1])
    steps = sorted({0, spares, *(2**power for power in range(most.bit_length()))})
    return models.NodesDown(
        mean=mean,
        # A rounding error must not ask for one node more.
        **{name: int(counts[np.searchsorted(reached, level * (1 - 1e-12))]) for name, level in LEVELS.items()},
        max=most,
        dispersion=variance / chance if chance > 0 else None,
        independent=models.Quantiles(**{name: quantile(law, level) for name, level in LEVELS.items()}),
        more_than=[
            models.ExceedanceShare(count=step, gpus=step * gpus, time_share=float(share[counts > step].sum()))
            for step in steps
            if step < most or step == spares
        ],
    )


# ----------------------------------------
# What a run took, by what drew it and by what it was paid for.


def energy_of(ensemble: Ensemble) -> models.Energy | None:
    """Return what drew the energy of a mean replication; ``None`` where a node's power is not known."""
    facility = ensemble.prepared.upkeep.facility
    if facility is None:
        return None
    nodes = {bucket: float(np.mean(ensemble.amounts[f"energy.{bucket}"])) for bucket in CLUSTER_BUCKETS}
    seconds = float(np.mean(ensemble.amounts["seconds"]))
    whole = facility_energy(sum(nodes.values()), facility.network * seconds, facility.storage * seconds, facility.pue)
    node = facility.node
    return models.Energy(
        nodes_j=nodes,
        network_j=whole.network,
        storage_j=whole.storage,
        overhead_j=whole.overhead,
        total_j=whole.total,
        pue=facility.pue,
        switches=facility.switches,
        switch_w=facility.switch,
        node=models.NodePowerSummary(
            idle_w=node.idle, training_w=node.training, gpus=node.gpus, measured=node.measured, source=node.source
        ),
        assumptions=_assumptions(ensemble.prepared, facility, ensemble.cluster),
    )


def _assumptions(prepared: Prepared, facility: Facility, cluster: Any) -> list[str]:
    lines = [] if facility.node.measured else [f"power of a node: estimate ({facility.node.source})"]
    spent = dict(zip(CLUSTER_BUCKETS, cluster.tolist(), strict=True))
    for name, state in STATES.items():
        buckets = [bucket for bucket, of in STATE_OF_BUCKET.items() if of == name and spent[bucket]]
        if buckets and not state.measured:
            lines.append(f"nodes in {', '.join(buckets)}: {_worded(state)} ({state.basis})")
    lines.append(f"facility: PUE {facility.pue:g}, {facility.switches:,} switches of {facility.switch:g} W")
    if any(level.share < 1 for level in prepared.upkeep.levels):
        lines.append(
            "pace under a cap: derived from boards of H100 at 500 of 700 W, assumed for others (power.exponent)"
        )
    if any(level.cause == "heat" for level in prepared.upkeep.levels):
        lines.append("heat: pace that each degree takes, and from which temperature on (power.ambient)")
    if not facility.storage:
        lines.append("storage: not counted, for power.storage is 0 W")
    return lines


def _worded(state: PowerState) -> str:
    if state.utilisation is None:
        return "off"
    if state.utilisation in (0, 1):
        return "as in training" if state.utilisation else "as idle"
    return f"{100 * state.utilisation:g} % of the way from idle to training"


def cost_of(ensemble: Ensemble) -> models.ClusterCost | None:
    """Return the cost of a mean replication by what it is paid for; ``None`` without prices."""
    cost = ensemble.prepared.upkeep.cost
    if cost is None:
        return None
    amounts = {
        name.removeprefix("cost."): float(np.mean(spent))
        for name, spent in ensemble.amounts.items()
        if name.startswith("cost.")
    }
    return models.ClusterCost(
        currency=cost.currency,
        allocation=cost.allocation,
        **amounts,
        total=math.fsum(amounts.values()),
        repairs={part: number / len(ensemble.rows) for part, number in sorted(ensemble.repairs.items())},
    )

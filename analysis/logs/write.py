"""The folder of a fit: a bundle of failure sources, a scenario, draws of its parameters, and tables."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick import sim
from ettrick.analysis.amounts import between, number_of
from ettrick.analysis.logs import workload
from ettrick.analysis.logs.estimate import FEW, LEAST_SIGMA
from ettrick.analysis.logs.events import largest
from ettrick.analysis.logs.fit import duration, lognormal_law, rate_text
from ettrick.analysis.logs.tables import Dropped, Exposure, LoggedAttempt, NodeEvent, TrainingPhase, as_csv, utc
from ettrick.analysis.results.files import csv_text
from ettrick.sim.units import DAY, DURATION, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ettrick.analysis.logs.estimate import Clustering
    from ettrick.analysis.logs.events import History
    from ettrick.analysis.logs.fit import FittedModel
    from ettrick.analysis.logs.slurm_conf import SlurmScenario
    from ettrick.analysis.logs.tables import Tables
    from ettrick.analysis.logs.workload import SiteWorkload
    from ettrick.analysis.results.fitted import CauseSummary, Estimated, FitDocument, IncidentsSummary, LawSummary

BUNDLE, ALTERNATIVE, SCENARIO = "failures.yaml", "failures-alternative.yaml", "scenario.yaml"


def sources(
    fitted: FittedModel, clustering: Clustering | None = None, swings: tuple[float, float] = (0.0, 0.0)
) -> list[dict[str, Any]]:
    """Return the failure sources of the model as a scenario states them.

    Parameters
    ----------
    swings
        Stretch [d] and coefficient of variation [-] of swings of all rates; 0 for none.
    """
    document = fitted.document
    chosen = clustering or fitted.verdict.chosen
    scale = chosen.mu / fitted.verdict.chosen.mu
    tempo, relapse = _tempo(swings), _relapse(chosen)
    components = [
        {
            "use": "component", "name": cause.name, "fault": cause.fault, "rate": rate_text(scale * cause.background),
            "events": cause.events - cause.in_incidents,
            **({"frailty": {"shape": float(f"{1 / chosen.cv2:.3g}")}} if chosen.cv2 else {}), **relapse, **tempo,
            **_repair(cause.repair or document.repair), "source": _grounds(document, cause),
        }
        for cause in document.causes
        if cause.background
    ]  # fmt: skip
    return components + [
        {
            "use": "incident", "name": _incident_name(document, incidents), "part": incidents.part,
            "rate": rate_text(incidents.rate.value, incidents.part), "events": incidents.events,
            "size": {
                "values": list(map(int, incidents.sizes)), "weights": [float(n) for n in incidents.sizes.values()]
            },
            **_delays(incidents), **_repair(incidents.repair), **(relapse if incidents.relapse else {}), **tempo,
            "source": _grounds_of_incidents(document, incidents),
        }
        for incidents in document.incidents
        if incidents.used and incidents.rate.value
    ]  # fmt: skip


def _tempo(swings: tuple[float, float]) -> dict[str, Any]:
    every, cv = swings
    return {"tempo": {"swings": {"every": f"{every:g} d", "cv": float(f"{min(cv, 10):.3g}")}}} if cv else {}


def _relapse(chosen: Clustering) -> dict[str, Any]:
    if not chosen.probability:
        return {}
    after = lognormal_law(chosen.median * DAY, chosen.sigma)
    return {"relapse": {"probability": float(f"{chosen.probability:.3g}"), "after": after}}


def _repair(law: LawSummary | None) -> dict[str, Any]:
    return {} if law is None else {"repair": law.law}


def _delays(incidents: IncidentsSummary) -> dict[str, Any]:
    values = [duration(delay) for delay in incidents.delays_s]
    return {"spread": {"use": "empirical", "values": values}} if any(incidents.delays_s) else {}


def _incident_name(document: FitDocument, incidents: IncidentsSummary) -> str:
    return "incident" if incidents is document.incidents[0] else f"{incidents.part} incident"


def _grounds_of_incidents(document: FitDocument, incidents: IncidentsSummary) -> str:
    """Return what the rate of incidents rests on."""
    return (
        f"{incidents.events} incidents with {incidents.nodes} outages within 5 min of the first of their "
        f"{incidents.part}, {incidents.by_chance:.2g} by chance, in {incidents.domains * document.days:,.0f} "
        f"{incidents.part}-days: {_interval(incidents.rate)} per 1000; "
        + ", ".join(sorted({file for cause in document.causes if cause.in_incidents for file in cause.files}))
    )


def _grounds(document: FitDocument, cause: CauseSummary) -> str:
    """Return what the rate and the repair of a cause rest on."""
    repair = cause.repair or document.repair
    text = (
        f"{cause.events} outages ({cause.in_incidents} in incidents) in {document.node_days_up:,.0f} node-days up: "
        f"{_interval(cause.rate)} per 1000 with relapses; {', '.join(cause.files)}"
    )
    if repair is not None:
        whose = "repair" if cause.repair is not None else "repair of all causes"
        text += f"; {whose}: {number_of(repair.events, 'duration')}, {repair.open} still open, {repair.method}"
        if repair.median.low is not None and repair.median.high is not None:
            text += f", median {duration(repair.median.low)} to {duration(repair.median.high)} (95 %)"
    return text


def _interval(estimate: Estimated) -> str:
    return f"{estimate.value:.3g}{between(f'{estimate.low:.3g}', f'{estimate.high:.3g}')}"


def idle_cluster(fitted: FittedModel, entries: list[dict[str, Any]], days: float) -> dict[str, Any]:
    """Return a scenario with the nodes of the fit and no job before its end: failures as they come by themselves."""
    nodes, rack = fitted.document.nodes, {"nodes": per_rack(fitted.history)}
    return {
        "name": "check",
        "cluster": {"nodes": nodes, "gpus_per_node": 1, "rack": rack, "fabric": {"rails": 1, "radix": 1024}},
        "horizon": f"{days!r} d",
        "jobs": [{"name": "none", "gpus": 1, "arrival": f"{days!r} d", "step_time": "10 s"}],
        "failures": entries,
        "repair": {"time": "1 d"},
        "detection": {"time": "0 s"},
        "checkpoint": {"tiers": [{"interval": "1 h", "mode": "blocking", "write": "1 s", "restore": "1 s"}]},
        "recovery": {"use": "full-restart", "initialize": "1 s"},
    }


def per_rack(history: History) -> int:
    """Return the nodes of a rack, of most racks."""
    sizes = Counter(filter(None, history.racks))
    return int(np.median(list(sizes.values()))) if sizes else 4


# The scenario: what logs tell, and what they do not.


def scenario(fitted: FittedModel, tables: Tables) -> dict[str, Any]:
    """Return the scenario without its failures; what had to be assumed in it stands among its assumptions."""
    document, gpus = fitted.document, fitted.document.gpus_per_node
    big = largest(tables.attempts)
    wanted = max(int(document.nodes * 0.9), 1) * gpus
    if big:
        wanted = min(max(a.gpus or a.node_count * gpus for a in big), document.nodes * gpus)
    step, restart, interval = _steps(document, tables)
    detection, delay = document.detection, between_runs(big)
    assumed = {
        f"the job: no job records, so one of 90 % of the nodes ({wanted:,} GPUs)": not big,
        f"{gpus} GPUs per node: the inventory does not say": not any(fitted.history.gpus),
        "a step takes 10 s: no training log": step is None,
        "initialize 5 min: no training log": restart is None,
        "a checkpoint every 30 min: no training log shows three rollbacks": interval is None,
        "a checkpoint stalls steps for 5 s, takes 1 min to write and 1 min to read: in no log": True,
        "detection 2 min: no kernel log in addition to the outages": detection is None,
        "a job that failed is queued again at once: no records of one large job in several runs": delay is None,
        "repair 1 d: no log contains the ends of outages": document.repair is None,
    }
    tier = {"interval": duration(interval or 1800.0), "mode": "async"}
    recovery = {"use": "full-restart", "initialize": duration(restart or 300.0)}
    return {
        "name": document.name,
        "description": f"{document.nodes:,} nodes by their logs of {document.window[0]} to {document.window[1]}.",
        "extends": BUNDLE,
        "cluster": {"nodes": document.nodes, "gpus_per_node": gpus, "rack": {"nodes": per_rack(fitted.history)}},
        "horizon": duration(max(document.days, 1.0) * DAY),
        "jobs": [{"name": "train", "gpus": int(wanted), "step_time": duration(step or 10.0)}],
        "detection": {"time": detection.law if detection is not None else "2 min"},
        "checkpoint": {"tiers": [{**tier, "stall": "5 s", "write": "1 min", "restore": "1 min"}]},
        "recovery": recovery if delay is None else {**recovery, "delay": duration(delay)},
        **({"repair": {"time": "1 d"}} if document.repair is None else {}),
        "assumptions": [text for text, is_assumed in assumed.items() if is_assumed],
    }


def _steps(document: FitDocument, tables: Tables) -> tuple[float | None, float | None, float | None]:
    """Return the time of a step, of a start, and between checkpoints [s]; ``None`` for what no log says."""
    training = document.training
    step, restart, interval = None, None, None
    if training is not None:
        step, restart, interval = training.step_time_s or None, training.restart_s, training.checkpoint_s
    starts = [phase.t1 - phase.t0 for phase in tables.phases if phase.phase == "initialize"]
    if restart is None and starts:
        restart = float(np.median(starts))
    return step, restart, interval


def between_runs(big: Sequence[LoggedAttempt]) -> float | None:
    """Return the mean time from the end of a run of the largest job to the start of the next one [s].

    ``None`` with fewer than five of them, or where such runs overlap: these are several jobs. A longer pause than
    `workload.PAUSE` is no restart.
    """
    runs = sorted((a.t_start, a.t_end) for a in big if not math.isnan(a.t_end))
    gaps = [after[0] - before[1] for before, after in itertools.pairwise(runs)]
    short = [gap for gap in gaps if gap <= workload.PAUSE]
    if len(short) < FEW or min(gaps) < -60:
        return None
    return sum(max(gap, 0.0) for gap in short) / len(short)


def bundle(fitted: FittedModel, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the file that scenarios extend: sources of nodes, and the ends of jobs that no node explains."""
    attribution = fitted.document.attribution
    entries = [*entries]
    if attribution is not None and attribution.software_per_day.value:
        value = attribution.software_per_day
        entries.append({
            "use": "job",
            "name": "software",
            "rate": f"{value.value:.4g} per job-day",
            "events": attribution.software_events,
            "source": f"{attribution.software_events} ends of the largest jobs without evidence of a node in "
            f"{attribution.software_events / (value.value or 1.0):,.0f} days of running: {_interval(value)} a day; "
            + ", ".join(row.file for row in fitted.document.files if row.kind.startswith("sacct")),
        })  # fmt: skip
    return {"failures": entries}


# The files.


def files(
    fitted: FittedModel, tables: Tables, entries: list[dict[str, Any]], alternative: list[dict[str, Any]] | None,
    load: SiteWorkload | None = None, site: SlurmScenario | None = None,
) -> dict[str, str]:  # fmt: skip
    """Return all files of the folder but the document, by name."""
    document = fitted.document
    content = scenario(fitted, tables)
    if site is not None:
        content["cluster"] = {**content["cluster"], **site.cluster}
    head = _head(document)
    columns = draws(fitted, entries)
    texts = {
        "events.csv": as_csv(tables.events, NodeEvent),
        "exposure.csv": as_csv(tables.exposure, Exposure),
        "dropped.csv": as_csv(tables.dropped, Dropped),
        "outages.csv": outages_csv(fitted.history),
        "nodes.csv": "unit\n" + "".join(f"{row}\n" for row in dict.fromkeys(row.unit for row in tables.exposure)),
        "draws.csv": _columns_csv(columns),
        "study.yaml": head + sim.dump(study(document)),
        BUNDLE: head + sim.dump(bundle(fitted, entries)),
        SCENARIO: head + sim.dump(content),
        "replay.yaml": f"{head}# The recorded outages, instead of the model.\n{sim.dump(replay(fitted, content))}",
    }
    if tables.attempts:
        texts["attempts.csv"] = as_csv(tables.attempts, LoggedAttempt)
        jobs = load.jobs if load is not None else workload.jobs_of(tables, document.gpus_per_node)
        texts[workload.JOBS] = workload.jobs_csv(jobs, load.priority if load is not None else {})
    if load is not None:
        if load.entries:  # else all jobs are the training job
            fleet = workload.fleet(content, load, entries)
            texts[workload.FLEET] = head + workload.sources_of(load) + sim.dump(fleet)
            texts["fleet-draws.csv"] = _columns_csv(_fleet_draws(load, columns, len(entries), len(fitted.draws)))
            texts["fleet-study.yaml"] = head + sim.dump(study(document, of_fleet=True))
        texts[workload.HISTORY] = head + sim.dump(workload.history(content, load))
    if tables.phases:
        texts["phases.csv"] = as_csv(tables.phases, TrainingPhase)
    if alternative is not None:
        why = "# As failures.yaml, with differences between nodes that the data do not rule out.\n"
        texts[ALTERNATIVE] = head + why + sim.dump(bundle(fitted, alternative))
    return texts


def _head(document: FitDocument) -> str:
    """Return the comment with which files begin."""
    return (
        f"# Fitted by ettrick fit to logs of {document.nodes:,} nodes, {document.window[0]} to {document.window[1]}.\n"
        f"# {document.outages} unplanned outages in {document.node_days_up:,.0f} node-days up; report.html says how "
        "sure each number is.\n"
    )


def _fleet_draws(
    load: SiteWorkload, columns: Mapping[str, Sequence[str]], sources: int, count: int
) -> dict[str, Sequence[str]]:
    """Return the draws of the fleet: only with a training job has it the source of its ends, behind those of nodes."""
    of_jobs = () if load.chain else (f"failures.{sources}.rate",)
    of_fleet = {path: column for path, column in columns.items() if path not in of_jobs}
    return {**of_fleet, **workload.stream_draws(load, count)}


def _columns_csv(columns: Mapping[str, Sequence[str]]) -> str:
    return csv_text([[*columns], *zip(*columns.values(), strict=True)])


def study(document: FitDocument, *, of_fleet: bool = False) -> dict[str, Any]:
    """Return a study of what the uncertainty of the fit means for the scenario, or for the fleet."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", document.name).strip("-._") or "fitted"
    what = "waits and occupancy" if of_fleet else "goodput"
    return {
        "name": f"{name}-fleet" if of_fleet else name,
        "question": f"How sure {'are' if of_fleet else 'is'} the {what}, as far as the logs tell?",
        "scenario": workload.FLEET if of_fleet else SCENARIO,
        "vary": {
            "fit": {
                "title": f"what the logs say of failures{' and jobs' if of_fleet else ''}",
                "distribution": {"use": "draws", "file": "fleet-draws.csv" if of_fleet else "draws.csv"},
                "basis": "measured",
                "source": f"{document.outages} outages, {document.window[0]} to {document.window[1]}",
            }
        },
        "design": {"use": "grid", "draws": 50},
        "metrics": ["occupancy", "wait_first"] if of_fleet else ["ettr", "runtime_goodput", "mtti"],
        "replications": 8,
    }


def replay(fitted: FittedModel, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scenario with the outages as they were."""
    rest = {key: value for key, value in content.items() if key not in ("extends", "failures", "repair")}
    source: dict[str, Any] = {
        "use": "replay", "file": "outages.csv", "origin": utc(fitted.history.start), "inventory": "nodes.csv",
    }  # fmt: skip
    return {**rest, "name": f"{content['name']}-replay", **bundle(fitted, [source])}


def outages_csv(history: History) -> str:
    """Return the outages as `replay` reads them: in order, each with its node by name."""
    rows = [["unit", "start", "end", "cause"]]
    open_until: dict[str, float] = {}
    for event in history.outages:
        if event.t < open_until.get(event.node, -math.inf):
            continue
        over = "" if math.isnan(event.t_end) else utc(event.t_end)
        open_until[event.node] = math.inf if not over else event.t_end
        rows.append([event.node, utc(event.t), over, event.cause])
    return csv_text(rows)


def draws(fitted: FittedModel, entries: list[dict[str, Any]]) -> dict[str, Sequence[str]]:
    """Return joint draws of the parameters by path of the scenario, the centre first."""
    generator = np.random.default_rng(0)
    components = [index for index, entry in enumerate(entries) if entry["use"] == "component"]
    background = fitted.shares[[bool(cause.background) for cause in fitted.document.causes]]
    chosen = fitted.verdict.chosen
    counted = _counted(fitted, entries)
    of_laws = [f"failures.{index}.{name}" for index in components for name in _clustering_cells(chosen)]
    paths = [*(f"failures.{index}.rate" for index in components), *of_laws, *(path for path, *_ in counted)]
    rows = []
    for number, draw in enumerate(fitted.draws):
        parts = generator.gamma(background + 0.5) if number else background
        rates = [rate_text(1000 * draw.mu * part / parts.sum()) for part in parts]
        laws = [*_clustering_cells(chosen, draw).values()] * len(components)
        counts = [text(float(generator.gamma(events + 0.5)) / events if number else 1.0) for _, events, text in counted]
        rows.append([*rates, *laws, *counts])
    columns = dict(zip(paths, zip(*rows, strict=True), strict=True))
    return {**columns, **_repair_draws(fitted, entries, np.random.default_rng(1))}


def _clustering_cells(chosen: Clustering, draw: Clustering | None = None) -> dict[str, str]:
    """Return what a draw says of relapse and frailty, by path within a source, where the model has them."""
    draw, cells = draw or chosen, dict[str, str]()
    if chosen.probability:
        law = lognormal_law(draw.median * DAY, draw.sigma)
        cells |= {"relapse.probability": f"{draw.probability:.3g}", "relapse.after.median": law["median"]}
        cells["relapse.after.sigma"] = f"{law['sigma']:g}"
    if chosen.cv2:
        cells["frailty.shape"] = f"{1 / draw.cv2:.3g}"
    return cells


def _counted(fitted: FittedModel, entries: list[dict[str, Any]]) -> list[tuple[str, int, Callable[[float], str]]]:
    """Return the path, the events and the text of each rate that is counted by itself, for a factor of it."""
    part_of = {incidents.part: incidents for incidents in fitted.document.incidents}
    incidents = {index: part_of[entry["part"]] for index, entry in enumerate(entries) if entry["use"] == "incident"}
    counted: list[tuple[str, int, Callable[[float], str]]] = [
        (f"failures.{index}.rate", summary.events, functools.partial(_incident_rate, summary))
        for index, summary in incidents.items()
    ]
    attribution = fitted.document.attribution
    if attribution is not None and attribution.software_events and attribution.software_per_day.value:
        text = functools.partial(_software_rate, attribution.software_per_day.value)
        counted.append((f"failures.{len(entries)}.rate", attribution.software_events, text))
    return counted


def _incident_rate(incidents: IncidentsSummary, factor: float) -> str:
    return rate_text((incidents.rate.value or 0.0) * factor, incidents.part)


def _software_rate(per_day: float, factor: float) -> str:
    return f"{per_day * factor:.4g} per job-day"


def _repair_draws(
    fitted: FittedModel, entries: list[dict[str, Any]], generator: np.random.Generator
) -> dict[str, list[str]]:
    """Return draws of the repair laws by path, the fit first; sources that have one law have its draws together.

    What the estimates of other repairs from the fitted law would be: of n durations the log of the median is normal
    with deviation σ/√n, (n - 1) σ*²/σ² is χ² with n - 1 degrees of freedom, and of two laws the first has a binomial
    number.
    """
    document, count = fitted.document, len(fitted.draws) - 1
    laws = [document.repair, *(incidents.repair for incidents in document.incidents)]
    laws += [cause.repair for cause in document.causes]
    draws: dict[str, list[str]] = {}
    for law in (law for law in laws if law is not None):
        paths = [f"failures.{at}.repair" for at, entry in enumerate(entries) if entry.get("repair") == law.law]
        parts = law.law.get("parts", [{"weight": 1.0, "law": law.law}])
        of_first = np.clip(generator.binomial(law.events, parts[0]["weight"], count), 1, law.events - 1) / law.events
        columns: dict[str, list[str]] = {}
        for number, part in enumerate(parts):
            inner = f".parts.{number}.law" if len(parts) > 1 else ""
            if inner:
                shares = [f"{abs(number - share):.4f}" for share in of_first]
                columns[f".parts.{number}.weight"] = [f"{part['weight']:g}", *shares]
            median, sigma = parse(part["law"]["median"], DURATION), part["law"]["sigma"]
            size = max(part["weight"] * law.events, 2.0)
            medians = median * np.exp(sigma / math.sqrt(size) * generator.standard_normal(count))
            sigmas = sigma * np.sqrt(generator.chisquare(size - 1, count) / (size - 1))
            columns[f"{inner}.median"] = [part["law"]["median"], *map(duration, medians.tolist())]
            columns[f"{inner}.sigma"] = [f"{sigma:g}", *(f"{max(x, LEAST_SIGMA):.4g}" for x in sigmas)]
        draws |= {path + name: column for path in paths for name, column in columns.items()}
    return draws

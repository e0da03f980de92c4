"""A cluster followed over weeks: what was measured, compared with what the model in force predicts for that week.

A measured value has a rank among the weeks that the model simulates with draws of its parameters; the normal score of
that rank is its z, standard normal if the model is right, whatever the metric. Draws count by how well they predicted
the weeks before: what is wrong with a parameter is wrong in every week, and z would be correlated otherwise.

Two charts watch z: one value beyond a limit is sudden, a CUSUM with reference 1/2 beyond another is lasting. Both
limits come from histories that the model itself simulates.

References
----------
E. S. Page, "Continuous inspection schemes", Biometrika 41 (1954); A. P. Dawid, "The prequential approach", J. R.
Statist. Soc. A 147 (1984); P. K. Dunn and G. K. Smyth, "Randomized quantile residuals", J. Comput. Graph. Statist. 5
(1996).
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import math
import time
import zlib
from collections import Counter
from datetime import UTC, datetime
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick import sim
from ettrick.analysis.amounts import percent_text
from ettrick.analysis.contest import runs
from ettrick.analysis.logs import estimate
from ettrick.analysis.logs.events import incidents
from ettrick.analysis.logs.pipeline import history_of, read
from ettrick.analysis.logs.tables import utc
from ettrick.analysis.logs.training import LEAST_DRIFT, WEEK, StepStretches, of_steps, phases_of
from ettrick.analysis.logs.weeks import CAUSE, WeekRecord, causes_of
from ettrick.analysis.metrics import bucket_label
from ettrick.analysis.results.fitted import AlarmSummary, LimitsSummary, TrackDocument, Tracked, WeekSummary
from ettrick.sim import JOB_BUCKETS
from ettrick.sim.records import LogError
from ettrick.sim.units import DAY
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ettrick.analysis.logs.events import History
    from ettrick.analysis.logs.pipeline import FitOptions
    from ettrick.analysis.logs.tables import Tables
    from ettrick.analysis.results.models import Provenance

    Progress = Callable[[int, int | None], None]
    FloatArray = NDArray[np.float64]

HEADLINES = {"productive": -1, "outages": 1, "unavailability": 1, "interruptions": 1}
"""The metrics that may alarm, and the sign of what is worse; all others explain."""

DRAWS, EACH, YEAR = 200, 10, 52
"""Draws of the parameters, weeks of each for a rare shape of row (2,000 together), and for that of most rows."""

SETTLING = 4
"""Weeks that a simulation runs before it counts: repairs and relapses are under way in a cluster that is watched."""

FALSE_ALARMS = 0.05
"""Share of the simulated years with an alarm, at most."""

REFERENCE = 0.5


class Shape(NamedTuple):
    """The settings on which a simulation of a row depends in addition to the model."""

    days: float
    gpus: int
    nodes: int
    replications: int

    @property
    def is_whole(self) -> bool:
        """Whether it is the mean of whole runs, and not a week."""
        return self.replications > 1


# Measured rows: of logs, and of results of Ettrick.


def measured_rows(
    request: FitOptions, model: TrackedModel, after: float | None, progress: Progress
) -> tuple[list[WeekRecord], list[str]]:
    """Return the whole weeks that were watched, from a moment [s since 1970] on, and what to know of the logs.

    Raises
    ------
    LogError
        If a file cannot be read, no whole week is left, or nothing says from when the cluster was watched.
    NoModelError
        If nothing says which nodes were watched.
    """
    tables, reading = read(request, progress)
    first = min(source.first for source in tables.sources)
    start, end, findings = _watched(request, tables, first, after)
    weeks = int((end - start) / WEEK + 0.01)  # the last line of a log is a little before its end
    if weeks < 1:
        raise LogError(
            f"there is no whole week from {utc(start)} to {utc(end)}; set the observation window with --window"
        )
    # An outage that began before them is one of their first week too.
    history = history_of(request._replace(window=(min(start, first), max(end, start + weeks * WEEK))), tables, reading)
    sources = _incident_sources(history, model)
    phases, rows = phases_of(tables, model.job), []
    steps = StepStretches.of(of_steps(phases))
    begin, over = min((p.t0 for p in phases), default=start), max((p.t1 for p in phases), default=end)
    for low in (start + week * WEEK for week in range(weeks)):
        node_days, values = _of_nodes(history, low, low + WEEK, model, sources)
        values |= _of_steps(steps, max(low, begin), min(low + WEEK, over), model)
        day = datetime.fromtimestamp(low, UTC).strftime("%Y-%m-%dT%H:%M").removesuffix("T00:00")
        rows.append(WeekRecord(day, 7.0, model.job, 0, node_days, values, model.digest))
    if over < start + weeks * WEEK - 3600:
        findings.append(f"the training log ends at {utc(over)}: productive time is known up to there")
    unused = [
        f"{row.source}: {row.number:,} lines are not used ({row.rule}), such as line {row.first}"
        for row in tables.dropped
        if row.sort == "unusable"
    ]
    return rows, [*unused, *findings, *tables.findings]


def _incident_sources(history: History, model: TrackedModel) -> dict[int, str]:
    """Return the source of the model that each incident is one of, if it has that."""
    together = zip(incidents(history), ("incident", "cluster incident"), strict=False)
    return {
        history.outages[index].incident: name
        for of_part, name in together
        if name in model.causes
        for group in of_part.groups
        for index in group
    }


def _watched(request: FitOptions, tables: Tables, first: float, after: float | None) -> tuple[float, float, list[str]]:
    """Return from when to when the cluster was watched [s], as it was stated, and what was not.

    A week without a failure is one. To the end of the logs if neither the window nor the inventory has an end.
    """
    last = max(source.last for source in tables.sources) + 1
    if request.window is not None:
        return *request.window, []
    if after is None or math.isinf(first):
        raise LogError(
            "the observation window is unknown, because logs show only failures; give --window START/END"
            + ("" if math.isinf(first) else ", or --since START")
        )
    leave = max((row.t_exit for row in tables.exposure), default=math.inf)
    findings = []
    if first - after > WEEK:
        findings.append(
            f"the logs begin at {utc(first)}, and the weeks from {utc(after)} on count as weeks without outages; "
            "--window START/END states what was watched"
        )
    if leave > time.time():
        findings.append(f"the weeks end with the logs, at {utc(last)}; --window START/END states another end")
    return after, last if leave > time.time() else leave, findings


def _of_nodes(
    history: History, low: float, high: float, model: TrackedModel, sources: Mapping[int, str]
) -> tuple[float, dict[str, float]]:
    """Return the node-days in service between two moments, and what outages did in them; incidents by their source."""
    service = float((np.minimum(history.leave, high) - np.maximum(history.enter, low)).clip(0).sum())
    counts: Counter[str] = Counter()
    down = 0.0
    for event in history.outages:
        down += max(min(history.until(event), high) - max(event.t, low), 0.0)
        if low <= event.t < high:
            counts[sources.get(event.incident, event.cause)] += 1
    names = dict.fromkeys((*model.causes, *counts))
    values = {"outages": float(counts.total()), **{CAUSE + name: float(counts[name]) for name in names}}
    if history.has_ends and service:
        values["unavailability"] = down / service
    return service / DAY, values


def _of_steps(steps: StepStretches, low: float, high: float, model: TrackedModel) -> dict[str, float]:
    """Return the shares of the wall time that a training log tells: steps that were kept, by the reference step time.

    A goodput in time would not see slow steps: these are in no bucket, and in ``step_time``. A week counts from the
    first line of the log to the last one, which the moments are within, if they have most of it between them: job
    records name jobs that began before it, and what was watched may end after it.
    """
    if high - low < WEEK / 2 or not model.step_time:
        return {}
    steps = steps.within(low, high)
    if not len(steps.ran):
        return {}
    effective, ran = float(steps.effective.sum()), float(steps.ran.sum())
    share = model.step_time / (high - low)
    return {
        "productive": min(effective * share, 1.0),
        "lost_work": min((ran - effective) * share, 1.0),
        "step_time": float(np.median(steps.times)) / model.step_time,
    }


def result_row(folder: Path, model: TrackedModel) -> WeekRecord:
    """Return the means of a folder that ``ettrick run --out`` filled.

    Raises
    ------
    LogError
        If it holds no such results, or not those of the job that is tracked.
    """
    from ettrick.analysis.results.models import RunDocument

    try:
        document = RunDocument.model_validate_json((folder / "run.json").read_text(encoding="utf-8"))
    except OSError:
        raise LogError(f"{folder}: contains no run.json, which ettrick run --out writes") from None
    except ValueError as error:
        raise LogError(f"{folder}/run.json: is not a result of ettrick run ({str(error).splitlines()[0]})") from None
    if model.job not in document.per_job:
        raise LogError(f"{folder}: has no job '{model.job}'{suggest(model.job, document.per_job)}")
    job = document.per_job[model.job]
    up, hits = document.metrics["node_availability"].mean, job.metrics["interruptions"].mean
    means = {"unavailability": None if up is None else 1 - up, "interruptions": hits}
    values = job.time_shares | {name: mean for name, mean in means.items() if mean is not None}
    return WeekRecord(
        folder.name, document.horizon_s / DAY, model.job, job.gpus, 0.0, values, model.digest, document.replications
    )


# The model in force, and the weeks that it predicts.


class TrackedModel:
    """The scenario of a folder, with the draws of its parameters if it has them.

    Raises
    ------
    LogError
        If the folder has no scenario, or no such job.
    sim.ScenarioError
        If the scenario cannot be read.
    """

    def __init__(self, folder: Path, job: str = "") -> None:
        names = ("scenario.yaml", "scenario.resolved.yaml")
        path = next((folder / name for name in names if (folder / name).is_file()), None)
        if path is None:
            raise LogError(
                f"{folder}: contains no model, neither {names[0]} (from ettrick fit) nor {names[1]} (from ettrick run)"
            )
        self.path = path
        scenario = sim.load(path)
        prepared = sim.prepare(scenario)
        jobs = [plan.name for plan in prepared.jobs]
        if job and job not in jobs:
            raise LogError(f"{path}: has no job '{job}'{suggest(job, jobs)}")
        self.name, self.job = scenario.name, job or jobs[0]
        self.at = jobs.index(self.job)
        self.gpus, self.nodes = prepared.jobs[self.at].gpus, len(prepared.scenario.cluster.build().domains["rack"])
        self.causes = [source.name for source in prepared.sources]
        self.draws: list[list[str]] = []
        content = json.dumps(scenario.dump(), sort_keys=True, default=str)
        draws = folder / "draws.csv"
        if draws.is_file():
            text = draws.read_text(encoding="utf-8")
            content += text
            heads, *rows = csv.reader(text.splitlines())
            self.draws = [[f"{head}={value}" for head, value in zip(heads, row, strict=True)] for row in rows]
        self.digest = hashlib.sha256(content.encode()).hexdigest()[:12]
        result = sim.run(prepared, 0).jobs[self.at]
        self.step_time = result.work / result.steps if result.steps else 0.0
        """The time of a healthy step [s]; 0 where the scenario has none."""

    def names(self, *, whole: bool) -> list[str]:
        """Return the metrics that `simulate` returns; those of whole runs where rows are means of replications."""
        more = ["interruptions"] if whole else ["outages", *(CAUSE + name for name in self.causes)]
        return [*JOB_BUCKETS, "unavailability", *more]

    def simulate(self, shape: Shape, weeks: int, progress: Progress) -> FloatArray:
        """Return simulated weeks, shape (draws, weeks, metrics); each draw is one run in which they follow each other.

        Raises
        ------
        sim.ScenarioError
            If the job does not fit into the nodes.
        """
        whole, width = shape.is_whole, shape.days * DAY
        changes = [f"cluster.nodes={shape.nodes}"] if shape.nodes != self.nodes else []
        if shape.gpus != self.gpus:
            changes.append(f"jobs.{self.at}.gpus={shape.gpus}")
        if not whole:
            changes += [f"warmup={SETTLING * WEEK!r} s", f"horizon={weeks * width!r} s", f"windows={width!r} s"]
        base = sim.prepare(sim.load(self.path, changes))
        predicted = np.full((DRAWS, weeks, len(self.names(whole=whole))), math.nan)
        for draw in range(DRAWS):
            prepared = base
            if self.draws and not whole:
                prepared = sim.prepare(sim.load(self.path, [*changes, *self.draws[draw % len(self.draws)]]))
            elif draw and not whole:
                prepared = runs.drawn(base, draw)
            result = sim.run(prepared, _APART + draw, keeps_log=not whole, most_events=math.inf)
            predicted[draw] = self._whole(result) if whole else self._weekly(result, shape, weeks)
            progress(draw + 1, DRAWS)
        return predicted

    def _whole(self, result: sim.Result) -> FloatArray:
        job = result.jobs[self.at]
        down = result.down_node_seconds / result.node_seconds
        return np.array([[*(job.buckets / job.requested), down, sum(job.interruptions.values())]])

    def _weekly(self, result: sim.Result, shape: Shape, weeks: int) -> FloatArray:
        totals = result.jobs[self.at].totals[:weeks, : len(JOB_BUCKETS)].sum(axis=2)
        sums = totals.sum(axis=1, keepdims=True)
        shares = np.divide(totals, sums, out=np.full_like(totals, math.nan), where=sums > 0)
        edges = np.arange(weeks + 1) * shape.days * DAY
        start, end, cause = result.outages.start, result.outages.end, result.outages.cause
        down = np.array([
            (np.minimum(end, high) - np.maximum(start, low)).clip(0).sum() for low, high in itertools.pairwise(edges)
        ])  # fmt: skip
        counts = [np.histogram(start[cause == at], edges)[0] for at in range(1, len(self.causes) + 1)]
        unavailability = down / (shape.nodes * shape.days * DAY)
        return np.column_stack((shares, unavailability, np.histogram(start, edges)[0], *counts))


_APART = 1_000_000
"""First replication of a prediction, so that results of the same seed are not held against themselves."""


# From values to z.


class Scores:
    """The scores of each draw of the parameters as a prediction of a week.

    Values are taken as the normal scores of their ranks, so that neither a skewed metric nor one week far out decides;
    the scores of the weeks of a draw are normal about its mean, with a covariance that all draws share.

    Parameters
    ----------
    weeks
        Predicted weeks, shape (draws, weeks, metrics).
    """

    def __init__(self, weeks: FloatArray) -> None:
        flat = weeks.reshape(-1, weeks.shape[2])
        self._sorted = np.sort(flat, axis=0)
        scores = np.column_stack([self._score(at, flat[:, at]) for at in range(weeks.shape[2])]).reshape(weeks.shape)
        mean = scores.mean(axis=1)
        rest = (scores - mean[:, None]).reshape(-1, weeks.shape[2])
        self._covariance = rest.T @ rest / (len(rest) - len(weeks)) + 1e-6 * np.eye(weeks.shape[2])
        # Means of a few weeks differ by chance too; that part of their variance is taken out.
        by_chance = np.diag(self._covariance) / weeks.shape[1]
        reliability = np.maximum(1 - by_chance / np.maximum(mean.var(axis=0), 1e-12), 0)
        self._mean = mean.mean(axis=0) + reliability * (mean - mean.mean(axis=0))

    def _score(self, at: int, values: FloatArray) -> FloatArray:
        column = self._sorted[:, at]
        places = np.searchsorted(column, values) + np.searchsorted(column, values, side="right")
        from scipy.special import ndtri

        return np.asarray(ndtri((places / 2 + 0.5) / (len(column) + 1)))

    def log_likelihood(self, week: FloatArray) -> FloatArray:
        """Return it for each draw up to a constant, shape (draws,); NaN in a week was not measured."""
        seen = np.flatnonzero(~np.isnan(week))
        if not len(seen):
            return np.zeros(len(self._mean))
        apart = np.array([self._score(at, week[at : at + 1])[0] for at in map(int, seen)]) - self._mean[:, seen]
        precision = np.linalg.inv(self._covariance[np.ix_(seen, seen)])
        return np.asarray(-0.5 * np.einsum("di,ij,dj->d", apart, precision, apart))


def z_of(value: float, predicted: FloatArray, weights: FloatArray, at_random: float) -> float:
    """Return the normal score of a value among predicted ones.

    Parameters
    ----------
    predicted
        Shape (draws, weeks).
    weights
        Of the draws, sum 1, shape (draws,).
    at_random
        From 0 to 1: where a value lies in its step of the distribution function.
    """
    week_weights = weights / predicted.shape[1]
    below = float(week_weights @ (predicted < value).sum(axis=1))
    equal = float(week_weights @ (predicted == value).sum(axis=1))
    mass = float((week_weights**2).sum() * predicted.shape[1])
    return NormalDist().inv_cdf(min(max((below + at_random * (equal + mass)) / (1 + mass), 1e-12), 1 - 1e-12))


def weights_of(log_likelihood: FloatArray) -> FloatArray:
    """Return weights of sum 1."""
    shares = np.exp(log_likelihood - log_likelihood.max())
    return np.asarray(shares / shares.sum())


class Cusum:
    """Two cumulative sums of z, one for each direction."""

    def __init__(self) -> None:
        self.up = self.down = 0.0

    def add(self, z: float) -> float:
        """Take one more value; return the larger sum, with the sign of its direction."""
        self.up, self.down = max(0.0, self.up + z - REFERENCE), max(0.0, self.down - z - REFERENCE)
        return self.up if self.up >= self.down else -self.down


def limits(names: Sequence[str], predicted: FloatArray) -> LimitsSummary:
    """Return limits of both charts of each metric that together leave 95 % of the simulated years without an alarm.

    What lasts over weeks, as long repairs do, gets a wider one.

    Parameters
    ----------
    predicted
        Weeks of the headline metrics, shape (draws, weeks, metrics). The weeks of each draw are one history, predicted
        from those of all others.
    """
    scores = Scores(predicted)
    generator = np.random.default_rng(0)
    worst = np.zeros((len(predicted), predicted.shape[2], 2))
    for number, history in enumerate(predicted):
        log_likelihood = np.zeros(len(predicted))
        log_likelihood[number] = -np.inf  # the true parameters are not among those that predict
        worst[number] = extremes(history, predicted, scores, log_likelihood, generator)
    for level in np.linspace(1 - FALSE_ALARMS, 1, 101):
        bounds = np.quantile(worst, level, axis=0)
        share = float(np.mean((worst > bounds).any(axis=(1, 2))))
        if share <= FALSE_ALARMS:
            break
    sudden, lasting = (dict(zip(names, column, strict=True)) for column in bounds.T.tolist())
    return LimitsSummary(sudden=sudden, lasting=lasting, false_alarms=share, histories=len(predicted))


def extremes(
    history: FloatArray,
    predicted: FloatArray,
    scores: Scores,
    log_likelihood: FloatArray,
    generator: np.random.Generator,
) -> FloatArray:
    """Return the largest z and the largest sum of each metric in a history, without signs, shape (metrics, 2).

    Parameters
    ----------
    history
        Shape (weeks, metrics).
    predicted, scores
        Shape (draws, weeks, metrics), and their `Scores`.
    known
        Log-likelihood of each draw before, shape (draws,).
    generator
        Of the ranks of ties.
    """
    charts = [Cusum() for _ in range(history.shape[1])]
    worst = np.zeros((len(charts), 2))
    for week in history:
        weights = weights_of(log_likelihood)
        for at, chart in enumerate(charts):
            z = z_of(week[at], predicted[:, :, at], weights, generator.random())
            worst[at] = np.maximum(worst[at], (abs(z), abs(chart.add(z))))
        log_likelihood = log_likelihood + scores.log_likelihood(week)
    return worst


# The document.


def track(
    rows: Sequence[WeekRecord],
    model: TrackedModel,
    provenance: Provenance,
    threshold: float = 0.02,
    progress: Progress = lambda _done, _total: None,
    of_logs: Sequence[str] = (),
) -> TrackDocument:
    """Hold rows against the model in force.

    Parameters
    ----------
    threshold
        Loss of productive time below which nothing is a regression, as a share.
    of_logs
        What to know of the logs that were read.

    Raises
    ------
    LogError
        If rows are of another job, or have no metric that may alarm.
    sim.ScenarioError
        If the job of a row does not fit into its nodes.
    """
    _refuse_other_jobs(rows, model.job)
    seen = _measured_headlines(rows)
    simulated = _simulated(rows, model, progress)
    shape, predicted = next(iter(simulated.items()))
    limit = _limits_of_rows(seen, len(rows)) if shape.is_whole else _limits_of_weeks(seen, model, predicted)
    weeks = _rows(rows, model, simulated, seen)
    alarms = _alarms(weeks, limit, threshold)
    names = [name for name in HEADLINES if name not in seen and name in model.names(whole=shape.is_whole)]
    moves = () if shape.is_whole else since(weeks)
    return TrackDocument(
        name=model.name, job=model.job, model=model.digest, draws=DRAWS, simulated=predicted[:, :, 0].size,
        threshold=threshold, limits=limit, weeks=weeks, alarms=alarms, provenance=provenance,
        regression=any(alarm.confirmed for alarm in alarms),
        findings=[*of_logs, *moves, *_of_models(rows, model), *(f"{name}: not measured" for name in names)],
    )  # fmt: skip


def _refuse_other_jobs(rows: Sequence[WeekRecord], job: str) -> None:
    strange = next((row.job for row in rows if row.job not in ("", job)), None)
    if strange is not None:
        raise LogError(f"the rows are of job '{strange}', the model in force has '{job}' (--job says which)")


def _simulated(rows: Sequence[WeekRecord], model: TrackedModel, progress: Progress) -> dict[Shape, FloatArray]:
    """Return simulations of each shape of rows, that of most rows first and longest."""
    shapes = Counter(_shape(row, model) for row in rows)
    common = shapes.most_common(1)[0][0]
    simulated: dict[Shape, FloatArray] = {}
    for number, shape in enumerate(shapes):
        weeks = 1 if shape.is_whole else YEAR if shape == common else EACH
        report = lambda done, _total, base=number * DRAWS: progress(base + done, len(shapes) * DRAWS)  # noqa: E731
        simulated[shape] = model.simulate(shape, weeks, report)
    return {common: simulated[common], **simulated}


def _measured_headlines(rows: Sequence[WeekRecord]) -> list[str]:
    """Return the metrics that may alarm and were measured, of which there has to be one."""
    names = [name for name in HEADLINES if any(name in row.values for row in rows)]
    if not names:
        raise LogError(f"nothing that is tracked was measured: {', '.join(HEADLINES)}")
    return names


def _limits_of_rows(names: Sequence[str], count: int) -> LimitsSummary:
    """Return the limits of a row or two, each of many replications, of which each has its share of false alarms."""
    sudden = NormalDist().inv_cdf(1 - FALSE_ALARMS / 2 / len(names) / count)
    return LimitsSummary(sudden=dict.fromkeys(names, sudden), lasting={}, false_alarms=FALSE_ALARMS, histories=0)


def _limits_of_weeks(seen: Iterable[str], model: TrackedModel, predicted: FloatArray) -> LimitsSummary:
    """Return the limits of the metrics of weeks that were measured."""
    names = model.names(whole=False)
    measured = [name for name in seen if name in names]
    return limits(measured, predicted[:, :, [names.index(name) for name in measured]])


def _of_models(rows: Sequence[WeekRecord], model: TrackedModel) -> list[str]:
    """Return the finding about weeks that were written under another model."""
    count = sum(row.model not in ("", model.digest) for row in rows)
    if not count:
        return []
    return [f"{count} of {len(rows)} weeks were written under another model; all are held against this one"]


def _shape(row: WeekRecord, model: TrackedModel) -> Shape:
    nodes = round(row.node_days / row.days) if row.node_days else model.nodes
    return Shape(row.days, row.gpus or model.gpus, nodes, row.replications)


def _rows(
    rows: Sequence[WeekRecord], model: TrackedModel, simulated: Mapping[Shape, FloatArray], seen: Sequence[str]
) -> list[WeekSummary]:
    """Return each row compared with what is predicted of it, from the draws as the rows before it weigh them."""
    charts = {name: Cusum() for name in seen}
    causes = causes_of(rows)
    log_likelihood = np.zeros(DRAWS)
    weeks = []
    for row in rows:
        shape = _shape(row, model)
        is_whole = shape.is_whole
        names = model.names(whole=is_whole)
        predicted = _means(simulated[shape], shape.replications) if is_whole else simulated[shape]
        weights = np.full(len(predicted), 1 / len(predicted)) if is_whole else weights_of(log_likelihood)
        metrics = {
            name: _tracked(row, name, predicted[:, :, place], weights, charts.get(name))
            for place, name in enumerate(names)
            if (name in row.values or name in HEADLINES) and not np.isnan(predicted[:, :, place]).any()
        }
        metrics |= _unpredicted(row, causes.difference(names))
        if not is_whole:
            places = [names.index(name) for name in seen if name in names]
            week = np.array([row.values.get(names[place], math.nan) for place in places])
            log_likelihood = log_likelihood + Scores(predicted[:, :, places]).log_likelihood(week)
        weeks.append(
            WeekSummary(
                week=row.week, days=row.days, gpus=shape.gpus, nodes=shape.nodes, replications=row.replications,
                metrics=metrics,
            )
        )  # fmt: skip
    return weeks


def _tracked(row: WeekRecord, name: str, values: FloatArray, weights: FloatArray, chart: Cusum | None) -> Tracked:
    """Return a metric of a row compared with what is predicted of it, and add it to its chart."""
    low, middle, high = _quantiles(values, weights, (0.025, 0.5, 0.975))
    value, z, cusum = row.values.get(name), None, None
    if value is not None:
        ties = np.random.default_rng(zlib.crc32(f"{row.week} {name}".encode()))
        z = z_of(value, values, weights, ties.random())
        cusum = chart.add(z) if chart is not None else None
    mean = float(weights @ values.mean(axis=1))
    return Tracked(measured=value, mean=mean, low=low, median=middle, high=high, z=z, cusum=cusum)


def _unpredicted(row: WeekRecord, causes: Iterable[str]) -> dict[str, Tracked]:
    """Return what no draw predicts: steps of the reference time, and outages of causes that the model does not have."""
    means = {"step_time": 1.0} | (dict.fromkeys(sorted(causes), 0.0))
    # Where the causes that a row has add up to its outages, it has none of any other cause.
    total = sum(value for name, value in row.values.items() if name.startswith(CAUSE))
    has_all_causes = row.values.get("outages") == total
    return {
        name: Tracked(measured=row.values.get(name, 0.0), mean=mean, low=None, median=None, high=None)
        for name, mean in means.items()
        if name in row.values or (name != "step_time" and has_all_causes)
    }


def _means(values: FloatArray, count: int) -> FloatArray:
    """Return 2,000 means of so many simulated runs, wider by what their own mean is not known."""
    generator = np.random.default_rng(0)
    flat = values.reshape(-1, values.shape[2])
    drawn = flat[generator.integers(len(flat), size=(DRAWS * EACH, count))].mean(axis=1)
    centre = flat.mean(axis=0)
    return np.asarray((centre + (drawn - centre) * math.sqrt(1 + count / len(flat)))[:, None])


def _quantiles(values: FloatArray, weights: FloatArray, levels: Sequence[float]) -> list[float]:
    order = np.argsort(values, axis=None)
    mass = np.cumsum(np.repeat(weights / values.shape[1], values.shape[1])[order])
    places = np.searchsorted(mass, levels).clip(max=len(order) - 1)
    return [float(x) for x in values.ravel()[order][places]]


def _alarms(weeks: Sequence[WeekSummary], limit: LimitsSummary, threshold: float) -> list[AlarmSummary]:
    """Return the rows in which a chart leaves its limits, and what moved by then."""
    candidates = (_alarm(weeks, index, name, limit, threshold) for index in range(len(weeks)) for name in HEADLINES)
    return [alarm for alarm in candidates if alarm is not None]


def _alarm(
    weeks: Sequence[WeekSummary], index: int, name: str, limit: LimitsSummary, threshold: float
) -> AlarmSummary | None:
    """Return the alarm of a metric in a row; ``None`` if its charts are within their limits."""
    week, metric = weeks[index], weeks[index].metrics.get(name)
    if metric is None or metric.z is None:
        return None
    cusum, never = metric.cusum or 0.0, math.inf
    lasts = abs(cusum) > limit.lasting.get(name, never)
    if not lasts and abs(metric.z) <= limit.sudden.get(name, never):
        return None
    sign = math.copysign(1, cusum if lasts else metric.z)
    start = _start(weeks, index, name, sign) if lasts else index
    size = _mean_difference(weeks[start : index + 1], name)
    before = _outside(weeks[index - 1].metrics.get(name)) if index else 0
    is_worse = sign == HEADLINES[name]
    is_confirmed = is_worse and (lasts or week.replications > 1 or before == sign)
    is_enough = abs(size) >= {"productive": threshold}.get(name, 0.0)
    return AlarmSummary(
        week=week.week, since=weeks[start].week, metric=name, kind="lasting" if lasts else "sudden", size=size,
        worse=is_worse, confirmed=is_confirmed and is_enough,
        moved=moved(weeks[start : index + 1], name, 1 if is_worse else -1),
    )  # fmt: skip


def _start(weeks: Sequence[WeekSummary], index: int, name: str, sign: float) -> int:
    """Return in which row the sum began that is beyond its limit in a later one."""
    metric = weeks[index].metrics[name]
    while index and sign * ((weeks[index - 1].metrics.get(name) or metric).cusum or 0.0) > 0:
        index -= 1
    return index


def _mean_difference(weeks: Iterable[WeekSummary], name: str) -> float:
    """Return by how much a metric lies above what was predicted, in the mean of the weeks that have both."""
    pairs = [(m.measured, m.mean) for week in weeks if (m := week.metrics.get(name)) is not None]
    return float(np.mean([value - mean for value, mean in pairs if value is not None and mean is not None]))


def _outside(metric: Tracked | None) -> int:
    """Return on which side of its 95 % interval a value lies, 0 for inside."""
    if metric is None or metric.measured is None or metric.low is None or metric.high is None:
        return 0
    return (metric.measured > metric.high) - (metric.measured < metric.low)


def moved(weeks: Sequence[WeekSummary], metric: str, sign: int) -> list[str]:
    """Return what explains an alarm of a metric, what explains most of it first.

    Of productive time, steps, buckets and causes are in the order of the percentage points that they cost; an outage
    more costs what one costs in the prediction. Of outages and of nodes that are down it is causes that explain them.

    Parameters
    ----------
    sign
        1 if it is for the worse: what rose explains it; -1: what fell.
    """
    means: dict[str, tuple[float, float]] = {}
    for name in dict.fromkeys(name for week in weeks for name in week.metrics):
        if metrics := _measured(weeks, name):
            measured, mean = (sum(getattr(m, part) or 0.0 for _, m in metrics) for part in ("measured", "mean"))
            means[name] = measured / len(metrics), mean / len(metrics)
    causes = list(_causes_moved(weeks, means, sign))
    if metric not in ("outages", "unavailability") or not any(name.startswith(CAUSE) for name in means):
        causes += _time_moved(means, sign)
    return [text for _, text in sorted(causes, reverse=True)[:3]]


def _measured(weeks: Sequence[WeekSummary], name: str) -> list[tuple[WeekSummary, Tracked]]:
    """Return the weeks in which a metric was measured, each with it."""
    return [(week, m) for week in weeks if (m := week.metrics.get(name)) is not None and m.measured is not None]


def _causes_moved(
    weeks: Sequence[WeekSummary], means: Mapping[str, tuple[float, float]], sign: int
) -> Iterator[tuple[float, str]]:
    """Yield the causes that moved beyond chance, with the percentage points of productive time that they cost."""
    all_lost = 1 - means.get("productive", (0.0, 0.0))[1]
    of_one = 100 * all_lost / max(means.get("outages", (0.0, 0.0))[1], 0.01)
    for name, (measured, mean) in means.items():
        if not name.startswith(CAUSE):
            continue
        scores = [metric.z or 0.0 for _, metric in _measured(weeks, name)]
        is_unknown = not mean and sign * measured > 0
        if is_unknown or sign * sum(scores) / math.sqrt(len(scores)) > 2:
            beside = "none in the model" if is_unknown else f"{mean:.3g} predicted"
            yield sign * (measured - mean) * of_one, f"{name.removeprefix(CAUSE)} {measured:.3g} a week, {beside}"


def _time_moved(means: Mapping[str, tuple[float, float]], sign: int) -> Iterator[tuple[float, str]]:
    """Yield what moved of the time of the job, with the percentage points that it costs: slow steps, and buckets."""
    slower = means.get("step_time", (1.0, 1.0))[0] - 1
    in_steps = 100 * slower * means.get("productive", (1.0, 1.0))[0]
    if sign * slower > 0.005:
        yield sign * in_steps, f"step time {percent_text(slower, 1, '+')}"
    points = {name: 100 * (means[name][0] - means[name][1]) for name in JOB_BUCKETS if name in means}
    for name, rise in points.items():
        if name != "productive" and sign * rise > 0.1:
            yield sign * rise, f"{bucket_label(name)} {rise:+.2f} percentage points"
    elsewhere = -sum(points.values()) - in_steps
    if "productive" in points and sign * elsewhere > 0.5:
        where = "no bucket" if len(points) == len(JOB_BUCKETS) else "buckets that were not measured"
        yield sign * elsewhere, f"{elsewhere:+.2f} percentage points in {where}"


def since(weeks: Sequence[WeekSummary]) -> list[str]:
    """Return since when single causes, and the time of a step, are otherwise, each by its own weeks."""
    names = [name for name in dict.fromkeys(name for week in weeks for name in week.metrics) if name.startswith(CAUSE)]
    result = [text for name in names if (text := _cause_since(weeks, name, estimate.FALSE_CHANGES / len(names)))]
    steps = [(week.week, m.measured) for week in weeks if (m := week.metrics.get("step_time")) is not None]
    level = estimate.level_change([value or 0.0 for _, value in steps])
    if level is not None and level.chance < estimate.FALSE_DRIFTS and abs(level.after / level.before - 1) > LEAST_DRIFT:
        how = "steadily" if level.steady else f"since {steps[level.at][0]}"
        result.append(f"step time: from {level.before:.3f} to {level.after:.3f} times the reference, {how}")
    return result


def _cause_since(weeks: Sequence[WeekSummary], name: str, chance: float) -> str:
    """Return since when a cause comes at another rate, where that is less likely by chance; nothing if it does not."""
    measured = _measured(weeks, name)
    # Weeks of so many nodes as there are now.
    exposure = [week.days / 7 * week.nodes / weeks[-1].nodes for week, _ in measured]
    change = estimate.rate_change([metric.measured or 0.0 for _, metric in measured], exposure)
    if change is None or change.chance >= chance:
        return ""
    day, cause = measured[change.at][0].week, name.removeprefix(CAUSE)
    return f"{cause}: {change.before:.2g} a week before {day}, {change.after:.2g} since"

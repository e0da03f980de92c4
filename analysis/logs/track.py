"""A cluster followed over weeks: what was measured, beside what the model in force predicts for that week.

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
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import sim
from analysis import runs
from analysis.amounts import percent_text
from analysis.logs.events import incidents
from analysis.logs.goodput import WEEK, Steps, phases_of
from analysis.logs.pipeline import history_of, read
from analysis.logs.tables import utc
from analysis.metrics import bucket_label
from analysis.results.files import csv_text
from analysis.results.fitted import AlarmFound, LimitsFound, TrackDocument, Tracked, WeekFound
from sim import JOB_BUCKETS
from sim.records import LogError
from sim.units import DAY
from sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from analysis.logs.events import History
    from analysis.logs.pipeline import Request
    from analysis.logs.tables import Tables
    from analysis.results.models import Provenance

    Progress = Callable[[int, int | None], None]
    FloatArray = NDArray[np.float64]

HEADLINES = {"productive": -1, "outages": 1, "unavailability": 1, "interruptions": 1}
"""The metrics that may alarm, and the sign of what is worse; all others explain."""

WEEKS = "weeks.csv"

DRAWS, EACH, YEAR = 200, 10, 52
"""Draws of the parameters, weeks of each for a rare shape of row (2,000 together), and for that of most rows."""

SETTLING = 4
"""Weeks that a simulation runs before it counts: repairs and relapses are under way in a cluster that is watched."""

FALSE_ALARMS = 0.05
"""Share of the simulated years with an alarm, at most."""

REFERENCE = 0.5
_CAUSE = "outages: "
_FIELDS = ("week", "days", "job", "gpus", "node_days", "model")
_KNOWN = (*JOB_BUCKETS, "outages", "unavailability", "step_time")


class Row(NamedTuple):
    """What was measured in a week, or in the replications of a result folder.

    Parameters
    ----------
    week
        Its first day, or the name of the folder.
    days
        Its length [d].
    job, gpus
        The job and its GPUs; nothing and 0 for those of the model.
    node_days
        Nodes in service, times days; 0 for the nodes of the model.
    values
        Shares of the job's GPU-time by bucket, ``outages``, ``unavailability`` [-], ``step_time`` over the
        reference [-], and ``outages: CAUSE``.
    model
        Digest of the model in force when the row was written.
    """

    week: str
    days: float
    job: str
    gpus: int
    node_days: float
    values: dict[str, float]
    model: str = ""
    replications: int = 1


class Shape(NamedTuple):
    """What a simulation of a row depends on beside the model."""

    days: float
    gpus: int
    nodes: int
    replications: int


# Measured rows: the history of a folder, logs, results of Ettrick.


def rows_of(path: Path) -> list[Row]:
    """Return the rows of a CSV file of weeks.

    Raises
    ------
    LogError
        If the file cannot be read, or a row says what cannot be; it names file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LogError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or 'no UTF-8'})") from None
    reader = csv.DictReader(lines)
    heads = reader.fieldnames or []
    if "week" not in heads:
        raise LogError(f"{path}:1: has no column 'week' (the header has: {', '.join(heads)})")
    for head in heads:
        if head not in (*_FIELDS, *_KNOWN) and not head.startswith(_CAUSE):
            raise LogError(f"{path}:1: unknown column '{head}'{suggest(head, (*_FIELDS, *_KNOWN))}")
    found: dict[str, Row] = {}
    for raw in reader:
        place = f"{path}:{reader.line_num}"
        if None in raw or None in raw.values():
            raise LogError(f"{place}: has not as many fields as the header ({len(heads)})")
        values = {
            name: _number(text, name, place) for name, text in raw.items() if name not in _FIELDS and text.strip()
        }
        total = sum(values.get(name, 0.0) for name in JOB_BUCKETS)
        if total > 1.001:
            raise LogError(f"{place}: the shares of the job's time add up to {total:.4g}, and 1 is all of it")
        try:
            datetime.fromisoformat(raw["week"])
        except ValueError:
            raise LogError(f"{place}: week: '{raw['week']}' is no date such as 2025-02-03") from None
        if raw["week"] in found:
            raise LogError(f"{place}: the week {raw['week']} is there twice")
        days = _number(raw.get("days") or "7", "days", place)
        if days <= 0:
            raise LogError(f"{place}: days: must be above 0")
        gpus, node_days = (_number(raw.get(name) or "0", name, place) for name in ("gpus", "node_days"))
        found[raw["week"]] = Row(
            raw["week"], days, raw.get("job") or "", int(gpus), node_days, values, raw.get("model") or ""
        )
    return sorted(found.values(), key=lambda row: row.week)


def _number(text: str, name: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise LogError(f"{place}: {name}: '{text}' is no number") from None
    share = name in (*JOB_BUCKETS, "unavailability")
    if not 0 <= value < math.inf or (share and value > 1):
        raise LogError(f"{place}: {name}: must be {'a share from 0 to 1' if share else 'at least 0'}, not {text}")
    return value


def as_csv(rows: Sequence[Row]) -> str:
    """Return rows as the file that `rows_of` reads."""
    names = [name for name in _KNOWN if any(name in row.values for row in rows)]
    names += sorted({name for row in rows for name in row.values if name.startswith(_CAUSE)})
    heads = ((row.week, f"{row.days:g}", row.job, row.gpus or "", f"{row.node_days:.6g}", row.model) for row in rows)
    values = ([f"{row.values[name]:.6g}" if name in row.values else "" for name in names] for row in rows)
    return csv_text([[*_FIELDS, *names], *([*head, *own] for head, own in zip(heads, values, strict=True))])


def is_table(file: str) -> bool:
    """Return whether a file is a CSV of weeks, by its header."""
    try:
        with Path(file).open(encoding="utf-8-sig", errors="replace") as lines:
            return "week" in lines.readline(10_000).strip().split(",")
    except OSError:
        return False


def mean_shares(rows: Sequence[Row]) -> dict[str, float]:
    """Return the mean share of each bucket over the days of the rows that have it."""
    found = {}
    for name in JOB_BUCKETS:
        mine = [(row.days, row.values[name]) for row in rows if name in row.values]
        if mine:
            found[name] = math.fsum(days * share for days, share in mine) / sum(days for days, _ in mine)
    return found


def joined(known: Sequence[Row], more: Sequence[Row]) -> list[Row]:
    """Return rows in order of time; of a week that both have, the new one."""
    return sorted({row.week: row for row in (*known, *more)}.values(), key=lambda row: row.week)


def last_known(folder: Path, rows: Sequence[Row]) -> float | None:
    """Return from when on weeks are new [s since 1970]: after the rows, or the full hour after what was fitted."""
    if rows:
        begin = datetime.fromisoformat(rows[-1].week)
        return (begin if begin.tzinfo else begin.replace(tzinfo=UTC)).timestamp() + rows[-1].days * DAY
    try:
        end = json.loads((folder / "fit.json").read_bytes())["window"][1]
        return math.ceil(datetime.fromisoformat(end).timestamp() / 3600) * 3600.0
    except (OSError, ValueError, LookupError, TypeError):
        return None


def measured_rows(request: Request, model: Model, after: float | None, progress: Progress) -> list[Row]:
    """Return the whole weeks of logs that begin at or after a moment [s since 1970], or with the logs.

    Raises
    ------
    LogError
        If a file cannot be read, or no whole week is left.
    NoModelError
        If nothing says which nodes were watched.
    """
    tables, reading = read(request, progress)
    history = history_of(request, tables, reading)
    sources = {
        history.outages[at].incident: name
        for each, name in zip(incidents(history), ("incident", "cluster incident"), strict=False)
        if name in model.causes
        for group in each.groups
        for at in group
    }
    start = max(history.start, history.start if after is None else after)
    weeks = int((history.end - start) / WEEK + 0.01)  # the last line of a log is a little before its end
    if weeks < 1:
        raise LogError(
            f"the logs hold no whole week from {utc(start)} on; they end at {utc(history.end)} (--since says from when)"
        )
    found = []
    for at in range(weeks):
        low = start + at * WEEK
        node_days, values = _of_nodes(history, low, low + WEEK, model, sources)
        values |= _of_steps(tables, low, low + WEEK, model)
        day = datetime.fromtimestamp(low, UTC).strftime("%Y-%m-%dT%H:%M").removesuffix("T00:00")
        found.append(Row(day, 7.0, model.job, 0, node_days, values, model.digest))
    return found


def _of_nodes(
    history: History, low: float, high: float, model: Model, sources: Mapping[int, str]
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
    values = {"outages": float(counts.total()), **{_CAUSE + name: float(counts[name]) for name in names}}
    if history.has_ends and service:
        values["unavailability"] = down / service
    return service / DAY, values


def _of_steps(tables: Tables, low: float, high: float, model: Model) -> dict[str, float]:
    """Return the shares of the wall time that a training log tells: steps that were kept, by the reference step time.

    A goodput in time would not see slow steps: these are in no bucket, and in ``step_time``. A week counts from the
    first line of the log on, if that has most of it: job records name jobs that began before it.
    """
    phases = phases_of(tables, model.job)
    low = max(low, min((p.t0 for p in phases), default=low))
    if high - low < WEEK / 2 or not model.step_time:
        return {}
    steps = Steps.of(p for p in phases if p.phase == "step").within(low, high)
    if not len(steps.ran):
        return {}
    kept, ran = float(steps.kept.sum()), float(steps.ran.sum())
    share = model.step_time / (high - low)
    return {
        "productive": min(kept * share, 1.0),
        "lost_work": min((ran - kept) * share, 1.0),
        "step_time": float(np.median(steps.times)) / model.step_time,
    }


def result_row(folder: Path, model: Model) -> Row:
    """Return the means of a folder that ``ettrick run --out`` filled.

    Raises
    ------
    LogError
        If it holds no such results, or not those of the job that is tracked.
    """
    from analysis.results.models import RunDocument

    try:
        found = RunDocument.model_validate_json((folder / "run.json").read_text(encoding="utf-8"))
    except OSError:
        raise LogError(f"{folder}: has no run.json, as ettrick run --out writes it") from None
    except ValueError as error:
        raise LogError(f"{folder}/run.json: is no result of ettrick run ({str(error).splitlines()[0]})") from None
    if model.job not in found.per_job:
        raise LogError(f"{folder}: has no job '{model.job}'{suggest(model.job, found.per_job)}")
    job = found.per_job[model.job]
    values = dict(job.time_shares)
    up, hits = found.metrics["node_availability"].mean, job.metrics["interruptions"].mean
    values |= {} if up is None else {"unavailability": 1 - up}
    values |= {} if hits is None else {"interruptions": hits}
    return Row(folder.name, found.horizon_s / DAY, model.job, job.gpus, 0.0, values, model.digest, found.replications)


# The model in force, and the weeks that it predicts.


class Model:
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
            raise LogError(f"{folder}: holds no model: neither {names[0]} (ettrick fit) nor {names[1]} (ettrick run)")
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
        """Of a healthy step [s]; 0 where the scenario has none."""

    def names(self, *, whole: bool) -> list[str]:
        """Return the metrics that `simulate` returns; those of whole runs where rows are means of replications."""
        more = ["interruptions"] if whole else ["outages", *(_CAUSE + name for name in self.causes)]
        return [*JOB_BUCKETS, "unavailability", *more]

    def simulate(self, shape: Shape, weeks: int, progress: Progress) -> FloatArray:
        """Return simulated weeks, shape (draws, weeks, metrics); each draw is one run in which they follow each other.

        Raises
        ------
        sim.ScenarioError
            If the job does not fit into the nodes.
        """
        whole = shape.replications > 1
        width = shape.days * DAY
        changes = [f"cluster.nodes={shape.nodes}"] if shape.nodes != self.nodes else []
        if shape.gpus != self.gpus:
            changes.append(f"jobs.{self.at}.gpus={shape.gpus}")
        if not whole:
            changes += [f"warmup={SETTLING * WEEK!r} s", f"horizon={weeks * width!r} s", f"windows={width!r} s"]
        base = sim.prepare(sim.load(self.path, changes))
        found = np.full((DRAWS, weeks, len(self.names(whole=whole))), math.nan)
        for draw in range(DRAWS):
            prepared = base
            if self.draws and not whole:
                prepared = sim.prepare(sim.load(self.path, [*changes, *self.draws[draw % len(self.draws)]]))
            elif draw and not whole:
                prepared = runs.drawn(base, draw)
            result = sim.run(prepared, _APART + draw, keeps_log=not whole, most_events=math.inf)
            found[draw] = self._whole(result) if whole else self._weekly(result, shape, weeks)
            progress(draw + 1, DRAWS)
        return found

    def _whole(self, result: sim.Result) -> FloatArray:
        job = result.jobs[self.at]
        down = result.down_node_seconds / result.node_seconds
        return np.array([[*(job.buckets / job.requested), down, sum(job.interruptions.values())]])

    def _weekly(self, result: sim.Result, shape: Shape, weeks: int) -> FloatArray:
        totals = result.jobs[self.at].totals[:weeks, : len(JOB_BUCKETS)].sum(axis=2)
        sums = totals.sum(axis=1, keepdims=True)
        shares = np.divide(totals, sums, out=np.full_like(totals, math.nan), where=sums > 0)
        edges = np.arange(weeks + 1) * shape.days * DAY
        start, end = (np.array([getattr(outage, name) for outage in result.outages]) for name in ("start", "end"))
        cause = np.array([outage.cause for outage in result.outages])
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
    """How well each draw of the parameters predicted a week.

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
        kept = np.maximum(1 - by_chance / np.maximum(mean.var(axis=0), 1e-12), 0)
        self._mean = mean.mean(axis=0) + kept * (mean - mean.mean(axis=0))

    def _score(self, at: int, values: FloatArray) -> FloatArray:
        column = self._sorted[:, at]
        places = np.searchsorted(column, values) + np.searchsorted(column, values, side="right")
        from scipy.special import ndtri

        found: FloatArray = ndtri((places / 2 + 0.5) / (len(column) + 1))
        return found

    def log_likelihood(self, week: FloatArray) -> FloatArray:
        """Return it for each draw up to a constant, shape (draws,); NaN in a week was not measured."""
        seen = np.flatnonzero(~np.isnan(week))
        if not len(seen):
            return np.zeros(len(self._mean))
        apart = np.array([self._score(at, week[at : at + 1])[0] for at in map(int, seen)]) - self._mean[:, seen]
        found: FloatArray = -0.5 * np.einsum(
            "di,ij,dj->d", apart, np.linalg.inv(self._covariance[np.ix_(seen, seen)]), apart
        )
        return found


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
    each = weights / predicted.shape[1]
    below = float(each @ (predicted < value).sum(axis=1))
    equal = float(each @ (predicted == value).sum(axis=1))
    own = float((each**2).sum() * predicted.shape[1])
    return NormalDist().inv_cdf(min(max((below + at_random * (equal + own)) / (1 + own), 1e-12), 1 - 1e-12))


def weights_of(log_likelihood: FloatArray) -> FloatArray:
    """Return weights of sum 1."""
    shares = np.exp(log_likelihood - log_likelihood.max())
    found: FloatArray = shares / shares.sum()
    return found


class Cusum:
    """Two cumulative sums of z, one for each direction."""

    def __init__(self) -> None:
        self.up = self.down = 0.0

    def add(self, z: float) -> float:
        """Take one more value; return the larger sum, with the sign of its direction."""
        self.up, self.down = max(0.0, self.up + z - REFERENCE), max(0.0, self.down - z - REFERENCE)
        return self.up if self.up >= self.down else -self.down


def limits(names: Sequence[str], predicted: FloatArray) -> LimitsFound:
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
        known = np.zeros(len(predicted))
        known[number] = -np.inf  # the true parameters are not among those that predict
        worst[number] = extremes(history, predicted, scores, known, generator)
    for level in np.linspace(1 - FALSE_ALARMS, 1, 101):
        each = np.quantile(worst, level, axis=0)
        share = float(np.mean((worst > each).any(axis=(1, 2))))
        if share <= FALSE_ALARMS:
            break
    return LimitsFound(
        sudden=dict(zip(names, map(float, each[:, 0]), strict=True)),
        lasting=dict(zip(names, map(float, each[:, 1]), strict=True)),
        false_alarms=share, histories=len(predicted),
    )  # fmt: skip


def extremes(
    history: FloatArray, predicted: FloatArray, scores: Scores, known: FloatArray, generator: np.random.Generator
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
        weights = weights_of(known)
        for at, chart in enumerate(charts):
            z = z_of(week[at], predicted[:, :, at], weights, generator.random())
            worst[at] = np.maximum(worst[at], (abs(z), abs(chart.add(z))))
        known = known + scores.log_likelihood(week)
    return worst


# The document.


def track(
    rows: Sequence[Row],
    model: Model,
    provenance: Provenance,
    threshold: float = 0.02,
    progress: Progress = lambda _done, _total: None,
) -> TrackDocument:
    """Hold rows against the model in force.

    Parameters
    ----------
    threshold
        Loss of productive time below which nothing is a regression, as a share.

    Raises
    ------
    LogError
        If rows are of another job, or have no metric that may alarm.
    sim.ScenarioError
        If the job of a row does not fit into its nodes.
    """
    strange = next((row.job for row in rows if row.job not in ("", model.job)), None)
    if strange is not None:
        raise LogError(f"the rows are of job '{strange}', the model in force has '{model.job}' (--job says which)")
    seen = [name for name in HEADLINES if any(name in row.values for row in rows)]
    if not seen:
        raise LogError(f"no row has a metric that is tracked: {', '.join(HEADLINES)}")
    shapes = Counter(_shape(row, model) for row in rows)
    first = shapes.most_common(1)[0][0]
    simulated: dict[Shape, FloatArray] = {}
    for number, shape in enumerate(shapes):
        weeks = 1 if shape.replications > 1 else YEAR if shape == first else EACH
        report = lambda done, _total, base=number * DRAWS: progress(base + done, len(shapes) * DRAWS)  # noqa: E731
        simulated[shape] = model.simulate(shape, weeks, report)
    whole = first.replications > 1
    names = model.names(whole=whole)
    places = [names.index(name) for name in seen if name in names]
    if whole:
        # A row or two, each of many replications, and no year of them: each has its share of the false alarms.
        sudden = NormalDist().inv_cdf(1 - FALSE_ALARMS / 2 / len(seen) / len(rows))
        limit = LimitsFound(sudden=dict.fromkeys(seen, sudden), lasting={}, false_alarms=FALSE_ALARMS, histories=0)
    else:
        limit = limits([names[place] for place in places], simulated[first][:, :, places])
    found = _rows(rows, model, simulated, seen)
    alarms = _alarms(found, limit, threshold)
    findings = []
    others = sorted({row.model for row in rows if row.model not in ("", model.digest)})
    if others:
        count = sum(row.model in others for row in rows)
        findings.append(f"{count} of {len(rows)} rows were written under another model; all are held against this one")
    findings += [f"{name}: not measured in any row" for name in HEADLINES if name not in seen and name in names]
    return TrackDocument(
        name=model.name, job=model.job, model=model.digest, draws=DRAWS, simulated=simulated[first][:, :, 0].size,
        threshold=threshold,
        limits=limit, weeks=found, alarms=alarms, regression=any(alarm.confirmed for alarm in alarms),
        findings=findings, provenance=provenance,
    )  # fmt: skip


def _shape(row: Row, model: Model) -> Shape:
    nodes = round(row.node_days / row.days) if row.node_days else model.nodes
    return Shape(row.days, row.gpus or model.gpus, nodes, row.replications)


def _rows(
    rows: Sequence[Row], model: Model, simulated: Mapping[Shape, FloatArray], seen: Sequence[str]
) -> list[WeekFound]:
    """Return each row beside what is predicted of it, from the draws as the rows before it weigh them."""
    charts = {name: Cusum() for name in seen}
    known = np.zeros(DRAWS)
    found = []
    for number, row in enumerate(rows):
        shape = _shape(row, model)
        whole = shape.replications > 1
        names = model.names(whole=whole)
        predicted = simulated[shape]
        if whole:
            predicted = _means(predicted, shape.replications)
        weights = weights_of(known) if not whole else np.full(len(predicted), 1 / len(predicted))
        metrics = {}
        for place, name in enumerate(names):
            values = predicted[:, :, place]
            if np.isnan(values).any() or (name not in row.values and name not in HEADLINES):
                continue
            value = row.values.get(name)
            low, middle, high = _quantiles(values, weights, (0.025, 0.5, 0.975))
            z = cusum = None
            if value is not None:
                z = z_of(value, values, weights, np.random.default_rng((number, place)).random())
                cusum = charts[name].add(z) if name in charts else None
            metrics[name] = Tracked(
                measured=value, mean=float(weights @ values.mean(axis=1)), low=low, median=middle, high=high, z=z,
                cusum=cusum,
            )  # fmt: skip
        if "step_time" in row.values:
            metrics["step_time"] = Tracked(measured=row.values["step_time"], mean=1, low=None, median=None, high=None)
        if not whole:
            places = [names.index(name) for name in seen if name in names]
            week = np.array([row.values.get(names[place], math.nan) for place in places])
            known = known + Scores(predicted[:, :, places]).log_likelihood(week)
        found.append(
            WeekFound(
                week=row.week, days=row.days, gpus=shape.gpus, nodes=shape.nodes, replications=row.replications,
                metrics=metrics,
            )
        )  # fmt: skip
    return found


def _means(values: FloatArray, count: int) -> FloatArray:
    """Return 2,000 means of so many simulated runs, wider by what their own mean is not known."""
    generator = np.random.default_rng(0)
    flat = values.reshape(-1, values.shape[2])
    drawn = flat[generator.integers(len(flat), size=(DRAWS * EACH, count))].mean(axis=1)
    centre = flat.mean(axis=0)
    found: FloatArray = (centre + (drawn - centre) * math.sqrt(1 + count / len(flat)))[:, None]
    return found


def _quantiles(values: FloatArray, weights: FloatArray, levels: Sequence[float]) -> list[float]:
    order = np.argsort(values, axis=None)
    mass = np.cumsum(np.repeat(weights / values.shape[1], values.shape[1])[order])
    places = np.searchsorted(mass, levels).clip(max=len(order) - 1)
    return [float(x) for x in values.ravel()[order][places]]


def _alarms(weeks: Sequence[WeekFound], limit: LimitsFound, threshold: float) -> list[AlarmFound]:
    """Return the rows in which a chart leaves its limits, and what moved by then."""
    found: list[AlarmFound] = []
    for at, week in enumerate(weeks):
        for name, worse in HEADLINES.items():
            metric = week.metrics.get(name)
            if metric is None or metric.z is None:
                continue
            lasts = abs(metric.cusum or 0.0) > limit.lasting.get(name, math.inf)
            if not lasts and abs(metric.z) <= limit.sudden.get(name, math.inf):
                continue
            sign = math.copysign(1, (metric.cusum if lasts else metric.z) or 0.0)
            start = at
            while lasts and start and sign * ((weeks[start - 1].metrics.get(name) or metric).cusum or 0.0) > 0:
                start -= 1
            pairs = [(m.measured, m.mean) for w in weeks[start : at + 1] if (m := w.metrics.get(name)) is not None]
            size = float(np.mean([value - mean for value, mean in pairs if value is not None and mean is not None]))
            outside = [_outside(each.metrics.get(name)) for each in (weeks[at - 1 : at] if at else [])]
            stays = lasts or week.replications > 1 or outside == [sign]
            enough = name != "productive" or abs(size) >= threshold
            found.append(
                AlarmFound(
                    week=week.week, since=weeks[start].week, metric=name, kind="lasting" if lasts else "sudden",
                    size=size, worse=sign == worse, confirmed=sign == worse and stays and enough,
                    moved=moved(weeks[start : at + 1], 1 if sign == worse else -1),
                )
            )  # fmt: skip
    return found


def _outside(metric: Tracked | None) -> int:
    """Return on which side of its 95 % interval a value lies, 0 for inside."""
    if metric is None or metric.measured is None or metric.low is None or metric.high is None:
        return 0
    return (metric.measured > metric.high) - (metric.measured < metric.low)


def moved(weeks: Sequence[WeekFound], sign: int) -> list[str]:
    """Return what explains an alarm: buckets, causes and the time of a step, those that moved most first.

    Parameters
    ----------
    sign
        1 if it is for the worse: what rose explains it; -1: what fell.
    """
    ranked, lost = [], {}
    for name in dict.fromkeys(name for week in weeks for name in week.metrics):
        mine = [m for week in weeks if (m := week.metrics.get(name)) is not None and m.measured is not None]
        if not mine or name in ("outages", "unavailability", "interruptions"):
            continue
        measured, mean = (sum(getattr(m, part) or 0.0 for m in mine) / len(mine) for part in ("measured", "mean"))
        rise = sign * (measured - mean)
        if name == "step_time" and rise > 0.005:
            ranked.append((100 * rise, f"step time {percent_text(measured - 1, 1, '+')}"))
        elif name.startswith(_CAUSE) and sign * sum(m.z or 0.0 for m in mine) / math.sqrt(len(mine)) > 2:
            ranked.append((100 * rise / max(mean, 1.0), f"{name.removeprefix(_CAUSE)} {measured:.3g} a row, {mean:.3g} "
                           "predicted"))  # fmt: skip
        elif name in JOB_BUCKETS:
            lost[name] = measured - mean
            if name != "productive" and rise > 0.001:
                ranked.append((100 * rise, f"{bucket_label(name)} {100 * (measured - mean):+.2f} percentage points"))
    elsewhere = -sum(lost.values())
    if "productive" in lost and sign * elsewhere > 0.005:
        ranked.append(
            (100 * sign * elsewhere, f"{100 * elsewhere:+.2f} percentage points in buckets that were not measured")
        )
    return [text for _, text in sorted(ranked, reverse=True)[:3]]

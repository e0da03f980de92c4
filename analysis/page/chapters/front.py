"""What cannot be had together: the candidates that no other beats in two aims."""

from __future__ import annotations

import bisect
import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.amounts import PERCENT, capital, label_text, name_of, number_of
from analysis.metrics import lower_is_better
from analysis.page.cells import axes_of, best_of, place_of, running
from analysis.page.charts.data import Curves, Front, FrontPoint, Scale, Series
from analysis.page.model import Column, Grid, Picture, Section
from analysis.page.report_data import chosen_cells
from analysis.page.sourced import shown_of_cells
from analysis.statistics.estimates import contributions
from analysis.statistics.intervals import binomial_interval
from sim import Ratio
from sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.amounts import Shown
    from analysis.page.cells import Axis
    from analysis.page.report_data import Focus, ReportData

# ----------------------------------------
# The front of two metrics of a study that nobody asked for, where the best of one is not the best of the other.

Content = dict[str, Any]


def front_data(content: Content, rows: Sequence[Mapping[str, str]]) -> Content | None:
    """Return the front of the headline metric and the first other one that does not go with it, as a question has it.

    ``None`` where all metrics of the study are best at one combination, where fewer than two combinations are on the
    front for sure, so that chance alone may pull the metrics apart, and without the replications.

    Parameters
    ----------
    content
        The document of a sweep.
    rows
        Rows of ``results.csv``.
    """
    import numpy as np

    from analysis.study.questions.best import front_of

    metrics = _apart(content)
    if metrics is None or not rows or len(axes_of(content)) == 0:
        return None
    found = _replications(content, rows, metrics)
    count = min((len(ratios) for each in found.values() for ratios in each), default=0)
    # Variance of a single replication is not known, so nobody would be on the front for sure.
    known = {number: [contributions(ratios[:count]) for ratios in each] for number, each in found.items()}
    kept = [number for number, each in known.items() if all(values is not None for values in each)]
    if count < 2 or len(kept) < 2:
        return None
    signs = [1.0 if lower_is_better(metric) else -1.0 for metric in metrics]
    aims = [sign * np.array([known[number][place] for number in kept]) for place, sign in enumerate(signs)]
    front = front_of(aims)
    if sum(front.sure) < 2:
        return None
    at = {cell["cell"]: cell["values"] for cell in running(content)}
    members = [{"at": at[kept[row]], "certain": sure} for row, sure in zip(front.members, front.sure, strict=True)]
    maybe = [{"at": at[kept[row]]} for row in front.maybe]
    return {"metrics": list(metrics), "axes": [], "replications": count, "front": members, "may_be_too": maybe}


def _apart(content: Content) -> tuple[str, str] | None:
    """Return the headline metric and the first other one whose best combination is another."""
    headline, *others = content["metrics"]
    best = best_of(running(content), headline)
    for metric in others:
        other = best_of(running(content), metric)
        if best and other and other[0] is not best[0]:
            return headline, metric
    return None


def _replications(
    content: Content, rows: Sequence[Mapping[str, str]], metrics: Sequence[str]
) -> dict[int, list[list[Ratio]]]:
    """Return the replications of each metric by cell, at the central values of what is unknown.

    What was censored has no amount; its cell is left out.
    """
    cells = {cell["cell"] for cell in running(content)}
    found: dict[int, list[list[Ratio]]] = {}
    censored = set()
    for row in rows:
        number = int(row["cell"])
        if row["draw"] != "0" or number not in cells:
            continue
        each = found.setdefault(number, [[] for _ in metrics])
        for ratios, metric in zip(each, metrics, strict=True):
            amount, base = row.get(f"{metric}.amount"), row.get(f"{metric}.base")
            if amount and base:
                ratios.append(Ratio(float(amount), float(base)))
            else:
                censored.add(number)
    return {number: each for number, each in found.items() if number not in censored}


_MOST_ROWS = 60

_STANDING = {
    "front": "on the front",
    "perhaps": "perhaps on the front",
    "behind": "another is better in everything",
}


class _Aim(NamedTuple):
    """An aim: a metric, or an axis of numbers.

    Parameters
    ----------
    name
        Of the metric or the axis.
    is_lowest
        Whether low is good.
    metric, axis
        What it is of these.
    """

    name: str
    is_lowest: bool
    metric: Shown | None
    axis: Axis | None

    @property
    def title(self) -> str:
        """What it is called in a sentence."""
        if self.metric is not None:
            return self.metric.name
        return self.name if self.axis is None else self.axis.title

    @property
    def scale(self) -> Scale:
        """Its axis of the picture."""
        if self.axis is not None:
            return self.axis.scale
        return Scale("" if self.metric is None else self.metric.head)

    def value(self, cell: Content) -> float | None:
        """Return where a cell is."""
        if self.metric is not None:
            return self.metric.of(cell["metrics"].get(self.name, {}).get("mean"))
        number = cell["numbers"][self.name]
        return None if number is None or self.axis is None else number / self.axis.size

    def ends(self, cell: Content) -> tuple[float, float] | None:
        """Return its interval."""
        return None if self.metric is None else self.metric.ends(cell["metrics"].get(self.name, {}).get("mean_ci95"))

    def told(self, cell: Content) -> str:
        """Return the same as text."""
        return (
            label_text(cell["values"][self.name])
            if self.metric is None
            else self.metric.worded(cell["metrics"][self.name])
        )


def section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    content = report_data.sweep
    if content is None:
        return None
    asked = [
        (number, answer)
        for number, answer in enumerate(content["answers"], start=1)
        if answer["use"] == "pareto" and answer["data"].get("front")
    ]
    if not asked and (data := front_data(content, report_data.table)) is not None:
        asked = [(0, {"data": data})]
    pictures = [picture for number, answer in asked for picture in _pictures(answer, content, number)]
    if not pictures:
        return None
    notes = (
        "On the front: no other combination is better in everything, by 95 % intervals of paired differences that hold "
        "together. Perhaps: these intervals do not tell.",
    )
    return Section("front", pictures[0].chart.title, (), tuple(pictures), notes)


def _pictures(answer: Content, content: Content, number: int) -> list[Picture]:
    """Return a picture for each two aims of a question."""
    aims = _aims(answer, content)
    pairs = list(itertools.combinations(aims, 2))
    name = f"front-{number}" if number else "front"
    keys = [name if len(pairs) == 1 else f"{name}-{index}" for index in range(1, len(pairs) + 1)]
    found = [_picture(answer["data"], content, pair, key, len(aims)) for pair, key in zip(pairs, keys, strict=True)]
    return [picture for picture in found if picture is not None]


def _aims(answer: Content, content: Content) -> list[_Aim]:
    """Return the aims of a question, axes first: they are what is chosen."""
    data, wanted = answer["data"], answer.get("direction") or {}
    axes = {axis.name: axis for axis in axes_of(content)}
    found = [
        _Aim(name, wanted.get(name, "lowest") == "lowest", None, axes[name]) for name in data["axes"] if name in axes
    ]
    for name in data["metrics"]:
        is_lowest = wanted.get(name, "lowest" if lower_is_better(name) else "highest") == "lowest"
        found.append(_Aim(name, is_lowest, shown_of_cells(running(content), name, content["currency"]), None))
    return found


def _picture(data: Content, content: Content, pair: tuple[_Aim, _Aim], key: str, count: int) -> Picture | None:
    """Return all candidates by two aims."""
    axes = axes_of(content)
    points, rows = [], []
    for cell in running(content):
        x, y = (aim.value(cell) for aim in pair)
        if x is None or y is None:
            continue
        ranking = _standing(cell, data)
        name = place_of(cell, axes)
        points.append(FrontPoint(name, x, y, pair[0].ends(cell), pair[1].ends(cell), ranking))
        rows.append((ranking, (name, *(aim.told(cell) for aim in pair), _STANDING[ranking])))
    if not points:
        return None
    title = _title(data, content, pair, count)
    rows.sort(key=lambda row: list(_STANDING).index(row[0]))
    columns = (
        Column("Combination", is_number=False), Column(capital(pair[0].title)), Column(capital(pair[1].title)),
        Column("Standing", is_number=False),
    )  # fmt: skip
    more = len(rows) - _MOST_ROWS
    note = f"{number_of(more, 'more combination')}: see points.csv." if more > 0 else ""
    table = Grid(title, columns, [texts for _, texts in rows[:_MOST_ROWS]], note=note)
    on_front = [texts for ranking, texts in rows if ranking != "behind"]
    told = "; ".join(f"{texts[0]}: {texts[1]} and {texts[2]}" for texts in on_front[:5])
    alt = f"{capital(pair[0].title)} against {pair[1].title} of {number_of(len(points), 'combination')}. {told}."
    caption = _caption(data, content, len(points), count)
    chart = Front(title, pair[0].scale, pair[1].scale, tuple(points), pair[0].is_lowest, pair[1].is_lowest)
    return Picture(key, chart, alt, caption, table)


def _standing(cell: Content, data: Content) -> str:
    """Return whether a candidate is on the front."""
    for member in data["front"]:
        if _is_at(cell, member):
            return "front" if member["certain"] else "perhaps"
    return "perhaps" if any(_is_at(cell, member) for member in data["may_be_too"]) else "behind"


def _is_at(cell: Content, member: Content) -> bool:
    return all(cell["values"][name] == label for name, label in member["at"].items())


def _title(data: Content, content: Content, pair: Sequence[_Aim], count: int) -> str:
    """Return what the front says: what is best, or how many there are to choose from."""
    front, total = data["front"], len(running(content))
    aims = f"{pair[0].title} and {pair[1].title}"
    if count > 2:
        aims = " and ".join(
            [*(content["axes"][name]["title"] for name in data["axes"]), *map(name_of, data["metrics"])]
        )
    sure = sum(member["certain"] for member in front)
    if len(front) == 1:
        axes = axes_of(content)
        where = ", ".join(axis.phrase(front[0]["at"][axis.name]) for axis in axes)
        return capital(f"{where} is best in {aims} at once{'' if sure else ', perhaps by chance'}")
    told = f"{'all' if sure == len(front) else sure or 'none'} of them with 95 % confidence"
    return f"{len(front)} of {number_of(total, 'combination')} cannot be beaten in {aims} at once, {told}"


def _caption(data: Content, content: Content, points: int, count: int) -> str:
    """Return what to know to read it."""
    texts = []
    if data.get("replications"):
        texts.append(f"Compared over {number_of(data['replications'], 'replication')}, the same failures in all.")
    if count > 2:
        texts.append("The standing is that in all aims together, of which this picture shows two.")
    left_out = len(content["cells"]) - points
    if left_out:
        texts.append(
            f"{number_of(left_out, 'combination')} without a mean of both {'is' if left_out == 1 else 'are'} left out."
        )
    return " ".join(texts)


# ----------------------------------------
# When the runs of a study were finished, and the share of them that was by each date.

METRIC = "time_to_work"


class Sample(NamedTuple):
    """When runs were finished.

    Parameters
    ----------
    name
        What the curve is called.
    times
        Time from arrival to the end of the work, of those that were finished [s], ascending.
    runs
        How many there were, unfinished ones too.
    """

    name: str
    times: tuple[float, ...]
    runs: int

    def chance(self, time: float) -> float:
        """Return the share of runs that were finished by a time [s]."""
        return bisect.bisect_right(self.times, time) / self.runs

    def by(self, share: float) -> float | None:
        """Return the first time by which a share of the runs was finished [s]; ``None`` if it was after the horizon."""
        needed = max(math.ceil(share * self.runs - 1e-9), 1)
        return self.times[needed - 1] if needed <= len(self.times) else None


def chance_curve(sample: Sample, begin: float, end: float, hue: int) -> Series:
    """Return the empirical distribution of the end of the work: at each time the share of runs finished by it.

    Runs that were unfinished at the horizon count as not finished, so that the curve never reaches 100 % with them.

    Parameters
    ----------
    sample
        When runs were finished.
    begin, end
        Where the curve begins and ends [s].
    hue
        Number of its colour.
    """
    times = list(dict.fromkeys(sample.times))
    places = [
        *([begin] if not times or times[0] > begin else []),
        *times,
        *([end] if not times or times[-1] < end else []),
    ]
    heights = tuple(100 * sample.chance(place) for place in places)
    return Series(sample.name, tuple(place / DAY for place in places), heights, look="step", hue=hue)


def samples_along(
    rows: Sequence[Mapping[str, str]], axis: Axis | None, fixed: Mapping[str, str], *, drawn: bool
) -> list[Sample]:
    """Return when runs of a study were finished, one sample for each value of an axis.

    Parameters
    ----------
    rows
        Rows of ``results.csv``: an empty time is one of a run that was not finished.
    axis
        Along which; ``None`` for one sample of all.
    fixed
        Values of the other axes, by column.
    drawn
        Whether it is the draws of unknown inputs, and not their central values.
    """
    found: dict[str, list[str]] = {}
    for row in rows:
        if (row["draw"] != "0") == drawn and all(row[name] == label for name, label in fixed.items()):
            label = "all runs" if axis is None else row[column_of(row, axis.name)]
            found.setdefault(label, []).append(row[METRIC])
    return [
        Sample(
            label if axis is None else axis.told(label),
            tuple(sorted(float(time) for time in times if time)),
            len(times),
        )
        for label, times in found.items()
    ]


def column_of(row: Mapping[str, str], axis: str) -> str:
    """Return the column with the labels of an axis."""
    return f"vary.{axis}" if f"vary.{axis}" in row else axis


# ----------------------------------------
# When the work is finished: the chance of it by each date.

_MOST_CURVES = 8


def finish_section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = report_data.focus
    if focus is None or len(focus.prepared.jobs) != 1 or not math.isfinite(focus.prepared.jobs[0].target):
        return None
    samples, central, axis = _samples(report_data, focus)
    has_draws = bool(central)
    if not any(sample.times for sample in samples):
        return None
    deadline = focus.prepared.jobs[0].deadline
    title = _title_of_finish(samples, deadline, focus.scenario.horizon, has_draws=has_draws)
    begin = min(sample.times[0] for sample in samples if sample.times)
    end = max(focus.scenario.horizon, max(sample.times[-1] for sample in samples if sample.times))
    series = tuple(chance_curve(sample, begin, _end(end, deadline, samples), hue) for hue, sample in enumerate(samples))
    edges = () if deadline is None else ((deadline / DAY, f"deadline: {_days(deadline)}"),)
    chart = Curves(title, Scale("Days since the job arrived"), Scale("Chance to be finished [%]"), series, edges=edges)
    picture = Picture(
        "finish",
        chart,
        _alt(samples, deadline),
        _caption_of_finish(samples, axis),
        _table(title, samples, central, axis, deadline, focus.scenario.horizon),
    )
    return Section("finish", title, (), (picture,), tuple(_notes(report_data, samples, axis, has_draws=has_draws)))


def _samples(report_data: ReportData, focus: Focus) -> tuple[list[Sample], list[Sample], Axis | None]:
    """Return the samples, those at central values if the first are of drawn inputs, and along which axis they are."""
    rows = report_data.table
    content = report_data.sweep
    if content is None or not rows or METRIC not in rows[0]:
        others = [] if report_data.against is None else [report_data.against]
        return [_simulated(one) for one in (focus, *others) if _is_alike(one)], [], None
    chosen = chosen_cells(content)
    best = content["cells"][chosen[0] if chosen is not None else 0]["values"]
    axis = _axis(content, rows, best)
    others_at = [other for other in axes_of(content) if axis is None or other.name != axis.name]
    fixed = {column_of(rows[0], other.name): best[other.name] for other in others_at}
    drawn = samples_along(rows, axis, fixed, drawn=True)
    central = samples_along(rows, axis, fixed, drawn=False)
    return (_few(drawn), central, axis) if drawn else (_few(central), [], axis)


def _is_alike(focus: Focus) -> bool:
    """Return whether a scenario is of one job with a fixed amount of work."""
    jobs = focus.prepared.jobs
    return len(jobs) == 1 and math.isfinite(jobs[0].target)


def _simulated(focus: Focus) -> Sample:
    """Return when the replications that were played again were finished."""
    jobs = [result.jobs[0] for result in focus.ensemble.results]
    times = sorted(job.end - job.arrival for job in jobs if job.finished)
    return Sample(focus.name, tuple(times), len(jobs))


def _axis(content: dict[str, Any], rows: Sequence[Mapping[str, str]], best: Mapping[str, str]) -> Axis | None:
    """Return the axis that moves the end of the work most: by which the shares of finished runs lie furthest apart."""
    found: list[tuple[float, Axis]] = []
    axes = axes_of(content)
    for axis in axes:
        fixed = {column_of(rows[0], other.name): best[other.name] for other in axes if other.name != axis.name}
        samples = samples_along(rows, axis, fixed, drawn=False)
        times = sorted(time for sample in samples for time in sample.times)
        if len(samples) > 1 and times:
            found.append((max(_apart_of_finish(samples, time) for time in times), axis))
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _apart_of_finish(samples: Sequence[Sample], time: float) -> float:
    """Return by how much the chances to be finished by a time differ."""
    chances = [sample.chance(time) for sample in samples]
    return max(chances) - min(chances)


def _few(samples: list[Sample]) -> list[Sample]:
    """Return as many samples as a picture has room for, evenly chosen."""
    count = len(samples)
    if count <= _MOST_CURVES:
        return samples
    return [samples[round(index * (count - 1) / (_MOST_CURVES - 1))] for index in range(_MOST_CURVES)]


def _end(horizon: float, deadline: float | None, samples: Sequence[Sample]) -> float:
    """Return where the curves end: where all is said, or at the horizon if runs are unfinished there [s]."""
    if any(len(sample.times) < sample.runs for sample in samples):
        return horizon
    last = max(sample.times[-1] for sample in samples)
    return max(last, deadline or 0.0)


def _by(time: float | None, horizon: float) -> str:
    """Return by when something was, as words; what was not at the horizon is after it."""
    return f"after day {horizon / DAY:.4g}" if time is None else f"by day {time / DAY:.4g}"


def _days(time: float) -> str:
    return f"{time / DAY:.3g} days"


def _title_of_finish(samples: Sequence[Sample], deadline: float | None, horizon: float, *, has_draws: bool) -> str:
    """Return what the curves say: the chance to be in time, or when half of the runs are finished."""
    ends = list(dict.fromkeys((samples[0], samples[-1])))
    with_what = [f" with {sample.name}" if len(ends) > 1 else "" for sample in ends]
    if deadline is not None:
        shares = [PERCENT.plain(sample.chance(deadline)) for sample in ends]
        first = f"{shares[0]} of the runs are finished by the deadline, day {deadline / DAY:.4g},{with_what[0]}"
        told = [
            first.removesuffix(","),
            *(f"{share}{name}" for share, name in zip(shares[1:], with_what[1:], strict=True)),
        ]
    else:
        halves = [sample.by(0.5) for sample in ends]
        days = [_by(half, horizon) for half in halves]
        told = [f"half of the runs are finished {days[0]}{with_what[0]}"]
        told += [f"{day}{name}" for day, name in zip(days[1:], with_what[1:], strict=True)]
    aside = ", unknown inputs drawn" if has_draws else ""
    return capital(f"{', '.join(told)}{aside}")


def _alt(samples: Sequence[Sample], deadline: float | None) -> str:
    """Return what is to be seen."""
    told = []
    for sample in samples:
        finished = PERCENT.plain(len(sample.times) / sample.runs)
        by = "" if deadline is None else f"{PERCENT.plain(sample.chance(deadline))} by the deadline, "
        told.append(f"{sample.name}: {by}{finished} at the horizon")
    return f"Chance to be finished by each date. {'; '.join(told)}."


def _caption_of_finish(samples: Sequence[Sample], axis: Axis | None) -> str:
    """Return what to know to read it."""
    runs = sorted({sample.runs for sample in samples})
    told = number_of(runs[0], "run") if len(runs) == 1 else f"{runs[0]} to {runs[-1]} runs"
    lines = f", one for each value of {axis.title}" if axis is not None else ""
    return f"Each curve is of {told}{lines}: it rises where a run was finished."


def _table(
    title: str,
    samples: Sequence[Sample],
    central: Sequence[Sample],
    axis: Axis | None,
    deadline: float | None,
    horizon: float,
) -> Grid:
    """Return the curves in numbers; with draws, beside them what it is at the central values of unknown inputs."""
    beside = {sample.name: sample for sample in central}
    columns = [Column("Runs" if axis is None else capital(axis.title), is_number=False)]
    columns += [Column("Finished by the deadline")] if deadline is not None else []
    columns += [Column("Half finished by"), Column("90 % finished by"), Column("Finished at the horizon")]
    columns += [Column("With inputs at their central values")] if beside else []
    rows = []
    for sample in samples:
        row = [sample.name]
        row += [PERCENT.plain(sample.chance(deadline))] if deadline is not None else []
        for share in (0.5, 0.9):
            time = sample.by(share)
            row.append(_by(time, horizon).removeprefix("by "))
        row.append(f"{len(sample.times)} of {number_of(sample.runs, 'run')}")
        rows.append(row + ([_beside(beside.get(sample.name), deadline)] if beside else []))
    return Grid(title, columns, rows)


def _beside(sample: Sample | None, deadline: float | None) -> str:
    """Return how many runs were finished, in time where there is a deadline."""
    if sample is None:
        return "not run"
    count = len(sample.times) if deadline is None else bisect.bisect_right(sample.times, deadline)
    return f"{count} of {number_of(sample.runs, 'run')}{'' if deadline is None else ' by the deadline'}"


def _notes(report_data: ReportData, samples: Sequence[Sample], axis: Axis | None, *, has_draws: bool) -> list[str]:
    """Return what is in the curves, and how sure they are."""
    notes = []
    content = report_data.sweep
    if has_draws:
        assert content is not None
        names = [entry["title"] for entry in content["axes"].values() if entry["unknown"]]
        notes.append(
            f"A run has failures of its own and one draw of what is not known ({', '.join(names)}); all draws are put "
            "together, so that a curve tells of both."
        )
    else:
        notes.append("The curves tell of run-to-run variability alone; all inputs are taken as exactly known.")
        low, high = binomial_interval(samples[0].runs / 2, samples[0].runs)
        notes.append(
            f"With {number_of(samples[0].runs, 'run')} a chance of 50 % is known to be within "
            f"{PERCENT.plain(low)} to {PERCENT.plain(high)} (95 %)."
        )
    if content is not None and axis is not None:
        chosen = chosen_cells(content)
        others = [other for other in axes_of(content) if other.name != axis.name]
        if chosen is not None and others:
            values = content["cells"][chosen[0]]["values"]
            notes.append(f"With {', '.join(other.phrase(values[other.name]) for other in others)}.")
    if any(len(sample.times) < sample.runs for sample in samples):
        notes.append(
            "Runs that were unfinished at the horizon count as not finished: their curve does not reach 100 %."
        )
    return notes

"""What an optimiser tried, as pictures and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.answers.words import capital, name_of
from analysis.cells import number_of, percent_text
from analysis.plots.charts import Curves, Front, FrontPoint, Interval, Intervals, Scale, Series
from analysis.report.model import Column, Grid, Picture
from analysis.report.phrases import phrase
from analysis.report.sections.amounts import shown
from analysis.report.sections.axes import Axis

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from analysis.report.sections.amounts import Shown

__all__ = [
    "confirmation_picture",
    "front_picture",
    "metric_of",
    "title_of",
    "tried_picture",
    "tried_table",
    "where_text",
]

Content = dict[str, Any]

_MOST_ROWS = 24
_MOST_IN_TABLE = 60
_VERDICTS = {"holds": "holds", "fails": "fails", "open": "not resolved"}


def title_of(name: str, content: Content) -> str:
    """Return what an axis, or a metric, is called."""
    axis = content["axes"].get(name)
    return str(axis["title"]) if axis is not None else name_of(name)


def where_text(values: Mapping[str, str], content: Content) -> str:
    """Return a combination in words."""
    tried = [trial["values"] for trial in content["tried"]]
    return ", ".join(
        phrase(title_of(name, content), label, [each[name] for each in tried if name in each])
        for name, label in values.items()
    )


def metric_of(name: str, content: Content, currency: str) -> Shown:
    """Return how a metric of the document is shown."""
    return shown(name, [(_found(trial, name) or {}).get("mean") for trial in content["tried"]], currency)


def _found(trial: Content, metric: str) -> Content | None:
    """Return the estimate of a metric of a combination: an aim, or what a condition is about."""
    if metric in trial["aims"]:
        found: Content = trial["aims"][metric]
        return found
    return next((each for each in trial["conditions"] if each["metric"] == metric), None)


def tried_picture(content: Content, name: str, metric: Shown) -> Picture | None:
    """Return a metric of all that was tried: along the axis if there is one of numbers, else the best below each other.

    ``None`` if nothing has a mean of it.
    """
    trials = [trial for trial in content["tried"] if (_found(trial, name) or {}).get("mean") is not None]
    if not trials:
        return None
    title = _tried_title(content, trials, name, metric)
    levels = tuple(dict.fromkeys(
        (found["bound"] / metric.form.size, found["condition"])
        for trial in trials for found in trial["conditions"] if found["metric"] == name
    ))  # fmt: skip
    axis = _axis(content, trials)
    texts = [(where_text(trial["values"], content), metric.told(_found(trial, name) or {}, "ci95")) for trial in trials]
    columns = (Column("Combination", is_number=False), Column(capital(metric.name)))
    told = "; ".join(f"{place}: {text}" for place, text in texts[:6])
    alt = f"{capital(metric.name)} of {number_of(len(trials), 'combination')} that were tried. {told}."
    missing = len(content["tried"]) - len(trials)
    caption = f"{missing} of {number_of(len(content['tried']), 'combination')} have no mean of it." if missing else ""
    key = f"tried-{name.replace('_', '-').replace('.', '-')}"
    table = Grid(title, columns, texts[:_MOST_IN_TABLE])
    if axis is not None:
        found = sorted(trials, key=lambda trial: float(trial["numbers"][axis.name]))
        series = Series(
            "",
            tuple(trial["numbers"][axis.name] / axis.size for trial in found),
            tuple(metric.of((_found(trial, name) or {})["mean"]) for trial in found),
            tuple(metric.ends((_found(trial, name) or {})["ci95"]) for trial in found),
        )
        answer = content["answer"]
        edges = () if answer is None or content["front"] else (
            (answer["numbers"][axis.name] / axis.size, f"answer: {answer['values'][axis.name]}"),
        )  # fmt: skip
        return Picture(
            key, Curves(title, axis.scale, Scale(metric.head), (series,), levels, edges), alt, caption, table
        )
    rows = [_row(trial, name, metric, content) for trial in _best(content, trials)]
    if len(rows) < len(trials):
        caption = f"The {len(rows)} best of {number_of(len(trials), 'combination')}. {caption}".rstrip()
    return Picture(key, Intervals(title, metric.unit, tuple(rows), levels[0] if levels else None), alt, caption, table)


def _tried_title(content: Content, trials: Sequence[Content], name: str, metric: Shown) -> str:
    """Return what a picture of all that was tried says."""
    answer = content["answer"]
    found = None if answer is None or content["front"] else _found(answer, name)
    if answer is None or found is None or found["mean"] is None:
        means = [(_found(trial, name) or {})["mean"] for trial in trials]
        ends = [metric.form.plain(end) for end in (min(means), max(means))]
        span = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
        return f"{capital(metric.name)} of all that was tried: {span}"
    return f"{capital(metric.name)} comes to {metric.mean(found, 'ci95')} with {where_text(answer['values'], content)}"


def _axis(content: Content, trials: Sequence[Content]) -> Axis | None:
    """Return the axis if there is one alone, of numbers; ``None`` otherwise."""
    if len(content["axes"]) != 1 or len(trials) < 2:
        return None
    ((name, entry),) = content["axes"].items()
    labels = tuple(trial["values"][name] for trial in trials)
    axis = Axis(name, str(entry["title"]), labels, tuple(trial["numbers"][name] for trial in trials))
    return axis if axis.is_numeric else None


def _best(content: Content, trials: Sequence[Content]) -> list[Content]:
    """Return what was tried, what keeps the conditions first and of these the best first."""
    aim = content["aims"][0]
    sign = 1 if aim["lowest"] else -1

    def place(trial: Content) -> tuple[bool, float]:
        mean = None if aim["is_axis"] else trial["aims"][aim["name"]]["mean"]
        value = trial["numbers"].get(aim["name"]) if aim["is_axis"] else mean
        return not trial["met"], float("inf") if value is None else sign * value

    return sorted(trials, key=place)[:_MOST_ROWS]


def _row(trial: Content, name: str, metric: Shown, content: Content) -> Interval:
    found = _found(trial, name) or {}
    note = "" if trial["met"] else "does not keep the conditions"
    return Interval(
        where_text(trial["values"], content), metric.of(found["mean"]), metric.ends(found["ci95"]), None, note
    )


def front_picture(content: Content, metrics: Mapping[str, Shown]) -> Picture | None:
    """Return all that was tried by two aims, and the front of them; ``None`` with one aim."""
    names = [aim["name"] for aim in content["aims"] if not aim["is_axis"]][:2]
    if not content["front"] or len(names) < 2:
        return None
    standing = {_key(member): "front" if member["certain"] else "perhaps" for member in content["front"]}
    points, rows = [], []
    for trial in content["tried"]:
        found = [trial["aims"].get(name) or {} for name in names]
        places = [metrics[name].of(one.get("mean")) for name, one in zip(names, found, strict=True)]
        if places[0] is None or places[1] is None:
            continue
        ends = [metrics[name].ends(one["ci95"]) for name, one in zip(names, found, strict=True)]
        place = where_text(trial["values"], content)
        mine = standing.get(_key(trial), "behind")
        points.append(FrontPoint(place, places[0], places[1], ends[0], ends[1], mine))
        if mine != "behind":
            told = [metrics[name].told(one, "ci95") for name, one in zip(names, found, strict=True)]
            rows.append((place, *told, "with 95 % confidence" if mine == "front" else "perhaps by luck"))
    both = " and ".join(metrics[name].name for name in names)
    title = f"{number_of(len(rows), 'combination')} cannot be beaten in {both} at once"
    lowest = [aim["lowest"] for aim in content["aims"] if aim["name"] in names]
    x, y = (Scale(metrics[name].head) for name in names)
    chart = Front(title, x, y, tuple(points), lowest[0], lowest[1])
    columns = (
        Column("Combination", is_number=False), *(Column(capital(metrics[name].name)) for name in names),
        Column("On the front", is_number=False),
    )  # fmt: skip
    alt = f"The front: {'; '.join(f'{row[0]}: {row[1]} and {row[2]}' for row in rows[:5])}."
    return Picture("optimum-front", chart, alt, "", Grid(title, columns, rows[:_MOST_IN_TABLE]))


def _key(trial: Content) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(trial["values"].items()))


def confirmation_picture(content: Content, metrics: Mapping[str, Shown]) -> Picture | None:
    """Return what was found beside what fresh failures make of it; ``None`` without these, or without a metric."""
    found = content["confirmation"]
    aim = next((aim["name"] for aim in content["aims"] if not aim["is_axis"]), None)
    name = aim or (
        content["answer"]["conditions"][0]["metric"] if content["answer"] and content["answer"]["conditions"] else None
    )
    if found is None or name is None:
        return None
    metric = metrics[name]
    before = {_key(trial): trial for trial in (content["front"] or [content["answer"], content["runner_up"]]) if trial}
    rows, texts = [], []
    for trial in found["trials"]:
        place = where_text(trial["values"], content)
        for word, each in (("where found", before.get(_key(trial))), ("fresh failures", trial)):
            if each is not None:
                rows.append(_fresh_row(f"{place}, {word}", each, name, metric))
        texts.append((place, *_fresh_texts(before.get(_key(trial)), trial, name, metric)))
    start, has_gain = found["as_it_is"], any(name in trial["gain"] for trial in found["trials"])
    rows.append(_fresh_row("scenario as it is, fresh failures", start, name, metric))
    texts.append(("scenario as it is", *_fresh_texts(None, start, name, metric)))
    if all(row.mean is None for row in rows):
        return None
    texts = texts if has_gain else [text[:3] for text in texts]
    verdict = {
        True: "Fresh failures confirm",
        False: "Fresh failures deny",
        None: "Fresh failures neither confirm nor deny",
    }
    title = f"{verdict[found['confirmed']]} the answer"
    columns = (
        Column("Combination", is_number=False), Column("Where found"), Column("On fresh failures"),
        *([Column("Better than as it is")] if has_gain else []),
    )  # fmt: skip
    alt = f"{capital(metric.name)}: {'; '.join(f'{row[0]}: {row[2]} on fresh failures' for row in texts)}."
    caption = "Where it was found the best of many is partly the luckiest; fresh failures have not been chosen by."
    return Picture(
        "confirmation", Intervals(title, metric.unit, tuple(rows)), alt, caption, Grid(title, columns, texts)
    )


def _fresh_row(place: str, trial: Content, name: str, metric: Shown) -> Interval:
    found = _found(trial, name) or {}
    note = trial["trouble"] and "cannot run"
    return Interval(place, metric.of(found.get("mean")), metric.ends(found.get("ci95")), None, note)


def _fresh_texts(before: Content | None, trial: Content, name: str, metric: Shown) -> Iterator[str]:
    """Yield what was found, what fresh failures say, and the gain over the scenario as it is."""
    yield "not among what was tried" if before is None else _told(before, name, metric)
    yield _told(trial, name, metric)
    gain = (trial.get("gain") or {}).get(name)
    if gain is None:
        yield "it is this one" if "gain" not in trial else "not known"
    else:
        yield "as good" if gain["mean"] == 0 and gain["ci95"][0] == gain["ci95"][1] else metric.change(gain)


def _told(trial: Content, name: str, metric: Shown) -> str:
    return metric.told(_found(trial, name) or {}, "ci95") or ("cannot run" if trial["trouble"] else "no mean")


def tried_table(content: Content, metrics: Mapping[str, Shown]) -> Grid:
    """Return all that was tried, or the best of it, with what the conditions say."""
    along = content["method"] in ("curve", "edge")
    kept = content["tried"] if along else [*_best(content, content["tried"])]
    kept = kept[:_MOST_IN_TABLE]
    aims = [aim["name"] for aim in content["aims"] if not aim["is_axis"]]
    has_form = any(trial["closed_form"] is not None for trial in kept)
    columns = [Column(capital(str(axis["title"])), is_number=False) for axis in content["axes"].values()]
    columns += [Column(capital(metrics[name].name)) for name in aims]
    for condition in content["conditions"]:
        columns += [Column(condition), Column("Verdict", is_number=False)]
    columns += [Column("ETTR by the closed form")] if has_form else []
    rows = []
    for trial in kept:
        row = [*trial["values"].values(), *(_told(trial, name, metrics[name]) for name in aims)]
        for index in range(len(content["conditions"])):
            row += _condition(trial, index, metrics)
        row += (
            [percent_text(trial["closed_form"]) if trial["closed_form"] is not None else "not known"]
            if has_form
            else []
        )
        rows.append(row)
    more = len(content["tried"]) - len(rows)
    note = f"{number_of(more, 'more combination')}: see optimize.json." if more else ""
    return Grid("What was tried", columns, rows, note=note)


def _condition(trial: Content, index: int, metrics: Mapping[str, Shown]) -> list[str]:
    """Return what a combination comes to by a condition, and whether that keeps it."""
    if index >= len(trial["conditions"]):
        return ["cannot run", "fails"]
    found = trial["conditions"][index]
    return [metrics[found["metric"]].told(found, "ci95") or "no mean", _VERDICTS[found["verdict"]]]

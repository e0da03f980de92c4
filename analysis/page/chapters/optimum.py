"""What an optimiser tried, and what fresh failures say of it."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.amounts import (
    COUNT,
    PERCENT,
    capital,
    listed,
    name_of,
    number_of,
    people_form,
    percent_text,
    phrase,
    points_form,
    shown,
)
from analysis.optimize.optimize import why
from analysis.page.account import currency_of
from analysis.page.cells import Axis
from analysis.page.chapters.inputs import more_runs, not_covered, stated
from analysis.page.charts.data import Curves, Front, FrontPoint, Interval, Intervals, Scale, Series
from analysis.page.glossary import glossed, metric_words
from analysis.page.model import Column, FirstScreen, Grid, Picture, Section, joined
from analysis.page.report_data import OPTIMIZE
from analysis.page.sourced import Places, number, ranged, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from analysis.amounts import Form, Shown
    from analysis.page.model import Words
    from analysis.page.report_data import ReportData
    from analysis.page.sourced import Estimate

Content = dict[str, Any]


def format_optimum(content: Content, *, width: int | None = None) -> str:
    """Return the document of an optimisation (as read back from JSON) as text, in so many columns."""
    from analysis.page.formats import terminal

    return terminal.write(_chapters(content), width=width)


def _chapters(content: Content) -> Iterator[Section]:
    """Yield what was asked, the answer with what was tried, and what to know before using it."""
    aims = content["aims"]
    told = [f"the {'lowest' if aim['lowest'] else 'highest'} {title_of(aim['name'], content)}" for aim in aims]
    conditions = f", with {listed(content['conditions'])}" if content["conditions"] else ""
    question = f"{capital(' against '.join(told))}{conditions}, in {content['scenario']}"
    warnings = tuple(f"warning: {line}" for line in content["warnings"])
    yield Section("question", content["question"] or content["study"], (question, *warnings))
    found = _section({**content, "warnings": []}, "", ())
    tables = [item for item in found.items if isinstance(item, Grid) or item.key in ("confirmation", "optimum-front")]
    yield replace(found, items=tuple(tables))
    if content["assumptions"]:
        yield Section("assumptions", "Assumptions", (), (), tuple(content["assumptions"]))


def against(content: Content) -> list[str]:
    """Return what speaks against relying on a document, a line each; empty if nothing does."""
    if content["answer"] is None:
        running = any(not trial["trouble"] for trial in content["trials"])
        return ["nothing that was tried keeps the conditions" if running else "no point can run"]
    if content["confirmation"]["confirmed"] is False:
        return ["fresh failures deny the answer: " + "; ".join(why(content))]
    return []


# ----------------------------------------
# What an optimisation looked for, for its first screen, and the picture of what it tried.

_MOST_ROWS = 12

_MANY = 3

"""So many settings that may be as good are counted, not named."""


class Sought(NamedTuple):
    """The document, of each metric that is an aim how it is told, and whether the scenario has the answer already."""

    places: Places
    forms: dict[str, Form]
    is_now: bool

    @property
    def aim(self) -> dict[str, Any]:
        """The first aim."""
        found: dict[str, Any] = self.places.get("aims", 0)
        return found

    @property
    def name(self) -> str:
        """Name of the first aim."""
        return str(self.aim["name"])

    def words(self, name: str) -> str:
        """Return what an aim is called, an axis by its title; without an article."""
        axis = self.places.get("axes", name, "title")
        return str(axis) if axis is not None else metric_words(name).removeprefix("the ")

    def value(self, name: str, *trial: str | int) -> Estimate | None:
        """Return what a combination comes to in an aim."""
        return self.places.estimate(*trial, "aims", name, interval="ci95")

    @property
    def as_good(self) -> list[dict[str, str]]:
        """Combinations beside the answer that are as good at this precision, in the order of the document."""
        answer, found = self.places.get("answer"), self.places.get("as_good")
        return [values for values in found["values"] if values != answer["values"]] if found is not None else []

    def setting(self, values: Mapping[str, str]) -> str:
        """Return a combination in words."""
        return listed([f"{self.places.get('axes', axis, 'title')} = {label}" for axis, label in values.items()])


def sought_of(places: Places, currency: str, *, is_now: bool) -> Sought:
    """Return what a document of an optimisation is about."""
    forms = {}
    for aim in places.get("aims"):
        means = [trial["aims"][aim["name"]]["mean"] for trial in places.get("trials") if not trial["trouble"]]
        known = [mean for mean in means if mean is not None]
        forms[aim["name"]] = COUNT if aim["is_axis"] else people_form(aim["name"], known, currency)
    return Sought(places, forms, is_now)


def picture_of_trials(sought: Sought) -> Picture | None:
    """Return what was tried: a curve along one axis of numbers, else the best of it below each other."""
    if sought.aim["is_axis"]:
        return None
    places, form = sought.places, sought.forms[sought.name]
    found = [(place, value) for place, trial in enumerate(places.get("trials"))
             if not trial["trouble"] and (value := sought.value(sought.name, "trials", place)) is not None]  # fmt: skip
    if not found:
        return None
    trials = places.get("trials")
    title = _title(sought)
    cells = [(sought.setting(trials[place]["values"]), form.value(value.mean.value, value.interval))
             for place, value in found]  # fmt: skip
    heads = (Column("setting", is_number=False), Column(sought.words(sought.name)))
    axes = list(places.get("axes"))
    numbers = [trials[place]["numbers"].get(axes[0]) for place, _ in found]
    chart: Curves | Intervals
    if len(axes) == 1 and len(found) > 1 and all(amount is not None for amount in numbers):
        chart = _curve(sought, title, found)
    else:
        sign = 1 if sought.aim["lowest"] else -1
        best = sorted(found, key=lambda entry: sign * entry[1].mean.value)[:_MOST_ROWS]
        rows = [Interval(sought.setting(trials[place]["values"]), value.mean.value / form.size, _ends(value, form.size))
                for place, value in best]  # fmt: skip
        chart = Intervals(title, form.unit, tuple(rows))
    alt = f"What was tried, with the range of each. {title}."
    return Picture("at-a-glance", chart, alt, "Ranges are 95 % intervals of means.", Grid(title, heads, cells))


def _curve(sought: Sought, title: str, found: Sequence[tuple[int, Estimate]]) -> Curves:
    """Return the aim along the one axis."""
    places, form = sought.places, sought.forms[sought.name]
    (axis,) = places.get("axes")
    trials = places.get("trials")
    order = sorted(found, key=lambda entry: float(trials[entry[0]]["numbers"][axis]))
    x = tuple(float(trials[place]["numbers"][axis]) for place, _ in order)
    ticks = tuple((at, str(trials[place]["values"][axis])) for at, (place, _) in zip(x, order, strict=True))
    y = tuple(value.mean.value / form.size for _, value in order)
    ends = tuple(_ends(value, form.size) for _, value in order)
    is_log = x[0] > 0 and x[-1] / x[0] >= 10
    name = sought.words(sought.name)
    return Curves(title, Scale(str(places.get("axes", axis, "title")), is_log=is_log, ticks=ticks),
                  Scale(f"{name} [{form.unit}]"), (Series("", x, y, ends),))  # fmt: skip


def _ends(value: Estimate, size: float) -> tuple[float, float] | None:
    return None if value.interval is None else (value.interval[0] / size, value.interval[1] / size)


def _title(sought: Sought) -> str:
    """Return what the picture says."""
    answer = sought.places.get("answer")
    if answer is None:
        return "No setting meets the conditions"
    others = [sought.setting(values) for values in sought.as_good]
    best = sought.setting(answer["values"])
    if others:
        rivals = listed(others) if len(others) < _MANY else f"{len(others)} others"
        return capital(f"{best} has the best mean; {rivals} may be as good")
    return f"{capital(best)} is the best that was tried"


# ----------------------------------------
# The first screen about an optimum: the best setting, what it is worth, and whether fresh failures bear it out.

_MOST_NAMES = 3

_UNTRIED = ("only what is listed was tried; a better setting between, or outside of it, may have been missed",)

_PARAMETERS = "Conditions were held against all that the inputs may be, not against their central values alone."


def first_screen(report_data: ReportData) -> FirstScreen:
    """Return the first screen."""
    content = report_data.main
    sought = sought_of(Places(report_data.results.file, content), currency_of(report_data), is_now=_is_now(report_data))
    return glossed(
        FirstScreen(
            question=content["question"] or f"What is best in {content['study']}?",
            answer=_answer_of_optimize(sought),
            doubt=_doubt(sought, report_data),
            picture=picture_of_trials(sought),
            drivers=tuple(words for words in _drivers(sought) if words)[:3],
            not_covered=not_covered(_UNTRIED, content["warnings"], content["assumptions"]),
        )
    )


def _is_now(report_data: ReportData) -> bool:
    """Return whether the scenario already has the settings of the answer."""
    study, focus = report_data.study, report_data.focus
    return (
        study is not None
        and focus is not None
        and focus.scenario == study.template.scenario(report_data.common_settings)
    )


def _answer_of_optimize(sought: Sought) -> Words:
    """Return the answer in one sentence."""
    places = sought.places
    answer = places.get("answer")
    if answer is None:
        texts = [_condition(text) for text in places.get("conditions")]
        if all(trial["trouble"] for trial in places.get("trials")):
            return ("Nothing that was tried can run.",)
        return (f"No setting that was tried makes {listed(texts)}.",)
    if places.get("front"):
        return _front(sought)
    most = "lowest" if sought.aim["lowest"] else "highest"
    where, words = sought.setting(answer["values"]), sought.words(sought.name)
    if sought.aim["is_axis"]:
        texts = [_condition(text) for text in places.get("conditions")]
        keeps = f" that makes {listed(texts)}" if texts else ""
        start: Words = (f"{capital(words)}: {answer['values'][sought.name]} is the {most} value{keeps}",)
        rest = {axis: label for axis, label in answer["values"].items() if axis != sought.name}
        return (*start, *((f", with {sought.setting(rest)}",) if rest else ()), *_surely(sought), ".")
    best = sought.value(sought.name, "answer")
    value: Words = () if best is None else (": ", *_value(best, sought))
    return (f"The {most} {words} is reached with {where}", *value, *_as_good_of_optimize(sought), *_surely(sought), ".")


def _value(best: Estimate, sought: Sought) -> Words:
    """Return what the best comes to; money to three digits, because prices are not known to more."""
    form = sought.forms[sought.name]
    return ("about ", number(best.mean, form)) if sought.name.startswith("cost") else told(best, form)


def _front(sought: Sought) -> Words:
    """Return how many combinations are not beaten in all aims at once, and the first of them."""
    aims = [sought.words(aim["name"]) for aim in sought.places.get("aims")]
    first = sought.places.get("front", 0)
    start = f"No setting is best in {listed(aims)} at once; one that none beats in all of them is "
    parts: list[Words] = []
    for aim in sought.places.get("aims"):
        value = sought.value(aim["name"], "front", 0)
        if value is not None and not aim["is_axis"]:
            parts.append((f"{sought.words(aim['name'])} ", *told(value, sought.forms[aim["name"]])))
    values: Words = (": ", *joined(parts, ", ")) if parts else ()
    return (start, sought.setting(first["values"]), *values, "; the others stand further down.")


def _as_good_of_optimize(sought: Sought) -> Words:
    """Return what else is as good at this precision."""
    answer, found, others = sought.places.get("answer"), sought.places.get("as_good"), sought.as_good
    if not others:
        return ()
    if sought.places.get("method") == "curve":
        first, last = (sought.setting(found["values"][end]) for end in (0, -1))
        text = first if found["values"][0] != answer["values"] else last
        if len(others) > 1:
            text = f"anything that was tried from {first} to {last}"
        return (f"; {text} is as good as far as chance lets one tell",)
    names = [sought.setting(values) for values in others[:_MOST_NAMES]]
    text = listed(names) if len(names) == len(others) else f"{', '.join(names)} and others"
    return (f"; {text} {'is' if len(others) == 1 else 'are'} as good as far as chance lets one tell",)


def _condition(text: str) -> str:
    """Return a condition in words, such as that a metric is at least so much."""
    match = re.fullmatch(r"\s*(\S+?)\s*(>=|<=)\s*(.*?)\s*", text)
    if match is None:
        return text
    return f"{metric_words(match[1])} at {'least' if match[2] == '>=' else 'most'} {match[3]}"


def _surely(sought: Sought) -> Words:
    """Return whether a condition may be missed; nothing where all of them hold beyond chance."""
    verdicts = [condition["verdict"] for condition in sought.places.get("answer", "conditions")]
    if not verdicts or all(verdict == "holds" for verdict in verdicts):
        return ()
    return (", where a condition is met on average but not beyond chance",)


def _drivers(sought: Sought) -> list[Words]:
    """Return what is known of the answer beside its value."""
    if sought.places.get("answer") is None:
        return [_closest(sought, condition) for condition in range(len(sought.places.get("conditions")))]
    return [_gain(sought), _loss(sought), *_conditions(sought), _spread(sought), _formula_of_optimize(sought)]


def _closest(sought: Sought, condition: int) -> Words:
    """Return what came closest to a condition."""
    places, found = sought.places, []
    for place, trial in enumerate(places.get("trials")):
        mean = places.at("trials", place, "conditions", condition, "mean")
        if mean is not None and not trial["trouble"]:
            found.append((abs(mean.value - trial["conditions"][condition]["bound"]), place))
    if not found:
        return ()
    place = min(found)[1]
    at = ("trials", place, "conditions", condition)
    value = places.estimate(*at, interval="ci95")
    assert value is not None
    form = people_form(str(places.get(*at, "metric")), [value.mean.value])
    where = sought.setting(places.get("trials", place, "values"))
    return (f"Closest to {_condition(places.get('conditions', condition))} is {where}: ", *told(value, form), ".")


def _gain(sought: Sought) -> Words:
    """Return what fresh failures say of the answer against the scenario as it is."""
    places = sought.places
    if not places.get("confirmation", "trials"):
        return ()
    at = ("confirmation", "trials", 0, "gain", sought.name)
    gain, runs = places.estimate(*at, interval="ci95"), places.at("confirmation", "replications")
    if gain is None or runs is None or sought.aim["is_axis"]:
        return ()
    if sought.is_now:
        return ("The scenario already has this setting; there is nothing to change.",)
    start: Words = ("Played again ", number(runs, COUNT), " times with fresh failures, the answer ")
    if gain.interval is None and gain.mean.value == 0:
        return (*start, "comes to the same as what the scenario has now.")
    step = points_form(sought.forms[sought.name])
    if places.get(*at, "resolved"):
        size = gain.changed(abs)
        way = "better" if gain.mean.value > 0 else "worse"
        amount = (
            (number(size.mean, step),) if size.low is None or size.high is None else ranged(size.low, size.high, step)
        )
        return (*start, f"is {way} than what the scenario has now by ", *amount, ".")
    return (*start, "cannot be told from what the scenario has now; ",
            *more_runs(places.at(*at, "replications_to_resolve")), ".")  # fmt: skip


def _loss(sought: Sought) -> Words:
    """Return what a choice among those that are as good may cost at most."""
    loss = sought.places.at("as_good", "loss_below")
    others = sought.places.get("as_good", "values") or []
    if loss is None or len(others) < 2 or loss.value <= 0:
        return ()
    needed = sought.places.at("as_good", "replications_to_resolve")
    return ("Whichever of the settings that are as good is taken, less than ",
            number(loss, points_form(sought.forms[sought.name])), " is lost; ", *more_runs(needed), ".")  # fmt: skip


def _conditions(sought: Sought) -> list[Words]:
    """Return what the answer comes to in its conditions."""
    found: list[Words] = []
    for place, condition in enumerate(sought.places.get("answer", "conditions")):
        value = sought.places.estimate("answer", "conditions", place, interval="ci95")
        if value is not None:
            form = people_form(condition["metric"], [value.mean.value])
            found.append(
                (f"What is asked for is {_condition(condition['condition'])}; it is ", *told(value, form), ".")
            )
    return found


def _spread(sought: Sought) -> Words:
    """Return how much worse the worst that was tried is."""
    if sought.aim["is_axis"]:
        return ()
    sign = 1 if sought.aim["lowest"] else -1
    found = []
    for place, trial in enumerate(sought.places.get("trials")):
        value = sought.places.at("trials", place, "aims", sought.name, "mean")
        if value is not None and not trial["trouble"]:
            found.append((sign * value.value, place, value))
    if len(found) < 2:
        return ()
    _, place, worst = max(found, key=lambda entry: entry[:2])
    where = sought.setting(sought.places.get("trials", place, "values"))
    return (f"The worst that was tried is {where}: ", number(worst, sought.forms[sought.name]), ".")


def _formula_of_optimize(sought: Sought) -> Words:
    """Return what a formula calls the best."""
    ettr = sought.places.at("closed_form", "ettr")
    if ettr is None:
        return ()
    where = sought.setting(sought.places.get("closed_form", "values"))
    return (f"A formula of theory calls {where} the best, with ", number(ettr, PERCENT), ".")


def _doubt(sought: Sought, report_data: ReportData) -> Words:
    """Return how sure the answer is."""
    places = sought.places
    runs, confirmed = places.at("replications"), places.get("confirmation", "confirmed")
    study = report_data.study
    scenario = None if study is None else study.template.scenario(report_data.common_settings)
    is_priced = any(aim["name"].startswith("cost") for aim in places.get("aims"))
    exactly = stated(scenario, priced=is_priced)
    parts: list[Words] = [(_PARAMETERS if places.get("over") == "parameters" else exactly,)]
    if runs is not None:
        every = "Every setting met the same failures, in "
        parts.append((every, number(runs, COUNT), " simulated runs; ranges are what chance leaves open."))
    if places.get("confirmation") is not None:
        word = {True: "confirm", False: "do not confirm", None: "neither confirm nor deny"}[confirmed]
        parts.append((f"Fresh failures, which had no part in finding it, {word} the answer.",))
    return joined(parts)


# ----------------------------------------
# What an optimiser tried, as pictures and as a table.

_MOST_ROWS_TRIALS = 24

_MOST_IN_TABLE = 60

_VERDICTS = {"holds": "holds", "fails": "fails", "open": "not resolved"}


def title_of(name: str, content: Content) -> str:
    """Return what an axis, or a metric, is called."""
    axis = content["axes"].get(name)
    return str(axis["title"]) if axis is not None else name_of(name)


def where_text(values: Mapping[str, str], content: Content) -> str:
    """Return a combination in words."""
    return ", ".join(
        phrase(title_of(name, content), label, content["axes"].get(name, {}).get("noun", ""))
        for name, label in values.items()
    )


def metric_of(name: str, content: Content, currency: str) -> Shown:
    """Return how a metric of the document is shown."""
    return shown(name, [(_found(trial, name) or {}).get("mean") for trial in content["trials"]], currency)


def _found(trial: Content, metric: str) -> Content | None:
    """Return the estimate of a metric of a combination: an aim, or what a condition is about."""
    if metric in trial["aims"]:
        found: Content = trial["aims"][metric]
        return found
    return next((each for each in trial["conditions"] if each["metric"] == metric), None)


def trials_picture(content: Content, name: str, metric: Shown) -> Picture | None:
    """Return a metric of all that was tried: along the axis if there is one of numbers, else the best below each other.

    ``None`` if nothing has a mean of it.
    """
    trials = [trial for trial in content["trials"] if (_found(trial, name) or {}).get("mean") is not None]
    if not trials:
        return None
    title = _tried_title(content, trials, name, metric)
    levels = tuple(dict.fromkeys(
        (found["bound"] / metric.form.size, found["condition"])
        for trial in trials for found in trial["conditions"] if found["metric"] == name
    ))  # fmt: skip
    axis = _axis(content, trials)
    texts = [
        (where_text(trial["values"], content), metric.worded(_found(trial, name) or {}, "ci95")) for trial in trials
    ]
    columns = (Column("Combination", is_number=False), Column(capital(metric.name)))
    told = "; ".join(f"{place}: {text}" for place, text in texts[:6])
    alt = f"{capital(metric.name)} of {number_of(len(trials), 'combination')} that were tried. {told}."
    missing = len(content["trials"]) - len(trials)
    caption = f"{missing} of {number_of(len(content['trials']), 'combination')} have no mean of it." if missing else ""
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
    where = where_text(answer["values"], content)
    return f"{capital(metric.name)} comes to {metric.mean(found, 'ci95')} with {where}"


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

    return sorted(trials, key=place)[:_MOST_ROWS_TRIALS]


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
    ranking = {_key(member): "front" if member["certain"] else "perhaps" for member in content["front"]}
    points, rows = [], []
    for trial in content["trials"]:
        found = [trial["aims"].get(name) or {} for name in names]
        places = [metrics[name].of(one.get("mean")) for name, one in zip(names, found, strict=True)]
        if places[0] is None or places[1] is None:
            continue
        ends = [metrics[name].ends(one["ci95"]) for name, one in zip(names, found, strict=True)]
        place = where_text(trial["values"], content)
        mine = ranking.get(_key(trial), "behind")
        points.append(FrontPoint(place, places[0], places[1], ends[0], ends[1], mine))
        if mine != "behind":
            told = [metrics[name].worded(one, "ci95") for name, one in zip(names, found, strict=True)]
            rows.append((place, *told, "with 95 % confidence" if mine == "front" else "perhaps by chance"))
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
    caption = "Where it was found the best of many is partly so by chance; fresh failures have not been chosen by."
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
    return metric.worded(_found(trial, name) or {}, "ci95") or ("cannot run" if trial["trouble"] else "no mean")


def trials_table(content: Content, metrics: Mapping[str, Shown]) -> Grid:
    """Return all that was tried, or the best of it, with what the conditions say."""
    along = content["method"] in ("curve", "edge")
    kept = content["trials"] if along else [*_best(content, content["trials"])]
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
            row += _condition_of_trials(trial, index, metrics)
        row += (
            [percent_text(trial["closed_form"]) if trial["closed_form"] is not None else "not known"]
            if has_form
            else []
        )
        rows.append(row)
    more = len(content["trials"]) - len(rows)
    note = f"{number_of(more, 'more combination')}: see optimize.json." if more else ""
    return Grid("What was tried", columns, rows, note=note)


def _condition_of_trials(trial: Content, index: int, metrics: Mapping[str, Shown]) -> list[str]:
    """Return what a combination comes to by a condition, and whether that keeps it."""
    if index >= len(trial["conditions"]):
        return ["cannot run", "fails"]
    found = trial["conditions"][index]
    return [metrics[found["metric"]].worded(found, "ci95") or "no mean", _VERDICTS[found["verdict"]]]


_METHODS_OPTIMUM = {
    "curve": "a coarse look along the axis, then the gaps beside the best halved",
    "edge": "a coarse look along the axis, then the last gap halved again and again",
    "all": "every combination",
    "search": "combinations that a search suggested; a better one may have been missed",
}

_VERDICTS_OPTIMUM = {
    "holds": "holds with 95 % confidence",
    "fails": "fails with 95 % confidence",
    "open": "is not resolved",
}

_CONFIRMED = {True: "Fresh failures confirm it", False: "Fresh failures deny it", None: "Fresh failures do not tell"}


def section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    content = report_data.of(OPTIMIZE)
    if content is None or not content["trials"]:
        return None
    return _section(content, currency_of(report_data), report_data.common_settings)


def _section(content: Content, currency: str, common: Sequence[str]) -> Section:
    """Return the section, given the settings that all points have in common."""
    metrics = {
        name: metric_of(name, content, currency)
        for name in dict.fromkeys([
            *(aim["name"] for aim in content["aims"] if not aim["is_axis"]),
            *(found["metric"] for trial in content["trials"] for found in trial["conditions"]),
        ])
    }  # fmt: skip
    pictures = [trials_picture(content, name, metric) for name, metric in metrics.items()]
    pictures += [front_picture(content, metrics), confirmation_picture(content, metrics)]
    items: list[Picture | Grid] = [picture for picture in pictures if picture is not None]
    items.append(trials_table(content, metrics))
    text = (*_answer_of_optimum(content, metrics), *_fresh(content), *_use(common, content))
    return Section("optimum", _title_of_optimum(content), text, tuple(items), tuple(_notes_of_optimum(content)))


def _title_of_optimum(content: Content) -> str:
    """Return what was found."""
    answer = content["answer"]
    if answer is None:
        running = any(not trial["trouble"] for trial in content["trials"])
        return "Nothing that was tried keeps the conditions" if running else "Nothing that was tried can run"
    conditions = f", with {listed(content['conditions'])}" if content["conditions"] else ""
    if content["front"]:
        aims = listed([title_of(aim["name"], content) for aim in content["aims"]])
        return f"{number_of(len(content['front']), 'combination')} cannot be beaten in {aims} at once{conditions}"
    aim = content["aims"][0]
    best = f"{title_of(aim['name'], content)} is {'lowest' if aim['lowest'] else 'highest'}"
    found = content["as_good"]
    others = [] if found is None or aim["is_axis"] else [each for each in found["values"] if each != answer["values"]]
    where = where_text(answer["values"], content)
    if len(others) == 1:
        where += f" or {where_text(others[0], content)}, which cannot be told apart"
    elif others:
        where += f"; {len(others)} others cannot be told from it"
    return capital(f"{best} with {where}{conditions}")


def _answer_of_optimum(content: Content, metrics: dict[str, Shown]) -> Iterator[str]:
    """Yield the answer, what is as good, and where it ends, in paragraphs."""
    answer = content["answer"]
    if answer is None:
        yield from _closest_of_optimum(content, metrics)
        return
    if not content["front"]:
        told = [
            f"{metrics[aim['name']].name} {_estimate(answer['aims'][aim['name']], metrics[aim['name']])}"
            for aim in content["aims"]
            if not aim["is_axis"]
        ]
        told += [
            f"{found['condition']} {_VERDICTS_OPTIMUM[found['verdict']]}: {_estimate(found, metrics[found['metric']])}"
            for found in answer["conditions"]
        ]
        if told:
            yield capital(f"{'; '.join(told)}.")
    yield from _as_good_of_optimum(content, metrics)
    yield from _edge_of_optimum(content)
    form = content["closed_form"]
    if form is not None:
        there = (
            "" if form["ettr_of_answer"] is None else f"; for the answer it says {percent_text(form['ettr_of_answer'])}"
        )
        yield (
            f"The closed form, a formula without sampling error, has the best ETTR at "
            f"{where_text(form['values'], content)}: "
            f"{percent_text(form['ettr'])}{there}."
        )


def _estimate(found: Content, metric: Shown) -> str:
    return metric.worded(found, "ci95") or "without a mean"


def _closest_of_optimum(content: Content, metrics: dict[str, Shown]) -> Iterator[str]:
    """Yield what comes closest to each condition, or why nothing runs."""
    running = [trial for trial in content["trials"] if not trial["trouble"]]
    if not running:
        yield f"The first of them: {content['trials'][0]['trouble']}."
        return
    for index, condition in enumerate(content["conditions"]):
        known = [trial for trial in running if trial["conditions"][index]["mean"] is not None]
        if not known:
            yield f"{condition}: nothing that was tried has a mean of this metric."
            continue
        sign = 1 if ">=" in condition else -1
        closest = max(known, key=lambda trial: sign * trial["conditions"][index]["mean"])
        found = closest["conditions"][index]
        told = _estimate(found, metrics[found["metric"]])
        yield f"{condition}: the closest is {told}, with {where_text(closest['values'], content)}."


def _as_good_of_optimum(content: Content, metrics: dict[str, Shown]) -> Iterator[str]:
    """Yield what else is as good at this precision."""
    found, aim = content["as_good"], content["aims"][0]
    if found is None or aim["is_axis"]:
        return
    values = found["values"]
    if len(values) == 1:
        yield "Everything else that was tried is resolved as worse."
        return
    places = [where_text(each, content) for each in values]
    told = f"from {places[0]} to {places[-1]}" if content["method"] == "curve" else f"{len(values)} combinations"
    loss = found["loss_below"]
    form = metrics[aim["name"]].form
    lost = (
        ""
        if loss is None
        else f": what may be lost is below {form.plain(loss, (0.0, 2 * loss), form.step or form.unit)}"
    )
    needed = found["replications_to_resolve"]
    more = "" if needed is None else f" About {needed:,} replications would tell them apart."
    yield (
        f"What was tried {told} is as good at this precision{lost}.{more}"
        if content["method"] == "curve"
        else (f"At this precision {told} may be the best{lost}.{more}")
    )
    if content["top"] is not None:
        low, high = content["top"]["labels95"]
        yield f"The curve through them is best at {content['top']['label']} (95 %: {low} to {high})."


def _edge_of_optimum(content: Content) -> Iterator[str]:
    """Yield up to where the conditions hold."""
    edge = content["edge"]
    if edge is None:
        return
    words = []
    if edge["surely"] is not None:
        words.append(f"surely enough is {where_text(edge['surely'], content)} and beyond")
    else:
        words.append("nothing that was tried is surely enough at this precision")
    if edge["surely_not"] is not None:
        words.append(f"surely not enough is {where_text(edge['surely_not'], content)} and before")
    yield f"{capital('; '.join(words))}. What is enough is taken to stay enough further along."
    if edge["islands"]:
        told = "; ".join(where_text(values, content) for values in edge["islands"])
        yield f"The conditions are kept before that too, with {told}: more is not always better here."


def _fresh(content: Content) -> Iterator[str]:
    """Yield what fresh failures say."""
    found = content["confirmation"]
    if found is None:
        return
    reasons = list(why(content))
    because = f": {'; '.join(reasons)}" if reasons else ""
    draws = f", each on {content['draws']} other draws of what is not known" if content["draws"] else ""
    yield (
        f"{_CONFIRMED[found['confirmed']]}{because}. They are {number_of(found['replications'], 'replication')} of "
        f"seed {found['seed']}{draws}, which nothing was chosen by."
    )


def _use(common: Sequence[str], content: Content) -> Iterator[str]:
    """Yield the settings as a command that plays the answer, unknown inputs at their central values."""
    if content["settings"] and not content["front"]:
        options = " ".join(f"--set {shlex.quote(text)}" for text in (*common, *content["settings"]))
        yield f"To run it, in the folder of the results: ettrick run scenario.resolved.yaml {options}"


def _notes_of_optimum(content: Content) -> Iterator[str]:
    """Yield how it was looked for, and what to know."""
    over = f" on each of {content['draws']} draws of what is not known" if content["draws"] else ""
    yield (
        f"{number_of(len(content['trials']), 'combination')} tried ({_METHODS_OPTIMUM[content['method']]}), "
        f"{number_of(content['replications'], 'replication')} each{over}, on the same failures."
    )
    if content["method"] == "curve":
        yield "A top between two values of the coarse look that is narrower than their distance is missed."
    without = content["closed_form_left_out"]
    if without is not None:
        count = f"{without['combinations']} of {number_of(len(content['trials']), 'combination')}"
        yield f"The closed form does not apply to {count} that were tried: {without['reason']}."
    yield from content["warnings"]
    form = content["closed_form"]
    for line in form["assumptions"] if form is not None else ():
        yield f"The closed form assumes: {line}"

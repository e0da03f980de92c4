"""The optimum of a study: the evaluated settings, the best of them, and its check on fresh failures."""

from __future__ import annotations

import itertools
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ettrick.analysis.amounts import (
    COUNT,
    PERCENT,
    capital,
    listed,
    number_of,
    percent_text,
    points_form,
    verb,
)
from ettrick.analysis.optimize.optimize import why
from ettrick.analysis.page.account import currency_of
from ettrick.analysis.page.cells import ChosenAxis, bar, mean_of, summary_of
from ettrick.analysis.page.chapters import search
from ettrick.analysis.page.chapters.curves import series_of
from ettrick.analysis.page.chapters.search import OptimumView
from ettrick.analysis.page.charts.data import ChartAxis, Curves, FrontChart, FrontPoint, Intervals
from ettrick.analysis.page.first_screen import first_screen, more_runs, not_covered, stated
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.page.glossary import metric_words
from ettrick.analysis.page.model import Column, Figure, Section, joined, lists, plain, table_of
from ettrick.analysis.page.sourced import OPTIMIZE, line, number, sentence, span, worded
from ettrick.analysis.study.amounts import AxisSlice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ettrick.analysis.amounts import MetricFormat
    from ettrick.analysis.page.model import FirstScreen, TableBlock, Words
    from ettrick.analysis.page.report_data import ReportData
    from ettrick.analysis.parts import DifferenceSummary
    from ettrick.analysis.results.studies import OptimizeDocument, TrialSummary

_METHODS = {
    "curve": "a coarse look along the axis, then the gaps next to the best halved",
    "edge": "a coarse look along the axis, then the last gap halved again and again",
    "all": "every combination",
    "search": "combinations that a search suggested and the neighbours of the answer; it may have missed a better one",
    "bounds": "the largest bound first until no other can be better by more than the tie, and all neighbours",
}

_VERDICTS = {"holds": "holds", "fails": "fails", "open": "too close to call"}

_CONFIRMED = {
    True: "Fresh failures confirm the answer",
    False: "Fresh failures do not confirm the answer",
    None: "Fresh failures neither confirm nor deny the answer",
}

_MOST_ROWS, _MOST_IN_TABLE = 12, 60

_LONGEST_COMMAND = 800
"""Letters of options that are still typed; whole clusters are longer."""


def format_optimum(content: OptimizeDocument, *, width: int | None = None) -> str:
    """Return the document of an optimisation as text, in so many columns."""
    optimum = OptimumView(content)
    aims = [f"the {'lowest' if aim.lowest else 'highest'} {optimum.title(aim.name)}" for aim in content.aims]
    question = f"{capital(' against '.join(aims))}{optimum.conditions}, in {content.scenario}"
    warnings = (f"warning: {text}" for text in content.warnings)
    text = (*search.explained(optimum), *_points(optimum), *_confirmed(optimum, ()))
    items = _items(optimum, [] if optimum.content.funnel is not None else [_picture(optimum)])
    sections = [
        Section("question", content.question or content.study, (question, *warnings)),
        Section("optimum", _title(optimum), text, items, tuple(_notes(optimum))),
    ]
    return terminal.write([*sections, *lists(("Assumptions", content.assumptions))], width=width)


def against(content: OptimizeDocument) -> list[str]:
    """Return what speaks against relying on a document, a line each; empty if nothing does."""
    if content.answer is None:
        running = any(not trial.trouble for trial in content.trials)
        changes = [plain(words) for words in search.nothing_fits(OptimumView(content))]
        return changes or ["nothing that was evaluated keeps the conditions" if running else "no point can run"]
    if content.confirmation is not None and content.confirmation.confirmed is False:
        return ["fresh failures deny the answer: " + "; ".join(why(content))]
    return []


def opening(report_data: ReportData) -> FirstScreen:
    """Return the first screen: the best setting, and how sure that is."""
    optimum = OptimumView(report_data.optimize_document, currency_of(report_data))
    content, study, focus = optimum.content, report_data.study, report_data.focus
    scenario = None if study is None else study.template.scenario(report_data.common_settings)
    exactly = stated(scenario, priced=any(aim.name.startswith("cost") for aim in content.aims))
    if content.over == "parameters":
        exactly = (
            "Conditions were checked over the whole ranges of the unknown inputs, not only at their central values."
        )
    runs = optimum.places.stated("replications")
    doubt: list[Words] = [
        (exactly,),
        ("Every setting faces the same failures, in ", number(runs, COUNT), " replications; ranges are 95 % confidence "
         "intervals."),
    ]  # fmt: skip
    doubt += search.certainty(optimum)
    if content.confirmation is not None:
        doubt.append((f"{_CONFIRMED[content.confirmation.confirmed]}; they were not used in the search.",))
    answer, *drivers = _points(optimum, is_now=focus is not None and focus.scenario == scenario, is_opening=True)
    evaluated = ("only the listed settings were evaluated; a better one between or beyond them may have been missed",)
    if content.regret is not None:
        evaluated = ("designs outside of the stated space were not looked at",)
    caveats, picture = [_boundary(optimum), _evaluated(optimum)], _picture(optimum)
    return first_screen(
        content.question or f"What is best in {content.study}?",
        answer,
        (_choices(optimum), *doubt),
        None if picture is None else replace(picture, key="at-a-glance"),
        drivers,
        (*filter(None, caveats), *not_covered(evaluated, content.warnings, content.assumptions)),
    )


def section(report_data: ReportData) -> Section | None:
    """Return the section, without what the first screen of an optimisation says; ``None`` without an optimisation."""
    optimum = _of(report_data)
    if optimum is None or not (optimum.content.trials or optimum.content.infeasible):
        return None
    is_first = report_data.kind == "optimize"
    items = _items(optimum, [] if is_first else [_picture(optimum)])
    points = [] if is_first else _points(optimum)
    text = (*points, *_confirmed(optimum, report_data.common_settings))
    return Section("optimum", _title(optimum), text, items, (*_notes(optimum), *optimum.content.warnings))


def _items(optimum: OptimumView, pictures: Sequence[Figure | None]) -> tuple[Figure | TableBlock, ...]:
    """Return pictures, those of the front and of fresh failures, and the table of settings where no picture has it."""
    rest = (_front_picture(optimum), _confirmation_picture(optimum))
    if optimum.content.funnel is None:
        tables = [_trials_table(optimum)] if _picture(optimum) is None else []
        return (*(picture for picture in (*pictures, *rest) if picture is not None), *tables)
    searched = (search.followed_table(optimum), search.neighbours_picture(optimum), *rest)
    left_out = (search.funnel_picture(optimum), search.infeasible_table(optimum))
    designs = [search.designs_table(optimum)] if optimum.content.answer is not None else []
    return (*designs, *(item for item in (*pictures, *searched, *left_out) if item is not None))


def _of(report_data: ReportData) -> OptimumView | None:
    content = report_data.optimization
    return None if content is None else OptimumView(content, currency_of(report_data))


def _picture(optimum: OptimumView) -> Figure | None:
    """Return the bound over a budget where there is one; else the first metric of all that was evaluated."""
    over_budget = search.budget_picture(optimum)
    return over_budget or (_trials_picture(optimum, optimum.metrics[0]) if optimum.metrics else None)


# ----------------------------------------
# Sentences: the answer, and what else is known of it.


def _title(optimum: OptimumView) -> str:
    content, answer = optimum.content, optimum.content.answer
    if answer is None:
        running = any(not trial.trouble for trial in content.trials)
        return "No setting that was evaluated keeps the conditions" if running else "No setting can run"
    if content.front:
        aims = listed([optimum.title(aim.name) for aim in content.aims])
        return f"{number_of(len(content.front), 'setting')} cannot be beaten in {aims} at once{optimum.conditions}"
    name, most = optimum.aim.name, "lowest" if optimum.aim.lowest else "highest"
    if optimum.aim.is_axis:
        return capital(f"{optimum.title(name)}: {answer.values[name]} is the {most} value{optimum.conditions}")
    best, end = f"{optimum.title(name)} {verb(name, 'is', 'are')} {most}", ""
    if optimum.is_design:
        end = f"; {plain(search.tied(optimum))}".removesuffix("; ")
    for what, settings in () if optimum.is_design else optimum.others():
        end += f"; {plain(what)}: {optimum.briefly(settings)}"
    return capital(f"{best} with {optimum.where(answer.values)}{optimum.conditions}{end}")


def _points(optimum: OptimumView, *, is_now: bool = False, is_opening: bool = False) -> list[Words]:
    """Return the answer and further results, the most important first; `is_now`: the scenario has it already.

    A first screen shows the limits of the answer, and the best of each choice, in places of their own.
    """
    answer = optimum.content.answer
    if answer is None:
        trials = optimum.content.trials
        none = "No design can run within the budgets."
        if trials:
            none = f"None of the evaluated settings can run; the first: {trials[0].trouble}."
        if not all(trial.trouble for trial in trials):
            none = f"None of the evaluated settings makes {_in_words(optimum.content.conditions)}."
        return [(none,), *search.nothing_fits(optimum), *_closest(optimum)]
    limits = () if is_opening else (_boundary(optimum), _evaluated(optimum), _choices(optimum))
    design = () if is_opening else search.certainty(optimum)
    sentences = (_answer(optimum, answer), *design, *limits, *search.worth(optimum), *search.best_of_values(optimum),
             _gain(optimum, is_now=is_now), _loss(optimum), *_conditions(optimum, answer), *_edge(optimum),
             _top(optimum), _worst(optimum), _closed_form(optimum))  # fmt: skip
    return [words for words in sentences if words]


def _in_words(conditions: Sequence[str]) -> str:
    texts = []
    for text in conditions:
        word = "at least" if ">=" in text else "at most"
        metric, _, bound = text.partition(">=" if ">=" in text else "<=")
        texts.append(f"{metric_words(metric.strip())} {word} {bound.strip()}")
    return listed(texts)


def _closest(optimum: OptimumView) -> Iterator[Words]:
    for index, condition in enumerate(optimum.content.conditions):
        means = [(outcome.mean, place) for place, trial in enumerate(optimum.content.trials) if not trial.trouble
                 for outcome in [trial.conditions[index]] if outcome.mean is not None]  # fmt: skip
        if means:
            _, place = max(means) if ">=" in condition else min(means)
            trial = optimum.content.trials[place]
            value = optimum.places.stated_estimate("trials", place, "conditions", index, interval="ci95")
            form = optimum.form(trial.conditions[index].metric)
            where = f", with {optimum.where(trial.values)}."
            yield line(f"Closest to {_in_words([condition])}: ", worded(value, form), where)


def _answer(optimum: OptimumView, answer: TrialSummary) -> Words:
    content, aim = optimum.content, optimum.aim
    if content.front:
        return _front_answer(optimum)
    if optimum.is_design:
        return search.headline(optimum, optimum.where(answer.values), _value(optimum, aim.name, "answer"))
    most = "lowest" if aim.lowest else "highest"
    is_open = any(condition.verdict != "holds" for condition in answer.conditions)
    end = ", where a condition is met on average but not beyond sampling error" if is_open else ""
    if aim.is_axis:
        bound = f" that makes {_in_words(content.conditions)}" if content.conditions else ""
        fixed = {axis: label for axis, label in answer.values.items() if axis != aim.name}
        where = f", with {optimum.where(fixed)}" if fixed else ""
        return sentence(f"{optimum.title(aim.name)}: {answer.values[aim.name]} is the {most} value{bound}{where}{end}")
    edge = ", the end of its range" if _boundary(optimum) else ""
    start = f"The {most} {optimum.words(aim.name)} is reached with {optimum.where(answer.values)}{edge}: "
    rest: list[Words] = []
    for what, settings in optimum.others():
        rest.append(line("; ", what, ": " if len(settings) == 1 else ": several others, such as ",
                           optimum.briefly(settings[:1])))  # fmt: skip
    as_good = line(*rest)
    return line(start, _value(optimum, aim.name, "answer"), end, as_good, ".")


def _boundary(optimum: OptimumView) -> Words:
    """Return that the answer is an end of a range, so that a better one may lie beyond; empty elsewhere."""
    content, answer, parts = optimum.content, optimum.content.answer, []
    for name, axis in content.axes.items() if answer is not None and not content.front else ():
        label = answer.values[name] if answer is not None else ""
        is_open = any(rival[name] != label for rival in optimum.rivals)
        if label in (axis.from_, axis.to) and axis.from_ != axis.to and name != optimum.aim.name and not is_open:
            parts.append(f"{axis.title} {label}: nothing {'below' if label == axis.from_ else 'above'} was evaluated")
    return sentence("the best value is the end of its range, ", "; ".join(parts)) if parts else ()


def _evaluated(optimum: OptimumView) -> Words:
    """Return how many of the settings were evaluated; empty where all were, or where one axis has no others."""
    content = optimum.content
    count, beside = len(content.trials), len(content.neighbours)
    if (
        content.funnel is not None
        or (content.combinations is None and len(content.axes) == 1)
        or count >= (content.combinations or count + 1)
    ):
        return ()
    every = "" if content.combinations is None else f" of {content.combinations:,}"
    idle = sum(neighbour.status == "cannot run" for neighbour in content.neighbours)
    which = f"including the {beside} neighbours of the answer" + (f" ({idle} cannot run)" if idle else "")
    return (f"Only {count:,}{every} settings were evaluated, {which}.",)


def _choices(optimum: OptimumView) -> Words:
    """Return the best mean with each value of the one axis of names; empty without other axes."""
    content, aim = optimum.content, optimum.aim
    named = [name for name, axis in content.axes.items() if axis.values]
    if content.best_of or len(named) != 1 or len(content.axes) < 2 or aim.is_axis or content.front:
        return ()
    best: dict[str, int] = {}
    for trial in _best_first(optimum):
        if trial.met and mean_of(trial, aim.name) is not None:
            best.setdefault(trial.values[named[0]], content.trials.index(trial))
    form = optimum.form(aim.name)
    texts = [line(number(optimum.places.stated("trials", place, "aims", aim.name, "mean"), form), f" with “{label}”")
             for label, place in best.items()]  # fmt: skip
    start = f"the best {optimum.words(aim.name)} for each of {content.axes[named[0]].title} is "
    return sentence(start, *joined(texts, ", ")) if len(texts) > 1 else ()


def _front_answer(optimum: OptimumView) -> Words:
    content = optimum.content
    aims = listed([optimum.words(aim.name) for aim in content.aims])
    values = [line(f"{optimum.words(aim.name)} ", _value(optimum, aim.name, "front", 0))
              for aim in content.aims if not aim.is_axis]  # fmt: skip
    first = optimum.where(content.front[0].values)
    return (f"No setting is best in {aims} at once; one that no other beats in all of them is {first}: ",
            *joined(values, ", "), "; all of them are in the table.")  # fmt: skip


def _value(optimum: OptimumView, metric: str, *trial: str | int) -> Words:
    """Return what a setting comes to; money without an interval, because prices are known no better."""
    estimate, form = optimum.places.estimate(*trial, "aims", metric, interval="ci95"), optimum.form(metric)
    if estimate is None:
        return ("no mean",)
    return ("about ", number(estimate.mean, form)) if metric.startswith("cost") else worded(estimate, form)


def _gain(optimum: OptimumView, *, is_now: bool) -> Words:
    at = ("confirmation", "trials", 0, "gain", optimum.aim.name)
    gain, runs = optimum.places.estimate(*at, interval="ci95"), optimum.places.at("confirmation", "replications")
    if gain is None or runs is None or optimum.aim.is_axis:
        return ()
    if is_now:
        return ("The scenario already has this setting; there is nothing to change.",)
    start = line("In ", number(runs, COUNT), " replications with fresh failures, the answer ")
    if gain.interval is None and gain.mean.value == 0:
        return line(start, "gives the same as the scenario as it is.")
    if not optimum.places.get(*at, "resolved"):
        needed = more_runs(optimum.places.at(*at, "replications_to_resolve"))
        return line(start, "and the scenario as it is are too close to call (", needed, ").")
    step, size = points_form(optimum.form(optimum.aim.name)), gain.changed(abs)
    way = "better" if gain.mean.value > 0 else "worse"
    return line(start, f"is {way} than the scenario as it is by ", span(size, step), ".")


def _loss(optimum: OptimumView) -> Words:
    """Return what a choice among settings that are as good may cost at most."""
    as_good, rivals, aim = optimum.content.as_good, optimum.rivals, optimum.aim
    if as_good is None or aim.is_axis or optimum.is_design:
        return ()
    if not rivals:
        return ("All other evaluated settings are worse, with 95 % confidence.",) if not optimum.equal else ()
    loss, needed = (optimum.places.at("as_good", key) for key in ("loss_below", "replications_to_resolve"))
    if loss is None or loss.value <= 0:
        return ()
    is_span = optimum.content.method == "curve"
    span = f" ({optimum.where(as_good.values[0])} to {optimum.where(as_good.values[-1])})" if is_span else ""
    start = f"Any of these settings{span} costs less than "
    size = number(loss, points_form(optimum.form(aim.name)))
    return line(start, size, " against the best (", more_runs(needed), " to tell which that is).")


def _conditions(optimum: OptimumView, answer: TrialSummary) -> Iterator[Words]:
    for place, condition in enumerate(answer.conditions):
        value = optimum.places.estimate("answer", "conditions", place, interval="ci95")
        if value is not None:
            start = f"The condition is {_in_words([condition.condition])}; the answer has "
            yield line(start, worded(value, optimum.form(condition.metric)), ".")


def _edge(optimum: OptimumView) -> Iterator[Words]:
    edge = optimum.content.edge
    if edge is None:
        return
    enough = f"{optimum.where(edge.surely)} and beyond" if edge.surely is not None else "nothing that was evaluated"
    no = "" if edge.surely_not is None else f"; clearly not enough: {optimum.where(edge.surely_not)} and before"
    yield (f"Clearly enough: {enough}{no}. The search assumes that all values beyond an adequate one are adequate.",)
    if edge.islands:
        islands = "; ".join(map(optimum.where, edge.islands))
        yield (f"The conditions are also met before that, with {islands}: more is not always better here.",)


def _top(optimum: OptimumView) -> Words:
    top = optimum.content.top
    if top is None:
        return ()
    low, high = top.labels95
    return (f"A curve through the evaluated values is best at {top.label} (95 % interval: {low} to {high}).",)


def _worst(optimum: OptimumView) -> Words:
    aim = optimum.aim
    means = [(-mean if aim.lowest else mean, place) for place, trial in enumerate(optimum.content.trials)
             if (mean := mean_of(trial, aim.name)) is not None]  # fmt: skip
    if aim.is_axis or optimum.content.front or optimum.is_design or len(means) < 2:
        return ()
    least, place = min(means)
    if least == max(means)[0]:
        return (f"All settings that can run have the same {optimum.words(aim.name)}.",)
    worst = optimum.places.stated("trials", place, "aims", aim.name, "mean")
    where = optimum.where(optimum.content.trials[place].values)
    return (f"Worst evaluated setting: {where}, ", number(worst, optimum.form(aim.name)), ".")


def _closed_form(optimum: OptimumView) -> Words:
    form, ettr = optimum.content.closed_form, optimum.places.at("closed_form", "ettr")
    if form is None or ettr is None:
        return ()
    answer = optimum.places.at("closed_form", "ettr_of_answer")
    of_answer = () if answer is None else line("; for the answer it gives ", number(answer, PERCENT))
    start = f"The closed form, which has no sampling error, puts the best ETTR at {optimum.where(form.values)}: "
    return line(start, number(ettr, PERCENT), of_answer, ".")


def _confirmed(optimum: OptimumView, common: Sequence[str]) -> Iterator[Words]:
    content, confirmation = optimum.content, optimum.content.confirmation
    if confirmation is not None:
        because = "; ".join(why(content))
        draws = f", each with {content.draws} other draws of the unknown inputs" if content.draws else ""
        runs = f"{number_of(confirmation.replications, 'replication')} of seed {confirmation.seed}{draws}"
        verdict = f"{_CONFIRMED[confirmation.confirmed]}{': ' if because else ''}{because}"
        yield (f"{verdict} ({runs}, not used in the search).",)
    if content.settings and not content.front:
        options = " ".join(f"--set {shlex.quote(text)}" for text in (*common, *content.settings))
        if len(options) > _LONGEST_COMMAND:
            options = f"with --set for each of the settings in {OPTIMIZE}"
        yield (f"To run it, in the folder of the results: ettrick run scenario.resolved.yaml {options}",)


def _notes(optimum: OptimumView) -> Iterator[str]:
    content, count = optimum.content, number_of(len(optimum.content.trials), "setting")
    over = f" on each of {content.draws} draws of the unknown inputs" if content.draws else ""
    runs = number_of(content.replications, "replication")
    limit = "at most" if content.method == "bounds" else "each"
    yield f"{count} evaluated ({_METHODS[content.method]}), {runs} {limit}{over}, on the same failures."
    if content.method == "curve":
        yield "The search misses a peak that is narrower than the gap between two values of its coarse look."
    without = content.closed_form_left_out
    if without is not None:
        yield f"The closed form does not apply to {without.combinations} of {count}: {without.reason}."
    for text in content.closed_form.assumptions if content.closed_form is not None else ():
        yield f"The closed form assumes: {text}"


# ----------------------------------------
# Pictures and tables of what was evaluated.


def _trials_picture(optimum: OptimumView, name: str) -> Figure | None:
    """Return a metric of all that was evaluated: along the axis if there is one of numbers, else the best of it.

    ``None`` if nothing has a mean of it. The table has all metrics.
    """
    content, metric, title = optimum.content, optimum.shown(name), _title(optimum)
    trials = [trial for trial in _best_first(optimum) if mean_of(trial, name) is not None]
    if not trials:
        return None
    texts = [(optimum.where(trial.values), metric.worded(summary_of(trial, name))) for trial in trials]
    alt = f"{capital(metric.name)} of what was evaluated. {'; '.join(f'{where}: {text}' for where, text in texts[:6])}."
    axis = _axis(optimum, trials)
    chart = _bars(optimum, title, metric, trials) if axis is None else _curve(optimum, title, metric, axis, trials)
    caption, missing = [], len(content.trials) - len(trials)
    if axis is None and len(trials) > _MOST_ROWS:
        caption.append(f"The {_MOST_ROWS} best of {number_of(len(trials), 'setting')}.")
    if missing:
        caption.append(f"{missing} of {number_of(len(content.trials), 'setting')} have no mean.")
    return Figure("evaluated", chart, alt, " ".join(caption), _trials_table(optimum))


def _levels(optimum: OptimumView, metric: MetricFormat) -> tuple[tuple[float, str], ...]:
    """Return the bounds of conditions on a metric, with the conditions."""
    conditions = (condition for trial in optimum.content.trials for condition in trial.conditions)
    return tuple({
        (condition.bound / metric.form.size, condition.condition): None
        for condition in conditions if condition.metric == metric.metric and condition.bound is not None
    })  # fmt: skip


def _bars(optimum: OptimumView, title: str, metric: MetricFormat, trials: Sequence[TrialSummary]) -> Intervals:
    rows = [
        bar(optimum.where(trial.values), metric, trial, "" if trial.met else "does not keep the conditions")
        for trial in trials[:_MOST_ROWS]
    ]
    return Intervals(title, metric.unit, tuple(rows), next(iter(_levels(optimum, metric)), None))


def _curve(
    optimum: OptimumView, title: str, metric: MetricFormat, axis: ChosenAxis, trials: Sequence[TrialSummary]
) -> Curves:
    line = AxisSlice({}, tuple(sorted(trials, key=lambda trial: trial.numbers[axis.name] or 0.0)))
    answer = optimum.content.answer
    edges: tuple[tuple[float, str], ...] = ()
    if answer is not None and not optimum.content.front:
        edges = (((answer.numbers[axis.name] or 0.0) / axis.size, f"answer: {answer.values[axis.name]}"),)
    series = (series_of(line, axis, metric),)
    return Curves(title, axis.scale, ChartAxis(metric.head), series, _levels(optimum, metric), edges)


def _best_first(optimum: OptimumView) -> list[TrialSummary]:
    """Return what was evaluated: what keeps the conditions first, and of these the best first."""
    aim = optimum.aim

    def place(trial: TrialSummary) -> tuple[bool, float]:
        value = trial.numbers.get(aim.name) if aim.is_axis else mean_of(trial, aim.name)
        return not trial.met, float("inf") if value is None else value if aim.lowest else -value

    return sorted(optimum.content.trials, key=place)


def _axis(optimum: OptimumView, trials: Sequence[TrialSummary]) -> ChosenAxis | None:
    """Return the axis if there is one alone, of numbers; ``None`` otherwise."""
    if len(optimum.content.axes) != 1 or len(trials) < 2:
        return None
    ((name, entry),) = optimum.content.axes.items()
    axis = ChosenAxis(name, entry.title, tuple(trial.values[name] for trial in trials),
                tuple(trial.numbers[name] for trial in trials))  # fmt: skip
    return axis if axis.is_numeric else None


def _trials_table(optimum: OptimumView) -> TableBlock:
    """Return all that was evaluated, or the best of it, with what the conditions say."""
    content = optimum.content
    trials = content.trials if content.method in ("curve", "edge") else _best_first(optimum)
    rows, more = trials[:_MOST_IN_TABLE], len(trials) - _MOST_IN_TABLE
    metrics = [optimum.shown(aim.name) for aim in content.aims if not aim.is_axis]

    def axis_column(name: str) -> Column[TrialSummary]:
        return Column(capital(content.axes[name].title), lambda trial: trial.values[name], is_number=False)

    columns: list[Column[TrialSummary]] = [
        *map(axis_column, content.axes),
        *map(_metric_column, metrics),
        *itertools.chain.from_iterable(
            _condition_columns(optimum, index, text) for index, text in enumerate(content.conditions)
        ),
        Column(
            "ETTR by the closed form",
            lambda trial: "not known" if trial.closed_form is None else percent_text(trial.closed_form),
            any(trial.closed_form is not None for trial in rows),
        ),
    ]
    note = f"{number_of(more, 'more setting')}: see {OPTIMIZE}." if more > 0 else ""
    return table_of("What was evaluated", rows, columns, note=note)


def _condition_columns(optimum: OptimumView, index: int, text: str) -> Iterator[Column[TrialSummary]]:
    """Yield what a condition came to, and whether it holds; settings that cannot run have none."""

    def value(trial: TrialSummary) -> str:
        for condition in trial.conditions[index : index + 1]:
            summary = {"mean": condition.mean, "mean_ci95": condition.ci95}
            return optimum.shown(condition.metric).worded(summary) or "no mean"
        return "cannot run"

    def verdict(trial: TrialSummary) -> str:
        return next((_VERDICTS[condition.verdict] for condition in trial.conditions[index : index + 1]), "fails")

    yield Column(text, value)
    yield Column("Verdict", verdict, is_number=False)


def _text(trial: TrialSummary, metric: MetricFormat) -> str:
    return metric.worded(summary_of(trial, metric.metric)) or ("cannot run" if trial.trouble else "no mean")


def _front_picture(optimum: OptimumView) -> Figure | None:
    """Return all that was evaluated by two aims, and the front of them; ``None`` with one aim."""
    content, aims = optimum.content, [aim for aim in optimum.content.aims if not aim.is_axis][:2]
    if not content.front or len(aims) < 2:
        return None
    metrics = [optimum.shown(aim.name) for aim in aims]
    standings = {_key(member): "front" if member.certain else "perhaps" for member in content.front}
    points = list(_front_points(optimum, metrics, standings))
    members = [trial for trial in content.trials if _key(trial) in standings]
    title = _title(optimum)
    table = table_of(title, members[:_MOST_IN_TABLE], (
        Column("Setting", lambda trial: optimum.where(trial.values)),
        *map(_metric_column, metrics),
        Column("On the front", lambda trial: _ON_FRONT[standings[_key(trial)]], is_number=False),
    ))  # fmt: skip
    x, y = (ChartAxis(metric.head) for metric in metrics)
    chart = FrontChart(title, x, y, tuple(points), aims[0].lowest, aims[1].lowest)
    alt = f"The front: {'; '.join(f'{row[0]}: {row[1]} and {row[2]}' for row in table.rows[:5])}."
    return Figure("optimum-front", chart, alt, "", table)


def _metric_column(metric: MetricFormat) -> Column[TrialSummary]:
    return Column(capital(metric.name), lambda trial: _text(trial, metric))


def _front_points(
    optimum: OptimumView, metrics: Sequence[MetricFormat], standings: Mapping[frozenset[tuple[str, str]], str]
) -> Iterator[FrontPoint]:
    for trial in optimum.content.trials:
        (_, x, x95, *_), (_, y, y95, *_) = (bar("", metric, trial) for metric in metrics)
        if x is not None and y is not None:
            yield FrontPoint(optimum.where(trial.values), x, y, x95, y95, standings.get(_key(trial), "behind"))


_ON_FRONT = {"front": "with 95 % confidence", "perhaps": "perhaps by chance"}


def _key(trial: TrialSummary) -> frozenset[tuple[str, str]]:
    return frozenset(trial.values.items())


class _FreshRow(NamedTuple):
    """A setting where it was found, on fresh failures, and by how much it is better than the scenario as it is."""

    where: str
    before: TrialSummary | None
    fresh: TrialSummary
    better: str


def _confirmation_picture(optimum: OptimumView) -> Figure | None:
    """Return the answer next to what fresh failures make of it; ``None`` without these, or without a metric."""
    fresh = optimum.content.confirmation
    if fresh is None or fresh.as_it_is is None or not optimum.metrics:
        return None
    name, metric = optimum.metrics[0], optimum.shown(optimum.metrics[0])
    rows = [*_fresh_rows(optimum, metric), _FreshRow("scenario as it is", None, fresh.as_it_is, "it is this one")]
    bars = [
        bar(f"{row.where}, {word}", metric, trial, "cannot run" if trial.trouble else "")
        for row in rows
        for word, trial in (("where found", row.before), ("fresh failures", row.fresh))
        if trial is not None
    ]
    if all(bar.mean is None for bar in bars):
        return None
    title = _CONFIRMED[fresh.confirmed]
    table = table_of(title, rows, (
        Column("Setting", lambda row: row.where),
        Column("Where found", lambda row: "not evaluated" if row.before is None else _text(row.before, metric)),
        Column("On fresh failures", lambda row: _text(row.fresh, metric)),
        Column("Better than as it is", lambda row: row.better, any(name in trial.gain for trial in fresh.trials)),
    ))  # fmt: skip
    alt = f"{capital(metric.name)}: {'; '.join(f'{row[0]}: {row[2]} on fresh failures' for row in table.rows)}."
    caption = "The best of many looks better than it is where it was found; fresh failures were not used to choose it."
    return Figure("confirmation", Intervals(title, metric.unit, tuple(bars)), alt, caption, table)


def _fresh_rows(optimum: OptimumView, metric: MetricFormat) -> Iterator[_FreshRow]:
    content, fresh = optimum.content, optimum.content.confirmation
    before = {_key(trial): trial for trial in (*content.front, content.answer, content.runner_up) if trial}
    for trial in () if fresh is None else fresh.trials:
        better = _better(trial.gain.get(metric.metric), metric)
        yield _FreshRow(optimum.where(trial.values), before.get(_key(trial)), trial, better)


def _better(gain: DifferenceSummary | None, metric: MetricFormat) -> str:
    if gain is None:
        return "not known"
    return "as good" if gain.mean == 0 and gain.ci95 is None else metric.change(gain)

"""The answers of a study: each kind of question is worded once, for the terminal, the first screen, sections and JSON.

An answer is a sentence of at most `WORDS` words, the best first, and a table of all combinations.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.analysis.amounts import (
    COUNT,
    PERCENT,
    MetricFormat,
    NumberFormat,
    capital,
    ends_of,
    is_wide,
    label_text,
    name_of,
    number_of,
    time_form,
)
from ettrick.analysis.metrics import lower_is_better
from ettrick.analysis.page.cells import (
    band_text,
    best_of,
    has_bands,
    missing_text,
    running,
    shown_of_cells,
    status_text,
    summary_of,
)
from ettrick.analysis.page.chapters.answer import (
    KEY,
    MOST_ROWS,
    AnsweredQuestion,
    AnswerText,
    CellRows,
    IntervalRow,
    asked_text,
    curves,
    front,
    front_data,
    intervals,
)
from ettrick.analysis.page.charts.data import ChartAxis, Curves, Series
from ettrick.analysis.page.glossary import metric_words
from ettrick.analysis.page.model import Figure, Header, Number, Section, TableBlock, grid, joined, plain
from ettrick.analysis.page.report_data import RUN
from ettrick.analysis.page.sourced import (
    SourcedEstimate,
    SourcedNumber,
    SourceDocument,
    bracket,
    either,
    line,
    listed,
    number,
    ranged,
    sentence,
    whole,
    worded,
)
from ettrick.analysis.results.models import AnswerSummary
from ettrick.sim.units import HOUR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ettrick.analysis.page.cells import ChosenAxis
    from ettrick.analysis.page.chapters.answer import Draw
    from ettrick.analysis.page.model import Words
    from ettrick.analysis.page.report_data import ReportData
    from ettrick.analysis.results.models import CellSummary, SweepDocument

WORDS = 45  # words of an answer at most, where it may leave out what its table has


def answers_of(places: SourceDocument, rows: CellRows | None = None) -> list[tuple[AnsweredQuestion, AnswerText]]:
    """Return what the answers of a study say, in order; those that say nothing are left out."""
    asked = [AnsweredQuestion(places, position, rows or CellRows()) for position in range(len(places.content.answers))]
    found = [(one, ANSWERS.get(one.content["use"], of_plugin)(one)) for one in asked]
    return [(one, worded) for one, worded in found if worded is not None]


def chosen_cells(content: SweepDocument) -> tuple[int, int | None] | None:
    """Return the numbers of two cells of a sweep: the one that a report looks at closely, and one to hold it against.

    The first question whose answer names both says which; else it is the cell with the best mean of the headline
    metric, and the first one that differs from it in nothing but one axis. The second is ``None`` where there is no
    other; ``None`` for both if no cell ran.
    """
    cells = {cell.cell: cell for cell in running(content)}
    if not cells:
        return None
    for _, answer in answers_of(SourceDocument(RUN, content)):
        if answer.cell in cells and answer.other in cells and answer.cell != answer.other:
            assert answer.cell is not None
            return answer.cell, answer.other
    best = (best_of(list(cells.values()), content.metrics[0]) or list(cells.values()))[0]
    others = [cell for cell in cells.values() if cell is not best]
    near = [cell for cell in others if len(cell.values.items() - best.values.items()) == 1]
    return best.cell, next((cell.cell for cell in (*near, *others)), None)


def sentences_of(content: SweepDocument) -> list[list[str]]:
    """Return each answer of the document of a sweep in words; one that says nothing keeps the reason why."""
    said = {asked.position: [plain(worded.answer)] for asked, worded in answers_of(SourceDocument(RUN, content))}
    return [said.get(place, answer.sentences) for place, answer in enumerate(content.answers)]


_DRAWN = ("best", "compare", "pareto")  # questions whose picture no other section has


def section(report_data: ReportData) -> Section | None:
    """Return the section with all answers and all results; ``None`` without a sweep."""
    content = report_data.sweep
    if content is None:
        return None
    answers = answers_of(
        SourceDocument(RUN, content), CellRows(report_data.table) if _METRIC in content.metrics else None
    )
    text = [line(f"{asked_text(asked)}. ", one.answer) for asked, one in answers]
    items: list[Figure | TableBlock] = []
    for place, (asked, one) in enumerate(answers):
        is_shown = place == 0 and report_data.kind == "sweep"
        picture = one.drawn(f"answer-{place + 1}") if asked.content["use"] in _DRAWN and not is_shown else None
        if picture is not None and not isinstance(picture.chart, Curves):
            items.append(picture if one.table is None else replace(picture, table=one.table))
        elif one.table is not None:
            items.append(one.table)
    if not any(asked.content["use"] == "pareto" for asked, _ in answers):
        items += _unasked_front(content, report_data.table)
    count = number_of(len(content.cells), "combination")
    title = f"All answers, and the results of {count}" if answers else f"The results of {count}"
    return Section("answers", title, tuple(text), (*items, all_results(content)), tuple(_notes(content)))


def _unasked_front(content: SweepDocument, rows: Sequence[Mapping[str, str]]) -> Iterator[Figure]:
    """Yield the front of two metrics that pull apart, where no question is about one."""
    data = front_data(content, rows)
    if data is not None:
        answer = AnswerSummary(use="pareto", sentences=[], data=data)
        asked = AnsweredQuestion(SourceDocument(RUN, content.model_copy(update={"answers": [answer]})), 0)
        found = pareto(asked)
        picture = None if found is None else found.drawn("front")
        if found is not None and picture is not None:
            yield replace(picture, table=found.table)


def all_results(content: SweepDocument, *, briefly: bool = False) -> TableBlock:
    """Return all cells of a sweep, or the best ones, as a table; briefly, only the first metric has intervals."""
    cells, metrics = running(content) if briefly else content.cells, content.metrics
    shown = [shown_of_cells(running(content), metric, content.currency) for metric in metrics]
    chosen = [name for name, axis in content.axes.items() if len({cell.values[name] for cell in cells}) > 1]
    rows, note = _chosen_rows(content, cells)
    columns = [Header(capital(str(content.axes[name].title)), is_number=False) for name in chosen]
    columns = columns or [Header("Study", is_number=False)]
    bands = [has_bands(rows, metric) for metric in metrics]
    for metric, has_band in zip(shown, bands, strict=True):
        columns += [Header(capital(metric.name))]
        columns += [Header("90 % band of unknown inputs")] if has_band else []
    has_spread = any(_spread(cell, shown[0]) for cell in rows)
    columns += [Header(f"One run: {shown[0].name}")] if has_spread else []
    has_unfinished = any(cell.censored for cell in rows)
    columns += [Header("Runs finished")] if has_unfinished else []
    is_mixed, is_precise = len(content.replications) > 1, content.precision is not None
    columns += [Header("Runs")] if is_mixed or is_precise else []
    has_trouble = any(cell.status != "ok" for cell in rows)
    columns += [Header("Status", is_number=False)] if has_trouble else []
    texts = []
    for cell in rows:
        row = [label_text(cell.values[name]) for name in chosen] or [content.study]
        for metric, has_band in zip(shown, bands, strict=True):
            found, is_first = summary_of(cell, metric.metric), metric is shown[0]
            text = metric.mean(found) if briefly and not is_first else metric.worded(found)
            row.append(text or ("-" if briefly else missing_text(cell, metric.metric)))
            row += [band_text(cell, metric)] if has_band else []
        row += [_spread(cell, shown[0]) or "not known"] if has_spread else []
        row += [f"{cell.replications - cell.censored} of {cell.replications}"] if has_unfinished else []
        too_few = ": too few" if is_precise and cell.precise is False else ""
        row += [f"{cell.replications:,}{too_few}"] if is_mixed or is_precise else []
        row += ["ran" if cell.status == "ok" else f"{status_text(cell)}: {cell.trouble}"] if has_trouble else []
        texts.append(row)
    return TableBlock(f"All results of {content.study}", columns, texts, note=note)


def _chosen_rows(content: SweepDocument, cells: Sequence[CellSummary]) -> tuple[Sequence[CellSummary], str]:
    """Return the cells of the table: all in order of the study, or the best; and what to know of that."""
    words = "In brackets the 95 % confidence interval of the mean: what more replications would make smaller."
    if len(cells) <= MOST_ROWS:
        return cells, words
    metric = content.metrics[0]
    best = best_of(running(content), metric)
    rows = best[:MOST_ROWS] or cells[:MOST_ROWS]
    which = "lowest" if lower_is_better(metric) else "highest"
    kept = f"the {len(rows)} with the {which} {name_of(metric)}, best first" if best else f"the first {len(rows)}"
    return rows, f"{words} These are {kept}; all {len(cells):,} are in points.csv."


def _spread(cell: CellSummary, metric: MetricFormat) -> str:
    found = summary_of(cell, metric.metric)
    if found.p05 is not None and found.p95 is not None:
        return metric.range((found.p05, found.p95)) or "all runs are equal"
    spread, form = found.std, metric.form
    if spread is None:
        return ""
    return f"± {form.plain(spread, (0.0, 2 * spread), metric.step if form.unit else '')}" if spread else "none"


def _notes(content: SweepDocument) -> Iterator[str]:
    numbers = content.replications
    if numbers:
        span = f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"
        yield f"{span} replications of each combination, on the same failures; seed {content.seed}."
    if any(summary_of(cell, content.metrics[0]).std for cell in content.cells):
        yield (
            "One run: the run-to-run variability, which no replication makes smaller; 5 % to 95 % of runs, or ± one "
            "standard deviation where there are too few for that."
        )
    yield from (capital(text) for text in itertools.chain(content.at_equal_lines, content.notes))


def brief(first: Words, rest: Sequence[Words], end: Words = (), *, before: str = "; ") -> tuple[Words, ...]:
    """Return the parts of a sentence with as many of some parts as `WORDS` allow: all, the first and the last, one."""
    for kept in (list(rest), [*rest[:1], *rest[-1:]], rest[-1:]):
        found = (first, *((before, listed(kept, before)) if kept else ()), end)
        if len(plain(line(*found)).split()) <= WORDS:
            return found
    return first, end


# ----------------------------------------
# Which combination is best, and which others may be as good.

_MOST_PARTS = 6  # rivals that a row of a table names
_MOST_NAMED = 2  # rivals that a sentence names; of more it tells how many


def best(asked: AnsweredQuestion) -> AnswerText | None:
    """Return which combination is best: of all, or for each value of some axes; ``None`` where none is."""
    groups: Sequence[Mapping[str, Any]] = asked.data.get("groups", [])
    known = [place for place, group in enumerate(groups) if group["best"]]
    if not known:
        return None
    each = tuple(name for name in asked.content.get("for_each", ()) if name in asked.varying)
    # Failure rates as stated come first, of all other values the one with the best mean.
    sign = -1 if asked.is_lowest else 1
    stated = [place for place in known if each and all(
        asked.is_factor(name) and groups[place]["at"][name] == "1" for name in each)]  # fmt: skip
    lead = stated[0] if stated else max(known, key=lambda place: sign * groups[place]["order"][0]["mean"])
    inner = [name for name in asked.varying if name not in each]
    where = line("with ", asked.where(groups[lead]["at"], *each), ", ") if each else ()
    mean, who = worded(_group_mean(asked, lead), asked.form), asked.some([groups[lead]["best"]], *inner)
    rivals = groups[lead]["may_be_best"]
    if _is_tie(groups[lead]):
        first = line(where, "all settings have the same ", asked.what, " in every run: ", mean)
        title = line(where, "all settings have the same ", asked.what)
    elif rivals:
        start = line(where, "the ", asked.most, " ", asked.what, ", ", mean, ", comes with ", who, "; ")
        end = line(" may be as good, ", asked.more_runs("groups", lead))
        others = asked.some(rivals, *inner) if len(rivals) <= _MOST_NAMED else ()
        if not others or len(plain(line(start, others, end)).split()) > WORDS:
            others = ("another one",) if len(rivals) == 1 else ("others",)
        first = line(start, others, end)
        title = line(where, who, " or ", others, f" may have the {asked.most} ", asked.what)
    else:
        ahead = () if each else _lead(asked, lead)
        first = line(where, "the ", asked.most, " ", asked.what, ", ", mean, ", comes with ", who, ahead)
        title = line(where, who, f" has the {asked.most} ", asked.what)
    same: dict[tuple[str, bool], list[int]] = {}
    for place in known:
        if place != lead:
            key = (plain(asked.where(groups[place]["best"], *inner)), bool(groups[place]["may_be_best"]))
            same.setdefault(key, []).append(place)
    rest = []
    for (name, is_open), places in same.items():
        is_same = name == plain(asked.where(groups[lead]["best"], *inner))
        winner = ("the same",) if is_same else asked.some([groups[places[0]]["best"]], *inner)
        there = asked.some([groups[place]["at"] for place in places], *each)
        rest.append(line("with ", there, " ", *((winner, " or others may be best") if is_open else ("it is ", winner))))
    return AnswerText(
        sentence(*brief(first, rest)),
        title,
        _best_picture(asked, lead, each),
        _best_table(asked, known, each) if each else _ranking_table(asked, groups[lead], inner),
        asked.cell(groups[lead]["best"]),
        next((asked.cell(entry["at"]) for entry in groups[lead]["order"][1:]), None),
    )


def _is_tie(group: Mapping[str, Any]) -> bool:
    order = group["order"]
    return len(order) > 1 and not any(entry["behind"] or any(entry["behind_ci95"] or ()) for entry in order)


def _group_mean(asked: AnsweredQuestion, place: int) -> SourcedEstimate:
    mean = asked.at("groups", place, "order", 0, "mean")
    found = asked.mean(asked.cell(asked.data["groups"][place]["best"]))
    assert mean is not None
    # Where numbers of runs differ the ranking is over those that all have, and the interval of the cell is not of it.
    is_same = found is not None and abs(found.mean.value - mean.value) <= 1e-9 * abs(mean.value)
    return found if found is not None and is_same else SourcedEstimate(mean)


def _lead(asked: AnsweredQuestion, place: int) -> Words:
    """Return how far the best of a group is ahead of the second; empty where it is alone."""
    order = asked.data["groups"][place]["order"]
    behind = asked.at("groups", place, "order", 1, "behind")
    if behind is None:
        return ()
    inner = [name for name in asked.varying if name not in asked.data["groups"][place]["at"]]
    second = asked.some([order[1]["at"]], *inner)
    if not behind.value:
        return line("; ", second, " comes to the same in every run")
    ends = asked.places.ends("answers", asked.position, "data", "groups", place, "order", 1, "behind_ci95")
    size = asked.apart(SourcedEstimate(behind, *(ends or ())), asked.at("groups", place, "order", 1, "mean"))
    years = asked.gpu_years(SourcedEstimate(behind, *(ends or ())), *(asked.cell(entry["at"]) for entry in order[:2]))
    return line(": ", size, years, " less than " if asked.is_lowest else " more than ", second)


def _best_table(asked: AnsweredQuestion, known: Sequence[int], each: Sequence[str]) -> TableBlock:
    inner = [name for name in asked.varying if name not in each]
    rows = []
    for place in known:
        group = asked.data["groups"][place]
        rivals = ", ".join(plain(asked.some([one], *inner)) for one in group["may_be_best"][:_MOST_PARTS])
        doubt = f"may be as good: {rivals}" if rivals else plain(_lead(asked, place)).lstrip(":; ")
        who = plain(asked.some([group["best"]], *inner))
        rows.append((group["at"], [who, asked.text(_group_mean(asked, place)), doubt]))
    return asked.grid(each, ("Best", capital(name_of(asked.metric)), "How sure"), rows, (0, 2))


def _ranking_table(asked: AnsweredQuestion, group: Mapping[str, Any], inner: Sequence[str]) -> TableBlock:
    """Return how far each setting is behind the best, with intervals that hold together."""
    shown = asked.shown()
    rows = []
    for position, entry in enumerate(group["order"]):
        sure = "behind" if position else "the best"
        if position and not entry["behind"] and not any(entry["behind_ci95"] or ()):
            sure = "the same in every run"
        elif entry["at"] in group["may_be_best"] or (group["may_be_best"] and not position):
            sure = "may be the best"
        behind = shown.distance(entry["behind"], entry["behind_ci95"]) if position else "0"
        rows.append((entry["at"], [asked.text(asked.mean(asked.cell(entry["at"]))), behind, sure]))
    heads = (capital(name_of(asked.metric)), "Behind the best, 95 % together", "How sure")
    return asked.grid(inner, heads, rows, (2,))


def _best_picture(asked: AnsweredQuestion, lead: int, each: tuple[str, ...]) -> Draw:
    inner = [name for name in asked.varying if name not in each]
    if each and len(inner) == 1 and asked.is_numeric(inner[0]):
        return curves(asked, inner[0], between=each[0] if len(each) == 1 else "")
    group = asked.data["groups"][lead]
    rivals = {asked.cell(labels) for labels in group["may_be_best"]}
    rows = []
    for position, entry in enumerate(group["order"]):
        cell = asked.cell(entry["at"])
        if cell is not None:
            may_be = bool(rivals) and (not position or cell in rivals)
            note = "" if _is_tie(group) else "may be best" if may_be else "" if position else "best"
            rows.append(IntervalRow(asked.short([entry["at"]], *inner), cell, note))
    return intervals(asked, rows)


# ----------------------------------------
# What each value of an axis changes.


def compare(asked: AnsweredQuestion) -> AnswerText | None:
    """Return what the values of an axis change, the largest change first; ``None`` where nothing can be compared."""
    axis, lines = asked.data["axis"], asked.data["lines"]
    found = [
        (place, label, difference)
        for place, content in enumerate(lines)
        for label in content["differences"]
        if (difference := asked.difference("lines", place, "differences", label)) is not None
    ]
    if not found:
        return None
    against = lines[0]["against"]
    start = line("compared with ", asked.named(axis, against), ", ", asked.subject, " ")
    order = sorted(found, key=lambda one: -abs(one[2].mean.value))
    firm = [one for one in order if lines[one[0]]["differences"][one[1]]["resolved"]]
    texts = [_changed(asked, *one) for one in firm or order[:1]]
    place, label, _ = (firm or order)[0]
    rows = []
    for one, content in enumerate(lines):
        for value, entry in content["differences"].items():
            labels = {**content["at"], axis: value}
            if entry is None:
                cell = asked.cell(labels)
                why = "not run" if cell is None else missing_text(asked.document.cells[cell], asked.metric)
                rows.append((labels, ["no mean", why]))
                continue
            is_same = not entry["mean"] and not any(entry["ci95"] or ())
            more = plain(asked.more_runs("lines", one, "differences", value))
            doubt = "resolved" if entry["resolved"] else "the same in every run" if is_same else more
            taken = entry.get("controlled")
            if not entry["resolved"] and taken and not taken["ci95"][0] <= 0 <= taken["ci95"][1]:
                doubt = f"without the sampling error of failures {_change_text(asked, {**taken, 'resolved': True})}"
            rows.append((labels, [asked.shown().form.change(entry["mean"], ends_of(entry["ci95"])), doubt]))
    heads = (f"Change from {label_text(against)}", "How sure")
    others = [name for name in asked.varying if name != axis]
    numeric = next((name for name in (*others, axis) if asked.is_numeric(name)), None)
    picture = intervals(asked, asked.all_rows())
    if numeric is not None and others:
        picture = curves(asked, numeric, between=axis if len(others) == 1 and numeric != axis else "")
    return AnswerText(
        sentence(*brief(line(start, texts[0]), texts[1:], before=" and ")),
        line(start, texts[0]),
        picture,
        asked.grid([*others, axis], heads, rows, (1,)) if len(rows) > 1 else None,
        asked.cell({**lines[place]["at"], axis: label}),
        asked.cell({**lines[place]["at"], axis: against}),
    )


def _changed(asked: AnsweredQuestion, place: int, label: str, found: SourcedEstimate) -> Words:
    content, axis = asked.data["lines"][place], asked.data["axis"]
    others = content["at"] if len(asked.data["lines"]) > 1 else {}
    where = line(" with ", asked.where({**others, axis: label}))
    base_cell = asked.cell({**content["at"], axis: content["against"]})
    base = asked.mean(base_cell)
    if not found.mean.value:
        return line("is the same in every run", where)
    if not content["differences"][label]["resolved"]:
        more = asked.more_runs("lines", place, "differences", label)
        return line("cannot be distinguished", where, " (", more, ")")
    size = asked.apart(found, None if base is None else base.mean)
    years = asked.gpu_years(found, base_cell, asked.cell({**content["at"], axis: label}))
    return line("rises by " if found.mean.value > 0 else "falls by ", size, years, where)


# ----------------------------------------
# Who is best along an axis, and where another one becomes the best.

_LARGE = 1000.0  # what is counted from which on it is not stated to the last one


def crossover(asked: AnsweredQuestion) -> AnswerText | None:
    """Return who is best where; ``None`` where nobody is."""
    lines: Sequence[Mapping[str, Any]] = asked.data["lines"]
    if not lines:
        return None
    along, who = asked.data["along"], asked.data["between"]
    texts = []
    for place, content in enumerate(lines):
        where, course = asked.where(content["at"]), _course(asked, place)
        texts.append(line("with ", where, " ", course) if where else course)
    last = len(lines) - 1
    edges = [(one["at"], f"{one['to']} ahead") for one in lines[last]["crossings"] if one["at"] is not None]
    stage = lines[last]["best"][-1]
    rows = []
    for place, content in enumerate(lines):
        for index, entry in enumerate(content["best"]):
            lead = plain(_stage_lead(asked, place, index)) if len(entry["may_be_best"]) == 1 else "not resolved"
            others = [name for name in entry["may_be_best"] if name != entry["best"]]
            rows.append(({**content["at"], along: entry["value"]},
                         [label_text(entry["best"]), lead, ", ".join(map(label_text, others))]))  # fmt: skip
    heads = ("Best", "Ahead of the second", "May be as good")
    where = asked.where(lines[last]["at"])
    return AnswerText(
        sentence(*brief(texts[last], texts[:last])),
        line("with " if where else "", where, " " if where else "", _in_short(asked, last)),
        curves(asked, along, between=who, edges=edges if len(lines) == 1 else ()),
        asked.grid([*lines[last]["at"], along], heads, rows, (0, 2)),
        asked.cell({**lines[last]["at"], along: stage["value"], who: stage["best"]}),
        next(
            (asked.cell({**lines[last]["at"], along: stage["value"], who: name}) for name in stage["order"][1:]), None
        ),
    )


_MOST_SPANS = 3  # parts of an axis that a sentence tells


class _Span(NamedTuple):
    """Neighbouring values at which the same may be best."""

    stages: list[int]
    names: list[str]


def _spans(asked: AnsweredQuestion, place: int) -> list[_Span]:
    """Return the axis in parts in which the same may be best."""
    stages = asked.data["lines"][place]["best"]
    grouped = itertools.groupby(range(len(stages)), key=lambda one: frozenset(stages[one]["may_be_best"]))
    found = [_Span(list(numbers), list(names)) for names, numbers in grouped]
    found = [_Span(span.stages, stages[span.stages[0]]["may_be_best"]) for span in found]
    firm = [span for span in found if len(span.names) == 1]
    if len(found) <= _MOST_SPANS or not firm:
        return found
    # Of many parts those are stated in which it is resolved who is best.
    merged = [list(spans) for _, spans in itertools.groupby(firm, key=lambda span: span.names)]
    return [_Span([stage for span in spans for stage in span.stages], spans[0].names) for spans in merged]


def _span_who(asked: AnsweredQuestion, span: _Span) -> Words:
    axis, most = asked.data["between"], _MOST_NAMED + 1
    names = [asked.value(axis, name) for name in span.names[: most if len(span.names) <= most else 1]]
    who = either(names if len(names) == len(span.names) else [*names, ("others",)])
    return who if plain(names[0]).startswith("“") else asked.with_name(axis, who)


def _course(asked: AnsweredQuestion, place: int) -> Words:
    """Return who is best from where to where, by how much at the end, and where the best changes at last."""
    spans = _spans(asked, place)
    parts: list[Words] = []
    for span in spans if len(spans) <= _MOST_SPANS else (spans[0], spans[-1]):
        is_open = len(span.names) > 1
        verb = " (not distinguished)" if is_open and parts else ""
        if not parts:
            verb = f" {'may have' if is_open else 'has'} the {asked.most} {asked.what}"
        parts.append(line("then " if parts else "", _span_who(asked, span), verb, " ", _from_to(asked, place, span)))
    lead = _stage_lead(asked, place, -1) if len(spans[-1].names) == 1 else ()
    where = asked.named(asked.data["along"], asked.data["lines"][place]["best"][-1]["value"])
    ahead = line(", ahead by ", lead, " with ", where) if lead else ()
    at = _crossing(asked, place)
    return line(listed(parts, ", "), ahead, *(("; the best changes at ", at) if at and len(spans) > 1 else ()))


def _from_to(asked: AnsweredQuestion, place: int, span: _Span) -> Words:
    stages, along = asked.data["lines"][place]["best"], asked.data["along"]
    first, last = (stages[span.stages[end]]["value"] for end in (0, -1))
    return line("at ", asked.named(along, first)) if first == last else asked.extent(along, first, last)


def _crossing(asked: AnsweredQuestion, place: int) -> Words:
    """Return about where the best changes at last, on a straight line between two values; empty where it does not."""
    crossings = asked.data["lines"][place]["crossings"]
    known = [index for index, one in enumerate(crossings) if one["at"] is not None]
    at = asked.at("lines", place, "crossings", known[-1], "at") if known else None
    if at is None:
        return ()
    along, form = asked.data["along"], asked.axis_form(asked.data["along"], at.value)
    # Of what is counted no decimals, and no more digits than what is between two values deserves.
    digits = form._replace(is_whole=False) if form.is_whole and at.value >= _LARGE else form
    about = number(at, digits, ends_of(crossings[known[-1]]["at_ci95"]))
    return line("about ", asked.with_name(along, (about,)))


def _stage_lead(asked: AnsweredQuestion, place: int, stage: int) -> Words:
    """Return by how much the best is ahead of the second at a value, in GPU-years too; empty without a second."""
    content = asked.data["lines"][place]
    stage %= len(content["best"])
    found = asked.difference("lines", place, "best", stage, "ahead_of_second")
    if found is None:
        return ()
    entry = content["best"][stage]
    here = {**content["at"], asked.data["along"]: entry["value"]}
    cells = [asked.cell({**here, asked.data["between"]: name}) for name in entry.get("order", ())[:2]]
    years = asked.gpu_years(found, *cells) if len(cells) == 2 else ()
    return line(asked.apart(found, asked.at("lines", place, "best", stage, "mean")), years)


def _in_short(asked: AnsweredQuestion, place: int) -> Words:
    spans, at = _spans(asked, place), _crossing(asked, place)
    first, last = (_span_who(asked, span) for span in (spans[0], spans[-1]))
    highest = f" the {asked.most} {asked.what}"
    if at and len(spans) > 1 and len(spans[-1].names) == 1:
        return line("beyond ", at, " ", last, " has", highest)
    verb = " has" if len(spans) == 1 and len(spans[0].names) == 1 else " may have"
    rest = line(", ", last, " ", _from_to(asked, place, spans[-1])) if len(spans) > 1 else ()
    return line(first, verb, highest, " ", _from_to(asked, place, spans[0]), rest)


# ----------------------------------------
# What cannot be had together.


def pareto(asked: AnsweredQuestion) -> AnswerText | None:
    """Return which combinations no other one beats in everything; ``None`` where nothing is known."""
    entries: Sequence[Mapping[str, Any]] = asked.data["front"]
    metrics = asked.data["metrics"]
    means = {place: asked.mean(asked.cell(entry["at"]), metrics[0]) for place, entry in enumerate(entries)}
    known = {place: found.mean.value for place, found in means.items() if found is not None}
    if not known:
        return None
    order = sorted(known, key=known.__getitem__, reverse=not asked.is_lowest_best(metrics[0]))
    names = [asked.title(name) if name in asked.data["axes"] else f"the {metric_words(name).removeprefix('the ')}"
             for name in (*metrics, *asked.data["axes"])]  # fmt: skip
    aims = listed([(name,) for name in names])
    ends = [order[0], order[-1]] if len(order) > 1 else order
    best = [asked.some([entries[place]["at"]]) for place in ends]
    texts = [line(one, " with ", _reached(asked, entries[at]["at"])) for one, at in zip(best, ends, strict=True)]
    ranking = dict.fromkeys(range(len(asked.document.cells)), "behind")
    rows = []
    for entry in (*(entries[place] for place in order), *asked.data["may_be_too"]):
        word = "front" if entry.get("certain") else "perhaps"
        cell = asked.cell(entry["at"])
        ranking |= {} if cell is None else {cell: word}
        standing = "on the front" if word == "front" else "perhaps on the front"
        rows.append((entry["at"], [*(asked.text(asked.mean(cell, name), name) for name in metrics), standing]))
    start = line("in ", aims, " at once, no other setting beats ")
    count = SourcedNumber(float(len(entries)), (f"{asked.places.file}#/answers/{asked.position}/data/front/*?",)) - 2.0
    more = line(" (", number(count, COUNT), " more between them)") if len(order) > 2 else ()
    answer = sentence(start, listed(texts), more)
    if len(plain(answer).split()) > WORDS:
        answer = sentence(start, listed(best))
    heads = (*(capital(name_of(name)) for name in metrics), "Standing")
    drawn = (*metrics, *asked.data["axes"])
    return AnswerText(
        answer,
        line("no other setting beats ", listed(best), " in ", aims, " at once"),
        front(asked, (drawn[0], drawn[1]), ranking),
        asked.grid(asked.varying, heads, rows, (len(metrics),)),
        asked.cell(entries[order[0]]["at"]),
    )


def _reached(asked: AnsweredQuestion, labels: Mapping[str, str]) -> Words:
    means = [(asked.mean(asked.cell(labels), name), asked.form_of(name)) for name in asked.data["metrics"]]
    return listed([worded(found, form) for found, form in means if found is not None])


# ----------------------------------------
# Which axis moves a metric most.

_LEAST = 0.001  # a share of the variance that is stated
_MOST_SHARES = 3


def sensitivity(asked: AnsweredQuestion) -> AnswerText | None:
    """Return what matters most; ``None`` where the points do not tell."""
    kind = asked.data.get("kind")
    return _tornado(asked) if kind == "tornado" else _indices(asked) if kind == "sobol" else None


def _tornado(asked: AnsweredQuestion) -> AnswerText | None:
    axes: Sequence[Mapping[str, Any]] = asked.data["axes"]
    if not axes or not axes[0]["swing"]:
        return None
    moves = [_move(asked, place) for place in range(len(axes[0]["moves"]))]
    start = line("what moves ", asked.subject, " most is ", asked.title(axes[0]["axis"]), ": ")
    rows = []
    for entry in axes:
        for move in entry["moves"]:
            change = move["difference"]
            text = move["trouble"]
            if change is not None:
                text = asked.shown().form.change(change["mean"], ends_of(change["ci95"]))
            rows.append([capital(asked.title(entry["axis"])), label_text(move["value"]), text])
    table = grid(asked_text(asked), ("ChosenAxis", "Value", f"Change of {name_of(asked.metric)}"), rows, (0, 1))
    title = line(asked.title(axes[0]["axis"]), " moves ", asked.subject, " most")
    known = [text for text in moves if text]
    answer = sentence(*brief(line(start, known[0]), known[1:], before=" and "))
    return AnswerText(answer, title, intervals(asked, asked.all_rows()), table, 0)


def _move(asked: AnsweredQuestion, place: int) -> Words:
    entry = asked.data["axes"][0]
    move = entry["moves"][place]
    found = None if move["difference"] is None else asked.difference("axes", 0, "moves", place, "difference")
    if found is None:
        return ()
    where = line("with ", asked.named(entry["axis"], move["value"]), " it ")
    if not found.mean.value:
        return line(where, "is the same in every run")
    if not move["difference"]["resolved"]:
        return line(where, "changes by no more than sampling error")
    word = "rises by " if found.mean.value > 0 else "falls by "
    return line(where, word, asked.apart(found, asked.at("center")))


def _indices(asked: AnsweredQuestion) -> AnswerText | None:
    axes: Sequence[Mapping[str, Any]] = asked.data["axes"]
    order = sorted(range(len(axes)), key=lambda place: -axes[place]["total"]["value"])
    shares = [(place, _index(asked, place)) for place in order]
    texts = [line(asked.title(axes[place]["axis"]), " with ", worded(share, PERCENT))
             for place, share in shares[:_MOST_SHARES] if share is not None and share.mean.value >= _LEAST]  # fmt: skip
    if not texts:
        return None
    rows = [[capital(asked.title(axes[place]["axis"])),
             "not resolved" if is_wide(share.interval) else PERCENT.value(share.mean.value, share.interval)]
            for place, share in shares if share is not None]  # fmt: skip
    table = grid(asked_text(asked), ("ChosenAxis", "Share of the variance, with interactions"), rows)
    answer = sentence(
        "what makes most of the differences in ", asked.subject, " is ", listed(texts), " of the variance"
    )
    title = line(asked.title(axes[order[0]]["axis"]), " moves ", asked.subject, " most")
    if shares[0][1] is not None and is_wide(shares[0][1].interval):
        title = line("which axis moves ", asked.subject, " most is not resolved: more samples would tell")
        answer = sentence(title)
    return AnswerText(answer, title, intervals(asked, asked.all_rows()), table, 0)


def _index(asked: AnsweredQuestion, place: int) -> SourcedEstimate | None:
    """Return which share of the variance an axis makes, with what it does together with others."""
    share = asked.at("axes", place, "total", "value")
    ends = asked.places.ends("answers", asked.position, "data", "axes", place, "total", "ci95")
    has_width = ends is not None and ends[1].value - ends[0].value > _LEAST
    return (
        None
        if share is None
        else SourcedEstimate(share, *ends)
        if ends is not None and has_width
        else SourcedEstimate(share)
    )


# ----------------------------------------
# What it takes for a metric to pass a value.

_ONE = SourcedNumber(1.0, (), "1")
_TIMES, _BARE = NumberFormat("times"), NumberFormat("")


class _Need(NamedTuple):
    """What one line takes."""

    place: int  # position of the line
    # Position of the crossing; ``None`` where the condition holds at all values that were evaluated, or at none.
    crossing: int | None
    holds: bool  # whether it holds at the first value


def threshold(asked: AnsweredQuestion) -> AnswerText | None:
    """Return what it takes, the combination that takes least first; ``None`` where nothing is known along the axis."""
    drawn = likely(asked)
    if drawn is not None:
        return drawn
    lines = asked.data["lines"]
    needs = [_need_of(place, content) for place, content in enumerate(lines) if content["points"]]
    if not needs:
        return None
    along, needs = asked.data["along"], sorted(needs, key=lambda need: _hardness(asked, need))
    easiest, hardest = needs[0], needs[-1]
    goal = line("for ", asked.subject, " to be ", _condition(asked), ", ")
    tell = _rate if asked.is_factor(along) else _amount
    if len(needs) == 1:
        answer = sentence(
            goal, tell(asked, easiest, is_first=True), _reliability(asked, easiest), _unsure(asked, easiest)
        )
        title = line(tell(asked, easiest, is_first=True), " for ", _condition(asked))
    else:
        today = _today(asked)
        where = [asked.where(lines[need.place]["at"]) for need in needs]
        if today:
            shorts = [line(place, ": ", _rate_short(asked, need)) for place, need in zip(where, needs, strict=True)]
            shorts[-1] = line("hardest is ", shorts[-1])
            answer = sentence(*brief(line(today, "; best is ", shorts[0]), shorts[1:]))
            title = today
        else:
            texts = [line("with ", place, ", ", tell(asked, need, is_first=need is easiest))
                     for place, need in zip(where, needs, strict=True)]  # fmt: skip
            answer = sentence(*brief(line(goal, texts[0]), texts[1:]))
            title = line(texts[0], "; ", texts[-1], " for ", _condition(asked))
    chosen = hardest if len(needs) == 1 else easiest if easiest.crossing is not None else next(
        (need for need in needs if need.crossing is not None), easiest)  # fmt: skip
    return AnswerText(
        answer,
        title,
        curves(asked, along),
        _threshold_table(asked, needs),
        _need_cell(asked, chosen),
        _need_cell(asked, chosen, holds=False),
        band=_need_band(asked, chosen),
    )


def _today(asked: AnsweredQuestion) -> Words:
    """Return in how many combinations the condition holds at the stated failure rate; empty along another axis."""
    if not asked.is_factor(asked.data["along"]):
        return ()
    points = [point for content in asked.data["lines"] for point in content["points"] if point["value"] == "1"]
    if not points:
        return ()
    source = f"{asked.places.file}#/answers/{asked.position}/data/lines/*/points/*?value=1"
    held = SourcedNumber(float(sum(point["holds"] for point in points)), (f"{source}&holds=true",))
    return line(asked.subject, " is ", _condition(asked), " today in ", number(held, COUNT), " of ",
                number(SourcedNumber(float(len(points)), (source,)), COUNT), " combinations")  # fmt: skip


def _rate_short(asked: AnsweredQuestion, need: _Need) -> Words:
    if need.crossing is None:
        return ("any evaluated rate" if need.holds else "no evaluated rate",)
    is_higher, times = _times(asked, need)
    if is_higher:
        mtti = asked.at("lines", need.place, "crossings", need.crossing, "mtti_s")
        hours = () if mtti is None else (" (MTTI ", number(mtti, time_form(mtti.value)), ")")
        return line("MTBF ", times, " as high", hours)
    return line("up to " if need.holds else "from ", times, " the rate")


_HOURS = NumberFormat("h", HOUR)
_RELIABILITY = (("mtti_s", "MTTI of the job"), ("mtbf_gpu_s", "MTBF per GPU"), ("mtbf_node_s", "MTBF per node"))


def _reliability(asked: AnsweredQuestion, need: _Need) -> Words:
    """Return the MTTI and the MTBF that a line takes; empty along an axis that is no failure rate."""
    place = ("lines", need.place, "crossings", need.crossing or 0)
    mtti, *mtbf = (asked.at(*place, key) for key, _ in _RELIABILITY)
    if mtti is None or None in mtbf:
        return ()
    per_gpu, per_node = (number(found, _HOURS) for found in mtbf if found is not None)
    return line("; that is an MTTI of ", number(mtti, time_form(mtti.value)), ", or an MTBF of ", per_gpu,
                " per GPU and ", per_node, " per node")  # fmt: skip


def _threshold_table(asked: AnsweredQuestion, needs: Sequence[_Need]) -> TableBlock:
    """Return where the condition holds in each combination of the other axes, and how sure that is."""
    along = asked.data["along"]
    heads = (
        f"{capital(asked.title(along))} for {plain(_condition(asked))}", "95 % interval", "90 % band of unknown inputs",
        "With 95 % confidence", *(head for _, head in _RELIABILITY),
    )  # fmt: skip
    rows = []
    for need in needs:
        content = asked.data["lines"][need.place]
        points, found = content["points"], content["crossings"]
        parts = [f"{'from' if one['begins'] else 'up to' if not place else 'to'} {_place_text(asked, one, one['at'])}"
                 for place, one in enumerate(found)]  # fmt: skip
        ends = [
            ", ".join(_ends_text(asked, points, one, one[key]) for one in found if one[key] is not None)
            for key in ("at_ci95", "band90")
        ]
        sure = [label_text(point["value"]) for point in points if point["holds_with_certainty"]]
        span = f"{sure[0]} to {sure[-1]}" if len(sure) > 1 else "".join(sure) or "nowhere"
        alone = "any evaluated value" if need.holds else "no evaluated value"
        hours = [", ".join(_HOURS.brief(one[key]) for one in found if key in one) for key, _ in _RELIABILITY]
        rows.append((content["at"], [" ".join(parts) or alone, *ends, span, *hours]))
    kept = [place for place in range(len(heads)) if not place or any(row[1][place] for row in rows)]
    texts = [(at, [row[place] for place in kept]) for at, row in rows]
    return asked.grid(list(asked.data["lines"][0]["at"]), [heads[place] for place in kept], texts)


def _place_text(asked: AnsweredQuestion, crossing: Mapping[str, Any], at: float) -> str:
    """Return a place on the axis; of what is counted the first, or the last, with which the condition holds."""
    form = asked.axis_form(asked.data["along"], at)
    if form.is_whole:
        at = math.ceil(at - 1e-9) if crossing["begins"] else math.floor(at + 1e-9)
    return form.plain(at)


def _ends_text(
    asked: AnsweredQuestion,
    points: Sequence[Mapping[str, Any]],
    crossing: Mapping[str, Any],
    ends: Sequence[float | None] | None,
) -> str:
    """Return between which places a crossing is; one that is not known lies beyond what was evaluated."""
    if ends is None:
        return ""
    low, high = (None if end is None else _place_text(asked, crossing, end) for end in ends)
    return f"{low or 'below ' + label_text(points[0]['value'])} to {high or 'above ' + label_text(points[-1]['value'])}"


def _need_of(place: int, content: Mapping[str, Any]) -> _Need:
    """Return what a line takes; of several crossings the last one that begins, or the first one that ends."""
    crossings: Sequence[Mapping[str, Any]] = content["crossings"]
    begin = [index for index, crossing in enumerate(crossings) if crossing["begins"]]
    end = [index for index, crossing in enumerate(crossings) if not crossing["begins"]]
    holds = bool(content["points"][0]["holds"])
    return _Need(place, end[0] if holds and end else begin[-1] if begin else None, holds)


def _hardness(asked: AnsweredQuestion, need: _Need) -> tuple[int, float]:
    if need.crossing is None:
        return (0 if need.holds else 2), 0.0
    at = asked.data["lines"][need.place]["crossings"][need.crossing]["at"]
    return 1, -at if need.holds else at


def _condition(asked: AnsweredQuestion) -> Words:
    key = "at_least" if "at_least" in asked.data else "at_most"
    level = asked.at(key)
    assert level is not None
    return line(key.replace("_", " "), " ", number(level, asked.form)._replace(text=asked.form.exact(level.value)))


def _amount(asked: AnsweredQuestion, need: _Need, *, is_first: bool) -> Words:
    """Return what a line takes, as a span of values of which two were evaluated; the name of the axis is said once."""
    if need.crossing is None:
        return _beyond(asked, need, is_first=is_first)
    along, span = asked.data["along"], _need_span(asked, need)
    straight = _straight(asked, need) if len(asked.data["lines"]) == 1 else ()
    if not asked.is_counted(along):
        start = f"{asked.title(along)} must be " if is_first else ""
        return line(start, "at most something " if need.holds else "at least something ", span, straight)
    named = asked.with_name(along, span) if is_first else span
    return line("it takes " if is_first else "", "at most " if need.holds else "", named, straight)


def _need_span(asked: AnsweredQuestion, need: _Need) -> Words:
    """Return between which values a line passes the level; of what is counted, which of them it may be."""
    along, points = asked.data["along"], asked.data["lines"][need.place]["points"]
    first, last = _bracket(asked, need)
    if not asked.is_counted(along):
        ends = [asked.value(along, points[end or 0]["value"]) for end in (first, last)]
        if last is None:
            return line("more than ", asked.value(along, points[-1]["value"]) if first is None else ends[0])
        return line("less than ", ends[1]) if first is None else line("between ", ends[0], " and ", ends[1])
    low = None if first is None else asked.at("lines", need.place, "points", first, "number")
    high = None if last is None else asked.at("lines", need.place, "points", last, "number")
    # It begins behind the last value below it, or ends before the first one above it.
    low = low if low is None or need.holds else low + 1.0
    high = high if high is None or not need.holds else high - 1.0
    texts = [
        line("fewer than ", asked.value(along, points[0]["value"])) if low is None else (number(low, COUNT),),
        line("more than ", asked.value(along, points[-1]["value"])) if high is None else (number(high, COUNT),),
    ]
    is_one = low is not None and high is not None and low.value == high.value
    return texts[0] if is_one else listed(texts, " to ")


def _bracket(asked: AnsweredQuestion, need: _Need) -> tuple[int | None, int | None]:
    """Return positions of the values that were evaluated on both sides of where a line passes the level."""
    content = asked.data["lines"][need.place]
    crossing = content["crossings"][need.crossing or 0]
    labels = [point["value"] for point in content["points"]]
    first, last = (labels.index(label) for label in crossing["between"])
    return bracket([point["number"] for point in content["points"]], (first, last), crossing["at_ci95"] or (None, None))


def _straight(asked: AnsweredQuestion, need: _Need) -> Words:
    at = _turned(asked, need, "at")
    assert at is not None
    return (" (about ", number(at, asked.axis_form(asked.data["along"], at.value)), " on a straight line)")


def _rate(asked: AnsweredQuestion, need: _Need, *, is_first: bool) -> Words:
    """Return how much higher the MTBF must be in a line, or how much more frequent failures may be."""
    if need.crossing is None:
        return _beyond(asked, need, is_first=is_first)
    is_higher, times = _times(asked, need)
    evaluated = _evaluated(asked, need, is_higher=is_higher) if is_first else ()
    stated = f" that of “{asked.document.scenario}”" if is_first else ""
    if is_higher:
        return line("the MTBF must be about ", times, stated or " as high", evaluated)
    verb = "the failure rate may be about " if need.holds else "the failure rate must be at least about "
    return line(verb, times, stated or " as high", evaluated)


def _times(asked: AnsweredQuestion, need: _Need) -> tuple[bool, Number]:
    """Return whether the MTBF must be higher, and by which factor; else how many times as frequent failures may be."""
    place = ("lines", need.place, "crossings", need.crossing or 0)
    found, low, high = asked.at(*place, "at"), asked.at(*place, "at_ci95", 0), asked.at(*place, "at_ci95", 1)
    assert found is not None
    is_higher = need.holds and found.value < 1
    if is_higher:
        found, low, high = _ONE / found, None if high is None else _ONE / high, None if low is None else _ONE / low
    return is_higher, number(found, _TIMES, None if low is None or high is None else (low.value, high.value))


def _evaluated(asked: AnsweredQuestion, need: _Need, *, is_higher: bool) -> Words:
    """Return the two rates that were evaluated next to where a line passes the level; empty where one is beyond all."""
    points = asked.data["lines"][need.place]["points"]
    places = [place for place in _bracket(asked, need) if place is not None]
    if len(places) < 2:
        return ()
    texts = [asked.value(asked.data["along"], points[place]["value"]) for place in places]
    known = [asked.at("lines", need.place, "points", place, "number") for place in places]
    if is_higher:
        texts = [(number(_ONE / one, _BARE),) for one in reversed(known) if one is not None and one.value]
    return line(" (evaluated: ", listed(texts), ")")


def _beyond(asked: AnsweredQuestion, need: _Need, *, is_first: bool) -> Words:
    """Return that the condition holds at all values that were evaluated, or at none."""
    points = asked.data["lines"][need.place]["points"]
    extent = asked.extent(asked.data["along"], points[0]["value"], points[-1]["value"])
    return line("any" if need.holds else "no", " evaluated value is enough", *((" (", extent, ")") if is_first else ()))


def _turned(asked: AnsweredQuestion, need: _Need, *keys: str | int) -> SourcedNumber | None:
    """Return a place of a crossing; of what is counted the first whole number behind it, or the last one before."""
    found = asked.at("lines", need.place, "crossings", need.crossing or 0, *keys)
    if found is None or not asked.axis_form(asked.data["along"], found.value).is_whole:
        return found
    return whole(found, up=not need.holds)


def _unsure(asked: AnsweredQuestion, need: _Need) -> Words:
    """Return that it is nowhere sure, where that is so; empty elsewhere."""
    points = asked.data["lines"][need.place]["points"]
    if not any(point["holds"] for point in points) or any(point["holds_with_certainty"] for point in points):
        return ()
    held = next(index for index in reversed(range(len(points))) if points[index]["holds"])
    ends = asked.places.ends("answers", asked.position, "data", "lines", need.place, "points", held, "mean_ci95")
    if ends is None:
        return ()
    unknown = asked.data["over"] == "parameters" and points[held]["band90"] is not None
    why = "with what is not known exactly" if unknown else "with so few simulated runs"
    where = asked.named(asked.data["along"], points[held]["value"])
    return line(
        "; ", why, " that is not resolved at any evaluated value (", ranged(*ends, asked.form), " at ", where, ")"
    )


def _need_band(asked: AnsweredQuestion, need: _Need) -> Words:
    """Return between which places unknown inputs move the answer; empty where that is not stated."""
    content = asked.data["lines"][need.place]
    if need.crossing is None or content["crossings"][need.crossing]["band90"] is None:
        return ()
    along = asked.data["along"]
    low, high = (_turned(asked, need, "band90", end) for end in (0, 1))
    ends: list[Words] = []
    for end, found, word in ((0, low, "fewer than "), (-1, high, "more than ")):
        if found is None:
            word = word if asked.is_counted(along) else word.replace("fewer", "less")
            ends.append(line(word, asked.value(along, content["points"][end]["value"])))
        else:
            ends.append((number(found, asked.axis_form(along, found.value)),))
    return line("from ", ends[0], " to ", asked.with_name(along, ends[1]))


def _need_cell(asked: AnsweredQuestion, need: _Need, *, holds: bool = True) -> int | None:
    """Return the cell that is nearest to what a line takes, on the side where the condition holds, or on the other."""
    content = asked.data["lines"][need.place]
    label = content["points"][0 if need.holds is holds else -1]["value"]
    if need.crossing is not None:
        label = content["crossings"][need.crossing]["between"][0 if need.holds is holds else 1]
    return asked.cell({**content["at"], asked.data["along"]: label})


# ----------------------------------------
# What it takes to finish in time with some probability, over what is not known exactly.

_METRIC = "p_finish_by"
_NORMAL = 1.96
_CLOSE = 0.01  # half-width of an interval from which on it is stated that shares of runs are not known well


class _Setting(NamedTuple):
    """A value that was evaluated: its label, its cell, and the share of runs that are in time over all draws."""

    label: str
    cell: int
    share: SourcedNumber


def likely(asked: AnsweredQuestion) -> AnswerText | None:
    """Return what it takes for a probability over runs and over unknown inputs; ``None`` where none were drawn.

    A probability to be in time is the share of runs that are, and whether the reason is chance or an input that is
    not known exactly is all the same to who waits: where runs with drawn inputs are there, they are what is asked for.
    """
    axis = asked.axis(asked.data["along"])
    if asked.metric != _METRIC or axis is None or len(asked.data["lines"]) != 1 or "at_least" not in asked.data:
        return None
    level, at = asked.data["at_least"], asked.data["lines"][0]["at"]
    order = sorted(zip(axis.numbers, axis.labels, strict=True), key=lambda pair: pair[0] or 0.0)
    cells = [(label, asked.cell({**at, axis.name: label})) for _, label in order]
    settings = [_Setting(label, cell, share) for label, cell in cells
                if cell is not None and (share := asked.rows.mean(cell, _METRIC, drawn=True)) is not None]  # fmt: skip
    if len(settings) < 2:
        return None
    unheld = [place for place, one in enumerate(settings) if one.share.value < level]
    first = unheld[-1] + 1 if unheld else 0
    if first in (0, len(settings)):
        extent = asked.extent(axis.name, settings[0].label, settings[-1].label)
        need = line("no" if first else "any", " evaluated value is enough (", extent, ")")
    else:
        ends = listed([asked.value(axis.name, settings[place].label) for place in (first - 1, first)])
        need = line("it takes ", asked.with_name(axis.name, line("between ", ends)))
    shown = [settings[place] for place in (first - 1, first) if 0 <= place < len(settings)]
    draws, each = (asked.places.at("cells", settings[0].cell, key) for key in ("draws", "replications"))
    has_runs = draws is not None and each is not None and draws.value
    runs = ("of ", number(draws * each, COUNT), " runs ") if has_runs and draws and each else ("of the runs ",)
    texts = [line(number(one.share, PERCENT), " with ", asked.value(axis.name, one.label)) for one in shown]
    # What would do if all inputs were at their central values.
    held = list(itertools.takewhile(lambda pair: pair[1], (
        (label, mean.mean.value >= level) for label, cell in reversed(cells)
        if (mean := asked.mean(cell)) is not None)))  # fmt: skip
    central = (
        sentence("at exactly the central values ", asked.named(axis.name, held[-1][0]), " would do") if held else ()
    )
    goal = line("for ", asked.subject, " to be ", _condition(asked), ", ", need, ": ", *runs)
    return AnswerText(
        joined([sentence(goal, listed(texts), " are in time, unknown inputs drawn"), central]),
        line(need, " for ", _condition(asked)),
        _likely_picture(asked, axis, settings, (level, plain(_condition(asked)))),
        None,
        settings[min(first, len(settings) - 1)].cell,
        settings[first - 1].cell if first else None,
        doubt=_likely_doubt(asked, shown, draws),
    )


def _likely_doubt(asked: AnsweredQuestion, shown: Sequence[_Setting], draws: SourcedNumber | None) -> Words:
    """Return what was drawn, and how well shares of so few draws are known."""
    titles = [(str(axis.title),) for axis in asked.document.axes.values() if axis.unknown]
    start = line("not known exactly: ", listed(titles), "; each run has failures of its own and one ")
    known = sentence(start, *(("draw of them",) if draws is None else ("of ", number(draws, COUNT), " draws of them")))
    values = [asked.rows.by_draw(one.cell, _METRIC) for one in shown]
    widest = max((_NORMAL * statistics.stdev(one) / math.sqrt(len(one)) for one in values if len(one) > 1), default=0.0)
    few = ("With so few draws such shares are known to a few percentage points only.",)
    return known if draws is None or widest < _CLOSE else joined([known, few])


def _likely_picture(
    asked: AnsweredQuestion, axis: ChosenAxis, settings: list[_Setting], level: tuple[float, str]
) -> Draw:
    """Return what draws the share of runs that are in time, with drawn inputs and at the central values."""

    def picture(title: str) -> Figure | None:
        numbers: Mapping[str, float] = {label: one or 0.0 for label, one in zip(axis.labels, axis.numbers, strict=True)}
        x = tuple(numbers[one.label] / axis.size for one in settings)
        means = [asked.mean(one.cell) for one in settings]
        central = tuple(None if mean is None else 100 * mean.mean.value for mean in means)
        drawn = Series("unknown inputs drawn", x, tuple(100 * one.share.value for one in settings), hue=0)
        series = (drawn, Series("central values", x, central, hue=1))
        what = capital(asked.what)
        chart = Curves(title, axis.scale, ChartAxis(f"{what} [%]"), series, levels=((100 * level[0], level[1]),))
        rows = [
            (plain(asked.value(axis.name, one.label)), plain((number(one.share, PERCENT),)),
             "" if mean is None else asked.form.value(mean.mean.value, mean.interval))
            for one, mean in zip(settings, means, strict=True)
        ]  # fmt: skip
        heads = (axis.title, "unknown inputs drawn", "central values")
        shares = "; ".join(f"{row[1]} with {row[0]}" for row in rows)
        alt = f"{what} with unknown inputs drawn, along {axis.title}: {shares}."
        return Figure(KEY, chart, alt, "Shares of runs that are in time.", grid(title, heads, rows))

    return picture


# ----------------------------------------
# What an axis does to a metric.

_MOSTLY = 2 / 3


class _Change(NamedTuple):
    """What the axis does along one line, from its first value to its last."""

    place: int
    found: SourcedEstimate
    base: SourcedNumber | None
    resolved: bool


def trend(asked: AnsweredQuestion) -> AnswerText | None:
    """Return what the axis changes, the largest change first; ``None`` where no two values have a mean."""
    lines: Sequence[Mapping[str, Any]] = asked.data["lines"]
    changes = []
    for place, content in enumerate(lines):
        found = asked.difference("lines", place, "whole", "difference")
        if found is not None:
            resolved = bool(content["whole"]["difference"]["resolved"])
            changes.append(_Change(place, found, asked.at("lines", place, "points", 0, "mean"), resolved))
    if not changes:
        return None
    along, order = asked.data["along"], sorted(changes, key=lambda change: -abs(change.found.mean.value))
    largest = order[0]
    ends = lines[largest.place]["whole"]
    start = line(asked.extent(along, ends["from"], ends["to"]), " ", asked.subject, " ")
    texts = [_trend_change(asked, change) for change in order if change.resolved or len(changes) == 1]
    if len(changes) > 1 and not any(change.resolved for change in changes):
        texts = [("does not change by more than sampling error, whatever the other values are",)]
    end = line(_mostly(asked, largest), _turn(asked, largest))
    answer = brief(line(start, texts[0]), texts[1:], end, before=" and ")
    at = lines[largest.place]["at"]
    return AnswerText(
        sentence(*answer),
        line(start, texts[0], _mostly(asked, largest)),
        curves(asked, along),
        _trend_table(asked),
        asked.cell({**at, along: ends["to"]}),
        asked.cell({**at, along: ends["from"]}),
    )


def _trend_change(asked: AnsweredQuestion, change: _Change) -> Words:
    at = asked.data["lines"][change.place]["at"]
    where = line(" with ", asked.where(at)) if at else ""
    if not change.resolved:
        same = not change.found.mean.value
        return line("stays the same in every run" if same else "does not change by more than sampling error", where)
    word = "rises by " if change.found.mean.value > 0 else "falls by "
    return line(word, asked.apart(change.found, change.base), where)


def _mostly(asked: AnsweredQuestion, change: _Change) -> Words:
    """Return where most of a change happens, if one step makes more than two thirds of it; empty elsewhere."""
    steps = asked.data["lines"][change.place]["steps"]
    largest = max(steps, key=lambda step: abs(step["difference"]["mean"]))
    size = change.found.mean.value
    if len(steps) < 2 or not size or largest["difference"]["mean"] / size < _MOSTLY or not change.resolved:
        return ()
    along = asked.data["along"]
    return line(", mostly from ", asked.value(along, largest["from"]), " to ", asked.value(along, largest["to"]))


def _turn(asked: AnsweredQuestion, change: _Change) -> Words:
    """Return where the metric is best on the way; empty where that is at an end."""
    content = asked.data["lines"][change.place]
    points = content["points"]
    best = max(points, key=lambda point: (-1 if asked.is_lowest else 1) * point["mean"])
    if content.get("course") != "turns" or best in (points[0], points[-1]):
        return ()
    along = asked.data["along"]
    found = asked.mean(asked.cell({**content["at"], along: best["value"]}))
    if found is None:
        return ()
    return line("; the ", asked.most, " is ", worded(found, asked.form), " at ", asked.named(along, best["value"]))


_COURSES = {"rises": "rises", "falls": "falls", "turns": "turns on the way", "flat": "no step is resolved"}


def _trend_table(asked: AnsweredQuestion) -> TableBlock:
    """Return the course along each line: both ends, the change, the largest step that is resolved, and its kind."""
    rows = []
    for content in asked.data["lines"]:
        if "whole" not in content:
            continue
        ends = [content["points"][place] for place in (0, -1)]
        change = content["whole"]["difference"]
        steps = [step for step in content["steps"] if step["difference"]["resolved"]]
        step = max(steps, key=lambda one: abs(one["difference"]["mean"]), default=None)
        largest = ""
        if step is not None:
            largest = (
                f"{label_text(step['from'])} to {label_text(step['to'])}: {_change_text(asked, step['difference'])}"
            )
        form = asked.shown().form
        spans = [f"{form.plain(end['mean'])} at {label_text(end['value'])}" for end in ends]
        course = _COURSES.get(content["course"], "")
        rows.append((content["at"], [*spans, _change_text(asked, change), largest, course]))
    heads = ("First", "Last", "Change", "Largest step", "Course")
    return asked.grid(list(asked.data["lines"][0]["at"]), heads, rows, (3, 4))


def _change_text(asked: AnsweredQuestion, found: Mapping[str, Any]) -> str:
    text = asked.shown().form.change(found["mean"], ends_of(found["ci95"]))
    return text if found["resolved"] else f"{text}, not resolved"


# By kind of question: what its answer says, or ``None`` where there is nothing to say.
def of_plugin(asked: AnsweredQuestion) -> AnswerText:
    """Return the answer of a question that another package brings: its own words, or else its numbers."""
    data = json.dumps(asked.data, ensure_ascii=False)
    said = " ".join(asked.document.answers[asked.position].sentences) or f"{asked_text(asked)}: {data}."
    return AnswerText((said,), (asked_text(asked),), lambda _: None)


ANSWERS: dict[str, Callable[[AnsweredQuestion], AnswerText | None]] = {
    "best": best,
    "compare": compare,
    "crossover": crossover,
    "pareto": pareto,
    "sensitivity": sensitivity,
    "threshold": threshold,
    "trend": trend,
}

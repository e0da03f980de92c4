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
from ettrick.analysis.page.model import Column, Figure, Number, Section, TableBlock, grid, joined, plain, table_of
from ettrick.analysis.page.sourced import (
    RUN,
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
from ettrick.analysis.results import answers as typed
from ettrick.analysis.results.models import AnswerSummary
from ettrick.sim.units import HOUR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ettrick.analysis.page.chapters.answer import AnsweredQuestion as Asked
    from ettrick.analysis.page.chapters.answer import Draw
    from ettrick.analysis.page.model import Words
    from ettrick.analysis.parts import ControlledDifference, DifferenceSummary
    from ettrick.analysis.results.models import CellSummary, SweepDocument

WORDS = 45  # words of an answer at most, where it may leave out what its table has


def answers_of(places: SourceDocument, rows: CellRows | None = None) -> list[tuple[Asked[Any], AnswerText]]:
    """Return what the answers of a study say, in order; those that say nothing are left out."""
    count = len(places.content.answers)
    questions: list[Asked[Any]] = [AnsweredQuestion(places, index, rows or CellRows()) for index in range(count)]
    return [(asked, text) for asked in questions if (text := _answer_text(asked)) is not None]


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
        if answer.cell is not None and answer.cell != answer.other and {answer.cell, answer.other} <= cells.keys():
            return answer.cell, answer.other
    best = (best_of(list(cells.values()), content.metrics[0]) or list(cells.values()))[0]
    rivals = [cell for cell in cells.values() if cell is not best]
    rivals.sort(key=lambda cell: len(cell.values.items() - best.values.items()) != 1)
    return best.cell, rivals[0].cell if rivals else None


def sentences_of(content: SweepDocument) -> list[list[str]]:
    """Return each answer of the document of a sweep in words; one that says nothing keeps the reason why."""
    sentences = {asked.position: [plain(text.answer)] for asked, text in answers_of(SourceDocument(RUN, content))}
    return [sentences.get(index, answer.sentences) for index, answer in enumerate(content.answers)]


_DRAWN = ("best", "compare", "pareto")  # questions whose picture no other section has


def section_of(content: SweepDocument, rows: Sequence[Mapping[str, str]], *, is_opened: bool) -> Section:
    """Return the section with all answers and all results; the first screen may have opened with the first one."""
    answers = answers_of(SourceDocument(RUN, content), CellRows(rows) if _METRIC in content.metrics else None)
    count = number_of(len(content.cells), "combination")
    return Section(
        "answers",
        f"All answers, and the results of {count}" if answers else f"The results of {count}",
        tuple(line(f"{asked_text(asked)}. ", text.answer) for asked, text in answers),
        (*_items(content, rows, answers, is_opened=is_opened), all_results(content)),
        tuple(_notes(content)),
    )


def _items(
    content: SweepDocument,
    rows: Sequence[Mapping[str, str]],
    answers: Sequence[tuple[Asked[Any], AnswerText]],
    *,
    is_opened: bool,
) -> Iterator[Figure | TableBlock]:
    """Yield the picture or the table of each answer, and the front of two metrics if no question is about one."""
    for index, (asked, text) in enumerate(answers):
        is_shown = index == 0 and is_opened
        picture = text.drawn(f"answer-{index + 1}") if asked.content["use"] in _DRAWN and not is_shown else None
        if picture is not None and not isinstance(picture.chart, Curves):
            yield picture if text.table is None else replace(picture, table=text.table)
        elif text.table is not None:
            yield text.table
    if not any(asked.content["use"] == "pareto" for asked, _ in answers):
        yield from _unasked_front(content, rows)


def _unasked_front(content: SweepDocument, rows: Sequence[Mapping[str, str]]) -> Iterator[Figure]:
    """Yield the front of two metrics that pull apart, where no question is about one."""
    data = front_data(content, rows)
    if data is not None:
        answer = AnswerSummary(use="pareto", sentences=[], data=data)
        document = SourceDocument(RUN, content.model_copy(update={"answers": [answer]}))
        for _, text in answers_of(document):
            picture = text.drawn("front")
            if picture is not None:
                yield replace(picture, table=text.table)


def all_results(content: SweepDocument, *, briefly: bool = False) -> TableBlock:
    """Return all cells of a sweep, or the best ones, as a table; briefly, only the first metric has intervals."""
    cells = running(content) if briefly else content.cells
    rows, note = _chosen_rows(content, cells)
    varying = _varying(content, cells)
    metrics = [shown_of_cells(running(content), metric, content.currency) for metric in content.metrics]
    columns: list[Column[CellSummary]] = [
        *(_axis_column(content, name) for name in varying),
        Column("Study", lambda _: content.study, not varying, is_number=False),
        *(column for metric in metrics
          for column in _metric_columns(metric, rows, is_brief=briefly, is_first=metric is metrics[0])),
        Column(f"One run: {metrics[0].name}", lambda cell: _spread(cell, metrics[0]) or "not known",
               any(_spread(cell, metrics[0]) for cell in rows)),
        Column("Runs finished", lambda cell: f"{cell.replications - cell.censored} of {cell.replications}",
               any(cell.censored for cell in rows)),
        Column("Runs", lambda cell: f"{cell.replications:,}{': too few' if cell.precise is False else ''}",
               len(content.replications) > 1 or content.precision is not None),
        Column("Status", lambda cell: "ran" if cell.status == "ok" else f"{status_text(cell)}: {cell.trouble}",
               any(cell.status != "ok" for cell in rows), is_number=False),
    ]  # fmt: skip
    return table_of(f"All results of {content.study}", rows, columns, note=note)


def _varying(content: SweepDocument, cells: Sequence[CellSummary]) -> list[str]:
    return [name for name in content.axes if len({cell.values[name] for cell in cells}) > 1]


def _axis_column(content: SweepDocument, name: str) -> Column[CellSummary]:
    return Column(capital(content.axes[name].title), lambda cell: label_text(cell.values[name]), is_number=False)


def _metric_columns(
    metric: MetricFormat, rows: Sequence[CellSummary], *, is_brief: bool, is_first: bool
) -> Iterator[Column[CellSummary]]:
    """Yield the means of a metric, or why there is none; briefly, the first metric alone has intervals."""

    def mean(cell: CellSummary) -> str:
        summary = summary_of(cell, metric.metric)
        text = metric.mean(summary) if is_brief and not is_first else metric.worded(summary)
        return text or ("-" if is_brief else missing_text(cell, metric.metric))

    yield Column(capital(metric.name), mean)
    yield Column("90 % band of unknown inputs", lambda cell: band_text(cell, metric), has_bands(rows, metric.metric))


def _chosen_rows(content: SweepDocument, cells: Sequence[CellSummary]) -> tuple[Sequence[CellSummary], str]:
    """Return the cells of the table: all in order of the study, or the best; and what to know of that."""
    note = "In brackets the 95 % confidence interval of the mean: what more replications would make smaller."
    if len(cells) <= MOST_ROWS:
        return cells, note
    metric = content.metrics[0]
    best = best_of(running(content), metric)
    rows = best[:MOST_ROWS] or cells[:MOST_ROWS]
    which = "lowest" if lower_is_better(metric) else "highest"
    shown = f"the {len(rows)} with the {which} {name_of(metric)}, best first" if best else f"the first {len(rows)}"
    return rows, f"{note} These are {shown}; all {len(cells):,} are in points.csv."


def _spread(cell: CellSummary, metric: MetricFormat) -> str:
    summary = summary_of(cell, metric.metric)
    if summary.p05 is not None and summary.p95 is not None:
        return metric.range((summary.p05, summary.p95)) or "all runs are equal"
    spread, form = summary.std, metric.form
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
    for chosen in (list(rest), [*rest[:1], *rest[-1:]], rest[-1:]):
        parts = (first, *((before, listed(chosen, before)) if chosen else ()), end)
        if len(plain(line(*parts)).split()) <= WORDS:
            return parts
    return first, end


# ----------------------------------------
# Which combination is best, and which others may be as good.

_MOST_PARTS = 6  # rivals that a row of a table names
_MOST_NAMED = 2  # rivals that a sentence names; of more it tells how many


def _best(asked: Asked[typed.BestAnswer]) -> AnswerText | None:
    """Return which combination is best: of all, or for each value of some axes; ``None`` where none is."""
    leader = _leading_group(asked)
    if leader is None:
        return None
    group = asked.answer.groups[leader]
    first, title = _best_words(asked, leader)
    return AnswerText(
        sentence(*brief(first, _other_groups(asked, leader))),
        title,
        asked.cell(group.best or {}),
        next((asked.cell(entry.at) for entry in group.order[1:]), None),
    )


def _for_each(asked: Asked[typed.BestAnswer]) -> list[str]:
    return [name for name in asked.content.get("for_each", ()) if name in asked.varying]


def _inner(asked: Asked[typed.BestAnswer]) -> list[str]:
    """Return the axes among whose values the best one is sought."""
    return [name for name in asked.varying if name not in _for_each(asked)]


def _leading_group(asked: Asked[typed.BestAnswer]) -> int | None:
    """Return the index of the group with failure rates as stated, else of that with the best mean."""
    groups, each = asked.answer.groups, _for_each(asked)
    ranked = [index for index, group in enumerate(groups) if group.best]
    if each and all(map(asked.is_factor, each)):
        stated = [index for index in ranked if all(groups[index].at[name] == "1" for name in each)]
        ranked = stated[:1] or ranked
    sign = -1 if asked.is_lowest else 1
    return max(ranked, key=lambda index: sign * groups[index].order[0].mean, default=None)


def _best_words(asked: Asked[typed.BestAnswer], index: int) -> tuple[Words, Words]:
    """Return what is best in a group, and the same in short."""
    group, each, inner = asked.answer.groups[index], _for_each(asked), _inner(asked)
    where = line("with ", asked.where(group.at, *each), ", ") if each else ()
    mean, who = worded(_group_mean(asked, index), asked.form), asked.some([group.best or {}], *inner)
    if _is_tie(group):
        title = line(where, "all settings have the same ", asked.what)
        return line(title, " in every run: ", mean), title
    start = line(where, "the ", asked.most, " ", asked.what, ", ", mean, ", comes with ", who)
    rivals = group.may_be_best
    if not rivals:
        return line(start, () if each else _lead(asked, index)), line(where, who, f" has the {asked.most} ", asked.what)
    end = line(" may be as good, ", asked.more_runs("groups", index))
    names = asked.some(rivals, *inner) if len(rivals) <= _MOST_NAMED else ()
    if not names or len(plain(line(start, "; ", names, end)).split()) > WORDS:
        names = ("another one",) if len(rivals) == 1 else ("others",)
    return line(start, "; ", names, end), line(where, who, " or ", names, f" may have the {asked.most} ", asked.what)


def _other_groups(asked: Asked[typed.BestAnswer], leader: int) -> list[Words]:
    """Return what is best in the other groups, those with the same answer together."""
    groups, inner = asked.answer.groups, _inner(asked)
    names = [plain(asked.where(group.best or {}, *inner)) for group in groups]
    alike: dict[tuple[str, bool], list[typed.RankedGroup]] = {}
    for index, group in enumerate(groups):
        if group.best and index != leader:
            alike.setdefault((names[index], bool(group.may_be_best)), []).append(group)
    texts = []
    for (name, is_open), members in alike.items():
        winner = ("the same",) if name == names[leader] else asked.some([members[0].best or {}], *inner)
        where = asked.some([group.at for group in members], *_for_each(asked))
        verdict = line(winner, " or others may be best") if is_open else line("it is ", winner)
        texts.append(line("with ", where, " ", verdict))
    return texts


def _is_tie(group: typed.RankedGroup) -> bool:
    order = group.order
    return len(order) > 1 and not any(entry.behind or any(entry.behind_ci95 or ()) for entry in order)


def _group_mean(asked: Asked[typed.BestAnswer], index: int) -> SourcedEstimate:
    mean = asked.at("groups", index, "order", 0, "mean")
    of_cell = asked.mean(asked.cell(asked.answer.groups[index].best or {}))
    assert mean is not None, "a group that has a best cell is ranked"
    # Where numbers of runs differ the ranking is over those that all have, and the interval of the cell is not of it.
    is_same = of_cell is not None and abs(of_cell.mean.value - mean.value) <= 1e-9 * abs(mean.value)
    return of_cell if of_cell is not None and is_same else SourcedEstimate(mean)


def _lead(asked: Asked[typed.BestAnswer], index: int) -> Words:
    """Return how far the best of a group is ahead of the second; empty where it is alone."""
    group, keys = asked.answer.groups[index], ("groups", index, "order", 1)
    behind = asked.at(*keys, "behind")
    if behind is None:
        return ()
    second = asked.some([group.order[1].at], *(name for name in asked.varying if name not in group.at))
    if not behind.value:
        return line("; ", second, " comes to the same in every run")
    distance = SourcedEstimate(behind, *(asked.ends(*keys, "behind_ci95") or ()))
    years = asked.gpu_years(distance, *(asked.cell(entry.at) for entry in group.order[:2]))
    size = asked.apart(distance, asked.at(*keys, "mean"))
    return line(": ", size, years, " less than " if asked.is_lowest else " more than ", second)


def _best_table(asked: Asked[typed.BestAnswer]) -> TableBlock | None:
    """Return the best of each group, or how far each setting is behind the best, with intervals that hold together."""
    metric, each = capital(name_of(asked.metric)), _for_each(asked)
    if each:
        ranked = [(group.at, index) for index, group in enumerate(asked.answer.groups) if group.best]
        return asked.table(each, ranked, (
            Column("Best", lambda index: plain(asked.some([asked.answer.groups[index].best or {}], *_inner(asked))),
                   is_number=False),
            Column(metric, lambda index: asked.text(_group_mean(asked, index))),
            Column("How sure", lambda index: _rivals_text(asked, index), is_number=False),
        ))  # fmt: skip
    group = asked.answer.groups[_leading_group(asked) or 0]
    shown = asked.shown()
    return asked.table(_inner(asked), [(entry.at, entry) for entry in group.order], (
        Column(metric, lambda entry: asked.text(asked.mean(asked.cell(entry.at)))),
        Column("Behind the best, 95 % together", lambda entry: "0" if entry is group.order[0] else shown.distance(
            entry.behind, entry.behind_ci95)),
        Column("How sure", lambda entry: _standing(group, entry), is_number=False),
    ))  # fmt: skip


def _rivals_text(asked: Asked[typed.BestAnswer], index: int) -> str:
    """Return what may be as good as the best of a group, or how far that is ahead."""
    names = [plain(asked.some([at], *_inner(asked))) for at in asked.answer.groups[index].may_be_best[:_MOST_PARTS]]
    return f"may be as good: {', '.join(names)}" if names else plain(_lead(asked, index)).lstrip(":; ")


def _standing(group: typed.RankedGroup, entry: typed.RankedCell) -> str:
    """Return how sure it is that a cell is the best of its group, or is not."""
    is_first = entry is group.order[0]
    if not is_first and not entry.behind and not any(entry.behind_ci95 or ()):
        return "the same in every run"
    if entry.at in group.may_be_best or (is_first and group.may_be_best):
        return "may be the best"
    return "the best" if is_first else "behind"


def _best_picture(asked: Asked[typed.BestAnswer]) -> Draw:
    each, inner = _for_each(asked), _inner(asked)
    if each and len(inner) == 1 and asked.is_numeric(inner[0]):
        return curves(asked, inner[0], between=each[0] if len(each) == 1 else "")
    group = asked.answer.groups[_leading_group(asked) or 0]
    rivals = {asked.cell(labels) for labels in group.may_be_best}
    rows = []
    for index, entry in enumerate(group.order):
        cell = asked.cell(entry.at)
        may_be_best = bool(rivals) and (not index or cell in rivals)
        note = "" if _is_tie(group) else "may be best" if may_be_best else "" if index else "best"
        rows += [] if cell is None else [IntervalRow(asked.short([entry.at], *inner), cell, note)]
    return intervals(asked, rows)


# ----------------------------------------
# What each value of an axis changes.


class _ValueChange(NamedTuple):
    """What a value of the axis changes: the position of its line, its label, and how much."""

    position: int
    label: str
    change: SourcedEstimate


def _changes(asked: Asked[typed.CompareAnswer]) -> list[_ValueChange]:
    """Return what is known of the changes, the largest first, those that are resolved alone if there are any."""
    changes = [
        _ValueChange(index, label, change)
        for index, compared in enumerate(asked.answer.lines)
        for label in compared.differences
        if (change := asked.difference("lines", index, "differences", label)) is not None
    ]
    changes.sort(key=lambda change: -abs(change.change.mean.value))
    return [change for change in changes if _difference(asked, change).resolved] or changes[:1]


def _difference(asked: Asked[typed.CompareAnswer], change: _ValueChange) -> DifferenceSummary:
    difference = asked.answer.lines[change.position].differences[change.label]
    assert difference is not None, "an estimate has been read of it"
    return difference


def _compare(asked: Asked[typed.CompareAnswer]) -> AnswerText | None:
    """Return what the values of an axis change, the largest change first; ``None`` where nothing can be compared."""
    changes = _changes(asked)
    if not changes:
        return None
    axis, lines = asked.answer.axis, asked.answer.lines
    against, at = lines[0].against, lines[changes[0].position].at
    start = line("compared with ", asked.named(axis, against), ", ", asked.subject, " ")
    texts = [_changed(asked, change) for change in changes]
    return AnswerText(
        sentence(*brief(line(start, texts[0]), texts[1:], before=" and ")),
        line(start, texts[0]),
        asked.cell({**at, axis: changes[0].label}),
        asked.cell({**at, axis: against}),
    )


def _changed(asked: Asked[typed.CompareAnswer], change: _ValueChange) -> Words:
    compared, axis, mean = asked.answer.lines[change.position], asked.answer.axis, change.change.mean.value
    others = compared.at if len(asked.answer.lines) > 1 else {}
    where = line(" with ", asked.where({**others, axis: change.label}))
    if not mean:
        return line("is the same in every run", where)
    if not _difference(asked, change).resolved:
        more = asked.more_runs("lines", change.position, "differences", change.label)
        return line("cannot be distinguished", where, " (", more, ")")
    cells = [asked.cell({**compared.at, axis: label}) for label in (compared.against, change.label)]
    base = asked.mean(cells[0])
    size = asked.apart(change.change, None if base is None else base.mean)
    return line("rises by " if mean > 0 else "falls by ", size, asked.gpu_years(change.change, *cells), where)


def _compare_table(asked: Asked[typed.CompareAnswer]) -> TableBlock | None:
    axis, lines = asked.answer.axis, asked.answer.lines
    rows = [({**compared.at, axis: label}, (index, label))
            for index, compared in enumerate(lines) for label in compared.differences]  # fmt: skip
    others = [name for name in asked.varying if name != axis]
    return None if len(rows) < 2 else asked.table([*others, axis], rows, (
        Column(f"Change from {label_text(lines[0].against)}",
               lambda row: "no mean" if (change := lines[row[0]].differences[row[1]]) is None
               else _change_text(asked, change)),
        Column("How sure", lambda row: _doubt(asked, *row), is_number=False),
    ))  # fmt: skip


def _doubt(asked: Asked[typed.CompareAnswer], index: int, label: str) -> str:
    """Return how sure a change is, or why it is not known."""
    compared = asked.answer.lines[index]
    change = compared.differences[label]
    if change is None:
        cell = asked.cell({**compared.at, asked.answer.axis: label})
        return "not run" if cell is None else missing_text(asked.document.cells[cell], asked.metric)
    controlled = change.controlled
    if change.resolved:
        return "resolved"
    if controlled is not None and not controlled.ci95[0] <= 0 <= controlled.ci95[1]:
        return f"without the sampling error of failures {_change_text(asked, controlled)}"
    if not change.mean and not any(change.ci95 or ()):
        return "the same in every run"
    return plain(asked.more_runs("lines", index, "differences", label))


def _change_text(asked: Asked[Any], change: DifferenceSummary | ControlledDifference) -> str:
    return asked.shown().form.change(change.mean, ends_of(change.ci95))


def _compare_picture(asked: Asked[typed.CompareAnswer]) -> Draw:
    axis = asked.answer.axis
    others = [name for name in asked.varying if name != axis]
    numeric = next((name for name in (*others, axis) if asked.is_numeric(name)), None)
    if numeric is None or not others:
        return intervals(asked, asked.all_rows())
    return curves(asked, numeric, between=axis if len(others) == 1 and numeric != axis else "")


# ----------------------------------------
# Who is best along an axis, and where another one becomes the best.

_LARGE = 1000.0  # what is counted from which on it is not stated to the last one


def _crossover(asked: Asked[typed.CrossoverAnswer]) -> AnswerText | None:
    """Return who is best where; ``None`` where nobody is."""
    races = asked.answer.lines
    if not races:
        return None
    texts = []
    for index, race in enumerate(races):
        where, course = asked.where(race.at), _course(asked, index)
        texts.append(line("with ", where, " ", course) if where else course)
    last, stage = races[-1], races[-1].best[-1]
    where, at = asked.where(last.at), {**last.at, asked.answer.along: stage.value}
    return AnswerText(
        sentence(*brief(texts[-1], texts[:-1])),
        line("with " if where else "", where, " " if where else "", _in_short(asked, len(races) - 1)),
        asked.cell({**at, asked.answer.between: stage.best}),
        next((asked.cell({**at, asked.answer.between: name}) for name in stage.order[1:]), None),
    )


def _crossover_table(asked: Asked[typed.CrossoverAnswer]) -> TableBlock:
    races, along = asked.answer.lines, asked.answer.along
    rows = [({**race.at, along: stage.value}, (stage, index, position))
            for index, race in enumerate(races) for position, stage in enumerate(race.best)]  # fmt: skip
    return asked.table([*races[-1].at, along], rows, (
        Column("Best", lambda row: label_text(row[0].best), is_number=False),
        Column("Ahead of the second", lambda row: plain(_stage_lead(asked, *row[1:]))
               if len(row[0].may_be_best) == 1 else "not resolved"),
        Column("May be as good", lambda row: ", ".join(
            label_text(name) for name in row[0].may_be_best if name != row[0].best), is_number=False),
    ))  # fmt: skip


def _crossover_picture(asked: Asked[typed.CrossoverAnswer]) -> Draw:
    races = asked.answer.lines
    edges = [(handover.at, f"{handover.latter} ahead") for handover in races[-1].crossings if handover.at is not None]
    return curves(asked, asked.answer.along, between=asked.answer.between, edges=edges if len(races) == 1 else ())


_MOST_SPANS = 3  # parts of an axis that a sentence tells


class _Span(NamedTuple):
    """Neighbouring values at which the same may be best."""

    stages: list[typed.StageSummary]
    names: list[str]


def _spans(race: typed.RaceSummary) -> list[_Span]:
    """Return the axis in parts in which the same may be best."""
    groups = [
        list(stages) for _, stages in itertools.groupby(race.best, key=lambda stage: frozenset(stage.may_be_best))
    ]
    spans = [_Span(stages, stages[0].may_be_best) for stages in groups]
    resolved = [span for span in spans if len(span.names) == 1]
    if len(spans) <= _MOST_SPANS or not resolved:
        return spans
    # Of many parts those are stated in which it is resolved who is best.
    merged = [list(alike) for _, alike in itertools.groupby(resolved, key=lambda span: span.names)]
    return [_Span([stage for span in alike for stage in span.stages], alike[0].names) for alike in merged]


def _span_who(asked: Asked[typed.CrossoverAnswer], span: _Span) -> Words:
    axis, most = asked.answer.between, _MOST_NAMED + 1
    names = [asked.value(axis, name) for name in span.names[: most if len(span.names) <= most else 1]]
    who = either(names if len(names) == len(span.names) else [*names, ("others",)])
    return who if plain(names[0]).startswith("“") else asked.with_name(axis, who)


def _course(asked: Asked[typed.CrossoverAnswer], index: int) -> Words:
    """Return who is best from where to where, by how much at the end, and where the best changes at last."""
    race = asked.answer.lines[index]
    spans = _spans(race)
    parts: list[Words] = []
    for span in spans if len(spans) <= _MOST_SPANS else (spans[0], spans[-1]):
        is_open = len(span.names) > 1
        verb = " (not distinguished)" if is_open and parts else ""
        if not parts:
            verb = f" {'may have' if is_open else 'has'} the {asked.most} {asked.what}"
        parts.append(line("then " if parts else "", _span_who(asked, span), verb, " ", _from_to(asked, span)))
    lead = _stage_lead(asked, index, len(race.best) - 1) if len(spans[-1].names) == 1 else ()
    ahead = line(", ahead by ", lead, " with ", asked.named(asked.answer.along, race.best[-1].value)) if lead else ()
    at = _handover_place(asked, index) if len(spans) > 1 else ()
    return line(listed(parts, ", "), ahead, *(("; the best changes at ", at) if at else ()))


def _from_to(asked: Asked[typed.CrossoverAnswer], span: _Span) -> Words:
    along, first, last = asked.answer.along, span.stages[0].value, span.stages[-1].value
    return line("at ", asked.named(along, first)) if first == last else asked.extent(along, first, last)


def _handover_place(asked: Asked[typed.CrossoverAnswer], index: int) -> Words:
    """Return about where the best changes at last, on a straight line between two values; empty where it does not."""
    placed = [(position, handover) for position, handover in enumerate(asked.answer.lines[index].crossings)
              if handover.at is not None]  # fmt: skip
    at = asked.at("lines", index, "crossings", placed[-1][0], "at") if placed else None
    if at is None:
        return ()
    form = asked.axis_form(asked.answer.along, at.value)
    # Of what is counted no decimals, and no more digits than what is between two values deserves.
    digits = form._replace(is_whole=False) if form.is_whole and at.value >= _LARGE else form
    about = number(at, digits, ends_of(placed[-1][1].at_ci95))
    return line("about ", asked.with_name(asked.answer.along, (about,)))


def _stage_lead(asked: Asked[typed.CrossoverAnswer], index: int, position: int) -> Words:
    """Return by how much the best is ahead of the second at a value, in GPU-years too; empty without a second."""
    race, keys = asked.answer.lines[index], ("lines", index, "best", position)
    lead = asked.difference(*keys, "ahead_of_second")
    if lead is None:
        return ()
    at = {**race.at, asked.answer.along: race.best[position].value}
    cells = [asked.cell({**at, asked.answer.between: name}) for name in race.best[position].order[:2]]
    years = asked.gpu_years(lead, *cells) if len(cells) == 2 else ()
    return line(asked.apart(lead, asked.at(*keys, "mean")), years)


def _in_short(asked: Asked[typed.CrossoverAnswer], index: int) -> Words:
    spans, at = _spans(asked.answer.lines[index]), _handover_place(asked, index)
    first, last = (_span_who(asked, span) for span in (spans[0], spans[-1]))
    highest = f" the {asked.most} {asked.what}"
    if at and len(spans) > 1 and len(spans[-1].names) == 1:
        return line("beyond ", at, " ", last, " has", highest)
    verb = " has" if len(spans) == 1 and len(spans[0].names) == 1 else " may have"
    rest = line(", ", last, " ", _from_to(asked, spans[-1])) if len(spans) > 1 else ()
    return line(first, verb, highest, " ", _from_to(asked, spans[0]), rest)


# ----------------------------------------
# What cannot be had together.


def _front_order(asked: Asked[typed.ParetoAnswer]) -> list[typed.FrontCell]:
    """Return the combinations on the front that have a mean of the first metric, the best first."""
    metric = asked.answer.metrics[0]
    means = [(entry, asked.mean(asked.cell(entry.at), metric)) for entry in asked.answer.front]
    known = [(mean.mean.value, entry) for entry, mean in means if mean is not None]
    known.sort(key=lambda pair: pair[0], reverse=not asked.is_lowest_best(metric))
    return [entry for _, entry in known]


def _pareto(asked: Asked[typed.ParetoAnswer]) -> AnswerText | None:
    """Return which combinations no other one beats in everything; ``None`` where nothing is known."""
    order, axes = _front_order(asked), asked.answer.axes
    if not order:
        return None
    names = [asked.title(name) if name in axes else f"the {metric_words(name).removeprefix('the ')}"
             for name in (*asked.answer.metrics, *axes)]  # fmt: skip
    goals = listed([(name,) for name in names])
    ends = [order[0], order[-1]] if len(order) > 1 else order
    best = [asked.some([entry.at]) for entry in ends]
    texts = [line(name, " with ", _reached(asked, entry.at)) for name, entry in zip(best, ends, strict=True)]
    start = line("in ", goals, " at once, no other setting beats ")
    source = f"{asked.places.file}#/answers/{asked.position}/data/front/*?"
    count = SourcedNumber(float(len(asked.answer.front)), (source,)) - 2.0
    more = line(" (", number(count, COUNT), " more between them)") if len(order) > 2 else ()
    answer = sentence(start, listed(texts), more)
    if len(plain(answer).split()) > WORDS:
        answer = sentence(start, listed(best))
    title = line("no other setting beats ", listed(best), " in ", goals, " at once")
    return AnswerText(answer, title, asked.cell(order[0].at))


def _reached(asked: Asked[typed.ParetoAnswer], labels: Mapping[str, str]) -> Words:
    means = [(asked.mean(asked.cell(labels), name), asked.form_of(name)) for name in asked.answer.metrics]
    return listed([worded(mean, form) for mean, form in means if mean is not None])


def _pareto_table(asked: Asked[typed.ParetoAnswer]) -> TableBlock:
    def mean(name: str) -> Column[typed.FrontCell]:
        return Column(capital(name_of(name)), lambda entry: asked.text(asked.mean(asked.cell(entry.at), name), name))

    standing: Column[typed.FrontCell] = Column(
        "Standing", lambda entry: "on the front" if entry.certain else "perhaps on the front", is_number=False
    )
    rows = [(entry.at, entry) for entry in (*_front_order(asked), *asked.answer.may_be_too)]
    return asked.table(asked.varying, rows, (*map(mean, asked.answer.metrics), standing))


def _pareto_picture(asked: Asked[typed.ParetoAnswer]) -> Draw:
    ranking = dict.fromkeys(range(len(asked.document.cells)), "behind")
    for entry in (*_front_order(asked), *asked.answer.may_be_too):
        cell = asked.cell(entry.at)
        ranking |= {} if cell is None else {cell: "front" if entry.certain else "perhaps"}
    first, second, *_ = (*asked.answer.metrics, *asked.answer.axes)
    return front(asked, (first, second), ranking)


# ----------------------------------------
# Which axis moves a metric most.

_LEAST = 0.001  # a share of the variance that is stated
_MOST_SHARES = 3


def _sensitivity(asked: Asked[typed.SensitivityAnswer]) -> AnswerText | None:
    """Return what matters most; ``None`` where the points do not tell."""
    if isinstance(asked.answer, typed.TornadoAnswer):
        return _tornado(asked, asked.answer.axes)
    return _indices(asked, asked.answer.axes) if isinstance(asked.answer, typed.SobolAnswer) else None


def _tornado(asked: Asked[Any], swings: Sequence[typed.SwingAnswer]) -> AnswerText | None:
    if not swings or not swings[0].swing:
        return None
    moves = [text for index, move in enumerate(swings[0].moves) if (text := _move(asked, swings[0].axis, index, move))]
    name = asked.title(swings[0].axis)
    start = line("what moves ", asked.subject, " most is ", name, ": ")
    answer = sentence(*brief(line(start, moves[0]), moves[1:], before=" and "))
    return AnswerText(answer, line(name, " moves ", asked.subject, " most"), 0)


def _move(asked: Asked[Any], axis: str, index: int, move: typed.MoveAnswer) -> Words:
    change = asked.difference("axes", 0, "moves", index, "difference")
    if change is None or move.difference is None:
        return ()
    where = line("with ", asked.named(axis, move.value), " it ")
    if not change.mean.value:
        return line(where, "is the same in every run")
    if not move.difference.resolved:
        return line(where, "changes by no more than sampling error")
    verb = "rises by " if change.mean.value > 0 else "falls by "
    return line(where, verb, asked.apart(change, asked.at("center")))


def _shares(asked: Asked[Any], axes: Sequence[typed.IndexAnswer]) -> list[tuple[str, SourcedEstimate]]:
    """Return which share of the variance each axis makes, with what it does together with others, largest first."""
    order = sorted(range(len(axes)), key=lambda index: -(axes[index].total.value or 0.0))
    shares = [(asked.title(axes[index].axis), _share(asked, index)) for index in order]
    return [(title, share) for title, share in shares if share is not None]


def _share(asked: Asked[Any], index: int) -> SourcedEstimate | None:
    share, ends = asked.at("axes", index, "total", "value"), asked.ends("axes", index, "total", "ci95")
    if share is None:
        return None
    has_width = ends is not None and ends[1].value - ends[0].value > _LEAST
    return SourcedEstimate(share, *ends) if ends is not None and has_width else SourcedEstimate(share)


def _indices(asked: Asked[Any], axes: Sequence[typed.IndexAnswer]) -> AnswerText | None:
    shares = _shares(asked, axes)
    texts = [line(title, " with ", worded(share, PERCENT))
             for title, share in shares[:_MOST_SHARES] if share.mean.value >= _LEAST]  # fmt: skip
    if not texts:
        return None
    title = line(shares[0][0], " moves ", asked.subject, " most")
    answer = sentence(
        "what makes most of the differences in ", asked.subject, " is ", listed(texts), " of the variance"
    )
    if is_wide(shares[0][1].interval):
        title = line("which axis moves ", asked.subject, " most is not resolved: more samples would tell")
        answer = sentence(title)
    return AnswerText(answer, title, 0)


def _sensitivity_table(asked: Asked[typed.SensitivityAnswer]) -> TableBlock | None:
    answer = asked.answer
    if isinstance(answer, typed.TornadoAnswer):
        form, change = asked.shown().form, f"Change of {name_of(asked.metric)}"
        rows = [
            [capital(asked.title(swing.axis)), label_text(move.value), move.trouble if move.difference is None else
             form.change(move.difference.mean, ends_of(move.difference.ci95))]
            for swing in answer.axes for move in swing.moves
        ]  # fmt: skip
        return grid(asked_text(asked), ("Axis", "Value", change), rows, (0, 1))
    rows = [
        [capital(title), "not resolved" if is_wide(share.interval) else PERCENT.value(share.mean.value, share.interval)]
        for title, share in (_shares(asked, answer.axes) if isinstance(answer, typed.SobolAnswer) else ())
    ]
    return grid(asked_text(asked), ("Axis", "Share of the variance, with interactions"), rows)


# ----------------------------------------
# What it takes for a metric to pass a value.

_ONE = SourcedNumber(1.0, (), "1")
_TIMES, _BARE, _HOURS = NumberFormat("times"), NumberFormat(""), NumberFormat("h", HOUR)


class _Need(NamedTuple):
    """What one line takes."""

    position: int  # of the line
    line: typed.ConditionLine
    # Index of the crossing; ``None`` where the condition holds at all values that were evaluated, or at none.
    crossing: int | None
    holds: bool  # whether it holds at the first value

    @property
    def keys(self) -> tuple[str | int, ...]:
        """Where the crossing stands in the answer."""
        return "lines", self.position, "crossings", self.crossing or 0

    @property
    def hardness(self) -> tuple[int, float]:
        """What the line takes, to be compared with others."""
        if self.crossing is None:
            return (0 if self.holds else 2), 0.0
        at = self.line.crossings[self.crossing].at
        return 1, -at if self.holds else at


def _needs(asked: Asked[typed.ThresholdAnswer]) -> list[_Need]:
    """Return what each line takes, least first."""
    needs = [_need(index, line) for index, line in enumerate(asked.answer.lines) if line.points]
    return sorted(needs, key=lambda need: need.hardness)


def _need(index: int, line: typed.ConditionLine) -> _Need:
    """Return what a line takes; of several crossings the last one that begins, or the first one that ends."""
    begin = [position for position, crossing in enumerate(line.crossings) if crossing.begins]
    end = [position for position, crossing in enumerate(line.crossings) if not crossing.begins]
    holds = line.points[0].holds
    return _Need(index, line, end[0] if holds and end else begin[-1] if begin else None, holds)


def _threshold(asked: Asked[typed.ThresholdAnswer]) -> AnswerText | None:
    """Return what it takes, the combination that takes least first; ``None`` where nothing is known along the axis."""
    settings = _settings(asked)
    if settings:
        return _likely(asked, settings)
    needs = _needs(asked)
    if not needs:
        return None
    answer, title = _one_need(asked, needs[0]) if len(needs) == 1 else _many_needs(asked, needs)
    chosen = next((need for need in needs if need.crossing is not None), needs[0])
    cells = _need_cell(asked, chosen), _need_cell(asked, chosen, holds=False)
    return AnswerText(answer, title, *cells, band=_need_band(asked, chosen))


def _one_need(asked: Asked[typed.ThresholdAnswer], need: _Need) -> tuple[Words, Words]:
    what, condition = _need_words(asked, need, is_first=True), _condition(asked)
    goal = line("for ", asked.subject, " to be ", condition, ", ")
    return sentence(goal, what, _reliability(asked, need), _unsure(asked, need)), line(what, " for ", condition)


def _many_needs(asked: Asked[typed.ThresholdAnswer], needs: Sequence[_Need]) -> tuple[Words, Words]:
    where = [asked.where(need.line.at) for need in needs]
    today = _today(asked)
    if today:
        shorts = [line(place, ": ", _rate_short(asked, need)) for place, need in zip(where, needs, strict=True)]
        shorts[-1] = line("hardest is ", shorts[-1])
        return sentence(*brief(line(today, "; best is ", shorts[0]), shorts[1:])), today
    texts = [line("with ", place, ", ", _need_words(asked, need, is_first=need is needs[0]))
             for place, need in zip(where, needs, strict=True)]  # fmt: skip
    goal = line("for ", asked.subject, " to be ", _condition(asked), ", ")
    answer = sentence(*brief(line(goal, texts[0]), texts[1:]))
    return answer, line(texts[0], "; ", texts[-1], " for ", _condition(asked))


def _need_words(asked: Asked[typed.ThresholdAnswer], need: _Need, *, is_first: bool) -> Words:
    """Return what a line takes; what is the same for all lines is said of the first one alone."""
    if need.crossing is None:
        points = need.line.points
        extent = asked.extent(asked.answer.along, points[0].value, points[-1].value)
        amount = "any" if need.holds else "no"
        return line(amount, " evaluated value is enough", *((" (", extent, ")") if is_first else ()))
    words = _rate if asked.is_factor(asked.answer.along) else _amount
    return words(asked, need, is_first=is_first)


def _today(asked: Asked[typed.ThresholdAnswer]) -> Words:
    """Return in how many combinations the condition holds at the stated failure rate; empty along another axis."""
    points = [point for line in asked.answer.lines for point in line.points if point.value == "1"]
    if not points or not asked.is_factor(asked.answer.along):
        return ()
    source = f"{asked.places.file}#/answers/{asked.position}/data/lines/*/points/*?value=1"
    holding = SourcedNumber(float(sum(point.holds for point in points)), (f"{source}&holds=true",))
    return line(asked.subject, " is ", _condition(asked), " today in ", number(holding, COUNT), " of ",
                number(SourcedNumber(float(len(points)), (source,)), COUNT), " combinations")  # fmt: skip


def _rate_short(asked: Asked[typed.ThresholdAnswer], need: _Need) -> Words:
    if need.crossing is None:
        return ("any evaluated rate" if need.holds else "no evaluated rate",)
    is_higher, times = _times(asked, need)
    if is_higher:
        mtti = asked.at(*need.keys, "mtti_s")
        hours = () if mtti is None else (" (MTTI ", number(mtti, time_form(mtti.value)), ")")
        return line("MTBF ", times, " as high", hours)
    return line("up to " if need.holds else "from ", times, " the rate")


_RELIABILITY = (("mtti_s", "MTTI of the job"), ("mtbf_gpu_s", "MTBF per GPU"), ("mtbf_node_s", "MTBF per node"))


def _reliability(asked: Asked[typed.ThresholdAnswer], need: _Need) -> Words:
    """Return the MTTI and the MTBF that a line takes; empty along an axis that is no failure rate."""
    mtti, per_gpu, per_node = (asked.at(*need.keys, key) for key, _ in _RELIABILITY)
    if mtti is None or per_gpu is None or per_node is None:
        return ()
    return line("; that is an MTTI of ", number(mtti, time_form(mtti.value)), ", or an MTBF of ",
                number(per_gpu, _HOURS), " per GPU and ", number(per_node, _HOURS), " per node")  # fmt: skip


def _threshold_table(asked: Asked[typed.ThresholdAnswer]) -> TableBlock | None:
    """Return where the condition holds in each combination of the other axes, and how sure that is."""
    if _settings(asked):
        return None
    needs = _needs(asked)

    def column(title: str, text: Callable[[_Need], str]) -> Column[_Need]:
        return Column(title, text, any(map(text, needs)))

    def times(key: str, title: str) -> Column[_Need]:
        return column(title, lambda need: ", ".join(
            _HOURS.brief(time) for crossing in need.line.crossings if (time := getattr(crossing, key)) is not None
        ))  # fmt: skip

    where = f"{capital(asked.title(asked.answer.along))} for {plain(_condition(asked))}"
    return asked.table(list(asked.answer.lines[0].at), [(need.line.at, need) for need in needs], (
        column(where, lambda need: _places_text(asked, need)),
        column("95 % interval", lambda need: _intervals_text(asked, need, "at_ci95")),
        column("90 % band of unknown inputs", lambda need: _intervals_text(asked, need, "band90")),
        column("With 95 % confidence", _certain_text),
        *itertools.starmap(times, _RELIABILITY),
    ))  # fmt: skip


def _places_text(asked: Asked[typed.ThresholdAnswer], need: _Need) -> str:
    """Return from where to where the condition holds."""
    words = ["from" if crossing.begins else "to" if index else "up to"
             for index, crossing in enumerate(need.line.crossings)]  # fmt: skip
    places = [_place_text(asked, crossing, crossing.at) for crossing in need.line.crossings]
    text = " ".join(f"{word} {place}" for word, place in zip(words, places, strict=True))
    return text or ("any evaluated value" if need.holds else "no evaluated value")


def _place_text(asked: Asked[typed.ThresholdAnswer], crossing: typed.CrossingSummary, at: float) -> str:
    """Return a place on the axis; of what is counted the first, or the last, with which the condition holds."""
    form = asked.axis_form(asked.answer.along, at)
    if form.is_whole:
        at = math.ceil(at - 1e-9) if crossing.begins else math.floor(at + 1e-9)
    return form.plain(at)


def _intervals_text(asked: Asked[typed.ThresholdAnswer], need: _Need, key: str) -> str:
    """Return between which places each crossing is; one that is not known lies beyond what was evaluated."""
    points, texts = need.line.points, []
    for crossing in need.line.crossings:
        ends: Sequence[float | None] | None = getattr(crossing, key)
        if ends is not None:
            low, high = (None if end is None else _place_text(asked, crossing, end) for end in ends)
            first = low or f"below {label_text(points[0].value)}"
            texts.append(f"{first} to {high or f'above {label_text(points[-1].value)}'}")
    return ", ".join(texts)


def _certain_text(need: _Need) -> str:
    certain = [label_text(point.value) for point in need.line.points if point.holds_with_certainty]
    return f"{certain[0]} to {certain[-1]}" if len(certain) > 1 else "".join(certain) or "nowhere"


def _condition(asked: Asked[typed.ThresholdAnswer]) -> Words:
    key = "at_most" if asked.answer.at_least is None else "at_least"
    level = asked.at(key)
    assert level is not None, "a question has one level"
    return line(key.replace("_", " "), " ", number(level, asked.form)._replace(text=asked.form.exact(level.value)))


def _amount(asked: Asked[typed.ThresholdAnswer], need: _Need, *, is_first: bool) -> Words:
    """Return what a line takes, as a span of values of which two were evaluated; the name of the axis is said once."""
    along, span = asked.answer.along, _need_span(asked, need)
    straight = _straight(asked, need) if len(asked.answer.lines) == 1 else ()
    if not asked.is_counted(along):
        start = f"{asked.title(along)} must be " if is_first else ""
        return line(start, "at most something " if need.holds else "at least something ", span, straight)
    named = asked.with_name(along, span) if is_first else span
    return line("it takes " if is_first else "", "at most " if need.holds else "", named, straight)


def _need_span(asked: Asked[typed.ThresholdAnswer], need: _Need) -> Words:
    """Return between which values a line passes the level; of what is counted, which of them it may be."""
    along, points = asked.answer.along, need.line.points
    first, last = _bracket(need)
    if asked.is_counted(along):
        return _counted_span(asked, need, first, last)
    low, high = (asked.value(along, points[end or 0].value) for end in (first, last))
    if last is None:
        return line("more than ", asked.value(along, points[-1].value) if first is None else low)
    return line("less than ", high) if first is None else line("between ", low, " and ", high)


def _counted_span(asked: Asked[typed.ThresholdAnswer], need: _Need, first: int | None, last: int | None) -> Words:
    """Return which of the counted values it may be: behind the last below the level, or before the first above it."""
    low, high = (None if end is None else asked.at("lines", need.position, "points", end, "number")
                 for end in (first, last))  # fmt: skip
    low = low + 1.0 if low is not None and not need.holds else low
    high = high - 1.0 if high is not None and need.holds else high
    if low is not None and high is not None and low.value == high.value:
        return (number(low, COUNT),)
    ends = [asked.value(asked.answer.along, need.line.points[end].value) for end in (0, -1)]
    fewest = line("fewer than ", ends[0]) if low is None else (number(low, COUNT),)
    return listed([fewest, line("more than ", ends[1]) if high is None else (number(high, COUNT),)], " to ")


def _bracket(need: _Need) -> tuple[int | None, int | None]:
    """Return indices of the values that were evaluated on both sides of where a line passes the level."""
    crossing, points = need.line.crossings[need.crossing or 0], need.line.points
    first, last = ([point.value for point in points].index(label) for label in crossing.between)
    return bracket([point.number for point in points], (first, last), crossing.at_ci95 or (None, None))


def _straight(asked: Asked[typed.ThresholdAnswer], need: _Need) -> Words:
    at = _turned(asked, need, "at")
    assert at is not None, "a crossing has a place"
    return (" (about ", number(at, asked.axis_form(asked.answer.along, at.value)), " on a straight line)")


def _rate(asked: Asked[typed.ThresholdAnswer], need: _Need, *, is_first: bool) -> Words:
    """Return how much higher the MTBF must be in a line, or how much more frequent failures may be."""
    is_higher, times = _times(asked, need)
    evaluated = _evaluated(asked, need, is_higher=is_higher) if is_first else ()
    stated = f" that of “{asked.document.scenario}”" if is_first else ""
    if is_higher:
        return line("the MTBF must be about ", times, stated or " as high", evaluated)
    verb = "the failure rate may be about " if need.holds else "the failure rate must be at least about "
    return line(verb, times, stated or " as high", evaluated)


def _times(asked: Asked[typed.ThresholdAnswer], need: _Need) -> tuple[bool, Number]:
    """Return whether the MTBF must be higher, and by which factor; else how many times as frequent failures may be."""
    at, ends = asked.at(*need.keys, "at"), asked.ends(*need.keys, "at_ci95")
    assert at is not None, "a crossing has a place"
    is_higher = need.holds and at.value < 1
    if is_higher:
        at, ends = _ONE / at, ends and (_ONE / ends[1], _ONE / ends[0])
    return is_higher, number(at, _TIMES, ends and (ends[0].value, ends[1].value))


def _evaluated(asked: Asked[typed.ThresholdAnswer], need: _Need, *, is_higher: bool) -> Words:
    """Return the two rates that were evaluated next to where a line passes the level; empty where one is beyond all."""
    first, last = _bracket(need)
    if first is None or last is None:
        return ()
    texts = [asked.value(asked.answer.along, need.line.points[index].value) for index in (first, last)]
    rates = [asked.at("lines", need.position, "points", index, "number") for index in (last, first)]
    if is_higher:
        texts = [(number(_ONE / rate, _BARE),) for rate in rates if rate is not None and rate.value]
    return line(" (evaluated: ", listed(texts), ")")


def _turned(asked: Asked[typed.ThresholdAnswer], need: _Need, *keys: str | int) -> SourcedNumber | None:
    """Return a place of a crossing; of what is counted the first whole number behind it, or the last one before."""
    at = asked.at(*need.keys, *keys)
    if at is None or not asked.axis_form(asked.answer.along, at.value).is_whole:
        return at
    return whole(at, up=not need.holds)


def _unsure(asked: Asked[typed.ThresholdAnswer], need: _Need) -> Words:
    """Return that it is nowhere sure, where that is so; empty elsewhere."""
    points = need.line.points
    holding = [index for index, point in enumerate(points) if point.holds]
    if not holding or any(point.holds_with_certainty for point in points):
        return ()
    ends = asked.ends("lines", need.position, "points", holding[-1], "mean_ci95")
    if ends is None:
        return ()
    is_unknown = asked.answer.over == "parameters" and points[holding[-1]].band90 is not None
    why = "with what is not known exactly" if is_unknown else "with so few simulated runs"
    where = asked.named(asked.answer.along, points[holding[-1]].value)
    return line(
        "; ", why, " that is not resolved at any evaluated value (", ranged(*ends, asked.form), " at ", where, ")"
    )


def _need_band(asked: Asked[typed.ThresholdAnswer], need: _Need) -> Words:
    """Return between which places unknown inputs move the answer; empty where that is not stated."""
    if need.crossing is None or need.line.crossings[need.crossing].band90 is None:
        return ()
    along = asked.answer.along
    ends: list[Words] = []
    for index, word in ((0, "fewer than " if asked.is_counted(along) else "less than "), (-1, "more than ")):
        at = _turned(asked, need, "band90", abs(index))
        beyond = line(word, asked.value(along, need.line.points[index].value))
        ends.append(beyond if at is None else (number(at, asked.axis_form(along, at.value)),))
    return line("from ", ends[0], " to ", asked.with_name(along, ends[1]))


def _need_cell(asked: Asked[typed.ThresholdAnswer], need: _Need, *, holds: bool = True) -> int | None:
    """Return the cell that is nearest to what a line takes, on the side where the condition holds, or on the other."""
    index = 0 if need.holds is holds else -1
    label = need.line.points[index].value
    if need.crossing is not None:
        label = need.line.crossings[need.crossing].between[index]
    return asked.cell({**need.line.at, asked.answer.along: label})


# ----------------------------------------
# What it takes to finish in time with some probability, over what is not known exactly.
#
# A probability to be in time is the share of runs that are, and whether the reason is chance or an input that is not
# known exactly is all the same to who waits: where runs with drawn inputs are there, they are what is asked for.

_METRIC = "p_finish_by"
_NORMAL = 1.96
_CLOSE = 0.01  # half-width of an interval from which on it is stated that shares of runs are not known well


class _Setting(NamedTuple):
    """A value that was evaluated: its label, number and cell, and the share of runs that are in time over all draws."""

    label: str
    number: float
    cell: int
    share: SourcedNumber


def _settings(asked: Asked[typed.ThresholdAnswer]) -> list[_Setting]:
    """Return the values along the axis with the runs of their draws; empty where fewer than two have any."""
    axis, answer = asked.axis(asked.answer.along), asked.answer
    if asked.metric != _METRIC or axis is None or len(answer.lines) != 1 or answer.at_least is None:
        return []
    settings = []
    for label, place in axis.values:
        cell = asked.cell({**answer.lines[0].at, axis.name: label})
        share = asked.rows.mean(cell, _METRIC, drawn=True)
        if cell is not None and share is not None:
            settings.append(_Setting(label, place, cell, share))
    return settings if len(settings) > 1 else []


def _likely(asked: Asked[typed.ThresholdAnswer], settings: Sequence[_Setting]) -> AnswerText:
    """Return what it takes for a probability over runs and over unknown inputs."""
    along, level, count = asked.answer.along, asked.answer.at_least or 0.0, len(settings)
    first = max((index + 1 for index, setting in enumerate(settings) if setting.share.value < level), default=0)
    if first in (0, count):
        extent = asked.extent(along, settings[0].label, settings[-1].label)
        need = line("no" if first else "any", " evaluated value is enough (", extent, ")")
    else:
        ends = listed([asked.value(along, setting.label) for setting in settings[first - 1 : first + 1]])
        need = line("it takes ", asked.with_name(along, line("between ", ends)))
    shown = settings[max(first - 1, 0) : first + 1]
    draws, runs = (asked.places.at("cells", settings[0].cell, key) for key in ("draws", "replications"))
    has_runs = draws is not None and runs is not None and draws.value
    total = ("of ", number(draws * runs, COUNT), " runs ") if has_runs and draws and runs else ("of the runs ",)
    texts = [line(number(setting.share, PERCENT), " with ", asked.value(along, setting.label)) for setting in shown]
    goal = line("for ", asked.subject, " to be ", _condition(asked), ", ", need, ": ", *total)
    return AnswerText(
        joined([sentence(goal, listed(texts), " are in time, unknown inputs drawn"), _central(asked, level)]),
        line(need, " for ", _condition(asked)),
        settings[min(first, count - 1)].cell,
        settings[first - 1].cell if first else None,
        doubt=_likely_doubt(asked, shown, draws),
    )


def _central(asked: Asked[typed.ThresholdAnswer], level: float) -> Words:
    """Return what would do if all inputs were at their central values; empty if nothing would."""
    axis, enough = asked.axis(asked.answer.along), ""
    for label, _ in reversed(() if axis is None else axis.values):
        mean = asked.mean(asked.cell({**asked.answer.lines[0].at, asked.answer.along: label}))
        if mean is not None and mean.mean.value < level:
            break
        enough = enough if mean is None else label
    named = asked.named(asked.answer.along, enough) if enough else ()
    return sentence("at exactly the central values ", named, " would do") if named else ()


def _likely_doubt(asked: Asked[typed.ThresholdAnswer], shown: Sequence[_Setting], draws: SourcedNumber | None) -> Words:
    """Return what was drawn, and how well shares of so few draws are known."""
    titles = [(str(axis.title),) for axis in asked.document.axes.values() if axis.unknown]
    start = line("not known exactly: ", listed(titles), "; each run has failures of its own and one ")
    known = sentence(start, *(("draw of them",) if draws is None else ("of ", number(draws, COUNT), " draws of them")))
    values = [asked.rows.by_draw(setting.cell, _METRIC) for setting in shown]
    errors = [_NORMAL * statistics.stdev(means) / math.sqrt(len(means)) for means in values if len(means) > 1]
    few = ("With so few draws such shares are known to a few percentage points only.",)
    return known if draws is None or max(errors, default=0.0) < _CLOSE else joined([known, few])


def _threshold_picture(asked: Asked[typed.ThresholdAnswer]) -> Draw:
    """Return what draws the metric along the axis: the share of runs in time with drawn and with central inputs."""
    settings, axis = _settings(asked), asked.axis(asked.answer.along)
    if not settings or axis is None:
        return curves(asked, asked.answer.along)
    level, what = asked.answer.at_least or 0.0, capital(asked.what)

    def picture(title: str) -> Figure:
        x = tuple(setting.number / axis.size for setting in settings)
        means = [asked.mean(setting.cell) for setting in settings]
        central = tuple(None if mean is None else 100 * mean.mean.value for mean in means)
        drawn = Series("unknown inputs drawn", x, tuple(100 * setting.share.value for setting in settings), hue=0)
        series = (drawn, Series("central values", x, central, hue=1))
        levels = ((100 * level, plain(_condition(asked))),)
        rows = [
            (plain(asked.value(axis.name, setting.label)), plain((number(setting.share, PERCENT),)),
             "" if mean is None else asked.form.value(mean.mean.value, mean.interval))
            for setting, mean in zip(settings, means, strict=True)
        ]  # fmt: skip
        shares = "; ".join(f"{row[1]} with {row[0]}" for row in rows)
        alt = f"{what} with unknown inputs drawn, along {axis.title}: {shares}."
        table = grid(title, (axis.title, "unknown inputs drawn", "central values"), rows)
        chart = Curves(title, axis.scale, ChartAxis(f"{what} [%]"), series, levels=levels)
        return Figure(KEY, chart, alt, "Shares of runs that are in time.", table)

    return picture


# ----------------------------------------
# What an axis does to a metric.

_MOSTLY = 2 / 3


class _Change(NamedTuple):
    """What the axis does along one line, from its first value to its last."""

    line: typed.TrendLine
    change: SourcedEstimate
    base: SourcedNumber | None
    resolved: bool


def _trend(asked: Asked[typed.TrendAnswer]) -> AnswerText | None:
    """Return what the axis changes, the largest change first; ``None`` where no two values have a mean."""
    changes = []
    for index, course in enumerate(asked.answer.lines):
        change = asked.difference("lines", index, "whole", "difference")
        if change is not None and course.whole is not None:
            base = asked.at("lines", index, "points", 0, "mean")
            changes.append(_Change(course, change, base, course.whole.difference.resolved))
    if not changes:
        return None
    changes.sort(key=lambda change: -abs(change.change.mean.value))
    largest, whole_axis, along = changes[0], changes[0].line.whole, asked.answer.along
    assert whole_axis is not None, "its change is known"
    start = line(asked.extent(along, whole_axis.start, whole_axis.end), " ", asked.subject, " ")
    texts = [_trend_change(asked, change) for change in changes if change.resolved or len(changes) == 1]
    texts = texts or [("does not change by more than sampling error, whatever the other values are",)]
    mostly = _mostly(asked, largest)
    return AnswerText(
        sentence(*brief(line(start, texts[0]), texts[1:], line(mostly, _turn(asked, largest)), before=" and ")),
        line(start, texts[0], mostly),
        asked.cell({**largest.line.at, along: whole_axis.end}),
        asked.cell({**largest.line.at, along: whole_axis.start}),
    )


def _trend_change(asked: Asked[typed.TrendAnswer], change: _Change) -> Words:
    where = line(" with ", asked.where(change.line.at)) if change.line.at else ""
    mean = change.change.mean.value
    if not change.resolved:
        return line("does not change by more than sampling error" if mean else "stays the same in every run", where)
    return line("rises by " if mean > 0 else "falls by ", asked.apart(change.change, change.base), where)


def _mostly(asked: Asked[typed.TrendAnswer], change: _Change) -> Words:
    """Return where most of a change happens, if one step makes more than two thirds of it; empty elsewhere."""
    steps, size = change.line.steps, change.change.mean.value
    largest = max(steps, key=lambda step: abs(step.difference.mean))
    if len(steps) < 2 or not size or largest.difference.mean / size < _MOSTLY or not change.resolved:
        return ()
    ends = [asked.value(asked.answer.along, label) for label in (largest.start, largest.end)]
    return line(", mostly from ", ends[0], " to ", ends[1])


def _turn(asked: Asked[typed.TrendAnswer], change: _Change) -> Words:
    """Return where the metric is best on the way; empty where that is at an end."""
    points, along = change.line.points, asked.answer.along
    best = max(points, key=lambda point: (-1 if asked.is_lowest else 1) * point.mean)
    if change.line.course != "turns" or best in (points[0], points[-1]):
        return ()
    mean = asked.mean(asked.cell({**change.line.at, along: best.value}))
    if mean is None:
        return ()
    return line("; the ", asked.most, " is ", worded(mean, asked.form), " at ", asked.named(along, best.value))


_COURSES = {"rises": "rises", "falls": "falls", "turns": "turns on the way", "flat": "no step is resolved"}


def _trend_table(asked: Asked[typed.TrendAnswer]) -> TableBlock:
    """Return the course along each line: both ends, the change, the largest step that is resolved, and its kind."""
    form = asked.shown().form

    def end(point: typed.TrendPoint) -> str:
        return f"{form.plain(point.mean)} at {label_text(point.value)}"

    def change(step: typed.TrendStep) -> str:
        return f"{_change_text(asked, step.difference)}{'' if step.difference.resolved else ', not resolved'}"

    def largest(course: typed.TrendLine) -> str:
        steps = [step for step in course.steps if step.difference.resolved]
        step = max(steps, key=lambda step: abs(step.difference.mean), default=None)
        return "" if step is None else f"{label_text(step.start)} to {label_text(step.end)}: {change(step)}"

    rows = [(course.at, (course, course.whole)) for course in asked.answer.lines if course.whole is not None]
    return asked.table(list(asked.answer.lines[0].at), rows, (
        Column("First", lambda row: end(row[0].points[0])),
        Column("Last", lambda row: end(row[0].points[-1])),
        Column("Change", lambda row: change(row[1])),
        Column("Largest step", lambda row: largest(row[0]), is_number=False),
        Column("Course", lambda row: _COURSES.get(row[0].course, ""), is_number=False),
    ))  # fmt: skip


# ----------------------------------------
# What is worded of each kind of question.


class AnswerKind(NamedTuple):
    """How the answers to one kind of question are stated: in words, as a table of all of it, and as a picture."""

    lead: Callable[[Asked[Any]], AnswerText | None]  # ``None`` where there is nothing to say
    table: Callable[[Asked[Any]], TableBlock | None]
    picture: Callable[[Asked[Any]], Draw]


ANSWERS = {
    "best": AnswerKind(_best, _best_table, _best_picture),
    "compare": AnswerKind(_compare, _compare_table, _compare_picture),
    "crossover": AnswerKind(_crossover, _crossover_table, _crossover_picture),
    "pareto": AnswerKind(_pareto, _pareto_table, _pareto_picture),
    "sensitivity": AnswerKind(_sensitivity, _sensitivity_table, lambda asked: intervals(asked, asked.all_rows())),
    "threshold": AnswerKind(_threshold, _threshold_table, _threshold_picture),
    "trend": AnswerKind(_trend, _trend_table, lambda asked: curves(asked, asked.answer.along)),
}
"""Of each kind in `ettrick.analysis.study.model.QUESTIONS`."""


def _answer_text(asked: Asked[Any]) -> AnswerText | None:
    """Return what an answer says; of a question that another package brings its own words, or else its numbers."""
    kind = ANSWERS.get(asked.content["use"])
    if kind is None:
        data = json.dumps(asked.data, ensure_ascii=False)
        words = " ".join(asked.document.answers[asked.position].sentences) or f"{asked_text(asked)}: {data}."
        return AnswerText((words,), (asked_text(asked),))
    lead = kind.lead(asked)
    return lead and lead._replace(picture=kind.picture(asked), table=kind.table(asked))

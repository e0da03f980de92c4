"""The answers of a study: each kind of question is worded once, for the terminal, the first screen, sections and JSON.

An answer is a brief sentence, the best first, and a table of all combinations.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.analysis.amounts import (
    COUNT,
    PERCENT,
    MetricFormat,
    capital,
    ends_of,
    is_wide,
    label_text,
    name_of,
    number_of,
)
from ettrick.analysis.metrics import lower_is_better
from ettrick.analysis.page.cells import (
    band_text,
    best_of,
    by_controls,
    gap_bar,
    has_bands,
    missing_text,
    moved,
    running,
    shown_of_cells,
    status_text,
    summary_of,
)
from ettrick.analysis.page.chapters import along
from ettrick.analysis.page.chapters.answer import (
    IN_TIME,
    KEY,
    MOST_NAMED,
    MOST_ROWS,
    SAME_FAILURES,
    AnsweredQuestion,
    AnswerText,
    CellRows,
    asked_text,
    brief,
    curves,
    front,
    gaps,
    intervals,
    is_brief,
)
from ettrick.analysis.page.charts.data import GAP95, ChartAxis, Curves, Interval, Series
from ettrick.analysis.page.glossary import metric_words
from ettrick.analysis.page.model import Column, Figure, Section, TableBlock, grid, plain, table_of
from ettrick.analysis.page.sourced import (
    RUN,
    SourcedEstimate,
    SourcedNumber,
    SourceDocument,
    line,
    listed,
    number,
    sentence,
    worded,
)
from ettrick.analysis.results import answers as typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ettrick.analysis.page.chapters.answer import AnsweredQuestion as Asked
    from ettrick.analysis.page.chapters.answer import Draw
    from ettrick.analysis.page.model import Words
    from ettrick.analysis.parts import DifferenceSummary
    from ettrick.analysis.results.studies import CellSummary, SweepDocument


def answers_of(places: SourceDocument, rows: CellRows | None = None) -> list[tuple[Asked[Any], AnswerText]]:
    """Return what the answers of a study say, in order; those that say nothing are left out."""
    count = len(places.content.answers)
    questions: list[Asked[Any]] = [AnsweredQuestion(places, index, rows or CellRows()) for index in range(count)]
    return [(question, text) for question in questions if (text := _answer_text(question)) is not None]


def chosen_cells(content: SweepDocument) -> tuple[int, int | None] | None:
    """Return the numbers of two cells of a sweep: the one that a report looks at closely, and one to hold it against.

    The first question whose answer names both says which; else it is the cell with the best mean of the headline
    metric, and the first one that differs from it in nothing but one axis. The second is ``None`` where there is no
    other; ``None`` for both if no cell ran.
    """
    cells = {cell.cell: cell for cell in running(content)}
    if not cells:
        return None
    places = SourceDocument(RUN, content)
    leads = (_lead_text(AnsweredQuestion(places, index)) for index in range(len(content.answers)))
    for answer in filter(None, leads):
        if answer.cell is not None and answer.cell != answer.rival and {answer.cell, answer.rival} <= cells.keys():
            return answer.cell, answer.rival
    best = (best_of(list(cells.values()), content.metrics[0]) or list(cells.values()))[0]
    rivals = [cell for cell in cells.values() if cell is not best]
    rivals.sort(key=lambda cell: len(cell.values.items() - best.values.items()) != 1)
    return best.cell, rivals[0].cell if rivals else None


def sentences_of(content: SweepDocument) -> list[list[str]]:
    """Return each answer of the document of a sweep in words; one that says nothing keeps the reason why."""
    sentences = {
        question.position: [plain(words) for words in (text.answer, *text.caveats)]
        for question, text in answers_of(SourceDocument(RUN, content))
    }
    return [sentences.get(index, answer.sentences) for index, answer in enumerate(content.answers)]


_DRAWN = ("best", "compare", "pareto")  # questions whose picture no other section has


def section_of(content: SweepDocument, rows: Sequence[Mapping[str, str]], *, is_opened: bool) -> Section:
    """Return the section with all answers and all results; the first screen may have opened with the first one."""
    answers = answers_of(SourceDocument(RUN, content), CellRows(rows) if IN_TIME in content.metrics else None)
    count = number_of(len(content.cells), "combination")
    return Section(
        "answers",
        f"All answers, and the results of {count}" if answers else f"The results of {count}",
        tuple(line(f"{asked_text(question)}. ", text.answer) for question, text in answers),
        (*_items(answers, is_opened=is_opened), all_results(content)),
        tuple(_notes(content)),
    )


def _items(answers: Sequence[tuple[Asked[Any], AnswerText]], *, is_opened: bool) -> Iterator[Figure | TableBlock]:
    """Yield the picture or the table of each answer."""
    for index, (question, text) in enumerate(answers):
        is_shown = index == 0 and is_opened
        picture = text.drawn(f"answer-{index + 1}") if question.content["use"] in _DRAWN and not is_shown else None
        if picture is not None and not isinstance(picture.chart, Curves):
            yield picture if text.table is None else replace(picture, table=text.table)
        elif text.table is not None:
            yield text.table


def all_results(content: SweepDocument, *, briefly: bool = False) -> TableBlock:
    """Return all cells of a sweep, or the best ones, as a table; briefly, only the first metric has intervals."""
    cells = running(content) if briefly else content.cells
    rows, note = _chosen_rows(content, cells)
    varying = [name for name in content.axes if len({cell.values[name] for cell in cells}) > 1]

    def axis_column(name: str) -> Column[CellSummary]:
        return Column(capital(content.axes[name].title), lambda cell: label_text(cell.values[name]), is_number=False)

    metrics = [shown_of_cells(running(content), metric, content.currency) for metric in content.metrics]
    columns: list[Column[CellSummary]] = [
        *map(axis_column, varying),
        Column("Study", lambda _: content.study, not varying, is_number=False),
        *(column for metric in metrics
          for column in _metric_columns(metric, rows, is_brief=briefly, is_first=metric is metrics[0])),
        Column(f"Single run: {metrics[0].name}", lambda cell: _spread(cell, metrics[0]) or "not known",
               any(_spread(cell, metrics[0]) for cell in rows)),
        Column("Runs finished", lambda cell: f"{cell.replications - cell.censored} of {cell.replications}",
               any(cell.censored for cell in rows)),
        Column("Runs", lambda cell: f"{cell.replications:,}{': too few' if cell.precise is False else ''}",
               len(content.replications) > 1 or content.precision is not None),
        Column("Status", lambda cell: "ran" if cell.status == "ok" else f"{status_text(cell)}: {cell.trouble}",
               any(cell.status != "ok" for cell in rows), is_number=False),
    ]  # fmt: skip
    return table_of(f"All results of {content.study}", rows, columns, note=note)


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
    note = "In brackets the 95 % confidence interval of the mean, which more replications make narrower."
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
            "Single run: the run-to-run variability, which more replications do not reduce; 5 % to 95 % of runs, or ± "
            "one standard deviation where there are too few runs for that."
        )
    yield from (capital(text) for text in itertools.chain(content.at_equal_lines, content.notes))


# ----------------------------------------
# Which combination is best, which others are equal to it, and which are too close to call.

_MOST_PARTS = 6  # rivals that a row of a table names
_FEWEST_VALUES = 3  # values from which on an axis has a course that might go on beyond its end


def _best(question: Asked[typed.BestAnswer]) -> AnswerText | None:
    """Return which combination is best: of all, or for each value of some axes; ``None`` where none is."""
    leader = _leading_group(question)
    if leader is None:
        return None
    group = question.answer.groups[leader]
    first, title = _best_words(question, leader)
    return AnswerText(
        sentence(*brief(first, _other_groups(question, leader))),
        title,
        question.cell(group.best or {}),
        next((question.cell(entry.at) for entry in group.order[1:]), None),
        caveats=_beyond(question, group),
    )


def _beyond(question: Asked[typed.BestAnswer], group: typed.RankedGroup) -> tuple[Words, ...]:
    """Return that the best value is the last one evaluated, so that better ones may lie beyond; empty elsewhere."""
    texts, best = [], group.best or {}
    for name in _inner(question):
        axis, label = question.axis(name), best.get(name, "")
        is_open = any(rival[name] != label for rival in group.may_be_best)
        # An axis of fewer values has no course that might go on.
        if axis is None or is_open or not axis.is_numeric or len(axis.labels) < _FEWEST_VALUES:
            continue
        ends = [value for value, _ in axis.values]
        if label in (ends[0], ends[-1]):
            word = "below" if label == ends[0] else "above"
            at = question.named(name, label)
            texts.append(sentence("the best value, ", at, f", is the end of its range: nothing {word} was evaluated"))
    return tuple(texts)


def _for_each(question: Asked[typed.BestAnswer]) -> list[str]:
    return [name for name in question.content.get("for_each", ()) if name in question.varying]


def _inner(question: Asked[typed.BestAnswer]) -> list[str]:
    """Return the axes among whose values the best one is sought."""
    return [name for name in question.varying if name not in _for_each(question)]


def _leading_group(question: Asked[typed.BestAnswer]) -> int | None:
    """Return the index of the group with failure rates as stated, else of that with the best mean."""
    groups, group_axes = question.answer.groups, _for_each(question)
    ranked = [index for index, group in enumerate(groups) if group.best]
    if group_axes and all(map(question.is_factor, group_axes)):
        stated = [index for index in ranked if all(groups[index].at[name] == "1" for name in group_axes)]
        ranked = stated[:1] or ranked
    sign = -1 if question.is_lowest else 1
    return max(ranked, key=lambda index: sign * groups[index].order[0].mean, default=None)


def _best_words(question: Asked[typed.BestAnswer], index: int) -> tuple[Words, Words]:
    """Return what is best in a group, and the same in short."""
    group, group_axes = question.answer.groups[index], _for_each(question)
    where = line("with ", question.where(group.at, *group_axes), ", ") if group_axes else ()
    mean = worded(_group_mean(question, index), question.form)
    if _is_tie(group):
        title = line(where, "all settings have the same ", question.what)
        return line(title, " in every run: ", mean), title
    equal, close = _equal(question, group), _close(question, group)
    subject = question.subject if not close else f"the mean {question.what}"
    end = ", the end of its range" if _beyond(question, group) else ""
    start = line(where, subject, f" is {question.most} with ", _winner(question, group), end)
    if not equal and not close:
        return line(start, ": ", mean, () if group_axes else _lead(question, index)), start
    close_words: Words = ("too close to call",)
    needed: Words = line(" (", question.more_runs("groups", index), ")") if close else ()
    kinds = ((question.equal, equal, ()), (close_words, close, needed))
    parts = [line(what, ": ", question.some(rivals, *_inner(question), last=" and "), more)
             for what, rivals, more in kinds if rivals]  # fmt: skip
    words = line(start, ": ", mean, "; ", listed(parts, "; "))
    if len(equal) + len(close) > 2 * MOST_NAMED or not is_brief(words):
        words = line(start, ": ", mean, "; others are ", line(close_words, needed) if close else question.equal)
    return words, line(start, "; others are too close to call" if close else "")


def _equal(question: Asked[typed.BestAnswer], group: typed.RankedGroup) -> list[Mapping[str, str]]:
    """Return the settings that differ from the best of a group by less than what matters."""
    return [entry.at for entry in group.order[1:] if _is_equal(question, group, entry)]


def _is_equal(question: Asked[typed.BestAnswer], group: typed.RankedGroup, entry: typed.RankedCell) -> bool:
    """Return whether a setting differs from the best of its group by less than what matters."""
    return question.are_equal(group.order[0].mean, entry.behind_ci95, entry.behind)


def _close(question: Asked[typed.BestAnswer], group: typed.RankedGroup) -> list[Mapping[str, str]]:
    """Return the settings that may be better than the best of a group, without those that are equal to it."""
    equal = _equal(question, group)
    return [rival for rival in group.may_be_best if rival not in equal]


def _winner(question: Asked[typed.BestAnswer], group: typed.RankedGroup) -> Words:
    return question.some([group.best or {}], *_inner(question))


def _other_groups(question: Asked[typed.BestAnswer], leader: int) -> list[Words]:
    """Return what is best in the other groups, those with the same answer together."""
    groups, inner = question.answer.groups, _inner(question)
    names = [plain(question.where(group.best or {}, *inner)) for group in groups]
    alike: dict[tuple[str, str], list[typed.RankedGroup]] = {}
    for index, group in enumerate(groups):
        if group.best and index != leader:
            verdict = "is best"
            if _close(question, group) or _equal(question, group):
                verdict = f"leads ({'too close to call' if _close(question, group) else 'others are equal'})"
            alike.setdefault((names[index], verdict), []).append(group)
    texts = []
    for (name, verdict), members in alike.items():
        winner = ("the same setting",) if name == names[leader] else _winner(question, members[0])
        where = question.some([group.at for group in members], *_for_each(question), last=" and ")
        texts.append(line("with ", where, " ", winner, f" {verdict}"))
    return texts


def _is_tie(group: typed.RankedGroup) -> bool:
    order = group.order
    return len(order) > 1 and not any(entry.behind or any(entry.behind_ci95 or ()) for entry in order)


def _group_mean(question: Asked[typed.BestAnswer], index: int) -> SourcedEstimate:
    mean = question.stated("groups", index, "order", 0, "mean")
    of_cell = question.mean(question.cell(question.answer.groups[index].best or {}))
    # Where numbers of runs differ the ranking is over those that all have, and the interval of the cell is not of it.
    is_same = of_cell is not None and abs(of_cell.mean.value - mean.value) <= 1e-9 * abs(mean.value)
    return of_cell if of_cell is not None and is_same else SourcedEstimate(mean)


def _lead(question: Asked[typed.BestAnswer], index: int) -> Words:
    """Return how far the best of a group is ahead of the second; empty where it is alone."""
    group, keys = question.answer.groups[index], ("groups", index, "order", 1)
    behind = question.at(*keys, "behind")
    if behind is None:
        return ()
    second = question.some([group.order[1].at], *(name for name in question.varying if name not in group.at))
    if not behind.value:
        return line("; ", second, " gives the same in every run")
    distance = SourcedEstimate(behind, *(question.ends(*keys, "behind_ci95") or ()))
    years = question.gpu_years(distance, *(question.cell(entry.at) for entry in group.order[:2]))
    size = question.apart(distance, question.at(*keys, "mean"))
    return line(", ", size, years, " less than " if question.is_lowest else " more than ", second)


def _best_table(question: Asked[typed.BestAnswer]) -> TableBlock | None:
    """Return the best of each group, or how far each setting is behind the best, with intervals that hold together."""
    metric, group_axes = capital(name_of(question.metric)), _for_each(question)
    if group_axes:
        ranked = [(group.at, index) for index, group in enumerate(question.answer.groups) if group.best]
        return question.table(group_axes, ranked, (
            Column("Best", lambda index: plain(_winner(question, question.answer.groups[index])), is_number=False),
            Column(metric, lambda index: question.text(_group_mean(question, index))),
            Column("How sure", lambda index: _rivals_text(question, index), is_number=False),
        ))  # fmt: skip
    group = question.answer.groups[_leading_group(question) or 0]
    shown = question.shown()
    return question.table(_inner(question), [(entry.at, entry) for entry in group.order], (
        Column(metric, lambda entry: question.text(question.mean(question.cell(entry.at)))),
        Column("Behind the best, 95 % together", lambda entry: "0" if entry is group.order[0] else shown.distance(
            entry.behind, entry.behind_ci95)),
        Column("How sure", lambda entry: _standing(question, group, entry), is_number=False),
    ))  # fmt: skip


def _rivals_text(question: Asked[typed.BestAnswer], index: int) -> str:
    """Return what is too close to the best of a group, or equal to it, or else how far that is ahead."""
    group = question.answer.groups[index]
    texts = []
    for what, rivals in (("too close to call", _close(question, group)), ("equal", _equal(question, group))):
        names = [plain(question.some([rival], *_inner(question))) for rival in rivals[:_MOST_PARTS]]
        texts += [f"{what}: {', '.join(names)}"] if names else []
    return "; ".join(texts) or plain(_lead(question, index)).lstrip(",; ")


def _standing(question: Asked[typed.BestAnswer], group: typed.RankedGroup, entry: typed.RankedCell) -> str:
    """Return whether a cell is the best of its group, equal to it, too close to call, or behind."""
    if entry is group.order[0]:
        return "too close to call" if _close(question, group) else "the best"
    if not entry.behind and not any(entry.behind_ci95 or ()):
        return "the same in every run"
    if _is_equal(question, group, entry):
        return "equal"
    return "too close to call" if entry.at in group.may_be_best else "behind"


def _best_picture(question: Asked[typed.BestAnswer]) -> Draw:
    group_axes, inner = _for_each(question), _inner(question)
    if group_axes and len(inner) == 1 and question.is_numeric(inner[0]):
        return lambda title: _gaps_by_group(question, inner[0], title)
    group = question.answer.groups[_leading_group(question) or 0]
    order = list(group.order)
    if len(inner) == 1 and (axis := question.axis(inner[0])) is not None and axis.is_numeric:
        labels = [label for label, _ in axis.values]  # an axis with an order keeps it
        order.sort(key=lambda entry: labels.index(entry.at[inner[0]]))
    rows = [_gap_to_the_best(question, group, entry) for entry in order]
    return gaps(question, rows, "the best", is_behind=True)


def _gaps_by_group(question: Asked[typed.BestAnswer], along: str, title: str) -> Figure | None:
    """Return how far each setting along an axis is from the best of its group, a curve for each group."""
    axis, form = question.axis(along), question.people()
    if axis is None:
        return None
    series: list[Series] = []
    for group in question.answer.groups:
        entries = {entry.at[along]: entry for entry in group.order}
        drawn = [(number / axis.size, entries[label]) for label, number in axis.values if label in entries]
        gaps = [_from_the_best(question, entry) for _, entry in drawn]
        name = question.short([group.at], *_for_each(question))
        x, y, spans = tuple(x for x, _ in drawn), tuple(y for y, _ in gaps), tuple(span for _, span in gaps)
        series.append(Series(name, x, y, spans, hue=len(series), span=GAP95))
    y_axis = ChartAxis(f"{form.step} from the best")
    chart = Curves(title, axis.scale, y_axis, tuple(series), levels=((0.0, "the best of each"),))
    best = [f"{line.name}: {plain(_winner(question, group))}"
            for line, group in zip(series, question.answer.groups, strict=True) if group.best]  # fmt: skip
    alt = f"Distance in {question.what} from the best of each group, along {axis.title}. Best: {'; '.join(best[:6])}."
    return Figure(KEY, chart, alt, SAME_FAILURES)


def _from_the_best(
    question: Asked[typed.BestAnswer], entry: typed.RankedCell
) -> tuple[float | None, tuple[float, float] | None]:
    """Return how far a setting is above the best where less is better, or below it, with the interval."""
    form, sign = question.people(), 1 if question.is_lowest else -1
    low, high = sorted(sign * end for end in form.gaps(entry.behind_ci95) or (0.0, 0.0))
    return form.of(sign * entry.behind), None if entry.behind_ci95 is None else (low, high)


def _gap_to_the_best(question: Asked[typed.BestAnswer], group: typed.RankedGroup, entry: typed.RankedCell) -> Interval:
    """Return how far a setting is behind the best, and its own interval, moved by the mean of the best."""
    form, mean = question.people(), question.mean(question.cell(entry.at))
    ends = None if mean is None else mean.interval
    pale = moved(form, ends, group.order[0].mean, is_lowest=question.is_lowest)
    standing = "" if _is_tie(group) else _standing(question, group, entry).removeprefix("behind")
    note = f"(mean {form.form.plain(entry.mean, ends, unit='')}) {standing}".strip()
    return Interval(
        question.short([entry.at], *_inner(question)), form.of(entry.behind), form.gaps(entry.behind_ci95), pale, note
    )


# ----------------------------------------
# What each value of an axis changes.


class _ValueChange(NamedTuple):
    """The effect of a value of the axis: the position of its line, its label, and the change."""

    position: int
    label: str
    difference: DifferenceSummary
    change: SourcedEstimate


def _compared_cell(question: Asked[typed.CompareAnswer], compared: typed.ComparedLine, label: str) -> int | None:
    """Return the cell of a value of the axis, at the same values of the other axes or at its own best ones."""
    at = compared.best_at.get(label)
    return question.cell({**compared.at, question.answer.axis: label} if at is None else at)


def _changes(question: Asked[typed.CompareAnswer]) -> list[_ValueChange]:
    """Return the known changes, the largest first, and only the clear ones if there are any."""
    changes = [
        _ValueChange(index, label, difference, change)
        for index, compared in enumerate(question.answer.lines)
        for label, difference in compared.differences.items()
        if difference and (change := question.difference("lines", index, "differences", label)) is not None
    ]
    changes.sort(key=lambda change: -abs(change.change.mean.value))
    return [change for change in changes if change.difference.resolved] or changes[:1]


def _compare(question: Asked[typed.CompareAnswer]) -> AnswerText | None:
    """Return what the values of an axis change, the largest change first; ``None`` where nothing can be compared."""
    changes = _changes(question)
    if not changes:
        return None
    axis, lines = question.answer.axis, question.answer.lines
    against, compared = lines[0].against, lines[changes[0].position]
    titles = [question.title(name) for name in question.varying if name != axis]
    at_best = f", each at its best {' and '.join(titles)}" if compared.best_at and titles else ""
    start = line("compared with ", question.named(axis, against), at_best, ", ", question.subject, " ")
    texts = [_changed(question, change) for change in changes]
    return AnswerText(
        sentence(*brief(line(start, texts[0]), texts[1:], before=" and ")),
        line(start, texts[0]),
        _compared_cell(question, compared, changes[0].label),
        _compared_cell(question, compared, against),
    )


def _changed(question: Asked[typed.CompareAnswer], change: _ValueChange) -> Words:
    compared, axis, mean = question.answer.lines[change.position], question.answer.axis, change.change.mean.value
    fixed = compared.at if len(question.answer.lines) > 1 else {}
    where = line(" with ", question.where({**fixed, axis: change.label}))
    if not mean:
        return line("is the same in every run", where)
    cells = [_compared_cell(question, compared, label) for label in (compared.against, change.label)]
    base = question.mean(cells[0])
    if question.are_equal(None if base is None else base.mean.value, change.change.interval, mean):
        return line("is ", question.equal, where)
    if not change.difference.resolved:
        more = question.more_runs("lines", change.position, "differences", change.label)
        return line("is too close to call", where, " (", more, ")")
    return line(question.moved(change.change, base and base.mean), question.gpu_years(change.change, *cells), where)


def _compare_table(question: Asked[typed.CompareAnswer]) -> TableBlock | None:
    axis, lines = question.answer.axis, question.answer.lines
    rows = [({**compared.at, axis: label, **compared.best_at.get(label, {})}, (index, label))
            for index, compared in enumerate(lines) for label in compared.differences]  # fmt: skip
    other_axes = [name for name in question.varying if name != axis]
    return None if len(rows) < 2 else question.table([*other_axes, axis], rows, (
        Column(f"Change from {label_text(lines[0].against)}",
               lambda row: "no mean" if (change := lines[row[0]].differences[row[1]]) is None
               else question.change_text(change)),
        Column("How sure", lambda row: _doubt(question, *row), is_number=False),
    ))  # fmt: skip


def _doubt(question: Asked[typed.CompareAnswer], index: int, label: str) -> str:
    """Return how sure a change is, or why it is not known."""
    compared = question.answer.lines[index]
    change = compared.differences[label]
    if change is None:
        cell = _compared_cell(question, compared, label)
        return "not run" if cell is None else missing_text(question.document.cells[cell], question.metric)
    if change.resolved:
        return "clear"
    if (controlled := by_controls(change)) is not None:
        return f"clear without the sampling error of failures: {question.change_text(controlled)}"
    if not change.mean and not any(change.ci95 or ()):
        return "the same in every run"
    return f"too close to call ({plain(question.more_runs('lines', index, 'differences', label))})"


def _compare_picture(question: Asked[typed.CompareAnswer]) -> Draw:
    form, lines = question.people(), question.answer.lines
    rows = [
        gap_bar(question.short([{**compared.at, question.answer.axis: label}]), form, change,
                "" if change.resolved else "too close to call")
        for compared in lines for label, change in compared.differences.items() if change is not None
    ]  # fmt: skip
    return gaps(question, rows, f"as with {plain(question.named(question.answer.axis, lines[0].against))}")


# ----------------------------------------
# What cannot be had together.


def _front_order(question: Asked[typed.ParetoAnswer]) -> list[typed.FrontCell]:
    """Return the combinations on the front that have a mean of the first metric, the best first."""
    metric = question.answer.metrics[0]
    means = [(entry, question.mean(question.cell(entry.at), metric)) for entry in question.answer.front]
    ranked = [(mean.mean.value, entry) for entry, mean in means if mean is not None]
    ranked.sort(key=lambda pair: pair[0], reverse=not question.is_lowest_best(metric))
    return [entry for _, entry in ranked]


def _pareto(question: Asked[typed.ParetoAnswer]) -> AnswerText | None:
    """Return which combinations no other one beats in everything; ``None`` where nothing is known."""
    order, axes = _front_order(question), question.answer.axes
    if not order:
        return None
    names = [question.title(name) if name in axes else f"the {metric_words(name).removeprefix('the ')}"
             for name in (*question.answer.metrics, *axes)]  # fmt: skip
    goals = listed([(name,) for name in names])
    ends = [*order[:1], *order[1:][-1:]]
    best = [question.some([entry.at]) for entry in ends]
    means = [[worded(mean, question.form_of(name)) for name in question.answer.metrics
              if (mean := question.mean(question.cell(entry.at), name))] for entry in ends]  # fmt: skip
    texts = [line(name, " with ", listed(reached)) for name, reached in zip(best, means, strict=True)]
    if len(order) == 1:
        title = line(goals, " are each best with ", best[0])
        doubt = "; others are too close to call" if question.answer.may_be_too else ""
        return AnswerText(sentence(title, ": ", listed(means[0]), doubt), title, question.cell(order[0].at))
    start = line("in ", goals, " at once, no other setting beats ")
    source = f"{question.places.file}#/answers/{question.position}/data/front/*?"
    count = SourcedNumber(float(len(question.answer.front)), (source,)) - 2.0
    more = line(" (", number(count, COUNT), " more between them)") if len(order) > 2 else ()
    answer = sentence(start, listed(texts), more)
    if not is_brief(answer):
        answer = sentence(start, listed(best))
    title = line("no other setting beats ", listed(best), " in ", goals, " at once")
    return AnswerText(answer, title, question.cell(order[0].at))


def _pareto_table(question: Asked[typed.ParetoAnswer]) -> TableBlock:
    def mean(name: str) -> Column[typed.FrontCell]:
        head = capital(name_of(name))
        return Column(head, lambda row: question.text(question.mean(question.cell(row.at), name), name))

    standing: Column[typed.FrontCell] = Column(
        "Standing", lambda entry: "on the front" if entry.certain else "perhaps on the front", is_number=False
    )
    rows = [(entry.at, entry) for entry in (*_front_order(question), *question.answer.may_be_too)]
    return question.table(question.varying, rows, (*map(mean, question.answer.metrics), standing))


def _pareto_picture(question: Asked[typed.ParetoAnswer]) -> Draw:
    ranking = dict.fromkeys(range(len(question.document.cells)), "behind")
    for entry in (*_front_order(question), *question.answer.may_be_too):
        cell = question.cell(entry.at)
        ranking |= {} if cell is None else {cell: "front" if entry.certain else "perhaps"}
    first, second, *_ = (*question.answer.metrics, *question.answer.axes)
    return front(question, (first, second), ranking)


# ----------------------------------------
# Which axis moves a metric most.

_LEAST = 0.001  # a share of the variance that is stated
_MOST_SHARES = 3


def _sensitivity(question: Asked[typed.SensitivityAnswer]) -> AnswerText | None:
    """Return what matters most; ``None`` where the points do not tell."""
    if isinstance(question.answer, typed.TornadoAnswer):
        return _tornado(question, question.answer.axes)
    return _indices(question, question.answer.axes) if isinstance(question.answer, typed.SobolAnswer) else None


def _tornado(question: Asked[Any], swings: Sequence[typed.SwingAnswer]) -> AnswerText | None:
    if not swings or not swings[0].swing:
        return None
    axis, name, moves = swings[0].axis, question.title(swings[0].axis), enumerate(swings[0].moves)
    texts = [text for index, move in moves if (text := _move(question, axis, index, move))]
    start = line("what moves ", question.subject, " most is ", name, ": ")
    answer = sentence(*brief(line(start, texts[0]), texts[1:], before=" and "))
    return AnswerText(answer, line(name, " moves ", question.subject, " most"), 0)


def _move(question: Asked[Any], axis: str, index: int, move: typed.MoveAnswer) -> Words:
    change = question.difference("axes", 0, "moves", index, "difference")
    if change is None or move.difference is None:
        return ()
    where = line("with ", question.named(axis, move.value), " it ")
    if not change.mean.value:
        return line(where, "is the same in every run")
    if not move.difference.resolved:
        return line(where, "does not change clearly")
    return line(where, question.moved(change, question.at("center")))


def _shares(question: Asked[Any], axes: Sequence[typed.IndexAnswer]) -> list[tuple[str, SourcedEstimate]]:
    """Return which share of the variance each axis makes, with what it does together with others, largest first."""
    order = sorted(range(len(axes)), key=lambda index: -(axes[index].total.value or 0.0))
    shares = [(question.title(axes[index].axis), _share(question, index)) for index in order]
    return [(title, share) for title, share in shares if share is not None]


def _share(question: Asked[Any], index: int) -> SourcedEstimate | None:
    share, ends = question.at("axes", index, "total", "value"), question.ends("axes", index, "total", "ci95")
    if share is None:
        return None
    has_width = ends is not None and ends[1].value - ends[0].value > _LEAST
    return SourcedEstimate(share, *ends) if ends is not None and has_width else SourcedEstimate(share)


def _indices(question: Asked[Any], axes: Sequence[typed.IndexAnswer]) -> AnswerText | None:
    shares = _shares(question, axes)
    texts = [line(title, " with ", worded(share, PERCENT))
             for title, share in shares[:_MOST_SHARES] if share.mean.value >= _LEAST]  # fmt: skip
    if not texts:
        return None
    title = line(shares[0][0], " moves ", question.subject, " most")
    answer = sentence("most of the differences in ", question.subject, " come from ", listed(texts), " of the variance")
    if is_wide(shares[0][1].interval):
        title = line("which axis moves ", question.subject, " most is too close to call (more samples needed)")
        answer = sentence(title)
    return AnswerText(answer, title, 0)


def _sensitivity_table(question: Asked[typed.SensitivityAnswer]) -> TableBlock | None:
    answer = question.answer
    if isinstance(answer, typed.TornadoAnswer):
        form, change = question.shown().form, f"Change of {name_of(question.metric)}"
        rows = [
            [capital(question.title(swing.axis)), label_text(move.value), move.trouble if move.difference is None else
             form.change(move.difference.mean, ends_of(move.difference.ci95))]
            for swing in answer.axes for move in swing.moves
        ]  # fmt: skip
        return grid(asked_text(question), ("Axis", "Value", change), rows, (0, 1))
    rows = [
        [capital(title), "too close" if is_wide(share.interval) else PERCENT.value(share.mean.value, share.interval)]
        for title, share in (_shares(question, answer.axes) if isinstance(answer, typed.SobolAnswer) else ())
    ]
    return grid(asked_text(question), ("Axis", "Share of the variance, with interactions"), rows)


# ----------------------------------------
# What is worded of each kind of question.


class AnswerKind(NamedTuple):
    """The statement of answers to a kind of question: in words, as a table of all of it, and as a picture."""

    lead: Callable[[Asked[Any]], AnswerText | None]  # ``None`` where there is nothing to say
    table: Callable[[Asked[Any]], TableBlock | None]
    picture: Callable[[Asked[Any]], Draw]


ANSWERS = {
    "best": AnswerKind(_best, _best_table, _best_picture),
    "compare": AnswerKind(_compare, _compare_table, _compare_picture),
    "crossover": AnswerKind(along.crossover, along.crossover_table, along.crossover_picture),
    "pareto": AnswerKind(_pareto, _pareto_table, _pareto_picture),
    "sensitivity": AnswerKind(_sensitivity, _sensitivity_table, intervals),
    "threshold": AnswerKind(along.threshold, along.threshold_table, along.threshold_picture),
    "trend": AnswerKind(along.trend, along.trend_table, lambda question: curves(question, question.answer.along)),
}
"""The texts, tables and pictures of each kind in `ettrick.analysis.study.model.QUESTIONS`."""


def _answer_text(question: Asked[Any]) -> AnswerText | None:
    """Return what an answer says, with all of it as a table and as a picture."""
    lead, kind = _lead_text(question), ANSWERS.get(question.content["use"])
    if lead is None or kind is None:
        return lead
    return lead._replace(picture=kind.picture(question), table=kind.table(question))


def _lead_text(question: Asked[Any]) -> AnswerText | None:
    """Return an answer in words; of a question that another package brings its own words, or else its numbers."""
    kind = ANSWERS.get(question.content["use"])
    if kind is None:
        data = json.dumps(question.data, ensure_ascii=False)
        words = " ".join(question.document.answers[question.position].sentences) or f"{asked_text(question)}: {data}."
        return AnswerText((words,), (asked_text(question),))
    return kind.lead(question)

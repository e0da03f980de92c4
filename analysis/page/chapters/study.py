"""The drivers of the answer of a study: other answers, phases, the largest input, lost time, and a formula."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.analysis.amounts import (
    COUNT,
    PERCENT,
    POINTS,
    MetricFormat,
    capital,
    label_text,
    name_of,
    number_of,
    phrases,
    points_form,
    verb,
)
from ettrick.analysis.metrics import TIME_SHARE, lower_is_better
from ettrick.analysis.page.cells import (
    ChosenAxis,
    axes_of,
    best_of,
    cell_mean,
    mean_of,
    missing_text,
    place_of,
    running,
    share_of_lines,
    shown_of_cells,
    status_text,
)
from ettrick.analysis.page.chapters import sensitivity
from ettrick.analysis.page.chapters.answer import IN_TIME, AnsweredQuestion, CellRows, asked_text
from ettrick.analysis.page.chapters.answers import all_results, answers_of, section_of
from ettrick.analysis.page.chapters.curves import curves_picture, known_lines
from ettrick.analysis.page.charts.data import HeatMap
from ettrick.analysis.page.first_screen import (
    EXACTLY,
    chance,
    first_screen,
    not_covered,
    not_known,
    stated,
    variability,
)
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.page.glossary import bucket_words, metric_words
from ettrick.analysis.page.model import Figure, Section, grid, joined, lists, plain
from ettrick.analysis.page.sourced import (
    RUN,
    SourcedEstimate,
    SourcedNumber,
    SourceDocument,
    between,
    line,
    listed,
    number,
    sentence,
    worded,
)
from ettrick.analysis.study.amounts import evenly
from ettrick.analysis.study.questions.question import clauses_of
from ettrick.sim import JOB_BUCKETS, catalog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ettrick.analysis.page.chapters.answer import AnswerText
    from ettrick.analysis.page.model import FirstScreen, TableBlock, Words
    from ettrick.analysis.page.report_data import ReportData
    from ettrick.analysis.results.studies import CellSummary, SweepDocument

    _Answered = tuple[AnsweredQuestion[Any], AnswerText]

# ----------------------------------------
# A study that was run, for the terminal: the answers first, then the numbers.

_MOST_NAMED = 10


def format_sweep(content: SweepDocument, *, width: int | None = None) -> str:
    """Return the document of a study (as read back from JSON) as text, in so many columns."""
    return terminal.write(_chapters(content), width=width)


def _chapters(content: SweepDocument) -> Iterator[Section]:
    total = content.counts.cells
    warnings = [f"warning: {entry.warning}{'' if entry.cells == total else f' ({entry.cells} of {total} cells)'}"
                for entry in content.warnings]  # fmt: skip
    question = [content.question] if content.question else []
    text = (*question, _setting(content), *_precision(content), *content.at_equal_lines, *warnings)
    yield Section("study", content.study, text)
    yield from _answer_sections(content)
    if running(content):
        yield Section("results", capital(name_of(content.metrics[0])), (), tuple(_results(content)))
    troubles = tuple(_troubles_text(content))
    yield from lists(("Without results", troubles), ("Assumptions", content.assumptions), ("Notes", content.notes))


def _results(content: SweepDocument) -> list[TableBlock]:
    """Return the heat maps as tables where they say all, or else the table of all results."""
    maps = heat_maps(content) if len(content.metrics) == 1 else []
    tables = [picture.table for picture in maps if picture.table is not None]
    is_whole = sum(len(table.rows) * (len(table.columns) - 1) for table in tables) == len(content.cells)
    has_doubts = content.precision is not None or any(cell.draws or cell.censored for cell in content.cells)
    return tables if is_whole and not has_doubts else [all_results(content, briefly=True)]


def _answer_sections(content: SweepDocument) -> Iterator[Section]:
    """Yield each question with its answer, or with the reason why it has none."""
    places = SourceDocument(RUN, content)
    texts = {question.position: text for question, text in answers_of(places)}
    for index, summary in enumerate(content.answers):
        question: AnsweredQuestion[Any] = AnsweredQuestion(places, index)
        text = texts.get(index)
        # A ranking of all combinations is the table of all results.
        has_table = summary.use != "best" or question.content.get("for_each")
        items = (text.table,) if text is not None and text.table is not None and has_table else ()
        words = tuple(summary.sentences) if text is None else (text.answer, *text.caveats)
        yield Section("answer", asked_text(question), words, items)


def _setting(content: SweepDocument) -> str:
    counts, design = content.counts, content.design["use"]
    numbers = content.replications
    parts = [f"scenario {content.scenario}", f"design {design}", number_of(counts.cells, "cell")]
    if counts.points > counts.cells:
        parts.append(f"{counts.points:,} points with the draws of what is unknown")
    if numbers:
        span = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
        parts.append(f"{span} {'replication' if span == '1' else 'replications'} each")
    parts.append(f"seed {content.seed}")
    return ", ".join(parts)


def _precision(content: SweepDocument) -> Iterator[str]:
    precision = content.precision
    if precision is None:
        return
    cells = [cell for cell in content.cells if cell.precise is not None]
    met = sum(cell.precise is True for cell in cells)
    name = name_of(precision["metric"] or content.metrics[0])
    yield (
        f"precision {precision['width']}, the half-width of the 95 % interval of {name}: "
        f"reached in {met} of {number_of(len(cells), 'cell')}"
    )


def _troubles_text(content: SweepDocument) -> Iterator[str]:
    """Yield the cells without results, with the reasons, those of the same reason together."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for cell in content.cells:
        if cell.status != "ok":
            where = phrases(cell.values, cell.values, content.axes)
            reasons.setdefault((status_text(cell), cell.trouble), []).append(f"({where})")
    for (status, reason), places in reasons.items():
        more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
        yield f"{', '.join(places[:_MOST_NAMED])}{more}: {status}: {reason}"


_MOST = 3

# Metrics that phases of time explain.
_OF_TIME = ("ettr", "scheduling_goodput", "runtime_goodput", "goodput", "effective_mfu", IN_TIME)
_LEAST = 0.001  # a change of a share of time that is stated
_CLOSE = 0.005  # how far a formula may be from the interval of the simulation without a word about it


def drivers(report_data: ReportData, answers: Sequence[_Answered]) -> tuple[Words, ...]:
    """Return three points that say what drives the first of some answers, or as many as there are.

    One other answer of the study comes first; then what matters most, where time is lost, and what a formula
    says; then the rest of the answers.
    """
    question, first = answers[0]
    other_points = _others(answers)
    pair = None if first.cell is None or first.rival is None else (first.cell, first.rival)
    second = pair[1] if pair is not None and _of_phases(question, pair) else None

    def candidates() -> Iterator[Words]:
        yield from other_points[:1]
        yield _of_phases(question, pair)
        largest = sensitivity.driver(report_data.sensitivity, question.document.currency or "")
        yield largest or _of_axes(question, first.cell, [entry for entry, _ in answers[1:]], second)
        yield _of_shares(question, first.cell)
        yield of_formula(question, first.cell, far=False)
        yield from other_points[1:]

    points = tuple(itertools.islice(filter(None, candidates()), _MOST))
    # Variability drives nothing: it is stated where there is nothing else to tell.
    alone = () if points else _of_variability(question, first.cell)
    return (alone,) if alone else points


def _others(answers: Sequence[_Answered]) -> list[Words]:
    """Return the other answers in short, without those that ask the same; the course along an axis comes last."""
    points: dict[tuple[str, str, str], tuple[bool, Words]] = {}
    for question, text in answers:
        points.setdefault(_subject(question), (question.content["use"] == "trend", text.point))
    rest = [point for key, point in points.items() if key != _subject(answers[0][0])]
    return [point for _, point in sorted(rest, key=lambda pair: pair[0])]


def _subject(question: AnsweredQuestion[Any]) -> tuple[str, str, str]:
    """Return what a question asks: the best for each value of an axis, and along it, are the same."""
    content = question.content
    use, along = content["use"], content.get("along") or content.get("axis") or ""
    if use in ("best", "crossover"):
        use, along = "best", along or content.get("for_each") or ()
        along = along[0] if isinstance(along, list) and len(along) == 1 else along
    return use, question.metric, str(along)


def _of_phases(question: AnsweredQuestion[Any], pair: tuple[int, int] | None) -> Words:
    """Return what time the first option spends on less, and on more, than the second one; empty where that is open."""
    if pair is None or question.metric not in _OF_TIME:
        return ()
    changes = _share_changes(question, pair)
    least = max([_LEAST, *(abs(change.value) / 10 for _, change in changes[:1])])
    texts: list[Words] = []
    for name, change in [pair for pair in changes if abs(pair[1].value) >= least][:_MOST]:
        size = number(abs(change), POINTS._replace(unit="") if texts else POINTS)
        verb = f" {'less' if change.value < 0 else 'more'} {'' if texts else 'of its time '}on "
        texts.append(line(size, verb, bucket_words(name)))
    if not texts:
        return ()
    where, first, second = _apart(question, pair)
    start = line("with ", where, ", ") if where else ""
    return sentence(start, "the job spends ", listed(texts), " with ", first, " instead of ", second)


def _share_changes(question: AnsweredQuestion[Any], pair: tuple[int, int]) -> list[tuple[str, SourcedNumber]]:
    """Return by how much the shares of lost time of two cells differ, largest first."""
    changes = []
    for name in JOB_BUCKETS:
        here, there = (question.rows.mean(cell, f"{TIME_SHARE}{name}") for cell in pair)
        if name != "productive" and here is not None and there is not None and here.value != there.value:
            changes.append((name, here - there))
    return sorted(changes, key=lambda change: -abs(change[1].value))


def _apart(question: AnsweredQuestion[Any], pair: tuple[int, int]) -> tuple[Words, Words, Words]:
    ours, theirs = (question.document.cells[cell].values for cell in pair)
    differ = [name for name in question.varying if ours[name] != theirs[name]]
    common = {name: ours[name] for name in question.varying if name not in differ}
    first = question.some([ours], *differ)
    second = question.value(differ[0], theirs[differ[0]]) if len(differ) == 1 else question.some([theirs], *differ)
    return question.where(common), first, second


def _of_axes(
    question: AnsweredQuestion[Any], cell: int | None, further: Sequence[AnsweredQuestion[Any]], second: int | None
) -> Words:
    """Return the largest change of the metric by one step along one axis from the answer; empty without such a step.

    A step leads to the next value of numbers, and to the nearest result of names: how far a grid reaches was the choice
    of who made it, and says nothing of what drives the answer. Left out is what is stated otherwise: the step to the
    second option, and axes that another answer is about.
    """
    here = question.mean(cell)
    if cell is None or here is None:
        return ()
    values = question.document.cells[cell].values
    compared = {entry.content.get("axis") for entry in further if entry.content["use"] == "compare"}
    names = [name for name in question.varying if name not in compared]
    steps = [step for name in names for step in _steps(question, values, name, here) if step.cell != second]
    step = max(steps, key=lambda step: abs(step.change.mean.value), default=None)
    if step is None or not _is_resolved(step.change):
        return ()
    word = (" lower", " higher")[step.change.mean.value > 0]
    rest = question.where({name: label for name, label in values.items() if name != step.axis})
    where = line("with ", rest, ", ") if rest else ""
    size = line(question.apart(step.change, here.mean), word,
                question.gpu_years(step.change, cell, step.cell))  # fmt: skip
    pair = line(question.some([{step.axis: step.label}], step.axis), " instead of ",
                question.value(step.axis, values[step.axis]))  # fmt: skip
    return sentence(where, question.subject, " is ", size, " with ", pair)


def _is_resolved(change: SourcedEstimate) -> bool:
    low, high = change.interval or (change.mean.value, change.mean.value)
    return change.mean.value != 0 and low * high > 0


class _AxisStep(NamedTuple):
    """The effect of another value of an axis: its label, the change, and the cell that has it."""

    axis: str
    label: str
    change: SourcedEstimate
    cell: int


def _steps(
    question: AnsweredQuestion[Any], values: Mapping[str, str], name: str, here: SourcedEstimate
) -> list[_AxisStep]:
    axis = question.axis(name)
    labels = [entry.label for entry in question.document.axes[name].values]
    if axis is not None and axis.is_numeric:
        order = [label for label, _ in axis.values]
        index = order.index(values[name])
        labels = order[max(index - 1, 0) : index + 2]
    steps = []
    for label in labels:
        cell = question.cell({**values, name: label})
        there = question.mean(cell)
        if label != values[name] and cell is not None and there is not None:
            steps.append(_AxisStep(name, label, between(there, here), cell))
    return steps if question.is_numeric(name) else sorted(steps, key=lambda step: abs(step.change.mean.value))[:1]


def _of_shares(question: AnsweredQuestion[Any], cell: int | None) -> Words:
    """Return what the largest part of the lost time goes to; empty where that is not known."""
    shares = {name: question.mean(cell, f"{TIME_SHARE}{name}") or (
        None if (mean := question.rows.mean(cell, f"{TIME_SHARE}{name}")) is None else SourcedEstimate(mean)
    ) for name in JOB_BUCKETS if name != "productive"}  # fmt: skip
    lost = {name: share for name, share in shares.items() if share is not None and share.mean.value > 0}
    if not lost or cell is None:
        return ()
    name = max(lost, key=lambda bucket: lost[bucket].mean.value)
    is_most = lost[name].mean.value > sum(share.mean.value for share in lost.values()) / 2
    start = "most of the lost time goes to " if is_most else "the largest part of the lost time goes to "
    return sentence(_at(question, cell), start, bucket_words(name), ": ", worded(lost[name], PERCENT))


def _at(question: AnsweredQuestion[Any], cell: int) -> Words:
    """Return which combination a sentence is about; empty where there is but one."""
    if len(question.document.cells) < 2:
        return ()
    return line("with ", question.where(question.document.cells[cell].values), ", ")


def _of_variability(question: AnsweredQuestion[Any], cell: int | None) -> Words:
    """Return how far single runs of the answer lie apart; empty where the data do not tell."""
    if cell is None or question.metric == IN_TIME:
        return ()
    keys = ("cells", cell, "metrics", question.metric)
    words = variability(question.places, *keys, form=question.form)
    std, mean = question.places.at(*keys, "std"), question.places.at(*keys, "mean")
    if words or std is None or mean is None or std.value <= 1e-9 * abs(mean.value):
        return words
    size = (number(std, points_form(question.form)),)
    start = "run-to-run variability: a single run is typically "
    return sentence(start, size, " away from the mean of all runs (standard deviation)")


def of_formula(question: AnsweredQuestion[Any], cell: int | None, *, far: bool) -> Words:
    """Return what a formula says against the simulation: where both are `far` apart, or else where they are not."""
    formula = None if cell is None else question.places.at("cells", cell, "closed_form", "ettr")
    simulated = question.mean(cell, "ettr")
    if formula is None or simulated is None or cell is None:
        return ()
    gives = f"a closed form for a long run gives {metric_words('ettr')} as "
    start = line(_at(question, cell), gives, number(formula, PERCENT))
    ends = simulated.interval or (simulated.mean.value, simulated.mean.value)
    is_close = ends[0] - _CLOSE <= formula.value <= ends[1] + _CLOSE
    if is_close is far:
        return ()
    why = ": the formula leaves out the start with all parts in order, queues and the end at the horizon" if far else ""
    return sentence(start, ", the simulation ", worded(simulated, PERCENT), why)


# ----------------------------------------
# The first screen about a study.

_TROUBLES = (
    ("infeasible", "cannot run as stated and have no results"),
    ("failed", "failed and have no results"),
    ("crashed", "crashed and have no results"),
)


def opening(report_data: ReportData) -> FirstScreen:
    """Return the first screen: the answer to the first question."""
    content = report_data.sweep_document
    places = SourceDocument(RUN, content)
    answers = answers_of(places, CellRows(report_data.table))
    heading = str(content.question or content.description or content.study)
    if not answers:
        return first_screen(heading, _silent(content), (), None, (), _not_covered(report_data, places))
    question, first = answers[0]
    further = list(_further(content, answers))
    picture = first.drawn()
    otherwise = stated(None if report_data.focus is None else report_data.focus.scenario)
    unknown = _unknown(places, question, first, otherwise)
    runs = None if first.cell is None else places.at("cells", first.cell, "replications")
    noise = chance(runs, question.mean(first.cell))
    caveat = of_formula(question, first.cell, far=True)
    screen = first_screen(
        heading,
        joined([_unanswered(question), first.answer]),
        (*further, *((first.doubt,) if first.doubt else (unknown, noise))),
        picture,
        drivers(report_data, [entry for entry in answers if entry[1].answer not in further]),
        (*first.caveats, *([caveat] if caveat else ()), *_not_covered(report_data, places)),
    )
    return replace(screen, glossary=(*_presets(question, first), *screen.glossary))


def _further(content: SweepDocument, answers: Sequence[_Answered]) -> Iterator[Words]:
    """Yield the answers to the second and further clauses of the question, or why there is none."""
    texts = {question.position: (_subject(question), text.answer) for question, text in answers}
    opened = {_subject(answers[0][0])}
    for position in range(answers[0][0].position + 1, min(len(clauses_of(content.question)), len(content.answers))):
        subject, words = texts.get(position, (None, tuple(content.answers[position].sentences)))
        if subject not in opened:
            yield words
        opened |= set() if subject is None else {subject}


def answers_section(report_data: ReportData) -> Section | None:
    """Return the section with all answers and all results; ``None`` without a sweep."""
    document = report_data.sweep
    is_opened = report_data.kind == "sweep"
    return None if document is None else section_of(document, report_data.table, is_opened=is_opened)


def _unanswered(question: AnsweredQuestion[Any]) -> Words:
    """Return that what was asked first has no answer, and why; empty where it has one."""
    sentences = question.document.answers[0].sentences if question.position else ()
    if not question.position:
        return ()
    reason = sentences[0].removesuffix(".") if sentences else ""
    return sentence("the first question has no answer", f": {reason}" if reason else "")


def _presets(question: AnsweredQuestion[Any], first: AnswerText) -> list[tuple[str, str]]:
    """Return what recoveries of the catalog that the answer names do."""
    names = [name for name in catalog.recoveries() if f"“{name}”" in plain(first.answer)]
    is_named = any("recovery.use" in question.document.axes[axis].paths for axis in question.varying)
    titles = [(name, str(catalog.recovery(name)["title"])) for name in names if is_named]
    return [(name, f"{capital(title.partition(': ')[2] or title)}.") for name, title in titles]


def _silent(content: SweepDocument) -> Words:
    sentences = [text for answer in content.answers for text in answer.sentences]
    if sentences:
        return tuple(joined([(text,) for text in sentences]))
    if not any(cell.status == "ok" for cell in content.cells):
        reason = next((cell.trouble for cell in content.cells if cell.trouble), "")
        return ("None of the evaluated points can run", f": {reason}." if reason else ".")
    return ("The study asks no question about its results; the figures below show all evaluated points.",)


def _unknown(places: SourceDocument, question: AnsweredQuestion[Any], first: AnswerText, otherwise: str) -> Words:
    """Return how far what is not known exactly moves the answer; or what else it holds for."""
    titles = [(str(axis.title),) for axis in question.document.axes.values() if axis.unknown]
    if not titles:
        return (otherwise,)
    start = line(listed(titles), " is" if len(titles) == 1 else " are", " uncertain")
    if first.band:
        return sentence(start, ": in nine cases of ten the answer is ", first.band)
    if first.cell is None:
        return sentence(start)
    keys = ("cells", first.cell, "metrics", question.metric)
    worded = not_known(places, *keys, form=question.form, what=f"the {question.what}")
    return sentence(start) if worded == (EXACTLY,) else joined([sentence(start), worded])


def _not_covered(report_data: ReportData, places: SourceDocument) -> tuple[Words, ...]:
    """Return what the answer does not cover: points without results, notes, and what is assumed."""
    gaps: list[Words] = []
    for status, what in _TROUBLES:
        count = places.at("counts", status)
        if count is not None and count.value:
            total = places.stated("counts", "points")
            gaps.append(sentence(number(count, COUNT), " of ", number(total, COUNT), " points ", what))
    study = report_data.study
    of_study = () if study is None else study.study.assumptions
    assumed = [text for text in places.get("assumptions") if text in of_study] or places.get("assumptions")
    return (*gaps, *not_covered(places.get("notes"), [entry.warning for entry in places.get("warnings")], assumed))


# ----------------------------------------
# How each metric moves along the axes of a study.

_MOST_METRICS = 6
_MOST_AXES = 3
_MOST_PICTURES = 4  # pictures that one is divided into, by the values of one axis


def section(report_data: ReportData) -> Section | None:
    """Return the section, without the picture of the first screen; ``None`` where there is nothing to say."""
    content = report_data.sweep
    if content is None or len(running(content)) < 2:
        return None
    is_first = report_data.kind == "sweep"
    answers = answers_of(SourceDocument(RUN, content), CellRows(report_data.table))[:1] if is_first else []
    drawn = [getattr(getattr(answer.drawn(), "chart", None), "series", ()) for _, answer in answers]
    pictures = [picture for picture in _pictures(content) if getattr(picture.chart, "series", None) not in drawn]
    if not pictures:
        return None
    return Section("curves", str(pictures[0].chart.title), (), tuple(pictures), tuple(_curve_notes(content)))


def _curve_notes(content: SweepDocument) -> Iterator[str]:
    yield "The run-to-run variability is in the table of all results."
    for metric in content.metrics[:_MOST_METRICS]:
        shown = shown_of_cells(running(content), metric, content.currency)
        if _is_level(content, shown):
            value = shown.form.plain(mean_of(best_of(running(content), metric)[0], metric) or 0.0)
            yield f"{capital(shown.name)} {verb(shown.metric, 'is', 'are')} {value} in all combinations."


def _pictures(content: SweepDocument) -> Iterator[Figure]:
    """Yield the pictures: the headline along every axis that matters, other metrics along the first of them."""
    axes = _axes(content)
    metrics = [metric for metric in content.metrics if best_of(running(content), metric)][:_MOST_METRICS]
    for position, metric in enumerate(metrics):
        worded = shown_of_cells(running(content), metric, content.currency)
        if _is_level(content, worded):
            continue
        for axis in axes[:1] if position else axes:
            lines = known_lines(content, axis, worded)
            if any(len(line.cells) > 2 for line in lines):
                yield curves_picture(content, axis, worded, lines, f"{_key(metric)}-along-{_key(axis.name)}")


def _is_level(content: SweepDocument, metric: MetricFormat) -> bool:
    means = [mean_of(cell, metric.metric) for cell in running(content)]
    return len({metric.form.plain(mean) for mean in means if mean is not None}) == 1


def _axes(content: SweepDocument) -> list[ChosenAxis]:
    """Return the axes to go along: those that questions name, else those of numbers, the one with most values first."""
    shares = {axis.name: share_of_lines(content, axis) for axis in axes_of(content) if axis.is_numeric}
    numeric = [axis for axis in axes_of(content) if len(axis.labels) > 2 and shares.get(axis.name, 0.0) > 0]
    # Where most points are on no line, lines tell of a few points only.
    numeric = [axis for axis in numeric if shares[axis.name] >= 0.5] or numeric[:1]
    named = dict.fromkeys((answer.model_extra or {}).get("along") for answer in content.answers)
    chosen = [axis for name in named for axis in numeric if axis.name == name]
    return (chosen or sorted(numeric, key=lambda axis: -len(axis.labels)))[:_MOST_AXES]


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


# ----------------------------------------
# Two axes of a study against each other.

_MOST_COLUMNS, _MOST_ROWS = 12, 40
_LONG_LABEL = 12  # characters of a label that is read in front of a row rather than above a column


def heat_maps_section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    maps = [] if report_data.sweep is None else heat_maps(report_data.sweep)
    return Section("heat-maps", maps[0].chart.title, (), tuple(maps)) if maps else None


def heat_maps(content: SweepDocument) -> list[Figure]:
    """Return the first metric over the two axes with the most combinations, a picture for each value of the others."""
    pair = _heat_map_axes(content)
    if pair is None or not best_of(running(content), content.metrics[0]):
        return []
    metric = shown_of_cells(running(content), content.metrics[0], content.currency)
    pictures = [_picture(content, pair, fixed, metric, number) for number, fixed in enumerate(_fixed(content, pair))]
    return [picture for picture in pictures if picture is not None]


def _heat_map_axes(content: SweepDocument) -> tuple[ChosenAxis, ChosenAxis] | None:
    """Return the two axes with the most combinations that are there: rows and columns; ``None`` without a grid."""
    axes = [axis for axis in axes_of(content) if len(axis.labels) > 1]
    pairs = [
        (first, second)
        for first, second in itertools.combinations(axes, 2)
        if min(len(first.labels), len(second.labels)) > 2 or len(first.labels) + len(second.labels) > 5
    ]
    filled = [pair for pair in pairs if _share_filled(content, pair) > 0.5]
    if not filled:
        return None
    first, second = max(filled, key=lambda pair: len(pair[0].labels) * len(pair[1].labels))
    # Pages are higher than wide, and long labels are read in front of rows.
    columns, rows = sorted((second, first), key=lambda axis: len(axis.labels))
    is_long = max(map(len, columns.labels)) > _LONG_LABEL and len(rows.labels) <= _MOST_COLUMNS
    return (columns, rows) if is_long and max(map(len, rows.labels)) <= _LONG_LABEL else (rows, columns)


def _share_filled(content: SweepDocument, pair: tuple[ChosenAxis, ChosenAxis]) -> float:
    """Return which share of the combinations of two axes the fullest of their tables has."""
    counts: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    names = {axis.name for axis in pair}
    for cell in content.cells:
        rest = tuple(label for name, label in cell.values.items() if name not in names)
        counts.setdefault(rest, set()).add(tuple(cell.values[axis.name] for axis in pair))
    return max(map(len, counts.values())) / (len(pair[0].labels) * len(pair[1].labels))


def _fixed(content: SweepDocument, pair: tuple[ChosenAxis, ChosenAxis]) -> list[dict[str, str]]:
    """Return the values of the other axes of each picture: all if there are few, else those of the best cell."""
    other_axes = [axis for axis in axes_of(content) if axis not in pair]
    combinations = [dict(zip((axis.name for axis in other_axes), labels, strict=True))
             for labels in itertools.product(*(axis.labels for axis in other_axes))]  # fmt: skip
    if len(combinations) <= _MOST_PICTURES:
        return combinations
    best = best_of(running(content), content.metrics[0])[0]
    return [{axis.name: best.values[axis.name] for axis in other_axes}]


def _picture(
    content: SweepDocument,
    pair: tuple[ChosenAxis, ChosenAxis],
    fixed: Mapping[str, str],
    metric: MetricFormat,
    number: int,
) -> Figure | None:
    """Return a picture at some values of the other axes; ``None`` if no cell of it has a mean."""
    cells = {(cell.values[pair[0].name], cell.values[pair[1].name]): cell
             for cell in content.cells if fixed.items() <= cell.values.items()}  # fmt: skip
    best = best_of([cell for cell in cells.values() if cell.status == "ok"], metric.metric)
    if not best:
        return None
    rows, columns = evenly(pair[0].labels, _MOST_ROWS), evenly(pair[1].labels, _MOST_COLUMNS)
    means = {labels: metric.of(mean_of(cell, metric.metric)) for labels, cell in cells.items()}
    values = [[means.get((row, column)) for column in columns] for row in rows]
    texts = [[_text(cells.get((row, column)), metric) for column in columns] for row in rows]
    where = phrases(fixed, fixed, content.axes)
    title = _heat_map_title(best, metric, where)
    across, down = (tuple(map(label_text, labels)) for labels in (columns, rows))
    # The unit is in the title, so that numbers fit into the cells.
    chart = HeatMap(
        title, metric.unit, down, across, values, texts, capital(pair[0].title), capital(pair[1].title),
        high_is_good=not lower_is_better(metric.metric),
    )  # fmt: skip
    texts_of_rows = [(row, *line) for row, line in zip(down, texts, strict=True)]
    note = f"{metric.head}, means at the central values of what is unknown."
    table = grid(title, (f"{capital(pair[0].title)} / {pair[1].title}", *across), texts_of_rows, note=note)
    ends = [f"{cell_mean(cell, metric)} with {place_of(cell, pair)}" for cell in (best[-1], best[0])]
    alt = f"{metric.head} by {pair[0].title} and {pair[1].title}: from {ends[0]} to {ends[1]}."
    return Figure(f"heat-map-{number + 1}", chart, alt, _caption(content, pair, rows, columns, fixed), table)


def _text(cell: CellSummary | None, metric: MetricFormat) -> str:
    """Return what is written in a cell: the mean with the digits that its interval deserves, or why there is none."""
    if cell is None:
        return "not run"
    text = cell_mean(cell, metric) if cell.status == "ok" else ""
    return text.removesuffix(metric.form.unit).rstrip() or missing_text(cell, metric.metric)


def _heat_map_title(best: Sequence[CellSummary], metric: MetricFormat, where: str) -> str:
    """Return between which means the combinations lie; which of them is best is for questions with their intervals."""
    ends = dict.fromkeys(cell_mean(cell, metric) for cell in sorted(
        (best[0], best[-1]), key=lambda cell: mean_of(cell, metric.metric) or 0.0))  # fmt: skip
    between = " and ".join(ends) if len(ends) == 1 else f"between {' and '.join(ends)}"
    text = f"{metric.name} {verb(metric.metric, 'is', 'are')} {between} in all combinations"
    return capital(f"with {where}: {text}" if where else text)


def _caption(
    content: SweepDocument,
    pair: tuple[ChosenAxis, ChosenAxis],
    rows: Sequence[str],
    columns: Sequence[str],
    fixed: Mapping[str, str],
) -> str:
    texts = ["Numbers in the cells are means; their intervals are in the table of all results."]
    for axis, shown in ((pair[0], rows), (pair[1], columns)):
        if len(shown) < len(axis.labels):
            texts.append(f"Of {len(axis.labels)} values of {axis.title} {len(shown)} are shown.")
    if fixed and len(_fixed(content, pair)) == 1:
        texts.append("Other axes are at the values of the best combination.")
    return " ".join(texts)

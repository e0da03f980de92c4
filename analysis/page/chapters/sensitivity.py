"""The inputs that matter: their effects and their shares of the variance; causes and knobs of a scenario.

`opening`, `section`, `variance_section` and `format_sensitivity` are about a study, `format_worth` about a scenario.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.analysis.amounts import (
    COUNT,
    PERCENT,
    WIDE,
    amount_text,
    capital,
    ends_of,
    is_wide,
    label_text,
    listed,
    money_form,
    name_of,
    number_of,
    people_form,
    percent_text,
    points_form,
    points_text,
    range_text,
    shown,
    signed_text,
    text_or_dash,
    time_form,
)
from ettrick.analysis.page.account import currency_of
from ettrick.analysis.page.cells import by_controls, summary_of
from ettrick.analysis.page.chapters.compare import difference_note
from ettrick.analysis.page.charts.data import Bar, Bars, TornadoBar, TornadoChart
from ettrick.analysis.page.first_screen import first_screen, more_runs, not_covered
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.page.glossary import metric_words
from ettrick.analysis.page.model import Column, Figure, Section, grid, joined, lists, table_of
from ettrick.analysis.page.sourced import SENSITIVITY, SourceDocument, line, number, ranged, span, worded
from ettrick.analysis.results.answers import SobolAnswer, TornadoAnswer, answer_of
from ettrick.analysis.results.studies import MoveSummary, SensitivityDocument, SwingSummary
from ettrick.analysis.statistics.differences import MANY
from ettrick.sim.units import HOUR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ettrick.analysis.amounts import MetricFormat, NumberFormat
    from ettrick.analysis.page.model import FirstScreen, TableBlock, Words
    from ettrick.analysis.page.report_data import ReportData
    from ettrick.analysis.page.sourced import SourcedEstimate
    from ettrick.analysis.parts import DifferenceSummary
    from ettrick.analysis.results.answers import SwingAnswer
    from ettrick.analysis.results.explained import WorthDocument, WorthGroup, WorthRow
    from ettrick.analysis.results.studies import AxisIndex, IndexEstimate, IndicesSummary

_MOST_BARS = 10


def format_sensitivity(content: SensitivityDocument, *, width: int | None = None) -> str:
    """Return the document of a sensitivity as text, in so many columns."""
    effects = _Effects(content)
    metric, center = effects.metric, content.center
    mean = metric.worded({"mean": center.mean, "mean_ci95": center.ci95}) or "no mean"
    beside = "" if center.closed_form is None else f" (closed form {metric.form.plain(center.closed_form)})"
    warnings = (f"warning: {text}" for text in content.warnings)
    at_center = f"{capital(metric.name)} at the centre: {mean}{beside}."
    sections = [
        Section("center", f"Inputs that matter to {metric.name} in {content.study}", (*warnings, at_center)),
        *(chapter for chapter in (_variance(effects), _tornado_section(effects)) if chapter is not None),
        *lists(("Assumptions", content.assumptions)),
    ]
    return terminal.write(sections, width=width)


def against(content: SensitivityDocument) -> list[str]:
    """Return what speaks against relying on a document, a line each; empty if nothing does."""
    lines = [f"{swing.axis}={move.label}: {move.trouble}"
             for swing in content.tornado or () for move in swing.moves if move.trouble]  # fmt: skip
    if content.indices_missing:
        lines.append(f"no Sobol indices: {content.indices_missing}")
    indices = content.indices
    if indices is not None and indices.left_out:
        rows = f"{indices.left_out} of {indices.left_out + indices.rows} rows of points"
        lines.append(f"{rows} left out, a point of each has no result: {indices.why_left_out}")
    return lines


def opening(report_data: ReportData) -> FirstScreen:
    """Return the first screen: which input matters most."""
    content = report_data.sensitivity_document
    effects = _Effects(content, currency_of(report_data) if content.metric.startswith("cost") else "")
    picture = _tornado(effects) or _by_input(effects)
    answer, *drivers = points(effects)
    missing = [content.indices_missing] if content.indices_missing else []
    return first_screen(
        f"Which inputs matter most to {metric_words(content.metric)} in {content.study}?",
        answer,
        (_doubt(effects),),
        None if picture is None else replace(picture, key="at-a-glance"),
        drivers,
        not_covered(missing, content.warnings, content.assumptions),
    )


def driver(content: SensitivityDocument | None, currency: str) -> Words:
    """Return what matters most, for the first screen of a sweep; empty without a resolved change."""
    effects = None if content is None else _Effects(content, currency)
    is_known = effects is not None and any(move.difference.resolved for move in effects.largest)
    return points(effects)[0] if effects is not None and is_known else ()


def section(report_data: ReportData) -> Section | None:
    """Return the section about each input alone, without what the first screen has; ``None`` where none was moved."""
    effects = _effects_of(report_data)
    tornado = None if effects is None else _tornado_section(effects)
    if effects is None or tornado is None or report_data.kind != "sensitivity":
        return tornado
    return replace(tornado, title="How each input was moved", text=tuple(points(effects)[4:]), items=())


def variance_section(report_data: ReportData) -> Section | None:
    """Return the section about what the variance of runs comes from; ``None`` where that was not asked for."""
    effects = _effects_of(report_data)
    return None if effects is None else _variance(effects)


def _effects_of(report_data: ReportData) -> _Effects | None:
    content = report_data.sensitivity or _of_answers(report_data)
    return None if content is None else _Effects(content, currency_of(report_data))


def _of_answers(report_data: ReportData) -> SensitivityDocument | None:
    """Return the answers of a sweep to questions about sensitivity in the form of the document; ``None`` without."""
    sweep = report_data.sweep
    if sweep is None:
        return None
    answers = [answer_of(answer) for answer in sweep.answers if answer.use == "sensitivity"]
    tornado = next((answer for answer in answers if isinstance(answer, TornadoAnswer)), None)
    sobol = next((answer for answer in answers if isinstance(answer, SobolAnswer)), None)
    answer = tornado or sobol
    if answer is None:
        return None
    cell = sweep.cells[0]
    center = summary_of(cell, answer.metric)
    swings = None if tornado is None else [_swing_of(swing, cell.values[swing.axis]) for swing in tornado.axes]
    indices = None if sobol is None else _indices_of(sobol)
    return SensitivityDocument.model_validate({
        **{key: getattr(sweep, key) for key in ("study", "question", "scenario", "seed", "axes", "provenance")},
        "metric": answer.metric,
        "replications": answer.replications if isinstance(answer, SobolAnswer) else cell.replications,
        "center": {"values": cell.values, "mean": center.mean, "ci95": center.mean_ci95,
                   "closed_form": None},
        "low": sweep.design.get("low"), "tornado": swings, "indices": indices,
        "indices_missing": "", "assumptions": [], "warnings": [],
    })  # fmt: skip


def _indices_of(sobol: SobolAnswer) -> dict[str, Any]:
    return {
        "samples": sobol.rows, "rows": sobol.rows, "left_out": sobol.left_out, "why_left_out": "",
        "mean": None, "noise_of_means": sobol.noise, "together": None, "reason": sobol.reason,
        "variance": {key: {"variance": None, "share": (sobol.shares or {}).get(key)} for key in _PARTS},
        "by_axis": [{"closed_form": None, **dict(index)} for index in sobol.axes],
    }  # fmt: skip


def _swing_of(swing: SwingAnswer, center: str) -> SwingSummary:
    """Return the swing of an answer as the document has it; what an answer does not tell is null."""
    moves = [
        MoveSummary(label=move.value, number=None, change=move.difference, closed_form=None, trouble=move.trouble)
        for move in swing.moves
    ]
    return SwingSummary(
        axis=swing.axis, center=center, swing=swing.swing, resolved=False, replications_to_resolve=None, moves=moves
    )


class _Move(NamedTuple):
    """The effect of a value of an input: the input, the value and the centre, and the change."""

    title: str
    label: str
    center: str
    difference: DifferenceSummary
    change: SourcedEstimate
    needed: Any


@dataclass(frozen=True)
class _Effects:
    """The document of a sensitivity, and how its metric is worded."""

    content: SensitivityDocument
    currency: str = ""

    @functools.cached_property
    def places(self) -> SourceDocument:
        return SourceDocument(SENSITIVITY, self.content)

    @functools.cached_property
    def metric(self) -> MetricFormat:
        """The format of the metric and its changes in pictures and tables."""
        return shown(self.content.metric, [self.content.center.mean], self.currency)

    @functools.cached_property
    def form(self) -> NumberFormat:
        """The words of the metric in sentences."""
        return people_form(self.content.metric, [self.content.center.mean], self.currency)

    @functools.cached_property
    def moves(self) -> list[list[_Move]]:
        """The known effects of the values of each input."""
        moves: list[list[_Move]] = []
        for row, swing in enumerate(self.content.tornado or ()):
            moves.append([])
            for place, move in enumerate(swing.moves):
                keys = ("tornado", row, "moves", place, "change")
                change, needed = self.places.estimate(*keys, interval="ci95"), (*keys, "replications_to_resolve")
                if move.change is not None and change is not None:
                    needed_at = self.places.at(*needed)
                    moves[-1].append(
                        _Move(self.title(swing.axis), move.label, swing.center, move.change, change, needed_at)
                    )
        return moves

    @functools.cached_property
    def largest(self) -> list[_Move]:
        """The value of each input that changes most, a resolved one if there is one; the largest first."""
        moved = [moves for moves in self.moves if moves]
        tops = [max(moves, key=lambda move: (move.difference.resolved, abs(move.difference.mean))) for moves in moved]
        return sorted(tops, key=lambda move: -abs(move.difference.mean))

    @functools.cached_property
    def by_input(self) -> list[tuple[int, AxisIndex]]:
        """Sobol indices with their places in the document, the largest total first."""
        rows = [] if self.content.indices is None else self.content.indices.by_axis
        return sorted(enumerate(rows), key=lambda pair: -(pair[1].total.value or 0.0))

    def title(self, axis: str) -> str:
        return self.content.axes[axis].title


# ----------------------------------------
# Sentences: what matters most, and what else is known.


def points(effects: _Effects) -> list[Words]:
    """Return the answer, and what else is known of what matters."""
    sure = [move for move in effects.largest if move.difference.resolved]
    following = line(f"Next comes {sure[1].title}: ", _effect(effects, sure[1]), ".") if len(sure) > 1 else ()
    further = (following, _unresolved(effects), _without(effects.largest), _parts(effects), _most_shares(effects))
    return [_answer(effects, sure), *(words for words in further if words)]


def _answer(effects: _Effects, sure: Sequence[_Move]) -> Words:
    name, center = metric_words(effects.content.metric), effects.places.at("center", "mean")
    if sure:
        where = () if center is None else line(f", where {name} is ", number(center, effects.form))
        return line(f"{capital(sure[0].title)} matters most: ", _effect(effects, sure[0]), where, ".")
    if effects.largest and all(move.difference.mean == 0 for move in effects.largest):
        return (f"No moved input changes {name}: it is the same in every replication.",)
    if effects.largest:
        return (f"No input changes {name} by more than sampling error.",)
    indices = effects.content.indices
    if indices is not None and effects.by_input:
        place, top = effects.by_input[0]
        ends = effects.places.ends("indices", "by_axis", place, "total", "ci95")
        share = () if ends is None else ranged(*ends, PERCENT)
        if not _is_resolved(top.total):
            return (
                f"Which input matters most to {name} is too close to call {_more_rows(indices.samples, top.total)}.",
            )
        start = f"{capital(effects.title(top.axis))} matters most: it accounts for "
        return line(start, share, f" of the changes that the inputs cause in {name}.")
    reason = (indices.reason if indices is not None else "") or effects.content.indices_missing
    reason = reason or "nothing was asked for"
    return (f"Which input matters most to {name} cannot be stated: {reason}.",)


def _effect(effects: _Effects, move: _Move) -> Words:
    start = f"{move.label} instead of {move.center} {'raises' if move.difference.mean > 0 else 'lowers'} it by "
    return (start, *span(move.change.changed(abs), points_form(effects.form)))


def _unresolved(effects: _Effects) -> Words:
    move = next((move for move in effects.largest if not move.difference.resolved and move.difference.mean), None)
    if move is None:
        return ()
    size = number(abs(move.change.mean), points_form(effects.form), move.change.interval)
    start = f"{capital(move.title)} may matter too: with {move.label} instead of {move.center} the difference is "
    return line(start, size, ", which is too close to call; ", more_runs(move.needed), ".")


def _without(largest: Sequence[_Move]) -> Words:
    names = [move.title for move in largest if move.difference.mean == 0 and move.change.interval is None]
    if not names or len(names) == len(largest):
        return ()
    return (f"No change at all over what was looked at: {listed(names)}.",)


def _parts(effects: _Effects) -> Words:
    """Return how much of the variance of single runs comes from the inputs, and how much is run-to-run variability."""
    at = ("indices", "variance")
    inputs, noise = (effects.places.at(*at, part, "share", "value") for part in ("parameters", "noise"))
    ends = effects.places.ends(*at, "parameters", "share", "ci95")
    if inputs is None or noise is None:
        return ()
    share: Words = (number(inputs, PERCENT),) if ends is None else (
        number(inputs, PERCENT, (ends[0].value, ends[1].value)), " (", *ranged(*ends, PERCENT._replace(unit="")), ")",
    )  # fmt: skip
    return ("Of the variance of single runs ", *share, " comes from the inputs and ", number(noise, PERCENT),
            " from run-to-run variability; the rest from both together.")  # fmt: skip


def _most_shares(effects: _Effects) -> Words:
    """Return which inputs would make results surest if they were known."""
    parts = [line(f"{effects.title(row.axis)} in ", number(share, PERCENT)) for place, row in effects.by_input[:2]
             if (share := effects.places.at("indices", "by_axis", place, "total", "value")) is not None
             and _is_resolved(row.total)]  # fmt: skip
    start = "All inputs varied together, most of that involves few of them: "
    return line(start, joined(parts, ", "), ".") if parts else ()


def _doubt(effects: _Effects) -> Words:
    runs, low = effects.places.stated("replications"), effects.places.at("low")
    center = effects.places.estimate("center", interval="ci95")
    parts: list[Words] = []
    if effects.content.tornado and low is not None:
        ends = "Each input was moved on its own, with the others at their centres; an unknown input was moved to "
        parts.append((ends, "ends that it lies beyond with a probability of ", number(low, PERCENT), " each."))
    parts.append(("Every value met the same failures, in ", number(runs, COUNT), " replications; ranges are 95 % "
                  "confidence intervals."))  # fmt: skip
    if center is not None and center.interval is not None:
        parts.append(("At the centre it is ", *worded(center, effects.form), "."))
    return joined(parts)


# ----------------------------------------
# What each input alone changes.


def drawn_ends(changes: Sequence[float]) -> tuple[int, int]:
    """Return which two values of an input a picture shows: those that change most either way, in the input's order."""
    places = range(len(changes))
    low, high = min(places, key=changes.__getitem__), max(places, key=changes.__getitem__)
    return (min(low, high), max(low, high)) if low != high else (0, len(changes) - 1)


def _tornado_section(effects: _Effects) -> Section | None:
    picture = _tornado(effects)
    return None if picture is None else Section("tornado", picture.title, (), (picture,), tuple(_notes(effects)))


def _tornado(effects: _Effects) -> Figure | None:
    """Return what each input alone changes, every value of it in the table; ``None`` where none was moved."""
    content, metric, center = effects.content, effects.metric, effects.content.center
    if center.mean is None or not effects.largest:
        return None
    title = _tornado_title(effects)
    swings = tuple(_swing(moves, metric) for moves in effects.moves if moves)[:_MOST_BARS]
    chart = TornadoChart(title, metric.step, ("all inputs at their centres", center.mean / metric.form.size), swings)
    rows = [(swing, move) for swing in content.tornado or () for move in swing.moves]
    columns: tuple[Column[tuple[SwingSummary, MoveSummary]], ...] = (
        Column("Input", lambda row: effects.title(row[0].axis)),
        Column("From", lambda row: row[0].center, is_number=False),
        Column("To", lambda row: row[1].label, is_number=False),
        Column(f"Change of {metric.name}, 95 % interval",
               lambda row: "no mean" if row[1].change is None else metric.change(row[1].change)),
        Column("How sure", lambda row: row[1].trouble or "nothing to measure" if row[1].change is None
               else difference_note(row[1].change, content.replications), is_number=False),
        Column("By the closed form",
               lambda row: "" if row[1].closed_form is None else metric.form.change(row[1].closed_form),
               any(move.closed_form is not None for _, move in rows)),
    )  # fmt: skip
    table = table_of(title, rows, columns)
    at_center = metric.worded({"mean": center.mean, "mean_ci95": center.ci95})
    alt = f"{capital(metric.name)} is {at_center} with all inputs at their centres. "
    alt += f"{'; '.join(f'{row[0]} to {row[2]}: {row[3]}' for row in table.rows[:6])}."
    caption = "A single input is moved, the others stay at their centres; of several values two are drawn."
    if content.low is not None:
        ends = f"{100 * (1 - 2 * content.low):.0f} %"
        caption += f" Unknown inputs go to the ends between which they are with a probability of {ends}."
    return Figure("tornado", chart, alt, caption, table)


def _tornado_title(effects: _Effects) -> str:
    sure, metric = [move for move in effects.largest if move.difference.resolved], effects.metric
    if sure:
        move, most = sure[0], max(abs(move.difference.mean) for moves in effects.moves for move in moves)
        ends = f"from {label_text(move.center)} to {label_text(move.label)}"
        end = "" if abs(move.difference.mean) == most else ", the largest clear effect"
        return capital(f"{move.title} {ends} changes {metric.name} by {metric.change(move.difference)}{end}")
    if all(move.difference.mean == 0 for moves in effects.moves for move in moves):
        return f"No single input changes {metric.name}"
    count = number_of(effects.content.replications, "replication")
    return f"No single input changes {metric.name} by more than the sampling error, with {count}"


def _swing(moves: Sequence[_Move], metric: MetricFormat) -> TornadoBar:
    drawn = [(move.label, move.difference.mean / metric.form.size, metric.gaps(move.difference.ci95)) for move in moves]
    low, high = (drawn[place] for place in drawn_ends([move.difference.mean for move in moves]))
    return TornadoBar(moves[0].title, low, (moves[0].center, 0.0, None) if len(moves) == 1 else high)


def _notes(effects: _Effects) -> Iterator[str]:
    content, metric = effects.content, effects.metric
    for move in (move for moves in effects.moves for move in moves):
        if (controlled := by_controls(move.difference)) is not None:
            yield f"{capital(move.title)} {move.label}: {metric.change(controlled)} with control variates."
    runs = number_of(content.replications, "replication")
    yield f"Changes on the same failures, {runs} of every point, seed {content.seed}; each interval is 95 % by itself."
    yield f"The centre: {', '.join(f'{effects.title(name)} {label}' for name, label in content.center.values.items())}."
    yield from _chosen(effects, "")


def _chosen(effects: _Effects, end: str) -> Iterator[str]:
    chosen = [axis.title for axis in effects.content.axes.values() if not axis.unknown]
    if chosen:
        yield f"Chosen, not unknown: {listed(chosen)}{end}."


# ----------------------------------------
# What the variance of single runs comes from.

_PARTS = ("parameters", "noise", "both")


def _variance(effects: _Effects) -> Section | None:
    indices, missing = effects.content.indices, effects.content.indices_missing
    if indices is None:
        title = "The sources of the variance cannot be stated"
        return Section("variance", title, (f"{capital(missing)}.",)) if missing else None
    items = tuple(item for item in (_of_a_run(effects, indices), _by_input(effects)) if item is not None)
    text = tuple(f"{capital(reason)}." for reason in [indices.reason] if reason)
    if not items:
        title = f"{capital(name_of(effects.content.metric))} is the same in every run"
        return Section("variance", title, text) if text else None
    notes = [f"Variance-based indices (Sobol) from {number_of(indices.rows, 'sample')} of all inputs"]
    notes[0] += f"; {indices.left_out} were left out" if indices.left_out else ""
    notes[0] += f": {indices.why_left_out}" if indices.why_left_out else ""
    notes[0] += ". Brackets are 95 % intervals."
    if indices.noise_of_means is not None:
        noise = PERCENT.plain(indices.noise_of_means)
        notes.append(f"Sampling error makes {noise} of the variance of the means of points; it is taken out.")
    notes += _chosen(effects, "; all their values count as equally likely")
    return Section("variance", items[-1].title, text, items, tuple(notes))


def _of_a_run(effects: _Effects, indices: IndicesSummary) -> TableBlock | None:
    content = effects.content
    inputs = "unknown inputs" if all(axis.unknown for axis in content.axes.values()) else "varied inputs"
    names = dict(zip(_PARTS, (inputs, "run-to-run variability", "both together"), strict=True))
    shares = {key: share for key in _PARTS if (share := indices.variance[key].share) is not None}
    if len(shares) < len(_PARTS):
        return None
    metric, largest = name_of(content.metric), max(_PARTS, key=lambda key: shares[key].value or 0.0)
    causes = "causes" if largest == _PARTS[1] else "cause"
    title = f"{capital(names[largest])} {causes} {_share(shares[largest])} of the variance of one run's {metric}"
    rows = [(names[key], _share(share)) for key, share in shares.items()]
    note = "Both together: the run-to-run variability is itself different from one set of inputs to another."
    return grid(title, ("Part", "Share of the variance, 95 % interval"), rows, note=note)


def _share(index: IndexEstimate) -> str:
    if index.value is None:
        return "not known"
    return PERCENT.value(index.value, ends_of(index.ci95)) if _is_resolved(index) else "too few samples"


def _is_resolved(index: IndexEstimate) -> bool:
    """Return whether an index is known well enough to be a number."""
    return index.value is not None and not is_wide(index.ci95)


def _more_rows(samples: int, index: IndexEstimate) -> str:
    """Return with how many samples an index is not resolved, and how many would: its interval goes with their root."""
    ends = ends_of(index.ci95)
    if ends is None:
        return f"with {samples:,} samples"
    needed = math.ceil(samples * ((ends[1] - ends[0]) / WIDE) ** 2)
    return f"with {samples:,} samples; about {max(needed, samples + 1):,} would"


def _by_input(effects: _Effects) -> Figure | None:
    content = effects.content
    if content.indices is None or not content.indices.by_axis:
        return None
    rows = content.indices.by_axis
    bars = tuple(
        Bar(effects.title(row.axis), (100 * (row.first.value or 0.0), 100 * (row.total.value or 0.0)),
            (_percent(row.first), _percent(row.total)))
        for row in rows[:_MOST_BARS]
    )  # fmt: skip
    top, metric = effects.by_input[0][1], name_of(content.metric)
    accounts = f"{effects.title(top.axis)} accounts for {_share(top.total)} of the variance "
    title = f"{accounts}that the inputs cause in {metric}"
    if not _is_resolved(top.total):
        more = _more_rows(content.indices.samples, top.total)
        title = f"shares of the variance of {metric} are too close to call {more}"
    title = capital(title)
    texts = [(effects.title(row.axis), _share(row.first), _share(row.total)) for row in rows]
    heads = ("Input", "On its own, 95 % interval", "In all, 95 % interval")
    together = content.indices.together
    note = "" if together is None else f"Interactions account for {_share(together)}."
    if together is not None and not _is_resolved(together):
        note = "The share of interactions is too close to call."
    alt = f"Shares of the variance: {'; '.join(f'{row[0]} on its own {row[1]}, in all {row[2]}' for row in texts[:6])}."
    caption = (
        "On its own: by how much the variance would fall if this input were known (first-order index). In all: with "
        "its interactions (total index); these may add up to more than 100 %."
    )
    chart = Bars(title, "%", ("alone", "in all"), bars, "95 % interval of the share")
    return Figure("variance-by-input", chart, alt, caption, grid(title, heads, texts, note=note))


def _percent(index: IndexEstimate) -> tuple[float, float] | None:
    ends = ends_of(index.ci95)
    return None if ends is None else (100 * ends[0], 100 * ends[1])


# ----------------------------------------
# What everything is worth: each cause removed, and each knob better by a tenth, as tables for the terminal.

# Names of rows as people say them; the others stay as they are.
_KNOBS = {
    "mtbf": "MTBF",
    "checkpoint_by_rule": "checkpoint",
    "step_time": "step time",
    "all": "all at once",
    "added": "these added up",
    "residual": "not additive by",
}


def format_worth(content: WorthDocument) -> str:
    """Return the document of what everything is worth as text."""
    title = f"Gain of each change in {content.scenario}, on the same failures"
    groups = ((content.causes, "Each cause removed in turn"), (content.knobs, "Each knob better by a tenth"))
    point = content.one_point
    last: tuple[Section, ...] = ()
    if point is not None:
        parts = [f"{time_form(point.time_s).brief(point.time_s)} of this run", f"{COUNT.brief(point.gpus)} GPUs"]
        if point.money_per_year is not None and content.currency is not None:
            money = money_form(point.money_per_year, content.currency)
            parts.insert(0, f"{money.brief(point.money_per_year)} a year")
        last = (Section("point", f"One point of ETTR = {', '.join(parts)}", ()),)
    return terminal.write([
        Section("worth", title, tuple(_heading(content))),
        *(Section("group", head, (), (_worth_table(content, group),)) for group, head in groups if group.rows),
        Section("notes", "Notes", (), (), tuple(_worth_notes(content))),
        *last,
    ], width=None, otherwise=200)  # fmt: skip


def _heading(content: WorthDocument) -> Iterator[str]:
    base = content.base
    yield f"{number_of(content.replications, 'replication')}, seed {content.seed}"
    formula = text_or_dash(base["ettr"].closed_form, percent_text)
    yield f"as it is: ETTR {text_or_dash(base['ettr'].mean, percent_text)} (closed form {formula})"
    if "tokens_per_day" in base:
        yield f"as it is: {text_or_dash(base['tokens_per_day'].mean, amount_text)} tokens a day"
    price = content.price_of_work
    if price is not None:
        scale, what = (1e6, "a million tokens") if content.by == "tokens_per_day" else (HOUR, "a productive GPU-hour")
        yield f"as it is: {scale * price:.4g} {content.currency} for {what}"


def _worth_table(content: WorthDocument, group: WorthGroup) -> TableBlock:
    """Return the changes of a kind, the most valuable first, then all of them at once."""

    def gain(
        title: str, change: Callable[[WorthRow], DifferenceSummary | None], form: Callable[[float], str],
        *, shown: bool = True,
    ) -> Iterator[Column[WorthRow]]:  # fmt: skip
        def interval(row: WorthRow) -> str:
            difference = change(row)
            return "-" if difference is None or content.one_history else range_text(difference.ci95, form)

        yield Column(title, lambda row: "-" if (difference := change(row)) is None else form(difference.mean), shown)
        yield Column("95 % interval", interval, shown)

    rows = [*group.rows, *(row for row in (group.together, group.added, group.residual) if row is not None)]
    return table_of("", rows, (
        Column("", lambda row: _label(row, is_cause=group is content.causes)),
        *gain("ETTR", lambda row: row.gain["ettr"], points_text),
        Column("closed form", lambda row: text_or_dash(row.closed_form.get("ettr"), points_text)),
        *gain("tokens a day", lambda row: row.gain["tokens_per_day"], signed_text,
              shown="tokens_per_day" in content.base),
        *gain(f"{content.currency} a year", lambda row: row.money_per_year, signed_text,
              shown=content.currency is not None),
        Column("too close to call: replications", lambda row: _status(row, content)),
    ))  # fmt: skip


def _label(row: WorthRow, *, is_cause: bool) -> str:
    if row.name in ("all", "added", "residual"):
        return _KNOBS[row.name]
    return row.name if is_cause else f"{_KNOBS.get(row.name, row.name)} {row.change}"


def _status(row: WorthRow, content: WorthDocument) -> str:
    """Return how many replications would resolve what may be chance; nothing where that is not needed."""
    gain = row.gain[content.by]
    if gain is None:
        return ""
    if gain.ci95 is None or gain.ci95[0] == gain.ci95[1]:
        return "same in all" if gain.mean else "no change"
    if content.one_history:
        return "-"
    if gain.resolved:
        return ""
    needed = gain.replications_to_resolve
    return f"> {MANY:,}" if needed is None else f"{needed:,}"


def _worth_notes(content: WorthDocument) -> Iterator[str]:
    yield "gains do not add up; 'not additive by' is the gain of all at once minus the sum"
    yield "too close to call: the interval contains zero; so many replications would settle a difference of this size"
    yield "same in all: every replication gains the same, so there is no interval"
    if content.one_history:
        yield "a log is replayed, which is a single history: no interval"
    yield "intervals between saves stay the same, even if a rule chose them, unless stated otherwise"
    if content.price_of_work is not None:
        yield (
            f"{content.currency} a year: what the additional work would cost at the price of work as it is; what the "
            "change itself costs or saves is not counted"
        )
    for name, reason in content.left_out.items():
        yield f"{_KNOBS.get(name, name)}: left out: {reason}"
    yield from (f"the closed form does not apply: {reason}" for reason in content.closed_form_reasons)
    yield from (f"the closed form assumes: {assumption}" for assumption in content.closed_form_assumptions)

"""Charts whose rows lie below each other: bars, intervals, tornadoes, waterfalls; and one bar that is made of parts."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.analysis.amounts import NOTHING, decimals_of, number_text, signed_number, with_unit
from ettrick.analysis.page.charts.data import Bars, ChartAxis, Intervals, Stack, TornadoChart, Waterfall
from ettrick.analysis.page.charts.sheet import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    QUIET,
    TEXT,
    WIDTH,
    LegendEntry,
    block_height,
    block_width,
    chart_kind,
    cut,
    extent,
    hue,
    named_rows,
    open_sheet,
    set_scale,
    sized,
    width_of,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ettrick.analysis.page.charts.data import Range, TornadoBar


def _open_rows(
    chart: Any, names: Sequence[str], ends: Range, *, row: float = 0.26, before: Iterable[str] = (), top: float = 0.05,
    behind: Iterable[str] = (), column: Sequence[str] = (), note: str = "", key: Sequence[LegendEntry] = (),
) -> tuple[Figure, Axes]:  # fmt: skip
    """Return a figure with one row for each name, the first at the top; row n is at height n of the axes.

    `before` and `behind` are labels at the left and right of what is drawn, `column` those at the right of the axes:
    there is room for the widest. A row is at least so high, with so much room above the axes [in].
    """
    aside = max((block_width(text) + 0.1 for text in column), default=0.0)
    pads = [max((width_of(text) + 0.1 for text in texts), default=0.03) for texts in (before, behind)]
    free = sized(WIDTH) - 0.35 - aside - sum(pads)  # of which the bars have half an inch at least
    lines, across, height = named_rows(names, min(sized(2.3), free - 0.5))
    unit = "" if chart.unit == "%" else chart.unit
    margins = (0.2 + across, 0.15 + aside, top, 0.5 if unit else 0.34)
    figure, axes = open_sheet(chart.title, max(row, height) * max(len(names), 1) + 0.05, margins, note, key)
    low, high = ends if ends[0] < ends[1] else (ends[0], ends[0] + 1.0)
    inch = (high - low) / (free - across)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), lines)
    set_scale(axes, "x", ChartAxis(unit), (low - pads[0] * inch, high + pads[1] * inch), chart.unit)
    return figure, axes


def _write_aside(axes: Axes, place: float, text: str, *, is_known: bool, start: float, align: str) -> None:
    axes.text(
        start, place, text, transform=axes.get_yaxis_transform(), size=TEXT, va=align, color=INK,
        alpha=1.0 if is_known else QUIET,
    )  # fmt: skip


def _write_at(axes: Axes, x: float, y: float, text: str, *, is_left: bool = False, weight: str = "normal") -> None:
    axes.annotate(
        text, (x, y), (-4 if is_left else 4, 0), textcoords="offset points", va="center_baseline", size=TEXT, color=INK,
        ha="right" if is_left else "left", weight=weight,
    )  # fmt: skip


def _draw_span(axes: Axes, place: float, span: Iterable[float] | None, color: str = INK, width: float = 1.4) -> None:
    if span is not None:
        axes.plot([*span], [place, place], color=color, linewidth=width, solid_capstyle="butt")


# ----------------------------------------
# Horizontal bars, one or several in each row.

_FILLED = 0.74  # part of a row that its bars take


@chart_kind(Bars)
def draw_bars(chart: Bars) -> Figure:
    """Draw a bar for each value, its 95 % interval as a line across its end, and the value at the right."""
    count = max(len(chart.series), 1)
    values = [value for row in chart.rows for value in row.values]
    spans = [span for row in chart.rows for span in row.ci95 if span is not None]
    spots = [0.0, *(value for value in values if value is not None), *chain(*spans)]
    decimals = decimals_of(values)
    texts = [[with_unit(number_text(value, decimals), chart.unit) for value in row.values] for row in chart.rows]
    figure, axes = _open_rows(
        chart, [row.name for row in chart.rows], (min(spots), max(spots)), row=0.1 + 0.16 * count,
        column=[*chain(*texts)], note="Thin lines: 95 % interval." if spans else "",
        key=[LegendEntry(name, hue(number)) for number, name in enumerate(chart.series)] if count > 1 else (),
    )  # fmt: skip
    thick = _FILLED / count
    for number, row in enumerate(chart.rows):
        for index, value in enumerate(row.values):
            place = number + (index - (count - 1) / 2) * thick
            align = "center_baseline"
            _write_aside(axes, place, texts[number][index], is_known=value is not None, start=1.01, align=align)
            if value is not None:
                axes.barh(place, value, height=thick * 0.88, color=hue(index), linewidth=0)
                _draw_span(axes, place, row.span(index))
    axes.axvline(0.0, color=GREY, linewidth=0.8)
    return figure


# ----------------------------------------
# Means with their intervals below each other.

_WORDS = 2.1  # width of a value and its note at most [in]


@chart_kind(Intervals)
def draw_intervals(chart: Intervals) -> Figure:
    """Draw a dot for each mean, a dark line for its 95 % interval, and a light band for what is not known exactly."""
    spots = [spot for row in chart.rows for spot in (row.mean, *(row.ci95 or ()), *(row.band90 or ()))]
    spots += [] if chart.reference is None else [chart.reference[0]]
    decimals = _decimals(chart)
    values = [with_unit(number_text(row.mean, decimals), chart.unit) for row in chart.rows]
    words = [
        row.note if row.note and value == NOTHING else f"{value} {row.note}"
        for value, row in zip(values, chart.rows, strict=True)
    ]
    texts = [wrapped(text, sized(_WORDS)) for text in words]
    key = [LegendEntry("95 % interval of the mean", BLUE, 1.0, "line")] if any(row.ci95 for row in chart.rows) else []
    if any(row.band90 for row in chart.rows):
        key.append(LegendEntry("90 % band: inputs that are not known exactly", BLUE, 0.22))
    figure, axes = _open_rows(
        chart, [row.name for row in chart.rows], extent(spots), column=texts, key=key,
        row=max((block_height(text) + 0.1 for text in texts), default=0.26),
        top=0.05 if chart.reference is None else 0.22,
    )  # fmt: skip
    if chart.reference is not None:
        _draw_reference(axes, *chart.reference)
    for place, (row, text) in enumerate(zip(chart.rows, texts, strict=True)):
        _write_aside(axes, place, text, is_known=row.mean is not None, start=1.015, align="center")
        if row.band90 is not None:
            low, high = row.band90
            axes.barh(place, high - low, left=low, height=0.5, color=BLUE, alpha=0.22, linewidth=0)
        _draw_span(axes, place, row.ci95, BLUE, 2.4)
        if row.mean is not None:
            axes.plot([row.mean], [place], marker="o", markersize=5, color=BLUE)
    return figure


def _decimals(chart: Intervals) -> int:
    """Return the decimals that the means deserve: as far as their narrowest interval goes."""
    halves = [(row.ci95[1] - row.ci95[0]) / 2 for row in chart.rows if row.ci95 is not None]
    least = min((half for half in halves if half > 0), default=0.0)
    if not least:
        return decimals_of([row.mean for row in chart.rows])
    place = math.floor(math.log10(least))
    return min(max((1 if least < 3 * 10.0**place else 0) - place, 0), 6)


def _draw_reference(axes: Axes, value: float, name: str) -> None:
    axes.axvline(value, color=ORANGE, linewidth=1.2)
    low, high = axes.get_xlim()
    place = axes.get_position()
    width = sized(WIDTH)
    left, across = width * place.x0, width * place.width
    name = cut(name, width - 0.3)
    half = width_of(name) / 2
    middle = min(max(left + across * (value - low) / (high - low), 0.1 + half), width - 0.1 - half)
    axes.text(
        (middle - left) / across, 1.0, name, transform=axes.transAxes, ha="center", va="bottom", size=TEXT, color=INK
    )


# ----------------------------------------
# Tornadoes: what each input alone does.

_FULL = 0.64  # height of a bar that has its row to itself, in rows
_LABEL = 1.1  # width of the label of an end at most [in]


class _Arm(NamedTuple):
    """A bar to one side: its row, its height, its end and interval, its colour, and where its label begins."""

    place: float
    height: float
    end: tuple[str, float, Range | None]
    color: str
    edge: float

    @property
    def is_left(self) -> bool:
        return self.end[1] < 0


@chart_kind(TornadoChart)
def draw_tornado(chart: TornadoChart) -> Figure:
    """Draw a bar to either side for the two ends of each input, labelled with the end and what it changes."""
    arms = [arm for row, swing in enumerate(chart.swings) for arm in _arms(row, swing)]
    decimals = decimals_of([arm.end[1] for arm in arms])
    texts = [
        f"{cut(arm.end[0], sized(_LABEL))}: {with_unit(signed_number(arm.end[1], decimals), chart.unit)}"
        for arm in arms
    ]
    sides = [[text for arm, text in zip(arms, texts, strict=True) if arm.is_left is side] for side in (True, False)]
    edges = [0.0, *(arm.edge for arm in arms)]
    figure, axes = _open_rows(
        chart, [swing.name for swing in chart.swings], (min(edges), max(edges)), before=sides[0], behind=sides[1],
        row=0.36 if any(arm.height < _FULL for arm in arms) else 0.28,
        note=f"Change from {chart.center[0]}: {with_unit(number_text(chart.center[1], decimals), chart.unit)}",
        key=[LegendEntry("low end of the input", BLUE), LegendEntry("high end of the input", ORANGE)],
    )  # fmt: skip
    for arm, text in zip(arms, texts, strict=True):
        axes.barh(arm.place, arm.end[1], height=arm.height, color=arm.color, linewidth=0)
        _draw_span(axes, arm.place, arm.end[2])
        _write_at(axes, arm.edge, arm.place, text, is_left=arm.is_left)
    axes.axvline(0.0, color=GREY, linewidth=1.0)
    return figure


def _arms(row: int, swing: TornadoBar) -> list[_Arm]:
    """Return the bars of an input: on one line if they go to different sides, else one above the other."""
    ends = ((swing.low, BLUE, -0.2), (swing.high, ORANGE, 0.2))
    spots = [[0.0, end[1], *(end[2] or ())] for end, _, _ in ends]
    if swing.low[1] * swing.high[1] < 0:
        edges = (min(chain(*spots)), max(chain(*spots)))
        return [_Arm(row, _FULL, end, color, edges[end[1] > 0]) for end, color, _ in ends]
    return [
        _Arm(row + shift, _FULL / 2, end, color, min(spot) if end[1] < 0 else max(spot))
        for (end, color, shift), spot in zip(ends, spots, strict=True)
    ]


# ----------------------------------------
# One bar that is made of parts.

# Opacities of parts of one hue, one after another, so that neighbours can be distinguished.
_FADED = (1.0, 0.7, 0.45, 0.3)


@chart_kind(Stack)
def draw_stack(chart: Stack) -> Figure:
    """Draw the parts side by side from 0 on, negative ones at its left, and name each with its size above."""
    decimals = decimals_of([part.amount for part in chart.parts])
    unit = "" if chart.unit == "%" else f" {chart.unit}"
    key: list[LegendEntry] = []
    for part in chart.parts:
        fade = _FADED[sum(entry.color == hue(part.hue) for entry in key) % len(_FADED)]
        text = f"{part.name} {with_unit(number_text(part.amount, decimals), chart.unit)}{unit}"
        key.append(LegendEntry(text, hue(part.hue), fade))
    high = sum(part.amount for part in chart.parts if part.amount > 0)
    low = sum(part.amount for part in chart.parts if part.amount < 0)
    figure, axes = open_sheet(chart.title, 0.5, (0.25, 0.35, 0.05, 0.5 if unit else 0.34), key=key)
    set_scale(axes, "x", ChartAxis(unit.strip()), (low, high) if low < high else (0.0, 1.0), chart.unit)
    axes.set(ylim=(-0.5, 0.5), yticks=[])
    ends = [0.0, 0.0]  # at the right, at the left
    for part, entry in zip(chart.parts, key, strict=True):
        side = int(part.amount < 0)
        look: dict[str, Any] = {"color": entry.color, "alpha": entry.alpha, "edgecolor": "white", "linewidth": 0.8}
        axes.barh(0.0, part.amount, left=ends[side], height=0.8, **look)
        ends[side] += part.amount
    axes.axvline(0.0, color=GREY, linewidth=0.8)
    return figure


# ----------------------------------------
# Waterfalls: from one total to another, step by step.

_HALF = 0.31  # half the height of a bar, in rows
_SMALL = 0.4  # changes that together take less of a full axis than this are drawn on one that begins above 0


@chart_kind(Waterfall)
def draw_waterfall(chart: Waterfall) -> Figure:
    """Draw a full bar for the first total, a floating one for each change, and a full one for the last total.

    Where the changes are small beside the totals, the axis does not begin at 0: the full bars are then broken, and a
    line of text says where it begins. Lengths of changes can be compared with each other either way.
    """
    levels = chart.levels()
    spots = [
        [level, level + change.amount, *(level + end for end in change.ci95 or ())]
        for change, level in zip(chart.changes, levels, strict=False)
    ]
    every = [*levels, chart.end[1], *chain(*spots)]
    base = _base(min(every), max(every))
    decimals = decimals_of([change.amount for change in chart.changes])
    first, last = (with_unit(number_text(total, decimals), chart.unit) for _, total in (chart.start, chart.end))
    texts = [first, *(signed_number(change.amount, decimals) for change in chart.changes), last]
    names = [chart.start[0], *(change.name for change in chart.changes), chart.end[0]]
    figure, axes = _open_rows(
        chart, names, (min(base, *every), max(base, *every)), behind=texts, note=_note(chart, base)
    )  # fmt: skip
    if chart.unit == "%":  # there is room for a label on the right, and no share above all of it
        low, high = axes.get_xlim()
        axes.set_xticks([tick for tick in axes.get_xticks() if low <= tick <= 100.0])
        axes.set_xlim(low, high)
    for row, total in ((0, chart.start[1]), (len(names) - 1, chart.end[1])):
        _draw_total(axes, row, base, total)
    for row, (change, level) in enumerate(zip(chart.changes, levels, strict=False), start=1):
        color = ORANGE if change.amount < 0 else GREEN
        axes.barh(row, change.amount, left=level, height=2 * _HALF, color=color, linewidth=0)
        _draw_span(axes, row, change.ci95 and (level + end for end in change.ci95))
    for row, level in enumerate(levels):
        axes.plot([level, level], [row + _HALF, row + 1 - _HALF], color=GREY, linewidth=0.8)
    edges = [max(base, chart.start[1]), *map(max, spots), max(base, chart.end[1])]
    for row, (edge, text) in enumerate(zip(edges, texts, strict=True)):
        _write_at(axes, edge, row, text, weight="bold" if row in (0, len(names) - 1) else "normal")
    return figure


def _note(chart: Waterfall, base: float) -> str:
    begin = f"The axis begins at {with_unit(f'{base:,.6g}', chart.unit)}, so the full bars are cut off."
    said = [begin] if base else []
    if chart.unit == "%" and chart.changes:
        said.append("Changes are in percentage points.")
    if any(change.ci95 is not None for change in chart.changes):
        said.append("Thin lines: 95 % interval of a change.")
    return " ".join(said)


def _base(low: float, high: float) -> float:
    """Return where the full bars begin: at 0, or at a round number below all that changes."""
    span = high - low
    if low <= 0 or span <= 1e-12 * high or span >= _SMALL * high:
        return 0.0
    step = 10.0 ** math.floor(math.log10(span)) / 2
    return max(math.floor((low - 0.25 * span) / step) * step, 0.0)


def _draw_total(axes: Axes, row: int, base: float, total: float) -> None:
    axes.barh(row, total - base, left=base, height=2 * _HALF, color=BLUE, linewidth=0)
    if base:
        low, high = axes.get_xlim()
        inch = (high - low) / float(axes.get_window_extent().width / axes.figure.dpi)
        for place in (0.14, 0.2):
            ends = [base + (place + side) * inch for side in (-0.04, 0.04)]
            axes.plot(ends, [row + 0.42, row - 0.42], color="white", linewidth=1.6, gid="break")

"""Waterfalls: from one total to another, step by step."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from analysis.amounts import NOTHING, decimals_of, number_text, signed_number, with_unit
from analysis.page.charts.data import Scale
from analysis.page.charts.sheet import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    QUIET,
    TEXT,
    WIDTH,
    Entry,
    Margins,
    block_height,
    cut,
    extent,
    hue,
    open_rows,
    open_sheet,
    scale_x,
    style,
    width_of,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.page.charts.data import (
        Bars,
        Change,
        Interval,
        Intervals,
        Part,
        Range,
        Stack,
        Swing,
        Tornado,
        Waterfall,
    )

    End = tuple[str, float, Range | None]

# ----------------------------------------
# Horizontal bars, one or several in each row.

_FILLED = 0.74

"""Part of a row that its bars take."""


def draw_bars(chart: Bars) -> Figure:
    """Draw a bar for each value, its 95 % interval as a line across its end, and the value at the right."""
    count = max(len(chart.series), 1)
    values = [value for row in chart.rows for value in row.values]
    spans = [span for row in chart.rows for span in row.ci95 if span is not None]
    spots = [0.0, *(value for value in values if value is not None), *(end for span in spans for end in span)]
    decimals = decimals_of(values)
    texts = [[with_unit(number_text(value, decimals), chart.unit) for value in row.values] for row in chart.rows]
    ends = (min(spots), max(spots))
    key = [Entry(name, hue(number)) for number, name in enumerate(chart.series)] if count > 1 else []
    note = "Dark lines: 95 % interval." if spans else ""
    with style():
        figure, axes = open_rows(
            chart.title, [row.name for row in chart.rows], ends if ends[0] < ends[1] else (0.0, 1.0), chart.unit,
            row=0.1 + 0.16 * count, column=[text for row in texts for text in row], note=note, key=key,
        )  # fmt: skip
        thick = _FILLED / count
        for number, row in enumerate(chart.rows):
            for index, value in enumerate(row.values):
                place = number + (index - (count - 1) / 2) * thick
                span = row.ci95[index] if index < len(row.ci95) else None
                _draw_bar(axes, place, thick * 0.88, value, span, hue(index), texts[number][index])
        axes.axvline(0.0, color=GREY, linewidth=0.8)
    return figure


def _draw_bar(
    axes: Axes, place: float, thick: float, value: float | None, span: Range | None, color: str, text: str
) -> None:
    axes.text(
        1.01, place, text, transform=axes.get_yaxis_transform(), size=TEXT, va="center_baseline", color=INK,
        alpha=1.0 if value is not None else QUIET,
    )  # fmt: skip
    if value is None:
        return
    axes.barh(place, value, height=thick, color=color, linewidth=0)
    if span is not None:
        axes.plot(span, [place, place], color=INK, linewidth=1.4, solid_capstyle="butt")


# ----------------------------------------
# Means with their intervals below each other.

_WORDS = 2.1

"""Width of a value and its note at most [in]."""


def draw_intervals(chart: Intervals) -> Figure:
    """Draw a dot for each mean, a dark line for its 95 % interval, and a light band for what is not known exactly."""
    spots = [spot for row in chart.rows for spot in (row.mean, *(row.ci95 or ()), *(row.band90 or ()))]
    if chart.reference is not None:
        spots.append(chart.reference[0])
    decimals = _decimals(chart)
    values = [with_unit(number_text(row.mean, decimals), chart.unit) for row in chart.rows]
    texts = [wrapped(_joined(value, row.note), _WORDS) for value, row in zip(values, chart.rows, strict=True)]
    with style():
        figure, axes = open_rows(
            chart.title, [row.name for row in chart.rows], extent(spots), chart.unit, column=texts, key=_key(chart),
            row=max((block_height(text) + 0.1 for text in texts), default=0.26),
            top=0.05 if chart.reference is None else 0.22,
        )  # fmt: skip
        if chart.reference is not None:
            _draw_reference(axes, *chart.reference)
        for place, (row, text) in enumerate(zip(chart.rows, texts, strict=True)):
            _draw_row(axes, place, row, text)
    return figure


def _decimals(chart: Intervals) -> int:
    """Return the decimals that the means deserve: as far as their narrowest interval goes."""
    halves = [(row.ci95[1] - row.ci95[0]) / 2 for row in chart.rows if row.ci95 is not None]
    sure = [half for half in halves if half > 0]
    if not sure:
        return decimals_of([row.mean for row in chart.rows])
    place = math.floor(math.log10(min(sure)))
    return min(max((1 if min(sure) < 3 * 10.0**place else 0) - place, 0), 6)


def _joined(value: str, note: str) -> str:
    if not note:
        return value
    return note if value == NOTHING else f"{value} {note}"


def _key(chart: Intervals) -> list[Entry]:
    """Return what lines and bands are, where there are some."""
    found = []
    if any(row.ci95 is not None for row in chart.rows):
        found.append(Entry("95 % interval of the mean", BLUE, 1.0, "line"))
    if any(row.band90 is not None for row in chart.rows):
        found.append(Entry("90 % band: inputs that are not known exactly", BLUE, 0.22))
    return found


def _draw_reference(axes: Axes, value: float, name: str) -> None:
    """Draw what the means are held against, and its name above it."""
    axes.axvline(value, color=ORANGE, linewidth=1.2)
    low, high = axes.get_xlim()
    place = axes.get_position()
    left, across = WIDTH * place.x0, WIDTH * place.width
    name = cut(name, WIDTH - 0.3)
    half = width_of(name) / 2
    middle = min(max(left + across * (value - low) / (high - low), 0.1 + half), WIDTH - 0.1 - half)
    axes.text(
        (middle - left) / across, 1.0, name, transform=axes.transAxes, ha="center", va="bottom", size=TEXT, color=INK
    )


def _draw_row(axes: Axes, place: int, row: Interval, text: str) -> None:
    axes.text(
        1.015, place, text, transform=axes.get_yaxis_transform(), size=TEXT, va="center", color=INK,
        alpha=1.0 if row.mean is not None else QUIET,
    )  # fmt: skip
    if row.band90 is not None:
        low, high = row.band90
        axes.barh(place, high - low, left=low, height=0.5, color=BLUE, alpha=0.22, linewidth=0)
    if row.ci95 is not None:
        axes.plot(row.ci95, [place, place], color=BLUE, linewidth=2.4, solid_capstyle="butt")
    if row.mean is not None:
        axes.plot([row.mean], [place], marker="o", markersize=5, color=BLUE)


# ----------------------------------------
# Tornadoes: what each input alone does.

_FULL = 0.64

_LOW, _HIGH = "low end of the input", "high end of the input"

_LABEL = 1.1

"""Width of the label of an end at most [in]."""


class _Arm(NamedTuple):
    """A bar to one side: its row, how high it is, its end, its colour, and where its label begins."""

    place: float
    height: float
    end: End
    color: str
    edge: float

    @property
    def is_left(self) -> bool:
        """Whether it goes to the left."""
        return self.end[1] < 0


def draw_tornado(chart: Tornado) -> Figure:
    """Draw a bar to either side for the two ends of each input, labelled with the end and what it changes."""
    arms = [arm for row, swing in enumerate(chart.swings) for arm in _arms(row, swing)]
    decimals = decimals_of([arm.end[1] for arm in arms])
    texts = [_label(arm.end, decimals, chart.unit) for arm in arms]
    ends = (min((arm.edge for arm in arms), default=0.0), max((arm.edge for arm in arms), default=0.0))
    ends = (min(ends[0], 0.0), max(ends[1], 0.0))
    center = with_unit(number_text(chart.center[1], decimals), chart.unit)
    sided = [(arm.is_left, text) for arm, text in zip(arms, texts, strict=True)]
    with style():
        figure, axes = open_rows(
            chart.title, [swing.name for swing in chart.swings], ends if ends[0] < ends[1] else (-1.0, 1.0),
            chart.unit, row=0.36 if any(arm.height < _FULL for arm in arms) else 0.28,
            before=[text for is_left, text in sided if is_left],
            behind=[text for is_left, text in sided if not is_left],
            note=f"Change from {chart.center[0]}: {center}", key=[Entry(_LOW, BLUE), Entry(_HIGH, ORANGE)],
        )  # fmt: skip
        for arm, text in zip(arms, texts, strict=True):
            _draw_arm(axes, arm, text)
        axes.axvline(0.0, color=GREY, linewidth=1.0)
    return figure


def _arms(row: int, swing: Swing) -> list[_Arm]:
    """Return the bars of an input: on one line if they go to different sides, else one above the other."""
    low, high = swing.low, swing.high
    spots = [[end[1], *(end[2] or ())] for end in (low, high)]
    if low[1] * high[1] < 0:
        both = [*spots[0], *spots[1]]
        return [
            _Arm(row, _FULL, end, color, min(both) if end[1] < 0 else max(both))
            for end, color in ((low, BLUE), (high, ORANGE))
        ]
    return [
        _Arm(row + shift, _FULL / 2, end, color, min(*spot, 0.0) if end[1] < 0 else max(*spot, 0.0))
        for end, color, shift, spot in ((low, BLUE, -0.2, spots[0]), (high, ORANGE, 0.2, spots[1]))
    ]


def _label(end: End, decimals: int, unit: str) -> str:
    return f"{cut(end[0], _LABEL)}: {with_unit(signed_number(end[1], decimals), unit)}"


def _draw_arm(axes: Axes, arm: _Arm, text: str) -> None:
    axes.barh(arm.place, arm.end[1], height=arm.height, color=arm.color, linewidth=0)
    if arm.end[2] is not None:
        axes.plot(arm.end[2], [arm.place, arm.place], color=INK, linewidth=1.4, solid_capstyle="butt")
    axes.annotate(
        text, (arm.edge, arm.place), (-4 if arm.is_left else 4, 0), textcoords="offset points", size=TEXT, color=INK,
        ha="right" if arm.is_left else "left", va="center_baseline",
    )  # fmt: skip


# ----------------------------------------
# One bar that is made of parts.

_FADED = (1.0, 0.7, 0.45, 0.3)

"""Opacities of parts of one hue, one after another."""


def draw_stack(chart: Stack) -> Figure:
    """Draw the parts side by side from 0 on, negative ones at its left, and name each with its size above."""
    decimals = decimals_of([part.amount for part in chart.parts])
    fades = _fades(chart.parts)
    unit = "" if chart.unit == "%" else f" {chart.unit}"
    key = [
        Entry(f"{part.name} {with_unit(number_text(part.amount, decimals), chart.unit)}{unit}", hue(part.hue), fade)
        for part, fade in zip(chart.parts, fades, strict=True)
    ]
    high = sum(part.amount for part in chart.parts if part.amount > 0)
    low = sum(part.amount for part in chart.parts if part.amount < 0)
    with style():
        figure, axes = open_sheet(chart.title, 0.5, Margins(0.25, 0.35, 0.05, 0.5 if unit else 0.34), key=key)
        scale_x(axes, Scale(unit.strip()), (low, high) if low < high else (0.0, 1.0), chart.unit)
        axes.set(ylim=(-0.5, 0.5), yticks=[])
        right, left = 0.0, 0.0
        for part, fade in zip(chart.parts, fades, strict=True):
            start = right if part.amount >= 0 else left
            axes.barh(
                0.0, part.amount, left=start, height=0.8, color=hue(part.hue), alpha=fade, edgecolor="white",
                linewidth=0.8,
            )  # fmt: skip
            right, left = (start + part.amount, left) if part.amount >= 0 else (right, start + part.amount)
        axes.axvline(0.0, color=GREY, linewidth=0.8)
    return figure


def _fades(parts: Sequence[Part]) -> list[float]:
    """Return the opacity of each part: later parts of a hue are lighter, so that neighbours can be told apart."""
    seen: dict[int, int] = {}
    found = []
    for part in parts:
        number = seen.get(part.hue, 0)
        seen[part.hue] = number + 1
        found.append(_FADED[number % len(_FADED)])
    return found


_HALF = 0.31

"""Half the height of a bar, in rows."""

_SMALL = 0.4

"""Changes that together take less of a full axis than this are drawn on one that begins above 0."""


def draw_waterfall(chart: Waterfall) -> Figure:
    """Draw a full bar for the first total, a floating one for each change, and a full one for the last total.

    Where the changes are small beside the totals, the axis does not begin at 0: the full bars are then broken, and a
    line of text says where it begins. Lengths of changes can be compared with each other either way.
    """
    levels = list(accumulate((change.amount for change in chart.changes), initial=chart.start[1]))
    tops = [max(each) for each in map(_drawn, chart.changes, levels)]
    spots = [*levels, chart.end[1], *(spot for each in map(_drawn, chart.changes, levels) for spot in each)]
    base = _base(spots)
    amounts = [change.amount for change in chart.changes]
    decimals = decimals_of(amounts)
    texts = [signed_number(amount, decimals) for amount in amounts]
    totals = [with_unit(number_text(total, decimals), chart.unit) for _, total in (chart.start, chart.end)]
    names = [chart.start[0], *(change.name for change in chart.changes), chart.end[0]]
    with style():
        ends = (min(base, *spots), max(base, *spots))
        figure, axes = open_rows(
            chart.title, names, ends if ends[0] < ends[1] else (0.0, 1.0), chart.unit,
            behind=[*texts, *totals], note=_note(chart, base),
        )  # fmt: skip
        for row, total in ((0, chart.start[1]), (len(names) - 1, chart.end[1])):
            _draw_total(axes, row, base, total)
        for row, (change, level) in enumerate(zip(chart.changes, levels, strict=False), start=1):
            _draw_change(axes, row, change, level)
        for row, level in enumerate(levels):
            axes.plot([level, level], [row + _HALF, row + 1 - _HALF], color=GREY, linewidth=0.8)
        edges = [max(base, chart.start[1]), *tops, max(base, chart.end[1])]
        for row, (edge, text) in enumerate(zip(edges, [totals[0], *texts, totals[1]], strict=True)):
            axes.annotate(
                text, (edge, row), (4, 0), textcoords="offset points", va="center_baseline", size=TEXT, color=INK,
                weight="bold" if row in (0, len(names) - 1) else "normal",
            )  # fmt: skip
    return figure


def _note(chart: Waterfall, base: float) -> str:
    """Return what to know to read the picture: where the axis begins, what changes are in, and what the lines are."""
    said = (
        [f"The axis begins at {with_unit(f'{base:,.6g}', chart.unit)}, so the full bars are cut off."] if base else []
    )
    if chart.unit == "%" and chart.changes:
        said.append("Changes are in percentage points.")
    if any(change.ci95 is not None for change in chart.changes):
        said.append("Dark lines: 95 % interval of a change.")
    return " ".join(said)


def _drawn(change: Change, level: float) -> tuple[float, ...]:
    """Return where the bar of a change and its interval end."""
    return (level, level + change.amount, *(level + end for end in change.ci95 or ()))


def _base(spots: Iterable[float]) -> float:
    """Return where the full bars begin: at 0, or at a round number below all that changes."""
    low, high = min(spots), max(spots)
    span = high - low
    if low <= 0 or span <= 1e-12 * high or span >= _SMALL * high:
        return 0.0
    step = 10.0 ** math.floor(math.log10(span)) / 2
    return max(math.floor((low - 0.25 * span) / step) * step, 0.0)


def _draw_total(axes: Axes, row: int, base: float, total: float) -> None:
    """Draw a full bar, with a gap near its foot if it does not begin at 0."""
    axes.barh(row, total - base, left=base, height=2 * _HALF, color=BLUE, linewidth=0)
    if base:
        low, high = axes.get_xlim()
        inch = (high - low) / _across(axes)
        for place in (0.14, 0.2):
            foot = base + place * inch
            axes.plot(
                [foot - 0.04 * inch, foot + 0.04 * inch], [row + 0.42, row - 0.42], color="white", linewidth=1.6,
                gid="break",
            )  # fmt: skip


def _across(axes: Axes) -> float:
    return float(axes.get_window_extent().width / axes.figure.dpi)


def _draw_change(axes: Axes, row: int, change: Change, level: float) -> None:
    """Draw a floating bar and the interval of where it ends."""
    color = ORANGE if change.amount < 0 else GREEN
    axes.barh(row, change.amount, left=level, height=2 * _HALF, color=color, linewidth=0)
    if change.ci95 is not None:
        ends = [level + end for end in change.ci95]
        axes.plot(ends, [row, row], color=INK, linewidth=1.4, solid_capstyle="butt")

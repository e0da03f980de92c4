"""Charts whose rows lie below each other: bars, intervals, tornadoes, one bar of parts, shaded tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.analysis.amounts import NOTHING, decimals_of, number_text, signed_number, with_unit
from ettrick.analysis.page.charts.data import Bars, ChartAxis, HeatMap, Intervals, Stack, TornadoChart
from ettrick.analysis.page.charts.sheet import (
    BLUE,
    FAINT,
    GREY,
    INK,
    ORANGE,
    QUIET,
    RAMP,
    TEXT,
    WIDTH,
    LegendEntry,
    block_height,
    block_width,
    cut,
    extent,
    hue,
    lightness,
    named_rows,
    numbers_in,
    on,
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

    from ettrick.analysis.page.charts.data import Range


_ALL = 100.0  # the largest share [%]


def _open_rows(
    chart: Any, names: Sequence[str], ends: Range, *, row: float = 0.26, before: Iterable[str] = (),
    behind: Iterable[str] = (), column: Sequence[str] = (), note: str = "", key: Sequence[LegendEntry] = (),
) -> tuple[Figure, Axes]:  # fmt: skip
    """Return a figure with one row for each name, the first at the top; row n is at height n of the axes.

    `before` and `behind` are labels at the left and right of what is drawn, `column` those at the right of the axes:
    there is room for the widest. A row is at least so high [in].
    """
    aside = max((block_width(text) + 0.1 for text in column), default=0.0)
    pads = [max((width_of(text) + 0.1 for text in texts), default=0.03) for texts in (before, behind)]
    free = sized(WIDTH) - 0.35 - aside - sum(pads)  # of which the bars have half an inch at least
    lines, across, height = named_rows(names, min(sized(2.3), free - 0.5))
    unit = chart.unit.removeprefix("%").strip()
    margins = (0.2 + across, 0.15 + aside, 0.05, 0.5 if unit else 0.34)
    figure, axes = open_sheet(chart.title, max(row, height) * max(len(names), 1) + 0.05, margins, note, key)
    low, high = ends if ends[0] < ends[1] else (ends[0], ends[0] + 1.0)
    inch = (high - low) / (free - across)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), lines)
    limits = low - pads[0] * inch, high + pads[1] * inch
    set_scale(axes, "x", ChartAxis(unit), limits, chart.unit)
    if chart.unit.startswith("%") and high <= _ALL:  # there is room for a label on the right, and no share above it
        axes.set_xticks([tick for tick in axes.get_xticks() if limits[0] <= tick <= _ALL])
        axes.set_xlim(limits)
    return figure, axes


class _RowBar(NamedTuple):
    """A bar: the place of its middle, its height in rows, its ends, its colour, its interval, and what it is called."""

    place: float
    height: float
    start: float
    end: float | None  # ``None`` for no bar
    color: str
    span: Range | None
    label: str
    is_left: bool = False  # whether the label stands at the left of all that is drawn, or at the right

    @property
    def spots(self) -> list[float]:
        """The places of the bar and its interval."""
        return numbers_in([self.start, self.end], [self.span])


def _draw_rows(
    chart: Any, names: Sequence[str], bars: Sequence[_RowBar], *, row: float = 0.26, note: str = "",
    key: Sequence[LegendEntry] = (),
) -> tuple[Figure, Axes]:  # fmt: skip
    """Return a figure with bars in rows, their intervals as lines across their ends, and their labels next to them."""
    spots = [spot for bar in bars for spot in bar.spots] or [0.0]
    before, behind = ([bar.label for bar in bars if bar.is_left == side] for side in (True, False))
    figure, axes = _open_rows(
        chart, names, (min(spots), max(spots)), row=row, before=before, behind=behind, note=note, key=key
    )  # fmt: skip
    for bar in bars:
        if bar.end is not None:
            axes.barh(bar.place, bar.end - bar.start, left=bar.start, height=bar.height, color=bar.color, linewidth=0)
        _draw_span(axes, bar.place, bar.span)
        side, edge = (-1, min(bar.spots)) if bar.is_left else (1, max(bar.spots))
        look: Any = {"va": "center_baseline", "size": TEXT, "color": INK, "ha": "right" if bar.is_left else "left"}
        axes.annotate(bar.label, (edge, bar.place), (4 * side, 0), textcoords="offset points", **look)
    return figure, axes


def _draw_span(axes: Axes, place: float, span: Range | None, color: str = INK, width: float = 1.4) -> None:
    if span is not None:
        axes.plot(span, [place, place], color=color, linewidth=width, solid_capstyle="butt")


def _texts_of(values: Sequence[float | None], unit: str) -> list[str]:
    """Return values as labels; where some are negative, all have their signs."""
    decimals, has_signs = decimals_of(values), any(value is not None and value < 0 for value in values)
    text = signed_number if has_signs else number_text
    return [with_unit(NOTHING if value is None else text(value, decimals), unit) for value in values]


# ----------------------------------------
# Horizontal bars, one or several in each row.

_FILLED = 0.74  # part of a row that its bars take


def draw_bars(chart: Bars) -> Figure:
    """Draw a bar for each value, its 95 % interval as a line across its end, and the value next to it."""
    count = max(len(chart.series), 1)
    thick = _FILLED / count
    texts = iter(_texts_of([value for row in chart.rows for value in row.values], chart.unit))
    bars = [
        _RowBar(place + (index - (count - 1) / 2) * thick, thick * 0.88, 0.0, value, hue(index), row.span(index),
                next(texts), (value or 0.0) < 0)
        for place, row in enumerate(chart.rows) for index, value in enumerate(row.values)
    ]  # fmt: skip
    figure, axes = _draw_rows(
        chart, [row.name for row in chart.rows], bars, row=0.1 + 0.16 * count,
        note=f"Thin lines: {chart.span}." if any(bar.span for bar in bars) else "",
        key=[LegendEntry(name, hue(index)) for index, name in enumerate(chart.series)] if count > 1 else (),
    )  # fmt: skip
    axes.axvline(0.0, color=GREY, linewidth=0.8)
    return figure


# ----------------------------------------
# Means with their intervals below each other.

_WORDS = 2.1  # width of a value and its note at most [in]


def draw_intervals(chart: Intervals) -> Figure:
    """Draw a dot for each mean, a dark line for the interval that decides, and a light band for what is read second."""
    names, means, spans, bands, _ = zip(*chart.rows, strict=True) if chart.rows else ((),) * 5
    key = [LegendEntry(chart.span, BLUE, 1.0, "line")] if any(span and span[0] < span[1] for span in spans) else []
    key += [LegendEntry(chart.pale, BLUE, 0.22)] if any(bands) else []
    spots, texts = numbers_in(means, spans, bands), _notes_of(chart)
    if chart.reference is not None:
        key.append(LegendEntry(chart.reference[1], ORANGE, 1.0, "line"))
        spots.append(chart.reference[0])
    low, high = extent(spots)
    if chart.unit.startswith("%") and max(spots, default=0.0) <= _ALL:
        high = min(high, _ALL)
    figure, axes = _open_rows(
        chart, names, (low, high), column=texts, key=key,
        row=max((block_height(text) + 0.1 for text in texts), default=0.26),
    )  # fmt: skip
    if chart.reference is not None:
        axes.axvline(chart.reference[0], color=ORANGE, linewidth=1.2)
    beside: Any = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "size": TEXT, "color": INK}
    for place, (row, text) in enumerate(zip(chart.rows, texts, strict=True)):
        axes.annotate(text, (1.0, place), (5, 0), va="center", alpha=QUIET if row.mean is None else 1.0, **beside)
        if row.pale is not None:
            low, high = row.pale
            axes.barh(place, high - low, left=low, height=0.5, color=BLUE, alpha=0.22, linewidth=0)
        _draw_span(axes, place, row.ci95, BLUE, 2.4)
        if row.mean is not None:
            axes.plot([row.mean], [place], marker="o", markersize=5, color=BLUE)
    return figure


def _notes_of(chart: Intervals) -> list[str]:
    """Return what stands next to each row: the mean, as exact as the narrowest interval goes, and its note."""
    halves = [(row.ci95[1] - row.ci95[0]) / 2 for row in chart.rows if row.ci95 is not None]
    least, decimals = min((half for half in halves if half > 0), default=0.0), decimals_of([r.mean for r in chart.rows])
    if least:
        place = math.floor(math.log10(least))
        decimals = min(max((1 if least < 3 * 10.0**place else 0) - place, 0), 6)
    texts = []
    for row in chart.rows:
        value = with_unit(number_text(row.mean, decimals), chart.unit)
        texts.append(wrapped(row.note if row.note and value == NOTHING else f"{value} {row.note}", sized(_WORDS)))
    return texts


# ----------------------------------------
# Tornadoes: what each input alone does.

_FULL = 0.64  # height of a bar that has its row to itself, in rows
_LABEL = 1.1  # width of the label of an end at most [in]


def draw_tornado(chart: TornadoChart) -> Figure:
    """Draw a bar to either side for the two ends of each input, labelled with the end and what it changes.

    Bars to different sides are on one line, others one above the other.
    """
    ends = [end for swing in chart.swings for end in (swing.low, swing.high)]
    decimals = decimals_of([change for _, change, _ in ends])
    bars, is_high = [], False
    for index, (name, change, span) in enumerate(ends):
        row, is_second = divmod(index, 2)
        swing = chart.swings[row]
        place, height = float(row), _FULL
        if swing.low[1] * swing.high[1] >= 0:
            place, height, is_high = row + (0.2 if is_second else -0.2), _FULL / 2, True
        label = f"{cut(name, sized(_LABEL))}: {with_unit(signed_number(change, decimals), chart.unit)}"
        bars.append(_RowBar(place, height, 0.0, change, ORANGE if is_second else BLUE, span, label, change < 0))
    figure, axes = _draw_rows(
        chart, [swing.name for swing in chart.swings], bars, row=0.36 if is_high else 0.28,
        note=f"Change from {chart.center[0]}: {with_unit(number_text(chart.center[1], decimals), chart.unit)}. "
        f"{'Thin lines: 95 % interval of a change.' if any(span for *_, span in ends) else ''}".strip(),
        key=[LegendEntry("low end of the input", BLUE), LegendEntry("high end of the input", ORANGE)],
    )  # fmt: skip
    axes.axvline(0.0, color=GREY, linewidth=1.0)
    return figure


# ----------------------------------------
# One bar that is made of parts.

# Opacities of parts of one hue, and by how much neighbours differ in lightness where they can (L*), so that they can be
# distinguished without colours.
_FADED, _APART = (1.0, 0.7, 0.45, 0.3), 10.0


def draw_stack(chart: Stack) -> Figure:
    """Draw the parts side by side from 0 on, negative ones at its left, and name each with its size above."""
    amounts = [part.amount for part in chart.parts]
    unit = "" if chart.unit == "%" else f" {chart.unit}"
    key: list[LegendEntry] = []
    for part, text in zip(chart.parts, _texts_of(amounts, chart.unit), strict=True):
        key.append(LegendEntry(f"{part.name} {text}{unit}", hue(part.hue), _fade(hue(part.hue), key)))
    figure, axes = open_sheet(chart.title, 0.5, (0.25, 0.35, 0.05, 0.5 if unit else 0.34), key=key)
    ends = {False: 0.0, True: 0.0}  # at the right, at the left
    for amount, entry in zip(amounts, key, strict=True):
        look: dict[str, Any] = {"color": entry.color, "alpha": entry.alpha, "edgecolor": "white", "linewidth": 0.8}
        axes.barh(0.0, amount, left=ends[amount < 0], height=0.8, **look)
        ends[amount < 0] += amount
    scale = (ends[True], ends[False]) if ends[True] < ends[False] else (0.0, 1.0)
    set_scale(axes, "x", ChartAxis(unit.strip()), scale, chart.unit)
    axes.set(ylim=(-0.5, 0.5), yticks=[])
    axes.axvline(0.0, color=GREY, linewidth=0.8)
    return figure


def _fade(color: str, key: Sequence[LegendEntry]) -> float:
    """Return the opacity of the next part: one that its hue does not have yet, and not as light as its neighbour."""
    used = [entry.alpha for entry in key if entry.color == color]
    free = [fade for fade in _FADED if used.count(fade) == min(map(used.count, _FADED))]
    if not key:
        return free[0]
    before = lightness(key[-1].color, key[-1].alpha)
    apart = {fade: abs(lightness(color, fade) - before) for fade in free}
    return next((fade for fade in free if apart[fade] >= _APART), max(free, key=apart.__getitem__))


# ----------------------------------------
# Tables whose cells are shaded by their values.

_SMALLEST = 6.5  # least size of type in cells [pt]: below it the picture is made wider
_WIDEST = 1.4  # width of a cell at most [in]
_LONGEST = 3.0  # length of a label that stands upright at most [in]


def draw_heat_map(chart: HeatMap) -> Figure:
    """Draw a table: dark cells are those to look at, and every cell says its number."""
    from matplotlib.patches import Rectangle

    names, aside, least = named_rows(chart.rows, sized(2.0))
    count = max(len(chart.columns), 1)
    left = 0.25 + max(aside, width_of(chart.row_title, TEXT, is_bold=True))
    cells = _cells(chart.texts, (sized(WIDTH) - left - 0.15) / count)
    word = max((width_of(part) for text in chart.columns for part in text.split()), default=0.0)
    is_upright = word + 0.04 > cells.across
    heads = [
        cut(text, _LONGEST) if is_upright else wrapped(text, cells.across - 0.04, lines=3) for text in chart.columns
    ]
    head = max((block_width(text) if is_upright else block_height(text) for text in heads), default=0.0) + 0.08
    top = head + (block_height(chart.column_title) + 0.02 if chart.column_title else 0.0)
    width = max(sized(WIDTH), left + count * cells.across + 0.15)
    margins = (left, width - left - count * cells.across, top, 0.1)
    height = max(cells.up, least) * max(len(names), 1)
    figure, axes = open_sheet(chart.title, height, margins, _note_of_shades(chart), width=width)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set(xlim=(0, count), ylim=(len(names), 0), xticks=[])
    axes.set_yticks([row + 0.5 for row in range(len(names))], names)
    look: dict[str, Any] = {"textcoords": "offset points", "size": TEXT, "color": INK}
    for column, text in enumerate(heads):
        turn = 90 if is_upright else 0
        axes.annotate(text, (column + 0.5, 0), (0, 4), ha="center", va="bottom", rotation=turn, **look)
    axes.annotate(chart.column_title, (0, 0), (0, top * 72 - 2), va="top", weight="bold", **look)
    axes.annotate(chart.row_title, (0, 0), (-4, 4), ha="right", va="bottom", weight="bold", **look)
    for row, shades in enumerate(chart.shades()):
        for column, share in enumerate(shades):
            shade = None if share is None else min(int(share * len(RAMP)), len(RAMP) - 1)
            color, ink = (FAINT, INK) if shade is None else (RAMP[shade], on(shade))
            # A patch of `add_patch` works out its ends, which are known.
            axes.add_artist(Rectangle((column, row), 1, 1, facecolor=color, edgecolor="white", linewidth=1.0))
            place: dict[str, Any] = {"ha": "center", "va": "center", "linespacing": 1.1}
            axes.text(column + 0.5, row + 0.5, cells.texts[row][column], size=cells.size, color=ink, **place)
    return figure


class _Cells(NamedTuple):
    """The layout of cells: their texts in lines, the size of type [pt], width and height of a cell [in]."""

    texts: list[list[str]]
    size: float
    across: float
    up: float


def _cells(texts: Sequence[Sequence[str]], room: float) -> _Cells:
    """Return how texts are written so that each fits into its cell: smaller, in two lines, or in wider cells."""
    longest = max((width_of(text) for row in texts for text in row), default=0.0)
    word = max((width_of(part) for row in texts for text in row for part in text.split()), default=0.0)
    across = min(room, _WIDEST)
    pad, size = 0.08, TEXT
    if longest + pad > across:
        # Two lines where words are short, else a smaller type, else more room.
        least = min(longest, max(word, longest * 0.62))
        size = min(max(TEXT * (across - pad) / least, _SMALLEST), TEXT)
        across = max(across, least * size / TEXT + pad)
    lines = [[wrapped(text, across - pad / 2, size, 3) for text in row] for row in texts]
    up = max((block_height(text, size) for row in lines for text in row), default=0.0)
    return _Cells(lines, size, across, max(up + 0.08, 0.24))


def _note_of_shades(chart: HeatMap) -> str:
    unit = "" if chart.unit in ("", "%") else f" {chart.unit}"
    ends = chart.ends()
    if ends is None or ends[0] == ends[1]:
        return unit.strip()
    light, dark = (with_unit(number_text(value, decimals_of(ends)), chart.unit) for value in ends)
    return f"Darker is worse: from {light} to {dark}{unit}"

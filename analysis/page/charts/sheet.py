"""The sheet that a picture is drawn on: its title, what to know to read it, a key, and axes with measured margins."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import math
import warnings
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np

from ettrick.analysis.amounts import decimals_of, number_text, with_unit
from ettrick.analysis.page.charts.data import ChartAxis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ettrick.analysis.page.charts.data import ChartAxis, Range

# ----------------------------------------
# Colours of all pictures, and formats of their files.

# Characters that no document may hold, whatever a name holds (XML 1.0, section 2.2).
CONTROLS = bytes(set(range(32)) - set(b"\t\n\r"))
SUFFIXES = (".svg", ".png", ".pdf")  # formats of pictures, by the end of the file's name

# Colours that the colour-blind distinguish, after Okabe and Ito; the last two replace black and yellow.
HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#8C6D1F")
BLUE, ORANGE, GREEN = HUES[:3]

# What belongs to nothing in particular; type; lines of a grid.
GREY, INK, FAINT = "#8a8f98", "#22262b", "#e6e8eb"
QUIET = 0.75  # opacity of ink for what is read second; grey itself is too light for type

# Shades of tables from little to much: each is darker than the one before, so that they tell without colours too.
RAMP = (
    "#fff3d3", "#f6d8a4", "#eebb78", "#e59d4e", "#da7f28", "#cb6100", "#b84500", "#a12a00", "#871107",
)  # fmt: skip

# Type on shades. These stay as they are where a page is dark, because the shades do.
ON_LIGHT, ON_DARK = "#0d0f12", "#fefefe"
_DARK_FROM = 6


def hue(number: int) -> str:
    """Return a colour; grey (-1) for what belongs to nothing in particular, and that of type (-2)."""
    return HUES[number % len(HUES)] if number >= 0 else GREY if number == -1 else INK


def on(shade: int) -> str:
    """Return the colour of type on one of the shades of `RAMP`."""
    return ON_DARK if shade >= _DARK_FROM else ON_LIGHT


# ----------------------------------------
# The kinds of pictures, and the one style of all.


_Draw = TypeVar("_Draw", bound="Callable[[Any], Figure]")
CHARTS: dict[type, Callable[[Any], Figure]] = {}  # how each kind of picture is drawn, by the type of its data


def chart_kind(data: type) -> Callable[[_Draw], _Draw]:
    """Make a function the one that draws a type of data."""

    def register(draw: _Draw) -> _Draw:
        CHARTS[data] = draw
        return draw

    return register


WIDTH, NARROW = 7.0, 4.6  # width of a picture, and of one for the screen of a phone [in]


def draw(chart: Any, width: float = WIDTH) -> Figure:
    """Return the picture of plain data, whose type is one of `CHARTS`; of clusters the width is what they need."""
    with style(width):
        return CHARTS[type(chart)](chart)


def sized(inches: float) -> float:
    """Return a length of pictures of `WIDTH` in the width of this one [in]."""
    import matplotlib as mpl

    width: float = mpl.rcParams["figure.figsize"][0]
    return inches * width / WIDTH


@contextlib.contextmanager
def style(width: float = WIDTH) -> Iterator[None]:
    """Set the one style of all pictures: plain type on white, so wide [in], and the same bytes from the same data."""
    import matplotlib as mpl

    settings: Any = {
        "figure.facecolor": "white",
        "figure.figsize": (width, width),
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 9.0,
        "text.color": INK,
        "savefig.dpi": 200,
        "svg.fonttype": "none",  # text stays text: it can be searched, read aloud, and is small
        "svg.hashsalt": "ettrick",
        "path.simplify": False,
        "text.parse_math": False,  # a dollar in a name is a dollar
    }
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()  # not those of the person who draws
        mpl.rcParams.update(settings)
        # A letter that the face lacks is shown as a box; that is all there is to say.
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        yield


def render(figure: Figure, suffix: str) -> bytes:
    """Return a picture as the content of a file: the same bytes each time."""
    without_dates: dict[str, dict[str, Any]] = {
        ".svg": {"Date": None, "Creator": "Ettrick"},
        ".png": {"Software": "Ettrick"},
        ".pdf": {"CreationDate": None, "Creator": "Ettrick"},
    }
    content = io.BytesIO()
    with style():
        figure.savefig(content, format=suffix.removeprefix("."), metadata=without_dates[suffix])
    return content.getvalue().translate(None, CONTROLS) if suffix == ".svg" else content.getvalue()


# ----------------------------------------
# How wide words are, and how they are broken into lines and cut, so that nothing in a picture covers anything else.

TITLE, TEXT = 11.0, 8.5  # sizes of type [pt]: titles, and everything else
LINE = 1.3  # from one line of a text to the next, in sizes of its type [-]
_SLACK = 1.03
_INCH = 72.0


@functools.lru_cache(maxsize=20_000)
def width_of(text: str, size: float = TEXT, is_bold: bool = False) -> float:
    """Return how wide a line of text is at most, with some slack for how programs place letters [in]."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    if not text:
        return 0.0
    face = FontProperties(family="DejaVu Sans", size=size, weight="bold" if is_bold else "normal")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a letter that the face lacks is a box
        width, _, _ = text_to_path.get_text_width_height_descent(text, face, False)
    return float(width) * _SLACK / _INCH


def block_width(text: str, size: float = TEXT, is_bold: bool = False) -> float:
    """Return how wide a text of several lines is [in]."""
    return max((width_of(line, size, is_bold) for line in text.split("\n")), default=0.0)


def block_height(text: str, size: float = TEXT) -> float:
    """Return how high a text of several lines is [in]."""
    return LINE * size * (text.count("\n") + 1) / _INCH


def cut(text: str, room: float, size: float = TEXT, is_bold: bool = False) -> str:
    """Return a line that is not wider than the room [in]; an ellipsis stands for what does not fit.

    It is taken out before the last third: names that begin alike often differ at their ends.
    """
    if width_of(text, size, is_bold) <= room:
        return text
    low, high = 0, len(text) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if width_of(_shortened(text, middle), size, is_bold) <= room else (low, middle - 1)
    return _shortened(text, low)


def _shortened(text: str, length: int) -> str:
    tail = length // 3
    return f"{text[: length - tail].rstrip()}…{text[len(text) - tail :].lstrip()}"


def wrapped(text: str, room: float, size: float = TEXT, lines: int = 2, is_bold: bool = False) -> str:
    """Return a text in at most so many lines, none wider than the room [in]; what does not fit is cut.

    White space of the text itself is one space each. A word that is wider than a line is broken.
    """
    words = [part for word in text.split() for part in _parts(word, room, size, is_bold)]
    found: list[str] = []
    for word in words:
        longer = f"{found[-1]} {word}" if found else word
        if found and width_of(longer, size, is_bold) <= room:
            found[-1] = longer
        else:
            found.append(word)
    if len(found) > lines:
        found = [*found[: lines - 1], cut(" ".join(found[lines - 1 :]), room, size, is_bold)]
    return "\n".join(found)


def _parts(word: str, room: float, size: float, is_bold: bool) -> Iterable[str]:
    """Return a word in parts that each fit on a line, broken after a hyphen where there is one."""
    while word:
        length = len(word)
        while length > 1 and width_of(word[:length], size, is_bold) > room:
            length = max(min(length - 1, int(length * room / width_of(word[:length], size, is_bold))), 1)
        if length < len(word):
            length = word.rfind("-", 0, length) + 1 or length
        yield word[:length]
        word = word[length:]


_EDGE = 0.1
_SWATCH = 0.2


class LegendEntry(NamedTuple):
    """An entry of a key: what it says, its colour, its opacity, and its mark: bar, line, dot or ring."""

    text: str
    color: str
    alpha: float = 1.0
    mark: str = "bar"


class Margins(NamedTuple):
    """Room around the axes for what is written there [in]."""

    left: float = 0.2
    right: float = 0.2
    top: float = 0.05
    bottom: float = 0.45


def open_sheet(
    title: str, body: float, margins: Margins, note: str = "", key: Sequence[LegendEntry] = (), width: float = 0.0
) -> tuple[Figure, Axes]:
    """Return a figure with a title at the left above, and axes below it.

    The title takes four lines at most; the note and the key are below it. The axes are so high, and the figure so wide
    if it needs more than others [in].
    """
    from matplotlib.figure import Figure

    width = max(width, sized(WIDTH))
    room = width - 2 * _EDGE
    title = wrapped(title, room, TITLE, 4, is_bold=True)
    note = wrapped(note, room, TEXT, 3)
    rows = _rows_of(key, room)
    heights = [block_height(title, TITLE) if title else 0.0, block_height(note) if note else 0.0]
    line = LINE * TEXT / 72 + 0.03
    head = _EDGE + sum(heights) + (0.05 if title and (note or rows) else 0.0) + line * len(rows) + 0.06
    height = head + margins.top + body + margins.bottom
    figure = Figure(figsize=(width, height))
    look: dict[str, Any] = {"transform": figure.dpi_scale_trans, "va": "top", "linespacing": LINE * 0.86}
    if title:
        figure.text(_EDGE, height - _EDGE, title, size=TITLE, weight="bold", color=INK, **look)
    below = height - _EDGE - heights[0] - 0.03
    if note:
        figure.text(_EDGE, below, note, size=TEXT, color=INK, alpha=QUIET, **look)
    for number, row in enumerate(rows):
        _draw_key(figure, row, below - heights[1] - line * (number + 0.5))
    across = width - margins.left - margins.right
    place = (margins.left / width, margins.bottom / height, across / width, body / height)
    return figure, open_axes(figure, place)


def open_axes(figure: Figure, place: tuple[float, float, float, float], grid: Literal["x", "both"] = "x") -> Axes:
    """Return axes at left, bottom, width and height, as shares of the figure [-]."""
    axes = figure.add_axes(place)
    axes.tick_params(colors=INK, length=0, labelsize=TEXT)
    axes.tick_params(axis="x", pad=7)
    axes.set_axisbelow(True)
    axes.grid(axis=grid, color=FAINT, linewidth=0.7)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
    return axes


def _rows_of(key: Sequence[LegendEntry], room: float) -> list[list[tuple[float, LegendEntry]]]:
    """Return the lines of a key: each entry with the place where it begins [in]."""
    rows: list[list[tuple[float, LegendEntry]]] = []
    end = room + 1
    for entry in key:
        text = cut(entry.text, room - _SWATCH)
        across = _SWATCH + width_of(text) + 0.2
        if end + across - 0.2 > room:
            rows.append([])
            end = 0.0
        rows[-1].append((_EDGE + end, entry._replace(text=text)))
        end += across
    return rows


def _draw_key(figure: Figure, row: Sequence[tuple[float, LegendEntry]], height: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    inches = figure.dpi_scale_trans
    for start, entry in row:
        look: dict[str, Any] = {"color": entry.color, "alpha": entry.alpha, "transform": inches}
        if entry.mark == "bar":
            figure.add_artist(Rectangle((start, height - 0.05), 0.13, 0.1, linewidth=0, **look))
        elif entry.mark in ("dot", "ring"):
            face = entry.color if entry.mark == "dot" else "white"
            figure.add_artist(Line2D([start + 0.07], [height], marker="o", markersize=5.5, mfc=face, **look))
        else:
            figure.add_artist(Line2D([start, start + 0.15], [height, height], linewidth=2, **look))
        figure.text(
            start + _SWATCH, height, entry.text, size=TEXT, color=INK, va="center_baseline", transform=inches
        )  # fmt: skip


def open_message(title: str, text: str) -> Figure:
    """Return a figure that has nothing to draw, and says why."""
    figure, axes = open_sheet(title, 0.1, Margins(bottom=0.1), text)
    axes.set_axis_off()
    return figure


def named_rows(names: Sequence[str], room: float) -> tuple[list[str], float, float]:
    """Return names in lines of so much room, how wide the widest is, and how high each row has to be [in]."""
    lines = [wrapped(name, room, TEXT, 2) for name in names]
    across = max((width_of(line) for text in lines for line in text.split("\n")), default=0.0)
    return lines, across, max((block_height(text) for text in lines), default=0.2) + 0.1


# ----------------------------------------
# Where labels go so that none covers another: in a column, in lanes above the axes, and beside points.

_DOT = 0.05  # half the size of a point, which labels stay away from [in]

# Directions in which a label may be, the best first [deg].
_ANGLES = (0, 180, 45, -45, 135, -135, 90, -90, 22, -22, 158, -158, 68, -68, 112, -112)


class SheetBox(NamedTuple):
    """A rectangle [in]."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: SheetBox) -> bool:
        """Whether two rectangles have an inside in common."""
        return bool(_overlap(np.array([self]), np.array([other]))[0, 0])


def pushed_apart(places: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """Return middles of labels in a column, near their places, in the same order, none on another.

    Neighbours that would touch form a block whose middle is the mean of where they want to be: no other places without
    overlap have a smaller sum of squared moves, weighted by size. A block is then moved inside the column.

    Places are the wished middles and sizes what labels take of the column [in]; what does not fit goes on above it.
    """
    order = sorted(range(len(places)), key=lambda number: (places[number], number))
    blocks: list[tuple[float, float, list[int]]] = []  # where it begins, how long it is, who is in it
    for number in order:
        size = sizes[number]
        block = (places[number] - size / 2, size, [number])
        while blocks and blocks[-1][0] + blocks[-1][1] > block[0]:
            start, length, members = blocks.pop()
            total = length + block[1]
            wish = (start * length + (block[0] - length) * block[1]) / total
            block = (wish, total, members + block[2])
        blocks.append(block)
    found = [0.0] * len(places)
    starts = _inside(blocks, low, high)
    for (_, _, members), start in zip(blocks, starts, strict=True):
        below = start
        for number in members:
            found[number] = below + sizes[number] / 2
            below += sizes[number]
    return found


def _inside(blocks: Sequence[tuple[float, float, list[int]]], low: float, high: float) -> list[float]:
    starts = [start for start, _, _ in blocks]
    for number in reversed(range(len(blocks))):
        starts[number] = min(starts[number], high - blocks[number][1])
        high = starts[number]
    for number, (_, length, _) in enumerate(blocks):
        starts[number] = max(starts[number], low)
        low = starts[number] + length
    return starts


def lanes(stems: Sequence[float], widths: Sequence[float], high: float) -> list[tuple[float, int]]:
    """Return for each label above the axes where it begins and its lane, so that none covers another or its stem.

    A label stands at the right of its stem like a flag, in the lane above those whose stems it passes; where the room
    ends, at the left of it. Stems are the places that labels name, and widths theirs [in]; the room is from 0 to
    `high`.
    """
    found: dict[int, tuple[float, int]] = {}
    order = sorted(range(len(stems)), key=lambda number: (-stems[number], number))
    at_right = [number for number in order if stems[number] + widths[number] <= high]
    for number in [*at_right, *(number for number in order if number not in at_right)]:
        width = widths[number]
        start = stems[number] if number in at_right else max(min(stems[number], high) - width, 0.0)
        passed = [
            lane
            for other, (begin, lane) in found.items()
            if start <= stems[other] <= start + width or (begin < start + width and start < begin + widths[other])
        ]
        found[number] = (start, max(passed, default=-1) + 1)
    return [found[number] for number in range(len(stems))]


def beside(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    room: SheetBox,
    filled: Sequence[SheetBox],
) -> list[SheetBox | None]:
    """Return where the label of each point goes, or ``None`` where nothing near it is free.

    The places are evaluated from the nearest on, on the right first: a label is never on another one, on a point, or on
    what is filled. Sizes are width and height of labels [in], which are inside the room and not on what is filled.
    """
    dots = [SheetBox(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in points]
    taken = np.array([*filled, *dots], dtype=float).reshape(-1, 4)
    found: list[SheetBox | None] = []
    for (x, y), (width, height) in zip(points, sizes, strict=True):
        tries = _tries(x, y, width, height, room)
        free = tries[~_overlap(tries, taken).any(axis=1)]
        found.append(SheetBox(*free[0].tolist()) if len(free) else None)
        taken = np.concatenate([taken, free[:1]])
    return found


def _overlap(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which rectangles have an inside in common, (n, m)."""
    below = one[:, None, :2] < other[None, :, 2:]
    above = one[:, None, 2:] > other[None, :, :2]
    return np.asarray((below & above).all(axis=2))


def _tries(x: float, y: float, width: float, height: float, room: SheetBox) -> NDArray[np.float64]:
    """Return where a label could be, the best place first, (n, 4)."""
    away = _DOT + 0.04 + 0.16 * np.arange(9.0)[:, None]
    across, up = np.cos(np.radians(_ANGLES)), np.sin(np.radians(_ANGLES))
    middle_x = (x + across * (away + width / 2)).ravel()
    middle_y = (y + up * (away + height / 2)).ravel()
    boxes = np.stack(
        [middle_x - width / 2, middle_y - height / 2, middle_x + width / 2, middle_y + height / 2], axis=1
    )  # fmt: skip
    inside = (boxes[:, :2] >= room[:2]).all(axis=1) & (boxes[:, 2:] <= room[2:]).all(axis=1)
    return np.asarray(boxes[inside])


# ----------------------------------------
# Axes: where they are labelled and how, on equal distances or equal ratios.

Tick = tuple[float, str]


def extent(values: Iterable[float | None], is_log: bool = False, pad: float = 0.05) -> tuple[float, float]:
    """Return the ends of an axis for values, with some room at either side; something where there are none.

    Values that are not finite, and on an axis of ratios those that are not positive, do not count.
    """
    found = [value for value in values if value is not None and math.isfinite(value) and (value > 0 or not is_log)]
    if not found:
        return (1.0, 10.0) if is_log else (0.0, 1.0)
    low, high = min(found), max(found)
    if is_log:
        factor = max((high / low) ** pad, 1.1)
        return low / factor, high * factor
    room = (high - low) * pad
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        room = 0.1 * abs(high) or 1.0
    return low - room, high + room


def steps(low: float, high: float, count: int) -> list[float]:
    """Return round numbers from one end to the other, at most so many."""
    rough = (high - low) / max(count - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    for factor in (1.0, 2.0, 2.5, 5.0, 10.0, 20.0, 25.0, 50.0):
        step = factor * power
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= count:
            return [number * step for number in range(first, last + 1)]
    return []


def _ratios(low: float, high: float, count: int) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
        found = [value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        if len(found) <= count:
            return found if len(found) >= 2 else steps(low, high, count)
    return found[:: math.ceil(len(found) / count)]


def ticks_of(scale: ChartAxis, low: float, high: float, count: int, unit: str = "") -> list[Tick]:
    """Return the places of an axis that are labelled, and their labels: those that are wanted, or round ones."""
    if scale.ticks:
        return [(value, text) for value, text in scale.ticks if low <= value <= high]
    values = _ratios(low, high, count) if scale.is_log else steps(low, high, count)
    if scale.is_log:
        return [(value, with_unit(number_text(value, _digits(value)), unit)) for value in values]
    apart = [right - left for left, right in itertools.pairwise(values)]
    decimals = max((_digits(each) for each in apart), default=decimals_of(values))
    return [(value, with_unit(number_text(value, decimals), unit)) for value in values]


def _digits(value: float) -> int:
    return next((places for places in range(12) if abs(round(value, places) - value) <= 1e-6 * abs(value)), 12)


def scale_x(axes: Axes, scale: ChartAxis, ends: Range, unit: str = "") -> None:
    """Give the horizontal axis its ends, its title, and as many labels as there is room for."""
    left, across, right = _inches(axes, 0)

    def room(tick: Tick) -> Range:
        middle, half = across * share(tick[0], ends, scale.is_log), width_of(tick[1]) / 2 + 0.04
        return middle - half, middle + half

    def inside(tick: Tick) -> bool:
        return -left < room(tick)[0] and room(tick)[1] < across + right

    ticks = _fitting(lambda count: [tick for tick in ticks_of(scale, *ends, count, unit) if inside(tick)], 8, room)
    axes.set(xscale="log" if scale.is_log else "linear", xlim=ends)
    axes.set_xticks([value for value, _ in ticks], [text for _, text in ticks])
    axes.set_xticks([], minor=True)
    if scale.title:
        axes.set_xlabel(cut(scale.title, across + left), size=TEXT, color=INK, alpha=QUIET, labelpad=3)


def scale_y(axes: Axes, scale: ChartAxis, ends: Range) -> None:
    """Give the vertical axis its ends and labels; its title belongs above it, where it can be read."""
    _, up, _ = _inches(axes, 1)

    def room(tick: Tick) -> Range:
        middle, half = up * share(tick[0], ends, scale.is_log), LINE * TEXT / 144
        return middle - half, middle + half

    ticks = _fitting(lambda count: ticks_of(scale, *ends, count), 7, room)
    axes.set(yscale="log" if scale.is_log else "linear", ylim=ends)
    axes.set_yticks([value for value, _ in ticks], [text for _, text in ticks])
    axes.set_yticks([], minor=True)


def share(value: float, ends: tuple[float, float], is_log: bool) -> float:
    """Return where a value is on an axis: 0 at its lower end, 1 at its upper one; on ratios nothing is below 0."""
    if is_log:
        return math.log(max(value, ends[0]) / ends[0]) / math.log(ends[1] / ends[0])
    return (value - ends[0]) / (ends[1] - ends[0])


def _inches(axes: Axes, side: int) -> tuple[float, float, float]:
    """Return the room before the axes, their length, and the room behind them [in]."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    size = float(figure.get_size_inches()[side])
    place = axes.get_position()
    start, end = (place.x0, place.x1) if side == 0 else (place.y0, place.y1)
    return size * start, size * (end - start), size * (1 - end)


def _fitting(ticks_at_most: Callable[[int], list[Tick]], most: int, room: Callable[[Tick], Range]) -> list[Tick]:
    """Return as many labels as there is room for: round numbers further apart, or else every second, third, ... one."""
    tries = [ticks_at_most(count) for count in range(most, 1, -1)]
    for ticks in (*tries, *(tries[0][::stride] for stride in range(1, len(tries[0]) + 1))):
        if all(room(one)[1] <= room(other)[0] for one, other in itertools.pairwise(ticks)):
            return ticks
    return []


# ----------------------------------------
# Axes with two scales: room for their labels, and from data to inches and back.


class Plane(NamedTuple):
    """Axes of a known size."""

    # figure, axes: where it is drawn
    figure: Figure
    axes: Axes
    # across, up: size of the axes [in]
    across: float
    up: float
    # x, y, x_ends, y_ends: the scales and their ends
    x: ChartAxis
    y: ChartAxis
    x_ends: Range
    y_ends: Range

    def inches(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point is from the lower left corner of the axes [in]."""
        return self.across * share(x, self.x_ends, self.x.is_log), self.up * share(y, self.y_ends, self.y.is_log)

    @property
    def room(self) -> SheetBox:
        """The axes, from their lower left corner [in]."""
        return SheetBox(0.0, 0.0, self.across, self.up)

    def write(self, x: float, y: float, text: str, **look: object) -> None:
        """Write a text at a place from the lower left corner of the axes [in]."""
        place = {"transform": self.axes.transAxes, "size": TEXT, "color": INK, "va": "center_baseline", **look}
        self.axes.text(x / self.across, y / self.up, text, **place)  # type: ignore[arg-type]


def left_of(scale: ChartAxis, ends: Range) -> float:
    """Return the room that the labels of a vertical axis take at the left of it [in]."""
    return max(0.2 + max((width_of(text) for _, text in ticks_of(scale, *ends, 7)), default=0.0), 0.35)


def open_plane(
    title: str,
    scales: tuple[ChartAxis, ChartAxis],
    ends: tuple[Range, Range],
    *,
    height: float = 3.2,
    right: float = 0.2,
    above: float = 0.0,
    note: str = "",
    key: Sequence[LegendEntry] = (),
) -> Plane:
    """Return a figure with two scales; the title of the vertical one is above it, where it can be read.

    Scales and ends are horizontal and vertical; the axes are so high, with room for labels at the right and above [in].
    """
    (x, y), (x_ends, y_ends) = scales, ends
    left = left_of(y, y_ends)
    line = LINE * TEXT / 72
    margins = Margins(left, right, above + (line + 0.12 if y.title else 0.08), 0.48)
    figure, axes = open_sheet(title, height, margins, note, key)
    across = sized(WIDTH) - left - right
    axes.grid(axis="both", color=FAINT, linewidth=0.7)
    scale_x(axes, x, x_ends)
    scale_y(axes, y, y_ends)
    plane = Plane(figure, axes, across, height, x, y, x_ends, y_ends)
    if y.title:
        text = cut(y.title, sized(WIDTH) - 0.2)
        plane.write(0.1 - left, height + above + line / 2 + 0.1, text, alpha=QUIET)
    return plane

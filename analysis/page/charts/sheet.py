"""The sheet that a picture is drawn on: its title, what to know to read it, a key, and axes with measured margins."""

from __future__ import annotations

import bisect
import contextlib
import functools
import io
import itertools
import math
import warnings
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ettrick.analysis.amounts import decimals_of, number_text, with_unit
from ettrick.analysis.page.charts.data import ChartAxis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ettrick.analysis.page.charts.data import ChartAxis, Range

# ----------------------------------------
# Colours of all pictures, and formats of their files.

# Characters that no document may hold, whatever a name holds (XML 1.0, section 2.2).
CONTROLS = bytes(set(range(32)) - set(b"\t\n\r"))
SUFFIXES = (".svg", ".png", ".pdf")  # formats of pictures, by the end of the file's name

# Colours that the colour-blind distinguish, and that are three times as dark as white: the first three are of Okabe and
# Ito, the others lie as far from these and from each other as they can. Each has a mark of its own, for lines.
HUES = ("#0072B2", "#D55E00", "#009E73", "#BF7DA9", "#683500", "#23246E", "#A050F0", "#7A1040")
MARKERS = "os^vPXp*"
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


def lightness(color: str, opacity: float = 1.0) -> float:
    """Return how light a colour looks on white, from 0 for black to 100 (L* of CIE 1976)."""
    channels = [1.0 - opacity * (1.0 - int(color[place : place + 2], 16) / 255) for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels]
    luminance = float(np.dot((0.2126, 0.7152, 0.0722), linear))
    return 116.0 * float(np.cbrt(luminance)) - 16.0 if luminance > 216 / 24389 else 24389 / 27 * luminance


def on(shade: int) -> str:
    """Return the colour of type on one of the shades of `RAMP`."""
    return ON_DARK if shade >= _DARK_FROM else ON_LIGHT


# ----------------------------------------
# The one style of all pictures.

WIDTH, NARROW = 7.0, 4.6  # width of a picture, and of one for the screen of a phone [in]


def sized(inches: float) -> float:
    """Return a length of pictures of `WIDTH` in the width of this one [in]."""
    import matplotlib as mpl

    width: float = mpl.rcParams["figure.figsize"][0]
    return inches * width / WIDTH


def low(inches: float) -> float:
    """Return the height of axes with what is above and below them in a picture that may be lower [in]."""
    import matplotlib as mpl

    height: float = mpl.rcParams["figure.figsize"][1]
    return min(inches, height - _ABOVE)


_ABOVE = 1.35  # room for a note, a key, labels and titles of axes [in]


@contextlib.contextmanager
def style(width: float = WIDTH, height: float = 0.0) -> Iterator[None]:
    """Set the one style of all pictures: plain type on white, so wide and high [in]; same bytes from the same data."""
    import matplotlib as mpl

    settings: Any = {
        "figure.facecolor": "white",
        "figure.figsize": (width, height or width),
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


def render(figure: Figure, suffix: str, dpi: float | None = None) -> bytes:
    """Return a picture as the content of a file, with so many pixels in an inch: the same bytes each time."""
    without_dates: dict[str, dict[str, Any]] = {
        ".svg": {"Date": None, "Creator": "Ettrick"},
        ".png": {"Software": "Ettrick"},
        ".pdf": {"CreationDate": None, "Creator": "Ettrick"},
    }
    content = io.BytesIO()
    with style():
        figure.savefig(content, format=suffix.removeprefix("."), metadata=without_dates[suffix], dpi=dpi)
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


def block_width(text: str) -> float:
    """Return how wide a text of several lines is [in]."""
    return max(map(width_of, text.split("\n")))


def block_height(text: str, size: float = TEXT) -> float:
    """Return how high a text of several lines is [in]."""
    return LINE * size * (text.count("\n") + 1) / _INCH


def cut(text: str, room: float, size: float = TEXT, is_bold: bool = False) -> str:
    """Return a line that is not wider than the room [in]; an ellipsis stands for what does not fit.

    It is taken out before the last third: names that begin alike often differ at their ends.
    """
    if width_of(text, size, is_bold) <= room:
        return text
    lengths = range(1, len(text))
    count = bisect.bisect_right(lengths, room, key=lambda length: width_of(_shortened(text, length), size, is_bold))
    return _shortened(text, count)


def _shortened(text: str, length: int) -> str:
    tail = length // 3
    return f"{text[: length - tail].rstrip()}…{text[len(text) - tail :].lstrip()}"


def wrapped(text: str, room: float, size: float = TEXT, lines: int = 2, is_bold: bool = False) -> str:
    """Return a text in at most so many lines, none wider than the room [in]; what does not fit is cut.

    White space of the text itself is one space each. A word that is wider than a line is broken.
    """
    if width_of(" ".join(text.split()), size, is_bold) <= room:
        return " ".join(text.split())
    words = [part for word in text.split() for part in _parts(word, room, size, is_bold)]
    rows: list[str] = []
    while words and len(rows) < lines - 1:
        ends = range(2, len(words) + 1)  # a word alone fits
        count = 1 + bisect.bisect_right(ends, room, key=lambda end: width_of(" ".join(words[:end]), size, is_bold))
        rows.append(" ".join(words[:count]))
        words = words[count:]
    return "\n".join([*rows, cut(" ".join(words), room, size, is_bold)] if words else rows)


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
_SWATCH, _BETWEEN = 0.34, 0.2  # room of a mark of a key, and between its entries [in]


class LegendEntry(NamedTuple):
    """An entry of a key: what it says, its colour, its opacity, its mark (bar, line, dot, ring, dashes), and on it."""

    text: str
    color: str
    alpha: float = 1.0
    mark: Any = "bar"
    marker: str = ""


_LINES: Any = {"linewidth": 1.8}
_DOTS: Any = {"linestyle": "", "marker": "o", "markersize": 5.5}
_MARKS: dict[Any, Any] = {
    "bar": {"linewidth": 7.2, "solid_capstyle": "butt"},
    "line": _LINES,
    "dot": _DOTS,
    "ring": _DOTS | {"markerfacecolor": "white"},
}

Margins = tuple[float, float, float, float]  # room at the left, right, top and bottom of the axes [in]


def open_sheet(
    title: str, body: float, margins: Margins, note: str = "", key: Sequence[LegendEntry] = (), width: float = 0.0
) -> tuple[Figure, Axes]:
    """Return a figure with a title at the left above, and axes below it.

    The title takes four lines at most; the note and the key are below it. The axes are so high, and the figure so wide
    if it needs more than others [in].
    """
    from matplotlib.figure import Figure

    width = max(width, sized(WIDTH))
    room, (left, right, top, bottom) = width - 2 * _EDGE, margins
    title, note = wrapped(title, room, TITLE, 4, is_bold=True), wrapped(note, room, TEXT, 3)
    rows = _rows_of(key, room)
    heights = [block_height(title, TITLE) if title else 0.0, block_height(note) if note else 0.0]
    line = LINE * TEXT / _INCH + 0.03
    head = _EDGE + sum(heights) + (0.05 if title and (note or rows) else 0.0) + line * len(rows) + 0.06
    height = head + top + body + bottom
    figure = Figure(figsize=(width, height))
    look: dict[str, Any] = {"transform": figure.dpi_scale_trans, "va": "top", "linespacing": LINE * 0.86}
    if title:
        figure.text(_EDGE, height - _EDGE, title, size=TITLE, weight="bold", color=INK, **look)
    below = height - _EDGE - heights[0] - 0.03
    if note:
        figure.text(_EDGE, below, note, size=TEXT, color=INK, alpha=QUIET, **look)
    for index, row in enumerate(rows):
        _draw_key(figure, row, below - heights[1] - line * (index + 0.5))
    axes = figure.add_axes((left / width, bottom / height, (width - left - right) / width, body / height))
    axes.tick_params(colors=INK, length=0, labelsize=TEXT)
    axes.tick_params(axis="x", pad=7)
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=FAINT, linewidth=0.7)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
    return figure, axes


def _rows_of(key: Sequence[LegendEntry], room: float) -> list[list[LegendEntry]]:
    """Return the lines of a key."""
    rows: list[list[LegendEntry]] = []
    free = 0.0
    for entry in key:
        text = cut(entry.text, room - _SWATCH)
        across = _SWATCH + width_of(text)
        if across > free or not rows:
            rows.append([])
            free = room
        rows[-1].append(entry._replace(text=text))
        free -= across + _BETWEEN
    return rows


def _draw_key(figure: Figure, row: Sequence[LegendEntry], height: float) -> None:
    """Draw a line of a key around a height [in]."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=entry.color, alpha=entry.alpha, label=entry.text,
               **(_MARKS.get(entry.mark, _LINES | {"linestyle": entry.mark})
                  | ({"marker": entry.marker, "markersize": 4.5} if entry.marker else {})))
        for entry in row
    ]  # fmt: skip
    figure.legend(
        handles=handles, ncols=len(row), loc="center left", bbox_to_anchor=(_EDGE, height), frameon=False,
        bbox_transform=figure.dpi_scale_trans, fontsize=TEXT, labelcolor=INK, borderpad=0, borderaxespad=0,
        handlelength=0.28 * _INCH / TEXT, handletextpad=0.06 * _INCH / TEXT, columnspacing=_BETWEEN * _INCH / TEXT,
    )  # fmt: skip


def open_message(title: str, text: str) -> Figure:
    """Return a figure that has nothing to draw, and says why."""
    figure, axes = open_sheet(title, 0.1, (0.2, 0.2, 0.05, 0.1), text)
    axes.set_axis_off()
    return figure


def named_rows(names: Sequence[str], room: float) -> tuple[list[str], float, float]:
    """Return names in lines of so much room, how wide the widest is, and how high each row has to be [in]."""
    lines = [wrapped(name, room) for name in names]
    across = max(map(block_width, lines), default=0.0)
    return lines, across, max(map(block_height, lines), default=0.2) + 0.1


# ----------------------------------------
# Where labels go next to points so that none covers another.

_DOT = 0.05  # half the size of a point, which labels stay away from [in]

# Directions in which a label may be, the best first [deg].
_ANGLES = (0, 180, 45, -45, 135, -135, 90, -90, 22, -22, 158, -158, 68, -68, 112, -112)

SheetBox = tuple[float, float, float, float]  # left, bottom, right and top of a rectangle [in]


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
    dots = [(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in points]
    occupied = np.array([*filled, *dots], dtype=float).reshape(-1, 4)
    boxes: list[SheetBox | None] = []
    away = (_DOT + 0.04 + 0.16 * np.arange(9.0))[:, None, None]
    directions = np.radians(_ANGLES)[:, None]
    for point, size in zip(points, sizes, strict=True):
        half = np.array(size) / 2
        middles = point + np.hstack([np.cos(directions), np.sin(directions)]) * (away + half)
        tries = np.concatenate([middles - half, middles + half], axis=2).reshape(-1, 4)
        inside = (tries[:, :2] >= room[:2]).all(axis=1) & (tries[:, 2:] <= room[2:]).all(axis=1)
        tries = tries[inside]
        below, above = tries[:, None, :2] < occupied[:, 2:], tries[:, None, 2:] > occupied[:, :2]
        free = tries[~np.any(np.all(below & above, axis=2), axis=1)]
        boxes.append(tuple(free[0].tolist()) if len(free) else None)
        occupied = np.concatenate([occupied, free[:1]])
    return boxes


# ----------------------------------------
# Axes: where they are labelled and how, on equal distances or equal ratios.

Tick = tuple[float, str]


def numbers_in(*groups: Iterable[float | Range | None]) -> list[float]:
    """Return all numbers, and both ends of all intervals."""
    present = (item for group in groups for item in group if item is not None)
    return [number for item in present for number in (item if isinstance(item, tuple) else (item,))]


def extent(values: Iterable[float | None], is_log: bool = False, pad: float = 0.05) -> tuple[float, float]:
    """Return the ends of an axis for values, with some room at either side; something where there are none.

    Values that are not finite, and on an axis of ratios those that are not positive, do not count.
    """
    shown = [value for value in values if value is not None and math.isfinite(value) and (value > 0 or not is_log)]
    if not shown:
        return (1.0, 10.0) if is_log else (0.0, 1.0)
    low, high = min(shown), max(shown)
    if is_log:
        factor = max((high / low) ** pad, 1.1)
        return low / factor, high * factor
    room = (high - low) * pad
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        room = 0.1 * abs(high) or 1.0
    return low - room, high + room


def ticks_of(scale: ChartAxis, low: float, high: float, count: int, unit: str = "") -> list[Tick]:
    """Return the places of an axis that are labelled, and their labels: those that are wanted, or round ones."""
    if scale.ticks:
        return [(value, text) for value, text in scale.ticks if low <= value <= high]
    values = _ratios(low, high, count) if scale.is_log else []
    is_even = len(values) < 2
    if is_even:
        values = _steps(low, high, count)
    apart = [right - left for left, right in itertools.pairwise(values)]
    decimals = max(map(_digits, apart), default=decimals_of(values))
    texts = [number_text(value, decimals if is_even else _digits(value)) for value in values]
    return [(value, with_unit(text, unit)) for value, text in zip(values, texts, strict=True)]


def _ratios(low: float, high: float, count: int) -> list[float]:
    powers = 10.0 ** np.arange(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        values = np.outer(powers, factors).ravel()
        values = values[(values >= low * (1 - 1e-9)) & (values <= high * (1 + 1e-9))]
        if len(values) <= count:
            break
    chosen: list[float] = values[:: max(math.ceil(len(values) / count), 1)].tolist()
    return chosen


def _steps(low: float, high: float, count: int) -> list[float]:
    from matplotlib.ticker import MaxNLocator

    slack, locator = 1e-9 * (high - low), MaxNLocator(count, steps=[1, 2, 2.5, 5, 10])
    return [float(value) for value in locator.tick_values(low, high) if low - slack <= value <= high + slack]


def _digits(value: float) -> int:
    return next((places for places in range(12) if abs(round(value, places) - value) <= 1e-6 * abs(value)), 12)


_UP = 0.4  # height that a label of a vertical axis takes, so that these stay few [in]


def set_scale(axes: Axes, side: Literal["x", "y"], scale: ChartAxis, ends: Range, unit: str = "") -> None:
    """Give an axis its ends and as many labels as there is room for; the horizontal one its title too.

    The title of the vertical one belongs above it, where it can be read.
    """
    figure, place, index = axes.get_figure(root=True), axes.get_position(), "xy".index(side)
    assert figure is not None
    size = float(figure.get_size_inches()[index])
    start, length = size * place.p0[index], size * place.size[index]

    def room(tick: Tick) -> Range:
        half = width_of(tick[1]) / 2 + 0.04 if side == "x" else _UP / 2
        middle = start + length * share(tick[0], ends, scale.is_log)
        return middle - half, middle + half

    def ticks_at_most(count: int) -> list[Tick]:
        ticks = ticks_of(scale, *ends, count, unit)
        return [tick for tick in ticks if side == "y" or (room(tick)[0] > 0 and room(tick)[1] < size)]

    most = 7 if side == "x" else 6
    ticks = _apart(ticks_at_most(most), room) if scale.ticks else _fitting(ticks_at_most, most, room)
    axes.set(**{f"{side}scale": "log" if scale.is_log else "linear", f"{side}lim": ends})
    axis = axes.xaxis if side == "x" else axes.yaxis
    axis.set_ticks([value for value, _ in ticks], [text for _, text in ticks])
    axis.set_ticks([], minor=True)
    if side == "x" and scale.title:
        axes.set_xlabel(cut(scale.title, length + start), size=TEXT, color=INK, alpha=QUIET, labelpad=3)


def share(value: float, ends: tuple[float, float], is_log: bool) -> float:
    """Return where a value is on an axis: 0 at its lower end, 1 at its upper one; on ratios nothing is below 0."""
    if is_log:
        return math.log(max(value, ends[0]) / ends[0]) / math.log(ends[1] / ends[0])
    return (value - ends[0]) / (ends[1] - ends[0])


def _apart(ticks: Sequence[Tick], room: Callable[[Tick], Range]) -> list[Tick]:
    """Return the labels that have room, from the ends inwards: the last one always has."""
    chosen = list(ticks[-1:])
    for tick in ticks[:-1]:
        low, high = room(tick)
        if all(high <= room(neighbour)[0] or room(neighbour)[1] <= low for neighbour in chosen):
            chosen.append(tick)
    return sorted(chosen)


def _fitting(ticks_at_most: Callable[[int], list[Tick]], most: int, room: Callable[[Tick], Range]) -> list[Tick]:
    """Return as many labels as there is room for: round numbers, further apart if they have to be."""
    for count in range(most, 1, -1):
        ticks = ticks_at_most(count)
        if all(room(left)[1] <= room(right)[0] for left, right in itertools.pairwise(ticks)):
            return ticks
    return _apart(ticks_at_most(most), room)

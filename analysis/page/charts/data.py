"""The pictures of reports as plain data: no matplotlib in here.

Numbers are in the units that the reader sees, and ``unit`` says which: ``%``, ``GPU-hours``, ``days``. ``None`` stands
for what the data do not support. A title is an assertion, not the name of an axis.

Each kind of picture says what it is as a table (`table`), for formats that hold no pictures and for who cannot see
them.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

Range = tuple[float, float]  # ends of an interval


class CellValue(NamedTuple):
    """A number in a table with its interval next to it, and words behind it; a change always has its sign."""

    amount: float
    ci95: Range | None = None
    words: str = ""
    is_change: bool = False


# What an interval is, unless a picture says otherwise.
MEAN95, UNKNOWN90 = "95 % interval of the mean", "90 % band: unknown inputs"
GAP95 = "95 % interval of the difference"

# A cell of a table: words, a number, an interval; ``None`` for a number that is not known.
Cell = str | float | CellValue | Range | None


class ChartTable(NamedTuple):
    """A picture as a table."""

    heads: Sequence[str | float]  # of the columns, the first of which names the rows; numbers are places
    rows: Sequence[Sequence[Cell]]  # the cells. A column of nothing but empty words is left out.
    note: str = ""  # what to know next to it
    # Of each cell how dark it is, 0 to 1, or ``None``; empty without shades.
    shades: Sequence[Sequence[float | None]] = ()
    has_one_unit: bool = True  # whether all columns but the first are in one unit, and have the same digits


class ChartAxis(NamedTuple):
    """An axis of a picture."""

    title: str  # what it is, with its unit
    is_log: bool = False  # whether equal ratios are equal distances
    # Places that are labelled, and their labels; empty for the picture's own choice.
    ticks: tuple[tuple[float, str], ...] = ()

    @property
    def unit(self) -> str:
        """The unit that each label repeats: that of shares, which end at 100 %."""
        return "%" if "%" in self.title and not self.ticks else ""


# Labels of an axis of hours on which equal ratios are equal distances, each in the unit that people use at its length.
LABELS_OF_HOURS = (
    (1 / 60, "1 min"), (1 / 20, "3 min"), (1 / 6, "10 min"), (0.5, "30 min"), (1.0, "1 h"), (3.0, "3 h"),
    (10.0, "10 h"), (24.0, "1 d"), (96.0, "4 d"), (240.0, "10 d"), (960.0, "40 d"), (2400.0, "100 d"),
    (9600.0, "400 d"),
)  # fmt: skip

_MOST_PLACES = 40  # rows of a table of curves at most


def _some(count: int, most: int) -> list[int]:
    """Return an even choice of so many places, with both ends."""
    return sorted({*range(0, count, -(-count // most)), count - 1}) if count else []


class Series(NamedTuple):
    """A curve: its places and heights, the 95 % interval and the wider band of each."""

    name: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    ci95: tuple[Range | None, ...] = ()
    band90: tuple[Range | None, ...] = ()
    look: str = "line"  # ``line``; ``dashed`` for theory; ``step`` for counts and distribution functions
    hue: int = 0  # number of its colour; -1 for grey
    span: str = MEAN95  # what its interval is


class Dot(NamedTuple):
    """A measured value laid over curves: its name, place, height, and who measured it."""

    name: str
    x: float
    y: float
    source: str = ""


class Curves(NamedTuple):
    """Curves over a common axis."""

    title: str
    x: ChartAxis
    y: ChartAxis
    series: tuple[Series, ...]
    levels: tuple[tuple[float, str], ...] = ()  # heights to hold the curves against, with names
    edges: tuple[tuple[float, str], ...] = ()  # places to hold them against, with names, such as a deadline
    dots: tuple[Dot, ...] = ()  # measured values
    # From where on the axis on all is extrapolated, and a word for it; ``None`` for nowhere.
    shaded_from: tuple[float, str] | None = None

    def table(self) -> ChartTable:
        """Return a row for each place; of many places an even choice."""
        places = sorted({x for series in self.series for x in series.x})
        heights = [
            {x: (y, span) for x, y, span in itertools.zip_longest(line.x, line.y, line.ci95)} for line in self.series
        ]  # fmt: skip

        def cell(x: float, of: dict[float, Any]) -> Cell:
            y, span = of.get(x, ("", None))
            return CellValue(y, span) if span is not None and y is not None else y

        names = dict(self.x.ticks)
        rows = [[names.get(x, x), *(cell(x, of) for of in heights)]
                for x in (places[at] for at in _some(len(places), _MOST_PLACES))]  # fmt: skip
        left_out = f" {len(rows)} of {len(places):,} places are shown." if len(places) > len(rows) else ""
        heads = [self.x.title, *(series.name or self.y.title for series in self.series)]
        return ChartTable(heads, rows, f"{self.y.title}.{left_out}")


# Whether another candidate beats one in both aims, in words.
STANDINGS = {"front": "not beaten", "perhaps": "perhaps not beaten", "behind": "beaten"}


class FrontPoint(NamedTuple):
    """A candidate: where it is in both aims, how sure that is, and its standing, one of `STANDINGS`."""

    name: str
    x: float
    y: float
    x_ci95: Range | None
    y_ci95: Range | None
    ranking: str


class FrontChart(NamedTuple):
    """Two aims against each other, and which candidates are not beaten in both; arrows say where better is."""

    title: str
    x: ChartAxis
    y: ChartAxis
    points: tuple[FrontPoint, ...]
    lowest_x_is_best: bool
    lowest_y_is_best: bool

    def table(self) -> ChartTable:
        """Return the candidates, those on the front first."""
        order = sorted(self.points, key=lambda point: point.ranking != "front")
        rows = [(point.name, point.x, point.y, STANDINGS[point.ranking]) for point in order]
        return ChartTable(["", self.x.title, self.y.title, "in both together"], rows, has_one_unit=False)


class HeatMap(NamedTuple):
    """A table whose cells are shaded by their values."""

    title: str
    unit: str
    # rows, columns: labels
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Sequence[Sequence[float | None]]  # one row of values for each label of `rows`; they shade
    texts: Sequence[Sequence[str]]  # what is written in the cells, of the same shape
    # row_title, column_title: what the labels are; may be empty
    row_title: str = ""
    column_title: str = ""
    high_is_good: bool = True  # whether large values have the calm colour; for losses they have not

    def ends(self) -> Range | None:
        """Return the best and the worst value; ``None`` without values."""
        finite = [value for row in self.values for value in row if value is not None and math.isfinite(value)]
        if not finite:
            return None
        return (max(finite), min(finite)) if self.high_is_good else (min(finite), max(finite))

    def shades(self) -> list[list[float | None]]:
        """Return how dark each cell is: the best value is 0, the worst one 1; ``None`` without a value."""
        best, worst = self.ends() or (0.0, 0.0)
        return [
            [
                None if value is None or not math.isfinite(value)
                else abs(value - best) / abs(worst - best) if worst != best else 0.0
                for value in row
            ]
            for row in self.values
        ]  # fmt: skip

    def table(self) -> ChartTable:
        """Return the texts with their shades; those of equal values have none."""
        corner = " / ".join(title for title in (self.row_title, self.column_title) if title)
        rows = [[name, *texts] for name, texts in zip(self.rows, self.texts, strict=True)]
        best, worst = self.ends() or (0.0, 0.0)
        shades = [[None, *(row if worst != best else [None] * len(row))] for row in self.shades()]
        return ChartTable([corner, *self.columns], rows, f"in {self.unit}" if self.unit else "", shades)


class Interval(NamedTuple):
    """A row of a comparison: mean, the interval that decides, one that is read second, and a word next to it."""

    name: str
    mean: float | None
    ci95: Range | None = None
    pale: Range | None = None
    note: str = ""


class Intervals(NamedTuple):
    """Means with their intervals below each other."""

    title: str
    unit: str
    rows: tuple[Interval, ...]
    # A value to hold them against, such as 0 or a target, and its name; ``None`` for none.
    reference: tuple[float, str] | None = None
    # span, pale: what the interval and the pale band of a row are
    span: str = MEAN95
    pale: str = UNKNOWN90

    def table(self) -> ChartTable:
        """Return a row for each mean, and one for the reference."""
        heads = ["", f"mean, {self.unit}" if self.unit else "mean"]
        heads += [self.span, self.pale, "note"]
        rows: list[Sequence[Cell]] = [(name, mean, ci95 or "", pale or "", note)
                                      for name, mean, ci95, pale, note in self.rows]  # fmt: skip
        rows += [(self.reference[1], self.reference[0], "", "", "")] if self.reference is not None else []
        return ChartTable(heads, rows)


class StackPart(NamedTuple):
    """A part of a whole: its name and size; parts of one hue belong together (-1: grey)."""

    name: str
    amount: float
    hue: int


class Stack(NamedTuple):
    """A bar of parts: a step, or the sources of the variance."""

    title: str
    unit: str
    parts: tuple[StackPart, ...]

    def table(self) -> ChartTable:
        """Return a row for each part."""
        return ChartTable(["", self.unit], [(part.name, part.amount) for part in self.parts])


class Bar(NamedTuple):
    """A row of bars: its name, and for each series the value and its 95 % interval."""

    name: str
    values: tuple[float | None, ...]
    ci95: tuple[Range | None, ...] = ()

    def span(self, number: int) -> Range | None:
        """Return the interval of a series."""
        return self.ci95[number] if number < len(self.ci95) else None


class Bars(NamedTuple):
    """Horizontal bars, one or several side by side in each row."""

    title: str
    unit: str
    series: tuple[str, ...]
    rows: tuple[Bar, ...]
    span: str = MEAN95  # what an interval is

    def table(self) -> ChartTable:
        """Return a row for each row, with the interval next to each value."""
        heads = [""]
        rows: list[list[Cell]] = [[row.name] for row in self.rows]
        for number, name in enumerate(self.series):
            heads += [f"{name} [{self.unit}]" if self.unit else name, self.span]
            for cells, row in zip(rows, self.rows, strict=True):
                cells += [row.values[number], row.span(number) or ""]
        return ChartTable(heads, rows)


class TornadoBar(NamedTuple):
    """A row of a tornado: an input, and what each of its ends changes (label, change, 95 % interval)."""

    name: str
    low: tuple[str, float, Range | None]
    high: tuple[str, float, Range | None]


class TornadoChart(NamedTuple):
    """The effect of each input alone, the largest first; changes are from `center`, which is named too."""

    title: str
    unit: str
    center: tuple[str, float]
    swings: tuple[TornadoBar, ...]

    def table(self) -> ChartTable:
        """Return what either end of each input changes."""
        heads = ["input", f"low end [{self.unit}]", f"high end [{self.unit}]"]
        rows: list[list[Cell]] = [
            [swing.name, *(CellValue(end[1], None, f" at {end[0]}", True) for end in (swing.low, swing.high))]
            for swing in self.swings
        ]
        return ChartTable(heads, rows)

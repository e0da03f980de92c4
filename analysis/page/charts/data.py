"""What the pictures of reports show, as plain data: no matplotlib in here.

Numbers are in the units that the reader sees, and ``unit`` says which: ``%``, ``GPU-hours``, ``days``. ``None`` stands
for what the data do not support. A title is an assertion, not the name of an axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

# ----------------------------------------
# What pictures over two axes show, as plain data: curves, lines of equal height, and candidates by two aims.

Range = tuple[float, float]

"""Ends of an interval."""


class Scale(NamedTuple):
    """An axis of a picture.

    Parameters
    ----------
    title
        What it is, with its unit.
    is_log
        Whether equal ratios are equal distances.
    ticks
        Places that are labelled, and their labels; empty for the picture's own choice.
    """

    title: str
    is_log: bool = False
    ticks: tuple[tuple[float, str], ...] = ()


class Series(NamedTuple):
    """A curve: its places and heights, the 95 % interval and the wider band of each.

    Parameters
    ----------
    look
        ``line``; ``dashed`` for theory; ``step`` for counts and distribution functions.
    hue
        Number of its colour; -1 for grey.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    ci95: tuple[Range | None, ...] = ()
    band90: tuple[Range | None, ...] = ()
    look: str = "line"
    hue: int = 0


class Dot(NamedTuple):
    """A measured value laid over curves: its name, place, height, and who measured it."""

    name: str
    x: float
    y: float
    source: str = ""


class Curves(NamedTuple):
    """Curves over a common axis.

    Parameters
    ----------
    levels
        Heights to hold the curves against, with names.
    edges
        Places to hold them against, with names, such as a deadline.
    dots
        Measured values.
    shaded_from
        From where on the axis on all is extrapolated, and a word for it; ``None`` for nowhere.
    """

    title: str
    x: Scale
    y: Scale
    series: tuple[Series, ...]
    levels: tuple[tuple[float, str], ...] = ()
    edges: tuple[tuple[float, str], ...] = ()
    dots: tuple[Dot, ...] = ()
    shaded_from: tuple[float, str] | None = None


class Contours(NamedTuple):
    """Heights over a plane, with lines of equal height.

    Parameters
    ----------
    x_values, y_values
        Places of the columns and rows of `values`, ascending.
    values
        Heights, (len(y_values), len(x_values)).
    levels
        Heights of the lines.
    here
        Name and place of where the cluster is now; ``None`` if it is outside.
    """

    title: str
    unit: str
    x: Scale
    y: Scale
    x_values: tuple[float, ...]
    y_values: tuple[float, ...]
    values: Sequence[Sequence[float]]
    levels: tuple[float, ...]
    here: tuple[str, float, float] | None = None


class FrontPoint(NamedTuple):
    """A candidate: where it is in both aims, how sure that is, and whether no other beats it in both.

    ``standing`` is ``front``, ``perhaps`` or ``behind``.
    """

    name: str
    x: float
    y: float
    x_ci95: Range | None
    y_ci95: Range | None
    standing: str


class Front(NamedTuple):
    """Two aims against each other, and which candidates are not beaten in both; arrows say where better is."""

    title: str
    x: Scale
    y: Scale
    points: tuple[FrontPoint, ...]
    lowest_x_is_best: bool
    lowest_y_is_best: bool


class Change(NamedTuple):
    """One step of a waterfall: what it is called, its signed size, and its 95 % interval."""

    name: str
    amount: float
    ci95: Range | None = None


class Waterfall(NamedTuple):
    """From one total to another, step by step: where the time goes, or a bridge from A to B.

    Parameters
    ----------
    start, end
        Name and height of the first and last bar; the changes lead exactly from one to the other.
    """

    title: str
    unit: str
    start: tuple[str, float]
    changes: tuple[Change, ...]
    end: tuple[str, float]


class HeatMap(NamedTuple):
    """A table whose cells are shaded by their values.

    Parameters
    ----------
    rows, columns
        Labels.
    values
        One row of values for each label of `rows`; they shade.
    texts
        What is written in the cells, of the same shape.
    row_title, column_title
        What the labels are; may be empty.
    high_is_good
        Whether large values have the calm colour; for losses they have not.
    """

    title: str
    unit: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Sequence[Sequence[float | None]]
    texts: Sequence[Sequence[str]]
    row_title: str = ""
    column_title: str = ""
    high_is_good: bool = True


class Interval(NamedTuple):
    """A row of a comparison: mean, Monte Carlo error, what is not known, and a word beside it."""

    name: str
    mean: float | None
    ci95: Range | None = None
    band90: Range | None = None
    note: str = ""


class Intervals(NamedTuple):
    """Means with their intervals below each other.

    Parameters
    ----------
    reference
        A value to hold them against, such as 0 or a target, and its name; ``None`` for none.
    """

    title: str
    unit: str
    rows: tuple[Interval, ...]
    reference: tuple[float, str] | None = None


class Part(NamedTuple):
    """A part of a whole: its name and size; parts of one hue belong together (-1: grey)."""

    name: str
    amount: float
    hue: int


class Stack(NamedTuple):
    """One bar that is made of parts: a step, or what the variance comes from."""

    title: str
    unit: str
    parts: tuple[Part, ...]


class Bar(NamedTuple):
    """A row of bars: its name, and for each series the value and its 95 % interval."""

    name: str
    values: tuple[float | None, ...]
    ci95: tuple[Range | None, ...] = ()


class Bars(NamedTuple):
    """Horizontal bars, one or several side by side in each row."""

    title: str
    unit: str
    series: tuple[str, ...]
    rows: tuple[Bar, ...]


class Swing(NamedTuple):
    """A row of a tornado: an input, and what each of its ends changes (label, change, 95 % interval)."""

    name: str
    low: tuple[str, float, Range | None]
    high: tuple[str, float, Range | None]


class Tornado(NamedTuple):
    """What each input alone does, the largest first; changes are from `center`, which is named too."""

    title: str
    unit: str
    center: tuple[str, float]
    swings: tuple[Swing, ...]


class Phase(NamedTuple):
    """What a job did on a calendar: from when to when [days], the bucket, and the cause (empty: none)."""

    start: float
    end: float
    bucket: str
    cause: str = ""


class Calendar(NamedTuple):
    """One replication as a calendar: rows of so many days, each coloured by what the job did.

    Parameters
    ----------
    row_days
        Days of a row.
    days
        Days in all.
    """

    title: str
    row_days: float
    days: float
    phases: tuple[Phase, ...]

"""What pictures over two axes show, as plain data: curves, lines of equal height, and candidates by two aims."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Contours", "Curves", "Dot", "Front", "FrontPoint", "Range", "Scale", "Series"]

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

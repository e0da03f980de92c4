"""The results of a study by point, as questions read them."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.study.axis import Axis
    from analysis.study.value import Point, Value
    from sim import Ratio

__all__ = ["Cell", "Outcome", "Table"]


@dataclass(frozen=True)
class Outcome:
    """What came of one point.

    Parameters
    ----------
    point
        The point.
    metrics
        For each metric that was kept, one ratio per replication; those of replication i are at i.
    luck
        How lucky each replication was, by `analysis.controls`; empty where that is not known.
    formula
        ETTR by the closed form [-]; ``None`` where there is none, or it does not apply.
    censored, never_started
        Replications in which a job was not finished at the horizon, or never got its nodes.
    precise
        Whether a precision that was asked for was reached; ``None`` if none was.
    status
        ``ok``, or as that of a record of which there is nothing: ``infeasible``, ``failed`` or ``crashed``.
    trouble
        Why there is nothing, in a line: the point cannot run, or its process crashed; empty where all is well.
    warnings
        What its scenario warns of.
    no_formula
        Why the closed form does not apply, a line each.
    """

    point: Point
    metrics: Mapping[str, Sequence[Ratio]] = field(default_factory=dict)
    luck: Sequence[tuple[float, ...]] = ()
    formula: float | None = None
    censored: int = 0
    never_started: int = 0
    precise: bool | None = None
    status: str = "ok"
    trouble: str = ""
    warnings: tuple[str, ...] = ()
    no_formula: tuple[str, ...] = ()

    @property
    def replications(self) -> int:
        """How many replications there are."""
        return max((len(ratios) for ratios in self.metrics.values()), default=0)


@dataclass(frozen=True)
class Cell:
    """One combination of what is chosen: its outcome at the central values of what is unknown, and at each draw."""

    stated: Outcome
    drawn: tuple[Outcome, ...] = ()

    @property
    def values(self) -> tuple[Value, ...]:
        """One value for each axis; those of unknown ones are the central ones."""
        return self.stated.point.values

    @property
    def trouble(self) -> str:
        """Why there is nothing; empty where all is well."""
        return self.stated.trouble


@dataclass(frozen=True)
class Table:
    """All cells of a study, in order.

    Parameters
    ----------
    axes
        What varies, by name, in the order of the values of a cell.
    cells
        The combinations.
    metrics
        Those that were kept, the headline first.
    seed
        Of all points, for numbers that answers draw themselves.
    currency
        Of what things cost; empty without prices.
    """

    axes: Mapping[str, Axis]
    cells: tuple[Cell, ...]
    metrics: tuple[str, ...]
    seed: int = 1
    currency: str = ""

    @functools.cached_property
    def running(self) -> tuple[Cell, ...]:
        """The cells that have results."""
        return tuple(cell for cell in self.cells if not cell.trouble)

    def position(self, axis: str) -> int:
        """Return where the value of an axis stands among those of a cell."""
        return list(self.axes).index(axis)

    def title(self, axis: str) -> str:
        """Return what an axis is called in sentences."""
        return self.axes[axis].title or axis

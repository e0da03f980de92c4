"""When the runs of a study were finished, and the share of them that was by each date."""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING, NamedTuple

from analysis.plots.charts import Series
from sim import units

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.report.sections.axes import Axis

__all__ = ["DAY", "METRIC", "Sample", "chance_curve", "column_of", "samples_along"]

METRIC = "time_to_work"
DAY = units.DURATION.units["d"]


class Sample(NamedTuple):
    """When runs were finished.

    Parameters
    ----------
    name
        What the curve is called.
    times
        Time from arrival to the end of the work, of those that were finished [s], ascending.
    runs
        How many there were, unfinished ones too.
    """

    name: str
    times: tuple[float, ...]
    runs: int

    def chance(self, time: float) -> float:
        """Return the share of runs that were finished by a time [s]."""
        return bisect.bisect_right(self.times, time) / self.runs

    def by(self, share: float) -> float | None:
        """Return the first time by which a share of the runs was finished [s]; ``None`` if it was after the horizon."""
        needed = max(math.ceil(share * self.runs - 1e-9), 1)
        return self.times[needed - 1] if needed <= len(self.times) else None


def chance_curve(sample: Sample, begin: float, end: float, hue: int) -> Series:
    """Return the empirical distribution of the end of the work: at each time the share of runs finished by it.

    Runs that were unfinished at the horizon count as not finished, so that the curve never reaches 100 % with them.

    Parameters
    ----------
    sample
        When runs were finished.
    begin, end
        Where the curve begins and ends [s].
    hue
        Number of its colour.
    """
    times = list(dict.fromkeys(sample.times))
    places = [
        *([begin] if not times or times[0] > begin else []),
        *times,
        *([end] if not times or times[-1] < end else []),
    ]
    heights = tuple(100 * sample.chance(place) for place in places)
    return Series(sample.name, tuple(place / DAY for place in places), heights, look="step", hue=hue)


def samples_along(
    rows: Sequence[Mapping[str, str]], axis: Axis | None, fixed: Mapping[str, str], *, drawn: bool
) -> list[Sample]:
    """Return when runs of a study were finished, one sample for each value of an axis.

    Parameters
    ----------
    rows
        Rows of ``results.csv``: an empty time is one of a run that was not finished.
    axis
        Along which; ``None`` for one sample of all.
    fixed
        Values of the other axes, by column.
    drawn
        Whether it is the draws of unknown inputs, and not their central values.
    """
    found: dict[str, list[str]] = {}
    for row in rows:
        if (row["draw"] != "0") == drawn and all(row[name] == label for name, label in fixed.items()):
            label = "all runs" if axis is None else row[column_of(row, axis.name)]
            found.setdefault(label, []).append(row[METRIC])
    return [
        Sample(
            label if axis is None else axis.told(label),
            tuple(sorted(float(time) for time in times if time)),
            len(times),
        )
        for label, times in found.items()
    ]


def column_of(row: Mapping[str, str], axis: str) -> str:
    """Return the column with the labels of an axis."""
    return f"vary.{axis}" if f"vary.{axis}" in row else axis

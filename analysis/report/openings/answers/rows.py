"""Means over the runs of a study, from its table of results."""

from __future__ import annotations

import functools
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.report.openings.traced import Traced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Rows"]

_FILE = "results.csv"


@dataclass(frozen=True)
class Rows:
    """The rows of ``results.csv``, by cell.

    Parameters
    ----------
    rows
        The rows: one for each replication of each point.
    """

    rows: Sequence[Mapping[str, str]] = ()

    @functools.cached_property
    def _places(self) -> dict[tuple[int, bool], list[int]]:
        """Positions of the rows of each cell, at the central values of unknown inputs and at drawn ones."""
        found: dict[tuple[int, bool], list[int]] = {}
        for place, row in enumerate(self.rows):
            found.setdefault((int(row["cell"]), row["draw"] != "0"), []).append(place)
        return found

    def mean(self, cell: int | None, column: str, *, drawn: bool = False) -> Traced | None:
        """Return the mean of a column over the runs of a cell; ``None`` where a run has no value, or there is none."""
        places = [] if cell is None else self._places.get((cell, drawn), [])
        texts = [self.rows[place].get(column, "") for place in places]
        if not places or not all(texts) or places[-1] - places[0] + 1 != len(places):
            return None
        source = f"{_FILE}#{places[0]}-{places[-1]}/{column}"
        return Traced(statistics.fmean(map(float, texts)), (source,))

    def by_draw(self, cell: int, column: str) -> list[float]:
        """Return the mean of a column in each draw of the unknown inputs."""
        found: dict[str, list[float]] = {}
        for place in self._places.get((cell, True), []):
            found.setdefault(self.rows[place]["draw"], []).append(float(self.rows[place][column]))
        return [statistics.fmean(values) for values in found.values()]

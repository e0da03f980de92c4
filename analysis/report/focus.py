"""One scenario of a report, looked at closely: played again, so that all can be told of it that results leave out."""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sim
from analysis.document import document, render
from analysis.ensemble import replicate
from sim import units

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from analysis.ensemble import Ensemble
    from sim import Prepared, Result, Scenario

__all__ = ["MOST_REPLICATIONS", "Focus"]

MOST_REPLICATIONS = 16
"""Replications that are played again at most: enough for how a run looks; means come from the results."""

_DAY = units.DURATION.units["d"]
_FEWEST_WINDOWS, _MOST_WINDOWS = 5, 10_000


@dataclass(frozen=True)
class Focus:
    """One scenario, played again: the same numbers as in the results, because every replication can be replayed.

    Parameters
    ----------
    name
        What it is called: the values of its axes, or the name of the scenario.
    scenario
        What is played.
    wanted
        Replications in the results.
    known
        Its document, where the results hold all of it.
    progress
        Called with the number of replications done and the total.
    """

    name: str
    scenario: Scenario
    wanted: int
    known: Mapping[str, Any] | None = None
    progress: Callable[[int, int | None], None] | None = None

    @property
    def replications(self) -> int:
        """How many are played again: the first of those in the results."""
        return min(self.wanted, MOST_REPLICATIONS)

    @functools.cached_property
    def prepared(self) -> Prepared:
        """The scenario, ready to be played; with windows of a day where it states none and a day is short enough."""
        windows = self.scenario.windows
        if windows is None and _FEWEST_WINDOWS <= self.scenario.horizon / _DAY <= _MOST_WINDOWS:
            windows = _DAY
        return sim.prepare(self.scenario.model_copy(update={"windows": windows}))

    @functools.cached_property
    def ensemble(self) -> Ensemble:
        """Its replications, with a log of when nodes were down."""
        return replicate(
            self.prepared,
            self.replications,
            keeps_log=True,
            progress=self.progress,
            processes=1,
            most_events=math.inf,  # it has been simulated before
        )

    @functools.cached_property
    def document(self) -> Mapping[str, Any]:
        """The document of a run of it: as in the results, or of the replications that are played again."""
        if self.known is not None:
            return self.known
        found: dict[str, Any] = json.loads(render(document(self.ensemble, command="")))
        return found

    @functools.cached_property
    def typical(self) -> Result:
        """The replication whose ETTR is the median of those played again (the lower one of two), with its timeline."""
        ratios = [row["ettr"] for row in self.ensemble.rows]
        each = [ratio.amount / ratio.base if ratio.base else 0.0 for ratio in ratios]
        order = sorted(range(len(each)), key=lambda index: each[index])
        return sim.run(
            self.prepared, order[(len(order) - 1) // 2], keeps_log=True, keeps_timeline=True, most_events=math.inf
        )

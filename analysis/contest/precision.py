"""The rule for enough replications and its loop (`pursue`), for runs, comparisons and sweeps.

A mean, or a difference, is precise enough once the half-width of the interval that is shown is. It is looked at when
`FEWEST` replications are there, and then at goals that seem to be enough (`next_goal`), so that nothing depends on how
many processes there are. Replications that are all equal have no interval: of a run that was too rare to be among them
nothing is known, and it may have none of what the others have (`ettrick.analysis.statistics.intervals.unseen`).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ettrick.analysis.metrics import is_share
from ettrick.analysis.statistics.intervals import doubt_of, unseen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ettrick.analysis.statistics.estimates import Interval
    from ettrick.analysis.statistics.intervals import MeanEstimate
    from ettrick.sim import Ratio

Cell = TypeVar("Cell")

BATCH = 10
"""Replications between two decisions are a multiple of it, so that the number of processes changes nothing."""

FEWEST = 30
"""Replications before the first decision: with fewer a calm sample stops the run too early."""

MOST = 10_000
"""Replications after which a precision is given up."""

_FASTER = 4
"""The largest factor from the replications so far to the next goal: a few of them do not fix the spread [-]."""


class ReplicationsError(ValueError):
    """A request for replications that does not make sense for this scenario."""


@dataclass(frozen=True)
class Precision:
    """Half-width of the 95 % interval of a mean, or of a difference, that is precise enough.

    Parameters
    ----------
    width
        In percentage points / 100, or as a part of the mean [-].
    """

    width: float
    relative: bool

    @classmethod
    def parse(cls, text: str) -> Precision:
        """Read ``0.1pt`` (percentage points) or ``2%`` (of the mean)."""
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(pt|%)\s*", text)
        if match is None or float(match[1]) <= 0:
            raise ReplicationsError(f"'{text}' is not a precision: write 0.1pt (percentage points) or 2% (of the mean)")
        return cls(float(match[1]) / 100, match[2] == "%")

    def check(self, metric: str) -> None:
        """Refuse percentage points of what is no share."""
        if not self.relative and not is_share(metric):
            raise ReplicationsError(f"points are for shares, and {metric} is not one: write a precision such as 2%")

    def excess(
        self, interval: Interval | None, mean: float | None, metric: str, replications: int, doubt: float = 0.0
    ) -> float:
        """Return how wide an interval is over what it should be [-]: it shrinks with the root of the replications.

        Parameters
        ----------
        interval
            Of the mean or difference; ``None`` for equal replications.
        mean
            What a relative precision is a part of; ``None`` where there is none.
        doubt
            Half-width of what replications do not shrink.

        Returns
        -------
        float
            Infinite where no number of replications makes it narrow enough.
        """
        wanted = self.width * (abs(mean or 0.0) if self.relative else 1.0)
        if mean is None or doubt > wanted:
            return math.inf
        if interval is None:
            # How rare an unseen run is goes with 1 / n, not with its root.
            size = 1.0 if is_share(metric) else abs(mean)
            return math.sqrt(unseen(replications) * size / 2 / wanted) if wanted else 0.0
        half = (interval[1] - interval[0]) / 2
        return half / wanted if wanted else math.inf if half else 0.0

    def excess_of_mean(self, estimate: MeanEstimate, ratios: Sequence[Ratio], metric: str) -> float:
        """Return how wide the interval of a mean over some replications is over what it should be [-]."""
        if estimate.method == "exact" and estimate.interval is None:
            return 0.0
        return self.excess(estimate.interval, estimate.mean, metric, len(ratios), doubt_of(ratios))


@dataclass
class Pursuit:
    """A cell on its way to a precision.

    Parameters
    ----------
    goal
        Replications at which is decided next, whole batches.
    most
        Replications after which the precision is given up.
    precise
        Whether it was reached at the last decision.
    """

    goal: int = FEWEST
    most: int = MOST
    precise: bool = False


def pursue(
    pursuits: Mapping[Cell, Pursuit],
    simulate: Callable[[Mapping[Cell, Pursuit]], None],
    excess: Callable[[Cell], float],
) -> None:
    """Simulate cells until each is precise enough, or never will be.

    Parameters
    ----------
    simulate
        Called with the cells that need more replications: each gets all up to its goal.
    excess
        Returns how wide the interval of a cell at its goal is over what it should be [-], from `Precision.excess`.
    """
    active = dict(pursuits)
    while active:
        simulate(active)
        for cell, pursuit in tuple(active.items()):
            over = excess(cell)
            pursuit.precise = over <= 1
            goal = next_goal(pursuit.goal, over, pursuit.most)
            if goal > pursuit.goal:
                pursuit.goal = goal
            else:
                del active[cell]


def next_goal(done: int, excess: float, most: int = MOST) -> int:
    """Return how many replications to decide at next: as many as seem to be enough; `done` where the search ends.

    Parameters
    ----------
    done
        Replications so far, whole batches.
    excess
        How wide the interval is over what it should be [-], from `Precision.excess`.
    most
        Replications that there may be.
    """
    if excess <= 1 or math.isinf(excess):
        return done
    return min(BATCH * math.ceil(done * excess**2 / BATCH), _FASTER * done, most)


class Ties(NamedTuple):
    """Differences that are too small to matter.

    Parameters
    ----------
    points
        Of shares [-].
    part
        Of all other metrics, as a part of the mean [-].
    """

    points: float = 0.001
    part: float = 0.005

    @classmethod
    def parse(cls, text: str) -> Ties:
        """Return the usual differences with that of a text: ``0.2pt`` of shares, or ``1%`` of all else."""
        if not text:
            return cls()
        stated = Precision.parse(text)
        return cls(part=stated.width) if stated.relative else cls(points=stated.width)

    def are_equal(self, metric: str, mean: float | None, interval: Interval | None, difference: float = 0.0) -> bool:
        """Return whether a difference from a mean, with all of its interval, is too small to matter."""
        return all(abs(end) < self.size(metric, mean) for end in interval or (difference,))

    def size(self, metric: str, mean: float | None) -> float:
        """Return the least difference from a mean of a metric that matters."""
        return self.points if is_share(metric) else self.part * abs(mean or 0.0)


USUAL = Ties()
"""Differences that are too small to matter, unless a study states others."""

"""The results of a study by point, as questions read them."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.analysis.contest.precision import USUAL, Ties
from ettrick.analysis.metrics import PROBABILITIES, is_share
from ettrick.analysis.parts import CellMetric, DifferenceSummary
from ettrick.analysis.statistics.differences import difference_of
from ettrick.analysis.statistics.estimates import contributions, summarise_ratio, t_quantile, two_way
from ettrick.analysis.statistics.intervals import (
    MeanEstimate,
    binomial_interval,
    is_zero_or_one,
    mean_estimate,
    possible,
    unseen,
    widened,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from ettrick.analysis.statistics.estimates import Interval, TwoWay
    from ettrick.analysis.study.amounts import AxisPosition, Point
    from ettrick.analysis.study.axis import Axis
    from ettrick.sim import Ratio

    FloatArray = npt.NDArray[np.float64]


class JobRate(NamedTuple):
    """The rate of interruptions of the only job of a point in running time, as stated [1/s]; its size."""

    per_second: float
    gpus: int
    nodes: int


@dataclass(frozen=True)
class PointResult:
    """The outcome of a point.

    Parameters
    ----------
    metrics
        For each metric that was kept, one ratio per replication; those of replication i are at i.
    controls
        Control variates of each replication (`ettrick.analysis.statistics.differences`); empty where they are not
        known.
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
    job_rate
        How often its job is interrupted; ``None`` of several jobs.
    exact
        Metrics that nothing random has a part in: equal replications are all that there are.
    """

    point: Point
    metrics: Mapping[str, Sequence[Ratio]] = field(default_factory=dict)
    controls: Sequence[tuple[float, ...]] = ()
    formula: float | None = None
    censored: int = 0
    never_started: int = 0
    precise: bool | None = None
    status: str = "ok"
    trouble: str = ""
    warnings: tuple[str, ...] = ()
    no_formula: tuple[str, ...] = ()
    job_rate: JobRate | None = None
    exact: frozenset[str] = frozenset()

    def estimate(self, metric: str, count: int | None = None) -> MeanEstimate:
        """Return the mean of a metric, over the first `count` replications if that is given."""
        return mean_estimate(self.metrics.get(metric, ())[:count], metric, is_exact=metric in self.exact)

    @property
    def replications(self) -> int:
        """The number of replications."""
        return max((len(ratios) for ratios in self.metrics.values()), default=0)


@dataclass(frozen=True)
class Cell:
    """A combination of choices: its outcome at the central values of the unknown inputs, and at each draw."""

    stated: PointResult
    drawn: tuple[PointResult, ...] = ()

    @property
    def values(self) -> tuple[AxisPosition, ...]:
        """The value of each axis; that of an unknown one is central."""
        return self.stated.point.values

    @property
    def trouble(self) -> str:
        """The reason why there is nothing; empty where all is well."""
        return self.stated.trouble


@dataclass(frozen=True)
class StudyTable:
    """All cells of a study, in order.

    Parameters
    ----------
    axes
        What varies, by name, in the order of the values of a cell.
    seed
        Of all points, for numbers that answers draw themselves.
    currency
        Of what things cost; empty without prices.
    ties
        Differences that are called equal.
    """

    axes: Mapping[str, Axis]
    cells: tuple[Cell, ...]
    metrics: tuple[str, ...]
    seed: int = 1
    currency: str = ""
    ties: Ties = USUAL

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


# The mean of a cell is that of the replications as they are, without control variates, which are known only where no
# job may wait for nodes: neighbouring cells would differ by an estimator as well as by what was varied, and what common
# replications have in common would no longer cancel between them. Differences use them.

FEWEST_DRAWS = 20
"""Draws from which on there is a band: with fewer its ends would lie beyond all of them."""


def summary_of(cell: Cell, metric: str) -> CellMetric | None:
    """Return the summary of one metric of a cell; ``None`` if the cell has no such metric.

    A time to finish with a censored replication has no mean and no interval, but those quantiles that lie below what
    was censored; `CellMetric.censored` says how many replications that are.
    """
    ratios = cell.stated.metrics.get(metric)
    if not ratios:
        return None
    runs = summarise_ratio([ratio.amount for ratio in ratios], [ratio.base for ratio in ratios])
    estimate = cell.stated.estimate(metric)
    return CellMetric(
        mean=estimate.mean,
        mean_ci95=estimate.interval,
        method=estimate.method,
        std=runs.std,
        p05=runs.p05,
        p50=runs.p50,
        p95=runs.p95,
        band90=None if estimate.mean is None else _band(cell, metric, estimate.mean),
        replications=len(ratios),
        censored=cell.stated.censored,
        never_started=cell.stated.never_started,
    )


def _band(cell: Cell, metric: str, mean: float) -> Interval | None:
    """Return where the mean is at the draws: the quantiles of how far they move it, on the replications they have.

    ``None`` with fewer than `FEWEST_DRAWS`, or where a draw has no mean: leaving it out would flatter the cell.
    """
    drawn = drawn_table(cell, metric)
    if len(drawn) < FEWEST_DRAWS:
        return None
    few = drawn.shape[1]
    stated = contributions(cell.stated.metrics[metric][:few])
    if stated is None:
        return None
    low, high = np.quantile(drawn.mean(axis=1) - stated.mean(), [0.05, 0.95]).tolist()
    return possible(metric, (mean + low, mean + high))


def predictive_mean(cell: Cell, metric: str) -> MeanEstimate | None:
    """Return the mean of a metric over all draws of what is not known, and how sure it is.

    Replication i has the same failures in every draw, so neither are draws a sample of their own nor are replications:
    the error of the mean has a part of each, as in `ettrick.analysis.statistics.estimates.two_way`. Of a probability
    its variance is turned into a number of independent trials, whose exact interval this gives. But inputs or failures
    that none of D draws and R replications met may make all runs fail: so the interval is never surer than that of
    min(D, R) runs which all end alike, and one run that failed cannot make it surer than none.

    Returns
    -------
    MeanEstimate or None
        Without draws, what `summary_of` has. ``None`` where the cell or one of its draws has no mean.

    References
    ----------
    E. L. Korn, B. I. Graubard, Survey Methodology 24 (1998), 193 (probabilities).
    """
    if not cell.drawn:
        estimate = cell.stated.estimate(metric)
        return None if estimate.mean is None else estimate
    values = drawn_table(cell, metric)
    if not len(values):
        return None
    pooled = two_way(values)
    if min(values.shape) < 2:
        return MeanEstimate(pooled.mean)
    if is_probability(cell, metric):
        interval = _of_probability(pooled, values.shape)
    elif not pooled.variance:
        return MeanEstimate(pooled.mean)
    else:
        half = pooled.reach() * math.sqrt(pooled.variance)
        interval = possible(metric, (pooled.mean - half, pooled.mean + half))
    ratios = [ratio for outcome in cell.drawn for ratio in outcome.metrics[metric]]
    return MeanEstimate(pooled.mean, widened(pooled.mean, interval, ratios, metric))


def predictive_difference(ours: Cell, theirs: Cell, metric: str, confidence: float = 0.95) -> DifferenceSummary | None:
    """Return by how much a metric of a cell is above that of another over all draws of what is not known.

    The draws, and the replications of each, are the same in both cells. What a draw changes between the two is a part
    of the doubt, as is what a replication does: see `predictive_mean`. How many replications would resolve it is not
    given: more of them do not make the draws more.

    Returns
    -------
    DifferenceSummary or None
        ``None`` where a draw has no mean, or with fewer than two draws or replications.
    """
    first, second = drawn_table(ours, metric), drawn_table(theirs, metric)
    count = min(len(first), len(second)) and min(first.shape[1], second.shape[1])
    if len(first) != len(second) or min(len(first), count) < 2:
        return None
    differences = first[:, :count] - second[:, :count]
    # What is the same but for the order of a sum is the same.
    differences[np.abs(differences) <= 1e-12 * np.abs(first[:, :count])] = 0.0
    pooled = two_way(differences)
    half = pooled.reach(confidence) * math.sqrt(pooled.variance)
    if not half:
        size = 1.0 if is_share(metric) else max(abs(float(first.mean())), abs(float(second.mean())))
        return difference_of(pooled.mean, is_resolved=abs(pooled.mean) > unseen(min(len(differences), count)) * size)
    return difference_of(pooled.mean, (pooled.mean - half, pooled.mean + half), is_resolved=abs(pooled.mean) > half)


def is_probability(cell: Cell, metric: str) -> bool:
    """Return whether all runs of all draws have all of what a probability counts, or nothing of it."""
    return metric in PROBABILITIES and all(is_zero_or_one(outcome.metrics.get(metric, ())) for outcome in cell.drawn)


def _of_probability(pooled: TwoWay, shape: tuple[int, ...]) -> Interval:
    """Return the exact interval of a probability from as many independent trials as have its variance."""
    mean, fewest = pooled.mean, min(shape)
    most_unseen = unseen(fewest)
    if mean in (0.0, 1.0):
        return (0.0, most_unseen) if mean == 0.0 else (1 - most_unseen, 1.0)
    # Runs that all stand alone: chance may make a table more even than these are, but they are not surer for it.
    variance = max(pooled.variance, mean * (1 - mean) / math.prod(shape))
    trials = mean * (1 - mean) / variance * (t_quantile(0.95, math.inf) / pooled.reach()) ** 2
    low, high = binomial_interval(mean * trials, trials)
    return min(low, 1 - most_unseen), max(high, most_unseen)


def drawn_table(cell: Cell, metric: str) -> FloatArray:
    """Return what each replication of each draw contributes to its mean, (D, R); empty where a draw has no mean."""
    rows: list[Sequence[Ratio]] = [outcome.metrics.get(metric, ()) for outcome in cell.drawn]
    common = min(map(len, rows), default=0)
    values = [contributions(ratios[:common]) for ratios in rows]
    complete = [row for row in values if row is not None]
    return np.array(complete) if common and len(complete) == len(values) else np.zeros((0, 0))

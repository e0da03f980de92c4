"""The interval of a mean: exact for shares of 0 or 1, Student's, and BCa next to it where the sample is skewed.

Student's interval is short on the side of the long tail: goodput has rare bad months, so its mean lies below the
interval too often. BCa follows the tail, but is too narrow where there are few replications. So a skewed sample gets
what either of the two holds: never less than Student's, whatever made the sample look skewed, so that the choice cannot
cost coverage. A sample without any spread says nothing of how far another run may be from it: it gets no interval,
unless nothing is random; then the number is exact. What all replications share (`sim.Ratio.doubt`) widens any interval.
docs/explanation/how-sure.md has the coverage that was measured.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

from ettrick.analysis.metrics import METRICS, PROBABILITIES, is_share
from ettrick.analysis.statistics.estimates import Estimate, Interval, contributions, mean_interval, t_quantile
from ettrick.sim import Ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]

RESAMPLES = 2000

"""Samples that are drawn from the sample; the ends of an interval are about the 20th from either side."""

SKEWED = 0.5

"""Skewness of a sample beyond which Student's interval is not trusted alone [-]."""

_FEWEST = 10

"""Replications below which a sample says nothing about its tail."""


class MeanEstimate(NamedTuple):
    """A mean and how sure it is.

    Parameters
    ----------
    mean
        Ratio of sums; ``None`` without data, with a censored replication, or with nothing in the denominators.
    interval
        Its nominal 95 % interval; ``None`` without a mean, from a single replication, and where all replications are
        equal and it is no probability.
    method
        ``exact``, ``t``, or ``bca`` (Student's and BCa together); empty without an interval, but ``exact`` where the
        number itself is.
    """

    mean: float | None = None
    interval: Interval | None = None
    method: str = ""


def mean_estimate(
    ratios: Sequence[Ratio], metric: str = "", *, is_exact: bool = False, follows_tail: bool = True
) -> MeanEstimate:
    """Return the mean of a metric over replications, with the interval that suits the sample.

    Parameters
    ----------
    ratios : (n,) sequence
        The metric of each replication.
    metric
        Its name: probabilities get exact intervals, and no share is above one.
    is_exact
        Whether nothing that the metric depends on is random, so that equal replications are all that there are.
    follows_tail
        Whether a skewed sample gets the bootstrap in addition to Student's interval.
    """
    values = contributions(ratios)
    if values is None:
        return MeanEstimate()
    # Rounding would move the mean of equal values away from them.
    equal = bool(np.all(values == values[0]))
    mean = float(values[0]) if equal else float(values.mean())
    interval, method = _sampled(values, ratios, metric, equal=equal, follows_tail=follows_tail)
    if is_exact and equal:
        interval, method = (mean, mean), "exact"
    interval = widened(mean, interval, ratios, metric)
    return MeanEstimate(mean, interval, "" if interval is None and method != "exact" else method)


def _sampled(
    values: FloatArray, ratios: Sequence[Ratio], metric: str, *, equal: bool, follows_tail: bool
) -> tuple[Interval | None, str]:
    """Return the interval of the sampling error alone, and how it was made."""
    exact = exact_interval(ratios, metric)
    if exact is not None:
        return exact, "exact"
    interval = mean_interval(values)
    if interval is None or equal:
        return None, ""
    if not follows_tail or len(values) < _FEWEST or abs(_skewness(values)) <= SKEWED:
        return interval, "t"
    low, high = bca_interval(values)
    return (min(low, interval[0]), max(high, interval[1])), "bca"


def widened(mean: float, interval: Interval | None, ratios: Sequence[Ratio], metric: str = "") -> Interval | None:
    """Return an interval with the error that all replications share, as far as the metric can be; none of no width.

    Both errors are independent: their squares add up on either side of the mean.
    """
    if interval is None:
        return None
    doubt = doubt_of(ratios)
    low, high = mean - math.hypot(mean - interval[0], doubt), mean + math.hypot(interval[1] - mean, doubt)
    low, high = possible(metric, (low, high) if doubt else interval)
    return (low, high) if low < high else None


def doubt_of(ratios: Sequence[Ratio]) -> float:
    """Return the half-width, at 95 %, of the error of a mean that more replications do not shrink."""
    table = np.array(ratios, dtype=np.float64).reshape(-1, len(Ratio._fields))
    doubt = math.fsum(table[:, 2].tolist())
    return doubt / base if doubt and (base := math.fsum(table[:, 1].tolist())) else 0.0


def exact_interval(ratios: Sequence[Ratio], metric: str) -> Interval | None:
    """Return the exact 95 % interval of a probability; ``None`` for other metrics.

    Where several jobs share a replication and only some of them finish, the number of those that do is not binomial:
    there is no exact interval then.
    """
    if metric in METRICS and METRICS[metric].is_of_windows:
        return _of_windows(ratios)
    if metric not in PROBABILITIES or not is_zero_or_one(ratios):
        return None
    return binomial_interval(sum(ratio.amount > 0 for ratio in ratios), len(ratios))


def _of_windows(ratios: Sequence[Ratio]) -> Interval | None:
    """Return the 95 % interval of the share of windows in which something happens: windows of a run are alike.

    Clopper and Pearson's, from as many independent windows as have the variance of the replications, at most all. Where
    it happens in none or in all of them there is no variance, and all count.

    References
    ----------
    E. L. Korn, B. I. Graubard, "Confidence intervals for proportions with small expected number of positive counts
    estimated from survey data", Survey Methodology 24 (1998), 193.
    """
    hits, trials = math.fsum(ratio.amount for ratio in ratios), math.fsum(ratio.base for ratio in ratios)
    if not trials:
        return None
    share, count, worth = hits / trials, len(ratios), trials
    if 0 < share < 1 and count > 1:
        squares = math.fsum((ratio.amount - share * ratio.base) ** 2 for ratio in ratios)
        variance = squares * count / (count - 1) / trials**2
        reach = t_quantile(0.95, math.inf) / t_quantile(0.95, count - 1)
        worth = min(share * (1 - share) / variance * reach**2, trials) if variance else trials
    return binomial_interval(share * worth, worth)


def is_zero_or_one(ratios: Sequence[Ratio]) -> bool:
    """Return whether every replication has all of what it counts, or nothing of it, and all count as much."""
    return bool(ratios) and all(
        ratio.base == ratios[0].base > 0 and ratio.amount in (0.0, ratio.base) for ratio in ratios
    )


def binomial_interval(successes: float, trials: float) -> Interval:
    """Return the exact 95 % interval of a probability, by Clopper and Pearson.

    The ends are the probabilities at which so many successes or more, and so many or fewer, are as rare as 2.5 %:
    coverage is at least nominal for any probability and any number of trials.

    Parameters
    ----------
    successes, trials
        How many; trials that are worth less than one each may be counted in part.

    References
    ----------
    C. J. Clopper, E. S. Pearson, Biometrika 26 (1934), 404.
    """
    from scipy.special import betaincinv

    missed = trials - successes
    low = float(betaincinv(successes, missed + 1, 0.025)) if successes > 0 else 0.0
    high = float(betaincinv(successes + 1, missed, 0.975)) if missed > 0 else 1.0
    return low, high


def share(hits: int, total: int) -> Estimate:
    """Return a probability and its exact interval."""
    return Estimate(hits / total if total else math.nan, *binomial_interval(hits, total))


def unseen(replications: int) -> float:
    """Return how common a run may be of whose kind there was none, at 97.5 %: 12 % of all runs after 30 without it."""
    return -math.expm1(math.log(0.025) / replications)


def bca_interval(values: FloatArray) -> Interval:
    """Return the 95 % interval of a mean by the bias-corrected and accelerated bootstrap, widened for small samples.

    The ends are the quantiles ``Phi(z0 + (z0 -/+ z) / (1 - a (z0 -/+ z)))`` of the means of samples drawn from the
    sample, with z0 for their median bias and ``a = sum e^3 / (6 (sum e^2)^1.5)`` for skewness, e the deviations from
    the mean. Instead of z = 1.96 stands what Student's quantile and the divisor n - 1 ask for,
    ``Phi(-z) = Phi(-t sqrt(n / (n - 1)))``: the bootstrap itself leaves both out. The draws depend on n alone.

    Parameters
    ----------
    values : (n,) array
        One value per replication, finite; at least 10.

    References
    ----------
    B. Efron, Journal of the American Statistical Association 82 (1987), 171; T. C. Hesterberg, The American
    Statistician 69 (2015), 371.
    """
    from scipy.special import ndtr, ndtri

    count = len(values)
    if count < _FEWEST:
        raise ValueError(f"needs {_FEWEST} replications, got {count}")
    center = float(values.mean())
    errors = values - center
    scale = float(np.abs(errors).max())
    if scale <= 1e-15 * abs(center):
        return center, center
    errors /= scale
    means = np.sort(_resampled_means(errors))
    middle = float(errors.mean())
    below = ((means < middle).mean() + (means <= middle).mean()) / 2
    bias = float(ndtri(np.clip(below, 0.5 / RESAMPLES, 1 - 0.5 / RESAMPLES)))
    bend = float((errors**3).sum() / (6 * (errors**2).sum() ** 1.5))
    reach = t_quantile(0.95, count - 1) * math.sqrt(count / (count - 1))
    # |bend| is at most 1/6 and the rest below 6 from ten replications on: the denominator is positive.
    ends = [bias + (bias + sign * reach) / (1 - bend * (bias + sign * reach)) for sign in (-1, 1)]
    low, high = np.quantile(means, ndtr(ends)).tolist()
    return center + scale * low, center + scale * high


@overload
def possible(metric: str, interval: Interval) -> Interval: ...


@overload
def possible(metric: str, interval: None) -> None: ...


def possible(metric: str, interval: Interval | None) -> Interval | None:
    """Return the part of an interval that a metric can be in: no share is above one, and few are negative."""
    if interval is None:
        return None
    most = 1.0 if is_share(metric) else math.inf
    least = -math.inf if metric in METRICS and METRICS[metric].is_signed else 0.0
    return max(interval[0], least), min(interval[1], most)


def _skewness(values: FloatArray) -> float:
    """Return the skewness of a sample [-]; zero for constant data."""
    errors = values - values.mean()
    scale = float(np.abs(errors).max())
    if scale <= 1e-15 * float(np.abs(values).max()):
        return 0.0
    errors /= scale
    return float((errors**3).mean() / (errors**2).mean() ** 1.5)


def _resampled_means(values: FloatArray) -> FloatArray:
    """Return the means of samples drawn from a sample with replacement, shape (RESAMPLES,); some rows at a time."""
    from numpy.random import PCG64, Generator, SeedSequence

    count = len(values)
    rng = Generator(PCG64(SeedSequence([RESAMPLES, count])))
    rows = max(1, min(RESAMPLES, 1_000_000 // count))
    means = [
        values[rng.integers(0, count, (min(rows, RESAMPLES - start), count), dtype=np.int64)].mean(axis=1)
        for start in range(0, RESAMPLES, rows)
    ]
    return np.concatenate(means)

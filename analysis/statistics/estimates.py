"""From replications to statements: means, ratios, quantiles and paired differences with their intervals.

The replication is the unit of evidence. Two kinds of spread are kept apart: the interval of a *mean* shrinks with more
replications (Monte Carlo error), *quantiles* do not (run-to-run variability). What the data cannot support is None,
never NaN: no mean without data, no interval from one value, no p05 from thirty.

An infinite value stands for "beyond what was observed" (a censored time to finish, a ratio with nothing in its
denominator). It has a rank, so quantiles below it exist; a mean does not.
"""

from __future__ import annotations

import functools
import itertools
import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.analysis.parts import MetricSummary
from ettrick.analysis.statistics.rows import column

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from ettrick.sim import Ratio

    FloatArray = npt.NDArray[np.float64]

Interval = tuple[float, float]


def summarise(values: npt.ArrayLike) -> MetricSummary:
    """Return the summary of one metric, one value per replication, `values` (n,)."""
    x = _sample(values)
    return _summary(x, _mean(x), mean_interval(x))


def summarise_ratio(numerators: npt.ArrayLike, denominators: npt.ArrayLike) -> MetricSummary:
    """Return the summary of a ratio metric: its mean is the ratio of sums.

    `std` and the quantiles are of the replications' own ratios. A replication with nothing in its denominator has an
    infinite ratio (an MTTI without interruptions), or none at all (0 / 0) and is then left out of these.
    """
    a, b = _pair(numerators, denominators)
    _check_denominators(b)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = a / b
    estimate = ratio_interval(a, b)
    return _summary(ratios[~np.isnan(ratios)], _ratio(a, b), None if estimate is None else estimate[1:])


def mean_interval(values: npt.ArrayLike, confidence: float = 0.95) -> Interval | None:
    """Return Student's interval of the mean, ``x_mean -/+ t s / sqrt(n)``.

    Parameters
    ----------
    values : (n,) array
        One value per replication, independent.
    confidence : float
        Nominal coverage [-]; exact for normal data, close to it for the mean of many.

    Returns
    -------
    tuple of float, or None
        Low and high; equal for constant data; None for fewer than two values or an infinite one.

    Raises
    ------
    ValueError
        If a value is NaN, `values` is not one-dimensional, or `confidence` is not between 0 and 1.
    """
    x = _sample(values)
    mean = _mean(x)
    if mean is None or x.size < 2:
        return None
    half = t_quantile(confidence, x.size - 1) * _std(x) / math.sqrt(x.size)
    return mean - half, mean + half


def ratio_interval(
    numerators: npt.ArrayLike, denominators: npt.ArrayLike, confidence: float = 0.95
) -> tuple[float, float, float] | None:
    """Return the ratio of sums ``r = sum(a) / sum(b)`` and its interval by the delta method.

    The standard error is that of the mean of ``a - r b``, over the mean of b, with Student's quantile for n - 1
    degrees of freedom. With equal denominators this is `mean_interval` of the ratios.

    Parameters
    ----------
    numerators, denominators : (n,) array
        One pair per replication; denominators not negative.
    confidence : float
        Nominal coverage [-]; approximate, the better the less b varies.

    Returns
    -------
    tuple of float, or None
        Ratio, low and high; None for fewer than two pairs, a zero sum of denominators or an infinite value.

    Raises
    ------
    ValueError
        If a value is NaN, a denominator negative, the lengths differ, or `confidence` is not between 0 and 1.

    References
    ----------
    W. G. Cochran, "Sampling Techniques", 3rd ed. (1977), chapter 6.
    """
    a, b = _pair(numerators, denominators)
    _check_denominators(b)
    ratio = _ratio(a, b)
    if ratio is None or a.size < 2:
        return None
    half = t_quantile(confidence, a.size - 1) * _std(a - ratio * b) / math.sqrt(a.size) / float(b.mean())
    return ratio, ratio - half, ratio + half


def quantile(values: npt.ArrayLike, q: float) -> float | None:
    """Return the sample quantile (linear interpolation at ``(n - 1) q``), if n is large enough to bound it.

    Parameters
    ----------
    values : (n,) array
        One value per replication; infinite ones are censored.
    q : float
        Probability [-], between 0 and 1.

    Returns
    -------
    float or None
        None where `quantile_interval` does not exist at 95 %, or the quantile is itself censored.

    Raises
    ------
    ValueError
        If a value is NaN or `q` is not between 0 and 1.
    """
    x = np.sort(_sample(values))
    if _ranks(x.size, q, 0.95) is None:
        return None
    position = (x.size - 1) * q
    below, above = float(x[math.floor(position)]), float(x[math.ceil(position)])
    if not (math.isfinite(below) and math.isfinite(above)):
        return None
    return below + (above - below) * (position - math.floor(position))


def quantile_interval(values: npt.ArrayLike, q: float, confidence: float = 0.95) -> Interval | None:
    """Return the distribution-free interval of a quantile between two order statistics.

    The number of values below the quantile is binomial (n, q): the l-th smallest value is above the quantile, and the
    u-th below it, with probability at most ``(1 - confidence) / 2`` each. So coverage is at least nominal for any law.

    Parameters
    ----------
    values : (n,) array
        One value per replication; infinite ones are censored.
    q : float
        Probability [-], between 0 and 1.
    confidence : float
        Least coverage [-].

    Returns
    -------
    tuple of float, or None
        Low and high; None if n is too small for both ends to exist (at 95 %: below 6 for the median, below 72 for p05
        and p95), or if an end is censored.

    Raises
    ------
    ValueError
        If a value is NaN, or `q` or `confidence` is not between 0 and 1.

    References
    ----------
    G. J. Hahn, W. Q. Meeker, "Statistical Intervals" (1991), chapter 5.
    """
    x = np.sort(_sample(values))
    ranks = _ranks(x.size, q, confidence)
    if ranks is None:
        return None
    low, high = float(x[ranks[0] - 1]), float(x[ranks[1] - 1])
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


@functools.lru_cache(maxsize=64)
def _ranks(n: int, q: float, confidence: float) -> tuple[int, int] | None:
    """Return the ranks (from 1) of the two order statistics that bound quantile `q`, if both exist."""
    _check_probability("q", q)
    _check_probability("confidence", confidence)
    tail = (1.0 - confidence) / 2.0
    if n == 0 or (1.0 - q) ** n >= tail or q**n > tail:
        return None  # even the extremes do not bound it
    below, above = itertools.accumulate(_binomial(n, q)), itertools.accumulate(_binomial(n, 1.0 - q))
    low = sum(1 for _ in itertools.takewhile(lambda chance: chance < tail, below))
    high = n + 1 - sum(1 for _ in itertools.takewhile(lambda chance: chance <= tail, above))
    return (low, high) if low >= 1 and high <= n else None


def _binomial(n: int, q: float) -> Iterator[float]:
    """Yield the probabilities of 0 to n successes."""
    # Importing scipy.special would take longer than a short run.
    for k in range(n + 1):
        ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        yield math.exp(ways + k * math.log(q) + (n - k) * math.log1p(-q))


def _summary(x: FloatArray, mean: float | None, interval: Interval | None) -> MetricSummary:
    """Return a summary with quantiles of `x`, one value per replication that has one."""
    return MetricSummary(
        mean=mean,
        mean_ci95=with_width(interval),
        std=_std(x) if x.size > 1 and np.all(np.isfinite(x)) else None,
        p05=quantile(x, 0.05),
        p50=quantile(x, 0.50),
        p95=quantile(x, 0.95),
        p05_ci95=with_width(quantile_interval(x, 0.05)),
        p50_ci95=with_width(quantile_interval(x, 0.50)),
        p95_ci95=with_width(quantile_interval(x, 0.95)),
    )


def _sample(values: npt.ArrayLike) -> FloatArray:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1:
        raise ValueError(f"values must be one-dimensional, got shape {x.shape}")
    if np.any(np.isnan(x)):
        raise ValueError("values must not be NaN: drop what is undefined, or give it as a ratio")
    return x


def _pair(first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    a, b = _sample(first), _sample(second)
    if a.size != b.size:
        raise ValueError(f"both samples must have one value per replication, got {a.size} and {b.size}")
    return a, b


def _check_denominators(b: FloatArray) -> None:
    if np.any(b < 0):
        raise ValueError("denominators must not be negative")


def _check_probability(name: str, value: float) -> None:
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} must be between 0 and 1, got {value}")


def _mean(x: FloatArray) -> float | None:
    if x.size == 0 or not np.all(np.isfinite(x)):
        return None
    # Rounding would move the mean of equal values away from them.
    return float(x[0]) if np.all(x == x[0]) else float(x.mean())


def _std(x: FloatArray) -> float:
    return 0.0 if np.all(x == x[0]) else float(x.std(ddof=1))


def _ratio(a: FloatArray, b: FloatArray) -> float | None:
    above, below = _mean(a), _mean(b)
    return None if above is None or not below else above / below


def t_quantile(confidence: float, degrees: float) -> float:
    """Return Student's quantile that leaves ``(1 - confidence) / 2`` above it; degrees need not be whole."""
    _check_probability("confidence", confidence)
    return t_upper((1.0 - confidence) / 2.0, degrees)


def t_upper(tail: float, degrees: float) -> float:
    """Return Student's quantile that leaves a probability above it."""
    if math.isclose(tail, 0.025) and degrees in _students():
        return _students()[degrees]
    from scipy.special import stdtrit

    return -float(stdtrit(degrees, tail))


@functools.cache
def _students() -> dict[float, float]:
    """Return the quantiles that leave 2.5 % above them, by degrees of freedom: scipy.special takes longer to import."""
    lines = (Path(__file__).parent / "student.txt").read_text(encoding="utf-8").split()
    return dict(enumerate(map(float.fromhex, lines), 1))


# Metrics over replications: a ratio of sums each.


def summaries(rows: Sequence[Mapping[str, Ratio]]) -> dict[str, MetricSummary]:
    """Return the summary of each metric over replications; ratios are ratios of sums."""
    return {name: summarise_ratio(*_columns(rows, name)) for name in (rows[0] if rows else ())}


def means(rows: Sequence[Mapping[str, Ratio]]) -> dict[str, float | None]:
    """Return the mean of each metric as in `summaries`, without the rest."""
    sums = {name: map(sum, _columns(rows, name).tolist()) for name in (rows[0] if rows else ())}
    return {name: amount / base if base and math.isfinite(amount) else None for name, (amount, base) in sums.items()}


def contributions(ratios: Sequence[Ratio]) -> FloatArray | None:
    """Return what each replication contributes to a ratio of sums, shape (n,); their mean is that ratio.

    ``None`` with nothing in the denominators, or an infinite amount.
    """
    amounts, bases = np.array(ratios, dtype=np.float64).reshape(len(ratios), -1).T[:2] if ratios else np.zeros((2, 0))
    base = float(bases.mean()) if len(bases) else 0.0
    if not (np.all(np.isfinite(amounts)) and base):
        return None
    ratio = float(amounts.mean()) / base
    # Not the same to the last bit where bases are equal, and it is what the docstring says.
    is_even = bool(np.all(bases == bases[0]))
    shares: FloatArray = amounts / base if is_even else ratio + (amounts - ratio * bases) / base
    return shares


def with_width(interval: Interval | None) -> Interval | None:
    """Return an interval; ``None`` for one without width, which equal replications have."""
    return None if interval is None or interval[0] == interval[1] else interval


def lower_bound(rows: Sequence[Mapping[str, Ratio]], name: str) -> float | None:
    """Return what a time between events is longer than, at 95 % confidence, when no event was seen [s].

    No event in a time T has a probability of exp(-T / mean): 5 % for a mean of ``T / ln 20``, about a third of T.

    Returns
    -------
    float or None
        ``None`` when there were events (the mean says more), or no time in which to see one.
    """
    amount, base = map(sum, _columns(rows, name).tolist())
    return amount / math.log(20) if amount and not base else None


def _columns(rows: Sequence[Mapping[str, Ratio]], name: str) -> FloatArray:
    """Return the amounts and the bases of a metric, shape (2, n)."""
    return np.array(column(rows, name), dtype=np.float64).T[:2].copy()


# Means over a table of points by replications, when both are samples.


class TwoWay(NamedTuple):
    """The mean of a table whose rows have something in common, and whose columns have.

    Parameters
    ----------
    mean
        Of all its values.
    variance
        Of that mean.
    freedom
        Degrees of freedom of the variance.
    """

    mean: float
    variance: float
    freedom: float

    def reach(self, confidence: float = 0.95) -> float:
        """Return how many standard errors an interval of the mean reaches to either side."""
        return t_quantile(confidence, self.freedom)


def two_way(values: npt.ArrayLike) -> TwoWay:
    """Return the mean of a table, and how sure it is where rows and columns are both samples.

    With D rows and R columns the variance of the mean is at most ``s_D^2 / D + s_R^2 / R``, s_D^2 the variance of the
    means of rows and s_R^2 of those of columns; the degrees of freedom are Satterthwaite's.

    Parameters
    ----------
    values : (D, R) array
        Finite; entry (d, r) is of draw d and replication r. Without a second row or column the variance is infinite.

    References
    ----------
    A. C. Cameron, J. B. Gelbach, D. L. Miller, Journal of Business and Economic Statistics 29 (2011), 238 (clusters in
    two ways); F. E. Satterthwaite, Biometrics Bulletin 2 (1946), 110.
    """
    table = np.asarray(values, dtype=np.float64)
    rows, columns = table.shape
    if min(rows, columns) < 2:
        return TwoWay(float(table.mean()), math.inf, 1.0)
    if np.all(table == table[0, 0]):
        # Rounding would move the mean of equal values away from them.
        return TwoWay(float(table[0, 0]), 0.0, min(rows, columns) - 1.0)
    parts = float(table.mean(axis=1).var(ddof=1)) / rows, float(table.mean(axis=0).var(ddof=1)) / columns
    variance = sum(parts)
    freedom = min(rows, columns) - 1.0
    if variance > 0:
        shares = [part / variance for part in parts]
        freedom = 1 / (shares[0] ** 2 / (rows - 1) + shares[1] ** 2 / (columns - 1))
    return TwoWay(float(table.mean()), variance, freedom)


# Constant rates.


class Estimate(NamedTuple):
    """A number and its 95 % interval; both ends NaN where there is none."""

    value: float
    low: float = math.nan
    high: float = math.nan


def median(values: npt.ArrayLike) -> Estimate:
    """Return the median and its interval by order statistics (`quantile_interval`), with ends that may be infinite."""
    x = np.sort(np.asarray(values, dtype=np.float64))
    return Estimate(float(np.median(x)), *(float(x[rank - 1]) for rank in _ranks(x.size, 0.5, 0.95) or ()))


def rate(events: float, exposure: float, level: float = 0.95) -> Estimate:
    """Return a constant rate and its Jeffreys interval, Gamma(n + 1/2, T); without events the limit is one-sided.

    Parameters
    ----------
    events, exposure
        Number n [-], and the time T in which they could happen.
    level
        Of the interval [-].
    """
    from scipy.special import gammaincinv

    tail = (1 - level) / 2
    if events == 0:
        return Estimate(0.0, 0.0, -math.log(1 - level) / exposure)
    low, high = (float(gammaincinv(events + 0.5, q)) / exposure for q in (tail, 1 - tail))
    return Estimate(events / exposure, low, high)

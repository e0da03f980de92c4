"""Estimators of failure models from events and exposure: pure functions of arrays.

Every rate is events over the time in which they could happen; every law is fitted with what was still alive at the end
(right censoring) and what was met late (late entry). Times are in one unit of the caller's choice, days in `fit`.

References
----------
H. Jeffreys, "Theory of Probability" (1961): the interval of a rate. L. H. Crow, AMSAA TR-138 (1974): power-law trend.
J. Klein, M. Moeschberger, "Survival Analysis" (2003): late entry and residuals. S. G. Self, K.-Y. Liang, J. Am. Stat.
Assoc. 82 (1987): a variance of zero lies on the border, so that its likelihood ratio is zero half of the time. J. D.
Healy, "A note on multivariate CUSUM procedures", Technometrics 29 (1987), for one change of a rate by its likelihood;
A. N. Pettitt, "A non-parametric approach to the change-point problem", Applied Statistics 28 (1979); N. C. Matalas and
W. B. Langbein, J. Geophys. Res. 67 (1962), for correlated values.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick.analysis.statistics.estimates import Estimate as Estimate
from ettrick.analysis.statistics.estimates import median as median
from ettrick.analysis.statistics.estimates import rate as rate
from ettrick.analysis.statistics.intervals import share as share

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

FEW, SOME = 5, 20
"""Events below which a cause gets a shared rate and nothing else; below which no law but the simplest is fitted."""

BETTER = 4.0
"""By how much the AIC of a richer model must be lower."""

CHI2 = 3.841458820694124
"""95 % quantile of chi-squared with one degree of freedom."""

BORDER = 2.705543454095404
"""The same where the parameter lies on its border: half of the time the ratio is zero."""


class Pooled(NamedTuple):
    """A Gamma law of rates: shape and rate of the prior, and the posterior rates."""

    shape: float
    rate: float
    rates: Array


def pooled(events: ArrayLike, exposure: ArrayLike) -> Pooled:
    """Return rates that lend each other strength: n_i ~ Poisson(rate_i T_i), rate_i ~ Gamma(a, b).

    Parameters
    ----------
    events, exposure
        Of each cause, node or site, shape (n,).
    """
    n, time = np.asarray(events, dtype=np.float64), np.asarray(exposure, dtype=np.float64)
    mean = math.log(max(n.sum(), 0.5) / time.sum())

    def negative(x: Array) -> float:
        return -_gamma_poisson(n, time, math.exp(x[0]), math.exp(x[0] - x[1]))

    # Rates that do not differ have a law without width: its shape is where the box ends.
    log_shape, log_mean = _minimum(negative, [0.0, mean], [(-7.0, 14.0), (mean - 5, mean + 5)])
    shape, beta = math.exp(log_shape), math.exp(log_shape - log_mean)
    return Pooled(shape, beta, (shape + n) / (beta + time))


def _gamma_poisson(n: Array, time: Array, shape: float, beta: float) -> float:
    """Return the log-likelihood of counts whose rates have a Gamma law, without ln n! and n ln T."""
    from scipy.special import gammaln

    return float(np.sum(gammaln(shape + n) - gammaln(shape) + shape * np.log(beta) - (shape + n) * np.log(beta + time)))


# Durations.


class Mixed(NamedTuple):
    """A mixture of one or two log-normal laws: weight, median and sigma of each, log-likelihood, free parameters.

    ``errors`` are standard errors of ln median and ln sigma, of one law alone.
    """

    parts: tuple[tuple[float, float, float], ...]
    log_likelihood: float
    free: int
    errors: tuple[float, float] = (math.nan, math.nan)

    @property
    def aic(self) -> float:
        """2 (parameters - log-likelihood)."""
        return 2 * (self.free - self.log_likelihood)


LEAST_SIGMA, MOST_SIGMA = 0.1, 10.0
"""Between which the sigma of a log-normal law lies [-]."""

LOG_SIGMA = (math.log(LEAST_SIGMA), math.log(MOST_SIGMA))

MANY = 5000
"""Durations from which on a search counts them on a grid of half a percent, finer than any error of so many; and events
from which on fewer points of a likelihood have to do."""


def two_lognormals(time: ArrayLike, done: ArrayLike, parts: int = 2, entry: ArrayLike | None = None) -> Mixed:
    """Return a mixture of log-normal laws of durations by maximum likelihood (EM), those not `done` censored.

    Parameters
    ----------
    time, done
        Durations above 0, and whether each is complete; shape (n,).
    entry
        Duration from which on each was seen, of one law alone.
    """
    x, is_done = np.log(np.asarray(time, dtype=np.float64)), np.asarray(done, dtype=np.bool_)
    late = None if entry is None or not np.any(entry) else np.asarray(entry, dtype=np.float64)
    times = _LogTimes(x, is_done, np.ones(len(x)), late)
    fits = (_mixture(times, cut) for cut in (0.25, 0.5, 0.75)) if parts == 2 else ()
    mixtures = [fit for fit in fits if fit is not None]
    return max(mixtures, key=lambda fit: fit.log_likelihood) if mixtures else _one_lognormal(times)


class _LogTimes(NamedTuple):
    """Logarithms of durations, which are complete, how often each is there, and from which duration on it was seen."""

    x: Array
    is_done: NDArray[np.bool_]
    weight: Array
    late: Array | None = None

    @property
    def seen(self) -> Array:
        """The complete ones, or all if none is."""
        return self.x[self.is_done] if self.is_done.any() else self.x

    @property
    def range_of_mu(self) -> tuple[float, float]:
        """Between which the logarithm of a median lies."""
        return float(self.x.min()) - MOST_SIGMA, float(self.x.max()) + MOST_SIGMA

    def terms(self, mu: float, sigma: float) -> Array:
        """Return the logarithm of the density of each complete one, and of the probability to last longer of others."""
        from scipy.special import log_ndtr

        z, others = (self.x - mu) / sigma, ~self.is_done
        value = _LOG_DENSITY - math.log(sigma) - self.x - z * z / 2
        value[others] = log_ndtr(-z[others])
        if self.late is not None:
            late = self.late > 0
            value[late] -= log_ndtr((mu - np.log(self.late[late])) / sigma)
        return np.asarray(value)

    def mixture(self, p: Array) -> float:
        """Return the log-likelihood of two laws: logit of the first one's weight, ln median and ln sigma of each."""
        first, second = (self.terms(p[k], math.exp(p[k + 1])) for k in (1, 3))
        mixed = np.logaddexp(first - np.logaddexp(0, -p[0]), second - np.logaddexp(0, p[0]))
        return float(mixed @ self.weight)

    def counted(self) -> _LogTimes:
        """Return many of them on a grid, and how many are in each cell of it."""
        if len(self.x) <= MANY:
            return self
        cells, number = np.unique(np.round(self.x * 200) * 2 + self.is_done, return_counts=True)
        return _LogTimes(cells // 2 / 200, cells % 2 == 1, number.astype(np.float64))


_LOG_DENSITY = -0.5 * math.log(2 * math.pi)


def _one_lognormal(times: _LogTimes) -> Mixed:
    def log_likelihood(p: Sequence[float] | Array) -> float:
        return float(times.terms(p[0], math.exp(p[1])).sum())

    start = [float(times.seen.mean()), math.log(max(float(times.seen.std()), LEAST_SIGMA))]
    point = _minimum(lambda p: -log_likelihood(p), start, [times.range_of_mu, LOG_SIGMA])
    first, second = np.sqrt((_curvature(log_likelihood, np.array(point)) ** 2).sum(axis=1))
    parts = ((1.0, math.exp(point[0]), math.exp(point[1])),)
    return Mixed(parts, log_likelihood(point), 2, (float(first), float(second)))


def _mixture(times: _LogTimes, cut: float) -> Mixed | None:
    """Return the mixture that is found from durations cut at a quantile; ``None`` with fewer than two on a side."""
    seen, counted = times.seen, times.counted()
    edge = float(np.quantile(seen, cut))
    sides = seen[seen <= edge], seen[seen > edge]
    if min(map(len, sides)) < 2:
        return None
    start = [math.log(cut / (1 - cut))]
    for side in sides:
        start += [float(side.mean()), math.log(max(side.std(), LEAST_SIGMA))]
    box = [(-5.0, 5.0), *2 * [times.range_of_mu, (LOG_SIGMA[0], 2.0)]]
    point = _minimum(lambda p: -counted.mixture(p), start, box)
    weight, (low, low_sigma, high, high_sigma) = 1 / (1 + math.exp(-point[0])), map(math.exp, point[1:])
    pair = sorted(((weight, low, low_sigma), (1 - weight, high, high_sigma)), key=lambda part: part[1])
    return Mixed(tuple(pair), times.mixture(np.asarray(point)), 5)


def duration_law(time: ArrayLike, done: ArrayLike) -> Mixed:
    """Return one log-normal law of durations, or two where that is clearly better and there are enough."""
    single = two_lognormals(time, done, parts=1)
    if int(np.sum(np.asarray(done))) < SOME:
        return single
    mixture = two_lognormals(time, done, parts=2)
    return mixture if mixture.aic < single.aic - BETTER else single


# Trend, change points, dispersion.


class RateTrend(NamedTuple):
    """Power law of the rate: exponent beta (below 1 it falls) and its interval, scale lambda of lambda t^beta."""

    exponent: Estimate
    scale: float


def trend(times: ArrayLike, end: float, dispersion: float = 1.0) -> RateTrend:
    """Return the Crow-AMSAA fit of moments up to a fixed `end`: beta = n / sum ln(T / t).

    ``2 n beta / beta_hat`` is chi-squared with 2 n degrees of freedom; events that come in clusters count for
    n / `dispersion` of them.
    """
    from scipy.special import gammaincinv

    t = np.asarray(times, dtype=np.float64)
    n = len(t)
    beta = n / max(float(np.log(end / np.maximum(t, end * 1e-9)).sum()), n / MOST_EXPONENT)
    effective = max(n / max(dispersion, 1.0), 1.0)
    low, high = (beta * float(gammaincinv(effective, q)) / effective for q in (0.025, 0.975))
    return RateTrend(Estimate(beta, low, high), n * math.exp(-beta * math.log(end)))


MOST_EXPONENT = 100.0
"""The largest exponent of a trend: all events come at the end [-]."""


def dispersion(counts: ArrayLike, exposure: ArrayLike | None = None) -> float:
    """Return variance over mean of counts, for equal or given exposures: Pearson's statistic over its freedom [-]."""
    statistic, freedom = pearson(counts, np.ones(len(np.asarray(counts))) if exposure is None else exposure)
    return statistic / freedom if freedom > 0 else 1.0


def pearson(counts: ArrayLike, exposure: ArrayLike) -> tuple[float, int]:
    """Return Pearson's statistic of counts in proportion to exposures [-], and its degrees of freedom."""
    n, time = (np.asarray(values, dtype=np.float64) for values in (counts, exposure))
    expected = n.sum() * time / max(float(time.sum()), 1e-300)
    use = expected > 0
    return float(((n - expected)[use] ** 2 / expected[use]).sum()), int(use.sum()) - 1


class ChangePoint(NamedTuple):
    """A change of a rate: number of the first window after it, rates before and after, and its evidence.

    ``evidence`` is twice the gain in log-likelihood over the dispersion [-].
    """

    at: int
    before: float
    after: float
    evidence: float


def changes(counts: ArrayLike, exposure: ArrayLike, spread: float = 1.0) -> list[ChangePoint]:
    """Return the changes of a rate between windows: optimal partitioning with the Poisson cost N - N ln(N / E).

    There are at least four windows between two of them.

    Parameters
    ----------
    counts, exposure
        Of each window, shape (n,).
    spread
        Variance over mean of the counts within a stretch: the penalty ln n is multiplied by it.

    References
    ----------
    B. Jackson et al., "An algorithm for optimal partitioning of data on an interval", IEEE Signal Processing Letters 12
    (2005).
    """
    sums = _WindowSums(*(
        np.concatenate(([0.0], np.cumsum(np.asarray(values, dtype=np.float64)))) for values in (counts, exposure)
    ))  # fmt: skip
    last = len(sums.events) - 1
    # Twice this is the 95 % quantile of the largest gain without a change.
    penalty, least = math.log(max(last, 2)) * max(spread, 1.0), 4
    best, where = np.full(last + 1, math.inf), np.zeros(last + 1, dtype=np.int64)
    best[0] = -penalty
    for b in range(least, last + 1):
        values = best[: b - least + 1] + sums.costs(np.arange(b - least + 1), b) + penalty
        where[b] = np.argmin(values)
        best[b] = values[where[b]]
    edges = [last]
    while edges[-1]:
        edges.append(int(where[edges[-1]]))
    edges.reverse()
    return [sums.change(*ends, spread) for ends in zip(edges, edges[1:], edges[2:], strict=False)]


class _WindowSums(NamedTuple):
    """Events and exposure up to each edge of windows, shape (n + 1,)."""

    events: Array
    exposure: Array

    def rates(self, a: NDArray[np.int64], b: int) -> Array:
        """Return the rate between edges."""
        watched = self.exposure[b] - self.exposure[a]
        return np.asarray(
            np.divide(self.events[b] - self.events[a], watched, out=np.zeros(len(watched)), where=watched > 0)
        )

    def costs(self, a: NDArray[np.int64], b: int) -> Array:
        """Return the Poisson cost N - N ln(N / E) between edges, without N."""
        rate = self.rates(a, b)
        return np.asarray(-(self.events[b] - self.events[a]) * np.log(np.where(rate > 0, rate, 1.0)))

    def change(self, a: int, b: int, c: int, spread: float) -> ChangePoint:
        """Return the change at an edge between two others."""
        ends = np.array([a, b])
        (whole, second), (first, *_) = self.costs(ends, c), self.costs(ends[:1], b)
        before, after = self.rates(ends[:1], b)[0], self.rates(ends[1:], c)[0]
        evidence = 2 * (whole - first - second) / max(spread, 1.0)
        return ChangePoint(b, float(before), float(after), float(evidence))


# Since when something is otherwise: the one change of a rate, or of a level, that chance does not explain. Each series
# is asked by itself. The chance of a change is that of one as clear anywhere in a series without any: by simulation for
# counts, which are few; by Pettitt's bound for levels.

SERIES = 4000
"""Series without a change that say how clear one is by chance; the smallest chance is one over these."""

FALSE_CHANGES = 0.05
"""Share of logs without any change in which one of a cause is said, all causes together."""

FALSE_DRIFTS = 0.01
"""The same of a level, where its values are independent; five times that where neighbours are correlated by 0.8."""

CLEAR = 4.0
"""Gain in log-likelihood below which a change is none: one in ten series without a change has it."""


class Onset(NamedTuple):
    """A change: the first bin after it, the rate or level on both sides, and the chance of one without any.

    `steady` says that the values rise or fall all the time instead; then both are those at the ends of the series.
    """

    at: int
    before: float
    after: float
    chance: float
    steady: bool = False


def rate_change(counts: ArrayLike, exposure: ArrayLike, window: int = 1) -> Onset | None:
    """Return the change of a rate of events that is most likely; ``None`` with fewer than five events, or none clear.

    Parameters
    ----------
    counts, exposure
        Of each bin, shape (n,).
    window
        Bins whose counts together say how far events are from independent.
    """
    n, time = (np.asarray(values, dtype=np.float64) for values in (counts, exposure))
    total, mass = float(n.sum()), np.cumsum(time) / max(float(time.sum()), 1e-300)
    if total < 5 or len(n) < 4 or not mass[-1]:
        return None
    gains = _gains(np.cumsum(n)[:-1], total, mass[:-1])
    at = int(gains.argmax()) + 1
    stretches = [(n[:at], time[:at]), (n[at:], time[at:])]
    # Events that come in clusters are as good as so many fewer ones.
    spread = max(1.0, _pooled_dispersion(stretches, window))
    gain, events = float(gains[at - 1]) / spread, max(round(total / spread), 2)
    if gain < CLEAR:
        return None
    drawn = np.random.default_rng(0).multinomial(events, time / time.sum(), SERIES)
    largest = _gains(np.cumsum(drawn, axis=1)[:, :-1], float(events), mass[:-1]).max(axis=1)
    before, after = (float(counts.sum() / max(float(watched.sum()), 1e-300)) for counts, watched in stretches)
    return Onset(at, before, after, (1 + int((largest >= gain).sum())) / (1 + SERIES))


def _gains(before: NDArray[Any], total: float, mass: Array) -> Array:
    """Return the gain in log-likelihood of two rates over one, by how many of all events come before each edge."""
    from scipy.special import xlogy

    with np.errstate(divide="ignore", invalid="ignore"):
        gain = xlogy(before, before / (total * mass)) + xlogy(total - before, (total - before) / (total * (1 - mass)))
    return np.where((mass > 0) & (mass < 1), gain, 0.0)


def _pooled_dispersion(stretches: list[tuple[Array, Array]], window: int) -> float:
    """Return variance over mean of the counts of windows within stretches of one rate each [-]."""
    total, freedom = 0.0, 0
    for counts, time in stretches:
        edges = np.arange(0, len(counts), window)
        statistic, more = pearson(np.add.reduceat(counts, edges), np.add.reduceat(time, edges))
        total, freedom = total + statistic, freedom + max(more, 0)
    return total / freedom if freedom else 1.0


def level_change(values: ArrayLike) -> Onset | None:
    """Return the change of a level, by ranks; ``None`` with fewer than ten values."""
    from scipy.stats import rankdata

    x = np.asarray(values, dtype=np.float64)
    n = len(x)
    if n < 10:
        return None
    sums = np.abs(2 * np.cumsum(rankdata(x))[:-1] - np.arange(1, n) * (n + 1))
    at = int(sums.argmax()) + 1
    levels = np.where(np.arange(n) < at, np.median(x[:at]), np.median(x[at:]))
    slope, height = np.polyfit(np.arange(n), x, 1)
    line = height + slope * np.arange(n)
    steady = bool(((x - line) ** 2).sum() < ((x - levels) ** 2).sum())
    # Correlated values are as good as so many fewer independent ones; what rises or falls all the time is no noise.
    rest = x - _monotone(x if slope > 0 else -x) * (1 if slope > 0 else -1)
    shared = float(rest[1:] @ rest[:-1] / max(float(rest @ rest), 1e-300))
    wider = (1 + shared) / (1 - shared) if 0 < shared < 1 else 1.0
    chance = min(2 * math.exp(-6 * float(sums[at - 1]) ** 2 / ((n**3 + n**2) * wider)), 1.0)
    ends = max(3, n // 20)
    first, last = (x[:ends], x[-ends:]) if steady else (x[:at], x[at:])
    return Onset(at, float(np.median(first)), float(np.median(last)), chance, steady)


def _monotone(values: Array) -> Array:
    """Return the rising values that are nearest to some in squares: neighbours that fall are pooled."""
    pools: list[tuple[float, int]] = []
    for value in values.tolist():
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            (late, many), (early, few) = pools.pop(), pools.pop()
            pools.append(((late * many + early * few) / (many + few), many + few))
    return np.concatenate([np.full(count, mean) for mean, count in pools])


# Persistent differences between units, model-free.


def split_half(first: ArrayLike, second: ArrayLike) -> Estimate:
    """Return the squared coefficient of variation of rates that lasts from one half of the window to the other.

    V = Cov(n_a, n_b) / (mean n_a mean n_b): what repeats within a half has no part in it. The interval has the values
    that are within 1.96 standard errors of ln(1 + V). The error is the larger of the one that the units show and the
    one that a Gamma law of that V would give: a few nodes carry most of it, and where they are missing in the data,
    low values come with small errors, so that a bootstrap holds the truth in 90 to 93 %.

    Parameters
    ----------
    first, second
        Events of each unit in the two halves, shape (units,).
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if (a > 0).sum() < 2 or (b > 0).sum() < 2:
        return Estimate(math.nan)
    product, means, root = a * b, (float(a.mean()), float(b.mean())), math.sqrt(len(a))
    value = float(product.mean()) / (means[0] * means[1]) - 1
    # Half an event where no unit failed in both halves.
    middle = math.log(max(float(product.sum()), 0.5) / len(a) / (means[0] * means[1]))
    measured = 0.0
    if product.any():
        measured = float(np.std(product / product.mean() - a / means[0] - b / means[1], ddof=1)) / root
    noise = [max(x.var() / mean - mean * max(value, 0.0), 1.0) / mean for x, mean in zip((a, b), means, strict=True)]

    def error(log: float) -> float:
        cv2 = max(math.expm1(log), 0.0)
        return max(measured, math.sqrt(_variance_of_product(cv2, *noise)) / root / (1 + cv2))

    edges = []
    for sign, far in ((-1, middle - 2 * error(middle)), (1, math.log1p(MOST_CV2))):
        inner, outer = middle, max(far, middle) if sign > 0 else far
        for _ in range(40):
            log = (inner + outer) / 2
            inner, outer = (log, outer) if sign * (log - middle) < 1.96 * error(log) else (inner, log)
        edges.append(math.expm1(outer))
    return Estimate(value, min(edges[0], value), edges[1])


LEAST_CV2, MOST_CV2 = 1e-3, 20.0
"""Squared variation [-] below which units are equal, and above which nothing is asked for."""

LEAST_RELAPSE, MOST_RELAPSE = 1e-3, 0.99
"""Probability of a relapse [-]: beyond it, a repair never holds."""


def _variance_of_product(cv2: float, first: float, second: float) -> float:
    """Return the variance of x y - (1 + V)(x + y) of one unit; x and y are counts over their means.

    Given z of a Gamma law with mean 1 and variance V, x has mean z and variance `first` z, y has `second` z.
    """
    m2, both = 1 + cv2, first + second
    m3 = m2 * (1 + 2 * cv2)
    m4 = m3 * (1 + 3 * cv2)
    between = m4 - m2**2 - 4 * m2 * (m3 - m2) + 4 * m2**2 * cv2
    within = first * second * m2 + both * m3 + m2**2 * both - 2 * m2 * both * m2
    return between + within


# Frailty and relapse together. After a return the next failure at tau has survival exp(-mu z tau) (1 - p F(tau)), with
# F log-normal; the first spell of a unit has p = 0; z ~ Gamma(k, 1/k) belongs to the unit.


@dataclass(frozen=True)
class UpTimes:
    """Stretches in which a unit was up, sorted by unit, shape (n,) each.

    `unit` is its number and `time` the length; `failed` says whether a failure ended it, and `after` whether it began
    with a return after one. `units` counts all units, those without a failure too.
    """

    unit: NDArray[np.int64]
    time: Array
    failed: NDArray[np.bool_]
    after: NDArray[np.bool_]
    units: int


@dataclass(frozen=True)
class Clustering:
    """Fits of the model with and without frailty and relapse.

    Parameters
    ----------
    name
        ``poisson``, ``frailty``, ``relapse`` or ``both``.
    mu
        Background rate [1/time].
    probability, median, sigma
        Of relapse; zero without.
    cv2
        Squared coefficient of variation of the frailty [-]; zero without.
    """

    name: str
    mu: float
    probability: float = 0.0
    median: float = 0.0
    sigma: float = 0.0
    cv2: float = 0.0
    log_likelihood: float = -math.inf

    @property
    def free(self) -> int:
        """Parameters that were fitted."""
        return 1 + 3 * (self.probability > 0) + (self.cv2 > 0)

    @property
    def aic(self) -> float:
        """2 (parameters - log-likelihood)."""
        return 2 * (self.free - self.log_likelihood)


FEW_FACTORS = 8
"""Factors of a likelihood that are multiplied before a logarithm is taken."""

POINTS = 40
"""Values of the frailty over which a likelihood is averaged, of equal probability."""


class _Free(NamedTuple):
    """The free parameters in addition to the rate, as numbers without bounds; and the frailty where it is not free."""

    relapse: bool
    frailty: bool
    cv2: float = 0.0

    def point(self, fit: Clustering) -> list[float]:
        """Return the numbers of a fit."""
        point = [math.log(fit.mu)]
        if self.relapse:
            probability = min(max(fit.probability, LEAST_RELAPSE), MOST_RELAPSE)
            point += [_logit(probability), math.log(max(fit.median, 1e-9)), math.log(max(fit.sigma, LEAST_SIGMA))]
        return [*point, math.log(max(fit.cv2, LEAST_CV2))] if self.frailty else point

    def parameters(self, p: Array) -> tuple[float, float, float, float, float]:
        """Return mu, probability, median, sigma and cv2 of numbers."""
        rest = (1 / (1 + math.exp(-p[1])), math.exp(p[2]), math.exp(p[3])) if self.relapse else (0.0, 0.0, 0.0)
        return math.exp(p[0]), *rest, math.exp(p[-1]) if self.frailty else self.cv2


def _logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


class ClusterModel:
    """The likelihood of spells, and its best points."""

    def __init__(self, spells: UpTimes) -> None:
        self.spells = spells
        self.events = int(spells.failed.sum())
        self.exposure = float(spells.time.sum())
        by_unit = functools.partial(np.bincount, minlength=spells.units)
        self._time_of = np.asarray(by_unit(spells.unit, weights=spells.time), dtype=np.float64)
        self._count_of = by_unit(spells.unit[spells.failed]).astype(np.float64)
        after = spells.after & (spells.time > 0)
        self._log_after = np.log(np.maximum(spells.time[after], 1e-9))
        self._after_failed = spells.failed[after]
        unit = spells.unit[after][self._after_failed]
        self._plain_of = by_unit(spells.unit[spells.failed & ~after]).astype(np.float64)
        # Events of a unit in rows of a few: a row needs one logarithm, and its product cannot overflow.
        _, begins = np.unique(unit, return_index=True)
        within = np.arange(len(unit)) - np.repeat(begins, np.diff(begins, append=len(unit)))
        self._place = within % FEW_FACTORS, np.cumsum(within % FEW_FACTORS == 0) - 1
        self._row_unit = unit[self._place[0] == 0]
        # What is empty in a row is a factor z too many.
        self._factors_of = self._plain_of - (by_unit(self._row_unit) * FEW_FACTORS - by_unit(unit))
        self._span = max(float(spells.time.max(initial=1.0)), 1e-6)

    def log_likelihood(self, mu: float, probability: float, median: float, sigma: float, cv2: float) -> float:
        """Return the log-likelihood of a point; relapse is left out at probability 0, frailty at cv2 0."""
        if not probability:
            if not cv2:
                return self.events * math.log(mu) - mu * self.exposure
            shape = 1 / cv2
            return _gamma_poisson(self._count_of, self._time_of, shape, shape / mu)
        alive, again = self._relapsing(probability, median, sigma)
        survived = float(np.log(alive).sum())
        if not cv2:
            plain = float(self._plain_of.sum())
            return survived - mu * self.exposure + plain * math.log(mu) + float(np.log(mu + again).sum())
        values = _frailties(cv2)
        by_unit = np.empty((len(values), self.spells.units))
        table = np.zeros((FEW_FACTORS, len(self._row_unit)))
        table[self._place] = again / mu
        for z, row in zip(values.tolist(), by_unit, strict=True):
            product = table[0] + z
            for factors in table[1:]:
                product *= factors + z
            row[:] = np.bincount(self._row_unit, np.log(product), self.spells.units)
            row += self._factors_of * math.log(z) - mu * z * self._time_of
        highest = by_unit.max(axis=0)
        mean = np.log(np.exp(by_unit - highest).mean(axis=0))
        return survived + self.events * math.log(mu) + float((highest + mean).sum())

    def fit(self, name: str, start: Clustering | None = None) -> Clustering:
        """Return the best point of a model."""
        free = _Free(name in ("relapse", "both"), name in ("frailty", "both"))
        mean = max(self.events, 0.5) / self.exposure
        if not any(free):
            return self._at(name, np.array([math.log(mean)]), free)
        guesses = [(0.0, 1.0)]
        if free.relapse:
            times = self._log_after[self._after_failed]
            soon = math.exp(float(np.quantile(times, 0.02))) if self._row_unit.size else 1.0
            guesses = [(0.2, self._span / 300), (0.3, self._span / 30), (0.02, soon)]
        starts = [Clustering(name, mean * (1 - again), again, median, 1.5, 0.5) for again, median in guesses]
        starts = starts[:3] if start is None else [start, starts[0]]
        return max((self._best(begin, free, name) for begin in starts), key=lambda fit: fit.log_likelihood)

    def _best(self, start: Clustering, free: _Free, name: str) -> Clustering:
        """Return the best point that is found from another one."""
        best = _minimum(lambda p: -self._value(p, free), free.point(start), self._box(free))
        return self._at(name, np.asarray(best), free)

    def _value(self, p: Array, free: _Free) -> float:
        return self.log_likelihood(*free.parameters(p))

    def _box(self, free: _Free) -> list[tuple[float, float]]:
        """Return the bounds of a point: what a window can tell, and what a scenario may state; of draws too."""
        mean, span = math.log(max(self.events, 0.5) / self.exposure), math.log(self._span)
        box = [(mean - 30, mean + 5)]
        if free.relapse:
            box += [(_logit(LEAST_RELAPSE), _logit(MOST_RELAPSE)), (span - 6 * math.log(10), span)]
            box.append((LOG_SIGMA[0], math.log(5)))
        if free.frailty:
            box.append((math.log(LEAST_CV2), math.log(MOST_CV2)))
        return box

    def repeats(self, fit: Clustering) -> float:
        """Return how many of the failures after a return are relapses by a fit [-]."""
        if not fit.probability:
            return 0.0
        _, again = self._relapsing(fit.probability, fit.median, fit.sigma)
        return float((again / (fit.mu + again)).sum())

    def _relapsing(self, probability: float, median: float, sigma: float) -> tuple[Array, Array]:
        """Return the chance of no relapse in each spell after a return, and its hazard where the spell failed."""
        from scipy.special import ndtr

        x = (self._log_after - math.log(median)) / sigma
        # 1 - p F, from the side that keeps its digits.
        alive = (1 - probability) + probability * ndtr(-x)
        density = probability * np.exp(-x * x / 2 - self._log_after) / (sigma * math.sqrt(2 * math.pi))
        return alive, (density / alive)[self._after_failed]

    def _at(self, name: str, p: Array, free: _Free) -> Clustering:
        return Clustering(name, *free.parameters(p), log_likelihood=self._value(p, free))

    def upper_cv2(self, best: Clustering) -> float:
        """Return the upper 95 % limit of the frailty's squared variation, the other parameters at their best for it."""

        def profile(log_cv2: float) -> float:
            return self.held(best, math.exp(log_cv2)).log_likelihood

        low = math.log(max(best.cv2, 1e-3))
        high = low
        while high < math.log(MOST_CV2) and profile(high) > best.log_likelihood - BORDER / 2:
            high += 0.35
        before = max(high - 0.35, low)
        for _ in range(5):
            middle = (before + high) / 2
            if profile(middle) > best.log_likelihood - BORDER / 2:
                before = middle
            else:
                high = middle
        return math.exp(before)

    def held(self, best: Clustering, cv2: float) -> Clustering:
        """Return the best point at a given squared variation of the frailty."""
        return self._best(best, _Free(best.probability > 0, frailty=False, cv2=cv2), best.name)

    def draws(self, best: Clustering, count: int, seed: int = 0, lasting: Estimate | None = None) -> list[Clustering]:
        """Return joint draws of the parameters around the best point, the first one that point.

        Drawn from a Student law with the curvature of the likelihood, weighted by the likelihood, and resampled: as in
        importance resampling (D. Rubin, 1988), with a flat prior on the scale on which each parameter is estimated.
        Where the frailty is that of `lasting`, it is drawn from its interval, and the others around the best point.
        """
        is_free = best.cv2 > 0 and lasting is None
        free = _Free(best.probability > 0, is_free, 0.0 if lasting is None else best.cv2)
        centre = np.asarray(free.point(best))
        root = _curvature(functools.partial(self._value, free=free), centre)
        generator = np.random.default_rng(seed)
        proposals = (4 if self.events < MANY else 2) * count
        normal = generator.standard_normal((proposals, len(centre)))
        freedom = 6.0
        scale = np.sqrt(freedom / generator.chisquare(freedom, proposals))
        points = centre + (normal * scale[:, None]) @ root.T
        log_proposal = -(freedom + len(centre)) / 2 * np.log1p(((normal * scale[:, None]) ** 2).sum(axis=1) / freedom)
        low, high = np.array(self._box(free)).T
        points[0] = centre
        is_inside = ((points >= low - 1e-9) & (points <= high + 1e-9)).all(axis=1)
        values = np.full(len(points), -math.inf)
        values[is_inside] = [self._value(p, free) for p in points[is_inside]]
        weights = values - log_proposal
        weights = np.exp(weights - weights.max())
        cumulative = np.cumsum(weights) / weights.sum()
        chosen = np.searchsorted(cumulative, (np.arange(count - 1) + generator.random()) / (count - 1))
        fits = [
            Clustering(best.name, *free.parameters(points[at]), log_likelihood=values[at])
            for at in np.minimum(chosen, len(points) - 1)
        ]
        if lasting is not None:
            spread = math.log(lasting.high / lasting.low) / 3.92
            cv2 = best.cv2 * np.exp(spread * generator.standard_normal(len(fits)))
            fits = [replace(a, cv2=float(b)) for a, b in zip(fits, np.clip(cv2, LEAST_CV2, MOST_CV2), strict=True)]
        order = generator.permutation(len(fits))
        return [best, *(fits[at] for at in order)]


@functools.lru_cache(maxsize=64)
def _frailties(cv2: float) -> Array:
    """Return values of the frailty of equal probability [-], shape (POINTS,), with mean 1."""
    from scipy.special import gammaincinv

    shape = 1 / cv2
    z = np.maximum(np.asarray(gammaincinv(shape, (np.arange(POINTS) + 0.5) / POINTS)) / shape, 1e-9)
    return np.asarray(z / z.mean())


class ClusteringVerdict(NamedTuple):
    """The clustering of failures by unit: the four fits by name, the one to use, and the answer in a word.

    ``frailty`` and ``relapse`` are ``yes``, ``no`` or ``undecided``; ``upper_cv2`` is the upper limit of what may be
    hidden where frailty is not in the model. It is ``contradicted`` where the likelihood asks for another frailty than
    lasts from one half of the window to the other: where none is sure to last the model has none, else what lasts.
    """

    fits: Mapping[str, Clustering]
    chosen: Clustering
    relapse: str
    frailty: str
    upper_cv2: float
    alternative: Clustering | None
    contradicted: bool = False


def _relapses(model: ClusterModel, fits: Mapping[str, Clustering]) -> str:
    """Return whether failures repeat after repairs: ``yes``, ``no`` or ``undecided``."""
    best = min(fits.values(), key=lambda fit: fit.aic)
    if not _is_better(fits):
        return "no"
    spells = model.spells
    after = ClusterModel(
        UpTimes(spells.unit[spells.after], spells.time[spells.after], spells.failed[spells.after],
               spells.after[spells.after], spells.units)
    )  # fmt: skip
    if not _is_better({name: after.fit(name, fits.get(name)) for name in ("poisson", "frailty", "relapse")}):
        return "no"
    return "yes" if model.repeats(best) >= FEW else "undecided"


def _is_better(fits: Mapping[str, Clustering]) -> bool:
    """Return whether fits with a relapse are better than those without, by their AIC."""
    without, with_ = (min(fit.aic for fit in fits.values() if bool(fit.probability) is has) for has in (False, True))
    return with_ < without - BETTER


HIDDEN = 0.1
"""Squared variation [-] that must be ruled out before nodes count as equal."""


def clustering(spells: UpTimes, lasting: Estimate | None = None) -> ClusteringVerdict:
    """Fit units that are equal or not, and repairs that hold or not, in all four combinations, and choose.

    Relapse is taken if it lowers the AIC by more than `BETTER`, with the first spell of each unit and without: it is
    unknown whether a first spell followed a failure. Fewer than `FEW` relapses are undecided. Frailty is taken if, with
    relapse, its likelihood ratio is above 2.71. If it is not and its upper limit is above `HIDDEN`, the answer is
    "undecided", and the fit with both is the alternative. With fewer than `SOME` failures nothing but the rate is
    fitted.

    Parameters
    ----------
    lasting
        Squared variation that lasts from one half of the window to the other (`split_half`). What a frailty above its
        upper end describes does not stay; one below its lower end misses a few nodes that are much worse than a Gamma
        law of all of them has room for. Then its value is taken if the interval is above zero; if not, no frailty.
    """
    model = ClusterModel(spells)
    poisson = model.fit("poisson")
    if model.events < SOME:
        return ClusteringVerdict({"poisson": poisson}, poisson, "undecided", "undecided", math.nan, None)
    frailty = model.fit("frailty")
    relapse = model.fit("relapse")
    seed = replace(relapse, cv2=max(frailty.cv2 / 3, 0.1)) if relapse.probability else None
    both = model.fit("both", seed)
    fits = {fit.name: fit for fit in (poisson, frailty, relapse, both)}
    word = _relapses(model, fits)
    without, with_ = (relapse, both) if word == "yes" else (poisson, frailty)
    if 2 * (with_.log_likelihood - without.log_likelihood) <= BORDER:
        upper = model.upper_cv2(with_)
        is_hidden = upper > HIDDEN
        frail = "undecided" if is_hidden else "no"
        return ClusteringVerdict(fits, without, word, frail, upper, with_ if is_hidden else None)
    if lasting is not None and lasting.low > 0 and not lasting.low <= with_.cv2 <= lasting.high:
        chosen = model.held(with_, lasting.value)
        return ClusteringVerdict(fits, chosen, word, "yes", with_.cv2, None, contradicted=True)
    if lasting is not None and with_.cv2 > lasting.high:
        return ClusteringVerdict(fits, without, word, "undecided", with_.cv2, with_, contradicted=True)
    return ClusteringVerdict(fits, with_, word, "yes", math.nan, None)


# Optimisation.


def _minimum(
    function: Callable[[Array], float], start: Sequence[float], box: Sequence[tuple[float, float]]
) -> list[float]:
    """Return where in a box a function is least: by its slope, and then without it where that stops early."""
    from scipy.optimize import minimize

    begin = np.clip(np.asarray(start, dtype=np.float64), *np.array(box).T)
    minimum = minimize(function, begin, method="L-BFGS-B", bounds=box, options={"ftol": 1e-12})
    if minimum.success:
        return [float(x) for x in minimum.x]
    simplex = np.clip(np.vstack([minimum.x, minimum.x + 0.05 * np.eye(len(minimum.x))]), *np.array(box).T)
    options: Any = {"initial_simplex": simplex, "xatol": 1e-4, "fatol": 1e-5, "maxfev": 60 * len(minimum.x)}
    refined = minimize(function, minimum.x, method="Nelder-Mead", bounds=box, options=options)
    return [float(x) for x in (refined if refined.fun < minimum.fun else minimum).x]


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function that rises, or falls, is zero; where it is not between two bounds, the nearer one."""
    from scipy.optimize import brentq

    at_low, at_high = function(low), function(high)
    if at_low * at_high >= 0:
        return low if abs(at_low) < abs(at_high) else high
    return float(brentq(function, low, high, xtol=1e-12))


def _curvature(function: Callable[[Array], float], point: Array) -> Array:
    """Return a root of the inverse of minus the second derivatives, shape (n, n); flat directions in bounds."""
    n = len(point)
    step = 1e-2
    hessian = np.empty((n, n))
    basis = step * np.eye(n)
    centre = function(point)
    for i in range(n):
        for j in range(i + 1):
            if i == j:
                value = (function(point + basis[i]) - 2 * centre + function(point - basis[i])) / step**2
            else:
                corners = (function(point + a * basis[i] + b * basis[j]) * a * b for a in (1, -1) for b in (1, -1))
                value = sum(corners) / (4 * step**2)
            hessian[i, j] = hessian[j, i] = value
    values, vectors = np.linalg.eigh(-hessian)
    return np.asarray(vectors * (1 / np.sqrt(np.clip(values, 0.15, None))))

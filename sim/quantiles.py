"""Quantiles and cumulative hazards of laws: functions of plain numbers.

There is one evaluation of a draw. The event engine calls these functions as they are, the compiled engine compiles
them. So they hold floats, integers and `math` only, and nothing that raises in one of the two and not in the other. The
bits agree because `math` and compiled code call the same C library; numpy's vector forms of exp, log and pow differ.

A law is a flat sequence of floats (tuple or array), so that all laws of a scenario fit into one array. The law at the
index `at` begins with its kind. Counts and offsets are floats too; offsets count from `at`.

============== ======================================================================================================
GAMMA_POWER    scale [s], stages, power: X = scale G^(1 / power), G gamma with shape `stages` and scale 1
LOGNORMAL      mu, sigma: mean and standard deviation of ln X
UNIFORM        low [s], high [s]
STEPS          n; n values [s] in ascending order; their n partial sums [s]
PIECEWISE      n; E[X] [s]; n of each: start of the piece [s], length [s], hazard [1/s], cumulative hazard at the start,
               E[X; X before the start] [s]; n + 1 of the time lived from a piece on [s], the last 0
MIXTURE        m parts, k breaks; m x (share of units, share of the time lived, offset of the part's law);
               k of each: time [s], cumulative hazard there and just before, the same two of the length-biased law;
               then the laws of the parts
============== ======================================================================================================

References
----------
M. J. Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics 37 (1988).
T. R. Chandrupatla, "A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear function without
using derivatives", Advances in Engineering Software 28 (1997).
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

GAMMA_POWER, LOGNORMAL, UNIFORM, STEPS, PIECEWISE, MIXTURE = range(6)

_TINY, _HUGE = sys.float_info.min, sys.float_info.max

_EPSILON = sys.float_info.epsilon

_MOST = 1 - 2.0**-53
"""The last float below 1."""

_FAR_HAZARD = 20.0
"""Beyond this cumulative hazard the quantile has no digits left to tell lives apart."""


def quantile(p: Sequence[float], at: int, u: float) -> float:
    """Return the smallest x [s] with P(X <= x) >= u, of u in (0, 1)."""
    if p[at] != MIXTURE:
        return _plain_quantile(p, at, u)
    low, high = math.inf, 0.0
    for part in range(int(p[at + 1])):
        time = _plain_quantile(p, at + int(p[at + 5 + 3 * part]), u)
        low, high = min(low, time), max(high, time)
    return _inverted(p, at, u, low, high, False)


def biased_quantile(p: Sequence[float], at: int, u: float) -> float:
    """Return the quantile [s] of the length-biased law, whose density is x f(x) / E[X]."""
    if p[at] != MIXTURE:
        return _plain_biased_quantile(p, at, u)
    low, high = math.inf, 0.0
    for part in range(int(p[at + 1])):
        if p[at + 4 + 3 * part] > 0:
            time = _plain_biased_quantile(p, at + int(p[at + 5 + 3 * part]), u)
            low, high = min(low, time), max(high, time)
    return _inverted(p, at, u, low, high, True)


def cumulative_hazard(p: Sequence[float], at: int, x: float, biased: bool) -> float:
    """Return -ln P(X > x) [-] of the law, or of the length-biased law."""
    if p[at] != MIXTURE:
        return _plain_hazard(p, at, x, biased)
    below = above = 0.0
    for part in range(int(p[at + 1])):
        share = p[at + 4 + 3 * part] if biased else p[at + 3 + 3 * part]
        if share > 0:
            hazard = _plain_hazard(p, at + int(p[at + 5 + 3 * part]), x, biased)
            below -= share * math.expm1(-hazard)
            above += share * math.exp(-hazard)
    return hazard_of(below, above)


def age_at_hazard(p: Sequence[float], at: int, hazard: float, after: float) -> float:
    """Return the age [s] at which a cumulative hazard [-] is reached, known to be later than `after` [s]."""
    if hazard <= _FAR_HAZARD:
        return quantile(p, at, -math.expm1(-hazard))
    low, high = after, max(2 * after, quantile(p, at, _MOST))
    while cumulative_hazard(p, at, high, False) < hazard:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        if cumulative_hazard(p, at, middle, False) < hazard:
            low = middle
        else:
            high = middle
    return high


def hazard_number(u: float, ratio: float) -> float:
    """Return the uniform number whose life is that of a unit with another hazard.

    A unit with the hazard ratio r survives x with probability P(X > x)^r. Its life is therefore the quantile of
    1 - (1 - u)^(1 / r), for every law (D. R. Cox, "Regression models and life-tables", 1972). A float holds no number
    between 1 - 2^-53 and 1: a longer life (36.7 means of an exponential law) is as long as that quantile.
    """
    return min(max(-math.expm1(math.log1p(-u) / ratio), _TINY), _MOST)


def hazard_of(below: float, above: float) -> float:
    """Return -ln P(X > x) [-] of P(X <= x) and P(X > x), by the smaller of the two."""
    if below < 0.5:
        return -math.log1p(-below)
    return -math.log(above) if above > 0 else math.inf


# The laws that are no mixtures.


def _plain_quantile(p: Sequence[float], at: int, u: float) -> float:
    kind = p[at]
    if kind == GAMMA_POWER:
        stages = p[at + 2]
        stage = -math.log1p(-u) if stages == 1 else gamma_quantile(stages, u)
        return p[at + 1] * (stage if p[at + 3] == 1 else math.pow(stage, 1 / p[at + 3]))
    if kind == LOGNORMAL:
        return math.exp(p[at + 1] + p[at + 2] * normal_quantile(u))
    if kind == UNIFORM:
        return p[at + 1] + u * (p[at + 2] - p[at + 1])
    count = int(p[at + 1])
    if kind == STEPS:  # the order statistic of rank ceil(u n)
        return p[at + 1 + math.ceil(u * count)]
    # Where the cumulative hazard reaches -ln(1 - u).
    target = -math.log1p(-u)
    hazards = at + 3 + 3 * count
    piece = _search(p, hazards + 1, count - 1, target)
    return p[at + 3 + piece] + (target - p[hazards + piece]) / p[at + 3 + 2 * count + piece]


def _plain_biased_quantile(p: Sequence[float], at: int, u: float) -> float:
    kind = p[at]
    if kind == GAMMA_POWER:  # the factor x of the density adds to the exponent of G
        return p[at + 1] * math.pow(gamma_quantile(p[at + 2] + 1 / p[at + 3], u), 1 / p[at + 3])
    if kind == LOGNORMAL:
        return _plain_quantile(p, at, u) * math.exp(p[at + 2] * p[at + 2])
    if kind == UNIFORM:
        low, high = p[at + 1] * p[at + 1], p[at + 2] * p[at + 2]
        return math.sqrt(low + u * (high - low))
    count = int(p[at + 1])
    if kind == STEPS:  # each value weighs in proportion to itself; searching from the left passes over zeros
        sums = at + 2 + count
        return p[at + 2 + _search(p, sums, count, u * p[sums + count - 1])]
    last, rate = p[at + 2 + count], p[at + 2 + 3 * count]
    more = max(-math.log1p(-u) - _plain_hazard(p, at, last, True), 0.0)
    # What is left in the last piece is at most a sum of two exponential times: z - ln(1 + z) = more.
    return _inverted(p, at, u, _plain_quantile(p, at, u), last + 2 * (more + math.sqrt(more)) / rate, True)


def _plain_hazard(p: Sequence[float], at: int, x: float, biased: bool) -> float:
    kind = p[at]
    if x < 0.0:
        return 0.0
    if kind == GAMMA_POWER:
        scale, stages, power = p[at + 1], p[at + 2], p[at + 3]
        if x > scale and power * math.log(x / scale) > 709.0:
            return math.inf
        reduced = math.pow(x / scale, power)
        if biased:
            stages += 1 / power
        if stages == 1:
            return reduced
        return hazard_of(gamma_below(stages, reduced), gamma_above(stages, reduced))
    if kind == LOGNORMAL:
        if x == 0.0:
            return 0.0
        mu = p[at + 1] + p[at + 2] * p[at + 2] if biased else p[at + 1]
        return _normal_hazard((math.log(x) - mu) / p[at + 2])
    if kind == UNIFORM:
        low, high = p[at + 1], p[at + 2]
        x = min(max(x, low), high)
        below, above = (x - low) / (high - low), (high - x) / (high - low)
        if biased:  # a difference of squares is the difference times the sum
            below *= (x + low) / (high + low)
            above *= (high + x) / (high + low)
        return hazard_of(below, above)
    return _steps_hazard(p, at, x, biased) if kind == STEPS else _piecewise_hazard(p, at, x, biased)


def _steps_hazard(p: Sequence[float], at: int, x: float, biased: bool) -> float:
    count = int(p[at + 1])
    rank = _search_right(p, at + 2, count, x)
    below = rank / count
    if biased:
        below = p[at + 1 + count + rank] / p[at + 1 + 2 * count] if rank else 0.0
    return hazard_of(below, 1 - below)


def _piecewise_hazard(p: Sequence[float], at: int, x: float, biased: bool) -> float:
    count = int(p[at + 1])
    piece = _search_right(p, at + 3, count, x) - 1
    start, length, rate = p[at + 3 + piece], p[at + 3 + count + piece], p[at + 3 + 2 * count + piece]
    hazard = p[at + 3 + 3 * count + piece]
    alive = math.exp(-hazard)
    hazard += rate * (x - start)
    if not biased:
        return hazard
    # Below x: who has died; above: what the survivors have lived by then, and what they live after it.
    below, above = p[at + 3 + 4 * count + piece], p[at + 4 + 5 * count + piece]
    if rate > 0:
        risk = rate * (x - start)
        below += alive * (-math.expm1(-risk) * start + two_stages_below(risk) / rate)
        above += math.exp(-hazard) * (x - math.expm1(-rate * (start + length - x)) / rate)
    else:
        above += math.exp(-hazard) * (start + length)
    return hazard_of(below / p[at + 2], above / p[at + 2])


def _inverted(p: Sequence[float], at: int, u: float, low: float, high: float, biased: bool) -> float:
    """Return the smallest x [s] in [low, high] with P(X <= x) >= u: exact at the breaks, else right to about 1e-14."""
    target = -math.log1p(-u)
    low = max(low, _TINY)
    if p[at] == MIXTURE:
        parts, count = int(p[at + 1]), int(p[at + 2])
        times = at + 3 + 3 * parts
        hazards = times + (3 * count if biased else count)
        place = _search(p, hazards, count, target)
        if place > 0:
            low = max(low, p[times + place - 1])
        if place < count:
            if target > p[hazards + count + place]:
                return p[times + place]
            high = min(max(high, low), p[times + place])
    return _root(p, at, math.log(target), low, max(high, low), biased)


def _root(p: Sequence[float], at: int, goal: float, low: float, high: float, biased: bool) -> float:
    """Return where between two breaks [s] ln H reaches `goal`.

    There ln H over ln x is smooth (straight for a Weibull law), so that few steps of Chandrupatla's method find the
    last digits.
    """
    a, b = math.log(low), math.log(high)
    f_a, f_b = _miss(p, at, a, goal, biased), _miss(p, at, b, goal, biased)
    if f_a >= 0:  # without a change of sign the answer is one of the ends, to rounding
        return low
    if f_b <= 0:
        return high
    step = 0.5
    for _ in range(200):
        x = a + step * (b - a)
        f_x = _miss(p, at, x, goal, biased)
        if (f_x > 0) == (f_a > 0):
            c, f_c = a, f_a
        else:
            c, f_c = b, f_b
            b, f_b = a, f_a
        a, f_a = x, f_x
        best, f_best = (a, f_a) if abs(f_a) < abs(f_b) else (b, f_b)
        tolerance = _EPSILON * (2 + abs(best))
        if f_best == 0 or abs(b - a) <= 2 * tolerance:
            break
        xi, phi = (a - b) / (c - b), (f_a - f_b) / (f_c - f_b)
        step = 0.5
        if phi * phi < xi and (1 - phi) * (1 - phi) < 1 - xi:
            step = f_a / (f_b - f_a) * f_c / (f_b - f_c) + (c - a) / (b - a) * f_a / (f_c - f_a) * f_b / (f_c - f_b)
        edge = tolerance / abs(b - a)
        step = min(max(step, edge), 1 - edge)
    return min(max(math.exp(best), low), high)


def _miss(p: Sequence[float], at: int, log_x: float, goal: float, biased: bool) -> float:
    return math.log(min(max(cumulative_hazard(p, at, math.exp(log_x), biased), _TINY), _HUGE)) - goal


def _search(p: Sequence[float], first: int, count: int, value: float) -> int:
    """Return how many of `count` ascending numbers from `first` on are less than a value."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if p[first + middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


def _search_right(p: Sequence[float], first: int, count: int, value: float) -> int:
    """Return how many of `count` ascending numbers from `first` on are at most a value."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if p[first + middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


def two_stages_below(x: float) -> float:
    """Return P(2, x) = 1 - (1 + x) exp(-x) [-], without cancellation."""
    if x > 700:
        return 1.0
    if x > 1:
        return -math.expm1(-x) - x * math.exp(-x)
    term = total = 0.5
    for number in range(3, 20):
        term *= x / number
        total += term
    return total * x * x * math.exp(-x)


# Special functions. The three of the gamma law are scipy's: a compiled caller takes the same machine code from
# `scipy.special.cython_special`.


def gamma_below(stages: float, x: float) -> float:
    """Return P(stages, x), the regularised lower incomplete gamma function [-]."""
    from scipy.special.cython_special import gammainc

    return gammainc(stages, x)


def gamma_above(stages: float, x: float) -> float:
    """Return Q(stages, x) = 1 - P(stages, x) [-]."""
    from scipy.special.cython_special import gammaincc

    return gammaincc(stages, x)


def gamma_quantile(stages: float, u: float) -> float:
    """Return x with P(stages, x) = u [-]."""
    from scipy.special.cython_special import gammaincinv

    return gammaincinv(stages, u)


def _normal_hazard(z: float) -> float:
    """Return -ln P(Z > z) of the standard normal law [-]."""
    if z < 37.0:
        return hazard_of(math.erfc(-z * _ROOT_HALF) / 2, math.erfc(z * _ROOT_HALF) / 2)
    y = 1 / (z * z)  # the asymptotic series of Mills' ratio: right to 1e-13 of the hazard
    return z * z / 2 + math.log(z) + _HALF_LOG_TWO_PI - math.log1p(-y * (1 - y * (3 - 15 * y)))


_ROOT_HALF = math.sqrt(0.5)
_HALF_LOG_TWO_PI = math.log(2 * math.pi) / 2


def normal_quantile(u: float) -> float:
    """Return z with P(Z <= z) = u of the standard normal law, to about 1e-16 of its value (Wichura's PPND16)."""
    # fmt: off
    q = u - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        over = (((((((2.5090809287301226727e3 * r + 3.3430575583588128105e4) * r + 6.7265770927008700853e4) * r
                  + 4.5921953931549871457e4) * r + 1.3731693765509461125e4) * r + 1.9715909503065514427e3) * r
                  + 1.3314166789178437745e2) * r + 3.3871328727963666080e0) * q
        under = (((((((5.2264952788528545610e3 * r + 2.8729085735721942674e4) * r + 3.9307895800092710610e4) * r
                   + 2.1213794301586595867e4) * r + 5.3941960214247511077e3) * r + 6.8718700749205790830e2) * r
                   + 4.2313330701600911252e1) * r + 1.0)
        return over / under
    r = math.sqrt(-math.log(u if q < 0 else 1 - u))
    if r <= 5.0:
        r -= 1.6
        over = (((((((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r + 2.41780725177450611770e-1) * r
                  + 1.27045825245236838258e0) * r + 3.64784832476320460504e0) * r + 5.76949722146069140550e0) * r
                  + 4.63033784615654529590e0) * r + 1.42343711074968357734e0)
        under = (((((((1.05075007164441684324e-9 * r + 5.47593808499534494600e-4) * r + 1.51986665636164571966e-2) * r
                   + 1.48103976427480074590e-1) * r + 6.89767334985100004550e-1) * r + 1.67638483018380384940e0) * r
                   + 2.05319162663775882187e0) * r + 1.0)
    else:
        r -= 5.0
        over = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 1.24266094738807843860e-3) * r
                  + 2.65321895265761230930e-2) * r + 2.96560571828504891230e-1) * r + 1.78482653991729133580e0) * r
                  + 5.46378491116411436990e0) * r + 6.65790464350110377720e0)
        under = (((((((2.04426310338993978564e-15 * r + 1.42151175831644588870e-7) * r
                   + 1.84631831751005468180e-5) * r + 7.86869131145613259100e-4) * r + 1.48753612908506148525e-2) * r
                   + 1.36929880922735805310e-1) * r + 5.99832206555887937690e-1) * r + 1.0)
    # fmt: on
    z = over / under
    return -z if q < 0 else z

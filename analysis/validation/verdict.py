r"""Whether a row holds: its sampling error, its limit, and one p-value of all rows that are independent.

One family-wise error rate is shared by all rows of the table with random numbers in them, also when only some of them
are simulated: of m such rows each may be a false alarm with a probability of ``FAMILY / m`` (Bonferroni). The sampling
error is then

.. math:: L = t_{n - 1}(1 - \text{FAMILY} / 2m) \cdot s / \sqrt{n}

with the standard error over n independent replications; for an inequality, the quantile of one side.

References
----------
Student, "The probable error of a mean", Biometrika 6 (1908). O. J. Dunn, "Multiple comparisons among means", Journal of
the American Statistical Association 56 (1961). R. A. Fisher, "Statistical Methods for Research Workers" (1932), section
21.1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

from ettrick.analysis.statistics.estimates import t_upper

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ettrick.analysis.validation.lab import MeasuredQuantity
    from ettrick.analysis.validation.table import PublishedRow

FAMILY = 0.001
"""Probability of a false alarm in the whole table [-]."""

LEAST = 1e-4
"""Smallest combined p-value that is not a failure [-]."""

SKIPPED = "reference data not present"
_TOO_FEW = "too few replications: the sampling error is larger than the tolerance"


class Verdict(NamedTuple):
    """The verdict of a row.

    Parameters
    ----------
    state
        ``pass``, ``fail``, or ``skipped`` where reference data are not there.
    published
        What others state: the value of the row, or what theory expects.
    estimate
        Ours; ``None`` where there is none.
    noise
        Half-width that the error rate of the table leaves to the row [unit of the row]; 0 where nothing is random.
    limit
        How far ours may be from what is published [unit of the row]. Of an inequality, how far it must be beyond it,
        and of a model that must miss, how far off it must be.
    p_value
        Probability of being off as far or farther by sampling error alone, for a row that is equal but for it [-]. The
        edge that the row states is taken off before, so that it is an upper bound.
    reason
        Why it failed or was skipped, where the numbers do not say it.
    """

    row: PublishedRow
    state: Literal["pass", "fail", "skipped"]
    published: float | None = None
    estimate: MeasuredQuantity | None = None
    noise: float = 0.0
    limit: float | None = None
    p_value: float | None = None
    reason: str = ""

    @property
    def delta(self) -> float | None:
        """Ours less what is published [unit of the row]; of an interval, what it is outside by."""
        if self.estimate is None or (self.published is None and self.row.tolerance.kind != "interval"):
            return None
        return _delta(self.row, self.estimate.value, self.published or 0.0)


def _delta(row: PublishedRow, ours: float, published: float) -> float:
    """Return ours less what is published [unit of the row]; of an interval, what it is outside by."""
    low, high = row.tolerance.low, row.tolerance.high
    return ours - (published if low is None or high is None else min(max(ours, low), high))


class Combined(NamedTuple):
    """The p-value of independent rows together, and how many they are."""

    rows: int
    p_value: float

    @property
    def holds(self) -> bool:
        """Whether sampling error may explain all of them together."""
        return self.p_value >= LEAST


def judge(row: PublishedRow, estimate: MeasuredQuantity, stochastic: int) -> Verdict:
    """Return whether ours is as near as the row asks for.

    Parameters
    ----------
    stochastic
        Rows of the whole table with random numbers in them, m.
    """
    published = row.value if row.value is not None else estimate.expected
    complaint = _unfit(row, estimate, published)
    if complaint:
        return failed(row, complaint, estimate)
    noise = noise_of(row, estimate, stochastic)
    expected = published or 0.0  # which an interval does without
    limit = _limit(row, expected, noise)
    verdict = Verdict(row, "pass", published, estimate, noise, limit)
    delta = _delta(row, estimate.value, expected)
    if row.tolerance.kind == "sampling":
        verdict = verdict._replace(p_value=_p_value(abs(delta) - row.tolerance.size, estimate))
    if not _holds(row, delta, limit):
        return verdict._replace(state="fail")
    return verdict._replace(state="fail", reason=_TOO_FEW) if _is_drowned(row, expected, noise) else verdict


def failed(row: PublishedRow, reason: str, estimate: MeasuredQuantity | None = None) -> Verdict:
    """Return the verdict on a row of which the numbers cannot be compared."""
    return Verdict(row, "fail", row.value, estimate, reason=reason)


def skipped(row: PublishedRow) -> Verdict:
    """Return the verdict on a row that needs what is not there."""
    return Verdict(row, "skipped", row.value, reason=SKIPPED)


def noise_of(row: PublishedRow, estimate: MeasuredQuantity, stochastic: int) -> float:
    """Return the half-width that the error rate of the table leaves to a row [unit of the row]."""
    if estimate.error == 0:
        return 0.0
    sides = 1 if row.tolerance.kind in ("at_least", "at_most") else 2
    return t_upper(FAMILY / sides / max(stochastic, 1), estimate.replications - 1) * estimate.error


def combined(verdicts: Iterable[Verdict]) -> Combined | None:
    """Return the p-value of all independent rows by Fisher's method: -2 sum ln p is chi-square with 2 k degrees.

    Edges are taken off the deviations before, so that it is an upper bound, and blind below the edges. Without such
    rows there is none.
    """
    values = [verdict.p_value for verdict in verdicts if verdict.row.independent and verdict.p_value is not None]
    if not values:
        return None
    from scipy.special import chdtrc

    statistic = -2.0 * sum(math.log(value) if value > 0 else -math.inf for value in values)
    return Combined(len(values), float(chdtrc(2 * len(values), statistic)) if math.isfinite(statistic) else 0.0)


def _unfit(row: PublishedRow, estimate: MeasuredQuantity, published: float | None) -> str:
    """Return why an estimate cannot be compared with anything; nothing if it can."""
    if not (math.isfinite(estimate.value) and math.isfinite(estimate.error)):
        return "ours is not a number"
    if published is None and row.tolerance.kind != "interval":
        return "neither the row nor its measure says what is expected"
    if published is not None and not math.isfinite(published):
        return "what is expected is not a number"
    if row.is_stochastic and estimate.replications < 2:
        return "it is random, and it takes two replications to say how much"
    if not row.is_stochastic and estimate.replications:
        return "its measure simulates, and the row states no replications"
    return ""


def _size(row: PublishedRow, published: float) -> float:
    """Return the tolerance without sampling error [unit of the row]."""
    tolerance = row.tolerance
    if tolerance.kind == "relative":
        return tolerance.size * abs(published)
    if tolerance.low is not None and tolerance.high is not None:
        return (tolerance.high - tolerance.low) / 2.0
    return tolerance.size


def _limit(row: PublishedRow, published: float, noise: float) -> float:
    """Return how far ours may be, or must be, from what is published [unit of the row]."""
    if row.tolerance.kind in ("at_least", "at_most", "interval"):
        return noise
    return _size(row, published) + noise


def _holds(row: PublishedRow, delta: float, limit: float) -> bool:
    """Return whether ours is where it should be; equality holds, but for a model that must miss."""
    # A value that is worked out to lie on the edge must not fall off it by the rounding of its last digit.
    edge = limit * (1.0 + 1e-9)
    if row.tolerance.kind == "at_least":
        return delta >= limit
    if row.tolerance.kind == "at_most":
        return delta <= -limit
    if row.tolerance.kind == "must_miss":
        return abs(delta) > edge
    return abs(delta) <= edge


def _is_drowned(row: PublishedRow, published: float, noise: float) -> bool:
    """Return whether the sampling error is larger than the tolerance it is added to, or than an equality allows."""
    if row.tolerance.kind == "sampling":
        # A share of nothing is nothing: where 0 is expected, the allowance is in the unit of the row.
        return noise > row.tolerance.most_noise * (abs(published) or 1.0)
    added = row.tolerance.kind in ("printed", "relative", "absolute", "interval")
    return added and noise > _size(row, published)


def _p_value(beyond: float, estimate: MeasuredQuantity) -> float:
    """Return the probability that sampling error puts a mean as far off, on either side [-]."""
    if beyond <= 0:
        return 1.0
    if estimate.error == 0:
        return 0.0
    from scipy.special import stdtr

    return 2.0 * float(stdtr(estimate.replications - 1, -beyond / estimate.error))

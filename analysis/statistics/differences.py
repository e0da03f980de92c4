"""Control variates: numbers of a replication whose means are known, and differences on common failures.

While a job steps, each cause c of constant rate disrupts it with the intensity ``lambda_c n(t)``, n the nodes stepping.
So ``D_c - lambda_c * integral n dt`` has the mean zero, whatever the policies made of the past (the compensator of a
counting process). So have sums of drawn times less the means of their laws. What a metric owes to these numbers is
taken out by regression: they are its *control variates*.

Causes whose intensity is not as simple (ages, incidents, bugs, logs, nodes that differ) are left out: their noise
stays in. Where jobs may have to wait for nodes nothing is taken out at all: a few long waits make most of the scatter
then. A sample without one looks surer than it is, and the narrower its interval the more often it misses the truth. The
same holds where few replications were interrupted at all: a line through one of them and the others, which are all
alike, is exact and says nothing of what an interruption may cost. A control then is left out, and without any the plain
interval stands. `of_values` is the one place of this rule. Nothing of it changes what is simulated.

References: S. S. Lavenberg, P. D. Welch, Management Science 27 (1981), 322; B. L. Nelson, Operations Research 38
(1990), 974. Compensators: P. K. Andersen, O. Borgan, R. D. Gill, N. Keiding, "Statistical Models Based on Counting
Processes" (1993), section II.4.
"""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick.analysis.metrics import PROBABILITIES, is_share
from ettrick.analysis.parts import ControlledDifference, DifferenceSummary
from ettrick.analysis.statistics.estimates import Interval, contributions, mean_interval, t_quantile, two_way
from ettrick.analysis.statistics.intervals import is_zero_or_one, unseen
from ettrick.sim import Bucket, starved_at_most

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from ettrick.sim import Prepared, Ratio, Result

    FloatArray = npt.NDArray[np.float64]

FEWEST_EVENTS = 10

"""Replications with events behind a control, and with values apart from the commonest one, below which it is left out.

The slope is known from these alone: of ten costs the mean is known as well as Student's interval of ten supposes.
"""

CONTROL_COUNT = 4

"""Numbers of a replication: two controls, and the events that each rests on."""

_MOST_WORTH = 1000.0

"""The largest worth of controls [-]; the interval keeps at least this part of the plain one's square.

Residuals that are less than 1/30 of the scatter say that the sample is on a line, not that all other runs are.
"""

_FREEDOM = 12

"""Degrees of freedom that have to be left: with fewer the interval of a mean that is not normal is too narrow."""

_RARELY = 1e-5

"""Share of time waiting for nodes that is too small to matter to a mean [-]."""

_SAME = 1e-9

"""Spread of a control, relative to its size, below which it is a constant [-]."""


class ControlVariates:
    """The control variates of the jobs of a scenario.

    Two numbers for each replication, both with the mean zero: disruptions [GPU], and the time of detection and of
    restarts [GPU s]. Behind them, how many disruptions each rests on [-]. Those whose node is away for a while, apart
    from the others, bring nothing next to these two.
    """

    def __init__(self, prepared: Prepared) -> None:
        recovery = prepared.recovery
        # Replicas that leave alone wait alone: that is common, and makes no difference between runs with few failures
        # and with many.
        self._is_rigid = not recovery.elastic
        waits = None if prepared.has_queue else starved_at_most(prepared) if self._is_rigid else 0.0
        self._is_known = waits is not None and waits <= _RARELY
        self._causes = [cause for cause, source in enumerate(prepared.sources, 1) if _is_simple(prepared, source)]
        sources = [prepared.sources[cause - 1] for cause in self._causes]
        self._of_job = np.array([source.part == "job" for source in sources], dtype=bool)
        units = np.array([source.units if source.part == "job" else prepared.nodes for source in sources])
        self._rates = np.array([source.rate * source.interrupts for source in sources]) / np.maximum(units, 1)
        """Disruptions of a job in unit time, of one of its nodes where the cause is of nodes [1/s]."""
        self._known_after = np.array(
            [source.detection_race.mean_value if source.detection_race else 0.0 for source in sources]
        )

    def of(self, result: Result) -> tuple[float, ...] | None:
        """Return the four numbers of a replication, or columns; ``None`` where jobs waited for nodes, or might have."""
        return None if not self._is_known or np.any(self._waited(result)) else self._numbers(result)

    def rows(self, result: Result) -> list[list[float] | None]:
        """Return the four numbers of each replication of a result, ``None`` as `of` has it."""
        if not self._is_known:
            return [None] * np.size(result.owned)
        columns = np.broadcast_arrays(result.owned, self._waited(result), *self._numbers(result))
        rows = zip(*(np.ravel(column).tolist() for column in columns), strict=True)
        return [None if waited else [*map(float, numbers)] for _, waited, *numbers in rows]

    def _waited(self, result: Result) -> Any:
        """Return whether jobs that cannot do with fewer nodes waited for some, in each replication."""
        starved: Any = sum(job.buckets.T[Bucket.STARVED] > 0 for job in result.jobs)
        return self._is_rigid & (starved > 0)

    def _numbers(self, result: Result) -> tuple[float, ...]:
        count = time = simple = every = 0.0
        for job in result.jobs:
            exposure = np.where(
                self._of_job, *(np.expand_dims(seconds, -1) for seconds in (job.running, job.node_seconds))
            )
            expected = self._rates * exposure
            disruptions = np.zeros_like(expected)
            for place, cause in enumerate(self._causes):
                disruptions[..., place] = job.disruptions.get(cause, 0)
            latencies = sum(job.latencies.get(cause, 0.0) for cause in self._causes)
            count += job.gpus * (disruptions - expected).sum(axis=-1)
            time += job.gpus * (latencies - np.vecdot(expected, self._known_after) + job.excess)
            simple += disruptions.sum(axis=-1)
            every += sum(job.disruptions.values())
        return count, time, simple, every


def of_pair(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> FloatArray:
    """Return the controls of a difference from those of both variants, shape (n, 6); empty if either is.

    Both meet the same failures, so the sums of their numbers say what these cost one more than the other. Disruptions
    of one that miss the other, which did not step at that moment, are a number of their own.
    """
    if not len(ours) or len(ours) != len(theirs):
        return np.zeros((0, 0))
    first, second = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    both, apart = first + second, (first - second)[:, [0, 2]]
    return np.column_stack([both[:, :2], apart[:, 0], both[:, 2:], np.abs(apart[:, 1])])


def quotient(ours: Sequence[Ratio], theirs: Sequence[Ratio]) -> tuple[float, Interval | None] | None:
    """Return how many times the metric of another variant one has, over common replications, and its 95 % interval.

    With x_i and y_i what replication i contributes, the error of r = mean(x) / mean(y) is that of the mean of
    ``(x_i - r y_i) / mean(y)``, which what both have in common is not in. There is no interval where r is the same in
    all replications; ``None`` where the other has nothing.
    """
    first, second = contributions(ours), contributions(theirs)
    if first is None or second is None or not float(second.mean()) > 0:
        return None
    ratio, count = float(first.mean() / second.mean()), len(first)
    rest = (first - ratio * second) / second.mean()
    if count < 2 or np.ptp(rest) <= _SAME * ratio:
        return ratio, None
    half = t_quantile(0.95, count - 1) * float(rest.std(ddof=1)) / math.sqrt(count)
    return ratio, (ratio - half, ratio + half)


def controlled(ratios: Sequence[Ratio], controls: npt.ArrayLike) -> ControlledDifference | None:
    """Return the mean of a metric with control variates, and its 95 % interval.

    With d_i what replication i contributes to the ratio of sums the least-squares fit ``d_i = m + b z_i`` gives the
    mean m at controls of zero. Its standard error is that of the intercept, and Student's quantile has ``n - c - k``
    degrees of freedom for k controls and c times the commonest value.

    Parameters
    ----------
    ratios : (n,) sequence
        The metric of each replication.
    controls : (n, 2 k) array
        Controls with the mean zero, and behind them the events that each rests on. Left out are those that do not vary,
        and those with events in fewer than `FEWEST_EVENTS` replications. Empty where they are not known.

    Returns
    -------
    ControlledDifference or None
        ``None`` without such controls, with too few replications, with fewer than `FEWEST_EVENTS` values that are not
        the commonest one (of a difference: not 0), or where the metric has no mean.
    """
    values = contributions(ratios)
    if values is None:
        return None
    return of_values(values, controls)


def of_values(values: FloatArray, controls: npt.ArrayLike) -> ControlledDifference | None:
    """Return the same for values, one per replication, shape (n,)."""
    table = np.asarray(controls, dtype=np.float64)
    count = len(values)
    moved = count - _commonest(values)
    if not table.size or moved < FEWEST_EVENTS:
        return None
    controls, events = np.hsplit(table, 2)
    controls = controls[:, np.count_nonzero(events, axis=0) >= FEWEST_EVENTS]
    plain = float(values.std(ddof=1)) / math.sqrt(count) if count > 1 else 0.0
    basis = _independent(controls)
    freedom = count - 1 - basis.shape[1]
    if not basis.shape[1] or freedom < _FREEDOM or not plain:
        return None
    design = np.column_stack([np.ones(count), basis])
    inverse = np.linalg.inv(design.T @ design)
    fitted = inverse @ design.T @ values
    rest = values - design @ fitted
    error = math.sqrt(float(rest @ rest) / freedom * float(inverse[0, 0]))
    # Equal values lie on any line that goes through one of them: they say nothing of the scatter about it.
    half = t_quantile(0.95, moved - basis.shape[1]) * error
    mean, without = float(fitted[0]), t_quantile(0.95, count - 1) * plain
    half = max(half, without / math.sqrt(_MOST_WORTH))
    return ControlledDifference(mean=mean, ci95=(mean - half, mean + half), worth=(without / half) ** 2)


def _commonest(values: FloatArray) -> int:
    """Return how often the commonest value is there, but for rounding."""
    ordered = np.sort(values)
    apart = np.diff(ordered) > _SAME * float(np.abs(ordered).max(initial=0.0))
    return int(np.bincount(np.concatenate([[0], np.cumsum(apart)])).max())


def _independent(controls: FloatArray) -> FloatArray:
    """Return controls that vary and do not follow from one another, of about the same size; shape (n, at most k)."""
    if not controls.size:
        return np.zeros((len(controls), 0))
    spread = controls.std(axis=0)
    varied = controls[:, spread > _SAME * np.abs(controls).max(axis=0, initial=0.0)]
    if not varied.size:
        return np.zeros((len(controls), 0))
    scaled = varied / varied.std(axis=0)
    _, sizes, directions = np.linalg.svd(scaled - scaled.mean(axis=0), full_matrices=False)
    components: FloatArray = scaled @ directions[sizes > _SAME * sizes[0]].T
    return components


def _is_simple(prepared: Prepared, source: Any) -> bool:
    """Return whether the rate at which a cause disrupts a stepping job is the same at any time, and known."""
    recovery = prepared.recovery
    return bool(
        _is_steady(source)
        and source.effect.stops
        and source.detection_race is not None
        and math.isfinite(source.detection_race.mean_value)
        and (source.part == "job" or source.slots_per_node > 0)
        and not (source.defer and recovery.has_unexposed_phases)
        and source.fault not in recovery.narrows_on
    )


def _is_steady(source: Any) -> bool:
    """Return whether failures of a source come at one rate, whatever happened before."""
    has_history = source.variety or source.ages or source.thinned or source.of_fabric or source.renews == "never"
    rest = (source.tempo, source.blast, source.residue, source.hidden, source.fix, source.rollout)
    is_plain = not has_history and all(part is None for part in rest)
    return is_plain and source.law is not None and bool(source.law.memoryless)


# What two variants of a scenario differ by, on the same failures.
#
# With ``r = sum(a) / sum(b)`` for each variant, replication i contributes ``d_i = (r + (a_i - r b_i) / b_mean)`` of
# ours less the same of theirs. The mean of the d_i is the difference of the two r, and its interval is Student's,
# ``d -/+ t s / sqrt(n)``. Where all denominators of a variant are equal (shares of requested time, counts, amounts)
# d_i is the difference within replication i; where they are not, this is the delta method, as for the r themselves.
#
# References: A. M. Law, "Simulation Modeling and Analysis", 5th ed. (2015), section 10.2.1 (paired-t); W. G. Cochran,
# "Sampling Techniques", 3rd ed. (1977), chapter 6 (ratios).

MANY = 10_000

"""Replications from which on a difference is not worth being resolved."""


def difference(
    ours: Sequence[Ratio], theirs: Sequence[Ratio], controls: npt.ArrayLike | None = None, *, metric: str = "",
    confidence: float = 0.95, is_exact: bool = False,
) -> DifferenceSummary | None:  # fmt: skip
    """Return by how much a ratio metric of one variant is above that of another, over common replications.

    ``None`` for fewer than two replications of what is random, an infinite amount, or nothing in a denominator.

    Parameters
    ----------
    ours, theirs : (n,) sequences
        The metric of two variants; entry i of both comes from replication i.
    controls : (n, k) array, optional
        Control variates of both together, with the mean zero.
    metric, confidence, is_exact
        Its name: a run that nobody has met may have nothing of a share, or all of it; the coverage [-]; and whether
        nothing that the metric depends on is random in either.

    Raises
    ------
    ValueError
        If the lengths differ.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"both variants must have the same replications, got {len(ours)} and {len(theirs)}")
    first, second = contributions(ours), contributions(theirs)
    if first is None or second is None:
        return None
    differences = first - second
    # What is the same but for the order of a sum is the same.
    differences[abs(differences) <= 1e-12 * abs(first)] = 0.0
    if len(differences) < 2 and not is_exact:
        return None
    if np.ptp(differences) <= 1e-12 * float(np.abs(first).max()):
        size = 1.0 if is_share(metric) else max(abs(float(first.mean())), abs(float(second.mean())))
        # Where the variants scatter, and their difference does not, runs that nobody has met would scatter alike.
        is_calm = not is_exact and bool(np.all(first == first[0]))
        hidden = unseen(len(differences)) * size if is_calm else 0.0
        return difference_of(float(differences[0]), is_resolved=abs(float(differences[0])) > hidden, is_exact=is_exact)
    return _of_scattered(differences, controls, confidence)


def _of_scattered(
    differences: FloatArray, controls: npt.ArrayLike | None, confidence: float
) -> DifferenceSummary | None:
    """Return the difference of which each replication has another one."""
    interval = mean_interval(differences, confidence)
    if interval is None:
        return None
    mean = (interval[0] + interval[1]) / 2
    needed = replications_to_resolve(mean, float(differences.std(ddof=1)), confidence)
    controlled = of_values(differences, controls) if controls is not None else None
    return difference_of(
        mean, interval, is_resolved=not interval[0] <= 0 <= interval[1], needed=needed, controlled=controlled
    )


def difference_of(
    mean: float,
    interval: Interval | None = None,
    *,
    is_resolved: bool,
    needed: int | None = None,
    controlled: ControlledDifference | None = None,
    is_exact: bool = False,
) -> DifferenceSummary:
    """Return a difference as documents have it, each of its keys stated."""
    return DifferenceSummary(
        mean=mean, ci95=interval, resolved=is_resolved, replications_to_resolve=needed, controlled=controlled,
        exact=is_exact,
    )  # fmt: skip


def replications_to_resolve(mean: float, spread: float, confidence: float = 0.95) -> int | None:
    """Return the smallest number of replications n with ``t s / sqrt(n) < |d|``.

    Parameters
    ----------
    mean, spread
        Mean d and standard deviation s of the paired differences.
    confidence
        Nominal coverage of the interval [-].

    Returns
    -------
    int or None
        At least 2; ``None`` for more than `MANY`, and for variants that do not differ at all.
    """

    def margin(n: int) -> float:
        return abs(mean) - t_quantile(confidence, n - 1) * spread / math.sqrt(n)

    numbers = range(2, MANY + 1)
    index = bisect.bisect_right(numbers, 0.0, key=margin)
    return numbers[index] if index < len(numbers) else None


# Which of many is the best, and which others may be: intervals that hold for all of them at once.
#
# The truly best candidate b is not known. Whoever it is, the k - 1 intervals of its paired differences from the others
# hold together with a probability of 95 %: each is Student's at a confidence of ``1 - 0.05 / (k - 1)`` (Bonferroni, so
# that any correlation between candidates is allowed). If they hold, b is among those that none of their own intervals
# puts behind another: these may be the best. And how far any candidate is from b lies between the lowest and the
# highest end that the intervals of those have for it. So nothing is lost by letting the data pick the winner, and only
# k - 1 comparisons have to hold together, not one for each of the k (k - 1) / 2 pairs.
#
# References: D. G. Edwards, J. C. Hsu, Journal of the American Statistical Association 78 (1983), 965; with common
# random numbers: B. L. Nelson, F. J. Matejcik, Management Science 41 (1995), 1935.

_SAME_RANKING = 1e-12

"""Difference of two values, relative to their size, that is no more than the order of a sum [-]."""


class Ranking(NamedTuple):
    """Candidates in order of a metric, on the same replications.

    Parameters
    ----------
    order
        Positions of the candidates, best first by their means; those without a mean are left out.
    behind
        For each of `order`, how far its mean is from that of the first (never negative), and an interval of how far it
        is from whichever is truly the best: for the first, the possible gain of another. All intervals of the list
        hold together with a probability of 95 %.
    may_be_best
        Positions of those that are not resolved as worse than another, in the order of `order`; the first is always
        among them, and so are those with the same values as it.
    replications_to_resolve
        How many replications would leave one alone (and its ties) if means and spreads stay as they are; ``None`` for
        more than `ettrick.analysis.statistics.differences.MANY`, and where nothing is left to resolve.
    """

    order: tuple[int, ...]
    behind: tuple[tuple[float, Interval], ...]
    may_be_best: tuple[int, ...]
    replications_to_resolve: int | None


class _Comparison(NamedTuple):
    """The distances of all candidates behind one of them, shape (k,): by their means, and their bounds."""

    mean: FloatArray
    spread: FloatArray
    low: FloatArray
    high: FloatArray


def ranking_of(rows: Sequence[Sequence[Ratio]], *, lowest: bool, metric: str = "") -> Ranking | None:
    """Return the ranking of several candidates by a metric.

    Parameters
    ----------
    rows
        For each candidate its replications; entry i of each comes from replication i. Only those are looked at that all
        candidates with a mean have.
    lowest
        Whether the lowest value is the best.
    metric
        Its name. What is 0 or 1 may have the same values by chance: differences of probabilities keep an interval.

    Returns
    -------
    Ranking or None
        ``None`` if no candidate has a mean, or there are fewer than two replications.
    """
    table = _values(rows)
    if table is None:
        return None
    positions, values = table
    is_chance = metric in PROBABILITIES and all(is_zero_or_one(rows[position]) for position in positions)
    return _ranked(positions, values if lowest else -values, is_chance=is_chance)


def ranking_over_draws(tables: Sequence[FloatArray], *, lowest: bool, is_chance: bool) -> Ranking | None:
    """Return the ranking of several candidates by the mean over draws of what is not known and over runs.

    What a draw changes between two candidates is a part of the doubt, see
    `ettrick.analysis.statistics.estimates.two_way`. How many
    replications would resolve it is not given: more of them do not make the draws more.

    Parameters
    ----------
    tables
        For each candidate, what each replication (columns) of each draw (rows) contributes, as common to all; empty
        for one without a mean.
    lowest
        Whether the lowest value is the best.
    is_chance
        Whether the values are 0 or 1, and so may be equal by chance.

    Returns
    -------
    Ranking or None
        ``None`` if no candidate has a mean, or there are fewer than two draws or replications.
    """
    rated = [position for position, table in enumerate(tables) if len(table)]
    if not rated or min(min(tables[position].shape) for position in rated) < 2:
        return None
    values = np.array([tables[position] for position in rated])
    return _ranked(np.array(rated), values if lowest else -values, is_chance=is_chance)


def _ranked(positions: npt.NDArray[np.int64], values: FloatArray, *, is_chance: bool) -> Ranking:
    """Return the ranking by values (k, n), or (k, draws, n), the lowest first."""
    means = values.reshape(len(values), -1).mean(axis=1)
    order = np.argsort(means, kind="stable")
    positions, means = positions[order], means[order]
    errors = np.ascontiguousarray(np.moveaxis(values[order], 0, -1) - means)
    confidence = 1 - 0.05 / max(len(means) - 1, 1)
    first = _compared(means, errors, 0, confidence, is_chance=is_chance)
    low, high = first.low, first.high
    may_be_best = [0]
    for row in np.flatnonzero(first.low <= 0)[1:].tolist():
        rival = _compared(means, errors, row, confidence, is_chance=is_chance)
        if np.all(rival.high >= 0):
            may_be_best.append(row)
            low, high = np.minimum(low, rival.low), np.maximum(high, rival.high)
    return Ranking(
        tuple(positions.tolist()),
        tuple(
            (max(mean, 0.0), (max(least, 0.0), max(most, 0.0)))
            for mean, least, most in zip(first.mean.tolist(), low.tolist(), high.tolist(), strict=True)
        ),
        tuple(positions[may_be_best].tolist()),
        _needed(first, may_be_best[1:], confidence),
    )


def _values(rows: Sequence[Sequence[Ratio]]) -> tuple[npt.NDArray[np.int64], FloatArray] | None:
    """Return which candidates have a mean, and what each of their common replications contributes to it, (k, n)."""
    positions = [position for position, ratios in enumerate(rows) if ratios and contributions(ratios) is not None]
    count = min((len(rows[position]) for position in positions), default=0)
    if count < 2:
        return None
    # The first replications of one that has more may have nothing in their denominators.
    shares = ((position, contributions(rows[position][:count])) for position in positions)
    table = {position: values for position, values in shares if values is not None}
    return (np.array(list(table)), np.array(list(table.values()))) if table else None


def _compared(means: FloatArray, errors: FloatArray, row: int, confidence: float, *, is_chance: bool) -> _Comparison:
    """Return how far every candidate is behind that of a row, and between what ends at some confidence.

    Differences of what is 0 or 1 get two replications more, in which the four pairs of outcomes are equally common:
    otherwise few equal replications would be taken for certainty (A. Agresti, Y. Min, Statistics in Medicine 24
    (2005), 729).

    Parameters
    ----------
    means, errors
        Mean of each candidate (k,), and how far each replication is from it (n, k), or of each draw (draws, n, k).
    """
    # What is the same but for the order of a sum is the same.
    tiny = _SAME_RANKING * abs(float(means[row]))
    mean = _without_rounding(means - means[row], tiny)
    if errors.ndim == 3:
        return _compared_over_draws(mean, errors, row, confidence, tiny, is_chance=is_chance)
    count = total = len(errors)
    squares = ((errors - errors[:, row, None]) ** 2).sum(axis=0)
    spread = _without_rounding(np.sqrt(squares / (count - 1)), tiny)
    center = mean
    if is_chance:
        total = count + 2
        center = mean * count / total
        squares = squares + count * mean**2 + 1 - total * center**2
        squares[row] = 0.0
    half = t_quantile(confidence, count - 1) * np.sqrt(squares / (total - 1) / total)
    half = _without_rounding(half, tiny)
    return _Comparison(mean, spread, center - half, center + half)


def _compared_over_draws(
    mean: FloatArray, errors: FloatArray, row: int, confidence: float, tiny: float, *, is_chance: bool
) -> _Comparison:
    """Return `_compared` where rows of errors are draws. Where chance may make all alike, a few runs are as sure.

    No difference of probabilities is surer than that of as many equal pairs as there are draws, or replications if
    these are fewer, with the two pairs more of `_compared`.
    """
    fewest = min(errors.shape[:2])
    half = np.zeros(len(mean))
    for rival in range(len(mean)):
        if rival != row:
            effect = two_way(mean[rival] + _without_rounding(errors[..., rival] - errors[..., row], tiny))
            least = 1 / ((fewest + 1) * (fewest + 2)) if is_chance else 0.0
            half[rival] = effect.reach(confidence) * np.sqrt(max(effect.variance, least))
    half = _without_rounding(half, tiny)
    return _Comparison(mean, np.full(len(mean), np.inf), mean - half, mean + half)


def _without_rounding(values: FloatArray, tiny: float) -> FloatArray:
    """Return values in which those are zero that are not above what rounding makes."""
    return np.where(np.abs(values) <= tiny, 0.0, values)


def _needed(first: _Comparison, rivals: Sequence[int], confidence: float) -> int | None:
    """Return how many replications would resolve every rival of the first that is no tie."""
    if not np.all(np.isfinite(first.spread)):
        return None
    open_ones = [(float(first.mean[rival]), float(first.spread[rival])) for rival in rivals]
    scattered = [(mean, spread) for mean, spread in open_ones if mean or spread]
    if not scattered or not all(mean for mean, _ in scattered):
        return None
    # The one that takes longest is the one whose difference scatters most, relative to its size.
    mean, spread = max(scattered, key=lambda pair: pair[1] / pair[0])
    return replications_to_resolve(mean, spread, confidence)

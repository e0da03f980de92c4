"""The share of each axis in the variance of a metric, and that of run-to-run variability.

Points x and replications w are crossed, and every point meets the same failures, so that

    Y(x, w) = m + a(x) + b(w) + c(x, w)

with four parts that are uncorrelated: the mean, what varies, noise that all points have in common, and noise that is
not the same everywhere. Sobol indices are those of a(x), the mean over all runs there could be: what R replications
leave of c in the means is taken out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.analysis.contest.precision import ReplicationsError
from ettrick.analysis.results.studies import AxisIndex, FormulaIndex, IndexEstimate
from ettrick.analysis.statistics.estimates import contributions, t_quantile
from ettrick.analysis.study.questions.question import common_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from ettrick.analysis.study.amounts import AxisPosition
    from ettrick.analysis.study.table import Cell, StudyTable

    FloatArray = npt.NDArray[np.float64]

# Intervals of what is estimated from points x replications, by leaving out some of each.

_BLOCKS = 16
"""Parts that the rows are left out in."""


def estimates(statistic: Callable[[FloatArray], FloatArray], values: FloatArray) -> list[IndexEstimate]:
    """Return shares that a statistic estimates, each with a 95 % interval.

    Both points and replications are a sample. Left out are, one at a time, each of 16 blocks of rows, put together at
    random, and each replication; the squared standard errors of both add up (what both have in common is counted
    twice: cautious), with Welch's and Satterthwaite's degrees of freedom. Where the interval stays between 0 and 1 it
    is taken on the scale of ``log(s / (1 - s))``, on which shares are closer to normal.

    Parameters
    ----------
    statistic
        Function of values, shape (sets, n, R), that returns m shares, shape (m,).
    values
        The values, n and R two at least.

    References
    ----------
    R. G. Miller, "The jackknife: a review", Biometrika 61 (1974), 1; A. B. Owen, "The pigeonhole bootstrap", Annals of
    Applied Statistics 1 (2007), 386 (points x replications, and why the sum is cautious).
    """
    shares = statistic(values)
    # Not in their order: neighbours in a Sobol sequence share its errors, and would look surer than they are.
    shuffled = np.random.default_rng(0).permutation(values.shape[1])
    rows = np.array_split(shuffled, min(_BLOCKS, values.shape[1]))
    of_rows = _squared_error(np.array([statistic(np.delete(values, block, axis=1)) for block in rows]))
    left = [statistic(np.delete(values, index, axis=2)) for index in range(values.shape[2])]
    of_runs = _squared_error(np.array(left))
    both = zip(shares.tolist(), of_rows.tolist(), of_runs.tolist(), strict=True)
    return [_estimate(value, (by_row, len(rows) - 1), (by_run, len(left) - 1)) for value, by_row, by_run in both]


def _squared_error(replicates: FloatArray) -> FloatArray:
    """Return the squared standard error from estimates with one part left out each, shape (parts, m)."""
    parts = len(replicates)
    squared: FloatArray = (parts - 1) * replicates.var(axis=0)
    return squared


def _estimate(value: float, *parts: tuple[float, int]) -> IndexEstimate:
    """Return an estimate from the squared standard errors of its parts, and their degrees of freedom."""
    squared = sum(part for part, _ in parts)
    middle = min(max(value, 0.0), 1.0)
    if not np.isfinite(squared):
        # Without some part nothing varies any more: so few points give no error.
        return IndexEstimate(value=middle, ci95=(0.0, 1.0))
    if squared <= 0:
        return IndexEstimate(value=middle, ci95=(middle, middle))
    freedom = squared**2 / sum(part**2 / degrees for part, degrees in parts)
    half = t_quantile(0.95, int(freedom)) * float(np.sqrt(squared))
    if value - half <= 0 or value + half >= 1:
        ends = max(min(value - half, 1.0), 0.0), min(max(value + half, 0.0), 1.0)
        return IndexEstimate(value=middle, ci95=ends)
    odds, factor = value / (1 - value), float(np.exp(half / (value * (1 - value))))
    return IndexEstimate(value=value, ci95=(odds / (odds + factor), odds * factor / (1 + odds * factor)))


# The results of a Saltelli design as numbers: sets of points x points of a set x replications.

MOST_LEFT_OUT = 0.05
"""Share of the rows that may be left out [-]: without more of them the inputs would not be those of the study."""

LEAST = 4
"""Rows, and replications, without which there is no estimate: intervals leave out some of each."""


class SobolLayout(NamedTuple):
    """A metric at every point and in every replication.

    Parameters
    ----------
    values
        Contributions to the ratio of sums, shape (d + 2, n, R): sets A, B, AB_1, ..., AB_d; rows; replications.
    formula
        ETTR by the closed form at the same points, shape (d + 2, n) [-]; ``None`` unless that is the metric and every
        point has one.
    left_out
        Rows that are missing because of a point without a result.
    reason
        Why the first of them has none; empty if none is missing.
    """

    values: FloatArray
    formula: FloatArray | None
    left_out: int
    reason: str


def layout_of(table: StudyTable, metric: str) -> SobolLayout:
    """Return the numbers of a table whose design is ``saltelli``.

    A row is a point of A, one of B, and those between them. Estimates need all of them: a row in which a point cannot
    run is left out as a whole. Replications are those that all points have.

    Raises
    ------
    ReplicationsError
        If more than `MOST_LEFT_OUT` of the rows would be left out, or there are too few of them or of replications.
    ValueError
        If the number of points is not that of the design.
    """
    sets = len(table.axes) + 2
    rows, rest = divmod(len(table.cells), sets)
    if rest or not rows:
        raise ValueError(f"{len(table.cells)} points are not {sets} sets: the design is not saltelli")
    samples = [contributions(ratios) for ratios in common_rows(table.cells, metric)]
    index = np.arange(len(samples)).reshape(sets, rows)
    usable = [row for row in range(rows) if all(samples[cell] is not None for cell in index[:, row])]
    left_out = rows - len(usable)
    if left_out > MOST_LEFT_OUT * rows:
        raise ReplicationsError(_refusal(table, metric, samples, f"{left_out} of {rows} rows of points"))
    cells = index[:, usable].tolist()
    values = np.array([[samples[cell] for cell in row] for row in cells], dtype=np.float64)
    if min(values.shape[1:]) < LEAST:
        message = f"{values.shape[1]} rows of points and {values.shape[2]} replications: needs {LEAST} of each at least"
        raise ReplicationsError(message)
    bad = next((cell for cell, sample in zip(table.cells, samples, strict=True) if sample is None), None)
    return SobolLayout(values, _formula(table, metric, cells), left_out, "" if bad is None else _why(bad, metric))


def _formula(table: StudyTable, metric: str, places: Sequence[Sequence[int]]) -> FloatArray | None:
    """Return the closed form's ETTR at points, by their places in the table."""
    if metric != "ettr":
        return None
    forms = [[table.cells[place].stated.formula for place in row] for row in places]
    return None if any(value is None for row in forms for value in row) else np.array(forms, dtype=np.float64)


def _why(cell: Cell, metric: str) -> str:
    return cell.trouble or f"a replication has no {metric}"


def _refusal(table: StudyTable, metric: str, samples: Sequence[FloatArray | None], how_many: str) -> str:
    """Return why there are too few points, and which values all of those without a result have."""
    bad = [cell for cell, values in zip(table.cells, samples, strict=True) if values is None]
    fine = [cell for cell, values in zip(table.cells, samples, strict=True) if values is not None]
    for position, axis in enumerate(table.axes):
        failed, running = ([cell.values[position] for cell in cells] for cells in (bad, fine))
        if running and not _overlap(failed, running):
            ordered = sorted(failed, key=lambda value: value.number or 0.0)
            labels = list(dict.fromkeys((ordered[0].label, ordered[-1].label)))
            which = f"all where {axis} is {' to '.join(labels)}"
            return f"{how_many} have one without a result, {which}: {_why(bad[0], metric)}"
    first = ", ".join(f"{axis}={value.label}" for axis, value in zip(table.axes, bad[0].values, strict=True))
    return f"{how_many} have one without a result, the first with {first}: {_why(bad[0], metric)}"


def _overlap(failed: Sequence[AxisPosition], running: Sequence[AxisPosition]) -> bool:
    """Return whether values of points without a result are also, or lie among, those of points with one."""
    if any(value.number is None for value in (*failed, *running)):
        return bool({value.label for value in failed} & {value.label for value in running})
    ours, theirs = ([value.number or 0.0 for value in values] for values in (failed, running))
    return max(min(ours), min(theirs)) <= min(max(ours), max(theirs))


_SAME = 1e-12
"""Difference of two values, relative to their size, that is rounding."""


class VarianceComponents(NamedTuple):
    """Variance of one run, whose inputs are not known, by what brings it [squared unit of the metric].

    Parameters
    ----------
    parameters
        Of a(x): what varies.
    noise
        Of b(w): noise that is the same at every point.
    both
        Of c(x, w): noise that means more at one point than at another.
    """

    parameters: float
    noise: float
    both: float


class Indices(NamedTuple):
    """The shares of axes in the variance of a metric.

    Parameters
    ----------
    rows, replications
        How many there are of each; a row is a point of A, one of B, and those between them.
    left_out, why_left_out
        Rows without a result, and why the first of them has none.
    parts
        The variance by what brings it; nothing is below zero.
    shares
        The parts as shares of their sum, by name; ``None`` if nothing varies at all.
    noise
        Share of the variance of the means over R replications that is not of a(x) but left of c, ``(s_c^2 / R) /
        (s_a^2 + s_c^2 / R)`` [-]. It is taken out of the indices; without, they would be off by about as much.
        ``None`` if means do not vary.
    axes
        The axes, the one with the largest total index first; empty where `reason` says why.
    together
        Share of the variance of a(x) that the axes bring only together, one less the sum of the first-order indices.
    """

    metric: str
    mean: float
    rows: int
    replications: int
    left_out: int
    why_left_out: str
    parts: VarianceComponents
    shares: dict[str, IndexEstimate] | None
    noise: float | None
    axes: tuple[AxisIndex, ...]
    together: IndexEstimate | None
    reason: str


def indices(table: StudyTable, metric: str) -> Indices:
    """Return what brings the variance of a metric, from the table of a ``saltelli`` design.

    Indices are estimated by correlations of the sets. `scipy.stats.sobol_indices` estimates the same by Saltelli's and
    Jansen's means of products, which scatter up to ten times as much where one axis brings most of a variance.

    Raises
    ------
    ReplicationsError
        If too many points have no result; see `ettrick.analysis.study.questions.sobol.layout_of`.

    References
    ----------
    A. Saltelli et al., Computer Physics Communications 181 (2010), 259 (design); J.-M. Martinez, "Analyse de
    sensibilite globale par decomposition de la variance", GdR MASCOT-NUM (2011), and G. Glen, K. Isaacs,
    Environmental Modelling & Software 37 (2012), 157 (correlations, and those that are chance).
    """
    layout = layout_of(table, metric)
    values = _without_rounding(layout.values)
    components = variance_parts(values[:2].reshape(-1, values.shape[2]))
    parts = VarianceComponents(*(max(part, 0.0) for part in components))
    noise = parts.both / values.shape[2]
    shares = dict(zip(VarianceComponents._fields, estimates(_shares, values), strict=True)) if sum(parts) else None
    reason = _reason(layout, shares, estimates(_share_of_inputs, values)[0])
    axes, together = ((), None) if reason else _by_axis(table, values, layout.formula)
    return Indices(
        metric,
        float(layout.values[:2].mean()),
        values.shape[1],
        values.shape[2],
        layout.left_out,
        layout.reason,
        parts,
        shares,
        noise / (parts.parameters + noise) if parts.parameters + noise else None,
        axes,
        together,
        reason if reason or axes else _not_resolved(layout),
    )


def variance_parts(values: FloatArray) -> VarianceComponents:
    """Return the variances of points, replications and what is left, from a crossed layout with one value a cell.

    With mean squares MS of n points, of R replications and of the residual,
    ``s_a^2 = (MS_x - MS_r) / R``, ``s_b^2 = (MS_w - MS_r) / n``, ``s_c^2 = MS_r``: without bias, and below zero at
    times.

    Parameters
    ----------
    values : (n, R) array
        Values of independent points in common replications, two of each at least.

    References
    ----------
    S. R. Searle, G. Casella, C. E. McCulloch, "Variance Components" (1992), section 4.3.
    """
    points, replications = values.shape
    by_point, by_replication, mean = values.mean(axis=1), values.mean(axis=0), values.mean()
    of_points = replications * float(by_point.var(ddof=1))
    of_runs = points * float(by_replication.var(ddof=1))
    rest = values - by_point[:, None] - by_replication + mean
    residual = float((rest**2).sum()) / ((points - 1) * (replications - 1))
    return VarianceComponents((of_points - residual) / replications, (of_runs - residual) / points, residual)


def _without_rounding(values: FloatArray) -> FloatArray:
    """Return the values less what they have in common, with zeros where no more than rounding is left."""
    common = values[0, 0]
    deviations = values - common
    deviations[np.abs(deviations) <= _SAME * np.abs(values).max()] = 0.0
    # What replications have in common is put back: it is noise.
    together: FloatArray = deviations + (common - common.mean())
    together[np.abs(together) <= _SAME * np.abs(values).max()] = 0.0
    return together


def _shares(values: FloatArray) -> FloatArray:
    """Return the shares of the three parts, shape (3,)."""
    parts = np.array(variance_parts(values[:2].reshape(-1, values.shape[2])))
    shares: FloatArray = parts / (parts.sum() or 1.0)
    return shares


def _share_of_inputs(values: FloatArray) -> FloatArray:
    """Return the share of what varies in the variance of points, ``s_a^2 / (s_a^2 + s_c^2)``, shape (1,).

    Noise that all points have in common does not hide what makes them differ.
    """
    parts = variance_parts(values[:2].reshape(-1, values.shape[2]))
    whole = parts.parameters + parts.both
    return np.array([parts.parameters / whole if whole else 0.0])


def _reason(layout: SobolLayout, shares: dict[str, IndexEstimate] | None, share: IndexEstimate) -> str:
    """Return why there are no indices; empty if there are."""
    if shares is None:
        return "it is the same at every point and in every replication"
    if share.ci95 is None or share.ci95[0] <= 0:
        return _not_resolved(layout)
    return ""


def _not_resolved(layout: SobolLayout) -> str:
    _, rows, replications = layout.values.shape
    return f"what varies cannot be separated from noise with {replications} replications of {rows} rows"


def _by_axis(
    table: StudyTable, values: FloatArray, formula: FloatArray | None
) -> tuple[tuple[AxisIndex, ...], IndexEstimate | None]:
    """Return the indices of each axis, the largest total first, and what the axes bring only together.

    Nothing if the variance of one of the sets is lost in noise.
    """
    count = len(table.axes)
    if not np.all(np.isfinite(_indices(values))):
        return (), None
    *estimated, together = estimates(_indices, values)
    plain = None if formula is None else _without_rounding(formula[..., None])
    # Two replications that are the same, for what has no noise.
    of_form = None if plain is None or not plain[:2].any() else _indices(np.repeat(plain, 2, axis=2)).tolist()
    rows = [
        AxisIndex(
            axis=axis,
            first=estimated[place],
            total=estimated[count + place],
            closed_form=None if of_form is None else FormulaIndex(first=of_form[place], total=of_form[count + place]),
        )
        for place, axis in enumerate(table.axes)
    ]
    return tuple(sorted(rows, key=lambda row: (-(row.total.value or 0.0), -(row.first.value or 0.0)))), together


def _indices(values: FloatArray) -> FloatArray:
    """Return the first-order indices of all axes, the total ones, and one less the sum of the first, shape (2 d + 1,).

    A point of AB_i shares axis i with that of B, and all the others with that of A, so that its correlation with B is
    the first-order index, and that with A one less the total index. They are estimated as the coefficients of the
    standardised regression of AB_i on both, which takes out by how much A and B happen to be correlated.
    """
    moments = _moments(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.sqrt(np.where(np.diag(moments) > 0, np.diag(moments), np.nan))
        correlations = moments / np.outer(scale, scale)
        chance = correlations[0, 1]
        with_first, with_second = correlations[0, 2:], correlations[1, 2:]
        first = (with_second - chance * with_first) / (1 - chance**2)
        rest = (with_first - chance * with_second) / (1 - chance**2)
    return np.concatenate([first, 1 - rest, [1 - first.sum()]])


def _moments(values: FloatArray) -> FloatArray:
    """Return the mean products of a(x) of any two sets, shape (d + 2, d + 2), from values (d + 2, n, R).

    Only products of different replications enter: their expectation has nothing of c(x, w). With bars for means over
    replications that is ``y_bar z_bar - cov_w(y, z) / R``.
    """
    replications = values.shape[2]
    # What all points have in common in a replication says nothing about them, and would only scatter.
    centred = values - values[:2].mean(axis=(0, 1))
    means = centred.mean(axis=2)
    rest = centred - means[..., None]
    noise = np.einsum("kjw,ljw->kl", rest, rest) / (replications * (replications - 1))
    moments: FloatArray = (means @ means.T - noise) / values.shape[1]
    return moments

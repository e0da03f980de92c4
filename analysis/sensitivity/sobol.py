"""How much of the variance of a metric what varies brings, and how much luck; and of what varies, which axis how much.

Points x and replications w are crossed, and every point meets the same failures, so that

    Y(x, w) = m + a(x) + b(w) + c(x, w)

with four parts that are uncorrelated: the mean, what varies, luck that all points have in common, and luck that is not
the same everywhere. Sobol indices are those of a(x), the mean over all luck there could be: what R replications leave
of c in the means is taken out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.sensitivity.jackknife import Estimate, estimates
from analysis.sensitivity.layout import layout_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from analysis.sensitivity.layout import Layout
    from analysis.study.table import Table

    FloatArray = npt.NDArray[np.float64]

__all__ = ["Index", "Indices", "Parts", "indices", "variance_parts"]

_SAME = 1e-12
"""Difference of two values, relative to their size, that is rounding."""


class Parts(NamedTuple):
    """Variance of one run, whose inputs and whose luck are not known, by what brings it [squared unit of the metric].

    Parameters
    ----------
    parameters
        Of a(x): what varies.
    luck
        Of b(w): luck that is the same at every point.
    both
        Of c(x, w): luck that means more at one point than at another.
    """

    parameters: float
    luck: float
    both: float


class Index(NamedTuple):
    """How much of the variance of a(x) one axis brings.

    Parameters
    ----------
    axis
        Its name.
    first
        The share that it brings alone: by how much the variance would fall, on average, if it were known.
    total
        The share that it takes part in: what would be left if all others were known.
    closed_form
        First and total index of the closed form's ETTR on the same points [-]; ``None`` where there is no form, or it
        does not vary.
    """

    axis: str
    first: Estimate
    total: Estimate
    closed_form: tuple[float, float] | None


class Indices(NamedTuple):
    """What brings the variance of a metric.

    Parameters
    ----------
    metric
        The metric.
    mean
        Its mean over points and replications.
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
    reason
        Why there are no indices.
    """

    metric: str
    mean: float
    rows: int
    replications: int
    left_out: int
    why_left_out: str
    parts: Parts
    shares: dict[str, Estimate] | None
    noise: float | None
    axes: tuple[Index, ...]
    together: Estimate | None
    reason: str


def indices(table: Table, metric: str) -> Indices:
    """Return what brings the variance of a metric, from the table of a ``saltelli`` design.

    Indices are estimated by correlations of the sets. `scipy.stats.sobol_indices` estimates the same by Saltelli's and
    Jansen's means of products, which scatter up to ten times as much where one axis brings most of a variance.

    Raises
    ------
    RequestError
        If too many points have no result; see `analysis.sensitivity.layout.layout_of`.

    References
    ----------
    A. Saltelli et al., Computer Physics Communications 181 (2010), 259 (design); J.-M. Martinez, "Analyse de
    sensibilite globale par decomposition de la variance", GdR MASCOT-NUM (2011), and G. Glen, K. Isaacs,
    Environmental Modelling & Software 37 (2012), 157 (correlations, and those that are chance).
    """
    layout = layout_of(table, metric)
    values = _without_rounding(layout.values)
    found = variance_parts(values[:2].reshape(-1, values.shape[2]))
    parts = Parts(*(max(part, 0.0) for part in found))
    noise = parts.both / values.shape[2]
    shares = dict(zip(Parts._fields, estimates(_shares, values), strict=True)) if sum(parts) else None
    reason = _reason(layout, shares, estimates(_told, values)[0])
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
        reason if reason or axes else _untold(layout),
    )


def variance_parts(values: FloatArray) -> Parts:
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
    of_luck = points * float(by_replication.var(ddof=1))
    rest = values - by_point[:, None] - by_replication + mean
    residual = float((rest**2).sum()) / ((points - 1) * (replications - 1))
    return Parts((of_points - residual) / replications, (of_luck - residual) / points, residual)


def _without_rounding(values: FloatArray) -> FloatArray:
    """Return the values less what they have in common, with zeros where no more than rounding is left."""
    common = values[0, 0]
    found = values - common
    found[np.abs(found) <= _SAME * np.abs(values).max()] = 0.0
    # What replications have in common is put back: it is luck.
    together: FloatArray = found + (common - common.mean())
    together[np.abs(together) <= _SAME * np.abs(values).max()] = 0.0
    return together


def _shares(values: FloatArray) -> FloatArray:
    """Return the shares of the three parts, shape (3,)."""
    parts = np.array(variance_parts(values[:2].reshape(-1, values.shape[2])))
    found: FloatArray = parts / (parts.sum() or 1.0)
    return found


def _told(values: FloatArray) -> FloatArray:
    """Return the share of what varies in the variance of points, ``s_a^2 / (s_a^2 + s_c^2)``, shape (1,).

    Luck that all points have in common does not hide what makes them differ.
    """
    parts = variance_parts(values[:2].reshape(-1, values.shape[2]))
    whole = parts.parameters + parts.both
    return np.array([parts.parameters / whole if whole else 0.0])


def _reason(layout: Layout, shares: dict[str, Estimate] | None, told: Estimate) -> str:
    """Return why there are no indices; empty if there are."""
    if shares is None:
        return "it is the same at every point and in every replication"
    if told.ci95[0] <= 0:
        return _untold(layout)
    return ""


def _untold(layout: Layout) -> str:
    _, rows, replications = layout.values.shape
    return f"what varies cannot be told from luck with {replications} replications of {rows} rows"


def _by_axis(table: Table, values: FloatArray, formula: FloatArray | None) -> tuple[tuple[Index, ...], Estimate | None]:
    """Return the indices of each axis, the largest total first, and what the axes bring only together.

    Nothing if the variance of one of the sets is lost in luck.
    """
    count = len(table.axes)
    if not np.all(np.isfinite(_indices(values))):
        return (), None
    *found, together = estimates(_indices, values)
    plain = None if formula is None else _without_rounding(formula[..., None])
    # Two replications that are the same, for what has no luck.
    of_form = None if plain is None or not plain[:2].any() else _indices(np.repeat(plain, 2, axis=2)).tolist()
    rows = [
        Index(
            axis,
            found[place],
            found[count + place],
            None if of_form is None else (of_form[place], of_form[count + place]),
        )
        for place, axis in enumerate(table.axes)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.total.value, -row.first.value))), together


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
    found: FloatArray = (means @ means.T - noise) / values.shape[1]
    return found

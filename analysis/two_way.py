"""Means over a table of points by replications, when both are samples."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.statistics import t_quantile

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["TwoWay", "two_way"]


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

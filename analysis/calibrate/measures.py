"""Errors of a fit as numbers and as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.calibrate.numbers import Array
    from analysis.calibrate.rows import Row

__all__ = ["LARGE", "large_mape", "mape", "percent", "significant"]

LARGE = 1024
"""GPUs from which a job counts as large [-]."""


def mape(error: Array) -> float:
    """Return the mean absolute error [-]."""
    return float(np.abs(error).mean())


def large_mape(rows: Sequence[Row], error: Array, least: int = LARGE) -> float:
    """Return the mean absolute error of jobs of so many GPUs or more [-]."""
    return mape(error[np.array([row.work.gpus >= least for row in rows])])


def percent(value: float, sign: str = "") -> str:
    """Return a share in percent."""
    return f"{100 * value:{sign}.1f} %"


def significant(value: float, digits: int = 4) -> float:
    """Return a number to significant digits."""
    return float(f"{value:.{digits}g}")

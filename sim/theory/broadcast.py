"""Checked, broadcastable inputs for the closed forms: scalars in, float out; arrays in, array out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["FloatArray", "non_negative", "plain", "positive"]

FloatArray = npt.NDArray[np.float64]


def positive(name: str, values: npt.ArrayLike, *, infinite: bool = False) -> FloatArray:
    """Return `values` as floats, all > 0 (and finite, unless `infinite`).

    Raises
    ------
    ValueError
        If a value is not positive, or not finite where it must be.
    """
    array = np.asarray(values, dtype=np.float64)
    if not np.all(array > 0):  # written so that NaN fails too
        message = f"{name} must be positive, got {values!r}"
        raise ValueError(message)
    if not infinite and not np.all(np.isfinite(array)):
        message = f"{name} must be finite, got {values!r}"
        raise ValueError(message)
    return array


def non_negative(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return `values` as finite floats, all >= 0.

    Raises
    ------
    ValueError
        If a value is negative or not finite.
    """
    array = np.asarray(values, dtype=np.float64)
    if not np.all((array >= 0) & np.isfinite(array)):
        message = f"{name} must be finite and not negative, got {values!r}"
        raise ValueError(message)
    return array


def plain(result: npt.ArrayLike) -> float | FloatArray:
    """Return a 0-dimensional result as a Python float, any other as the array it is."""
    array = np.asarray(result, dtype=np.float64)
    return float(array) if array.ndim == 0 else array

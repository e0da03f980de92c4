"""What is left of the switches, in whole units of bandwidth, so that what failed and was mended leaves no trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ROUNDING", "Capacity", "whole_units"]

_FASTEST = 2.0**30
"""Units in the fastest cable: eight million of these add up without rounding."""

ROUNDING = 1e-8
"""Losses up to this come from speeds that are no whole number of units, and are none [-]."""


class Capacity(NamedTuple):
    """What is left of the switches; the arrays belong to who asked for them.

    Attributes
    ----------
    alive : (switches,) float64
        1 for a living switch, 0 for a dead one [-].
    living : (cables,) float64
        Bandwidth of each cable between switches, 0 if it is dead.
    up, down : (switches,) float64
        Living cables of each switch to living upper ones, and to living lower ones. A leaf switch has its access cables
        below it, dead or alive.
    """

    alive: NDArray[np.float64]
    living: NDArray[np.float64]
    up: NDArray[np.float64]
    down: NDArray[np.float64]


def whole_units(bandwidth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return bandwidths as whole multiples of a small part of the largest one [-]."""
    units: NDArray[np.float64] = np.rint(bandwidth / bandwidth.max() * _FASTEST)
    return units

"""The numbers of a job that saves to stores of several levels, checked and of one shape.

Level l of L is the store that faults of class l need, at index l - 1 of each sequence; see `sim.theory.multilevel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from sim.theory.broadcast import FloatArray, non_negative, positive
from sim.theory.counts import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    PerLevel: TypeAlias = Sequence[npt.ArrayLike]

__all__ = ["Levels", "PerLevel", "checked_levels"]


class Levels(NamedTuple):
    """Computing between saves of level 1 [s]; and by level or class: counts [-], rates [1/s], and times [s]."""

    interval: FloatArray
    counts: list[FloatArray]
    writes: list[FloatArray]
    rates: list[FloatArray]
    restarts: list[FloatArray]
    downtimes: list[FloatArray]
    drains: list[FloatArray]

    @property
    def levels(self) -> int:
        """Number of levels [-]."""
        return len(self.writes)

    def rate(self, first: int, last: int) -> FloatArray:
        """Return the rate of the classes from `first` to `last` [1/s]."""
        return sum(self.rates[first - 1 : last], np.zeros_like(self.interval))


def checked_levels(
    interval: npt.ArrayLike,
    counts: PerLevel,
    writes: PerLevel,
    rates: PerLevel,
    restarts: PerLevel,
    downtimes: PerLevel | None,
    drains: PerLevel | None,
) -> Levels:
    """Return the arguments of `multilevel_shares`, checked and of one shape.

    Raises
    ------
    ValueError
        As `multilevel_shares`.
    """
    levels = len(writes)
    none = [0.0] * levels
    groups = {
        "writes": writes,
        "rates": rates,
        "restarts": restarts,
        "downtimes": none if downtimes is None else downtimes,
        "drains": none if drains is None else drains,
    }
    for name, given in groups.items():
        if len(given) != levels or not levels:
            message = f"{name} must have one value for each level, as writes have ({levels}), got {len(given)}"
            raise ValueError(message)
    if len(counts) != levels - 1:
        message = f"counts must have one value for each level but the last, {levels - 1}, got {len(counts)}"
        raise ValueError(message)
    flat = [positive("interval", interval), *(whole("counts", count, 1) for count in counts)]
    flat += [non_negative(name, value) for name, given in groups.items() for value in given]
    tau, *rest = np.broadcast_arrays(*flat)
    ratios, values = rest[: levels - 1], rest[levels - 1 :]
    model = Levels(tau, ratios, *(values[start : start + levels] for start in range(0, 5 * levels, levels)))
    spacing = tau
    for number, drain in enumerate(model.drains):
        spacing = spacing * ratios[number - 1] if number else spacing
        if np.any(drain > spacing):
            message = f"drains must not exceed the spacing of their level, got {drains!r} with interval {interval!r}"
            raise ValueError(message)
    return model

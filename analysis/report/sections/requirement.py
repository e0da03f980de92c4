"""What a closed form says of a scenario whose failures are rarer, and which comes back faster."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sim
from analysis.report.scaled import at_rate, shares_of

if TYPE_CHECKING:
    from sim import Prepared

__all__ = ["FACTORS", "LEVELS", "SCALES", "Requirement"]

FACTORS = tuple(2.0 ** (step / 4) for step in range(-8, 17, 3))
"""How many times as long between failures [-]."""
SCALES = (0.5, 1.0, 2.0)
"""Times of detection and recovery, relative to those of the scenario [-]."""
LEVELS = (0.90, 0.95, 0.97)
"""Shares of productive time that are asked for [-]."""

_NEVER = 1e4
"""A factor at which failures are so rare that they cost nothing but in proportion to their rate [-]."""
_PLACES = 49
"""Places of the picture in each direction [-]."""
_NEAR = 5e-4
"""How far from a level a factor may lead that is taken for the one that leads there [-]."""


@dataclass(frozen=True)
class Requirement:
    """The share of productive time over the failure rate and the time to come back, by closed form.

    Parameters
    ----------
    prepared
        The scenario, which a closed form describes.
    """

    prepared: Prepared

    @functools.cached_property
    def values(self) -> tuple[tuple[float, ...], ...]:
        """ETTR by `SCALES` and `FACTORS` [-]."""
        return tuple(tuple(_ettr(at_rate(each, factor)) for factor in FACTORS) for each in self._scaled)

    @functools.cached_property
    def best(self) -> tuple[float, ...]:
        """ETTR by `SCALES` where hardly anything fails [-]."""
        return tuple(shares["productive"] for shares in self._rare)

    @functools.cached_property
    def pauses(self) -> tuple[float, ...]:
        """Mean time from a failure to stepping again, by `SCALES` [s]; of failures that do not meet."""
        mtti = _NEVER * self.prepared.jobs[0].mtti
        return tuple((found.get("detection", 0.0) + found.get("restart", 0.0)) * mtti for found in self._rare)

    def fine(self) -> tuple[tuple[float, ...], tuple[float, ...], tuple[tuple[float, ...], ...]]:
        """Return factors [-], pauses [s], and ETTR by both [-]: values of the formula, smooth between them."""
        import numpy as np

        factors = np.geomspace(FACTORS[0], FACTORS[-1], _PLACES)
        pauses = np.linspace(self.pauses[0], self.pauses[-1], _PLACES)
        grid = _smooth(self.pauses, _smooth(np.log(FACTORS), np.array(self.values).T, np.log(factors)).T, pauses)
        return tuple(map(float, factors)), tuple(map(float, pauses)), tuple(tuple(map(float, row)) for row in grid)

    def factor_for(self, level: float, scale: float) -> float | None:
        """Return how many times as long it has to be between failures for a level [-].

        Parameters
        ----------
        level
            Share of productive time [-].
        scale
            One of `SCALES`.

        Returns
        -------
        float or None
            The factor; 0 if the first of `FACTORS` is enough, infinite if the last is not, ``None`` if none could be.
        """
        from scipy.optimize import brentq

        row = SCALES.index(scale)
        values, prepared = self.values[row], self._scaled[row]
        if self.best[row] <= level:
            return None
        if values[0] >= level:
            return 0.0
        if values[-1] < level:
            return math.inf
        place = next(index for index, value in enumerate(values) if value >= level)
        ends = math.log(FACTORS[place - 1]), math.log(FACTORS[place])
        logs = [math.log(factor) for factor in FACTORS]
        guess = float(brentq(lambda log: float(_smooth(logs, values, log)) - level, *ends))
        if abs(_ettr(at_rate(prepared, math.exp(guess))) - level) > _NEAR:
            guess = float(brentq(lambda log: _ettr(at_rate(prepared, math.exp(log))) - level, *ends, xtol=1e-3))
        return math.exp(guess)

    @functools.cached_property
    def _scaled(self) -> tuple[Prepared, ...]:
        """The scenario with faster and slower detection and recovery."""
        return tuple(_at_scale(self.prepared, scale) for scale in SCALES)

    @functools.cached_property
    def _rare(self) -> tuple[dict[str, float], ...]:
        """Shares of time where hardly anything fails [-]."""
        return tuple(_shares(at_rate(each, _NEVER)) for each in self._scaled)


def _smooth(places: Any, shares: Any, at: Any) -> Any:
    """Return shares between places, each column by itself: as smooth as can be without a new high or low.

    What is interpolated is the logit, in which shares are nearly straight lines at both ends (F. N. Fritsch and
    J. Butland, SIAM J. Sci. Stat. Comput. 5, 1984).
    """
    import numpy as np
    from scipy.interpolate import PchipInterpolator

    known = np.clip(np.asarray(shares), 1e-9, 1 - 1e-9)
    return 1 / (1 + np.exp(-PchipInterpolator(places, np.log(known / (1 - known)), axis=0)(at)))


def _at_scale(prepared: Prepared, scale: float) -> Prepared:
    """Return the scenario with all times of detection and recovery so many times as long."""
    scenario = prepared.scenario
    changes: dict[str, Any] = {}
    for part in ("detection", "recovery"):
        strategy: Any = getattr(scenario, part)
        changes[part] = strategy.model_copy(update={"scale": scale * strategy.scale})
    if scale == 1:
        return prepared
    # The topology does not change, and takes longest to build.
    found = sim.examine(scenario.model_copy(update=changes))
    pairs = zip(found.sources, prepared.sources, strict=True)
    sources = tuple(replace(source, blast=known.blast) for source, known in pairs)
    same = {name: getattr(prepared, name) for name in ("blast", "network", "packed_by")}
    return replace(found, sources=sources, **same)


def _ettr(prepared: Prepared) -> float:
    """Return the share of productive time by the closed form [-]."""
    return _shares(prepared)["productive"]


def _shares(prepared: Prepared) -> dict[str, float]:
    """Return the shares of time by the closed form [-]."""
    found = shares_of(prepared)
    assert found is not None, "a closed form describes it"
    return found

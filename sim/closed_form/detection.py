r"""How long a failure stays unknown when others may follow: whatever is found first ends the wait for all of them.

With S_c(t) the probability that a failure of cause c is still unknown t after it, and F the probability that one of any
cause is known by then, failures at the rate lambda in the meantime leave

.. math:: d_c = \int_0^\infty S_c(t) \exp\Bigl(-\lambda \int_0^t F(s)\, ds\Bigr) dt

of the mean ``int S_c``: of those that came s before t a share F(s) is known, and the number of points of a Poisson
process with a mark is Poisson. Where every failure is found after one fixed time, F is zero until then: no change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sim.theory.expansion import Expansion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sim.noticing import Noticing
    from sim.theory.expansion import Number

__all__ = ["Unknown"]

# Times between these quantiles of each law are steps of the integral, as are the places where laws jump.
_STEPS = 600
_TAIL = np.array([1e-9, 1e-6, 1e-4, 1e-3])
_QUANTILES = np.concatenate([_TAIL, np.linspace(0.01, 0.99, 50), 1 - _TAIL])


class Unknown:
    """Failures of several causes, until they are known.

    Parameters
    ----------
    noticings
        Who notices each cause; ``None`` where the job steps on until it is known, or nobody knows.
    shares
        Share of each cause of all failures [-].
    """

    def __init__(self, noticings: Sequence[Noticing | None], shares: Sequence[float]) -> None:
        edges = _edges([each for each in noticings if each is not None])
        self._steps = np.diff(edges)
        middles = edges[:-1] + self._steps / 2
        each_once = {each: _survival(each, middles) for each in noticings if each is not None}
        self._unknown = [None if each is None else each_once[each] for each in noticings]
        known: NDArray[Any] = np.zeros(len(middles))
        for unknown, share in zip(self._unknown, shares, strict=True):
            # What stops the job only when it is known is known at once.
            known += share * (1.0 if unknown is None else 1.0 - unknown)
        pieces = known * self._steps
        self._ended = np.cumsum(pieces) - pieces / 2
        self._means = [0.0 if each is None else each.mean_value for each in noticings]

    def means(self, rate: Number) -> list[Number]:
        """Return the mean time until a failure of each cause is known [s].

        Parameters
        ----------
        rate
            Failures of the job [1/s].
        """
        # Beside the mean, which is known, the integral has only to say what is missing of it.
        if isinstance(rate, Expansion):
            lacking = [0.0 if each is None else float((each * self._steps) @ self._ended) for each in self._unknown]
            return [mean - rate * lack for mean, lack in zip(self._means, lacking, strict=True)]
        gone = -np.expm1(-rate * self._ended) * self._steps
        return [
            mean - (0.0 if each is None else float(each @ gone))
            for mean, each in zip(self._means, self._unknown, strict=True)
        ]


def _edges(noticings: Sequence[Noticing]) -> NDArray[Any]:
    """Return times between which all laws of detection are smooth [s], from zero to where nothing is left of them."""
    laws = {observer.law for noticing in noticings for observer in noticing.observers if observer.coverage > 0}
    laws |= {noticing.human for noticing in noticings if noticing.human is not None}
    times = [times for law in laws for times in (np.array(law.breaks), law.ppf(_QUANTILES))]
    bends = np.unique(np.concatenate([np.zeros(1), *times]))
    parts = max(_STEPS // len(bends), 2)
    return np.asarray(np.interp(np.arange((len(bends) - 1) * parts + 1) / parts, np.arange(len(bends)), bends))


def _survival(noticing: Noticing, times: NDArray[Any]) -> NDArray[Any]:
    """Return the probability that a fault which somebody notices is unknown at `times` [s] [-], shape (n,)."""
    missed, unknown = 1.0, np.ones(len(times))
    for observer in noticing.observers:
        missed *= 1.0 - observer.coverage
        unknown = unknown * (1.0 - observer.coverage * observer.law.cdf(times))
    late: Any = 0.0
    if noticing.human is not None:
        late = missed * (1.0 - noticing.human.cdf(times))
    return np.asarray((unknown - missed + late) / noticing.certain, dtype=np.float64)

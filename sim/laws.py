"""Laws of lifetimes and durations that a user may describe.

A law is a distribution of a time X >= 0. Everything is an inverse CDF of a uniform number, so that one keyed number
gives one life and a changed parameter moves that life smoothly instead of drawing another.

A unit that has been renewed for a long time is met at a random moment inside a *length-biased* life L, with density
x f(x) / E[X]. The time since the last renewal and the time to the next are (1 - V) L and V L with V uniform and
independent of L: that is the stationary start of a renewal process.

A unit whose hazard is a constant multiple of another's at every age (proportional hazards, Cox 1972) has the survival
P(X > x)^ratio. Its life is the life of another uniform number by the same law: `hazard_number`.

References
----------
D. R. Cox, *Renewal Theory*, Methuen, 1962 (equilibrium renewal processes and length-biased sampling). D. R. Cox,
"Regression models and life-tables", Journal of the Royal Statistical Society B 34 (1972) (proportional hazards).
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated

import numpy as np

from sim.fields import OneOf
from sim.law_kinds import Empirical, Exponential, Fixed, Gamma, Lognormal, TextIsFixed, Uniform, Weibull
from sim.law_mixture import Mixture, MixturePart, PlainLaws
from sim.law_model import LawModel
from sim.law_piecewise import HazardPiece, Piecewise

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "Empirical",
    "Exponential",
    "Fixed",
    "Gamma",
    "HazardPiece",
    "Law",
    "LawModel",
    "Lognormal",
    "Mixture",
    "MixturePart",
    "Piecewise",
    "Uniform",
    "Weibull",
    "age_and_residual",
    "draw",
    "hazard_number",
    "hazard_number_one",
    "residual",
]

# The numbers strictly between 0 and 1 that a float can hold.
_LEAST, _MOST = sys.float_info.min, 1 - 2.0**-53

Law = Annotated[PlainLaws | Mixture, OneOf("law"), TextIsFixed()]


def draw(law: LawModel, mark: Callable[[str], float], purpose: str) -> float:
    """Return the time [s] that a law gives to one purpose of a failure, by the failure's mark of that name."""
    if isinstance(law, Fixed):  # the common case needs no random number
        return law.value
    return law.ppf_one(mark(purpose))


def age_and_residual(
    law: LawModel, u: NDArray[np.float64], v: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ages and the residual lives of units met at a random moment of a stationary renewal process.

    With L the length-biased life, ``age = (1 - v) L`` and ``residual = v L``. Both have the density
    P(X > x) / E[X] and the mean E[X^2] / (2 E[X]).

    Parameters
    ----------
    law
        Law of a whole life.
    u, v
        Independent uniform numbers in (0, 1) [-], shape (n,): for the life and for the place in it.

    Returns
    -------
    tuple[NDArray[np.float64], NDArray[np.float64]]
        Ages and residual lives [s], shape (n,) each.

    References
    ----------
    D. R. Cox, *Renewal Theory*, Methuen, 1962 (the equilibrium renewal process).
    """
    life = law.length_biased_ppf(u)
    return (1 - v) * life, v * life


def residual(law: LawModel, u: NDArray[np.float64], v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the residual lives of `age_and_residual` [s], shape (n,)."""
    return age_and_residual(law, u, v)[1]


def hazard_number(u: NDArray[np.float64], ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the uniform numbers whose lives are those of units with other hazards.

    A unit with the hazard ratio r survives x with probability P(X > x)^r. Its life is therefore ``law.ppf`` of
    1 - (1 - u)^(1 / r), for every law.

    Parameters
    ----------
    u
        Uniform numbers in (0, 1) [-], shape (n,).
    ratio
        Hazards relative to the law's [-], above zero, shape (n,).

    Returns
    -------
    NDArray[np.float64]
        Numbers in (0, 1) [-], shape (n,). A float holds no number between 1 - 2^-53 and 1: a life that would be longer
        than this quantile (36.7 means of an exponential law) is as long as it.

    References
    ----------
    D. R. Cox, "Regression models and life-tables", Journal of the Royal Statistical Society B 34 (1972).
    """
    return np.clip(-np.expm1(np.log1p(-u) / ratio), _LEAST, _MOST)


def hazard_number_one(u: float, ratio: float) -> float:
    """Return `hazard_number` of one number."""
    return min(max(-math.expm1(math.log1p(-u) / ratio), _LEAST), _MOST)

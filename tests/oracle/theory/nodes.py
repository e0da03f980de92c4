"""Nodes down at once: on the way from a fresh cluster, with common causes, in episodes; and a job starved of them.

Laws are arrays with the probabilities of 0, 1, 2, ... nodes down. Nodes have exponential lives and a crew for each
repair, unless crews are said. A law of repairs is given by its *survival function*, the probability that a repair takes
longer than a time. Times [s], rates [1/s], probabilities [-].
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from ettrick.sim.formulas.arrays import from_ratios
from ettrick.sim.formulas.goodput import expected_shares
from ettrick.sim.formulas.nodes import missing_nodes_pmf, starvation

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    FloatArray: TypeAlias = npt.NDArray[np.float64]
    Survival: TypeAlias = Callable[[FloatArray], FloatArray]


def relaxation_time(life: float, repair: float) -> float:
    """Return the time in which the distance to the long run falls to 1/e, for exponential repairs [s]."""
    return 1.0 / (1.0 / life + 1.0 / repair)


def unavailability_at(time: float, life: float, repair: float) -> float:
    r"""Return the probability that a node is down at t if it was up at 0, for exponential repairs [-].

    ``q(t) = repair / (life + repair) (1 - exp(-t / tau))``, tau the `relaxation_time`. Of N independent nodes the
    number down at t is binomial with q(t).

    References
    ----------
    K. S. Trivedi, "Probability and Statistics with Reliability, Queuing, and Computer Science Applications", 2nd ed.,
    Wiley (2002), section 8.3 (two-state chain).
    """
    return repair / (life + repair) * -math.expm1(-time / relaxation_time(life, repair))


def cold_start_share(horizon: float, relaxation: float, warmup: float = 0.0) -> float:
    r"""Return the mean number down over a window, as a share of the long run, from a start with all nodes up [-].

    ``1 - exp(-w / tau) (1 - exp(-x)) / x`` with ``x = T / tau``: the mean of ``1 - exp(-t / tau)`` over a horizon T
    that begins after a warm-up w.
    """
    x = horizon / relaxation
    return 1.0 + math.exp(-warmup / relaxation) * math.expm1(-x) / x


def unavailability_curve(horizon: float, life: float, survival: Survival, steps: int = 1000) -> FloatArray:
    r"""Return the probability that a node is down at 0, T / steps, ..., T if it was up at 0, for any law of repair [-].

    It is up with ``A(t) = 1 - (1 / life) int_0^t A(t - u) (1 - G(u)) du``: failures at t are A(t) / life in unit time,
    and one before u is still in repair with 1 - G(u). Solved step by step, A linear and 1 - G integrated in a step; the
    error falls with the square of the step.

    References
    ----------
    Renewal equation of a unit that is repaired: D. R. Cox, "Renewal Theory", Methuen (1962), chapter 7; product
    integration: P. Linz, "Analytical and Numerical Methods for Volterra Equations", SIAM (1985), chapter 8.
    """
    weights = _integrals(survival, np.linspace(0.0, horizon, steps + 1)) / life
    up, between = np.ones(steps + 1), np.empty(steps)
    for i in range(1, steps + 1):
        past = weights[1:i] @ between[: i - 1][::-1]
        up[i] = (1.0 - past - weights[0] * up[i - 1] / 2.0) / (1.0 + weights[0] / 2.0)
        between[i - 1] = (up[i - 1] + up[i]) / 2.0
    return 1.0 - up


def repairs_at(time: float, rate: float, survival: Survival) -> float:
    r"""Return the mean number of nodes in repair at t if nobody was at 0, ``a(t) = rate int_0^t (1 - G(u)) du``.

    With Poisson failures of the whole cluster (M/G/infinity) the number in repair at t is Poisson with this mean.

    References
    ----------
    L. Takacs, "Introduction to the Theory of Queues", Oxford (1962), chapter 3; S. G. Eick, W. A. Massey and W. Whitt,
    "The physics of the M(t)/G/infinity queue", Operations Research 41 (1993).
    """
    return rate * float(_integrals(survival, np.linspace(0.0, time, 101)).sum())


def mean_repairs(horizon: float, rate: float, survival: Survival) -> float:
    """Return the mean of `repairs_at` over [0, T], ``rate int_0^T (1 - G(u)) (1 - u / T) du``."""
    return repairs_at(horizon, rate, lambda u: survival(u) * (1.0 - u / horizon))


def _integrals(function: Survival, edges: FloatArray) -> FloatArray:
    """Return the integral of a smooth function over each panel between `edges`, by Gauss's rule."""
    points, weights = np.polynomial.legendre.leggauss(10)
    half = np.diff(edges)[:, None] / 2.0
    return np.asarray((half * function(edges[:-1, None] + half + half * points)) @ weights)


def domain_missing_pmf(domains: int, members: int, node: float, domain: float) -> FloatArray:
    r"""Return the probabilities that 0, 1, ..., N of ``N = D m`` nodes are down, of D domains of m nodes.

    A node has faults of its own, open with the probability q1, and its domain (a rack, the nodes of a leaf switch) has
    faults that take all of its nodes down, with q2: ``p = sum_K Binomial(D, q2)[K] Binomial(m (D - K), q1)[. - m K]``.

    Assumes that the two know nothing of each other. Where what is down already cannot fail, as in a simulation, and all
    times are exponential, q1 / (1 - q1) of the nodes of a domain that is up is smaller by
    ``(mu + nu) / (mu + nu + b)``, mu and nu the repair rates of node and domain, b the failure rate of a domain: by
    less than a repair over a life of a domain.

    References
    ----------
    A. W. Marshall and I. Olkin, "A multivariate exponential distribution", J. Amer. Statist. Assoc. 62 (1967).
    """
    law = np.zeros(domains * members + 1)
    for down, shocks in enumerate(missing_nodes_pmf(domains, domain)):
        rest = missing_nodes_pmf((domains - down) * members, node) if down < domains else np.ones(1)
        law[down * members :] += shocks * rest
    return law


def gamma_mixed(law: Callable[[float], npt.ArrayLike], variation: float) -> FloatArray:
    r"""Return the mean of a law over an environment: a random factor Z of a rate, Gamma with mean 1 and variance v.

    ``E law(Z)``, by Gauss-Laguerre quadrature of 128 points: a bad month or a bad release, one for all nodes, which
    changes slowly. The Poisson law of M/G/infinity becomes the negative binomial law with the dispersion ``1 + v a``.

    References
    ----------
    Frailty: J. W. Vaupel, K. G. Manton and E. Stallard, Demography 16 (1979); the rule: G. H. Golub and J. H. Welsch,
    Math. Comp. 23 (1969).
    """
    shape, k = 1.0 / variation, np.arange(128)
    # The rule of the Gamma law of this shape: eigenvalues, and first components squared, of its Jacobi matrix.
    side = np.sqrt(k[1:] * (k[1:] + shape - 1.0))
    roots, vectors = np.linalg.eigh(np.diag(2.0 * k + shape) + np.diag(side, 1) + np.diag(side, -1))
    laws = [np.asarray(law(factor), dtype=np.float64) for factor in (roots / shape).tolist()]
    return np.asarray(np.tensordot(vectors[0] ** 2, laws, axes=1))


class Shortage(NamedTuple):
    """How a pool that starts with all nodes up is short of them, in mean times [s]."""

    first: float
    """Until the first episode begins."""
    length: float
    """From the beginning of an episode to its end."""
    gap: float
    """From the end of an episode to the beginning of the next."""


def shortage(required: int, spares: int, failure_rate: float, repair_rate: float, crews: int) -> Shortage:
    r"""Return when, for how long and how often more than s of R + s nodes are down.

    Birth-death chain with ``b_k = (R + s - k) lambda`` from k to k + 1 nodes down and ``d_k = min(k, c) mu`` back. The
    mean time from k to k + 1 is ``T_k = (1 + d_k T_(k-1)) / b_k``, and the first episode begins after ``T_0 + ... +
    T_s``. In the long run an episode lasts ``1 / (P(s + 1 | more than s) d_(s+1))`` on average, a gap
    ``1 / (P(s | at most s) b_s)``.

    References
    ----------
    S. Karlin and J. McGregor, "The classification of birth and death processes", Trans. Amer. Math. Soc. 86 (1957);
    J. Keilson, "Markov Chain Models: Rarity and Exponentiality", Springer (1979), chapter 8.
    """
    k = np.arange(required + spares, dtype=np.float64)
    fails, repairs = (required + spares - k) * failure_rate, np.minimum(k + 1.0, crews) * repair_rate
    first = passage = back = 0.0
    for birth, death in zip(fails[: spares + 1].tolist(), repairs[: spares + 1].tolist(), strict=True):
        passage = (1.0 + back * passage) / birth
        first, back = first + passage, death
    ratios = fails / repairs
    below, above = from_ratios(ratios[:spares]), from_ratios(ratios[spares + 1 :])
    return Shortage(first, float(1.0 / (above[0] * repairs[spares])), float(1.0 / (below[-1] * fails[spares])))


def starved_shares(
    interval: float,
    write: float,
    life: float,
    repair: float,
    required: int,
    spares: int,
    *,
    restart: float = 0.0,
    drain: float = 0.0,
    **changes: float,
) -> dict[str, float]:
    r"""Return where the time of a rigid job with a limited number of spares goes [-].

    .. math:: \text{productive} = (1 - S - D)\, E

    E the `efficiency` at the mean time to interrupt ``L / R`` without downtime, S the share starved and D that in
    detection, as `ettrick.sim.formulas.nodes` has them and derives it.

    Parameters
    ----------
    interval, write, drain
        Computing time between saves, blocking time of one, and from its end to durability [s].
    life, repair, required, spares, changes
        As for `starvation`.
    restart
        Time of a restart, once the nodes are there [s]; failures start it over.

    Returns
    -------
    dict of str to float
        Shares [-] named ``productive, checkpoint_stall, lost_work, detection, starved, restart``. They sum to 1.
    """
    waits = starvation(life, repair, required, spares, **changes)  # type: ignore[arg-type]
    found = expected_shares(interval, write, life / required, restart, 0.0, drain)
    there = 1.0 - waits.share - waits.detection
    shares = {name: there * share for name, share in found.items()}
    return shares | {"detection": waits.detection, "starved": waits.share}

r"""Nodes that do not fail independently: shocks that take whole domains, and an environment that all share.

*Shocks* (Marshall and Olkin): a node has faults of its own, and a domain of m nodes (a rack, the nodes of a leaf
switch, a scale-up domain) has faults that take all its nodes down at once and are repaired as one. A node is down while
one of the two is open. The functions take the two probabilities, *of the node* q1 and *of the domain* q2 [-]. They are
`steady_unavailability` for the long run, `unavailability_at` for a time after a start with all up, and
``1 - exp(-t / life)`` for what has failed by t without repair.

The assumption is that the two know nothing of each other. Where what is down already cannot fail, as in a simulation,
and all times are exponential, q1 / (1 - q1) of the nodes of a domain that is up is smaller by
``(mu + nu) / (mu + nu + b)``, mu and nu the repair rates of node and domain, b the failure rate of a domain: by less
than a repair over a life of a domain.

An *environment* (a bad month, a bad release) multiplies a rate of all nodes by one random factor, see `gamma_mixed`.
Laws are arrays with the probabilities of 0, 1, 2, ... nodes down: `sim.theory.counts` reads them. Times [s], rates
[1/s], probabilities [-].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import numpy as np

from sim.theory.availability import missing_nodes_pmf
from sim.theory.broadcast import FloatArray, non_negative, plain, positive
from sim.theory.counts import share, whole
from sim.theory.redundancy import at_least_up

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

__all__ = ["beta_factor", "domain_dispersion", "domain_missing_pmf", "domain_usable", "gamma_mixed"]

# Numbers of domains down that are rarer than this are left out of the law of the nodes down.
_NEVER = 1e-40


@overload
def beta_factor(rate: float, beta: float) -> tuple[float, float]: ...
@overload
def beta_factor(rate: npt.ArrayLike, beta: npt.ArrayLike) -> tuple[FloatArray, FloatArray]: ...
def beta_factor(rate: npt.ArrayLike, beta: npt.ArrayLike) -> tuple[float | FloatArray, float | FloatArray]:
    r"""Return the rate of a node's own faults and that of its domain's, ``((1 - beta) rate, beta rate)``.

    beta is the share of the failures of one node that take its whole domain. The second rate is that of one domain,
    however many nodes it has: a job on n nodes of d domains is interrupted at ``n (1 - beta) rate + d beta rate``.

    Parameters
    ----------
    rate : float or (n,) array
        Failures of one node in unit time, of both kinds [1/s].
    beta : float or (n,) array
        Share of them that the domain has in common [-].

    Returns
    -------
    tuple of float or of (n,) array
        Rates [1/s].

    Raises
    ------
    ValueError
        If `rate` is negative or not finite, or `beta` is outside [0, 1].

    References
    ----------
    K. N. Fleming, General Atomic report GA-A13284 (1974); A. Mosleh et al., NUREG/CR-4780 (1988).
    """
    failures, common = non_negative("rate", rate), share("beta", beta)
    return plain((1.0 - common) * failures), plain(common * failures)


def domain_missing_pmf(
    domains: int, members: int, node_unavailability: float, domain_unavailability: float
) -> FloatArray:
    r"""Return the probabilities that 0, 1, ..., N of ``N = D m`` nodes are down, of D domains of m nodes.

    With K of the domains down, the number of nodes down is ``m K`` and a binomial number of the other ``m (D - K)``:
    ``p = sum_K Binomial(D, q2)[K] Binomial(m (D - K), q1)[. - m K]``. Exact, up to numbers of domains rarer than 1e-40;
    every term is positive. With m = 1 or q2 = 0 it is `missing_nodes_pmf`.

    Parameters
    ----------
    domains : int
        Number of domains, D.
    members : int
        Nodes of a domain, m.
    node_unavailability : float
        Probability that a fault of its own keeps a node down, q1 [-].
    domain_unavailability : float
        Probability that a fault of the domain keeps its nodes down, q2 [-].

    Returns
    -------
    (domains * members + 1,) array
        Probabilities [-].

    Raises
    ------
    ValueError
        If `domains` or `members` is no whole number from 1, or a probability is outside [0, 1].

    References
    ----------
    A. W. Marshall and I. Olkin, "A multivariate exponential distribution", J. Amer. Statist. Assoc. 62 (1967).
    """
    d, m = int(whole("domains", domains, 1)), int(whole("members", members, 1))
    q1 = float(share("node_unavailability", node_unavailability))
    shocks = missing_nodes_pmf(d, float(share("domain_unavailability", domain_unavailability)))
    law = np.zeros(d * m + 1)
    for down in np.flatnonzero(shocks > _NEVER).tolist():
        rest = missing_nodes_pmf((d - down) * m, q1) if down < d else np.ones(1)
        law[down * m :] += shocks[down] * rest
    return law


@overload
def domain_dispersion(members: float, node_unavailability: float, domain_unavailability: float) -> float: ...
@overload
def domain_dispersion(
    members: npt.ArrayLike, node_unavailability: npt.ArrayLike, domain_unavailability: npt.ArrayLike
) -> FloatArray: ...
def domain_dispersion(
    members: npt.ArrayLike, node_unavailability: npt.ArrayLike, domain_unavailability: npt.ArrayLike
) -> float | FloatArray:
    r"""Return the variance of the number of nodes down over that of independent nodes, ``D = 1 + (m - 1) rho``.

    ``rho = q2 (1 - q2) (1 - q1)^2 / (q (1 - q))`` is the correlation of two nodes of a domain, and
    ``q = 1 - (1 - q1) (1 - q2)`` the unavailability of a node. It does not depend on the number of domains. The number
    down has the mean ``N q`` and the variance ``D N q (1 - q)``. `missing_nodes_pmf` with this dispersion has both, and
    another tail: there the whole cluster shares what here the domains have each for themselves.

    Parameters
    ----------
    members, node_unavailability, domain_unavailability : float or (n,) array
        As for `domain_missing_pmf`.

    Returns
    -------
    float or (n,) array
        Dispersion [-], between 1 and m; 1 where no node ever fails.

    Raises
    ------
    ValueError
        As for `domain_missing_pmf`.
    """
    m, q1 = whole("members", members, 1), share("node_unavailability", node_unavailability)
    q2 = share("domain_unavailability", domain_unavailability)
    # With 1 - q = (1 - q1) (1 - q2) taken out: what is left is 0 over 0 only where no node ever fails.
    shared, either = q2 * (1.0 - q1), q1 + q2 - q1 * q2
    rho = np.divide(shared, either, out=np.zeros(np.broadcast(q1, q2).shape), where=either > 0.0)
    return plain(1.0 + (m - 1.0) * rho)


@overload
def domain_usable(members: float, needed: float, node_unavailability: float, domain_unavailability: float) -> float: ...
@overload
def domain_usable(
    members: npt.ArrayLike,
    needed: npt.ArrayLike,
    node_unavailability: npt.ArrayLike,
    domain_unavailability: npt.ArrayLike,
) -> FloatArray: ...
def domain_usable(
    members: npt.ArrayLike,
    needed: npt.ArrayLike,
    node_unavailability: npt.ArrayLike,
    domain_unavailability: npt.ArrayLike,
) -> float | FloatArray:
    r"""Return the probability that a domain has the nodes a job takes of it, ``(1 - q2) P(at least k of m up)``.

    A domain that must be whole has it with ``(1 - q2) (1 - q1)^m``. A job of whole domains runs while enough of them
    are usable: ``at_least_up(domains needed, domains, 1 - domain_usable(...))``.

    Parameters
    ----------
    members, node_unavailability, domain_unavailability : float or (n,) array
        As for `domain_missing_pmf`.
    needed : float or (n,) array
        Nodes of a domain that a job takes, k, at most m.

    Returns
    -------
    float or (n,) array
        Probability [-].

    Raises
    ------
    ValueError
        As for `domain_missing_pmf`, or if `needed` is no whole number from 0 to `members`.
    """
    up = 1.0 - share("domain_unavailability", domain_unavailability)
    return plain(up * np.asarray(at_least_up(needed, members, node_unavailability)))


def gamma_mixed(law: Callable[[float], npt.ArrayLike], variation: float, points: int = 128) -> FloatArray:
    r"""Return the mean of a law over an environment: a random factor Z of a rate, Gamma with mean 1 and variance v.

    ``E law(Z)``, by Gauss-Laguerre quadrature. Assumes that the environment is one for all nodes and changes slowly:
    for a law at t it stays from 0 to t, for a long-run law it outlasts the repairs. With the Poisson law of
    M/G/infinity the answer is the negative binomial law of `repairs_pmf` with dispersion ``1 + v a``; here any law may
    depend on the factor: k-of-n without repair, crews, domains, a time after the start.

    Parameters
    ----------
    law : callable
        A law, or any number, by the factor Z [-] of the rate.
    variation : float
        Variance of Z, its squared coefficient of variation, v [-]; 0 is no environment.
    points : int
        Points of the quadrature. It is exact where the law is a polynomial of Z of a degree below 2 `points`. With the
        default the distribution function of a count of mean a is right to 1e-11 up to ``v a = 10``, to 1e-4 up to 30.

    Returns
    -------
    array
        What `law` returns, averaged.

    Raises
    ------
    ValueError
        If `variation` is negative or `points` is no whole number from 1.

    References
    ----------
    Frailty: J. W. Vaupel, K. G. Manton and E. Stallard, Demography 16 (1979); the rule: G. H. Golub and J. H. Welsch,
    Math. Comp. 23 (1969).
    """
    if float(non_negative("variation", variation)) == 0.0:
        return np.asarray(law(1.0), dtype=np.float64)
    shape, k = 1.0 / float(positive("variation", variation)), np.arange(int(whole("points", points, 1)))
    # The rule of the Gamma law of this shape: eigenvalues, and first components squared, of its Jacobi matrix.
    side = np.sqrt(k[1:] * (k[1:] + shape - 1.0))
    roots, vectors = np.linalg.eigh(np.diag(2.0 * k + shape) + np.diag(side, 1) + np.diag(side, -1))
    factors = np.maximum(roots / shape, np.finfo(np.float64).tiny)  # a mean life is divided by them
    rows = [
        weight * np.asarray(law(factor), dtype=np.float64)
        for factor, weight in zip(factors.tolist(), (vectors[0] ** 2).tolist(), strict=True)
    ]
    return np.asarray(np.sum(rows, axis=0))

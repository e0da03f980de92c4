r"""How often a job is interrupted as it grows: by nodes, racks and switches that it touches, or as a measured power.

Rates [1/s], sizes [GPUs].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sim.theory.broadcast import FloatArray, non_negative, plain, positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["Domain", "PowerLaw", "interruption_rate"]


class Domain(NamedTuple):
    """Parts of which each serves a number of GPUs, such as racks or leaf switches.

    Parameters
    ----------
    gpus
        GPUs of one [-].
    rate
        Failures of one that interrupt the job [1/s].
    """

    gpus: float
    rate: float


@dataclass(frozen=True)
class PowerLaw:
    r"""A quantity that grows as a power of the number of GPUs, ``a (N / N0)^x``.

    Parameters
    ----------
    gpus
        Size at which the value is known, N0.
    value
        Value there, a.
    exponent
        Power, x [-]; 0 for a constant.
    """

    gpus: float
    value: float
    exponent: float = 1.0

    def __call__(self, gpus: npt.ArrayLike) -> FloatArray:
        """Return the value at a size."""
        return np.asarray(self.value * (positive("gpus", gpus) / self.gpus) ** self.exponent, dtype=np.float64)

    @classmethod
    def through(cls, first: tuple[float, float], second: tuple[float, float]) -> PowerLaw:
        """Return the law through two points, each a size and a value."""
        (small, low), (large, high) = first, second
        for name, values in (("gpus", (small, large)), ("value", (low, high))):
            positive(name, values)
        if small == large:
            message = f"two sizes are needed, got {small!r} twice"
            raise ValueError(message)
        return cls(small, low, math.log(high / low) / math.log(large / small))


def interruption_rate(
    gpus: npt.ArrayLike,
    node_rate: float,
    *,
    gpus_per_node: int = 8,
    domains: Sequence[Domain] = (),
    job_rate: float = 0.0,
) -> float | FloatArray:
    r"""Return the rate at which a job of N GPUs is interrupted [1/s]; its inverse is the MTTI.

    .. math:: \lambda(N) = \lceil N / n \rceil\, r + \sum_d \lceil N / m_d \rceil\, r_d + r_0

    Independent causes with constant rates, each of which interrupts the job; the job sits on as few nodes and domains
    as it can. The terms with large m are staircases: a job that just fits is interrupted less than one that does not.

    Parameters
    ----------
    gpus : float or (n,) array
        GPUs of the job, N.
    node_rate : float
        Failures of one node, r [1/s].
    gpus_per_node : int
        GPUs of a node, n.
    domains : sequence of Domain
        Kinds of parts that serve m GPUs each and fail at r_d.
    job_rate : float
        What does not grow with the job, r_0 [1/s].

    Returns
    -------
    float or (n,) array
        Rate [1/s].

    Raises
    ------
    ValueError
        If a size is not positive, or a rate negative or not finite.

    References
    ----------
    Superposition of Poisson processes; with nodes alone it is ``MTTF = 1 / (N rf)`` of A. Kokolis et al., HPCA 2025,
    arXiv:2410.21680.
    """
    size = positive("gpus", gpus)
    rate = np.ceil(size / positive("gpus_per_node", gpus_per_node)) * non_negative("node_rate", node_rate)
    for domain in domains:
        rate = rate + np.ceil(size / positive("gpus of a domain", domain.gpus)) * non_negative("rate", domain.rate)
    return plain(rate + non_negative("job_rate", job_rate))

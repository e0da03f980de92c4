r"""When replicas that leave one by one pay: the reconfiguration time at which a restart in place does as well.

A node fails. A job that *restarts* loses, with all its GPUs, the restart u, the restore r and the work since the last
durable checkpoint: half of an interval tau and of a write b, and the drain w, on average. A job of R *elastic* replicas
loses the one that was hit for its absence a, the others for the time c in which they reconfigure and about one step T,
and all for the stall j when it is back. To first order elasticity pays if

.. math:: \frac{a}{R} + \frac{R - 1}{R} (c + T) + j < u + r + \frac{\tau + b}{2} + w

Detection is the same for both. Below, both sides are exact as far as `sim.theory.goodput` and `sim.theory.elastic` are,
or simulated on the same failures. All times [s].
"""

from __future__ import annotations

from analysis.crossover.cases import GPUS, STORES, at_scale, published_case
from analysis.crossover.rivals import Rivals
from analysis.crossover.search import (
    Crossing,
    expected_crossover,
    fewest_replicas,
    paired_gains,
    simulated_crossover,
)

__all__ = [
    "GPUS",
    "STORES",
    "Crossing",
    "Rivals",
    "at_scale",
    "expected_crossover",
    "fewest_replicas",
    "paired_gains",
    "published_case",
    "simulated_crossover",
]

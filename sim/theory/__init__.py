"""Closed forms: pure functions of floats and arrays, each with its equation, assumptions and reference.

They answer in microseconds what the simulator answers with intervals, under stronger assumptions; both are always
shown side by side. Arguments broadcast; scalars in, float out. All times [s], shares and probabilities [-].
"""

from __future__ import annotations

from sim.theory.checkpointing import daly_interval, optimal_interval, young_interval
from sim.theory.goodput import efficiency, expected_shares, expected_wallclock, first_order_efficiency

__all__ = [
    "daly_interval",
    "efficiency",
    "expected_shares",
    "expected_wallclock",
    "first_order_efficiency",
    "optimal_interval",
    "young_interval",
]

"""Closed forms: pure functions of floats and arrays, each with its equation, assumptions and reference.

They answer in microseconds what the simulator answers with intervals, under stronger assumptions; both are always
shown side by side. Arguments broadcast, scalars in, float out; laws of counts and searches over them take
scalars. All times [s], shares and probabilities [-].
"""

from __future__ import annotations

from sim.theory.availability import (
    missing_nodes_pmf,
    missing_nodes_quantile,
    offered_repairs,
    repairs_pmf,
    repairs_quantile,
    steady_unavailability,
)
from sim.theory.checkpointing import daly_interval, optimal_interval, young_interval
from sim.theory.counts import enough_probability, exceedance, expected_shortfall, quantile
from sim.theory.goodput import efficiency, expected_shares, expected_wallclock, first_order_efficiency
from sim.theory.spares import cold_spares_needed, crew_limited_pmf, crew_spares_needed, spares_needed

__all__ = [
    "cold_spares_needed",
    "crew_limited_pmf",
    "crew_spares_needed",
    "daly_interval",
    "efficiency",
    "enough_probability",
    "exceedance",
    "expected_shares",
    "expected_shortfall",
    "expected_wallclock",
    "first_order_efficiency",
    "missing_nodes_pmf",
    "missing_nodes_quantile",
    "offered_repairs",
    "optimal_interval",
    "quantile",
    "repairs_pmf",
    "repairs_quantile",
    "spares_needed",
    "steady_unavailability",
    "young_interval",
]

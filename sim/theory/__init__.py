"""Closed forms: pure functions of floats and arrays, each with its equation, assumptions and reference.

They answer in microseconds what the simulator answers with intervals, under stronger assumptions; both are always
shown side by side. Arguments broadcast, scalars in, float out; laws of counts and searches over them take
scalars. All times [s], shares and probabilities [-].

What is asked most is here; the rest is imported from its file, by the question that it answers:

=====================  ================================================================================================
what is up             `availability` in the long run, `transient` from a healthy start, `redundancy` (series, k of n,
                       episodes of shortage), `common_cause` (domains, environments), `counts` (quantiles of all these)
spares                 `spares` (how many are needed), `starved` (what a job loses while there are too few)
when to save           `checkpointing` (Young, Daly, the exact optimum), `periods` (the same of others, whose period
                       includes the save), `multilevel`, `multilevel_plan`, `levels`, `in_memory`
what is left of time   `goodput` (Poisson failures), `classes` (several kinds of failures), `waste` (by cause),
                       `renewal` (gaps of any law, or measured ones), `elastic`, `periodic`, `narrow`, `decomposition`
how it scales          `interruptions`, `scaling`
how sure               `uncertainty`
=====================  ================================================================================================

`broadcast` and `expansion` serve the others: checked arguments, and terms of first and second order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.lazy import import_on_use

if TYPE_CHECKING:
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

import_on_use(
    __name__,
    {
        "availability": "missing_nodes_pmf missing_nodes_quantile offered_repairs repairs_pmf repairs_quantile "
        "steady_unavailability",
        "checkpointing": "daly_interval optimal_interval young_interval",
        "counts": "enough_probability exceedance expected_shortfall quantile",
        "goodput": "efficiency expected_shares expected_wallclock first_order_efficiency",
        "spares": "cold_spares_needed crew_limited_pmf crew_spares_needed spares_needed",
    },
)

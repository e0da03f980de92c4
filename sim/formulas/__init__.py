"""Closed forms: pure functions of floats and arrays, each with its equation, assumptions and reference.

They answer in microseconds what the simulator answers with intervals, under stronger assumptions; both are always
shown side by side. Arguments broadcast, scalars in, float out; laws of counts and searches over them take
scalars. All times [s], shares and probabilities [-]. What commands and the validation table use is here; closed forms
that only tests compare the simulator with are in `tests/oracle/theory`.

What is asked most is imported from `sim.formulas`; the rest is imported from its file, by the question that it answers:

=====================  ================================================================================================
what is up             `availability` in the long run, `counts` (quantiles and tails of its laws)
spares                 `spares` (how many are needed), `starved` (what a job loses while there are too few)
when to save           `checkpointing` (Young, Daly, the exact optimum)
what is left of time   `goodput` (Poisson failures), `classes` (several kinds of failures), `waste` (by cause),
                       `elastic` (replicas that leave one by one)
=====================  ================================================================================================

`broadcast` and `expansion` serve the others: checked arguments, and terms of first and second order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.lazy import import_on_use

if TYPE_CHECKING:
    from sim.formulas.arrays import enough_probability, exceedance, quantile
    from sim.formulas.checkpointing import daly_interval, optimal_interval, young_interval
    from sim.formulas.goodput import efficiency, expected_shares, expected_wallclock, first_order_efficiency
    from sim.formulas.nodes import (
        crew_limited_pmf,
        missing_nodes_pmf,
        repairs_pmf,
        spares_needed,
        steady_unavailability,
    )

__all__ = [
    "crew_limited_pmf",
    "daly_interval",
    "efficiency",
    "enough_probability",
    "exceedance",
    "expected_shares",
    "expected_wallclock",
    "first_order_efficiency",
    "missing_nodes_pmf",
    "optimal_interval",
    "quantile",
    "repairs_pmf",
    "spares_needed",
    "steady_unavailability",
    "young_interval",
]

import_on_use(
    __name__,
    {
        "arrays": "enough_probability exceedance quantile",
        "checkpointing": "daly_interval optimal_interval young_interval",
        "goodput": "efficiency expected_shares expected_wallclock first_order_efficiency",
        "nodes": "crew_limited_pmf missing_nodes_pmf repairs_pmf spares_needed steady_unavailability",
    },
)

"""Meta's research clusters: MTTF from a rate, and the ETTR of a large job, by two formulas and simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.validation.lab import estimate
from analysis.validation.measures.daly import seconds
from analysis.validation.row import Estimate
from sim import Bucket
from sim.formulas import efficiency, first_order_efficiency
from sim.units import DAY, HOUR, MINUTE

if TYPE_CHECKING:
    from analysis.validation.lab import Lab
    from sim import Prepared


NODE_FAILURES = 6.5

"""RSC-1: failures per 1000 node-days."""

RESTART = 5 * MINUTE

GPUS, GPUS_PER_NODE = 16000, 8

MTTF = 1000 * DAY / (GPUS / GPUS_PER_NODE * NODE_FAILURES)

"""Mean time to a failure of any node of a job of 16,000 GPUs, by hand [s]."""


def rsc_mttf(lab: Lab, replications: int, *, gpus: int) -> Estimate:
    """Return the mean time to failure of a job on RSC-1, as its scenario is prepared for the simulator [h]."""
    del replications
    return Estimate(_prepared(lab, HOUR, gpus).jobs[0].mtti / HOUR)


def rsc_ettr(lab: Lab, replications: int, *, interval_min: float, formula: str = "exact") -> Estimate:
    """Return the ETTR of a job of 16,000 GPUs on RSC-1 that loses nothing to saves, by formula or simulated [-].

    `formula` is ``exact``, the renewal argument, or ``first-order``, that of the paper.
    """
    interval = interval_min * MINUTE
    formulas = {
        "exact": efficiency(interval, 0.0, MTTF, RESTART),
        "first-order": first_order_efficiency(interval, 0.0, MTTF, RESTART),
    }
    known = formulas[formula]
    if not replications:
        return Estimate(known)
    return estimate(_simulated(lab, replications, interval), known)


def rsc_formula_error(lab: Lab, replications: int, *, interval_min: float) -> Estimate:
    """Return by what share of the simulated ETTR the formula of the paper is below it [-]."""
    interval = interval_min * MINUTE
    formula = first_order_efficiency(interval, 0.0, MTTF, RESTART)
    expected = 1 - formula / efficiency(interval, 0.0, MTTF, RESTART)
    return estimate((1 - formula / ettr for ettr in _simulated(lab, replications, interval)), expected)


def _simulated(lab: Lab, replications: int, interval: float) -> list[float]:
    """Return the ETTR of each replication, 80 days and about a thousand failures long [-]."""
    jobs = [result.jobs[0] for result in lab.results(_prepared(lab, interval, GPUS), replications)]
    return [float(job.buckets[Bucket.PRODUCTIVE]) / job.requested for job in jobs]


def _prepared(lab: Lab, interval: float, gpus: int) -> Prepared:
    """Return a job on RSC-1 that saves at no cost, prepared."""
    name = f"rsc {interval / MINUTE:g} min"
    tier = {"interval": seconds(interval), "mode": "blocking", "write": "0 s", "restore": "0 s"}
    node = {"use": "component", "name": name, "part": "node", "rate": f"{NODE_FAILURES} per 1000 node-day"}
    return lab.scenario(
        {
            "name": name,
            "cluster": {"nodes": gpus // GPUS_PER_NODE, "gpus_per_node": GPUS_PER_NODE, "fabric": {"radix": 32768}},
            "horizon": "80 d",
            "jobs": [{"name": "job", "gpus": gpus}],
            "failures": [node],
            "detection": {"time": "0 s"},
            "checkpoint": {"tiers": [tier]},
            "recovery": {"use": "hot-spare", "initialize": seconds(RESTART)},
            "repair": {"time": "0 s"},
            "scheduler": {"use": "fifo"},
        }
    )


MEASURES = {"rsc_mttf": rsc_mttf, "rsc_ettr": rsc_ettr, "rsc_formula_error": rsc_formula_error}

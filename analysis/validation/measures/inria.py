"""The periods of INRIA's Table 2, by formula, and the waste at the best of them, by formula and simulated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from analysis.validation.lab import estimate
from analysis.validation.measures.daly import one_job, seconds
from analysis.validation.row import Estimate
from sim import Bucket
from sim.formulas import efficiency, optimal_interval, young_interval
from sim.units import DAY

if TYPE_CHECKING:
    from analysis.validation.lab import Lab

SAVE, RECOVERY, DOWNTIME = 600.0, 600.0, 60.0

INDIVIDUAL_MTBF = 125 * 365 * DAY

FAILURES = 1000

"""Mean number of failures in a replication [-]."""


def inria_period(lab: Lab, replications: int, *, log2_nodes: int, column: str) -> Estimate:
    """Return a column of the table: a time between two checkpoints, checkpoint included, or the platform's MTBF [s].

    `column` is ``mu``, ``young``, ``daly``, ``rfo`` or ``best``. The table's T_daly and T_rfo are the first-order
    periods sqrt(2 (mu + D + R) C) + C and sqrt(2 (mu - D - R) C).
    """
    del lab, replications
    mtbf = INDIVIDUAL_MTBF / 2**log2_nodes
    columns = {
        "mu": mtbf,
        "young": young_interval(SAVE, mtbf) + SAVE,
        "daly": math.sqrt(2 * (mtbf + DOWNTIME + RECOVERY) * SAVE) + SAVE,
        "rfo": math.sqrt(2 * (mtbf - DOWNTIME - RECOVERY) * SAVE),
        "best": optimal_interval(SAVE, mtbf) + SAVE,
    }
    return Estimate(columns[column])


def inria_waste(lab: Lab, replications: int, *, log2_nodes: int) -> Estimate:
    """Return the share of time that is not productive at the best period, by formula or simulated [-].

    Expected is 1 - (T - C) / ((mu + D) e^(R/mu) (e^(T/mu) - 1)), in the terms of the table.
    """
    mtbf = INDIVIDUAL_MTBF / 2**log2_nodes
    interval = optimal_interval(SAVE, mtbf)
    if not replications:
        return Estimate(1 - efficiency(interval, SAVE, mtbf, RECOVERY, DOWNTIME))
    period = interval + SAVE
    expected = 1 - interval / ((mtbf + DOWNTIME) * math.exp(RECOVERY / mtbf) * math.expm1(period / mtbf))
    data = one_job(
        f"inria 2^{log2_nodes}",
        mtbf,
        interval,
        SAVE,
        horizon=FAILURES * mtbf,
        restore=RECOVERY,
        recovery={"reschedule": seconds(DOWNTIME), "exposed": False},
    )
    jobs = [result.jobs[0] for result in lab.results(lab.scenario(data), replications)]
    return estimate((1 - float(job.buckets[Bucket.PRODUCTIVE]) / job.requested for job in jobs), expected)


MEASURES = {"inria_period": inria_period, "inria_waste": inria_waste}

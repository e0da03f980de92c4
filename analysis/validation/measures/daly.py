"""Daly's optimum checkpoint interval and wall clock, by formula and simulated; and the job that these rows share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from analysis.validation.lab import estimate
from analysis.validation.row import Estimate
from sim import Bucket
from sim.formulas import daly_interval, efficiency, expected_wallclock, optimal_interval, young_interval
from sim.units import HOUR, MINUTE

if TYPE_CHECKING:
    from analysis.validation.lab import Lab


DUMP, RESTART = 5 * MINUTE, 10 * MINUTE

WORK = 500 * HOUR


def seconds(time: float) -> str:
    """Return a time [s] as text that is read back to the same number."""
    return f"{time!r} s"


def one_job(
    name: str,
    mtti: float,
    interval: float,
    write: float,
    *,
    horizon: float,
    restore: float = 0.0,
    work: float | None = None,
    recovery: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return plain data of a job that fails as a whole, at a constant rate, and whose saves block it.

    Parameters
    ----------
    name
        Of the scenario and of its one source. Failures are drawn by this name: other names, other luck.
    mtti
        Mean time to interrupt [s]; restarts are exposed to failures.
    interval, write, restore
        Of checkpoints [s].
    horizon
        End of the simulation [s].
    work
        Productive time after which the job is done [s].
    recovery
        Its recovery; at once by default.
    """
    job: dict[str, Any] = {"name": "job", "gpus": 2}
    if work is not None:
        job["work"] = {"time": seconds(work)}
    tier = {"interval": seconds(interval), "mode": "blocking", "write": seconds(write), "restore": seconds(restore)}
    return {
        "name": name,
        "cluster": {"nodes": 4, "gpus_per_node": 1, "fabric": {"rails": 1}},
        "horizon": seconds(horizon),
        "jobs": [job],
        "failures": [{"use": "job", "name": name, "law": {"law": "exponential", "mean": seconds(mtti)}}],
        "detection": {"time": "0 s"},
        "checkpoint": {"tiers": [tier]},
        "recovery": {"use": "hot-spare", "initialize": "0 s"} | (recovery or {}),
        "repair": {"time": "0 s"},
        "scheduler": {"use": "fifo"},
    }


def daly_optimum(lab: Lab, replications: int, *, mtti_min: float, rule: str) -> Estimate:
    """Return the best time between two dumps, without the dump [min].

    `rule` is ``higher-order``, ``exact`` or ``first-order``; Daly's first-order optimum is Young's interval less the
    dump.
    """
    del lab, replications
    mtti = mtti_min * MINUTE
    rules = {
        "higher-order": daly_interval(DUMP, mtti),
        "exact": optimal_interval(DUMP, mtti),
        "first-order": young_interval(DUMP, mtti) - DUMP,
    }
    return Estimate(rules[rule] / MINUTE)


def daly_efficiency(lab: Lab, replications: int, *, mtti_min: float) -> Estimate:
    """Return the productive share of time at the optimum by formula [-]."""
    del lab, replications
    mtti = mtti_min * MINUTE
    return Estimate(efficiency(optimal_interval(DUMP, mtti), DUMP, mtti, RESTART))


def daly_wallclock(lab: Lab, replications: int, *, mtti_min: float) -> Estimate:
    """Return the wall clock of 500 h of work at the optimum interval, by formula or simulated [h].

    What theory expects of the simulated job differs from Daly's formula at its ends: it begins with a restart, which
    failures start over, and does not save after its last segment.
    """
    mtti = mtti_min * MINUTE
    interval = optimal_interval(DUMP, mtti)
    formula = expected_wallclock(WORK, interval, DUMP, RESTART, mtti)
    if not replications:
        return Estimate(formula / HOUR)
    data = one_job(
        f"daly {mtti_min:g} min",
        mtti,
        interval,
        DUMP,
        horizon=2 * formula,
        work=WORK,
        recovery={"initialize": seconds(RESTART)},
    )
    results = lab.results(lab.scenario(data), replications)
    return estimate((result.jobs[0].end / HOUR for result in results), _expected_end(interval, mtti) / HOUR)


def daly_gain(lab: Lab, replications: int, *, mtti_min: float, factor: float) -> Estimate:
    """Return how much productive share the exact optimum has over `factor` times it, on the same failures [-]."""
    mtti = mtti_min * MINUTE
    best = optimal_interval(DUMP, mtti)

    def simulated(interval: float) -> list[float]:
        data = one_job(
            f"daly sweep {mtti_min:g} min",
            mtti,
            interval,
            DUMP,
            horizon=4000 * mtti,
            recovery={"initialize": seconds(RESTART)},
        )
        jobs = [result.jobs[0] for result in lab.results(lab.scenario(data), replications)]
        return [float(job.buckets[Bucket.PRODUCTIVE]) / job.requested for job in jobs]

    pairs = zip(simulated(best), simulated(factor * best), strict=True)
    expected = efficiency(best, DUMP, mtti, RESTART) - efficiency(factor * best, DUMP, mtti, RESTART)
    return estimate((ours - other for ours, other in pairs), expected)


def _expected_end(interval: float, mtti: float) -> float:
    """Return the mean wall clock of the simulated job [s].

    A stretch of length x that starts over until it fits takes M (e^(x/M) - 1) on average, and e^(R/M) times as much
    with a restart R before each attempt: J. T. Daly, FGCS 22 (2006).
    """

    def fits(length: float) -> float:
        return mtti * math.expm1(length / mtti)

    whole = math.ceil(WORK / interval - 1e-9) - 1
    segments = whole * fits(interval + DUMP) + fits(WORK - whole * interval)
    return fits(RESTART) + math.exp(RESTART / mtti) * segments


MEASURES = {
    "daly_optimum": daly_optimum,
    "daly_efficiency": daly_efficiency,
    "daly_wallclock": daly_wallclock,
    "daly_gain": daly_gain,
}

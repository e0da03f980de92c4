"""Nodes down at once, the spares for them, and leaf switches that die: simulated beside closed forms."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import sim
from analysis.validation.lab import estimate
from sim.formulas import (
    crew_limited_pmf,
    enough_probability,
    missing_nodes_pmf,
    repairs_pmf,
    spares_needed,
    steady_unavailability,
)
from sim.units import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from analysis.validation.lab import Lab
    from analysis.validation.row import Estimate
    from sim import Prepared, Result

    FloatArray = npt.NDArray[np.float64]


_YEAR = 365 * DAY

_LEAF_RATE = 0.08 / (365.25 * DAY)

"""Failures of one leaf switch [1/s], as in the scenario."""

_LEAF_OUT = 8 * HOUR

"""How long it is out [s], as in the scenario."""


def _fault(life: float, repair: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a source of nodes with exponential lives of a mean [day]."""
    entry = {"use": "component", "name": "node", "law": {"law": "exponential", "mean": f"{life!r} d"}, **changes}
    return entry if repair is None else {**entry, "repair": repair}


def _lognormal(mean: float, sigma: float) -> dict[str, Any]:
    """Return a log-normal law by its mean [day]."""
    return {"law": "lognormal", "median": f"{mean * math.exp(-(sigma**2) / 2)!r} d", "sigma": sigma}


def _idle(nodes: int, days: float, failures: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """Return a cluster that nobody uses: its one job arrives when it is over."""
    return {
        "name": "nodes",
        "cluster": {"nodes": nodes, "gpus_per_node": 1, "fabric": {"rails": 1, "radix": 1024}},
        "horizon": f"{days!r} d",
        "jobs": [{"name": "none", "gpus": 1, "arrival": f"{days!r} d"}],
        "failures": failures,
        "detection": {"time": "0 s"},
        "checkpoint": {"tiers": [{"interval": "1 d", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
        "recovery": {"use": "hot-spare", "initialize": "0 s"},
        "repair": {"time": "1 h"},
        **changes,
    }


def down_at_most(
    lab: Lab, replications: int, case: Literal["independent", "crews", "full"], level: float, crews: int = 0
) -> Estimate:
    """Return the share of time with at most as many nodes down as theory has at a level, beside that of theory [-].

    Parameters
    ----------
    case
        ``independent``: 300 nodes and repairs of any law; the binomial law. ``crews``: 40 nodes and so many crews; a
        birth-death chain. ``full``: 100 nodes of a job that always finds others; Poisson.
    level
        Level of the quantile [-].
    """
    if case == "full":
        law, reached = repairs_pmf(100 / 40 * 3, 100), _behind_full_job(lab, replications)
    elif case == "crews":
        law, reached = crew_limited_pmf(40, 0, 1 / 30, 1 / 2, crews), _with_crews(lab, replications, crews)
    else:
        law, reached = missing_nodes_pmf(300, steady_unavailability(60.0, 3.0)), _independent(lab, replications)
    expected = np.cumsum(law)
    most = int(np.searchsorted(expected, level))
    return estimate(reached[:, most], float(expected[most]))


def longer_repairs(lab: Lab, replications: int, factor: float) -> Estimate:
    """Return the share of time with at most the P90 that repairs `factor` times as long would have [-]."""
    law = np.cumsum(missing_nodes_pmf(300, steady_unavailability(60.0, 3.0 * factor)))
    most = int(np.searchsorted(law, 0.9))
    return estimate(_independent(lab, replications)[:, most], float(law[most]))


def _reached(results: tuple[Result, ...], most: int) -> FloatArray:
    """Return for which share of its time each replication had at most 0, 1, 2 ... nodes down."""
    rows = np.zeros((len(results), most + 1))
    for row, result in zip(rows, results, strict=True):
        for count, time in result.down_times.items():
            row[count] += time
    return np.asarray(np.cumsum(rows, axis=1) / rows.sum(axis=1, keepdims=True))


def _independent(lab: Lab, replications: int) -> FloatArray:
    source = _fault(60.0, _lognormal(3.0, 1.2), renews="at_return")
    prepared = lab.scenario(_idle(300, 300.0, [source], initial="stationary"))
    return _reached(lab.results(prepared, replications), 300)


def _with_crews(lab: Lab, replications: int, crews: int) -> FloatArray:
    tier = {"name": "bench", "time": {"law": "exponential", "mean": "2 d"}, "crews": crews}
    data = _idle(40, 2000.0, [_fault(30.0, renews="at_return")], warmup="400 d")
    prepared = lab.scenario({**data, "repair": {"use": "tiers", "tiers": [tier]}})
    return _reached(lab.results(prepared, replications), 40)


@functools.lru_cache(maxsize=1)
def _behind_full_job(lab: Lab, replications: int) -> FloatArray:
    """Return the same from the 80th day on: the job begins with nobody in repair."""
    begin, end = 80 * DAY, 400 * DAY
    data = _idle(200, 400.0, [_fault(40.0, _lognormal(3.0, 1.0), clock="busy")])
    data |= {"jobs": [{"name": "job", "gpus": 100}], "recovery": {**data["recovery"], "pools": ["idle"]}}
    prepared = lab.scenario(data)
    rows = np.zeros((replications, 101))
    for number, row in enumerate(rows):
        result = sim.run(prepared, number, keeps_log=True)
        times = np.array([(outage.start, outage.end) for outage in result.outages])
        moments = np.concatenate((np.clip(times, begin, None).ravel(order="F"), [end]))
        change = np.repeat([1, -1, 0], [len(times), len(times), 1])
        order = np.argsort(moments, kind="stable")
        level = np.maximum(np.cumsum(change[order])[:-1], 0)
        row += np.bincount(level, weights=np.diff(moments[order]), minlength=101)[:101]
    return np.asarray(np.cumsum(rows, axis=1) / rows.sum(axis=1, keepdims=True))


def waits_for_nodes(lab: Lab, replications: int, less: int) -> Estimate:
    """Return the share of time in which a job of 100 nodes waits for one [-], with `less` spares than theory asks for.

    Theory asks for as many as are enough for 95 % of the time.
    """
    required, life, repair = 100, 40.0, 2.0
    down = steady_unavailability(life, repair)
    spares = spares_needed(required, down, 0.95) - less
    data = _idle(required + spares, 400.0, [_fault(life, _lognormal(repair, 1.0), renews="at_return")], windows="40 d")
    prepared = lab.scenario({**data, "jobs": [{"name": "job", "gpus": required}], "spares": {"hot": spares}})
    # All nodes are new: the first of the ten windows is left out.
    tables = [result.jobs[0].totals[1:].sum(axis=(0, 2)) for result in lab.results(prepared, replications)]
    expected = 1 - enough_probability(missing_nodes_pmf(required + spares, down), spares)
    return estimate((float(table[sim.Bucket.STARVED] / table.sum()) for table in tables), expected)


def leaf_switches(lab: Lab, replications: int, what: Literal["waits", "slower", "gain", "stops"]) -> Estimate:
    """Return what dying leaf switches cost a job of 15,104 GPUs [-].

    Parameters
    ----------
    what
        ``waits``: share of time in which a job of single-homed nodes stands; ``slower``: share that one of dual-homed
        nodes loses to half of its bandwidth; ``gain``: what the second home is worth; ``stops``: share of time in which
        the dual-homed job waits.
    """
    single, dual = (_leaf(lab.shipped(f"leaf-{homes}-homed"), lab, replications) for homes in ("single", "dual"))
    loss = 1 - 1 / 1.1
    if what == "waits":
        waits = single[:, sim.Bucket.STARVED] + single[:, sim.Bucket.DETECTION]
        return estimate(waits, _any_out(120))
    if what == "slower":
        return estimate(dual[:, sim.Bucket.DEGRADED], _any_out(240) * loss)
    if what == "stops":
        return estimate(dual[:, sim.Bucket.STARVED] + dual[:, sim.Bucket.LOST_WORK])
    gain = dual[:, sim.Bucket.PRODUCTIVE] - single[:, sim.Bucket.PRODUCTIVE]
    # Restart, restore and half of an interval of lost work: 5 min, 2 min and 10.5 min, once an outage.
    restarts = 120 * _LEAF_RATE * 17.5 * 60
    return estimate(gain, _any_out(120) - _any_out(240) * loss + restarts)


def _leaf(prepared: Prepared, lab: Lab, replications: int) -> FloatArray:
    """Return the shares of the job's time, shape (replications, buckets)."""
    jobs = [result.jobs[0] for result in lab.results(prepared, replications)]
    return np.array([job.buckets / job.requested for job in jobs])


def _any_out(switches: int) -> float:
    """Return the share of a year in which at least one switch is out [-]: the number that is out is Poisson (Palm)."""
    return 1 - math.exp(-switches * _LEAF_RATE * _LEAF_OUT)


MEASURES: Mapping[str, Callable[..., Estimate]] = {
    "down_at_most": down_at_most,
    "leaf_switches": leaf_switches,
    "longer_repairs": longer_repairs,
    "waits_for_nodes": waits_for_nodes,
}

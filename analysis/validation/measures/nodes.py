"""Nodes that are down: simulated compared with closed forms, and the trace of InfiniteHBD, replayed and modelled."""

from __future__ import annotations

import csv
import functools
import gzip
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ettrick import sim
from ettrick.analysis.logs import estimate as estimators
from ettrick.analysis.logs import lives
from ettrick.analysis.logs.check import STATISTICS, Faults
from ettrick.analysis.logs.lives import SurvivalData
from ettrick.analysis.validation.lab import MeasuredQuantity, bare, estimate
from ettrick.sim.formulas.arrays import enough_probability
from ettrick.sim.formulas.nodes import (
    crew_limited_pmf,
    groups_with_spares,
    missing_nodes_pmf,
    repairs_pmf,
    spares_needed,
    steady_unavailability,
)
from ettrick.sim.units import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ettrick.analysis.validation.lab import ScenarioRunner
    from ettrick.sim import Prepared, Result

    FloatArray = NDArray[np.float64]


def _idle(nodes: int, days: float, failures: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """Return a cluster that is not used: its one job arrives when it is over."""
    cluster = {"nodes": nodes, "gpus_per_node": 8, "fabric": {"rails": 1, "radix": 1024}}
    none = {"name": "none", "gpus": 8, "arrival": f"{days!r} d"}
    tier = {"interval": "1 d", "mode": "blocking", "write": "0 s", "restore": "0 s"}
    data = bare("nodes", cluster=cluster, horizon=f"{days!r} d", jobs=[none], failures=failures)
    return data | {"checkpoint": {"tiers": [tier]}} | changes


# Nodes down at once and the spares for them: simulated compared with closed forms.


def _fault(life: float, repair: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a source of nodes with exponential lives of a mean [day]."""
    entry = {"use": "component", "name": "node", "law": {"use": "exponential", "mean": f"{life!r} d"}, **changes}
    return entry if repair is None else {**entry, "repair": repair}


def _lognormal(mean: float, sigma: float) -> dict[str, Any]:
    """Return a log-normal law by its mean [day]."""
    return {"use": "lognormal", "median": f"{mean * math.exp(-(sigma**2) / 2)!r} d", "sigma": sigma}


def down_at_most(
    lab: ScenarioRunner, replications: int, case: Literal["independent", "crews", "full"], level: float, crews: int = 0
) -> MeasuredQuantity:
    """Return the share of time with at most as many nodes down as theory has at a level against that of theory [-].

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


def longer_repairs(lab: ScenarioRunner, replications: int, factor: float) -> MeasuredQuantity:
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


def _independent(lab: ScenarioRunner, replications: int) -> FloatArray:
    source = _fault(60.0, _lognormal(3.0, 1.2), renews="at_return")
    prepared = lab.scenario(_idle(300, 300.0, [source], initial="stationary"))
    return _reached(lab.results(prepared, replications), 300)


def _with_crews(lab: ScenarioRunner, replications: int, crews: int) -> FloatArray:
    tier = {"name": "bench", "time": {"use": "exponential", "mean": "2 d"}, "crews": crews}
    data = _idle(40, 2000.0, [_fault(30.0, renews="at_return")], warmup="400 d")
    prepared = lab.scenario({**data, "repair": {"use": "tiers", "tiers": [tier]}})
    return _reached(lab.results(prepared, replications), 40)


@functools.lru_cache(maxsize=1)
def _behind_full_job(lab: ScenarioRunner, replications: int) -> FloatArray:
    """Return the same from the 80th day on: the job begins with no node in repair."""
    begin, end = 80 * DAY, 400 * DAY
    data = _idle(200, 400.0, [_fault(40.0, _lognormal(3.0, 1.0), clock="busy")])
    data |= {"jobs": [{"name": "job", "gpus": 800}], "recovery": {**data["recovery"], "pools": ["idle"]}}
    prepared = lab.scenario(data)
    rows = np.zeros((replications, 101))
    for number, row in enumerate(rows):
        result = sim.run(prepared, number, keeps_log=True)
        times = np.concatenate((result.outages.start, result.outages.end))
        moments = np.concatenate((np.clip(times, begin, None), [end]))
        change = np.repeat([1, -1, 0], [len(times) // 2, len(times) // 2, 1])
        order = np.argsort(moments, kind="stable")
        level = np.maximum(np.cumsum(change[order])[:-1], 0)
        row += np.bincount(level, weights=np.diff(moments[order]), minlength=101)[:101]
    return np.asarray(np.cumsum(rows, axis=1) / rows.sum(axis=1, keepdims=True))


def waits_for_nodes(lab: ScenarioRunner, replications: int, less: int) -> MeasuredQuantity:
    """Return the share of time in which a job of 100 nodes waits for one [-], with `less` spares than theory asks for.

    Theory asks for as many as are enough for 95 % of the time.
    """
    required, life, repair = 100, 40.0, 2.0
    down = steady_unavailability(life, repair)
    spares = spares_needed(required, down, 0.95) - less
    data = _idle(required + spares, 400.0, [_fault(life, _lognormal(repair, 1.0), renews="at_return")], windows="40 d")
    prepared = lab.scenario({**data, "jobs": [{"name": "job", "gpus": 8 * required}], "spares": {"hot": spares}})
    # All nodes are new: the first of the ten windows is left out.
    tables = [result.jobs[0].totals[1:].sum(axis=(0, 2)) for result in lab.results(prepared, replications)]
    expected = 1 - enough_probability(missing_nodes_pmf(required + spares, down), spares)
    return estimate((float(table[sim.Bucket.STARVED] / table.sum()) for table in tables), expected)


# Leaf switches that die.


_LEAF_RATE = 0.08 / (365.25 * DAY)
"""Failures of one leaf switch [1/s], as in the scenario."""

_LEAF_OUT = 8 * HOUR
"""The outage of the leaf switch [s], as in the scenario."""


def leaf_switches(
    lab: ScenarioRunner, replications: int, what: Literal["waits", "slower", "gain", "stops"]
) -> MeasuredQuantity:
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


def _leaf(prepared: Prepared, lab: ScenarioRunner, replications: int) -> FloatArray:
    """Return the shares of the job's time, shape (replications, buckets)."""
    jobs = [result.jobs[0] for result in lab.results(prepared, replications)]
    return np.array([job.buckets / job.requested for job in jobs])


def _any_out(switches: int) -> float:
    """Return the share of a year in which at least one switch is out [-]: the number that is out is Poisson (Palm)."""
    return 1 - math.exp(-switches * _LEAF_RATE * _LEAF_OUT)


# InfiniteHBD: the trace replayed, the catalog's model of it, and a model of independent nodes that must miss.


_DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"
"""Reference data that are not part of the project."""

LOG = _DATA / "infinitehbd" / "fault_events.csv"
"""Reference data that are not part of the project: the trace as a table, a row for each fault."""

NODES, DAYS = 400, 348.0

SPREAD_OF_MEDIAN = 1.2533
"""Standard error of a median over that of a mean, of a normal distribution [-]."""


# Independent nodes with the rate and the unavailability of the trace: 4.2 faults per 1000 node-days, 2.35 % down.
INDEPENDENT = {
    "use": "component",
    "name": "independent",
    "law": {"use": "exponential", "mean": f"{(1 - 0.0235) / 0.0042!r} d"},
    "repair": {"use": "exponential", "mean": f"{0.0235 / 0.0042!r} d"},
    "renews": "at_return",
}


def infinitehbd_replay(lab: ScenarioRunner, _: int, *, statistic: str, level: float = 1.0) -> MeasuredQuantity:
    """Return a statistic of the nodes that are down in the replayed log.

    `statistic` is ``availability``, ``unavailability`` or ``nodes down``: the smallest number that is not exceeded in
    a share `level` of the time.
    """
    columns = {"unit": "node_id", "start": "start_day", "end": "end_day", "cause": "class"}
    log = {"use": "replay", "file": str(_present(LOG)), "time_unit": "d", "columns": columns}
    result = lab.results(_traced(lab, log), 1)[0]
    down = result.down_node_seconds / result.node_seconds
    if statistic != "nodes down":
        return MeasuredQuantity({"availability": 1 - down, "unavailability": down}[statistic])
    counts = sorted(result.down_times)
    share = np.cumsum([result.down_times[count] for count in counts]) / sum(result.down_times.values())
    return MeasuredQuantity(float(counts[int(np.argmax(share >= level - 1e-12))]))


def infinitehbd_trace(_: ScenarioRunner, __: int, *, statistic: str, **arguments: Any) -> MeasuredQuantity:
    """Return a statistic of the faults of the log, as they stand there."""
    return MeasuredQuantity(_TRACE[statistic](_logged(), **arguments))


def infinitehbd_model(
    lab: ScenarioRunner, replications: int, *, statistic: str, independent: bool = False
) -> MeasuredQuantity:
    """Return the median of a statistic over simulated traces, of the catalog's model or of independent nodes."""
    model = INDEPENDENT if independent else {"use": "infinitehbd"}
    statistics = lab.each(_statistics, _traced(lab, model), replications)
    values = np.array(statistics)[:, list(STATISTICS).index(statistic)]
    error = SPREAD_OF_MEDIAN * float(values.std(ddof=1)) / float(np.sqrt(replications))
    return MeasuredQuantity(float(np.median(values)), error, replications)


def _traced(lab: ScenarioRunner, source: dict[str, Any]) -> Prepared:
    """Return new nodes, as many as in the log, whose failures last as long as their source says."""
    data = _idle(NODES, DAYS, [source])
    del data["repair"]
    return lab.scenario(data)


def _statistics(prepared: sim.Prepared, number: int) -> tuple[float, ...]:
    """Return the statistics of one simulated trace."""
    outages = sim.run(prepared, number, keeps_log=True).outages
    faults = Faults(outages.node, outages.start / DAY, outages.end / DAY, NODES, DAYS)
    return tuple(statistic(faults) for statistic in STATISTICS.values())


def _present(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError("reference data not present")
    return path


def _rows(path: Path) -> list[dict[str, str]]:
    content = _present(path).read_bytes()
    return list(csv.DictReader((gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines()))


class _Logged(NamedTuple):
    """The rows of the log: whose fault, of which level, from when to when [day]."""

    level: NDArray[np.str_]
    faults: Faults


def _logged() -> _Logged:
    """Return the log."""
    rows = _rows(LOG)
    node = np.unique([row["node_id"] for row in rows], return_inverse=True)[1].astype(np.int64)
    start, end = (np.array([float(row[name]) for row in rows]) for name in ("start_day", "end_day"))
    return _Logged(np.array([row["level"] for row in rows]), Faults(node, start, end, NODES, DAYS))


def _rate(log: _Logged, level: str = "") -> float:
    """Return the faults of a level, or of all, per 1000 node-days."""
    return float(np.char.startswith(log.level, level).sum()) / (NODES * DAYS) * 1000


def _repair(log: _Logged, level: float | None = None) -> float:
    """Return a quantile of the lengths of outages, or without `level` their mean [day]."""
    lengths = log.faults.end - log.faults.start
    return float(lengths.mean() if level is None else np.quantile(lengths, level))


def _gap_variation(log: _Logged) -> float:
    """Return the coefficient of variation of the gaps between starts [-]."""
    gaps = np.diff(np.sort(log.faults.start))
    return float(gaps.std(ddof=1) / gaps.mean())


def _in_bin(log: _Logged, number: int, days: float = 58.0) -> float:
    """Return how many faults start in a stretch of some days, from one; the last also has those after the end."""
    last = round(DAYS / days)
    return float((np.minimum(log.faults.start // days, last - 1) == number - 1).sum())


_TRACE: dict[str, Callable[..., float]] = {
    "faults": lambda log: float(log.faults.node.size),
    "nodes with faults": lambda log: float(np.unique(log.faults.node).size),
    **{name: lambda log, of=statistic: of(log.faults) for name, statistic in STATISTICS.items()},
    "rate": _rate,
    "repair": _repair,
    "gap variation": _gap_variation,
    "in bin": _in_bin,
}


# Replicas of a service and spare nodes: the closed form alone.


def replicas_up(_: ScenarioRunner, __: int, spares: int, of: Literal["share", "all"]) -> MeasuredQuantity:
    """Return the mean share of 24 replicas that serve, or the share of time in which all do [-]."""
    standing = groups_with_spares(24, spares, 8 / (20_000 * HOUR), 0.0, 300.0, 24 * HOUR)
    return MeasuredQuantity(standing.share if of == "share" else float(standing.pmf[24]))


# Estimators of failure models compared with textbooks and published records: lives of parts, and nodes that stay bad.

AGES = [54, 187, 216, 240, 244, 335, 361, 373, 375, 386, *[500] * 10]
"""Ages of 20 units of the NIST handbook; the ten of 500 were alive."""

MOMENTS = [2.7, 10.3, 12.5, 30.6, 57.0, 61.3, 80.0, 109.5, 125.0, 128.6, 143.8, 167.9, 229.2, 296.7, 320.6, 328.2,
           366.2, 396.7, 421.1, 438.2, 501.2, 620.0]  # fmt: skip
"""Failures of a system that was watched for 620 h, of a textbook."""


def textbook_fit(_: ScenarioRunner, __: int, *, parameter: str) -> MeasuredQuantity:
    """Return a parameter of a fit to textbook data: ``shape`` and ``scale`` of lives, ``exponent``, ``factor``."""
    if parameter in ("shape", "scale"):
        fit = lives.weibull(SurvivalData.of(AGES, [age < 500 for age in AGES]), intervals=False)
        return MeasuredQuantity(fit.parameters[parameter].value)
    trend = estimators.trend(MOMENTS, MOMENTS[-1])
    return MeasuredQuantity(trend.scale if parameter == "factor" else trend.exponent.value)


def lives_of_gpus(_: ScenarioRunner, __: int, *, batch: str, statistic: str, age: float = 0.0) -> MeasuredQuantity:
    """Return what the lives of Titan's GPUs give, in years of 365 days.

    ``shape`` and ``scale`` are of a Weibull law, ``alive`` is the share that lives longer than an `age`, ``hazard`` the
    failures per GPU-year in the half year from it on, and ``gain`` by how much a hazard by age lowers the AIC of
    the best smooth law.
    """
    gpus = _batch(batch)
    if statistic == "alive":
        return MeasuredQuantity(float(lives.survival(gpus, [age])[0]))
    edges = 0.5 * np.arange(12 if batch == "old" else 6)
    if statistic == "hazard":
        return MeasuredQuantity(lives.piecewise(gpus, list(edges)).parameters[f"from {age:g}"].value)
    if statistic == "gain":
        smooth = (lives.exponential(gpus), lives.weibull(gpus, intervals=False), lives.lognormal(gpus))
        return MeasuredQuantity(min(law.aic for law in smooth) - lives.piecewise(gpus, list(edges)).aic)
    return MeasuredQuantity(lives.weibull(gpus, intervals=False).parameters[statistic].value)


@functools.cache
def _batch(batch: str) -> SurvivalData:
    rows = [row for row in _rows(_DATA / "titan_gpu_life/gpu_life.csv.gz") if row["batch"] == batch]
    age = np.array([float(row["life_days"]) for row in rows]) / lives.YEAR
    return SurvivalData.of(age[age > 0], np.array([row["failed"] == "1" for row in rows])[age > 0])


def lasting_difference_of_nodes(_: ScenarioRunner, __: int, *, system: str, end: str = "value") -> MeasuredQuantity:
    """Return the squared variation that the nodes of both halves of a record share, or an ``end`` of its interval."""
    if system == "infinitehbd":
        faults = [(row["node_id"], float(row["start_day"])) for row in _rows(LOG)]
        nodes, first, last = 400, 0.0, 348.0
    else:
        faults = [
            (row["entity_id"], float(row["t_start_h"]))
            for row in _rows(_DATA / "canonical/lanl_events.csv.gz")
            if row["system"] == system and row["entity_id"] not in ("", "n0") and row["planned"] != "True"
        ]
        nodes = 511 if system == "sys20" else 1023
        first, last = min(time for _, time in faults), max(time for _, time in faults)
    number = {name: at for at, name in enumerate(dict.fromkeys(node for node, _ in faults))}
    counts = np.zeros((2, nodes))
    for node, time in faults:
        if time <= last:
            counts[int(time >= (first + last) / 2), number[node]] += 1
    return MeasuredQuantity(getattr(estimators.split_half(*counts), end))

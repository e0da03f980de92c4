"""InfiniteHBD: the trace replayed, the catalog's model of it, and a model of independent nodes that must miss."""

from __future__ import annotations

import contextlib
import csv
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

import sim
from analysis.runs import in_order
from analysis.validation.measures.trace_statistics import STATISTICS, Faults
from analysis.validation.row import Estimate
from sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from analysis.validation.lab import Lab

LOG = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "infinitehbd" / "fault_events.csv"

"""Reference data that are not part of the project: the trace as a table, a row for each fault."""

NODES, DAYS = 400, 348.0

SPREAD_OF_MEDIAN = 1.2533

"""Standard error of a median over that of a mean, of a normal distribution [-]."""

# Independent nodes with the rate and the unavailability of the trace: 4.2 faults per 1000 node-days, 2.35 % down.
INDEPENDENT = {
    "use": "component",
    "name": "independent",
    "law": {"law": "exponential", "mean": f"{(1 - 0.0235) / 0.0042!r} d"},
    "repair": {"law": "exponential", "mean": f"{0.0235 / 0.0042!r} d"},
    "renews": "at_return",
}


class _Logged(NamedTuple):
    """The rows of the log: whose fault, of which level, from when to when [day]."""

    level: NDArray[np.str_]
    faults: Faults


def infinitehbd_replay(lab: Lab, replications: int, *, statistic: str, level: float = 1.0) -> Estimate:
    """Return a statistic of the nodes that are down in the replayed log.

    `statistic` is ``availability``, ``unavailability`` or ``nodes down``: the smallest number that is not exceeded in
    a share `level` of the time.
    """
    del replications
    columns = {"unit": "node_id", "start": "start_day", "end": "end_day", "cause": "class"}
    log = {"use": "replay", "file": str(_present()), "time_unit": "d", "columns": columns}
    result = lab.results(lab.scenario(_cluster([log])), 1)[0]
    down = result.down_node_seconds / result.node_seconds
    if statistic != "nodes down":
        return Estimate({"availability": 1 - down, "unavailability": down}[statistic])
    counts = sorted(result.down_times)
    share = np.cumsum([result.down_times[count] for count in counts]) / sum(result.down_times.values())
    return Estimate(float(counts[int(np.argmax(share >= level - 1e-12))]))


def infinitehbd_trace(lab: Lab, replications: int, *, statistic: str, **arguments: Any) -> Estimate:
    """Return a statistic of the faults of the log, as they stand there."""
    del lab, replications
    return Estimate(_TRACE[statistic](_logged(), **arguments))


def infinitehbd_model(lab: Lab, replications: int, *, statistic: str, independent: bool = False) -> Estimate:
    """Return the median of a statistic over simulated traces, of the catalog's model or of independent nodes."""
    model = INDEPENDENT if independent else {"use": "infinitehbd"}
    values = _simulated(lab, lab.scenario(_cluster([model])), replications)[:, list(STATISTICS).index(statistic)]
    error = SPREAD_OF_MEDIAN * float(values.std(ddof=1)) / float(np.sqrt(replications))
    return Estimate(float(np.median(values)), error, replications)


def _cluster(failures: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a cluster of new nodes that nobody uses: its one job arrives when it is over."""
    return {
        "name": "infinitehbd",
        "cluster": {"nodes": NODES, "gpus_per_node": 1, "fabric": {"rails": 1, "radix": 1024}},
        "horizon": f"{DAYS!r} d",
        "jobs": [{"name": "none", "gpus": 1, "arrival": f"{DAYS!r} d"}],
        "failures": list(failures),
        "detection": {"time": "0 s"},
        "checkpoint": {"tiers": [{"interval": "1 h", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
        "recovery": {"use": "hot-spare", "initialize": "0 s"},
        "scheduler": {"use": "fifo"},
    }


def statistics_of(prepared: sim.Prepared, number: int) -> tuple[float, ...]:
    """Return the statistics of one simulated trace."""
    outages = sim.run(prepared, number, keeps_log=True).outages
    node = np.array([outage.node for outage in outages], dtype=np.int64)
    start, end = (np.array([outage[column] for outage in outages]) / DAY for column in (1, 2))
    faults = Faults(node, start, end, NODES, DAYS)
    return tuple(statistic(faults) for statistic in STATISTICS.values())


_done: WeakKeyDictionary[Lab, dict[tuple[int, int], NDArray[np.float64]]] = WeakKeyDictionary()


def _simulated(lab: Lab, prepared: sim.Prepared, replications: int) -> NDArray[np.float64]:
    """Return statistics by replication and name; rows that look at the same traces share them."""
    done = _done.setdefault(lab, {})
    key = (id(prepared), replications)
    if key not in done:
        with contextlib.closing(in_order(statistics_of, prepared, range(replications), lab.processes)) as source:
            done[key] = np.array(list(source))
    return done[key]


def _present() -> Path:
    """Return where the log is."""
    if not LOG.exists():
        message = "reference data not present"
        raise FileNotFoundError(message)
    return LOG


def _logged() -> _Logged:
    """Return the log."""
    with _present().open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    node = np.unique([row["node_id"] for row in rows], return_inverse=True)[1].astype(np.int64)
    start, end = (np.array([float(row[name]) for row in rows]) for name in ("start_day", "end_day"))
    return _Logged(np.array([row["level"] for row in rows]), Faults(node, start, end, NODES, DAYS))


def _faults(log: _Logged) -> float:
    """Return the number of faults."""
    return float(log.faults.node.size)


def _of_all(statistic: Callable[[Faults], float], log: _Logged) -> float:
    """Return a statistic of all faults."""
    return statistic(log.faults)


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
    "faults": _faults,
    "nodes with faults": lambda log: float(np.unique(log.faults.node).size),
    **{name: partial(_of_all, statistic) for name, statistic in STATISTICS.items()},
    "rate": _rate,
    "repair": _repair,
    "gap variation": _gap_variation,
    "in bin": _in_bin,
}

MEASURES: dict[str, Callable[..., Estimate]] = {
    "infinitehbd_replay": infinitehbd_replay,
    "infinitehbd_trace": infinitehbd_trace,
    "infinitehbd_model": infinitehbd_model,
}

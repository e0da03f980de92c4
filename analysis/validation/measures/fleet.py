"""Streams of jobs: waits beside queueing theory, gangs at saturation, logs as others schedule them, cases by hand.

Times of queues are in units of the mean run time.
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import sim
from analysis.validation.lab import Estimate, bare, estimate, seconds
from sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.validation.lab import Lab
    from sim import Prepared

_UNIT = 100.0
"""Mean run time [s]."""


def _time(units: float) -> str:
    return seconds(units * _UNIT)


def _stream(name: str, rate: float, **keys: Any) -> dict[str, Any]:
    """Return Poisson arrivals, `rate` in a mean run time, of jobs of one GPU that take an exponential time."""
    base: dict[str, Any] = {
        "name": name,
        "arrivals": {"rate": f"{rate / _UNIT * DAY!r} per day"},
        "gpus": 1,
        "work": {"use": "exponential", "mean": _time(1)},
        "limit": "none",
        "restart": "0 s",
        "checkpoint": {},
    }
    return base | keys


def _fleet(name: str, nodes: int, streams: list[dict[str, Any]], horizon: str, **changes: Any) -> dict[str, Any]:
    """Return a cluster of nodes of one GPU that streams share."""
    cluster = {"nodes": nodes, "gpus_per_node": 1, "fabric": {"rails": 1, "radix": 1024}}
    return bare(name, cluster=cluster, jobs=[], streams=streams, horizon=horizon, failures=[]) | changes


# Queues of which theory knows the wait.


def queue_wait(
    lab: Lab,
    replications: int,
    *,
    case: str,
    servers: int,
    load: float,
    jobs: float,
    warmup: float,
    variation: float = 1.0,
    of: Literal["mean wait", "longer than a run"] = "mean wait",
) -> Estimate:
    """Return the mean wait of jobs that arrive at random, or the share that waits longer than the mean run time.

    Their run times have a squared coefficient of variation; 0 for fixed ones, 1 for exponential ones.
    """
    law: dict[str, Any] = {"use": "fixed", "value": _time(1)}
    if variation:
        law = {"use": "gamma", "shape": 1 / variation, "mean": _time(1)}
    streams = [_stream(case, load * servers, work=law)]
    horizon = _time(jobs / (load * servers))
    prepared = lab.scenario(_fleet(case, servers, streams, horizon, warmup=_time(warmup)))
    if of == "longer than a run":
        return estimate(lab.each(_long_waits, prepared, replications))
    return estimate(waits[0] for waits, _ in lab.each(_times, prepared, replications))


def priority_time(
    lab: Lab, replications: int, *, case: str, loads: tuple[float, float], stream: int, preempts: bool, jobs: float
) -> Estimate:
    """Return the mean wait of one of two classes on one node; with preemption that resumes, the time in the system."""
    streams = [_stream(f"{case} high", loads[0], priority=1), _stream(f"{case} low", loads[1])]
    preemption = {"preempt": {"mode": "requeue"}, "requeue": {"age": "keep"}} if preempts else {}
    data = _fleet(
        case, 1, streams, _time(jobs / sum(loads)), warmup=_time(100), scheduler={"use": "fifo", **preemption}
    )
    found = lab.each(_times, lab.scenario(data), replications)
    return estimate(in_system[stream] if preempts else waits[stream] for waits, in_system in found)


def start_over(lab: Lab, replications: int, *, case: str, rate: float, length: float, jobs: float) -> Estimate:
    """Return the mean time from first start to end of low jobs that lose everything when a higher job arrives."""
    low = _stream(f"{case} low", 1, work={"use": "fixed", "value": _time(length)})
    low |= {"arrivals": {"use": "backlog", "pending": 1}, "checkpoint": {"save": "1 s"}}
    streams = [_stream(f"{case} high", rate, priority=1), low]
    keys = {"use": "fifo", "preempt": {"mode": "requeue"}, "requeue": {"age": "keep"}}
    data = _fleet(case, 1, streams, _time(jobs), warmup=_time(100), scheduler=keys)
    return estimate(lab.each(_completion, lab.scenario(data), replications))


def failing_wait(
    lab: Lab, replications: int, *, case: str, load: float, hazard: float, repair: float, jobs: float
) -> Estimate:
    """Return the mean wait for a node that fails only while it works; the work is kept, the job waits for repair."""
    life = {"use": "exponential", "mean": _time(1 / hazard)}
    cause = {"use": "component", "part": "node", "name": f"{case} node", "clock": "busy", "law": life}
    streams = [_stream(case, load, checkpoint={"interval": _time(1e-4)})]
    data = _fleet(
        case,
        1,
        streams,
        _time(jobs / load),
        warmup=_time(100),
        failures=[cause],
        repair={"time": {"use": "exponential", "mean": _time(repair)}},
        scheduler={"use": "fifo", "replacement": "never", "requeue": {"age": "keep"}},
    )
    return estimate(waits[0] for waits, _ in lab.each(_times, lab.scenario(data), replications))


def gang_saturation(lab: Lab, replications: int, *, case: str, slots: int, small: float, jobs: float) -> Estimate:
    """Return the share of nodes in use under strict FIFO, of jobs of one node (chance `small`) and of all nodes."""
    backlog = {"use": "backlog", "pending": 20}
    jobs_of = _stream(case, 1, arrivals=backlog, gpus={"1": small, str(slots): 1 - small})
    # Mean time between starts in units, for the horizon alone.
    gap = (small + slots * (1 - small)) / slots / 0.6
    data = _fleet(case, slots, [jobs_of], _time(jobs * gap), warmup=_time(100 * gap))
    return estimate(lab.each(_occupancy, lab.scenario(data), replications))


def _times(prepared: Prepared, replication: int) -> tuple[list[float], list[float]]:
    """Return the mean first wait, and the mean time from submission to completion, of each stream [mean run time]."""
    fleet = sim.run(prepared, replication).fleet
    assert fleet is not None

    def mean(total: str, count: str, stream: int) -> float:
        mine = [account for account in fleet.jobs if account.stream == stream]
        return float(fleet.job_sum(total, mine).sum() / fleet.job_sum(count, mine).sum() / _UNIT)

    streams = range(len(prepared.streams))
    return (
        [mean("wait_first_job", "started_job", stream) for stream in streams],
        [mean("jct_job", "completed_job", stream) for stream in streams],
    )


def _long_waits(prepared: Prepared, replication: int) -> float:
    attempts = sim.run(prepared, replication, keeps_log=True).attempts
    return float(np.mean([each.start - each.submit > _UNIT for each in attempts if each.submit >= 0]))


def _completion(prepared: Prepared, replication: int) -> float:
    attempts = [each for each in sim.run(prepared, replication, keeps_log=True).attempts if each.stream == 1]
    first = {each.job: each.start for each in reversed(attempts)}
    times = [each.end - first[each.job] for each in attempts if each.state == "completed"]
    return float(np.mean(times)) / _UNIT


def _occupancy(prepared: Prepared, replication: int) -> float:
    fleet = sim.run(prepared, replication).fleet
    assert fleet is not None
    return float(fleet.level("allocated").sum() / fleet.level("healthy").sum())


# Logs, beside other simulators of the same log.

_DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"

_LOGS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "lublin": ("swf/lublin_256_synthetic.swf.gz", 256, {}),
    "nasa": (
        "fleet/nasa_ipsc_1993.csv.gz",
        128,
        {"columns": {"submit": "submit_s", "gpus": "procs", "run": "run_s"}},
    ),
}
"""File, nodes, and what a stream needs to read it."""


def log_replayed(
    lab: Lab,
    replications: int,
    *,
    log: Literal["lublin", "nasa"],
    scheduler: dict[str, Any],
    of: Literal["mean wait", "jobs that wait", "bounded slowdown", "makespan"],
    factor: float = 1.0,
) -> Estimate:
    """Return what a scheduler makes of a log, on a node for each processor; limits are `factor` times the run times."""
    del replications
    file, nodes, keys = _LOGS[log]
    if not (_DATA / file).exists():
        raise FileNotFoundError("reference data not present")
    stream = {"name": log, "use": "trace", "file": str(_DATA / file), "restart": "0 s", "checkpoint": {}, **keys}
    stream["limit"] = "exact" if factor == 1 else {"factor": factor}
    prepared = lab.scenario(_fleet(log, nodes, [stream], "400 d", scheduler=scheduler))
    submit, start, end = lab.each(_starts, prepared, 1)[0]
    waits, runs = start - submit, end - start
    return Estimate(
        {
            "mean wait": float(waits.mean()),
            "jobs that wait": float((waits > 0).sum()),
            "bounded slowdown": float(np.maximum(1, (waits + runs) / np.maximum(runs, 10)).mean()),
            "makespan": float(end.max() - submit.min()),
        }[of]
    )


def _starts(prepared: Prepared, replication: int) -> tuple[Any, ...]:
    """Return when jobs were submitted, started and ended [s]."""
    attempts = sim.run(prepared, replication, keeps_log=True).attempts
    return tuple(np.array([getattr(each, name) for each in attempts]) for name in ("submit", "start", "end"))


# Cases that are worked out by hand.


def small_fleet(
    lab: Lab,
    replications: int,
    *,
    nodes: int,
    jobs: Sequence[Sequence[float]],
    of: Literal["start", "preempted"],
    job: int = 0,
    per_node: int = 1,
    **scheduler: Any,
) -> Estimate:
    """Return when a job starts [s], or how many are preempted.

    Jobs are (submission [s], GPUs, run [s], limit [s], priority).
    """
    del replications
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "jobs.csv"
        with file.open("w", newline="", encoding="utf-8") as stream:
            rows = csv.writer(stream)
            rows.writerow(["job", "submit", "gpus", "run", "limit", "priority"])
            rows.writerows([number, *row] for number, row in enumerate(jobs))
        trace = {"name": "hand", "use": "trace", "file": str(file), "restart": "0 s", "checkpoint": {}}
        data = _fleet("hand", nodes, [trace], "1 d", scheduler=scheduler)
        data["cluster"] |= {"gpus_per_node": per_node}
        result = sim.run(lab.scenario(data), 0, keeps_log=True)
    if of == "preempted":
        return Estimate(float(sum(each.state == "preempted" for each in result.attempts)))
    return Estimate(min(each.start for each in result.attempts if each.job == job))


def cascade(
    lab: Lab,
    replications: int,
    *,
    nodes: int,
    of: Literal["preemptions", "delay"],
    **scheduler: Any,
) -> Estimate:
    """Return what a loss of its processes brings a job of eight nodes, among jobs of one node below it that never end.

    Preemptions of others that have it as their root, or the time until the job runs again [s].
    """
    del replications
    filler = _stream("filler", 1, work="horizon") | {"arrivals": {"use": "backlog", "pending": 400}}
    crash = {"use": "job", "name": "crash", "law": {"use": "fixed", "value": "20 h"}}
    recovery = {"use": "full-restart", "initialize": "0 s", "delay": "121 s"}
    large = {"name": "large", "gpus": 8, "priority": 1}
    data = _fleet("cascade", nodes, [filler], "10 d", jobs=[large], failures=[crash], recovery=recovery)
    result = sim.run(lab.scenario(data | {"scheduler": {"use": "fifo", **scheduler}}), 0)
    assert result.fleet is not None
    job = result.jobs[0]
    losses = sum(job.interruptions.values())
    if of == "delay":
        waited = job.buckets[[sim.Bucket.RESCHEDULE, sim.Bucket.QUEUED]].sum() / job.gpus
        return Estimate(float(waited) / losses)
    found = sum(float(rows[:, 0].sum()) for rows in result.fleet.stops.values())
    return Estimate(found / losses)

"""Streams of jobs: waits against queueing theory, gangs at saturation, logs as others schedule them, cases by hand.

Times of queues are in units of the mean run time.
"""

from __future__ import annotations

import csv
import heapq
import json
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ettrick import sim
from ettrick.analysis.validation.lab import MeasuredQuantity, bare, estimate, seconds
from ettrick.sim.units import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from ettrick.analysis.validation.lab import ScenarioRunner
    from ettrick.sim import Prepared

    FloatArray = npt.NDArray[np.float64]

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
    lab: ScenarioRunner,
    replications: int,
    *,
    case: str,
    servers: int,
    load: float,
    jobs: float,
    warmup: float,
    variation: float = 1.0,
    of: Literal["mean wait", "longer than a run"] = "mean wait",
) -> MeasuredQuantity:
    """Return the mean wait of jobs that arrive at random, or the share that waits longer than the mean run time.

    Their run times have a squared coefficient of variation; 0 for fixed ones, 1 for exponential ones.
    """
    law: dict[str, Any] = {"use": "fixed", "value": _time(1)}
    if variation:
        law = {"use": "gamma", "shape": 1 / variation, "mean": _time(1)}
    streams = [_stream(case, load * servers, work=law)]
    horizon = _time(jobs / (load * servers))
    prepared = lab.scenario(_fleet(case, servers, streams, horizon, warmup=_time(warmup)))
    place = ("mean wait", "longer than a run").index(of)
    return estimate(means[0][place] for means in lab.each(_two_levels, prepared, replications))


def priority_time(
    lab: ScenarioRunner,
    replications: int,
    *,
    case: str,
    loads: tuple[float, float],
    stream: int,
    preempts: bool,
    jobs: float,
) -> MeasuredQuantity:
    """Return the mean wait of one of two classes on one node; with preemption that resumes, the time in the system."""
    streams = [_stream(f"{case} high", loads[0], priority=1), _stream(f"{case} low", loads[1])]
    preemption = {"preempt": {"mode": "requeue"}, "requeue": {"age": "keep"}} if preempts else {}
    data = _fleet(
        case, 1, streams, _time(jobs / sum(loads)), warmup=_time(100), scheduler={"use": "fifo", **preemption}
    )
    by_replication = lab.each(_two_levels, lab.scenario(data), replications)
    return estimate(means[stream][2 if preempts else 0] for means in by_replication)


def start_over(
    lab: ScenarioRunner, replications: int, *, case: str, rate: float, length: float, jobs: float
) -> MeasuredQuantity:
    """Return the mean time from first start to end of low jobs that lose everything when a higher job arrives."""
    low = _stream(f"{case} low", 1, work={"use": "fixed", "value": _time(length)})
    low |= {"arrivals": {"use": "backlog", "pending": 1}, "checkpoint": {"save": "1 s"}}
    streams = [_stream(f"{case} high", rate, priority=1), low]
    keys = {"use": "fifo", "preempt": {"mode": "requeue"}, "requeue": {"age": "keep"}}
    data = _fleet(case, 1, streams, _time(jobs), warmup=_time(100), scheduler=keys)
    return estimate(lab.each(_completion, lab.scenario(data), replications))


def failing_wait(
    lab: ScenarioRunner, replications: int, *, case: str, load: float, hazard: float, repair: float, jobs: float
) -> MeasuredQuantity:
    """Return the mean wait for a node that fails only while it works; the work is kept, the job waits for repair.

    The mean wait of the same jobs without failures, of which theory knows the mean, is a control variate.
    """
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
    waits, control = np.array(lab.each(_with_control, lab.scenario(data), replications)).T
    slope = np.cov(waits, control)[0, 1] / control.var(ddof=1)
    return estimate(waits - slope * (control - load / (1 - load)))


def gang_saturation(
    lab: ScenarioRunner, replications: int, *, case: str, slots: int, small: float, jobs: float
) -> MeasuredQuantity:
    """Return the share of nodes in use under strict FIFO, of jobs of one node (chance `small`) and of all nodes."""
    backlog = {"use": "backlog", "pending": 20}
    jobs_of = _stream(case, 1, arrivals=backlog, gpus={"1": small, str(slots): 1 - small})
    # Mean time between starts in units, for the horizon alone.
    gap = (small + slots * (1 - small)) / slots / 0.6
    data = _fleet(case, slots, [jobs_of], _time(jobs * gap), warmup=_time(100 * gap))
    return estimate(lab.each(_occupancy, lab.scenario(data), replications))


_LONGER = 60
"""The factor of the time of a plain recursion over that of the engine."""


def _two_levels(prepared: Prepared, replication: int) -> list[FloatArray]:
    """Return mean wait, share of waits longer than a mean run, and mean time in the system, of each stream, shape (3,).

    A plain recursion has the jobs of a long time, and the engine the first of them: what it makes more of these is
    added. That is nothing unless one of the two is wrong, and the sampling error is that of the long time.

    References
    ----------
    M. B. Giles, "Multilevel Monte Carlo path simulation", Operations Research 56 (2008).
    """
    jobs, starts, ends = plain_queue(prepared, replication, _LONGER * (prepared.warmup + prepared.horizon))
    waits, times = (starts - jobs.submit) / _UNIT, (ends - jobs.submit) / _UNIT
    place = {key: at for at, key in enumerate(zip(jobs.stream.tolist(), jobs.number.tolist(), strict=True))}
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for attempt in sim.run(prepared, replication, keeps_log=True).attempts:
        if attempt.submit >= 0:
            at = place[attempt.stream, attempt.job]
            first[at] = min(first.get(at, math.inf), (attempt.start - attempt.submit) / _UNIT)
            if attempt.state == "completed":
                last[at] = (attempt.end - attempt.submit) / _UNIT
    statistics = []
    for index in range(len(prepared.streams)):
        counts = (jobs.stream == index) & (jobs.submit >= prepared.warmup)
        started, ended = ([at for at in engine if jobs.stream[at] == index] for engine in (first, last))
        more = [first[at] - waits[at] for at in started]
        longer = [float(first[at] > 1) - float(waits[at] > 1) for at in started]
        later = [last[at] - times[at] for at in ended]
        plain = np.array([waits[counts].mean(), (waits[counts] > 1).mean(), times[counts].mean()])
        statistics.append(plain + np.array([np.mean(more), np.mean(longer), np.mean(later)]))
    return statistics


def _with_control(prepared: Prepared, replication: int) -> tuple[float, float]:
    """Return the mean wait, and that of the same jobs by the plain recursion, where nothing fails [mean run time]."""
    fleet = sim.run(prepared, replication).fleet
    wait = fleet.job_sum("wait_first_job").sum() / fleet.job_sum("started_job").sum()
    jobs, starts, _ = plain_queue(prepared, replication, prepared.warmup + prepared.horizon)
    plain = (starts - jobs.submit)[jobs.submit >= prepared.warmup].mean()
    return float(wait) / _UNIT, float(plain) / _UNIT


class PlainJobs(NamedTuple):
    """Jobs of all streams in order of submission [s], with their work [s]; each of shape (n,)."""

    stream: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]
    submit: FloatArray
    work: FloatArray
    priority: FloatArray


def plain_queue(prepared: Prepared, replication: int, end: float) -> tuple[PlainJobs, FloatArray, FloatArray]:
    """Return the jobs of one GPU that come until `end` [s], and their first starts and ends [s] by a plain recursion.

    Several streams are classes of priority on one node. Nothing fails.
    """
    columns = []
    for stream in prepared.streams:
        specs = stream.arrivals(prepared.seed, replication, end)
        submit, work, priority = zip(*((job.submit, job.work, job.priority) for job in specs), strict=True)
        columns.append((np.full(len(submit), stream.index), np.arange(len(submit)), submit, work, priority))
    together = [np.concatenate(column) for column in zip(*columns, strict=True)]
    order = np.argsort(together[2], kind="stable")
    jobs = PlainJobs(*(column[order] for column in together))
    if len(prepared.streams) > 1:
        return jobs, *_by_priority(jobs, preempts=prepared.scheduler.preempt.mode == "requeue")
    starts = in_turn(jobs.submit, jobs.work, prepared.nodes)
    return jobs, starts, starts + jobs.work


def in_turn(submit: FloatArray, times: FloatArray, servers: int) -> FloatArray:
    """Return starts [s], shape (n,), of jobs that take the first free server in order of submission.

    References
    ----------
    J. Kiefer, J. Wolfowitz, "On the theory of queues with many servers", Transactions of the AMS 78 (1955).
    """
    free = [0.0] * servers
    starts = []
    for at, run in zip(submit.tolist(), times.tolist(), strict=True):
        start = at if at > free[0] else free[0]
        heapq.heapreplace(free, start + run)
        starts.append(start)
    return np.array(starts)


def _by_priority(jobs: PlainJobs, *, preempts: bool) -> tuple[FloatArray, FloatArray]:
    """Return first starts and ends [s], shape (n,), of jobs on one server that serves the highest class first."""
    coming, left, rank = [*jobs.submit.tolist(), math.inf], jobs.work.tolist(), (-jobs.priority).tolist()
    starts, ends = [-1.0] * len(left), [0.0] * len(left)
    queue: list[tuple[int, int]] = []
    now, at = 0.0, 0
    while at < len(left) or queue:
        now = now if queue else max(now, coming[at])
        while coming[at] <= now:
            heapq.heappush(queue, (rank[at], at))
            at += 1
        _, job = queue[0]
        if starts[job] < 0:
            starts[job] = now
        if preempts and coming[at] < now + left[job]:
            left[job] -= coming[at] - now
            now = coming[at]
        else:
            heapq.heappop(queue)
            now += left[job]
            ends[job] = now
    return np.array(starts), np.array(ends)


def _completion(prepared: Prepared, replication: int) -> float:
    attempts = [attempt for attempt in sim.run(prepared, replication, keeps_log=True).attempts if attempt.stream == 1]
    first = {attempt.job: attempt.start for attempt in reversed(attempts)}
    times = [attempt.end - first[attempt.job] for attempt in attempts if attempt.state == "completed"]
    return float(np.mean(times)) / _UNIT


def _occupancy(prepared: Prepared, replication: int) -> float:
    fleet = sim.run(prepared, replication).fleet
    return float(fleet.allocated.sum() / fleet.healthy.sum())


# Large jobs of a research cluster, each as if it were alone.


def large_job_ettr(
    lab: ScenarioRunner,
    replications: int,
    *,
    gpus: int,
    work: float,
    rate: float,
    days: float,
    start: float | None = None,
) -> MeasuredQuantity:
    """Return the ETTR without the queue of jobs of some size and work [h] on fleet-rsc1 against its renewal equations.

    They arrive at a rate [1/day]. With `start` [min] a start takes that long, and everything else no time.
    """
    stream = {
        "name": f"alone {gpus}",
        "arrivals": {"rate": f"{rate} per day"},
        "gpus": gpus,
        "work": {"use": "fixed", "value": f"{work} h"},
        "limit": "7 d",
    }
    changes = [f"streams=[{json.dumps(stream)}]", f"horizon={days} d"]
    if start is not None:
        changes += [f"recovery.initialize={start} min", "detection.time=0 s"]
        changes += [f"checkpoint.tiers.0.{name}=0 s" for name in ("stall", "write", "restore")]
    prepared = lab.shipped("fleet-rsc1", changes)
    return estimate(lab.each(_ettr_no_queue, prepared, replications), _renewal_ettr(prepared, work * HOUR, gpus / 8))


def _ettr_no_queue(prepared: Prepared, replication: int) -> float:
    fleet = sim.run(prepared, replication).fleet
    useful, requested, queued = (fleet.job_sum(name).sum() for name in ("useful", "requested", "queued"))
    return float(useful / (requested - queued))


def _renewal_ettr(prepared: Prepared, work: float, nodes: float) -> float:
    """Return work [s] over the mean time of a job that nothing but failures of its nodes stops [-].

    From a start on the newest durable save the job ends, or fails between two saves that become durable; it fails in
    its starts too.
    """
    (stream,), (law,) = prepared.streams, [source.law for source in prepared.sources if source.law is not None]
    (plan,) = stream.saves.values()
    rate, step, save = nodes / law.mean_value, plan.interval, plan.save.time
    segments = math.ceil(work / step - 1e-9)
    times = np.zeros(segments)
    for saved in reversed(range(segments)):
        begin = stream.restart + (plan.restore.time if saved else 0.0)
        end = begin + work - saved * step + (segments - 1 - saved) * save
        durable = begin + np.arange(1, segments - saved) * (step + save) + plan.drain
        fails = -np.diff(np.exp(-rate * np.concatenate([[0.0], np.minimum(durable, end), [end]])))
        anew = fails.sum() * (1 / rate + stream.detection) + fails[1:] @ times[saved + 1 :]
        times[saved] = anew / (1 - fails[0])
    return work / float(times[0])


# Logs, compared with other simulators of the same log.

_DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"

_LOGS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "lublin": ("swf/lublin_256_synthetic.swf.gz", 256, {}),
    "nasa": ("fleet/nasa_ipsc_1993.csv.gz", 128, {"columns": {"submit": "submit_s", "gpus": "procs", "run": "run_s"}}),
}
"""File, nodes, and what a stream needs to read it."""


def log_replayed(
    lab: ScenarioRunner,
    replications: int,
    *,
    log: Literal["lublin", "nasa"],
    scheduler: dict[str, Any],
    of: Literal["mean wait", "jobs that wait", "bounded slowdown", "makespan"],
    factor: float = 1.0,
) -> MeasuredQuantity:
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
    return MeasuredQuantity(
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
    return tuple(np.array([getattr(attempt, name) for attempt in attempts]) for name in ("submit", "start", "end"))


# Cases that are worked out by hand.


def small_fleet(
    lab: ScenarioRunner,
    replications: int,
    *,
    nodes: int,
    jobs: Sequence[Sequence[float]],
    of: Literal["start", "end", "preempted", "oldest victim"],
    job: int = 0,
    per_node: int = 1,
    outage: tuple[int, float, float] | None = None,
    serviced: tuple[int, float, float] | None = None,
    quotas: Sequence[int] = (),
    **scheduler: Any,
) -> MeasuredQuantity:
    """Return when a job starts or ends [s], or how many are preempted, or the number of the first that is.

    Jobs are (submission [s], GPUs, run [s], limit [s], priority, tenant). A node is lost, or known to be serviced, from
    a time to another [s]; tenants have quotas of nodes.
    """
    del replications
    with tempfile.TemporaryDirectory() as folder:
        causes = [*_outages(folder, outage), *_services(serviced)]
        heads = ["job", "submit", "gpus", "run", "limit", "priority", "tenant"]
        file = _written(folder, "jobs", heads, ([number, *row, 0][:7] for number, row in enumerate(jobs)))
        trace = {"name": "hand", "use": "trace", "file": file, "restart": "0 s", "checkpoint": {}}
        tenants = [{"name": str(number), "nodes": quota} for number, quota in enumerate(quotas)]
        data = _fleet("hand", nodes, [trace], "1 d", scheduler=scheduler, failures=causes)
        data["cluster"] |= {"gpus_per_node": per_node}
        result = sim.run(lab.scenario(data | ({"tenants": tenants} if tenants else {})), 0, keeps_log=True)
    victims = [attempt.job for attempt in result.attempts if attempt.state == "preempted"]
    attempts = [attempt for attempt in result.attempts if attempt.job == job]
    quantities: dict[str, float] = {"preempted": len(victims), "oldest victim": min(victims, default=-1)}
    if of in ("start", "end"):
        quantities = {"start": min(row.start for row in attempts), "end": max(row.end for row in attempts)}
    return MeasuredQuantity(float(quantities[of]))


_NodeWindow: TypeAlias = tuple[int, float, float] | None
"""A node, and from when to when [s]; ``None`` for none."""


def _outages(folder: str, outage: _NodeWindow) -> Iterator[dict[str, Any]]:
    """Yield the failures of a node that is lost."""
    if outage is not None:
        node, start, end = outage
        log = _written(folder, "outages", ["unit", "start", "end", "cause"], [(node, start, end, "host")])
        yield {"use": "replay", "file": log, "map": "number"}


def _services(serviced: _NodeWindow) -> Iterator[dict[str, Any]]:
    """Yield the maintenance of a node that is serviced."""
    if serviced is not None:
        node, start, end = serviced
        window = {"start": seconds(start), "duration": seconds(end - start), "first": node}
        yield {"use": "maintenance", "name": "service", "windows": [window]}


def _written(folder: str, name: str, heads: list[str], rows: Iterable[Sequence[object]]) -> str:
    """Return the path of a new CSV file."""
    path = Path(folder) / f"{name}.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([heads, *rows])
    return str(path)


def cascade(
    lab: ScenarioRunner, replications: int, *, nodes: int, of: Literal["preemptions", "delay"], **scheduler: Any
) -> MeasuredQuantity:
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
    job = result.jobs[0]
    losses = sum(job.interruptions.values())
    if of == "delay":
        waited = job.buckets[[sim.Bucket.RESCHEDULE, sim.Bucket.QUEUED]].sum() / job.gpus
        return MeasuredQuantity(float(waited) / losses)
    preempted = (rows for key, rows in result.fleet.stops.items() if key.via == sim.PREEMPTION)
    preemptions = sum(float(rows[:, 0].sum()) for rows in preempted)
    return MeasuredQuantity(preemptions / losses)

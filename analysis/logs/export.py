"""A replication written as the logs of its cluster: input for `ettrick fit` of a site whose truth is known.

Node states and job records are as Slurm prints them, steps as ml-goodput-measurement logs them. The reason of an outage
is the name of its source, and `rules.yaml` makes that its cause. The node list of a job is the first nodes that are up
when it starts, with those whose outage ends it: a simulation does not say which of its nodes a job left idle.
"""

from __future__ import annotations

import bisect
import json
import math
from collections import Counter
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

from ettrick import sim
from ettrick.analysis.amounts import ranges
from ettrick.sim import SCHEDULING, Attempt, Bucket

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ettrick.sim import PhaseSpan, Prepared, Result

ORIGIN = datetime(2025, 1, 6, tzinfo=UTC).timestamp()
"""The moment at which the simulation begins [s since 1970]: a Monday."""

EVERY = 300.0
"""Time between two lines of the training log [s]."""

PAUSED = 1800.0
"""Time between two pauses of the steps in it [s]."""

_WAITING = frozenset(SCHEDULING)
_STEPPING = frozenset((Bucket.PRODUCTIVE, Bucket.DEGRADED))
_STATES = {"node_fail": "NODE_FAIL", "preempted": "PREEMPTED", "timeout": "TIMEOUT", "completed": "COMPLETED",
           "cancelled": "CANCELLED", "running": "RUNNING"}  # fmt: skip


def files(prepared: Prepared, result: Result, window: tuple[float, float] = (-math.inf, math.inf)) -> dict[str, str]:
    """Return the logs of a replication, by name of file.

    Parameters
    ----------
    prepared, result
        A scenario, and a replication of it that was run with its timeline and its log of nodes.
    window
        First and last moment of the logs [s after the warm-up]; what lasts longer is open in them.
    """
    window = max(window[0], 0.0), min(window[1], float(result.edges[-1]))
    racks = prepared.scenario.cluster.build().domains["rack"]
    names = [f"node{at:0{len(str(len(racks)))}}" for at in range(len(racks))]
    inventory = [("node", "gpus", "rack", "in_service")]
    inventory += [
        (name, str(prepared.gpus_per_node), f"r{int(rack):03}", _text(0.0))
        for name, rack in zip(names, racks, strict=True)
    ]
    texts = {
        "nodes.csv": _lines(inventory, ","),
        "events.txt": _node_events(prepared, result, names, window),
        "sacct.txt": _sacct(prepared, result, names, window),
        "rules.yaml": _rules(prepared),
    }
    logged = (entry for at in range(len(prepared.jobs)) for entry in _steps(prepared, result, at))
    steps = "".join(f"{json.dumps(line)}\n" for moment, line in logged if window[0] <= moment < window[1])
    return {**texts, "train.jsonl": steps} if steps else texts


def _text(moment: float) -> str:
    """Return a moment of the simulation [s] as local time of a site that keeps UTC."""
    return datetime.fromtimestamp(round(ORIGIN + moment), UTC).replace(tzinfo=None).isoformat()


def _lines(rows: Iterable[Sequence[str]], delimiter: str) -> str:
    return "".join(f"{delimiter.join(row)}\n" for row in rows)


def _main_spans(result: Result) -> list[PhaseSpan]:
    """Return the phases of the main groups of jobs, those that step in lockstep."""
    return [span for span in result.timeline.spans if span.group == 0] if result.timeline is not None else []


def _rules(prepared: Prepared) -> str:
    """Return rules by which the reason of an outage is a cause of its name, planned work apart."""
    sources = [source for source in prepared.sources if not source.planned]
    planned = [rf"^{source.name}$" for source in prepared.sources if source.planned]
    content = {
        "causes": {source.name: {"fault": source.fault} for source in sources},
        "reasons": [{"match": rf"^{source.name}$", "cause": source.name} for source in sources],
    }
    return sim.dump({**content, "planned": {"reasons": planned}} if planned else content)


def _node_events(prepared: Prepared, result: Result, names: Sequence[str], window: tuple[float, float]) -> str:
    """Return what ``sacctmgr -P list event`` prints; what is not over at the end has no end."""
    rows = [("Cluster", "NodeName", "TimeStart", "TimeEnd", "State", "Reason", "User")]
    # A node is taken out of service when its fault is noticed.
    noticed = {round(span.start): span.end for span in _main_spans(result) if span.bucket == Bucket.DETECTION}
    for outage in sorted(result.outages, key=lambda outage: (outage.start, outage.node)):
        if outage.end < window[0] or outage.start >= window[1]:
            continue
        over = _text(outage.end) if outage.end < window[1] else "Unknown"
        source = prepared.sources[outage.cause - 1] if outage.cause else None
        state, reason = ("MAINT" if source.planned else "DOWN", source.name) if source is not None else ("DRAIN", "")
        start = min(noticed.get(round(outage.start), outage.start), outage.end)
        rows.append(("c1", names[outage.node], _text(max(start, 0.0)), over, state, reason, "root(0)"))
    return _lines(rows, "|")


def _attempts(spans: Iterable[PhaseSpan]) -> Iterator[tuple[float, float, float]]:
    """Yield start and end of the attempts of a job [s], and when the failure came that ended each.

    Each ends with detection, or when the job lets go of its nodes; one that runs has no end, which is infinite.
    """
    start: float | None = None
    for span in spans:
        if span.bucket in _WAITING or span.bucket == Bucket.DETECTION:
            if start is not None:
                yield start, span.start if span.bucket in _WAITING else span.end, span.start
            start = None
        elif start is None:
            start = span.start
    if start is not None:
        yield start, math.inf, math.inf


def _sacct(prepared: Prepared, result: Result, names: Sequence[str], window: tuple[float, float]) -> str:
    """Return what ``sacct -a -D -P`` prints: every attempt of every job, those of streams without their nodes."""
    head = "JobIDRaw JobID User Partition State Submit Eligible Start End ElapsedRaw TimelimitRaw NNodes AllocTRES"
    rows = [(*head.split(), "NodeList", "Restarts", "FailedNode")]
    numbers = {(-1, index): index + 1 for index in range(len(prepared.jobs))}
    restarts: Counter[tuple[int, int]] = Counter()
    for attempt in (*_of_jobs(prepared, result, len(names)), *_of_streams(result)):
        key = attempt.stream, attempt.job
        number, restart = numbers.setdefault(key, len(numbers) + 1), restarts[key]
        restarts[key] += 1
        if attempt.start >= window[1] or attempt.end < window[0]:
            continue
        is_open = attempt.end > window[1] or attempt.state == "RUNNING"
        submit, count = _text(attempt.submit), -(-attempt.gpus // prepared.gpus_per_node)
        rows.append((
            f"{number}", f"{number}", f"u{attempt.stream}" if attempt.stream >= 0 else "trainer", "main",
            "RUNNING" if is_open else attempt.state, submit, submit, _text(attempt.start),
            "Unknown" if is_open else _text(attempt.end),
            f"{round(min(attempt.end, window[1])) - round(attempt.start)}", "", f"{count}",
            f"gres/gpu={attempt.gpus},node={count}", _host_list(attempt, names), f"{restart}", "",
        ))  # fmt: skip
    return _lines(rows, "|")


def _of_streams(result: Result) -> Iterator[Attempt]:
    """Yield the attempts of jobs of streams in the words of Slurm, job by job."""
    for attempt in sorted(result.attempts, key=lambda attempt: (attempt.stream, attempt.job, attempt.start)):
        start, submit = max(attempt.start, 0.0), max(attempt.submit, 0.0)
        state = _STATES.get(attempt.state, "FAILED")
        yield attempt._replace(start=start, submit=submit, state=state, nodes=())


def _of_jobs(prepared: Prepared, result: Result, count: int) -> Iterator[Attempt]:
    """Yield the attempts of named jobs, as those of a stream -1; the last one of a finished job completed."""
    for index, (plan, job) in enumerate(zip(prepared.jobs, result.jobs, strict=True)):
        for start, over, failed in _attempts(span for span in _main_spans(result) if span.job == index):
            end, state = over, "FAILED"
            if math.isinf(over):
                end, state = (job.end, "COMPLETED") if job.finished else (over, "RUNNING")
            ended = {outage.node for outage in result.outages if failed <= outage.start + 1 <= end + 2}
            nodes = _nodes_of(result, (start, end), ended, count)[: -(-plan.gpus // prepared.gpus_per_node)]
            state = "NODE_FAIL" if ended else state
            yield Attempt(-1, index, plan.gpus, max(job.arrival, 0.0), start, end, state, nodes=(tuple(nodes),))


def _nodes_of(result: Result, span: tuple[float, float], ended: set[int], count: int) -> list[int]:
    """Return the nodes that a job could have had, the likeliest first: those that ended it, and those that were up."""
    out = {outage.node for outage in result.outages if outage.start < span[1] and outage.end > span[0]}
    return sorted(range(count), key=lambda node: 0 if node in ended else 1 + (node in out))


def _host_list(attempt: Attempt, names: Sequence[str]) -> str:
    """Return the names of the nodes of an attempt as Slurm writes them: node[001-016,018]; nothing without any."""
    numbers = sorted(chain.from_iterable(attempt.nodes))
    return f"node[{ranges(numbers, lambda node: names[node].removeprefix('node'))}]" if numbers else ""


def _steps(prepared: Prepared, result: Result, index: int) -> Iterator[tuple[float, dict[str, object]]]:
    """Yield what ml-goodput-measurement logs of a job, with its moment: starts, and steps when they begin."""
    timeline, plan, job = result.timeline, prepared.jobs[index], result.jobs[index]
    if timeline is None or not job.steps:
        return
    step = job.work / job.steps
    spans = [span for span in _main_spans(result) if span.job == index]
    stones = [stone for stone in timeline.milestones if stone.job == index]
    moments, works = [stone.time for stone in stones], [stone.work for stone in stones]
    for start, end, _ in _attempts(spans):
        yield start, {"job_name": plan.name, "job_start_time": ORIGIN + start}
        for span in spans:
            if span.bucket not in _STEPPING or not start <= span.start < end:
                continue
            for number, moment in _steps_within(span, moments, works, step):
                yield moment, {"job_name": plan.name, "step_count": number, "step_start_time": ORIGIN + moment}


def _steps_within(
    span: PhaseSpan, moments: Sequence[float], works: Sequence[float], step: float
) -> Iterator[tuple[int, float]]:
    """Yield steps of a phase, every five minutes, with the moments at which they begin [s].

    The job had done some works at some moments, in order.
    """
    begin = works[max(bisect.bisect_right(moments, span.start) - 1, 0)]
    after = bisect.bisect_left(moments, span.end - 1e-6)
    reached = works[after] if after < len(works) else begin + span.end - span.start
    reached = reached if reached > begin else begin + span.end - span.start
    # Between pauses, such as saves, steps have their own pace; how long these were in all is known.
    pauses = max(round((span.end - span.start) / PAUSED), 1)
    paused = max(span.end - span.start - (reached - begin), 0.0) / pauses
    first, last = math.ceil(begin / step - 1e-9), math.floor(reached / step + 1e-9)
    stride = max(round(EVERY / step), 1)
    for number in dict.fromkeys((*range(first, last, stride), last)):
        done = number * step - begin
        yield number, span.start + done + paused * math.floor(pauses * done / (reached - begin))

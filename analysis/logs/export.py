"""One replication as the logs that its cluster would leave: what `ettrick fit` reads, of a site whose truth is known.

Node states and job records are as Slurm prints them, steps as ml-goodput-measurement logs them. The reason of an outage
is the name of its source, and `rules.yaml` makes that its cause. The node list of a job is the first nodes that are up
when it starts, with those whose outage ends it: a simulation does not say which of its nodes a job left idle.
"""

from __future__ import annotations

import bisect
import csv
import io
import json
import math
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ettrick import sim
from ettrick.analysis.amounts import ranges
from ettrick.sim import SCHEDULING, Bucket

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ettrick.sim import PhaseSpan, Prepared, Result

ORIGIN = datetime(2025, 1, 6, tzinfo=UTC).timestamp()
"""When the simulation begins [s since 1970]: a Monday."""

EVERY = 300.0
"""Time between two lines of the training log [s]."""

PAUSED = 1800.0
"""Time between two pauses of the steps in it [s]."""

_WAITING = frozenset(SCHEDULING)
_STEPPING = frozenset((Bucket.PRODUCTIVE, Bucket.DEGRADED))
_STATES = {"node_fail": "NODE_FAIL", "preempted": "PREEMPTED", "timeout": "TIMEOUT", "completed": "COMPLETED",
           "cancelled": "CANCELLED", "running": "RUNNING"}  # fmt: skip


class AttemptRow(NamedTuple):
    """A job from when it had its nodes to when it let go of them [s]; `end` is infinite while it runs.

    `failed` is when the failure came that ended it; without one it is `end`.
    """

    start: float
    end: float
    state: str
    failed: float


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
    found = {
        "nodes.csv": _csv(inventory, ","),
        "events.txt": _node_events(prepared, result, names, window),
        "sacct.txt": _sacct(prepared, result, names, window),
        "rules.yaml": _rules(prepared),
    }
    logged = (each for at in range(len(prepared.jobs)) for each in _steps(prepared, result, at))
    steps = "".join(f"{json.dumps(line)}\n" for moment, line in logged if window[0] <= moment < window[1])
    return {**found, "train.jsonl": steps} if steps else found


def _text(moment: float) -> str:
    """Return a moment of the simulation [s] as local time of a site that keeps UTC."""
    return datetime.fromtimestamp(round(ORIGIN + moment), UTC).replace(tzinfo=None).isoformat()


def _csv(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n", quotechar="\0", quoting=csv.QUOTE_NONE).writerows(rows)
    return text.getvalue()


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
    assert result.timeline is not None, "a result with its timeline"
    spans = [span for span in result.timeline.spans if span.bucket == Bucket.DETECTION and span.group == 0]
    noticed = {round(span.start): span.end for span in spans}
    for outage in sorted(result.outages, key=lambda outage: (outage.start, outage.node)):
        if outage.end < window[0] or outage.start >= window[1]:
            continue
        over = _text(outage.end) if outage.end < window[1] else "Unknown"
        source = prepared.sources[outage.cause - 1] if outage.cause else None
        state, reason = ("MAINT" if source.planned else "DOWN", source.name) if source is not None else ("DRAIN", "")
        start = min(noticed.get(round(outage.start), outage.start), outage.end)
        rows.append(("c1", names[outage.node], _text(max(start, 0.0)), over, state, reason, "root(0)"))
    return _csv(rows, "|")


def _attempts(spans: Sequence[PhaseSpan]) -> list[AttemptRow]:
    """Return the attempts of a job by the phases of its main group: each ends with detection, or with its nodes."""
    found: list[AttemptRow] = []
    start: float | None = None
    for span in spans:
        if span.bucket in _WAITING or span.bucket == Bucket.DETECTION:
            if start is not None:
                end = span.start if span.bucket in _WAITING else span.end
                found.append(AttemptRow(start, end, "FAILED", span.start))
            start = None
        elif start is None:
            start = span.start
    return [*found, AttemptRow(start, math.inf, "RUNNING", math.inf)] if start is not None else found


def _sacct(prepared: Prepared, result: Result, names: Sequence[str], window: tuple[float, float]) -> str:
    """Return what ``sacct -a -D -P`` prints: every attempt of every job, those of streams without their nodes."""
    head = "JobIDRaw JobID User Partition State Submit Eligible Start End ElapsedRaw TimelimitRaw NNodes AllocTRES"
    rows = [(*head.split(), "NodeList", "Restarts", "FailedNode")]
    horizon = window[1]
    per_node = prepared.gpus_per_node

    def row(job: int, user: str, gpus: int, submit: float, at: int, one: AttemptRow, nodes: str) -> tuple[str, ...]:
        is_open = one.end > horizon or one.state == "RUNNING"
        count = -(-gpus // per_node)
        return (
            f"{job}", f"{job}", user, "main", "RUNNING" if is_open else one.state, _text(submit), _text(submit),
            _text(one.start), "Unknown" if is_open else _text(one.end),
            f"{round(min(one.end, horizon)) - round(one.start)}", "", f"{count}", f"gres/gpu={gpus},node={count}",
            nodes, f"{at}", "",
        )  # fmt: skip

    for index, plan in enumerate(prepared.jobs):
        arrival = max(result.jobs[index].arrival, 0.0)
        for at, attempt in enumerate(_job_attempts(result, index)):
            if attempt.start < horizon and attempt.end >= window[0]:
                nodes, by_node = _nodes_of(result, attempt, -(-plan.gpus // per_node), len(names))
                ended = attempt._replace(state="NODE_FAIL") if by_node else attempt
                rows.append(row(index + 1, "trainer", plan.gpus, arrival, at, ended, _host_list(nodes, names)))
    ordered = sorted(result.attempts, key=lambda ran: (ran.stream, ran.job, ran.start))
    for number, (_, group) in enumerate(groupby(ordered, lambda ran: (ran.stream, ran.job)), len(prepared.jobs) + 1):
        for at, ran in enumerate(group):
            attempt = AttemptRow(max(ran.start, 0.0), ran.end, _STATES.get(ran.state, "FAILED"), ran.end)
            if attempt.start < horizon and attempt.end >= window[0]:
                rows.append(row(number, f"u{ran.stream}", ran.gpus, max(ran.submit, 0.0), at, attempt, ""))
    return _csv(rows, "|")


def _job_attempts(result: Result, index: int) -> list[AttemptRow]:
    """Return the attempts of a job by the phases of its main group; the last one of a finished job completed."""
    assert result.timeline is not None, "a result with its timeline"
    attempts = _attempts([span for span in result.timeline.spans if span.job == index and span.group == 0])
    if attempts and attempts[-1].state == "RUNNING" and result.jobs[index].finished:
        attempts[-1] = attempts[-1]._replace(end=result.jobs[index].end, state="COMPLETED")
    return attempts


def _nodes_of(result: Result, attempt: AttemptRow, count: int, nodes: int) -> tuple[list[int], bool]:
    """Return nodes that a job could have had, and whether any ended it: these, and others that were up all the time."""
    ended = {outage.node for outage in result.outages if attempt.failed <= outage.start + 1 <= attempt.end + 2}
    out = {outage.node for outage in result.outages if outage.start < attempt.end and outage.end > attempt.start}
    last = [node for node in range(nodes) if node in out and node not in ended]
    order = [*sorted(ended), *(node for node in range(nodes) if node not in ended and node not in out), *last]
    return sorted(order[:count]), bool(ended)


def _host_list(nodes: Sequence[int], names: Sequence[str]) -> str:
    """Return names of nodes, in order, as Slurm writes them: node[001-016,018]."""
    return f"node[{ranges(nodes, lambda node: names[node].removeprefix('node'))}]"


def _steps(prepared: Prepared, result: Result, index: int) -> Iterator[tuple[float, dict[str, object]]]:
    """Yield what ml-goodput-measurement logs of a job, with its moment: starts, and steps when they begin."""
    timeline, plan, job = result.timeline, prepared.jobs[index], result.jobs[index]
    assert timeline is not None, "a result with its timeline"
    if not job.steps:
        return
    step = job.work / job.steps
    mine = [span for span in timeline.spans if span.job == index and span.group == 0]
    stones = [stone for stone in timeline.milestones if stone.job == index]
    moments, works = [stone.time for stone in stones], [stone.work for stone in stones]
    for attempt in _attempts(mine):
        yield attempt.start, {"job_name": plan.name, "job_start_time": ORIGIN + attempt.start}
        for span in mine:
            if span.bucket not in _STEPPING or not attempt.start <= span.start < attempt.end:
                continue
            yield from (
                (moment, {"job_name": plan.name, "step_count": number, "step_start_time": ORIGIN + moment})
                for number, moment in _steps_within(span, moments, works, step)
            )


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

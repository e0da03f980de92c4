"""A timeline of a replication in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open."""

from __future__ import annotations

import gzip
import heapq
import itertools
import json
import math
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING, Any

from ettrick.sim import JOB_BUCKETS, NO_FAILURE, ROOTS, Bucket, Outages, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from ettrick.sim import Prepared, Result

# The rows of a timeline: processes and threads for jobs, groups of replicas, domains and nodes.


class Tracks:
    """Numbers and names of the rows that a replication needs; the cluster first, then jobs, then domains of nodes.

    Numbers of threads are unique over all processes, and zero is never used: some viewers take it for the idle thread.
    """

    def __init__(self, prepared: Prepared, result: Result, timeline: Timeline) -> None:
        self.processes: list[str] = []
        self.threads: list[tuple[int, str]] = []
        self.cluster = self._thread(self._process("cluster"), "events")
        """The row of what belongs to no job."""
        self._groups: dict[tuple[int, int], dict[str, int]] = {}
        self._nodes: dict[int, dict[str, int]] = {}
        for index, plan in enumerate(prepared.jobs):
            pid = self._process(f"job {plan.name}")
            self._groups[index, 0] = self._thread(pid, "in step" if plan.replicas > 1 else "all nodes")
            for group in sorted({span.group for span in timeline.spans if span.job == index and span.group}):
                self._groups[index, group] = self._thread(pid, f"replica {group - 1} away")
        self._streams = [(self._process(f"stream {stream.name}"), stream.name) for stream in prepared.streams]
        self._lanes: dict[tuple[int, int], dict[str, int]] = {}
        self._add_nodes(prepared, sorted({outage.node for outage in result.outages}))

    def of_group(self, job: int, group: int) -> dict[str, int]:
        """Return the row of a group of replicas."""
        return self._groups[job, group]

    def of_lane(self, stream: int, lane: int) -> dict[str, int]:
        """Return a row of a stream: one for each job that runs at the same time."""
        if (stream, lane) not in self._lanes:
            self._lanes[stream, lane] = self._thread(self._streams[stream][0], f"running job {lane + 1}")
        return self._lanes[stream, lane]

    def of_node(self, node: int) -> dict[str, int]:
        """Return the row of a node."""
        return self._nodes[node]

    def metadata(self) -> list[dict[str, Any]]:
        """Return the events that name the rows and put them in order."""
        events = []
        for pid, name in enumerate(self.processes, start=1):
            events += _named("process", pid, {}, name, pid)
        for tid, (pid, name) in enumerate(self.threads, start=1):
            events += _named("thread", pid, {"tid": tid}, name, tid)
        return events

    def _add_nodes(self, prepared: Prepared, nodes: list[int]) -> None:
        """Add the nodes by the domain that holds them: a scale-up domain of several nodes, else a rack."""
        cluster = prepared.scenario.cluster
        kind, label = ("scale_up", "scale-up domain") if cluster.nodes_per_domain > 1 else ("rack", "rack")
        domains = cluster.build().domains[kind]
        pids: dict[int, int] = {}
        for node in nodes:
            domain = int(domains[node])
            if domain not in pids:
                pids[domain] = self._process(f"{label} {domain}")
            self._nodes[node] = self._thread(pids[domain], f"node {node}")

    def _process(self, name: str) -> int:
        self.processes.append(name)
        return len(self.processes)

    def _thread(self, pid: int, name: str) -> dict[str, int]:
        self.threads.append((pid, name))
        return {"pid": pid, "tid": len(self.threads)}


def _named(what: str, pid: int, thread: dict[str, int], name: str, place: int) -> list[dict[str, Any]]:
    """Return the two events that name a row and say where it stands."""
    row = {"ph": "M", "ts": 0, "pid": pid, **thread}
    return [
        {"name": f"{what}_name", **row, "args": {"name": name}},
        {"name": f"{what}_sort_index", **row, "args": {"sort_index": place}},
    ]


STEPPING = (Bucket.PRODUCTIVE, Bucket.DEGRADED)
"""Buckets that a span has while its group steps; what saves, periodic work and rollbacks take of it is in it."""

MOST_SPANS = 1_000_000
"""Stretches of time in a timeline at most: viewers take no more."""


class TimelineError(ValueError):
    """A timeline has more than a viewer can show; the message is one line."""


def chrome_trace(
    prepared: Prepared, result: Result, window: tuple[float, float] = (-math.inf, math.inf)
) -> dict[str, Any]:
    """Return a replication as a document of the Trace Event Format (JSON object format).

    A job is a process, with a thread for the replicas that step together and one for each replica that was ever away;
    phases are complete events. Each domain with a node that was ever down is a process, each such node a thread in it.
    Failures are instant events; nodes down, GPUs that step, replicas that step together and surviving tokens are
    counters. A stream of jobs is a process, with as many threads as its jobs ran at the same time. Times are whole
    microseconds after the warm-up; what was before is cut off.

    Parameters
    ----------
    prepared, result
        A scenario, and a replication of it that was run with its timeline and its log of nodes.
    window
        First and last time that is shown [s after the warm-up].

    Raises
    ------
    TimelineError
        If more than `MOST_SPANS` are in the window.

    References
    ----------
    "Trace Event Format", Google (2016).
    """
    result, timeline = _within(result, *window)
    _refuse_too_many(len(timeline.spans) + len(result.outages) + len(result.attempts))
    source = {"scenario": prepared.name, "replication": result.replication, "seed": prepared.seed}
    return {
        "traceEvents": _events(prepared, result, timeline, max(window[0], 0.0)),
        "displayTimeUnit": "ms",
        "otherData": {**source, "ettrick": metadata.version("ettrick")},
    }


def _refuse_too_many(count: int) -> None:
    if count > MOST_SPANS:
        raise TimelineError(
            f"{count:,} stretches of time, and a viewer takes {MOST_SPANS:,}: choose a part of the run, --from and --to"
        )


def _events(prepared: Prepared, result: Result, timeline: Timeline, begin: float) -> list[dict[str, Any]]:
    """Return the events that name the rows, and behind them all others in order of time."""
    names = [NO_FAILURE, *(source.name for source in prepared.sources), *ROOTS]
    tracks = Tracks(prepared, result, timeline)
    events = [
        *_phases(tracks, timeline, names),
        *_attempts(tracks, result, names),
        *_outages(tracks, result, names),
        *_marks(tracks, timeline, names),
        *_nodes_down(tracks, result, begin),
        *_stepping(tracks, prepared, timeline),
        *_tokens(tracks, prepared, timeline),
    ]
    events.sort(key=lambda event: event["ts"])
    return [*tracks.metadata(), *events]


def _within(result: Result, first: float, last: float) -> tuple[Result, Timeline]:
    """Return what a replication did in a part of its time; work that survives is known from before it too."""
    timeline = result.timeline if result.timeline is not None else Timeline((), (), ())

    def cut(spans: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(
            span._replace(start=max(span.start, first), end=min(span.end, last))
            for span in spans
            if span.start < last and span.end > first
        )

    marks = tuple(mark for mark in timeline.marks if first <= mark.time <= last)
    milestones = tuple(stone for stone in timeline.milestones if first <= stone.time <= last)
    inside = Timeline(cut(timeline.spans), marks, milestones)
    return replace(result, outages=Outages(cut(result.outages)), attempts=cut(result.attempts)), inside


def encoded(content: dict[str, Any], path: Path) -> bytes:
    """Return a document as the bytes of a file: compressed if its name ends in .gz, the same for the same document."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
    return gzip.compress(text, mtime=0) if path.suffix == ".gz" else text


def _microseconds(seconds: float) -> int:
    """Return a time as whole microseconds, not before the end of the warm-up."""
    return max(round(seconds * 1e6), 0)


def _complete(
    name: str, category: str, start: float, end: float, track: dict[str, int], **arguments: Any
) -> Iterator[Any]:
    """Yield a stretch of time on a thread, unless it is shorter than what can be shown."""
    first, last = _microseconds(start), _microseconds(end)
    if last > first:
        yield {"name": name, "cat": category, "ph": "X", "ts": first, "dur": last - first, **track, "args": arguments}


def _counter(name: str, time: float, pid: int, **values: float) -> dict[str, Any]:
    """Return the values of a counter from a time on."""
    return {"name": name, "ph": "C", "ts": _microseconds(time), "pid": pid, "args": values}


def _phases(tracks: Tracks, timeline: Timeline, names: list[str]) -> Iterator[Any]:
    for span in timeline.spans:
        stepping = span.bucket in STEPPING
        bucket = JOB_BUCKETS[span.bucket]
        name = span.name or ({"productive": "step", "degraded": "step slowly"}[bucket] if stepping else bucket)
        arguments = {"bucket": bucket, "cause": names[span.cause]}
        track = tracks.of_group(span.job, span.group)
        yield from _complete(name, "step" if stepping else "wait", span.start, span.end, track, **arguments)


def _attempts(tracks: Tracks, result: Result, names: list[str]) -> Iterator[Any]:
    """Yield when each job of a stream had its nodes, in the first row of its stream that is free."""
    running: dict[int, list[tuple[float, int]]] = {}
    free: dict[int, list[int]] = {}
    for attempt in sorted(result.attempts, key=lambda attempt: (attempt.start, attempt.job)):
        busy, lanes = running.setdefault(attempt.stream, []), free.setdefault(attempt.stream, [])
        while busy and busy[0][0] <= attempt.start:
            heapq.heappush(lanes, heapq.heappop(busy)[1])
        lane = heapq.heappop(lanes) if lanes else len(busy)
        heapq.heappush(busy, (attempt.end, lane))
        track = tracks.of_lane(attempt.stream, lane)
        arguments = {"job": attempt.job, "GPUs": attempt.gpus, "state": attempt.state, "cause": names[attempt.cause]}
        name = f"job {attempt.job}, {attempt.gpus} GPUs"
        yield from _complete(name, "attempt", attempt.start, attempt.end, track, **arguments)


def _outages(tracks: Tracks, result: Result, names: list[str]) -> Iterator[Any]:
    for outage in result.outages:
        track = tracks.of_node(outage.node)
        yield from _complete(names[outage.cause], "outage", outage.start, outage.end, track, node=outage.node)


def _marks(tracks: Tracks, timeline: Timeline, names: list[str]) -> Iterator[Any]:
    for mark in timeline.marks:
        arguments: dict[str, Any] = {"cause": names[mark.cause]} if mark.cause else {}
        if mark.node >= 0:
            arguments["node"] = mark.node
        if mark.text:
            arguments["text"] = mark.text
        track = tracks.of_group(mark.job, 0) if mark.job >= 0 else tracks.cluster
        name = f"{mark.kind}: {names[mark.cause]}" if mark.cause else mark.kind
        # Scope p draws the mark over all threads of the process.
        moment = {"cat": "event", "ph": "i", "ts": _microseconds(mark.time), "s": "p"}
        yield {"name": name, **moment, **track, "args": arguments}


def _nodes_down(tracks: Tracks, result: Result, begin: float) -> Iterator[Any]:
    """Yield how many nodes are down, whenever that changes."""
    changes = [(outage.start, 1) for outage in result.outages] + [(outage.end, -1) for outage in result.outages]
    yield _counter("nodes down", begin, tracks.cluster["pid"], nodes=sum(by for time, by in changes if time <= begin))
    total = 0
    for time, those in itertools.groupby(sorted(changes), key=lambda change: change[0]):
        total += sum(by for _, by in those)
        if begin < time < result.edges[-1]:
            yield _counter("nodes down", time, tracks.cluster["pid"], nodes=total)


def _stepping(tracks: Tracks, prepared: Prepared, timeline: Timeline) -> Iterator[Any]:
    """Yield how many GPUs of each job step, and how many of its replicas, whenever that changes."""
    for index, plan in enumerate(prepared.jobs):
        pid = tracks.of_group(index, 0)["pid"]
        steps: list[tuple[float, int, int]] = []
        for span in timeline.spans:
            if span.job == index and span.end > span.start:
                # Whether the main group steps, and how many replicas are away from it.
                change = (int(span.bucket in STEPPING), 0) if span.group == 0 else (0, 1)
                steps += [(span.start, *change), (span.end, -change[0], -change[1])]
        is_on = away = 0
        before = None
        for time, those in itertools.groupby(sorted(steps), key=lambda step: step[0]):
            for _, on, gone in those:
                is_on += on
                away += gone
            replicas = plan.replicas - away if is_on else 0
            if replicas != before:
                before = replicas
                yield _counter("GPUs stepping", time, pid, GPUs=plan.gpus * replicas / plan.replicas)
                if plan.replicas > 1:
                    yield _counter("replicas stepping", time, pid, replicas=replicas)


def _tokens(tracks: Tracks, prepared: Prepared, timeline: Timeline) -> Iterator[Any]:
    """Yield how many tokens survive, where it is known how many a step takes."""
    for milestone in timeline.milestones:
        rate = prepared.jobs[milestone.job].tokens_per_second
        if rate:
            pid = tracks.of_group(milestone.job, 0)["pid"]
            yield _counter("tokens", milestone.time, pid, tokens=milestone.work * rate)

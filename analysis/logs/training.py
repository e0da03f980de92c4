"""Training: ml-goodput-measurement, failures that torchrun reports, and restarts of NVIDIA Resiliency Extension.

References
----------
Google, ml-goodput-measurement; PyTorch, torch.distributed.elastic.multiprocessing.errors; NVIDIA,
nvidia-resiliency-ext.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.logs.tables import Attempt, Event, Phase
from sim.records import LogError

if TYPE_CHECKING:
    from analysis.logs.files import Log, Reading

# ml-goodput-measurement: one JSON object a line.

_SPANS = {
    "tpu_init": "initialize",
    "training_prep": "initialize",
    "data_loading": "initialize",
    "custom_badput_event": "custom",
}


def read_goodput(log: Log) -> None:
    """Read starts of jobs, spans and steps; a start of the job begins another attempt."""
    tables, source = log.tables, log.source
    attempt: dict[str, int] = {}
    opened: dict[tuple[str, str], tuple[float, int]] = {}
    step: dict[str, tuple[int, float]] = {}
    for number, text in log.lines():
        if not text.strip():
            continue
        try:
            entry = json.loads(text)
            job = str(entry["job_name"])
            moments = {
                key: float(value)
                for key, value in entry.items()
                if key.endswith("_time") and not isinstance(value, str)
            }
            name, moment = next(iter(moments.items()))
            count = int(entry.get("step_count", -1))
        except (ValueError, KeyError, TypeError, StopIteration, AttributeError, RecursionError, OverflowError):
            log.drop("no entry of ml-goodput-measurement", number)
            continue
        if not 0 <= moment < 1e11:
            log.drop("a moment that cannot be read", number)
            continue
        source.saw(moment)
        source.rows += 1
        run = attempt.get(job, 0)
        if name == "job_start_time":
            run = attempt[job] = attempt.get(job, -1) + 1
            step.pop(job, None)
            tables.phases.append(Phase(job, run, "start", moment, moment, file=log.file, line=number))
        elif name == "job_end_time":
            tables.phases.append(Phase(job, run, "teardown", moment, moment, file=log.file, line=number))
        elif name == "step_start_time":
            last = step.get(job)
            if last is not None and count > last[0] and moment >= last[1]:
                tables.phases.append(Phase(job, run, "step", last[1], moment, last[0], count, log.file, number))
            elif last is None:
                tables.phases.append(Phase(job, run, "step", moment, moment, count, count, log.file, number))
            step[job] = count, moment
        elif name.endswith("_start_time"):
            opened[job, name.removesuffix("_start_time")] = moment, number
        elif name.endswith("_end_time"):
            span = name.removesuffix("_end_time")
            began = opened.pop((job, span), None)
            if began is None or moment < began[0]:
                log.drop("an end without its start", number)
            else:
                phase = _SPANS.get(span, span)
                tables.phases.append(Phase(job, run, phase, began[0], moment, file=log.file, line=began[1]))
        else:
            log.drop("an entry without a known key", number)


# torchrun: the first failure that an agent saw.

ROOT = "Root Cause (first observed failure)"

_FIELDS = {
    "time": re.compile(r"\btime +: (\d{4}-\d\d-\d\d)_(\d\d:\d\d:\d\d)"),
    "host": re.compile(r"\bhost +: (\S+)"),
    "exitcode": re.compile(r"\bexitcode +: (-?\d+)"),
}


def read_torchrun(log: Log) -> None:
    """Read the first failures that agents report; of the agents of a job the earliest counts, see `events.blame`."""
    hits = 0
    found: dict[str, str] = {}
    begun = 0
    for number, text in log.lines():
        if ROOT in text:
            if begun:
                log.drop("a report of torchrun that was cut", begun)
            begun, found = number, {}
        if not begun:
            continue
        hits += 1
        for name, pattern in _FIELDS.items():
            match = pattern.search(text)
            if match is not None:
                found.setdefault(name, "T".join(match.groups()))
        if len(found) == len(_FIELDS):
            try:
                moment = log.clock.read(found["time"], number, "time")
            except LogError:
                raise
            except ValueError:
                log.drop("a moment that cannot be read", number)
            else:
                log.source.saw(moment)
                log.source.rows += 1
                log.tables.events.append(
                    Event("torchrun", moment, moment, found["host"], "unknown", f"exit {found['exitcode']}", log.file,
                          begun, "job", severity="info", is_fault=True)
                )  # fmt: skip
            begun = 0
        elif number - begun > 12:
            log.drop("a report of torchrun that was cut", begun)
            begun = 0
    if begun:
        log.drop("a report of torchrun that was cut", begun)
    if log.source.lines > hits:
        log.drop("other lines of training", 1, log.source.lines - hits)


# NVIDIA Resiliency Extension: events of ft_launcher, and what each cycle was.

NVRX = re.compile(
    r" Cycle: (?P<cycle>\d+) Event: (?P<event>\w+) Node: \S+ .*\bTime: (?P<day>\d{4}-\d\d-\d\d) (?P<time>[\d:.]+) UTC"
)

_STRETCHES = (
    ("teardown", "failure_detected", "worker_terminated"),
    ("initialize", "rendezvous_started", "worker_start_completed"),
)


def read_nvrx(log: Log) -> None:
    """Read the phases of restarts, each from the first rank that begins it to the last that is done."""
    moments: dict[tuple[int, str], list[tuple[float, int]]] = defaultdict(list)
    for number, text in log.lines():
        match = NVRX.search(text)
        if match is None:
            if text.strip():
                log.drop("other lines of training", number)
            continue
        try:
            moment = log.clock.read(f"{match['day']}T{match['time']}+00:00", number)
        except ValueError:
            log.drop("a moment that cannot be read", number)
            continue
        log.source.saw(moment)
        log.source.rows += 1
        moments[int(match["cycle"]), match["event"]].append((moment, number))
    job = re.sub(r"[.].*", "", Path(log.file).name)
    for cycle in sorted({cycle for cycle, _ in moments}):
        for phase, first, last in _STRETCHES:
            if (cycle, first) in moments and (cycle, last) in moments:
                begin, line = min(moments[cycle, first])
                end = max(moments[cycle, last])[0]
                if end >= begin:
                    log.tables.phases.append(Phase(job, cycle, phase, begin, end, file=log.file, line=line))


def read_cycles(log: Log) -> None:
    """Read cycle_info of ft_launcher: which nodes ran between two restarts of one job."""
    for line, entry in log.documents():
        try:
            begin, end = (
                log.clock.read(text if re.search(r"Z$|[+-]\d\d:?\d\d$", text) else f"{text}Z", line)
                if text
                else math.nan
                for text in (str(entry[key] or "") for key in ("cycle_start_time", "cycle_end_time"))
            )
            nodes = entry["active_nodes"]
            nodes = ",".join(map(str, nodes)) if isinstance(nodes, list) else str(nodes or "")
            ranks = entry.get("active_ranks")
            count = len(ranks) if isinstance(ranks, list) else ranks if isinstance(ranks, int) else 0
            size = len(log.reading.hosts.expand(nodes))
            job, number = str(entry["job_id"]), int(entry["cycle_number"])
        except (KeyError, TypeError, ValueError, AttributeError):
            log.drop("no entry of cycle_info", line)
            continue
        if math.isnan(begin) or end < begin:
            log.drop("has no start" if math.isnan(begin) else "ends before it starts", line)
            continue
        log.source.rows += 1
        for moment in (begin, end):
            if not math.isnan(moment):
                log.source.saw(moment)
        log.reading.cycles.append(
            Attempt(job, number, nodes, size, count, math.nan, math.nan, begin, end, end - begin, "",
                    file=log.file, line=line)
        )  # fmt: skip


def close(reading: Reading) -> None:
    """Put cycles in the place of the runs of the scheduler that they are parts of.

    A cycle that another one follows failed. The last one ended as the scheduler says, or completed if it does not.
    """
    if not reading.cycles:
        return
    cycles: dict[str, list[Attempt]] = defaultdict(list)
    for each in reading.cycles:
        cycles[each.job].append(each)
    kept = []
    for attempt in reading.tables.attempts:
        mine = cycles.get(attempt.job, ())
        over = math.inf if math.isnan(attempt.t_end) else attempt.t_end
        within = [each for each in mine if attempt.t_start - 300 <= each.t_start <= over]
        if not within:
            kept.append(attempt)
            continue
        for each in within:
            each.user, each.partition, each.limit = attempt.user, attempt.partition, attempt.limit
            each.gpus, each.end_state = each.gpus or attempt.gpus, "FAILED"
        first, last = (choose(within, key=lambda each: each.t_start) for choose in (min, max))
        first.t_submit, first.t_eligible = attempt.t_submit, attempt.t_eligible
        last.end_state, last.blamed_node = attempt.end_state, attempt.blamed_node
    for mine in cycles.values():
        mine.sort(key=lambda each: each.t_start)
        unstated = [each for each in mine if not each.end_state]
        for each in unstated:
            is_open = math.isnan(each.t_end)
            each.end_state = "FAILED" if each is not mine[-1] else "RUNNING" if is_open else "COMPLETED"
        for one, after in itertools.pairwise(mine):
            if math.isnan(one.t_end):
                one.t_end, one.elapsed = after.t_start, after.t_start - one.t_start
        kept += [replace(each, attempt=number) for number, each in enumerate(mine)]
    reading.tables.attempts[:] = kept

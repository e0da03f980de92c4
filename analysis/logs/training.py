"""Training: ml-goodput-measurement, failures that torchrun reports, and restarts of NVIDIA Resiliency Extension.

References
----------
Google, ml-goodput-measurement; PyTorch, torch.distributed.elastic.multiprocessing.errors; NVIDIA,
nvidia-resiliency-ext.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from analysis.logs.tables import Phase

if TYPE_CHECKING:
    from analysis.logs.files import Log

# Training: ml-goodput-measurement, one JSON object a line.

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
        except (ValueError, KeyError, TypeError, StopIteration, AttributeError):
            log.drop("no entry of ml-goodput-measurement", number)
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
            count = int(entry.get("step_count", -1))
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

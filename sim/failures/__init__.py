"""When things break. Knows nothing of jobs: a source has units with lives, and a trace is data."""

from __future__ import annotations

from sim.failures.component import Component
from sim.failures.job_level import JobLevel
from sim.failures.replay import Replay, TraceError, read_log
from sim.failures.source import Clock, Renews, Source
from sim.failures.trace import FailureTrace, draw_trace

__all__ = [
    "SOURCES",
    "Clock",
    "Component",
    "FailureTrace",
    "JobLevel",
    "Renews",
    "Replay",
    "Source",
    "TraceError",
    "draw_trace",
    "read_log",
]

SOURCES = {"component": Component, "job": JobLevel, "replay": Replay}

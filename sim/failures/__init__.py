"""The failures of parts. Knows nothing of jobs: a source has units with lives, and a trace is data."""

from __future__ import annotations

from ettrick.sim.failures.effects import BlastRadius
from ettrick.sim.failures.parts import Bug, Component, Defect, Incident, JobLevel, LossSpike, Preemption
from ettrick.sim.failures.replay import Replay, read_log
from ettrick.sim.failures.source import Clock, FailureSource, HiddenFault, ImperfectRepair, Maintenance, Renews, Rollout
from ettrick.sim.failures.trace import FailureTrace, draw_trace

SOURCES = {
    "component": Component,
    "incident": Incident,
    "defect": Defect,
    "job": JobLevel,
    "loss-spike": LossSpike,
    "preemption": Preemption,
    "bug": Bug,
    "maintenance": Maintenance,
    "rollout": Rollout,
    "replay": Replay,
}

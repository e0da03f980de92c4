"""What a step costs: time, memory and what it takes to start, as pure functions of a model, a layout and a machine."""

from __future__ import annotations

from sim.perf.constants import Constants, Efficiencies
from sim.perf.flop import model_flop_per_token, step_time_from_mfu
from sim.perf.hardware import PRECISIONS, Accelerator, NodePower
from sim.perf.links import Link, Links, ideal_links
from sim.perf.shape import Experts, LatentAttention, ModelShape
from sim.perf.step import Breakdown, Machine, breakdown
from sim.perf.workload import Problem, Workload, problems

__all__ = [
    "PRECISIONS",
    "Accelerator",
    "Breakdown",
    "Constants",
    "Efficiencies",
    "Experts",
    "LatentAttention",
    "Link",
    "Links",
    "Machine",
    "ModelShape",
    "NodePower",
    "Problem",
    "Workload",
    "breakdown",
    "ideal_links",
    "model_flop_per_token",
    "problems",
    "step_time_from_mfu",
]

"""What a step costs: time, memory and what it takes to start, as pure functions of a model, a layout and a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.lazy import import_on_use

if TYPE_CHECKING:
    from sim.perf.constants import Constants, Efficiencies
    from sim.perf.flop import flop_per_token, step_time_from_mfu
    from sim.perf.hardware import PRECISIONS, Accelerator, NodePower
    from sim.perf.impaired import Impairment, impaired, rerouted_pace, stated_pace
    from sim.perf.links import Link, Links, ideal_links
    from sim.perf.memory import MemoryUse, checkpoint_size, memory_use, remedies
    from sim.perf.plan import StepPlan
    from sim.perf.shape import Experts, LatentAttention, ModelShape
    from sim.perf.startup import communicator_time, start_time
    from sim.perf.step import Breakdown, Machine, breakdown
    from sim.perf.workload import Problem, Workload, problems

__all__ = [
    "PRECISIONS",
    "Accelerator",
    "Breakdown",
    "Constants",
    "Efficiencies",
    "Experts",
    "Impairment",
    "LatentAttention",
    "Link",
    "Links",
    "Machine",
    "MemoryUse",
    "ModelShape",
    "NodePower",
    "Problem",
    "StepPlan",
    "Workload",
    "breakdown",
    "checkpoint_size",
    "communicator_time",
    "flop_per_token",
    "ideal_links",
    "impaired",
    "memory_use",
    "problems",
    "remedies",
    "rerouted_pace",
    "start_time",
    "stated_pace",
    "step_time_from_mfu",
]

import_on_use(
    __name__,
    {
        "constants": "Constants Efficiencies",
        "flop": "flop_per_token step_time_from_mfu",
        "hardware": "PRECISIONS Accelerator NodePower",
        "impaired": "Impairment impaired rerouted_pace stated_pace",
        "links": "Link Links ideal_links",
        "memory": "MemoryUse checkpoint_size memory_use remedies",
        "plan": "StepPlan",
        "shape": "Experts LatentAttention ModelShape",
        "startup": "communicator_time start_time",
        "step": "Breakdown Machine breakdown",
        "workload": "Problem Workload problems",
    },
)

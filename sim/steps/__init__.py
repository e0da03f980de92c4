"""The cost of a step: time, memory and start-up, as pure functions of a model, a layout and a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ettrick.sim.lazy import import_on_use

if TYPE_CHECKING:
    from ettrick.sim.steps.hardware import (
        PRECISIONS,
        Accelerator,
        Constants,
        Efficiencies,
        Link,
        Links,
        NodePower,
        ideal_links,
    )
    from ettrick.sim.steps.memory import MemoryUse, checkpoint_size, memory_use, remedies
    from ettrick.sim.steps.plan import StepPlan, communicator_time, start_time
    from ettrick.sim.steps.shape import Experts, LatentAttention, ModelShape, flop_per_token, step_time_from_mfu
    from ettrick.sim.steps.time import Breakdown, Impairment, Machine, breakdown, impaired, rerouted_pace, stated_pace
    from ettrick.sim.steps.workload import LayoutViolation, Workload, problems

import_on_use(
    __name__,
    {
        "hardware": "Accelerator Constants Efficiencies Link Links NodePower PRECISIONS ideal_links",
        "memory": "MemoryUse checkpoint_size memory_use remedies",
        "plan": "StepPlan communicator_time start_time",
        "shape": "Experts LatentAttention ModelShape flop_per_token step_time_from_mfu",
        "time": "Breakdown Impairment Machine breakdown impaired rerouted_pace stated_pace",
        "workload": "LayoutViolation Workload problems",
    },
)

"""Small layouts and bare machines for tests of the step-time model: everything but what a test asks about is free."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ettrick import sim
from ettrick.sim.steps import Accelerator, Constants, Efficiencies, Link, Links, Machine, ModelShape, Workload
from tests.harness import scenario

if TYPE_CHECKING:
    from ettrick.sim.steps import StepPlan

"""Published steps, sizes and start-up times, where they are present."""

SHAPE = ModelShape(layers=24, hidden=512, ffn=2048, heads=16, kv_heads=16, vocabulary=1000, gated=False, tied=True)

"""A plain GPT: as many key heads as heads, four times the width inside, no gate."""

CHIP = Accelerator(
    title="a plain chip",
    source="nobody",
    generation="none",
    peak={"bf16": 1e15, "fp8": 2e15},
    memory=80e9,
    memory_bandwidth=math.inf,
    scale_up=math.inf,
)

"""Matrix units and nothing that they would wait for."""

WHOLE = Efficiencies(gemm=1.0, logits=1.0, attention=1.0, sigma=0.1, basis="fitted")

"""The whole peak, with an error of a tenth."""

BARE = Constants(
    touches=1.0,
    score_touches=1.0,
    weight_reads=1.0,
    launch=0.0,
    scale_up=1.0,
    network=1.0,
    latency=0.0,
    tensor_hidden=0.0,
    context_hidden=0.0,
    expert_hidden=0.0,
    handover_hidden=0.0,
    data_floor=0.0,
    shard_floor=0.0,
    data_cover=0.0,
    shard_cover=0.0,
    memory=1.0,
    optimizer=0.0,
    expert_touches=1.0,
    expert_launch=0.0,
    overhead=0.0,
)

"""Links are as fast as they are printed, nothing hides behind anything, and nothing takes time of its own."""

FREE = Link(math.inf)


def free_links(**known: Link) -> Links:
    """Return links that take no time, but for those that are `known` by kind of group."""
    return Links(**{name: known.get(name, FREE) for name in Links._fields})


def bare_machine(chip: Accelerator = CHIP, /, **known: Link) -> Machine:
    """Return a machine of which only matrix units and `known` links take time."""
    return Machine(chip, WHOLE, free_links(**known), BARE)


def workload(shape: ModelShape = SHAPE, /, **changes: Any) -> Workload:
    """Return a step of 64 sequences of 256 tokens on one GPU, with changes."""
    return replace(Workload(shape=shape, sequence=256, sequences=64), **changes)


# ----------------------------------------
# A job whose step is modelled: Llama 3 8B on eight nodes of H100, and what the tests change of it.

FLAT: dict[str, Any] = {"rails": 8, "leaf": {"nodes": 16}, "radix": 1024}

NARROW = FLAT | {"leaf": {"nodes": 4}, "spine": {"oversubscription": 4}}

"""Leaf switches of four nodes with a quarter of the uplinks."""

LLAMA: dict[str, Any] = {
    "name": "train",
    "gpus": 64,
    "model": "llama3-8b",
    "batch": {"tokens": 128 * 8192, "sequence": 8192},
    "parallelism": {"tensor": 4, "pipeline": 2, "data": 8},
}

MIXTRAL: dict[str, Any] = {
    "model": "mixtral-8x7b",
    "parallelism": {"pipeline": 4, "data": 16, "expert": 8},
    "execution": {"recompute": "full"},
}


def described(accelerator: Any = "h100", fabric: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a scenario of 16 nodes and of one job as :data:`LLAMA`, with changes of the job."""
    sources = {"failures": [more.pop("failure")]} if "failure" in more else {}
    job = LLAMA | more
    cluster = {"nodes": 16, "accelerator": accelerator, "fabric": fabric or FLAT}
    return scenario(cluster=cluster, jobs=[{key: value for key, value in job.items() if value is not None}], **sources)


def examined(accelerator: Any = "h100", fabric: dict[str, Any] | None = None, **more: Any) -> sim.Prepared:
    """Return the same, as far as it is prepared without cables."""
    return sim.examine(sim.parse(described(accelerator, fabric, **more)))


def job_of(*args: Any, **more: Any) -> sim.PreparedJob:
    """Return its job."""
    return examined(*args, **more).jobs[0]


def plan_of(*args: Any, **more: Any) -> StepPlan:
    """Return what the step-time model says of its job."""
    plan = job_of(*args, **more).plan
    assert plan is not None
    return plan

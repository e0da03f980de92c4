"""A job whose step is modelled: Llama 3 8B on eight nodes of H100, and what the tests change of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sim
from tests.harness import scenario

if TYPE_CHECKING:
    from sim.steps import StepPlan


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
    """Return what the model of steps says of its job."""
    plan = job_of(*args, **more).plan
    assert plan is not None
    return plan

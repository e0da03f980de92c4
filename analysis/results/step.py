"""What runs and explanations share of a job: its step, its sizes and its stores."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ettrick.analysis.results.models import StepSummary

if TYPE_CHECKING:
    from ettrick.sim import Prepared, PreparedJob
    from ettrick.sim.steps import StepPlan, Workload

# The terms of a step, in the order of tables.
PARTS = {
    "computing": ("gemm", "attention", "elementwise", "launch", "logits"),
    "communication": ("tensor", "context", "expert", "pipeline", "data", "offload"),
    "bubble": ("bubble",),
    "rest": ("optimizer", "overhead"),
}

_CONVENTION = "model FLOP without recomputation, causal half of attention, over the dense peak"


def slower(prepared: Prepared) -> float:
    """Return how many times as long as modelled the steps of jobs may be, with 90 %; 1 where all are measured.

    The model errs alike for all jobs: the widest of their bands counts.
    """
    plans = [job.plan for job in prepared.jobs if job.plan is not None and not job.is_measured]
    return max((plan.band90[1] / plan.time for plan in plans), default=1.0)


def describe_step(prepared: Prepared, index: int) -> StepSummary:
    """Return the time of a job's healthy step, where it goes, and what is known of its memory."""
    if not prepared.jobs:
        return StepSummary(time_s=None, basis=None, stated=None, breakdown={}, mfu=None)
    job, spec = prepared.jobs[index], prepared.scenario.jobs[index]
    return StepSummary(
        time_s=job.step_time or None,
        basis=_basis(prepared, index),
        stated=next((name for name in ("step_time", "mfu") if getattr(spec, name) is not None), None),
        mfu=job.mfu,
        mfu_convention=_CONVENTION if job.mfu is not None else None,
        **_of_plan(job.plan, is_measured=job.is_measured),
    )


def _of_plan(plan: StepPlan | None, *, is_measured: bool) -> dict[str, Any]:
    """Return what the model says of a step, as it is and as it would be without what was measured of it."""
    if plan is None:
        keys = ("sigma", "band90_s", "model_s", "model_sigma", "model_band90_s", "scale", "memory_bytes")
        return {**dict.fromkeys(keys), "breakdown": {}}
    alone = replace(plan, scale=1.0, sigma=plan.machine.shares.sigma)
    return {
        "sigma": None if is_measured else plan.sigma,
        "band90_s": None if is_measured else plan.band90,
        "model_s": alone.time,
        "model_sigma": alone.sigma,
        "model_band90_s": alone.band90,
        "scale": plan.scale,
        "breakdown": plan.breakdown._asdict(),
        "memory_bytes": {**plan.memory._asdict(), "total": plan.memory.total, "capacity": plan.machine.chip.memory},
    }


def _basis(prepared: Prepared, index: int) -> str | None:
    job = prepared.jobs[index]
    if job.is_measured:
        return "measured"
    if job.plan is None:
        return None
    return "calibrated" if prepared.scenario.jobs[index].calibration is not None else job.plan.machine.shares.basis


def sizes(work: Workload) -> dict[str, int]:
    """Return the sizes of the groups of a layout."""
    return {
        "tensor": work.tensor,
        "context": work.context,
        "pipeline": work.pipeline,
        "data": work.data,
        "expert": work.expert,
        "virtual_pipeline": work.virtual,
    }


def stores_of(job: PreparedJob) -> list[Any]:
    """Return the stores of a job, the one that is saved to most often first."""
    return sorted(job.checkpoint.rungs, key=lambda rung: rung.interval)


def unit_text(value: float, unit: str) -> str:
    """Return a number with its unit and prefix, to four digits."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:,.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"

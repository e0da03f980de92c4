"""The step of a job as plain data: its time, where that goes, how well it uses the peak, and what degrades it."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any

from sim.perf import Impairment, flop_per_token, stated_pace

if TYPE_CHECKING:
    from sim import Prepared, PreparedJob
    from sim.perf import MemoryUse, StepPlan, Workload

__all__ = ["PARTS", "degraded", "describe_step", "parts", "sizes", "utilisation"]

PARTS = {
    "computing": ("gemm", "attention", "elementwise", "launch", "logits"),
    "communication": ("tensor", "context", "expert", "pipeline", "data"),
    "bubble": ("bubble",),
    "rest": ("optimizer", "overhead"),
}
"""The terms of a step, in the order of tables."""

_SLOW = 0.9
"""Pace of the slow GPU among the degraded steps [-]."""
_NARROW = 0.5
"""What is left of a node's NICs among the degraded steps [-]."""
_CONVENTION = "model FLOP without recomputation, causal half of attention, over the dense peak"


def describe_step(prepared: Prepared, index: int) -> dict[str, Any]:
    """Return the time of a job's healthy step, where it goes, and what is known of its memory.

    Returns
    -------
    dict
        Times [s], sizes [B]; the breakdown is empty, and other numbers ``None``, where the model of steps does not
        know enough.
    """
    job, spec = prepared.jobs[index], prepared.scenario.jobs[index]
    plan = job.plan
    stated = next((name for name in ("step_time", "mfu") if getattr(spec, name) is not None), None)
    found: dict[str, Any] = {
        "time_s": job.step_time or None,
        "basis": _basis(prepared, index),
        "stated": stated,
        "sigma": None,
        "band90_s": None,
        "model_s": None,
        "model_sigma": None,
        "model_band90_s": None,
        "scale": None,
        "breakdown": {},
        "mfu": job.mfu,
        "mfu_convention": _CONVENTION if job.mfu is not None else None,
        "memory_bytes": None,
    }
    if plan is None:
        return found
    if not job.is_measured:
        found |= {"sigma": plan.sigma, "band90_s": list(plan.band90)}
    alone = replace(plan, scale=1.0, sigma=plan.machine.shares.sigma)
    return found | {
        "model_s": alone.time,
        "model_sigma": alone.sigma,
        "model_band90_s": list(alone.band90),
        "scale": plan.scale,
        "breakdown": plan.breakdown._asdict(),
        "memory_bytes": _memory(plan.memory, plan.machine.chip.memory),
    }


def _basis(prepared: Prepared, index: int) -> str | None:
    """Return what the time of a step rests on, in a word or two."""
    job = prepared.jobs[index]
    if job.is_measured:
        return "measured"
    if job.plan is None:
        return None
    return "calibrated" if prepared.scenario.jobs[index].calibration is not None else job.plan.machine.shares.basis


def _memory(use: MemoryUse, capacity: float) -> dict[str, float]:
    """Return what the fullest GPU holds, by part, beside what it has [B]."""
    return {**use._asdict(), "total": use.total, "capacity": capacity}


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


def parts(plan: StepPlan) -> dict[str, Any]:
    """Return the terms of a step in their parts: seconds [s] and shares [-]."""
    found = {}
    for part, names in PARTS.items():
        terms = {name: getattr(plan.breakdown, name) for name in names}
        total = sum(terms.values())
        found[part] = {
            "time_s": total,
            "share": total / plan.time,
            "terms": {name: {"time_s": time, "share": time / plan.time} for name, time in terms.items()},
        }
    return found


def utilisation(plan: StepPlan) -> dict[str, Any]:
    r"""Return FLOP of a token [FLOP] and the use of the peak [-], without and with recomputation, by two conventions.

    .. math:: \mathrm{MFU} = F / (T N \Pi), \quad \mathrm{HFU} = (F + F_r) / (T N \Pi)

    Of what the backward pass computes again, F_r, counts what ``recompute`` asks for: the forward pass of all layers,
    or the core of attention and what latent attention expands. What fused attention computes again of itself is left
    out, as is usual.

    References
    ----------
    A. Chowdhery et al., "PaLM: scaling language modeling with Pathways", arXiv 2204.02311, section 4.1 and appendix B.
    """
    work = plan.work
    spent = work.sequences * work.sequence / (plan.time * work.gpus * plan.machine.chip.peak[work.precision])
    causal = flop_per_token(work.shape, work.sequence)
    full = flop_per_token(work.shape, work.sequence, convention="full")
    core = (full - causal) / 3
    found = {}
    for name, flop, attention in (("causal", causal, core), ("full", full, 2 * core)):
        again = 0.0
        if work.recompute == "full":
            again = flop / 3 - 2 * (1 + work.shape.depths) * work.shape.embedding
        elif work.recompute == "selective":
            again = 2 * work.shape.all_layers * work.shape.expanding + (0.0 if work.fused_attention else attention)
        found[name] = {
            "flop_per_token": flop,
            "recomputed_flop_per_token": again,
            "mfu": flop * spent,
            "hfu": (flop + again) * spent,
        }
    return found


def degraded(job: PreparedJob) -> dict[str, Any]:
    """Return what a step costs when something is slow, narrow or missing: its time [s], and the pace of training [-].

    The pace counts tokens: with a smaller batch a step takes no longer, and trains on fewer.
    """
    plan = job.plan
    assert plan is not None, "only of a job with a plan"
    work = plan.work
    states = {"slow_gpu": Impairment(compute=_SLOW), "narrow_nics": Impairment(network=_NARROW)}
    if work.data > 1:
        states["replica_missing_keep"] = Impairment(missing=1, keeps_batch=True)
        states["replica_missing_shrink"] = Impairment(missing=1)
    if work.tensor > 1:
        states["tensor_rank_missing"] = Impairment(tensor=work.tensor - 1)
    found: dict[str, Any] = {}
    for name, state in states.items():
        pace, trained, basis = plan.pace(state), 1.0, "model"
        if state.missing and not state.keeps_batch:
            trained = ceil(work.sequences * (work.data - state.missing) / work.data) / work.sequences
        if job.communication is not None and (state.compute < 1 or state.network < 1):
            # A stated share of communication speaks for nodes and network: a run does not ask the model of steps.
            pace = stated_pace(job.communication, state.network, state.compute)
            basis = "communication"
        found[name] = {
            "time_s": plan.time / pace,
            "pace": trained * pace,
            "basis": basis,
            "compute": state.compute,
            "network": state.network,
            "missing": state.missing,
            "tensor": state.tensor or work.tensor,
        }
    return found

"""The step of a job as plain data: its time, where that goes, how well it uses the peak, and what degrades it."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from analysis.amounts import PERCENT
from analysis.results.explained import Degraded, Fit, PlannedJob, StepPart, TermShare, Utilisation
from analysis.results.models import Step
from sim.steps import Impairment, flop_per_token, stated_pace

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim import Prepared, PreparedJob
    from sim.steps import StepPlan, Workload

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


def describe_step(prepared: Prepared, index: int) -> Step:
    """Return the time of a job's healthy step, where it goes, and what is known of its memory."""
    job, spec = prepared.jobs[index], prepared.scenario.jobs[index]
    plan = job.plan
    alone = None if plan is None else replace(plan, scale=1.0, sigma=plan.machine.shares.sigma)
    modelled = None if job.is_measured else plan
    return Step(
        time_s=job.step_time or None,
        basis=_basis(prepared, index),
        stated=next((name for name in ("step_time", "mfu") if getattr(spec, name) is not None), None),
        sigma=None if modelled is None else modelled.sigma,
        band90_s=None if modelled is None else modelled.band90,
        model_s=None if alone is None else alone.time,
        model_sigma=None if alone is None else alone.sigma,
        model_band90_s=None if alone is None else alone.band90,
        scale=None if plan is None else plan.scale,
        breakdown={} if plan is None else plan.breakdown._asdict(),
        mfu=job.mfu,
        mfu_convention=_CONVENTION if job.mfu is not None else None,
        memory_bytes=None
        if plan is None
        else {**plan.memory._asdict(), "total": plan.memory.total, "capacity": plan.machine.chip.memory},
    )


def _basis(prepared: Prepared, index: int) -> str | None:
    """Return what the time of a step rests on, in a word or two."""
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


def parts(plan: StepPlan) -> dict[str, StepPart]:
    """Return the terms of a step in their parts: seconds [s] and shares [-]."""
    found = {}
    for part, names in PARTS.items():
        terms = {name: getattr(plan.breakdown, name) for name in names}
        total = sum(terms.values())
        found[part] = StepPart(
            time_s=total,
            share=total / plan.time,
            terms={name: TermShare(time_s=time, share=time / plan.time) for name, time in terms.items()},
        )
    return found


def utilisation(plan: StepPlan) -> dict[str, Utilisation]:
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
        found[name] = Utilisation(
            flop_per_token=flop,
            recomputed_flop_per_token=again,
            mfu=flop * spent,
            hfu=(flop + again) * spent,
        )
    return found


def degraded(job: PreparedJob) -> dict[str, Degraded]:
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
    found = {}
    for name, state in states.items():
        pace, trained, basis = plan.pace(state), 1.0, "model"
        if state.missing and not state.keeps_batch:
            trained = ceil(work.sequences * (work.data - state.missing) / work.data) / work.sequences
        if job.communication is not None and (state.compute < 1 or state.network < 1):
            # A stated share of communication speaks for nodes and network: a run does not ask the model of steps.
            pace = stated_pace(job.communication, state.network, state.compute)
            basis = "communication"
        found[name] = Degraded(
            time_s=plan.time / pace,
            pace=trained * pace,
            basis=basis,
            compute=state.compute,
            network=state.network,
            missing=state.missing,
            tensor=state.tensor or work.tensor,
        )
    return found


# ----------------------------------------
# What the numbers of a step rest on, in words.


def unit_text(value: float, unit: str) -> str:
    """Return a number with its unit and prefix, to four digits."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:,.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def source_of_term(job: PlannedJob, term: str) -> str:
    """Return what a term of the breakdown rests on."""
    return _SOURCES[term](job)


def band_text(job: PlannedJob, fit: Fit) -> str:
    """Return which measured steps the band of a modelled step rests on."""
    chip, basis = job.accelerator, job.efficiencies["gemm"].basis
    of = f"{chip.generation} at {chip.precision}"
    text = f"{fit.steps} measured steps, "
    if job.calibration is not None:
        text += "each source of them with a factor of its own"
    elif basis == "fitted":
        seen, unseen = PERCENT.brief(fit.mean_error), PERCENT.brief(fit.unseen_source_error)
        text += f"{of} among them: mean error {seen}, of a source left out {unseen}"
    elif chip.announced:
        text += f"but none of {of} with the announced or stated numbers of this accelerator"
    elif basis == "assumed":
        text += f"but none of {of}: by steps at other precisions, or by single matrix products"
    else:
        text += f"but none of {of}: by a usual share of its peak, or of its best matrix product"
    if job.model.has_experts and job.calibration is None:
        text += "; models with experts scatter more"
    step = job.step
    sigma = step.model_sigma if step.sigma is None else step.sigma
    return f"{text} (log-normal, sigma {PERCENT.brief(sigma or 0.0)})"


def degraded_text(job: PlannedJob, name: str, row: Degraded) -> str:
    """Return what is wrong, in words."""
    return {
        "slow_gpu": f"slowest GPU at {PERCENT.brief(row.compute)}",
        "narrow_nics": f"NICs of one node at {PERCENT.brief(row.network)}",
        "replica_missing_keep": f"{row.missing} replica missing, batch kept",
        "replica_missing_shrink": f"{row.missing} replica missing, batch smaller",
        "tensor_rank_missing": f"one replica with {row.tensor} of {job.layout.tensor} tensor ranks",
    }[name]


def _constant(job: PlannedJob, name: str) -> float:
    return job.constants[name].value


def _peak(kind: str) -> Callable[[PlannedJob], str]:
    """Return what tells the share of the peak that a kind of product reaches."""

    def source(job: PlannedJob) -> str:
        found, chip = job.efficiencies[kind], job.accelerator
        peak = chip.peak_flop_per_s if kind == "gemm" else chip.peak_16bit_flop_per_s
        basis = "fitted" if found.basis == "fitted" else "assumed"
        return f"{PERCENT.brief(found.share)} of {unit_text(peak, 'FLOP/s')}, {basis}"

    return source


def _moved(job: PlannedJob) -> str:
    touches = job.constants["touches"]
    rate = unit_text(job.accelerator.memory_bytes_per_s, "B/s")
    return f"{touches.value:.3g} touches at {rate}, {touches.basis}"


def _launches(job: PlannedJob) -> str:
    text = f"{1e3 * _constant(job, 'launch'):.3g} ms a layer and pass"
    if job.model.has_experts:
        text += f" (experts + {1e3 * _constant(job, 'expert_launch'):.3g})"
    return text


def _waits(kind: str, hidden: str, switch: str | None = None) -> Callable[[PlannedJob], str]:
    """Return what tells the rate of a kind of groups, and what computing hides of their traffic."""

    def source(job: PlannedJob) -> str:
        on = switch is None or job.execution[switch]
        part = f"{PERCENT.brief(_constant(job, hidden))} hidden" if on else "nothing hidden"
        return f"{unit_text(job.groups[kind].reached_bytes_per_s, 'B/s')}, {part}"

    return source


def _hand_over(job: PlannedJob) -> str:
    hidden = _constant(job, "handover_hidden") if job.layout.virtual_pipeline > 1 else 0.0
    part = f"{PERCENT.brief(hidden)} hidden" if hidden else "nothing hidden"
    return f"{unit_text(job.groups['pipeline'].reached_bytes_per_s, 'B/s')}, {part}"


def _replicas(job: PlannedJob) -> str:
    kind = "data" if "data" in job.groups else "expert_data"
    rate = unit_text(job.groups[kind].reached_bytes_per_s, "B/s")
    if job.execution["sharding"] == "parameters":
        return f"{rate}, at least {PERCENT.brief(_constant(job, 'shard_floor'))} not hidden"
    if not job.execution["overlap_data"]:
        return f"{rate}, nothing hidden"
    return f"{rate}, at least {PERCENT.brief(_constant(job, 'data_floor'))} not hidden"


def _bubble(job: PlannedJob) -> str:
    layout = job.layout
    pieces = f" of {layout.virtual_pipeline} pieces" if layout.virtual_pipeline > 1 else ""
    return f"{layout.pipeline} stages{pieces}, {layout.microbatches:,} microbatches, {job.execution['schedule']}"


def _update(job: PlannedJob) -> str:
    rate = unit_text(job.accelerator.memory_bytes_per_s, "B/s")
    return f"{_constant(job, 'optimizer'):g} B a parameter, {PERCENT.brief(_constant(job, 'memory'))} of {rate}"


def _per_step(job: PlannedJob) -> str:
    return f"{1e3 * _constant(job, 'overhead'):.3g} ms a step"


_SOURCES: dict[str, Callable[[PlannedJob], str]] = {
    "gemm": _peak("gemm"),
    "attention": _peak("attention"),
    "logits": _peak("logits"),
    "elementwise": _moved,
    "launch": _launches,
    "tensor": _waits("tensor", "tensor_hidden", "overlap_tensor"),
    "context": _waits("context", "context_hidden"),
    "expert": _waits("expert", "expert_hidden"),
    "pipeline": _hand_over,
    "data": _replicas,
    "bubble": _bubble,
    "optimizer": _update,
    "overhead": _per_step,
}

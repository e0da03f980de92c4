"""What the step of each job costs, how it comes back, and where every number comes from, as plain data."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from analysis.results.run import describe_closed_form, provenance
from analysis.results.step import degraded, describe_step, parts, sizes, utilisation
from sim import catalog, comeback
from sim.catalog import steps
from sim.steps import Constants, checkpoint_size, communicator_time, start_time
from sim.steps.memory import CHECKPOINT_BYTES
from sim.steps.power import node_power
from sim.steps.time import rate
from sim.units import DAY

if TYPE_CHECKING:
    from analysis.runs import Ensemble
    from sim import Comeback, Prepared, PreparedJob
    from sim.steps import Link, StepPlan, Workload

# ----------------------------------------
# How each job comes back, as plain data: who notices faults, where copies are kept, which ways back there are.


def describe_recovery(prepared: Prepared, index: int) -> dict[str, Any]:
    """Return what there is to say about detection, stores and recovery of a job; see docs/reference/json.md."""
    scenario = prepared.scenario
    found, job = comeback(prepared, index), prepared.jobs[index]
    name = scenario.recovery.use
    return {
        "interruptions_per_day": DAY / job.mtti,
        "detection_mean_s": job.detection_mean,
        "classes": _classes(found),
        "stores": [_store(rung, job) for rung in stores_of(job)],
        "strategy": found.strategy,
        "summary": found.summary,
        "preset": _preset(name) if name in catalog.recoveries() else None,
        "scales": {
            "detection": scenario.detection.scale,
            "recovery": scenario.recovery.scale,
            "repair": prepared.repair.scale,
        },
        "settings": dict(found.settings),
        "rungs": [_way(way) for way in found.ways],
        "phases": _stages(found.stages),
        "human": _human(found),
    }


def stores_of(job: PreparedJob) -> list[Any]:
    """Return the stores of a job, the one that is saved to most often first."""
    return sorted(job.checkpoint.rungs, key=lambda rung: rung.interval)


def _classes(found: Comeback) -> list[dict[str, Any]]:
    """Return the classes of faults; without a name an observer is whoever tells the time that the scenario states."""
    return [
        {
            "fault": row.fault,
            "stops": row.stops,
            "causes": list(row.causes),
            "per_day": DAY * row.rate,
            "known_after_s": row.known_after,
            "first": {name or "stated": share for name, share in row.shares.items()},
        }
        for row in found.classes
    ]


def _store(rung: Any, job: PreparedJob) -> dict[str, Any]:
    """Return one store; a live peer is never saved to."""
    live = rung.store == "peer"
    return {
        "store": rung.store,
        "interval_s": None if live else rung.interval,
        "period_s": None if live else rung.period(job.step_time),
        "steps": None if live or not job.step_time else round(rung.period(job.step_time) / job.step_time),
        "stall_s": rung.stall,
        "durable_after_s": rung.drain,
        "read_in_s": rung.load,
        "fetched_in_s": rung.fetch,
        "retain": rung.retain,
        "unreadable": rung.corrupt,
        "clique": rung.clique if rung.store == "peer-host" else None,
        "every_replica": rung.every_replica,
    }


def _preset(name: str) -> dict[str, Any]:
    """Return who says the numbers of a preset, and what each rests on."""
    content = catalog.recovery(name)
    notes = [note.partition(": ") for note in content["notes"]]
    return {
        "name": name,
        "title": content["title"],
        "source": content["source"],
        "notes": [{"basis": basis, "text": text} for basis, _, text in notes],
    }


def _way(way: Any) -> dict[str, Any]:
    """Return a rung of a ladder."""
    return {
        "name": way.name,
        "keeps": way.keeps,
        "pools": list(way.pools),
        "patience_s": way.patience,
        "budget": way.budget,
        "not_for": list(way.not_for),
        "except_first": way.except_first,
        "phases": _stages(way.stages),
    }


def _stages(stages: Any) -> dict[str, Any]:
    """Return phases by the name of what they are part of."""
    return {
        stage.name: {
            "mean_s": stage.mean,
            "parts": [
                {
                    "name": phase.name,
                    "mean_s": phase.mean,
                    "faults": list(phase.faults) if phase.faults is not None else None,
                }
                for phase in stage.phases
            ],
        }
        for stage in stages
    }


def _human(found: Comeback) -> dict[str, Any] | None:
    """Return who is called when a ladder has no rung left."""
    human = found.human
    return {"after_s": human.after, "no_progress": human.no_progress} if human is not None else None


_LEAST_PUBLISHED = 16_384

"""GPUs of the smallest job whose communicators have a published time [-]."""

_EXECUTION = (
    "microbatch",
    "schedule",
    "recompute",
    "sharding",
    "sequence_parallel",
    "fused_attention",
    "overlap_tensor",
    "overlap_data",
    "overlap_expert",
)

_PLANNED = (
    "parts",
    "utilisation",
    "model",
    "accelerator",
    "efficiencies",
    "constants",
    "layout",
    "execution",
    "groups",
    "memory_shares",
    "checkpoint",
    "degraded",
)


def describe(prepared: Prepared, simulated: Ensemble | None = None, *, command: str = "") -> dict[str, Any]:
    """Return what there is to say about the jobs of a scenario, ready for JSON; see docs/reference/json.md.

    Parameters
    ----------
    prepared
        The scenario.
    simulated
        Its replications, if the closed form is to be compared with some.
    command
        The command, to be typed again.
    """
    errors = steps.fit()["errors"]
    return {
        "scenario": prepared.name,
        "description": prepared.scenario.description,
        "seed": prepared.seed,
        "jobs": {job.name: _job(prepared, index) for index, job in enumerate(prepared.jobs)},
        "fit": {"steps": errors["rows"], "mean_error": errors["mape"], "unseen_source_error": errors["left_out"]},
        "closed_form": describe_closed_form(prepared, simulated),
        "assumptions": list(prepared.scenario.assumptions),
        "warnings": list(prepared.warnings),
        "provenance": provenance(command, prepared.scenario),
    }


def _job(prepared: Prepared, index: int) -> dict[str, Any]:
    """Return what there is to say about one job; ``None`` for what only the model of steps knows and does not."""
    job, spec = prepared.jobs[index], prepared.scenario.jobs[index]
    found = {
        "gpus": job.gpus,
        "nodes": job.nodes,
        "lacks": spec.lacks,
        "step": describe_step(prepared, index),
        "calibration": _calibration(prepared, index),
        "tokens_per_s": job.tokens_per_second or None,
        "tokens_per_day": job.tokens_per_second * DAY or None,
        "power": _power(prepared, job),
        "start_up": {
            "communicators_s": communicator_time(job.gpus),
            "communicators_extrapolated": job.gpus < _LEAST_PUBLISHED,
            "first_step_s": list(start_time(job.gpus)),
        },
        "pool_paces": list(job.pool_paces),
        "recovery": describe_recovery(prepared, index),
    }
    return found | (_planned(job, job.plan) if job.plan is not None else dict.fromkeys(_PLANNED))


def _planned(job: PreparedJob, plan: StepPlan) -> dict[str, Any]:
    """Return what the model of steps knows."""
    size = checkpoint_size(plan.work.shape)
    held, memory = plan.memory._asdict(), plan.machine.chip.memory
    return {
        "parts": parts(plan),
        "utilisation": utilisation(plan),
        "model": _model(plan.work),
        "accelerator": _accelerator(plan),
        "efficiencies": _efficiencies(plan),
        "constants": _constants(plan),
        "layout": _layout(plan.work),
        "execution": {name: getattr(plan.work, name) for name in _EXECUTION}
        | {"shard_ranks": plan.work.shard_ranks or None},
        "groups": _groups(plan),
        "memory_shares": {**{name: part / memory for name, part in held.items()}, "total": plan.crowding},
        "checkpoint": {
            "bytes": size,
            "bytes_per_gpu": size / plan.work.gpus,
            "bytes_per_parameter": CHECKPOINT_BYTES,
        },
        "degraded": degraded(job),
    }


def _calibration(prepared: Prepared, index: int) -> dict[str, float] | None:
    """Return the measured step that scales the model's, and what the model says of it [s]."""
    row, plan = prepared.scenario.jobs[index].calibration, prepared.jobs[index].plan
    if row is None or plan is None:
        return None
    return {"measured_s": row.step_time, "modelled_s": row.step_time / plan.scale}


def _power(prepared: Prepared, job: PreparedJob) -> dict[str, Any] | None:
    """Return what a node and all nodes of a stepping job draw [W]; ``None`` if it is not known."""
    facility = prepared.upkeep.facility
    if facility is None:
        return None
    node = facility.node
    drawn = job.nodes * node_power(node, 1.0)
    return {
        "node_idle_w": node.idle,
        "node_training_w": node.training,
        "job_w": drawn,
        "joules_per_token": drawn / job.tokens_per_second if job.tokens_per_second else None,
        "measured": node.measured,
        "source": node.source,
    }


def _model(work: Workload) -> dict[str, Any]:
    """Return the size of a model, and who says so."""
    shape = work.shape
    return {
        "title": shape.title,
        "source": shape.source,
        "parameters": shape.parameters,
        "active_parameters": shape.active_parameters,
        "has_experts": shape.experts is not None,
    }


def _accelerator(plan: StepPlan) -> dict[str, Any]:
    """Return the numbers of the data sheet that the step rests on, and where they come from."""
    chip, precision = plan.machine.chip, plan.work.precision
    return {
        "title": chip.title,
        "source": chip.source,
        "generation": chip.generation,
        "announced": chip.announced,
        "precision": precision,
        "peak_flop_per_s": chip.peak[precision],
        "peak_16bit_flop_per_s": chip.peak["bf16"],
        "memory_bytes": chip.memory,
        "memory_bytes_per_s": chip.memory_bandwidth,
        "scale_up_bytes_per_s": chip.scale_up,
    }


def _efficiencies(plan: StepPlan) -> dict[str, Any]:
    """Return the shares of the peaks that the step reaches [-], and what each rests on."""
    shares = plan.machine.shares
    attends = "fitted" if plan.machine.chip.generation in steps.fit()["attention"] else "assumed"
    # In steps narrower than 16 bits, which alone have products narrower than the logits', theirs is not fitted.
    logits = shares.basis if plan.work.precision == "bf16" else "assumed"
    return {
        "gemm": {"share": shares.gemm, "basis": shares.basis},
        "logits": {"share": shares.logits, "basis": logits},
        "attention": {"share": shares.attention, "basis": attends},
    }


def _constants(plan: StepPlan) -> dict[str, Any]:
    """Return the numbers of the model of steps that no data sheet gives, and whether steps or textbooks tell them."""
    fitted = steps.fit()["constants"]
    return {
        entry.name: {
            "value": getattr(plan.machine.constants, entry.name),
            "basis": "fitted" if entry.name in fitted else "textbook",
        }
        for entry in fields(Constants)
    }


def _layout(work: Workload) -> dict[str, Any]:
    """Return how the model and the batch are spread."""
    return {
        **sizes(work),
        "sequence": work.sequence,
        "sequences": work.sequences,
        "tokens": work.sequence * work.sequences,
        "microbatches": work.microbatches,
    }


def _groups(plan: StepPlan) -> dict[str, Any]:
    """Return what each kind of group communicates over; kinds of single ranks are left out."""
    work, links = plan.work, plan.machine.links
    kinds: dict[str, tuple[int, Link]] = {
        "tensor": (work.tensor, links.tensor),
        "context": (work.context, links.context),
        # Between domains each GPU sends a token's copies through its own NICs.
        "expert": (work.expert, links.expert._replace(ranks=1)),
        "pipeline": (work.pipeline, links.pipeline),
        "data": (work.data_ranks, links.data),
    }
    if work.shape.experts is not None:
        kinds["expert_data"] = (work.expert_replicas, links.expert_data)
    if 0 < work.shard_ranks < work.data_ranks:
        kinds["shard"] = (work.shard_ranks, links.data.of_part(work.shard_ranks, work.data_ranks))
    return {
        kind: {
            "ranks": ranks,
            "through": "nic" if link.network else "scale_up",
            "bytes_per_s": link.network or link.scale_up,
            "nics_together": link.ranks if link.network else None,
            "reached_bytes_per_s": rate(link, plan.machine.constants),
        }
        for kind, (ranks, link) in kinds.items()
        if ranks > 1
    }

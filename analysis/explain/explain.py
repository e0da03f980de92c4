"""The step of each job and its cost, its recovery, and the source of every number."""

from __future__ import annotations

import math
from dataclasses import fields
from math import ceil
from typing import TYPE_CHECKING, Any

from ettrick import sim
from ettrick.analysis.explain.services import describe_service
from ettrick.analysis.parts import FORMAT
from ettrick.analysis.results import explained
from ettrick.analysis.results.run import PARTS, describe_closed_form, describe_step, provenance, sizes, stores_of
from ettrick.sim import catalog, recovery_summary
from ettrick.sim.catalog import steps
from ettrick.sim.formulas.queues import gang_saturation
from ettrick.sim.scenario.laws import Exponential
from ettrick.sim.steps import Constants, Impairment, checkpoint_size, flop_per_token, stated_pace
from ettrick.sim.steps.memory import CHECKPOINT_BYTES
from ettrick.sim.steps.power import node_power
from ettrick.sim.steps.time import rate
from ettrick.sim.units import DAY, HOUR

if TYPE_CHECKING:
    from ettrick.analysis.results.ensemble import Ensemble
    from ettrick.sim import Prepared, PreparedJob, PreparedStream
    from ettrick.sim.scenario.model import JobSpec
    from ettrick.sim.steps import Accelerator, Link, ModelShape, StepPlan, Workload

# How each job recovers: observers, checkpoint stores, recovery strategies.

_SLOW = 0.9
"""Pace of the slow GPU among the degraded steps [-]."""

_NARROW = 0.5
"""The share of a node's NICs that the degraded steps keep [-]."""


def describe_recovery(prepared: Prepared, index: int) -> explained.Recovery:
    """Return what there is to say about detection, stores and recovery of a job."""
    scenario, job = prepared.scenario, prepared.jobs[index]
    name = scenario.recovery.use
    content = {
        **vars(recovery_summary(prepared, index)),
        "interruptions_per_day": DAY / job.mtti,
        "detection_mean_s": job.detection_mean,
        "stores": [_store(rung, job) for rung in stores_of(job)],
        "preset": _preset(name) if name in catalog.recoveries() else None,
        "scales": explained.Scales(
            detection=scenario.detection.scale, recovery=scenario.recovery.scale, repair=prepared.repair.scale
        ),
    }
    return explained.Recovery.model_validate(content, strict=False)


def _store(rung: Any, job: PreparedJob) -> explained.StoreSummary:
    live = rung.store == "peer"
    return explained.StoreSummary(
        store=rung.store,
        interval_s=None if live else rung.interval,
        period_s=None if live else rung.period(job.step_time),
        steps=None if live or not job.step_time else round(rung.period(job.step_time) / job.step_time),
        stall_s=rung.stall,
        durable_after_s=rung.drain,
        read_in_s=rung.load,
        fetched_in_s=rung.fetch,
        retain=rung.retain,
        unreadable=rung.corrupt,
        clique=rung.clique if rung.store == "peer-host" else None,
        every_replica=rung.every_replica,
    )


def _preset(name: str) -> explained.Preset:
    """Return who says the numbers of a preset, and what each rests on."""
    content = catalog.recovery(name)
    notes = [note.partition(": ") for note in content["notes"]]
    return explained.Preset(
        name=name,
        title=content["title"],
        source=content["source"],
        notes=[explained.Note(basis=basis, text=text) for basis, _, text in notes],
    )


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


def describe(prepared: Prepared, simulated: Ensemble | None = None, *, command: str = "") -> explained.ExplainDocument:
    """Return what there is to say about the jobs of a scenario.

    Parameters
    ----------
    simulated
        Its replications, if the closed form is to be compared with some.
    """
    errors = steps.fit()["errors"]
    price = prepared.scenario.cost.gpu_hour if prepared.scenario.cost is not None else None
    # As if there were no end of replications: whether machine code knows the scenario.
    reason = sim.why_events(prepared if simulated is None else simulated.prepared, _MANY) if prepared.jobs else ""
    return explained.ExplainDocument(
        format=FORMAT,
        scenario=prepared.name,
        description=prepared.scenario.description,
        seed=prepared.seed,
        jobs={job.name: _job(prepared, index) for index, job in enumerate(prepared.jobs)},
        fleet=_fleet(prepared) if prepared.streams else None,
        services={service.spec.name: describe_service(service, price) for service in sim.services_of(prepared)},
        fit=explained.Fit(steps=errors["rows"], mean_error=errors["mape"], unseen_source_error=errors["left_out"]),
        closed_form=describe_closed_form(prepared, simulated),
        assumptions=list(prepared.scenario.assumptions),
        warnings=list(prepared.warnings),
        provenance=provenance(
            command,
            prepared.scenario,
            engine=("events" if reason else "compiled") if prepared.jobs else "",
            engine_reason=reason,
        ),
    )


def _fleet(prepared: Prepared) -> explained.ExplainedFleet:
    """Return what streams ask of the cluster; named jobs hold theirs, and are not counted."""
    gpus = (prepared.nodes - sum(reserve.nodes for reserve in prepared.reserves.values())) * prepared.gpus_per_node
    streams = {stream.name: _stream(stream, gpus) for stream in prepared.streams}
    loads = [stream.offered_load for stream in streams.values() if stream.offered_load is not None]
    return explained.ExplainedFleet(
        streams=streams,
        offered_load=sum(loads) if len(loads) == len(streams) else None,
        saturation=_saturation(prepared, gpus),
    )


def _stream(stream: PreparedStream, gpus: int) -> explained.ExplainedStream:
    """Return what a stream asks of so many GPUs."""
    knows_work = math.isfinite(stream.mean_work)
    ends = [stream.saves[size].interval for size in (min(stream.gpus), max(stream.gpus))]
    return explained.ExplainedStream(
        jobs_per_day=None if stream.pending else stream.rate * DAY,
        gpus={str(size): share for size, share in sorted(stream.gpus.items())},
        mean_gpus=sum(size * share for size, share in stream.gpus.items()),
        mean_gpu_hours=stream.mean_work / HOUR if knows_work else None,
        offered_load=stream.rate * stream.mean_work / gpus if knows_work and not stream.pending else None,
        restart_s=stream.restart,
        detection_s=stream.detection,
        save_interval_s=[interval if math.isfinite(interval) else None for interval in ends],
    )


def _saturation(prepared: Prepared, gpus: int) -> float | None:
    """Return the occupancy that strict FIFO cannot exceed, of jobs of one size next to those of the whole cluster.

    The formula wants independent arrivals and exponential run times of one mean.
    """
    streams = prepared.scenario.streams
    works = [getattr(stream, "work", None) for stream in streams]
    if prepared.scheduler.head == "passes" or len(prepared.partitions) > 1 or len({*map(repr, works)}) > 1:
        return None
    if not isinstance(works[0], Exponential) or any(stream.pending for stream in prepared.streams):
        return None
    rates: dict[int, float] = {}
    for stream in prepared.streams:
        for size, share in stream.gpus.items():
            rates[size] = rates.get(size, 0.0) + stream.rate * share
    small, *larger = sorted(rates)
    if larger != [gpus] or gpus % small or (small > 1 and small % prepared.gpus_per_node):
        return None
    return gang_saturation(gpus // small, rates[small] / sum(rates.values()))[1]


def _execution(work: Workload, spec: JobSpec) -> dict[str, Any]:
    """Return how a step is executed: what is said of every step, and what the scenario states in addition to that."""
    execution = {name: getattr(work, name) for name in _EXECUTION}
    execution |= {"recompute": " ".join(work.modules) or work.recompute, "shard_ranks": work.shard_ranks or None}
    return execution | {"options": _options(spec)}


def _options(spec: JobSpec) -> dict[str, Any]:
    """Return what a scenario states of the execution of a step in addition to what is said of every step."""
    stated = spec.execution.model_dump(mode="json", exclude_defaults=True)
    options = {name: value for name, value in stated.items() if name not in (*_EXECUTION, "shard_ranks")}
    if spec.parallelism is not None and spec.parallelism.ulysses > 1:
        options["ulysses"] = spec.parallelism.ulysses
    if spec.lora is not None:
        options["LoRA"] = f"rank {spec.lora.rank} on {spec.lora.modules}"
    return options


_MANY = 10**9
"""So many replications that the start of an engine does not count [-]."""

_PLANNED = tuple(explained.PlannedJob.__annotations__)


def _job(prepared: Prepared, index: int) -> explained.ExplainedJob:
    job, spec = prepared.jobs[index], prepared.scenario.jobs[index]
    common: dict[str, Any] = {
        "gpus": job.gpus,
        "nodes": job.nodes,
        "lacks": spec.lacks,
        "step": describe_step(prepared, index),
        "calibration": _calibration(prepared, index),
        "tokens_per_s": job.tokens_per_second or None,
        "tokens_per_day": job.tokens_per_second * DAY or None,
        "power": _power(prepared, job),
        "pool_paces": list(job.pool_paces),
        "recovery": describe_recovery(prepared, index),
    }
    if job.plan is None:
        return explained.ExplainedJob(**common | dict.fromkeys(_PLANNED))
    plan, work, chip = job.plan, job.plan.work, job.plan.machine.chip
    return explained.PlannedJob(
        **common,
        parts=_parts(plan),
        utilisation=_utilisation(plan),
        model=_model(work.shape),
        accelerator=_accelerator(chip, work.precision),
        efficiencies=_efficiencies(plan),
        constants=_constants(plan),
        layout=explained.LayoutSummary(
            **sizes(work),
            sequence=work.sequence,
            sequences=work.sequences,
            tokens=work.sequence * work.sequences,
            microbatches=work.microbatches,
        ),
        execution=_execution(work, spec),
        groups=_groups(plan),
        memory_shares={name: part / chip.memory for name, part in plan.memory._asdict().items()}
        | {"total": plan.crowding},
        checkpoint=_checkpoint(work),
        degraded=_degraded(job, plan),
    )


def _checkpoint(work: Workload) -> explained.CheckpointSize:
    size = checkpoint_size(work.shape)
    per_gpu = size / work.gpus
    return explained.CheckpointSize(bytes=size, bytes_per_gpu=per_gpu, bytes_per_parameter=CHECKPOINT_BYTES)


def _model(shape: ModelShape) -> explained.ModelSummary:
    return explained.ModelSummary(
        title=shape.title,
        source=shape.source,
        parameters=shape.parameters,
        active_parameters=shape.active_parameters,
        has_experts=shape.experts is not None,
    )


def _accelerator(chip: Accelerator, precision: str) -> explained.AcceleratorSummary:
    return explained.AcceleratorSummary(
        title=chip.title,
        source=chip.source,
        generation=chip.generation,
        announced=chip.announced,
        precision=precision,
        peak_flop_per_s=chip.peak[precision],
        peak_16bit_flop_per_s=chip.peak["bf16"],
        memory_bytes=chip.memory,
        memory_bytes_per_s=chip.memory_bandwidth,
        host_bytes_per_s=chip.host,
        scale_up_bytes_per_s=chip.scale_up,
    )


def _calibration(prepared: Prepared, index: int) -> explained.CalibrationSummary | None:
    """Return the measured step that scales the model's, and what the model says of it [s]."""
    row, plan = prepared.scenario.jobs[index].calibration, prepared.jobs[index].plan
    if row is None or plan is None:
        return None
    return explained.CalibrationSummary(measured_s=row.step_time, modelled_s=row.step_time / plan.scale)


def _power(prepared: Prepared, job: PreparedJob) -> explained.JobPower | None:
    """Return what a node and all nodes of a stepping job draw [W]; ``None`` if it is not known."""
    facility = prepared.upkeep.facility
    if facility is None:
        return None
    node = facility.node
    drawn = job.nodes * node_power(node, 1.0)
    return explained.JobPower(
        node_idle_w=node.idle,
        node_training_w=node.training,
        job_w=drawn,
        joules_per_token=drawn / job.tokens_per_second if job.tokens_per_second else None,
        measured=node.measured,
        source=node.source,
    )


def _efficiencies(plan: StepPlan) -> dict[str, explained.PeakShare]:
    """Return the shares of the peaks that the step reaches [-], and what each rests on."""
    shares = plan.machine.shares
    attends = "fitted" if plan.machine.chip.generation in steps.fit()["attention"] else "assumed"
    # In steps narrower than 16 bits, which alone have products narrower than the logits', theirs is not fitted.
    logits = shares.basis if plan.work.precision == "bf16" else "assumed"
    return {
        "gemm": explained.PeakShare(share=shares.gemm, basis=shares.basis),
        "logits": explained.PeakShare(share=shares.logits, basis=logits),
        "attention": explained.PeakShare(share=shares.attention, basis=attends),
    }


def _constants(plan: StepPlan) -> dict[str, explained.Constant]:
    """Return the numbers of the step model that no data sheet gives, and whether steps or textbooks give them."""
    fitted = steps.fit()["constants"]
    return {
        entry.name: explained.Constant(
            value=getattr(plan.machine.constants, entry.name), basis="fitted" if entry.name in fitted else "textbook"
        )
        for entry in fields(Constants)
    }


def _groups(plan: StepPlan) -> dict[str, explained.GroupLink]:
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
        kind: explained.GroupLink(
            ranks=ranks,
            through="nic" if link.network else "scale_up",
            bytes_per_s=link.network or link.scale_up,
            nics_together=link.ranks if link.network else None,
            reached_bytes_per_s=rate(link, plan.machine.constants),
        )
        for kind, (ranks, link) in kinds.items()
        if ranks > 1
    }


def _parts(plan: StepPlan) -> dict[str, explained.StepPart]:
    """Return the terms of a step in their parts: seconds [s] and shares [-]."""
    parts = {}
    for part, names in PARTS.items():
        terms = {name: getattr(plan.breakdown, name) for name in names}
        total = sum(terms.values())
        parts[part] = explained.StepPart(
            time_s=total,
            share=total / plan.time,
            terms={name: explained.TermShare(time_s=time, share=time / plan.time) for name, time in terms.items()},
        )
    return parts


def _utilisation(plan: StepPlan) -> dict[str, explained.Utilisation]:
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
    conventions = {}
    for name, flop, attention in (("causal", causal, core), ("full", full, 2 * core)):
        again = work.whole_again * (flop / 3 - 2 * (1 + work.shape.depths) * work.shape.embedding)
        again += sum(share for module, share in _modules(work, attention).items() if module in work.again)
        conventions[name] = explained.Utilisation(
            flop_per_token=flop, recomputed_flop_per_token=again, mfu=flop * spent, hfu=(flop + again) * spent
        )
    return conventions


def _modules(work: Workload, attention: float) -> dict[str, float]:
    """Return the FLOP of a token, forward, in the modules that have products [FLOP]."""
    shape = work.shape
    flop = {
        "up_projection": 2 * shape.all_layers * shape.expanding,
        "attention": 0.0 if work.fused_attention else attention,
        "mlp": 2.0 * shape.dense_layers * shape.matrices * shape.hidden * shape.ffn,
    }
    if shape.experts is not None:
        flop["shared_experts"] = 2.0 * shape.expert_layers * shape.matrices * shape.hidden * shape.experts.shared
        flop["experts"] = 2 * shape.expert_layers * shape.experts.active * shape.expert
    return flop


def _degraded(job: PreparedJob, plan: StepPlan) -> dict[str, explained.Degraded]:
    """Return what a step costs when something is slow, narrow or missing: its time [s], and the pace of training [-].

    The pace counts tokens: with a smaller batch a step takes no longer, and trains on fewer.
    """
    work = plan.work
    states = {"slow_gpu": Impairment(compute=_SLOW), "narrow_nics": Impairment(network=_NARROW)}
    if work.data > 1:
        states["replica_missing_keep"] = Impairment(missing=1, keeps_batch=True)
        states["replica_missing_shrink"] = Impairment(missing=1)
    if work.tensor > 1:
        states["tensor_rank_missing"] = Impairment(tensor=work.tensor - 1)
    degraded = {}
    for name, state in states.items():
        pace, trained, basis = plan.pace(state), 1.0, "model"
        if state.missing and not state.keeps_batch:
            trained = ceil(work.sequences * (work.data - state.missing) / work.data) / work.sequences
        if job.communication is not None and (state.compute < 1 or state.network < 1):
            # A stated share of communication speaks for nodes and network: a run does not ask the step model.
            pace = stated_pace(job.communication, state.network, state.compute)
            basis = "communication"
        degraded[name] = explained.Degraded(
            time_s=plan.time / pace,
            pace=trained * pace,
            basis=basis,
            compute=state.compute,
            network=state.network,
            missing=state.missing,
            tensor=state.tensor or work.tensor,
        )
    return degraded

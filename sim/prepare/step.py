"""From a job to what its step costs: by the model of steps, by a measurement, or by both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sim import catalog
from sim import steps as perf
from sim.catalog import steps as steps_module
from sim.cluster import FatTree
from sim.failures.bundle import Bundle
from sim.prepare.parts import chip_of, known_chips
from sim.prepare.placement import links_elsewhere, links_of, placement
from sim.scenario.fields import PathError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.cluster import ClusterSpec, Topology
    from sim.engine.prepared import PreparedJob
    from sim.engine.state_jobs import Network
    from sim.failures import Source
    from sim.input.scenario import Scenario
    from sim.scenario.model import Batch, Execution, JobSpec, Parallelism
    from sim.steps import Accelerator, Links, Machine, ModelShape, StepPlan, Workload

_SLACK = 1.1

"""Memory over what a GPU has up to which a layout passes with a warning: such counts are some per cent off [-]."""

_LOW = 0.15

"""MFU below which a batch, a layout or a stated time is probably not what was meant [-]."""

_USEFUL = ("gemm", "attention", "logits")

"""Terms of a step that an MFU counts."""

_FIELD_OF = {
    "virtual": ("parallelism", "virtual_pipeline"),
    "microbatch": ("execution", "microbatch"),
    "shard_ranks": ("execution", "shard_ranks"),
}

"""Where the sizes of a workload stand in the description of a job, those of ``parallelism`` apart."""


class DoesNotFitError(PathError):
    """A job whose model does not fit into the memory of its GPUs."""


class JobStep(NamedTuple):
    """The step of a job.

    Parameters
    ----------
    time
        Time of a healthy step [s]; 0 when nothing tells it.
    mfu
        Model FLOP utilisation at the precision of the step [-], if model and time are known.
    plan
        What the model of steps says, scaled to `time`; ``None`` where it is not told enough.
    measured
        Whether `time` is a measurement of this very job.
    """

    time: float
    mfu: float | None
    plan: StepPlan | None
    measured: bool


def step_of(scenario: Scenario, index: int) -> JobStep:
    """Return what the step of a job costs.

    Raises
    ------
    PathError
        At an unknown model or accelerator, a layout that cannot be, or a time of nothing.
    """
    spec = scenario.jobs[index]
    for name in ("step_time", "mfu"):
        if getattr(spec, name) == 0:
            rule = "must be above zero" + (": with an MFU of 0 no step ever ends" if name == "mfu" else "")
            raise PathError(("jobs", index, name), rule)
    if spec.model is not None:
        shape_of(scenario, index)
    step = _step(scenario, index)
    _check_time(scenario, index, step)
    return step


def _check_time(scenario: Scenario, index: int, step: JobStep) -> None:
    """Refuse steps that take longer than there is time, or less than the peak allows."""
    spec = scenario.jobs[index]
    stated = next((name for name in ("step_time", "mfu", "calibration") if getattr(spec, name) is not None), None)
    path: tuple[str | int, ...] = ("jobs", index, stated) if stated is not None else ("jobs", index)
    if step.time > scenario.horizon:
        rule = f"a step takes {step.time:,.4g} s, and the horizon is {scenario.horizon:,.4g} s: none would ever end"
        raise PathError(path, rule)
    if step.mfu is not None and step.mfu > 1:
        rule = f"a step of {step.time:,.4g} s would use {100 * step.mfu:,.4g} % of the peak; more than all there is not"
        raise PathError(path, rule)


def _step(scenario: Scenario, index: int) -> JobStep:
    """Return what the step of a job costs, as it is stated or as the model of steps says."""
    spec = scenario.jobs[index]
    plan = _plan(scenario, index)
    time, flop = spec.step_time, _flop(scenario, index)
    if spec.mfu is not None:
        assert flop is not None, "an MFU comes with a model and a batch"
        time = perf.step_time_from_mfu(flop, spec.gpus, _peak(scenario, index), spec.mfu)
    if time is not None:
        if plan is not None:
            plan = replace(plan, scale=time / plan.time, sigma=0.0)
        mfu = spec.mfu
        if mfu is None and flop is not None:
            mfu = flop / (time * spec.gpus * _peak(scenario, index))
        return JobStep(time, mfu, plan, measured=True)
    if plan is None:
        return JobStep(0.0, None, None, measured=False)
    return JobStep(plan.time, plan.mfu, plan, measured=False)


def _flop(scenario: Scenario, index: int) -> float | None:
    """Return the model FLOP of a step [FLOP], if model and batch are known."""
    spec = scenario.jobs[index]
    if spec.model is None or spec.batch is None:
        return None
    return spec.batch.tokens * perf.flop_per_token(shape_of(scenario, index), spec.batch.sequence)


def shape_of(scenario: Scenario, index: int) -> ModelShape:
    """Return the model of a job.

    Raises
    ------
    PathError
        If the catalog does not have it.
    """
    model = scenario.jobs[index].model
    assert model is not None, "a job with a model"
    if not isinstance(model, str):
        return model.shape()
    shapes = catalog.models()
    if model not in shapes:
        raise PathError(("jobs", index, "model"), catalog.unknown("model", model, shapes))
    return shapes[model]


def _chip(scenario: Scenario, index: int) -> Accelerator:
    """Return the accelerator of the first pool of hosts."""
    return chip_of(scenario.cluster, 0, scenario.jobs[index].precision, index)


def _peak(scenario: Scenario, index: int) -> float:
    """Return the dense peak of the cluster's accelerator at the job's precision [FLOP/s]."""
    return _chip(scenario, index).peak[scenario.jobs[index].precision]


def workload_of(spec: JobSpec, shape: ModelShape, batch: Batch, layout: Parallelism, execution: Execution) -> Workload:
    """Return a job's step as the model of steps takes it."""
    return perf.Workload(
        shape=shape,
        sequence=batch.sequence,
        sequences=batch.tokens // batch.sequence,
        microbatch=execution.microbatch,
        tensor=layout.tensor,
        context=layout.context,
        pipeline=layout.pipeline,
        data=layout.data,
        expert=layout.expert,
        virtual=layout.virtual_pipeline,
        precision=spec.precision,
        schedule=execution.schedule,
        recompute=execution.recompute,
        sharding=execution.sharding,
        shard_ranks=execution.shard_ranks or 0,
        sequence_parallel=execution.sequence_parallel,
        fused_attention=execution.fused_attention,
        overlap_tensor=execution.overlap_tensor,
        overlap_data=execution.overlap_data,
        overlap_expert=execution.overlap_expert,
    )


def _plan(scenario: Scenario, index: int) -> StepPlan | None:
    """Return what the model of steps says of a job, if it is told enough."""
    spec = scenario.jobs[index]
    if spec.model is None or spec.batch is None or spec.parallelism is None:
        return None
    shape = shape_of(scenario, index)
    work = workload_of(spec, shape, spec.batch, spec.parallelism, spec.execution)
    for size, rule in perf.problems(work):
        if spec.step_time is not None or spec.mfu is not None:
            # A measured step needs no plan; its stack has its own ways with what ours cannot.
            return None
        raise PathError(("jobs", index, *_FIELD_OF.get(size, ("parallelism", size))), rule)
    place = placement(scenario, index)
    if place is None:
        return None
    machine = machine_of(scenario, index, links_of(scenario, place, _chip(scenario, index)))
    plan = perf.StepPlan(work, machine, sigma=machine.shares.sigma)
    return _calibrated(scenario, index, plan) if spec.calibration is not None else plan


def _calibrated(scenario: Scenario, index: int, plan: StepPlan) -> StepPlan:
    """Return a plan scaled by what a measured step took over what the model of steps says of it."""
    spec = scenario.jobs[index]
    row = spec.calibration
    assert row is not None, "a job with a calibration"
    assert spec.batch is not None, "a planned job has a batch"
    assert spec.parallelism is not None, "a planned job has a layout"
    layout = row.parallelism or spec.parallelism
    work = workload_of(spec, plan.work.shape, row.batch or spec.batch, layout, row.execution or spec.execution)
    for size, rule in perf.problems(work):
        raise PathError(("jobs", index, "calibration", *_FIELD_OF.get(size, ("parallelism", size))), rule)
    links = plan.machine.links
    if row.parallelism is not None:
        links = links_elsewhere(scenario, index, row.parallelism, work, plan.machine.chip)
    modelled = perf.StepPlan(work, replace(plan.machine, links=links)).time
    sigma = steps_module.calibrated_sigma(plan.machine.shares, experts=work.shape.experts is not None)
    return replace(plan, scale=row.step_time / modelled, sigma=sigma)


def machine_of(scenario: Scenario, index: int, links: Links) -> Machine:
    """Return what a job runs on."""
    spec = scenario.jobs[index]
    chip = _chip(scenario, index)
    shares = steps_module.efficiencies(chip, spec.precision, experts=shape_of(scenario, index).experts is not None)
    return perf.Machine(chip, shares, links, steps_module.constants())


def check_memory(scenario: Scenario, jobs: Sequence[PreparedJob]) -> None:
    """Refuse jobs whose step is modelled and whose GPUs cannot hold what it needs.

    Raises
    ------
    DoesNotFitError
        At the first one.
    """
    for index, job in enumerate(jobs):
        if job.plan is not None and not job.is_measured and job.plan.crowding > _SLACK:
            lack = _lack_of_memory(scenario, job.plan.work, job.plan.machine.chip)
            raise DoesNotFitError(("jobs", index, "parallelism"), f"job '{job.name}' does not fit: {lack}")


def _lack_of_memory(scenario: Scenario, work: Workload, chip: Accelerator) -> str:
    """Return in one line how much is missing, of what most is needed, and what would help."""
    cluster = scenario.cluster
    use, memory = perf.memory_use(work), chip.memory
    largest = sorted(zip(use._fields, use, strict=True), key=lambda part: -part[1])[:2]
    parts = ", ".join(f"{name} {size / 1e9:,.1f} GB" for name, size in largest)
    helps = perf.remedies(work, memory, cluster.nodes_per_domain * cluster.hosts.gpus)
    hint = f"it would with {' or '.join(helps[:3])}" if helps else "no single change of layout would help"
    return f"{use.total / 1e9:,.1f} GB on GPUs of {memory / 1e9:,.0f} GB ({parts}); {hint}"


def step_warnings(scenario: Scenario, index: int, job: PreparedJob, slow: list[str]) -> list[str]:
    """Return what to know about the time of a step, one line each.

    Parameters
    ----------
    slow
        Names of the failure sources that slow nodes down.
    """
    spec = scenario.jobs[index]
    found = [f"job '{spec.name}': {line}" for line in (*_of_no_layout(scenario, index, job), *_low_mfu(job))]
    if job.is_measured and slow:
        what = "mfu" if spec.mfu is not None else "step_time"
        found.append(
            f"job '{spec.name}': a measured {what} holds what slow nodes cost; {', '.join(slow)} would count it twice"
        )
    if job.step_time == 0 and spec.model is not None:
        found.append(f"job '{spec.name}': no time of a step; the model of steps would give it, but lacks {spec.lacks}")
    if job.plan is not None and not job.is_measured:
        shares = job.plan.machine.shares
        chip = job.plan.machine.chip
        low, high = job.plan.band90
        if shares.basis != "fitted" and spec.calibration is None:
            what = "announced or stated numbers" if chip.announced else f"data sheets and assumptions ({shares.basis})"
            found.append(
                f"job '{spec.name}': steps of {chip.title} at {spec.precision} have not been measured: that of "
                f"{job.step_time:,.3g} s rests on {what} and may take {low:,.3g} to {high:,.3g} s"
            )
        if job.plan.is_far:
            found.append(
                f"job '{spec.name}': the calibration is {job.plan.scale:,.3g} times what the model of steps says: "
                "another step was measured, or it was executed in another way"
            )
        if 1 < job.plan.crowding <= _SLACK:
            need, memory = job.plan.memory.total / 1e9, chip.memory / 1e9
            found.append(
                f"job '{spec.name}': by our count it needs {need:,.1f} GB on GPUs of {memory:,.0f} GB: it may not fit"
            )
    return found


def _of_no_layout(scenario: Scenario, index: int, job: PreparedJob) -> list[str]:
    """Return that a stated time of a step is of a layout that cannot be, with what the model of steps says of that."""
    spec = scenario.jobs[index]
    chips = known_chips(scenario.cluster)
    if not job.is_measured or spec.model is None or spec.batch is None or spec.parallelism is None or chips is None:
        return []
    work = workload_of(spec, shape_of(scenario, index), spec.batch, spec.parallelism, spec.execution)
    found = [rule for _, rule in perf.problems(work)]
    plain = replace(work, virtual=1)  # what is wrong with its pieces says nothing of the memory of a stage
    if not perf.problems(plain) and perf.memory_use(plain).total > _SLACK * chips[0].memory:
        found.append(f"it does not fit: {_lack_of_memory(scenario, plain, chips[0])}")
    what = "mfu" if spec.mfu is not None else "step_time"
    return [f"the stated {what} is kept for a layout that the model of steps rules out: {rule}" for rule in found]


def _low_mfu(job: PreparedJob) -> list[str]:
    """Return that a job makes little of its GPUs, and what the model of steps says of that."""
    if job.mfu is None or job.mfu >= _LOW:
        return []
    line = f"an MFU of {100 * job.mfu:.2g} % is low"
    if job.is_measured:
        return [
            line + (f"; the model of steps says {100 * replace(job.plan, scale=1.0).mfu:.2g} %" if job.plan else "")
        ]
    assert job.plan is not None, "what is not stated is modelled"
    terms = job.plan.breakdown._asdict()
    lost = max((name for name in terms if name not in _USEFUL), key=terms.__getitem__)
    what = f"{lost} groups" if lost in ("tensor", "context", "expert", "pipeline", "data") else lost
    share, each = 100 * terms[lost] / job.plan.time, job.tokens / job.gpus
    return [
        f"{line}: a GPU has {each:,.0f} tokens of a step, and {share:.0f} % of the time is {what} (ettrick explain)"
    ]


# ----------------------------------------
# From a cluster to what the engine knows of its network and its pools of hosts.

_NETWORK = ("network", "nic", "cable", "optic", "link", "switch")

"""Words in the names of causes that are the network's."""


def needs_network(scenario: Scenario, sources: tuple[Source, ...]) -> bool:
    """Return whether it makes a difference where in the network jobs sit."""
    cluster = scenario.cluster
    if any(source.of_fabric for source in sources) or len(cluster.all_pools) > 1:
        return True
    worst = min(cluster.fabric.bandwidth(cluster.hosts).values())
    return any(
        job.may_wait and worst < planned_bandwidth(cluster, job.gpus // cluster.hosts.gpus) for job in scenario.jobs
    )


def network_of(scenario: Scenario, topology: Topology, sources: tuple[Source, ...]) -> Network:
    """Return what the engine knows of the fabric; the cables only if one of its parts can fail."""
    from sim.engine.state_jobs import Network

    cluster = scenario.cluster
    paths = topology.paths if any(source.of_fabric for source in sources) else None
    classes = topology.domains["leaf"] if paths is None else paths.class_of_node
    pods = np.zeros(int(classes.max()) + 1, dtype=np.int32)
    pods[classes] = topology.domains["pod"]
    pools = np.repeat(np.arange(len(cluster.all_pools)), [pool.count for pool in cluster.all_pools])
    return Network(classes.tolist(), pods, pools.tolist(), dict(topology.bandwidth), paths)


def planned_bandwidth(cluster: ClusterSpec, nodes: int) -> float:
    """Return what a NIC of a job gets when it sits as closely together as it can [B/s]."""
    bandwidth: dict[str, float] = cluster.fabric.bandwidth(cluster.hosts)
    domains = cluster.fabric.domains(cluster.hosts)
    for level in ("leaf", "pod"):
        if nodes <= np.bincount(domains[level]).max():
            return bandwidth[level]
    return bandwidth["cluster"]


def pool_paces(scenario: Scenario, job: JobSpec, plan: StepPlan | None = None) -> tuple[float, ...]:
    """Return the pace of a job on the nodes of each pool of hosts, relative to the first [-].

    As the model of steps says of its layout, or else as their dense peaks.

    Raises
    ------
    PathError
        If the catalog does not know one of several accelerators, or its peak at the job's precision.
    """
    cluster = scenario.cluster
    pools = cluster.all_pools
    if len(pools) == 1:
        return (1.0,)
    chips = [chip_of(cluster, index, job.precision) for index in range(len(pools))]
    if plan is not None:
        return tuple(plan.time / _on(plan, chip).time for chip in chips)
    peaks = [chip.peak[job.precision] for chip in chips]
    return tuple(peak / peaks[0] for peak in peaks)


def _on(plan: StepPlan, chip: Accelerator) -> StepPlan:
    """Return a plan on another accelerator, whose groups wait for its scale-up links where those are narrower."""
    work = plan.work
    links = plan.machine.links.with_scale_up(min(1.0, chip.scale_up / plan.machine.chip.scale_up))
    shares = steps_module.efficiencies(chip, work.precision, experts=work.shape.experts is not None)
    return replace(plan, machine=replace(plan.machine, chip=chip, shares=shares, links=links))


def relative_capacity(scenario: Scenario) -> float:
    """Return the mean peak of the cluster's GPUs, relative to that of the first pool, at the first job's precision [-].

    Raises
    ------
    PathError
        As `pool_paces`.
    """
    cluster = scenario.cluster
    paces = pool_paces(scenario, scenario.jobs[0])
    total: float = sum(pool.count * pace for pool, pace in zip(cluster.all_pools, paces, strict=True))
    return total / float(cluster.hosts.nodes)


def fabric_warnings(scenario: Scenario) -> tuple[str, ...]:
    """Return a line for a fabric that was chosen and is larger than usual, or for each bundle that leaves one out.

    The latter are bundles whose network faults strike nodes, where the cables could spare those.
    """
    cluster = scenario.cluster
    if isinstance(cluster.fabric, FatTree) and not cluster.states_fabric and cluster.fabric != FatTree():
        return (f"cluster.fabric is not stated: {cluster.hosts.nodes:,} nodes get a {cluster.fabric.title}",)
    if cluster.fabric.reroute == "none" and cluster.fabric.homes == 1:
        return ()
    found = []
    for index, source in enumerate(scenario.failures):
        if not isinstance(source, Bundle):
            continue
        causes = [name for name in catalog.causes(source.use) if any(word in name for word in _NETWORK)]
        if causes:
            found.append(
                f"failures.{index}: '{source.use}' counts {', '.join(causes)} as faults of nodes, which second cables "
                "and rerouting do not spare; scale them down and add sources of nic, cable_node_leaf and leaf"
            )
    return tuple(found)

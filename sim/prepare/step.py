"""From a job to what its step costs: by the step-time model, by a measurement, or by both."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ettrick.sim import catalog, steps
from ettrick.sim.catalog.steps import calibrated_sigma, constants, efficiencies, of_software, widened
from ettrick.sim.prepare.placement import chip_of
from ettrick.sim.scenario.fields import PathError
from ettrick.sim.scenario.model import Execution, Parallelism, Work
from ettrick.sim.steps import Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ettrick.sim.cluster import ClusterSpec
    from ettrick.sim.engine.prepared import Prepared, PreparedJob
    from ettrick.sim.prepare.placement import EmptyCluster
    from ettrick.sim.scenario.model import AnySoftware, Calibration, GlobalBatch, JobSpec, ModelSpec
    from ettrick.sim.steps import Accelerator, Links, Machine, ModelShape, StepPlan

SLACK = 1.1

"""Memory over what a GPU has up to which a layout passes with a warning: such counts are some per cent off [-]."""

_LOW = 0.15

"""MFU below which a batch, a layout or a stated time is probably not what was meant [-]."""

_USEFUL = ("gemm", "attention", "logits")

"""Terms of a step that an MFU counts."""

_FIELD_OF = {
    "virtual": ("parallelism", "virtual_pipeline"),
    "microbatch": ("execution", "microbatch"),
    "shard_ranks": ("execution", "shard_ranks"),
    "offload_layers": ("execution", "offload_layers"),
    "recompute_layers": ("execution", "recompute_layers"),
    "expert_load": ("execution", "expert_imbalance"),
    "first_layers": ("parallelism", "first_stage_layers"),
    "last_layers": ("parallelism", "last_stage_layers"),
}

"""The keys of the sizes of a workload in the description of a job, those of ``parallelism`` apart."""


_OF_LAYOUT, _OF_EXECUTION = (
    Workload.__dataclass_fields__.keys() & kind.model_fields.keys() for kind in (Parallelism, Execution)
)

"""The fields of a workload that the layout and the execution of a job have under the same name."""


class DoesNotFitError(PathError):
    """A job whose model does not fit into the memory of its GPUs."""


class JobStep(NamedTuple):
    """The step of a job.

    Parameters
    ----------
    time
        Time of a healthy step [s]; 0 where it is unknown.
    mfu
        Model FLOP utilisation at the precision of the step [-], if model and time are known.
    plan
        What the step-time model says, scaled to `time`; ``None`` where it lacks inputs.
    measured
        Whether `time` is a measurement of this very job.
    """

    time: float
    mfu: float | None
    plan: StepPlan | None
    measured: bool


def shape_of(model: str | ModelSpec, path: tuple[str | int, ...]) -> ModelShape:
    """Return the shape of a model that a path names, or describes.

    Raises
    ------
    PathError
        If the catalog does not have it.
    """
    if not isinstance(model, str):
        return model.shape()
    shapes = catalog.models()
    if model not in shapes:
        raise PathError(path, catalog.unknown("model", model, shapes))
    return shapes[model]


@dataclass(frozen=True)
class PlacedJob:
    """A job on its cluster: each fact that its step follows from, worked out once, when it is first asked for.

    `index` is its number in the scenario, for complaints; `kind` the list that it is in.
    """

    site: EmptyCluster
    spec: JobSpec
    index: int
    kind: str = "jobs"

    @cached_property
    def shape(self) -> ModelShape | None:
        """The model, if there is one.

        Raises
        ------
        PathError
            If the catalog does not have it.
        """
        model, lora = self.spec.model, self.spec.lora
        if model is None:
            return None
        shape = shape_of(model, ("jobs", self.index, "model"))
        return shape if lora is None else replace(shape, lora=lora.rank, lora_everywhere=lora.modules == "all")

    @cached_property
    def chip(self) -> Accelerator:
        """The accelerator of the pool of hosts on which it starts; mistakes as those of `chip_of`."""
        return chip_of(self.site.cluster, self.home, self.spec.precision, self.index)

    @cached_property
    def home(self) -> int:
        """The pool of hosts on which it starts."""
        return self.site.home(self.kind, self.index)

    @property
    def peak(self) -> float:
        """Dense peak of a GPU at the job's precision [FLOP/s]."""
        return self.chip.peak[self.spec.precision]

    @cached_property
    def flop(self) -> float | None:
        """Model FLOP of a step [FLOP], if model and batch are known."""
        if self.shape is None or self.spec.batch is None:
            return None
        return self.spec.batch.tokens * steps.flop_per_token(self.shape, self.spec.batch.sequence)

    @cached_property
    def work(self) -> Workload | None:
        """The step as the step-time model takes it, if it has its inputs."""
        shape, batch, layout = self.shape, self.spec.batch, self.spec.parallelism
        if shape is None or batch is None or layout is None:
            return None
        return self.workload(shape, batch, layout, self.spec.execution)

    def workload(self, shape: ModelShape, batch: GlobalBatch, layout: Parallelism, execution: Execution) -> Workload:
        """Return the step of a model with a batch, layout and execution."""
        recompute = execution.recompute
        modules = recompute if isinstance(recompute, tuple) else ()
        alike = {
            name: getattr(part, name)
            for part, names in ((layout, _OF_LAYOUT), (execution, _OF_EXECUTION))
            for name in names
        }
        return replace(
            steps.Workload(shape, batch.sequence, batch.tokens // batch.sequence, **alike),
            virtual=layout.virtual_pipeline,
            precision=self.spec.precision,
            recompute=recompute if isinstance(recompute, str) else "selective" if modules else "none",
            modules=modules,
            recompute_layers=execution.recompute_layers or 0,
            shard_ranks=execution.shard_ranks or 0,
            expert_load=execution.expert_capacity or execution.expert_imbalance,
            first_layers=layout.first_stage_layers or 0,
            last_layers=layout.last_stage_layers or 0,
            moments=execution.optimizer_state,
        )

    def machine(self, shape: ModelShape, links: Links) -> Machine:
        """Return what the job runs on with a model, and with what its groups communicate over."""
        shares = efficiencies(
            self.chip, self.spec.precision, experts=shape.experts is not None, states=shape.mixer is not None
        )
        if self.spec.software is not None:
            shares = of_software(shares, self.spec.precision, *self._kernels(self.spec.software))
        return steps.Machine(self.chip, shares, links, constants())

    def _kernels(self, software: AnySoftware) -> tuple[float | None, float | None]:
        """Return the shares of the peak that matrix products and attention reach alone [-].

        Raises
        ------
        PathError
            If the catalog does not have the software, or nobody has measured it on this generation.
        """
        if not isinstance(software, str):
            return software.gemm, software.attention
        table, at = catalog.software(), ("jobs", self.index, "software")
        if software not in table:
            raise PathError(at, catalog.unknown("software", software, table))
        shares, generation = table[software]["attention"], self.chip.generation
        if generation not in shares:
            rule = f"{software} is published on {' and '.join(shares)}, not on {generation}; state the shares instead"
            raise PathError(at, rule)
        return None, float(shares[generation])

    @cached_property
    def plan(self) -> StepPlan | None:
        """The result of the step-time model, if it has its inputs.

        Raises
        ------
        PathError
            At a layout that cannot be.
        """
        work, spec = self.work, self.spec
        if work is None:
            return None
        for size, rule in steps.problems(work):
            if spec.step_time is not None or spec.mfu is not None:
                # A measured step needs no plan; its stack has its own ways with what ours cannot.
                return None
            raise PathError(("jobs", self.index, *_FIELD_OF.get(size, ("parallelism", size))), rule)
        place = self.site.place(spec.parallelism)
        if place is None:
            return None
        machine = self.machine(work.shape, self.site.links(place, self.chip, work.ulysses))
        plan = steps.StepPlan(work, machine, sigma=widened(machine.shares.sigma, work.gpus))
        if spec.calibration is None or spec.batch is None or spec.parallelism is None:
            return plan
        return self._calibrated(plan, spec.calibration, spec.batch, spec.parallelism)

    def _calibrated(self, plan: StepPlan, row: Calibration, batch: GlobalBatch, layout: Parallelism) -> StepPlan:
        """Return a plan scaled by what a measured step took over what the step-time model says of it."""
        layout = row.parallelism or layout
        work = self.workload(plan.work.shape, row.batch or batch, layout, row.execution or self.spec.execution)
        for size, rule in steps.problems(work):
            raise PathError(("jobs", self.index, "calibration", *_FIELD_OF.get(size, ("parallelism", size))), rule)
        links = plan.machine.links
        if row.parallelism is not None:
            # Where the measured layout would sit here, if the cluster has room.
            place = self.site.place(layout) if layout.gpus <= self.site.room * self.site.gpus_per_node else None
            ideal = self.site.ideal_links(work, layout, self.chip)
            links = self.site.links(place, self.chip, layout.ulysses) if place is not None else ideal
        modelled = steps.StepPlan(work, replace(plan.machine, links=links)).time
        sigma = calibrated_sigma(plan.machine.shares, experts=work.shape.experts is not None)
        return replace(plan, scale=row.step_time / modelled, sigma=sigma)

    def step(self, longest: float) -> JobStep:
        """Return what a step costs, as it is stated or as the step-time model says; `longest` is the horizon [s].

        Raises
        ------
        PathError
            At an unknown model or accelerator, a layout that cannot be, a time of nothing, one that is longer than
            there is time, or shorter than the peak allows.
        """
        spec = self.spec
        path: tuple[str | int, ...] = ("jobs", self.index)
        for name in ("step_time", "mfu"):
            if getattr(spec, name) == 0:
                rule = "must be above zero" + (": with an MFU of 0 no step ever ends" if name == "mfu" else "")
                raise PathError((*path, name), rule)
        step = self._step()
        stated = [name for name in ("step_time", "mfu", "calibration") if getattr(spec, name) is not None]
        at = (*path, *stated[:1])
        if step.time > longest:
            rule = f"a step takes {step.time:,.4g} s, and the horizon is {longest:,.4g} s: none would ever end"
            raise PathError(at, rule)
        if step.mfu is not None and step.mfu > 1:
            used = f"{100 * step.mfu:,.4g} %"
            rule = f"a step of {step.time:,.4g} s would use {used} of the peak; more than all there is not"
            raise PathError(at, rule)
        return step

    def _step(self) -> JobStep:
        spec, flop, plan, time = self.spec, self.flop, self.plan, self.spec.step_time
        if spec.mfu is not None and flop is not None:  # an MFU comes with a model and a batch
            time = steps.step_time_from_mfu(flop, spec.gpus, self.peak, spec.mfu)
        if time is not None:
            if plan is not None:
                plan = replace(plan, scale=time / plan.time, sigma=0.0)
            mfu = flop / (time * spec.gpus * self.peak) if spec.mfu is None and flop is not None else spec.mfu
            return JobStep(time, mfu, plan, measured=True)
        if plan is None:
            return JobStep(0.0, None, None, measured=False)
        return JobStep(plan.time, plan.mfu, plan, measured=False)


def check_memory(prepared: Prepared) -> None:
    """Refuse jobs whose step is modelled and whose GPUs cannot hold what it needs.

    Raises
    ------
    DoesNotFitError
        At the first one.
    """
    for index, job in enumerate(prepared.jobs):
        if job.plan is not None and not job.is_measured and job.plan.crowding > SLACK:
            lack = _lack_of_memory(job.plan.work, job.plan.machine.chip, prepared.scenario.cluster)
            raise DoesNotFitError(("jobs", index, "parallelism"), f"job '{job.name}' does not fit: {lack}")


def _lack_of_memory(work: Workload, chip: Accelerator, cluster: ClusterSpec) -> str:
    """Return in one line how much is missing, of what most is needed, and what would help."""
    use, memory = steps.memory_use(work), chip.memory
    largest = sorted(zip(use._fields, use, strict=True), key=lambda part: -part[1])[:2]
    parts = ", ".join(f"{name} {size / 1e9:,.1f} GB" for name, size in largest)
    helps = steps.remedies(work, memory, cluster.nodes_per_domain * cluster.hosts.gpus)
    hint = f"it would with {' or '.join(helps[:3])}" if helps else "no single change of layout would help"
    return f"{use.total / 1e9:,.1f} GB on GPUs of {memory / 1e9:,.0f} GB ({parts}); {hint}"


def step_warnings(case: PlacedJob, job: PreparedJob, slow: Iterable[str]) -> list[str]:
    """Return what to know about the time of a step, one line each; `slow` names the sources that slow nodes down."""
    spec, plan, names = case.spec, job.plan, ", ".join(slow)
    what = "mfu" if spec.mfu is not None else "step_time"
    opening = f"the stated {what} is kept for a layout that the step-time model rules out"
    warnings = [*(f"{opening}: {rule}" for rule in _broken(case)), *_low_mfu(job)]
    if job.is_measured and names:
        warnings.append(f"a measured {what} holds what slow nodes cost; {names} would count it twice")
    if job.step_time == 0 and spec.model is not None:
        warnings.append(f"no time of a step; the step-time model would give it, but lacks {spec.lacks}")
    if plan is not None:
        warnings += _plan_warnings(spec, job, plan)
    return [f"job '{spec.name}': {line}" for line in warnings]


def _plan_warnings(spec: JobSpec, job: PreparedJob, plan: StepPlan) -> Iterator[str]:
    """Yield what to know about a step that is modelled."""
    if plan.work.shape.recurrent and plan.work.shape.mixer is None:
        yield (
            f"{plan.work.shape.recurrent} layers with linear attention have the matrices of attention; model.mixer "
            "states those of gated DeltaNet or state spaces"
        )
    if job.is_measured:
        return
    chip, shares, (low, high) = plan.machine.chip, plan.machine.shares, plan.band90
    if shares.basis != "fitted" and spec.calibration is None:
        basis = "announced or stated numbers" if chip.announced else f"data sheets and assumptions ({shares.basis})"
        yield (
            f"steps of {chip.title} at {spec.precision} have not been measured: that of {job.step_time:,.3g} s "
            f"rests on {basis} and may take {low:,.3g} to {high:,.3g} s"
        )
    if plan.is_far:
        yield (
            f"the calibration is {plan.scale:,.3g} times what the step-time model says: another step was measured, "
            "or it was executed in another way"
        )
    if 1 < plan.crowding <= SLACK:
        need, memory = plan.memory.total / 1e9, chip.memory / 1e9
        yield f"by our count it needs {need:,.1f} GB on GPUs of {memory:,.0f} GB: it may not fit"


def _broken(case: PlacedJob) -> list[str]:
    """Return what the step-time model has against the layout of a job whose step is stated."""
    work, chips = case.work, case.site.chips
    if (case.spec.step_time is None and case.spec.mfu is None) or work is None or chips is None:
        return []
    rules = [rule for _, rule in steps.problems(work)]
    plain = replace(work, virtual=1)  # what is wrong with its pieces says nothing of the memory of a stage
    if not steps.problems(plain) and steps.memory_use(plain).total > SLACK * chips[case.home].memory:
        rules.append(f"it does not fit: {_lack_of_memory(plain, chips[case.home], case.site.cluster)}")
    return rules


def _low_mfu(job: PreparedJob) -> list[str]:
    """Return that a job makes little of its GPUs, and what the step-time model says of that."""
    if job.mfu is None or job.mfu >= _LOW:
        return []
    line = f"an MFU of {100 * job.mfu:.2g} % is low"
    if job.plan is None:
        return [line]
    if job.is_measured:
        return [f"{line}; the step-time model says {100 * replace(job.plan, scale=1.0).mfu:.2g} %"]
    terms = job.plan.breakdown._asdict()
    lost = max((name for name in terms if name not in _USEFUL), key=terms.__getitem__)
    what = f"{lost} groups" if lost in ("tensor", "context", "expert", "pipeline", "data") else lost
    share, tokens = 100 * terms[lost] / job.plan.time, job.tokens / job.gpus
    return [
        f"{line}: a GPU has {tokens:,.0f} tokens of a step, and {share:.0f} % of the time is {what} (ettrick explain)"
    ]


def pool_paces(
    cluster: ClusterSpec, precision: str, plan: StepPlan | None = None, home: int = 0, reach: list[int] | None = None
) -> tuple[float, ...]:
    """Return the pace of a job on the nodes of each pool of hosts, relative to that on which it starts [-].

    As the step-time model says of its layout, or else as their dense peaks; 1 for pools out of its `reach`.

    Raises
    ------
    PathError
        If the catalog does not know one of several accelerators, or its peak at the job's precision.
    """
    pools = len(cluster.all_pools)
    if pools == 1:
        return (1.0,)
    chips = {index: chip_of(cluster, index, precision) for index in (range(pools) if reach is None else reach)}
    if plan is not None:
        paces = {index: plan.time / _on(plan, chip).time for index, chip in chips.items()}
    else:
        paces = {index: chip.peak[precision] / chips[home].peak[precision] for index, chip in chips.items()}
    return tuple(paces.get(index, 1.0) for index in range(pools))


def _on(plan: StepPlan, chip: Accelerator) -> StepPlan:
    """Return a plan on another accelerator, whose groups wait for its scale-up links where those are narrower."""
    work = plan.work
    links = plan.machine.links.with_scale_up(min(1.0, chip.scale_up / plan.machine.chip.scale_up))
    shape = work.shape
    shares = efficiencies(chip, work.precision, experts=shape.experts is not None, states=shape.mixer is not None)
    return replace(plan, machine=replace(plan.machine, chip=chip, shares=shares, links=links))


def relative_capacity(cluster: ClusterSpec, precision: str) -> float:
    """Return the mean peak of the cluster's GPUs, relative to that of the first pool, at a precision [-].

    Raises
    ------
    PathError
        As `pool_paces`.
    """
    paces = pool_paces(cluster, precision)
    total = sum(pool.count * pace for pool, pace in zip(cluster.all_pools, paces, strict=True))
    return total / float(cluster.hosts.nodes)


def work_time(spec: JobSpec, step_time: float) -> float:
    """Return how long the work of a job takes without any loss [s]; infinite for a job that never ends."""
    work = spec.work
    if isinstance(work, Work):
        if work.time is not None:
            return work.time
        if work.steps is not None:
            return work.steps * step_time
        if work.tokens is not None and spec.batch is not None:
            return work.tokens / spec.batch.tokens * step_time
    return math.inf

"""Other layouts of a job on its cluster: what their steps take, and what failures leave of that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ettrick.sim import catalog
from ettrick.sim.catalog import steps
from ettrick.sim.closed_form.renewal import job_shares
from ettrick.sim.policies.recovery import Redundant, RestartSmaller, ShrinkRejoin
from ettrick.sim.prepare.placement import EmptyCluster, LruCache, layout_of, whole_units
from ettrick.sim.prepare.prepare import checkpoint_of, examine
from ettrick.sim.prepare.step import SLACK, PlacedJob
from ettrick.sim.scenario.model import Parallelism
from ettrick.sim.steps import StepPlan, ideal_links
from ettrick.sim.steps.memory import memory_use
from ettrick.sim.steps.plan import Bounds, groupings, layouts, smallest
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ettrick.sim.engine.prepared import Prepared, PreparedJob
    from ettrick.sim.input.scenario import Scenario
    from ettrick.sim.scenario.model import JobSpec
    from ettrick.sim.steps import Links, Workload
    from ettrick.sim.steps.time import Machine
    from ettrick.sim.steps.workload import Sharding

# Why a job has no layout on a number of GPUs, and which numbers and sizes are closest to having one.

_FARTHEST = 4096

"""Nodes on either side among which the nearest number of GPUs that can be laid out is looked for [-]."""


_SIZES = 100_000

"""Sizes of groups of which a search knows who leaves together [-]."""


class NoLayoutError(ValueError):
    """A number of GPUs on which no layout of a job is possible."""


def why_none(name: str, base: Workload, bounds: Bounds, node: int, most: int, fewest: int) -> str:
    """Return in one line why a job has no layout at all, and what is closest.

    Parameters
    ----------
    name, base, bounds
        The job, its step, and where layouts were looked for.
    node, most
        GPUs of a node and of the cluster [-].
    fewest
        Sets of replicas that the recovery needs at least [-].
    """
    work = smallest(base, bounds)
    if work is None:
        near = " or ".join(f"{count:,}" for count in _near(base, bounds, node, most))
        wanted = f"{bounds.gpus:,} GPUs, {base.shape.layers} layers and {base.sequences:,} sequences"
        return f"job '{name}': no sizes of groups divide {wanted}" + (f"; nearest: {near}" if near else "")
    need = memory_use(work).total
    if need <= bounds.memory:
        return (
            f"job '{name}': no layout of {bounds.gpus:,} GPUs that fits leaves the {fewest} sets of replicas of "
            "recovery.min_replicas and keeps parallelism.within_domain"
        )
    sizes = ", ".join(f"{size} {getattr(work, size)}" for size in ("tensor", "context", "pipeline", "data"))
    helps = []
    if "parameters" not in bounds.shardings and _fits(base, bounds._replace(shardings=("parameters",))):
        helps.append("parameters divided among replicas")
    more = (bounds.gpus * 2**times for times in range(1, 8))
    enough = next((gpus for gpus in more if gpus <= most and _fits(base, bounds._replace(gpus=gpus))), None)
    helps += [f"{enough:,} GPUs"] if enough is not None else []
    return (
        f"job '{name}': no layout of {bounds.gpus:,} GPUs fits: the smallest needs {need / 1e9:,.1f} GB on GPUs of "
        f"{bounds.memory / 1e9:,.0f} GB ({sizes}, recompute full)"
        + (f"; it fits with {' or '.join(helps)}" if helps else "")
    )


def _fits(base: Workload, bounds: Bounds) -> bool:
    """Return whether any layout fits."""
    work = smallest(base, bounds)
    return work is not None and memory_use(work).total <= bounds.memory


def _near(base: Workload, bounds: Bounds, node: int, most: int) -> list[int]:
    """Return the nearest numbers of GPUs that sizes of groups divide, one on each side."""
    nearest = []
    for way in (-node, node):
        counts = (bounds.gpus + way * times for times in range(1, _FARTHEST))
        inside = (count for count in counts if 0 < count <= most)
        divide = (count for count in inside if any(True for _ in groupings(base, bounds._replace(gpus=count))))
        nearest += [next(divide, 0)]
    return [count for count in nearest if count]


@dataclass(frozen=True)
class Candidate:
    """A layout of a job.

    Parameters
    ----------
    plan
        What the step-time model says of it.
    sets
        Sets of replicas of which each can leave alone [-]; 1 where the recovery restarts all of them.
    ettr
        Productive over requested time by the closed form [-]; ``None`` where the recovery has none.
    is_placed
        Whether its groups communicate over what they get where it sits in the cluster, and not over all NICs at once.
    """

    plan: StepPlan
    sets: int
    ettr: float | None
    is_placed: bool

    @property
    def tokens_per_day(self) -> float | None:
        """Tokens of a day that survive failures [1/d]."""
        return None if self.ettr is None else self.ettr * self.plan.tokens_per_second * DAY


class LayoutSearch:
    """The layouts of one job of a scenario on its own or another number of GPUs.

    What is approximate: :meth:`candidates` gives each group the whole bandwidth of the NICs, whatever the fabric; its
    times are lower bounds of those of :meth:`placed`, which seats a layout in the empty cluster. Memory is counted, not
    measured. ETTR is that of the closed form, with what that assumes.

    Parameters
    ----------
    scenario, job
        The scenario, and the name of a job; without one, the first.
    gpus
        GPUs of the job; without it, those that it asks for. The batch stays.
    any_tensor
        Whether tensor groups may be larger than a scale-up domain.
    try_parameters
        Whether parameters may also be divided among replicas where the scenario does not do that.
    try_options
        Whether gradients may be divided too (ZeRO-2), schedules have no bubble, and single modules be computed again,
        up to as much memory as a scenario is accepted with.

    Raises
    ------
    ValueError
        If there is no such job, if it has no model or batch, or if the cluster does not have so many GPUs.
    """

    def __init__(
        self,
        scenario: Scenario,
        job: str | None = None,
        gpus: int | None = None,
        *,
        any_tensor: bool = False,
        try_parameters: bool = False,
        try_options: bool = False,
    ) -> None:
        self.scenario = scenario
        self.index = job_index(scenario, job)
        spec = scenario.jobs[self.index]
        self.gpus = spec.gpus if gpus is None else gpus
        counts = scenario.cluster.counts()
        self.site = EmptyCluster.of(scenario, counts, whole_units(scenario, counts))
        self.placed_job, self.base, self.machine = modelled(self.site, spec, self.index)
        _check_gpus(scenario, self.gpus)
        self.domain = self.site.domain
        self.bounds = Bounds(
            self.gpus,
            self.machine.chip.memory * (SLACK if try_options else 1.0),
            self.base.shape.heads if any_tensor else self.domain,
            _shardings(spec.execution.sharding, try_parameters=try_parameters, try_options=try_options),
            try_options,
        )
        self.own = self.placed_job.work if spec.gpus == self.gpus else None
        """The layout of the scenario, if it is one of as many GPUs."""
        self.described = examine(scenario).jobs[self.index]
        """The job as it is, measured or modelled."""
        self.scale = 1.0 if self.described.plan is None else self.described.plan.scale
        """Measured over modelled time of the scenario's own layout [-]; all times are the model's times this."""
        shares, experts = self.machine.shares, self.base.shape.experts is not None
        self.sigma = shares.sigma if self.scale == 1.0 else steps.calibrated_sigma(shares, experts=experts)
        """Standard deviation of the logarithm of true over stated times [-]."""
        self._within = spec.parallelism.within_domain if spec.parallelism is not None else ()
        self._sets: LruCache[int] = LruCache(_SIZES)
        self._stages: LruCache[int] = LruCache(_SIZES)
        self._links: dict[tuple[int, ...], Links] = {}
        self._known: tuple[Prepared, Callable[[PreparedJob], dict[str, float]] | None] | None = None

    @property
    def spec(self) -> JobSpec:
        """The job as the scenario describes it."""
        return self.scenario.jobs[self.index]

    @property
    def fewest(self) -> int:
        """Sets of replicas that the recovery needs at least [-]."""
        recovery = self.scenario.recovery
        return recovery.min_replicas if isinstance(recovery, RestartSmaller | ShrinkRejoin) else 1

    def candidates(self) -> Iterator[Candidate]:
        """Yield the layouts that are possible, fit, and leave as many sets of replicas as the recovery needs."""
        for work in layouts(self.base, self.bounds):
            candidate = self.candidate(work)
            if candidate is not None:
                yield candidate

    def candidate(self, work: Workload) -> Candidate | None:
        """Return a layout with all bandwidth of the NICs; ``None`` if the scenario rules it out."""
        # Groups get the whole bandwidth of their NICs.
        links = self.site.ideal_links(work, self.spec.parallelism or Parallelism(), self.machine.chip)
        apart = (link.network > 0 for link in (getattr(links, kind) for kind in self._within))
        sets, recovery = self._sets_of(work), self.scenario.recovery
        if any(apart) or sets < self.fewest:
            return None
        if isinstance(recovery, Redundant) and recovery.lacks(sets, self._stages_of(work)):
            return None
        return self._rated(work, links, sets, is_placed=False)

    def placed(self, candidate: Candidate) -> Candidate:
        """Return a layout with what its groups get where it sits in the empty cluster."""
        work = candidate.plan.work
        links = self._links.get(_sizes(work))
        if links is None:
            place = self.site.place(self._parallelism(work))
            assert place is not None, "a job with a layout has a place"
            links = self._links[_sizes(work)] = self.site.links(place, self.machine.chip, work.ulysses)
        return self._rated(work, links, candidate.sets, is_placed=True)

    def why_none(self) -> str:
        """Return in one line why there is no layout at all, and what is closest."""
        node, most = self.site.gpus_per_node, self.site.counts["gpu"]
        return why_none(self.spec.name, self.base, self.bounds, node, most, self.fewest)

    def _rated(self, work: Workload, links: Links, sets: int, *, is_placed: bool) -> Candidate:
        """Return a layout over some links, with what failures leave of it."""
        plan = StepPlan(work, replace(self.machine, links=links), self.scale, self.sigma)
        prepared, shares = self._formula(work)
        if shares is None:
            return Candidate(plan, sets, None, is_placed)
        job = prepared.jobs[self.index]
        checkpoint = checkpoint_of(self.scenario.checkpoint, self.placed_job, job.mtti, plan.time, job.nodes, sets)
        job = replace(job, step_time=plan.time, replicas=sets, plan=plan, checkpoint=checkpoint)
        if isinstance(self.scenario.recovery, Redundant):
            job = replace(job, stages=self._stages_of(work))
        return Candidate(plan, sets, shares(job)["productive"], is_placed)

    def _formula(self, work: Workload) -> tuple[Prepared, Callable[[PreparedJob], dict[str, float]] | None]:
        """Return the scenario with the number of GPUs, and the closed form: they are the same for all layouts."""
        if self._known is None:
            prepared = examine(self._with(work))
            self._known = prepared, job_shares(prepared)
        return self._known

    @property
    def prepared(self) -> Prepared | None:
        """The scenario with one of the layouts, once there is one."""
        return self._known[0] if self._known is not None else None

    def _with(self, work: Workload) -> Scenario:
        """Return the scenario with another layout, modelled and not measured."""
        return self.scenario.with_job(
            self.index,
            gpus=self.gpus,
            parallelism=self._parallelism(work),
            execution=self.spec.execution.model_copy(update=execution_of(work)),
            step_time=None,
            mfu=None,
            calibration=None,
        )

    def _parallelism(self, work: Workload) -> Parallelism:
        """Return a layout as a scenario describes it, in the job's order of ranks."""
        order = {"order": self.spec.parallelism.order} if self.spec.parallelism is not None else {}
        return Parallelism.model_validate({**sizes_of(work), **order})

    def _sets_of(self, work: Workload) -> int:
        """Return how many sets of replicas can leave alone [-]: replicas that share hosts leave together."""
        recovery = self.scenario.recovery
        if not recovery.elastic:
            return 1
        return self._sets.get(_sizes(work), lambda: failure_sets(self._parallelism(work), self.site.gpus_per_node))

    def _stages_of(self, work: Workload) -> int:
        """Return how many stages of a set of replicas are on nodes of their own [-]."""

        def count() -> int:
            return len({*layout_of(self._parallelism(work), self.site.gpus_per_node).stage_of_host.tolist()})

        return self._stages.get(_sizes(work), count)


def modelled(site: EmptyCluster, spec: JobSpec, index: int) -> tuple[PlacedJob, Workload, Machine]:
    """Return a job on an empty cluster, its step on one GPU, and the machine that it runs on.

    Raises
    ------
    ValueError
        If it has no model or batch.
    """
    job, batch = PlacedJob(site, spec, index), spec.batch
    shape = job.shape
    if shape is None or batch is None:
        lacking = " and ".join(name for name in ("model", "batch") if getattr(spec, name) is None)
        raise ValueError(f"job '{spec.name}': its layouts are those of a model and a batch (missing: {lacking})")
    tensor = 1 if spec.parallelism is None else spec.parallelism.expert_tensor
    layout = Parallelism(tensor=tensor, expert_tensor=tensor)
    base = job.workload(shape, batch, layout, spec.execution)
    return job, base, job.machine(shape, ideal_links(base, 1.0, 1.0, 1))


def execution_of(work: Workload) -> dict[str, object]:
    """Return the keys of ``execution`` that a search for layouts chooses, with their values."""
    return {
        "microbatch": work.microbatch,
        "schedule": work.schedule,
        "recompute": work.modules or work.recompute,
        "recompute_layers": work.recompute_layers or None,
        "sharding": work.sharding,
        "shard_ranks": work.shard_ranks or None,
    }


def sizes_of(work: Workload) -> dict[str, int]:
    """Return the sizes of a layout by the keys of ``parallelism``."""
    sizes = {name: getattr(work, name) for name in ("tensor", "context", "pipeline", "data", "expert")}
    return {**sizes, "virtual_pipeline": work.virtual, "expert_tensor": work.expert_tensor}


def failure_sets(layout: Parallelism, gpus_per_node: int) -> int:
    """Return the sets of replicas that can leave alone [-], without looking at each rank where that is plain.

    It is where replicas are numbered without gaps: then each host holds a part of one, or some that follow each other.
    """
    order = layout.order
    first = min(order.index("expert"), order.index("data"))
    inner = 1
    for kind in order[:first]:
        inner *= getattr(layout, kind)
    if {*order[first : first + 2]} == {"expert", "data"}:
        if inner % gpus_per_node == 0:
            return layout.data
        if gpus_per_node % inner == 0 and layout.data * inner % gpus_per_node == 0:
            return layout.data * inner // gpus_per_node
    return layout_of(layout, gpus_per_node).failure_groups


def _sizes(work: Workload) -> tuple[int, ...]:
    """Return what decides where groups sit."""
    return work.tensor, work.context, work.pipeline, work.data, work.expert


def job_index(scenario: Scenario, name: str | None) -> int:
    """Return which job has a name; without one, the first.

    Raises
    ------
    ValueError
        If none has, or there are no named jobs.
    """
    names = [job.name for job in scenario.jobs]
    if not names:
        raise ValueError("has no named job (key 'jobs'): streams and services have no step")
    if name is None:
        return 0
    if name not in names:
        raise ValueError(catalog.unknown("job", name, names))
    return names.index(name)


def _shardings(stated: Sharding, *, try_parameters: bool, try_options: bool) -> tuple[Sharding, ...]:
    """Return what may be divided among replicas: as the scenario states it, and what else is evaluated."""
    more: list[Sharding] = ["gradients"] if try_options and stated == "optimizer" else []
    more += ["parameters"] if try_parameters else []
    return tuple(dict.fromkeys((stated, *more)))


def _check_gpus(scenario: Scenario, gpus: int) -> None:
    """Refuse GPUs that the cluster does not have, or that are no whole nodes."""
    cluster = scenario.cluster
    per_node, most = cluster.hosts.gpus, cluster.hosts.nodes * cluster.hosts.gpus
    if gpus > most:
        raise ValueError(f"{gpus:,} GPUs are more than the {most:,} of the cluster")
    if gpus % per_node or gpus <= 0:
        below = max(gpus, 0) // per_node * per_node
        near = " or ".join(f"{count:,}" for count in (below, below + per_node) if count > 0)
        raise ValueError(f"{gpus:,} GPUs are not a whole number of nodes of {per_node}; nearest: {near}")

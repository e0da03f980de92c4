"""From a scenario to what all its replications share: topology arrays, sources, job plans, closed form.

Each fact is worked out once and passed on: counts, sources, units, the site, and of each job its place, step and
checkpoint. `examine` needs no cables; `prepare` adds what only they give.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick.sim import catalog, steps
from ettrick.sim.cluster import FABRIC_PARTS
from ettrick.sim.engine.prepared import Prepared, PreparedFleet, PreparedJob, SparePool, TargetPlan
from ettrick.sim.failures.effects import Domains
from ettrick.sim.failures.health import CHECK
from ettrick.sim.failures.source import CONTENTION, OF_ONE_NODE, condition, slots_per_node
from ettrick.sim.policies.checkpoint import Pause
from ettrick.sim.policies.recovery import Ladder as LadderOfRungs
from ettrick.sim.policies.recovery import Redundant
from ettrick.sim.prepare.cost import power_warnings, upkeep_of
from ettrick.sim.prepare.failures import FailureRates, build_sources, failure_warnings, parts_of, repair_of, unforeseen
from ettrick.sim.prepare.placement import (
    EmptyCluster,
    LruCache,
    layout_warnings,
    pool_warnings,
    seats,
    surplus_nodes,
    whole_units,
)
from ettrick.sim.prepare.step import PlacedJob, check_memory, pool_paces, relative_capacity, step_warnings, work_time
from ettrick.sim.scenario.fields import PathError, RuleError, refuse_keys
from ettrick.sim.scenario.model import OF_JOBS, OF_SERVICES, PeriodicWork

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ettrick.sim.engine.prepared import AllocationUnits, PowerAndCost, PreparedStream
    from ettrick.sim.failures import FailureSource
    from ettrick.sim.input.scenario import AnyCheckpoint, Scenario
    from ettrick.sim.policies.checkpoint import MultiLevelCheckpoint, Periodic
    from ettrick.sim.steps.hardware import Precision

_last: Prepared | None = None
"""The preparation made last: a loaded scenario is usually prepared next.

To examine it again takes 1 to 9 ms of the shipped scenarios, in a sweep for each point, and a replication of one of
them in machine code less than 1 ms.
"""


def prepare(scenario: Scenario) -> Prepared:
    """Work out once what all replications share.

    Raises
    ------
    PathError
        If the scenario does not fit together, or a job not into the memory of its accelerators.
    """
    prepared = check(scenario)
    if scenario.services:
        from ettrick.sim.prepare.services import plans_of

        prepared = replace(prepared, services=plans_of(prepared))
    site = EmptyCluster.of(scenario, prepared.counts, prepared.units)
    if prepared.scheduler.pack is not None:
        prepared = replace(prepared, packed_by=tuple(site.topology.domains[prepared.scheduler.pack].tolist()))
    if site.needs_network(scenario.jobs, prepared.sources):
        prepared = replace(prepared, network=site.network(prepared.sources))
    return _with_blast(prepared, site)


def _with_blast(prepared: Prepared, site: EmptyCluster) -> Prepared:
    """Return a scenario with the nodes of each unit whose failures can take down several."""
    one_node = {*prepared.slots_per_node, "job"}
    parts = {
        source.part
        for source in prepared.sources
        if source.blast is not None or source.of_fabric or source.part not in one_node
    }
    if not parts:
        return prepared
    domains = {"cluster": Domains(np.array([0, prepared.nodes]), np.arange(prepared.nodes))}
    members = {part: site.topology.members(part) for part in parts - {"cluster"}}
    domains |= {part: Domains(units.offsets, units.nodes) for part, units in members.items()}
    blast: dict[str, tuple[Any, Any]] = {part: domains[part] for part in parts}
    # As the engine reads them fastest; those of the fabric stay arrays, for they may be many.
    blast |= {part: (domains[part].offsets.tolist(), domains[part].nodes.tolist()) for part in parts - {*FABRIC_PARTS}}
    return replace(
        prepared,
        blast=blast,
        sources=tuple(
            source
            if source.blast is None
            else replace(source, blast=replace(source.blast, domains=domains[source.part]))
            for source in prepared.sources
        ),
    )


def check(scenario: Scenario, *, must_fit: bool = True) -> Prepared:
    """Examine a scenario and its services; refuse jobs that do not fit into memory, unless they need not.

    Raises
    ------
    PathError
        At the first mistake.
    """
    prepared = examine(scenario)
    if must_fit:
        check_memory(prepared)
    if scenario.services:
        from ettrick.sim.prepare.services import services_of

        services_of(prepared)
    return prepared


def examine(scenario: Scenario) -> Prepared:
    """Check what needs more than one part of the scenario; cables are built only where they decide.

    Raises
    ------
    PathError
        At the first mistake.
    """
    global _last
    if _last is None or _last.scenario is not scenario:
        _last = _examined(scenario)
    return _last


def _targets(scenario: Scenario) -> tuple[TargetPlan, ...]:
    """Return what is promised: of a service without a target, the attainment of its SLO in every window of results."""
    plans, workloads = [], scenario.workloads
    for target in scenario.targets:
        of = scenario.aim(target)
        kind, index = workloads[of]
        metric = target.metric or (OF_SERVICES if kind == "services" else OF_JOBS)[0]
        tiers = tuple((tier.below, tier.share) for tier in target.credits)
        count = round(target.window / (scenario.width or target.window))
        plans.append(TargetPlan(target.name, of, kind, index, metric, target.at_least, count, tiers, target.bill))
    bound = {target.of for target in plans}
    for index, service in enumerate(scenario.services):
        if service.name not in bound:
            promise = (service.name, "services", index, OF_SERVICES[0], service.slo.attainment)
            plans.append(TargetPlan(service.name, *promise, windows=1))
    return tuple(plans)


def _precision(scenario: Scenario) -> Precision:
    """Return the arithmetic by which GPUs of several kinds are compared: that of the first job, or service."""
    if scenario.jobs:
        return scenario.jobs[0].precision
    return scenario.services[0].precision if scenario.services else "bf16"


def _counts(scenario: Scenario) -> Mapping[str, int]:
    """Return the parts of the cluster by class."""
    try:
        return scenario.cluster.counts()
    except ValueError as error:
        raise PathError(("cluster",), str(error)) from None


def _units(scenario: Scenario, counts: Mapping[str, int]) -> AllocationUnits | None:
    """Return the units that jobs use as wholes, if they do; packed jobs use nodes one by one."""
    _check_pick(scenario)
    units = whole_units(scenario, counts)
    if units is not None and scenario.scheduler.pack is not None:
        rule = "is for nodes that are used one by one; here jobs use whole units, which keep their nodes together"
        raise PathError(("scheduler", "pack"), rule)
    return units


def _placed(scenario: Scenario, site: EmptyCluster, pauses: tuple[PeriodicWork, ...]) -> list[PlacedJob]:
    """Return the named jobs on their cluster, with the checks of nodes for which they stand still."""
    specs = (spec.model_copy(update={"periodic": (*spec.periodic, *pauses)}) for spec in scenario.jobs)
    return [
        _PLACED.get((id(site), id(spec), index), functools.partial(PlacedJob, site, spec, index))
        for index, spec in enumerate(specs if pauses else scenario.jobs)
    ]


_PLACED: LruCache[PlacedJob] = LruCache(8)
"""The jobs that were placed last, with what their steps follow from; each holds the site and the job of its key."""


def _examined(scenario: Scenario) -> Prepared:
    """Work out sources, place, jobs, streams and upkeep in this order, each checked as it is made."""
    counts = _counts(scenario)
    sources, merged = build_sources(scenario, counts)
    _check_pools(scenario)
    units = _units(scenario, counts)
    site = EmptyCluster.of(scenario, counts, units)
    surplus = surplus_nodes(scenario, counts, units)
    withheld = surplus if scenario.spares.idle == "withhold" else 0
    pauses, preflight = _checks(scenario)
    placed = _placed(scenario, site, pauses)
    rates = FailureRates(counts["node"], scenario.warmup + scenario.horizon, repair_of(scenario).success)
    jobs = tuple(_job(scenario, job, sources, rates) for job in placed)
    upkeep = upkeep_of(scenario, site, sources)
    fleet = _fleet(scenario, site, sources, rates)
    conditions = _conditions(sources, jobs, fleet.streams, upkeep)
    sources += conditions
    share = 1.0 if fleet.streams or scenario.services else sum(job.nodes for job in jobs) / counts["node"]
    return replace(
        _stated(scenario, counts),
        units=units.without(withheld) if units is not None else None,
        sources=tuple(sources),
        jobs=tuple(replace(job, tenant=of[0], partition=of[1]) for job, of in zip(jobs, fleet.jobs, strict=False))
        or jobs,
        merged_intervals=merged,
        withheld=withheld,
        parts=parts_of(scenario, sources),
        preflight=preflight,
        upkeep=replace(upkeep, repaired=upkeep.repaired and upkeep.repaired + ("",) * len(conditions)),
        expected_events=rates.events(sources, share, scenario.horizon / (scenario.width or math.inf)) + fleet.events,
        streams=fleet.streams,
        tenants=fleet.tenants,
        partitions=fleet.partitions,
        warnings=(
            *_warnings(scenario, site, sources, list(zip(placed, jobs, strict=True))),
            *_idle_warnings(scenario, surplus),
            *fleet.warnings,
            *power_warnings(scenario, upkeep),
        ),
    )


def _fleet(
    scenario: Scenario, site: EmptyCluster, sources: Sequence[FailureSource], rates: FailureRates
) -> PreparedFleet:
    """Return the streams, ready to arrive; nothing where jobs have no queue."""
    _check_keys(scenario)
    if not (scenario.streams or scenario.services):
        return PreparedFleet()
    from ettrick.sim.prepare.streams import prepare_streams

    return prepare_streams(scenario, site, sources, rates)


def _check_keys(scenario: Scenario) -> None:
    """Refuse what only streams and services give a meaning to, where there are none."""
    has_queue = bool(scenario.streams or scenario.services)
    if not scenario.streams:
        for key in ("templates",) if has_queue else ("tenants", "partitions", "templates"):
            if getattr(scenario, key):
                raise PathError((key,), "are for jobs of streams, and there are no streams")
    if not has_queue:
        rule = "is for jobs that share the cluster with streams, and there are no streams"
        refuse_keys(scenario, "jobs", ("tenant", "partition", "qos"), rule)
    rule = "is for streams to say, each for its own jobs"
    refuse_keys(scenario, "templates", ("tenant", "partition", "qos", "priority"), rule)


def _stated(scenario: Scenario, counts: Mapping[str, int]) -> Prepared:
    """Return what a scenario states, for nothing that happens on its cluster yet."""
    return Prepared(
        scenario=scenario,
        name=scenario.name,
        nodes=counts["node"],
        gpus_per_node=counts["gpu"] // counts["node"],
        reserves=_reserves(scenario),
        horizon=scenario.horizon,
        warmup=scenario.warmup,
        windows=scenario.width,
        targets=_targets(scenario),
        stationary=scenario.initial == "stationary",
        seed=scenario.seed,
        slots_per_node={part: slots_per_node(part, counts) for part in OF_ONE_NODE},
        repair=repair_of(scenario),
        recovery=scenario.recovery,
        scheduler=scenario.scheduler,
        counts=counts,
        capacity=relative_capacity(scenario.cluster, _precision(scenario)),
        engine=scenario.engine or "auto",
    )


def _warnings(
    scenario: Scenario, site: EmptyCluster, sources: list[FailureSource], cases: list[tuple[PlacedJob, PreparedJob]]
) -> Iterator[str]:
    """Yield what to know of a scenario's cluster, recovery, stores, failures and steps, one line each."""
    yield from filter(None, [scenario.cluster.follows])
    yield from pool_warnings(scenario, site)
    yield from _preset_warnings(scenario)
    yield from _redundancy_warnings(scenario, [job for _, job in cases])
    yield from _copy_warnings(scenario)
    yield from _store_warnings(scenario)
    yield from failure_warnings(scenario, sources)
    for case, _ in cases:
        yield from layout_warnings(site, case.index, case.spec)
    slow = [source.name for source in sources if source.effect.speed < 1]
    for case, job in cases:
        yield from step_warnings(case, job, slow)


def _checks(scenario: Scenario) -> tuple[tuple[PeriodicWork, ...], float | None]:
    """Return why jobs stand still for checks of nodes, and how long those of new ones take [s], if there are any."""
    health = scenario.health
    checks, preflight = (health.checks, health.preflight) if health is not None else (None, None)
    work = None
    if checks is not None and checks.time:
        work = PeriodicWork(name=CHECK, every=f"{checks.every!r} s", time=f"{checks.time!r} s")
    if (work or preflight) is not None and (scenario.streams or scenario.services):
        path = ("health", "preflight") if preflight is not None else ("health", "checks", "time")
        raise PathError(path, "is for named jobs: those of streams and services do not stop for checks")
    return (work,) if work else (), preflight.time if preflight is not None else None


def _conditions(
    sources: list[FailureSource], jobs: Sequence[PreparedJob], streams: Sequence[PreparedStream], upkeep: PowerAndCost
) -> list[FailureSource]:
    """Return the causes of lost time that are no failures.

    Raises
    ------
    PathError
        If a failure has the name of one.
    """
    shares = [rung.save_share for job in jobs for rung in job.checkpoint.rungs]
    shares += [plan.save_share for stream in streams for plan in stream.saves.values()]
    causes = [CONTENTION] if any(shares) else []
    causes += sorted({level.cause for level in upkeep.levels if level.cause})
    for name in causes:
        if any(source.name == name for source in sources):
            raise PathError(
                ("failures",), f"'{name}' is what time is charged to that no failure took: rename the cause"
            )
    return [condition(name) for name in causes]


def _reserves(scenario: Scenario) -> dict[str, SparePool]:
    """Return what each pool of spares holds back."""
    spares = scenario.spares
    reserves = {"spare": SparePool(spares.hot)}
    for name, standby in (("warm", spares.warm), ("cold", spares.cold)):
        if standby is not None:
            reserves[name] = SparePool(standby.nodes, standby.refills, standby.delay, standby.one_by_one)
    return reserves


def _pools(scenario: Scenario) -> list[tuple[tuple[str | int, ...], tuple[str, ...]]]:
    """Return the pools that replacements come from, and where the recovery names them."""
    recovery = scenario.recovery
    rungs = recovery.rungs if isinstance(recovery, LadderOfRungs) else ()
    return [
        (("recovery", "pools"), getattr(recovery, "pools", ("idle",))),
        *(
            (("recovery", "rungs", index, "pools"), rung.pools)
            for index, rung in enumerate(rungs)
            if rung.keeps != "nothing" and rung.patience is None
        ),
    ]


def _check_pools(scenario: Scenario) -> None:
    """Refuse a recovery whose replacements come from nowhere."""
    spares = scenario.spares
    size = {"spare": spares.hot, "warm": spares.warm, "cold": spares.cold, "idle": 1}
    for path, pools in _pools(scenario):
        if not any(size[name] for name in pools):
            if pools == ("spare",):
                raise PathError(path, "replacements may come from the spares only, and spares.hot is 0")
            raise PathError(path, f"replacements may come from {' and '.join(pools)} only, and there are none")


def _idle_warnings(scenario: Scenario, surplus: int) -> Iterator[str]:
    """Yield that idle nodes serve like spares, where spares are stated and nothing says what idle nodes do.

    The line says no number: it is the same for all points of a sweep.
    """
    asks = "spares" in scenario.model_fields_set and "idle" not in scenario.spares.model_fields_set
    if asks and surplus and any("idle" in pools for _, pools in _pools(scenario)):
        yield (
            "spares.idle is not set, so idle nodes also replace failed ones; to use only the spares, set spares.idle: "
            "withhold, or leave cluster.nodes out"
        )


def _check_pick(scenario: Scenario) -> None:
    """Refuse to pick nodes by a score that is not kept."""
    scheduler = scenario.scheduler
    if scheduler.pick == "best-score" and not getattr(scenario.repair, "lemons", ()):
        raise PathError(("scheduler", "pick"), "best-score needs repair with lemons: their policy keeps the score")
    if scheduler.pack is not None and scheduler.pick != "lowest":
        raise PathError(("scheduler", "pack"), f"packed jobs take nodes by their place, not as pick: {scheduler.pick}")


def _job(scenario: Scenario, placed: PlacedJob, sources: Sequence[FailureSource], rates: FailureRates) -> PreparedJob:
    """Return one job, ready to run."""
    spec, site, per_node = placed.spec, placed.site, placed.site.gpus_per_node
    nodes = _nodes_of(scenario, placed)
    step = placed.step(scenario.horizon)
    mtti, detection_mean = rates.interrupts(sources, nodes)
    rare = mtti if scenario.health is None else rates.interrupts(unforeseen(sources), nodes)[0]
    replicas, stages, order = seats(spec, placed.index, scenario.recovery, scenario.checkpoint, per_node)
    return PreparedJob(
        name=spec.name,
        gpus=spec.gpus,
        nodes=nodes,
        replicas=replicas,
        stages=stages,
        seats=order,
        nodes_per_domain=max(spec.parallelism.tensor // per_node, 1) if spec.parallelism is not None else 1,
        step_time=step.time,
        keeps_batch=spec.batch is not None and spec.batch.on_loss == "keep",
        target=work_time(spec, step.time),
        arrival=spec.arrival,
        deadline=spec.deadline,
        checkpoint=checkpoint_of(scenario.checkpoint, placed, rare, step.time, nodes, replicas),
        mtti=mtti,
        detection_mean=detection_mean,
        mfu=step.mfu,
        plan=step.plan,
        is_measured=step.measured,
        tokens=spec.batch.tokens if spec.batch is not None else 0,
        communication=spec.communication,
        planned_bandwidth=site.planned_bandwidth(nodes),
        pool_paces=pool_paces(site.cluster, spec.precision, step.plan, placed.home, site.reach("jobs", placed.index)),
        priority=spec.priority,
        qos=spec.qos,
    )


def _nodes_of(scenario: Scenario, placed: PlacedJob) -> int:
    """Return the nodes of a job; refuse parts of nodes, and more than there are in addition to the spares."""
    spec, site, spares = placed.spec, placed.site, scenario.spares
    path: tuple[str | int, ...] = ("jobs", placed.index, "gpus")
    per_node, total = site.gpus_per_node, site.counts["node"]
    if spec.gpus % per_node:
        below = spec.gpus // per_node * per_node
        nearest = f"{below} or {below + per_node}" if below else str(per_node)
        raise PathError(path, f"{spec.gpus} GPUs are not a whole number of nodes of {per_node}; nearest: {nearest}")
    nodes = spec.gpus // per_node
    if spec.gpus > site.counts["gpu"]:
        rule = f"asks for {spec.gpus:,} GPUs, but the cluster has {site.counts['gpu']:,}"
        fix = f"; set cluster.nodes to {nodes + spares.total:,} or more, or leave it out"
        raise PathError(path, rule + (fix if scenario.cluster.nodes else ""))
    if nodes + spares.total > total:
        raise PathError(
            path,
            f"needs {nodes:,} nodes, but of the cluster's {total:,} nodes {spares.total:,} are kept as "
            f"{'hot ' if spares.total == spares.hot else ''}spares: it can never start",
        )
    return nodes


def checkpoint_of(
    checkpoint: AnyCheckpoint, placed: PlacedJob, mtti: float, step_time: float, nodes: int, replicas: int
) -> Periodic | MultiLevelCheckpoint:
    """Return the closed form of the checkpoints of a job with a mean time to interrupt and a time of a step [s].

    Raises
    ------
    PathError
        If a store or the periodic work of the job does not fit.
    """
    pauses = []
    for number, work in enumerate(placed.spec.periodic):
        if work.steps and step_time <= 0:
            rule = f"'{work.every}' needs the time of a step: give the job step_time or mfu"
            raise PathError(("jobs", placed.index, "periodic", number, "every"), rule)
        pauses.append(Pause(work.steps * step_time or work.seconds, work.steps, work.time))
    size = steps.checkpoint_size(placed.shape) if placed.shape is not None else None
    try:
        return checkpoint.build(mtti, step_time, nodes=nodes, replicas=replicas, size=size, periodic=tuple(pauses))
    except RuleError as error:
        raise PathError(("checkpoint", *error.at), error.rule) from None


def _redundancy_warnings(scenario: Scenario, jobs: Sequence[PreparedJob]) -> Iterator[str]:
    """Yield what is not known of peers that do the work of a lost stage."""
    recovery = scenario.recovery
    rule = "is without the step-time model, so that no bubble takes work of peers that are lost"
    for job, spec in zip(jobs, scenario.jobs, strict=True):
        if job.plan is None and isinstance(recovery, Redundant) and recovery.redundancy == "peers":
            yield f"job '{job.name}' {rule}; it lacks {spec.lacks}"


def _copy_warnings(scenario: Scenario) -> Iterator[str]:
    """Yield which jobs hold a part of their state but once, although a recovery takes it from others."""
    has_peer = any(tier.store == "peer" for tier in scenario.checkpoint.tiers)
    if not has_peer and not isinstance(scenario.recovery, Redundant):
        return
    for spec in scenario.jobs:
        ranks = spec.execution.shard_ranks
        if spec.model is None or spec.execution.sharding == "none" or ranks is not None or spec.parallelism is None:
            continue
        yield (
            f"job '{spec.name}' divides its state among all replicas (execution.sharding: {spec.execution.sharding}), "
            "so that no other one holds what a node loses; a copy is taken to be there all the same"
        )


def _store_warnings(scenario: Scenario) -> Iterator[str]:
    """Yield which stores no restore of a named job reads: a live peer needs processes, those of nodes the nodes."""
    restores = scenario.recovery.restores
    for index, tier in enumerate(scenario.checkpoint.tiers if scenario.jobs and restores else ()):
        if tier.store == "peer" and "processes" not in restores:
            why = "keeps no process"
        elif tier.store != "remote" and restores == {"stores"}:
            why = "gives all nodes back"
        else:
            continue
        yield f"checkpoint.tiers.{index}: store {tier.store} is never read: {scenario.recovery.use} {why}"


def _preset_warnings(scenario: Scenario) -> Iterator[str]:
    """Yield what to know of a preset of which a part is not used."""
    name, detection, checkpoint = scenario.recovery.use, scenario.detection, scenario.checkpoint
    content = catalog.recovery(name) if name in catalog.recoveries() else {}
    brought = content.get("detection", {}).get("use")
    if brought not in (None, detection.use):
        yield f"recovery '{name}' brings {brought}; the scenario's own detection is used instead"
    stores = {tier.store for tier in checkpoint.tiers}
    tiers = content.get("checkpoint", {}).get("tiers", [])
    unused = [tier["store"] for tier in tiers if tier["store"] not in stores]
    if unused and not checkpoint.from_preset:
        yield (
            f"recovery '{name}' brings checkpoints in {' and '.join(unused)}, which are not used; "
            "to add them: --set checkpoint.from_preset=true"
        )

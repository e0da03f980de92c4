"""From a scenario to what all its replications share: topology arrays, sources, job plans, closed form."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sim import catalog, steps
from sim.cluster import FABRIC_PARTS, ClusterSpec
from sim.engine.prepared import Prepared, PreparedJob
from sim.engine.state_nodes import Reserve
from sim.failures.source import OF_ONE_NODE, Domains, slots_per_node
from sim.policies.checkpoint import Pause
from sim.prepare.cost import upkeep_of
from sim.prepare.failures import (
    build_sources,
    expected_events,
    log_warnings,
    prior,
    repair_of,
    repair_warnings,
    switch_tray_warnings,
)
from sim.prepare.parts import surplus_nodes, whole_units
from sim.prepare.placement import layout_warnings, seats
from sim.prepare.step import (
    check_memory,
    fabric_warnings,
    needs_network,
    network_of,
    planned_bandwidth,
    pool_paces,
    relative_capacity,
    shape_of,
    step_of,
    step_warnings,
)
from sim.scenario.fields import PathError, RuleError
from sim.scenario.model import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sim.cluster import Topology
    from sim.failures import Source
    from sim.input.scenario import Scenario
    from sim.policies.checkpoint import Ladder, Periodic
    from sim.scenario.model import JobSpec


def examine(scenario: Scenario) -> Prepared:
    """Check what needs more than one part of the scenario; cables are built only where they decide.

    Raises
    ------
    PathError
        At the first mistake.
    """
    cluster = scenario.cluster
    try:
        counts = cluster.counts()
    except ValueError as error:
        raise PathError(("cluster",), str(error)) from None
    sources, merged = build_sources(scenario, counts)
    _check_pools(scenario)
    _check_pick(scenario)
    units = whole_units(scenario, counts)
    if units is not None and getattr(scenario.scheduler, "pack", None) is not None:
        rule = "is for nodes that are used one by one; here jobs use whole units, which keep their nodes together"
        raise PathError(("scheduler", "pack"), rule)
    gpus_per_node = counts["gpu"] // counts["node"]
    surplus = surplus_nodes(scenario, counts, units)
    withheld = surplus if scenario.spares.idle == "withhold" else 0
    if units is not None and withheld:
        units = units._replace(nodes=units.nodes[: -(withheld // len(units.nodes[0]))])
    jobs = tuple(_build_job(scenario, index, counts, sources, gpus_per_node) for index in range(len(scenario.jobs)))
    slow = [source.name for source in sources if source.effect.speed < 1]
    return Prepared(
        scenario=scenario,
        name=scenario.name,
        nodes=counts["node"],
        gpus_per_node=gpus_per_node,
        reserves=_reserves(scenario),
        units=units,
        horizon=scenario.horizon,
        warmup=scenario.warmup,
        windows=scenario.windows,
        stationary=scenario.initial == "stationary",
        seed=scenario.seed,
        sources=tuple(sources),
        slots_per_node={part: slots_per_node(part, counts) for part in OF_ONE_NODE},
        blast={},
        jobs=jobs,
        repair=repair_of(scenario),
        recovery=scenario.recovery,
        scheduler=scenario.scheduler,
        merged_intervals=merged,
        counts=counts,
        capacity=relative_capacity(scenario),
        withheld=withheld,
        upkeep=upkeep_of(scenario, counts, sources),
        expected_events=expected_events(scenario, sources, sum(job.nodes for job in jobs) / counts["node"]),
        warnings=(
            *_preset_warnings(scenario),
            *repair_warnings(scenario),
            *fabric_warnings(scenario),
            *switch_tray_warnings(scenario, sources),
            *log_warnings(scenario, sources),
            *(line for index in range(len(scenario.jobs)) for line in layout_warnings(scenario, index, units)),
            *(
                line
                for index in range(len(scenario.jobs))
                for line in step_warnings(scenario, index, jobs[index], slow)
            ),
            *_idle_warnings(scenario, surplus),
        ),
    )


def prepare(scenario: Scenario) -> Prepared:
    """Work out once what all replications share.

    Raises
    ------
    PathError
        If the scenario does not fit together.
    """
    prepared = examine(scenario)
    check_memory(scenario, prepared.jobs)
    return complete(prepared)


def complete(prepared: Prepared, build: Callable[[ClusterSpec], Topology] = ClusterSpec.build) -> Prepared:
    """Add to what `examine` has found what only the topology tells.

    Parameters
    ----------
    prepared
        An examined scenario whose jobs fit into the memory of their accelerators.
    build
        What builds the topology of its cluster; `sim.Shared` keeps those that several scenarios have in common.
    """
    scenario = prepared.scenario
    cluster = scenario.cluster
    topology = build(cluster)
    if prepared.scheduler.pack is not None:
        prepared = replace(prepared, packed_by=tuple(topology.domains[prepared.scheduler.pack].tolist()))
    if needs_network(scenario, prepared.sources):
        prepared = replace(prepared, network=network_of(scenario, topology, prepared.sources))
    one_node = {*prepared.slots_per_node, "job"}
    parts = {
        source.part
        for source in prepared.sources
        if source.blast is not None or source.of_fabric or source.part not in one_node
    }
    if not parts:
        return prepared
    domains = {"cluster": Domains(np.array([0, prepared.nodes]), np.arange(prepared.nodes))}
    for part in parts - {"cluster"}:
        members = topology.members(part)
        domains[part] = Domains(members.offsets, members.nodes)
    return replace(
        prepared,
        blast={part: _as_lists(domains[part]) if part not in FABRIC_PARTS else domains[part] for part in parts},
        sources=tuple(
            source
            if source.blast is None
            else replace(source, blast=replace(source.blast, domains=domains[source.part]))
            for source in prepared.sources
        ),
    )


def _as_lists(domains: Domains) -> tuple[list[int], list[int]]:
    """Return domains as the engine reads them fastest; those of the fabric stay arrays, for they may be many."""
    return domains.offsets.tolist(), domains.nodes.tolist()


def _reserves(scenario: Scenario) -> dict[str, Reserve]:
    """Return what each pool of spares holds back."""
    spares = scenario.spares
    reserves = {"spare": Reserve(spares.hot)}
    for name, standby in (("warm", spares.warm), ("cold", spares.cold)):
        if standby is not None:
            reserves[name] = Reserve(standby.nodes, standby.refills, standby.delay, standby.one_by_one)
    return reserves


def _pools(scenario: Scenario) -> list[tuple[tuple[str | int, ...], Any]]:
    """Return the pools that replacements come from, and where the recovery names them."""
    recovery = scenario.recovery
    named = [
        (("recovery", "rungs", index, "pools"), rung.pools)
        for index, rung in enumerate(getattr(recovery, "rungs", ()))
        if rung.keeps != "nothing" and rung.patience is None
    ]
    return [(("recovery", "pools"), getattr(recovery, "pools", ("idle",))), *named]


def _check_pools(scenario: Scenario) -> None:
    """Refuse a recovery whose replacements come from nowhere."""
    spares = scenario.spares
    size = {"spare": spares.hot, "warm": spares.warm, "cold": spares.cold, "idle": 1}
    for path, pools in _pools(scenario):
        if not any(size[name] for name in pools):
            if pools == ("spare",):
                raise PathError(path, "replacements may come from the spares only, and spares.hot is 0")
            rule = f"replacements may come from {' and '.join(pools)} only, and there are none"
            raise PathError(path, rule)


def _idle_warnings(scenario: Scenario, surplus: int) -> tuple[str, ...]:
    """Return that idle nodes serve like spares, where spares are stated and nobody says what idle nodes do.

    The line says no number: it is the same for all points of a sweep.
    """
    asks = "spares" in scenario.model_fields_set and "idle" not in scenario.spares.model_fields_set
    if not asks or not surplus or not any("idle" in pools for _, pools in _pools(scenario)):
        return ()
    return (
        "spares.idle is not stated: nodes beyond those of jobs and spares are idle, and replace failed ones too; for "
        "the spares alone say spares.idle: withhold, or leave cluster.nodes out",
    )


def _check_pick(scenario: Scenario) -> None:
    """Refuse to pick nodes by a score that nobody keeps."""
    scheduler = scenario.scheduler
    if scheduler.pick == "best-score" and not getattr(scenario.repair, "lemons", ()):
        rule = "best-score needs repair with lemons: their policy keeps the score"
        raise PathError(("scheduler", "pick"), rule)
    if scheduler.pack is not None and scheduler.pick != "lowest":
        raise PathError(("scheduler", "pack"), f"packed jobs take nodes by their place, not as pick: {scheduler.pick}")


def _build_job(
    scenario: Scenario, index: int, counts: Mapping[str, int], sources: list[Source], gpus_per_node: int
) -> PreparedJob:
    """Return one job, ready to run."""
    spec = scenario.jobs[index]
    path: tuple[str | int, ...] = ("jobs", index)
    if spec.gpus % gpus_per_node:
        nearest = _nearest(spec.gpus, gpus_per_node)
        rule = f"{spec.gpus} GPUs are not a whole number of nodes of {gpus_per_node}; nearest: {nearest}"
        raise PathError((*path, "gpus"), rule)
    nodes = spec.gpus // gpus_per_node
    if spec.gpus > counts["gpu"]:
        rule = f"asks for {spec.gpus} GPUs, but the cluster has {counts['gpu']}"
        raise PathError((*path, "gpus"), rule)
    if nodes + scenario.spares.total > counts["node"]:
        hot = "hot " if scenario.spares.total == scenario.spares.hot else ""
        rule = (
            f"needs {nodes} nodes, but of the cluster's {counts['node']} nodes {scenario.spares.total} are kept as "
            f"{hot}spares: it could never start"
        )
        raise PathError((*path, "gpus"), rule)
    step = step_of(scenario, index)
    success = repair_of(scenario).success
    mtti, detection_mean = prior(sources, nodes / counts["node"], scenario.warmup + scenario.horizon, success)
    replicas, order = seats(scenario, index, gpus_per_node)
    closed = checkpoint_of(scenario, index, mtti, step.time, nodes, replicas)
    return PreparedJob(
        name=spec.name,
        gpus=spec.gpus,
        nodes=nodes,
        replicas=replicas,
        seats=order,
        nodes_per_domain=_nodes_per_domain(spec, gpus_per_node),
        step_time=step.time,
        keeps_batch=spec.batch is not None and spec.batch.on_loss == "keep",
        target=_target(spec, step.time),
        arrival=spec.arrival,
        deadline=spec.deadline,
        checkpoint=closed,
        mtti=mtti,
        detection_mean=detection_mean,
        mfu=step.mfu,
        plan=step.plan,
        is_measured=step.measured,
        tokens=spec.batch.tokens if spec.batch is not None else 0,
        communication=spec.communication,
        planned_bandwidth=planned_bandwidth(scenario.cluster, nodes),
        pool_paces=pool_paces(scenario, spec, step.plan),
    )


def checkpoint_of(
    scenario: Scenario, index: int, mtti: float, step_time: float, nodes: int, replicas: int
) -> Periodic | Ladder:
    """Return the closed form of the checkpoints of a job with a mean time to interrupt and a time of a step [s].

    Raises
    ------
    PathError
        If a store or the periodic work of the job does not fit.
    """
    checkpoint = scenario.checkpoint
    spec = scenario.jobs[index]
    size = steps.checkpoint_size(shape_of(scenario, index)) if spec.model is not None else None
    pauses = _pauses(spec, index, step_time)
    try:
        found: Periodic | Ladder = checkpoint.build(
            mtti, step_time, nodes=nodes, replicas=replicas, size=size, periodic=pauses
        )
    except RuleError as error:
        raise PathError(("checkpoint", *error.at), error.rule) from None
    return found


def _pauses(spec: JobSpec, index: int, step_time: float) -> tuple[Pause, ...]:
    """Return the periodic work of a job."""
    for number, work in enumerate(spec.periodic):
        if work.steps and step_time <= 0:
            rule = f"'{work.every}' needs the time of a step: give the job step_time or mfu"
            raise PathError(("jobs", index, "periodic", number, "every"), rule)
    return tuple(Pause(work.steps * step_time or work.seconds, work.steps, work.time) for work in spec.periodic)


def _nodes_per_domain(spec: JobSpec, gpus_per_node: int) -> int:
    """Return the nodes of a tensor group, at least one."""
    return max(spec.parallelism.tensor // gpus_per_node, 1) if spec.parallelism is not None else 1


def _nearest(gpus: int, gpus_per_node: int) -> str:
    below = gpus // gpus_per_node * gpus_per_node
    return f"{below} or {below + gpus_per_node}" if below else str(gpus_per_node)


def _target(spec: JobSpec, step_time: float) -> float:
    """Return the healthy seconds of work [s]."""
    if not isinstance(spec.work, Work):
        return math.inf
    if spec.work.time is not None:
        return spec.work.time
    if spec.work.steps is not None:
        return spec.work.steps * step_time
    assert spec.work.tokens is not None
    assert spec.batch is not None
    return spec.work.tokens / spec.batch.tokens * step_time


def _preset_warnings(scenario: Scenario) -> tuple[str, ...]:
    """Return what to know of a preset of which a part is not used."""
    recovery = scenario.recovery
    detection = scenario.detection
    checkpoint = scenario.checkpoint
    name = recovery.use
    if name not in catalog.recoveries():
        return ()
    content = catalog.recovery(name)
    found = []
    brought = content.get("detection", {}).get("use")
    if brought not in (None, detection.use):
        found.append(f"recovery '{name}' brings {brought}; the scenario's own detection is used instead")
    own = {tier.store for tier in checkpoint.tiers}
    unused = [store["store"] for store in content.get("checkpoint", {}).get("tiers", []) if store["store"] not in own]
    if unused and not checkpoint.from_preset:
        found.append(
            f"recovery '{name}' brings checkpoints in {' and '.join(unused)}, which are not used; "
            "to add them: --set checkpoint.from_preset=true"
        )
    return tuple(found)

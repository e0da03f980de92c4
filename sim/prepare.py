"""From a scenario to what all its replications share: topology arrays, sources, job plans, closed form."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sim import catalog
from sim.failures.source import OF_ONE_NODE, Domains, slots_per_node
from sim.path_error import PathError
from sim.perf import model_flop_per_token, step_time_from_mfu
from sim.places import Reserve
from sim.prepare_failures import build_sources, prior
from sim.prepared import Prepared, PreparedJob
from sim.scenario import Work

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.failures import Source
    from sim.scenario import JobSpec, Scenario

__all__ = ["PathError", "examine", "prepare"]


def examine(scenario: Scenario) -> Prepared:
    """Check what needs more than one part of the scenario, from counts alone where nodes are not used in units.

    Raises
    ------
    PathError
        At the first mistake.
    """
    cluster: Any = scenario.cluster
    try:
        counts = cluster.counts()
    except ValueError as error:
        raise PathError(("cluster",), str(error)) from None
    sources, merged = build_sources(scenario, counts)
    _check_pools(scenario)
    _check_pick(scenario)
    units = _whole_units(scenario, counts)
    gpus_per_node = counts["gpu"] // counts["node"]
    jobs = tuple(_build_job(scenario, index, counts, sources, gpus_per_node) for index in range(len(scenario.jobs)))
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
        repair=scenario.repair,  # type: ignore[arg-type]
        recovery=scenario.recovery,  # type: ignore[arg-type]
        scheduler=scenario.scheduler,  # type: ignore[arg-type]
        merged_intervals=merged,
        counts=counts,
    )


def prepare(scenario: Scenario) -> Prepared:
    """Work out once what all replications share.

    Raises
    ------
    PathError
        If the scenario does not fit together.
    """
    prepared = examine(scenario)
    one_node = {*prepared.slots_per_node, "job"}
    parts = {source.part for source in prepared.sources if source.blast is not None or source.part not in one_node}
    if not parts:
        return prepared
    cluster: Any = scenario.cluster
    topology = cluster.build()
    domains = {"cluster": Domains(np.array([0, prepared.nodes]), np.arange(prepared.nodes))}
    for part in parts - {"cluster"}:
        members = topology.members(part)
        domains[part] = Domains(members.offsets, members.nodes)
    return replace(
        prepared,
        blast={part: (domains[part].offsets.tolist(), domains[part].nodes.tolist()) for part in parts},
        sources=tuple(
            source
            if source.blast is None
            else replace(source, blast=replace(source.blast, domains=domains[source.part]))
            for source in prepared.sources
        ),
    )


def _units(domains: Any, count: int, unit: str) -> tuple[tuple[int, ...], ...]:
    """Return the nodes of each unit that is used whole, of `count` nodes together."""
    nodes, offsets = domains.nodes.tolist(), domains.offsets.tolist()
    units = tuple(tuple(nodes[start:stop]) for start, stop in itertools.pairwise(offsets))
    if sorted(nodes) != list(range(count)) or any(unit[-1] - unit[0] + 1 != len(unit) for unit in units):
        raise PathError(("spares", "unit"), f"a {unit} has no nodes for itself alone: it cannot be used whole")
    return units


# ------------------------------------------------------------------------------------------------- reserves


def _reserves(scenario: Scenario) -> dict[str, Reserve]:
    """Return what each pool of spares holds back."""
    spares = scenario.spares
    reserves = {"spare": Reserve(spares.hot)}
    for name, standby in (("warm", spares.warm), ("cold", spares.cold)):
        if standby is not None:
            reserves[name] = Reserve(standby.nodes, standby.refills, standby.delay, standby.one_by_one)
    return reserves


def _check_pools(scenario: Scenario) -> None:
    """Refuse a recovery whose replacements come from nowhere."""
    pools = getattr(scenario.recovery, "pools", ("idle",))
    spares = scenario.spares
    size = {"spare": spares.hot, "warm": spares.warm, "cold": spares.cold, "idle": 1}
    if not any(size[name] for name in pools):
        if pools == ("spare",):
            raise PathError(("recovery", "pools"), "replacements may come from the spares only, and spares.hot is 0")
        rule = f"replacements may come from {' and '.join(pools)} only, and there are none"
        raise PathError(("recovery", "pools"), rule)


def _check_pick(scenario: Scenario) -> None:
    """Refuse to pick nodes by a score that nobody keeps."""
    scheduler: Any = scenario.scheduler
    if scheduler.pick == "best-score" and not getattr(scenario.repair, "lemons", ()):
        rule = "best-score needs repair with lemons: their policy keeps the score"
        raise PathError(("scheduler", "pick"), rule)


def _whole_units(scenario: Scenario, counts: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
    """Return the nodes of each unit that is used whole; refuse jobs and spares that are not whole units."""
    unit = scenario.spares.unit
    if unit is None:
        return ()
    if unit not in counts:
        raise PathError(("spares", "unit"), catalog.unknown("part", unit, counts))
    cluster: Any = scenario.cluster
    units = _units(cluster.build().members(unit), counts["node"], unit)
    size = len(units[0])
    if any(len(nodes) != size for nodes in units):
        rule = f"{counts['node']} nodes do not fill {counts[unit]} units of {unit}; whole units are needed"
        raise PathError(("spares", "unit"), rule)
    per_node = counts["gpu"] // counts["node"]
    amounts = [(("spares", "hot"), scenario.spares.hot)]
    amounts += [(("jobs", index, "gpus"), job.gpus // per_node) for index, job in enumerate(scenario.jobs)]  # type: ignore[misc]
    for name in ("warm", "cold"):
        standby = getattr(scenario.spares, name)
        if standby is not None:
            amounts.append((("spares", name, "nodes"), standby.nodes))  # type: ignore[arg-type]
    for path, nodes in amounts:
        if nodes % size:
            raise PathError(path, f"{nodes} nodes are not a whole number of units: a {unit} has {size} nodes")
    if getattr(scenario.recovery, "elastic", False):
        _check_replicas(scenario, per_node, size)
    return units


def _check_replicas(scenario: Scenario, per_node: int, size: int) -> None:
    """Refuse replicas that share a unit where one may leave without the other."""
    for index, job in enumerate(scenario.jobs):
        nodes = job.gpus // per_node // (job.parallelism.data if job.parallelism is not None else 1)
        if nodes % size:
            rule = (
                f"a replica of {nodes} nodes is not a whole number of units of {size}, and with recovery "
                f"'{scenario.recovery.use}' replicas leave one by one"
            )
            raise PathError(("jobs", index, "parallelism"), rule)


# -------------------------------------------------------------------------------------------------- jobs


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
    step_time, mfu = _step(scenario, index)
    repair: Any = scenario.repair
    mtti, detection_mean = prior(sources, nodes / counts["node"], scenario.warmup + scenario.horizon, repair.success)
    checkpoint: Any = scenario.checkpoint
    try:
        closed = checkpoint.build(mtti, step_time)
    except ValueError as error:
        raise PathError(("checkpoint", "tiers", 0, "interval"), str(error)) from None
    return PreparedJob(
        name=spec.name,
        gpus=spec.gpus,
        nodes=nodes,
        replicas=_replicas(scenario, index, nodes),
        step_time=step_time,
        keeps_batch=spec.batch is not None and spec.batch.on_loss == "keep",
        target=_target(spec, step_time),
        arrival=spec.arrival,
        deadline=spec.deadline,
        checkpoint=closed,
        mtti=mtti,
        detection_mean=detection_mean,
        mfu=mfu,
        tokens=spec.batch.tokens if spec.batch is not None else 0,
    )


def _nearest(gpus: int, gpus_per_node: int) -> str:
    below = gpus // gpus_per_node * gpus_per_node
    return f"{below} or {below + gpus_per_node}" if below else str(gpus_per_node)


def _replicas(scenario: Scenario, index: int, nodes: int) -> int:
    """Return the number of groups that the recovery strategy may separate."""
    recovery: Any = scenario.recovery
    if not recovery.elastic:
        return 1
    layout = scenario.jobs[index].parallelism
    if layout is None:
        rule = f"recovery '{recovery.use}' works by replica: give the job parallelism with its data width"
        raise PathError(("jobs", index), rule)
    if nodes % layout.data:
        rule = f"{nodes} nodes do not divide into {layout.data} replicas of whole nodes"
        raise PathError(("jobs", index, "parallelism", "data"), rule)
    if recovery.min_replicas > layout.data:
        rule = f"is {recovery.min_replicas}, but job '{scenario.jobs[index].name}' has {layout.data} replicas"
        raise PathError(("recovery", "min_replicas"), rule)
    return layout.data


def _step(scenario: Scenario, index: int) -> tuple[float, float | None]:
    """Return the time of a healthy step [s] (0 if unknown) and its MFU."""
    spec = scenario.jobs[index]
    flop = None
    peak = math.nan
    if spec.model is not None:
        shapes = catalog.models()
        if spec.model not in shapes:
            raise PathError(("jobs", index, "model"), catalog.unknown("model", spec.model, shapes))
        if spec.batch is not None:
            shape = {key: value for key, value in shapes[spec.model].items() if key not in ("title", "source")}
            flop = spec.batch.tokens * model_flop_per_token(sequence=spec.batch.sequence, **shape)
            peak = _peak(scenario, index)
    if spec.mfu is not None:
        if spec.mfu == 0:
            raise PathError(("jobs", index, "mfu"), "must be above zero: with an MFU of 0 no step ever ends")
        assert flop is not None
        return step_time_from_mfu(flop, spec.gpus, peak, spec.mfu), spec.mfu
    if spec.step_time is None:
        return 0.0, None
    if spec.step_time == 0:
        raise PathError(("jobs", index, "step_time"), "must be above zero")
    return spec.step_time, flop / (spec.step_time * spec.gpus * peak) if flop is not None else None


def _peak(scenario: Scenario, index: int) -> float:
    """Return the dense peak of the cluster's accelerator at the job's precision [FLOP/s]."""
    cluster: Any = scenario.cluster
    parts = catalog.accelerators()
    if cluster.accelerator not in parts:
        raise PathError(("cluster", "accelerator"), catalog.unknown("accelerator", cluster.accelerator, parts))
    peaks = parts[cluster.accelerator]["peak"]
    precision = scenario.jobs[index].precision
    if precision not in peaks:
        rule = f"the catalog has no {precision} peak of {cluster.accelerator} (it has {', '.join(peaks)})"
        raise PathError(("jobs", index, "precision"), rule)
    return float(peaks[precision])


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

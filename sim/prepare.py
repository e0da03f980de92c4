"""From a scenario to what all its replications share: topology arrays, sources, job plans, closed form."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sim import catalog
from sim.failures import Replay
from sim.failures.bundle import Bundle
from sim.perf import model_flop_per_token, step_time_from_mfu
from sim.prepared import Prepared, PreparedJob
from sim.scenario import Work

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.failures import Source
    from sim.scenario import JobSpec, Scenario

__all__ = ["PathError", "examine", "prepare"]


class PathError(ValueError):
    """A mistake at a place of the scenario; ``path`` leads to it, ``rule`` says what is wrong."""

    def __init__(self, path: tuple[str | int, ...], rule: str) -> None:
        super().__init__(f"{'.'.join(map(str, path))}: {rule}")
        self.path = path
        self.rule = rule


def examine(scenario: Scenario) -> Prepared:
    """Check what needs more than one part of the scenario, from counts alone: no array is built.

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
    sources, origins, merged = _build_sources(scenario, counts)
    recovery: Any = scenario.recovery
    repair: Any = scenario.repair
    detection: Any = scenario.detection
    _check_sources(sources, origins, cluster.stopping_parts, recovery)
    _check_pools(scenario)
    gpus_per_node = counts["gpu"] // counts["node"]
    sources = [
        replace(source, repair=source.repair or repair.time, detection=source.detection or detection.time)
        for source in sources
    ]
    jobs = tuple(_build_job(scenario, index, counts, sources, gpus_per_node) for index in range(len(scenario.jobs)))
    return Prepared(
        scenario=scenario,
        name=scenario.name,
        nodes=counts["node"],
        gpus_per_node=gpus_per_node,
        spares=scenario.spares.hot,
        horizon=scenario.horizon,
        warmup=scenario.warmup,
        windows=scenario.windows,
        stationary=scenario.initial == "stationary",
        seed=scenario.seed,
        sources=tuple(sources),
        slots_per_node={"node": 1, "gpu": gpus_per_node, "nic": counts.get("nic", 0) // counts["node"]},
        blast={},
        jobs=jobs,
        detection=detection.time,
        repair=repair.time,
        recovery=recovery,
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
    parts = {source.part for source in prepared.sources} - set(prepared.slots_per_node) - {"job"}
    if not parts:
        return prepared
    cluster: Any = scenario.cluster
    topology = cluster.build()
    blast = {}
    for part in parts:
        members = topology.members(part)
        blast[part] = (members.offsets.tolist(), members.nodes.tolist())
    return replace(prepared, blast=blast)


# ---------------------------------------------------------------------------------------------- failures


def _build_sources(scenario: Scenario, counts: Mapping[str, int]) -> tuple[list[Source], list[int], int]:
    """Return the runtime sources, which entry of the scenario each is from, and how many intervals were joined."""
    sources: list[Source] = []
    origins: list[int] = []
    merged = 0
    jobs = len(scenario.jobs)
    for index, choice in enumerate(scenario.failures):
        path = ("failures", index)
        try:
            if isinstance(choice, Replay):
                recorded, joined = choice.build_all(counts)
                sources += recorded
                merged += joined
            elif isinstance(choice, Bundle):
                sources += [source.build(counts, jobs) for source in choice.expand(catalog.bundle(choice.use))]
            else:
                kind: Any = choice
                sources.append(kind.build(counts, jobs))
        except ValueError as error:
            raise PathError(path, str(error)) from None
        origins += [index] * (len(sources) - len(origins))
    first: dict[str, int] = {}
    for source, index in zip(sources, origins, strict=True):
        if source.name in first:
            rule = f"cause '{source.name}' is also one of failures.{first[source.name]}; each needs a name of its own"
            raise PathError(("failures", index), rule)
        first[source.name] = index
    return sources, origins, merged


def _check_sources(sources: list[Source], origins: list[int], stopping: tuple[str, ...], recovery: Any) -> None:
    """Refuse combinations that would be wrong, and parts that stop nobody."""
    for source, index in zip(sources, origins, strict=True):
        if source.part != "job" and source.part not in stopping:
            rule = f"'{source.name}': a failed {source.part} stops no node here (parts that do: {', '.join(stopping)})"
            raise PathError(("failures", index, "part"), rule)
        if source.clock != "wall" and source.part not in ("node", "gpu", "nic", "job"):
            rule = f"'{source.name}': clock: {source.clock} is for parts of one node, and a {source.part} is not one"
            raise PathError(("failures", index, "clock"), rule)
        memoryless = source.law is None or source.law.memoryless
        if recovery.has_unexposed_phases and source.clock == "wall" and not memoryless:
            rule = (
                f"'{source.name}' ages in wall time, but recovery '{recovery.use}' has a phase that failures cannot "
                f"hit (exposed: false); give the source clock: busy"
            )
            raise PathError(("failures", index), rule)


def _check_pools(scenario: Scenario) -> None:
    pools = getattr(scenario.recovery, "pools", ("idle",))
    if pools == ("spare",) and scenario.spares.hot == 0:
        rule = "replacements may come from the spares only, and spares.hot is 0"
        raise PathError(("recovery", "pools"), rule)


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
    if nodes + scenario.spares.hot > counts["node"]:
        rule = (
            f"needs {nodes} nodes, but of the cluster's {counts['node']} nodes {scenario.spares.hot} are kept as hot "
            f"spares: it could never start"
        )
        raise PathError((*path, "gpus"), rule)
    step_time, mfu = _step(scenario, index)
    mtti, detection_mean = _prior(sources, nodes / counts["node"])
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


def _prior(sources: list[Source], share: float) -> tuple[float, float]:
    """Return the mean time to interrupt [s] of a job on a share of the nodes, and the mean detection time [s].

    Exact for exponential lives. A unit that takes several nodes down is counted by the share of the cluster.
    """
    total = 0.0
    detection = 0.0
    for source in sources:
        if source.law is None and source.recorded is None:
            continue
        rate = source.rate / source.units if source.part == "job" else source.rate * share
        rate *= source.interrupts
        total += rate
        assert source.detection is not None
        detection += rate * source.detection.mean_value
    return (1 / total, detection / total) if total > 0 else (math.inf, 0.0)


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

"""From what a scenario says of failures to runtime sources, and what must not be combined."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ettrick.sim import catalog
from ettrick.sim.cluster import FABRIC_PARTS, FatTree
from ettrick.sim.engine.prepared import PartPlan
from ettrick.sim.failures import Replay
from ettrick.sim.failures.health import FALSE_ALARM
from ettrick.sim.failures.parts import Bundle, of_node
from ettrick.sim.failures.source import KNOWN, OF_ONE_NODE, FailureSource
from ettrick.sim.policies.detection.race import DetectionRace
from ettrick.sim.policies.repair import Simple
from ettrick.sim.prepare.placement import LruCache
from ettrick.sim.records import LogError
from ettrick.sim.scenario.fields import PathError, RuleError
from ettrick.sim.scenario.laws import Exponential
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ettrick.sim.cluster import ClusterSpec
    from ettrick.sim.engine.prepared import Prepared
    from ettrick.sim.failures import Maintenance, Rollout
    from ettrick.sim.failures.effects import BlastRadius
    from ettrick.sim.failures.health import Health, Prediction
    from ettrick.sim.failures.parts import Cause
    from ettrick.sim.failures.source import HiddenFault, ImperfectRepair, OutageLog, RepairFrom
    from ettrick.sim.input.scenario import AnyRecovery, AnyRepair, AnySource, Scenario
    from ettrick.sim.policies.repair import Stock
    from ettrick.sim.scenario.fields import BrokenRules
    from ettrick.sim.scenario.law_model import LawModel

_MOST_STRETCHES = 1_000_000

_MANY_ROWS, _COVERED = 30, 0.8

"""Outages of a log, and share of the horizon within which so many all begin with a chance of 0.1 % only [-]."""

_NETWORK = ("network", "nic", "cable", "optic", "link", "switch")

"""Words in the names of causes that are the network's."""


def build_sources(scenario: Scenario, counts: Mapping[str, int]) -> tuple[list[FailureSource], int]:
    """Return the runtime sources with all their laws, and how many overlapping intervals of logs were joined.

    `counts` are the units of each part of the cluster. Scenarios share those that follow from the same parts.

    Raises
    ------
    PathError
        At the first mistake.
    """
    names = ("cluster", "repair", "recovery", "detection", "health", "initial", "warmup", "horizon")
    read = [*(getattr(scenario, name) for name in names), *scenario.jobs, None, *scenario.failures]
    if any(isinstance(choice, Replay) for choice in scenario.failures):  # of a file, which may change
        return _all_sources(scenario, counts)
    key = tuple(part if isinstance(part, str | float | None) else id(part) for part in read)
    # What is kept holds all that its key names.
    sources, merged, _ = _SOURCES.get(key, lambda: (*_all_sources(scenario, counts), read))
    return [*sources], merged


_SOURCES: LruCache[tuple[list[FailureSource], int, list[object]]] = LruCache(16)


def _all_sources(scenario: Scenario, counts: Mapping[str, int]) -> tuple[list[FailureSource], int]:
    """Return what `build_sources` does, made anew."""
    repair, cluster = repair_of(scenario), scenario.cluster
    sources, origins, merged = _build(scenario, counts)
    sources = _thin([_with_cables(source, cluster) for source in sources], origins)
    sources = [_with_ages(source, cluster) for source in sources]
    for source, index in zip(sources, origins, strict=True):
        for at, rule in _broken_rules(source, scenario, index):
            raise PathError(("failures", index, *at), rule)
    sources = [_with_domain(source, index, cluster) for source, index in zip(sources, origins, strict=True)]
    detection = scenario.detection
    race = functools.cache(detection.detection_race)
    built = [
        replace(
            source,
            repair=source.repair.scaled(repair.scale) if source.repair is not None else repair.single_time,
            repair_from=_repair_from(source, scenario.failures[index]),
            detection_race=race(source.fault, source.effect.use)
            if source.detection is None
            else DetectionRace.by(source.detection).scaled(detection.scale),
        )
        for source, index in zip(sources, origins, strict=True)
    ]
    for source, index in zip(built, origins, strict=True):
        if source.detection_race is None and source.effect.use == "spike":
            rule = f"'{source.name}': a loss spike stays undetected here; give it a detection time"
            raise PathError(("failures", index, "detection"), rule)
    if scenario.health is not None:
        built = [scenario.health.watched(source) for source in built]
        built += _false_alarms(scenario.health, built, scenario, counts["node"], repair)
    return built, merged


def _false_alarms(
    health: Health, sources: Sequence[FailureSource], scenario: Scenario, nodes: int, repair: AnyRepair
) -> list[FailureSource]:
    """Return the source of what false alarms drain; none where there are none."""
    rate = health.false_alarms.per_second * nodes if health.false_alarms is not None else 0.0
    if health.prediction is not None:
        showing = _foreseen_rate(health.prediction, sources, scenario.warmup + scenario.horizon)
        rate += health.prediction.false_alarms(showing, nodes)
    if any(source.name == FALSE_ALARM for source in sources):
        raise PathError(("health",), f"'{FALSE_ALARM}' is the cause of what it costs, and also one of failures")
    if not rate:
        return []
    if health.test is None and not repair.is_stated:
        rule = "drains healthy nodes: say how long they are away (test: 2 h), or give the scenario a repair"
        raise PathError(("health",), rule)
    return [
        FailureSource(
            FALSE_ALARM,
            part="node",
            units=nodes,
            law=Exponential.from_seconds(mean=nodes / rate),
            repair=health.test.scaled(repair.scale) if health.test is not None else repair.single_time,
            repair_from="scenario",
            detection_race=DetectionRace.by(KNOWN),
            fault="planned",
            saves=True,
            recall=1.0,
            alarm=True,
            slots_per_node=1,
        )
    ]


def _foreseen_rate(prediction: Prediction, sources: Sequence[FailureSource], length: float) -> float:
    """Return the rate of failures that a prediction may see coming [1/s], over some time [s]."""
    foreseen = [source for source in sources if source.recall]
    if prediction.faults is not None and not foreseen:
        classes = sorted({source.fault for source in sources if source.slots_per_node and not source.planned})
        rule = f"no cause of single nodes has one of these classes; there are {', '.join(classes) or 'none'}"
        raise PathError(("health", "prediction", "faults"), rule)
    return math.fsum(
        source.rate * source.interrupts * (source.tempo.mean(length) if source.tempo is not None else 1.0)
        for source in foreseen
    )


def parts_of(scenario: Scenario, sources: Sequence[FailureSource]) -> dict[str, PartPlan]:
    """Return the stocks of parts, each with the causes whose repairs wait for it; refuse what is of no use."""
    tiers = [tier.name for tier in getattr(scenario.repair, "tiers", ())]
    part_of_cause: dict[str, str] = {}
    for name, stock in scenario.parts.items():
        path = ("parts", name)
        causes = _causes_of_part(scenario, name, stock, path)
        _check_causes(causes, path, sources, part_of_cause, is_stated=bool(stock.causes))
        if stock.tier and stock.tier not in tiers:
            raise PathError((*path, "tier"), _unknown_tier(stock.tier, tiers))
        for key in ("price", "holding"):
            if getattr(stock, key) is not None and scenario.cost is None:
                raise PathError((*path, key), "is part of the cost: give the scenario the section cost")
        if scenario.initial == "stationary":
            raise PathError(path, "repairs that wait have no stationary state that is known; use a warmup instead")
        part_of_cause |= dict.fromkeys(causes, name)
    return {
        name: PartPlan(
            stock,
            frozenset(cause for cause, part in part_of_cause.items() if part == name),
            tiers.index(stock.tier) if stock.tier else len(tiers) - 1,
        )
        for name, stock in scenario.parts.items()
    }


def _causes_of_part(scenario: Scenario, name: str, stock: Stock, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the causes whose repairs need a part."""
    parts = {cause.name: getattr(cause, "part", "") for choice in scenario.failures for cause in causes_of(choice)}
    causes = stock.causes or tuple(cause for cause, part in parts.items() if part == name)
    if not causes:
        rule = catalog.unknown("part", name, sorted(set(parts.values()) - {"", "job"}))
        raise PathError(path, f"{rule}, or say whose repairs need it: causes: [...]")
    return causes


def _check_causes(
    causes: tuple[str, ...],
    path: tuple[str, ...],
    sources: Sequence[FailureSource],
    part_of_cause: Mapping[str, str],
    *,
    is_stated: bool,
) -> None:
    """Refuse causes without a repair that could wait for a part, and those whose repairs wait for another one."""
    repaired = [
        source.name
        for source in sources
        if not (source.part == "job" or source.recorded or source.rollout or source.alarm or source.is_condition)
    ]
    for index, cause in enumerate(causes):
        where: tuple[str | int, ...] = (*path, "causes", index) if is_stated else path
        if cause not in repaired:
            if any(source.name == cause for source in sources):
                raise PathError(where, f"'{cause}' has no repair that could wait for a part")
            raise PathError(where, catalog.unknown("cause", cause, repaired))
        if cause in part_of_cause:
            part = part_of_cause[cause]
            raise PathError(where, f"repairs of '{cause}' wait for the part '{part}' already; they can need one only")


def _unknown_tier(name: str, tiers: Sequence[str]) -> str:
    return catalog.unknown("tier", name, tiers) if tiers else "needs repair with tiers"


def repair_of(scenario: Scenario) -> AnyRepair:
    """Return the repair of a scenario; without one every source has its own."""
    return Simple() if scenario.repair is None else scenario.repair


def causes_of(
    choice: AnySource, stated: AnyRepair | None = None, gpus_per_node: int | None = None
) -> list[Cause | Maintenance | Rollout]:
    """Return what an entry of ``failures`` describes, those of a log aside, where the scenario states a repair or none.

    Rates of nodes are those of nodes of so many GPUs; as they were counted where that is omitted.

    Raises
    ------
    ValueError
        As `ettrick.sim.failures.parts.Bundle.expand`.
    """
    if isinstance(choice, Replay):
        return []
    if not isinstance(choice, Bundle):
        return [choice]
    return list(choice.expand(catalog.bundle(choice.use), stated, gpus_per_node))


def _repair_from(source: FailureSource, choice: AnySource) -> RepairFrom:
    """Return whose repair applies to a source that an entry of ``failures`` describes."""
    if source.part == "job":
        return ""
    if source.recorded is not None or source.rollout is not None:
        return "source"
    if source.repair is None:
        return "scenario"
    if not isinstance(choice, Bundle):
        return "source"
    return "bundle" if choice.repair is None else "entry"


def _build(scenario: Scenario, counts: Mapping[str, int]) -> tuple[list[FailureSource], list[int], int]:
    """Return the runtime sources, which entry of the scenario each is from, and how many intervals were joined."""
    sources: list[FailureSource] = []
    origins: list[int] = []
    merged, jobs = 0, len(scenario.jobs)
    logs = [choice for choice in scenario.failures if isinstance(choice, Replay)]
    read = functools.cache(Replay.read)
    for index, choice in enumerate(scenario.failures):
        path = ("failures", index)
        try:
            if isinstance(choice, Replay):
                recorded, joined = choice.build_all(counts, logs, read)
                sources += recorded
                merged += joined
            else:
                sources += _built(choice, counts, jobs, scenario.repair)
        except RuleError as error:
            raise PathError((*path, *error.at), error.rule) from None
        except (ValueError, LogError) as error:
            raise PathError(path, str(error)) from None
        origins += [index] * (len(sources) - len(origins))
    first: dict[str, int] = {}
    for source, index in zip(sources, origins, strict=True):
        if source.name in first:
            rule = f"cause '{source.name}' is also one of failures.{first[source.name]}; each needs a name of its own"
            raise PathError(("failures", index), rule)
        first[source.name] = index
    return sources, origins, merged


def _built(choice: AnySource, counts: Mapping[str, int], jobs: int, stated: AnyRepair | None) -> list[FailureSource]:
    """Return the runtime sources of an entry that is no log; those of points of a study, made last, are kept."""

    def make() -> list[FailureSource]:
        gpus = counts["gpu"] // counts["node"]
        return [cause.build(counts, jobs) for cause in causes_of(choice, stated, gpus)]

    # Of a repair they depend on no time.
    repair = None if stated is None else (stated.is_stated, stated.single_time is None)
    return _BUILT.get((repr(choice), tuple(counts.items()), jobs, repair), make)


_BUILT: LruCache[list[FailureSource]] = LruCache(64)


def _thin(sources: list[FailureSource], origins: list[int]) -> list[FailureSource]:
    """Draw causes whose hazard a rollout changes at the highest hazard that a node can have."""
    thinned = list(sources)
    names = [source.name for source in sources]
    for source, index in zip(sources, origins, strict=True):
        for cause, ratio in source.rollout.hazard.items() if source.rollout is not None else ():
            path = ("failures", index, "hazard", cause)
            if cause not in names:
                raise PathError(path, catalog.unknown("cause", cause, names))
            target = thinned[names.index(cause)]
            if target.of_fabric or target.part not in OF_ONE_NODE or target.law is None or target.fix is not None:
                raise PathError(path, f"'{cause}' is not a cause of single nodes with a rate")
            if target.renews == "never":
                raise PathError(path, f"'{cause}' has one life for each unit (renews: never); it must go on to thin it")
            if not all(law.memoryless for law in target.variety.laws(target.law)):
                raise PathError(path, f"a changed hazard thins '{cause}', which is right only for a constant rate")
            ceiling = max(ratio, 1.0)
            thinned[names.index(cause)] = replace(
                target,
                law=target.law.scaled(1 / ceiling),
                variety=target.variety.scaled(1 / ceiling),
                ceiling=target.ceiling * ceiling,
                thinned=True,
            )
    return thinned


def _with_domain(source: FailureSource, index: int, cluster: ClusterSpec) -> FailureSource:
    """Return a source that knows how many nodes one of its incidents can take."""
    blast = source.blast
    if blast is None or source.part == "cluster":
        return source
    members = cluster.nodes_behind(source.part)
    if blast.size is not None and blast.size.least > members:
        rule = f"is {blast.size.least} nodes, but a {source.part} has {members}"
        raise PathError(("failures", index, "size", "least"), rule)
    return replace(source, blast=replace(blast, members=members))


def _with_cables(source: FailureSource, cluster: ClusterSpec) -> FailureSource:
    """Return a source that knows whether the cables decide whom its failures strike."""
    whole = source.blast is not None or source.rollout is not None or not source.effect.stops
    if source.part not in FABRIC_PARTS or whole or (source.part == "nic" and cluster.nodes_behind("nic")):
        return source  # of a NIC whose node crashes without it, the node is repaired
    return replace(source, of_fabric=True, cuts=cluster.share_that_cuts(source.part))


def _with_ages(source: FailureSource, cluster: ClusterSpec) -> FailureSource:
    """Return a source that knows how old its parts are when the simulation starts."""
    if not any(pool.age for pool in cluster.pools) or not source.slots_per_node or source.law is None:
        return source
    if all(law.memoryless for law in source.variety.laws(source.law)):
        return source  # it makes no difference
    return replace(source, ages=tuple((pool.count, pool.age) for pool in cluster.pools))


def _broken_rules(source: FailureSource, scenario: Scenario, index: int) -> BrokenRules:
    """Yield keys of an entry of ``failures`` and the rule that a source of it breaks with the rest of the scenario."""
    repair = repair_of(scenario)
    yield from _wrong_part(source, scenario)
    yield from _wrong_clock(source, scenario.recovery)
    yield from _wrong_repair(source, scenario, scenario.failures[index], repair)
    yield from _wrong_tempo(source, scenario.warmup + scenario.horizon)
    if scenario.initial == "stationary" and source.law is not None and source.part != "job":
        yield from _without_stationary_state(source, source.law, repair)


def _wrong_part(source: FailureSource, scenario: Scenario) -> BrokenRules:
    """Yield parts that neither stop nor slow a job, and lost bandwidth that no job needs."""
    stopping, communicates = scenario.cluster.stopping_parts, any(job.may_wait for job in scenario.jobs)
    wanted = (
        "no job says what share of its step waits for communication (jobs.0.communication), or lets the step model "
        "tell (model, batch, parallelism)"
    )
    if source.effect.use == "degrade" and not communicates:
        yield ("effect",), f"'{source.name}' takes bandwidth, and {wanted}"
    if source.part not in ("job", "cluster", *stopping) and not (source.of_fabric and communicates):
        also = f", and {wanted}" if source.of_fabric else ""
        rule = f"'{source.name}': a failed {source.part} stops no node here{also}"
        yield ("part",), f"{rule} (parts that do: {', '.join(stopping)})"


def failure_warnings(scenario: Scenario, sources: Sequence[FailureSource]) -> Iterator[str]:
    """Yield what to know of bundles that are adapted, or whose repair is replaced, of fabrics, trays and logs."""
    for index, choice in enumerate(scenario.failures):
        if isinstance(choice, Bundle):
            yield from _adapted(scenario, index, choice, sources)
            yield from _replaced_repairs(scenario, index, choice)
    health = scenario.health
    for key, check in (("checks", health.checks), ("preflight", health.preflight)) if health is not None else ():
        if check is not None and not any(map(check.share, sources)):
            yield f"health.{key} finds nothing: no cause of single nodes is hidden, slow or computes wrongly"
    yield from _fabric_warnings(scenario)
    yield from _tray_warnings(scenario, sources)
    yield from _log_warnings(sources, scenario.warmup + scenario.horizon)


def _replaced_repairs(scenario: Scenario, index: int, choice: Bundle) -> Iterator[str]:
    """Yield how many repair times of a bundle the scenario's repair replaces."""
    timed = 0 if scenario.repair is None else len(choice.replaced(catalog.bundle(choice.use), scenario.repair))
    if scenario.repair is not None and timed:
        yield (
            f"failures.{index}: the scenario's repair ({scenario.repair.use}) replaces the repair times that "
            f"{choice.use} has for {timed} of its {len(catalog.causes(choice.use))} causes; "
            f"keeps_repair: true keeps them"
        )


def _tray_warnings(scenario: Scenario, sources: Sequence[FailureSource]) -> Iterator[str]:
    """Yield that no source acts on the switch trays of scale-up domains."""
    scale_up = scenario.cluster.scale_up
    of_trays = any(source.part in ("switch_tray", "scale_up") and not source.planned for source in sources)
    if scale_up is not None and scale_up.switch_trays and sources and not of_trays:
        yield (
            f"no source of failures acts on the {scale_up.switch_trays} switch trays of each scale-up domain, and one "
            "that fails stops its domain. No rate is published; llama3-405b-gb200 assumes this source of failures: "
            f"- {catalog.SWITCH_TRAYS}"
        )


def _adapted(scenario: Scenario, index: int, choice: Bundle, sources: Sequence[FailureSource]) -> Iterator[str]:
    """Yield which rates of a bundle are adapted to the size of nodes, and which are not to that of the job."""
    content, gpus = catalog.bundle(choice.use), scenario.cluster.gpus_of_a_node
    where = f"failures.{index}: {choice.use}"
    if names := of_node(content) if content.get("node_gpus", gpus) != gpus else []:
        yield (
            f"{where} counts {', '.join(names)} by nodes of {content['node_gpus']} GPUs: nodes of {gpus} have "
            f"{gpus / content['node_gpus']:.4g} times the rate, in proportion to the GPUs"
        )
    job = catalog.another_size(choice.use, {job.name: job.gpus for job in scenario.jobs})
    of_job = [source for source in sources if source.name in catalog.causes(choice.use) and source.part == "job"]
    if job is None or not of_job:
        return
    rate = DAY * sum(source.rate / max(source.units, 1) for source in of_job)
    counted = " to ".join(f"{size:,}" for size in dict.fromkeys(catalog.counted_on(choice.use) or ()))
    yield (
        f"{where} was counted on jobs of {counted} GPUs, and '{job.name}' has {job.gpus:,}: "
        f"{', '.join(source.name for source in of_job)} keep the rate of that job, {rate:.3g} a day (in proportion to "
        f"the GPUs {rate * job.ratio:.3g}); its other causes are in proportion to the GPUs"
    )


def _fabric_warnings(scenario: Scenario) -> Iterator[str]:
    """Yield a line for a fabric that was chosen and is larger than usual, or for each bundle that leaves one out.

    The latter are bundles whose network faults strike nodes, where the cables could spare those.
    """
    fabric = scenario.cluster.fabric
    if isinstance(fabric, FatTree) and not scenario.cluster.states_fabric and fabric.core is not None:
        yield f"cluster.fabric is not stated: {scenario.cluster.hosts.nodes:,} nodes get a {fabric.title}"
    elif fabric.reroute != "none" or fabric.homes > 1:
        for index, source in enumerate(scenario.failures):
            names = catalog.causes(source.use) if isinstance(source, Bundle) else []
            causes = [name for name in names if any(word in name for word in _NETWORK)]
            if causes:
                yield (
                    f"failures.{index}: '{source.use}' counts {', '.join(causes)} as faults of nodes, which second "
                    "cables and rerouting do not spare; scale them down and add sources of nic, cable_node_leaf and "
                    "leaf"
                )


def _log_warnings(sources: Iterable[FailureSource], length: float) -> Iterator[str]:
    """Yield what was assumed in reading logs, and a line if they do not cover the time that is simulated [s]."""
    logs = [source.recorded for source in sources if source.recorded is not None and not source.planned]
    if not logs:
        return
    yield from dict.fromkeys(note for log in logs for note in log.notes)
    first, last = min(log.start[0] for log in logs) / DAY, max(log.start[-1] for log in logs) / DAY
    rows, days = sum(len(log.start) for log in logs), length / DAY
    if first >= days:
        yield (
            f"no outage of the log is simulated: the first begins at {first:.4g} d, after {days:.4g} d; origin: states "
            "the moment of the log at which the simulation starts"
        )
    elif rows >= _MANY_ROWS and last < _COVERED * days:
        yield f"the log ends long before the horizon: its last outage begins at {last:.4g} of {days:.4g} d"


def _is_shared(source: FailureSource) -> bool:
    """Return whether a part of it serves several nodes."""
    return source.of_fabric or source.part not in (*OF_ONE_NODE, "job")


def _is_mended_whole(source: FailureSource) -> bool:
    """Return whether a repair of a shared part mends the part, and not the nodes of a failure one by one."""
    return _is_shared(source) and (source.blast is None or source.blast.repair == "part")


def _wrong_clock(source: FailureSource, recovery: AnyRecovery) -> BrokenRules:
    """Yield clocks that stand still for something else than one node, and lives that age while nothing can fail."""
    if source.clock != "wall" and _is_shared(source):
        rule = f"'{source.name}': clock: {source.clock} is for parts of one node, and a {source.part} is not one"
        yield ("clock",), rule
    is_on_wall = source.clock == "wall" and source.fix is None  # bugs count the work of their job
    memoryless = source.law is None or all(law.memoryless for law in source.variety.laws(source.law))
    if recovery.has_unexposed_phases and is_on_wall and not memoryless and not source.defer:
        rule = f"'{source.name}' ages in wall time, but recovery '{recovery.use}' has a phase that failures cannot hit"
        yield (), f"{rule} (exposed: none or processes); give the source clock: busy, or defer: true"


def _wrong_repair(source: FailureSource, scenario: Scenario, choice: AnySource, repair: AnyRepair) -> BrokenRules:
    """Yield missing repairs, and what does not fit the repair of a source, by tiers or in a time."""
    name, recovery = source.name, scenario.recovery
    if not repair.is_stated and _repair_from(source, choice) == "scenario":
        whose = f" of {choice.use}" if isinstance(choice, Bundle) else ""
        rule = f"'{name}'{whose} has no repair time; give it a repair, or the scenario (repair: {{time: 1 d}})"
        yield (), rule
    by_tiers = repair.single_time is None and source.repair is None
    is_mended_whole = _is_mended_whole(source)
    wanted = "give the source a repair time" + (", or keeps_repair: true" if isinstance(choice, Bundle) else "")
    if by_tiers and is_mended_whole and source.recorded is None:
        yield ("repair",), f"'{name}': a {source.part} does not go through tiers of repair; {wanted}"
    if source.residue is not None:
        yield from _wrong_relapse(source, source.residue, by_tiers=by_tiers, is_mended_whole=is_mended_whole)
    if by_tiers and source.fault in recovery.narrows_on:
        yield ("repair",), f"'{name}': recovery '{recovery.use}' keeps nodes that lost a {source.fault}; {wanted}"
    if source.tier:
        yield from _wrong_tier(source, [tier.name for tier in getattr(repair, "tiers", ())])


def _wrong_relapse(
    source: FailureSource, residue: ImperfectRepair, *, by_tiers: bool, is_mended_whole: bool
) -> BrokenRules:
    """Yield what does not fit the faults that repairs of a source leave."""
    if by_tiers and residue.probability is not None:
        rule = f"'{source.name}': the tiers of repair decide whether a fault is left; leave the probability out"
        yield ("relapse", "probability"), rule
    if not by_tiers and residue.probability is None:
        yield ("relapse",), f"'{source.name}': needs a probability; only tiers of repair can do without"
    if is_mended_whole:
        yield ("relapse",), f"'{source.name}': it is nodes that relapse, and a {source.part} is repaired as a whole"


def _wrong_tier(source: FailureSource, tiers: list[str]) -> BrokenRules:
    """Yield what does not fit the tier at which the repair of a source begins."""
    if source.tier not in tiers:
        yield ("tier",), _unknown_tier(source.tier, tiers)
    if source.repair is not None:
        yield ("tier",), f"'{source.name}' has a repair of its own, which goes past the tiers; leave one of the two out"


def _wrong_tempo(source: FailureSource, length: float) -> BrokenRules:
    """Yield patterns so fine that a simulation of some `length` [s] would have more steps than memory holds."""
    swings, calendar = (source.tempo.swings, source.tempo.calendar) if source.tempo is not None else (None, None)
    widths = {("swings", "every"): swings.every if swings is not None else math.inf}
    widths[("calendar", "period")] = calendar.period / len(calendar.factors) if calendar is not None else math.inf
    for key, width in widths.items():
        if length / width > _MOST_STRETCHES:
            rule = f"'{source.name}': makes more than a million stretches in the time that is simulated"
            yield ("tempo", *key), rule


def _without_stationary_state(source: FailureSource, law: LawModel, repair: AnyRepair) -> BrokenRules:
    """Yield what has no known state after a long time."""
    differ = bool(source.variety)
    reasons = {
        "pools of a known age": bool(source.ages),
        "tiers of repair": repair.single_time is None and source.repair is None,
        "a hazard that changes in time": source.tempo is not None,
        "faults that repairs leave": source.hidden is not None or source.residue is not None,
        "incidents": source.blast is not None,
        "nodes that differ and renew at return": differ and source.renews == "at_return",
        "nodes that differ and a law which a hazard ratio does not just rescale": differ
        and not all(law.proportional for law in source.variety.laws(law)),
    }
    for reason, applies in reasons.items():
        if applies:
            rule = f"'{source.name}' has {reason}, of which the stationary state is not known; use a warmup instead"
            yield (), rule


# How often failures strike.


def unforeseen(sources: Iterable[FailureSource]) -> list[FailureSource]:
    """Return sources without the failures that show signs: the others alone take work away."""
    return [
        replace(source, interrupts=source.interrupts * (1 - source.recall)) if source.recall else source
        for source in sources
    ]


class FailureRates(NamedTuple):
    """The strikes of sources on some nodes over a time [s]; `success` is the share of repairs that help."""

    nodes: int
    length: float
    success: float

    @classmethod
    def of(cls, prepared: Prepared) -> FailureRates:
        """Return the rates of a scenario."""
        return cls(prepared.nodes, prepared.warmup + prepared.horizon, prepared.repair.success)

    def interrupts(self, sources: Iterable[FailureSource], nodes: int) -> tuple[float, float]:
        """Return the mean time to interrupt [s] of a job on some nodes, and the mean detection time [s].

        Exact for constant rates. A unit that takes several nodes down is counted by the share of the cluster, and an
        incident in which nodes fail one after another by each of them. What is undetected interrupts no job.
        """
        total = detection = 0.0
        for source in sources:
            if source.detection_race is None or not source.units:  # a source of named jobs, where there are none
                continue
            rate = self._interrupt_rate(source, nodes / self.nodes)
            total += rate
            detection += rate * (1 - source.recall) * (source.detection_race.mean_value if source.effect.stops else 0.0)
        return (1 / total, detection / total) if total > 0 else (math.inf, 0.0)

    def rate(self, source: FailureSource, nodes: int) -> float:
        """Return how often a source interrupts a job on some nodes [1/s]."""
        return 1 / self.interrupts([source], nodes)[0]

    def _interrupt_rate(self, source: FailureSource, share: float) -> float:
        """Return the rate at which a source interrupts a job on a share of the nodes [1/s]."""
        if source.part == "job":
            rate = source.rate / source.units
        elif source.blast is not None:
            rate = _of_incidents(source, source.blast, share)
        elif source.hidden is not None:
            rate = self._of_hidden_faults(source, source.hidden) * share
        else:
            rate = (source.rate if source.recorded is None else self._rows(source.recorded) / self.length) * share
        rate *= source.interrupts * source.cuts
        if source.residue is not None and source.repair is None and self.success > 0:
            rate /= self.success
        return rate if source.tempo is None else rate * source.tempo.mean(self.length)

    def events(self, sources: Iterable[FailureSource], share: float, windows: float) -> float:
        """Return about how many events one replication has, if its jobs hold a `share` of the nodes [-].

        Candidates of failures, with two more for those that interrupt (detection and phases of a job, a node's return),
        and `windows`. Checkpoints and periodic work of jobs have none. An estimate, neither the least nor the most: of
        the scenarios that ship it is within a factor of three.
        """
        events = windows
        for source in sources:
            events += self._candidates(source, min(share, 1.0)) * (1 + 2 * source.interrupts)
        return events

    def _candidates(self, source: FailureSource, share: float) -> float:
        """Return about how many candidates a source has, if jobs hold a `share` of the nodes [-]."""
        if source.recorded is not None:
            return self._rows(source.recorded)
        if source.rollout is not None:
            return float(source.units)
        candidates = self._candidate_rate(source, share) * self.length
        if source.renews == "never":
            candidates = min(candidates, source.units)
        if source.blast is not None and source.blast.spread is not None:
            candidates *= source.blast.mean_size
        return candidates

    def _candidate_rate(self, source: FailureSource, share: float) -> float:
        """Return the rate of the candidates of a source without a log [1/s], as `_candidates`."""
        rate = source.rate * source.ceiling
        if source.law is not None:
            rate *= source.law.renewals(self.length) * source.law.mean_value / self.length
        if source.hidden is not None:
            rate = self._of_hidden_faults(source, source.hidden)
        if source.clock == "busy" and source.part != "job":
            rate *= share
        if source.residue is not None and source.residue.probability is None and self.success > 0:
            rate /= self.success
        if source.tempo is not None:
            rate *= source.tempo.mean(self.length)
        if source.renews == "at_return" and source.repair is not None and rate:
            rate = 1 / (1 / rate + source.repair.mean_value / source.units)
        return rate

    def _rows(self, log: OutageLog) -> float:
        """Return the rows of a log that are in the time [-]."""
        return float((log.start < self.length).sum())

    def _of_hidden_faults(self, source: FailureSource, hidden: HiddenFault) -> float:
        """Return the rate at which hidden faults strike [1/s]: until they are repaired away."""
        if source.law is None:
            return 0.0
        caught = hidden.share + (self.length / hidden.onset.mean_value if hidden.onset is not None else 0.0)
        lives = source.law.renewals(self.length)
        strikes = lives if self.success == 0 else -math.expm1(-lives * self.success) / self.success
        return source.units * caught * strikes / self.length


def _of_incidents(source: FailureSource, blast: BlastRadius, share: float) -> float:
    """Return the rate at which incidents hit a job on a share of the nodes [1/s]."""
    if blast.spread is not None:
        return source.rate * blast.mean_size * share
    if source.part == "cluster":
        missed: float = (1 - share) ** blast.mean_size
        return source.rate * (1 - missed)
    return source.rate * share

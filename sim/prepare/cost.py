"""From a scenario to what its cluster draws and costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim import catalog
from sim.engine.prepared import Upkeep
from sim.failures.bundle import Bundle
from sim.prepare.parts import known_chips
from sim.scenario.fields import PathError
from sim.scenario.model import PowerSpec
from sim.steps.hardware import NodePower
from sim.steps.power import Facility

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sim.cluster import ClusterSpec
    from sim.failures import Source
    from sim.input.scenario import Scenario

_SWITCHES = ("leaf", "spine", "core")


def upkeep_of(scenario: Scenario, counts: Mapping[str, int], sources: Iterable[Source]) -> Upkeep:
    """Return what the cluster draws and costs.

    Parameters
    ----------
    scenario
        The scenario.
    counts
        Units of each part of the cluster.
    sources
        Its failure sources.

    Raises
    ------
    PathError
        If a price is for a part that is not there, or something that a price needs is not known.
    """
    facility = _facility(scenario, counts)
    cost = scenario.cost
    if cost is None:
        return Upkeep(facility)
    if cost.energy is not None and facility is None:
        rule = "needs to know what a node draws, and the catalog does not: give power.idle and power.training"
        raise PathError(("cost", "energy"), rule)
    if cost.allocation is None and len(scenario.jobs) > 1:
        rule = f"is shared by {len(scenario.jobs)} jobs: say how with allocation: requested or allocation: gpus"
        raise PathError(("cost",), rule)
    known = [part for part, count in {**counts, "cluster": 1}.items() if count]
    for part in cost.repair:
        if part not in known:
            raise PathError(("cost", "repair", part), catalog.unknown("part", part, known))
    return Upkeep(facility, cost, _repaired(scenario, sources))


def _facility(scenario: Scenario, counts: Mapping[str, int]) -> Facility | None:
    """Return what draws power; ``None`` if nobody says what a node does."""
    power = scenario.power or PowerSpec.model_validate({})
    node = _node(scenario, power)
    if node is None:
        return None
    switches = sum(counts.get(part, 0) for part in _SWITCHES)
    return Facility(node, switches, power.switch, power.storage, power.pue)


def _node(scenario: Scenario, power: PowerSpec) -> NodePower | None:
    """Return what a node draws: as the scenario says, else as the catalog does."""
    cluster = scenario.cluster
    listed = _listed(cluster)
    if power.idle is None and power.training is None:
        return listed
    idle = power.idle if power.idle is not None else listed.idle if listed is not None else None
    training = power.training if power.training is not None else listed.training if listed is not None else None
    if idle is None or training is None:
        key, other = ("idle", "training") if training is None else ("training", "idle")
        rule = f"needs power.{other} beside it: the catalog does not say what a node of this cluster draws"
        raise PathError(("power", key), rule)
    if idle > training:
        key = "idle" if power.idle is not None else "training"
        rule = f"leaves a node that draws {idle:g} W idle and {training:g} W in training; give idle and training"
        raise PathError(("power", key), rule)
    sources = ["the scenario"]
    if listed is not None and None in (power.idle, power.training):
        sources.append(listed.source)
    return NodePower(idle, training, cluster.hosts.gpus, measured=False, source="; ".join(sources))


def _listed(cluster: ClusterSpec) -> NodePower | None:
    """Return what a mean node of the cluster draws by the catalog; ``None`` if it does not know all of them."""
    found = []
    chips = known_chips(cluster)
    if chips is None:
        return None
    for pool, chip in zip(cluster.all_pools, chips, strict=True):
        node = chip.node
        if node is None:
            return None
        found.append((pool.count / cluster.hosts.nodes, cluster.hosts.gpus / node.gpus, node))
    return NodePower(
        idle=sum(share * size * node.idle for share, size, node in found),
        training=sum(share * size * node.training for share, size, node in found),
        gpus=cluster.hosts.gpus,
        measured=all(node.measured and size == 1 for _, size, node in found),
        source="; ".join(dict.fromkeys(node.source for _, _, node in found)),
    )


def _repaired(scenario: Scenario, sources: Iterable[Source]) -> tuple[str, ...]:
    """Return the class of part that a repair after each source mends; empty where nothing is mended."""
    of_gpus = _causes_of_gpus(scenario)
    return tuple(_mended(source, of_gpus) for source in sources)


def _mended(source: Source, of_gpus: frozenset[str]) -> str:
    if source.planned:
        return ""
    if source.name in of_gpus:
        return "gpu"
    return "node" if source.blast is not None and source.blast.repair == "nodes" else source.part


def _causes_of_gpus(scenario: Scenario) -> frozenset[str]:
    """Return the causes that are stated for GPUs: at run time those of a node may be one life of the node."""
    causes: list[Any] = []
    for choice in scenario.failures:
        causes += choice.expand(catalog.bundle(choice.use)) if isinstance(choice, Bundle) else [choice]
    return frozenset(cause.name for cause in causes if getattr(cause, "part", "") == "gpu")

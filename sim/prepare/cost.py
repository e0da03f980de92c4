"""From a scenario to what its cluster draws and costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim import catalog
from sim.engine.prepared import Upkeep
from sim.prepare.failures import causes_of
from sim.scenario.fields import PathError
from sim.scenario.model import PowerSpec
from sim.steps.hardware import NodePower
from sim.steps.power import Facility

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sim.failures import Source
    from sim.input.scenario import Scenario
    from sim.prepare.placement import Site

_SWITCHES = ("leaf", "spine", "core")


def upkeep_of(scenario: Scenario, site: Site, sources: Iterable[Source]) -> Upkeep:
    """Return what the cluster draws and costs.

    Parameters
    ----------
    scenario
        The scenario.
    site
        Its cluster.
    sources
        Its failure sources.

    Raises
    ------
    PathError
        If a price is for a part that is not there, or something that a price needs is not known.
    """
    power, cost = scenario.power or PowerSpec.model_validate({}), scenario.cost
    facility, node = None, _node(power, _listed(site), site.gpus_per_node)
    if node is not None:
        switches = sum(site.counts.get(part, 0) for part in _SWITCHES)
        facility = Facility(node, switches, power.switch, power.storage, power.pue)
    if cost is None:
        return Upkeep(facility)
    if cost.energy is not None and facility is None:
        rule = "needs to know what a node draws, and the catalog does not: give power.idle and power.training"
        raise PathError(("cost", "energy"), rule)
    if cost.allocation is None and len(scenario.jobs) > 1:
        rule = f"is shared by {len(scenario.jobs)} jobs: say how with allocation: requested or allocation: gpus"
        raise PathError(("cost",), rule)
    known = [part for part, count in {**site.counts, "cluster": 1}.items() if count]
    for part in cost.repair:
        if part not in known:
            raise PathError(("cost", "repair", part), catalog.unknown("part", part, known))
    of_gpus = {
        cause.name for choice in scenario.failures for cause in causes_of(choice) if getattr(cause, "part", "") == "gpu"
    }
    return Upkeep(facility, cost, tuple(_mended(source, of_gpus) for source in sources))


def _mended(source: Source, of_gpus: set[str]) -> str:
    """Return the class of part that a repair mends, if any; at run time the life of a GPU may be that of its node."""
    if source.planned:
        return ""
    if source.name in of_gpus:
        return "gpu"
    return "node" if source.blast is not None and source.blast.repair == "nodes" else source.part


def _node(power: PowerSpec, listed: NodePower | None, gpus: int) -> NodePower | None:
    """Return what a node of so many GPUs draws: as the scenario says, else as listed in the catalog."""
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
    return NodePower(idle, training, gpus, measured=False, source="; ".join(sources))


def _listed(site: Site) -> NodePower | None:
    """Return what a mean node of the cluster draws by the catalog; ``None`` if it does not know all of them."""
    found, nodes, gpus = [], site.counts["node"], site.gpus_per_node
    if site.chips is None:
        return None
    for pool, chip in zip(site.cluster.all_pools, site.chips, strict=True):
        node = chip.node
        if node is None:
            return None
        found.append((pool.count / nodes, gpus / node.gpus, node))
    return NodePower(
        idle=sum(share * size * node.idle for share, size, node in found),
        training=sum(share * size * node.training for share, size, node in found),
        gpus=gpus,
        measured=all(node.measured and size == 1 for _, size, node in found),
        source="; ".join(dict.fromkeys(node.source for _, _, node in found)),
    )

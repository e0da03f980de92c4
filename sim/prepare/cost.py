"""From a scenario to what its cluster draws, may draw, and costs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ettrick.sim import catalog, units
from ettrick.sim.engine.prepared import PowerAndCost, PowerPeriod
from ettrick.sim.failures.source import CAP, HEAT
from ettrick.sim.prepare.failures import causes_of
from ettrick.sim.scenario.fields import PathError
from ettrick.sim.scenario.model import PowerSpec
from ettrick.sim.steps.hardware import NodePower
from ettrick.sim.steps.power import Facility, board_share, capped_pace, capped_share, facility_energy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ettrick.sim.failures import FailureSource
    from ettrick.sim.input.scenario import Scenario
    from ettrick.sim.prepare.placement import EmptyCluster
    from ettrick.sim.scenario.fields import Profile
    from ettrick.sim.scenario.model import CostSpec, Curtailment

_SWITCHES = ("leaf", "spine", "core")


def upkeep_of(scenario: Scenario, site: EmptyCluster, sources: Iterable[FailureSource]) -> PowerAndCost:
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
        If a price is for a part that is not there, something that a price or a cap needs is not known, a cap is below
        what idle nodes draw, or a curtailment is not within the horizon.
    """
    power, cost = scenario.power or PowerSpec.model_validate({}), scenario.cost
    facility = facility_of(scenario, site)
    ramp, cap = (power.ramp_per_minute or math.inf) / units.MINUTE, power.cap or math.inf
    upkeep = PowerAndCost(facility, levels=_levels(scenario, site, facility), ramp=ramp, cap=cap)
    if cost is None:
        return upkeep
    _check_cost(scenario, cost, site, facility)
    of_gpus = {
        cause.name for choice in scenario.failures for cause in causes_of(choice) if getattr(cause, "part", "") == "gpu"
    }
    return replace(upkeep, cost=cost, repaired=tuple(_mended(source, of_gpus) for source in sources))


def facility_of(scenario: Scenario, site: EmptyCluster) -> Facility | None:
    """Return the consumers of power on a cluster; ``None`` where the power of a node is not known.

    Raises
    ------
    PathError
        If a node draws less in training than without work, or one of both is not known.
    """
    power = scenario.power or PowerSpec.model_validate({})
    node = _node(power, _listed(scenario, site), site.gpus_per_node)
    if node is None:
        return None
    switches = sum(site.counts.get(part, 0) for part in _SWITCHES)
    return Facility(node, switches, power.switch, power.storage, power.pue)


def _check_cost(scenario: Scenario, cost: CostSpec, site: EmptyCluster, facility: Facility | None) -> None:
    """Refuse prices of what is not known, not shared or not there."""
    if cost.energy is not None:
        _check_known(facility, ("cost", "energy"))
    if cost.allocation is None and len(scenario.jobs) > 1:
        rule = f"is shared by {len(scenario.jobs)} jobs: say how with allocation: requested or allocation: gpus"
        raise PathError(("cost",), rule)
    parts = [part for part, count in {**site.counts, "cluster": 1}.items() if count]
    for part in cost.repair:
        if part not in parts:
            raise PathError(("cost", "repair", part), catalog.unknown("part", part, parts))


def _check_known(facility: Facility | None, path: tuple[str, ...]) -> None:
    """Refuse what needs the power of a node where that is not known."""
    if facility is None:
        rule = "needs to know what a node draws, and the catalog does not: give power.idle and power.training"
        raise PathError(path, rule)


def power_warnings(scenario: Scenario, upkeep: PowerAndCost) -> Iterator[str]:
    """Yield what to know of a power that slows jobs down, one line each."""
    paces = [level.pace for level in upkeep.levels]
    if scenario.jobs and min(paces, default=1.0) < 1:
        mean, node = upkeep.mean(lambda level: level.pace, scenario.horizon), upkeep.facility
        line = f"power: jobs step at {100 * mean:.4g} % of their pace on average, at {100 * min(paces):.3g} % at worst"
        if any(level.cause == CAP for level in upkeep.levels) and node is not None:
            stated = scenario.power is not None and scenario.power.exponent is not None
            line += (
                "" if stated else "; under a cap as was measured on H100, which is assumed for others (power.exponent)"
            )
        yield line
    if not upkeep.is_steady and (scenario.streams or scenario.services):
        yield (
            "power: caps, heat and ramps slow named jobs only, and capped boards services too; all others keep full "
            "clocks, and all energy is counted as if the facility had no cap, at the mean price and carbon intensity"
        )


_MOST_LEVELS = 100_000

"""Changes of power in a horizon; more are a slip of the pen."""


def _levels(scenario: Scenario, site: EmptyCluster, facility: Facility | None) -> tuple[PowerPeriod, ...]:
    """Return what holds of the power over time: one level, or none, where nothing changes."""
    power = scenario.power or PowerSpec.model_validate({})
    prices = scenario.cost.energy_profile if scenario.cost is not None else None
    stated = {name for name in ("cap", "rack_cap", "curtail", "ramp_per_minute", "carbon") if getattr(power, name)}
    if stated:
        _check_known(facility, ("power", min(stated)))
    boards = _boards(site, scenario)
    if not stated and power.ambient is None and prices is None and boards == 1:
        return ()
    edges = _edges(power, prices, scenario.horizon)
    share_at = _share_in_time(scenario, site, facility, power)
    levels: list[PowerPeriod] = []
    for start in sorted(edges - {scenario.horizon}):
        share = share_at(start)
        # What a cap of the facility leaves is a share of what the boards may draw.
        pace, cause = _pace(power, share * boards, start)
        level = PowerPeriod(start, pace, cause, share, _carbon(power, start), _factor(prices, start))
        if not levels or level[1:] != levels[-1][1:]:
            levels.append(level)
    return tuple(levels)


def _share_in_time(
    scenario: Scenario, site: EmptyCluster, facility: Facility | None, power: PowerSpec
) -> Callable[[float], float]:
    """Return the utilisation that caps and curtailments leave the nodes of jobs at a time [-]."""
    always = min(
        _share(scenario, site, facility, power.cap, ("power", "cap")),
        _share(scenario, site, facility, power.rack_cap, ("power", "rack_cap")),
    )
    windows = [
        (window, _share(scenario, site, facility, window.cap, ("power", "curtail", index, "cap")))
        for index, window in enumerate(power.curtail)
    ]
    return lambda now: min([always, *(share for window, share in windows if _is_on(window, now))])


def _carbon(power: PowerSpec, now: float) -> float:
    """Return what a joule emits from a time on [kg/J]."""
    grams = power.carbon.intensity * _factor(power.carbon.profile, now) if power.carbon is not None else 0.0
    return grams / 1000 / units.ENERGY.units["kWh"]


def _edges(power: PowerSpec, prices: Profile | None, end: float) -> set[float]:
    """Return when the power, its price or the weather may change before an end [s]."""
    edges = {0.0}
    for index, window in enumerate(power.curtail):
        if window.start >= end:
            rule = f"is {units.show(window.start, units.DURATION)}, and the horizon ends before; give less than "
            raise PathError(("power", "curtail", index, "start"), rule + units.show(end, units.DURATION))
        for start in _starts(window.start, window.every, end):
            edges |= {start, min(start + window.time, end)}
    ambient, carbon = power.ambient, power.carbon
    profiles = [prices, carbon.profile if carbon else None, *((ambient.day, ambient.season) if ambient else ())]
    for profile in profiles:
        if profile is not None:
            edges |= set(_starts(0.0, profile.every / len(profile.factors), end))
    if len(edges) > _MOST_LEVELS:
        rule = f"changes {len(edges):,} times within the horizon; at most {_MOST_LEVELS:,}: give longer parts"
        raise PathError(("power",) if power != PowerSpec.model_validate({}) else ("cost", "energy_profile"), rule)
    return edges


def _pace(power: PowerSpec, share: float, now: float) -> tuple[float, str]:
    """Return the pace of jobs whose boards may draw a share of their power [-], and the cause of a lower one."""
    pace, cause = capped_pace(share, power.exponent), CAP if share < 1 else ""
    ambient = power.ambient
    if ambient is not None:
        degrees = ambient.temperature * _factor(ambient.day, now) * _factor(ambient.season, now)
        cooler = 1.0 - ambient.slope * max(degrees - ambient.above, 0.0)
        if cooler < pace:
            return cooler, HEAT
    return pace, cause


def _starts(start: float, every: float | None, end: float) -> Iterator[float]:
    """Yield when something begins that may come again [s], before an end."""
    if every is None:
        yield start
        return
    for count in range(min(math.ceil((end - start) / every), _MOST_LEVELS + 1)):
        yield start + count * every


def _is_on(window: Curtailment, now: float) -> bool:
    """Return whether a curtailment is on at a time at which one may begin or end [s]."""
    last = window.start
    if window.every is not None and now > last:
        # As `_starts` says it, to the last bit.
        count = math.floor((now - last) / window.every + 1e-9)
        last += count * window.every
    return last <= now < last + window.time


def _factor(profile: Profile | None, now: float) -> float:
    """Return the factor of a profile from a time on [-]."""
    if profile is None:
        return 1.0
    parts = len(profile.factors)
    return profile.factors[math.floor(now / profile.every * parts + 1e-9) % parts]


def _share(
    scenario: Scenario, site: EmptyCluster, facility: Facility | None, cap: float | None, at: tuple[str | int, ...]
) -> float:
    """Return the utilisation that a cap leaves the nodes of jobs [-], with streams and services all; 1 without one."""
    if cap is None or facility is None:  # caps need it, and are refused without
        return 1.0
    node = facility.node
    if at[-1] == "rack_cap":
        stepping = float(min(scenario.cluster.rack.nodes, site.counts["node"]))
        share, least = capped_share(cap, node, stepping), stepping * node.idle
    else:
        nodes = site.counts["node"]
        occupied = sum(job.gpus for job in scenario.jobs) / site.gpus_per_node
        stepping = nodes if scenario.streams or scenario.services else min(occupied, nodes)
        infrastructure = facility.network + facility.storage
        share = capped_share(cap / facility.pue, node, stepping, nodes - stepping, infrastructure)
        least = facility_energy(nodes * node.idle, facility.network, facility.storage, facility.pue).total
    if share <= 0:
        rule = f"is {units.show(cap, units.POWER)}, and with all nodes idle it takes {least / 1e3:,.6g} kW; give more"
        raise PathError(at, rule)
    return share


def _boards(site: EmptyCluster, scenario: Scenario) -> float:
    """Return the share of their range of power that caps leave the boards of jobs [-]; of several the lowest."""
    if not (scenario.jobs or scenario.streams):
        return 1.0
    chips = (chip for chip, nodes in zip(site.chips or (), site.held(scenario), strict=False) if nodes)
    caps = [(chip.cap, chip.power) for chip in chips if chip.cap is not None and chip.power is not None]
    share = min((board_share(cap, power) for cap, power in caps), default=1.0)
    if share <= 0:
        rule = "leaves its boards less than they draw without work, a tenth of their power; give more"
        raise PathError(("cluster", "accelerator", "power"), rule)
    return share


def _mended(source: FailureSource, of_gpus: set[str]) -> str:
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
        key, beside = ("idle", "training") if training is None else ("training", "idle")
        rule = f"also needs power.{beside}: the catalog has no power for a node of this cluster"
        raise PathError(("power", key), rule)
    if idle > training:
        key = "idle" if power.idle is not None else "training"
        rule = f"leaves a node that draws {idle:g} W idle and {training:g} W in training; give idle and training"
        raise PathError(("power", key), rule)
    sources = ["the scenario"]
    if listed is not None and None in (power.idle, power.training):
        sources.append(listed.source)
    return NodePower(idle, training, gpus, measured=False, source="; ".join(sources))


def _listed(scenario: Scenario, site: EmptyCluster) -> NodePower | None:
    """Return what a node of the cluster draws by the catalog; ``None`` if it does not know all of them.

    Without work that is the mean node, in training the mean of the nodes that jobs and services have.
    """
    rows, gpus = [], site.gpus_per_node
    if site.chips is None:
        return None
    occupied = site.held(scenario)
    for pool, chip, busy in zip(site.cluster.all_pools, site.chips, occupied, strict=True):
        node = chip.node
        if node is None:
            return None
        rows.append((pool.count / site.counts["node"], busy / (sum(occupied) or 1), gpus / node.gpus, node))
    idle = sum(share * size * node.idle for share, _, size, node in rows)
    return NodePower(
        idle=idle,
        training=max(sum(busy * size * node.training for _, busy, size, node in rows), idle),
        gpus=gpus,
        measured=all(node.measured and size == 1 for _, _, size, node in rows),
        source="; ".join(dict.fromkeys(node.source for _, _, _, node in rows)),
    )

"""The integers of a fat tree: switches of each tier, links up and down, planes."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from sim.topology.clos import downlinks, fewest_switches, uplinks

if TYPE_CHECKING:
    from sim.topology.fabric import Hosts
    from sim.topology.fat_tree import FatTree

__all__ = ["Plan", "plan_of"]


@dataclass(frozen=True)
class Plan:
    """Derived integers [-]; `leaf_switches` is per group, `spines` per pod, `cores` per plane."""

    leaves: int
    leaf_switches: int
    leaf_down: int
    leaf_up: int
    pods: int
    groups_per_pod: int
    leaves_per_pod: int
    spines: int
    spine_up: int
    planes: int
    cores: int


@functools.lru_cache(maxsize=256)
def plan_of(tree: FatTree, hosts: Hosts) -> Plan:
    """Derive the integers of `tree` and refuse what cannot be cabled.

    Raises
    ------
    ValueError
        In one line, with the number that is wrong.
    """
    leaf_switches, leaf_down, leaf_up = _leaf_tier(tree, hosts)
    groups = ceil(hosts.nodes / tree.leaf.nodes)
    groups_per_pod = min(tree.spine.leaf_groups or groups, groups)
    pods = ceil(groups / groups_per_pod)
    if pods > 1 and tree.core is None:
        msg = f"{groups} leaf groups make {pods} pods that nothing joins: add a core tier or raise spine.leaf_groups"
        raise ValueError(msg)
    leaves_per_pod = groups_per_pod * leaf_switches
    spines, spine_up = _spine_tier(tree, leaves_per_pod, leaf_up)
    planes, cores = _core_tier(tree, pods, spines, spine_up)
    return Plan(
        leaves=groups * leaf_switches,
        leaf_switches=leaf_switches,
        leaf_down=leaf_down,
        leaf_up=leaf_up,
        pods=pods,
        groups_per_pod=groups_per_pod,
        leaves_per_pod=leaves_per_pod,
        spines=spines,
        spine_up=spine_up,
        planes=planes,
        cores=cores,
    )


def _leaf_tier(tree: FatTree, hosts: Hosts) -> tuple[int, int, int]:
    """Return leaf switches per group, and down and up links of each."""
    if max(hosts.gpus, tree.rails) % min(hosts.gpus, tree.rails):
        msg = f"{hosts.gpus} GPUs per node do not divide evenly over {tree.rails} rails"
        raise ValueError(msg)
    switches = tree.leaf.switches or tree.rails
    if tree.rails % switches:
        msg = f"{tree.rails} rails do not divide evenly over leaf.switches = {switches}"
        raise ValueError(msg)
    down = tree.leaf.nodes * (tree.rails // switches)
    up = uplinks(down, tree.spine.oversubscription)
    radix = tree.leaf.radix or tree.radix
    if down + up > radix:
        msg = (
            f"leaf radix {radix} is too small for {down} links down and {up} up: "
            "lower leaf.nodes, or raise radix or spine.oversubscription"
        )
        raise ValueError(msg)
    return switches, down, up


def _spine_tier(tree: FatTree, leaves: int, leaf_up: int) -> tuple[int, int]:
    """Return spines per pod and uplinks of each, for a pod of `leaves` with `leaf_up` uplinks each."""
    radix = tree.spine.radix or tree.radix
    ratio = tree.core.oversubscription if tree.core else None
    ports = downlinks(radix, ratio)
    if ports < 1:
        msg = f"spine radix {radix} leaves no port for a leaf switch"
        raise ValueError(msg)
    links = leaves * leaf_up
    spines = tree.spine.switches or fewest_switches(links, leaf_up, ports)
    down = ceil(links / spines)
    if spines > leaf_up or down > ports:
        msg = (
            f"spine radix {radix} is too small: {leaves} leaf switches per pod of {leaf_up} uplinks each on {spines} "
            f"spines need {down} links down of {ports} possible, and at most {leaf_up} spines: "
            "lower spine.leaf_groups or raise radix"
        )
        raise ValueError(msg)
    return spines, uplinks(down, ratio) if ratio else 0


def _core_tier(tree: FatTree, pods: int, spines: int, spine_up: int) -> tuple[int, int]:
    """Return planes and cores per plane (0, 0 without a core tier).

    Fewer planes mean more paths between two spines, so the first number that can be cabled is taken.
    """
    if tree.core is None:
        return 0, 0
    radix, total = tree.core.radix or tree.radix, tree.core.switches
    for planes in (number for number in range(1, spines + 1) if spines % number == 0):
        links = pods * (spines // planes) * spine_up
        if total is None:
            cores = fewest_switches(links, spine_up, radix)
        elif total % planes == 0:
            cores = total // planes
        else:
            continue
        if cores <= spine_up and ceil(links / cores) <= radix:
            return planes, cores
    wanted = f"core.switches = {total}" if total else "any number of core switches"
    msg = f"core radix {radix} is too small for {pods} pods of {spines} spines of {spine_up} uplinks each with {wanted}"
    raise ValueError(msg)

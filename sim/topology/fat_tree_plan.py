"""The integers of a fat tree: switches of each tier, links up and down, planes."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from sim.topology.clos import core_tier, spine_tier, uplinks

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
    above = tree.core.oversubscription if tree.core else None
    radix = tree.spine.radix or tree.radix
    what = ("pod", "spine.leaf_groups")
    spines, spine_up = spine_tier(leaves_per_pod, leaf_up, radix, above, tree.spine.switches, what)
    planes, cores = 0, 0
    if tree.core:
        planes, cores = core_tier(pods, spines, spine_up, tree.core.radix or tree.radix, tree.core.switches)
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

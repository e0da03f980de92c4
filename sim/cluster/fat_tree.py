"""Rail-optimised fat tree (folded Clos) of two or three tiers, with oversubscription at either upper tier."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from sim.cluster.fabric import FabricKind, Ratio, Some, core_tier, spine_tier, uplinks
from sim.cluster.topology import Edges
from sim.scenario.fields import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sim.cluster.fabric import Hosts

# ----------------------------------------
# The integers of a fat tree: switches of each tier, links up and down, planes.


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


_PORTS = (64, 128, 256)

"""Ports of a switch at 400 Gb/s: 25.6, 51.2 and 102.4 Tb/s."""


class Leaf(Model):
    """First tier: groups of nodes behind the same leaf switches."""

    nodes: Some = Field(32, description="Nodes per leaf group.")
    switches: Some | None = Field(None, description="Leaf switches per group; omitted: one per rail.")
    radix: Some | None = Field(None, description="Ports per leaf switch, if not the common radix.")


class Spine(Model):
    """Second tier: spines join the leaf groups of a pod."""

    leaf_groups: Some | None = Field(None, description="Leaf groups per pod; omitted: all of them.")
    oversubscription: Ratio = Field(1.0, description="Links down over links up of a leaf switch.")
    switches: Some | None = Field(
        None, description="Spines per pod; omitted: the fewest that the radix allows and that share the links evenly."
    )
    radix: Some | None = Field(None, description="Ports per spine, if not the common radix.")


class Core(Model):
    """Third tier: cores join the pods."""

    oversubscription: Ratio = Field(1.0, description="Links down over links up of a spine.")
    switches: Some | None = Field(None, description="Cores in all; omitted: the fewest, as for spines.")
    radix: Some | None = Field(None, description="Ports per core switch, if not the common radix.")


class FatTree(FabricKind):
    """Rail-optimised fat tree of two or three tiers.

    Every NIC has one cable to one leaf switch, rail ``r`` of all nodes of a leaf group on the same switch. Links
    between switches run at the NIC's speed; where oversubscription does not divide the ports, links are rounded up.
    Partly filled last leaf groups and pods are allowed; their switches and uplinks are complete.

    A leaf spreads its uplinks over every spine of its pod. Cores form planes, as few as possible: a spine reaches
    every core of its plane, and spines of all pods share each plane.
    """

    use: Literal["fat-tree"] = "fat-tree"
    radix: Some = Field(64, description="Ports per switch, at the NIC's speed.")
    leaf: Leaf = Leaf()
    spine: Spine = Spine()
    core: Core | None = Field(None, description="Third tier; omitted: two tiers.")

    @property
    def title(self) -> str:
        """What texts call it."""
        speed = f"{self.nic * 8 / 1e9:g} Gb/s"
        return f"fat tree of {3 if self.core else 2} tiers of {self.radix}-port switches, {self.rails} rails of {speed}"

    def check(self, hosts: Hosts) -> None:
        """Refuse rails that do not divide, ports that do not suffice, and pods that nothing joins.

        Raises
        ------
        ValueError
            In one line.
        """
        plan_of(self, hosts)

    def counts(self, hosts: Hosts) -> dict[str, int]:
        """Count the parts from the parameters alone [-]."""
        plan = plan_of(self, hosts)
        return {
            "nic": hosts.nodes * self.rails,
            "leaf": plan.leaves,
            "spine": plan.pods * plan.spines,
            "core": plan.planes * plan.cores,
            "pod": plan.pods,
            "cable_node_leaf": hosts.nodes * self.rails,
            "cable_leaf_spine": plan.leaves * plan.leaf_up,
            "cable_spine_core": plan.pods * plan.spines * plan.spine_up,
        }

    def domains(self, hosts: Hosts) -> dict[str, NDArray[np.int32]]:
        """Return leaf group and pod of each node, (nodes,) each."""
        group = np.arange(hosts.nodes, dtype=np.int32) // np.int32(self.leaf.nodes)
        return {"leaf": group, "pod": group // np.int32(plan_of(self, hosts).groups_per_pod)}

    def bandwidth(self, hosts: Hosts) -> dict[str, float]:
        """Return what one NIC gets when all send at once [B/s].

        Where nothing lies beyond a tier, its oversubscription slows nobody.
        """
        plan = plan_of(self, hosts)
        above_leaf = plan.leaf_up / plan.leaf_down if plan.leaves > plan.leaf_switches else 1.0
        above_pod = plan.spines * plan.spine_up / (plan.leaves_per_pod * plan.leaf_up) if plan.pods > 1 else 1.0
        return {
            "leaf": self.nic,
            "pod": self.nic * above_leaf,
            "cluster": self.nic * above_leaf * min(1.0, above_pod),
        }

    def disjoint_paths(self, hosts: Hosts) -> int:
        """Return how many paths two leaf switches have that share no switch [-].

        In a pod there is one through each spine; between pods, one through each spine that has a core to itself.
        """
        plan = plan_of(self, hosts)
        if plan.pods == 1:
            return plan.spines
        return min(plan.spines, plan.planes * min(plan.spines // plan.planes, plan.cores))

    def nodes_behind(self, part: str, hosts: Hosts) -> int:
        """Return how many nodes one failed unit, alone, cuts off, where its domain is full [-].

        Spines, cores and cables between switches cut nobody off: there are at least two disjoint paths.
        """
        plan = plan_of(self, hosts)
        keeps_on = self.reroute == "scale_up" and plan.leaf_switches > 1
        if part == "leaf":
            return 0 if keeps_on else min(self.leaf.nodes, hosts.nodes)
        if part in ("nic", "cable_node_leaf") or (part == "transceiver" and not self.copper):
            return 0 if self.reroute == "scale_up" and self.rails > 1 else 1
        return 0

    def edges(self, hosts: Hosts) -> Edges:
        """Cable the tree: consecutive uplinks go to consecutive upper switches, round and round."""
        plan, counts = plan_of(self, hosts), self.counts(hosts)
        first_leaf = hosts.nodes
        first_spine = first_leaf + counts["leaf"]
        first_core = first_spine + counts["spine"]

        node, rail = np.divmod(np.arange(counts["nic"]), self.rails)
        switch = rail // (self.rails // plan.leaf_switches)
        below = [node]
        above = [first_leaf + node // self.leaf.nodes * plan.leaf_switches + switch]

        leaf, link = np.divmod(np.arange(counts["cable_leaf_spine"]), plan.leaf_up)
        pod, place = np.divmod(leaf, plan.leaves_per_pod)
        below.append(first_leaf + leaf)
        above.append(first_spine + pod * plan.spines + (place * plan.leaf_up + link) % plan.spines)

        if self.core:
            spine, link = np.divmod(np.arange(counts["cable_spine_core"]), plan.spine_up)
            pod, place = np.divmod(spine, plan.spines)
            place, plane = np.divmod(place, plan.planes)
            place += pod * (plan.spines // plan.planes)
            below.append(first_spine + spine)
            above.append(first_core + plane * plan.cores + (place * plan.spine_up + link) % plan.cores)

        lower = np.concatenate(below).astype(np.int32)
        rails = np.full(lower.size, -1, dtype=np.int16)
        rails[: rail.size] = rail
        return Edges(
            lower=lower,
            upper=np.concatenate(above).astype(np.int32),
            tier=np.repeat(np.arange(len(below), dtype=np.int8), [ends.size for ends in below]),
            rail=rails,
            bandwidth=np.full(lower.size, self.nic),
        )


def fitting_tree(hosts: Hosts) -> FatTree:
    """Return the fat tree of full bisection that joins hosts of which no fabric is stated.

    The first that can be cabled of: two tiers of 64-port switches, then three tiers of 64, 128 and 256 ports with the
    largest pods. A host has eight rails, or one for each of its GPUs where their number does not divide by eight.

    Raises
    ------
    ValueError
        If none of them can.

    Examples
    --------
    Three tiers of ``k`` ports end at ``k**3 / 4`` NICs, those of 64 ports at 8,192 hosts of eight.

    >>> from sim.cluster.fabric import Hosts
    >>> [fitting_tree(Hosts(nodes, 8)).radix for nodes in (256, 8192, 8193, 131072)]
    [64, 64, 128, 256]
    """
    first = FatTree()
    rails = first.rails
    if max(hosts.gpus, rails) % min(hosts.gpus, rails):
        rails = hosts.gpus
    trees = [first.model_copy(update={"rails": rails})]
    for radix in _PORTS:
        # A spine has as many links down as up, and one to each leaf switch of its pod.
        pod = Spine.model_validate({"leaf_groups": max(radix // 2 // rails, 1)})
        leaf = Leaf.model_validate({"nodes": radix // 2})
        trees.append(FatTree(rails=rails, radix=radix, leaf=leaf, spine=pod, core=Core.model_validate({})))
    found = next((tree for tree in trees if _joins(tree, hosts)), None)
    if found is None:
        most = _PORTS[-1] * (_PORTS[-1] // 2) * (_PORTS[-1] // 2 // rails)
        msg = (
            f"no fat tree of {_PORTS[-1]}-port switches joins {hosts.nodes:,} hosts of {rails} rails, "
            f"at most {most:,}: say what does (fabric)"
        )
        raise ValueError(msg)
    return found


def _joins(tree: FatTree, hosts: Hosts) -> bool:
    try:
        plan_of(tree, hosts)
    except ValueError:
        return False
    return True

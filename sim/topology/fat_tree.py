"""Rail-optimised fat tree (folded Clos) of two or three tiers, with oversubscription at either upper tier."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sim.fields import Bandwidth, Count, Model
from sim.topology.clos import downlinks, fewest_switches, uplinks
from sim.topology.model import Edges, Topology, TopologyKind

__all__ = ["Core", "FatTree", "Leaf", "Power", "Rack", "Spine"]

Some = Annotated[Count, Field(ge=1)]
Ratio = Annotated[float, Field(ge=1)]


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


class Rack(Model):
    """Physical racks."""

    nodes: Some = Field(4, description="Nodes per rack.")


class Power(Model):
    """Power domains: racks that go dark together."""

    racks: Some = Field(8, description="Racks per power domain.")


class FatTree(TopologyKind):
    """Parameters of a fat tree.

    Every NIC has one cable to one leaf switch, rail ``r`` of all nodes of a leaf group on the same switch. Links
    between switches run at the NIC's speed; where oversubscription does not divide the ports, links are rounded up.
    Partly filled last leaf groups, pods, racks and power domains are allowed; their switches and uplinks are complete.

    A leaf spreads its uplinks over every spine of its pod. Cores form planes, as few as possible: a spine reaches
    every core of its plane, and spines of all pods share each plane.

    Raises
    ------
    ValueError
        If a number is below its minimum, rails do not divide over GPUs or switches, ports do not suffice, or
        there are several pods and no core.
    """

    use: Literal["fat-tree"] = "fat-tree"
    name: str = "fat-tree"
    nodes: Some = Field(description="Hosts.")
    gpus_per_node: Some = Field(8, description="GPUs per host.")
    accelerator: str = Field("h100", description="Name in the catalog of accelerators.")
    rails: Some = Field(8, description="NICs per host, one rail each.")
    nic: Bandwidth = Field("400 Gb/s", gt=0, description="Bandwidth per NIC and direction.")  # type: ignore[assignment]
    radix: Some = Field(64, description="Ports per switch, at the NIC's speed.")
    leaf: Leaf = Leaf()
    spine: Spine = Spine()
    core: Core | None = Field(None, description="Third tier; omitted: two tiers.")
    rack: Rack = Rack()
    power: Power = Power()

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        _plan(self)
        return self

    @property
    def stopping_parts(self) -> tuple[str, ...]:
        """Part classes of which one failed unit stops at least one node."""
        return ("gpu", "node", "nic", "cable_node_leaf", "leaf", "pod", "rack", "power")

    def counts(self) -> dict[str, int]:
        """Count every part from the parameters alone, without an array.

        Returns
        -------
        dict of str to int
            Units per part class [-].
        """
        plan = _plan(self)
        racks = ceil(self.nodes / self.rack.nodes)
        return {
            "gpu": self.nodes * self.gpus_per_node,
            "node": self.nodes,
            "nic": self.nodes * self.rails,
            "leaf": plan.leaves,
            "spine": plan.pods * plan.spines,
            "core": plan.planes * plan.cores,
            "pod": plan.pods,
            "rack": racks,
            "power": ceil(racks / self.power.racks),
            "cable_node_leaf": self.nodes * self.rails,
            "cable_leaf_spine": plan.leaves * plan.leaf_up,
            "cable_spine_core": plan.pods * plan.spines * plan.spine_up,
        }

    def nodes_behind(self, part: str) -> int:
        """Return how many nodes one failed unit of a part takes, where its domain is full [-]."""
        sizes = {
            "leaf": self.leaf.nodes,
            "pod": self.leaf.nodes * _plan(self).groups_per_pod,
            "rack": self.rack.nodes,
            "power": self.rack.nodes * self.power.racks,
        }
        return min(sizes[part], self.nodes) if part in sizes else super().nodes_behind(part)

    def build(self) -> Topology:
        """Build the domains; the edges wait until they are asked for."""
        plan = _plan(self)
        node = np.arange(self.nodes, dtype=np.int32)
        group = node // np.int32(self.leaf.nodes)
        rack = node // np.int32(self.rack.nodes)
        # Where nothing lies beyond a tier, its oversubscription slows nobody.
        above_leaf = plan.leaf_up / plan.leaf_down if plan.leaves > plan.leaf_switches else 1.0
        above_pod = plan.spines * plan.spine_up / (plan.leaves_per_pod * plan.leaf_up) if plan.pods > 1 else 1.0
        return Topology(
            name=self.name,
            accelerator=self.accelerator,
            nodes=self.nodes,
            gpus_per_node=self.gpus_per_node,
            rails=self.rails,
            counts=self.counts(),
            domains={
                "leaf": group,
                "pod": group // np.int32(plan.groups_per_pod),
                "rack": rack,
                "power": rack // np.int32(self.power.racks),
            },
            bandwidth={
                "leaf": self.nic,
                "pod": self.nic * above_leaf,
                "cluster": self.nic * above_leaf * min(1.0, above_pod),
            },
            blast={
                "gpu": ("node", self.gpus_per_node),
                "node": ("node", 1),
                "nic": ("node", self.rails),
                "cable_node_leaf": ("node", self.rails),
                "leaf": ("leaf", plan.leaf_switches),
                "pod": ("pod", 1),
                "rack": ("rack", 1),
                "power": ("power", 1),
            },
            make_edges=partial(_edges, self),
        )


@dataclass(frozen=True)
class _Plan:
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


def _plan(tree: FatTree) -> _Plan:
    """Derive the integers of `tree` and refuse what cannot be cabled."""
    leaf_switches, leaf_down, leaf_up = _leaf_tier(tree)
    groups = ceil(tree.nodes / tree.leaf.nodes)
    groups_per_pod = min(tree.spine.leaf_groups or groups, groups)
    pods = ceil(groups / groups_per_pod)
    if pods > 1 and tree.core is None:
        msg = f"{groups} leaf groups make {pods} pods that nothing joins: add a core tier or raise spine.leaf_groups"
        raise ValueError(msg)
    leaves_per_pod = groups_per_pod * leaf_switches
    spines, spine_up = _spine_tier(tree, leaves_per_pod, leaf_up)
    planes, cores = _core_tier(tree, pods, spines, spine_up)
    return _Plan(
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


def _leaf_tier(tree: FatTree) -> tuple[int, int, int]:
    """Return leaf switches per group, and down and up links of each."""
    if max(tree.gpus_per_node, tree.rails) % min(tree.gpus_per_node, tree.rails):
        msg = f"{tree.gpus_per_node} GPUs per node do not divide evenly over {tree.rails} rails"
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


def _edges(tree: FatTree) -> Edges:
    """Cable the tree: consecutive uplinks go to consecutive upper switches, round and round."""
    plan, counts = _plan(tree), tree.counts()
    first_leaf = tree.nodes
    first_spine = first_leaf + counts["leaf"]
    first_core = first_spine + counts["spine"]

    node, rail = np.divmod(np.arange(counts["nic"]), tree.rails)
    switch = rail // (tree.rails // plan.leaf_switches)
    below = [node]
    above = [first_leaf + node // tree.leaf.nodes * plan.leaf_switches + switch]

    leaf, link = np.divmod(np.arange(counts["cable_leaf_spine"]), plan.leaf_up)
    pod, place = np.divmod(leaf, plan.leaves_per_pod)
    below.append(first_leaf + leaf)
    above.append(first_spine + pod * plan.spines + (place * plan.leaf_up + link) % plan.spines)

    if tree.core:
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
        bandwidth=np.full(lower.size, tree.nic),
    )

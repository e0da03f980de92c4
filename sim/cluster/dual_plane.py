"""Dual-plane fabric: every NIC has two ports, each in a folded Clos of its own."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from sim.cluster.fabric import FabricKind, Hosts, Ratio, Some, core_tier, spine_tier, uplinks
from sim.cluster.topology import Edges
from sim.scenario.fields import Bandwidth, Model, RuleError

if TYPE_CHECKING:
    from numpy.typing import NDArray

PLANES = 2


class Segment(Model):
    """First tier: hosts behind the same pairs of leaf switches, one pair per rail."""

    nodes: Some = Field(128, description="Nodes per segment.")


class PlaneSpine(Model):
    """Second tier: the spines of a plane join the leaf switches that a pod has in this plane."""

    segments: Some | None = Field(None, description="Segments per pod; omitted: all of them.")
    oversubscription: Ratio = Field(1.0, description="Bandwidth down over bandwidth up of a leaf switch.")
    switches: Some | None = Field(
        None, description="Spines per pod and plane; omitted: the fewest that the radix allows and that share evenly."
    )
    radix: Some | None = Field(None, description="Ports per spine at the speed of a NIC's port, if not the common one.")


class PlaneCore(Model):
    """Third tier: the cores of a plane join the spines that the pods have in this plane."""

    oversubscription: Ratio = Field(1.0, description="Bandwidth down over bandwidth up of a spine.")
    switches: Some | None = Field(None, description="Cores per plane; omitted: the fewest, as for spines.")
    radix: Some | None = Field(None, description="Ports per core at the speed of a NIC's port, if not the common one.")


class DualPlane(FabricKind):
    """Rail-optimised Clos of two or three tiers, twice: one plane for each of the two ports of every NIC.

    Rail ``r`` of all nodes of a segment goes to the pair ``r`` of the segment's leaf switches: one port to the switch
    in plane 0, the other to the switch in plane 1. The two switches are not joined to each other, and neither are the
    planes. A cable between switches takes as many ports as its bandwidth is a multiple of that of a NIC's port.
    Partly filled last segments and pods are allowed; their switches and uplinks are complete.

    References
    ----------
    Qian et al., "Alibaba HPN: A Data Center Network for Large Language Model Training", SIGCOMM 2024. There the two
    planes of a pod are as here; how they continue in the core tier is not modelled after the paper: here they stay
    apart. Ports kept for backup hosts are ports not used.
    """

    use: Literal["dual-plane"] = "dual-plane"
    radix: Some = Field(256, description="Ports per switch, at the speed of a NIC's port (half of nic).")
    uplink: Bandwidth | None = Field(
        None, description="Bandwidth per direction of a cable between switches; omitted: that of a NIC's port."
    )
    segment: Segment = Segment()
    spine: PlaneSpine = PlaneSpine()
    core: PlaneCore | None = Field(None, description="Third tier; omitted: two tiers.")

    @property
    def homes(self) -> int:
        """Access cables of each NIC [-]."""
        return PLANES

    @property
    def port(self) -> float:
        """Bandwidth of one of the two ports of a NIC, per direction [B/s]."""
        return self.nic / PLANES

    def check(self, hosts: Hosts) -> None:
        """Refuse rails that do not divide, ports that do not suffice, and pods that nothing joins.

        Raises
        ------
        RuleError
            In one line.
        """
        _plan_of(self, hosts)

    def counts(self, hosts: Hosts) -> dict[str, int]:
        """Count the parts of both planes from the parameters alone [-]."""
        plan = _plan_of(self, hosts)
        leaves, spines = PLANES * plan.segments * self.rails, PLANES * plan.pods * plan.spines
        return {
            "nic": hosts.nodes * self.rails,
            "leaf": leaves,
            "spine": spines,
            "core": PLANES * plan.groups * plan.cores,
            "pod": plan.pods,
            "cable_node_leaf": hosts.nodes * self.rails * PLANES,
            "cable_leaf_spine": leaves * plan.leaf_up,
            "cable_spine_core": spines * plan.spine_up,
        }

    def domains(self, hosts: Hosts) -> dict[str, NDArray[np.int32]]:
        """Return segment and pod of each node, (nodes,) each."""
        segment = np.arange(hosts.nodes, dtype=np.int32) // np.int32(self.segment.nodes)
        return {"leaf": segment, "pod": segment // np.int32(_plan_of(self, hosts).segments_per_pod)}

    def bandwidth(self, hosts: Hosts) -> dict[str, float]:
        """Return what one NIC gets of both planes together when all send at once [B/s].

        Where nothing lies beyond a tier, its oversubscription slows nobody.
        """
        plan = _plan_of(self, hosts)
        leaves, down = plan.segments_per_pod * self.rails, float(self.segment.nodes)
        pod = min(1.0, plan.leaf_up * plan.width / down) if plan.segments > 1 else 1.0
        cluster = min(pod, plan.spines * plan.spine_up * plan.width / (leaves * down)) if plan.pods > 1 else pod
        return {"leaf": self.nic, "pod": self.nic * pod, "cluster": self.nic * cluster}

    def disjoint_paths(self, hosts: Hosts) -> int:
        """Return how many paths two leaf switches of one plane have that share no switch [-].

        In a pod there is one through each spine; between pods, one through each spine that has a core to itself.
        """
        plan = _plan_of(self, hosts)
        if plan.pods == 1:
            return plan.spines
        return plan.groups * min(plan.spines // plan.groups, plan.cores)

    def nodes_behind(self, part: str, hosts: Hosts) -> int:
        """Return how many nodes one failed unit, alone, cuts off [-]: a NIC its own, anything else nobody."""
        if part == "nic" and not (self.reroute == "scale_up" and self.rails > 1):
            return 1
        return 0

    def edges(self, hosts: Hosts) -> Edges:
        """Cable both planes: consecutive uplinks go to consecutive upper switches of the plane, round and round."""
        plan, counts = _plan_of(self, hosts), self.counts(hosts)
        first_leaf = hosts.nodes
        first_spine = first_leaf + counts["leaf"]
        first_core = first_spine + counts["spine"]

        nic, plane = np.divmod(np.arange(counts["cable_node_leaf"]), PLANES)
        node, rail = np.divmod(nic, self.rails)
        below = [node]
        above = [first_leaf + (node // self.segment.nodes * self.rails + rail) * PLANES + plane]

        leaf, link = np.divmod(np.arange(counts["cable_leaf_spine"]), plan.leaf_up)
        pair, plane = np.divmod(leaf, PLANES)
        pod, place = np.divmod(pair, plan.segments_per_pod * self.rails)
        below.append(first_leaf + leaf)
        above.append(first_spine + (pod * PLANES + plane) * plan.spines + (place * plan.leaf_up + link) % plan.spines)

        if self.core:
            spine, link = np.divmod(np.arange(counts["cable_spine_core"]), plan.spine_up)
            pod_plane, place = np.divmod(spine, plan.spines)
            pod, plane = np.divmod(pod_plane, PLANES)
            place, group = np.divmod(place, plan.groups)
            place += pod * (plan.spines // plan.groups)
            below.append(first_spine + spine)
            core = (place * plan.spine_up + link) % plan.cores
            above.append(first_core + (plane * plan.groups + group) * plan.cores + core)

        lower = np.concatenate(below).astype(np.int32)
        rails = np.full(lower.size, -1, dtype=np.int16)
        rails[: rail.size] = rail
        bandwidth = np.full(lower.size, plan.width * self.port)
        bandwidth[: rail.size] = self.port
        return Edges(
            lower=lower,
            upper=np.concatenate(above).astype(np.int32),
            tier=np.repeat(np.arange(len(below), dtype=np.int8), [ends.size for ends in below]),
            rail=rails,
            bandwidth=bandwidth,
        )


@dataclass(frozen=True)
class _Plan:
    """Derived integers [-]; `spines` is per pod and plane, `cores` per plane and group of spines that share them."""

    width: int
    segments: int
    segments_per_pod: int
    leaf_up: int
    pods: int
    spines: int
    spine_up: int
    groups: int
    cores: int


@functools.lru_cache(maxsize=256)
def _plan_of(fabric: DualPlane, hosts: Hosts) -> _Plan:
    """Derive the integers of `fabric` and refuse what cannot be cabled."""
    if max(hosts.gpus, fabric.rails) % min(hosts.gpus, fabric.rails):
        msg = f"{hosts.gpus} GPUs per node do not divide evenly over {fabric.rails} rails"
        raise RuleError(("rails",), msg)
    width = _ports_per_uplink(fabric)
    segments = ceil(hosts.nodes / fabric.segment.nodes)
    segments_per_pod = min(fabric.spine.segments or segments, segments)
    pods = ceil(segments / segments_per_pod)
    if pods > 1 and fabric.core is None:
        msg = f"{segments} segments make {pods} pods that nothing joins: add a core tier or raise spine.segments"
        raise ValueError(msg)
    leaf_up = uplinks(fabric.segment.nodes, fabric.spine.oversubscription * width)
    if fabric.segment.nodes + leaf_up * width > fabric.radix:
        msg = (
            f"radix {fabric.radix} is too small for the {fabric.segment.nodes} ports down and {leaf_up * width} up of "
            "a leaf switch: lower segment.nodes, or raise radix or spine.oversubscription"
        )
        raise ValueError(msg)
    # From here on ports count at the speed of the links between switches.
    radix = (fabric.spine.radix or fabric.radix) // width
    above = fabric.core.oversubscription if fabric.core else None
    what = ("pod and plane", "spine.segments")
    spines, spine_up = spine_tier(segments_per_pod * fabric.rails, leaf_up, radix, above, fabric.spine.switches, what)
    groups, cores = 0, 0
    if fabric.core:
        radix = (fabric.core.radix or fabric.radix) // width
        groups, cores = core_tier(pods, spines, spine_up, radix, fabric.core.switches)
    return _Plan(width, segments, segments_per_pod, leaf_up, pods, spines, spine_up, groups, cores)


def _ports_per_uplink(fabric: DualPlane) -> int:
    """Return how many ports at a NIC port's speed a cable between switches takes."""
    ratio = (fabric.uplink if fabric.uplink is not None else fabric.port) / fabric.port
    width = round(ratio)
    if width < 1 or abs(ratio - width) > 1e-9 * width:
        nearest = max(width, 1) * fabric.port
        msg = (
            f"is {ratio:g} times the {_gigabits(fabric.port)} of a NIC's port and must be a whole multiple: "
            f"the nearest is {_gigabits(nearest)}"
        )
        raise RuleError(("uplink",), msg)
    return width


def _gigabits(bandwidth: float) -> str:
    """Return a bandwidth [B/s] in the unit of data sheets."""
    return f"{bandwidth * 8 / 1e9:g} Gb/s"

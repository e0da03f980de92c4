"""Kinds of fabric: from a few parameters to switches, cables and failure domains of any hosts."""

# Annotations are not postponed: pydantic would compile each at the start.
import abc
import functools
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, floor
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from ettrick.sim.cluster.switches import Edges
from ettrick.sim.scenario.fields import Bandwidth, Count, Model, RuleError, Strategy, default

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from numpy.typing import NDArray

    from ettrick.sim.cluster.topology import Hosts

Some = Annotated[Count, Field(ge=1, le=1_000_000_000)]
Ratio = Annotated[float, Field(ge=1, le=1e4)]


class FabricKind(Strategy, abc.ABC):
    """Parameters of one kind of fabric, and what can be made of them."""

    rails: Some = Field(8, description="NICs per host, one rail each.")
    nic: Bandwidth = default("400 Gb/s", gt=0, description="Bandwidth per NIC and direction.")
    reroute: Literal["none", "scale_up"] = Field(
        "none",
        description="Where the traffic of a rail without a path goes: nowhere, and the job on its host crashes, or "
        "through the scale-up links to the other rails, which share it.",
    )
    copper: bool = Field(False, description="Whether the cables from hosts to leaf switches are without transceivers.")

    @property
    def homes(self) -> int:
        """Access cables of each NIC [-]."""
        return 1

    def without_counts(self) -> "Self":
        """Return the same with as many switches as the hosts need; itself where it states no number of them."""
        return self

    @abc.abstractmethod
    def check(self, hosts: "Hosts") -> None:
        """Refuse what cannot be cabled."""

    @abc.abstractmethod
    def counts(self, hosts: "Hosts") -> dict[str, int]:
        """Count the parts of the fabric from the parameters alone: those of ``FABRIC_PARTS``, and pods [-]."""

    @abc.abstractmethod
    def domains(self, hosts: "Hosts") -> "dict[str, NDArray[np.int32]]":
        """Return the domain of each node, (nodes,) each: ``leaf`` (same leaf switches) and ``pod``."""

    @abc.abstractmethod
    def bandwidth(self, hosts: "Hosts") -> dict[str, float]:
        """Return what one NIC gets when all send at once, by how far the traffic goes: leaf, pod, cluster [B/s]."""

    @abc.abstractmethod
    def edges(self, hosts: "Hosts") -> Edges:
        """Build the cables."""

    @abc.abstractmethod
    def disjoint_paths(self, hosts: "Hosts") -> int:
        """Return a lower bound of the paths between any two leaf switches of one plane that share no other switch.

        As long as fewer spines, cores and cables between switches are out at once, no leaf switch is cut off (Menger).
        0 when nothing is known; every outage is then looked at by itself.
        """

    def blast_radii(self, part: str, hosts: "Hosts") -> Counter[int] | None:
        """Count the units of a part by the nodes that each, failing alone, cuts off; None where only the cables say."""
        return None


def check_rails(hosts: "Hosts", rails: int) -> None:
    """Refuse rails that GPUs do not divide over."""
    if max(hosts.gpus, rails) % min(hosts.gpus, rails):
        raise RuleError(("rails",), f"{hosts.gpus} GPUs per node do not divide evenly over {rails} rails")


# Folded Clos networks of two or three tiers of switches: one, or several side by side.


@dataclass(frozen=True)
class ClosDimensions:
    """Derived integers of a folded Clos network, or of `planes` of them side by side [-].

    Parameters
    ----------
    planes
        Networks side by side, each with a cable of every NIC.
    width
        Ports that a cable between switches takes.
    nodes, groups
        Nodes behind the same leaf switches, and such groups in all.
    leaf_switches, leaf_up
        Leaf switches of a group in one plane, and uplinks of each.
    pods, groups_per_pod
        Pods, and groups of a full one.
    spines, spine_up
        Spines of a pod in one plane, and uplinks of each.
    shared, cores
        Into how many parts the cores of a plane fall, each shared by as many spines of every pod, and cores of each.
    """

    planes: int
    width: int
    nodes: int
    groups: int
    leaf_switches: int
    leaf_up: int
    pods: int
    groups_per_pod: int
    spines: int
    spine_up: int
    shared: int
    cores: int

    @property
    def leaves_per_pod(self) -> int:
        """Leaf switches of a full pod in one plane."""
        return self.groups_per_pod * self.leaf_switches

    def may_part(self, part: str) -> bool:
        """Whether one failure of a switch or a cable above it parts leaf switches of a plane from the rest.

        Above them only what stands alone does: the one spine of a pod, the one core, the one cable to either.
        """
        only_spine, only_core = self.spines == 1, self.pods > 1 and self.shared * self.cores == 1
        return {
            "leaf": True,
            "spine": only_spine,
            "core": only_core,
            "cable_leaf_spine": only_spine and self.leaf_up == 1,
            "cable_spine_core": only_spine and only_core and self.spine_up == 1,
        }[part]


class Clos(FabricKind):
    """The common part of folded Clos networks once their integers are known.

    A leaf spreads its uplinks over every spine of its pod and plane. A spine reaches every core of its part of the
    plane, and spines of all pods share each part.
    """

    if TYPE_CHECKING:
        radix: int
        spine: "Spine | PlaneSpine"
        core: "Core | PlaneCore | None"

    @abc.abstractmethod
    def plan(self, hosts: "Hosts") -> ClosDimensions:
        """Derive the integers and refuse what cannot be cabled."""

    def without_counts(self) -> "Self":
        """Return the same without stated numbers of spines and cores."""
        tiers = {"spine": self.spine, "core": self.core}
        stated = {name: tier for name, tier in tiers.items() if tier is not None and tier.switches is not None}
        tiers = {name: tier.model_copy(update={"switches": None}) for name, tier in stated.items()}
        return self.model_copy(update=tiers) if tiers else self

    def _tiers_above(
        self, pods: tuple[int, int], leaf_switches: int, leaf_up: int, width: int, what: tuple[str, str]
    ) -> tuple[int, int, int, int]:
        """Return spines, uplinks of each, parts of cores and cores of each; `pods` are those and the groups of one.

        Ports count at the speed of the links between switches, of which each takes `width` ports of a switch.
        """
        spine, core = self.spine, self.core
        ports, oversubscription = (spine.radix or self.radix) // width, core.oversubscription if core else None
        spines, up = spine_tier(pods[1] * leaf_switches, leaf_up, ports, oversubscription, spine.switches, what)
        if core is None:
            return spines, up, 0, 0
        return spines, up, *core_tier(pods[0], spines, up, (core.radix or self.radix) // width, core.switches)

    def check(self, hosts: "Hosts") -> None:
        """Refuse rails that do not divide, ports that do not suffice, and pods that nothing joins."""
        plan_of(self, hosts)

    def counts(self, hosts: "Hosts") -> dict[str, int]:
        """Count the parts of all planes from the parameters alone [-]."""
        plan, nics = plan_of(self, hosts), hosts.nodes * self.rails
        leaves, spines = plan.planes * plan.groups * plan.leaf_switches, plan.planes * plan.pods * plan.spines
        return {
            "nic": nics,
            "leaf": leaves,
            "spine": spines,
            "core": plan.planes * plan.shared * plan.cores,
            "pod": plan.pods,
            "cable_node_leaf": nics * plan.planes if leaves else 0,
            "cable_leaf_spine": leaves * plan.leaf_up,
            "cable_spine_core": spines * plan.spine_up,
        }

    def domains(self, hosts: "Hosts") -> "dict[str, NDArray[np.int32]]":
        """Return group behind the same leaf switches and pod of each node, (nodes,) each."""
        plan = plan_of(self, hosts)
        group = np.arange(hosts.nodes, dtype=np.int32) // np.int32(plan.nodes)
        return {"leaf": group, "pod": group // np.int32(plan.groups_per_pod)}

    def disjoint_paths(self, hosts: "Hosts") -> int:
        """Return how many paths two leaf switches of one plane have that share no switch [-].

        In a pod there is one through each spine; between pods, one through each spine that has a core to itself. Where
        nothing joins leaf switches, nothing can part them.
        """
        plan = plan_of(self, hosts)
        if not plan.spines:
            return _NOTHING_BETWEEN
        return plan.spines if plan.pods == 1 else plan.shared * min(plan.spines // plan.shared, plan.cores)

    def blast_radii(self, part: str, hosts: "Hosts") -> Counter[int]:
        """Count the units of a part by the nodes that each, failing alone, cuts off; planes stand in for each other."""
        plan, count = plan_of(self, hosts), self.counts(hosts)[part]
        if part in ("nic", "cable_node_leaf"):
            has_detour = self.reroute == "scale_up" and self.rails > 1
            return Counter({int(not has_detour and (part == "nic" or plan.planes == 1)): count})
        if plan.planes > 1 or not plan.may_part(part):
            return Counter({0: count})
        return self._radii_of_switches(part, plan, hosts.nodes)

    def _radii_of_switches(self, part: str, plan: ClosDimensions, nodes: int) -> Counter[int]:
        """Count the switches of the only plane, or the cables between them, by the nodes that each cuts off.

        The component with most access cables keeps on, the first of equals: what is left of the cluster, unless the
        first pod or leaf switch has as many (`has_most`).
        """
        group, pod = min(plan.nodes, nodes), min(plan.nodes * plan.groups_per_pod, nodes)
        leaves, cuts_group = plan.leaf_switches, self.reroute == "none" or plan.leaf_switches == 1
        by_leaf = _radii(nodes, group, leaves) if cuts_group else Counter({0: plan.groups * leaves})
        beyond_leaf = nodes if cuts_group and leaves > 1 else nodes - group
        radii, beyond_first, has_most = {
            "leaf": (by_leaf, 0, False),
            "spine": (_radii(nodes, pod), beyond_leaf, (nodes - pod) * leaves <= group),
            "core": (Counter([pod]), nodes - pod, True),
            "cable_leaf_spine": (by_leaf, beyond_leaf, nodes * leaves <= 2 * group),
            "cable_spine_core": (_radii(nodes, pod), nodes - pod, nodes <= 2 * pod),
        }[part]
        return radii - Counter([max(radii)]) + Counter([beyond_first]) if has_most else radii

    def edges(self, hosts: "Hosts") -> Edges:
        """Cable all planes: consecutive uplinks go to consecutive upper switches of the plane, round and round."""
        plan, counts = plan_of(self, hosts), self.counts(hosts)
        first_leaf, first_spine, first_core = accumulate((hosts.nodes, counts["leaf"], counts["spine"]))

        nic, plane = np.divmod(np.arange(counts["cable_node_leaf"]), plan.planes)
        node, rail = np.divmod(nic, self.rails)
        switch = node // plan.nodes * plan.leaf_switches + rail // (self.rails // max(plan.leaf_switches, 1))
        below, above = [node], [first_leaf + switch * plan.planes + plane]

        leaf, link = np.divmod(np.arange(counts["cable_leaf_spine"]), max(plan.leaf_up, 1))
        switch, plane = np.divmod(leaf, plan.planes)
        pod, place = np.divmod(switch, max(plan.leaves_per_pod, 1))
        spine = (pod * plan.planes + plane) * plan.spines + (place * plan.leaf_up + link) % max(plan.spines, 1)
        below.append(first_leaf + leaf)
        above.append(first_spine + spine)

        if plan.cores:
            spine, link = np.divmod(np.arange(counts["cable_spine_core"]), plan.spine_up)
            pod_plane, place = np.divmod(spine, plan.spines)
            pod, plane = np.divmod(pod_plane, plan.planes)
            place, part = np.divmod(place, plan.shared)
            place += pod * (plan.spines // plan.shared)
            core = (plane * plan.shared + part) * plan.cores + (place * plan.spine_up + link) % plan.cores
            below.append(first_spine + spine)
            above.append(first_core + core)

        lower = np.concatenate(below).astype(np.int32)
        rails = np.full(lower.size, -1, dtype=np.int16)
        rails[: rail.size] = rail
        port = self.nic / plan.planes
        bandwidth = np.full(lower.size, plan.width * port)
        bandwidth[: rail.size] = port
        return Edges(
            lower=lower,
            upper=np.concatenate(above).astype(np.int32),
            tier=np.repeat(np.arange(len(below), dtype=np.int8), [ends.size for ends in below]),
            rail=rails,
            bandwidth=bandwidth,
        )


_NOTHING_BETWEEN = 1_000_000

"""Paths between leaf switches that nothing joins: nothing that could fail parts them [-]."""


def _radii(nodes: int, size: int, units: int = 1) -> Counter[int]:
    """Count the units, some of each domain of nodes, by the size of theirs; the last domain may be smaller."""
    domains, rest = divmod(nodes, size)
    return +Counter({size: units * domains}) + Counter({rest: units * (rest > 0)})


@functools.lru_cache(maxsize=256)
def plan_of(fabric: Clos, hosts: "Hosts") -> ClosDimensions:
    """Return `Clos.plan`, derived once."""
    return fabric.plan(hosts)


def uplinks(down: int, oversubscription: float) -> int:
    """Return the links up [-] of a switch with `down` links down: the quotient, rounded up to whole cables."""
    # The small number keeps a whole quotient whole when the division is off in its last digit.
    return max(ceil(down / oversubscription - 1e-9), 1)


def downlinks(radix: int, oversubscription: float | None) -> int:
    """Return the most links down [-] of a switch whose links up must fit too (None: top tier, no links up)."""
    if oversubscription is None:
        return radix
    return floor(radix * oversubscription / (1 + oversubscription) + 1e-9)


def fewest_switches(links: int, uplinks_each: int, ports: int) -> int:
    """Return how many switches of `ports` take `links` from lower switches of `uplinks_each`.

    Published designs give a lower switch as many links to one upper switch as to any other, so the number is the next
    divisor of `uplinks_each`. If that would more than double the switches (because `uplinks_each` is prime, say),
    it is the plain quotient and the links are spread as evenly as they go.

    The result may exceed `uplinks_each`; a lower switch then cannot reach every upper one, which is for the caller to
    judge.

    Examples
    --------
    Three scalable units of the DGX SuperPOD have 768 links from leaves of 32 uplinks; 12 spines of 64 ports would do.

    >>> fewest_switches(768, 32, 64)
    16
    """
    needed = ceil(links / ports)
    even = next((number for number in range(needed, uplinks_each + 1) if uplinks_each % number == 0), needed)
    return even if even <= 2 * needed else needed


def joined_pods(groups: int, per_pod: int | None, core: object, what: tuple[str, str]) -> tuple[int, int]:
    """Return pods, and the groups of a full one; without a core tier there is one."""
    per_pod = min(per_pod or groups, groups)
    pods = ceil(groups / per_pod)
    if pods > 1 and core is None:
        raise ValueError(f"{groups} {what[0]} make {pods} pods that nothing joins: add a core tier or raise {what[1]}")
    return pods, per_pod


def spine_tier(
    leaves: int, leaf_up: int, radix: int, above: float | None, switches: int | None, what: tuple[str, str]
) -> tuple[int, int]:
    """Return the spines that join leaf switches, and uplinks of each [-].

    Parameters
    ----------
    leaves, leaf_up
        Leaf switches of a pod (and plane), and uplinks of each [-].
    radix
        Ports of a spine at the speed of these links [-].
    above
        Links down over links up of a spine; None for the top tier.
    switches
        How many spines there shall be; None for the fewest.
    what
        What the leaf switches are counted by, and the key that makes them fewer; for the message.

    Raises
    ------
    ValueError
        If the ports do not suffice, or a leaf switch cannot reach every spine.
    """
    ports = downlinks(radix, above)
    if ports < 1:
        raise ValueError(f"spine radix {radix} leaves no port for a leaf switch")
    links = leaves * leaf_up
    spines = switches or fewest_switches(links, leaf_up, ports)
    down = ceil(links / spines)
    if spines > leaf_up or down > ports:
        raise ValueError(
            f"spine radix {radix} is too small: {leaves} leaf switches per {what[0]} of {leaf_up} uplinks each on "
            f"{spines} spines need {down} links down of {ports} possible, and at most {leaf_up} spines: "
            f"lower {what[1]} or raise radix"
        )
    return spines, uplinks(down, above) if above else 0


def core_tier(pods: int, spines: int, spine_up: int, radix: int, switches: int | None) -> tuple[int, int]:
    """Return groups of spines that share cores, and the cores of each group [-].

    Fewer groups mean more paths between two spines, so the first number that can be cabled is taken. `switches` is how
    many cores there shall be in all; None for the fewest.

    Raises
    ------
    ValueError
        If no number of groups can be cabled.
    """
    for groups in (number for number in range(1, spines + 1) if radix and spines % number == 0):
        links = pods * (spines // groups) * spine_up
        if switches is None:
            cores = fewest_switches(links, spine_up, radix)
        elif switches % groups == 0:
            cores = switches // groups
        else:
            continue
        if cores <= spine_up and ceil(links / cores) <= radix:
            return groups, cores
    wanted = f"core.switches = {switches}" if switches else "any number of core switches"
    some = "pod" if pods == 1 else "pods"
    raise ValueError(
        f"core radix {radix} is too small for {pods} {some} of {spines} spines of {spine_up} uplinks each with {wanted}"
    )


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


class FatTree(Clos):
    """Rail-optimised fat tree of two or three tiers.

    Every NIC has one cable to one leaf switch, rail ``r`` of all nodes of a leaf group on the same switch. Links
    between switches run at the NIC's speed; where oversubscription does not divide the ports, links are rounded up.
    Partly filled last leaf groups and pods are allowed; their switches and uplinks are complete.

    Cores fall into as few parts as possible.
    """

    use: Literal["fat-tree"] = "fat-tree"
    radix: Some = Field(64, description="Ports per switch, at the NIC's speed.")
    tiers: Literal[0, 1] | None = Field(
        None, description="0: no switches, for one node; 1: only one group of leaf switches; omitted: two, or three."
    )
    leaf: Leaf = Leaf()
    spine: Spine = Spine()
    core: Core | None = Field(None, description="Third tier; omitted: two tiers.")

    @property
    def title(self) -> str:
        """The name in texts."""
        speed, tiers = f"{self.rails} rails of {self.nic * 8 / 1e9:g} Gb/s", 3 if self.core else 2
        if self.tiers == 0:
            return f"no switches for one node, {speed}"
        if self.tiers == 1:
            return f"one tier of {self.radix}-port leaf switches, {speed}"
        return f"fat tree of {tiers} tiers of {self.radix}-port switches, {speed}"

    def plan(self, hosts: "Hosts") -> ClosDimensions:
        """Derive the integers and refuse what cannot be cabled."""
        check_rails(hosts, self.rails)
        if self.tiers is not None:
            return self._plan_of_one_group(hosts)
        switches = self.leaf.switches or self.rails
        if self.rails % switches:
            raise ValueError(f"{self.rails} rails do not divide evenly over leaf.switches = {switches}")
        down = self.leaf.nodes * (self.rails // switches)
        up = uplinks(down, self.spine.oversubscription)
        radix = self.leaf.radix or self.radix
        if down + up > radix:
            raise ValueError(
                f"leaf radix {radix} is too small for {down} links down and {up} up: "
                "lower leaf.nodes, or raise radix or spine.oversubscription"
            )
        groups = ceil(hosts.nodes / self.leaf.nodes)
        pods = joined_pods(groups, self.spine.leaf_groups, self.core, ("leaf groups", "spine.leaf_groups"))
        above = self._tiers_above(pods, switches, up, 1, ("pod", "spine.leaf_groups"))
        return ClosDimensions(1, 1, self.leaf.nodes, groups, switches, up, *pods, *above)

    def _plan_of_one_group(self, hosts: "Hosts") -> ClosDimensions:
        """Derive the integers of leaf switches that nothing joins, or of no switches at all."""
        if not self.tiers:
            if hosts.nodes > 1:
                raise RuleError(("tiers",), f"is 0, and {hosts.nodes:,} nodes need switches; leave it out")
            return ClosDimensions(1, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0)
        switches, radix = self.leaf.switches or self.rails, self.leaf.radix or self.radix
        if self.rails % switches:
            raise ValueError(f"{self.rails} rails do not divide evenly over leaf.switches = {switches}")
        if hosts.nodes * (self.rails // switches) > radix:
            rule = f"is 1, and {hosts.nodes:,} nodes need more than the {radix} ports of a leaf switch; leave it out"
            raise RuleError(("tiers",), rule)
        return ClosDimensions(1, 1, hosts.nodes, 1, switches, 0, 1, 1, 0, 0, 0, 0)

    def bandwidth(self, hosts: "Hosts") -> dict[str, float]:
        """Return what one NIC gets when all send at once [B/s].

        Where nothing lies beyond a tier, its oversubscription slows no node.
        """
        plan = plan_of(self, hosts)
        if not plan.spines:
            return {"leaf": self.nic, "pod": self.nic, "cluster": self.nic}
        down = plan.nodes * (self.rails // plan.leaf_switches)
        above_leaf = plan.leaf_up / down if plan.groups > 1 else 1.0
        above_pod = plan.spines * plan.spine_up / (plan.leaves_per_pod * plan.leaf_up) if plan.pods > 1 else 1.0
        return {"leaf": self.nic, "pod": self.nic * above_leaf, "cluster": self.nic * above_leaf * min(1.0, above_pod)}


def fitting_tree(hosts: "Hosts") -> FatTree:
    """Return the fat tree of full bisection that joins hosts of which no fabric is stated.

    The first that can be cabled of: no switches for one host; the fewest leaf switches of 64 ports, and no spines; two
    tiers of 64-port switches; three tiers of 64, 128 and 256 ports with the largest pods. A host has eight rails, or
    one for each of its GPUs where their number does not divide by eight.

    Raises
    ------
    ValueError
        If none of them can.

    Examples
    --------
    Three tiers of ``k`` ports end at ``k**3 / 4`` NICs, those of 64 ports at 8,192 hosts of eight.

    >>> from ettrick.sim.cluster.topology import Hosts
    >>> [fitting_tree(Hosts(nodes, 8)).radix for nodes in (256, 8192, 8193, 131072)]
    [64, 64, 128, 256]
    """
    rails, ports = FatTree().rails, _PORTS[0]
    if max(hosts.gpus, rails) % min(hosts.gpus, rails):
        rails = hosts.gpus
    if hosts.nodes == 1:
        return FatTree(rails=rails, tiers=0)
    for switches in (count for count in range(1, rails + 1) if rails % count == 0):
        if hosts.nodes * (rails // switches) <= ports:
            leaf = Leaf.model_validate({"nodes": hosts.nodes, "switches": switches})
            return FatTree(rails=rails, tiers=1, leaf=leaf)
    fitting = next((tree for tree in _large_trees(rails) if _joins(tree, hosts)), None)
    if fitting is None:
        most = _PORTS[-1] * (_PORTS[-1] // 2) * (_PORTS[-1] // 2 // rails)
        raise ValueError(
            f"no fat tree of {_PORTS[-1]}-port switches joins {hosts.nodes:,} hosts of {rails} rails, "
            f"at most {most:,}: say what does (fabric)"
        )
    return fitting


def _large_trees(rails: int) -> "Iterator[FatTree]":
    """Yield the tree of two tiers, and those of three tiers."""
    yield FatTree().model_copy(update={"rails": rails})
    for radix in _PORTS:
        # A spine has as many links down as up, and one to each leaf switch of its pod.
        pod = Spine.model_validate({"leaf_groups": max(radix // 2 // rails, 1)})
        leaf = Leaf.model_validate({"nodes": radix // 2})
        yield FatTree(rails=rails, radix=radix, leaf=leaf, spine=pod, core=Core.model_validate({}))


def _joins(tree: FatTree, hosts: "Hosts") -> bool:
    try:
        plan_of(tree, hosts)
    except ValueError:
        return False
    return True


# Two networks side by side.

_PLANES = 2


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


class DualPlane(Clos):
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
        return _PLANES

    @property
    def port(self) -> float:
        """Bandwidth of one of the two ports of a NIC, per direction [B/s]."""
        return self.nic / _PLANES

    def plan(self, hosts: "Hosts") -> ClosDimensions:
        """Derive the integers and refuse what cannot be cabled."""
        check_rails(hosts, self.rails)
        width = self._ports_per_uplink()
        nodes = self.segment.nodes
        segments = ceil(hosts.nodes / nodes)
        pods = joined_pods(segments, self.spine.segments, self.core, ("segments", "spine.segments"))
        up = uplinks(nodes, self.spine.oversubscription * width)
        if nodes + up * width > self.radix:
            raise ValueError(
                f"radix {self.radix} is too small for the {nodes} ports down and {up * width} up of a leaf switch: "
                "lower segment.nodes, or raise radix or spine.oversubscription"
            )
        above = self._tiers_above(pods, self.rails, up, width, ("pod and plane", "spine.segments"))
        return ClosDimensions(_PLANES, width, nodes, segments, self.rails, up, *pods, *above)

    def _ports_per_uplink(self) -> int:
        """Return how many ports at a NIC port's speed a cable between switches takes."""
        ratio = (self.uplink if self.uplink is not None else self.port) / self.port
        width = round(ratio)
        if width < 1 or abs(ratio - width) > 1e-9 * width:
            raise RuleError(
                ("uplink",),
                f"is {ratio:g} times the {_gigabits(self.port)} of a NIC's port and must be a whole multiple: "
                f"the nearest is {_gigabits(max(width, 1) * self.port)}",
            )
        return width

    def bandwidth(self, hosts: "Hosts") -> dict[str, float]:
        """Return what one NIC gets of both planes together when all send at once [B/s].

        Where nothing lies beyond a tier, its oversubscription slows no node.
        """
        plan, down = plan_of(self, hosts), float(self.segment.nodes)
        pod = min(1.0, plan.leaf_up * plan.width / down) if plan.groups > 1 else 1.0
        up = plan.spines * plan.spine_up * plan.width
        cluster = min(pod, up / (plan.leaves_per_pod * down)) if plan.pods > 1 else pod
        return {"leaf": self.nic, "pod": self.nic * pod, "cluster": self.nic * cluster}


def _gigabits(bandwidth: float) -> str:
    """Return a bandwidth [B/s] in the unit of data sheets."""
    return f"{bandwidth * 8 / 1e9:g} Gb/s"

"""The cluster as a user describes it: hosts, what they share in addition to the fabric, and the fabric."""

# Annotations are not postponed: pydantic would compile each at the start.
from collections import Counter
from functools import cached_property, partial
from math import ceil
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeAlias, Union

import numpy as np
from pydantic import Field

from ettrick.sim import catalog
from ettrick.sim.cluster.fabric import DualPlane, FatTree, Some, fitting_tree
from ettrick.sim.cluster.graph_file import GraphFile
from ettrick.sim.cluster.switches import CABLES, FABRIC_PARTS
from ettrick.sim.cluster.topology import Hosts, Topology
from ettrick.sim.scenario.fields import Duration, Model, OneOf, RuleError, default
from ettrick.sim.scenario.model import AnyAccelerator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ettrick.sim.cluster.fabric import FabricKind
    from ettrick.sim.scenario.fields import BrokenRules
    from ettrick.sim.steps import Accelerator

# Scale-up domains: GPUs that share memory-like links, such as the eight of a board or the 72 of an NVL72 rack.


class ScaleUp(Model):
    """The scale-up domain: its GPUs, the GPUs that a job needs of it, and the unit that leaves when one fails."""

    gpus: Some = Field(description="GPUs of one scale-up domain.")
    use: Some | None = Field(
        None, description="GPUs of a domain that a job takes; the others are its spares. Omitted: all."
    )
    tray: Some | None = Field(None, description="GPUs of a compute tray, which is a node; omitted: gpus_per_node.")
    switch_trays: int = Field(0, ge=0, description="Trays of scale-up switches in a domain; one that fails stops it.")
    drain_unit: Literal["tray", "domain", "rack"] = Field(
        "tray", description="Unit out of use while a tray is repaired: the tray, or its whole domain (rack)."
    )
    swap_unit: Literal["tray", "domain", "rack"] = Field(
        "domain",
        description="Unit that a job exchanges when a domain lacks GPUs: the whole domain (rack), or single trays, "
        "which may then come from any domain.",
    )

    def _broken_rules(self) -> "BrokenRules":
        if self.use is not None and self.use > self.gpus:
            yield ("use",), f"is {self.use} GPUs, but a scale-up domain has {self.gpus}"
        if self.swap_unit == "tray" and self.use not in (None, self.gpus):
            rule = "is for domains that are swapped whole; with swap_unit: tray a job takes trays wherever they are"
            yield ("use",), rule
        if self.swap_unit == "tray" and self.drain_unit != "tray":
            yield ("drain_unit",), "a domain that is drained whole must be swapped whole: swap_unit: domain"

    @property
    def drains(self) -> bool:
        """Whether the repair of one tray takes the whole domain out of use."""
        return self.drain_unit != "tray"

    @property
    def used(self) -> int:
        """GPUs of a domain that a job takes [-]."""
        return self.gpus if self.use is None else self.use

    def check(self, gpus_per_node: int, nodes: int, nodes_per_rack: int) -> None:
        """Refuse domains that nodes do not fill."""
        if self.tray is not None and self.tray != gpus_per_node:
            raise RuleError(("tray",), f"is {self.tray} GPUs, but gpus_per_node is {gpus_per_node}; a tray is a node")
        for key, value in (("gpus", self.gpus), ("use", self.used)):
            if value % gpus_per_node:
                near = max(round(value / gpus_per_node), 1) * gpus_per_node
                raise RuleError((key,), f"{value} GPUs are not whole nodes of {gpus_per_node}; nearest: {near}")
        width = self.gpus // gpus_per_node
        if nodes % width:
            below = nodes // width * width
            near_nodes = f"{below} or {below + width}" if below else f"{width}"
            raise RuleError(
                ("gpus",),
                f"{nodes * gpus_per_node} GPUs do not divide into scale-up domains of {self.gpus}; nearest numbers of "
                f"nodes: {near_nodes}",
            )
        for key, unit in (("drain_unit", self.drain_unit), ("swap_unit", self.swap_unit)):
            if unit == "rack" and nodes_per_rack != width:
                rule = f"is rack, but a rack has {nodes_per_rack} nodes and a domain {width}; say domain, or rack.nodes"
                raise RuleError((key,), rule)


# The kinds of fabric by name; adding one is a file and a line here.

FABRICS: "dict[str, type[FabricKind]]" = {"fat-tree": FatTree, "dual-plane": DualPlane, "graph-file": GraphFile}

if TYPE_CHECKING:
    AnyFabric: TypeAlias = FabricKind
else:
    _KINDS = tuple(FABRICS.values())
    AnyFabric = Annotated[Union[_KINDS], OneOf("use", "fabric", _KINDS)]  # noqa: UP007


_MOST_GPUS = 10_000_000
"""A hundred times the largest clusters that are built; arrays over them still fit into memory."""

NODES_OR_POOLS = "give exactly one of nodes and pools"


class HostPool(Model):
    """Nodes of one kind; pools follow one another in the numbers of the nodes."""

    count: Some = Field(description="Nodes.")
    accelerator: AnyAccelerator = Field(description="Name in the catalog of accelerators, or what differs from one.")
    age: Duration = default(
        "0 s", description="How long the nodes and their parts have run when the simulation starts."
    )


class Rack(Model):
    """Physical racks."""

    nodes: Some = Field(4, description="Nodes per rack.")


class Pdu(Model):
    """Power distribution units: racks that go dark together."""

    racks: Some = Field(8, description="Racks per power distribution unit.")


class Cooling(Model):
    """Cooling units: racks that get hot together."""

    racks: Some = Field(8, description="Racks per cooling unit.")


class ClusterSpec(Model):
    """A cluster: its hosts, the racks, power and cooling that they share, scale-up domains, and the fabric.

    Partly filled last racks, power and cooling domains are allowed.
    """

    name: str = Field("cluster", min_length=1, description="Name of the cluster.")
    nodes: Some | None = Field(
        None,
        description="Number of identical hosts; for several kinds of hosts give pools. Omitted in a scenario: those "
        "of all jobs and spares, in whole units where jobs use these.",
    )
    accelerator: AnyAccelerator | None = Field(
        None, description="Name in the catalog of accelerators, or what differs from one; omitted: h100."
    )
    pools: tuple[HostPool, ...] = Field((), description="Kinds of hosts, instead of nodes and accelerator.")
    gpus_per_node: Some | None = Field(
        None, description="GPUs per host; omitted: those of a tray, else of a node of the accelerator, 8 as a rule."
    )
    scale_up: ScaleUp | None = Field(
        None,
        description="Scale-up domains; omitted: those of the accelerator, swapped by trays, where nodes are as it has "
        "them (gb200: 72 GPUs), else each node is one.",
    )
    rack: Rack = Rack()
    pdu: Pdu = Pdu()
    cooling: Cooling = Cooling()
    fabric: "AnyFabric" = Field(
        default_factory=FatTree, description="Network of the hosts [default: the smallest fat tree that connects them]."
    )

    def _broken_rules(self) -> "BrokenRules":
        self._check_hosts()
        if domain := self._domain_of_accelerator:
            trays = ScaleUp(gpus=domain, swap_unit="tray")
            object.__setattr__(self, "scale_up", trays)  # not among the fields that were set
        if self.nodes is not None or self.pools:
            self._fit()
        elif self.fabric.use == "graph-file":
            yield ("nodes",), "is missing: a graph file has hosts of its own; say how many"

    def resized(self, nodes: int) -> Self:
        """Return the same of so many nodes; stated numbers of spines and cores stay where they can be cabled.

        Raises
        ------
        RuleError
            If that cannot be built with any number of them.
        """
        try:
            cluster = self.with_nodes(nodes)
        except RuleError:
            fabric = self.fabric.without_counts()
            if fabric is self.fabric:
                raise
            cluster = self.model_copy(update={"fabric": fabric}).with_nodes(nodes)
        cluster.__pydantic_fields_set__.add("nodes")
        return cluster

    def with_nodes(self, nodes: int) -> Self:
        """Return the same of so many nodes, which count as not stated.

        Raises
        ------
        RuleError
            If that cannot be built.
        """
        cluster = self.model_copy()
        object.__setattr__(cluster, "nodes", nodes)
        cluster.__pydantic_fields_set__.discard("nodes")
        cluster._fit()
        return cluster

    def _fit(self) -> None:
        """Choose a fabric where none is stated, and refuse what cannot be built."""
        nodes, gpus = self.hosts
        if nodes * gpus > _MOST_GPUS:
            rule = f"makes {nodes * gpus:,} GPUs, {gpus:,} in each node, and at most {_MOST_GPUS:,} are simulated"
            raise RuleError(("pools",) if self.pools else ("nodes",), rule)
        if self.scale_up is not None:
            try:
                self.scale_up.check(self.hosts.gpus, self.hosts.nodes, self.rack.nodes)
            except RuleError as error:
                if "scale_up" in self.model_fields_set:
                    raise RuleError(("scale_up", *error.at), error.rule) from None
                rule = f"{error.rule}; or state scale_up: domains of {self.scale_up.gpus} are those of the accelerator"
                raise RuleError(("nodes",), rule) from None
            for index, pool in enumerate(self.pools):
                if pool.count % self.nodes_per_domain:
                    rule = f"{pool.count} nodes are not whole scale-up domains of {self.nodes_per_domain} nodes"
                    raise RuleError(("pools", index, "count"), rule)
        try:
            if not self.states_fabric:
                object.__setattr__(self, "fabric", fitting_tree(self.hosts))  # not among the fields that were set
            self.fabric.check(self.hosts)
        except RuleError as error:
            raise RuleError(("fabric", *error.at), error.rule) from None
        except ValueError as error:
            raise RuleError(("fabric",), str(error)) from None
        if self.fabric.reroute == "scale_up" and self.fabric.rails == 1:
            raise RuleError(("fabric", "reroute"), "needs several rails: the traffic of one goes over the others")

    def _check_hosts(self) -> None:
        if self.nodes is not None and self.pools:
            raise ValueError(NODES_OR_POOLS)
        if self.pools and self.accelerator is not None:
            raise RuleError(("accelerator",), "is for clusters of one kind of nodes; each of the pools names its own")

    @property
    def states_nodes(self) -> bool:
        """Whether the number of nodes is as described, and not that of jobs and spares."""
        return bool(self.pools) or "nodes" in self.model_fields_set

    @property
    def states_fabric(self) -> bool:
        """Whether the fabric is as described, and not chosen to fit."""
        return "fabric" in self.model_fields_set

    @property
    def hosts(self) -> Hosts:
        """Nodes, and GPUs of each [-].

        Raises
        ------
        ValueError
            If neither nodes nor pools are stated.
        """
        if self.nodes is None and not self.pools:
            raise ValueError(NODES_OR_POOLS)
        nodes = self.nodes if self.nodes is not None else sum(pool.count for pool in self.pools)
        return Hosts(nodes, self.gpus_of_a_node)

    @property
    def gpus_of_a_node(self) -> int:
        """GPUs of each node [-]."""
        tray = self.scale_up.tray if self.scale_up is not None else None
        return self.gpus_per_node or tray or max(chip.tray for chip in self._chips)

    @property
    def _chips(self) -> "list[Accelerator]":
        """The accelerator of each pool as the catalog has it, with the nodes of H100 where it does not."""
        named = [pool.accelerator for pool in self.pools] or [self.accelerator or "h100"]
        chips = catalog.accelerators()
        likes = (accelerator if isinstance(accelerator, str) else accelerator.like for accelerator in named)
        return [chips.get(like, chips["h100"]) for like in likes]

    @property
    def _domain_of_accelerator(self) -> int:
        """GPUs of the scale-up domains that follow from the accelerator [-]; 0 where they are stated, or nodes.

        One rack that is not full is a domain.
        """
        chip, *more_chips = self._chips
        if "scale_up" in self.model_fields_set or more_chips or not chip.domain or self.gpus_of_a_node != chip.tray:
            return 0
        return min(chip.domain, (self.nodes or chip.domain) * chip.tray)

    @property
    def follows(self) -> str:
        """The consequence of the accelerator that is not stated, in a line; empty where that is nothing unusual."""
        chip = self._chips[0]
        of_nodes = self.gpus_per_node is None and self.gpus_of_a_node != 8 and "scale_up" not in self.model_fields_set
        parts = [f"nodes of {self.gpus_of_a_node} GPUs"] if of_nodes else []
        if self.scale_up is not None and "scale_up" not in self.model_fields_set:
            parts.append(f"scale-up domains of {self.scale_up.gpus}, swapped by trays")
        return f"cluster: {' and '.join(parts)} follow from the accelerator ({chip.title})" if parts else ""

    @cached_property
    def all_pools(self) -> tuple[HostPool, ...]:
        """The kinds of hosts, one if they are all alike."""
        if self.pools:
            return self.pools
        return (HostPool.model_validate({"count": self.nodes, "accelerator": self.accelerator or "h100"}),)

    @property
    def nodes_per_domain(self) -> int:
        """Nodes of one scale-up domain [-]."""
        return self.scale_up.gpus // self.gpus_of_a_node if self.scale_up is not None else 1

    @property
    def optical(self) -> tuple[int, ...]:
        """Tiers whose cables have a transceiver at each end."""
        return (1, 2) if self.fabric.copper else (0, 1, 2)

    def counts(self) -> dict[str, int]:
        """Count every part from the parameters alone, without an array.

        Returns
        -------
        dict of str to int
            Units per part class [-].
        """
        nodes, gpus = self.hosts
        racks = ceil(nodes / self.rack.nodes)
        counts = {"gpu": nodes * gpus, "node": nodes}
        if self.scale_up is not None:
            counts["scale_up"] = nodes // self.nodes_per_domain
            if self.scale_up.switch_trays:
                counts["switch_tray"] = counts["scale_up"] * self.scale_up.switch_trays
        counts["rack"] = racks
        counts["pdu"] = ceil(racks / self.pdu.racks)
        counts["cooling"] = ceil(racks / self.cooling.racks)
        counts |= self.fabric.counts(self.hosts)
        cables = [counts[name] for name in CABLES]
        counts["transceiver"] = 2 * sum(cables[tier] for tier in self.optical)
        return counts

    def nodes_behind(self, part: str) -> int:
        """Return how many nodes one failed unit takes alone, where its domain is full [-]; 0 for none."""
        nodes = self.hosts.nodes
        if part in ("gpu", "node"):
            return 1
        if part in FABRIC_PARTS:
            return max(self._blast_radii(part), default=0)
        if part == "pod":
            return int(np.bincount(self.fabric.domains(self.hosts)["pod"]).max())
        return min(self.domain_nodes[part], nodes)

    def _blast_radii(self, part: str) -> Counter[int]:
        """Count the units of a part class of the fabric by the nodes that each, failing alone, cuts off."""
        if part == "transceiver":
            return sum((self._blast_radii(CABLES[tier]) for tier in self.optical for _ in range(2)), Counter())
        radii = self.fabric.blast_radii(part, self.hosts)
        return Counter(np.diff(self._built.members(part).offsets).tolist()) if radii is None else +radii

    @property
    def domain_nodes(self) -> dict[str, int]:
        """Nodes of a full domain of each part in addition to the fabric that has several [-]."""
        return {
            "rack": self.rack.nodes,
            "pdu": self.rack.nodes * self.pdu.racks,
            "cooling": self.rack.nodes * self.cooling.racks,
            "scale_up": self.nodes_per_domain,
            "switch_tray": self.nodes_per_domain,
        }

    def share_that_cuts(self, part: str) -> float:
        """Return the share of the units of a part class of the fabric whose failure, alone, takes nodes [-]."""
        radii = self._blast_radii(part)
        return (radii.total() - radii[0]) / max(radii.total(), 1)

    @cached_property
    def stopping_parts(self) -> tuple[str, ...]:
        """Part classes of which one failed unit stops at least one node."""
        return tuple(part for part, count in self.counts().items() if count and self.nodes_behind(part))

    @cached_property
    def _built(self) -> Topology:
        return self.build()

    def build(self) -> Topology:
        """Build the domains; the edges wait until they are asked for."""
        nodes, gpus = self.hosts
        rack = _blocks(nodes, self.rack.nodes)
        domains = {
            **self.fabric.domains(self.hosts),
            "rack": rack,
            "pdu": rack // np.int32(self.pdu.racks),
            "cooling": rack // np.int32(self.cooling.racks),
            "scale_up": _blocks(nodes, self.nodes_per_domain),
        }
        return Topology(
            name=self.name,
            nodes=nodes,
            gpus_per_node=gpus,
            rails=self.fabric.rails,
            counts=self.counts(),
            domains=domains,
            bandwidth=self.fabric.bandwidth(self.hosts),
            disjoint_paths=self.fabric.disjoint_paths(self.hosts),
            optical=self.optical,
            reroute=self.fabric.reroute == "scale_up",
            make_edges=partial(self.fabric.edges, self.hosts),
        )


def _blocks(nodes: int, size: int) -> "NDArray[np.int32]":
    """Return the number of the block of `size` that each node is in, (nodes,)."""
    return np.arange(nodes, dtype=np.int32) // np.int32(size)

"""Small fabrics drawn at random, and what networkx says of them when parts are out.

Nothing here uses the simulator's own reduction of the cables: it is the rival that the tests of paths lay beside it.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from ettrick.sim.cluster import FABRIC_PARTS, ClusterSpec, Edges, Topology, edges

if TYPE_CHECKING:
    from collections.abc import Iterable

Failure = tuple[str, int]

Cable = tuple[int, int, int, float]  # tier, lower end, upper end, bandwidth


def by_hand(
    sizes: tuple[int, int, int, int],
    access: list[tuple[int, int, int, float]],
    links: list[Cable],
    pods: list[int] | None = None,
    *,
    disjoint_paths: int = 0,
    optical: tuple[int, ...] = (0, 1, 2),
    reroute: bool = False,
) -> Topology:
    """Return a topology of hosts, leaves, spines and cores from access cables (node, rail, leaf, bandwidth) and links.

    Switches are numbered within their tier.
    """
    nodes, leaves, spines, cores = sizes
    first = [0, nodes, nodes + leaves, nodes + leaves + spines]
    links = sorted(links, key=lambda link: link[0])
    rows = [(node, nodes + leaf, 0, rail, bandwidth) for node, rail, leaf, bandwidth in access]
    rows += [(first[tier] + low, first[tier + 1] + high, tier, -1, bandwidth) for tier, low, high, bandwidth in links]
    types = (np.int32, np.int32, np.int8, np.int16, np.float64)
    cables = Edges(
        *(np.array(column, dtype=type_) for column, type_ in zip(zip(*rows, strict=True), types, strict=True))
    )
    rails = 1 + max(entry[1] for entry in access)
    pod = np.array(pods or [0] * nodes, dtype=np.int32)
    per_tier = np.bincount(cables.tier, minlength=3).tolist()
    return Topology(
        name="drawn",
        nodes=nodes,
        gpus_per_node=rails,
        rails=rails,
        counts={
            "node": nodes,
            "leaf": leaves,
            "spine": spines,
            "core": cores,
            "nic": nodes * rails,
            "cable_node_leaf": per_tier[0],
            "cable_leaf_spine": per_tier[1],
            "cable_spine_core": per_tier[2],
            "transceiver": 2 * sum(per_tier[tier] for tier in optical),
        },
        domains={"pod": pod, "leaf": np.zeros(nodes, dtype=np.int32)},
        bandwidth={"leaf": 1.0, "pod": 1.0, "cluster": 1.0},
        disjoint_paths=disjoint_paths,
        optical=optical,
        reroute=reroute,
        make_edges=lambda: cables,
    )


def drawn(seed: int, *, saturated: bool = False) -> Topology:
    """Draw a fabric of one or two planes, two or three tiers, and NICs with one or two homes.

    With `saturated` every leaf switch gets at least as much from its hosts as it can pass up.
    """
    generator = np.random.default_rng(seed)
    integer = generator.integers
    planes, pods = int(integer(1, 3)), int(integer(1, 4))
    leaves_each, spines_each = int(integer(1, 4)), int(integer(1, 4))
    cores_each = int(integer(1, 4)) if pods > 1 or integer(2) else 0
    leaves, spines, cores = planes * pods * leaves_each, planes * pods * spines_each, planes * cores_each
    links: list[Cable] = []
    speeds = [0.5, 1.0, 2.0]
    for block in range(planes * pods):
        plane = block // pods
        for leaf in range(block * leaves_each, (block + 1) * leaves_each):
            ends = block * spines_each + generator.integers(spines_each, size=int(integer(1, 5)))
            links.extend((1, leaf, int(spine), float(generator.choice(speeds))) for spine in ends)
        for spine in range(block * spines_each, (block + 1) * spines_each):
            if cores_each:
                ends = plane * cores_each + generator.integers(cores_each, size=int(integer(1, 4)))
                links.extend((2, spine, int(core), float(generator.choice(speeds))) for core in ends)
    links = [links[position] for position in generator.permutation(len(links))]

    nodes, rails, homes = int(integer(3, 13)), int(integer(1, 4)), int(integer(1, 3))
    speed = 64.0 if saturated else 1.0
    patterns = [_pattern(generator, planes, pods, leaves_each, rails, homes) for _ in range(int(integer(2, 6)))]
    chosen = [patterns[int(integer(len(patterns)))] for _ in range(nodes)]
    access = [
        (node, rail, leaf, speed / len(ends))
        for node, (_, pattern) in enumerate(chosen)
        for rail, ends in enumerate(pattern)
        for leaf in ends
    ]
    if saturated:
        # A leaf switch without hosts fills no link.
        used = {leaf for _, _, leaf, _ in access}
        links = [link for link in links if link[0] == 2 or link[1] in used]
    return by_hand(
        (nodes, leaves, spines, cores),
        access,
        links,
        [pod for pod, _ in chosen],
        optical=tuple(tier for tier in range(3) if integer(2)),
        reroute=bool(integer(2)),
    )


def _pattern(
    generator: np.random.Generator, planes: int, pods: int, leaves_each: int, rails: int, homes: int
) -> tuple[int, list[list[int]]]:
    """Draw a pod, and the leaf switches there of each rail."""
    pod = int(generator.integers(pods))
    behind = [(plane * pods + pod) * leaves_each + leaf for plane in range(planes) for leaf in range(leaves_each)]
    return pod, [[int(leaf) for leaf in generator.choice(behind, size=homes)] for _ in range(rails)]


def drawn_clos(seed: int) -> ClusterSpec:
    """Draw a fat tree, or one of two planes, that can be cabled; in most of them one failure may part leaf switches."""
    generator = np.random.default_rng(seed)
    while True:
        rails, switches = generator.choice([(1, 1), (2, 1), (2, 2), (4, 2), (4, 4)]).tolist()
        hosts = {"nodes": int(generator.integers(1, 6))}
        spine = {"oversubscription": float(generator.choice([1, 1.5, 4, 8]))}
        reroute = str(generator.choice(["none", "scale_up"]))
        fabric: dict[str, Any] = {"rails": rails, "radix": 32, "reroute": reroute, "spine": spine}
        if generator.random() < 0.8:
            fabric |= {"use": "fat-tree", "leaf": hosts | {"switches": switches}}
            spine["leaf_groups"] = int(generator.integers(1, 5))
        else:
            fabric |= {"use": "dual-plane", "segment": hosts}
            spine["segments"] = int(generator.integers(1, 5))
        if generator.random() < 0.5:
            spine["switches"] = int(generator.integers(1, 3))
        if generator.random() < 0.7:
            fabric["core"] = {"oversubscription": float(generator.choice([1, 2, 16]))}
        cluster = {"nodes": int(generator.integers(1, 25)), "gpus_per_node": 4, "fabric": fabric}
        with suppress(ValueError):
            return ClusterSpec.model_validate(cluster)


def units(topology: Topology) -> list[Failure]:
    """Return every unit of the fabric."""
    return [(part, unit) for part in FABRIC_PARTS for unit in range(topology.counts[part])]


@dataclass(frozen=True)
class Rival:
    """A fabric with parts that are out, as networkx sees it."""

    topology: Topology
    out: tuple[Failure, ...] = ()

    @cached_property
    def cables(self) -> list[tuple[Any, ...]]:
        """All cables: lower, upper, tier, rail, bandwidth."""
        return list(zip(*(column.tolist() for column in edges(self.topology)), strict=True))

    @cached_property
    def dead_switches(self) -> set[int]:
        """Vertices that are out."""
        return {self.topology.vertices(part)[unit] for part, unit in self.out if part in ("leaf", "spine", "core")}

    @cached_property
    def living(self) -> list[tuple[Any, ...]]:
        """Cables that are not out themselves and have no dead switch at an end."""
        tiers = ("cable_node_leaf", "cable_leaf_spine", "cable_spine_core")
        optical = [place for place, cable in enumerate(self.cables) if cable[2] in self.topology.optical]
        dead = set()
        for part, unit in self.out:
            if part in tiers:
                of_tier = [place for place, cable in enumerate(self.cables) if cable[2] == tiers.index(part)]
                dead.add(of_tier[unit])
            elif part == "transceiver":
                dead.add(optical[unit // 2])
            elif part == "nic":
                ends = divmod(unit, self.topology.rails)
                dead |= {place for place, cable in enumerate(self.cables) if (cable[0], cable[3]) == ends}
        return [
            cable
            for place, cable in enumerate(self.cables)
            if place not in dead and not self.dead_switches & {cable[0], cable[1]}
        ]

    def _switch_graph(self, cables: Iterable[tuple[Any, ...]], dead: set[int]) -> nx.Graph[int]:
        graph: nx.Graph[int] = nx.Graph()
        for part in ("leaf", "spine", "core"):
            graph.add_nodes_from(set(self.topology.vertices(part)) - dead)
        graph.add_edges_from((low, high) for low, high, tier, _, _ in cables if tier and not {low, high} & dead)
        return graph

    @cached_property
    def planes(self) -> list[set[int]]:
        """Components of the whole switches."""
        return [set(plane) for plane in nx.connected_components(self._switch_graph(self.cables, set()))]

    @cached_property
    def connected(self) -> set[int]:
        """Leaf switches that are not cut off."""
        leaves = set(self.topology.vertices("leaf"))
        parts = list(nx.connected_components(self._switch_graph(self.living, self.dead_switches)))
        answer: set[int] = set()
        for plane in self.planes:
            within = [part for part in parts if part <= plane]
            size = {min(part): sum(cable[2] == 0 and cable[1] in part for cable in self.cables) for part in within}
            main = max(within, key=lambda part: (size[min(part)], -min(part)), default=set())
            answer |= main & leaves
        return answer

    @property
    def disjoint_paths(self) -> int:
        """Paths between any two leaf switches of a plane that share no switch, at least; other leaves carry nothing."""
        leaves = set(self.topology.vertices("leaf"))
        found = [1_000_000]
        for plane in self.planes:
            for pair in combinations(sorted(plane & leaves), 2):
                graph = self._switch_graph(self.cables, leaves - set(pair)).subgraph(plane - leaves | set(pair))
                found.append(nx.node_connectivity(graph, *pair))
        return min(found)

    def rail_has_path(self, node: int, rail: int) -> bool:
        """Whether a rail of a node has a path."""
        return any((cable[0], cable[3]) == (node, rail) and cable[1] in self.connected for cable in self.living)

    @cached_property
    def cut(self) -> set[int]:
        """Nodes that are cut off."""
        enough = any if self.topology.reroute else all
        rails = range(self.topology.rails)
        return {
            node for node in range(self.topology.nodes) if not enough(self.rail_has_path(node, rail) for rail in rails)
        }

    def _flow(self, leaves: Iterable[int], top: int) -> float:
        """Return the maximum flow from the hosts of living leaf switches through the tiers up to `top`."""
        graph: nx.DiGraph[Any] = nx.DiGraph()
        graph.add_nodes_from(("hosts", "top"))
        chosen = set(leaves) - self.dead_switches
        for _, high, tier, _, bandwidth in self.cables:
            if tier == 0 and high in chosen:
                _add(graph, "hosts", high, bandwidth)
        for low, high, tier, _, bandwidth in self.living:
            if (tier == 1 and low in chosen) or tier == 2 == top:
                _add(graph, low, high, bandwidth)
                if tier == top:
                    graph.add_edge(high, "top")
        value: float = nx.maximum_flow_value(graph, "hosts", "top")
        return value

    def leaf_ratio(self, leaf: int) -> float:
        """Return what a leaf switch passes to the spines of what it passes when nothing is out [-]."""
        healthy = Rival(self.topology)._flow([leaf], 1)
        return self._flow([leaf], 1) / healthy if healthy else 1.0

    def senders(self, leaf: int) -> set[int]:
        """Return those not cut off of the leaf switches that, when nothing is out, spines join to one."""
        graph = self._switch_graph([cable for cable in self.cables if cable[2] == 1], set())
        return nx.node_connected_component(graph, leaf) & self.connected

    def block_flow(self, leaf: int) -> float:
        """Return the maximum flow from these to the cores."""
        return self._flow(self.senders(leaf), 2)

    def offered(self, leaf: int) -> float:
        """Return what these send to the spines, each alone."""
        return sum(self._flow([other], 1) for other in self.senders(leaf))

    def passed(self, leaf: int) -> float:
        """Return the smaller of that and what the spines take from them and give to cores."""
        senders, below, above = self.senders(leaf), Counter[int](), Counter[int]()
        for low, high, tier, _, bandwidth in self.living:
            if tier == 1 and low in senders:
                below[high] += bandwidth
            elif tier == 2:
                above[low] += bandwidth
        return min(self.offered(leaf), sum(min(below[spine], above[spine]) for spine in below))

    def level(self, leaf: int) -> float:
        """Return what part of their healthy traffic leaf switches may send beyond the pod: all, or a fair part [-]."""
        if self.passed(leaf) >= self.offered(leaf) * (1 - 1e-9):
            return math.inf
        healthy = Rival(self.topology)
        return self.passed(leaf) / sum(healthy._flow([other], 1) for other in self.senders(leaf))

    def ratio_beyond(self, leaf: int) -> float:
        """Return what a leaf switch sends to the cores, relative to that when nothing is out [-]."""
        healthy = Rival(self.topology)
        if not healthy.passed(leaf):
            return self.leaf_ratio(leaf)
        return min(self.leaf_ratio(leaf), self.level(leaf)) / min(1.0, healthy.level(leaf))

    def share(self, nodes: Iterable[int], level: int) -> float:
        """Return the smallest share of nodes that are not cut off: 0 within a class, 1 within a pod, 2 beyond."""
        ratio = dict.fromkeys(self.topology.vertices("leaf"), 0.0)
        for leaf in self.connected:
            alone = any(plane & set(ratio) == {leaf} for plane in self.planes)
            own = self.ratio_beyond(leaf) if level == 2 else self.leaf_ratio(leaf)
            ratio[leaf] = 1.0 if alone or not level else min(1.0, own)
        return min((self._node_share(node, ratio) for node in set(nodes) - self.cut), default=1.0)

    def _node_share(self, node: int, ratio: dict[int, float]) -> float:
        rails = []
        for rail in range(self.topology.rails):
            whole = sum(cable[4] for cable in self.cables if (cable[0], cable[3]) == (node, rail))
            left = sum(cable[4] * ratio[cable[1]] for cable in self.living if (cable[0], cable[3]) == (node, rail))
            rails.append(left / whole)
        return sum(rails) / len(rails) if self.topology.reroute else min(rails)


def _add(graph: nx.DiGraph[Any], low: object, high: object, bandwidth: float) -> None:
    before = graph.edges[low, high]["capacity"] if graph.has_edge(low, high) else 0.0
    graph.add_edge(low, high, capacity=before + bandwidth)

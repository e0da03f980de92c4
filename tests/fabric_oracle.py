"""What graph theory says about a fabric: flows, and who is cut off, by plain searches over the exported graph."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from sim.cluster.topology import VERTEX_PARTS, Topology, edges

if TYPE_CHECKING:
    from sim.cluster.fabric import FabricKind
    from sim.cluster.topology import Hosts


CABLES = ("cable_node_leaf", "cable_leaf_spine", "cable_spine_core")


def topology_of(fabric: FabricKind, hosts: Hosts) -> Topology:
    """Return the topology of a fabric alone."""
    fabric.check(hosts)
    counts = {"gpu": hosts.nodes * hosts.gpus, "node": hosts.nodes, **fabric.counts(hosts)}
    return Topology(
        name="case",
        nodes=hosts.nodes,
        gpus_per_node=hosts.gpus,
        rails=fabric.rails,
        counts=counts,
        domains={name: ids.copy() for name, ids in fabric.domains(hosts).items()},
        bandwidth=fabric.bandwidth(hosts),
        disjoint_paths=fabric.disjoint_paths(hosts),
        optical=(0, 1, 2),
        reroute=fabric.reroute == "scale_up",
        make_edges=partial(fabric.edges, hosts),
    )


def cables_of(topology: Topology) -> Counter[tuple[int, int, int, int, float]]:
    """Return the cables as a multiset of (lower, upper, tier, rail, bandwidth)."""
    return Counter(zip(*(column.tolist() for column in edges(topology)), strict=True))


def flow_between(topology: Topology, domain: str, sender: int, receiver: int) -> float:
    """Return the maximum flow from all hosts of one domain to all of another; hosts are only ends [B/s]."""
    ids = topology.domains[domain].tolist()
    capacity: Counter[tuple[Any, Any]] = Counter()
    for low, high, tier, _, bandwidth in cables_of(topology).elements():
        if tier:
            capacity[low, high] += bandwidth
            capacity[high, low] += bandwidth
        elif ids[low] == sender:
            capacity[low, high] += bandwidth
        elif ids[low] == receiver:
            capacity[high, low] += bandwidth
    directed: nx.DiGraph[Any] = nx.DiGraph()
    for (one, other), total in capacity.items():
        directed.add_edge(one, other, capacity=total)
    directed.add_edges_from(("from", host) for host, of in enumerate(ids) if of == sender)
    directed.add_edges_from((host, "to") for host, of in enumerate(ids) if of == receiver)
    return float(nx.maximum_flow_value(directed, "from", "to"))


def hosts_cut(topology: Topology, switch: int | None = None, dead: frozenset[int] = frozenset()) -> set[int]:
    """Return the hosts that lose a rail (with reroute: all rails) while a switch, or some cables, are out.

    A leaf switch is cut off if it is dead, or not in the component of its plane that has most access cables.
    """
    cables = list(zip(*(column.tolist() for column in edges(topology)), strict=True))
    healthy: nx.Graph[int] = nx.Graph()
    healthy.add_nodes_from(vertex for part in VERTEX_PARTS[1:] for vertex in topology.vertices(part))
    healthy.add_edges_from((low, high) for low, high, tier, *_ in cables if tier)
    alive = healthy.copy()
    alive.clear_edges()
    alive.add_edges_from(
        (low, high) for place, (low, high, tier, *_) in enumerate(cables) if tier and place not in dead
    )
    if switch is not None:
        alive.remove_node(switch)
    weight = Counter(high for _, high, tier, *_ in cables if tier == 0)
    whole: set[int] = set()
    for plane in nx.connected_components(healthy):
        parts = list(nx.connected_components(alive.subgraph(plane)))
        whole |= max(parts, key=lambda part: (sum(weight[vertex] for vertex in part), -min(part)), default=set())
    paths = np.zeros((topology.nodes, topology.rails), dtype=bool)
    for place, (low, high, tier, rail, _) in enumerate(cables):
        if tier == 0 and place not in dead and high in whole:
            paths[low, rail] = True
    kept = paths.any(axis=1) if topology.reroute else paths.all(axis=1)
    return set(np.flatnonzero(~kept).tolist())


def most_cut(topology: Topology, part: str) -> int:
    """Return the most hosts that one unit of a part, alone, cuts off: every unit is tried."""
    cables = edges(topology)
    if part in VERTEX_PARTS:
        losses = [hosts_cut(topology, switch=vertex) for vertex in topology.vertices(part)]
    elif part == "nic":
        endpoint = np.where(cables.tier == 0, cables.lower * topology.rails + cables.rail, -1)
        losses = [
            hosts_cut(topology, dead=frozenset(np.flatnonzero(endpoint == unit).tolist()))
            for unit in range(topology.counts["nic"])
        ]
    else:
        here = np.flatnonzero(np.isin(cables.tier, topology.optical if part == "transceiver" else CABLES.index(part)))
        losses = [hosts_cut(topology, dead=frozenset([cable])) for cable in here.tolist()]
    return max((len(lost) for lost in losses), default=0)

"""What every kind of topology must satisfy; each kind's test calls `check_topology` on several sizes."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
import pytest

from sim.topology import edges, to_networkx
from sim.topology.model import VERTEX_PARTS

if TYPE_CHECKING:
    from sim.topology import Topology

PARTS = ("gpu", "node", "nic", *VERTEX_PARTS[1:], "pod", "rack", "power")
DOMAINS = ("leaf", "pod", "rack", "power")


def check_topology(topology: Topology) -> None:
    """Assert what the rest of the simulator relies on."""
    _check_counts_and_domains(topology)
    _check_members(topology)
    _check_edges(topology)
    _check_copy(topology)
    if topology.nodes <= 600:
        graph = to_networkx(topology)
        assert nx.is_connected(graph)
        switches = graph.subgraph(range(topology.nodes, len(graph)))
        assert nx.is_connected(switches), "hosts must not be needed to carry transit"


def _check_counts_and_domains(topology: Topology) -> None:
    assert set(PARTS) <= set(topology.counts)
    assert all(count >= 0 for count in topology.counts.values())
    assert topology.counts["gpu"] == topology.nodes * topology.gpus_per_node
    assert topology.counts["node"] == topology.nodes
    assert topology.counts["nic"] == topology.nodes * topology.rails
    assert set(DOMAINS) <= set(topology.domains)
    for domain, ids in topology.domains.items():
        assert ids.shape == (topology.nodes,), domain
        assert ids.dtype == np.int32, domain
        assert not ids.flags.writeable, domain
        assert np.array_equal(np.unique(ids), np.arange(ids.max() + 1)), f"{domain}: an id without a node"
    for domain in ("pod", "rack", "power"):
        assert topology.domains[domain].max() + 1 == topology.counts[domain], domain
    assert topology.bandwidth["leaf"] >= topology.bandwidth["pod"] >= topology.bandwidth["cluster"] > 0
    with pytest.raises(TypeError):
        topology.counts["gpu"] = 0  # type: ignore[index]


def _check_members(topology: Topology) -> None:
    for part, count in topology.counts.items():
        offsets, nodes = topology.members(part)
        assert offsets.shape == (count + 1,), part
        assert offsets[0] == 0, part
        assert offsets[-1] == nodes.size, part
        assert np.all(np.diff(offsets) >= 0), part
        assert nodes.dtype == np.int32, part
        assert nodes.size == 0 or (nodes.min() >= 0 and nodes.max() < topology.nodes), part
    for part in ("pod", "rack", "power"):
        offsets, nodes = topology.members(part)
        assert np.array_equal(np.sort(nodes), np.arange(topology.nodes)), f"{part}: not a partition of the nodes"
        units = np.repeat(np.arange(topology.counts[part]), np.diff(offsets))
        assert np.array_equal(topology.domains[part][nodes], units), part
    for part, each in (("gpu", topology.gpus_per_node), ("nic", topology.rails), ("node", 1)):
        assert np.array_equal(topology.members(part).nodes, np.repeat(np.arange(topology.nodes), each)), part
    with pytest.raises(ValueError, match="no part"):
        topology.members("flux capacitor")


def _check_edges(topology: Topology) -> None:
    cables = edges(topology)
    tiers = [topology.counts[name] for name in ("cable_node_leaf", "cable_leaf_spine", "cable_spine_core")]
    assert np.bincount(cables.tier, minlength=3).tolist() == tiers
    for tier in range(3):
        here = cables.tier == tier
        for ends, part in ((cables.lower, VERTEX_PARTS[tier]), (cables.upper, VERTEX_PARTS[tier + 1])):
            assert np.isin(ends[here], np.asarray(topology.vertices(part))).all(), f"tier {tier} does not end on {part}"
    assert np.all(cables.bandwidth > 0)
    access = cables.tier == 0
    endpoints = cables.lower[access].astype(np.int64) * topology.rails + cables.rail[access]
    assert np.array_equal(np.sort(endpoints), np.arange(topology.counts["nic"])), "every NIC has its cable"
    assert np.all(cables.rail[~access] == -1)
    # The leaf switches that the cables reach from a node are those whose failure takes it.
    offsets, nodes = topology.members("leaf")
    leaf = np.repeat(np.asarray(topology.vertices("leaf")), np.diff(offsets))
    by_members = np.unique(np.stack((nodes, leaf)), axis=1)
    by_cables = np.unique(np.stack((cables.lower[access], cables.upper[access])), axis=1)
    assert np.array_equal(by_members, by_cables)


def _check_copy(topology: Topology) -> None:
    copy = pickle.loads(pickle.dumps(topology))
    assert copy.counts == topology.counts
    for domain, ids in topology.domains.items():
        assert np.array_equal(copy.domains[domain], ids)
        assert not copy.domains[domain].flags.writeable
    assert np.array_equal(edges(copy).upper, edges(topology).upper)

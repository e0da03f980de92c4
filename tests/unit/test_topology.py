"""What every kind of fabric promises, on small clusters, against graph theory."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
import pytest

from sim.cluster import FABRICS, edges, to_networkx
from tests.cases import cases
from tests.harness import check_topology
from tests.topology_cases import CASES, cluster_of
from tests.topology_checks import planes_of

if TYPE_CHECKING:
    from pathlib import Path


EVERY = [(kind, number) for kind in FABRICS for number in range(len(CASES[kind]))]


@pytest.mark.parametrize(("kind", "number"), EVERY)
def test_every_kind_passes_the_harness(kind: str, number: int, tmp_path: Path) -> None:
    """Odd leftovers, one to three tiers, single parts that hold all together: the common promises hold."""
    check_topology(cluster_of(kind, CASES[kind][number], tmp_path))


@cases("number", range(len(CASES["dual-plane"])))
def test_both_planes_hang_together_and_every_nic_is_in_both(number: int, tmp_path: Path) -> None:
    """The planes are the connected components of the switches; each rail of each host has one cable into each."""
    cluster = cluster_of("dual-plane", CASES["dual-plane"][number], tmp_path)
    topology = cluster.build()
    cables = edges(topology)
    planes = planes_of(topology, cables)
    assert len(planes) == 2
    plane_of = {switch: number for number, plane in enumerate(planes) for switch in plane}
    found: dict[tuple[int, int], list[int]] = {}
    for index in np.flatnonzero(cables.tier == 0).tolist():
        endpoint = int(cables.lower[index]), int(cables.rail[index])
        found.setdefault(endpoint, []).append(plane_of[int(cables.upper[index])])
    assert len(found) == topology.nodes * topology.rails
    assert {tuple(sorted(planes)) for planes in found.values()} == {(0, 1)}


@pytest.mark.parametrize(("kind", "number"), [case for case in EVERY if case[0] != "graph-file"])
def test_disjoint_paths_are_there(kind: str, number: int, tmp_path: Path) -> None:
    """By Menger's theorem: as many as are promised can be found between any two leaf switches of a plane.

    Of the network of a file nothing is promised.
    """
    cluster = cluster_of(kind, CASES[kind][number], tmp_path)
    topology = cluster.build()
    cables = edges(topology)
    for plane in planes_of(topology, cables):
        leaves = sorted(plane & set(topology.vertices("leaf")))
        switches = nx.Graph(to_networkx(topology).subgraph(plane))
        pairs = [*itertools.pairwise(leaves), (leaves[0], leaves[-1])] if len(leaves) > 1 else []
        for one, other in pairs[::3] + pairs[-1:]:
            assert nx.node_connectivity(switches, one, other) >= topology.disjoint_paths >= 1

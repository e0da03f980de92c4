"""The clusters that come with Ettrick, and the rules behind them, against published designs."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from sim.cluster import ClusterSpec
from tests.cases import cases
from tests.harness import check_topology

ROOT = Path(__file__).resolve().parents[2]
COUNTS_CSV = ROOT.parent / "shared" / "data" / "perf" / "superpod_fabric_counts.csv"
SHIPPED = sorted((ROOT / "topologies").glob("*.yaml"))
GB_400 = 400e9 / 8


def tree(nodes: int, **fabric: Any) -> ClusterSpec:
    """Return hosts of eight GPUs, all alike, joined by a fat tree."""
    return ClusterSpec.model_validate({"nodes": nodes, "fabric": {"use": "fat-tree", **fabric}})


def load(path: Path) -> ClusterSpec:
    """Read a shipped topology as it stands in its file."""
    return ClusterSpec.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def superpod(units: int, nodes: int) -> ClusterSpec:
    """DGX SuperPOD: scalable units of 32 nodes, 64-port switches, a third tier above eight units."""
    shape: dict[str, Any] = {} if units <= 8 else {"spine": {"leaf_groups": 4}, "core": {}}
    return tree(nodes, leaf={"nodes": 32}, **shape)


# Columns: units, nodes, leaf, spine, core, cables node-leaf, leaf-spine, spine-core.
# B200: "DGX SuperPOD reference architecture, DGX B200", architecture chapter, table of larger component counts.
# H100: "DGX SuperPOD reference architecture, DGX H100" (RA-11333-001), four units hold 127 nodes because one node's
# ports go to the fabric managers; their cables are not nodes' cables.
PUBLISHED = [
    (2, 64, 16, 8, 0, 512, 512, 0),
    (4, 128, 32, 16, 0, 1024, 1024, 0),
    (4, 127, 32, 16, 0, 1016, 1024, 0),
    (8, 256, 64, 32, 0, 2048, 2048, 0),
    (16, 512, 128, 128, 64, 4096, 4096, 4096),
    (32, 1024, 256, 256, 128, 8192, 8192, 8192),
    (64, 2048, 512, 512, 256, 16384, 16384, 16384),
]
COLUMNS = ("leaf", "spine", "core", "cable_node_leaf", "cable_leaf_spine", "cable_spine_core")


@cases(("units", "nodes", "expected"), [(row[0], row[1], row[2:]) for row in PUBLISHED])
def test_superpod_counts_equal_the_published_ones(units: int, nodes: int, expected: tuple[int, ...]) -> None:
    """Switches and cables follow from 32 nodes per unit and 64 ports alone."""
    counts = superpod(units, nodes).counts()
    assert tuple(counts[column] for column in COLUMNS) == expected


def test_superpod_counts_equal_the_reference_table() -> None:
    """All rows of the reference data whose switches have whole ports come out, three generations of them."""
    if not COUNTS_CSV.exists():
        pytest.skip("skipped: reference data not present")
    compared = 0
    with COUNTS_CSV.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            units, nodes = int(row["su"]), int(row["nodes"])
            if "Spectrum-X" in row["fabric"] and units > 4:
                continue  # more spines than a leaf has 800 Gb/s uplinks: each port is split, which is not modelled
            if "B300-XDR" in row["fabric"]:
                counts = tree(nodes, nic="800 Gb/s", leaf={"nodes": 72}, radix=144).counts()
            else:
                counts = superpod(units if "B200" in row["fabric"] else 1, nodes).counts()
            for column in COLUMNS:
                printed = int(row[column.replace("cable_", "cables_")])
                assert counts[column] == printed, (row["fabric"], units, column)
            compared += 1
    assert compared == 14


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_topologies_pass_the_harness(path: Path) -> None:
    """Every file in topologies/ loads, bears its file's name, says what it is, and keeps the common promises."""
    cluster = load(path)
    assert cluster.name == path.stem
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    assert first.startswith("# ")
    assert first.endswith("."), "the first line is a sentence of its own: it is what lists show"
    topology = check_topology(cluster)
    assert f"{topology.counts['gpu']:,}" in first or "scalable units" in first, "it says how many GPUs"


# GPUs, nodes, pods.
SIZES = {
    "dgx-h100-superpod-4su": (1016, 127, 1),
    "dgx-h100-superpod-16su": (4088, 511, 4),
    "dgx-h100-superpod-64su": (16376, 2047, 16),
    "dgx-b200-superpod-4su": (1024, 128, 1),
    "dgx-b200-superpod-16su": (4096, 512, 4),
    "dgx-b200-superpod-64su": (16384, 2048, 16),
    "gb200-nvl72-8rack": (576, 144, 1),
    "gb200-nvl72-10k": (9216, 2304, 16),
    "h100-roce-24k": (24576, 3072, 8),
    "h100-100k": (100000, 12500, 25),
    "h100-100k-buildings": (98304, 12288, 4),
    "hpn-15k": (15360, 1920, 1),
    "small-1k": (1024, 128, 1),
}


def test_shipped_topologies_have_their_published_sizes() -> None:
    """GPUs, nodes and pods as the sources print them."""
    counts = {path.stem: load(path).counts() for path in SHIPPED}
    assert {name: (count["gpu"], count["node"], count["pod"]) for name, count in counts.items()} == SIZES
    for name, row in (("4su", PUBLISHED[1]), ("16su", PUBLISHED[4]), ("64su", PUBLISHED[6])):
        shipped = counts[f"dgx-b200-superpod-{name}"]
        assert tuple(shipped[column] for column in COLUMNS) == row[2:]
        # The same scalable units, one node of which is given up.
        other = counts[f"dgx-h100-superpod-{name}"]
        assert tuple(other[column] for column in COLUMNS) == (*row[2:5], row[5] - 8, *row[6:])
    shipped = counts["dgx-h100-superpod-4su"]
    assert tuple(shipped[column] for column in COLUMNS) == PUBLISHED[2][2:]


def test_llama3_cluster_has_the_pods_of_its_paper() -> None:
    """Racks of 16 GPUs, 192 racks a pod of 3,072 at full bisection, 8 pods, 1:7 above (arXiv 2407.21783, 3.3.1)."""
    topology = load(ROOT / "topologies" / "h100-roce-24k.yaml").build()
    assert topology.counts["leaf"] == topology.counts["rack"] == 8 * 192
    assert np.bincount(topology.domains["pod"]).tolist() == [3072 // 8] * 8
    assert np.array_equal(topology.domains["leaf"], topology.domains["rack"])
    assert topology.bandwidth["pod"] == topology.bandwidth["leaf"] == GB_400
    # Seven does not divide the spines' ports; cables are whole, so the ratio may fall short by less than one cable.
    assert topology.bandwidth["cluster"] == pytest.approx(GB_400 / 7, rel=0.01)
    assert topology.bandwidth["cluster"] >= GB_400 / 7


def test_buildings_are_pods_of_full_bisection() -> None:
    """Four pods of the 24,576 GPUs of Meta's published clusters, 1:7 between them to within one cable."""
    topology = load(ROOT / "topologies" / "h100-100k-buildings.yaml").build()
    assert (np.bincount(topology.domains["pod"]) * 8).tolist() == [24576] * 4
    assert topology.bandwidth["pod"] == GB_400
    assert GB_400 / 7 <= topology.bandwidth["cluster"] <= GB_400 / 7 * 1.01


@cases(("name", "racks"), [("gb200-nvl72-8rack", 8), ("gb200-nvl72-10k", 128)])
def test_nvl72_racks_are_scale_up_domains(name: str, racks: int) -> None:
    """18 compute trays of 4 GPUs and 9 switch trays a rack; a scalable unit is 8 racks (NVIDIA, DGX GB200 SuperPOD)."""
    cluster = load(ROOT / "topologies" / f"{name}.yaml")
    topology = cluster.build()
    counts = topology.counts
    assert (counts["gpu"], counts["node"], counts["switch_tray"]) == (racks * 72, racks * 18, racks * 9)
    assert counts["scale_up"] == counts["rack"] == racks
    assert np.array_equal(topology.domains["scale_up"], topology.domains["rack"])
    offsets, nodes = topology.members("switch_tray")
    assert nodes[offsets[9] : offsets[10]].tolist() == list(range(18, 36)), "the first tray of the second rack"
    assert topology.bandwidth["cluster"] == GB_400


def test_hpn_pod_has_its_published_segments() -> None:
    """15 segments of 128 hosts, each of 8 rails to two leaf switches (SIGCOMM 2024); 1,024 GPUs share 16 of these."""
    topology = load(ROOT / "topologies" / "hpn-15k.yaml").build()
    assert (np.bincount(topology.domains["leaf"]) * 8).tolist() == [1024] * 15
    assert topology.counts["leaf"] == 15 * 16
    assert topology.counts["cable_node_leaf"] == 2 * 15360
    # Said of the paper, but not confirmed: 128 ports of 200 Gb/s down, 60 of 400 Gb/s up.
    assert topology.bandwidth["cluster"] == pytest.approx(GB_400 * 60 * 400 / (128 * 200))
    assert topology.members("leaf").nodes.size == 0, "no single leaf switch cuts anybody off"


def test_hundred_thousand_gpus_are_cheap() -> None:
    """12,500 nodes build in a fifth of a second, without edges."""
    cluster = load(ROOT / "topologies" / "h100-100k.yaml")
    start = time.perf_counter()
    topology = cluster.build()
    for part in ("gpu", "node", "rack", "pdu", "cooling", "pod"):
        topology.members(part)
    assert time.perf_counter() - start < 0.2
    assert sum(ids.nbytes for ids in topology.domains.values()) < 1e6

"""Several kinds of hosts in one cluster: who is where, how fast a job steps on them, what must be known of them."""

from __future__ import annotations

import csv
import itertools
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pytest
import yaml

from ettrick import sim
from ettrick.analysis.ratios import ratios
from ettrick.sim.cluster import FABRICS, ClusterSpec, edges, to_networkx
from tests import report_sample
from tests.cases import cases
from tests.harness import _Watched, losses, play, prepared, seconds, trace
from tests.topology_checks import CASES, SMALL_PLANES, check_topology, cluster_of, planes_of, tree

if TYPE_CHECKING:
    from collections.abc import Sequence

# ----------------------------------------
# The description of a cluster: hosts, pools, scale-up domains and what they share, and every mistake in one line.

NVL72 = {"gpus": 72, "tray": 4, "switch_trays": 9}


def cluster(**parameters: Any) -> ClusterSpec:
    """Validate parameters as a file would be."""
    return ClusterSpec.model_validate(parameters)


def tray_fabric(nodes: int) -> dict[str, Any]:
    """Return a fat tree of one NIC per GPU for trays of four."""
    return {"use": "fat-tree", "rails": 4, "leaf": {"nodes": nodes}}


def test_pools_follow_one_another() -> None:
    """Nodes of several kinds are counted together; racks, leaf groups and domains do not heed where a pool ends."""
    mixed = cluster(
        pools=[{"count": 5, "accelerator": "h100", "age": "2 year"}, {"count": 6, "accelerator": "b200"}],
        rack={"nodes": 4},
        fabric={"use": "fat-tree", "leaf": {"nodes": 3}},
    )
    assert [(pool.count, pool.accelerator) for pool in mixed.all_pools] == [(5, "h100"), (6, "b200")]
    assert mixed.all_pools[0].age == pytest.approx(2 * 365.25 * 86400, rel=0.001)
    assert mixed.all_pools[1].age == 0
    assert mixed.hosts == (11, 8)
    assert mixed.build().domains["rack"].tolist() == [0] * 4 + [1] * 4 + [2] * 3
    alike = cluster(nodes=11, rack={"nodes": 4}, fabric={"use": "fat-tree", "leaf": {"nodes": 3}})
    assert mixed.counts() == alike.counts()


def test_racks_power_and_cooling_are_consecutive_blocks() -> None:
    """Ten nodes in racks of three, two racks to a power unit, three to a cooling unit; the last of each is not full."""
    spec = cluster(nodes=10, rack={"nodes": 3}, pdu={"racks": 2}, cooling={"racks": 3})
    counts = spec.counts()
    assert [counts[part] for part in ("rack", "pdu", "cooling")] == [4, 2, 2]
    domains = spec.build().domains
    assert domains["rack"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert domains["pdu"].tolist() == [0] * 6 + [1] * 4
    assert domains["cooling"].tolist() == [0] * 9 + [1]
    assert [spec.nodes_behind(part) for part in ("gpu", "node", "rack", "pdu", "cooling", "pod")] == [1, 1, 3, 6, 9, 10]
    assert cluster(nodes=2).nodes_behind("pdu") == 2, "never more than there are"


def test_nvl72_domain_has_18_trays_and_9_switch_trays() -> None:
    """A switch tray that fails stops all 18 trays of its domain (NVIDIA, DGX GB200 SuperPOD, network fabrics)."""
    spec = cluster(nodes=36, scale_up=NVL72, rack={"nodes": 18}, fabric=tray_fabric(18))
    counts = spec.counts()
    assert (counts["gpu"], counts["scale_up"], counts["switch_tray"], counts["rack"]) == (144, 2, 18, 2)
    assert spec.nodes_per_domain == spec.nodes_behind("scale_up") == spec.nodes_behind("switch_tray") == 18
    assert {"scale_up", "switch_tray"} <= set(spec.stopping_parts)
    topology = spec.build()
    offsets, nodes = topology.members("switch_tray")
    assert np.diff(offsets).tolist() == [18] * 18
    assert nodes[offsets[8] : offsets[9]].tolist() == list(range(18))
    assert nodes[offsets[17] : offsets[18]].tolist() == list(range(18, 36))


TRAYS = {"nodes": 36, "rack": {"nodes": 18}, "fabric": tray_fabric(18)}


def trays(**words: Any) -> dict[str, Any]:
    """Return two NVL72 racks with other words for their scale-up domains."""
    return {**TRAYS, "scale_up": {**NVL72, **words}}


RARE_SAVES = {"tiers": [{"interval": "10 d", "mode": "blocking", "write": "0 s", "restore": "0 s"}]}

H100: dict[str, Any] = {"count": 2, "accelerator": "h100"}

B200: dict[str, Any] = {"count": 2, "accelerator": "b200"}

A100: dict[str, Any] = {"count": 2, "accelerator": "a100"}

SLOW = 989 / 2250

"""Dense bf16 peak of an H100 relative to that of a B200: 989 and 2,250 TFLOP/s in NVIDIA's data sheets."""


def case(pools: Sequence[dict[str, Any]], *gpus: int, **more: Any) -> sim.Prepared:
    """Return jobs of one GPU a node on pools of hosts, which step from 30 s after their arrival on."""
    jobs = [{"name": f"job {number}", "gpus": size, "arrival": f"{number} s"} for number, size in enumerate(gpus)]
    cluster = {"pools": list(pools), "gpus_per_node": 1, "fabric": {"rails": 1}, **more.pop("cluster", {})}
    return prepared(**{"cluster": cluster, "jobs": jobs, "checkpoint": RARE_SAVES, **more})


def work(one: sim.Prepared, rows: Sequence[tuple[float, ...]] = ()) -> list[float]:
    """Return the healthy seconds of work of each job [s]."""
    return [job.work for job in play(one, rows).jobs]


def test_the_slowest_member_sets_the_pace() -> None:
    """On two B200 at full pace; with one H100 among three, at that of an H100; the time in between is degraded."""
    assert work(case([B200, H100], 2)) == pytest.approx([970])
    assert work(case([B200, H100], 3)) == pytest.approx([970 * SLOW], rel=1e-9)
    found = seconds(play(case([B200, H100], 4)))
    assert found == pytest.approx(
        {"initialize": 30.0, "productive": 970 * SLOW, "degraded": 970 * (1 - SLOW)}, rel=1e-9
    )


def test_the_pace_changes_with_the_nodes() -> None:
    """A B200 fails at 130 s, an H100 replaces it; that fails at 400 s, and the B200, back at 330 s, takes over again.

    Nothing was saved: what was done by 130 and by 400 s is lost, with all the time that it took.
    """
    one = case([B200, H100], 2)
    assert work(one, [(130.0, 0, 0)]) == pytest.approx([840 * SLOW], rel=1e-9)
    result = play(one, [(130.0, 0, 0), (400.0, 0, 2)])
    assert seconds(result) == pytest.approx({"initialize": 90.0, "lost_work": 340.0, "productive": 570.0}, rel=1e-9)


@cases(("first", "second", "pace"), [("b200", "h100", SLOW), ("gb200", "b200", 2250 / 2450)])
@cases("share", [0.3, 1.0])
def test_lost_bandwidth_and_a_slow_pool_do_not_add_up(first: str, second: str, pace: float, share: float) -> None:
    """A synchronous job waits for the slower of the two: while half the spines are out, for the one or the other."""
    never = {"law": {"use": "exponential", "mean": "100000 d"}}
    spine = {"use": "component", "name": "spine", "part": "spine", "repair": "200 s", **never}
    fabric = {"rails": 1, "leaf": {"nodes": 2}, "spine": {"switches": 2}}
    jobs = [{"name": "job", "gpus": 4, "communication": share}]
    pools = [{"count": 2, "accelerator": name} for name in (first, second)]
    one = case(pools, cluster={"fabric": fabric}, jobs=jobs, failures=[spine])
    narrow = 1 / (1 - share + share / 0.5)
    result = play(one, [(130.0, 0, 0)])
    assert result.jobs[0].work == pytest.approx(770 * pace + 200 * min(pace, narrow), rel=1e-9)
    lost = losses(one, result)
    assert ("degraded", "spine") in lost if narrow < pace else ("degraded", "spine") not in lost


def test_pools_follow_one_another_in_the_numbers_of_the_nodes() -> None:
    """Three, one and two nodes: a job of four has the first two kinds, the second job the third."""
    pools = [{"count": 3, "accelerator": "b200"}, {"count": 1, "accelerator": "h100"}, A100]
    one = case(pools, 4, 2)
    assert list(one.network.pool_of_node) == [0, 0, 0, 1, 2, 2]
    simulation = _Watched(one, 0, trace(()))
    simulation.run()
    assert [job.nodes for job in simulation.jobs.all] == [[0, 1, 2, 3], [4, 5]]
    assert [job.footprint.pools for job in simulation.jobs.all if job.footprint] == [[3, 1, 0], [0, 0, 2]]


def results(one: sim.Prepared, replication: int) -> list[bytes]:
    """Return all that a replication gives, bit by bit."""
    result = sim.run(one, replication)
    arrays = [*(job.totals for job in result.jobs), result.outside, result.cluster, result.edges]
    numbers = [[job.work, job.running, job.interruptions, job.merged] for job in result.jobs]
    rest = [numbers, result.counts, result.down_node_seconds, sorted(result.down_times.items()), result.events]
    return [*(np.ascontiguousarray(array).tobytes() for array in arrays), json.dumps(rest).encode()]


@cases(
    "pools",
    [
        [{"count": 16, "accelerator": "h100"}],
        [{"count": 16, "accelerator": "h100", "age": "3 year"}],
        [{"count": 9, "accelerator": "h100"}, {"count": 7, "accelerator": "h100"}],
        [{"count": 9, "accelerator": "h100"}, {"count": 7, "accelerator": "h200"}],
    ],
    ids=["one pool", "an old one", "two alike", "with the same peak"],
)
def test_pools_that_are_alike_are_no_pools(pools: list[dict[str, Any]]) -> None:
    """One pool is the same as nodes and accelerator, bit by bit; so are pools of one peak, and of any age here."""
    plain = {**report_sample.SMALL["cluster"], "accelerator": "h100"}
    mixed = {key: value for key, value in plain.items() if key not in ("nodes", "accelerator")}
    jobs = [
        {
            "name": "train",
            "gpus": 112,
            "model": "llama3-405b",
            "mfu": 0.4,
            "batch": {"tokens": "1 Mi", "sequence": 8192},
        }
    ]
    ours = report_sample.prepare(cluster={**mixed, "pools": pools}, jobs=jobs)
    theirs = report_sample.prepare(cluster=plain, jobs=jobs)
    assert ours.counts == theirs.counts
    for replication in range(3):
        found = results(theirs, replication)
        assert found == results(ours, replication)
        assert json.loads(found[-1])[1]["failures"] > 0, "too quiet to show anything"


def test_cluster_goodput_counts_gpus_by_their_peaks() -> None:
    """Productive time is that of the first pool; what is owned is counted in its GPUs too, an H100 as 0.44 B200.

    So the same two B200 nodes that work are a larger part of a cluster whose other half is slow, and a cluster of which
    all nodes step has what its slowest nodes leave.
    """
    owned = 1000 * (2 + 2 * SLOW)
    for gpus, productive in ((2, 2 * 970), (4, 4 * 970 * SLOW)):
        one = case([B200, H100], gpus)
        found = ratios(one, play(one))["cluster_goodput"]
        assert found.amount / found.base == pytest.approx(productive / owned, rel=1e-9)
    one = case([H100, B200], 4)
    found = ratios(one, play(one))["cluster_goodput"]
    assert found.amount / found.base == pytest.approx(4 * 970 / (1000 * (2 + 2 / SLOW)), rel=1e-9)


# ----------------------------------------
# The clusters that come with Ettrick, and the rules behind them, against published designs.

ROOT = Path(__file__).resolve().parents[2]

COUNTS_CSV = ROOT.parent / "shared" / "data" / "perf" / "superpod_fabric_counts.csv"

SHIPPED = sorted((ROOT / "topologies").glob("*.yaml"))

GB_400 = 400e9 / 8


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


# ----------------------------------------
# What every kind of fabric promises, on small clusters, against graph theory.

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
        paths = [nx.node_connectivity(switches, one, other) for one, other in pairs[::3] + pairs[-1:]]
        assert min(paths, default=1) >= topology.disjoint_paths >= 1
        assert CASES[kind][number] not in SMALL_PLANES or min(paths, default=0) in (topology.disjoint_paths, 0)

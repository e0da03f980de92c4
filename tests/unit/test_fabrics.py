"""Counts, blast and cables of the fat tree, against graph theory."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from ettrick import sim
from ettrick.sim.cluster import FABRIC_PARTS, ClusterSpec, Edges
from ettrick.sim.cluster.fabric import DualPlane, downlinks, fewest_switches, uplinks
from ettrick.sim.cluster.topology import Hosts, edges
from tests.cases import cases
from tests.harness import play, prepared, seconds
from tests.intervals import Z
from tests.property.common import examples
from tests.topology_checks import CASES, SMALL_PLANES, cluster_of, flow_between, members, topology_of, tree

if TYPE_CHECKING:
    from pathlib import Path

# ----------------------------------------
# Port arithmetic of folded Clos networks, against exact fractions and exhaustive search.

RATIOS = [f"{tenths / 10}" for tenths in range(10, 81)]


@cases("ratio", RATIOS)
def test_uplinks_are_the_exact_quotient_rounded_up(ratio: str) -> None:
    """Binary fractions add no cable where the decimal quotient is whole."""
    for down in range(1, 577):
        assert uplinks(down, float(ratio)) == ceil(down / Fraction(ratio))


@cases("ratio", RATIOS)
def test_downlinks_are_the_most_that_fit(ratio: str) -> None:
    """One more link down would leave too few ports for the links up."""
    for radix in range(2, 130):
        down = downlinks(radix, float(ratio))
        assert down + ceil(down / Fraction(ratio)) <= radix
        assert down + 1 + ceil((down + 1) / Fraction(ratio)) > radix


def test_switches_suffice_and_never_more_than_double() -> None:
    """The rule that favours even spreading stays within twice the plain quotient, prime uplinks included."""
    for each in range(1, 70):
        for links in range(each, 40 * each, each):
            switches = fewest_switches(links, each, 64)
            assert links <= switches * 64
            assert switches <= 2 * ceil(links / 64)


# ----------------------------------------
# Counts, planes, ports and levels of the dual-plane fabric, against published figures and graph theory.

GB_200, GB_400 = 200e9 / 8, 400e9 / 8

# Alibaba HPN (Qian et al., SIGCOMM 2024). Repeated in public summaries of the paper: two tiers, two planes, pairs of
# leaf switches that are not stacked, 8 NICs of 2 x 200 Gb/s per host, 1,024 GPUs per segment, 15 segments per pod.
# As told of the paper, not found again elsewhere: chips of 51.2 Tb/s, 60 uplinks of 400 Gb/s, 15:1 above the pod.
HPN: dict[str, Any] = {
    "nic": "400 Gb/s",
    "uplink": "400 Gb/s",
    "radix": 256,
    "segment": {"nodes": 128},
    "spine": {"segments": 15, "oversubscription": 1.067},
    "core": {"oversubscription": 15},
}


def fabric(**parameters: Any) -> DualPlane:
    """Validate parameters as a file would be."""
    return DualPlane.model_validate({"use": "dual-plane", **parameters})


def test_pod_of_hpn_has_its_published_size() -> None:
    """1,024 GPUs behind 16 leaf switches of 60 uplinks; 15 segments fill 60 spines of 120 ports down in each plane."""
    kind, hosts = fabric(**HPN), Hosts(15 * 128, 8)
    counts = kind.counts(hosts)
    assert hosts.nodes * hosts.gpus == 15360
    assert np.bincount(kind.domains(hosts)["leaf"]).tolist() == [1024 // 8] * 15
    assert (counts["pod"], counts["leaf"], counts["spine"]) == (1, 15 * 16, 2 * 60)
    assert counts["cable_node_leaf"] == 2 * 15360
    assert counts["cable_leaf_spine"] == 15 * 16 * 60
    assert counts["cable_spine_core"] == 120 * 8
    with pytest.raises(ValueError, match="2 pods that nothing joins"):
        fabric(**{**HPN, "core": None}).check(Hosts(15 * 128 + 1, 8))
    with pytest.raises(ValueError, match="at most 60 spines"):
        fabric(**{**HPN, "spine": {"segments": 16, "oversubscription": 1.067}}).check(Hosts(16 * 128, 8))


@cases("case", [*SMALL_PLANES, {"nodes": 2 * 15 * 128, "fabric": HPN}], ids=str)
def test_switches_of_planes_keep_within_their_ports(case: dict[str, Any]) -> None:
    """A cable takes as many ports as its bandwidth is a multiple of a port's; no switch is left out."""
    kind, hosts = fabric(**case["fabric"]), Hosts(case["nodes"], 8)
    topology = topology_of(kind, hosts)
    cables = edges(topology)
    ports = np.bincount(np.concatenate((cables.lower, cables.upper)), weights=np.tile(cables.bandwidth / GB_200, 2))
    assert ports.min() > 0
    assert ports[hosts.nodes :].max() <= kind.radix
    assert ports.size == sum(topology.counts[part] for part in ("node", "leaf", "spine", "core"))
    assert (set(FABRIC_PARTS) | {"pod"}) - {"transceiver"} == set(kind.counts(hosts))


@cases(
    ("nodes", "parameters", "pod_share", "cluster_share"),
    [
        (8, {"segment": {"nodes": 4}}, 1, 1),
        (8, {"segment": {"nodes": 4}, "spine": {"oversubscription": 2}}, 2, 2),
        (16, {"segment": {"nodes": 4}, "spine": {"segments": 2}, "core": {}}, 1, 1),
        (16, {"segment": {"nodes": 4}, "spine": {"segments": 2}, "core": {"oversubscription": 4}}, 1, 4),
        (
            32,
            {
                "segment": {"nodes": 8},
                "uplink": "400 Gb/s",
                "spine": {"segments": 2, "oversubscription": 2},
                "core": {"oversubscription": 2},
            },
            2,
            4,
        ),
        # Four leaf switches of five uplinks on three spines: loads of seven, seven and six.
        (20, {"segment": {"nodes": 5}, "spine": {"segments": 2, "switches": 3}, "core": {}}, 1, 1),
        (
            20,
            {"segment": {"nodes": 5}, "spine": {"segments": 2, "switches": 3}, "core": {"oversubscription": 7}},
            1,
            20 / 3,
        ),
    ],
    ids=str,
)
def test_levels_equal_maximum_flow(
    nodes: int, parameters: dict[str, Any], pod_share: float, cluster_share: float
) -> None:
    """What all NICs of a segment, or of a pod, get to another one is the flow that the cables allow."""
    kind = fabric(rails=2, radix=32, **parameters)
    topology = topology_of(kind, Hosts(nodes, 8))
    segment = np.sum(topology.domains["leaf"] == 0) * kind.rails
    assert topology.bandwidth["leaf"] == GB_400
    assert topology.bandwidth["pod"] == pytest.approx(GB_400 / pod_share)
    assert flow_between(topology, "leaf", 0, 1) == pytest.approx(segment * topology.bandwidth["pod"])
    assert topology.bandwidth["cluster"] == pytest.approx(GB_400 / cluster_share)
    if topology.counts["pod"] > 1:
        pod = np.sum(topology.domains["pod"] == 0) * kind.rails
        assert flow_between(topology, "pod", 0, 1) == pytest.approx(pod * topology.bandwidth["cluster"])


@cases(
    ("nodes", "parameters", "reason"),
    [
        (8, {"rails": 3}, "8 GPUs per node do not divide evenly over 3 rails"),
        (8, {"segment": {"nodes": 129}}, "radix 256 is too small for the 129 ports down and 129 up"),
        (8, {"segment": {"nodes": 150}, "uplink": "400 Gb/s"}, "too small for the 150 ports down and 150 up"),
        (8, {"uplink": "300 Gb/s"}, "is 1.5 times the 200 Gb/s of a NIC's port"),
        (8, {"uplink": "300 Gb/s"}, "the nearest is 400 Gb/s"),
        (8, {"uplink": "50 Gb/s"}, "the nearest is 200 Gb/s"),
        (129, {"spine": {"segments": 1}}, "2 segments make 2 pods that nothing joins"),
        (33 * 128, {}, "spine radix 256 is too small: 264 leaf switches per pod and plane of 128 uplinks each"),
        (256, {"spine": {"switches": 129}}, "at most 128 spines"),
        (8, {"uplink": "800 Gb/s", "spine": {"radix": 3}}, "spine radix 0 leaves no port for a leaf switch"),
        (9 * 128, {"spine": {"segments": 1}, "core": {"radix": 4}}, "core radix 4 is too small for 9 pods"),
        (256, {"spine": {"segments": 1}, "core": {"switches": 1}}, "core.switches = 1"),
    ],
    ids=str,
)
def test_what_cannot_be_cabled_is_refused_in_one_line(nodes: int, parameters: dict[str, Any], reason: str) -> None:
    """The message names what is wrong, on one line, before any array exists."""
    with pytest.raises(ValueError) as caught:
        fabric(**parameters).check(Hosts(nodes, 8))
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


# ----------------------------------------
# Parts of the fabric in the engine: timelines by hand of nodes that are cut off and jobs that lose bandwidth.

EXACT = 1e-9

NEVER = {"law": {"use": "exponential", "mean": "100000 d"}}

RARE_SAVES = {"tiers": [{"interval": "10 d", "mode": "blocking", "write": "0 s", "restore": "0 s"}]}

# Two leaf groups of two nodes behind two spines: each leaf has two uplinks, one to each spine.
TREE = {"rails": 1, "leaf": {"nodes": 2}, "spine": {"switches": 2}}

# The same with two rails, so two leaf switches a group.
RAILS = {"rails": 2, "leaf": {"nodes": 2}, "spine": {"switches": 2}}


def source(part: str, name: str = "", **more: Any) -> dict[str, Any]:
    """Return a source of a part that strikes only where a trace says so, and is repaired in 200 s."""
    return {"use": "component", "name": name or part, "part": part, **NEVER, "repair": "200 s", **more}


def case(*sources: dict[str, Any], fabric: dict[str, Any], gpus: int = 4, share: float = 0.5, **more: Any) -> Any:
    """Return a job on all four nodes, stepping from 30 s on, that waits for the network for `share` of a step."""
    per_node = fabric["rails"]
    return prepared(
        **{
            "cluster": {"nodes": 4, "gpus_per_node": per_node, "fabric": fabric},
            "jobs": [{"name": "job", "gpus": gpus * per_node, "communication": share}],
            "failures": list(sources),
            "checkpoint": RARE_SAVES,
            **more,
        }
    )


def left(result: sim.Result) -> float:
    """Return the healthy seconds of work of the job [s]."""
    return result.jobs[0].work


@cases("share", [0.1, 0.5, 1.0])
def test_half_the_spines_leave_half_the_bandwidth_until_they_are_back(share: float) -> None:
    """A step takes 1 - c + c / b; nobody crashes, and nothing interrupts the job."""
    result = play(case(source("spine"), fabric=TREE, share=share), [(130, 0, 0)])
    pace = 1 / (1 - share + share / 0.5)
    assert left(result) == pytest.approx(770 + 200 * pace, rel=EXACT)
    assert seconds(result)["degraded"] == pytest.approx(200 * (1 - pace), rel=EXACT)
    assert result.jobs[0].interruptions == {}
    assert (result.counts["faults"], result.counts["degraded"], result.counts["failures"]) == (1, 1, 0)


def test_a_leaf_switch_of_single_homed_rails_takes_its_nodes() -> None:
    """Each of its nodes loses a rail, which is enough."""
    one = case(source("leaf"), fabric=RAILS)
    result = play(one, [(130, 0, 1)])
    assert result.jobs[0].interruptions == {1: 1}
    assert result.down_node_seconds == pytest.approx(2 * 200)
    assert seconds(result)["starved"] == pytest.approx(200, rel=EXACT)


def test_with_rerouting_the_other_rail_carries_on() -> None:
    """One of two rails: half the bandwidth, and no crash; both: a crash."""
    fabric = {**RAILS, "reroute": "scale_up"}
    one = case(source("leaf"), fabric=fabric, share=1.0)
    result = play(one, [(130, 0, 1)])
    assert left(result) == pytest.approx(770 + 100, rel=EXACT)
    assert result.down_node_seconds == 0
    result = play(one, [(130, 0, 1), (180, 0, 0)])
    assert result.jobs[0].interruptions == {1: 1}
    # Cut off from 180 until the first of the two is back at 330.
    assert result.down_node_seconds == pytest.approx(2 * 150)


def test_planned_work_keeps_a_part_out_until_it_is_over() -> None:
    """A leaf switch that has failed when its maintenance begins is back when both are over."""
    one = case(source("leaf"), source("leaf", "care", planned=True), fabric=RAILS)
    result = play(one, [(130, 0, 1), (200, 1, 1, 900.0)])
    assert result.down_node_seconds == pytest.approx(2 * (900 - 130))


def test_a_part_that_fails_often_is_available_as_renewal_theory_says() -> None:
    """Without a second hit while it is out: 1 / (1 + rate x repair), 0.5 for a repair as long as a life."""
    fails = {"use": "component", "name": "leaf", "part": "leaf", "rate": "24 per leaf-year", "repair": "15.21875 d"}
    one = prepared(
        cluster={"nodes": 64, "gpus_per_node": 1, "fabric": {"rails": 1, "leaf": {"nodes": 2}}},
        jobs=[{"name": "job", "gpus": 1}],
        failures=[fails],
        horizon="2000 d",
        warmup="400 d",
    )
    cycles = 32 * 2000 / (2 * 15.21875)
    result = sim.run(one, 0)
    available = 1 - result.down_node_seconds / result.node_seconds
    # Of n renewal cycles with an exponential life and a fixed repair of the same mean the share has a standard error of
    # a quarter of 1 / sqrt(n).
    assert abs(available - 0.5) < Z * 0.25 / cycles**0.5


def test_a_log_says_until_when() -> None:
    """Recorded outages of switches end when the log says."""
    result = play(case(source("spine"), fabric=TREE, share=1.0), [(130, 0, 0, 150.0)])
    assert left(result) == pytest.approx(950 + 10, rel=EXACT)


NIC_400 = 400e9 / 8


@cases("number", range(len(CASES["fat-tree"])))
def test_switches_keep_within_their_ports_and_reach_all_they_must(number: int, tmp_path: Path) -> None:
    """No switch has more cables than ports, and each leaf has a cable to every spine of its pod and no other."""
    cluster = cluster_of("fat-tree", CASES["fat-tree"][number], tmp_path)
    fabric: Any = cluster.fabric
    topology = cluster.build()
    cables = edges(topology)
    ends = np.bincount(np.concatenate((cables.lower, cables.upper)), minlength=topology.vertices("core").stop)
    for part, tier in (("leaf", fabric.leaf), ("spine", fabric.spine), ("core", fabric.core)):
        ports = tier.radix if tier is not None and tier.radix else fabric.radix
        assert all(ends[switch] <= ports for switch in topology.vertices(part)), part
    per_pod = topology.counts["spine"] // topology.counts["pod"]
    pod_of_leaf = np.repeat(
        topology.domains["pod"][np.flatnonzero(np.diff(topology.domains["leaf"], prepend=-1))],
        topology.counts["leaf"] // (topology.domains["leaf"].max() + 1),
    )
    first_leaf, first_spine = topology.vertices("leaf").start, topology.vertices("spine").start
    pairs = pairs_of(cables, 1, first_leaf, first_spine)
    assert pairs == {
        (leaf, pod * per_pod + spine) for leaf, pod in enumerate(pod_of_leaf.tolist()) for spine in range(per_pod)
    }


def pairs_of(cables: Edges, tier: int, first_lower: int, first_upper: int) -> set[tuple[int, int]]:
    """Return which units of a tier are joined, numbered within their part class."""
    here = cables.tier == tier
    lower, upper = (cables.lower[here] - first_lower).tolist(), (cables.upper[here] - first_upper).tolist()
    return set(zip(lower, upper, strict=True))


def test_links_of_a_tier_are_spread_evenly() -> None:
    """Two upper switches never differ by more than one cable, even when the numbers do not divide."""
    cluster = tree(224, leaf={"nodes": 32}, spine={"oversubscription": 3, "switches": 10})
    topology = cluster.build()
    cables = edges(topology)
    loads = np.bincount(cables.upper[cables.tier == 1] - topology.vertices("spine").start)
    assert cluster.counts()["cable_leaf_spine"] == 7 * 8 * 11
    assert sorted(set(loads.tolist())) == [61, 62]

    shape: dict[str, Any] = {"spine": {"leaf_groups": 2}, "core": {"oversubscription": 3, "switches": 10}, "radix": 32}
    topology = tree(64, leaf={"nodes": 8}, **shape).build()
    cables = edges(topology)
    loads = np.bincount(cables.upper[cables.tier == 2] - topology.vertices("core").start)
    assert loads.size == 10
    assert loads.max() - loads.min() <= 1


@cases(
    ("shape", "pod_share", "cluster_share"),
    [
        ({"spine": {"leaf_groups": 2}, "core": {}}, 1, 1),
        ({"spine": {"leaf_groups": 2}, "core": {"oversubscription": 4}}, 1, 4),
        ({"spine": {"leaf_groups": 2, "oversubscription": 2}, "core": {"oversubscription": 2}}, 2, 4),
    ],
)
def test_bisection_equals_oversubscription(shape: dict[str, Any], pod_share: int, cluster_share: int) -> None:
    """Max flow out of a leaf group, and of a pod, is its NICs' bandwidth over the product of the ratios."""
    topology = tree(64, leaf={"nodes": 8}, radix=32, **shape).build()
    assert flow_between(topology, "leaf", 0, 1) == pytest.approx(8 * 8 * NIC_400 / pod_share)
    assert flow_between(topology, "pod", 0, 3) == pytest.approx(16 * 8 * NIC_400 / cluster_share)
    assert topology.bandwidth["pod"] == pytest.approx(NIC_400 / pod_share)
    assert topology.bandwidth["cluster"] == pytest.approx(NIC_400 / cluster_share)


def test_oversubscription_beyond_the_cluster_slows_no_node() -> None:
    """A cluster inside one leaf group, or one pod, keeps the bandwidth of that level."""
    shape: dict[str, Any] = {"spine": {"leaf_groups": 2, "oversubscription": 2}, "core": {"oversubscription": 4}}
    levels = {nodes: dict(tree(nodes, **shape).build().bandwidth) for nodes in (32, 64, 65)}
    assert levels[32] == {"leaf": NIC_400, "pod": NIC_400, "cluster": NIC_400}
    assert levels[64] == {"leaf": NIC_400, "pod": NIC_400 / 2, "cluster": NIC_400 / 2}
    assert levels[65] == {"leaf": NIC_400, "pod": NIC_400 / 2, "cluster": NIC_400 / 8}


def test_failed_parts_take_their_nodes() -> None:
    """A leaf switch takes its whole group whichever rail it serves, a rack its nodes, a spine or core nobody."""
    fabric = {"use": "fat-tree", "leaf": {"nodes": 8}, "spine": {"leaf_groups": 2}, "core": {}}
    shared = {"rack": {"nodes": 3}, "pdu": {"racks": 4}, "cooling": {"racks": 2}}
    topology = ClusterSpec.model_validate({"nodes": 20, **shared, "fabric": fabric}).build()
    assert members(topology, "gpu", 17) == [2]
    assert members(topology, "nic", 8) == members(topology, "cable_node_leaf", 8) == [1]
    for switch in range(8, 16):
        assert members(topology, "leaf", switch) == list(range(8, 16))
    assert members(topology, "leaf", 23) == [16, 17, 18, 19]
    assert members(topology, "rack", 6) == [18, 19]
    assert members(topology, "pod", 1) == [16, 17, 18, 19]
    assert members(topology, "pdu", 1) == list(range(12, 20))
    assert [members(topology, "cooling", unit) for unit in (0, 3)] == [list(range(6)), [18, 19]]
    # Two transceivers to a cable: those of the access cables come first, and take a node each; no other does.
    assert [members(topology, "transceiver", unit) for unit in (0, 1, 15, 16, 319)] == [[0], [0], [0], [1], [19]]
    assert topology.members("transceiver").nodes.size == 2 * 160
    for part in ("spine", "core", "cable_leaf_spine", "cable_spine_core"):
        assert topology.members(part).nodes.size == 0


def test_rerouting_keeps_hosts_that_have_a_rail_left() -> None:
    """With other rails to take, a NIC, its cable or one of eight leaf switches cuts nobody off; the only one does."""
    parts = {"nic", "cable_node_leaf", "transceiver", "leaf"}
    assert parts & set(tree(64).stopping_parts) == parts
    assert parts & set(tree(64, reroute="scale_up").stopping_parts) == set()
    one_switch = tree(64, leaf={"nodes": 2, "switches": 1}, reroute="scale_up")
    assert parts & set(one_switch.stopping_parts) == {"leaf"}


def test_the_only_spine_leaves_the_leaf_switch_that_counts_most() -> None:
    """What hangs together with most access cables goes on, the first of equals; all others are cut off."""
    only = {"rails": 1, "leaf": {"nodes": 4}, "spine": {"switches": 1, "oversubscription": 2}, "radix": 16}
    cluster = ClusterSpec.model_validate({"nodes": 10, "gpus_per_node": 1, "fabric": {"use": "fat-tree", **only}})
    assert members(cluster.build(), "spine", 0) == [4, 5, 6, 7, 8, 9]
    assert cluster.nodes_behind("spine") == 6
    assert cluster.nodes_behind("cable_leaf_spine") == 0, "there are two cables to each leaf switch"
    single = only | {"spine": {"oversubscription": 4}}
    cluster = ClusterSpec.model_validate({"nodes": 10, "gpus_per_node": 1, "fabric": {"use": "fat-tree", **single}})
    assert [members(cluster.build(), "cable_leaf_spine", unit) for unit in range(3)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]


@cases(
    ("nodes", "parameters", "reason"),
    [
        (8, {"rails": 3}, "8 GPUs per node do not divide evenly over 3 rails"),
        (8, {"leaf": {"switches": 3}}, "8 rails do not divide evenly over leaf.switches = 3"),
        (8, {"leaf": {"nodes": 33}}, "leaf radix 64 is too small for 33 links down and 33 up"),
        (512, {}, "spine radix 64 is too small: 128 leaf switches per pod"),
        (64, {"spine": {"switches": 1}}, "spine radix 64 is too small"),
        (64, {"spine": {"switches": 33}}, "at most 32 spines"),
        (64, {"spine": {"leaf_groups": 1}}, "2 pods that nothing joins"),
        (12500, {"spine": {"leaf_groups": 4}, "core": {}}, "core radix 64 is too small for 98 pods"),
        (512, {"spine": {"leaf_groups": 4}, "core": {"switches": 63}}, "core.switches = 63"),
        (64, {"core": {}, "spine": {"radix": 1}}, "leaves no port"),
        (64, {"spine": {"oversubscription": 0.5}}, "greater than or equal to 1"),
        (64, {"leaf": {"nodes": 0}}, "greater than or equal to 1"),
        (64, {"nic": "0 Gb/s"}, "greater than 0"),
        (64, {"nic": "-400 Gb/s"}, "must not be negative"),
        (64, {"spine": {"overssubscription": 2}}, "Extra inputs"),
    ],
    ids=str,
)
def test_what_cannot_be_built_is_refused_in_one_line(nodes: int, parameters: dict[str, Any], reason: str) -> None:
    """The message names what is wrong, on one line, before any array exists."""
    with pytest.raises(ValidationError) as caught:
        tree(nodes, **parameters)
    (error,) = caught.value.errors()
    assert reason in error["msg"]
    assert "\n" not in error["msg"]


def test_radix_64_three_tiers_end_at_65536_endpoints() -> None:
    """k^3/4 hosts is the size of a full three-tier fat tree of k ports (Al-Fares et al., SIGCOMM 2008)."""
    shape: dict[str, Any] = {"spine": {"leaf_groups": 4}, "core": {}}
    counts = tree(65536 // 8, **shape).counts()
    assert (counts["leaf"], counts["spine"], counts["core"]) == (2048, 2048, 1024)  # k^2/2, k^2/2, k^2/4
    with pytest.raises(ValueError, match="core radix"):
        tree(65536 // 8 + 1, **shape)


@examples(400)
@given(nodes=st.integers(1, 131072), gpus=st.integers(1, 16))
@example(nodes=131072, gpus=15)
@example(nodes=257, gpus=8)
@example(nodes=8193, gpus=8)
def test_any_cluster_without_a_fabric_gets_one_of_full_bisection(nodes: int, gpus: int) -> None:
    """All NICs have their full bandwidth from end to end, no part above the leaf switches cuts anybody off alone."""
    cluster = ClusterSpec.model_validate({"nodes": nodes, "gpus_per_node": gpus})
    assert set(cluster.fabric.bandwidth(cluster.hosts).values()) == {NIC_400}
    assert cluster.fabric.disjoint_paths(cluster.hosts) >= 2
    assert cluster.counts()["cable_node_leaf"] == (nodes * cluster.fabric.rails if nodes > 1 else 0)


@cases(
    "nodes, switches",
    [(1, (0, 0)), (2, (1, 0)), (8, (1, 0)), (9, (2, 0)), (32, (4, 0)), (64, (8, 0)), (65, (24, 16))],
)
def test_small_clusters_get_the_smallest_fabric(nodes: int, switches: tuple[int, int]) -> None:
    """Of eight NICs a node: no switch for one, the fewest leaf switches of 64 ports that reach all, spines beyond 64.

    All nodes are behind the same leaf switches, and the graph of it can be built.
    """
    cluster = ClusterSpec.model_validate({"nodes": nodes})
    counts = cluster.counts()
    assert (counts["leaf"], counts["spine"]) == switches
    assert switches[1] or counts["cable_leaf_spine"] == 0
    topology = cluster.build()
    assert len(topology.make_edges().lower) == counts["cable_node_leaf"] + counts["cable_leaf_spine"]
    assert ClusterSpec.model_validate(cluster.model_dump(mode="json", exclude_none=True)).counts() == counts
    assert switches[1] or set(topology.domains["leaf"].tolist()) == {0}


@cases(
    "fabric, nodes, rule",
    [
        ({"use": "fat-tree", "tiers": 1}, 65, "65 nodes need more than the 64 ports of a leaf switch"),
        ({"use": "fat-tree", "tiers": 0}, 2, "2 nodes need switches"),
        ({"use": "fat-tree", "tiers": 1, "leaf": {"switches": 3}}, 2, "8 rails do not divide evenly"),
    ],
)
def test_what_no_single_tier_reaches(fabric: dict[str, Any], nodes: int, rule: str) -> None:
    """Leaf switches without spines are refused beyond their ports, and no switches beyond one node."""
    with pytest.raises(ValidationError, match=rule):
        ClusterSpec.model_validate({"nodes": nodes, "fabric": fabric})


def test_the_fabric_is_chosen_only_where_none_is_stated() -> None:
    """Up to 256 hosts of eight it is the plain one; beyond, 64 ports make pods of four leaf groups, as SuperPODs do."""
    plain = ClusterSpec.model_validate({"nodes": 256})
    assert plain.fabric == tree(256).fabric
    chosen = ClusterSpec.model_validate({"nodes": 512})
    assert chosen.fabric == tree(512, spine={"leaf_groups": 4}, core={}).fabric
    assert ClusterSpec.model_validate(chosen.model_dump(mode="json", exclude_none=True)) == chosen
    with pytest.raises(ValidationError, match="spine radix 64 is too small"):
        tree(512)

"""The description of a cluster: hosts, pools, scale-up domains and what they share, and every mistake in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sim
from sim.cluster import ClusterSpec
from tests.cases import cases
from tests.small import SMALL

NVL72 = {"gpus": 72, "tray": 4, "switch_trays": 9}


def cluster(**parameters: Any) -> ClusterSpec:
    """Validate parameters as a file would be."""
    return ClusterSpec.model_validate(parameters)


def tray_fabric(nodes: int) -> dict[str, Any]:
    """Return a fat tree of one NIC per GPU for trays of four."""
    return {"use": "fat-tree", "rails": 4, "leaf": {"nodes": nodes}}


# ------------------------------------------------------------------------------------------------------- hosts


def test_hosts_have_eight_gpus_unless_they_are_trays() -> None:
    """The number of GPUs of a host is as given, else that of a tray, else eight."""
    assert cluster(nodes=3).hosts == (3, 8)
    assert cluster(nodes=3, gpus_per_node=4).hosts == (3, 4)
    assert cluster(nodes=18, scale_up=NVL72).hosts == (18, 4)
    assert cluster(nodes=9, scale_up={"gpus": 72}).hosts == (9, 8)


def test_hosts_that_are_all_alike_are_one_pool() -> None:
    """An accelerator may be left out; h100 is then meant."""
    assert [(pool.count, pool.accelerator, pool.age) for pool in cluster(nodes=3).all_pools] == [(3, "h100", 0.0)]
    assert [pool.accelerator for pool in cluster(nodes=3, accelerator="b200").all_pools] == ["b200"]


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


# --------------------------------------------------------------------------------------------- what they share


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


def test_without_scale_up_domains_each_node_is_one() -> None:
    """Then there is no part class of them: what would fail is the node."""
    spec = cluster(nodes=5)
    assert {"scale_up", "switch_tray"} & set(spec.counts()) == set()
    assert spec.nodes_per_domain == 1
    assert spec.build().domains["scale_up"].tolist() == list(range(5))


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


def test_domains_without_switch_trays_have_no_such_part() -> None:
    """Eight GPUs of two hosts, wired to each other."""
    counts = cluster(nodes=4, gpus_per_node=4, scale_up={"gpus": 8}, fabric=tray_fabric(4)).counts()
    assert counts["scale_up"] == 2
    assert "switch_tray" not in counts


@cases(
    ("words", "used", "drains"),
    [
        ({}, 72, False),
        ({"use": 64}, 64, False),
        ({"use": 64, "drain_unit": "domain"}, 64, True),
        ({"use": 64, "drain_unit": "rack", "swap_unit": "rack"}, 64, True),
        ({"swap_unit": "tray"}, 72, False),
    ],
    ids=str,
)
def test_what_a_job_takes_of_a_domain(words: dict[str, Any], used: int, drains: bool) -> None:
    """All GPUs of a domain unless said otherwise; where a repair drains it, the domain is out with its tray."""
    scale_up = cluster(nodes=18, scale_up={**NVL72, **words}, rack={"nodes": 18}, fabric=tray_fabric(18)).scale_up
    assert scale_up is not None
    assert (scale_up.used, scale_up.drains) == (used, drains)


def test_tiers_with_transceivers() -> None:
    """Copper access cables have none; all cables above have."""
    assert cluster(nodes=3).optical == (0, 1, 2)
    assert cluster(nodes=3, fabric={"use": "fat-tree", "copper": True}).optical == (1, 2)


# ---------------------------------------------------------------------------------------------------- mistakes

TRAYS = {"nodes": 36, "rack": {"nodes": 18}, "fabric": tray_fabric(18)}


def trays(**words: Any) -> dict[str, Any]:
    """Return two NVL72 racks with other words for their scale-up domains."""
    return {**TRAYS, "scale_up": {**NVL72, **words}}


POOL = {"count": 2, "accelerator": "h100"}
MISTAKES: list[tuple[dict[str, Any], str]] = [
    # Jobs and spares need 16 nodes of this one.
    ({"fabric": {"spine": {"radix": 4}}}, "cluster.fabric: spine radix 4 is too small: 8 leaf switches per pod"),
    (
        {
            "gpus_per_node": 4,
            "scale_up": {"gpus": 8},
            "pools": [{"count": 5, "accelerator": "h100"}, {"count": 3, "accelerator": "b200"}],
        },
        "cluster.pools.0.count: 5 nodes are not whole scale-up domains of 2 nodes",
    ),
    ({"nodes": 4, "pools": [POOL]}, "cluster: give exactly one of nodes and pools"),
    ({"pools": [POOL], "accelerator": "h100"}, "cluster.accelerator: is for clusters of one kind of nodes; each of"),
    ({"nodes": 0}, "cluster.nodes: must be at least 1, not 0"),
    ({"nodes": 4, "name": ""}, "cluster.name: "),
    ({"nodes": 4, "gpus_per_node": 0}, "cluster.gpus_per_node: must be at least 1, not 0"),
    ({"nodes": 4, "rack": {"nodes": 0}}, "cluster.rack.nodes: must be at least 1, not 0"),
    ({"nodes": 4, "pdu": {"racks": 0}}, "cluster.pdu.racks: must be at least 1, not 0"),
    ({"nodes": 4, "cooling": {"racks": 0}}, "cluster.cooling.racks: must be at least 1, not 0"),
    ({"nodes": 4, "power": {"racks": 2}}, "cluster.power: unknown key 'power'"),
    ({"pools": [{"accelerator": "h100"}]}, "cluster.pools.0.count: is missing"),
    ({"pools": [{"count": 3}]}, "cluster.pools.0.accelerator: is missing"),
    ({"pools": [{**POOL, "count": 0}]}, "cluster.pools.0.count: must be at least 1, not 0"),
    ({"pools": [POOL, {**POOL, "age": "-1 d"}]}, "cluster.pools.1.age: must not be negative"),
    ({"nodes": 9, "scale_up": {}}, "cluster.scale_up.gpus: is missing"),
    (trays(use=80), "cluster.scale_up.use: is 80 GPUs, but a scale-up domain has 72"),
    (trays(use=64, swap_unit="tray"), "cluster.scale_up.use: is for domains that are swapped whole"),
    (trays(drain_unit="domain", swap_unit="tray"), "cluster.scale_up.drain_unit: a domain that is drained whole must"),
    (trays(swap_unit="racks"), "cluster.scale_up.swap_unit: 'racks' is not a choice; did you mean 'rack'?"),
    (trays(switch_trays=-1), "cluster.scale_up.switch_trays: must be at least 0, not -1"),
    ({**trays(), "gpus_per_node": 8}, "cluster.scale_up.tray: is 4 GPUs, but gpus_per_node is 8; a tray is a node"),
    (trays(gpus=73), "cluster.scale_up.gpus: 73 GPUs are not whole nodes of 4; nearest: 72"),
    (trays(gpus=71), "cluster.scale_up.gpus: 71 GPUs are not whole nodes of 4; nearest: 72"),
    (trays(gpus=3), "cluster.scale_up.gpus: 3 GPUs are not whole nodes of 4; nearest: 4"),
    (trays(use=61), "cluster.scale_up.use: 61 GPUs are not whole nodes of 4; nearest: 60"),
    (trays(use=63), "cluster.scale_up.use: 63 GPUs are not whole nodes of 4; nearest: 64"),
    ({**trays(), "nodes": 40}, "cluster.scale_up.gpus: 160 GPUs do not divide into scale-up domains of 72; nearest "),
    ({**trays(), "nodes": 40}, "nearest numbers of nodes: 36 or 54"),
    ({**trays(), "nodes": 10}, "nearest numbers of nodes: 18"),
    (
        {**trays(drain_unit="rack"), "rack": {"nodes": 9}},
        "cluster.scale_up.drain_unit: is rack, but a rack has 9 nodes",
    ),
    ({**trays(swap_unit="rack"), "rack": {"nodes": 9}}, "cluster.scale_up.swap_unit: is rack, but a rack has 9 nodes"),
    ({"nodes": 4, "fabric": {"rails": 3}}, "8 GPUs per node do not divide evenly over 3 rails"),
    ({"nodes": 4, "fabric": {"rails": 0}}, "cluster.fabric.rails: must be at least 1, not 0"),
    ({"nodes": 4, "fabric": {"nic": "0 Gb/s"}}, "cluster.fabric.nic: must be above 0, not '0 Gb/s'"),
    ({"nodes": 4, "fabric": {"radix": 8}}, "cluster.fabric: leaf radix 8 is too small for 32 links down and 32 up"),
    (
        {"nodes": 4, "fabric": {"rails": 1, "reroute": "scale_up"}},
        "cluster.fabric.reroute: needs several rails: the traffic of one goes over the others",
    ),
    ({"nodes": 4, "fabric": {"reroute": "scaleup"}}, "cluster.fabric.reroute: 'scaleup' is not a choice; did you mean"),
    ({"nodes": 4, "fabric": {"use": "dual-plane", "rails": 3}}, "cluster.fabric.rails: 8 GPUs per node do not divide"),
    (
        {"nodes": 4, "fabric": {"use": "dual-plane", "uplink": "300 Gb/s"}},
        "cluster.fabric.uplink: is 1.5 times the 200",
    ),
    ({"nodes": 4, "fabric": {"use": "graph-file"}}, "cluster.fabric.file: is missing"),
    ({"nodes": 4, "fabric": {"use": "fattree"}}, "cluster.fabric.use: 'fattree' is not a choice; did you mean"),
]


@cases("number", range(len(MISTAKES)))
def test_a_mistake_is_one_line_with_its_path(number: int) -> None:
    """The path, the rule and the nearest valid value, as a user of a scenario sees it."""
    parameters, said = MISTAKES[number]
    with pytest.raises(sim.ScenarioError) as caught:
        sim.parse({**SMALL, "cluster": parameters})
    (line,) = caught.value.lines
    assert line.startswith("scenario: cluster")
    assert said in line
    assert line.isprintable()

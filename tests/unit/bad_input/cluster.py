"""Clusters that cannot be: hosts, pools, scale-up domains, fabrics, and what jobs want of them."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.bad_input import COMPONENT, Bad, bad, over


def cluster(described: str, *fragments: str, **more: Any) -> Bad:
    """Return a scenario with another cluster."""
    return bad({2: f"cluster: {described}"}, *fragments, **more)


def trays(words: str, *fragments: str, nodes: int = 36, rack: int = 18) -> Bad:
    """Return NVL72 racks of 18 trays of four GPUs, with words for their scale-up domains."""
    fabric = "fabric: {rails: 4, leaf: {nodes: 8}}"
    return cluster(f"{{nodes: {nodes}, rack: {{nodes: {rack}}}, {fabric}, scale_up: {words}}}", *fragments)


def graph(*fragments: str, **changes: Any) -> Bad:
    """Return two hosts of one rail behind a leaf switch each, joined by a spine, in a file with a mistake."""
    hosts = [{"id": "h0", "part": "node"}, {"id": "h1", "part": "node"}]
    switches = [{"id": "l0", "part": "leaf"}, {"id": "l1", "part": "leaf"}, {"id": "s0", "part": "spine"}]
    ends = [("h0", "l0"), ("h1", "l1"), ("l0", "s0"), ("l1", "s0")]
    edges: list[dict[str, Any]] = [{"source": one, "target": other} for one, other in ends]
    edges[2] |= changes.pop("edge", {})
    hosts[0] |= changes.pop("host", {})
    content = json.dumps({"nodes": hosts + switches, "edges": edges[: changes.pop("edges", 4)]})
    described = changes.pop(
        "described", "{nodes: 2, gpus_per_node: 1, fabric: {use: graph-file, rails: 1, file: §net.json}}"
    )
    assert not changes
    jobs = {5: "  - {name: train, gpus: 1, step_time: 10 s}", 12: "spares: {hot: 1}"}
    rules = ("cluster.fabric.file: ", *fragments)
    return bad({2: f"cluster: {described}", **jobs}, *rules, files={"net.json": content})


FABRICS = [
    cluster(
        "{nodes: 16, fabric: §{radix: 8, leaf: {nodes: 16}}}",
        "cluster.fabric: leaf radix 8 is too small for 16 links down and 16 up: lower leaf.nodes, or raise radix",
    ),
    cluster(
        "{nodes: 16, fabric: §{leaf: {nodes: 16, radix: 24}}}",
        "cluster.fabric: leaf radix 24 is too small for 16 links down and 16 up",
    ),
    cluster(
        "{nodes: 16, fabric: §{leaf: {nodes: 2}, spine: {radix: 8, switches: 2}}}",
        "cluster.fabric: spine radix 8 is too small: 64 leaf switches per pod of 2 uplinks each on 2 spines need 64",
        "lower spine.leaf_groups or raise radix",
    ),
    cluster(
        "{nodes: 16, fabric: §{leaf: {nodes: 4}, spine: {leaf_groups: 2}}}",
        "cluster.fabric: 4 leaf groups make 2 pods that nothing joins: add a core tier or raise spine.leaf_groups",
    ),
    cluster(
        "{nodes: 16, fabric: {rails: §3}}", "cluster.fabric.rails: 8 GPUs per node do not divide evenly over 3 rails"
    ),
    cluster(
        "{nodes: 16, fabric: §{leaf: {nodes: 4, switches: 3}}}",
        "cluster.fabric: 8 rails do not divide evenly over leaf.switches = 3",
    ),
    cluster("{nodes: 16, fabric: {rails: §0}}", "cluster.fabric.rails: must be at least 1, not 0"),
    cluster("{nodes: 16, fabric: {nic: §-400 Gb/s}}", "cluster.fabric.nic: must not be negative"),
    cluster("{nodes: 16, fabric: {nic: §0 Gb/s}}", "cluster.fabric.nic: must be above 0, not '0 Gb/s'"),
    cluster("{nodes: 16, fabric: {nic: §400}}", "cluster.fabric.nic: '400' needs a unit"),
    cluster("{nodes: 16, fabric: {nic: §400 Gb}}", "cluster.fabric.nic: 'Gb' is a unit of size, not of bandwidth"),
    cluster(
        "{nodes: 16, fabric: {spine: {oversubscription: §0.5}}}",
        "cluster.fabric.spine.oversubscription: must be at least 1, not 0.5",
    ),
    cluster("{nodes: 16, fabric: {use: §torus}}", "cluster.fabric.use: 'torus' is not a choice"),
    cluster("{nodes: 16, fabric: {use: dual-plane, §leaf: {nodes: 4}}}", "cluster.fabric.leaf: unknown key 'leaf'"),
    cluster(
        "{nodes: 16, fabric: {rails: 1, reroute: §scale_up}}",
        "cluster.fabric.reroute: needs several rails: the traffic of one goes over the others",
    ),
    cluster(
        "{nodes: 16, fabric: {reroute: §scaleup}}",
        "cluster.fabric.reroute: 'scaleup' is not a choice; did you mean 'scale_up'?",
    ),
    cluster(
        "{nodes: 16, fabric: {use: dual-plane, uplink: §300 Gb/s}}",
        "cluster.fabric.uplink: is 1.5 times the 200 Gb/s of a NIC's port and must be a whole multiple: the nearest is",
    ),
    over("cluster.fabric.rails=0", "cluster.fabric.rails: must be at least 1, not 0"),
]

HOSTS = [
    cluster(
        "§{fabric: {use: graph-file, file: hall.json, rails: 1}}",
        "cluster.nodes: is missing: a graph file has hosts of its own; say how many",
    ),
    cluster("§{nodes: 16, pools: [{count: 16, accelerator: h100}]}", "cluster: give exactly one of nodes and pools"),
    cluster(
        "{accelerator: §h100, pools: [{count: 16, accelerator: h100}]}",
        "cluster.accelerator: is for clusters of one kind of nodes; each of the pools names its own",
    ),
    cluster(
        "{gpus_per_node: 4, scale_up: {gpus: 8}, "
        "pools: [{count: §15, accelerator: h100}, {count: 3, accelerator: b200}]}",
        "cluster.pools.0.count: 15 nodes are not whole scale-up domains of 2 nodes",
    ),
    cluster(
        "{pools: [{count: 16, accelerator: h100}, {count: §0, accelerator: b200}]}",
        "cluster.pools.1.count: must be at least 1, not 0",
    ),
    cluster(
        "{pools: [{count: 8, accelerator: h100}, {count: 8, accelerator: §b2000}]}",
        "cluster.pools.1.accelerator: unknown accelerator 'b2000'; did you mean 'b200'?",
    ),
    cluster("{pools: [{count: 16, accelerator: h100, age: §-1 year}]}", "cluster.pools.0.age: must not be negative"),
    cluster("{nodes: §16.5}", "cluster.nodes: '16.5' is not a whole number"),
    cluster("{nodes: §-16}", "cluster.nodes: must not be negative"),
    cluster("{nodes: 16, rack: {nodes: §0}}", "cluster.rack.nodes: must be at least 1, not 0"),
    bad(
        {
            2: "cluster: {pools: [{count: 16, accelerator: h100, age: 1 year}]}",
            7: "  - §{use: component, name: node, part: node, law: {use: weibull, shape: 3, mean: 1 year}}",
            12: "initial: stationary",
        },
        "failures.0: 'node' has pools of a known age, of which the stationary state is not known; use a warmup instead",
    ),
    bad(
        {
            2: "cluster: {pools: [{count: 8, accelerator: h100}, {count: 8, accelerator: §a100}]}",
            5: "  - {name: train, gpus: 64, step_time: 10 s, precision: fp8}",
        },
        "cluster.pools.1.accelerator: the catalog has no fp8 peak of a100 (it has bf16)",
    ),
]

SCALE_UP = [
    trays("{gpus: 72, use: §80, tray: 4}", "scale_up.use: is 80 GPUs, but a scale-up domain"),
    trays(
        "{gpus: §72, tray: 4}",
        "cluster.scale_up.gpus: 160 GPUs do not divide into scale-up domains of 72; nearest numbers of nodes: 36 or 54",
        nodes=40,
    ),
    trays("{gpus: §70, tray: 4}", "cluster.scale_up.gpus: 70 GPUs are not whole nodes of 4; nearest: 72"),
    trays("{gpus: 72, use: §62, tray: 4}", "cluster.scale_up.use: 62 GPUs are not whole nodes of 4; nearest: "),
    cluster(
        "{nodes: 18, gpus_per_node: 8, scale_up: {gpus: 72, tray: §4}}",
        "cluster.scale_up.tray: is 4 GPUs, but gpus_per_node is 8; a tray is a node",
    ),
    trays(
        "{gpus: 72, tray: 4, swap_unit: §rack}",
        "cluster.scale_up.swap_unit: is rack, but a rack has 9 nodes and a domain 18; say domain, or rack.nodes",
        rack=9,
    ),
    trays(
        "{gpus: 72, tray: 4, drain_unit: §domain, swap_unit: tray}",
        "cluster.scale_up.drain_unit: a domain that is drained whole must be swapped whole: swap_unit: domain",
    ),
    trays(
        "{gpus: 72, use: §64, tray: 4, swap_unit: tray}", "cluster.scale_up.use: is for domains that are swapped whole"
    ),
    trays("{gpus: 72, tray: 4, switch_trays: §-9}", "cluster.scale_up.switch_trays: must be at least 0, not -9"),
    bad(
        {2: "cluster: {nodes: §64, gpus_per_node: 5e8}"},
        "cluster.nodes: makes 32,000,000,000 GPUs, 500,000,000 in each node, and at most 10,000,000 are simulated",
    ),
    bad({2: "cluster: {nodes: 64, rack: {nodes: §1e18}}"}, "cluster.rack.nodes: must be at most 1e+09, not 1e+18"),
    bad(
        {
            2: "cluster: {nodes: 36, fabric: {rails: 4, leaf: {nodes: 8}}, scale_up: {gpus: 72, use: 64, tray: 4}}",
            5: "  - {name: train, gpus: §72, step_time: 10 s}",
            12: "spares: {hot: 16}",
        },
        "jobs.0.gpus: 18 nodes are not a whole number of units: of the 18 nodes of a scale-up domain a job takes 16; "
        "nearest: 64 or 128",
    ),
    bad(
        {
            2: "cluster: {nodes: 36, fabric: {rails: 4, leaf: {nodes: 8}}, scale_up: {gpus: 72, use: 64, tray: 4}}",
            12: "spares: {hot: §2}",
        },
        "spares.hot: 2 nodes are not a whole number of units: of the 18 nodes of a scale-up domain a job takes 16; "
        "nearest: 16",
    ),
    bad(
        {
            2: "cluster: {nodes: 36, fabric: {rails: 4, leaf: {nodes: 8}}, scale_up: {gpus: 72, use: 64, tray: 4}}",
            12: "scheduler: {use: fifo, pack: §pod}",
        },
        "scheduler.pack: is for nodes that are used one by one; here jobs use whole units, which keep",
    ),
    bad(
        {12: "spares: {hot: 0, unit: rack}\nscheduler: {use: fifo, pack: §leaf}"},
        "scheduler.pack: is for nodes that are used one by one; here jobs use whole units",
    ),
    bad(
        {12: "scheduler: {use: fifo, pack: §leaf, pick: random}"},
        "scheduler.pack: packed jobs take nodes by their place, not as pick: random",
    ),
    bad({12: "scheduler: {use: fifo, pack: §racks}"}, "scheduler.pack: 'racks' is not a choice; did you mean 'rack'?"),
]

JOBS = [
    bad(
        {
            2: "cluster: {nodes: 16, fabric: {leaf: {nodes: 4}}, scale_up: {gpus: 8}}",
            5: "  - {name: train, gpus: 64, parallelism: {tensor: 16, data: 4, within_domain: §[tensor]}}",
        },
        "jobs.0.parallelism.within_domain: tensor groups of 16 GPUs do not fit into scale-up domains of 8:",
        "they would span 2",
    ),
    bad(
        {5: "  - {name: train, gpus: 64, parallelism: {tensor: 8, data: 8, within_domain: [§tensors]}}"},
        "jobs.0.parallelism.within_domain.0: 'tensors' is not a choice; did you mean 'tensor'?",
    ),
    bad(
        {7: COMPONENT + "part: §spine, rate: 1 per 1000 spine-day}"},
        "failures.0.part: 'node': a failed spine stops no node here, and no job says what share of its step waits for",
        "(jobs.0.communication)",
    ),
    bad(
        {7: COMPONENT + "part: nic, rate: 1 per 1000 nic-day, effect: §{use: degrade, bandwidth: 0.5}}"},
        "failures.0.effect: 'node' takes bandwidth, and no job says what share of its step waits for communication",
    ),
    bad(
        {5: "  - {name: train, gpus: 64, step_time: 10 s, communication: §1.5}"},
        "jobs.0.communication: '1.5' is above 1; did you mean '1.5 %'?",
    ),
    bad(
        {7: COMPONENT + "part: §switch_tray, rate: 1 per 1000 switch_tray-day}"},
        "failures.0.part: unknown part 'switch_tray' (choose from gpu, node, rack,",
    ),
    bad(
        {
            5: "  - {name: train, gpus: 64, step_time: 10 s, communication: 0.2}",
            7: "  - {use: component, name: node, part: §core, rate: 1 per 1000 core-day}",
        },
        "failures.0.part: the cluster has no part 'core' (it has gpu, node,",
    ),
]

GRAPHS = [
    graph("net.json: host 'h1' cannot reach host 'h0' on rail 0: no switches join them", edges=3),
    graph("net.json: vertex 'h0': unknown attribute 'prat'; did you mean 'part'?", host={"prat": "node"}),
    graph(
        "net.json: edge 'l0' - 's0': unknown attribute 'bandwith'; did you mean 'bandwidth'?", edge={"bandwith": 1e9}
    ),
    graph("net.json: edge 'l0' - 's0': bandwidth = -1 must be a positive number", edge={"bandwidth": -1}),
    graph(
        "net.json: has 2 hosts, but the cluster has nodes = 3",
        described="{nodes: 3, gpus_per_node: 1, fabric: {use: graph-file, rails: 1, file: §net.json}}",
    ),
    graph(
        "net.json: hosts have 1 access cables each, which do not divide over rails = 2",
        described="{nodes: 2, gpus_per_node: 2, fabric: {use: graph-file, rails: 2, file: §net.json}}",
    ),
    graph(
        "nets.json: cannot be read: no such file or directory",
        described="{nodes: 2, gpus_per_node: 1, fabric: {use: graph-file, rails: 1, file: §nets.json}}",
    ),
    graph(
        "s.yaml: the name must end in .graphml, .xml or .json",
        described="{nodes: 2, gpus_per_node: 1, fabric: {use: graph-file, rails: 1, file: §s.yaml}}",
    ),
]

CASES = [*FABRICS, *HOSTS, *SCALE_UP, *JOBS, *GRAPHS]

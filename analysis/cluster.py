"""What a cluster is made of, and what goes with each of its parts: as data, and as text for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick.analysis.amounts import gigabits, number_of, percent_text, text_or_dash
from ettrick.analysis.page.chapters.cluster import blasts
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.page.model import Section, grid
from ettrick.sim import FABRIC_PARTS, load_cluster, placement, shipped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ettrick.analysis.page.chapters.cluster import BlastRadiusRow
    from ettrick.analysis.page.model import TableBlock
    from ettrick.sim import ClusterSpec, Scenario, Topology

_REACH = {"leaf": "same leaf switches", "pod": "same pod", "cluster": "anywhere"}
_WIDTH = 120  # columns without a terminal [-]
_TIERS = ("node_leaf", "leaf_spine", "spine_core")


def describe(cluster: ClusterSpec) -> dict[str, Any]:
    """Return what there is to say about a cluster, ready for JSON.

    Returns
    -------
    dict
        Counts [-], bandwidths [B/s], shares [-], by name; ``when_one_fails`` has a row for each part class.
    """
    topology = cluster.build()
    fabric, counts = cluster.fabric, dict(topology.counts)
    pools = [
        {"nodes": pool.count, "gpus": pool.count * topology.gpus_per_node, "accelerator": str(pool.accelerator)}
        for pool in cluster.all_pools
    ]
    return {
        "name": topology.name,
        "gpus": counts["gpu"],
        "nodes": topology.nodes,
        "gpus_per_node": topology.gpus_per_node,
        "pools": pools,
        "fabric": {
            "use": fabric.use,
            "rails": topology.rails,
            "nic_bytes_per_s": fabric.nic,
            "cables_per_nic": fabric.homes,
            "reroute": fabric.reroute,
            "optical_tiers": [_TIERS[tier] for tier in topology.optical],
        },
        "scale_up": cluster.scale_up.model_dump() if cluster.scale_up is not None else None,
        "counts": counts,
        "domains": {name: _sizes(ids) for name, ids in topology.domains.items()},
        "bandwidth": {
            reach: {"bytes_per_s": rate, "of_nic": rate / fabric.nic} for reach, rate in topology.bandwidth.items()
        },
        "when_one_fails": {row.part: _failure(topology, row) for row in blasts(topology)},
    }


def _sizes(ids: Any) -> dict[str, int]:
    """Return how many domains there are, and the fewest and most nodes of one."""
    sizes = np.bincount(ids)
    return {"count": int(sizes.size), "nodes_min": int(sizes.min()), "nodes_max": int(sizes.max())}


def _failure(topology: Topology, row: BlastRadiusRow) -> dict[str, Any]:
    """Return what one failure of a unit of a part class does, alone: from the unit that does least to the worst."""
    # Where no node is left there is no bandwidth to speak of.
    left = None
    if row.least < topology.nodes:
        left = float(topology.paths.left(row.part).min()) if row.part in FABRIC_PARTS else 1.0
    return {
        "units": row.units,
        "nodes_crashed_min": row.least,
        "nodes_crashed_max": row.most,
        "bandwidth_left_min": left,
    }


def format_list() -> str:
    """Return a row for each topology that comes with the program."""
    rows = []
    for name, path in shipped("topologies").items():
        cluster = load_cluster(path)
        nodes, gpus = cluster.hosts
        title = path.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")
        rows.append((name, f"{nodes * gpus:,}", f"{nodes:,}", cluster.fabric.use, title))
    table = grid("", ("name", "GPUs", "nodes", "fabric", ""), rows, (0, 3, 4))
    return terminal.write([Section("topologies", "Topologies", (), (table,))])


def format_topology(content: dict[str, Any]) -> str:
    """Return the description of a cluster, from `describe`, as text for standard output."""
    parts = [
        (part, f"{row['units']:,}", _range(row, "nodes_crashed"), text_or_dash(row["bandwidth_left_min"], percent_text))
        for part, row in content["when_one_fails"].items()
    ]
    domains = [(name, f"{row['count']:,}", _range(row, "nodes")) for name, row in content["domains"].items()]
    speeds = [
        (_REACH[reach], gigabits(row["bytes_per_s"]), percent_text(row["of_nic"]), f"{1 / row['of_nic']:.3g} : 1")
        for reach, row in content["bandwidth"].items()
    ]
    heads = ("When one of these fails, alone", "units", "nodes that crash", "bandwidth left to the others")
    tables = (
        grid("", ("", ""), _rows(content)),
        grid("", heads, parts),
        grid("", ("Domains", "how many", "nodes of each"), domains),
        grid("", ("Bandwidth of a NIC when all send", "per direction", "of the NIC", "oversubscription"), speeds),
    )
    return terminal.write([Section("cluster", content["name"], (), tables)], otherwise=_WIDTH)


def _range(row: dict[str, Any], key: str) -> str:
    """Return the fewest and the most, as one number where they are the same."""
    least, most = row[f"{key}_min"], row[f"{key}_max"]
    return "none" if most == 0 else f"{most:,}" if least == most else f"{least:,}-{most:,}"


def _rows(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the cluster is, in lines with a label."""
    fabric, scale_up = content["fabric"], content["scale_up"]
    pools = [
        f"{pool['nodes']:,} nodes of {content['gpus_per_node']} {pool['accelerator']}" for pool in content["pools"]
    ]
    cables = fabric["cables_per_nic"]
    homes = "" if cables == 1 else f", each with {cables} cables"
    if fabric["use"] == "graph-file":
        homes += f"; access cables of each host in the file: {fabric['rails'] * cables}"
    domain = "each node is one"
    if scale_up is not None:
        nodes = content["domains"]["scale_up"]["nodes_max"]
        domain = f"{scale_up['gpus']} GPUs in {number_of(nodes, 'node')}"
        if scale_up["use"] not in (None, scale_up["gpus"]):
            domain += f", jobs use {scale_up['use']} of them"
        domain += f"; drained: {scale_up['drain_unit']}, swapped: {scale_up['swap_unit']}"
    lost = "its host crashes"
    if fabric["reroute"] != "none":
        lost = "its traffic takes the other rails of the host, through the scale-up links"
    return [
        ("hosts", f"{content['gpus']:,} GPUs: {' + '.join(pools)}"),
        ("scale-up domains", domain),
        (
            "fabric",
            f"{fabric['use']}, {number_of(fabric['rails'], 'rail')} of {gigabits(fabric['nic_bytes_per_s'])}{homes}",
        ),
        ("rail without a path", lost),
    ]


# Where each job of a scenario sits in the empty cluster: as data, and as text for the terminal.

_REACH_PLACEMENT = {
    "scale_up": "one scale-up domain",
    "leaf": "same leaf switches",
    "pod": "same pod",
    "cluster": "across pods",
}


def parts_named(texts: Sequence[str]) -> list[tuple[str, int]]:
    """Return part class and number of each unit that is named as ``spine:3``."""
    found = []
    for text in texts:
        part, colon, unit = text.partition(":")
        if not (colon and unit.isdecimal()):
            raise ValueError(f"{text}: must be a part and a number, such as spine:3")
        found.append((part, int(unit)))
    return found


def describe_jobs(scenario: Scenario, failed: Sequence[tuple[str, int]] = ()) -> dict[str, Any]:
    """Return how far the groups of each job reach, what they get, and what a lost node takes, ready for JSON.

    `failed` are parts of the fabric that are out: part class and number of the unit.

    Returns
    -------
    dict
        By name of the job; jobs without a layout have ``None``. Bandwidths are of one GPU and direction [B/s].
    """
    return {job.name: _describe(scenario, index, failed) for index, job in enumerate(scenario.jobs)}


def _describe(scenario: Scenario, index: int, failed: Sequence[tuple[str, int]]) -> dict[str, Any] | None:
    place = placement(scenario, index, failed)
    if place is None:
        return None
    layout = scenario.jobs[index].parallelism
    assert layout is not None
    groups = {
        kind: {
            "size": span.size,
            "groups": span.groups,
            "reaches": span.level,
            "ranks_per_domain": span.per_domain,
            "bytes_per_s": place.bandwidth.get(kind),
        }
        for kind, span in place.spans.items()
    }
    lost = {name: list(numbers) for name, numbers in place.loss._asdict().items() if numbers}
    return {
        "gpus": layout.gpus,
        "order": list(layout.order),
        "groups": groups,
        "first_node_takes": lost,
        "nodes_cut_off": place.cut_off,
        "nodes_a_domain_can_lose": place.mates,
        "gpus_stranded_then": place.stranded,
    }


def format_jobs(content: dict[str, Any]) -> str:
    """Return the placement of jobs as text for standard output."""
    lacking = ("has no parallelism: its layout is not known",)
    sections = [
        Section("job", name, lacking) if job is None else Section("job", name, (), _job_tables(job))
        for name, job in content.items()
    ]
    return terminal.write(sections, otherwise=_WIDTH)


def _job_tables(job: dict[str, Any]) -> tuple[TableBlock, ...]:
    words = {name.rstrip("s").replace("_", " "): len(units) for name, units in job["first_node_takes"].items()}
    lost = ", ".join(number_of(count, word) for word, count in words.items())
    rows = [("rank order", f"{', '.join(job['order'])} (neighbours first)"), ("a lost node takes", lost)]
    if job["nodes_cut_off"]:
        rows.append(("cut off", f"{number_of(job['nodes_cut_off'], 'node')}; bandwidths are those of the others"))
    if job["gpus_stranded_then"]:
        spare = job["nodes_a_domain_can_lose"]
        rows.append(
            ("a whole domain", f"can lose {spare} nodes; one more strands its {job['gpus_stranded_then']} healthy GPUs")
        )
    groups = [
        (kind, f"{row['size']:,}", f"{row['groups']:,}", _REACH_PLACEMENT[row["reaches"]],
         f"{row['ranks_per_domain']:,}", text_or_dash(row["bytes_per_s"], lambda rate: f"{rate / 1e9:,.4g} GB/s"))
        for kind, row in job["groups"].items()
    ]  # fmt: skip
    heads = ("Groups", "GPUs", "how many", "reaches", "GPUs of one domain", "bandwidth of a GPU")
    return grid("", ("", ""), rows), grid("", heads, groups, (0, 3))

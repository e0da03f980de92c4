"""What a cluster is made of, and what goes with each of its parts: as data, and as text for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick.analysis.amounts import empty_table, label_grid, number_of, percent_text
from ettrick.analysis.page.chapters.listing import terminal_width, wrapped
from ettrick.analysis.terminal import Page, console
from ettrick.sim import FABRIC_PARTS, load_cluster, placement, shipped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ettrick.sim import ClusterSpec, Scenario, Topology

_REACH = {"leaf": "same leaf switches", "pod": "same pod", "cluster": "anywhere"}
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
        "when_one_fails": {part: _failure(topology, part) for part, units in counts.items() if units},
    }


def _sizes(ids: Any) -> dict[str, int]:
    """Return how many domains there are, and the fewest and most nodes of one."""
    sizes = np.bincount(ids)
    return {"count": int(sizes.size), "nodes_min": int(sizes.min()), "nodes_max": int(sizes.max())}


def _failure(topology: Topology, part: str) -> dict[str, Any]:
    """Return what one failure of a unit of a part class does, alone: from the unit that does least to the worst."""
    crashed = np.diff(topology.members(part).offsets)
    # Where no node is left there is no bandwidth to speak of.
    left = None
    if crashed.min() < topology.nodes:
        left = float(topology.paths.left(part).min()) if part in FABRIC_PARTS else 1.0
    return {
        "units": topology.counts[part],
        "nodes_crashed_min": int(crashed.min()),
        "nodes_crashed_max": int(crashed.max()),
        "bandwidth_left_min": left,
    }


def format_list(width: int | None = None) -> str:
    """Return a line for each topology that comes with the program.

    Parameters
    ----------
    width
        Columns that lines are wrapped to; by default those of the terminal, and whole lines where there is none.
    """
    width = terminal_width() if width is None else width
    lines = [("name", "GPUs", "nodes", "fabric", "")]
    for name, path in shipped("topologies").items():
        cluster = load_cluster(path)
        nodes, gpus = cluster.hosts
        title = path.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")
        lines.append((name, f"{nodes * gpus:,}", f"{nodes:,}", cluster.fabric.use, title))
    wide = [max(len(line[column]) for line in lines) for column in range(4)]
    made: list[str] = []
    for name, gpus_text, nodes_text, fabric, title in lines:
        row = f"{name:{wide[0]}}  {gpus_text:>{wide[1]}}  {nodes_text:>{wide[2]}}  {fabric:{wide[3]}}  "
        made += wrapped(title, width, row, len(row)) if title else [row.rstrip()]
    return "\n".join(made)


def format_topology(content: dict[str, Any], *, width: int | None = None) -> str:
    """Return the description of a cluster as text for standard output.

    Parameters
    ----------
    content
        From `describe`.
    """
    page = Page()
    out = console(page, width=width)
    out.print(content["name"], style="bold")
    out.print(label_grid(_rows(content)))
    _print_parts(out, content)
    _print_domains(out, content)
    _print_bandwidth(out, content)
    return page.text()


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
            f"{fabric['use']}, {number_of(fabric['rails'], 'rail')} of {_gigabits(fabric['nic_bytes_per_s'])}{homes}",
        ),
        ("rail without a path", lost),
    ]


def _print_parts(out: Console, content: dict[str, Any]) -> None:
    table = empty_table("When one of these fails, alone", "units", "nodes that crash", "bandwidth left to the others")
    for part, row in content["when_one_fails"].items():
        least, most = row["nodes_crashed_min"], row["nodes_crashed_max"]
        crashed = "none" if most == 0 else f"{most:,}" if least == most else f"{least:,}-{most:,}"
        left = row["bandwidth_left_min"]
        table.add_row(part, f"{row['units']:,}", crashed, "-" if left is None else percent_text(left))
    out.print()
    out.print(table)


def _print_domains(out: Console, content: dict[str, Any]) -> None:
    table = empty_table("Domains", "how many", "nodes of each")
    for name, row in content["domains"].items():
        least, most = row["nodes_min"], row["nodes_max"]
        table.add_row(name, f"{row['count']:,}", f"{most:,}" if least == most else f"{least:,}-{most:,}")
    out.print()
    out.print(table)


def _print_bandwidth(out: Console, content: dict[str, Any]) -> None:
    table = empty_table("Bandwidth of a NIC when all send", "per direction", "of the NIC", "oversubscription")
    for reach, row in content["bandwidth"].items():
        rate = _gigabits(row["bytes_per_s"])
        table.add_row(_REACH[reach], rate, percent_text(row["of_nic"]), f"{1 / row['of_nic']:.3g} : 1")
    out.print()
    out.print(table)


def _gigabits(bandwidth: float) -> str:
    """Return a bandwidth [B/s] in the unit of data sheets."""
    return f"{bandwidth * 8 / 1e9:.4g} Gb/s"


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


def format_jobs(content: dict[str, Any], *, width: int | None = None) -> str:
    """Return the placement of jobs as text for standard output, `width` columns wide (that of the terminal)."""
    page = Page()
    out = console(page, width=width)
    for name, job in content.items():
        out.print(name, style="bold")
        if job is None:
            out.print("  has no parallelism: its layout is not known\n")
        else:
            _print_job(out, job)
    return page.text().rstrip()


def _print_job(out: Console, job: dict[str, Any]) -> None:
    lost = ", ".join(
        f"{len(numbers)} {word if len(numbers) == 1 else word + 's'}"
        for word, numbers in (
            (name.rstrip("s").replace("_", " "), each) for name, each in job["first_node_takes"].items()
        )
    )
    rows = [("rank order", f"{', '.join(job['order'])} (neighbours first)"), ("a lost node takes", lost)]
    if job["nodes_cut_off"]:
        rows.append(("cut off", f"{number_of(job['nodes_cut_off'], 'node')}; bandwidths are those of the others"))
    if job["gpus_stranded_then"]:
        spare = job["nodes_a_domain_can_lose"]
        rows.append(
            ("a whole domain", f"can lose {spare} nodes; one more strands its {job['gpus_stranded_then']} healthy GPUs")
        )
    out.print(label_grid(rows))
    if not job["groups"]:
        out.print()
        return
    table = empty_table("Groups", "GPUs", "how many", "reaches", "GPUs of one domain", "bandwidth of a GPU")
    for kind, row in job["groups"].items():
        rate = row["bytes_per_s"]
        speed = "-" if rate is None else f"{rate / 1e9:,.4g} GB/s"
        reach = _REACH_PLACEMENT[row["reaches"]]
        table.add_row(kind, f"{row['size']:,}", f"{row['groups']:,}", reach, f"{row['ranks_per_domain']:,}", speed)
    out.print()
    out.print(table)
    out.print()

"""The text of `ettrick topology`: topologies, the parts of a topology, and the places of jobs in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ettrick.analysis.amounts import gigabits, number_of, percent_text, text_or_dash
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.page.model import Section, grid
from ettrick.sim import load_cluster, shipped

if TYPE_CHECKING:
    from ettrick.analysis.page.model import TableBlock

_REACH = {"leaf": "same leaf switches", "pod": "same pod", "cluster": "anywhere"}
_WIDTH = 120  # columns without a terminal [-]


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
    heads = ("Single failure", "units", "nodes that crash", "bandwidth left to the others")
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


# Where each job of a scenario sits in the empty cluster.

_REACH_PLACEMENT = {
    "scale_up": "one scale-up domain",
    "leaf": "same leaf switches",
    "pod": "same pod",
    "cluster": "across pods",
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

"""Where each job of a scenario sits in the empty cluster: as data, and as text for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.cells import empty_table, label_grid, number_of
from analysis.console import Page, console
from sim import placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from sim import Scenario

__all__ = ["describe_jobs", "format_jobs", "parts_named"]

_REACH = {
    "scale_up": "one scale-up domain",
    "leaf": "same leaf switches",
    "pod": "same pod",
    "cluster": "across pods",
}


def parts_named(texts: Sequence[str]) -> list[tuple[str, int]]:
    """Return part class and number of each unit that is named as ``spine:3``.

    Raises
    ------
    ValueError
        If a text does not name one.
    """
    found = []
    for text in texts:
        part, colon, unit = text.partition(":")
        if not (colon and unit.isdecimal()):
            message = f"{text}: must be a part and a number, such as spine:3"
            raise ValueError(message)
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
    rows = [
        ("rank order", f"{', '.join(job['order'])} (neighbours first)"),
        ("a lost node takes", lost),
    ]
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
        reach = _REACH[row["reaches"]]
        table.add_row(kind, f"{row['size']:,}", f"{row['groups']:,}", reach, f"{row['ranks_per_domain']:,}", speed)
    out.print()
    out.print(table)
    out.print()

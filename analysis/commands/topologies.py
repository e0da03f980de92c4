"""Commands about clusters: ettrick topology ..."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from analysis.commands.options import ClusterArgument, ClusterSetOption, JsonOption, ScenarioArgument, SetOption
from analysis.commands.terminal import load_cluster, load_scenario, refuse, refuse_to_write, say, warn, write

__all__ = ["topology"]

topology = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Show, check, draw and export a cluster.")


@topology.command(name="list")
def list_topologies() -> None:
    """List the topologies that come with Ettrick."""
    from analysis.topology import format_list

    say(format_list())


@topology.command()
def show(cluster: ClusterArgument, set_: ClusterSetOption = None, as_json: JsonOption = False) -> None:
    """Show what a cluster is made of, and what goes with each of its parts."""
    described = load_cluster(cluster, set_)

    from analysis.topology import describe, format_topology

    content = describe(described)
    say(json.dumps(content, indent=2, ensure_ascii=False) if as_json else format_topology(content))


@topology.command()
def place(
    scenario: ScenarioArgument,
    set_: SetOption = None,
    failed: Annotated[
        list[str] | None,
        typer.Option(metavar="PART:UNIT", help="A part of the fabric that is out, such as spine:3. Repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show where the jobs of a scenario sit, what bandwidth their groups get, and what a lost node takes."""
    described = load_scenario(scenario, set_, None)

    import sim
    from analysis.placement import describe_jobs, format_jobs, parts_named

    try:
        content = describe_jobs(described, parts_named(failed or ()))
    except ValueError as error:
        refuse(f"--failed {error}")
    warn(sim.examine(described).warnings)
    say(json.dumps(content, indent=2) if as_json else format_jobs(content))


@topology.command(name="check")
def check_topology(cluster: ClusterArgument, set_: ClusterSetOption = None) -> None:
    """Check a topology file."""
    described = load_cluster(cluster, set_)
    nodes, gpus = described.hosts
    say(f"{cluster}: a valid topology, '{described.name}': {nodes * gpus:,} GPUs in {nodes:,} nodes")


@topology.command()
def plot(
    cluster: ClusterArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture: a file that ends in .svg, .png or .pdf.")],
    set_: ClusterSetOption = None,
) -> None:
    """Draw a cluster: every part of a small one, the tiers of a large one."""
    from analysis import plots

    if out.suffix.lower() not in plots.SUFFIXES:
        refuse(f"--out {out}: must end in {', '.join(plots.SUFFIXES[:-1])} or {plots.SUFFIXES[-1]}")
    refuse_to_write(out)
    described = load_cluster(cluster, set_)
    write(out, plots.render(plots.draw_topology(described.build()), out.suffix.lower()))


@topology.command()
def export(
    cluster: ClusterArgument,
    format_: Annotated[Literal["graphml", "json"], typer.Option("--format", help="How the graph is written.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file; omitted: standard output.")] = None,
    set_: ClusterSetOption = None,
) -> None:
    """Write a cluster as a graph of hosts, switches and cables."""
    if out is not None:
        refuse_to_write(out)
    described = load_cluster(cluster, set_)

    from sim.topology import GRAPH_FORMATS

    text = GRAPH_FORMATS[format_](described.build())
    if out is None:
        say(text.rstrip("\n"))
    else:
        write(out, text.encode())

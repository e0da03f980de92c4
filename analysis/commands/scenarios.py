"""The command that compares scenarios: ettrick compare."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ettrick.analysis.commands import options
from ettrick.analysis.commands.terminal import (
    OutputFolder,
    changes,
    command_line,
    end,
    in_a_line,
    load_cluster,
    load_scenario,
    mistakes_in_lines,
    refuse,
    refuse_to_write,
    say,
    warn,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ettrick.analysis.contest.compare import Variant
    from ettrick.analysis.contest.variants import Loaded, Recipe
    from ettrick.analysis.results.ensemble import Ensemble
    from ettrick.analysis.results.models import RunDocument
    from ettrick.sim import Prepared, Scenario

# The command that simulates a scenario: ettrick run.


def run(
    scenario: options.ScenarioArgument,
    set_: options.SetOption = None,
    seed: options.SeedOption = None,
    replications: Annotated[
        int | None,
        typer.Option(
            "--replications",
            "-n",
            metavar="N",
            help="How many; 32, 8 of streams and services, 1 where nothing is random.",
            min=1,
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(metavar="WIDTH", help="Replicate until the 95 % interval's half-width is this: 0.1pt or 2%."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The metric that --precision is about; ettr, or slo_attainment of services."),
    ] = None,
    band: Annotated[
        int,
        typer.Option(
            metavar="N", help="Draws of the failure rates from their uncertainty, for band90; 0 for none.", min=0
        ),
    ] = 0,
    jobs: options.ProcessesOption = 0,
    engine: options.EngineOption = None,
    as_json: options.JsonOption = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Write the resolved scenario and the JSON to this folder."),
    ] = None,
    node_log: Annotated[
        bool, typer.Option("--node-log", help="With --out: also write when each node was down, to nodes.csv.")
    ] = False,
    measured: Annotated[
        Path | None,
        typer.Option("--measured", metavar="FILE", help="CSV of weeks as for track: shares beside the simulated ones."),
    ] = None,
    overwrite: options.OverwriteOption = False,
    yes: options.YesOption = False,
    quiet: options.QuietOption = False,
    tables: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="With --out, of streams: also write tidy tables, such as metrics,ledger."),
    ] = None,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Leave out rows of a job trace that cannot be used, and count them.")
    ] = False,
) -> None:
    """Simulate a scenario: where every GPU-hour goes."""
    shares = _measured(measured) if measured is not None else {}
    if 0 < band < 20:
        refuse("--band: needs at least 20 draws, or the band's ends are its extremes")
    if node_log and out is None:
        refuse("--node-log: needs --out, the folder to write nodes.csv to")
    named = _tables(tables, out)
    described = load_scenario(scenario, set_, seed, engine=engine, skip_bad_rows=skip_bad_rows)
    if named and not described.streams:
        refuse("--tables: tidy tables are of streams of jobs, and the scenario has none")

    from ettrick import sim
    from ettrick.analysis.contest import runs
    from ettrick.analysis.contest.precision import Precision, ReplicationsError
    from ettrick.analysis.page.chapters.run import format_run
    from ettrick.analysis.results import files as reasons
    from ettrick.analysis.results.fleet import OF_SINGLE_JOBS, TABLES
    from ettrick.analysis.results.run import document, render
    from ettrick.analysis.terminal import ProgressBar

    is_quiet = quiet or as_json
    most = math.inf if yes else sim.MOST_EVENTS
    bands = None
    with in_a_line(ReplicationsError, sim.WorkError, sim.EngineError):
        prepared = sim.prepare(described)
        replications = replications or runs.replications_of(prepared)
        keep = _keeping(described, out, None if precision else replications, overwrite=overwrite)
        warn(prepared.warnings)
        wanted = Precision.parse(precision) if precision is not None else None
        with ProgressBar("replications", quiet=is_quiet) as progress:
            found = runs.replicate(
                prepared,
                replications,
                precision=wanted,
                metric=metric,
                processes=jobs,
                progress=progress,
                keeps_log=node_log or not OF_SINGLE_JOBS.isdisjoint(named),
                most_events=most,
            )
        if band:
            with ProgressBar("draws of rates", quiet=is_quiet) as progress:
                bands = runs.band(found, band, processes=jobs, progress=progress, most_events=most)
    content = document(found, command=command_line(), bands=bands)
    if shares:
        content = content.model_copy(update={"measured": shares})
    text = render(content)
    shown = text if as_json else format_run(content, prepared)
    if shares and not as_json:
        from ettrick.analysis.page.chapters.track import beside
        from ettrick.analysis.page.formats import terminal

        shown += "\n\n" + terminal.write([beside(shares, content.time_shares)])
    stale = ["nodes.csv", *(f"{name}.csv" for name in TABLES)]
    keep.write(text, _beside(described, found, content, has_log=node_log, tables=named), shown, stale)
    end(reasons.against_run(content.per_job, content.replications, precision, precise=found.precise))


def _tables(names: str | None, out: Path | None) -> list[str]:
    """Return the names of tidy tables, or end with one line about one that is none."""
    if names is None:
        return []
    from ettrick.analysis.results.fleet import TABLES
    from ettrick.sim.yamlfile import suggest

    if out is None:
        refuse("--tables: needs --out, the folder to write them to")
    found = [name.strip() for name in names.split(",")]
    for name in found:
        if name not in TABLES:
            refuse(f"--tables {names}: '{name}' is no table{suggest(name, TABLES)}")
    return found


def _measured(file: Path) -> dict[str, float]:
    """Return the measured shares of a file of weeks, or end with one line about it."""
    from ettrick.analysis.logs import weeks
    from ettrick.sim.records import LogError

    with in_a_line(LogError, before="--measured "):
        found = weeks.mean_shares(weeks.rows_of(file))
    return found or refuse(f"--measured {file}: has no share of a bucket, such as a column 'productive'")


def _keeping(described: Scenario, out: Path | None, replications: int | None, *, overwrite: bool) -> OutputFolder:
    """Return where results go, or end with one line if the folder holds those of another scenario, or of more."""
    from ettrick.analysis.results.run import scenario_digest

    keep = OutputFolder(out, "run.json", overwrite=overwrite)
    keep.refuse_others(
        lambda found: found["provenance"]["scenario_sha256"] == scenario_digest(described),
        lambda found: found["replications"],
        replications,
    )
    return keep


def _beside(
    described: Scenario, found: Ensemble, content: RunDocument, *, has_log: bool, tables: Sequence[str]
) -> dict[str, str]:
    """Return the files that lie beside the document."""
    from ettrick.analysis.results.files import log_csv
    from ettrick.analysis.results.fleet import table_csv
    from ettrick.sim import dump

    files = {"scenario.resolved.yaml": dump(described.dump())}
    if has_log:
        files["nodes.csv"] = log_csv(found.results, [source.name for source in found.prepared.sources])
    files |= {f"{name}.csv": table_csv(name, found, content) for name in tables}
    return files


def compare(
    scenarios: options.ScenariosArgument,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=A,B,...",
            help="Make a variant of each value, e.g. spares.hot=0,4,16. Repeatable: all combinations.",
        ),
    ] = None,
    set_: options.SetOption = None,
    seed: options.SeedOption = None,
    replications: Annotated[
        int, typer.Option("--replications", "-n", metavar="N", help="How many replications of each variant.", min=1)
    ] = 32,
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="WIDTH",
            help="Replicate until the half-width of each difference's 95 % interval is this: 0.1pt or 2%.",
        ),
    ] = None,
    at_equal: Annotated[
        Literal["gpus", "power", "cost"] | None,
        typer.Option(help="Compare unlike clusters by what they make of a GPU, of a megawatt, or of money."),
    ] = None,
    split: Annotated[
        bool,
        typer.Option("--split", help="Also run the variants without the checkpoint stores that recovery presets add."),
    ] = False,
    jobs: options.ProcessesOption = 0,
    as_json: options.JsonOption = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Write the resolved scenarios and the JSON to this folder."),
    ] = None,
    overwrite: options.OverwriteOption = False,
    yes: options.YesOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Compare variants on the same failures."""
    from ettrick.analysis.contest import variants
    from ettrick.analysis.contest.compare import compare as compare_variants
    from ettrick.analysis.contest.precision import Precision, ReplicationsError
    from ettrick.analysis.page.chapters import compare as compare_text
    from ettrick.analysis.results import files
    from ettrick.analysis.results.run import render
    from ettrick.analysis.terminal import ProgressBar
    from ettrick.sim import MOST_EVENTS, EngineError, WorkError

    keep = OutputFolder(out, "compare.json", overwrite=overwrite)
    with in_a_line(ReplicationsError, WorkError, EngineError):
        wanted = Precision.parse(precision) if precision is not None else None
        asked = None if precision else replications
        wishes = variants.recipes(scenarios, vary or [], changes(set_, seed))
        loaded, ready = _ready(wishes, keep, asked, split_stores=split)
        with ProgressBar("replications", quiet=quiet or as_json) as progress:
            found = compare_variants(
                ready,
                replications,
                precision=wanted,
                at_equal=at_equal,
                processes=jobs,
                progress=progress,
                most_events=math.inf if yes else MOST_EVENTS,
            )
    content = variants.document_of(found, wishes, loaded, command=command_line())
    text = render(content)
    shown = text if as_json else compare_text.format_comparison(content)
    keep.write(text, variants.resolved_files(loaded.scenarios), shown, ["variant-*.resolved.yaml"])
    end(files.against_comparison(content, precision))


def _ready(
    wishes: Sequence[Recipe], keep: OutputFolder, asked: int | None, *, split_stores: bool
) -> tuple[Loaded, list[Variant]]:
    """Return the variants, and those of them that can be run; or end if none can, or the folder holds others."""
    from ettrick.analysis.contest import variants

    with mistakes_in_lines():
        loaded = variants.load_variants(wishes, split_stores=split_stores)
    _refuse_others(keep, loaded.scenarios, asked)
    ready = variants.prepared(loaded)
    if not ready:
        end([f"{name}: cannot run: {line}" for name, line in loaded.cannot_run.items()])
    warn([f"left out: {line}" for line in loaded.reasons])
    warn(variants.warnings(ready))
    return loaded, ready


def _refuse_others(keep: OutputFolder, scenarios: Mapping[str, Scenario], asked: int | None) -> None:
    """End with one line if the folder holds a comparison of other scenarios, or of more replications."""
    from ettrick.analysis.results.run import scenario_digest

    mine = {name: scenario_digest(scenario) for name, scenario in scenarios.items()}
    keep.refuse_others(
        lambda found: {name: row["scenario_sha256"] for name, row in found["variants"].items()} == mine,
        lambda found: found["replications"],
        asked,
    )


# The command that shows what a scenario rests on: ettrick explain.


def explain(
    scenario: options.ScenarioArgument,
    set_: options.SetOption = None,
    seed: options.SeedOption = None,
    worth: Annotated[
        bool, typer.Option("--worth", help="What each cause removed, and each knob better by a tenth, is worth.")
    ] = False,
    replications: Annotated[
        int | None,
        typer.Option(
            "--replications",
            "-n",
            metavar="N",
            help="How many replications stand beside the closed form; 8 by default, 0 for none. With --worth: of each "
            "change, 16 by default, 8 at least.",
            min=0,
        ),
    ] = None,
    jobs: options.ProcessesOption = 0,
    as_json: options.JsonOption = False,
    yes: options.YesOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Show what a scenario rests on: step, recovery, closed form.

    Every number stands with where it comes from.
    """
    from ettrick import sim

    most = math.inf if yes else sim.MOST_EVENTS
    if worth:
        described = load_scenario(scenario, set_, seed)
        if not described.jobs:
            refuse("--worth: is about named jobs, and there are none; for streams and services: ettrick compare --vary")
        _explain_worth(described, replications, jobs, most, as_json=as_json, quiet=quiet or as_json)
        return
    described = load_scenario(scenario, set_, seed, must_fit=False)

    from ettrick.analysis.contest.runs import replicate
    from ettrick.analysis.explain.explain import describe
    from ettrick.analysis.page.chapters.cluster import format_explanation
    from ettrick.analysis.results.run import render
    from ettrick.analysis.terminal import ProgressBar

    prepared = sim.examine(described)
    warn(prepared.warnings)
    count = 8 if replications is None else replications
    too_large = _too_large(prepared)
    simulated = None
    if count and too_large is None and not described.services:
        with in_a_line(sim.WorkError), ProgressBar("replications", quiet=quiet or as_json) as progress:
            simulated = replicate(sim.prepare(described), count, processes=jobs, progress=progress, most_events=most)
    with in_a_line(sim.RequestError):
        content = describe(prepared, simulated, command=command_line())
    say(render(content) if as_json else format_explanation(content))
    end([] if too_large is None else [too_large])


def _too_large(prepared: Prepared) -> str | None:
    """Return why a job does not fit into the memory of its accelerators, if it does not."""
    from ettrick import sim

    try:
        sim.check_memory(prepared)
    except sim.PathError as error:
        return error.rule
    return None


def _explain_worth(
    described: Scenario, replications: int | None, jobs: int, most_events: float, *, as_json: bool, quiet: bool
) -> None:
    """Print what each cause and each knob of a scenario is worth."""
    from ettrick import sim
    from ettrick.analysis.contest.worth import worth
    from ettrick.analysis.page.chapters.sensitivity import format_worth
    from ettrick.analysis.results.run import render
    from ettrick.analysis.terminal import ProgressBar

    count = 16 if replications is None else replications
    if count < 8:
        refuse(f"--replications {count}: --worth needs at least 8, or noise could not be separated from worth")
    with in_a_line(sim.WorkError), ProgressBar("replications", quiet=quiet) as progress:
        content = worth(
            described,
            count,
            command=command_line(),
            processes=jobs,
            progress=progress,
            most_events=most_events,
        )
    warn(content.warnings)
    say(render(content) if as_json else format_worth(content))


# The command that lists the kernels of a step: ettrick kernels.


def kernels(
    scenario: options.ScenarioArgument,
    set_: options.SetOption = None,
    job: Annotated[str | None, typer.Option(metavar="NAME", help="Which job; without it, the first.")] = None,
    top: Annotated[
        int | None, typer.Option(metavar="N", help="How many to show; without it, all. Others are added up.", min=1)
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the shapes as test cases to this file.")
    ] = None,
    measured: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Measured times, in the columns of --csv. Twice: the second file against the first."
        ),
    ] = None,
    threshold: Annotated[
        float, typer.Option(metavar="SHARE", help="Change between two files that counts at least.", min=0.0)
    ] = 0.05,
    noise: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="Relative standard deviation of a measurement, if none is repeated.", min=0.0
        ),
    ] = 0.02,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="A page (.html), or the roofline (.svg, .png, .pdf)."),
    ] = None,
    overwrite: options.ReplaceOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """List the kernels of a step and their bounds.

    The exit status is 1 if a kernel of the second measured file is slower than in the first.
    """
    from ettrick.analysis.page import charts

    endings = (".html", *charts.SUFFIXES)
    if out is not None and out.suffix.lower() not in endings:
        refuse(f"--out {out}: must end in {', '.join(endings[:-1])} or {endings[-1]}")
    files = measured or []
    if len(files) > 2:
        refuse(f"--measured: {len(files)} files; give one, or two to compare")
    for path, option in ((csv, "--csv"), (out, "--out")):
        if path is not None:
            refuse_to_write(path, option, overwrite=overwrite)
    described = load_scenario(scenario, set_, None, must_fit=False)

    from ettrick import sim
    from ettrick.analysis.explain.kernels import MeasuredError, describe_kernels, regressions, shapes_csv
    from ettrick.analysis.page.chapters import kernels as pages
    from ettrick.analysis.results.run import render

    prepared = sim.examine(described)
    warn(prepared.warnings)
    try:
        content, rows = describe_kernels(prepared, job, files, threshold, noise)
    except MeasuredError as error:
        refuse(f"--measured {error}")
    except ValueError as error:
        refuse(f"{scenario}: {error}")
    if csv is not None:
        write(csv, shapes_csv(rows).encode(), "--csv")
    if out is not None and out.suffix.lower() == ".html":
        from ettrick.analysis.page.formats import html

        write(out, html.write(pages.report(content, command_line())))
    elif out is not None:
        write(out, charts.render(charts.draw(pages.roofline(content)), out.suffix.lower()))
    say(render(content) if as_json else pages.format_kernels(content, top))
    end(regressions(content))


# The command that writes a first scenario: ettrick init.


def _of_catalog(table: Literal["accelerators", "models", "bundles", "recoveries"], metavar: str = "NAME") -> Any:
    return typer.Option(
        metavar=metavar, help="A name from ettrick list.", autocompletion=options.complete_catalog(table)
    )


_NOT_BESIDE_SLURM = {"gpus": "the nodes of slurm.conf say how many there are", "model": "its jobs are streams"}
"""Options of a starter that a cluster of Slurm does not need, with the reason."""


def _is_stated(context: typer.Context, option: str) -> bool:
    """Return whether an option was given, rather than left at its default."""
    source = context.get_parameter_source(option)
    return source is not None and source.name != "DEFAULT"


def init(
    context: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The file; without it, starter.yaml or what --name says.")
    ] = None,
    gpus: Annotated[
        int, typer.Option(metavar="N", help="GPUs of the job: whole nodes, or 64 for each NVL72 rack.", min=1)
    ] = 1024,
    accelerator: Annotated[str, _of_catalog("accelerators")] = "h100",
    model: Annotated[str, _of_catalog("models")] = "llama3-70b",
    failures: Annotated[str, _of_catalog("bundles", "BUNDLE")] = "llama3-table5",
    recovery: Annotated[str, _of_catalog("recoveries", "PRESET")] = "slurm-requeue",
    horizon: Annotated[str, typer.Option(metavar="TIME", help="How long is simulated.")] = "30 d",
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the scenario; without it, that of the file.")
    ] = None,
    slurm_conf: Annotated[
        Path | None,
        typer.Option("--slurm-conf", metavar="FILE", help="Take nodes, partitions and scheduler from a slurm.conf."),
    ] = None,
    topology_conf: Annotated[
        Path | None, typer.Option("--topology-conf", metavar="FILE", help="And the leaf switches from a topology.conf.")
    ] = None,
    overwrite: options.ReplaceOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Write a first scenario, with a comment on every value."""
    target = path or Path(f"{name or 'starter'}.yaml")
    if target.suffix.lower() not in (".yaml", ".yml"):
        refuse(f"{target}: must end in .yaml or .yml")
    if name is not None and not name.strip():
        refuse("--name: must not be empty")
    refuse_to_write(target, "", overwrite=overwrite)
    if topology_conf is not None and slurm_conf is None:
        refuse("--topology-conf: needs --slurm-conf")
    if slurm_conf is not None:
        from ettrick.analysis.logs.slurm_conf import SlurmError, scenario

        for option, reason in _NOT_BESIDE_SLURM.items():
            if _is_stated(context, option):
                refuse(f"--{option}: has no effect beside --slurm-conf: {reason}")
        stated = accelerator if _is_stated(context, "accelerator") else ""
        with mistakes_in_lines(), in_a_line(SlurmError):
            text, site = scenario(slurm_conf, topology_conf, stated, name or target.stem, failures, recovery, horizon)
        write(target, text.encode(), "")
        say("\n".join(f"open: {text}" for text in site.assumed))
        size = f"{len(site.nodes):,} nodes of {site.cluster['gpus_per_node']} GPUs"
        say(f"{target}: the cluster of {slurm_conf}, {size}; next: ettrick run {target}")
        return

    from ettrick.analysis.commands.starter import InitOptions, StarterError, starter
    from ettrick.analysis.terminal import ProgressBar

    wishes = InitOptions(name or target.stem, gpus, accelerator, model, failures, recovery, horizon)
    with in_a_line(StarterError), ProgressBar("layouts", quiet=quiet) as progress:
        text = starter(wishes, command_line(), progress)
    write(target, text.encode(), "")
    say(f"{target}: {gpus:,} {accelerator}, {model}, {failures}, {recovery}; next: ettrick run {target}")


# Commands about clusters: ettrick topology ...

topology = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Show, check, draw and export a cluster.")


@topology.command(name="list")
def list_topologies() -> None:
    """List the topologies that come with Ettrick."""
    from ettrick.analysis.page.chapters.topology import format_list

    say(format_list())


@topology.command()
def show(
    cluster: options.ClusterArgument, set_: options.ClusterSetOption = None, as_json: options.JsonOption = False
) -> None:
    """Show what a cluster is made of, and what each part takes."""
    described = load_cluster(cluster, set_)

    from ettrick.analysis.explain.cluster import describe
    from ettrick.analysis.page.chapters.topology import format_topology

    content = describe(described)
    say(json.dumps(content, indent=2, ensure_ascii=False) if as_json else format_topology(content))


@topology.command()
def place(
    scenario: options.ScenarioArgument,
    set_: options.SetOption = None,
    failed: Annotated[
        list[str] | None,
        typer.Option(metavar="PART:UNIT", help="A part of the fabric that is out, such as spine:3. Repeatable."),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show where jobs are placed, and the bandwidth they get.

    Also what a lost node takes of it.
    """
    described = load_scenario(scenario, set_, None)

    from ettrick import sim
    from ettrick.analysis.explain.cluster import describe_jobs, parts_named
    from ettrick.analysis.page.chapters.topology import format_jobs

    with in_a_line(ValueError, before="--failed "):
        content = describe_jobs(described, parts_named(failed or ()))
    warn(sim.examine(described).warnings)
    say(json.dumps(content, indent=2) if as_json else format_jobs(content))


@topology.command(name="check")
def check_topology(cluster: options.ClusterArgument, set_: options.ClusterSetOption = None) -> None:
    """Check a topology file."""
    from ettrick.analysis.terminal import visible

    described = load_cluster(cluster, set_)
    nodes, gpus = described.hosts
    say(visible(f"{cluster}: a valid topology, '{described.name}': {nodes * gpus:,} GPUs in {nodes:,} nodes"))


@topology.command()
def plot(
    cluster: options.ClusterArgument,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The picture: a file that ends in .svg, .png or .pdf.")
    ],
    set_: options.ClusterSetOption = None,
    overwrite: options.ReplaceOption = False,
) -> None:
    """Draw a cluster: its parts, or its tiers if it is large."""
    from ettrick.analysis.page import charts

    if out.suffix.lower() not in charts.SUFFIXES:
        refuse(f"--out {out}: must end in {', '.join(charts.SUFFIXES[:-1])} or {charts.SUFFIXES[-1]}")
    refuse_to_write(out, overwrite=overwrite)
    described = load_cluster(cluster, set_)
    write(out, charts.render(charts.draw(described.build()), out.suffix.lower()))


@topology.command()
def export(
    cluster: options.ClusterArgument,
    format_: Annotated[Literal["graphml", "json"], typer.Option("--format", help="How the graph is written.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="A file; omitted: standard output.")
    ] = None,
    set_: options.ClusterSetOption = None,
    overwrite: options.ReplaceOption = False,
) -> None:
    """Write a cluster as a graph of hosts, switches and cables."""
    if out is not None:
        refuse_to_write(out, overwrite=overwrite)
    described = load_cluster(cluster, set_)

    from ettrick.sim.cluster import GRAPH_FORMATS

    text = GRAPH_FORMATS[format_](described.build())
    if out is None:
        say(text.rstrip("\n"))
    else:
        write(out, text.encode())

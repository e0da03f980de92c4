"""The command that compares scenarios: ettrick compare."""

from __future__ import annotations

import contextlib
import functools
import json
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
    most_events,
    precision_of,
    refuse,
    refuse_to_write,
    say,
    warn,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ettrick.analysis.commands.starter import InitOptions
    from ettrick.analysis.contest.compare import Variant
    from ettrick.analysis.contest.variants import Loaded, Recipe
    from ettrick.analysis.results.ensemble import Ensemble
    from ettrick.analysis.results.explained import KernelsDocument
    from ettrick.analysis.results.models import RunDocument
    from ettrick.sim import Prepared, Scenario

# The command that simulates a scenario: ettrick run.


def run(
    scenario: options.ScenarioArgument, set_: options.SetOption = None, seed: options.SeedOption = None,
    replications: options.RunReplicationsOption = None, precision: options.RunPrecisionOption = None,
    metric: options.RunMetricOption = None, band: options.BandOption = 0, jobs: options.ProcessesOption = 0,
    engine: options.EngineOption = None, full: options.FullOption = False, as_json: options.JsonOption = False,
    out: options.RunOutOption = None, node_log: options.NodeLogOption = False, measured: options.SharesOption = None,
    overwrite: options.OverwriteOption = False, yes: options.YesOption = False, quiet: options.QuietOption = False,
    tables: options.TablesOption = None, skip_bad_rows: options.SkipBadRowsOption = False,
) -> None:  # fmt: skip
    """Simulate a scenario and show where every GPU-hour goes."""
    shares = _measured(measured) if measured is not None else {}
    if 0 < band < 20:
        refuse("--band: needs at least 20 draws; with fewer, the ends of the band are its extremes")
    if node_log and out is None:
        refuse("--node-log: needs --out, the folder to write nodes.csv to")
    named = _tables(tables, out)
    described = load_scenario(scenario, set_, seed, engine=engine, skip_bad_rows=skip_bad_rows)
    if named and not described.streams:
        refuse("--tables: only streams of jobs have tidy tables, and the scenario has none")

    from ettrick.analysis.results import files as reasons
    from ettrick.analysis.results.fleet import TABLES
    from ettrick.analysis.results.run import document

    with _contest_errors_in_a_line():
        prepared, replications = _prepared(described, replications)
        keep = _keeping(described, out, None if precision else replications, overwrite=overwrite)
        warn(prepared.warnings)
        ensemble, bands = _simulated(
            prepared, replications, precision, metric=metric, draws=band, processes=jobs, has_log=node_log,
            tables=named, yes=yes, quiet=quiet or as_json,
        )  # fmt: skip
    content = document(ensemble, command=command_line(), bands=bands)
    content = content.model_copy(update={"measured": shares} if shares else {})
    beside = _beside(described, ensemble, content, has_log=node_log, tables=named)
    stale = ["nodes.csv", *(f"{name}.csv" for name in TABLES)]
    text_of = functools.partial(_run_text, prepared=prepared, full=full, name=scenario)
    keep.write(content, text_of, beside, stale, as_json=as_json)
    end(reasons.against_run(content.per_job, content.replications, precision, precise=ensemble.precise))


@contextlib.contextmanager
def _contest_errors_in_a_line() -> Iterator[None]:
    """End with one line about what is wrong with replications, a precision, or an engine."""
    from ettrick.analysis.contest.precision import ReplicationsError
    from ettrick.sim import EngineError, WorkError

    with in_a_line(ReplicationsError, WorkError, EngineError):
        yield


def _prepared(described: Scenario, replications: int | None) -> tuple[Prepared, int]:
    """Return a scenario ready to run, and how many replications it gets."""
    from ettrick import sim
    from ettrick.analysis.contest.runs import replications_of

    prepared = sim.prepare(described)
    return prepared, replications or replications_of(prepared)


def _simulated(
    prepared: Prepared, replications: int, precision: str | None, *, metric: str | None, draws: int, processes: int,
    has_log: bool, tables: Sequence[str], yes: bool, quiet: bool,
) -> tuple[Ensemble, dict[str, tuple[float, float] | None] | None]:  # fmt: skip
    """Return the replications of a scenario, and the bands of draws of its failure rates, if any are asked for."""
    from ettrick.analysis.contest import runs
    from ettrick.analysis.results.fleet import OF_SINGLE_JOBS
    from ettrick.analysis.terminal import ProgressBar

    effort: dict[str, Any] = {"processes": processes, "most_events": most_events(yes=yes)}
    wanted = precision_of(precision)
    _compile_loop([prepared], runs.first_replications([prepared], replications, wanted), quiet=quiet)
    keeps_log = has_log or not OF_SINGLE_JOBS.isdisjoint(tables)
    with ProgressBar("replications", quiet=quiet) as progress:
        ensemble = runs.replicate(
            prepared, replications, precision=wanted, metric=metric, progress=progress, keeps_log=keeps_log, **effort
        )
    if not draws:
        return ensemble, None
    with ProgressBar("draws of rates", quiet=quiet) as progress:
        return ensemble, runs.band(ensemble, draws, progress=progress, **effort)


def _compile_loop(variants: Sequence[Prepared], replications: int, *, quiet: bool) -> None:
    """Compile the simulation loop if it is not yet, behind a bar of its own, where one of the variants is for it."""
    from ettrick import sim
    from ettrick.analysis.terminal import ProgressBar

    if not sim.is_cached():
        with ProgressBar("functions compiled, once for this version", quiet=quiet) as progress:
            for prepared in variants:
                sim.with_engine(prepared, replications, progress)


def _run_text(content: RunDocument, prepared: Prepared, *, full: bool, name: str) -> str:
    """Return a run in words, with the measured shares compared with the simulated ones if there are any."""
    from ettrick.analysis.page.chapters.run import format_run

    text = format_run(content, prepared, full=full, name=name)
    if not content.measured:
        return text
    from ettrick.analysis.page.chapters.track import beside
    from ettrick.analysis.page.formats import terminal

    return f"{text}\n\n{terminal.write([beside(content.measured, content.time_shares)])}"


def _tables(names: str | None, out: Path | None) -> list[str]:
    """Return the names of tidy tables, or end with one line about one that is none."""
    if names is None:
        return []
    from ettrick.analysis.results.fleet import TABLES
    from ettrick.sim.yamlfile import suggest

    if out is None:
        refuse("--tables: needs --out, the folder to write them to")
    chosen = [name.strip() for name in names.split(",")]
    for name in chosen:
        if name not in TABLES:
            refuse(f"--tables: unknown table '{name}'{suggest(name, TABLES)}")
    return chosen


def _measured(file: Path) -> dict[str, float]:
    """Return the measured shares of a file of weeks, or end with one line about it."""
    from ettrick.analysis.logs import weeks
    from ettrick.sim.records import LogError

    with in_a_line(LogError, before="--measured "):
        shares = weeks.mean_shares(weeks.rows_of(file))
    return shares or refuse(f"--measured {file}: has no column with the share of a bucket, such as 'productive'")


def _keeping(described: Scenario, out: Path | None, replications: int | None, *, overwrite: bool) -> OutputFolder:
    """Return where results go, or end with one line if the folder holds those of another scenario, or of more."""
    from ettrick.analysis.results.run import scenario_digest

    keep = OutputFolder(out, "run.json", overwrite=overwrite)
    keep.refuse_others(
        lambda document: document["provenance"]["scenario_sha256"] == scenario_digest(described),
        lambda document: document["replications"],
        replications,
    )
    return keep


def _beside(
    described: Scenario, ensemble: Ensemble, content: RunDocument, *, has_log: bool, tables: Sequence[str]
) -> dict[str, str]:
    """Return the files that lie next to the document."""
    from ettrick.analysis.results.files import log_csv
    from ettrick.analysis.results.fleet import table_csv
    from ettrick.sim import dump

    files = {"scenario.resolved.yaml": dump(described.dump())}
    if has_log:
        files["nodes.csv"] = log_csv(ensemble.results, [source.name for source in ensemble.prepared.sources])
    files |= {f"{name}.csv": table_csv(name, ensemble, content) for name in tables}
    return files


def compare(
    scenarios: options.ScenariosArgument, vary: options.VaryOption = None, set_: options.SetOption = None,
    seed: options.SeedOption = None, replications: options.VariantReplicationsOption = 32,
    precision: options.DifferencePrecisionOption = None, at_equal: options.AtEqualOption = None,
    split: options.SplitOption = False, jobs: options.ProcessesOption = 0, as_json: options.JsonOption = False,
    out: options.CompareOutOption = None, overwrite: options.OverwriteOption = False,
    yes: options.YesOption = False, quiet: options.QuietOption = False,
) -> None:  # fmt: skip
    """Compare variants of a scenario on the same failures."""
    from ettrick.analysis.contest import variants
    from ettrick.analysis.contest.compare import compare as compare_variants
    from ettrick.analysis.contest.runs import first_replications
    from ettrick.analysis.page.chapters import compare as compare_text
    from ettrick.analysis.results import files
    from ettrick.analysis.terminal import ProgressBar

    keep = OutputFolder(out, "compare.json", overwrite=overwrite)
    with _contest_errors_in_a_line():
        wanted = precision_of(precision)
        wishes = variants.recipes(scenarios, vary or [], changes(set_, seed))
        loaded, ready = _ready(wishes, keep, None if precision else replications, split_stores=split)
        prepared = [variant.prepared for variant in ready]
        _compile_loop(prepared, first_replications(prepared, replications, wanted), quiet=quiet or as_json)
        with ProgressBar("replications", quiet=quiet or as_json) as progress:
            comparison = compare_variants(
                ready, replications, precision=wanted, at_equal=at_equal, processes=jobs, progress=progress,
                most_events=most_events(yes=yes),
            )  # fmt: skip
    content = variants.document_of(comparison, wishes, loaded, command=command_line())
    beside = variants.resolved_files(loaded.scenarios)
    keep.write(content, compare_text.format_comparison, beside, ["variant-*.resolved.yaml"], as_json=as_json)
    end(files.against_comparison(content, precision))


def _ready(
    wishes: Sequence[Recipe], keep: OutputFolder, replications: int | None, *, split_stores: bool
) -> tuple[Loaded, list[Variant]]:
    """Return the variants, and those of them that can be run; or end if none can, or the folder holds others."""
    from ettrick.analysis.contest import variants

    with mistakes_in_lines():
        loaded = variants.load_variants(wishes, split_stores=split_stores)
    _refuse_others(keep, loaded.scenarios, replications)
    ready = variants.prepared(loaded)
    if not ready:
        end([f"{name}: cannot run: {line}" for name, line in loaded.cannot_run.items()])
    warn([f"left out: {line}" for line in loaded.reasons])
    warn(variants.warnings(ready))
    return loaded, ready


def _refuse_others(keep: OutputFolder, scenarios: Mapping[str, Scenario], replications: int | None) -> None:
    """End with one line if the folder holds a comparison of other scenarios, or of more replications."""
    from ettrick.analysis.results.run import scenario_digest

    digests = {name: scenario_digest(scenario) for name, scenario in scenarios.items()}
    keep.refuse_others(
        lambda document: {name: row["scenario_sha256"] for name, row in document["variants"].items()} == digests,
        lambda document: document["replications"],
        replications,
    )


# The command that shows what a scenario rests on: ettrick explain.


def explain(
    scenario: options.ScenarioArgument, set_: options.SetOption = None, seed: options.SeedOption = None,
    worth: options.WorthOption = False, replications: options.FormulaReplicationsOption = None,
    jobs: options.ProcessesOption = 0, as_json: options.JsonOption = False, yes: options.YesOption = False,
    quiet: options.QuietOption = False,
) -> None:  # fmt: skip
    """Explain a scenario: step time, recovery, closed form.

    Every number is shown with its source.
    """
    effort: dict[str, Any] = {"processes": jobs, "most_events": most_events(yes=yes)}
    if worth:
        described = load_scenario(scenario, set_, seed)
        if not described.jobs:
            refuse("--worth: needs named jobs, and there are none; for streams and services use ettrick compare --vary")
        _explain_worth(described, replications, as_json=as_json, quiet=quiet or as_json, **effort)
        return
    described = load_scenario(scenario, set_, seed, must_fit=False)

    from ettrick import sim
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
            simulated = replicate(sim.prepare(described), count, progress=progress, **effort)
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
    described: Scenario, replications: int | None, *, processes: int, most_events: float, as_json: bool, quiet: bool
) -> None:
    """Print what each cause and each knob of a scenario is worth."""
    from ettrick import sim
    from ettrick.analysis.contest.worth import worth
    from ettrick.analysis.page.chapters.sensitivity import format_worth
    from ettrick.analysis.results.run import render
    from ettrick.analysis.terminal import ProgressBar

    count = 16 if replications is None else replications
    if count < 8:
        refuse(f"--replications {count}: --worth needs at least 8, to separate gains from noise")
    with in_a_line(sim.WorkError), ProgressBar("replications", quiet=quiet) as progress:
        content = worth(
            described, count, command=command_line(), processes=processes, progress=progress, most_events=most_events
        )
    warn(content.warnings)
    say(render(content) if as_json else format_worth(content))


# The command that lists the kernels of a step: ettrick kernels.


def kernels(
    scenario: options.ScenarioArgument, set_: options.SetOption = None, job: options.JobOption = None,
    top: options.TopOption = None, csv: options.ShapesOption = None, measured: options.MeasuredTimesOption = None,
    threshold: options.ThresholdOption = 0.05, noise: options.NoiseOption = 0.02, out: options.KernelsOutOption = None,
    overwrite: options.ReplaceOption = False, as_json: options.JsonOption = False,
) -> None:  # fmt: skip
    """List the kernels of a step and their bounds.

    The exit status is 1 if a kernel of the second measured file is slower than in the first.
    """
    files = measured or []
    _check_kernel_files(csv, out, files, overwrite=overwrite)
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
    if out is not None:
        write(out, _kernels_page(content, out.suffix.lower()))
    say(render(content) if as_json else pages.format_kernels(content, top))
    end(regressions(content))


def _check_kernel_files(csv: Path | None, out: Path | None, measured: Sequence[Path], *, overwrite: bool) -> None:
    """End with one line about files that cannot be written, or measured times that cannot be compared."""
    from ettrick.analysis.page import charts

    endings = (".html", *charts.SUFFIXES)
    if out is not None and out.suffix.lower() not in endings:
        refuse(f"--out {out}: must end in {', '.join(endings[:-1])} or {endings[-1]}")
    if len(measured) > 2:
        refuse(f"--measured: {len(measured)} files; give one, or two to compare")
    for path, option in ((csv, "--csv"), (out, "--out")):
        if path is not None:
            refuse_to_write(path, option, overwrite=overwrite)


def _kernels_page(content: KernelsDocument, suffix: str) -> bytes:
    """Return the kernels of a step as a page, or as a picture of the roofline."""
    from ettrick.analysis.page import charts
    from ettrick.analysis.page.chapters import kernels as pages
    from ettrick.analysis.page.formats import html

    if suffix == ".html":
        return html.write(pages.report(content, command_line()))
    return charts.render(charts.draw(pages.roofline(content)), suffix)


# The command that writes a first scenario: ettrick init.


_WITHOUT_EFFECT = {
    "--slurm-conf": {
        "kind": "its jobs are a fleet", "gpus": "slurm.conf states the nodes", "model": "its jobs have no model",
        "hf": "its jobs have no model",
    },
    "--kind fleet": {"model": "jobs of a fleet have no model", "hf": "jobs of a fleet have no model"},
    "--kind service": {"recovery": "it is for jobs; edit services.recovery in the file"},
    "--hf": {"model": "the file describes the model"},
}  # fmt: skip
"""Options of a starter that have no effect with another one, each with the reason."""


def _refuse_idle_options(context: typer.Context) -> None:
    """End with one line about an option that has no effect with another one."""
    for cause, reasons in _WITHOUT_EFFECT.items():
        option, _, value = cause[2:].replace("-", "_").partition(" ")
        if context.params[option] == value if value else context.params[option] is not None:
            for name, reason in reasons.items():
                if _is_stated(context, name):
                    refuse(f"--{name}: has no effect with {cause}: {reason}")


def _is_stated(context: typer.Context, option: str) -> bool:
    """Return whether an option was given, rather than left at its default."""
    source = context.get_parameter_source(option)
    return source is not None and source.name != "DEFAULT"


def init(
    context: typer.Context, path: options.StarterArgument = None, kind: options.KindOption = "training",
    gpus: options.StarterGpusOption = 1024, accelerator: options.AcceleratorOption = "h100",
    model: options.ModelOption = "llama3-70b", hf: options.HfOption = None,
    failures: options.FailuresOption = "llama3-table5", recovery: options.RecoveryOption = "slurm-requeue",
    horizon: options.HorizonOption = "30 d", name: options.NameOption = None,
    slurm_conf: options.SlurmConfOption = None, topology_conf: options.TopologyConfOption = None,
    overwrite: options.ReplaceOption = False, quiet: options.QuietOption = False,
) -> None:  # fmt: skip
    """Write a first scenario, with a comment on every value."""
    target = path or Path(f"{name or 'starter'}.yaml")
    if target.suffix.lower() not in (".yaml", ".yml"):
        refuse(f"{target}: must end in .yaml or .yml")
    if name is not None and not name.strip():
        refuse("--name: must not be empty")
    refuse_to_write(target, "", overwrite=overwrite)
    if topology_conf is not None and slurm_conf is None:
        refuse("--topology-conf: needs --slurm-conf")
    _refuse_idle_options(context)

    from ettrick.analysis.commands.starter import InitOptions, StarterError, starter
    from ettrick.analysis.terminal import ProgressBar

    file = str(hf or "")
    wishes = InitOptions(name or target.stem, gpus, accelerator, model, failures, recovery, horizon, kind, file)
    if slurm_conf is not None:
        gres = accelerator if _is_stated(context, "accelerator") else ""
        _init_from_slurm(target, slurm_conf, topology_conf, gres, wishes)
        return
    with in_a_line(StarterError), ProgressBar("layouts", quiet=quiet) as progress:
        text = starter(wishes, command_line(), progress)
    write(target, text.encode(), "")
    content = ["a queue of jobs" if kind == "fleet" else file or model, failures]
    content += [] if kind == "service" else [recovery]
    say(f"{target}: {gpus:,} {accelerator}, {', '.join(content)}; next: ettrick run {target}")


def _init_from_slurm(
    target: Path, slurm_conf: Path, topology_conf: Path | None, accelerator: str, wishes: InitOptions
) -> None:
    """Write the scenario of a cluster that a slurm.conf describes."""
    from ettrick.analysis.logs.slurm_conf import SlurmError, scenario

    models = wishes.failures, wishes.recovery, wishes.horizon
    with mistakes_in_lines(), in_a_line(SlurmError):
        text, site = scenario(slurm_conf, topology_conf, accelerator, wishes.name, *models)
    write(target, text.encode(), "")
    say("\n".join(f"open: {text}" for text in site.assumed))
    size = f"{len(site.nodes):,} nodes of {site.cluster['gpus_per_node']} GPUs"
    say(f"{target}: the cluster of {slurm_conf}, {size}; next: ettrick run {target}")


# Commands about clusters: ettrick topology ...

topology = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Show, check, draw and export a cluster.")


@topology.command(name="list")
def list_topologies() -> None:
    """List the bundled topologies."""
    from ettrick.analysis.page.chapters.topology import format_list

    say(format_list())


@topology.command()
def show(
    cluster: options.ClusterArgument, set_: options.ClusterSetOption = None, as_json: options.JsonOption = False
) -> None:
    """Show the parts of a cluster, and what fails with each."""
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
        typer.Option(metavar="PART:UNIT", help="Take out a part of the fabric, such as spine:3. Repeatable."),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show where jobs are placed, and the bandwidth they get.

    Also show the bandwidth left after losing a node.
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
    out: Annotated[Path, options.to_file("Write the picture to this file: .svg, .png or .pdf.")],
    set_: options.ClusterSetOption = None,
    overwrite: options.ReplaceOption = False,
) -> None:
    """Draw the parts of a cluster, or the tiers of a large one."""
    from ettrick.analysis.page import charts

    if out.suffix.lower() not in charts.SUFFIXES:
        refuse(f"--out {out}: must end in {', '.join(charts.SUFFIXES[:-1])} or {charts.SUFFIXES[-1]}")
    refuse_to_write(out, overwrite=overwrite)
    described = load_cluster(cluster, set_)
    write(out, charts.render(charts.draw(described.build()), out.suffix.lower()))


@topology.command()
def export(
    cluster: options.ClusterArgument,
    format_: Annotated[Literal["graphml", "json"], typer.Option("--format", help="Format of the graph.")],
    out: Annotated[Path | None, options.to_file("Write the graph to this file.", "standard output")] = None,
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

"""Command line of Ettrick: parse, call, print."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.study.load import LoadedStudy
    from sim import ClusterSpec, Prepared, Scenario

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,
    help="Answer what-if questions about training on large GPU clusters.",
)
topology = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Show, check, draw and export a cluster.")
app.add_typer(topology, name="topology")

ScenarioArgument = Annotated[str, typer.Argument(help="A scenario file, or the name of one that comes with Ettrick.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Replace a value, e.g. horizon='90 d'. Repeatable."),
]
ClusterArgument = Annotated[
    str, typer.Argument(help="A topology or scenario file, or the name of one that comes with Ettrick.")
]
ClusterSetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Replace a value, e.g. fabric.radix=128. Repeatable."),
]
SeedOption = Annotated[int | None, typer.Option(help="Seed of all random numbers.", min=0)]
ProcessesOption = Annotated[int, typer.Option("--jobs", "-j", help="Processes; 0 for one per core.", min=0)]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]

StudyArgument = Annotated[str, typer.Argument(help="A study file, or the name of one that comes with Ettrick.")]
StudySetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Replace a value of the study, e.g. replications=64. Repeatable."),
]
OutOption = Annotated[
    Path | None, typer.Option("--out", "-o", help="Keep everything in this folder; the same command again resumes.")
]
ExecutorOption = Annotated[
    Literal["serial", "process", "dask"], typer.Option(help="Where it is simulated; a scheduler implies dask.")
]
AddressOption = Annotated[str, typer.Option(help="Dask scheduler that listens, such as tcp://host:8786.")]
SchedulerFileOption = Annotated[str, typer.Option(help="File that a Dask scheduler has left for its clients.")]
OverwriteOption = Annotated[bool, typer.Option(help="Replace what is in the --out folder.")]

DONE, NO, WRONG = 0, 1, 2


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Answer what-if questions about training on large GPU clusters."""
    if version:
        from importlib import metadata

        _say(metadata.version("ettrick"))
        raise typer.Exit(DONE)


@app.command()
def run(
    scenario: ScenarioArgument,
    set_: SetOption = None,
    seed: SeedOption = None,
    replications: Annotated[int, typer.Option(help="How many replications.", min=1)] = 32,
    precision: Annotated[
        str | None, typer.Option(help="Replicate until the 95 % interval's half-width is this: 0.1pt or 2%.")
    ] = None,
    metric: Annotated[str, typer.Option(help="The metric that --precision is about.")] = "ettr",
    band: Annotated[
        int, typer.Option(help="Draws of the failure rates from their uncertainty, for band90; 0 for none.", min=0)
    ] = 0,
    jobs: ProcessesOption = 0,
    as_json: JsonOption = False,
    out: Annotated[Path | None, typer.Option(help="Write the resolved scenario and the JSON to this folder.")] = None,
    node_log: Annotated[
        bool, typer.Option("--node-log", help="With --out: also write when each node was down, to nodes.csv.")
    ] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace another run in the --out folder.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Simulate a scenario and say where every GPU-hour went."""
    if 0 < band < 20:
        _refuse("--band: needs at least 20 draws, or the band's ends are its extremes")
    if node_log and out is None:
        _refuse("--node-log: needs --out, the folder to write nodes.csv to")
    described = _load(scenario, set_, seed)
    from analysis import files

    complaint = files.refusal(out, described, overwrite=overwrite) if out is not None else None
    if complaint is not None:
        _refuse(f"--out {out}: {complaint}")

    from analysis import ensemble, reasons
    from analysis.console import format_run
    from analysis.document import document, render
    from analysis.missing import log_csv
    from analysis.progress import Progress
    from sim import prepare

    prepared = prepare(described)
    _warn(prepared.warnings)
    try:
        wanted = ensemble.Precision.parse(precision) if precision is not None else None
        with Progress("replications", quiet=quiet or as_json) as progress:
            found = ensemble.replicate(
                prepared,
                replications,
                precision=wanted,
                metric=metric,
                processes=jobs,
                progress=progress,
                keeps_log=node_log,
            )
    except ensemble.RequestError as error:
        _refuse(str(error))
    bands = None
    if band:
        with Progress("draws of rates", quiet=quiet or as_json) as progress:
            bands = ensemble.band(found, band, processes=jobs, progress=progress)
    text = render(document(found, command=_command(), bands=bands))
    content = json.loads(text)
    extra = {"nodes.csv": log_csv(found.results, [source.name for source in prepared.sources])} if node_log else {}
    complaint = files.write_folder(out, described, text, extra) if out is not None else None
    _say(text if as_json else format_run(content, prepared))
    if complaint is not None:
        _refuse(f"--out {out}: {complaint}")
    _end(reasons.against_run(content, precision, precise=found.precise))


@app.command()
def compare(
    scenarios: Annotated[
        list[str],
        typer.Argument(help="Scenario files, or names of ones that come with Ettrick.", metavar="SCENARIO..."),
    ],
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH=A,B,...",
            help="Make a variant of each value, e.g. spares.hot=0,4,16. Repeatable: all combinations.",
        ),
    ] = None,
    set_: SetOption = None,
    seed: SeedOption = None,
    replications: Annotated[int, typer.Option(help="How many replications of each variant.", min=2)] = 32,
    precision: Annotated[
        str | None,
        typer.Option(help="Replicate until the half-width of each difference's 95 % interval is this: 0.1pt or 2%."),
    ] = None,
    jobs: ProcessesOption = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run several variants on the same failures and say by how much they differ."""
    from analysis import compare_document, compare_text, reasons, variants
    from analysis.compare import compare as play
    from analysis.document import render
    from analysis.ensemble import Precision, RequestError
    from analysis.progress import Progress

    try:
        wanted = Precision.parse(precision) if precision is not None else None
        recipes = variants.recipes(scenarios, vary or (), _changes(set_, seed))
        with _mistakes_in_lines():
            loaded = variants.load_variants(recipes)
        ready = variants.prepared(loaded)
        if not ready:
            _end([f"{name}: cannot run: {line}" for name, line in loaded.cannot_run.items()])
        _warn(variants.warnings(ready))
        with Progress("replications", quiet=quiet or as_json) as progress:
            found = play(ready, replications, precision=wanted, processes=jobs, progress=progress)
    except RequestError as error:
        _refuse(str(error))
    text = render(compare_document.compare_document(found, loaded.cannot_run, command=_command()))
    content = json.loads(text)
    _say(text if as_json else compare_text.format_comparison(content))
    _end(reasons.against_comparison(content, precision))


@app.command()
def sweep(
    study: StudyArgument,
    set_: StudySetOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    jobs: ProcessesOption = 0,
    executor: ExecutorOption = "process",
    scheduler_address: AddressOption = "",
    scheduler_file: SchedulerFileOption = "",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run every point of a study and answer its questions."""
    from analysis.progress import Progress
    from analysis.sweep.command import campaign_of
    from analysis.sweep.executors import Where
    from analysis.sweep.sweep import sweep as play

    loaded = _load_study(study, set_, seed)
    where = Where(executor, jobs, scheduler_address, scheduler_file)
    with (
        Progress("tasks", quiet=quiet or as_json) as progress,
        campaign_of(loaded, out, where, progress) as campaign,
    ):
        table = play(campaign)
    _say("\n".join(str(question.answer(table).sentences) for question in loaded.study.questions))


@app.command()
def trace(
    scenario: ScenarioArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file: .json, or .json.gz to compress it.")],
    set_: SetOption = None,
    seed: SeedOption = None,
    replication: Annotated[int, typer.Option(help="Which replication, counted from 0.", min=0)] = 0,
) -> None:
    """Write one replication as a timeline that ui.perfetto.dev opens: jobs, phases, failures, nodes, counters."""
    from analysis import files, timeline

    complaint = files.not_to_be_replaced(out)
    if complaint is not None:
        _refuse(f"--out {out}: {complaint}")
    described = _load(scenario, set_, seed)

    import sim

    prepared = sim.prepare(described)
    _warn(prepared.warnings)
    result = sim.run(prepared, replication, keeps_log=True, keeps_timeline=True)
    _write(out, timeline.encoded(timeline.chrome_trace(prepared, result), out))


@app.command()
def check(scenario: ScenarioArgument, set_: SetOption = None) -> None:
    """Check a scenario file without running it."""
    described = _load(scenario, set_, None)

    import sim

    _warn(sim.examine(described).warnings)
    _say(f"{scenario}: a valid scenario, '{described.name}'")


@app.command()
def explain(
    scenario: ScenarioArgument,
    set_: SetOption = None,
    seed: SeedOption = None,
    worth: Annotated[
        bool, typer.Option("--worth", help="What each cause removed, and each knob better by a tenth, is worth.")
    ] = False,
    replications: Annotated[
        int | None,
        typer.Option(
            help="How many replications stand beside the closed form; 8 unless told, 0 for none. With --worth: of each "
            "change, 16 unless told, 8 at least.",
            min=0,
        ),
    ] = None,
    jobs: ProcessesOption = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show what a scenario rests on: the step, the way back, the closed form, and where every number comes from."""
    if worth:
        _explain_worth(_load(scenario, set_, seed), replications, jobs, as_json=as_json, quiet=quiet or as_json)
        return
    described = _load(scenario, set_, seed, must_fit=False)

    import sim
    from analysis.document import render
    from analysis.ensemble import replicate
    from analysis.explain import describe
    from analysis.explain_text import format_explanation
    from analysis.progress import Progress

    prepared = sim.examine(described)
    _warn(prepared.warnings)
    count = 8 if replications is None else replications
    too_large = _too_large(described, prepared)
    simulated = None
    if count and too_large is None:
        with Progress("replications", quiet=quiet or as_json) as progress:
            simulated = replicate(sim.prepare(described), count, processes=jobs, progress=progress)
    text = render(describe(prepared, simulated, command=_command()))
    _say(text if as_json else format_explanation(json.loads(text)))
    _end([] if too_large is None else [too_large])


def _too_large(described: Scenario, prepared: Prepared) -> str | None:
    """Return why a job does not fit into the memory of its accelerators, if it does not."""
    import sim

    try:
        sim.check_memory(described, prepared.jobs)
    except sim.PathError as error:
        return error.rule
    return None


def _explain_worth(described: Scenario, replications: int | None, jobs: int, *, as_json: bool, quiet: bool) -> None:
    """Print what each cause and each knob of a scenario is worth."""
    from analysis.document import render
    from analysis.progress import Progress
    from analysis.worth import worth
    from analysis.worth_document import worth_document
    from analysis.worth_text import format_worth

    count = 16 if replications is None else replications
    if count < 8:
        _refuse(f"--replications {count}: --worth needs at least 8, or luck could not be told from worth")
    with Progress("replications", quiet=quiet) as progress:
        found = worth(described, count, processes=jobs, progress=progress)
    _warn(found.base.prepared.warnings)
    text = render(worth_document(found, command=_command()))
    _say(text if as_json else format_worth(json.loads(text)))


@app.command()
def validate(
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A group of rows, or one row by its id. Repeatable.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page of all this too: a file that ends in .html.")
    ] = None,
    seed: Annotated[str, typer.Option(help="Seed of all scenarios: a number, or random for a new one.")] = "1",
    jobs: ProcessesOption = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare with published values, with theory and with other programs; status 1 if a row fails."""
    from analysis import files
    from analysis.document import render
    from analysis.progress import Progress
    from analysis.provenance import provenance
    from analysis.validation import document, page, text
    from analysis.validation.lab import Lab
    from analysis.validation.play import play, seed_of
    from analysis.validation.table import load_table

    complaint = None
    if report is not None:
        complaint = files.not_to_be_replaced(report) if report.suffix.lower() == ".html" else "must end in .html"
    if complaint is not None:
        _refuse(f"--report {report}: {complaint}")
    try:
        lab = Lab(seed_of(seed), jobs)
    except ValueError as error:
        _refuse(f"--seed: {error}")
    try:
        with Progress("rows", quiet=quiet or as_json) as progress:
            found = play(load_table(), lab, only or (), progress)
    except ValueError as error:
        _refuse(f"--only: {error}")
    content = document.describe(found) | {"provenance": provenance(_command())}
    rendered = render(content)
    content = json.loads(rendered)
    if report is not None:
        _write(report, page.html(content).encode(), "--report")
    _say(rendered if as_json else text.format_validation(content))
    _end(document.against(content))


@app.command()
def layouts(
    scenario: ScenarioArgument,
    set_: SetOption = None,
    job: Annotated[str | None, typer.Option(help="Which job; without it, the first.")] = None,
    gpus: Annotated[int | None, typer.Option(help="GPUs of the job; without it, those that it asks for.")] = None,
    top: Annotated[int, typer.Option(help="How many layouts to show.", min=1)] = 20,
    sort: Annotated[
        Literal["goodput", "step"],
        typer.Option(help="Best first: by tokens of a day that survive failures, or by the time of a step."),
    ] = "goodput",
    any_tensor: Annotated[
        bool, typer.Option("--any-tensor", help="Also tensor groups larger than a scale-up domain.")
    ] = False,
    try_parameters: Annotated[
        bool, typer.Option("--try-parameters", help="Also divide parameters among replicas (FSDP, ZeRO-3).")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Rank the layouts of a job by the time of a step, and by what failures leave of it."""
    described = _load(scenario, set_, None, must_fit=False)

    import sim
    from analysis.document import render
    from analysis.layouts import describe_layouts, format_layouts
    from analysis.progress import Progress

    try:
        search = sim.LayoutSearch(described, job, gpus, any_tensor=any_tensor, try_parameters=try_parameters)
        with Progress("layouts", quiet=quiet or as_json) as progress:
            content = describe_layouts(search, top, sort, progress)
    except sim.NoLayoutError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(NO) from None
    except ValueError as error:
        _refuse(str(error))
    text = render(content)
    _say(text if as_json else format_layouts(json.loads(text)))


@app.command()
def schema() -> None:
    """Print the JSON Schema of scenario files, for editors."""
    import sim

    _say(json.dumps(sim.schema(), indent=2))


@app.command(name="list")
def list_() -> None:
    """List the scenarios, topologies and strategies that come with Ettrick."""
    import sim

    lines = []
    for kind, entries in sim.inventory().items():
        lines.append(f"{kind}:")
        width = max(len(name) for name in entries)
        lines += [f"  {name:{width}}  {text}".rstrip() for name, text in entries.items()]
    _say("\n".join(lines))


# -------------------------------------------------------------------------------------------- topology


@topology.command(name="list")
def list_topologies() -> None:
    """List the topologies that come with Ettrick."""
    from analysis.topology import format_list

    _say(format_list())


@topology.command()
def show(cluster: ClusterArgument, set_: ClusterSetOption = None, as_json: JsonOption = False) -> None:
    """Show what a cluster is made of, and what goes with each of its parts."""
    described = _load_cluster(cluster, set_)

    from analysis.topology import describe, format_topology

    content = describe(described)
    _say(json.dumps(content, indent=2, ensure_ascii=False) if as_json else format_topology(content))


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
    described = _load(scenario, set_, None)

    import sim
    from analysis.placement import describe_jobs, format_jobs, parts_named

    try:
        content = describe_jobs(described, parts_named(failed or ()))
    except ValueError as error:
        _refuse(f"--failed {error}")
    _warn(sim.examine(described).warnings)
    _say(json.dumps(content, indent=2) if as_json else format_jobs(content))


@topology.command(name="check")
def check_topology(cluster: ClusterArgument, set_: ClusterSetOption = None) -> None:
    """Check a topology file."""
    described = _load_cluster(cluster, set_)
    nodes, gpus = described.hosts
    _say(f"{cluster}: a valid topology, '{described.name}': {nodes * gpus:,} GPUs in {nodes:,} nodes")


@topology.command()
def plot(
    cluster: ClusterArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture: a file that ends in .svg, .png or .pdf.")],
    set_: ClusterSetOption = None,
) -> None:
    """Draw a cluster: every part of a small one, the tiers of a large one."""
    from analysis import plots

    if out.suffix.lower() not in plots.SUFFIXES:
        _refuse(f"--out {out}: must end in {', '.join(plots.SUFFIXES[:-1])} or {plots.SUFFIXES[-1]}")
    described = _load_cluster(cluster, set_)
    _write(out, plots.render(plots.draw_topology(described.build()), out.suffix.lower()))


@topology.command()
def export(
    cluster: ClusterArgument,
    format_: Annotated[Literal["graphml", "json"], typer.Option("--format", help="How the graph is written.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file; omitted: standard output.")] = None,
    set_: ClusterSetOption = None,
) -> None:
    """Write a cluster as a graph of hosts, switches and cables."""
    described = _load_cluster(cluster, set_)

    from sim.topology import GRAPH_FORMATS

    text = GRAPH_FORMATS[format_](described.build())
    if out is None:
        _say(text.rstrip("\n"))
    else:
        _write(out, text.encode())


# --------------------------------------------------------------------------------------------- helpers


def _load(name: str, overrides: list[str] | None, seed: int | None, *, must_fit: bool = True) -> Scenario:
    """Return a scenario, or end with one line per mistake."""
    import sim

    with _mistakes_in_lines():
        return sim.load(sim.find(name), _changes(overrides, seed), must_fit=must_fit)


def _load_study(name: str, overrides: list[str] | None, seed: int | None) -> LoadedStudy:
    """Return a study, or end with one line per mistake."""
    from analysis.study.load import find_study, load_study

    with _mistakes_in_lines():
        return load_study(find_study(name), tuple(_changes(overrides, seed)))


def _changes(overrides: list[str] | None, seed: int | None) -> list[str]:
    """Return what the options of a command replace in a scenario."""
    return [*(overrides or ()), *([f"seed={seed}"] if seed is not None else [])]


def _warn(warnings: Sequence[str]) -> None:
    """Say on standard error what a valid scenario costs more than it need."""
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


def _load_cluster(name: str, overrides: list[str] | None) -> ClusterSpec:
    """Return a cluster, or end with one line per mistake."""
    import sim

    with _mistakes_in_lines():
        return sim.load_cluster(sim.find_cluster(name), overrides or ())


@contextlib.contextmanager
def _mistakes_in_lines() -> Iterator[None]:
    """End with one line per mistake of a file."""
    import sim

    try:
        yield
    except sim.ScenarioError as error:
        for line in error.lines:
            typer.echo(line, err=True)
        raise typer.Exit(NO if error.is_answer else WRONG) from None


def _say(text: str) -> None:
    """Print to standard output, or end with one line about why that cannot be done."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that does not know a bar shows a question mark.
        sys.stdout.reconfigure(errors="replace")
    try:
        typer.echo(text)
    except BrokenPipeError:
        raise  # the reader has seen enough: typer ends without a word
    except OSError as error:
        # What is left in the buffer would fail once more at the end of the program.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _refuse(f"standard output: cannot be written ({error.strerror})")


def _refuse(message: str) -> NoReturn:
    """End with a message about wrong input."""
    typer.echo(message, err=True)
    raise typer.Exit(WRONG)


def _end(reasons: list[str]) -> None:
    """End with what speaks against a yes, if anything does."""
    for reason in reasons:
        typer.echo(reason, err=True)
    if reasons:
        raise typer.Exit(NO)


def _write(path: Path, content: bytes, option: str = "--out") -> None:
    """Write a file completely or not at all, or end with one line about why that cannot be done."""
    from analysis import files

    complaint = files.write_file(path, content)
    if complaint is not None:
        _refuse(f"{option} {path}: {complaint}")


def _command() -> str:
    """Return the command as it can be typed again."""
    arguments: list[Any] = ["ettrick", *sys.argv[1:]]
    return shlex.join(arguments)

"""Command line of Ettrick: parse, call, print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from analysis.commands import reports, studies
from analysis.commands.compare import compare
from analysis.commands.group import Commands
from analysis.commands.options import (
    JsonOption,
    ProcessesOption,
    QuietOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
)
from analysis.commands.starter import init
from analysis.commands.terminal import (
    DONE,
    NO,
    command_line,
    end,
    load_scenario,
    refuse,
    say,
    warn,
    write,
)
from analysis.commands.topologies import topology
from analysis.commands.validate import validate

if TYPE_CHECKING:
    from sim import Prepared, Scenario

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,
    help="Answer what-if questions about training on large GPU clusters.",
)
app.add_typer(topology, name="topology")


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Answer what-if questions about training on large GPU clusters."""
    if version:
        from importlib import metadata

        say(metadata.version("ettrick"))
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
        refuse("--band: needs at least 20 draws, or the band's ends are its extremes")
    if node_log and out is None:
        refuse("--node-log: needs --out, the folder to write nodes.csv to")
    described = load_scenario(scenario, set_, seed)

    from analysis.commands.keeping import Keeping
    from analysis.provenance import scenario_digest

    keep = Keeping(out, "run.json", overwrite=overwrite)
    keep.refuse_others(lambda found: found["provenance"]["scenario_sha256"] == scenario_digest(described))

    from analysis import ensemble, reasons
    from analysis.console import format_run
    from analysis.document import document, render
    from analysis.missing import log_csv
    from analysis.progress import Progress
    from sim import dump, prepare

    prepared = prepare(described)
    warn(prepared.warnings)
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
        refuse(str(error))
    bands = None
    if band:
        with Progress("draws of rates", quiet=quiet or as_json) as progress:
            bands = ensemble.band(found, band, processes=jobs, progress=progress)
    text = render(document(found, command=command_line(), bands=bands))
    content = json.loads(text)
    extra = {"nodes.csv": log_csv(found.results, [source.name for source in prepared.sources])} if node_log else {}
    complaint = keep.write(text, {"scenario.resolved.yaml": dump(described.dump()), **extra})
    say(text if as_json else format_run(content, prepared))
    if complaint is not None:
        refuse(complaint)
    end(reasons.against_run(content, precision, precise=found.precise))


for command in (
    init,
    compare,
    studies.sweep,
    studies.merge,
    studies.sensitivity,
    studies.optimize,
    reports.report,
    reports.plot,
    validate,
):
    app.command()(command)


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
        refuse(f"--out {out}: {complaint}")
    described = load_scenario(scenario, set_, seed)

    import sim

    prepared = sim.prepare(described)
    warn(prepared.warnings)
    result = sim.run(prepared, replication, keeps_log=True, keeps_timeline=True)
    write(out, timeline.encoded(timeline.chrome_trace(prepared, result), out))


@app.command()
def check(scenario: ScenarioArgument, set_: SetOption = None) -> None:
    """Check a scenario file without running it."""
    described = load_scenario(scenario, set_, None)

    import sim

    warn(sim.examine(described).warnings)
    say(f"{scenario}: a valid scenario, '{described.name}'")


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
        _explain_worth(load_scenario(scenario, set_, seed), replications, jobs, as_json=as_json, quiet=quiet or as_json)
        return
    described = load_scenario(scenario, set_, seed, must_fit=False)

    import sim
    from analysis.document import render
    from analysis.ensemble import replicate
    from analysis.explain import describe
    from analysis.explain_text import format_explanation
    from analysis.progress import Progress

    prepared = sim.examine(described)
    warn(prepared.warnings)
    count = 8 if replications is None else replications
    too_large = _too_large(described, prepared)
    simulated = None
    if count and too_large is None:
        with Progress("replications", quiet=quiet or as_json) as progress:
            simulated = replicate(sim.prepare(described), count, processes=jobs, progress=progress)
    text = render(describe(prepared, simulated, command=command_line()))
    say(text if as_json else format_explanation(json.loads(text)))
    end([] if too_large is None else [too_large])


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
        refuse(f"--replications {count}: --worth needs at least 8, or luck could not be told from worth")
    with Progress("replications", quiet=quiet) as progress:
        found = worth(described, count, processes=jobs, progress=progress)
    warn(found.base.prepared.warnings)
    text = render(worth_document(found, command=command_line()))
    say(text if as_json else format_worth(json.loads(text)))


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
    described = load_scenario(scenario, set_, None, must_fit=False)

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
        refuse(str(error))
    text = render(content)
    say(text if as_json else format_layouts(json.loads(text)))


@app.command()
def schema(
    study: Annotated[bool, typer.Option("--study", help="That of study files instead.")] = False,
) -> None:
    """Print the JSON Schema of scenario files, for editors."""
    import sim
    from analysis.study.schema import study_schema

    say(json.dumps(study_schema() if study else sim.schema(), indent=2))


@app.command(name="list")
def list_() -> None:
    """List the scenarios, topologies and strategies that come with Ettrick, and where they come from."""
    from analysis.listing import format_inventory

    say(format_inventory())

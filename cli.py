"""Command line of Ettrick: parse, call, print."""

from __future__ import annotations

import atexit
import gc
import math
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from analysis.commands import documents, logs, studies
from analysis.commands.documents import validate
from analysis.commands.options import (
    JsonOption,
    QuietOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
    YesOption,
    complete_kinds,
)
from analysis.commands.scenarios import compare, explain, init, run, topology
from analysis.commands.terminal import DONE, NO, Commands, load_scenario, refuse, refuse_to_write, say, warn, write

# Modules and models are no garbage; looking for some, as often as usual and at the end, is a fifth of a short command.
gc.set_threshold(50_000, 20, 20)


@atexit.register
def _look_for_no_garbage() -> None:
    if "duckdb" not in sys.modules:  # its bindings report on standard error whatever is still there at the end
        gc.freeze()


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,
    help="Answer what-if questions about training on large GPU clusters.",
)

app.add_typer(topology, name="topology")


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", "-V", "-v", help="Print the version and exit.")] = False,
) -> None:
    """Answer what-if questions about training on large GPU clusters."""
    if version:
        from importlib import metadata

        say(metadata.version("ettrick"))
        raise typer.Exit(DONE)


for command in (
    run,
    init,
    compare,
    studies.sweep,
    studies.merge,
    studies.sensitivity,
    studies.optimize,
    documents.report,
    documents.plot,
    logs.fit,
    logs.track,
    validate,
    explain,
):
    app.command()(command)


@app.command()
def trace(
    scenario: ScenarioArgument,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The file: .json, or .json.gz to compress it.")
    ],
    set_: SetOption = None,
    seed: SeedOption = None,
    replication: Annotated[int, typer.Option(metavar="N", help="Which replication, counted from 0.", min=0)] = 0,
    yes: YesOption = False,
) -> None:
    """Write one replication as a timeline for ui.perfetto.dev.

    It has jobs, phases, failures, nodes and counters.
    """
    from analysis import timeline

    refuse_to_write(out)
    described = load_scenario(scenario, set_, seed)

    import sim

    prepared = sim.prepare(described)
    warn(prepared.warnings)
    most = math.inf if yes else sim.MOST_EVENTS
    try:
        result = sim.run(prepared, replication, keeps_log=True, keeps_timeline=True, most_events=most)
    except sim.WorkError as error:
        refuse(str(error))
    write(out, timeline.encoded(timeline.chrome_trace(prepared, result), out))


@app.command()
def check(scenario: ScenarioArgument, set_: SetOption = None) -> None:
    """Check a scenario file without running it."""
    described = load_scenario(scenario, set_, None)

    import sim
    from analysis.terminal import repairs_text

    prepared = sim.examine(described)
    warn(prepared.warnings)
    say(f"{scenario}: a valid scenario, '{described.name}'")
    cluster: Any = described.cluster
    if not cluster.states_fabric:
        say(f"  fabric  default: {cluster.fabric.title}")
    if repairs_text(prepared):
        say(f"  repair  {repairs_text(prepared)}")


@app.command()
def layouts(
    scenario: ScenarioArgument,
    set_: SetOption = None,
    job: Annotated[str | None, typer.Option(metavar="NAME", help="Which job; without it, the first.")] = None,
    gpus: Annotated[
        int | None, typer.Option(metavar="N", help="GPUs of the job; without it, those that it asks for.")
    ] = None,
    top: Annotated[int, typer.Option(metavar="N", help="How many layouts to show.", min=1)] = 20,
    sort: Annotated[
        Literal["goodput", "step"] | None,
        typer.Option(
            help="Best first: by tokens of a day that survive failures, which is the default where a closed form says "
            "how many, or by the time of a step."
        ),
    ] = None,
    any_tensor: Annotated[
        bool, typer.Option("--any-tensor", help="Also tensor groups larger than a scale-up domain.")
    ] = False,
    try_parameters: Annotated[
        bool, typer.Option("--try-parameters", help="Also divide parameters among replicas (FSDP, ZeRO-3).")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Rank the layouts of a job by step time and goodput."""
    described = load_scenario(scenario, set_, None, must_fit=False)

    import sim
    from analysis.layouts import describe_layouts, format_layouts
    from analysis.results.run import render
    from analysis.terminal import Progress

    try:
        search = sim.LayoutSearch(described, job, gpus, any_tensor=any_tensor, try_parameters=try_parameters)
        with Progress("layouts", quiet=quiet or as_json) as progress:
            content = describe_layouts(search, top, sort, progress)
    except sim.NoLayoutError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(NO) from None
    except ValueError as error:
        refuse(str(error))
    say(render(content) if as_json else format_layouts(content))


@app.command()
def schema(
    study: Annotated[bool, typer.Option("--study", help="That of study files instead.")] = False,
    results: Annotated[bool, typer.Option("--results", help="That of what --json prints instead.")] = False,
) -> None:
    """Print the JSON Schema of scenario files, for editors."""
    import sim
    from analysis.results.explained import results_schema
    from analysis.results.files import in_lines
    from analysis.study.model import study_schema

    say(in_lines(study_schema() if study else results_schema() if results else sim.schema()))


@app.command(name="list")
def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            help="One kind alone, such as studies or models; without it, all.",
            autocompletion=complete_kinds,
        ),
    ] = None,
) -> None:
    """List what comes with Ettrick: scenarios, studies, strategies.

    With each stands where it comes from.
    """
    from analysis.page.chapters.listing import format_inventory, kinds
    from sim.yamlfile import suggest

    known = kinds()
    if kind is not None and kind not in known:
        refuse(f"list: there is no kind '{kind}'{suggest(kind, known, most=len(known))}")
    say(format_inventory(only=kind or ""))

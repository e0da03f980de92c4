"""Command line of Ettrick: parse, call, print."""

from __future__ import annotations

import atexit
import gc
import math
import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ettrick.analysis.commands import documents, logs, options, studies
from ettrick.analysis.commands.documents import validate
from ettrick.analysis.commands.scenarios import compare, explain, init, kernels, run, topology
from ettrick.analysis.commands.terminal import (
    DONE,
    NO,
    Command,
    Commands,
    OutputFolder,
    complain,
    in_a_line,
    load_scenario,
    most_events,
    refuse,
    refuse_to_write,
    say,
    warn,
    write,
)

# Modules and models are no garbage; looking for some, as often as usual and at the end, is a fifth of a short command.
gc.set_threshold(200_000, 20, 20)

# Plugins of pydantic change no model here, and would be looked for in every package of the environment.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

# Matrices here are small: threads wait for one another, half of a fit's time, and last digits depend on their number.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


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
    help="Answer what-if questions about large GPU clusters.",
)

app.add_typer(topology, name="topology")


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", "-V", "-v", help="Print the version and exit.")] = False,
) -> None:
    """Answer what-if questions about large GPU clusters."""
    warnings.showwarning = lambda message, *_where: warn([str(message)])
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
    documents.explore,
    logs.fit,
    logs.track,
    validate,
    explain,
    kernels,
):
    app.command()(command)

app.command("design")(studies.optimize)


@app.command()
def trace(
    scenario: options.ScenarioArgument, out: options.TimelineOption = None, logs: options.LogsOption = None,
    set_: options.SetOption = None, seed: options.SeedOption = None, replication: options.ReplicationOption = 0,
    first: options.FromOption = None, last: options.ToOption = None, overwrite: options.ReplaceOption = False,
    yes: options.YesOption = False,
) -> None:  # fmt: skip
    """Write one replication as a timeline for ui.perfetto.dev.

    The timeline shows jobs, phases, failures, nodes and counters.
    """
    from ettrick.analysis import timeline
    from ettrick.analysis.results.files import write_folder

    if (out is None) == (logs is None):
        refuse("trace: needs --out FILE for a timeline, or --logs DIR for the logs of a cluster")
    if out is not None:
        refuse_to_write(out, overwrite=overwrite)
    keep = OutputFolder(logs, "", overwrite, "--logs")
    keep.refuse_others(lambda _: False)
    window = _window(first, last)
    described = load_scenario(scenario, set_, seed)

    from ettrick import sim

    prepared = sim.prepare(described)
    warn(prepared.warnings)
    with in_a_line(sim.WorkError, timeline.TimelineError):
        most = most_events(yes=yes)
        result = sim.run(prepared, replication, keeps_log=True, keeps_timeline=True, most_events=most)
        if out is not None:
            write(out, timeline.encoded(timeline.chrome_trace(prepared, result, window), out))
    if logs is not None:
        from ettrick.analysis.logs import export

        contents = export.files(prepared, result, window)
        complaint = write_folder(logs, contents)
        if complaint is not None:
            refuse(f"--logs {logs}: {complaint}")
        say(f"{logs}: {', '.join(contents)}")


def _window(first: str | None, last: str | None) -> tuple[float, float]:
    """Return the first and last time that are shown [s after the warm-up], or end with a line about a wrong one."""
    from ettrick.sim import units

    ends = [-math.inf, math.inf]
    for place, (option, text) in enumerate((("--from", first), ("--to", last))):
        if text is not None:
            try:
                ends[place] = units.parse(text, units.DURATION)
            except units.UnitError as error:
                refuse(f"{option}: {error}")
    if ends[0] >= ends[1]:
        refuse(f"--from {first}: is not before --to {last}")
    return ends[0], ends[1]


@app.command()
def check(scenario: options.ScenarioArgument, set_: options.SetOption = None) -> None:
    """Check a scenario or study file without running it."""
    from ettrick import sim
    from ettrick.analysis.terminal import repairs_text, visible

    if sim.kind_of(scenario) == "study":
        _check_study(scenario, set_)
        return
    described = load_scenario(scenario, set_, None)

    prepared = sim.examine(described)
    warn(prepared.warnings)
    say(visible(f"{scenario}: a valid scenario, '{described.name}'"))
    cluster: Any = described.cluster
    if not cluster.states_fabric:
        say(f"  fabric  default: {cluster.fabric.title}")
    if repairs_text(prepared):
        say(f"  repair  {repairs_text(prepared)}")


def _check_study(name: str, overrides: list[str] | None) -> None:
    """Check a study; a clause of its question without an answer is a warning."""
    from ettrick.analysis.study.load import against_metrics, against_question
    from ettrick.analysis.terminal import visible

    loaded = studies.load_study(name, overrides, None)
    if missing := against_metrics(loaded):
        refuse("\n".join(missing))
    warn(against_question(loaded))
    say(visible(f"{name}: a valid study, '{loaded.study.name}'"))


@app.command()
def layouts(
    scenario: options.ScenarioArgument, set_: options.SetOption = None, job: options.LayoutJobOption = None,
    gpus: options.LayoutGpusOption = None, top: options.LayoutsOption = 20, sort: options.SortOption = None,
    any_tensor: options.AnyTensorOption = False, try_parameters: options.TryParametersOption = False,
    try_options: options.TryOptionsOption = False, csv: options.LayoutsCsvOption = None,
    overwrite: options.ReplaceOption = False, as_json: options.JsonOption = False, quiet: options.QuietOption = False,
) -> None:  # fmt: skip
    """Rank the parallel layouts of a job or service."""
    if csv is not None:
        refuse_to_write(csv, "--csv", overwrite=overwrite)
    described = load_scenario(scenario, set_, None, must_fit=False)

    from ettrick.analysis.explain.services import SORTS

    if described.services and not described.jobs:
        _service_layouts(described, job, sort or "gpu", top, csv, as_json=as_json)
        return
    if csv is not None:
        refuse("--csv: only applies to layouts of services")
    if sort in SORTS:
        refuse(f"--sort {sort}: only applies to layouts of services")
    ranked: Literal["goodput", "step"] | None = None if sort is None else "step" if sort == "step" else "goodput"

    from ettrick import sim
    from ettrick.analysis.explain.layouts import describe_layouts
    from ettrick.analysis.page.chapters.cluster import format_layouts
    from ettrick.analysis.results.run import render
    from ettrick.analysis.terminal import ProgressBar

    try:
        more = {"any_tensor": any_tensor, "try_parameters": try_parameters, "try_options": try_options}
        search = sim.LayoutSearch(described, job, gpus, **more)
        with ProgressBar("layouts", quiet=quiet or as_json) as progress:
            content = describe_layouts(search, top, ranked, progress)
    except sim.NoLayoutError as error:
        complain(str(error))
        raise typer.Exit(NO) from None
    except ValueError as error:
        refuse(f"{scenario}: {error}")
    say(render(content) if as_json else format_layouts(content))


def _service_layouts(
    described: Any, name: str | None, sort: str, top: int, file: Path | None, *, as_json: bool
) -> None:
    """Print the layouts of a service."""
    from ettrick import sim
    from ettrick.analysis.explain.services import SORTS, describe_service_layouts, service_layouts_csv
    from ettrick.analysis.page.chapters.services import format_service_layouts
    from ettrick.analysis.results.run import render
    from ettrick.sim.yamlfile import suggest

    if sort not in SORTS:
        refuse(f"--sort {sort}: only applies to layouts of jobs; for a service, choose from {', '.join(SORTS)}")
    prepared = sim.examine(described)
    services = {service.spec.name: service for service in sim.services_of(prepared)}
    if name is not None and name not in services:
        refuse(f"--job {name}: the scenario has no such service{suggest(name, services)}")
    price = described.cost.gpu_hour if described.cost is not None else None
    if sort == "money" and price is None:
        refuse("--sort money: needs the price of a GPU-hour; set cost.gpu_hour")
    content = describe_service_layouts(prepared.name, services[name or next(iter(services))], price, SORTS[sort], top)
    if not content.layouts:
        complain("no layout fits")
        raise typer.Exit(NO)
    if file is not None:
        write(file, service_layouts_csv(content).encode(), "--csv")
    say(render(content) if as_json else format_service_layouts(content))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def formula(
    context: typer.Context,
    question: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME [--KEY AMOUNT]...]",
            help="Question and its amounts; omit the amounts to show what it needs, the name to list all questions.",
            autocompletion=options.complete_formulas,
        ),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Answer a back-of-the-envelope question: equation and number."""
    from ettrick.analysis.explain import formula as paper
    from ettrick.analysis.results.run import render

    try:
        if question is None:
            if as_json:
                refuse("--json: needs a question with its amounts")
            say(paper.format_formulas())
        elif not context.args and not as_json:
            say(paper.format_question(question))
        else:
            answer = paper.answered(question, context.args)
            say(render(answer) if as_json else paper.format_formula(answer))
    except paper.FormulaError as error:
        refuse(str(error))


@app.command()
def schema(
    study: Annotated[bool, typer.Option("--study", help="Print the schema of study files instead.")] = False,
    results: Annotated[
        bool, typer.Option("--results", help="Print the schema of the output of --json instead.")
    ] = False,
) -> None:
    """Print the JSON Schema of scenario files, for editors."""
    from ettrick import sim
    from ettrick.analysis.results.explained import results_schema
    from ettrick.analysis.results.files import in_lines
    from ettrick.analysis.study.model import study_schema

    say(in_lines(study_schema() if study else results_schema() if results else sim.schema()))


@app.command(name="list")
def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            help="Kind to list, such as studies or models, or a key of scenarios.",
            show_default="all",
            autocompletion=options.complete_kinds,
        ),
    ] = None,
) -> None:
    """List bundled scenarios, studies, models and strategies.

    Each is shown with its source.
    """
    from ettrick.analysis.terminal import PLUGINS, format_inventory, kinds, names_of_kinds
    from ettrick.sim.yamlfile import suggest

    if kind not in (None, PLUGINS, *names_of_kinds()):
        refuse(f"list: unknown kind '{kind}'{suggest(str(kind), kinds(), most=len(kinds()))}")
    say(format_inventory(only=kind or ""))


for described in (*app.registered_commands, *topology.registered_commands):
    described.cls = Command


if __name__ == "__main__":
    app()

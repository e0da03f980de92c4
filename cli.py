"""Command line of Ettrick: parse, call, print."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from sim import Scenario

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,
    help="Answer what-if questions about training on large GPU clusters.",
)

ScenarioArgument = Annotated[str, typer.Argument(help="A scenario file, or the name of one that comes with Ettrick.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Replace a value, e.g. horizon='90 d'. Repeatable."),
]

DONE, NO, WRONG = 0, 1, 2


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Answer what-if questions about training on large GPU clusters."""
    if version:
        from importlib import metadata

        typer.echo(metadata.version("ettrick"))
        raise typer.Exit(DONE)


@app.command()
def run(
    scenario: ScenarioArgument,
    set_: SetOption = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random numbers.", min=0)] = None,
    replications: Annotated[int, typer.Option(help="How many replications.", min=1)] = 32,
    precision: Annotated[
        str | None, typer.Option(help="Replicate until the 95 % interval's half-width is this: 0.1pt or 2%.")
    ] = None,
    metric: Annotated[str, typer.Option(help="The metric that --precision is about.")] = "ettr",
    band: Annotated[
        int, typer.Option(help="Draws of the failure rates from their uncertainty, for band90; 0 for none.", min=0)
    ] = 0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes; 0 for one per core.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the resolved scenario and the JSON to this folder.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace another run in the --out folder.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Simulate a scenario and say where every GPU-hour went."""
    described = _load(scenario, set_, seed)
    if band and band < 20:
        _refuse("--band: needs at least 20 draws, or the band's ends are its extremes")
    if out is not None:
        _check_folder(out, described, overwrite=overwrite)

    from analysis import ensemble
    from analysis.console import Progress, print_run
    from analysis.document import document, render
    from sim import prepare

    prepared = prepare(described)
    progress = Progress(quiet=quiet or as_json)
    try:
        wanted = ensemble.Precision.parse(precision, metric) if precision is not None else None
        found = ensemble.replicate(
            prepared, replications, precision=wanted, metric=metric, processes=jobs, progress=progress
        )
    except ValueError as error:
        _refuse(str(error))
    finally:
        progress.close()
    bands = ensemble.band(prepared, band) if band else None
    content = document(found, command=_command(), bands=bands)
    text = render(content)
    if out is not None:
        _write_folder(out, described, text)
    if as_json:
        typer.echo(text)
    else:
        print_run(json.loads(text), prepared)
    hopeless = [name for name, job in content["per_job"].items() if job["never_started"] == len(found.results)]
    for name in hopeless:
        typer.echo(f"job '{name}' can never start: no replication had enough free nodes before the horizon", err=True)
    if hopeless or found.precise is False:
        raise typer.Exit(NO)


@app.command()
def check(scenario: ScenarioArgument, set_: SetOption = None) -> None:
    """Check a scenario file without running it."""
    described = _load(scenario, set_, None)
    typer.echo(f"{scenario}: a valid scenario, '{described.name}'")


@app.command()
def schema() -> None:
    """Print the JSON Schema of scenario files, for editors."""
    import sim

    typer.echo(json.dumps(sim.schema(), indent=2))


@app.command(name="list")
def list_() -> None:
    """List the scenarios, topologies and strategies that come with Ettrick."""
    import sim

    for kind, entries in sim.inventory().items():
        typer.echo(f"{kind}:")
        width = max(len(name) for name in entries)
        for name, text in entries.items():
            typer.echo(f"  {name:{width}}  {text}".rstrip())


# --------------------------------------------------------------------------------------------- helpers


def _load(name: str, overrides: list[str] | None, seed: int | None) -> Scenario:
    """Return a scenario, or end with one line per mistake."""
    import sim

    changes = list(overrides or ())
    if seed is not None:
        changes.append(f"seed={seed}")
    try:
        return sim.load(sim.find(name), changes)
    except sim.ScenarioError as error:
        for line in error.lines:
            typer.echo(line, err=True)
        raise typer.Exit(WRONG) from None


def _refuse(message: str) -> NoReturn:
    """End with a message about wrong input."""
    typer.echo(message, err=True)
    raise typer.Exit(WRONG)


def _check_folder(folder: Path, scenario: Scenario, *, overwrite: bool) -> None:
    """Refuse a folder that holds something else than an earlier run of the same scenario."""
    from analysis.document import scenario_digest

    if not folder.exists():
        return
    if not folder.is_dir():
        _refuse(f"--out {folder}: is a file, not a folder")
    try:
        earlier = json.loads((folder / "run.json").read_text())["provenance"]["scenario_sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        earlier = None
    if not overwrite and earlier != scenario_digest(scenario) and any(folder.iterdir()):
        _refuse(f"--out {folder}: holds something else; name another folder or add --overwrite")


def _write_folder(folder: Path, scenario: Scenario, text: str) -> None:
    """Write both files, each complete or not at all."""
    import sim

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in (("scenario.resolved.yaml", sim.dump(scenario.dump())), ("run.json", text + "\n")):
            unfinished = folder / f".{name}.unfinished"
            unfinished.write_text(content, encoding="utf-8")
            unfinished.replace(folder / name)
    except OSError as error:
        _refuse(f"--out {folder}: cannot be written ({error.strerror})")


def _command() -> str:
    """Return the command as it can be typed again."""
    arguments: list[Any] = ["ettrick", *sys.argv[1:]]
    return shlex.join(arguments)

"""Arguments and options that several commands have."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Literal

import typer


def _begins(names: Iterable[str], incomplete: str) -> list[str]:
    """Return names that begin like this; with none of them a shell completes the names of files."""
    return [name for name in names if name.startswith(incomplete)]


def complete_shipped(*kinds: Literal["scenarios", "scenarios/studies", "topologies"]) -> Callable[[str], list[str]]:
    """Return what completes the name of a file that comes with Ettrick."""

    def found(incomplete: str) -> list[str]:
        from ettrick import sim

        return _begins(itertools.chain(*map(sim.shipped, kinds)), incomplete)

    return found


def complete_catalog(table: Literal["accelerators", "models", "bundles", "recoveries"]) -> Callable[[str], list[str]]:
    """Return what completes a name of the catalog."""

    def found(incomplete: str) -> list[str]:
        from ettrick.sim import catalog

        return _begins(getattr(catalog, table)(), incomplete)

    return found


def complete_kinds(incomplete: str) -> list[str]:
    """Return what kinds of things ``ettrick list`` lists."""
    from ettrick.analysis.page.chapters.listing import kinds

    return _begins(kinds(), incomplete)


def complete_formulas(incomplete: str) -> list[str]:
    """Return names of questions that a formula answers."""
    from ettrick.analysis.explain.formula import formulas

    return _begins(formulas(), incomplete)


ScenarioArgument = Annotated[
    str,
    typer.Argument(
        help="A scenario file, or the name of one that comes with Ettrick.",
        metavar="SCENARIO",
        autocompletion=complete_shipped("scenarios"),
    ),
]

ScenariosArgument = Annotated[
    list[str],
    typer.Argument(
        help="Scenario files, or names of ones that come with Ettrick.",
        metavar="SCENARIO",
        autocompletion=complete_shipped("scenarios"),
    ),
]

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace a value, e.g. horizon='90 d'. Repeatable."),
]

ClusterArgument = Annotated[
    str,
    typer.Argument(
        help="A topology or scenario file, or the name of one that comes with Ettrick.",
        metavar="CLUSTER",
        autocompletion=complete_shipped("topologies", "scenarios"),
    ),
]

ClusterSetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace a value, e.g. fabric.radix=128. Repeatable."),
]

SeedOption = Annotated[int | None, typer.Option(metavar="N", help="Seed of all random numbers.", min=0)]

EngineOption = Annotated[
    Literal["auto", "events", "compiled"] | None,
    typer.Option(help="What simulates: events, machine code, or what pays. The numbers are the same."),
]

ProcessesOption = Annotated[
    int, typer.Option("--jobs", "-j", metavar="N", help="Processes; 0 for one per core.", min=0)
]

QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]

StudyArgument = Annotated[
    str,
    typer.Argument(
        help="A study file, or the name of one that comes with Ettrick.",
        metavar="STUDY",
        autocompletion=complete_shipped("scenarios/studies"),
    ),
]

StudySetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the study, e.g. replications=64. Repeatable."),
]

OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="DIR", help="Keep everything in this folder; the same command again resumes."),
]

ExecutorOption = Annotated[
    Literal["serial", "process", "dask"] | None,
    typer.Option(help="Where it is simulated; without it, on all cores, or by the scheduler if one is named."),
]

AddressOption = Annotated[
    str, typer.Option(metavar="URL", help="Dask scheduler that listens, such as tcp://host:8786.")
]

SchedulerFileOption = Annotated[
    str, typer.Option(metavar="FILE", help="File that a Dask scheduler has left for its clients.")
]

StudyReplicationsOption = Annotated[
    int | None,
    typer.Option(
        "--replications", "-n", metavar="N", help="Replications of each point; without it, what the study says.", min=2
    ),
]

OverwriteOption = Annotated[
    bool,
    typer.Option(
        "--overwrite/--no-overwrite",
        "--force",
        help="Replace what is in the --out folder, other results too; without it, those of the same scenario alone.",
        show_default=False,
    ),
]

ReplaceOption = Annotated[
    bool,
    typer.Option(
        "--overwrite/--no-overwrite",
        "--force",
        help="Replace files that are there; without it, they are left as they are.",
        show_default=False,
    ),
]

YesOption = Annotated[bool, typer.Option("--yes", help="Simulate more than 100 million events, if it takes as many.")]

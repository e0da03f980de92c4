"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

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
    Literal["serial", "process", "dask"] | None,
    typer.Option(help="Where it is simulated; without it, on all cores, or by the scheduler if one is named."),
]
AddressOption = Annotated[str, typer.Option(help="Dask scheduler that listens, such as tcp://host:8786.")]
SchedulerFileOption = Annotated[str, typer.Option(help="File that a Dask scheduler has left for its clients.")]
StudyReplicationsOption = Annotated[
    int | None, typer.Option(help="Replications of each point; without it, what the study says.", min=2)
]
OverwriteOption = Annotated[bool, typer.Option(help="Replace what is in the --out folder.")]

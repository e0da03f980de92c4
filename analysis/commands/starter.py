"""The command that writes a first scenario: ettrick init."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.commands.options import (
    QuietOption,
    complete_accelerators,
    complete_bundles,
    complete_models,
    complete_presets,
)
from analysis.commands.terminal import command_line, refuse, refuse_to_write, say

__all__ = ["init"]


def init(
    path: Annotated[Path | None, typer.Argument(help="The file; without it, starter.yaml or what --name says.")] = None,
    gpus: Annotated[int, typer.Option(help="GPUs of the job: whole nodes, or 64 for each NVL72 rack.", min=1)] = 1024,
    accelerator: Annotated[
        str, typer.Option(help="A name from ettrick list.", autocompletion=complete_accelerators)
    ] = "h100",
    model: Annotated[
        str, typer.Option(help="A name from ettrick list.", autocompletion=complete_models)
    ] = "llama3-70b",
    failures: Annotated[
        str, typer.Option(metavar="BUNDLE", help="A name from ettrick list.", autocompletion=complete_bundles)
    ] = "llama3-table5",
    recovery: Annotated[
        str, typer.Option(metavar="PRESET", help="A name from ettrick list.", autocompletion=complete_presets)
    ] = "slurm-requeue",
    horizon: Annotated[str, typer.Option(help="How long is simulated.")] = "30 d",
    name: Annotated[str | None, typer.Option(help="Name of the scenario; without it, that of the file.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite/--no-overwrite", "--force", help="Replace the file.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Write a first scenario that runs as it is, with a comment on every value."""
    target = path or Path(f"{name or 'starter'}.yaml")
    if target.suffix.lower() not in (".yaml", ".yml"):
        refuse(f"{target}: must end in .yaml or .yml")
    if name is not None and not name.strip():
        refuse("--name: must not be empty")
    refuse_to_write(target, "")
    if target.exists() and not overwrite:
        refuse(f"{target}: is there already; name another file or add --overwrite")

    from analysis import files
    from analysis.progress import Progress
    from analysis.starter import StarterError, Wishes, starter

    wishes = Wishes(name or target.stem, gpus, accelerator, model, failures, recovery, horizon)
    try:
        with Progress("layouts", quiet=quiet) as progress:
            text = starter(wishes, command_line(), progress)
    except StarterError as error:
        refuse(str(error))
    complaint = files.write_file(target, text.encode())
    if complaint is not None:
        refuse(f"{target}: {complaint}")
    say(f"{target}: {gpus:,} {accelerator}, {model}, {failures}, {recovery}; next: ettrick run {target}")

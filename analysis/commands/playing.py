"""What all commands about studies do: read the study, say where it is played, and tell who stopped it."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from analysis.commands.terminal import (
    INTERRUPTED,
    TERMINATED,
    JobEnd,
    changes,
    ending_tidily,
    mistakes_in_lines,
    refuse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from analysis.progress import Progress
    from analysis.study.load import LoadedStudy
    from analysis.sweep.command import Workplace
    from analysis.sweep.executors import Where
    from analysis.sweep.shard import Shard

__all__ = ["load_study", "playing", "shard_of", "where_to_play"]


def load_study(
    name: str,
    overrides: list[str] | None,
    seed: int | None,
    *,
    replications: int | None = None,
    precision: str | None = None,
    yes: bool = False,
) -> LoadedStudy:
    """Return a study of which every value can be played, or end with one line per mistake."""
    import sim
    from analysis.ensemble import Precision, RequestError
    from analysis.study import load
    from analysis.study.first_look import first_look

    if precision is not None:
        try:
            Precision.parse(precision)
        except RequestError as error:
            refuse(f"--precision: {error}")
    told = tuple(changes(overrides, seed))
    with mistakes_in_lines(name, "study"):
        loaded = load.load_study(load.find_study(name), told, replications=replications, precision=precision)
        mistakes = first_look(loaded)
        if mistakes:
            raise sim.ScenarioError(mistakes)
    return replace(loaded, most_events=math.inf) if yes else loaded


def where_to_play(executor: str | None, jobs: int, address: str, file: str) -> Where:
    """Return where a study is to be played, or end with one line about options that do not go together."""
    from analysis.sweep.executors import Where

    if executor is None:
        executor = "dask" if address or file else "process"
    if (address or file) and executor != "dask":
        refuse(f"--executor {executor}: a scheduler is for dask; leave --executor out")
    if address and file:
        refuse("--scheduler-file: is instead of --scheduler-address; give one of them")
    if executor == "dask" and not (address or file):
        refuse("--executor dask: needs --scheduler-address or --scheduler-file")
    return Where(executor, jobs, address, file)


def shard_of(text: str | None, out: Path | None) -> Shard | None:
    """Return the part of a study that is to be played, or end with one line about what is wrong with it."""
    from analysis.sweep.shard import Shard

    if text is None:
        return None
    if out is None:
        refuse("--shard: needs --out, the folder of this shard alone")
    try:
        return Shard.parse(text)
    except ValueError as error:
        refuse(f"--shard: {error}")


@contextlib.contextmanager
def playing(
    loaded: LoadedStudy,
    where: Where,
    out: Path | None,
    *,
    overwrite: bool,
    quiet: bool,
    shard: Shard | None = None,
) -> Iterator[Workplace]:
    """Yield a study ready to be played, with a bar; end with one line about what is wrong, or about who stopped it."""
    from analysis.progress import Progress
    from analysis.sweep.command import TROUBLE, workplace
    from analysis.sweep.folder import FolderError
    from analysis.sweep.journal import JournalError

    progress = Progress("tasks", quiet=quiet, lines=True)
    stopped = "stopped: nothing was played yet"
    try:
        with (
            mistakes_in_lines(),
            ending_tidily(),
            progress,
            workplace(loaded, where, progress, out=out, overwrite=overwrite, shard=shard) as place,
        ):
            for note in place.notes:
                typer.echo(f"--out {out}: {note}", err=True)
            try:
                yield place
            except KeyboardInterrupt:
                stopped = _stopped(out, place, progress)
                raise
    except TROUBLE as error:
        is_of_folder = out is not None and isinstance(error, FolderError | JournalError)
        refuse(f"--out {out}: {error}" if is_of_folder else str(error))
    except KeyboardInterrupt as error:
        typer.echo(stopped, err=True)
        raise typer.Exit(TERMINATED if isinstance(error, JobEnd) else INTERRUPTED) from None


def _stopped(out: Path | None, place: Workplace, progress: Progress) -> str:
    """Return what is left of a study that was stopped, in a line."""
    from analysis.cells import number_of

    if out is None:
        return "stopped: nothing is kept; with --out DIR the same command would go on from here"
    kept = len(place.campaign.journal)
    if not kept:
        return "stopped: nothing was played yet"
    of = f"{progress.done:,} of {number_of(progress.total, 'task')}" if progress.total else number_of(kept, "task")
    return f"stopped: {of} {'is' if of == '1 task' else 'are'} kept in {out}; the same command goes on from here"

"""Commands about studies: sweep, merge, sensitivity, optimize."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from analysis.commands.options import (
    AddressOption,
    ExecutorOption,
    JsonOption,
    OutOption,
    OverwriteOption,
    ProcessesOption,
    QuietOption,
    SchedulerFileOption,
    SeedOption,
    StudyArgument,
    StudyReplicationsOption,
    StudySetOption,
    YesOption,
)
from analysis.commands.playing import load_study, playing, shard_of, where_to_play
from analysis.commands.terminal import command_line, end, mistakes_in_lines, refuse, say, show_document

__all__ = ["merge", "optimize", "sensitivity", "sweep"]


def sweep(
    study: StudyArgument,
    set_: StudySetOption = None,
    seed: SeedOption = None,
    replications: StudyReplicationsOption = None,
    precision: Annotated[
        str | None, typer.Option(help="Replicate each point until its 95 % interval's half-width is this: 0.1pt or 2%.")
    ] = None,
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Play the I-th of N parts into --out; merge puts them together.")
    ] = None,
    jobs: ProcessesOption = 0,
    executor: ExecutorOption = None,
    scheduler_address: AddressOption = "",
    scheduler_file: SchedulerFileOption = "",
    as_json: JsonOption = False,
    yes: YesOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run every point of a study and answer its questions."""
    from analysis.study.obtainable import against_metrics
    from analysis.sweep import command
    from analysis.sweep.document import against_sweep
    from analysis.sweep.text import format_sweep

    if replications is not None and precision is not None:
        refuse("--precision: is instead of --replications; give one of them")
    loaded = load_study(study, set_, seed, replications=replications, precision=precision, yes=yes)
    missing = against_metrics(loaded)
    if missing:
        refuse("\n".join(missing))
    part = shard_of(shard, out)
    where = where_to_play(executor, jobs, scheduler_address, scheduler_file)
    with playing(loaded, where, out, overwrite=overwrite, shard=part, quiet=quiet or as_json) as place:
        if part is not None:
            counts = command.play_shard(place)
            say(json.dumps(counts) if as_json else command.format_shard(counts, part))
            end(command.against_shard(counts))
            return
        content, files = command.play_sweep(place, command_line())
    show_document(content, format_sweep, out, files, as_json=as_json)
    end(against_sweep(content))


def merge(
    folders: Annotated[list[Path], typer.Argument(help="Folders that shards of one study were played into.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where all of them go; sweep then goes on from there.")],
) -> None:
    """Put the shards of a study together; sweep with the same folder then answers its questions."""
    from analysis.sweep.merge import MergeError
    from analysis.sweep.merge import merge as put_together

    try:
        merged = put_together(folders, out)
    except MergeError as error:
        refuse(str(error))
    say("\n".join([f"{out}:", *(f"  {line}" for line in merged.lines())]))


def sensitivity(
    study: StudyArgument,
    set_: StudySetOption = None,
    seed: SeedOption = None,
    method: Annotated[
        Literal["tornado", "sobol", "both"],
        typer.Option(help="Each input alone (tornado), all at once at random (sobol), or both."),
    ] = "both",
    samples: Annotated[
        int | None, typer.Option(help="Points of a set for sobol, a power of two; there are inputs + 2 sets.", min=2)
    ] = None,
    metric: Annotated[str, typer.Option(help="What is looked at; without it, the first metric of the study.")] = "",
    replications: StudyReplicationsOption = None,
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    jobs: ProcessesOption = 0,
    executor: ExecutorOption = None,
    scheduler_address: AddressOption = "",
    scheduler_file: SchedulerFileOption = "",
    as_json: JsonOption = False,
    yes: YesOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say which inputs of a study matter, and how much of what a run comes to is luck."""
    from analysis.metrics import METRICS
    from analysis.sensitivity.study import play_sensitivity
    from analysis.sensitivity.text import against, format_sensitivity
    from analysis.sweep.command import keep
    from sim.documents import suggest

    if metric and metric not in METRICS:
        refuse(f"--metric {metric}: is no metric{suggest(metric, METRICS)}")
    loaded = load_study(study, set_, seed, yes=yes)
    where = where_to_play(executor, jobs, scheduler_address, scheduler_file)
    with playing(loaded, where, out, overwrite=overwrite, quiet=quiet or as_json) as place:
        content = play_sensitivity(
            loaded,
            place.campaign.journal,
            place.campaign.crew,
            place.campaign.progress,
            method=method,
            samples=samples,
            metric=metric,
            replications=replications,
            command=command_line(),
        )
        files = keep(place, content, "sensitivity.json")
    show_document(content, format_sensitivity, out, files, as_json=as_json)
    end(against(content))


def optimize(
    study: StudyArgument,
    set_: StudySetOption = None,
    seed: SeedOption = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Points that are tried, where a search is needed; without it, the study's.", min=4),
    ] = None,
    replications: StudyReplicationsOption = None,
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    jobs: ProcessesOption = 0,
    executor: ExecutorOption = None,
    scheduler_address: AddressOption = "",
    scheduler_file: SchedulerFileOption = "",
    as_json: JsonOption = False,
    yes: YesOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find what is best within the ranges of a study, and confirm it on failures that were not used to find it."""
    from analysis.optimize.play import play_optimize
    from analysis.optimize.problem import problem_of
    from analysis.optimize.text import against, format_optimum
    from analysis.sweep.command import keep

    loaded = load_study(study, set_, seed, yes=yes)
    with mistakes_in_lines():
        problem_of(loaded)
    where = where_to_play(executor, jobs, scheduler_address, scheduler_file)
    with playing(loaded, where, out, overwrite=overwrite, quiet=quiet or as_json) as place:
        content = play_optimize(
            loaded,
            place.campaign.journal,
            place.campaign.crew,
            place.campaign.progress,
            trials=trials,
            replications=replications,
            command=command_line(),
        )
        files = keep(place, content, "optimize.json")
    show_document(content, format_optimum, out, files, as_json=as_json)
    end(against(content))

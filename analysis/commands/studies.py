"""Commands about studies: sweep, merge, sensitivity, optimize."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ettrick.analysis.commands import options
from ettrick.analysis.commands.terminal import (
    INTERRUPTED,
    TERMINATED,
    JobEnd,
    changes,
    command_line,
    complain,
    end,
    ending_tidily,
    in_a_line,
    mistakes_in_lines,
    precision_of,
    refuse,
    say,
    show_document,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ettrick.analysis.study.load import LoadedStudy
    from ettrick.analysis.sweep.sweep import StudyRun
    from ettrick.analysis.sweep.task import Shard
    from ettrick.analysis.sweep.workers import ExecutorOptions
    from ettrick.analysis.terminal import ProgressBar

# What all commands about studies do: read the study, say where it is simulated, and who stopped it.


def load_study(
    name: str,
    overrides: list[str] | None,
    seed: int | None,
    *,
    replications: int | None = None,
    precision: str | None = None,
    yes: bool = False,
) -> LoadedStudy:
    """Return a study of which every value can be simulated, or end with one line per mistake."""
    from ettrick import sim
    from ettrick.analysis.study import load
    from ettrick.analysis.study.load import first_look

    precision_of(precision)
    options = tuple(changes(overrides, seed))
    with mistakes_in_lines(name, "study"):
        loaded = load.load_study(load.find_study(name), options, replications=replications, precision=precision)
        mistakes = first_look(loaded)
        if mistakes:
            raise sim.ScenarioError(mistakes)
    return replace(loaded, most_events=math.inf) if yes else loaded


def where_to_run(executor: str | None, jobs: int, address: str, file: str) -> ExecutorOptions:
    """Return where a study is to be simulated, or end with one line about options that do not go together."""
    from ettrick.analysis.sweep.workers import ExecutorOptions

    if executor is None:
        executor = "dask" if address or file else "process"
    if (address or file) and executor != "dask":
        refuse(f"--executor {executor}: only dask uses a scheduler; leave out --executor")
    if address and file:
        refuse("--scheduler-file: use --scheduler-file or --scheduler-address, not both")
    if executor == "dask" and not (address or file):
        refuse("--executor dask: needs --scheduler-address or --scheduler-file")
    return ExecutorOptions(executor, jobs, address, file)


def shard_of(text: str | None, out: Path | None) -> Shard | None:
    """Return the part of a study that is to be simulated, or end with one line about what is wrong with it."""
    from ettrick.analysis.sweep.task import Shard

    if text is None:
        return None
    if out is None:
        refuse("--shard: needs --out, a folder for this shard")
    with in_a_line(ValueError, before="--shard: "):
        return Shard.parse(text)


@contextlib.contextmanager
def running(
    loaded: LoadedStudy,
    where: ExecutorOptions,
    out: Path | None,
    *,
    overwrite: bool,
    quiet: bool,
    shard: Shard | None = None,
) -> Iterator[StudyRun]:
    """Yield a study ready to be simulated, with a bar; end with one line about what is wrong, or what stopped it."""
    from ettrick.analysis.sweep.folder import FolderError
    from ettrick.analysis.sweep.journal import JournalError
    from ettrick.analysis.sweep.sweep import TROUBLE, workplace
    from ettrick.analysis.terminal import ProgressBar

    progress = ProgressBar("tasks", quiet=quiet, lines=True)
    stopped = "stopped: nothing was simulated yet"
    try:
        with (
            mistakes_in_lines(),
            ending_tidily(),
            progress,
            workplace(loaded, where, progress, out=out, overwrite=overwrite, shard=shard) as place,
        ):
            for note in place.notes:
                complain(f"--out {out}: {note}")
            try:
                yield place
            except KeyboardInterrupt:
                stopped = _stopped(out, place, progress)
                raise
    except TROUBLE as error:
        is_of_folder = out is not None and isinstance(error, FolderError | JournalError)
        refuse(f"--out {out}: {error}" if is_of_folder else str(error))
    except KeyboardInterrupt as error:
        complain(stopped)
        raise typer.Exit(TERMINATED if isinstance(error, JobEnd) else INTERRUPTED) from None


def _stopped(out: Path | None, place: StudyRun, progress: ProgressBar) -> str:
    """Return what is left of a study that was stopped, in a line."""
    from ettrick.analysis.amounts import number_of

    if out is None:
        return "stopped: nothing is kept; with --out DIR the same command would go on from here"
    outcomes = len(place.campaign.journal)
    if not outcomes:
        return "stopped: nothing was simulated yet"
    of = f"{progress.done:,} of {number_of(progress.total, 'task')}" if progress.total else number_of(outcomes, "task")
    return f"stopped: {of} {'is' if of == '1 task' else 'are'} kept in {out}; the same command goes on from here"


def sweep(
    study: options.StudyArgument, set_: options.StudySetOption = None, seed: options.SeedOption = None,
    replications: options.StudyReplicationsOption = None, precision: options.PointPrecisionOption = None,
    out: options.OutOption = None, overwrite: options.OverwriteOption = False, shard: options.ShardOption = None,
    jobs: options.ProcessesOption = 0, executor: options.ExecutorOption = None,
    scheduler_address: options.AddressOption = "", scheduler_file: options.SchedulerFileOption = "",
    as_json: options.JsonOption = False, yes: options.YesOption = False, quiet: options.QuietOption = False,
) -> None:  # fmt: skip
    """Run every point of a study and answer its questions."""
    from ettrick.analysis.page.chapters.answers import sentences_of
    from ettrick.analysis.page.chapters.study import format_sweep
    from ettrick.analysis.study.load import against_metrics
    from ettrick.analysis.sweep.document import against_sweep
    from ettrick.analysis.sweep.sweep import against_shard, format_shard, run_shard, run_sweep

    if replications is not None and precision is not None:
        refuse("--precision: use --precision or --replications, not both")
    loaded = load_study(study, set_, seed, replications=replications, precision=precision, yes=yes)
    missing = against_metrics(loaded)
    if missing:
        refuse("\n".join(missing))
    part = shard_of(shard, out)
    where = where_to_run(executor, jobs, scheduler_address, scheduler_file)
    with running(loaded, where, out, overwrite=overwrite, shard=part, quiet=quiet or as_json) as place:
        if part is not None:
            counts = run_shard(place)
            say(json.dumps(counts) if as_json else format_shard(counts, part))
            end(against_shard(counts))
            return
        content, files = run_sweep(place, command_line(), sentences_of)
    show_document(content, format_sweep, out, files, as_json=as_json)
    end(against_sweep(content))


def merge(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="Folders of the shards of one study.")],
    out: Annotated[Path, options.to_folder("Folder for the merged study; sweep continues from it.")],
) -> None:
    """Merge the shards of a study into one folder.

    Then run ettrick sweep with the same folder to answer its questions.
    """
    from ettrick.analysis.sweep.merge import MergeError
    from ettrick.analysis.sweep.merge import merge as put_together

    with in_a_line(MergeError):
        merged = put_together(folders, out)
    say("\n".join([f"{out}:", *(f"  {line}" for line in merged.lines())]))


def sensitivity(
    study: options.StudyArgument, set_: options.StudySetOption = None, seed: options.SeedOption = None,
    method: options.MethodOption = "both", samples: options.SamplesOption = None, metric: options.MetricOption = "",
    replications: options.StudyReplicationsOption = None, out: options.OutOption = None,
    overwrite: options.OverwriteOption = False, jobs: options.ProcessesOption = 0,
    executor: options.ExecutorOption = None, scheduler_address: options.AddressOption = "",
    scheduler_file: options.SchedulerFileOption = "", as_json: options.JsonOption = False,
    yes: options.YesOption = False, quiet: options.QuietOption = False,
) -> None:  # fmt: skip
    """Rank the inputs of a study by how much they matter.

    Also show the run-to-run variability, which remains even if every input is known.
    """
    from ettrick.analysis.metrics import METRICS
    from ettrick.analysis.page.chapters.sensitivity import against, format_sensitivity
    from ettrick.analysis.sweep.sensitivity import sensitivity as find
    from ettrick.analysis.sweep.sweep import keep
    from ettrick.sim.yamlfile import suggest

    if metric and metric not in METRICS:
        refuse(f"--metric: unknown metric '{metric}'{suggest(metric, METRICS)}")
    loaded = load_study(study, set_, seed, yes=yes)
    where = where_to_run(executor, jobs, scheduler_address, scheduler_file)
    with running(loaded, where, out, overwrite=overwrite, quiet=quiet or as_json) as place:
        content = find(
            place.campaign, command=command_line(), method=method, samples=samples, metric=metric,
            replications=replications,
        )  # fmt: skip
        files = keep(place, content, "sensitivity.json")
    show_document(content, format_sensitivity, out, files, as_json=as_json)
    end(against(content))


def optimize(
    study: options.StudyArgument, set_: options.StudySetOption = None, seed: options.SeedOption = None,
    trials: options.TrialsOption = None, replications: options.StudyReplicationsOption = None,
    out: options.OutOption = None, overwrite: options.OverwriteOption = False, jobs: options.ProcessesOption = 0,
    executor: options.ExecutorOption = None, scheduler_address: options.AddressOption = "",
    scheduler_file: options.SchedulerFileOption = "", as_json: options.JsonOption = False,
    yes: options.YesOption = False, quiet: options.QuietOption = False,
) -> None:  # fmt: skip
    """Find the best setting within the ranges of a study.

    The result is checked on failures that were not used in the search.
    """
    from ettrick.analysis.optimize.optimize import optimize as find
    from ettrick.analysis.optimize.optimize import optimum_document
    from ettrick.analysis.optimize.problem import problem_of
    from ettrick.analysis.page.chapters.optimum import against, format_optimum
    from ettrick.analysis.sweep.sweep import keep

    loaded = load_study(study, set_, seed, yes=yes)
    with mistakes_in_lines():
        problem_of(loaded)
    where = where_to_run(executor, jobs, scheduler_address, scheduler_file)
    with running(loaded, where, out, overwrite=overwrite, quiet=quiet or as_json) as place:
        result = find(place.campaign, trials=trials, replications=replications)
        content = optimum_document(result, command=command_line())
        files = keep(place, content, "optimize.json")
    show_document(content, format_optimum, out, files, as_json=as_json)
    end(against(content))

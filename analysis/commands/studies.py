"""Commands about studies: sweep, merge, sensitivity, optimize."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    refuse_to_write,
    say,
    show_document,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ettrick.analysis.optimize.optimize import OptimizationResult
    from ettrick.analysis.results.studies import OptimizeDocument
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
    with mistakes_in_lines():
        next(loaded.points())
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
    with mistakes_in_lines():
        next(loaded.points())
    where = where_to_run(executor, jobs, scheduler_address, scheduler_file)
    with running(loaded, where, out, overwrite=overwrite, quiet=quiet or as_json) as place:
        content = find(
            place.campaign, command=command_line(), method=method, samples=samples, metric=metric,
            replications=replications,
        )  # fmt: skip
        files = keep(place, content, "sensitivity.json")
    show_document(content, format_sensitivity, out, files, as_json=as_json)
    end(against(content))


# Optimize, which is design too: a study, or a scenario and budgets, of which a study is made.

_BUDGETS = ("power", "gpus", "capex")

_RECOVERIES = ("slurm-requeue", "nvrx-in-job", "torchft-hsdp")
"""Recoveries that a design of a scenario compares with its own: of the queue, in the job, and of single replicas."""


def goals(budget: list[str] | None, maximize: str | None, minimize: str | None, precision: str | None) -> Iterator[str]:
    """Yield the values of the section optimize that options replace, or end with one line about a wrong option."""
    from ettrick.sim.yamlfile import suggest

    if maximize is not None and minimize is not None:
        refuse("--minimize: use --maximize or --minimize, not both")
    for text in budget or ():
        name, _, amount = (part.strip() for part in text.partition("="))
        if name not in _BUDGETS:
            refuse(f"--budget {text}: unknown budget '{name}'{suggest(name, _BUDGETS)}")
        if not amount:
            refuse(f"--budget {text}: needs NAME=AMOUNT, for example --budget power='100 MW'")
        yield f"optimize.budget.{name}={amount}"
    if maximize is not None or minimize is not None:
        yield f"optimize.maximize='{maximize or ''}'"
        yield f"optimize.minimize='{minimize or ''}'"
    if precision is not None:
        yield f"optimize.precision={precision}"


def design_of(name: str, *, has_goal: bool = True) -> dict[str, Any]:
    """Return a study of the best cluster for a scenario, and of the best way to run it.

    Size, spares and interval are derived; the layout too where the model gives the time of a step. Recoveries are that
    of the scenario and some others. The goal is tokens a day, unless options set another one (`has_goal`).
    """
    from ettrick import sim

    with mistakes_in_lines(name, "scenario"):
        content: dict[str, Any] = sim.template(name).content
    jobs = content.get("jobs") or []
    if len(jobs) != 1 or content.get("services") or content.get("streams"):
        refuse(f"{name}: a design needs a scenario with one job and nothing else; for others, write a study")
    if not has_goal and "batch" not in jobs[0]:
        refuse(f"{name}: tokens_per_day needs a batch; name another goal, for example --maximize ettr")
    kinds = ["size", "spares", "layout", "interval"]
    if {"step_time", "mfu"} & jobs[0].keys():
        kinds.remove("layout")  # only the step of this one is known
    recovery = content.get("recovery") or {}
    stated = {str(recovery["use"]): recovery} if "use" in recovery else {}
    recoveries = {use: {"use": use} for use in _RECOVERIES if use not in stated}
    return {
        "name": f"{content.get('name', 'scenario')}-design",
        "question": "Which cluster, and which way to run it, are best within the budget?",
        "scenario": str(Path(name).resolve()) if Path(name).is_file() else name,
        "vary": {
            **{kind: {"derive": kind} | ({"noun": "spares"} if kind == "spares" else {}) for kind in kinds},
            "recovery": {"path": "recovery", "choices": stated | recoveries},
        },
        "optimize": {"maximize": "tokens_per_day"},
    }


def load_design(
    name: str, overrides: list[str] | None, texts: list[str], seed: int | None, *, yes: bool
) -> LoadedStudy:
    """Return a study whose goal some texts change; of a scenario, the study of its best cluster within budgets."""
    import tempfile

    from ettrick import sim

    if sim.kind_of(name) != "scenario":
        return load_study(name, [*(overrides or ()), *texts], seed, yes=yes)
    if not any(text.startswith("optimize.budget.") for text in texts):
        refuse(f"{name}: a scenario needs a budget, for example --budget gpus=30000 or --budget power='100 MW'")
    content = design_of(name, has_goal=any(text.startswith("optimize.maximize=") for text in texts))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{content['name']}.yaml"
        path.write_text(sim.dump(content), encoding="utf-8")
        return load_study(str(path), [*(f"set.{text}" for text in overrides or ()), *texts], seed, yes=yes)


def save_study(loaded: LoadedStudy, file: Path, *, overwrite: bool) -> None:
    """Write a study that was made of a scenario; its scenario is relative to the file."""
    import os

    from ettrick import sim

    refuse_to_write(file, "--save", overwrite=overwrite)
    content = dict(loaded.document.data)
    if Path(content["scenario"]).is_file():
        content["scenario"] = os.path.relpath(content["scenario"], file.resolve().parent)
    write(file, sim.dump(content).encode(), "--save")
    say(f"{file}: a study to edit; to run it: ettrick design {file}")


def question_of(text: str | None, seconds: float | None, loaded: LoadedStudy) -> dict[str, str]:
    """Return the values that ``--explain`` asks about, or end with one line about a mistake."""
    from ettrick.analysis.optimize.problem import problem_of
    from ettrick.analysis.optimize.reasons import UnknownDesignError, wanted_of

    with mistakes_in_lines():
        is_listed = problem_of(loaded).is_listed
    if seconds is not None and not is_listed:
        refuse("--seconds: only applies to designs: derive or where in vary, or a budget")
    if text is None:
        return {}
    if not is_listed:
        refuse("--explain: only applies to studies with derived axes; of others, the table has every point")
    with in_a_line(UnknownDesignError, before="--explain: "):
        return wanted_of(text, loaded.study.vary)


def explained(content: OptimizeDocument, result: OptimizationResult, wanted: dict[str, str]) -> OptimizeDocument:
    """Return a document with the reason why the best design with some values, if any, is not the answer."""
    from ettrick.analysis.optimize.reasons import UnknownDesignError, explain

    if not wanted or result.raced is None:
        return content
    with in_a_line(UnknownDesignError, before="--explain: "):
        return content.model_copy(update={"explained": explain(result.bench, result.raced, wanted)})


def optimize(
    study: options.DesignArgument, set_: options.StudySetOption = None, budget: options.BudgetOption = None,
    maximize: options.MaximizeOption = None, minimize: options.MinimizeOption = None,
    seed: options.SeedOption = None, trials: options.TrialsOption = None,
    precision: options.RegretOption = None, seconds: options.SecondsOption = None,
    explain: options.ExplainOption = None, save: options.SaveOption = None,
    replications: options.StudyReplicationsOption = None,
    out: options.OutOption = None, overwrite: options.OverwriteOption = False, jobs: options.ProcessesOption = 0,
    executor: options.ExecutorOption = None, scheduler_address: options.AddressOption = "",
    scheduler_file: options.SchedulerFileOption = "", as_json: options.JsonOption = False,
    yes: options.YesOption = False, quiet: options.QuietOption = False,
) -> None:  # fmt: skip
    """Find the best setting, or the best cluster under a budget.

    The result is checked on failures that were not used in the search.
    """
    from ettrick import sim
    from ettrick.analysis.optimize.optimize import optimize as find
    from ettrick.analysis.optimize.optimize import optimum_document
    from ettrick.analysis.page.chapters.optimum import against, format_optimum
    from ettrick.analysis.sweep.sweep import keep

    texts = list(goals(budget, maximize, minimize, precision))
    if save is not None and sim.kind_of(study) == "study":
        refuse(f"--save: only applies to a scenario, and {study} is a study")
    loaded = load_design(study, set_, texts, seed, yes=yes)
    if save is not None:
        save_study(loaded, save, overwrite=overwrite)
        return
    wanted = question_of(explain, seconds, loaded)
    where = where_to_run(executor, jobs, scheduler_address, scheduler_file)
    with running(loaded, where, out, overwrite=overwrite, quiet=quiet or as_json) as place:
        result = find(place.campaign, trials=trials, replications=replications, seconds=seconds)
        content = explained(optimum_document(result, command=command_line()), result, wanted)
        files = keep(place, content, "optimize.json")
    show_document(content, format_optimum, out, files, as_json=as_json)
    end(against(content))

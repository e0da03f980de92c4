"""The command that turns operational logs into a failure model: ettrick fit."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ettrick.analysis.commands import options
from ettrick.analysis.commands.terminal import (
    OutputFolder,
    command_line,
    end,
    in_a_line,
    refuse,
    refuse_temporary_folder,
    say,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ettrick.analysis.logs.pipeline import FitOptions, FitResult, OutcomeOfLives
    from ettrick.analysis.logs.track import TrackedModel
    from ettrick.analysis.logs.weeks import WeekRecord
    from ettrick.analysis.page.model import Report


STALE = (
    "failures-alternative.yaml", "attempts.csv", "fleet.yaml", "fleet-draws.csv", "fleet-study.yaml", "history.yaml",
    "jobs.csv", "phases.csv",
)  # fmt: skip
"""Files of the folder that not every fit writes."""


_Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="Logs (Slurm, Kubernetes, Prometheus, kernel, training, CSV), plain or gzip; - is standard input.",
    ),
]
_Inventory = Annotated[
    str, typer.Option(metavar="FILE", help="CSV of all nodes: node, gpus, rack, in_service, out_of_service.")
]
_Nodes = Annotated[int | None, typer.Option(metavar="N", help="Number of nodes, if there is no inventory.", min=1)]
_Timezone = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ZONE", help="Time zone of local times, such as America/Chicago; for one file, FILE=ZONE. Repeatable."
    ),
]
_Year = Annotated[
    list[str] | None,
    typer.Option(metavar="YEAR", help="Year of the first date without a year; for one file, FILE=YEAR. Repeatable."),
]
_As = Annotated[
    list[str] | None, typer.Option("--as", metavar="FILE=KIND", help="Kind of a file that is not recognized.")
]
_Window = Annotated[
    str, typer.Option(metavar="START/END", help="Observation window.", show_default="the span of the logs")
]
_Without = Annotated[
    list[str] | None, typer.Option(metavar="START/END", help="Time in which nothing was collected. Repeatable.")
]
_Rules = Annotated[str, typer.Option(metavar="FILE", help="Rules of causes, applied before the built-in rules.")]
_SlurmConf = Annotated[
    str, typer.Option("--slurm-conf", metavar="FILE", help="Take partitions and scheduler from a slurm.conf.")
]
_TopologyConf = Annotated[
    str, typer.Option("--topology-conf", metavar="FILE", help="Take the leaf switches from a topology.conf.")
]
_Name = Annotated[str, typer.Option(metavar="NAME", help="Name of the cluster.")]
_Anonymise = Annotated[
    bool, typer.Option("--anonymise", help="Hash all names, also in the tables, and shift times by whole weeks.")
]
_Key = Annotated[Path, typer.Option(metavar="FILE", help="Key for --anonymise, created if missing. Keep it secret.")]
_KeepOrder = Annotated[
    bool, typer.Option("--keep-order", help="With --anonymise: number nodes and racks in their original order.")
]
_Out = Annotated[
    Path | None, options.to_folder("Write failures.yaml, scenario.yaml, tables and the report to this folder.")
]


def fit(
    files: _Logs, inventory: _Inventory = "", nodes: _Nodes = None, timezone: _Timezone = None, year: _Year = None,
    as_: _As = None, window: _Window = "", without: _Without = None, rules: _Rules = "", slurm_conf: _SlurmConf = "",
    topology_conf: _TopologyConf = "", name: _Name = "fitted", anonymise: _Anonymise = False,
    key: _Key = Path("ettrick.key"), keep_order: _KeepOrder = False, out: _Out = None,
    full: options.FullOption = False, as_json: options.JsonOption = False,
    overwrite: options.OverwriteOption = False, quiet: options.QuietOption = False,
) -> None:  # fmt: skip
    """Fit a failure model to logs, with its uncertainty.

    The exit status is 1 if no model can be fitted.
    """
    keep = OutputFolder(out, "fit.json", overwrite=overwrite)
    keep.refuse_others(lambda content: content["name"] == name and ("node_days_up" in content or "batches" in content))
    refuse_temporary_folder()

    from ettrick.analysis.logs import anonymise as hiding
    from ettrick.analysis.page.chapters import fit as chapter

    if topology_conf and not slurm_conf:
        refuse("--topology-conf: needs --slurm-conf")
    request = _request(
        files, as_, window, without, inventory=inventory, zones=timezone or (), nodes=nodes, years=year or (),
        rules=rules, name=name, slurm=slurm_conf, topology=topology_conf,
    )  # fmt: skip
    if keep_order and not anonymise:
        refuse("--keep-order: needs --anonymise")
    with _log_errors_in_a_line():
        if anonymise:
            request = request._replace(hider=hiding.Pseudonymizer(hiding.key_of(key, out), keep_order=keep_order))
        result = _fitted(request, quiet=quiet or as_json)
    reports = _reports(chapter.report(result.document), "report") if out else {}
    keep.write(
        result.document, functools.partial(_fit_text, full=full), {**result.files, **reports}, STALE, as_json=as_json
    )
    if out is not None and not as_json:
        say(f"\n{out}: {', '.join([*result.files, *reports, 'fit.json'])}")


def _fit_text(document: Any, *, full: bool) -> str:
    """Return a fit in words."""
    from ettrick.analysis.page.chapters import fit as chapter
    from ettrick.analysis.page.formats import terminal
    from ettrick.analysis.page.model import in_full

    chapters = [*chapter.screen(document), *in_full(chapter.sections(document, has_pictures=False))]
    return terminal.write(chapters, full=full)


def _fitted(request: FitOptions, *, quiet: bool) -> FitResult | OutcomeOfLives:
    """Return the model that logs show, with bars of reading and of checking it."""
    from ettrick.analysis.logs import pipeline
    from ettrick.analysis.results.run import provenance
    from ettrick.analysis.terminal import ProgressBar

    with ProgressBar("MB of logs", quiet=quiet) as reading, ProgressBar("simulations", quiet=quiet) as checking:
        return pipeline.run(request, provenance(command_line()), reading, checking)


def _request(
    files: Sequence[str], kinds: Sequence[str] | None = None, window: str = "", without: Sequence[str] | None = None,
    **stated: Any,
) -> FitOptions:  # fmt: skip
    """Return what is asked for, or end with one line about an option."""
    from ettrick.analysis.logs import pipeline

    kind_of = {}
    for text in kinds or ():
        name, equals, kind = text.rpartition("=")
        matching = [file for file in files if name in (file, Path(file).name)]
        if not equals or not matching:
            refuse(f"--as {text}: needs FILE=KIND, where FILE is one of the given logs")
        kind_of.update(dict.fromkeys(matching, kind))
    with in_a_line(pipeline.LogError):
        whole = pipeline.spans([window] if window else [], stated["zones"], "--window")
        gaps = pipeline.spans(without or (), stated["zones"], "--without")
    return pipeline.FitOptions(files, kinds=kind_of, window=whole[0] if whole else None, without=gaps, **stated)


@contextlib.contextmanager
def _log_errors_in_a_line() -> Iterator[None]:
    """End with one line about what is wrong with logs or a model, or about why no model follows from them."""
    from ettrick import sim
    from ettrick.analysis.logs import pipeline

    try:
        yield
    except (pipeline.LogError, sim.WorkError) as error:
        refuse(str(error))
    except sim.ScenarioError as error:
        refuse(error.lines[0])
    except pipeline.NoModelError as error:
        end([str(error)])


def _by_kind(files: Sequence[str] | None) -> tuple[list[str], list[Path], list[str]]:
    """Return which of some files are tables of weeks, which are folders of results, and which are logs."""
    from ettrick.analysis.logs.weeks import is_table

    files = files or ()
    tables = [file for file in files if is_table(file)]
    results = [Path(file) for file in files if Path(file).is_dir()]
    return tables, results, [file for file in files if file not in tables and Path(file) not in results]


def _reports(report: Report, name: str) -> dict[str, str]:
    """Return the files of a page, by name."""
    from ettrick.analysis.page.formats import html, markdown

    return {f"{name}.html": html.write(report).decode(), f"{name}.md": markdown.write(report).decode()}


_Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder of the model to compare with, written with --out by fit or run.")
]
_Measured = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="New logs, as for fit; a CSV of weeks; or a folder written by run."),
]
_Job = Annotated[str, typer.Option(metavar="NAME", help="Job to track.", show_default="the first")]
_Since = Annotated[
    str, typer.Option(metavar="MOMENT", help="Start of the first new week.", show_default="end of the last known week")
]
_Watched = Annotated[
    str, typer.Option(metavar="START/END", help="Observation window; weeks without a failure count too.")
]
_Threshold = Annotated[
    float,
    typer.Option(metavar="SHARE", help="Smallest loss of productive time that counts as a regression.", min=0, max=1),
]
_InventoryAsFit = Annotated[str, typer.Option(metavar="FILE", help="CSV of all nodes, as for fit.")]
_NodesAsFit = Annotated[int | None, typer.Option(metavar="N", help="Number of nodes.", min=1)]
_TimezoneAsFit = Annotated[list[str] | None, typer.Option(metavar="ZONE", help="Time zone of local times, as for fit.")]
_YearAsFit = Annotated[list[str] | None, typer.Option(metavar="YEAR", help="Year of dates without a year, as for fit.")]
_RulesAsFit = Annotated[str, typer.Option(metavar="FILE", help="Rules of causes, as for fit.")]


def track(
    folder: _Folder, files: _Measured = None, job: _Job = "", since: _Since = "", window: _Watched = "",
    threshold: _Threshold = 0.02, inventory: _InventoryAsFit = "", nodes: _NodesAsFit = None,
    timezone: _TimezoneAsFit = None, year: _YearAsFit = None, rules: _RulesAsFit = "",
    as_json: options.JsonOption = False, quiet: options.QuietOption = False,
) -> None:  # fmt: skip
    """Compare measured weeks of a cluster with a prediction.

    The weeks are added to weeks.csv in the folder. The exit status is 1 if a regression is confirmed.
    """
    from ettrick.analysis.logs import track as tracking
    from ettrick.analysis.logs import weeks
    from ettrick.analysis.page.chapters import track as chapter
    from ettrick.analysis.page.formats import terminal
    from ettrick.analysis.results.run import provenance
    from ettrick.analysis.terminal import ProgressBar

    if since and window:
        refuse("--since: use --since or --window, not both")
    with _log_errors_in_a_line():
        if not folder.is_dir():
            refuse(f"{folder}: is not a folder")
        keep = OutputFolder(folder, "track.json", overwrite=True, option="")
        keep.refuse_others(lambda _: True)
        model = tracking.TrackedModel(folder, job)
        tables, results, logs = _by_kind(files)
        measured, findings = _weeks_of(
            folder, tables, logs, model, since=since, window=window, quiet=quiet or as_json, zones=timezone or (),
            inventory=inventory, nodes=nodes, years=year or (), rules=rules,
        )  # fmt: skip
        rows = [tracking.result_row(result, model) for result in results] or measured
        if not rows:
            refuse(f"{folder}: no measured weeks yet; pass logs, a CSV of weeks, or a folder from ettrick run")
        with ProgressBar("simulations", quiet=quiet or as_json) as progress:
            content = tracking.track(rows, model, provenance(command_line()), threshold, progress, findings)
    beside = {weeks.WEEKS: weeks.as_csv(measured)} if measured else {}
    beside |= _reports(chapter.report(content), "track")
    keep.write(content, lambda content: terminal.write(chapter.sections(content)), beside, as_json=as_json)
    end([chapter.alarm_text(alarm) for alarm in content.alarms if alarm.confirmed])


def _weeks_of(
    folder: Path, tables: Sequence[str], logs: Sequence[str], model: TrackedModel, *, since: str, window: str,
    quiet: bool, **stated: Any,
) -> tuple[list[WeekRecord], list[str]]:  # fmt: skip
    """Return the weeks of a folder, of some tables and of new logs, and what was found out about the logs."""
    from ettrick.analysis.logs import pipeline, weeks
    from ettrick.analysis.logs.track import measured_rows
    from ettrick.analysis.terminal import ProgressBar

    rows: list[WeekRecord] = []
    for table in (*filter(Path.is_file, [folder / weeks.WEEKS]), *map(Path, tables)):
        rows = weeks.joined(rows, weeks.rows_of(table))
    if not logs:
        return rows, []
    request = _request(logs, window=window, **stated)
    after = pipeline.moment(since, stated["zones"]) if since else weeks.last_known(folder, rows)
    with ProgressBar("MB of logs", quiet=quiet) as reading:
        more, findings = measured_rows(request, model, after, reading)
    return weeks.joined(rows, more), findings

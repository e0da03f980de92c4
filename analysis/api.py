"""The public Python API: what commands do, as functions with typed results.

Everything else may change from one release to the next. Modules are imported when a function needs them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import html
import importlib
import json
import re
import shlex
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ettrick.analysis.page.model import Report
    from ettrick.analysis.parts import Document
    from ettrick.analysis.results.fitted import FitDocument
    from ettrick.analysis.results.models import CompareDocument, RunDocument
    from ettrick.analysis.results.studies import SweepDocument
    from ettrick.sim import Prepared, Result, Scenario

__all__ = ["Plot", "Results", "compare", "fit", "load", "prepare", "report", "run", "simulate", "sweep"]
DocumentT = TypeVar("DocumentT", bound="Document")
_STATISTICS = ("mean", "mean_low95", "mean_high95", "std", "p05", "p50", "p95")

_SHOWN = 40
"""Rows of a table in a notebook at most."""

_WORDS = (
    (r"--vary KEY=A,B with two values or more", "two values or more of a key to vary"),
    (r"(for example) --(?:set|vary)", r"\1"),
    (r"--as (\S+)=(\w+)", r"kinds={'\1': '\2'}"),
    (r"--timezone (\w+/\w+)", r"timezone=['\1']"),
    (r"--yes \((\w+) in Python\)", r"\1"),
    (r"--(inventory|nodes) [A-Z]+\b", r"\1"),
    (r"--set\b", "changes"),
    (r"--(vary|timezone|inventory|nodes)\b", r"\1"),
)
"""The options of commands as errors call them, and the words for them here."""


@contextlib.contextmanager
def _reported(name: str = "", wanted: str = "") -> Iterator[None]:
    """Name parameters in errors instead of options, and the function for a file of another kind."""
    from ettrick.sim.records import LogError

    try:
        yield
    except LogError as error:
        raise ValueError(_worded(str(error))) from None
    except ValueError as error:
        if hasattr(error, "lines"):
            from ettrick.sim import kind_of

            kind = kind_of(name) if name else ""
            if kind and kind != wanted:
                use = "sweep" if kind == "study" else "simulate"
                raise ValueError(f"{name}: is a {kind}, not a {wanted}: use {use}") from None
            error.lines = tuple(map(_worded, error.lines))
        error.args = tuple(_worded(part) if isinstance(part, str) else part for part in error.args)
        raise


def _worded(text: str) -> str:
    for option, word in _WORDS:
        text = re.sub(option, word, text)
    return text


def load(scenario: str | Path, changes: Mapping[str, Any] | Iterable[str] = ()) -> Scenario:
    """Read a scenario.

    Parameters
    ----------
    scenario : str or Path
        A file, or the name of a bundled scenario.
    changes : mapping or iterable of str
        Values to replace, as with ``--set``: ``{"spares.hot": 4, "horizon": "90 d"}`` or ``["spares.hot=4"]``.

    Returns
    -------
    Scenario
        The content of the file, checked; times [s], sizes [B].

    Raises
    ------
    ValueError
        With one line for each mistake: file, place, rule and nearest valid value.
    """
    from ettrick import sim

    with _reported(str(scenario), "scenario"):
        return sim.load(sim.find(str(scenario)), _texts(changes))


@_reported()
def prepare(scenario: str | Path | Scenario) -> Prepared:
    """Compute once what all replications of a scenario share.

    Parameters
    ----------
    scenario : str, Path or Scenario
        As for `load`, or the result of `load`.

    Returns
    -------
    Prepared
        The input of `run` and `simulate`; its ``warnings`` name values that are valid but costly.

    Raises
    ------
    ValueError
        If the scenario is inconsistent, or a job does not fit into the memory of its GPUs.
    """
    from ettrick import sim

    return sim.prepare(load(scenario) if isinstance(scenario, str | Path) else scenario)


@_reported()
def run(prepared: Prepared, replication: int = 0, *, most_events: float = 1e8) -> Result:
    """Simulate one replication.

    Parameters
    ----------
    prepared : Prepared
        From `prepare`.
    replication : int
        Number of the replication, from 0 [-]; each can be run on its own and always gives the same result.
    most_events : float
        Largest number of expected events that is allowed [-].

    Returns
    -------
    Result
        GPU-time by bucket and cause [GPU s], counts of events, and the jobs.

    Raises
    ------
    ValueError
        If more events are expected.
    """
    from ettrick import sim

    return sim.run(prepared, replication, most_events=most_events)


@_reported()
def simulate(
    scenario: str | Path | Scenario | Prepared,
    replications: int | None = None,
    *,
    precision: str | None = None,
    metric: str | None = None,
    processes: int = 1,
    most_events: float = 1e8,
) -> Results[RunDocument]:
    """Simulate a scenario: what ``ettrick run`` finds.

    Parameters
    ----------
    scenario : str, Path, Scenario or Prepared
        As for `load`, or the result of `load` or `prepare`.
    replications : int, optional
        Number of replications [-]. [default: 32; 8 for streams]
    precision : str, optional
        Replicate until the half-width of the 95 % interval of `metric` is at most this: ``"0.1pt"`` or ``"2%"``.
    metric : str, optional
        Metric of `precision`. [default: ``ettr``; ``slo_attainment`` if there are only services]
    processes : int
        Largest number of worker processes [-]; 0: one per core. With more than one, a script needs the guard
        ``if __name__ == "__main__":``. The numbers do not depend on it.
    most_events : float
        Largest number of expected events of all replications that is allowed [-].

    Returns
    -------
    Results of RunDocument
        A row for each metric.

    Raises
    ------
    ValueError
        As for `load` and `prepare`, or if `precision` or `metric` does not apply to the scenario.

    References
    ----------
    The intervals are explained in :doc:`/explanation/how-sure`.
    """
    from ettrick.analysis.contest import runs
    from ettrick.analysis.contest.precision import Precision
    from ettrick.analysis.results.run import document
    from ettrick.sim import Prepared, dump

    prepared = scenario if isinstance(scenario, Prepared) else prepare(scenario)
    count = replications if replications is not None else runs.replications_of(prepared)
    _check_count(count, 1)
    _check_count(processes, 0, "processes")
    wanted = Precision.parse(precision) if precision is not None else None
    ensemble = runs.replicate(
        prepared, count, precision=wanted, metric=metric, processes=processes, most_events=most_events
    )
    name = "scenario.resolved.yaml"
    content = document(ensemble, command=f"ettrick run {name} --replications {len(ensemble.rows)}")
    return _in_memory("run", content, {name: dump(prepared.scenario.dump())})


@_reported()
def compare(
    scenarios: str | Path | Sequence[str | Path],
    vary: Mapping[str, Sequence[Any]] | Iterable[str] = (),
    changes: Mapping[str, Any] | Iterable[str] = (),
    replications: int = 32,
    *,
    processes: int = 1,
    most_events: float = 1e8,
) -> Results[CompareDocument]:
    """Simulate variants on the same failures: what ``ettrick compare`` finds.

    Parameters
    ----------
    scenarios : str, Path or sequence
        Files, or names of bundled scenarios.
    vary : mapping or iterable of str
        Values of each key: ``{"spares.hot": [0, 4, 16]}`` or ``["spares.hot=0,4,16"]``; all combinations are variants.
    changes : mapping or iterable of str
        Values to replace in all variants, as for `load`.
    replications : int
        Number of replications of each variant [-], at least 2.
    processes, most_events : int, float
        As for `simulate`.

    Returns
    -------
    Results of CompareDocument
        A row for each variant and metric, with the difference to the first variant and its 95 % interval.

    Raises
    ------
    ValueError
        If there is nothing to compare, or fewer than two variants can run.
    """
    from ettrick.analysis.contest import variants
    from ettrick.analysis.contest.compare import compare as compare_variants
    from ettrick.sim.yamlfile import value_text

    _check_count(replications, 1)
    _check_count(processes, 0, "processes")
    names = [str(name) for name in ([scenarios] if isinstance(scenarios, str | Path) else scenarios)]
    if isinstance(vary, Mapping):
        vary = [f"{key}={','.join(map(value_text, values))}" for key, values in vary.items()]
    wishes = variants.recipes(names, list(vary), _texts(changes))
    loaded = variants.load_variants(wishes)
    ready = variants.prepared(loaded)
    if len(ready) < 2:
        raise ValueError("; ".join(f"{name}: cannot run: {line}" for name, line in loaded.cannot_run.items()))
    comparison = compare_variants(ready, replications, processes=processes, most_events=most_events)
    files = variants.resolved_files(loaded.scenarios)
    command = f"ettrick compare {' '.join(files)} --replications {replications}"
    content = variants.document_of(comparison, wishes, loaded, command=command)
    return _in_memory("compare", content, files)


@_reported()
def sweep(
    study: str | Path,
    changes: Mapping[str, Any] | Iterable[str] = (),
    replications: int | None = None,
    *,
    out: str | Path | None = None,
    processes: int = 1,
    most_events: float = 1e8,
) -> Results[SweepDocument]:
    """Simulate all points of a study and answer its questions: what ``ettrick sweep`` finds.

    Parameters
    ----------
    study : str or Path
        A file, or the name of a bundled study.
    changes : mapping or iterable of str
        Values to replace in the study, as for `load`.
    replications : int, optional
        Number of replications of each point [-]. [default: as in the study]
    out : str or Path, optional
        Folder for all results; the same call again simulates only what is missing there.
    processes, most_events : int, float
        As for `simulate`.

    Returns
    -------
    Results of SweepDocument
        A row for each combination of values and metric.

    Raises
    ------
    ValueError
        With one line for each mistake in the study, or if the folder contains other results.
    """
    from ettrick import sim
    from ettrick.analysis.page.chapters.answers import sentences_of
    from ettrick.analysis.study import load as studies
    from ettrick.analysis.sweep.sweep import run_sweep, workplace
    from ettrick.analysis.sweep.workers import ExecutorOptions

    if replications is not None:
        _check_count(replications, 2)
    _check_count(processes, 0, "processes")
    texts = tuple(_texts(changes))
    with _reported(str(study), "study"):
        loaded = studies.load_study(studies.find_study(str(study)), texts, replications=replications)
        mistakes = studies.first_look(loaded) or studies.against_metrics(loaded)
        if mistakes:
            raise sim.ScenarioError(mistakes)
    loaded = dataclasses.replace(loaded, most_events=most_events)
    folder = Path(tempfile.mkdtemp(prefix="ettrick-")) if out is None else Path(out)
    line = ["ettrick", "sweep", str(study), *(word for text in texts for word in ("--set", text))]
    where = ExecutorOptions("serial") if processes == 1 else ExecutorOptions("process", processes)
    with contextlib.ExitStack() as stack:
        if out is None:  # a folder of our own goes away with the results
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        with workplace(loaded, where, lambda _done, _total: None, out=folder) as place:
            content, _ = run_sweep(place, shlex.join(line), sentences_of)
        copy = functools.partial(shutil.copytree, folder, dirs_exist_ok=True)
        results = Results("sweep", content, copy, folder)
        weakref.finalize(results, stack.pop_all().close)
    return results


@_reported()
def fit(
    logs: str | Path | Sequence[str | Path],
    *,
    inventory: str | Path = "",
    nodes: int | None = None,
    timezone: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    name: str = "fitted",
) -> Results[FitDocument]:
    """Fit a failure model to operational logs: what ``ettrick fit`` finds.

    Parameters
    ----------
    logs : str, Path or sequence
        Files, plain or gzip.
    inventory : str or Path
        CSV of all nodes: ``node, gpus, rack, in_service, out_of_service``.
    nodes : int, optional
        Number of nodes [-], if there is no inventory.
    timezone : sequence of str
        Time zone of local times, such as ``America/Chicago``; for one file, ``FILE=ZONE``.
    kinds : mapping, optional
        Kind of each file that is not recognised, by file.
    name : str
        Name of the cluster.

    Returns
    -------
    Results of FitDocument
        A row for each cause: outages per 1000 node-days in service, with the 95 % interval. `Results.save` writes
        ``failures.yaml`` and ``scenario.yaml``.

    Raises
    ------
    ValueError
        If a file cannot be read, or no model can be fitted.
    """
    from ettrick.analysis.logs import pipeline
    from ettrick.analysis.results.fitted import LivesDocument
    from ettrick.analysis.results.run import provenance
    from ettrick.sim.records import LogError

    files = [str(path) for path in ([logs] if isinstance(logs, str | Path) else logs)]
    if not files:
        raise ValueError("logs: must name one file or more")
    request = pipeline.FitOptions(files, str(inventory), list(timezone), dict(kinds or {}), nodes, name=name)
    result = pipeline.run(request, provenance(shlex.join(["ettrick", "fit", *files])))
    if isinstance(result.document, LivesDocument):
        raise LogError(f"{files[0]}: holds lives of parts; fit them with: ettrick fit")
    return _in_memory("fit", result.document, result.files)


def report(results: Results[Any] | str | Path, path: str | Path) -> Path:
    """Write a report of results: what ``ettrick report`` writes.

    Parameters
    ----------
    results : Results, str or Path
        The result of a function, or a folder that `Results.save` or a command with ``--out`` wrote.
    path : str or Path
        Path of the report; it ends in ``.html``, ``.md`` or ``.pptx``.

    Returns
    -------
    Path
        The report.

    Raises
    ------
    ValueError
        If the folder contains no results, or the path ends otherwise.
    OSError
        If the file cannot be written.
    """
    from ettrick.analysis.page.build import FORMATS

    target = Path(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise ValueError(f"{target}: must end in .{', .'.join(list(FORMATS)[:-1])} or .{list(FORMATS)[-1]}")
    page = results._report if isinstance(results, Results) else _report_of(Path(results))
    target.write_bytes(FORMATS[kind](page))
    return target


@dataclass(frozen=True, repr=False)
class Plot:
    """A picture of results, a matplotlib figure with a title; a notebook shows it."""

    title: str
    figure: Any

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file that ends in ``.svg``, ``.png`` or ``.pdf``, and return its path."""
        from ettrick.analysis.page import charts

        target = Path(path)
        if target.suffix.lower() not in charts.SUFFIXES:
            raise ValueError(f"{target}: must end in {', '.join(charts.SUFFIXES)}")
        target.write_bytes(charts.render(self.figure, target.suffix.lower()))
        return target

    def __repr__(self) -> str:
        return f"Plot({self.title!r})"

    def _repr_svg_(self) -> str:
        from ettrick.analysis.page import charts

        return charts.render(self.figure, ".svg").decode()


@dataclass(frozen=True, repr=False, eq=False)
class Results(Generic[DocumentT]):
    """A typed result of a function: the same document as JSON, as a table, as pictures.

    Attributes
    ----------
    kind : str
        ``run``, ``compare``, ``sweep`` or ``fit``.
    document : RunDocument, CompareDocument, SweepDocument or FitDocument
        Frozen, with the keys of :doc:`/reference/json`; times [s], GPU-time [GPU s], shares [-].
    """

    kind: str
    document: DocumentT
    _write: Callable[[Path], object]
    _folder: Path | None = None

    def to_json(self) -> str:
        """Return the document as JSON: what the command prints with ``--json``."""
        from ettrick.analysis.results.run import render

        return render(self.document)

    def to_dict(self) -> dict[str, Any]:
        """Return the document as plain Python data, as parsed from its JSON."""
        content: dict[str, Any] = json.loads(self.to_json())
        return content

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the results as a long table: a list for each column, all of one length.

        The first columns name the ``job``, ``variant``, axis value or ``cause`` of a row, then comes ``metric``. Values
        of numeric axes are in SI units. Units are those of :doc:`/reference/metrics`: times [s], shares [-]; ``None``
        means that the data do not support a number.
        """
        rows = list(_ROWS[self.kind](self.document))
        return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}

    def to_dataframe(self) -> Any:
        """Return `to_columns` as a pandas data frame; numbers that the data do not support are NaN.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise ImportError("to_dataframe needs pandas (pip install pandas); to_columns does not") from None
        columns = self.to_columns()
        numbers = [name for name, values in columns.items() if not any(isinstance(value, str) for value in values)]
        frame = pandas.DataFrame(columns)
        return frame.astype(dict.fromkeys((name for name in numbers if None in columns[name]), float))

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the results to a folder, as a command with ``--out`` does, and return its path.

        Raises
        ------
        FileExistsError
            If the folder is not empty and `overwrite` is false.
        """
        target = Path(folder)
        if target.exists() and not overwrite and any(target.iterdir()):
            raise FileExistsError(f"{target}: is not empty; choose another folder, or pass overwrite=True")
        self._write(target)
        return target

    def plots(self) -> dict[str, str]:
        """Return the titles of all pictures of the report, by name."""
        return {name: picture.title for name, picture in self._report.pictures.items()}

    def plot(self, name: str | None = None) -> Plot:
        """Return a picture of the report by name; the first picture by default.

        Raises
        ------
        ValueError
            If there is no such picture; the message lists the names.
        """
        from ettrick.analysis.page import charts
        from ettrick.sim.yamlfile import suggest

        pictures = self._report.pictures
        chosen = next(iter(pictures), "") if name is None else name
        if chosen not in pictures:
            raise ValueError(f"unknown picture '{chosen}'{suggest(chosen, pictures, most=len(pictures))}")
        return Plot(pictures[chosen].title, charts.draw(pictures[chosen].chart))

    @functools.cached_property
    def _report(self) -> Report:
        if self._folder is not None:
            return _report_of(self._folder)
        with tempfile.TemporaryDirectory(prefix="ettrick-") as passing:
            self._write(Path(passing) / self.kind)
            return _report_of(Path(passing) / self.kind)

    def __repr__(self) -> str:
        rows = len(next(iter(self.to_columns().values()), ()))
        return f"Results(kind={self.kind!r}, rows={rows})"

    def _repr_html_(self) -> str:
        columns = self.to_columns()
        heads = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        rows = list(zip(*columns.values(), strict=True))
        body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows[:_SHOWN])
        more = f"<p>{len(rows) - _SHOWN:,} more rows</p>" if len(rows) > _SHOWN else ""
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return html.escape(text)


def _report_of(folder: Path) -> Report:
    from ettrick.analysis.page.build import report_of
    from ettrick.analysis.page.report_data import ReportError, damage_in_a_line

    try:
        with damage_in_a_line(folder):
            return report_of(folder)
    except ReportError as error:
        raise ReportError(f"{folder}: {error}") from None


def _in_memory(kind: str, content: DocumentT, files: Mapping[str, str]) -> Results[DocumentT]:
    """Return results whose folder is written when somebody asks for it."""

    def write(folder: Path) -> None:
        from ettrick.analysis.results.files import write_folder
        from ettrick.analysis.results.run import render

        complaint = write_folder(folder, {**files, f"{kind}.json": render(content) + "\n"})
        if complaint is not None:
            raise OSError(f"{folder}: {complaint}")

    return Results(kind, content, write)


# Rows of tables.


def _statistics(summary: Any) -> dict[str, float | None]:
    low, high = (summary and summary.mean_ci95) or (None, None)
    values = (summary and summary.mean, low, high, *(summary and getattr(summary, name) for name in _STATISTICS[3:]))
    return dict(zip(_STATISTICS, values, strict=True))


def _run_rows(document: RunDocument) -> Iterator[dict[str, Any]]:
    for job, metrics in {"": document.metrics, **{name: row.metrics for name, row in document.per_job.items()}}.items():
        if not job or len(document.per_job) > 1:
            for name, summary in metrics.items():
                yield {"job": job, "metric": name, **_statistics(summary)}


def _compare_rows(document: CompareDocument) -> Iterator[dict[str, Any]]:
    for variant, row in document.variants.items():
        for name, summary in row.metrics.items():
            apart = row.difference.get(name)
            low, high = (apart and apart.ci95) or (None, None)
            more = {"difference": apart and apart.mean, "difference_low95": low, "difference_high95": high}
            yield {"variant": variant, "metric": name, **_statistics(summary), **more}


def _sweep_rows(document: SweepDocument) -> Iterator[dict[str, Any]]:
    axes = {name for name in document.axes if all(cell.numbers.get(name) is not None for cell in document.cells)}
    for cell in document.cells:
        values = {name: cell.numbers[name] if name in axes else label for name, label in cell.values.items()}
        for name in document.metrics:
            yield {**values, "metric": name, **_statistics(cell.metrics.get(name))}


def _fit_rows(document: FitDocument) -> Iterator[dict[str, Any]]:
    for row in document.causes:
        rate = {"rate": row.rate.value, "rate_low95": row.rate.low, "rate_high95": row.rate.high}
        yield {"cause": row.name, "fault": row.fault, "events": row.events, **rate, "method": row.method}


_ROWS: dict[str, Callable[[Any], Iterator[dict[str, Any]]]] = {
    "run": _run_rows,
    "compare": _compare_rows,
    "sweep": _sweep_rows,
    "fit": _fit_rows,
}


# Arguments.


def _texts(changes: Mapping[str, Any] | Iterable[str]) -> list[str]:
    """Return changes as ``--set`` takes them."""
    if isinstance(changes, str):
        raise TypeError(f"changes: a mapping or a list of texts, such as [{changes!r}], not one text")
    if isinstance(changes, Mapping):
        from ettrick.sim.yamlfile import value_text

        return [f"{key}={value_text(value)}" for key, value in changes.items()]
    return list(changes)


def _check_count(count: int, least: int, name: str = "replications") -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < least:
        raise ValueError(f"{name}: must be a whole number from {least}, got {count!r}")

"""The whole way from log files to a folder with a model: read, join, estimate, check, write."""

from __future__ import annotations

import contextlib
import math
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick import sim
from ettrick.analysis.amounts import name_of, number_of, percent_text
from ettrick.analysis.logs import anonymise, check, lives, slurm_conf, workload, write
from ettrick.analysis.logs.events import blame, build, incidents
from ettrick.analysis.logs.fit import FittedModel, curve, exposure_until, fit
from ettrick.analysis.logs.formats import read_files, zone_of
from ettrick.analysis.logs.tables import NoModelError, ReaderContext, Rules, Tables
from ettrick.analysis.results.fitted import BacktestSummary, CostSummary, CurveSummary, FitDocument, LivesDocument
from ettrick.sim import yamlfile
from ettrick.sim.moments import Moments
from ettrick.sim.records import HostLists, LogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ettrick.analysis.logs.events import History
    from ettrick.analysis.results.models import Provenance

    Progress = Callable[[int, int | None], None]

COSTS, FEWEST_COSTS = 16, 4
"""Runs of the scenario that say what the failures cost, and how many at least, however long each takes."""


class FitOptions(NamedTuple):
    """The options of a fit as the command has them, with moments in seconds since 1970."""

    files: Sequence[str]
    inventory: str = ""
    zones: Sequence[str] = ()
    kinds: Mapping[str, str] = {}
    nodes: int | None = None
    window: tuple[float, float] | None = None
    without: Sequence[tuple[float, float]] = ()
    rules: str = ""
    name: str = "fitted"
    simulations: int = check.SIMULATIONS
    slurm: str = ""
    topology: str = ""
    hider: anonymise.Pseudonymizer | None = None
    years: Sequence[str] = ()


class FitResult(NamedTuple):
    """The document, the files next to it by name, and the tables that they are made of."""

    document: FitDocument
    files: dict[str, str]
    fitted: FittedModel
    tables: Tables


class OutcomeOfLives(NamedTuple):
    """The same of a table of lives."""

    document: LivesDocument
    files: dict[str, str]


def read_rules(file: str = "") -> Rules:
    """Return the rules that come with Ettrick, those of a user's file before them.

    Raises
    ------
    LogError
        If the file cannot be read, or is not of the form of ours.
    """
    content = yamlfile.load(Path(__file__).parent / "rules.yaml").data
    if not file:
        return Rules(content)
    try:
        more = yamlfile.load(Path(file)).data
        unknown = sorted(set(more) - set(content))
        if not unknown:
            return Rules(content, more)
    except yamlfile.DocumentError as error:
        raise LogError(f"{file}: {error}") from None
    except (re.error, KeyError, TypeError, AttributeError, ValueError) as error:
        raise LogError(f"{file}: is not of the form of rules: {type(error).__name__} {error}") from None
    raise LogError(f"{file}: unknown key '{unknown[0]}'{yamlfile.suggest(unknown[0], content)}")


def read(request: FitOptions, progress: Progress = lambda _done, _total: None) -> tuple[Tables, ReaderContext]:
    """Read all files of a request."""
    tables = Tables()
    reading = ReaderContext(tables, read_rules(request.rules), HostLists())
    kinds = {**request.kinds, **({request.inventory: "inventory"} if request.inventory else {})}
    files = [*filter(None, [request.inventory]), *request.files]
    read_files(files, reading, request.zones, kinds, progress, request.years)
    return tables, reading


def history_of(request: FitOptions, tables: Tables, reading: ReaderContext) -> History:
    """Return the history of every node that the files of a request say something of."""
    with _with_reason(tables):
        return build(tables, reading.hosts, request.nodes, request.window, request.without)


@contextlib.contextmanager
def _with_reason(tables: Tables) -> Iterator[None]:
    """Add to why there is no model the commonest reason for which lines were not used."""
    try:
        yield
    except NoModelError as error:
        reason = tables.commonest(sorts=("unusable", "unread"))
        if reason is None:
            raise
        lines = f"{reason.source}:{reason.first}: {number_of(reason.number, 'line')} not used: {reason.rule}"
        raise NoModelError(f"{error}; {lines}") from None


def run(
    request: FitOptions,
    provenance: Provenance,
    reading_progress: Progress = lambda _done, _total: None,
    progress: Progress = lambda _done, _total: None,
) -> FitResult | OutcomeOfLives:
    """Fit a failure model to logs, check it, and make all files of its folder but the document and the report.

    A table of lives of parts is fitted by itself.

    Raises
    ------
    LogError
        If a file cannot be read.
    NoModelError
        If no model can be fitted.
    """
    site = _site(request)
    tables, reading = read(request, reading_progress)
    if any(source.kind == "lives" for source in tables.sources):
        return _of_lives(request, tables, provenance)
    history = history_of(request, tables, reading)
    _check_sizes(tables, history, reading.hosts)
    together = incidents(history)
    whose = blame(tables, history, reading.rules, reading.hosts) if tables.attempts else None
    if request.hider is not None:
        anonymise.of_tables(tables, history, reading.hosts, reading.rules.cause_names, request.hider)
        site = anonymise.of_site(site, request.hider) if site is not None else None
        provenance = provenance.model_copy(update={"command": "ettrick fit --anonymise"})
    tables.findings += site.contradictions(history.nodes) if site is not None else []
    with _with_reason(tables):
        fitted = fit(tables, history, together, whose, reading.rules, request.name, provenance)
    # Only tables name nodes, users and jobs; what a document, a bundle and a report say leaves the folder.
    fitted = replace(fitted, document=anonymise.of_document(fitted.document, tables))
    return _checked(fitted, tables, site, request.simulations, progress)


def _site(request: FitOptions) -> slurm_conf.SlurmScenario | None:
    """Return what the files of Slurm say; ``None`` without them."""
    try:
        topology = Path(request.topology) if request.topology else None
        return slurm_conf.site(Path(request.slurm), topology) if request.slurm else None
    except slurm_conf.SlurmError as error:
        raise LogError(str(error)) from None


def _checked(
    fitted: FittedModel, tables: Tables, site: slurm_conf.SlurmScenario | None, simulations: int, progress: Progress
) -> FitResult:
    """Return the fit with its files, compared with what simulations of the model, and of the jobs, give."""
    history = fitted.history
    traces, swings, more = check.of_model(fitted, simulations, progress)
    entries = write.sources(fitted, swings=swings)
    checks = check.compare(check.trace_of(history), traces, has_ends=history.has_ends)
    alternative = write.sources(fitted, fitted.verdict.alternative, swings) if fitted.verdict.alternative else None
    load = workload.workload(fitted, tables, site)
    files = write.files(fitted, tables, entries, alternative, load, site)
    cost, backtest, of_scenarios = _simulations(fitted, load, files, progress)
    outside = [
        f"{row.name}: {row.data:.3g} in the data, {row.low:.3g} to {row.high:.3g} in simulations of the model"
        for row in checks
        if not row.inside
    ]
    document = fitted.document.model_copy(
        update={
            "checks": checks,
            "simulated": len(traces),
            "swings": {"days": swings[0], "cv": swings[1]},
            "curves": _curves(history, traces) if traces else {},
            "cost": cost,
            "streams": [] if load is None else load.streams,
            "backtest": backtest,
            "findings": [*fitted.document.findings, *outside, *more, *of_scenarios],
        }
    )
    return FitResult(document, files, fitted, tables)


def _of_lives(request: FitOptions, tables: Tables, provenance: Provenance) -> OutcomeOfLives:
    """Return the fit of a table of lives, which no other log goes with."""
    strange = [source.file for source in tables.sources if source.kind not in ("lives", "inventory")]
    if strange:
        raise LogError(f"{strange[0]}: lives of parts are fitted by themselves; fit the other logs without them")
    if request.hider is not None:
        raise LogError("--anonymise: what is written about lives of parts has no serial number; fit them without it")
    document = lives.fit(tables, request.name, request.window, provenance)
    return OutcomeOfLives(document, lives.files(document, tables))


def _check_sizes(tables: Tables, history: History, hosts: HostLists) -> None:
    """Count the nodes of attempts by their names where no column does, and leave out those of more than there are."""
    nodes, gpus = len(history.nodes), max(int(history.gpus.sum()), len(history.nodes))
    attempts = []
    for attempt in tables.attempts:
        if not attempt.node_count and attempt.nodes:
            with contextlib.suppress(ValueError):  # a list that was cut
                attempt.node_count = len(hosts.expand(attempt.nodes))
        if attempt.node_count > nodes or (history.gpus.any() and attempt.gpus > gpus):
            tables.drop(attempt.file, "a job larger than all nodes", attempt.line)
        else:
            attempts.append(attempt)
    tables.attempts[:] = attempts


def _curves(history: History, traces: list[check.Faults]) -> dict[str, CurveSummary]:
    """Return the outages per node up to each day, and the gaps of the cluster, with the range of simulations."""
    days = (history.end - history.start) / 86400
    data = check.trace_of(history)
    edges = np.linspace(0, days, 61)
    watched = np.diff(exposure_until(history, history.start + edges * 86400)) / 86400

    gaps = np.diff(np.sort(data.start))
    places = np.unique(np.concatenate(([0.0], np.quantile(gaps, np.linspace(0, 1, 60))))) if len(gaps) else np.zeros(1)

    def cumulative(trace: check.Faults) -> Any:
        return lives.mean_cumulative(trace.start, edges, watched)

    def longer(trace: check.Faults) -> Any:
        gaps = np.sort(np.diff(np.sort(trace.start)))
        return 1 - np.searchsorted(gaps, places, side="right") / max(len(gaps), 1)

    return {"cumulative": curve(edges, cumulative, data, traces), "gaps": curve(places, longer, data, traces)}


def _simulations(
    fitted: FittedModel, load: workload.SiteWorkload | None, files: Mapping[str, str], progress: Progress
) -> tuple[CostSummary | None, list[BacktestSummary], list[str]]:
    """Return what the failures cost and the backtest, by running what is written, and what to know of them."""
    cost, backtest = None, []
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for file, text in files.items():
                (folder / file).write_text(text, encoding="utf-8")
            cost = _cost(folder, fitted.document, progress)
            backtest = [] if load is None else workload.backtest(fitted, load, folder, progress)
    except (sim.ScenarioError, sim.PathError, sim.WorkError) as error:
        return cost, [], [f"no backtest, as the jobs cannot be simulated: {error}", *_against_replay(cost)]
    except OSError as error:  # the work is done: what it gave is worth more than what it costs
        return cost, [], [
            f"what the failures cost, and a backtest, are missing: the folder for temporary files cannot be used "
            f"({error}); TMPDIR names another one"
        ]  # fmt: skip
    return cost, backtest, [*workload.findings(backtest), *_against_replay(cost)]


def _cost(folder: Path, document: FitDocument, progress: Progress) -> CostSummary | None:
    """Return what the failures cost, by running what was written; ``None`` if the job does not fit into the cluster."""
    from ettrick.analysis.contest.precision import ReplicationsError

    goodputs: dict[str, Any] = {}
    for at, name in enumerate((write.SCENARIO, "replay.yaml")):
        try:
            prepared = sim.with_engine(sim.prepare(sim.load(folder / name)), COSTS)
            count = check.affordable(prepared, COSTS, FEWEST_COSTS)
            goodputs[name] = _goodputs(prepared, count, at * count, progress)
        except (sim.ScenarioError, sim.WorkError, ReplicationsError):
            return None
        gpus = prepared.jobs[0].gpus
    model, outages = goodputs[write.SCENARIO], goodputs["replay.yaml"]
    if not model or not outages:
        return None
    training, mean = document.training, float(np.mean(model))
    return CostSummary(
        metric="ettr", model=mean, p05=float(np.quantile(model, 0.05)),
        p95=float(np.quantile(model, 0.95)), replay=float(np.mean(outages)),
        replay_p05=float(np.quantile(outages, 0.05)), replay_p95=float(np.quantile(outages, 0.95)),
        measured=training.goodput if training is not None else None,
        measured_in_time=training.goodput_in_time if training is not None else None, replications=len(model),
        lost_gpu_hours=(1 - mean) * gpus * 24 * document.days,
    )  # fmt: skip


def _goodputs(prepared: sim.Prepared, count: int, done: int, progress: Progress) -> list[float]:
    """Return the ETTR of each of some runs in which the job asked for nodes.

    Where all outages are recorded and the first runs are the same, nothing is drawn: the others would be the same too.
    """
    from ettrick.analysis.ratios import ratios

    is_recorded = all(source.recorded is not None for source in prepared.sources)
    values: list[float] = []
    for number in range(count):
        if is_recorded and number >= FEWEST_COSTS and len(set(values)) == 1:
            values.append(values[0])
        else:
            ratio = ratios(prepared, sim.run(prepared, number))["ettr"]
            values += [ratio.amount / ratio.base] if ratio.base else []
        progress(done + number + 1, 2 * count)
    return values


def _against_replay(cost: CostSummary | None) -> list[str]:
    """Return a finding where the outages as they were cost more or less than the variability of single runs allows."""
    if cost is None or cost.model is None or cost.replay is None or cost.p05 is None or cost.p95 is None:
        return []
    # Of 16 runs the quantiles lie 1.645 standard deviations from the mean; a new one is within 2.2 in 95 %.
    reach = 2.2 * max(cost.p95 - cost.p05, 1e-4) / (2 * 1.645)
    if abs(cost.model - cost.replay) <= reach:
        return []
    low, high = (percent_text(min(max(end, 0.0), 1.0), 1) for end in (cost.model - reach, cost.model + reach))
    return [
        f"{name_of(cost.metric)} of the largest job: {percent_text(cost.replay, 1)} with the outages as they were, "
        f"{low} to {high} with the model"
    ]


def moment(text: str, zones: Sequence[str]) -> float:
    """Return a moment of an option [s since 1970]."""
    zone = zone_of("", zones)
    try:
        return Moments(zone, text).read(text, 0)
    except LogError:
        raise LogError(f"'{text}' has no offset from UTC, and no --timezone holds for all files") from None
    except ValueError:
        raise LogError(f"'{text}' is not a time such as 2025-02-03T08:11:40Z") from None


def spans(texts: Sequence[str], zones: Sequence[str], option: str) -> list[tuple[float, float]]:
    """Return stretches of time that an option states as START/END [s since 1970]."""
    result = []
    for text in texts:
        begin, slash, end = text.partition("/")
        if not slash:
            raise LogError(f"{option} {text}: needs two times, START/END")
        try:
            low, high = moment(begin, zones), moment(end, zones)
        except LogError as error:
            raise LogError(f"{option} {text}: {error}") from None
        if not low < high or not math.isfinite(high):
            raise LogError(f"{option} {text}: ends before it starts")
        result.append((low, high))
    return result


__all__ = ["FitOptions", "FitResult", "LogError", "NoModelError", "history_of", "read", "run", "spans"]

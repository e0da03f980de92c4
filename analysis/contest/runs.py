"""Replications of scenarios on all cores: of one scenario, or of variants side by side, until there are enough.

`replicated` is the contest of variants: one loop over replications, for a run as for a comparison. `replicate` is that
of a single scenario. `band` simulates a run again with other failure rates.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import gc
import itertools
import math
import os
import signal
import threading
import time
import warnings
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ettrick.analysis.contest.precision import BATCH, FEWEST, MOST, Precision, Pursuit, ReplicationsError, pursue
from ettrick.analysis.metrics import headline, is_exact
from ettrick.analysis.ratios import ratios
from ettrick.analysis.results.ensemble import Ensemble
from ettrick.analysis.statistics.differences import controlled
from ettrick.analysis.statistics.estimates import means
from ettrick.analysis.statistics.intervals import MeanEstimate, mean_estimate, widened
from ettrick.sim import MOST_EVENTS, Prepared, Result, block_size, check_work, run, run_block, with_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from ettrick.sim import Ratio

# The same work on many indices: in order, and on all cores where that pays.

Item = TypeVar("Item")
Shared = TypeVar("Shared")

_TRIAL = 0.3
"""Seconds of work here before more processes are thought of: a precision is often reached sooner [s]."""

_PATIENCE = 1.5
"""Seconds of work left from which a process is worth its start [s]."""


def in_order(
    work: Callable[[Shared, int], Item],
    shared: Shared,
    indices: range,
    processes: int,
    *,
    in_threads: bool = False,
) -> Generator[Item]:
    """Yield the work on each index in order: here as long as that is quick, then on all cores.

    Parameters
    ----------
    work
        A function of a module, called with `shared` and an index; it may use nothing else.
    processes
        Processes at most; 0 for one per core. What is yielded does not depend on it.
    in_threads
        Whether threads do it: most of it is machine code then.
    """
    workers = processes or cores()
    done = 0
    start = time.perf_counter()
    for index in indices:
        yield work(shared, index)
        done += 1
        if done == 1:
            # The first one also pays for imports and says little about the others.
            start = time.perf_counter()
            continue
        spent = time.perf_counter() - start
        left = spent / (done - 1) * (len(indices) - done)
        if workers > 1 and spent > _TRIAL and left > _PATIENCE * workers:
            break
    if done < len(indices):
        on_cores = _on_threads if in_threads else _on_processes
        yield from on_cores(work, shared, indices[done:], workers)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _on_threads(work: Callable[[Shared, int], Item], shared: Shared, indices: range, workers: int) -> Generator[Item]:
    """Yield the work on each index in order from threads, a few ahead."""
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(workers)
    try:
        submit = functools.partial(pool.submit, functools.partial(work, shared))
        yield from _ahead(submit, indices, 2 * workers, contextlib.nullcontext())
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _on_processes(work: Callable[[Shared, int], Item], shared: Shared, indices: range, workers: int) -> Generator[Item]:
    """Yield the work on each index in order from worker processes, a few ahead."""
    # What most runs do without: these imports take longer than a replication.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context(start_method())
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_adopt, initargs=(shared,))
    try:
        yield from _ahead(lambda index: pool.submit(_work_adopted, work, index), indices, 4 * workers, deaf())
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _ahead(
    submit: Callable[[int], Future[Item]], tasks: range, most: int, starts: contextlib.AbstractContextManager[None]
) -> Generator[Item]:
    """Yield the results of tasks in order, with so many submitted at most; the first of them in a context."""
    waiting = iter(tasks)
    with starts:
        pending = deque(map(submit, itertools.islice(waiting, most)))
    while pending:
        pending.extend(map(submit, itertools.islice(waiting, most - len(pending))))
        yield pending.popleft().result()


def start_method() -> str:
    """Return how processes are started here: by a server that forks where there is one."""
    import multiprocessing

    return "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Put Ctrl-C off for a moment, so that processes started now never hear it: it is for the parent to stop them.

    So is the end of a job (SIGTERM), where the program has something to tidy up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    at_end = signal.getsignal(signal.SIGTERM)
    if callable(at_end):
        signal.signal(signal.SIGTERM, lambda number, _frame: heard.append(number))
    try:
        if start_method() == "forkserver":
            from multiprocessing import forkserver

            # The server passes on that it is ignored here; until it has imported what it needs, seconds may go by.
            forkserver.ensure_running()
            signal.signal(signal.SIGINT, lambda number, _frame: heard.append(number))
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if callable(at_end):
            signal.signal(signal.SIGTERM, at_end)
        if heard:
            # Also where a start has failed: the signal may have ended what starts processes.
            signal.raise_signal(heard[0])


_ADOPTED: list[Any] = []
"""The object that a worker process shares with its parent; set once when it starts."""


def _adopt(shared: Any) -> None:
    """Begin as a worker process with what it shares with its parent."""
    begin_as_worker()
    _ADOPTED[:] = [shared]


def begin_as_worker() -> None:
    """Begin as a worker process: never hear Ctrl-C, and end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What was imported before is no garbage, and the command has said to look for some seldom.
    gc.freeze()
    warnings.filterwarnings("ignore", ".*the simulation loop is compiled")  # the parent has said so
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """End this process when its parent has ended without saying so."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work_adopted(work: Callable[[Any, int], Any], index: int) -> Any:
    return work(_ADOPTED[0], index)


def replications_of(prepared: Prepared) -> int:
    """Return how many replications a scenario gets where nobody says: one where nothing is random."""
    return 1 if prepared.is_deterministic else 8 if prepared.has_queue else 32


def first_replications(variants: Sequence[Prepared], replications: int, precision: Precision | None = None) -> int:
    """Return how many replications variants have, or have before a precision is decided on.

    One tells all where nothing is random in any of them.
    """
    if all(prepared.is_deterministic for prepared in variants):
        return 1
    return replications if precision is None else FEWEST


def replicated(
    variants: Sequence[Prepared],
    replications: int,
    excess: Callable[[Sequence[Ensemble]], float] | None = None,
    *,
    check: Callable[[Mapping[str, Ratio]], None] = lambda _first: None,
    processes: int = 0,
    progress: Callable[[int, int | None], None] | None = None,
    keeps_log: bool = False,
    most_events: float = MOST_EVENTS,
) -> list[Ensemble]:
    """Simulate replications 0, 1, 2, ... of variants, block by block: all get equally far.

    Parameters
    ----------
    replications
        How many of each; until a precision is reached, as many as before the first decision.
    excess
        How wide the interval that is to be narrow is over what it should be [-]; omitted: no precision is asked for.
    check
        Called with the metrics of the very first replication.
    """
    variants = tuple(with_engine(prepared, replications) for prepared in variants)
    ensembles = [Ensemble(prepared, keeps_results=keeps_log) for prepared in variants]
    events = sum(prepared.expected_events for prepared in variants)
    check_work(events * replications, most_events)
    total = None if excess is not None else replications * len(variants)
    compiled = all(prepared.engine == "compiled" for prepared in variants)
    size, count = min(map(block_size, variants)), replications
    if excess is not None:
        # Goals are multiples of a batch, and no replication behind them takes part in a decision.
        size, count = math.gcd(size, BATCH, replications), MOST
    simulate = functools.partial(_block, replications=range(count), size=size, keeps_log=keeps_log, replays={})
    indices = range(len(variants) * math.ceil(count / size))
    with contextlib.closing(in_order(simulate, variants, indices, processes, in_threads=compiled)) as source:
        advance = functools.partial(_advance, ensembles, source, check, progress, total)
        if excess is None:
            advance(replications)
            return ensembles
        most = min(MOST, BATCH * (most_events / events // BATCH)) if events else MOST
        pursuit = Pursuit(replications, int(most))
        pursue({"all": pursuit}, lambda active: advance(active["all"].goal), lambda _: excess(ensembles))
    for ensemble in ensembles:
        ensemble.precise = pursuit.precise
    return ensembles


def _advance(
    ensembles: Sequence[Ensemble], blocks: Iterator[list[Result]], check: Callable[[Mapping[str, Ratio]], None],
    progress: Callable[[int, int | None], None] | None, total: int | None, goal: int,
) -> None:  # fmt: skip
    """Add results to the ensembles of variants, block by block, up to a goal of replications."""
    while len(ensembles[-1].rows) < goal:
        for ensemble in ensembles:
            is_first = not ensembles[0].rows
            for result in next(blocks):
                ensemble.add(result)
            if is_first:
                check(ensemble.rows[0])
            if progress is not None:
                progress(sum(len(advanced.rows) for advanced in ensembles), total)


def _block(
    variants: Sequence[Prepared], index: int, *, replications: range, size: int, keeps_log: bool,
    replays: dict[int, Result],
) -> list[Result]:  # fmt: skip
    """Simulate a block of the replications of one variant; `replays` keeps the first of one that is a replay."""
    block, position = divmod(index, len(variants))
    numbers = replications[block * size : (block + 1) * size]
    if position in replays:
        return [replace(replays[position], replication=number) for number in numbers]
    results = run_block(variants[position], numbers, keeps_log=keeps_log)
    if variants[position].is_replay:
        replays[position] = results[0]
    return results


def replicate(
    prepared: Prepared, replications: int, *, precision: Precision | None = None, metric: str | None = None,
    processes: int = 0, progress: Callable[[int, int | None], None] | None = None, keeps_log: bool = False,
    most_events: float = MOST_EVENTS,
) -> Ensemble:  # fmt: skip
    """Simulate replications 0, 1, 2, ... of a scenario.

    Parameters
    ----------
    replications
        How many; with `precision`, ignored.
    precision, metric
        Stop where the interval of `metric`, by default that of `headline`, is narrow enough, or can never be.
    processes
        Worker processes at most, threads of machine code; 0 for one per core. The numbers do not depend on it.
    progress
        Called with the number done and the total (``None`` if unknown).
    keeps_log
        Whether results are kept, and say when each node was down.
    most_events
        How many events may be simulated; a precision that is not reached with as many is given up.

    Raises
    ------
    ReplicationsError
        If `metric` is not one of this scenario's, or `precision` is in points and it is not a share.
    WorkError
        If more events are expected than may be, of the fewest replications where a precision is asked for.
    EngineError
        If the scenario insists on machine code that cannot simulate it.
    """
    metric = metric or headline(prepared)
    (ensemble,) = replicated(
        (prepared,), replications if precision is None else first_replications((prepared,), replications, precision),
        None if precision is None else functools.partial(_excess, metric=metric, precision=precision),
        check=functools.partial(_check_metric, metric=metric, precision=precision),
        processes=processes, progress=progress, keeps_log=keeps_log, most_events=most_events,
    )  # fmt: skip
    return ensemble


def _excess(ensembles: Sequence[Ensemble], *, metric: str, precision: Precision) -> float:
    """Return how wide the interval of a metric is over what it should be [-], with controls where they are known."""
    ratios = ensembles[0].rows.column(metric)
    estimate = mean_estimate(ratios, metric, is_exact=is_exact(ensembles[0].prepared, metric), follows_tail=False)
    narrower = controlled(ratios, ensembles[0].controls)
    if narrower is not None and (estimate.method != "exact" or estimate.interval is not None):
        estimate = MeanEstimate(estimate.mean, widened(narrower.mean, narrower.ci95, ratios, metric))
    return precision.excess_of_mean(estimate, ratios, metric)


def _check_metric(metrics: Mapping[str, Ratio], *, metric: str, precision: Precision | None) -> None:
    """Refuse a metric that is not there, and percentage points of one that is no share."""
    if metric not in metrics:
        near = difflib.get_close_matches(metric, metrics, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(sorted(metrics))}"
        raise ReplicationsError(f"this scenario has no metric '{metric}'; {hint}")
    if precision is not None:
        precision.check(metric)


def band(
    ensemble: Ensemble, draws: int, *, replications: int = BATCH, processes: int = 0,
    progress: Callable[[int, int | None], None] | None = None, most_events: float = MOST_EVENTS,
) -> dict[str, tuple[float, float] | None]:  # fmt: skip
    """Return the 90 % band of each metric's mean that comes from rates not known exactly.

    Each draw scales the rate of every source that states how many events it rests on by a gamma variable with shape
    ``events + 1/2`` and mean ``1 + 1 / (2 events)`` (Jeffreys' posterior of a Poisson rate), and simulates the first
    replications again. Sources without such a statement are taken as exact. Random numbers are common to all draws, so
    the noise of a few replications cancels in what a draw moves their mean by; the band is the mean of the whole
    ensemble moved by that.

    Parameters
    ----------
    draws
        Parameter sets; at least 20, so that the band's ends are not its extremes.
    replications
        Replications of each set, at most.

    Returns
    -------
    dict
        Low and high of each metric; ``None`` where a mean does not exist, with the stated rates or in any draw.

    References
    ----------
    H. Jeffreys, "Theory of Probability", 3rd ed. (1961): the prior of a Poisson rate.
    """
    few = min(replications, len(ensemble.rows))
    check_work(ensemble.prepared.expected_events * few * draws, most_events)
    work = functools.partial(_drawn_means, replications=few)
    rows: list[dict[str, float | None]] = []
    with contextlib.closing(in_order(work, ensemble.prepared, range(draws), processes)) as source:
        for draw_means in source:
            rows.append(draw_means)
            if progress is not None:
                progress(len(rows), draws)
    stated = means(ensemble.rows[:few])
    return {name: _band(mean, stated[name], [row[name] for row in rows]) for name, mean in means(ensemble.rows).items()}


def _band(mean: float | None, stated: float | None, drawn: Sequence[float | None]) -> tuple[float, float] | None:
    """Return the band of a mean, by how far draws move that of a few replications; ``None`` where one is not known."""
    values = [value for value in drawn if value is not None]
    if mean is None or stated is None or len(values) < len(drawn):
        return None
    low, high = np.quantile([value - stated for value in values], [0.05, 0.95])
    return mean + float(low), mean + float(high)


def _drawn_means(prepared: Prepared, draw: int, replications: int) -> dict[str, float | None]:
    """Return the mean of each metric with the rates of a draw."""
    changed = drawn(prepared, draw)
    return means([ratios(changed, run(changed, index, most_events=math.inf)) for index in range(replications)])


def drawn(prepared: Prepared, draw: int) -> Prepared:
    """Return a scenario with the rates of a draw, as `band` takes them."""
    sources = tuple(
        replace(source, law=source.law.scaled(1 / _factor(prepared.seed, source.name, source.events, draw)))
        if source.events and source.law is not None
        else source
        for source in prepared.sources
    )
    return prepared.with_sources(sources)


def _factor(seed: int, name: str, events: int, draw: int) -> float:
    """Return what a draw multiplies a rate by [-]."""
    from numpy.random import SeedSequence, default_rng

    entropy = [seed & 0xFFFFFFFF, seed >> 32, draw, *name.encode()]
    return float(default_rng(SeedSequence(entropy)).gamma(events + 0.5) / events)

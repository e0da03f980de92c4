"""Replications of one scenario: how many, on how many cores, and when there are enough."""

from __future__ import annotations

import multiprocessing
import re
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from analysis.metrics import SHARES, ratios, summaries
from sim import Prepared, Ratio, Result, run

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

__all__ = ["BATCH", "FEWEST", "Ensemble", "Precision", "band", "replicate"]

BATCH = 10
"""Replications between two decisions; fixed, so that the number of processes changes nothing."""

FEWEST = 30
"""Replications before the first decision: with fewer a calm sample stops the run too early."""

MOST = 10_000
"""Replications after which a precision is given up."""

_PATIENCE = 1.5
"""Seconds of work left from which processes are worth their start [s]."""


@dataclass(frozen=True)
class Precision:
    """Half-width of the 95 % interval of a mean that is precise enough.

    Parameters
    ----------
    width
        In the metric's own unit, or as a part of the mean.
    relative
        Which of the two.
    """

    width: float
    relative: bool

    @classmethod
    def parse(cls, text: str, metric: str) -> Precision:
        """Read ``0.1pt`` (points of a share) or ``2%`` (of the mean).

        Raises
        ------
        ValueError
            If the text is neither, or points are asked of a metric that is not a share.
        """
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(pt|%)\s*", text)
        if match is None or float(match[1]) <= 0:
            message = f"'{text}' is not a precision: write 0.1pt (points of a share) or 2% (of the mean)"
            raise ValueError(message)
        if match[2] == "pt" and metric not in SHARES:
            message = f"points are for shares, and {metric} is not one: write a precision such as 2%"
            raise ValueError(message)
        return cls(float(match[1]) / 100, match[2] == "%")

    def is_met(self, rows: list[dict[str, Ratio]], metric: str) -> bool:
        """Return whether the interval of a metric is narrow enough."""
        summary = summaries(rows)[metric]
        if summary.mean is None or summary.mean_ci95 is None:
            return False
        half = (summary.mean_ci95[1] - summary.mean_ci95[0]) / 2
        return half <= self.width * (abs(summary.mean) if self.relative else 1.0)


@dataclass(frozen=True)
class Ensemble:
    """The replications of one scenario.

    Parameters
    ----------
    results, rows
        Results and metrics, in order of replication.
    precise
        Whether a precision that was asked for was reached; ``None`` if none was.
    """

    prepared: Prepared
    results: tuple[Result, ...]
    rows: tuple[dict[str, Ratio], ...]
    precise: bool | None = None


def replicate(
    prepared: Prepared,
    replications: int,
    *,
    precision: Precision | None = None,
    metric: str = "ettr",
    processes: int = 0,
    progress: Callable[[int, int | None], None] | None = None,
) -> Ensemble:
    """Simulate replications 0, 1, 2, ... of a scenario.

    Parameters
    ----------
    prepared
        The scenario.
    replications
        How many; with `precision`, ignored.
    precision, metric
        Stop after the first complete batch at which the interval of `metric` is narrow enough.
    processes
        Worker processes; 0 for one per core. The numbers do not depend on it.
    progress
        Called with the number done and the total (``None`` if unknown).

    Raises
    ------
    ValueError
        If `metric` is not one of this scenario's.
    """
    results: list[Result] = []
    rows: list[dict[str, Ratio]] = []
    total = replications if precision is None else None
    source: Generator[Result] = _results(prepared, range(replications if precision is None else MOST), processes)
    try:
        for result in source:
            results.append(result)
            rows.append(ratios(prepared, result))
            if metric not in rows[0]:
                message = f"this scenario has no metric '{metric}' (it has {', '.join(sorted(rows[0]))})"
                raise ValueError(message)
            if progress is not None:
                progress(len(rows), total)
            decides = precision is not None and len(rows) >= FEWEST and len(rows) % BATCH == 0
            if decides and precision is not None and precision.is_met(rows, metric):
                return Ensemble(prepared, tuple(results), tuple(rows), precise=True)
    finally:
        source.close()
    return Ensemble(prepared, tuple(results), tuple(rows), precise=None if precision is None else False)


def _results(prepared: Prepared, replications: range, processes: int) -> Generator[Result]:
    """Yield results in order: here as long as that is quick, then on all cores."""
    workers = processes or multiprocessing.cpu_count()
    done = 0
    for replication in replications:
        start = time.perf_counter()
        yield run(prepared, replication)
        done += 1
        left = (time.perf_counter() - start) * (len(replications) - done)
        # The first replication also pays for imports and says little about the others.
        if workers > 1 and done > 1 and left > _PATIENCE * workers:
            break
    rest = replications[done:]
    if rest:
        yield from _on_processes(prepared, rest, workers)


def _on_processes(prepared: Prepared, replications: Iterable[int], workers: int) -> Iterator[Result]:
    """Yield results in order from worker processes, a few batches ahead."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_adopt, initargs=(prepared,))
    try:
        pending: list[object] = []
        waiting = iter(replications)
        ahead = 4 * workers
        while True:
            while len(pending) < ahead:
                following = next(waiting, None)
                if following is None:
                    break
                pending.append(pool.submit(_run_adopted, following))
            if not pending:
                return
            future = pending.pop(0)
            yield future.result()  # type: ignore[attr-defined]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_ADOPTED: list[Prepared] = []
"""The scenario of a worker process; set once when it starts."""


def _adopt(prepared: Prepared) -> None:
    _ADOPTED[:] = [prepared]


def _run_adopted(replication: int) -> Result:
    return run(_ADOPTED[0], replication)


def band(prepared: Prepared, draws: int, replications: int = BATCH) -> dict[str, tuple[float, float] | None]:
    """Return the 90 % band of each metric's mean that comes from rates not known exactly.

    Each draw scales the rate of every source that states how many events it rests on by a gamma variable with shape
    ``events + 1/2`` and mean ``1 + 1/(2 events)`` (Jeffreys' posterior of a Poisson rate), and simulates the same
    replications. Sources without such a statement are taken as exact.

    Parameters
    ----------
    prepared
        The scenario.
    draws
        Parameter sets; at least 20, so that the band's ends are not its extremes.
    replications
        Replications of each set.
    """
    import numpy as np

    means: dict[str, list[float]] = {}
    for draw in range(draws):
        sources = tuple(
            replace(source, law=source.law.scaled(1 / _factor(prepared.seed, source.name, source.events, draw)))
            if source.events and source.law is not None
            else source
            for source in prepared.sources
        )
        drawn = prepared.with_sources(sources)
        rows = [ratios(drawn, run(drawn, replication)) for replication in range(replications)]
        for name, summary in summaries(rows).items():
            if summary.mean is not None:
                means.setdefault(name, []).append(summary.mean)
    return {
        name: (float(np.quantile(values, 0.05)), float(np.quantile(values, 0.95))) if len(values) == draws else None
        for name, values in means.items()
    }


def _factor(seed: int, name: str, events: int, draw: int) -> float:
    """Return what a draw multiplies a rate by [-]."""
    from numpy.random import SeedSequence, default_rng

    entropy = [seed & 0xFFFFFFFF, seed >> 32, draw, *name.encode()]
    return float(default_rng(SeedSequence(entropy)).gamma(events + 0.5) / events)

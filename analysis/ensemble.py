"""Replications of one scenario: how many, on how many cores, and when there are enough."""

from __future__ import annotations

import contextlib
import difflib
import functools
import math
import re
from array import array
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from analysis.controls import LUCK_SIZE, Luck, controlled
from analysis.intervals import unseen
from analysis.metrics import SHARES, means, ratios
from analysis.processes import in_order
from analysis.statistics import ratio_interval
from analysis.study.rows import Rows
from analysis.tally import Table, Tally
from sim import MOST_EVENTS, Prepared, Ratio, Result, check_work, run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["BATCH", "FEWEST", "MOST", "Ensemble", "Gathering", "Precision", "RequestError", "band", "replicate"]

BATCH = 10
"""Replications between two decisions; fixed, so that the number of processes changes nothing."""

FEWEST = 30
"""Replications before the first decision: with fewer a calm sample stops the run too early."""

MOST = 10_000
"""Replications after which a precision is given up."""


class RequestError(ValueError):
    """What was asked of the replications does not make sense for this scenario."""


@dataclass(frozen=True)
class Precision:
    """Half-width of the 95 % interval of a mean that is precise enough.

    Parameters
    ----------
    width
        In points of a share / 100, or as a part of the mean [-].
    relative
        Whether it is a part of the mean.
    """

    width: float
    relative: bool

    @classmethod
    def parse(cls, text: str) -> Precision:
        """Read ``0.1pt`` (points of a share) or ``2%`` (of the mean).

        Raises
        ------
        RequestError
            If the text is neither.
        """
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(pt|%)\s*", text)
        if match is None or float(match[1]) <= 0:
            message = f"'{text}' is not a precision: write 0.1pt (points of a share) or 2% (of the mean)"
            raise RequestError(message)
        return cls(float(match[1]) / 100, match[2] == "%")

    def is_met(self, ratios: list[Ratio], luck: Sequence[tuple[float, ...]]) -> bool:
        """Return whether the interval of a metric's mean, with the luck taken out if that can be, is narrow enough."""
        found = controlled(ratios, luck)
        if found is not None:
            mean, (low, high) = found.mean, found.ci95
        else:
            plain = ratio_interval([ratio.amount for ratio in ratios], [ratio.base for ratio in ratios])
            if plain is None:
                return False
            mean, low, high = plain
        half = (high - low) / 2
        if not half:
            # Equal replications: a run that was too rare to be among them may have nothing of it.
            half = unseen(len(ratios)) / 2 * (abs(mean) if self.relative else 1.0)
        return half <= self.width * (abs(mean) if self.relative else 1.0)


@dataclass(frozen=True)
class Ensemble:
    """The replications of one scenario.

    Parameters
    ----------
    rows
        Metrics, in order of replication.
    luck
        How lucky each replication was, by `analysis.controls`; empty where that is not known.
    tally
        Everything else that they came to together.
    results
        The replications themselves, if they were to be kept: each takes some kilobytes.
    precise
        Whether a precision that was asked for was reached; ``None`` if none was.
    """

    prepared: Prepared
    rows: Table
    luck: Sequence[tuple[float, ...]]
    tally: Tally
    results: tuple[Result, ...] = ()
    precise: bool | None = None


class Gathering:
    """Replications of a scenario that are being simulated, of which an ensemble is made.

    Parameters
    ----------
    prepared
        The scenario.
    keeps
        Whether results are kept.
    """

    def __init__(self, prepared: Prepared, *, keeps: bool = False) -> None:
        self.prepared = prepared
        self.rows = Table()
        self._keeps = keeps
        self._results: list[Result] = []
        self._tally = Tally(prepared)
        self._luck = Luck(prepared)
        self._lucky = array("d")
        self._is_known = True

    def add(self, result: Result) -> None:
        """Add a replication."""
        self.rows.append(ratios(self.prepared, result))
        self._tally.add(result)
        lucky = self._luck.of(result)
        self._is_known = self._is_known and lucky is not None
        self._lucky.extend(lucky or ())
        if self._keeps:
            self._results.append(result)

    @property
    def luck(self) -> Sequence[tuple[float, ...]]:
        """How lucky each replication was; empty where that is not known of every one."""
        return Rows(self._lucky, LUCK_SIZE, tuple) if self._is_known and self._lucky else []

    def ensemble(self, *, precise: bool | None = None) -> Ensemble:
        """Return what has been gathered."""
        return Ensemble(self.prepared, self.rows, self.luck, self._tally, tuple(self._results), precise)


def replicate(
    prepared: Prepared,
    replications: int,
    *,
    precision: Precision | None = None,
    metric: str = "ettr",
    processes: int = 0,
    progress: Callable[[int, int | None], None] | None = None,
    keeps_log: bool = False,
    most_events: float = MOST_EVENTS,
) -> Ensemble:
    """Simulate replications 0, 1, 2, ... of a scenario.

    Parameters
    ----------
    prepared
        The scenario.
    replications
        How many; with `precision`, ignored.
    precision, metric
        Stop after the first complete batch at which the interval of `metric` is narrow enough, or can never be.
    processes
        Worker processes at most; 0 for one per core. The numbers do not depend on it.
    progress
        Called with the number done and the total (``None`` if unknown).
    keeps_log
        Whether results are kept, and say when each node was down.
    most_events
        How many events may be simulated; a precision that is not reached with as many is given up.

    Raises
    ------
    RequestError
        If `metric` is not one of this scenario's, or `precision` is in points and it is not a share.
    WorkError
        If more events are expected than may be, of the fewest replications where a precision is asked for.
    """
    found = Gathering(prepared, keeps=keeps_log)
    rows = found.rows
    total = replications if precision is None else None
    precise = None if precision is None else False
    check_work(prepared.expected_events * (FEWEST if total is None else total), most_events)
    play = functools.partial(run, keeps_log=keeps_log, most_events=math.inf)
    with contextlib.closing(in_order(play, prepared, range(MOST if total is None else total), processes)) as source:
        for result in source:
            found.add(result)
            if len(rows) == 1:
                _check_metric(metric, rows[0], precision)
            if progress is not None:
                progress(len(rows), total)
            if precision is not None and len(rows) >= FEWEST and len(rows) % BATCH == 0:
                mine = [row[metric] for row in rows]
                precise = precision.is_met(mine, found.luck)
                # What was censored once has no mean, however long one goes on.
                is_too_much = prepared.expected_events * (len(rows) + BATCH) > most_events
                if precise or is_too_much or any(math.isinf(ratio.amount) for ratio in mine):
                    break
    return found.ensemble(precise=precise)


def _check_metric(metric: str, known: Mapping[str, Ratio], precision: Precision | None) -> None:
    """Refuse a metric that is not there, and points of one that is no share."""
    if metric not in known:
        near = difflib.get_close_matches(metric, known, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(sorted(known))}"
        message = f"this scenario has no metric '{metric}'; {hint}"
        raise RequestError(message)
    if precision is not None and not precision.relative and metric not in SHARES:
        message = f"points are for shares, and {metric} is not one: write a precision such as 2%"
        raise RequestError(message)


# -------------------------------------------------------------------------------------- not exactly known rates


def band(
    ensemble: Ensemble,
    draws: int,
    *,
    replications: int = BATCH,
    processes: int = 0,
    progress: Callable[[int, int | None], None] | None = None,
    most_events: float = MOST_EVENTS,
) -> dict[str, tuple[float, float] | None]:
    """Return the 90 % band of each metric's mean that comes from rates not known exactly.

    Each draw scales the rate of every source that states how many events it rests on by a gamma variable with shape
    ``events + 1/2`` and mean ``1 + 1 / (2 events)`` (Jeffreys' posterior of a Poisson rate), and simulates the first
    replications again. Sources without such a statement are taken as exact. Random numbers are common to all draws, so
    the luck of a few replications cancels in what a draw moves their mean by; the band is the mean of the whole
    ensemble moved by that.

    Parameters
    ----------
    ensemble
        The replications with the rates as they are stated.
    draws
        Parameter sets; at least 20, so that the band's ends are not its extremes.
    replications
        Replications of each set, at most.
    processes, progress, most_events
        As for `replicate`.

    Returns
    -------
    dict
        Low and high of each metric; ``None`` where a mean does not exist, with the stated rates or in any draw.

    References
    ----------
    H. Jeffreys, "Theory of Probability", 3rd ed. (1961): the prior of a Poisson rate.
    """
    import numpy as np

    few = min(replications, len(ensemble.rows))
    check_work(ensemble.prepared.expected_events * few * draws, most_events)
    work = functools.partial(_drawn_means, replications=few)
    drawn: list[dict[str, float | None]] = []
    with contextlib.closing(in_order(work, ensemble.prepared, range(draws), processes)) as source:
        for found in source:
            drawn.append(found)
            if progress is not None:
                progress(len(drawn), draws)
    stated = means(ensemble.rows[:few])
    bands: dict[str, tuple[float, float] | None] = {}
    for name, mean in means(ensemble.rows).items():
        values = [row[name] for row in drawn]
        start = stated[name]
        if mean is None or start is None or None in values:
            bands[name] = None
        else:
            low, high = np.quantile([value - start for value in values if value is not None], [0.05, 0.95])
            bands[name] = mean + float(low), mean + float(high)
    return bands


def _drawn_means(prepared: Prepared, draw: int, replications: int) -> dict[str, float | None]:
    """Return the mean of each metric with the rates of a draw."""
    sources = tuple(
        replace(source, law=source.law.scaled(1 / _factor(prepared.seed, source.name, source.events, draw)))
        if source.events and source.law is not None
        else source
        for source in prepared.sources
    )
    drawn = prepared.with_sources(sources)
    return means([ratios(drawn, run(drawn, each, most_events=math.inf)) for each in range(replications)])


def _factor(seed: int, name: str, events: int, draw: int) -> float:
    """Return what a draw multiplies a rate by [-]."""
    from numpy.random import SeedSequence, default_rng

    entropy = [seed & 0xFFFFFFFF, seed >> 32, draw, *name.encode()]
    return float(default_rng(SeedSequence(entropy)).gamma(events + 0.5) / events)

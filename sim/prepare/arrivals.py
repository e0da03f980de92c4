"""The jobs of a stream in the order in which they are submitted: sampled from laws, or replayed from a trace.

`SampledJobs` and `RecordedJobs` are pure functions of a seed, a replication and an end. Job k is addressed by seed,
replication, name of the stream, purpose and k: it stays the same job under more load, a longer horizon or another
scheduler. Arrivals are sampled by inversion: those of a process of rate 1 are mapped through the inverse of the
cumulative rate of the stream.

References
----------
D. J. Daley, D. Vere-Jones, "An Introduction to the Theory of Point Processes", 2nd ed., 2003, section 7.4 (random time
change). W. Fischer, K. Meier-Hellstern, "The Markov-modulated Poisson process (MMPP) cookbook", Performance Evaluation
18 (1993).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.sim import rng
from ettrick.sim.scenario.streams import OUTCOMES, Arrival, Backlog, Diurnal, LimitFactor, Mmpp, Renewal
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from ettrick.sim.engine.prepared import SavePlan
    from ettrick.sim.scenario.law_model import LawModel
    from ettrick.sim.scenario.streams import AnyArrivals, AnyLimit, Poisson

_FIRST_BLOCK, _LARGEST_BLOCK = 1 << 10, 1 << 16
"""Jobs that are made at once: few at first, for small scenarios [-]."""

_DIURNAL_STEPS = 288
"""Steps of a day in which the rate of a diurnal stream is constant: five minutes [-]."""

_PURPOSES = ("gap", "state", "gpus", "work", "limit", "outcome", "end", "tenant", "priority", "partition")
"""The purposes of the random numbers of each job."""


class JobTable(NamedTuple):
    """Jobs as columns of shape (n,), in the order of `Arrival`; ``outcome`` is a position in `OUTCOMES`."""

    submit: NDArray[np.float64]
    gpus: NDArray[np.int64]
    work: NDArray[np.float64]
    limit: NDArray[np.float64]
    ends: NDArray[np.float64]
    outcome: NDArray[np.int64]
    tenant: NDArray[np.int64]
    priority: NDArray[np.float64] | NDArray[np.int64]
    partition: NDArray[np.int64]
    under_way: NDArray[np.bool_]

    def arrivals(self, start: int, stop: int, number: int) -> Iterator[Arrival]:
        """Return the jobs of rows ``start`` to ``stop``, numbered from ``number``."""
        submit, gpus, work, limit, ends, outcome, *rest = (column[start:stop].tolist() for column in self)
        outcomes = map(OUTCOMES.__getitem__, outcome)
        return map(Arrival, itertools.count(number), submit, gpus, work, limit, ends, outcomes, *rest)


# Recorded jobs.


@dataclass(frozen=True)
class RecordedJobs:
    """Jobs of a trace, the same in every replication."""

    table: JobTable

    def __call__(self, seed: int, replication: int, end: float) -> Iterator[Arrival]:
        """Yield the jobs that are submitted before an end [s]."""
        del seed, replication
        count = int(np.count_nonzero(self.table.submit < end))
        for start in range(0, count, _LARGEST_BLOCK):
            yield from self.table.arrivals(start, min(start + _LARGEST_BLOCK, count), number=start)


# Sampled jobs.


class Discrete(NamedTuple):
    """A distribution over whole numbers: values, shape (m,), and their cumulative probabilities [-], shape (m,)."""

    values: NDArray[np.int64]
    cumulative: NDArray[np.float64]

    @classmethod
    def of(cls, probabilities: Mapping[int, float]) -> Discrete:
        """Return the distribution of values by probability, or by weight."""
        cumulative = np.cumsum(np.array(list(probabilities.values()), dtype=np.float64))
        return cls(np.array(list(probabilities), dtype=np.int64), cumulative / cumulative[-1])

    def ppf(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the quantiles at uniform numbers, shape (n,)."""
        index = np.searchsorted(self.cumulative, uniform, side="right")
        return self.values[np.minimum(index, len(self.values) - 1)]


class Overhead(NamedTuple):
    """The overhead of a run beyond its work where nothing fails: a start [s], and saves by GPUs of the job."""

    restart: float
    saves: Mapping[int, SavePlan]

    def run_time(self, gpus: NDArray[np.int64], work: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the run times [s], shape (n,), of jobs by their GPUs and work [s], both of shape (n,)."""
        total = work + self.restart
        for size, plan in self.saves.items():
            if math.isinf(plan.interval) or not (plan.save.time or plan.save.share):
                continue
            rows = np.flatnonzero((gpus == size) & np.isfinite(work))
            saves = np.maximum(np.ceil((work[rows] + plan.head) / plan.interval) - 1, 0.0)
            total[rows] += saves * (plan.save.time + plan.save.share * work[rows])
        return total


def time_limits(
    limit: AnyLimit, run_time: NDArray[np.float64], uniform: Callable[[], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return the time limits [s], shape (n,), of jobs by their run times [s], shape (n,)."""
    if limit == "exact":
        return run_time
    if not isinstance(limit, LimitFactor):
        return np.full(len(run_time), math.inf if limit == "none" else limit)
    scale = limit.factor
    factor = scale if isinstance(scale, float | int) else scale.low + (scale.high - scale.low) * uniform()
    return np.asarray(np.clip(factor * run_time, limit.least, limit.most or math.inf), dtype=np.float64)


@dataclass(frozen=True)
class SampledJobs:
    """Jobs by law.

    Parameters
    ----------
    name
        Name of the stream: the key of its random numbers.
    arrivals, load
        When jobs arrive, and what multiplies the rate [-].
    work
        Law of the run time; ``None`` for jobs that never end.
    longest
        What time limits are cut to by partition [s], shape (p,); infinite for none.
    outcome
        Distribution of positions in `OUTCOMES`.
    tenant, partition
        Distributions of positions in `Prepared.tenants` and `Prepared.partitions`.
    """

    name: str
    arrivals: AnyArrivals
    load: float
    gpus: Discrete
    work: LawModel | None
    limit: AnyLimit
    longest: NDArray[np.float64]
    overhead: Overhead
    outcome: Discrete
    tenant: Discrete
    priority: Discrete
    partition: Discrete

    def __call__(self, seed: int, replication: int, end: float) -> Iterator[Arrival]:
        """Yield the jobs that are submitted before an end [s]."""
        keys = {purpose: rng.stream(seed, replication, "stream", self.name, purpose) for purpose in _PURPOSES}
        for numbers, submit in self._submissions(keys, end):
            count = int(np.searchsorted(submit, end))
            yield from self._table(submit, keys, numbers).arrivals(0, count, number=numbers.start)
            if count < len(numbers):
                return

    def _submissions(self, keys: Mapping[str, int], end: float) -> Iterator[tuple[range, NDArray[np.float64]]]:
        """Yield blocks of jobs without end: their numbers, and when they are submitted [s], shape (n,)."""
        rate = cumulative_rate(self.arrivals, self.load, keys["state"], end)
        first, size, last = 0, _FIRST_BLOCK, 0.0
        while True:
            numbers = range(first, first + size)
            gaps = _unit_gaps(self.arrivals, rng.uniform(keys["gap"], numbers))
            points = np.cumsum(np.concatenate([[last], gaps]))[1:]
            yield numbers, rate.inverse(points)
            first, size, last = numbers.stop, min(2 * size, _LARGEST_BLOCK), float(points[-1])

    def _table(self, submit: NDArray[np.float64], keys: Mapping[str, int], numbers: range) -> JobTable:
        """Return jobs by when they are submitted [s], shape (n,), and their numbers."""

        def uniform(purpose: str) -> NDArray[np.float64]:
            return rng.uniform(keys[purpose], numbers)

        gpus = self.gpus.ppf(uniform("gpus"))
        work = np.full(len(submit), math.inf) if self.work is None else self.work.ppf(uniform("work"))
        limit = time_limits(self.limit, self.overhead.run_time(gpus, work), lambda: uniform("limit"))
        outcome = self.outcome.ppf(uniform("outcome"))
        ends = np.where(outcome > 0, work * uniform("end"), work) if len(self.outcome.values) > 1 else work
        partition = self.partition.ppf(uniform("partition"))
        return JobTable(
            submit=submit,
            gpus=gpus,
            work=work,
            limit=np.minimum(limit, self.longest[partition]),
            ends=ends,
            outcome=outcome,
            tenant=self.tenant.ppf(uniform("tenant")),
            priority=self.priority.ppf(uniform("priority")),
            partition=partition,
            under_way=np.zeros(len(submit), dtype=np.bool_),
        )


def _unit_gaps(arrivals: AnyArrivals, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the times between arrivals of a process of rate 1, shape (n,)."""
    if isinstance(arrivals, Renewal):
        return arrivals.gap.ppf(uniform) / arrivals.gap.mean_value
    return -np.log1p(-uniform)


# Rates of arrivals.


def mean_rate(arrivals: AnyArrivals) -> float:
    """Return the mean rate of arrivals over a long time [1/s]; 0 of a backlog."""
    match arrivals:
        case Backlog():
            return 0.0
        case Mmpp(states=states):
            return sum(state.rate * state.stay for state in states) / sum(state.stay for state in states)
        case Diurnal():
            return (arrivals.peak + arrivals.trough) / 2
        case _:
            _, factors = _profile(arrivals)
            return _base_rate(arrivals) * sum(factors) / len(factors)


def _base_rate(arrivals: Poisson | Renewal) -> float:
    """Return the rate of arrivals before a profile [1/s]."""
    return 1 / arrivals.gap.mean_value if isinstance(arrivals, Renewal) else arrivals.rate


def _profile(arrivals: Poisson | Renewal) -> tuple[float, tuple[float, ...]]:
    """Return the period [s] and the factors of the profile, which is 1 where none is stated."""
    return (1.0, (1.0,)) if arrivals.profile is None else (arrivals.profile.every, arrivals.profile.factors)


class CumulativeRate:
    """The integral of a rate of arrivals over time, which is constant between edges.

    ``edges`` [s] and ``values`` [-], both of shape (m + 1,), begin with 0; after the last edge the rate repeats.
    """

    def __init__(self, edges: NDArray[np.float64], rates: NDArray[np.float64]) -> None:
        self.edges = edges
        self.values = np.concatenate([[0.0], np.cumsum(np.diff(edges) * rates)])

    def inverse(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the times at which the integral has ascending values [s], shape (n,)."""
        if len(self.edges) == 2:
            return np.asarray(values * (self.edges[1] / self.values[1]))
        periods = np.floor(values / self.values[-1])
        within = np.interp(values - periods * self.values[-1], self.values, self.edges)
        return np.asarray(periods * self.edges[-1] + within)


class _ModulatedRate(CumulativeRate):
    """The cumulative rate of an MMPP, sampled up to an end [s] as it is asked for."""

    def __init__(self, arrivals: Mmpp, load: float, key: int, end: float) -> None:
        super().__init__(np.zeros(1), np.zeros(0))
        self._rates = np.array([state.rate * load for state in arrivals.states])
        self._mean_stays = np.array([state.stay for state in arrivals.states])
        self._key, self._end = key, end

    def inverse(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the times at which the integral has ascending values [s], shape (n,); infinite after the end."""
        while self.values[-1] <= values[-1] and self.edges[-1] < self._end:
            visits = range(len(self.edges) - 1, 2 * len(self.edges) + 15)
            state = np.arange(visits.start, visits.stop) % len(self._rates)
            stays = -np.log1p(-rng.uniform(self._key, visits)) * self._mean_stays[state]
            self.edges = np.concatenate([self.edges, self.edges[-1] + np.cumsum(stays)])
            self.values = np.concatenate([self.values, self.values[-1] + np.cumsum(stays * self._rates[state])])
        return np.asarray(np.interp(values, self.values, self.edges, right=math.inf))


def cumulative_rate(arrivals: AnyArrivals, load: float, key: int, end: float) -> CumulativeRate:
    """Return the cumulative rate of a stream whose rate is multiplied by a load [-]; an MMPP's ends at an end [s]."""
    match arrivals:
        case Backlog():
            return CumulativeRate(np.array([0.0, 1.0]), np.array([math.inf]))  # all are submitted at 0
        case Mmpp():
            return _ModulatedRate(arrivals, load, key, end)
        case Diurnal():
            edges = np.linspace(0.0, DAY, _DIURNAL_STEPS + 1)
            mean, amplitude = (arrivals.peak + arrivals.trough) / 2, (arrivals.peak - arrivals.trough) / 2
            # The mean of the sine over each step, so that the rate integrates to that of the sine at every edge.
            sine = np.sin(2 * math.pi * (edges - arrivals.at) / DAY)
            rates = mean + amplitude * np.diff(sine) / (2 * math.pi / _DIURNAL_STEPS)
            return CumulativeRate(edges, rates * load)
        case _:
            period, factors = _profile(arrivals)
            edges = np.linspace(0.0, period, len(factors) + 1)
            return CumulativeRate(edges, np.array(factors) * _base_rate(arrivals) * load)

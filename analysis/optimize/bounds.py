"""Upper limits of what candidates can reach, without simulating them: who cannot be the best is left out.

A candidate is relaxed to a job that is in no respect worse and whose expected progress is known: a rigid job under
Poisson failures, with endless spares and stores and the shortest recoveries. The proof is in
docs/explanation/design-bound.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from ettrick import sim
from ettrick.analysis.ratios import provisioned
from ettrick.sim.formulas.goodput import efficiency, optimal_interval
from ettrick.sim.scenario.model import Work
from ettrick.sim.units import DAY, ENERGY, HOUR, YEAR

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from ettrick.sim import Prepared, RelaxedJob

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

Kind = Literal["renewal", "ideal"]
"""Whether a bound has failures in it, or is that of a job that never stops."""

_SHORTEST, _LONGEST = 1e-6, 1e9
"""Intervals that stand for saving all the time and never [s]."""

_KWH, _MW = ENERGY.units["kWh"], 1e6


def excess(
    mtti: FloatArray, stretch: FloatArray, downtime: FloatArray | float, horizon: FloatArray | float
) -> FloatArray:
    """Return ``(M + d) (exp(s / M) - 1) / H`` [-]: the mean time until nothing fails for a stretch s, of a horizon H.

    Parameters
    ----------
    mtti
        Mean time between failures M, infinite for none [s].
    stretch, downtime, horizon
        The stretch, the time d that each failure takes, and the horizon [s].
    """
    with np.errstate(over="ignore", invalid="ignore"):
        wait = np.where(np.isinf(mtti), stretch, mtti * np.expm1(stretch / mtti))
    return np.asarray((1 + downtime / mtti) * wait / horizon)


class Candidates(NamedTuple):
    """Candidates as arrays, one entry for each; `base_of` is the place of its scenario among `bases`.

    Parameters
    ----------
    bases
        Scenarios that have been examined: they say all but the layout and the interval.
    step_time, tokens
        Time [s] and tokens [-] of a step of the layout; 0 where they are not known.
    interval
        Time between saves to the store outside the nodes [s]; NaN where the scenario says it.
    """

    bases: Sequence[Prepared]
    base_of: IntArray
    step_time: FloatArray
    tokens: FloatArray
    interval: FloatArray

    def of_base(self, quantity: Callable[[Prepared], float]) -> FloatArray:
        """Return a quantity of the scenario of each candidate; infinite where it has more than one job."""
        rows = [quantity(base) if len(base.jobs) == 1 and not base.has_queue else math.inf for base in self.bases]
        return np.array(rows, dtype=np.float64)[self.base_of]

    @property
    def speed(self) -> FloatArray:
        """Tokens of a healthy second [1/s]; infinite where they are not known."""
        is_known = (self.step_time > 0) & (self.tokens > 0) & np.isfinite(self.of_base(lambda base: base.horizon))
        return np.where(is_known, self.tokens / np.where(is_known, self.step_time, 1.0), np.inf)

    @property
    def work(self) -> FloatArray:
        """The work of the job [healthy s]; infinite where it has no end."""
        seconds, steps, tokens = np.array([_work(base) for base in self.bases])[self.base_of].T
        return np.asarray(seconds + steps * self.step_time + tokens / self.speed)


def _work(prepared: Prepared) -> tuple[float, float, float]:
    """Return the work of a job: a time [s], steps or tokens [-], whatever states it."""
    works = [job.work for job in prepared.scenario.jobs if isinstance(job.work, Work)]
    if len(works) != 1:
        return math.inf, 0.0, 0.0
    return works[0].time or 0.0, works[0].steps or 0.0, works[0].tokens or 0.0


def upper_ettr(candidates: Candidates) -> tuple[FloatArray, list[Kind]]:
    """Return the most that the mean ETTR of each candidate can be [-], and what that rests on."""
    jobs = np.array(sim.relaxed_jobs(candidates.bases), dtype=np.float64)
    job = sim.RelaxedJob(*jobs[candidates.base_of].T)
    stated = np.where(np.isnan(candidates.interval), job.interval, candidates.interval)
    first = sim.first_saves(stated, candidates.step_time)
    horizon = np.maximum(np.minimum(job.horizon, candidates.work), _SHORTEST)
    # Saves that wait for those before them come later than the first.
    is_later = (job.later > 0) | (job.drain > first)
    least, most = np.where(job.sooner > 0, _SHORTEST, first), np.where(is_later, _LONGEST, first)
    share = np.minimum(
        _share(job, job.lasting, job.stall, job.drain, least, most, first, horizon),
        _share(job, job.rate, job.least_stall, job.least_drain, _SHORTEST, _LONGEST, first, horizon),
    )
    share = share + job.reads * excess(_times_between(job.rate), first + job.stall + job.drain, 0.0, horizon)
    is_ideal = np.asarray(job.is_ideal) > 0
    return np.where(is_ideal, 1.0, np.minimum(share, 1.0)), np.where(is_ideal, "ideal", "renewal").tolist()


def _share(
    job: RelaxedJob, rate: npt.ArrayLike, stall: npt.ArrayLike, drain: npt.ArrayLike, least: npt.ArrayLike,
    most: npt.ArrayLike, first: FloatArray, horizon: FloatArray,
) -> FloatArray:  # fmt: skip
    """Return the most that ETTR can be where failures of a rate lose what is not saved [-], by the best interval.

    The interval is one between `least` and `most` [s]; a save is due after the `first` of a start [s].
    """
    mtti, stall = _times_between(rate), np.asarray(stall)
    interval: FloatArray = np.clip(optimal_interval(stall, mtti), least, most)
    drain = np.minimum(drain, interval)
    useful = efficiency(interval, stall, mtti, np.zeros(()), 0.0, drain)
    # A run begins well and may end badly: in a restart, or with work that will be lost.
    risk = (np.maximum(first, interval) * (1 + np.greater(most, first)) + drain) * (1 - useful) + stall
    return np.asarray(job.running * useful + np.maximum(job.restart, risk) / horizon)


def _times_between(rate: npt.ArrayLike) -> FloatArray:
    """Return the mean times between failures of some rates [s]; infinite without any."""
    with np.errstate(divide="ignore"):
        return np.divide(1.0, rate)


def upper(metric: str, candidates: Candidates, ettr: FloatArray) -> FloatArray:
    """Return the best that the mean of a metric of each candidate can be; the higher the better.

    It is infinite where nothing is known.

    Parameters
    ----------
    metric
        Its name; negative scores are those of one that should be low.
    candidates
        The candidates.
    ettr
        The most that their ETTR can be [-]: `upper_ettr`.
    """
    speed, of_base = candidates.speed, candidates.of_base
    if metric == "ettr":
        return ettr
    if metric == "time_to_work":
        return np.where(np.isfinite(candidates.work), -candidates.work / ettr, np.inf)
    if metric == "cluster_goodput":
        return ettr * of_base(lambda base: base.jobs[0].gpus / _gpus(base) / base.capacity)
    if metric == "cost":
        # Of what ends with its work the length is not known.
        paid = np.array([_surely_paid(base)[0] * base.horizon for base in candidates.bases])[candidates.base_of]
        return np.where(np.isfinite(paid) & ~np.isfinite(candidates.work), -paid, np.inf)
    if metric == "cost_per_token":
        seconds, working = of_base(lambda base: _surely_paid(base)[0]), of_base(lambda base: _surely_paid(base)[1])
        is_known = np.isfinite(speed) & np.isfinite(seconds)
        return np.where(is_known, -(np.where(is_known, seconds / ettr + working, 0.0)) / speed, np.inf)
    if metric in _PER_SPEED:
        return speed * ettr * of_base(_PER_SPEED[metric])
    return np.full(len(ettr), np.inf)


def _gpus(prepared: Prepared) -> int:
    """Return the GPUs of a cluster [-]."""
    return prepared.nodes * prepared.gpus_per_node


def _mfu(prepared: Prepared) -> float:
    """Return the utilisation of a job for each token a second [s]; infinite where it is not known."""
    job = prepared.jobs[0]
    return job.mfu / job.tokens_per_second if job.mfu is not None and job.tokens_per_second else math.inf


def _megawatts(prepared: Prepared) -> float:
    """Return the inverse of the power for which a facility is built [1/MW]; infinite where it is not known."""
    power = provisioned(prepared)
    return math.inf if power is None else _MW / power


_PER_SPEED: dict[str, Callable[[Prepared], float]] = {
    "tokens_per_day": lambda _: DAY,
    "tokens_per_gpu_day": lambda prepared: DAY / _gpus(prepared),
    "tokens_per_mw_day": lambda prepared: DAY * _megawatts(prepared),
    "goodput": _mfu,
    "effective_mfu": _mfu,
}
"""Values of metrics for each productive token a second."""


def _surely_paid(prepared: Prepared) -> tuple[float, float]:
    """Return the least cost of a second, and the further cost of a productive one; infinite without prices.

    Repairs, parts, nodes that idle and the work that is lost are left out; energy has its lowest price.
    """
    upkeep = prepared.upkeep
    cost, facility = upkeep.cost, upkeep.facility
    if cost is None:
        return math.inf, 0.0
    second = (cost.capex or 0.0) / (cost.years or 1.0) / YEAR + (cost.gpu_hour or 0.0) / HOUR
    second = second * _gpus(prepared) + (cost.storage or 0.0) / YEAR
    if facility is None:
        return second, 0.0
    # Below a cap a node may draw less; never less than when it is idle.
    node, price = facility.node, (cost.energy or 0.0) / _KWH * facility.pue
    price *= min((level.price for level in upkeep.levels), default=1.0)
    drawn = node.idle if upkeep.levels else node.training
    working = prepared.jobs[0].gpus / node.gpus if prepared.jobs else 0.0
    return second + price * (facility.network + facility.storage), price * drawn * working

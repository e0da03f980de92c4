"""Faster answers from theory: how lucky a replication was, by numbers whose means are known.

While a job steps, each cause c of constant rate disrupts it with the intensity ``lambda_c n(t)``, n the nodes stepping.
So ``D_c - lambda_c * integral n dt`` has the mean zero, whatever the policies made of the past (the compensator of a
counting process). So have sums of drawn times less the means of their laws. What a metric owes to these numbers is
taken out by regression: they are its *control variates*.

Causes whose intensity is not as simple (ages, incidents, bugs, logs, nodes that differ) are left out: their luck stays
in. Where jobs may have to wait for nodes nothing is taken out at all: a few long waits make most of the scatter then. A
sample without one looks surer than it is, and the narrower its interval the more often it misses the truth. The same
holds where few replications were interrupted at all: a line through one of them and the others, which are all alike, is
exact and says nothing of what an interruption may cost. A control then is left out, and without any the plain interval
stands. `of_values` is the one place of this rule. Nothing of it changes what is simulated.

References: S. S. Lavenberg, P. D. Welch, Management Science 27 (1981), 322; B. L. Nelson, Operations Research 38
(1990), 974. Compensators: P. K. Andersen, O. Borgan, R. D. Gill, N. Keiding, "Statistical Models Based on Counting
Processes" (1993), section II.4.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from analysis.metrics import contributions
from analysis.statistics import Interval, t_quantile
from sim import Bucket, starved_at_most

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from sim import Prepared, Ratio, Result

    FloatArray = npt.NDArray[np.float64]

__all__ = ["FEWEST_EVENTS", "Controlled", "Luck", "controlled", "of_all", "of_values"]

FEWEST_EVENTS = 10
"""Replications with events behind a control, and with values apart from the commonest one, below which it is left out.

The slope is known from these alone: of ten costs the mean is known as well as Student's interval of ten supposes.
"""

_MOST_WORTH = 1000.0
"""What controls may be worth at most [-]; the interval keeps at least this part of the plain one's square.

Residuals that are less than 1/30 of the scatter say that the sample is on a line, not that all other runs are.
"""

_FREEDOM = 12
"""Degrees of freedom that have to be left: with fewer the interval of a mean that is not normal is too narrow."""

_RARELY = 1e-5
"""Share of time waiting for nodes that is too small to matter to a mean [-]."""

_SAME = 1e-9
"""Spread of a control, relative to its size, below which it is a constant [-]."""


class Controlled(NamedTuple):
    """A mean from which the luck of the failures is taken out.

    Parameters
    ----------
    mean
        The estimate.
    ci95
        Its 95 % interval.
    worth
        How many times the replications an interval as narrow would take without [-]; 1000 at most.
    """

    mean: float
    ci95: Interval
    worth: float


class Luck:
    """How lucky the jobs of a scenario were, compared with what was to be expected.

    Three numbers for each replication, all with the mean zero [GPU or GPU s]: disruptions; those of them whose node
    is away for a while; and the time of detection and of restarts. Behind them, how many disruptions each rests on [-].
    """

    def __init__(self, prepared: Prepared) -> None:
        recovery: Any = prepared.recovery
        # Replicas that leave alone wait alone: that is common, and makes no difference between calm and unlucky runs.
        self._is_rigid = not recovery.elastic
        waits = starved_at_most(prepared) if self._is_rigid else 0.0
        self._is_known = waits is not None and waits <= _RARELY
        self._causes = [cause for cause, source in enumerate(prepared.sources, 1) if _is_simple(prepared, source)]
        sources = [prepared.sources[cause - 1] for cause in self._causes]
        self._of_job = np.array([source.part == "job" for source in sources], dtype=bool)
        units = np.array([source.units if source.part == "job" else prepared.nodes for source in sources])
        self._rates = np.array([source.rate * source.interrupts for source in sources]) / units
        """Disruptions of a job in unit time, of one of its nodes where the cause is of nodes [1/s]."""
        self._away = np.array([not _is_back_at_once(source) for source in sources], dtype=np.float64)
        self._known_after = np.array([source.noticing.mean_value if source.noticing else 0.0 for source in sources])

    def of(self, result: Result) -> tuple[float, ...] | None:
        """Return the numbers of a replication, shape (6,); ``None`` where jobs waited for nodes, or might have."""
        waited = self._is_rigid and any(job.buckets[Bucket.STARVED] > 0 for job in result.jobs)
        if waited or not self._is_known:
            return None
        count = away = time = 0.0
        events = np.zeros(3)
        for job in result.jobs:
            exposure = np.where(self._of_job, job.running, job.node_seconds)
            expected = self._rates * exposure
            found = np.array([job.disruptions.get(cause, 0) for cause in self._causes])
            latencies = sum(job.latencies.get(cause, 0.0) for cause in self._causes)
            count += job.gpus * float((found - expected).sum())
            away += job.gpus * float(((found - expected) * self._away).sum())
            time += job.gpus * (latencies - float(expected @ self._known_after) + job.excess)
            events += np.array([found.sum(), found @ self._away, sum(job.disruptions.values())])
        return count, away, time, *events.tolist()


def of_all(luck: Sequence[tuple[float, ...] | None]) -> list[tuple[float, ...]]:
    """Return the numbers of all replications; none if they are not known of every one."""
    known = [numbers for numbers in luck if numbers is not None]
    return known if len(known) == len(luck) else []


def controlled(ratios: Sequence[Ratio], luck: npt.ArrayLike) -> Controlled | None:
    """Return the mean of a metric with the luck taken out, and its 95 % interval.

    With d_i what replication i contributes to the ratio of sums (see `analysis.paired`), the least-squares fit
    ``d_i = m + b z_i`` gives the mean m at a luck of zero. Its standard error is that of the intercept, and
    Student's quantile has ``n - c - k`` degrees of freedom for k controls and c times the commonest value.

    Parameters
    ----------
    ratios : (n,) sequence
        The metric of each replication.
    luck : (n, 2 k) array
        Controls with the mean zero, and behind them the events that each rests on. Left out are those that do not vary,
        and those with events in fewer than `FEWEST_EVENTS` replications. Empty where they are not known.

    Returns
    -------
    Controlled or None
        ``None`` without such controls, with too few replications, with fewer than `FEWEST_EVENTS` values that are not
        the commonest one (of a difference: not 0), or where the metric has no mean.
    """
    values = contributions(ratios)
    if values is None:
        return None
    return of_values(values, luck)


def of_values(values: FloatArray, luck: npt.ArrayLike) -> Controlled | None:
    """Return the same for values, one per replication, shape (n,)."""
    table = np.asarray(luck, dtype=np.float64)
    count = len(values)
    moved = count - _commonest(values)
    if not table.size or moved < FEWEST_EVENTS:
        return None
    controls, events = np.hsplit(table, 2)
    controls = controls[:, np.count_nonzero(events, axis=0) >= FEWEST_EVENTS]
    plain = float(values.std(ddof=1)) / math.sqrt(count) if count > 1 else 0.0
    basis = _independent(controls)
    freedom = count - 1 - basis.shape[1]
    if not basis.shape[1] or freedom < _FREEDOM or not plain:
        return None
    design = np.column_stack([np.ones(count), basis])
    inverse = np.linalg.inv(design.T @ design)
    fitted = inverse @ design.T @ values
    rest = values - design @ fitted
    error = math.sqrt(float(rest @ rest) / freedom * float(inverse[0, 0]))
    # Equal values lie on any line that goes through one of them: they say nothing of the scatter about it.
    half = t_quantile(0.95, moved - basis.shape[1]) * error
    mean, without = float(fitted[0]), t_quantile(0.95, count - 1) * plain
    half = max(half, without / math.sqrt(_MOST_WORTH))
    return Controlled(mean, (mean - half, mean + half), (without / half) ** 2)


def _commonest(values: FloatArray) -> int:
    """Return how often the commonest value is there, but for rounding."""
    ordered = np.sort(values)
    apart = np.diff(ordered) > _SAME * float(np.abs(ordered).max(initial=0.0))
    return int(np.bincount(np.concatenate([[0], np.cumsum(apart)])).max())


def _independent(controls: FloatArray) -> FloatArray:
    """Return controls that vary and do not follow from one another, of about the same size; shape (n, at most k)."""
    if not controls.size:
        return np.zeros((len(controls), 0))
    spread = controls.std(axis=0)
    varied = controls[:, spread > _SAME * np.abs(controls).max(axis=0, initial=0.0)]
    if not varied.size:
        return np.zeros((len(controls), 0))
    scaled = varied / varied.std(axis=0)
    _, sizes, directions = np.linalg.svd(scaled - scaled.mean(axis=0), full_matrices=False)
    found: FloatArray = scaled @ directions[sizes > _SAME * sizes[0]].T
    return found


def _is_back_at_once(source: Any) -> bool:
    """Return whether what a cause strikes can go on at once: no node is away."""
    return source.part == "job" or (source.repair is not None and source.repair.mean_value == 0)


def _is_simple(prepared: Prepared, source: Any) -> bool:
    """Return whether the rate at which a cause disrupts a stepping job is the same at any time, and known."""
    recovery: Any = prepared.recovery
    return bool(
        source.law is not None
        and source.law.memoryless
        and source.effect.stops
        and source.noticing is not None
        and math.isfinite(source.noticing.mean_value)
        and source.renews != "never"
        and not (source.variety or source.ages or source.thinned or source.of_fabric)
        and all(part is None for part in (source.tempo, source.blast, source.residue, source.hidden, source.fix))
        and source.rollout is None
        and (source.part == "job" or source.slots_per_node > 0)
        and not (source.defer and recovery.has_unexposed_phases)
        and source.fault not in recovery.narrows_on
    )

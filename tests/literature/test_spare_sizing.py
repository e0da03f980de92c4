"""Nodes down at once and the spares for them: simulation against closed forms, where their assumptions hold or do not.

Shares of time come from independent replications, so that each interval is Z standard errors of their mean. The law of
the number down is read at P50, P90 and P99.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sim
from sim.formulas.arrays import enough_probability, quantile
from sim.formulas.nodes import crew_limited_pmf, missing_nodes_pmf, repairs_pmf, spares_needed, steady_unavailability
from sim.policies.contracts import Bucket
from tests.harness import Z, prepared
from tests.literature.acceptance import fault_cluster

SEED = int(os.environ.get("ETTRICK_SEED", "1"))
DAY = 86400.0
LEVELS = (0.5, 0.9, 0.99)
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """For which share of its time each replication had at most 0, 1, 2 ... nodes down, shape (replications, n)."""

    reached: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Mean over the replications [-]."""
        return np.asarray(self.reached.mean(axis=0))

    @property
    def error(self) -> FloatArray:
        """Standard error of the mean [-]."""
        return np.asarray(self.reached.std(axis=0, ddof=1) / math.sqrt(len(self.reached)))

    def quantile(self, level: float) -> int:
        """Return the smallest count that is enough for a share of the time of all replications."""
        return int(np.argmax(self.mean >= level))

    def interval(self, level: float) -> tuple[int, int]:
        """Return the quantiles of the law at the ends of its interval."""
        return tuple(int(np.argmax(self.mean + side * Z * self.error >= level)) for side in (1, -1))  # type: ignore[return-value]

    def fits(self, law: FloatArray) -> bool:
        """Return whether a law agrees at its own quantiles and one below, within Z standard errors."""
        reached = np.cumsum(law)
        points = sorted({max(point - less, 0) for point in np.searchsorted(reached, LEVELS) for less in (0, 1)})
        return bool((np.abs(self.mean[points] - reached[points]) <= Z * self.error[points] + 1e-12).all())


def sample(results: list[sim.Result], most: int) -> Sample:
    """Return shares of time by number of nodes down, up to `most`."""
    rows = np.zeros((len(results), most + 1))
    for row, result in zip(rows, results, strict=True):
        for count, time in result.down_times.items():
            row[count] += time
    return Sample(np.cumsum(rows, axis=1) / rows.sum(axis=1, keepdims=True))


def runs(case: sim.Prepared, replications: int) -> list[sim.Result]:
    """Return the first replications."""
    return [sim.run(case, number) for number in range(replications)]


def fault(life: float, repair: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a source of nodes with exponential lives of a mean [day]."""
    entry = {"use": "component", "name": "node", "law": {"law": "exponential", "mean": f"{life!r} d"}, **changes}
    return entry if repair is None else {**entry, "repair": repair}


def lognormal(mean: float, sigma: float) -> dict[str, Any]:
    """Return a log-normal law by its mean [day]."""
    return {"law": "lognormal", "median": f"{mean * math.exp(-(sigma**2) / 2)!r} d", "sigma": sigma}


def test_independent_nodes_are_binomial() -> None:
    """Lives that begin at return, log-normal repairs, nobody's job: P50, P90 and P99 are those of the binomial law.

    Only the mean of the repair time matters. A repair half as long again, or failures with a dispersion of 1.5, do not
    fit.
    """
    nodes, life, repair = 300, 60.0, 3.0
    source = fault(life, lognormal(repair, 1.2), renews="at_return")
    case = fault_cluster([source], nodes, 300.0, initial="stationary", seed=SEED)
    ours = sample(runs(case, 20), nodes)
    down = steady_unavailability(life, repair)
    law = missing_nodes_pmf(nodes, down)
    assert ours.fits(law)
    for level in LEVELS:
        low, high = ours.interval(level)
        assert low <= quantile(law, level) <= high <= low + 4
    assert not ours.fits(missing_nodes_pmf(nodes, steady_unavailability(life, 1.5 * repair)))
    assert not ours.fits(missing_nodes_pmf(nodes, down, 1.5))


@pytest.mark.parametrize("crews", [2, 3, 40])
def test_crews_make_a_birth_death_chain(crews: int) -> None:
    """Exponential lives and repairs, so many crews: the equilibrium of the chain; with a crew for each, binomial."""
    nodes, life, repair = 40, 30.0, 2.0
    tier = {"name": "bench", "time": {"law": "exponential", "mean": f"{repair!r} d"}, "crews": crews}
    case = fault_cluster(
        [fault(life, renews="at_return")],
        nodes,
        2000.0,
        warmup="400 d",
        repair={"use": "tiers", "tiers": [tier]},
        seed=SEED,
    )
    ours = sample(runs(case, 16), nodes)
    law = crew_limited_pmf(nodes, 0, 1 / life, 1 / repair, crews)
    assert ours.fits(law)
    for level in LEVELS:
        low, high = ours.interval(level)
        assert low <= quantile(law, level) <= high <= low + 4
    independent = missing_nodes_pmf(nodes, steady_unavailability(life, repair))
    assert ours.fits(independent) == (crews == nodes)


def test_repairs_behind_a_full_job_are_poisson() -> None:
    """A job that always finds nodes, and nodes that fail only in it: the number in repair is Poisson, whatever the law.

    Shares are those of the days from the 80th on: it begins with nobody in repair.
    """
    nodes, life, repair, begin = 100, 40.0, 3.0, 80.0
    case = prepared(
        cluster={"nodes": 200, "gpus_per_node": 1, "fabric": {"rails": 1, "radix": 1024}},
        horizon="400 d",
        jobs=[{"name": "job", "gpus": nodes}],
        failures=[fault(life, lognormal(repair, 1.0), clock="busy")],
        recovery={"use": "hot-spare", "initialize": "0 s", "pools": ["idle"]},
        checkpoint={"tiers": [{"interval": "1 d", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
        seed=SEED,
    )
    rows = np.zeros((20, 101))
    for number, row in enumerate(rows):
        result = sim.run(case, number, keeps_log=True)
        times = np.array([(outage.start, outage.end) for outage in result.outages])
        moments = np.concatenate((np.clip(times, begin * DAY, None).ravel(order="F"), [400 * DAY]))
        change = np.repeat([1, -1, 0], [len(times), len(times), 1])
        order = np.argsort(moments, kind="stable")
        level = np.maximum(np.cumsum(change[order])[:-1], 0)
        row += np.bincount(level, weights=np.diff(moments[order]), minlength=101)[:101]
        assert result.jobs[0].buckets[Bucket.STARVED] == 0.0
    ours = Sample(np.cumsum(rows, axis=1) / rows.sum(axis=1, keepdims=True))
    poisson = repairs_pmf(nodes / life * repair, 100)
    assert ours.fits(poisson)
    for level in LEVELS:
        low, high = ours.interval(level)
        assert low <= quantile(poisson, level) <= high <= low + 4
    # Of the 200 nodes 100 are spares that do not fail: to count them as exposed would be wrong.
    assert not ours.fits(missing_nodes_pmf(200, steady_unavailability(life, repair)))


@pytest.mark.parametrize("less", [0, 1, 3])
def test_spares_that_are_needed(less: int) -> None:
    """A job with s hot spares waits for nodes in the share of time in which more than s are down, and in no other.

    The spares that theory asks for at 95 % are the fewest that keep the job from waiting for more than 5 %.
    """
    required, life, repair, level = 100, 40.0, 2.0, 0.95
    down = steady_unavailability(life, repair)
    enough = spares_needed(required, down, level)
    spares = enough - less
    case = prepared(
        cluster={"nodes": required + spares, "gpus_per_node": 1, "fabric": {"rails": 1, "radix": 1024}},
        horizon="400 d",
        windows="40 d",
        jobs=[{"name": "job", "gpus": required}],
        failures=[fault(life, lognormal(repair, 1.0), renews="at_return")],
        recovery={"use": "hot-spare", "initialize": "0 s"},
        checkpoint={"tiers": [{"interval": "1 d", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
        spares={"hot": spares},
        seed=SEED,
    )
    # All nodes are new: the first of the ten windows is left out.
    tables = [result.jobs[0].totals[1:].sum(axis=(0, 2)) for result in runs(case, 20)]
    waits = np.array([table[Bucket.STARVED] / table.sum() for table in tables])
    error = waits.std(ddof=1) / math.sqrt(waits.size)
    expected = 1 - enough_probability(missing_nodes_pmf(required + spares, down), spares)
    assert abs(waits.mean() - expected) <= Z * error
    assert (expected <= 1 - level) == (less == 0)


def test_infinitehbd_needs_more_spares(infinitehbd_runs: list[sim.Result]) -> None:
    """Clustered failures: P99 is about twice that of independent nodes of the same mean, 17 of 400.

    A beta-binomial law with the dispersion of the simulated counts has the same P50, P90 and P99. The spares that
    independence asks for at 99 % are too few for more than a twentieth of the time.
    """
    ours = sample(infinitehbd_runs, 400)
    law = np.diff(ours.mean, prepend=0.0)
    mean = float(law @ np.arange(401))
    dispersion = float(law @ (np.arange(401) - mean) ** 2) / (mean * (1 - mean / 400))
    for level in LEVELS:
        low, high = ours.interval(level)
        assert low <= quantile(missing_nodes_pmf(400, mean / 400, dispersion), level) <= high
    independent = quantile(missing_nodes_pmf(400, mean / 400), 0.99)
    assert 16 <= independent <= 18
    assert ours.interval(0.99)[0] > independent + 4
    assert 1.5 * independent < ours.quantile(0.99) < 2.5 * independent
    assert 1 - ours.mean[independent] > 0.05

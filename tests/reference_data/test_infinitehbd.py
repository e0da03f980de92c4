"""The InfiniteHBD fault trace, replayed: 400 servers, 348 days.

C. Shou et al., "InfiniteHBD", SIGCOMM 2025, arXiv:2502.03885; data: stepfun-ai/InfiniteHBD-Trace. The statistics are
those of its 584 outages with the overlaps of one server joined; the acceptance statistics are of all faults.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim.failures.replay import Columns, ReplayedLog, read_log
from tests.harness import prepared
from tests.literature.acceptance import acceptance_statistics, percentile_of_count, time_by_nodes_down

LOG = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "infinitehbd" / "fault_events.csv"

COLUMNS = {"unit": "node_id", "start": "start_day", "end": "end_day", "cause": "class"}

DAY = 86400.0

HORIZON = 348 * DAY

Faults: TypeAlias = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]

pytestmark = pytest.mark.skipif(not LOG.exists(), reason="skipped: reference data not present")


@pytest.fixture(scope="module")
def log() -> ReplayedLog:
    """Return the log."""
    return read_log(LOG, Columns(**COLUMNS), DAY)


@pytest.fixture(scope="module")
def case() -> sim.Prepared:
    """Return 400 nodes with the log as their one failure source, and a job on half of them."""
    return prepared(
        cluster={"nodes": 400, "gpus_per_node": 8, "fabric": {"radix": 256}},
        horizon="348 d",
        jobs=[{"name": "job", "gpus": 1600}],
        failures=[{"use": "replay", "file": str(LOG), "time_unit": "d", "columns": COLUMNS}],
        recovery={"use": "hot-spare", "initialize": "5 min"},
    )


def test_what_the_log_holds(log: ReplayedLog) -> None:
    """584 outages of 231 servers, 2 of them joined to the one before, of which 158 are of class GPU."""
    rows = sum(len(recorded.start) for recorded in log.by_cause.values())
    assert len(log.units) == 231
    assert log.merged == 2
    assert rows == 584 - 2


def test_unavailability_of_the_replay(case: sim.Prepared) -> None:
    """The share of node time that is down is the 0.02320 of the trace, to 0.1 %; two intervals were joined."""
    result = sim.run(case, 0)
    assert case.merged_intervals == 2
    assert result.node_seconds == 400 * HORIZON
    assert result.down_node_seconds / result.node_seconds == pytest.approx(0.02320, rel=1e-3)
    # Nothing is drawn: every replication is the log.
    assert sim.run(case, 7).down_node_seconds == result.down_node_seconds
    assert sum(result.jobs[0].interruptions.values()) > 0


def test_down_time_is_that_of_the_log(case: sim.Prepared, log: ReplayedLog) -> None:
    """The engine's down time equals the sum of the joined intervals, cut at the horizon."""
    total = sum(
        float(np.minimum(rows.end, HORIZON).sum() - np.minimum(rows.start, HORIZON).sum())
        for rows in log.by_cause.values()
    )
    # Detection is immediate here, so that a node is back when the log says so.
    assert sim.run(case, 0).down_node_seconds == pytest.approx(total, rel=1e-12)


def test_concurrency(log: ReplayedLog) -> None:
    """Faulty servers at once, weighted by time: P50 7, P90 22, P95 26, P99 31, at most 35.

    Independent Poisson failures of the same mean, 9.28 servers, would have a P99 of 17: the failures are clustered.
    """
    from scipy.stats import poisson

    start = np.concatenate([rows.start for rows in log.by_cause.values()])
    end = np.concatenate([rows.end for rows in log.by_cause.values()])
    start, end = start[end > start], end[end > start]
    moments = np.concatenate((start, end, [0.0, HORIZON]))
    change = np.concatenate((np.ones(start.size), -np.ones(end.size), [0.0, 0.0]))
    order = np.lexsort((change, moments))  # an outage that ends makes room before the next begins
    time, level = moments[order], np.cumsum(change[order])
    inside = time < HORIZON
    weight = np.diff(np.append(time[inside], HORIZON))
    level = level[inside]
    assert (weight * level).sum() / HORIZON == pytest.approx(9.28, abs=0.005)
    by_level = np.bincount(level.astype(int), weights=weight) / HORIZON
    cumulative = np.cumsum(by_level)
    quantiles = {share: int(np.searchsorted(cumulative, share)) for share in (0.50, 0.90, 0.95, 0.99)}
    assert quantiles == {0.50: 7, 0.90: 22, 0.95: 26, 0.99: 31}
    assert np.flatnonzero(by_level).max() == 35
    assert poisson.ppf(0.99, 9.28) == 17


@pytest.fixture(scope="module")
def faults() -> Faults:
    """Return node, start and end [day] of all 584 faults, planned ones and those of zero length among them."""
    with LOG.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 584
    node = np.unique([row["node_id"] for row in rows], return_inverse=True)[1]
    start, end = (np.array([float(row[name]) for row in rows]) for name in ("start_day", "end_day"))
    return node, start, end


def test_acceptance_statistics(faults: Faults) -> None:
    """The five statistics against which the catalog's model is tested, to the last digit that is published here."""
    ours = acceptance_statistics(*faults)
    assert ours.daily_dispersion == pytest.approx(3.438, abs=0.0005)
    assert ours.down_p99 == 31
    assert ours.gap_shape == pytest.approx(0.624, abs=0.0005)
    assert ours.top_decile_share == pytest.approx(239 / 584, rel=1e-12)
    assert ours.unavailability == pytest.approx(0.02346, abs=0.000005)


def test_law_of_the_nodes_down(faults: Faults) -> None:
    """From the first fault to day 348: a mean of 9.385 nodes down, a variance of 53.26, and five percentiles."""
    weights = time_by_nodes_down(*faults)
    counts = np.arange(weights.size)
    mean = weights @ counts / weights.sum()
    assert mean == pytest.approx(9.385, abs=0.0005)
    assert weights @ (counts - mean) ** 2 / weights.sum() == pytest.approx(53.26, abs=0.01)
    levels = (0.50, 0.90, 0.95, 0.99, 1.0)
    assert [percentile_of_count(weights, level) for level in levels] == [7, 22, 26, 31, 35]

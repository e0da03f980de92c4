"""The accounts of a fleet: what is said once lands once, in the right window, and adds up."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ettrick.sim import Bucket
from ettrick.sim.engine.ledger import FleetAccumulator, LedgerError
from ettrick.sim.engine.result import (
    BIN_EDGES,
    CLUSTER,
    DIRECT,
    IDLE,
    PREEMPTION,
    FleetAccount,
    LedgerKey,
    StopKey,
    added,
    bin_of,
    size_class,
    window_edges,
)
from tests.cases import cases

EDGES = (100.0, 200.0, 300.0)


def tally(gpus: int = 8) -> FleetAccumulator:
    """Return a tally of two windows after a warm-up."""
    return FleetAccumulator(EDGES, gpus, ["gpu"])


def charged(accounts: FleetAccumulator, bucket: Bucket, cause: int) -> list[float]:
    """Return the GPU-seconds of the cluster in each window."""
    accounts._add_charges()
    row: list[float] = dict(accounts._ledger.items())[0, bucket, cause, DIRECT].tolist()
    return row


@cases("gpus, expected", [(1, 1), (3, 2), (8, 8), (1000, 512), (1024, 1024)])
def test_size_class(gpus, expected):
    """A class is the power of two at or below."""
    assert size_class(gpus) == expected


@given(st.floats(0, 1e9))
def test_bins(value):
    """A value is between the edges of its bin, but for the rounding of a logarithm."""
    place = bin_of(value)
    assert BIN_EDGES[place] <= value * (1 + 1e-12) + 1e-300
    assert place + 1 == len(BIN_EDGES) or value <= BIN_EDGES[place + 1] * (1 + 1e-12)


@given(st.lists(st.tuples(st.floats(0, 400), st.floats(0, 400)), min_size=1, max_size=20))
def test_charges_split_over_windows(spans):
    """GPU-seconds land in the windows in which they were spent, and what is outside of all windows in none."""
    found = tally()
    for first, second in spans:
        start, end = sorted((first, second))
        found.charge(0, Bucket.PRODUCTIVE, 0, DIRECT, 4.0 * (end - start), start, end)
    row = charged(found, Bucket.PRODUCTIVE, 0)
    expected = [
        sum(4.0 * max(min(max(span), high) - max(min(span), low), 0.0) for span in spans)
        for low, high in ((100, 200), (200, 300))
    ]
    assert row == pytest.approx(expected, abs=1e-6)


def test_charge_at_once():
    """What takes no time belongs to the window of its instant."""
    found = tally()
    found.charge(0, Bucket.LOST_WORK, 1, DIRECT, 7.0, 200.0, 200.0)
    assert charged(found, Bucket.LOST_WORK, 1) == [0.0, 7.0]


def test_ledger_closes_over_the_cluster():
    """What nobody charged is a defect, and waiting in the queue is no GPU-time of the cluster."""
    found = tally(8)
    mine = found.account(0, 4)
    found.charge(mine, Bucket.PRODUCTIVE, 0, DIRECT, 4 * 300.0, 0.0, 300.0)
    found.charge(mine, Bucket.QUEUED, 0, DIRECT, 1e9, 0.0, 300.0)
    with pytest.raises(LedgerError):
        found.result(300.0)
    found.idle("no_queue", 4 * 300.0, 0.0, 300.0)
    result = found.result(300.0)
    assert result.ledger[LedgerKey(CLUSTER, Bucket.UNALLOCATED, IDLE.index("no_queue"), DIRECT)].tolist() == [400, 400]
    assert result.owned.tolist() == [800, 800]


def test_early_end():
    """A simulation that ends early has no time in the windows behind its end."""
    found = tally(1)
    found.idle("no_queue", 130.0, 0.0, 130.0)
    assert found.result(130.0).seconds.tolist() == [30.0, 0.0]


def test_levels():
    """Levels are integrated from the change that is said to the next one, over the edges of windows."""
    found = tally()
    found.level(0.0, 0, 0, 0, 0)
    found.level(150.0, 4, 16, 2, 3)
    found.level(250.0, 4, 0, 0, 4)
    found.idle("no_queue", 1600.0, 100.0, 300.0)
    result = found.result(300.0)
    assert result.level("free").tolist() == [4 * 50, 400]
    assert result.level("queued_gpus").tolist() == [16 * 50, 16 * 50]
    assert result.level("queued_jobs").tolist() == [100, 100]
    assert result.level("placeable").tolist() == [150, 150 + 200]
    assert result.level("placeable_in_need").tolist() == [150, 150]
    assert result.level("free_in_need").tolist() == [200, 200]


def test_who_had_the_cluster():
    """What jobs and services have, and what is in working order, is read from the ledger in each window."""
    found = tally(8)
    found.charge(found.account(0, 4), Bucket.DETECTION, 1, DIRECT, 4 * 100.0, 100.0, 200.0)
    found.charge(found.account(0, 4), Bucket.QUEUED, 1, DIRECT, 4 * 100.0, 200.0, 300.0)
    found.charge(found.account(-2, -1), Bucket.HEADROOM, 0, DIRECT, 2 * 100.0, 200.0, 300.0)
    found.charge(0, Bucket.REPAIR, 1, DIRECT, 4 * 100.0, 200.0, 300.0)
    found.idle("no_queue", 4 * 100.0, 100.0, 200.0)
    found.idle("no_queue", 2 * 100.0, 200.0, 300.0)
    result = found.result(300.0)
    assert result.allocated.tolist() == [400, 200]
    assert result.healthy.tolist() == [800, 400]


def test_a_job_that_has_not_ended_has_no_total_wait():
    """A job that waits or runs at the horizon, after a first start too, has a first wait and nothing of an end."""
    found = tally()
    mine = found.account(0, 4)
    for outcome in ("waiting", "running"):
        found.ended(mine, outcome, 100.0, 150.0, 300.0, 4, waited=100.0, run=50.0, useful=0.0)
    found.idle("no_queue", 8 * 300.0, 0.0, 300.0)
    sums = {name: found.result(300.0).job_sum(f"{name}_job").sum() for name in ("started", "ended", "wait_first")}
    assert sums == {"started": 2, "ended": 0, "wait_first": 100}


def test_sums_over_jobs():
    """A job counts in the window of its submission, as one and by the GPU-seconds that it held."""
    found = tally()
    mine = found.account(0, 4, tenant=1)
    found.ended(mine, "completed", 110.0, 130.0, 290.0, 4, waited=60.0, run=120.0, useful=100.0, failures=1)
    found.ended(mine, "failed", 210.0, 210.0, 220.0, 4, waited=0.0, run=10.0, useful=10.0)
    found.ended(mine, "waiting", 220.0, math.nan, 300.0, 4, waited=80.0, run=0.0, useful=0.0)
    found.ended(mine, "completed", 50.0, 50.0, 250.0, 4, waited=0.0, run=200.0, useful=200.0)
    found.idle("no_queue", 1600.0, 100.0, 300.0)
    result = found.result(300.0)
    expected = {
        "submitted_job": [1, 2], "started_job": [1, 1], "ended_job": [1, 1], "completed_job": [1, 0],
        "wait_first_job": [20, 0], "wait_first_gpu_time": [20 * 480, 0], "wait_total_job": [60, 0],
        "jct_job": [180, 0], "bounded_slowdown_job": [1.5, 1.0], "bounded_slowdown_10min_job": [1.0, 1.0],
        "requested": [4 * 180, 4 * 10 + 4 * 80], "queued": [240, 320], "useful": [400, 40],
        "failures": [1, 0], "run": [120, 10], "ettr_above_90": [0, 40],
    }  # fmt: skip
    assert {name: result.job_sum(name).tolist() for name in expected} == expected
    assert result.histogram("wait_first", "job", result.jobs).sum() == 2
    assert result.histogram("jct", "gpu_time", result.jobs).sum() == 480
    assert result.job_sum("run", [FleetAccount(7, 4)]).tolist() == [0, 0]


def test_replications_add_up():
    """The sum of results has the sums of everything, whatever order their accounts came in."""
    parts = []
    for streams in ((0, 1), (1, 0)):
        found = tally()
        for stream in streams:
            mine = found.account(stream, 8)
            found.charge(mine, Bucket.PRODUCTIVE, 0, DIRECT, 800.0, 100.0 + 100 * stream, 200.0 + 100 * stream)
            found.stopped(mine, 150.0, 1, PREEMPTION, 8, lost=3.0 + stream, by=1024)
            found.ended(mine, "completed", 120.0, 130.0, 150.0, 8, waited=10.0, run=20.0, useful=20.0)
        parts.append(found.result(300.0))
    both = added(parts)
    assert both.replications == 2
    assert both.owned.tolist() == [1600, 1600]
    assert both.ledger[LedgerKey(FleetAccount(1, 8), Bucket.PRODUCTIVE, 0, DIRECT)].tolist() == [0, 1600]
    assert both.stops[StopKey(FleetAccount(1, 8), 1, PREEMPTION, 1024)].tolist() == [[2, 16, 8], [0, 0, 0]]
    assert both.job_sum("submitted_job").tolist() == [4, 0]


def test_other_windows_do_not_add_up():
    """Results of different windows are refused."""
    results = []
    for edges in (EDGES, (0.0, 200.0, 300.0)):
        found = FleetAccumulator(edges, 1, [])
        found.idle("no_queue", 300.0, 0.0, 300.0)
        results.append(found.result(300.0))
    with pytest.raises(ValueError, match="different windows"):
        added(results)


def test_window_edges():
    """Windows cover the time after the warm-up; the last one may be shorter."""
    assert window_edges(10.0, 25.0, 10.0) == [10.0, 20.0, 30.0, 35.0]
    assert len(window_edges(5.0, 240.0)) == 121
    assert window_edges(5.0, 240.0)[-1] == 245.0

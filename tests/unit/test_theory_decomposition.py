"""Scheduling x runtime x program: identities, the simulator's own metrics, and phases of a restart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from analysis.ensemble import replicate
from analysis.metrics import means
from sim.contracts import Bucket
from sim.theory import expected_shares
from sim.theory.decomposition import BUCKETS, Goodput, decompose, restart_phases
from tests.intervals import Z
from tests.small import prepare

SHARES = {
    "productive": 0.80,
    "checkpoint_stall": 0.02,
    "lost_work": 0.05,
    "detection": 0.01,
    "reschedule": 0.02,
    "initialize": 0.02,
    "restore": 0.01,
    "starved": 0.03,
    "queued": 0.04,
}


def test_names_are_those_of_the_ledger() -> None:
    """Every bucket of a job has a place, in the order of the ledger."""
    assert list(BUCKETS) == [Bucket(number).name.lower() for number in range(len(BUCKETS))]


def test_the_factors_by_hand() -> None:
    """Of 100 hours 9 are not scheduled; of the other 91, 80 are productive, at 40 % of the peak."""
    found = decompose(SHARES, 0.4)
    assert found.scheduling == pytest.approx(0.91, rel=1e-12)
    assert found.runtime == pytest.approx(80 / 91, rel=1e-12)
    assert found.ettr == pytest.approx(0.80, rel=1e-12)
    assert found.goodput == pytest.approx(0.32, rel=1e-12)


@given(st.lists(st.floats(0, 1), min_size=12, max_size=12).filter(lambda parts: sum(parts) > 1e-3), st.floats(0.01, 1))
def test_the_product_is_the_goodput_and_gives_the_factors_back(parts: list[float], program: float) -> None:
    """For any shares the product is productive x MFU, each factor is product over the others, and none exceeds 1."""
    shares = dict(zip(BUCKETS, (np.array(parts) / math.fsum(parts)).tolist(), strict=True))
    found = decompose(shares, program)
    assert found.goodput == pytest.approx(shares["productive"] * program, rel=1e-9, abs=1e-12)
    assert found.ettr == pytest.approx(shares["productive"], rel=1e-9, abs=1e-12)
    assert all(-1e-12 <= factor <= 1 + 1e-9 for factor in found)
    if found.goodput > 1e-6:
        for name, factor in found._asdict().items():
            assert found.goodput / found.without(name) == pytest.approx(factor, rel=1e-9)


def test_a_simulated_run_has_the_factors_of_its_metrics() -> None:
    """The mean shares of a run, decomposed, are the goodputs that `run` prints."""
    ensemble = replicate(prepare(), 4, keeps_log=True)
    rows = means(ensemble.rows)
    jobs = [result.jobs[0] for result in ensemble.results]
    total = np.sum([job.buckets for job in jobs], axis=0) / sum(job.requested for job in jobs)
    found = decompose({name: float(total[number]) for number, name in enumerate(BUCKETS)})
    expected = [rows[name] for name in ("scheduling_goodput", "runtime_goodput", "ettr")]
    assert [found.scheduling, found.runtime, found.ettr] == pytest.approx(expected, rel=1e-9)
    assert found.scheduling < 1


@pytest.mark.parametrize("mtti", [500.0, 5000.0, math.inf])
def test_phases_of_a_restart_are_restarts_of_restarts(mtti: float) -> None:
    """The first k phases take what a restart of their length would take, for every k."""
    lengths = {"reschedule": 100.0, "initialize": 250.0, "restore": 60.0}
    whole = expected_shares(1200.0, 10.0, mtti, 410.0)["restart"] if mtti < math.inf else 0.3
    found = restart_phases(whole, mtti, lengths)
    assert sum(found.values()) == pytest.approx(whole, rel=1e-12)
    if mtti == math.inf:
        assert found["initialize"] == pytest.approx(0.3 * 250 / 410, rel=1e-12)
        return
    begun = 0.0
    for name, seconds in lengths.items():
        before = expected_shares(1200, 10, mtti, begun)["restart"]
        begun += seconds
        assert found[name] == pytest.approx(expected_shares(1200, 10, mtti, begun)["restart"] - before, rel=1e-9)


def test_the_simulator_spends_these_phases() -> None:
    """Reschedule and initialize of 10 and 20 min at a failure every 50 min, each in its interval."""
    case = prepare(
        jobs=[{"name": "train", "gpus": 112}],
        failures=[{"use": "job", "name": "bug", "law": {"law": "exponential", "mean": "50 min"}}],
        detection={"time": "0 s"},
        recovery={"use": "hot-spare", "reschedule": "10 min", "initialize": "20 min"},
        checkpoint={"tiers": [{"interval": "20 min", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
        horizon="30 d",
    )
    rows = []
    for number in range(30):
        job = sim.run(case, number).jobs[0]
        rows.append(job.buckets / job.requested)
    table: np.ndarray[Any, Any] = np.array(rows)
    share = float(expected_shares(1200.0, 0.0, 3000.0, 1800.0)["restart"])
    theory = restart_phases(share, 3000, {"reschedule": 600.0, "initialize": 1200.0})
    for name, bucket in (("reschedule", Bucket.RESCHEDULE), ("initialize", Bucket.INITIALIZE)):
        seen = table[:, bucket]
        # Student's quantile for 30 replications and one false alarm in 16,000 is 4.7 and not 4.
        error = float(seen.std(ddof=1)) / math.sqrt(len(seen))
        assert abs(seen.mean() - theory[name]) <= 4.7 / 4 * Z * error + 1800 / (30 * 86400), name
    flat = share * 600 / 1800
    assert abs(table[:, Bucket.RESCHEDULE].mean() - flat) > 0.01, "in proportion to their times they would be"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: decompose({"productive": 0.9, "restart": 0.1}), "split it with restart_phases"),
        (lambda: decompose({"productive": 0.9, "waiting": 0.1}), "no bucket is called 'waiting': there are productive"),
        (lambda: decompose({"productive": 0.9}), "shares must sum to 1"),
        (lambda: decompose({"productive": 1.0}, 1.2), "program must be above 0"),
        (lambda: restart_phases(0.1, 0.0, {}), "mtti must be positive"),
        (lambda: restart_phases(0.1, 10.0, {"restore": -1.0}), "restore must be finite and not negative"),
    ],
    ids=["restart", "name", "sum", "program", "mtti", "time"],
)
def test_what_makes_no_sense_is_refused(call: Any, words: str) -> None:
    """Names that are no buckets and shares that do not add up are refused, with what to do."""
    with pytest.raises(ValueError, match=words):
        call()


def test_a_job_that_never_got_its_nodes_has_no_runtime() -> None:
    """All queued: scheduling and runtime are 0."""
    assert decompose({"queued": 1.0}, 0.5) == Goodput(0.0, 0.0, 0.5)

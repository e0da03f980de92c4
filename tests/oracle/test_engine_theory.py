"""The engine against closed forms of a synchronous job: Daly, INRIA, Meta RSC, drains, downtimes, failure counts.

Every tolerance is Z standard errors of the mean of independent replications; theory's number is computed here.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim.formulas.goodput import (
    efficiency,
    expected_shares,
    expected_wallclock,
    optimal_interval,
    young_interval,
)
from ettrick.sim.policies.contracts import Bucket
from tests.harness import exact, prepared, results_of
from tests.intervals import Z, student
from tests.pace import SEED, one_in
from tests.typed import present

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def one_job(
    mtti: float,
    interval: float,
    write: float,
    *,
    restore: float = 0.0,
    horizon: float,
    job: dict[str, Any] | None = None,
    tier: dict[str, Any] | None = None,
    **changes: Any,
) -> sim.Prepared:
    """Return a job that fails as a whole, constant rate 1 / mtti, with a blocking save unless `tier` says otherwise."""
    saves = {"interval": exact(interval), "mode": "blocking", "write": exact(write), "restore": exact(restore)}
    return prepared(
        horizon=exact(horizon),
        jobs=[{"name": "job", "gpus": 2, **(job or {})}],
        failures=[{"use": "job", "name": "failure", "law": {"use": "exponential", "mean": exact(mtti)}}],
        checkpoint={"tiers": [saves | (tier or {})]},
        seed=SEED,
        **changes,
    )


def shares_of(case: sim.Prepared, replications: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], int]:
    """Return mean share and standard error of each bucket of the first job, and the number of interruptions."""
    rows = []
    interruptions = 0
    for result in results_of(case, replications):
        job = result.jobs[0]
        rows.append(job.buckets / job.requested)
        interruptions += sum(job.interruptions.values())
    table = np.array(rows)
    return table.mean(axis=0), table.std(axis=0, ddof=1) / math.sqrt(replications), interruptions


# J. T. Daly, FGCS 22 (2006), figures 3 to 5: dump 5 min, restart 10 min; mean time to interrupt [s].
DALY = [24 * HOUR, 6 * HOUR, 15 * MINUTE]

DUMP, RESTART = 5 * MINUTE, 10 * MINUTE


def daly_expectation(work: float, tau: float, mtti: float, *, first_is_free: bool) -> float:
    """Return the exact mean wall clock of our job [s]: Daly's segments, but no save after the last.

    A segment of length x that is restarted until it fits takes M e^(R/M) (e^(x/M) - 1) on average. The job also
    starts, which takes M (e^(R/M) - 1) if the start is an initialization (a failure in it starts it over), and
    nothing if it is a restore; but then nothing is there to be restored in the first segment either.
    """
    whole = math.ceil(work / tau - 1e-9) - 1

    def fits(length: float) -> float:
        return mtti * math.expm1(length / mtti)

    growth = math.exp(RESTART / mtti)
    last = work - whole * tau
    first = fits(tau + DUMP) * (1.0 if first_is_free else growth)
    start = 0.0 if first_is_free else fits(RESTART)
    return start + first + (whole - 1) * growth * fits(tau + DUMP) + growth * fits(last)


def daly(mtti: float, work: float, replications: int, *, as_restore: bool) -> None:
    """Compare mean wall clocks of a fixed amount of work."""
    tau = optimal_interval(DUMP, mtti)
    case = one_job(
        mtti,
        tau,
        DUMP,
        restore=RESTART if as_restore else 0.0,
        horizon=12 * work if mtti < HOUR else 2 * work,
        job={"work": {"time": exact(work)}},
        recovery={"use": "hot-spare", "initialize": "0 s" if as_restore else exact(RESTART)},
    )
    ends = []
    for result in results_of(case, replications):
        job = result.jobs[0]
        assert job.finished
        ends.append(job.end)
    mean, error = float(np.mean(ends)), float(np.std(ends, ddof=1)) / math.sqrt(replications)
    theory = daly_expectation(work, tau, mtti, first_is_free=as_restore)
    assert abs(mean - theory) <= student(replications) * error
    # Daly's formula leaves out the start and rounds no segment: within 1 % of ours for this much work.
    formula = expected_wallclock(work, tau, DUMP, RESTART, mtti)
    assert theory == pytest.approx(formula, rel=0.01)
    assert abs(mean - formula) <= student(replications) * error + 0.01 * formula
    # The interval is narrow enough to see a free dump, half of the restart, or twice the rate.
    for wrong in (
        expected_wallclock(work, tau, 0.0, RESTART, mtti),
        expected_wallclock(work, tau, DUMP, RESTART, mtti / 2),
    ):
        assert abs(mean - wrong) > 2 * Z * error


@pytest.mark.parametrize("as_restore", [False, True], ids=["initialize", "restore"])
@pytest.mark.parametrize(
    "mtti", [*DALY[:2], pytest.param(DALY[2], marks=pytest.mark.nightly)], ids=["24 h", "6 h", "15 min"]
)
def test_daly_wallclock(mtti: float, as_restore: bool) -> None:
    """Mean wall clocks at Daly's optimum, from light failures to a fifth of the time productive.

    At 15 min the work is a fifth of the published 500 h, to be quick; the nightly test has all of it.
    """
    daly(mtti, (100 if mtti < HOUR else 500) * HOUR, 100, as_restore=as_restore)


@pytest.mark.nightly
@pytest.mark.parametrize("mtti", DALY, ids=["24 h", "6 h", "15 min"])
def test_daly_wallclock_in_full(mtti: float) -> None:
    """The three published settings with 500 h of work, 300 replications each."""
    daly(mtti, 500 * HOUR, 300, as_restore=False)


def test_the_rule_optimal_beats_youngs_where_failures_are_frequent() -> None:
    """At an MTTI of 15 min the exact optimum needs less wall clock than the first-order intervals, on the same luck."""
    mtti = 15 * MINUTE
    best = optimal_interval(DUMP, mtti)
    means = []
    # Daly's first-order interval is Young's minus the dump: 7.25 min. Twice the optimum errs on the other side.
    for tau in (best, young_interval(DUMP, mtti) - DUMP, 2 * best):
        case = one_job(mtti, tau, DUMP, horizon=10 * DAY, recovery={"use": "hot-spare", "initialize": exact(RESTART)})
        mean, error, _ = shares_of(case, 30)
        assert abs(mean[0] - efficiency(tau, DUMP, mtti, RESTART)) <= student(30) * error[0] + 1e-4
        means.append(mean[0])
    assert means[0] > max(means[1:])


@pytest.mark.parametrize("log2_nodes", one_in(2, [10, 12, 14, 16, 18]))
def test_inria_waste_at_the_optimum(log2_nodes: int) -> None:
    """Downtime without failures, then a recovery that failures interrupt: the waste of the exact optimum.

    Aupy, Robert, Vivien, Zaidouni, arXiv:1302.3752, table 2: C = R = 600 s, D = 60 s, individual MTBF 125 years.
    """
    mu = 125.0 * 365.0 * DAY / 2.0**log2_nodes
    tau = optimal_interval(600.0, mu)
    case = one_job(
        mu,
        tau,
        600.0,
        restore=600.0,
        horizon=1000 * mu,
        recovery={"use": "hot-spare", "reschedule": "60 s", "exposed": False, "initialize": "0 s"},
        repair={"time": "0 s"},
    )
    mean, error, interruptions = shares_of(case, 12)
    assert interruptions > 9000
    period = tau + 600.0
    published = (period - 600.0) / ((mu + 60.0) * math.exp(600.0 / mu) * math.expm1(period / mu))
    # What the edges of a run of 1000 failures can hold: less than one period.
    assert abs(mean[0] - published) <= student(12) * error[0] + period / (1000 * mu)
    free = efficiency(tau, 600.0, mu, 0.0)
    assert abs(mean[0] - free) > 2 * Z * error[0] or log2_nodes < 16, "a free recovery must fall outside"


NAMES = {
    "productive": [Bucket.PRODUCTIVE],
    "checkpoint_stall": [Bucket.CHECKPOINT_STALL],
    "lost_work": [Bucket.LOST_WORK],
    "detection": [Bucket.DETECTION, Bucket.RESCHEDULE],
    "restart": [Bucket.INITIALIZE, Bucket.RESTORE],
}

CASES: dict[str, dict[str, Any]] = {
    "blocking": {"tau": 20 * MINUTE, "write": 2 * MINUTE, "restart": 5 * MINUTE},
    "drain": {"tau": 20 * MINUTE, "write": 10.0, "restart": 5 * MINUTE, "drain": 15 * MINUTE},
    "drain as long as the interval": {"tau": 20 * MINUTE, "write": 0.0, "restart": 0.0, "drain": 20 * MINUTE},
    "detection": {"tau": 20 * MINUTE, "write": 60.0, "restart": 5 * MINUTE, "detection": 30 * MINUTE},
    "unexposed pause": {"tau": 20 * MINUTE, "write": 60.0, "restart": 5 * MINUTE, "pause": 30 * MINUTE},
    "everything": {
        "tau": 15 * MINUTE,
        "write": 20.0,
        "restart": 8 * MINUTE,
        "drain": 5 * MINUTE,
        "detection": 4 * MINUTE,
        "pause": 6 * MINUTE,
    },
}


@pytest.mark.parametrize("name", one_in(2, CASES))
def test_every_share_is_that_of_theory(name: str) -> None:
    """Productive time, stalls, lost work, downtime and restart at an MTTI of one hour, each in its own interval."""
    case = CASES[name]
    drain, detection, pause = (case.get(key, 0.0) for key in ("drain", "detection", "pause"))
    tier = {"mode": "async", "stall": exact(case["write"]), "write": exact(drain)} if drain else {}
    ready = one_job(
        HOUR,
        case["tau"],
        case["write"],
        horizon=1000 * HOUR,
        tier=tier,
        detection={"time": exact(detection)},
        recovery={
            "use": "hot-spare",
            "reschedule": exact(pause),
            "exposed": False,
            "initialize": exact(case["restart"]),
        },
        repair={"time": "0 s"},
    )
    theory = expected_shares(case["tau"], case["write"], HOUR, case["restart"], detection + pause, drain)
    mean, error, interruptions = shares_of(ready, 20)
    assert interruptions > 9000
    edge = (case["tau"] + case["restart"] + drain) / (1000 * HOUR)
    for bucket, indices in NAMES.items():
        tolerance = student(20) * float(np.sqrt((error[indices] ** 2).sum())) + edge
        assert abs(mean[indices].sum() - theory[bucket]) <= tolerance, bucket
    assert theory["productive"] == pytest.approx(
        efficiency(case["tau"], case["write"], HOUR, case["restart"], detection + pause, drain), rel=1e-12
    )
    closed = sim.closed_form(ready)
    assert closed.ettr == pytest.approx(theory["productive"], rel=1e-12)


def test_phases_of_a_restart_are_restarts_of_restarts() -> None:
    """Reschedule and initialize of 10 and 20 min at a failure every 50 min: the first takes what it would take alone.

    In proportion to their lengths they would have other shares: failures strike the second after the first.
    """
    recovery = {"use": "hot-spare", "reschedule": "10 min", "initialize": "20 min"}
    mean, error, _ = shares_of(one_job(50 * MINUTE, 20 * MINUTE, 0.0, horizon=30 * DAY, recovery=recovery), 30)
    first, both = (expected_shares(20 * MINUTE, 0.0, 50 * MINUTE, pause * MINUTE)["restart"] for pause in (10, 30))
    allowed = student(30) * error + 30 * MINUTE / (30 * DAY)
    assert abs(mean[Bucket.RESCHEDULE] - first) <= allowed[Bucket.RESCHEDULE]
    assert abs(mean[Bucket.INITIALIZE] - (both - first)) <= allowed[Bucket.INITIALIZE]
    assert abs(mean[Bucket.RESCHEDULE] - both / 3) > 0.01


def test_a_drain_that_is_ignored_turns_it_red() -> None:
    """The interval sees the drain: without it theory is far away."""
    case = CASES["drain"]
    tier = {"mode": "async", "stall": exact(case["write"]), "write": exact(case["drain"])}
    ready = one_job(
        HOUR,
        case["tau"],
        case["write"],
        horizon=1000 * HOUR,
        tier=tier,
        recovery={"use": "hot-spare", "initialize": exact(case["restart"])},
    )
    mean, error, _ = shares_of(ready, 20)
    assert abs(mean[0] - efficiency(case["tau"], case["write"], HOUR, case["restart"])) > 4 * Z * error[0]


@pytest.mark.parametrize("repair", ["0 s", "6 h"])
@pytest.mark.parametrize("recovery", ["hot-spare", "full-restart"])
def test_the_closed_form_of_a_scenario(recovery: str, repair: str) -> None:
    """Nodes that fail and are swapped while others are available: the closed form is what the simulation gives.

    64 of 96 nodes, 3.2 failures a day, detection 5 min; 32 idle nodes are far more than are ever in repair.
    """
    kinds = {
        "hot-spare": {"use": "hot-spare", "reschedule": "1 min", "initialize": "4 min"},
        "full-restart": {"use": "full-restart", "delay": "1 min", "initialize": "4 min"},
    }
    case = prepared(
        cluster={"nodes": 96, "gpus_per_node": 8},
        horizon="150 d",
        jobs=[{"name": "train", "gpus": 512, "step_time": "10 s"}],
        failures=[{"use": "component", "name": "node", "part": "node", "rate": "50 per 1000 node-day"}],
        detection={"time": "5 min"},
        checkpoint={"tiers": [{"interval": "30 min", "mode": "blocking", "write": "30 s", "restore": "1 min"}]},
        recovery=kinds[recovery],
        repair={"time": repair},
        seed=SEED,
    )
    closed = sim.closed_form(case)
    mean, error, interruptions = shares_of(case, 16)
    assert interruptions > 5000
    assert abs(mean[0] - present(closed.ettr)) <= student(16) * error[0] + 30 * MINUTE / (150 * DAY)
    assert mean[Bucket.STARVED] == 0.0
    doubled = replace(case, jobs=(replace(case.jobs[0], mtti=case.jobs[0].mtti / 2),))
    other = present(sim.closed_form(doubled).ettr)
    assert abs(mean[0] - other) > 4 * Z * error[0], "twice the rate must fall outside"


SEEDS = 80


@pytest.fixture(scope="module")
def llama_counts() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return interruptions by seed and cause over 54 days on 16,384 GPUs, and the published counts."""
    case = prepared(
        cluster={"nodes": 2048, "gpus_per_node": 8, "fabric": {"radix": 1024}},
        horizon="54 d",
        jobs=[{"name": "pretrain", "gpus": 16384}],
        failures=[{"use": "llama3-table5"}],
        repair={"time": "0 s"},
        seed=SEED,
    )
    # "The Llama 3 Herd of Models", arXiv:2407.21783, table 5, in its order.
    published = [148, 72, 54, 35, 32, 19, 17, 7, 7, 6, 6, 3, 3, 2, 2, 2, 2, 2]
    assert [source.events for source in case.sources] == published
    counts = np.zeros((SEEDS, len(published)))
    for number, result in enumerate(results_of(case, SEEDS)):
        for cause, count in result.jobs[0].interruptions.items():
            counts[number, cause - 1] = count
    return counts, np.array(published, dtype=np.float64)


def test_llama3_totals(llama_counts: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]) -> None:
    """Totals are Poisson with mean 419: 380 to 460 in about 95 % of seeds, variance over mean near 1."""
    from scipy.stats import binom, chi2, poisson

    counts, published = llama_counts
    totals = counts.sum(axis=1)
    assert published.sum() == 419
    assert abs(totals.mean() - 419) <= Z * math.sqrt(419 / SEEDS)
    inside = int(((totals >= 380) & (totals <= 460)).sum())
    share = float(poisson.cdf(460, 419) - poisson.cdf(379, 419))
    assert share == pytest.approx(0.95, abs=0.01)
    assert binom.ppf(1e-4, SEEDS, share) <= inside <= binom.ppf(1 - 1e-4, SEEDS, share)
    dispersion = totals.var(ddof=1) / totals.mean() * (SEEDS - 1)
    assert chi2.ppf(1e-4, SEEDS - 1) <= dispersion <= chi2.ppf(1 - 1e-4, SEEDS - 1)


def test_llama3_mix_of_causes(llama_counts: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]) -> None:
    """Chi-square p-values of the causes, the seven rarest pooled (11 degrees of freedom), are uniform over seeds."""
    from scipy.stats import chi2, kstest

    counts, published = llama_counts
    rare = published <= 3
    assert rare.sum() == 7
    pooled = np.column_stack((counts[:, ~rare], counts[:, rare].sum(axis=1)))
    mix = np.append(published[~rare], published[rare].sum()) / 419
    assert mix.size == 12

    def p_values(shares: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        expected = pooled.sum(axis=1, keepdims=True) * shares
        return np.asarray(chi2.sf(((pooled - expected) ** 2 / expected).sum(axis=1), 11))

    assert kstest(p_values(mix), "uniform").pvalue > 1e-4
    wrong = mix.copy()
    wrong[[0, 1]] = mix[[0, 1]].mean()
    assert kstest(p_values(wrong), "uniform").pvalue < 1e-6, "a wrong mix must fall outside"

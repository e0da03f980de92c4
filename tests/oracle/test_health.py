"""Observers that can be wrong: what false alarms, predictions and checks cost and bring, against theory."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import optimize

from ettrick import sim
from ettrick.sim.formulas.goodput import efficiency, predicted_efficiency, young_interval
from ettrick.sim.policies.contracts import Bucket
from tests.cases import cases
from tests.harness import play, prepared, results_of
from tests.intervals import Z, student
from tests.typed import present

if TYPE_CHECKING:
    from numpy.typing import NDArray

DAY, MINUTE = 86400.0, 60.0


def case(health: dict[str, Any], days: float = 60, **changes: Any) -> sim.Prepared:
    """Return a job of 8 nodes of one GPU that fail once a day each, with spares enough and a quick repair."""
    base: dict[str, Any] = {
        "cluster": {"nodes": 12, "gpus_per_node": 1, "fabric": {"rails": 1}},
        "horizon": f"{days} d",
        "jobs": [{"name": "job", "gpus": 8}],
        "failures": [{"use": "component", "name": "node", "rate": "1 per node-day"}],
        "checkpoint": {"tiers": [{"interval": "20 min", "mode": "blocking", "write": "2 min", "restore": "0 s"}]},
        "recovery": {"use": "hot-spare", "initialize": "5 min"},
        "spares": {"hot": 4},
        "repair": {"time": "1 s"},
        "health": health,
    }
    return prepared(**(base | changes))


def ettrs(one: sim.Prepared, replications: int) -> NDArray[np.float64]:
    """Return the ETTR of each replication [-]."""
    found = (result.jobs[0] for result in results_of(one, replications))
    return np.array([job.buckets[Bucket.PRODUCTIVE] / job.requested for job in found])


def totals(one: sim.Prepared, replications: int, *names: str) -> list[int]:
    """Return counts over all replications."""
    counts = [result.counts for result in results_of(one, replications)]
    return [sum(count[name] for count in counts) for name in names]


def is_share(count: int, of: int, probability: float) -> bool:
    """Return whether so many of some are what a probability makes of them, within Z standard errors."""
    return abs(count - of * probability) <= Z * math.sqrt(of * probability * (1 - probability)) + 1e-9


@cases(("recall", "precision"), [(0.7, 0.4), (1.0, 0.8), (0.0, 0.5)])
def test_the_share_left_is_that_of_the_formula(recall: float, precision: float) -> None:
    """A job that saves and restarts at each alarm keeps what the renewal says; with other odds it would not.

    Twice the failures, or no prediction, are outside the interval: see the last line.
    """
    days, replications, rate = 10, 16, 8 / DAY
    health = {"prediction": {"recall": recall, "precision": precision, "lead": "10 min"}}
    found = ettrs(case(health, days), replications)

    def expected(recall: float, precision: float, rate: float = rate) -> float:
        return predicted_efficiency(1200.0, 120.0, (1 - recall) * rate, recall * rate / precision, 300.0)

    half = student(replications) * found.std(ddof=1) / math.sqrt(replications)
    # The first start and the work in flight at the end belong to no renewal.
    edge = (300.0 + 1200.0) / (days * DAY)
    assert abs(found.mean() - expected(recall, precision)) <= half + edge
    assert abs(found.mean() - expected(recall, precision, 2 * rate)) > 3 * (half + edge)
    if recall == 1:
        assert abs(found.mean() - expected(0.0, 1.0)) > half + edge


def test_without_alarms_the_formula_is_that_of_failures_alone() -> None:
    """With a recall of 0 it is the exact efficiency; arrays are scalars side by side; bad amounts are refused."""
    tau, write, mtti, restart = np.array([600.0, 3600.0]), 60.0, 3 * 3600.0, 300.0
    found = predicted_efficiency(tau, write, 1 / mtti, 0.0, restart)
    assert found == pytest.approx(efficiency(tau, write, mtti, restart, 0.0), rel=1e-12)
    assert found[1] == predicted_efficiency(3600.0, write, 1 / mtti, 0.0, restart)
    # Alarms alone: each costs a restart and a save, of which the rhythm that begins again leaves out half.
    rare = 1e-9
    alone = predicted_efficiency(3600.0, write, 0.0, rare, restart)
    assert 1 - alone * (1 + write / 3600.0) == pytest.approx(rare * (restart + write / 2), rel=0.02)
    for amounts in ((0.0, write, 1.0, 1.0, 1.0), (1.0, -1.0, 1.0, 1.0, 1.0), (1.0, 1.0, 0.0, 0.0, 1.0)):
        with pytest.raises(ValueError, match="must"):
            predicted_efficiency(*amounts)


@cases(("recall", "precision"), [(0.7, 0.4), (1.0, 0.8)])
@cases(("days", "error"), [(1, 2e-3), (20, 1e-5)])
def test_the_closed_form_knows_that_alarms_save_work(recall: float, precision: float, days: int, error: float) -> None:
    """It is the renewal of a job that saves at each alarm, but for failures in one interval; with late signs, of less.

    Late signs leave false alarms, which have all the notice that they need. That all stops were without notice, as
    if nothing were saved, is further off.
    """
    failures = [{"use": "component", "name": "node", "rate": f"1 per {days} node-days"}]
    rate = 8 / DAY / days
    alarms = recall * rate / precision

    def found(lead: str) -> float:
        one = sim.closed_form(
            case({"prediction": {"recall": recall, "precision": precision, "lead": lead}}, failures=failures)
        )
        assert sum(one.shares.values()) == pytest.approx(1.0, abs=1e-9)
        return present(one.ettr)

    assert found("10 min") == pytest.approx(
        predicted_efficiency(1200.0, 120.0, (1 - recall) * rate, alarms, 300.0), abs=error
    )
    late = predicted_efficiency(1200.0, 120.0, rate, (1 - precision) * alarms, 300.0)
    unsaved = predicted_efficiency(1200.0, 120.0, rate + (1 - precision) * alarms, 0.0, 300.0)
    assert abs(found("1 min") - late) < abs(found("1 min") - unsaved) / 2


@cases("recall", [0.0, 0.5, 0.9])
def test_the_best_interval_is_that_of_failures_without_signs(recall: float) -> None:
    """To the first order it is sqrt(2 b M / (1 - r)), whatever the precision (Aupy and others); the rule uses it."""
    write, mtti = 1.0, 1e5
    for precision in (0.2, 1.0):
        alarms = recall / mtti / precision
        found = optimize.minimize_scalar(
            lambda tau, alarms=alarms: -predicted_efficiency(tau, write, (1 - recall) / mtti, alarms, 60.0),
            bounds=(10.0, 1e4),
            method="bounded",
        )
        assert found.x == pytest.approx(young_interval(write, mtti / (1 - recall)), rel=0.02)
    store = {"interval": "young", "mode": "blocking", "write": "10 s", "restore": "0 s"}
    health = {"prediction": {"recall": recall, "precision": 0.5, "lead": "10 min"}}
    plan = case(health, checkpoint={"tiers": [store]}).jobs[0]
    assert plan.checkpoint.interval == pytest.approx(young_interval(10.0, DAY / 8 / (1 - recall)))


def test_alarms_are_right_as_often_as_stated() -> None:
    """Counts of right, false and missing alarms have recall and precision; a score has those of two normal laws."""
    right, wrong, missed = totals(
        case({"prediction": {"recall": "70 %", "precision": "40 %", "lead": "5 min"}}), 3, *ALARMS
    )
    assert is_share(right, right + missed, 0.7)
    assert is_share(right, right + wrong, 0.4)
    assert not is_share(right, right + wrong, 0.5)
    score = {"threshold": 2, "separation": 3, "every": "6 h"}
    right, wrong, missed = totals(case({"prediction": {"score": score, "lead": "5 min"}}), 3, *ALARMS)
    law = NormalDist()
    assert is_share(right, right + missed, law.cdf(1))
    expected = 12 * 3 * 60 * 4 * law.cdf(-2)  # nodes, replications, days, scores a day
    assert abs(wrong - expected) <= Z * math.sqrt(expected)


ALARMS = ("true_alarms", "false_alarms", "missed")


def test_a_sign_that_comes_too_late_saves_nothing() -> None:
    """A lead below the time of a save loses the work since the last one, and a lead above it none."""
    failures = [{"use": "component", "name": "node", "law": {"use": "exponential", "mean": "1000 d"}}]
    lost = {}
    for lead in ("9 s", "11 s"):
        one = prepared(
            failures=failures,
            health={"prediction": {"recall": 1, "precision": 1, "lead": lead}},
            detection={"time": "7 s"},
        )
        job = play(one, [(90.0, 0, 0)]).jobs[0]
        lost[lead] = job.buckets[[Bucket.LOST_WORK, Bucket.CHECKPOINT_STALL, Bucket.DETECTION]].tolist()
    start = 30.0
    assert lost["9 s"][0] == 2 * (90.0 - start)
    assert lost["11 s"][0] == 0
    # Ten seconds of a save more than with a late sign, but for the rhythm that begins again.
    assert lost["9 s"][2] == lost["11 s"][2] == 0, "who gave a sign is known when it fails"


def test_false_alarms_are_blames_to_lemon_policies() -> None:
    """A policy that gives nodes up at the second blame sees no difference between false alarms and failures."""
    repair = {
        "use": "tiers",
        "tiers": [{"name": "reset", "time": "1 min"}],
        "lemons": [{"use": "threshold", "failures": 2, "window": "100 d"}],
        "replacement": "1 min",
    }
    one = case({"false_alarms": "1 per 5 node-days"}, failures=[], repair=repair)
    wrong, retired, failures, sound = totals(one, 2, "false_alarms", "retired", "failures", "retired_sound")
    assert failures == wrong > 200
    assert retired == sound, "no node has anything"
    lies = {**repair, "tiers": [{"name": "reset", "time": "1 min", "fixes": 0}]}
    hidden = {"use": "defect", "name": "bad", "share": 0.5, "exact": True, "law": law(2)}
    bad, good = totals(case({}, failures=[hidden], repair=lies), 2, "retired", "retired_sound")
    assert (bad, good) == (2 * 12 // 2, 0), "all that have it, and no other"
    # Each second alarm of a node, whose successor begins again; at the end up to one of each node is open.
    assert 0 <= wrong - 2 * retired <= 2 * 12


@cases("coverage", [1.0, 0.6])
def test_checks_find_hidden_faults_before_they_strike(coverage: float) -> None:
    """Of faults that strike after an exponential time, mean m, checks T apart find c (m / T) (1 - exp(-T / m))."""
    m, every = 5.0, 3.0
    hidden = {"use": "defect", "name": "bad", "share": 0, "onset": "1 per 10 node-days", "law": law(m)}
    one = case({"checks": {"every": f"{every} d", "coverage": coverage}}, 200, failures=[hidden])
    found, missed = totals(one, 4, "true_alarms", "missed")
    assert is_share(found, found + missed, coverage * m / every * -math.expm1(-every / m))
    assert not is_share(found, found + missed, coverage)


def law(days: float) -> dict[str, Any]:
    """Return an exponential law."""
    return {"use": "exponential", "mean": f"{days} d"}


def test_the_best_time_between_checks_is_like_youngs() -> None:
    """Of wrong results at a rate L and checks of time t, t / T + L T / 2 is least at T = sqrt(2 t / L)."""
    rate, time = 8 / (4 * DAY), 2 * MINUTE
    best = young_interval(time, 1 / rate)
    corrupt = {"use": "component", "name": "sdc", "rate": "1 per 4 node-days", "effect": "corrupt"}
    store = {"interval": "2 min", "mode": "blocking", "write": "0 s", "restore": "0 s"}
    replications = 12
    shares = {}
    for factor in (0.25, 1.0, 4.0):
        checks = {"every": f"{factor * best} s", "time": f"{time} s"}
        recovery = {"use": "hot-spare", "initialize": "0 s"}
        one = case(
            {"checks": checks}, 20, failures=[corrupt], checkpoint={"tiers": [store]}, recovery=recovery
        )  # fmt: skip
        shares[factor] = ettrs(one, replications)
    for factor in (0.25, 4.0):
        ahead = shares[1.0] - shares[factor]
        error = student(replications) * ahead.std(ddof=1) / math.sqrt(replications)
        assert ahead.mean() > error
        # Waste is 2 w at the best and 4.25 w at four times or a quarter of it, w = sqrt(t L / 2), but for its square.
        least = math.sqrt(time * rate / 2)
        assert abs(ahead.mean() - 2.25 * least) <= error + (4.25 * least) ** 2
    whole = 1 - 2 * math.sqrt(time * rate / 2)
    assert shares[1.0].mean() == pytest.approx(whole, abs=0.03)


def test_a_check_before_the_job_keeps_bad_nodes_out() -> None:
    """Found nodes are replaced before the job steps, and it starts later by a check of all and of the new ones."""
    hidden = {"use": "defect", "name": "bad", "share": 0.5, "exact": True, "law": law(0.05)}
    changes = {"failures": [hidden], "horizon": "1 d", "spares": {"hot": 4}, "cluster": CLUSTER}
    open_, checked = (
        sim.run(case(health, **changes), 0)
        for health in ({"preflight": {"time": "40 s", "coverage": 0}}, {"preflight": {"time": "40 s"}})
    )
    assert open_.jobs[0].disruptions
    assert open_.counts["missed"] == 0, "who covers nothing watches nothing"
    assert checked.counts["true_alarms"] >= 1
    assert not checked.jobs[0].interruptions
    waited = checked.jobs[0].buckets[Bucket.INITIALIZE] / checked.jobs[0].gpus
    assert waited in (300.0 + 40.0 * checks for checks in (2, 3))


CLUSTER = {"nodes": 16, "gpus_per_node": 1, "fabric": {"rails": 1}}


def test_a_check_before_the_job_finds_slow_nodes() -> None:
    """A node that became slow outside the job never slows it once it is asked to join."""
    slow = {"use": "component", "name": "slow", "law": law(1000), "effect": {"use": "slow", "factor": 0.5}}
    crash = {"use": "component", "name": "crash", "law": law(1000)}
    for preflight, pace in (({"time": "0 s"}, 1.0), ({"time": "0 s", "coverage": 0}, 0.5)):
        one = prepared(failures=[slow, crash], health={"preflight": preflight}, spares={"hot": 2})
        # Of the nodes 0 and 1 of the job one fails, and the first spare, node 2, is slow by then.
        job = play(one, [(50.0, 0, 2), (90.0, 1, 0)]).jobs[0]
        degraded = job.buckets[Bucket.DEGRADED]
        assert (degraded == 0) == (pace == 1.0)

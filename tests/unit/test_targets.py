"""Targets by window: what is missed, what that costs, and how sure it is, worked out by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ettrick import sim
from ettrick.analysis.metrics import METRICS
from ettrick.analysis.ratios import ratios, target_result
from ettrick.analysis.statistics.intervals import binomial_interval, exact_interval
from ettrick.analysis.study.model import condition_of
from ettrick.cli import app
from ettrick.sim import Ratio
from ettrick.sim.engine.prepared import RequestRates
from tests.cases import cases
from tests.oracle.test_services import outage, ready, scenario
from tests.pace import SEED

if TYPE_CHECKING:
    from pathlib import Path


def means(found: dict[str, Ratio]) -> dict[str, float]:
    """Return the values of metrics."""
    return {name: ratio.amount / ratio.base for name, ratio in found.items() if ratio.base}


@cases("window, missed", [("250 s", 2), ("500 s", 1)])
def test_windows_of_a_service_by_hand(tmp_path: Path, window: str, missed: int) -> None:
    """Ten replicas of 5/s, 47/s offered, one out from 100 to 400 s: 300 of 11,750 requests of two quarters are lost."""
    tiers = [{"below": "98 %", "share": "10 %"}, {"below": "97.4 %", "share": "50 %"}]
    target = {"name": "t", "metric": "served_share", "at_least": "98 %", "window": window, "credits": tiers, "bill": 70}
    content = scenario(10, Failures=[outage(tmp_path, "3,100,400")], failover="restore", Targets=[target])
    prepared = ready(
        content,
        tmp_path,
        capacity=5.0,
        rates=RequestRates(47.0, 1e9),
        patience=0.0,
        load=0.0,
        start=0.0,
        batch=(0.0,) * 51,
    )
    found = means(ratios(prepared, sim.run(prepared, 0)))
    count = 1000 // int(window.split()[0])
    # Of a service with a target of its own, the attainment of its SLO is none.
    assert [name for name in found if "@target" in name and not name.endswith("@target=t")] == []
    for name in ("missed_windows", "missed_windows@target=t"):
        assert found[name] == missed / count
    assert found["worst_window"] == pytest.approx(1 - 600 / missed / (47 * 1000 / count))
    assert found["error_budget_left"] == pytest.approx(1 - 600 / (0.02 * 47_000))
    assert found["credit_share"] == pytest.approx(0.1 * missed / count)
    assert found["credits"] == pytest.approx(7 * missed)


def test_budgets_of_several_targets_are_their_least(tmp_path: Path) -> None:
    """Windows of all targets count alike, credits add up, and of budgets and worst windows the least is meant."""
    day = {"metric": "served_share", "at_least": "98 %", "window": "500 s", "credits": [{"below": 1, "share": 1}]}
    content = scenario(
        10, Failures=[outage(tmp_path, "3,100,400")], failover="restore",
        Targets=[{"name": "a", "bill": 3} | day, {"name": "b", "bill": 5} | day | {"at_least": "99 %"}],
    )  # fmt: skip
    prepared = ready(
        content,
        tmp_path,
        capacity=5.0,
        rates=RequestRates(47.0, 1e9),
        patience=0.0,
        load=0.0,
        start=0.0,
        batch=(0.0,) * 51,
    )
    found = means(ratios(prepared, sim.run(prepared, 0)))
    assert found["missed_windows"] == 2 / 4
    assert found["credits"] == pytest.approx(3 + 5)
    assert found["error_budget_left"] == found["error_budget_left@target=b"] < found["error_budget_left@target=a"]


@cases("metric", ["ettr", "scheduling_goodput", "runtime_goodput"])
def test_windows_of_a_job_add_up_to_its_goodput(metric: str) -> None:
    """Windows of two days of twenty hold all that the metric of the whole run is made of; the worst is no better."""
    target = {"name": "t", "metric": metric, "at_least": "99 %", "window": "2 d"}
    changes = ("horizon=20 d", f"seed={SEED}", f"targets={json.dumps([target])}", "spares.hot=0")
    prepared = sim.prepare(sim.load("quickstart", changes))
    result = sim.run(prepared, 0)
    found, mine = ratios(prepared, result), target_result(prepared, prepared.targets[0], result)
    assert len(mine.amounts) == 10
    assert mine.amounts.sum() == pytest.approx(found[metric].amount, rel=1e-9)
    assert mine.bases.sum() == pytest.approx(found[metric].base, rel=1e-9)
    assert found["worst_window"].amount <= found[metric].amount / found[metric].base


def test_windows_of_a_stream_hold_its_productive_time() -> None:
    """Of 13 days three whole windows of four days count, the last day does not; no target changes what happens."""
    changes = ("horizon=13 d", "warmup=0 s", f"seed={SEED}")
    target = json.dumps([{"name": "t", "of": "train", "at_least": "50 %", "window": "4 d"}])
    plain = sim.run(sim.prepare(sim.load("serve-and-train", changes)), 0)
    prepared = sim.prepare(sim.load("serve-and-train", (*changes, f"targets={target}", "windows=1 d")))
    result = sim.run(prepared, 0)
    assert result.cluster == pytest.approx(plain.cluster)
    mine = target_result(prepared, prepared.targets[0], result)
    assert len(mine.amounts) == 3
    last = sum(
        float(row[-1])
        for key, row in result.fleet.ledger.items()
        if key.account.stream == 0 and key.bucket == sim.Bucket.PRODUCTIVE
    )
    productive = float(result.fleet.buckets[sim.Bucket.PRODUCTIVE])
    assert mine.amounts.sum() + last == pytest.approx(productive)
    # The service has no target of its own: that of its SLO goes on.
    assert [target.name for target in prepared.targets] == ["t", "chat"]


def test_windows_of_a_run_that_are_alike_are_no_sample() -> None:
    """Where all windows of a run miss or none, no more is known than of as many runs; where none misses, all count."""
    alike = [Ratio(12.0, 12.0)] * 2 + [Ratio(0.0, 12.0)] * 6
    low, high = exact_interval(alike, "missed_windows@target=month") or (1.0, 0.0)
    few = binomial_interval(2, 8)
    assert low <= few[0]
    assert few[1] <= high
    assert exact_interval([Ratio(0.0, 12.0)] * 8, "missed_windows") == binomial_interval(0, 96)
    assert exact_interval([Ratio(3.0, 12.0)], "missed_windows") == binomial_interval(3, 12)
    draw = np.random.default_rng(SEED)
    for spread in (0.0, 3.0):  # windows that are independent, and runs of which each has a probability of its own
        held = 0
        for _ in range(400):
            chances = draw.beta(0.1 * spread, 0.9 * spread, 8) if spread else np.full(8, 0.1)
            rows = [Ratio(float(draw.binomial(12, chance)), 12.0) for chance in chances]
            low, high = exact_interval(rows, "missed_windows") or (1.0, 0.0)
            held += low <= 0.1 <= high
        # Fewer than 368 of 400 happen once in 100 times at 95 %; eight runs that differ much know of it less well.
        assert held >= (368 if not spread else 340)


def test_conditions_may_be_of_slices() -> None:
    """A study may ask for a metric of one target, or of one service."""
    found = condition_of("missed_windows@target=chat-month <= 0.01")
    assert found.metric == "missed_windows@target=chat-month"
    assert METRICS[found.metric].label == "windows below the target (chat-month)"


@cases("changes, rule", [
    ({"of": "chatt"}, "of: unknown service, job or stream 'chatt'; did you mean 'chat'?"),
    ({"metric": "ettr"}, "metric: 'ettr' is not of services, which have slo_attainment, served_share, capacity_avail"),
    ({"window": "30 d"}, "window: is 30 d, and no whole one is in the horizon of 10 d"),
    ({"window": "36 h"}, "window: is 36 h, no multiple of 1 d, the width of windows"),
    ({"at_least": 1}, "at_least: must be below 1, not 1"),
    ({"bill": 7}, "bill: is what credits are a part of: give credits"),
    ({"name": "chat"}, "name: 'chat' is also the name of services.0")])  # fmt: skip
def test_mistakes_are_one_line(changes: dict[str, Any], rule: str) -> None:
    """Each mistake names its place and what is wrong."""
    target = {"name": "t", "at_least": "99 %", "window": "2 d"} | changes
    with pytest.raises(sim.ScenarioError) as caught:
        sim.parse(scenario(Horizon="10 d", Windows="1 d", Targets=[target]))
    assert len(caught.value.lines) == 1
    assert f"targets.0.{rule}" in caught.value.lines[0]


def test_a_run_prints_targets() -> None:
    """JSON and the terminal have P(miss) with its interval, also of jobs alone."""
    target = "targets=[{name: week, at_least: 90 %, window: 7 d, credits: [{below: 95 %, share: 20 %}]}]"
    arguments = ["run", "quickstart", "--replications", "2", "--set", target]
    document = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    found = document["per_target"]["week"]
    assert (found["of"], found["metric"], found["windows"]) == ("train", "ettr", 4)
    assert found["metrics"]["missed_windows"]["mean_ci95"] == [0, pytest.approx(1 - 0.025 ** (1 / 8))]
    assert not any("@target" in name for name in document["metrics"])
    text = CliRunner().invoke(app, [*arguments, "--full"]).stdout
    assert "P(miss)" in text
    assert "4 of 7 d" in text

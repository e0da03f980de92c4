"""What each cause and each knob is worth: what is changed, on which failures, and what the numbers add up to."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from ettrick import cli, sim
from ettrick.analysis.contest.worth import KNOBS, Improvement, _gain, changes_of, worth
from ettrick.analysis.page.chapters.sensitivity import format_worth as typed_format_worth
from ettrick.analysis.results.explained import WorthDocument, WorthRow
from ettrick.analysis.results.run import plain
from ettrick.sim import Ratio, catalog, units
from ettrick.sim.formulas.goodput import optimal_interval
from tests import report_sample
from tests.cases import cases
from tests.typed import of_plain, present

if TYPE_CHECKING:
    from ettrick.analysis.parts import DifferenceSummary


format_worth = of_plain(typed_format_worth, WorthDocument)

REPLICATIONS = 24

RARE_ALARM = 1e-5

"""Probability that a correct program fails one comparison with theory."""

NODE: dict[str, Any] = report_sample.SMALL["failures"][0]

TIER: dict[str, Any] = report_sample.SMALL["checkpoint"]["tiers"][0]

TRAINED: dict[str, Any] = {
    "name": "train",
    "gpus": 112,
    "model": "llama3-8b",
    "batch": {"tokens": "7 Mi", "sequence": 8192},
    "parallelism": {"tensor": 8, "pipeline": 2, "data": 7},
    "step_time": "40 s",
}

PLANNED = {"use": "job", "name": "planned", "rate": "2 per job-day", "planned": True, "detection": "0 s"}


def by_name(changes: tuple[Improvement, ...]) -> dict[str, Improvement]:
    """Return changes by their name."""
    return {change.name: change for change in changes}


def knob(name: str, **changes: Any) -> tuple[sim.Prepared, sim.Prepared]:
    """Return a scenario, and the same with a better knob."""
    prepared = report_sample.prepare(**changes)
    return prepared, by_name(changes_of(prepared).knobs)[name].prepared


def rows_of(found: WorthDocument) -> dict[str, WorthRow]:
    """Return all knobs by name."""
    return {row.name: row for row in found.knobs.rows}


def widened(found: DifferenceSummary | None) -> float:
    """Return the half width of an interval that misses with a probability of `RARE_ALARM`, given that of 95 %."""
    degrees = REPLICATIONS - 1
    ratio = stats.t.isf(RARE_ALARM / 2, degrees) / stats.t.isf(0.025, degrees)
    low, high = present(found).ci95 or (0.0, 0.0)
    return float((high - low) / 2 * ratio)


def test_without_its_only_cause_a_job_does_what_arithmetic_says() -> None:
    """Without failures two days are one start of 3 min, and then cycles of 20 min of stepping and 30 s of saving."""
    found = worth(report_sample.parse(), 4, processes=1)
    (row,) = found.causes.rows
    cycles, rest = divmod(2 * 86400 - 180, 1230)
    ideal = (1200 * cycles + min(rest, 1200)) / (2 * 86400)
    gained = present(row.gain["ettr"])
    mean = present(found.base["ettr"].mean)
    assert mean + gained.mean == pytest.approx(ideal, rel=1e-12)
    assert gained.resolved
    assert (found.causes.together, found.causes.added, found.causes.residual) == (None, None, None)


def test_a_cause_that_never_strikes_is_worth_exactly_nothing() -> None:
    """To remove it, though it comes first, changes no life, no repair and no detection of the others: not by a bit."""
    ghost = {**NODE, "name": "ghost", "rate": "1 per 1000000000000 node-day"}
    law = {"use": "lognormal", "median": "4 h", "sigma": 1.2}
    found = worth(
        report_sample.parse(
            cluster={**report_sample.SMALL["cluster"], "nodes": 24},
            failures=[ghost, NODE],
            repair={"time": law},
            detection={"time": {**law, "median": "2 min"}},
        ),
        4,
        processes=1,
    )
    row = next(row for row in found.causes.rows if row.name == "ghost")
    assert all(
        gained is not None and (gained.mean, gained.ci95, gained.resolved) == (0.0, None, False)
        for gained in row.gain.values()
    )
    assert row.closed_form["ettr"] == pytest.approx(0, abs=1e-10)


def test_the_other_failures_stay_when_a_cause_is_removed() -> None:
    """Lives are addressed by the name of a cause, not by its place: those of the others are the same lives."""
    failures = [
        {**NODE, "name": name, "rate": f"{rate} per 1000 node-day"}
        for name, rate in zip("abc", (90, 70, 50), strict=True)
    ]
    prepared = report_sample.prepare(failures=failures)
    before = lives(prepared)
    for change in changes_of(prepared).causes:
        assert lives(change.prepared) == [life for life in before if life[0] != change.name]
        assert len(lives(change.prepared)) < len(before)


def lives(prepared: sim.Prepared) -> list[tuple[str, int, int, float]]:
    """Return the lives of the first replication: cause, slot, number and end [s]."""
    found = sim.trace(prepared, 0)
    names = [prepared.sources[index].name for index in found.source.tolist()]
    return list(zip(names, found.slot.tolist(), found.round.tolist(), found.time.tolist(), strict=True))


def test_a_bundle_is_taken_apart() -> None:
    """Every cause of a bundle is removed in turn, the others are as the bundle has them, and repairs are paid alike."""
    prepared = sim.prepare(sim.load(sim.find("llama3-405b-gb200")))
    causes = changes_of(prepared).causes
    assert [change.name for change in causes] == [*catalog.causes("llama3-table5"), "switch_tray"]
    for change in causes:
        kept = [index for index, source in enumerate(prepared.sources) if source.name != change.name]
        assert change.prepared.sources == tuple(prepared.sources[index] for index in kept)
        assert change.prepared.upkeep.repaired == tuple(prepared.upkeep.repaired[index] for index in kept)
        assert change.prepared.jobs[0].mtti > prepared.jobs[0].mtti


def test_a_cause_of_a_log_is_removed_and_has_no_formula() -> None:
    """The outages of all other causes are replayed as before; the closed form of a log knows no causes."""
    costs = "cost={capex: 30000, years: 4, repair: {node: 100}}"
    prepared = sim.prepare(sim.load(sim.find("replay"), [costs]))
    before = lives(prepared)
    causes = changes_of(prepared).causes
    assert {change.name for change in causes} == {source.name for source in prepared.sources}
    for change in causes:
        assert lives(change.prepared) == [life for life in before if life[0] != change.name]
        assert not change.has_formula
        assert change.prepared.upkeep.repaired == ("node",) * len(change.prepared.sources)


def test_a_rollout_that_is_removed_leaves_the_failures_that_it_would_have_changed() -> None:
    """A cause that a rollout makes worse is drawn at its worst: without the rollout the same candidates are thinned."""
    rollout = {"use": "rollout", "name": "driver", "nodes_per_day": 8, "duration": "10 min", "hazard": {"node": 3.0}}
    prepared = report_sample.prepare(failures=[NODE, rollout])
    changes = by_name(changes_of(prepared).causes)
    candidates = [life for life in lives(prepared) if life[0] == "node"]
    assert lives(changes["driver"].prepared) == candidates
    assert [source.name for source in changes["driver"].prepared.sources] == ["node"]
    assert [source.name for source in changes["node"].prepared.sources] == ["driver"]


def test_longer_lives_are_the_same_lives_longer_by_a_tenth() -> None:
    """MTBF: all lives of unplanned causes are 1.1 times as long by the same random numbers, whatever their law."""
    aged = {**NODE, "name": "aged", "law": {"use": "weibull", "mean": "1 d", "shape": 2.0}}
    del aged["rate"]
    before, after = knob("mtbf", failures=[NODE, aged, PLANNED])
    first = {life[:3]: life[3] for life in lives(before)}
    longer = {life[:3]: life[3] for life in lives(after)}
    factors = {key: longer[key] / time for key, time in first.items() if key in longer}
    assert all(ratio == pytest.approx(1.0 if key[0] == "planned" else 1.1, rel=1e-12) for key, ratio in factors.items())
    assert {key[0] for key in factors} == {"node", "aged", "planned"}
    rates = [1 / report_sample.prepare(failures=[each]).jobs[0].mtti for each in (NODE, aged, PLANNED)]
    assert 1 / after.jobs[0].mtti == pytest.approx(sum(rates[:2]) / 1.1 + rates[2], rel=1e-12)


def test_longer_lives_reach_batches_and_hidden_faults() -> None:
    """A batch with a law of its own lives longer too, and nodes catch a hidden fault more seldom."""
    batch = {"share": 0.5, "law": {"use": "exponential", "mean": "4 d"}}
    defect = {"use": "defect", "name": "lemon", "share": 0.2, "rate": "1 per node-day", "onset": "1 per 100 node-day"}
    before, after = knob("mtbf", failures=[{**NODE, "batches": [batch]}, defect])
    old = [prepared.sources[0].variety.batches[0].law for prepared in (before, after)]
    assert present(old[1]).mean_value == pytest.approx(1.1 * present(old[0]).mean_value)
    hidden = [prepared.sources[1].hidden for prepared in (before, after)]
    onsets = [each.onset.mean_value for each in hidden if each is not None and each.onset is not None]
    assert onsets[1] == pytest.approx(1.1 * onsets[0])


@cases(
    ("name", "shorter"),
    [
        ("detection", {"detection"}),
        ("restart", {"restart"}),
        ("repair", {"repair"}),
        ("checkpoint", {"stall", "load"}),
        ("step_time", {"step"}),
    ],
)
def test_a_knob_takes_a_tenth_off_once(name: str, shorter: set[str]) -> None:
    """Times are 0.9 of what they were, and nothing else of a job changes; all knobs at once do the same, once."""
    before, after = knob(name, jobs=[TRAINED])
    together = present(changes_of(before).all_knobs)
    first, changed, all_of_them = map(value_of, (before, after, together.prepared))
    for key, value in first.items():
        assert changed[key] == pytest.approx((0.9 if key in shorter else 1.0) * value, rel=1e-12), key
    for key in shorter:
        assert all_of_them[key] == pytest.approx(0.9 * first[key], rel=1e-12)


def test_shorter_repairs_are_those_of_a_bundle_too() -> None:
    """A tenth off the repairs that a bundle keeps, or that no scenario's repair replaces, replaces none of them."""
    stated = {key: value for key, value in report_sample.SMALL.items() if key != "repair"}
    kept = {**report_sample.SMALL, "failures": [{"use": "component-rates", "keeps_repair": True}]}
    for data in (kept, {**stated, "failures": [{"use": "infinitehbd"}]}):
        before = sim.prepare(sim.parse(data))
        scenario, _ = KNOBS["repair"](before.scenario, before)
        for one, other in zip(before.sources, sim.prepare(scenario).sources, strict=True):
            assert present(other.repair).mean_value == pytest.approx(0.9 * present(one.repair).mean_value, rel=1e-12)


def value_of(prepared: sim.Prepared) -> dict[str, float]:
    """Return the numbers that knobs are about."""
    job, source = prepared.jobs[0], prepared.sources[0]
    recovery: Any = prepared.recovery
    return {
        "mtti": job.mtti,
        "detection": job.detection_mean,
        "restart": recovery.scale,
        "repair": present(source.repair).mean_value,
        "stall": job.checkpoint.stall,
        "load": job.checkpoint.load,
        "interval": job.checkpoint.interval,
        "spares": prepared.spares,
        "step": job.step_time,
    }


def test_times_from_bandwidths_are_shorter_too() -> None:
    """A store whose times follow from bandwidths gets wider by 1 / 0.9, so that its times are 0.9 of what they were."""
    tier = {"interval": "20 min", "node_bandwidth": "1 GB/s", "aggregate": "8 GB/s", "read_in": "20 s"}
    before, after = knob("checkpoint", checkpoint={"size": "200 GB", "tiers": [tier]})
    for name in ("drain", "load"):
        assert getattr(after.jobs[0].checkpoint, name) == pytest.approx(0.9 * getattr(before.jobs[0].checkpoint, name))


def test_a_faster_step_keeps_the_share_of_time_and_yields_more_tokens() -> None:
    """A step of 0.9 of its time is worth a ninth of the tokens, and no points of ETTR but for whole steps."""
    found = worth(report_sample.parse(jobs=[{**TRAINED, "step_time": "4 s"}]), 4, processes=1)
    row = rows_of(found)["step_time"]
    tokens, ettr = row.gain["tokens_per_day"], row.gain["ettr"]
    base = present(found.base["tokens_per_day"].mean)
    assert present(tokens).mean / base == pytest.approx(1 / 0.9 - 1, rel=0.02)
    assert abs(present(ettr).mean) < 2e-3
    assert found.knobs.rows[0].name == "step_time", "the most valuable first"


def test_work_of_a_fixed_time_is_as_many_steps_when_these_are_shorter() -> None:
    """A job that trains for a day of its steps trains on as many tokens with shorter ones."""
    before, after = knob("step_time", jobs=[{**TRAINED, "work": {"time": "1 d"}}])
    steps = [prepared.jobs[0].target / prepared.jobs[0].step_time for prepared in (before, after)]
    assert steps[1] == pytest.approx(steps[0], rel=1e-12)


def test_intervals_stay_where_a_rule_has_chosen_them() -> None:
    """Rows keep the interval of ``optimal``; one more row has the one that is optimal for the shorter save."""
    jobs = [
        {**report_sample.SMALL["jobs"][0], "name": name, "gpus": gpus} for name, gpus in (("wide", 72), ("narrow", 24))
    ]
    prepared = report_sample.prepare(jobs=jobs, checkpoint={"tiers": [{**TIER, "interval": "optimal"}]})
    intervals = [job.checkpoint.interval for job in prepared.jobs]
    assert intervals[0] < intervals[1]
    changes = changes_of(prepared)
    for change in (*changes.causes, *changes.knobs, changes.all_knobs):
        if change.name != "checkpoint_by_rule":
            assert [job.checkpoint.interval for job in change.prepared.jobs] == pytest.approx(intervals, rel=1e-12)
    again = by_name(changes.knobs)["checkpoint_by_rule"]
    best = [float(optimal_interval(0.9 * 30, job.mtti)) for job in prepared.jobs]
    assert [job.checkpoint.interval for job in again.prepared.jobs] == pytest.approx(best, rel=1e-12)
    assert not again.counts
    assert again.prepared.jobs[0].checkpoint.stall == pytest.approx(27)


def test_the_interval_of_every_store_of_a_ladder_stays() -> None:
    """With several stores and jobs, that of each store which a rule has chosen is kept, by job."""
    disk = {"store": "disk", "interval": "young", "stall": "1 s", "write": "5 s", "restore": "5 s"}
    jobs = [
        {**report_sample.SMALL["jobs"][0], "name": name, "gpus": gpus} for name, gpus in (("wide", 72), ("narrow", 24))
    ]
    prepared = report_sample.prepare(jobs=jobs, checkpoint={"tiers": [disk, TIER]})
    for change in changes_of(prepared).causes:
        for job, before in zip(change.prepared.jobs, prepared.jobs, strict=True):
            intervals = [rung.interval for rung in before.checkpoint.rungs]
            assert [rung.interval for rung in job.checkpoint.rungs] == pytest.approx(intervals, rel=1e-12)


def test_spares_are_a_tenth_more_and_one_at_least() -> None:
    """Of 2 spares a tenth more is one node, of 20 it is two; whole units are added where jobs use these."""
    nodes = {**report_sample.SMALL["cluster"], "nodes": 64}
    for hot, more in ((2, 1), (20, 2)):
        before, after = knob("spares", cluster=nodes, spares={"hot": hot})
        assert after.spares - before.spares == more
    racks = {**nodes, "rack": {"nodes": 4}}
    jobs = [{**report_sample.SMALL["jobs"][0], "gpus": 128}]
    before, after = knob("spares", cluster=racks, spares={"hot": 8, "unit": "rack"}, jobs=jobs)
    assert after.spares - before.spares == 4


@cases(
    ("changes", "name", "reason"),
    [
        ({"spares": {"hot": 0}}, "spares", "there are no hot spares"),
        ({}, "spares", "the cluster has no idle nodes to give"),
        ({}, "step_time", "the tokens of a step are not known"),
        ({"failures": []}, "mtbf", "no failure has a rate of its own"),
        ({"failures": [PLANNED]}, "mtbf", "no failure has a rate of its own"),
        ({"jobs": [{**TRAINED, "step_time": None, "mfu": 0.95}]}, "step_time", "jobs.0.step_time: "),
    ],
)
def test_a_knob_that_does_not_apply_is_left_out_with_its_reason(
    changes: dict[str, Any], name: str, reason: str
) -> None:
    """Without spares, idle nodes, tokens or rates, or where it takes more than the peak, there is no row."""
    data = {**report_sample.SMALL, **changes}
    data["jobs"] = [{key: value for key, value in job.items() if value is not None} for job in data["jobs"]]
    data["cluster"] = {**data["cluster"], "accelerator": "h100"}
    changed = changes_of(sim.prepare(sim.parse(data)))
    assert changed.left_out[name].startswith(reason)
    assert name not in by_name(changed.knobs)
    assert {*changed.left_out, *by_name(changed.knobs)} == set(KNOBS)


def test_knobs_that_fit_alone_and_not_together_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two knobs that each take the last idle node, the second has no row and its reason, and the command goes on."""

    def one_more(scenario: sim.Scenario, prepared: sim.Prepared) -> tuple[sim.Scenario, str]:
        assert prepared.spares == 1
        spares = scenario.spares.model_copy(update={"hot": scenario.spares.hot + 1})
        return scenario.model_copy(update={"spares": spares}), "1 node"

    for name in ("first", "second"):
        monkeypatch.setitem(KNOBS, name, one_more)
    changed = changes_of(report_sample.prepare(spares={"hot": 1}))
    names = [change.name for change in changed.knobs]
    assert "spares" in names
    assert not {"first", "second"} & set(names)
    for name in ("first", "second"):
        assert changed.left_out[name].startswith("it does not fit with those before it: jobs.0.gpus: needs")
    assert present(changed.all_knobs).prepared.spares == 2


def exact(horizon: str, *rates: float) -> sim.Scenario:
    """Return a scenario whose closed form is exact: exponential lives, blocking saves, nodes that never leave.

    `rates` are those of its causes [1/d], for the whole job.
    """
    failures = [
        {**NODE, "name": f"cause-{number}", "rate": f"{rate / 14!r} per node-day"} for number, rate in enumerate(rates)
    ]
    jobs = [{"name": "train", "gpus": 112}]
    return report_sample.parse(horizon=horizon, failures=failures, jobs=jobs, repair={"time": "0 s"}, spares={"hot": 0},
                       recovery={"use": "hot-spare", "initialize": "8 min"}, detection={"time": "8 min"})  # fmt: skip


def test_what_a_knob_is_worth_is_what_the_closed_form_says() -> None:
    """Where the closed form is exact, each knob, each cause, their sums and residuals agree with it.

    Within an interval computed from 24 replications; the first start, which the formula leaves out, is one of some
    500 restarts, and its share is allowed for.
    """
    found = worth(exact("200 d", 1.5, 0.9), REPLICATIONS)
    starts = 200 * 2.4
    rows = [*found.causes.rows, *found.knobs.rows]
    for group in (found.causes, found.knobs):
        rows += [row for row in (group.together, group.added, group.residual) if row is not None]
    for row in rows:
        gained = present(row.gain["ettr"])
        limit = widened(gained) + abs(row.closed_form["ettr"]) / starts + 1e-12
        assert gained.mean == pytest.approx(row.closed_form["ettr"], abs=limit), row.name
        # The test can tell a knob that is turned twice, or the wrong way.
        assert widened(gained) < 0.5 * abs(row.closed_form["ettr"]) or row.name in ("residual", "repair"), row.name
    assert {row.name for row in found.knobs.rows} == {"mtbf", "detection", "restart", "checkpoint", "repair"}
    assert all(row.closed_form["ettr"] > 0 for row in rows_of(found).values() if row.name != "repair")


def test_rare_failures_add_up() -> None:
    """Losses are proportional to rates at first: of rare failures the residual is below a hundredth of the sum."""
    found = worth(exact("2000 d", 0.03, 0.02), REPLICATIONS)
    added, residual = found.causes.added, found.causes.residual
    gained = present(residual.gain["ettr"])
    assert abs(residual.closed_form["ettr"]) < 0.01 * added.closed_form["ettr"]
    assert abs(gained.mean - residual.closed_form["ettr"]) <= widened(gained)
    assert widened(gained) < 0.2 * added.closed_form["ettr"]


@pytest.mark.nightly
def test_frequent_failures_do_not_add_up() -> None:
    """Of failures as frequent as saves, all removed at once are worth more than the sum, and the interval says so.

    What is left of the time falls convexly with the rate, so that each cause alone hides behind the others.
    """
    found = worth(exact("8 d", 25.0, 25.0), REPLICATIONS)
    residual = present(found.causes.residual)
    gained = present(residual.gain["ettr"])
    assert gained.mean > widened(gained) > 0
    assert gained.resolved
    assert gained.mean == pytest.approx(
        residual.closed_form["ettr"], abs=widened(gained) + residual.closed_form["ettr"] / 400
    )
    assert (found.base["ettr"].closed_form or 1.0) < 0.6


@pytest.fixture(scope="module")
def priced() -> tuple[WorthDocument, dict[str, Any]]:
    """Return what everything is worth in a scenario with tokens and prices, and its document read back."""
    found = worth(
        report_sample.parse(
            jobs=[TRAINED],
            failures=[NODE, {**NODE, "name": "other", "rate": "100 per 1000 node-day"}],
            checkpoint={"tiers": [{**TIER, "interval": "optimal"}]},
            cost={"gpu_hour": 2.0, "currency": "EUR"},
        ),
        4,
        command="ettrick explain small --worth",
        processes=1,
    )
    return found, plain(found)


def test_sums_and_residuals_close(priced: tuple[WorthDocument, dict[str, Any]]) -> None:
    """All at once is the sum and the residual; the sum is that of the rows, without another reading of one."""
    for kind in ("causes", "knobs"):
        group = priced[1][kind]
        for value in ("ettr", "goodput", "tokens_per_day"):
            counted = [row["gain"][value]["mean"] for row in group["rows"] if row["counts"]]
            parts = {name: group[name]["gain"][value]["mean"] for name in ("together", "added", "residual")}
            assert parts["added"] == pytest.approx(math.fsum(counted), rel=1e-9)
            assert parts["together"] == pytest.approx(parts["added"] + parts["residual"], rel=1e-9)
        formulas = {name: group[name]["closed_form"]["ettr"] for name in ("together", "added", "residual")}
        counted = [row["closed_form"]["ettr"] for row in group["rows"] if row["counts"]]
        assert formulas["added"] == pytest.approx(math.fsum(counted), rel=1e-9)
        assert formulas["together"] == pytest.approx(formulas["added"] + formulas["residual"], rel=1e-9)
    assert [row["name"] for row in priced[1]["knobs"]["rows"] if not row["counts"]] == ["checkpoint_by_rule"]


def test_money_is_the_work_gained_at_the_price_of_work(priced: tuple[WorthDocument, dict[str, Any]]) -> None:
    """Rent over tokens is the price; the gain in tokens of a year at that price is worth their money."""
    found, content = priced
    rent = 2.0 * 16 * 8 * 48
    tokens = content["base"]["tokens_per_day"]["mean"] * 2
    assert content["price_of_work"] == pytest.approx(rent / tokens, rel=1e-9)
    year = units.DURATION.units["year"] / 86400
    for row in content["knobs"]["rows"]:
        gained, money = row["gain"]["tokens_per_day"], row["money_per_year"]
        for mine, of in zip(
            (money["mean"], *(money["ci95"] or ())), (gained["mean"], *(gained["ci95"] or ())), strict=True
        ):
            assert mine == pytest.approx(of * year * rent / tokens, rel=1e-9)
    assert content["currency"] == "EUR"
    assert found.by == content["by"] == "tokens_per_day"


def test_one_point_of_ettr_is_as_much_as_the_share_of_all_that_it_takes_today(
    priced: tuple[WorthDocument, dict[str, Any]],
) -> None:
    """A job whose ETTR is e needs 0.01 / e of its GPUs, of its 2 days or of its rent of a year for a point of work."""
    _, content = priced
    point, part = content["one_point"], 0.01 / content["base"]["ettr"]["mean"]
    rent = 2.0 * 16 * 8 * units.DURATION.units["year"] / 3600
    shown = {"gpus": part * 112, "time_s": part * 2 * 86400, "money_per_year": part * rent}
    assert point == pytest.approx(shown, rel=1e-9)
    last = format_worth(content).splitlines()[-1]
    assert last.startswith("One point of ETTR = ")
    assert [word in last for word in ("EUR a year", "of this run", "GPUs")] == [True] * 3
    free = format_worth({**content, "one_point": {**point, "money_per_year": None}}).splitlines()[-1]
    assert "EUR" not in free


def test_without_tokens_money_is_for_productive_time() -> None:
    """Where tokens are not known, the GPU-hours gained are paid for, at the price of a productive one."""
    found = worth(report_sample.parse(cost={"gpu_hour": 2.0}), 2, processes=1)
    assert found.by == "ettr"
    ettr = present(found.base["ettr"].mean)
    assert found.price_of_work == pytest.approx(2.0 / 3600 * 16 * 8 / (112 * ettr), rel=1e-9)
    row = rows_of(found)["mtbf"]
    gained = present(row.gain["ettr"])
    hours = gained.mean * 112 * units.DURATION.units["year"] / 3600
    assert present(row.money_per_year).mean == pytest.approx(hours * found.price_of_work * 3600, rel=1e-9)


def test_document_has_what_the_reference_says(priced: tuple[WorthDocument, dict[str, Any]]) -> None:
    """Every key of the document stands in the reference, shares of time are metrics, and intervals hold their means."""
    content = priced[1]
    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "json" / "worth-document.md"
    section = page.read_text(encoding="utf-8")
    rows = [*content["causes"]["rows"], content["knobs"]["together"]]
    for key in {*content, *content["causes"], *(name for row in rows for name in row)}:
        assert f"`{key}`" in section, key
    for row in rows:
        for found in row["gain"].values():
            assert found["ci95"][0] <= found["mean"] <= found["ci95"][1]
            assert found["resolved"] is not (found["ci95"][0] <= 0 <= found["ci95"][1])
        assert row["closed_form"].keys() == {"ettr", "tokens_per_day"}
    assert content["replications"] == 4
    assert content["left_out"].keys() == {"spares"}


def same_in_all(row: dict[str, Any], value: float) -> dict[str, Any]:
    """Return a row of which every replication gains as much."""
    same = {"mean": value, "ci95": [value, value], "resolved": False, "replications_to_resolve": None}
    return {**row, "gain": dict.fromkeys(row["gain"], same), "money_per_year": same}


def test_what_is_the_same_in_all_replications_is_not_called_resolved(
    priced: tuple[WorthDocument, dict[str, Any]],
) -> None:
    """Replications that agree have no interval: a gain stands alone, and nothing at all is no change."""
    with_noise = [Ratio(value, 1) for value in (0.91, 0.94, 0.90)]
    shifted = [np.array([ratio.amount for ratio in with_noise]) + more for more in (0.0, 0.015)]
    found = present(_gain([shifted[1]], [shifted[0]]))
    assert found.mean == pytest.approx(0.015)
    assert (found.resolved, found.replications_to_resolve) == (False, None)
    content = {**priced[1], "causes": {**priced[1]["causes"]}}
    rows = content["causes"]["rows"]
    content["causes"]["rows"] = [same_in_all(rows[0], 0.015), same_in_all(rows[1], 0.0)]
    first, second = (line for line in format_worth(content).splitlines() if line.startswith(("node  ", "other  ")))
    assert first.endswith("same in all")
    assert second.endswith("no change")
    assert ".." not in first + second


def test_a_replayed_log_is_one_history(priced: tuple[WorthDocument, dict[str, Any]]) -> None:
    """However many replications there are of a log, there is no interval, and a note says why."""
    found = worth(sim.load(sim.find("replay")), 2, processes=1)
    content = plain(found)
    assert content["one_history"]
    assert not any(row["gain"]["ettr"]["resolved"] for row in content["causes"]["rows"])
    tables, *notes = format_worth(content).split("\n  - ")
    assert ".." not in tables
    assert "a log is replayed, which is a single history: no interval" in notes
    # Nor is there one where repairs of random length make a difference.
    tables = format_worth({**priced[1], "one_history": True}).partition("\n  - ")[0]
    assert ".." not in tables


@pytest.mark.parametrize("count", ["2", "7"])
def test_fewer_than_eight_replications_are_refused(count: str) -> None:
    """With so few, noise cannot be told from worth: one line, and status 2."""
    result = CliRunner().invoke(cli.app, ["explain", "quickstart", "--worth", "--replications", count])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"--replications {count}: --worth needs at least 8")
    assert result.stderr.count("\n") == 1

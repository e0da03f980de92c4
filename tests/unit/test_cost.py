"""Cost is what the scenario's prices say: worked out by hand, shared out without a rest, and beside all else."""

from __future__ import annotations

import re
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ettrick import sim
from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.ratios import ReplicationMetrics, ratios
from ettrick.analysis.results.run import cost_of, energy_of
from ettrick.sim import catalog
from ettrick.sim.steps.hardware import NodePower
from ettrick.sim.steps.power import STATE_OF_BUCKET, STATES, energy_by_bucket, facility_energy, node_power
from tests import report_sample
from tests.cases import cases
from tests.documents import document, format_run
from tests.reference_tables import rows

if TYPE_CHECKING:
    from pathlib import Path

OWNED = {"capex": 40_000, "years": 5}

BATCH = {"tokens": 1_000_000, "sequence": 1000}

TRAIN = {"name": "train", "gpus": 112, "step_time": "10 s", "batch": BATCH}

PAIR = [{**TRAIN, "name": "large", "gpus": 64, "work": {"time": "12 h"}}, {**TRAIN, "name": "small", "gpus": 32}]

"""Two jobs that fit beside each other, one of which ends early."""


def parts(prepared: sim.Prepared, *results: sim.Result) -> dict[str, Any]:
    """Return what a cost is made of."""
    content = cost_of(report_sample.tally(prepared, *results))
    return content.model_dump(exclude_unset=True)


def failing(**changes: Any) -> list[dict[str, Any]]:
    """Return a frequent cause with changes."""
    return [{**report_sample.SMALL["failures"][0], **changes}]


def test_two_nodes_to_the_cent(tmp_path: Path) -> None:
    """16 GPUs for ten days, of which one node was out for three hours and nobody worked for the first day.

    Capex 16 x 40,000 x 10 / (5 x 365.2425) = 3,504.52. Energy: idle 45 node-hours at 2.6 kW, 432 at 8 kW and 240 h of
    1 kW of storage are 3,813 kWh; x PUE 1.25 x 0.08 = 381.30. Storage 3,652.425 a year = 100.00. Three repairs of nodes
    at 500 and as much work at 200 each.
    """
    log = tmp_path / "log.csv"
    log.write_text("unit,start,end,cause\nn0,1,2,fan\nn0,5,6,fan\nn0,9,10,fan\n", encoding="utf-8")
    prepared = report_sample.prepare(
        cluster={"nodes": 2},
        horizon="10 d",
        jobs=[{**TRAIN, "gpus": 16, "arrival": "1 d"}],
        failures=[{"use": "replay", "file": str(log), "time_unit": "h"}],
        checkpoint={"tiers": [{"interval": "20 d", "mode": "blocking", "write": "30 s", "restore": "1 min"}]},
        recovery={"use": "hot-spare", "initialize": "0 s"},
        spares={"hot": 0},
        power={"pue": 1.25, "switch": "0 W", "storage": "1 kW", "idle": "2.6 kW", "training": "8 kW"},
        cost={**OWNED, "energy": 0.08, "storage": 3652.425, "repair": {"node": 500, "gpu": 3000}, "labour": 200},
    )
    result = sim.run(prepared, 0)
    content = parts(prepared, result)
    expected = {"capex": 3504.52, "energy": 381.30, "storage": 100.0, "repair": 1500.0, "labour": 600.0, "rent": 0.0}
    assert {name: round(content[name], 2) for name in expected} == expected
    assert round(content["total"], 2) == 6085.82
    assert content["repairs"] == {"node": 3}
    tokens = 9 * 86_400 / 10 * 1_000_000
    assert ReplicationMetrics(prepared, result).spending()["cost_per_token"][:2] == pytest.approx(
        (6085.82, tokens), rel=1e-5
    )


@cases("part", ["node", "gpu"])
def test_repairs_are_the_outages_of_the_log(part: str) -> None:
    """Each failure is one repair of the part, of spares too, also where outages join; planned work costs nothing."""
    rate = f"200 per 1000 {part}-day" if part == "node" else "25 per 1000 gpu-day"
    planned = {"use": "maintenance", "name": "firmware", "windows": [{"start": "30 h", "duration": "1 h", "units": 3}]}
    sources = [*failing(part=part, rate=rate), planned]
    prepared = report_sample.prepare(failures=sources, horizon="20 d", cost={**OWNED, "repair": {part: 1}, "labour": 1})
    result = sim.run(prepared, 0, keeps_log=True)
    outages = [outage for outage in result.outages if outage.cause == 1]
    assert len(outages) > 20
    content = parts(prepared, result)
    failures = result.counts["failures"] - 3  # windows take three nodes
    assert content["repairs"] == {part: failures}
    assert content["repair"] == content["labour"] == failures >= len(outages)
    assert len(outages) > result.jobs[0].interruptions[1]


def test_failures_of_software_are_not_repaired() -> None:
    """A failure of the job as a whole, and one that is over at once, cost neither a part nor work."""
    bug = {"use": "job", "name": "bug", "rate": "5 per job-day"}
    prices = {**OWNED, "repair": {"node": 1}, "labour": 1}
    for changes in ({"failures": [bug]}, {"repair": {"time": "0 s"}}):
        prepared = report_sample.prepare(**changes, cost=prices)
        result = sim.run(prepared, 0)
        assert sum(result.jobs[0].interruptions.values()) > 0
        assert parts(prepared, result)["repairs"] == {}


def test_courses_through_tiers_are_repairs() -> None:
    """With tiers of repair, what began is what has ended and what is still there."""
    tiers = [{"name": "reset", "time": "1 h", "escalates": 0.5}, {"name": "swap", "time": "1 d"}]
    prepared = report_sample.prepare(
        repair={"use": "tiers", "tiers": tiers}, horizon="10 d", cost={**OWNED, "labour": 1}
    )
    result = sim.run(prepared, 0)
    assert result.counts["repairs"] > 10
    assert 0 <= parts(prepared, result)["repairs"]["node"] - result.counts["repairs"] <= 16


def test_repairs_of_the_warm_up_are_not_paid_for(tmp_path: Path) -> None:
    """Of three repairs, two of which begin before the accounting window does, one is counted."""
    log = tmp_path / "log.csv"
    log.write_text("unit,start,end,cause\nn0,1,2,fan\nn0,23,25,fan\nn0,30,31,fan\n", encoding="utf-8")
    replay = [{"use": "replay", "file": str(log), "time_unit": "h"}]
    prepared = report_sample.prepare(failures=replay, warmup="1 d", cost={**OWNED, "labour": 1})
    assert parts(prepared, sim.run(prepared, 0))["repairs"] == {"node": 1}


def test_cables_that_cut_nobody_off_are_repaired_too() -> None:
    """A spine that fails interrupts nobody, but somebody mends it."""
    spine = {"use": "component", "name": "spine", "part": "spine", "rate": "1 per spine-day"}
    cluster = {"nodes": 16, "fabric": {"leaf": {"nodes": 4}}}
    jobs = [{**TRAIN, "communication": 0.3}]
    prepared = report_sample.prepare(
        cluster=cluster, jobs=jobs, failures=[spine], cost={**OWNED, "repair": {"spine": 10}}
    )
    result = sim.run(prepared, 0)
    content = parts(prepared, result)
    assert result.counts["degraded"] == content["repairs"]["spine"] > 0
    assert content["repair"] == 10 * content["repairs"]["spine"]


@cases(("repaired", "part", "each"), [("part", "rack", 1), ("nodes", "node", 4)])
def test_incidents_are_repaired_as_they_say(repaired: str, part: str, each: int) -> None:
    """An incident in a rack of four nodes is one repair of the rack, or one of each of its nodes."""
    incident = {"use": "incident", "name": "leak", "part": "rack", "rate": "1 per rack-day", "repaired": repaired}
    prepared = report_sample.prepare(failures=[incident], cost={**OWNED, "labour": 1})
    result = sim.run(prepared, 0)
    assert result.counts["failures"] > 2
    assert parts(prepared, result)["repairs"] == {part: each * result.counts["failures"]}


def test_cost_per_token_is_a_ratio_of_sums() -> None:
    """Cost over the tokens that survived, both summed over the replications, for energy as well."""
    prepared = report_sample.prepare(jobs=[TRAIN], cost={**OWNED, "energy": 0.1})
    found = replicate(prepared, 4, processes=1, keeps_log=True)
    metrics = document(found, command="")["metrics"]
    tokens = sum(result.jobs[0].work for result in found.results) * 1e5
    for name in ("cost", "energy"):
        amounts = [row[name].amount for row in found.rows]
        assert metrics[name]["mean"] == pytest.approx(sum(amounts) / 4, rel=1e-12)
        assert metrics[f"{name}_per_token"]["mean"] == pytest.approx(sum(amounts) / tokens, rel=1e-12)


def test_parts_add_up_to_the_metric() -> None:
    """The parts of the cost add up to its total, which is the mean of the metric, and what the only job bears."""
    prices = {**OWNED, "energy": 0.1, "storage": 1e5, "repair": {"node": 500}, "labour": 100}
    content = document(replicate(report_sample.prepare(cost=prices), 3, processes=1), command="")
    cost = content["cost"]
    six = [cost[name] for name in ("capex", "energy", "storage", "repair", "labour", "rent")]
    assert min(six[:5]) > 0
    assert sum(six) == pytest.approx(cost["total"], rel=1e-12)
    assert cost["total"] == pytest.approx(content["metrics"]["cost"]["mean"], rel=1e-12)
    assert content["per_job"]["train"]["metrics"]["cost"] == content["metrics"]["cost"]
    assert cost["energy"] == pytest.approx(content["energy"]["total_j"] / 3.6e6 * 0.1, rel=1e-12)


@cases("rule", ["requested", "gpus"])
def test_jobs_share_the_whole_cost(rule: str) -> None:
    """Shares of several jobs add up to the cluster's cost, and are as what they asked for, or as their GPUs."""
    prepared = report_sample.prepare(jobs=PAIR, cost={"gpu_hour": 2.0, "allocation": rule})
    result = sim.run(prepared, 0)
    mine = ReplicationMetrics(prepared, result).job_spending()
    for name in ("cost", "energy"):
        amounts = [row[name].amount for row in mine]
        assert sum(amounts) == pytest.approx(ReplicationMetrics(prepared, result).spending()[name].amount, rel=1e-12)
        asked = [job.requested if rule == "requested" else job.gpus for job in result.jobs]
        assert amounts[0] / amounts[1] == pytest.approx(asked[0] / asked[1])
    assert result.jobs[0].requested / result.jobs[1].requested != pytest.approx(2)
    assert mine[1]["cost_per_token"].base == pytest.approx(result.jobs[1].work * 1e5)


def test_only_what_is_known_is_there() -> None:
    """Without prices there is no cost, and without tokens nothing is per token."""
    prepared = report_sample.prepare()
    assert set(ReplicationMetrics(prepared, sim.run(prepared, 0)).spending()) == {"energy"}
    assert cost_of(report_sample.tally(prepared)) is None
    all_known = report_sample.prepare(jobs=[TRAIN], cost=OWNED)
    names = {"energy", "cost", "energy_per_token", "cost_per_token", "tokens_per_gpu_day", "tokens_per_mw_day"}
    assert set(ReplicationMetrics(all_known, sim.run(all_known, 0)).spending()) == names
    plain = {"name": "other", "gpus": 8, "step_time": "10 s"}
    half_known = report_sample.prepare(jobs=[{**TRAIN, "gpus": 64}, plain], cost={**OWNED, "allocation": "gpus"})
    result = sim.run(half_known, 0)
    assert set(ReplicationMetrics(half_known, result).spending()) == {"energy", "cost"}
    assert [set(row) for row in ReplicationMetrics(half_known, result).job_spending()] == [names, {"energy", "cost"}]


def test_prices_change_nothing_else() -> None:
    """A scenario has the same buckets, events and metrics with and without prices."""
    plain, priced = report_sample.prepare(), report_sample.prepare(cost=OWNED, power={"pue": 2, "idle": "1 kW"})
    first, second = sim.run(plain, 0), sim.run(priced, 0)
    assert np.array_equal(first.cluster, second.cluster)
    assert (first.counts, first.repairs, first.events) == (second.counts, second.repairs, second.events)
    common = ratios(plain, first)
    del common["energy"]
    assert {name: ratios(priced, second)[name] for name in common} == common


def test_the_table_shows_what_a_run_takes() -> None:
    """Energy and cost per run and the cost of a million tokens are rows; without prices there is only energy."""

    def show(**changes: Any) -> str:
        prepared = report_sample.prepare(**changes)
        content = document(replicate(prepared, 2, processes=1), command="")
        return format_run(content, prepared)

    text = show(jobs=[TRAIN], cost={"gpu_hour": 2.5, "currency": "EUR"})
    assert re.search(r"^facility energy per run +[\d.]+ MWh", text, re.MULTILINE)
    assert re.search(r"^cost per run +15,360 EUR", text, re.MULTILINE)
    assert re.search(r"^cost of a million tokens +[\d.]+ EUR", text, re.MULTILINE)
    assert not re.search(r"^cost", show(), re.MULTILINE)


# ----------------------------------------
# Energy is power times time in each state: identities, limits that are known exactly, and published measurements.

NODE = NodePower(idle=2600.0, training=8000.0, gpus=8, measured=True, source="made up")

ALONE = {"pue": 1, "switch": "0 W"}

"""Nothing but the nodes."""

QUIET: dict[str, Any] = {
    "failures": [],
    "recovery": {"use": "hot-spare", "initialize": "0 s"},
    "checkpoint": {"tiers": [{"interval": "10 d", "mode": "blocking", "write": "30 s", "restore": "1 min"}]},
}

"""Neither failures nor waiting, and no save in two days."""

ALL = [{"name": "train", "gpus": 128, "step_time": "10 s"}]

"""A job on every node of the small cluster."""

LATE = [{"name": "train", "gpus": 112, "step_time": "10 s", "arrival": "3 d"}]

"""A job that arrives after the horizon."""

DAYS = 2 * 86400.0


def joules(**changes: Any) -> float:
    """Return the energy of one replication of the small scenario with changes [J]."""
    prepared = report_sample.prepare(**changes)
    return ReplicationMetrics(prepared, sim.run(prepared, 0)).spending()["energy"].amount


def test_power_of_a_node_is_a_line() -> None:
    """Idle power at 0, training power at 1, their mean in the middle, and nothing when it is off."""
    assert node_power(NODE, 0.0) == 2600
    assert node_power(NODE, 1.0) == 8000
    assert node_power(NODE, 0.5) == 5300
    assert node_power(NODE, None) == 0


def test_evaluation_draws_what_was_measured() -> None:
    """A node of 2.4 kW idle and 7.0 kW in training drew 5.8 kW in evaluation (MLPerf training v4.0, immersion)."""
    immersed = NodePower(2400.0, 7000.0, 8, measured=True, source="")
    assert node_power(immersed, STATES["evaluation"].utilisation) == pytest.approx(5800, rel=0.02)


def test_energy_is_power_times_time_over_gpus() -> None:
    """A node-hour is eight GPU-hours: 8 kWh in training, 2.6 kWh idle, 6.11 kWh waiting, none in repair."""
    hours = dict.fromkeys(("productive", "lost_work", "unallocated", "detection", "repair"), 8 * 3600.0)
    found = {name: energy / 3.6e6 for name, energy in energy_by_bucket(hours, NODE).items()}
    expected = {"productive": 8.0, "lost_work": 8.0, "unallocated": 2.6, "detection": 2.6 + 0.65 * 5.4, "repair": 0.0}
    assert found == pytest.approx(expected)


@given(st.lists(st.floats(0, 1e15), min_size=3, max_size=3), st.floats(1, 2))
def test_facility_is_the_sum_of_its_parts(parts: list[float], pue: float) -> None:
    """Total = (nodes + network + storage) x PUE, and the four parts add up to it."""
    whole = facility_energy(*parts, pue)
    assert whole.total == pytest.approx(sum(parts) * pue, rel=1e-12)
    assert whole.nodes + whole.network + whole.storage + whole.overhead == pytest.approx(whole.total, rel=1e-12)
    assert whole.overhead >= 0


def test_board_power_of_llama_3_1() -> None:
    """30.84 M H100-hours at 700 W are 21.6 GWh, as the model card of Llama 3.1 405B counts: boards only."""
    board = NodePower(700.0, 700.0, 1, measured=False, source="")
    energy = energy_by_bucket({"productive": 30.84e6 * 3600}, board)["productive"]
    assert energy / 3.6e12 == pytest.approx(21.6, rel=0.001)


def test_cluster_that_only_trains_draws_its_training_power() -> None:
    """With every node productive all the time, the energy is training power x nodes x time."""
    assert joules(jobs=ALL, spares={"hot": 0}, power=ALONE, **QUIET) == pytest.approx(8000 * 16 * DAYS, rel=1e-12)


def test_energy_lies_between_off_and_training() -> None:
    """With failures a cluster takes less than if it only trained, more than a job-less one less its repairs."""
    energy = joules(power=ALONE)
    prepared = report_sample.prepare(power=ALONE)
    result = sim.run(prepared, 0)
    up = result.node_seconds - result.down_node_seconds
    assert 2600 * up < energy < 8000 * result.node_seconds


def test_switches_storage_and_pue_add_up() -> None:
    """Switches by number, storage as stated, and PUE on all three: worked out from the cluster's counts."""
    power = {"pue": 1.3, "switch": "500 W", "storage": "10 kW"}
    counts = report_sample.prepare().counts
    switches = counts["leaf"] + counts["spine"] + counts["core"]
    assert switches > 0
    expected = 1.3 * (2600 * 16 + 500 * switches + 10_000) * DAYS
    assert joules(jobs=LATE, power=power, **QUIET) == pytest.approx(expected, rel=1e-12)


def test_pools_are_weighed_by_their_nodes() -> None:
    """A quarter of B200 nodes and three quarters of H100 nodes draw as much as their mean node."""
    pools = [{"count": 12, "accelerator": "h100"}, {"count": 4, "accelerator": "b200"}]
    parts = catalog.accelerators()
    nodes = [parts[pool["accelerator"]].node for pool in pools]  # type: ignore[index]
    idle = [node.idle for node in nodes if node is not None]
    expected = (12 * idle[0] + 4 * idle[1]) * DAYS
    assert idle[0] != idle[1]
    assert joules(cluster={"pools": pools}, jobs=LATE, power=ALONE, **QUIET) == pytest.approx(expected)


def test_unknown_accelerators_have_no_energy() -> None:
    """Where nobody says what a node draws there is no energy, unless the scenario says it."""
    cluster = {**report_sample.SMALL["cluster"], "accelerator": "mine"}
    prepared = report_sample.prepare(cluster=cluster)
    result = sim.run(prepared, 0)
    assert not ReplicationMetrics(prepared, result).spending()
    assert energy_of(report_sample.tally(prepared, result)) is None
    power = {**ALONE, "idle": "1 kW", "training": "2 kW"}
    assert joules(cluster=cluster, jobs=LATE, power=power, **QUIET) == pytest.approx(1000 * 16 * DAYS)


def test_document_adds_up_and_says_what_is_assumed() -> None:
    """Buckets, network, storage and overhead add up to the total, and no state without a meter goes unsaid."""
    prepared = report_sample.prepare(power={"storage": "5 kW"})
    results = [sim.run(prepared, replication) for replication in range(3)]
    content = energy_of(report_sample.tally(prepared, *results))
    parts = sum(content.nodes_j.values()) + content.network_j + content.storage_j + content.overhead_j
    assert parts == pytest.approx(content.total_j, rel=1e-12)
    ratios = [ReplicationMetrics(prepared, result).spending()["energy"].amount for result in results]
    assert content.total_j == pytest.approx(mean(ratios), rel=1e-12)
    assumed = " ".join(content.assumptions)
    for bucket, energy in content.nodes_j.items():
        assert (bucket in assumed) == (
            not STATES[STATE_OF_BUCKET[bucket]].measured and (energy > 0 or bucket == "repair")
        )
    assert "storage: not counted" not in assumed
    assert content.node.measured


def test_energy_of_a_measured_run() -> None:
    """64 nodes of 8 H100 under immersion took 415 kWh to train GPT-3 (MLPerf v4.0); floor and training power, 10 %.

    The run is played: it starts up at the floor for as long as its log says, and then steps. *Emergent*: neither power
    was fitted to this energy.
    """
    wanted = ("smc-ac-power", "gpt3", "64")
    meter = next(
        row for row in rows("mlperf_training_power.csv") if (row["submitter"], row["benchmark"], row["nodes"]) == wanted
    )
    runs = [row for row in rows("mlperf_startup_and_jitter.csv") if row["org"] == "smc-ac-power"]
    start = mean(float(row["init_to_run_s"]) for row in runs)
    whole = float(meter["mean_duration_s"])
    prepared = report_sample.prepare(
        **{**QUIET, "recovery": {"use": "hot-spare", "initialize": f"{start} s"}},
        cluster={"nodes": 64},
        jobs=[{"name": "gpt3", "gpus": 512, "step_time": "10 s", "work": {"time": f"{whole - start} s"}}],
        power={**ALONE, "idle": "2.4 kW", "training": "7 kW"},
        spares={"hot": 0},
    )
    result = sim.run(prepared, 0)
    assert result.edges[-1] == pytest.approx(whole)
    energy = ReplicationMetrics(prepared, result).spending()["energy"].amount / 3.6e6
    assert energy == pytest.approx(float(meter["mean_energy_kwh_per_run"]), rel=0.10)


def test_training_power_of_the_catalog_is_near_other_measurements() -> None:
    """A node of 8 H100 peaks at 8.4 kW (arXiv 2412.08602) and trains at 76 % of its 10.2 kW (arXiv 2506.14551)."""
    node = catalog.accelerators()["h100"].node
    assert node.training < 8400
    assert node.training == pytest.approx(0.76 * 10_200, rel=0.05)

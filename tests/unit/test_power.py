"""Energy is power times time in each state: identities, limits that are known exactly, and published measurements."""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from analysis.metrics import spending
from analysis.results.run import energy_content
from sim import CLUSTER_BUCKETS, catalog
from sim.steps.hardware import NodePower
from sim.steps.power import STATE_OF_BUCKET, STATES, energy_by_bucket, facility_energy, node_power
from tests import small
from tests.reference_tables import rows

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
    prepared = small.prepare(**changes)
    return spending(prepared, sim.run(prepared, 0))["energy"].amount


# ------------------------------------------------------------------------------------------------- states


def test_every_bucket_has_a_state() -> None:
    """No GPU-second is without a power state, and no state is without a bucket."""
    assert set(STATE_OF_BUCKET) == set(CLUSTER_BUCKETS)
    assert set(STATE_OF_BUCKET.values()) == set(STATES)
    assert all(state.basis for state in STATES.values())


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


# ----------------------------------------------------------------------------------------------- scenarios


def test_idle_cluster_draws_its_floor() -> None:
    """A cluster whose only job never comes takes floor x nodes x time, exactly."""
    assert joules(jobs=LATE, power=ALONE, **QUIET) == pytest.approx(2600 * 16 * DAYS, rel=1e-12)


def test_cluster_that_only_trains_draws_its_training_power() -> None:
    """With every node productive all the time, the energy is training power x nodes x time."""
    assert joules(jobs=ALL, spares={"hot": 0}, power=ALONE, **QUIET) == pytest.approx(8000 * 16 * DAYS, rel=1e-12)


def test_energy_lies_between_off_and_training() -> None:
    """With failures a cluster takes less than if it only trained, more than a job-less one less its repairs."""
    energy = joules(power=ALONE)
    prepared = small.prepare(power=ALONE)
    result = sim.run(prepared, 0)
    up = result.node_seconds - result.down_node_seconds
    assert 2600 * up < energy < 8000 * result.node_seconds


def test_switches_storage_and_pue_add_up() -> None:
    """Switches by number, storage as stated, and PUE on all three: worked out from the cluster's counts."""
    power = {"pue": 1.3, "switch": "500 W", "storage": "10 kW"}
    counts = small.prepare().counts
    switches = counts["leaf"] + counts["spine"] + counts["core"]
    assert switches > 0
    expected = 1.3 * (2600 * 16 + 500 * switches + 10_000) * DAYS
    assert joules(jobs=LATE, power=power, **QUIET) == pytest.approx(expected, rel=1e-12)


def test_power_of_the_scenario_replaces_the_catalogs() -> None:
    """Idle and training power may be stated, each by itself or both, and only the idle one counts for idle nodes."""
    both = {"idle": "0 W", "training": "9 kW"}
    for power, floor in (({"idle": "1 kW"}, 1000), ({"training": "9 kW"}, 2600), (both, 0)):
        assert joules(jobs=LATE, power={**ALONE, **power}, **QUIET) == pytest.approx(floor * 16 * DAYS)


def test_smaller_nodes_draw_their_part() -> None:
    """A node with half of the GPUs of the one in the catalog draws half of its power."""
    cluster = {"nodes": 16, "gpus_per_node": 4, "fabric": {"rails": 4}}
    jobs = [{**LATE[0], "gpus": 56}]
    assert joules(cluster=cluster, jobs=jobs, power=ALONE, **QUIET) == pytest.approx(1300 * 16 * DAYS)


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
    cluster = {**small.SMALL["cluster"], "accelerator": "mine"}
    prepared = small.prepare(cluster=cluster)
    result = sim.run(prepared, 0)
    assert not spending(prepared, result)
    assert energy_content(small.tally(prepared, result)) is None
    power = {**ALONE, "idle": "1 kW", "training": "2 kW"}
    assert joules(cluster=cluster, jobs=LATE, power=power, **QUIET) == pytest.approx(1000 * 16 * DAYS)


def test_document_adds_up_and_says_what_is_assumed() -> None:
    """Buckets, network, storage and overhead add up to the total, and no state without a meter goes unsaid."""
    prepared = small.prepare(power={"storage": "5 kW"})
    results = [sim.run(prepared, replication) for replication in range(3)]
    content = energy_content(small.tally(prepared, *results))
    assert content is not None
    nodes = sum(content["nodes_j"].values())
    parts = nodes + content["network_j"] + content["storage_j"] + content["overhead_j"]
    assert parts == pytest.approx(content["total_j"], rel=1e-12)
    ratios = [spending(prepared, result)["energy"].amount for result in results]
    assert content["total_j"] == pytest.approx(mean(ratios), rel=1e-12)
    assumed = " ".join(content["assumptions"])
    for bucket, energy in content["nodes_j"].items():
        assert (bucket in assumed) == (
            not STATES[STATE_OF_BUCKET[bucket]].measured and (energy > 0 or bucket == "repair")
        )
    assert "storage: not counted" not in assumed
    assert content["node"]["measured"]


# -------------------------------------------------------------------------------------------- measurements


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
    prepared = small.prepare(
        **{**QUIET, "recovery": {"use": "hot-spare", "initialize": f"{start} s"}},
        cluster={"nodes": 64},
        jobs=[{"name": "gpt3", "gpus": 512, "step_time": "10 s", "work": {"time": f"{whole - start} s"}}],
        power={**ALONE, "idle": "2.4 kW", "training": "7 kW"},
        spares={"hot": 0},
    )
    result = sim.run(prepared, 0)
    assert result.edges[-1] == pytest.approx(whole)
    energy = spending(prepared, result)["energy"].amount / 3.6e6
    assert energy == pytest.approx(float(meter["mean_energy_kwh_per_run"]), rel=0.10)


def test_training_power_of_the_catalog_is_near_other_measurements() -> None:
    """A node of 8 H100 peaks at 8.4 kW (arXiv 2412.08602) and trains at 76 % of its 10.2 kW (arXiv 2506.14551)."""
    node = catalog.accelerators()["h100"].node
    assert node is not None
    assert node.training < 8400
    assert node.training == pytest.approx(0.76 * 10_200, rel=0.05)

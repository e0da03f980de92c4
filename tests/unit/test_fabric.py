"""Parts of the fabric in the engine: timelines by hand of nodes that are cut off and jobs that lose bandwidth."""

from __future__ import annotations

from typing import Any

import pytest

import sim
from tests.cases import cases
from tests.harness import Z, losses, play, prepared, seconds

EXACT = 1e-9
NEVER = {"law": {"law": "exponential", "mean": "100000 d"}}
RARE_SAVES = {"tiers": [{"interval": "10 d", "mode": "blocking", "write": "0 s", "restore": "0 s"}]}

# Two leaf groups of two nodes behind two spines: each leaf has two uplinks, one to each spine.
TREE = {"rails": 1, "leaf": {"nodes": 2}, "spine": {"switches": 2}}
# The same with two rails, so two leaf switches a group.
RAILS = {"rails": 2, "leaf": {"nodes": 2}, "spine": {"switches": 2}}


def source(part: str, name: str = "", **more: Any) -> dict[str, Any]:
    """Return a source of a part that strikes only where a trace says so, and is repaired in 200 s."""
    return {"use": "component", "name": name or part, "part": part, **NEVER, "repair": "200 s", **more}


def case(*sources: dict[str, Any], fabric: dict[str, Any], gpus: int = 4, share: float = 0.5, **more: Any) -> Any:
    """Return a job on all four nodes, stepping from 30 s on, that waits for the network for `share` of a step."""
    per_node = fabric["rails"]
    return prepared(
        **{
            "cluster": {"nodes": 4, "gpus_per_node": per_node, "fabric": fabric},
            "jobs": [{"name": "job", "gpus": gpus * per_node, "communication": share}],
            "failures": list(sources),
            "checkpoint": RARE_SAVES,
            **more,
        }
    )


def left(result: sim.Result) -> float:
    """Return the healthy seconds of work of the job [s]."""
    return result.jobs[0].work


# --------------------------------------------------------------------------------------------- lost bandwidth


@cases("share", [0.1, 0.5, 1.0])
def test_half_the_spines_leave_half_the_bandwidth_until_they_are_back(share: float) -> None:
    """A step takes 1 - c + c / b; nobody crashes, and nothing interrupts the job."""
    result = play(case(source("spine"), fabric=TREE, share=share), [(130, 0, 0)])
    pace = 1 / (1 - share + share / 0.5)
    assert left(result) == pytest.approx(770 + 200 * pace, rel=EXACT)
    assert seconds(result)["degraded"] == pytest.approx(200 * (1 - pace), rel=EXACT)
    assert result.jobs[0].interruptions == {}
    assert (result.counts["faults"], result.counts["degraded"], result.counts["failures"]) == (1, 1, 0)


def test_the_time_that_a_lost_spine_costs_is_charged_to_it() -> None:
    """Of two causes that are out, the one that brought the bandwidth down is to blame, then the one that is left."""
    one = case(source("spine"), source("cable_leaf_spine", "cable"), fabric=TREE, share=1.0)
    # The cable is one of the two uplinks of the first leaf switch: alone it leaves half, beside the spine nothing less
    # if it leads to that very spine.
    table = losses(one, play(one, [(100, 0, 0), (200, 1, 0)]))
    assert sum(table[key] for key in table if key[0] == "degraded") == pytest.approx(0.5 * 300, rel=EXACT)
    assert table["degraded", "spine"] == pytest.approx(0.5 * 200, rel=EXACT)
    assert table["degraded", "cable"] == pytest.approx(0.5 * 100, rel=EXACT)


def test_a_job_inside_one_leaf_group_needs_no_spines() -> None:
    """Nor one pod the cores: bandwidth counts as far as the traffic goes."""
    result = play(case(source("spine"), fabric=TREE, gpus=2), [(130, 0, 0)])
    assert left(result) == pytest.approx(970, rel=EXACT)


def test_both_spines_out_at_once_and_one_back() -> None:
    """The nodes return with the first spine, at half the bandwidth, not with the one whose failure cut them off."""
    one = case(source("spine", repair="300 s"), fabric=TREE, share=1.0)
    result = play(one, [(130, 0, 0), (230, 0, 1)])
    # 30-130 healthy, 130-230 at half pace, 230-430 two nodes cut off (the job waits for them), then 30 s to initialise,
    # at half pace until the second spine is back at 530, healthy from then on.
    assert seconds(result) == pytest.approx(
        {"initialize": 60.0, "starved": 200.0, "lost_work": 200.0, "productive": 35.0 + 470.0, "degraded": 35.0},
        rel=EXACT,
    )
    assert (result.counts["degraded"], result.counts["failures"], result.counts["hits"]) == (1, 1, 1)
    assert result.down_node_seconds == pytest.approx(2 * 200)


# ----------------------------------------------------------------------------------------------- lost rails


def test_a_leaf_switch_of_single_homed_rails_takes_its_nodes() -> None:
    """Each of its nodes loses a rail, which is enough."""
    one = case(source("leaf"), fabric=RAILS)
    result = play(one, [(130, 0, 1)])
    assert result.jobs[0].interruptions == {1: 1}
    assert result.down_node_seconds == pytest.approx(2 * 200)
    assert seconds(result)["starved"] == pytest.approx(200, rel=EXACT)


def test_with_rerouting_the_other_rail_carries_on() -> None:
    """One of two rails: half the bandwidth, and no crash; both: a crash."""
    fabric = {**RAILS, "reroute": "scale_up"}
    one = case(source("leaf"), fabric=fabric, share=1.0)
    result = play(one, [(130, 0, 1)])
    assert left(result) == pytest.approx(770 + 100, rel=EXACT)
    assert result.down_node_seconds == 0
    result = play(one, [(130, 0, 1), (180, 0, 0)])
    assert result.jobs[0].interruptions == {1: 1}
    # Cut off from 180 until the first of the two is back at 330.
    assert result.down_node_seconds == pytest.approx(2 * 150)


def test_a_nic_takes_its_node_or_with_rerouting_bandwidth() -> None:
    """The node of a NIC that it cannot do without goes to repair itself."""
    result = play(case(source("nic"), fabric=RAILS), [(130, 0, 5)])
    assert result.jobs[0].interruptions == {1: 1}
    result = play(case(source("nic"), fabric={**RAILS, "reroute": "scale_up"}, share=1.0), [(130, 0, 5)])
    assert left(result) == pytest.approx(770 + 100, rel=EXACT)


def test_what_is_out_is_not_hit_again() -> None:
    """A leaf switch that is dead already does not die once more: the failure is masked, and the repair goes on."""
    one = case(source("leaf"), source("leaf", "again", repair="500 s"), fabric=RAILS)
    result = play(one, [(130, 0, 1), (200, 1, 1)])
    assert result.down_node_seconds == pytest.approx(2 * 200)
    assert (result.counts["failures"], result.counts["masked"], result.counts["degraded"]) == (2, 1, 0)


def test_planned_work_keeps_a_part_out_until_it_is_over() -> None:
    """A leaf switch that has failed when its maintenance begins is back when both are over."""
    one = case(source("leaf"), source("leaf", "care", planned=True), fabric=RAILS)
    result = play(one, [(130, 0, 1), (200, 1, 1, 900.0)])
    assert result.down_node_seconds == pytest.approx(2 * (900 - 130))


def test_a_part_that_fails_often_is_available_as_renewal_theory_says() -> None:
    """Without a second hit while it is out: 1 / (1 + rate x repair), 0.5 for a repair as long as a life."""
    fails = {"use": "component", "name": "leaf", "part": "leaf", "rate": "24 per leaf-year", "repair": "15.21875 d"}
    one = prepared(
        cluster={"nodes": 64, "gpus_per_node": 1, "fabric": {"rails": 1, "leaf": {"nodes": 2}}},
        jobs=[{"name": "job", "gpus": 1}],
        failures=[fails],
        horizon="2000 d",
        warmup="400 d",
    )
    cycles = 32 * 2000 / (2 * 15.21875)
    result = sim.run(one, 0)
    available = 1 - result.down_node_seconds / result.node_seconds
    # Of n renewal cycles with an exponential life and a fixed repair of the same mean the share has a standard error of
    # a quarter of 1 / sqrt(n).
    assert abs(available - 0.5) < Z * 0.25 / cycles**0.5


def test_a_log_says_until_when() -> None:
    """Recorded outages of switches end when the log says."""
    result = play(case(source("spine"), fabric=TREE, share=1.0), [(130, 0, 0, 150.0)])
    assert left(result) == pytest.approx(950 + 10, rel=EXACT)


def test_parts_that_come_back_at_once_only_interrupt() -> None:
    """A repair of no time: whoever was cut off restarts, whoever was not never noticed."""
    result = play(case(source("leaf", repair="0 s"), fabric=RAILS), [(130, 0, 1)])
    assert result.jobs[0].interruptions == {1: 1}
    assert result.down_node_seconds == 0
    result = play(case(source("spine", repair="0 s"), fabric=TREE, share=1.0), [(130, 0, 0)])
    assert left(result) == pytest.approx(970, rel=EXACT)


def test_what_nobody_would_notice_is_refused() -> None:
    """A spine matters to jobs that say that they wait for the network."""
    with pytest.raises(sim.ScenarioError, match="a failed spine stops no node here, and no job says what share"):
        case(source("spine"), fabric=TREE, share=0.0)


# ---------------------------------------------------------------------------------------- pools and placement


def test_a_synchronous_job_runs_at_its_slowest_pool() -> None:
    """An H100 has 989 TFLOP/s, a B200 2,250: on both, both run like H100s."""
    pools = [{"count": 2, "accelerator": "b200"}, {"count": 2, "accelerator": "h100"}]
    cluster = {"pools": pools, "gpus_per_node": 1, "fabric": {"rails": 1}}
    jobs = [{"name": "both", "gpus": 3}]
    one = prepared(cluster=cluster, jobs=jobs, checkpoint=RARE_SAVES)
    assert left(play(one, [])) == pytest.approx(970 * 989 / 2250, rel=EXACT)
    one = prepared(cluster=cluster, jobs=[{"name": "fast", "gpus": 2}], checkpoint=RARE_SAVES)
    assert left(play(one, [])) == pytest.approx(970, rel=EXACT)
    # Its replacement is an H100.
    result = play(one, [(130, 0, 0)])
    assert left(result) == pytest.approx((1000 - 160) * 989 / 2250, rel=EXACT)

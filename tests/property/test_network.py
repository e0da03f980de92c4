"""After every event the network is what a recount says, whatever fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ettrick import sim
from ettrick.sim.cluster import FABRIC_PARTS
from tests import harness
from tests.property.common import examples, prepare
from tests.strategies import Networked, scenarios
from tests.typed import present

if TYPE_CHECKING:
    from typing import Any

    from tests.property.common import Scenario

RARELY = {"tiers": [{"interval": "10 d", "mode": "blocking", "write": "0 s", "restore": "0 s"}]}

OFTEN = {"tiers": [{"interval": "200 s", "mode": "blocking", "write": "1 s", "restore": "1 s"}]}

NEVER = {"law": {"use": "exponential", "mean": "100000 d"}}


@examples(50)
@given(scenarios(fewest_sources=2))
def test_the_network_is_what_a_recount_says(data: Scenario) -> None:
    """Whatever else fails: who is cut off has an outage of the fabric open, and jobs step as fast as the formula."""
    case = prepare(data)
    Networked(case, 0, sim.trace(case, 0)).run()


def _of_fabric(data: Scenario, repair: str) -> Scenario:
    """Return a scenario in which parts of the fabric fail often, and nothing else does; no job ends early."""
    horizon = float(data["horizon"].split()[0])
    counts = sim.parse(data).cluster.counts()  # type: ignore[attr-defined]
    failures = [
        {
            "use": "component",
            "name": part,
            "part": part,
            "effect": "hang",
            "law": {"use": "exponential", "mean": f"{counts[part] * horizon / 30!r} s"},
            "repair": repair,
        }
        # A NIC that its node cannot do without is repaired with the node.
        for part in FABRIC_PARTS
        if part != "nic" and counts[part]
    ]
    jobs = [{key: value for key, value in job.items() if key not in ("work", "deadline")} for job in data["jobs"]]
    data = {key: value for key, value in data.items() if key != "parts"}  # of causes that are gone
    return data | {"failures": failures, "jobs": jobs, "checkpoint": OFTEN, "detection": {"time": "7 s"}}


@examples(12)
@given(scenarios(), st.integers(1, 5_000))
def test_the_fabric_alone_takes_nodes_down(data: Scenario, repair: int) -> None:
    """Where only its parts fail, a node has one outage open exactly while it is cut off, and a long repair is one."""
    case = prepare(_of_fabric(data, f"{repair} s"))
    assert all(source.of_fabric for source in case.sources)
    simulation = Networked(case, 0, sim.trace(case, 0))
    simulation.run()
    assert simulation.most_out > 0


@examples(12)
@given(scenarios())
def test_what_is_mended_leaves_no_trace(data: Scenario) -> None:
    """Long after the last failure nothing is out, nobody is cut off, and the bandwidth is what it was, bit by bit."""
    case = prepare(_of_fabric(data, "300 s"))
    drawn = sim.trace(case, 0)
    early = drawn.time < 0.6 * (case.warmup + case.horizon)
    columns = {name: getattr(drawn, name)[early] for name in ("time", "source", "slot", "round", "until")}
    simulation = Networked(case, 0, replace(drawn, **columns))
    simulation.run()
    assert simulation.most_out > 0
    state, paths = simulation.fabric.state, simulation.paths
    assert state.is_whole
    assert not simulation.cut
    assert not any(simulation.cluster.outages)
    for left, healthy in zip(state._capacity, present(paths).switches.capacity(), strict=True):
        assert np.array_equal(left, healthy)


def test_a_piece_that_becomes_the_largest_is_the_cluster() -> None:
    """Three leaf switches of two nodes without their spine: the lowest is the cluster, or the next while that is out.

    So a failure gives nodes back, and a repair cuts some off.
    """
    parts = {"spine": "600 s", "leaf": "100 s"}
    case = harness.prepared(
        cluster={
            "nodes": 6,
            "gpus_per_node": 1,
            "fabric": {"rails": 1, "leaf": {"nodes": 2}, "spine": {"switches": 1}},
        },
        jobs=[{"name": "job", "gpus": 2, "communication": 0.5}],
        failures=[
            {"use": "component", "name": part, "part": part, "repair": repair, **NEVER}
            for part, repair in parts.items()
        ],
    )
    simulation = Networked(case, 0, harness.trace([(100, 0, 0), (200, 1, 0)]))
    result = simulation.run()
    # The spine is out from 100 s to 700 s, and the first leaf switch from 200 s to 300 s.
    assert result.down_node_seconds == pytest.approx(2 * (100 + (100 + 400) + 600))
    # The job sits behind the first leaf switch, moves to the second with its nodes, and back.
    assert result.jobs[0].interruptions == {2: 1, 1: 1}
    assert result.counts["candidates"] == result.counts["faults"] == 3
    assert (result.counts["outside"], result.counts["hits"]) == (1, 2)
    assert "starved" not in harness.seconds(result)


def planes(nodes: int, *parts: str, **job: Any) -> sim.Prepared:
    """Return a job on four nodes in two pods, each of which has one spine in each of two planes; a repair takes 200 s.

    Without its cable to the core of its plane a spine is of no use, and the pods are left with the other plane.
    """
    spine = {"segments": 1, "switches": 1, "oversubscription": 2}
    fabric = {"use": "dual-plane", "rails": 1, "segment": {"nodes": 2}, "spine": spine, "core": {"switches": 1}}
    return harness.prepared(
        cluster={"nodes": nodes, "gpus_per_node": 1, "fabric": {**fabric, "copper": True}},
        jobs=[{"name": "job", "gpus": 4, "communication": 1.0, **job}],
        failures=[{"use": "component", "name": part, "part": part, "repair": "200 s", **NEVER} for part in parts],
        checkpoint=RARELY,
    )


def test_of_two_reasons_why_a_plane_is_lost_each_is_to_blame_while_it_is_alone() -> None:
    """A dead cable between spine and core, and its transceiver: mending either alone gives nothing back."""
    parts = ("cable_spine_core", "transceiver")
    case = planes(4, *parts)
    # The transceivers of the four cables below the spines come first.
    assert (case.counts["cable_leaf_spine"], case.counts["cable_spine_core"]) == (4, 4)
    lost = harness.losses(case, Networked(case, 0, harness.trace([(200, 0, 0), (300, 1, 8)])).run())
    blamed = [lost["degraded", part] for part in parts]
    assert sum(lost[key] for key in lost if key[0] == "degraded") == pytest.approx(sum(blamed)) == 0.5 * 300
    assert min(blamed) >= 0.5 * 100 - 1e-6


def test_what_fails_elsewhere_is_not_to_blame() -> None:
    """A cable of a third pod fails after the one that takes a plane from the job, before the job is there."""
    case = planes(6, "cable_spine_core", "cable_leaf_spine", arrival="40 s")
    lost = harness.losses(case, Networked(case, 0, harness.trace([(10, 0, 0), (20, 1, 5)])).run())
    # It starts up from 40 s to 70 s, and the cable is back at 210 s.
    assert {key: lost[key] for key in lost if key[0] == "degraded"} == {
        ("degraded", "cable_spine_core"): pytest.approx(0.5 * 140)
    }


def test_a_replica_that_is_away_slows_nobody() -> None:
    """Its new node, of a slower kind, makes the job slow from the moment when it rejoins."""
    pools = [{"count": 2, "accelerator": "b200"}, {"count": 1, "accelerator": "h100"}]
    away = {"reconfigure": "0 s", "initialize": "30 s", "catch_up": "170 s", "rejoin": "0 s", "min_replicas": 1}
    case = harness.prepared(
        cluster={"pools": pools, "gpus_per_node": 1, "fabric": {"rails": 1}},
        jobs=[{"name": "job", "gpus": 2, "parallelism": {"data": 2}}],
        recovery={"use": "shrink-rejoin", **away},
        checkpoint=RARELY,
        repair={"time": "2000 s"},
    )
    result = Networked(case, 0, harness.trace([(300, 0, 0)])).run()
    # One replica of two for 200 s, then both like an H100.
    assert result.jobs[0].work == pytest.approx(270 + 0.5 * 200 + 500 * 989 / 2250)

"""Spares by hand: warm and cold nodes, who refills what, whole units, and the strategy that waits for hosts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from scipy import stats

from ettrick import sim
from ettrick.sim.engine.nodes import NodeState
from ettrick.sim.engine.simulation import Simulation
from ettrick.sim.policies.contracts import Bucket
from tests.cases import cases
from tests.harness import exactly, play, prepared, seconds, trace
from tests.intervals import Z

if TYPE_CHECKING:
    from collections.abc import Sequence

STANDBY = {"use": "standby", "recovery": "20 s", "selection": "50 s"}

ONLY_SPARES = {"use": "hot-spare", "initialize": "30 s", "pools": ["spare"]}


def case(nodes: int, spares: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return a cluster of racks of two nodes; a job has the first two, unless `changes` say otherwise."""
    cluster = {"nodes": nodes, "gpus_per_node": 1, "rack": {"nodes": 2}, "fabric": {"rails": 1}}
    return prepared(cluster=cluster, spares=spares, **changes)


def ended(one: sim.Prepared, rows: Sequence[tuple[float, ...]]) -> Simulation:
    """Return a simulation on failures written by hand, after its end."""
    simulation = Simulation(one, 0, trace(rows))
    simulation.run()
    return simulation


def places(simulation: Simulation, place: NodeState) -> list[int]:
    """Return the nodes at a place."""
    return [node for node in range(simulation.cluster.nodes) if simulation.cluster.where(node) is place]


def test_n_nodes_take_n_delays() -> None:
    """A rack of four fails at once, and the cold nodes come one by one: 4 x 60 s."""
    cluster = {"nodes": 8, "gpus_per_node": 1, "rack": {"nodes": 4}, "fabric": {"rails": 1}}
    rack = {"use": "component", "name": "rack", "part": "rack", "rate": "1 per 1000 rack-d", "repair": "1 d"}
    cold = {"nodes": 4, "delay": "60 s", "one_by_one": True}
    one = prepared(cluster=cluster, jobs=[{"name": "job", "gpus": 4}], failures=[rack], spares={"cold": cold})
    assert seconds(play(one, [(300.0, 0, 0)]))["starved"] == pytest.approx(240)


def test_a_stationary_start_finds_a_job_of_all_nodes_but_the_spares_running() -> None:
    """It starts at once unless more nodes are in repair than there are spares: 12 nodes, each down if a repair is open.

    Outages join, so the repairs that are open are Poisson, with a mean of 1000 s over the 4000 s between failures.
    """
    rate = {"use": "component", "name": "node", "part": "node", "rate": "21.6 per node-day"}
    one = case(12, {"hot": 2}, jobs=[{"name": "job", "gpus": 10}], failures=[rate], repair={"time": "1000 s"})
    results = [sim.run(replace(one, stationary=True), number).jobs[0] for number in range(400)]
    waits = float(stats.binom.sf(2, 12, 1 - math.exp(-1000 / 4000)))
    found = sum(job.start != 0 for job in results)
    assert abs(found - 400 * waits) <= Z * (400 * waits * (1 - waits)) ** 0.5
    assert any(job.start == 0 for job in results)


def test_spares_fail_while_they_wait() -> None:
    """The spare is in repair from 250 to 450 s: the job that needs it at 300 s waits until then."""
    one = case(4, {"hot": 1}, recovery=ONLY_SPARES)
    result = play(one, [(250.0, 1, 3), (300.0, 0, 0)])
    assert seconds(result)["starved"] == pytest.approx(150)
    assert result.counts["outside"] == 1
    # A cause that does not touch idle nodes spares the spares.
    cause = {"use": "component", "part": "node", "law": {"use": "exponential", "mean": "1000 d"}, "idle_hazard": 0}
    calm = case(4, {"hot": 1}, recovery=ONLY_SPARES, failures=[{**cause, "name": "a"}, {**cause, "name": "b"}])
    result = play(calm, [(250.0, 1, 3), (300.0, 0, 0)])
    assert "starved" not in seconds(result)
    assert result.counts["suppressed"] == 1


JOB_OF_FOUR: list[dict[str, Any]] = [{"name": "job", "gpus": 4}]


def racks(spares: dict[str, Any] | None = None, **changes: Any) -> sim.Prepared:
    """Return four racks of two nodes that are used whole; a job has the first two racks."""
    return case(8, {"unit": "rack", **(spares or {})}, **({"jobs": JOB_OF_FOUR} | changes))


def test_the_whole_rack_leaves() -> None:
    """Node 0 fails at 300 s and is back at 500 s; node 1 is stranded meanwhile, and the job has the third rack."""
    rows = [(300.0, 0, 0)]
    result = play(racks(), rows)
    assert result.cluster[Bucket.STRANDED] == pytest.approx(200)
    assert result.cluster[Bucket.REPAIR] == pytest.approx(200)
    assert result.cluster[Bucket.UNALLOCATED] == pytest.approx(4 * 300 + 2 * 200 + 4 * 500)
    simulation = ended(racks(), rows)
    assert sorted(simulation.jobs.all[0].nodes) == [2, 3, 4, 5]
    assert places(simulation, NodeState.IDLE) == [0, 1, 6, 7]
    assert places(ended(racks(horizon="450 s"), rows), NodeState.STRANDED) == [1]


def test_a_stranded_node_may_fail() -> None:
    """Node 1 fails at 400 s, when it is stranded: the rack is whole again at 600 s, not at 500 s."""
    result = play(racks(), [(300.0, 0, 0), (400.0, 1, 1)])
    assert result.cluster[Bucket.STRANDED] == pytest.approx(100 + 100)
    assert result.cluster[Bucket.REPAIR] == pytest.approx(400)
    assert result.cluster[Bucket.UNALLOCATED] == pytest.approx(4 * 300 + 2 * 300 + 4 * 400)
    assert result.jobs[0].interruptions == {1: 1}


def test_a_cold_rack_comes_whole() -> None:
    """Its two nodes are got ready one by one, and the job waits for both; nobody sees half a rack."""
    cold = {"nodes": 2, "delay": "60 s", "one_by_one": True}
    recovery = {"use": "hot-spare", "initialize": "30 s", "pools": ["cold"]}
    one = racks({"cold": cold}, recovery=recovery)
    assert seconds(play(one, [(300.0, 0, 0)]))["starved"] == pytest.approx(120)
    assert sorted(ended(one, [(300.0, 0, 0)]).jobs.all[0].nodes) == [2, 3, 6, 7]


def test_a_hot_spare_steps_in() -> None:
    """Selected by 50 s, saves at 160 and 270 s; recovered at 320 s, restored at 340 s: the swap costs nothing."""
    one = case(5, {"hot": 1}, recovery=STANDBY)
    assert seconds(play(one, [(300.0, 0, 0)])) == exactly(
        productive=1000 - 50 - 2 * 10 - 30 - 20 - 20 - 6 * 10,
        checkpoint_stall=2 * 10 + 6 * 10,
        lost_work=30,
        reschedule=50,
        initialize=20,
        restore=20,
    )
    assert sorted(ended(one, [(300.0, 0, 0)]).jobs.all[0].nodes) == [1, 4]


def test_without_a_hot_spare_hosts_are_selected() -> None:
    """At 400 s no spare is left: recovered at 420 s, idle nodes for the job and for the spares, selected by 470 s."""
    one = case(6, {"hot": 1}, recovery=STANDBY, repair={"time": "1 d"})
    rows = [(300.0, 0, 0), (400.0, 1, 1)]
    found = seconds(play(one, rows))
    assert found["reschedule"] == pytest.approx(50 + 50)
    assert found["initialize"] == pytest.approx(20 + 20)
    assert "starved" not in found
    simulation = ended(one, rows)
    assert sorted(simulation.jobs.all[0].nodes) == [2, 5]
    assert places(simulation, NodeState.SPARE) == [3]
    assert places(simulation, NodeState.IDLE) == [4]


def test_cold_nodes_come_one_by_one_until_the_spares_are_full() -> None:
    """Two nodes are missing at 425 s and one is idle: a cold one to 525 s, another one for the spares to 625 s."""
    cold = {"nodes": 3, "delay": "100 s", "one_by_one": True}
    one = case(7, {"hot": 1, "cold": cold}, recovery=STANDBY, repair={"time": "1 d"}, detection={"time": "5 s"})
    rows = [(300.0, 0, 0), (400.0, 0, 1), (402.0, 1, 6)]
    found = seconds(play(one, rows))
    assert found["starved"] == pytest.approx(200)
    assert found["reschedule"] == pytest.approx(100)
    simulation = ended(one, rows)
    assert sorted(simulation.jobs.all[0].nodes) == [2, 3]
    assert places(simulation, NodeState.SPARE) == [4]
    assert places(simulation, NodeState.COLD) == [5]


@cases("at", [20.0, 310.0, 330.0, 425.0, 460.0])
@cases("exposed", [True, False])
def test_who_can_fail_meanwhile(at: float, exposed: bool) -> None:
    """With `exposed: false` nothing happens to the job in selection, recovery, restore or while it waits for nodes.

    Selection to 50 s; failure at 300 s, recovery to 320 s, restore to 340 s; failure at 400 s, recovery to 420 s, a
    cold node to 440 s, selection to 490 s.
    """
    cold = {"nodes": 2, "delay": "20 s", "one_by_one": True}
    recovery = {**STANDBY, "exposed": exposed}
    one = case(6, {"hot": 1, "cold": cold}, recovery=recovery, repair={"time": "1 d"})
    rows = [(300.0, 0, 0), (400.0, 0, 5), (at, 1, 1)]
    result = play(one, rows)
    assert result.counts["suppressed"] == (0 if exposed else 1)
    assert result.counts["hits"] == (3 if exposed else 2)


RACKS = {"use": "component", "name": "rack", "part": "rack", "rate": "20 per 1000 rack-d", "repair": "6 h"}

NODES = {"use": "component", "name": "node", "part": "node", "rate": "100 per 1000 node-d"}

LEAVES = {"use": "component", "name": "leaf", "part": "leaf", "rate": "20 per 1000 leaf-d", "repair": "2 h"}

TIERS = {"use": "tiers", "tiers": [{"name": "fix", "time": "2 d", "crews": 1}]}

DAYS: dict[str, Any] = {
    "horizon": "60 d",
    "jobs": [{"name": "job", "gpus": 16}],
    "failures": [NODES, RACKS],
    "detection": {"time": "5 min"},
    "checkpoint": {"tiers": [{"interval": "1 h", "mode": "blocking", "write": "1 min", "restore": "1 min"}]},
    "recovery": {"use": "full-restart", "initialize": "4 min"},
    "repair": {"time": "1 d"},
}


def fleet(nodes: int | None, **changes: Any) -> sim.Prepared:
    """Return sixty days of racks of four nodes; a number of nodes that is left out follows from jobs and spares."""
    fabric = {"rails": 1, "radix": 16, "leaf": {"nodes": 4}}
    cluster = {"gpus_per_node": 1, "rack": {"nodes": 4}, "fabric": fabric} | ({"nodes": nodes} if nodes else {})
    return prepared(**{**DAYS, "cluster": cluster, **changes})


EXACT: list[dict[str, Any]] = [
    {},
    {"recovery": {"use": "hot-spare", "initialize": "4 min"}},
    {
        "recovery": {"use": "hot-spare", "initialize": "4 min"},
        "spares": {"hot": 2, "warm": {"nodes": 2, "delay": "1 h"}},
    },
    {"recovery": STANDBY, "spares": {"hot": 4}},
    {"initial": "stationary", "spares": {"hot": 4}},
    {"repair": TIERS, "failures": [NODES], "spares": {"hot": 4}},
    {"spares": {"hot": 4, "unit": "rack"}, "recovery": {"use": "hot-spare", "initialize": "4 min"}},
    {"failures": [NODES, LEAVES], "spares": {"hot": 4}},
    {"scheduler": {"pack": "rack"}, "spares": {"hot": 4}},
    {"jobs": [{"name": "a", "gpus": 8}, {"name": "b", "gpus": 4, "arrival": "20 d"}], "spares": {"hot": 4}},
    {"failures": [{**NODES, "idle_hazard": 0.0, "clock": "in_service", "renews": "at_return"}]},
]


@pytest.mark.parametrize("changes", EXACT, ids=str)
def test_withheld_nodes_are_as_if_they_were_not_there(changes: dict[str, Any]) -> None:
    """To the last bit, jobs do what they do in a cluster of exactly the nodes of jobs and spares."""
    exact = fleet(None, **changes)
    spares = {**changes.get("spares", {}), "idle": "withhold"}
    many = fleet(exact.nodes + 8, **{**changes, "spares": spares})
    free = fleet(exact.nodes + 8, **changes)
    assert many.withheld == 8
    differs = False
    for replication in range(3):
        found, wanted = (sim.run(each, replication) for each in (many, exact))
        for job, other in zip(found.jobs, wanted.jobs, strict=True):
            assert (job.totals == other.totals).all()
            assert (job.work, job.interruptions, job.restores) == (other.work, other.interruptions, other.restores)
        for count in ("failures", "hits", "outside", "masked"):
            assert found.counts[count] == wanted.counts[count]
        assert found.node_seconds == wanted.node_seconds
        assert found.down_node_seconds == wanted.down_node_seconds
        unallocated = found.outside[:, Bucket.UNALLOCATED].sum() - wanted.outside[:, Bucket.UNALLOCATED].sum()
        assert unallocated == pytest.approx(8 * 60 * 86400, rel=1e-9)
        assert found.owned - wanted.owned == pytest.approx(8 * 60 * 86400, rel=1e-9)
        differs |= any(
            job.work != other.work for job, other in zip(sim.run(free, replication).jobs, wanted.jobs, strict=True)
        )
    assert differs, "idle nodes that serve make a difference, or this test shows nothing"


def test_whole_domains_are_withheld() -> None:
    """Of three domains a job takes two of four nodes each and leaves two in each; the third stays out of everything."""
    scale_up = {"gpus": 4, "use": 3}
    changes: dict[str, Any] = {"jobs": [{"name": "job", "gpus": 6}], "failures": [NODES]}
    changes["recovery"] = {"use": "hot-spare", "initialize": "4 min"}
    cluster = {"gpus_per_node": 1, "scale_up": scale_up, "fabric": {"rails": 1}}
    exact = prepared(**{**DAYS, **changes, "cluster": cluster})
    assert exact.nodes == 8
    many = prepared(**{**DAYS, **changes, "cluster": {**cluster, "nodes": 12}, "spares": {"idle": "withhold"}})
    assert (many.withheld, len(many.units.nodes if many.units else ())) == (4, 2)
    found, wanted = sim.run(many, 0), sim.run(exact, 0)
    assert (found.jobs[0].totals == wanted.jobs[0].totals).all()
    assert (found.whole_unit_seconds, found.unit_seconds) == (wanted.whole_unit_seconds, wanted.unit_seconds)


@cases(
    ("changes", "nodes"),
    [
        ({}, 16),
        ({"spares": {"hot": 3, "warm": {"nodes": 2, "delay": "1 h"}, "cold": {"nodes": 1, "delay": "1 h"}}}, 22),
        ({"jobs": [{"name": "a", "gpus": 5}, {"name": "b", "gpus": 4, "arrival": "9 d"}], "spares": {"hot": 2}}, 11),
        ({"jobs": [{"name": "a", "gpus": 4}], "spares": {"hot": 4, "unit": "rack"}}, 8),
    ],
    ids=str,
)
def test_a_cluster_without_a_number_of_nodes_has_those_of_jobs_and_spares(changes: dict[str, Any], nodes: int) -> None:
    """All jobs, whenever they arrive, and all spares, in whole units; what was found is what is written back."""
    found = fleet(None, **changes)
    assert (found.nodes, found.withheld, found.warnings) == (nodes, 0, ())
    assert sim.parse(found.scenario.dump()) == found.scenario


def test_idle_nodes_that_serve_are_warned_of() -> None:
    """Where spares are stated and other nodes serve too; not where nobody asks, where it is said, or where none do."""
    asked = {"spares": {"hot": 0}}
    (line,) = fleet(20, **asked).warnings
    assert "spares.idle: withhold" in line
    assert fleet(24, spares={"hot": 4}).warnings == (line,), "the same line for every point of a sweep"
    assert not fleet(20).warnings
    assert not fleet(16, **asked).warnings
    for idle in ("serve", "withhold"):
        assert not fleet(20, spares={"hot": 0, "idle": idle}).warnings
    only = {"use": "hot-spare", "initialize": "4 min", "pools": ["spare"]}
    assert not fleet(24, spares={"hot": 4}, recovery=only).warnings

"""Jobs that shrink, by hand: what is written on, who joins when, whom a fault stops, and from whom nobody restores.

Four replicas of one node step after 40 s, in steps of 10 s. Unless a test says so, a failure is known after 20 s, the
others regroup for 30 s, a replica that is back needs 40 s and takes the state in 50 s, and all stand still for 6 s when
it joins; a restore takes 7 s. Of the sources, `loss` takes a node, `hang` stops a collective.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ettrick import sim
from tests.cases import cases
from tests.harness import play, scenario
from tests.oracle.compare import table

SHRINKS = {"use": "shrink-rejoin", "reconfigure": "30 s", "initialize": "40 s", "catch_up": "50 s", "rejoin": "6 s"}
RESTARTS = {"use": "restart-smaller", "stop": "10 s", "launch": "40 s"}
SAVES = {"interval": "300 s", "mode": "blocking", "write": "0 s", "restore": "7 s"}
WRITES = {"interval": "700 s", "mode": "async", "stall": "0 s", "write": "100 s", "restore": "7 s"}
SHARED = {"store": "peer-host", "interval": "5000 s", "write": "0 s", "restore": "0 s"}

Rows = list[tuple[float, int, int, float]]


def case(recovery: dict[str, Any], *tiers: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return a job of four replicas, its saves and its recovery."""
    rare = {"use": "component", "part": "node", "rate": "1 per 1000000 node-d"}
    base = {
        "cluster": {"nodes": 4, "gpus_per_node": 1, "fabric": {"rails": 1}},
        "horizon": "6000 s",
        "jobs": [{"name": "a", "gpus": 4, "step_time": "10 s", "parallelism": {"data": 4}}],
        "failures": [{**rare, "name": "loss", "fault": "host"}, {**rare, "name": "hang", "fault": "hang"}],
        "detection": {"time": "20 s"},
        "checkpoint": {"tiers": list(tiers or [SAVES])},
        "recovery": recovery,
        "spares": {"hot": 0},
    }
    return sim.prepare(sim.parse(scenario(**{**base, **changes})))


def spent(one: sim.Prepared, rows: Rows) -> dict[tuple[str, str], float]:
    """Return the GPU-seconds of the job by bucket and cause, with failures as rows of time, source, node and end."""
    return table(one, play(one, rows).jobs[0].totals)


def productive(one: sim.Prepared, rows: Rows) -> float:
    """Return its productive GPU-seconds."""
    return spent(one, rows)["productive", "no_failure"]


@cases("tiers", [[WRITES], [WRITES, SHARED]])
def test_the_others_write_on_what_they_save_when_a_replica_leaves(tiers: list[dict[str, Any]]) -> None:
    """The save of 740 s is durable at 840 s though a replica leaves at 790 s: the restart of 1,200 s loses 330 s of it.

    Work is 700 s at 740 s, 750 s at 790 s; from 840 s three replicas step, to 1,110 s at 1,200 s. Lost are 50 s of four
    and 360 s of three replicas: back to 700 s. Without the save all would be lost.
    """
    one = case({**SHRINKS, "min_replicas": 3}, *tiers)
    lost = spent(one, [(790, 0, 1, 9000), (1200, 0, 2, 9000)])["lost_work", "loss"]
    assert lost == pytest.approx(50 * 4 + 360 * 3, abs=1e-6)


def test_a_return_does_not_void_what_is_being_written() -> None:
    """A replica that joins at 810 s, within the write from 790 to 890 s, leaves that to become durable.

    It leaves at 300 s, and 700 s of work are done at 790 s, after 50 s of standing still.
    """
    one = case({**SHRINKS, "min_replicas": 3}, WRITES)
    table_of = spent(one, [(300, 0, 1, 720), (1200, 0, 2, 9000), (1201, 0, 3, 9000)])
    # Work is 720 s at 810 s, and 1,104 s at 1,200 s: four replicas have added 384 s, three 20 s.
    assert table_of["lost_work", "loss"] == pytest.approx(20 * 3 + 384 * 4, abs=1e-6)


def test_what_is_on_its_way_at_the_failure_is_void_when_all_restart() -> None:
    """The write from 740 to 840 s is void where the failure of 790 s, known at 850 s, makes all restart."""
    one = case({**SHRINKS, "min_replicas": 4}, WRITES, detection={"time": "60 s"})
    assert spent(one, [(790, 0, 1, 9000)])["lost_work", "loss"] == pytest.approx(750 * 4, abs=1e-6)


@cases("timeout", ["0 s", "3000 s", "500 s"])
def test_a_quorum_that_is_met_starts_at_once(timeout: str) -> None:
    """Replica 1, whole at 2,590 s, is the third of three: all restart then, whatever the time-out of the quorum is.

    Work to 1,000 s is 960 s, of four; three add 150 s to 1,200 s. 900 s are durable; from 2,637 s three step again.
    """
    one = case({**SHRINKS, "min_replicas": 3, "quorum_timeout": timeout})
    rows: Rows = [(1000, 0, 1, 2500), (1200, 0, 2, 9000)]
    assert productive(one, rows) == pytest.approx(900 * 4 + (6000 - 2637) * 3, abs=1e-6)
    # It is a quorum's wait until the time-out, of two replicas, beside 30 s of three that regroup.
    waited = min(float(timeout[:-2]), 2590 - 1220)
    assert spent(one, rows)["reschedule", "loss"] == pytest.approx(30 * 3 + waited * 2, abs=1e-6)


@cases(("back", "begins"), [(1140, 1187), (1200, 1247), (1110, 1177)])
def test_whoever_is_back_while_the_others_restart_makes_all_start_again(back: float, begins: float) -> None:
    """The node lost at 1,100 s is back while the others stop, launch or restore (1,120 to 1,177 s), or step already.

    All of them stop, launch and restore from then on: 10 + 40 + 7 s. One that is back before its loss is known starts
    with the others. 900 s of work are durable.
    """
    one = case(RESTARTS)
    expected = 900 * 4 + (6000 - (back + 57 if back > 1120 else begins)) * 4
    assert productive(one, [(1100, 0, 1, back)]) == pytest.approx(expected, abs=1e-6)


def test_after_a_wait_for_replicas_all_launch() -> None:
    """Too few are left at 1,120 s, stop for 10 s and wait; the node is back at 1,500 s: a launch, no `rejoin`."""
    one = case({**RESTARTS, "rejoin": "300 s", "min_replicas": 4})
    assert productive(one, [(1100, 0, 1, 1500)]) == pytest.approx(900 * 4 + (6000 - 1547) * 4, abs=1e-6)


def test_a_hang_stops_all_even_if_another_node_is_lost_meanwhile() -> None:
    """A hang of node 1, which is back at once, and the loss of node 2 are known together at 1,020 s.

    All restart from 900 s of work: the three others at 1,067 s; node 2 is back at 3,000 s, and joins in 96 s from then.
    """
    rows: Rows = [(1000, 1, 1, 1005), (1010, 0, 2, 3000)]
    found = spent(case(SHRINKS), rows)
    # The three have done 3 s of a step when the fourth joins.
    assert found["lost_work", "hang"] == pytest.approx(60 * 4 + 3 * 3, abs=1e-6)
    assert found["restore", "hang"] == pytest.approx(7 * 3 + 50, abs=1e-6)


def test_a_hang_whose_node_is_gone_sends_its_replica_away() -> None:
    """A node that is still out when the hang is known says where it was: the others lose no more than a step."""
    assert ("lost_work", "hang") not in spent(case(SHRINKS), [(1000, 1, 1, 3000)])


@cases("catch_up", ["0 s", "50 s", "2000 s"])
def test_nobody_restores_from_the_dead(catch_up: str) -> None:
    """All four are lost at 1,000 s and back at 2,000 s: one start and one restore, whatever `catch_up` is."""
    one = case({**SHRINKS, "catch_up": catch_up})
    rows: Rows = [(1000, 0, node, 2000) for node in range(4)]
    assert productive(one, rows) == pytest.approx(900 * 4 + (6000 - 2047) * 4, abs=1e-6)


def test_who_takes_the_state_from_a_replica_that_dies_starts_from_the_checkpoint() -> None:
    """Of two replicas one is back at 1,030 s and takes the state until 1,120 s; the other fails at 1,100 s.

    That is known at 1,200 s. By then the first has not got the state, and goes back with the other to 900 s of work.
    """
    job = {"name": "a", "gpus": 2, "step_time": "10 s", "parallelism": {"data": 2}}
    cluster = {"nodes": 2, "gpus_per_node": 1, "fabric": {"rails": 1}}
    late = {"name": "late", "use": "component", "part": "node", "rate": "1 per 1000000 node-d", "detection": "100 s"}
    one = case(SHRINKS, jobs=[job], cluster=cluster, failures=[dict(late, name="loss", detection="20 s"), late])
    found = spent(one, [(1000, 0, 0, 1030), (1100, 1, 1, 9000)])
    assert found["productive", "no_failure"] == pytest.approx(900 * 2 + (6000 - 1247), abs=1e-6)
    assert found["restore", "loss"] == pytest.approx(1200 - 1070, abs=1e-6)


def test_a_return_costs_the_step_in_flight_and_cuts_a_save() -> None:
    """A replica that joins cuts a step, for its own failure, or a save in its stall, which then follows at once.

    Lost at 500 s, its node is back at 563 s and it at 653 s: the others step since 550 s, and are 3 s into a step. With
    saves of 60 s they have 300 s of work at 340 s and 400 s at 500 s, and save again from 750 s; a replica that is
    ready at 755 s costs 5 s of that save, and then all four make it.
    """
    assert spent(case(SHRINKS), [(500, 0, 1, 563)])["lost_work", "loss"] == pytest.approx(3 * 3, abs=1e-6)
    stalls = spent(case(SHRINKS, {**SAVES, "write": "60 s"}, horizon="1000 s"), [(500, 0, 1, 665)])
    assert stalls["checkpoint_stall", "no_failure"] == pytest.approx(60 * 4 + 5 * 3 + 60 * 4, abs=1e-6)


@cases(("back", "initialize"), [(1060, 40.0), (1061, 40.0 + 6 * 4)])
def test_who_is_ready_when_the_others_step_again_goes_on_with_them(back: float, initialize: float) -> None:
    """A replica that is ready at 1,100 s, when the others have regrouped, costs them nothing; a second later, 6 s."""
    fast = case({**SHRINKS, "initialize": "40 s", "catch_up": "0 s", "reconfigure": "80 s"})
    found = spent(fast, [(1000, 0, 1, back)])
    assert found["initialize", "loss"] == pytest.approx(initialize, abs=1e-6)


def test_a_rank_that_fails_while_all_restart_starts_with_them() -> None:
    """All restart after a hang, from 1,020 to 1,067 s; a node fails at 1,030 s, and is back before that is known.

    The restart begins again at 1,050 s, and nobody is away.
    """
    one = case(SHRINKS)
    rows: Rows = [(1000, 1, 1, 1005), (1030, 0, 2, 1035)]
    assert productive(one, rows) == pytest.approx(900 * 4 + (6000 - 1097) * 4, abs=1e-6)


def test_without_a_checkpoint_all_start_without_a_restore() -> None:
    """A hang at 200 s, before the first save: initialize alone, no regrouping and nothing to read."""
    found = spent(case(SHRINKS), [(200, 1, 1, 205)])
    assert found["initialize", "hang"] == pytest.approx(40 * 4, abs=1e-6)
    assert ("restore", "hang") not in found
    assert ("reschedule", "hang") not in found


@cases(
    ("spares", "expected"),
    [({"hot": 0}, 1813.0), ({"hot": 1}, 1813.0), ({"warm": {"nodes": 1, "delay": "500 s"}}, 900 + 2100 - 1567.0)],
)
def test_an_unblamed_node_is_swapped_for_another(spares: dict[str, Any], expected: float) -> None:
    """Node 0 fails at 1,000 s and nobody is blamed: another node takes over at 1,020 s, and node 0 is idle.

    It steps from 1,067 s with 900 s of work, and fails after 1,000 s in the job, at 2,020 s: 1,800 s of work are
    durable, and 13 s follow from 2,087 s. Node 0 fills no pool: of a warm spare, ready after 500 s, the spare is taken.
    """
    one = case(
        {"use": "hot-spare", "initialize": "40 s"},
        jobs=[{"name": "a", "gpus": 1, "step_time": "1 s"}],
        failures=[{"use": "component", "name": "loss", "part": "node", "law": "1000 s", "clock": "busy"}],
        repair={"use": "tiers", "tiers": [{"name": "t", "time": "100 s"}], "diagnosis": {"finds": 0}},
        cluster={"nodes": 2, "gpus_per_node": 1, "fabric": {"rails": 1}},
        spares=spares,
        horizon="2100 s",
    )
    for engine in ("events", "compiled"):
        found = table(one, sim.run(replace(one, engine=engine), 0).jobs[0].totals)
        assert found["productive", "no_failure"] == pytest.approx(expected, abs=1e-6)


def test_one_node_leaves_where_each_of_two_is_blamed_for_the_other() -> None:
    """Both nodes of a job fail at 1,000 s. The first failure finds nobody up to blame; the second blames node 0.

    Node 0, whose failure nobody answers, is up again when the failures are known, and so leaves for the tier of 100 s.
    """
    tiers = {"use": "tiers", "tiers": [{"name": "t", "time": "100 s"}], "diagnosis": {"blames_other": 1}}
    job = {"name": "a", "gpus": 2, "step_time": "1 s"}
    failure = {"use": "component", "name": "loss", "part": "node", "law": "1000 s", "clock": "busy", "renews": "never"}
    cluster = {"nodes": 2, "gpus_per_node": 1, "fabric": {"rails": 1}}
    one = case(
        {"use": "hot-spare", "initialize": "40 s"}, SAVES, jobs=[job], failures=[failure], repair=tiers, cluster=cluster
    )
    rows = [(row.node, row.start, row.end) for row in sim.run(one, 0, keeps_log=True).outages]
    assert sorted(rows) == [(0, 1000, 1020), (0, 1020, 1120), (1, 1000, 1020)]


def test_a_life_begins_when_nothing_holds_its_node_down() -> None:
    """A repair that is over at 1,520 s begins no life while the rack holds the node down, to 1,900 s.

    That life ends at 2,800 s. The next ones end 900 s after repairs of 600 s that begin 20 s after the failures.
    """
    failures = [
        {"use": "component", "name": "node", "part": "node", "law": "900 s", "renews": "at_return", "repair": "600 s"},
        {"use": "component", "name": "rack", "part": "rack", "law": "1000 s", "renews": "never", "repair": "900 s"},
    ]
    job = {"name": "a", "gpus": 1, "step_time": "1 s"}
    cluster = {"nodes": 2, "gpus_per_node": 1, "rack": {"nodes": 2}, "fabric": {"rails": 1}}
    one = case({"use": "hot-spare", "initialize": "40 s"}, jobs=[job], failures=failures, cluster=cluster)
    for engine in ("events", "compiled"):
        outages = sim.run(replace(one, engine=engine), 0, keeps_log=True).outages
        assert [row.start for row in outages if row.node == 0] == [900, 2800, 4320, 5840]


def test_a_node_in_qualification_that_its_rack_takes_stays_in_qualification() -> None:
    """Node 1 is idle, fails at 1,000 s, and is tested from 1,100 to 1,300 s; its rack is out from 1,150 s on."""
    rare = {"use": "component", "rate": "1 per 1000000 node-d"}
    tiers = [{"name": "t", "time": "100 s"}]
    one = case(
        {"use": "hot-spare", "initialize": "40 s"},
        jobs=[{"name": "a", "gpus": 1, "step_time": "1 s"}],
        failures=[
            {**rare, "name": "loss", "part": "node"},
            {"use": "component", "rate": "1 per 1000000 rack-d", "name": "rack", "part": "rack", "repair": "500 s"},
        ],
        repair={"use": "tiers", "tiers": tiers, "qualification": {"time": "200 s"}},
        cluster={"nodes": 4, "gpus_per_node": 1, "rack": {"nodes": 2}, "fabric": {"rails": 1}},
    )
    outside = table(one, play(one, [(1000, 0, 1), (1150, 1, 0)]).outside)
    assert outside["qualification", "loss"] == pytest.approx(200, abs=1e-6)

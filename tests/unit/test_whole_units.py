"""Units with spares inside them, by hand: who takes over, when a unit breaks, when it is of use again."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim.engine.kernel import EventPriority
from ettrick.sim.engine.nodes import NodeState
from ettrick.sim.engine.prepared import AllocationUnits
from ettrick.sim.engine.simulation import Simulation
from ettrick.sim.formulas.nodes import missing_nodes_pmf, steady_unavailability
from ettrick.sim.policies.contracts import Bucket
from tests.cases import cases
from tests.harness import _Watched, ended, exactly, nodes_at, play, prepared, results_of, seconds
from tests.intervals import Z, close
from tests.pace import SEED, one_in

if TYPE_CHECKING:
    from ettrick.sim.policies.contracts import ClusterView, FailureView, JobView, Memory, Plan

ALWAYS = {"law": {"use": "exponential", "mean": "1000 d"}, "renews": "never"}

NODE = {"use": "component", "name": "node", "part": "node", **ALWAYS}

RACK = {"use": "component", "name": "rack", "part": "rack", "repair": "100 s", **ALWAYS}

DAY = {"time": "1 d"}

PAIRS = {"gpus": 4, "parallelism": {"data": 2, "tensor": 2}}

ELASTIC = {"use": "shrink-rejoin", "reconfigure": "10 s", "initialize": "60 s", "catch_up": "5 s"}


def racks(count: int, size: int, needed: int, *, drains: bool = False, **changes: Any) -> sim.Prepared:
    """Return racks of `size` nodes, one GPU each, of which a job needs `needed`."""
    cluster = {"nodes": count * size, "gpus_per_node": 1, "rack": {"nodes": size}, "fabric": {"rails": 1}}
    one = prepared(**({"cluster": cluster, "failures": [NODE, RACK]} | changes))
    nodes = tuple(tuple(range(first, first + size)) for first in range(0, count * size, size))
    return replace(one, units=AllocationUnits(nodes, needed, drains))


def domains(*, drains: bool = False, **changes: Any) -> sim.Prepared:
    """Return three racks of 18 nodes: a job has 16 of the first, the second is idle, and the third is the spare."""
    common = {"jobs": [{"name": "job", "gpus": 16}], "spares": {"hot": 16}}
    return racks(3, 18, 16, drains=drains, **(common | changes))


MATES = [16, 17, 34, 35, 52, 53]

"""Those of the three racks at the start."""


def test_each_rack_gives_its_first_nodes() -> None:
    """Pools hold whole racks, the last one is the spare, and what no job needs of a rack is its own spare."""
    simulation = ended(domains(), [])
    assert simulation.jobs.all[0].nodes == list(range(16))
    assert nodes_at(simulation, NodeState.IDLE) == list(range(18, 34))
    assert nodes_at(simulation, NodeState.SPARE) == list(range(36, 52))
    assert nodes_at(simulation, NodeState.MATE) == MATES
    result = play(domains())
    assert result.cluster[Bucket.SPARE_IDLE] == pytest.approx((16 + 6) * 1000)
    assert result.cluster[Bucket.UNALLOCATED] == pytest.approx(16 * 1000)
    assert result.whole_unit_seconds == result.unit_seconds == pytest.approx(3 * 1000)


def test_a_mate_takes_over() -> None:
    """Node 0 fails at 300 s: 16 sits at its place at once, and from 500 s on node 0 is a spare of the rack."""
    rows = [(300.0, 0, 0)]
    result = play(domains(), rows)
    found = seconds(result)
    assert (found["initialize"], found["restore"]) == pytest.approx((30 + 30, 20))
    assert "starved" not in found
    assert result.jobs[0].interruptions == {1: 1}
    assert result.cluster[Bucket.REPAIR] == pytest.approx(200)
    assert result.cluster[Bucket.SPARE_IDLE] == pytest.approx((16 + 4) * 1000 + 2 * 300 + 200 + 2 * 500)
    assert result.cluster[Bucket.STRANDED] == 0
    assert result.whole_unit_seconds == pytest.approx(3 * 1000)
    simulation = ended(domains(), rows)
    assert simulation.jobs.all[0].nodes == [16, *range(1, 16)]
    assert nodes_at(simulation, NodeState.MATE) == sorted({0, *MATES} - {16})


def test_the_third_loss_breaks_the_rack() -> None:
    """Two mates step in at 300 and 310 s; at 320 s 15 nodes are stranded, and the job has the spare rack."""
    rows = [(300.0, 0, 0), (310.0, 0, 1), (320.0, 0, 2)]
    one = domains(repair=DAY)
    result = play(one, rows)
    assert "starved" not in seconds(result)
    assert result.cluster[Bucket.STRANDED] == pytest.approx(15 * 680)
    assert result.cluster[Bucket.REPAIR] == pytest.approx(700 + 690 + 680)
    assert result.cluster[Bucket.SPARE_IDLE] == pytest.approx(4 * 1000 + 2 * 300 + 10 + 16 * 320)
    assert result.whole_unit_seconds == pytest.approx(3 * 1000 - 680)
    assert result.unit_down_times == pytest.approx({0: 320, 1: 680})
    simulation = ended(one, rows)
    assert simulation.jobs.all[0].nodes == list(range(36, 52))
    assert nodes_at(simulation, NodeState.STRANDED) == list(range(3, 18))


def test_a_return_makes_the_rack_the_new_spare() -> None:
    """The first of the three is back at 500 s: with 15 stranded ones that is a rack. The others become its mates."""
    rows = [(300.0, 0, 0), (310.0, 0, 1), (320.0, 0, 2)]
    result = play(domains(), rows)
    assert result.cluster[Bucket.STRANDED] == pytest.approx(15 * 180)
    assert result.whole_unit_seconds == pytest.approx(3 * 1000 - 180)
    mates = 4 * 1000 + 2 * 300 + 10 + 490 + 480
    assert result.cluster[Bucket.SPARE_IDLE] == pytest.approx(mates + 16 * 320 + 16 * 500)
    simulation = ended(domains(), rows)
    assert nodes_at(simulation, NodeState.SPARE) == [0, *range(3, 18)]
    assert nodes_at(simulation, NodeState.MATE) == [1, 2, *MATES[2:]]


def test_a_rack_that_drains_goes_at_the_first_loss() -> None:
    """Node 0 fails at 300 s: the other 17 are stranded until it is back at 500 s, and the first 16 are the spare."""
    one = domains(drains=True)
    result = play(one, [(300.0, 0, 0)])
    assert "starved" not in seconds(result)
    assert result.cluster[Bucket.STRANDED] == pytest.approx(17 * 200)
    assert result.whole_unit_seconds == pytest.approx(3 * 1000 - 200)
    simulation = ended(one, [(300.0, 0, 0)])
    assert simulation.jobs.all[0].nodes == list(range(36, 52))
    assert nodes_at(simulation, NodeState.SPARE) == list(range(16))
    assert nodes_at(simulation, NodeState.MATE) == MATES


def test_a_node_that_fails_the_check_before_the_job_takes_its_rack_along() -> None:
    """Node 2 of a spare rack is slow when the job asks for the rack: node 3 is of no use, and the job has the next."""
    slow = {"use": "component", "name": "slow", **ALWAYS, "effect": {"use": "slow", "factor": 0.5}}
    one = racks(3, 2, 2, failures=[slow, NODE], health={"preflight": {"time": "0 s"}}, spares={"hot": 4}, repair=DAY)
    simulation = ended(one, [(50.0, 0, 2), (90.0, 1, 0)])
    assert simulation.jobs.all[0].nodes == [4, 5]
    assert nodes_at(simulation, NodeState.STRANDED) == [1, 3]


def test_a_mate_that_drains_its_rack_does_not_stop_the_job() -> None:
    """17 is in repair from 300 to 500 s: the rack is of use to nobody else, but the job goes on and keeps it."""
    one = domains(drains=True)
    result = play(one, [(300.0, 0, 17)])
    assert result.jobs[0].interruptions == {}
    assert result.cluster[Bucket.STRANDED] == pytest.approx(200)
    assert result.whole_unit_seconds == pytest.approx(3 * 1000 - 200)
    simulation = ended(one, [(300.0, 0, 17)])
    assert simulation.jobs.all[0].nodes == list(range(16))
    assert nodes_at(simulation, NodeState.MATE) == MATES


@cases("failure", [{"use": "job", "name": "bug", "rate": "1 per 1000 job-d"}, RACK])
def test_a_draining_rack_is_left_at_the_next_failure(failure: dict[str, Any]) -> None:
    """A mate of the first rack is in repair from 300 s; at 400 s anything stops the job, and it takes another rack.

    Two of five racks of three nodes are the job's; a failure of its second rack costs it both.
    """
    jobs = [{"name": "job", "gpus": 4}]
    one = racks(5, 3, 2, drains=True, jobs=jobs, failures=[NODE, failure], repair={"time": "400 s"})
    slot = 1 if failure is RACK else 0
    rows = [(300.0, 0, 2), (400.0, 1, slot)]
    simulation = ended(one, rows)
    assert simulation.jobs.all[0].nodes == ([6, 7, 9, 10] if failure is RACK else [6, 7, 3, 4])
    assert play(one, rows).cluster[Bucket.STRANDED] == pytest.approx(2 * 300)


def test_a_mate_ages_when_it_is_in_use() -> None:
    """Busy lives of 250 s: node 1 fails at 250 s, and 2, which sat at the place of 0 from 100 s on, at 350 s.

    By then 0 is back, and its own life of 250 s has 150 s to go.
    """
    aging = {"use": "component", "name": "aging", "part": "node", "clock": "busy", "repair": "50 s"}
    causes = [{**aging, "law": {"use": "fixed", "value": "250 s"}}, NODE]
    one = racks(2, 3, 2, failures=causes, repair={"time": "50 s"}, recovery={"use": "hot-spare", "initialize": "0 s"})
    simulation = _Watched(one, 0, sim.trace(one, 0))
    simulation.kernel.at(100.0, EventPriority.FAILURE, simulation.failures.renewals.end_life, 1, 0, 0, math.nan, 100.0)
    found: list[tuple[float, list[int]]] = []
    while simulation.is_open:
        simulation.kernel.step()
        nodes = list(simulation.jobs.all[0].nodes)
        if not found or nodes != found[-1][1]:
            found.append((simulation.kernel.now, nodes))
    assert found[:4] == [(0.0, [0, 1]), (100.0, [2, 1]), (250.0, [2, 0]), (350.0, [1, 0])]


def test_a_rack_in_any_order_is_picked_whole() -> None:
    """Job a starts again at 110 s on the rack that was idle longest; b, at 605 s, takes the other and one of a's."""
    jobs = [{"name": "a", "gpus": 4}, {"name": "b", "gpus": 4, "arrival": "605 s"}]
    one = racks(
        3,
        3,
        2,
        jobs=jobs,
        failures=[NODE, {"use": "job", "name": "bug", "rate": "1 per 1000 job-d"}],
        recovery={"use": "full-restart", "delay": "10 s", "initialize": "10 s"},
        repair={"time": "50 s"},
        scheduler={"use": "fifo", "pick": "longest-idle"},
    )
    rows = [(100.0, 0, 4), (200.0, 0, 3), (300.0, 0, 5)]
    assert ended(one, rows).jobs.all[0].nodes == [0, 1, 6, 7]
    simulation = ended(one, [*rows, (600.0, 1, 0)])
    assert set(simulation.jobs.all[1].nodes) == {0, 1, 3, 4}


def test_a_job_that_gives_up_leaves_its_broken_rack_stranded() -> None:
    """It loses its second rack at 300 s, a mate of the first fails at 350 s, and its patience ends at 400 s."""
    recovery = {"use": "hot-spare", "initialize": "30 s", "patience": "100 s"}
    one = racks(2, 3, 2, drains=True, jobs=[{"name": "job", "gpus": 4}], recovery=recovery, repair=DAY)
    result = play(one, [(300.0, 0, 3), (350.0, 0, 2)])
    assert result.cluster[Bucket.STRANDED] == pytest.approx(2 * 700 + 2 * 600)
    assert result.cluster[Bucket.UNALLOCATED] == 0


def test_a_spare_rack_repairs_itself() -> None:
    """Node 36 of the spare fails at 290 s, and 52 takes its place: the job that loses its rack gets a whole one."""
    simulation = ended(domains(), [(290.0, 0, 36), (300.0, 1, 0)])
    assert simulation.jobs.all[0].nodes == list(range(37, 53))
    assert "starved" not in seconds(simulation._result())


def test_a_loss_while_the_job_queues() -> None:
    """Back in the queue from 300 to 400 s, the job gets its rack again, in which 17 steps in for 1 at 350 s."""
    recovery = {"use": "full-restart", "delay": "100 s", "initialize": "10 s"}
    one = domains(recovery=recovery)
    simulation = ended(one, [(300.0, 0, 0), (350.0, 0, 1)])
    assert simulation.jobs.all[0].nodes == list(range(2, 18))
    assert simulation.jobs.all[0].interruptions == {1: 1}
    assert simulation.counts.outside == 1
    # One more and it has no rack: it starts on the other one, and 15 nodes wait for the first repair at 500 s.
    rows = [(300.0, 0, 0), (350.0, 0, 1), (360.0, 0, 2)]
    simulation = ended(one, rows)
    assert simulation.jobs.all[0].nodes == list(range(18, 34))
    assert nodes_at(simulation, NodeState.IDLE) == [0, *range(3, 18)]
    assert play(one, rows).cluster[Bucket.STRANDED] == pytest.approx(15 * 140)


def test_a_replica_with_a_mate_has_lost_its_state() -> None:
    """Node 2 sits at the place of node 0 at 300 s; the replica initializes and takes the state until 365 s."""
    one = racks(4, 3, 2, jobs=[{"name": "job", **PAIRS}], recovery=ELASTIC)
    found = seconds(play(one, [(300.0, 0, 0)]))
    assert found["initialize"] == pytest.approx(60 + 60 / 2)
    assert found["restore"] == pytest.approx(5 / 2)
    assert found["reschedule"] == pytest.approx(10 / 2)
    assert "starved" not in found
    assert ended(one, [(300.0, 0, 0)]).jobs.all[0].nodes == [2, 1, 3, 4]
    # Node 1 fails on the way, and no mate is left: the replica begins again at 340 s, on another rack.
    rows = [(300.0, 0, 0), (340.0, 0, 1)]
    result = play(one, rows)
    assert seconds(result)["initialize"] == pytest.approx(60 + (40 + 60) / 2)
    assert result.cluster[Bucket.STRANDED] == pytest.approx(160)
    assert sorted(ended(one, rows).jobs.all[0].nodes) == [3, 4, 6, 7]


class _Recorded:
    """A recovery strategy that keeps what it was told."""

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy
        self.told: list[tuple[int, int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.strategy, name)

    def plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Answer as the strategy does."""
        self.told.append((failure.nodes_lost, failure.replicas_lost, job.nodes_missing))
        plan: tuple[Plan, Memory] = self.strategy.plan(failure, job, cluster, memory)
        return plan


@cases("recovery", [ELASTIC, {"use": "hot-spare", "initialize": "30 s"}], ids=["elastic", "rigid"])
def test_the_strategy_sees_the_loss(recovery: dict[str, Any]) -> None:
    """Nodes and replicas are lost although nothing is missing, at each failure again; a rigid job is one replica."""
    one = racks(4, 3, 2, jobs=[{"name": "job", **PAIRS}], recovery=recovery, detection={"time": "5 s"})
    recorded = _Recorded(one.recovery)
    play(one, [(300.0, 0, 0), (700.0, 0, 1), (701.0, 0, 3)], recovery=recorded)
    assert recorded.told == [(1, 1, 0), (2, 2 if recovery is ELASTIC else 1, 0)]


CARE = {
    "use": "maintenance",
    "name": "care",
    "part": "node",
    "windows": [{"first": 0, "units": 1, "start": "300 s", "duration": "400 s"}],
}


@cases("rows", [[], [(300.0, 0, 0)], [(300.0, 0, 1), (305.0, 0, 2), (330.0, 0, 3)]], ids=len)
@cases("source", [NODE, CARE], ids=["failure", "maintenance"])
@cases(
    "recovery",
    [
        ELASTIC,
        {**ELASTIC, "min_replicas": 2},
        {"use": "hot-spare", "initialize": "30 s", "reschedule": "7 s"},
        {"use": "standby", "recovery": "20 s", "selection": "50 s"},
        {"use": "full-restart", "initialize": "30 s", "delay": "9 s"},
    ],
    ids=["elastic", "all replicas", "hot-spare", "standby", "full-restart"],
)
def test_mates_are_like_spares_that_are_at_hand(
    recovery: dict[str, Any], source: dict[str, Any], rows: list[tuple[float, ...]]
) -> None:
    """A job of two replicas whose racks have two mates each fares as on a plain cluster with enough spares.

    The nodes that fail are those at positions 0 to 3: in racks of four that is 0, 1, 4 and 5.
    """
    changes: dict[str, Any] = {
        "jobs": [{"name": "job", "step_time": "1 s", **PAIRS}],
        "recovery": recovery,
        "detection": {"time": "4 s"},
        "failures": [NODE, source] if source is CARE else [NODE],
    }
    mates = racks(4, 4, 2, **changes)
    plain = replace(racks(4, 4, 2, spares={"hot": 8}, **changes), units=None)
    moved = [(time, 0, (0, 1, 4, 5)[int(slot)]) for time, _, slot in rows]
    if source is CARE:
        planned = [(300.0, 1, 0, 700.0)]
        ours, theirs = play(mates, moved + planned), play(plain, rows + planned)
    else:
        ours, theirs = play(mates, moved), play(plain, rows)
    assert ours.jobs[0].interruptions == theirs.jobs[0].interruptions
    assert seconds(ours) == pytest.approx(seconds(theirs))


@pytest.mark.parametrize(("needed", "drains"), one_in(2, [(6, False), (4, False), (4, True), (1, False)]))
def test_availability_of_a_unit(needed: int, drains: bool) -> None:
    """A unit of six nodes is of use while 6 - needed or fewer are down, none if it drains: a binomial probability.

    One rack is that of a job, which makes no difference: failures are known at once, and strike it in every phase.
    """
    cause = {"use": "component", "name": "node", "part": "node", "law": {"use": "exponential", "mean": "20 h"}}
    law = {"use": "exponential", "mean": "4 h"}
    one = racks(
        30,
        6,
        needed,
        drains=drains,
        failures=[{**cause, "renews": "at_return"}],
        repair={"time": law},
        initial="stationary",
        horizon="100 h",
        jobs=[{"name": "job", "gpus": needed}],
        seed=SEED,
    )
    down = missing_nodes_pmf(6, steady_unavailability(20, 4))
    expected = float(down[0] if drains else down[: 6 - needed + 1].sum())
    assert sim.availability(one) == exactly(node_availability=5 / 6, domain_availability=expected)
    replications = 30
    shares, found = [], 0
    for number in range(replications):
        simulation = Simulation(one, number, sim.trace(one, number))
        result = simulation.run()
        shares.append(result.whole_unit_seconds / result.unit_seconds)
        found += simulation.cluster.units_whole.count
    assert close(np.array(shares), expected)
    snapshots = 30 * replications
    assert abs(found / snapshots - expected) < Z * (expected * (1 - expected) / snapshots) ** 0.5


def test_the_closed_form_says_how_often_too_few_racks_have_enough_nodes() -> None:
    """Ten of twelve racks are needed, each with four of six nodes: starved while more than two have fewer than four.

    Counting nodes, 32 of 72 could fail: with 12 of them down on average a job would hardly ever wait.
    """
    cause = {"use": "component", "name": "node", "part": "node", "law": {"use": "exponential", "mean": "20 h"}}
    one = racks(
        12,
        6,
        4,
        failures=[{**cause, "renews": "at_return"}],
        repair={"time": {"use": "exponential", "mean": "4 h"}},
        initial="stationary",
        horizon="200 h",
        jobs=[{"name": "job", "gpus": 40}],
        spares={"hot": 8},
        recovery={"use": "hot-spare", "initialize": "1 s"},
        seed=SEED,
    )
    down = float(missing_nodes_pmf(6, steady_unavailability(20, 4))[3:].sum())
    share = float(missing_nodes_pmf(12, down)[3:].sum())
    (reason,) = sim.closed_form(one).reasons
    start = "a job needs 10 of 12 units of 6 nodes, and more than the other 2 have fewer than 4 in working order "
    assert reason.startswith(f"{start}{100 * share:.3g} % of the time")
    starved = [seconds(result)["starved"] / (200 * 3600) for result in results_of(one, 30)]
    assert close(np.array(starved), share)


def test_availability_of_domains_whose_switch_trays_take_them_whole() -> None:
    """Of NVL72 racks of 18 nodes and 9 trays two nodes may be down and no tray: a binomial probability times that."""
    one = sim.prepare(sim.load("llama3-405b-gb200", ["initial=stationary", "horizon=200 d"]))
    found = sim.availability(one)
    assert found["domain_availability"] > found["node_availability"]
    results = list(results_of(one, 12))
    assert close(
        np.array([1 - one.down_node_seconds / one.node_seconds for one in results]), found["node_availability"]
    )
    assert close(np.array([one.whole_unit_seconds / one.unit_seconds for one in results]), found["domain_availability"])


def test_the_closed_form_of_racks_that_are_drained_is_about_racks() -> None:
    """Of 128 racks 120 are needed and two are spares: six are idle. In nodes 19 racks would be, more than there are."""
    (reason,) = sim.closed_form(
        sim.prepare(sim.load("llama3-405b-gb200", ["cluster.scale_up.drain_unit=rack"]))
    ).reasons
    assert "6 of the 8 units of 18 nodes that the job does not use are idle" in reason

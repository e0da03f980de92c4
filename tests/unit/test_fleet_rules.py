"""The rules of the queue that the page of semantics states, one by one: who has which nodes from when until when."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from ettrick import sim
from ettrick.sim.policies.scheduler.preemption import PreemptionRules
from ettrick.sim.scenario.streams import Chain
from tests.cases import cases
from tests.unit.test_fleet import INF, arrival, charged, play

if TYPE_CHECKING:
    from collections.abc import Mapping


def runs(result: sim.Result) -> list[tuple[int, float, float, str]]:
    """Return job, start, end and state of the attempts, in this order."""
    return sorted((one.job, one.start, one.end, one.state) for one in result.attempts)


def nodes(result: sim.Result) -> list[tuple[int, tuple[tuple[int, ...], ...]]]:
    """Return job and nodes of the attempts, by their start."""
    attempts = sorted(result.attempts, key=lambda one: (one.start, one.job))
    return [(one.job, one.nodes) for one in attempts]


FIFO: dict[str, Any] = {"use": "fifo"}

NEVER: dict[str, Any] = {"use": "fifo", "replacement": "never"}


def test_a_stated_limit_ends_a_run_be_it_the_run_time_itself() -> None:
    """The failure at 700 s undoes 410 s of work: replaced at once, it would need until 1,200 s; it has until 790."""
    result = play([arrival(0, 290, 1, 500, 500)], [(700, 0, 0, 760)], nodes=2, horizon="2000 s")
    assert runs(result) == [(0, 290, 790, "timeout")]


@cases(
    ("notice", "save", "failures", "partitions", "end"),
    [
        pytest.param(20.0, 5.0, [], [], 85.0, id="it leaves when the save that its notice begins is over"),
        pytest.param(3.0, 5.0, [], [], 100.0, id="a notice that is too short for a save"),
        pytest.param(20.0, 5.0, [(50, 0, 0, 900)], [], 100.0, id="a failure that nobody knows of"),
        pytest.param(20.0, 5.0, [], [{"name": "p", "limit": "60 s"}], 45.0, id="the limit of the partition is shorter"),
    ],
)
def test_the_end_of_a_run_of_a_chain(
    notice: float, save: float, failures: list[Any], partitions: list[Any], end: float
) -> None:
    """A limit of 100 s; the limit of the job itself, 10 s, does not count."""
    of_stream = {"chain": Chain(limit="100 s", notice=f"{notice} s"), "save": save}
    changes: dict[str, Any] = {"partitions": partitions} if partitions else {}
    rows = [arrival(0, 0, 1, 300, 10)]
    result = play(rows, failures, nodes=1, of_stream=of_stream, detection={"time": "500 s"}, **changes)
    assert runs(result)[0] == (0, 0, end, "timeout")


def test_a_pass_comes_when_an_idle_node_fails() -> None:
    """The first in the queue needs three nodes and is planned for 3,000 s; when it cannot be, the next may start."""
    rows = [arrival(0, 0, 1, 500, 3000), arrival(1, 10, 3, 100, 100), arrival(2, 20, 1, 100, 5000)]
    result = play(rows, [(200, 0, 2, 900)], nodes=3, scheduler={"use": "easy"})
    assert runs(result) == [(0, 0, 500, "completed"), (1, 900, 1000, "running"), (2, 200, 300, "completed")]


def test_a_cycle_looks_again_after_each_end() -> None:
    """The first job ends at its limit, at 840 s, between two passes; the second has its nodes at the next, at 900 s."""
    rows = [arrival(0, 290, 4, 540, 540), arrival(1, 450, 3, 100, 300)]
    result = play(rows, nodes=6, scheduler={"use": "conservative", "cycle": "100 s"}, horizon="2000 s")
    assert runs(result) == [(0, 300, 840, "completed"), (1, 900, 1000, "completed")]


AB = [{"name": "a", "nodes": "0"}, {"name": "b", "nodes": "1"}]


def test_nobody_runs_on_the_node_of_another_partition() -> None:
    """At 300 s as many nodes are idle as at 0 s, but it is the node of b; that of a is out until 900 s."""
    rows = [arrival(0, 10, 1, 100, 1000, partition=1), arrival(1, 350, 1, 50, 1000, partition=0)]
    result = play(rows, [(20, 0, 1, 300), (100, 0, 0, 900)], nodes=2, partitions=AB, scheduler=NEVER)
    assert runs(result) == [(0, 10, 20, "node_fail"), (0, 300, 400, "completed"), (1, 900, 950, "completed")]


def test_a_replacement_is_a_node_of_the_partition() -> None:
    """The node of a stays idle when that of b fails: the job of b waits for its own."""
    result = play([arrival(0, 10, 1, 300, 5000, partition=1)], [(200, 0, 1, 500)], nodes=2, partitions=AB)
    assert runs(result) == [(0, 10, 200, "node_fail"), (0, 500, 800, "completed")]


def test_a_required_domain_is_one_domain() -> None:
    """Nodes 0 and 2 are idle at first; from 300 s on all but node 1: two nodes of one rack are 2 and 3, not 0 and 2."""
    scheduler = {"use": "fifo", "pack": "rack", "need": "required", "replacement": "never"}
    cluster = {"nodes": 4, "gpus_per_node": 1, "fabric": {"rails": 1}, "rack": {"nodes": 2}}
    rows = [arrival(0, 10, 1, 50, 5000), arrival(1, 320, 2, 100, 5000)]
    result = play(rows, [(5, 0, 2, 300), (200, 0, 1, 900)], cluster=cluster, scheduler=scheduler)
    assert nodes(result)[-1] == (1, ((2, 3),))


def test_nodes_are_held_for_one_delay() -> None:
    """Known at 110 s, held until 160 s; the other node is back at 200 s, and the job starts then."""
    scheduler = {"use": "fifo", "requeue": {"delay": "50 s", "holds_nodes": True}}
    rows = [arrival(0, 0, 2, 300, 5000)]
    result = play(rows, [(100, 0, 1, 200)], nodes=2, scheduler=scheduler, detection={"time": "10 s"})
    assert runs(result) == [(0, 0, 160, "node_fail"), (0, 200, 500, "completed")]
    assert nodes(result) == [(0, ((0, 1), (0,))), (0, ((0, 1),))]


@cases(
    ("arrives", "start", "end"),
    [
        pytest.param(200.0, 200.0, 300.0, id="after the outage: it runs on when the other one notices"),
        pytest.param(105.0, 105.0, 700.0, id="in the outage: it stands still with the other one"),
    ],
)
def test_a_job_that_comes_to_a_shared_node(arrives: float, start: float, end: float) -> None:
    """The node is out from 100 to 110 s, and known to have been at 600 s."""
    rows = [arrival(0, 0, 2, 300, 9000), arrival(1, arrives, 4, 100, 9000)]
    result = play(rows, [(100, 0, 0, 110)], nodes=1, gpus=8, detection={"time": "500 s"})
    assert runs(result) == [(0, 0, 900, "completed"), (1, start, end, "completed")]


def test_a_job_below_a_node_is_never_replaced() -> None:
    """A node is idle, and the job queues again; it starts on that node at once, as a new attempt."""
    result = play([arrival(0, 0, 1, 300, 9000)], [(100, 0, 0, 900)], nodes=2, gpus=8)
    assert runs(result) == [(0, 0, 100, "node_fail"), (0, 100, 400, "completed")]


@cases(("use", "count"), [("full-restart", 1), ("hot-spare", 1)])
def test_the_key_of_the_scheduler_decides_about_replacements(use: str, count: int) -> None:
    """Whatever the recovery, a lost node of a job of a stream is replaced in place; the attempt names both nodes."""
    recovery = {"use": use, "initialize": "0 s"}
    result = play([arrival(0, 0, 1, 300, 9000)], [(100, 0, 0, 900)], nodes=2, recovery=recovery)
    assert len(result.attempts) == count
    assert nodes(result) == [(0, ((0,), (1,)))]


def test_nodes_of_the_fewest_partitions_are_taken_first() -> None:
    """Nodes 0 and 1 are of both partitions: a job of the first takes nodes 2 and 3, then node 0."""
    partitions = [{"name": "a", "nodes": "0-3"}, {"name": "b", "nodes": "0-1"}]
    result = play([arrival(0, 0, 3, 100, 100)], nodes=4, partitions=partitions)
    assert nodes(result) == [(0, ((0, 2, 3),))]
    assert nodes(play([arrival(0, 0, 1, 100, 100)], nodes=4, partitions=partitions)) == [(0, ((2,),))]


@cases(("known", "start"), [pytest.param("500 s", 600.0, id="undetected"), pytest.param("0 s", 300.0, id="in repair")])
def test_a_reservation_counts_on_no_node_in_repair(known: str, start: float) -> None:
    """The head needs both nodes: while nobody knows that one is lost it is planned for 600 s, and nobody outlasts that.

    Once that is known there is no plan for it, and the last job takes the node that is left.
    """
    scheduler = {"use": "easy", "replacement": "never", "requeue": {"delay": "5000 s"}}
    rows = [arrival(0, 0, 1, 400, 600), arrival(1, 10, 2, 50, 50), arrival(2, 300, 1, 100, 900)]
    result = play(rows, [(100, 0, 0, 9000)], nodes=2, scheduler=scheduler, detection={"time": known}, horizon="3000 s")
    assert [one.start for one in result.attempts if one.job == 2] == [start]


TENANTS = [{"name": "x", "nodes": 1}, {"name": "y", "nodes": 1}]


def test_a_job_beyond_its_quota_blocks_its_tenant_alone() -> None:
    """The second job of x may borrow nothing: it and the third wait, that of y does not."""
    tenants = [{"name": "x", "nodes": 1, "borrow": 0}, {"name": "y", "nodes": 1}]
    rows = [arrival(number, number, 1, 100, tenant=int(number == 3)) for number in range(4)]
    result = play(rows, nodes=2, tenants=tenants, horizon="150 s")
    assert {one.job: one.start for one in result.attempts} == {0: 0, 1: 100, 3: 3}


@cases(
    ("preempt", "priority", "start", "root"),
    [
        pytest.param({}, 1, 10.0, "demand", id="a higher class, of another tenant"),
        pytest.param({}, 0, 100.0, "", id="the same class"),
        pytest.param({"within": "tenant"}, 1, 100.0, "", id="within the tenant"),
        pytest.param({"within": "tenant", "reclaim": "any"}, 0, 10.0, "reclaim", id="its quota"),
        pytest.param({"reclaim": "lower"}, 0, 100.0, "", id="its quota, but no higher priority"),
        pytest.param({"reclaim": "any", "exempt": "40 s", "who": "none"}, 0, 40.0, "reclaim", id="when they are ripe"),
    ],
)
def test_who_stops_a_job_of_another_tenant(preempt: Mapping[str, Any], priority: int, start: float, root: str) -> None:
    """Job 0 of x has both nodes, one of them borrowed; that of y needs one. The root says which rule stopped job 0."""
    scheduler = {"use": "fifo", "preempt": {"mode": "requeue", **preempt}}
    rows = [arrival(0, 0, 2, 100), arrival(1, 10, 1, 50, tenant=1, priority=priority)]
    result = play(rows, nodes=2, tenants=TENANTS, scheduler=scheduler)
    assert [one.start for one in result.attempts if one.job == 1] == [start]
    stopped = [one for one in result.attempts if one.state == "preempted"]
    causes = ["no_failure", "first", "second", *sim.ROOTS]
    assert [causes[one.cause] for one in stopped] == [root] * bool(root)


def test_nobody_stops_a_job_that_may_reclaim_its_nodes() -> None:
    """The borrower has the higher priority; without the rule the two would stop each other at 20 s without end.

    A save takes no time: of 100 s of work 80 are left.
    """
    tenants = [{"name": "x", "nodes": 2}, {"name": "y", "nodes": 0}]
    scheduler = {"use": "fifo", "preempt": {"mode": "requeue", "reclaim": "any"}}
    rows = [arrival(0, 0, 2, 100, tenant=1, priority=5), arrival(1, 20, 2, 50)]
    result = play(rows, nodes=2, tenants=tenants, scheduler=scheduler)
    assert runs(result) == [(0, 0, 20, "preempted"), (0, 70, 150, "completed"), (1, 20, 70, "completed")]


def reclaimed(**more: Any) -> sim.Result:
    """Return a run in which a job that lost a node takes those of a borrower that is ahead of it in the queue."""
    tenants = [{"name": "a", "nodes": 3}, {"name": "c", "nodes": 0}]
    scheduler = {"use": "fifo", "replacement": "never", "preempt": {"mode": "requeue", "reclaim": "any", "who": "none"}}
    rows = [arrival(0, 0, 2, 200), arrival(1, 10, 1, 300, tenant=1, priority=1)]
    return play(rows, [(100, 0, 1, 9000)], nodes=3, tenants=tenants, scheduler=scheduler, **more)


def test_who_is_reclaimed_does_not_take_its_nodes_again() -> None:
    """Job 0 needs both nodes that are left: it has them at once, and the borrower, which has saved, waits for it."""
    assert runs(reclaimed()) == [
        (0, 0, 100, "node_fail"),
        (0, 100, 300, "completed"),
        (1, 10, 100, "preempted"),
        (1, 300, 510, "completed"),
    ]


def test_jobs_that_stop_each_other_at_one_instant_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner that lets everybody ahead take what is claimed would never end: the error names the jobs."""
    monkeypatch.setattr(PreemptionRules, "_may_stop", lambda *_: False)
    with pytest.raises(sim.WorkError, match=r"at 100 s job 1 of stream is preempted for job 0 of stream, twice"):
        reclaimed()


def test_a_failure_in_the_grace_is_the_loss_of_the_failure() -> None:
    """Signalled at 50 s, it would save at 110 s; the node fails at 70 s, and 70 s of work are lost to that."""
    scheduler = {"use": "fifo", "replacement": "never", "preempt": {"mode": "requeue", "grace": "60 s"}}
    rows = [arrival(0, 0, 1, 500, INF), arrival(1, 50, 1, 100, INF, priority=1)]
    result = play(rows, [(70, 0, 0, 75)], nodes=1, scheduler=scheduler, detection={"time": "30 s"})
    assert runs(result)[0] == (0, 0, 70, "preempted")
    assert charged(result)["lost_work", 1, 0] == math.fsum([70.0])
    assert ("lost_work", 4, 1) not in charged(result)


def test_who_is_leaving_for_one_job_leaves_once() -> None:
    """Stopped for job 1 at 100 s, the named job saves until 150 s; job 1 finds another node at 130 s, and job 2 waits.

    Nothing is lost: the save is not cut off at 140 s, when job 2 comes.
    """
    tiers = [{"interval": "1000 s", "mode": "blocking", "write": "50 s", "restore": "20 s"}]
    scheduler = {"use": "fifo", "preempt": {"mode": "requeue", "grace": "60 s"}}
    rows = [
        arrival(number, start, 1, 130 + number, priority=1 + (not number)) for number, start in enumerate((0, 100, 140))
    ]
    named = [{"name": "named", "gpus": 1}]
    result = play(rows, nodes=2, jobs=named, checkpoint={"tiers": tiers}, scheduler=scheduler, horizon="200 s")
    assert [start for _, start, _, _ in runs(result)] == [0, 130, 150]
    assert result.jobs[0].buckets[sim.Bucket.LOST_WORK] == 0
    assert sum(float(rows[:, 0].sum()) for rows in result.fleet.stops.values()) == 1


def test_a_job_behind_a_reservation_preempts_where_that_delays_none() -> None:
    """The head needs all three nodes, and stops nobody; job 3 takes a node of job 1 until 200 s, and delays nobody."""
    scheduler = {"use": "easy", "preempt": {"mode": "cancel"}}
    rows = [
        arrival(0, 0, 1, 400, 400, priority=9),
        arrival(1, 0, 2, 900, 900),
        arrival(2, 10, 3, 50, 50, priority=5),
        arrival(3, 100, 1, 100, 100, priority=5),
    ]
    result = play(rows, nodes=3, scheduler=scheduler)
    # Job 2 itself stops nobody: job 0 is above it. It is planned for 900 s, the limit of job 1.
    assert runs(result) == [
        (0, 0, 400, "completed"),
        (1, 0, 100, "preempted"),
        (2, 400, 450, "completed"),
        (3, 100, 200, "completed"),
    ]


def test_words_of_other_schedulers_lead_to_tenants() -> None:
    """Who looks for quotas finds tenants."""
    for word in ("quotas", "QOS", "account"):
        with pytest.raises(sim.ScenarioError, match="did you mean 'tenants'"):
            sim.parse({"name": "x", word: []})

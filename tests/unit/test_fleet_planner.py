"""The planner by hand: backfill, lost nodes, maintenance, preemption, claims, quotas, topology, shared nodes, order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from ettrick.sim.policies.scheduler import Scheduler
from ettrick.sim.policies.scheduler.nodes import PlannerJob, PlannerPool
from ettrick.sim.policies.scheduler.planner import Planner
from ettrick.sim.policies.scheduler.queue import Quota
from tests.cases import cases
from tests.planning import Replay, Work

if TYPE_CHECKING:
    from collections.abc import Callable

EASY = {"use": "easy"}

DEEP = {"use": "easy", "depth": 2}

INF = math.inf


def planner(keys: dict[str, Any], *pools: PlannerPool, **more: Any) -> Planner:
    """Return a planner of nodes of one GPU, or `gpus`."""
    return Planner(Scheduler.model_validate(keys), pools, **more)


# ----------------------------------------
# Backfill.

EXTRA = [Work(0, 0, 10, 6), Work(1, 0, 100, 8), Work(2, 0, 100, 2), Work(3, 0, 5, 1), Work(4, 0, 100, 1)]


@cases(
    ("keys", "starts"),
    [
        (EASY, {0: 0, 1: 10, 2: 0, 3: 0, 4: 100}),
        ({"use": "easy", "extra": False}, {0: 0, 1: 10, 2: 10, 3: 0, 4: 110}),
        ({"use": "conservative"}, {0: 0, 1: 10, 2: 0, 3: 0, 4: 100}),
        ({"head": "passes"}, {0: 0, 1: 100, 2: 0, 3: 0, 4: 0}),
        ({}, {0: 0, 1: 10, 2: 10, 3: 110, 4: 110}),
        ({"use": "easy", "tested": 2}, {0: 0, 1: 10, 2: 10, 3: 110, 4: 110}),
        ({"use": "easy", "window": "9 s"}, {0: 0, 1: 100, 2: 0, 3: 0, 4: 0}),
        ({"use": "easy", "window": "10 s"}, {0: 0, 1: 10, 2: 0, 3: 0, 4: 100}),
    ],
)
def test_who_passes_the_head(keys: dict[str, Any], starts: dict[int, float]) -> None:
    """Ten nodes; 1 needs 8 when 0 ends at 10 s: 2 fits beside it, 3 ends before, 4 would delay it by one node."""
    assert Replay(keys, EXTRA, 10).first == starts


@cases("pools", [[PlannerPool(3)], [PlannerPool(1), PlannerPool(2)]])
def test_who_may_not_use_extra_nodes_may_not_join_others_there(pools: list[PlannerPool]) -> None:
    """The head needs 2 of 3 nodes at 10 s: 2 and 4 outlast that, on a free node as beside 3, which ends before.

    Beside 3 they would start when 4 arrives, though nothing has ended since 2 was refused a node.
    """
    work = [Work(0, 0, 10, 2), Work(1, 0, 9, 2), Work(2, 0, 20, 0, 1), Work(3, 0, 5, 0, 1), Work(4, 1, 20, 0, 1)]
    replay = Replay({"use": "easy", "extra": False}, work, pools, gpus=4)
    assert replay.first == {0: 0, 1: 10, 2: 10, 3: 0, 4: 10}


def test_all_jobs_that_end_at_the_shadow_count() -> None:
    """Two jobs end at 10 s: the head needs the nodes of both and one more, so that one is spare."""
    work = [Work(0, 0, 10, 3), Work(1, 0, 10, 4), Work(2, 0, 9, 8), Work(3, 0, 99, 2), Work(4, 0, 99, 1)]
    assert Replay(EASY, work, 10).first == {0: 0, 1: 0, 2: 10, 3: 0, 4: 19}


def test_a_node_that_fails_moves_the_reservation() -> None:
    """The head needs all ten nodes at 10 s; one that is lost at 5 s moves it to its return; who passed it runs on."""
    work = [Work(0, 0, 10, 9), Work(1, 0, 10, 10), Work(2, 0, 10, 1)]
    actions = [(5.0, lambda replay: (replay.stop(2), replay.planner.capacity(-1, 5.0))), (42.0, one_returns)]
    late = [*work, Work(3, 11, 31, 5)]
    replay = Replay(EASY, late, 10, actions=actions)
    assert replay.first == {0: 0, 2: 0, 3: 11, 1: 42}


def one_returns(replay: Replay) -> None:
    """Give the planner a node."""
    replay.planner.capacity(1, replay.now)


@cases("keys", [EASY, DEEP])
def test_no_reservation_counts_on_a_node_that_a_job_has_lost(keys: dict[str, Any]) -> None:
    """One of the six nodes of job 0 has failed: the head, which needs 7 of 10, waits for job 1 too, and 3 can pass."""
    work = [Work(0, 0, 10, 6), Work(1, 0, 50, 3), Work(2, 1, 10, 7), Work(3, 2, 60, 1)]
    assert Replay(keys, work, 10).first == {0: 0, 1: 0, 2: 10, 3: 20}
    lost = Replay(keys, work, 10, actions=[(1.0, lambda replay: replay.planner.seated(replay.running[0], ((0, 5),)))])
    assert lost.first == {0: 0, 1: 0, 3: 2, 2: 50}
    assert lost.planner.free == [9]


@cases("keys", [{}, EASY, DEEP, {"use": "conservative"}, {"head": "passes"}])
def test_nobody_starts_into_a_maintenance_window(keys: dict[str, Any]) -> None:
    """Two of four nodes are serviced from 100 to 150 s: who ends before takes them, who does not takes others."""
    pools = [PlannerPool(2), PlannerPool(2, windows=((100.0, 150.0),))]
    work = [Work(0, 0, 100, 2), Work(1, 0, 101, 2), Work(2, 1, 101, 2), Work(3, 160, 5, 4)]
    replay = Replay(keys, work, pools)
    assert replay.first == {0: 0, 1: 0, 2: 101, 3: 202}
    alone = Replay(keys, [Work(0, 0, 200, 4)], pools)
    assert alone.first == {0: 150}


@cases("use", ["fifo", "easy"])
def test_a_pass_is_only_made_at_multiples_of_the_cycle(use: str) -> None:
    """With a cycle of 60 s jobs start at multiples of it, also one that arrives at such an instant."""
    work = [Work(0, 1, 30, 4), Work(1, 2, 30, 4), Work(2, 240, 30, 4)]
    assert Replay({"use": use, "cycle": "60 s"}, work, 4).first == {0: 60, 1: 120, 2: 240}


def test_backfill_has_a_cycle_of_its_own() -> None:
    """Slurm: the head starts at once, on events; who passes it waits for the next multiple of 30 s."""
    work = [Work(0, 1, 100, 3), Work(1, 2, 10, 4), Work(2, 3, 20, 1), Work(3, 200, 1, 4)]
    keys = {"head": "passes", "depth": "all", "backfill_cycle": "30 s"}
    assert Replay(keys, work, 4).first == {0: 1, 1: 101, 2: 30, 3: 200}


# ----------------------------------------
# Preemption.


def classes(**preempt: Any) -> dict[str, Any]:
    """Return keys that let higher priorities stop lower ones."""
    return {"preempt": {"mode": "requeue", **preempt}}


@cases(
    ("preempt", "victims"),
    [
        ({}, [2]),
        ({"victims": "reorder"}, [2]),
        ({"victims": "reorder", "reorder": 0, "order": "smallest"}, [0, 1, 2]),
        ({"victims": "reorder", "order": "smallest"}, [2]),
        ({"order": "oldest"}, [2]),
        ({"order": "smallest"}, [2]),
    ],
)
def test_no_more_jobs_are_stopped_than_needed(preempt: dict[str, Any], victims: list[int]) -> None:
    """Jobs of 2, 4 and 8 nodes run: one of 8 nodes takes the place of the last, unless Slurm may not reorder."""
    work = [Work(0, 0, 100, 2), Work(1, 0, 100, 4), Work(2, 0, 100, 8), Work(9, 5, 10, 8, priority=1)]
    replay = Replay(classes(**preempt), work, 14)
    assert replay.preemptions[0] == (5, 9, victims)
    assert replay.first[9] == 5


def test_the_lowest_class_goes_first() -> None:
    """Of two jobs that would do, that of the lower class is stopped, though the other is younger."""
    work = [Work(0, 0, 99, 4, priority=1), Work(1, 1, 99, 4, priority=2), Work(2, 5, 9, 4, priority=3)]
    assert Replay(classes(), work, 8).preemptions == [(5, 2, [0])]


def test_equals_do_not_preempt() -> None:
    """A class is never preempted by itself, nor by a lower one."""
    work = [Work(0, 0, 99, 4, priority=1), Work(1, 5, 9, 4, priority=1), Work(2, 5, 9, 4)]
    replay = Replay(classes(), work, 4)
    assert replay.preemptions == []
    assert replay.first == {0: 0, 1: 99, 2: 108}


@cases("keys", [{}, EASY, {"head": "passes"}])
def test_a_job_is_safe_for_the_exempt_time(keys: dict[str, Any]) -> None:
    """A job that started at 1 s is stopped at 101 s, when it has run for 100 s, though nothing else happens then."""
    work = [Work(0, 1, 500, 4), Work(1, 5, 9, 4, priority=1)]
    replay = Replay({**keys, **classes(exempt="100 s")}, work, 4)
    assert replay.preemptions == [(101, 1, [0])]
    assert replay.first[1] == 101


def test_a_job_that_was_stopped_often_is_safe() -> None:
    """With at most one preemption a job that was stopped once runs to its end."""
    work = [Work(0, 0, 50, 4), Work(1, 5, 9, 4, priority=1), Work(2, 20, 9, 4, priority=1)]
    assert Replay(classes(most=1), work, 4).first == {0: 0, 1: 5, 2: 64}
    assert Replay(classes(), work, 4).first == {0: 0, 1: 5, 2: 20}


def test_nodes_of_victims_are_claimed() -> None:
    """In a grace of 10 s the job keeps what is free and what comes: others behind it do not get it."""
    keys = {"head": "passes", **classes(grace="10 s", order="oldest")}
    work = [Work(0, 0, 99, 2), Work(1, 0, 12, 1), Work(2, 5, 9, 4, priority=1), Work(3, 6, 5, 1), Work(4, 7, 5, 1)]
    replay = Replay(keys, work, 4)
    assert replay.preemptions == [(5, 2, [0, 1])]
    assert replay.first[2] == 15
    assert replay.first[3] == 24
    reasons: list[dict[str, int]] = []
    Replay(keys, work, 4, until=8.0, watch=lambda replay: reasons.append(replay.planner.reason()))
    assert reasons[-1] == {"claim": 1}


def test_claims_lapse_with_the_job_that_has_them() -> None:
    """A job that leaves the queue while its victims have their grace gives free what it had claimed."""
    keys = {"head": "passes", **classes(grace="10 s")}
    work = [Work(0, 0, 99, 3), Work(2, 5, 9, 4, priority=1), Work(3, 6, 5, 1)]
    held: list[PlannerJob] = []
    actions: list[tuple[float, Callable[[Replay], None]]] = [
        (5.5, lambda replay: held.extend(replay.planner.nodes.claimers)),
        (7.0, lambda replay: replay.planner.withdraw(held[0])),
    ]
    assert Replay(keys, work, 4, actions=actions).first == {0: 0, 3: 7}


def test_a_higher_job_may_use_what_a_lower_one_has_claimed() -> None:
    """Claims are granted in order of the queue: who comes later with more priority is served first."""
    keys = classes(grace="10 s")
    work = [Work(0, 0, 99, 2), Work(2, 5, 50, 4, priority=1), Work(3, 6, 9, 2, priority=2)]
    replay = Replay(keys, work, 4)
    assert replay.first[3] == 6
    assert replay.first[2] == 15


def test_a_victim_that_is_ahead_in_the_queue_does_not_take_its_nodes_again() -> None:
    """The victim is of a higher tier, its preemptor of a higher priority, and priority decides who stops whom."""
    keys = {"head": "passes", **classes(exempt="5 s")}
    pools = [PlannerPool(2, partitions=(1,)), PlannerPool(2, partitions=(0, 1))]
    work = [Work(0, 0, 60, 4, partition=1), Work(1, 1, 9, 2, priority=1)]
    replay = Replay(keys, work, pools, tiers=(1, 2))
    assert replay.preemptions == [(5, 1, [0])]
    assert replay.first[1] == 5
    assert replay.end == {1: 14, 0: 74}


def test_a_claimed_node_that_fails_is_asked_for_again() -> None:
    """A node lost of those that are claimed is made up for by another victim."""
    keys = classes(grace="10 s", order="oldest")
    work = [Work(0, 0, 99, 2), Work(1, 1, 99, 2), Work(2, 5, 9, 4, priority=1)]
    replay = Replay(keys, work, 6, actions=[(7.0, lambda replay: replay.planner.capacity(-1, 7.0))])
    assert replay.preemptions == [(5, 2, [0]), (15, 2, [1])]
    assert replay.first[2] == 25


def test_a_job_below_a_node_takes_the_place_of_one() -> None:
    """Two jobs of 4 GPUs share a node: one of 4 with a higher class stops the younger alone."""
    work = [Work(0, 0, 99, 0, 4), Work(1, 1, 99, 0, 4), Work(2, 5, 9, 0, 4, priority=1)]
    replay = Replay(classes(), work, 1, gpus=8)
    assert replay.preemptions == [(5, 2, [1])]
    assert replay.first[2] == 5
    graceful = Replay(classes(grace="3 s"), [*work, Work(3, 6, 9, 0, 4)], 1, gpus=8)
    assert graceful.first[2] == 8


def test_a_gang_stops_all_jobs_of_a_shared_node() -> None:
    """A whole node is free when all its jobs are gone; a node of which one job is of a higher class is not taken."""
    work = [
        Work(0, 0, 99, 0, 4), Work(1, 1, 99, 0, 4, priority=5), Work(2, 2, 99, 0, 4), Work(3, 3, 99, 0, 4),
        Work(9, 5, 9, 1, priority=1),
    ]  # fmt: skip
    replay = Replay(classes(), work, 2, gpus=8)
    assert [(time, job, sorted(victims)) for time, job, victims in replay.preemptions] == [(5, 9, [2, 3])]


# ----------------------------------------
# Tenants.

HALVES = (Quota(8), Quota(8))


def test_lent_nodes_are_reclaimed_newest_first() -> None:
    """One of two tenants of 8 nodes uses 14: a job of 4 of the other stops the newest that was borrowed, no more."""
    keys = {"preempt": {"mode": "requeue", "who": "none", "reclaim": "any"}}
    work = [Work(at, at, 500, 2) for at in range(7)] + [Work(9, 50, 10, 4, tenant=1)]
    replay = Replay(keys, work, 16, quotas=HALVES)
    assert replay.preemptions == [(50, 9, [6])]
    assert replay.first[9] == 50
    eight = [Work(at, at, 500, 2) for at in range(8)] + [Work(9, 50, 10, 8, tenant=1), Work(10, 51, 10, 2, tenant=1)]
    replay = Replay(keys, eight, 16, quotas=HALVES, until=55.0)
    assert [(at, job, sorted(victims)) for at, job, victims in replay.preemptions] == [(50, 9, [4, 5, 6, 7])]
    assert 10 not in replay.first, "it would be above its own quota"


def test_what_a_job_takes_back_counts_for_the_next_one_of_its_tenant() -> None:
    """Two jobs of 5 nodes come at once, of a tenant that may have 8: only the first one stops others for itself.

    If both did, each would wait for ever for the quota that the claims of the other one hold.
    """
    keys = {"use": "easy", "preempt": {"mode": "requeue", "who": "none", "reclaim": "any", "grace": "6 s"}}
    both = [Work(number, 50, 10, 5, tenant=1) for number in (9, 10)]
    replay = Replay(
        keys, [*(Work(at, at, 500, 2) for at in range(7)), *both], 16, quotas=(Quota(8), Quota(8, borrow=0))
    )
    assert [(at, job) for at, job, _ in replay.preemptions] == [(50, 9)]
    assert (replay.end[9], replay.end[10]) == (66, 76)


@cases(
    ("quotas", "starts"),
    [
        (HALVES, 8),
        ((Quota(8, borrow=2), Quota(8)), 5),
        ((Quota(8, borrow=0), Quota(8)), 4),
        ((Quota(8), Quota(8, lend=4)), 6),
        ((Quota(), Quota()), 8),
    ],
)
def test_what_a_tenant_may_have(quotas: tuple[Quota, ...], starts: int) -> None:
    """Of eight jobs of two nodes on 16 as many start as fit in the quota, what may be borrowed and what is lent."""
    replay = Replay({}, [Work(at, 0, 500, 2) for at in range(8)], 16, quotas=quotas, until=1.0)
    assert len(replay.first) == starts
    assert replay.planner.reason() == ({"quota": 16 - 2 * starts} if starts < 8 else {})


def test_a_tenant_without_quota_left_does_not_block_others() -> None:
    """The first job waits for its tenant's quota; that of another tenant starts though the queue is strict."""
    work = [Work(0, 0, 50, 8), Work(1, 1, 50, 2), Work(2, 2, 50, 2, tenant=1)]
    replay = Replay({}, work, 16, quotas=(Quota(8, borrow=0), Quota(8)))
    assert replay.first == {0: 0, 2: 2, 1: 50}


def test_a_waiting_gang_holds_its_quota() -> None:
    """Node 16 is not there: the gang of tenant 1 waits for nodes, and tenant 0 cannot borrow its quota meanwhile."""
    work = [Work(0, 0, 50, 8), Work(1, 1, 50, 8, tenant=1), Work(2, 2, 10, 2)]
    assert Replay({"use": "easy"}, work, 15, quotas=HALVES, until=49.0).first == {0: 0}
    assert Replay({"head": "passes"}, work, 15, quotas=HALVES, until=49.0).first == {0: 0, 2: 2}


# ----------------------------------------
# Places.

RACKS = tuple(PlannerPool(4, domain=rack) for rack in range(3))


@cases(
    ("need", "place"),
    [({}, ((0, 2), (1, 1))), ({"pack": "rack"}, ((1, 3),)), ({"pack": "rack", "need": "required"}, ((1, 3),))],
)
def test_the_fullest_domain_that_holds_a_gang(need: dict[str, Any], place: tuple[tuple[int, int], ...]) -> None:
    """Racks have 2, 3 and 4 free nodes: a gang of 3 takes the second whole; without topology, the first nodes."""
    plan = planner({"use": "fifo", **need}, *RACKS)
    plan.capacity(-2, 0.0, 0)
    plan.capacity(-1, 0.0, 1)
    job = PlannerJob(1, 3, 3)
    plan.enqueue(job, 0.0)
    assert plan.plan(0.0) == [job]
    assert job.where == place


@cases("keys", [{}, EASY, DEEP])
def test_a_gang_waits_for_its_domain(keys: dict[str, Any]) -> None:
    """Racks have 2 nodes free each until 50 s: a gang of 4 spreads at once, after its wait of 20 s, or never."""
    work = [Work(0, 0, 50, 2), Work(1, 0, 50, 2), Work(2, 0, 50, 2), Work(3, 10, 5, 4)]
    for need, start in ((("preferred", "0 s"), 10), (("preferred", "20 s"), 30), (("required", "0 s"), 50)):
        pack = {"pack": "rack", "need": need[0], "wait": need[1]}
        halves = [(0.0, lambda replay: [replay.planner.capacity(-2, 0.0, rack) for rack in range(3)])]
        back = [(1.0, lambda replay: [replay.planner.capacity(2, 1.0, rack) for rack in range(3)])]
        replay = Replay({**keys, **pack}, work, RACKS, actions=halves + back)
        assert replay.first[3] == start, need


def test_a_gang_that_no_domain_holds_spreads_over_few() -> None:
    """A gang of 6 nodes takes the emptiest racks of four first, and does not wait for one that could hold it."""
    plan = planner({"pack": "rack", "wait": "1 h"}, *RACKS)
    plan.capacity(-3, 0.0, 0)
    job = PlannerJob(1, 6, 6)
    plan.enqueue(job, 0.0)
    assert plan.plan(0.0) == [job]
    assert job.where == ((1, 4), (2, 2))


def test_partitions_do_not_block_each_other() -> None:
    """The head of one partition waits; another partition with nodes of its own goes on; the higher tier is first."""
    pools = [PlannerPool(2, partitions=(0,)), PlannerPool(2, partitions=(1,)), PlannerPool(2, partitions=(0, 1))]
    work = [
        Work(0, 0, 50, 4), Work(1, 1, 50, 4), Work(2, 2, 50, 2, partition=1), Work(3, 3, 5, 4),
        Work(4, 4, 5, 4, partition=1),
    ]  # fmt: skip
    assert Replay({}, work, pools, tiers=(1, 2)).first == {0: 0, 2: 2, 1: 50, 4: 100, 3: 105}


@cases(("share_nodes", "whole"), [("best-fit", 4 - 2), ("spread", 0)])
def test_stranded_nodes(share_nodes: str, whole: int) -> None:
    """Nine jobs of one GPU on four nodes of eight: best fit keeps N - ceil(k/8) nodes whole, spread N - k."""
    replay = Replay({"share_nodes": share_nodes}, [Work(at, 0, 50, 0, 1) for at in range(9)], 4, gpus=8, until=1.0)
    assert replay.planner.free == [whole]
    stranding = Replay(
        {"share_nodes": "spread"}, [*(Work(at, 0, 50, 0, 1) for at in range(4)), Work(9, 1, 5, 1)], 4, gpus=8
    )
    assert stranding.first[9] == 50, "at an occupancy of 1/8"


@cases("keys", [EASY, DEEP])
def test_who_joins_a_shared_node_does_not_delay_the_head(keys: dict[str, Any]) -> None:
    """A node is shared until 20 s, when the head needs it: a job of one GPU joins for 18 s but not for 19 s."""
    work = [Work(0, 0, 20, 0, 4), Work(1, 0, 10, 1), Work(2, 1, 50, 2), Work(3, 2, 19, 0, 1), Work(4, 2, 18, 0, 1)]
    assert Replay(keys, work, 2, gpus=8).first == {0: 0, 1: 0, 4: 2, 2: 20, 3: 70}


# ----------------------------------------
# Order.


@cases(
    ("order", "starts"),
    [
        ({}, [1, 2, 0, 3]),
        ({"priority": 0}, [0, 1, 2, 3]),
        ({"priority": 0, "then": "limit"}, [3, 2, 1, 0]),
        ({"priority": 0, "size": {"weight": 1}}, [2, 0, 1, 3]),
        ({"priority": 0, "size": {"weight": 1, "favours": "small"}}, [3, 1, 0, 2]),
        ({"age": {"weight": 600, "full": "10 min"}}, [0, 1, 2, 3]),
        ({"age": {"weight": 60, "full": "1 min"}}, [1, 2, 0, 3]),
        ({"age": {"weight": 5, "full": "1 s"}}, [1, 2, 0, 3]),
    ],
)
def test_the_order_of_the_queue(order: dict[str, Any], starts: list[int]) -> None:
    """Four jobs wait when nodes are free at 100 s: by priority, size, limit, and age, which grows until it is full."""
    work = [
        Work(9, 0, 100, 4), Work(0, 10, 40, 3, priority=1), Work(1, 20, 30, 2, priority=8),
        Work(2, 30, 20, 4, priority=5), Work(3, 40, 10, 1, priority=0),
    ]  # fmt: skip
    assert [number for _, number in Replay({"order": order}, work, 4).history[1:]] == starts


def test_fair_share_lifts_who_used_less() -> None:
    """Tenant 0 has used the cluster: a job of tenant 1 passes those of 0; past use halves in the half-life."""
    keys = {"order": {"fair_share": {"weight": 10, "half_life": "100 s", "every": "1 s"}}}
    work = [Work(0, 0, 50, 4), Work(1, 1, 50, 4), Work(2, 2, 50, 4, tenant=1)]
    quotas = (Quota(), Quota())
    assert Replay(keys, work, 4, quotas=quotas).first == {0: 0, 2: 50, 1: 100}
    assert Replay({}, work, 4, quotas=quotas).first == {0: 0, 1: 50, 2: 100}
    replay = Replay(keys, work, 4, quotas=quotas, until=50.0)
    replay.planner.queue.decay(50.0)
    past = 4 * 100 / math.log(2) * (1 - 2 ** (-50 / 100))
    assert replay.planner.queue.past == [pytest.approx(past), 0.0]


def test_age_turns_the_order_though_nothing_happens() -> None:
    """The head's age is full at 100 s; job 2, of a higher priority, is beyond it from 110 s, seen every 20 s."""
    keys = {"order": {"age": {"weight": 10, "full": "100 s"}, "fair_share": {"every": "20 s"}}}
    work = [Work(0, 0, 1000, 2), Work(1, 0, 10, 4), Work(2, 60, 10, 2, priority=5)]
    assert Replay(keys, work, 4).first == {0: 0, 1: 1000, 2: 120}
    cycle = Replay({**keys, "cycle": "50 s"}, work, 4)
    assert cycle.first == {0: 0, 1: 1000, 2: 150}


def test_shares_turn_the_order_though_nothing_happens() -> None:
    """From 116.5 s tenant 1, which used the cluster first, has used less than tenant 0; calculated every 10 s."""
    keys = {"order": {"fair_share": {"weight": 10, "half_life": "100 s", "every": "10 s"}}}
    work = [Work(0, 0, 50, 4, tenant=1), Work(1, 0, 1000, 2), Work(2, 1, 10, 4), Work(3, 2, 10, 2, tenant=1)]
    assert Replay(keys, work, 4, quotas=(Quota(), Quota())).first == {0: 0, 1: 50, 3: 120, 2: 1050}


@cases(("tenants", "passes"), [((0, 0), 2), ((0, 1), 11)])
def test_shares_are_calculated_where_tenants_compete(tenants: tuple[int, int], passes: int) -> None:
    """Two jobs wait for 100 s: every 10 s their order may change if they are of two tenants, else it cannot."""
    keys = {"order": {"fair_share": {"weight": 10, "half_life": "100 s", "every": "10 s"}}}
    work = [Work(0, 0, 100, 4), *(Work(1 + at, 0, 10, 4, tenant=tenant) for at, tenant in enumerate(tenants))]
    seen: list[float] = []
    Replay(keys, work, 4, quotas=(Quota(), Quota()), watch=lambda replay: seen.append(replay.now))
    assert len([time for time in seen if time <= 100.0]) == passes


def test_why_nodes_idle() -> None:
    """Nobody in the queue; too few nodes for the head; a reservation; an exempt time."""
    reasons: dict[float, dict[str, int]] = {}
    work = [Work(0, 0, 50, 6), Work(1, 1, 50, 8), Work(2, 2, 90, 4), Work(3, 120, 9, 0, 1)]

    def watch(replay: Replay) -> None:
        reasons[replay.now] = replay.planner.reason()

    Replay(EASY, work, 10, watch=watch)
    assert reasons[0] == {"no_queue": 4}
    assert reasons[1] == {"too_few": 4}
    assert reasons[2] == {"reservation": 4}
    assert reasons[50] == {"too_few": 2}
    # A lower job on three of four nodes is safe for 20 s; then a third job is kept from the node that is left.
    first = [Work(0, 0, 50, 3), Work(1, 1, 50, 4, priority=1), Work(2, 2, 90, 1)]
    keys = {**EASY, "preempt": {"mode": "requeue", "exempt": "20 s"}}
    Replay(keys, first, 4, watch=watch)
    assert (reasons[1], reasons[2], reasons[20]) == ({"exempt": 1}, {"reservation": 1}, {})
    # The lower job alone would not do: one of the same class has another of five nodes.
    Replay(keys, [first[0], Work(1, 1, 50, 5, priority=1), Work(3, 0, 50, 1, priority=1)], 5, watch=watch)
    assert reasons[1] == {"too_few": 1}


# ----------------------------------------
# Keys that do not go together.


@cases(
    ("keys", "rule"),
    [
        ({"use": "fifo", "depth": 1}, "depth: reservations are for jobs that others pass: needs head: passes"),
        ({"use": "conservative", "extra": False}, "extra: is for a single reservation: needs depth: 1"),
        ({"use": "easy", "tested": 0}, "tested: must be at least 1, or all"),
        ({"use": "easy", "depth": 9, "tested": 5}, "depth: reserves for 9 jobs and a pass looks at 5 (tested)"),
        ({"use": "slurm", "cycle": "60 s"}, "cycle: set a cycle for the whole pass, or only for backfill, not both"),
        ({"use": "fifo", "backfill_cycle": "30 s"}, "backfill_cycle: the first job blocks all others"),
        ({"use": "easy", "window": "0 s"}, "window: no reservation would be made; say depth: 0, or all"),
        ({"use": "fifo", "need": "required"}, "need: needs the domain: pack"),
        ({"pack": "rack", "need": "required", "wait": "1 s"}, "wait: a job waits for a required domain without end"),
        (
            {"preempt": {"reclaim": "any"}},
            "preempt.reclaim: needs to know what happens to them: mode: requeue or cancel",
        ),
    ],
)
def test_keys_that_contradict_each_other(keys: dict[str, Any], rule: str) -> None:
    """A contradiction is named at the key that has to change."""
    with pytest.raises(ValueError, match="validation error") as refused:
        Scheduler.model_validate(keys)
    (error,) = refused.value.errors()  # type: ignore[attr-defined]
    raised = error["ctx"]["error"]
    assert f"{'.'.join(map(str, raised.at))}: {raised.rule}".startswith(rule)


def test_what_a_preset_says_can_be_overridden() -> None:
    """A scenario's own keys win over those of a preset, one by one, in mappings too; what is written is read back."""
    slurm = Scheduler.model_validate({"use": "slurm", "order": {"age": {"full": "1 d"}}, "window": "all"})
    assert slurm.order.age.weight == 1000
    assert slurm.order.age.full == 86400
    assert slurm.window == "all"
    assert slurm.tested == 500
    assert Scheduler.model_validate(slurm.model_dump(mode="json", exclude_none=True)) == slurm

"""Jobs that go on without some replicas: quorums of those that shrink, and those that start again smaller."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sim.policies.contracts import (
    Acquire,
    Background,
    Bucket,
    ClusterView,
    FailureView,
    JobView,
    Requeue,
    Restore,
    Run,
    Stall,
)
from sim.policies.recovery import RestartSmaller, ShrinkRejoin
from sim.policies.recovery.base import Absence
from sim.policies.recovery.restart_smaller import Restarts
from tests.cases import cases
from tests.harness import check_recovery, losses, play, prepared, seconds
from tests.recovery_checks import mean_times

EXACT = 1e-9
SHRINK: dict[str, Any] = {"use": "shrink-rejoin", "reconfigure": "10 s", "initialize": "60 s"}
SMALLER: dict[str, Any] = {"use": "restart-smaller", "stop": "5 s", "launch": "25 s"}
PER_GPU = [{"name": "collectives", "time": "64 s", "at": 64, "exponent": 1}]
"""One second a GPU: a plan shows for how many GPUs its times are."""


def shrinks(**keys: Any) -> ShrinkRejoin:
    """Return a strategy that shrinks, as a file would give it."""
    return ShrinkRejoin.model_validate(SHRINK | keys)


def restarts(**keys: Any) -> RestartSmaller:
    """Return a strategy that restarts smaller, as a file would give it."""
    return RestartSmaller.model_validate(SMALLER | keys)


def views(**changes: Any) -> tuple[FailureView, JobView, ClusterView]:
    """Return views of a job of four replicas of two nodes, 64 GPUs in all, of which one lost a node."""
    failure = FailureView("cause", False, 1, 1, lambda purpose: 0.5, "host")
    job = JobView("job", 0.0, 8, 1, 4, 4, live=True, attempt=1, mark=lambda purpose: 0.5, gpus=64)
    failure = failure._replace(**{key: value for key, value in changes.items() if key in FailureView._fields})
    return failure, job._replace(**{key: changes[key] for key in changes if key in JobView._fields}), ClusterView(1, 1)


PROCESS = {"nodes_lost": 0, "nodes_missing": 0, "replicas_lost": 0, "fault": "process"}

# ------------------------------------------------------------------------------------------------ shrink, rejoin


@cases(("running", "goes_on"), [(4, True), (3, False), (2, False)])
def test_a_minority_never_forms_a_quorum(running: int, goes_on: bool) -> None:
    """Of four replicas three are more than half; two are not, and all wait, end, and restart with three."""
    plan, _ = shrinks(majority=True, quorum_timeout="60 s").plan(*views(replicas_running=running), None)
    assert isinstance(plan[0], Background)
    if goes_on:
        assert plan[1:] == (Stall(Bucket.RESCHEDULE, 10.0), Restore("live"), Run())
    else:
        wait, restart = Stall(Bucket.RESCHEDULE, 60.0), Stall(Bucket.INITIALIZE, 60.0)
        assert plan[1:] == (wait, Acquire(3, "replica"), restart, Restore(), Run())
    assert (shrinks().plan(*views(replicas_running=running), None)[0][1:] != plan[1:]) != goes_on


def test_a_majority_is_of_all_replicas_and_no_less_than_the_minimum() -> None:
    """Of five replicas three are needed, of two both; a larger minimum still holds."""
    fewest = [shrinks(majority=True).absence_for(64, 8, replicas) for replicas in (2, 3, 4, 5)]
    assert [absence.fewest for absence in fewest if absence is not None] == [2, 2, 3, 3]
    more = shrinks(majority=True, min_replicas=4).absence_for(64, 8, 5)
    assert more is not None
    assert more.fewest == 4


def test_a_replica_launches_as_a_replica_and_the_others_as_a_job() -> None:
    """What a replica does alone takes as long as its size says, what all do together as theirs does."""
    recovery = shrinks(reconfigure=PER_GPU, initialize=PER_GPU, catch_up=PER_GPU, rejoin=PER_GPU)
    (away, reconfigure, *_), _ = recovery.plan(*views(), None)
    assert away.steps[1:] == (Stall(Bucket.INITIALIZE, 16.0), Stall(Bucket.RESTORE, 16.0))
    assert away.then[0] == Stall(Bucket.INITIALIZE, 64.0)
    assert reconfigure == Stall(Bucket.RESCHEDULE, 64.0)
    assert recovery.start(views()[1])[0] == Stall(Bucket.INITIALIZE, 64.0)
    assert recovery.plan(*views(**PROCESS), None)[0][0] == Stall(Bucket.INITIALIZE, 64.0)
    assert recovery.absence_for(64, 8, 4) == Absence(64.0, 64.0, 32.0, 32.0, 64.0, 1, is_fixed=True)


def stall_of_slowest(count: int) -> Stall:
    """Return the stall of the slowest of so many nodes that take up to 8 s, at the median."""
    seconds, usual = 8 * 0.5 ** (1 / count), 8 * count / (count + 1)
    return Stall(Bucket.INITIALIZE, pytest.approx(seconds), excess=pytest.approx(seconds - usual, rel=1e-5))


def test_those_who_join_are_those_of_the_replica() -> None:
    """Of three nodes missing in two replicas the one that lost most gets two; a start is all nodes joining."""
    law = {"law": "uniform", "low": "0 s", "high": "8 s"}
    image = [{"name": "image", "time": law, "each": "node", "joiners": True}]
    recovery = shrinks(initialize=image)
    (away, *_), _ = recovery.plan(*views(nodes_missing=3, replicas_lost=2), None)
    assert away.steps[1] == stall_of_slowest(2)
    assert recovery.start(views()[1])[0] == stall_of_slowest(8)
    absence = recovery.absence_for(64, 8, 4)
    assert absence is not None
    assert absence.away - absence.in_place == pytest.approx(4.0)


def test_what_the_formula_of_absences_is_told() -> None:
    """Means of all times, scaled; whether they are random; and nothing where the fault decides."""
    law = {"law": "uniform", "low": "0 s", "high": "8 s"}
    absence = shrinks(catch_up=law, rejoin="3 s", scale=2.0).absence_for(64, 8, 4)
    assert absence == Absence(20.0, 6.0, 128.0, 128.0, 120.0, 1, is_fixed=False)
    recovery = shrinks(catch_up=[{"name": "a", "time": "1 s", "faults": ["gpu"]}])
    assert recovery.absence_for(64, 8, 4) is None
    assert recovery.no_formula == "some phases depend on the fault"
    assert not shrinks().no_formula


def test_phases_that_failures_cannot_hit_are_told() -> None:
    """In each of the four lists, for the clocks of failures."""
    hidden = [{"name": "a", "time": "1 s", "exposed": False}]
    assert not shrinks().has_unexposed_phases
    for key in ("reconfigure", "initialize", "catch_up", "rejoin"):
        assert shrinks(**{key: hidden}).has_unexposed_phases
    assert not restarts().has_unexposed_phases
    for key in ("stop", "launch", "rejoin", "start_up"):
        assert restarts(**{key: hidden}).has_unexposed_phases


# ------------------------------------------------------------------------------------------------ restart smaller


def test_all_start_again_without_the_victims() -> None:
    """The survivors stop, launch and restore from the newest copy; so do all when the replica has its nodes again."""
    plan, memory = restarts().plan(*views(), None)
    again = (Stall(Bucket.RESCHEDULE, 5.0), Stall(Bucket.INITIALIZE, 25.0), Restore("hosts"), Run())
    assert plan == (Background((Acquire(),), again), *again)
    assert memory == Restarts(0), "a change of membership is free"
    plan, _ = restarts(rejoin="7 s", rejoin_keeps="live", pools=["spare"]).plan(*views(), None)
    grow = (Stall(Bucket.INITIALIZE, 7.0), Restore("live"), Run())
    assert plan[0] == Background((Acquire(pools=("spare",)),), grow)


def test_times_are_those_of_who_is_there() -> None:
    """Three of four replicas launch as 48 GPUs, all four as 64; and as many as are waited for when too few are left."""
    recovery = restarts(launch=PER_GPU, stop=PER_GPU, min_replicas=2)
    plan, _ = recovery.plan(*views(), None)
    assert plan[1:3] == (Stall(Bucket.RESCHEDULE, 48.0), Stall(Bucket.INITIALIZE, 48.0))
    assert plan[0].then[:2] == (Stall(Bucket.RESCHEDULE, 64.0), Stall(Bucket.INITIALIZE, 64.0))
    plan, _ = recovery.plan(*views(replicas_running=1), None)
    assert plan[1:4] == (
        Stall(Bucket.RESCHEDULE, 32.0),
        Acquire(2, "replica"),
        Stall(Bucket.INITIALIZE, 32.0),
    )


def test_too_few_wait_and_then_give_up() -> None:
    """With fewer replicas than the minimum the others wait for nodes, and after their patience for the queue."""
    recovery = restarts(min_replicas=4, patience="10 min", requeue="121 s")
    plan, _ = recovery.plan(*views(), None)
    assert plan[2] == Acquire(4, "replica", 600.0, (Requeue(121.0),))
    plan, _ = recovery.plan(*views(replicas_running=3, **PROCESS), None)
    assert plan[1] == Acquire(4, "replica", 600.0, (Requeue(121.0),)), "also if nobody left just now"


def test_processes_are_started_again_within_a_budget() -> None:
    """Two failures without a lost node are outlived, changes of membership between them are free; then the queue."""
    recovery = restarts(max_restarts=2, requeue="121 s")
    memory: Any = None
    ends = []
    for changes in (PROCESS, {}, PROCESS, {}, PROCESS, PROCESS):
        plan, memory = recovery.plan(*views(**changes), memory)
        ends.append((len(plan), plan[-1], memory))
    run, queue = Run(), Requeue(121.0)
    assert ends == [
        (4, run, Restarts(1)),
        (5, run, Restarts(1)),
        (4, run, Restarts(2)),
        (5, run, Restarts(2)),
        (2, queue, Restarts(0)),
        (4, run, Restarts(1)),
    ]
    assert isinstance(restarts(max_restarts=0).plan(*views(**PROCESS), None)[0][-1], Requeue)
    assert isinstance(restarts().plan(*views(**PROCESS), Restarts(10**6))[0][-1], Run), "without a budget for ever"


def test_the_first_node_keeps_the_store() -> None:
    """Where rank 0 keeps the store that all meet at, the loss of its node ends the job."""
    lost = {"first_lost": True}
    plan, memory = restarts(except_first=True, requeue="121 s").plan(*views(**lost), Restarts(1))
    assert plan == (Stall(Bucket.RESCHEDULE, 5.0), Requeue(121.0))
    assert memory == Restarts(0)
    assert isinstance(restarts().plan(*views(**lost), None)[0][-1], Run)
    assert isinstance(restarts(except_first=True).plan(*views(), None)[0][-1], Run)


def test_a_start_from_the_queue_may_take_longer() -> None:
    """Unless it is stated the first start is a launch."""
    assert restarts().start(views()[1]) == (Stall(Bucket.INITIALIZE, 25.0), Restore("stores"), Run())
    assert restarts(start_up="9 min").start(views()[1])[0] == Stall(Bucket.INITIALIZE, 540.0)


def test_no_formula_describes_it() -> None:
    """Neither that of a restart nor that of replicas that come and go at the cost of a stall."""
    assert mean_times(restarts(), 64, 8) is None
    assert restarts().absence_for(64, 8, 4) is None
    assert restarts().no_formula


def test_options_that_make_no_sense() -> None:
    """At least one replica steps, budgets are not negative, and a list of pools is not empty."""
    for keys in ({"min_replicas": 0}, {"max_restarts": -1}, {"pools": []}, {"rejoin_keeps": "stores"}):
        with pytest.raises(ValidationError):
            restarts(**keys)


# ------------------------------------------------------------------------------------------------ on a cluster


@pytest.mark.parametrize(
    "parameters",
    [
        SHRINK | {"majority": True, "quorum_timeout": "20 s", "rejoin": "5 s"},
        SMALLER | {"min_replicas": 3, "patience": "100 s", "max_restarts": 1, "requeue": "40 s"},
        SMALLER | {"rejoin": "5 s", "rejoin_keeps": "live"},
        SMALLER | {"except_first": True, "launch": [{"name": "a", "time": "5 s", "each": "node", "exposed": False}]},
    ],
    ids=["majority", "impatient", "live", "first node"],
)
def test_what_every_strategy_owes(parameters: dict[str, Any]) -> None:
    """Strategies that shrink pass the shared check with their options."""
    check_recovery(parameters, replications=6)


def test_restart_smaller_by_hand() -> None:
    """Replica 0 loses a node from 310 to 510 s, replica 1 from 700 to 900 s, and there is no other.

    Running from 25 s; saves to 135 and 245 s; 65 s lost. Half the job stops to 315, launches to 340, restores to 360,
    saves to 470, and loses 20 s when all start again at 510: stopped to 515, launched to 540, restored to 560. Save to
    670 s, 30 s lost at 700; the same again, all there at 950 s.
    """
    jobs = [{"name": "job", "gpus": 4, "parallelism": {"data": 2, "tensor": 2}}]
    case = prepared(jobs=jobs, recovery=SMALLER)
    result = play(case, [(310.0, 0, 0), (700.0, 1, 2)])
    assert seconds(result) == pytest.approx(
        {
            "productive": 200 + 50 + 100 + 50 + 50,
            "checkpoint_stall": 20 + 5 + 10 + 5,
            "lost_work": 65 + 20 + 30 + 20,
            "reschedule": 2.5 + 5 + 2.5 + 5,
            "initialize": 25 + 12.5 + 25 + 12.5 + 25,
            "restore": 10 + 20 + 10 + 20,
            "starved": 100 + 100,
        },
        abs=EXACT,
    )
    loss = losses(case, result)
    assert loss["lost_work", "first"] == pytest.approx(65 + 20, abs=EXACT)
    assert loss["lost_work", "second"] == pytest.approx(30 + 20, abs=EXACT)


def test_growing_at_the_boundary_of_a_step_by_hand() -> None:
    """Who holds the state goes on with it: when the replica is back at 510 s nothing is lost, and 7 s are waited.

    As above to 510 s, then all from 517 s: 483 s hold four saves, of which the first is 60 s of stepping away.
    """
    jobs = [{"name": "job", "gpus": 4, "parallelism": {"data": 2, "tensor": 2}}]
    case = prepared(jobs=jobs, recovery=SMALLER | {"rejoin": "7 s", "rejoin_keeps": "live"})
    result = play(case, [(310.0, 0, 0)])
    assert seconds(result) == pytest.approx(
        {
            "productive": 200 + 50 + 20 + 443,
            "checkpoint_stall": 20 + 5 + 40,
            "lost_work": 65,
            "reschedule": 2.5,
            "initialize": 25 + 12.5 + 7,
            "restore": 10,
            "starved": 100,
        },
        abs=EXACT,
    )

"""The shipped recovery strategies: their plans as data, the shared check, and two failures each by hand."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from ettrick.sim import rng
from ettrick.sim.policies.contracts import (
    FAULTS,
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
from ettrick.sim.policies.recovery import RECOVERIES, HotSpare, Narrow, RestartSmaller, ShrinkRejoin
from ettrick.sim.policies.recovery.base import Absence, ExpectedFailure
from ettrick.sim.policies.recovery.phases import Participants, RecoveryPhase, back_to_queue, longest, mean, steps
from ettrick.sim.policies.recovery.restart_smaller import Restarts
from ettrick.sim.scenario.laws import Empirical, Exponential, Fixed, Lognormal, Uniform, Weibull
from ettrick.sim.steps.plan import communicator_time
from tests.cases import cases
from tests.harness import exactly, losses, play, prepared, seconds
from tests.intervals import Z
from tests.pace import one_in
from tests.recovery_checks import check_recovery, mean_times
from tests.typed import present

EXACT = 1e-9

SHIPPED: dict[str, dict[str, Any]] = {
    "full-restart": {"use": "full-restart", "delay": "40 s", "initialize": "30 s"},
    "hot-spare": {"use": "hot-spare", "reschedule": "15 s", "initialize": "30 s"},
    "ladder": {
        "use": "ladder",
        "rungs": [
            {"name": "in-job", "keeps": "hosts", "stop": "10 s", "launch": "20 s", "budget": 2, "patience": "60 s"},
            {"name": "requeue", "keeps": "nothing", "stop": "5 s", "delay": "40 s", "launch": "30 s"},
        ],
    },
    "narrow": {"use": "narrow", "tensor": 2, "stop": "5 s", "launch": "25 s"},
    "redundant": {
        "use": "redundant",
        "redundancy": "templates",
        "reconfigure": "10 s",
        "initialize": "60 s",
        "catch_up": "15 s",
        "rejoin": "5 s",
    },
    "restart-smaller": {"use": "restart-smaller", "stop": "5 s", "launch": "25 s", "min_replicas": 2},
    "shrink-rejoin": {
        "use": "shrink-rejoin",
        "reconfigure": "10 s",
        "initialize": "60 s",
        "catch_up": "15 s",
        "rejoin": "5 s",
    },
    "standby": {"use": "standby", "recovery": "20 s", "selection": "50 s"},
}


def strategy(name: str, **changes: Any) -> Any:
    """Validate a strategy as a file would be."""
    kind: Any = RECOVERIES[name]
    return kind.model_validate(SHIPPED[name] | changes)


def mark(purpose: str) -> float:
    """Return a mark for every purpose: the median."""
    assert purpose
    return 0.5


def views(**changes: Any) -> tuple[FailureView, JobView, ClusterView]:
    """Return views of a job of four replicas of two nodes that lost a node."""
    failure = FailureView("fault", planned=False, nodes_lost=1, replicas_lost=1, mark=mark)
    job = JobView("job", 100.0, 8, 1, 4, 4, live=True, attempt=1, mark=mark)
    cluster = ClusterView(1, 3)
    update = {key: value for key, value in changes.items() if key in FailureView._fields}
    failure = failure._replace(**update)
    job = job._replace(**{key: value for key, value in changes.items() if key in JobView._fields and key != "mark"})
    return failure, job, cluster


def kinds(plan: tuple[Any, ...]) -> list[str]:
    """Return the names of the steps."""
    return [type(step).__name__ for step in plan]


def test_times_are_drawn_from_the_marks_of_the_failure() -> None:
    """A law is read at the mark of its purpose: one failure, one time, however often it is asked."""
    law = {"use": "uniform", "low": "10 s", "high": "30 s"}
    recovery = strategy("hot-spare", initialize=law, reschedule=law)
    failure, job, cluster = views()
    numbers = {"initialize": 0.25, "reschedule": 0.75}
    plan, _ = recovery.plan(failure._replace(mark=numbers.__getitem__), job, cluster, None)
    stalls = {step.bucket: step.seconds for step in plan if isinstance(step, Stall)}
    assert stalls == {Bucket.INITIALIZE: 15.0, Bucket.RESCHEDULE: 25.0}


@cases(
    ("changes", "expected"),
    [
        ({"nodes_lost": 0, "nodes_missing": 0, "replicas_lost": 0}, ["Stall", "Restore", "Run"]),
        ({"live": False}, ["Background", "Stall", "Restore", "Run"]),
        ({"replicas_running": 2}, ["Background", "Acquire", "Stall", "Restore", "Run"]),
        ({"replicas_lost": 4}, ["Background", "Acquire", "Stall", "Restore", "Run"]),
        ({"replicas_running": 1, "replicas_lost": 0, "nodes_missing": 0}, ["Acquire", "Stall", "Restore", "Run"]),
    ],
    ids=["no node lost", "state lost", "too few", "none left", "too few, none lost"],
)
def test_shrink_rejoin_restarts_when_it_must(changes: dict[str, Any], expected: list[str]) -> None:
    """Without live state or enough replicas the job restores from the store; it waits for the replicas it needs."""
    plan, _ = strategy("shrink-rejoin", min_replicas=2).plan(*views(**changes), None)
    assert kinds(plan) == expected
    assert Restore() in plan
    if "Acquire" in expected:
        assert Acquire(2, "replica") in plan


def test_expected_times_describe_the_plan() -> None:
    """What the closed form is told equals the plan: first the time that failures cannot hit, then the rest."""
    size = (64, 8)
    assert mean_times(strategy("full-restart"), *size) == (40.0, 30.0)
    assert mean_times(strategy("hot-spare"), *size) == (0.0, 45.0)
    assert mean_times(strategy("hot-spare", exposed=False), *size) == (15.0, 30.0)
    assert mean_times(strategy("shrink-rejoin"), *size) is None
    assert mean_times(strategy("standby"), *size) == (0.0, 20.0)
    assert mean_times(strategy("standby", exposed=False), *size) == (20.0, 0.0)
    assert mean_times(strategy("standby", exposed=False, scale=3.0), *size) == (60.0, 0.0)


@cases("name", RECOVERIES)
def test_an_elastic_strategy_goes_on_without_a_replica(name: str) -> None:
    """It sends the replica that lost a node away, and no other strategy does."""
    plan, _ = strategy(name).plan(*views(), None)
    assert strategy(name).elastic == ("Background" in kinds(plan))


@pytest.mark.parametrize("name", sorted(RECOVERIES))
def test_what_every_strategy_owes(name: str) -> None:
    """Each registered strategy passes the shared check."""
    check_recovery(SHIPPED[name])


@pytest.mark.parametrize(
    ("name", "changes"),
    one_in(
        3,
        [
            ("hot-spare", {"exposed": False}),
            ("hot-spare", {"exposed": "nodes"}),
            ("hot-spare", {"patience": "60 s", "requeue_delay": "5 s"}),
            ("hot-spare", {"initialize": {"use": "weibull", "shape": 0.7, "mean": "40 s"}}),
            ("shrink-rejoin", {"min_replicas": 3}),
            ("shrink-rejoin", {"min_replicas": 4, "reconfigure": {"use": "exponential", "mean": "30 s"}}),
            ("full-restart", {"delay": "0 s"}),
            ("redundant", {"redundancy": "pairs", "overhead": "50 %"}),
            ("redundant", {"redundancy": "peers", "most": 2, "rejoin": {"use": "exponential", "mean": "9 s"}}),
            ("standby", {"exposed": False}),
            ("standby", {"exposed": "processes"}),
            ("standby", {"recovery": {"use": "exponential", "mean": "40 s"}, "pools": ["idle"]}),
        ],
    ),
)
def test_with_other_parameters(name: str, changes: dict[str, Any]) -> None:
    """The shared check holds for each option of a strategy."""
    check_recovery(SHIPPED[name] | changes, replications=6)


@pytest.mark.parametrize("name", sorted(RECOVERIES))
def test_two_jobs_share_a_cluster(name: str) -> None:
    """The shared check holds for jobs that compete for nodes, with saves in the background and saves by steps."""
    layout = {"parallelism": {"data": 2, "tensor": 2}, "step_time": "2 s"}
    jobs = [{"name": "a", "gpus": 4, **layout}, {"name": "b", "gpus": 4, "arrival": "500 s", **layout}]
    tier = {"interval": "every 40 steps", "mode": "async", "stall": "1 s", "write": "50 s", "restore": "10 s"}
    check_recovery(SHIPPED[name], replications=6, jobs=jobs, checkpoint={"tiers": [tier]}, windows="700 s")


@cases(("redundancy", "slowdown"), [("pairs", 1), ("next-stage", 1.5), ("peers", 1), ("templates", 1)])
def test_redundancy_is_what_all_losses_say(redundancy: str, slowdown: float) -> None:
    """Of four replicas of three stages, in every set of stages that can be away: who stands, how fast, how likely.

    By the words of each paper: a copy of each stage lives, no neighbours of a ring are lost, the slowest stage counts.
    """
    replicas, stages, absent = 4, 3, 2e-4
    recovery = strategy("redundant", redundancy=redundancy, slowdown=slowdown, overhead=0.5)
    mean, breaches, safe = 0.0, 0.0, 0.0
    for bits in itertools.product((False, True), repeat=replicas * stages):
        grid = np.array(bits).reshape(replicas, stages)
        lost = grid.sum(axis=0)
        holds = {
            "pairs": not (grid[:2] & grid[2:]).any(),
            "next-stage": not (grid & np.roll(grid, 1, axis=1)).any(),
        }.get(redundancy, bool((lost < replicas).all()))
        pace = {"pairs": 1.0, "next-stage": 1 / 1.5 if lost.any() else 1.0, "peers": 1 - lost.max() / replicas}.get(
            redundancy, 1 - lost.sum() / grid.size
        )
        away = tuple(np.flatnonzero(grid).tolist())
        assert recovery.stands(away, replicas, stages) == holds
        if not holds:
            continue
        assert recovery.pace(away, replicas, stages, None) == pytest.approx(pace)
        chance = absent ** len(away) * (1 - absent) ** (grid.size - len(away))
        safe, mean = safe + chance, mean + chance * pace
        if not grid[0, 0]:
            breaches += chance * (not recovery.stands((*away, 0), replicas, stages))
    assert recovery.mean_pace(absent, replicas, stages, None) == pytest.approx(mean / safe, abs=10 * absent**2)
    chance, others = recovery.breach(absent, replicas, stages)
    assert chance == pytest.approx(breaches, rel=20 * absent)
    assert others == (1 if redundancy in ("pairs", "next-stage") else replicas - 1)


def test_next_stages_do_no_more_than_they_can() -> None:
    """Half of all stages away and the rest twice as busy: half of the work at most, whatever a slowdown of 1.5 says."""
    bamboo = strategy("redundant", redundancy="next-stage", slowdown=1.5, overhead=0.14)
    assert bamboo.pace((0,), 2, 4, None) == 1 / 1.5
    assert (1 - 0.14) * bamboo.pace((0, 2, 4, 6), 2, 4, None) == pytest.approx(0.5)


def test_redundancy_bears_so_many() -> None:
    """With `most` stages away at once the next one is too many, wherever it is: the tail of a binomial."""
    recovery = strategy("redundant", most=2)
    assert recovery.stands((0, 4), 4, 3)
    assert not recovery.stands((0, 4, 8), 4, 3)
    chance = sum(math.comb(11, k) * 0.1**k * 0.9 ** (11 - k) for k in range(2, 12))
    assert recovery.breach(0.1, 4, 3) == (pytest.approx(1 - (1 - 0.1**3) * (1 - chance)), 2)


def test_hot_spare_by_hand() -> None:
    """A failure at 300 s takes the spare; one at 360 s, in the restore, takes an idle node.

    Running from 30 s; saves at 140 and 250 s; known at 305 s; swapped to 320, initialized to 350, restoring at 360;
    known at 365 s; swapped to 380, initialized to 410, restored to 430; 570 s hold five saves and 20 s.
    """
    case = prepared(recovery=SHIPPED["hot-spare"], detection={"time": "5 s"}, spares={"hot": 1})
    result = play(case, [(300.0, 0, 0), (360.0, 1, 1)])
    assert seconds(result) == exactly(
        productive=720, checkpoint_stall=70, lost_work=50, detection=10, reschedule=30, initialize=90, restore=30
    )
    assert losses(case, result) == pytest.approx(
        {
            ("checkpoint_stall", "no_failure"): 70,
            ("lost_work", "first"): 50,
            ("detection", "first"): 5,
            ("detection", "second"): 5,
            ("reschedule", "first"): 15,
            ("reschedule", "second"): 15,
            ("initialize", "no_failure"): 30,
            ("initialize", "first"): 30,
            ("initialize", "second"): 30,
            ("restore", "first"): 10,
            ("restore", "second"): 20,
        },
        abs=EXACT,
    )
    assert (result.jobs[0].interruptions, result.jobs[0].disruptions) == ({1: 1, 2: 1}, {1: 1})
    # Spare: node 3 to 305 s, and from 505 s on, when node 0 is back; node 1 is back at 565 s and idle.
    assert result.cluster[Bucket.SPARE_IDLE] == pytest.approx(305 + 495, abs=EXACT)
    assert result.cluster[Bucket.UNALLOCATED] == pytest.approx(365 + 435, abs=EXACT)
    assert result.cluster[Bucket.REPAIR] == pytest.approx(200 + 200, abs=EXACT)


def test_full_restart_by_hand() -> None:
    """Failures at 300 and 500 s; each costs 5 s to know, 40 s of delay, 30 s to initialize and 20 s to restore.

    The second one hits at 105 s of running, in the stall of a save: the save is void and its 100 s are lost.
    """
    case = prepared(recovery=SHIPPED["full-restart"], detection={"time": "5 s"})
    result = play(case, [(300.0, 0, 0), (500.0, 1, 2)])
    assert seconds(result) == exactly(
        productive=575, checkpoint_stall=55, lost_work=150, detection=10, reschedule=80, initialize=90, restore=40
    )
    assert losses(case, result)["lost_work", "first"] == pytest.approx(50, abs=EXACT)
    assert losses(case, result)["lost_work", "second"] == pytest.approx(100, abs=EXACT)
    assert result.jobs[0].disruptions == {1: 1, 2: 1}


def test_shrink_rejoin_by_hand() -> None:
    """Replica 0 leaves at 310 s; replica 1 fails at 350 s, when nobody is left, and is back at 585.

    320 to 350 at half is lost with the 30 s before; replica 0, which initializes since 310 and has nobody to take the
    state from, restarts alone at once (initialize to 410, restore to 430) and steps at half to 585, with a save from
    530 to 540; 5 s for the rejoin; 410 s together with four saves: 200 + 50 + 22.5 + 370 productive.
    """
    jobs = [{"name": "job", "gpus": 4, "parallelism": {"data": 2, "tensor": 2}}]
    cluster = {"nodes": 5, "gpus_per_node": 1, "fabric": {"rails": 1}}
    case = prepared(cluster=cluster, jobs=jobs, recovery=SHIPPED["shrink-rejoin"])
    result = play(case, [(310.0, 0, 0), (350.0, 1, 2)])
    assert seconds(result) == exactly(
        productive=642.5, checkpoint_stall=65, lost_work=45, reschedule=5, initialize=145, restore=17.5, starved=80
    )
    loss = losses(case, result)
    assert loss["lost_work", "second"] == pytest.approx(45, abs=EXACT)
    assert loss["initialize", "no_failure"] == pytest.approx(60, abs=EXACT)
    assert loss["initialize", "first"] == pytest.approx(20, abs=EXACT)
    assert loss["initialize", "second"] == pytest.approx(65, abs=EXACT)
    assert loss["restore", "second"] == pytest.approx(17.5, abs=EXACT)
    assert loss["starved", "second"] == pytest.approx(80, abs=EXACT)
    assert result.jobs[0].disruptions == {1: 1, 2: 1}


def test_a_copy_forgets_what_was_worked_out_from_the_original() -> None:
    """A strategy that is copied with another time plans with that time, and so does a law that is scaled."""
    first = HotSpare.model_validate({"use": "hot-spare", "initialize": "10 s"})
    assert first._fixed is not None
    second = first.model_copy(update={"initialize": Fixed.from_seconds(value=25.0)})
    assert present(second._fixed)[0][0] == Stall(Bucket.INITIALIZE, 25.0)
    law = Lognormal.from_seconds(median=8.0, sigma=1.0)
    assert law.ppf_one(0.5) == pytest.approx(8.0)
    assert law.scaled(2.0).ppf_one(0.5) == pytest.approx(16.0)


# ----------------------------------------
# Jobs that go on without some replicas: quorums of those that shrink, and those that start again smaller.

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


def elastic_views(**changes: Any) -> tuple[FailureView, JobView, ClusterView]:
    """Return views of a job of four replicas of two nodes, 64 GPUs in all, of which one lost a node."""
    failure = FailureView("cause", False, 1, 1, lambda purpose: 0.5, "host")
    job = JobView("job", 0.0, 8, 1, 4, 4, live=True, attempt=1, mark=lambda purpose: 0.5, gpus=64)
    failure = failure._replace(**{key: value for key, value in changes.items() if key in FailureView._fields})
    return failure, job._replace(**{key: changes[key] for key in changes if key in JobView._fields}), ClusterView(1, 1)


PROCESS = {"nodes_lost": 0, "nodes_missing": 0, "replicas_lost": 0, "fault": "process"}


@cases(("running", "goes_on"), [(4, True), (3, False), (2, False)])
def test_a_minority_never_forms_a_quorum(running: int, goes_on: bool) -> None:
    """Of four replicas three are more than half; two are not, wait for a third, end at last, and restart with three."""
    plan, _ = shrinks(majority=True, quorum_timeout="60 s").plan(*elastic_views(replicas_running=running), None)
    assert isinstance(plan[0], Background)
    if goes_on:
        assert plan[1:] == (Stall(Bucket.RESCHEDULE, 10.0), Restore("live"), Run())
    else:
        wait, restart = Acquire(3, "replica"), (Stall(Bucket.INITIALIZE, 60.0), Restore(), Run())
        quorum = wait._replace(timeout=60.0, otherwise=(wait, *restart), exposed="both", bucket=Bucket.RESCHEDULE)
        assert plan[1:] == (quorum, *restart)
    assert (shrinks().plan(*elastic_views(replicas_running=running), None)[0][1:] != plan[1:]) != goes_on


def test_a_replica_launches_as_a_replica_and_the_others_as_a_job() -> None:
    """What a replica does alone takes as long as its size says, what all do together as theirs does."""
    recovery = shrinks(reconfigure=PER_GPU, initialize=PER_GPU, catch_up=PER_GPU, rejoin=PER_GPU)
    (away, reconfigure, *_), _ = recovery.plan(*elastic_views(), None)
    assert away.steps[1:] == (Stall(Bucket.INITIALIZE, 16.0), Stall(Bucket.RESTORE, 16.0))
    assert away.then[0] == Stall(Bucket.INITIALIZE, 64.0)
    assert reconfigure == Stall(Bucket.RESCHEDULE, 64.0)
    assert recovery.start(elastic_views()[1])[0] == Stall(Bucket.INITIALIZE, 64.0)
    assert recovery.plan(*elastic_views(**PROCESS), None)[0][0] == Stall(Bucket.INITIALIZE, 64.0)
    assert recovery.absence_for(64, 8, 4) == Absence(64.0, 64.0, 32.0, 32.0, 64.0, 1, is_fixed=True)


def test_times_are_those_of_who_is_there() -> None:
    """Three of four replicas launch as 48 GPUs, all four as 64; and as many as are waited for when too few are left."""
    recovery = restarts(launch=PER_GPU, stop=PER_GPU, min_replicas=2)
    plan, _ = recovery.plan(*elastic_views(), None)
    assert plan[1:3] == (Stall(Bucket.RESCHEDULE, 48.0), Stall(Bucket.INITIALIZE, 48.0))
    assert plan[0].then[:2] == (Stall(Bucket.RESCHEDULE, 64.0), Stall(Bucket.INITIALIZE, 64.0))
    plan, _ = recovery.plan(*elastic_views(replicas_running=1), None)
    assert plan[1:4] == (Stall(Bucket.RESCHEDULE, 32.0), Acquire(2, "replica"), Stall(Bucket.INITIALIZE, 32.0))


def test_processes_are_started_again_within_a_budget() -> None:
    """Two failures without a lost node are outlived, changes of membership between them are free; then the queue."""
    recovery = restarts(max_restarts=2, requeue="121 s")
    memory: Any = None
    ends = []
    for changes in (PROCESS, {}, PROCESS, {}, PROCESS, PROCESS):
        plan, memory = recovery.plan(*elastic_views(**changes), memory)
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
    assert isinstance(restarts(max_restarts=0).plan(*elastic_views(**PROCESS), None)[0][-1], Requeue)
    assert isinstance(restarts().plan(*elastic_views(**PROCESS), Restarts(10**6))[0][-1], Run), (
        "without a budget for ever"
    )


def test_the_first_node_keeps_the_store() -> None:
    """Where rank 0 keeps the store that all meet at, the loss of its node ends the job."""
    lost = {"first_lost": True}
    plan, memory = restarts(except_first=True, requeue="121 s").plan(*elastic_views(**lost), Restarts(1))
    assert plan == (Stall(Bucket.RESCHEDULE, 5.0), Requeue(121.0))
    assert memory == Restarts(0)
    assert isinstance(restarts().plan(*elastic_views(**lost), None)[0][-1], Run)
    assert isinstance(restarts(except_first=True).plan(*elastic_views(), None)[0][-1], Run)


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
def test_elastic_strategies_pass_the_shared_check(parameters: dict[str, Any]) -> None:
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
    assert seconds(result) == exactly(
        productive=200 + 50 + 100 + 50 + 50,
        checkpoint_stall=20 + 5 + 10 + 5,
        lost_work=65 + 20 + 30 + 20,
        reschedule=2.5 + 5 + 2.5 + 5,
        initialize=25 + 12.5 + 25 + 12.5 + 25,
        restore=10 + 20 + 10 + 20,
        starved=100 + 100,
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
    assert seconds(result) == exactly(
        productive=200 + 50 + 20 + 443,
        checkpoint_stall=20 + 5 + 40,
        lost_work=65,
        reschedule=2.5,
        initialize=25 + 12.5 + 7,
        restore=10,
        starved=100,
    )


# ----------------------------------------
# Narrow domains: how wide, packed how, how fast, and until when.

KEYS: dict[str, Any] = {"use": "narrow", "tensor": 8, "stop": "5 s", "launch": "25 s"}


def narrow(**keys: Any) -> Narrow:
    """Return the strategy as a file would give it."""
    return Narrow.model_validate(KEYS | keys)


def job(*lost: int, **changes: Any) -> JobView:
    """Return a job of four replicas of two domains of eight GPUs, some of which have lost some."""
    narrowed = tuple(enumerate(lost))
    mark = lambda purpose: 0.5  # noqa: E731
    view = JobView("job", 0.0, 8, 0, 4, 4, live=True, attempt=1, mark=mark, gpus=64, narrowed=narrowed)
    return view._replace(**changes)


def slowest_packing(recovery: Narrow, lost: tuple[int, ...], replicas: int, domains: int) -> float:
    """Return the best pace of all ways to seat domains in replicas, by trying every one."""
    widths = range(1, 9) if recovery.allowed is None else (*recovery.allowed, 8)
    best = 0.0
    for order in set(itertools.permutations((*lost, *[0] * (replicas * domains - len(lost))))):
        pace = 0.0
        for replica in range(replicas):
            left = 8 - max(order[replica * domains : (replica + 1) * domains])
            width = max(width for width in widths if width <= left)
            pace += min(1.0, recovery.power_boost * width / 8) / replicas
        best = max(best, pace)
    return best


@cases("lost", [(), (1,), (1, 1), (2, 1, 1), (1, 2, 3), (3, 3, 1, 1), (1, 1, 1, 1, 1)])
@cases("keys", [{}, {"allowed": [4, 6]}, {"power_boost": 1.2}], ids=["any", "some", "boost"])
def test_the_packing_is_the_best_there_is(lost: tuple[int, ...], keys: dict[str, Any]) -> None:
    """The pace equals that of the best of all seatings of the domains of three replicas."""
    recovery = narrow(**keys)
    view = job(*lost, replicas=3, gpus=48)
    assert recovery.fraction(view) == pytest.approx(slowest_packing(recovery, lost, 3, 2))


def test_power_may_make_up_for_width() -> None:
    """At 8/7 times the pace a domain of seven does what eight do; of six, 6/7 of it; beyond what is needed, no more."""
    boosted = narrow(power_boost=8 / 7)
    assert boosted.fraction(job(1)) == pytest.approx(1.0)
    assert boosted.fraction(job(2)) == pytest.approx(1 - (1 / 7) / 4)
    assert narrow(power_boost=1.3).fraction(job(1)) == 1.0


def test_domains_of_thirty_two_as_published() -> None:
    """Of domains of 32 that run at 30 or 28, one lost GPU costs two, three cost four, and five are too many."""
    recovery = narrow(tensor=32, allowed=[30, 28])
    view = job(gpus=64 * 32, nodes=256, replicas=8)
    for lost, width in ((1, 30), (2, 30), (3, 28), (4, 28)):
        assert recovery.fraction(view._replace(narrowed=((0, lost),))) == pytest.approx(1 - (1 - width / 32) / 8)
        assert recovery.keeps(lost, 32)
    assert not recovery.keeps(5, 32)


def test_when_a_domain_is_given_up() -> None:
    """Down to the least width, or to what is stated; without either while a GPU is left."""
    cases: tuple[tuple[dict[str, Any], int], ...] = (
        ({}, 7),
        ({"allowed": [6, 7]}, 2),
        ({"give_up_below": 5}, 3),
        ({"allowed": [4, 6], "give_up_below": 6}, 2),
        ({"give_up_below": 8}, 0),
    )
    for keys, most in cases:
        assert [narrow(**keys).keeps(lost, 8) for lost in range(1, 9)] == [lost <= most for lost in range(1, 9)]


def test_its_restart_has_a_formula_where_domains_are_nodes() -> None:
    """5 s of stop and 25 s of launch, and a lost GPU takes no node; domains of half a node have none."""
    assert mean_times(narrow(), 64, 8) == (0, 30.0)
    assert [narrow().returns(ExpectedFailure(fault, 64, 8, 1))[0].joiners for fault in ("gpu", "host")] == [0, 1]
    assert mean_times(narrow(), 64, 16) is None
    assert narrow().absence_for(64, 8, 4) is None
    assert narrow().no_formula
    hidden = [{"name": "a", "time": "1 s", "exposed": False}]
    assert not narrow().has_unexposed_phases
    assert narrow(stop=hidden).has_unexposed_phases
    assert narrow(launch=hidden).has_unexposed_phases


@pytest.mark.parametrize(
    "keys",
    [{"power_boost": 1.2, "reshard": "1 %"}, {"give_up_below": 2}, {"patience": "30 s", "requeue": "10 s"}],
    ids=["boost", "none is kept", "impatient"],
)
def test_narrow_passes_the_shared_check(keys: dict[str, Any]) -> None:
    """The shared check holds with each option."""
    check_recovery(KEYS | {"tensor": 2} | keys, replications=6)


def test_narrow_by_hand() -> None:
    """A GPU fails at 300 s and is whole again at 500; a node fails at 600 s, and with the restart the GPU is back.

    Running from 25 s; saves to 135 and 245 s; 55 s lost. Restarted to 350 s, at half the pace: the only replica has
    half its width. Saves to 460 and 570 s; 30 s lost. Restarted with an idle node to 650 s, at full pace; three saves.
    """
    cause = {"use": "component", "law": {"use": "exponential", "mean": "1000 d"}, "renews": "never"}
    case = prepared(
        cluster={"nodes": 5, "gpus_per_node": 2, "fabric": {"rails": 1}},
        jobs=[{"name": "job", "gpus": 8, "parallelism": {"data": 1, "tensor": 2, "pipeline": 4}}],
        failures=[{**cause, "name": "first", "part": "gpu"}, {**cause, "name": "second", "part": "node"}],
        recovery=KEYS | {"tensor": 2},
    )
    result = play(case, [(300.0, 0, 0), (600.0, 1, 3)])
    assert seconds(result) == exactly(
        productive=200 + 100 + 320,
        degraded=100,
        checkpoint_stall=20 + 20 + 30,
        lost_work=55 + 30,
        reschedule=5 + 5,
        initialize=25 + 25 + 25,
        restore=20 + 20,
    )


# ----------------------------------------
# Phases of a recovery: the slowest of many nodes, growth with the size, who takes part, and how they are written.

JOB = Participants(64.0, 8, 0)


def phase(**keys: Any) -> RecoveryPhase:
    """Return a phase as a file would give it."""
    return RecoveryPhase.model_validate({"name": "one", "time": "10 s"} | keys)


def number(value: float) -> Any:
    """Return a mark that gives one number for every purpose."""
    return lambda purpose: value


@cases("count", [1, 2, 7, 100, 2048, 100_000])
def test_the_mean_of_the_longest_is_that_of_theory(count: int) -> None:
    """Exponential: the harmonic number; uniform: low + width n/(n+1); Weibull: by inclusion and exclusion; a sample."""
    harmonic = math.fsum(1 / k for k in range(1, count + 1))
    assert longest(Exponential.from_seconds(mean=3.0), count) == pytest.approx(3 * harmonic, rel=1e-6)
    uniform = Uniform.from_seconds(low=1.0, high=4.0)
    assert longest(uniform, count) == pytest.approx(1 + 3 * count / (count + 1), rel=1e-6)
    sample = (1.0, 2.0, 7.0)
    steps_up = sum(x * (((k + 1) / 3) ** count - (k / 3) ** count) for k, x in enumerate(sample))
    assert longest(Empirical.from_seconds(values=sample), count) == pytest.approx(steps_up, rel=1e-6)
    assert longest(Fixed.from_seconds(value=5.0), count) == 5.0
    if count < 10:
        weibull = Weibull.from_seconds(shape=2.0, scale=3.0)
        terms = ((-1) ** (k + 1) * math.comb(count, k) / math.sqrt(k) for k in range(1, count + 1))
        assert longest(weibull, count) == pytest.approx(3 * math.gamma(1.5) * math.fsum(terms), rel=1e-6)


def test_one_number_gives_the_slowest_of_many() -> None:
    """The drawn time has the distribution function F^n: at its quantiles, and in the mean of many draws."""
    law = {"use": "lognormal", "median": "15 s", "sigma": 0.3}
    slowest = phase(time=law, each="node")
    crew = Participants(0.0, 2048, 0)
    for u in (0.01, 0.5, 0.99):
        time = slowest.seconds(crew, number(u), "launch")
        assert Lognormal.from_seconds(median=15.0, sigma=0.3).cdf(np.array([time]))[0] ** 2048 == pytest.approx(u)
    draws = 4000
    numbers = rng.uniform(rng.stream(1, 0, "phases"), range(draws))
    times = np.array([slowest.seconds(crew, number(float(u)), "launch") for u in numbers])
    assert abs(times.mean() - slowest.mean_seconds(crew)) < Z * times.std() / math.sqrt(draws)


def test_collectives_take_as_long_as_published() -> None:
    """17 s at 16,384 GPUs with the exponent 1.36 is the law of collectives: 17, 26, 112 and 200 s at four sizes."""
    collectives = phase(time="17 s", at=16384, exponent=1.36)
    for thousands, length in ((16, 17), (22, 26), (64, 112), (98, 200)):
        time = collectives.seconds(Participants(thousands * 1024.0, 1, 0), number(0.5), "launch")
        assert time == pytest.approx(communicator_time(thousands * 1024.0), rel=1e-12)
        assert time == pytest.approx(length, rel=0.01)


def total(*phases_and_more: Any) -> float:
    """Return how long phases take together [s]."""
    return back_to_queue(*phases_and_more).delay


def test_who_takes_part() -> None:
    """Phases of joiners need joiners, and count only those; phases of some faults need one of these."""
    joiners = phase(time={"use": "uniform", "low": "0 s", "high": "8 s"}, each="node", joiners=True)
    assert total((joiners,), JOB, number(0.25), "launch") == 0.0
    assert total((joiners,), JOB._replace(joiners=2), number(0.25), "launch") == pytest.approx(8 * 0.5)
    assert mean((joiners,), JOB._replace(joiners=3)) == (0.0, pytest.approx(8 * 0.75))
    some = phase(faults=["hang", "slow"])
    assert [fault for fault in FAULTS if total((some,), JOB, number(0.5), "stop", fault)] == ["hang", "slow"]
    assert total((some,), JOB, number(0.5), "launch") == 0.0, "a start has no fault"


def test_steps_of_one_exposure_are_one_step() -> None:
    """Phases that failures can hit, or cannot, are charged together; the mean keeps the two apart."""
    parts = [
        phase(name="a", time="1 s"),
        phase(name="b", time="2 s"),
        phase(name="c", time="4 s", exposed=False),
        phase(name="d", time="8 s"),
        phase(name="e", time="0 s"),
    ]
    assert steps(tuple(parts), Bucket.RESCHEDULE, JOB, number(0.5), "stop") == (
        Stall(Bucket.RESCHEDULE, 3.0),
        Stall(Bucket.RESCHEDULE, 4.0, exposed="none"),
        Stall(Bucket.RESCHEDULE, 8.0),
    )
    assert mean(tuple(parts), JOB) == (4.0, 11.0)
    assert total(tuple(parts), JOB, number(0.5), "stop") == 15.0
    assert steps(Fixed.from_seconds(value=0.0), Bucket.RESCHEDULE, JOB, number(0.5), "stop") == ()


def test_each_phase_has_its_own_number() -> None:
    """A phase asks for the number of its purpose and name; a plain law for that of its purpose alone."""
    asked: list[str] = []

    def mark(purpose: str) -> float:
        asked.append(purpose)
        return 0.5

    law = {"use": "uniform", "low": "0 s", "high": "8 s"}
    phases = (phase(name="a", time=law), phase(name="b", time=law), phase(name="c"))
    total(phases, JOB, mark, "launch")
    total(Uniform.from_seconds(low=0.0, high=8.0), JOB, mark, "launch")
    assert asked == ["launch a", "launch b", "launch"]
    steps(phases, Bucket.INITIALIZE, JOB, mark, "stop")
    steps(Uniform.from_seconds(low=0.0, high=8.0), Bucket.INITIALIZE, JOB, mark, "stop")
    assert asked[3:] == ["stop a", "stop b", "stop"]


@cases(
    "written",
    [
        "30 s",
        {"use": "lognormal", "median": "20 s", "sigma": 0.5},
        [],
        [{"name": "a", "time": "3 s"}],
        [
            {"name": "a", "time": {"use": "exponential", "mean": "3 s"}, "each": "node", "joiners": True},
            {"name": "b", "time": "17 s", "at": 16384, "exponent": 1.36, "faults": ["gpu", "host"], "exposed": False},
        ],
    ],
    ids=["text", "law", "none", "one", "two"],
)
def test_what_is_written_is_read_back(written: Any) -> None:
    """A time, a law and a list of phases survive being written out, and stay what they were."""
    recovery = ShrinkRejoin.model_validate({"use": "shrink-rejoin", "reconfigure": "1 s", "initialize": written})
    data = recovery.model_dump(mode="json")
    assert ShrinkRejoin.model_validate(data) == recovery
    assert isinstance(data["initialize"], list) == isinstance(written, list)


def test_a_spare_that_is_late_waits_less() -> None:
    """What goes before the nodes are taken is not waited for again: patience is counted from the failure."""
    one = HotSpare(initialize="5 min", reschedule="10 min", patience="1 h", requeue_delay="3 h")
    assert one.waits(ExpectedFailure("x", 8, 4, 1)).more == -600.0


@cases(("gpus", "seconds"), [(8, 17.0), (1024, 17.0), (16384, 17.0), (98304, 194.3)])
def test_a_law_of_growth_has_a_floor(gpus: int, seconds: float) -> None:
    """17 s at 16,384 GPUs, and the 1.36th power of the size above; the power law alone would have 0.4 s at 1,024."""
    collectives = phase(time="17 s", at=16384, exponent=1.36, floor="17 s")
    assert collectives.seconds(Participants(gpus, gpus // 8, 0), number(0.5), "launch") == pytest.approx(
        seconds, rel=1e-3
    )
    assert collectives.mean_seconds(Participants(gpus, gpus // 8, 0)) == pytest.approx(seconds, rel=1e-3)


@cases("law", ["20 s", {"use": "lognormal", "median": "20 s", "sigma": 0.5}])
def test_a_floor_is_of_the_mean(law: Any) -> None:
    """A floor of 30 s, above the time that is stated: small jobs take 30 s on the mean, large ones as without it."""
    slow = phase(time=law, at=1024, exponent=1, floor="30 s")
    assert slow.mean_seconds(Participants(64, 8, 0)) == pytest.approx(30)
    assert slow.mean_seconds(Participants(10240, 8, 0)) == pytest.approx(
        10 * phase(time=law).mean_seconds(Participants(8, 1, 0))
    )


def test_a_floor_is_of_a_time_that_grows() -> None:
    """Without a size at which the time is stated there is nothing that could be too short."""
    with pytest.raises(ValidationError, match="needs 'at' and an 'exponent'"):
        phase(time="17 s", floor="20 s")

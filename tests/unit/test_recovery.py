"""The shipped recovery strategies: their plans as data, the shared check, and two failures each by hand."""

from __future__ import annotations

from typing import Any

import pytest

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
from sim.policies.recovery import RECOVERIES, HotSpare
from sim.policies.recovery.base import Hit
from sim.scenario.laws import Fixed, Lognormal
from tests.cases import cases
from tests.harness import check_recovery, losses, play, prepared, seconds
from tests.recovery_checks import mean_times

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


# ---------------------------------------------------------------------------------------------- plans as data


def test_full_restart_gives_its_nodes_back() -> None:
    """Whatever failed, the plan is to enter the queue again after the delay."""
    plan, memory = strategy("full-restart").plan(*views(), None)
    assert plan == (Requeue(40.0),)
    assert memory is None
    start = strategy("full-restart").start(views()[1])
    assert start == (Stall(Bucket.INITIALIZE, 30.0), Restore("stores"), Run())


def test_hot_spare_swaps_only_what_is_missing() -> None:
    """A node is taken when one is missing; a failure that took none restarts in place."""
    restart = (Stall(Bucket.RESCHEDULE, 15.0), Stall(Bucket.INITIALIZE, 30.0), Restore(), Run())
    assert strategy("hot-spare").plan(*views(), None)[0] == (Acquire(), *restart)
    assert strategy("hot-spare").plan(*views(nodes_missing=0, nodes_lost=0), None)[0] == restart


def test_hot_spare_options() -> None:
    """Patience becomes a time-out with a way out; pools and exposure are passed on."""
    plan, _ = strategy("hot-spare", patience="2 min", requeue_delay="9 s", pools=["spare"]).plan(*views(), None)
    assert plan[0] == Acquire(timeout=120.0, otherwise=(Requeue(9.0),), pools=("spare",))
    plan, _ = strategy("hot-spare", exposed=False).plan(*views(), None)
    assert Stall(Bucket.RESCHEDULE, 15.0, exposed="none") in plan
    assert Stall(Bucket.INITIALIZE, 30.0) in plan, "only teardown and swap are out of reach"


def test_times_are_drawn_from_the_marks_of_the_failure() -> None:
    """A law is read at the mark of its purpose: one failure, one time, however often it is asked."""
    law = {"law": "uniform", "low": "10 s", "high": "30 s"}
    recovery = strategy("hot-spare", initialize=law, reschedule=law)
    failure, job, cluster = views()
    numbers = {"initialize": 0.25, "reschedule": 0.75}
    plan, _ = recovery.plan(failure._replace(mark=numbers.__getitem__), job, cluster, None)
    stalls = {step.bucket: step.seconds for step in plan if isinstance(step, Stall)}
    assert stalls == {Bucket.INITIALIZE: 15.0, Bucket.RESCHEDULE: 25.0}


def test_shrink_rejoin_leaves_the_victims_behind() -> None:
    """With live survivors the victims recover alone, and the others lose the reconfiguration and a step."""
    plan, _ = strategy("shrink-rejoin").plan(*views(), None)
    assert plan[1:] == (Stall(Bucket.RESCHEDULE, 10.0), Restore("live"), Run())
    assert plan[0] == Background(
        steps=(Acquire(), Stall(Bucket.INITIALIZE, 60.0), Stall(Bucket.RESTORE, 15.0)),
        then=(Stall(Bucket.INITIALIZE, 5.0), Restore("live"), Run()),
    )


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


def test_standby_asks_the_spares_first() -> None:
    """One try at the hot spares, and if they do not suffice a selection that fills them up; then the checkpoint."""
    end = (Restore(), Run())
    anew = (Acquire(pools=("idle", "warm", "cold", "spare"), fill=True), Stall(Bucket.RESCHEDULE, 50.0), *end)
    swap = Acquire(pools=("spare",), timeout=0.0, otherwise=anew)
    recover = Stall(Bucket.INITIALIZE, 20.0)
    assert strategy("standby").plan(*views(), None)[0] == (recover, swap, *end)
    assert strategy("standby").plan(*views(nodes_missing=0, nodes_lost=0), None)[0] == (recover, *end)
    start = strategy("standby").start(views()[1])
    assert start == (Stall(Bucket.RESCHEDULE, 50.0), Restore("stores"), Run()), "from the queue nothing else is left"


def test_standby_options() -> None:
    """No step is exposed if the strategy is not; times may be random, and a selection may take none."""
    plan, _ = strategy("standby", exposed=False, pools=["cold"]).plan(*views(), None)
    steps = [*plan[:-1], *plan[1].otherwise[:-1]]
    assert len(steps) == 6
    assert {step.exposed for step in steps} == {"none"}
    assert plan[1].otherwise[0].pools == ("cold",)
    law = {"law": "uniform", "low": "10 s", "high": "30 s"}
    failure, job, cluster = views()
    numbers = {"recovery": 0.25, "selection": 0.75}
    plan, _ = strategy("standby", recovery=law, selection=law).plan(
        failure._replace(mark=numbers.__getitem__), job, cluster, None
    )
    assert plan[0] == Stall(Bucket.INITIALIZE, 15.0, excess=-5.0)
    assert plan[1].otherwise[1] == Stall(Bucket.RESCHEDULE, 25.0, excess=5.0)
    quick = strategy("standby", selection="0 s")
    assert kinds(quick.start(job)) == ["Restore", "Run"]
    assert kinds(quick.plan(failure, job, cluster, None)[0][1].otherwise) == ["Acquire", "Restore", "Run"]


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
    assert {name: strategy(name).elastic for name in SHIPPED} == {
        "full-restart": False,
        "hot-spare": False,
        "ladder": False,
        "narrow": False,
        "restart-smaller": True,
        "shrink-rejoin": True,
        "standby": False,
    }


# ------------------------------------------------------------------------------------------------ shared check


@pytest.mark.parametrize("name", sorted(RECOVERIES))
def test_what_every_strategy_owes(name: str) -> None:
    """Each registered strategy passes the shared check."""
    check_recovery(SHIPPED[name])


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("hot-spare", {"exposed": False}),
        ("hot-spare", {"exposed": "nodes"}),
        ("hot-spare", {"patience": "60 s", "requeue_delay": "5 s"}),
        ("hot-spare", {"initialize": {"law": "weibull", "shape": 0.7, "mean": "40 s"}}),
        ("shrink-rejoin", {"min_replicas": 3}),
        ("shrink-rejoin", {"min_replicas": 4, "reconfigure": {"law": "exponential", "mean": "30 s"}}),
        ("full-restart", {"delay": "0 s"}),
        ("standby", {"exposed": False}),
        ("standby", {"exposed": "processes"}),
        ("standby", {"recovery": {"law": "exponential", "mean": "40 s"}, "pools": ["idle"]}),
    ],
    ids=[
        "unexposed",
        "nodes alone",
        "patience",
        "random",
        "three of four",
        "all or nothing",
        "at once",
        "calm",
        "processes alone",
        "random standby",
    ],
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


# --------------------------------------------------------------------------------------------- two failures by hand


def test_hot_spare_by_hand() -> None:
    """A failure at 300 s takes the spare; one at 360 s, in the restore, takes an idle node.

    Running from 30 s; saves at 140 and 250 s; known at 305 s; swapped to 320, initialized to 350, restoring at 360;
    known at 365 s; swapped to 380, initialized to 410, restored to 430; 570 s hold five saves and 20 s.
    """
    case = prepared(recovery=SHIPPED["hot-spare"], detection={"time": "5 s"}, spares={"hot": 1})
    result = play(case, [(300.0, 0, 0), (360.0, 1, 1)])
    assert seconds(result) == pytest.approx(
        {
            "productive": 720,
            "checkpoint_stall": 70,
            "lost_work": 50,
            "detection": 10,
            "reschedule": 30,
            "initialize": 90,
            "restore": 30,
        },
        abs=EXACT,
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
    assert seconds(result) == pytest.approx(
        {
            "productive": 575,
            "checkpoint_stall": 55,
            "lost_work": 150,
            "detection": 10,
            "reschedule": 80,
            "initialize": 90,
            "restore": 40,
        },
        abs=EXACT,
    )
    assert losses(case, result)["lost_work", "first"] == pytest.approx(50, abs=EXACT)
    assert losses(case, result)["lost_work", "second"] == pytest.approx(100, abs=EXACT)
    assert result.jobs[0].disruptions == {1: 1, 2: 1}


def test_shrink_rejoin_by_hand() -> None:
    """Replica 0 leaves at 310 s and is back at 385; replica 1 fails at 350 s, when nobody is left, and is back at 585.

    320 to 350 at half is lost with the 30 s before; replica 0 restarts alone (initialize to 445, restore to 465) and
    steps at half to 585, with a save from 565 to 575; 5 s for the rejoin; 410 s together.
    """
    jobs = [{"name": "job", "gpus": 4, "parallelism": {"data": 2, "tensor": 2}}]
    cluster = {"nodes": 5, "gpus_per_node": 1, "fabric": {"rails": 1}}
    case = prepared(cluster=cluster, jobs=jobs, recovery=SHIPPED["shrink-rejoin"])
    result = play(case, [(310.0, 0, 0), (350.0, 1, 2)])
    assert seconds(result) == pytest.approx(
        {
            "productive": 635,
            "checkpoint_stall": 55,
            "lost_work": 45,
            "reschedule": 5,
            "initialize": 155,
            "restore": 25,
            "starved": 80,
        },
        abs=EXACT,
    )
    loss = losses(case, result)
    assert loss["lost_work", "second"] == pytest.approx(45, abs=EXACT)
    assert loss["initialize", "no_failure"] == pytest.approx(60, abs=EXACT)
    assert loss["initialize", "first"] == pytest.approx(30, abs=EXACT)
    assert loss["initialize", "second"] == pytest.approx(65, abs=EXACT)
    assert loss["restore", "first"] == pytest.approx(7.5, abs=EXACT)
    assert loss["starved", "second"] == pytest.approx(80, abs=EXACT)
    assert result.jobs[0].disruptions == {1: 1, 2: 1}


def test_a_copy_forgets_what_was_worked_out_from_the_original() -> None:
    """A strategy that is copied with another time plans with that time, and so does a law that is scaled."""
    first = HotSpare.model_validate({"use": "hot-spare", "initialize": "10 s"})
    assert first._fixed is not None
    second = first.model_copy(update={"initialize": Fixed.from_seconds(value=25.0)})
    assert second._fixed is not None
    assert second._fixed[0][0] == Stall(Bucket.INITIALIZE, 25.0)
    law = Lognormal.from_seconds(median=8.0, sigma=1.0)
    assert law.ppf_one(0.5) == pytest.approx(8.0)
    assert law.scaled(2.0).ppf_one(0.5) == pytest.approx(16.0)


def test_a_spare_that_is_late_waits_less() -> None:
    """What goes before the nodes are taken is not waited for again: patience is counted from the failure."""
    one = HotSpare(initialize="5 min", reschedule="10 min", patience="1 h", requeue_delay="3 h")
    assert one.waits(Hit("x", 8, 4, 1)).more == -600.0

"""The ladder: which rung is tried when, budgets, restarts in vain, and what happens when nothing is left."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest

from ettrick.sim.policies.contracts import (
    Acquire,
    Bucket,
    ClusterView,
    Evict,
    FailureView,
    JobView,
    Requeue,
    Restore,
    Run,
    Stall,
)
from ettrick.sim.policies.recovery import Ladder
from ettrick.sim.policies.recovery.base import ExpectedFailure
from ettrick.sim.policies.recovery.ladder import Backoff, LadderMemory
from tests.harness import exactly, losses, play, prepared, seconds
from tests.recovery_checks import check_recovery, mean_times
from tests.typed import present

EXACT = 1e-9

IN_PROCESS: dict[str, Any] = {
    "name": "in-process",
    "keeps": "processes",
    "stop": "1 s",
    "launch": "2 s",
    "except_first": True,
    "handles": ["process", "gpu", "host", "hang"],
    "pools": ["spare"],
    "patience": "0 s",
}

IN_JOB: dict[str, Any] = {"name": "in-job", "keeps": "hosts", "stop": "10 s", "launch": "20 s", "budget": 3}

REQUEUE: dict[str, Any] = {
    "name": "requeue",
    "keeps": "nothing",
    "budget": 2,
    "stop": "30 s",
    "delay": [
        {"name": "not eligible", "time": "121 s"},
        {"name": "scheduler", "time": {"use": "uniform", "low": "0 s", "high": "60 s"}},
    ],
    "launch": "100 s",
}

CALM = (Restore("processes"), Run())

END = (Restore("hosts"), Run())


def ladder(*rungs: dict[str, Any], **keys: Any) -> Ladder:
    """Return a ladder as a file would give it."""
    return Ladder.model_validate({"use": "ladder", "rungs": list(rungs or (IN_PROCESS, IN_JOB, REQUEUE))} | keys)


def views(**changes: Any) -> tuple[FailureView, JobView, ClusterView]:
    """Return views of a job of eight nodes of which a process has ended."""
    failure = FailureView("cause", False, 0, 0, lambda purpose: 0.5, "process")
    job = JobView("job", 0.0, 8, 0, 4, 4, live=True, attempt=1, mark=lambda purpose: 0.5, gpus=64)
    failure = failure._replace(**{key: value for key, value in changes.items() if key in FailureView._fields})
    return failure, job._replace(**{key: changes[key] for key in changes if key in JobView._fields}), ClusterView(1, 1)


def climb(strategy: Ladder, *cases: dict[str, Any]) -> list[str]:
    """Return the first bucket and time of the plan of each failure in turn, as a name of the rung that was taken."""
    memory: Any = None
    found = []
    for case in cases:
        plan, memory = strategy.plan(*views(**case), memory)
        first = plan[0]
        names = {1.0: "in-process", 10.0: "in-job", 30.0: "requeue"}
        found.append(names[first.seconds] if isinstance(first, Stall) else "human")
        assert pickle.loads(pickle.dumps(memory)) == memory
    return found


def test_a_rung_that_waits_in_vain_hands_over() -> None:
    """Without a spare at once the job restarts in place; without one in a minute it goes to the queue."""
    plan, memory = ladder(IN_PROCESS, IN_JOB | {"patience": "1 min"}, REQUEUE).plan(*views(nodes_missing=2), None)
    queue = (Stall(Bucket.RESCHEDULE, 30.0), Requeue(151.0))
    led = [LadderMemory((1, 1, 0), 1, 1), LadderMemory((1, 1, 1), 2, 1)]
    in_job = (
        Stall(Bucket.RESCHEDULE, 10.0),
        Acquire(timeout=60.0, otherwise=queue, memory=led[1]),
        Stall(Bucket.INITIALIZE, 20.0),
        *END,
    )
    assert plan == (
        Stall(Bucket.RESCHEDULE, 1.0),
        Acquire(timeout=0.0, otherwise=in_job, pools=("spare",), memory=led[0]),
        Stall(Bucket.INITIALIZE, 2.0),
        *CALM,
    )
    assert memory.tries == (1, 0, 0), "a rung that patience may lead to is counted when it is reached"
    again, _ = ladder(IN_PROCESS, IN_JOB, REQUEUE).plan(*views(attempt=2), led[0])
    assert again[0] == Stall(Bucket.RESCHEDULE, 10.0), "a failure during the recovery stays where patience has led"


def test_over_eviction() -> None:
    """After a hang a block of nodes leaves with whoever hangs, and as many are taken; after other faults nobody."""
    evicting = ladder(IN_JOB, evict={"faults": ["hang"], "nodes": 4, "test": "15 min"})
    plan, _ = evicting.plan(*views(fault="hang"), None)
    assert plan[:3] == (Evict(4, 900.0), Stall(Bucket.RESCHEDULE, 10.0), Acquire())
    assert not any(isinstance(step, Evict) for step in evicting.plan(*views(fault="gpu", nodes_missing=1), None)[0])
    more = ladder(IN_JOB, evict={"faults": ["hang"], "nodes": 40, "test": "15 min"})
    assert Evict(8, 900.0) in more.plan(*views(fault="hang"), None)[0], "no more than there are"
    image = [
        {"name": "image", "time": {"use": "uniform", "low": "0 s", "high": "8 s"}, "each": "node", "joiners": True}
    ]
    plan, _ = ladder(IN_JOB | {"launch": image}, evict={"faults": ["hang"], "nodes": 4, "test": "0 s"}).plan(
        *views(fault="hang"), None
    )
    above = pytest.approx(8 * (0.5**0.25 - 4 / 5), rel=1e-5)
    stall = Stall(Bucket.INITIALIZE, pytest.approx(8 * 0.5**0.25), excess=above)
    assert plan[3] == stall, "the four that join pull the image"
    queue, _ = ladder(REQUEUE, evict={"faults": ["hang"], "nodes": 2, "test": "0 s"}).plan(*views(fault="hang"), None)
    assert (queue[0], queue[-1]) == (Evict(2, 0.0), Requeue(151.0)), "the queue does not give them back at once"


def test_each_fault_finds_its_rung() -> None:
    """A rung that does not handle a class, or cannot bear the loss of the first node, is passed over."""
    assert climb(ladder(), {}) == ["in-process"]
    assert climb(ladder(), {"fault": "switch"}) == ["in-job"]
    assert climb(ladder(), {"fault": "host", "nodes_missing": 1, "first_lost": True}) == ["in-job"]
    strict = ladder(IN_PROCESS, IN_JOB | {"except_first": True}, REQUEUE)
    assert climb(strict, {"first_lost": True, "nodes_missing": 1}) == ["requeue"]
    assert climb(ladder(IN_PROCESS), {"fault": "switch"}) == ["human"]


def test_budgets_are_spent_and_made_new() -> None:
    """In a row: three in the job, two through the queue, then a human, who makes all new; so does progress."""
    switch = {"fault": "switch"}
    spent = ["in-job"] * 3 + ["requeue"] * 2 + ["human"]
    assert climb(ladder(), *[switch] * 12) == spent * 2
    working = [switch | {"work": 100.0 * number} for number in range(1, 8)]
    assert climb(ladder(), *working) == ["in-job"] * 7
    assert climb(ladder(resets_on_progress=False), *working) == [*spent, "in-job"]


def test_a_failure_during_the_recovery_stays_at_the_rung() -> None:
    """It counts as another try there, does not go back up, and goes down when the rung cannot take it."""
    at_queue = {"fault": "switch", "attempt": 2}
    found = climb(ladder(), {"fault": "switch"}, {"attempt": 2}, at_queue, at_queue, {"attempt": 3}, {"work": 5.0})
    assert found == ["in-job", "in-job", "in-job", "requeue", "requeue", "in-process"]
    down = climb(ladder(), {}, {"attempt": 2}, {"attempt": 3, "first_lost": True, "nodes_missing": 1})
    assert down == ["in-process", "in-process", "in-job"]


def test_restarts_in_vain_call_a_human() -> None:
    """After three restarts in a row that bring no new work somebody has to look; work done again is not new."""
    stuck = ladder(IN_PROCESS, no_progress=3)
    at = {"work": 50.0}
    assert climb(stuck, at, at, at, at, at) == ["in-process"] * 3 + ["human"] + ["in-process"]
    redone = [{"work": 50.0}, {"work": 20.0}, {"work": 49.0}, {"work": 50.0 + 1e-9}]
    assert climb(stuck, *redone) == ["in-process"] * 3 + ["human"]
    assert climb(stuck, *redone[:3], {"work": 51.0}) == ["in-process"] * 4
    assert climb(ladder(IN_PROCESS), *[at] * 9) == ["in-process"] * 9, "unless nobody looks"


def test_when_nothing_is_left() -> None:
    """A human comes after a time of the law, by default 15 min in the median, 4 h in one case of twenty; or never."""
    broken = ladder(IN_PROCESS, exhausted="20 min")
    assert broken.plan(*views(fault="switch"), None)[0] == (Requeue(1200.0),)
    assert ladder(IN_PROCESS, gives_up=True).plan(*views(fault="switch"), None)[0] == (Requeue(math.inf),)
    usual = present(ladder(IN_PROCESS).exhausted)
    assert usual.ppf_one(0.5) == pytest.approx(900.0)
    assert usual.ppf_one(0.95) == pytest.approx(4 * 3600.0, rel=1e-3)
    worked = LadderMemory((7,), 0, 2, 30.0)
    _, memory = ladder(IN_PROCESS | {"budget": 7}).plan(*views(work=20.0), worked)
    assert memory == LadderMemory((0,), 0, 0, 30.0), "all is new but for how far the job had come"
    waiting = ladder(IN_JOB | {"patience": "1 min"}, exhausted="20 min").plan(*views(nodes_missing=1), None)[0]
    new = LadderMemory((0,))
    assert waiting[1] == Acquire(timeout=60.0, otherwise=(Requeue(1200.0),), memory=new), "all is new after the human"


def test_only_restarts_count_as_vain() -> None:
    """Neither the first start nor that by a human is one: each is followed by one restart that brings nothing."""
    nothing = {"work": 0.0}
    assert climb(ladder(IN_PROCESS, no_progress=1), *[nothing] * 4) == ["in-process", "human"] * 2


def test_a_rung_is_asked_after_the_eviction() -> None:
    """Node 1 hangs and leaves with node 0, on which rank 0 is: a rung that cannot bear that loss is passed over."""
    evict = {"faults": ["hang"], "nodes": 2, "test": "0 s"}
    strict = ladder(IN_PROCESS | {"except_first": True}, IN_JOB, REQUEUE, evict=evict)
    plan, _ = strict.plan(*views(fault="hang", nodes_missing=1, missing=(1,)), None)
    assert plan[1] == Stall(Bucket.RESCHEDULE, 10.0)
    plan, _ = strict.plan(*views(fault="hang", nodes_missing=1, missing=(3,)), None)
    assert plan[1] == Stall(Bucket.RESCHEDULE, 1.0), "nodes 2 and 3 leave, and node 0 stays"


def test_the_queue_may_double_its_delay() -> None:
    """60 s, 120, 240 ... and at most an hour, as Kueue delays a job that it evicted; the first one is the base."""
    backoff = Backoff.model_validate({"first": "60 s", "most": "3600 s"})
    assert [backoff.seconds(tries) for tries in (1, 2, 3, 6, 7, 8, 5000)] == [60, 120, 240, 1920, 3600, 3600, 3600]
    strategy = ladder(REQUEUE | {"delay": "1 s", "budget": None, "backoff": {"first": "60 s", "most": "3600 s"}})
    memory: Any = None
    delays = []
    for _ in range(3):
        plan, memory = strategy.plan(*views(), memory)
        delays.append(plan[-1].delay)
    assert delays == [61.0, 121.0, 241.0]


def test_mean_times_are_those_of_the_only_rung() -> None:
    """The closed form takes the first rung that is for a fault, with the phases of its class and of those who join."""
    assert mean_times(ladder(IN_JOB), 64, 8) == (0.0, 30.0)
    assert mean_times(ladder(REQUEUE, scale=2.0), 64, 8) == (302.0, 260.0)
    hidden = [{"name": "teardown", "time": "4 s", "exposed": False}]
    assert mean_times(ladder(IN_JOB | {"stop": hidden}), 64, 8) == (4.0, 20.0)
    for rungs in ((IN_JOB | {"budget": None}, REQUEUE), (IN_JOB, REQUEUE), (IN_JOB | {"patience": "1 s"}, REQUEUE)):
        assert mean_times(ladder(*rungs), 64, 8) == (0.0, 30.0), "as if every failure were the first"
    narrow = ladder(IN_JOB | {"handles": ["gpu"]}, REQUEUE)
    assert mean_times(narrow, 64, 8, "gpu") == (0.0, 30.0)
    assert mean_times(narrow, 64, 8, "hang") == mean_times(ladder(REQUEUE), 64, 8) == (151.0, 130.0)
    assert mean_times(ladder(IN_JOB | {"budget": 0}, REQUEUE), 64, 8) == (151.0, 130.0)
    diagnosis = ladder(IN_JOB | {"stop": [{"name": "diagnosis", "time": "4 s", "faults": ["hang"]}]})
    assert (mean_times(diagnosis, 64, 8, "hang"), mean_times(diagnosis, 64, 8)) == ((0.0, 24.0), (0.0, 20.0))
    backoff = {"first": "60 s", "most": "3600 s"}
    assert mean_times(ladder(REQUEUE | {"delay": "1 s", "backoff": backoff}), 64, 8) == (61.0, 130.0)
    image = [
        {"name": "image", "time": {"use": "uniform", "low": "0 s", "high": "8 s"}, "each": "node", "joiners": True}
    ]
    assert mean_times(ladder(IN_JOB | {"launch": image}), 64, 8) == (0.0, 14.0), "one node is replaced"
    assert mean_times(ladder(IN_JOB | {"launch": image}), 64, 8, takes=0) == (0.0, 10.0), "or none"
    assert mean_times(ladder(REQUEUE | {"launch": image}), 64, 8) == (151.0, pytest.approx(30 + 8 * 8 / 9))


def test_the_first_node_is_lost_once_in_as_many_failures() -> None:
    """A rung that cannot bear the loss of the first of 8 nodes is passed over after one in 8 failures that take one."""
    strategy = ladder(IN_JOB | {"except_first": True}, REQUEUE)
    ways = strategy.returns(ExpectedFailure("host", 64, 8, 1))
    assert [(way.keeps, way.chance, way.joiners) for way in ways] == [("hosts", 7 / 8, 1), ("stores", 1 / 8, 8)]
    (only,) = strategy.returns(ExpectedFailure("process", 64, 8, 0))
    assert (only.keeps, only.chance, only.joiners) == ("hosts", 1.0, 0)


def test_with_no_way_left_a_human_is_the_way_back() -> None:
    """Where no rung is for a fault a human starts the job, whose mean time is told; if nobody does there is no form."""
    only = IN_JOB | {"handles": ["gpu"]}
    (way,) = ladder(only, exhausted="20 min").returns(ExpectedFailure("hang", 64, 8, 0))
    assert (way.keeps, [(span.mean, span.exposed) for span in way.spans]) == ("stores", [(1200.0, False), (20.0, True)])
    lost = ladder(only, gives_up=True)
    assert lost.returns(ExpectedFailure("hang", 64, 8, 0)) is None
    assert lost.no_formula == "with no way left the job has failed for good"


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"rungs": [IN_PROCESS, IN_JOB | {"patience": "20 s"}, REQUEUE], "exhausted": "100 s", "no_progress": 2},
        {"rungs": [IN_JOB], "evict": {"faults": ["hang"], "nodes": 2, "test": "100 s"}},
        {"rungs": [REQUEUE | {"delay": "5 s", "budget": 1}], "gives_up": True},
    ],
    ids=["three rungs", "impatient", "evicting", "once"],
)
def test_what_every_strategy_owes(keys: dict[str, Any]) -> None:
    """Ladders of several kinds pass the shared check."""
    check_recovery(ladder(**keys).model_dump(mode="json"), replications=6)


def test_two_failures_by_hand() -> None:
    """A failure at 300 s is for the job, which has one try in a row; the next at 330 s, in its launch, for the queue.

    Running from 30 s; saves to 140 and 250 s; 50 s are lost at 300 s. Stopped at 310 s, a spare is taken, launching to
    350, but the second failure hits at 330; stopped at 335, in the queue at 375, where two idle nodes wait; launched at
    405, restored at 425; the last 575 s hold five saves.
    """
    rungs = [IN_JOB | {"budget": 1, "launch": "40 s"}, REQUEUE | {"stop": "5 s", "delay": "40 s", "launch": "30 s"}]
    cluster = {"nodes": 5, "gpus_per_node": 1, "fabric": {"rails": 1}}
    case = prepared(cluster=cluster, recovery={"use": "ladder", "rungs": rungs}, spares={"hot": 1})
    result = play(case, [(300.0, 0, 0), (330.0, 1, 1)])
    assert seconds(result) == exactly(
        productive=725, checkpoint_stall=70, lost_work=50, reschedule=55, initialize=80, restore=20
    )
    loss = losses(case, result)
    assert loss["lost_work", "first"] == pytest.approx(50, abs=EXACT)
    assert loss["reschedule", "first"] == pytest.approx(10, abs=EXACT)
    assert loss["reschedule", "second"] == pytest.approx(45, abs=EXACT)
    assert loss["initialize", "no_failure"] == pytest.approx(30, abs=EXACT)
    assert loss["initialize", "first"] == pytest.approx(20, abs=EXACT)
    assert loss["initialize", "second"] == pytest.approx(30, abs=EXACT)

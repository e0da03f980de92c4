"""Narrow domains: how wide, packed how, how fast, and until when."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from pydantic import ValidationError

from sim.policies.contracts import Acquire, Bucket, ClusterView, FailureView, JobView, Requeue, Restore, Run, Stall
from sim.policies.recovery import Narrow
from tests.cases import cases
from tests.harness import check_recovery, play, prepared, seconds
from tests.recovery_checks import mean_times

EXACT = 1e-9
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


def plan_of(recovery: Narrow, view: JobView) -> tuple[Any, ...]:
    """Return the plan after a failure of a GPU."""
    failure = FailureView("cause", False, view.nodes_missing, int(view.nodes_missing > 0), view.mark, "gpu")
    return recovery.plan(failure, view, ClusterView(1, 1), None)[0]


# ---------------------------------------------------------------------------------------------------- pace


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


def test_the_pace_of_narrow_domains_by_hand() -> None:
    """Two domains that lost 1 and 2 of 8 GPUs share one of four replicas, at the width 6; a third needs another."""
    assert narrow().fraction(job()) == 1.0
    assert narrow().fraction(job(1)) == pytest.approx(1 - (1 / 8) / 4)
    assert narrow().fraction(job(1, 2)) == pytest.approx(1 - (2 / 8) / 4)
    assert narrow().fraction(job(1, 2, 3)) == pytest.approx(1 - (3 / 8 + 1 / 8) / 4)
    assert narrow(allowed=[4, 6]).fraction(job(1)) == pytest.approx(1 - (2 / 8) / 4)
    assert narrow(reshard="1 %").fraction(job(1)) == pytest.approx(0.99 * (1 - (1 / 8) / 4))
    assert narrow(reshard="1 %").fraction(job()) == 1.0, "only where a domain is narrow"


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


# ---------------------------------------------------------------------------------------------------- plans


def test_a_lost_gpu_is_a_restart_in_place() -> None:
    """Nothing is taken, everything starts again, and it goes on at the pace that is left."""
    end = (Stall(Bucket.RESCHEDULE, 5.0), Stall(Bucket.INITIALIZE, 25.0), Restore(), Run(1 - (1 / 8) / 4))
    assert plan_of(narrow(), job(1)) == end
    assert narrow().narrows_on == {"gpu"}


def test_a_lost_node_is_swapped() -> None:
    """As with hot spares: taken from the pools, with patience and then the queue."""
    plan = plan_of(narrow(pools=["spare"], patience="1 min", requeue="9 s"), job(1, nodes_missing=1))
    assert plan[1] == Acquire(timeout=60.0, otherwise=(Requeue(9.0),), pools=("spare",))
    assert plan[-1] == Run(1 - (1 / 8) / 4), "the gap elsewhere is still there"
    assert plan_of(narrow(), job(nodes_missing=1))[1] == Acquire()


def test_a_start_runs_at_the_pace_of_what_there_is() -> None:
    """A job that starts from the queue has whole nodes; with gaps it would be as slow as after a restart."""
    assert narrow().start(job()) == (Stall(Bucket.INITIALIZE, 25.0), Restore("stores"), Run())
    assert narrow().start(job(1))[-1] == Run(1 - (1 / 8) / 4)


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


@cases(
    ("keys", "rule"),
    [
        ({"allowed": [8]}, "must be from 1 to 7"),
        ({"allowed": [0, 4]}, "must be from 1 to 7"),
        ({"allowed": []}, "at least 1 item"),
        ({"allowed": [4, 6], "give_up_below": 3}, "from 4, the least width"),
        ({"give_up_below": 9}, "to 8, which replaces every domain"),
        ({"power_boost": 1.4}, "less than or equal to 1.3"),
        ({"reshard": "100 %"}, "less than 1"),
        ({"tensor": 1}, "greater than or equal to 2"),
    ],
)
def test_options_that_make_no_sense(keys: dict[str, Any], rule: str) -> None:
    """Narrower is less than whole, a domain is not kept below its least width, and power has a limit."""
    with pytest.raises(ValidationError, match=rule):
        narrow(**keys)


def test_no_formula_describes_it() -> None:
    """The pace depends on how many GPUs are missing."""
    assert mean_times(narrow(), 64, 8) is None
    assert narrow().absence_for(64, 8, 4) is None
    assert narrow().no_formula
    hidden = [{"name": "a", "time": "1 s", "exposed": False}]
    assert not narrow().has_unexposed_phases
    assert narrow(stop=hidden).has_unexposed_phases
    assert narrow(launch=hidden).has_unexposed_phases


# ------------------------------------------------------------------------------------------------ on a cluster


@pytest.mark.parametrize(
    "keys",
    [{"power_boost": 1.2, "reshard": "1 %"}, {"give_up_below": 2}, {"patience": "30 s", "requeue": "10 s"}],
    ids=["boost", "none is kept", "impatient"],
)
def test_what_every_strategy_owes(keys: dict[str, Any]) -> None:
    """The shared check holds with each option."""
    check_recovery(KEYS | {"tensor": 2} | keys, replications=6)


def test_narrow_by_hand() -> None:
    """A GPU fails at 300 s and is whole again at 500; a node fails at 600 s, and with the restart the GPU is back.

    Running from 25 s; saves to 135 and 245 s; 55 s lost. Restarted to 350 s, at half the pace: the only replica has
    half its width. Saves to 460 and 570 s; 30 s lost. Restarted with an idle node to 650 s, at full pace; three saves.
    """
    cause = {"use": "component", "law": {"law": "exponential", "mean": "1000 d"}, "renews": "never"}
    case = prepared(
        cluster={"nodes": 5, "gpus_per_node": 2, "fabric": {"rails": 1}},
        jobs=[{"name": "job", "gpus": 8, "parallelism": {"data": 1, "tensor": 2, "pipeline": 4}}],
        failures=[{**cause, "name": "first", "part": "gpu"}, {**cause, "name": "second", "part": "node"}],
        recovery=KEYS | {"tensor": 2},
    )
    result = play(case, [(300.0, 0, 0), (600.0, 1, 3)])
    assert seconds(result) == pytest.approx(
        {
            "productive": 200 + 100 + 320,
            "degraded": 100,
            "checkpoint_stall": 20 + 20 + 30,
            "lost_work": 55 + 30,
            "reschedule": 5 + 5,
            "initialize": 25 + 25 + 25,
            "restore": 20 + 20,
        },
        abs=EXACT,
    )

"""Lemon policies: windows and points by hand, policies together, and what they change in a run."""

from __future__ import annotations

from typing import Any

import pytest

import sim
from sim.policies.contracts import NodeView
from sim.policies.repair import LEMONS, Score, Threshold, Tiers
from tests.cases import cases
from tests.harness import check_lemons, play, prepared, trace

DAY = 86400.0
POLICIES: dict[str, list[dict[str, Any]]] = {
    "threshold": [{"failures": 1, "window": "1 h"}, {"failures": 5, "window": "7 d"}],
    "score": [{}, {"start": 10, "blame_costs": 3, "regains": 0, "floor": 4}, {"regains": 50, "floor": -100}],
}


def policy(use: str, **parameters: Any) -> Any:
    """Validate a policy as a file would be."""
    kind: Any = LEMONS[use]
    return kind.model_validate({"use": use, **parameters})


def judged(kind: Threshold | Score, blames: list[float], repair: float = 0.0) -> list[bool]:
    """Return for each blame [s] whether it makes a lemon, with repairs of a fixed time [s] in between."""
    memory, lemons, back = None, [], 0.0
    for time in blames:
        memory, lemon = kind.blame(memory, time, time - back)
        back = time + repair
        lemons.append(lemon)
    return lemons


@cases(("use", "parameters"), [(use, parameters) for use in sorted(LEMONS) for parameters in POLICIES[use]])
def test_what_every_policy_owes(use: str, parameters: dict[str, Any]) -> None:
    """Each registered policy passes the shared check."""
    check_lemons(policy(use, **parameters))


# ------------------------------------------------------------------------------------------------- threshold


@cases(
    ("blames", "expected"),
    [
        ([0, 1, 2], [False, False, True]),
        ([0, 50, 99.9], [False, False, True]),
        ([0, 50, 100], [False, False, False]),  # a blame leaves the window when it is as old as the window
        ([0, 50, 100, 149.9], [False, False, False, True]),
        ([0, 99, 198, 297, 396], [False] * 5),
    ],
)
def test_the_edges_of_a_window(blames: list[float], expected: list[bool]) -> None:
    """Three blames within less than 100 s make a lemon."""
    assert judged(policy("threshold", failures=3, window="100 s"), blames) == expected


def test_a_lemon_stays_one_while_the_blames_are_recent() -> None:
    """Every further blame in the window finds a lemon again; after a quiet time none does."""
    assert judged(policy("threshold", failures=2, window="100 s"), [0, 10, 20, 500, 510]) == [
        False,
        True,
        True,
        False,
        True,
    ]


def test_fewer_recent_blames_score_higher() -> None:
    """The score is minus the number of blames in the window of the last one."""
    kind = policy("threshold", failures=9, window="100 s")
    memory, scores = None, [kind.score(None)]
    for time in (0.0, 10.0, 20.0, 105.0):
        memory, _ = kind.blame(memory, time, 1.0)
        scores.append(kind.score(memory))
    assert scores == [0, -1, -2, -3, -3]


# ----------------------------------------------------------------------------------------------------- score


def points(kind: Score, blames: list[tuple[float, float]]) -> list[float]:
    """Return the points after each blame, given as (time [d], uptime [d])."""
    memory, found = None, []
    for time, uptime in blames:
        memory, _ = kind.blame(memory, time * DAY, uptime * DAY)
        found.append(kind.score(memory))
    return found


def test_points_by_hand() -> None:
    """100 points; a blame costs 30 and a day of being up gives 10 back, up to 100 again."""
    kind = policy("score")
    # 100 + 50 is still 100; - 30 = 70; + 20 - 30 = 60; + 5 - 30 = 35; + 900 is 100 again; - 30 = 70.
    assert points(kind, [(5, 5), (7, 2), (7.5, 0.5), (100, 90)]) == pytest.approx([70, 60, 35, 70])
    assert kind.score(None) == 100


def test_the_floor() -> None:
    """At the floor a node is a lemon already; one point above it is not."""
    kind = policy("score", start=90, regains=0)
    assert judged(kind, [0, 1, 2]) == [False, False, True]
    assert judged(policy("score", start=91, regains=0), [0, 1, 2, 3]) == [False, False, False, True]
    assert judged(policy("score", start=90, regains=0, floor=30), [0, 1]) == [False, True]


def test_repair_gives_no_points() -> None:
    """Points come back for the time since the return, not since the blame."""
    kind = policy("score", start=50, blame_costs=40, regains=10)
    assert judged(kind, [DAY, 4 * DAY], repair=0.0) == [False, True]  # 10 + 30 - 40 = 0
    assert judged(kind, [DAY, 4.5 * DAY], repair=0.0) == [False, False]  # 10 + 35 - 40
    assert judged(kind, [DAY, 4.5 * DAY], repair=DAY) == [False, True]  # 10 + 25 - 40


# -------------------------------------------------------------------------------------------- several policies

ROW = {"name": "reset", "time": "50 s"}


def tiers(*lemons: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return a repair that resets a node in 50 s, with lemon policies."""
    return {"use": "tiers", "tiers": [ROW], "lemons": list(lemons), **options}


WINDOW = {"use": "threshold", "failures": 2, "window": "10 s"}
POINTS = {"use": "score", "start": 100, "blame_costs": 40, "regains": 0}


@cases("order", [(WINDOW, POINTS), (POINTS, WINDOW)], ids=["window first", "points first"])
def test_one_policy_is_enough(order: tuple[dict[str, Any], ...]) -> None:
    """Two blames at once fall to the window, three far apart to the points; each policy has a memory of its own."""
    strategy = Tiers.model_validate(tiers(*order))

    def retires(times: list[float]) -> list[bool]:
        memory, found = None, []
        for time in times:
            course, memory = strategy.course(NodeView(time, "fault", "", 1.0, lambda purpose: 0.5), memory)
            found.append(course.retires)
        return found

    assert retires([0.0, 5.0]) == [False, True]
    assert retires([0.0, 50.0, 100.0]) == [False, False, True]
    assert retires([0.0, 50.0]) == [False, False]


def test_the_first_policy_scores() -> None:
    """How good a node looks is what the first policy says; without policies all look alike."""
    view = NodeView(0.0, "fault", "", 1.0, lambda purpose: 0.5)
    for order, expected in (((WINDOW, POINTS), -1.0), ((POINTS, WINDOW), 60.0)):
        strategy = Tiers.model_validate(tiers(*order))
        _, memory = strategy.course(view, None)
        assert strategy.score(memory) == expected
        assert strategy.score(None) > strategy.score(memory)
    plain = Tiers.model_validate(tiers())
    assert plain.score(plain.course(view, None)[1]) == plain.score(None) == 0.0


# ------------------------------------------------------------------------------------------------- in a run


def case(repair: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return eight nodes, of which a job has the first two."""
    return prepared(cluster={"nodes": 8, "gpus_per_node": 1, "fabric": {"rails": 1}}, repair=repair, **changes)


def outages(one: sim.Prepared, rows: list[tuple[float, int, int]]) -> list[tuple[int, float, float]]:
    """Return (node, down, up) of a run on failures written by hand."""
    return [(each.node, each.start, each.end) for each in sim.run(one, 0, trace(rows), keeps_log=True).outages]


def test_points_count_from_the_return() -> None:
    """Blamed at 100 s and again at 400 s, up since 150 s: 100 - 60 + 25 - 60 = 5 points, which is under a floor of 6.

    Counted from the blame it would be 10.
    """
    policy_ = {"use": "score", "start": 100, "blame_costs": 60, "regains": 8640, "floor": 6}
    rows = [(100.0, 0, 5), (400.0, 0, 5)]
    assert outages(case(tiers(policy_)), rows) == [(5, 100.0, 150.0), (5, 400.0, 1000.0)]
    assert outages(case(tiers({**policy_, "floor": 4})), rows) == [(5, 100.0, 150.0), (5, 400.0, 450.0)]


def test_lemons_may_go_to_a_tier() -> None:
    """The second blame within the window sends the node to the replacement tier at once, for 300 s."""
    rows = [{**ROW, "escalates": 0}, {"name": "replace", "time": "300 s"}]
    repair = {"use": "tiers", "tiers": rows, "lemons": [{**WINDOW, "window": "500 s"}], "lemons_go_to": "replace"}
    failures = [(100.0, 0, 5), (200.0, 0, 5), (990.0, 0, 5)]
    assert outages(case(repair), failures) == [(5, 100.0, 150.0), (5, 200.0, 500.0), (5, 990.0, 1000.0)]
    assert play(case(repair), failures).counts["retired"] == 0


def test_nodes_are_judged_by_their_blames() -> None:
    """Node 0 fails three times and node 1, which is healthy, is blamed and retired; then its successor is.

    Nobody retires node 0: what operators do not see, no policy sees.
    """
    failures = [
        {
            "use": "component",
            "name": "first",
            "law": {"law": "exponential", "mean": "1000 d"},
            "relapse": {"after": "150 s"},
        }
    ]
    repair = tiers({**WINDOW, "failures": 1}, diagnosis={"blames_other": 1})
    one = case(repair, failures=failures, horizon="700 s")
    assert [row for row in outages(one, [(300.0, 0, 0)]) if row[1] < row[2]] == [
        (1, 300.0, 700.0),
        (2, 450.0, 700.0),
        (3, 600.0, 700.0),
    ]
    assert play(one, [(300.0, 0, 0)]).counts["retired"] == 3


@pytest.mark.parametrize(
    ("strict", "lax"),
    [
        (
            {"use": "threshold", "failures": 1, "window": "1 d"},
            {"use": "threshold", "failures": 10**6, "window": "1 s"},
        ),
        ({"use": "score", "blame_costs": 1000}, {"use": "score", "blame_costs": 1e-6}),
    ],
    ids=["threshold", "score"],
)
def test_an_extreme_policy_changes_the_result(strict: dict[str, Any], lax: dict[str, Any]) -> None:
    """Who retires everybody at the first blame runs out of nodes; who retires nobody does as if there were no policy.

    Each of eight nodes fails once an hour: within twenty hours all are gone.
    """
    changes: dict[str, Any] = {
        "failures": [{"use": "component", "name": "fault", "rate": "1 per node-h"}],
        "horizon": "20 h",
    }
    results = {
        name: [sim.run(case(repair, **changes), replication) for replication in range(3)]
        for name, repair in (("strict", tiers(strict)), ("lax", tiers(lax)), ("none", tiers()))
    }
    for one, other in zip(results["lax"], results["none"], strict=True):
        assert one.counts["retired"] == 0
        assert one.cluster == pytest.approx(other.cluster)
    for one, other in zip(results["strict"], results["none"], strict=True):
        assert one.counts["retired"] == 8
        assert one.jobs[0].work < 0.5 * other.jobs[0].work

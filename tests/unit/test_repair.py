"""Repair: every strategy passes the shared check; tiers, crews, diagnosis and retirement by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ettrick import sim
from ettrick.sim.policies.contracts import Bucket, NodeView
from ettrick.sim.policies.repair import LEMONS, BlameThreshold, LemonScore, RepairTiers
from tests.cases import cases
from tests.harness import check_lemons, check_repair, play, prepared, trace

if TYPE_CHECKING:
    from collections.abc import Sequence

# ----------------------------------------
# Lemon policies: windows and points by hand, policies together, and what they change in a run.

DAY = 86400.0

POLICIES: dict[str, list[dict[str, Any]]] = {
    "threshold": [{"failures": 1, "window": "1 h"}, {"failures": 5, "window": "7 d"}],
    "score": [{}, {"start": 10, "blame_costs": 3, "regains": 0, "floor": 4}, {"regains": 50, "floor": -100}],
}


def policy(use: str, **parameters: Any) -> Any:
    """Validate a policy as a file would be."""
    kind: Any = LEMONS[use]
    return kind.model_validate({"use": use, **parameters})


def judged(kind: BlameThreshold | LemonScore, blames: list[float], repair: float = 0.0) -> list[bool]:
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


def points(kind: LemonScore, blames: list[tuple[float, float]]) -> list[float]:
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


ROW = {"name": "reset", "time": "50 s"}


def tiers(*lemons: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return a repair that resets a node in 50 s, with lemon policies."""
    return {"use": "tiers", "tiers": [ROW], "lemons": list(lemons), **options}


WINDOW = {"use": "threshold", "failures": 2, "window": "10 s"}

POINTS = {"use": "score", "start": 100, "blame_costs": 40, "regains": 0}


@cases("order", [(WINDOW, POINTS), (POINTS, WINDOW)], ids=["window first", "points first"])
def test_one_policy_is_enough(order: tuple[dict[str, Any], ...]) -> None:
    """Two blames at once fall to the window, three far apart to the points; each policy has a memory of its own."""
    strategy = RepairTiers.model_validate(tiers(*order))

    def retires(times: list[float]) -> list[bool]:
        memory, found = None, []
        for time in times:
            course, memory = strategy.course(NodeView(time, "fault", "", 1.0, lambda purpose: 0.5), memory)
            found.append(course.retires)
        return found

    assert retires([0.0, 5.0]) == [False, True]
    assert retires([0.0, 50.0, 100.0]) == [False, False, True]
    assert retires([0.0, 50.0]) == [False, False]


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
            "law": {"use": "exponential", "mean": "1000 d"},
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


EXPONENTIAL = {"use": "exponential", "mean": "5 min"}

STRATEGIES: dict[str, dict[str, Any]] = {
    "simple": {"use": "simple", "time": EXPONENTIAL},
    "one tier": {"use": "tiers", "tiers": [{"name": "reboot", "time": EXPONENTIAL}]},
    "crews": {"use": "tiers", "tiers": [{"name": "reboot", "time": EXPONENTIAL, "crews": 1}]},
    "everything": {
        "use": "tiers",
        "tiers": [
            {"name": "reset", "time": "1 min", "escalates": 0.3, "fixes": 0.6},
            {"name": "automated", "time": EXPONENTIAL, "escalates": 0.2, "fixes": 0.8, "crews": 2},
            {"name": "manual", "time": {"use": "lognormal", "mean": "10 min", "sigma": 0.8}, "fixes": 0.7, "crews": 1},
        ],
        "qualification": {"time": {"use": "uniform", "low": "1 min", "high": "2 min"}, "finds": 0.75},
        "diagnosis": {"finds": 0.9, "blames_other": 0.2},
        "lemons": [
            {"use": "threshold", "failures": 4, "window": "1 h"},
            {"use": "score", "blame_costs": 35, "regains": 100},
        ],
        "replacement": "1 h",
    },
    "no tests": {
        "use": "tiers",
        "tiers": [
            {"name": "reset", "time": EXPONENTIAL, "escalates": 0.5, "fixes": 0.5},
            {"name": "manual", "time": EXPONENTIAL, "fixes": 0.5},
        ],
        "lemons": [{"use": "threshold", "failures": 3, "window": "1 h"}],
    },
    "lemons to a tier": {
        "use": "tiers",
        "tiers": [{"name": "reset", "time": EXPONENTIAL, "fixes": 0.5}, {"name": "manual", "time": EXPONENTIAL}],
        "lemons": [{"use": "threshold", "failures": 2, "window": "1 h"}],
        "lemons_go_to": "manual",
        "qualification": {"time": "0 s", "finds": 0.5},
    },
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_every_strategy_owes(name: str) -> None:
    """Each kind of repair, with each of its options, passes the shared check."""
    check_repair(STRATEGIES[name])


FAILS: dict[str, Any] = {"use": "component", "part": "node", "law": {"use": "exponential", "mean": "1000 d"}}

SEVENTH = 6

"""A node that no job uses."""


def repair_tiers(*rows: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return a repair of tiers, of 50 s where a row says nothing else."""
    listed = [{"name": f"tier {index}", "time": "50 s", **row} for index, row in enumerate(rows)]
    return {"use": "tiers", "tiers": listed, **options}


def played(
    repair: dict[str, Any], rows: Sequence[tuple[float, ...]], **changes: Any
) -> tuple[sim.Result, list[tuple[int, float, float]]]:
    """Play failures on eight nodes of which a job has the first two; return the result and (node, down, up)."""
    case = prepared(
        cluster={"nodes": 8, "gpus_per_node": 1, "rack": {"nodes": 2}, "fabric": {"rails": 1}},
        failures=changes.pop("failures", [{**FAILS, "name": "first"}, {**FAILS, "name": "second"}]),
        repair=repair,
        **changes,
    )
    result = sim.run(case, 0, trace(rows), keeps_log=True)
    return result, [(outage.node, outage.start, outage.end) for outage in result.outages]


def charged(result: sim.Result, bucket: Bucket, cause: int | None = None) -> float:
    """Return the node-seconds outside jobs in a bucket, of one cause or of all."""
    table = result.outside.sum(axis=0)[bucket]
    return float(table.sum() if cause is None else table[cause])


def test_a_tier_that_always_escalates() -> None:
    """Reset 50 s, then manual 100 s, then tests of 25 s; two nodes, each charged to its cause."""
    repair = repair_tiers({"escalates": 1}, {"time": "100 s"}, qualification={"time": "25 s"})
    result, down = played(repair, [(300.0, 0, 0), (400.0, 1, SEVENTH)])
    assert down == [(0, 300.0, 475.0), (SEVENTH, 400.0, 575.0)]
    for cause in (1, 2):
        assert charged(result, Bucket.REPAIR, cause) == pytest.approx(150)
        assert charged(result, Bucket.QUALIFICATION, cause) == pytest.approx(25)
    assert charged(result, Bucket.REPAIR) == pytest.approx(300)
    assert charged(result, Bucket.QUALIFICATION) == pytest.approx(50)
    assert (result.counts["repairs"], result.counts["false_repairs"]) == (2, 0)


@cases(
    ("finds", "expected", "repaired", "tested", "left"),
    [(1, 500.0, 150.0, 50.0, 0), (0, 375.0, 50.0, 25.0, 1)],
    ids=["found", "missed"],
)
def test_qualification(finds: int, expected: float, repaired: float, tested: float, left: int) -> None:
    """A fault that the tests find goes to the next tier and through the tests again; one that they miss comes back."""
    repair = repair_tiers({"fixes": 0}, {"time": "100 s"}, qualification={"time": "25 s", "finds": finds})
    result, down = played(repair, [(300.0, 0, 0)])
    assert down == [(0, 300.0, expected)]
    assert charged(result, Bucket.REPAIR) == pytest.approx(repaired)
    assert charged(result, Bucket.QUALIFICATION) == pytest.approx(tested)
    assert (result.counts["repairs"], result.counts["false_repairs"]) == (1, left)


def test_a_false_success_strikes_again_or_not() -> None:
    """With a relapse the fault strikes 100 s after each return; a source without one leaves nothing behind."""
    relapse = {"after": "100 s"}
    failures = [{**FAILS, "name": "first", "relapse": relapse}, {**FAILS, "name": "second"}]
    result, down = played(repair_tiers({"fixes": 0}), [(300.0, 0, 2), (310.0, 1, 4)], failures=failures)
    assert [(start, end) for node, start, end in down if node == 2] == [
        (300.0, 350.0),
        (450.0, 500.0),
        (600.0, 650.0),
        (750.0, 800.0),
        (900.0, 950.0),
    ]
    assert [row for row in down if row[0] == 4] == [(4, 310.0, 360.0)]
    counts = result.counts
    assert (counts["repairs"], counts["false_repairs"], counts["relapses"]) == (6, 6, 4)
    assert counts["hidden_at_end"] == 1
    assert charged(result, Bucket.REPAIR, 1) == pytest.approx(250)


def test_a_success_clears_what_was_left() -> None:
    """The node goes to the manual tier for another cause at 380 s; the fault that the reset left is gone with that."""
    failures = [
        {**FAILS, "name": "first", "relapse": {"after": "100 s"}},
        {**FAILS, "name": "second", "tier": "tier 1"},
    ]
    result, down = played(
        repair_tiers({"fixes": 0}, {"time": "20 s"}), [(300.0, 0, 2), (380.0, 1, 2)], failures=failures
    )
    assert down == [(2, 300.0, 350.0), (2, 380.0, 400.0)]
    assert (result.counts["relapses"], result.counts["hidden_at_end"]) == (0, 0)


def test_a_relapse_begins_no_further_life() -> None:
    """Lives of 400 s that renew at return, and a fault that a repair always leaves: it strikes 150 s after a return.

    The node fails at 400, 600, 800 s, ... The life that began at 450 s ends at 850 s, when the node is just back, and
    so on: one life at a time, whatever the relapses do.
    """
    law = {"use": "fixed", "value": "400 s"}
    failures = [{**FAILS, "name": "first", "law": law, "renews": "at_return", "relapse": {"after": "150 s"}}]
    result, down = played(repair_tiers({"fixes": 0}), [(400.0, 0, 2)], failures=failures, horizon="2000 s")
    struck = [start for _, start, _ in down]
    assert struck[:3] == [400.0, 600.0, 800.0]
    assert result.counts["failures"] - result.counts["relapses"] <= 1 + (2000 - 450) // 400


def test_where_repair_begins() -> None:
    """A source names its tier; one with a repair time of its own does not go through tiers at all."""
    failures = [{**FAILS, "name": "first", "tier": "tier 1"}, {**FAILS, "name": "second", "repair": "7 s"}]
    repair = repair_tiers({"escalates": 1}, {"time": "100 s"}, qualification={"time": "25 s"})
    result, down = played(repair, [(300.0, 0, 2), (310.0, 1, 4)], failures=failures)
    assert down == [(2, 300.0, 425.0), (4, 310.0, 317.0)]
    assert charged(result, Bucket.QUALIFICATION, 2) == 0
    assert result.counts["repairs"] == 1, "only tiers count their repairs"


def test_one_crew_serves_in_order() -> None:
    """Three idle nodes fail 10 s apart; the crew works for 100 s on each; tests of 30 s need no crew."""
    repair = repair_tiers({"time": "100 s", "crews": 1}, qualification={"time": "30 s"})
    result, down = played(repair, [(320.0, 0, 2), (300.0, 0, 4), (310.0, 1, 3)])
    assert down == [(4, 300.0, 430.0), (3, 310.0, 530.0), (2, 320.0, 630.0)]
    # Waiting for the crew is repair too.
    assert charged(result, Bucket.REPAIR, 1) == pytest.approx(100 + 280)
    assert charged(result, Bucket.REPAIR, 2) == pytest.approx(190)
    assert charged(result, Bucket.QUALIFICATION) == pytest.approx(90)


def test_another_node_is_blamed() -> None:
    """Node 0 fails and stays; node 1 goes to repair. The fault strikes again 200 s later, and another node is blamed.

    At 500 s the job has nodes 0 and 2; node 1 is back since 350 s.
    """
    failures = [{**FAILS, "name": "first", "relapse": {"after": "200 s"}}]
    repair = repair_tiers({}, diagnosis={"blames_other": 1})
    result, down = played(repair, [(300.0, 0, 0)], failures=failures, horizon="600 s")
    assert [row for row in down if row[1] < row[2]] == [(1, 300.0, 350.0), (2, 500.0, 550.0)]
    counts = result.counts
    assert (counts["wrong_blames"], counts["relapses"], counts["repairs"], counts["false_repairs"]) == (2, 1, 2, 0)
    assert result.jobs[0].interruptions == {1: 2}
    assert charged(result, Bucket.REPAIR, 1) == pytest.approx(100)


def test_a_repair_leaves_no_fault_where_there_was_none() -> None:
    """Node 1 is blamed for node 0 and its repair fails too: the fault is still that of node 0 alone."""
    failures = [{**FAILS, "name": "first", "relapse": {"after": "200 s"}}]
    repair = repair_tiers({"fixes": 0}, diagnosis={"blames_other": 1})
    result, _ = played(repair, [(300.0, 0, 0)], failures=failures, horizon="600 s")
    # It strikes at 500 s; a fault left in node 1, which was back at 350 s, would strike at 550 s as well.
    assert (result.counts["relapses"], result.counts["hidden_at_end"]) == (1, 1)


def test_nobody_is_blamed() -> None:
    """Node 0 is swapped with the spare and waits among the healthy; there its fault strikes again, and is repaired.

    Outside a job there is nobody to take for another: the node itself goes to repair.
    """
    failures = [{**FAILS, "name": "first", "relapse": {"after": "200 s"}}]
    repair = repair_tiers({}, diagnosis={"finds": 0})
    result, down = played(repair, [(300.0, 0, 0)], failures=failures, spares={"hot": 1})
    assert [row for row in down if row[1] < row[2]] == [(0, 500.0, 550.0)]
    counts = result.counts
    assert (counts["unblamed"], counts["relapses"], counts["repairs"], counts["outside"]) == (1, 1, 1, 1)
    # The spare has left, and node 0 did not fill the pool up: its count was still that of the target.
    assert result.cluster[Bucket.SPARE_IDLE] == pytest.approx(300 + 450)


LEMON = [{"use": "threshold", "failures": 1, "window": "1 d"}]


def test_a_retired_node_is_replaced() -> None:
    """The new node comes after 100 s and nothing is remembered of the old one: two blames make a lemon again."""
    lemons = [{"use": "threshold", "failures": 2, "window": "1 d"}]
    rows = [(100.0, 0, 2), (200.0, 0, 2), (400.0, 0, 2), (600.0, 0, 2)]
    result, down = played(repair_tiers({}, lemons=lemons, replacement="100 s"), rows)
    assert down == [(2, 100.0, 150.0), (2, 200.0, 300.0), (2, 400.0, 450.0), (2, 600.0, 700.0)]
    assert (result.counts["retired"], result.counts["repairs"]) == (2, 2)


def test_a_new_node_has_a_new_life_on_its_busy_clock() -> None:
    """Node 0 serves the job for 250 s, fails and is replaced by 350 s; it serves again from 500 s, and fails at 750 s.

    Node 1 fails at 500 s for another cause, after 500 s of service with a life of 600 s. Its successor serves from
    750 s on and does not inherit the rest of that.
    """
    law = {"use": "fixed", "value": "250 s"}
    failures = [{**FAILS, "name": "first", "law": law, "renews": "never", "clock": "busy"}, {**FAILS, "name": "second"}]
    rows = [(250.0, 0, 0), (600.0, 0, 1), (500.0, 1, 1)]
    result, down = played(repair_tiers({}, lemons=LEMON, replacement="100 s"), rows, failures=failures)
    assert [row for row in down if row[0] in (0, 1)] == [(0, 250.0, 350.0), (1, 500.0, 600.0), (0, 750.0, 850.0)]
    assert result.jobs[0].interruptions == {1: 2, 2: 1}


RACK = {"use": "component", "name": "second", "part": "rack", "rate": "1 per 1000 rack-d", "repair": "150 s"}


@cases(("rack_at", "back", "masked"), [(350.0, 500.0, 0), (140.0, 400.0, 0), (150.0, 400.0, 0), (160.0, 310.0, 1)])
def test_a_node_returns_when_nothing_is_open(rack_at: float, back: float, masked: int) -> None:
    """Node 2 fails at 300 s and is repaired in 100 s; its rack is down for 150 s, before, after or meanwhile.

    In a rack that is down the failure is masked; one that is just back can fail.
    """
    failures = [{**FAILS, "name": "first"}, RACK]
    result, down = played(repair_tiers({"time": "100 s"}), [(300.0, 0, 2), (rack_at, 1, 1)], failures=failures)
    assert max(end for node, _, end in down if node == 2) == back
    assert result.counts["masked"] == masked
    # Nodes 2 and 3 are out for the rack, node 2 for itself as well.
    assert charged(result, Bucket.REPAIR) == pytest.approx(sum(end - start for _, start, end in down))


@cases("crews", [None, 1], ids=["crews for all", "one crew"])
def test_the_horizon_cuts_a_repair(crews: int | None) -> None:
    """Down from 880 s: repair to 940, tests beyond the horizon; the edges of windows at 300, 600 and 900 s cut too."""
    repair = repair_tiers({"time": "60 s", "crews": crews}, qualification={"time": "100 s"})
    result, down = played(repair, [(880.0, 0, 2), (950.0, 0, 3)], windows="300 s")
    assert down == [(2, 880.0, 1000.0), (3, 950.0, 1000.0)]
    by_window = result.outside.sum(axis=2)
    assert by_window[:, Bucket.REPAIR] == pytest.approx([0, 0, 20, 40 + 50])
    assert by_window[:, Bucket.QUALIFICATION] == pytest.approx([0, 0, 0, 60])
    assert result.counts["repairs"] == 0


def test_crews_are_waited_for_as_in_theory() -> None:
    """One crew that is busy 2/3 of the time: an M/M/1 wait of twice the service; one that is overrun, for ever."""
    tiers = RepairTiers.model_validate({"use": "tiers", "tiers": [{"name": "swap", "time": "1 h", "crews": 1}]})
    assert tiers.mean_time() == 3600
    assert tiers.mean_time(demand=2 / 3 / 3600) == pytest.approx(3 * 3600)
    assert tiers.mean_time(demand=2 / 3600) > 1e11

"""Pools of nodes: counts over time, the order in which nodes are picked, and what a run picks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import chisquare

from sim.engine.nodes import Level, Place, Pool
from sim.engine.simulation import Simulation
from tests.cases import cases
from tests.harness import prepared, trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import sim

ELSEWHERE = int(Place.JOB)
PICKS = ["lowest", "longest-idle", "random", "fewest-failures", "best-score"]


def test_a_level_is_integrated() -> None:
    """Two for 3 s, five for 4 s: 26; a collection begins anew with the same level."""
    level = Level(10.0)
    level.change(2, 10.0)
    level.change(3, 13.0)
    assert level.collect(17.0) == pytest.approx(26)
    assert level.collect(17.0) == 0
    assert level.collect(18.0) == pytest.approx(5)


def test_a_pool_gives_out_the_lowest() -> None:
    """Without a rank the order is that of the numbers, whatever the order in which nodes came."""
    pool = Pool(Place.SPARE, 0)
    places = [int(Place.SPARE)] * 5
    for node in (3, 1, 4):
        pool.push(node)
    taken = []
    while (node := pool.pop(places)) >= 0:
        places[node] = ELSEWHERE
        taken.append(node)
    assert taken == [1, 3, 4]


@cases("keyed", [False, True], ids=["by number", "by rank"])
def test_a_pool_against_a_plain_list(keyed: bool) -> None:
    """Ten thousand entries, exits and picks: each pick is the least of those that are there, and there is no ghost.

    A node may leave without being picked and come back with another key.
    """
    generator = np.random.default_rng(5)
    pool = Pool(Place.IDLE, 0)
    present: dict[int, Any] = {}
    keys = dict.fromkeys(range(12), 0)
    if keyed:
        pool.rank = keys.__getitem__
    places = [ELSEWHERE] * 12
    picked = 0
    for _ in range(10_000):
        node = int(generator.integers(12))
        if generator.random() < 0.3:
            expected = min((key, other) for other, key in present.items()) if present else (0, -1)
            found = pool.pop(places)
            assert found == expected[1]
            if found >= 0:
                picked += 1
                del present[found]
                places[found] = ELSEWHERE
        elif node in present:
            del present[node]  # it fails: nobody tells the heap
            places[node] = ELSEWHERE
        else:
            keys[node] = int(generator.integers(4))
            present[node] = keys[node] if keyed else 0
            places[node] = Place.IDLE
            pool.push(node)
    assert picked > 2000


# ------------------------------------------------------------------------------------------- what a run picks


def case(pick: str, nodes: int = 8, **changes: Any) -> sim.Prepared:
    """Return a cluster of which a job has two nodes, with a repair of 50 s and points for each node."""
    points = {"use": "score", "start": 100, "blame_costs": 10, "regains": 86400, "floor": -1000}
    repair = {"use": "tiers", "tiers": [{"name": "reset", "time": "50 s"}], "lemons": [points]}
    cluster = {"nodes": nodes, "gpus_per_node": 1, "rack": {"nodes": 2}, "fabric": {"rails": 1}}
    base = {"cluster": cluster, "repair": repair, "scheduler": {"use": "fifo", "pick": pick}}
    return prepared(**(base | changes))


def nodes_of(one: sim.Prepared, rows: Sequence[tuple[float, ...]] = (), replication: int = 0) -> set[int]:
    """Return the nodes that the job has at the end."""
    simulation = Simulation(one, replication, trace(rows))
    simulation.run()
    return {node for node in simulation.jobs.all[0].nodes if node >= 0}


@cases(
    ("rows", "expected"),
    [
        # Nothing happened: all alike, the order is that of the list.
        ([], {"lowest": 2, "longest-idle": 2, "fewest-failures": 2, "best-score": 2}),
        # Node 2 has failed once and come back: it waits at the end, and it has one failure and fewer points.
        ([(100.0, 0, 2)], {"lowest": 2, "longest-idle": 3, "fewest-failures": 3, "best-score": 3}),
        # Node 2 once, at last; node 3 twice, early: 3 waits longest, 2 has failed less often and has more points.
        (
            [(100.0, 0, 3), (151.0, 0, 3), (400.0, 0, 2)],
            {"lowest": 2, "longest-idle": 3, "fewest-failures": 2, "best-score": 2},
        ),
        # Node 2 three times far apart, 90 points; node 3 twice within seconds, 81 points.
        (
            [(100.0, 0, 2), (300.0, 0, 2), (500.0, 0, 2), (700.0, 0, 3), (751.0, 0, 3)],
            {"lowest": 2, "longest-idle": 2, "fewest-failures": 3, "best-score": 2},
        ),
        # As before, with the two nodes changed over.
        (
            [(100.0, 0, 3), (300.0, 0, 3), (500.0, 0, 3), (700.0, 0, 2), (751.0, 0, 2)],
            {"lowest": 2, "longest-idle": 3, "fewest-failures": 2, "best-score": 3},
        ),
    ],
    ids=["new", "one failure", "longest waits", "far apart", "far apart, changed over"],
)
def test_picks_by_hand(rows: list[tuple[float, ...]], expected: dict[str, int]) -> None:
    """Node 0 fails at 900 s, and nodes 2 and 3 wait; a second of being up gives back a point of the 10 of a blame."""
    found = {pick: nodes_of(case(pick, nodes=4), [*rows, (900.0, 1, 0)]) - {1} for pick in expected}
    assert found == {pick: {node} for pick, node in expected.items()}


@cases("repair", [{"time": "50 s"}, {"use": "tiers", "tiers": [{"name": "reset", "time": "50 s"}]}])
def test_failures_count_whatever_the_repair(repair: dict[str, Any]) -> None:
    """Node 2 has failed and node 3 has not: the fewest failures are node 3's with every kind of repair."""
    rows = [(100.0, 0, 2), (900.0, 1, 0)]
    assert nodes_of(case("fewest-failures", nodes=4, repair=repair), rows) == {1, 3}


def test_a_new_node_has_not_failed() -> None:
    """Node 2 is retired at its first blame and replaced after 50 s; its successor is as good as node 3, and lower."""
    lemons = [{"use": "threshold", "failures": 1, "window": "1 h"}]
    repair = {"use": "tiers", "tiers": [{"name": "reset", "time": "50 s"}], "lemons": lemons, "replacement": "50 s"}
    for pick in ("fewest-failures", "best-score"):
        assert nodes_of(case(pick, nodes=4, repair=repair), [(100.0, 0, 2), (900.0, 1, 0)]) == {1, 2}


def test_the_longest_idle_come_first_at_a_start_too() -> None:
    """Nodes 0 and 1 fail before the job arrives and are back after the others: it gets 2 and 3."""
    one = case("longest-idle", jobs=[{"name": "job", "gpus": 2, "arrival": "500 s"}])
    assert nodes_of(one, [(100.0, 0, 0), (100.0, 1, 1)]) == {2, 3}
    assert nodes_of(one, [(100.0, 0, 0), (100.0, 1, 1), (200.0, 0, 3)]) == {2, 4}


def counts_of(one: sim.Prepared, found: Callable[[set[int]], Any], rows: Sequence[tuple[float, ...]] = ()) -> list[int]:
    """Return how often each outcome came up in 560 replications."""
    return list(Counter(found(nodes_of(one, rows, replication)) for replication in range(560)).values())


def test_random_picks_are_even() -> None:
    """Each of the 28 pairs is as likely to start with; the node that replaces one is any of those that wait."""
    starts = counts_of(case("random"), lambda nodes: tuple(sorted(nodes)))
    assert len(starts) == 28
    assert chisquare(starts).pvalue > 1e-4
    # Node 0 fails once the job has its only node: whoever had node 0 gets any of the other three.
    one = case("random", nodes=4, jobs=[{"name": "job", "gpus": 1}])
    after = counts_of(one, min, [(500.0, 0, 0)])
    assert len(after) == 3
    assert chisquare(after).pvalue > 1e-4


def test_random_picks_depend_on_the_seed_alone() -> None:
    """The same replication picks the same nodes, another one others."""
    one = case("random")
    assert nodes_of(one, replication=3) == nodes_of(one, replication=3)
    assert len({tuple(sorted(nodes_of(one, replication=number))) for number in range(20)}) > 5


def test_a_unit_is_as_good_as_its_worst_node() -> None:
    """Nodes 3 and 4 of the idle racks have failed, the one or the other of its rack: the job gets the third rack."""
    for pick in ("fewest-failures", "best-score"):
        one = case(pick, jobs=[{"name": "job", "gpus": 2}], spares={"unit": "rack"})
        assert nodes_of(one, [(100.0, 0, 3), (200.0, 0, 4), (900.0, 1, 0)]) == {6, 7}


@cases("pick", PICKS)
def test_units_are_picked_whole(pick: str) -> None:
    """Whatever the rule, a job that uses racks gets racks, and a failure swaps one rack for another."""
    one = case(pick, jobs=[{"name": "job", "gpus": 4}], spares={"unit": "rack"})
    for replication in range(10):
        first = nodes_of(one, replication=replication)
        assert {node ^ 1 for node in first} == first
        struck = min(first)
        later = nodes_of(one, [(300.0, 0, struck)], replication)
        assert {node ^ 1 for node in later} == later
        assert len(later) == 4
        assert struck not in later
        assert len(later & first) == 2

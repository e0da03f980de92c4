"""Jobs that sit closely together: which nodes they take, which spare replaces a lost one, and what a far one costs."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import chisquare

from ettrick import sim
from ettrick.sim.cluster.placement import RankLayout
from ettrick.sim.engine.nodes import NodePool, NodeState, TimeWeightedCount, gather, spread
from ettrick.sim.engine.simulation import Simulation
from ettrick.sim.failures.effects import IncidentSize
from ettrick.sim.policies.recovery.restart import FullRestart
from tests.cases import cases
from tests.harness import _Watched, play, prepared, seconds, trace
from tests.source_checks import size_law
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ettrick.sim.policies.contracts import ClusterView, FailureView, JobView, Memory, Plan

RARE_SAVES = {"tiers": [{"interval": "10 d", "mode": "blocking", "write": "0 s", "restore": "0 s"}]}

PODS = {"rails": 1, "leaf": {"nodes": 2}, "spine": {"leaf_groups": 2}, "core": {}}

"""Pods of four nodes."""

# Pods of seven leaf switches of two nodes: fourteen links down to two spines with one link up each, so 1:7.
NARROW = {"rails": 1, "leaf": {"nodes": 2}, "spine": {"leaf_groups": 7}, "core": {"oversubscription": 7}}


def case(nodes: int, *gpus: int, pack: str | None = "pod", fabric: dict[str, Any] = PODS, **more: Any) -> sim.Prepared:
    """Return jobs of one GPU a node, which arrive one second after another."""
    common = {"communication": more.pop("share")} if "share" in more else {}
    jobs = [
        {"name": f"job {number}", "gpus": size, "arrival": f"{number} s", **common} for number, size in enumerate(gpus)
    ]
    cluster = {"nodes": nodes, "gpus_per_node": 1, "fabric": fabric, **more.pop("cluster", {})}
    scheduler = {"use": "fifo", **({"pack": pack} if pack is not None else {})}
    return prepared(**{"cluster": cluster, "jobs": jobs, "scheduler": scheduler, "checkpoint": RARE_SAVES, **more})


def held(one: sim.Prepared, rows: Sequence[tuple[float, ...]] = ()) -> list[list[int]]:
    """Return the nodes of each job at the horizon, by position; every node is looked at after every event."""
    simulation = _Watched(one, 0, trace(rows))
    simulation.run()
    return [job.nodes for job in simulation.jobs.all]


def clusters(seed: int, number: int, most: int = 12) -> Any:
    """Yield random clusters of at most so many nodes: the domain of each, who waits, and how many are needed."""
    generator = np.random.default_rng(seed)
    for _ in range(number):
        domain_of = generator.integers(0, 5, size=int(generator.integers(1, most + 1))).tolist()
        waiting = [node for node in range(len(domain_of)) if generator.random() < 0.7]
        yield domain_of, waiting, int(generator.integers(0, len(waiting) + 1))


def test_gather_uses_the_fewest_domains() -> None:
    """No smaller set of domains has enough nodes, by trying them all; at most one domain is left in part."""
    several = 0
    for domain_of, waiting, count in clusters(1, 800):
        before = list(waiting)
        taken = gather(waiting, count, domain_of)
        assert waiting == before
        assert len(taken) == count
        assert taken == sorted(set(taken) & set(waiting))
        size = Counter(domain_of[node] for node in waiting)
        used = Counter(domain_of[node] for node in taken)
        fewest = next(
            number
            for number in range(len(size) + 1)
            if any(sum(size[each] for each in chosen) >= count for chosen in itertools.combinations(size, number))
        )
        assert len(used) == fewest
        assert sum(used[each] < size[each] for each in used) <= 1
        several += fewest > 1
    assert several > 200, "too easy to show anything"


def test_gather_is_a_best_fit_that_takes_the_first_nodes() -> None:
    """The last part comes from the domain with the fewest nodes that are enough; of a domain the first nodes go."""
    choices = 0
    for domain_of, waiting, count in clusters(2, 800, 40):
        taken = gather(waiting, count, domain_of)
        size = Counter(domain_of[node] for node in waiting)
        used = Counter(domain_of[node] for node in taken)
        for domain, amount in used.items():
            inside = [node for node in waiting if domain_of[node] == domain]
            assert [node for node in taken if domain_of[node] == domain] == inside[:amount]
        parts = [domain for domain in used if used[domain] < size[domain]]
        for domain in parts:
            others = [size[each] for each in size if each not in used and size[each] >= used[domain]]
            assert size[domain] <= min(others, default=size[domain])
            choices += bool(others)
    assert choices > 100, "too easy to show anything"


def test_spread_is_as_even_as_whole_nodes_allow() -> None:
    """No other whole numbers are nearer to equal shares, by trying them all; of a domain the last nodes go."""
    uneven = 0
    for domain_of, nodes, count in clusters(3, 500):
        if not nodes:
            continue
        chosen = spread(nodes, count, domain_of)
        assert chosen == sorted(set(chosen) & set(nodes))
        assert len(chosen) == count
        size = Counter(domain_of[node] for node in nodes)
        domains = sorted(size)
        quota = [Fraction(count * size[each], len(nodes)) for each in domains]
        shares = [sum(domain_of[node] == each for node in chosen) for each in domains]
        for each, share in zip(domains, shares, strict=True):
            inside = [node for node in nodes if domain_of[node] == each]
            assert [node for node in chosen if domain_of[node] == each] == inside[len(inside) - share :]

        def distance(numbers: Any, quota: list[Fraction] = quota) -> Fraction:
            return sum(((number - exact) ** 2 for number, exact in zip(numbers, quota, strict=True)), Fraction(0))

        every = itertools.product(*(range(size[each] + 1) for each in domains))
        assert distance(shares) == min(distance(numbers) for numbers in every if sum(numbers) == count)
        uneven += any(exact.denominator > 1 for exact in quota)
    assert uneven > 200, "too easy to show anything"


def test_a_job_of_the_size_of_a_pod_starts_inside_one() -> None:
    """Job 0 holds half of the first pod of three: job 1, of a whole pod, takes the second, not nodes 2 to 5."""
    assert held(case(12, 2, 4, pack=None)) == [[0, 1], [2, 3, 4, 5]]
    assert held(case(12, 2, 4)) == [[0, 1], [4, 5, 6, 7]]
    assert held(case(12, 2, 4, 2)) == [[0, 1], [4, 5, 6, 7], [2, 3]], "and the gap is filled by who fits it best"


@pytest.mark.parametrize(
    ("pack", "described"),
    [
        ("leaf", {"fabric": {"rails": 1, "leaf": {"nodes": 3}}}),
        ("pod", {"fabric": {**PODS, "leaf": {"nodes": 3}, "spine": {"leaf_groups": 1}}}),
        ("rack", {"rack": {"nodes": 3}}),
        ("pdu", {"rack": {"nodes": 1}, "pdu": {"racks": 3}}),
        ("cooling", {"rack": {"nodes": 1}, "cooling": {"racks": 3}}),
        ("scale_up", {"scale_up": {"gpus": 3, "swap_unit": "tray"}}),
    ],
)
def test_every_domain_that_a_job_can_be_packed_into(pack: str, described: dict[str, Any]) -> None:
    """Domains of three nodes: after a job of one node, one of three starts at node 3, one of two stays at node 1."""
    plain = {"rack": {"nodes": 12}, "fabric": {"rails": 1, "leaf": {"nodes": 12}}}
    assert held(case(12, 1, 3, pack=pack, cluster=plain | described)) == [[0], [3, 4, 5]]
    assert held(case(12, 1, 2, pack=pack, cluster=plain | described)) == [[0], [1, 2]]
    assert held(case(12, 1, 3, pack=None, cluster=plain | described)) == [[0], [1, 2, 3]]


NEVER_BACK = {"time": "1 d"}


def test_the_spare_of_the_same_pod_comes_first_then_another() -> None:
    """Spares 3 and 7, one for each pod of four: node 0 is replaced by 3, and node 1 by 7, as no other is left."""
    one = case(8, 3, spares={"hot": 2}, repair=NEVER_BACK)
    assert held(one, [(100.0, 0, 0)]) == [[3, 1, 2]]
    assert held(one, [(100.0, 0, 0), (300.0, 0, 1)]) == [[3, 7, 2]]
    without = case(8, 3, pack=None, spares={"hot": 2}, repair=NEVER_BACK)
    assert held(without, [(100.0, 0, 0)]) == [[6, 1, 2]], "the last two nodes are the spares"


def test_a_position_keeps_the_pod_it_was_first_packed_into() -> None:
    """Node 1 is replaced from afar by 7; when that fails, node 0, back among the spares, is nearer than node 6.

    The job, of the first pod, needs two; 3 and 7 are the spares at first. Node 6 is idle all the time.
    """
    rows = [(100.0, 0, 0), (150.0, 0, 1), (400.0, 0, 7)]
    one = case(8, 3, spares={"hot": 2})
    # Nodes 0 and 1 come back at 300 and 350 s and are the two spares then; 7 is replaced by one of the first pod.
    assert held(one, rows[:2]) == [[3, 7, 2]]
    assert held(one, rows) == [[3, 0, 2]]
    # The same with the second pod's node 4 back as a spare too: the first node by number is not the nearest.
    jobs = [{"name": "low", "gpus": 3}, {"name": "high", "gpus": 3, "arrival": "1 s"}]
    both = case(8, jobs=jobs, spares={"hot": 2})
    assert held(both, [(100.0, 0, 0), (150.0, 0, 4)]) == [[3, 1, 2], [7, 5, 6]]
    # At 400 s nodes 0 and 4 are the spares: job "high" takes 4 although 0 is the first.
    assert held(both, [(100.0, 0, 0), (150.0, 0, 4), (400.0, 0, 5)]) == [[3, 1, 2], [7, 4, 6]]


@cases("share", [0.1, 0.3, 1.0])
def test_a_replacement_in_another_pod_slows_the_job_down(share: float) -> None:
    """Steps from 30 s on; a failure at 130 s, 30 s to initialize, and then a step takes 1 - c + 7 c of its time.

    The spares are the last two nodes, both in the second pod. Nothing was saved.
    """
    pace = 1 / (1 - share + 7 * share)
    one = case(28, 12, fabric=NARROW, share=share, spares={"hot": 2}, pack=None)
    assert held(one, [(130.0, 0, 0)])[0] == [26, *range(1, 12)]
    result = play(one, [(130.0, 0, 0)])
    assert seconds(result) == pytest.approx(
        {"initialize": 60.0, "lost_work": 100.0, "productive": 840 * pace, "degraded": 840 * (1 - pace)}, rel=1e-9
    )


def test_a_job_that_starts_on_two_pods_for_want_of_room_is_slow_from_the_start() -> None:
    """Job 0 has 4 nodes of the first pod, job 1 none the less starts on one pod only if it is packed."""
    pace = 1 / (1 - 0.3 + 7 * 0.3)
    for pack, expected in ((None, pace), ("pod", 1.0)):
        result = play(case(28, 4, 12, fabric=NARROW, share=0.3, pack=pack))
        assert result.jobs[1].work == pytest.approx((999 - 30) * expected, rel=1e-9)
        assert result.jobs[0].work == pytest.approx(970, rel=1e-9)


# ----------------------------------------
# Pools of nodes: counts over time, the order in which nodes are picked, and what a run picks.

ELSEWHERE = int(NodeState.JOB)

PICKS = ["lowest", "longest-idle", "random", "fewest-failures", "best-score"]


def test_a_level_is_integrated() -> None:
    """Two for 3 s, five for 4 s: 26; a collection begins again with the same level."""
    level = TimeWeightedCount(10.0)
    level.change(2, 10.0)
    level.change(3, 13.0)
    assert level.collect(17.0) == pytest.approx(26)
    assert level.collect(17.0) == 0
    assert level.collect(18.0) == pytest.approx(5)


@cases("keyed", [False, True], ids=["by number", "by rank"])
def test_a_pool_against_a_plain_list(keyed: bool) -> None:
    """Ten thousand entries, exits and picks: each pick is the least of those that are there, and there is no ghost.

    A node may leave without being picked and come back with another key.
    """
    generator = np.random.default_rng(5)
    pool = NodePool(NodeState.IDLE, 0)
    present: dict[int, Any] = {}
    keys = dict.fromkeys(range(12), 0)
    places = [ELSEWHERE] * 12
    # Half of them are there from the start.
    pool.fill(list(range(6)))
    pool.rank_by(keys.__getitem__, [0] * 6) if keyed else None
    for node in range(6):
        present[node], places[node] = 0, int(NodeState.IDLE)
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
            places[node] = NodeState.IDLE
            pool.push(node)
    assert picked > 2000


def pool_case(pick: str, nodes: int = 8, **changes: Any) -> sim.Prepared:
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
    found = {pick: nodes_of(pool_case(pick, nodes=4), [*rows, (900.0, 1, 0)]) - {1} for pick in expected}
    assert found == {pick: {node} for pick, node in expected.items()}


def counts_of(one: sim.Prepared, found: Callable[[set[int]], Any], rows: Sequence[tuple[float, ...]] = ()) -> list[int]:
    """Return how often each outcome came up in 560 replications."""
    return list(Counter(found(nodes_of(one, rows, replication)) for replication in range(560)).values())


def test_random_picks_are_even() -> None:
    """Each of the 28 pairs is as likely to start with; the node that replaces one is any of those that wait."""
    starts = counts_of(pool_case("random"), lambda nodes: tuple(sorted(nodes)))
    assert len(starts) == 28
    assert chisquare(starts).pvalue > 1e-4
    # Node 0 fails once the job has its only node: whoever had node 0 gets any of the other three.
    one = pool_case("random", nodes=4, jobs=[{"name": "job", "gpus": 1}])
    after = counts_of(one, min, [(500.0, 0, 0)])
    assert len(after) == 3
    assert chisquare(after).pvalue > 1e-4


def test_random_picks_depend_on_the_seed_alone() -> None:
    """The same replication picks the same nodes, another one others."""
    one = pool_case("random")
    assert nodes_of(one, replication=3) == nodes_of(one, replication=3)
    assert len({tuple(sorted(nodes_of(one, replication=number))) for number in range(20)}) > 5


@cases("pick", PICKS)
def test_units_are_picked_whole(pick: str) -> None:
    """Whatever the rule, a job that uses racks gets racks, and a failure swaps one rack for another."""
    one = pool_case(pick, jobs=[{"name": "job", "gpus": 4}], spares={"unit": "rack"})
    for replication in range(10):
        first = nodes_of(one, replication=replication)
        assert {node ^ 1 for node in first} == first
        struck = min(first)
        later = nodes_of(one, [(300.0, 0, struck)], replication)
        assert {node ^ 1 for node in later} == later
        assert len(later) == 4
        assert struck not in later
        assert len(later & first) == 2


# ----------------------------------------
# Where ranks sit and who leaves together: what a lost rack takes from a job, by the order of its parallelism.

ELASTIC = {"use": "shrink-rejoin", "reconfigure": "10 s", "initialize": "60 s", "catch_up": "5 s"}

NEVER = {"law": {"use": "exponential", "mean": "1000 d"}, "renews": "never"}

RACK = {"use": "component", "name": "rack", "part": "rack", "repair": "100 s", **NEVER}

NODE = {"use": "component", "name": "node", "part": "node", **NEVER}

USUAL = ["tensor", "context", "expert", "data", "pipeline"]

"""The order where none is given: a stage of the pipeline is a block of hosts."""

DATA_LAST = ["tensor", "context", "expert", "pipeline", "data"]

"""A replica is a block of hosts."""

SHAPE = {"tensor": 8, "pipeline": 4, "data": 4}


def seats_case(
    parallelism: dict[str, Any], order: Sequence[str] | None = None, each: int = 8, spare: int = 0, **more: Any
) -> sim.Prepared:
    """Return an elastic job on the first hosts of a cluster in racks of four, and some more nodes."""
    layout = {**parallelism, **({"order": list(order)} if order is not None else {})}
    gpus = prod(parallelism.get(name, 1) for name in ("tensor", "context", "pipeline", "data"))
    cluster = {"nodes": gpus // each + spare, "gpus_per_node": each, "rack": {"nodes": 4}, "fabric": {"rails": each}}
    return prepared(
        **{
            "cluster": cluster,
            "jobs": [{"name": "job", "gpus": gpus, "parallelism": layout}],
            "failures": [NODE, RACK],
            "checkpoint": RARE_SAVES,
            "recovery": ELASTIC,
            **more,
        }
    )


class Told:
    """A recovery strategy that keeps how many nodes and replicas it was told are lost."""

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy
        self.losses: list[tuple[int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.strategy, name)

    def plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Answer as the strategy does."""
        self.losses.append((failure.nodes_lost, failure.replicas_lost))
        plan: tuple[Plan, Memory] = self.strategy.plan(failure, job, cluster, memory)
        return plan


def told(one: sim.Prepared, rows: list[tuple[float, ...]]) -> list[tuple[int, int]]:
    """Return nodes and replicas lost at each failure."""
    recorder = Told(one.recovery)
    play(one, rows, recovery=recorder)
    return recorder.losses


def ended(one: sim.Prepared, rows: list[tuple[float, ...]] | None = None) -> Simulation:
    """Return a simulation after its end, looked at after every event."""
    simulation = _Watched(one, 0, trace(rows or []))
    simulation.run()
    return simulation


def sets_of_hosts(shape: dict[str, int], order: Sequence[str], each: int) -> list[set[int]]:
    """Return the hosts of each set of replicas that share hosts, first hosts first; ranks are counted one by one."""
    replicas: dict[int, set[int]] = {}
    names = list(reversed(order))
    values = itertools.product(*(range(shape.get(name, 1)) for name in names))
    for rank, coordinates in enumerate(values):
        where = dict(zip(names, coordinates, strict=True))
        replicas.setdefault(where["data"], set()).add(rank // each)
    found: list[set[int]] = []
    for hosts in replicas.values():
        touching = [known for known in found if known & hosts]
        found = [known for known in found if not known & hosts] + [hosts.union(*touching)]
    return sorted(found, key=min)


def test_the_usual_order_spreads_replicas_over_racks() -> None:
    """Tensor groups are hosts; host i has stage i // 4 of replica i % 4, so that a rack is one stage of all four."""
    assert told(seats_case(SHAPE), [(300.0, 1, 0)]) == [(4, 4)]
    assert told(seats_case(SHAPE, USUAL), [(300.0, 1, 2)]) == [(4, 4)]


def test_one_replica_away_by_hand() -> None:
    """The others pause for 10 s and go on with three quarters; rack 1 is back at 400 s, its replica at 465 s."""
    found = seconds(play(seats_case(SHAPE, DATA_LAST), [(300.0, 1, 1)]))
    assert found == pytest.approx(
        {
            "initialize": 60 + 60 / 4,
            "reschedule": 10 * 3 / 4,
            "starved": 100 / 4,
            "restore": 5 / 4,
            "productive": 240 + 155 * 3 / 4 + 535,
        },
        rel=1e-9,
    )


SHAPES: list[tuple[dict[str, int], list[str], int]] = [
    (SHAPE, USUAL, 8),
    (SHAPE, DATA_LAST, 8),
    ({"tensor": 4, "pipeline": 4, "data": 8}, USUAL, 8),
    ({"tensor": 4, "pipeline": 4, "data": 8}, DATA_LAST, 8),
    ({"tensor": 4, "context": 2, "pipeline": 2, "data": 8}, USUAL, 8),
    ({"tensor": 2, "context": 4, "pipeline": 4, "data": 6}, ["tensor", "data", "context", "expert", "pipeline"], 8),
    ({"tensor": 2, "pipeline": 8, "data": 8}, ["tensor", "pipeline", "data", "context", "expert"], 8),
    ({"tensor": 16, "pipeline": 2, "data": 4}, ["tensor", "context", "expert", "data", "pipeline"], 8),
    ({"tensor": 16, "pipeline": 2, "data": 4}, ["data", "tensor", "context", "expert", "pipeline"], 8),
    ({"tensor": 1, "pipeline": 4, "data": 8}, ["pipeline", "tensor", "context", "expert", "data"], 2),
    ({"tensor": 3, "pipeline": 4, "data": 4}, DATA_LAST, 4),
]


@cases("number", range(len(SHAPES)))
def test_who_leaves_is_who_has_a_rank_there(number: int) -> None:
    """Each rack takes the sets of replicas with a host in it, by counting all ranks one by one."""
    shape, order, each = SHAPES[number]
    one = seats_case(shape, order, each)
    sets = sets_of_hosts(shape, order, each)
    assert one.jobs[0].replicas == len(sets)
    for rack in range(one.counts["rack"]):
        hosts = set(range(4 * rack, min(4 * rack + 4, one.jobs[0].nodes)))
        lost = sum(bool(hosts & mine) for mine in sets)
        assert told(one, [(300.0, 1, rack)]) == [(len(hosts), lost)]


def test_replicas_that_share_a_host_leave_together() -> None:
    """Tensor 2 on hosts of eight GPUs, eight replicas: four on each of two hosts, so that half of them go at once."""
    one = seats_case({"tensor": 2, "data": 8})
    assert (one.jobs[0].replicas, one.jobs[0].nodes) == (2, 2)
    assert told(one, [(300.0, 0, 1)]) == [(1, 1)]
    # Until 310 s nobody steps, then half until the node is back at 500 s and its replicas rejoin at 565 s.
    found = seconds(play(one, [(300.0, 0, 1)]))
    assert found["productive"] == pytest.approx(240 + 255 / 2 + 435)


def by_host(one: sim.Prepared, simulation: Simulation) -> list[int]:
    """Return the node of each host, in the order of ranks."""
    nodes = simulation.jobs.all[0].nodes
    return [nodes[position] for position in (one.jobs[0].seats or range(len(nodes)))]


@cases("number", range(len(SHAPES)))
def test_node_i_of_an_empty_cluster_is_host_i(number: int) -> None:
    """Neighbours in rank are neighbours in the cluster, and the positions of one set follow one another."""
    shape, order, each = SHAPES[number]
    one = seats_case(shape, order, each, spare=4)
    simulation = ended(one)
    assert by_host(one, simulation) == list(range(one.jobs[0].nodes))
    width = one.jobs[0].nodes // one.jobs[0].replicas
    nodes = simulation.jobs.all[0].nodes
    blocks = [set(nodes[first : first + width]) for first in range(0, len(nodes), width)]
    assert blocks == sets_of_hosts(shape, order, each)


def test_a_replacement_sits_where_the_lost_node_sat() -> None:
    """Node 5 is host 5, stage 1 of replica 1; the spare node 16 takes its rank, and nobody else moves."""
    one = seats_case(SHAPE, spare=1, spares={"hot": 1})
    expected = list(range(16))
    expected[5] = 16
    assert by_host(one, ended(one, [(300.0, 0, 5)])) == expected
    # The replica that waits for it is that of nodes 1, 5, 9 and 13.
    assert sim.prepare(one.scenario).jobs[0].seats[1:16:4] == (4, 5, 6, 7)


def queued(one: sim.Prepared) -> sim.Prepared:
    """Return a case whose jobs go back to the queue for 100 s, with the seats that they have."""
    restart = FullRestart.model_validate({"use": "full-restart", "delay": "100 s", "initialize": "10 s"})
    return replace(one, recovery=restart)


@cases("recovery", [ELASTIC, {"use": "hot-spare", "initialize": "30 s"}], ids=["seats", "no seats"])
def test_back_from_the_queue_ranks_are_in_the_order_of_nodes(recovery: dict[str, Any]) -> None:
    """Node 5 fails at 300 s, and at 400 s the job has its 15 other nodes and node 16, neighbours by neighbours."""
    one = queued(seats_case(SHAPE, spare=2, recovery=recovery))
    assert by_host(one, ended(one, [(300.0, 0, 5)])) == [0, 1, 2, 3, 4, *range(6, 17)]


@cases("recovery", [ELASTIC, {"use": "hot-spare", "initialize": "30 s"}], ids=["seats", "no seats"])
def test_nodes_that_somebody_else_took_are_seated_anew(recovery: dict[str, Any]) -> None:
    """While the first job waits from 300 to 400 s, another one takes three nodes, of which only one is not the first's.

    It is done at 560 s, and node 5 is back since 500 s: the first job has its ranks on nodes 0 to 15 again.
    """
    first = {"name": "first", "gpus": 128, "parallelism": SHAPE}
    layout = {"tensor": 8, "data": 3}
    second = {"name": "second", "gpus": 24, "parallelism": layout, "arrival": "350 s", "work": {"time": "200 s"}}
    one = queued(seats_case(SHAPE, spare=1, jobs=[first, second], recovery=recovery))
    simulation = ended(one, [(300.0, 0, 5)])
    assert simulation.jobs.all[1].end == pytest.approx(560)
    assert simulation.jobs.all[0].starts == 2
    assert by_host(one, simulation) == list(range(16))


def test_layout_and_engine_agree_on_the_hosts_of_a_replica() -> None:
    """What ``RankLayout`` calls a failure group is a block of positions."""
    one = seats_case(SHAPE, USUAL)
    spec = present(one.scenario.jobs[0].parallelism)
    group = RankLayout(spec, 8).group_of_host
    assert np.array_equal(group, np.asarray(one.jobs[0].seats) // 4)
    assert group.tolist() == [0, 1, 2, 3] * 4


# ----------------------------------------
# How many nodes an incident takes: draws are the inverse of the stated law, means are its mean.

SIZES: dict[str, tuple[dict[str, Any], int]] = {
    "nodes": ({"nodes": 3}, 8),
    "more nodes than there are": ({"nodes": 30}, 8),
    "mean": ({"mean": 4.5}, 200),
    "mean of one": ({"mean": 1}, 8),
    "mean from least": ({"mean": 5, "least": 2}, 64),
    "mean cut off": ({"mean": 20, "least": 3}, 10),
    "mean that is the least": ({"mean": 3, "least": 3}, 10),
    "mean in a domain as small": ({"mean": 5, "least": 3}, 3),
    "share": ({"share": "30 %"}, 20),
    "share from least": ({"share": 0.02, "least": 2}, 64),
    "share of one": ({"share": 0.5}, 1),
    "everybody": ({"share": 1}, 5),
    "values": ({"values": [1, 4, 2, 4]}, 8),
    "weights": ({"values": [7, 1, 90, 3], "weights": [0.5, 3, 1.5, 0]}, 8),
}


@cases("name", SIZES)
def test_draws_are_the_inverse_of_the_law(name: str) -> None:
    """Between the steps of its distribution, a uniform number gives the size whose step it is on."""
    parameters, members = SIZES[name]
    size = IncidentSize.model_validate(parameters)
    law = size_law(size, members)
    assert law.sum() == pytest.approx(1.0)
    numbers = (np.arange(4000) + 0.5) / 4000
    sizes = np.array([size.draw(number, members) for number in numbers])
    if size.values is not None:
        # Values may be in any order: each has its share of the numbers.
        assert np.bincount(sizes, minlength=members + 1) / 4000 == pytest.approx(law, abs=1e-3)
        return
    reached = np.cumsum(law)
    clear = np.abs(numbers[:, None] - reached).min(axis=1) > 1e-9
    assert clear.sum() > 3900
    assert np.array_equal(sizes[clear], np.searchsorted(reached, numbers[clear]))


@cases("name", SIZES)
def test_means(name: str) -> None:
    """The mean is the sum of sizes by their probabilities, cut off at the domain."""
    parameters, members = SIZES[name]
    size = IncidentSize.model_validate(parameters)
    assert size.mean_of(members) == pytest.approx(float(np.arange(members + 1) @ size_law(size, members)))

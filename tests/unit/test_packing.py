"""Jobs that sit closely together: which nodes they take, which spare replaces a lost one, and what a far one costs."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sim
from sim.engine.nodes import gather, spread
from tests.cases import cases
from tests.harness import _Watched, play, prepared, seconds, trace

if TYPE_CHECKING:
    from collections.abc import Sequence

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


# ------------------------------------------------------------------------------------------------ as functions


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


def test_gather_by_hand() -> None:
    """Domains a, b, c of 4, 2 and 3 nodes that wait: 2 fit b, 3 fit c, 5 take all of a and one of b."""
    domain_of = [0, 0, 0, 0, 1, 1, 2, 2, 2]
    waiting = list(range(9))
    assert gather(waiting, 2, domain_of) == [4, 5]
    assert gather(waiting, 3, domain_of) == [6, 7, 8]
    assert gather(waiting, 5, domain_of) == [0, 1, 2, 3, 4]
    assert gather(waiting, 7, domain_of) == [0, 1, 2, 3, 6, 7, 8]
    assert gather([8, 3, 0], 2, domain_of) == [0, 3], "in whatever order they wait"
    assert gather([0, 1, 4, 5], 2, domain_of) == [0, 1], "of equal domains the first"


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


def test_spread_over_equal_domains() -> None:
    """Five spares of three racks of four: two, two and one, the last nodes of each."""
    assert spread(range(12), 5, [node // 4 for node in range(12)]) == [2, 3, 6, 7, 11]
    assert spread(range(12), 0, [0] * 12) == []


# ------------------------------------------------------------------------------------------------ the start


def test_a_job_of_the_size_of_a_pod_starts_inside_one() -> None:
    """Job 0 holds half of the first pod of three: job 1, of a whole pod, takes the second, not nodes 2 to 5."""
    assert held(case(12, 2, 4, pack=None)) == [[0, 1], [2, 3, 4, 5]]
    assert held(case(12, 2, 4)) == [[0, 1], [4, 5, 6, 7]]
    assert held(case(12, 2, 4, 2)) == [[0, 1], [4, 5, 6, 7], [2, 3]], "and the gap is filled by who fits it best"


def test_scattered_nodes_do_not_draw_a_job_out_of_its_pod() -> None:
    """Three nodes of the first pod and two of the second wait for repair or spare: only the third pod is whole."""
    rows = [(1.0, 0, 0), (2.0, 0, 2), (3.0, 0, 5)]
    late = [{"name": "late", "gpus": 4, "arrival": "100 s"}]
    assert held(case(12, jobs=late, pack=None), rows) == [[1, 3, 4, 6]]
    assert held(case(12, jobs=late), rows) == [[8, 9, 10, 11]]


def test_a_job_that_no_pod_holds_takes_as_few_as_possible() -> None:
    """Six nodes on three pods, of which the first has three idle ones: a whole pod, and two where three are."""
    assert held(case(12, 1, 6)) == [[0], [1, 2, 4, 5, 6, 7]]


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


# ---------------------------------------------------------------------------------------------- replacements

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


# ------------------------------------------------------------------------------------------- effect on the pace


def test_the_narrow_cores_leave_a_seventh() -> None:
    """What a NIC gets between pods is 1/7 of what it gets inside one."""
    one = case(28, 12, fabric=NARROW, share=0.3)
    assert one.network is not None
    bandwidth = one.network.bandwidth
    assert bandwidth["pod"] == bandwidth["leaf"] == one.jobs[0].planned_bandwidth
    assert bandwidth["cluster"] == pytest.approx(bandwidth["leaf"] / 7, rel=1e-12)


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


def test_a_spare_in_its_own_pod_does_not() -> None:
    """Packed, each pod has one of the two spares: node 13 takes over from node 0."""
    one = case(28, 12, fabric=NARROW, share=0.3, spares={"hot": 2})
    assert held(one, [(130.0, 0, 0)])[0] == [13, *range(1, 12)]
    result = play(one, [(130.0, 0, 0)])
    assert seconds(result) == pytest.approx({"initialize": 60.0, "lost_work": 100.0, "productive": 840.0}, rel=1e-9)


def test_a_replica_that_is_away_is_not_in_the_traffic() -> None:
    """One of two replicas begins anew at 400 s, in the other pod; until it is back at 700 s the other is not slowed."""
    jobs = [{"name": "job", "gpus": 2, "communication": 0.3, "parallelism": {"data": 2}}]
    recovery = {"use": "shrink-rejoin", "reconfigure": "10 s", "initialize": "300 s"}
    one = case(28, jobs=jobs, fabric=NARROW, pack=None, spares={"hot": 2}, repair=NEVER_BACK, recovery=recovery)
    assert held(one, [(400.0, 0, 0)]) == [[26, 1]]
    pace = 1 / (1 - 0.3 + 7 * 0.3)
    assert play(one, [(400.0, 0, 0)]).jobs[0].work == pytest.approx(100 + 290 / 2 + 300 * pace, rel=1e-9)


def test_the_job_is_at_its_old_pace_when_it_is_back_in_its_pod() -> None:
    """Node 26 fails at 400 s in its turn; node 0, repaired at 330 s, is the first spare then."""
    one = case(28, 12, fabric=NARROW, share=0.3, spares={"hot": 2}, pack=None)
    pace = 1 / (1 - 0.3 + 7 * 0.3)
    found = seconds(play(one, [(130.0, 0, 0), (400.0, 0, 26)]))
    # From 160 to 400 s at the slow pace, all of it lost: work at risk is lost with the time that it took.
    assert found == pytest.approx(
        {"initialize": 90.0, "lost_work": 100.0 + 240 * pace + 240 * (1 - pace), "productive": 570.0}, rel=1e-9
    )


def test_a_job_that_starts_on_two_pods_for_want_of_room_is_slow_from_the_start() -> None:
    """Job 0 has 4 nodes of the first pod, job 1 none the less starts on one pod only if it is packed."""
    pace = 1 / (1 - 0.3 + 7 * 0.3)
    for pack, expected in ((None, pace), ("pod", 1.0)):
        result = play(case(28, 4, 12, fabric=NARROW, share=0.3, pack=pack))
        assert result.jobs[1].work == pytest.approx((999 - 30) * expected, rel=1e-9)
        assert result.jobs[0].work == pytest.approx(970, rel=1e-9)


def test_a_job_that_is_larger_than_a_pod_was_planned_for_that() -> None:
    """What it gets between pods is what it was planned with: it steps at its full pace."""
    result = play(case(28, 20, fabric=NARROW, share=0.3))
    assert seconds(result) == pytest.approx({"initialize": 30.0, "productive": 970.0}, rel=1e-9)


# --------------------------------------------------------------------------------------------------- refusals


@cases("pick", ["longest-idle", "random", "fewest-failures"])
def test_nodes_are_picked_by_place_or_otherwise(pick: str) -> None:
    """A packed job takes nodes where they are, so that there is nothing to pick."""
    scheduler = {"use": "fifo", "pack": "pod", "pick": pick}
    with pytest.raises(sim.ScenarioError, match=f"scheduler.pack: packed jobs take nodes by their place, .*: {pick}"):
        case(8, 3, scheduler=scheduler)
    case(8, 3, scheduler={**scheduler, "pick": "lowest"})


@cases(
    "changes",
    [
        {"cluster": {"rack": {"nodes": 4}}, "spares": {"hot": 0, "unit": "rack"}},
        {"cluster": {"scale_up": {"gpus": 4}}},
    ],
    ids=["racks", "scale-up domains"],
)
def test_whole_units_keep_their_nodes_together_anyway(changes: dict[str, Any]) -> None:
    """Of racks or scale-up domains that are used whole, nothing can be packed."""
    with pytest.raises(sim.ScenarioError, match=r"scheduler\.pack: is for nodes that are used one by one"):
        case(8, 4, **changes)
    assert case(8, 4, pack=None, **changes).units is not None

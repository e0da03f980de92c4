"""Copies in memory: published probabilities, every set of lost nodes one by one, and losses of independent nodes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from sim.checkpoint.stores import cliques
from sim.theory import expected_shares
from sim.theory.in_memory import (
    group_loss_rate,
    group_survival,
    group_survival_bound,
    in_memory_shares,
    restart_loss_rate,
)
from sim.theory.multilevel import multilevel_shares
from tests.intervals import close, rival_seed


@pytest.mark.parametrize(("nodes", "copies", "lost", "printed"), [(16, 2, 2, 0.933), (1024, 2, 4, 0.994)])
def test_gemini(nodes: int, copies: int, lost: int, printed: float) -> None:
    """Z. Wang et al., SOSP 2023: its bound for 16 machines of which 2 fail, and for 1,024 of which 4 do."""
    assert group_survival_bound(nodes, copies, lost) == pytest.approx(printed, abs=5e-4)
    assert group_survival(nodes, copies, lost) == pytest.approx(printed, abs=5e-4)


@pytest.mark.parametrize("copies", [1, 2, 3, 4])
@pytest.mark.parametrize("nodes", [4, 5, 6, 7, 9, 10])
def test_every_set_of_lost_nodes(nodes: int, copies: int) -> None:
    """The probability is the share of all sets of k nodes that hold no whole clique of the simulator's."""
    groups = [set(group) for group in cliques(nodes, copies, 1)] if copies > 1 else [{node} for node in range(nodes)]
    for lost in range(nodes + 1):
        sets = list(itertools.combinations(range(nodes), lost))
        whole = sum(not any(group <= set(one) for group in groups) for one in sets)
        assert group_survival(nodes, copies, lost) == pytest.approx(whole / len(sets), abs=1e-15)


@pytest.mark.parametrize("copies", [1, 2, 3, 4])
def test_the_bound_is_one_and_exact_where_two_groups_cannot_go(copies: int) -> None:
    """It is never above the exact probability, equal below 2 m losses, and below it from 2 m on."""
    for lost in range(13):
        exact, bound = group_survival(12, copies, lost), group_survival_bound(12, copies, lost)
        assert bound <= exact + 1e-15
        if lost < 2 * copies:
            assert bound == pytest.approx(exact, abs=1e-15)
        else:
            assert bound < exact
        if lost < copies:
            assert exact == 1.0


def test_survival_at_scale() -> None:
    """More copies help, more losses do not; and of 100,000 nodes whole numbers lose no digit."""
    by_copies = [group_survival(960, copies, 12) for copies in (1, 2, 3, 4)]
    assert by_copies == sorted(by_copies)
    by_lost = [group_survival(1000, 2, lost) for lost in range(0, 60, 5)]
    assert by_lost == sorted(by_lost, reverse=True)
    assert by_lost[0] == 1.0
    # The first 50 lost in a row, each from a group of which none is lost yet.
    one_by_one = math.prod((100_000 - 2 * lost) / (100_000 - lost) for lost in range(50))
    assert group_survival(100_000, 2, 50) == pytest.approx(one_by_one, rel=1e-12)


@pytest.mark.parametrize(("copies", "exposure"), [(2, 0.05), (2, 0.5), (3, 0.3), (4, 1.0)])
@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "exponential"])
def test_losses_of_independent_nodes(copies: int, exposure: float, fixed: bool) -> None:
    """The rate is how often the last of a group fails while all others are down, whatever the law of the exposure."""
    generator = rival_seed(copies)
    horizon, groups = 500.0, 150
    rates = []
    for _ in range(groups):
        events = []
        for _node in range(copies):
            count = int(horizon / (1 + exposure) * 1.5) + 50
            up = generator.exponential(1.0, count)
            down = np.full(count, exposure) if fixed else generator.exponential(exposure, count)
            # A long past, so that nobody is new.
            failing = np.cumsum(up) + np.concatenate([[0.0], np.cumsum(down)[:-1]]) - 50.0
            assert failing[-1] > horizon
            events += [(time, 1) for time in failing] + [(time, -1) for time in failing + down]
        events.sort()
        times = np.array([time for time, _ in events])
        steps = np.array([step for _, step in events])
        lost = (np.cumsum(steps) == copies) & (steps == 1) & (times >= 0) & (times < horizon)
        rates.append(lost.sum() / horizon)
    assert close(np.array(rates), group_loss_rate(copies, copies, 1.0, exposure))


def test_the_rate_in_its_limits() -> None:
    """Short exposures give ``N (e / L)^(m - 1) / L``; without failures or exposure nothing is lost; groups add up."""
    assert group_loss_rate(300, 3, 1e6, 10.0) == pytest.approx(300 * 1e-10 / 1e6, rel=1e-4)
    assert group_loss_rate(300, 3, math.inf, 10.0) == 0.0
    assert group_loss_rate(300, 2, 1e6, 0.0) == 0.0
    # One copy is lost with every node that is up to be lost.
    assert group_loss_rate(300, 1, 1e6, 0.0) == pytest.approx(300 / 1e6)
    assert group_loss_rate(12, 2, 1e3, 50.0) == pytest.approx(6 * group_loss_rate(2, 2, 1e3, 50.0))
    assert group_loss_rate(13, 2, 1e3, 50.0) == pytest.approx(
        5 * group_loss_rate(2, 2, 1e3, 50.0) + group_loss_rate(3, 3, 1e3, 50.0)
    )


def lost_in_restarts(generator: np.random.Generator, sizes: list[int], restart: float, others: float) -> float:
    """Return how often a group lost all of its nodes in a play of restarts, for nodes that fail once a second [1/s]."""
    total = float(sum(sizes)) + others
    gaps = generator.exponential(1 / total, 4000).tolist()
    struck = generator.choice(len(sizes) + 1, size=4000, p=np.array([*sizes, others]) / total).tolist()
    which = generator.random(4000).tolist()
    lost: list[set[int]] = [set() for _ in sizes]
    losses = 0
    for gap, group, number in zip(gaps, struck, which, strict=True):
        if gap > restart:
            lost = [set() for _ in sizes]
        if group < len(sizes):
            before = len(lost[group])
            lost[group].add(int(number * sizes[group]))
            losses += before < len(lost[group]) == sizes[group]
    return losses / math.fsum(gaps)


@pytest.mark.parametrize(
    ("nodes", "copies", "sizes"), [(8, 2, [2] * 4), (6, 3, [3, 3]), (10, 4, [4, 4, 2]), (5, 2, [2, 3])]
)
@pytest.mark.parametrize("others", [0.0, 5.0])
def test_losses_in_restarts(nodes: int, copies: int, sizes: list[int], others: float) -> None:
    """Failures that start the restart of the whole job over, one by one: its groups lose all as often as theory says.

    The restart takes a third of the time between failures of nodes, which is more than any job stands.
    """
    restart = 1.0 / (3 * nodes)
    plays = [lost_in_restarts(rival_seed(number), sizes, restart, others) for number in range(60)]
    theory = restart_loss_rate(nodes, copies, 1.0, restart, others=1 / others if others else math.inf)
    assert close(np.array(plays), theory)


def test_losses_in_restarts_in_the_limits() -> None:
    """(m - 1)! times the rate of exposures that end by themselves; nothing without failures; detection exposes too."""
    for copies in (2, 3, 4):
        alone = group_loss_rate(12, copies, 1e9, 100.0)
        assert restart_loss_rate(12, copies, 1e9, 100.0) == pytest.approx(math.factorial(copies - 1) * alone, rel=1e-4)
        assert restart_loss_rate(12, copies, 1e9, 60.0, 40.0) == pytest.approx(
            restart_loss_rate(12, copies, 1e9, 100.0), rel=1e-4
        )
    assert restart_loss_rate(12, 2, math.inf, 100.0, 10.0) == 0.0
    assert restart_loss_rate(12, 2, 1e6, 0.0) == 0.0
    # Where every restart is started over for ever, a group is lost once and never made whole.
    assert restart_loss_rate(12, 2, 1.0, 1e6) < 1e-100


JOB: dict[str, Any] = {
    "interval": 60.0,
    "count": 20,
    "writes": [1.0, 20.0],
    "restarts": [60.0, 300.0],
    "nodes": 16,
    "copies": 2,
    "life": 16 * 3600.0,
}


def test_a_job_with_copies_in_memory() -> None:
    """It lies between a job whose copies are never lost, and one that goes back to the store outside each time."""
    ours = in_memory_shares(**JOB, downtime=10.0)
    never = multilevel_shares(60.0, [20], [1.0, 20.0], [1 / 3600, 0.0], [60.0, 300.0], [10.0, 10.0])
    always = multilevel_shares(60.0, [20], [1.0, 20.0], [0.0, 1 / 3600], [60.0, 300.0], [10.0, 10.0])
    assert always["productive"] < ours["productive"] < never["productive"]
    assert sum(ours.values()) == pytest.approx(1.0)
    # One copy is none: every lost node takes its shard with it.
    single = in_memory_shares(**{**JOB, "copies": 1}, downtime=10.0)
    assert single["productive"] == pytest.approx(always["productive"], abs=1e-3)
    # With many copies it is as if none were ever lost.
    assert in_memory_shares(**{**JOB, "copies": 8}, downtime=10.0)["productive"] == pytest.approx(never["productive"])


def test_faults_that_leave_memory_are_of_the_first_class() -> None:
    """Nodes that never fail leave one class: a job with two rhythms of saves and restarts from memory."""
    ours = in_memory_shares(**{**JOB, "life": math.inf}, others=3600.0)
    level = multilevel_shares(60.0, [20], [1.0, 20.0], [1 / 3600, 0.0], [60.0, 300.0])
    assert ours == pytest.approx(level)
    alone = in_memory_shares(**{**JOB, "count": 1, "writes": [1.0, 0.0], "life": math.inf}, others=3600.0)
    assert alone == pytest.approx(expected_shares(60.0, 1.0, 3600.0, 60.0))
    assert in_memory_shares(**{**JOB, "life": math.inf})["lost_work"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((16, 0, 1), "copies must be a whole number from 1"),
        ((16, 17, 1), "from 1 to the number of nodes, 16"),
        ((0, 1, 0), "nodes must be a whole number from 1"),
        ((16, 2, 17), "lost must be from 0 to the number of nodes"),
        ((16, 2, -1), "lost must be a whole number from 0"),
    ],
)
def test_impossible_groups(arguments: tuple[int, int, int], match: str) -> None:
    """What no groups can be is refused in one line."""
    for function in (group_survival, group_survival_bound):
        with pytest.raises(ValueError, match=match):
            function(*arguments)


def test_impossible_jobs() -> None:
    """The bound is for full groups; a job in memory has two levels; lives and exposures are times."""
    with pytest.raises(ValueError, match="copies must divide nodes"):
        group_survival_bound(17, 2, 3)
    with pytest.raises(ValueError, match="writes and restarts must have two values"):
        in_memory_shares(**{**JOB, "writes": [1.0]})
    with pytest.raises(ValueError, match="life must be positive"):
        group_loss_rate(16, 2, 0.0, 1.0)
    with pytest.raises(ValueError, match="exposure must be"):
        group_loss_rate(16, 2, 1.0, -1.0)

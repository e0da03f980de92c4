"""Faults that repairs leave, and faults that nodes have from the beginning: how they strike, and what ends them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from ettrick import sim
from ettrick.sim.failures.trace import hidden_at_start
from tests.cases import cases
from tests.harness import play, prepared, results_of, trace
from tests.intervals import LEAST, Z, agree, close, rival_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

DAY = 86400.0

NODES = 512

MINUTE = {"time": "1 min"}


def idle(failure: dict[str, Any], days: float, nodes: int = NODES, **changes: Any) -> sim.Prepared:
    """Return a cluster without a job, and one cause."""
    base: dict[str, Any] = {
        "cluster": {"nodes": nodes, "gpus_per_node": 1, "fabric": {"rails": 1}},
        "horizon": f"{days} d",
        "jobs": [{"name": "job", "gpus": 1, "arrival": f"{days} d"}],
        "failures": [failure],
        "repair": MINUTE,
    }
    return prepared(**(base | changes))


def tiers(fixes: float, time: str = "1 min") -> dict[str, Any]:
    """Return a repair of one tier that fixes a fault with a probability."""
    return {"use": "tiers", "tiers": [{"name": "reset", "time": time, "fixes": fixes}]}


def counts(case: sim.Prepared, replications: int, name: str = "failures") -> NDArray[np.int64]:
    """Return a count of each replication."""
    return np.array([result.counts[name] for result in results_of(case, replications)])


P = 0.4

AFTER = {"use": "weibull", "shape": 2, "mean": "10 min"}

LEFT_BY: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a probability": ({"after": AFTER, "probability": P}, MINUTE),
    "no time at all": ({"after": AFTER, "probability": P}, {"time": "0 s"}),
    "tiers": ({"after": AFTER}, tiers(1 - P)),
}


def relapsing(left_by: str, renews: str, days: float = 30) -> sim.Prepared:
    """Return nodes that fail once in a hundred days, and again after a repair that did not help."""
    relapse, repair = LEFT_BY[left_by]
    cause = {"use": "component", "name": "fault", "part": "node", "rate": "1 per 100 d"}
    return idle({**cause, "renews": renews, "relapse": relapse}, days, repair=repair)


@pytest.mark.parametrize("renews", ["at_failure", "at_return"])
@pytest.mark.parametrize("left_by", LEFT_BY)
def test_a_relapse_multiplies_failures(left_by: str, renews: str) -> None:
    """Each failure is the first of a geometric number: 1 / (1 - p) times as many, compound Poisson."""
    case = relapsing(left_by, renews)
    failures = counts(case, 30)
    base = NODES * 0.3
    assert close(failures, base / (1 - P), base * (1 + P) / (1 - P) ** 2)
    relapses = counts(case, 30, "relapses")
    assert close(failures - relapses, base, base)
    assert case.sources[0].rate * 30 * DAY == pytest.approx(base / (1 - P) if left_by != "tiers" else base)


def gaps_and_following(case: sim.Prepared, replications: int) -> list[list[float]]:
    """Return, for each chain of failures of one node, the times from a return to the next failure within 3 h [s]."""
    chains: list[list[float]] = []
    for result in results_of(case, replications, keeps_log=True):
        by_node: dict[int, list[Any]] = {}
        for outage in result.outages:
            by_node.setdefault(outage.node, []).append(outage)
        for mine in by_node.values():
            chains.append([])
            for before, after in zip(mine, [*mine[1:], None], strict=True):
                if after is None or after.start - before.end > 3 * 3600:
                    chains.append([])
                else:
                    chains[-1].append(after.start - before.end)
            chains.pop()
    return chains


@pytest.mark.parametrize("left_by", ["a probability", "tiers"])
def test_relapses_follow_their_law(left_by: str) -> None:
    """Of all failures the share p is followed by another after the stated law; a chain forgets how it came about."""
    chains = gaps_and_following(relapsing(left_by, "at_failure"), 30)
    gaps = np.array([gap for chain in chains for gap in chain])
    failures = len(gaps) + len(chains)
    # Within 3 h, a node fails for the first time again with 0.125 %.
    share = P + (1 - P) * -math.expm1(-0.125 / 100)
    assert abs(len(gaps) / failures - share) <= Z * math.sqrt(share * (1 - share) / failures)
    law = stats.weibull_min(2, scale=600 / stats.weibull_min(2).mean())
    assert stats.kstest(gaps, law.cdf).pvalue > LEAST
    # The delay of a relapse says nothing of whether there is another.
    again = np.array([gap for chain in chains for gap in chain[:-1]])
    last = np.array([chain[-1] for chain in chains if chain])
    assert min(len(again), len(last)) > 500
    assert stats.ks_2samp(again, last).pvalue > LEAST


def two_causes(first: dict[str, Any], repair: dict[str, Any]) -> sim.Prepared:
    """Return four nodes without a job, a cause of interest and another that strikes only by hand."""
    other = {"use": "component", "name": "other", "part": "node", "rate": "1 per 1000000 d"}
    jobs = [{"name": "job", "gpus": 1, "arrival": "1000 s"}]
    return prepared(failures=[first, other], jobs=jobs, repair=repair)


def starts(case: sim.Prepared, rows: list[tuple[float, int, int]]) -> list[tuple[float, int]]:
    """Return when which node went down."""
    result = sim.run(case, 0, trace(rows), keeps_log=True)
    return [(outage.start, outage.node) for outage in result.outages]


CERTAIN = 1 - 1e-12

RELAPSE = {
    "use": "component",
    "name": "fault",
    "part": "node",
    "rate": "1 per 1000000 d",
    "relapse": {"after": "300 s", "probability": CERTAIN},
}


def test_a_relapse_by_hand() -> None:
    """A fault that every repair leaves strikes 300 s after each return, in its node and in no other."""
    assert starts(two_causes(RELAPSE, {"time": "50 s"}), [(100.0, 0, 2)]) == [(100.0, 2), (450.0, 2), (800.0, 2)]


def test_a_successful_repair_clears_what_another_left() -> None:
    """The other cause's repair, which succeeds, removes the hidden fault of its node, and of no other node."""
    rows = [(100.0, 0, 2), (110.0, 0, 3), (300.0, 1, 2)]
    case = two_causes(RELAPSE, {"time": "50 s"})
    assert starts(case, rows) == [(100.0, 2), (110.0, 3), (300.0, 2), (460.0, 3), (810.0, 3)]


def test_a_fault_that_comes_due_in_a_repair_is_removed_by_it() -> None:
    """At 450 s the node is in repair for another cause until 480 s; that repair succeeds, and nothing strikes."""
    case = two_causes(RELAPSE, {"time": "50 s"})
    assert starts(case, [(100.0, 0, 2), (430.0, 1, 2)]) == [(100.0, 2), (430.0, 2)]


def test_a_relapse_can_wait_for_busy_time() -> None:
    """On the clock busy, the 500 s count only while the node serves a job.

    Node 0 fails at 100 s and is back, idle, at 300 s; from 400 s on it serves the job for node 1, and strikes at 900 s.
    """
    cause = {**RELAPSE, "clock": "busy", "relapse": {"after": "500 s", "probability": CERTAIN}}
    other = {"use": "component", "name": "other", "part": "node", "rate": "1 per 1000000 d", "repair": "5000 s"}
    cluster = {"nodes": 3, "gpus_per_node": 1, "fabric": {"rails": 1}}
    case = prepared(failures=[cause, other], cluster=cluster)
    assert starts(case, [(100.0, 0, 0), (400.0, 1, 1)]) == [(100.0, 0), (400.0, 1), (900.0, 0)]
    on_the_wall = prepared(failures=[{**cause, "clock": "wall"}, other], cluster=cluster)
    assert starts(on_the_wall, [(100.0, 0, 0), (400.0, 1, 1)])[2] == (800.0, 0)


def defect(share: float, **changes: Any) -> dict[str, Any]:
    """Return a hidden fault that strikes after two days on average."""
    return {"use": "defect", "name": "sick", "share": share, "rate": "1 per 2 d", **changes}


@cases("repair", [MINUTE, {"time": "0 s"}], ids=["a minute", "no time"])
@cases("clock", ["wall", "busy"])
def test_each_defective_node_fails_once_and_is_cured(clock: str, repair: dict[str, Any]) -> None:
    """Repairs that always succeed cure exactly the share that has the fault, one failure each."""
    job = {"name": "job", "gpus": 64 if clock == "busy" else 1, "arrival": "0 s" if clock == "busy" else "100 d"}
    save = {"interval": "1 d", "mode": "blocking", "write": "0 s", "restore": "0 s"}
    sick = defect(0.25, exact=True, clock=clock)
    case = idle(sick, 100, 64, jobs=[job], repair=repair, checkpoint={"tiers": [save]})
    result = sim.run(case, 0, keeps_log=True)
    assert result.counts["failures"] == 16
    assert result.counts["hidden_at_end"] == 0
    if repair == MINUTE:
        has_it = np.flatnonzero(hidden_at_start(case.sources[0], case.seed, 0)).tolist()
        assert sorted(outage.node for outage in result.outages) == has_it


def test_defects_that_have_not_struck_are_still_there() -> None:
    """Nodes that failed and nodes that still have the fault are together those that had it: a binomial number."""
    case = idle(defect(0.25), 2)
    failures, left = counts(case, 40), counts(case, 40, "hidden_at_end")
    assert close(failures + left, NODES * 0.25, NODES * 0.25 * 0.75)
    share = 0.25 * -math.expm1(-1)
    assert close(failures, NODES * share, NODES * share * (1 - share))


def test_repairs_that_may_fail_need_a_geometric_number() -> None:
    """Where half of all repairs fix a node, defective nodes fail 1, 2, 3, ... times with 1/2, 1/4, 1/8, ..."""
    case = idle(defect(1.0, exact=True), 200, 2000, repair=tiers(0.5))
    result = sim.run(case, 0, keeps_log=True)
    times = np.bincount([outage.node for outage in result.outages], minlength=2000)
    assert times.min() == 1
    assert close(times, 2.0, 2.0)
    observed = np.bincount(np.minimum(times, 8), minlength=9)[1:]
    assert stats.chisquare(observed, 2000 * 0.5 ** np.array([1, 2, 3, 4, 5, 6, 7, 7])).pvalue > LEAST
    assert result.counts["false_repairs"] == times.sum() - 2000
    assert result.counts["hidden_at_end"] == 0


def test_a_defect_that_stays_strikes_by_its_own_law() -> None:
    """A repair that fixes nothing leaves the life of the fault running: by hand, every 120 s on the wall.

    At 120 s the node is down for another cause; the fault then waits for the return at 150 s and begins again.
    """
    cause = {"use": "defect", "name": "sick", "share": 0, "law": {"use": "fixed", "value": "120 s"}}
    found = starts(two_causes(cause, tiers(0.0, "50 s")), [(120.0, 0, 1), (100.0, 1, 1)])
    assert found == [(float(time), 1) for time in (100, 270, 390, 510, 630, 750, 870, 990)]


def test_any_successful_repair_removes_a_defect() -> None:
    """A repair for another cause, before the fault strikes for the first time, cures the node."""
    cause = {"use": "defect", "name": "sick", "share": 0, "law": {"use": "fixed", "value": "500 s"}}
    case = two_causes(cause, {"time": "50 s"})
    assert starts(case, [(500.0, 0, 1), (500.0, 0, 2), (100.0, 1, 1)]) == [(100.0, 1), (500.0, 2)]
    assert play(case, [(500.0, 0, 1), (500.0, 0, 2), (100.0, 1, 1)]).counts["hidden_at_end"] == 0


def test_a_busy_defect_strikes_only_in_a_job() -> None:
    """On the clock busy, nodes that serve no job keep their fault and never fail."""
    case = idle(defect(1.0, exact=True, clock="busy"), 20, 64)
    result = sim.run(case, 0)
    assert (result.counts["failures"], result.counts["hidden_at_end"]) == (0, 64)


def alternating(catch: float, strike: float, days: float, *, sick: bool) -> NDArray[np.int64]:
    """Return failures of nodes that catch a fault, fail and are cured at once, shape (replications,); means in days."""
    generator = rival_seed()
    clock = np.zeros((200, NODES // 4))
    total = np.zeros(200, dtype=np.int64)
    while (clock < days).any():
        if not sick:
            clock += catch * generator.standard_exponential(clock.shape)
        sick = False
        clock += strike * generator.standard_exponential(clock.shape)
        total += (clock < days).sum(axis=1)
    return total


@pytest.mark.parametrize(
    ("share", "catch", "strike"), [(0.0, 10.0, 5.0), (1.0, 4.0, 40.0), (1.0, 1.0, 200.0)], ids=["none", "all", "rare"]
)
@pytest.mark.parametrize("repair", ["0 s", "1 s"])
def test_onset_and_cure_alternate(share: float, catch: float, strike: float, repair: str) -> None:
    """A node is healthy for an exponential time, then has the fault for another; at the end P(fault) is Markov's.

    A node that has the fault cannot catch it once more, even if it would not strike within the horizon.
    """
    cause = {"use": "defect", "name": "sick", "share": share, "exact": True}
    cause |= {"rate": f"1 per {strike} d", "onset": f"1 per {catch} node-d"}
    nodes = NODES // 4
    case = idle(cause, 30, nodes, repair={"time": repair})
    runs = [result.counts for result in results_of(case, 20)]
    assert agree(np.array([run["failures"] for run in runs]), alternating(catch, strike, 30, sick=share == 1))
    up, down = 1 / strike, 1 / catch
    at_end = down / (up + down) + (share - down / (up + down)) * math.exp(-(up + down) * 30)
    assert close(np.array([run["hidden_at_end"] for run in runs]), nodes * at_end, nodes * at_end * (1 - at_end))


def test_what_a_node_catches_strikes_by_the_law_on_the_busy_clock() -> None:
    """Onset is on the wall clock; the life that begins then counts the time in which the node serves a job."""
    cause = {"use": "defect", "name": "sick", "share": 0, "clock": "busy", "onset": "1000 per node-d"}
    cause["law"] = {"use": "fixed", "value": "1 d"}
    save = {"interval": "1 d", "mode": "blocking", "write": "0 s", "restore": "0 s"}
    jobs = [{"name": "job", "gpus": 4, "arrival": "1 d"}]
    case = idle(cause, 2.5, 8, jobs=jobs, checkpoint={"tiers": [save]})
    first = [*sim.run(case, 0, keeps_log=True).outages][:4]
    assert sorted(outage.node for outage in first) == [0, 1, 2, 3]
    assert all(2 * DAY <= outage.start <= 2.2 * DAY for outage in first)

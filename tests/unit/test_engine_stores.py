"""Restores of several jobs from one store, by hand: they share what it can give.

Jobs of two nodes start to step after 30 s, and save 1 GB every 100 s of stepping while they step on. The store gives
10 MB/s in all, so that a job which reads alone takes 100 s. A restart takes 30 s: whoever fails at 1000 s reads from
1030 s on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sim
from tests.cases import cases
from tests.harness import losses, play, prepared, seconds, trace
from tests.unit.test_effects import cause, nodes
from tests.unit.test_engine_damage import HOST, REMOTE, software
from tests.unit.test_engine_notice import preemption
from tests.unit.test_engine_storage import storage

if TYPE_CHECKING:
    from collections.abc import Sequence

EXACT = 1e-6
"""Seconds; a time of a thousand seconds is rounded much less than that."""
STORE: dict[str, Any] = {"interval": "100 s", "mode": "async", "aggregate": "10 MB/s"}


def case(*sources: dict[str, Any], sizes: Sequence[int] = (2, 2), **changes: Any) -> sim.Prepared:
    """Return jobs with some nodes each."""
    base: dict[str, Any] = {
        "cluster": nodes(16),
        "jobs": [{"name": f"job-{number}", "gpus": size} for number, size in enumerate(sizes)],
        "failures": list(sources) or [software()],
        "checkpoint": {"size": "1 GB", "tiers": [STORE]},
        "horizon": "3000 s",
    }
    return prepared(**{**base, **changes})


def of_store(**more: Any) -> dict[str, Any]:
    """Return checkpoints in a store that has something more."""
    return {"size": "1 GB", "tiers": [{**STORE, **more}]}


def restoring(one: sim.Prepared, rows: Sequence[tuple[float, ...]]) -> list[float]:
    """Return how long each job has been restoring [s]."""
    result = play(one, rows)
    return [float(seconds(result, job).get("restore", 0.0)) for job in range(len(result.jobs))]


# -------------------------------------------------------------------------------------------------- who reads when


@cases("sizes", [(2,), (2, 2), (2, 2, 2)], ids=["no other job", "one other", "two others"])
@cases("mode", ["async", "blocking"])
def test_who_reads_alone_has_the_whole_store(sizes: tuple[int, ...], mode: str) -> None:
    """1 GB at 10 MB/s; jobs that only train take nothing of it."""
    one = case(sizes=sizes, checkpoint=of_store(mode=mode))
    assert restoring(one, [(1000, 0, 0)]) == pytest.approx([100.0, *(0.0 for _ in sizes[1:])], abs=EXACT)


@cases("jobs", [2, 3, 5])
def test_who_reads_together_has_equal_shares(jobs: int) -> None:
    """Each of n jobs takes n times as long, and all of it is restore."""
    one = case(sizes=(2,) * jobs)
    result = play(one, [(1000, 0, job) for job in range(jobs)])
    for job in range(jobs):
        assert losses(one, result, job)["restore", "software"] == pytest.approx(100.0 * jobs, abs=EXACT)
        assert losses(one, result, job)["initialize", "software"] == pytest.approx(30.0, abs=EXACT)
        assert sum(seconds(result, job).values()) == pytest.approx(3000.0, abs=EXACT)
        assert result.jobs[job].restores == {"remote": 1}


@cases("recovery", ["full-restart", "ladder"])
def test_whatever_way_they_come_back(recovery: str) -> None:
    """From the queue, or up a ladder: it is the same store."""
    rungs = [{"name": "in-job", "keeps": "hosts", "launch": "30 s"}]
    given = {"full-restart": {"delay": "5 s", "initialize": "30 s"}, "ladder": {"rungs": rungs}}[recovery]
    one = case(recovery={"use": recovery, **given})
    assert restoring(one, [(1000, 0, 0), (1000, 0, 1)]) == pytest.approx([200.0, 200.0], abs=EXACT)


@cases("later", [1, 25, 50, 99, 100, 130])
def test_one_begins_while_another_reads(later: float) -> None:
    """With d s of 100 read alone, the rest of it takes twice as long; the other one has d s left then, alone again."""
    each = 200.0 - min(later, 100.0)
    assert restoring(case(), [(1000, 0, 0), (1000 + later, 0, 1)]) == pytest.approx([each, each], abs=EXACT)


@cases("number", range(5))
def test_the_store_never_idles_while_somebody_reads(number: int) -> None:
    """From the first who begins to the last who ends, as long as somebody reads, each job takes 100 s of its time."""
    generator = np.random.default_rng(number)
    starts = np.sort(generator.uniform(1000.0, 1300.0, size=5))
    one = case(sizes=(2,) * 5)
    rows = [(float(start), 0, int(job)) for start, job in zip(starts, generator.permutation(5), strict=True)]
    result = sim.run(one, 0, trace(rows), keeps_timeline=True)
    assert result.timeline is not None
    restore = sim.JOB_BUCKETS.index("restore")
    spans = sorted((span.start, span.end) for span in result.timeline.spans if span.bucket == restore)
    assert [start for start, _ in spans] == pytest.approx([start + 30 for start in starts], abs=EXACT)
    free = [spans[0][0]]
    for start, _ in spans:
        # Whoever finds the store free begins a new time of its being read.
        if start >= free[-1]:
            free.append(start)
        free[-1] += 100.0
    ends = sorted(end for _, end in spans)
    for end in free[1:]:
        assert min(abs(end - other) for other in ends) < EXACT
    assert ends[-1] == pytest.approx(free[-1], abs=EXACT)


# -------------------------------------------------------------------------------------------- who cannot take more


@cases(
    ("sizes", "expected"),
    [
        ((1,), (400,)),
        ((4,), (100,)),
        ((8,), (100,)),
        ((1, 1), (400, 400)),
        ((1, 4), (400, 400 / 3)),
        ((4, 1), (400 / 3, 400)),
        ((8, 1, 4), (800 / 3, 400, 800 / 3)),
        ((1, 1, 1, 1), (400, 400, 400, 400)),
        ((2, 2, 2), (300, 300, 300)),
    ],
)
def test_what_nodes_cannot_take_is_for_the_others(sizes: tuple[int, ...], expected: tuple[float, ...]) -> None:
    """A node reads at 2.5 MB/s: a job of one node takes a quarter of the store, and the others share the rest."""
    one = case(sizes=sizes, checkpoint=of_store(node_bandwidth="2.5 MB/s"))
    rows = [(1000, 0, job) for job in range(len(sizes))]
    assert restoring(one, rows) == pytest.approx(expected, abs=EXACT)


def test_what_is_left_is_shared_anew_when_somebody_ends() -> None:
    """Of two nodes each, at 5 MB/s at most: three at a third each, until one that began 150 s earlier ends.

    It has read three quarters in those 150 s, at half the store, and takes 75 s for the rest at a third. The others
    have a quarter by then, and half the store each again: 150 s more.
    """
    one = case(sizes=(2, 2, 2), checkpoint=of_store(node_bandwidth="2.5 MB/s"))
    found = restoring(one, [(1000, 0, 0), (1150, 0, 1), (1150, 0, 2)])
    assert found == pytest.approx([150 + 75.0, 75 + 150.0, 75 + 150.0], abs=EXACT)


def test_without_an_aggregate_nobody_is_in_the_way() -> None:
    """Two nodes read at 10 MB/s together, whoever else does; and times that are stated are nobody else's either."""
    one = case(checkpoint={"size": "1 GB", "tiers": [{"interval": "100 s", "node_bandwidth": "5 MB/s"}]})
    assert restoring(one, [(1000, 0, 0), (1000, 0, 1)]) == pytest.approx([100.0, 100.0], abs=EXACT)
    stated = case(checkpoint={"tiers": [REMOTE]})
    assert restoring(stated, [(1000, 0, 0), (1000, 0, 1)]) == pytest.approx([20.0, 20.0], abs=EXACT)


def test_copies_on_nodes_are_nobody_elses() -> None:
    """Job 0 has lost a node and reads the store; job 1 reads its own memory in 1 s, and is not in the way."""
    one = case(cause("crash"), software(), checkpoint={"size": "1 GB", "tiers": [HOST, STORE]})
    result = play(one, [(1005, 0, 0), (1005, 1, 1)])
    assert [job.restores for job in result.jobs] == [{"remote": 1}, {"host": 1}]
    assert seconds(result, 0)["restore"] == pytest.approx(100.0, abs=EXACT)
    assert seconds(result, 1)["restore"] == pytest.approx(1.0, abs=EXACT)


# ------------------------------------------------------------------------------------------------- who is cut off


@cases("second", [software("second"), cause("second", repair="100 s")], ids=["its processes", "a node of it"])
def test_a_failure_in_mid_restore_gives_its_share_to_the_other(second: dict[str, Any]) -> None:
    """Job 1 fails again 50 s after both began, with a quarter read, and begins anew 30 s later.

    By then job 0 has 0.45 left: 90 s at half. Job 1 has 0.55 left after those: 55 s.
    """
    one = case(software("first"), second)
    slot = 1 if second["use"] == "job" else 2
    found = restoring(one, [(1000, 0, 0), (1000, 0, 1), (1080, 1, slot)])
    assert found == pytest.approx([50 + 30 + 90.0, 50 + 90 + 55.0], abs=EXACT)


def test_nobody_reads_while_a_failure_is_being_found() -> None:
    """The second failure is known after 45 s: job 0 has read everything before job 1 begins anew."""
    one = case(software("first"), software("second", detection="45 s"))
    table = [(1000, 0, 0), (1000, 0, 1), (1080, 1, 1)]
    assert restoring(one, table) == pytest.approx([50 + 75.0, 50 + 100.0], abs=EXACT)


def test_who_gives_its_nodes_back_reads_no_longer() -> None:
    """Job 1 is preempted 50 s after both began; the clock of its failures stands still while it is away."""
    one = case(software(), preemption("500 s"))
    found = restoring(one, [(1000, 0, 0), (1000, 0, 1), (1080, 1, 1)])
    assert found == pytest.approx([50 + 75.0, 50 + 100.0], abs=EXACT)


def test_both_are_cut_off() -> None:
    """Both fail again, one 20 s and one 40 s after they began; both begin anew, 20 s apart."""
    found = restoring(case(), [(1000, 0, 0), (1000, 0, 1), (1050, 0, 0), (1070, 0, 1)])
    # Job 1 reads alone from 1050 to 1070 s; job 0 alone from 1080 to 1100 s.
    assert found == pytest.approx([20 + 180.0, 40 + 180.0], abs=EXACT)


# ---------------------------------------------------------------------------------------- what is not of the store


@cases("later", [0, 20, 50, 110])
def test_reading_in_is_not_shared(later: float) -> None:
    """It takes 20 s whoever else does it, and the store is free for others meanwhile."""
    one = case(checkpoint=of_store(read_in="20 s"))
    each = 20 + 200.0 - min(later, 100.0)
    assert restoring(one, [(1000, 0, 0), (1000 + later, 0, 1)]) == pytest.approx([each, each], abs=EXACT)


def test_a_failure_before_the_transfer_takes_nothing_from_the_other() -> None:
    """Job 1 fails again after 10 s of its 20 s, and transfers from 1090 s on; job 0 has done so from 1050 s on."""
    one = case(checkpoint=of_store(read_in="20 s"))
    found = restoring(one, [(1000, 0, 0), (1000, 0, 1), (1040, 0, 1)])
    assert found == pytest.approx([20 + 40 + 120.0, 10 + 20 + 120 + 40.0], abs=EXACT)


# ----------------------------------------------------------------------------------------------- a store that is out


def test_an_outage_of_the_store_is_one_for_all_jobs() -> None:
    """A fault of storage strikes job 0 at 300 s; job 1, which fails at 400 s, waits until 800 s as well."""
    one = case(storage("500 s"), software(), checkpoint={"tiers": [REMOTE]})
    assert restoring(one, [(300, 0, 0), (400, 1, 1)]) == pytest.approx([470 + 20.0, 370 + 20.0], abs=EXACT)


def test_who_fails_later_than_the_outage_does_not_wait() -> None:
    """At 830 s the store has been back for 30 s."""
    one = case(storage("500 s"), software(), checkpoint={"tiers": [REMOTE]})
    assert restoring(one, [(300, 0, 0), (800, 1, 1)]) == pytest.approx([470 + 20.0, 20.0], abs=EXACT)


def test_all_who_have_waited_read_together() -> None:
    """The store is back at 1100 s, and gives each half."""
    one = case(storage("100 s"), software())
    assert restoring(one, [(1000, 0, 0), (1060, 1, 1)]) == pytest.approx([70 + 200.0, 10 + 200.0], abs=EXACT)


def test_of_outages_of_two_jobs_the_one_that_ends_later_counts() -> None:
    """Both strike before anybody reads: the second, of 100 s only, does not bring the store back at 1110 s."""
    one = case(storage("300 s"), storage("100 s", "second"), checkpoint={"tiers": [REMOTE]})
    assert restoring(one, [(1000, 0, 0), (1010, 1, 1)]) == pytest.approx([270 + 20.0, 260 + 20.0], abs=EXACT)

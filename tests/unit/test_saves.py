"""Saves of a whole job, worked out by hand: the first after a start, and the work that comes before a known event."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ettrick import sim
from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.results.run import document
from ettrick.sim.policies.contracts import Bucket
from ettrick.sim.run import with_engine
from tests.cases import cases
from tests.harness import prepared, results_of, seconds, trace

if TYPE_CHECKING:
    from collections.abc import Sequence

pytest.importorskip("numba")

pytestmark = pytest.mark.timeout(900)  # the first one may have to make the machine code


def in_both(case: sim.Prepared, rows: Sequence[tuple[float, ...]] = ()) -> sim.Result:
    """Run failures written by hand in both engines; return what both found, to the last bit."""
    results = [sim.run(with_engine(replace(case, engine=engine), 1), 0, trace(rows)) for engine in ENGINES]  # type: ignore[arg-type]
    events, compiled = results
    assert events.jobs[0].totals.tolist() == compiled.jobs[0].totals.tolist()
    assert events.cluster.tolist() == compiled.cluster.tolist()
    assert (events.counts, events.events) == (compiled.counts, compiled.events)
    return events


ENGINES = ("events", "compiled")


# ----------------------------------------
# A save that takes longer to write than the interval between two.


def slow_writes(when_busy: str, **changes: Any) -> sim.Prepared:
    """Return a job that saves after each 200 s of stepping, which takes 300 s to write and none to copy."""
    tier = {"interval": "200 s", "mode": "async", "write": "300 s", "restore": "20 s", "when_busy": when_busy}
    return prepared(checkpoint={"tiers": [{**tier, **changes}]}, horizon="6000 s")


@cases(
    ("when_busy", "committed"),
    [
        # Due at 200 s of work; at 400 s it is still being written; at 600 s again, which is durable at 900 s.
        ("skip", 600.0),
        # Due at 200 s; the one of 400 s waits until 500 s and is durable at 800 s; the next begins there.
        ("wait", 500.0),
    ],
)
def test_the_first_save_after_each_start_comes_at_the_stated_interval(when_busy: str, committed: float) -> None:
    """Nothing is on its way after a start, so nothing has to wait: the first save is due after 200 s, not 300 or 400 s.

    The job steps from 30 s on. The failure at 1000 s finds 970 s of work; the one 970 s after the restart (30 s to
    initialize, 20 s to restore) finds as much beyond what was committed.
    """
    result = in_both(slow_writes(when_busy), [(1000.0, 0, 0), (2020.0, 0, 1)])
    lost = 2 * (970.0 - committed)
    found = seconds(result)
    assert found["lost_work"] == pytest.approx(lost, abs=1e-9)
    assert found["productive"] == pytest.approx(6000.0 - 30.0 - 2 * 50.0 - lost, abs=1e-9)


def test_steps_of_the_first_save() -> None:
    """With steps of 70 s the first save comes after three of them, and the next after five more: 210 s and 560 s."""
    case = prepared(
        checkpoint={"tiers": [{"interval": "200 s", "mode": "async", "write": "300 s", "restore": "20 s"}]},
        jobs=[{"name": "job", "gpus": 2, "step_time": "70 s"}],
        horizon="3000 s",
    )
    for at, committed in ((509.0, 0.0), (510.0, 210.0), (859.0, 210.0), (860.0, 560.0)):
        # The save is complete before the failure of its instant.
        assert seconds(in_both(case, [(30.0 + at, 0, 0)]))["lost_work"] == pytest.approx(at - committed, abs=1e-9)


@pytest.mark.parametrize("mtti", [400.0, 3600.0])
def test_the_closed_form_knows_the_first_save(mtti: float) -> None:
    """Saves k = 1, 2, ... of 200 s and then 300 s each are durable 300 s after they begin: e^(-t/M) of each is kept.

    A restart takes 50 s, and failures strike meanwhile: a cycle of running and restarting is M e^(50 s / M) long.
    """
    case = prepared(
        checkpoint={"tiers": [{"interval": "200 s", "mode": "async", "write": "300 s", "restore": "20 s"}]},
        jobs=[{"name": "job", "gpus": 4}],
        failures=[{"use": "job", "name": "crash", "law": {"use": "exponential", "mean": f"{mtti} s"}}],
        horizon="1000 d",
    )
    kept = sum((300.0 if number else 200.0) * math.exp(-(500.0 + 300.0 * number) / mtti) for number in range(2000))
    share = sim.closed_form(case).shares["productive"]
    assert share == pytest.approx(kept / (mtti * math.exp(50.0 / mtti)), rel=1e-9)
    simulated = next(results_of(case, 1)).jobs[0]
    # Some 1000 d / 400 s cycles, each with a spread of the order of its mean.
    assert simulated.buckets[0] / simulated.requested == pytest.approx(share, rel=5 / math.sqrt(86_400e3 / mtti))


@cases(("when_busy", "time"), [("skip", 1000.0), ("wait", 1000.0), ("wait", 499.0), ("skip", 250.0), ("wait", 130.0)])
def test_a_job_of_a_stream_saves_as_a_named_one(when_busy: str, time: float) -> None:
    """The same failure takes the same work of a job of a stream, whose saves are counted, as of a named job."""
    tier = {"interval": "200 s", "mode": "async", "stall": "4 s", "write": "300 s", "restore": "20 s"}
    shape: dict[str, Any] = {
        "checkpoint": {"tiers": [{**tier, "when_busy": when_busy}]},
        "cluster": {"nodes": 2, "gpus_per_node": 1, "fabric": {"rails": 1}},
        "recovery": {"use": "hot-spare", "initialize": "0 s"},
        "horizon": "3000 s",
        "repair": {"time": "0 s"},
    }
    rows = trace([(time, 0, 0)])
    named = seconds(sim.run(prepared(**shape), 0, rows))
    stream = {"name": "many", "arrivals": {"use": "backlog", "pending": 1}, "gpus": 2, "work": "horizon"}
    fleet = sim.run(prepared(**shape, jobs=[], streams=[stream]), 0, rows).fleet
    lost = sum(float(row.sum()) for key, row in fleet.ledger.items() if key.bucket == Bucket.LOST_WORK)
    assert lost == pytest.approx(2 * named["lost_work"], abs=1e-6)


# ----------------------------------------
# Work that comes before a known event is done before it.


def window(start: float, duration: float, first: int = 0, **more: Any) -> dict[str, Any]:
    """Return planned work on one node."""
    windows = [{"start": f"{start} s", "duration": f"{duration} s", "first": first}]
    return {"use": "maintenance", "name": "care", "windows": windows, **more}


def two_nodes(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return a job of all nodes of its cluster, which steps from 30 s on and saves, in 10 s, only when it has to."""
    tier = {"interval": "100 d", "mode": "blocking", "write": "10 s", "restore": "20 s"}
    cluster = {"nodes": 2, "gpus_per_node": 1, "fabric": {"rails": 1}}
    base = {"cluster": cluster, "checkpoint": {"tiers": [tier]}, "failures": list(sources)}
    return prepared(**{**base, **changes})


@cases(
    ("notice", "lost", "stall"),
    [(None, 0.0, 10.0), ("10 s", 0.0, 10.0), ("9 s", 270.0, 0.0)],
    ids=["without", "just enough", "too short"],
)
def test_the_save_before_a_window_is_over_when_it_opens(notice: str | None, lost: float, stall: float) -> None:
    """The save of 10 s ends at 300 s, when the node goes; it is back at 400 s, and the job steps 50 s later.

    Without a save the job has to start from nothing, for which there is no restore.
    """
    one = two_nodes(window(300, 100, **({} if notice is None else {"notice": notice})))
    found = seconds(in_both(one, [(300.0, 0, 0, 400.0)]))
    assert found.get("checkpoint_stall", 0.0) == pytest.approx(stall, abs=1e-9)
    assert found.get("lost_work", 0.0) == pytest.approx(lost, abs=1e-9)
    assert found["starved"] == pytest.approx(100.0, abs=1e-9)
    restart = 50.0 if stall else 30.0
    assert found["productive"] == pytest.approx(270.0 - stall - lost + 600.0 - restart, abs=1e-9)


def test_a_job_that_will_be_done_before_a_window_does_not_save() -> None:
    """Of 265 s of work 5 s are left when a save would have to begin: it is done at 295 s."""
    one = two_nodes(window(300, 100), jobs=[{"name": "job", "gpus": 2, "work": {"time": "265 s"}}])
    job = in_both(one, [(300.0, 0, 0, 400.0)]).jobs[0]
    assert job.finished
    assert job.end == pytest.approx(295.0, abs=1e-9)


def test_a_sign_leaves_time_to_save_on_the_node_that_goes() -> None:
    """The node goes at 310 s, when the job has saved, and its repair of 100 s begins then: nobody works on it."""
    cause = {"use": "component", "name": "wear", "part": "node", "law": {"use": "exponential", "mean": "1000 d"}}
    health = {"prediction": {"recall": 1.0, "precision": 1.0, "lead": "10 s"}}
    one = two_nodes({**cause, "renews": "never", "repair": "100 s"}, health=health)
    result = in_both(one, [(300.0, 0, 0)])
    found = seconds(result)
    assert found["checkpoint_stall"] == pytest.approx(10.0, abs=1e-9)
    assert found["starved"] == pytest.approx(100.0, abs=1e-9)
    assert result.down_node_seconds == pytest.approx(100.0, abs=1e-9)
    assert found["productive"] == pytest.approx(270.0 + 1000.0 - 310.0 - 100.0 - 50.0, abs=1e-9)


def test_a_batch_of_a_rollout_saves_before_it() -> None:
    """Nodes go at 300 s and 400 s for 50 s each: saved from 290 s on; 50 s after each return the job steps again."""
    rollout = {"use": "rollout", "name": "driver", "start": "300 s", "nodes_per_day": 864.0, "duration": "40 s"}
    found = seconds(sim.run(two_nodes(rollout), 0))
    # It steps from 390 s on, when the save for the second node has to begin: 260 s, none, and 510 s of stepping.
    assert found["checkpoint_stall"] == pytest.approx(20.0, abs=1e-9)
    assert found["starved"] == pytest.approx(80.0, abs=1e-9)
    assert found["productive"] == pytest.approx(260.0 + 510.0, abs=1e-9)
    assert "lost_work" not in found


# ----------------------------------------
# What stays although it is wrong, and jobs that nobody starts again.


@cases("retain", [1, 2, 3, 4, 5, 9])
def test_to_keep_fewer_checkpoints_never_helps(retain: int) -> None:
    """From 700 s on the node computes wrongly, which is noticed at 1500 s; the newest save before holds 600 s of work.

    The job steps from 30 s on and saves, in 10 s, after each 100 s. With five checkpoints or more the newest sound one
    is left; with fewer the oldest is read, and what of it is wrong is no more productive than what is done again.
    """
    corrupt = {"effect": "corrupt", "detection": {"use": "fixed", "value": "800 s"}, "renews": "never"}
    source = {"use": "component", "name": "sdc", "part": "node", "law": {"use": "exponential", "mean": "1000 d"}}
    tier = {"interval": "100 s", "mode": "blocking", "write": "10 s", "restore": "20 s", "retain": retain}
    case = prepared(failures=[source | corrupt], checkpoint={"tiers": [tier]}, horizon="3000 s")
    result = sim.run(case, 0, trace([(700.0, 0, 0)]))
    found = seconds(result)
    # 1340 s of work by 1500 s: saves at 100, ..., 1300 s of work; 600 s are sound, and so many checkpoints newer.
    kept = max(1300.0 - 100.0 * (retain - 1), 600.0)
    assert found["lost_work"] == pytest.approx(1340.0 - kept, abs=1e-9)
    assert found.get("wrong_work", 0.0) == pytest.approx(kept - 600.0, abs=1e-9)
    assert result.jobs[0].accepted == (kept > 600.0)
    assert result.jobs[0].work == pytest.approx(found["productive"], abs=1e-9)


def test_a_job_that_gives_up_has_an_end_of_its_own() -> None:
    """One restart is allowed: the failure at 500 s is the last, and the 2500 s after it are no rescheduling."""
    rung = {"name": "restart", "keeps": "hosts", "launch": "30 s", "budget": 1}
    ladder = {"use": "ladder", "resets_on_progress": False, "gives_up": True, "rungs": [rung]}
    case = prepared(recovery=ladder, horizon="3000 s")
    result = in_both(case, [(300.0, 0, 0), (500.0, 1, 1)])
    found = seconds(result)
    job = result.jobs[0]
    assert found["given_up"] == pytest.approx(2500.0, abs=1e-9)
    assert "reschedule" not in found
    assert (job.given_up, job.given_up_for) == (500.0, 2)
    assert job.waiting_for_nodes == pytest.approx(2500.0 * job.gpus, abs=1e-6)

    windows = [{"start": f"{start} s", "duration": "9 s", "first": first} for first, start in enumerate((300, 500))]
    planned = {"use": "maintenance", "name": "care", "windows": windows, "saves": False}
    told = document(replicate(prepared(recovery=ladder, horizon="3000 s", failures=[planned]), 1), command="")
    row = told.per_job["job"]
    assert (row.given_up, row.given_up_at_s, row.given_up_for) == (1, 500.0, {"care": 1})
    assert any("failed for good in 1 of 1 replications" in note for note in told.notes)


@cases(
    ("recovery", "never"),
    [
        ({"use": "hot-spare", "initialize": "30 s"}, {"peer": "hot-spare keeps no process"}),
        (
            {"use": "full-restart", "initialize": "30 s"},
            dict.fromkeys(("peer", "host"), "full-restart gives all nodes back"),
        ),
        ({"use": "ladder", "rungs": [{"name": "in-process", "keeps": "processes"}]}, {}),
    ],
)
def test_a_store_that_is_never_read_is_said(recovery: dict[str, Any], never: dict[str, str]) -> None:
    """A live peer hands its state to processes that are kept; the memory of a node is read by who keeps the node."""
    tiers = [
        {"store": "peer", "restore": "0 s"},
        {"store": "host", "interval": "100 s", "write": "0 s", "restore": "5 s"},
        {"store": "remote", "interval": "300 s", "write": "10 s", "restore": "20 s"},
    ]
    jobs = [{"name": "job", "gpus": 2, "parallelism": {"data": 2}}]
    case = prepared(recovery=recovery, checkpoint={"tiers": tiers}, jobs=jobs)
    told = [line for line in case.warnings if "never read" in line]
    assert len(told) == len(never)
    for line, (store, why) in zip(told, never.items(), strict=True):
        index = [tier["store"] for tier in tiers].index(store)
        assert line.startswith(f"checkpoint.tiers.{index}: store {store} is never read: {why.split()[0]} ")


def test_a_write_that_slows_training_down() -> None:
    """Of a write of 60 s a slowdown of 20 % takes 12 s of training; the save is durable after 60 s all the same."""
    tier = {"interval": "100 s", "mode": "async", "write": "60 s", "restore": "20 s", "slowdown": "20 %"}
    case = prepared(checkpoint={"tiers": [tier]})
    # The job steps from 30 s on: saves begin at 130 s and 242 s, and are durable at 190 s and 302 s.
    for time, lost in ((189.0, 147.0), (190.0, 48.0), (301.0, 147.0), (302.0, 48.0)):
        found = seconds(in_both(case, [(time, 0, 0)]))
        assert found["lost_work"] == pytest.approx(lost, abs=1e-9)
    assert found["checkpoint_stall"] == pytest.approx(2 * 12.0 + 5 * 12.0, abs=12.0 + 1e-9)


def test_every_replica_may_read_for_itself() -> None:
    """1 TB at 100 GB/s takes 10 s if each byte is read once, and 80 s if eight replicas read all of it."""
    tier = {"interval": "100 s", "mode": "async", "aggregate": "100 GB/s"}
    shape = {"jobs": [{"name": "job", "gpus": 8, "parallelism": {"data": 8}}]}
    cluster = {"nodes": 9, "gpus_per_node": 1, "fabric": {"rails": 1}}
    for reads, restore in (("once", 10.0), ("replica", 80.0)):
        checkpoint = {"size": "1 TB", "tiers": [{**tier, "reads": reads}]}
        case = prepared(checkpoint=checkpoint, cluster=cluster, **shape)
        found = seconds(in_both(case, [(500.0, 0, 0)]))
        assert found["restore"] == pytest.approx(restore, abs=1e-9)


@cases(
    ("changes", "rule"),
    [
        ({"slowdown": "5 %", "mode": "blocking"}, "slowdown: is for mode: async"),
        ({"reads": "replica"}, "reads: is for times from bandwidths"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], rule: str) -> None:
    """A blocking save has nothing to slow down, and a stated time says already who reads."""
    tier = {"interval": "100 s", "mode": "async", "write": "60 s", "restore": "20 s"}
    with pytest.raises(sim.ScenarioError, match=rule):
        prepared(checkpoint={"tiers": [{**tier, **changes}]})

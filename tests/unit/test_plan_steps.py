"""Every kind of plan step through the engine, with the seconds of each bucket worked out by hand.

Unless a case says otherwise: one GPU a node, saves of 10 s after each 100 s of stepping, 20 s to restore, repairs of
200 s, failures known at once, a horizon of 1000 s. Seconds are those of the whole gang.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick.sim.policies.contracts import (
    Acquire,
    Background,
    Bucket,
    ClusterView,
    FailureView,
    JobView,
    Memory,
    Plan,
    Requeue,
    Restore,
    Run,
    Stall,
)
from tests.cases import cases
from tests.harness import exactly, losses, play, prepared, seconds

if TYPE_CHECKING:
    from ettrick import sim

EXACT = 1e-9

FIRST, SECOND = 0, 1

"""The two sources of the scenario."""


@dataclass(frozen=True)
class Scripted:
    """A strategy that answers each cause with a plan written down beforehand."""

    first: Plan = ()
    second: Plan = ()
    begin: Plan = (Run(),)
    elastic: bool = False
    use: str = "scripted"
    narrows_on: frozenset[str] = frozenset()
    reroutes: bool = False
    seen: list[tuple[FailureView, JobView, ClusterView, Memory]] = field(default_factory=list)

    def keeps(self, lost: int, gpus: int) -> bool:
        """Return that no tensor group may step on with fewer GPUs."""
        return False

    def start(self, job: JobView) -> Plan:
        """Return the start that was written down."""
        return self.begin

    def plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Return the plan that was written down; the memory counts the plans."""
        self.seen.append((failure, job, cluster, memory))
        return self.first if failure.cause == "first" else self.second or self.first, (memory or 0) + 1


RESTART: Plan = (Stall(Bucket.INITIALIZE, 30.0), Restore(), Run())


def cluster(nodes: int, **more: Any) -> dict[str, Any]:
    """Return a cluster of single-GPU nodes."""
    return {"nodes": nodes, "gpus_per_node": 1, **more, "fabric": {"rails": 1}}


def elastic(replicas: int, width: int, nodes: int, **changes: Any) -> sim.Prepared:
    """Return a job of replicas of `width` nodes each."""
    gpus = replicas * width
    layout = {"data": replicas, "tensor": width}
    return prepared(
        cluster=cluster(nodes),
        jobs=[{"name": "job", "gpus": gpus, "parallelism": layout}],
        recovery={"use": "shrink-rejoin", "reconfigure": "0 s", "initialize": "0 s"},
        **changes,
    )


def test_exposed_stall() -> None:
    """A second failure in an exposed stall starts the plan again; the first one keeps the lost work."""
    recovery = Scripted((Stall(Bucket.INITIALIZE, 50.0), Acquire(), Restore(), Run()))
    case = prepared()
    one = play(case, [(250.0, FIRST, 0)], recovery)
    # Two saves, 30 s at risk; 50 + 20 s of recovery; 680 s hold six saves and 20 s.
    assert seconds(one) == exactly(productive=820, checkpoint_stall=80, lost_work=30, initialize=50, restore=20)
    two = play(case, [(250.0, FIRST, 0), (280.0, SECOND, 1)], recovery)
    assert seconds(two) == exactly(productive=800, checkpoint_stall=70, lost_work=30, initialize=80, restore=20)
    assert losses(case, two) == pytest.approx(
        {
            ("checkpoint_stall", "no_failure"): 70,
            ("lost_work", "first"): 30,
            ("initialize", "first"): 30,
            ("initialize", "second"): 50,
            ("restore", "second"): 20,
        },
        abs=EXACT,
    )
    assert two.jobs[0].interruptions == {1: 1, 2: 1}
    assert two.jobs[0].disruptions == {1: 1}
    assert two.jobs[0].merged == 1
    assert [(view[1].attempt, view[3]) for view in recovery.seen] == [(1, None), (1, None), (2, 1)]


def test_unexposed_stall() -> None:
    """A failure cannot hit a job in an unexposed stall: it does not happen, and is counted as suppressed."""
    recovery = Scripted((Stall(Bucket.INITIALIZE, 50.0, exposed="none"), Acquire(), Restore(), Run()))
    case = prepared()
    quiet = play(case, [(250.0, FIRST, 0)], recovery)
    two = play(case, [(250.0, FIRST, 0), (280.0, SECOND, 1)], recovery)
    assert seconds(two) == seconds(quiet)
    assert two.jobs[0].interruptions == {1: 1}
    assert two.counts["suppressed"] == 1
    assert two.down_node_seconds == 200.0
    # In the restore that follows, which is exposed, it does hit.
    later = play(case, [(250.0, FIRST, 0), (310.0, SECOND, 1)], recovery)
    assert later.jobs[0].interruptions == {1: 1, 2: 1}


def test_a_failure_at_the_very_end_of_a_phase_comes_after_it() -> None:
    """Ties: the phase ends before the failure hits, so the job was running for no time and is disrupted."""
    recovery = Scripted((Stall(Bucket.INITIALIZE, 50.0), Acquire(), Restore(), Run()))
    result = play(prepared(), [(250.0, FIRST, 0), (320.0, SECOND, 1)], recovery)
    assert result.jobs[0].disruptions == {1: 1, 2: 1}
    assert result.jobs[0].merged == 0


def test_lost_work_belongs_to_the_first_failure_of_the_incident() -> None:
    """A first plan that gives nothing up, cut short by a second that does: the loss is the first failure's."""
    recovery = Scripted((Stall(Bucket.RESCHEDULE, 50.0), Run()), (Restore(), Run()))
    case = prepared(repair={"time": "0 s"})
    loss = losses(case, play(case, [(250.0, FIRST, 0), (280.0, SECOND, 1)], recovery))
    assert loss["lost_work", "first"] == pytest.approx(30, abs=EXACT)
    assert ("lost_work", "second") not in loss
    assert loss["restore", "second"] == pytest.approx(20, abs=EXACT)
    # Once the job runs again the incident is over: 30 s and the 20 s from 300 to 320 are the second's.
    later = losses(case, play(case, [(250.0, FIRST, 0), (320.0, SECOND, 1)], recovery))
    assert later["lost_work", "second"] == pytest.approx(50, abs=EXACT)


@cases(("slow", "quick", "detected"), [("100 s", "10 s", 40.0), ("20 s", "100 s", 20.0)])
def test_the_earliest_detection_ends_the_wait(slow: str, quick: str, detected: float) -> None:
    """Of two failures 30 s or 5 s apart that nobody knows of, whichever is found first starts the recovery."""
    cause = {"use": "component", "part": "node", "rate": "1 per 1000 node-d"}
    failures = [{**cause, "name": "first", "detection": slow}, {**cause, "name": "second", "detection": quick}]
    recovery = Scripted((Acquire(), Restore(), Run()))
    second = 280.0 if detected == 40.0 else 255.0
    case = prepared(failures=failures)
    result = play(case, [(250.0, FIRST, 0), (second, SECOND, 1)], recovery)
    assert losses(case, result)["detection", "first"] == pytest.approx(detected, abs=EXACT)
    assert result.jobs[0].merged == 1
    assert [view[0].nodes_lost for view in recovery.seen] == [2]


@cases("pause", [Stall(Bucket.INITIALIZE, 30.0), Stall(Bucket.INITIALIZE, 30.0, exposed="none")])
def test_acquire_waits_for_a_repair(pause: Stall) -> None:
    """Without a spare the job is starved until its node is back, and goes on with its plan."""
    recovery = Scripted((Acquire(), pause, Restore(), Run()), begin=RESTART)
    result = play(prepared(cluster=cluster(2)), [(280.0, FIRST, 0)], recovery)
    # Starts at 30 s; fails at 280 s with 30 s at risk; starved for 200 s; runs from 530 s.
    assert seconds(result) == exactly(
        productive=630, checkpoint_stall=60, lost_work=30, initialize=60, restore=20, starved=200
    )


def test_acquire_gives_up_and_requeues() -> None:
    """After 60 s without a node the job goes back to the queue, and starts again when the node is there."""
    recovery = Scripted((Acquire(timeout=60.0, otherwise=(Requeue(40.0),)), *RESTART), begin=RESTART)
    case = prepared(cluster=cluster(2))
    result = play(case, [(280.0, FIRST, 0)], recovery)
    # Starved 280 to 340, rescheduled to 380, queued to 480, initialized to 510, restored to 530.
    assert seconds(result) == exactly(
        productive=630,
        checkpoint_stall=60,
        lost_work=30,
        initialize=60,
        restore=20,
        starved=60,
        reschedule=40,
        queued=100,
    )
    loss = losses(case, result)
    assert loss["initialize", "no_failure"] == pytest.approx(30, abs=EXACT)
    assert loss["initialize", "first"] == pytest.approx(30, abs=EXACT)
    assert loss["queued", "first"] == pytest.approx(100, abs=EXACT)


def test_acquire_some_of_what_is_missing() -> None:
    """With one node wanted of two missing, the plan goes on with one, and a later step takes the other."""
    plan = (Acquire(wanted=1), Stall(Bucket.INITIALIZE, 30.0), Acquire(), Restore(), Run())
    case = prepared(cluster=cluster(3), detection={"time": "10 s"})
    result = play(case, [(250.0, FIRST, 0), (255.0, FIRST, 1)], Scripted(plan))
    # Both known at 260; one idle node taken; initialized to 290; node 0 is back at 460; restored to 480.
    assert seconds(result) == exactly(
        productive=680, checkpoint_stall=60, lost_work=30, detection=10, initialize=30, starved=170, restore=20
    )


def test_acquire_replicas() -> None:
    """Waiting for one whole replica of two, the job goes on with the first that comes; the other joins later.

    Both nodes fail at 250 s and are known at 260 s; they are back at 400 and 450 s. The first has nobody to take the
    state from; the other needs 20 s.
    """
    away = Background(
        (Acquire(), Stall(Bucket.INITIALIZE, 20.0)), (Stall(Bucket.INITIALIZE, 5.0), Restore("live"), Run())
    )
    recovery = Scripted((away, Acquire(1, "replica"), Restore(), Run()), elastic=True)
    case = elastic(2, 1, 2, detection={"time": "10 s"})
    result = play(case, [(250.0, FIRST, 0, 400.0), (250.0, FIRST, 1, 450.0)], recovery)
    # 400 to 420 restore (half the gang), to 470 stepping at half, 5 s for the second to join, 525 s together.
    assert seconds(result) == exactly(
        productive=700, checkpoint_stall=70, lost_work=30, detection=10, starved=165, initialize=15, restore=10
    )


def test_restore_from_peers() -> None:
    """Peers lose the step in flight and no time: with steps of 7 s, 6 of the 20 s since the save."""
    case = prepared(jobs=[{"name": "job", "gpus": 2, "step_time": "7 s"}], repair={"time": "0 s"})
    result = play(case, [(250.0, FIRST, 0)], Scripted((Stall(Bucket.RESCHEDULE, 15.0), Restore("live"), Run())))
    # Intervals are 105 s. 250 = two cycles and 20 s; from 265 s on, 91 s to the next save, five cycles, 59 s.
    assert seconds(result) == exactly(productive=899, checkpoint_stall=80, lost_work=6, reschedule=15)


def test_requeue_lets_another_job_have_the_nodes() -> None:
    """A job that requeues gives its nodes to the one that waits, and gets them back when that one is done."""
    case = prepared(
        cluster=cluster(2),
        jobs=[{"name": "a", "gpus": 2}, {"name": "b", "gpus": 2, "arrival": "100 s", "work": {"time": "300 s"}}],
        failures=[{"use": "job", "name": "first", "rate": "1 per 1000 job-d"}],
    )
    result = play(case, [(260.0, FIRST, 0)], Scripted((Requeue(50.0),), begin=RESTART))
    # b: queued to 260, initialized to 290, 300 s of work with two saves to 610. a: eligible at 310, starts at 610.
    assert seconds(result, 0) == exactly(
        productive=510, checkpoint_stall=50, lost_work=10, reschedule=50, queued=300, initialize=60, restore=20
    )
    assert seconds(result, 1) == exactly(queued=160, initialize=30, productive=300, checkpoint_stall=20)
    assert result.jobs[1].finished
    assert result.jobs[1].end == 610.0
    assert losses(case, result, 1)["queued", "no_failure"] == pytest.approx(160, abs=EXACT)


def test_run_at_a_fraction() -> None:
    """At half the pace half of the time is degraded; what a rollback takes of it moves to lost work."""
    case = prepared(repair={"time": "0 s"})
    recovery = Scripted((Stall(Bucket.RESCHEDULE, 10.0), Run(0.5)), (Restore(), Run()))
    kept = play(case, [(250.0, FIRST, 0), (400.0, SECOND, 0)], recovery)
    # 260 to 330 at half: 35 + 35; saved to 340 with 265 s of work; 340 to 400 at half is lost: 30 + 30.
    assert seconds(kept) == exactly(
        productive=795, degraded=35, checkpoint_stall=80, lost_work=60, reschedule=10, restore=20
    )
    assert losses(case, kept)["degraded", "first"] == pytest.approx(35, abs=EXACT)
    assert losses(case, kept)["lost_work", "second"] == pytest.approx(60, abs=EXACT)
    # Before that save, 30 s at the full pace and 60 s at half go together.
    lost = play(case, [(250.0, FIRST, 0), (320.0, SECOND, 0)], recovery)
    assert seconds(lost) == exactly(productive=800, checkpoint_stall=80, lost_work=90, reschedule=10, restore=20)


REJOIN = (Stall(Bucket.INITIALIZE, 5.0), Restore("live"), Run())

SURVIVE = (Stall(Bucket.RESCHEDULE, 10.0), Restore("live"), Run())

ALONE = (Stall(Bucket.INITIALIZE, 60.0), Acquire(), Stall(Bucket.RESTORE, 15.0))


def test_a_replica_leaves_and_rejoins() -> None:
    """One replica of two is away from 250 to 325 s; the other steps on at its share of the pace."""
    recovery = Scripted((Background(ALONE, REJOIN), *SURVIVE), elastic=True)
    case = elastic(2, 2, 5)
    result = play(case, [(250.0, FIRST, 0)], recovery)
    # 65 s at half, then 5 s for all; five more saves.
    assert seconds(result) == exactly(productive=867.5, checkpoint_stall=85, reschedule=5, initialize=35, restore=7.5)
    assert {cause for bucket, cause in losses(case, result) if bucket != "checkpoint_stall"} == {"first"}
    assert result.jobs[0].disruptions == {1: 1}


@cases(
    ("reconfigure", "rescheduled", "initialized"),
    [("100 s", 100 - 30 / 2, 30 + 30 / 2), ("10 s", 10 / 2, 30 + 30 / 2 + 7)],
)
def test_the_background_begins_beside_reconfigure(reconfigure: str, rescheduled: float, initialized: float) -> None:
    """One of two replicas takes a new node at 250 s and is ready at 280 s, whatever the other one does until then.

    If that one is still regrouping, to 350 s, both step on from there without `rejoin`; else it has to stop for it.
    """
    recovery = {"use": "shrink-rejoin", "reconfigure": reconfigure, "initialize": "30 s", "rejoin": "7 s"}
    job = {"name": "job", "gpus": 2, "parallelism": {"data": 2}}
    result = play(prepared(cluster=cluster(3), jobs=[job], recovery=recovery), [(250.0, FIRST, 0)])
    assert seconds(result)["reschedule"] == pytest.approx(rescheduled, abs=EXACT)
    assert seconds(result)["initialize"] == pytest.approx(initialized, abs=EXACT)


def test_two_replicas_away_at_once() -> None:
    """Of four replicas two are away together, each starved until its own node is back."""
    away = Background((Acquire(), Stall(Bucket.INITIALIZE, 20.0)), REJOIN)
    recovery = Scripted((away, *SURVIVE), elastic=True)
    case = elastic(4, 1, 4)
    result = play(case, [(150.0, FIRST, 0), (200.0, SECOND, 1)], recovery)
    # Rates 1, 3/4 from 160, 1/2 from 210, 3/4 from 375, 1 from 425; rejoins at 370 and 420.
    assert seconds(result) == exactly(
        productive=798.75, checkpoint_stall=70, reschedule=12.5, starved=100, initialize=18.75
    )
    loss = losses(case, result)
    assert loss["starved", "first"] == pytest.approx(50, abs=EXACT)
    assert loss["starved", "second"] == pytest.approx(50, abs=EXACT)
    assert loss["initialize", "first"] == pytest.approx(5 + 3.75, abs=EXACT)
    assert loss["initialize", "second"] == pytest.approx(5 + 5, abs=EXACT)


def test_everything_fails() -> None:
    """One failure takes all nodes: no replica has anybody to take the state from, and all restart from the store."""
    away = Background((Acquire(), Stall(Bucket.INITIALIZE, 20.0)))
    recovery = Scripted((away, Acquire(2, "replica"), Restore(), Run()), elastic=True)
    rack = {"use": "component", "name": "first", "part": "rack", "rate": "1 per 1000 rack-d"}
    case = prepared(
        cluster=cluster(4, rack={"nodes": 4}),
        jobs=[{"name": "job", "gpus": 4, "parallelism": {"data": 2, "tensor": 2}}],
        recovery={"use": "shrink-rejoin", "reconfigure": "0 s", "initialize": "0 s"},
        failures=[rack],
    )
    result = play(case, [(250.0, FIRST, 0)], recovery)
    assert seconds(result) == exactly(productive=690, checkpoint_stall=60, lost_work=30, starved=200, restore=20)
    assert result.jobs[0].interruptions == {1: 1}
    assert result.down_node_seconds == 800.0


def test_a_missing_replica_with_the_batch_kept() -> None:
    """With the batch kept, a step takes twice as long on half of the replicas, and saves wait for whole steps."""
    batch = {"tokens": 1024, "sequence": 128, "on_loss": "keep"}
    base = {"name": "job", "gpus": 2, "step_time": "10 s", "parallelism": {"data": 2}, "batch": batch}
    recovery = Scripted((Background((Acquire(),)), Restore("live"), Run()), elastic=True)
    for on_loss, half_saves in (("keep", 7), ("shrink", 8)):
        job = base | {"batch": batch | {"on_loss": on_loss}}
        case = prepared(
            cluster=cluster(2),
            jobs=[job],
            recovery={"use": "shrink-rejoin", "reconfigure": "0 s", "initialize": "0 s"},
            checkpoint={"tiers": [{"interval": "90 s", "mode": "blocking", "write": "10 s", "restore": "20 s"}]},
        )
        result = play(case, [(200.0, FIRST, 0, 5000.0)], recovery)
        # Half of the gang from 200 s on: saves every 100 s with steps of 10 s, every 110 s with steps of 20 s.
        stall = 2 * 10.0 + half_saves * 10.0 / 2
        assert seconds(result)["checkpoint_stall"] == pytest.approx(stall, abs=EXACT)
        assert seconds(result)["starved"] == pytest.approx(400.0, abs=EXACT)
        assert seconds(result)["productive"] == pytest.approx(600.0 - stall, abs=EXACT)


def test_jobs_start_first_in_first_out() -> None:
    """Nobody overtakes; a finish closes that job only, and the accounting ends with the last job."""
    case = prepared(
        jobs=[
            {"name": "a", "gpus": 2, "work": {"time": "300 s"}},
            {"name": "b", "gpus": 3, "arrival": "50 s", "work": {"time": "200 s"}},
            {"name": "c", "gpus": 1, "arrival": "60 s", "work": {"time": "100 s"}},
        ]
    )
    result = play(case, (), Scripted())
    assert [job.start for job in result.jobs] == [0.0, 320.0, 320.0], "c would fit from 60 s on"
    assert [job.end for job in result.jobs] == pytest.approx([320.0, 530.0, 420.0], abs=EXACT)
    assert all(job.finished and not job.censored for job in result.jobs)
    assert seconds(result, 0) == exactly(productive=300, checkpoint_stall=20)
    assert seconds(result, 1) == exactly(queued=270, productive=200, checkpoint_stall=10)
    assert seconds(result, 2) == exactly(queued=260, productive=100)
    assert result.edges.tolist() == pytest.approx([0.0, 530.0], abs=EXACT)
    assert result.owned == pytest.approx(4 * 530, abs=EXACT)
    assert result.cluster[Bucket.UNALLOCATED] == pytest.approx(2120 - 640 - 630 - 100, abs=1e-6)


def test_an_unfinished_job_is_censored() -> None:
    """2000 s of work in 1000 s: not finished, censored, and its deadline is kept for the metrics."""
    jobs = [{"name": "job", "gpus": 2, "work": {"time": "2000 s"}, "deadline": "1500 s"}]
    case = prepared(jobs=jobs)
    result = play(case, (), Scripted())
    assert (result.jobs[0].finished, result.jobs[0].censored, result.jobs[0].end) == (False, True, 1000.0)
    assert result.jobs[0].work == pytest.approx(910.0, abs=EXACT)
    assert result.jobs[0].at_risk == pytest.approx(10.0, abs=EXACT)
    assert case.jobs[0].deadline == 1500.0


def test_a_job_that_never_starts() -> None:
    """A job behind one that never ends waits to the horizon: all of its time is queued, it has no start."""
    case = prepared(cluster=cluster(2), jobs=[{"name": "a", "gpus": 2}, {"name": "b", "gpus": 1, "arrival": "100 s"}])
    result = play(case, (), Scripted())
    assert seconds(result, 1) == {"queued": 900.0}
    assert math.isnan(result.jobs[1].start)
    assert result.jobs[1].elapsed == 0.0
    assert not result.jobs[1].censored


def test_warm_up() -> None:
    """The cluster lives before the jobs' time zero: a node that failed then is still in repair when the job arrives."""
    case = prepared(cluster=cluster(2), warmup="500 s")
    result = play(case, [(450.0, FIRST, 0)], Scripted())
    assert seconds(result) == exactly(queued=150, productive=780, checkpoint_stall=70)
    assert (result.jobs[0].arrival, result.jobs[0].start, result.jobs[0].end) == (0.0, 150.0, 1000.0)
    assert result.owned == 2000.0
    assert result.edges.tolist() == [0.0, 1000.0]
    assert result.down_node_seconds == 150.0
    assert result.cluster[Bucket.REPAIR] == pytest.approx(150.0, abs=EXACT)


def test_windows() -> None:
    """Lost work leaves the windows in which it was earned: 80 s of [200, 300) and 5 s of [300, 400)."""
    case = prepared(windows="100 s", repair={"time": "0 s"})
    result = play(case, [(305.0, FIRST, 0)], Scripted((Restore(), Run())))
    assert result.edges.tolist() == [100.0 * edge for edge in range(11)]
    table = result.jobs[0].totals.sum(axis=2) / 2
    assert table.sum(axis=1) == pytest.approx(np.full(10, 100.0), abs=EXACT)
    assert table[:, Bucket.LOST_WORK] == pytest.approx([0, 0, 80, 5, 0, 0, 0, 0, 0, 0], abs=EXACT)
    assert table[:4, Bucket.PRODUCTIVE] == pytest.approx([100, 90, 10, 75], abs=EXACT)
    plain = play(prepared(repair={"time": "0 s"}), [(305.0, FIRST, 0)], Scripted((Restore(), Run())))
    assert seconds(result) == pytest.approx(seconds(plain), abs=EXACT)


def test_what_is_drawn_above_the_mean() -> None:
    """A restart with a law counts how much longer than its mean it took."""
    one = prepared(recovery={"use": "hot-spare", "initialize": {"use": "exponential", "mean": "30 s"}})
    result = play(one, [(250.0, FIRST, 0)])
    drawn = seconds(result)["initialize"]
    assert result.jobs[0].excess in (pytest.approx(drawn - 30.0), pytest.approx(drawn - 60.0))


def test_the_node_time_of_a_job_that_runs_with_a_node_missing() -> None:
    """Two of three nodes are lost and one comes back: until the failure three step, from the restart on two."""
    case = prepared(cluster=cluster(3), detection={"time": "10 s"})
    job = play(case, [(250.0, FIRST, 0), (255.0, FIRST, 1)], Scripted((Acquire(wanted=1), Restore(), Run()))).jobs[0]
    assert job.node_seconds == pytest.approx(2 * 250.0 + (job.running - 250.0))

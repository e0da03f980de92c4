"""Streams of jobs by hand, to the second: who starts when, what a failure or a preemption costs, and which bucket."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ettrick import sim
from ettrick.sim.engine.prepared import PreparedStream, SavePlan
from ettrick.sim.engine.result import IDLE, NAMED, ROOTS
from ettrick.sim.policies.contracts import Bucket
from ettrick.sim.scenario.streams import Arrival, Chain, JobOverhead
from tests.cases import cases
from tests.harness import scenario, trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

INF = math.inf


class Rows:
    """Arrivals that are written down."""

    def __init__(self, rows: Sequence[Arrival]) -> None:
        self.rows = rows

    def __call__(self, seed: int, replication: int, end: float) -> Iterator[Arrival]:  # noqa: D102
        del seed, replication
        return (row for row in self.rows if row.submit < end)


def arrival(number: int, submit: float, gpus: int, work: float, limit: float = INF, **more: Any) -> Arrival:
    """Return a job that completes; without a limit of its own it has none."""
    return Arrival(number, submit, gpus, work, limit, more.pop("ends", work), more.pop("outcome", "completed"), **more)


def stream(
    rows: Sequence[Arrival],
    interval: float = INF,
    save: float = 0.0,
    restore: float = 0.0,
    drain: float = 0.0,
    save_share: float = 0.0,
    **more: Any,
) -> PreparedStream:
    """Return a stream of these jobs, with their checkpoints [s]; with a `save_share` a save takes all of the store."""
    plan = SavePlan(
        interval, JobOverhead(save), JobOverhead(restore), drain, (0.0, (drain or save) * save_share), save_share
    )
    return PreparedStream("stream", 0, Rows(rows), {row.gpus: plan for row in rows}, **more)


def play(
    rows: Sequence[Arrival],
    failures: Sequence[tuple[float, ...]] = (),
    *,
    nodes: int = 4,
    gpus: int = 1,
    of_stream: Mapping[str, Any] | None = None,
    causes: Sequence[Mapping[str, Any]] | None = None,
    **changes: Any,
) -> sim.Result:
    """Run jobs of a stream on failures written by hand."""
    changes.setdefault("scheduler", {"use": "fifo"})
    if causes is not None:
        changes["failures"] = list(causes)
    case = scenario(
        **{
            "cluster": {"nodes": nodes, "gpus_per_node": gpus, "fabric": {"rails": 1}},
            "jobs": [],
            "streams": [{"name": "stream", "arrivals": {"rate": "1 per h"}, "gpus": 1, "work": "horizon"}],
            **changes,
        }
    )
    prepared = replace(sim.prepare(sim.parse(case)), streams=(stream(rows, **(of_stream or {})),))
    return sim.run(prepared, 0, trace(failures), keeps_log=True)


def starts(result: sim.Result) -> dict[int, list[float]]:
    """Return when each job started, each time [s]."""
    found: dict[int, list[float]] = {}
    for attempt in sorted(result.attempts, key=lambda each: each.start):
        found.setdefault(attempt.job, []).append(attempt.start)
    return found


def charged(result: sim.Result) -> dict[tuple[str, int, int], float]:
    """Return the GPU-seconds of the jobs by bucket, root cause and via [GPU s]."""
    found: dict[tuple[str, int, int], float] = {}
    for key, seconds in result.fleet.ledger.items():
        if key.account.stream >= 0:
            name = (Bucket(key.bucket).name.lower(), key.cause, key.via)
            found[name] = found.get(name, 0.0) + float(seconds.sum())
    return {key: value for key, value in found.items() if value}


def idle(result: sim.Result) -> dict[str, float]:
    """Return the idle GPU-seconds by reason [GPU s]."""
    return {
        IDLE[key.cause]: float(seconds.sum())
        for key, seconds in result.fleet.ledger.items()
        if key.bucket == Bucket.UNALLOCATED
    }


EASY = {"use": "easy"}


def test_backfill_uses_extra_nodes() -> None:
    """A job that outlasts the shadow of the first may use what that leaves, and no more."""
    rows = [
        arrival(0, 0, 6, 10, 10),
        arrival(1, 1, 8, 10, 10),
        arrival(2, 2, 2, 100, 100),
        arrival(3, 2, 1, 5, 5),
        arrival(4, 2, 1, 100, 100),
    ]
    found = starts(play(rows, nodes=10, scheduler=EASY))
    assert found == {0: [0.0], 1: [10.0], 2: [2.0], 3: [2.0], 4: [20.0]}


def test_all_ends_at_one_instant_count() -> None:
    """Two jobs that end together make the shadow together."""
    rows = [arrival(0, 0, 2, 10, 10), arrival(1, 0, 2, 10, 10), arrival(2, 1, 3, 5, 5), arrival(3, 1, 1, 50, 50)]
    found = starts(play(rows, nodes=5, scheduler=EASY))
    assert found == {0: [0.0], 1: [0.0], 2: [10.0], 3: [1.0]}


def test_failure_moves_the_first_job_and_nothing_else() -> None:
    """A node that the shadow counted fails: the first job starts later, what was backfilled stays."""
    rows = [arrival(0, 0, 3, 10, 10), arrival(1, 1, 4, 5, 5), arrival(2, 2, 1, 8, 8)]
    never = {**EASY, "replacement": "never"}
    assert starts(play(rows, scheduler=never)) == {0: [0.0], 1: [10.0], 2: [2.0]}
    # The node returns 200 s later; the job that lost it is behind the first one, and goes before it all the same.
    found = starts(play(rows, [(5.0, 0, 0)], scheduler=never))
    assert found == {0: [0.0, 10.0], 1: [205.0], 2: [2.0]}


@pytest.mark.parametrize("kind", ["idle", "held"])
def test_drained_nodes_are_not_in_the_shadow(kind: str) -> None:
    """A window of maintenance ahead keeps jobs off its nodes that would run into it, idle or held by a job."""
    window = {"use": "maintenance", "name": "work", "windows": [{"start": "50 s", "duration": "100 s", "first": 3}]}
    first = 1 if kind == "idle" else 4
    rows = [arrival(0, 0, first, 10, 10), arrival(1, 1, 4, 60, 60), arrival(2, 2, 1, 20, 20)]
    result = play(rows, [(50.0, 0, 3, 150.0)], scheduler=EASY, causes=[window])
    assert starts(result)[1] == [150.0]


def cascade(scheduler: dict[str, Any], *, nodes: int = 8, losses: Sequence[float] = (), **recovery: Any) -> sim.Result:
    """Return endless jobs of one node below a job of eight that loses its processes."""
    rows = [arrival(number, 0, 1, INF, INF, priority=0) for number in range(400)]
    job = {"name": "large", "gpus": 8, "priority": 1}
    cause = {"use": "job", "name": "crash", "law": {"use": "exponential", "mean": "1e9 d"}}
    return play(
        rows,
        [(time, 0, 0) for time in losses],
        nodes=nodes,
        jobs=[job],
        causes=[cause],
        horizon="10 d",
        recovery={"use": "full-restart", "initialize": "0 s", "delay": "121 s", **recovery},
        scheduler={"use": "fifo", **scheduler},
    )


HOUR = 3600.0

LOSSES = (10 * HOUR, 30 * HOUR, 50 * HOUR)

REQUEUE = {"preempt": {"mode": "requeue"}}

OLD = {"preempt": {"mode": "requeue", "exempt": "2 h"}}


@cases(
    ("scheduler", "nodes", "delay", "victims"),
    [
        pytest.param(REQUEUE, 8, 121.0, 8, id="its nodes are taken, and taken back at once"),
        pytest.param({**REQUEUE, "requeue": {"holds_nodes": True}}, 8, 121.0, 0, id="it holds its nodes"),
        pytest.param(OLD, 8, 7200.0, 8, id="what has its nodes is young, and safe for two hours"),
        pytest.param(OLD, 16, 121.0, 8, id="others have run for two hours"),
    ],
)
def test_cascade(scheduler: dict[str, Any], nodes: int, delay: float, victims: int) -> None:
    """A large job that is requeued evicts what has taken its nodes: preemptions of second order, with their root."""
    result = cascade(scheduler, nodes=nodes, losses=LOSSES)
    fleet, job = result.fleet, result.jobs[0]
    stops = {(key.cause, key.via, key.by): rows.sum(axis=0) for key, rows in fleet.stops.items()}
    of_the_large_job = {(1, 0, -1): len(LOSSES)}
    assert {key: count for key, (count, _, _) in stops.items()} == of_the_large_job | (
        {(1, 1, 8): victims * len(LOSSES)} if victims else {}
    )
    waited = job.buckets[[Bucket.RESCHEDULE, Bucket.QUEUED]].sum() / job.gpus
    assert waited == pytest.approx(delay * len(LOSSES))


@cases(
    ("order", "victims"),
    [
        pytest.param("youngest", {2}, id="the youngest is the one that does"),
        pytest.param("smallest", {2}, id="the smaller ones are not needed"),
    ],
)
def test_one_victim_is_enough(order: str, victims: set[int]) -> None:
    """Of jobs of 2, 4 and 8 nodes, one of 8 that preempts stops the last alone."""
    rows = [
        *(arrival(number, number, nodes, 1000, 1000) for number, nodes in enumerate((2, 4, 8))),
        arrival(3, 10, 8, 100, 100, priority=1),
    ]
    keys = {"use": "fifo", "preempt": {"mode": "requeue", "order": order}}
    result = play(rows, nodes=14, scheduler=keys)
    assert {each.job for each in result.attempts if each.state == "preempted"} == victims
    assert starts(result)[3] == [10.0]


@cases(
    ("share", "whole"),
    [pytest.param("best-fit", 14, id="best fit"), pytest.param("spread", 6, id="spread")],
)
def test_shared_nodes(share: str, whole: int) -> None:
    """Ten jobs of one GPU leave 16 nodes of 8 whole but for two by best fit, but for ten if they are spread."""
    rows = [arrival(number, 0, 1, 1000, 1000) for number in range(10)]
    rows += [arrival(10 + number, 1, 8, 1000, 1000) for number in range(16)]
    result = play(rows, nodes=16, gpus=8, scheduler={"use": "fifo", "share_nodes": share}, horizon="500 s")
    assert sum(each.gpus == 8 for each in result.attempts) == whole


def test_stranded() -> None:
    """One job of a GPU on each node keeps a job of a whole node waiting, at an eighth of the GPUs."""
    rows = [arrival(number, 0, 1, 1000, 1000) for number in range(4)] + [arrival(4, 10, 8, 100, 100)]
    result = play(rows, nodes=4, gpus=8, scheduler={"use": "fifo", "share_nodes": "spread"}, horizon="1500 s")
    assert starts(result)[4] == [1000.0]
    assert idle(result)["wrong_places"] == 990 * 28


def test_reclaim() -> None:
    """What a tenant has lent comes back from the jobs that borrow, the newest first, and from no other."""
    tenants = [{"name": "a", "nodes": 8}, {"name": "b", "nodes": 8}]
    rows = [arrival(number, number, 1, 5000, 5000) for number in range(16)]
    rows.append(arrival(16, 100, 3, 50, 50, tenant=1))
    keys = {"use": "fifo", "preempt": {"mode": "requeue", "who": "none", "reclaim": "any"}}
    result = play(rows, nodes=16, scheduler=keys, tenants=tenants)
    stopped = {each.job: each.cause for each in result.attempts if each.state == "preempted"}
    assert stopped == dict.fromkeys((13, 14, 15), 1 + 2 + ROOTS.index("reclaim"))
    assert starts(result)[16] == [100.0]


def test_failure_is_charged_to_the_second() -> None:
    """Detection, lost work, restart and restore of a job whose node is replaced from the idle ones."""
    setup = {"interval": 50.0, "save": 2.0, "restore": 3.0, "restart": 7.0}
    result = play([arrival(0, 0, 2, 300)], [(120.0, 0, 1)], detection={"time": "10 s"}, of_stream=setup)
    # Work from 7 s on: 50 + 2, 50 + 2, then 9 s that are lost; 10 + 7 + 3 s later the other 200 with three saves.
    assert charged(result) == pytest.approx(
        {
            ("initialize", 0, 0): 14,
            ("productive", 0, 0): 600,
            ("checkpoint_stall", 0, 0): 20,
            ("lost_work", 1, 0): 18,
            ("detection", 1, 0): 20,
            ("initialize", 1, 0): 14,
            ("restore", 1, 0): 6,
        }
    )
    assert starts(result) == {0: [0.0]}
    assert result.attempts[0].end == 120 + 20 + 200 + 3 * 2


CRASH = {"use": "job", "name": "crash", "law": {"use": "fixed", "value": "120 s"}}


def test_a_save_at_which_a_window_ends_divides_the_work() -> None:
    """A job ends in the middle of a shared save that lets it step: it stepped before the stall and after it.

    It steps until 20 s, stalls 2 s, steps until 42 s, stalls 2 s, and steps its last 10 s while the save is written.
    From 40 s on that is 12 s of work and 2 s of stall; work spread over all of 22 to 54 s would be 13.125 s.
    """
    of_stream = {"interval": 20.0, "save": 2.0, "drain": 12.0, "save_share": 1.0}
    result = play([arrival(0, 0, 1, 50)], of_stream=of_stream, nodes=1, horizon="60 s", warmup="40 s")
    assert charged(result) == pytest.approx({("productive", 0, 0): 12, ("checkpoint_stall", 0, 0): 2})


def test_failures_of_processes_are_charged_to_the_second() -> None:
    """Each job has lives of its own, which run while its processes do; no node is lost, and neighbours go on."""
    setup = {"interval": 50.0, "save": 2.0, "restore": 3.0, "restart": 7.0}
    result = play([arrival(0, 0, 2, 300)], detection={"time": "10 s"}, of_stream=setup, causes=[CRASH])
    # As if a node failed at 120 s; the next life ends 120 s after the start that follows on detection, at 130 s: it has
    # worked 100 + 50 + 2 + 50 s and is 6 s into the third interval.
    assert charged(result)["lost_work", 1, 0] == 2 * (9 + 6)
    assert charged(result)["detection", 1, 0] == 2 * 20
    assert charged(result)["productive", 0, 0] == 600
    assert result.attempts[0].end == 250 + 10 + 10 + 100 + 2
    # Two jobs share a node, 60 s apart: each fails 120 s after its own start, and the other runs on.
    shared = play(
        [arrival(0, 0, 1, 130), arrival(1, 60, 1, 130)], nodes=1, gpus=8, detection={"time": "10 s"}, causes=[CRASH],
        of_stream={"interval": 50.0},
    )  # fmt: skip
    assert [each.end for each in shared.attempts] == [120 + 10 + 30, 60 + 120 + 10 + 30]
    assert charged(shared)["lost_work", 1, 0] == 2 * 20


def test_a_job_keeps_its_own_failures_under_another_policy() -> None:
    """The k-th job fails after the same time of running, wherever and whenever it starts: keys know no policy."""
    cause = {"use": "job", "name": "crash", "law": {"use": "exponential", "mean": "200 s"}}
    rows = [arrival(number, 10.0 * number, 1 + number % 2, 400) for number in range(40)]
    lost = []
    for nodes in (4, 80):
        result = play(rows, nodes=nodes, causes=[cause], horizon="1 d", of_stream={"interval": 100.0})
        assert len(result.attempts) == 40
        lost.append({each.job: each.end - each.start for each in result.attempts})
        (stops,) = [rows.sum(axis=0) for key, rows in result.fleet.stops.items() if key.account.size == 1]
    assert lost[0] == pytest.approx(lost[1])
    # Jobs of one GPU step 20 x 400 s and what they lose, which is E[min(X, 100 s)] in each interval that is begun
    # again.
    done, mean = 20 * 400, 200.0
    expected = done / 100 * math.expm1(100 / mean)
    assert abs(stops[0] - expected) < 4 * math.sqrt(2 * expected)


@cases(
    ("cause", "said"),
    [
        ({"use": "bug", "name": "bug", "rate": "1 per day", "fix": "1 h"}, "'bug' strikes only named jobs"),
        (
            {"use": "loss-spike", "name": "spike", "rate": "1 per day", "detection": "1 h"},
            "'spike' strikes only named jobs",
        ),
        (
            {
                "use": "component",
                "name": "slow",
                "part": "node",
                "rate": "1 per node-day",
                "effect": {"use": "slow", "factor": 0.5},
            },
            "'slow' does nothing to jobs of streams until it is noticed",
        ),
    ],
)
def test_what_strikes_named_jobs_alone_is_said(cause: dict[str, Any], said: str) -> None:
    """A source that does nothing to streams is refused without named jobs, and announced beside them."""
    case = scenario(
        jobs=[],
        streams=[{"name": "stream", "arrivals": {"rate": "1 per h"}, "gpus": 2, "work": "horizon"}],
        failures=[cause],
        detection={"time": "0 s"},
    )
    if cause["use"] == "component":
        assert [line for line in sim.prepare(sim.parse(case)).warnings if said in line]
        return
    with pytest.raises(sim.ScenarioError, match=f"failures.0.*{said}.*the scenario has none"):
        sim.parse(case)
    named = sim.parse({**case, "jobs": [{"name": "job", "gpus": 2, "step_time": "1 s"}]})
    assert [line for line in sim.prepare(named).warnings if said in line]


@cases(
    ("time", "lost"),
    [
        pytest.param(120.0, 16.0, id="the last save is durable"),
        pytest.param(114.0, 10.0 + 50.0, id="it is not yet, and the one before is"),
        pytest.param(60.0, 8.0 + 50.0, id="nothing is durable yet"),
        pytest.param(103.0, 50.0, id="the job saves"),
    ],
)
def test_a_save_is_durable_when_it_is_written(time: float, lost: float) -> None:
    """Saves of 2 s every 50 s that are written 15 s later: at 52 s the first has begun to be, at 104 s the second."""
    setup = {"interval": 50.0, "save": 2.0, "drain": 15.0}
    result = play([arrival(0, 0, 2, 300)], [(time, 0, 1)], detection={"time": "0 s"}, of_stream=setup)
    assert charged(result)["lost_work", 1, 0] == pytest.approx(2 * lost)
    assert charged(result)["productive", 0, 0] == pytest.approx(600)


def test_work_around_a_shared_save_is_charged_where_it_was() -> None:
    """A warm-up ends 5 s before a stall of 2 s, and a failure comes 8 s after it: it takes 5 and 8 s of 60, no mean."""
    setup = {"interval": 50.0, "save": 2.0, "drain": 15.0, "save_share": 1.0}
    keys: dict[str, Any] = {"warmup": "45 s", "detection": {"time": "0 s"}, "of_stream": setup}
    found = charged(play([arrival(0, 0, 2, 300)], [(60.0, 0, 1)], **keys))
    assert found["lost_work", 1, 0] == pytest.approx(2 * (5 + 8))
    assert found["checkpoint_stall", 0, 0] == pytest.approx(2 * 2 * 6)


@cases(("grace", "lost"), [pytest.param("10 s", 90.0, id="too short"), pytest.param("20 s", 0.0, id="long enough")])
def test_a_job_that_is_preempted_has_to_write_its_save(grace: str, lost: float) -> None:
    """A save of 2 s that takes 15 s to write needs a grace of 17 s."""
    rows = [arrival(0, 0, 4, 1000), arrival(1, 80, 4, 50, priority=1)]
    keys = {"use": "fifo", "preempt": {"mode": "requeue", "grace": grace}}
    result = play(rows, scheduler=keys, of_stream={"save": 2.0, "drain": 15.0})
    first = next(each for each in result.attempts if each.state == "preempted")
    assert first.lost == lost


def test_requeue_is_charged_to_the_second() -> None:
    """Without a replacement the job gives its nodes back and queues again after the delay."""
    rule = {"use": "fifo", "replacement": "never", "requeue": {"delay": "5 s"}}
    setup = {"interval": 50.0, "restart": 7.0}
    result = play([arrival(0, 0, 2, 300)], [(120.0, 0, 1)], scheduler=rule, of_stream=setup)
    assert starts(result) == {0: [0.0, 125.0]}
    assert charged(result)["queued", 1, 0] == 10
    assert charged(result)["lost_work", 1, 0] == 26
    assert result.attempts[-1].end == 125 + 7 + 200


@cases(
    ("grace", "end", "lost"),
    [
        pytest.param("1 min", 160.0, 0.0, id="time to save"),
        pytest.param("10 s", 110.0, 100.0, id="a save takes longer"),
        pytest.param("0 s", 100.0, 90.0, id="none"),
    ],
)
def test_grace(grace: str, end: float, lost: float) -> None:
    """A job that is preempted runs on for the grace, and has saved by its end if that was long enough."""
    rows = [arrival(0, 10, 4, 1000), arrival(1, 100, 4, 50, priority=1)]
    keys = {"use": "fifo", "preempt": {"mode": "requeue", "grace": grace}}
    result = play(rows, scheduler=keys, of_stream={"save": 20.0})
    first = next(each for each in result.attempts if each.state == "preempted")
    assert (first.end, first.lost) == (end, lost)
    assert starts(result)[1] == [end]
    assert charged(result).get(("checkpoint_stall", 0, 0), 0) == (80 if grace == "1 min" else 0)


@cases(
    ("limit", "rule", "state", "end"),
    [
        pytest.param(60.0, {}, "timeout", 60.0, id="killed"),
        pytest.param(60.0, {"overtime": "10 s"}, "timeout", 70.0, id="overtime"),
        pytest.param(60.0, {"at_limit": "run on"}, "completed", 100.0, id="runs on"),
        pytest.param(100.0, {}, "timeout", 100.0, id="a row that states its run time as its limit"),
    ],
)
def test_time_limit(limit: float, rule: dict[str, Any], state: str, end: float) -> None:
    """A job that is not over at its limit is killed, if limits kill; the start counts."""
    start = {"restart": 7.0} if limit == 100.0 else {}
    result = play([arrival(0, 0, 1, 100, limit)], scheduler={"use": "fifo", **rule}, of_stream=start)
    assert [(each.state, each.end) for each in result.attempts] == [(state, end)]


@cases(
    ("exact", "changes", "state", "end"),
    [
        pytest.param(False, {}, "timeout", 107.0, id="an estimate that was right kills"),
        pytest.param(True, {}, "completed", 130.0, id="exact"),
        pytest.param(True, {"partitions": [{"name": "p", "limit": "2 min"}]}, "timeout", 120.0, id="longest in p"),
    ],
)
def test_a_failure_within_the_limit(exact: bool, changes: dict[str, Any], state: str, end: float) -> None:
    """Who loses a node and goes on in place runs longer: an exact limit has room for that, up to the partition's."""
    setup = {"restart": 7.0, "exact": exact}
    rows = [arrival(0, 0, 1, 100, 107)]
    result = play(rows, [(20.0, 0, 0)], detection={"time": "3 s"}, of_stream=setup, **changes)
    assert [(each.state, each.end) for each in result.attempts] == [(state, end)]


@cases(
    ("work", "limit", "partition", "start"),
    [pytest.param(100, 107, "9 d", 116.0, id="left"), pytest.param(300, 60, "1 min", 119.0, id="of the partition")],
)
def test_an_exact_limit_after_a_stop_is_what_is_left(work: float, limit: float, partition: str, start: float) -> None:
    """A reservation counts on what a job that has saved 50 s still takes, and on the longest run of its partition."""
    setup = {"restart": 7.0, "exact": True, "interval": 50.0}
    rows = [arrival(0, 0, 2, work, limit), arrival(1, 61, 3, 5, 12), arrival(2, 62, 1, 53, 60)]
    scheduler = {**EASY, "replacement": "never"}
    only = [{"name": "p", "limit": partition}]
    result = play(rows, [(59.0, 0, 0, 70.0)], nodes=3, scheduler=scheduler, of_stream=setup, partitions=only)
    # From 59 s on it runs on the two nodes that are left; the third returns at 70 s, too late for 60 s beside it.
    assert starts(result)[1] == [start]
    assert starts(result)[2] == [start + 12]


@cases(
    ("notice", "restarts", "lost"),
    [
        pytest.param(5.0, [0.0, 97.0, 194.0], 0.0, id="time to save"),
        pytest.param(1.0, [0.0, 100.0, 200.0, 300.0], 40.0, id="a save takes longer than the notice"),
    ],
)
def test_chain(notice: float, restarts: list[float], lost: float) -> None:
    """Work longer than its limit is done in pieces: the job saves when it is told to, ends, and queues again."""
    chain = Chain.model_validate({"limit": "100 s", "notice": f"{notice} s"})
    setup = {"chain": chain, "save": 2.0, "restart": 10.0, "interval": 50.0}
    result = play([arrival(0, 0, 2, 230, 100)], of_stream=setup)
    assert starts(result)[0] == restarts
    assert [each.state for each in result.attempts] == ["timeout"] * (len(restarts) - 1) + ["completed"]
    assert result.attempts[0].lost == (lost and 38.0)


def test_spares_are_shared() -> None:
    """Two jobs lose a node each: the hot spare is for the first, the second queues for a whole gang."""
    rows = [arrival(0, 0, 2, 500), arrival(1, 0, 2, 500)]
    keys = {"nodes": 5, "spares": {"hot": 1}}
    result = play(rows, [(100.0, 0, 0), (110.0, 0, 2)], of_stream={"interval": 50.0}, **keys)
    # The first node is back at 300 s, as a spare; the second one at 310 s.
    assert starts(result) == {0: [0.0], 1: [0.0, 310.0]}


SAVES = {"tiers": [{"interval": "50 s", "mode": "blocking", "write": "10 s", "restore": "0 s"}]}


def test_a_named_job_that_is_preempted_is_counted() -> None:
    """A job of a stream stops a named one below it: one stop, by demand, via preemption, with what it lost."""
    job = {"name": "a", "gpus": 2, "step_time": "1 s"}
    rows = [arrival(0, 170, 4, 10, priority=1)]
    result = play(rows, jobs=[job], checkpoint=SAVES, scheduler={"use": "fifo", "preempt": {"mode": "requeue"}})
    fleet = result.fleet
    ((key, found),) = fleet.stops.items()
    assert (key.account.stream, key.account.size, key.via, key.by) == (NAMED, 2, 1, 4)
    assert fleet.causes[key.cause] == "demand"
    assert found.sum(axis=0).tolist() == [1, 2, 2 * 20]
    assert result.jobs[0].buckets[Bucket.LOST_WORK] == 2 * 20


@cases(
    ("named", "who", "start"),
    [
        ({}, "priority", 300.0),
        ({"priority": 1}, "priority", 10.0),
        ({"qos": 1}, "qos", 10.0),
        ({"partition": "high"}, "tier", 10.0),
        ({"tenant": "b"}, "none", 10.0),
    ],
)
def test_what_a_named_job_may_stop(named: dict[str, Any], who: str, start: float) -> None:
    """By priority, qos, tier of its partition, or what its tenant has lent: a named job counts as one of a stream."""
    job = {"name": "a", "gpus": 4, "arrival": "10 s", "work": {"time": "50 s"}, **named}
    both = {"partitions": [{"name": "low", "tier": 1}, {"name": "high", "tier": 2}]}
    tenants = {"tenants": [{"name": "a", "nodes": 0}, {"name": "b", "nodes": 4}]} if who == "none" else {}
    preempt = {"mode": "requeue", "who": who, "reclaim": "any" if who == "none" else "none"}
    stream = {"name": "stream", "arrivals": {"rate": "1 per h"}, "gpus": 1, "work": "horizon", "tenant": "a"}
    result = play(
        [arrival(0, 0, 4, 300)], jobs=[job], checkpoint=SAVES, scheduler={"use": "fifo", "preempt": preempt},
        **(both if who == "tier" else {}), **tenants, **({"streams": [stream]} if tenants else {}),
    )  # fmt: skip
    assert result.jobs[0].start == start


def test_a_named_job_that_waits_again_has_the_spares() -> None:
    """Two nodes of a named job of 3 fail, with an idle node and a hot spare: it starts again with both, at once."""
    job = {"name": "a", "gpus": 3, "step_time": "1 s"}
    never = {"recovery": {"use": "ladder", "rungs": [{"name": "requeue", "keeps": "nothing", "launch": "0 s"}]}}
    result = play(
        [arrival(0, 2000, 1, 10)], [(100.0, 0, 0), (100.0, 0, 1)], nodes=5, spares={"hot": 1}, jobs=[job],
        checkpoint=SAVES, **never,
    )  # fmt: skip
    waited = result.jobs[0].buckets[[Bucket.QUEUED, Bucket.STARVED, Bucket.RESCHEDULE]].sum()
    assert waited == 0


@cases(
    ("changes", "said"),
    [
        ({"jobs": [{"name": "a", "gpus": 2, "qos": 1}]}, "jobs.0.qos: decides about preemption"),
        ({"jobs": [{"name": "a", "gpus": 2, "partition": "x"}]}, "jobs.0.partition: .*x"),
        (
            {"jobs": [{"name": "a", "gpus": 2, "qos": 1}], "streams": []},
            "jobs.0.qos: is for jobs that share the cluster with streams",
        ),
        ({"templates": [{"name": "a", "gpus": 2, "priority": 1}]}, "templates.0.priority: is for streams to say"),
    ],
)
def test_keys_of_named_jobs_that_do_nothing(changes: dict[str, Any], said: str) -> None:
    """What nobody reads is refused in a line."""
    stream = {"name": "stream", "arrivals": {"rate": "1 per h"}, "gpus": 2, "work": "horizon"}
    with pytest.raises(sim.ScenarioError, match=said):
        sim.parse(scenario(**{"jobs": [], "streams": [stream], **changes}))


def test_what_counting_leaves_out_is_said() -> None:
    """A ladder and a second store are for named jobs; full fidelity of a stream is refused in a line."""
    stream = {"name": "stream", "arrivals": {"rate": "1 per h"}, "gpus": 2, "work": "horizon"}
    tier = {"interval": "10 min", "mode": "blocking", "write": "0 s", "restore": "0 s"}
    both = {"tiers": [{**tier, "store": "remote"}, {**tier, "store": "host", "interval": "1 min"}]}
    ladder = {"use": "ladder", "rungs": [{"name": "requeue", "keeps": "nothing", "launch": "0 s"}]}
    warnings = sim.prepare(sim.parse(scenario(jobs=[], streams=[stream], checkpoint=both, recovery=ladder))).warnings
    assert sum("fidelity: count" in line for line in warnings) == 2
    with pytest.raises(sim.ScenarioError, match=r"streams\.0\.fidelity: streams have no full recovery ladder"):
        sim.parse(scenario(jobs=[], streams=[{**stream, "fidelity": "full"}]))


def test_named_jobs_wait_in_the_same_queue() -> None:
    """A named job and jobs of a stream start in the order in which they came."""
    rows = [arrival(0, 0, 3, 100), arrival(1, 20, 2, 10)]
    job = {"name": "a", "gpus": 4, "arrival": "10 s", "work": {"time": "200 s"}}
    result = play(
        rows,
        jobs=[job],
        checkpoint={"tiers": [{"interval": "1000 s", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
    )
    assert result.jobs[0].start == 100
    assert starts(result)[1] == [result.jobs[0].end]

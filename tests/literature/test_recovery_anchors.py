"""What is published of detection and recovery, asserted through the presets and the simulator as a whole.

Timers that are read off a preset are in tests/unit/test_presets.py; here they have to come out of simulated failures.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import sim
from sim.policies.contracts import Bucket, ClusterView, Damage, FailureView, JobView, Pace, Requeue
from sim.policies.recovery.phases import Crew, mean
from tests import harness
from tests.cases import cases
from tests.intervals import LEAST, Z
from tests.stories import phases

NEVER: dict[str, Any] = {"law": {"law": "exponential", "mean": "1000000 d"}, "renews": "never"}
HOST: dict[str, Any] = {"use": "component", "name": "host", "part": "node", **NEVER}
SOFTWARE: dict[str, Any] = {"use": "job", "name": "software", "rate": "1 per 1000000 job-d"}
FABRIC: dict[str, Any] = {"rails": 1, "radix": 128, "leaf": {"nodes": 50}, "spine": {"leaf_groups": 20}, "core": {}}
REMOTE: dict[str, Any] = {"interval": "500 s", "mode": "blocking", "write": "10 s", "restore": "20 s"}


def small(name: str, horizon: float, replicas: int = 4, nodes: int = 6, **changes: Any) -> sim.Scenario:
    """Return four replicas of one GPU each, with a preset and all that it brings along."""
    data = harness.scenario(
        cluster={"nodes": nodes, "gpus_per_node": 1, "fabric": {"rails": 1}},
        jobs=[{"name": "job", "gpus": replicas, "parallelism": {"data": replicas}}],
        failures=[HOST, SOFTWARE],
        checkpoint={"tiers": [REMOTE], "from_preset": True},
        recovery={"use": name, **changes.pop("recovery", {})},
        horizon=f"{horizon!r} s",
    )
    del data["detection"]
    return sim.parse(data | changes)


def durations(result: sim.Result, bucket: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return how long each phase of one bucket was [s]."""
    return np.array([end - start for name, start, end in phases(result) if name == bucket])


# ------------------------------------------------------------------------------------------------------ Slurm


@pytest.fixture(scope="module")
def slurm() -> sim.Result:
    """Return a job that has lost a host every 3 h, 14,000 times, under Slurm."""
    count, apart = 14_000, 10_000.0
    rows = [(apart * (number + 1), 0, 0) for number in range(count)]
    # There is no other node: the job always waits for the one that it has lost.
    case = sim.prepare(small("slurm-requeue", apart * (count + 1), nodes=4))
    return sim.run(case, 0, harness.trace(rows), keeps_timeline=True)


def test_slurm_finds_a_silent_node_after_300_to_500_s(slurm: sim.Result) -> None:
    """Uniform from one to five thirds of SlurmdTimeout: mean 400 +- 2 s (ping_nodes.c of SchedMD/slurm)."""
    from scipy.stats import kstest

    found = durations(slurm, "detection")
    assert len(found) == sum(slurm.jobs[0].interruptions.values()) == 14_000
    tolerance = Z * 200 / math.sqrt(12 * len(found))
    assert tolerance <= 2
    assert found.mean() == pytest.approx(400, abs=tolerance)
    assert kstest(found, "uniform", (300, 200)).pvalue > LEAST


def test_slurm_makes_a_requeued_job_wait_121_s(slurm: sim.Result) -> None:
    """KillWait of 30 s, 121 s until eligible (job_mgr.c), and up to 60 s until the scheduler looks."""
    waited = durations(slurm, "reschedule") - 30
    assert 121 <= waited.min() < 121.1
    assert 180.9 < waited.max() <= 181
    assert waited.mean() == pytest.approx(121 + 30, abs=Z * 60 / math.sqrt(12 * len(waited)))


# ------------------------------------------------------------------------------------------------------ rates


def test_a_failure_every_50_minutes() -> None:
    """2.3 failures per 1,000 servers and day are one in 50.1 min on 12,500 servers (arXiv 2602.00277)."""
    assert pytest.approx(50.1, abs=0.05) == 24 * 60 / (12_500 * 2.3 / 1000)
    data = harness.scenario(
        cluster={"nodes": 12_500, "fabric": FABRIC},
        jobs=[{"name": "job", "gpus": 99_200, "parallelism": {"tensor": 8, "data": 12_400}}],
        failures=[{"use": "component", "name": "server", "part": "node", "rate": "2.3 per 1000 node-day"}],
        repair={"time": "1 min"},
        recovery={"use": "torchft-hsdp"},
        horizon="60 d",
    )
    case = sim.prepare(sim.parse(data))
    failures = sum(sim.run(case, number).counts["failures"] for number in range(5))
    assert 5 * 60 * 24 * 60 / failures == pytest.approx(50.1, rel=Z / math.sqrt(failures) + 0.001)


@cases(("thousands", "published"), [(16, 17), (22, 26), (64, 112), (98, 200)])
def test_collectives(thousands: int, published: float) -> None:
    """17 s at 16 thousand GPUs, 26, 112 and 200 s at 22, 64 and 98: the 1.36th power (from arXiv 2602.00277)."""
    gpus = thousands * 1024
    for name in ("slurm-requeue", "nvrx-in-process", "nvrx-in-job", "gemini-in-memory"):
        recovery: Any = small(name, 1000.0, spares={"hot": 1}).recovery
        (phase,) = (phase for phase in recovery.rungs[0].launch if phase.name == "collectives")
        # The published 98 thousand are 6.125 times 16 thousand, not 6 times.
        assert sum(mean((phase,), Crew(gpus, gpus // 8))) == pytest.approx(published, abs=0.5)


# --------------------------------------------------------------------------------------- copies in memory


@pytest.fixture(scope="module")
def gemini() -> sim.Prepared:
    """Return 16 machines in groups of two, with nothing to spare."""
    return sim.prepare(small("gemini-in-memory", 2000.0, replicas=16, nodes=16))


def test_gemini_on_16_machines(gemini: sim.Prepared) -> None:
    """Of all pairs of 16 machines, 93.3 % can be lost and the last step is still in memory (SOSP 2023)."""
    pairs = list(itertools.combinations(range(16), 2))
    stores = []
    for pair in pairs:
        result = sim.run(gemini, 0, harness.trace([(1000.0, 0, node) for node in pair]))
        stores += list(result.jobs[0].restores)
    assert len(stores) == len(pairs) == 120
    assert stores.count("peer-host") / 120 == bound(16, 2, 2) == pytest.approx(0.933, abs=5e-4)


def bound(machines: int, group: int, lost: int) -> float:
    """Return the least probability that memory is enough: ``1 - N C(N - m, k - m) / (m C(N, k))`` (SOSP 2023)."""
    return 1 - machines * math.comb(machines - group, lost - group) / (group * math.comb(machines, lost))


def test_gemini_on_1024_machines() -> None:
    """With four of 1,024 machines lost at once, 99.4 % come back from memory: the bound, which is not exact."""
    assert bound(1024, 2, 4) == pytest.approx(0.994, abs=5e-4)
    # No pair is lost if the four are in different groups of two.
    exact = math.prod(1 - 2 * index / (1024 - index) + index / (1024 - index) for index in range(4))
    assert bound(1024, 2, 4) <= exact
    case = sim.prepare(small("gemini-in-memory", 2000.0, replicas=1024, nodes=1024))
    checkpoint: Any = case.jobs[0].checkpoint
    state = checkpoint.advance(checkpoint.begin, Pace(1.0), 1000.0)[0]
    generator = np.random.default_rng(1)
    count = 20_000
    kept = 0
    for _ in range(count):
        lost = frozenset(generator.choice(1024, size=4, replace=False).tolist())
        kept += checkpoint.restore(state, Pace(1.0), Damage("hosts", lost)).store == "peer-host"
    assert kept / count == pytest.approx(exact, abs=Z * math.sqrt(exact * (1 - exact) / count))


def test_time_wasted_by_copies_far_away() -> None:
    """MT-NLG with a remote store alone: 42 min to save, half of an interval of 42, 42 to read: 105 min (SOSP 2023).

    Failures are spread evenly over the time between two saves.
    """
    minutes = 60.0
    tier = {"interval": "42 min", "mode": "async", "write": "42 min", "restore": "42 min"}
    stores = {"tiers": [tier]}
    case = sim.prepare(small("gemini-in-memory", 1e5, checkpoint=stores))
    begin = phases(sim.run(case, 0, harness.trace([]), keeps_timeline=True))[0][2]
    wasted = []
    for part in range(42):
        time = begin + (10 * 42 + part + 0.5) * minutes
        job = sim.run(case, 0, harness.trace([(time, 1, 0)])).jobs[0]
        wasted.append((job.buckets[Bucket.LOST_WORK] + job.buckets[Bucket.RESTORE]) / job.gpus / minutes)
    assert np.mean(wasted) == pytest.approx(42 + 42 / 2 + 42)
    # With copies in memory it is a step and the seconds of reading.
    near = sim.run(sim.prepare(small("gemini-in-memory", 1e5)), 0, harness.trace([(30_000.0, 1, 0)])).jobs[0]
    assert (near.buckets[Bucket.LOST_WORK] + near.buckets[Bucket.RESTORE]) / near.gpus < 10


# -------------------------------------------------------------------------------------- who restarts whom


def test_torchrun_is_quick_after_a_process_and_slow_after_a_node() -> None:
    """A process is back after 1.5 min; a node costs the collective timeout half of the times: 4 times that."""
    lost: dict[int, list[float]] = {0: [], 1: []}
    case = sim.prepare(small("torchrun-elastic", 5000.0))
    for source, replication in itertools.product(lost, range(100)):
        result = sim.run(case, replication, harness.trace([(1000.0, source, 2 * (1 - source))]), keeps_timeline=True)
        found = phases(result)
        again = next(start for name, start, _ in found if start > 1000 and name in ("productive", "smaller"))
        lost[source].append(again - 1000.0)
    node, process = np.mean(lost[0]), np.mean(lost[1])
    assert process == pytest.approx(1.1 / 2 + 30 + 15 + 5 + 20 + 20, rel=0.15)
    assert node > 4 * process


def test_kueue_backs_off() -> None:
    """A gang that is evicted again and again waits for 60 s, 120 s, 240 s ... and at most an hour (Kueue)."""
    rung = {"name": "kueue", "keeps": "nothing", "backoff": {"first": "60 s", "most": "3600 s"}}
    recovery: Any = small("k8s-jobset", 1000.0, recovery={"rungs": [rung]}).recovery
    memory: Any = None
    delays = []
    for number in range(10):
        view = JobView("job", 100.0 * number, 4, 0, 1, 1, live=False, attempt=1, mark=lambda _: 0.5, gpus=4, work=0.0)
        failure = FailureView("cause", False, 0, 0, lambda _: 0.5)
        (step,), memory = recovery.plan(failure, view, ClusterView(0, 0), memory)
        assert isinstance(step, Requeue)
        delays.append(step.delay)
    assert delays == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600, 3600]


def test_a_jobset_restarts_and_counts() -> None:
    """Without a matching rule every failure restarts the JobSet, and with maxRestarts of 2 the third one ends it."""
    recovery = {"gives_up": True}
    scenario = small("k8s-jobset", 10_000.0, recovery=recovery)
    limited = sim.parse(_with(scenario.dump(), "recovery", "rungs", 0, "budget", value=2))
    rows = [(time, 1, 0) for time in (1000.0, 2000.0, 3000.0)]
    for case, ends in ((scenario, False), (limited, True)):
        result = sim.run(sim.prepare(case), 0, harness.trace(rows), keeps_timeline=True)
        assert sum(result.jobs[0].interruptions.values()) == 3
        found = phases(result)
        assert (found[-1][0] == "reschedule") is ends
        assert sum(name == "restore" for name, _, _ in found) == (2 if ends else 3)


def _with(data: Any, *path: str | int, value: Any) -> Any:
    """Return plain data with a value put at a path."""
    holder = data
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return data


@cases("replicas", [2, 3, 4, 5, 8])
def test_a_minority_of_torchft_forms_no_quorum(replicas: int) -> None:
    """Those who are left step on if they are more than half, and never otherwise (pytorch/torchft, lighthouse)."""
    heard_of = {"majority": True}
    case = sim.prepare(
        small("torchft-hsdp", 5000.0, replicas=replicas, nodes=replicas, repair={"time": "1 d"}, recovery=heard_of)
    )
    for lost in range(1, replicas + 1):
        rows = [(1000.0, 0, node) for node in range(lost)]
        result = sim.run(case, 0, harness.trace(rows), keeps_timeline=True)
        steps = [start for name, start, _ in phases(result) if name == "smaller"]
        assert bool(steps) is (replicas - lost > replicas / 2), (replicas, lost)
        assert phases(result)[-1][0] == ("smaller" if steps else "starved")

"""The planner against a plain transcription of backfill, and against published logs replayed by other simulators."""

from __future__ import annotations

import csv
import gzip
import math
from typing import Any

import numpy as np
import pytest

from ettrick.analysis.validation.published_steps import default_folder
from tests.cases import cases
from tests.pace import SEED, budget
from tests.planning import Replay, Work, workload

DATA = default_folder().parent

# ----------------------------------------
# Backfill as its authors state it, on plain lists: a second model that shares no code with the planner.


def plain_easy(work: list[Work], nodes: int, *, extra: bool = True) -> dict[int, float]:
    """Return the start of each job under EASY backfill: a reservation for the head of the queue alone."""

    def starts(queue: list[Work], free: int, running: list[tuple[float, int]], now: float) -> list[Work]:
        chosen = []
        while queue and queue[0].nodes <= free:
            head, queue = queue[0], queue[1:]
            free -= head.nodes
            running = [*running, (now + limit_of(head), head.nodes)]
            chosen.append(head)
        if not queue:
            return chosen
        need = queue[0].nodes
        shadow = min(
            end
            for end, _ in ((max(end, now), size) for end, size in running)
            if free + sum(size for other, size in running if max(other, now) <= end) >= need
        )
        spare = free + sum(size for end, size in running if max(end, now) <= shadow) - need
        for job in queue[1:]:
            if job.nodes > free:
                continue
            if now + limit_of(job) <= shadow:
                free -= job.nodes
                chosen.append(job)
            elif extra and job.nodes <= spare:
                free -= job.nodes
                spare -= job.nodes
                chosen.append(job)
        return chosen

    return plain_replay(work, nodes, starts)


def plain_conservative(work: list[Work], nodes: int) -> dict[int, float]:
    """Return the start of each job under conservative backfill, planned from nothing at each event."""

    def starts(queue: list[Work], free: int, running: list[tuple[float, int]], now: float) -> list[Work]:
        taken = [(now, max(end, now + 1e-9), size) for end, size in running]
        chosen = []
        for job in queue:
            for since in sorted({now, *(end for _, end, _ in taken)}):
                until = since + limit_of(job)
                edges = [since, *(start for start, _, _ in taken if since < start < until)]
                busy = max(sum(size for start, end, size in taken if start <= edge < end) for edge in edges)
                if busy + job.nodes <= nodes:
                    taken.append((since, until, job.nodes))
                    if since == now:
                        chosen.append(job)
                    break
        return chosen

    return plain_replay(work, nodes, starts)


def limit_of(job: Work) -> float:
    """Return the time limit of a job [s]."""
    return job.run if job.limit is None else job.limit


def plain_replay(work: list[Work], nodes: int, starts: Any) -> dict[int, float]:
    """Return the start of each job when `starts` decides at each arrival and each end."""
    found: dict[int, float] = {}
    queue: list[Work] = []
    coming = sorted(work, key=lambda job: (job.submit, job.number))
    running: list[tuple[float, Work]] = []
    while coming or running:
        now = min([job.submit for job in coming[:1]] + [end for end, _ in running])
        running = [(end, job) for end, job in running if end > now]
        while coming and coming[0].submit == now:
            queue.append(coming.pop(0))
        free = nodes - sum(job.nodes for _, job in running)
        expected = [(found[job.number] + limit_of(job), job.nodes) for _, job in running]
        for job in starts(list(queue), free, expected, now):
            queue.remove(job)
            found[job.number] = now
            running.append((now + job.run, job))
    return found


@cases("estimates", ["exact", "above", "any"])
def test_easy_is_what_its_authors_state(estimates: str) -> None:
    """Every start of random workloads is that of the transcription, with the second rule and without it."""
    for seed in range(budget(100)):
        work = workload(SEED * 1000 + seed, estimates=estimates)
        for extra in (True, False):
            assert Replay({"use": "easy", "extra": extra}, work, 16).first == plain_easy(work, 16, extra=extra)


@cases("estimates", ["exact", "above", "any"])
def test_conservative_is_planned_in_order(estimates: str) -> None:
    """Every start is that of a plan from nothing at each event, whether limits are exact, too long or too short."""
    for seed in range(budget(60)):
        work = workload(SEED * 1000 + seed, jobs=40, estimates=estimates)
        assert Replay({"use": "conservative"}, work, 16).first == plain_conservative(work, 16)


def test_reservations_of_all_are_those_of_many() -> None:
    """Conservative backfill, which keeps its plan, starts jobs as one that plans again for up to 999 jobs."""
    for seed in range(budget(60)):
        work = workload(SEED * 1000 + seed)
        assert (
            Replay({"use": "conservative", "depth": 999}, work, 16).first
            == Replay({"use": "conservative"}, work, 16).first
        )


# ----------------------------------------
# Logs.


def lublin(factor: float = 1.0) -> list[Work]:
    """Return the 2,993 jobs of the Lublin-Feitelson model, for 256 nodes; limits are run times times `factor`."""
    path = DATA / "swf" / "lublin_256_synthetic.swf.gz"
    if not path.exists():
        pytest.skip("skipped: reference data not present")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [line.split() for line in lines if line.strip() and not line.startswith(";")]
    return [Work(int(r[0]), float(r[1]), float(r[3]), int(r[4]), limit=float(r[3]) * factor) for r in rows]


# Mean wait [s], jobs that wait, bounded slowdown (10 s), makespan [s], relative tolerance. FCFS, SJF and greedy are
# those of AccaSim 1.1.3 (its EASY is greedy), conservative that of CQSim 53b52fa start by start; EASY is CQSim's.
LOGS: dict[str, tuple[dict[str, Any], float, tuple[float, int, float, float], float]] = {
    "FCFS": ({}, 1, (665_166.4227, 2965, 18_496.52, 3_808_008), 1e-6),
    "SJF": ({"use": "sjf"}, 1, (64_581.9723, 1401, 41.124, 3_398_930), 1e-5),
    "conservative": ({"use": "conservative"}, 1, (32_102.6037, 2219, 297.2111, 2_683_827), 1e-6),
    "EASY": ({"use": "easy"}, 1, (28_951.59, 2053, 341.9, 2_715_714), 1e-3),
    "EASY without extra nodes": ({"use": "easy", "extra": False}, 1, (29_201.01, 2083, 299.2, 2_717_920), 1e-3),
    "greedy": ({"head": "passes"}, 1, (30_233.36, 1519, 525.92, 2_759_944), 1e-6),
    "EASY, limits x 2": ({"use": "easy"}, 2, (27_146.2, 1844, 417.9, 2_713_830), 5e-3),
    "conservative, limits x 2": ({"use": "conservative"}, 2, (25_297.6, 2017, 286.6, 2_691_679), 5e-3),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_is_scheduled_as_by_other_simulators(name: str) -> None:
    """Waits, slowdown and makespan of 2,993 jobs are those of other codes; makespan counts from the first submit."""
    keys, factor, (wait, waiting, slowdown, makespan), tolerance = LOGS[name]
    work = lublin(factor)
    starts = Replay(keys, work, 256).first
    waits = np.array([starts[job.number] - job.submit for job in work])
    runs = np.array([job.run for job in work])
    assert waits.mean() == pytest.approx(wait, rel=tolerance)
    assert (waits > 0).sum() == waiting
    assert np.maximum(1, (waits + runs) / np.maximum(runs, 10)).mean() == pytest.approx(
        slowdown, rel=max(tolerance, 2e-5)
    )
    assert max(starts[job.number] + job.run for job in work) - work[0].submit == makespan


@pytest.mark.parametrize(("use", "waiting", "wait"), [("fifo", 11, 8.0047), ("easy", 6, 4.0281)])
def test_a_log_of_starts_hardly_waits(use: str, waiting: int, wait: float) -> None:
    """NASA iPSC/860, 1993: submit times are starts, so that of 18,239 jobs on 128 nodes almost none waits."""
    path = DATA / "fleet" / "nasa_ipsc_1993.csv.gz"
    if not path.exists():
        pytest.skip("skipped: reference data not present")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    work = [Work(at, float(r["submit_s"]), float(r["run_s"]), int(r["procs"])) for at, r in enumerate(rows)]
    starts = Replay({"use": use}, work, 128).first
    waits = [starts[job.number] - job.submit for job in work]
    assert len(work) == 18_239
    assert sum(each > 0 for each in waits) == waiting
    assert math.fsum(waits) / len(waits) == pytest.approx(wait, abs=5e-5)


# ----------------------------------------
# Gangs under strict FIFO: how full a cluster can be.


@cases(("slots", "small"), [(2, 0.5), (8, 0.9), (8, 0.5)])
def test_a_backlog_of_gangs_saturates_as_derived(slots: int, small: float) -> None:
    """A backlog of jobs of one node (chance p) and of all c, of exponential length, is worked off at 1 / E.

    E = q (1 + sum of p^j / j, j = 1..c) + p^(c+1) / c is the mean time of a job. From the start of a job of all nodes
    to that of the next the cycles are independent: their number and the law of one give the standard error (4 of them).
    Half the chance of small jobs is outside.
    """
    generator = np.random.default_rng(SEED)
    jobs = 1000 * budget(20)
    sizes = np.where(generator.random(jobs) < small, 1, slots)
    work = [Work(at, 0.0, float(generator.exponential()), int(size)) for at, size in enumerate(sizes)]
    starts = Replay({}, work, slots).first
    big = np.flatnonzero(sizes == slots)
    cycles, between = len(big) - 1, int(big[-1] - big[0])
    mean = (starts[int(big[-1])] - starts[int(big[0])]) / between
    error = math.sqrt(cycles * _cycle_variance(slots, small)) / between
    assert abs(mean - _mean_job_time(slots, small)) < 4 * error
    assert abs(mean - _mean_job_time(slots, small / 2)) > 4 * error


def _mean_job_time(slots: int, small: float) -> float:
    return (1 - small) * (1 + sum(small**j / j for j in range(1, slots + 1))) + small ** (slots + 1) / slots


def _cycle_variance(slots: int, small: float) -> float:
    """Return the variance of the time of a cycle less E for each of its jobs: one of all nodes, then k small ones.

    The job of all nodes takes Exp(1). Of k small ones, k - c leave busy nodes at rate c, and the last min(k, c) at
    rates that fall to 1. k is geometric.
    """
    k = np.arange(math.ceil(40 / -math.log(small)))
    chance = (1 - small) * small**k
    last = np.minimum(k, slots)
    falling = 1 / np.arange(1, slots + 1)
    queued = np.maximum(k - slots, 0)
    time = 1 + queued / slots + np.concatenate([[0], np.cumsum(falling)])[last]
    variance = 1 + queued / slots**2 + np.concatenate([[0], np.cumsum(falling**2)])[last]
    excess = time - _mean_job_time(slots, small) * (k + 1)
    assert math.isclose(chance @ excess, 0, abs_tol=1e-9), "the two derivations of E agree"
    return float(chance @ (variance + excess**2))

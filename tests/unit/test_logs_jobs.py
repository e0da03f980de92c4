"""The jobs of a site: laws of streams from job records, a replay of the history, and the backtest of both."""

from __future__ import annotations

import csv
import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.analysis.logs import pipeline, workload
from ettrick.analysis.logs.pipeline import FitOptions
from ettrick.analysis.logs.workload import EARLY, LONGER, WHOLE, LoggedJob, log_normal_work
from ettrick.analysis.results.models import Provenance
from ettrick.analysis.study.load import first_look, load_study
from ettrick.sim.input.job_trace import read_jobs
from ettrick.sim.scenario.streams import JobTrace
from tests import log_writers
from tests.cases import cases
from tests.log_writers import START, drawn
from tests.pace import SEED
from tests.typed import present

if TYPE_CHECKING:
    from pathlib import Path

    from ettrick.analysis.logs.pipeline import FitResult
    from ettrick.analysis.results.fitted import BacktestSummary

MADE = Provenance(version="", python="", numpy="", command="")

HOUR, DAY = 3600.0, 86400.0


def job(number: int, submit: float, run: float, **more: Any) -> LoggedJob:
    """Return a job of 8 GPUs that starts a minute after it was submitted."""
    stated: dict[str, Any] = {
        "job": f"{number}", "attempt": 0, "nodes": "", "node_count": 1, "gpus": 8, "t_submit": START + submit,
        "t_eligible": START + submit, "t_start": START + submit + 60, "t_end": START + submit + 60 + run,
        "elapsed": run, "end_state": "COMPLETED", "user": "u1", "partition": "main", "hosts": ("gpu001",),
    }  # fmt: skip
    return LoggedJob(**stated | more)


# What a run says of the work of its job.


def test_work_of_jobs_that_end_early() -> None:
    """Runs of jobs that fail at a uniform part of their work, or meet a limit, give the law of the work."""
    generator = np.random.default_rng(SEED)
    n, mu, sigma, limit = 6000, math.log(HOUR), 1.4, 6 * HOUR
    work = np.exp(mu + sigma * generator.standard_normal(n))
    kinds = np.where(generator.random(n) < 0.3, EARLY, WHOLE)
    times = np.where(kinds == EARLY, work * generator.random(n), work)
    kinds, times = np.where(times > limit, LONGER, kinds), np.minimum(times, limit)
    found, spread, errors = log_normal_work(times, kinds)
    # Of 20 draws a thousand times over, four standard errors are passed once.
    assert abs(found - mu) < 4 * errors[0]
    assert abs(spread - sigma) < 4 * errors[1]
    assert errors[0] == pytest.approx(sigma / math.sqrt(n), rel=0.3)
    naive, *_ = log_normal_work(times, np.full(n, WHOLE))
    assert abs(naive - mu) > 4 * errors[0]


@cases(
    ("state", "blamed", "has_limits", "kind"),
    [
        ("COMPLETED", 0, True, WHOLE), ("FAILED", 0, True, EARLY), ("OUT_OF_MEMORY", 0, True, EARLY),
        ("CANCELLED", 0, True, EARLY), ("FAILED", 1, True, WHOLE), ("NODE_FAIL", 1, True, WHOLE),
        ("PREEMPTED", 0, True, WHOLE), ("TIMEOUT", 0, True, LONGER), ("TIMEOUT", 0, False, WHOLE),
    ],
)  # fmt: skip
def test_what_a_state_says_of_the_work(state: str, blamed: int, has_limits: bool, kind: int) -> None:
    """Who fails or is cancelled had more to do; whom a node ended is modelled by failures, and keeps what he ran."""
    assert workload._kind(job(1, 0.0, 60.0, end_state=state, blamed=blamed), has_limits) == kind


def test_rhythm_of_submissions() -> None:
    """A day with a peak is found, and its factors are its rates; of constant rates one in a hundred has a rhythm."""
    generator = np.random.default_rng(SEED)
    days, rate = 90, 60.0

    def constant() -> Any:
        return np.sort(generator.uniform(0, days * DAY, generator.poisson(days * rate)))

    # Two looks at 1 % each: of 40 draws five or more have a rhythm once in a thousand times.
    assert sum(workload._profile(constant(), days * DAY)[0] > 0 for _ in range(40)) < 5
    even = constant()
    wave = even[generator.random(len(even)) < 0.5 + 0.5 * np.sin(2 * math.pi * even / DAY)]
    every, factors = workload._profile(wave, days * DAY)
    assert every == 1
    hours = (np.arange(24) + 0.5) / 24
    # About 112 submissions in an hour of the mean: 10 %, and four of them at the peak.
    assert np.abs(np.array(factors) - (1 + np.sin(2 * math.pi * hours))).max() < 0.6


def test_bursts_of_submissions() -> None:
    """Groups of five have five times the variance, and a wider interval of the rate; single jobs have neither."""
    generator = np.random.default_rng(SEED)
    days = 90
    single = np.sort(generator.uniform(0, days * DAY, generator.poisson(days * 20)))
    groups = np.sort(np.concatenate([single + shift for shift in range(5)]))
    rate, spread = workload._rate(groups, days * DAY, 0, [])
    # The variance of 90 daily counts is known to 15 %.
    assert spread == pytest.approx(5, rel=0.6)
    assert rate.value == pytest.approx(100, abs=4 * math.sqrt(100 * 5 / days))
    assert rate.high - rate.low == pytest.approx(2 * 1.96 * math.sqrt(100 * spread / days), rel=0.1)
    assert workload._rate(single, days * DAY, 0, [])[1] < 1.6


@cases(
    ("jobs", "limit"),
    [
        ([job(k, k, 60.0) for k in range(9)], "exact"),
        ([job(k, k, 60.0 * (k + 1), limit=DAY) for k in range(9)], "24 h"),
        (
            [job(k, k, HOUR * (k + 1), limit=(2.0 + k % 3) * HOUR * (k + 1)) for k in range(9)],
            {"factor": {"low": 1.0, "high": 5.0}, "least": "2 h", "most": "36 h"},
        ),
    ],
)
def test_limits(jobs: list[LoggedJob], limit: Any) -> None:
    """Limits are exact without records, the commonest value of most jobs, else a factor with the measured median."""
    assert workload._limit(jobs)[0] == limit


def test_one_job_in_pieces() -> None:
    """Large jobs that follow each other are one training job; with two at once, or small ones alone, there is none."""
    gpus = 2048
    pieces = [job(k, k * 10 * HOUR, 9.5 * HOUR, gpus=512) for k in range(10)]
    small = [job(100 + k, k * HOUR, HOUR) for k in range(90)]
    assert workload._chain([*pieces, *small], gpus) == {f"{k}" for k in range(10)}
    assert workload._chain([*pieces, *small, *(replace(each, job=f"x{each.job}") for each in pieces)], gpus) == set()
    assert workload._chain(small, gpus) == set()
    # A cluster that only trains has jobs of one size.
    assert workload._chain(pieces, 768) == {f"{k}" for k in range(10)}


def test_bands_have_enough_jobs() -> None:
    """Classes of sizes are joined until each has fifty jobs; none is lost."""
    sizes = [8] * 60 + [16] * 10 + [32] * 45 + [512] * 70
    bands = workload._bands([job(k, k, 60.0, gpus=size) for k, size in enumerate(sizes)])
    assert [len(band) for band in bands] == [60, 55, 70]


def test_tenants_have_numbers() -> None:
    """Users with enough jobs have a share under a number, the others one together; a scenario names nobody."""
    jobs = [job(k, k, 60.0, user=user) for k, user in enumerate(["anna"] * 60 + ["ben"] * 90 + ["eve"] * 10)]
    numbers = {"ben": "tenant-1", "anna": "tenant-2", "eve": "tenant-3"}
    assert workload._tenants(jobs, numbers) == {"tenant-1": 90.0, "tenant-2": 60.0, "others": 10.0}
    assert workload._tenants(jobs[:60], numbers) == {}


# The table.


def test_every_state_can_be_replayed(tmp_path: Path) -> None:
    """A table with every state that rules know is read without a map of columns; what never ran or runs is left out."""
    states = list(pipeline.read_rules().states)
    jobs = [job(k, 60.0 * k, 600.0, end_state=state) for k, state in enumerate(states)]
    jobs.append(job(99, 30.0, 0.0, end_state="CANCELLED", t_start=math.nan))
    (tmp_path / "jobs.csv").write_text(workload.jobs_csv(jobs, {"main": 7}))
    found = read_jobs(JobTrace.model_validate({"name": "x", "use": "trace", "file": str(tmp_path / "jobs.csv")}))
    open_ = {state for state, kind in pipeline.read_rules().states.items() if kind == "open"}
    assert len(found.submit) == len(states) - len(open_ | {"SUSPENDED", "RESIZING", "REQUEUED"} & set(states)) + (
        "REQUEUED" in states
    )
    assert set(found.run.tolist()) == {600.0}
    assert set(found.priority.tolist()) == {7}


# The whole way: a cluster whose truth is known, its records, the fit, and what the fit gives.

NODES, LENGTH = 32, 20.0

TRUTH = {"short": (8, 60.0, 80.0, 1.0), "wide": (64, 12.0, 240.0, 0.8)}
"""Of each partition: GPUs, submissions a day, median [min] and sigma of the work."""


def records(scheduler: dict[str, Any]) -> list[dict[str, object]]:
    """Return the job records of the truth; node names are left out."""
    return log_writers.simulated_jobs(NODES, LENGTH, TRUTH, scheduler, SEED)


def fitted(folder: Path, jobs: list[dict[str, object]], slurm: str = "") -> FitResult:
    """Return the fit of records, with a few outages of single nodes beside them."""
    faults = [fault for fault in drawn(2, NODES, LENGTH, {"nic": 20.0}) if not math.isnan(fault.end)]
    files = log_writers.write(
        folder, nodes_csv=log_writers.inventory(NODES), events_txt=log_writers.node_events(faults),
        sacct_txt=log_writers.sacct(jobs), slurm_conf=slurm,
    )  # fmt: skip
    window = (START, START + LENGTH * DAY)
    request = FitOptions(files[1:3], files[0], ["UTC"], window=window, simulations=20, slurm=files[3] if slurm else "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workload, "REPLICATIONS", 4)
        return pipeline.run(request, MADE)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> FitResult:
    """Return the fit of a cluster under the scheduler that a fit assumes."""
    return fitted(tmp_path_factory.mktemp("jobs"), records({"use": "slurm"}))


def row(outcome: FitResult, name: str) -> BacktestSummary:
    """Return a row of the backtest."""
    return next(each for each in outcome.document.backtest if each.metric == name)


def test_streams_have_the_truth(outcome: FitResult) -> None:
    """Rates, medians and sigmas of the streams that made the records are near what their number of jobs allows."""
    assert [stream.jobs for stream in outcome.document.streams] == sorted(
        (stream.jobs for stream in outcome.document.streams), reverse=True
    )
    for stream, (gpus, rate, median, sigma) in zip(outcome.document.streams, TRUTH.values(), strict=True):
        assert stream.gpus == {str(gpus): float(stream.jobs)}
        n = stream.jobs
        # Four standard errors; the sigma is that of the mean where the two differ.
        assert stream.rate.value == pytest.approx(rate, rel=4 / math.sqrt(n))
        assert stream.median_s.value == pytest.approx(60 * median, rel=4 * sigma / math.sqrt(n) + 0.05)
        assert stream.sigma.value == pytest.approx(sigma, abs=4 / math.sqrt(2 * n) + 0.1)
        assert stream.outcomes["FAILED"] == pytest.approx(0.1 * n, abs=4 * math.sqrt(0.09 * n))


def test_the_replay_has_the_waits_of_the_records(outcome: FitResult) -> None:
    """Under the scheduler that made them, the same jobs wait as long as their records say; and streams by law too."""
    wide = row(outcome, "wait_first@size=64")
    assert present(wide.measured) > 120
    for each in outcome.document.backtest:
        half = (each.replay_high - each.replay_low) / 2
        # Half is 95 %: of five rows of any seed twice that is passed once in thousands, or what is no difference.
        least = workload.ROUND if each.metric.startswith("wait") else 0.01
        assert abs(each.measured - each.replay) <= 2 * half + least, each.metric
    assert row(outcome, "occupancy").replay == pytest.approx(row(outcome, "occupancy").measured, abs=0.02)


def test_another_scheduler_is_found(outcome: FitResult, tmp_path: Path) -> None:
    """With sched/builtin in slurm.conf the replay blocks behind its first job: waits lie outside, as a finding."""
    jobs = records({"use": "slurm"})
    nodes = ",".join(log_writers.name(at) for at in range(NODES))
    conf = f"SchedulerType=sched/builtin\nNodeName={nodes} Gres=gpu:h100:8\nPartitionName=main Nodes=ALL Default=YES\n"
    other = fitted(tmp_path, jobs, conf)
    mine, theirs = (row(each, "wait_first@size=8") for each in (outcome, other))
    assert theirs.measured == mine.measured
    assert not theirs.replay_inside
    assert any("in the replay of the jobs" in text for text in other.document.findings)


def test_what_is_written_runs(outcome: FitResult, tmp_path: Path) -> None:
    """Fitted streams, history, and study load as they are; an outage in the history costs its job nothing."""
    for name, text in outcome.files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    fleet = sim.prepare(sim.load(tmp_path / workload.FLEET))
    assert [stream.name for stream in fleet.streams] == [stream.name for stream in outcome.document.streams]
    rows = list(csv.DictReader((tmp_path / "jobs.csv").read_text().splitlines()))
    # An administrator may raise a limit while a job runs: it was not cut then, and is not now.
    for each in rows[::7]:
        each["limit"] = "60"
    with (tmp_path / "jobs.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    history = sim.prepare(sim.load(tmp_path / workload.HISTORY))
    result = sim.run(history, 0, keeps_log=True)
    ran: dict[int, float] = {}
    for attempt in result.attempts:
        ran[attempt.job] = ran.get(attempt.job, 0.0) + attempt.end - attempt.start
    hit = [key for key, mine in itertools.groupby(sorted(a.job for a in result.attempts)) if len(list(mine)) > 1]
    assert hit
    over = {attempt.job for attempt in result.attempts if attempt.state not in ("running", "node_fail")}
    for number in over.intersection([*hit, *range(0, len(rows), 7)]):
        # At most a second of work is lost for each outage.
        assert ran[number] == pytest.approx(float(rows[number]["run"]), abs=5)


def test_draws_of_streams(outcome: FitResult, tmp_path: Path) -> None:
    """The study of the fleet varies failures and streams: the first row is the fleet, the others spread."""
    for name, text in outcome.files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    study = load_study(tmp_path / "fleet-study.yaml")
    assert not first_look(study)
    centre, first = (study.scenario(point).dump() for point in list(study.points())[:2])
    fleet = sim.load(tmp_path / workload.FLEET).dump()
    assert centre["streams"] == fleet["streams"]
    assert first["streams"] != fleet["streams"]
    assert first["failures"] != fleet["failures"]
    rows = list(csv.DictReader(outcome.files["fleet-draws.csv"].splitlines()))
    assert not any(path.startswith("streams.") for path in next(csv.reader(outcome.files["draws.csv"].splitlines())))
    for at, stream in enumerate(outcome.document.streams):
        found = np.array([float(row[f"streams.{at}.arrivals.rate"].split()[0]) for row in rows[1:]])
        error = stream.rate.value / math.sqrt(stream.jobs)
        # 199 draws: four standard errors of their mean and of their deviation.
        assert abs(found.mean() - stream.rate.value) < 4 * error / math.sqrt(199) + stream.rate.value / stream.jobs
        assert found.std() == pytest.approx(error, rel=4 / math.sqrt(2 * 199))
        sigmas = np.array([float(row[f"streams.{at}.work.sigma"]) for row in rows[1:]])
        assert sigmas.std() == pytest.approx(
            (present(stream.sigma.high) - present(stream.sigma.low)) / 3.92, rel=4 / math.sqrt(2 * 199)
        )


def test_of_very_many_jobs_the_last_are_replayed(
    outcome: FitResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more jobs than are simulated, the window is that of the last ones, and each is held against itself."""
    monkeypatch.setattr(workload, "MOST_JOBS", 500)
    load = present(workload.workload(outcome.fitted, outcome.tables))
    for name, text in outcome.files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    content = sim.load(tmp_path / "scenario.yaml").dump() | {"assumptions": []}
    (tmp_path / workload.HISTORY).write_text(sim.dump(workload.history(content, load)), encoding="utf-8")
    found = workload._replayed(outcome.fitted, load, tmp_path)
    last = [each for each in load.jobs if load.begin <= each.t_eligible < load.end]
    assert 400 < len(last) < 500
    for size in (8, 64):
        mine = [each.wait for each in last if each.gpus == size]
        count, batches = found[f"wait_first@size={size}"]
        measured, replayed, half = batches.row()
        assert (count, measured) == (len(mine), pytest.approx(np.mean(mine)))
        assert abs(replayed - measured) < 3 * half + 0.3 * measured + workload.ROUND
    assert found["ettr"][0] == len(last)

"""From a fleet's result to its numbers: metrics of slices, batches, a queue that grows, documents, tables, reports."""

from __future__ import annotations

import csv
import importlib
import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from ettrick import sim
from ettrick.analysis import timeline
from ettrick.analysis.contest.compare import Variant, compare
from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.fleet import (
    BATCHES,
    QueueLine,
    are_correlated,
    batches,
    fleet_ratios,
    job_quantile,
    queue_line,
    tenant_shares,
)
from ettrick.analysis.metrics import METRICS, Slice
from ettrick.analysis.page.build import report_of
from ettrick.analysis.page.chapters.run import format_run
from ettrick.analysis.results.ensemble import Ensemble
from ettrick.analysis.results.fleet import growth_of
from ettrick.analysis.results.models import RunDocument
from ettrick.analysis.results.run import document, render
from ettrick.analysis.study.model import Study
from ettrick.sim import BIN_EDGES, Bucket, FleetResult, Prepared, added
from ettrick.sim.engine.ledger import FleetAccumulator
from ettrick.sim.engine.result import DIRECT, PREEMPTION
from ettrick.sim.units import DAY, HOUR
from tests import report_sample
from tests.cases import cases
from tests.pace import IS_FULL, sample

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ettrick.analysis.parts import MetricSummary

DEMAND = 3
"""Index of the root cause `demand` beside one failure source: no failure, the source, drain, demand."""


def prepared() -> Prepared:
    """Return what names of streams, tenants and partitions are read from."""
    named = SimpleNamespace
    found: Any = named(
        jobs=(),
        services=(),
        streams=(named(name="small"), named(name="large")),
        tenants=(named(name="research"),),
        partitions=(named(name="all"),),
        capacity=1.0,
    )
    return found  # type: ignore[no-any-return]


def result() -> FleetResult:
    """Return two jobs of 1 GPU and one of 8 on 16 GPUs over 200 s, in two windows."""
    tally = FleetAccumulator([0.0, 100.0, 200.0], 16, ["gpu"])
    small, large = tally.account(0, 1), tally.account(1, 8)
    tally.level(0.0, 6, 0, 0, 6)
    tally.level(100.0, 4, 8, 1, 2, stranded=3)
    tally.charge(small, Bucket.PRODUCTIVE, 0, DIRECT, 200.0, 0.0, 100.0)
    tally.charge(large, Bucket.PRODUCTIVE, 0, DIRECT, 1400.0, 0.0, 200.0)
    tally.charge(large, Bucket.LOST_WORK, 1, DIRECT, 150.0, 100.0, 200.0)
    tally.charge(large, Bucket.LOST_WORK, 1, PREEMPTION, 50.0, 100.0, 200.0)
    tally.idle("no_queue", 600.0, 0.0, 100.0)
    tally.idle("too_few", 400.0, 100.0, 200.0)
    tally.charge(0, Bucket.REPAIR, 1, DIRECT, 400.0, 100.0, 200.0)
    tally.ended(small, "completed", 0.0, 0.0, 100.0, 1, waited=0.0, run=100.0, useful=100.0)
    tally.ended(small, "failed", 0.0, 40.0, 140.0, 1, waited=40.0, run=100.0, useful=80.0)
    tally.ended(large, "completed", 0.0, 20.0, 200.0, 8, 25.0, 175.0, 150.0, failures=2, preemptions=3)
    tally.stopped(large, 150.0, 1, DIRECT, 8, 150.0)
    tally.stopped(small, 150.0, 1, PREEMPTION, 1, by=8)
    tally.stopped(small, 150.0, DEMAND, PREEMPTION, 1, by=8)
    return tally.result(200.0)


def value(name: str, windows: slice = slice(None)) -> float:
    """Return a metric of the result by hand."""
    ratio = fleet_ratios(prepared(), result(), windows)[name]
    return ratio.amount / ratio.base


@cases(
    "name, expected",
    [
        ("occupancy", (1000 + 800) / (1600 + 1200)),
        ("allocation", 1800 / 3200),
        ("cluster_goodput", 1600 / 3200),
        ("fragmentation", 1 - (600 + 200) / (600 + 400)),
        ("fragmentation_in_need", 1 - 200 / 400),
        ("stranded", 300 / 3200),
        ("queue_length", 0.5),
        ("second_order_share", 50 / 200),
        ("wait_first", (0 + 40 + 20) / 3),
        ("wait_first@weight=gpu_time", (40 * 100 + 20 * 1400) / 1600),
        ("wait_first@size=8", 20.0),
        ("wait_first@stream=small", 20.0),
        ("wait_total@size=8+", 25.0),
        ("jct", (100 + 200) / 2),
        ("bounded_slowdown", (1.0 + 1.4 + 200 / 175) / 3),
        ("bounded_slowdown_10min", 1.0),
        ("ettr", (100 + 80 + 8 * 150) / (100 + 140 + 8 * 200)),
        ("ettr@size=8", 150 / 200),
        ("ettr_no_queue@size=8", 150 / 175),
        ("ettr_above_90", 100 / 1600),
        ("mttf@size=8", 175 / 2),
        ("preemptions", 2 / (1800 / HOUR / 1000)),
        ("second_order_preemptions@size=1", 1 / (200 / HOUR / 1000)),
        ("interruptions", 1.0),
    ],
)
def test_metrics_by_hand(name: str, expected: float) -> None:
    """Each metric is what its definition says, of all jobs and of slices of them."""
    assert value(name) == pytest.approx(expected, rel=1e-12)
    assert name in METRICS


@cases(
    "quotas, weights, entitled, jain",
    [
        ((None, None), (1.0, 1.0), (0.5, 0.5), 0.8),
        ((None, None), (3.0, 1.0), (0.75, 0.25), 1.0),
        ((12, 4), (1.0, 1.0), (0.75, 0.25), 1.0),
        ((12, None), (1.0, 1.0), (0.5, 0.5), 0.8),
        ((16, 0), (1.0, 1.0), (1.0, 0.0), 1.0),
    ],
)
def test_fairness_by_hand(quotas: Any, weights: Any, entitled: Any, jain: float) -> None:
    """Shares held are 3/4 and 1/4; entitled is a tenant to its quota where all have one, else to its weight."""
    tally = FleetAccumulator([0.0, 100.0], 8, [])
    for tenant, gpu_s in enumerate((600.0, 200.0)):
        tally.charge(tally.account(0, 1, tenant), Bucket.PRODUCTIVE, 0, DIRECT, gpu_s, 0.0, 100.0)
    both = tuple(SimpleNamespace(nodes=n, weight=w, name=str(n)) for n, w in zip(quotas, weights, strict=True))
    shared: Any = SimpleNamespace(**{**vars(prepared()), "tenants": both})
    fleet = tally.result(100.0)
    buckets = {key.account: np.bincount([key.bucket], row, len(Bucket)) for key, row in fleet.ledger.items()}
    assert tenant_shares(shared, buckets) == list(zip((0.75, 0.25), entitled, strict=True))
    found = fleet_ratios(shared, fleet)["fairness"]
    assert found.amount / found.base == pytest.approx(jain)
    assert METRICS["fairness"].is_share


def test_longest_wait() -> None:
    """The longest time in the queue is known by account, of jobs that still wait too; of two runs it is the most."""
    longest = result().longest
    assert sorted(longest.values()) == [25.0, 40.0]
    tally = FleetAccumulator([0.0, 100.0], 8, [])
    tally.ended(tally.account(1, 8), "waiting", 10.0, math.nan, 100.0, 8, waited=90.0, run=0.0, useful=0.0)
    tally.idle("no_queue", 800.0, 0.0, 100.0)
    assert [*tally.result(100.0).longest.values()] == [90.0]
    both = added([replace(result(), longest=dict.fromkeys(longest, 3.0)), result()])
    assert both.longest == longest


def test_windows_and_larger_sizes_add_up() -> None:
    """Amounts and bases of windows, and of size classes, add up to those of all."""
    whole, parts = fleet_ratios(prepared(), result()), batches(prepared(), [result()])
    assert len(parts) == 2
    for name, ratio in whole.items():
        assert np.sum([part[name] for part in parts], axis=0) == pytest.approx(ratio), name
    assert whole["interruptions"].base == 1
    for metric in ("ettr", "wait_first", "mttf"):
        both = [whole[f"{metric}@size={size}"] for size in ("1", "8")]
        assert whole[f"{metric}@size=1+"] == pytest.approx(np.sum(both, axis=0))


@cases(
    "name, words",
    [
        ("ettr@size=1024+", " of jobs of 1,024 GPUs or more"),
        ("ettr@size=1", " of jobs of 1 GPU"),
        ("wait_first@tenant=research@weight=gpu_time", " of tenant research, weighted by GPU-time"),
    ],
)
def test_names_of_slices(name: str, words: str) -> None:
    """A slice has the label of its metric and says of whom it is; studies take it."""
    found = Slice.parse(name)
    assert found.name == name
    whole = METRICS[found.metric]
    assert METRICS[name].label == whole.label + words
    assert METRICS[name].unit == whole.unit
    Study._check_metrics(Study.model_construct(metrics=(name,), precision=None, questions=(), optimize=None))


@cases(
    "name", ["ettr@size=1000", "ettr@colour=red", "occupancy@size=8", "ettr@weight=gpu_time", "ettr@size=", "x@size=8"]
)
def test_names_that_are_no_slices(name: str) -> None:
    """Sizes are powers of two; what is of the cluster has no slices; only means over jobs are weighted."""
    assert name not in METRICS


def test_batches_that_are_alike_are_no_sample() -> None:
    """Independent batches are refused about 1 time in 40; those of a slow walk nearly always."""
    generator = np.random.default_rng(7)
    count = 2000
    refused = sum(are_correlated(generator.exponential(size=BATCHES)) for _ in range(count))
    assert 0.01 * count < refused < 0.045 * count
    walks = generator.normal(size=(200, BATCHES)).cumsum(axis=1)
    assert sum(map(are_correlated, walks)) > 170


def line(slope: float, noise: np.ndarray) -> QueueLine:
    """Return a queue of 50 GPUs in the middle that grows along a line, with noise."""
    time = np.arange(60.0) - 29.5
    return QueueLine(time, 50 + slope * time + noise, 60.0)


def waiting(load: float, generator: np.random.Generator) -> QueueLine:
    """Return the queue of one server at a load over 2,000 service times; it begins empty."""
    arrivals = np.cumsum(generator.exponential(1 / load, int(2000 * load)))
    # Lindley: the wait is how far work that came is above its lowest level so far.
    level = np.cumsum(generator.exponential(1.0, len(arrivals)) - np.diff(arrivals, append=arrivals[-1]))
    waits = np.concatenate(([0.0], (level - np.minimum.accumulate(np.minimum(level, 0.0)))[:-1]))
    edges = np.linspace(0.0, 2000.0, 121)
    spent = [(np.clip(arrivals + waits, 0, edge) - np.clip(arrivals, 0, edge)).sum() for edge in edges]
    time = (edges[:-1] + edges[1:]) / 2
    return QueueLine(time - time.mean(), np.diff(spent) / (edges[1] - edges[0]), 2000.0)


@cases("load, least, most", [(0.73, 0.0, 0.02), (0.9, 0.0, 0.05), (1.5, 0.9, 1.0)])
def test_who_is_called_saturated(load: float, least: float, most: float) -> None:
    """One run of a server that can do its work is hardly ever said to have too much, and one that cannot mostly is."""
    generator = np.random.default_rng(11)
    found = [growth_of([waiting(load, generator)]) for _ in range(sample(100))]
    share = sum(growth is not None and growth.saturated for growth in found) / len(found)
    assert least <= share <= most


def test_a_slope_has_the_error_of_a_queue_that_wanders() -> None:
    """The slope of a random walk has the variance 6 s² / 5T: its interval covers 0 in 95 of 100, though it wanders."""
    generator = np.random.default_rng(5)
    walks = np.cumsum(generator.normal(size=(400, 3000)), axis=1)
    lines = [QueueLine(np.arange(60.0) * 50 - 1475, walk.reshape(60, 50).mean(axis=1), 3000.0) for walk in walks]
    slopes = np.array([line.slope() for line in lines])
    assert slopes.var() == pytest.approx(1.2 / 3000, rel=0.25)
    covered = [growth.ci95[0] <= 0 <= growth.ci95[1] for line in lines if (growth := growth_of([line])) is not None]
    assert len(covered) == 400
    assert sum(covered) > 0.93 * 400


def test_growth_of_a_queue() -> None:
    """The interval has the slope 95 times in 100, and queues that do not grow are hardly ever called saturated."""
    generator = np.random.default_rng(3)

    def noise() -> np.ndarray:
        found, last = np.empty(60), 0.0
        for place in range(60):
            last = found[place] = 0.6 * last + generator.normal(scale=8.0)
        return found

    for replications in (1, 8):
        tries, hits, false = sample(400), 0, 0
        for _ in range(tries):
            growth = growth_of([line(0.5, noise()) for _ in range(replications)])
            hits += growth.ci95[0] <= 0.5 * DAY <= growth.ci95[1]
            still = growth_of([line(0.0, noise()) for _ in range(replications)])
            false += still.saturated
        assert hits > 0.95 * tries
        assert false < 0.05 * tries
    assert growth_of([line(2.0, noise()) for _ in range(8)]).saturated  # type: ignore[union-attr]
    assert growth_of([]) is None
    assert queue_line(prepared(), result()) is None


def test_quantiles_of_single_jobs() -> None:
    """A quantile from the histogram is right to a bin of 9 %."""
    generator = np.random.default_rng(5)
    values = generator.lognormal(5.0, 2.0, 20_000)
    counts, _ = np.histogram(values, np.append(BIN_EDGES, math.inf))
    for level in (0.05, 0.5, 0.95):
        found = job_quantile(counts.astype(float), level)
        assert found == pytest.approx(float(np.quantile(values, level)), rel=0.05)
    assert job_quantile(np.zeros(len(BIN_EDGES)), 0.5) is None


# End to end.

SCENARIO = """
name: small-fleet
description: What does a small fleet deliver?
cluster: {name: c, nodes: 8, gpus_per_node: 8, accelerator: h100}
horizon: 4 d
warmup: 1 d
streams:
  - name: small
    arrivals: {rate: 6 per h}
    gpus: {"1": 0.7, "8": 0.3}
    work: {use: exponential, mean: 1 h}
    restart: 1 min
  - name: large
    arrivals: {rate: 3 per d}
    gpus: 32
    work: {use: exponential, mean: 2 h}
    priority: 10
    checkpoint: {interval: 30 min, save: 1 min, restore: 2 min}
failures: [{use: component, name: node, part: node, rate: 50 per 1000 node-days}]
detection: {time: 5 min}
checkpoint: {tiers: [{interval: 30 min, mode: blocking, write: 30 s, restore: 1 min}]}
recovery: {use: hot-spare, initialize: 4 min}
repair: {time: 4 h}
scheduler: {use: easy}
"""


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a small fleet, in an empty working folder."""
    for name in ("fleet", "same"):
        (tmp_path / f"{name}.yaml").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    return "fleet.yaml"


def found(path: str, replications: int, *overrides: str) -> RunDocument:
    """Return the document of a run."""
    return document(replicate(sim.prepare(sim.load(path, overrides)), replications, processes=1), command="")


def test_intervals_beside_named_jobs(scenario: str) -> None:
    """Batches are of streams: what a named job has too has the interval of replications, around its own mean."""
    job = "jobs=[{name: train, gpus: 8, step_time: 10 s}]"
    run = found(scenario, 3, job)
    for name in ("ettr", "cluster_goodput"):
        summary = run.metrics[name]
        assert summary.mean_ci95 is not None
        low, high = summary.mean_ci95
        assert low <= summary.mean <= high, name
    alone = found(scenario, 1, job)
    assert alone.metrics["ettr"].mean_ci95 is None


BESIDE = """
jobs: [{name: train, gpus: 16, step_time: 10 s, tenant: research}]
tenants: [{name: research, nodes: 5}, {name: product, nodes: 3}]
services:
  - name: chat
    model: llama3-70b
    replicas: 4
    parallelism: {tensor: 4}
    demand: {rate: 15 per s, input: {mean: 1155, cv: 0.96}, output: {mean: 211, cv: 0.77}}
    slo: {ttft: 2 s, tpot: 50 ms}
    priority: 20
    tenant: product
"""


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Return a fleet with a named job, two tenants and a service, on a cluster that fails often."""
    path = tmp_path_factory.mktemp("beside") / "fleet.yaml"
    path.write_text(SCENARIO + BESIDE)
    changes = ["horizon=1 d", "warmup=0 s", "failures.0.scale=20", "scheduler.preempt.mode=requeue"]
    changes += ["streams.0.load=0.4", *(f"streams.{place}.tenant=product" for place in (0, 1))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.import_module("ettrick.sim.prepare.services"), "_REPLAYED", 2000)
        return sim.prepare(sim.load(str(path), changes))


def _summaries(run: RunDocument) -> Iterator[tuple[str, MetricSummary]]:
    """Yield all summaries of a document: of the cluster, each slice, job, service and target."""
    yield from run.metrics.items()
    parts = {**run.per_job, **run.per_service, **run.per_target}
    groups = {f"{by} {name}": group for by, groups in run.fleet.by.items() for name, group in groups.items()}
    for name, part in (parts | groups).items():
        yield from ((f"{metric} of {name}", summary) for metric, summary in part.metrics.items())


def test_a_mean_lies_in_its_interval(beside: Prepared) -> None:
    """Whatever the number of replications and the metric, counts of a run too, an interval is of the mean beside it."""
    ensemble, counted = Ensemble(beside), set()
    for replication in range(9 if IS_FULL else 2):
        ensemble.add(sim.run(beside, replication))
        for name, summary in _summaries(document(ensemble, command="")):
            if summary.mean_ci95 is not None:
                low, high = summary.mean_ci95
                assert summary.mean is not None, name
                assert low <= summary.mean <= high, (replication, name, summary)
                counted.add(name)
    assert {"interruptions", "occupancy", "cluster_goodput"} <= counted


def test_named_jobs_are_jobs_of_the_fleet(beside: Prepared) -> None:
    """A job with a name is in totals, slices and shares of tenants like one of a stream, with the ETTR of its own."""
    run = document(replicate(beside, 1, processes=1), command="")
    fleet, own = run.fleet, run.per_job["train"]
    held = sum(row.gpu_s for row in fleet.ledger if row.bucket != "queued")
    assert held == pytest.approx(fleet.owned_gpu_s)
    of_buckets = dict.fromkeys(run.cluster_shares, 0.0)
    for row in fleet.ledger:
        of_buckets[row.bucket] += row.gpu_s * (row.bucket != "queued")
    assert run.cluster_shares == pytest.approx({name: spent / held for name, spent in of_buckets.items()}, abs=1e-9)
    train = fleet.by["stream"]["train"]
    assert train.jobs == 1
    assert train.metrics["ettr"].mean == pytest.approx(own.metrics["ettr"].mean)
    research = fleet.tenants["research"].held_share
    assert research == pytest.approx(train.gpu_s / (run.metrics["allocation"].mean * fleet.owned_gpu_s))
    ratios = [research / (5 / 8), (1 - research) / (3 / 8)]
    jain = run.metrics["fairness"].mean
    assert jain == pytest.approx(sum(ratios) ** 2 / (2 * sum(ratio**2 for ratio in ratios)), rel=1e-3)
    shown = format_run(run, beside)
    named = shown[shown.index("Named jobs") :].splitlines()[3].split()
    assert named[:2] == ["train", "16"]


def test_document_closes(scenario: str) -> None:
    """The ledger adds up to the cluster, jobs by size to all jobs, and time shares to one."""
    run = found(scenario, 2)
    fleet = run.fleet
    assert fleet.owned_gpu_s == 64 * 4 * 24 * HOUR
    assert sum(row.gpu_s for row in fleet.ledger if row.bucket != "queued") == pytest.approx(
        fleet.owned_gpu_s, rel=1e-9
    )
    sizes = {name: group for name, group in fleet.by["size"].items() if not name.endswith("+")}
    assert list(sizes) == ["1", "8", "32"]
    assert sum(group.jobs for group in sizes.values()) == pytest.approx(fleet.jobs)
    assert sum(row.jobs for row in fleet.outcomes.values()) == pytest.approx(fleet.jobs)
    assert sum(run.time_shares.values()) == pytest.approx(1.0)
    assert sum(run.cluster_shares.values()) == pytest.approx(1.0)
    assert sum(window.allocated * (window.end_s - window.start_s) for window in fleet.windows) == pytest.approx(
        run.metrics["allocation"].mean * fleet.owned_gpu_s  # type: ignore[operator]
    )
    assert RunDocument.model_validate(json.loads(render(run))).fleet == fleet
    assert "wait_first@weight=gpu_time" in run.metrics
    assert not any("@size" in name for name in run.metrics)


def test_failures_of_jobs_by_size(scenario: str) -> None:
    """An MTTF stands beside 1/(N r) of its N nodes, with the Gamma interval of a rate, or is longer than a bound."""
    run = found(scenario, 2, "horizon=20 d")
    sizes = run.fleet.by["size"]
    per_node = 20 * 86_400
    assert {name: sizes[name].mttf_expected_s for name in ("1", "8", "32")} == pytest.approx(
        {"1": per_node, "8": per_node, "32": per_node / 4}
    )
    assert run.fleet.by["stream"]["large"].mttf_expected_s is None
    mttf = sizes["8+"].metrics["mttf"]
    failures = sum(row.stops for row in run.fleet.stops if row.via == "direct" and row.size >= 8) * 2
    low, high = (1 / stats.gamma.ppf(q, failures + 0.5) * failures for q in (0.975, 0.025))
    assert (mttf.method, failures > 3) == ("gamma", True)
    assert mttf.mean_ci95 == pytest.approx((mttf.mean * low, mttf.mean * high))  # type: ignore[operator]
    assert sizes["1"].metrics["mttf"].method != "gamma"  # one failure stops all small jobs of a node
    none = found("same.yaml", 1, "failures=[]").fleet
    assert none.by["size"]["8"].mttf_expected_s is None
    assert none.by["size"]["8"].metrics["mttf"].lower_bound95 is not None


def test_ledger_closes_in_each_window(scenario: str) -> None:
    """What each window owns is what is charged to it, repair and idle nodes too."""
    fleet = sim.run(sim.prepare(sim.load(scenario)), 0).fleet
    spent = np.sum([row for key, row in fleet.ledger.items() if key.bucket != Bucket.QUEUED], axis=0)
    assert spent == pytest.approx(fleet.owned, rel=1e-9)
    assert len(spent) == 120


@cases("replications, days, method, intervals", [(8, 3, "t", "replications"), (1, 10, "batch means", "batch means")])
def test_intervals(scenario: str, replications: int, days: int, method: str, intervals: str) -> None:
    """Eight replications are a sample; of one, its batches are, where they are not too alike."""
    run = found(scenario, replications, f"horizon={days} d")
    assert run.fleet.intervals == intervals
    known = {name: summary for name, summary in run.metrics.items() if summary.mean_ci95 is not None}
    assert "ettr" in known
    assert known["ettr"].method == method
    assert "bounded_slowdown" in known or "bounded_slowdown" in run.fleet.correlated


def test_a_log_that_ends_has_no_long_run(tmp_path: Path) -> None:
    """All jobs of a log that ends have waits, however fast its queue grew; one that goes on is judged."""
    rows = "".join(f"{60 * number},8,{3600 if number < 400 else 600},completed\n" for number in range(500))
    (tmp_path / "log.csv").write_text(f"submit,gpus,run,state\n{rows}")
    (tmp_path / "log.yaml").write_text(f"""
name: log
cluster: {{nodes: 9, gpus_per_node: 8}}
horizon: 60 h
streams: [{{name: log, use: trace, file: {tmp_path / "log.csv"}, restart: 0 s, checkpoint: {{}}}}]
scheduler: {{use: fifo}}
detection: {{time: 5 min}}
checkpoint: {{tiers: [{{interval: 20 min, write: 0 s, restore: 0 s}}]}}
recovery: {{use: full-restart, initialize: 0 s}}
""")
    run = found(str(tmp_path / "log.yaml"), 1)
    assert run.fleet.outcomes["completed"].jobs == 500
    assert run.fleet.growth is None
    assert run.metrics["wait_first"].mean is not None
    assert "500 recorded jobs" in format_run(run, sim.prepare(sim.load(str(tmp_path / "log.yaml"))))
    over = found(str(tmp_path / "log.yaml"), 1, "warmup=5 d").fleet  # all of it ends in the warm-up
    assert over.jobs == 0
    cut = found(str(tmp_path / "log.yaml"), 1, "horizon=5 h").fleet
    assert cut.growth.saturated


def test_saturation_has_no_means(scenario: str) -> None:
    """Where more work arrives than is done there is a rate of growth, and nothing that depends on the queue."""
    run = found(scenario, 1, "streams.0.load=8", "scheduler={use: fifo}")
    assert run.fleet.growth.saturated
    assert all(summary.mean is None for name, summary in run.metrics.items() if METRICS[name].is_of_queue)
    assert run.metrics["occupancy"].mean is not None
    assert run.fleet.by["size"]["8"].metrics["wait_first"].mean is None
    assert any("the queue grows by" in note for note in run.notes)
    calm = found(scenario, 2).fleet
    assert not (calm.growth is not None and calm.growth.saturated)


def test_commands(scenario: str, tmp_path: Path) -> None:
    """`run` prints and keeps tables, the report has both chapters, and `compare` pairs the same jobs."""
    out = tmp_path / "out"
    shown = report_sample.call(
        "run", scenario, "-n", "2", "--out", str(out), "--tables", "metrics,ledger,series", "--full"
    )
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.index("Output of the fleet") < shown.stdout.index("Where every GPU-hour went")
    tables = {
        name: list(csv.DictReader((out / f"{name}.csv").read_text().splitlines()))
        for name in ("metrics", "ledger", "series")
    }
    total = sum(float(row["gpu_s"]) for row in tables["ledger"] if row["bucket"] != "queued")
    assert total == pytest.approx(2 * 64 * 4 * 24 * HOUR, rel=1e-9)
    pooled = [row for row in tables["metrics"] if row["replication"] == "-1" and row["metric"] == "ettr"]
    assert {(row["by"], row["group"]) for row in pooled} >= {("", ""), ("size", "32"), ("stream", "small")}
    assert {row["quantity"] for row in tables["series"]} == {"allocated", "healthy", "queued_gpus", "queued_jobs"}
    keys = [section.key for section in report_of(out).sections]
    assert keys[:2] == ["the-cluster-over-time", "waits-by-size"]


def test_fleets_side_by_side(scenario: str, tmp_path: Path) -> None:
    """A report of a comparison, and of a study, has both chapters for several fleets, with paired differences."""
    out, vary = tmp_path / "compared", "scheduler.use=fifo,easy"
    short = ("--set", "horizon=2 d", "--set", "streams.0.load=1.3")
    made = report_sample.call("compare", scenario, "--vary", vary, "-n", "2", "-o", str(out), *short)
    assert made.exit_code == 0, made.output
    assert "ETTR" in made.stdout.splitlines()[0]  # the goodput of the cluster is that of the load
    variants = json.loads((out / "compare.json").read_text())["variants"]
    change = variants["scheduler.use=easy"]["difference"]["wait_first@size=1"]
    assert change["mean"] < 0
    report = report_of(out)
    assert [section.key for section in report.sections][:3] == ["comparison", "the-cluster-over-time", "waits-by-size"]
    (waits,) = (item for item in report.sections[2].items if getattr(item, "key", "") == "wait-by-size")
    assert [column.head for column in waits.table.columns] == ["GPUs", "fifo", "easy", "easy − fifo"]
    means = [variants[f"scheduler.use={use}"]["fleet"]["by"]["size"]["1"]["metrics"]["wait_first"]["mean"]
             for use in ("fifo", "easy")]  # fmt: skip
    shown = waits.chart.rows[0].values
    assert shown[0] / shown[1] == pytest.approx(means[0] / means[1])
    study = f"""
name: which
scenario: {tmp_path / scenario}
set: {{horizon: 2 d, streams.0.load: 1.3}}
vary: {{policy: {{path: scheduler.use, choices: [fifo, easy]}}}}
metrics: ["ettr@size=8+", wait_first]
replications: 2
questions: [{{use: best, metric: "ettr@size=8+"}}]
"""
    (tmp_path / "study.yaml").write_text(study)
    swept = report_sample.call("sweep", "study.yaml", "--out", "swept", "-j", "1", "-q")
    assert swept.exit_code == 0, swept.output
    sections = {section.key: section for section in report_of(tmp_path / "swept").sections}
    assert {"the-cluster-over-time", "waits-by-size"} <= set(sections)
    (again,) = (item for item in sections["waits-by-size"].items if getattr(item, "key", "") == "wait-by-size")
    assert sorted(again.chart.rows[0].values) == pytest.approx(sorted(shown))  # simulated again, the same numbers


def test_where_one_queue_grows(scenario: str) -> None:
    """Without a mean there is no difference: of a queue that grows only the goodput of the cluster is compared."""
    variants = [
        Variant(name, sim.prepare(sim.load(scenario, [f"streams.0.load={load}", "scheduler={use: fifo}"])))
        for name, load in (("calm", 1), ("full", 8))
    ]
    both = compare(variants, 2, processes=1)
    assert both.headline == "cluster_goodput"
    assert both.differences[1]["wait_first@size=8"] is None
    assert both.differences[1]["ettr"] is None
    assert both.differences[1]["cluster_goodput"] is not None


@cases(
    "options, complaint",
    [
        (
            ["--tables", "ledgers", "--out", "o"],
            "--tables: unknown table 'ledgers'; did you mean 'ledger'? (choose from "
            "metrics, ledger, series, attempts, jobs)",
        ),
        (["--tables", "ledger"], "--tables: needs --out, the folder to write them to"),
    ],
)
def test_wrong_tables(scenario: str, options: list[str], complaint: str) -> None:
    """A table that there is none of is one line, before anything is simulated."""
    refused = report_sample.call("run", scenario, *options)
    assert (refused.exit_code, refused.stderr.strip()) == (2, complaint)


def test_timeline_of_a_part_of_the_run(scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timeline has the attempts of a window, one at a time in a row, and is refused if it is too long."""
    out = tmp_path / "t.json"
    made = report_sample.call("trace", scenario, "-o", str(out), "--from", "1 d", "--to", "36 h")
    assert made.exit_code == 0, made.output
    attempts = [event for event in json.loads(out.read_text())["traceEvents"] if event.get("cat") == "attempt"]
    assert attempts
    assert min(event["ts"] for event in attempts) >= 86_400e6
    assert max(event["ts"] + event["dur"] for event in attempts) <= 129_600e6
    ends: dict[int, float] = {}
    for event in sorted(attempts, key=lambda event: event["ts"]):
        assert event["ts"] >= ends.get(event["tid"], 0) - 1  # whole microseconds
        ends[event["tid"]] = event["ts"] + event["dur"]
    out.unlink()
    wrong = report_sample.call("trace", scenario, "-o", str(out), "--from", "2 d", "--to", "1 d")
    assert (wrong.exit_code, wrong.stderr.strip()) == (2, "--from 2 d: is not before --to 1 d")
    monkeypatch.setattr(timeline, "MOST_SPANS", 10)
    refused = report_sample.call("trace", scenario, "-o", str(out))
    assert refused.exit_code == 2
    assert "choose a part of the run, --from and --to" in refused.stderr


def jobs_of(out: Path, *arguments: str) -> dict[str, dict[str, str]]:
    """Return the table of jobs of a run, by name."""
    made = report_sample.call("run", *arguments, "-n", "1", "--out", str(out), "--tables", "jobs,attempts")
    assert made.exit_code == 0, made.output
    return {row["job"]: row for row in csv.DictReader((out / "jobs.csv").read_text().splitlines())}


SHARED = (
    "--set", "tenants=[{name: a}, {name: b}]", "--set", "partitions=[{name: all}, {name: most, nodes: 0-6}]",
    "--set", "failures=[]", "--set", "warmup=0 d", "--set", "horizon=2 d",
    "--set", "streams.0.tenant={a: 1, b: 1}", "--set", "streams.1.tenant=b", "--set", "streams.0.partition=most",
    "--set", "streams.0.limit={factor: {low: 1, high: 3}}", "--set", "streams.0.load=4",
)  # fmt: skip


def test_jobs_of_a_run_are_replayed(scenario: str, tmp_path: Path) -> None:
    """The table of jobs is a trace that needs no map: without failures every job starts again to the second."""
    first = jobs_of(tmp_path / "first", scenario, *SHARED)
    stream = f"streams=[{{name: log, use: trace, file: {tmp_path / 'first/jobs.csv'}, restart: 0 s, checkpoint: {{}}}}]"
    again = jobs_of(tmp_path / "again", "same.yaml", *SHARED[:10], "--set", stream)
    order = sorted((row for row in first.values() if row["end"]), key=lambda row: float(row["submit"]))
    begin = float(order[0]["submit"])
    # What is unfinished at the end is not in the replay, so that nothing is compared from its submission on.
    until = min(float(row["submit"]) for row in first.values() if row["state"] in ("pending", "running"))
    compared = waited = 0
    for number, row in enumerate(order):
        other = again.get(f"log-{number}")
        if other is not None and float(row["start"]) < until:
            compared += 1
            waited += float(row["start"]) > float(row["submit"])
            same = ("tenant", "partition", "priority", "gpus", "nodes", "state")
            assert [row[key] for key in same] == [other[key] for key in same]
            for key in ("submit", "start"):
                assert float(row[key]) - begin == pytest.approx(float(other[key]), abs=1e-3)
            assert float(row["run"]) == pytest.approx(float(other["run"]), abs=1e-3)
    assert compared > 0.5 * len(order)
    assert waited > 20


def test_jobs_that_are_stopped_stand_in_one_row(scenario: str, tmp_path: Path) -> None:
    """A job has one row: all its attempts, preemptions and lost work, and when it was last put back into the queue."""
    preempt = ("--set", "scheduler={use: easy, preempt: {mode: requeue}, requeue: {delay: 2 min}}")
    jobs = jobs_of(tmp_path / "out", scenario, *preempt, "--set", "streams.0.load=3", "--set", "horizon=2 d")
    attempts: dict[str, list[dict[str, str]]] = {}
    for row in csv.DictReader((tmp_path / "out/attempts.csv").read_text().splitlines()):
        attempts.setdefault(f"{row['stream']}-{row['job']}", []).append(row)
    assert {row["state"] for row in jobs.values()} >= {"completed", "running", "pending"}
    for name, row in jobs.items():
        tries = attempts.get(name, [])
        assert int(row["attempts"]) == len(tries)
        assert int(row["preemptions"]) == sum(each["state"] == "preempted" for each in tries)
        assert float(row["lost"]) == pytest.approx(sum(float(each["lost"]) for each in tries))
        if row["state"] == "completed" and len(tries) > 1:
            assert float(row["eligible"]) == pytest.approx(float(tries[-2]["end"]) + 120)
            assert float(row["eligible"]) <= float(tries[-1]["start"])
    assert any(int(row["attempts"]) > 1 for row in jobs.values())

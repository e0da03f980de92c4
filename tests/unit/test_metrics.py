"""Metrics are what DESIGN says they are: worked out by hand on a result that was made up for it."""

from __future__ import annotations

import ast
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ettrick import sim
from ettrick.analysis import amounts as module
from ettrick.analysis.amounts import (
    PERCENT,
    capital,
    cell_forms,
    count_text,
    form_of,
    name_of,
    people_form,
    percent_text,
    points_text,
    signed_text,
)
from ettrick.analysis.contest.compare import Variant, compare, compare_document
from ettrick.analysis.metrics import BUCKETS, METRICS, TIME_SHARE
from ettrick.analysis.page.chapters.compare import _Contest, _metrics
from ettrick.analysis.page.glossary import bucket_words, metric_words
from ettrick.analysis.ratios import job_ratios, ratios, time_shares
from ettrick.analysis.results.models import CompareDocument
from ettrick.analysis.results.run import nodes_down, render
from ettrick.analysis.statistics.estimates import lower_bound, means, summaries
from ettrick.sim import Bucket, JobResult, Prepared, Ratio, Result
from tests import report_sample
from tests.cases import cases
from tests.typed import present

CAUSES = 2

"""Cause 1 is unplanned, cause 2 is planned."""


def job(name: str = "train", **changes: Any) -> JobResult:
    """Return a job of 10 GPUs that arrives at 100 s, starts at 200 s, ends at 1,100 s and is productive for 700 s."""
    totals = np.zeros((1, len(Bucket), CAUSES + 1))
    totals[0, Bucket.PRODUCTIVE, 0] = 7000
    totals[0, Bucket.QUEUED, 0] = 1000
    totals[0, Bucket.STARVED, 1] = 500
    totals[0, Bucket.RESCHEDULE, 2] = 300
    totals[0, Bucket.LOST_WORK, 1] = 700
    totals[0, Bucket.CHECKPOINT_STALL, 0] = 500
    made_up = JobResult(
        name=name,
        gpus=10,
        requested=10_000.0,
        totals=totals,
        work=700.0,
        at_risk=20.0,
        running=750.0,
        arrival=100.0,
        start=200.0,
        end=1100.0,
        finished=False,
        censored=False,
        interruptions={1: 3, 2: 1},
        disruptions={1: 2},
        merged=1,
    )
    return replace(made_up, **changes)


def result(*jobs: JobResult, replication: int = 0, **changes: Any) -> Result:
    """Return a replication on a cluster that owns 20,000 GPU s."""
    made_up = Result(
        replication=replication,
        edges=np.array([0.0, 1100.0]),
        owned=20_000.0,
        capacity=20_000.0,
        jobs=jobs,
        cluster=np.zeros(len(Bucket)),
        outside=np.zeros((1, len(Bucket), CAUSES + 1)),
        node_seconds=2000.0,
        down_node_seconds=100.0,
        counts={},
        events=0,
    )
    return replace(made_up, **changes)


def prepared(*plans: dict[str, Any]) -> Prepared:
    """Return a scenario with a job for each set of changes, one unplanned and one planned cause."""
    base = report_sample.prepare()
    (source,) = base.sources
    sources = (replace(source, name="one"), replace(source, name="two", planned=True))
    return replace(base, sources=sources, jobs=tuple(replace(base.jobs[0], **plan) for plan in plans))


def values(plan: dict[str, Any], done: JobResult, **changes: Any) -> dict[str, float]:
    """Return the metrics of one replication of one job as numbers."""
    found = ratios(prepared(plan), result(done, **changes))
    return {name: ratio.amount / ratio.base for name, ratio in found.items()}


def test_shares_by_hand() -> None:
    """Of 10,000 GPU s asked for, 1,000 were queued, 800 waited for nodes and 7,000 were productive."""
    found = values({}, job())
    assert found["ettr"] == pytest.approx(0.7)
    assert found["ettr_no_queue"] == pytest.approx(7 / 9)
    assert found["scheduling_goodput"] == pytest.approx(0.82)
    assert found["runtime_goodput"] == pytest.approx(7 / 8.2)
    assert found["cluster_goodput"] == pytest.approx(7000 / 20_000)
    assert found["node_availability"] == pytest.approx(0.95)
    assert found["job_availability"] == pytest.approx(750 / 900)
    assert found["at_risk_at_end"] == pytest.approx(0.02)


def test_nodes_down_by_hand() -> None:
    """Of 10,000 s none is down for 9,000, 3 for 985, 5 for 15: over 3 for 0.15 %, so for 99.9 % it takes 5."""
    found = present(nodes_down({0: 9000.0, 3: 985.0, 5: 15.0}, 100, gpus=8, spares=10))
    assert found.mean == pytest.approx((3 * 985 + 5 * 15) / 10_000)
    assert [getattr(found, level) for level in ("p50", "p90", "p99", "p999", "max")] == [0, 0, 3, 5, 5]
    assert [(row.count, row.gpus) for row in found.more_than] == [(0, 0), (1, 8), (2, 16), (4, 32), (10, 80)]
    assert [row.time_share for row in found.more_than] == pytest.approx([0.1, 0.1, 0.1, 0.0015, 0.0])


def test_availability_of_domains_by_hand() -> None:
    """Of 4,000 s of units they were of use for 3,000 s, and in another replication for 4,000 s; none without units."""
    plan = prepared({})
    found = [ratios(plan, result(job(), unit_seconds=4000.0, whole_unit_seconds=use)) for use in (3000.0, 4000.0)]
    assert found[0]["domain_availability"] == Ratio(3000.0, 4000.0)
    assert summaries(found)["domain_availability"].mean == pytest.approx(7 / 8)
    assert "domain_availability" not in ratios(plan, result(job()))
    assert "domain_availability" not in job_ratios(plan.jobs[0], job(), [False, True])


def test_interruptions_by_hand() -> None:
    """Three unplanned and one planned interruption in 900 s from the first start, 750 s of them running."""
    found = values({}, job())
    assert (found["interruptions"], found["interruptions_unplanned"], found["interruptions_planned"]) == (4, 3, 1)
    assert found["disruptions"] == 2
    assert found["mtti"] == pytest.approx(225)
    assert found["mtti_running"] == pytest.approx(187.5)


def test_goodput_is_the_product_of_the_chain() -> None:
    """Goodput = scheduling x runtime x program goodput, and effective_mfu is its other name."""
    found = values({"mfu": 0.4}, job())
    assert found["program_goodput"] == pytest.approx(0.4)
    assert found["goodput"] == pytest.approx(0.82 * 7 / 8.2 * 0.4)
    assert found["effective_mfu"] == found["goodput"]


def test_tokens_per_day_by_hand() -> None:
    """700 s of surviving work at 50 tokens per 10 s, in 1,000 s since the arrival, is 3.5 tokens/s."""
    assert values({"tokens": 50, "step_time": 10.0}, job())["tokens_per_day"] == pytest.approx(3.5 * 86400)


def test_tokens_per_day_of_a_scenario_are_those_of_all_jobs() -> None:
    """Two jobs side by side make twice the tokens of one; later jobs stretch the time to the last end."""
    plan = {"tokens": 50, "step_time": 10.0}
    two = ratios(prepared(plan, plan), result(job("a"), job("b")))["tokens_per_day"]
    assert two.amount / two.base == pytest.approx(2 * 3.5 * 86400)
    after = ratios(prepared(plan, plan), result(job("a"), job("b", arrival=1100.0, start=1200.0, end=2100.0)))
    assert after["tokens_per_day"].amount / after["tokens_per_day"].base == pytest.approx(3.5 * 86400)


def test_what_not_every_job_has_is_not_said_of_all() -> None:
    """Goodput and tokens exist for the scenario only when every job states its MFU and tokens."""
    some = ratios(prepared({"mfu": 0.4, "tokens": 50}, {}), result(job("a"), job("b")))
    every = ratios(prepared({"mfu": 0.4, "tokens": 50}, {"mfu": 0.3, "tokens": 50}), result(job("a"), job("b")))
    names = {"program_goodput", "goodput", "effective_mfu", "tokens_per_day"}
    assert names & set(some) == set()
    assert names <= set(every)


def test_jobs_are_pooled_as_ratios_of_sums() -> None:
    """A job ten times as large weighs ten times as much; counts add up; MTTI pools times and interruptions."""
    large = job("large", gpus=100, requested=100_000.0, totals=job().totals * 10, interruptions={1: 8})
    large.totals[0, Bucket.PRODUCTIVE, 0] -= 20_000
    large.totals[0, Bucket.LOST_WORK, 1] += 20_000
    pooled = ratios(prepared({}, {}), result(job("small"), large))
    assert pooled["ettr"] == Ratio(57_000, 110_000)
    assert pooled["interruptions"] == Ratio(12, 1)
    assert pooled["mtti"] == Ratio(1800, 12)


def test_replications_are_pooled_as_ratios_of_sums() -> None:
    """MTTI over replications with 1 and 7 interruptions is 1800 s / 8, not the mean of 900 s and 129 s."""
    plan = prepared({})
    rows = [ratios(plan, result(job(interruptions={1: count}))) for count in (1, 7)]
    assert summaries(rows)["mtti"].mean == pytest.approx(225)
    assert means(rows)["mtti"] == pytest.approx(225)
    assert summaries(rows)["interruptions"].mean == 4


amounts = st.floats(0, 1e9)


@given(st.lists(st.tuples(amounts, amounts, amounts, st.floats(0.05, 0.9)), min_size=1, max_size=4))
def test_ettr_is_scheduling_times_runtime(rows: list[tuple[float, float, float, float]]) -> None:
    """Ettr = scheduling x runtime, and goodput = ettr x program, for the pooled sums of any jobs."""
    jobs, plans = [], []
    for productive, queued, other, mfu in rows:
        totals = np.zeros((1, len(Bucket), CAUSES + 1))
        totals[0, [Bucket.PRODUCTIVE, Bucket.QUEUED, Bucket.RESTORE], 0] = productive, queued, other
        jobs.append(job(totals=totals, requested=float(totals.sum())))
        plans.append({"mfu": mfu})
    found = {name: ratio.amount / ratio.base if ratio.base else None for name, ratio in _pooled(plans, jobs).items()}
    scheduling, runtime, program = (found[f"{name}_goodput"] for name in ("scheduling", "runtime", "program"))
    if scheduling is not None and runtime is not None and program is not None:
        assert found["ettr"] == pytest.approx(scheduling * runtime, rel=1e-12)
        assert found["goodput"] == pytest.approx(scheduling * runtime * program, rel=1e-12)


def _pooled(plans: list[dict[str, Any]], jobs: list[JobResult]) -> dict[str, Ratio]:
    return ratios(prepared(*plans), result(*jobs))


def test_no_interruption_gives_a_lower_bound() -> None:
    """Nothing in 3 x 900 s: the mean is unknown, and with 95 % confidence it is longer than 2700 s / ln 20."""
    rows = [ratios(prepared({}), result(job(interruptions={}))) for _ in range(3)]
    assert summaries(rows)["mtti"].mean is None
    bound = present(lower_bound(rows, "mtti"))
    assert math.exp(-2700 / bound) == pytest.approx(0.05)


def test_any_interruption_ends_the_lower_bound() -> None:
    """One interruption in any replication gives a mean, and the bound is gone."""
    plan = prepared({})
    rows = [ratios(plan, result(job(interruptions=hits))) for hits in ({}, {1: 1})]
    assert lower_bound(rows, "mtti") is None
    assert summaries(rows)["mtti"].mean == pytest.approx(1800)


def test_no_time_gives_no_bound() -> None:
    """A job that never started says nothing about interruptions."""
    idle = job(start=math.nan, running=0.0, interruptions={})
    assert lower_bound([ratios(prepared({}), result(idle))], "mtti") is None


def test_unfinished_is_later_than_everything() -> None:
    """With 30 of 100 runs unfinished the median and its interval exist, p95 is censored and there is no mean."""
    plan = prepared({"target": 5000.0, "deadline": 950.0})
    finished = [job(finished=True, end=1000.0 + index) for index in range(70)]
    rows = [ratios(plan, result(done)) for done in [*finished, *[job(censored=True)] * 30]]
    time = summaries(rows)["time_to_work"]
    assert time.mean is None
    assert time.mean_ci95 is None
    assert time.std is None
    assert time.p95 is None
    assert time.p95_ci95 is None
    assert time.p50 == pytest.approx(900 + 49.5)
    assert means(rows)["time_to_work"] is None


def test_p_finish_by_counts_unfinished_as_not_finished() -> None:
    """Of four runs one finishes in time, one on the minute, one late and one never: 1/2."""
    plan = prepared({"target": 5000.0, "deadline": 950.0})
    ends = [job(finished=True, end=end) for end in (1000.0, 1050.0, 1051.0)]
    rows = [ratios(plan, result(done)) for done in [*ends, job(censored=True, end=1000.0)]]
    assert summaries(rows)["p_finish_by"].mean == 0.5


def test_time_to_work_only_of_fixed_work() -> None:
    """A job without a fixed amount of work has no time to finish."""
    assert not {"time_to_work", "p_finish_by"} & set(values({}, job()))


def test_a_job_that_never_arrives_has_no_shares() -> None:
    """A job that arrives after the horizon asked for nothing: no share, no negative time."""
    absent = job(
        arrival=2000.0, start=math.nan, requested=0.0, totals=job().totals * 0, running=0.0, work=0.0, interruptions={}
    )
    plan = {"tokens": 50, "mfu": 0.4, "target": 100.0, "deadline": 50.0}
    found = summaries([ratios(prepared(plan), result(absent))] * 2)
    assert all(found[name].mean is None for name in ("ettr", "scheduling_goodput", "mtti", "tokens_per_day"))
    assert found["p_finish_by"].mean == 0
    assert found["cluster_goodput"].mean == 0
    mine = summaries([job_ratios(prepared(plan).jobs[0], absent, [False, True])] * 2)
    assert mine["tokens_per_day"].mean is None


def test_share_metrics_are_known_names() -> None:
    """The value of every share is between 0 and 1."""
    found = values(
        {"mfu": 0.4, "target": 100.0, "deadline": 50.0}, job(finished=True), unit_seconds=9.0, whole_unit_seconds=8.0
    )
    others = {METRICS["alarm_recall"].needs[0], METRICS["fill_rate"].needs[0]}
    shares = {
        name
        for name in OWN
        if METRICS[name].is_share and METRICS[name].of != "target" and others.isdisjoint(METRICS[name].needs)
    }
    assert set(found) >= shares
    assert all(0 <= found[name] <= 1 for name in shares)


def test_job_ratios_are_the_pooled_ones_of_a_single_job() -> None:
    """With one job its metrics and the scenario's are the same numbers."""
    plan = prepared({"mfu": 0.4, "tokens": 50, "target": 100.0, "deadline": 50.0})
    mine = job_ratios(plan.jobs[0], job(), [False, True])
    pooled = ratios(plan, result(job()))
    assert {name: pooled[name] for name in mine} == mine


RICH: dict[str, Any] = {
    "cluster": {**report_sample.SMALL["cluster"], "accelerator": "h100", "rack": {"nodes": 4}},
    "jobs": [
        {
            "name": "train",
            "gpus": 96,
            "model": "llama3-8b",
            "batch": {"tokens": "6 Mi", "sequence": 8192},
            "parallelism": {"tensor": 8, "data": 12},
            "step_time": "40 s",
            "work": {"time": "12 h"},
            "deadline": "3 d",
        }
    ],
    "cost": {"gpu_hour": 2, "currency": "EUR"},
    "power": {"carbon": {"intensity": 400}},
    "spares": {"hot": 4, "unit": "rack"},
    "health": {"prediction": {"recall": "60 %", "precision": "85 %", "lead": "10 min"}, "test": "2 h"},
    "parts": {"node": {"stock": 50, "lead": "5 d"}},
    "targets": [
        {"name": "shift", "at_least": "90 %", "window": "1 h", "credits": [{"below": 0.99, "share": 0.1}], "bill": 9}
    ],
}

"""States whatever a metric may need."""

OF_OTHERS = {METRICS["wait_first"].needs[0], METRICS["slo_attainment"].needs[0]}
"""What only streams and only services have."""

OWN = [
    name for name, metric in METRICS.items() if not name.startswith(TIME_SHARE) and OF_OTHERS.isdisjoint(metric.needs)
]


@pytest.fixture(scope="module")
def comparison() -> dict[str, Any]:
    """Return a comparison of two scenarios that have every metric."""
    variants = [
        Variant(name, report_sample.prepare(**RICH, repair={"time": time}))
        for name, time in (("a", "4 h"), ("b", "1 h"))
    ]
    found: dict[str, Any] = json.loads(render(compare_document(compare(variants, 2, processes=1), {}, command="")))
    return found


def test_what_a_scenario_states_is_what_its_metrics_need() -> None:
    """A scenario that states everything has every metric; one that states nothing has those that need nothing."""
    rich, bare = report_sample.prepare(**RICH), report_sample.prepare()
    for prepared in (rich, bare):
        result = sim.run(prepared, 0)
        found = set(ratios(prepared, result) | time_shares(result))
        lacking = {name for name, metric in METRICS.items() if metric.lacks(prepared)}
        assert not found & lacking
        assert found | lacking >= set(METRICS) - {"domain_availability"}
    assert all(metric.lacks(rich) is None for metric in METRICS.values() if OF_OTHERS.isdisjoint(metric.needs))
    assert METRICS["cost_per_token"].lacks(bare)


def test_a_metric_stands_on_every_surface(comparison: dict[str, Any]) -> None:
    """JSON, tables of the page, sentences, cells of the terminal and the reference have each, and none by its key."""
    variant = comparison["variants"]["a"]
    assert set(variant["metrics"]) == set(OWN)
    shares = {name for name in METRICS if name.startswith(TIME_SHARE)}
    assert {f"{TIME_SHARE}{name}" for name in variant["time_shares"]} == shares
    rows = [row[0] for row in _metrics(_Contest.of(CompareDocument.model_validate(comparison))).rows]
    reference = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    for name, metric in METRICS.items():
        for text in (metric.label, metric.short, metric.plain, metric_words(name), name_of(name)):
            assert text, name
            assert not re.search(r"_|\bnan\b|None", text), text
        worded = [
            form_of(name, [0.5], "EUR").plain(0.5),
            people_form(name, [0.5], "EUR").plain(0.5),
            cell_forms(name, "EUR").value(0.5),
        ]
        wanted = {"share": "%", "currency": "EUR", "currency per token": "EUR"}.get(metric.unit, "")
        assert all(wanted in text for text in worded), worded
        if name in OWN:
            assert f"`{name}`" in reference
            assert name == "effective_mfu" or any(row.startswith(capital(metric.label)) for row in rows), name


def test_the_reference_has_the_unit_of_each_metric() -> None:
    """Times, energies, money and rates have theirs in brackets; what is per token is so by its name."""
    reference = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    for name in OWN:
        unit = METRICS[name].unit.removesuffix(" per token")
        assert unit in ("share", "count") or f"`{name}` [{unit}]" in reference, name


def test_a_bucket_stands_on_every_surface(comparison: dict[str, Any]) -> None:
    """The table of buckets is the ledger's, and JSON, page, pictures and the reference have each."""
    assert tuple(BUCKETS) == sim.CLUSTER_BUCKETS
    assert set(comparison["variants"]["a"]["cluster_shares"]) == set(BUCKETS)
    reference = (Path(__file__).parents[2] / "docs" / "reference" / "buckets.md").read_text(encoding="utf-8")
    for name, bucket in BUCKETS.items():
        assert f"`{name}`" in reference
        assert all("_" not in text for text in (bucket.label, bucket.gloss, bucket_words(name)))


def test_no_other_table_names_metrics_or_buckets() -> None:
    """What a metric or a bucket is called stands in analysis/metrics.py alone."""
    root = Path(__file__).parents[2] / "analysis"
    for path in sorted(root.rglob("*.py")):
        if path.name == "metrics.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Dict):
                continue
            names = [
                key.value
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant)
                and isinstance(value, ast.Constant)
                and re.search(r"\w{3}", str(value.value))
            ]
            assert len({*METRICS, *BUCKETS} & {str(name) for name in names}) < 5, f"{path}:{node.lineno}"


def test_numbers_of_nothing_have_no_sign() -> None:
    """What rounds to nothing is nothing: neither more nor less."""
    assert [points_text(value) for value in (-1e-6, 0.0, 1e-6)] == ["0.00 pt"] * 3
    assert [points_text(value) for value in (-1e-4, 1e-4)] == ["-0.01 pt", "+0.01 pt"]
    assert [signed_text(value) for value in (-0.0, -1.0, 1.0)] == ["0", "-1", "+1"]
    assert [percent_text(value) for value in (-1e-6, 0.0, -0.01)] == ["0.00 %", "0.00 %", "-1.00 %"]
    assert [count_text(value) for value in (-0.01, 0.0)] == ["0.0"] * 2
    assert [PERCENT.plain(value, (-0.01, 0.01)) for value in (-1e-6, 0.0)] == ["0.0 %"] * 2


_NEAR_ZERO = [sign * 10.0**power for power in range(-12, 7) for sign in (1, -1)] + [0.0, -0.0]


@cases("metric", ["ettr", "interruptions", "mtti", "tokens_per_day", "energy", "cost", "cost_per_token"])
def test_no_zero_has_a_sign(metric: str) -> None:
    """Whatever rounds to zero is 0 and never -0, in values, changes and intervals, of any metric."""
    cells, signed = cell_forms(metric, "USD"), module._unsigned_zero
    for value in _NEAR_ZERO:
        interval = (value - 0.3, value + 0.3)
        form = form_of(metric, [value], "USD")._replace(least=-math.inf)
        texts = [form.plain(value), form.brief(value), form.value(value, interval), form.change(value, interval)]
        texts += [cells.change(value), cells.value(value), module.compact(value), module.hours_of(value)]
        texts += [module.number_text(value, places) for places in (0, 1, 3)] + [module.signed_number(value, 1)]
        texts += [module.count_text(value), module.short_text(value), points_text(value), module.money(value, "USD")]
        for text in texts:
            assert not re.search(r"(?<![\d.])[-−]0+(\.0+)?(?![\d.e])", text), (value, text)
    assert [signed(text) for text in ("-0.0 %", "+0 d", "-0.1 %", "-0,000")] == ["0.0 %", "0 d", "-0.1 %", "0,000"]


def test_time_with_enough_replicas_is_told_from_replicas_that_serve() -> None:
    """What stands beside the number says whether it is a share of the time or of the replicas."""
    titles = {name: METRICS[name].title for name in ("capacity_availability", "capacity_share", "all_serving")}
    assert [name for name, title in titles.items() if "time" in title and "replicas that" not in title] == [
        "capacity_availability",
        "all_serving",
    ]
    assert "share of the replicas" in titles["capacity_share"]


def test_a_sentence_begins_with_a_capital_but_a_key_stays() -> None:
    """A key with a capital letter would not be found."""
    assert capital("all variants face the same failures") == "All variants face the same failures"
    assert capital("scheduler.preempt.reclaim: none") == "scheduler.preempt.reclaim: none"


def test_the_first_assumption_is_named_however_long_it_is() -> None:
    """A line that only counts assumptions says nothing."""
    text = module.first_clauses(["word " * 30, "second"], 1)
    assert text.startswith("2: word word")
    assert text.endswith("…; 1 more")
    assert len(text) < 80

"""Rows of the validation table that rest on publications: each holds.

What a row asks for and why stands in analysis/validation/tables. Some of the simulated ones are evaluated per push,
`make validate` simulates them all.
"""

from __future__ import annotations

import inspect
import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.analysis.validation.lab import ScenarioRunner
from ettrick.analysis.validation.measures import MEASURES
from ettrick.analysis.validation.measures.nodes import LOG, STATISTICS, Faults
from ettrick.analysis.validation.measures.recovery import HOST, SOFTWARE, failures_at, phases, small
from ettrick.analysis.validation.published_steps import default_folder
from ettrick.analysis.validation.run import validate
from ettrick.analysis.validation.table import load_table
from ettrick.analysis.validation.verdict import judge
from tests.cases import cases
from tests.literature.acceptance import acceptance_statistics
from tests.pace import SEED

if TYPE_CHECKING:
    from ettrick.analysis.validation.table import PublishedRow
    from ettrick.analysis.validation.verdict import Verdict

GROUPS = (
    *("airesim", "daly", "inria", "infinitehbd", "llama3", "logs", "meta_rsc"),
    *("recovery", "presets", "steps", "sizes", "collectives", "spares", "weaker"),
)
"""Groups whose rows rest on publications; the others have tests of their own."""

TABLE = load_table()

ROWS = {row.id: row for row in TABLE.rows if row.group in GROUPS}

PUSHED = {
    *("cold-start-16k", "daly-simulated-wallclock-24h", "kubernetes-eviction-mean", "llama3-useful"),
    *("megascale-effective", "pathways-back", "torchrun-process"),
}
"""Simulated rows of a push, those that are cheap; the others are nightly."""

LAB = ScenarioRunner(SEED, processes=1)


def verdict_on(row: PublishedRow, lab: ScenarioRunner = LAB, **arguments: Any) -> Verdict:
    """Return the verdict on a row, with the share of the error rate that it has in the whole table."""
    estimate = MEASURES[row.measure](lab, row.replications, **{**row.arguments, **arguments})
    return judge(row, estimate, TABLE.stochastic)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.nightly] * (name == "bytecheckpoint-7b"))  # 405b is the same measure
        for name, row in ROWS.items()
        if not row.is_stochastic
    ],
)
def test_formula(name: str) -> None:
    """A row without random numbers: ours is as stated within the stated tolerance, or misses it where it should."""
    row = ROWS[name]
    if row.needs_data and not (LOG if row.group in ("logs", "infinitehbd") else default_folder()).exists():
        pytest.skip("skipped: reference data not present")
    verdict = verdict_on(row)
    assert verdict.state == "pass", verdict


@pytest.mark.timeout(600)  # the first row of a group pays for the simulations of the others
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.nightly] * (name not in PUSHED))
        for name, row in ROWS.items()
        if row.is_stochastic
    ],
)
def test_simulated(name: str) -> None:
    """A simulated row: ours is the stated or expected value within tolerance and sampling error, which is smaller."""
    verdict = verdict_on(ROWS[name])
    assert verdict.state == "pass", verdict


def bound(machines: int, group: int, lost: int) -> float:
    """Return the least probability that memory is enough: ``1 - N C(N - m, k - m) / (m C(N, k))`` (SOSP 2023)."""
    return 1 - machines * math.comb(machines - group, lost - group) / (group * math.comb(machines, lost))


STATED = {
    "slurm-down-mean": (300 + 500) / 2,
    "slurm-requeue-mean": 121 + 60 / 2,
    "kubernetes-eviction-mean": 50 - 10 / 2 + 5 / 2 + 300,
    "failures-of-12500-servers": 24 * 60 / (12_500 * 2.3 / 1000),
    "gemini-16-machines": bound(16, 2, 2),
    "gemini-1024-machines": bound(1024, 2, 4),
    "mt-nlg-wasted": 42 + 42 / 2 + 42,
    "kueue-back-off-6": 60 * 2**5,
    "kueue-back-off-7": min(60 * 2**6, 3600),
    "bubble-1f1b": (8 - 1) / 32,
    "bubble-interleaved": (8 - 1) / (4 * 32),
    "bubble-zero-bubble-h1": (8 - 1) / (3 * 32),
    "recycle-32": max(32 * 8 / 7, 32 + 8 - 1) / (32 + 8 - 1),
    "recycle-64": max(64 * 8 / 7, 64 + 8 - 1) / (64 + 8 - 1),
    "saxena-lost-time": math.sqrt(2 * 5 * 24 * 60),
    "bytecheckpoint-405b": 51.06 + 129.49 + 600 / 2,
    "bytecheckpoint-7b": 20.13 + 265.73 + 600 / 2,
    "bloom-saves": 40 / (100 * 105.22 + 40),
    "ft-hsdp-restart": 1 - 10 / 18,
    "ft-hsdp-elastic": 1 - (3 + 7 / 12) / 18,
    "pathways-back": 13 + 50 + 5.4 + 12.7,
}


@cases("name", STATED)
def test_stated_values_are_those_of_their_formulas(name: str) -> None:
    """A value that follows from stated figures is typed in to at least half a percent, most to the last digit."""
    value = ROWS[name].value
    assert value is not None
    assert value == pytest.approx(STATED[name], rel=0.03 if name == "bloom-saves" else 0.01)
    if ROWS[name].provenance in ("derived", "theory"):
        assert value == pytest.approx(STATED[name], rel=2e-3)


def test_the_optimum_of_availability_is_the_published_one() -> None:
    """Ts + sqrt(2 (Tf + Tr) Ts + Ts^2) is 125.52 min with 5, 1,440 and 10 min (arXiv 2410.18124)."""
    period = ROWS["saxena-availability"].arguments["period"]
    assert period == pytest.approx(5 + math.sqrt(2 * (1440 + 10) * 5 + 25), abs=0.005)


WRONG: dict[str, dict[str, Any]] = {
    "gemini-16-machines": {"machines": 12},
    "mt-nlg-wasted": {"load": 41.0},
    "kueue-back-off-3": {"attempt": 2},
    "jobset-max-restarts": {"budget": 1},
    "torchft-minority": {"majority": True},
    "byterobust-known-switch": {"fault": "nic"},
    "nemotron-bf16-1024": {"precision": "fp8"},
    "bubble-1f1b": {"stages": 9},
    "bubble-zero-bubble-h1": {"schedule": "zero-bubble-h2"},
    "recycle-64": {"missing": 2},
    "parameters-mixtral-8x7b-active": {"active": False},
    "token-flop-deepseek-v3": {"depths": 1},
    "training-flop-gpt3-175b": {"model": "gpt3-13b"},
    "memory-megatron-22b-activations": {"saves": True},
    "memory-megatron-175b-state": {"layout": [4, 8, 3, 1]},
    "checkpoint-llama3-70b": {"model": "llama3-8b"},
    "communicators-64k": {"thousands": 98},
    "start-v3.1-10752": {"gpus": 8192},
    "bus-bandwidth-h100": {"accelerator": "a100"},
    "superpod-16su-core": {"part": "spine"},
    "saxena-lost-time": {"write": 4},
    "saxena-availability": {"period": 180},
    "bytecheckpoint-405b": {"save": 49.0, "points": 400},
    "bloom-saves": {"write": 45.0},
    "ft-hsdp-restart": {"stall": 10.2},
    "ft-hsdp-elastic": {"away": 8.5},
    "ft-hsdp-stall": {"step": 40.0},
    "megascale-effective": {"minutes": [60, 15]},
    "scr-second-level": {"copies": 20.0},
    "pathways-back": {"preset": "torchft-hsdp"},
}


@pytest.mark.parametrize("name", WRONG)
def test_another_input_is_seen(name: str) -> None:
    """With one input changed a row is red: its tolerance is not so wide that anything passes."""
    assert verdict_on(ROWS[name], **WRONG[name]).state == "fail"


@pytest.mark.nightly
def test_too_few_crews_are_seen() -> None:
    """With 2 crews the share of time is not that which a pool for each node would leave."""
    crowded, free = (ROWS[name] for name in ("down-2-crews-p90", "down-40-crews-p90"))
    ours = MEASURES[crowded.measure](LAB, crowded.replications, **crowded.arguments)
    theirs = MEASURES[free.measure](LAB, 2, **free.arguments).expected
    assert judge(crowded, ours._replace(expected=theirs), TABLE.stochastic).state == "fail"


@pytest.mark.nightly
def test_a_law_that_must_miss_does_not_miss_where_it_is_right() -> None:
    """The negative control is red for repairs as long as they are."""
    assert verdict_on(ROWS["down-longer-repairs"], factor=1.0).state == "fail"


def test_failures_by_hand_come_when_they_are_written() -> None:
    """Two failures, of a host and of a process, at their times; the job is rolled back to its last save each time."""
    prepared = LAB.scenario(small("slurm-requeue", 4000.0, nodes=6))
    rows = failures_at(prepared, [(2600.0, SOFTWARE, 0), (1234.0, HOST, 1)])
    assert rows.time.tolist() == [1234.0, 2600.0]
    assert rows.source.tolist() == [HOST, SOFTWARE]
    assert np.isnan(rows.until).all()
    result = sim.run(prepared, 0, rows, keeps_timeline=True)
    found = phases(result)
    known = [phase.start for phase in found if phase.bucket == "detection"]
    # A life that a process can only end while it runs is later by as long as the job stood.
    assert known[0] == 1234.0
    assert known[1] >= 2600.0
    assert sum(result.jobs[0].interruptions.values()) == 2
    assert found[0].start == 0.0
    assert all(before.end == after.start for before, after in itertools.pairwise(found))


def test_rows_are_played_without_reference_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Where the tables of published steps are not there, the rows that need them are skipped, and no others fail."""
    from ettrick.analysis.validation.measures import steps

    monkeypatch.setattr(steps, "default_folder", lambda: tmp_path)
    steps.forget()
    try:
        findings = validate(TABLE, LAB, ["steps", "sizes"])
    finally:
        steps.forget()
    states = {verdict.row.id: verdict.state for verdict in findings.verdicts}
    assert {name for name, state in states.items() if state == "skipped"} == {
        name for name in states if ROWS[name].needs_data
    }
    assert "fail" not in states.values()


@pytest.mark.skipif(not default_folder().exists(), reason="skipped: reference data not present")
def test_errors_are_those_of_the_shipped_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a quarter of the traffic of activations, and without launches, the rows of steps are red."""
    from ettrick.analysis.validation.measures import steps
    from ettrick.sim.catalog import steps as catalog_steps

    constants = replace(catalog_steps.constants(), touches=0.5, launch=0.0, overhead=0.0)
    monkeypatch.setattr(catalog_steps, "constants", lambda: constants)
    steps.forget()
    try:
        states = {name: verdict_on(ROWS[name]).state for name in ("steps-all", "steps-large", "strong-scaling-144")}
    finally:
        steps.forget()
    assert states == dict.fromkeys(states, "fail")


def test_every_measure_is_used_and_called_as_it_is_written() -> None:
    """Rows of the whole table call measures with arguments that these have; no measure is without a row."""
    assert {row.measure for row in TABLE.rows} == set(MEASURES)
    for row in TABLE.rows:
        inspect.signature(MEASURES[row.measure]).bind(LAB, row.replications, **row.arguments)


def test_values_are_the_published_ones() -> None:
    """Anchors of the table that are easily typed wrong: optima, periods, counts, and the sum of the causes."""
    values = {name: row.value for name, row in ROWS.items()}

    def of(pattern: str, *parts: object) -> list[float | None]:
        return [values[pattern.format(part)] for part in parts]

    assert of("daly-optimum-{}", "24h", "6h", "15min") == [117, 57, 9.1]
    assert of("inria-best-{}", 10, 12, 14, 16, 18) == [68240, 34189, 17194, 8701, 4458]
    causes = [value for name, value in values.items() if name.startswith("llama3-cause")]
    assert len(causes) == 18
    assert sum(causes) == values["llama3-unexpected"] == 419
    assert of("llama3-{}", "planned", "interruptions") == [47, 466]
    assert sum(of("infinitehbd-bin-{}", *range(1, 7))) == values["infinitehbd-faults"] == 584


@cases("seed", range(20))
def test_trace_statistics_beside_other_code(seed: int) -> None:
    """The five statistics are those of a slower program that was written apart, on traces with all oddities.

    Outages overlap, touch, take no time, last beyond the end, begin after it, and begin at one instant.
    """
    generator = np.random.default_rng(seed)
    node = generator.integers(0, 12, size=80)
    start = np.round(generator.uniform(0.3, 31.0, size=80), int(generator.integers(1, 5)))
    end = start + np.round(generator.exponential(2.0, size=80), 1) * generator.integers(0, 2, size=80)
    *ours, lasting = (statistic(Faults(node, start, end, 15, 30.0)) for statistic in STATISTICS.values())
    first, second = (np.array([np.sum((node == at) & half) for at in range(15)]) for half in (start < 15, start >= 15))
    assert lasting == pytest.approx(np.cov(first, second, ddof=0)[0, 1] / (first.mean() * second.mean()))
    assert ours == pytest.approx(list(acceptance_statistics(node, start, end, 15, 30.0)), rel=1e-9)


def test_down_time_of_trace_by_hand() -> None:
    """Nodes down 2 of 4 days for one of two nodes, overlap counted once: a quarter; P99 is one node."""
    faults = Faults(np.array([0, 0, 1]), np.array([0.0, 0.5, 3.0]), np.array([1.0, 2.0, 3.0]), 2, 4.0)
    assert STATISTICS["unavailability"](faults) == pytest.approx(0.25)
    assert STATISTICS["nodes down P99"](faults) == 1.0

"""Rows of the validation table for Daly, INRIA, Meta RSC, Llama 3, AIReSim and InfiniteHBD: each holds.

A tenth of the simulated rows is tried per push, `make validate` plays them all. What a row asks for and why
stands in analysis/validation/tables.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import numpy as np
import pytest

from analysis.validation.lab import Lab
from analysis.validation.measures import MEASURES
from analysis.validation.measures.nodes import LOG, STATISTICS, Faults
from analysis.validation.table import load_table
from analysis.validation.verdict import judge
from tests.cases import cases
from tests.literature.acceptance import acceptance_statistics
from tests.pace import SEED, one_in

if TYPE_CHECKING:
    from analysis.validation.table import Row

GROUPS = ("airesim", "daly", "inria", "infinitehbd", "llama3", "meta_rsc")
TABLE = load_table()
ROWS = {row.id: row for row in TABLE.rows if row.group in GROUPS}
FORMULAS = [row.id for row in ROWS.values() if not row.is_stochastic]
SIMULATED = [row.id for row in ROWS.values() if row.is_stochastic]
# Beginnings of names.
COSTLY = ("airesim", "daly-gain", "daly-simulated-wallclock-15min", "daly-exact-wallclock-15min", "infinitehbd-model")
QUICK = [name for name in SIMULATED if not name.startswith(COSTLY)]
LAB = Lab(SEED, processes=1)


def check(row: Row, lab: Lab = LAB) -> None:
    """Assert that a row holds, with the share of the error rate that it has in the whole table."""
    estimate = MEASURES[row.measure](lab, row.replications, **row.arguments)
    verdict = judge(row, estimate, TABLE.stochastic)
    assert verdict.state == "pass", verdict


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name: str) -> None:
    """A row without luck: ours is the stated value, or the wrong formula misses it, within the stated tolerance."""
    row = ROWS[name]
    if row.needs_data and not LOG.exists():
        pytest.skip("skipped: reference data not present")
    check(row)


@pytest.mark.timeout(600)  # the first row of a group pays for the simulations of the others
@pytest.mark.parametrize(
    "name", [*one_in(10, QUICK), *(pytest.param(n, marks=pytest.mark.nightly) for n in SIMULATED if n not in QUICK)]
)
def test_simulated(name: str) -> None:
    """A simulated row: ours is the stated or expected value within tolerance and luck, and luck is the smaller."""
    check(ROWS[name])


def test_every_measure_is_used_and_called_as_it_is_written() -> None:
    """Rows of the whole table call measures with arguments that these have; no measure is without a row."""
    assert {row.measure for row in TABLE.rows} == set(MEASURES)
    for row in TABLE.rows:
        inspect.signature(MEASURES[row.measure]).bind(LAB, row.replications, **row.arguments)


def test_values_are_the_published_ones() -> None:
    """Anchors of the table that are easily typed wrong: optima, periods, counts, and the sum of the causes."""
    assert [ROWS[f"daly-optimum-{mtti}"].value for mtti in ("24h", "6h", "15min")] == [117, 57, 9.1]
    assert [ROWS[f"inria-best-{number}"].value for number in (10, 12, 14, 16, 18)] == [68240, 34189, 17194, 8701, 4458]
    causes = [row.value for row in ROWS.values() if row.id.startswith("llama3-cause")]
    assert len(causes) == 18
    assert sum(value for value in causes if value is not None) == ROWS["llama3-unexpected"].value == 419
    assert [ROWS[f"llama3-{name}"].value for name in ("planned", "interruptions")] == [47, 466]
    bins = [ROWS[f"infinitehbd-bin-{number}"].value for number in range(1, 7)]
    assert sum(value for value in bins if value is not None) == ROWS["infinitehbd-faults"].value == 584


@cases("seed", range(20))
def test_trace_statistics_beside_other_code(seed: int) -> None:
    """The five statistics are those of a slower program that was written apart, on traces with all oddities.

    Outages overlap, touch, take no time, last beyond the end, begin after it, and begin at one instant.
    """
    generator = np.random.default_rng(seed)
    node = generator.integers(0, 12, size=80)
    start = np.round(generator.uniform(0.3, 31.0, size=80), int(generator.integers(1, 5)))
    end = start + np.round(generator.exponential(2.0, size=80), 1) * generator.integers(0, 2, size=80)
    ours = [statistic(Faults(node, start, end, 15, 30.0)) for statistic in STATISTICS.values()]
    assert ours == pytest.approx(list(acceptance_statistics(node, start, end, 15, 30.0)), rel=1e-9)


def test_down_time_of_trace_by_hand() -> None:
    """Nodes down 2 of 4 days for one of two nodes, overlap counted once: a quarter; P99 is one node."""
    faults = Faults(np.array([0, 0, 1]), np.array([0.0, 0.5, 3.0]), np.array([1.0, 2.0, 3.0]), 2, 4.0)
    assert STATISTICS["unavailability"](faults) == pytest.approx(0.25)
    assert STATISTICS["nodes down P99"](faults) == 1.0

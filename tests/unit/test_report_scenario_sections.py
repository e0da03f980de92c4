"""Sections about one scenario: what they show adds up, and agrees with the ledger, with theory, and with each other."""

from __future__ import annotations

import functools
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from ettrick import sim
from ettrick.analysis.explain.cluster import blasts, describe
from ettrick.analysis.page.account import GpuTime, account_of, cluster_bar
from ettrick.analysis.page.chapters import capacity, formula, losses
from ettrick.analysis.page.chapters import cluster as step
from ettrick.analysis.page.charts.data import HeatMap
from ettrick.analysis.page.model import Figure, Section, plain
from ettrick.analysis.page.report_data import ReplayedScenario
from ettrick.analysis.results import run as documents
from ettrick.analysis.results.models import StepSummary
from ettrick.analysis.results.run import nodes_down
from ettrick.analysis.statistics.estimates import mean_interval
from ettrick.sim.engine.result import NO_OUTAGES, Outages
from ettrick.sim.units import DAY
from tests import report_sample
from tests.cases import cases
from tests.pace import SEED
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Callable

SECTIONS: dict[str, Callable[[Any], Section | None]] = {
    "where_time_goes": losses.section,
    "losses": losses.losses_section,
    "missing_nodes": capacity.missing_nodes_section,
    "cluster": step.section,
    "step": step.step_section,
    "closed_form": formula.closed_form_section,
}

TRAIN = report_sample.SMALL["jobs"][0]

RACKS = {"use": "component", "name": "rack", "part": "rack", "rate": "400 per 1000 rack-day"}

CASES: dict[str, dict[str, Any]] = {
    "small": {"cost": {"gpu_hour": 2.5, "currency": "EUR"}},
    "week": {"horizon": "7 d", "failures": [report_sample.SMALL["failures"][0], RACKS]},
    "healthy start": {"horizon": "6 d", "repair": {"time": "2 d"}, "jobs": [{**TRAIN, "gpus": 64}]},
    "a bit more than six days": {"horizon": "8655 min"},
    "nothing fails": {"failures": [], "horizon": "6 d"},
    "two jobs": {
        "jobs": [
            {"name": "late", "gpus": 64, "step_time": "10 s", "arrival": "6 h", "work": {"time": "12 h"}},
            {"name": "other", "gpus": 32, "step_time": "10 s", "work": {"time": "12 h"}},
        ]
    },
    "censored": {"jobs": [{**TRAIN, "work": {"time": "40 d"}}], "warmup": "1 d"},
    "never started": {
        "jobs": [{**TRAIN, "gpus": 128}],
        "failures": [{**RACKS, "rate": "100 per rack-day"}],
        "warmup": "9 d",
    }
    | {"repair": {"time": "30 d"}, "spares": {"hot": 0}},
}


@functools.cache
def focus_of(name: str, replications: int = 6) -> ReplayedScenario:
    """Return a case, to be looked at closely."""
    return ReplayedScenario(name, report_sample.parse(**CASES[name]), replications)


def made(focus: ReplayedScenario | None, name: str) -> Section | None:
    """Return a section about a scenario."""
    return SECTIONS[name](SimpleNamespace(focus=focus))


def chart_of(focus: ReplayedScenario, name: str) -> Any:
    """Return the first chart of a section about a scenario."""
    found = present(made(focus, name))
    return next(item.chart for item in found.items if isinstance(item, Figure))


@pytest.mark.parametrize("replications", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_every_section_copes_with_every_scenario(case: str, replications: int) -> None:
    """No traceback; no number that is none in any text; every row of a table has all its cells."""
    focus = focus_of(case, replications)
    for name in SECTIONS:
        found = made(focus, name)
        for text in () if found is None else texts(found):
            assert text, name
            words = text.replace("(", " ").replace("[", " ").replace(",", " ").split()
            assert not {"nan", "None", "inf", "-inf", "NaN", "null"} & set(words), (name, text)


def texts(section: Section) -> list[str]:
    """Return all that a section says; heads and first cells of tables may be empty, and so are not among them."""
    found = [section.title, *map(plain, section.text), *section.notes]
    for item in section.items:
        grid = item.table if isinstance(item, Figure) else item
        if isinstance(item, Figure):
            found += [item.key, item.alt, item.caption, getattr(item.chart, "title", "a cluster")]
        for row in grid.rows if grid is not None else ():
            assert len(row) == len(present(grid).columns)
            found += [cell for cell in row if cell]
    return found


@pytest.mark.parametrize("case", CASES)
def test_losses_and_ettr_come_to_all_of_the_time(case: str) -> None:
    """All bars and the mean of ETTR come to 100 %, and no loss is missing or nothing."""
    focus = focus_of(case)
    losses_of_phases = [present(bar.values[0]) for bar in losses.lost_time(focus).rows]
    ettr = 100 * documents.plain(focus.document)["metrics"]["ettr"]["mean"]
    assert ettr + math.fsum(losses_of_phases) == pytest.approx(100.0, abs=1e-9)
    assert all(losses_of_phases)
    assert losses_of_phases == sorted(losses_of_phases, reverse=True), "the largest loss comes first"


def test_intervals_of_losses_hold_their_means() -> None:
    """Each has one, the mean is inside, and equal replications have none."""
    bars = losses.lost_time(focus_of("small")).rows
    assert sum(bar.ci95[0] is not None for bar in bars) >= 4
    for bar in bars:
        low, high = bar.ci95[0] or (0.0, math.inf)
        assert max(low, 0.0) <= present(bar.values[0]) <= high
    assert [bar.ci95 for bar in losses.lost_time(focus_of("nothing fails")).rows] == [(None,), (None,)]


@cases("case", CASES)
def test_the_cluster_adds_up(case: str) -> None:
    """The parts of the whole cluster come to 100 %."""
    chart = present(cluster_bar([GpuTime(*shares) for shares in focus_of(case).document.cluster_shares.items()]))
    assert math.fsum(part.amount for part in chart.parts) == pytest.approx(100)
    assert all(part.amount > 0 for part in chart.parts)


def test_what_is_owned_and_paid_by_hand() -> None:
    """128 GPUs for two days are 6,144 GPU-hours, of which the job asked for 112 / 128; the rent is 2.50 an hour."""
    account = account_of(focus_of("small"))
    assert account.owned == pytest.approx(128 * 48 * 3600)
    assert account.requested == pytest.approx(112 * 48 * 3600)
    assert account.price == pytest.approx(2.5 / 3600)
    assert (account.currency, account.a_year) == ("EUR", pytest.approx(365.2425 / 2))


@cases("case", ["two jobs", "censored", "week"])
def test_what_is_owned_is_that_of_the_results(case: str) -> None:
    """Also where all jobs are finished before the horizon."""
    focus = focus_of(case)
    account = account_of(focus)
    assert account.owned == pytest.approx(np.mean([result.owned for result in focus.ensemble.results]))
    assert account.price is None


@cases("case", ["small", "week", "two jobs", "censored"])
def test_losses_are_what_was_not_productive(case: str) -> None:
    """All cells come to 1 - ETTR of the GPU-hours that the jobs asked for."""
    focus = focus_of(case)
    results = focus.ensemble.results
    requested = np.mean([sum(job.requested for job in result.jobs) for result in results]) / 3600
    chart = chart_of(focus, "losses")
    assert isinstance(chart, HeatMap)
    lost = (1 - documents.plain(focus.document)["metrics"]["ettr"]["mean"]) * requested
    assert np.sum(chart.values) == pytest.approx(lost)
    rows = np.sum(chart.values, axis=1)
    assert rows.tolist() == sorted(rows, reverse=True)


def test_many_causes_are_summed() -> None:
    """Of 40 causes 14 have a row, the rest have one together at the end, and nothing is lost of it."""
    table = {f"cause_{number}": {"detection": 3600.0 * number, "restore": 7200.0} for number in range(40)}
    chart = losses.heat_map(losses.losses_of(table))
    assert chart.rows == (*(f"cause {number}" for number in range(39, 25, -1)), "other causes")
    assert chart.columns == ("detection", "restore")
    assert np.sum(chart.values, axis=0).tolist() == pytest.approx([sum(range(40)), 80])
    assert chart.title == "Failures of “cause 39” cost the most; detection is 90.7 % of all that is lost"
    assert not chart.high_is_good


def test_the_table_of_losses_has_totals_and_money() -> None:
    """The last row and the column of totals say what everything comes to, and what that is worth at 2.50 an hour."""
    focus = focus_of("small")
    found = present(made(focus, "losses"))
    grid = present(found.items[0].table)  # type: ignore[union-attr]
    lost = sum(sum(row.values()) for row in documents.plain(focus.document)["loss_gpu_s"].values()) / 3600
    row = dict(zip([column.head for column in grid.columns], grid.rows[-1], strict=True))
    assert row["cause"] == "all causes"
    assert float(row["all"].replace(",", "")) == pytest.approx(lost, abs=0.5)
    assert row["EUR"] == f"{2.5 * lost:,.0f} EUR"
    assert row["interruptions"] == f"{documents.plain(focus.document)['metrics']['interruptions']['mean']:.3g}"


def test_exceedance_by_hand() -> None:
    """Of ten seconds, eight with none of 16 nodes down and two with three: pooled, and with its mean of 0.6."""
    results: Any = [SimpleNamespace(down_times={0: 6.0}), SimpleNamespace(down_times={0: 2.0, 3: 2.0})]
    found = present(capacity.exceedance_of(results, 16))
    assert found.simulated[:4].tolist() == pytest.approx([0.2, 0.2, 0.2, 0.0])
    assert found.simulated.sum() == pytest.approx(0.6)
    assert found.independent.sum() == pytest.approx(0.6)
    from scipy.stats import binom

    assert found.independent == pytest.approx(binom.sf(np.arange(17), 16, 0.6 / 16), abs=1e-12)
    assert capacity.exceedance_of(results[:1], 16) is None


def test_the_law_of_independent_nodes_with_the_mean_of_each_day_by_hand() -> None:
    """Five days with all nodes healthy and one with 4 of 16 down: a sixth of the time binomial with 1 in 4."""
    outages = Outages([(node, DAY, 2 * DAY, 1) for node in range(4)])
    one = SimpleNamespace(down_times={0: DAY}, outages=NO_OUTAGES)
    results: Any = [*4 * [one], SimpleNamespace(down_times={0: DAY, 4: DAY}, outages=outages)]
    found = present(capacity.exceedance_of(results, 16))
    from scipy.stats import binom

    assert present(found.daily) == pytest.approx(binom.sf(np.arange(17), 16, 0.25) / 6, abs=1e-12)
    fewer = present(capacity.exceedance_of(results[1:], 16))
    assert fewer.daily is None


def test_exceedance_agrees_with_the_quantiles_of_the_document() -> None:
    """No more than so many for 99 % of the time is where the curve falls to 1 %, simulated and binomial."""
    focus = focus_of("week")
    nodes = focus.prepared.nodes
    found = present(capacity.exceedance_of(focus.ensemble.results, nodes))
    down = present(nodes_down(focus.ensemble.down_times, nodes))
    assert found.simulated.sum() == pytest.approx(down.mean)
    for name, level in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        assert int(np.argmax(found.simulated <= 1 - level)) == getattr(down, name)
        quantile = stats.binom.ppf(level, nodes, down.mean / nodes)
        assert int(np.argmax(found.independent <= 1 - level)) == quantile == getattr(down.independent, name)


def shares_above(count: int, failures: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Return for 60 replications the share of the time with more than 0, 1, 2 nodes down, and the binomial law's."""
    scenario = report_sample.parse(failures=failures, warmup="5 d", horizon="10 d", initial="stationary")
    prepared = sim.prepare(scenario.model_copy(update={"seed": SEED}))
    results = [sim.run(prepared, replication) for replication in range(60)]
    each = []
    for result in results:
        total = sum(result.down_times.values())
        each.append(
            [sum(time for down, time in result.down_times.items() if down > level) / total for level in range(count)]
        )
    found = present(capacity.exceedance_of(results, prepared.nodes))
    assert found.simulated[:count] == pytest.approx(np.mean(each, axis=0))
    return np.array(each), found.independent[:count]


@pytest.mark.nightly
def test_independent_nodes_are_binomial() -> None:
    """Nodes that fail one by one are within 1e-6 intervals of the binomial law; racks of four are far outside."""
    each, theory = shares_above(3, [report_sample.SMALL["failures"][0]])
    for column, expected in zip(each.T, theory, strict=True):
        interval = present(mean_interval(column, 1 - 1e-6))
        assert interval[0] <= expected <= interval[1]
    each, theory = shares_above(3, [RACKS])
    interval = present(mean_interval(each[:, 2], 1 - 1e-6))
    assert interval[0] > theory[2]


def test_blast_radii_by_hand() -> None:
    """Of 16 nodes in racks of four, a rack takes four, a power distribution unit of eight racks all, a GPU its node."""
    found = {row.part: row[1:] for row in blasts(report_sample.parse().cluster.build())}
    assert found["gpu"] == (128, 1, 1)
    assert found["rack"] == (4, 4, 4)
    assert found["pdu"] == (1, 16, 16)


@cases("name", ["small-1k", "gb200-nvl72-8rack"])
def test_blast_radii_are_those_of_the_description(name: str) -> None:
    """The report and the command that shows a cluster say the same."""
    spec = sim.load_cluster(sim.shipped("topologies")[name])
    expected = {
        part: (row["units"], row["nodes_crashed_min"], row["nodes_crashed_max"])
        for part, row in describe(spec)["when_one_fails"].items()
    }
    assert {row.part: row[1:] for row in blasts(spec.build())} == expected


BREAKDOWN = {
    **dict.fromkeys(("gemm", "attention", "elementwise", "launch", "logits"), 0.1),
    **dict.fromkeys(("tensor", "context", "expert", "pipeline"), 0.0),
    **dict.fromkeys(("optimizer", "overhead"), 0.05),
    "data": 0.25,
    "bubble": 0.15,
}


def step_of(time: float, breakdown: dict[str, float]) -> StepSummary:
    """Return a step of which nothing else is known."""
    return StepSummary(time_s=time, basis=None, stated=None, breakdown=breakdown, mfu=None)


def test_the_parts_of_a_step_come_to_its_time() -> None:
    """In seconds from one second on, else in milliseconds; what takes no time is no part; the title has the shares."""
    short = present(step.step_stack(step_of(1.0 - 1e-12, BREAKDOWN)))
    long = present(step.step_stack(step_of(3.0, {name: 3 * time for name, time in BREAKDOWN.items()})))
    assert (short.unit, sum(part.amount for part in short.parts)) == ("ms", pytest.approx(1000))
    assert (long.unit, sum(part.amount for part in long.parts)) == ("s", pytest.approx(3))
    assert len(long.parts) == 9
    assert long.title == "50.0 % of a step of 3 s is computing; communication not hidden takes 25.0 %"


@cases("case", ["small", "nothing fails"])
def test_formula_and_simulation_are_shares_of_the_same_time(case: str) -> None:
    """Both columns of the table come to everything, and the row of restarts is that of its three phases."""
    content = focus_of(case).document
    found = formula.beside(content)
    assert math.fsum(simulated for _, simulated in found.values()) == pytest.approx(1)
    assert math.fsum(formula for formula, _ in found.values() if formula is not None) == pytest.approx(1)
    shares = content.time_shares
    assert found["restart"][1] == pytest.approx(shares["reschedule"] + shares["initialize"] + shares["restore"])


def test_without_a_formula_the_reason_is_given() -> None:
    """A recovery that no formula covers has no picture, but the reason."""
    scenario = report_sample.parse(seed=2)
    focus = ReplayedScenario("x", scenario, 1)
    formula = focus.document.closed_form.model_copy(update={"ettr": None, "reasons": ["no formula for this"]})
    known = focus.document.model_copy(update={"closed_form": formula})
    found = present(made(ReplayedScenario("x", scenario, 1, known), "closed_form"))
    assert found.title == "No formula applies to this scenario"
    assert found.text == ("no formula for this",)

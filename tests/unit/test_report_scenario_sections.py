"""Sections about one scenario: what they show adds up, and agrees with the ledger, with theory, and with each other."""

from __future__ import annotations

import functools
import itertools
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

import sim
from analysis.amounts import PERCENT, compact, gpu_hours
from analysis.cluster import describe
from analysis.metrics import nodes_down
from analysis.page.account import account_of
from analysis.page.chapters import cluster as step
from analysis.page.chapters import run, typical
from analysis.page.chapters.typical import DAY, phases_of
from analysis.page.charts.data import Calendar, Curves, HeatMap, Phase
from analysis.page.model import Picture, Section, plain
from analysis.page.report_data import Focus
from analysis.results import run as documents
from analysis.results.models import ClosedForm, Step
from analysis.statistics.estimates import mean_interval
from sim import CLUSTER_BUCKETS, JOB_BUCKETS, NO_FAILURE, Bucket
from sim.engine.result import Milestone, Outage, Span, Timeline
from tests import report_sample
from tests.cases import cases
from tests.pace import SEED
from tests.unit.test_timeline import RECOVERIES, busy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SECTIONS: dict[str, Callable[[Any], Section | None]] = {
    "where_time_goes": run.section,
    "losses": run.losses_section,
    "typical": typical.section,
    "rolling": run.rolling_section,
    "missing_nodes": run.missing_nodes_section,
    "cluster": step.section,
    "step": step.step_section,
    "closed_form": run.closed_form_section,
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
def focus_of(name: str, replications: int = 6) -> Focus:
    """Return a case, to be looked at closely."""
    return Focus(name, report_sample.parse(**CASES[name]), replications)


def made(focus: Focus | None, name: str) -> Section | None:
    """Return a section about a scenario."""
    return SECTIONS[name](SimpleNamespace(focus=focus))


def chart_of(focus: Focus, name: str) -> Any:
    """Return the first chart of a section about a scenario."""
    found = made(focus, name)
    assert found is not None
    return next(item.chart for item in found.items if isinstance(item, Picture))


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
        grid = item.table if isinstance(item, Picture) else item
        if isinstance(item, Picture):
            found += [item.key, item.alt, item.caption, getattr(item.chart, "title", "a cluster")]
        for row in grid.rows if grid is not None else ():
            assert grid is not None
            assert len(row) == len(grid.columns)
            found += [cell for cell in row if cell]
    return found


def test_without_a_scenario_there_is_nothing_to_say() -> None:
    """Results of a validation have no scenario."""
    assert [made(None, name) for name in SECTIONS] == [None] * len(SECTIONS)


@pytest.mark.parametrize("case", CASES)
def test_the_waterfall_leads_from_everything_to_ettr(case: str) -> None:
    """100 % and all changes come to the mean of the metric, and no change is missing or nothing."""
    focus = focus_of(case)
    chart = run.waterfall(focus)
    end = 100 * documents.plain(focus.document)["metrics"]["ettr"]["mean"]
    assert chart.start[1] + math.fsum(change.amount for change in chart.changes) == pytest.approx(end, abs=1e-9)
    assert chart.end[1] == pytest.approx(end, abs=1e-9)
    assert all(change.amount for change in chart.changes)
    sizes = [change.amount for change in chart.changes]
    assert sizes == sorted(sizes), "the largest loss comes first"


def test_intervals_of_the_waterfall_hold_their_changes() -> None:
    """Each has one, the change is inside, and equal replications have none."""
    changes = run.waterfall(focus_of("small")).changes
    assert sum(change.ci95 is not None for change in changes) >= 4
    assert all(
        change.ci95[0] <= change.amount <= min(change.ci95[1], 0) for change in changes if change.ci95 is not None
    )
    assert [change.ci95 for change in run.waterfall(focus_of("nothing fails")).changes] == [None, None]


@cases("case", CASES)
def test_the_cluster_adds_up(case: str) -> None:
    """The parts of the whole cluster come to 100 %."""
    chart = run.cluster_stack(documents.plain(focus_of(case).document)["cluster_shares"])
    assert chart is not None
    assert math.fsum(part.amount for part in chart.parts) == pytest.approx(100)
    assert all(part.amount > 0 for part in chart.parts)


def test_work_for_missing_replicas_does_not_make_a_negative_part() -> None:
    """Where replicas keep the batch of a missing one, productive and the rest still come to all that was owned."""
    shares = dict.fromkeys(CLUSTER_BUCKETS, 0.0) | {"productive": 0.9, "degraded": -0.1, "detection": 0.04}
    chart = run.cluster_stack(shares | {"repair": 0.16})
    assert chart is not None
    assert [(part.name, round(part.amount, 9)) for part in chart.parts] == [("productive", 84.0), ("repair", 16.0)]


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


def test_without_any_progress_nothing_is_scaled_to_a_year() -> None:
    """The document then does not tell what was owned, and no amount is made up."""
    focus = focus_of("never started")
    assert documents.plain(focus.document)["metrics"]["ettr"]["mean"] == 0
    assert account_of(focus)[1:4] == (None, None, None)
    found = made(focus, "where_time_goes")
    assert found is not None
    assert not any("year" in text for text in texts(found))


def test_amounts_of_gpu_time_are_readable() -> None:
    """To three digits, with words for what is large."""
    told = [gpu_hours(3600 * amount) for amount in (0.5, 12.34, 5376.4, 459_573, 21_233_700, 2_123_370_000)]
    assert told == [
        f"{text} GPU-hours" for text in ("0.500", "12.3", "5,380", "459,573", "21.2 million", "2.12 billion")
    ]
    assert [compact(3600 * amount) for amount in (0, 0.0123, 999.4, 999.7, 12_345, -2e6, 3e9)] == [
        *("0", "0.01", "999", "1 k", "12.3 k", "-2 M", "3,000 M")
    ]


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
    chart = run.heat_map(table)
    assert chart.rows == (*(f"cause {number}" for number in range(39, 25, -1)), "other causes")
    assert chart.columns == ("detection", "restore")
    assert np.sum(chart.values, axis=0).tolist() == pytest.approx([sum(range(40)), 80])
    assert chart.title == "Failures of “cause 39” cost the most; detection is 90.7 % of all that is lost"
    assert not chart.high_is_good


def test_small_phases_share_a_column_of_the_picture() -> None:
    """What is below 0.05 % of all that is lost is summed in a last column, and nothing is lost of it."""
    chart = run.heat_map({"disk": {"lost_work": 3.6e7, "restore": 3600.0, "detection": 7200.0, "starved": 0.0}})
    assert chart.columns == ("lost work", "other phases")
    assert chart.values == [pytest.approx([10_000, 3])]
    assert chart.texts == [["10 k", "3"]]


def losses_of(table: dict[str, dict[str, float]], counts: dict[str, float]) -> Section:
    """Return the section about losses by cause [GPU s], with as many interruptions."""
    content = SimpleNamespace(
        loss_gpu_s=table,
        interruptions_by_cause={cause: SimpleNamespace(mean=count) for cause, count in counts.items()},
        per_job={"train": SimpleNamespace(requested_gpu_s=1e7)},
        time_shares={"productive": 0.9},
        cluster_shares={"productive": 0.9},
        cost=None,
        replications=4,
    )
    prepared = SimpleNamespace(nodes=2, gpus_per_node=8)
    focus: Any = SimpleNamespace(document=content, name="x", known=content, wanted=4, prepared=prepared)
    found = made(focus, "losses")
    assert found is not None
    return found


def test_interruptions_of_other_causes_are_those_of_all_that_have_no_row() -> None:
    """Of 40 causes with as many interruptions as their number, the last 26 have 0 + 1 + ... + 25."""
    table = {f"cause_{number}": {"detection": 3600.0 * (number + 1)} for number in range(40)}
    found = losses_of(table, {f"cause_{number}": float(number) for number in range(40)})
    rows = found.items[0].table.rows  # type: ignore[union-attr]
    assert [row[:2] for row in rows[-2:]] == [
        ("other causes", str(sum(range(26)))),
        ("all causes", str(sum(range(40)))),
    ]


def test_causes_that_look_alike_are_told_apart() -> None:
    """Names are the scenario's own: those that read the same, or like a row of the table, keep their interruptions."""
    names = ("node a", "node_a", "no failure", "other causes", NO_FAILURE)
    found = losses_of(
        {name: {"detection": 3600.0 * (9 - index)} for index, name in enumerate(names)},
        dict(zip(names[:4], (1.0, 2.0, 4.0, 8.0), strict=True)),
    )
    rows = found.items[0].table.rows  # type: ignore[union-attr]
    assert [row[:2] for row in rows] == [
        *(("“node a”", "1"), ("“node_a”", "2"), ("“no failure”", "4"), ("other causes", "8"), ("no failure", "0")),
        ("all causes", "15"),
    ]


def test_no_part_of_the_losses_is_more_than_all_of_them() -> None:
    """Of 100 and 50 h lost, the 60 h that replicas do for others take nothing away: shares are of 150 h."""
    found = losses_of(
        {"a": {"lost_work": 360_000.0, "degraded": -216_000.0}, "b": {"lost_work": 180_000.0, "degraded": 0.0}}, {}
    )
    assert found.title == "Failures of “b” cost the most: 50 GPU-hours, 33.3 % of all that is lost"
    assert "By phase: lost work 100 %," in plain(found.text[0])
    assert "lost work is 100 % of all that is lost" in found.items[0].chart.title  # type: ignore[union-attr]
    assert any("Below nothing" in note for note in found.notes)


def test_what_the_jobs_lost_is_worth_its_gpu_hours_at_the_price_of_one() -> None:
    """112 GPUs for two days at 2.50 EUR, of which what is not productive is lost."""
    focus = focus_of("small")
    found = made(focus, "where_time_goes")
    assert found is not None
    lost = (1 - documents.plain(focus.document)["time_shares"]["productive"]) * 112 * 48 * 2.5
    assert f"what the jobs lost is worth {lost:,.0f} EUR per run." in plain(found.text[1])


def test_the_table_of_losses_has_totals_and_money() -> None:
    """The last row and the column of totals say what everything comes to, and what that is worth at 2.50 an hour."""
    focus = focus_of("small")
    found = made(focus, "losses")
    assert found is not None
    grid = found.items[0].table  # type: ignore[union-attr]
    assert grid is not None
    lost = sum(sum(row.values()) for row in documents.plain(focus.document)["loss_gpu_s"].values()) / 3600
    row = dict(zip([column.head for column in grid.columns], grid.rows[-1], strict=True))
    assert row["cause"] == "all causes"
    assert float(row["all"].replace(",", "")) == pytest.approx(lost, abs=0.5)
    assert row["EUR"] == f"{2.5 * lost:,.0f} EUR"
    assert row["interruptions"] == f"{documents.plain(focus.document)['metrics']['interruptions']['mean']:.3g}"


@cases("recovery", RECOVERIES)
def test_phases_tile_the_time_of_the_job(recovery: str) -> None:
    """From 0 to the end, each begins where the one before ended, whatever happens to a job with replicas."""
    prepared = busy(recovery)
    result = sim.run(prepared, 0, keeps_timeline=True)
    phases = phases_of(prepared, result)
    assert (phases[0].start, phases[-1].end * DAY) == (0, pytest.approx(result.jobs[0].end))
    assert all(one.end == pytest.approx(other.start, abs=1e-12) for one, other in itertools.pairwise(phases))
    assert all(phase.end > phase.start for phase in phases)


@cases("case", ["small", "week", "two jobs", "censored"])
def test_phases_agree_with_the_ledger(case: str) -> None:
    """Each bucket has the time that it has in the ledger of that replication; saves are within training."""
    focus = focus_of(case)
    result = focus.typical
    job = result.jobs[0]
    found = dict.fromkeys(JOB_BUCKETS, 0.0)
    for phase in phases_of(focus.prepared, result):
        found[phase.bucket] += (phase.end - phase.start) * DAY
    ledger = dict(zip(JOB_BUCKETS, job.buckets / job.gpus, strict=True))
    ledger["productive"] += ledger.pop("checkpoint_stall")
    assert ledger["lost_work"] > 0 or case == "two jobs"
    assert {name: found[name] for name in ledger} == pytest.approx(ledger, abs=1e-3)


def hand_made(*milestones: tuple[float, float]) -> tuple[Phase, ...]:
    """Return the phases of a job that trains for 100 s, twice with 10 s of detection after that."""
    productive, detection = Bucket.PRODUCTIVE, Bucket.DETECTION
    spans = (
        *(Span(0, 0, productive, 0.0, 100.0, 0), Span(0, 0, detection, 100.0, 110.0, 1)),
        *(Span(0, 0, productive, 110.0, 210.0, 0), Span(0, 0, detection, 210.0, 220.0, 2)),
        *(Span(0, 0, productive, 220.0, 300.0, 0), Span(1, 0, detection, 0.0, 300.0, 1)),
        Span(0, 3, detection, 0.0, 300.0, 1),
    )
    timeline = Timeline(spans, (), tuple(Milestone(time, 0, work) for time, work in milestones))
    prepared: Any = SimpleNamespace(sources=(SimpleNamespace(name="one"), SimpleNamespace(name="two")))
    result: Any = SimpleNamespace(jobs=(SimpleNamespace(arrival=0.0, end=300.0),), timeline=timeline)
    seconds = (phase._replace(start=phase.start * DAY, end=phase.end * DAY) for phase in phases_of(prepared, result))
    return tuple(phase._replace(start=round(phase.start, 6), end=round(phase.end, 6)) for phase in seconds)


def test_a_rollback_takes_the_last_of_the_training() -> None:
    """30 s thrown away after 100 s of training are those before the failure; other jobs and replicas do not count."""
    assert hand_made((100.0, 100.0), (110.0, 70.0), (300.0, 250.0)) == (
        Phase(0.0, 70.0, "productive"),
        Phase(70.0, 100.0, "lost_work", "one"),
        Phase(100.0, 110.0, "detection", "one"),
        Phase(110.0, 210.0, "productive"),
        Phase(210.0, 220.0, "detection", "two"),
        Phase(220.0, 300.0, "productive"),
    )


def test_a_rollback_may_reach_beyond_another() -> None:
    """Going back 120 s after a loss of 30 s leaves 50 s of the first 100: what is lost is lost once."""
    found = hand_made((100.0, 100.0), (110.0, 70.0), (210.0, 170.0), (220.0, 50.0))
    assert [(phase.start, phase.end) for phase in found if phase.bucket == "lost_work"] == [
        (50, 70),
        (70, 100),
        (110, 210),
    ]
    assert sum(phase.end - phase.start for phase in found if phase.bucket == "productive") == 50 + 80


def test_stops_begin_after_the_first_training() -> None:
    """The wait before is none; what follows on one another is one stop, with the first cause that is known."""
    phases = [
        *(Phase(0, 1, "queued"), Phase(1, 2, "productive"), Phase(2, 3, "lost_work", "x")),
        *(Phase(3, 4, "detection", "x"), Phase(4, 5, "restore", "y"), Phase(5, 6, "degraded", "z")),
        *(Phase(6, 7, "starved"), Phase(7, 7.5, "initialize", "w")),
    ]
    assert typical.stops_of(phases) == [(3, 5, "x"), (6, 7.5, "w")]


def test_stops_stand_beside_interruptions() -> None:
    """The section says what counts as a stop, and how many of both the run has."""
    focus = focus_of("small")
    found = made(focus, "typical")
    assert found is not None
    stops = typical.stops_of(phases_of(focus.prepared, focus.typical))
    interruptions = sum(focus.typical.jobs[0].interruptions.values())
    assert f"Stops of this run: {len(stops)}. Interruptions by failures: {interruptions}." in plain(found.text[1])


def test_the_calendar_is_that_of_the_typical_replication() -> None:
    """Its length is that of the job, rows are no longer than it, and the text names the replication and its ETTR."""
    focus = focus_of("two jobs")
    found = made(focus, "typical")
    assert found is not None
    chart = found.items[0].chart  # type: ignore[union-attr]
    assert isinstance(chart, Calendar)
    job = focus.typical.jobs[0]
    assert chart.days * DAY == pytest.approx(job.end - job.arrival)
    assert (chart.row_days, chart.days < 1) == (chart.days, True)
    assert f"replication {focus.typical.replication} " in plain(found.text[0])
    assert any("not shown" in note for note in found.notes)


def test_equal_windows_have_the_mean_of_the_run() -> None:
    """The ETTR of seven days is the mean of that of each, because as much is asked for each day."""
    focus = focus_of("week")
    for result, row in zip(focus.ensemble.results, run.shares_of_windows(focus.ensemble.results), strict=True):
        assert len(row) == 7
        assert row.mean() == pytest.approx(result.jobs[0].buckets[0] / result.jobs[0].requested)


def test_curves_of_days_agree_with_the_document() -> None:
    """The mean is that of a run's windows; the typical run is that of the calendar; most lie between the tenths."""
    focus = focus_of("week")
    chart = chart_of(focus, "rolling")
    assert isinstance(chart, Curves)
    one, mean, high, low = chart.series
    assert mean.y == pytest.approx([100 * window["ettr"] for window in documents.plain(focus.document)["windows"]])
    job = focus.typical.jobs[0]
    assert np.mean(one.y) == pytest.approx(100 * job.buckets[0] / job.requested)
    assert one.x == mean.x == pytest.approx([0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5])
    each = 100 * run.shares_of_windows(focus.ensemble.results)
    for top, bottom, column in zip(high.y, low.y, each.T, strict=True):
        assert np.sum((column >= bottom) & (column <= top)) == 4, "of six runs, one is above and one below"


def test_a_last_window_that_is_cut_short_is_no_day() -> None:
    """Of 6 days and a quarter of an hour there are six days, all of them 24 hours long."""
    focus = focus_of("a bit more than six days")
    result = focus.ensemble.results[0]
    assert len(result.edges) == 8
    assert run.shares_of_windows([result]).shape == (1, 6)
    chart = chart_of(focus, "rolling")
    assert all(series.x == pytest.approx([0.5, 1.5, 2.5, 3.5, 4.5, 5.5]) for series in chart.series)
    assert all(len(series.y) == 6 for series in chart.series)


def test_few_windows_have_no_curve() -> None:
    """Two days say nothing about days, and three runs nothing about tenths."""
    assert made(focus_of("small"), "rolling") is None
    assert len(chart_of(focus_of("week", 3), "rolling").series) == 2


def test_exceedance_by_hand() -> None:
    """Of ten seconds, eight with none of 16 nodes down and two with three: pooled, and with its mean of 0.6."""
    results: Any = [SimpleNamespace(down_times={0: 6.0}), SimpleNamespace(down_times={0: 2.0, 3: 2.0})]
    found = run.exceedance_of(results, 16)
    assert found is not None
    assert found.simulated[:4].tolist() == pytest.approx([0.2, 0.2, 0.2, 0.0])
    assert found.simulated.sum() == pytest.approx(0.6)
    assert found.independent.sum() == pytest.approx(0.6)
    from scipy.stats import binom

    assert found.independent == pytest.approx(binom.sf(np.arange(17), 16, 0.6 / 16), abs=1e-12)
    assert run.exceedance_of(results[:1], 16) is None


def test_the_law_of_independent_nodes_with_the_mean_of_each_day_by_hand() -> None:
    """Five days with all nodes healthy and one with 4 of 16 down: a sixth of the time binomial with 1 in 4."""
    outages = tuple(Outage(node, DAY, 2 * DAY, 1) for node in range(4))
    one = SimpleNamespace(down_times={0: DAY}, outages=())
    results: Any = [*4 * [one], SimpleNamespace(down_times={0: DAY, 4: DAY}, outages=outages)]
    found = run.exceedance_of(results, 16)
    assert found is not None
    assert found.daily is not None
    from scipy.stats import binom

    assert found.daily == pytest.approx(binom.sf(np.arange(17), 16, 0.25) / 6, abs=1e-12)
    fewer = run.exceedance_of(results[1:], 16)
    assert fewer is not None
    assert fewer.daily is None


@cases(("case", "is_shared"), [("week", True), ("small", False)])
def test_several_nodes_at_once_are_told_only_of_a_scenario_in_which_parts_are_shared(
    case: str, is_shared: bool
) -> None:
    """Ten nodes are down together for half of each of two days: only racks that fail are said to be the reason."""
    halves = ((0.0, 0.5), (1.5, 2.0))
    outages = tuple(Outage(node, start * DAY, end * DAY, 1) for node in range(10) for start, end in halves)
    results = 5 * [SimpleNamespace(down_times={0: DAY, 10: DAY}, outages=outages)]
    known = focus_of(case)
    focus: Any = SimpleNamespace(
        prepared=known.prepared,
        scenario=known.scenario,
        ensemble=SimpleNamespace(results=results, tally=SimpleNamespace(down_times={0: 5 * DAY, 10: 5 * DAY})),
        name="x",
        wanted=5,
    )
    found = made(focus, "missing_nodes")
    assert found is not None
    assert found.title.startswith("For 99 % of the time no more than 10 nodes are missing at once")
    assert ("; of nodes that fail one by one, no more than 9" in found.title) is is_shared
    told = plain(found.text[1])
    assert ("Failures that take several nodes at once make it larger." in told) is is_shared
    assert ("No cause here takes several nodes at once." in told) is not is_shared


@cases("case", ["week", "healthy start"])
def test_the_time_in_which_spares_are_too_few_is_that_with_more_nodes_down_than_spares(case: str) -> None:
    """Not that with as many: then each has its spare."""
    focus = focus_of(case)
    found = made(focus, "missing_nodes")
    assert found is not None
    times = [item for result in focus.ensemble.results for item in result.down_times.items()]
    share = sum(time for down, time in times if down > focus.prepared.spares) / sum(time for _, time in times)
    assert f"are missing for {PERCENT.value(share)} of the time; of independent" in plain(found.text[0])


def test_exceedance_agrees_with_the_quantiles_of_the_document() -> None:
    """No more than so many for 99 % of the time is where the curve falls to 1 %, simulated and binomial."""
    focus = focus_of("week")
    nodes = focus.prepared.nodes
    found = run.exceedance_of(focus.ensemble.results, nodes)
    down = nodes_down(focus.ensemble.tally.down_times, nodes)
    assert found is not None
    assert found.simulated.sum() == pytest.approx(down["mean"])
    for name, level in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        assert int(np.argmax(found.simulated <= 1 - level)) == down[name]
        quantile = stats.binom.ppf(level, nodes, down["mean"] / nodes)
        assert int(np.argmax(found.independent <= 1 - level)) == quantile == down["independent"][name]


def test_the_curve_of_missing_nodes_is_marked_at_the_spares() -> None:
    """It falls, has nothing at zero on a logarithmic axis, and the title has the level of 1 %."""
    focus = focus_of("week")
    chart = chart_of(focus, "missing_nodes")
    assert chart.y.is_log
    assert chart.edges == ((2.0, "2 hot spares"),)
    for series in chart.series:
        seen = [value for value in series.y if value is not None]
        assert seen == sorted(seen, reverse=True)
        assert min(seen) > 0
    assert f"no more than {nodes_down(focus.ensemble.tally.down_times, 16)['p99']} nodes" in chart.title


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
    found = run.exceedance_of(results, prepared.nodes)
    assert found is not None
    assert found.simulated[:count] == pytest.approx(np.mean(each, axis=0))
    return np.array(each), found.independent[:count]


@pytest.mark.nightly
def test_independent_nodes_are_binomial() -> None:
    """Nodes that fail one by one are within 1e-6 intervals of the binomial law; racks of four are far outside."""
    each, theory = shares_above(3, [report_sample.SMALL["failures"][0]])
    for column, expected in zip(each.T, theory, strict=True):
        interval = mean_interval(column, 1 - 1e-6)
        assert interval is not None
        assert interval[0] <= expected <= interval[1]
    each, theory = shares_above(3, [RACKS])
    interval = mean_interval(each[:, 2], 1 - 1e-6)
    assert interval is not None
    assert interval[0] > theory[2]


def test_blast_radii_by_hand() -> None:
    """Of 16 nodes in racks of four, a rack takes four, a power distribution unit of eight racks all, a GPU its node."""
    found = {row.part: row[1:] for row in step.blasts(report_sample.parse().cluster.build())}
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
    assert {row.part: row[1:] for row in step.blasts(spec.build())} == expected


def test_the_title_names_the_largest_part_that_fails() -> None:
    """Racks where racks fail; one node where nodes do, however large the racks are."""
    week, one = made(focus_of("week"), "cluster"), made(focus_of("small"), "cluster")
    assert week is not None
    assert one is not None
    assert week.title == "Of the parts that fail here, a rack takes most with it: 4 nodes with 32 GPUs"
    assert one.title == "No part that fails here takes more than one node of 8 GPUs with it"


BREAKDOWN = {
    **dict.fromkeys(("gemm", "attention", "elementwise", "launch", "logits"), 0.1),
    **dict.fromkeys(("tensor", "context", "expert", "pipeline"), 0.0),
    **dict.fromkeys(("optimizer", "overhead"), 0.05),
    "data": 0.25,
    "bubble": 0.15,
}


def step_of(time: float, breakdown: dict[str, float]) -> Step:
    """Return a step of which nothing else is known."""
    return Step(time_s=time, basis=None, stated=None, breakdown=breakdown, mfu=None)


def test_the_parts_of_a_step_come_to_its_time() -> None:
    """In seconds from one second on, else in milliseconds; what takes no time is no part; the title has the shares."""
    short = step.step_stack(step_of(1.0 - 1e-12, BREAKDOWN))
    long = step.step_stack(step_of(3.0, {name: 3 * time for name, time in BREAKDOWN.items()}))
    assert short is not None
    assert long is not None
    assert (short.unit, sum(part.amount for part in short.parts)) == ("ms", pytest.approx(1000))
    assert (long.unit, sum(part.amount for part in long.parts)) == ("s", pytest.approx(3))
    assert len(long.parts) == 9
    assert long.title == "50.0 % of a step of 3 s is computing; waiting for communication takes 25.0 %"


def test_a_step_that_is_only_stated_has_no_picture() -> None:
    """The section says the time, and that nothing tells what it is made of."""
    found = made(focus_of("small"), "step")
    assert found is not None
    assert (found.title, found.items) == ("A healthy step takes 10 s", ())
    assert step.step_stack(step_of(10.0, {})) is None


@cases("case", ["small", "healthy start", "nothing fails"])
def test_formula_and_simulation_are_shares_of_the_same_time(case: str) -> None:
    """Both columns of the table come to everything, and the row of restarts is that of its three phases."""
    content = focus_of(case).document
    found = run.beside(content)
    assert math.fsum(simulated for _, simulated in found.values()) == pytest.approx(1)
    assert math.fsum(formula for formula, _ in found.values() if formula is not None) == pytest.approx(1)
    shares = content.time_shares
    assert found["restart"][1] == pytest.approx(shares["reschedule"] + shares["initialize"] + shares["restore"])


def formula_of(outside: float | None, simulated: float, half: float) -> Mapping[str, Any]:
    """Return what a document has of a closed form of 90 %, beside a simulation with an interval of half a width."""
    seen = {"ettr": simulated, "ettr_ci95": [simulated - half, simulated + half], "replications": 4} | dict.fromkeys(
        ("standard_error", "standard_errors_above")
    )
    shares = {"productive": 0.9, "restart": 0.1}
    content = {
        "ettr": 0.9,
        "form": "renewal",
        "time_shares": shares,
        "waste": None,
        "waste_by_cause": None,
        "assumptions": [],
        "extrapolated": [],
    }
    return content | {"simulated": {**seen, "outside_ci95": outside}}


@cases(
    ("outside", "simulated", "half", "said"),
    [
        (0.0, 0.902, 0.004, "A formula says 90.0 %, the simulation 90.2 %: they agree"),
        (0.0, 0.902, 0.02, "A formula says 90.0 %, the simulation 90.2 %: too few runs to tell them apart"),
        (0.01, 0.88, 0.01, "A formula says 90.0 %, the simulation 88.0 %: 2 points less"),
        (0.02, 0.93, 0.01, "A formula says 90.0 %, the simulation 93.0 %: 3 points more"),
    ],
)
def test_the_title_says_whether_formula_and_simulation_agree(
    outside: float, simulated: float, half: float, said: str
) -> None:
    """They agree inside an interval that is no wider than a point; else the distance has its sign."""
    shares = dict.fromkeys(JOB_BUCKETS, 0.0) | {"productive": simulated, "restore": 1 - simulated}
    formula = ClosedForm.model_validate(formula_of(outside, simulated, half))
    content = SimpleNamespace(closed_form=formula, time_shares=shares, replications=4)
    focus: Any = SimpleNamespace(document=content, name="x", known=content, wanted=4)
    found = made(focus, "closed_form")
    assert found is not None
    assert found.title == said
    chart = chart_of(focus, "closed_form")
    assert (chart.reference[0], chart.rows[0].mean) == (pytest.approx(90), pytest.approx(100 * simulated))


def test_without_a_formula_the_reason_is_given() -> None:
    """A recovery that no formula covers has no picture, but the reason."""
    scenario = report_sample.parse(seed=2)
    focus = Focus("x", scenario, 1)
    formula = focus.document.closed_form.model_copy(update={"ettr": None, "reasons": ["no formula for this"]})
    known = focus.document.model_copy(update={"closed_form": formula})
    found = made(Focus("x", scenario, 1, known), "closed_form")
    assert found is not None
    assert found.title == "No formula applies to this scenario"
    assert [item.rows for item in found.items if not isinstance(item, Picture)] == [[("no formula for this",)]]

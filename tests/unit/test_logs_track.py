"""Tracking: z that are standard normal, charts with the run lengths of theory, and what a regression says."""

from __future__ import annotations

import csv
import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from ettrick.analysis.logs import track, weeks
from ettrick.analysis.logs.pipeline import FitOptions
from ettrick.analysis.logs.tables import TrainingPhase
from ettrick.analysis.logs.training import StepStretches
from ettrick.analysis.results.fitted import Tracked, WeekSummary
from ettrick.analysis.results.models import Provenance
from ettrick.cli import app
from ettrick.sim import JOB_BUCKETS
from ettrick.sim.records import LogError
from tests.cases import cases
from tests.pace import SEED

TRACE = Path(__file__).resolve().parents[3] / "shared" / "data" / "infinitehbd" / "fault_events.csv"


def test_z_of_counts_is_standard_normal() -> None:
    """Counts of the law that predicts them have z of the standard normal, however few values they take."""
    generator = np.random.default_rng(SEED)
    weights = np.full(40, 1 / 40)
    z = [
        track.z_of(float(generator.poisson(1.3)), generator.poisson(1.3, (40, 50)) + 0.0, weights, generator.random())
        for _ in range(2000)
    ]
    assert stats.kstest(z, "norm").pvalue > 1e-4
    shifted = [
        track.z_of(float(generator.poisson(1.6)), generator.poisson(1.3, (40, 50)) + 0.0, weights, generator.random())
        for _ in range(2000)
    ]
    assert stats.kstest(shifted, "norm").pvalue < 1e-4


@pytest.mark.parametrize(("limit", "weeks"), [(4.0, 168), (5.0, 465)])
def test_cusum_has_the_run_length_of_theory(limit: float, weeks: int) -> None:
    """With reference 1/2, mean weeks to a false alarm are 168 at limit 4 and 465 at 5 (Markov chain)."""
    generator = np.random.default_rng(SEED)
    lengths = []
    for _ in range(400):
        chart, length = track.Cusum(), 0
        for z in generator.standard_normal(20_000):
            length += 1
            if abs(chart.add(z)) > limit:
                break
        lengths.append(length)
    assert np.mean(lengths) == pytest.approx(weeks, abs=4 * weeks / math.sqrt(len(lengths)))


def weeks_of(generator: np.random.Generator, draws: int, weeks: int) -> Any:
    """Return weeks of two metrics, of which a fifth of the variance is what a draw has in all of them."""
    shared = generator.normal(0, math.sqrt(0.2), (draws, 1, 2))
    return shared + generator.normal(0, math.sqrt(0.8), (draws, weeks, 2))


@pytest.mark.nightly
def test_limits_keep_false_alarms_of_new_years() -> None:
    """Of years that set no limit, at most 5 % have an alarm but for chance, and without the weights many more have."""
    generator = np.random.default_rng(SEED)
    limit = track.limits(["a", "b"], weeks_of(generator, 200, 52))
    assert limit.false_alarms <= track.FALSE_ALARMS
    predicted = weeks_of(generator, 200, 52)
    scores = track.Scores(predicted)
    alarms, unweighted = 0, 0
    for year in weeks_of(generator, 200, 52):
        known = np.zeros(200)
        charts, plain = ([track.Cusum(), track.Cusum()] for _ in range(2))
        beyond, beyond_plain = False, False
        for week in year:
            for at, name in enumerate(("a", "b")):
                z = track.z_of(week[at], predicted[:, :, at], track.weights_of(known), generator.random())
                beyond |= abs(z) > limit.sudden[name] or abs(charts[at].add(z)) > limit.lasting[name]
                beyond_plain |= abs(plain[at].add(week[at])) > limit.lasting[name]
            known = known + scores.log_likelihood(week)
        alarms, unweighted = alarms + beyond, unweighted + beyond_plain
    # The limits are quantiles of 200 years, and 200 new ones are counted: twice the variance of a share.
    assert alarms / 200 < 0.05 + 3 * math.sqrt(2 * 0.05 * 0.95 / 200)
    assert unweighted > 2 * alarms


def test_draws_that_predicted_well_count_more() -> None:
    """After weeks of one draw its weight is above the others', and z of that draw come back to 0."""
    generator = np.random.default_rng(SEED)
    predicted = np.stack([generator.normal(shift, 1, (52, 1)) for shift in np.linspace(-1, 1, 41)])
    scores, known, z = track.Scores(predicted), np.zeros(41), []
    for value in generator.normal(1.0, 1.0, 200):
        z.append(track.z_of(value, predicted[:, :, 0], track.weights_of(known), 0.5))
        known = known + scores.log_likelihood(np.array([value]))
    assert track.weights_of(known)[30:].sum() > 0.99
    assert np.mean(z[100:]) == pytest.approx(0, abs=0.2 + 3 / math.sqrt(100))
    assert np.mean(z[:5]) > np.mean(z[100:])


@cases(
    "text, words",
    [
        ("day,outages\n1,2\n", "weeks.csv:1: has no column for the week (the header has: day, outages)"),
        ("week,outage\n2025-01-06,2\n", "unknown column 'outage'; did you mean 'outages'?"),
        ("week,outages\n2025-01-06\n", "weeks.csv:2: has 1 fields, and the header 2"),
        ("week,productive\n2025-01-06,98.2\n", "weeks.csv:2: productive: must be a share from 0 to 1"),
        ("week,productive,lost_work\n2025-01-06,0.9,0.2\n", "weeks.csv:2: the shares of the job's time add up"),
        ("week,outages\n6.1.25,2\n", "weeks.csv:2: week: '6.1.25' is not a date such as 2025-02-03"),
        ("week,outages\n2025-01-06,two\n", "weeks.csv:2: outages: 'two', which is not a number"),
        ("week,outages,outages\n2025-01-06,2,3\n", "weeks.csv:1: column 'outages' is there twice"),
        ("week,outages\n2025-01-06,2\n2025-01-09,3\n", "the weeks 2025-01-06 and 2025-01-09 overlap"),
        ("week,outages\n2025-01-06,2\n2025-01-06,3\n", "weeks.csv:3: the week 2025-01-06 is given twice"),
    ],
)
def test_weeks_that_cannot_be(tmp_path: Path, text: str, words: str) -> None:
    """A mistake in a file of weeks is one line with its place."""
    (tmp_path / "weeks.csv").write_text(text)
    with pytest.raises(LogError) as caught:
        weeks.rows_of(tmp_path / "weeks.csv")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_weeks_come_back_as_they_were(tmp_path: Path) -> None:
    """What is written to weeks.csv is read again the same."""
    rows = [
        weeks.WeekRecord(
            "2025-01-06", 7.0, "train", 64, 56.0, {"productive": 0.98, "outages": 3.0, "outages: nic": 1.0}
        )
    ]
    text, path = weeks.as_csv(rows), tmp_path / "weeks.csv"
    for changed in (
        text,
        f"\ufeff{text}",
        text.replace("\n", "\r\n"),
        text.replace(",", ";"),
        text.replace("week", "Week"),
    ):
        path.write_text(changed)
        assert weeks.is_table(str(path))
        assert weeks.rows_of(path) == rows


SCENARIO = """\
name: small
cluster: {nodes: 16, gpus_per_node: 8}
horizon: 30 d
jobs: [{name: train, gpus: 96, step_time: 10 s}]
failures:
  - {use: component, name: node, fault: host, rate: 20 per 1000 node-days, events: 50}
repair: {time: 4 h}
detection: {time: 2 min}
checkpoint: {tiers: [{interval: 1 h, mode: blocking, write: 10 s, restore: 1 min}]}
recovery: {use: full-restart, initialize: 5 min}
"""


def tracked(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Return the exit status of ettrick track, and its document."""
    done = CliRunner().invoke(app, ["track", str(folder), *arguments, "--quiet"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.exit_code, json.loads((folder / "track.json").read_text())


def test_results_are_tracked(tmp_path: Path) -> None:
    """Results of the model are in what it predicts; with slow detection a regression is confirmed, and that moved."""
    runner = CliRunner()
    (tmp_path / "small.yaml").write_text(SCENARIO)
    for name, more in (("a", []), ("same", ["--seed", "7"]), ("slow", ["--set", "detection.time=3 h"])):
        done = runner.invoke(
            app, ["run", str(tmp_path / "small.yaml"), "-n", "16", "-q", "--out", str(tmp_path / name), *more]
        )
        assert done.exit_code == 0, done.output
    status, found = tracked(tmp_path / "a", str(tmp_path / "same"))
    assert (status, found["regression"]) == (0, False)
    status, found = tracked(tmp_path / "a", str(tmp_path / "slow"))
    assert (status, found["regression"]) == (1, True)
    alarm = next(alarm for alarm in found["alarms"] if alarm["metric"] == "productive")
    assert alarm["confirmed"]
    assert alarm["moved"][0].startswith("detection +")
    assert {path.name for path in (tmp_path / "a").iterdir()} >= {"track.html", "track.md", "track.json"}


@pytest.mark.nightly
def test_a_history_of_weeks(tmp_path: Path) -> None:
    """Weeks of the model raise no alarm; three times the outages from the 7th week on are confirmed as a regression."""
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    generator = np.random.default_rng(SEED)
    model = track.TrackedModel(tmp_path)
    weeks = model.simulate(track.Shape(7.0, model.gpus, model.nodes, 1), 12, lambda _done, _total: None)[
        int(generator.integers(100))
    ]
    names = model.names(whole=False)
    at = [names.index(name) for name in ("productive", "outages", "unavailability")]
    for factor, status in ((1.0, 0), (4.0, 1)):
        with (tmp_path / "weeks.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["week", "productive", "outages", "unavailability"])
            for number, week in enumerate(weeks):
                worse = factor if number >= 6 else 1.0
                values = [1 - worse * (1 - week[at[0]]), worse * week[at[1]], worse * week[at[2]]]
                writer.writerow([f"2025-{1 + number // 4:02}-{1 + 7 * (number % 4):02}", *values])
        found_status, found = tracked(tmp_path)
        assert found_status == status, found["alarms"]
        assert found["limits"]["false_alarms"] <= track.FALSE_ALARMS
        assert found["simulated"] >= 2000


@pytest.mark.nightly
def test_false_alarms_of_new_years(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200 years of the model that set no limit, at most 5 % have an alarm but for chance; twice the loss is seen."""
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    model = track.TrackedModel(tmp_path)
    shape = track.Shape(7.0, model.gpus, model.nodes, 1)
    at = [model.names(whole=False).index(name) for name in ("productive", "unavailability", "outages")]
    predicted = model.simulate(shape, 52, lambda _done, _total: None)[:, :, at]
    monkeypatch.setattr(track, "_APART", 5_000_000 + 1000 * SEED)
    years = model.simulate(shape, 52, lambda _done, _total: None)[:, :, at]
    found = track.limits(["productive", "unavailability", "outages"], predicted)
    limit = np.column_stack([list(found.sudden.values()), list(found.lasting.values())])
    generator, scores = np.random.default_rng(SEED), track.Scores(predicted)

    def alarmed(year: Any) -> bool:
        return bool((track.extremes(year, predicted, scores, np.zeros(200), generator) > limit).any())

    # The limits are quantiles of 200 years, and 200 new ones are counted: twice the variance of a share.
    assert np.mean([alarmed(year) for year in years]) < 0.05 + 3 * math.sqrt(2 * 0.05 * 0.95 / 200)
    worse = np.array([1.0, 0, 0]) + np.array([-2.0, 2, 2]) * np.abs(years[:40] - [1.0, 0, 0])
    assert np.mean([alarmed(year) for year in worse]) > 0.5


WEEKS_OF_FAULTS = """\
name: faults
cluster: {nodes: 400, gpus_per_node: 8}
horizon: 350 d
jobs: [{name: train, gpus: 8, step_time: 10 s}]
failures: [{use: infinitehbd, keeps_repair: true}]
repair: {time: 1 d}
detection: {time: 2 min}
checkpoint: {tiers: [{interval: 1 h, mode: blocking, write: 10 s, restore: 1 min}]}
recovery: {use: full-restart, initialize: 5 min}
"""


@pytest.mark.nightly
@pytest.mark.skipif(not TRACE.exists(), reason="skipped: reference data not present")
def test_real_weeks_raise_no_alarm(tmp_path: Path) -> None:
    """49 weeks of a published trace: limits of three Poisson deviations alarm in 5 to 8, ours in 2 at most."""
    (tmp_path / "scenario.yaml").write_text(WEEKS_OF_FAULTS)
    with TRACE.open(encoding="utf-8") as file:
        spans = np.array([(float(row["start_day"]), float(row["end_day"])) for row in csv.DictReader(file)])
    start, end = spans.T
    rows = []
    for low in 7.0 * np.arange(49):
        down = (np.minimum(end, low + 7) - np.maximum(start, low)).clip(0).sum() / 2800
        values = {"outages": float(((start >= low) & (start < low + 7)).sum()), "unavailability": float(down)}
        rows.append(weeks.WeekRecord(f"{low:03}", 7.0, "", 0, 2800.0, values))
    counts = np.array([row.values["outages"] for row in rows])
    assert 5 <= np.sum(np.abs(counts - counts.mean()) > 3 * math.sqrt(counts.mean())) <= 8
    found = track.track(rows, track.TrackedModel(tmp_path), Provenance(version="", python="", numpy="", command=""))
    assert len({alarm.week for alarm in found.alarms}) <= 2
    assert not found.regression


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    """A folder without a scenario is refused in one line, with the command that fills it in the next."""
    done = CliRunner().invoke(app, ["track", str(tmp_path)])
    assert done.exit_code == 2
    assert "contains no model" in done.output
    assert done.output.count("\n") == 2


def test_a_run_beside_what_was_measured(tmp_path: Path) -> None:
    """Shares of a file of weeks, weighted by days, stand beside the simulated ones; nothing else of the run moves."""
    (tmp_path / "small.yaml").write_text(SCENARIO)
    (tmp_path / "weeks.csv").write_text("week,days,productive\n2025-01-06,7,0.96\n2025-01-13,14,0.9\n")
    arguments = ["run", str(tmp_path / "small.yaml"), "-n", "2", "-q"]
    plain, beside = (
        json.loads(CliRunner().invoke(app, [*arguments, "--json", *more]).stdout)
        for more in ([], ["--measured", str(tmp_path / "weeks.csv")])
    )
    assert beside.pop("measured") == {"productive": pytest.approx(0.92)}
    for document in (plain, beside):
        document.pop("provenance")
    assert plain == beside
    shown = CliRunner().invoke(app, [*arguments, "--measured", str(tmp_path / "weeks.csv")]).output
    assert "92.00 %" in shown


def test_weeks_that_a_log_has_in_part(tmp_path: Path) -> None:
    """A week counts from the first line of the training log to the last, if that is most of it."""
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    model = track.TrackedModel(tmp_path)
    for first, last, measured in (
        (0.0, 7.0, 1.0),
        (3.0, 7.0, 1.0),
        (6.0, 7.0, None),
        (0.0, 4.0, 1.0),
        (0.0, 3.0, None),
    ):
        steps = StepStretches.of(
            [TrainingPhase("train", 0, "step", 86400 * first, 86400 * last, 0, round(8640 * (last - first)))]
        )
        found = track._of_steps(steps, 86400 * first, 86400 * last, model)
        assert found.get("productive") == (pytest.approx(measured) if measured else None)


# Weeks of logs.


NODES = "node,gpus\n" + "".join(f"n{number},8\n" for number in range(16))


def weeks_of_logs(
    folder: Path,
    outages: str,
    after: float | None = None,
    window: tuple[float, float] | None = None,
    nodes: str = NODES,
) -> tuple[list[weeks.WeekRecord], list[str]]:
    """Return the weeks of a CSV of outages, and what is said of them."""
    (folder / "scenario.yaml").write_text(SCENARIO)
    (folder / "nodes.csv").write_text(nodes)
    (folder / "outages.csv").write_text(f"node,start,end,cause\n{outages}")
    request = FitOptions([str(folder / "outages.csv")], str(folder / "nodes.csv"), ["UTC"], window=window)
    return track.measured_rows(request, track.TrackedModel(folder), after, lambda _done, _total: None)


def counts(rows: list[weeks.WeekRecord]) -> list[float]:
    """Return the outages of each week."""
    return [row.values["outages"] for row in rows]


MONDAY = datetime(2025, 1, 6, tzinfo=UTC).timestamp()

FAILURES = "n1,2025-02-03T04:00:00,2025-02-03T05:00:00,nic\nn2,2025-02-12T04:00:00,2025-02-13T04:00:00,gpu\n"


def test_quiet_weeks_are_weeks(tmp_path: Path) -> None:
    """Weeks begin where watching began, and have those without an outage; to the end of the logs, or as stated."""
    rows, findings = weeks_of_logs(tmp_path, FAILURES, MONDAY)
    assert [row.week for row in rows] == ["2025-01-06", "2025-01-13", "2025-01-20", "2025-01-27", "2025-02-03"]
    assert counts(rows) == [0, 0, 0, 0, 1]
    assert any("the logs begin at 2025-02-03T04:00:00Z" in text for text in findings)
    assert any("the weeks end with the logs" in text for text in findings)
    rows, findings = weeks_of_logs(tmp_path, FAILURES, None, (MONDAY, MONDAY + 8 * 7 * 86400))
    assert counts(rows) == [0, 0, 0, 0, 1, 1, 0, 0]
    assert rows[5].values["unavailability"] == pytest.approx(1 / (16 * 7))
    assert not any("begin" in text or "end with" in text for text in findings)
    served = "node,gpus,in_service,out_of_service\n" + "".join(
        f"n{number},8,2024-01-01T00:00:00,2025-03-17T00:00:00\n" for number in range(16)
    )
    rows, _ = weeks_of_logs(tmp_path, FAILURES, MONDAY, nodes=served)
    assert counts(rows) == [0, 0, 0, 0, 1, 1, 0, 0, 0, 0]
    rows, _ = weeks_of_logs(tmp_path, "", None, (MONDAY, MONDAY + 2 * 7 * 86400))
    assert counts(rows) == [0, 0]
    for outages, after in ((FAILURES, None), ("", MONDAY)):
        with pytest.raises(LogError, match="the observation window is unknown"):
            weeks_of_logs(tmp_path, outages, after)


def test_weeks_do_not_move_with_the_logs(tmp_path: Path) -> None:
    """A week has the same edges and numbers whichever logs are given with it: more of them, fewer, in two steps."""
    window = (MONDAY, MONDAY + 9 * 7 * 86400)
    whole, _ = weeks_of_logs(tmp_path, FAILURES, None, window)
    more = "n3,2025-01-09T04:00:00,2025-01-09T05:00:00,nic\n"
    with_more, _ = weeks_of_logs(tmp_path, more + FAILURES, None, window)
    assert [row.week for row in with_more] == [row.week for row in whole]
    assert with_more[1:] == whole[1:]
    first, _ = weeks_of_logs(tmp_path, FAILURES.splitlines()[0], None, (MONDAY, MONDAY + 5 * 7 * 86400))
    (tmp_path / "weeks.csv").write_text(weeks.as_csv(first))
    known = weeks.last_known(tmp_path, weeks.rows_of(tmp_path / "weeks.csv"))
    second, _ = weeks_of_logs(tmp_path, f"{FAILURES}n5,2025-03-05T04:00:00,2025-03-05T05:00:00,nic\n", known)
    assert [*first, *second] == whole[:8]
    # An outage that began before the first week is one of it, too.
    late, _ = weeks_of_logs(tmp_path, FAILURES, None, (MONDAY + (5 * 7 + 2.5) * 86400, MONDAY + (6 * 7 + 2.5) * 86400))
    assert late[0].values["unavailability"] == pytest.approx((16 / 24) / (16 * 7))


def test_unused_lines_are_said(tmp_path: Path) -> None:
    """A line of the logs that is not used is a finding, with its reason, count and line."""
    _, findings = weeks_of_logs(tmp_path, f"n1,soon,2025-02-03T05:00:00,nic\n{FAILURES}", MONDAY)
    assert any("outages.csv: 1 lines are not used" in text and "line 2" in text for text in findings)


def metric(measured: float, mean: float, z: float = 0.0) -> Tracked:
    """Return a metric of a week."""
    return Tracked(measured=measured, mean=mean, low=None, median=None, high=None, z=z)


def week_of(at: int, **metrics: Tracked) -> WeekSummary:
    """Return a week with metrics; `cause_NAME` are outages of a cause."""
    names = {name.replace("cause_", "outages: "): value for name, value in metrics.items()}
    day = datetime.fromtimestamp(MONDAY + 7 * 86400 * at, UTC).date().isoformat()
    return WeekSummary(week=day, days=7, gpus=96, nodes=16, replications=1, metrics=names)


def test_the_first_suspect_explains_the_loss() -> None:
    """Slow steps that cost 4.5 points come before two outages more that cost less; nothing else is missing then."""
    weeks = [
        week_of(
            at, productive=metric(0.935, 0.98, -3), step_time=metric(1.048, 1), lost_work=metric(0.01, 0.01),
            outages=metric(4, 2, 2), cause_nic=metric(3, 1, 2), cause_gpu=metric(1, 1),
        )
        for at in range(3)
    ]  # fmt: skip
    texts = track.moved(weeks, "productive", 1)
    assert texts == ["step time +4.8 %", "nic 3 a week, 1 predicted"]
    assert track.moved(weeks, "outages", 1) == ["nic 3 a week, 1 predicted"]
    strange = [week_of(at, outages=metric(4, 2, 2), cause_nvlink=metric(2, 0)) for at in range(3)]
    assert track.moved(strange, "outages", 1) == ["nvlink 2 a week, none in the model"]


def test_buckets_that_were_measured_are_not_missing() -> None:
    """What is lost beyond all buckets is in none of them; only where one was not measured it may be there."""
    shares = {name: metric(0.01, 0.01) for name in JOB_BUCKETS} | {"productive": metric(0.80, 0.83)}
    assert track.moved([week_of(0, **shares)], "productive", 1) == ["+3.00 percentage points in no bucket"]
    shares.pop("detection")
    assert "buckets that were not measured" in track.moved([week_of(0, **shares)], "productive", 1)[0]


def test_causes_that_step_are_said_by_week() -> None:
    """A cause with another rate from a week on is named with that week, whether the model has it or not."""
    numbers = np.random.default_rng(SEED).poisson([0.5] * 12 + [6.0] * 12)
    weeks = [
        week_of(at, cause_nvlink=metric(float(number), 0.0), cause_gpu=metric(2.0, 2.0))
        for at, number in enumerate(numbers)
    ]
    (text,) = track.since(weeks)
    assert text.startswith("nvlink: ")
    assert f"before {weeks[12].week}" in text

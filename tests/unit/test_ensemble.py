"""Replications stop where they should, come out the same on any number of cores, and bands say what rates are worth."""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from ettrick import sim
from ettrick.analysis.contest import runs
from ettrick.analysis.contest.compare import Variant, compare
from ettrick.analysis.contest.precision import FEWEST, Precision, ReplicationsError
from ettrick.analysis.contest.runs import band, replicate
from ettrick.analysis.ratios import ratios
from ettrick.analysis.results import ensemble
from ettrick.analysis.results.ensemble import Ensemble
from ettrick.analysis.results.run import document as typed_document
from ettrick.analysis.results.run import render
from ettrick.analysis.statistics.differences import ControlVariates
from ettrick.analysis.statistics.estimates import means
from ettrick.sim import Prepared, Ratio
from ettrick.sim.scenario.laws import Lognormal
from ettrick.sim.units import DAY
from tests import report_sample
from tests.cases import SIMULATED, cases
from tests.pace import one_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.mark.parametrize("name", one_in(6, SIMULATED[::-1]))
def test_expected_events_are_about_those_simulated(name: str) -> None:
    """The estimate is within a factor of three of the events of each scenario that ships, on average."""
    # A day of a fleet is thousands of jobs; more of it only takes longer.
    changes = ["horizon=1 d", "warmup=0 d"] if name.startswith("fleet-") else []
    ready = sim.prepare(sim.load(sim.find(name), changes))
    events = [sim.run(ready, number).events for number in range(2)]
    # A job without failures starts and ends.
    assert 1 / 3 < (ready.expected_events + 2) / (sum(events) / len(events) + 2) < 3


@pytest.mark.parametrize(
    "changes",
    [
        {"windows": "3 min"},
        {"failures": [{**report_sample.SMALL["failures"][0], "idle_hazard": 0, "interrupts": "1 %"}]},
        {"failures": [{**report_sample.SMALL["failures"][0], "clock": "busy", "scale": 5}]},
        {"failures": [{**report_sample.SMALL["failures"][0], "renews": "at_return", "scale": 500}]},
        {"repair": {"use": "tiers", "tiers": [{"name": "reset", "time": "1 min"}]}},
    ],
)
def test_expected_events_know_what_makes_events(changes: dict[str, Any]) -> None:
    """So it is where windows, faults without consequence, other clocks, repairs or tiers make the number."""
    ready = report_sample.prepare(**changes)
    events = [sim.run(ready, number).events for number in range(10)]
    assert 1 / 3 < ready.expected_events / (sum(events) / len(events)) < 3


@cases("law", [{"mean": "1 h", "sigma": 1}, {"mean": "10 d", "sigma": 4}, {"mean": "30 d", "sigma": 6}])
def test_lives_of_a_huge_spread_are_counted(law: dict[str, Any]) -> None:
    """Where most lives are far below their mean, many more end than the time over the mean: within a factor of three.

    Drawn one after another until 30 days are over, as units are; the mean of 1,000 units.
    """
    lives, length = Lognormal.model_validate({"use": "lognormal", **law}), 30 * DAY
    generator, age, ended = np.random.default_rng(1), np.zeros(1000), 0
    while len(age):
        age = age + np.exp(lives.mu + lives.sigma * generator.normal(size=len(age)))
        age = age[age < length]
        ended += len(age)
    assert 1 / 3 < lives.renewals(length) * 1000 / ended < 3


def test_a_log_has_the_jobs_that_it_has(tmp_path: Path) -> None:
    """Recorded jobs that all arrive at once are counted once, and those after the horizon never."""
    (tmp_path / "log.csv").write_text("submit,gpus,run\n" + "0,8,60\n" * 50 + "1e6,8,60\n" * 50)
    log = {"name": "log", "use": "trace", "file": str(tmp_path / "log.csv"), "restart": "0 s", "checkpoint": {}}
    ready = report_sample.prepare(jobs=[], streams=[log], failures=[], horizon="10 d", scheduler={"use": "fifo"})
    assert ready.expected_events == 4 * 50


def test_checkpoints_are_no_events() -> None:
    """Saves every second take no events, and are expected to take none."""
    tier = {"interval": "1 s", "mode": "blocking", "write": "0 s", "restore": "0 s"}
    often = report_sample.prepare(checkpoint={"tiers": [tier]})
    assert often.expected_events == report_sample.prepare().expected_events < 100
    assert sim.run(often, 0).events < 300


def test_more_work_than_allowed_is_refused_before_it_begins() -> None:
    """One replication, several, draws of rates and variants: each is refused with the number; or allowed."""
    ready = report_sample.prepare()
    one = ready.expected_events
    assert one < sim.MOST_EVENTS == 1e8
    endless = replace(ready, expected_events=2e8)
    asked: list[Callable[[Any], Any]] = [
        lambda most: sim.run(endless, 0, **most),
        lambda most: replicate(endless, 1, **most),
        lambda most: compare([Variant("a", endless), Variant("b", ready)], 2, **most),
        lambda most: band(replicate(endless, 1, most_events=math.inf), 20, **most),
    ]
    for ask, number in zip(asked, ("2e+08", "2e+08", "4e+08", "4e+09"), strict=True):
        with pytest.raises(sim.WorkError, match=f"about {re.escape(number)} events would be simulated") as caught:
            ask({})
        assert "\n" not in str(caught.value)
        assert "--yes" in str(caught.value)
        assert ask({"most_events": 1e10}) is not None
    with pytest.raises(sim.WorkError):
        replicate(ready, 10, most_events=9.9 * one)
    assert len(replicate(ready, 10, most_events=10 * one).rows) == 10


def test_a_precision_is_given_up_when_the_work_is_done() -> None:
    """It stops at the last batch that is allowed, and says that the precision was not reached."""
    ready = report_sample.prepare()
    found = replicate(ready, 0, precision=Precision.parse("0.0001pt"), most_events=55 * ready.expected_events)
    assert len(found.rows) == 50
    assert found.precise is False


def test_commands_ask_before_much_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command that simulates ends with a line with the number and one with --yes, having simulated nothing."""
    name = report_sample.write(tmp_path, monkeypatch)
    much = ("--set", "failures.0.rate=1e9 per node-h")
    study = {"name": "study", "scenario": name, "vary": {"spares.hot": {"choices": [1, 2]}}, "replications": 4}
    study["set"] = {"failures.0.rate": "1e9 per node-h"}
    study["optimize"] = {"maximize": "ettr"}
    Path("study.yaml").write_text(sim.dump(study))
    for words in (
        ("run", name, *much),
        ("run", name, *much, "--precision", "1pt"),
        ("compare", name, *much, "--vary", "spares.hot=1,2"),
        ("explain", name, *much),
        ("explain", name, *much, "--worth"),
        ("trace", name, *much, "--out", "trace.json"),
        ("sweep", "study.yaml"),
        ("sensitivity", "study.yaml"),
        ("optimize", "study.yaml"),
    ):
        found = report_sample.call(*words)
        assert found.exit_code == 2, words
        line, command = [line for line in found.stderr.splitlines() if not line.startswith("warning: ")]
        assert re.search(r"about [\d.]+e\+\d\d events would be simulated", line), words
        assert command.startswith("help: ")
        assert "--yes" in command


def test_yes_is_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --yes a command simulates what it has asked about."""
    name = report_sample.write(tmp_path, monkeypatch)
    monkeypatch.setattr(sim, "MOST_EVENTS", 1.0)
    for words in (
        ("run", name, "--replications", "2"),
        ("compare", name, "--vary", "spares.hot=1,2", "--replications", "2"),
        ("explain", name),
        ("trace", name, "--out", "trace.json"),
    ):
        assert "events would be simulated" in report_sample.call(*words).stderr, words
        assert report_sample.call(*words, "--yes").exit_code == 0, words


def test_memory_does_not_grow_with_results() -> None:
    """A replication leaves the numbers of its metrics behind, some hundred bytes; the result itself is let go.

    There are 20 metrics of the scenario and as many of its job, 16 bytes each, and 60 other numbers; arrays that grow
    have up to an eighth of room to spare. A result as it was simulated takes more than 4,000 bytes.
    """
    ready = report_sample.prepare()
    numbers = 2 * 2 * len(replicate(ready, 1).rows[0]) + 60

    def held(replications: int) -> int:
        before = tracemalloc.get_traced_memory()[0]
        found = replicate(ready, replications, processes=1)
        gc.collect()
        assert len(found.rows) == replications
        return tracemalloc.get_traced_memory()[0] - before

    tracemalloc.start()
    try:
        grown = held(50) - held(10)
    finally:
        tracemalloc.stop()
    assert grown / 40 < 8 * numbers * 1.25


def test_sums_are_those_of_the_replications() -> None:
    """What is added up is what a list of all results adds up to, and rows are the metrics of each to the last bit."""
    ready = report_sample.prepare(
        jobs=[
            {"name": "ends", "gpus": 48, "step_time": "10 s", "work": {"time": "20 h"}},
            {"name": "goes on", "gpus": 32, "step_time": "20 s"},
            {"name": "never", "gpus": 8, "arrival": "40 d"},
        ],
        windows="6 h",
        cost={"capex": 40000, "years": 4, "repair": {"node": 500}, "allocation": "gpus"},
    )
    found = replicate(ready, 12, processes=1, keeps_log=True)
    results, tally = found.results, found
    assert found.rows == [ratios(ready, result) for result in results]
    assert found.rows[3:5] == [ratios(ready, result) for result in results[3:5]]
    assert tally.cluster.tolist() == np.sum([result.cluster for result in results], axis=0).tolist()
    assert (
        tally.losses[:, : len(ready.sources) + 1].tolist()
        == np.sum([job.totals.sum(axis=0) for result in results for job in result.jobs], axis=0).tolist()
    )
    assert [list(column) for column in tally.interruptions] == [
        [sum(job.interruptions.get(1, 0) for job in result.jobs) for result in results]
    ]
    for index, job in enumerate(tally.jobs):
        mine = [result.jobs[index] for result in results]
        assert job.finished == sum(each.finished for each in mine)
        assert job.never_started == sum(math.isnan(each.start) for each in mine)
        assert list(job.requested) == [each.requested for each in mine]
        assert job.buckets.tolist() == np.sum([each.buckets for each in mine], axis=0).tolist()
    for index, (reached, start, end) in enumerate(tally.reached):
        those = [result for result in results if len(result.edges) > index + 1]
        assert reached == len(those)
        assert (start, end) == (those[0].edges[index], max(result.edges[index + 1] for result in those))
        tables = [job.totals[index, : len(sim.JOB_BUCKETS)].sum(axis=1) for result in those for job in result.jobs]
        assert tally.windows[index].tolist() == np.sum(tables, axis=0).tolist()
    variates = ControlVariates(ready)
    known = [variates.of(result) for result in results]
    assert list(found.controls) == (known if None not in known else [])


@cases(
    ("text", "precision"),
    [
        ("0.1pt", Precision(0.001, relative=False)),
        (" .5 pt ", Precision(0.005, relative=False)),
        ("2%", Precision(0.02, relative=True)),
        ("1.5 %", Precision(0.015, relative=True)),
    ],
)
def test_precision_is_read(text: str, precision: Precision) -> None:
    """Points are hundredths of a share, percent are of the mean."""
    read = Precision.parse(text)
    assert read.width == pytest.approx(precision.width)
    assert read.relative is precision.relative


@cases("text", ["", "1", "pt", "-1%", "0%", "0.0pt", "1 percent", "1e-3pt", "nan%", "inf%", "1,5%"])
def test_what_is_no_precision_is_refused(text: str) -> None:
    """Anything but a positive number with pt or % is refused with an example."""
    with pytest.raises(ReplicationsError, match=r"write 0\.1pt"):
        Precision.parse(text)


@pytest.fixture
def plays(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that replicates made-up values of the metric ettr and says how many were asked for."""

    def play(values: list[float], **options: Any) -> Ensemble:
        drawn: list[Any] = []

        def in_order(work: Any, prepared: Any, indices: range, count: int, **_: Any) -> Iterator[Any]:
            for index in indices[: len(values)]:
                drawn.append(index)
                yield [index]

        monkeypatch.setattr(runs, "in_order", in_order)
        of_nothing(monkeypatch)
        monkeypatch.setattr(
            ensemble,
            "ReplicationMetrics",
            lambda prepared, index: SimpleNamespace(metrics=lambda: {"ettr": Ratio(values[index], 1.0)}),
        )
        found = replicate(report_sample.prepare(), 1, **options)
        assert len(drawn) == len(found.rows)
        return found

    return play  # type: ignore[return-value]


def of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at nothing but the metrics of a replication."""
    monkeypatch.setattr(ensemble, "ControlVariates", lambda prepared: SimpleNamespace(of=lambda result: None))
    monkeypatch.setattr(Ensemble, "_add_sums", lambda self, result: None)


def half_width(values: list[float]) -> float:
    """Return Student's half-width of the 95 % interval of a mean."""
    return float(stats.t.isf(0.025, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))


def first_stop(values: list[float], width: float) -> int:
    """Return the goal at which the half-width is at most `width`: 30, then as many as seem enough, in whole tens."""
    goal = 30
    while (excess := half_width(values[:goal]) / width) > 1:
        goal = min(10 * math.ceil(goal * excess**2 / 10), 4 * goal)
    return goal


@pytest.mark.parametrize("width", [0.5, 0.12, 0.1, 0.07])
def test_precision_stops_at_the_first_complete_batch(plays: Any, width: float) -> None:
    """The run looks at 30 replications, and then where the interval seems to be narrow enough, in whole tens."""
    values = np.random.default_rng(5).uniform(0, 1, 500).tolist()
    found = plays(values, precision=Precision(width, relative=False))
    assert found.precise is True
    assert len(found.rows) == first_stop(values, width)


def test_censored_metric_gives_up_at_once(plays: Any) -> None:
    """A mean that cannot exist is not waited for: one infinite value ends the run at the first decision."""
    found = plays([math.inf, *[1.0] * 200], precision=Precision(0.1, relative=True))
    assert found.precise is False
    assert len(found.rows) == 30


def test_without_precision_nothing_is_decided() -> None:
    """A fixed number of replications gives exactly that many, and no verdict."""
    found = replicate(report_sample.prepare(), 3, keeps_log=True)
    assert [result.replication for result in found.results] == [0, 1, 2]
    assert found.precise is None


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Use worker processes for the smallest work; return the number of workers of each pool that was started."""
    started: list[int] = []
    original = runs._on_processes

    def spy(work: Any, prepared: Any, indices: range, workers: int) -> Any:
        started.append(workers)
        return original(work, prepared, indices, workers)

    monkeypatch.setattr(runs, "_TRIAL", 0.0)
    monkeypatch.setattr(runs, "_PATIENCE", 0.0)
    monkeypatch.setattr(runs, "_on_processes", spy)
    return started


def test_numbers_do_not_depend_on_processes(eager: list[int]) -> None:
    """One process and two give the same document and the same band, digit by digit."""
    prepared = report_sample.prepare(failures=[{**report_sample.SMALL["failures"][0], "events": 5}], windows="12 h")
    texts = []
    for count in (1, 2):
        found = replicate(prepared, 14, processes=count)
        bands = band(found, 20, replications=2, processes=count)
        texts.append(render(typed_document(found, command="", bands=bands)))
    assert eager == [2, 2]
    assert texts[0] == texts[1]


def test_numbers_do_not_depend_on_threads(eager: list[int]) -> None:
    """Machine code on one thread and on three gives the same document; no process is started."""
    prepared = replace(report_sample.prepare(windows="12 h"), engine="compiled")
    texts = [render(typed_document(replicate(prepared, 40, processes=count), command="")) for count in (1, 3)]
    assert texts[0] == texts[1]
    assert eager == []


def test_precision_does_not_depend_on_processes(eager: list[int]) -> None:
    """The decision falls at the same batch, although more processes are further ahead when it does; none is left."""
    rows = replicate(report_sample.prepare(), 200, processes=1).rows
    values = [row["ettr"].amount / row["ettr"].base for row in rows]
    precision = Precision(0.8 * half_width(values[:FEWEST]), relative=False)
    expected = first_stop(values, precision.width)
    eager.clear()
    found = [replicate(report_sample.prepare(), 1, precision=precision, processes=count) for count in (1, 3)]
    assert eager == [3]
    assert [len(each.rows) for each in found] == [expected, expected]
    assert FEWEST < expected < 200
    assert found[0].rows == found[1].rows
    assert multiprocessing.active_children() == []


def in_group(group: int) -> list[int]:
    """Return the processes of a process group that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = path.read_text().rsplit(")", 1)[1].split()[:3]
        except OSError:
            continue
        if int(its_group) == group and state != "Z":
            found.append(int(path.parent.name))
    return found


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Return whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize(
    ("signal_", "status"), one_in(2, [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]), ids=["ctrl-c", "kill"]
)
def test_end_in_the_middle_leaves_nothing_behind(tmp_path: Path, signal_: signal.Signals, status: int) -> None:
    """Ctrl-C during a parallel run ends with status 130 and without a word; no process outlives its parent."""
    scenario = tmp_path / "small.yaml"
    scenario.write_text(report_sample.YAML)
    arguments = ["run", str(scenario), "--replications", "1000000", "-j", "2", "--engine", "events"]
    code = f"import sys; sys.argv[1:] = {arguments!r}; from ettrick.cli import app; app()"
    program = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        # The program, the server that forks, the tracker of resources, and two workers.
        assert wait_for(lambda: len(in_group(program.pid)) >= 5, 60)
        if signal_ == signal.SIGINT:
            os.killpg(program.pid, signal_)  # as a terminal does: every process hears it
        else:
            program.send_signal(signal_)
        out, err = program.communicate(timeout=60)
        assert program.returncode == status
        assert out == ""
        assert "Traceback" not in err
        assert signal_ != signal.SIGINT or err == ""
        assert wait_for(lambda: in_group(program.pid) == [], 20)
    finally:
        if in_group(program.pid):
            os.killpg(program.pid, signal.SIGKILL)


def with_events(events: int | None) -> Prepared:
    """Return the small scenario with a rate that rests on this many events."""
    return report_sample.prepare(failures=[{**report_sample.SMALL["failures"][0], "events": events}])


def width(prepared: Prepared, draws: int = 30) -> float:
    """Return the width of the band of ettr."""
    found = band(replicate(prepared, 3), draws, replications=2)["ettr"]
    return found[1] - found[0]


def test_factor_is_jeffreys_posterior() -> None:
    """What multiplies a rate that rests on n events has the gamma law of shape n + 1/2 and scale 1 / n."""
    for events in (1, 5, 100):
        factors = [runs._factor(1, "node", events, draw) for draw in range(2000)]
        assert stats.kstest(factors, stats.gamma(events + 0.5, scale=1 / events).cdf).pvalue > 1e-3


def test_factors_are_independent_over_causes() -> None:
    """Two causes are not uncertain in step, and another seed draws other factors."""
    first, second = ([runs._factor(1, name, 10, draw) for draw in range(1000)] for name in ("gpu", "nic"))
    assert abs(stats.pearsonr(first, second).statistic) < 0.15
    assert runs._factor(2, "gpu", 10, 0) != first[0]


def test_exactly_known_rates_have_no_band() -> None:
    """Without a statement about events (or with none at all) a rate is exact: both ends are the mean."""
    for events in (None, 0):
        found = replicate(with_events(events), 5)
        expected = means(found.rows)
        assert all(ends == (expected[name], expected[name]) for name, ends in band(found, 20, replications=2).items())


def test_fewer_events_make_a_wider_band() -> None:
    """A rate from 4 events is known less well than one from 40, and that less well than one from 4,000."""
    few, some, many = (width(with_events(events)) for events in (4, 40, 4000))
    assert few > 2 * some > 4 * many > 0


def test_band_is_linear_in_a_linear_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ettr = 1 - c x rate + noise, the band is the mean of all replications -/+ c x rate x the gamma's spread."""
    noise = [0.02, -0.01, 0.03, 0.005]
    cost = 0.05

    def ratios(prepared: Prepared, replication: int) -> dict[str, Ratio]:
        (source,) = prepared.sources
        return {"ettr": Ratio(1 - cost * source.rate / rate + noise[replication], 1.0)}

    events = 30
    prepared = with_events(events)
    rate = prepared.sources[0].rate
    monkeypatch.setattr(runs, "run", lambda prepared, replication, **_: replication)
    monkeypatch.setattr(runs, "run_block", lambda prepared, replications, **_: list(replications))
    monkeypatch.setattr(runs, "ratios", ratios)
    monkeypatch.setattr(ensemble, "ReplicationMetrics", lambda *of: SimpleNamespace(metrics=lambda: ratios(*of)))
    of_nothing(monkeypatch)
    found = replicate(prepared, 4)
    bands = band(found, 2000, replications=2)["ettr"]
    assert bands is not None
    mean = 1 - cost + sum(noise) / 4
    law = stats.gamma(events + 0.5, scale=1 / events)
    expected = [mean - cost * (law.ppf(q) - 1) for q in (0.95, 0.05)]
    # The ends are quantiles of 2,000 draws: their standard errors are below 5 % of the spread of one draw.
    assert bands == pytest.approx(expected, abs=3 * 0.05 * cost * law.std())


@pytest.mark.nightly
def test_band_agrees_with_the_delta_method() -> None:
    """The half-width of ETTR is 1.645 |d ettr / d ln rate| / sqrt(events), derived from the closed form."""
    events = 100
    recovery = {**report_sample.SMALL["recovery"], "initialize": "10 min"}
    cause = {"use": "job", "name": "crash", "rate": "6 per job-day", "events": events}
    # Many failures, so that the noise of four replications moves what a draw changes by a few percent only.
    prepared = report_sample.prepare(failures=[cause], recovery=recovery, horizon="60 d")

    def formula(factor: float) -> float:
        source = prepared.sources[0]
        assert source.law is not None
        mtti = prepared.jobs[0].mtti / factor
        scaled = replace(prepared, jobs=(replace(prepared.jobs[0], mtti=mtti),))
        ettr = sim.closed_form(scaled).ettr
        assert ettr is not None
        return ettr

    slope = (formula(1.01) - formula(0.99)) / 0.02
    expected = 2 * 1.645 * abs(slope) / math.sqrt(events)
    found = band(replicate(prepared, 4), 120, replications=4)["ettr"]
    # Quantiles of 120 draws: a standard error of 8 % of the width.
    assert found[1] - found[0] == pytest.approx(expected, rel=0.25)


def test_band_is_null_where_a_mean_is() -> None:
    """No interruption, no MTTI, no band of it; other metrics keep theirs."""
    quiet = replace(with_events(3), horizon=60.0)
    found = band(replicate(quiet, 2), 20, replications=2)
    assert found["mtti"] is None
    assert found["ettr"] is not None

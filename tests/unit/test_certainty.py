"""What is printed as sure is sure: an interval has every error of its number, or the line names the one it lacks."""

from __future__ import annotations

import json
import math
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.analysis.amounts import people_form, percent_text, range_text
from ettrick.analysis.contest.compare import Variant, compare, compare_document
from ettrick.analysis.contest.precision import Precision, ReplicationsError, next_goal
from ettrick.analysis.contest.runs import replicate, replications_of
from ettrick.analysis.metrics import METRICS, is_exact
from ettrick.analysis.optimize.optimize import optimize, optimum_document
from ettrick.analysis.page.chapters.compare import format_comparison
from ettrick.analysis.page.chapters.optimum import format_optimum
from ettrick.analysis.page.chapters.run import format_run
from ettrick.analysis.page.chapters.sensitivity import _more_rows, _share
from ettrick.analysis.page.first_screen import more_runs
from ettrick.analysis.page.sourced import SourcedEstimate as Sourced
from ettrick.analysis.page.sourced import SourcedNumber, apart
from ettrick.analysis.ratios import TargetResult, _target_metrics
from ettrick.analysis.results.run import document, plain
from ettrick.analysis.results.studies import IndexEstimate
from ettrick.analysis.statistics.differences import difference
from ettrick.analysis.statistics.intervals import doubt_of, mean_estimate, unseen
from ettrick.analysis.study.load import first_look
from ettrick.sim import Ratio
from ettrick.sim.engine.requests import Served
from tests import report_sample
from tests.cases import SIMULATED, cases
from tests.pace import one_in
from tests.sweep_tools import FakeCampaign, study_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# ----------------------------------------
# No interval of width zero.


def pairs(content: Any, path: str = "") -> Iterator[tuple[str, list[float]]]:
    """Yield every 95 % interval of a document with its path."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key.endswith("ci95") and isinstance(value, list):
                yield f"{path}/{key}", value
            yield from pairs(value, f"{path}/{key}")


def zero_widths(text: str) -> list[str]:
    """Return ranges of a text whose ends read the same, such as ``41.00 to 41.00 %``."""
    ranges = re.finditer(r"(?<![\w.])([\d.,]+)( ?[%\w]*) to ([\d.,]+)", text)
    return [found[0] for found in ranges if found[1] == found[3]]


@pytest.mark.parametrize("name", one_in(6, SIMULATED))
def test_no_interval_without_width_is_printed(name: str) -> None:
    """Of every shipped scenario, cut short: neither in the document nor in the text; what is exact says so."""
    ready = sim.prepare(sim.load(sim.find(name), ["horizon=2 d", "warmup=0 s"]))
    found = document(replicate(ready, 3, processes=1), command="")
    assert [path for path, (low, high) in pairs(plain(found)) if not low < high] == []
    assert zero_widths(format_run(found, ready, width=200)) == []


def test_equal_replications_have_no_interval() -> None:
    """32 runs that nothing interrupts: a dash, since 11 % of all runs may be unlike them; the MFU is exact."""
    failures = [{"use": "job", "name": "bug", "rate": "1 per 1000000 job-day"}]
    ready = report_sample.prepare(failures=failures)
    found = document(replicate(ready, 32, processes=1), command="")
    ettr = found.metrics["ettr"]
    assert (ettr.mean_ci95, ettr.method) == (None, None)
    planned = found.metrics["interruptions_planned"]
    assert (planned.mean, planned.mean_ci95, planned.method) == (0.0, None, "exact")


def test_ranges_whose_ends_read_the_same_are_not_printed_as_ranges() -> None:
    """Digits that do not show a width are no interval of width zero."""
    assert range_text((0.183800001, 0.183800002), percent_text) == "within the last digit"
    assert range_text((0.1838, 0.1838), percent_text) == "-"


# ----------------------------------------
# Nothing random: one replication.

LOG = "unit,start,end\n3,3600,7200\n5,90000,93600\n"


def replayed(folder: Path, **changes: Any) -> sim.Prepared:
    """Return the small scenario with a log of two outages instead of what is random."""
    (folder / "log.csv").write_text(LOG)
    failures = [{"use": "replay", "file": str(folder / "log.csv"), "time_unit": "s", "map": "number"}]
    return report_sample.prepare(failures=failures, **changes)


def test_a_replay_without_chance_is_one_replication(tmp_path: Path) -> None:
    """All its numbers are exact, and two replications would be the same to the last bit."""
    ready = replayed(tmp_path)
    assert ready.is_deterministic
    assert replications_of(ready) == 1
    rows = replicate(ready, 2, processes=1).rows
    assert dict(rows[0]) == dict(rows[1])
    found = document(replicate(ready, 1, processes=1), command="")
    assert {(summary.mean_ci95, summary.method) for summary in found.metrics.values() if summary.mean is not None} == {
        (None, "exact")
    }
    assert "exact" in format_run(found, ready)
    precise = replicate(ready, 1, precision=Precision.parse("0.1pt"), processes=1)
    assert (len(precise.rows), precise.precise) == (1, True)


@cases(
    "changes",
    [
        {"repair": {"time": {"use": "exponential", "mean": "4 h"}}},
        {"detection": {"time": {"use": "uniform", "low": "1 min", "high": "3 min"}}},
        {"scheduler": {"pick": "random"}},
        {"recovery": {"use": "hot-spare", "initialize": {"use": "lognormal", "median": "3 min", "sigma": 1}}},
        {"failures": report_sample.SMALL["failures"]},
        {"failures": [{"use": "job", "name": "bug", "law": "6 h"}], "initial": "stationary"},
    ],
)
def test_what_is_random_is_seen(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Times with more than one value, random choices and random ages each make a scenario one of chance."""
    ready = report_sample.prepare(**changes) if "failures" in changes else replayed(tmp_path, **changes)
    assert not ready.is_deterministic


def test_a_comparison_without_chance_takes_one_replication(tmp_path: Path) -> None:
    """Two outages, each detected 8 min later: the difference is exact, and no second replication is asked for."""
    variants = [Variant(time, replayed(tmp_path, detection={"time": time})) for time in ("2 min", "10 min")]
    found = compare(variants, 1, processes=1)
    change = found.differences[1]["ettr"]
    assert (found.replications, change.exact, change.ci95, change.resolved) == (1, True, None, True)
    # Two nodes of 14 fail, one that is a spare or idle costs nothing: at most both stop the job.
    assert 0 < -change.mean * 2 * 86400 <= 2 * 8 * 60 + 1e-6
    text = format_comparison(compare_document(found, {}, command="", varied=["detection.time"]))
    assert "exact" in text
    assert zero_widths(text) == []


def test_a_comparison_of_chance_needs_two() -> None:
    """One replication says nothing of chance."""
    variants = [Variant(name, report_sample.prepare()) for name in ("one", "other")]
    with pytest.raises(ReplicationsError, match="at least 2"):
        compare(variants, 1, processes=1)


# ----------------------------------------
# Precision is one rule, with the event that nobody has seen.


@cases("count", [10, 30, 180])
def test_equal_replications_are_as_unsure_for_a_mean_as_for_a_difference(count: int) -> None:
    """What is in none of n runs is in up to u of all, 0.975 = 1 - (1 - u)^n, and may take all of a share."""
    rows = [Ratio(1.0, 1.0)] * count
    precision = Precision.parse("1pt")
    mean = mean_estimate(rows, "ettr")
    apart_ = difference(rows, rows, metric="ettr")
    assert (mean.interval, apart_.ci95, apart_.resolved) == (None, None, False)
    found = {precision.excess(ends, 1.0, "ettr", count) for ends in (mean.interval, apart_.ci95)}
    (excess,) = found
    assert excess**2 == pytest.approx((1 - 0.025 ** (1 / count)) / 2 / 0.01)
    assert next_goal(count, excess, 1000) > count or count >= 180


def test_a_large_equal_difference_is_resolved() -> None:
    """No run that is too rare to be among 32, below 11 % of all, can take back 25 % of a mean."""
    fast, slow = [Ratio(5.0, 1.0)] * 32, [Ratio(4.0, 1.0)] * 32
    far = difference(fast, slow)
    near = difference(fast, [Ratio(4.99, 1.0)] * 32)
    assert unseen(32) < 1 / 5
    assert (far.resolved, near.resolved) == (True, False)


def test_compare_goes_on_where_a_run_goes_on() -> None:
    """Rare failures that nobody has met yet: neither calls 30 equal replications precise to a point."""
    failures = [{"use": "job", "name": "bug", "rate": "1 per 1000000 job-day"}]
    ready = report_sample.prepare(failures=failures)
    other = report_sample.prepare(failures=failures, spares={"hot": 1})
    precision = Precision.parse("5pt")
    alone = replicate(ready, 0, precision=precision, processes=1)
    both = compare([Variant("a", ready), Variant("b", other)], 0, precision=precision, processes=1)
    assert len(alone.rows) == both.replications > 30
    assert (alone.precise, both.precise) == (True, True)


# ----------------------------------------
# A replay of requests has an error of its own.


def served(within: np.ndarray[Any, Any]) -> Served:
    """Return requests of which some meet a TTFT of 1 s."""
    count = len(within)
    zero, one = np.zeros(count), np.ones(count)
    return Served(zero, one, np.where(within, 0.5, 2.0), np.where(within, 0.5, 2.0), 0, 0.0, 0.0)


def test_the_doubt_of_a_replay_is_that_of_its_requests() -> None:
    """None of 18,000 missed: Wilson's half-width is z² / 2 (n + z²); those that miss together are known less well."""
    count, square = 18_000, 1.96**2
    assert served(np.ones(count, dtype=bool)).doubt(1, 1) == pytest.approx(square / 2 / (count + square), rel=1e-9)
    scattered = np.arange(count) % 100 > 0
    together = np.arange(count) >= count // 100
    assert served(scattered).attainment(1, 1) == served(together).attainment(1, 1) == 0.99
    assert served(scattered).doubt(1, 1) == pytest.approx(1.96 * math.sqrt(0.99 * 0.01 / count), rel=0.01)
    assert served(together).doubt(1, 1) > 5 * served(scattered).doubt(1, 1)


def test_what_all_replications_share_widens_the_interval_and_does_not_shrink() -> None:
    """Both errors are independent: half-widths add up by their squares, however many replications there are."""
    rng = np.random.default_rng(1)
    for count in (16, 1024):
        values = 0.9 + 0.01 * rng.standard_normal(count)
        plain_ = mean_estimate([Ratio(value, 1) for value in values], follows_tail=False)
        found = mean_estimate([Ratio(value, 1, 0.03) for value in values], follows_tail=False)
        assert found.interval is not None
        assert plain_.interval is not None
        half, alone = ((ends[1] - ends[0]) / 2 for ends in (found.interval, plain_.interval))
        assert half == pytest.approx(math.hypot(alone, 0.03))
    assert Precision(0.02, relative=False).excess((0.87, 0.93), 0.9, "ettr", 1024, 0.03) == math.inf


def test_a_target_between_what_a_replay_may_be_is_not_certain() -> None:
    """99.905 % of every window, known to 0.046 points, against 99.9 %: P(miss) is between 0 and 1."""
    target = SimpleNamespace(least=0.999, credits=(), bill=None)
    bases = np.full(10, 1000.0)
    found = _target_metrics(target, TargetResult(0.99905 * bases, bases, 0.00046 * bases))  # type: ignore[arg-type]
    missed = mean_estimate([found["missed_windows"]] * 8, "missed_windows")
    assert missed.mean == 0.0
    assert missed.interval[1] == 1.0
    worst = found["worst_window"]
    assert (worst.amount, worst.doubt) == pytest.approx((0.99905, 0.00046))


def test_the_error_of_a_replay_is_in_every_interval_of_a_service() -> None:
    """Attainment and goodput of SLO are known no better than the replay that they rest on; costs are exact."""
    ready = sim.prepare(sim.load(sim.find("serve-llama3-70b"), ["horizon=30 d"]))
    (service,) = sim.services_of(ready)
    found = replicate(ready, 8, processes=1)
    content = document(found, command="")
    doubt = float(service.doubt(np.array([service.load]))[0])
    ratios = [row["slo_attainment"] for row in found.rows]
    assert doubt_of(ratios) == pytest.approx(doubt, rel=0.1)
    low, high = content.metrics["slo_attainment"].mean_ci95 or (0.0, 0.0)
    assert content.metrics["slo_attainment"].mean - low >= 0.99 * doubt_of(ratios)  # type: ignore[operator]
    assert high <= 1
    assert (content.metrics["cost"].method, content.metrics["cost"].mean_ci95) == ("exact", None)
    assert is_exact(ready, "cost")
    assert not is_exact(ready, "cost_per_token")
    assert any("percentage points: it rests on one replay of 18,000 requests" in note for note in content.notes)


# ----------------------------------------
# Beside the headline: the model of the step, and rates that were counted on smaller jobs.

MODELLED = {
    "model": "llama3-8b",
    "parallelism": {"tensor": 8, "data": 14},
    "batch": {"tokens": 458752, "sequence": 4096},
}


def test_a_modelled_step_is_a_second_interval_of_what_goes_with_it() -> None:
    """Tokens a day are as far off as the step, the cost of one the other way round, and ETTR is not."""
    jobs = [{"name": "train", "gpus": 112, **MODELLED}]
    ready = report_sample.prepare(jobs=jobs, cost={"gpu_hour": 2.0})
    plan = ready.jobs[0].plan
    content = document(replicate(ready, 4, processes=1), command="")
    factor = plan.band90[1] / plan.time
    assert factor > 1.1
    for name, power in (("tokens_per_day", -1), ("program_goodput", -1), ("cost_per_token", 1)):
        summary = content.metrics[name]
        assert summary.band90 == pytest.approx(sorted((summary.mean / factor, summary.mean * factor))), name
        assert METRICS[name].per_step == power
    assert content.metrics["ettr"].band90 is None
    text = format_run(content, ready, width=200)
    assert "If the step model errs by as much as it usually does: tokens per day" in text
    (line,) = (line for line in text.splitlines() if "program goodput (MFU)" in line)
    assert "no sampling error" in line, "it is not exact: the step is modelled"


def test_rates_beyond_where_they_were_counted_stand_beside_the_headline() -> None:
    """The other ETTR is in the notes of the first table, with the power and where it is from."""
    cluster = {"name": "two", "nodes": 1040, "gpus_per_node": 8, "fabric": {"radix": 1024}}
    jobs = [{"name": "train", "gpus": 8192}]
    ready = report_sample.prepare(cluster=cluster, jobs=jobs, failures=[{"use": "meta-rsc-1"}], spares={"hot": 16})
    content = document(replicate(ready, 2, processes=1), command="")
    (row,) = content.closed_form.extrapolated
    assert row.ettr_superlinear is not None
    first = format_run(content, ready, width=400).split("Where every GPU-hour went")[0]
    faster = f"ETTR is {percent_text(row.ettr_superlinear)} by the formula, not {percent_text(row.ettr)}, if beyond"
    assert faster in first
    assert (
        "grow with the power 1.9 (derived from jobs of 32,768 and 98,304 GPUs of one site, arXiv 2602.00277)" in first
    )


# ----------------------------------------
# Sentences.


def sourced(value: float) -> SourcedNumber:
    """Return a number of a document."""
    return SourcedNumber(value, (f"run.json#/{value}",))


def test_a_count_falls_by_100_percent_at_most() -> None:
    """An interval of a change from 10 by −9 (−13 to −5) reads 50 to 100 %."""
    found = Sourced(sourced(-9.0), sourced(-13.0), sourced(-5.0))
    form = people_form("interruptions", [10.0])
    text = "".join(str(getattr(word, "text", word)) for word in apart(found, form, sourced(10.0)))
    assert text == "50 to 100 %"


def test_a_share_that_may_be_anything_is_not_resolved() -> None:
    """60 % (0 to 100) of the variance says nothing; with four times the samples it may be known to a quarter."""
    found = IndexEstimate(value=0.6, ci95=(0.0, 1.0))
    assert _share(found) == "too few samples"
    assert _share(IndexEstimate(value=0.6, ci95=(0.5, 0.7))).startswith("60 %")
    assert _more_rows(64, found) == "with 64 samples; about 256 would"


def test_what_takes_a_great_many_runs_has_other_ways() -> None:
    """A longer horizon is named next to many replications."""
    texts = ["".join(str(getattr(word, "text", word)) for word in more_runs(sourced(count))) for count in (40, 720)]
    assert texts[0] == "about 40 replications needed"
    assert "longer horizon" in texts[1]


# ----------------------------------------
# An optimum has been held beside its neighbours.

FEW = {
    "replicas": {"path": "jobs.0.gpus", "range": {"min": 8, "max": 112, "step": 8}},
    "spares": {"path": "spares.hot", "choices": [0, 1, 2]},
    "repair": {"path": "repair.time", "choices": ["1 h", "2 h", "3 h"]},
}


def costs(settings: dict[str, Any], _rng: Any) -> dict[str, float]:
    """Return a cost that falls with every axis, down to what does not run and what misses the condition."""
    gpus, spares = settings.get("jobs.0.gpus", 112), settings["spares.hot"]
    if spares == 1 and gpus > 96:
        raise ValueError("the jobs and spares need 17 nodes; the cluster has 16")
    hours = float(settings.get("repair.time", "4 h").split()[0])
    return {"cost": 1e4 * gpus + 7e4 * spares + 1e3 * hours, "ettr": 0.5 + gpus / 200}


def test_no_neighbour_of_an_optimum_is_better(tmp_path: Path) -> None:
    """A search of 8 of 126 combinations, whose costs fall with each axis, still ends where no step lowers them.

    The cheapest setting with an ETTR of 0.7 or more has 40 GPUs, no spare and the quickest repair.
    """
    asked = {"minimize": "cost", "subject_to": ["ettr >= 0.7"], "trials": 8}
    loaded = study_of(tmp_path, vary=FEW, optimize=asked)
    found = optimize(FakeCampaign(loaded, None, None, function=costs), replications=4)  # type: ignore[arg-type]
    content = optimum_document(found, command="")
    assert content.answer.numbers["replicas"] == 40
    assert content.answer.values["spares"] == "0"
    assert content.answer.values["repair"] == "1 h"
    assert content.combinations == 126 > len(content.trials)
    assert {(one.axis, one.status) for one in content.neighbours} >= {
        ("replicas", "misses a condition"),
        ("spares", "evaluated"),
    }
    first = next(line for line in format_optimum(content, width=400).splitlines() if "settings were evaluated" in line)
    assert (
        f"Only {len(content.trials)} of 126 settings were evaluated, including the {len(content.neighbours)} neighbours"
        in first
    )


def test_a_value_that_cannot_run_is_no_end_of_a_study(tmp_path: Path) -> None:
    """More GPUs than the cluster has are infeasible points with a reason, beside values that run; a typo is refused."""
    vary = {"gpus": {"path": "jobs.0.gpus", "choices": [64, 112, 4096]}}
    assert first_look(study_of(tmp_path, vary=vary)) == []
    all_of_them = {"gpus": {"path": "jobs.0.gpus", "choices": [4096, 8192]}}
    assert first_look(study_of(tmp_path, vary=all_of_them)) != []
    typo = {"recovery": {"path": "recovery.use", "choices": ["hot-spare", "hot-spar"]}}
    (line,) = first_look(study_of(tmp_path, vary=typo))
    assert "hot-spar" in line


def test_documents_keep_the_second_interval(tmp_path: Path) -> None:
    """The band of a modelled step is in JSON as `band90`."""
    jobs = [{"name": "train", "gpus": 112, **MODELLED}]
    path = tmp_path / "s.yaml"
    path.write_text(sim.dump({**report_sample.SMALL, "jobs": jobs}))
    result = report_sample.call("run", str(path), "-n", "2", "--json", "-q")
    low, high = json.loads(result.stdout)["metrics"]["tokens_per_day"]["band90"]
    assert low < high

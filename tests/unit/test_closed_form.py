"""The closed form of a scenario: which one applies, what it assumes, what it says of causes and of other sizes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from analysis.explain import describe as typed_describe
from analysis.page.chapters.cluster import format_explanation as typed_format_explanation
from analysis.page.chapters.run import compared_text as typed_compared_text
from analysis.page.chapters.run import extrapolated_texts as typed_extrapolated_texts
from analysis.page.chapters.run import format_run as typed_format_run
from analysis.results.explained import ExplainDocument
from analysis.results.models import (
    ClosedForm,
    RunDocument,
)
from analysis.results.run import describe_closed_form as typed_describe_closed_form
from analysis.results.run import document as typed_document
from analysis.runs import replicate
from sim.closed_form.limits import SUPERLINEAR
from sim.closed_form.renewal import Unknown
from sim.formulas.arrays import Expansion
from sim.policies.detection.noticing import Noticing, Observer
from sim.policies.recovery.base import Span
from sim.policies.recovery.phases import longest
from sim.scenario.laws import Exponential, Fixed, Lognormal, Uniform
from tests import small
from tests.cases import cases
from tests.intervals import Z
from tests.oracle.theory.nodes import starved_shares
from tests.typed import as_plain, of_plain

describe = as_plain(typed_describe)
describe_closed_form = as_plain(typed_describe_closed_form)
document = as_plain(typed_document)
format_explanation = of_plain(typed_format_explanation, ExplainDocument)
compared_text = of_plain(typed_compared_text, ClosedForm)
extrapolated_texts = of_plain(typed_extrapolated_texts, ClosedForm)
format_run = of_plain(typed_format_run, RunDocument)

RIGID = (
    "byterobust-warm-standby",
    "gemini-in-memory",
    "k8s-jobset",
    "nvrx-in-job",
    "nvrx-in-process",
    "slurm-requeue",
)


def of_preset(name: str, *changes: str) -> sim.Prepared:
    """Return the scenario of the comparison with a preset."""
    return sim.examine(sim.load(sim.find("recovery-16k"), [f"recovery.use={name}", *changes]))


# -------------------------------------------------------------------------------------------------- which form


@pytest.mark.parametrize("name", RIGID)
def test_every_preset_that_restarts_has_a_form(name: str) -> None:
    """Presets whose rung or phases depend on the fault have one, and the waste of it by cause is 1 - ETTR, exactly."""
    found = sim.closed_form(of_preset(name))
    assert found.form.startswith("renewal, classes of failures")
    assert found.ettr is not None
    assert sum(found.shares.values()) == pytest.approx(1.0, abs=1e-12)
    assert found.waste is not None
    exact = found.waste["exact"]
    assert sum(value for row in exact.values() for value in row.values()) == pytest.approx(1 - found.ettr, abs=1e-12)
    for bucket in ("lost_work", "detection", "restart", "checkpoint_stall"):
        assert sum(row.get(bucket, 0.0) for row in exact.values()) == pytest.approx(found.shares[bucket], abs=1e-12)


def test_forms_are_named() -> None:
    """One class and one store, several of either, replicas that leave, and none at all with its reason."""
    assert sim.closed_form(small.prepare()).form == "renewal"
    more = [*small.SMALL["failures"], {"use": "job", "name": "bug", "rate": "1 per job-d", "detection": "9 s"}]
    assert sim.closed_form(small.prepare(failures=more)).form == "renewal, classes of failures"
    host = {"store": "host", "interval": "1 min", "write": "1 s", "restore": "1 s"}
    tiers = [*small.SMALL["checkpoint"]["tiers"], host]
    assert sim.closed_form(small.prepare(checkpoint={"tiers": tiers})).form == "renewal, several stores"
    elastic = sim.closed_form(of_preset("torchft-hsdp"))
    assert (elastic.form, elastic.waste) == ("elastic replicas", None)
    none = sim.closed_form(of_preset("ntp"))
    assert (none.ettr, none.form, none.waste) == (None, "", None)
    assert none.reasons == (
        "no closed form for recovery 'ntp': the pace depends on how many GPUs are missing, and where",
    )


def test_fixed_times_of_one_class_are_the_known_formula() -> None:
    """With one class and fixed times the shares are those of `starved_shares`; twice the causes change nothing."""
    rate = "100 per 1000 node-day"
    causes = [{"use": "component", "name": name, "part": "node", "rate": rate} for name in ("one", "other")]
    prepared = small.prepare(failures=causes)
    wanted = starved_shares(1200.0, 30.0, 5 * 86400.0, 4 * 3600.0, 14, 2, restart=180.0 + 60.0, downtime=120.0)
    for case in (prepared, small.prepare()):
        found = sim.closed_form(case).shares
        # Who waits has fewer nodes that fail and have to be detected: an error of that part of the detection.
        assert found == pytest.approx(wanted, abs=wanted["starved"] * wanted["detection"] * 2 / 14)
    waste = sim.closed_form(prepared).waste
    assert waste is not None
    assert waste["exact"]["one"] == pytest.approx(waste["exact"]["other"], rel=1e-12)


def test_what_no_failure_needs_is_told() -> None:
    """Without failures there is a form all the same: saves are all that costs."""
    found = sim.closed_form(small.prepare(failures=[]))
    assert found.ettr == pytest.approx(1200 / 1230, rel=1e-12)


# ---------------------------------------------------------------------------------------------- which copies


@cases(
    ("fault", "damage", "store"),
    [("process", None, "host"), ("host", "reboot", "peer-host"), ("switch", None, "host")],
)
def test_the_copy_is_the_newest_that_survives(fault: str, damage: str | None, store: str) -> None:
    """Processes that end leave memory as it is, a node that starts anew only its peer's: what is lost tells which."""
    tiers = [
        {"store": "remote", "interval": "2 h", "mode": "async", "write": "1 s", "restore": "60 s"},
        {"store": "peer-host", "interval": "10 min", "write": "1 s", "restore": "10 s"},
        {"store": "host", "interval": "1 min", "write": "1 s", "restore": "1 s"},
    ]
    cause: dict[str, Any] = {"use": "component", "name": "node", "part": "node", "rate": "10 per 1000 node-day"}
    cause |= {"fault": fault, "repair": "0 s"} | ({"damage": damage} if damage else {})
    prepared = small.prepare(failures=[cause], checkpoint={"tiers": tiers}, jobs=[{"name": "train", "gpus": 112}])
    found = sim.closed_form(prepared)
    interval = {"host": 60.0, "peer-host": 600.0, "remote": 7200.0}[store]
    rate = 1 / prepared.jobs[0].mtti
    assert found.waste is not None
    assert found.waste["first"]["node"]["lost_work"] == pytest.approx(rate * (interval / 2 + 1.0), rel=1e-9)
    loads = {"host": 1.0, "peer-host": 10.0, "remote": 60.0}
    assert found.waste["first"]["node"]["restart"] == pytest.approx(rate * (180.0 + loads[store]), rel=1e-9)


# ------------------------------------------------------------------------------------------- laws of times


@cases("rate", [1e-5, 1e-3, 1e-2])
def test_survival_is_the_laplace_transform(rate: float) -> None:
    """Of fixed, uniform and exponential times it is known in closed form; of the slowest of n uniform ones too."""
    spans = {
        Span(Fixed.from_seconds(value=120.0), 2.0): math.exp(-240 * rate),
        Span(Uniform.from_seconds(low=0.0, high=300.0)): -math.expm1(-300 * rate) / (300 * rate),
        Span(Exponential.from_seconds(mean=100.0), 3.0): 1 / (1 + 300 * rate),
    }
    for span, wanted in spans.items():
        assert span.survival(rate) == pytest.approx(wanted, rel=1e-7)
    slowest = Span(Uniform.from_seconds(low=0.0, high=1.0), 100.0, 5)
    # E exp(-s M) of the largest of five on (0, 100): by series of its moments 5 / (5 + k) 100^k.
    series = sum((-rate * 100) ** k / math.factorial(k) * 5 / (5 + k) for k in range(40))
    assert slowest.survival(rate) == pytest.approx(series, rel=1e-7)


def test_survival_expands_by_its_moments() -> None:
    """To the second order it is 1 - rate E X + rate^2 E X^2 / 2, with the moments of a log-normal law."""
    span = Span(Lognormal.model_validate({"median": "100 s", "sigma": 0.5}), 2.0)
    found = span.survival(Expansion(0.0, 1e-4))
    assert isinstance(found, Expansion)
    mean, square = 200 * math.exp(0.125), 200**2 * math.exp(0.5)
    assert found.first == pytest.approx(-1e-4 * mean, rel=1e-6)
    assert found.second == pytest.approx(1e-8 * square / 2, rel=1e-4)
    assert span.mean == pytest.approx(2 * longest(span.law, 1), rel=1e-12)


# ----------------------------------------------------------------------------------------------- detection


def test_whoever_is_found_first_ends_the_wait() -> None:
    """600 s and 2 s, half each, at a rate of 1 / 1000 s: the long wait is min(600, arrival of a short one + 2)."""
    laws = [Fixed.from_seconds(value=value) for value in (600.0, 2.0)]
    unknown = Unknown([Noticing.by(law) for law in laws], [0.5, 0.5])
    rate = 1e-3
    long, short = unknown.means(rate)
    assert short == pytest.approx(2.0, rel=1e-9)
    # P(still unknown at t) is exp(-rate (t - 2) / 2) from 2 s to 600 s.
    assert long == pytest.approx(2 - math.expm1(-rate * 598 / 2) * 2 / rate, rel=1e-3)
    alone = Unknown([Noticing.by(laws[0])], [1.0]).means(rate)
    assert alone == pytest.approx([600.0], rel=1e-12), "one that is as late as the first changes nothing"
    expansion = unknown.means(Expansion(0.0, rate))[0]
    assert isinstance(expansion, Expansion)
    assert expansion.first == pytest.approx(-rate * 598**2 / 4, rel=1e-3)


def test_the_wait_by_trial() -> None:
    """Random observers, one that misses, a human: 40,000 waits drawn one by one have the mean, within Z errors."""
    noticings = [
        Noticing(
            (Observer("a", 0.7, Uniform.from_seconds(low=0.0, high=500.0)),),
            Lognormal.model_validate({"median": "20 min", "sigma": 1.0}),
        ),
        Noticing((Observer("b", 1.0, Exponential.from_seconds(mean=200.0)),)),
    ]
    rate, shares = 1 / 400.0, [0.6, 0.4]
    draws = np.random.default_rng(11)

    def time(cause: int) -> float:
        return noticings[cause].draw(lambda _: float(draws.random()))

    waits = []
    for _ in range(40_000):
        ends, at = time(0), draws.exponential(1 / rate)
        while at < ends:
            ends = min(ends, at + time(int(draws.random() < shares[1])))
            at += draws.exponential(1 / rate)
        waits.append(ends)
    mean, error = np.mean(waits), np.std(waits) / math.sqrt(len(waits))
    found = Unknown(noticings, shares).means(rate)[0]
    assert isinstance(found, float)
    assert abs(mean - found) <= Z * error + 1e-3 * found
    assert abs(mean - noticings[0].mean_value) > 10 * error, "without the others it would be longer"


# ------------------------------------------------------------------------------------------- other sizes


def test_rates_of_another_size_are_marked() -> None:
    """Llama 3's failures were counted on 16,384 GPUs: a job of 8,192 is outside, one of 16,384 is not."""
    assert sim.closed_form(of_preset("slurm-requeue")).extrapolated == ()
    (row,) = sim.closed_form(of_preset("slurm-requeue", "jobs.0.gpus=8192", "jobs.0.parallelism.data=64")).extrapolated
    assert (row.bundle, row.counted, row.gpus, row.superlinear) == ("llama3-table5", (16384, 16384), 8192, None)
    assert sim.closed_form(small.prepare()).extrapolated == (), "who states a rate knows its size"
    hypothetical = small.prepare(failures=[{"use": "airesim-defaults"}], detection={"time": "0 s"})
    assert sim.closed_form(hypothetical).extrapolated == ()


def test_superlinear_growth_by_hand() -> None:
    """Twice the GPUs of the count, rate x 2^0.9 of nodes: the closed form of that rate; rates of jobs do not grow."""
    nodes = {"name": "two", "nodes": 1024, "gpus_per_node": 8, "fabric": {"radix": 1024}}
    case = {
        "cluster": nodes,
        "jobs": [{"name": "train", "gpus": 8192}],
        "failures": [{"use": "meta-rsc-1"}],
        "spares": {"hot": 0},
        "horizon": "1000 d",
    }
    found = sim.closed_form(small.prepare(**case))
    (row,) = found.extrapolated
    assert (row.counted, row.linear) == ((129, 4096), found.ettr)
    faster = [{"use": "meta-rsc-1", "scale": 2.0 ** (SUPERLINEAR - 1)}]
    wanted = sim.closed_form(small.prepare(**case | {"failures": faster})).ettr
    assert row.superlinear == pytest.approx(wanted, rel=1e-9)
    text = " ".join(extrapolated_texts(describe_closed_form(small.prepare(**case))))
    assert "meta-rsc-1 was counted on jobs of 129 to 4,096 GPUs, 'train' has 8,192" in text
    assert "with the power 1.9" in text
    llama = sim.closed_form(
        small.prepare(**case | {"failures": [{"use": "llama3-table5"}], "jobs": [{"name": "train", "gpus": 8192}]})
    )
    assert [row.superlinear for row in llama.extrapolated] == [None]


def test_the_exponent_is_that_of_the_source() -> None:
    """1 + ln(50 / 18) / ln(98 / 32), to a tenth: 98K GPUs fail every 18 min where linear scaling says 50."""
    assert round(1 + math.log(50 / 18) / math.log(98 / 32), 1) == SUPERLINEAR


# ------------------------------------------------------------------------------------------ where it does not apply

OFTEN = {"name": "evaluation", "every": "1 h", "time": "5 min"}
STUDY = """
name: evaluations
question: How long may an evaluation take?
scenario: small.yaml
vary: {jobs.0.periodic.0.time: {choices: [5 s, 5 min]}}
replications: 10
optimize: {maximize: ettr}
"""


def test_a_run_and_an_explanation_have_the_reason_and_no_number() -> None:
    """Evaluations of five minutes an hour: what a reader sees is that, and nothing that looks like an answer."""
    ensemble = replicate(small.prepare(jobs=[small.SMALL["jobs"][0] | {"periodic": [OFTEN]}]), 2, processes=1)
    content = document(ensemble, command="run")
    form = content["closed_form"]
    assert (form["applies"], form["ettr"], form["time_shares"], form["form"]) == (False, None, {}, None)
    (reason,) = form["reasons"]
    assert reason.startswith("periodic work takes 7")
    assert f"  does not apply: {reason}" in format_run(content, ensemble.prepared, width=200).splitlines()
    told = format_explanation(describe(ensemble.prepared))
    assert f"does not apply  {reason}" in told
    assert "assumes" not in told
    fine = document(replicate(small.prepare(), 2, processes=1), command="run")["closed_form"]
    assert (fine["applies"], fine["reasons"]) == (True, [])


def test_a_study_has_it_by_cell_and_the_formula_chooses_among_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two cells has a number; the other one the reason, and the search does not take it for worse or better."""
    monkeypatch.chdir(tmp_path)
    jobs = [small.SMALL["jobs"][0] | {"periodic": [OFTEN]}]
    Path("small.yaml").write_text(sim.dump(small.SMALL | {"jobs": jobs}), encoding="utf-8")
    Path("study.yaml").write_text(STUDY, encoding="utf-8")
    rest = ("--json", "--executor", "serial", "--out", "out")
    content = json.loads(small.call("sweep", "study.yaml", *rest).stdout)
    few, many = (cell["closed_form"] for cell in content["cells"])
    assert (few["applies"], few["reasons"], many["applies"], many["ettr"]) == (True, [], False, None)
    assert few["ettr"] is not None
    assert f"in 1 of 2 cells the closed form does not apply: {many['reasons'][0]}" in content["notes"]
    content = json.loads(small.call("optimize", "study.yaml", *rest[:3]).stdout)
    assert content["closed_form"]["values"] == {"jobs.0.periodic.0.time": "5 s"}
    assert content["closed_form_left_out"] == {"combinations": 1, "reason": many["reasons"][0]}


# --------------------------------------------------------------------------------------- beside a simulation


def test_beside_a_simulation() -> None:
    """The difference is inside the interval or outside of the simulated mean, and the words have both numbers."""
    ensemble = replicate(small.prepare(), 12)
    found = describe_closed_form(ensemble.prepared, ensemble)
    seen = found["simulated"]
    ettrs = np.array([row["ettr"].amount / row["ettr"].base for row in ensemble.rows])
    assert seen["replications"] == 12
    assert seen["ettr"] == pytest.approx(ettrs.mean(), rel=1e-12)
    error = ettrs.std(ddof=1) / math.sqrt(12)
    assert seen["standard_error"] == pytest.approx(error, rel=1e-9)
    assert seen["standard_errors_above"] == pytest.approx((ettrs.mean() - found["ettr"]) / error, rel=1e-9)
    text = compared_text(found)
    assert f"simulated {100 * seen['ettr']:.2f} %" in text
    assert f"closed form {100 * found['ettr']:.2f} %" in text
    single = describe_closed_form(ensemble.prepared, replicate(ensemble.prepared, 1))["simulated"]
    assert (single["ettr_ci95"], single["standard_error"], single["standard_errors_above"]) == (None, None, None)
    assert describe_closed_form(ensemble.prepared)["simulated"] is None
    assert compared_text(describe_closed_form(ensemble.prepared)) == ""


def test_jobs_weigh_by_their_gpus() -> None:
    """Of two jobs the shares and the waste are the means of each alone, weighted by GPUs."""
    jobs = [{"name": "large", "gpus": 64, "step_time": "10 s"}, {"name": "little", "gpus": 32, "step_time": "10 s"}]
    both = small.prepare(jobs=jobs)
    alone = [sim.closed_form(replace(both, jobs=(job,))) for job in both.jobs]
    found = sim.closed_form(both)
    for name, value in found.shares.items():
        wanted = (64 * alone[0].shares[name] + 32 * alone[1].shares[name]) / 96
        assert value == pytest.approx(wanted, rel=1e-12)
    assert found.waste is not None
    assert found.waste["exact"]["node"]["lost_work"] == pytest.approx(found.shares["lost_work"], rel=1e-12)

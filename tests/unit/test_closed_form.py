"""The closed form of a scenario: which one applies, what it assumes, what it says of causes and of other sizes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ettrick import sim
from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.page.chapters.formula import extrapolated_texts as typed_extrapolated_texts
from ettrick.analysis.results.models import ClosedFormSummary
from ettrick.sim.closed_form.limits import SUPERLINEAR
from ettrick.sim.closed_form.renewal import Unknown
from ettrick.sim.formulas.arrays import Expansion
from ettrick.sim.policies.detection.race import DetectionRace, Detector
from ettrick.sim.policies.recovery.base import RestartPhase
from ettrick.sim.policies.recovery.phases import longest
from ettrick.sim.scenario.laws import Exponential, Fixed, Lognormal, Uniform
from tests import report_sample
from tests.cases import cases
from tests.documents import describe, describe_closed_form, document, format_explanation, format_run
from tests.harness import bucket_shares
from tests.intervals import Z
from tests.oracle.theory.nodes import starved_shares
from tests.pace import SEED, one_in
from tests.typed import of_plain

extrapolated_texts = of_plain(typed_extrapolated_texts, ClosedFormSummary)

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


@pytest.mark.parametrize("name", RIGID)
def test_every_preset_that_restarts_has_a_form(name: str) -> None:
    """Presets whose rung or phases depend on the fault have one, and the waste of it by cause is 1 - ETTR, exactly."""
    found = sim.closed_form(of_preset(name))
    assert found.form.startswith("renewal, classes of failures")
    assert sum(found.shares.values()) == pytest.approx(1.0, abs=1e-12)
    exact = found.waste["exact"]
    assert sum(value for row in exact.values() for value in row.values()) == pytest.approx(1 - found.ettr, abs=1e-12)
    for bucket in ("lost_work", "detection", "restart", "checkpoint_stall"):
        assert sum(row.get(bucket, 0.0) for row in exact.values()) == pytest.approx(found.shares[bucket], abs=1e-12)


def test_forms_are_named() -> None:
    """One class and one store, several of either, replicas that leave, and none at all with its reason."""
    assert sim.closed_form(report_sample.prepare()).form == "renewal"
    more = [*report_sample.SMALL["failures"], {"use": "job", "name": "bug", "rate": "1 per job-d", "detection": "9 s"}]
    assert sim.closed_form(report_sample.prepare(failures=more)).form == "renewal, classes of failures"
    host = {"store": "host", "interval": "1 min", "write": "1 s", "restore": "1 s"}
    tiers = [*report_sample.SMALL["checkpoint"]["tiers"], host]
    assert sim.closed_form(report_sample.prepare(checkpoint={"tiers": tiers})).form == "renewal, several stores"
    elastic = sim.closed_form(of_preset("torchft-hsdp"))
    assert (elastic.form, elastic.waste) == ("elastic replicas", None)
    narrow = sim.closed_form(of_preset("ntp"))
    assert (narrow.form, narrow.waste) == ("renewal, classes of failures, narrow domains", None)
    assert narrow.shares["degraded"] > 0
    widths = ("recovery.tensor=4", "jobs.0.parallelism.tensor=4", "jobs.0.parallelism.data=256")
    none = sim.closed_form(of_preset("ntp", *widths))
    assert (none.ettr, none.form, none.waste) == (None, "", None)
    (reason,) = none.reasons
    assert reason.startswith("no closed form for recovery 'ntp': the pace is known of domains that are nodes")


def test_fixed_times_of_one_class_are_the_known_formula() -> None:
    """With one class and fixed times the shares are those of `starved_shares`; twice the causes change nothing."""
    rate = "100 per 1000 node-day"
    causes = [{"use": "component", "name": name, "part": "node", "rate": rate} for name in ("one", "other")]
    prepared = report_sample.prepare(failures=causes)
    down = 5 * 86400.0 * math.expm1(4 / 120)  # outages of a node that is down join
    wanted = starved_shares(1200.0, 30.0, 5 * 86400.0, down, 14, 2, restart=180.0 + 60.0, downtime=120.0)
    for case in (prepared, report_sample.prepare()):
        found = sim.closed_form(case).shares
        # Who waits has fewer nodes that fail and have to be detected: an error of that part of the detection.
        assert found == pytest.approx(wanted, abs=wanted["starved"] * wanted["detection"] * 2 / 14)
    waste = sim.closed_form(prepared).waste
    assert waste["exact"]["one"] == pytest.approx(waste["exact"]["other"], rel=1e-12)


@cases(
    ("fault", "damage", "store"),
    [("process", None, "host"), ("host", "reboot", "peer-host"), ("switch", None, "host")],
)
def test_the_copy_is_the_newest_that_survives(fault: str, damage: str | None, store: str) -> None:
    """Processes that end leave memory as it is, a node that starts again only its peer's: what is lost tells which."""
    tiers = [
        {"store": "remote", "interval": "2 h", "mode": "async", "write": "1 s", "restore": "60 s"},
        {"store": "peer-host", "interval": "10 min", "write": "1 s", "restore": "10 s"},
        {"store": "host", "interval": "1 min", "write": "1 s", "restore": "1 s"},
    ]
    cause: dict[str, Any] = {"use": "component", "name": "node", "part": "node", "rate": "10 per 1000 node-day"}
    cause |= {"fault": fault, "repair": "0 s"} | ({"damage": damage} if damage else {})
    prepared = report_sample.prepare(
        failures=[cause], checkpoint={"tiers": tiers}, jobs=[{"name": "train", "gpus": 112}]
    )
    found = sim.closed_form(prepared)
    interval = {"host": 60.0, "peer-host": 600.0, "remote": 7200.0}[store]
    rate = 1 / prepared.jobs[0].mtti
    assert found.waste["first"]["node"]["lost_work"] == pytest.approx(rate * (interval / 2 + 1.0), rel=1e-9)
    loads = {"host": 1.0, "peer-host": 10.0, "remote": 60.0}
    assert found.waste["first"]["node"]["restart"] == pytest.approx(rate * (180.0 + loads[store]), rel=1e-9)


@cases("rate", [1e-5, 1e-3, 1e-2])
def test_survival_is_the_laplace_transform(rate: float) -> None:
    """Of fixed, uniform and exponential times it is known in closed form; of the slowest of n uniform ones too."""
    spans = {
        RestartPhase(Fixed.from_seconds(value=120.0), 2.0): math.exp(-240 * rate),
        RestartPhase(Uniform.from_seconds(low=0.0, high=300.0)): -math.expm1(-300 * rate) / (300 * rate),
        RestartPhase(Exponential.from_seconds(mean=100.0), 3.0): 1 / (1 + 300 * rate),
    }
    for span, wanted in spans.items():
        assert span.survival(rate) == pytest.approx(wanted, rel=1e-7)
    slowest = RestartPhase(Uniform.from_seconds(low=0.0, high=1.0), 100.0, 5)
    # E exp(-s M) of the largest of five on (0, 100): by series of its moments 5 / (5 + k) 100^k.
    series = sum((-rate * 100) ** k / math.factorial(k) * 5 / (5 + k) for k in range(40))
    assert slowest.survival(rate) == pytest.approx(series, rel=1e-7)


def test_survival_expands_by_its_moments() -> None:
    """To the second order it is 1 - rate E X + rate^2 E X^2 / 2, with the moments of a log-normal law."""
    span = RestartPhase(Lognormal.model_validate({"median": "100 s", "sigma": 0.5}), 2.0)
    found = span.survival(Expansion(0.0, 1e-4))
    assert isinstance(found, Expansion)
    mean, square = 200 * math.exp(0.125), 200**2 * math.exp(0.5)
    assert found.first == pytest.approx(-1e-4 * mean, rel=1e-6)
    assert found.second == pytest.approx(1e-8 * square / 2, rel=1e-4)
    assert span.mean == pytest.approx(2 * longest(span.law, 1), rel=1e-12)


def test_whoever_is_found_first_ends_the_wait() -> None:
    """600 s and 2 s, half each, at a rate of 1 / 1000 s: the long wait is min(600, arrival of a short one + 2)."""
    laws = [Fixed.from_seconds(value=value) for value in (600.0, 2.0)]
    unknown = Unknown([DetectionRace.by(law) for law in laws], [0.5, 0.5])
    rate = 1e-3
    long, short = unknown.means(rate)
    assert short == pytest.approx(2.0, rel=1e-9)
    # P(still unknown at t) is exp(-rate (t - 2) / 2) from 2 s to 600 s.
    assert long == pytest.approx(2 - math.expm1(-rate * 598 / 2) * 2 / rate, rel=1e-3)
    alone = Unknown([DetectionRace.by(laws[0])], [1.0]).means(rate)
    assert alone == pytest.approx([600.0], rel=1e-12), "one that is as late as the first changes nothing"
    expansion = unknown.means(Expansion(0.0, rate))[0]
    assert isinstance(expansion, Expansion)
    assert expansion.first == pytest.approx(-rate * 598**2 / 4, rel=1e-3)


def test_the_wait_by_trial() -> None:
    """Random observers, one that misses, a human: 40,000 waits drawn one by one have the mean, within Z errors."""
    races = [
        DetectionRace(
            (Detector("a", 0.7, Uniform.from_seconds(low=0.0, high=500.0)),),
            Lognormal.model_validate({"median": "20 min", "sigma": 1.0}),
        ),
        DetectionRace((Detector("b", 1.0, Exponential.from_seconds(mean=200.0)),)),
    ]
    rate, shares = 1 / 400.0, [0.6, 0.4]
    draws = np.random.default_rng(11)

    def time(cause: int) -> float:
        return races[cause].draw(lambda _: float(draws.random()))

    waits = []
    for _ in range(40_000):
        ends, at = time(0), draws.exponential(1 / rate)
        while at < ends:
            ends = min(ends, at + time(int(draws.random() < shares[1])))
            at += draws.exponential(1 / rate)
        waits.append(ends)
    mean, error = np.mean(waits), np.std(waits) / math.sqrt(len(waits))
    found = Unknown(races, shares).means(rate)[0]
    assert isinstance(found, float)
    assert abs(mean - found) <= Z * error + 1e-3 * found
    assert abs(mean - races[0].mean_value) > 10 * error, "without the others it would be longer"


def test_rates_of_another_size_are_marked() -> None:
    """Llama 3's failures were counted on 16,384 GPUs: a job of 8,192 is outside, one of 16,384 is not."""
    assert sim.closed_form(of_preset("slurm-requeue")).extrapolated == ()
    (row,) = sim.closed_form(of_preset("slurm-requeue", "jobs.0.gpus=8192", "jobs.0.parallelism.data=64")).extrapolated
    assert (row.bundle, row.counted_on_gpus, row.gpus, row.ettr_superlinear) == (
        "llama3-table5",
        (16384, 16384),
        8192,
        None,
    )
    assert sim.closed_form(report_sample.prepare()).extrapolated == (), "who states a rate knows its size"
    hypothetical = report_sample.prepare(failures=[{"use": "airesim-defaults"}], detection={"time": "0 s"})
    assert sim.closed_form(hypothetical).extrapolated == ()


def test_what_is_said_of_another_size_is_true() -> None:
    """With all causes in proportion to the GPUs, 112 of 16,384 fail as if each cause of Llama 3 were scaled by hand."""
    case = {"failures": [{"use": "llama3-table5"}], "horizon": "1000 d"}
    (row,) = sim.closed_form(report_sample.prepare(**case)).extrapolated
    assert row.kept == ("software_bug", "nccl_watchdog_timeout", "dependency")
    by_hand = [{"use": "llama3-table5", "scale": dict.fromkeys(row.kept, row.gpus / 16_384)}]
    even = sim.closed_form(report_sample.prepare(**case | {"failures": by_hand}))
    assert row.ettr_proportional == pytest.approx(even.ettr)
    assert row.ettr == sim.closed_form(report_sample.prepare(**case)).ettr < (row.ettr_proportional or 0) - 0.01
    text = " ".join(extrapolated_texts(describe_closed_form(report_sample.prepare(**case))))
    assert "with software_bug, nccl_watchdog_timeout, dependency as often as in that job" in text
    assert f"{100 * (row.ettr_proportional or 0):.2f} % with all in proportion to the GPUs" in text


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
    found = sim.closed_form(report_sample.prepare(**case))
    (row,) = found.extrapolated
    assert (row.counted_on_gpus, row.ettr) == ((129, 4096), found.ettr)
    faster = [{"use": "meta-rsc-1", "scale": 2.0 ** (SUPERLINEAR - 1)}]
    wanted = sim.closed_form(report_sample.prepare(**case | {"failures": faster})).ettr
    assert row.ettr_superlinear == pytest.approx(wanted, rel=1e-9)
    text = " ".join(extrapolated_texts(describe_closed_form(report_sample.prepare(**case))))
    assert "meta-rsc-1 was counted on jobs of 129 to 4,096 GPUs, 'train' has 8,192" in text
    assert "with the power 1.9" in text
    llama = sim.closed_form(
        report_sample.prepare(
            **case | {"failures": [{"use": "llama3-table5"}], "jobs": [{"name": "train", "gpus": 8192}]}
        )
    )
    assert [row.ettr_superlinear for row in llama.extrapolated] == [None]


def test_the_exponent_is_that_of_the_source() -> None:
    """1 + ln(50 / 18) / ln(98 / 32), to a tenth: 98K GPUs fail every 18 min where linear scaling says 50."""
    assert round(1 + math.log(50 / 18) / math.log(98 / 32), 1) == SUPERLINEAR


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
    ensemble = replicate(
        report_sample.prepare(jobs=[report_sample.SMALL["jobs"][0] | {"periodic": [OFTEN]}]), 2, processes=1
    )
    content = document(ensemble, command="run")
    form = content["closed_form"]
    assert (form["applies"], form["ettr"], form["time_shares"], form["form"]) == (False, None, {}, None)
    (reason,) = form["reasons"]
    assert reason.startswith("periodic work takes 7")
    assert f"  {reason}" in format_run(content, ensemble.prepared, width=400).splitlines()
    worded = format_explanation(describe(ensemble.prepared), width=400)
    assert f"does not apply  {reason}" in worded
    assert "assumes" not in worded
    fine = document(replicate(report_sample.prepare(), 2, processes=1), command="run")["closed_form"]
    assert (fine["applies"], fine["reasons"]) == (True, [])


def test_a_study_has_it_by_cell_and_the_formula_chooses_among_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two cells has a number; the other one the reason, and the search does not take it for worse or better."""
    monkeypatch.chdir(tmp_path)
    jobs = [report_sample.SMALL["jobs"][0] | {"periodic": [OFTEN]}]
    Path("small.yaml").write_text(sim.dump(report_sample.SMALL | {"jobs": jobs}), encoding="utf-8")
    Path("study.yaml").write_text(STUDY, encoding="utf-8")
    rest = ("--json", "--executor", "serial", "--out", "out")
    content = json.loads(report_sample.call("sweep", "study.yaml", *rest).stdout)
    few, many = (cell["closed_form"] for cell in content["cells"])
    assert (few["applies"], few["reasons"], many["applies"], many["ettr"]) == (True, [], False, None)
    assert few["ettr"] is not None
    assert f"in 1 of 2 cells the closed form does not apply: {many['reasons'][0]}" in content["notes"]
    content = json.loads(report_sample.call("optimize", "study.yaml", *rest[:3]).stdout)
    assert content["closed_form"]["values"] == {"jobs.0.periodic.0.time": "5 s"}
    assert content["closed_form_left_out"] == {"combinations": 1, "reason": many["reasons"][0]}


def test_beside_a_simulation() -> None:
    """The difference is inside the interval or outside of the simulated mean, and the words have both numbers."""
    ensemble = replicate(report_sample.prepare(), 12)
    found = describe_closed_form(ensemble.prepared, ensemble)
    seen = found["simulated"]
    ettrs = np.array([row["ettr"].amount / row["ettr"].base for row in ensemble.rows])
    assert seen["replications"] == 12
    assert seen["ettr"] == pytest.approx(ettrs.mean(), rel=1e-12)
    error = ettrs.std(ddof=1) / math.sqrt(12)
    assert seen["standard_error"] == pytest.approx(error, rel=1e-9)
    assert seen["standard_errors_above"] == pytest.approx((ettrs.mean() - found["ettr"]) / error, rel=1e-9)
    single = describe_closed_form(ensemble.prepared, replicate(ensemble.prepared, 1))["simulated"]
    assert (single["ettr_ci95"], single["standard_error"], single["standard_errors_above"]) == (None, None, None)
    assert describe_closed_form(ensemble.prepared)["simulated"] is None


def test_jobs_weigh_by_their_gpus() -> None:
    """Of two jobs the shares and the waste are the means of each alone, weighted by GPUs."""
    jobs = [{"name": "large", "gpus": 64, "step_time": "10 s"}, {"name": "little", "gpus": 32, "step_time": "10 s"}]
    both = report_sample.prepare(jobs=jobs)
    alone = [sim.closed_form(replace(both, jobs=(job,))) for job in both.jobs]
    found = sim.closed_form(both)
    for name, value in found.shares.items():
        wanted = (64 * alone[0].shares[name] + 32 * alone[1].shares[name]) / 96
        assert value == pytest.approx(wanted, rel=1e-12)
    assert found.waste["exact"]["node"]["lost_work"] == pytest.approx(found.shares["lost_work"], rel=1e-12)


# ----------------------------------------
# What a closed form assumes: a scenario for each line, and one that breaks nothing but the long run.

LONG_RUN = "long run: the first start and the horizon's edge are left out"

SEVERAL_STORES = [
    "each store saves by itself, and a failure takes the shards of one node",
    "the store whose checkpoints are newest on average is read, though another may have a newer one",
]

CLIMBS = "no failed recovery attempt, no budget spent, no operator escalation"

AT_HAND = "a healthy node is always available"

STEPS_ON = "a job steps at its healthy pace until it stops, but"

RATE = "20 per 1000 node-day"

NODE: dict[str, Any] = {"use": "component", "name": "node", "part": "node", "rate": RATE, "repair": "0 s"}

BUG: dict[str, Any] = {"use": "job", "name": "bug", "rate": "1 per job-d"}

REMOTE = report_sample.SMALL["checkpoint"]["tiers"][0]

HOST = {"store": "host", "interval": "1 min", "write": "1 s", "restore": "1 s"}

JOB = report_sample.SMALL["jobs"][0]

DATA_PARALLEL = JOB | {"parallelism": {"data": 14, "tensor": 8}}


def ladder(*rungs: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a ladder of rungs that keep the hosts, unless they say something else."""
    named = [
        {"name": f"rung {number}", "keeps": "hosts", "launch": "3 min"} | rung for number, rung in enumerate(rungs)
    ]
    return {"recovery": {"use": "ladder", "rungs": named, **more}}


def shrinking(**changes: Any) -> dict[str, Any]:
    """Return a job whose replicas leave one by one."""
    rejoin = {"use": "shrink-rejoin", "reconfigure": "30 s", "initialize": "3 min", "rejoin": "10 s", "min_replicas": 6}
    return {"recovery": rejoin | changes, "jobs": [DATA_PARALLEL]}


CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "lives that age": (
        {"failures": [NODE | {"rate": None, "law": {"use": "weibull", "mean": "50 d", "shape": 2.0}}]},
        ["constant failure rates, but node ages"],
    ),
    "two that age": (
        {
            "failures": [
                NODE | {"name": name, "rate": None, "law": {"use": "weibull", "mean": "50 d", "shape": 2.0}}
                for name in ("one", "two")
            ]
        },
        ["constant failure rates, but one, two age"],
    ),
    "parts that fail once": (
        {"failures": [NODE | {"renews": "never"}]},
        ["constant failure rates, but a part that had node never has it again"],
    ),
    "weeks that differ": (
        {"failures": [NODE | {"tempo": {"calendar": {"period": "1 d", "factors": [0.5, 1.5]}}}]},
        ["identical nodes and steady rates, but those of node are not"],
    ),
    "nodes that differ": (
        {"failures": [NODE | {"frailty": {"shape": 1.0}}]},
        ["identical nodes and steady rates, but those of node are not"],
    ),
    "faults that stay": (
        {"failures": [NODE | {"relapse": {"after": "1 h", "probability": 0.2}}]},
        ["independent failures, but repairs leave faults behind (node)"],
    ),
    "racks": (
        {
            "cluster": {**report_sample.SMALL["cluster"], "rack": {"nodes": 4}},
            "failures": [NODE | {"part": "rack", "rate": "1 per 1000 rack-day"}],
        },
        ["failures of single nodes, but incidents take several"],
    ),
    "incidents": (
        {
            "cluster": {**report_sample.SMALL["cluster"], "rack": {"nodes": 4}},
            "failures": [
                {"use": "incident", "name": "power", "part": "rack", "rate": "1 per 1000 rack-day", "repair": "0 s"}
            ],
        },
        ["failures of single nodes, but incidents take several"],
    ),
    "a part that slows": (
        {"failures": [NODE | {"effect": {"use": "slow", "factor": 0.99}}]},
        [f"{STEPS_ON} node does not stop it"],
    ),
    "bugs": (
        {"failures": [{"use": "bug", "name": "bug", "rate": "0.05 per job-d", "fix": "1 h"}]},
        ["no bugs and no rollouts"],
    ),
    "failures that wait": (
        {"recovery": report_sample.SMALL["recovery"] | {"exposed": False}, "failures": [NODE | {"defer": True}]},
        ["nothing fails in phases that failures cannot hit, but node waits for their end"],
    ),
    "stores that cannot be read": (
        {"failures": [BUG | {"store_out": "5 min"}]},
        ["stores can be read at any time, but bug takes them away for a while"],
    ),
    "few spares": (
        {
            "failures": [NODE | {"repair": "4 h"}],
            "spares": {"hot": 0},
            "cluster": {**report_sample.SMALL["cluster"], "nodes": 14},
        },
        ["spares and repairs in their long run: 4.56 % of the time is starved of nodes"],
    ),
    "a queue": (
        {
            "failures": [NODE | {"repair": "4 h"}],
            "recovery": {"use": "full-restart", "initialize": "3 min"},
            "spares": {"hot": 1, "warm": {"nodes": 1, "delay": "1 h"}},
        },
        [AT_HAND],
    ),
    "a queue that waits for nodes": (
        {
            "failures": [NODE | {"repair": "4 h"}],
            "recovery": {"use": "full-restart", "initialize": "3 min"},
            "spares": {"hot": 0},
            "cluster": {**report_sample.SMALL["cluster"], "nodes": 14},
        },
        ["spares and repairs in their long run: 4.56 % of the time is starved of nodes"],
    ),
    "a budget": (ladder({"budget": 3}), [CLIMBS]),
    "a backoff": (ladder({"keeps": "nothing", "backoff": {"first": "1 min", "most": "1 h"}}), [CLIMBS]),
    "two rungs": (ladder({}, {}), [CLIMBS]),
    "restarts in vain": (ladder({}, no_progress=1), [CLIMBS]),
    "one rung": (ladder({}), []),
    "evictions": (
        ladder({}, evict={"faults": ["process"], "nodes": 2, "test": "1 h"}),
        ["healthy nodes stay in their job, but those that are evicted need others"],
    ),
    "two stores": ({"checkpoint": {"tiers": [HOST, REMOTE]}}, SEVERAL_STORES),
    "copies that cannot be read": (
        {"checkpoint": {"tiers": [REMOTE | {"corrupt": 0.1}]}},
        ["every checkpoint can be read"],
    ),
    "preemption": (
        {"failures": [{"use": "preemption", "name": "others", "rate": "1 per job-d", "away": "10 min"}]},
        ["the time that a preempted job is away is left out"],
    ),
    "a job that ends": ({"jobs": [JOB | {"work": {"time": "1 d"}}]}, ["the job never ends"]),
    "evaluations": (
        {"jobs": [JOB | {"periodic": [{"name": "evaluation", "every": "1 h", "time": "10 s"}]}]},
        ["no periodic work"],
    ),
    "a job that comes later": ({"jobs": [JOB | {"arrival": "1 h"}]}, ["no job waits for another"]),
    "two jobs": (
        {"jobs": [{"name": name, "gpus": 56, "step_time": "10 s"} for name in ("one", "two")]},
        ["no job waits for another"],
    ),
    "shrinking": (shrinking(), []),
    "shrinking at random": (
        shrinking(initialize={"use": "exponential", "mean": "3 min"}),
        ["stalls and absences are as long as their means"],
    ),
    "shrinking by whole units": (
        shrinking() | {"spares": {"hot": 2, "unit": "node"}},
        ["nodes are replaced one by one, but jobs use whole units"],
    ),
    "shrinking with two stores": (
        shrinking() | {"checkpoint": {"tiers": [HOST, REMOTE]}},
        ["the remote store is the only one"],
    ),
}


@cases("name", CASES)
def test_what_a_scenario_breaks_is_said(name: str) -> None:
    """Exactly the lines of what it breaks, besides the long run that every formula is about."""
    changes, wanted = CASES[name]
    failures = [
        {key: value for key, value in row.items() if value is not None} for row in changes.get("failures", [NODE])
    ]
    prepared = report_sample.prepare(**{**changes, "failures": failures})
    assert list(sim.closed_form(prepared).assumptions) == [LONG_RUN, *wanted]


FULL = {"cluster": {**report_sample.SMALL["cluster"], "nodes": 14}, "spares": {"hot": 0}}

RACKS = {**report_sample.SMALL["cluster"], "rack": {"nodes": 4}}

TIERS = {"use": "tiers", "tiers": [{"name": "reset", "time": "1 h", "escalates": 0.5}, {"name": "swap", "time": "1 d"}]}

LONG = {"horizon": "200 d"}

UNLIKE_JOBS = [JOB | {"name": name, "gpus": gpus} for name, gpus in (("small", 24), ("large", 88))]

SHARED = {"interval": "20 min", "mode": "blocking", "aggregate": "5 GB/s", "node_bandwidth": "1 GB/s", "shares": "all"}

BEYOND: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a repair that is as long as the horizon": (
        {"failures": [NODE | {"repair": "30 d"}], "horizon": "60 d"},
        {"horizon": "30000 d"},
        "repairs take 30 d on average, and the horizon is 60 d",
    ),
    "tiers of repair, and no spare": (
        FULL | LONG | {"failures": [NODE | {"repair": None}], "repair": TIERS},
        {"cluster": report_sample.SMALL["cluster"] | {"nodes": 24}},
        "a job needs 14 of 14 nodes, and more than the other 0 are in repair",
    ),
    "tiers of repair, and nodes that nobody gets": (
        LONG | {"cluster": report_sample.SMALL["cluster"] | {"nodes": 24}, "spares": {"hot": 0, "idle": "withhold"},
                "failures": [NODE | {"repair": None}], "repair": TIERS},
        {"spares": {"hot": 0, "idle": "serve"}},
        "a job needs 14 of 14 nodes, and more than the other 0 are in repair",
    ),
    "spares that the queue never takes": (
        LONG | {"recovery": {"use": "full-restart", "delay": "1 min", "initialize": "3 min"},
                "spares": {"cold": {"nodes": 2, "delay": "1 h"}}, "failures": [NODE | {"repair": "3 d"}]},
        {"spares": {"hot": 2}},
        "a job needs 14 of 14 nodes, and more than the other 0 are in repair",
    ),
    "idle nodes that only their repair brings into the pool": (
        {"cluster": report_sample.SMALL["cluster"] | {"nodes": 24}, "spares": {"hot": 1},
         "recovery": {"use": "hot-spare", "pools": ["spare"], "initialize": "3 min"},
         "failures": [NODE | {"repair": "2 d"}], "horizon": "20 d"},
        {"spares": {"hot": 10}},
        "takes nodes only from spare: 9 of the 10 nodes that the job does not use are idle",
    ),
    "whole units, and no spare": (
        LONG | {"cluster": RACKS, "spares": {"hot": 0, "unit": "node"}, "failures": [NODE | {"repair": "3 d"}],
                "jobs": [JOB | {"gpus": 128}]},
        {"failures": [NODE | {"repair": "10 min"}]},
        "a job needs 16 of 16 nodes, and more than the other 0 are in repair",
    ),
    "a rack that is out with any of its nodes": (
        LONG | {"cluster": RACKS, "spares": {"hot": 4, "unit": "rack"}, "failures": [NODE | {"repair": "3 d"}],
                "jobs": [JOB | {"gpus": 96}]},
        {"cluster": RACKS | {"nodes": 40}},
        "a job needs 3 of 4 units of 4 nodes, and more than the other 1 are in repair",
    ),
    "jobs that take turns": (
        {"jobs": [JOB | {"name": name, "work": {"time": "1 d"}} for name in ("one", "two")]},
        {"jobs": [JOB | {"name": name, "gpus": 48} for name in ("one", "two")]},
        "jobs wait for one another",
    ),
    "a rack more than there are spares": (
        {"cluster": RACKS, "failures": [NODE | {"part": "rack", "rate": "20 per 1000 rack-day", "repair": "1 d"}]},
        {"cluster": RACKS | {"nodes": 24}},
        "node takes several nodes at once: more than the other 2 that a job can spare are in repair",
    ),
    "a larger job that has no node to spare": (
        FULL | LONG | {"failures": [NODE | {"repair": "10 d"}], "jobs": UNLIKE_JOBS},
        {"failures": [NODE | {"repair": "1 d"}]},
        "a job needs 11 of 14 nodes, and more than the other 3 are in repair",
    ),
    "a rack more than a larger job has to spare": (
        {"cluster": RACKS | {"nodes": 14}, "spares": {"hot": 0}, "jobs": UNLIKE_JOBS,
         "failures": [NODE | {"part": "rack", "rate": "20 per 1000 rack-day", "repair": "1 d"}]},
        {"cluster": RACKS | {"nodes": 24}},
        "node takes several nodes at once: more than the other 3 that a job can spare are in repair",
    ),
    "a rack more than there are nodes that serve": (
        {"cluster": RACKS | {"nodes": 24}, "spares": {"hot": 2, "idle": "withhold"},
         "failures": [NODE | {"part": "rack", "rate": "20 per 1000 rack-day", "repair": "1 d"}]},
        {"spares": {"hot": 10}},
        "node takes several nodes at once: more than the other 2 that a job can spare are in repair",
    ),
    "a node that is slow for long": (
        {"failures": [NODE | {"effect": {"use": "slow", "factor": 0.5}, "detection": "6 h"}]},
        {"failures": [NODE | {"effect": {"use": "slow", "factor": 0.5}, "detection": "1 min"}]},
        "what node costs until it is noticed takes",
    ),
    "results that are wrong for long": (
        {"failures": [NODE | {"effect": "corrupt", "detection": "2 h"}]},
        {"failures": [NODE | {"effect": "corrupt", "detection": "1 min"}]},
        "what node costs until it is noticed takes",
    ),
    "stores that cannot be read for long": (
        {"failures": [BUG | {"store_out": "1 h"}]},
        {"failures": [BUG | {"store_out": "10 min"}]},
        "waiting for stores that bug took away takes 4 % of the time",
    ),
    "preemption": (
        {"failures": [{"use": "preemption", "name": "others", "rate": "1 per job-d", "away": "6 h"}]},
        {"failures": [{"use": "preemption", "name": "others", "rate": "1 per job-d", "away": "10 min"}]},
        "being away after others takes 20 % of the time",
    ),
    "evaluations": (
        {"jobs": [JOB | {"periodic": [{"name": "evaluation", "every": "1 h", "time": "3 min"}]}]},
        {"jobs": [JOB | {"periodic": [{"name": "evaluation", "every": "1 h", "time": "20 s"}]}]},
        "periodic work takes",
    ),
    "copies that can hardly be read": (
        {"checkpoint": {"tiers": [REMOTE | {"corrupt": 0.5}]}, "failures": [BUG | {"rate": "2 per job-d"}]},
        {"checkpoint": {"tiers": [REMOTE | {"corrupt": 0.01}]}},
        "going back behind checkpoints that cannot be read takes",
    ),
    "jobs that save together until failures set them apart": (
        {"jobs": [JOB | {"name": name, "gpus": 56} for name in ("one", "two")], "checkpoint": {"size": "150 GB",
         "tiers": [SHARED]}, "failures": [NODE | {"rate": "1 per 1000 node-day"}]},
        {"failures": [NODE | {"rate": "200 per 1000 node-day"}], "horizon": "200 d"},
        "saving while others save takes",
    ),
    "a start that takes most of the job": (
        {"recovery": report_sample.SMALL["recovery"] | {"initialize": "3 h"}},
        {"horizon": "60 d"},
        "the first start takes",
    ),
    "a budget that is not made new": (
        ladder({"budget": 1}, {"launch": "3 h"}, resets_on_progress=False) | LONG | {"failures": [BUG]},
        ladder({"budget": 1}, {"launch": "3 h"}),
        "recovery after the budget of the first rung is spent takes",
    ),
    "a human after every failed restart": (
        ladder({}, no_progress=1, exhausted="1 d") | {"failures": [BUG | {"rate": "20 per job-d"}]},
        {"failures": [BUG | {"rate": "1 per job-d"}]},
        "waiting for the operator after restarts without progress takes",
    ),
}  # fmt: skip


def found_in(changes: dict[str, Any]) -> sim.ClosedForm:
    """Return the closed form of the small scenario with keys replaced."""
    return sim.closed_form(report_sample.prepare(**without_nothing(changes)))


def without_nothing(changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes with sources as they can be read."""
    rows = changes.get("failures", [NODE])
    return {**changes, "failures": [{key: value for key, value in row.items() if value is not None} for row in rows]}


@cases("name", BEYOND)
def test_where_it_does_not_apply(name: str) -> None:
    """One thing that the form can estimate and leaves out: no number but the reason; with little of it, a number."""
    changes, mended, reason = BEYOND[name]
    found = found_in(changes)
    assert (found.ettr, found.shares, found.assumptions, found.waste) == (None, {}, (), None)
    assert sim.job_shares(report_sample.prepare(**without_nothing(changes))) is None
    assert len(found.reasons) == 1
    assert reason in found.reasons[0]
    found = found_in(changes | mended)
    assert found.reasons == ()
    assert found.ettr is not None


# ----------------------------------------
# What a closed form says of time without enough nodes: its share, to which causes it goes, and a bound of it.


FEW = {
    "cluster": {**report_sample.SMALL["cluster"], "nodes": 14},
    "spares": {"hot": 0},
    "detection": {"time": "0 s"},
    "horizon": "200 d",
}

DOWN = 1 - math.exp(-4 / 120)

"""A node is down that fails every 120 h and is repaired in 4 h, if its outages join."""

TAIL = stats.binom.sf(0, 14, DOWN)

"""More than none of 14 nodes are down."""


def cause(name: str, rate: float, repair: str, **more: Any) -> dict[str, Any]:
    """Return a cause that takes nodes so often in 1000 node-days."""
    failing = {"use": "component", "name": name, "part": "node", "rate": f"{rate!r} per 1000 node-day"}
    return failing | {"repair": repair} | more


def test_a_starved_job_has_the_shares_of_the_others_in_the_rest_of_its_time() -> None:
    """Without spares S is the binomial tail; every other share is 1 - S of what plenty of spares leave."""
    starved = sim.closed_form(report_sample.prepare(**FEW)).shares
    plenty = sim.closed_form(
        report_sample.prepare(**FEW | {"cluster": report_sample.SMALL["cluster"] | {"nodes": 64}})
    ).shares
    assert starved["starved"] == pytest.approx(TAIL, rel=1e-9)
    assert "starved" not in plenty
    for name, share in plenty.items():
        assert starved[name] == pytest.approx((1 - TAIL) * share, rel=1e-9), name


def test_starved_time_goes_to_causes_by_the_nodes_that_they_keep_in_repair() -> None:
    """Failures as 1 to 3 with repairs as 6 to 1 share S as 2 to 1, in every order; all waste is 1 - ETTR."""
    rows = [cause("rare", 50.0, "12 h"), cause("common", 150.0, "2 h"), cause("none", 100.0, "0 s")]
    found = sim.closed_form(report_sample.prepare(failures=rows, **FEW))
    for table in found.waste.values():
        assert table["rare"]["starved"] == pytest.approx(2 * table["common"]["starved"], rel=1e-9)
        assert "starved" not in table["none"]
        assert sum(row.get("starved", 0.0) for row in table.values()) == pytest.approx(
            found.shares["starved"], rel=1e-9
        )
    assert sum(sum(row.values()) for row in found.waste["exact"].values()) == pytest.approx(1 - found.ettr, abs=1e-12)


STARVING_NODE = cause("node", 200.0, "4 h")

SOFTWARE = {"use": "job", "name": "software", "rate": "5 per job-d"}


@pytest.mark.parametrize(
    "failures",
    one_in(
        2,
        [
            [STARVING_NODE],
            [STARVING_NODE | {"idle_hazard": "0 %"}],
            [STARVING_NODE | {"clock": "busy"}],
            [STARVING_NODE, SOFTWARE],
        ],
    ),
    ids=["wall", "only with work", "busy", "software"],
)
def test_the_simulated_job_is_starved_as_often(failures: list[dict[str, Any]]) -> None:
    """20 runs of 200 days: the productive share and the starved one, each within Z errors and the first repair.

    Where nodes fail only with processes on them, those of a job that waits do not fail, and software never does.
    """
    case = report_sample.prepare(**FEW, failures=failures, seed=SEED)
    shares, closed = bucket_shares(case, 20), sim.closed_form(case).shares
    for name in ("productive", "starved"):
        seen = shares[:, sim.JOB_BUCKETS.index(name)]
        error = seen.std(ddof=1) / math.sqrt(20)
        assert abs(seen.mean() - closed[name]) <= 1.5 * Z * error + 4 / 24 / 200, name
    assert 20 * error < closed["starved"]


@pytest.mark.parametrize(
    "failures",
    one_in(
        2,
        [[STARVING_NODE, SOFTWARE], [STARVING_NODE | {"idle_hazard": "0 %"}, SOFTWARE]],
    ),
    ids=["wall", "work"],
)
def test_what_cannot_fail_in_a_wait_is_not_detected_there(failures: list[dict[str, Any]]) -> None:
    """Detection takes 5 min: of software in the time with enough nodes only, of nodes in waits as they fail there.

    With enough nodes always available it would be a larger share. The formula errs by the order of detection over
    repair.
    """
    few = FEW | {"detection": {"time": "5 min"}}
    case = report_sample.prepare(**few, failures=failures, seed=SEED)
    found = sim.closed_form(case)
    plenty = sim.closed_form(
        report_sample.prepare(**few | {"cluster": report_sample.SMALL["cluster"] | {"nodes": 64}}, failures=failures)
    )
    seen = bucket_shares(case, 20)[:, sim.JOB_BUCKETS.index("detection")]
    error = 1.5 * Z * seen.std(ddof=1) / math.sqrt(20) + 5 / 240 * found.shares["detection"]
    assert abs(seen.mean() - found.shares["detection"]) <= error
    assert plenty.shares["detection"] - seen.mean() > 2 * error
    assert sum(found.shares.values()) == pytest.approx(1, abs=1e-12)
    exact = found.waste["exact"]
    assert sum(row.get("detection", 0.0) for row in exact.values()) == pytest.approx(
        found.shares["detection"], rel=1e-9
    )
    assert sum(sum(row.values()) for row in exact.values()) == pytest.approx(1 - found.shares["productive"], abs=1e-12)


def bound(**changes: Any) -> float | None:
    """Return the bound of a scenario."""
    return sim.starved_at_most(report_sample.prepare(**changes))


def tail(spares: int, required: int = 14) -> float:
    """Return how often more nodes are down than there are spares."""
    return float(stats.binom.sf(spares, required + spares, DOWN))


LADDER = [{"name": "keep", "keeps": "hosts", "pools": ["idle"]}, {"name": "queue", "keeps": "nothing"}]


@cases(
    ("recovery", "spares"),
    [
        ({"use": "hot-spare", "initialize": "3 min"}, 4),
        ({"use": "hot-spare", "initialize": "3 min", "pools": ["spare"]}, 2),
        ({"use": "hot-spare", "initialize": "3 min", "pools": ["spare"], "patience": "1 h"}, 2),
        ({"use": "full-restart", "initialize": "3 min"}, 4),
        ({"use": "ladder", "rungs": LADDER}, 2),
        ({"use": "ladder", "rungs": LADDER[1:]}, 4),
    ],
)
def test_the_bound_counts_the_nodes_that_a_recovery_may_use(recovery: dict[str, Any], spares: int) -> None:
    """18 nodes, 14 of them in the job and two hot spares: the tail of the binomial law beyond what may step in."""
    case = {"cluster": report_sample.SMALL["cluster"] | {"nodes": 18}, "recovery": recovery}
    assert bound(**case) == pytest.approx(tail(spares), rel=1e-9)


def test_the_bound_is_not_known_everywhere() -> None:
    """Logs, whole units, pools that only come with a delay, and jobs that take turns have none."""
    cold = {"hot": 0, "cold": {"nodes": 2, "delay": "1 h"}}
    only = {"use": "hot-spare", "initialize": "3 min", "pools": ["cold"]}
    jobs = [{"name": name, "gpus": 64, "step_time": "10 s"} for name in ("one", "two", "three")]
    assert bound(spares=cold, recovery=only) is None
    assert bound(spares={"hot": 2, "unit": "node"}) is None
    assert bound(jobs=jobs, spares={"hot": 0}) is None
    assert sim.starved_at_most(sim.examine(sim.load(sim.find("replay")))) is None

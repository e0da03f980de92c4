"""`ettrick explain`: shares that add up, numbers that come from somewhere, and words for what is not known."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from scipy import stats

from ettrick import sim
from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.page.chapters.formula import converges as typed_converges
from ettrick.analysis.page.chapters.formula import explained_formula
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.results.models import ClosedFormSummary
from ettrick.analysis.results.run import _simulated as typed_simulated
from ettrick.sim import Ratio
from ettrick.sim.catalog import models
from tests import report_sample
from tests.cases import cases
from tests.documents import describe, describe_closed_form, document
from tests.documents import format_explanation as _format_explanation
from tests.report_sample import call
from tests.typed import as_plain, of_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_FORM: dict[str, Any] = dict.fromkeys(("ettr", "form", "simulated", "waste", "waste_by_cause")) | {
    "time_shares": {},
    "assumptions": [],
    "extrapolated": [],
}

_simulated = as_plain(typed_simulated)

converges = of_plain(typed_converges, ClosedFormSummary)

DONE, NO, WRONG = 0, 1, 2

SEQUENCE = 8192

JOB: dict[str, Any] = {
    "name": "train",
    "gpus": 112,
    "model": "llama3-8b",
    "batch": {"tokens": 224 * SEQUENCE, "sequence": SEQUENCE},
    "parallelism": {"tensor": 2, "data": 56},
    "execution": {"sharding": "parameters"},
}

MIXTURE: dict[str, Any] = {
    "name": "mixture",
    "gpus": 128,
    "model": "qwen3-30b-a3b",
    "precision": "fp8",
    "batch": {"tokens": 256 * 4096, "sequence": 4096},
    "parallelism": {"pipeline": 4, "data": 32, "expert": 16},
    "execution": {"recompute": "full"},
}


def cluster(accelerator: str, **more: Any) -> dict[str, Any]:
    """Return a cluster of 16 nodes of eight."""
    return {"name": "tiny", "nodes": 16, "gpus_per_node": 8, "accelerator": accelerator, **more, "fabric": {"rails": 8}}


def changes(**kinds: Any) -> dict[str, Any]:
    """Return changes of the small scenario: one job with other keys, on an accelerator."""
    accelerator = kinds.pop("accelerator", "h100")
    return {"jobs": [{**JOB, **kinds}], "cluster": cluster(accelerator), "spares": {"hot": 0, "idle": "serve"}}


CASES: dict[str, dict[str, Any]] = {
    "modelled": changes(),
    "measured": changes(step_time="3 s"),
    "published": changes(mfu=0.4),
    "calibrated": changes(calibration={"step_time": "3 s"}),
    "communication": changes(communication="20 %"),
    "mixture": {"jobs": [MIXTURE], "cluster": cluster("h100"), "spares": {"hot": 0, "idle": "serve"}},
    "assumed": changes(accelerator="b200"),
    "peak only": changes(accelerator="mi300x"),
    "announced": changes(accelerator="rubin"),
    "stated": changes(accelerator={"like": "h100", "memory_bandwidth": "4 TB/s"}),
    "several": {"jobs": [{**JOB, "gpus": 56, "parallelism": {"data": 56}}, {"name": "[b]", "gpus": 56}]},
    "no layout": {"jobs": [{key: JOB[key] for key in ("name", "gpus", "model", "batch")}]},
    "not our layout": changes(step_time="5 s", parallelism={"tensor": 7, "data": 16}),
    "nothing": {"jobs": [{"name": "train", "gpus": 112}]},
    "unknown accelerator": {"cluster": cluster("mine")},
    "shards": changes(execution={"sharding": "parameters", "shard_ranks": 4}),
    "one domain": {"jobs": [{**JOB, "gpus": 8, "parallelism": {"tensor": 4, "data": 2}}], "cluster": cluster("h100")},
    "one GPU": {
        "jobs": [
            {
                "name": "alone",
                "gpus": 1,
                "model": "gpt3-1.3b",
                "batch": {"tokens": 16384, "sequence": 2048},
                "parallelism": {},
            }
        ],
        "cluster": {"nodes": 20, "gpus_per_node": 1, "accelerator": "h100", "fabric": {"rails": 1}},
    },
    "two pools": {
        **changes(),
        "cluster": {
            "name": "two",
            "gpus_per_node": 8,
            "pools": [{"count": 8, "accelerator": "h100"}, {"count": 8, "accelerator": "a100"}],
            "fabric": {"rails": 8},
        },
    },
}


def format_explanation(content: dict[str, Any]) -> str:
    """Return what is printed in a hundred columns."""
    return str(_format_explanation(content, width=100))


def explained(case: str) -> dict[str, Any]:
    """Return the document of a case, as a reader of the JSON gets it."""
    content: dict[str, Any] = describe(sim.examine(report_sample.parse(**CASES[case])))
    return content


def job(case: str) -> dict[str, Any]:
    """Return what is said of the first job of a case."""
    found: dict[str, Any] = next(iter(explained(case)["jobs"].values()))
    return found


def text(case: str) -> str:
    """Return what is printed without a terminal."""
    return format_explanation(explained(case))


PLANNED = [case for case in CASES if case not in ("no layout", "not our layout", "nothing", "unknown accelerator")]


@cases("case", PLANNED)
def test_shares_and_seconds_add_up(case: str) -> None:
    """Shares sum to 1; seconds of the terms, of their parts and of the breakdown sum to the time of the step."""
    found = job(case)
    step, parts = found["step"], found["parts"]
    terms = [term for part in parts.values() for term in part["terms"].values()]
    assert sum(part["share"] for part in parts.values()) == pytest.approx(1, abs=1e-12)
    assert sum(term["share"] for term in terms) == pytest.approx(1, abs=1e-12)
    assert sum(part["time_s"] for part in parts.values()) == pytest.approx(step["time_s"], rel=1e-12)
    assert sum(term["time_s"] for term in terms) == pytest.approx(step["time_s"], rel=1e-12)
    assert sum(step["breakdown"].values()) == pytest.approx(step["time_s"], rel=1e-12)
    assert step["time_s"] == pytest.approx(step["scale"] * step["model_s"], rel=1e-12)


@cases("case", PLANNED)
def test_memory_adds_up(case: str) -> None:
    """The parts of the memory sum to the total, and their shares are of what the GPU has."""
    found = job(case)
    held, shares = found["step"]["memory_bytes"], found["memory_shares"]
    total, capacity = held.pop("total"), held.pop("capacity")
    assert sum(held.values()) == pytest.approx(total, rel=1e-12)
    assert shares.pop("total") == pytest.approx(total / capacity, rel=1e-12)
    assert sum(shares.values()) == pytest.approx(total / capacity, rel=1e-12)
    assert capacity == found["accelerator"]["memory_bytes"]


def test_measured_and_modelled_stand_side_by_side() -> None:
    """Beside 3 s that were measured stand the model's seconds, those without a measurement, and the ratio of both."""
    measured, modelled = job("measured")["step"], job("modelled")["step"]
    assert (measured["time_s"], measured["basis"], measured["stated"]) == (3, "measured", "step_time")
    assert measured["model_s"] == modelled["time_s"] == modelled["model_s"]
    assert measured["model_band90_s"] == pytest.approx(modelled["band90_s"], rel=1e-12)
    assert (measured["band90_s"], measured["sigma"], modelled["stated"]) == (None, None, None)
    assert measured["scale"] == pytest.approx(3 / modelled["time_s"], rel=1e-12)
    for name, time in modelled["breakdown"].items():
        assert measured["breakdown"][name] == pytest.approx(measured["scale"] * time, rel=1e-12)
    shown = text("measured")
    assert "3.000 s, as the scenario states" in shown
    assert f"{modelled['time_s']:.3f} s (" in shown
    assert f"each term x {measured['scale']:.3f}" in shown
    assert "each term x" not in text("modelled")


def test_a_published_mfu_is_the_mfu() -> None:
    """MFU 40 % in the scenario is the causal MFU of the table, and the step is as long as it says: F / (0.4 N P)."""
    found = job("published")
    causal = found["utilisation"]["causal"]
    assert causal["mfu"] == pytest.approx(0.4, rel=1e-12)
    flop = causal["flop_per_token"] * JOB["batch"]["tokens"]
    assert found["step"]["time_s"] == pytest.approx(flop / (0.4 * 112 * 989e12), rel=1e-12)
    assert "from the MFU that the scenario states" in text("published")


def test_calibration_says_what_it_did() -> None:
    """The measured step over what the model says of it scales the model's step."""
    found = job("calibrated")
    step, row = found["step"], found["calibration"]
    assert (step["basis"], row["measured_s"]) == ("calibrated", 3)
    assert step["scale"] == pytest.approx(3 / row["modelled_s"], rel=1e-12)
    # It was the same step that was measured.
    assert step["time_s"] == pytest.approx(3, rel=1e-9)
    assert step["model_s"] == pytest.approx(job("modelled")["step"]["time_s"], rel=1e-12)
    assert step["sigma"] < step["model_sigma"]
    assert f"3.000 s measured, {row['modelled_s']:.3f} s modelled" in text("calibrated")
    assert job("modelled")["calibration"] is None


def test_flop_and_mfu_in_both_conventions_are_the_published_ones() -> None:
    """Megatron's 175B on 64 A100 takes 13.75 s: MFU 51.4 % (arXiv 2205.05198, table 5), which counts all attention."""
    row = {
        "name": "megatron",
        "gpus": 64,
        "model": "megatron-175b",
        "step_time": "13.75 s",
        "batch": {"tokens": 64 * 2048, "sequence": 2048},
        "parallelism": {"tensor": 8, "pipeline": 8, "virtual_pipeline": 3},
        "execution": {"recompute": "selective", "fused_attention": False},
    }
    scenario = report_sample.parse(jobs=[row], cluster=cluster("a100"))
    use = describe(sim.examine(scenario))["jobs"]["megatron"]["utilisation"]
    assert use["full"]["mfu"] == pytest.approx(0.514, abs=0.002)
    # The core of attention once more, of 3 x its forward pass: 4 s h a layer and token, 2 s h with the masked half.
    assert use["full"]["recomputed_flop_per_token"] == pytest.approx(4 * 2048 * 12288 * 96, rel=1e-12)
    assert use["causal"]["recomputed_flop_per_token"] == pytest.approx(2 * 2048 * 12288 * 96, rel=1e-12)


@cases("name", ["megatron-175b", "megatron-530b", "megatron-1t"])
def test_full_recomputation_is_that_of_megatron(name: str) -> None:
    """Hardware FLOP of a token are 96 l h^2 (1 + s / 6 h + V / 16 l h): arXiv 2104.04473, equation 3."""
    shape, sequence = models()[name], 2048
    row = {
        "name": name,
        "gpus": 128,
        "model": name,
        "step_time": "10 s",
        "batch": {"tokens": 8 * sequence, "sequence": sequence},
        "parallelism": {"tensor": 8, "data": 1, "pipeline": 16},
        "execution": {"recompute": "full"},
    }
    scenario = report_sample.parse(jobs=[row], cluster=cluster("a100"), spares={"hot": 0})
    use = describe(sim.examine(scenario))["jobs"][name]["utilisation"]["full"]
    layers, hidden, vocabulary = shape.layers, shape.hidden, shape.vocabulary
    wanted = 96 * layers * hidden**2 * (1 + sequence / (6 * hidden) + vocabulary / (16 * layers * hidden))
    assert use["flop_per_token"] + use["recomputed_flop_per_token"] == pytest.approx(wanted, rel=1e-9)
    assert use["hfu"] / use["mfu"] == pytest.approx(wanted / use["flop_per_token"], rel=1e-9)


def test_a_smaller_batch_takes_as_long_and_trains_on_less() -> None:
    """Without one of 56 replicas the pace is 55/56 with the batch shrunk, and that of whole microbatches if kept."""
    found = job("modelled")
    step, rows = found["step"]["time_s"], found["degraded"]
    assert rows["replica_missing_shrink"]["time_s"] == pytest.approx(step, rel=1e-3)
    assert rows["replica_missing_shrink"]["pace"] == pytest.approx(55 / 56, rel=1e-3)
    # 224 sequences: four for each of 56 replicas, five for some of 55. What comes once a step stays.
    assert 4 / 5 < rows["replica_missing_keep"]["pace"] < 0.82
    assert rows["replica_missing_keep"]["time_s"] == pytest.approx(step / rows["replica_missing_keep"]["pace"])


def test_a_stated_share_of_communication_is_what_a_run_uses() -> None:
    """With 20 % of a step waiting for NICs at half bandwidth the pace is 1 / 1.2; with a slow GPU, that of the GPU."""
    found = job("communication")
    rows = found["degraded"]
    assert rows["narrow_nics"]["pace"] == pytest.approx(1 / 1.2, rel=1e-12)
    assert rows["slow_gpu"]["pace"] == pytest.approx(0.9, rel=1e-12)
    assert rows["narrow_nics"]["time_s"] == pytest.approx(1.2 * found["step"]["time_s"], rel=1e-12)
    assert [row["basis"] for row in rows.values()].count("communication") == 2
    assert "as the scenario's communication says" in text("communication")
    assert "as the scenario's communication says" not in text("modelled")


def test_power_is_that_of_the_nodes() -> None:
    """14 nodes of H100 draw 14 times 8 kW (MLPerf Training v4.1); a token takes power over tokens a second."""
    found = job("modelled")
    assert found["power"]["job_w"] == pytest.approx(14 * 8e3)
    assert found["power"]["joules_per_token"] == pytest.approx(14 * 8e3 / found["tokens_per_s"])
    assert found["tokens_per_s"] * found["step"]["time_s"] == pytest.approx(JOB["batch"]["tokens"])
    assert job("unknown accelerator")["power"] is None
    assert "power" in text("unknown accelerator")


@cases("case", CASES)
def test_every_case_fits_a_hundred_columns(case: str) -> None:
    """Whatever the scenario lacks, the text has all its jobs, is at most 100 columns wide, and nothing is cut off."""
    shown = text(case)
    assert max(map(len, shown.splitlines())) <= 100
    assert "…" not in shown
    assert "nan" not in shown.split()
    assert "None" not in shown
    assert all(name in shown.splitlines() for name in explained(case)["jobs"])
    assert "Closed form" in shown


def numbers(value: Any) -> Iterator[float]:
    """Yield every number in plain data."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def strings(value: Any) -> Iterator[str]:
    """Yield every text in plain data, those of keys too."""
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value


@cases("case", CASES)
def test_every_number_of_the_text_is_in_the_document(case: str) -> None:
    """Each number is one of the JSON in another unit, but for those of its texts, of sources and of the band's name."""
    content = explained(case)
    shown = " ".join(format_explanation(content).split())
    worded = sorted({" ".join(text.split()) for text in strings(content)}, key=len, reverse=True)
    names = ["arXiv 2602.00277", "v3.1 and v4.0", "tuned H100", "with 90 %", "95 % interval", "100.00 %"]
    for name in (*worded, *names):
        if re.search(r"\d", name):
            shown = shown.replace(name, " ")
    units = (1, 1e-3, 1e-6, 1e-9, 1e-12, 1e2, 1e3, 1 / 60, 1 / 3600)
    known = [number * unit for number in numbers(content) for unit in units]
    found = re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?", shown)
    assert found
    for word in found:
        value = float(word.replace(",", ""))
        step = 10.0 ** -len(word.partition(".")[2])
        assert any(abs(value - number) <= 0.5 * step + 1e-9 for number in known), word


def beside(**kinds: Any) -> dict[str, Any]:
    """Return the closed form of a small scenario beside four replications."""
    prepared = report_sample.prepare(**kinds)
    return describe_closed_form(prepared, replicate(prepared, 4))


@cases(
    ("formula", "outside", "words"),
    [
        (0.95, 0.0, "inside the 95 % interval"),
        (0.90, 0.0, "inside the 95 % interval"),
        (0.8988, 0.0012, "outside the 95 % interval by 0.12 pt"),
        (0.9725, 0.0025, "outside the 95 % interval by 0.25 pt"),
    ],
)
def test_the_text_says_whether_the_closed_form_is_inside(formula: float, outside: float, words: str) -> None:
    """An interval of 90..97 % holds 90 and 95 %; 89.88 % is 0.12 pt outside, 97.25 % is 0.25 pt."""
    rows = [{"ettr": Ratio(value, 1.0)} for value in (0.92, 0.95)]
    half = 0.03 * math.sqrt(2) / 2 * stats.t.isf(0.025, 1) / math.sqrt(2)
    middle = 0.935
    seen = _simulated(SimpleNamespace(rows=rows, prepared=report_sample.prepare()), middle - half - 0.001)  # type: ignore[arg-type]
    # One degree of freedom: the interval passes one, which no share does.
    assert seen["ettr_ci95"] == pytest.approx([middle - half, 1.0], rel=1e-12)
    assert seen["outside_ci95"] == pytest.approx(0.001, rel=1e-6)
    found = NO_FORM | {"ettr": formula, "simulated": {**seen, "ettr_ci95": [0.90, 0.97], "outside_ci95": outside}}
    assert f"{100 * formula:.2f} %" in formula_text(found)
    assert words in formula_text(found)


def test_shares_of_intervals_are_shares() -> None:
    """Two jobs in a hundred days of bad luck: an interval below 0 or above 1 ends there, in the document too."""
    for values in ((0.0, 0.4), (0.6, 1.0)):
        rows = [{"ettr": Ratio(value, 1.0)} for value in values]
        seen = _simulated(SimpleNamespace(rows=rows, prepared=report_sample.prepare()), None)  # type: ignore[arg-type]
        assert seen["ettr_ci95"] == [0.0, 1.0]
    rows = [{"ettr": Ratio(value, 1.0)} for value in (0.50, 0.51)]
    seen = _simulated(SimpleNamespace(rows=rows, prepared=report_sample.prepare()), 0.9)  # type: ignore[arg-type]
    assert seen["outside_ci95"] == pytest.approx(0.9 - seen["ettr_ci95"][1], rel=1e-12)


def test_without_luck_nothing_is_said_of_it() -> None:
    """Replications that all come to the same, and those of a log, have no interval to be outside of."""
    log = sim.prepare(sim.load(sim.find("replay")))
    for found in (beside(failures=[]), describe_closed_form(log, replicate(log, 2))):
        seen = found["simulated"]
        assert (seen["ettr_ci95"], seen["standard_errors_above"], seen["outside_ci95"]) == (None, None, None)
        assert "interval" not in formula_text(found)
    assert "interval" in formula_text(beside())
    # Repairs of random length do not make a log more than one history.
    rows = [{"ettr": Ratio(value, 1.0)} for value in (0.92, 0.95)]
    assert _simulated(SimpleNamespace(rows=rows, prepared=log), 0.9)["ettr_ci95"] is None  # type: ignore[arg-type]
    # Nodes that are placed again in each replication do: the interval is that of their places.
    file = sim.find("replay").parent / "logs" / "small-cluster.csv"
    anew = f"failures.0={{use: replay, file: '{file}', time_unit: h, spread_unknown: each}}"
    log = sim.prepare(sim.load(sim.find("replay"), [anew]))
    assert describe_closed_form(log, replicate(log, 3))["simulated"]["ettr_ci95"] is not None


@cases(
    ("totals", "they_do"),
    [((0.2, 0.1, 0.11), True), ((0.2, 0.4, 0.25), False), ((1.2, 0.4, 0.5), False), ((0.2, -0.1, 0.1), False)],
)
def test_when_orders_converge(totals: tuple[float, ...], *, they_do: bool) -> None:
    """They do if the second is not further from the exact than the first, and each is a share."""
    waste = {order: {"total": total} for order, total in zip(("first", "second", "exact"), totals, strict=True)}
    assert converges(NO_FORM | {"waste": waste, "waste_by_cause": {}}) is they_do
    exact = {name: {"total": 0.1} for name in waste}
    by_cause = {"first": {"node": {"total": totals[0]}}}
    assert converges(NO_FORM | {"waste": exact, "waste_by_cause": by_cause}) is (totals[0] <= 1)


def formula_text(formula: dict[str, Any]) -> str:
    """Return all that is printed of a closed form."""
    return terminal.write(explained_formula(ClosedFormSummary.model_validate(formula)), width=200)


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a scenario with a model into an empty working folder; return its name."""
    monkeypatch.chdir(tmp_path)
    content = {**report_sample.SMALL, **changes(), "assumptions": ["all of it"]}
    Path("model.yaml").write_text(sim.dump(content))
    return "model.yaml"


def test_the_command_prints_its_document_in_words(scenario: str) -> None:
    """The text is made of what --json prints, and of nothing else; assumptions come along, seed and command too."""
    in_words, as_json = call("explain", scenario), call("explain", scenario, "--json")
    assert (in_words.exit_code, in_words.stderr, as_json.exit_code, as_json.stderr) == (DONE, "", DONE, "")
    assert in_words.stdout == _format_explanation(json.loads(as_json.stdout)) + "\n"
    assert "all of it" in in_words.stdout
    content = json.loads(as_json.stdout)
    assert content["seed"] == json.loads(call("run", scenario, "--replications", "1", "--json").stdout)["seed"]
    same = document(replicate(report_sample.prepare(), 1), command="")["provenance"].keys() | {"sha256"}
    assert content["provenance"].keys() == same


def test_a_job_that_does_not_fit_is_explained_all_the_same(scenario: str) -> None:
    """Its memory is shown term by term, and the answer is no, in the last line on standard error."""
    result = call("explain", scenario, "--set", "jobs.0.execution={sharding: none, microbatch: 4}")
    assert result.exit_code == NO
    assert "Memory of the fullest GPU" in result.stdout
    *warnings, refusal = result.stderr.splitlines()
    assert all(line.startswith("warning: ") for line in warnings)
    assert "does not fit" in refusal
    run = call("run", scenario, "--set", "jobs.0.execution={sharding: none, microbatch: 4}")
    assert (run.exit_code, run.stdout) == (NO, "")
    assert run.stderr.splitlines()[-1].endswith(refusal)


def test_run_has_the_same_step() -> None:
    """The step of `run --json` is that of the first job, with a breakdown that sums to its time."""
    prepared = report_sample.prepare(**CASES["measured"])
    step = document(replicate(prepared, 1), command="")["step"]
    assert step == describe(prepared)["jobs"]["train"]["step"]
    assert sum(step["breakdown"].values()) == pytest.approx(step["time_s"], rel=1e-12)
    held = step["memory_bytes"]
    assert sum(held.values()) == pytest.approx(2 * held["total"] + held["capacity"], rel=1e-12)
    bare = document(replicate(report_sample.prepare(), 1), command="")["step"]
    assert (bare["time_s"], bare["breakdown"], bare["memory_bytes"], bare["basis"]) == (10, {}, None, "measured")

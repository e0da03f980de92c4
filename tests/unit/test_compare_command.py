"""``ettrick compare``: exit status, streams, tables that say what is resolved, and one document."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ettrick import cli, sim
from ettrick.analysis.amounts import points_text
from tests import report_sample
from tests.cases import cases, mistake_lines
from tests.documents import format_comparison

DONE, NO, WRONG = 0, 1, 2

PRICED = ["--set", "cost={gpu_hour: 2.5}"]

MODEL = ["--set", "jobs.0.model=llama3-8b", "--set", "jobs.0.batch={tokens: 7 Mi, sequence: 8192}"]

LAYOUT = ["--set", "jobs.0.parallelism={tensor: 8, pipeline: 2, data: 7}"]


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of the small scenario, in an empty working folder."""
    return report_sample.write(tmp_path, monkeypatch)


def call(*arguments: str) -> Any:
    """Run the command in this process."""
    return report_sample.call("compare", *arguments)


def document(*arguments: str) -> dict[str, Any]:
    """Return the document of a comparison of two replications."""
    content: dict[str, Any] = json.loads(call(*arguments, "--replications", "2", "--json").stdout)
    return content


def test_table_names_the_variants_and_the_first_has_no_difference(scenario: str) -> None:
    """The path is the head of the first column, its values the labels; only the second has a difference."""
    result = call(scenario, "--vary", "recovery.initialize=3 min,30 min", "--replications", "8")
    assert (result.exit_code, result.stderr) == (DONE, "")
    lines = result.stdout.splitlines()
    assert "  8 replications of each variant, seed 1." in lines
    assert "  ETTR (productive / requested) on the same failures" in lines
    assert any(line.startswith("recovery.initialize") for line in lines)
    first, second = (next(line for line in lines if line.startswith(f"{text}  ")) for text in ("3 min", "30 min"))
    assert " pt" not in first
    assert not re.search(r"(^| )-( |$)", first)
    assert second.count(" pt") == 2
    assert "-" in second
    assert "  Where the GPU-time went" in lines


def serving(scenario: str) -> str:
    """Return the scenario with idle nodes that are said to serve like spares, which is then no surprise."""
    Path(scenario).write_text(sim.dump({**report_sample.SMALL, "spares": {"hot": 2, "idle": "serve"}}))
    return scenario


def test_document_is_that_of_the_variants_alone(scenario: str) -> None:
    """Metrics and shares of a variant are those of ``run --json`` with the same --set; the difference is theirs."""
    scenario = serving(scenario)
    result = call(scenario, "--vary", "spares.hot=1,2", "--replications", "4", "--json", "--seed", "3")
    assert (result.exit_code, result.stderr) == (DONE, "")
    content = json.loads(result.stdout)
    assert (content["seed"], content["replications"], content["first"]) == (3, 4, "spares.hot=1")
    alone: list[Any] = []
    for number in (1, 2):
        arguments = ["run", scenario, "--set", f"spares.hot={number}", "--replications", "4", "--json", "--seed", "3"]
        alone.append(json.loads(CliRunner().invoke(cli.app, arguments).stdout))
        variant = content["variants"][f"spares.hot={number}"]
        for key in ("metrics", "time_shares", "loss_gpu_s", "per_job"):
            assert variant[key] == alone[-1][key]
        assert variant["scenario_sha256"] == alone[-1]["provenance"]["scenario_sha256"]
    change = content["variants"]["spares.hot=2"]["difference"]
    assert set(change["ettr"]) == {"mean", "ci95", "resolved", "replications_to_resolve", "controlled", "exact"}
    means = [of["metrics"]["ettr"]["mean"] for of in alone]
    assert change["ettr"]["mean"] == pytest.approx(means[1] - means[0])
    assert content["variants"]["spares.hot=1"]["difference"] == {}


def test_several_scenarios_and_what_varies(scenario: str) -> None:
    """Two scenarios with two values each are four variants, named by both."""
    Path("other.yaml").write_text(report_sample.YAML.replace("name: small", "name: other"))
    content = json.loads(
        call(scenario, "other.yaml", "--vary", "spares.hot=1,2", "--replications", "2", "--json").stdout
    )
    expected = [f"{name}, spares.hot={number}" for name in (scenario, "other.yaml") for number in (1, 2)]
    assert list(content["variants"]) == expected
    assert [of["scenario"] for of in content["variants"].values()] == ["small", "small", "other", "other"]


@cases(
    ("change", "line"),
    [
        ((0.001, -0.002, 0.004, 1234), "too close to call (about 1,234 replications needed, not 2)"),
        ((0.0, -0.002, 0.002, None), "too close to call (more than 10,000 needed)"),
        ((0.0, 0.0, 0.0, None), "the same in every run; events in fewer than 84.2 % of all runs may not have occurred"),
        ((0.003, 0.002, 0.004, 2), ""),
    ],
)
def test_what_is_not_resolved_is_said(scenario: str, change: tuple[float, float, float, int | None], line: str) -> None:
    """A difference that may be chance has a line that says how many replications would tell, or that none would."""
    content = document(scenario, "--vary", "spares.hot=1,2")
    mean, low, high, needed = change
    found = {"mean": mean, "ci95": [low, high], "resolved": not line, "replications_to_resolve": needed}
    content["variants"]["spares.hot=2"]["difference"]["ettr"] = found | {"controlled": None}
    text = format_comparison(content, width=200)
    assert (f"  - spares.hot=2 against spares.hot=1: {line}" in text.splitlines()) == bool(line)
    assert points_text(mean) in text
    resolved = {"mean": 0.0012, "ci95": [0.0005, 0.0019], "worth": 9.0}
    content["variants"]["spares.hot=2"]["difference"]["ettr"]["controlled"] = resolved
    assert ("with control variates the difference is clear" in format_comparison(content, width=200)) == bool(line)


def test_cost_and_tokens_are_shown_where_they_are_known(scenario: str) -> None:
    """With a model and prices there are columns for tokens, the cost and that of a million tokens; without, none."""
    plain = ["--vary", "repair.time=4 h,5 h", "--replications", "2"]
    known = call(scenario, *plain, *MODEL, *LAYOUT, *PRICED).stdout
    content = document(scenario, *plain[:2], *MODEL, *LAYOUT, *PRICED)
    for variant in content["variants"].values():
        assert f"{1e6 * variant['metrics']['cost_per_token']['mean']:.4g} USD" in known
    assert "goodput (effective MFU) on the same failures" in known
    assert "USD" in known
    assert "per day" in known
    assert "USD" not in call(scenario, *plain).stdout


def test_other_hardware_is_not_ranked_by_goodput(scenario: str) -> None:
    """Another precision: tokens per day rank, and a line says why goodput does not."""
    slow = ["--set", "jobs.0.step_time=40 s", "--vary", "jobs.0.precision=bf16,fp8", "--replications", "2"]
    result = call(scenario, *slow, *MODEL, *LAYOUT)
    assert result.exit_code == DONE
    assert "tokens per day on the same failures" in result.stdout
    assert "Not ranked by goodput: precision differs" in result.stdout
    assert " rank " in result.stdout


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "nothing to compare"),
        (["--vary", "spares.hot"], "--vary spares.hot: needs path=value,value"),
        (["--vary", "spares.hot=1,[2"], "has no closing ]"),
        (["--vary", "spares.hot=1,two"], "--vary spares.hot=two: spares.hot"),
        (["--vary", "seed=1,2"], "seed: is 1 and 2"),
        (["--vary", "spares.hot=1,2", "--precision", "0.1"], "'0.1' is not a precision"),
        (["--vary", "spares.hot=1,2", "--set", "spare.hot=1"], "did you mean 'spares'?"),
        (["--vary", "spares.hot=1,2", "--set", "spares.hot=1"], "--set spares.hot=1: is varied too"),
        (["--vary", "seed=1,2", "--seed", "1"], "--set seed=1: is varied too"),
        (["nowhere.yaml"], "nowhere.yaml: "),
    ],
)
def test_wrong_input_is_one_line(scenario: str, arguments: list[str], part: str) -> None:
    """Exit status 2, one line on standard error that says what is wrong, and nothing on standard output."""
    result = call(scenario, *arguments, "--replications", "2")
    assert (result.exit_code, result.stdout) == (WRONG, "")
    assert len(mistake_lines(result.stderr)) == 1, result.stderr
    assert part in result.stderr


def test_a_variant_that_cannot_run_is_listed(scenario: str) -> None:
    """What does not fit into memory is listed; the others are compared, with the first that can run; status 1."""
    job = ["--set", "jobs=[{name: big, gpus: 112, model: llama3-70b, batch: {tokens: 7 Mi, sequence: 8192}}]"]
    three = "jobs.0.parallelism={data: 112},{tensor: 8, pipeline: 2, data: 7},{tensor: 8, pipeline: 1, data: 14}"
    arguments = [scenario, *job, "--vary", three, "--replications", "2"]
    result = call(*arguments)
    assert result.exit_code == NO
    assert re.search(r"\{data: 112\} +cannot run: ", result.stdout)
    assert "does not fit" in result.stdout
    assert result.stderr.splitlines()[-1] == "1 of 3 variants cannot run"
    content = json.loads(call(*arguments, "--json").stdout)
    assert list(content["cannot_run"]) == ["jobs.0.parallelism={data: 112}"]
    assert content["first"] == "jobs.0.parallelism={tensor: 8, pipeline: 2, data: 7}"
    nothing = call(scenario, *job, "--vary", "jobs.0.parallelism={data: 112},{data: 56, context: 2}")
    assert (nothing.exit_code, nothing.stdout) == (NO, "")
    assert len(nothing.stderr.splitlines()) == 2


def test_a_mistake_of_one_variant_does_not_end_the_others(scenario: str) -> None:
    """What cannot run is told before and after, with its reason; the others are compared as if it were not there."""
    result = call(serving(scenario), "--vary", "spares.hot=-1,1,2", "--replications", "2")
    line = "--vary spares.hot=-1: spares.hot: must not be negative"
    assert result.exit_code == NO
    assert result.stderr.splitlines() == [f"warning: left out: {line}", "1 of 3 variants cannot run"]
    worded = " ".join(result.stdout.split())
    assert "Left out: 1 variant that cannot run; the others are compared with 1, since -1 is one of them." in worded
    assert f"-1 cannot run: {line}" in worded
    content = document(scenario, "--vary", "spares.hot=-1,1,2")
    assert (content["first"], content["instead_of"]) == ("spares.hot=1", "spares.hot=-1")
    assert content["cannot_run"] == {"spares.hot=-1": line}
    assert content["variants"] == document(scenario, "--vary", "spares.hot=1,2")["variants"]
    assert document(scenario, "--vary", "spares.hot=1,2,-1")["instead_of"] is None


def test_every_other_key_that_differs_is_printed(scenario: str) -> None:
    """What a choice brings along is listed with its values by variant, and what was varied itself is not."""
    arguments = [scenario, "--vary", "recovery.use=hot-spare,nvrx-in-job", "--set", "checkpoint.from_preset=true"]
    content = document(*arguments)
    assert content["varied"] == ["recovery.use"]
    found = content["also_differ"]
    outside = {key for key in found if not key.startswith("recovery.")}
    assert outside == {"checkpoint.tiers"}
    stores = {name: [tier["store"] for tier in tiers] for name, tiers in found["checkpoint.tiers"].items()}
    assert stores == {"recovery.use=hot-spare": ["remote"], "recovery.use=nvrx-in-job": ["remote", "peer-host"]}
    lines = format_comparison(content, width=400).splitlines()
    start = lines.index("  Other keys in which the variants differ") + 2  # heads and a rule
    assert lines[start + 1].split()[0] == "recovery"
    assert lines[start + 1].endswith(": follow from recovery.use")
    assert all(key.removeprefix("recovery.") in lines[start + 1] for key in found.keys() - outside)
    assert lines[start + 2].split(maxsplit=1) == [
        "checkpoint.tiers",
        "remote (hot-spare); remote, peer-host (nvrx-in-job)",
    ]
    plain = document(scenario, "--vary", "spares.hot=1,2")
    assert plain["also_differ"] == {}
    assert "Other keys" not in format_comparison(plain)


def test_keys_of_two_files(scenario: str) -> None:
    """Of two files every key counts but names: changed, missing, of one more item, and inside of items of one name."""
    text = (
        report_sample.YAML.replace("name: small", "name: other")
        .replace("hot: 2", "hot: 1")
        .replace("200 per", "300 per")
    )
    Path("other.yaml").write_text(text + "windows: 1 d\ndescription: another\n")
    found = document(scenario, "other.yaml")["also_differ"]
    assert set(found) == {"spares.hot", "failures.0.rate", "windows"}
    assert found["spares.hot"] == {scenario: 2, "other.yaml": 1}
    assert found["windows"] == {scenario: None, "other.yaml": "1 d"}


def test_stores_are_told_from_the_recovery(scenario: str) -> None:
    """With --split the difference is that of the recovery alone and what the stores add, on the same failures."""
    arguments = [scenario, "--vary", "recovery.use=full-restart,nvrx-in-job", "--set", "checkpoint.from_preset=true"]
    content = document(*arguments, "--split")
    whole, bare = "recovery.use=nvrx-in-job", "recovery.use=nvrx-in-job without its stores"
    assert list(content["variants"]) == ["recovery.use=full-restart", whole, bare]
    parts = content["stores"][whole]
    assert parts["without"] == bare
    total = content["variants"][whole]["difference"]["ettr"]["mean"]
    assert parts["gain"]["mean"] + parts["rest"]["mean"] == pytest.approx(total)
    assert "which are not used" not in str(content)  # what was asked for is no reason to warn
    alone = document(*arguments[:-2])["variants"]
    assert content["variants"][bare]["metrics"] == alone[whole]["metrics"]
    shown = format_comparison(content, width=400)
    assert re.search(
        r"nvrx-in-job: the checkpoint stores of its preset make \+\d.*; without them the difference", shown
    )
    assert document(*arguments)["stores"] == {}
    refused = call(*arguments[:-2], "--split")
    assert (refused.exit_code, refused.stdout) == (WRONG, "")
    assert refused.stderr == (
        "--split: no variant has stores that its recovery preset adds; to add them: --set checkpoint.from_preset=true\n"
    )


def test_a_job_that_never_starts_is_a_no(scenario: str) -> None:
    """A variant whose job arrives after the horizon: its line, and status 1."""
    result = call(scenario, "--vary", "jobs.0.arrival=0 s,3 d", "--replications", "2")
    assert result.exit_code == NO
    assert "jobs.0.arrival=3 d: job 'train' can never start: it arrives when the horizon is over" in result.stderr


def test_a_warning_is_in_every_document(scenario: str) -> None:
    """That observers and stores of a preset are not used is said on standard error, and with each variant it is of."""
    result = call(scenario, "--vary", "recovery.use=hot-spare,nvrx-in-job", "--replications", "2", "--json")
    lines = [
        "recovery 'nvrx-in-job' brings observers; the scenario's own detection is used instead",
        "recovery 'nvrx-in-job' brings checkpoints in peer-host, which are not used; to add them: "
        "--set checkpoint.from_preset=true",
    ]
    assert result.stderr.splitlines() == [f"warning: variant recovery.use=nvrx-in-job: {line}" for line in lines]
    variants = json.loads(result.stdout)["variants"]
    assert [of["warnings"] for of in variants.values()] == [[], lines]
    for command in (["check", scenario], ["run", scenario, "--replications", "2"]):
        result = report_sample.call(*command, "--set", "recovery.use=nvrx-in-job")
        assert result.stderr.splitlines() == [f"warning: {line}" for line in lines]


def test_precision_that_is_reached_and_not(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wide precision is reached after 30 replications with status 0; one that is not ends with 1 and a line."""
    scenario = serving(scenario)
    reached = call(scenario, "--vary", "spares.hot=1,2", "--precision", "50pt", "--json")
    assert (reached.exit_code, json.loads(reached.stdout)["replications"]) == (DONE, 30)
    monkeypatch.setattr("ettrick.analysis.contest.runs.MOST", 30)
    result = call(scenario, "--vary", "spares.hot=1,2", "--precision", "0.0001pt")
    assert result.exit_code == NO
    assert result.stderr == "--precision 0.0001pt: not reached in 30 replications\n"

"""The command of designs: a scenario with budgets becomes a study, and wrong options are one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ettrick import sim
from ettrick.analysis.commands.studies import design_of
from ettrick.analysis.page.chapters.inputs import _axes
from ettrick.analysis.page.report_data import FolderResults, ReportData
from ettrick.analysis.study.load import load_study
from tests.cases import cases, mistake_lines
from tests.report_sample import YAML, call
from tests.typed import present

WRONG = 2

SCENARIO = "llama3-405b-gb200"

BUDGET = ("--budget", "gpus=30000")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are written to a new folder."""
    monkeypatch.chdir(tmp_path)


def test_a_scenario_becomes_a_study_that_can_be_edited() -> None:
    """Budgets, goal, settings and seed are in the file; its own recovery is compared with others."""
    options = ("--budget", "power=100 MW", "--minimize", "cost_per_token", "--precision", "0.1%", "--seed", "4")
    result = call("design", SCENARIO, *BUDGET, *options, "--set", "horizon=20 d", "--save", "study.yaml")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "study.yaml: a study to edit; to run it: ettrick design study.yaml\n"
    loaded = load_study("study.yaml")
    study, goal = loaded.study, present(loaded.study.optimize)
    assert [axis.derive for axis in study.vary.values()] == ["size", "spares", "layout", "interval", None]
    assert study.vary["recovery"].labels("recovery") == ("hot-spare", "slurm-requeue", "nvrx-in-job", "torchft-hsdp")
    assert present(goal.budget).limits == {"power": 100e6, "gpus": 30000.0}
    assert (goal.minimize, goal.maximize, goal.precision, study.seed) == ("cost_per_token", "", "0.1%", 4)
    assert study.set == {"horizon": "20 d"}
    again = call("design", SCENARIO, *BUDGET, "--save", "study.yaml")
    assert (again.exit_code, "already exists" in again.stderr) == (WRONG, True)


def test_the_scenario_of_a_saved_study_is_found_from_its_folder() -> None:
    """A scenario in a file is named relative to the study."""
    shipped = sim.shipped("scenarios")[SCENARIO]
    text = shipped.read_text(encoding="utf-8").replace("../topologies", str(shipped.parents[1] / "topologies"))
    Path("scenarios").mkdir()
    Path("scenarios/mine.yaml").write_text(text, encoding="utf-8")
    Path("studies").mkdir()
    assert call("design", "scenarios/mine.yaml", *BUDGET, "--save", "studies/mine.yaml").exit_code == 0
    assert load_study("studies/mine.yaml").study.scenario == "../scenarios/mine.yaml"


def test_a_report_needs_no_points_of_a_study_with_derived_axes() -> None:
    """What holds at every point is what the study sets, with the central values of what is unknown."""
    unknown = "vary={size: {derive: size}, repair.time: {distribution: {use: uniform, min: 1 h, max: 3 h}}}"
    assert call("design", SCENARIO, *BUDGET, "--set", "horizon=20 d", "--save", "study.yaml").exit_code == 0
    loaded = load_study("study.yaml", (unknown,))
    Path("study.resolved.yaml").write_text(sim.dump(loaded.content()), encoding="utf-8")
    Path("scenario.resolved.yaml").write_text(sim.dump(loaded.template.content), encoding="utf-8")
    report_data = ReportData(FolderResults(Path(), "optimize", {}))
    assert report_data.common_settings == ['horizon="20 d"', 'repair.time="2 h"']
    inputs = {row[0]: row[2] for row in _axes(loaded.study.vary).rows}
    assert inputs["size"] == "derived from the other choices and the budget"


def test_a_measured_step_has_no_other_layout() -> None:
    """Where the time of a step is stated, only this layout has it; a recovery that is among the others comes once."""
    vary = design_of("recovery-16k")["vary"]
    assert list(vary) == ["size", "spares", "interval", "recovery"]
    assert list(vary["recovery"]["choices"]) == ["slurm-requeue", "nvrx-in-job", "torchft-hsdp"]


@cases(
    ("arguments", "line"),
    [
        ((), f"{SCENARIO}: a scenario needs a budget, for example --budget gpus=30000 or --budget power='100 MW'"),
        (("--budget", "watts=3"), "--budget watts=3: unknown budget 'watts' (choose from power, gpus, capex)"),
        (("--budget", "gpus"), "--budget gpus: needs NAME=AMOUNT, for example --budget power='100 MW'"),
        (("--budget", "power=3"), "--budget power=3: '3' needs a unit (for example \"700 W\")"),
        (("--budget", "power=0 MW"), "--budget power=0 MW: must be above 0"),
        (("--budget", "gpus=0"), "--budget gpus=0: must be above 0"),
        ((*BUDGET, "--precision", "60%"), "--precision 60%: 60% is too much: below 50%"),
        ((*BUDGET, "--maximize", "ettr", "--minimize", "cost"), "--minimize: use --maximize or --minimize, not both"),
        ((*BUDGET, "--maximize", "tokens_per_dy"), "did you mean 'tokens_per_day'?"),
        ((*BUDGET, "--explain", "recover=x"), "--explain: unknown axis 'recover'; did you mean 'recovery'?"),
        ((*BUDGET, "--explain", "torchft"), "--explain: 'torchft' is not AXIS=VALUE"),
    ],
)
def test_wrong_options_are_one_line(arguments: tuple[str, ...], line: str) -> None:
    """The option as it was typed, and the rule; both names of the command say the same."""
    for command in ("design", "optimize"):
        result = call(command, SCENARIO, *arguments)
        assert (result.exit_code, result.stdout) == (WRONG, "")
        (said,) = mistake_lines(result.stderr)
        assert line in said


def test_designs_are_of_one_job() -> None:
    """A queue of many jobs has no design yet; a study is no scenario to be saved as one."""
    quickstart = call("design", "quickstart", *BUDGET)
    assert "tokens_per_day needs a batch; name another goal, for example --maximize ettr" in quickstart.stderr
    fleet = call("design", "fleet-64-nodes", *BUDGET)
    assert "fleet-64-nodes: a design needs a scenario with one job and nothing else" in fleet.stderr
    assert "is a study" in call("design", "roadmap-100mw", "--save", "x.yaml").stderr


SMALL_DESIGN = """\
name: small-design
question: What fits into 112 GPUs?
scenario: small.yaml
set: {horizon: 6 h}
vary:
  size: {derive: size}
  spares: {derive: spares}
  recovery: {path: recovery, choices: {fast: {use: hot-spare, initialize: 3 min}, slow: {use: slurm-requeue}}}
optimize: {maximize: cluster_goodput, budget: {gpus: 112}, tie: 2pt, confirm: 16}
"""


def test_a_small_design_from_the_command_to_the_report() -> None:
    """JSON has the parts of a search with bounds, the same command goes on from its folder, and a report has it all."""
    Path("small.yaml").write_text(YAML)
    Path("design.yaml").write_text(SMALL_DESIGN)
    command = ("design", "design.yaml", "--executor", "serial", "--out", "out", "--explain", "recovery=slow")
    first = call(*command, "--json")
    content = json.loads(first.stdout)
    funnel, budget = content["funnel"], content["budget"]["gpus"]
    assert content["method"] == "bounds"
    assert funnel["listed"] == funnel["infeasible"] + funnel["dominated"] + funnel["below_bound"] + funnel["simulated"]
    assert budget["used"] <= budget["limit"] == 112.0
    assert content["regret"]["relative"] >= 0
    assert content["explained"]["wanted"] == {"recovery": "slow"}
    assert {entry["value"] for entry in content["best_of"]} == {"fast", "slow"}
    again = json.loads(call(*command, "--json").stdout)
    assert {key: again[key] for key in again if key != "provenance"} == {
        key: content[key] for key in content if key != "provenance"
    }
    assert call("report", "out", "--out", "page.md").exit_code == 0
    text = Path("page.md").read_text(encoding="utf-8")
    assert "Best: " in text
    assert " from the best of " in text
    refused = call(*command[:-1], "recovery=slw")
    assert "--explain: recovery has no value 'slw'; did you mean 'slow'?" in refused.stderr

"""Mistakes in orders to play a study: a line that names the option, status 2, and no folder that holds nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.study.load import against_metrics, load_study
from analysis.terminal import Progress
from tests import small
from tests.pace import one_in

WRONG = 2
STUDY = """\
name: tiny
scenario: small.yaml
vary: {spares.hot: {choices: [1, 2]}}
replications: 4
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a study in the working folder."""
    small.write(tmp_path, monkeypatch)
    (tmp_path / "tiny.yaml").write_text(STUDY)
    return "tiny.yaml"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("optimize", "tiny.yaml:1:1: optimize: is missing"),
        ("optimize --set optimize={maximize:\\ ettr,subject_to:\\ [x\\ bad]}", "'x bad' is no condition"),
        ("sensitivity --metric etr", "--metric etr: is no metric; did you mean 'ettr'?"),
        ("sensitivity --samples 7", "--samples 7: must be a power of two, 4 or 8"),
        ("sensitivity --method torado", "--method: 'torado' is not a choice; did you mean 'tornado'?"),
        ("sweep --executor proces", "--executor: 'proces' is not a choice; did you mean 'process'?"),
        ("sweep --replications x", "--replications: must be a whole number"),
        ("sweep --replications 1", "--replications: must be at least 2"),
        ("sweep --precision 0.2", "--precision: '0.2' is not a precision: write 0.1pt"),
        ("sweep --precision 1pt --set metrics=[mtti]", "--precision 1pt: precision.width: points are for shares"),
        ("sweep --precision 1pt --shard 1/3", "precision: is not for shards"),
        ("sweep --set metrics=[ettr,cost]", "metrics.1: no point has a cost: prices are not known: give cost.gpu_hour"),
        (
            "sweep --set questions=[{ask:\\ best,metric:\\ p_finish_by}]",
            "no point has a p_finish_by: no job has an end",
        ),
    ],
)
def test_a_mistake_is_a_line_and_leaves_no_folder(study: str, arguments: str, message: str) -> None:
    """It names the option that was typed, or the place in the file; nothing was played, so nothing is made."""
    command, *options = (word.replace("\0", " ") for word in arguments.replace("\\ ", "\0").split())
    result = small.call(command, study, *options, "--out", "new/folder")
    assert (result.exit_code, result.stdout) == (WRONG, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not Path("new").exists()


@pytest.mark.parametrize("command", one_in(2, ["sweep", "optimize"]))
def test_spares_that_idle_nodes_stand_in_for_are_warned_of(study: str, command: str) -> None:
    """With two idle nodes beside them, no spares do as well as two: said, whichever point is the answer."""
    asked = "optimize={maximize: ettr, confirm: 16}"
    points = ("--set", "vary={spares.hot: {choices: [0, 2]}}", "--set", asked, "--json")
    found = small.call(command, study, *points)
    assert "spares.idle: withhold" in json.dumps(json.loads(found.stdout)["warnings"])
    withheld = small.call(command, study, *points, "--set", "set={spares.idle: withhold}")
    derived = small.call(command, study, *points, "--set", "set={cluster: {gpus_per_node: 8}}")
    assert json.loads(withheld.stdout)["warnings"] == json.loads(derived.stdout)["warnings"] == []
    tell = "cells" if command == "sweep" else "tried"
    ettr = [
        [point["metrics"]["ettr"]["mean"] if command == "sweep" else point["aims"]["ettr"]["mean"] for point in points]
        for points in (json.loads(each.stdout)[tell] for each in (found, withheld, derived))
    ]
    assert ettr[0][0] == ettr[0][1]
    assert ettr[1] == ettr[2]
    assert ettr[1][0] < ettr[1][1]


def test_what_is_a_scenario_is_not_a_study(study: str) -> None:
    """Each is sent to the command that takes it, by name and as a file."""
    for command, name, words in (
        ("sweep", "quickstart", "is a scenario, not a study: use ettrick run"),
        ("optimize", "small.yaml", "is a scenario, not a study: use ettrick run"),
        ("run", "spares-and-repair", "is a study, not a scenario: use ettrick sweep"),
        ("check", study, "is a study, not a scenario: use ettrick sweep"),
    ):
        result = small.call(command, name)
        assert (result.exit_code, result.stderr) == (WRONG, f"{name}: {words}\n")
    assert "did you mean 'quickstart'" in small.call("run", "quickstar").stderr


def test_options_are_in_place_of_what_the_study_says(study: str) -> None:
    """A number of replications takes a precision away and the other way round; what else a precision says stays."""
    number = load_study(study, ("replications=8",), replications=6).study
    assert (number.replications, number.precision) == (6, None)
    changed = load_study(study, (), precision="1%").study
    assert changed.replications is None
    assert changed.precision is not None
    assert changed.precision.width == "1%"
    Path(study).write_text(STUDY.replace("replications: 4", "precision: {width: 2%, least: 20}"))
    narrower = load_study(study, (), precision="1%").study.precision
    assert narrower is not None
    assert (narrower.width, narrower.least) == ("1%", 20)
    assert load_study(study, (), replications=6).study.precision is None


def test_a_metric_that_some_points_have_is_none_that_no_point_has(study: str) -> None:
    """Prices on one axis and tokens on another come together in a cell: a cost per token is not refused."""
    vary = (
        "vary={paid: {choices: {no: {spares.hot: 2}, yes: {cost: {gpu_hour: 2}}}}, "
        "fed: {choices: {no: {horizon: 3 d}, yes: {jobs.0.batch: {tokens: 1 Mi, sequence: 8192}}}}}"
    )
    metric = "metrics=[cost_per_token]"
    assert against_metrics(load_study(study, (vary, metric))) == []
    (line,) = against_metrics(
        load_study(study, (vary.replace("yes: {cost: {gpu_hour: 2}}", "yes: {spares.hot: 1}"), metric))
    )
    assert "no point has a cost_per_token: prices are not known" in line


def test_a_reader_that_leaves_does_not_change_the_status(study: str) -> None:
    """With `head -1` a study that went well has gone well, and no library has anything to say at the end."""
    reader, writer = os.pipe()
    os.close(reader)
    arguments = ["sweep", study, "-q", "--executor", "serial", "--out", "kept"]
    code = f"import sys; sys.argv[1:] = {arguments}; import cli; cli.app()"
    try:
        result = subprocess.run([sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    assert (result.returncode, result.stderr) == (0, b"")


def test_lines_of_progress_are_round(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows what is left to a hundredth of a second; without a total it is said how far it is."""
    clock = iter((0.0, 1.0, 31.23, 62.0))
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    progress = Progress("tasks", quiet=False, lines=True)
    progress(0, 400)
    progress(160, 400)
    progress(200, None)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "tasks: 160 of 400, about 45 s left"
    assert second == "tasks: 200 so far, in 62 s; how many it takes shows on the way"

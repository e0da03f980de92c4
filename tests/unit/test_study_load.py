"""Study files: each mistake is one line with its place, path, rule and nearest name; options and files become part."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ettrick import sim
from ettrick.analysis.results.run import checksum
from ettrick.analysis.study import load as looking
from ettrick.analysis.study.load import (
    LoadedStudy,
    against_metrics,
    against_question,
    find_study,
    first_look,
    load_study,
)
from ettrick.analysis.sweep.campaign import Campaign
from ettrick.analysis.sweep.folder import StudyFolder
from ettrick.analysis.sweep.journal import Journal
from ettrick.analysis.sweep.task import Context, Task, run_task
from ettrick.analysis.sweep.workers import Serial, WorkerPool
from ettrick.sim.cluster import GRAPH_FORMATS
from tests import report_sample
from tests.cases import cases, mistake_lines
from tests.pace import one_in
from tests.typed import present
from tests.unit.bad_input import BASE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ettrick.analysis.study.amounts import Point


# Mistakes in orders to simulate a study: a line that names the option, status 2, and no folder that holds nothing.

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
    report_sample.write(tmp_path, monkeypatch)
    (tmp_path / "tiny.yaml").write_text(STUDY)
    return "tiny.yaml"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("optimize", "tiny.yaml:1:1: optimize: missing section"),
        ("optimize --set optimize={maximize:\\ ettr,subject_to:\\ [x\\ bad]}", "'x bad' is not a condition"),
        ("sensitivity --metric etr", "--metric: unknown metric 'etr'; did you mean 'ettr'?"),
        ("sensitivity --samples 7", "--samples 7: must be a power of two, 4 or 8"),
        ("sensitivity --method torado", "--method: 'torado' is not a choice; did you mean 'tornado'?"),
        ("sweep --executor proces", "--executor: 'proces' is not a choice; did you mean 'process'?"),
        ("sweep --replications x", "--replications: must be a whole number"),
        ("sweep --replications 1", "--replications: must be at least 2"),
        ("sweep --precision 0.2", "--precision: '0.2' is not a precision: write 0.1pt"),
        (
            "sweep --precision 1pt --set metrics=[mtti]",
            "--precision 1pt: precision.width: percentage points are for shares",
        ),
        ("sweep --precision 1pt --shard 1/3", "precision: is not for shards"),
        ("sweep --set metrics=[ettr,cost]", "metrics.1: no point has a cost: prices are not known: give cost.gpu_hour"),
        (
            "sweep --set questions=[{use:\\ best,metric:\\ p_finish_by}]",
            "no point has a p_finish_by: no job has an end",
        ),
    ],
)
def test_a_mistake_is_a_line_and_leaves_no_folder(study: str, arguments: str, message: str) -> None:
    """It names the option that was typed, or the place in the file; nothing was simulated, so nothing is made."""
    command, *options = (word.replace("\0", " ") for word in arguments.replace("\\ ", "\0").split())
    result = report_sample.call(command, study, *options, "--out", "new/folder")
    assert (result.exit_code, result.stdout) == (WRONG, "")
    assert message in result.stderr
    assert len(mistake_lines(result.stderr)) == 1
    assert not Path("new").exists()


@pytest.mark.parametrize("command", one_in(2, ["sweep", "optimize"]))
def test_spares_that_idle_nodes_stand_in_for_are_warned_of(study: str, command: str) -> None:
    """With two idle nodes beside them, no spares do as well as two: said, whichever point is the answer."""
    asked = "optimize={maximize: ettr, confirm: 16}"
    points = ("--set", "vary={spares.hot: {choices: [0, 2]}}", "--set", asked, "--json")
    found = report_sample.call(command, study, *points)
    assert "spares.idle: withhold" in json.dumps(json.loads(found.stdout)["warnings"])
    withheld = report_sample.call(command, study, *points, "--set", "set={spares.idle: withhold}")
    derived = report_sample.call(command, study, *points, "--set", "set={cluster: {gpus_per_node: 8}}")
    assert json.loads(withheld.stdout)["warnings"] == json.loads(derived.stdout)["warnings"] == []
    tell = "cells" if command == "sweep" else "trials"
    ettr = [
        [point["metrics"]["ettr"]["mean"] if command == "sweep" else point["aims"]["ettr"]["mean"] for point in points]
        for points in (json.loads(each.stdout)[tell] for each in (found, withheld, derived))
    ]
    assert ettr[0][0] == ettr[0][1]
    assert ettr[1] == ettr[2]
    assert ettr[1][0] < ettr[1][1]


FORMER = """\
name: former
scenario: small.yaml
vary:
  spares.hot: {choices: [0, 2]}
  repair.time: {distribution: {law: uniform, min: 1 h, max: 9 h}}
questions:
  - {ask: threshold, at_least: 90 %, along: spares.hot, over: luck}
"""


def test_former_words_are_read_with_a_hint(study: str, caplog: pytest.LogCaptureFixture) -> None:
    """`ask`, `law` and `over: luck` are `use` and `over: runs`, in files and in options; one line a file says so."""
    today = FORMER.replace("ask:", "use:").replace("law:", "use:").replace("luck", "runs")
    found = []
    for name, text in (("words.yaml", FORMER), ("today.yaml", today)):
        Path(name).write_text(text)
        found.append(load_study(name, (f"questions.0.{'ask' if name == 'words.yaml' else 'use'}=threshold",)).study)
    assert found[0] == found[1]
    assert [record.getMessage() for record in caplog.records] == [
        "words.yaml:5:32: hint: 'law: uniform' is now written 'use: uniform'; both are read"
    ]


def test_results_with_former_names_are_reported(study: str) -> None:
    """A sealed document whose answers have `ask` is that of today; one that was changed is still refused."""
    assert report_sample.call("sweep", study, "--set", "questions=[{use: best}]", "--out", "swept").exit_code == 0
    path = Path("swept/run.json")
    content = json.loads(path.read_text())
    content["answers"][0]["ask"] = content["answers"][0].pop("use")
    for seal, status in ((checksum(content), 0), ("0", WRONG)):
        content["provenance"]["sha256"] = seal
        path.write_text(json.dumps(content))
        assert report_sample.call("report", "swept", "--format", "md").exit_code == status


BUDGETS = "--budget gpus=30000 or --budget power='100 MW'"


def test_what_is_a_scenario_is_not_a_study(study: str) -> None:
    """Each is sent to the command that takes it, by name and as a file."""
    for command, name, words in (
        ("sweep", "quickstart", "is a scenario, not a study: use ettrick run"),
        ("optimize", "small.yaml", f"a scenario needs a budget, for example {BUDGETS}"),
        ("run", "spares-and-repair", "is a study, not a scenario: use ettrick sweep"),
    ):
        result = report_sample.call(command, name)
        assert (result.exit_code, result.stderr) == (WRONG, f"{name}: {words}\n")
    assert "did you mean 'quickstart'" in report_sample.call("run", "quickstar").stderr


def test_options_are_in_place_of_what_the_study_says(study: str) -> None:
    """A number of replications takes a precision away and the other way round; what else a precision says stays."""
    number = load_study(study, ("replications=8",), replications=6).study
    assert (number.replications, number.precision) == (6, None)
    changed = load_study(study, (), precision="1%").study
    assert changed.replications is None
    assert present(changed.precision).width == "1%"
    Path(study).write_text(STUDY.replace("replications: 4", "precision: {width: 2%, least: 20}"))
    narrower = present(load_study(study, (), precision="1%").study.precision)
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


def test_a_clause_without_an_answer_is_told(study: str) -> None:
    """The line has the place and the clause; the study is valid, and with an entry for each clause nothing is told."""
    path = Path(study)
    path.write_text(path.read_text("utf-8") + "question: How often to save, and what is a spare worth?\n", "utf-8")
    one, two = ("questions=[{use: best}]", "questions=[{use: best}, {use: best}]")
    (line,) = against_question(load_study(study, (one,)))
    assert re.search(r"tiny.yaml:\d+:\d+: question: no entry of `questions` answers 'what is a spare worth[?]'", line)
    assert against_question(load_study(study, (two,))) == []
    result = report_sample.call("check", study, "--set", one)
    assert (result.exit_code, result.stderr) == (0, f"warning: {line}\n")


# Files that a study names: outcomes are found by what was in them, wherever they lie, and never by their names.

NAMES = [f"n{node}" for node in range(16)]

INVENTORIES = {"up.txt": NAMES, "down.txt": NAMES[::-1]}

LOGS = {"calm.csv": "n1,10,20,gpu", "wild.csv": "n1,5,20,gpu\nn2,6,30,gpu"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two logs, two graphs, and a scenario that reads neither of them."""
    source = tmp_path / "source"
    source.mkdir()
    for name, rows in LOGS.items():
        (source / name).write_text(f"unit,start,end,cause\n{rows}\n")
    for name, nodes in INVENTORIES.items():
        (source / name).write_text("\n".join(["node", *nodes, ""]))
    for name, nodes in (("one", 4), ("two", 8)):
        build = sim.parse({**report_sample.SMALL, "cluster": cluster(leaf={"nodes": nodes})}).cluster.build()
        (source / f"{name}.json").write_text(GRAPH_FORMATS["json"](build))
    (source / "base.yaml").write_text(sim.dump(report_sample.SMALL))
    return source


def cluster(**fabric: Any) -> dict[str, Any]:
    """Return the small cluster with another fabric."""
    return {**report_sample.SMALL["cluster"], "fabric": {"rails": 8, **fabric}}


def log(name: str) -> dict[str, Any]:
    """Return a source of failures that reads a log."""
    return {"use": "replay", "file": name, "time_unit": "h"}


def graph(name: str) -> dict[str, Any]:
    """Return a fabric that reads a graph."""
    return {"use": "graph-file", "file": name, "rails": 8}


STUDIES: dict[str, dict[str, Any]] = {
    "paths": {
        "set": {"failures": [log("calm.csv")]},
        "vary": {"failures.0.file": {"choices": ["calm.csv", "wild.csv"]}},
    },
    "mappings": {
        "vary": {"log": {"path": "failures.0", "choices": {"calm": log("calm.csv"), "wild": log("wild.csv")}}}
    },
    "linked": {
        "vary": {
            "together": {
                "choices": {
                    "calm": {"failures.0": log("calm.csv"), "spares.hot": 1},
                    "wild": {"failures.0": log("wild.csv"), "spares.hot": 2},
                }
            }
        }
    },
    "lists": {"vary": {"log": {"path": "failures", "choices": {"calm": [log("calm.csv")], "wild": [log("wild.csv")]}}}},
    "everywhere": {"set": {"failures.0": log("wild.csv")}, "vary": {"spares.hot": {"choices": [1, 2]}}},
    "inventories": {
        "set": {"failures": [log("wild.csv")]},
        "vary": {"failures.0.inventory": {"choices": ["up.txt", "down.txt"]}},
    },
    "graphs": {
        "vary": {"graph": {"path": "cluster.fabric", "choices": {"one": graph("one.json"), "two": graph("two.json")}}}
    },
}


def study_with_files(folder: Path, **changes: Any) -> LoadedStudy:
    """Return a study of the scenario in a folder."""
    path = folder / "study.yaml"
    path.write_text(sim.dump({"name": "files", "scenario": "base.yaml", "replications": 2, **changes}))
    return load_study(path)


def keys(loaded: LoadedStudy) -> list[str]:
    """Return the keys of all tasks."""
    nothing: Any = None
    campaign = Campaign(loaded, nothing, nothing)
    return [task.key for point in loaded.points() for task in campaign.tasks(point, 2)]


@pytest.mark.parametrize(
    ("name", "file", "changed"),
    [
        ("paths", "wild.csv", [False, True]),
        ("mappings", "wild.csv", [False, True]),
        ("linked", "wild.csv", [False, True]),
        ("lists", "wild.csv", [False, True]),
        ("graphs", "two.json", [False, True]),
        ("inventories", "down.txt", [False, True]),
        ("inventories", "wild.csv", [True, True]),
        ("everywhere", "wild.csv", [True, True]),
        ("everywhere", "calm.csv", [False, False]),
    ],
)
def test_a_changed_file_changes_the_keys_of_the_points_that_read_it(
    folder: Path, name: str, file: str, changed: list[bool]
) -> None:
    """And of no others; its name does not matter."""
    before = keys(study_with_files(folder, **STUDIES[name]))
    (folder / file).write_text((folder / file).read_text() + "\n")  # an empty line changes nothing else
    after = keys(load_study(folder / "study.yaml"))
    assert [one != other for one, other in zip(before, after, strict=True)] == changed
    shutil.move(folder, folder.parent / "elsewhere")
    assert keys(load_study(folder.parent / "elsewhere" / "study.yaml")) == after


@pytest.mark.parametrize("name", STUDIES)
def test_files_go_along_with_the_folder_of_a_study(folder: Path, tmp_path: Path, name: str) -> None:
    """With their sources gone, and moved, it has the same keys and labels and can be simulated."""
    loaded = study_with_files(folder, **STUDIES[name])
    told = [[value.label for value in point.values] for point in loaded.points()]
    with StudyFolder(tmp_path / "out", loaded) as found:
        simulate_all(loaded, found.journal)
    shutil.rmtree(folder)
    shutil.move(tmp_path / "out", tmp_path / "moved")
    again = load_study(tmp_path / "moved" / "study.resolved.yaml")
    assert keys(again) == keys(loaded)
    assert [[value.label for value in point.values] for point in again.points()] == told
    with StudyFolder(tmp_path / "moved", again) as found:
        assert found.notes == ()
        assert simulate_all(again, found.journal) == []
        assert [record.status for record in found.journal] == ["ok"] * 2
    with Journal(tmp_path / "new") as journal:
        assert simulate_all(again, journal) == ["ok"] * 2


def simulate_all(loaded: LoadedStudy, journal: Journal) -> list[str]:
    """Play the points of a study in this process; return the statuses of what was simulated."""
    simulated: list[str] = []
    worker_pool = WorkerPool(Serial())
    campaign = Campaign(loaded, journal, worker_pool, lambda _done, _total: simulated.append(""))
    campaign.simulate(list(loaded.points()), 2)
    statuses = [journal.get(key).status for key in keys(loaded)]
    return statuses[: len(simulated)]


def tasks_of(loaded: LoadedStudy) -> Iterator[tuple[Context, Task]]:
    """Yield the tasks of a study with what they share."""
    nothing: Any = None
    campaign = Campaign(loaded, nothing, nothing)
    for point in loaded.points():
        for task in campaign.tasks(point, 2):
            yield campaign.context, task


def test_a_file_that_changes_while_it_is_played_makes_no_outcome(folder: Path) -> None:
    """Neither does another one of the same name on another machine: what came of it would be taken for the old one."""
    context, task = list(tasks_of(study_with_files(folder, **STUDIES["paths"])))[1]
    (folder / "wild.csv").write_text((folder / "calm.csv").read_text() + "\n")
    record = run_task(context, task)
    assert (record.status, record.rows, record.notes) == ("failed", {}, {})
    assert record.reason == "a file that it names was changed, or is another one where it ran"


def test_a_file_that_breaks_a_rule_is_an_answer(folder: Path) -> None:
    """A log of more nodes than there are, and one that is none, will be so the next time."""
    (folder / "calm.csv").write_text("unit,start,end\n" + "".join(f"n{unit},{unit},{unit + 1}\n" for unit in range(17)))
    (folder / "wild.csv").write_text("unit,start,end\nn1,9,5\n")
    found = [run_task(context, task) for context, task in tasks_of(study_with_files(folder, **STUDIES["paths"]))]
    assert [record.status for record in found] == ["infeasible"] * 2
    assert "17 units" in found[0].reason
    assert "ends (5) before it starts (9)" in found[1].reason


@pytest.mark.parametrize("name", ["log", "graph"])
def test_a_process_that_lives_on_sees_a_file_that_was_changed(folder: Path, name: str) -> None:
    """What it keeps from task to task of a scenario is not what the files said before."""
    file = folder / ("calm.csv" if name == "log" else "one.json")
    changes = {"failures": [log("calm.csv")]} if name == "log" else {"cluster": cluster(**graph("one.json"))}
    (folder / "base.yaml").write_text(sim.dump({**report_sample.SMALL, **changes}))
    content: list[Any] = []
    for other in (None, "wild.csv" if name == "log" else "two.json"):
        if other:
            shutil.copy(folder / other, file)
        loaded = study_with_files(folder, vary={"spares.hot": {"choices": [1]}})
        ((context, task),) = tasks_of(loaded)
        content.append(run_task(context, task))
    assert [record.status for record in content] == ["ok", "ok"]
    assert content[0].key != content[1].key
    if name == "log":
        assert content[0].rows["interruptions"] != content[1].rows["interruptions"]


def test_what_scenarios_share_is_not_shared_with_an_earlier_graph(folder: Path) -> None:
    """A fabric is built again when its file has changed, though the scenario says the same."""
    changes = {"cluster": cluster(**graph("one.json")), "scheduler": {"pack": "leaf"}}
    (folder / "base.yaml").write_text(sim.dump({**report_sample.SMALL, **changes}))
    template = sim.template(folder / "base.yaml")
    assert len(set(sim.prepare(template.scenario()).packed_by)) == 4
    shutil.copy(folder / "two.json", folder / "one.json")
    assert len(set(sim.prepare(template.scenario()).packed_by)) == 2


BASE_STUDY = """\
name: base
scenario: s.yaml
set:
  horizon: 20 d
vary:
  spares.hot: {choices: [0, 2, 4]}
  interval: {path: checkpoint.tiers.0.interval, range: {min: 10 min, max: 2 h, points: 3, scale: log}}
  failures.0.rate: {distribution: {use: between, p05: 5 per 1000 node-day, p95: 9 per 1000 node-day}}
design: {use: grid, draws: 20}
metrics: [ettr]
replications: 12
questions:
  - {use: best}
"""

HOT, INTERVAL, RATE = "  spares.hot: ", "  interval: {path: checkpoint.tiers.0.interval, range: ", "  failures.0.rate: "

DRAWN, DESIGN = RATE + "{distribution: ", "design: {use: "


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of its own, beside a scenario."""
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(BASE, encoding="utf-8")
    return tmp_path


def loaded(changes: dict[int, str] | str = "", *options: str) -> LoadedStudy:
    """Return the base study with some of its lines replaced."""
    Path("study.yaml").write_text(changed(changes)[0], encoding="utf-8")
    return load_study("study.yaml", options)


def changed(changes: dict[int, str] | str) -> tuple[str, str]:
    """Return a study with some lines replaced, and the place where § stood in it."""
    lines = BASE_STUDY.splitlines()
    for number, line in changes.items() if isinstance(changes, dict) else ():
        lines[number - 1] = line
    before, sign, after = (
        (changes or "\n".join(lines) + "\n").partition("§")
        if isinstance(changes, str)
        else ("\n".join(lines) + "\n").partition("§")
    )
    place = f"study.yaml:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}: " if sign else ""
    return before + after, place


def complaints(changes: dict[int, str] | str = "", *options: str) -> list[str]:
    """Return what is said against the base study with some of its lines replaced."""
    try:
        return first_look(loaded(changes, *options))
    except sim.ScenarioError as error:
        return list(error.lines)


CASES: list[tuple[str, dict[int, str] | str, str]] = [
    # name, what is written in which line (§ is where the message must point), what is said there
    ("unknown key", {11: "§replicatoins: 12"}, "unknown key 'replicatoins'; did you mean 'replications'?"),
    ("unknown key of an axis", {6: HOT + "{§choice: [0]}"}, "unknown key 'choice'; did you mean 'choices'?"),
    ("axis as a list", {6: HOT + "§[0, 2]"}, "vary.spares.hot: a list of values goes into choices"),
    ("axis as text", {6: HOT + "§much"}, "must be a mapping (keys: title, noun, path, paths, choices"),
    ("no values", {6: HOT + "§{}"}, "give choices, a range, a distribution or derive: exactly one, and none is there"),
    ("two kinds", {6: HOT + "§{choices: [0], range: {min: 0, max: 4, step: 1}}"}, "not choices and range together"),
    ("no choices", {6: HOT + "{choices: §[]}"}, "choices: is empty: name at least one value"),
    ("null", {6: HOT + "{choices: [0, §null]}"}, "item has no value"),
    (
        "twice in two units",
        {7: "  interval: {path: checkpoint.tiers.0.interval, choices: [60 min, §1 h]}"},
        "is 60 min",
    ),
    ("metric twice", {10: "metrics: [ettr, §ettr]"}, "ettr is given twice"),
    ("twice", {6: HOT + "{choices: [0, 2, §2]}"}, "2 is given twice"),
    (
        "two of a name",
        {6: "  recovery: {choices: [{use: hot-spare, initialize: 1 min}, §{use: hot-spare, initialize: 2 min}]}"},
        "hot-spare is the name of two choices; name the choices",
    ),
    ("not finite", {6: HOT + "{choices: [§.nan]}"}, "must be a finite number"),
    ("too many digits", {6: HOT + "{choices: [§1" + "0" * 400 + "]}"}, "has too many digits"),
    ("no mapping", {6: "  size: {choices: {1k: §3}}"}, "must be a mapping {path: value} of linked parameters"),
    ("path and paths", {6: "  s: {path: spares.hot, paths: §[spares.warm], choices: [1]}"}, "path or paths, not both"),
    ("step and points", {7: INTERVAL + "{min: 1 min, max: 2 h, points: §3, step: 5 min}}"}, "not both"),
    ("no step in a grid", {7: INTERVAL + "§{min: 1 min, max: 2 h}}"}, "needs a step or a number of points in a grid"),
    ("one point", {7: INTERVAL + "{min: 1 min, max: 2 h, points: §1}}"}, "one point is not a range"),
    ("upside down", {7: INTERVAL + "{min: 10 min, max: §2 min, points: 3}}"}, "2 min is not above 10 min"),
    ("two units", {7: INTERVAL + "§{min: 10 min, max: 2 GB, points: 3}}"}, "'GB' is a unit of size, not of time"),
    ("one unit", {7: INTERVAL + "§{min: 10, max: 2 h, points: 3}}"}, "give all of them a unit, or none"),
    ("m", {7: INTERVAL + "§{min: 10 m, max: 2 h, points: 3}}"}, "did you mean 'min'?"),
    ("below zero", {7: INTERVAL + "§{min: -10 min, max: 2 min, points: 3}}"}, "must not be negative"),
    ("log from zero", {7: INTERVAL + "{min: §0, max: 2 h, points: 3, scale: log}}"}, "a log scale begins above zero"),
    ("log step", {7: INTERVAL + "{min: 1 s, max: 2 h, step: §5 min, scale: log}}"}, "a factor above one"),
    ("log step of one", {7: INTERVAL + "{min: 1 s, max: 2 h, step: §1, scale: log}}"}, "a factor above one"),
    ("no step", {7: INTERVAL + "{min: 1 s, max: 2 h, step: §0}}"}, "must be above zero"),
    ("small step", {7: INTERVAL + "{min: 1 s, max: 2 h, step: §1 us}}"}, "makes more than 10,000 values"),
    ("step unit", {7: INTERVAL + "{min: 1 s, max: 2 h, step: §1 GB}}"}, "'GB' is a unit of size"),
    ("scale", {7: INTERVAL + "{min: 1 s, max: 2 h, points: 3, scale: §lg}}"}, "did you mean 'log'?"),
    ("few numbers", {6: HOT + "{range: {min: 0, max: 4, points: §9}}"}, "there are 5 whole numbers from 0 to 4"),
    ("half a step", {6: HOT + "{range: {min: 0, max: 4, step: §0.5}}"}, "must be a whole number, as min and max"),
    ("law", {8: DRAWN + "{use: §unifrm, min: 1, max: 2}}"}, "did you mean 'uniform'?"),
    ("no law", {8: DRAWN + "§{min: 1, max: 2}}"}, "needs 'use' (choose from uniform, loguniform"),
    ("law alone", {8: DRAWN + "§uniform}"}, "write {use: uniform}"),
    ("key of a law", {8: DRAWN + "{use: uniform, min: 1, §mx: 2}}"}, "did you mean 'max'?"),
    ("law upside down", {8: DRAWN + "{use: uniform, min: 2, max: §1}}"}, "must be above min"),
    ("mode", {8: DRAWN + "{use: triangular, min: 2, mode: §1, max: 4}}"}, "must be above min"),
    ("log of zero", {8: DRAWN + "{use: lognormal, median: §0, sigma: 1}}"}, "must be above zero"),
    ("sigma", {8: DRAWN + "{use: lognormal, median: 1, sigma: §0}}"}, "must be above 0, not 0"),
    ("too wide", {8: DRAWN + "§{use: between, p05: 1.0e-300, p95: 1.0e+300}}"}, "is too wide"),
    ("two rates", {8: DRAWN + "§{use: uniform, min: 5 per node-day, max: 9 per gpu-day}}"}, "must have the same unit"),
    ("no number", {8: DRAWN + "§{use: uniform, min: [1], max: 2}}"}, "a list is not a number"),
    ("design", {9: DESIGN + "§gird}"}, "did you mean 'grid'?"),
    ("design alone", {9: "design: §sobol"}, "write {use: sobol}"),
    ("key of a design", {9: "design: {use: sobol, §sampels: 8}"}, "did you mean 'samples'?"),
    ("no power of two", {9: DESIGN + "sobol, samples: §12}"}, "must be a power of two, 8 or 16"),
    ("listed axis", {9: DESIGN + "list, points: [{spares.hto: §2, interval: 1 h}]}"}, "did you mean 'spares.hot'?"),
    ("listed too little", {9: DESIGN + "list, points: [§{spares.hot: 2}]}"}, "has no value of interval"),
    ("listed choice", {9: DESIGN + "list, points: [{spares.hot: §3, interval: 1 h}]}"}, "choose from 0, 2, 4"),
    ("listed unit", {9: DESIGN + "list, points: [{spares.hot: 2, interval: §3 GB}]}"}, "a unit of size, not of time"),
    ("listed outside", {9: DESIGN + "list, points: [{spares.hot: 2, interval: §3 h}]}"}, "outside of 10 min to 2 h"),
    (
        "listed unknown",
        {9: DESIGN + "list, points: [{spares.hot: 2, interval: 1 h, failures.0.rate: §6}]}"},
        "its values are drawn, not listed",
    ),
    ("nothing listed", {9: DESIGN + "list, points: §[]}"}, "must have at least 1 item"),
    ("base axis", {9: DESIGN + "one-at-a-time, base: {spares.ht: §2}}"}, "did you mean 'spares.hot'?"),
    ("base value", {9: DESIGN + "one-at-a-time, base: {spares.hot: §3}}"}, "choose from 0, 2, 4"),
    ("draws of nothing", {8: "", 9: "design: {draws: §30}"}, "nothing that varies has a distribution"),
    ("few draws", {9: "design: {draws: §3}"}, "must be at least 20, not 3"),
    ("question", {13: "  - {use: §bst}"}, "did you mean 'best'?"),
    ("question alone", {13: "  - §best"}, "write {use: best}"),
    ("key of a question", {13: "  - {use: best, §metrc: ettr}"}, "did you mean 'metric'?"),
    ("no question", {12: "questions: §{use: best}", 13: ""}, "must be a list, not a mapping"),
    ("same path", {7: "  other: §{path: spares.hot, choices: [1]}"}, "spares.hot is varied by spares.hot already"),
    (
        "inside",
        {6: HOT + "§{choices: [0, 2]}", 7: "  spares: {choices: [{hot: 1}]}"},
        "spares replaces spares as a whole",
    ),
    ("set and varied", {4: "  spares.hot: §3"}, "is varied too, by spares.hot; set it in one place"),
    ("seed varied", {6: "  seed: §{choices: [1, 2]}"}, "all points have the same seed"),
    ("seed set", {4: "  seed: §3"}, "give it to the study, as seed:"),
    ("steps of a path", {4: "  a..b: §3"}, "'a..b' is not a path such as spares.hot"),
    ("sign in a path", {6: "  h: {path: §'a=b', choices: [1]}"}, "'a=b' is not a path"),
    ("metric", {10: "metrics: [ettr, §etrr]"}, "unknown metric 'etrr'; did you mean 'ettr'?"),
    (
        "metric of a front",
        {10: "optimize: {maximize: ettr, pareto: [§cots]}"},
        "unknown metric 'cots'; did you mean",
    ),
    (
        "metric of a condition",
        {10: "optimize: {maximize: ettr, subject_to: [§p_finnish_by >= 0.9]}"},
        "unknown metric 'p_finnish_by'; did you mean 'p_finish_by'?",
    ),
    ("condition", {10: "optimize: {maximize: ettr, subject_to: [§ettr = 0.9]}"}, "'ettr = 0.9' is not a condition"),
    ("metric of a question", {13: "  - §{use: best, metric: gooput}"}, "did you mean 'goodput'?"),
    ("replications and precision", {11: "precision: §{width: 1%}\nreplications: 3"}, "not both"),
    ("width", {11: "precision: {width: §1 percent}"}, "write 0.1pt (percentage points) or 2%"),
    ("points of no share", {10: "metrics: [mtti]", 11: "precision: {width: §1pt}"}, "mtti is not one"),
    ("least and most", {11: "precision: {width: 1%, least: 50, most: §40}"}, "must be at least 50"),
    ("replications", {11: "replications: §many"}, "must be a whole number"),
    ("no name", {1: "§seed: 1"}, "name: is missing"),
    ("name", {1: "name: §a b"}, "'a b' must be of letters, digits"),
    ("no scenario", {1: "§name: base", 2: ""}, "scenario: is missing"),
    ("scenario of no name", {2: "scenario: §quikstart"}, "did you mean 'quickstart'?"),
    ("scenario beside", {2: "scenario: §s.yml"}, "did you mean 's.yaml'?"),
    ("study as a scenario", {2: "scenario: §study.yaml"}, "study.yaml is a study itself"),
]


@cases(("changes", "said"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_mistake_is_one_line(changes: dict[int, str] | str, said: str) -> None:
    """A mistake in a study is one line that names the place, the path and the rule, before any point is looked at."""
    with pytest.raises(sim.ScenarioError) as caught:
        loaded(changes)
    lines = caught.value.lines
    assert len(lines) == 1, lines
    assert lines[0].startswith(changed(changes)[1] or "no place")
    assert said in lines[0]
    assert lines[0].isprintable()
    for jargon in ("nput", "pydantic", "instance", "discriminator", "alue error", "None", "tuple"):
        assert jargon not in lines[0]


@cases(
    ("content", "said"),
    [
        (None, "rows.csv cannot be read: no such file or directory"),
        ("", "rows.csv:1: has no header; the first line names the columns"),
        ("spares.hot,spares.hot\n1,2\n", "rows.csv:1: column 'spares.hot' is there twice"),
        ("failures.0.rate\n2 per year\n", "need the same number of values each, three or more"),
        ("failures.0.rate,spares.hot\n2 per year\n", "rows.csv:2: has 1 fields, and the header 2"),
        ("failures.0.rate\n2\nnan\n", "rows.csv:3: column 'failures.0.rate' holds 'nan', which is not a finite number"),
        (
            "failures.0.rate\n1e400\n",
            "rows.csv:2: column 'failures.0.rate' holds '1e400', which is not a finite number",
        ),
    ],
)
def test_draws_that_are_none(content: str | None, said: str) -> None:
    """A file of draws that cannot be used is one line with the place of its name in the study."""
    Path("rows.csv").unlink(missing_ok=True)
    if content is not None:
        Path("rows.csv").write_text(content)
    with pytest.raises(sim.ScenarioError) as caught:
        loaded({8: "  fit: {distribution: {use: draws, file: rows.csv}}"})
    (line,) = caught.value.lines
    assert line.startswith("study.yaml:8:")
    assert said in line


def test_draws_go_along_with_a_study() -> None:
    """The rows are part of the study: written elsewhere, without the file, it makes the same points."""
    rows = "\n".join(f"{rate} per year,{hot}" for rate, hot in ((9, 2), (8, 1), (7, 3), (6, 2)))
    Path("rows.csv").write_text(f"failures.0.rate,spares.warm\n{rows}\n")
    first = loaded({8: "  fit: {distribution: {use: draws, file: rows.csv}}"})
    assert 'failures.0.rate="9 per year"' in first.overrides(next(first.points()))
    assert "spares.warm=2" in first.overrides(next(first.points()))
    Path("out").mkdir()
    Path("out/study.resolved.yaml").write_text(sim.dump(first.content()), encoding="utf-8")
    Path("out/scenario.resolved.yaml").write_text(sim.dump(first.template.content), encoding="utf-8")
    assert list(load_study("out/study.resolved.yaml").points()) == list(first.points())


def test_the_base_is_good() -> None:
    """What the table spoils is itself a study without a mistake, and there are many rows."""
    assert complaints() == []
    assert len({name for name, *_ in CASES}) == len(CASES) >= 60


@cases(
    ("text", "line"),
    [
        ("", "study.yaml: the file is empty"),
        ("- 1\n", "study.yaml:1:1: must hold a mapping (key: value) at the top level"),
    ],
)
def test_files_that_are_no_study(text: str, line: str) -> None:
    """A file without keys is one line."""
    Path("study.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(sim.ScenarioError) as caught:
        load_study("study.yaml")
    assert caught.value.lines == (line,)


def test_no_study_of_a_name() -> None:
    """A name that is nearly that of a shipped study is answered with it."""
    with pytest.raises(
        sim.ScenarioError, match="no such file or bundled study; did you mean 'checkpoint-interval-and-tier'"
    ):
        find_study("checkpoint-intreval-and-tier")


def test_a_scenario_with_a_mistake_has_its_own_line() -> None:
    """What is wrong in the file of the scenario is told with its own place, once."""
    Path("s.yaml").write_text(BASE.replace("horizon: 30 d", "horizon: : 30 d"), encoding="utf-8")
    assert [line.split(" ")[0] for line in complaints()] == ["s.yaml:3:10:"]
    Path("s.yaml").write_text(BASE.replace("repair:", "repiar:"), encoding="utf-8")
    (line,) = complaints()
    assert line.startswith("s.yaml:13:1: repiar: unknown key 'repiar'; did you mean 'repair'?")


def test_null_removes_what_a_scenario_says() -> None:
    """Of a study that leaves the nodes out each point has those of its job and spares; so has what it is kept as."""
    study = loaded({4: "  cluster.nodes: null"})
    Path("kept.yaml").write_text(sim.dump(study.content() | {"scenario": "s.yaml"}), encoding="utf-8")
    for found in (study, load_study("kept.yaml")):
        scenarios = [found.scenario(point) for point in found.points()]
        assert {scenario.spares.hot for scenario in scenarios} == {0, 2, 4}
        for scenario in scenarios:
            assert sim.examine(scenario).nodes == scenario.jobs[0].gpus // 8 + scenario.spares.hot
    with pytest.raises(sim.ScenarioError, match="key has no value"):
        loaded({4: "  cluster.nodes:"})


# What becomes part of a study beside its file: options, and the files that it names; and how it is written again.


def test_options_reach_paths_with_dots() -> None:
    """Below `set` and in the names of axes dots belong to the name; a new axis ends where the key of an axis begins."""
    study = loaded(
        "",
        "set.checkpoint.tiers.0.write=20 s",
        "vary.spares.hot.choices=[1, 3]",
        "vary.repair.time.choices=[1 d, 2 d]",
        "replications=7",
    ).study
    assert study.set == {"horizon": "20 d", "checkpoint.tiers.0.write": "20 s"}
    assert list(study.vary) == ["spares.hot", "interval", "failures.0.rate", "repair.time"]
    assert study.vary["spares.hot"].choices == (1, 3)
    assert study.vary["repair.time"].choices == ("1 d", "2 d")
    assert study.replications == 7


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("replicatons=4", "replicatons: unknown key 'replicatons'; did you mean 'replications'?"),
        ("set.horizon=20", "set.horizon: '20' needs a unit"),
        ("vary.spares.hot.choices=[0, two]", "vary.spares.hot: two: 'two' is not a count"),
        ("vary.spares.hot.choices.7=1", "vary.spares.hot.choices: is a list of 3, counted from 0"),
        ("vary.spares.hot.choices=", "vary.spares.hot.choices: has no value"),
    ],
)
def test_mistakes_in_options(option: str, said: str) -> None:
    """A mistake in an option is one line that begins with the option as it was typed."""
    (line,) = complaints("", option)
    assert line.startswith(f"--set {option}: {said}")


CLUSTERS = {6: "  cluster: {choices: [clusters/a.yaml, clusters/b.yaml]}", 9: ""}


def write_clusters() -> None:
    """Write two clusters into a folder beside the study, the second one an extension of the first."""
    Path("clusters").mkdir()
    Path("clusters/a.yaml").write_text("name: a\nnodes: 20\nfabric: {leaf: {nodes: 4}}\n", encoding="utf-8")
    Path("clusters/b.yaml").write_text("extends: a.yaml\nnodes: 24\n", encoding="utf-8")


def test_clusters_in_files_become_part_of_the_study(monkeypatch: pytest.MonkeyPatch, workplace: Path) -> None:
    """Files of clusters are meant from the folder of the study, are called by their names, and need not stay there."""
    write_clusters()
    assert complaints(CLUSTERS) == []
    monkeypatch.chdir("/")
    study = load_study(workplace / "study.yaml")
    (workplace / "clusters" / "a.yaml").unlink()
    values = study.study.vary["cluster"].values("cluster")
    assert [value.label for value in values] == ["a", "b"]
    points = {point.values[0].label: point for point in study.points()}
    nodes = {
        label: sim.prepare(study.scenario(point)).scenario.cluster.counts()["node"] for label, point in points.items()
    }
    assert nodes == {"a": 20, "b": 24}


def test_a_cluster_that_is_not_there() -> None:
    """A file that cannot be read is a mistake of the study, at its place."""
    write_clusters()
    changes = {**CLUSTERS, 6: "  cluster: {choices: [clusters/a.yaml, §clusters/c.yaml]}"}
    (line,) = complaints(changes)
    assert line.startswith(f"{changed(changes)[1]}vary.cluster.choices.1: ")
    assert "c.yaml cannot be read: no such file or directory" in line


@pytest.mark.parametrize(
    "changes", [{}, CLUSTERS, {2: "scenario: quickstart", 6: HOT + "{choices: {none: 0, some: 2}, path: spares.hot}"}]
)
def test_a_study_that_was_written_is_the_same(changes: dict[int, str]) -> None:
    """What a study says as data, written and read again beside its scenario, makes the same points."""
    write_clusters()
    first = loaded(changes, "seed=5", "set.horizon=10 d")
    Path("out").mkdir()
    text = sim.dump(first.content())
    Path("out/study.resolved.yaml").write_text(text, encoding="utf-8")
    Path("out/scenario.resolved.yaml").write_text(sim.dump(first.template.content), encoding="utf-8")
    again = load_study("out/study.resolved.yaml")
    assert list(again.points()) == list(first.points())
    assert again.study == first.study.model_copy(update={"scenario": "scenario.resolved.yaml"})
    assert again.digest == first.digest
    assert "null" not in json.dumps(first.content())


def test_shipped_studies_have_no_mistakes() -> None:
    """Every study that comes with the program passes a first look, has a name and a description, and asks something."""
    shipped = sim.shipped("scenarios/studies")
    assert shipped
    for name, path in shipped.items():
        study = load_study(path)
        assert first_look(study) == [], name
        assert study.study.name == name


# The first look at a study: values that no point can have are told at their place, and nothing else is.

SIZES = "  jobs.0.gpus: {choices: [64, 120]}"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({6: "  §spares.hto: {choices: [0, 2]}"}, "vary.spares.hto: unknown key 'hto'; did you mean 'hot'?"),
        ({6: "  h: {path: §spares.hto, choices: [0, 2]}"}, "vary.h: spares.hto: unknown key 'hto'; did you mean 'hot'"),
        ({6: "  §jobs.4.gpus: {choices: [8, 16]}"}, "vary.jobs.4.gpus: jobs: is a list of 1, counted from 0"),
        (
            {7: "  §checkpoint.tiers.0.intervl: {range: {min: 10 min, max: 2 h, points: 3}}"},
            "vary.checkpoint.tiers.0.intervl: unknown key 'intervl'; did you mean 'interval'?",
        ),
        ({6: HOT + "{choices: [0, §two, 4]}"}, "vary.spares.hot: two: 'two' is not a count"),
        ({8: RATE + "{distribution: §{use: uniform, min: 1 min, max: 2 min}}"}, "vary.failures.0.rate: "),
        (
            {6: "  recovery.use: {choices: [hot-spare, §hot-spar]}"},
            "vary.recovery.use: hot-spar: 'hot-spar' is not a choice; did you mean 'hot-spare'?",
        ),
        (
            {6: "  recovery: {choices: {a: {use: hot-spare, initialize: 1 min}, b: §{use: hot-spar}}, path: recovery}"},
            "vary.recovery: b: recovery.use: 'hot-spar' is not a choice; did you mean 'hot-spare'?",
        ),
        (
            {6: "  size: {choices: {1k: {jobs.0.gpus: 64}, 2k: §{jobs.0.gpus: 64, cluster.noods: 20}}}"},
            "vary.size: 2k: cluster.noods: unknown key 'noods'; did you mean 'nodes'?",
        ),
        ({4: "  horizn: §20 d"}, "set.horizn: unknown key 'horizn'; did you mean 'horizon'?"),
        ({4: "  horizon: §20"}, "set.horizon: '20' needs a unit"),
        ({4: '  horizon: §"a\\u2028b"'}, "set.horizon: 'a\\u2028b' is not a quantity"),
        (
            {6: HOT + "{range: {min: 0, max: 9000, step: 1}}", 9: "design: §{}"},
            "design: makes 567,063 points, and more",
        ),
        ({9: "design: §{use: sobol, samples: 1048576}"}, "design: makes 1,048,576 points, and more than 100,000"),
    ],
    ids=repr,
)
def test_a_value_that_cannot_be_is_one_line(changes: dict[int, str], said: str) -> None:
    """A path or a value that no point can have is one line at its place in the study, without the option behind it."""
    lines = complaints(changes)
    assert len(lines) == 1, lines
    assert lines[0].startswith(changed(changes)[1] + said)
    assert "--set" not in lines[0]


def test_all_mistakes_at_once() -> None:
    """Values of several axes are told together, each at its place."""
    changes = {4: "  horizon: 20", 6: HOT + "{choices: [-1, two]}", 7: INTERVAL + "{min: 10, max: 20, points: 2}}"}
    places = [line.split(": ")[0] for line in complaints(changes)]
    assert places == ["study.yaml:4:12", "study.yaml:6:26", "study.yaml:6:30", "study.yaml:7:62", "study.yaml:7:71"]


def test_what_fails_in_combination_only_is_no_mistake() -> None:
    """A number of spares that is too much for one size of the job is fine, as long as another size leaves room."""
    assert complaints({6: HOT + "{choices: [0, 4]}", 7: SIZES}) == []
    study = loaded({6: HOT + "{choices: [0, 4]}", 7: SIZES})
    with pytest.raises(ValueError, match="can never start"):
        study.scenario(next(point for point in study.points() if [v.label for v in point.values[:2]] == ["4", "120"]))


def test_what_does_not_fit_is_no_mistake() -> None:
    """A model that the memory of its GPUs cannot hold is an answer of the study, whichever value it is."""
    job = "gpus: 64, model: llama3-405b, batch: {tokens: 16777216, sequence: 8192}, parallelism: {data: 64}"
    Path("s.yaml").write_text(BASE.replace("gpus: 64, step_time: 10 s", job), encoding="utf-8")
    study = loaded()
    with pytest.raises(sim.ScenarioError) as caught:
        study.scenario(next(study.points()))
    assert caught.value.is_answer
    assert first_look(study) == []


def test_a_cluster_in_a_file_is_called_by_its_name() -> None:
    """What is wrong with a cluster that a file describes is told under the name of the file, without its content."""
    write_clusters()
    Path("clusters/b.yaml").write_text("extends: a.yaml\nnodes: 0\n", encoding="utf-8")
    (line,) = complaints(CLUSTERS)
    assert line.startswith("study.yaml:6:")
    assert "vary.cluster: b: " in line
    assert "leaf" not in line


@pytest.mark.parametrize("name", ["paths", "mappings", "graphs", "everywhere"])
def test_a_file_that_is_away_is_no_answer(folder: Path, tmp_path: Path, name: str) -> None:
    """While it is away its points fail, are found again all the same, and are simulated as soon as it is back."""
    loaded = study_with_files(folder, **STUDIES[name])
    file = folder / ("two.json" if name == "graphs" else "wild.csv")
    bad = 1 + (name == "everywhere")
    with Journal(tmp_path / "journal") as journal:
        assert keys(loaded)
        file.rename(tmp_path / "away")
        assert simulate_all(loaded, journal) == ["ok"] * (2 - bad) + ["failed"] * bad
        campaign = Campaign(loaded, journal, WorkerPool(Serial()))
        last = list(loaded.points())[-1]
        assert file.name in campaign.outcome(last, 2).trouble
        (tmp_path / "away").rename(file)
        again = load_study(folder / "study.yaml")
        campaign = Campaign(again, journal, WorkerPool(Serial()))
        campaign.simulate(list(again.points()), 2)
        assert [journal.get(key).status for key in keys(again)] == ["ok", "ok"]


def test_big_studies_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20,000 points some dozens are read, both ends of every axis among them."""
    study = loaded(
        {
            6: HOT + "{range: {min: 0, max: 7, step: 1}}",
            7: INTERVAL + "{min: 10 min, max: 2 h, points: 100}}",
            9: "design: {draws: 24}",
        }
    )
    looked: list[Point] = []
    plain = looking._FirstLook._look

    def look(trials: looking._FirstLook, point: Point) -> tuple[looking._PointComplaint, ...]:
        looked.append(point)
        return plain(trials, point)

    monkeypatch.setattr(looking._FirstLook, "_look", look)
    assert study.study.design.count(study.study.vary) == 20_000
    assert first_look(study) == []
    assert len(looked) <= 60
    assert {"0", "7"} <= {point.values[0].label for point in looked}
    assert {"10 min", "2 h"} <= {point.values[1].label for point in looked}

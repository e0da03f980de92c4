"""Files that a study names: outcomes are found by what was in them, wherever they lie, and never by their names."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sim
from analysis.results.run import scenario_digest
from analysis.study.inputs import names_files, with_files
from analysis.study.load import LoadedStudy, load_study
from analysis.sweep.campaign import Campaign
from analysis.sweep.folder import StudyFolder
from analysis.sweep.journal import Journal
from analysis.sweep.task import Context, Task, play
from analysis.sweep.workers import Crew, Serial
from sim.cluster import GRAPH_FORMATS
from tests import small

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        build = sim.parse({**small.SMALL, "cluster": cluster(leaf={"nodes": nodes})}).cluster.build()
        (source / f"{name}.json").write_text(GRAPH_FORMATS["json"](build))
    (source / "base.yaml").write_text(sim.dump(small.SMALL))
    return source


def cluster(**fabric: Any) -> dict[str, Any]:
    """Return the small cluster with another fabric."""
    return {**small.SMALL["cluster"], "fabric": {"rails": 8, **fabric}}


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


def study(folder: Path, **changes: Any) -> LoadedStudy:
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
    before = keys(study(folder, **STUDIES[name]))
    (folder / file).write_text((folder / file).read_text() + "\n")  # an empty line changes nothing else
    after = keys(load_study(folder / "study.yaml"))
    assert [one != other for one, other in zip(before, after, strict=True)] == changed
    shutil.move(folder, folder.parent / "elsewhere")
    assert keys(load_study(folder.parent / "elsewhere" / "study.yaml")) == after


@pytest.mark.parametrize("name", STUDIES)
def test_files_go_along_with_the_folder_of_a_study(folder: Path, tmp_path: Path, name: str) -> None:
    """With their sources gone, and moved, it has the same keys and labels and can be played."""
    loaded = study(folder, **STUDIES[name])
    told = [[value.label for value in point.values] for point in loaded.points()]
    with StudyFolder(tmp_path / "out", loaded) as found:
        play_all(loaded, found.journal)
    shutil.rmtree(folder)
    shutil.move(tmp_path / "out", tmp_path / "moved")
    again = load_study(tmp_path / "moved" / "study.resolved.yaml")
    assert keys(again) == keys(loaded)
    assert [[value.label for value in point.values] for point in again.points()] == told
    with StudyFolder(tmp_path / "moved", again) as found:
        assert found.notes == ()
        assert play_all(again, found.journal) == []
        assert [record.status for record in found.journal] == ["ok"] * 2
    with Journal(tmp_path / "new") as journal:
        assert play_all(again, journal) == ["ok"] * 2


def play_all(loaded: LoadedStudy, journal: Journal) -> list[str]:
    """Play the points of a study in this process; return the statuses of what was played."""
    played: list[str] = []
    crew = Crew(Serial())
    campaign = Campaign(loaded, journal, crew, lambda _done, _total: played.append(""))
    campaign.play(list(loaded.points()), 2)
    statuses = [journal.get(key).status for key in keys(loaded)]
    return statuses[: len(played)]


def test_a_file_is_read_once_for_all_points(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand points that name two logs read two files."""
    vary = {**STUDIES["mappings"]["vary"], "horizon": {"choices": [f"{hours} h" for hours in range(48, 548)]}}
    loaded = study(folder, vary=vary)
    read: list[str] = []
    whole = Path.read_bytes

    def counted(self: Path) -> bytes:
        read.append(self.name)
        return whole(self)

    monkeypatch.setattr(Path, "read_bytes", counted)
    found = keys(loaded)
    assert len(set(found)) == 1000
    assert sorted(name for name in read if name.endswith(".csv")) == sorted(LOGS)


def tasks_of(loaded: LoadedStudy) -> Iterator[tuple[Context, Task]]:
    """Yield the tasks of a study with what they share."""
    nothing: Any = None
    campaign = Campaign(loaded, nothing, nothing)
    for point in loaded.points():
        for task in campaign.tasks(point, 2):
            yield campaign.context, task


def test_a_file_that_changes_while_it_is_played_makes_no_outcome(folder: Path) -> None:
    """Neither does another one of the same name on another machine: what came of it would be taken for the old one."""
    context, task = list(tasks_of(study(folder, **STUDIES["paths"])))[1]
    (folder / "wild.csv").write_text((folder / "calm.csv").read_text() + "\n")
    record = play(context, task)
    assert (record.status, record.rows, record.notes) == ("failed", {}, {})
    assert record.reason == "a file that it names was changed, or is another one where it ran"


@pytest.mark.parametrize("name", ["paths", "mappings", "graphs", "everywhere"])
def test_a_file_that_is_away_is_no_answer(folder: Path, tmp_path: Path, name: str) -> None:
    """While it is away its points fail, are found again all the same, and are played as soon as it is back."""
    loaded = study(folder, **STUDIES[name])
    file = folder / ("two.json" if name == "graphs" else "wild.csv")
    bad = 1 + (name == "everywhere")
    with Journal(tmp_path / "journal") as journal:
        assert keys(loaded)
        file.rename(tmp_path / "away")
        assert play_all(loaded, journal) == ["ok"] * (2 - bad) + ["failed"] * bad
        campaign = Campaign(loaded, journal, Crew(Serial()))
        last = list(loaded.points())[-1]
        assert file.name in campaign.outcome(last, 2).trouble
        (tmp_path / "away").rename(file)
        again = load_study(folder / "study.yaml")
        campaign = Campaign(again, journal, Crew(Serial()))
        campaign.play(list(again.points()), 2)
        assert [journal.get(key).status for key in keys(again)] == ["ok", "ok"]


def test_a_file_of_the_scenario_that_is_away_is_no_answer(folder: Path, tmp_path: Path) -> None:
    """The same where the scenario itself names it, and where a folder has its name."""
    (folder / "base.yaml").write_text(sim.dump({**small.SMALL, "failures": [log("calm.csv")]}))
    loaded = study(folder, vary={"spares.hot": {"choices": [1]}})
    ((context, task),) = tasks_of(loaded)
    (folder / "calm.csv").rename(tmp_path / "away")
    assert play(context, task).status == "failed"
    (folder / "calm.csv").mkdir()
    assert play(context, task).status == "failed"
    (folder / "calm.csv").rmdir()
    (tmp_path / "away").rename(folder / "calm.csv")
    assert play(context, task).status == "ok"


def test_an_inventory_of_the_scenario_counts_by_its_content(folder: Path, tmp_path: Path) -> None:
    """Another order of names is another study and another scenario; it goes along with the folder of a study."""
    (folder / "base.yaml").write_text(
        sim.dump({**small.SMALL, "failures": [{**log("calm.csv"), "inventory": "up.txt"}]})
    )
    varied = {"spares.hot": {"choices": [1]}}
    before, digest = keys(study(folder, vary=varied)), scenario_digest(sim.load(folder / "base.yaml"))
    with StudyFolder(tmp_path / "out", study(folder, vary=varied)):
        pass
    shutil.copy(folder / "down.txt", folder / "up.txt")
    assert keys(study(folder, vary=varied)) != before
    assert scenario_digest(sim.load(folder / "base.yaml")) != digest
    shutil.rmtree(folder)
    assert keys(load_study(tmp_path / "out" / "study.resolved.yaml")) == before


def test_a_file_that_breaks_a_rule_is_an_answer(folder: Path) -> None:
    """A log of more nodes than there are, and one that is none, will be so the next time."""
    (folder / "calm.csv").write_text("unit,start,end\n" + "".join(f"n{unit},{unit},{unit + 1}\n" for unit in range(17)))
    (folder / "wild.csv").write_text("unit,start,end\nn1,9,5\n")
    found = [play(context, task) for context, task in tasks_of(study(folder, **STUDIES["paths"]))]
    assert [record.status for record in found] == ["infeasible"] * 2
    assert "17 units" in found[0].reason
    assert "ends (5) before it starts (9)" in found[1].reason


@pytest.mark.parametrize("name", ["log", "graph"])
def test_a_process_that_lives_on_sees_a_file_that_was_changed(folder: Path, name: str) -> None:
    """What it keeps from task to task of a scenario is not what the files said before."""
    file = folder / ("calm.csv" if name == "log" else "one.json")
    changes = {"failures": [log("calm.csv")]} if name == "log" else {"cluster": cluster(**graph("one.json"))}
    (folder / "base.yaml").write_text(sim.dump({**small.SMALL, **changes}))
    content: list[Any] = []
    for other in (None, "wild.csv" if name == "log" else "two.json"):
        if other:
            shutil.copy(folder / other, file)
        loaded = study(folder, vary={"spares.hot": {"choices": [1]}})
        ((context, task),) = tasks_of(loaded)
        content.append(play(context, task))
    assert [record.status for record in content] == ["ok", "ok"]
    assert content[0].key != content[1].key
    if name == "log":
        assert content[0].rows["interruptions"] != content[1].rows["interruptions"]


def test_what_scenarios_share_is_not_shared_with_an_earlier_graph(folder: Path) -> None:
    """A fabric is built anew when its file has changed, though the scenario says the same."""
    changes = {"cluster": cluster(**graph("one.json")), "scheduler": {"pack": "leaf"}}
    (folder / "base.yaml").write_text(sim.dump({**small.SMALL, **changes}))
    template = sim.template(folder / "base.yaml")
    assert len(set(sim.prepare(template.scenario()).packed_by)) == 4
    shutil.copy(folder / "two.json", folder / "one.json")
    assert len(set(sim.prepare(template.scenario()).packed_by)) == 2


def test_names_of_files_are_strings_at_a_key_file() -> None:
    """At the end of a path or in a mapping, however deep; nothing else is taken for one."""
    content = {
        "use": "replay",
        "file": "a",
        "columns": {"unit": "file"},
        "list": [{"file": "b"}, "file"],
        "profile": "c",
    }
    changed = {**content, "file": "<a>", "list": [{"file": "<b>"}, "file"]}
    assert with_files("failures.0", content, lambda name: f"<{name}>") == changed
    assert with_files("failures.0.file", "a", lambda name: f"<{name}>") == "<a>"
    assert with_files("failures.0.profile", "a", lambda name: f"<{name}>") == "a"
    assert [names_files(text) for text in ('a.file="x"', 'a={"file": "x"}', 'a.profile="x"')] == [True, True, False]

"""What becomes part of a study beside its file: options, and the files that it names; and how it is written again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sim
from analysis.study.load import first_look, load_study
from tests.unit.test_study_load import HOT, changed, complaints, folder, loaded

__all__ = ["folder"]  # a fixture that every test here uses


# ---------------------------------------------------------------------------------------------- options


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


# ------------------------------------------------------------------------------------- files, and back


CLUSTERS = {
    6: "  cluster: {choices: [clusters/a.yaml, clusters/b.yaml]}",
    9: "",
}


def write_clusters() -> None:
    """Write two clusters into a folder beside the study, the second one an extension of the first."""
    Path("clusters").mkdir()
    Path("clusters/a.yaml").write_text("name: a\nnodes: 20\nfabric: {leaf: {nodes: 4}}\n", encoding="utf-8")
    Path("clusters/b.yaml").write_text("extends: a.yaml\nnodes: 24\n", encoding="utf-8")


def test_clusters_in_files_become_part_of_the_study(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Files of clusters are meant from the folder of the study, are called by their names, and need not stay there."""
    write_clusters()
    assert complaints(CLUSTERS) == []
    monkeypatch.chdir("/")
    study = load_study(folder / "study.yaml")
    (folder / "clusters" / "a.yaml").unlink()
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

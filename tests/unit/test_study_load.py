"""Study files: each mistake is one line with its place, path, rule and nearest name; options and files become part."""

from __future__ import annotations

from pathlib import Path

import pytest

import sim
from analysis.study.load import LoadedStudy, find_study, first_look, load_study
from tests.cases import cases
from tests.unit.bad_input import BASE

STUDY = """\
name: base
scenario: s.yaml
set:
  horizon: 20 d
vary:
  spares.hot: {choices: [0, 2, 4]}
  interval: {path: checkpoint.tiers.0.interval, range: {min: 10 min, max: 2 h, points: 3, scale: log}}
  failures.0.rate: {distribution: {law: between, p05: 5 per 1000 node-day, p95: 9 per 1000 node-day}}
design: {use: grid, draws: 20}
metrics: [ettr]
replications: 12
questions:
  - {ask: best}
"""
HOT, INTERVAL, RATE = "  spares.hot: ", "  interval: {path: checkpoint.tiers.0.interval, range: ", "  failures.0.rate: "
DRAWN, DESIGN = RATE + "{distribution: ", "design: {use: "


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
    lines = STUDY.splitlines()
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
    ("axis as text", {6: HOT + "§much"}, "must be a mapping (keys: title, path, paths, choices"),
    ("no values", {6: HOT + "§{}"}, "give choices, a range or a distribution: exactly one, and none is there"),
    ("two kinds", {6: HOT + "§{choices: [0], range: {min: 0, max: 4, step: 1}}"}, "not choices and range together"),
    ("no choices", {6: HOT + "{choices: §[]}"}, "choices: is empty: name at least one value"),
    ("null", {6: HOT + "{choices: [0, §null]}"}, "item has no value"),
    (
        "twice in two units",
        {7: "  interval: {path: checkpoint.tiers.0.interval, choices: [60 min, §1 h]}"},
        "is 60 min",
    ),
    ("metric twice", {10: "metrics: [ettr, §ettr]"}, "ettr is there twice"),
    ("twice", {6: HOT + "{choices: [0, 2, §2]}"}, "2 is there twice"),
    (
        "two of a name",
        {6: "  recovery: {choices: [{use: hot-spare, initialize: 1 min}, §{use: hot-spare, initialize: 2 min}]}"},
        "hot-spare is the name of two choices: name them",
    ),
    ("not finite", {6: HOT + "{choices: [§.nan]}"}, "must be a finite number"),
    ("too many digits", {6: HOT + "{choices: [§1" + "0" * 400 + "]}"}, "has too many digits"),
    ("no mapping", {6: "  size: {choices: {1k: §3}}"}, "must be a mapping {path: value} of linked parameters"),
    ("path and paths", {6: "  s: {path: spares.hot, paths: §[spares.warm], choices: [1]}"}, "path or paths, not both"),
    ("step and points", {7: INTERVAL + "{min: 1 min, max: 2 h, points: §3, step: 5 min}}"}, "not both"),
    ("no step in a grid", {7: INTERVAL + "§{min: 1 min, max: 2 h}}"}, "needs a step or a number of points in a grid"),
    ("one point", {7: INTERVAL + "{min: 1 min, max: 2 h, points: §1}}"}, "one point is no range"),
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
    ("law", {8: DRAWN + "{law: §unifrm, min: 1, max: 2}}"}, "did you mean 'uniform'?"),
    ("no law", {8: DRAWN + "§{min: 1, max: 2}}"}, "needs 'law' (choose from uniform, loguniform"),
    ("law alone", {8: DRAWN + "§uniform}"}, "write {law: uniform}"),
    ("key of a law", {8: DRAWN + "{law: uniform, min: 1, §mx: 2}}"}, "did you mean 'max'?"),
    ("law upside down", {8: DRAWN + "{law: uniform, min: 2, max: §1}}"}, "must be above min"),
    ("mode", {8: DRAWN + "{law: triangular, min: 2, mode: §1, max: 4}}"}, "must be above min"),
    ("log of zero", {8: DRAWN + "{law: lognormal, median: §0, sigma: 1}}"}, "must be above zero"),
    ("sigma", {8: DRAWN + "{law: lognormal, median: 1, sigma: §0}}"}, "must be above 0, not 0"),
    ("too wide", {8: DRAWN + "§{law: between, p05: 1.0e-300, p95: 1.0e+300}}"}, "is too wide"),
    ("two rates", {8: DRAWN + "§{law: uniform, min: 5 per node-day, max: 9 per gpu-day}}"}, "must have the same unit"),
    ("no number", {8: DRAWN + "§{law: uniform, min: [1], max: 2}}"}, "a list is no number"),
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
    ("question", {13: "  - {ask: §bst}"}, "did you mean 'best'?"),
    ("question alone", {13: "  - §best"}, "write {ask: best}"),
    ("key of a question", {13: "  - {ask: best, §metrc: ettr}"}, "did you mean 'metric'?"),
    ("no question", {12: "questions: §{ask: best}", 13: ""}, "must be a list, not a mapping"),
    ("same path", {7: "  other: §{path: spares.hot, choices: [1]}"}, "spares.hot is varied by spares.hot already"),
    (
        "inside",
        {6: HOT + "§{choices: [0, 2]}", 7: "  spares: {choices: [{hot: 1}]}"},
        "spares replaces spares as a whole",
    ),
    ("set and varied", {4: "  spares.hot: §3"}, "is varied too, by spares.hot; say it once"),
    ("seed varied", {6: "  seed: §{choices: [1, 2]}"}, "all points have the same seed"),
    ("seed set", {4: "  seed: §3"}, "give it to the study, as seed:"),
    ("steps of a path", {4: "  a..b: §3"}, "'a..b' is not a path such as spares.hot"),
    ("sign in a path", {6: "  h: {path: §'a=b', choices: [1]}"}, "'a=b' is not a path"),
    ("metric", {10: "metrics: [ettr, §etrr]"}, "no metric is called 'etrr'; did you mean 'ettr'?"),
    (
        "metric of a front",
        {10: "optimize: {maximize: ettr, pareto: [§cots]}"},
        "no metric is called 'cots'; did you mean",
    ),
    (
        "metric of a condition",
        {10: "optimize: {maximize: ettr, subject_to: [§p_finnish_by >= 0.9]}"},
        "no metric is called 'p_finnish_by'; did you mean 'p_finish_by'?",
    ),
    ("condition", {10: "optimize: {maximize: ettr, subject_to: [§ettr = 0.9]}"}, "'ettr = 0.9' is no condition"),
    ("metric of a question", {13: "  - §{ask: best, metric: gooput}"}, "did you mean 'goodput'?"),
    ("replications and precision", {11: "precision: §{width: 1%}\nreplications: 3"}, "not both"),
    ("width", {11: "precision: {width: §1 percent}"}, "write 0.1pt (points of a share) or 2%"),
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
    with pytest.raises(sim.ScenarioError, match="no study of this name; did you mean 'checkpoint-interval-and-tier'"):
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

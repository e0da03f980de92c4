"""Bad scenarios: each mistake is one line that names the place, the path, the rule and the nearest valid name."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from ettrick import cli, sim
from ettrick.sim import yamlfile
from tests.cases import cases, mistake_lines
from tests.pace import budget
from tests.unit import bad_input
from tests.unit.bad_input import BASE, Bad, bad, failures, repairs

TABLES = [importlib.import_module(f"{bad_input.__name__}.{info.name}") for info in iter_modules(bad_input.__path__)]

BAD = [case for table in TABLES for case in table.CASES]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of its own, so that messages show short names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def complaints(bad: Bad) -> tuple[str, ...]:
    """Return what is said about a bad scenario."""
    for name, content in {**bad.files, "s.yaml": bad.content}.items():
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(sim.ScenarioError) as caught:
        sim.load("s.yaml", bad.overrides)
    assert str(caught.value) == "\n".join(caught.value.lines)
    return caught.value.lines


def test_the_base_is_good() -> None:
    """What every row of the tables spoils is itself a scenario."""
    Path("s.yaml").write_text(BASE, encoding="utf-8")
    assert sim.prepare(sim.load("s.yaml")).jobs[0].nodes == 8


@cases("bad", BAD, ids=lambda bad: " ".join(bad.fragments))
def test_bad_scenarios(bad: Bad) -> None:
    """One mistake is one line: the place first, then the path, the rule and, for a word, the nearest valid one."""
    lines = complaints(bad)
    assert len(lines) == 1, lines
    (line,) = lines
    assert line.startswith(f"{bad.place}: "), (line, bad.place)
    for fragment in bad.fragments:
        assert fragment in line
    assert line.isprintable()
    assert len(line) < 400
    for jargon in (
        "nput",
        "pydantic",
        "instance",
        "discriminator",
        "alue error",
        "Traceback",
        "None",
        "union",
        "literal[",
    ):
        assert jargon not in line


@pytest.mark.parametrize("bad", [*failures.CASES, *repairs.CASES][::12], ids=lambda bad: bad.fragments[-1][:60])
def test_bad_failures_at_the_command_line(bad: Bad) -> None:
    """The commands say the same line, print no result, and end with 2."""
    (line,) = complaints(bad)
    for command in ("check", "run"):
        answer = CliRunner().invoke(cli.app, [command, "s.yaml"], prog_name="ettrick")
        assert (answer.exit_code, answer.stdout, mistake_lines(answer.stderr)) == (2, "", [line])


def test_there_are_many() -> None:
    """The tables have no scenario twice and hold far more than a hundred scenarios."""
    assert len({(bad.content, bad.overrides, str(bad.files)) for bad in BAD}) == len(BAD) >= 200


@cases(
    ("path", "rule"),
    [
        ("zzzzzzzz", "zzzzzzzz: no such file or bundled scenario"),
        ("bas.yaml", "bas.yaml: cannot be read: no such file or directory; did you mean 'base.yaml'?"),
        (".", ".: cannot be read: is a directory"),
        ("base.yaml/s.yaml", "base.yaml/s.yaml: cannot be read: not a directory"),
        ("a\0b", "a\\x00b: no such file or bundled scenario"),
    ],
)
def test_files_that_cannot_be_read(path: str, rule: str) -> None:
    """A file that cannot be read is one line; a name that is nearly right is answered with the right one."""
    Path("base.yaml").write_text(BASE, encoding="utf-8")
    with pytest.raises(sim.ScenarioError) as caught:
        sim.load(path)
    (line,) = caught.value.lines
    assert line.startswith(rule)


def test_all_mistakes_at_once() -> None:
    """Every mistake of a file is said, in the order of the file; a name nearly right is not also missing."""
    mistakes = {
        2: "cluster: {nodes: 16, fabric: {leaf: {nods: 4}}}",
        3: "horizn: 30 d",
        5: "  - {name: train, gpus: 64, step_tme: 10 s, precision: fp4}",
        7: "  - {use: component, name: 5, rate: 6.5 per 1000 nodeday}",
        10: "  tiers: [{interval: 30 min, mode: blocking, write: 30, restore: 1 min}]",
        13: "repair: {time: {law: weibul, mean: 1 d}}",
    }
    wrong = [(2, "nods"), (3, "horizn"), (5, "step_tme"), (5, "fp4"), (7, "5"), (7, "6.5"), (10, "30,"), (13, "weibul")]
    expected = [f"s.yaml:{number}:{mistakes[number].index(word) + 1}" for number, word in wrong]
    assert [line[: line.index(": ")] for line in complaints(bad(mistakes))] == expected


def test_mistakes_of_words_at_once() -> None:
    """Unknown parts, causes and logs are told together too."""
    failures = [
        "  - {use: component, name: a, part: hall, rate: 1 per hall-day}",
        "  - {use: component, name: b, rate: 1 per rak-day}",
        "  - {use: llama3-table5, scale: {gpu: 2, nik: 3, cpu: 1}}",
        "  - {use: replay, file: log.csv}",
    ]
    lines = complaints(bad({7: "\n".join(failures)}))
    assert [line.split(": ")[1] for line in lines] == [
        *("failures.0.part", "failures.1.rate", "failures.2.scale.gpu", "failures.2.scale.nik", "failures.3.file")
    ]


def test_plain_data() -> None:
    """Data that come from no file name the scenario and the path."""
    with pytest.raises(sim.ScenarioError) as caught:
        sim.parse({"name": "x", "horizn": 3})
    assert caught.value.lines[0].startswith("scenario: ")
    assert "scenario: horizn: unknown key 'horizn'; did you mean 'horizon'?" in str(caught.value)


def test_errors_survive_pickling() -> None:
    """A mistake found in another process arrives with its lines."""
    error = sim.ScenarioError(["s.yaml:1:1: a: is wrong", "s.yaml:2:1: b: is wrong"])
    copy = pickle.loads(pickle.dumps(error))
    assert copy.lines == error.lines
    assert str(copy) == str(error)


def paths_in(data: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the path of every value below `data`."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [found for key, value in items for found in ((*path, key), *paths_in(value, (*path, key)))]


def spoilt(data: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """Return a copy of `data` with another value at a path."""
    if not path:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = spoilt(copy[path[0]], path[1:], value)
    return copy


SCENARIOS = {
    name: yamlfile.extend(path, shorthand=("cluster",)).data for name, path in sim.shipped("scenarios").items()
}

PLACES = [(name, path) for name, data in SCENARIOS.items() for path in paths_in(data)]

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        [0, -1, 10**30, 1e300, "0 s", "1e300 d", "1e-300 s", "50 %", "use", "horizon", "young", "\0", "\n", "0x1"]
    )
    | st.sampled_from(
        ["every 9999999999 steps", "every ³ steps", "every -1 steps", "every 1 step", "node", "spine", "core"]
    )
)

ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["use", "law", "time", "name", "nodes", "x", "mean", "", "rate"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def refusals(data: Any, folder: Path) -> tuple[str, ...]:
    """Return what is said against data; nothing if they are a scenario."""
    try:
        sim.parse(data, folder)
    except sim.ScenarioError as error:
        return error.lines
    return ()


@settings(max_examples=budget(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(PLACES), value=ANYTHING)
@example(place=("fleet-64-nodes", ("streams",)), value=True)
def test_a_mistake_never_shows_the_program(place: tuple[str, tuple[str | int, ...]], value: Any) -> None:
    """Whatever stands instead of one value of a shipped scenario, it is read or refused in printable lines."""
    name, path = place
    folder = sim.shipped("scenarios")[name].parent
    for line in refusals(spoilt(SCENARIOS[name], path, value), folder):
        assert line.startswith("scenario: ")
        assert line.isprintable()

"""Studies of any shape: their points are always the same, and survive being written and read."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ettrick import sim
from ettrick.analysis.study.load import LoadedStudy, first_look, load_study
from tests.unit.bad_input import BASE

TIMES = ["30 s", "7 min", "10 min", "90 min", "2 h", "0.5 d"]

"""In their order."""


@st.composite
def ends(draw: st.DrawFn, low: str, high: str) -> dict[str, Any]:
    """Return two times that rise, under two names."""
    first, second = sorted(draw(st.sets(st.integers(0, len(TIMES) - 1), min_size=2, max_size=2)))
    return {low: TIMES[first], high: TIMES[second]}


def times() -> st.SearchStrategy[dict[str, Any]]:
    """Return axes of times: choices, ranges and distributions."""
    ranges = st.builds(
        lambda both, points, scale: {"range": {**both, "points": points, "scale": scale}},
        ends("min", "max"),
        st.integers(2, 5),
        st.sampled_from(["linear", "log"]),
    )
    laws = st.one_of(
        ends("min", "max").map(lambda both: {"use": "uniform", **both}),
        ends("p05", "p95").map(lambda both: {"use": "between", **both}),
        st.sampled_from(TIMES).map(lambda time: {"use": "lognormal", "median": time, "sigma": 0.5}),
    )
    choices = st.lists(st.sampled_from(TIMES), min_size=1, max_size=4, unique=True).map(lambda all_: {"choices": all_})
    return st.one_of(choices, ranges, laws.map(lambda law: {"distribution": law}))


DESIGNS = st.sampled_from(
    [
        None,
        {"use": "grid"},
        {"use": "one-at-a-time"},
        {"use": "latin-hypercube", "samples": 6},
        {"use": "sobol", "samples": 8},
        {"use": "saltelli", "samples": 4},
    ]
)

STUDIES = st.fixed_dictionaries(
    {
        "name": st.just("any"),
        "scenario": st.just("scenario.resolved.yaml"),
        "set": st.sampled_from([{"horizon": "9 d"}, {"recovery": {"use": "full-restart", "initialize": "1 min"}}]),
        "vary": st.fixed_dictionaries(
            {"repair.time": times()},
            optional={
                "detection.time": times(),
                "hot": st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True).map(
                    lambda all_: {"choices": all_, "path": "spares.hot", "title": "spares"}
                ),
                "kind": st.just({"choices": {"a": {"jobs.0.gpus": 64}, "b": {"jobs.0.gpus": 72, "warmup": "1 d"}}}),
            },
        ),
    },
    optional={"seed": st.integers(0, 2**63 - 1), "replications": st.integers(2, 50)},
)


def read(folder: str, data: dict[str, Any]) -> LoadedStudy:
    """Return a study that was written into a folder beside its scenario."""
    path = Path(folder) / "study.yaml"
    path.write_text(sim.dump(data), encoding="utf-8")
    (path.parent / "scenario.resolved.yaml").write_text(BASE, encoding="utf-8")
    return load_study(path)


@settings(max_examples=40, deadline=None)
@given(data=STUDIES, design=DESIGNS)
def test_points_are_always_the_same(data: dict[str, Any], design: dict[str, Any] | None) -> None:
    """The points of a study are as many as it says, come in the same order each time, and survive being written."""
    with tempfile.TemporaryDirectory() as folder:
        study = read(folder, data if design is None else {**data, "design": design})
        points = list(study.points())
        assert points == list(study.points())
        assert len(points) == study.study.design.count(study.study.vary)
        again = read(folder, study.content())
        assert list(again.points()) == points
        assert again.study == study.study
        assert [again.overrides(point) for point in points[:5]] == [study.overrides(point) for point in points[:5]]
        assert again.digest == study.digest


@settings(max_examples=15, deadline=None)
@given(data=STUDIES, design=DESIGNS)
def test_a_first_look_finds_nothing_in_what_can_be_read(data: dict[str, Any], design: dict[str, Any] | None) -> None:
    """A study of valid values has no mistakes, and each of its first points can be read."""
    with tempfile.TemporaryDirectory() as folder:
        study = read(folder, data if design is None else {**data, "design": design})
        assert first_look(study) == []
        for _, point in zip(range(3), study.points(), strict=False):
            assert study.scenario(point).seed == data.get("seed", 1)


@settings(max_examples=60, deadline=None)
@given(data=STUDIES, design=DESIGNS, junk=st.data())
def test_a_mistake_never_shows_the_program(data: dict[str, Any], design: dict[str, Any] | None, junk: Any) -> None:
    """Whatever stands instead of one value of a study, it is read or refused in printable lines."""
    whole = data if design is None else {**data, "design": design}
    paths = _paths(whole, ())
    path = junk.draw(st.sampled_from(paths))
    whole = copy.deepcopy(whole)
    _put(whole, path, junk.draw(JUNK))
    with tempfile.TemporaryDirectory() as folder:
        try:
            lines = tuple(first_look(read(folder, whole)))
        except sim.ScenarioError as error:
            lines = error.lines
        assert all(line.isprintable() and line for line in lines)


JUNK = st.one_of(
    st.booleans(),
    st.integers(-5, 10**30),
    st.floats(),
    st.sampled_from(["", "x", "1 min", "-1 s", "5 GB", "1e300 d", "cluster", "grid", "a.b", "1e400", "use", "100 %"]),
    st.sampled_from([[], {}, [1], [1, 1], {"use": "grid"}, {"x": {"y": 1}}, {"choices": [1, 2]}, [[]], {"": 1}]),
)


def _paths(data: Any, path: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [found for key, value in items for found in ((*path, key), *_paths(value, (*path, key)))]


def _put(data: Any, path: tuple[Any, ...], value: Any) -> None:
    for step in path[:-1]:
        data = data[step]
    data[path[-1]] = value

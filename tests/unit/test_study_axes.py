"""What varies in a study: values of ranges and distributions, their labels, and the numbers that are written."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from ettrick import sim
from ettrick.analysis.study.amounts import amounts_of, numbers_of
from ettrick.analysis.study.axis import Axis, Range
from ettrick.analysis.study.designs import DESIGNS, Design
from ettrick.analysis.study.distributions import DISTRIBUTIONS, Between
from ettrick.analysis.study.load import first_look, load_study
from ettrick.analysis.study.model import QUESTIONS, study_schema
from ettrick.sim import units, yamlfile
from tests.cases import cases
from tests.typed import present

if TYPE_CHECKING:
    from ettrick.analysis.study.amounts import Point

U = np.array([0.001, 0.05, 0.25, 0.4, 0.5, 0.75, 0.95, 0.999])


def labels(**keys: Any) -> list[str]:
    """Return the labels of an axis."""
    return [value.label for value in Axis(**keys).values("p")]


def contents(**keys: Any) -> list[Any]:
    """Return what an axis writes to its path."""
    return [value.settings[0][1] for value in Axis(**keys).values("p")]


@cases(
    ("keys", "expected"),
    [
        ({"min": 0, "max": 10, "step": 5}, [0, 5, 10]),
        ({"min": 0, "max": 10, "step": 4}, [0, 4, 8, 10]),
        ({"min": 0.1, "max": 0.7, "step": 0.2}, [0.1, 0.3, 0.5, 0.7]),
        ({"min": 0.0, "max": 1 / 3, "step": 1 / 9}, [0, 0.111111111111, 0.222222222222, 1 / 3]),
        ({"min": "10 min", "max": "1 h", "step": "25 min"}, [600, 2100, 3600]),
        ({"min": 1, "max": 8, "step": 2, "scale": "log"}, [1, 2, 4, 8]),
        ({"min": 1, "max": 10, "step": 2, "scale": "log"}, [1, 2, 4, 8, 10]),
        ({"min": 1.0, "max": 100.0, "points": 3, "scale": "log"}, [1, 10, 100]),
        ({"min": 1, "max": 8, "points": 8, "scale": "log"}, [1, 2, 3, 4, 6, 8]),
        ({"min": 1, "max": 2, "points": 2}, [1, 2]),
        ({"min": -1.0, "max": 1.0, "points": 3}, [-1, 0, 1]),
    ],
    ids=repr,
)
def test_values_of_a_range(keys: dict[str, Any], expected: list[float]) -> None:
    """Steps are added or multiplied from min on; max is a value even if a step is cut; whole numbers come once."""
    assert [value.number for value in Axis(range=Range(**keys)).values("p")] == expected


@cases(
    ("keys", "expected"),
    [
        ({"min": "10 min", "max": "2 h", "points": 4, "scale": "log"}, ["10 min", "22.89 min", "52.41 min", "2 h"]),
        ({"min": "10 min", "max": "120 min", "points": 3}, ["10 min", "65 min", "120 min"]),
        ({"min": "400 Gb/s", "max": "800 Gb/s", "points": 3}, ["400 Gb/s", "600 Gb/s", "800 Gb/s"]),
        ({"min": "64 GiB", "max": "0.25 TiB", "points": 2}, ["64 GiB", "256 GiB"]),
        ({"min": "1 %", "max": "5 %", "points": 3}, ["1 %", "3 %", "5 %"]),
        ({"min": 0, "max": "100 h", "points": 2}, ["0 h", "100 h"]),
        (
            {"min": "2 per node-day", "max": "9 per node-day", "points": 4},
            [f"{x} per node-day" for x in (2, 4.333, 6.667, 9)],
        ),
        ({"min": 1000, "max": 131072, "points": 2}, ["1000", "131072"]),
        ({"min": 0.01234, "max": 1.0, "points": 2}, ["0.01234", "1"]),
        ({"min": 1.0, "max": 1.00001, "points": 3}, ["1", "1.000005", "1.00001"]),
    ],
    ids=repr,
)
def test_labels_are_short(keys: dict[str, Any], expected: list[str]) -> None:
    """A label has four digits and the unit of the study, or a near one; more digits where labels would be the same."""
    assert labels(range=Range(**keys)) == expected


def test_numbers_are_written_without_noise() -> None:
    """Settings say what a person would: 30 min and not 1800.0000000000002 s; whole numbers stay whole."""
    assert contents(range={"min": "10 min", "max": "50 min", "points": 3}) == ["10 min", "30 min", "50 min"]
    assert contents(range={"min": "1 %", "max": "5 %", "points": 3}) == ["1 %", "3 %", "5 %"]
    assert contents(range={"min": 0.1, "max": 0.7, "step": 0.1}) == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    found = contents(range={"min": 1, "max": 1000, "points": 4, "scale": "log"})
    assert found == [1, 10, 100, 1000]
    assert all(type(number) is int for number in found)


@given(
    dimension=st.sampled_from(units.DIMENSIONS),
    ends=st.lists(st.integers(1, 99), min_size=2, max_size=2, unique=True),
    u=st.floats(0, 1),
    exponents=st.tuples(st.integers(-3, 3), st.integers(-3, 3)),
    scale=st.sampled_from(["linear", "log"]),
    data=st.data(),
)
def test_what_is_written_is_the_number(
    dimension: units.Dimension, ends: list[int], u: float, exponents: tuple[int, int], scale: Any, data: st.DataObject
) -> None:
    """Whatever the units of a range, the text of a value reads back as its number to the last bit."""
    names = st.sampled_from([unit for unit in dimension.units if unit])
    low, high = (f"{end}e{exponent} {data.draw(names)}" for end, exponent in zip(ends, exponents, strict=True))
    assume(all(_reads(text, dimension) for text in (low, high)))
    assume(units.parse(low, dimension) < units.parse(high, dimension))
    axis = Axis(range=Range(min=low, max=high, scale=scale))
    value = axis.at("p", u)
    assert units.parse(value.settings[0][1], dimension) == value.number
    assert units.parse(value.label, dimension) == pytest.approx(value.number, rel=6e-4)


def _reads(text: str, dimension: units.Dimension) -> bool:
    try:
        units.parse(text, dimension)
    except units.UnitError:
        return False
    return True


@given(numbers=st.lists(st.floats(0.001, 1e6), min_size=1, max_size=20, unique=True), unit=st.sampled_from(["", " s"]))
def test_labels_differ_as_soon_as_numbers_do(numbers: list[float], unit: str) -> None:
    """No two numbers of an axis have the same label, however near they are; equal ones have."""
    axis = Axis(range=Range(min=f"0.0005{unit}" if unit else 0.0005, max=f"1e7{unit}" if unit else 1e7))
    values = axis.numbered("p", [*numbers, numbers[0]])
    assert len({value.label for value in values}) == len({value.number for value in values}) == len(numbers)
    assert values[0] == values[-1]


def test_choices_are_numbers_if_all_are_of_one_kind() -> None:
    """Choices lie on an axis of numbers if all are numbers, or quantities of one kind; 0 goes with any unit."""
    assert numbers_of([0, "30 min", "1 h"]) == (0, 1800, 3600)
    assert numbers_of(["6.5 per node-day", "13 per node-day"]) == (6.5, 13)
    assert numbers_of(["30 min", "5 GB"]) == (None, None)
    assert numbers_of([True, False]) == (None, None)
    assert numbers_of(["1.0", "2.5"]) == (1, 2.5)
    assert Axis(choices=[0, "30 min"]).is_numeric
    assert not Axis(choices=["sync", "async"]).is_numeric


def test_linked_choices() -> None:
    """A named choice sets several paths, and lies where its name says, or else where its first value does."""
    axis = Axis(choices={"2k": {"jobs.0.gpus": 2048, "spares.hot": 4}, "4k": {"jobs.0.gpus": 4096, "spares.hot": 8}})
    assert [(value.label, value.number) for value in axis.values("scale")] == [("2k", 2048), ("4k", 4096)]
    assert axis.values("scale")[0].settings == (("jobs.0.gpus", 2048), ("spares.hot", 4))
    assert axis.targets("scale") == ("jobs.0.gpus", "spares.hot")
    named = Axis(choices={"1.5": {"a": 9}, "2.5": {"a": 3}})
    assert [value.number for value in named.values("x")] == [1.5, 2.5]
    both = Axis(paths=["a", "b"], choices=[1, 2])
    assert both.values("x")[1].settings == (("a", 2), ("b", 2))


@cases("contents", [["1 min", "2 GB"], ["1 min", 5], ["x", "y"], [[1]], [True], ["-1 s"], [float("inf")]])
def test_amounts_of_nothing(contents: list[Any]) -> None:
    """What is no number, or of two kinds, is refused."""
    with pytest.raises(ValueError, match=r"."):
        amounts_of(contents)


ORACLES: dict[str, tuple[dict[str, Any], Any]] = {
    "uniform": ({"min": 2.0, "max": 5.0}, stats.uniform(2, 3)),
    "loguniform": ({"min": 2.0, "max": 500.0}, stats.loguniform(2, 500)),
    "triangular": ({"min": 2.0, "mode": 3.0, "max": 7.0}, stats.triang(0.2, 2, 5)),
    "lognormal": ({"median": 3.0, "sigma": 0.7}, stats.lognorm(0.7, scale=3)),
    "counted": ({"events": 12, "factor": 2.0}, stats.gamma(12.5, scale=2 / 12)),
}


def test_every_law_has_an_oracle() -> None:
    """Each law of the registry is compared with one of scipy, or by its definition."""
    assert {*ORACLES, "between", "draws"} == set(DISTRIBUTIONS)


@cases("law", ORACLES)
def test_quantiles_are_those_of_the_law(law: str) -> None:
    """Quantiles equal those of scipy, rise, and the central value is the median."""
    keys, oracle = ORACLES[law]
    found = DISTRIBUTIONS[law](use=law, **keys)
    assert [found.at(u) for u in U] == pytest.approx(oracle.ppf(U), rel=1e-9)
    assert all(np.diff([found.at(u) for u in U]) > 0)
    assert found.at(0.5) == pytest.approx(oracle.median(), rel=1e-9)


def test_between_is_lognormal_by_its_quantiles() -> None:
    """The 5 % and 95 % quantiles are as stated, and the logarithm is normal."""
    found = Between(p05="10 min", p95="1000 min")
    assert (found.at(0.05), found.at(0.5), found.at(0.95)) == pytest.approx((600, 6000, 60000), rel=1e-12)
    oracle = stats.lognorm(np.log(10) / stats.norm.ppf(0.95), scale=6000)
    assert [found.at(u) for u in U] == pytest.approx(oracle.ppf(U), rel=1e-9)


def test_whole_numbers_are_equally_likely() -> None:
    """Between whole numbers all whole ones are equally likely, both ends among them; 4.0 stands for any number."""
    axis = Axis(distribution={"use": "uniform", "min": 4, "max": 7})
    values = axis.each("p", [(index + 0.5) / 400 for index in range(400)])
    found, counts = np.unique([value.number for value in values], return_counts=True)
    assert list(found) == [4, 5, 6, 7]
    assert list(counts) == [100] * 4
    assert all(type(value.settings[0][1]) is int for value in values)
    (value,) = Axis(distribution={"use": "uniform", "min": 4.0, "max": 7.0}).each("p", [0.5])
    assert value.settings[0][1] == 5.5


ROWS = {"a.rate": ("2 per year", "1 per year", "3 per year", "4 per year"), "b.share": (0.5, 0.1, 0.2, 0.3)}


def test_draws_are_rows() -> None:
    """The centre is the first row, all others are equally likely, and all paths have values of the same row."""
    axis = Axis(distribution={"use": "draws", "columns": ROWS})
    assert axis.targets("fit") == tuple(ROWS)
    assert not axis.is_numeric
    values = axis.each("fit", [0.5, *((index + 0.5) / 300 for index in range(300))])
    assert dict(values[0].settings) == {"a.rate": "2 per year", "b.share": 0.5}
    found, counts = np.unique([value.label for value in values[1:]], return_counts=True)
    assert (list(found), list(counts)) == (["draw 1", "draw 2", "draw 3"], [100] * 3)
    rows = [dict(zip(ROWS, row, strict=True)) for row in zip(*ROWS.values(), strict=True)]
    assert all(dict(value.settings) == rows[int(value.label[5:])] for value in values)
    one = Axis(paths=("b.share",), distribution={"use": "draws", "columns": ROWS})
    assert [value.settings for value in one.each("fit", [0.5, 0.9])] == [(("b.share", 0.5),), (("b.share", 0.3),)]
    with pytest.raises(ValueError, match="rows without a low and a high end"):
        points("one-at-a-time", {"fit": axis})
    found_points = points("grid", {"fit": axis, **axes({"a": CHOSEN["a"]})}, draws=20)
    assert [point.values[0].label for point in found_points if point.draw == 0] == ["draw 0"] * 3
    assert len({point.values[0].label for point in points("saltelli", {"fit": axis}, samples=64)}) == 3


@cases("law", ["lognormal", "triangular", "loguniform", "between"])
def test_other_laws_do_not_round(law: str) -> None:
    """A factor with the median 1 is not rounded to whole numbers."""
    keys = {
        "lognormal": {"median": 1, "sigma": 0.3},
        "triangular": {"min": 1, "mode": 2, "max": 4},
        "loguniform": {"min": 1, "max": 4},
        "between": {"p05": 1, "p95": 4},
    }[law]
    values = Axis(distribution={"use": law, **keys}).each("p", [0.2, 0.4, 0.6, 0.8])
    assert len({value.settings[0][1] for value in values}) == 4


@cases("law", [*ORACLES, "between"])
def test_the_very_ends_have_values(law: str) -> None:
    """A draw at the very end of a law is a finite number, in any unit."""
    keys = ORACLES[law][0] if law in ORACLES else {"p05": "1 %", "p95": "50 %"}
    for value in Axis(distribution={"use": law, **keys}).each("p", [0.0, 1.0]):
        assert np.isfinite(present(value.number))


# Designs of studies by their definitions: what is covered, what is common, and in which order.

CHOSEN: dict[str, Any] = {
    "a": {"choices": ["x", "y", "z"]},
    "b": {"range": {"min": 1, "max": 4, "points": 4}},
}

UNKNOWN: dict[str, Any] = {
    "u": {"distribution": {"use": "uniform", "min": 0.0, "max": 1.0}},
    "v": {"distribution": {"use": "lognormal", "median": "1 h", "sigma": 1}},
}


def axes(*parts: dict[str, Any]) -> dict[str, Axis]:
    """Return axes by name."""
    return {name: Axis(**keys) for part in parts for name, keys in part.items()}


def points(use: str, varied: dict[str, Axis], **keys: Any) -> list[Point]:
    """Return the points of a design, whose count it must state without making them."""
    design: Design = DESIGNS[use](use=use, **keys)
    design.check(varied)
    found = list(design.points(varied, np.random.default_rng(7)))
    assert design.count(varied) == len(found)
    assert [point.number for point in found] == list(range(len(found)))
    assert all(len(point.values) == len(varied) for point in found)
    return found


def labels_of_points(point: Point) -> tuple[str, ...]:
    """Return the labels of a point."""
    return tuple(value.label for value in point.values)


def shares(found: list[Point], axis: int) -> list[float]:
    """Return where the values of points lie on an axis of numbers from 0 to 1."""
    return [float(point.values[axis].number or 0) for point in found]


def test_a_grid_is_the_product() -> None:
    """A grid has every combination once, the last axis fastest, each a cell of its own."""
    found = points("grid", axes(CHOSEN))
    assert [labels_of_points(point) for point in found] == list(itertools.product("xyz", "1234"))
    assert [point.cell for point in found] == list(range(12))
    assert {point.draw for point in found} == {0}


@cases("use", ["grid", "list"])
def test_draws_are_common_to_all_cells(use: str) -> None:
    """Every cell has the central values first, then the same draws; the unknown axes may stand anywhere."""
    mixed = axes({"u": UNKNOWN["u"]}, CHOSEN, {"v": UNKNOWN["v"]})
    rows = [{"a": "z", "b": 2}, {"a": "x", "b": 4}, {"a": "z", "b": 1}]
    found = points(use, mixed, draws=25, **({"points": rows} if use == "list" else {}))
    cells = [list(cell) for _, cell in itertools.groupby(found, key=lambda point: point.cell)]
    assert len(cells) == (3 if use == "list" else 12)
    unknown = [[(point.draw, point.values[0], point.values[3]) for point in cell] for cell in cells]
    assert all(cell == unknown[0] for cell in unknown)
    assert [draw for draw, *_ in unknown[0]] == list(range(26))
    assert (unknown[0][0][1].number, unknown[0][0][2].number) == (0.5, 3600)
    assert all(len({point.values[1:3] and labels_of_points(point)[1:3] for point in cell}) == 1 for cell in cells)


def test_draws_are_spread() -> None:
    """Each of the n equal parts of an unknown axis has one of n draws."""
    found = points("grid", axes(UNKNOWN), draws=40)[1:]
    assert sorted(int(u * 40) for u in shares(found, 0)) == list(range(40))


def test_a_list_keeps_its_order() -> None:
    """Listed points come as they are written, and may come twice; keys may stand in any order."""
    rows: list[dict[str, Any]] = [{"b": 4, "a": "z"}, {"a": "x", "b": 1}, {"a": "z", "b": 4}, {"a": "y", "b": 2}]
    found = points("list", axes(CHOSEN), points=rows)
    assert [labels_of_points(point) for point in found] == [("z", "4"), ("x", "1"), ("z", "4"), ("y", "2")]


def test_one_at_a_time() -> None:
    """The center comes first; every other point differs from it in one axis: choices, ends, or quantiles."""
    found = points("one-at-a-time", axes(CHOSEN, UNKNOWN), low=0.1)
    center, *others = found
    assert labels_of_points(center) == ("y", "2", "0.5", "1 h")
    changed = [[i for i in range(4) if point.values[i].settings != center.values[i].settings] for point in others]
    assert changed == [[0], [0], [1], [1], [2], [2], [3], [3]]
    assert [labels_of_points(point)[place] for point, (place,) in zip(others, changed, strict=True)][:6] == [
        *("x", "z", "1", "4", "0.1", "0.9")
    ]
    based = points("one-at-a-time", axes(CHOSEN, UNKNOWN), base={"a": "x", "b": 4, "v": "2 h"})
    assert labels_of_points(based[0]) == ("x", "4", "0.5", "2 h")
    assert len(based) == 1 + 2 + 1 + 2 + 2


@cases("samples", [2, 7, 32])
def test_a_latin_hypercube_has_a_point_in_every_part(samples: int) -> None:
    """Each of n equal parts of every axis, chosen or not, has one of n points."""
    varied = axes(UNKNOWN, {"c": {"range": {"min": 0.0, "max": 1.0}}})
    found = points("latin-hypercube", varied, samples=samples)
    for axis in (0, 2):
        assert sorted(int(u * samples) for u in shares(found, axis)) == list(range(samples))


def test_a_sobol_sequence_is_balanced() -> None:
    """Of 2^m points each half, quarter, ... of an axis, and each quarter of a pair of axes, has its share."""
    varied = axes({name: {"range": {"min": 0.0, "max": 1.0}} for name in "abc"})
    found = points("sobol", varied, samples=64)
    for axis in range(3):
        assert sorted(int(u * 64) for u in shares(found, axis)) == list(range(64))
    for first, second in itertools.combinations(range(3), 2):
        pairs = zip(shares(found, first), shares(found, second), strict=True)
        counts = np.unique([2 * int(2 * u) + int(2 * v) for u, v in pairs], return_counts=True)[1]
        assert list(counts) == [16] * 4


def test_saltelli_swaps_one_axis_at_a_time() -> None:
    """After the sets A and B come, for each axis, the points of A with that axis of B."""
    varied = axes(UNKNOWN, {"c": {"range": {"min": 0.0, "max": 1.0}}})
    found = points("saltelli", varied, samples=16)
    first, second, *swapped = (found[start : start + 16] for start in range(0, len(found), 16))
    assert len(swapped) == 3
    for axis, block in enumerate(swapped):
        for a, b, point in zip(first, second, block, strict=True):
            expected = [*a.values]
            expected[axis] = b.values[axis]
            assert point.values == tuple(expected)
    assert all(a.values[0] != b.values[0] for a, b in zip(first, second, strict=True))


def test_choices_are_equally_likely() -> None:
    """A design that spreads points takes each of three choices equally often."""
    found = points("latin-hypercube", axes({"a": CHOSEN["a"]}), samples=30)
    assert sorted(labels_of_points(point)[0] for point in found) == ["x"] * 10 + ["y"] * 10 + ["z"] * 10


# The schema, the reference page and the guide of studies are true of the program.

ROOT = Path(__file__).resolve().parents[2]

GUIDE = (ROOT / "docs" / "howto" / "write-a-study.md").read_text(encoding="utf-8")

FILES = re.findall(r"^```\{code-block\} yaml\n:caption: (\S+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)

PARTS = re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)

SCHEMA = study_schema()

VALIDATOR = jsonschema.Draft7Validator(SCHEMA)

STUDY: dict[str, Any] = {"name": "x", "scenario": "quickstart", "vary": {"spares.hot": {"choices": [0, 1]}}}


def generator() -> Any:
    """Return the module docs/_generate_study.py."""
    spec = present(importlib.util.spec_from_file_location("docs_generate_study", ROOT / "docs" / "_generate_study.py"))
    module = importlib.util.module_from_spec(spec)
    present(spec.loader).exec_module(module)
    return module


def test_page_and_schema_are_current() -> None:
    """The committed files are what docs/_generate_study.py writes (make docs)."""
    page = (ROOT / "docs" / "reference" / "study.md").read_text(encoding="utf-8")
    assert page == generator().study_reference()
    written = (ROOT / "scenarios" / "studies" / "study.schema.json").read_text(encoding="utf-8")
    assert json.loads(written) == SCHEMA


def test_the_page_names_everything() -> None:
    """Every key has a row, and every law, design and question a section."""
    page = generator().study_reference()
    rows = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    for part in (SCHEMA, *SCHEMA["$defs"].values()):
        assert set(part["properties"]) - {"use"} <= rows
    assert re.findall(r"^### use: (\S+)$", page, re.MULTILINE) == [*DISTRIBUTIONS, *DESIGNS, *QUESTIONS]


@cases("name", sim.shipped("scenarios/studies"))
def test_shipped_studies_fit(name: str) -> None:
    """Every shipped study fits the schema as it is written."""
    VALIDATOR.validate(yamlfile.load(sim.shipped("scenarios/studies")[name]).data)


@cases(
    "change",
    [
        {"vari": {}},
        {"name": "a b"},
        {"vary": {}},
        {"vary": {"spares.hot": [0, 1]}},
        {"vary": {"spares.hot": {"choice": [0]}}},
        {"vary": {"spares.hot": {"range": {"min": 0}}}},
        {"vary": {"spares.hot": {"range": {"min": 0, "max": 4, "scale": "lg"}}}},
        {"vary": {"spares.hot": {"distribution": {"min": 0, "max": 4}}}},
        {"vary": {"spares.hot": {"distribution": {"use": "unifrm", "min": 0, "max": 4}}}},
        {"design": {"use": "gird"}},
        {"design": {"samples": 8}},
        {"design": {"use": "sobol"}},
        {"design": "grid"},
        {"questions": [{"use": "bst"}]},
        {"questions": [{"metric": "ettr"}]},
        {"replications": "many"},
        {"replications": 1},
        {"at_equal": "money"},
    ],
    ids=repr,
)
def test_wrong_studies_do_not_fit(tmp_path: Path, change: dict[str, Any]) -> None:
    """An editor underlines unknown keys, wrong types, missing keys and unknown words; `load_study` refuses them."""
    VALIDATOR.validate(STUDY)
    assert not VALIDATOR.is_valid({**STUDY, **change})
    (tmp_path / "study.yaml").write_text(sim.dump({**STUDY, **change}), encoding="utf-8")
    with pytest.raises(sim.ScenarioError):
        load_study(tmp_path / "study.yaml")


def test_what_may_be_left_out() -> None:
    """A design that names none is a grid."""
    VALIDATOR.validate({**STUDY, "design": {"draws": 30}})
    VALIDATOR.validate({**STUDY, "design": {}})


@cases(("name", "text"), FILES, ids=[name for name, _ in FILES])
def test_studies_of_the_guide_are_good(tmp_path: Path, name: str, text: str) -> None:
    """Each study of the guide can be simulated as it stands."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert first_look(load_study(tmp_path / name)) == []


@pytest.mark.parametrize("text", PARTS)
def test_parts_of_the_guide_are_good(tmp_path: Path, text: str) -> None:
    """Each part of a study in the guide goes with its last whole one."""
    (tmp_path / "part.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "whole.yaml").write_text(FILES[-1][1], encoding="utf-8")
    part = yamlfile.load(tmp_path / "part.yaml").data
    whole = yamlfile.load(tmp_path / "whole.yaml").data
    if "precision" in part:
        del whole["replications"]
    (tmp_path / "study.yaml").write_text(sim.dump(whole | part), encoding="utf-8")
    assert first_look(load_study(tmp_path / "study.yaml")) == []

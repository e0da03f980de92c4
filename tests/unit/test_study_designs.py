"""Designs of studies by their definitions: what is covered, what is common, and in which order."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.study.axis import Axis
from analysis.study.designs import DESIGNS, Design
from tests.cases import cases

if TYPE_CHECKING:
    from analysis.study.amounts import Point

CHOSEN: dict[str, Any] = {
    "a": {"choices": ["x", "y", "z"]},
    "b": {"range": {"min": 1, "max": 4, "points": 4}},
}
UNKNOWN: dict[str, Any] = {
    "u": {"distribution": {"law": "uniform", "min": 0.0, "max": 1.0}},
    "v": {"distribution": {"law": "lognormal", "median": "1 h", "sigma": 1}},
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


def labels(point: Point) -> tuple[str, ...]:
    """Return the labels of a point."""
    return tuple(value.label for value in point.values)


def shares(found: list[Point], axis: int) -> list[float]:
    """Return where the values of points lie on an axis of numbers from 0 to 1."""
    return [float(point.values[axis].number or 0) for point in found]


def test_a_grid_is_the_product() -> None:
    """A grid has every combination once, the last axis fastest, each a cell of its own."""
    found = points("grid", axes(CHOSEN))
    assert [labels(point) for point in found] == list(itertools.product("xyz", "1234"))
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
    assert all(len({point.values[1:3] and labels(point)[1:3] for point in cell}) == 1 for cell in cells)


def test_draws_are_spread() -> None:
    """Each of the n equal parts of an unknown axis has one of n draws."""
    found = points("grid", axes(UNKNOWN), draws=40)[1:]
    assert sorted(int(u * 40) for u in shares(found, 0)) == list(range(40))


def test_a_list_keeps_its_order() -> None:
    """Listed points come as they are written, and may come twice; keys may stand in any order."""
    rows: list[dict[str, Any]] = [{"b": 4, "a": "z"}, {"a": "x", "b": 1}, {"a": "z", "b": 4}, {"a": "y", "b": 2}]
    found = points("list", axes(CHOSEN), points=rows)
    assert [labels(point) for point in found] == [("z", "4"), ("x", "1"), ("z", "4"), ("y", "2")]


def test_one_at_a_time() -> None:
    """The center comes first; every other point differs from it in one axis: choices, ends, or quantiles."""
    found = points("one-at-a-time", axes(CHOSEN, UNKNOWN), low=0.1)
    center, *others = found
    assert labels(center) == ("y", "2", "0.5", "1 h")
    changed = [[i for i in range(4) if point.values[i].settings != center.values[i].settings] for point in others]
    assert changed == [[0], [0], [1], [1], [2], [2], [3], [3]]
    assert [labels(point)[place] for point, (place,) in zip(others, changed, strict=True)][:6] == [
        *("x", "z", "1", "4", "0.1", "0.9")
    ]
    based = points("one-at-a-time", axes(CHOSEN, UNKNOWN), base={"a": "x", "b": 4, "v": "2 h"})
    assert labels(based[0]) == ("x", "4", "0.5", "2 h")
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
    assert sorted(labels(point)[0] for point in found) == ["x"] * 10 + ["y"] * 10 + ["z"] * 10

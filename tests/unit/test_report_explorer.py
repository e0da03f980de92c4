"""The data of the explorer are the results of the sweep, in the units and words of its answers."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from analysis.amounts import form_of
from analysis.page.build import explorer_data
from tests.cases import cases


def a_sweep(cells: list[dict[str, Any]], **more: Any) -> Any:
    """Return what the explorer looks at of the material: a sweep over intervals and stores."""
    axes = {
        "interval": {"title": "interval", "unknown": False, "values": [
            {"label": "1 h", "number": 3600.0}, {"label": "10 min", "number": 600.0}]},
        "store": {"title": "store", "unknown": False, "values": [
            {"label": "local", "number": None}, {"label": "remote", "number": None}]},
        "gpus": {"title": "GPUs", "unknown": False, "values": [{"label": "8", "number": 8.0}]},
        "rate": {"title": "failure rate", "unknown": True, "values": [{"label": "1", "number": 1.0}]},
    }  # fmt: skip
    content = {"axes": axes, "cells": cells, "metrics": ["ettr", "time_to_work"], "currency": None, "answers": []}
    return SimpleNamespace(sweep=content | more)


def a_cell(number: int, interval: str, store: str, ettr: dict[str, Any] | None, days: float | None) -> dict[str, Any]:
    """Return a cell of such a sweep."""
    numbers = {"interval": 600.0 if interval == "10 min" else 3600.0, "store": None, "gpus": 8.0, "rate": 1.0}
    none = {"mean": None, "mean_ci95": None, "p05": None, "p95": None, "band90": None, "replications": 8, "censored": 3}
    metrics = {"ettr": none | (ettr or {}), "time_to_work": none | {"mean": None if days is None else days * 86400}}
    values = {"interval": interval, "store": store, "gpus": "8", "rate": "1"}
    return {
        "cell": number, "point": number, "values": values, "numbers": numbers,
        "metrics": {} if ettr is None else metrics,
        "status": "infeasible" if ettr is None else "ok", "trouble": "too few nodes" if ettr is None else "",
    }  # fmt: skip


FOUR = [
    a_cell(0, "1 h", "local", {"mean": 0.93, "mean_ci95": [0.925, 0.935], "band90": [0.9, 0.95]}, 54.0),
    a_cell(1, "1 h", "remote", {"mean": 0.9, "mean_ci95": None, "p05": 0.88, "p95": 0.91}, None),
    a_cell(2, "10 min", "local", {"mean": 0.95}, 51.0),
    a_cell(3, "10 min", "remote", None, None),
]


def test_explorer_data_are_those_of_the_results() -> None:
    """Numbers are means, intervals, bands and quantiles in the unit of people, texts those of answers."""
    data = explorer_data(a_sweep(FOUR))
    assert data is not None
    assert [metric["unit"] for metric in data["metrics"]] == ["%", "days"]
    assert [axis["key"] for axis in data["axes"]] == ["interval", "store"]  # what does not differ is left out
    assert data["unknown"] == ["failure rate"]
    first, second = data["cells"][:2]
    assert first["numbers"] == [[93.0, 92.5, 93.5, 90.0, 95.0, None, None], [54.0, *[None] * 6]]
    assert second["numbers"][0] == [90.0, None, None, None, None, 88.0, 91.0]
    form = form_of("ettr", [])
    assert first["texts"][0][:2] == [form.plain(0.93, (0.925, 0.935)), "[92.5, 93.5]"]
    assert "".join(first["texts"][0][:2]) == form.value(0.93, (0.925, 0.935)).replace(" [", "[")


def test_explorer_axes_with_numbers_are_in_their_order() -> None:
    """Values that have numbers stand in their order, however the study listed them, and cells point at their values."""
    data = explorer_data(a_sweep(FOUR))
    assert data is not None
    assert data["axes"][0]["values"] == ("10 min", "1 h")
    assert data["axes"][0]["numbers"] == (600.0, 3600.0)
    assert data["axes"][1]["numbers"] is None
    assert [tuple(cell["at"]) for cell in data["cells"]] == [(1, 0), (1, 1), (0, 0), (0, 1)]


def test_explorer_says_why_there_is_no_mean() -> None:
    """A cell that cannot run, and a mean that the runs do not support, have no number and a reason."""
    data = explorer_data(a_sweep(FOUR))
    assert data is not None
    assert data["cells"][3]["numbers"] == [None, None]
    assert data["cells"][3]["texts"][0][4] == "infeasible: too few nodes"
    assert data["cells"][1]["numbers"][1] is None
    assert data["cells"][1]["texts"][1][4] == "no mean: not finished in 3 of 8 runs"


def test_explorer_starts_where_the_answer_is() -> None:
    """Along the axis with numbers, a line for each of the others, at the values of the best cell."""
    data = explorer_data(a_sweep(FOUR))
    assert data is not None
    assert data["start"] == {"x": 0, "series": 1, "at": [0, 0]}


@cases("cells", [[], FOUR[:1], [FOUR[3] | {"values": FOUR[0]["values"]}, FOUR[0]]])
def test_nothing_to_explore(cells: list[dict[str, Any]]) -> None:
    """Without two cells that differ there is no explorer."""
    assert explorer_data(a_sweep(cells)) is None
    assert explorer_data(SimpleNamespace(sweep=None)) is None  # type: ignore[arg-type]


def test_a_thousand_cells_are_small() -> None:
    """The data of a thousand cells with two metrics take less than a megabyte."""
    cells = []
    for number in range(1000):
        cell = a_cell(
            number, "1 h", "local", {"mean": 0.9 + number * 1e-5, "mean_ci95": [0.9, 0.92]}, 50.0 + number / 7
        )
        values, numbers = cell["values"] | {"interval": f"{number + 1} s"}, cell["numbers"] | {"interval": number + 1.0}
        cells.append(cell | {"values": values, "numbers": numbers})
    data = explorer_data(a_sweep(cells))
    assert data is not None
    assert len(data["cells"]) == 1000
    assert [axis["few"] for axis in data["axes"]] == [False]
    assert len(json.dumps(data)) < 1e6

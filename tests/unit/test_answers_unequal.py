"""Answers where points have unequal numbers of replications, as a precision leaves them; and the rule of the front."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from analysis.statistics.estimates import t_quantile
from analysis.study.questions.best import front_of
from analysis.study.questions.kinds import QUESTIONS
from tests.answers_tools import ask, table_of
from tests.cases import cases

if TYPE_CHECKING:
    from analysis.study.table import Table

MOST = 40
ASKED: dict[str, dict[str, Any]] = {
    "best": {},
    "compare": {"axis": "x"},
    "crossover": {"between": "y", "along": "x"},
    "pareto": {"metrics": ["ettr", "cost"]},
    "sensitivity": {},
    "threshold": {"along": "x", "at_least": "90 %"},
    "trend": {"along": "x"},
}
DESIGNS: dict[str, dict[str, Any]] = {
    "grid": {"use": "grid"},
    "one-at-a-time": {"use": "one-at-a-time"},
    "saltelli": {"use": "saltelli", "samples": 8},
}


def shorten(table: Table, counts: list[int]) -> Table:
    """Return a table of which each cell has its own number of replications, taken in turn from a list."""
    cells = []
    for place, cell in enumerate(table.cells):
        count = counts[place % len(counts)]
        metrics = {name: ratios[:count] for name, ratios in cell.stated.metrics.items()}
        cells.append(dataclasses.replace(cell, stated=dataclasses.replace(cell.stated, metrics=metrics)))
    return dataclasses.replace(table, cells=tuple(cells))


def noisy(design: dict[str, Any]) -> Table:
    """Return a table of two metrics on two axes, each point with noise of its own."""
    rng = np.random.default_rng(11)

    def function(where: dict[str, Any]) -> dict[str, Any]:
        ettr = 0.88 + 0.01 * where["x"] + 0.005 * where["y"] + rng.normal(0, 0.004, MOST)
        return {"ettr": ettr.tolist(), "cost": (5 + where["y"] + rng.normal(0, 0.1, MOST)).tolist()}

    axes = {name: {"range": {"min": 1.0, "max": 3.0, "points": 3}} for name in ("x", "y")}
    return table_of(axes, function, design=design, metrics=("ettr", "cost"))


@cases("design", DESIGNS)
@cases("kind", QUESTIONS)
def test_every_question_is_answered_with_unequal_numbers(kind: str, design: str) -> None:
    """Cells that have more replications than others do not keep any question from its answer."""
    answer = ask(shorten(noisy(DESIGNS[design]), [12, MOST, 23]), ask=kind, **ASKED[kind])
    assert answer.sentences
    if kind in ("best", "pareto"):
        assert "over the first 12 replications" in answer.sentences[-1]


@cases("design", ["one-at-a-time", "saltelli"])
def test_sensitivity_rests_on_the_common_replications(design: str) -> None:
    """What moves a metric is the same as if all points had stopped where the first one did."""
    table = noisy(DESIGNS[design])
    counts = [12, MOST] if design == "saltelli" else [12, *[MOST] * (len(table.cells) - 1)]
    unequal, cut = (ask(shorten(table, numbers), ask="sensitivity").data for numbers in (counts, [12]))
    assert unequal["axes"] == cut["axes"]


def test_the_best_is_told_by_the_sample_that_ranks_it() -> None:
    """The first in order has the best of the means that are told, though all its replications would say otherwise."""
    rows = {0.0: [0.90, 0.92] * 6 + [0.5, 0.5], 1.0: [0.85, 0.86] * 6}
    table = table_of({"x": {"choices": [0.0, 1.0]}}, lambda where: {"ettr": rows[where["x"]], "cost": rows[where["x"]]})
    answer = ask(table, ask="best")
    means = [row["mean"] for row in answer.data["groups"][0]["order"]]
    assert means == pytest.approx([0.91, 0.855])
    assert "91" in answer.sentences[0]
    front = ask(table, ask="pareto", metrics=["ettr", "cost"], direction={"cost": "highest"}).data["front"]
    assert [row["ettr"]["mean"] for row in front] == pytest.approx([0.91])


def test_a_crossover_never_has_a_first_that_is_behind() -> None:
    """Order and lead of the choices rest on the same replications."""
    rows = {"a": [0.90, 0.92] * 6 + [0.5, 0.5], "b": [0.85, 0.86] * 6}
    axes = {"who": {"choices": ["a", "b"]}, "x": {"choices": [1.0, 2.0]}}
    answer = ask(table_of(axes, lambda where: {"ettr": rows[where["who"]]}), ask="crossover", between="who", along="x")
    for stage in answer.data["lines"][0]["best"]:
        assert stage["best"] == "a"
        assert stage["ahead_of_second"]["mean"] == pytest.approx(0.055)


def plain_front(aims: list[np.ndarray]) -> tuple[list[int], list[bool], list[int]]:
    """Return the front, who is on it for sure and who may be too, pair by pair as the rule says."""
    size = len(aims[0])
    pairs = size * (size - 1) // 2 * sum(aim.ndim > 1 for aim in aims)
    means = np.stack([aim if aim.ndim == 1 else aim.mean(axis=1) for aim in aims], axis=-1)
    below, same = np.zeros((2, size, size, len(aims)), dtype=bool)
    for place, aim in enumerate(aims):
        rows = aim[:, None] if aim.ndim == 1 else aim
        for ours in range(size):
            each = rows - rows[ours]
            half = 0.0
            if aim.ndim > 1:
                half = t_quantile(1 - 0.05 / pairs, rows.shape[1] - 1) * each.std(axis=1, ddof=1) / rows.shape[1] ** 0.5
            below[ours, :, place] = each.mean(axis=1) > half
            same[ours, :, place] = ~each.any(axis=1)
    ahead = np.array([(means <= row).all(axis=1) & (means < row).any(axis=1) for row in means])
    front = [row for row in np.lexsort(means.T[::-1]).tolist() if not ahead[row].any()]
    behind = (below | same).all(axis=2) & below.any(axis=2)
    sure = [bool(np.delete(below[row].any(axis=1), row).all()) for row in front]
    return front, sure, [row for row in range(size) if row not in front and not behind[:, row].any()]


@cases("seed", range(6))
def test_the_front_is_that_of_all_pairs(seed: int) -> None:
    """Comparisons that cannot matter are left out and change nothing: with ties, certain aims, much noise and none."""
    rng = np.random.default_rng(seed)
    size, count = int(rng.integers(2, 60)), int(rng.choice([3, 16, 64]))
    noise = rng.choice([0.0, 1e-4, 0.003, 0.05], size=size)[:, None] * rng.normal(0, 1, (2, size, count))
    first = 0.5 + rng.integers(0, 4, size)[:, None] / 64 + noise[0]
    second = (
        rng.integers(0, 6, size).astype(float) if seed % 2 else 100.0 + rng.integers(0, 4, size)[:, None] + noise[1]
    )
    found = front_of([first, second])
    assert (list(found.members), list(found.sure), list(found.maybe)) == plain_front([first, second])

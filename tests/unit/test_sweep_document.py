"""The document of a study has every number that its text and any report need, and says what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from analysis.results.models import SweepDocument
from analysis.study.load import load_study
from analysis.study.table import summary_of
from analysis.sweep.document import against_sweep as typed_against_sweep
from analysis.sweep.document import sweep_document as typed_sweep_document
from tests.answers_tools import broken, common_noise, table_of
from tests.typed import as_plain, of_plain

if TYPE_CHECKING:
    from pathlib import Path

    from analysis.study.load import LoadedStudy
    from analysis.study.table import Table

sweep_document = as_plain(typed_sweep_document)
against_sweep = of_plain(typed_against_sweep, SweepDocument)

NOISE = common_noise(24)
STUDY = """
name: spares
question: How many spares are needed?
scenario: quickstart
vary:
  spares.hot: {title: hot spares, choices: [0, 2, 5000]}
  repair.time: {choices: [6 h, 2 d]}
metrics: [ettr, p_finish_by]
replications: 24
seed: 7
assumptions: [spares are as good as new]
questions:
  - {ask: threshold, at_least: 95 %, along: spares.hot}
  - {ask: best, metric: cost}
"""


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedStudy:
    """Return a study of six cells."""
    path = tmp_path / "spares.yaml"
    path.write_text(STUDY, encoding="utf-8")
    return load_study(path)


@pytest.fixture
def table(loaded: LoadedStudy) -> Table:
    """Return its results: two cells cannot run."""

    def results(where: dict[str, Any]) -> dict[str, Any]:
        if where["spares.hot"] == 5000:
            return {}
        return {"ettr": 0.94 + 0.01 * where["spares.hot"] + NOISE, "p_finish_by": [1.0] * 24}

    return table_of(loaded.study.vary, results, metrics=("ettr", "p_finish_by", "cost"))


def mark(table: Table, number: int, **changes: Any) -> Table:
    """Return a table of which one point has a status."""
    status = changes.pop("status")
    marked = broken(table, number, **changes)
    object.__setattr__(marked.cells[number].stated, "status", status)
    return marked


def test_the_document_has_everything_that_the_table_has(loaded: LoadedStudy, table: Table) -> None:
    """Every cell with its labels, numbers and summaries, every answer, and how to find them again; in plain JSON."""
    content = sweep_document(loaded, table, command="ettrick sweep spares.yaml")
    assert [content[key] for key in ("study", "scenario", "seed", "currency")] == ["spares", "quickstart", 7, None]
    assert content["axes"]["spares.hot"] == {
        "title": "hot spares",
        "paths": ["spares.hot"],
        "unknown": False,
        "basis": None,
        "source": "",
        "values": [{"label": "0", "number": 0}, {"label": "2", "number": 2}, {"label": "5000", "number": 5000}],
    }
    assert [cell["values"]["repair.time"] for cell in content["cells"]] == ["6 h", "2 d"] * 3
    assert content["cells"][1]["numbers"] == {"spares.hot": 0, "repair.time": 172800}
    known = summary_of(table.cells[2], "ettr")
    assert known is not None
    found = content["cells"][2]["metrics"]["ettr"]
    assert (found["mean"], tuple(found["mean_ci95"]), found["method"]) == (known.mean, known.ci95, known.method)
    assert found["p05"] is found["band90"] is None
    assert content["cells"][0]["metrics"]["p_finish_by"]["mean_ci95"] == [pytest.approx(0.025 ** (1 / 24)), 1.0]
    assert [answer["ask"] for answer in content["answers"]] == ["threshold", "best"]
    assert content["answers"][0]["data"]["lines"][0]["crossings"][0]["at"] == pytest.approx(1)
    assert content["answers"][0]["along"] == "spares.hot"
    assert "spares are as good as new" in content["assumptions"]
    assert content["provenance"]["scenario_sha256"] == loaded.digest
    assert content["provenance"]["command"] == "ettrick sweep spares.yaml"


def test_counts_add_up(loaded: LoadedStudy, table: Table) -> None:
    """Every point has one status; cells whose jobs did not finish, or whose precision was missed, count beside."""
    table = mark(table, 3, status="crashed", metrics={}, trouble="its process died 3 times")
    table = broken(table, 0, censored=2, precise=False, warnings=("a rack is unused",))
    counts = sweep_document(loaded, table, command="")["counts"]
    statuses = [counts[name] for name in ("ok", "infeasible", "failed", "crashed")]
    assert statuses == [3, 2, 0, 1]
    assert sum(statuses) == counts["points"] == counts["cells"] == 6
    assert (counts["cells_ok"], counts["censored"], counts["imprecise"]) == (3, 1, 1)


def test_warnings_are_said_once_with_the_number_of_cells(loaded: LoadedStudy, table: Table) -> None:
    """What several cells warn of is one line."""
    for number in (0, 1):
        table = broken(table, number, warnings=("a rack is unused", "a rack is unused"))
    assert sweep_document(loaded, table, command="")["warnings"] == [{"warning": "a rack is unused", "cells": 2}]


def test_points_that_cannot_run_are_an_answer_unless_none_can(loaded: LoadedStudy, table: Table) -> None:
    """Two of six cells without room do not spoil the results; six of six do."""
    assert against_sweep(sweep_document(loaded, table, command="")) == []
    nothing = table_of(loaded.study.vary, lambda where: {})
    assert against_sweep(sweep_document(loaded, nothing, command="")) == ["no point can run: no room for the job"]


def test_what_went_wrong_is_named(loaded: LoadedStudy, table: Table) -> None:
    """Crashed and failed points by number and reason, and how many missed the precision."""
    table = mark(table, 3, status="crashed", metrics={}, trouble="its process died 3 times")
    table = mark(table, 2, status="failed", metrics={}, trouble="ZeroDivisionError: division by zero")
    table = broken(table, 0, precise=False)
    assert against_sweep(sweep_document(loaded, table, command="")) == [
        "point 3 crashed: its process died 3 times",
        "point 2 failed: ZeroDivisionError: division by zero",
        "the precision asked for was not reached in 1 of 6 cells",
    ]

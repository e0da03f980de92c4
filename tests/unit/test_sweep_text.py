"""The text of a study: answers first, then the numbers, in a form that suits what was varied."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from analysis.page.chapters.study import format_sweep
from analysis.results.run import render
from analysis.study.load import load_study
from analysis.sweep.document import sweep_document
from tests.answers_tools import broken, common_noise, table_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

NOISE = common_noise(24)
HEAD = "name: spares\nquestion: How many?\nscenario: quickstart\n"


def content_of(folder: Path, vary: str, results: Callable[[dict[str, Any]], Any], **more: Any) -> dict[str, Any]:
    """Return the document of a study, read back from JSON."""
    path = folder / "study.yaml"
    path.write_text(f"{HEAD}vary: {vary}\n{more.get('rest', '')}", encoding="utf-8")
    loaded = load_study(path)
    table = table_of(loaded.study.vary, results, metrics=loaded.study.metrics)
    for number, changes in more.get("changes", {}).items():
        table = broken(table, number, **changes)
    found: dict[str, Any] = json.loads(render(sweep_document(loaded, table, command="")))
    return found


def words(text: str) -> list[list[str]]:
    """Return the words of each line."""
    return [line.split() for line in text.splitlines()]


GRID = "{spares.hot: {title: hot spares, choices: [0, 2]}, repair.time: {title: repair time, choices: [6 h, 1 d, 2 d]}}"


def steps(where: dict[str, Any]) -> dict[str, Any]:
    """Return a metric that is best with two spares and the shortest repair."""
    return {"ettr": 0.9 + 0.01 * where["spares.hot"] - 0.01 * where["repair.time"] / 86400 + NOISE}


def test_two_axes_and_one_metric_are_a_matrix(tmp_path: Path) -> None:
    """Rows by the axis with more values, columns by the other; the answer in words comes before it."""
    grid = GRID.replace("[0, 2]", "[0, 1, 2]")
    text = format_sweep(content_of(tmp_path, grid, steps, rest="questions: [{ask: best}]"))
    assert ["0", "89.8", "89.0", "88.0"] in words(text)
    assert ["2", "91.8", "91.0", "90.0"] in words(text)
    assert text.index("How many?") < text.index("91.8 % (91.3 to 92.2), comes with") < text.index("89.0")


def test_several_metrics_are_a_row_for_each_cell(tmp_path: Path) -> None:
    """The first metric with its interval and the luck of one run, others by their means."""
    content = content_of(
        tmp_path, GRID, lambda where: {**steps(where), "cost": 2e6 + 0 * NOISE}, rest="metrics: [ettr, cost]"
    )
    rows = words(format_sweep(content))
    found = next(line for line in rows if line[:3] == ["0", "2", "d"])
    assert found[3:7] == ["88.0", "%", "[87.6,", "88.4]"]
    assert found[7:] == ["2.00", "million", "±", "1.0", "points"]


def test_the_three_doubts_are_three_columns(tmp_path: Path) -> None:
    """Monte Carlo error, the luck of one run and what is not known are never one number."""
    vary = "{spares.hot: {choices: [0, 2]}, repair.time: {distribution: {law: between, p05: 6 h, p95: 2 d}}}"
    text = format_sweep(content_of(tmp_path, vary, steps))
    assert "90 % band of" in text
    row = next(line for line in words(text) if line and line[0] == "2" and "%" in line)
    assert any(word.startswith("[") for word in row)
    assert "to" in row
    assert "±" in row
    # Nor does a second axis make a matrix of them, which has no place for a band.
    more = "{job: {choices: [1 s, 2 s], path: jobs.0.step_time}, " + vary[1:]
    assert "90 % band of" in format_sweep(content_of(tmp_path, more, steps))


def test_many_cells_are_cut_and_counted(tmp_path: Path) -> None:
    """At most sixty rows; where the rest is, is said."""
    vary = "{spares.hot: {range: {min: 0, max: 79, step: 1}}}"
    content = content_of(tmp_path, vary, lambda where: {"ettr": 0.9 + NOISE})
    text = format_sweep(content, width=300)
    assert sum(line[1:3] == ["90.0", "%"] for line in words(text)) == 60
    assert "all 80 are in points.csv" in text


def test_cells_without_results_are_named_once_for_each_reason(tmp_path: Path) -> None:
    """A reason that several cells share is one line with all of them."""
    content = content_of(tmp_path, GRID, lambda where: {} if where["spares.hot"] == 0 else steps(where))
    (line,) = [line for line in format_sweep(content, width=300).splitlines() if "no room for the job" in line]
    assert line.count("hot spares 0") == 3
    assert "cannot run" in line


def test_lines_of_a_table_fit_the_terminal(tmp_path: Path) -> None:
    """With long labels they fold; numbers stay whole."""
    label = "a very long name of a recovery strategy that nobody would want to read in a table at all but may be there"
    vary = f"{{repair.time: {{title: way, path: repair.time, choices: {{{label}: 6 h, b: 2 d}}}}}}"
    content = content_of(
        tmp_path, vary, lambda where: {"ettr": 0.9 + NOISE, "cost": 2e6 + 1e5 * NOISE}, rest="metrics: [ettr, cost]"
    )
    text = format_sweep(content, width=80)
    assert all(len(line) <= 80 for line in text[: text.index("Assumptions")].splitlines())
    assert any("90.0 %" in line for line in text.splitlines())


def test_notes_tell_what_a_reader_must_know(tmp_path: Path) -> None:
    """Unfinished jobs below; warnings come before the answer, with the number of their cells unless all have them."""
    changes = {0: {"censored": 3, "warnings": ("a rack is unused",)}}
    text = format_sweep(content_of(tmp_path, GRID, steps, rest="questions: [{ask: best}]", changes=changes))
    assert "in 1 of 6 cells a job was not finished at the horizon" in text
    assert text.index("warning: a rack is unused (1 of 6 cells)") < text.index("he highest useful share")


def test_sentences_and_tables_take_the_columns_that_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty of them are enough for a matrix: sentences and headings break, the labels are all there, no mean is cut."""
    monkeypatch.setenv("COLUMNS", "60")
    long = GRID.replace("repair time", "median time of a repair at the site of the vendor").replace(
        "[0, 2]", "[0, 1, 2]"
    )
    text = format_sweep(content_of(tmp_path, long, steps, rest="questions: [{ask: best}]"))
    assert max(map(len, text.splitlines())) <= 60
    assert ["2", "91.8", "91.0", "90.0"] in words(text)
    monkeypatch.delenv("COLUMNS")
    wide = format_sweep(content_of(tmp_path, long, steps, rest="questions: [{ask: best}]"))
    assert " ".join(text.split()).startswith(" ".join(wide.split())[:300])
    assert max(map(len, wide.splitlines())) > 60


def test_three_axes_are_a_matrix_for_each_value_of_the_shortest(tmp_path: Path) -> None:
    """All of 48 cells are seen, those that the question is about too."""
    vary = (
        "{spares.hot: {choices: [0, 2]}, repair.time: {choices: [1 h, 2 h, 3 h, 4 h, 5 h, 6 h]}, "
        "jobs.0.step_time: {title: step, choices: [1 s, 2 s, 3 s, 4 s]}}"
    )
    text = format_sweep(
        content_of(tmp_path, vary, lambda where: {"ettr": 0.8 + 0.01 * where["jobs.0.step_time"] + NOISE})
    )
    lines = [line for line in words(text) if line[1:2] == ["h"]]
    assert sum(line.count("84.0") for line in lines) == 12
    assert sum(len(line) - 2 for line in lines) == 48


def test_unfinished_runs_are_counted_in_their_rows(tmp_path: Path) -> None:
    """Of 24 runs 3 were not finished in one cell: 21 of 24 there, and all in the others."""
    content = content_of(
        tmp_path,
        GRID,
        lambda where: {**steps(where), "cost": 2e6 + 0 * NOISE},
        rest="metrics: [ettr, cost]",
        changes={0: {"censored": 3}},
    )
    rows = [line for line in words(format_sweep(content)) if line[-2:-1] == ["of"] and line[-1] == "24"]
    assert sorted(line[-3] for line in rows) == ["21", *["24"] * 5]


def test_a_precision_is_told_with_what_it_took(tmp_path: Path) -> None:
    """The width asked for, in how many cells it was reached, and the replications of each; a miss is marked."""
    changes = {number: {"precise": number > 0} for number in range(6)}
    text = format_sweep(content_of(tmp_path, GRID, steps, rest="precision: {width: 0.1pt}", changes=changes), width=300)
    assert "precision 0.1pt, the half-width of the 95 % interval of ETTR: reached in 5 of 6 cells" in text
    rows = [line for line in words(text) if line[2:3] in (["h"], ["d"])]
    assert [line[-1] for line in rows].count("24") == 5
    assert sum(line[-3:] == ["24:", "too", "few"] for line in rows) == 1

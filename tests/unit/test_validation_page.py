"""What is shown of a validation: text and Markdown of one document, and the recorded run of the reference."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from analysis.page.chapters.validation import format_validation as typed_format_validation
from analysis.results.models import (
    ValidateDocument,
    ValidationRow,
)
from analysis.results.run import plain
from analysis.validation import record
from analysis.validation.lab import Estimate, Lab
from analysis.validation.play import HEADS, describe, described_row, play
from analysis.validation.play import against as typed_against
from analysis.validation.play import cells_of as typed_cells_of
from analysis.validation.table import Group, Table, chosen, load_table
from tests.cases import cases
from tests.typed import of_plain
from tests.unit.test_validation_verdicts import row

if TYPE_CHECKING:
    from pathlib import Path

markdown = of_plain(record.markdown, ValidateDocument)
format_validation = of_plain(typed_format_validation, ValidateDocument)
against = of_plain(typed_against, ValidateDocument)
cells_of = of_plain(typed_cells_of, ValidationRow)

CHEAP = ("oracle-heavy-productive", "oracle-nodes-down-mean", "oracle-wear-out", "oracle-two-causes")
"""Rows with luck in them that are played again, in about two seconds."""


def fake(lab: Lab, replications: int, *, ours: float = 10.1, error: float = 0.0) -> Estimate:
    """Return what a row says that ours is."""
    return Estimate(ours, error, replications)


def missing(lab: Lab, replications: int) -> Estimate:
    """Look for data that are not there."""
    raise FileNotFoundError


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    """Return the document of a small table with a row of each kind and of each verdict."""
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("relative", {"size": 0.02, "conventions": {"failures_in_restart": "no", "start": "cold"}}),
        ("absolute", {"size": 0.2, "quantity": "<b>bold</b> | cell", "unit": "h"}),
        ("sampling", {"replications": 16, "independent": True, "arguments": {"error": 1.0}, "most_luck": 1.0}),
        ("at_least", {"arguments": {"ours": 9.0}}),
        ("at_most", {"arguments": {"ours": 9.0}}),
        ("interval", {"low": 1, "high": 20, "value": None}),
        ("must_miss", {"size": 5.0, "arguments": {"ours": 90.0}}),
        ("printed", {"size": 0.5, "measure": "missing", "needs_data": True, "only_reads": True}),
    ]
    rows = tuple(
        row(kind, **({"id": f"row-{kind}".replace("_", "-"), "measure": "fake"} | entry)) for kind, entry in kinds
    )
    table = Table((Group("group", "A <title>", rows),), load_table().unchecked)
    found = play(table, Lab(), measures={"fake": fake, "missing": missing})
    document: dict[str, Any] = plain(describe(found, command="ettrick validate"))
    return document


def test_the_text_and_the_markdown_show_every_row(content: dict[str, Any]) -> None:
    """Both have each row, the failed one's reason, the skipped one's, and what is not checked."""
    for text in (format_validation(content), markdown(content)):
        for each in content["groups"][0]["rows"]:
            assert each["id"] in text
        assert content["not_checked"][0]["why"] in text
        assert "6 of 8 rows pass; failed: 1; skipped: 1 (reference data not present)." in text
        assert "Seed 1; probability of a false alarm in the whole table: 0.001; rows with luck in them: 1." in text
        assert "Independent rows together (1): pass; p = 0.92" in text
        assert "it passes from 0.0001 on." in text
        assert "Of these rows 1 read the reference data alone and check the reading, not the simulator." in text
    assert "row-at-least: beyond its limit" in format_validation(content)
    assert "inputs of each row: --json, ettrick report" in format_validation(content)


@cases(("number", "words"), [(7, "cold start: a-0, a-1, a-2, a-3, a-4, a-5, a-6"), (9, "a-5 and 3 others")])
def test_of_many_rows_some_are_named(number: int, words: str) -> None:
    """Of rows with one convention six are named, and how many others there are; one other is named as well."""
    names = [f"a-{place}" for place in range(number)]
    rows = [
        row("absolute", 1.0, id=name, measure="fake", conventions={"start": start})
        for name, start in [*((name, "cold") for name in names), ("b", "stationary")]
    ]
    table = Table((Group("group", "A title", tuple(rows)),), ())
    found = play(table, Lab(), measures={"fake": fake})
    text = format_validation(describe(found, command=""))
    assert words in text
    assert f"{names[-1]}," not in text


def test_every_line_of_a_markdown_table_has_as_many_cells(content: dict[str, Any]) -> None:
    """A bar in a text does not break its table."""
    lengths = {
        len(re.findall(r"(?<!\\)\|", line)) for line in markdown(content).splitlines() if line.startswith("| `row-")
    }
    assert lengths == {3 + len(HEADS)}


def test_cells_say_what_was_compared(content: dict[str, Any]) -> None:
    """Each kind has its sign; a relative tolerance is in percent; conventions are words."""
    rows = {each["id"]: cells_of(each) for each in content["groups"][0]["rows"]}
    assert rows["row-relative"][:7] == ["10", "10.100", "+1 %", "± 2 %", "pass", "sanity", "–"]
    assert rows["row-relative"][7] == "no failures in restarts, cold start"
    assert rows["row-absolute"][:4] == ["10 h", "10.100 h", "+0.1 h", "± 0.2 h"]
    assert rows["row-at-least"][:5] == ["≥ 10", "9", "−1", "≥ 0", "FAIL"]
    assert rows["row-at-most"][:5] == ["≤ 10", "9", "−1", "≤ 0", "pass"]
    assert rows["row-interval"][:4] == ["1..20", "10.100", "0", "± 0"]
    assert rows["row-must-miss"][2:5] == ["+80", "beyond ± 5", "pass"]
    assert rows["row-printed"][1:5] == ["–", "–", "–", "skipped"]
    assert rows["row-sampling"][6] == "16"


# ------------------------------------------------------------------------------------------------- the reference page


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    """Return the recorded run."""
    document: dict[str, Any] = json.loads((record.REFERENCE / "validation.json").read_text(encoding="utf-8"))
    return document


def of_rows(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rows of a document by id, in order."""
    return {each["id"]: each for group in document["groups"] for each in group["rows"]}


def test_the_reference_page_is_what_the_recorded_run_gives(recorded: dict[str, Any]) -> None:
    """The page is written from the recorded run (make validation-page), in which no row fails."""
    assert (record.REFERENCE / "validation.md").read_text(encoding="utf-8") == markdown(recorded)
    assert against(recorded) == []


def test_the_recorded_run_is_of_this_table(recorded: dict[str, Any]) -> None:
    """Groups, rows, stated values, tolerances and what is not checked are those of the table, in its order."""
    table = load_table()
    assert [(group["name"], group["title"]) for group in recorded["groups"]] == [group[:2] for group in table.groups]
    found = of_rows(recorded)
    assert list(found) == [each.id for each in table.rows]
    for each in table.rows:
        stated = each.model_dump(mode="json", exclude={"group"})
        assert {key: found[each.id][key] for key in stated} == stated
    assert recorded["not_checked"] == [entry.model_dump(mode="json") for entry in table.unchecked]
    assert recorded["stochastic_rows"] == table.stochastic
    assert recorded["seed"] == Lab().seed


@pytest.mark.nightly
def test_recorded_formulas_are_todays(recorded: dict[str, Any]) -> None:
    """Rows without luck have today's values and verdicts; so have some with luck, to the digits that are shown.

    A row that needs reference data says nothing where they are missing.
    """
    table = load_table()
    names = [each.id for each in table.rows if not each.is_stochastic] + list(CHEAP)
    found = of_rows(recorded)
    for verdict in play(table, Lab(processes=1), names).verdicts:
        then = found[verdict.row.id]
        if verdict.state == "skipped" or then["verdict"] == "skipped":
            assert verdict.row.needs_data
            continue
        now = plain(described_row(verdict.row, verdict))
        for key, value in now.items():
            assert then[key] == (pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value), (
                f"{verdict.row.id}: {key}; run `make validation-page`"
            )


@pytest.mark.parametrize("value", [117, 130])
def test_a_run_is_recorded_with_its_page(value: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command writes the data and the page that they give; its status is 1 if a row fails, here on purpose."""
    table = chosen(load_table(), ["daly-optimum-24h"])
    (group,) = table.groups
    changed = group._replace(rows=(group.rows[0].model_copy(update={"value": value}),))
    monkeypatch.setattr(record, "load_table", lambda: table._replace(groups=(changed,)))
    assert record.main(["--out", str(tmp_path)]) == (0 if value == 117 else 1)
    document = json.loads((tmp_path / "validation.json").read_text(encoding="utf-8"))
    assert list(of_rows(document)) == ["daly-optimum-24h"]
    assert (tmp_path / "validation.md").read_text(encoding="utf-8") == markdown(document)

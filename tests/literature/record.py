"""Record a run of the whole table for the reference page: ``make validation-page``.

What was found goes to ``docs/reference/validation.json``, and the page that shows it to ``validation.md`` beside it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ettrick.analysis.results.files import in_lines
from ettrick.analysis.results.run import plain
from ettrick.analysis.terminal import ProgressBar, console
from ettrick.analysis.validation.lab import ScenarioRunner
from ettrick.analysis.validation.run import HEADS, LABELS, against, cells_of, describe, in_words, validate
from ettrick.analysis.validation.table import load_table

if TYPE_CHECKING:
    from ettrick.analysis.results.documents import ValidateDocument, ValidationGroup, ValidationRow

# The page of a validation in the reference: Markdown.

_HEAD = """\
# Validation

<!-- Written by `make validation-page`: change the table, then run that. -->

`ettrick validate` compares what Ettrick says with published values, with theory and with other programs, and ends with
status 1 if a row fails. This is its table, as of the last recorded run. [Check Ettrick](../howto/check-ettrick.md) says
how to read it and how to add to it; [validation.json](validation.json) holds all digits.
"""

_LIMITS = """\
The limit of a row is the tolerance that it states, and the sampling error: a quantile of Student's t times the standard
error over independent replications. All rows with random numbers in them share one probability of a false alarm, so
that many rows do not make one likely. Where the sampling error would be more than the tolerance, or more than a tenth
of what theory expects where nothing but sampling error is allowed (a row may state another share, and why), the row
fails.
"""


def markdown(content: ValidateDocument) -> str:
    """Return the document of a validation as the page of the reference."""
    parts = [_HEAD, "\n".join(f"- {line}" for line in in_words(content)) + "\n", _LIMITS]
    parts.append("\n".join(f"- *{label}*: {words}" for label, words in LABELS.items()) + "\n")
    for group in content.groups:
        parts.append(f"## {_escaped(group.title)}\n")
        parts.append(_table(["row", "quantity", *HEADS], [_cells(row) for row in group.rows]))
        parts.append(_notes(group))
    parts.append("## Not checked\n")
    entries = [[entry.paper, entry.what, entry.why] for entry in content.not_checked]
    parts.append(_table(["paper", "what", "why not"], entries))
    return "\n".join(parts)


def _cells(row: ValidationRow) -> list[str]:
    """Return the cells of a row in the page."""
    where = f"{row.quantity} ({row.where})"
    return [f"`{row.id}`", where, *cells_of(row)]


def _notes(group: ValidationGroup) -> str:
    """Return what rows rest on and why they have their tolerances; what several have in common is said once."""
    found: dict[str, list[str]] = {}
    for row in group.rows:
        paper = f"{row.paper} ({row.provenance}). Inputs: {row.inputs}. Tolerance: {row.tolerance['why']}"
        found.setdefault(paper, []).append(f"`{row.id}`")
    return "".join(f"- {', '.join(ids)}: {_escaped(text)}\n" for text, ids in found.items())


def _table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *([_escaped(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _escaped(text: str) -> str:
    """Return text that Markdown takes as it is, within one line."""
    for mark in ("|", "*", "$", "<", "["):
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
"""Where the page and its data are."""


def main(arguments: list[str] | None = None) -> int:
    """Simulate the table with the default seed and write both files; return 0, or 1 if a row fails."""
    parser = argparse.ArgumentParser(prog="record", description="Record a run of the validation table.")
    parser.add_argument("--out", type=Path, default=REFERENCE, metavar="DIR", help="where to write (the reference)")
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0 for one per core")
    options = parser.parse_args(arguments)
    with ProgressBar("rows", quiet=False) as progress:
        found = validate(load_table(), ScenarioRunner(processes=options.jobs), progress=progress)
    content = describe(found, command="")
    recorded = {key: value for key, value in plain(content).items() if key != "provenance"}
    (options.out / "validation.json").write_text(in_lines(recorded, 4) + "\n", encoding="utf-8")
    (options.out / "validation.md").write_text(markdown(content), encoding="utf-8")
    for line in against(content):
        console(sys.stderr).print(line, soft_wrap=True)
    return 1 if against(content) else 0


if __name__ == "__main__":
    sys.exit(main())

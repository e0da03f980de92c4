"""The page of a validation in the reference: Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.validation.cells import HEADS, LABELS, cells_of, in_words

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["markdown"]

_HEAD = """\
# Validation

<!-- Written by `make validation-page`: change the table, then run that. -->

`ettrick validate` compares what Ettrick says with published values, with theory and with other programs, and ends with
status 1 if a row fails. This is its table, as of the last recorded run. [Check Ettrick](../howto/check-ettrick.md) says
how to read it and how to add to it; [validation.json](validation.json) holds all digits.
"""

_LIMITS = """\
The limit of a row is the tolerance that it states, and what luck may add: a quantile of Student's t times the standard
error over independent replications. All rows with luck in them share one probability of a false alarm, so that many
rows do not make one likely. Where luck would be more than the tolerance, or more than a tenth of what theory expects
where nothing but luck is allowed (a row may state another share, and why), the row fails.
"""


def markdown(content: Mapping[str, Any]) -> str:
    """Return the document of a validation as the page of the reference."""
    parts = [_HEAD, "\n".join(f"- {line}" for line in in_words(content)) + "\n", _LIMITS]
    parts.append("\n".join(f"- *{label}*: {words}" for label, words in LABELS.items()) + "\n")
    for group in content["groups"]:
        parts.append(f"## {_escaped(group['title'])}\n")
        parts.append(_table(["row", "quantity", *HEADS], [_cells(row) for row in group["rows"]]))
        parts.append(_notes(group))
    parts.append("## Not checked\n")
    entries = [[entry["paper"], entry["what"], entry["why"]] for entry in content["not_checked"]]
    parts.append(_table(["paper", "what", "why not"], entries))
    return "\n".join(parts)


def _cells(row: Mapping[str, Any]) -> list[str]:
    """Return the cells of a row in the page."""
    where = f"{row['quantity']} ({row['where']})"
    return [f"`{row['id']}`", where, *cells_of(row)]


def _notes(group: Mapping[str, Any]) -> str:
    """Return what rows rest on and why they have their tolerances; what several have in common is said once."""
    found: dict[str, list[str]] = {}
    for row in group["rows"]:
        paper = f"{row['paper']} ({row['provenance']}). Inputs: {row['inputs']}. Tolerance: {row['tolerance']['why']}"
        found.setdefault(paper, []).append(f"`{row['id']}`")
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

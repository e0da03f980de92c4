"""What the terminal shows of a validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.cells import empty_table
from analysis.console import Page, console
from analysis.validation.cells import HEADS, cells_of, in_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

__all__ = ["format_validation"]

_WIDE = 132
_MOST_NAMES = 6
"""Rows that are named where several have something in common."""

_WHERE = "Quantity, paper and inputs of each row: --json, ettrick report, or the reference (docs/reference/validation)."


def format_validation(content: Mapping[str, Any], *, width: int | None = None) -> str:
    """Return the document of a validation (as read back from JSON) as text for standard output.

    Parameters
    ----------
    content
        The document.
    width
        Columns; by default those of the terminal, and what its tables need where there is none.
    """
    page = Page()
    out = console(page, width=width or (None if page.isatty() else _WIDE))
    for group in content["groups"]:
        _print_group(out, group)
    if content["not_checked"]:
        _print_not_checked(out, content)
        out.print()
    for line in (*in_words(content), _WHERE):
        out.print(line)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


def _print_group(out: Console, group: Mapping[str, Any]) -> None:
    """Print the rows of a group, why some of them failed, and their conventions: those of several rows once."""
    out.print(f"{group['name']}: {group['title']}", style="bold")
    *heads, _ = HEADS
    table = empty_table("row", *heads)
    for column in table.columns[-3:-1]:
        column.justify = "left"
    alike: dict[str, list[str]] = {}
    for row in group["rows"]:
        *cells, words = cells_of(row)
        table.add_row(row["id"], *cells)
        if words:
            alike.setdefault(words, []).append(row["id"])
    out.print(table)
    for words, names in alike.items():
        whose = "all rows" if len(names) == len(group["rows"]) else _named(names)
        out.print(f"  {words}: {whose}", style="dim")
    for row in group["rows"]:
        if row["verdict"] == "fail":
            out.print(f"  {row['id']}: {row['reason'] or 'beyond its limit'} ({row['quantity']})", style="bold")
    out.print()


def _named(names: list[str]) -> str:
    """Return names one after another; of many, the first and how many others there are."""
    others = len(names) - _MOST_NAMES
    if others < 2:
        return ", ".join(names)
    return f"{', '.join(names[:_MOST_NAMES])} and {others} others"


def _print_not_checked(out: Console, content: Mapping[str, Any]) -> None:
    """Print what is not compared, and why not."""
    out.print("Not checked", style="bold")
    for entry in content["not_checked"]:
        out.print(f"  {entry['paper']}: {entry['what']}")
        out.print(f"    {entry['why']}")

"""What comes with the program, as text for standard output."""

from __future__ import annotations

import textwrap

import sim
from analysis.console import Page, console

__all__ = ["format_inventory"]

_WIDEST_NAMES = 0.4
"""Share of the width that names may take; longer ones have a line of their own."""


def format_inventory(width: int | None = None) -> str:
    """Return a line for each scenario, study, topology, strategy and entry of the catalog, with its source.

    Parameters
    ----------
    width
        Columns that lines are wrapped to; by default those of the terminal, and whole lines where there is none.
    """
    page = Page()
    out = console(page)
    if width is None and page.isatty():
        width = out.width
    for kind, entries in sim.inventory().items():
        out.print(f"{kind}:", style="bold", soft_wrap=True)
        longest = max(map(len, entries))
        for name, text in entries.items():
            for line in _lines(name, text, longest, width):
                out.print(line, soft_wrap=True)
    return page.text()


def _lines(name: str, text: str, longest: int, width: int | None) -> list[str]:
    """Return a name with the text beside it, or below it where names are too long for that."""
    if width is None:
        return [f"  {name:{longest}}  {text}"]
    if longest > _WIDEST_NAMES * width:
        return [f"  {name}", *_wrapped(text, width, "    ", "    ")]
    return _wrapped(text, width, f"  {name:{longest}}  ", " " * (longest + 4))


def _wrapped(text: str, width: int, first: str, others: str) -> list[str]:
    room = max(width, len(others) + 20)
    return textwrap.wrap(text, room, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)

"""What comes with the program, as text for standard output."""

from __future__ import annotations

import textwrap

from ettrick import sim
from ettrick.analysis.terminal import Page, console

_WIDEST_NAMES = 0.4  # share of the width that names may take; longer ones have a line of their own


PLUGINS = "plugins"
"""The kind of all that other packages bring."""


def kinds() -> list[str]:
    """Return what kinds of things come with the program, each as one word, and the word for those of plugins."""
    return [*dict.fromkeys([*map(_word, sim.inventory()), PLUGINS])]


def names_of_kinds() -> dict[str, list[str]]:
    """Return the headings that each word for a kind stands for: the kind, its key in a scenario, and parts of that."""
    names: dict[str, list[str]] = {}
    for kind in sim.inventory():
        key = kind.partition(" (")[2].removesuffix(")").removesuffix(".use").removeprefix("ettrick.")
        for name in dict.fromkeys((_word(kind), key, *key.split("."))):
            names.setdefault(name, []).append(kind)
    return names | {_word(kind): [kind] for kind in sim.inventory()}


def format_inventory(width: int | None = None, only: str = "") -> str:
    """Return a line for each scenario, study, topology, strategy and entry of the catalog, with its source.

    Lines are wrapped to the width, by default that of the terminal, and whole where there is none; `only` is one of
    `names_of_kinds`, or `PLUGINS`.
    """
    page = Page()
    out = console(page)
    width = terminal_width() if width is None else width
    inventory = sim.inventory_of_plugins() if only == PLUGINS else sim.inventory()
    headings = names_of_kinds()[only] if only and only != PLUGINS else list(inventory)
    if not headings:
        return "no package beside Ettrick brings a plugin"
    for kind in headings:
        entries = inventory[kind]
        out.print(f"{kind}:", style="bold", soft_wrap=True)
        longest = max(map(len, entries))
        for name, text in entries.items():
            for line in _lines(name, text, longest, width):
                out.print(line, soft_wrap=True)
    return page.text()


def _word(kind: str) -> str:
    """Return the heading of a kind as one word, without the place in a scenario."""
    return kind.split(" (")[0].replace(" ", "-")


def terminal_width() -> int | None:
    """Return the columns of the terminal that standard output is; ``None`` where it is none."""
    page = Page()
    return console(page).width if page.isatty() else None


def _lines(name: str, text: str, longest: int, width: int | None) -> list[str]:
    """Return a name with the text beside it, or below it where names are too long for that."""
    if width is not None and longest > _WIDEST_NAMES * width:
        return [f"  {name}", *wrapped(text, width, "    ", 4)]
    return wrapped(text, width, f"  {name:{longest}}  ", longest + 4)


def wrapped(text: str, width: int | None, first: str, indent: int) -> list[str]:
    """Return a text in lines that hang below its beginning, which `first` stands before; one without a width."""
    if width is None:
        return [f"{first}{text}"]
    room = max(width, indent + 20)
    return textwrap.wrap(text, room, initial_indent=first, subsequent_indent=" " * indent, break_on_hyphens=False)

"""The terminal: text laid out for it that cannot command it, a bar, and the list of what comes with the program."""

from __future__ import annotations

import io
import re
import sys
import textwrap
import time
from typing import IO, TYPE_CHECKING, Any, Self

from ettrick import sim
from ettrick.sim.units import DAY, HOUR

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ettrick.sim import Prepared


_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters but tab and newline, and characters that reorder text: a terminal obeys them."""

_STYLE = re.compile("(\x1b\\[[0-9;]*m)")
"""A change of colour or weight, as a `console` writes it."""


def visible(text: str) -> str:
    """Return text from outside with what commands a terminal as escapes, which JSON reads back."""
    return _COMMANDS.sub(lambda match: f"\\x{ord(match[0]):02x}" if match[0] < " " else f"\\u{ord(match[0]):04x}", text)


def styled(text: str) -> str:
    """Return what is printed: as `visible`, but for the styles of a `console`."""
    if _COMMANDS.search(text) is None:
        return text
    return "".join(part if number % 2 else visible(part) for number, part in enumerate(_STYLE.split(text)))


class Page(io.StringIO):
    """Text that is laid out for standard output and written to it later, in one go.

    A console on standard output itself would write to it as soon as it is done, and fail there with a traceback.
    """

    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__()
        self.encoding = getattr(sys.stdout, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Return whether standard output is a terminal, and wants colour."""
        return sys.stdout is not None and sys.stdout.isatty()

    def text(self) -> str:
        """Return what was laid out, without blanks at the ends of lines."""
        return "\n".join(line.rstrip() for line in self.getvalue().splitlines())


def console(file: IO[str], *, width: int | None = None) -> Console:
    """Return a console that takes text without markup, and honours NO_COLOR, width and pipes."""
    from rich.console import Console

    class PlainConsole(Console):
        """A console that shows control characters."""

        def render_str(self, text: str, **options: Any) -> Text:
            """Return text that commands nothing."""
            return super().render_str(visible(text), **options)

    if width is None and not file.isatty():
        # Without a terminal there is no width to respect; a table that is cut helps no one.
        width = 120
    return PlainConsole(file=file, markup=False, highlight=False, emoji=False, width=width)


_EVERY = 30.0
"""Seconds between two lines [s]."""


class ProgressBar:
    """A bar on standard error, on a terminal only, for what takes more than a second.

    Parameters
    ----------
    lines
        Whether to write a line every half minute where standard error is no terminal, for what may take hours.
    """

    def __init__(self, what: str, *, quiet: bool, lines: bool = False) -> None:
        self.what = what
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self.enabled = not quiet and is_terminal
        self.lines = lines and not quiet and not is_terminal and sys.stderr is not None
        self.start = self.reported = time.perf_counter()
        self.first = sys.maxsize, self.start  # how many were there when it began to count, and when that was
        self.done = 0
        self.total: int | None = None
        self.bar: Any = None
        self.task: Any = None

    def __call__(self, done: int, total: int | None) -> None:
        """Show that `done` of `total` are there."""
        now = time.perf_counter()
        self.done, self.total = done, total
        if done < self.first[0]:
            self.first = done, now
        if self.lines and now - self.reported >= _EVERY:
            self.reported = now
            sys.stderr.write(f"{self.what}: {self._line(done, total, now)}\n")
            sys.stderr.flush()
        if not self.enabled or now - self.start < 1.0:
            return
        if self.bar is None:
            from rich import progress

            self.bar = progress.Progress(
                progress.TextColumn(self.what, markup=False),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeElapsedColumn() if total is None else progress.TimeRemainingColumn(),
                console=console(sys.stderr),
                transient=True,
            )
            self.task = self.bar.add_task("", total=total, completed=done)
            self.bar.start()
        self.bar.update(self.task, completed=done, total=total)

    def _line(self, done: int, total: int | None, now: float) -> str:
        """Return how far it is, and how long it will take if it goes on like this."""
        if total is None:
            return f"{done:,} so far, in {_about(now - self.start)}; how many it takes shows on the way"
        since, start = self.first
        left = f", about {_about((now - start) / (done - since) * (total - done))} left" if done > since else ""
        return f"{done:,} of {total:,}{left}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()


def _about(seconds: float) -> str:
    """Return an approximate time."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / HOUR:.1f} h" if seconds < 36 * HOUR else f"{seconds / DAY:.1f} d"


_MOST_NAMED = 4
_WHOSE = {
    "source": "the source's own",
    "entry": "stated for the bundle",
    "scenario": "the scenario's",
    "bundle": "the bundle's",
}
"""Whose repair applies, as `ettrick.sim.failures.source.RepairFrom` has it."""


def repairs_text(prepared: Prepared) -> str:
    """Return which causes have whose repair; empty where all have the scenario's."""
    causes: dict[str, list[str]] = {}
    for source in prepared.sources:
        if source.repair_from:
            causes.setdefault(source.repair_from, []).append(source.name)
    if set(causes) <= {"scenario"}:
        return ""
    return "; ".join(
        f"{_WHOSE[whose]}: {', '.join(names[:_MOST_NAMED])}"
        + (f" and {len(names) - _MOST_NAMED} more" if names[_MOST_NAMED:] else "")
        for whose, names in causes.items()
    )


# ----------------------------------------
# What comes with the program, as text for standard output.

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
        return "no other package provides a plugin"
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
    """Return a name with the text next to it, or below it where names are too long for that."""
    if width is not None and longest > _WIDEST_NAMES * width:
        return [f"  {name}", *wrapped(text, width, "    ", 4)]
    return wrapped(text, width, f"  {name:{longest}}  ", longest + 4)


def wrapped(text: str, width: int | None, first: str, indent: int) -> list[str]:
    """Return a text in lines that hang below its beginning, which `first` stands before; one without a width."""
    if width is None:
        return [f"{first}{text}"]
    room = max(width, indent + 20)
    return textwrap.wrap(text, room, initial_indent=first, subsequent_indent=" " * indent, break_on_hyphens=False)

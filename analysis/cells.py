"""Numbers and tables as text: what the terminal shows in one cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.table import Table

__all__ = [
    "amount_text",
    "bar_text",
    "count_text",
    "empty_table",
    "label_grid",
    "number_of",
    "percent_text",
    "range_text",
    "text_or_dash",
    "time_text",
]

_BAR = 16


def empty_table(*columns: str) -> Table:
    """Return a table with these columns, the first for labels."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for position, column in enumerate(columns):
        right = position > 0 and column != "" and column != "mostly because of"
        table.add_column(column, justify="right" if right else "left", no_wrap=position == 0)
    return table


def label_grid(rows: list[tuple[str, str]]) -> Table:
    """Return labels with texts beside them."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, text in rows:
        grid.add_row(f"  {label}", text)
    return grid


def text_or_dash(value: float | None, form: Callable[[float], str]) -> str:
    """Return a number as text; a dash where the data do not support one."""
    return "-" if value is None else form(value)


def range_text(ends: Sequence[float | None] | None, form: Callable[[float], str]) -> str:
    """Return two numbers as text; a dash where the data do not support both."""
    if ends is None or ends[0] is None or ends[1] is None:
        return "-"
    low, high = form(ends[0]), form(ends[1])
    number, _, unit = low.partition(" ")
    # A unit that both have is said once.
    return f"{number if unit == high.partition(' ')[2] else low}..{high}"


def percent_text(value: float) -> str:
    """Return a share in percent."""
    return f"{100 * value:.2f} %"


def count_text(value: float) -> str:
    """Return a number of events."""
    return f"{value:,.1f}"


def amount_text(value: float) -> str:
    """Return a large number with its prefix, to four digits."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:,.4g} {prefix}"
    return f"{value:,.0f}"


def bar_text(share: float) -> str:
    """Return a bar as long as a share."""
    eighths = round(share * _BAR * 8)
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


def number_of(count: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def time_text(seconds: float) -> str:
    """Return a time as people say it, to three digits."""
    if seconds == float("inf"):
        return "never"
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= (2 if unit == "d" else 1) * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"

"""Tables of an optimisation, and the words that they share with its sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.answers.words import dimension_of, is_share
from analysis.cells import amount_text, empty_table, number_of, percent_text, range_text, text_or_dash, time_text
from analysis.optimize.reasons import why
from sim import units

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
    from rich.table import Table

__all__ = ["VERDICTS", "change_text", "estimate_text", "print_confirmation", "print_tried", "title_of", "where_text"]

VERDICTS = {"holds": "holds", "fails": "fails", "open": "not resolved"}

_MOST = 10
"""Rows of a table of many combinations."""


def print_tried(out: Console, content: dict[str, Any]) -> None:
    """Print what was tried: all along a line, the front of several aims, or the best of many."""
    rows = content["front"] or content["tried"]
    out.print("\nThe front" if content["front"] else "\nWhat was tried", style="bold")
    measured = _measured(content)
    has_formula = "ettr" in measured and any(row["closed_form"] is not None for row in rows)
    columns = [title_of(name, content) for name in content["axes"]]
    for name in measured:
        columns += [name, "95 %\ninterval"]
    columns += _condition_columns(content)
    columns += ["closed\nform"] if has_formula else []
    columns += ["certain"] if content["front"] else []
    table = _table(columns)
    for row in _shown(rows, content):
        cells = list(row["values"].values())
        if row["trouble"]:
            table.add_row(*cells, "cannot run")
            continue
        for name in measured:
            cells += _cells(name, row["aims"][name])
        cells += _condition_cells(row)
        cells += [text_or_dash(row["closed_form"], percent_text)] if has_formula else []
        cells += ["yes" if row["certain"] else "maybe"] if content["front"] else []
        table.add_row(*cells)
    out.print(table)


def print_confirmation(out: Console, content: dict[str, Any]) -> None:
    """Print what fresh failures say, beside what was said where the answer was found."""
    found = content["confirmation"]
    verdict = {True: "confirmed", False: "NOT confirmed", None: "not resolved"}[found["confirmed"]]
    out.print(f"\nOn fresh failures: {verdict}", style="bold")
    draws = f" on each of {content['draws']} other draws" if content["draws"] else ""
    out.print(f"  {number_of(found['replications'], 'replication')}{draws}, seed {found['seed']}")
    for line in why(content):
        out.print(f"  {line}", soft_wrap=True)
    measured = _measured(content)
    columns = [""]
    for name in measured:
        columns += [f"{name}\nwhere found", "on fresh\nfailures", "95 %\ninterval", "better than\nas it is"]
        columns += ["95 %\ninterval"]
    table = _table([*columns, *_condition_columns(content)])
    before = content["front"] or [content["answer"], content["runner_up"]]
    for row, first in zip(found["trials"], before, strict=False):
        cells = [where_text(row["values"], content)]
        for name in measured:
            cells += [text_or_dash(first["aims"][name]["mean"], _form(name)), *_cells(name, row["aims"][name])]
            cells += _gain_cells(name, row["gain"][name])
        table.add_row(*cells, *_condition_cells(row))
    start = found["as_it_is"]
    told = where_text(start["values"], content)
    cells = [f"as it is{f' ({told})' if told else ''}"]
    for name in measured:
        cells += ["", *_cells(name, start["aims"][name]), "", ""]
    table.add_row(*([*cells, *_condition_cells(start)] if not start["trouble"] else [cells[0], "cannot run"]))
    out.print(table)


def where_text(values: dict[str, str], content: dict[str, Any]) -> str:
    """Return a combination in words."""
    return ", ".join(f"{title_of(name, content)} {label}" for name, label in values.items())


def title_of(name: str, content: dict[str, Any]) -> str:
    """Return what an axis, or a metric, is called."""
    axis = content["axes"].get(name)
    return str(axis["title"]) if axis is not None else name


def estimate_text(metric: str, found: dict[str, Any]) -> str:
    """Return a mean with its interval."""
    mean, interval = _cells(metric, found)
    return f"{mean} ({interval})"


def change_text(metric: str, change: float, *, sign: bool = False) -> str:
    """Return a difference of two values of a metric; shares in points."""
    if is_share(metric):
        return f"{100 * change:{'+' if sign else ''}.2f} pt"
    minus = "-" if change < 0 else "+" if sign else ""
    return f"{minus}{_form(metric)(abs(change))}"


def _measured(content: dict[str, Any]) -> list[str]:
    return [aim["name"] for aim in content["aims"] if not aim["is_axis"]]


def _table(columns: list[str]) -> Table:
    """Return a table whose numbers stay whole."""
    table = empty_table(*columns)
    for column in table.columns:
        column.no_wrap = True
    return table


def _shown(rows: list[dict[str, Any]], content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that are shown: all along a line, of many combinations the best."""
    if content["method"] in ("curve", "edge") or content["front"]:
        return rows
    aim = content["aims"][0]
    known = [row for row in rows if row["met"] and row["aims"][aim["name"]]["mean"] is not None]
    sign = 1 if aim["lowest"] else -1
    return sorted(known, key=lambda row: sign * row["aims"][aim["name"]]["mean"])[:_MOST] or rows[:_MOST]


def _condition_columns(content: dict[str, Any]) -> list[str]:
    return [column for text in content["conditions"] for column in (text, "95 %\ninterval", "")]


def _condition_cells(row: dict[str, Any]) -> list[str]:
    cells = []
    for found in row["conditions"]:
        cells += [*_cells(found["metric"], found), VERDICTS[found["verdict"]]]
    return cells


def _gain_cells(metric: str, gain: dict[str, Any] | None) -> list[str]:
    """Return how much better something is than the scenario as it is, and the interval of that."""
    if gain is None:
        return ["-", "-"]

    def form(change: float) -> str:
        return change_text(metric, change, sign=True)

    return [form(gain["mean"]), range_text(gain["ci95"], form)]


def _cells(metric: str, found: dict[str, Any]) -> list[str]:
    form = _form(metric)
    return [text_or_dash(found["mean"], form), range_text(found["ci95"], form)]


def _form(metric: str) -> Callable[[float], str]:
    """Return how values of a metric are told."""
    if is_share(metric):
        return percent_text
    if dimension_of(metric) is units.DURATION:
        return time_text
    return lambda value: amount_text(value) if abs(value) >= 1000 else f"{value:.4g}"

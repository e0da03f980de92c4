"""The sensitivity of a study as text for the terminal, and what speaks against it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.cells import bar_text, empty_table, number_of, range_text, text_or_dash
from analysis.console import Page, console
from analysis.paired import MANY
from analysis.sensitivity.words import answers, changes, forms, name_of, percent, title, varies, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

__all__ = ["against", "format_sensitivity"]

_LEAST_WIDTH = 120
"""Columns that a table may take on any terminal: one that is cut helps nobody."""

_BAR = 16


def format_sensitivity(content: dict[str, Any], *, width: int | None = None) -> str:
    """Return the document (as read back from JSON) as text, `width` columns wide (the terminal's)."""
    page = Page()
    out = console(page, width=width)
    out.width = max(out.width, _LEAST_WIDTH)
    out.print(f"What matters to {name_of(content['metric'])} in {content['study']}", style="bold")
    for line in content["warnings"]:
        out.print(f"  warning: {line}", soft_wrap=True)
    for sentence in answers(content):
        out.print(f"  {sentence}", soft_wrap=True)
    out.print()
    _print_center(out, content)
    if content["indices"] is not None and content["indices"]["variance"]["luck"]["share"] is not None:
        _print_variance(out, content)
    if content["indices"] is not None and content["indices"]["by_axis"]:
        _print_indices(out, content)
    if content["tornado"] is not None:
        _print_tornado(out, content)
    notes = list(_notes(content))
    if notes:
        out.print()
    for line in notes:
        out.print(f"  - {line}", soft_wrap=True)
    return page.text()


def _print_center(out: Console, content: dict[str, Any]) -> None:
    """Print what the central point comes to."""
    center, form = content["center"], forms(content).value
    values = ", ".join(f"{title(content, name)} {label}" for name, label in center["values"].items())
    formula = "" if center["closed_form"] is None else f" (closed form {form(center['closed_form'])})"
    out.print(f"  centre: {values}", soft_wrap=True)
    mean = f"{text_or_dash(center['mean'], form)}, 95 % interval {range_text(center['ci95'], form)}{formula}"
    told = f"{number_of(content['replications'], 'replication')} of every point, seed {content['seed']}"
    out.print(f"  {name_of(content['metric'])} there: {mean}; {told}", soft_wrap=True)


def _print_variance(out: Console, content: dict[str, Any]) -> None:
    """Print what brings the variance of one run."""
    found = content["indices"]
    labels = {"parameters": whole(content).lower(), "luck": "luck", "both": "both together"}
    table = empty_table("variance of one run", "standard\ndeviation", "share", "95 %\ninterval", "")
    table.columns[-1].min_width = _BAR
    spread = forms(content).spread
    for name, label in labels.items():
        part = found["variance"][name]
        value, interval = part["share"]["value"], part["share"]["ci95"]
        table.add_row(label, spread(part["variance"] ** 0.5), percent(value), _range(interval), bar_text(value))
    out.print()
    out.print(table)


def _print_indices(out: Console, content: dict[str, Any]) -> None:
    """Print which axis brings how much of what varies."""
    rows = content["indices"]["by_axis"]
    has_form = any(row["closed_form"] is not None for row in rows)
    form = ["closed\nform"] if has_form else []
    table = empty_table(
        f"of {whole(content).lower()}", "alone", "95 %\ninterval", *form, "", "in all", "95 %\ninterval", *form
    )
    for row in rows:
        parts = [row["first"], row["total"]]
        forms = [[percent(row["closed_form"][key])] if has_form else [] for key in ("first", "total")]
        cells = [[percent(part["value"]), _range(part["ci95"])] for part in parts]
        table.add_row(
            title(content, row["axis"]), *cells[0], *forms[0], bar_text(row["first"]["value"]), *cells[1], *forms[1]
        )
    out.print()
    out.print(table)


def _print_tornado(out: Console, content: dict[str, Any]) -> None:
    """Print how far each axis alone moves the metric."""
    change = forms(content).change
    widest = max((abs(mean) for swing in content["tornado"] for mean in changes(swing)), default=0.0)
    has_form = any(move["closed_form"] is not None for swing in content["tornado"] for move in swing["moves"])
    form = ["closed\nform"] if has_form else []
    table = empty_table(
        "one at a time", "value", "change", "95 %\ninterval", *form, "lower", "higher", "not resolved:\nreplications"
    )
    table.columns[-2].justify = "left"
    for swing in content["tornado"]:
        for place, move in enumerate(swing["moves"]):
            found = move["change"]
            mean = 0.0 if found is None else found["mean"]
            length = abs(mean) / widest if widest else 0.0
            table.add_row(
                title(content, swing["axis"]) if place == 0 else "",
                move["label"],
                "-" if found is None else change(mean),
                range_text(None if found is None else found["ci95"], change),
                *([text_or_dash(move["closed_form"], change)] if has_form else []),
                _left_bar(length) if mean < 0 else "",
                bar_text(length) if mean > 0 else "",
                _status(move),
            )
    out.print()
    out.print(table)


def _left_bar(share: float) -> str:
    """Return a bar as long as a share that ends on the right: of whole blocks, for finer ones begin on the left."""
    return "█" * round(share * _BAR)


def _status(move: dict[str, Any]) -> str:
    """Return how many replications would resolve what may be chance; nothing where that is not needed."""
    found = move["change"]
    if found is None:
        return "no result"
    if found["resolved"]:
        return ""
    if not varies(move):
        return "no change"
    needed = found["replications_to_resolve"]
    return f"> {MANY:,}" if needed is None else f"{needed:,}"


def _notes(content: dict[str, Any]) -> Iterator[str]:
    """Yield what a reader must know before using the numbers."""
    found = content["indices"]
    if found is not None and found["by_axis"]:
        yield "alone: by how much the variance would fall if this one were known; in all: what it takes part in"
        noise = found["noise_of_means"]
        if noise >= 0.005:
            yield f"luck makes {percent(noise)} of the variance of the means of points; it is taken out above"
    chosen = [axis["title"] for axis in content["axes"].values() if not axis["unknown"]]
    if found is not None and chosen:
        yield f"chosen, not unknown: {', '.join(chosen)}; all values of the study count as equally likely"
    if content["tornado"] is not None:
        unknown = any(axis["unknown"] for axis in content["axes"].values())
        low = content["low"]
        ends = f"; the ends of what is unknown are its quantiles of {percent(low)} and {percent(1 - low)}"
        yield f"one at a time: changes on the same failures, each interval 95 % by itself{ends if unknown else ''}"
        yield from _without_luck(content)
    for line in content["assumptions"]:
        yield f"assumes: {line}"


def _without_luck(content: dict[str, Any]) -> Iterator[str]:
    """Yield the changes that are resolved once the luck of the failures is taken out."""
    change = forms(content).change
    for swing in content["tornado"]:
        for move in swing["moves"]:
            found = move["change"]
            taken = found and not found["resolved"] and found["controlled"]
            if taken and not taken["ci95"][0] <= 0 <= taken["ci95"][1]:
                told = range_text(taken["ci95"], change)
                name = title(content, swing["axis"])
                yield f"{name} {move['label']}: {told} with the luck of the failures taken out"


def _range(ends: list[float]) -> str:
    return f"{100 * ends[0]:.0f}..{100 * ends[1]:.0f} %"


def against(content: dict[str, Any]) -> list[str]:
    """Return what speaks against relying on a document, a line each; empty if nothing does."""
    lines = [
        f"{swing['axis']}={move['label']}: {move['trouble']}"
        for swing in content["tornado"] or ()
        for move in swing["moves"]
        if move["trouble"]
    ]
    if content["indices_missing"]:
        lines.append(f"no Sobol indices: {content['indices_missing']}")
    found = content["indices"]
    if found is not None and found["left_out"]:
        rows = found["left_out"] + found["rows"]
        why = found["why_left_out"]
        lines.append(f"{found['left_out']} of {rows} rows of points left out, a point of each has no result: {why}")
    return lines

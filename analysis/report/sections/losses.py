"""What was lost to which cause, and in which phase."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.plots.charts import HeatMap
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.sections.account import (
    HOUR,
    account_of,
    basis,
    cause_name,
    compact,
    gpu_hours,
    hours,
    money,
    percent,
    phase_name,
)
from sim import NO_FAILURE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray

    from analysis.report.material import Material
    from analysis.report.sections.account import Account

__all__ = ["heat_map", "section"]

_MOST = 15
"""Causes in rows of their own."""
_OTHERS = "other causes"
_DRAWN = 0.0005
"""Share of all that is lost below which a phase has no column in the picture; it has one in the table."""


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = material.focus
    if focus is None:
        return None
    content = focus.document
    causes, phases, amounts = _sorted(content["loss_gpu_s"])
    total = float(amounts.sum())
    if not phases or total <= 0:
        return None
    names = _names(causes)
    account = account_of(focus)
    chart = heat_map(content["loss_gpu_s"])
    rows = amounts.sum(axis=1)
    alt = f"Table of causes and phases, shaded by GPU-hours lost: {gpu_hours(total)} in all. " + "; ".join(
        f"{names[index]} {gpu_hours(float(rows[index]))}" for index in range(min(3, len(names)))
    )
    caption = "GPU-hours of a mean replication; what is spent without any failure, such as saves, is in “no failure”."
    picture = Picture("losses", chart, f"{alt}.", caption, _table(content, causes, phases, amounts, account))
    title = f"{_subject(causes[0])} the most: {gpu_hours(float(rows[0]))}, {_of(rows[0], amounts)}"
    notes = [basis(focus)]
    if amounts.min() < -_DRAWN * total:
        notes.append(
            "Below nothing is what replicas do for those that are missing; shares are of all else that is lost."
        )
    if account.price is not None:
        notes.append("The price of a GPU-hour is all that was paid over all GPU-hours owned, idle ones included.")
    return Section("losses", title, _text(phases, amounts, account), (picture,), tuple(notes))


def heat_map(losses: Mapping[str, Mapping[str, float]]) -> HeatMap:
    """Return causes by phases in GPU-hours, the dearest cause first; those beyond the first 15 together.

    Parameters
    ----------
    losses
        By cause and bucket [GPU s], as in the document of a run.
    """
    causes, phases, amounts = _sorted(losses)
    total = _all_lost(amounts)
    shown = [index for index in range(len(phases)) if np.abs(amounts[:, index]).sum() >= _DRAWN * total]
    rest = [index for index in range(len(phases)) if index not in shown]
    columns = [phase_name(phases[index]) for index in shown]
    values = amounts[:, shown]
    if rest:
        columns.append("other phases" if len(rest) > 1 else phase_name(phases[rest[0]]))
        values = np.column_stack([values, amounts[:, rest].sum(axis=1)])
    texts = [["" if not value else compact(value) for value in row] for row in values]
    column = int(np.argmax(values.sum(axis=0)))
    title = f"{_subject(causes[0])} the most; {columns[column]} is {_of(values[:, column].sum(), amounts)}"
    names = tuple(_names(causes))
    return HeatMap(title, "GPU-hours", names, tuple(columns), (values / HOUR).tolist(), texts, "cause", "phase", False)


def _sorted(losses: Mapping[str, Mapping[str, float]]) -> tuple[list[str | None], list[str], NDArray[np.float64]]:
    """Return causes, phases that are not empty, and GPU-seconds: the dearest cause first, those beyond 15 together.

    These are the last row, and ``None`` instead of a cause: a cause may have any name.
    """
    table = np.array([list(row.values()) for row in losses.values()])
    buckets = list(next(iter(losses.values())))
    used = [index for index in range(len(buckets)) if table[:, index].any()]
    order = [int(index) for index in np.argsort(-table.sum(axis=1), kind="stable") if table[index].any()]
    every = list(losses)
    causes: list[str | None] = [every[index] for index in order]
    amounts = table[np.ix_(order, used)]
    if len(causes) > _MOST:
        causes = [*causes[: _MOST - 1], None]
        amounts = np.vstack([amounts[: _MOST - 1], amounts[_MOST - 1 :].sum(axis=0)])
    return causes, [buckets[index] for index in used], amounts


def _name(cause: str | None) -> str:
    """Return what a row is called."""
    return _OTHERS if cause is None else cause_name(cause)


def _names(causes: list[str | None]) -> list[str]:
    """Return what rows are called; causes that would look alike by what the scenario calls them."""
    shown = [_name(cause) for cause in causes]
    return [
        f"“{cause}”" if cause not in (None, NO_FAILURE) and shown.count(name) > 1 else name
        for cause, name in zip(causes, shown, strict=True)
    ]


def _subject(cause: str | None) -> str:
    """Return who costs, as a sentence begins."""
    if cause == NO_FAILURE:
        return "What is spent without any failure costs"
    return f"Failures of “{_name(cause)}” cost"


def _all_lost(amounts: NDArray[np.float64]) -> float:
    """Return all that is lost [GPU s], of which what is gained elsewhere is not taken away: no part is more than it."""
    return float(np.clip(amounts, 0, None).sum())


def _of(amount: float, amounts: NDArray[np.float64]) -> str:
    """Return a part of all that is lost."""
    return f"{percent(float(amount) / _all_lost(amounts))} of all that is lost"


def _text(phases: list[str], amounts: NDArray[np.float64], account: Account) -> tuple[str, ...]:
    """Return how much is lost, and how much of that to the largest causes and phases."""
    total = float(amounts.sum())
    text = f"The jobs lost {gpu_hours(total)}, {percent(total / account.requested)} of what they asked for"
    if account.price is not None:
        text += f", worth {money(total * account.price, account.currency)}"
    columns = amounts.sum(axis=0)
    order, gross = np.argsort(-columns, kind="stable")[:3], _all_lost(amounts)
    text += ". By phase: " + ", ".join(f"{phase_name(phases[i])} {percent(float(columns[i]) / gross)}" for i in order)
    return (f"{text}.",)


def _table(
    content: Mapping[str, Any],
    causes: list[str | None],
    phases: list[str],
    amounts: NDArray[np.float64],
    account: Account,
) -> Grid:
    """Return the same with totals, shares, interruptions and money."""
    counts = {cause: row["mean"] for cause, row in content["interruptions_by_cause"].items()}
    total = _all_lost(amounts)
    known = sum(counts.get(cause, 0.0) for cause in causes if cause is not None)
    everything = sum(counts.values())
    heads = [*map(phase_name, phases), "all", "share of losses", *([account.currency] if account.price else [])]
    columns = (Column("cause", is_number=False), Column("interruptions"), *map(Column, heads))

    def row(name: str, count: float, cells: NDArray[np.float64]) -> tuple[str, ...]:
        lost = float(cells.sum())
        priced = [] if account.price is None else [money(lost * account.price, account.currency)]
        return (
            name,
            f"{count:,.3g}" if count < 1000 else f"{count:,.0f}",
            *map(hours, cells),
            hours(lost),
            percent(lost / total),
            *priced,
        )

    rows = []
    for cause, name, cells in zip(causes, _names(causes), amounts, strict=True):
        count = everything - known if cause is None else counts.get(cause, 0.0)
        rows.append(row(name, count, cells))
    rows.append(row("all causes", everything, amounts.sum(axis=0)))
    most = float(np.abs(amounts).max())
    shades: list[tuple[float | None, ...]] = [
        (None, None, *(max(float(cell), 0.0) / most for cell in cells), *[None] * (len(columns) - 2 - len(phases)))
        for cells in amounts
    ]
    shades.append((None,) * len(columns))
    return Grid("GPU-hours lost by cause and phase, in a mean replication", columns, rows, shades)

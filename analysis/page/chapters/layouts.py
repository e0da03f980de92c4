"""Ranked layouts of a job as text, for `ettrick layouts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ettrick.analysis.amounts import amount_text, percent_text, text_or_dash
from ettrick.analysis.explain.layouts import ROOMY
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.page.model import Column, Section, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ettrick.analysis.explain.layouts import Sort
    from ettrick.analysis.page.model import TableBlock
    from ettrick.analysis.results.explained import LayoutRow, LayoutsDocument

_WIDTH = 120
"""Columns without a terminal."""


def format_layouts(content: LayoutsDocument) -> str:
    """Return ranked layouts as text for standard output."""
    rows = [*content.layouts]
    if content.own is not None and not any(row.is_own for row in rows):
        rows.append(content.own)
    rows.sort(key=lambda row: row.memory_share > ROOMY)
    kinds = "tensor x context x pipeline x data" + (" (expert)" if any(row.expert > 1 for row in rows) else "")
    text = f"{content.gpus:,} GPUs ({content.accelerator}): {content.found:,} layouts that fit; {kinds}"
    marks = {
        f"+ may not fit: more than {percent_text(ROOMY, 0)} of the memory by our count": rows[-1].memory_share > ROOMY,
        "* the scenario's own layout": content.own is not None,
    }
    note = "; ".join(mark for mark, is_shown in marks.items() if is_shown)
    notes: list[str] = []
    for head, lines in (
        ("note", content.notes),
        ("ETTR: the closed form does not apply", content.reasons),
        ("assumes", content.assumptions),
    ):
        notes += [f"{head}: {line}" for line in lines]
    title = f"{content.scenario}, job {content.job}"
    section = Section("layouts", title, (text,), (_table(rows, content.sort, note),), tuple(notes))
    return terminal.write([section], otherwise=_WIDTH)


def _table(rows: Sequence[LayoutRow], sort: Sort, note: str) -> TableBlock:
    """Return the layouts as a table."""

    def differs(name: str) -> bool:
        return len({getattr(row, name) for row in rows}) > 1

    def size(row: LayoutRow) -> str:
        experts = f" ({row.expert})" if row.expert > 1 else ""
        return f"{row.tensor} x {row.context} x {row.pipeline} x {row.data}{experts}"

    mark = f"{terminal.KEPT}*"
    columns: tuple[Column[LayoutRow], ...] = (
        Column("rank", lambda row: f"{row.rank_step if sort == 'step' else row.rank_goodput:,}{mark * row.is_own}"),
        Column("by\nstep", lambda row: f"{row.rank_step:,}", sort == "goodput"),
        Column("by\ngoodput", lambda row: text_or_dash(row.rank_goodput, "{:,}".format), sort == "step"),
        Column("layout", size),
        Column("virtual", lambda row: str(row.virtual_pipeline)),
        Column("micro\nbatch", lambda row: str(row.microbatch)),
        Column("schedule", lambda row: row.schedule, differs("schedule")),
        Column("sharding", lambda row: row.sharding, differs("sharding")),
        Column("recompute", lambda row: row.recompute),
        Column("step", lambda row: f"{row.step_s:,.4g} s"),
        Column("MFU", lambda row: percent_text(row.mfu, 1)),
        Column("memory", lambda row: f"{row.memory_bytes / 1e9:,.0f} GB{' +' * (row.memory_share > ROOMY)}"),
        Column("bubble", lambda row: percent_text(row.bubble_share, 1)),
        Column("ETTR", lambda row: text_or_dash(row.ettr, percent_text)),
        Column("tokens\na day", lambda row: text_or_dash(row.tokens_per_day, amount_text)),
    )
    return table_of("", rows, columns, note=note)

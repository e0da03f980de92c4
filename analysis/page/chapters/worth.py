"""What everything is worth: each cause removed, and each knob better by a tenth, as tables for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ettrick.analysis.amounts import (
    COUNT,
    amount_text,
    money_form,
    number_of,
    percent_text,
    points_text,
    range_text,
    signed_text,
    text_or_dash,
    time_form,
)
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.page.model import Column, Section, table_of
from ettrick.analysis.statistics.differences import MANY
from ettrick.sim.units import HOUR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ettrick.analysis.page.model import TableBlock
    from ettrick.analysis.parts import DifferenceSummary
    from ettrick.analysis.results.explained import WorthDocument, WorthGroup, WorthRow

# Names of rows as people say them; the others stay as they are.
_KNOBS = {
    "mtbf": "MTBF",
    "checkpoint_by_rule": "checkpoint",
    "step_time": "step time",
    "all": "all at once",
    "added": "these added up",
    "residual": "not additive by",
}


def format_worth(content: WorthDocument, *, width: int | None = None) -> str:
    """Return the document as text, in so many columns."""
    title = f"What everything is worth in {content.scenario}, on the same failures"
    groups = ((content.causes, "Each cause removed in turn"), (content.knobs, "Each knob better by a tenth"))
    point = content.one_point
    last: tuple[Section, ...] = ()
    if point is not None:
        parts = [f"{time_form(point.time_s).brief(point.time_s)} of this run", f"{COUNT.brief(point.gpus)} GPUs"]
        if point.money_per_year is not None and content.currency is not None:
            money = money_form(point.money_per_year, content.currency)
            parts.insert(0, f"{money.brief(point.money_per_year)} a year")
        last = (Section("point", f"One point of ETTR = {', '.join(parts)}", ()),)
    return terminal.write([
        Section("worth", title, tuple(_heading(content))),
        *(Section("group", head, (), (_table(content, group),)) for group, head in groups if group.rows),
        Section("notes", "Notes", (), (), tuple(_notes(content))),
        *last,
    ], width=width, otherwise=200)  # fmt: skip


def _heading(content: WorthDocument) -> Iterator[str]:
    base = content.base
    yield f"{number_of(content.replications, 'replication')}, seed {content.seed}"
    formula = text_or_dash(base["ettr"].closed_form, percent_text)
    yield f"as it is: ETTR {text_or_dash(base['ettr'].mean, percent_text)} (closed form {formula})"
    if "tokens_per_day" in base:
        yield f"as it is: {text_or_dash(base['tokens_per_day'].mean, amount_text)} tokens a day"
    price = content.price_of_work
    if price is not None:
        scale, what = (1e6, "a million tokens") if content.by == "tokens_per_day" else (HOUR, "a productive GPU-hour")
        yield f"as it is: {scale * price:.4g} {content.currency} for {what}"


def _table(content: WorthDocument, group: WorthGroup) -> TableBlock:
    """Return the changes of a kind, the most valuable first, then all of them at once."""

    def gain(
        title: str, change: Callable[[WorthRow], DifferenceSummary | None], form: Callable[[float], str],
        *, shown: bool = True,
    ) -> Iterator[Column[WorthRow]]:  # fmt: skip
        def interval(row: WorthRow) -> str:
            found = change(row)
            return "-" if found is None or content.one_history else range_text(found.ci95, form)

        yield Column(title, lambda row: "-" if (found := change(row)) is None else form(found.mean), shown)
        yield Column("95 % interval", interval, shown)

    rows = [*group.rows, *(row for row in (group.together, group.added, group.residual) if row is not None)]
    return table_of("", rows, (
        Column("", lambda row: _label(row, is_cause=group is content.causes)),
        *gain("ETTR", lambda row: row.gain["ettr"], points_text),
        Column("closed form", lambda row: text_or_dash(row.closed_form.get("ettr"), points_text)),
        *gain("tokens a day", lambda row: row.gain["tokens_per_day"], signed_text,
              shown="tokens_per_day" in content.base),
        *gain(f"{content.currency} a year", lambda row: row.money_per_year, signed_text,
              shown=content.currency is not None),
        Column("not resolved: replications", lambda row: _status(row, content)),
    ))  # fmt: skip


def _label(row: WorthRow, *, is_cause: bool) -> str:
    if row.name in ("all", "added", "residual"):
        return _KNOBS[row.name]
    return row.name if is_cause else f"{_KNOBS.get(row.name, row.name)} {row.change}"


def _status(row: WorthRow, content: WorthDocument) -> str:
    """Return how many replications would resolve what may be chance; nothing where that is not needed."""
    found = row.gain[content.by]
    if found is None:
        return ""
    if found.ci95 is None or found.ci95[0] == found.ci95[1]:
        return "same in all" if found.mean else "no change"
    if content.one_history:
        return "-"
    if found.resolved:
        return ""
    needed = found.replications_to_resolve
    return f"> {MANY:,}" if needed is None else f"{needed:,}"


def _notes(content: WorthDocument) -> Iterator[str]:
    yield "what changes are worth does not add up; 'not additive by' is all at once less the sum"
    yield "not resolved: the interval holds zero; so many replications would resolve a difference of this size"
    yield "same in all: every replication gains as much, and how much others would vary is not known: no interval"
    if content.one_history:
        yield "a log is replayed: one history: no interval"
    yield "intervals between saves stay as they are, also those that a rule has chosen, where nothing else is said"
    if content.price_of_work is not None:
        yield (
            f"{content.currency} a year: what the additional work would cost at the price of work as it is; what the "
            "change itself costs or saves is not counted"
        )
    for name, reason in content.left_out.items():
        yield f"{_KNOBS.get(name, name)}: left out: {reason}"
    for line in content.closed_form_reasons:
        yield f"the closed form does not apply: {line}"
    for line in content.closed_form_assumptions:
        yield f"the closed form assumes: {line}"

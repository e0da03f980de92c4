"""The rows of the table, measured one after another, the document of what was found, and the words of its cells."""

from __future__ import annotations

import math
import secrets
from typing import TYPE_CHECKING, NamedTuple

from ettrick.analysis.amounts import number_of
from ettrick.analysis.parts import FORMAT
from ettrick.analysis.results.documents import (
    CombinedTest,
    NotChecked,
    ValidateDocument,
    ValidationGroup,
    ValidationRow,
)
from ettrick.analysis.results.run import provenance
from ettrick.analysis.validation.measures import MEASURES
from ettrick.analysis.validation.table import ValidationTable, chosen
from ettrick.analysis.validation.verdict import FAMILY, LEAST, Combined, Verdict, combined, failed, judge, skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ettrick.analysis.validation.lab import MeasuredQuantity, ScenarioRunner
    from ettrick.analysis.validation.table import PublishedRow


class Findings(NamedTuple):
    """Verdicts on rows.

    Parameters
    ----------
    stochastic
        Rows of the whole table with random numbers in them, simulated or not: they share its error rate.
    together
        The p-value of those that are independent; ``None`` if none of them was simulated.
    """

    table: ValidationTable
    stochastic: int
    seed: int
    verdicts: tuple[Verdict, ...]
    together: Combined | None


def validate(
    table: ValidationTable,
    lab: ScenarioRunner,
    only: Iterable[str] = (),
    progress: Callable[[int, int], None] | None = None,
    measures: Mapping[str, Callable[..., MeasuredQuantity]] = MEASURES,
) -> Findings:
    """Return the verdicts on the rows of a table.

    Parameters
    ----------
    only
        Groups and ids; without any, all rows.
    progress
        Called after each row with how many are done, and of how many.
    """
    part = chosen(table, only)
    verdicts = []
    for row in part.rows:
        verdicts.append(_verdict(row, lab, measures[row.measure], table.stochastic))
        if progress is not None:
            progress(len(verdicts), len(part.rows))
    return Findings(part, table.stochastic, lab.seed, tuple(verdicts), combined(verdicts))


def seed_of(text: str) -> int:
    """Return a seed as it was typed: a number below 2**63, or ``random`` for a new one."""
    if text == "random":
        return secrets.randbelow(2**31)
    # So many digits are never below the limit, and Python refuses to read some thousands of them.
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) < 2**63):
        raise ValueError(f"must be a whole number from 0 to {2**63 - 1}, or random, not {text[:40]!r}")
    return int(text)


def _verdict(
    row: PublishedRow, lab: ScenarioRunner, measure: Callable[..., MeasuredQuantity], stochastic: int
) -> Verdict:
    """Return the verdict on one row: whatever goes wrong in its measure is a failure of this row alone."""
    try:
        estimate = measure(lab, row.replications, **row.arguments)
    except FileNotFoundError as error:
        return skipped(row) if row.needs_data else failed(row, _line(error))
    except Exception as error:  # of a row like any other, to be shown next to those that hold
        return failed(row, _line(error))
    return judge(row, estimate, stochastic)


def _line(error: Exception) -> str:
    """Return an error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def describe(findings: Findings, *, command: str) -> ValidateDocument:
    """Return the document of a validation."""
    verdicts = iter(findings.verdicts)
    states = [verdict.state for verdict in findings.verdicts if not _is_held_identity(verdict)]
    together = findings.together
    return ValidateDocument(
        format=FORMAT,
        seed=findings.seed,
        family_wise_error=FAMILY,
        stochastic_rows=findings.stochastic,
        counts={state: states.count(state) for state in ("pass", "fail", "skipped")},
        identities=len(findings.verdicts) - len(states),
        together=None
        if together is None
        else CombinedTest(rows=together.rows, p_value=together.p_value, least=LEAST, holds=together.holds),
        groups=[
            ValidationGroup(
                name=group.name, title=group.title, rows=[described_row(row, next(verdicts)) for row in group.rows]
            )
            for group in findings.table.groups
        ],
        not_checked=[NotChecked.model_validate(entry) for entry in findings.table.unchecked],
        provenance=provenance(command),
    )


def _is_held_identity(verdict: Verdict) -> bool:
    """Return whether a row holds as it must: it says nothing of the simulator, and counts apart."""
    return verdict.row.label == "identity" and verdict.state == "pass"


def described_row(row: PublishedRow, verdict: Verdict) -> ValidationRow:
    """Return what a row states, and what became of it."""
    ours = verdict.estimate
    return ValidationRow(
        **row.model_dump(mode="json", exclude={"group"}),
        published=verdict.published,
        ours=None if ours is None else ours.value,
        error=None if ours is None else ours.error,
        simulated=0 if ours is None else ours.replications,
        noise=verdict.noise,
        delta=verdict.delta,
        limit=verdict.limit,
        p_value=verdict.p_value,
        verdict=verdict.state,
        reason=verdict.reason,
    )


def against(document: ValidateDocument) -> list[str]:
    """Return why the answer is no, in lines: rows that failed, and rows that are too far off together."""
    lines = []
    names = [row.id for group in document.groups for row in group.rows if row.verdict == "fail"]
    if names:
        total = sum(document.counts.values())
        lines.append(f"{len(names)} of {number_of(total, 'row')} failed: {', '.join(names)}")
    together = document.together
    if together is not None and not together.holds:
        lines.append(
            f"the {together.rows} independent rows together are too far off for sampling error: "
            f"p = {together.p_value:.2g}, below {together.least:g}"
        )
    return lines


# What one cell of the table shows: numbers with their units, limits, conventions in words.

HEADS = ("published", "ours", "delta", "limit", "verdict", "label", "replications", "conventions")
"""Columns in addition to the name of the row."""

VERDICTS = {"pass": "pass", "fail": "FAIL", "skipped": "skipped"}

LABELS = {
    "calibrated": "it, or what it follows from, was an input",
    "emergent": "it comes out of the mechanism from other inputs",
    "sanity": "an inequality, a limit or an order",
    "identity": "the formula is in the measure, or the value in the inputs: it checks the table, and counts apart",
}
"""Labels, and what they mean."""

_CONVENTIONS = {
    "failures_in_restart": {"yes": "failures interrupt restarts", "no": "no failures in restarts"},
    "downtime_in_mtbf": {"yes": "MTBF counts downtime", "no": "MTBF without downtime"},
    "queue_in_denominator": {"yes": "queueing counts", "no": "queueing left out"},
    "write_in_interval": {"yes": "interval with its save", "no": "interval without its save"},
    "start": {"cold": "cold start", "warmed up": "warmed up", "stationary": "stationary start"},
}


def cells_of(row: ValidationRow) -> list[str]:
    """Return the cells of a row of the document, in the order of `HEADS`."""
    return [
        _published(row),
        _value(row.ours, row.unit),
        _delta(row),
        _limit(row),
        VERDICTS[row.verdict],
        row.label,
        f"{row.replications:,}" if row.replications else "–",
        conventions(row.conventions),
    ]


def conventions(stated: Mapping[str, str]) -> str:
    """Return the conventions of a row in words; those that do not matter are left out."""
    return ", ".join(words[stated[name]] for name, words in _CONVENTIONS.items() if stated[name] != "-")


def together_in_words(content: ValidateDocument) -> str:
    """Return the combined p-value of a document in a sentence; nothing if there is none."""
    together = content.together
    if together is None:
        return ""
    verdict = "pass" if together.holds else "FAIL"
    return (
        f"Independent rows together ({together.rows}): {verdict}; p = {together.p_value:.3g} by Fisher's method, "
        f"edges taken off before; it passes from {together.least:g} on."
    )


def in_words(content: ValidateDocument) -> list[str]:
    """Return sentences on all rows of a document together."""
    counts = content.counts
    why = " (reference data not present)" if counts["skipped"] else ""
    lines = [
        f"{counts['pass']} of {sum(counts.values())} rows pass; failed: {counts['fail']}; "
        f"skipped: {counts['skipped']}{why}.",
        f"Seed {content.seed}; probability of a false alarm in the whole table: {content.family_wise_error:g}; "
        f"rows with random numbers in them: {content.stochastic_rows}.",
    ]
    rows = [row for group in content.groups for row in group.rows]
    reading, wide = sum(row.only_reads for row in rows), sum(map(is_wide, rows))
    apart = {
        f"Identities, which the simulator cannot fail and which count apart: {content.identities}.": content.identities,
        f"Of these rows {reading} read only the reference data and check the reading, not the simulator.": reading,
        f"Rows whose limit is more than {100 * WIDE:g} % of the value, marked as wide: {wide}.": wide,
    }
    lines[1:1] = [line for line, count in apart.items() if count]
    return [line for line in (*lines, together_in_words(content)) if line]


def _unit(row: ValidationRow) -> str:
    """Return the unit as it follows a number; nothing for a plain one."""
    return "" if row.unit in ("-", "") else f" {row.unit}"


def _typed(value: float) -> str:
    """Return a number with the digits that it was typed in with: a zero more would claim that it is known."""
    return f"{value:,.12g}".replace("-", "−", 1) if value < 0 else f"{value:,.12g}"


def _number(value: float) -> str:
    """Return a number to five digits; whole ones below a million as they are."""
    if value < 0:
        return f"−{_number(-value)}"
    if value == int(value) and value < 1e6:
        return f"{int(value):,}"
    if value < 1e-3:
        return f"{value:.4g}"
    return f"{value:,.{max(0, 4 - math.floor(math.log10(value)))}f}"


def _value(value: float | None, unit: str) -> str:
    """Return a number with its unit; a dash where there is none."""
    if value is None:
        return "–"
    return _number(value) + ("" if unit in ("-", "") else f" {unit}")


def _published(row: ValidationRow) -> str:
    """Return what is published: a number, a bound or an interval."""
    tolerance = row.tolerance
    kind = tolerance["kind"]
    if kind == "interval":
        return f"{_typed(tolerance['low'])} to {_typed(tolerance['high'])}{_unit(row)}"
    sign = {"at_least": "≥ ", "at_most": "≤ "}.get(kind, "")
    if row.value is not None:
        return f"{sign}{_typed(row.value)}{_unit(row)}"
    return sign + _value(row.published, row.unit)


def _small(value: float) -> str:
    """Return a difference to two digits."""
    return f"{value:.2g}" if abs(value) < 100 else f"{value:,.0f}"


def _delta(row: ValidationRow) -> str:
    """Return ours less what is published; of a relative tolerance, in percent of it."""
    delta = row.delta
    if delta is None:
        return "–"
    # What is left of the last digit of a float is no difference.
    if abs(delta) <= 1e-9 * (row.limit or 0.0):
        return "0"
    value, unit = _relative(row, delta)
    return ("+" if value > 0 else "−") + _small(abs(value)) + unit


def _limit(row: ValidationRow) -> str:
    """Return how far ours may be, or must be, from what is published."""
    if row.limit is None:
        return "–"
    value, unit = _relative(row, row.limit)
    kind = row.tolerance["kind"]
    sign = {"at_least": "≥ ", "at_most": "≤ −", "must_miss": "beyond ± "}.get(kind, "± ")
    mark = " (wide)" if is_wide(row) else ""
    return (sign.removesuffix("−") if value == 0 else sign) + _small(value) + unit + mark


WIDE = 0.35
"""Part of what is published beyond which a limit says little of a model [-]."""


def is_wide(row: ValidationRow) -> bool:
    """Return whether a row passes although ours is far off: a limit on both sides that is a large part of its value."""
    low, high = row.tolerance.get("low"), row.tolerance.get("high")
    middle = (low + high) / 2 if low is not None and high is not None else row.published
    limit = (row.limit or 0.0) + ((high - low) / 2 if low is not None and high is not None else 0.0)
    is_two_sided = row.tolerance["kind"] in ("printed", "relative", "absolute", "sampling", "interval")
    return is_two_sided and bool(middle) and limit > WIDE * abs(middle or 0.0)


def _relative(row: ValidationRow, amount: float) -> tuple[float, str]:
    """Return an amount in the unit of the row, or in percent of what is published for a relative tolerance."""
    if row.tolerance["kind"] == "relative" and row.published:
        return 100.0 * amount / abs(row.published), " %"
    return amount, _unit(row)

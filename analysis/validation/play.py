"""The rows of the table, played one after another, and what they say together."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple

from analysis.amounts import number_of
from analysis.results.models import FORMAT, NotChecked, Together, ValidateDocument, ValidationGroup, ValidationRow
from analysis.results.run import provenance
from analysis.validation.measures import MEASURES
from analysis.validation.table import Table, chosen
from analysis.validation.verdict import FAMILY, LEAST, Combined, Verdict, combined, failed, judge, skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from analysis.validation.lab import Lab
    from analysis.validation.row import Estimate, Row


class Findings(NamedTuple):
    """Verdicts on rows.

    Parameters
    ----------
    table
        The rows that were played.
    stochastic
        Rows of the whole table with luck in them, played or not: they share its error rate.
    seed
        Of all scenarios.
    verdicts
        One for each row, in the order of the table.
    together
        The p-value of those that are independent; ``None`` if none of them was played.
    """

    table: Table
    stochastic: int
    seed: int
    verdicts: tuple[Verdict, ...]
    together: Combined | None


def play(
    table: Table,
    lab: Lab,
    only: Iterable[str] = (),
    progress: Callable[[int, int], None] | None = None,
    measures: Mapping[str, Callable[..., Estimate]] = MEASURES,
) -> Findings:
    """Return the verdicts on the rows of a table.

    Parameters
    ----------
    table
        The whole table.
    lab
        Where they are measured.
    only
        Groups and ids; without any, all rows.
    progress
        Told after each row how many are done, of how many.
    measures
        What makes our values.

    Raises
    ------
    ValueError
        If no group and no row has a name of `only`.
    """
    part = chosen(table, only)
    verdicts = []
    for row in part.rows:
        verdicts.append(_verdict(row, lab, measures[row.measure], table.stochastic))
        if progress is not None:
            progress(len(verdicts), len(part.rows))
    return Findings(part, table.stochastic, lab.seed, tuple(verdicts), combined(verdicts))


def seed_of(text: str) -> int:
    """Return a seed as it was typed: a number below 2**63, or ``random`` for one that nobody has seen.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if text == "random":
        return secrets.randbelow(2**31)
    # So many digits are never below the limit, and Python refuses to read some thousands of them.
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) < 2**63):
        message = f"must be a whole number from 0 to {2**63 - 1}, or random, not {text[:40]!r}"
        raise ValueError(message)
    return int(text)


def _verdict(row: Row, lab: Lab, measure: Callable[..., Estimate], stochastic: int) -> Verdict:
    """Return the verdict on one row: whatever goes wrong in its measure is a failure of this row alone."""
    try:
        estimate = measure(lab, row.replications, **row.arguments)
    except FileNotFoundError as error:
        return skipped(row) if row.needs_data else failed(row, _line(error))
    except Exception as error:  # of a row like any other, to be told beside those that hold
        return failed(row, _line(error))
    return judge(row, estimate, stochastic)


def _line(error: Exception) -> str:
    """Return an error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def describe(findings: Findings, *, command: str) -> ValidateDocument:
    """Return the document of a validation."""
    verdicts = iter(findings.verdicts)
    states = [verdict.state for verdict in findings.verdicts]
    together = findings.together
    return ValidateDocument(
        format=FORMAT,
        seed=findings.seed,
        family_wise_error=FAMILY,
        stochastic_rows=findings.stochastic,
        counts={state: states.count(state) for state in ("pass", "fail", "skipped")},
        together=None
        if together is None
        else Together(rows=together.rows, p_value=together.p_value, least=LEAST, holds=together.holds),
        groups=[
            ValidationGroup(
                name=group.name, title=group.title, rows=[described_row(row, next(verdicts)) for row in group.rows]
            )
            for group in findings.table.groups
        ],
        not_checked=[NotChecked.model_validate(entry) for entry in findings.table.unchecked],
        provenance=provenance(command),
    )


def described_row(row: Row, verdict: Verdict) -> ValidationRow:
    """Return what a row states, and what became of it."""
    ours = verdict.estimate
    return ValidationRow(
        **row.model_dump(mode="json", exclude={"group"}),
        published=verdict.published,
        ours=None if ours is None else ours.value,
        error=None if ours is None else ours.error,
        played=0 if ours is None else ours.replications,
        luck=verdict.luck,
        delta=verdict.delta,
        limit=verdict.limit,
        p_value=verdict.p_value,
        verdict=verdict.state,
        reason=verdict.reason,
    )


def against(found: ValidateDocument) -> list[str]:
    """Return why the answer is no, in lines: rows that failed, and rows that are too far off together."""
    lines = []
    names = [row.id for group in found.groups for row in group.rows if row.verdict == "fail"]
    if names:
        total = sum(found.counts.values())
        lines.append(f"{len(names)} of {number_of(total, 'row')} failed: {', '.join(names)}")
    together = found.together
    if together is not None and not together.holds:
        lines.append(
            f"the {together.rows} independent rows together are too far off for luck: "
            f"p = {together.p_value:.2g}, below {together.least:g}"
        )
    return lines

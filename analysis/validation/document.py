"""The document of a validation: every row with what was published, ours and the verdict, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.cells import number_of
from analysis.validation.verdict import FAMILY, LEAST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.validation.play import Findings
    from analysis.validation.row import Row
    from analysis.validation.table import Table
    from analysis.validation.verdict import Verdict

__all__ = ["against", "describe", "described_row", "described_verdict"]


def describe(findings: Findings) -> dict[str, Any]:
    """Return all that was found, as plain data; see docs/reference/json.md."""
    verdicts = iter(findings.verdicts)
    states = [verdict.state for verdict in findings.verdicts]
    together = findings.together
    return {
        "seed": findings.seed,
        "family_wise_error": FAMILY,
        "stochastic_rows": findings.stochastic,
        "counts": {state: states.count(state) for state in ("pass", "fail", "skipped")},
        "together": None
        if together is None
        else {"rows": together.rows, "p_value": together.p_value, "least": LEAST, "holds": together.holds},
        "groups": [
            {
                "name": group.name,
                "title": group.title,
                "rows": [described_row(row) | described_verdict(next(verdicts)) for row in group.rows],
            }
            for group in findings.table.groups
        ],
        "not_checked": _not_checked(findings.table),
    }


def described_row(row: Row) -> dict[str, Any]:
    """Return what a row states."""
    return row.model_dump(mode="json", exclude={"group"})


def described_verdict(verdict: Verdict) -> dict[str, Any]:
    """Return what became of a row."""
    ours = verdict.estimate
    return {
        "published": verdict.published,
        "ours": None if ours is None else ours.value,
        "error": None if ours is None else ours.error,
        "played": 0 if ours is None else ours.replications,
        "luck": verdict.luck,
        "delta": verdict.delta,
        "limit": verdict.limit,
        "p_value": verdict.p_value,
        "verdict": verdict.state,
        "reason": verdict.reason,
    }


def against(content: Mapping[str, Any]) -> list[str]:
    """Return why the answer is no, in lines: rows that failed, and rows that are too far off together."""
    lines = []
    names = [row["id"] for group in content["groups"] for row in group["rows"] if row["verdict"] == "fail"]
    if names:
        total = sum(content["counts"].values())
        lines.append(f"{len(names)} of {number_of(total, 'row')} failed: {', '.join(names)}")
    together = content["together"]
    if together is not None and not together["holds"]:
        lines.append(
            f"the {together['rows']} independent rows together are too far off for luck: "
            f"p = {together['p_value']:.2g}, below {together['least']:g}"
        )
    return lines


def _not_checked(table: Table) -> list[dict[str, Any]]:
    """Return what is not compared, and why not."""
    return [entry.model_dump(mode="json") for entry in table.unchecked]

"""What one cell of the table shows: numbers with their units, limits, conventions in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HEADS", "LABELS", "VERDICTS", "cells_of", "conventions", "in_words", "together_in_words"]

HEADS = ("published", "ours", "delta", "limit", "verdict", "label", "replications", "conventions")
"""Columns beside the name of the row."""

VERDICTS = {"pass": "pass", "fail": "FAIL", "skipped": "skipped"}

LABELS = {
    "calibrated": "it, or what it follows from, was an input",
    "emergent": "it comes out of the mechanism from other inputs",
    "sanity": "an identity, an inequality, a limit or an order",
}
"""Labels, and what they mean."""

_CONVENTIONS = {
    "failures_in_restart": {"yes": "failures interrupt restarts", "no": "no failures in restarts"},
    "downtime_in_mtbf": {"yes": "MTBF counts downtime", "no": "MTBF without downtime"},
    "queue_in_denominator": {"yes": "queueing counts", "no": "queueing left out"},
    "write_in_interval": {"yes": "interval with its save", "no": "interval without its save"},
    "start": {"cold": "cold start", "warmed up": "warmed up", "stationary": "stationary start"},
}


def cells_of(row: Mapping[str, Any]) -> list[str]:
    """Return the cells of a row of the document, in the order of `HEADS`."""
    return [
        _published(row),
        _value(row["ours"], row["unit"]),
        _delta(row),
        _limit(row),
        VERDICTS[row["verdict"]],
        str(row["label"]),
        f"{row['replications']:,}" if row["replications"] else "–",
        conventions(row["conventions"]),
    ]


def conventions(stated: Mapping[str, str]) -> str:
    """Return the conventions of a row in words; those that do not matter are left out."""
    return ", ".join(words[stated[name]] for name, words in _CONVENTIONS.items() if stated[name] != "-")


def together_in_words(content: Mapping[str, Any]) -> str:
    """Return the combined p-value of a document in a sentence; nothing if there is none."""
    together = content["together"]
    if together is None:
        return ""
    verdict = "pass" if together["holds"] else "FAIL"
    return (
        f"Independent rows together ({together['rows']}): {verdict}; p = {together['p_value']:.3g} by Fisher's method, "
        f"edges taken off before; it passes from {together['least']:g} on."
    )


def in_words(content: Mapping[str, Any]) -> list[str]:
    """Return sentences on all rows of a document together."""
    counts = content["counts"]
    why = " (reference data not present)" if counts["skipped"] else ""
    lines = [
        f"{counts['pass']} of {sum(counts.values())} rows pass; failed: {counts['fail']}; "
        f"skipped: {counts['skipped']}{why}.",
        f"Seed {content['seed']}; probability of a false alarm in the whole table: {content['family_wise_error']:g}; "
        f"rows with luck in them: {content['stochastic_rows']}.",
    ]
    reading = sum(row["only_reads"] for group in content["groups"] for row in group["rows"])
    if reading:
        lines.insert(
            1, f"Of these rows {reading} read the reference data alone and check the reading, not the simulator."
        )
    return [line for line in (*lines, together_in_words(content)) if line]


def _unit(row: Mapping[str, Any]) -> str:
    """Return the unit as it follows a number; nothing for a plain one."""
    return "" if row["unit"] in ("-", "") else f" {row['unit']}"


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


def _published(row: Mapping[str, Any]) -> str:
    """Return what is published: a number, a bound or an interval."""
    tolerance = row["tolerance"]
    kind = tolerance["kind"]
    if kind == "interval":
        return f"{_typed(tolerance['low'])}..{_typed(tolerance['high'])}{_unit(row)}"
    sign = {"at_least": "≥ ", "at_most": "≤ "}.get(kind, "")
    if row["value"] is not None:
        return f"{sign}{_typed(row['value'])}{_unit(row)}"
    return sign + _value(row["published"], row["unit"])


def _small(value: float) -> str:
    """Return a difference to two digits."""
    return f"{value:.2g}" if abs(value) < 100 else f"{value:,.0f}"


def _delta(row: Mapping[str, Any]) -> str:
    """Return ours less what is published; of a relative tolerance, in percent of it."""
    delta = row["delta"]
    if delta is None:
        return "–"
    # What is left of the last digit of a float is no difference.
    if abs(delta) <= 1e-9 * (row["limit"] or 0.0):
        return "0"
    value, unit = _relative(row, delta)
    return ("+" if value > 0 else "−") + _small(abs(value)) + unit


def _limit(row: Mapping[str, Any]) -> str:
    """Return how far ours may be, or must be, from what is published."""
    if row["limit"] is None:
        return "–"
    value, unit = _relative(row, row["limit"])
    kind = row["tolerance"]["kind"]
    sign = {"at_least": "≥ ", "at_most": "≤ −", "must_miss": "beyond ± "}.get(kind, "± ")
    return (sign.removesuffix("−") if value == 0 else sign) + _small(value) + unit


def _relative(row: Mapping[str, Any], amount: float) -> tuple[float, str]:
    """Return an amount in the unit of the row, or in percent of what is published for a relative tolerance."""
    if row["tolerance"]["kind"] == "relative" and row["published"]:
        return 100.0 * amount / abs(row["published"]), " %"
    return amount, _unit(row)

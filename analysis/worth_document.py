"""The JSON document of what everything is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.closed_form import replays_a_log
from analysis.metrics import summaries
from analysis.provenance import provenance
from analysis.worth import METRICS
from sim import closed_form

if TYPE_CHECKING:
    from analysis.paired import Difference
    from analysis.worth import Group, Row, Worth

__all__ = ["worth_document"]


def worth_document(found: Worth, *, command: str) -> dict[str, Any]:
    """Return the document as plain data; see docs/reference/json.md.

    Parameters
    ----------
    found
        What `worth` returned.
    command
        The command, to be typed again.
    """
    prepared = found.base.prepared
    known = summaries(found.base.rows)
    cost = prepared.upkeep.cost
    formula = closed_form(prepared)
    return {
        "scenario": prepared.name,
        "description": prepared.scenario.description,
        "replications": len(found.base.rows),
        "seed": prepared.seed,
        "one_history": replays_a_log(prepared),
        "by": found.by,
        "base": {
            name: {"mean": known[name].mean, "ci95": known[name].mean_ci95, "closed_form": found.formula.get(name)}
            for name in METRICS
            if name in known
        },
        "currency": cost.currency if cost is not None else None,
        "price_of_work": found.price,
        "causes": _group(found.causes),
        "knobs": _group(found.knobs),
        "left_out": dict(found.left_out),
        "closed_form_reasons": list(formula.reasons),
        "closed_form_assumptions": list(formula.assumptions),
        "assumptions": list(prepared.scenario.assumptions),
        "warnings": list(prepared.warnings),
        "provenance": provenance(command, prepared.scenario),
    }


def _group(group: Group) -> dict[str, Any]:
    """Return changes of a kind as plain data."""
    return {
        "rows": [_row(row) | {"counts": row.counts} for row in group.rows],
        **{
            name: None if row is None else _row(row)
            for name, row in (("together", group.together), ("added", group.added), ("residual", group.residual))
        },
    }


def _row(row: Row) -> dict[str, Any]:
    """Return what a change is worth as plain data."""
    return {
        "name": row.name,
        "change": row.told,
        "gained": {metric: _plain(found) for metric, found in row.gained.items()},
        "money_per_year": _plain(row.money),
        "closed_form": row.formula,
    }


def _plain(found: Difference | None) -> dict[str, Any] | None:
    """Return a difference as plain data; luck is not taken out of it."""
    return None if found is None else {key: value for key, value in found._asdict().items() if key != "controlled"}

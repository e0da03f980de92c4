"""What a formula says, beside what was simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.cells import number_of
from analysis.closed_form_text import converges, extrapolated_texts
from analysis.plots.charts import Interval, Intervals
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.sections.account import basis, percent, phase_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.report.material import Material

__all__ = ["TOO_FAR", "beside", "distance", "section"]

_RESTART = ("reschedule", "initialize", "restore")
_ORDERS = {"first": "first order", "second": "second order", "exact": "exact"}
_POINT = 0.01
_CLOSE = 0.001
"""Difference of shares that nobody cares about [-]."""
TOO_FAR = 0.01
"""Difference of shares from which on a formula is no guide to what else would be [-]."""


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = material.focus
    if focus is None:
        return None
    content = focus.document
    formula = content["closed_form"]
    notes = (basis(focus), *extrapolated_texts(formula))
    if formula["ettr"] is None:
        text = ("There is nothing to hold the simulation against, because of the following.",)
        lines = formula.get("reasons", formula["assumptions"])  # where documents of before have them
        reasons = Grid("Why no formula applies", (Column("", is_number=False),), [(line,) for line in lines])
        return Section("closed-form", "No formula applies to this scenario", text, (reasons,), notes)
    found = formula["simulated"]
    if found is None or found["ettr"] is None:
        return None
    title = _title(formula)
    interval = found["ettr_ci95"]
    ends = None if interval is None else (100 * interval[0], 100 * interval[1])
    row = Interval("simulated", 100 * found["ettr"], ends, note=number_of(found["replications"], "replication"))
    chart = Intervals(title, "%", (row,), (100 * formula["ettr"], "formula"))
    told = percent(found["ettr"], None if interval is None else (interval[0], interval[1]))
    alt = f"Simulated ETTR {told}, beside a line at {percent(formula['ettr'])}, which is the formula's."
    picture = Picture("closed-form", chart, alt, "Whisker: 95 % interval of the mean.", _table(content))
    items: list[Picture | Grid] = [picture]
    if formula["waste"] is not None and converges(formula):
        items.append(_orders(formula["waste"]))
    if formula["assumptions"]:
        lines = [(line,) for line in formula["assumptions"]]
        heads = (Column("assumption", is_number=False),)
        items.append(Grid("What the formula takes for granted and this scenario breaks", heads, lines))
    return Section("closed-form", title, _text(formula), tuple(items), notes)


def beside(content: Mapping[str, Any]) -> dict[str, tuple[float | None, float]]:
    """Return by bucket what the formula and what the simulation says [-]; ``None`` where the formula says nothing.

    The formula knows reschedule, initialize and restore together, as ``restart``, and so does the simulation here. The
    simulated shares add up to 1.
    """
    formula, shares = content["closed_form"]["time_shares"], dict(content["time_shares"])
    shares = {"restart": sum(shares.pop(name) for name in _RESTART), **shares}
    found: dict[str, tuple[float | None, float]] = {name: (value, shares.pop(name)) for name, value in formula.items()}
    return found | {name: (None, share) for name, share in shares.items() if share}


def distance(formula: Mapping[str, Any]) -> float:
    """Return how much more the simulation says than the formula [-]; 0 where chance alone may have made it so.

    Parameters
    ----------
    formula
        ``closed_form`` of the document of a run.
    """
    found = formula["simulated"]
    if formula["ettr"] is None or found is None or found["ettr"] is None or found["outside_ci95"] == 0:
        return 0.0
    apart = float(found["ettr"] - formula["ettr"])
    return apart if abs(apart) >= _CLOSE else 0.0


def _title(formula: Mapping[str, Any]) -> str:
    """Return how far apart both are."""
    found = formula["simulated"]
    apart = distance(formula)
    said = f"A formula says {percent(formula['ettr'])}, the simulation {percent(found['ettr'])}"
    if apart:
        return f"{said}: {abs(apart) / _POINT:.2g} points {'more' if apart > 0 else 'less'}"
    if _width(found) > _POINT:
        return f"{said}: too few runs to tell them apart"
    return f"{said}: they agree"


def _width(found: Mapping[str, Any]) -> float:
    """Return how wide the interval of the simulation is [-]; 0 where there is none, because all runs are the same."""
    return 0.0 if found["ettr_ci95"] is None else float(found["ettr_ci95"][1] - found["ettr_ci95"][0])


def _text(formula: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the formula is, and what the difference may come from."""
    found = formula["simulated"]
    text = (
        f"The same scenario by a formula of the theory of renewals ({formula['form']}), without any simulation: "
        if ("renewal" in str(formula["form"]))
        else f"The same scenario by a formula ({formula['form']}), without any simulation: "
    )
    text += "expected shares in the long run."
    if found["outside_ci95"] is None:
        return (text,)
    if found["outside_ci95"] == 0:
        wide = _width(found) / _POINT
        beside = f", which is {wide:.2g} points wide" if wide > 1 else ""
        return (f"{text} It is inside the 95 % interval of the simulation{beside}.",)
    away = f"{found['outside_ci95'] / _POINT:.2g} points"
    text += f" It is outside the 95 % interval of the simulation, by {away}."
    if formula["assumptions"]:
        text += " What the formula takes for granted and this scenario breaks is listed below."
    if abs(distance(formula)) > TOO_FAR:
        text += " So far off it is no guide to how rare failures would have to be; no such frontier is drawn."
    return (text,)


def _table(content: Mapping[str, Any]) -> Grid:
    """Return the shares of the formula beside those of the simulation."""
    rows = []
    for name, (formula, simulated) in beside(content).items():
        told = ("not in the formula", "") if formula is None else (percent(formula), _points(simulated - formula))
        label = "restart (reschedule, initialize, restore)" if name == "restart" else phase_name(name)
        rows.append((label, told[0], percent(simulated), told[1]))
    heads = ("formula", "simulated", "simulated less formula")
    return Grid("Formula beside simulation", (Column("share of the time", is_number=False), *map(Column, heads)), rows)


def _points(difference: float) -> str:
    text = f"{difference / _POINT:+.3f} points"
    return text if text.strip("+-0. points") else "0 points"


def _orders(waste: Mapping[str, Mapping[str, float]]) -> Grid:
    """Return what the formula loses by order in the failure rate."""
    buckets = list(dict.fromkeys(bucket for order in _ORDERS for bucket in waste[order]))
    buckets.sort(key=lambda bucket: bucket == "total")
    rows = [(phase_name(bucket), *(percent(waste[order].get(bucket, 0.0)) for order in _ORDERS)) for bucket in buckets]
    note = "First order: each failure by itself. Second order: two that meet, too. Exact: all of them."
    columns = (Column("lost", is_number=False), *map(Column, _ORDERS.values()))
    return Grid("What the formula loses, by order in the failure rate", columns, rows, note=note)

"""The closed form of named jobs compared with the simulation; `explain` shows it too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ettrick.analysis.amounts import PERCENT, number_of, percent_text, points_text, range_text
from ettrick.analysis.metrics import METRICS, RESTART, bucket_label
from ettrick.analysis.page.account import BesideFormula, basis, beside_formula, of_focus
from ettrick.analysis.page.model import Section, grid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ettrick.analysis.page.model import TableBlock
    from ettrick.analysis.page.report_data import ReplayedScenario
    from ettrick.analysis.results.models import ClosedFormSummary, RunDocument


_LOST = ("lost_work", "detection", "restart", "checkpoint_stall", "starved")
_ORDERS = {"exact": "exact", "first": "first order", "second": "second order"}
_POINT = 0.01
_CLOSE = 0.001  # difference of shares that does not matter [-]
TOO_FAR = 0.01  # difference of shares from which on a formula is no guide to what else would be [-]


@of_focus
def closed_form_section(focus: ReplayedScenario) -> Section | None:
    """Return the section; ``None`` where nothing was simulated."""
    section = beside_simulation(focus.document)
    if section is None:
        return None
    waste = focus.document.closed_form.waste
    orders = [_orders(waste)] if waste is not None and converges(focus.document.closed_form) else []
    return replace(section, items=(*section.items, *orders), notes=(basis(focus), *section.notes))


def beside_simulation(document: RunDocument) -> Section | None:
    """Return a formula compared with the simulation; ``None`` where nothing was simulated."""
    formula = document.closed_form
    notes = (*extrapolated_texts(formula), *(f"The formula assumes: {line}." for line in formula.assumptions))
    if formula.ettr is None:
        return Section("closed-form", "No formula applies to this scenario", tuple(formula.reasons), (), notes)
    seen = formula.simulated
    if seen is None or seen.ettr is None:
        return None
    wide = 0.0 if seen.ettr_ci95 is None else seen.ettr_ci95[1] - seen.ettr_ci95[0]
    apart = distance(formula)
    title = f"A formula says {PERCENT.value(formula.ettr)}, the simulation {PERCENT.value(seen.ettr)}: "
    if apart:
        title += f"{abs(apart) / _POINT:.2g} percentage points {'more' if apart > 0 else 'less'}"
    else:
        title += "too few runs to distinguish them" if wide > _POINT else "they agree"
    texts = [*_formula_texts(formula)]
    if seen.outside_ci95 and abs(apart) > TOO_FAR:
        texts.append("So far off it is no guide to how rare failures would have to be; none is shown.")
    return Section("closed-form", title, tuple(texts), (_beside_table(document),), notes)


def _formula_texts(formula: ClosedFormSummary) -> Iterator[str]:
    if formula.ettr is not None:
        yield f"ETTR {percent_text(formula.ettr)} by a formula ({formula.form}): expected shares in the long run."
    seen = formula.simulated
    if seen is not None and seen.ettr is not None:
        interval = "" if seen.ettr_ci95 is None else f"{range_text(seen.ettr_ci95, percent_text)}, "
        text = f"Simulated ETTR {percent_text(seen.ettr)} ({interval}{number_of(seen.replications, 'replication')})"
        if seen.outside_ci95:
            text += f": the formula is outside the 95 % interval by {points_text(seen.outside_ci95, '')}"
        elif seen.outside_ci95 is not None:
            text += ": the formula is inside the 95 % interval"
        yield f"{text}."


def distance(formula: ClosedFormSummary) -> float:
    """Return how much more the simulation says than the formula [-]; 0 where chance alone may have made it so."""
    seen = formula.simulated
    if formula.ettr is None or seen is None or seen.ettr is None or seen.outside_ci95 == 0:
        return 0.0
    apart = seen.ettr - formula.ettr
    return apart if abs(apart) >= _CLOSE else 0.0


def beside(document: RunDocument) -> dict[str, tuple[float | None, float]]:
    """Return by bucket what the formula and what the simulation says [-]; ``None`` where the formula says nothing.

    The formula knows reschedule, initialize and restore together, as ``restart``, and so does the simulation here. The
    simulated shares add up to 1.
    """
    shares = dict(document.time_shares)
    shares = {"restart": sum(shares.pop(name) for name in RESTART), **shares}
    formula = document.closed_form.time_shares
    pairs: dict[str, tuple[float | None, float]] = {name: (value, shares.pop(name)) for name, value in formula.items()}
    return pairs | {name: (None, share) for name, share in shares.items() if share}


def _beside_table(document: RunDocument) -> TableBlock:
    shares = [
        BesideFormula(
            " + ".join(map(bucket_label, RESTART if name == "restart" else (name,))), formula, simulated, percent_text
        )
        for name, (formula, simulated) in beside(document).items()
    ]
    available = [
        BesideFormula(METRICS[name].short, value, document.metrics[name].mean, lambda share: percent_text(share, 3))
        for name, value in document.closed_form.availability.items()
    ]
    return beside_formula("Closed form and simulation", [*shares, *available])


def extrapolated_texts(formula: ClosedFormSummary) -> Iterator[str]:
    """Yield a line for each bundle whose rates were counted on jobs of other sizes."""
    for row in formula.extrapolated:
        smallest, largest = row.counted_on_gpus
        sizes = f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
        text = f"{row.bundle} was counted on jobs of {sizes} GPUs, '{row.job}' has {row.gpus:,}: ETTR "
        if row.ettr_proportional is not None:
            text += (
                f"{percent_text(row.ettr)} with {', '.join(row.kept)} as often as in that job and the other causes in "
                f"proportion to the GPUs, {percent_text(row.ettr_proportional)} with all in proportion to the GPUs"
            )
        else:
            text += f"{percent_text(row.ettr)} with failures in proportion to the GPUs"
        if row.ettr_superlinear is not None:
            faster = percent_text(row.ettr_superlinear)
            text += (
                f", {faster} if beyond {largest:,} they grow with the power {row.exponent:g} ({row.exponent_source})"
            )
        yield text


def converges(formula: ClosedFormSummary) -> bool:
    """Return whether orders in the failure rate come nearer to what is exact, and are shares at all.

    Where failures are as frequent as restarts are long they are not: the second order of a share may be below zero.
    """
    waste, by_cause = formula.waste or {}, formula.waste_by_cause or {}
    causes = [row["total"] for rows in by_cause.values() for row in rows.values()]
    first, second, exact = (waste[order]["total"] for order in ("first", "second", "exact"))
    # Differences of 1e-9 are rounding.
    nearer = abs(second - exact) <= abs(first - exact) + 1e-9
    return nearer and all(-1e-9 <= total <= 1 + 1e-9 for total in (first, second, exact, *causes))


def _orders(waste: Mapping[str, Mapping[str, float]], orders: Sequence[str] = tuple(_ORDERS)) -> TableBlock:
    """Return what the formula loses by bucket, exact and by order in the failure rate."""
    buckets = sorted(dict.fromkeys(name for order in orders for name in waste[order]), key=lambda name: name == "total")
    rows = [(bucket_label(name), *(percent_text(waste[order].get(name, 0.0)) for order in orders)) for name in buckets]
    if len(orders) > 1:
        note = "First order: each failure by itself. Second order: two that meet, too. Exact: all of them."
    else:
        note = "Orders in the failure rate are left out: they do not converge at this rate."
    heads = ("", *(_ORDERS[order] for order in orders))
    return grid("Losses of the closed form, by bucket", heads, rows, note=note)


def explained_formula(formula: ClosedFormSummary) -> Iterator[Section]:
    """Yield the closed form by itself: what it says, what it assumes, and where it sees the time go."""
    lines = [
        *(("extrapolated", line) for line in extrapolated_texts(formula)),
        *(("does not apply", line) for line in formula.reasons),
        *(("assumes", line) for line in formula.assumptions),
    ]
    yield Section("closed-form", "Closed form", tuple(_formula_texts(formula)), (grid("", ("", ""), lines),))
    if formula.waste is None or formula.waste_by_cause is None:
        return
    orders = tuple(_ORDERS) if converges(formula) else ("exact",)
    losses = _orders(formula.waste, orders)
    yield Section("waste", losses.title, (), (losses,))
    table = _by_cause(formula.waste_by_cause, orders)
    if table.rows:
        yield Section("waste-by-cause", "By cause", (), (table,))


def _by_cause(waste: Mapping[str, Mapping[str, Mapping[str, float]]], orders: Sequence[str]) -> TableBlock:
    """Return what the formula loses to each cause by bucket, and in all by order, the most first."""
    exact = {name: row for name, row in waste["exact"].items() if "lost_work" in row}
    buckets = [name for name in _LOST if any(name in row for row in exact.values())]
    rows = []
    for name in sorted(exact, key=lambda name: -exact[name]["total"]):
        shares = [exact[name].get(bucket, 0.0) for bucket in buckets]
        rows.append((name, *map(percent_text, (*shares, *(waste[order][name]["total"] for order in orders)))))
    return grid("", ("", *map(bucket_label, buckets), *orders), rows)

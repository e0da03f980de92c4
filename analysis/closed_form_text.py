"""The closed form in words: beside the simulation, and what it says of each cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.cells import empty_table, label_grid, number_of, percent_text, range_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

__all__ = ["compared_text", "converges", "extrapolated_texts", "print_explained"]

_BUCKETS = {
    "lost_work": "lost work",
    "detection": "detection",
    "restart": "restart",
    "checkpoint_stall": "checkpoint stalls",
    "starved": "starved",
}
_ORDERS = {"exact": "exact", "first": "first order", "second": "second order"}


def compared_text(formula: dict[str, Any]) -> str:
    """Return what was simulated, and how far from the formula that is; nothing without a simulation."""
    seen = formula["simulated"]
    if seen is None or seen["ettr"] is None:
        return ""
    runs = number_of(seen["replications"], "replication")
    band = f"{range_text(seen['ettr_ci95'], percent_text)}, " if seen["ettr_ci95"] is not None else ""
    text = f"simulated {percent_text(seen['ettr'])} ({band}{runs})"
    if formula["ettr"] is None:
        return text
    text += f", closed form {percent_text(formula['ettr'])}"
    outside = seen["outside_ci95"]
    if outside is None:
        return text
    if not outside:
        return f"{text}: inside the 95 % interval"
    return f"{text}: outside the 95 % interval by {100 * outside:.2f} pt"


def extrapolated_texts(formula: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each bundle whose rates were counted on jobs of other sizes."""
    for row in formula["extrapolated"]:
        smallest, largest = row["counted_on_gpus"]
        sizes = f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
        text = (
            f"{row['bundle']} was counted on jobs of {sizes} GPUs, '{row['job']}' has {row['gpus']:,}: ETTR "
            f"{percent_text(row['ettr'])} with failures in proportion to the GPUs"
        )
        if row["ettr_superlinear"] is not None:
            faster = percent_text(row["ettr_superlinear"])
            text += f", {faster} if beyond {largest:,} they grow with the power {row['exponent']:g}"
        yield text


def print_explained(out: Console, formula: dict[str, Any]) -> None:
    """Print the closed form, what it takes for granted, and where it sees the time go."""
    out.print("\nClosed form", style="bold")
    rows = []
    if formula["ettr"] is not None:
        out.print(f"  ETTR {percent_text(formula['ettr'])}: {formula['form']}, expected shares in the long run")
    if text := compared_text(formula):
        rows.append(("ETTR", text))
    rows += [("extrapolated", line) for line in extrapolated_texts(formula)]
    rows += [("does not apply", line) for line in formula["reasons"]]
    out.print(label_grid([*rows, *(("assumes", line) for line in formula["assumptions"])]))
    if formula["waste"] is not None:
        shown = _ORDERS if converges(formula) else {"exact": "exact"}
        _print_waste(out, formula["waste"], shown)
        _print_causes(out, formula["waste_by_cause"], list(shown))
        if len(shown) < len(_ORDERS):
            out.print("\n  orders in the failure rate are left out: they do not converge at this rate")


def converges(formula: dict[str, Any]) -> bool:
    """Return whether orders in the failure rate come nearer to what is exact, and are shares at all.

    Where failures are as frequent as restarts are long they are not: the second order of a share may be below zero.
    """
    causes = [row["total"] for rows in formula["waste_by_cause"].values() for row in rows.values()]
    first, second, exact = (formula["waste"][order]["total"] for order in ("first", "second", "exact"))
    # What is but rounding is no order.
    nearer = abs(second - exact) <= abs(first - exact) + 1e-9
    return nearer and all(-1e-9 <= total <= 1 + 1e-9 for total in (first, second, exact, *causes))


def _print_waste(out: Console, waste: dict[str, dict[str, float]], orders: dict[str, str]) -> None:
    """Print what is not productive, bucket by bucket: exact, and to some orders in the failure rate."""
    out.print("\nWhat the closed form loses, by bucket", style="bold")
    table = empty_table("", *orders.values())
    for bucket, label in _BUCKETS.items():
        if any(bucket in waste[order] for order in orders):
            table.add_row(label, *(percent_text(waste[order].get(bucket, 0.0)) for order in orders))
    table.add_row("total", *(percent_text(waste[order]["total"]) for order in orders))
    out.print(table)


def _print_causes(out: Console, by_cause: dict[str, dict[str, dict[str, float]]], orders: list[str]) -> None:
    """Print what each cause costs, the dearest first."""
    exact = by_cause["exact"]
    names = [name for name, row in exact.items() if "lost_work" in row]
    if not names:
        return
    buckets = [bucket for bucket in _BUCKETS if any(bucket in exact[name] for name in names)]
    out.print("\nBy cause", style="bold")
    table = empty_table("", *(_BUCKETS[bucket] for bucket in buckets), *orders)
    for name in sorted(names, key=lambda name: -exact[name]["total"]):
        cells = (exact[name].get(bucket, 0.0) for bucket in buckets)
        table.add_row(name, *map(percent_text, (*cells, *(by_cause[order][name]["total"] for order in orders))))
    out.print(table)

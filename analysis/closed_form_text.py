"""The closed form in words: beside the simulation, and what it says of each cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.cells import empty_table, label_grid, number_of, percent_text, range_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

__all__ = ["compared_text", "extrapolated_texts", "print_explained"]

_BUCKETS = {
    "lost_work": "lost work",
    "detection": "detection",
    "restart": "restart",
    "checkpoint_stall": "checkpoint stalls",
}
_ORDERS = {"first": "first order", "second": "second order", "exact": "exact"}


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
    apart = seen["standard_errors_above"]
    if apart is None:
        return text
    return f"{text}: {abs(apart):.1f} standard errors {'above' if apart > 0 else 'below'} it"


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
    label = "assumes" if formula["ettr"] is not None else "none"
    out.print(label_grid([*rows, *((label, line) for line in formula["assumptions"])]))
    if formula["waste"] is not None:
        _print_waste(out, formula["waste"])
        _print_causes(out, formula["waste_by_cause"])


def _print_waste(out: Console, waste: dict[str, dict[str, float]]) -> None:
    """Print what is not productive, bucket by bucket, to each order in the failure rate."""
    out.print("\nWhere the closed form sees the rest go", style="bold")
    table = empty_table("", *_ORDERS.values())
    for bucket, label in _BUCKETS.items():
        table.add_row(label, *(percent_text(waste[order][bucket]) for order in _ORDERS))
    table.add_row("total", *(percent_text(waste[order]["total"]) for order in _ORDERS))
    out.print(table)


def _print_causes(out: Console, by_cause: dict[str, dict[str, dict[str, float]]]) -> None:
    """Print what each cause costs, the dearest first."""
    totals = {
        name: [by_cause[order][name]["total"] for order in _ORDERS]
        for name in by_cause["exact"]
        if "lost_work" in by_cause["exact"][name]
    }
    if not totals:
        return
    buckets = [bucket for bucket in _BUCKETS if bucket != "checkpoint_stall"]
    out.print("\nBy cause", style="bold")
    table = empty_table("", *(_BUCKETS[bucket] for bucket in buckets), *_ORDERS)
    for name, row in sorted(totals.items(), key=lambda pair: -pair[1][-1]):
        cells = (by_cause["exact"][name][bucket] for bucket in buckets)
        table.add_row(name, *map(percent_text, cells), *map(percent_text, row))
    out.print(table)

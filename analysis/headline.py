"""The first table of a run: goodput, and what it took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.cells import amount_text, count_text, empty_table, percent_text, range_text, text_or_dash, time_text
from analysis.controls import FEWEST_EVENTS
from analysis.intervals import unseen

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

__all__ = ["print_headline"]

_MWH = 3.6e9
"""One MWh [J]."""


def print_headline(out: Console, content: dict[str, Any]) -> None:
    """Print the metrics that a run is judged by: mean, interval, spread."""
    metrics = content["metrics"]
    rows: list[tuple[str, str, Callable[[float], str]]] = [
        ("ettr", "ETTR (productive / requested)", percent_text),
        ("scheduling_goodput", "  scheduling goodput", percent_text),
        ("runtime_goodput", "  x runtime goodput", percent_text),
        ("program_goodput", "  x program goodput (MFU)", percent_text),
        ("goodput", "  = goodput (effective MFU)", percent_text),
        ("cluster_goodput", "cluster goodput (all owned)", percent_text),
        ("tokens_per_day", "tokens per day", amount_text),
        ("time_to_work", "time to finish", time_text),
        ("p_finish_by", "P(finish by the deadline)", percent_text),
        ("mtti", "MTTI", time_text),
        ("interruptions", "interruptions", count_text),
        *_spending_rows(content),
    ]
    rows = [row for row in rows if row[0] in metrics]
    # Quantiles need many replications; a column of dashes says nothing.
    quantiles = any(metrics[name]["p05"] is not None and metrics[name]["p95"] is not None for name, _, _ in rows)
    out.print("\nGoodput", style="bold")
    table = empty_table("", "mean", "95 % interval", "sd of a run", *(["5 %..95 % of runs"] if quantiles else []))
    for name, label, form in rows:
        metric = metrics[name]
        bound = metric.get("lower_bound95")
        cells = [
            f"> {form(bound)}" if bound is not None else text_or_dash(metric["mean"], form),
            range_text(metric["mean_ci95"], form),
            text_or_dash(metric["std"], form),
        ]
        if quantiles:
            cells.append(range_text((metric["p05"], metric["p95"]), form))
        table.add_row(label, *cells)
    out.print(table)
    taken = metrics["ettr"]["controlled"]
    if taken is not None and taken["worth"] is not None and taken["worth"] > 1:
        out.print(
            f"  with the luck of the failures taken out: ETTR {range_text(taken['mean_ci95'], percent_text)}, "
            f"worth {taken['worth']:.3g} times the replications"
        )
    elif content["interrupted"] < FEWEST_EVENTS <= content["replications"]:
        out.print(f"  {_rarely(content['interrupted'], content['replications'])}")
    band = metrics["ettr"]["band90"]
    if band is not None:
        out.print(f"  failure rates known only from their counts: ETTR {range_text(band, percent_text)} (90 %)")


def _rarely(interrupted: int, replications: int) -> str:
    """Return which interval the mean of runs has that are hardly ever interrupted, and what it cannot know."""
    if not interrupted:
        return (
            f"no replication was interrupted: intervals know nothing of runs that are, up to "
            f"{percent_text(unseen(replications))} of all"
        )
    return (
        f"intervals are Student's, without control variates: {interrupted} of {replications} replications were "
        f"interrupted, and these need {FEWEST_EVENTS}"
    )


def _spending_rows(content: dict[str, Any]) -> list[tuple[str, str, Callable[[float], str]]]:
    """Return key, label and form of what a run takes."""
    currency = content["cost"]["currency"] if content["cost"] is not None else ""
    return [
        ("energy", "energy of the facility", lambda joules: f"{_short(joules / _MWH)} MWh"),
        ("cost", "cost", lambda amount: f"{_short(amount)} {currency}"),
        ("cost_per_token", "cost of a million tokens", lambda amount: f"{_short(1e6 * amount)} {currency}"),
    ]


def _short(value: float) -> str:
    """Return a number to three digits or more."""
    return amount_text(value) if value >= 100 else f"{value:.3g}"

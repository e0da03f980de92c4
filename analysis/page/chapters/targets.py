"""Targets by window: how often they are missed, the worst window, what is left of the error budget, credits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.amounts import (
    cell_forms,
    nines_text,
    percent_text,
    range_text,
    text_or_dash,
    time_text,
)
from analysis.metrics import METRICS
from analysis.page.model import Section, grid

if TYPE_CHECKING:
    from analysis.page.model import Grid
    from analysis.page.report_data import ReportData
    from analysis.results.models import RunDocument


def table(document: RunDocument) -> Grid | None:
    """Return a row for each target; ``None`` without any."""
    found = document.per_target.values()
    if not found:
        return None
    has_credits = any("credit_share" in target.metrics for target in found)
    has_bill = any("credits" in target.metrics for target in found)
    currency = "" if document.cost is None else document.cost.currency
    money = cell_forms("credits", currency).value
    rows = []
    for name, target in document.per_target.items():
        missed, worst, left = (target.metrics[key] for key in ("missed_windows", "worst_window", "error_budget_left"))
        row = [
            name,
            f"{METRICS[target.metric].label} of {target.of}",
            f"{100 * target.at_least:.6g} %",
            f"{target.windows:,} of {time_text(target.window_s)}",
            text_or_dash(missed.mean, nines_text),
            range_text(missed.mean_ci95, nines_text),
            text_or_dash(worst.mean, nines_text),
            text_or_dash(left.mean, percent_text),
        ]
        for key, wanted, form in (("credit_share", has_credits, percent_text), ("credits", has_bill, money)):
            row += [text_or_dash(target.metrics[key].mean, form) if key in target.metrics else "–"] if wanted else []
        rows.append(tuple(row))
    heads = ["target", "", "at least", "windows", "P(miss)", "95 % interval", "worst\nwindow", "error\nbudget left"]
    heads += ["bill\ngiven back"] * has_credits + ["credits\nper run"] * has_bill
    note = (
        "P(miss): of a window. Worst window: the lowest of a run, mean of the runs. An error budget below 0 is spent: "
        "over all windows more was missed than the target allows."
    )
    return grid("Targets", tuple(heads), rows, note=note)


def section(report_data: ReportData) -> Section | None:
    """Return the targets of a run; ``None`` without any."""
    document = report_data.run if report_data.kind == "run" else None
    found = None if document is None else table(document)
    if document is None or found is None:
        return None
    name, worst = max(document.per_target.items(), key=lambda item: item[1].metrics["missed_windows"].mean or 0.0)
    missed = worst.metrics["missed_windows"]
    width = time_text(worst.window_s)
    title = f"{name}: {text_or_dash(missed.mean, nines_text)} of the windows of {width} miss the target"
    return Section("targets", title, (), (found,))

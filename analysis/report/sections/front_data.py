"""The front of two metrics of a study that nobody asked for, where the best of one is not the best of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.metrics import contributions, lower_is_better
from analysis.report.sections.axes import axes_of, best_of, running
from sim import Ratio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["front_data"]

Content = dict[str, Any]


def front_data(content: Content, rows: Sequence[Mapping[str, str]]) -> Content | None:
    """Return the front of the headline metric and the first other one that does not go with it, as a question has it.

    ``None`` where all metrics of the study are best at one combination, where fewer than two combinations are on the
    front for sure, so that luck alone may pull the metrics apart, and without the replications.

    Parameters
    ----------
    content
        The document of a sweep.
    rows
        Rows of ``results.csv``.
    """
    import numpy as np

    from analysis.answers.front import front_of

    metrics = _apart(content)
    if metrics is None or not rows or len(axes_of(content)) == 0:
        return None
    found = _replications(content, rows, metrics)
    count = min((len(ratios) for each in found.values() for ratios in each), default=0)
    # Variance of a single replication is not known, so nobody would be on the front for sure.
    known = {number: [contributions(ratios[:count]) for ratios in each] for number, each in found.items()}
    kept = [number for number, each in known.items() if all(values is not None for values in each)]
    if count < 2 or len(kept) < 2:
        return None
    signs = [1.0 if lower_is_better(metric) else -1.0 for metric in metrics]
    aims = [sign * np.array([known[number][place] for number in kept]) for place, sign in enumerate(signs)]
    front = front_of(aims)
    if sum(front.sure) < 2:
        return None
    at = {cell["cell"]: cell["values"] for cell in running(content)}
    members = [{"at": at[kept[row]], "for_sure": sure} for row, sure in zip(front.members, front.sure, strict=True)]
    maybe = [{"at": at[kept[row]]} for row in front.maybe]
    return {"metrics": list(metrics), "axes": [], "replications": count, "front": members, "may_be_too": maybe}


def _apart(content: Content) -> tuple[str, str] | None:
    """Return the headline metric and the first other one whose best combination is another."""
    headline, *others = content["metrics"]
    best = best_of(running(content), headline)
    for metric in others:
        other = best_of(running(content), metric)
        if best and other and other[0] is not best[0]:
            return headline, metric
    return None


def _replications(
    content: Content, rows: Sequence[Mapping[str, str]], metrics: Sequence[str]
) -> dict[int, list[list[Ratio]]]:
    """Return the replications of each metric by cell, at the central values of what is unknown.

    What was censored has no amount; its cell is left out.
    """
    cells = {cell["cell"] for cell in running(content)}
    found: dict[int, list[list[Ratio]]] = {}
    censored = set()
    for row in rows:
        number = int(row["cell"])
        if row["draw"] != "0" or number not in cells:
            continue
        each = found.setdefault(number, [[] for _ in metrics])
        for ratios, metric in zip(each, metrics, strict=True):
            amount, base = row.get(f"{metric}.amount"), row.get(f"{metric}.base")
            if amount and base:
                ratios.append(Ratio(float(amount), float(base)))
            else:
                censored.add(number)
    return {number: each for number, each in found.items() if number not in censored}

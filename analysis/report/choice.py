"""Which cells of a study a report looks at closely: the one that answers the question, and one to hold it against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.metrics import lower_is_better

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Labels = Mapping[str, str]
    Pair = tuple[Labels, Labels]

__all__ = ["cell_at", "chosen_cells"]


def chosen_cells(content: Mapping[str, Any]) -> tuple[int, int | None] | None:
    """Return the numbers of two cells of a sweep; the second is ``None`` where there is no other.

    The first question of the study that can be answered says which, by its last group or line: along sizes, the
    largest; of a condition, the line that takes most to meet it. Where none does, it is the cell with the best mean of
    the headline metric, and the first one that differs from it in nothing but one axis. ``None`` for the answer if no
    cell ran.
    """
    running = [cell for cell in content["cells"] if cell["status"] == "ok"]
    if not running:
        return None
    for answer in content["answers"]:
        pair = _PAIRS[answer["ask"]](answer["data"]) if answer["ask"] in _PAIRS and answer["data"] else None
        found = [] if pair is None else [cell_at(content, labels) for labels in pair]
        cells = [cell for cell in found if cell is not None and cell in running]
        if len(cells) == 2 and cells[0] is not cells[1]:
            return cells[0]["cell"], cells[1]["cell"]
    best = _highest(content, running)
    others = [cell for cell in running if cell is not best and _apart(cell, best) == 1]
    against = others[0] if others else next((cell for cell in running if cell is not best), None)
    return best["cell"], None if against is None else against["cell"]


def cell_at(content: Mapping[str, Any], values: Labels) -> dict[str, Any] | None:
    """Return the first cell with these labels; axes that are not named may have any value."""
    for cell in content["cells"]:
        if all(cell["values"].get(axis) == label for axis, label in values.items()):
            found: dict[str, Any] = cell
            return found
    return None


def _of_best(data: Mapping[str, Any]) -> Pair | None:
    """Return the best of the last group, and the worst."""
    group = data["groups"][-1] if data.get("groups") else None
    return None if group is None or not group.get("order") else (group["best"], group["order"][-1]["at"])


def _of_threshold(data: Mapping[str, Any]) -> Pair | None:
    """Return the last value that meets the condition and its neighbour that does not, of the line that takes most."""
    lines = [line for line in data.get("lines", ()) if line["crossings"]]
    if not lines:
        return None

    def needed(line: Mapping[str, Any]) -> float:
        crossing = line["crossings"][-1]
        return float(crossing["at"] if crossing["begins"] else -crossing["at"])

    line = max(reversed(lines), key=needed)
    along, crossing = data["along"], line["crossings"][-1]
    before, behind = ({**line["at"], along: label} for label in crossing["between"])
    return (behind, before) if crossing["begins"] else (before, behind)


def _of_crossover(data: Mapping[str, Any]) -> Pair | None:
    """Return the best and the second at the last value of the last line."""
    lines = [line for line in data.get("lines", ()) if line["best"] and len(line["best"][-1]["order"]) > 1]
    if not lines:
        return None
    last = lines[-1]["best"][-1]
    here = {**lines[-1]["at"], data["along"]: last["value"]}
    first, second = ({**here, data["between"]: name} for name in last["order"][:2])
    return first, second


def _of_trend(data: Mapping[str, Any]) -> Pair | None:
    """Return the end and the beginning of the last line."""
    lines = [line for line in data.get("lines", ()) if len(line["points"]) > 1]
    if not lines:
        return None
    first, last = lines[-1]["points"][0], lines[-1]["points"][-1]
    at = lines[-1]["at"]
    return {**at, data["along"]: last["value"]}, {**at, data["along"]: first["value"]}


def _of_compare(data: Mapping[str, Any]) -> Pair | None:
    """Return the first choice of the last line, and what it is compared with."""
    lines = [line for line in data.get("lines", ()) if line.get("differences")]
    if not lines:
        return None
    at, axis = lines[-1]["at"], data["axis"]
    return {**at, axis: next(iter(lines[-1]["differences"]))}, {**at, axis: lines[-1]["against"]}


_PAIRS: dict[str, Callable[[Mapping[str, Any]], Pair | None]] = {
    "best": _of_best,
    "threshold": _of_threshold,
    "crossover": _of_crossover,
    "trend": _of_trend,
    "compare": _of_compare,
}
"""By kind of question: labels of the cell that answers it, and of the one to hold it against."""


def _highest(content: Mapping[str, Any], running: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the cell with the best mean of the headline metric."""
    metric = content["metrics"][0]
    sign = -1 if lower_is_better(metric) else 1
    known = [cell for cell in running if cell["metrics"].get(metric, {}).get("mean") is not None]
    return max(known, key=lambda cell: sign * cell["metrics"][metric]["mean"]) if known else running[0]


def _apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """Return in how many axes two cells differ."""
    return sum(one["values"][axis] != other["values"][axis] for axis in one["values"])

"""Which cells of a study a report looks at closely: the one that answers the question, and one to hold it against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.metrics import lower_is_better

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["cell_at", "chosen_cells"]


def chosen_cells(content: Mapping[str, Any]) -> tuple[int, int | None] | None:
    """Return the numbers of two cells of a sweep; the second is ``None`` where there is no other.

    The first is the best that a question of the study found, in the last of its groups: along sizes, the largest.
    Without such a question it is that with the best mean of the study's headline metric. The second is the first cell
    that differs from it in nothing but one axis, which is where studies have what is done today; ``None`` for the
    answer if no cell ran.
    """
    running = [cell for cell in content["cells"] if cell["status"] == "ok"]
    if not running:
        return None
    best = _answered(content, running) or _highest(content, running)
    others = [cell for cell in running if cell is not best and _apart(cell, best) == 1]
    against = others[0] if others else next((cell for cell in running if cell is not best), None)
    return best["cell"], None if against is None else against["cell"]


def cell_at(content: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the first cell with these labels; axes that are not named may have any value."""
    for cell in content["cells"]:
        if all(cell["values"].get(axis) == label for axis, label in values.items()):
            found: dict[str, Any] = cell
            return found
    return None


def _answered(content: Mapping[str, Any], running: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the cell that the last group of the first question of the kind ``best`` found."""
    for answer in content["answers"]:
        if answer["ask"] == "best" and answer["data"].get("groups"):
            labels = answer["data"]["groups"][-1]["best"]
            cell = cell_at(content, labels) if labels else None
            if cell in running:
                return cell
    return None


def _highest(content: Mapping[str, Any], running: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the cell with the best mean of the headline metric."""
    metric = content["metrics"][0]
    sign = -1 if lower_is_better(metric) else 1
    known = [cell for cell in running if cell["metrics"].get(metric, {}).get("mean") is not None]
    return max(known, key=lambda cell: sign * cell["metrics"][metric]["mean"]) if known else running[0]


def _apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """Return in how many axes two cells differ."""
    return sum(one["values"][axis] != other["values"][axis] for axis in one["values"])

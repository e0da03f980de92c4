"""What the two scenarios that are held against each other are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.report.choice import chosen_cells
from analysis.report.sections.axes import axes_of

if TYPE_CHECKING:
    from analysis.report.focus import Focus
    from analysis.report.material import Material

__all__ = ["in_common", "names_of"]


def names_of(material: Material, before: Focus, after: Focus) -> tuple[str, str]:
    """Return what the two are called: what tells them apart, where they are cells of a study."""
    content = material.sweep if material.kind == "sweep" else None
    chosen = None if content is None else chosen_cells(content)
    if content is None or chosen is None or chosen[1] is None:
        return before.name, after.name
    ours, theirs = (content["cells"][number]["values"] for number in (chosen[0], chosen[1]))
    apart = [name for name in ours if ours[name] != theirs[name]]

    def told(values: dict[str, str]) -> str:
        return ", ".join(f"{content['axes'][name]['title']} = {values[name]}" for name in apart)

    return told(theirs), told(ours)


def in_common(content: dict[str, Any]) -> str:
    """Return what the two have in common of what was chosen, in words; empty without any."""
    chosen = chosen_cells(content)
    if chosen is None or chosen[1] is None:
        return ""
    ours, theirs = (content["cells"][number]["values"] for number in chosen if number is not None)
    axes = [axis for axis in axes_of(content) if ours[axis.name] == theirs[axis.name]]
    return ", ".join(f"{axis.title} = {ours[axis.name]}" for axis in axes)

"""What the two scenarios that are held against each other are called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from analysis.report.choice import chosen_cells
from analysis.report.phrases import label_text, phrases
from analysis.report.sections.axes import axes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.report.focus import Focus
    from analysis.report.material import Material

__all__ = ["in_common", "names_of", "shortly", "variant_labels"]


def variant_labels(names: Sequence[str]) -> dict[str, str]:
    """Return what variants are called: without the path of the one setting that all of them vary.

    A number alone would not say of what it is, so that its path stays.
    """
    path, equals, _ = names[0].partition("=")
    start = path + equals
    is_clear = bool(equals) and all(re.fullmatch(rf"{re.escape(start)}[A-Za-z][^=]*", name) for name in names)
    return {name: name.removeprefix(start) if is_clear else name for name in names}


def names_of(material: Material, before: Focus, after: Focus) -> tuple[str, str]:
    """Return what the two are called: what tells them apart, where they are cells of a study."""
    found = _values_of(material)
    if found is None:
        names = list(material.main["variants"]) if material.kind == "compare" else [before.name, after.name]
        labels = variant_labels(names)
        return labels[before.name], labels[after.name]
    theirs, ours = found
    apart = [name for name in ours if ours[name] != theirs[name]]
    assert material.sweep is not None
    return phrases(theirs, apart, material.sweep), phrases(ours, apart, material.sweep)


def shortly(material: Material, name: str) -> str:
    """Return the name of the first of the two as it stands behind the other's: ``48 hot spares instead of 32``."""
    found = _values_of(material)
    if found is None:
        return name
    apart = [theirs for axis, theirs in found[0].items() if theirs != found[1][axis]]
    if len(apart) != 1:
        return name
    return label_text(apart[0]) if apart[0][:1].isdigit() else f"“{label_text(apart[0])}”"


def _values_of(material: Material) -> tuple[dict[str, str], dict[str, str]] | None:
    """Return the values of the first and of the second, where they are cells of a study."""
    content = material.sweep if material.kind == "sweep" else None
    chosen = None if content is None else chosen_cells(content)
    if content is None or chosen is None or chosen[1] is None:
        return None
    return content["cells"][chosen[1]]["values"], content["cells"][chosen[0]]["values"]


def in_common(content: dict[str, Any]) -> str:
    """Return what the two have in common of what was chosen, in words; empty without any."""
    chosen = chosen_cells(content)
    if chosen is None or chosen[1] is None:
        return ""
    ours, theirs = (content["cells"][number]["values"] for number in chosen if number is not None)
    return phrases(ours, [axis.name for axis in axes_of(content) if ours[axis.name] == theirs[axis.name]], content)

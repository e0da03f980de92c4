"""Every input, its value and where it comes from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from analysis.cells import number_of
from analysis.report.catalog_inputs import catalog_inputs
from analysis.report.inputs import BASES, GROUPS, Input, group_of, stated_inputs
from analysis.report.model import Column, Grid, Section
from analysis.report.results import SENSITIVITY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.report.material import Material
    from analysis.study.axis import Axis

__all__ = ["all_inputs", "axis_basis", "section"]

_HEADS = (
    Column("input", False),
    Column("what it says", False),
    Column("value", False),
    Column("basis", False),
    Column("source", False),
)
_NOT_STATED = "not stated"
_CHOICE = "a choice"
_MOST_PATHS = 3


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is no scenario."""
    focus = material.focus
    if focus is None:
        return None
    found = all_inputs(material)
    told = [(group, one) for group, one in found if one.basis != "default"]
    defaults = [one for _, one in found if one.basis == "default"]
    tables = []
    for group in GROUPS:
        rows = [one for name, one in told if name == group]
        if rows:
            tables.append(Grid(group, _HEADS, tuple(map(_row, rows))))
    if defaults:
        tables.append(_defaults(defaults))
    meaning = Grid("What the bases mean", (Column("basis", False), Column("meaning", False)), tuple(BASES.items()))
    axes = _axes(material)
    return Section(
        "inputs",
        f"{number_of(len(told), 'input')} with their values, and what each rests on",
        (_words(material, told, defaults),),
        (*([axes] if axes is not None else []), *tables, meaning),
        ("Names, titles, descriptions and sources are no inputs. An assumption counts as the source of a value if it "
         "speaks of the same part of the scenario and names the same amount.",),
    )  # fmt: skip


def all_inputs(material: Material) -> list[tuple[str, Input]]:
    """Return all values that the scenario in focus rests on, each with the part of the scenario that it belongs to."""
    focus = material.focus
    assert focus is not None
    stated = stated_inputs(focus.scenario, _varied(material))
    return [*((group_of(one.path), one) for one in stated), *catalog_inputs(focus.prepared, focus.document)]


def axis_basis(axis: Axis) -> str:
    """Return what the values of an axis rest on: as it says; without that whether they are chosen, or unknown."""
    return axis.basis or (_NOT_STATED if axis.is_uncertain else _CHOICE)


def _words(material: Material, told: Sequence[tuple[str, Input]], defaults: Sequence[Input]) -> str:
    """Return how many values are left out, and where nothing else tells it, how many there are of each kind."""
    parts = ""
    if material.of(SENSITIVITY) is not None:
        counts = {basis: sum(one.basis == basis for _, one in told) for basis in BASES}
        parts = f"Of the inputs {', '.join(f'{count} {basis}' for basis, count in counts.items() if count)}. "
    whose = f" The scenario is {material.focus.name}." if material.focus is not None else ""
    return f"{parts}{number_of(len(defaults), 'more input')} left at what the program takes.{whose}"


def _row(one: Input) -> tuple[str, ...]:
    return one.path, one.what, one.value, one.basis, one.source or "the scenario itself"


def _defaults(found: Sequence[Input]) -> Grid:
    """Return what the scenario leaves out; the same of several parts, such as phases of a recovery, is told once."""
    seen: dict[tuple[str, str, str], int] = {}
    for one in found:
        key = re.sub(r"\.\d+(?=\.|$)", ".*", one.path), one.what, one.value
        seen[key] = seen.get(key, 0) + 1
    rows = [(path, what, value, f"{count}") for (path, what, value), count in seen.items()]
    heads = (Column("input", False), Column("what it says", False), Column("value", False), Column("times"))
    return Grid("Left at what the program takes", heads, tuple(rows))


# ------------------------------------------------------------------------------------------------------ axes


def _varied(material: Material) -> dict[str, Input]:
    """Return of each path that an axis writes to what is known of its values."""
    if material.study is None:
        return {}
    found = {}
    for name, axis in material.study.study.vary.items():
        basis = axis.basis or ("assumed" if axis.is_uncertain else "stated")
        source = axis.source or f"{'not known' if axis.is_uncertain else 'chosen'}, by the axis: {axis.title or name}"
        for path in axis.targets(name):
            found[path] = Input(path, "", "", basis, source)
    return found


def _axes(material: Material) -> Grid | None:
    """Return what a study varies; ``None`` without a study."""
    if material.study is None:
        return None
    rows = []
    for name, axis in material.study.study.vary.items():
        paths = axis.targets(name)
        told = ", ".join(paths[:_MOST_PATHS])
        told += f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
        rows.append(
            (axis.title or name, told, _values(axis, name), axis_basis(axis), axis.source or "the study itself")
        )
    heads = (Column("axis", False), Column("sets", False), Column("values", False), *_HEADS[3:])
    return Grid("What the study varies", heads, tuple(rows))


def _values(axis: Axis, name: str) -> str:
    """Return the values of an axis, or the distribution of an input that is not known."""
    if axis.distribution is not None:
        told: Mapping[str, Any] = axis.distribution.model_dump(mode="json", exclude_defaults=True)
        law = axis.distribution.law
        return _LAWS.get(law, law).format(**{"law": law, **axis.distribution.model_dump(mode="json"), **told})
    if axis.range is not None and not (axis.range.points or axis.range.step):
        return f"{axis.range.min} to {axis.range.max}"
    return ", ".join(value.label for value in axis.values(name))


_LAWS = {
    "uniform": "anything from {min} to {max}, all equally likely",
    "loguniform": "anything from {min} to {max}, all orders of magnitude equally likely",
    "triangular": "{min} to {max}, most likely {mode}",
    "lognormal": "log-normal, median {median}, sigma {sigma:g}",
    "between": "log-normal, between {p05} and {p95} with 90 %",
    "counted": "{factor:g}, as well known as {events} counted events allow",
}
"""Distributions in words, by law."""

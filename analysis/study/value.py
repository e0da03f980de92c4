"""Values of what varies, and the points that they make."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from analysis.study.amounts import amounts_of

__all__ = ["Point", "Value", "label_of", "number_of", "settings_text"]

_TAGS = ("use", "law", "like")


class Value(NamedTuple):
    """One value of an axis.

    Parameters
    ----------
    label
        What it is called in tables.
    number
        Where it lies on a numeric axis, in SI units; ``None`` for what has no order.
    settings
        Paths of the scenario and what is written there, as plain data.
    """

    label: str
    number: float | None
    settings: tuple[tuple[str, Any], ...]


class Point(NamedTuple):
    """One scenario of a study.

    Parameters
    ----------
    number
        Its position among all points of the study, from 0.
    cell
        The combination of decisions that it belongs to, from 0: points of one cell differ only in what is not known.
    draw
        0 where everything unknown has its central value, else the number of a draw of the unknowns.
    values
        One value for each axis, in the order of the study.
    """

    number: int
    cell: int
    draw: int
    values: tuple[Value, ...]

    @property
    def overrides(self) -> tuple[str, ...]:
        """Texts ``path=value`` that make the scenario of this point."""
        return tuple(settings_text(path, content) for value in self.values for path, content in value.settings)


def settings_text(path: str, content: Any) -> str:
    """Return a setting as the text ``path=value``, in YAML of one line that reads back as the same data."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    # As messages show it, too: what cannot be printed is escaped there.
    text = "".join(letter if letter.isprintable() or letter > "\uffff" else json.dumps(letter)[1:-1] for letter in text)
    return f"{path}={text}"


def label_of(content: Any) -> str:
    """Return what a value is called in tables: itself, or of a strategy its name."""
    if isinstance(content, str):
        return content
    if isinstance(content, bool) or content is None:
        return json.dumps(content)
    if isinstance(content, int):
        return str(content)
    if isinstance(content, float):
        return repr(content).removesuffix(".0")
    if isinstance(content, dict):
        name = next((content[tag] for tag in _TAGS if isinstance(content.get(tag), str)), None)
        if name is not None:
            return str(name)
    return json.dumps(content, ensure_ascii=False)


def number_of(content: Any) -> float | None:
    """Return where a value lies on a numeric axis: a number, or a quantity in SI units; ``None`` for anything else."""
    try:
        found = amounts_of((content,))
    except ValueError:
        return None
    return None if found.dimension is None and found.unit else found.numbers[0]

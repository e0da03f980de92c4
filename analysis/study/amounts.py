"""Numbers as a study writes them: plain, with a unit, or with the words of a rate."""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ettrick.sim import units

if TYPE_CHECKING:
    from collections.abc import Sequence

_Item = TypeVar("_Item")

SHORT = 4
"""Digits of a label, where they distinguish the values of an axis."""

DIGITS = 12
"""Digits of the numbers that are worked out: more are rounding of floats."""

EXACT = 17
"""Digits that distinguish any two numbers."""

_POWERS = tuple(10.0**digits for digits in range(EXACT))

_NEAR = 1e-9
"""Relative distance from which on two numbers are not the same, whatever floats make of units."""

_NUMBER = re.compile(rf"\s*([+-]?{units.NUMBER})\s*(.*?)\s*", re.DOTALL)


@dataclass(frozen=True)
class Amounts:
    """Amounts of one kind.

    Parameters
    ----------
    numbers
        The amounts that were given, in SI units where they have units.
    whole
        Whether all of them were written as whole numbers without a unit: then so is what is between them.
    dimension
        What they are amounts of; ``None`` for plain numbers, and for those with the words of a rate.
    unit
        The unit or the words that all of them were written with; empty if they differ or have none.
    """

    numbers: tuple[float, ...]
    whole: bool = False
    dimension: units.Dimension | None = None
    unit: str = ""

    @functools.cached_property
    def _base(self) -> str:
        """The SI unit."""
        return "" if self.dimension is None else _base(self.dimension)

    def write(self, number: float) -> Any:
        """Return a number of this kind as a scenario would say it; read back it is the same number, to the last bit."""
        if self.whole:
            return round(number)
        if self.dimension is not None:
            if not self.unit or _is_short(number / self.dimension.units[self.unit]):
                label = self.label(number)
                if _is_exact(label, number, self.dimension):
                    return label
            return f"{_plain(number)} {self._base}".strip()
        return f"{_plain(number)} {self.unit}" if self.unit else number

    def label(self, number: float, digits: int = SHORT) -> str:
        """Return a number of this kind as tables show it: rounded, in the unit of the study or else a near one."""
        if self.whole:
            return str(round(number))
        unit = self.unit
        if self.dimension is not None:
            unit = unit or _near_unit(number, self.dimension)
            number = number / self.dimension.units[unit]
        return f"{_rounded(number, digits)} {unit}".strip()


def amounts_of(contents: Sequence[Any]) -> Amounts:
    """Return the amounts that some values of a study stand for; the number 0 goes with any unit.

    Raises
    ------
    ValueError
        If one of them is no number, or they are not of one kind.
    """
    for content in contents:
        if not isinstance(content, str | int | float) or isinstance(content, bool):
            message = f"{_listed([content])} is not a number"
            raise ValueError(message)  # noqa: TRY004  (a mistake of the study, not of the program)
    texts = [content for content in contents if isinstance(content, str)]
    if not texts:
        if not all(map(math.isfinite, contents)):
            raise ValueError(f"{_listed(contents)}: must be finite")
        return Amounts(tuple(map(float, contents)), whole=all(isinstance(content, int) for content in contents))
    dimensions = _dimensions(texts)
    for dimension in dimensions:
        if all(_reads(content, dimension) for content in contents):
            numbers = tuple(units.parse(content, dimension) for content in contents)
            return Amounts(numbers, dimension=dimension, unit=_common_unit(texts))
    if len(texts) < len(contents):
        raise ValueError(f"{_listed(contents)}: give all of them a unit, or none")
    for dimension, text in itertools.product(dimensions, texts):
        _refuse(text, dimension)
    return _worded_amounts(texts)


def _dimensions(texts: Sequence[str]) -> list[units.Dimension]:
    """Return the dimensions that one text at least is an amount of."""
    # Text without a unit could be a fraction, but need not.
    with_unit = [text for text in texts if _common_unit([text]) or not _NUMBER.fullmatch(text)]
    return [dimension for dimension in units.DIMENSIONS if any(_reads(text, dimension) for text in with_unit)]


def _worded_amounts(texts: Sequence[str]) -> Amounts:
    """Return the amounts of numbers that have the same words behind them, such as those of a rate."""
    matches = {text: _NUMBER.fullmatch(text) for text in texts}
    wrong = [text for text in texts if matches[text] is None]
    if wrong:
        raise ValueError(f"{_listed(wrong)} is not a number")
    pairs = [(match[1], match[2]) for text in texts if (match := matches[text])]
    if any(words != pairs[0][1] for _, words in pairs):
        raise ValueError(f"{_listed(texts)}: must have the same unit")
    numbers = tuple(float(number) for number, _ in pairs)
    if min(numbers) < 0:
        raise ValueError(f"{_listed(texts)}: must not be negative")
    return Amounts(numbers, unit=pairs[0][1])


def rounded(number: float) -> float:
    """Return a number to `DIGITS` digits."""
    return float(f"{number:.{DIGITS}g}")


def numbers_of(contents: Sequence[Any]) -> tuple[float | None, ...]:
    """Return where values lie on a numeric axis, in SI units; ``None`` for all of them if they are not of one kind."""
    try:
        return amounts_of(contents).numbers
    except ValueError:
        return (None,) * len(contents)


def _reads(content: Any, dimension: units.Dimension) -> bool:
    """Tell whether a value is an amount of a dimension."""
    try:
        units.parse(content, dimension)
    except units.UnitError:
        return False
    return True


def _refuse(text: str, dimension: units.Dimension) -> None:
    """Say why a text is no amount of a dimension, if it is none."""
    try:
        units.parse(text, dimension)
    except units.UnitError as error:
        message = f"'{text}': {error}" if f"'{text}'" not in str(error) else str(error)
        raise ValueError(message) from None


def _common_unit(texts: Sequence[str]) -> str:
    """Return the unit that all texts end in; nothing if they differ, or are sums such as 1h30m."""
    endings = {match[2] if (match := _NUMBER.fullmatch(text)) else "" for text in texts}
    unit = endings.pop()
    return "" if endings or any(letter.isdigit() for letter in unit) else unit


def _near_unit(number: float, dimension: units.Dimension) -> str:
    """Return the unit that a label is given in: the largest of which there are some, and of which it is no fraction."""
    candidates = [unit for unit in dimension.show_with if dimension.units[unit] <= number]
    for unit in candidates:
        count = number / dimension.units[unit]
        if _is_short(count) and _is_exact(f"{_rounded(count, SHORT)} {unit}", number, dimension):
            return unit
    plain = next((unit for unit in candidates if "iB" not in unit), "")
    if plain or not number:
        return plain or _base(dimension)
    return min(dimension.show_with, key=lambda unit: dimension.units[unit])


def _is_exact(text: str, number: float, dimension: units.Dimension) -> bool:
    try:
        return units.parse(text, dimension) == number
    except units.UnitError:
        return False


def _is_short(number: float) -> bool:
    """Tell whether a number may be one of `SHORT` digits, or those before the point; most are not, and soon seen."""
    size = abs(number)
    if size < 1:
        return True
    last = size * (1000.0 if size < 10 else 100.0 if size < 100 else 10.0 if size < 1000 else 1.0)
    return size >= 1e9 or abs(last - round(last)) <= _NEAR * last


def _base(dimension: units.Dimension) -> str:
    return next(unit for unit, factor in dimension.units.items() if factor == 1)


def _rounded(number: float, digits: int) -> str:
    """Return a number with so many digits, and those before the point."""
    if digits >= EXACT:
        return _plain(number)
    if _POWERS[digits] <= abs(number) < 1e9:
        digits = max(digits, len(str(int(abs(number)))))
    return "%.*g" % (digits, number)  # noqa: UP031  (twice as fast, and there are millions of labels)


def _listed(contents: Sequence[Any]) -> str:
    return " and ".join(f"'{content}'" if isinstance(content, str) else _in_words(content) for content in contents)


def _plain(number: float) -> str:
    """Return all digits of a number, without a trailing ``.0``."""
    return repr(number).removesuffix(".0")


def _in_words(content: Any) -> str:
    names: dict[type, str] = {dict: "a mapping", list: "a list", tuple: "a list"}
    return str(content).lower() if isinstance(content, bool) else names.get(type(content), str(content))


# Values of what varies, and the points that they make.

_TAGS = ("use", "law", "like")


class AxisPosition(NamedTuple):
    """A value of an axis.

    Parameters
    ----------
    number
        Where it lies on a numeric axis, in SI units; ``None`` for what has no order.
    settings
        Paths of the scenario and what is written there, as plain data.
    """

    label: str
    number: float | None
    settings: tuple[tuple[str, Any], ...]


class AxisSlice(NamedTuple, Generic[_Item]):
    """Cells that differ in one axis alone, or in several together.

    Parameters
    ----------
    fixed
        Labels of the values that all of them have, by the other axes that vary.
    cells, missing
        Those that have results, in order of the axis, and those that have none.
    name
        What the slice is called in a legend; empty without other axes.
    """

    fixed: dict[str, str]
    cells: tuple[_Item, ...]
    missing: tuple[_Item, ...] = ()
    name: str = ""


class Point(NamedTuple):
    """A scenario of a study.

    Parameters
    ----------
    number
        Its position among all points of the study, from 0.
    cell
        The combination of decisions that it belongs to, from 0: points of one cell differ only in what is not known.
    draw
        0 where everything unknown has its central value, else the number of a draw of the unknowns.
    """

    number: int
    cell: int
    draw: int
    values: tuple[AxisPosition, ...]

    @property
    def overrides(self) -> tuple[str, ...]:
        """Texts ``path=value`` that make the scenario of this point."""
        return tuple(settings_text(path, content) for value in self.values for path, content in value.settings)


def is_log_spaced(numbers: Sequence[float]) -> bool:
    """Return whether ascending numbers, three or more, are spaced more evenly by factors than by steps."""
    if len(numbers) < 3 or numbers[0] <= 0:
        return False
    steps = [later - earlier for earlier, later in itertools.pairwise(numbers)]
    factors = [math.log(later / earlier) for earlier, later in itertools.pairwise(numbers)]
    return min(steps) > 0 and max(factors) / min(factors) < max(steps) / min(steps)


def evenly(items: Sequence[_Item], maximum: int) -> list[_Item]:
    """Return `maximum` items at most, evenly chosen, both ends among them."""
    last = len(items) - 1
    if last < maximum:
        return list(items)
    return [items[round(index * last / (maximum - 1))] for index in range(maximum)]


def settings_text(path: str, content: Any) -> str:
    """Return a setting as the text ``path=value``, in YAML of one line that reads back as the same data."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    if not text.isprintable():
        # As messages show it, too: what cannot be printed is escaped there.
        letters = (letter if letter.isprintable() or letter > "\uffff" else json.dumps(letter)[1:-1] for letter in text)
        text = "".join(letters)
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
        amounts = amounts_of((content,))
    except ValueError:
        return None
    return None if amounts.dimension is None and amounts.unit else amounts.numbers[0]

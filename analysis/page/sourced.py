"""Numbers that know where they come from: read from a document together with their place, and reckoned with.

A `SourcedNumber` carries its places and the formula that leads from them to it through all arithmetic, so that whoever
reads a sentence can go back from its numbers to the results.
"""

from __future__ import annotations

import math
import re
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from ettrick.analysis.amounts import NumberFormat, capital, points_form
from ettrick.analysis.page.model import Number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ettrick.analysis.page.model import Words
    from ettrick.analysis.statistics.estimates import Interval

# Names of the documents of a folder of results, by the command that leaves them.
RUN, COMPARE, VALIDATE, FIT = "run.json", "compare.json", "validate.json", "fit.json"
SENSITIVITY, OPTIMIZE = "sensitivity.json", "optimize.json"

_KEY_OF_A_PLACE = str.maketrans({"~": "~0", "/": "~1"})
_LETTER = re.compile(r"\b[a-z]\b")


@dataclass(frozen=True)
class SourcedNumber:
    """A number and where it comes from; arithmetic keeps both."""

    value: float  # the number [SI]
    # sources, formula: as of `ettrick.analysis.page.model.Number`
    sources: tuple[str, ...]
    formula: str = "a"

    def __add__(self, operand: SourcedNumber | float) -> SourcedNumber:
        """Return the sum."""
        return _combined(self, operand, "+", lambda a, b: a + b)

    def __sub__(self, operand: SourcedNumber | float) -> SourcedNumber:
        """Return the difference."""
        return _combined(self, operand, "-", lambda a, b: a - b)

    def __rsub__(self, operand: float) -> SourcedNumber:
        """Return the difference to a plain number, such as 1 - a share."""
        return _combined(SourcedNumber(operand, (), _written(operand)), self, "-", lambda a, b: a - b)

    def __mul__(self, operand: SourcedNumber | float) -> SourcedNumber:
        """Return the product."""
        return _combined(self, operand, "*", lambda a, b: a * b)

    def __truediv__(self, operand: SourcedNumber | float) -> SourcedNumber:
        """Return the quotient."""
        return _combined(self, operand, "/", lambda a, b: a / b)

    def at_most(self, most: float) -> SourcedNumber:
        """Return it, or what it cannot be above."""
        return self if self.value <= most else SourcedNumber(most, (), _written(most))

    def __abs__(self) -> SourcedNumber:
        """Return the size."""
        return self if self.value >= 0 else SourcedNumber(-self.value, self.sources, f"abs({self.formula})")


class SourcedEstimate(NamedTuple):
    """A mean with its interval; both ends are ``None`` where there is none, or where it has no width."""

    mean: SourcedNumber
    low: SourcedNumber | None = None
    high: SourcedNumber | None = None

    @property
    def interval(self) -> Interval | None:
        """Both ends [SI]."""
        return None if self.low is None or self.high is None else (self.low.value, self.high.value)

    def changed(self, change: Callable[[SourcedNumber], SourcedNumber]) -> SourcedEstimate:
        """Return what a monotone function makes of it, such as a factor."""
        mean = change(self.mean)
        if self.low is None or self.high is None:
            return SourcedEstimate(mean)
        ends = sorted((change(self.low), change(self.high)), key=lambda end: end.value)
        return SourcedEstimate(mean, *ends)


@dataclass(frozen=True)
class SourceDocument:
    """A document that numbers are read from."""

    file: str  # name of its file
    content: Any  # what it says

    def get(self, *keys: str | int) -> Any:
        """Return what stands at a place; ``None`` where nothing does."""
        value = self.content
        for key in keys:
            try:
                value = getattr(value, str(key)) if isinstance(value, BaseModel) else value[key]
            except (KeyError, IndexError, TypeError, AttributeError):
                return None
        return value

    def at(self, *keys: str | int) -> SourcedNumber | None:
        """Return the number at a place; ``None`` where there is none."""
        value = self.get(*keys)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        pointer = "".join(f"/{str(key).translate(_KEY_OF_A_PLACE)}" for key in keys)
        return SourcedNumber(value, (f"{self.file}#{pointer}",))

    def stated(self, *keys: str | int) -> SourcedNumber:
        """Return the number at a place where every such document has one."""
        if (value := self.at(*keys)) is None:
            raise LookupError(f"{self.file} has no number at {'/'.join(map(str, keys))}")
        return value

    def ends(self, *keys: str | int) -> tuple[SourcedNumber, SourcedNumber] | None:
        """Return the ends of an interval; ``None`` where there is none."""
        low, high = self.at(*keys, 0), self.at(*keys, 1)
        return None if low is None or high is None else (low, high)

    def estimate(self, *keys: str | int, interval: str = "mean_ci95") -> SourcedEstimate | None:
        """Return the mean of a summary or difference with its interval; ``None`` where the mean is null."""
        return None if self.at(*keys, "mean") is None else self.stated_estimate(*keys, interval=interval)

    def stated_estimate(self, *keys: str | int, interval: str = "mean_ci95") -> SourcedEstimate:
        """Return the mean of a summary or difference that has one in every such document, with its interval."""
        mean, ends = self.stated(*keys, "mean"), self.ends(*keys, interval)
        # An interval without a width comes from runs that were all equal, and says nothing about others.
        has_width = ends is not None and ends[1].value - ends[0].value > 1e-9 * abs(mean.value)
        return SourcedEstimate(mean, *ends) if ends is not None and has_width else SourcedEstimate(mean)


def total(parts: Iterable[SourcedNumber]) -> SourcedNumber | None:
    """Return the sum of numbers; ``None`` without any."""
    numbers = list(parts)
    if not numbers:
        return None
    amount = numbers[0]
    for part in numbers[1:]:
        amount = amount + part
    return amount


def _combined(
    left: SourcedNumber, right: SourcedNumber | float, sign: str, function: Callable[[float, float], float]
) -> SourcedNumber:
    """Return what an operation makes of two numbers; places that both rest on are named once."""
    if not isinstance(right, SourcedNumber):
        return SourcedNumber(
            function(left.value, right), left.sources, f"{_whole(left.formula)} {sign} {_whole(_written(right))}"
        )
    sources = tuple(dict.fromkeys((*left.sources, *right.sources)))
    assert len(sources) <= len(string.ascii_lowercase), "one letter for each place"
    formula = f"{_whole(_renamed(left, sources))} {sign} {_whole(_renamed(right, sources))}"
    return SourcedNumber(function(left.value, right.value), sources, formula)


def _renamed(sourced: SourcedNumber, sources: tuple[str, ...]) -> str:
    """Return a formula with the letters that its places have among others."""
    letters = {letter: string.ascii_lowercase[sources.index(place)] for letter, place in
               zip(string.ascii_lowercase, sourced.sources, strict=False)}  # fmt: skip
    return _LETTER.sub(lambda match: letters[match[0]], sourced.formula)


def _whole(formula: str) -> str:
    return f"({formula})" if " " in formula or formula.startswith("-") else formula


def _written(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


# ----------------------------------------
# How numbers of the first screen are stated: units for people, and as many digits as an interval deserves.


def number(
    sourced: SourcedNumber, form: NumberFormat, interval: Interval | None = None, unit: str | None = None
) -> Number:
    """Return a number as it is stated; an interval [SI] only tells how many digits it has.

    Without one, whole numbers are stated to the last digit, others to three; zeros at the end of a number above a
    thousand may be rounded.
    """
    text = form.plain(sourced.value, interval, unit) if interval is not None else form.brief(sourced.value, unit)
    return Number(text, sourced.value, form.size, sourced.sources, sourced.formula)


def ranged(low: SourcedNumber, high: SourcedNumber, form: NumberFormat) -> Words:
    """Return an interval as a text, such as ``2.1 to 2.6 percentage points``."""
    ends = (low.value, high.value)
    first, last = number(low, form, ends, ""), number(high, form, ends)
    same = first.text == number(high, form, ends, "").text
    return (last,) if same else (first, " to ", last)


def worded(estimate: SourcedEstimate, form: NumberFormat) -> Words:
    """Return a mean with its interval, such as ``93.1 % (92.9 to 93.4)``."""
    mean = number(estimate.mean, form, estimate.interval)
    if estimate.low is None or estimate.high is None:
        return (mean,)
    return (mean, " (", *ranged(estimate.low, estimate.high, form._replace(unit="")), ")")


# ----------------------------------------
# Parts of sentences: lists, differences, whole numbers.

_PARTS = NumberFormat("%", 0.01)  # parts of a base


def apart(difference: SourcedEstimate, form: NumberFormat, base: SourcedNumber | None = None) -> Words:
    """Return the size of a difference: of shares in points, of all else in percent of a base where there is one.

    Only shares may be negative: all else falls by 100 % at most.
    """
    falls = difference.mean.value < 0
    size = difference.changed(lambda change: change * -1) if falls else difference
    kind = points_form(form)
    if form.step != "percentage points" and base is not None and base.value > 0:
        most = 1.0 if falls else math.inf
        size, kind = size.changed(lambda change: (change / base).at_most(most)), _PARTS
    return span(size, kind)


def span(size: SourcedEstimate, form: NumberFormat) -> Words:
    """Return a difference as a range, or as what it is in every run."""
    if size.low is None or size.high is None:
        return (number(size.mean, form),)
    return ranged(size.low, size.high, form)


def between(ours: SourcedEstimate, theirs: SourcedEstimate) -> SourcedEstimate:
    """Return how far a mean is above another.

    Its interval goes from the nearest to the farthest ends of theirs. It holds with at least their probability, however
    alike the runs are: the standard error of a difference is at most the sum of both.
    """
    mean = ours.mean - theirs.mean
    if ours.low is None or ours.high is None or theirs.low is None or theirs.high is None:
        return SourcedEstimate(mean)
    return SourcedEstimate(mean, ours.low - theirs.high, ours.high - theirs.low)


def bracket(
    numbers: Sequence[float], inside: tuple[int, int], ends: Sequence[float | None]
) -> tuple[int | None, int | None]:
    """Return between which of the evaluated values a place lies, sampling error included.

    What a metric does between two evaluated neighbours is not known, so that no place is known more closely. `inside`
    are positions of the neighbours between which it is best placed, `ends` its interval: an end that is ``None`` lies
    beyond all values, and an interval of two such ends is not known. So may a position be ``None``.
    """
    first, last = ends
    if first is None and last is None:
        return inside
    below = [place for place, value in enumerate(numbers) if first is not None and value <= first]
    above = [place for place, value in enumerate(numbers) if last is not None and value >= last]
    return (min(below[-1], inside[0]) if below else None), (max(above[0], inside[1]) if above else None)


def line(*parts: Words | Number | str) -> Words:
    """Return parts of a text as one."""
    pieces: list[str | Number] = []
    for part in parts:
        pieces += [part] if isinstance(part, str | Number) else part
    return tuple(part for part in pieces if part != "")


def sentence(*parts: Words | Number | str) -> Words:
    """Return parts of a text as a sentence: with a capital at its start and a full stop at its end."""
    words = line(*parts)
    first = words[0] if words else ""
    return (capital(first), *words[1:], ".") if isinstance(first, str) else (*words, ".")


def listed(parts: Sequence[Words], last: str = " and ") -> Words:
    """Return texts as a list, with something between the last two; each that occurs is named once."""
    distinct = list(dict.fromkeys(parts))
    pieces: list[Words | str] = []
    for place, words in enumerate(distinct):
        pieces += [words] if not place else [last if place == len(distinct) - 1 else ", ", words]
    return line(*pieces)


def either(parts: Iterable[Words]) -> Words:
    """Return texts of which one holds."""
    return listed(list(parts), " or ")


def whole(sourced: SourcedNumber, *, up: bool) -> SourcedNumber:
    """Return the next whole number above or below."""
    turn, name = (math.ceil, "ceil") if up else (math.floor, "floor")
    return SourcedNumber(float(turn(sourced.value)), sourced.sources, f"{name}({sourced.formula})")

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

    def __add__(self, other: SourcedNumber | float) -> SourcedNumber:
        """Return the sum."""
        return _combined(self, other, "+", lambda a, b: a + b)

    def __sub__(self, other: SourcedNumber | float) -> SourcedNumber:
        """Return the difference."""
        return _combined(self, other, "-", lambda a, b: a - b)

    def __rsub__(self, other: float) -> SourcedNumber:
        """Return the difference to a plain number, such as 1 - a share."""
        return _combined(SourcedNumber(other, (), _written(other)), self, "-", lambda a, b: a - b)

    def __mul__(self, other: SourcedNumber | float) -> SourcedNumber:
        """Return the product."""
        return _combined(self, other, "*", lambda a, b: a * b)

    def __truediv__(self, other: SourcedNumber | float) -> SourcedNumber:
        """Return the quotient."""
        return _combined(self, other, "/", lambda a, b: a / b)

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
        found = self.content
        for key in keys:
            try:
                found = getattr(found, str(key)) if isinstance(found, BaseModel) else found[key]
            except (KeyError, IndexError, TypeError, AttributeError):
                return None
        return found

    def at(self, *keys: str | int) -> SourcedNumber | None:
        """Return the number at a place; ``None`` where there is none."""
        found = self.get(*keys)
        if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
            return None
        pointer = "".join(f"/{str(key).translate(_KEY_OF_A_PLACE)}" for key in keys)
        return SourcedNumber(found, (f"{self.file}#{pointer}",))

    def stated(self, *keys: str | int) -> SourcedNumber:
        """Return the number at a place where every such document has one."""
        if (found := self.at(*keys)) is None:
            raise LookupError(f"{self.file} has no number at {'/'.join(map(str, keys))}")
        return found

    def ends(self, *keys: str | int) -> tuple[SourcedNumber, SourcedNumber] | None:
        """Return the ends of an interval; ``None`` where there is none."""
        low, high = self.at(*keys, 0), self.at(*keys, 1)
        return None if low is None or high is None else (low, high)

    def estimate(self, *keys: str | int, interval: str = "mean_ci95") -> SourcedEstimate | None:
        """Return the mean of a summary or difference with its interval; ``None`` where the mean is null."""
        mean, ends = self.at(*keys, "mean"), self.ends(*keys, interval)
        if mean is None:
            return None
        # An interval without a width comes from runs that were all equal, and says nothing about others.
        has_width = ends is not None and ends[1].value - ends[0].value > 1e-9 * abs(mean.value)
        return SourcedEstimate(mean, *ends) if ends is not None and has_width else SourcedEstimate(mean)


def total(parts: Iterable[SourcedNumber]) -> SourcedNumber | None:
    """Return the sum of numbers; ``None`` without any."""
    found = list(parts)
    if not found:
        return None
    amount = found[0]
    for part in found[1:]:
        amount = amount + part
    return amount


def _combined(
    one: SourcedNumber, other: SourcedNumber | float, sign: str, function: Callable[[float, float], float]
) -> SourcedNumber:
    """Return what an operation makes of two numbers; places that both rest on are named once."""
    if not isinstance(other, SourcedNumber):
        return SourcedNumber(
            function(one.value, other), one.sources, f"{_whole(one.formula)} {sign} {_whole(_written(other))}"
        )
    sources = tuple(dict.fromkeys((*one.sources, *other.sources)))
    assert len(sources) <= len(string.ascii_lowercase), "one letter for each place"
    formula = f"{_whole(_renamed(one, sources))} {sign} {_whole(_renamed(other, sources))}"
    return SourcedNumber(function(one.value, other.value), sources, formula)


def _renamed(found: SourcedNumber, sources: tuple[str, ...]) -> str:
    """Return a formula with the letters that its places have among others."""
    letters = {letter: string.ascii_lowercase[sources.index(place)] for letter, place in
               zip(string.ascii_lowercase, found.sources, strict=False)}  # fmt: skip
    return _LETTER.sub(lambda match: letters[match[0]], found.formula)


def _whole(formula: str) -> str:
    return f"({formula})" if " " in formula or formula.startswith("-") else formula


def _written(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


# ----------------------------------------
# How numbers of the first screen are stated: units for people, and as many digits as an interval deserves.


def number(
    found: SourcedNumber, form: NumberFormat, interval: Interval | None = None, unit: str | None = None
) -> Number:
    """Return a number as it is stated; an interval [SI] only tells how many digits it has.

    Without one, whole numbers are stated to the last digit, others to three; zeros at the end of a number above a
    thousand may be rounded.
    """
    text = form.plain(found.value, interval, unit) if interval is not None else form.brief(found.value, unit)
    return Number(text, found.value, form.size, found.sources, found.formula)


def ranged(low: SourcedNumber, high: SourcedNumber, form: NumberFormat) -> Words:
    """Return an interval as a text, such as ``2.1 to 2.6 percentage points``."""
    ends = (low.value, high.value)
    first, last = number(low, form, ends, ""), number(high, form, ends)
    same = first.text == number(high, form, ends, "").text
    return (last,) if same else (first, " to ", last)


def worded(found: SourcedEstimate, form: NumberFormat) -> Words:
    """Return a mean with its interval, such as ``93.1 % (92.9 to 93.4)``."""
    mean = number(found.mean, form, found.interval)
    if found.low is None or found.high is None:
        return (mean,)
    return (mean, " (", *ranged(found.low, found.high, form._replace(unit="")), ")")


# ----------------------------------------
# Parts of sentences: lists, differences, whole numbers.

_PARTS = NumberFormat("%", 0.01)  # parts of a base


def apart(found: SourcedEstimate, form: NumberFormat, base: SourcedNumber | None = None) -> Words:
    """Return the size of a difference: of shares in points, of all else in percent of a base where there is one.

    Only shares may be negative: all else falls by 100 % at most.
    """
    falls = found.mean.value < 0
    size = found.changed(lambda change: change * -1) if falls else found
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
    below = [place for place, one in enumerate(numbers) if first is not None and one <= first]
    above = [place for place, one in enumerate(numbers) if last is not None and one >= last]
    return (min(below[-1], inside[0]) if below else None), (max(above[0], inside[1]) if above else None)


def line(*parts: Words | Number | str) -> Words:
    """Return parts of a text as one."""
    found: list[str | Number] = []
    for part in parts:
        found += [part] if isinstance(part, str | Number) else part
    return tuple(part for part in found if part != "")


def sentence(*parts: Words | Number | str) -> Words:
    """Return parts of a text as a sentence: with a capital at its start and a full stop at its end."""
    found = line(*parts)
    first = found[0] if found else ""
    return (capital(first), *found[1:], ".") if isinstance(first, str) else (*found, ".")


def listed(parts: Sequence[Words], last: str = " and ") -> Words:
    """Return texts as a list, with something between the last two; each that occurs is named once."""
    kept = list(dict.fromkeys(parts))
    found: list[Words | str] = []
    for place, words in enumerate(kept):
        found += [words] if not place else [last if place == len(kept) - 1 else ", ", words]
    return line(*found)


def either(parts: Iterable[Words]) -> Words:
    """Return texts of which one holds."""
    return listed(list(parts), " or ")


def whole(found: SourcedNumber, *, up: bool) -> SourcedNumber:
    """Return the next whole number above or below."""
    turn, name = (math.ceil, "ceil") if up else (math.floor, "floor")
    return SourcedNumber(float(turn(found.value)), found.sources, f"{name}({found.formula})")

"""The axes of a study: a path of the scenario, or several linked ones, and the values that they take."""

from __future__ import annotations

import array
import functools
import itertools
import math
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from ettrick.analysis.study.amounts import (
    EXACT,
    SHORT,
    Amounts,
    AxisPosition,
    amounts_of,
    label_of,
    number_of,
    numbers_of,
    rounded,
)
from ettrick.analysis.study.distributions import AnyDistribution, Draws
from ettrick.sim.scenario.fields import Model, RuleError
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ettrick.sim.scenario.fields import BrokenRules

# Ranges: numbers from one to another, by steps or by their number.

_MOST = 10_000
"""Values of one range."""

_SAME = 1e-9
"""Share of a step by which a value of a range may miss the end that it is meant to be."""


class Range(Model):
    """Numbers from one to another: a step, or a number of points."""

    min: Any = Field(description="Smallest value, with its unit.")
    max: Any = Field(description="Largest value; it is one of the values, even if the last step is shorter.")
    step: Any = Field("", description="Distance of the values; a factor if the scale is log.")
    points: int = Field(0, ge=0, le=_MOST, description="Number of values, instead of a step.")
    scale: Literal["linear", "log"] = Field("linear", description="Whether steps are added or multiplied.")

    def _broken_rules(self) -> BrokenRules:
        low, high = self.ends
        if high <= low:
            yield ("max",), f"must be above min, and {label_of(self.max)} is not above {label_of(self.min)}"
        if self.scale == "log" and low <= 0:
            yield ("min",), "a log scale begins above zero"
        if self.step != "" and self.points:
            yield ("points",), "give a step or a number of points, not both"
        if self.points == 1:
            yield ("points",), "one point is not a range; give the value as choices: [...]"
        if self.step != "":
            self._check_step(low, high)
        if self.whole and self.points > high - low + 1:
            rule = f"there are {high - low + 1:.0f} whole numbers from {low:.0f} to {high:.0f}"
            yield ("points",), f"{rule}; write min: {low!r} for numbers between them"

    def _check_step(self, low: float, high: float) -> None:
        if self.scale == "log" and (not isinstance(self.step, int | float) or not 1 < self.step < math.inf):
            raise RuleError(("step",), "must be a factor above one on a log scale, for example 2")
        step = self._step
        if not step > 0:
            raise RuleError(("step",), "must be above zero")
        steps = math.log(high / low) / math.log(step) if self.scale == "log" else (high - low) / step
        if steps > _MOST:
            raise RuleError(("step",), f"makes more than {_MOST:,} values")
        if self.whole and self.scale == "linear" and step != round(step):
            rule = f"must be a whole number, as min and max are; write min: {low!r} for numbers between them"
            raise RuleError(("step",), rule)

    @functools.cached_property
    def amounts(self) -> Amounts:
        """Both ends."""
        return amounts_of(self.described)

    @property
    def whole(self) -> bool:
        """Whether its values are whole numbers."""
        return self.amounts.whole

    @property
    def described(self) -> tuple[Any, ...]:
        """Both ends, as they were written."""
        return self.min, self.max

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest number, in SI units."""
        return self.ends

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends, in SI units."""
        low, high = self.amounts.numbers
        return low, high

    @functools.cached_property
    def _step(self) -> float:
        """The step in SI units, or the factor."""
        if self.scale == "log":
            return float(self.step)
        try:
            return amounts_of((self.min, self.max, self.step)).numbers[2]
        except ValueError as error:
            raise RuleError(("step",), str(error)) from None

    def at(self, u: float) -> float:
        """Return the number at a share of the way from one end to the other, on its scale, to `DIGITS` digits.

        Linear: min (1 - u) + max u; log: min^(1 - u) max^u.
        """
        low, high = self.ends
        return rounded(low ** (1 - u) * high**u if self.scale == "log" else low * (1 - u) + high * u)

    def numbers(self) -> list[float]:
        """Return the values of a grid; the ends are among them.

        Raises
        ------
        ValueError
            If neither a step nor a number of points was given.
        """
        low, high = self.ends
        if self.points:
            grid = [low, *(self.at(index / (self.points - 1)) for index in range(1, self.points - 1)), high]
        elif self.step != "":
            grid = [*self._walk(low, high), high]
        else:
            raise ValueError("needs a step or a number of points")
        return sorted({float(round(number)) for number in grid}) if self.whole else grid

    def _walk(self, low: float, high: float) -> list[float]:
        """Return the values that steps lead to, without the last one."""
        step = self._step
        if self.scale == "log":
            walk = (rounded(low * step**index) for index in itertools.count())
            end = high / step**_SAME
        else:
            walk = (rounded(low + step * index) for index in itertools.count())
            end = high - step * _SAME
        return list(itertools.takewhile(lambda number: number < end, walk))


Derivation = Literal["size", "spares", "layout", "interval"]
"""Quantities that follow from the other choices and the budget."""


class Axis(Model):
    """An axis: exactly one of choices, range, distribution and derive."""

    title: str = Field("", description="Title in tables and sentences [default: its name].")
    noun: str = Field("", description="Noun that its values count: with hot spares, 12 is written as 12 hot spares.")
    path: str = Field("", description="Path of the scenario that takes the values; omitted: the name of the axis.")
    paths: tuple[str, ...] = Field((), description="Several linked paths, which all take the same value.")
    choices: tuple[Any, ...] | dict[str, Any] | None = Field(
        None, description="A list of values; or names of values, or of mappings {path: value} of linked parameters."
    )
    range: Range | None = Field(None, description="Numbers from one to another.")
    distribution: AnyDistribution | None = Field(None, description="Distribution of an unknown input.")
    derive: Derivation | None = Field(
        None,
        description="For `optimize`: values that follow from the other choices. size: the most racks, domains or nodes "
        "that all budgets allow, and fewer; spares: the fewest that suffice 99 % of the time, and some more and fewer; "
        "layout: sizes of groups and microbatches with the most replicas that the batch allows; interval: the best "
        "between saves, and some around it.",
    )
    where: dict[str, Any] = Field(
        {}, description="For `optimize`: the axis exists only where other axes have these values: {axis: value}."
    )
    basis: Literal["measured", "published", "assumed"] | None = Field(
        None,
        description="Basis of its values: measured or counted by the source; published, without a measurement; or "
        "assumed. Reports say how much of the variance comes from each.",
    )
    source: str = Field("", description="Source of the values: a paper, a log, a data sheet.")

    @model_validator(mode="before")
    @classmethod
    def _is_no_list(cls, data: Any) -> Any:
        if isinstance(data, list | tuple):
            message = "a list of values goes into choices: write {choices: [...]}"
            raise ValueError(message)  # noqa: TRY004  (a mistake of the study, not of the program)
        return data

    def _broken_rules(self) -> BrokenRules:
        yield from self._broken_kinds()
        if self.path and self.paths:
            yield ("paths",), "give path or paths, not both"
        if self.basis in ("measured", "published") and not self.source.strip():
            yield ("basis",), f"{self.basis} needs a source: say who {self.basis} it"
        if self.choices is not None:
            self._check_choices(self.choices)
        if isinstance(self.distribution, Draws) and self.distribution.columns:
            self._check_columns(self.distribution.columns)

    def _broken_kinds(self) -> BrokenRules:
        """Yield the faults of an axis of no kind or of several, and keys that are not for its kind."""
        kinds = ("choices", "range", "distribution", "derive")
        stated = [name for name in kinds if getattr(self, name) is not None]
        if len(stated) != 1:
            mistake = f"not {' and '.join(stated)} together" if stated else "and none is there"
            yield (), f"give choices, a range, a distribution or derive: exactly one, {mistake}"
        for key in ("path", "paths", "where") if self.derive else ():
            if getattr(self, key):
                yield (key,), f"is not for a {self.derive} that is derived: what it writes is known"
        if self.where and self.distribution is not None:
            yield ("where",), "is for what is chosen, and a distribution is not"

    def _check_columns(self, columns: Mapping[str, Any]) -> None:
        stated = [(("paths", index), path) for index, path in enumerate(self.paths)]
        for keys, path in (*stated, *([(("path",), self.path)] if self.path else [])):
            if path not in columns:
                raise RuleError(keys, f"the draws have no column '{path}'{suggest(path, columns)}")

    def _check_choices(self, choices: tuple[Any, ...] | dict[str, Any]) -> None:
        """Refuse choices that are none, or that tables could not distinguish."""
        if not choices:
            raise RuleError(("choices",), "is empty: name at least one value")
        if isinstance(choices, dict):
            for label, content in choices.items():
                if self._is_linked and not (isinstance(content, dict) and content):
                    rule = "must be a mapping {path: value} of linked parameters; for values of one path give path: too"
                    raise RuleError(("choices", label), rule)
            return
        seen: dict[str, Any] = {}
        numbers: dict[float, str] = {}
        for index, content in enumerate(choices):
            label, number = label_of(content), number_of(content)
            if number is not None and numbers.setdefault(number, label) != label:
                raise RuleError(("choices", index), f"{label} is {numbers[number]}, which is already given")
            if label in seen:
                same = seen[label] == content
                rule = "is given twice" if same else "is the name of two choices; name the choices: {name: value, ...}"
                raise RuleError(("choices", index), f"{label} {rule}")
            seen[label] = content

    @property
    def _is_linked(self) -> bool:
        """Whether its choices say which paths they set."""
        return isinstance(self.choices, dict) and not (self.path or self.paths)

    @property
    def is_uncertain(self) -> bool:
        """Whether its values are not chosen but unknown."""
        return self.distribution is not None

    @property
    def is_numeric(self) -> bool:
        """Whether its values are numbers that lie in an order."""
        if isinstance(self.distribution, Draws) or self.derive is not None:
            return False
        return self.choices is None or all(value.number is not None for value in self.values("x"))

    def labels(self, name: str) -> tuple[str, ...]:
        """Return the labels of a list of values; none without such a list."""
        return tuple(value.label for value in self.values(name)) if self.choices is not None else ()

    def targets(self, name: str) -> tuple[str, ...]:
        """Return every path that takes a value, given the name of the axis; derived ones depend on the scenario."""
        if self.derive is not None:
            return ()
        if self._is_linked:
            return tuple(dict.fromkeys(path for value in self.values(name) for path, _ in value.settings))
        if isinstance(self.distribution, Draws) and not (self.paths or self.path):
            return tuple(self.distribution.columns)
        return self.paths or ((self.path or name),)

    @property
    def amounts(self) -> tuple[Any, ...]:
        """The numbers of a range or a distribution, as they were written; nothing for choices."""
        kind = self.range or self.distribution
        return kind.described if kind is not None else ()

    def values(self, name: str) -> tuple[AxisPosition, ...]:
        """Return the values of a grid.

        Raises
        ------
        ValueError
            If it has a distribution, or a range without steps.
        """
        if self.range is not None:
            return self.numbered(name, self.range.numbers())
        if self.choices is None:
            kind = f"a derived {self.derive}" if self.derive else "a distribution"
            raise ValueError(f"{kind} has no list of values")
        if isinstance(self.choices, dict):
            return self._named(name, list(self.choices), list(self.choices.values()))
        numbers = numbers_of(self.choices)
        pairs = zip(self.choices, numbers, strict=True)
        return tuple(
            AxisPosition(label_of(content), number, self._settings(name, content)) for content, number in pairs
        )

    def at(self, name: str, u: float) -> AxisPosition:
        """Return the value at a probability, or share of the way, above 0 and below 1."""
        return self.each(name, [u])[0]

    def value(self, name: str, number: float) -> AxisPosition:
        """Return a number of a range or a distribution as a value."""
        return self.numbered(name, [number])[0]

    def each(self, name: str, shares: Sequence[float]) -> tuple[AxisPosition, ...]:
        """Return the values at probabilities, or shares of the way, above 0 and below 1; choices are equally likely."""
        return tuple(self.stream(name, shares))

    def stream(self, name: str, shares: Sequence[float]) -> Iterator[AxisPosition]:
        """Yield what `each` returns, each value when it is asked for: of many, only their numbers are kept."""
        kind = self.range or self.distribution
        if kind is not None:
            return self._numbered(kind, name, array.array("d", map(kind.at, shares)))
        values = self.values(name)
        return (values[min(int(u * len(values)), len(values) - 1)] for u in shares)

    def numbered(self, name: str, numbers: Sequence[float]) -> tuple[AxisPosition, ...]:
        """Return numbers of a range or a distribution as values, whose labels differ as soon as the numbers do."""
        kind = self.range or self.distribution
        if kind is None:
            raise ValueError("choices have no numbers but their own")
        return tuple(self._numbered(kind, name, numbers))

    def _numbered(self, kind: Range | AnyDistribution, name: str, numbers: Sequence[float]) -> Iterator[AxisPosition]:
        """Yield the same, each value when it is asked for."""
        amounts, targets = kind.amounts, self.targets(name)
        if isinstance(kind, Draws):
            for row in map(int, numbers):
                yield AxisPosition(f"draw {row}", None, tuple((path, kind.columns[path][row]) for path in targets))
            return
        exact = [float(round(number)) for number in numbers] if amounts.whole else numbers
        label = _labels(amounts, exact)
        for number in exact:
            content = amounts.write(number)
            yield AxisPosition(label(number), number, tuple((path, content) for path in targets))

    def written(self, name: str, contents: Sequence[Any]) -> tuple[AxisPosition, ...]:
        """Return the values that a study writes down elsewhere: choices by name or content, or numbers.

        Raises
        ------
        RuleError
            At the position of the first one that is no value of the axis.
        """
        kind = self.range or self.distribution
        if kind is not None:
            return self.numbered(name, [_number(kind, index, content) for index, content in enumerate(contents)])
        by_label = {value.label: value for value in self.values(name)}
        for index, content in enumerate(contents):
            if label_of(content) not in by_label:
                raise RuleError(
                    (index,), f"{label_of(content)} is not one of the choices{suggest(label_of(content), by_label)}"
                )
        return tuple(by_label[label_of(content)] for content in contents)

    def _settings(self, name: str, content: Any) -> tuple[tuple[str, Any], ...]:
        return tuple((path, content) for path in self.targets(name))

    def _named(self, name: str, labels: Sequence[str], contents: Sequence[Any]) -> tuple[AxisPosition, ...]:
        """Return choices that have names; they lie where these say, or else where their first values do."""
        firsts = [next(iter(content.values())) for content in contents] if self._is_linked else contents
        are_numbers = all(number_of(label) is not None for label in labels)
        numbers = numbers_of(labels if are_numbers else firsts)
        return tuple(
            AxisPosition(label, number, tuple(content.items()) if self._is_linked else self._settings(name, content))
            for label, number, content in zip(labels, numbers, contents, strict=True)
        )


def _number(kind: Range | AnyDistribution, index: int, content: Any) -> float:
    """Return a number that a study writes down elsewhere."""
    try:
        number = amounts_of((*kind.described, content)).numbers[-1]
    except ValueError as error:
        raise RuleError((index,), str(error)) from None
    low, high = kind.support
    if not low <= number <= high:
        support = " to ".join(kind.amounts.label(end) for end in (low, high) if math.isfinite(end))
        raise RuleError((index,), f"{label_of(content)} is outside of {support}")
    return number


def _labels(amounts: Amounts, numbers: Sequence[float]) -> Callable[[float], str]:
    """Return how numbers are called: short, with more digits where two of them would have the same label."""
    for digits in (*range(SHORT, 13, 2), EXACT):
        label = functools.partial(amounts.label, digits=digits)
        if _are_distinct(numbers, label):
            return label
    return lambda number: str(amounts.write(number))


def _are_distinct(numbers: Sequence[float], label: Callable[[float], str]) -> bool:
    """Return whether different numbers have different labels."""
    seen: dict[str, float] = {}
    return all(seen.setdefault(label(number), number) == number for number in numbers)


# Paths of the scenario that a study writes to: none twice, and none that would be lost inside of another.


def check_paths(axes: Mapping[str, Axis], common: Mapping[str, Any]) -> None:
    """Refuse paths that a study cannot write to."""
    for path in common:
        _check_path(path, ("set", path))
    writers: dict[str, str] = {}
    for name, axis in axes.items():
        for path in axis.targets(name):
            _check_path(path, _place(name, axis, path))
            if path in writers:
                raise RuleError(("vary", name), f"{path} is varied by {writers[path]} already")
            if path in common:
                raise RuleError(("set", path), f"is varied too, by {name}; set it in one place")
            writers[path] = name
    for path, name in writers.items():
        for inner, writer in writers.items():
            if not inner.startswith(f"{path}.") or writer == name or name in axes[writer].where:
                continue
            if not _are_choices(axes[name], name, path):
                raise RuleError(("vary", writer), f"{inner} would be lost: the axis {name} replaces {path} as a whole")


def _place(name: str, axis: Axis, path: str) -> tuple[str | int, ...]:
    """Return where an axis says which path it writes to."""
    if path in axis.paths:
        return ("vary", name, "paths", axis.paths.index(path))
    return ("vary", name, "path") if axis.path else ("vary", name)


def _check_path(path: str, at: tuple[str | int, ...]) -> None:
    """Refuse what is no path, and the seed: all points share one, so that they differ in nothing but what varies."""
    if "=" in path or not all(step and step == step.strip() for step in path.split(".")):
        raise RuleError(at, f"'{path}' is not a path such as spares.hot")
    if path == "seed":
        raise RuleError(at, "all points have the same seed: give it to the study, as seed:")


def _are_choices(axis: Axis, name: str, path: str) -> bool:
    """Return whether everything that an axis writes to a path names a strategy: what is inside is then set later."""
    if axis.choices is None:
        return False
    contents = [content for value in axis.values(name) for target, content in value.settings if target == path]
    return all(isinstance(content, dict) and "use" in content for content in contents)

"""What varies in a study: a path of the scenario, or several linked ones, and the values that they take."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from analysis.study.amounts import amounts_of
from analysis.study.distributions import AnyDistribution
from analysis.study.value import Value, label_of, number_of
from sim.fields import Model

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

__all__ = ["Axis", "Range", "axis_named"]

_MOST = 10_000
"""Values of one range."""


class Range(Model):
    """Numbers from one to another: a step, or a number of points."""

    min: Any = Field(description="Smallest value, with its unit.")
    max: Any = Field(description="Largest value; it is one of the values.")
    step: Any = Field("", description="Distance of the values; a factor if the scale is log.")
    points: int = Field(0, ge=0, description="Number of values, where no step is given.")
    scale: Literal["linear", "log"] = Field("linear", description="Whether steps are added or multiplied.")

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        low, high = self.ends
        if high <= low:
            message = f"max must be above min, and {label_of(self.max)} is not above {label_of(self.min)}"
            raise ValueError(message)
        if self.scale == "log" and low <= 0:
            message = "a log scale begins above zero"
            raise ValueError(message)
        if self.step != "" and self.points:
            message = "give a step or a number of points, not both"
            raise ValueError(message)
        if self.points == 1:
            message = "one point is no range: give a value as choices: [...]"
            raise ValueError(message)
        if self.step != "":
            self._check_step(low, high)
        return self

    def _check_step(self, low: float, high: float) -> None:
        step = self._step
        if step <= (1 if self.scale == "log" else 0):
            message = "step must be above one on a log scale" if self.scale == "log" else "step must be above zero"
            raise ValueError(message)
        number = math.log(high / low) / math.log(step) if self.scale == "log" else (high - low) / step
        if number > _MOST:
            message = f"makes more than {_MOST:,} values"
            raise ValueError(message)

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends, in SI units."""
        low, high = amounts_of((self.min, self.max)).numbers
        return low, high

    @property
    def _step(self) -> float:
        if self.scale == "log":
            if not isinstance(self.step, int | float):
                message = "step is a factor on a log scale: write a number such as 2"
                raise ValueError(message)
            return float(self.step)
        return amounts_of((self.min, self.max, self.step)).numbers[2]

    @property
    def whole(self) -> bool:
        """Whether its values are whole numbers."""
        return amounts_of((self.min, self.max)).whole

    def at(self, u: float) -> float:
        """Return the number at a share of the way from one end to the other, on its scale."""
        low, high = self.ends
        return float(low * (high / low) ** u) if self.scale == "log" else low + u * (high - low)

    def write(self, number: float) -> Any:
        """Return a number as a scenario would say it."""
        return amounts_of((self.min, self.max)).write(number)

    def numbers(self) -> list[float]:
        """Return the values of a grid; the ends are among them.

        Raises
        ------
        ValueError
            If neither a step nor a number of points was given.
        """
        low, high = self.ends
        if self.points:
            found = [self.at(index / (self.points - 1)) for index in range(self.points)]
        elif self.step != "":
            step = self._step
            walk = (low * step**index if self.scale == "log" else low + step * index for index in itertools.count())
            found = list(itertools.takewhile(lambda number: number < high * (1 - 1e-9), walk))
            found.append(high)
        else:
            message = "a grid needs a step or a number of points"
            raise ValueError(message)
        found[-1] = high
        return sorted({float(round(number)) for number in found}) if self.whole else found


class Axis(Model):
    """One thing that varies: exactly one of choices, range and distribution."""

    title: str = Field("", description="What it is called in tables and sentences; omitted: its name.")
    path: str = Field("", description="Path of the scenario that takes the values; omitted: the name of the axis.")
    paths: tuple[str, ...] = Field((), description="Several linked paths, which all take the same value.")
    choices: tuple[Any, ...] | dict[str, Any] | None = Field(
        None, description="A list of values; or names of values, or of mappings {path: value} of linked parameters."
    )
    range: Range | None = Field(None, description="Numbers from one to another.")
    distribution: AnyDistribution | None = Field(None, description="What is known of an input that is not known.")

    @model_validator(mode="after")
    def _is_one_of_three(self) -> Self:
        given = [name for name in ("choices", "range", "distribution") if getattr(self, name) is not None]
        if len(given) != 1:
            told = f"not {' and '.join(given)} together" if given else "and none is there"
            message = f"give choices, a range or a distribution: exactly one, {told}"
            raise ValueError(message)
        if self.choices is not None and not self.choices:
            message = "choices is empty: name at least one value"
            raise ValueError(message)
        if self.path and self.paths:
            message = "give path or paths, not both"
            raise ValueError(message)
        return self

    @property
    def is_uncertain(self) -> bool:
        """Whether its values are not chosen but unknown."""
        return self.distribution is not None

    @property
    def is_numeric(self) -> bool:
        """Whether its values are numbers that lie in an order."""
        return self.choices is None or all(value.number is not None for value in self.values("x"))

    def targets(self, name: str) -> tuple[str, ...]:
        """Return the paths that take the values, given the name of the axis."""
        return self.paths or ((self.path or name),)

    @property
    def amounts(self) -> tuple[Any, ...]:
        """Amounts that a range or a distribution is described by, as they were written."""
        if self.range is not None:
            return self.range.min, self.range.max
        assert self.distribution is not None
        return tuple(getattr(self.distribution, name) for name in self.distribution.located)

    def values(self, name: str) -> tuple[Value, ...]:
        """Return the values of a grid.

        Raises
        ------
        ValueError
            If it has a distribution, or a range without steps.
        """
        if self.range is not None:
            return tuple(self.value(name, number) for number in self.range.numbers())
        if self.distribution is not None:
            message = "a distribution has no list of values"
            raise ValueError(message)
        assert self.choices is not None
        if not isinstance(self.choices, dict):
            contents: Sequence[tuple[str, Any]] = [(label_of(content), content) for content in self.choices]
            return tuple(self._chosen(name, label, content) for label, content in contents)
        if self.path or self.paths:
            return tuple(self._chosen(name, label, content) for label, content in self.choices.items())
        return tuple(_linked(label, content) for label, content in self.choices.items())

    def at(self, name: str, u: float) -> Value:
        """Return the value at a probability, or share of the way, above 0 and below 1; choices are equally likely."""
        if self.distribution is not None:
            return self.value(name, self.distribution.ppf(u))
        if self.range is not None:
            return self.value(name, self.range.at(u))
        values = self.values(name)
        return values[min(int(u * len(values)), len(values) - 1)]

    def value(self, name: str, number: float) -> Value:
        """Return a number of a range or a distribution as a value."""
        kind = self.range if self.range is not None else self.distribution
        assert kind is not None
        content = kind.write(number)
        exact = float(content) if isinstance(content, int) else number
        return self._chosen(name, label_of(content), content, exact)

    def _chosen(self, name: str, label: str, content: Any, number: float | None = None) -> Value:
        number = number_of(content) if number is None else number
        return Value(label, number, tuple((path, content) for path in self.targets(name)))


def _linked(label: str, content: Any) -> Value:
    """Return a named setting of several paths; it lies where its name says, or else where its first value does."""
    if not isinstance(content, dict) or not content:
        message = f"{label} must be a mapping {{path: value}}; for values of one path give path: too"
        raise ValueError(message)
    number = number_of(label)
    return Value(label, number_of(next(iter(content.values()))) if number is None else number, tuple(content.items()))


def axis_named(axes: dict[str, Axis], name: str) -> str:
    """Return what an axis is called in sentences."""
    return axes[name].title or name

"""Designs: which combinations of the axes a study looks at; all kinds are listed here."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import Field

from ettrick.analysis.study.amounts import Point
from ettrick.sim.scenario.fields import OneOf, RuleError, Strategy
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy as np
    import numpy.typing as npt

    from ettrick.analysis.study.amounts import AxisPosition
    from ettrick.analysis.study.axis import Axis

# What every design has: which combinations of the axes a study looks at, and how many there are.


class Design(Strategy):
    """The design that picks points; ``use`` picks the entry of the registry."""

    def check(self, axes: Mapping[str, Axis]) -> None:
        """Refuse axes that the design cannot vary."""

    def count(self, axes: Mapping[str, Axis]) -> int:
        """Return the number of points, without making them."""
        raise NotImplementedError

    def points(self, axes: Mapping[str, Axis], rng: np.random.Generator) -> Iterator[Point]:
        """Yield the points in order.

        Parameters
        ----------
        rng
            Source of random numbers, the same for the same study.
        """
        raise NotImplementedError


class SampledDesign(Design):
    """A design of what is chosen, each combination of which is looked at with the same draws of what is unknown."""

    draws: int = Field(20, ge=20, description="Draws of each distribution, in addition to its central values.")

    def check(self, axes: Mapping[str, Axis]) -> None:
        """Refuse draws of nothing."""
        if "draws" in self.model_fields_set and not any(axis.is_uncertain for axis in axes.values()):
            raise RuleError(("design", "draws"), "nothing that varies has a distribution")

    def count(self, axes: Mapping[str, Axis]) -> int:
        """Return the number of points, without making them."""
        return self.cells(axes) * (1 + self.draws if any(axis.is_uncertain for axis in axes.values()) else 1)

    def cells(self, axes: Mapping[str, Axis]) -> int:
        """Return the number of combinations of what is chosen."""
        raise NotImplementedError


def with_draws(
    axes: Mapping[str, Axis], rows: Iterable[tuple[AxisPosition, ...]], draws: int, rng: np.random.Generator
) -> Iterator[Point]:
    """Yield for each combination of what is chosen the central point of what is unknown, then common draws of it."""
    unknown = {name: axis for name, axis in axes.items() if axis.is_uncertain}
    drawn: list[dict[str, AxisPosition]] = [{}]
    if unknown:
        from scipy.stats import qmc

        sample = qmc.LatinHypercube(len(unknown), rng=rng).random(draws)
        columns = [
            axis.each(name, [0.5, *map(float, column)])
            for column, (name, axis) in zip(sample.T, unknown.items(), strict=True)
        ]
        drawn = [dict(zip(unknown, values, strict=True)) for values in zip(*columns, strict=True)]
    number = itertools.count()
    for cell, chosen in enumerate(rows):
        for draw, values in enumerate(drawn):
            rest = iter(chosen)
            positions = tuple(values[name] if name in values else next(rest) for name in axes)
            yield Point(next(number), cell, draw, positions)


class Grid(SampledDesign):
    """Every combination; what has a distribution has the same draws in all of them."""

    use: Literal["grid"] = "grid"

    def check(self, axes: Mapping[str, Axis]) -> None:
        """Refuse draws of nothing, and ranges whose values are not stated."""
        super().check(axes)
        for name, axis in axes.items():
            if axis.range is not None:
                try:
                    axis.range.numbers()
                except ValueError as error:
                    raise RuleError(("vary", name, "range"), f"{error} in a grid") from None

    def cells(self, axes: Mapping[str, Axis]) -> int:
        """Return the number of combinations of what is chosen."""
        return math.prod(len(axis.values(name)) for name, axis in axes.items() if not axis.is_uncertain)

    def points(self, axes: Mapping[str, Axis], rng: np.random.Generator) -> Iterator[Point]:
        """Yield the points in order: the last axis fastest, then the draws."""
        chosen = [axis.values(name) for name, axis in axes.items() if not axis.is_uncertain]
        return with_draws(axes, itertools.product(*chosen), self.draws, rng)


class Listed(SampledDesign):
    """The points that are written down, each a mapping of axes to values; draws as in a grid."""

    use: Literal["list"] = "list"
    points_: tuple[dict[str, Any], ...] = Field(alias="points", min_length=1, description="The points.")

    def check(self, axes: Mapping[str, Axis]) -> None:
        """Refuse draws of nothing, and points that name no axis, or no value of it."""
        super().check(axes)
        chosen = [name for name, axis in axes.items() if not axis.is_uncertain]
        for index, point in enumerate(self.points_):
            at = ("design", "points", index)
            for name in point:
                if name in axes and name not in chosen:
                    raise RuleError((*at, name), "has a distribution: its values are drawn, not listed")
                if name not in chosen:
                    raise RuleError((*at, name), f"unknown axis '{name}'{suggest(name, chosen)}")
            for name in chosen:
                if name not in point:
                    raise RuleError(at, f"has no value of {name}")
                _check_written(axes[name], name, point[name], (*at, name))

    def cells(self, axes: Mapping[str, Axis]) -> int:
        """Return the number of combinations of what is chosen."""
        return len(self.points_)

    def points(self, axes: Mapping[str, Axis], rng: np.random.Generator) -> Iterator[Point]:
        """Yield the points in order."""
        columns = [
            axis.written(name, [row[name] for row in self.points_])
            for name, axis in axes.items()
            if not axis.is_uncertain
        ]
        rows = zip(*columns, strict=True) if columns else [()] * len(self.points_)
        return with_draws(axes, rows, self.draws, rng)


class OneAtATime(Design):
    """The central point, and from there each axis on its own: its choices, or both ends of a distribution."""

    use: Literal["one-at-a-time"] = "one-at-a-time"
    low: float = Field(
        0.05,
        gt=0,
        lt=0.5,
        description="Probability of the low end of a distribution; above the high end it is the same.",
    )
    base: dict[str, Any] = Field({}, description="Values of the central point; omitted: the middle one of each axis.")

    def check(self, axes: Mapping[str, Axis]) -> None:
        """Refuse a base that names no axis, or no value of it, and draws, which have no ends."""
        for name, axis in axes.items():
            if axis.distribution is not None and axis.distribution.use == "draws":
                rule = "are rows without a low and a high end: use a grid, a latin-hypercube or saltelli"
                raise RuleError(("vary", name, "distribution"), rule)
        for name, content in self.base.items():
            at = ("design", "base", name)
            if name not in axes:
                raise RuleError(at, f"unknown axis '{name}'{suggest(name, axes)}")
            _check_written(axes[name], name, content, at)

    def count(self, axes: Mapping[str, Axis]) -> int:
        """Return the number of points, without making them."""
        return 1 + sum(len(self.values(name, axis)) - 1 for name, axis in axes.items())

    def points(self, axes: Mapping[str, Axis], rng: np.random.Generator) -> Iterator[Point]:
        """Yield the central point, then those of each axis."""
        values = [self.values(name, axis) for name, axis in axes.items()]
        center = tuple(central for central, *_ in values)
        yield Point(0, 0, 0, center)
        number = 0
        for position, (_, *moves) in enumerate(values):
            for value in moves:
                number += 1
                yield Point(number, number, 0, (*center[:position], value, *center[position + 1 :]))

    def values(self, name: str, axis: Axis) -> tuple[AxisPosition, ...]:
        """Return the values of an axis that are looked at, the central one first and never again."""
        written = axis.written(name, [self.base[name]]) if name in self.base else ()
        kind = axis.range or axis.distribution
        if kind is None:
            choices = axis.values(name)
            (central,) = written or (choices[(len(choices) - 1) // 2],)
            alternatives = list(choices)
        else:
            ends = axis.range.ends if axis.range is not None else (kind.at(self.low), kind.at(1 - self.low))
            stated = written[0].number if written else None
            middle = kind.at(0.5) if stated is None else stated
            central, *alternatives = axis.numbered(name, (middle, *ends))
        return (central, *(value for value in alternatives if value.settings != central.settings))


class LatinHypercube(Design):
    """Points spread so that each of n equal parts of every axis has one of them."""

    use: Literal["latin-hypercube"] = "latin-hypercube"
    samples: int = Field(ge=2, description="Points.")

    def count(self, axes: Mapping[str, Axis]) -> int:
        """Return the number of points, without making them."""
        return self.samples

    def points(self, axes: Mapping[str, Axis], rng: np.random.Generator) -> Iterator[Point]:
        """Yield the points in order."""
        from scipy.stats import qmc

        return _spread(axes, qmc.LatinHypercube(len(axes), rng=rng).random(self.samples))


class SobolSequence(Design):
    """Points of a scrambled Sobol sequence: evenly spread, in powers of two."""

    use: Literal["sobol"] = "sobol"
    samples: int = Field(ge=2, description="Points; a power of two.")

    def check(self, axes: Mapping[str, Axis]) -> None:
        """Refuse a number of points that would not be balanced."""
        _check_power(self.samples)

    def count(self, axes: Mapping[str, Axis]) -> int:
        """Return the number of points, without making them."""
        return self.samples

    def points(self, axes: Mapping[str, Axis], rng: np.random.Generator) -> Iterator[Point]:
        """Yield the points in order."""
        from scipy.stats import qmc

        return _spread(axes, qmc.Sobol(len(axes), rng=rng).random(self.samples))


class Saltelli(Design):
    """Points from which Sobol indices are estimated: two sets of n, and for each axis the first with that axis swapped.

    In the order A, B, A with axis 1 of B, A with axis 2 of B, ...

    References
    ----------
    A. Saltelli et al., Computer Physics Communications 181 (2010), 259.
    """

    use: Literal["saltelli"] = "saltelli"
    samples: int = Field(64, ge=2, description="Points of a set, n; a power of two.")

    def check(self, axes: Mapping[str, Axis]) -> None:
        """Refuse a number of points that would not be balanced."""
        _check_power(self.samples)

    def count(self, axes: Mapping[str, Axis]) -> int:
        """Return the number of points, without making them."""
        return self.samples * (len(axes) + 2)

    def points(self, axes: Mapping[str, Axis], rng: np.random.Generator) -> Iterator[Point]:
        """Yield the points in order."""
        import numpy as np
        from scipy.stats import qmc

        count = len(axes)
        both = qmc.Sobol(2 * count, rng=rng).random(self.samples)
        first, second = both[:, :count], both[:, count:]
        sets = [first, second]
        for position in range(count):
            swapped = first.copy()
            swapped[:, position] = second[:, position]
            sets.append(swapped)
        return _spread(axes, np.concatenate(sets))


DESIGNS: Mapping[str, type[Design]] = {
    "grid": Grid,
    "list": Listed,
    "one-at-a-time": OneAtATime,
    "latin-hypercube": LatinHypercube,
    "sobol": SobolSequence,
    "saltelli": Saltelli,
}

if TYPE_CHECKING:
    AnyDesign = Design
else:
    _KINDS = tuple(DESIGNS.values())
    AnyDesign = Annotated[Union[_KINDS], OneOf("use", "design", _KINDS)]  # noqa: UP007


def _check_written(axis: Axis, name: str, content: Any, at: tuple[str | int, ...]) -> None:
    """Refuse, at its place, what is no value of an axis."""
    try:
        axis.written(name, [content])
    except RuleError as error:
        raise RuleError(at, error.rule) from None


def _spread(axes: Mapping[str, Axis], sample: npt.NDArray[np.float64]) -> Iterator[Point]:
    """Yield a point for each row of numbers between 0 and 1, shape (n, axes)."""
    columns = [axis.stream(name, column.tolist()) for column, (name, axis) in zip(sample.T, axes.items(), strict=True)]
    for index, values in enumerate(zip(*columns, strict=True)):
        yield Point(index, index, 0, values)


def _check_power(samples: int) -> None:
    if samples & (samples - 1):
        below = 1 << (samples.bit_length() - 1)
        raise RuleError(("design", "samples"), f"must be a power of two, {below} or {2 * below}")

"""Designs: which combinations of the axes a study looks at."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import Field

from analysis.study.amounts import amounts_of
from analysis.study.value import Point, label_of
from sim.documents import suggest
from sim.fields import RuleError, Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    import numpy.typing as npt

    from analysis.study.axis import Axis
    from analysis.study.value import Value

__all__ = ["DESIGNS", "AnyDesign", "Design", "Saltelli"]


class Design(Strategy):
    """Which points are looked at; ``use`` picks the entry of the registry."""

    def check(self, axes: Mapping[str, Axis]) -> None:
        """Refuse axes that the design cannot vary.

        Raises
        ------
        RuleError
            At the first of them.
        """
        for name, axis in axes.items():
            if axis.distribution is None:
                try:
                    axis.values(name)
                except ValueError as error:
                    raise RuleError(("vary", name), str(error)) from None

    def points(self, axes: Mapping[str, Axis], rng: np.random.Generator) -> Iterator[Point]:
        """Yield the points in order.

        Parameters
        ----------
        axes
            What varies, by name.
        rng
            Source of random numbers, the same for the same study.
        """
        raise NotImplementedError


class Grid(Design):
    """Every combination; what has a distribution is drawn anew for all of them together."""

    use: Literal["grid"] = "grid"
    draws: int = Field(20, ge=20, description="Draws of what has a distribution, beside its central values.")

    def points(self, axes: Mapping[str, Axis], rng: np.random.Generator) -> Iterator[Point]:
        """Yield the points in order: the last axis fastest, then the draws."""
        chosen = [axis.values(name) for name, axis in axes.items() if not axis.is_uncertain]
        return _with_draws(axes, itertools.product(*chosen), self.draws, rng)


class Listed(Design):
    """The points that are written down, each a mapping of axes to values."""

    use: Literal["list"] = "list"
    points_: tuple[dict[str, Any], ...] = Field(alias="points", min_length=1, description="The points.")
    draws: int = Field(20, ge=20, description="Draws of what has a distribution, beside its central values.")

    def check(self, axes: Mapping[str, Axis]) -> None:
        """Refuse points that name no axis, or no value of it."""
        for index, point in enumerate(self.points_):
            for name in point:
                if name not in axes or axes[name].is_uncertain:
                    rule = f"is no axis that is chosen{suggest(name, [n for n in axes if not axes[n].is_uncertain])}"
                    raise RuleError(("design", "points", index, name), rule)
            for name, axis in axes.items():
                if axis.is_uncertain:
                    continue
                if name not in point:
                    raise RuleError(("design", "points", index), f"has no value of {name}")
                try:
                    _listed(axis, name, point[name])
                except ValueError as error:
                    raise RuleError(("design", "points", index, name), str(error)) from None

    def points(self, axes: Mapping[str, Axis], rng: np.random.Generator) -> Iterator[Point]:
        """Yield the points in order."""
        rows = [
            tuple(_listed(axis, name, row[name]) for name, axis in axes.items() if not axis.is_uncertain)
            for row in self.points_
        ]
        return _with_draws(axes, rows, self.draws, rng)


class OneAtATime(Design):
    """The central point, and from there every axis alone: all its values, or both ends of what is unknown."""

    use: Literal["one-at-a-time"] = "one-at-a-time"
    low: float = Field(0.05, gt=0, lt=0.5, description="Probability of the low end of a distribution.")
    base: dict[str, Any] = Field({}, description="Values of the central point; omitted: the middle one of each axis.")

    def check(self, axes: Mapping[str, Axis]) -> None:
        """Refuse a base that names no axis, or no value of it."""
        for name, content in self.base.items():
            if name not in axes:
                raise RuleError(("design", "base", name), f"is no axis{suggest(name, axes)}")
            try:
                _listed(axes[name], name, content)
            except ValueError as error:
                raise RuleError(("design", "base", name), str(error)) from None

    def points(self, axes: Mapping[str, Axis], rng: np.random.Generator) -> Iterator[Point]:
        """Yield the central point, then those of each axis."""
        center = tuple(self.center(name, axis) for name, axis in axes.items())
        yield Point(0, 0, 0, center)
        number = 1
        for position, (name, axis) in enumerate(axes.items()):
            for value in self.others(name, axis):
                if value.settings != center[position].settings:
                    yield Point(number, number, 0, (*center[:position], value, *center[position + 1 :]))
                    number += 1

    def center(self, name: str, axis: Axis) -> Value:
        """Return the value of an axis at the central point."""
        if name in self.base:
            return _listed(axis, name, self.base[name])
        if axis.choices is not None:
            return axis.values(name)[(len(axis.choices) - 1) // 2]
        return axis.at(name, 0.5)

    def others(self, name: str, axis: Axis) -> list[Value]:
        """Return the values of an axis that are looked at alone."""
        if axis.choices is not None:
            return list(axis.values(name))
        if axis.range is not None:
            return [axis.value(name, number) for number in axis.range.ends]
        return [axis.at(name, self.low), axis.at(name, 1 - self.low)]


class LatinHypercube(Design):
    """Points spread so that each of n equal parts of every axis has one of them."""

    use: Literal["latin-hypercube"] = "latin-hypercube"
    samples: int = Field(ge=2, description="Points.")

    def check(self, axes: Mapping[str, Axis]) -> None:
        """Refuse nothing: every axis has a value at any share of its way."""

    def points(self, axes: Mapping[str, Axis], rng: np.random.Generator) -> Iterator[Point]:
        """Yield the points in order."""
        from scipy.stats import qmc

        return _spread(axes, qmc.LatinHypercube(len(axes), rng=rng).random(self.samples))


class SobolSequence(Design):
    """Points of a scrambled Sobol sequence: evenly spread, best in powers of two."""

    use: Literal["sobol"] = "sobol"
    samples: int = Field(ge=2, description="Points; a power of two.")

    def check(self, axes: Mapping[str, Axis]) -> None:
        """Refuse a number of points that would not be balanced."""
        _check_power(self.samples)

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
    AnyDesign = Annotated[Union[tuple(DESIGNS.values())], Field(discriminator="use")]  # noqa: UP007


def _listed(axis: Axis, name: str, content: Any) -> Value:
    """Return the value of an axis that a study writes down: one of its choices, by name or content, or a number."""
    if axis.choices is None:
        return axis.value(name, amounts_of((*axis.amounts, content)).numbers[-1])
    values = axis.values(name)
    label = label_of(content)
    found = next((value for value in values if value.label == label), None)
    if found is None:
        message = f"{label} is not one of the choices{suggest(label, [value.label for value in values])}"
        raise ValueError(message)
    return found


def _with_draws(axes: Mapping[str, Axis], rows: Any, draws: int, rng: np.random.Generator) -> Iterator[Point]:
    """Yield for each combination of what is chosen the central point of what is unknown, then common draws of it."""
    unknown = {name: axis for name, axis in axes.items() if axis.is_uncertain}
    drawn = [{name: axis.at(name, 0.5) for name, axis in unknown.items()}]
    if unknown:
        from scipy.stats import qmc

        sample = qmc.LatinHypercube(len(unknown), rng=rng).random(draws)
        drawn += [
            {name: axis.at(name, _inside(u)) for u, (name, axis) in zip(row, unknown.items(), strict=True)}
            for row in sample
        ]
    index = 0
    for cell, chosen in enumerate(rows):
        for draw, values in enumerate(drawn):
            rest = iter(chosen)
            yield Point(index, cell, draw, tuple(values[name] if name in values else next(rest) for name in axes))
            index += 1


def _spread(axes: Mapping[str, Axis], sample: npt.NDArray[np.float64]) -> Iterator[Point]:
    """Yield a point for each row of numbers between 0 and 1, shape (n, axes)."""
    for index, row in enumerate(sample):
        values = (axis.at(name, _inside(u)) for u, (name, axis) in zip(row, axes.items(), strict=True))
        yield Point(index, index, 0, tuple(values))


def _inside(u: Any) -> float:
    """Return a probability that has a quantile."""
    return min(max(float(u), 1e-9), 1 - 1e-9)


def _check_power(samples: int) -> None:
    if samples & (samples - 1):
        below = 1 << (samples.bit_length() - 1)
        raise RuleError(("design", "samples"), f"must be a power of two, {below} or {2 * below}")

"""What every design has: which combinations of the axes a study looks at, and how many there are."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pydantic import Field

from analysis.study.value import Point
from sim.fields import RuleError, Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy as np

    from analysis.study.axis import Axis
    from analysis.study.value import Value

__all__ = ["Design", "Drawing", "with_draws"]


class Design(Strategy):
    """Which points are looked at; ``use`` picks the entry of the registry."""

    def check(self, axes: Mapping[str, Axis]) -> None:
        """Refuse axes that the design cannot vary.

        Raises
        ------
        RuleError
            At the first of them.
        """

    def count(self, axes: Mapping[str, Axis]) -> int:
        """Return the number of points, without making them."""
        raise NotImplementedError

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


class Drawing(Design):
    """A design of what is chosen, each combination of which is looked at with the same draws of what is unknown."""

    draws: int = Field(20, ge=20, description="Draws of what has a distribution, beside its central values.")

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
    axes: Mapping[str, Axis], rows: Iterable[tuple[Value, ...]], draws: int, rng: np.random.Generator
) -> Iterator[Point]:
    """Yield for each combination of what is chosen the central point of what is unknown, then common draws of it."""
    unknown = {name: axis for name, axis in axes.items() if axis.is_uncertain}
    drawn: list[dict[str, Value]] = [{}]
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
            found = tuple(values[name] if name in values else next(rest) for name in axes)
            yield Point(next(number), cell, draw, found)

"""A rival of the failure sources: the same words drawn with numpy's own generator, in the plainest way.

It shares nothing with the simulator but the inverse CDF of laws, which have tests of their own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tests.intervals import rival_seed

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sim.failures import Source
    from sim.failures.spread import Size
    from sim.failures.variety import Frailty, Tempo


CELLS = 4000
"""Pieces into which a horizon is cut to sum up a hazard that changes in time."""


def size_law(size: Size | None, members: int) -> NDArray[np.float64]:
    """Return how likely an incident takes 0 .. `members` nodes [-], shape (members + 1,)."""
    from scipy.stats import binom, geom

    law = np.zeros(members + 1)
    if size is None:
        law[members] = 1.0
    elif size.nodes is not None:
        law[min(size.nodes, members)] = 1.0
    elif size.mean is not None:
        # A geometric law that begins at `least`; what is larger than the domain takes all of it.
        more = geom(1 / (size.mean - size.least + 1), loc=size.least - 1)
        law[: members + 1] = more.pmf(np.arange(members + 1))
        law[members] += 1 - law.sum()
    elif size.share is not None:
        law = np.asarray(binom(members, size.share).pmf(np.arange(members + 1)))
        law[size.least] += law[: size.least].sum()
        law[: size.least] = 0.0
    else:
        assert size.values is not None
        weights = size.weights if size.weights is not None else (1.0,) * len(size.values)
        for value, weight in zip(size.values, weights, strict=True):
            law[min(value, members)] += weight / sum(weights)
    return law


def operational_time(
    tempo: Tempo | None, horizon: float, generator: np.random.Generator, replications: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times [s], shape (n,), and the summed-up hazard factor up to each [s], shape (replications, n)."""
    if tempo is None:
        times = np.array([0.0, horizon])
        return times, np.tile(times, (replications, 1))
    times = np.linspace(0.0, horizon, CELLS + 1)
    middle = (times[1:] + times[:-1]) / 2
    growth = np.diff(times)
    if tempo.trend is not None:
        trend = tempo.trend
        # The integral of exponent ((t + age) / reference)^(exponent - 1).
        growth = np.diff(trend.reference * ((times + trend.age) / trend.reference) ** trend.exponent)
    if tempo.calendar is not None:
        factors = np.array(tempo.calendar.factors)
        phase = middle % tempo.calendar.period / tempo.calendar.period
        growth = growth * factors[(phase * len(factors)).astype(np.int64)]
    levels = np.ones((replications, CELLS))
    if tempo.swings is not None:
        cv, every = tempo.swings.cv, tempo.swings.every
        drawn = generator.gamma(cv**-2, cv**2, size=(replications, math.ceil(horizon / every) + 1))
        levels = drawn[:, (middle / every).astype(np.int64)]
    sums = np.cumsum(levels * growth, axis=1)
    return times, np.concatenate([np.zeros((replications, 1)), sums], axis=1)


def counts_of(source: Source, horizon: float, replications: int) -> NDArray[np.float64]:
    """Return numbers of candidates before the horizon, shape (replications,)."""
    generator = rival_seed()
    times, reached = operational_time(source.tempo, horizon, generator, replications)
    population = _Population(source, generator, replications)
    where, ends = population.lives(reached[:, -1])
    if source.hidden is not None:
        keep = population.has_fault(source.hidden.share, exact=source.hidden.exact)[where]
        where, ends = where[keep], ends[keep]
    replication = where // source.units
    if source.blast is None or source.blast.spread is None:
        return np.bincount(replication, minlength=replications).astype(np.float64)
    begin = np.array([np.interp(end, reached[number], times) for number, end in zip(replication, ends, strict=True)])
    sizes = size_law(source.blast.size, source.blast.members)
    taken = generator.choice(len(sizes), size=len(begin), p=sizes / sizes.sum())
    delays = source.blast.spread.ppf(generator.random(int(taken.sum())))
    inside = np.repeat(begin, taken) + delays < horizon
    return np.bincount(np.repeat(replication, taken)[inside], minlength=replications).astype(np.float64)


class _Population:
    """The units of a source in many replications at once, one after another."""

    def __init__(self, source: Source, generator: np.random.Generator, replications: int) -> None:
        assert source.law is not None
        self.source = source
        self.generator = generator
        self.units = source.units
        self.replications = replications
        self.law = source.law
        self.slots = np.tile(np.arange(self.units), replications)
        self.nodes = self.slots // source.slots_per_node if source.slots_per_node else self.slots
        self.replication = np.repeat(np.arange(replications), self.units)
        self.ratio = np.ones(self.units * replications)
        self.which = np.zeros(self.units * replications, dtype=np.int64)
        self._vary()

    def _vary(self) -> None:
        variety = self.source.variety
        if variety.frailty is not None:
            self.ratio *= self._frailty(variety.frailty)
        for covariate in variety.covariates:
            for level, ratio in enumerate(covariate.ratios):
                mine = self.nodes // covariate.stride % len(covariate.ratios) == level
                self.ratio[mine] *= ratio
        left = self._each(self.nodes, self.generator.random)
        own_laws = 0
        for batch in variety.batches:
            mine = (left >= 0) & (left < batch.share)
            left -= batch.share
            if batch.ratio is not None:
                self.ratio[mine] *= batch.ratio
            else:
                own_laws += 1
                self.which[mine] = own_laws

    def _each(self, owner: NDArray[np.int64], draw: Callable[[int], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return one draw for each owner of each replication, shape (units * replications,)."""
        owners = int(owner.max()) + 1
        of_each: NDArray[np.float64] = draw(owners * self.replications)[self.replication * owners + owner]
        return of_each

    def _frailty(self, frailty: Frailty) -> NDArray[np.float64]:
        shape = frailty.shape
        owner = self.nodes if frailty.of == "node" else self.slots
        return self._each(owner, lambda size: self.generator.gamma(shape, 1 / shape, size=size))

    def has_fault(self, share: float, *, exact: bool) -> NDArray[np.bool_]:
        """Return which units have a hidden fault."""
        if not exact:
            return np.asarray(self.generator.random(self.ratio.size) < share, dtype=np.bool_)
        first = np.arange(self.units) < math.floor(self.units * share + 1e-9)
        return np.concatenate([self.generator.permutation(first) for _ in range(self.replications)])

    def lives(self, total: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return units and ends of the lives that end before `total` of their replication [s], shape (n,) each."""
        source = self.source
        laws = source.variety.laws(self.law)
        where = np.arange(self.ratio.size)
        age = np.zeros(self.ratio.size)
        found, ends = [where[:0]], [age[:0]]
        while where.size:
            # A hazard ratio h: the life that P(X > x)^h gives to a uniform number.
            number = 1 - (1 - self.generator.random(where.size)) ** (1 / self.ratio[where])
            number = np.clip(number, 1e-300, 1 - 2.0**-53)
            for index, law in enumerate(laws):
                mine = self.which[where] == index
                age[mine] += law.ppf(number[mine])
            inside = age < total[self.replication[where]]
            where, age = where[inside], age[inside]
            found.append(where)
            ends.append(age.copy())
            if not (source.all_known_ahead and source.renews == "at_failure"):
                break
        return np.concatenate(found), np.concatenate(ends)

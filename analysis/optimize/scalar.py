"""One numeric axis: the top of a curve, or the end up to which conditions hold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.metrics import contributions
from analysis.optimize.standing import standing_of
from analysis.statistics import t_quantile
from analysis.study.summary import drawn_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from analysis.optimize.domain import Line
    from analysis.optimize.evaluate import Bench, Trial
    from analysis.optimize.problem import Aim
    from analysis.statistics import Interval

    FloatArray = npt.NDArray[np.float64]

__all__ = ["COARSE", "Edge", "Top", "climb", "edge_of", "place", "walk_to_edge"]

COARSE = 7
"""Values of the first look: a top between two of them that is narrower than their distance is missed."""

_ROUNDS = 16


class Top(NamedTuple):
    """Where the curve through what was tried is highest.

    Parameters
    ----------
    number
        The place, in SI units.
    ci95
        Its interval, by the jackknife over replications; over draws, over these and replications. It ends where the
        line does.
    """

    number: float
    ci95: Interval


class Edge(NamedTuple):
    """Up to where conditions hold, the better side of the axis first.

    Parameters
    ----------
    surely_not
        The last value that surely fails, with all before it; ``None`` if there is none.
    answer
        The first value whose mean keeps all conditions, with all values behind it; ``None`` if there is none.
    surely
        The first value that surely holds, with all behind it.
    islands
        Values before the answer whose means keep all conditions too: then more is not always better.
    """

    surely_not: Trial | None
    answer: Trial | None
    surely: Trial | None
    islands: tuple[Trial, ...]


def climb(bench: Bench, line: Line, aim: Aim) -> Top | None:
    """Try values around the best until those beside it are not resolved as worse, or nothing lies between.

    A coarse look at the whole line, then the gaps on both sides of the best are halved, on common failures. At the end
    the top of a curve through the values around the best is tried too.

    Returns
    -------
    Top or None
        ``None`` for whole numbers and steps, and where the values around the best have no top between them.

    References
    ----------
    R. P. Brent, "Algorithms for Minimization without Derivatives" (1973), chapter 5 (bracketing); A. M. Law,
    "Simulation Modeling and Analysis", 5th ed. (2015), section 11.2 (common random numbers).
    """
    bench.play([(value,) for value in line.spread(COARSE)])
    for _ in range(_ROUNDS):
        tried = _along(bench, lambda trial: place(trial))
        standing = standing_of(bench)
        if not standing.order:
            return None
        best = standing.order[0]
        at = tried.index(best)
        sides = [tried[index] for index in (at - 1, at + 1) if 0 <= index < len(tried)]
        if all(side in standing.as_good for side in sides):
            break
        gaps = [sorted((side, best), key=place) for side in sides]
        middles = [line.between(low.chosen[0], high.chosen[0]) for low, high in gaps]
        if not any(middles):
            break
        bench.play([(middle,) for middle in middles if middle is not None])
    return None if line.size is not None else _climb_to_top(bench, line, aim)


def walk_to_edge(bench: Bench, line: Line, aim: Aim) -> Edge:
    """Return up to where the conditions hold: a coarse look at the whole line, then bisection.

    Whole numbers and steps on both sides of the answer are tried too. It takes for granted that what is enough stays
    enough further along the line, and says where it is not.
    """
    bench.play([(value,) for value in line.spread(COARSE)])
    for _ in range(64):
        tried = _along(bench, lambda trial: -aim.score(place(trial)))
        first = _first_of_run(tried, lambda trial: trial.is_usable)
        if first is None or first == 0:
            break
        low, high = sorted((tried[first - 1], tried[first]), key=place)
        middle = line.between(low.chosen[0], high.chosen[0])
        if middle is None:
            break
        bench.play([(middle,)])
    answer = edge_of(bench, aim).answer
    if answer is not None:
        bench.play([(value,) for value in line.beside(answer.chosen[0])])
    return edge_of(bench, aim)


def edge_of(bench: Bench, aim: Aim) -> Edge:
    """Return up to where the conditions hold among what was tried."""
    tried = _along(bench, lambda trial: -aim.score(place(trial)))
    first = _first_of_run(tried, lambda trial: trial.is_usable)
    sure = _first_of_run(tried, lambda trial: trial.verdict == "holds")
    # The same run from the other side: what surely fails, from the better end on.
    failing = _first_of_run(tried[::-1], lambda trial: trial.verdict == "fails")
    islands = tuple(trial for trial in tried[: len(tried) if first is None else first] if trial.is_usable)
    return Edge(
        None if failing is None else tried[len(tried) - 1 - failing],
        None if first is None else tried[first],
        None if sure is None else tried[sure],
        islands,
    )


def place(trial: Trial) -> float:
    """Return where the only chosen value of a trial lies."""
    number = trial.chosen[0].number
    assert number is not None
    return number


def _along(bench: Bench, key: Callable[[Trial], float]) -> list[Trial]:
    return sorted(bench.candidates, key=key)


def _first_of_run(tried: Sequence[Trial], is_good: Callable[[Trial], bool]) -> int | None:
    """Return where the run of good ones begins that reaches to the end."""
    count = 0
    for trial in reversed(tried):
        if not is_good(trial):
            break
        count += 1
    return len(tried) - count if count else None


def _climb_to_top(bench: Bench, line: Line, aim: Aim) -> Top | None:
    """Return the top of the curve through the best, what is as good, and one value more on each side; it is tried."""
    tried = [trial for trial in _along(bench, place) if trial.is_usable]
    standing = standing_of(bench)
    as_good = [index for index, trial in enumerate(tried) if trial in standing.as_good]
    around = tried[max(min(as_good) - 1, 0) : max(as_good) + 2]
    rows = [_table(bench, trial, aim) for trial in around]
    table = np.array([aim.score(1.0) * row for row in rows if row is not None])
    x = np.array([math.log(place(trial)) if line.is_log else place(trial) for trial in around])
    if len(table) < max(len(around), 4):
        return None
    found = _top(x, table)
    if found is None:
        return None
    middle, error = found
    half = t_quantile(0.95, min(table.shape[1:]) - 1) * error
    number, low, high = (math.exp(end) if line.is_log else end for end in (middle, middle - half, middle + half))
    bench.play([(line.value(number),)])
    first, last = line.ends
    return Top(number, (max(low, first), min(high, last)))


def _table(bench: Bench, trial: Trial, aim: Aim) -> FloatArray | None:
    """Return what each replication says of a trial, shape (n,), or (draws, n) over draws; ``None`` without a mean."""
    if not bench.problem.over_draws:
        return contributions(trial.cell.stated.metrics[aim.name])
    table = drawn_table(trial.cell, aim.name)
    return table if len(table) else None


def _top(x: FloatArray, table: FloatArray) -> tuple[float, float] | None:
    """Return where the curve through means is highest, and the standard error of that, by the jackknife.

    Replications are left out one at a time, and so are draws, if there are any: both are a part of the error.

    Parameters
    ----------
    x
        Places, shape (p,).
    table
        What each replication says at each of them, shape (p, n) or (p, draws, n).
    """
    whole = _highest(x, table.reshape(len(x), -1).mean(axis=1))
    if whole is None:
        return None
    variance = 0.0
    for axis, count in enumerate(table.shape[1:], start=1):
        parts = [np.delete(table, left_out, axis=axis) for left_out in range(count)] if count > 2 else []
        tops = np.array([_highest(x, part.reshape(len(x), -1).mean(axis=1)) for part in parts], dtype=np.float64)
        # Without a top in each of them (NaN) nobody knows how sure that of all is.
        if len(tops) < 3 or np.any(np.isnan(tops)):
            return None
        variance += (count - 1) / count * float(((tops - tops.mean()) ** 2).sum())
    return whole, math.sqrt(variance)


def _highest(x: FloatArray, y: FloatArray) -> float | None:
    """Return where a polynomial through points is highest between the first and the last; ``None`` at an end."""
    curve = np.polynomial.Polynomial.fit(x, y, 2 if len(x) < 6 else 3)
    slope = curve.deriv()
    tops = [
        float(root.real)
        for root in slope.roots()
        if abs(root.imag) < 1e-12 and x[0] < root.real < x[-1] and slope.deriv()(root.real) < 0
    ]
    return max(tops, key=lambda top: float(curve(top)), default=None)

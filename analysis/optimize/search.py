"""Several axes, or values without an order: everything where that is little, else a search by Optuna."""

from __future__ import annotations

import contextlib
import itertools
import math
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick import sim
from ettrick.analysis.contest.precision import ReplicationsError
from ettrick.analysis.optimize.evaluate import rank_trials
from ettrick.analysis.optimize.problem import NumericRange, place_of
from ettrick.analysis.results.studies import FormulaSummary, TopSummary
from ettrick.analysis.statistics.estimates import contributions, t_quantile
from ettrick.analysis.study.amounts import Point
from ettrick.analysis.study.table import drawn_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from ettrick.analysis.optimize.evaluate import Evaluator, Trial
    from ettrick.analysis.results.studies import Aim
    from ettrick.analysis.study.amounts import AxisPosition

    FloatArray = npt.NDArray[np.float64]

ALL = 50
"""Combinations up to which all of them are evaluated."""

BATCH = 8
"""Points that are suggested at once; fixed, so that the suggestions do not depend on where they are simulated."""

_SEED = 1


def simulate_all(bench: Evaluator) -> None:
    """Evaluate every combination."""
    bench.evaluate(list(itertools.product(*(domain.values for domain in bench.problem.domains.values()))))


def search(bench: Evaluator, trials: int) -> None:
    """Evaluate as many combinations as asked for, where earlier ones say that the best may be.

    Tree-structured Parzen estimators, asked for `BATCH` combinations at a time with a fixed seed: those of a batch
    count as bad for each other until they are evaluated. Of combinations that miss a condition those that miss it by
    less are preferred. Combinations that were evaluated before are suggested again at times, and cost nothing.

    Raises
    ------
    ReplicationsError
        If Optuna is not installed.

    References
    ----------
    J. Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 24 (2011); T. Akiba et al., "Optuna",
    KDD (2019); Y. Ozaki et al., J. Artificial Intelligence Research 73 (2022), 1209 (several aims).
    """
    try:
        import optuna
    except ImportError:
        message = "a search over several axes needs Optuna: pip install 'ettrick[opt]'; or give fewer values"
        raise ReplicationsError(message) from None
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        _search(optuna, bench, trials)
    finally:
        optuna.logging.set_verbosity(verbosity)


def _search(optuna: Any, bench: Evaluator, trials: int) -> None:
    misses: dict[int, list[float]] = {}
    directions = ["minimize" if aim.lowest else "maximize" for aim in bench.problem.aims]
    study = optuna.create_study(directions=directions, sampler=_sampler(optuna, bench, misses))
    done = 0
    while done < trials:
        suggestions = [study.ask() for _ in range(min(BATCH, trials - done))]
        outcomes = bench.evaluate([_chosen(trial, bench) for trial in suggestions])
        for trial, outcome in zip(suggestions, outcomes, strict=True):
            values = _values(outcome)
            if values is None:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                continue
            misses[trial.number] = _misses(bench, outcome)
            study.tell(trial, values)
        done += len(suggestions)


def _sampler(optuna: Any, bench: Evaluator, misses: dict[int, list[float]]) -> Any:
    """Return what suggests combinations; of constraints it asks `misses` by the number of a trial."""
    with warnings.catch_warnings():
        # That these options are experimental, or will have other names, is not the user's business.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.simplefilter("ignore", FutureWarning)
        return optuna.samplers.TPESampler(
            seed=_SEED,
            # The same for any number of trials: more of them go on where fewer ended.
            n_startup_trials=2 * BATCH,
            multivariate=True,
            constant_liar=True,
            constraints_func=(lambda trial: misses[trial.number]) if bench.problem.conditions else None,
        )


def _chosen(trial: Any, bench: Evaluator) -> tuple[AxisPosition, ...]:
    """Return the combination that a suggestion stands for."""
    chosen = []
    for name, domain in bench.problem.domains.items():
        if not isinstance(domain, NumericRange):
            chosen.append(domain.values[trial.suggest_categorical(name, range(len(domain.values)))])
        elif domain.steps:
            chosen.append(domain.steps[trial.suggest_int(name, 0, len(domain.steps) - 1)])
        elif domain.is_whole:
            first, last = (round(end) for end in domain.ends)
            chosen.append(domain.value(float(trial.suggest_int(name, first, last, log=domain.is_log))))
        else:
            low, high = domain.ends
            chosen.append(domain.value(trial.suggest_float(name, low, high, log=domain.is_log)))
    return tuple(chosen)


def _values(trial: Trial) -> list[float] | None:
    """Return what counts of a trial; ``None`` if any of it, or of the metrics of conditions, is not known."""
    values = [aim.mean for aim in trial.aims]
    bounded = [bound.mean for bound in trial.bounded]
    if trial.trouble or any(mean is None for mean in (*values, *bounded)):
        return None
    return [value for value in values if value is not None]


def _misses(bench: Evaluator, trial: Trial) -> list[float]:
    """Return by how much a trial misses each condition; not above zero where it is kept."""
    pairs = zip(bench.problem.conditions, trial.bounded, strict=True)
    return [condition.violation(bound.mean) for condition, bound in pairs if bound.mean is not None]


# One numeric axis: the top of a curve, or the end up to which conditions hold.

COARSE = 7
"""Values of the first look: a top between two of them that is narrower than their distance is missed."""

_ROUNDS = 16


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


def climb(bench: Evaluator, line: NumericRange, aim: Aim) -> TopSummary | None:
    """Evaluate values around the best until those beside it are not resolved as worse, or nothing lies between.

    A coarse look at the whole line, then the gaps on both sides of the best are halved, on common failures. At the end
    the top of a curve through the values around the best is evaluated too.

    Returns
    -------
    TopSummary or None
        ``None`` for whole numbers and steps, and where the values around the best have no top between them.

    References
    ----------
    R. P. Brent, "Algorithms for Minimization without Derivatives" (1973), chapter 5 (bracketing); A. M. Law,
    "Simulation Modeling and Analysis", 5th ed. (2015), section 11.2 (common random numbers).
    """
    bench.evaluate([(value,) for value in line.spread(COARSE)])
    for _ in range(_ROUNDS):
        trials = _along(bench, lambda trial: place(trial))
        ranking = rank_trials(bench)
        if not ranking.order:
            return None
        best = ranking.order[0]
        at = trials.index(best)
        sides = [trials[index] for index in (at - 1, at + 1) if 0 <= index < len(trials)]
        middles = _middles_beside(line, [trial.chosen[0] for trial in trials], at)
        if all(side in ranking.as_good for side in sides) or not middles:
            break
        bench.evaluate([(middle,) for middle in middles])
    return None if line.size is not None else _climb_to_top(bench, line, aim)


def _middles_beside(line: NumericRange, values: Sequence[AxisPosition], at: int) -> list[AxisPosition]:
    """Return the middles of the gaps on both sides of one of some values in order, where something lies between."""
    gaps = [sorted((at, index)) for index in (at - 1, at + 1) if 0 <= index < len(values)]
    return [middle for low, high in gaps if (middle := line.between(values[low], values[high])) is not None]


def walk_to_edge(bench: Evaluator, line: NumericRange, aim: Aim) -> Edge:
    """Return up to where the conditions hold: a coarse look at the whole line, then bisection.

    Whole numbers and steps on both sides of the answer are evaluated too. It takes for granted that what is enough
    stays enough further along the line, and says where it is not.
    """
    bench.evaluate([(value,) for value in line.spread(COARSE)])
    for _ in range(64):
        trials = _along(bench, lambda trial: -aim.score(place(trial)))
        first = _first_of_run(trials, lambda trial: trial.is_usable)
        if first is None or first == 0:
            break
        low, high = sorted((trials[first - 1], trials[first]), key=place)
        middle = line.between(low.chosen[0], high.chosen[0])
        if middle is None:
            break
        bench.evaluate([(middle,)])
    answer = edge_of(bench, aim).answer
    if answer is not None:
        bench.evaluate([(value,) for value in line.beside(answer.chosen[0])])
    return edge_of(bench, aim)


def edge_of(bench: Evaluator, aim: Aim) -> Edge:
    """Return up to where the conditions hold among the trials."""
    trials = _along(bench, lambda trial: -aim.score(place(trial)))
    first = _first_of_run(trials, lambda trial: trial.is_usable)
    sure = _first_of_run(trials, lambda trial: trial.verdict == "holds")
    # The same run from the other side: what surely fails, from the better end on.
    failing = _first_of_run(trials[::-1], lambda trial: trial.verdict == "fails")
    islands = tuple(trial for trial in trials[: len(trials) if first is None else first] if trial.is_usable)
    return Edge(
        None if failing is None else trials[len(trials) - 1 - failing],
        None if first is None else trials[first],
        None if sure is None else trials[sure],
        islands,
    )


def place(trial: Trial) -> float:
    """Return where the only chosen value of a trial lies."""
    return place_of(trial.chosen[0])


def _along(bench: Evaluator, key: Callable[[Trial], float]) -> list[Trial]:
    return sorted(bench.candidates, key=key)


def _first_of_run(trials: Sequence[Trial], is_good: Callable[[Trial], bool]) -> int | None:
    """Return where the run of good ones begins that reaches to the end."""
    count = 0
    for trial in reversed(trials):
        if not is_good(trial):
            break
        count += 1
    return len(trials) - count if count else None


def _climb_to_top(bench: Evaluator, line: NumericRange, aim: Aim) -> TopSummary | None:
    """Evaluate the top of the curve through the best, what is as good, and one value more on each side; return it."""
    trials = [trial for trial in _along(bench, place) if trial.is_usable]
    ranking = rank_trials(bench)
    as_good = [index for index, trial in enumerate(trials) if trial in ranking.as_good]
    around = trials[max(min(as_good) - 1, 0) : max(as_good) + 2]
    rows = [_table(bench, trial, aim) for trial in around]
    table = np.array([aim.score(1.0) * row for row in rows if row is not None])
    x = np.array([math.log(place(trial)) if line.is_log else place(trial) for trial in around])
    if len(table) < max(len(around), 4):
        return None
    top = _top(x, table)
    if top is None:
        return None
    middle, error = top
    half = t_quantile(0.95, min(table.shape[1:]) - 1) * error
    number, low, high = (math.exp(end) if line.is_log else end for end in (middle, middle - half, middle + half))
    bench.evaluate([(line.value(number),)])
    first, last = line.ends
    ends = max(low, first), min(high, last)
    return TopSummary(number=number, ci95=ends, label=line.label(number), labels95=[line.label(end) for end in ends])


def _table(bench: Evaluator, trial: Trial, aim: Aim) -> FloatArray | None:
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
        # Without a top in each of them (NaN) the error of that of all is unknown.
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


# The closed form's answer to the same question.

_OF_ETTR = ("ettr", "goodput", "effective_mfu")


def formula_answer(bench: Evaluator, answer: Trial | None) -> FormulaSummary | None:
    """Return what the closed form calls the best, at the central values of what is unknown, conditions aside.

    Returns
    -------
    FormulaSummary or None
        ``None`` where what counts is not ETTR or a constant times it, and where there is no closed form.
    """
    problem = bench.problem
    aim = problem.aims[0]
    if len(problem.aims) > 1 or aim.lowest or aim.name not in _OF_ETTR:
        return None

    def form(chosen: tuple[AxisPosition, ...]) -> sim.ClosedForm:
        point = Point(0, 0, 0, problem.values(chosen, 0))
        return sim.closed_form(sim.prepare(problem.loaded.template.scenario(problem.loaded.overrides(point))))

    line = problem.line
    best: tuple[AxisPosition, ...] | None = None
    if line is not None:
        value = _highest_of_formula(line, lambda value: form((value,)).ettr)
        best = None if value is None else (value,)
    else:
        trials = [trial for trial in bench.candidates if trial.cell.stated.formula is not None]
        best = max(trials, key=lambda trial: trial.cell.stated.formula or 0.0).chosen if trials else None
    if best is None:
        return None
    best_form = form(best)
    if best_form.ettr is None:
        return None
    of_answer = None if answer is None else form(answer.chosen).ettr
    return FormulaSummary(
        values=bench.labels(best),
        ettr=best_form.ettr,
        ettr_of_answer=of_answer,
        of_trials=line is None,
        assumptions=list(best_form.assumptions),
    )


def _highest_of_formula(line: NumericRange, ettr: Callable[[AxisPosition], float | None]) -> AxisPosition | None:
    """Return the value of a line at which a formula is highest, as the search of simulations would without noise."""
    heights: dict[str, tuple[float, AxisPosition]] = {}
    values = line.spread(COARSE)
    while True:
        before = len(heights)
        for value in values:
            with contextlib.suppress(sim.ScenarioError, sim.PathError):
                if (height := ettr(value)) is not None:
                    heights[repr(value.settings)] = height, value
        if len(heights) == before:
            return max(heights.values(), key=lambda pair: pair[0])[1] if heights else None
        along = sorted((value for _, value in heights.values()), key=lambda value: value.number or 0.0)
        best = max(heights.values(), key=lambda pair: pair[0])[1]
        values = _middles_beside(line, along, along.index(best))

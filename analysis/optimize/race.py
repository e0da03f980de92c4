"""The candidates of a problem as `ettrick.analysis.optimize.core` searches them: simulated, bounded, with neighbours.

Every listed candidate keeps the budgets; conditions and the aim are simulated. Candidates of one base have the same
failures, and their bounds rest on the same facts.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from ettrick.analysis.contest.precision import Ties
from ettrick.analysis.metrics import is_share
from ettrick.analysis.optimize.bounds import Candidates, upper, upper_ettr
from ettrick.analysis.optimize.core import FAILS, KEEPS, OPEN, UNTOLD, SearchRules, Space, lower_limit, search
from ettrick.analysis.optimize.derive import listed_of, neighbours
from ettrick.analysis.optimize.evaluate import TrialRanking, doubt_of_cell
from ettrick.analysis.results.studies import AimResult
from ettrick.analysis.statistics.estimates import contributions
from ettrick.analysis.statistics.intervals import unseen
from ettrick.analysis.sweep.task import BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from ettrick.analysis.optimize.core import SearchOutcome
    from ettrick.analysis.optimize.derive import Listing
    from ettrick.analysis.optimize.evaluate import Evaluator, Trial
    from ettrick.analysis.study.amounts import AxisPosition

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

_FIRST = 2 * BLOCK
"""Replications of the first look: whole tasks, so that no replication is simulated twice."""

_CONDITIONS = 0.2
"""Part of the error that is left to conditions, whose intervals are exact [-]."""


@dataclass(frozen=True)
class Raced:
    """A search over listed candidates, and where it ended.

    Parameters
    ----------
    bound
        Largest score that each candidate may have, shape (n,): the higher the better; infinite where nothing is known.
    kinds
        The kind of each bound, by its name: ``renewal``, ``ideal``, or nothing.
    stakes
        The last trial of each candidate that was simulated, and their scores.
    ranking
        The trials that keep the conditions, those in the race to the end first.
    """

    listing: Listing
    bound: FloatArray
    kinds: Sequence[str]
    outcome: SearchOutcome
    stakes: Stakes
    ranking: TrialRanking

    @property
    def trials(self) -> dict[int, Trial]:
        """The last trial of each candidate that was simulated."""
        return self.stakes.trials

    @functools.cached_property
    def index_of(self) -> dict[int, int]:
        """The candidate of each trial, by the number of the trial."""
        return {trial.number: index for index, trial in self.trials.items()}

    def difference(self, index: int) -> AimResult | None:
        """Return how much better than the answer a simulated candidate is, on the same failures."""
        trial, answer, bench = self.trials.get(index), self.trials.get(self.outcome.best), self.stakes.bench
        if trial is None or answer is None:
            return None
        gain = bench.gain(trial, answer, bench.problem.aims[0])
        return None if gain is None else AimResult(mean=gain.mean, ci95=gain.ci95)

    def best_of(self, candidates: Iterable[int]) -> int | None:
        """Return the best of some candidates that were simulated and keep the conditions; ``None`` if none does.

        Differences are paired: candidates that were left behind have few replications, and means of their own.
        """

        def gain(index: int) -> float:
            difference = self.difference(index)
            return -math.inf if difference is None or difference.mean is None else difference.mean

        usable = (index for index in candidates if index in self.trials and self.trials[index].is_usable)
        return max(usable, key=gain, default=None)

    def regret(self, fresh: Trial | None) -> tuple[float, Literal["bound", "race", "condition"]]:
        """Return how far the answer may be below the best of all, and what says so.

        It is what was not simulated, a design that may be better, or one that is better if it keeps the conditions.

        Parameters
        ----------
        fresh
            The answer on failures that did not choose it: its lower limit needs no allowance for the choice. ``None``
            for those that chose it.
        """
        outcome, limits = self.outcome, self.outcome.limits
        if outcome.best < 0:
            return math.inf, "bound"
        lower = outcome.lower
        if fresh is not None:
            lower = lower_limit(self.stakes.scores(fresh), self.stakes.alpha / 4, self.stakes.hidden)
        rivals = limits.by_rival(lower)
        nearest = max(rivals, key=rivals.__getitem__, default=-1)
        regret = max(limits.regret(lower), 0.0)
        if limits.left - lower > max(limits.of_race(lower), 0.0):
            return regret, "bound"
        return regret, "race" if nearest < 0 or self.trials[nearest].is_usable else "condition"


class Stakes(NamedTuple):
    """The search's own view of a problem: scores of trials, and what does not matter."""

    bench: Evaluator
    candidates: Sequence[Sequence[AxisPosition]]
    trials: dict[int, Trial]

    def simulate(self, chosen: Sequence[int], replications: int) -> tuple[FloatArray, IntArray]:
        """Return scores (k, replications) and what is known of conditions (k,) of some candidates."""
        trials = self.bench.evaluate([self.candidates[index] for index in chosen], replications)
        self.trials.update(zip(chosen, trials, strict=True))
        scores = np.array([self.scores(trial, replications) for trial in trials])
        return scores, np.array([self._status(trial, row) for trial, row in zip(trials, scores, strict=True)])

    def scores(self, trial: Trial, replications: int | None = None) -> FloatArray:
        """Return the first aim by replication, the higher the better; NaN where it is not known."""
        aim, replications = self.bench.problem.aims[0], replications or trial.cell.stated.replications
        row = None if trial.trouble else contributions(trial.cell.stated.metrics.get(aim.name, ())[:replications])
        if row is None:
            return np.full(replications, np.nan)
        # What has no chance in it has one replication.
        return np.broadcast_to(aim.score(1.0) * row, replications) if len(row) == 1 else aim.score(1.0) * row

    def _status(self, trial: Trial, scores: FloatArray) -> int:
        if np.isnan(scores[0]) or trial.verdict == "fails":
            return FAILS
        return KEEPS if trial.is_usable else UNTOLD if self._is_untold(trial) else OPEN

    def _is_untold(self, trial: Trial) -> bool:
        """Return whether a mean misses a condition by less than what all replications share."""
        doubts = (
            (doubt_of_cell(trial.cell, condition.metric, over_draws=self.bench.problem.over_draws), condition, bound)
            for condition, bound in zip(self.bench.problem.conditions, trial.bounded, strict=True)
            if not condition.is_met(bound.mean)
        )
        return any(
            doubt is not None and bound.mean is not None and condition.violation(bound.mean) <= doubt
            for doubt, condition, bound in doubts
        )

    @property
    def alpha(self) -> float:
        """The probability that the regret is exceeded [-]."""
        return (1 - _CONDITIONS) * (1 - self.bench.problem.spec.confidence)

    def hidden(self, replications: int) -> float:
        """Return the score that an event may be worth which none of so many replications met."""
        name = self.bench.problem.aims[0].name
        means = [trial.aims[0].mean for trial in self.trials.values() if trial.aims[0].mean is not None]
        if any(name in trial.cell.stated.exact for trial in self.trials.values()) or not means:
            return 0.0
        return unseen(replications) * (1.0 if is_share(name) else float(np.median(np.abs(means))))


def race(bench: Evaluator, most: int, is_over: Callable[[], bool]) -> Raced:
    """Return the best of all candidates that a problem lists, on common replications.

    Parameters
    ----------
    most
        Candidates that are simulated where no bound is known; with bounds all are that may be the best.
    is_over
        Whether time is over: then it ends with what it knows.

    Raises
    ------
    ScenarioError
        With one line for each mistake of the study.
    """
    listing = listed_of(bench.problem)
    aim, spec = bench.problem.aims[0], bench.problem.spec
    candidates = Candidates(listing.bases, listing.base_of, listing.step_time, listing.tokens, listing.interval)
    ettr, kinds = upper_ettr(candidates) if listing.candidates else (np.empty(0), [])
    bound = upper(aim.name, candidates, ettr) if listing.candidates else ettr
    stakes = Stakes(bench, listing.candidates, {})
    ties = Ties.parse(spec.precision) if spec.precision else bench.problem.ties
    rules = SearchRules(
        tie=lambda score: ties.size(aim.name, score),
        alpha=stakes.alpha,
        first=_FIRST,
        step=BLOCK,
        most=math.inf if np.isfinite(bound).all() else most,
    )

    def neighbours_of(index: int) -> list[int]:
        return [candidate for candidate, _ in neighbours(listing, index)]

    space = Space(bound, stakes.simulate, neighbours_of, listing.base_of, stakes.hidden)
    outcome = search(space, rules, is_over)
    return Raced(listing, bound, kinds, outcome, stakes, _ranking(outcome, stakes.trials))


def _ranking(outcome: SearchOutcome, trials: dict[int, Trial]) -> TrialRanking:
    """Return the trials that keep the conditions, by mean; those that were in the race to the end come first."""
    if outcome.best < 0:
        return TrialRanking((), (), None, None)
    last = [outcome.best, *outcome.ties, *outcome.unresolved]
    rest = sorted(set(outcome.simulated) - set(last), key=lambda index: -outcome.means[index])
    usable = [trials[index] for index in (*last, *rest) if trials[index].is_usable]
    as_good = [trials[index] for index in last if trials[index].is_usable]
    equal = [trials[index] for index in outcome.ties if trials[index].is_usable]
    return TrialRanking(tuple(usable), tuple(as_good), None, None, tuple(equal))

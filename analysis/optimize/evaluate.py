"""Trials: simulated on common failures, and judged by what counts and what must hold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

from ettrick.analysis.optimize.problem import check_metrics
from ettrick.analysis.statistics.differences import difference, ranking_of, ranking_over_draws
from ettrick.analysis.statistics.intervals import MeanEstimate, doubt_of
from ettrick.analysis.study.amounts import Point
from ettrick.analysis.study.table import Cell, drawn_table, is_probability, predictive_difference, predictive_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ettrick.analysis.optimize.problem import Problem
    from ettrick.analysis.parts import DifferenceSummary
    from ettrick.analysis.results.studies import Aim
    from ettrick.analysis.statistics.differences import Ranking
    from ettrick.analysis.study.amounts import AxisPosition
    from ettrick.analysis.study.model import Verdict
    from ettrick.analysis.sweep.campaign import Campaign


def estimate(cell: Cell, metric: str, *, over_draws: bool) -> MeanEstimate:
    """Return a metric of a cell with its 95 % interval; what is exact has one without width.

    At the central values it is that of `ettrick.analysis.statistics.intervals.mean_estimate`, over draws that of
    `ettrick.analysis.study.table.predictive_mean`.
    """
    outcomes = cell.drawn if over_draws else (cell.stated,)
    if any(not outcome.metrics.get(metric) for outcome in outcomes):
        return MeanEstimate()
    if over_draws:
        return predictive_mean(cell, metric) or MeanEstimate()
    measured = cell.stated.estimate(metric)
    if measured.mean is not None and measured.interval is None and measured.method == "exact":
        return MeanEstimate(measured.mean, (measured.mean, measured.mean))
    return measured


def doubt_of_cell(cell: Cell, metric: str, *, over_draws: bool) -> float | None:
    """Return the half-width of what more replications do not shrink of a metric's interval; ``None`` for nothing."""
    outcomes = cell.drawn if over_draws else (cell.stated,)
    return doubt_of([ratio for outcome in outcomes for ratio in outcome.metrics.get(metric, ())]) or None


class Trial(NamedTuple):
    """A combination that was evaluated.

    Parameters
    ----------
    number
        Its position among all trials, from 0.
    chosen
        One value for each axis that is chosen; empty for the scenario as it is.
    aims
        What counts, in the order of the problem.
    """

    number: int
    chosen: tuple[AxisPosition, ...]
    cell: Cell
    aims: tuple[MeanEstimate, ...]
    bounded: tuple[MeanEstimate, ...]
    verdicts: tuple[Verdict, ...]
    is_met: bool

    @property
    def trouble(self) -> str:
        """The reason why there is no value, in a line; empty where all is well."""
        return next((outcome.trouble for outcome in (self.cell.stated, *self.cell.drawn) if outcome.trouble), "")

    @property
    def status(self) -> Literal["cannot run", "evaluated", "misses a condition"]:
        """The end of its evaluation."""
        return "cannot run" if self.trouble else "evaluated" if self.is_usable else "misses a condition"

    @property
    def is_usable(self) -> bool:
        """Whether it may be the answer: everything that counts is known, and the means keep all conditions."""
        return self.is_met and all(aim.mean is not None for aim in self.aims)

    @property
    def verdict(self) -> Verdict:
        """The verdict of all conditions together."""
        if self.trouble:
            return "fails"
        return "fails" if "fails" in self.verdicts else "open" if "open" in self.verdicts else "holds"


class Evaluator:
    """The evaluation of combinations, each once."""

    def __init__(self, problem: Problem, campaign: Campaign, replications: int) -> None:
        self.problem = problem
        self.campaign = campaign
        self.replications = replications
        self.trials: list[Trial] = []
        self._checked = False
        self._number = 0

    def evaluate(self, choices: Sequence[Sequence[AxisPosition]], replications: int | None = None) -> list[Trial]:
        """Return a trial for each combination, in order; those without one are simulated together.

        Parameters
        ----------
        replications
            Of each: a trial with fewer is simulated further, and takes the place of the former. Omitted: those of all.
        """
        count = replications or self.replications
        evaluated = {
            _key(trial.chosen): trial for trial in self.trials if trial.trouble or _replications(trial) >= count
        }
        new: dict[object, tuple[Sequence[AxisPosition], list[Point]]] = {}
        for chosen in choices:
            key = _key(chosen)
            if key not in evaluated and key not in new:
                new[key] = chosen, self._points(chosen)
        self._simulate([point for _, trial_points in new.values() for point in trial_points], count)
        numbers = {_key(trial.chosen): trial.number for trial in self.trials}
        for key, (chosen, trial_points) in new.items():
            trial = self._trial(chosen, trial_points, numbers.setdefault(key, len(numbers)), count)
            evaluated[key] = trial
            self.trials[trial.number : trial.number + 1] = [trial]
        return [evaluated[_key(chosen)] for chosen in choices]

    def _simulate(self, points: list[Point], count: int) -> None:
        """Simulate points; a metric that is misspelt is refused after one of them, not after the first batch."""
        if points and not self._checked:
            self.campaign.simulate(points[:1], count)
            self._check(points.pop(0), count)
        if points:
            self.campaign.simulate(points, count)

    def labels(self, chosen: Sequence[AxisPosition]) -> dict[str, str]:
        """Return the values of a combination by axis; empty for the scenario as it is."""
        return {name: value.label for name, value in zip(self.problem.domains, chosen, strict=True)} if chosen else {}

    def trial_of(self, chosen: Sequence[AxisPosition]) -> Trial | None:
        """Return the trial of a combination; ``None`` where it was not evaluated."""
        return next((trial for trial in self.trials if _key(trial.chosen) == _key(chosen)), None)

    @property
    def candidates(self) -> list[Trial]:
        """All trials but the scenario as it is."""
        return [trial for trial in self.trials if trial.chosen]

    def gain(self, trial: Trial, rival: Trial, aim: Aim, confidence: float = 0.95) -> DifferenceSummary | None:
        """Return by how much a trial is better than another in one aim, on the same failures; negative for worse."""
        if trial.trouble or rival.trouble or aim.is_axis:
            return None
        first, second = (rival.cell, trial.cell) if aim.lowest else (trial.cell, rival.cell)
        if self.problem.over_draws:
            return predictive_difference(first, second, aim.name, confidence)
        ours, theirs = first.stated.metrics.get(aim.name, ()), second.stated.metrics.get(aim.name, ())
        count = min(len(ours), len(theirs))  # one that was left behind in a race has fewer replications
        ours, theirs = ours[:count], theirs[:count]
        exact = aim.name in first.stated.exact & second.stated.exact
        return difference(ours, theirs, metric=aim.name, confidence=confidence, is_exact=exact)

    def is_worse(self, trial: Trial, rival: Trial, aim: Aim, confidence: float = 0.95) -> bool:
        """Return whether a trial is resolved as worse than another in one aim, at some confidence."""
        if aim.is_axis:
            ours, theirs = (side.aims[self.problem.aims.index(aim)].mean for side in (trial, rival))
            return ours is not None and theirs is not None and aim.score(ours) < aim.score(theirs)
        gain = self.gain(trial, rival, aim, confidence)
        return gain is not None and gain.resolved and gain.mean < 0

    def _points(self, chosen: Sequence[AxisPosition]) -> list[Point]:
        """Return the points of a combination, numbered after all others: central values, then each draw."""
        first, cell = self._number, self._number
        draws = range(len(self.problem.draws))
        self._number += len(draws)
        return [Point(first + draw, cell, draw, self.problem.values(chosen, draw)) for draw in draws]

    def _check(self, point: Point, count: int) -> None:
        """Refuse metrics that the scenario does not have, as soon as there is a point that can run."""
        if self._checked:
            return
        seen = self.campaign.outcome(point, count)
        if not seen.trouble:
            check_metrics(self.problem, list(seen.metrics))
            self._checked = True

    def _trial(self, chosen: Sequence[AxisPosition], points: Sequence[Point], number: int, count: int) -> Trial:
        """Return the result of so many replications of the points of a combination."""
        problem = self.problem
        self._check(points[0], count)
        stated, *drawn = (self.campaign.outcome(point, count, problem.metrics) for point in points)
        cell = Cell(stated, tuple(drawn))
        aims = tuple(self._aim(aim, chosen, cell) for aim in problem.aims)
        bounded = tuple(self._estimate(cell, condition.metric) for condition in problem.conditions)
        pairs = list(zip(problem.conditions, bounded, strict=True))
        runs = not any(outcome.trouble for outcome in (stated, *drawn))
        return Trial(
            number,
            tuple(chosen),
            cell,
            aims,
            bounded,
            tuple(condition.verdict(bound.mean, bound.interval) for condition, bound in pairs),
            runs and all(condition.is_met(bound.mean) for condition, bound in pairs),
        )

    def _aim(self, aim: Aim, chosen: Sequence[AxisPosition], cell: Cell) -> MeanEstimate:
        """Return what counts: a metric, or where the chosen value of an axis lies."""
        if not aim.is_axis:
            return self._estimate(cell, aim.name)
        if not chosen:
            return MeanEstimate()
        number = chosen[list(self.problem.domains).index(aim.name)].number
        return MeanEstimate(number, None if number is None else (number, number))

    def _estimate(self, cell: Cell, metric: str) -> MeanEstimate:
        return estimate(cell, metric, over_draws=self.problem.over_draws)


def _replications(trial: Trial) -> int:
    """Return how many replications a trial has [-]."""
    return trial.cell.stated.replications


def _key(chosen: Sequence[AxisPosition]) -> object:
    """Return what makes two combinations the same: what they write into the scenario."""
    return tuple(repr(value.settings) for value in chosen)


# Which of the trials is the best, and which others may be.


class TrialRanking(NamedTuple):
    """The trials that keep the conditions, best first.

    Parameters
    ----------
    as_good
        Those that are not resolved as worse than another, the best among them.
    loss
        The most that any of `as_good` may be worse than the best, in the units of what counts; ``None`` where it is
        unknown. Holds for all of them together with a probability of 95 %.
    replications_to_resolve
        How many replications would leave one alone; ``None`` for too many, or where nothing is left to resolve.
    equal
        Those that differ from the best by less than what matters, by the interval of the difference.
    """

    order: tuple[Trial, ...]
    as_good: tuple[Trial, ...]
    loss: float | None
    replications_to_resolve: int | None
    equal: tuple[Trial, ...] = ()


class Member(NamedTuple):
    """A combination that no other one beats in everything that counts.

    Parameters
    ----------
    is_certain
        Whether it holds the conditions, and of every other one that may hold them it is resolved that it is worse in
        something; 95 % for all pairs together.
    """

    trial: Trial
    is_certain: bool


def rank_trials(bench: Evaluator) -> TrialRanking:
    """Return the order of the trials by the first aim, on common replications."""
    aim = bench.problem.aims[0]
    usable = [trial for trial in bench.candidates if trial.is_usable]
    if not usable:
        return TrialRanking((), (), None, None)
    if aim.is_axis:
        # Of equals the one that keeps the conditions best.
        order = sorted(usable, key=lambda trial: (-_score(bench, trial), _worst_violation(bench, trial)))
        as_good = tuple(trial for trial in order if _score(bench, trial) == _score(bench, order[0]))
        return TrialRanking(tuple(order), as_good, 0.0, None)
    ranking = _ranking(bench, usable) if len(usable) > 1 else None
    if ranking is None:
        order = sorted(usable, key=lambda trial: -_score(bench, trial))
        return TrialRanking(tuple(order), (order[0],), None, None)
    behind = dict(zip(ranking.order, ranking.behind, strict=True))
    ties, best = bench.problem.ties, usable[ranking.order[0]].aims[0].mean
    loss = max((behind[index][1][1] for index in ranking.may_be_best if index in behind), default=0.0)
    return TrialRanking(
        tuple(usable[index] for index in ranking.order),
        tuple(usable[index] for index in ranking.may_be_best),
        max(loss, 0.0),
        ranking.replications_to_resolve,
        tuple(usable[index] for index in ranking.order[1:] if ties.are_equal(aim.name, best, behind[index][1])),
    )


def close(bench: Evaluator) -> None:
    """Evaluate the neighbours of the answer, or of all members of the front, until none of them takes its place."""
    while True:
        several = len(bench.problem.aims) > 1
        answers = [member.trial for member in front_of(bench)] if several else rank_trials(bench).order[:1]
        beside = [chosen for trial in answers for chosen, _ in bench.problem.neighbours(trial.chosen)]
        missing = [chosen for chosen in beside if bench.trial_of(chosen) is None]
        if not missing:
            return
        bench.evaluate(missing)


def front_of(bench: Evaluator) -> list[Member]:
    """Return the combinations that no other one is at least as good as in all aims, and better in one.

    Best first by the first aim.

    References
    ----------
    K. Deb, "Multi-Objective Optimization Using Evolutionary Algorithms" (2001), section 2.4.
    """
    usable = [trial for trial in bench.candidates if trial.is_usable]
    members = [trial for trial in usable if not any(_dominates(bench, rival, trial) for rival in usable)]
    members.sort(key=lambda trial: -_score(bench, trial))
    rivals = [trial for trial in bench.candidates if trial.verdict != "fails"]
    return [Member(trial, _is_certain(bench, trial, rivals)) for trial in members]


def _ranking(bench: Evaluator, usable: Sequence[Trial]) -> Ranking | None:
    """Return the ranking of combinations by the first aim, which is a metric."""
    aim = bench.problem.aims[0]
    if not bench.problem.over_draws:
        rows = [trial.cell.stated.metrics[aim.name] for trial in usable]
        return ranking_of(rows, lowest=aim.lowest, metric=aim.name)
    tables = [drawn_table(trial.cell, aim.name) for trial in usable]
    is_chance = all(is_probability(trial.cell, aim.name) for trial in usable)
    return ranking_over_draws(tables, lowest=aim.lowest, is_chance=is_chance)


def _score(bench: Evaluator, trial: Trial, position: int = 0) -> float:
    """Return how good a trial is in an aim: the higher the better, and what is not known is the worst."""
    mean = trial.aims[position].mean
    return -math.inf if mean is None else bench.problem.aims[position].score(mean)


def _worst_violation(bench: Evaluator, trial: Trial) -> float:
    pairs = zip(bench.problem.conditions, trial.bounded, strict=True)
    return max((condition.violation(bound.mean) for condition, bound in pairs if bound.mean is not None), default=0.0)


def _dominates(bench: Evaluator, trial: Trial, rival: Trial) -> bool:
    aims = range(len(bench.problem.aims))
    scores = [(_score(bench, trial, at), _score(bench, rival, at)) for at in aims]
    return all(ours >= theirs for ours, theirs in scores) and any(ours > theirs for ours, theirs in scores)


def _is_certain(bench: Evaluator, trial: Trial, rivals: Sequence[Trial]) -> bool:
    """Return whether no combination may be better in everything, as far as pairs of replications show.

    All paired differences of metrics hold together with a probability of 95 % (Bonferroni), as in the question
    ``pareto``.
    """
    if trial.verdict != "holds" and bench.problem.conditions:
        return False
    aims = bench.problem.aims
    measured = sum(not aim.is_axis for aim in aims)
    confidence = 1 - 0.05 / max(len(rivals) * (len(rivals) - 1) // 2 * measured, 1)
    return all(rival is trial or any(bench.is_worse(rival, trial, aim, confidence) for aim in aims) for rival in rivals)

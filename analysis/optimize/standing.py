"""Which of the combinations that were tried is the best, and which others may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from analysis.ranking import ranking_of, ranking_over_draws
from analysis.study.summary import drawn_table, is_probability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.optimize.evaluate import Bench, Trial
    from analysis.ranking import Ranking

__all__ = ["Member", "Standing", "front_of", "standing_of"]


class Standing(NamedTuple):
    """What was tried and keeps the conditions, best first.

    Parameters
    ----------
    order
        The combinations.
    as_good
        Those that are not resolved as worse than another, the best among them.
    loss
        The most that any of `as_good` may be worse than the best, in the units of what counts; ``None`` where nothing
        tells it. Holds for all of them together with a probability of 95 %.
    replications_to_resolve
        How many replications would leave one alone; ``None`` for too many, or where nothing is left to resolve.
    """

    order: tuple[Trial, ...]
    as_good: tuple[Trial, ...]
    loss: float | None
    replications_to_resolve: int | None


class Member(NamedTuple):
    """A combination that no other one beats in everything that counts.

    Parameters
    ----------
    trial
        The combination.
    is_certain
        Whether it holds the conditions, and of every other one that may hold them it is resolved that it is worse in
        something; 95 % for all pairs together.
    """

    trial: Trial
    is_certain: bool


def standing_of(bench: Bench) -> Standing:
    """Return the order of what was tried by the first aim, on common replications."""
    aim = bench.problem.aims[0]
    usable = [trial for trial in bench.candidates if trial.is_usable]
    if not usable:
        return Standing((), (), None, None)
    if aim.is_axis:
        # Of equals the one that keeps the conditions best.
        order = sorted(usable, key=lambda trial: (-_score(bench, trial), _worst_violation(bench, trial)))
        as_good = tuple(trial for trial in order if _score(bench, trial) == _score(bench, order[0]))
        return Standing(tuple(order), as_good, 0.0, None)
    found = _ranking(bench, usable) if len(usable) > 1 else None
    if found is None:
        order = sorted(usable, key=lambda trial: -_score(bench, trial))
        return Standing(tuple(order), (order[0],), None, None)
    behind = dict(zip(found.order, found.behind, strict=True))
    loss = max((behind[index][1][1] for index in found.may_be_best if index in behind), default=0.0)
    return Standing(
        tuple(usable[index] for index in found.order),
        tuple(usable[index] for index in found.may_be_best),
        max(loss, 0.0),
        found.replications_to_resolve,
    )


def front_of(bench: Bench) -> list[Member]:
    """Return the combinations that no other one is at least as good as in all aims, and better in one.

    Best first by the first aim.

    References
    ----------
    K. Deb, "Multi-Objective Optimization Using Evolutionary Algorithms" (2001), section 2.4.
    """
    usable = [trial for trial in bench.candidates if trial.is_usable]
    members = [trial for trial in usable if not any(_dominates(bench, other, trial) for other in usable)]
    members.sort(key=lambda trial: -_score(bench, trial))
    rivals = [trial for trial in bench.candidates if trial.verdict != "fails"]
    return [Member(trial, _is_certain(bench, trial, rivals)) for trial in members]


def _ranking(bench: Bench, usable: Sequence[Trial]) -> Ranking | None:
    """Return the ranking of combinations by the first aim, which is a metric."""
    aim = bench.problem.aims[0]
    if not bench.problem.over_draws:
        rows = [trial.cell.stated.metrics[aim.name] for trial in usable]
        return ranking_of(rows, lowest=aim.lowest, metric=aim.name)
    tables = [drawn_table(trial.cell, aim.name) for trial in usable]
    is_chance = all(is_probability(trial.cell, aim.name) for trial in usable)
    return ranking_over_draws(tables, lowest=aim.lowest, is_chance=is_chance)


def _score(bench: Bench, trial: Trial, position: int = 0) -> float:
    mean = trial.aims[position].mean
    assert mean is not None
    return bench.problem.aims[position].score(mean)


def _worst_violation(bench: Bench, trial: Trial) -> float:
    pairs = zip(bench.problem.conditions, trial.bounded, strict=True)
    return max((condition.violation(found.mean) for condition, found in pairs if found.mean is not None), default=0.0)


def _dominates(bench: Bench, one: Trial, other: Trial) -> bool:
    aims = range(len(bench.problem.aims))
    scores = [(_score(bench, one, at), _score(bench, other, at)) for at in aims]
    return all(mine >= theirs for mine, theirs in scores) and any(mine > theirs for mine, theirs in scores)


def _is_certain(bench: Bench, trial: Trial, others: Sequence[Trial]) -> bool:
    """Return whether no combination may be better in everything, as far as pairs of replications tell.

    All paired differences of metrics hold together with a probability of 95 % (Bonferroni), as in the question
    ``pareto``.
    """
    if trial.verdict != "holds" and bench.problem.conditions:
        return False
    aims = bench.problem.aims
    measured = sum(not aim.is_axis for aim in aims)
    confidence = 1 - 0.05 / max(len(others) * (len(others) - 1) // 2 * measured, 1)
    return all(other is trial or any(bench.is_worse(other, trial, aim, confidence) for aim in aims) for other in others)

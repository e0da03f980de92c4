"""The search for the best of many candidates: best first by bounds, a race on common random numbers, then neighbours.

Candidates are numbers, from 0; a score is the better the higher it is. Each has a bound that its mean score does not
exceed. The largest bounds are simulated first, and nothing is simulated whose bound is no more than a tie above the
lower limit of the best. Simulated candidates race: looks come at more and more replications, common to all, and
whatever is resolved as worse than the best is out. No answer is given before all of its neighbours were simulated. So
of the answer it is known, with a confidence, how far it may be from the best of all candidates: by the largest bound of
those that were never simulated, or by the upper limits of those that are still in the race.

Which candidate is truly the best is not known. Whoever it is, all looks at its differences from the k - 1 others hold
together at the level ``alpha``: each limit is Student's, one-sided, at ``alpha / (looks (k - 1))`` (Bonferroni, so that
any correlation between candidates is allowed, and a look may come at any time).

References
----------
D. G. Edwards, J. C. Hsu, Journal of the American Statistical Association 78 (1983), 965 (the unknown best); S.-H. Kim,
B. L. Nelson, ACM Transactions on Modeling and Computer Simulation 11 (2001), 251 (elimination in stages, against which
the tests hold the number of replications); E. L. Lawler, D. E. Wood, Operations Research 14 (1966), 699 (best first).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.analysis.statistics.estimates import t_upper

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

FAILS, OPEN, KEEPS, UNTOLD = -1, 0, 1, 2
"""States of the conditions of a candidate: one surely fails or it cannot run, its mean misses one, all hold; or
its mean misses one, and no number of replications will tell."""

AUDITED = 59
"""Pruned candidates that are simulated all the same: without one above its bound, at most 5 % of the others are."""

_SURE = 0.001
"""Probability with which an audited candidate may seem to be above a bound that holds."""


_EXTRA = 3
"""Looks more than those of the race: one at candidates that come late, others at those that rest, for a new best."""


class Space(NamedTuple):
    """The candidates of a search.

    Parameters
    ----------
    bound
        Largest mean score that each may have, shape (n,); infinite where nothing is known.
    simulate
        Returns the scores of some candidates in their first replications, shape (k, replications), and what is known of
        their conditions, shape (k,): `FAILS`, `OPEN`, `KEEPS` or `UNTOLD`. Replication i of all has the same failures.
    neighbours
        Returns the candidates next to one.
    family
        Candidates whose bounds rest on the same facts have the same number, shape (n,).
    hidden
        Returns the score that an event may be worth which none of so many replications met: where differences do not
        scatter, it takes the place of their interval.
    """

    bound: FloatArray
    simulate: Callable[[Sequence[int], int], tuple[FloatArray, IntArray]]
    neighbours: Callable[[int], Sequence[int]] = lambda _candidate: ()
    family: IntArray | None = None
    hidden: Callable[[int], float] = lambda _replications: 0.0


class SearchRules(NamedTuple):
    """The certainty that an answer needs, and the effort that may be spent on it.

    Parameters
    ----------
    tie
        Returns the difference from a score that does not matter.
    alpha
        Probability that the regret is exceeded [-]: three quarters for the race, one for the limit of the best.
    first, growth, step, looks
        Replications of the first look, the factor from one to the next, of which number they are multiples, and how
        many looks there are at most.
    batch, most
        Candidates that are simulated at once, and in all, their neighbours apart.
    """

    tie: Callable[[float], float] = lambda _score: 0.0
    alpha: float = 0.04
    first: int = 16
    growth: float = 1.25
    step: int = 1
    looks: int = 11
    batch: int = 8
    most: float = math.inf


class SearchState(NamedTuple):
    """The state of a search after a step.

    Parameters
    ----------
    simulated, replications
        Candidates that have been simulated, and replications of those that are in the race.
    best, score, gap
        The best so far (-1 for none), its mean score, and how far it may be from the best of all.
    """

    simulated: int
    replications: int
    best: int
    score: float
    gap: float


class Audit(NamedTuple):
    """Bounds held against simulations of candidates that they had pruned.

    Parameters
    ----------
    candidates
        How many were simulated.
    violations
        The candidates that are above their bound at 99.9 %.
    """

    candidates: int
    violations: tuple[int, ...]

    @property
    def at_most(self) -> float:
        """The share of pruned candidates above their bounds that 95 % of such audits would have met one of [-]."""
        return violated_at_most(self.candidates)


class Limits(NamedTuple):
    """Upper limits of how far candidates may be above the best.

    Parameters
    ----------
    left
        The largest bound of what was not simulated.
    rivals, bounds, differences
        Of each that is still in the race its number, its bound, and the upper limit of its difference from the best;
        infinite where more would have to be known.
    """

    left: float
    rivals: tuple[int, ...]
    bounds: tuple[float, ...]
    differences: tuple[float, ...]

    def regret(self, lower: float) -> float:
        """Return how far the best of all may be above the answer, given a lower limit of the answer's score."""
        return max(self.left - lower, self.of_race(lower))

    def of_race(self, lower: float) -> float:
        """Return the same of those that were simulated: neither bound nor difference is exceeded."""
        return max(self.by_rival(lower).values(), default=0.0)

    def by_rival(self, lower: float) -> dict[int, float]:
        """Return the same of each of those."""
        limits = zip(self.rivals, self.bounds, self.differences, strict=True)
        return {rival: min(bound - lower, difference) for rival, bound, difference in limits}


class SearchOutcome(NamedTuple):
    """The end of a search.

    Parameters
    ----------
    best
        The answer; -1 where no candidate keeps the conditions.
    lower
        The lower limit of its score by the replications that chose it.
    limits
        How far the others may be above it.
    ties, unresolved
        Those that are above it by a tie at most, and those of which that is not known, by mean.
    simulated
        All that were simulated, in their order; without the audit.
    means
        Mean score of each of them at its last look; NaN for what cannot run.
    replications
        Of the best.
    history
        After each step.
    is_closed
        Whether all neighbours of the answer were simulated; time may be over before.
    """

    best: int
    lower: float
    limits: Limits
    ties: tuple[int, ...]
    unresolved: tuple[int, ...]
    simulated: tuple[int, ...]
    means: dict[int, float]
    replications: int
    history: tuple[SearchState, ...]
    audit: Audit
    is_closed: bool

    @property
    def regret(self) -> float:
        """The distance by which the answer may be below the best of all candidates; infinite where nothing is known."""
        return max(self.limits.regret(self.lower), 0.0) if self.best >= 0 else math.inf


def search(
    space: Space, rules: SearchRules | None = None, is_over: Callable[[], bool] = lambda: False
) -> SearchOutcome:
    """Return the best of some candidates, and how far it may be from it.

    A bound that the audit refutes is dropped, with all of its family, and the search goes on without it.

    Parameters
    ----------
    is_over
        Whether time is over: then the search ends with what it knows, and simulates nothing to check the bounds.
    """
    race = Race(space, rules or SearchRules())
    race.run(is_over)
    audit = race.audit(0 if is_over() else AUDITED)
    while audit.violations and not is_over():
        race.drop_bounds(audit.violations)
        race.run(is_over)
        audit = race.audit()
    return race.outcome(audit)


class Race:
    """A search in progress."""

    def __init__(self, space: Space, rules: SearchRules) -> None:
        self.space = space
        self.rules = rules
        self.bound = space.bound.astype(np.float64)
        self.replications = rules.first
        self.simulated: list[int] = []
        self.best = -1
        """The candidate with the highest mean of those that keep the conditions, or a tie of it; -1 for none."""
        self.running: list[int] = []
        """Candidates that need more replications: all have as many as the best, which is among them."""
        self.resting: list[int] = []
        """Candidates that differ from the best by no more than a tie, or that more replications tell no more of."""
        self.means: dict[int, float] = {}
        self.history: list[SearchState] = []
        self._differences: dict[int, float] = {}
        """The upper limit of how far each is above the best, since this is the best."""
        self._scores: dict[int, FloatArray] = {}
        self._status: dict[int, int] = {}
        self._is_left = self.bound > -math.inf
        self._looks = self._wakes = 0
        self._is_looked_at = False
        self._refuted: list[int] = []

    def run(self, is_over: Callable[[], bool]) -> None:
        """Simulate until the best is known well enough, or time is over; the first batch is not cut short."""
        while not (self.simulated and is_over()) and self._step():
            score = self.means[self.best] if self.best >= 0 else math.nan
            gap = self.limits().regret(self.lower)
            self.history.append(SearchState(len(self.simulated), self.replications, self.best, score, gap))
        if not self._is_looked_at and self.running and self._looks < self.rules.looks:
            self._look()

    def _step(self) -> bool:
        """Do what helps most, and return whether there was anything to do."""
        ahead = self._left_above(self.means[self.best] if self.best >= 0 else -math.inf)
        if ahead:
            self._admit(ahead[: self.rules.batch])
        elif self._has_to_look:
            self._look()
        elif doubtful := self._left_above(self.lower + self._tie):
            # Either what is left has to be simulated, or the best be known better.
            if len(doubtful) > self.rules.batch and self._looks < self.rules.looks:
                self._look()
            else:
                self._admit(doubtful[: self.rules.batch])
        elif missing := self._missing:
            self._admit(missing)
        else:
            return False
        return True

    @property
    def _has_to_look(self) -> bool:
        is_open = len(self.running) > 1 or (self.running and self.best < 0)
        return bool(is_open or not self._is_looked_at) and self._looks < self.rules.looks and bool(self.running)

    @property
    def lower(self) -> float:
        """The lower limit of the best, which may be any of those that were simulated."""
        if self.best < 0:
            return -math.inf
        tail = self.rules.alpha / 4 / (self.rules.looks * len(self.simulated))
        return lower_limit(self._scores[self.best], tail, self.space.hidden)

    def limits(self) -> Limits:
        """Return the limits of how far each candidate may be above the best."""
        rivals = [rival for rival in (*self.running, *self.resting) if rival != self.best]
        return Limits(
            left=float(self.bound[self._is_left].max(initial=-math.inf)),
            rivals=tuple(rivals),
            bounds=tuple(float(self.bound[rival]) for rival in rivals),
            differences=tuple(self._differences.get(rival, math.inf) for rival in rivals),
        )

    def audit(self, most: int = AUDITED) -> Audit:
        """Simulate pruned candidates, evenly over their bounds, and name all candidates above their bounds."""
        pruned = np.flatnonzero(self._is_left & np.isfinite(self.bound))
        pruned = pruned[np.argsort(-self.bound[pruned], kind="stable")]
        places = np.unique(np.linspace(0, len(pruned) - 1, min(most, len(pruned))).round().astype(int))
        audited = [int(candidate) for candidate in pruned[places]] if len(pruned) else []
        rows = {candidate: row for candidate, row in self._scores.items() if self._status[candidate] != FAILS}
        if audited:
            scores, status = self.space.simulate(audited, max(self.rules.first // 2, 2))
            rows |= {audited[index]: scores[index] for index in range(len(audited)) if status[index] != FAILS}
        return Audit(
            len(audited), tuple(candidate for candidate, row in rows.items() if self._is_above(candidate, row))
        )

    def drop_bounds(self, refuted: Sequence[int]) -> None:
        """Take the bounds of some candidates, and of those that rest on the same facts, for unknown."""
        family = np.arange(len(self.bound)) if self.space.family is None else self.space.family
        self.bound[np.isin(family, family[list(refuted)])] = math.inf
        self._refuted += refuted

    def outcome(self, audit: Audit) -> SearchOutcome:
        """Return the result of the search."""
        return SearchOutcome(
            best=self.best,
            lower=self.lower,
            limits=self.limits(),
            ties=self._by_mean(self.resting),
            unresolved=self._by_mean(self.running),
            simulated=tuple(self.simulated),
            means=self.means,
            replications=self.replications,
            history=tuple(self.history),
            audit=audit._replace(violations=tuple(self._refuted)),
            is_closed=self.best >= 0 and not self._missing,
        )

    def _by_mean(self, candidates: Sequence[int]) -> tuple[int, ...]:
        """Return candidates without the best, the highest mean first."""
        return tuple(sorted({*candidates} - {self.best}, key=lambda candidate: (-self.means[candidate], candidate)))

    def _left_above(self, score: float) -> list[int]:
        """Return the candidates that may yet be simulated and whose bounds are above a score, largest first."""
        room = self.rules.most - len(self.simulated)
        left = np.flatnonzero(self._is_left & (self.bound > score))
        left = left[np.argsort(-self.bound[left], kind="stable")]
        return [int(candidate) for candidate in left[: int(min(room, len(left)))]] if room > 0 else []

    @property
    def _missing(self) -> list[int]:
        """The neighbours of the best that have not been simulated."""
        neighbours = self.space.neighbours(self.best) if self.best >= 0 else ()
        return [candidate for candidate in neighbours if self._is_left[candidate]]

    def _admit(self, candidates: Sequence[int]) -> None:
        """Simulate candidates as far as the others, and let them race unless they cannot run or surely fail.

        Of those that come late the first replications decide who is simulated further.
        """
        self._is_left[list(candidates)] = False
        self.simulated += candidates
        if self.best >= 0 and self.replications > self.rules.first:
            candidates = self._not_surely_worse(candidates)
        if candidates:
            self._simulate(candidates)
        self._is_looked_at = False
        self._crown()

    def _not_surely_worse(self, candidates: Sequence[int]) -> list[int]:
        """Return the candidates that the first replications do not resolve as worse than the best."""
        scores, status = self.space.simulate([self.best, *candidates], self.rules.first)
        upper = upper_differences(scores, 0, self._tail, self.space.hidden)[1:]
        self.means |= dict(zip(candidates, scores[1:].mean(axis=1).tolist(), strict=True))
        self._status |= dict(zip(candidates, map(int, status[1:]), strict=True))
        return [
            late for late, limit in zip(candidates, upper, strict=True) if self._status[late] != FAILS and limit >= 0
        ]

    @property
    def _tail(self) -> float:
        """The probability that one limit of a look is exceeded [-]."""
        return 0.75 * self.rules.alpha / ((self.rules.looks + _EXTRA) * max(len(self.simulated) - 1, 1))

    def _simulate(self, candidates: Sequence[int]) -> None:
        """Bring candidates to the replications of the race; those that cannot run or surely fail are out."""
        scores, status = self.space.simulate(candidates, self.replications)
        for candidate, row, state in zip(candidates, scores, status, strict=True):
            self._scores[candidate], self._status[candidate] = row, int(state)
            self.means[candidate] = float(row.mean())
        self.running = [entry for entry in dict.fromkeys([*self.running, *candidates]) if self._status[entry] != FAILS]

    def _crown(self) -> None:
        """Let the highest mean be the best; what was compared with the former best is compared again."""
        keeping = [candidate for candidate in self.running if self._status[candidate] == KEEPS]
        best = max(keeping, key=self.means.__getitem__, default=-1)
        is_ahead = self.best not in self.running or self.means[best] > self.means[self.best] + self._tie / 10
        if best == self.best or (self.resting and not is_ahead):
            # A tenth of a tie does not pay for comparing again what was compared with the best.
            return
        self.best, self._differences = best, {}
        if self.resting:
            self._wake()

    def _wake(self) -> None:
        """Compare those that rest with a new best, on the replications that they have: the rest of them race again."""
        self._wakes += 1
        sleepers, self.resting, awake = self.resting, [], []
        if self._wakes >= _EXTRA:
            sleepers, awake = [], sleepers
        for count in dict.fromkeys(len(self._scores[sleeper]) for sleeper in sleepers):
            group = [sleeper for sleeper in sleepers if len(self._scores[sleeper]) == count]
            scores, _ = self.space.simulate([self.best, *group], count)
            upper = upper_differences(scores, 0, self._tail, self.space.hidden)[1:]
            limits = dict(zip(group, upper.tolist(), strict=True))
            self._differences |= limits
            self.resting += [sleeper for sleeper, limit in limits.items() if 0 <= limit <= self._tie]
            awake += [sleeper for sleeper, limit in limits.items() if limit > self._tie]
        if awake:
            self._simulate(awake)
            self._is_looked_at = False
            self._crown()

    def _look(self) -> None:
        """Take out what is resolved as worse than the best, let rest what ties with it; of all others more is needed.

        Candidates that were looked at before get more replications.
        """
        if self._is_looked_at:
            step = self.rules.step
            self.replications = step * math.ceil(self.rules.growth * self.replications / step)
            self._simulate(self.running)
            self._crown()
        self._looks += 1
        self._is_looked_at = True
        if self.best < 0:
            return
        scores = np.array([self._scores[candidate] for candidate in self.running])
        upper = upper_differences(scores, self.running.index(self.best), self._tail, self.space.hidden)
        limits = dict(zip(self.running, upper.tolist(), strict=True))
        del limits[self.best]
        self._differences |= limits
        unsettled = [rival for rival, limit in limits.items() if limit > self._tie and self._status[rival] != UNTOLD]
        self.resting += [rival for rival, limit in limits.items() if limit >= 0 and rival not in unsettled]
        self.running = [self.best, *unsettled]

    @property
    def _tie(self) -> float:
        return self.rules.tie(self.means[self.best]) if self.best >= 0 else 0.0

    def _is_above(self, candidate: int, row: FloatArray) -> bool:
        """Return whether a candidate is surely above its bound."""
        bound = float(self.bound[candidate])
        return lower_limit(row, _SURE, self.space.hidden) > bound + 1e-9 * abs(bound)


def lower_limit(scores: FloatArray, tail: float, hidden: Callable[[int], float] = lambda _replications: 0.0) -> float:
    """Return the lower limit of a mean score, by Student, from the scores of its replications, shape (n,)."""
    return float(scores.mean()) - float(_reach(scores[None, :], tail, hidden)[0])


def upper_differences(
    scores: FloatArray, best: int, tail: float, hidden: Callable[[int], float] = lambda _replications: 0.0
) -> FloatArray:
    """Return the upper limits of the mean differences of all rows from one, by Student, shape (k,); 0 of itself.

    Parameters
    ----------
    scores : (k, n) array
        Scores on common replications.
    tail
        Probability of each that its difference is above its limit [-].
    """
    differences = scores - scores[best]
    upper: FloatArray = differences.mean(axis=1) + _reach(differences, tail, hidden)
    upper[best] = 0.0
    return upper


def _reach(values: FloatArray, tail: float, hidden: Callable[[int], float]) -> FloatArray:
    """Return by how much means of rows (k, n) may be off on one side, shape (k,)."""
    count = values.shape[1]
    spread = values.std(axis=1, ddof=1) / math.sqrt(count)
    reach: FloatArray = np.where(spread > 0, t_upper(tail, count - 1) * spread, hidden(count))
    return reach


def violated_at_most(audited: int) -> float:
    """Return the share of violations at which 95 % of audits of so many candidates meet one [-]; 1 without any."""
    return 1 - 0.05 ** (1 / audited) if audited else 1.0

"""The statement of a search: regret, ties by kind, what binds, the best of each named value, and the funnel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick.analysis.optimize.derive import neighbours
from ettrick.analysis.results.studies import (
    AimResult,
    BestOfValue,
    BoundAudit,
    BoundPoint,
    BoundSummary,
    BudgetSummary,
    GapStep,
    InfeasibleGroup,
    NeighbourSummary,
    RegretSummary,
    SearchFunnel,
    TiedSetting,
)
from ettrick.sim.catalog.steps import calibrated_sigma
from ettrick.sim.steps.plan import BAND90

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ettrick.analysis.optimize.evaluate import Evaluator, Trial
    from ettrick.analysis.optimize.race import Raced
    from ettrick.sim import Prepared

_MOST_MODEL_TIES = 8
"""Rivals within the error of the step model that are named."""


class Statement(NamedTuple):
    """The result of a search, as fields of its document.

    Parameters
    ----------
    trials
        In the order of the document: a candidate is named by its position there.
    fresh
        The answer on fresh failures; ``None`` without one.
    """

    bench: Evaluator
    raced: Raced
    trials: list[Trial]
    fresh: Trial | None

    def fields(self) -> dict[str, Any]:
        """Return the fields of the document that only a search over listed candidates has."""
        outcome, listing = self.raced.outcome, self.raced.listing
        ties = list(self._ties())
        return {
            "combinations": listing.listed,
            "replications": outcome.replications,
            "ties": ties,
            "regret": self._regret(),
            "gap_history": [
                GapStep(
                    simulated=state.simulated,
                    replications=state.replications,
                    answer=None if math.isnan(state.score) else self._value(state.score),
                    gap=_finite(state.gap),
                )
                for state in outcome.history
            ],
            "funnel": SearchFunnel(
                listed=listing.listed,
                infeasible=sum(group.count for group in listing.infeasible),
                dominated=listing.dominated,
                below_bound=len(listing.candidates) - len(outcome.simulated),
                simulated=len(outcome.simulated),
                tied=len(ties),
            ),
            "infeasible": [InfeasibleGroup(**group._asdict()) for group in listing.infeasible],
            "bound": self._bound(),
            "budget": self._budget(),
            "derived": dict(listing.derived(outcome.best)) if outcome.best >= 0 else {},
            "best_of": list(self._best_of()),
            "neighbours": list(self._neighbours()) if outcome.best >= 0 else [],
        }

    def of_trial(self, trial: Trial) -> dict[str, Any]:
        """Return the bound of a trial, and what it takes of each budget."""
        index = self.raced.index_of.get(trial.number)
        if index is None:
            return {}
        bound = float(self.raced.bound[index])
        used = {name: float(amounts[index]) for name, amounts in self.raced.listing.used.items()}
        return {"bound": self._value(bound) if math.isfinite(bound) else None, "used": used}

    def _value(self, score: float) -> float:
        """Return a score, the higher the better, as a value of the first aim."""
        return self.bench.problem.aims[0].score(1.0) * score

    def _regret(self) -> RegretSummary | None:
        regret, source = self.raced.regret(None if self.fresh is None or self.fresh.trouble else self.fresh)
        if math.isinf(regret):
            return None
        return RegretSummary(
            value=regret,
            relative=regret / abs(self.raced.outcome.means[self.raced.outcome.best]),
            source=source,
            confidence=self.bench.problem.spec.confidence,
        )

    def _ties(self) -> Iterator[TiedSetting]:
        """Yield the designs that are equal to the answer on the replications, then those by the step model."""
        outcome = self.raced.outcome
        for index in outcome.ties:
            if self.raced.trials[index].is_usable and is_tie(self.bench, self.raced.difference(index)):
                yield self._tie(index, "statistical")
        if outcome.best < 0:
            return
        seen = {self._kind(index) for index in (outcome.best, *outcome.ties)}
        rivals = sorted(set(outcome.simulated) - {outcome.best, *outcome.ties}, key=lambda index: -outcome.means[index])
        named = 0
        for index in rivals:
            if named < _MOST_MODEL_TIES and self._kind(index) not in seen and self._is_within_model(index):
                seen.add(self._kind(index))
                named += 1
                yield self._tie(index, "model")

    def _kind(self, index: int, kinds: tuple[str, ...] = ("named", "layout")) -> tuple[str, ...]:
        """Return the named values and the layout of a candidate: of rivals that share them the best is named."""
        listing = self.raced.listing
        return tuple(
            position.label
            for name, position in zip(listing.names, listing.candidates[index], strict=True)
            if listing.kinds[name] in kinds
        )

    def _is_within_model(self, index: int) -> bool:
        """Return whether the step model, by 90 % of its error, cannot tell a candidate from the answer."""
        outcome, listing = self.raced.outcome, self.raced.listing
        if not self.raced.trials[index].is_usable:
            return False
        ours, theirs = outcome.means[outcome.best], outcome.means[index]
        if ours * theirs <= 0:
            return False
        pair = [listing.bases[int(listing.base_of[place])] for place in (outcome.best, index)]
        return abs(math.log(ours / theirs)) < BAND90 * error_of_ratio(*pair)

    def _tie(self, index: int, kind: Any) -> TiedSetting:
        labels = self.bench.labels(self.raced.listing.candidates[index])
        return TiedSetting(values=labels, kind=kind, difference=self.raced.difference(index))

    def _bound(self) -> BoundSummary | None:
        outcome, kinds = self.raced.outcome, set(self.raced.kinds)
        if not np.isfinite(self.raced.bound).any():
            return None
        audit = outcome.audit
        violations = len(audit.violations)
        checked = BoundAudit(candidates=audit.candidates, violations=violations, at_most=audit.at_most)
        name = self._main_budget()
        return BoundSummary(
            kind="renewal" if "renewal" in kinds else "ideal",
            audit=checked if audit.candidates else None,
            budget=name,
            curve=list(self._curve(name)) if name else [],
        )

    def _main_budget(self) -> str:
        """Return the budget of which the answer takes the largest part; nothing without budgets."""
        budget = self.bench.problem.spec.budget
        if budget is None:
            return ""
        used, best = self.raced.listing.used, max(self.raced.outcome.best, 0)
        return max(budget.limits, key=lambda name: used[name][best] / budget.limits[name] if len(used[name]) else 0.0)

    def _curve(self, budget: str) -> Iterator[BoundPoint]:
        """Yield the best bound of each named choice by the part of a budget that is taken."""
        listing = self.raced.listing
        best: dict[tuple[tuple[tuple[str, str], ...], float], float] = {}
        for index, candidate in enumerate(listing.candidates):
            named = {
                name: position.label
                for name, position in zip(listing.names, candidate, strict=True)
                if listing.kinds[name] == "named"
            }
            key = tuple(named.items()), float(listing.used[budget][index])
            best[key] = max(best.get(key, -math.inf), float(self.raced.bound[index]))
        for (labels, used), bound in sorted(best.items()):
            if math.isfinite(bound):
                yield BoundPoint(values=dict(labels), used=used, bound=self._value(bound))

    def _budget(self) -> dict[str, BudgetSummary]:
        """Return the part of each budget that the answer takes, and the worth of 1 % more where it binds."""
        spec, listing, best = self.bench.problem.spec, self.raced.listing, self.raced.outcome.best
        if spec.budget is None:
            return {}
        summaries = {}
        for name, limit in spec.budget.limits.items():
            if best < 0:
                summaries[name] = BudgetSummary(limit=limit, needed=listing.helps.get(name))
                continue
            used = float(listing.used[name][best])
            binds = used * (1 + _one_unit(listing.bases[int(listing.base_of[best])])) > limit
            worth = self._worth(name, limit) if binds else None
            summaries[name] = BudgetSummary(limit=limit, used=used, binding=binds, worth_per_percent=worth)
        return summaries

    def _worth(self, budget: str, limit: float) -> float | None:
        """Return the gain of the bound by 1 % more of a budget, by the slope to the next smaller candidates."""
        listing, best = self.raced.listing, self.raced.outcome.best
        named = self._kind(best, ("named",))
        like = np.array([self._kind(index, ("named",)) == named for index in range(len(listing.candidates))])
        used, bound = listing.used[budget], self.raced.bound
        below = np.flatnonzero(like & (used < used[best] * (1 - 1e-9)))
        if not len(below) or not math.isfinite(bound[best]):
            return None
        near = below[used[below] >= used[below].max() * (1 - 1e-9)]
        slope = (bound[best] - bound[near].max()) / (used[best] - used[near].max())
        return float(self._value(max(slope, 0.0) * 0.01 * limit))

    def _best_of(self) -> Iterator[BestOfValue]:
        """Yield for each value of the named axes the best candidate that was simulated, and the highest bound."""
        listing = self.raced.listing
        positions = {trial.number: place for place, trial in enumerate(self.trials)}
        for column, name in enumerate(listing.names):
            labels = dict.fromkeys(candidate[column].label for candidate in listing.candidates)
            if listing.kinds[name] != "named" or len(labels) < 2:
                continue
            for label in labels:
                rows = [index for index, row in enumerate(listing.candidates) if row[column].label == label]
                best = self.raced.best_of(rows)
                bound = float(self.raced.bound[rows].max())
                yield BestOfValue(
                    axis=name,
                    value=label,
                    trial=None if best is None else positions[self.raced.trials[best].number],
                    difference=None if best in (None, self.raced.outcome.best) else self.raced.difference(best),
                    bound=self._value(bound) if math.isfinite(bound) else None,
                )

    def _neighbours(self) -> Iterator[NeighbourSummary]:
        """Yield every neighbour of the answer: its difference, or why it cannot run."""
        listing, best = self.raced.listing, self.raced.outcome.best
        for index, axis in neighbours(listing, best):
            trial = self.raced.trials.get(index)
            if trial is None:  # time was over
                continue
            labels = self.bench.labels(listing.candidates[index])
            yield NeighbourSummary(
                axis=axis, to=", ".join(labels[name] for name in axis.split(" × ")), status=trial.status,
                reason=trial.trouble, difference=None if trial.trouble else self.raced.difference(index),
            )  # fmt: skip
        for group in listing.infeasible:
            if group.axis:
                yield NeighbourSummary(axis=group.axis, to=group.value, status="cannot run", reason=group.first)


def is_tie(bench: Evaluator, difference: AimResult | None) -> bool:
    """Return whether a design that is still in the race is as good as the answer, for all that is known.

    One that is clearly worse, by more than what matters, only needs no more replications.
    """
    if difference is None or difference.mean is None:
        return False
    answer = max((abs(trial.aims[0].mean or 0.0) for trial in bench.candidates if trial.is_usable), default=0.0)
    matters = bench.problem.ties.size(bench.problem.aims[0].name, answer)
    high = None if difference.ci95 is None else difference.ci95[1]
    return abs(difference.mean) <= matters or (high is not None and high >= 0)


def error_of_ratio(ours: Prepared, theirs: Prepared) -> float:
    """Return the standard deviation of the logarithm of the ratio of two modelled steps [-]; 0 where one is measured.

    Layouts of the same accelerator whose groups use the network in the same way share the errors of its constants: the
    scatter of calibrated steps is left. Where other groups use it, or other accelerators, those of each are its own.
    """
    first, second = (prepared.jobs[0].plan if prepared.jobs else None for prepared in (ours, theirs))
    if first is None or second is None:
        return 0.0
    if first.machine.chip != second.machine.chip:
        return math.hypot(first.sigma, second.sigma)
    on_network, on_network_too = ([link.network > 0 for link in plan.machine.links] for plan in (first, second))
    if on_network != on_network_too:
        return max(first.sigma, second.sigma)
    if first.work == second.work:
        return 0.0
    experts = first.work.shape.experts is not None
    return max(calibrated_sigma(plan.machine.shares, experts=experts) for plan in (first, second))


def _one_unit(prepared: Prepared) -> float:
    """Return one unit of a cluster over all of it: a domain that is used whole, else a node [-]."""
    return prepared.scenario.cluster.nodes_per_domain / prepared.nodes


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

"""What is to be optimised: what may be chosen, what counts, what must hold, and over what is not known."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sim
from analysis.metrics import lower_is_better
from analysis.optimize.conditions import condition_of
from analysis.optimize.domain import Line, domain_of
from analysis.study.designs import Grid
from sim import complaints
from sim.documents import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.optimize.conditions import Condition
    from analysis.optimize.domain import Domain
    from analysis.study.load import LoadedStudy
    from analysis.study.model import Optimum
    from analysis.study.value import Value

__all__ = ["Aim", "Problem", "check_metrics", "draws_of", "problem_of"]

_DRAWS = 20
"""Draws of what is not known, unless the design of the study says how many."""


@dataclass(frozen=True)
class Aim:
    """What is to be as high, or as low, as it can be.

    Parameters
    ----------
    name
        A metric, or the name of an axis.
    lowest
        Whether the lowest value is the best.
    is_axis
        Whether it is an axis: then it is known without a simulation.
    key
        Where the study says so, for messages.
    """

    name: str
    lowest: bool
    is_axis: bool
    key: tuple[str | int, ...]

    def score(self, value: float) -> float:
        """Return a number that is the higher the better."""
        return -value if self.lowest else value


@dataclass(frozen=True)
class Problem:
    """An optimisation, as the rest of the folder reads it.

    Parameters
    ----------
    loaded
        The study and its scenario.
    spec
        Its section ``optimize``.
    domains
        What may be chosen, by axis, in the order of the study.
    draws
        Values of the unknown axes, in the order of the study: the central ones, then those of each draw, if the
        conditions are to hold over them.
    aims
        What counts: one, or several that are weighed against each other.
    conditions
        What must hold.
    """

    loaded: LoadedStudy
    spec: Optimum
    domains: Mapping[str, Domain]
    draws: tuple[tuple[Value, ...], ...]
    aims: tuple[Aim, ...]
    conditions: tuple[Condition, ...]

    @property
    def over_draws(self) -> bool:
        """Whether aims and conditions are means over all draws of what is not known."""
        return len(self.draws) > 1

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics that have to be known of every point."""
        aims = [aim.name for aim in self.aims if not aim.is_axis]
        return tuple(dict.fromkeys((*aims, *(condition.metric for condition in self.conditions))))

    @property
    def size(self) -> int | None:
        """How many combinations there are; ``None`` for more than can be counted."""
        size = 1
        for domain in self.domains.values():
            if domain.size is None:
                return None
            size *= domain.size
        return size

    def values(self, chosen: Sequence[Value], draw: int) -> tuple[Value, ...]:
        """Return the value of each axis for a choice and a draw; without a choice, those of the unknown axes alone."""
        if not chosen:
            return self.draws[draw]
        mine, others = iter(chosen), iter(self.draws[draw])
        axes = self.loaded.study.vary
        return tuple(next(mine) if name in self.domains else next(others) for name in axes)


def problem_of(loaded: LoadedStudy) -> Problem:
    """Return what a study asks to be optimised.

    Raises
    ------
    ScenarioError
        With one line for each mistake: file, line, column, path, rule.
    """
    study = loaded.study
    spec = study.optimize
    if spec is None:
        rule = "is missing: say what is to be found, for example optimize: {maximize: ettr}"
        raise sim.ScenarioError([complaints.line(loaded.document, ("optimize",), rule)])
    unknown = {name: axis for name, axis in study.vary.items() if axis.is_uncertain}
    domains = {name: domain_of(name, axis) for name, axis in study.vary.items() if name not in unknown}
    wrong: list[str] = []

    def complain(key: tuple[str | int, ...], rule: str) -> None:
        wrong.append(complaints.line(loaded.document, ("optimize", *key), rule))

    if not domains:
        complain((), "there is nothing to choose: every axis of vary has a distribution")
    if spec.over == "luck+parameters" and not unknown:
        complain(("over",), "luck+parameters needs an axis with a distribution, and vary has none")
    aims = _aims(spec, domains, unknown, complain)
    conditions = []
    for index, text in enumerate(spec.subject_to):
        try:
            condition = condition_of(text)
        except ValueError as error:
            complain(("subject_to", index), str(error))
            continue
        if condition.metric in study.vary:
            complain(("subject_to", index), f"{condition.metric} is an axis: give its bounds in vary")
        conditions.append(condition)
    if not wrong and not conditions and all(aim.is_axis for aim in aims):
        complain(aims[0].key, f"{aims[0].name} is an axis, and nothing keeps it from its end: add subject_to or pareto")
    if wrong:
        raise sim.ScenarioError(wrong)
    draws = draws_of(loaded, over_draws=spec.over == "luck+parameters")
    return Problem(loaded, spec, domains, draws, aims, tuple(conditions))


def check_metrics(problem: Problem, known: Sequence[str]) -> None:
    """Refuse metrics that the scenario does not have.

    Raises
    ------
    ScenarioError
        With one line for each.
    """
    asked = [(aim.key, aim.name) for aim in problem.aims if not aim.is_axis]
    asked += [(("subject_to", index), condition.metric) for index, condition in enumerate(problem.conditions)]
    wrong = []
    for key, name in asked:
        if name not in known:
            rule = f"the scenario has no metric '{name}'{suggest(name, known)}"
            wrong.append(complaints.line(problem.loaded.document, ("optimize", *key), rule))
    if wrong:
        raise sim.ScenarioError(wrong)


def _aims(
    spec: Optimum, domains: Mapping[str, Domain], unknown: Mapping[str, object], complain: object
) -> tuple[Aim, ...]:
    """Return what counts, the first one first; mistakes are told to `complain`."""
    assert callable(complain)
    key = "minimize" if spec.minimize else "maximize"
    first = spec.minimize or spec.maximize
    if first in unknown:
        complain((key,), f"{first} has a distribution: it is not chosen")
    if first in domains and not isinstance(domains[first], Line):
        complain((key,), f"{first} has no numbers that could be compared")
    for index, name in enumerate(spec.pareto):
        if name in domains or name in unknown:
            complain(("pareto", index), f"{name} is an axis: name it in minimize or maximize")
        elif name == first or name in spec.pareto[:index]:
            complain(("pareto", index), f"{name} is there already")
    others = (Aim(name, lower_is_better(name), False, ("pareto", index)) for index, name in enumerate(spec.pareto))
    return (Aim(first, bool(spec.minimize), first in domains, (key,)), *others)


def draws_of(loaded: LoadedStudy, *, over_draws: bool, fresh: int | None = None) -> tuple[tuple[Value, ...], ...]:
    """Return the values of the unknown axes: the central ones, and over draws those of the study's grid.

    With `fresh`, draws that follow from this number, and are others.
    """
    from numpy.random import default_rng

    study = loaded.study
    unknown = {name: axis for name, axis in study.vary.items() if axis.is_uncertain}
    if not over_draws:
        return (tuple(axis.at(name, 0.5) for name, axis in unknown.items()),)
    grid = Grid(draws=getattr(study.design, "draws", _DRAWS))
    seeds = [study.seed or 0, zlib.crc32(study.design.use.encode())]
    rng = default_rng(seeds if fresh is None else [*seeds, fresh])
    return tuple(point.values for point in grid.points(unknown, rng))

"""The closed form's answer to the same question."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import sim
from analysis.optimize.domain import Line
from analysis.optimize.scalar import COARSE
from analysis.study.value import Point

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.optimize.evaluate import Bench, Trial
    from analysis.study.value import Value

__all__ = ["FormulaAnswer", "formula_answer"]

_OF_ETTR = ("ettr", "goodput", "effective_mfu")


class FormulaAnswer(NamedTuple):
    """What the closed form calls the best.

    Parameters
    ----------
    chosen
        The combination.
    ettr
        ETTR there, by the closed form [-].
    ettr_of_answer
        ETTR of the answer of the search, by the closed form [-]; ``None`` where there is none.
    assumptions
        What the closed form takes for granted and the scenario breaks.
    is_of_tried
        Whether only what was tried was looked at, not the whole domain.
    """

    chosen: tuple[Value, ...]
    ettr: float
    ettr_of_answer: float | None
    assumptions: tuple[str, ...]
    is_of_tried: bool


def formula_answer(bench: Bench, answer: Trial | None) -> FormulaAnswer | None:
    """Return what the closed form calls the best, at the central values of what is unknown, conditions aside.

    Returns
    -------
    FormulaAnswer or None
        ``None`` where what counts is not ETTR or a constant times it, and where there is no closed form.
    """
    problem = bench.problem
    aim = problem.aims[0]
    if len(problem.aims) > 1 or aim.lowest or aim.name not in _OF_ETTR:
        return None
    shared = sim.Shared()

    def form(chosen: tuple[Value, ...]) -> sim.ClosedForm:
        point = Point(0, 0, 0, problem.values(chosen, 0))
        return sim.closed_form(shared.prepare(problem.loaded.template, problem.loaded.overrides(point)))

    domains = list(problem.domains.values())
    is_line = len(domains) == 1 and isinstance(domains[0], Line)
    if is_line and isinstance(domains[0], Line):
        value = _highest(domains[0], lambda value: form((value,)).ettr)
        best: tuple[Value, ...] | None = None if value is None else (value,)
    else:
        known = [trial for trial in bench.candidates if trial.cell.stated.formula is not None]
        best = max(known, key=lambda trial: trial.cell.stated.formula or 0.0).chosen if known else None
    if best is None:
        return None
    found = form(best)
    if found.ettr is None:
        return None
    of_answer = None if answer is None else form(answer.chosen).ettr
    return FormulaAnswer(best, found.ettr, of_answer, found.assumptions, not is_line)


def _highest(line: Line, ettr: Callable[[Value], float | None]) -> Value | None:
    """Return the value of a line at which a formula is highest, as the search of simulations would without noise."""
    known: dict[str, tuple[float, Value]] = {}

    def look(value: Value) -> None:
        try:
            found = ettr(value)
        except (sim.ScenarioError, sim.PathError):
            found = None
        if found is not None:
            known[repr(value.settings)] = found, value

    for value in line.spread(COARSE):
        look(value)
    while known:
        tried = sorted((value for _, value in known.values()), key=lambda value: value.number or 0.0)
        best = max(known.values(), key=lambda pair: pair[0])[1]
        at = tried.index(best)
        sides = [sorted((at, index)) for index in (at - 1, at + 1) if 0 <= index < len(tried)]
        middles = [line.between(tried[low], tried[high]) for low, high in sides]
        before = len(known)
        for middle in middles:
            if middle is not None:
                look(middle)
        if len(known) == before:
            return best
    return None

"""An optimisation from the study to the document: look, confirm, ask the closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.optimize.confirm import confirm
from analysis.optimize.document import optimum_document
from analysis.optimize.domain import Line
from analysis.optimize.evaluate import Bench
from analysis.optimize.formula import formula_answer
from analysis.optimize.problem import problem_of
from analysis.optimize.scalar import climb, walk_to_edge
from analysis.optimize.search import ALL, play_all, search
from analysis.optimize.standing import front_of, standing_of
from analysis.sweep.campaign import Campaign
from analysis.sweep.sweep import replications_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.optimize.confirm import Confirmation
    from analysis.optimize.formula import FormulaAnswer
    from analysis.optimize.scalar import Edge, Top
    from analysis.optimize.standing import Member, Standing
    from analysis.study.load import LoadedStudy
    from analysis.sweep.crew import Crew
    from analysis.sweep.journal import Journal

__all__ = ["Found", "optimize", "play_optimize"]

_MOST_CONFIRMED = 8
"""Members of a front that are confirmed."""


@dataclass(frozen=True)
class Found:
    """Everything that an optimisation found.

    Parameters
    ----------
    bench
        What was tried.
    method
        ``curve``, ``edge``, ``all`` or ``search``.
    standing
        The order of what was tried.
    front
        With several aims, what no other combination beats in all of them.
    top
        On a line, where the curve is highest.
    edge
        Where an axis is to be as low or high as conditions allow, up to where they hold.
    confirmation
        On fresh failures; ``None`` if nothing keeps the conditions.
    formula
        What the closed form calls the best.
    """

    bench: Bench
    method: str
    standing: Standing
    front: tuple[Member, ...]
    top: Top | None
    edge: Edge | None
    confirmation: Confirmation | None
    formula: FormulaAnswer | None


def play_optimize(
    loaded: LoadedStudy,
    journal: Journal,
    crew: Crew,
    progress: Callable[[int, int | None], None],
    *,
    command: str,
    trials: int | None = None,
    replications: int | None = None,
) -> dict[str, Any]:
    """Return the document of an optimisation; what the journal has is not played again.

    Parameters
    ----------
    loaded
        The study.
    journal, crew
        Where outcomes are, and who plays what is not there.
    progress
        Called with the number of tasks done; how many there will be is not known.
    command
        The command, to be typed again.
    trials
        Combinations that are tried where a search is needed; ``None`` as the study says.
    replications
        Of each combination; ``None`` as the study says.

    Raises
    ------
    ScenarioError
        With one line for each mistake of the study.
    RequestError
        If a search is needed, and Optuna is not installed.
    """
    done = 0

    def count(now: int, total: int | None) -> None:
        nonlocal done
        progress(done + now, None)
        if now == total:
            done += now

    found = optimize(Campaign(loaded, journal, crew, count), trials=trials, replications=replications)
    return optimum_document(found, command=command)


def optimize(campaign: Campaign, *, trials: int | None = None, replications: int | None = None) -> Found:
    """Return what a study asks to be optimised, found and confirmed; parameters and mistakes as `play_optimize`."""
    problem = problem_of(campaign.loaded)
    bench = Bench(problem, campaign, replications or replications_of(campaign.loaded.study))
    top, edge = None, None
    domains = list(problem.domains.values())
    aim = problem.aims[0]
    size = problem.size
    most = trials or problem.spec.trials
    if len(domains) == len(problem.aims) == 1 and isinstance(domains[0], Line):
        line = domains[0]
        if aim.is_axis:
            method, edge = "edge", walk_to_edge(bench, line, aim)
        else:
            method, top = "curve", climb(bench, line, aim)
    elif size is not None and size <= ALL:
        method = "all"
        play_all(bench)
    else:
        method = "search"
        search(bench, most)
    standing = standing_of(bench)
    front = tuple(front_of(bench)) if len(problem.aims) > 1 else ()
    if edge is not None and edge.answer is not None:
        standing = _from_edge(standing, edge)
    looked_at = [member.trial for member in front][:_MOST_CONFIRMED] or list(standing.order[:2])
    confirmation = confirm(bench, looked_at, problem.spec.confirm) if looked_at else None
    formula = formula_answer(bench, looked_at[0] if looked_at else None)
    return Found(bench, method, standing, front, top, edge, confirmation, formula)


def _from_edge(standing: Standing, edge: Edge) -> Standing:
    """Return the standing with what keeps the conditions from somewhere on first, before what keeps them by chance."""
    islands = [trial for trial in standing.order if trial in edge.islands]
    order = (*(trial for trial in standing.order if trial not in islands), *islands)
    return standing._replace(order=order, as_good=order[:1])

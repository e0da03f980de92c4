"""An optimisation from the study to the document: look, confirm, ask the closed form."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick import sim
from ettrick.analysis.amounts import number_of
from ettrick.analysis.metrics import PROBABILITIES, is_share
from ettrick.analysis.optimize.derive import neighbours
from ettrick.analysis.optimize.evaluate import Evaluator, close, doubt_of_cell, front_of, rank_trials
from ettrick.analysis.optimize.problem import NumericRange, draws_of, problem_of
from ettrick.analysis.optimize.race import race
from ettrick.analysis.optimize.search import (
    ALL,
    COARSE,
    climb,
    edge_of,
    formula_answer,
    search,
    simulate_all,
    walk_to_edge,
)
from ettrick.analysis.optimize.statement import Statement
from ettrick.analysis.parts import FORMAT, DifferenceSummary
from ettrick.analysis.results.run import provenance
from ettrick.analysis.results.studies import (
    AimResult,
    ConditionSummary,
    ConfirmationSummary,
    ConfirmedTrial,
    EdgeSummary,
    EquivalentRange,
    FormulaLeftOut,
    FormulaSummary,
    FrontMember,
    NeighbourSummary,
    OptimizeAxis,
    OptimizeDocument,
    Tie,
    TopSummary,
    TrialSummary,
)
from ettrick.analysis.statistics.estimates import with_width
from ettrick.analysis.statistics.intervals import binomial_interval
from ettrick.analysis.study.amounts import label_of, settings_text
from ettrick.analysis.sweep.campaign import counted
from ettrick.analysis.sweep.sweep import replications_of
from ettrick.analysis.sweep.task import blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ettrick.analysis.optimize.evaluate import Member, Trial, TrialRanking
    from ettrick.analysis.optimize.problem import Problem
    from ettrick.analysis.optimize.race import Raced
    from ettrick.analysis.optimize.search import Edge
    from ettrick.analysis.statistics.estimates import Interval
    from ettrick.analysis.study.load import LoadedStudy
    from ettrick.analysis.sweep.campaign import Campaign

# The answer on failures that had no part in finding it.


def confirm(bench: Evaluator, answers: Sequence[Trial], replications: int) -> tuple[ConfirmationSummary, Trial]:
    """Return what some combinations come to with another seed, and draws, beside the scenario as it is; and the first.

    The best of many looks better than it is: noise that helped it is part of why it was chosen. Fresh failures owe it
    nothing. An answer that was searched for at the edge of a condition lies on either side of it by chance: a mean that
    misses the bound by less than its doubt denies nothing.

    Returns
    -------
    ConfirmationSummary, Trial
        ``confirmed`` is ``True`` if conditions surely hold, and the first combination is surely better than the
        scenario unless that misses a condition; ``False`` if one surely fails, or the scenario is surely better.

    References
    ----------
    J. E. Smith, R. L. Winkler, "The Optimizer's Curse", Management Science 52 (2006), 311.
    """
    stated = bench.problem.loaded.scenario(answers[0].cell.stated.point).seed
    seed = int.from_bytes(hashlib.blake2b(f"confirm {stated}".encode(), digest_size=8).digest(), "big") >> 1
    loaded = _with_seed(bench.problem.loaded, seed)
    # The draws too: inputs that none of them met helped to choose the answer as noise did.
    draws = draws_of(loaded, over_draws=bench.problem.over_draws, fresh=seed)
    problem = dataclasses.replace(bench.problem, loaded=loaded, draws=draws)
    fresh = Evaluator(problem, dataclasses.replace(bench.campaign, loaded=loaded), replications)
    *trials, start = fresh.evaluate([*(trial.chosen for trial in answers), ()])
    start = start._replace(is_met=start.is_met and _keeps_budget(problem, loaded))
    summary = ConfirmationSummary(
        seed=seed,
        replications=max(trial.cell.stated.replications for trial in trials),
        confirmed=_is_confirmed(trials[0], start, fresh.gain(trials[0], start, problem.aims[0])),
        trials=[
            ConfirmedTrial(
                **_trial(trial, fresh),
                gain={aim.name: fresh.gain(trial, start, aim) for aim in problem.aims},
                ahead_of_answer={aim.name: fresh.gain(trial, trials[0], aim) for aim in problem.aims},
            )
            for trial in trials
        ],
        as_it_is=TrialSummary(**_trial(start, fresh) | {"values": _as_it_is(bench)}),
    )
    return summary, trials[0]


def _keeps_budget(problem: Problem, loaded: LoadedStudy) -> bool:
    """Return whether the scenario as it is takes no more than the budgets: otherwise no answer has to be better."""
    if problem.spec.budget is None:
        return True
    scenario = sim.sized(loaded.template.scenario(loaded.common))
    try:
        sim.Offer.of(scenario, problem.spec.budget.limits, None).check_budgets(scenario.cluster)
    except sim.RefusedError:
        return False
    return True


def _is_confirmed(answer: Trial, start: Trial, gain: DifferenceSummary | None) -> bool | None:
    """Return whether the answer is what it was said to be: denied only where that is resolved, as it is confirmed."""
    if answer.verdict == "fails":
        return False
    compared = gain is not None and start.is_met
    if compared and gain is not None and gain.resolved and gain.mean < 0:
        return False
    is_better = not compared or (gain is not None and gain.resolved)
    return True if answer.verdict == "holds" and answer.is_usable and is_better else None


def _with_seed(loaded: LoadedStudy, seed: int) -> LoadedStudy:
    settings = (text for text in loaded.common if not text.startswith("seed="))
    return dataclasses.replace(loaded, common=(*settings, settings_text("seed", seed)))


# The document of an optimisation.


def optimum_document(result: OptimizationResult, *, command: str) -> OptimizeDocument:
    """Return the document of what `optimize` found."""
    bench, problem = result.bench, result.bench.problem
    study = problem.loaded.study
    answers = [member.trial for member in result.front] or list(result.ranking.order[:2])
    trials = _in_order(bench)
    statement = None if result.raced is None else Statement(bench, result.raced, trials, result.fresh)
    summary = functools.partial(_summary, bench=bench, statement=statement)
    document = OptimizeDocument(
        format=FORMAT,
        study=study.name,
        question=study.question,
        tie=Tie(**problem.ties._asdict()),
        scenario=study.scenario,
        method=result.method,
        replications=bench.replications,
        over=problem.spec.over,
        draws=len(problem.draws) - 1,
        aims=list(problem.aims),
        conditions=[condition.text for condition in problem.conditions],
        axes={name: _axis(name, bench, result.raced) for name in problem.domains},
        combinations=problem.size,
        answer=next(map(summary, answers), None),
        neighbours=_neighbours(answers[0], bench) if answers and result.raced is None else [],
        settings=_settings(answers[0]) if answers else [],
        runner_up=None if result.front else next(map(summary, answers[1:]), None),
        as_good=_as_good(result),
        top=result.top,
        edge=None if result.edge is None else _edge(result.edge, bench),
        front=[FrontMember(**_trial(member.trial, bench), certain=member.is_certain) for member in result.front],
        trials=[summary(trial) for trial in trials],
        confirmation=result.confirmation,
        closed_form=result.formula,
        closed_form_left_out=_without_formula(bench),
        assumptions=list(study.assumptions),
        left_out=_left_out(result),
        warnings=_warnings(answers if result.front else answers[:1], bench),
        provenance=provenance(command, scenario_sha256=problem.loaded.digest),
    )
    return document if statement is None else document.model_copy(update=statement.fields())


def _summary(trial: Trial, bench: Evaluator, statement: Statement | None) -> TrialSummary:
    """Return a trial, with its bound and its part of each budget where these are known."""
    return TrialSummary(**_trial(trial, bench), **({} if statement is None else statement.of_trial(trial)))


def _neighbours(answer: Trial, bench: Evaluator) -> list[NeighbourSummary]:
    """Return what came of the neighbours of the answer; none of a curve between two ends."""
    neighbours = []
    for chosen, axis in bench.problem.neighbours(answer.chosen):
        trial = bench.trial_of(chosen)
        if trial is not None:
            to = bench.labels(chosen)[axis]
            neighbours.append(NeighbourSummary(axis=axis, to=to, status=trial.status, reason=trial.trouble))
    return neighbours


def _warnings(answers: Sequence[Trial], bench: Evaluator) -> list[str]:
    """Return what the answers warn of; and where idle nodes served like spares, which makes the others look better."""
    about_spares = [
        line for trial in bench.candidates for line in trial.cell.stated.warnings if line.startswith("spares.idle ")
    ]
    return list(dict.fromkeys([*about_spares, *(line for trial in answers for line in trial.cell.stated.warnings)]))


def _left_out(result: OptimizationResult) -> list[str]:
    """Return the parts that a limit of time left out of a search that has an answer."""
    raced = result.raced
    if raced is None or raced.outcome.best < 0:
        return []
    outcome = raced.outcome
    parts = []
    if np.isfinite(raced.bound).any() and outcome.limits.left > -math.inf and not outcome.audit.candidates:
        parts.append("the check of the bounds")
    unseen = sum(index not in raced.trials for index, _ in neighbours(raced.listing, outcome.best))
    parts += [number_of(unseen, "neighbour") + " of the answer"] if unseen else []
    return [*parts, *(["the confirmation on fresh failures"] if result.confirmation is None else [])]


def _axis(name: str, bench: Evaluator, raced: Raced | None) -> OptimizeAxis:
    """Return where an axis was looked at."""
    domain = bench.problem.domains[name]
    axis = bench.problem.loaded.study.vary[name]
    title = axis.title or name
    if raced is not None:
        column = raced.listing.names.index(name)
        labels = dict.fromkeys(candidate[column].label for candidate in raced.listing.candidates)
        return OptimizeAxis(title=title, noun=axis.noun, values=list(labels))
    if not isinstance(domain, NumericRange):
        return OptimizeAxis(title=title, noun=axis.noun, values=[value.label for value in domain.values])
    ends = [value.label for value in domain.spread(2)]
    return OptimizeAxis(title=title, noun=axis.noun, from_=ends[0], to=ends[1], size=domain.size)


def _trial(trial: Trial, bench: Evaluator) -> dict[str, Any]:
    """Return the fields of a combination."""
    problem = bench.problem
    pairs = zip(problem.conditions, trial.bounded, trial.verdicts, strict=True)
    names = problem.domains if trial.chosen else ()
    return {
        "values": bench.labels(trial.chosen),
        "numbers": {name: value.number for name, value in zip(names, trial.chosen, strict=True)},
        "aims": {
            aim.name: AimResult(mean=aimed.mean, ci95=with_width(aimed.interval))
            for aim, aimed in zip(problem.aims, trial.aims, strict=True)
        },
        "conditions": [
            ConditionSummary(
                condition=condition.text,
                metric=condition.metric,
                bound=condition.bound,
                mean=bound.mean,
                ci95=with_width(bound.interval),
                verdict=verdict,
                doubt=doubt_of_cell(trial.cell, condition.metric, over_draws=problem.over_draws),
            )
            for condition, bound, verdict in pairs
        ],
        "met": trial.is_met,
        "closed_form": trial.cell.stated.formula,
        "trouble": trial.trouble,
    }


def _settings(trial: Trial) -> list[str]:
    """Return what a combination writes into the scenario, as ``path=value``."""
    stated = trial.cell.stated.point
    chosen_ids = {id(value) for value in trial.chosen}
    values = [value for value in stated.values if id(value) in chosen_ids]
    return list(stated._replace(values=tuple(values)).overrides)


def _in_order(bench: Evaluator) -> list[Trial]:
    """Return the trials: along its axis if there is one alone, else as it came."""
    domains = list(bench.problem.domains.values())
    if len(domains) == 1 and isinstance(domains[0], NumericRange):
        return sorted(bench.candidates, key=lambda trial: trial.chosen[0].number or 0.0)
    return bench.candidates


def _as_good(result: OptimizationResult) -> EquivalentRange | None:
    """Return what is as good as the answer at this precision."""
    ranking, bench = result.ranking, result.bench
    if result.front or result.edge is not None or not ranking.as_good:
        return None
    trials = [trial for trial in _in_order(bench) if trial in ranking.as_good]
    return EquivalentRange(
        values=[bench.labels(trial.chosen) for trial in trials],
        equal=[bench.labels(trial.chosen) for trial in ranking.equal],
        loss_below=ranking.loss,
        replications_to_resolve=ranking.replications_to_resolve,
    )


def _edge(edge: Edge, bench: Evaluator) -> EdgeSummary:
    """Return up to where conditions hold."""
    return EdgeSummary(
        surely_not=None if edge.surely_not is None else bench.labels(edge.surely_not.chosen),
        surely=None if edge.surely is None else bench.labels(edge.surely.chosen),
        islands=[bench.labels(trial.chosen) for trial in edge.islands],
    )


def _as_it_is(bench: Evaluator) -> dict[str, str]:
    """Return what the scenario as it is says of each axis, where that is one value."""
    problem = bench.problem
    content = problem.loaded.template.scenario(problem.loaded.common).dump()
    labels: dict[str, str] = {}
    for name in problem.domains:
        axis = problem.loaded.study.vary[name]
        if axis.derive is None and (not isinstance(axis.choices, dict) or axis.path or axis.paths):
            value = _value_at(content, axis.targets(name)[0].split("."))
            labels |= {} if value is None else {name: label_of(value)}
    return labels


def _value_at(content: Any, path: Sequence[str]) -> Any:
    """Return what stands at a path of plain data; ``None`` where there is no such place."""
    for step in path:
        if isinstance(content, dict):
            content = content.get(step)
        elif isinstance(content, list) and step.isdecimal() and int(step) < len(content):
            content = content[int(step)]
        else:
            return None
    return content


def _without_formula(bench: Evaluator) -> FormulaLeftOut | None:
    """Return for how many combinations the closed form does not apply, and why it does not for the first."""
    reasons = [trial.cell.stated.no_formula for trial in bench.candidates if trial.cell.stated.no_formula]
    return FormulaLeftOut(combinations=len(reasons), reason=reasons[0][0]) if reasons else None


_MOST_CONFIRMED = 8
"""Members of a front that are confirmed."""


@dataclass(frozen=True)
class OptimizationResult:
    """Everything that an optimisation found.

    Parameters
    ----------
    method
        ``curve``, ``edge``, ``all`` or ``search``.
    front
        With several aims, what no other combination beats in all of them.
    top
        On a line, where the curve is highest.
    edge
        Where an axis is to be as low or high as conditions allow, up to where they hold.
    confirmation
        On fresh failures; ``None`` if nothing keeps the conditions.
    raced
        The search over listed candidates; ``None`` for other methods.
    fresh
        The answer on fresh failures.
    """

    bench: Evaluator
    method: str
    ranking: TrialRanking
    front: tuple[Member, ...]
    top: TopSummary | None
    edge: Edge | None
    confirmation: ConfirmationSummary | None
    formula: FormulaSummary | None
    raced: Raced | None = None
    fresh: Trial | None = None


def optimize(
    campaign: Campaign, *, trials: int | None = None, replications: int | None = None, seconds: float | None = None
) -> OptimizationResult:
    """Return what a study asks to be optimised, found and confirmed; what the journal has is not simulated again.

    Parameters
    ----------
    trials
        Combinations that are evaluated where a search is needed; ``None`` as the study says.
    replications
        Of each combination; ``None`` as the study says, or as many as the race of listed candidates needs.
    seconds
        After which the search of listed candidates ends with what it knows, and so with another answer on a slower
        machine; what comes after it is left out, and the document says so. ``None`` for no limit.

    Raises
    ------
    ScenarioError
        With one line for each mistake of the study.
    ReplicationsError
        If a search is needed, and Optuna is not installed.
    """
    problem = problem_of(campaign.loaded)
    is_over = _over_after(seconds)
    replications = replications or replications_of(campaign.loaded.study)
    most = trials or problem.spec.trials
    count = counted(campaign.progress, _expected_tasks(problem, most, replications))
    bench = Evaluator(problem, dataclasses.replace(campaign, progress=count), replications)
    raced = race(bench, most, is_over) if problem.is_listed else None
    method, top, edge = ("bounds", None, None) if raced is not None else _look(bench, most)
    ranking = rank_trials(bench) if raced is None else raced.ranking
    front = tuple(front_of(bench)) if len(problem.aims) > 1 else ()
    if edge is not None and edge.answer is not None:
        order = tuple(sorted(ranking.order, key=lambda trial: trial in edge.islands))  # by chance: these come last
        ranking = ranking._replace(order=order, as_good=order[:1])
    looked_at = [member.trial for member in front][:_MOST_CONFIRMED] or list(ranking.order[:2])
    confirmed = confirm(bench, looked_at, problem.spec.confirm) if looked_at and not is_over() else (None, None)
    formula = formula_answer(bench, looked_at[0] if looked_at else None)
    return OptimizationResult(bench, method, ranking, front, top, edge, confirmed[0], formula, raced, confirmed[1])


def _over_after(seconds: float | None) -> Callable[[], bool]:
    """Return whether so much time from now on is over; it never is of ``None``."""
    end = math.inf if seconds is None else time.monotonic() + seconds
    return lambda: time.monotonic() > end


def _is_small(problem: Problem) -> bool:
    """Return whether every combination is evaluated."""
    return problem.size is not None and problem.size <= ALL


def _expected_tasks(problem: Problem, trials: int, replications: int) -> int:
    """Return about how many tasks there are to simulate."""
    looks = problem.size if _is_small(problem) and problem.size is not None else trials
    if len(problem.domains) == len(problem.aims) == 1:
        # Of one axis what comes after the first look is not known: about as much again.
        looks = 2 * COARSE
    confirmed = (2 if len(problem.aims) == 1 else _MOST_CONFIRMED) + 1
    tasks = looks * len(blocks(0, replications)) + confirmed * len(blocks(0, problem.spec.confirm))
    return tasks * len(problem.draws)


def _look(bench: Evaluator, trials: int) -> tuple[str, TopSummary | None, Edge | None]:
    """Evaluate combinations by the method that suits the problem; return it, and what it says of an only axis."""
    problem = bench.problem
    line, aim = problem.line, problem.aims[0]
    method, top = "search", None
    if line is not None and aim.is_axis:
        method = "edge"
        walk_to_edge(bench, line, aim)
    elif line is not None:
        method, top = "curve", climb(bench, line, aim)
    elif _is_small(problem):
        method = "all"
        simulate_all(bench)
    else:
        search(bench, trials)
    if problem.size is not None or len(problem.domains) > 1:
        # A curve between two ends has its own way to look beside its top.
        close(bench)
    return method, top, edge_of(bench, aim) if method == "edge" else None


# Why fresh failures confirm an answer, deny it, or do neither, and what would resolve it.

_MOST = 100_000
"""Replications from which on a condition is not worth being resolved."""


def why(content: OptimizeDocument) -> Iterator[str]:
    """Yield for each condition and gain of a document that is not confirmed what speaks against it, a line each."""
    fresh = content.confirmation
    if fresh is None:
        return
    answer = fresh.trials[0]
    if answer.trouble:
        yield f"the answer cannot run: {answer.trouble}"
        return
    for condition in answer.conditions:
        if condition.verdict == "fails":
            yield f"{condition.condition} fails"
        elif condition.verdict == "open":
            yield f"{condition.condition} is not resolved: {_what_would_tell(condition, content)}"
    aim = content.aims[0]
    gain = answer.gain[aim.name]
    if gain is None or (fresh.as_it_is is not None and not fresh.as_it_is.met):
        return
    if gain.resolved and gain.mean < 0:
        yield "the scenario as it is is better"
    elif not gain.resolved and gain.ci95 is None:
        yield "the scenario as it is is as good in every replication"
    elif not gain.resolved:
        needed = gain.replications_to_resolve
        worded = "" if needed is None else f": confirm: {needed} would show it, if mean and spread stay as they are"
        yield f"not resolved whether it is better than the scenario as it is{worded}"


def _what_would_tell(condition: ConditionSummary, content: OptimizeDocument) -> str:
    """Return how many replications, or draws, would leave the bound of an open condition outside of its interval."""
    draws, runs = content.draws, content.confirmation.replications if content.confirmation else 0
    mean, bound = condition.mean or 0.0, condition.bound or 0.0
    is_least = ">=" in condition.condition
    fewest = _fewest(condition.metric, bound, is_least=is_least) if draws else 0
    if min(draws, runs) < fewest:
        return f"to show it takes {fewest} draws and {fewest} replications at least"
    if condition.ci95 is None:
        return "all replications are equal, which shows nothing of others"
    if condition.doubt is not None and condition.doubt >= abs(mean - bound):
        is_points = is_share(condition.metric)
        size = f"{100 * condition.doubt:.2g} percentage points" if is_points else f"{condition.doubt:.2g}"
        return f"the replay of requests alone leaves {size}; other seeds would tell, more replications would not"
    if mean == bound:
        return "the mean is the bound"
    needed = _replications_to_tell(condition.metric, mean, bound, condition.ci95, draws, runs, is_least=is_least)
    if needed is None or needed > _MOST:
        return f"more than {_MOST:,} replications would be needed"
    if draws:
        return f"about {number_of(math.ceil(draws * needed / runs), 'draw')} and {needed:,} replications would tell"
    side = "" if (mean > bound) == is_least else ", which is that it fails,"
    return f"confirm: {needed} would show it{side} if mean and spread stay as they are"


def _fewest(metric: str, bound: float, *, is_least: bool) -> int:
    """Return how many draws and replications a probability takes that all end alike; 0 where there is no such number.

    Of P <= b it is the probability of the contrary that has to be at least 1 - b.
    """
    return (replications_to_hold(1.0, bound if is_least else 1 - bound) or 0) if metric in PROBABILITIES else 0


def _replications_to_tell(
    metric: str, mean: float, bound: float, interval: Interval, draws: int, runs: int, *, is_least: bool
) -> int | None:
    """Return how many replications would leave a bound outside of an interval; ``None`` for far too many."""
    if metric in PROBABILITIES and not draws and is_least and mean > bound:
        return replications_to_hold(mean, bound)
    # An interval shrinks with the root of the replications; the side on which the bound lies counts.
    reach = interval[1] - mean if bound > mean else mean - interval[0]
    return math.ceil(runs * (reach / (bound - mean)) ** 2)


def replications_to_hold(mean: float, bound: float) -> int | None:
    """Return how many runs would leave a share of runs surely at or above a bound, if the share stays as it is.

    ``None`` for more than 100,000, and for a share that is not above the bound.
    """
    if mean <= bound:
        return None
    low, high = 1, _MOST
    while low < high:
        middle = (low + high) // 2
        if binomial_interval(mean * middle, middle)[0] >= bound:
            high = middle
        else:
            low = middle + 1
    return low if low < _MOST else None

"""Which metrics the points of a study can have, told before they are played."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import sim
from analysis.metrics import provisioned
from sim.input import complaints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from analysis.study.load import LoadedStudy
    from sim import Prepared
    from sim.yamlfile import Keys

_MOST = 60

"""Points that are looked at: one takes some tens of milliseconds at most."""


class _Need(NamedTuple):
    """What a scenario must state for some metrics.

    Parameters
    ----------
    metrics
        The metrics.
    has
        Whether a scenario states it.
    rule
        What to say where no point does.
    """

    metrics: frozenset[str]
    has: Callable[[Prepared], bool]
    rule: str


_TOKENS = ("tokens_per_day", "tokens_per_gpu_day", "tokens_per_mw_day", "energy_per_token", "cost_per_token")

_NEEDS = (
    _Need(
        frozenset({"cost", "cost_per_token"}),
        lambda prepared: prepared.upkeep.cost is not None,
        "prices are not known: give cost.gpu_hour, or cost.capex and cost.years",
    ),
    _Need(
        frozenset({"energy", "energy_per_token", "tokens_per_mw_day"}),
        lambda prepared: provisioned(prepared) is not None,
        "it is not known what a node draws: give power.idle and power.training",
    ),
    _Need(
        frozenset(_TOKENS),
        lambda prepared: all(plan.tokens_per_second > 0 for plan in prepared.jobs),
        "the tokens of every job are not known: give each a batch, and a step_time or a model",
    ),
    _Need(
        frozenset({"program_goodput", "goodput", "effective_mfu"}),
        lambda prepared: all(plan.mfu is not None for plan in prepared.jobs),
        "the utilisation of every job is not known: give each a model, a batch and a layout, or an mfu",
    ),
    _Need(
        frozenset({"steps_per_day"}),
        lambda prepared: all(plan.step_time > 0 for plan in prepared.jobs),
        "the step of every job is not known: give each a step_time or a model",
    ),
    _Need(
        frozenset({"time_to_work", "p_finish_by"}),
        lambda prepared: any(math.isfinite(plan.target) for plan in prepared.jobs),
        "no job has an end: give it work",
    ),
    _Need(
        frozenset({"p_finish_by"}),
        lambda prepared: any(plan.deadline is not None for plan in prepared.jobs),
        "no job has a deadline: give it one",
    ),
)


def against_metrics(loaded: LoadedStudy) -> list[str]:
    """Return a line for each metric that a study names and no point can have; nothing if all can be had.

    Points are looked at until all metrics are found, each with a value that none before it had. What one point states
    and what another one states may come together in a third, so a metric is only refused for what no point states; nor
    is any where one of these points cannot run.
    """
    named = dict(_named(loaded))
    needs = [need for need in _NEEDS if need.metrics & set(named.values())]
    if not needs:
        return []
    for overrides in _spread(loaded):
        try:
            prepared = sim.prepare(loaded.template.scenario(overrides))
        except (sim.ScenarioError, sim.PathError):
            return []  # what such a point states is not known; after it was played it is
        needs = [need for need in needs if not need.has(prepared)]
        if not needs:
            return []
    found = []
    for at, metric in named.items():
        rule = next((need.rule for need in needs if metric in need.metrics), None)
        if rule is not None:
            found.append(complaints.line(loaded.document, at, f"no point has a {metric}: {rule}"))
    return found


def _named(loaded: LoadedStudy) -> Iterator[tuple[Keys, str]]:
    """Yield every place at which a study names a metric that is to be told, with the metric."""
    study = loaded.study
    yield from ((("metrics", index), name) for index, name in enumerate(study.metrics))
    for place, question in enumerate(study.questions):
        yield from ((("questions", place), name) for name in question.metrics if name not in study.metrics)
    if study.precision is not None and study.precision.metric:
        yield ("precision", "metric"), study.precision.metric


def _spread(loaded: LoadedStudy) -> Iterator[tuple[str, ...]]:
    """Yield what makes the scenarios of points that show every value of every axis."""
    seen: set[tuple[int, str]] = set()
    count = 0
    for point in loaded.points():
        values = {(place, value.label) for place, value in enumerate(point.values)}
        if point.draw == 0 and not values <= seen:
            seen |= values
            count += 1
            yield loaded.overrides(point)
        if count == _MOST:
            return

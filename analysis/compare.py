"""Variants of a question on the same failures: what each comes to, and by how much it differs from the first."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from analysis.at_equal import Equal, headline_at_equal, obtainable
from analysis.ensemble import BATCH, FEWEST, MOST, Gathering, Precision, RequestError
from analysis.metrics import SHARES, lower_is_better, means
from analysis.paired import Difference, difference
from analysis.processes import in_order
from analysis.ranking import Ranking, ranking_of
from sim import MOST_EVENTS, check_work, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from analysis.ensemble import Ensemble
    from sim import Prepared, Ratio, Result, Scenario

__all__ = ["Comparison", "Variant", "by_value", "compare", "headline", "keys_that_differ", "what_differs"]

_TEXTS = ("name", "description", "assumptions", "cluster.name")
"""Keys that no result depends on."""
_LABELS = ("name", "store", "observer", "use")
"""Keys that tell which items of two lists are the same thing."""
_BRIEF, _MOST_NAMES = 60, 4
"""Letters of a value, and names of variants, that a line about a key has at most."""


class Variant(NamedTuple):
    """One of several things to compare, by name."""

    name: str
    prepared: Prepared


@dataclass(frozen=True)
class Comparison:
    """Variants with the same replications.

    Parameters
    ----------
    names, ensembles
        The variants and their replications, in the order given; the first is what the others are compared with.
    differences
        For each variant, how far each metric that both have is from the first's; ``None`` where the data do not tell.
        Empty for the first.
    headline
        Metric that they are compared by.
    differs
        What makes shares of the peak no measure of which variant is better: model, precision, layout or accelerator.
    precise
        Whether a precision that was asked for was reached; ``None`` if none was.
    at_equal
        What unlike clusters are compared at; ``None`` where they are compared as they are.
    """

    names: tuple[str, ...]
    ensembles: tuple[Ensemble, ...]
    differences: tuple[dict[str, Difference | None], ...]
    headline: str
    differs: tuple[str, ...]
    precise: bool | None = None
    at_equal: Equal | None = None

    @property
    def replications(self) -> int:
        """How many replications each variant has."""
        return len(self.ensembles[0].rows)

    @property
    def order(self) -> tuple[str, ...]:
        """The variants, best first by the mean of the headline; empty where none is known that may rank them."""
        if self.differs and self.headline in SHARES:
            return ()
        sign = 1 if lower_is_better(self.headline) else -1
        found = {
            name: means(ensemble.rows)[self.headline] for name, ensemble in zip(self.names, self.ensembles, strict=True)
        }
        known = {name: mean for name, mean in found.items() if mean is not None}
        return tuple(sorted(known, key=lambda name: sign * known[name]))

    @property
    def ranking(self) -> Ranking | None:
        """Which variants may be the best, together at 95 %; ``None`` for two, whose difference says it, or no rank."""
        if len(self.names) < 3 or not self.order:
            return None
        rows = [[row[self.headline] for row in ensemble.rows] for ensemble in self.ensembles]
        return ranking_of(rows, lowest=lower_is_better(self.headline), metric=self.headline)


def compare(
    variants: Sequence[Variant],
    replications: int,
    *,
    precision: Precision | None = None,
    at_equal: Equal | None = None,
    processes: int = 0,
    progress: Callable[[int, int | None], None] | None = None,
    most_events: float = MOST_EVENTS,
) -> Comparison:
    """Simulate the same replications of all variants.

    The failures of a replication are the same for every variant, because what is drawn does not depend on policies:
    what is common to all of them cancels in a difference.

    Parameters
    ----------
    variants
        At least one; all with the same seed.
    replications
        How many of each; with `precision`, ignored.
    precision
        Replicate until the interval of every variant's difference in the headline is as narrow as this; a part is one
        of the first variant's mean.
    at_equal
        What unlike clusters are compared at; it chooses the headline, see `analysis.at_equal`.
    processes
        Worker processes at most; 0 for one per core. The numbers do not depend on it.
    progress
        Called with the number of replications done, over all variants, and the total (``None`` if unknown).
    most_events
        How many events may be simulated.

    Raises
    ------
    RequestError
        If seeds or currencies differ, `precision` is in points and the headline is not a share, or a variant does not
        say what `at_equal` needs.
    WorkError
        If more events are expected than may be; of a precision for the replications that are known to be needed.
    """
    _check_common(variants)
    found = [Gathering(variant.prepared) for variant in variants]
    rows = [mine.rows for mine in found]
    differs = what_differs([variant.prepared.scenario for variant in variants])
    metric = "" if at_equal is None else _at_equal(at_equal, variants, differs)
    goal = replications if precision is None else FEWEST
    precise = None if precision is None else False
    while len(rows[0]) < goal:
        check_work(goal * sum(variant.prepared.expected_events for variant in variants), most_events)
        indices = range(len(variants) * len(rows[0]), len(variants) * goal)
        # Replication by replication, so that all variants get equally far whatever happens.
        work = in_order(_play, cast("Any", tuple(variant.prepared for variant in variants)), indices, processes)
        with contextlib.closing(work) as source:
            for index, result in zip(indices, source, strict=True):
                position = index % len(variants)
                found[position].add(result)
                if progress is not None:
                    progress(index + 1, None if precision is not None else indices.stop)
        metric = metric or headline([mine[0] for mine in rows], differs)
        if precision is not None:
            _check(precision, metric)
            excess = _excess(rows, metric, precision)
            precise = excess <= 1
            if not precise:
                goal = _next_goal(len(rows[0]), excess)
    ensembles = tuple(mine.ensemble() for mine in found)
    return Comparison(
        tuple(variant.name for variant in variants),
        ensembles,
        ({}, *(_differences(ensemble, ensembles[0]) for ensemble in ensembles[1:])),
        metric,
        differs,
        precise,
        at_equal,
    )


def headline(rows: Sequence[Mapping[str, Ratio]], differs: Sequence[str]) -> str:
    """Return the metric that variants are compared by, given one replication of each.

    Shares of the peak rank variants of the same job on the same hardware only: elsewhere they would punish the faster
    hardware. Then the cost of a token tells which is better, or how many a day makes; where neither is known, nothing
    does, and `ettr` is shown without a rank.
    """
    known = set.intersection(*(set(row) for row in rows))
    wanted = ("cost_per_token", "tokens_per_day") if differs else ("goodput",)
    return next((name for name in wanted if name in known), "ettr")


def what_differs(scenarios: Sequence[Scenario]) -> tuple[str, ...]:
    """Return which of model, precision, layout and accelerator are not the same in all scenarios."""
    found: dict[str, list[Any]] = {"model": [], "precision": [], "layout": [], "accelerator": []}
    for scenario in scenarios:
        cluster: Any = scenario.cluster
        found["model"].append([job.model for job in scenario.jobs])
        found["precision"].append([job.precision for job in scenario.jobs])
        found["layout"].append([job.parallelism for job in scenario.jobs])
        found["accelerator"].append([pool.accelerator for pool in cluster.all_pools])
    return tuple(name for name, values in found.items() if any(value != values[0] for value in values))


def keys_that_differ(scenarios: Mapping[str, Scenario], varied: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return each key whose value is not the same in all scenarios, with the values by name; ``None`` if not stated.

    Parameters
    ----------
    scenarios
        By name.
    varied
        Dotted paths that differ on purpose: they and what is in them are left out.
    """
    found = {}
    for path, values in _apart([scenario.dump() for scenario in scenarios.values()], ""):
        is_known = any(path == known or path.startswith(f"{known}.") for known in (*varied, *_TEXTS))
        if not is_known:
            found[path] = dict(zip(scenarios, values, strict=True))
    return found


def _apart(values: Sequence[Any], path: str) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the paths at which plain data differ, with what each of them has there."""
    start = f"{path}." if path else ""
    if all(value == values[0] for value in values):
        return
    if all(isinstance(value, dict) for value in values) and len({value.get("law") for value in values}) == 1:
        for key in dict.fromkeys(key for value in values for key in value):
            yield from _apart([value.get(key) for value in values], f"{start}{key}")
    elif all(isinstance(value, list) for value in values) and len({_labels(value) for value in values}) == 1:
        for index, items in enumerate(zip(*values, strict=True)):
            yield from _apart(items, f"{start}{index}")
    else:
        yield path, values


def by_value(values: Mapping[str, Any]) -> str:
    """Return each value of a key in a few words, with the names of those that have it."""
    having: dict[str, list[str]] = {}
    for name, value in values.items():
        having.setdefault(_brief(value), []).append(name)
    return "; ".join(
        f"{value} ({', '.join(names[:_MOST_NAMES])}{f' and {rest} more' if rest > 0 else ''})"
        for value, names in having.items()
        for rest in (len(names) - _MOST_NAMES,)
    )


def _brief(value: Any) -> str:
    """Return a value of a scenario in a few words."""
    if value is None:
        return "not stated"
    if isinstance(value, list):
        return ", ".join(_labels(value)) or "none"
    if isinstance(value, dict):
        value = ", ".join(f"{key}: {_brief(part)}" for key, part in value.items())
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _BRIEF else f"{text[: _BRIEF - 3]}..."


def _labels(items: Sequence[Any]) -> tuple[str, ...]:
    """Return what the items of a list are called."""
    return tuple(
        str(next((item[key] for key in _LABELS if key in item), "item") if isinstance(item, dict) else item)
        for item in items
    )


def _at_equal(kind: Equal, variants: Sequence[Variant], differs: Sequence[str]) -> str:
    """Return the headline at equal GPUs, power or cost."""
    return headline_at_equal(kind, {variant.name: obtainable(variant.prepared) for variant in variants}, differs)


def _play(variants: Any, index: int) -> Result:
    """Simulate one replication of one variant."""
    replication, position = divmod(index, len(variants))
    return run(variants[position], replication, most_events=math.inf)


def _differences(ours: Ensemble, theirs: Ensemble) -> dict[str, Difference | None]:
    """Return how far each metric that both have is from the first variant's."""
    mine, first = ours.rows, theirs.rows
    # What is common to both: the luck of one alone may hang on a few replications in which nodes ran out.
    pairs = zip(ours.luck, theirs.luck, strict=True) if ours.luck and theirs.luck else ()
    luck = [tuple(map(sum, zip(*pair, strict=True))) for pair in pairs]
    common = [name for name in mine[0] if name in first[0]]
    return {name: difference([row[name] for row in mine], [row[name] for row in first], luck) for name in common}


def _check_common(variants: Sequence[Variant]) -> None:
    """Refuse variants whose failures or prices are not comparable."""
    seeds = sorted({variant.prepared.seed for variant in variants})
    if len(seeds) > 1:
        message = f"seed: is {' and '.join(map(str, seeds))}; variants meet the same failures only with the same seed"
        raise RequestError(message)
    costs = [variant.prepared.upkeep.cost for variant in variants]
    currencies = sorted({cost.currency for cost in costs if cost is not None})
    if len(currencies) > 1:
        message = f"cost.currency: is {' and '.join(currencies)}; prices of variants must be in the same"
        raise RequestError(message)


def _check(precision: Precision, metric: str) -> None:
    """Refuse points of what is no share."""
    if not precision.relative and metric not in SHARES:
        message = f"points are for shares, and {metric} is not one: write a precision such as 2%"
        raise RequestError(message)


def _excess(rows: Sequence[Sequence[Mapping[str, Ratio]]], metric: str, precision: Precision) -> float:
    """Return the widest interval of a difference over what it should be [-]; infinite where there is none."""
    mean = means(rows[0])[metric]
    wanted = precision.width * (abs(mean or 0.0) if precision.relative else 1.0)
    worst = 0.0
    for mine in rows[1:]:
        found = difference([row[metric] for row in mine], [row[metric] for row in rows[0]])
        if found is None or not wanted:
            return math.inf
        worst = max(worst, (found.ci95[1] - found.ci95[0]) / 2 / wanted)
    return worst


def _next_goal(done: int, excess: float) -> int:
    """Return how many replications to decide at next: as many as seem to be enough, but no more than four times these.

    Where there is no interval, none will come: the search ends.
    """
    if math.isinf(excess):
        return done
    seems = BATCH * math.ceil(done * excess**2 / BATCH)
    return min(max(seems, done + BATCH), 4 * done, MOST)

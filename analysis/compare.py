"""Variants of a question on the same failures: what each comes to, and by how much it differs from the first."""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ettrick import sim
from ettrick.analysis.at_equal import Equal, at_equal_lines, headline_at_equal, taken
from ettrick.analysis.metrics import METRICS, is_exact, is_share, lower_is_better
from ettrick.analysis.parts import FORMAT, DifferenceSummary
from ettrick.analysis.results.fleet import growth_of
from ettrick.analysis.results.models import (
    AtEqual,
    CompareDocument,
    RankingSummary,
    RunDocument,
    Shortfall,
    StoresSummary,
    VariantSummary,
)
from ettrick.analysis.results.run import document, provenance
from ettrick.analysis.runs import EnsembleBuilder, in_order
from ettrick.analysis.statistics.differences import Ranking, difference, of_pair, ranking_of
from ettrick.analysis.statistics.estimates import means, with_width
from ettrick.analysis.statistics.precision import FEWEST, MOST, Precision, ReplicationsError, next_goal
from ettrick.sim import MOST_EVENTS, check_work, run, with_engine
from ettrick.sim.scenario.laws import LAW_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ettrick.analysis.runs import Ensemble
    from ettrick.sim import Prepared, Ratio, Result, Scenario

_TEXTS = ("name", "description", "assumptions", "cluster.name")
"""Keys that no result depends on."""

_LABELS = ("name", "store", "use")
"""Keys that identify the items of a list."""

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
        For each variant, how far each metric that both have is from the first's; ``None`` where the data do not show
        it. Empty for the first.
    differs
        What makes shares of the peak no measure of which variant is better: model, precision, layout or accelerator.
    precise
        Whether a precision that was asked for was reached; ``None`` if none was.
    at_equal
        What unlike clusters are compared at; ``None`` where they are compared as they are.
    """

    names: tuple[str, ...]
    ensembles: tuple[Ensemble, ...]
    differences: tuple[dict[str, DifferenceSummary | None], ...]
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
        if self.differs and is_share(self.headline) and self.headline != "slo_attainment":
            return ()
        if self.cost_cannot_tell:
            return ()
        sign = 1 if lower_is_better(self.headline) else -1
        found = {
            name: means(ensemble.rows)[self.headline] for name, ensemble in zip(self.names, self.ensembles, strict=True)
        }
        known = {name: mean for name, mean in found.items() if mean is not None}
        return tuple(sorted(known, key=lambda name: sign * known[name]))

    @property
    def cost_cannot_tell(self) -> bool:
        """Whether costs differ by failures alone: services with the same demand on as many GPUs at the same prices."""
        if not self.headline.startswith("cost"):
            return False
        prepared = [ensemble.prepared for ensemble in self.ensembles]
        alike = [
            (each.upkeep.cost, each.nodes * each.gpus_per_node, [plan.rates for plan in each.services])
            for each in prepared
        ]
        return all(each.services and not each.jobs and not each.streams for each in prepared) and all(
            other == alike[0] for other in alike
        )

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
        How many of each; with `precision`, ignored, and where nothing is random in any variant: one tells all then.
    precision
        Replicate until the interval of every variant's difference in the headline is as narrow as this; a part is one
        of the first variant's mean.
    at_equal
        What unlike clusters are compared at; it chooses the headline, see `ettrick.analysis.at_equal`.

    Raises
    ------
    RequestError
        If seeds or currencies differ, `precision` is in points and the headline is not a share, or a variant does not
        say what `at_equal` needs.
    WorkError
        If more events are expected than may be; of a precision for the replications that are known to be needed.
    """
    _check_common(variants)
    variants = [
        variant._replace(prepared=with_engine(variant.prepared, replications if precision is None else FEWEST))
        for variant in variants
    ]
    found = [EnsembleBuilder(variant.prepared) for variant in variants]
    rows = [mine.rows for mine in found]
    differs = what_differs([variant.prepared.scenario for variant in variants])
    metric = "" if at_equal is None else _at_equal(at_equal, variants, differs)
    random = any(not variant.prepared.is_deterministic for variant in variants)
    if random and replications < 2 and precision is None:
        raise ReplicationsError(f"--replications {replications}: chance is in the variants; at least 2 show how much")
    goal = 1 if not random else replications if precision is None else FEWEST
    precise = None if precision is None else False
    while len(rows[0]) < goal:
        check_work(goal * sum(variant.prepared.expected_events for variant in variants), most_events)
        indices = range(len(variants) * len(rows[0]), len(variants) * goal)
        # Replication by replication, so that all variants get equally far whatever happens.
        work = in_order(_simulate, cast("Any", tuple(variant.prepared for variant in variants)), indices, processes)
        with contextlib.closing(work) as source:
            for index, result in zip(indices, source, strict=True):
                position = index % len(variants)
                found[position].add(result)
                if progress is not None:
                    progress(index + 1, None if precision is not None else indices.stop)
        metric = metric or headline([mine[0] for mine in rows], differs, grows=_grows(*(f.ensemble() for f in found)))
        if precision is not None:
            precision.check(metric)
            excess = _excess(found, metric, precision)
            precise, goal = excess <= 1, next_goal(goal, excess, MOST)
    ensembles = tuple(mine.ensemble() for mine in found)
    return Comparison(
        tuple(variant.name for variant in variants),
        ensembles,
        ({}, *(differences(ensemble, ensembles[0]) for ensemble in ensembles[1:])),
        metric,
        differs,
        precise,
        at_equal,
    )


def headline(rows: Sequence[Mapping[str, Ratio]], differs: Sequence[str], *, grows: bool = False) -> str:
    """Return the metric that variants are compared by, given one replication of each.

    Shares of the peak rank variants of the same job on the same hardware only: elsewhere they would punish the faster
    hardware. Then the cost of a token decides, or how many a day makes; where neither is known, nothing
    does, and `ettr` is shown without a rank. Of streams it is `ettr`, since below saturation the load makes the
    goodput of the cluster; where the queue of a variant `grows` without end, only that goodput has a mean. Services
    alone are compared by the requests that meet their SLO.
    """
    known = set.intersection(*(set(row) for row in rows))
    wanted = ("cost_per_token", "tokens_per_day") if differs else ("goodput",)
    if "occupancy" in known:
        wanted = ("cluster_goodput" if grows else "ettr",)
    return next((name for name in wanted if name in known), "ettr" if "ettr" in known else "slo_attainment")


def what_differs(scenarios: Sequence[Scenario]) -> tuple[str, ...]:
    """Return which of model, precision, layout and accelerator are not the same in all scenarios."""
    found: dict[str, list[Any]] = {"model": [], "precision": [], "layout": [], "accelerator": []}
    for scenario in scenarios:
        cluster = scenario.cluster
        found["model"].append([job.model for job in scenario.jobs])
        found["precision"].append([job.precision for job in scenario.jobs])
        found["layout"].append([job.parallelism for job in scenario.jobs])
        found["accelerator"].append([pool.accelerator for pool in cluster.all_pools])
    return tuple(name for name, values in found.items() if any(value != values[0] for value in values))


def keys_that_differ(scenarios: Mapping[str, Scenario], varied: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return each key whose value is not the same in all scenarios, with the values by name; ``None`` if not stated.

    Parameters
    ----------
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
    uses = {value.get("use") for value in values if isinstance(value, dict)}
    if all(isinstance(value, dict) for value in values) and (len(uses) == 1 or not uses & LAW_NAMES):
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
    return headline_at_equal(kind, {variant.name: variant.prepared for variant in variants}, differs)


def _simulate(variants: Any, index: int) -> Result:
    """Simulate one replication of one variant."""
    replication, position = divmod(index, len(variants))
    return run(variants[position], replication, most_events=math.inf)


def differences(ours: Ensemble, theirs: Ensemble) -> dict[str, DifferenceSummary | None]:
    """Return how far each metric that both have is above that of another variant, on the same failures.

    Where a queue grows without end, what depends on it has no mean, and a difference none either.
    """
    mine, first = ours.rows, theirs.rows
    controls = of_pair(ours.controls, theirs.controls)
    common = [name for name in mine[0] if name in first[0]]
    grows = _grows(ours, theirs)
    return {
        name: None
        if grows and METRICS[name].is_of_queue
        else difference(
            [row[name] for row in mine],
            [row[name] for row in first],
            controls,
            metric=name,
            is_exact=_are_exact((ours, theirs), name),
        )
        for name in common
    }


def _grows(*ensembles: Ensemble) -> bool:
    """Return whether the queue of one grows without end."""
    found = [growth_of(each.tally.queues) for each in ensembles]
    return any(growth is not None and growth.saturated for growth in found)


def _check_common(variants: Sequence[Variant]) -> None:
    """Refuse variants whose failures or prices are not comparable."""
    seeds = sorted({variant.prepared.seed for variant in variants})
    if len(seeds) > 1:
        message = f"seed: is {' and '.join(map(str, seeds))}; variants meet the same failures only with the same seed"
        raise ReplicationsError(message)
    costs = [variant.prepared.upkeep.cost for variant in variants]
    currencies = sorted({cost.currency for cost in costs if cost is not None})
    if len(currencies) > 1:
        raise ReplicationsError(f"cost.currency: is {' and '.join(currencies)}; prices of variants must be in the same")


def _excess(found: Sequence[EnsembleBuilder], metric: str, precision: Precision) -> float:
    """Return the widest interval of a difference over what it should be [-]; infinite where there is none."""
    (first, *others), exact = found, _are_exact(found, metric)
    theirs = [row[metric] for row in first.rows]
    mean, worst = means(first.rows)[metric], 0.0
    for other in others:
        apart = difference([row[metric] for row in other.rows], theirs, metric=metric, is_exact=exact)
        if apart is None:
            return math.inf
        if not exact:
            worst = max(worst, precision.excess(apart.ci95, mean, metric, len(theirs)))
    return worst


def _are_exact(found: Iterable[EnsembleBuilder | Ensemble], metric: str) -> bool:
    return all(is_exact(each.prepared, metric) for each in found)


# Variants of scenarios: which ones a command asks for, what each is called, and reading them.

_PAIRS = {"[": "]", "{": "}", "(": ")"}

_MOST = 200
"""Variants of one comparison; more are a slip of the pen."""

_NAMED = 3
"""Variants that a line about several of them names."""

_ADD_THEM = "to add them: --set checkpoint.from_preset=true"
"""What lines about stores of presets that are not used end with."""


class Variation(NamedTuple):
    """A path of a scenario and the values that it takes, as text."""

    path: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Variation:
        """Read ``path=a,b,c``."""
        path, equals, rest = text.partition("=")
        path = path.strip()
        if not (equals and path):
            message = f"--vary {text}: needs path=value,value, for example --vary recovery.use=full-restart,hot-spare"
            raise ReplicationsError(message)
        try:
            values = split(rest)
        except ValueError as error:
            raise ReplicationsError(f"--vary {text}: {error}") from None
        for value in values:
            if not value:
                raise ReplicationsError(f"--vary {text}: a value is empty; write [] or '' for one that is meant to be")
            if values.count(value) > 1:
                raise ReplicationsError(f"--vary {text}: has {value} twice")
        return cls(path, values)


class Recipe(NamedTuple):
    """A variant before it is read.

    Parameters
    ----------
    common, varied
        Texts ``a.b=c`` that replace values: those of all variants, then those that make this one.
    """

    name: str
    scenario: str
    common: tuple[str, ...]
    varied: tuple[str, ...]


class Loaded(NamedTuple):
    """The variants that can run, by name, and one line each about those that cannot.

    Parameters
    ----------
    reasons
        Why they cannot, a line for each mistake with the names of the variants that have it.
    without_stores
        The variant that has not the checkpoint stores of its recovery preset, by the name of the one that has.
    """

    scenarios: dict[str, Scenario]
    cannot_run: dict[str, str]
    reasons: list[str]
    without_stores: dict[str, str]


def split(text: str) -> tuple[str, ...]:
    """Return the parts between commas that are in no bracket and in no quotes, without blanks around them."""
    parts = [""]
    ends: list[str] = []
    quote = ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and parts[-1].rstrip()[-1:] in ("", *"[{(:,"):
            quote = letter  # elsewhere it is an apostrophe
        elif letter in _PAIRS:
            ends.append(_PAIRS[letter])
        elif ends and letter == ends[-1]:
            ends.pop()
        elif letter == "," and not ends:
            parts.append("")
            continue
        parts[-1] += letter
    if quote or ends:
        raise ValueError(f"has no closing {quote or ends[-1]}")
    return tuple(part.strip() for part in parts)


def recipes(scenarios: Sequence[str], varied: Sequence[str], common: Sequence[str] = ()) -> tuple[Recipe, ...]:
    """Return every scenario with every combination of what is varied, the last one varied fastest.

    Parameters
    ----------
    varied
        Texts ``path=a,b,c``.
    common
        Texts ``path=value``, for all variants.

    Raises
    ------
    RequestError
        If a text is wrong, a path is both set for all and varied, or there are fewer than two variants, or far too
        many.
    """
    variations = [Variation.parse(text) for text in varied]
    paths = [variation.path for variation in variations]
    for path in paths:
        if paths.count(path) > 1:
            raise ReplicationsError(f"--vary {path}: is there twice; give all its values at once")
    for scenario in scenarios:
        if scenarios.count(scenario) > 1:
            raise ReplicationsError(f"{scenario}: is there twice")
    for text in common:
        path = text.partition("=")[0].strip()
        for variation in variations:
            if path in (variation.path, f"{variation.path}.use"):
                raise ReplicationsError(f"--set {text}: is varied too, by --vary {variation.path}; say it once")
    choices = [[f"{variation.path}={value}" for value in variation.values] for variation in variations]
    found = []
    for scenario, combination in itertools.product(scenarios, itertools.islice(itertools.product(*choices), _MOST + 1)):
        name = ", ".join([scenario] * (len(scenarios) > 1) + list(combination))
        found.append(Recipe(name, scenario, tuple(common), combination))
    if len(found) < 2:
        raise ReplicationsError(
            "nothing to compare with: add --vary KEY=A,B with two values or more, or another scenario"
        )
    if len(found) > _MOST:
        raise ReplicationsError(f"--vary: makes more than {_MOST} variants; vary fewer values at once")
    return tuple(found)


def load_variants(wanted: Sequence[Recipe], *, split_stores: bool = False) -> Loaded:
    """Return the scenarios of variants.

    Common values are set first, but for those inside of what varies. Choices come before both, see `ettrick.sim.load`.

    Parameters
    ----------
    split_stores
        Whether each variant whose recovery preset adds checkpoint stores is followed by one without these.

    Raises
    ------
    RequestError
        If the stores are to be split off, and no variant has any.
    ScenarioError
        If mistakes leave fewer than two variants: with one line for each, with the names of the variants that have it.
    """
    scenarios: dict[str, Scenario] = {}
    cannot_run: dict[str, str] = {}
    found: dict[str, list[Recipe]] = {}
    without: dict[str, str] = {}
    is_wrong = False
    for recipe in wanted:
        try:
            loaded = scenarios[recipe.name] = sim.load(sim.find(recipe.scenario), _overrides(recipe))
        except sim.ScenarioError as error:
            lines = [_as_typed(line, recipe.varied) for line in error.lines]
            cannot_run[recipe.name] = "; ".join(lines)
            for line in lines:
                found.setdefault(line, []).append(recipe)
            is_wrong = is_wrong or not error.is_answer
            continue
        if split_stores and loaded.checkpoint.from_preset:
            bare = sim.load(sim.find(recipe.scenario), [*_overrides(recipe), "checkpoint.from_preset=false"])
            if bare.checkpoint.tiers != loaded.checkpoint.tiers:
                without[recipe.name] = f"{recipe.name} without its stores"
                scenarios[without[recipe.name]] = bare
    reasons = [_reason(line, having, wanted) for line, having in found.items()]
    if is_wrong and len(scenarios) - len(without) < 2:
        raise sim.ScenarioError(reasons)
    if split_stores and scenarios and not without:
        raise ReplicationsError(f"--split: no variant has stores that its recovery preset adds; {_ADD_THEM}")
    return Loaded(scenarios, cannot_run, reasons, without)


def prepared(loaded: Loaded) -> list[Variant]:
    """Return the variants that can run, ready to run; those whose stores were split off do not warn of it."""
    found = [Variant(name, sim.prepare(scenario)) for name, scenario in loaded.scenarios.items()]
    bare = loaded.without_stores.values()
    return [_without_advice(variant) if variant.name in bare else variant for variant in found]


def resolved_files(scenarios: Mapping[str, Scenario]) -> dict[str, str]:
    """Return the files of the variants, in their order: names of variants may hold what names of files cannot."""
    return {
        f"variant-{number}.resolved.yaml": sim.dump(scenario.dump())
        for number, scenario in enumerate(scenarios.values(), start=1)
    }


def _without_advice(variant: Variant) -> Variant:
    lines = tuple(line for line in variant.prepared.warnings if not line.endswith(_ADD_THEM))
    return Variant(variant.name, replace(variant.prepared, warnings=lines))


def warnings(variants: Sequence[Variant]) -> list[str]:
    """Return what to warn of, with the name of the variant unless all have it."""
    found: dict[str, list[str]] = {}
    for variant in variants:
        for line in variant.prepared.warnings:
            found.setdefault(line, []).append(variant.name)
    return [line if len(names) == len(variants) else _naming(line, names) for line, names in found.items()]


def _overrides(recipe: Recipe) -> list[str]:
    """Return what replaces values in a variant: what is set inside of a path that varies comes after it."""
    varied = tuple(f"{text.partition('=')[0].strip()}." for text in recipe.varied)
    inside = [text for text in recipe.common if text.strip().startswith(varied)]
    return [*(text for text in recipe.common if text not in inside), *recipe.varied, *inside]


def _reason(line: str, having: Sequence[Recipe], wanted: Sequence[Recipe]) -> str:
    """Return a mistake with the names of the variants that have it, unless it begins with what they have in common."""
    for text in having[0].varied:
        if line.startswith(f"--vary {text}: ") and all(recipe in having for recipe in wanted if text in recipe.varied):
            return line
    return _naming(line, [recipe.name for recipe in having])


def _naming(line: str, names: Sequence[str]) -> str:
    """Return a line with the variants that it is about."""
    if len(names) == 1:
        return f"variant {names[0]}: {line}"
    more = len(names) - _NAMED
    listed = [f"'{name}'" for name in names[:_NAMED]] + ([f"{more} more"] if more > 0 else [])
    return f"variants {', '.join(listed[:-1])} and {listed[-1]}: {line}"


def _as_typed(line: str, varied: Sequence[str]) -> str:
    """Return a complaint about a value that was varied with the name of the option that varied it."""
    for text in varied:
        if line.startswith(f"--set {text}:"):
            return f"--vary {line.removeprefix('--set ')}"
    return line


# The document of a comparison.


def compare_document(
    comparison: Comparison,
    cannot_run: Mapping[str, str],
    *,
    command: str,
    varied: Sequence[str] = (),
    without_stores: Mapping[str, str] | None = None,
    instead_of: str | None = None,
) -> CompareDocument:
    """Return the document of a comparison.

    Parameters
    ----------
    without_stores
        The variant without the checkpoint stores of a recovery preset, by the name of the one that has them.
    instead_of
        The variant that the others were to be compared with, if it cannot run.
    """
    first = comparison.ensembles[0].prepared
    scenarios = {
        name: ensemble.prepared.scenario for name, ensemble in zip(comparison.names, comparison.ensembles, strict=True)
    }
    return CompareDocument(
        format=FORMAT,
        replications=comparison.replications,
        seed=first.seed,
        precise=comparison.precise,
        first=comparison.names[0],
        instead_of=instead_of,
        headline=comparison.headline,
        order=list(comparison.order),
        ranking=_ranking(comparison),
        at_equal=_what_is_equal(comparison),
        differs=list(comparison.differs),
        varied=list(varied),
        also_differ=keys_that_differ(scenarios, varied),
        stores=_stores(comparison, without_stores or {}),
        unranked_because=_why_unranked(comparison),
        variants={
            name: _variant(ensemble, differences)
            for name, ensemble, differences in zip(
                comparison.names, comparison.ensembles, comparison.differences, strict=True
            )
        },
        cannot_run=dict(cannot_run),
        provenance=provenance(command),
    )


def _variant(ensemble: Ensemble, differences: Mapping[str, DifferenceSummary | None]) -> VariantSummary:
    run = document(ensemble, command="")
    return VariantSummary(
        scenario_sha256=run.provenance.scenario_sha256,
        **{name: getattr(run, name) for name in VariantSummary.model_fields if name in RunDocument.model_fields},
        difference=dict(differences),
    )


def _ranking(comparison: Comparison) -> RankingSummary | None:
    """Return which variants may be the best."""
    found = comparison.ranking
    if found is None:
        return None
    names = comparison.names
    return RankingSummary(
        behind={
            names[position]: Shortfall(mean=mean, ci95=with_width(interval))
            for position, (mean, interval) in zip(found.order, found.behind, strict=True)
        },
        may_be_best=[names[position] for position in found.may_be_best],
        replications_to_resolve=found.replications_to_resolve,
    )


def _what_is_equal(comparison: Comparison) -> AtEqual | None:
    """Return what was divided by what."""
    if comparison.at_equal is None:
        return None
    of = {
        name: taken(ensemble.prepared, ensemble.rows)
        for name, ensemble in zip(comparison.names, comparison.ensembles, strict=True)
    }
    return AtEqual(
        kind=comparison.at_equal,
        variants=of,
        lines=at_equal_lines(comparison.at_equal, comparison.headline, of, comparison.differs),
    )


def _stores(comparison: Comparison, without: Mapping[str, str]) -> dict[str, StoresSummary]:
    """Return what checkpoint stores of presets make of the headline, and what the difference is without them."""
    rows = {
        name: [row[comparison.headline] for row in ensemble.rows]
        for name, ensemble in zip(comparison.names, comparison.ensembles, strict=True)
    }
    first = comparison.names[0]
    base = without.get(first, first)
    return {
        name: StoresSummary(
            without=bare,
            gain=difference(rows[name], rows[bare], metric=comparison.headline),
            rest=None if name == first else difference(rows[bare], rows[base], metric=comparison.headline),
        )
        for name, bare in without.items()
    }


def _why_unranked(comparison: Comparison) -> str | None:
    """Return why the variants are not ranked by goodput, if they are not."""
    if comparison.cost_cannot_tell:
        return (
            "the prices, the number of GPUs and the demand are the same, so that cost cannot tell; compare the numbers "
            "of replicas that reach the same attainment"
        )
    if not comparison.differs:
        return None
    names = comparison.differs
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    why = (
        f"{listed} differ{'s' * (len(names) == 1)}, and a share of the peak does not show which is better "
        "(it would punish the faster hardware)"
    )
    if comparison.order:
        return f"{why}; ranked by {METRICS[comparison.headline].label}"
    return f"{why}; without tokens per day of every variant there is no rank"

"""Variants of a question on the same failures: what each comes to, and by how much it differs from the first.

`compare` simulates them, `compare_document` is the document of what came of it. Unlike clusters are compared fairly by
what they make of a GPU, of a megawatt, or of money: `headline_at_equal`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ettrick.analysis.amounts import amount_text
from ettrick.analysis.contest.precision import Precision, ReplicationsError
from ettrick.analysis.contest.runs import first_replications, replicated
from ettrick.analysis.metrics import METRICS, is_exact, is_share, lower_is_better
from ettrick.analysis.parts import FORMAT, DifferenceSummary
from ettrick.analysis.ratios import provisioned
from ettrick.analysis.results.fleet import growth_of
from ettrick.analysis.results.models import (
    AtEqual,
    CompareDocument,
    RankingSummary,
    RunDocument,
    Shortfall,
    StoresSummary,
    TakenSummary,
    TimesSummary,
    VariantSummary,
)
from ettrick.analysis.results.run import document, provenance
from ettrick.analysis.statistics.differences import Ranking, difference, of_pair, quotient, ranking_of
from ettrick.analysis.statistics.estimates import means, with_width
from ettrick.sim import MOST_EVENTS
from ettrick.sim.scenario.laws import LAW_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ettrick.analysis.results.ensemble import Ensemble
    from ettrick.sim import Prepared, Ratio, Scenario

Equal = Literal["gpus", "power", "cost"]
"""The amount at which unlike clusters are compared."""

_MW = 1e6

HEADLINES: Mapping[Equal, str] = MappingProxyType(
    {"gpus": "tokens_per_gpu_day", "power": "tokens_per_mw_day", "cost": "cost_per_token"}
)

TITLES: Mapping[Equal, str] = MappingProxyType({"gpus": "GPUs", "power": "power", "cost": "cost"})

AS_GIVEN = "no cluster was rescaled: failure frequency and the cost of a failure are those of the sizes given"

_TEXTS = ("name", "description", "assumptions", "cluster.name")
"""Keys that no result depends on."""

_LABELS = ("name", "store", "use")
"""Keys that identify the items of a list."""

_BRIEF, _MOST_NAMES = 60, 4
"""Letters of a value, and names of variants, that a line about a key has at most."""


class Variant(NamedTuple):
    """A variant of a comparison, by name."""

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
    at_equal
        What unlike clusters are compared at; ``None`` where they are compared as they are.
    """

    names: tuple[str, ...]
    ensembles: tuple[Ensemble, ...]
    differences: tuple[dict[str, DifferenceSummary | None], ...]
    headline: str
    differs: tuple[str, ...]
    at_equal: Equal | None = None

    @property
    def by_name(self) -> dict[str, Ensemble]:
        """The replications of each variant, by its name."""
        return dict(zip(self.names, self.ensembles, strict=True))

    @property
    def precise(self) -> bool | None:
        """Whether a precision that was asked for was reached; ``None`` if none was."""
        return self.ensembles[0].precise

    @property
    def replications(self) -> int:
        """The number of replications of every variant."""
        return len(self.ensembles[0].rows)

    @property
    def order(self) -> tuple[str, ...]:
        """The variants, best first by the mean of the headline; empty where none is known that may rank them."""
        if self.differs and is_share(self.headline) and self.headline != "slo_attainment":
            return ()
        if self.cost_cannot_tell:
            return ()
        sign = 1 if lower_is_better(self.headline) else -1
        averages = {name: means(ensemble.rows)[self.headline] for name, ensemble in self.by_name.items()}
        ranked = {name: mean for name, mean in averages.items() if mean is not None}
        return tuple(sorted(ranked, key=lambda name: sign * ranked[name]))

    @property
    def cost_cannot_tell(self) -> bool:
        """Whether costs differ by failures alone: services with the same demand on as many GPUs at the same prices."""
        if not self.headline.startswith("cost"):
            return False
        variants = [ensemble.prepared for ensemble in self.ensembles]
        demands = [
            (variant.upkeep.cost, variant.nodes * variant.gpus_per_node, [plan.rates for plan in variant.services])
            for variant in variants
        ]
        return all(variant.services and not variant.jobs and not variant.streams for variant in variants) and all(
            demand == demands[0] for demand in demands
        )

    @property
    def ranking(self) -> Ranking | None:
        """The variants that may be the best, together at 95 %; ``None`` for two, or without a rank."""
        if len(self.names) < 3 or not self.order:
            return None
        rows = [ensemble.rows.column(self.headline) for ensemble in self.ensembles]
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
        What unlike clusters are compared at; it chooses the headline, see `headline_at_equal`.

    Raises
    ------
    ReplicationsError
        If seeds or currencies differ, `precision` is in points and the headline is not a share, or a variant does not
        say what `at_equal` needs.
    WorkError
        If more events are expected than may be; of a precision for the replications before the first decision.
    """
    _check_common(variants)
    scenarios = [variant.prepared for variant in variants]
    differs = what_differs([prepared.scenario for prepared in scenarios])
    metric = "" if at_equal is None else headline_at_equal(at_equal, dict(variants), differs)
    count = first_replications(scenarios, replications, precision)
    if count < 2 and not all(prepared.is_deterministic for prepared in scenarios):
        raise ReplicationsError(f"--replications {replications}: chance is in the variants; at least 2 show how much")

    def excess(ensembles: Sequence[Ensemble]) -> float:
        nonlocal metric
        metric = metric or headline(ensembles, differs)
        return 0.0 if precision is None else _excess(ensembles, metric, precision)

    ensembles = replicated(
        scenarios,
        count,
        None if precision is None else excess,
        processes=processes,
        progress=progress,
        most_events=most_events,
    )
    return Comparison(
        tuple(variant.name for variant in variants),
        tuple(ensembles),
        ({}, *(differences(ensemble, ensembles[0]) for ensemble in ensembles[1:])),
        metric or headline(ensembles, differs),
        differs,
        at_equal,
    )


def headline(ensembles: Sequence[Ensemble], differs: Sequence[str]) -> str:
    """Return the metric that variants are compared by.

    Shares of the peak rank variants of the same job on the same hardware only: elsewhere they would punish the faster
    hardware. Then the cost of a token decides, or how many a day makes; where neither is known, nothing
    does, and `ettr` is shown without a rank. Of streams it is `ettr`, since below saturation the load makes the
    goodput of the cluster; where the queue of a variant grows without end, only that goodput has a mean. Services
    alone are compared by the requests that meet their SLO.
    """
    common = set.intersection(*(set(ensemble.rows[0]) for ensemble in ensembles))
    wanted = ("cost_per_token", "tokens_per_day") if differs else ("goodput",)
    if "occupancy" in common:
        wanted = ("cluster_goodput" if _grows(*ensembles) else "ettr",)
    return next((name for name in wanted if name in common), "ettr" if "ettr" in common else "slo_attainment")


def what_differs(scenarios: Sequence[Scenario]) -> tuple[str, ...]:
    """Return which of model, precision, layout and accelerator are not the same in all scenarios."""
    aspects: dict[str, list[Any]] = {"model": [], "precision": [], "layout": [], "accelerator": []}
    for scenario in scenarios:
        cluster = scenario.cluster
        aspects["model"].append([job.model for job in scenario.jobs])
        aspects["precision"].append([job.precision for job in scenario.jobs])
        aspects["layout"].append([job.parallelism for job in scenario.jobs])
        aspects["accelerator"].append([pool.accelerator for pool in cluster.all_pools])
    return tuple(name for name, values in aspects.items() if any(value != values[0] for value in values))


def keys_that_differ(scenarios: Mapping[str, Scenario], varied: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return each key whose value is not the same in all scenarios, with the values by name; ``None`` if not stated.

    Parameters
    ----------
    varied
        Dotted paths that differ on purpose: they and what is in them are left out.
    """
    differing = {}
    for path, values in _apart([scenario.dump() for scenario in scenarios.values()], ""):
        is_known = any(path == prefix or path.startswith(f"{prefix}.") for prefix in (*varied, *_TEXTS))
        if not is_known:
            differing[path] = dict(zip(scenarios, values, strict=True))
    return differing


def _apart(values: Sequence[Any], path: str) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the paths at which plain data differ, with what each of them has there."""
    if all(value == values[0] for value in values):
        return
    entries = _entries(values)
    if entries is None:
        yield path, values
        return
    for key, contents in entries:
        yield from _apart(contents, f"{path}.{key}" if path else str(key))


def _entries(values: Sequence[Any]) -> Iterable[tuple[Any, Sequence[Any]]] | None:
    """Return what each of some plain data has at each key or index; ``None`` where they have no shape in common."""
    if all(isinstance(value, dict) for value in values):
        uses = {value.get("use") for value in values}
        if len(uses) == 1 or not uses & LAW_NAMES:
            keys = dict.fromkeys(key for value in values for key in value)
            return [(key, [value.get(key) for value in values]) for key in keys]
    elif all(isinstance(value, list) for value in values) and len(set(map(_labels, values))) == 1:
        return enumerate(zip(*values, strict=True))
    return None


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


def differences(ours: Ensemble, theirs: Ensemble) -> dict[str, DifferenceSummary | None]:
    """Return how far each metric that both have is above that of another variant, on the same failures.

    Where a queue grows without end, what depends on it has no mean, and a difference none either.
    """
    our_rows, their_rows = ours.rows, theirs.rows
    controls = of_pair(ours.controls, theirs.controls)
    common = [name for name in our_rows[0] if name in their_rows[0]]
    grows = _grows(ours, theirs)
    return {
        name: None
        if grows and METRICS[name].is_of_queue
        else difference(
            our_rows.column(name),
            their_rows.column(name),
            controls,
            metric=name,
            is_exact=_are_exact((ours, theirs), name),
        )
        for name in common
    }


def _grows(*ensembles: Ensemble) -> bool:
    """Return whether the queue of one grows without end."""
    growths = [growth_of(ensemble.queues) for ensemble in ensembles]
    return any(growth is not None and growth.saturated for growth in growths)


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


def _excess(ensembles: Sequence[Ensemble], metric: str, precision: Precision) -> float:
    """Return the widest interval of a difference over what it should be [-]; infinite where there is none."""
    precision.check(metric)
    (first, *rivals), exact = ensembles, _are_exact(ensembles, metric)
    theirs = first.rows.column(metric)
    mean, worst = means(first.rows)[metric], 0.0
    for rival in rivals:
        apart = difference(rival.rows.column(metric), theirs, metric=metric, is_exact=exact)
        if apart is None:
            return math.inf
        if not exact:
            worst = max(worst, precision.excess(apart.ci95, mean, metric, len(theirs)))
    return worst


def _are_exact(ensembles: Iterable[Ensemble], metric: str) -> bool:
    return all(is_exact(ensemble.prepared, metric) for ensemble in ensembles)


# Unlike clusters compared fairly: by what they make of a GPU, of a megawatt, or of money.


def headline_at_equal(kind: Equal, variants: Mapping[str, Prepared], differs: Sequence[str] = ()) -> str:
    """Return the metric that compares variants at equal GPUs, power or cost.

    ``tokens_per_gpu_day``, ``tokens_per_mw_day`` or ``cost_per_token``. Where the tokens are unknown of any variant,
    `cluster_goodput` compares at equal GPUs what does the same work on the same hardware.

    Parameters
    ----------
    differs
        What of model, precision, layout and accelerator is not the same in all variants; see `compare.what_differs`.

    Raises
    ------
    ReplicationsError
        With a line that names a variant, and what of it is not known.
    """
    headline = METRICS[HEADLINES[kind]]
    is_time_alone = kind == "gpus" and all(headline.lacks(prepared) for prepared in variants.values())
    if is_time_alone and not differs:
        return "cluster_goodput"
    for need in headline.needs:
        for name, prepared in variants.items():
            if not need.has(prepared):
                message = f"at equal {TITLES[kind]}: {name}: {need.rule}"
                if is_time_alone:
                    message += f" (GPU-time on its own compares nothing where {' and '.join(differs)} differ)"
                raise ReplicationsError(message)
    return headline.name


def taken(prepared: Prepared, rows: Sequence[Mapping[str, Ratio]]) -> TakenSummary:
    """Return what a variant has available, or takes, from its scenario and its replications."""
    gpus = prepared.nodes * prepared.gpus_per_node
    power = provisioned(prepared)
    cost = prepared.upkeep.cost
    costs = [row["cost"].amount for row in rows if "cost" in row]
    days = [row["tokens_per_gpu_day"].base / gpus for row in rows if "tokens_per_gpu_day" in row]
    is_known = cost is not None and costs and math.fsum(days) > 0
    return TakenSummary(
        gpus=gpus,
        in_jobs=sum(plan.gpus for plan in prepared.jobs),
        megawatts=None if power is None else power / _MW,
        cost_per_day=math.fsum(costs) / math.fsum(days) if is_known else None,
        currency=cost.currency if cost is not None else "",
    )


def at_equal_lines(kind: Equal, metric: str, of: Mapping[str, TakenSummary], differs: Sequence[str] = ()) -> list[str]:
    """Return what was divided by what for each variant, and what that leaves open, in words."""
    parts = [f"{name}: {_size_text(kind, summary)}" for name, summary in of.items()]
    lines = [f"at equal {TITLES[kind]}: {DIVIDED[metric]}. {'; '.join(parts)}"]
    sizes = {summary.megawatts if kind == "power" else summary.gpus for summary in of.values()}
    if len(sizes) > 1:
        lines.append(AS_GIVEN)
    if "model" in differs:
        lines.append("the models differ: a token of one is not worth a token of another")
    return lines


DIVIDED: Mapping[str, str] = MappingProxyType(
    {
        "tokens_per_gpu_day": "tokens that survived, over the days of all GPUs owned, spares and idle ones included",
        "cluster_goodput": "productive GPU-time, over that of all GPUs owned, spares and idle ones included",
        "tokens_per_mw_day": "tokens that survived, over days of the power that the facility is built for: all nodes "
        "in training, switches and storage, times PUE",
        "cost_per_token": "what the cluster cost, over the tokens that survived",
    }
)


def _size_text(kind: Equal, summary: TakenSummary) -> str:
    """Return what a variant has available, in words."""
    if kind == "gpus":
        return f"{summary.gpus:,} GPUs, {summary.in_jobs:,} of them in jobs"
    if kind == "power":
        return f"{summary.megawatts:.4g} MW"
    if summary.cost_per_day is None:
        return "an unknown cost"
    return f"{amount_text(summary.cost_per_day)} {summary.currency} a day"


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
    scenarios = {name: ensemble.prepared.scenario for name, ensemble in comparison.by_name.items()}
    return CompareDocument(
        format=FORMAT,
        replications=comparison.replications,
        seed=comparison.ensembles[0].prepared.seed,
        precise=comparison.precise,
        first=comparison.names[0],
        instead_of=instead_of,
        headline=comparison.headline,
        order=list(comparison.order),
        ranking=_ranking(comparison),
        times=_times(comparison),
        at_equal=_what_is_equal(comparison),
        differs=list(comparison.differs),
        varied=list(varied),
        also_differ=keys_that_differ(scenarios, varied),
        stores=_stores(comparison, without_stores or {}),
        unranked_because=_why_unranked(comparison),
        variants=_variants(comparison),
        cannot_run=dict(cannot_run),
        provenance=provenance(command),
    )


def _variants(comparison: Comparison) -> dict[str, VariantSummary]:
    """Return what each variant comes to, by name."""
    pairs = zip(comparison.by_name.items(), comparison.differences, strict=True)
    return {name: _variant(ensemble, differences) for (name, ensemble), differences in pairs}


def _variant(ensemble: Ensemble, differences: Mapping[str, DifferenceSummary | None]) -> VariantSummary:
    run = document(ensemble, command="")
    return VariantSummary(
        scenario_sha256=run.provenance.scenario_sha256,
        **{name: getattr(run, name) for name in VariantSummary.model_fields if name in RunDocument.model_fields},
        difference=dict(differences),
    )


def _ranking(comparison: Comparison) -> RankingSummary | None:
    """Return which variants may be the best."""
    ranking = comparison.ranking
    if ranking is None:
        return None
    names = comparison.names
    return RankingSummary(
        behind={
            names[position]: Shortfall(mean=mean, ci95=with_width(interval))
            for position, (mean, interval) in zip(ranking.order, ranking.behind, strict=True)
        },
        may_be_best=[names[position] for position in ranking.may_be_best],
        replications_to_resolve=ranking.replications_to_resolve,
    )


def _times(comparison: Comparison) -> dict[str, TimesSummary]:
    """Return how many times the headline of each other variant the best one has."""
    rows = {name: ensemble.rows.column(comparison.headline) for name, ensemble in comparison.by_name.items()}
    times = {name: quotient(rows[comparison.order[0]], rows[name]) for name in comparison.order[1:]}
    return {name: TimesSummary(mean=row[0], ci95=row[1]) for name, row in times.items() if row is not None}


def _what_is_equal(comparison: Comparison) -> AtEqual | None:
    """Return what was divided by what."""
    if comparison.at_equal is None:
        return None
    of = {name: taken(ensemble.prepared, ensemble.rows) for name, ensemble in comparison.by_name.items()}
    return AtEqual(
        kind=comparison.at_equal,
        variants=of,
        lines=at_equal_lines(comparison.at_equal, comparison.headline, of, comparison.differs),
    )


def _stores(comparison: Comparison, without: Mapping[str, str]) -> dict[str, StoresSummary]:
    """Return what checkpoint stores of presets make of the headline, and what the difference is without them."""
    rows = {name: ensemble.rows.column(comparison.headline) for name, ensemble in comparison.by_name.items()}
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

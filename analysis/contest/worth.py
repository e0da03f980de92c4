"""The worth of each cause of failures and each knob, on the same failures and by the closed form."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick import sim
from ettrick.analysis.contest.runs import first_replications, replicated
from ettrick.analysis.parts import FORMAT, DifferenceSummary
from ettrick.analysis.results.explained import OnePoint, WorthBase, WorthDocument, WorthGroup, WorthRow
from ettrick.analysis.results.run import provenance, replays_a_log
from ettrick.analysis.statistics.differences import difference
from ettrick.analysis.statistics.estimates import contributions, means, summaries
from ettrick.analysis.statistics.rows import column
from ettrick.sim import MOST_EVENTS, Ratio, catalog, closed_form, prepare, units
from ettrick.sim.units import DAY, YEAR

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from ettrick.analysis.results.ensemble import Ensemble
    from ettrick.sim import Prepared, Scenario

    _Values = npt.NDArray[np.float64]

    # By metric what each replication contributes, shape (n,): their mean is the metric; None where it is not shown.
    _Table = dict[str, _Values | None]

# Changes of a scenario whose worth is asked for: a cause less, or a knob better by a tenth.

_MORE, _LESS = 1.1, 0.9
_TIMES = ("stall", "write", "restore", "read_in")
_BANDWIDTHS = ("node_bandwidth", "aggregate", "network")

_KEPT = ("replay", "rollout")
"""Entries of ``failures`` that stay when a cause of theirs is removed."""


class Improvement(NamedTuple):
    """A scenario with one thing changed, or all of a kind.

    Parameters
    ----------
    counts
        Whether it is one of those that are made all at once; the other ones are another reading of one that is.
    """

    name: str
    text: str
    prepared: Prepared
    has_formula: bool = True
    counts: bool = True


class Changes(NamedTuple):
    """All changes of a scenario: each cause removed, each knob better, and all of a kind at once.

    ``all_causes`` and ``all_knobs`` are ``None`` where fewer than two could be made together. ``left_out`` says why a
    change is not there, by name: it does not apply, or not together with the knobs before it.
    """

    causes: tuple[Improvement, ...]
    all_causes: Improvement | None
    knobs: tuple[Improvement, ...]
    all_knobs: Improvement | None
    left_out: dict[str, str]

    @property
    def listed(self) -> list[Improvement]:
        """All changes: the causes, all of them at once, then the knobs likewise."""
        changes = (*self.causes, self.all_causes, *self.knobs, self.all_knobs)
        return [change for change in changes if change is not None]


class NotApplicableError(ValueError):
    """A change that does not apply to a scenario; the message is the reason."""


def changes_of(prepared: Prepared) -> Changes:
    """Return the changes that can be made to a scenario.

    Intervals between saves stay what they are, also where a rule has chosen them: what a change is worth is then its
    own doing. Only the row ``checkpoint_by_rule`` lets the rule choose again.
    """
    left_out: dict[str, str] = {}
    pinned = _pinned(prepared)
    causes = _causes(prepared, pinned)
    everything = pinned.model_copy(update={"failures": (), "parts": {}})
    knobs: list[Improvement] = []
    together, at_once = pinned, prepared
    for name, knob in KNOBS.items():
        where = ""
        try:
            changed, text = knob(pinned, prepared)
            change = Improvement(name, text, _ready(changed, prepared))
            where = "it does not fit with those before it: "
            more = knob(together, prepared)[0]
            together, at_once = more, _ready(more, prepared)
        except (NotApplicableError, sim.PathError) as error:
            left_out[name] = f"{where}{_reason(error)}"
            continue
        knobs.append(change)
    count = len(knobs)
    if pinned is not prepared.scenario and any(knob.name == "checkpoint" for knob in knobs):
        changed, text = _checkpoint(prepared.scenario, prepared)
        knobs.append(Improvement("checkpoint_by_rule", f"{text}, by its rule", sim.prepare(changed), counts=False))
    return Changes(
        tuple(causes),
        Improvement("all", "removed", _ready(everything, prepared)) if len(causes) > 1 else None,
        tuple(knobs),
        Improvement("all", "all of these", at_once) if count > 1 else None,
        left_out,
    )


def _reason(error: Exception) -> str:
    """Return in one line why a change cannot be made."""
    if isinstance(error, sim.PathError):
        return f"{'.'.join(map(str, error.path))}: {error.rule}"
    return str(error)


def _pinned(prepared: Prepared) -> Scenario:
    """Return the scenario with the intervals that rules have chosen written out; the scenario itself if none has."""
    checkpoint = prepared.scenario.checkpoint
    if not any(map(_by_rule, checkpoint.tiers)):
        return prepared.scenario
    chosen = _spacing(prepared.jobs[0].checkpoint)
    tiers = tuple(
        tier.model_copy(update={"interval": units.show(chosen[tier.store], units.DURATION)}) if _by_rule(tier) else tier
        for tier in checkpoint.tiers
    )
    return prepared.scenario.model_copy(update={"checkpoint": checkpoint.model_copy(update={"tiers": tiers})})


def _by_rule(tier: Any) -> bool:
    """Return whether a rule such as ``optimal`` chooses the interval of a store."""
    return tier.interval is not None and tier.interval.isalpha()


def _spacing(checkpoint: Any) -> dict[str, float]:
    """Return the stepping between two saves by store [s]."""
    return {rung.store: rung.interval for rung in checkpoint.rungs}


def _ready(scenario: Scenario, of: Prepared) -> Prepared:
    """Return a changed scenario ready to run, in which every job keeps the intervals that rules have chosen for it."""
    changed = sim.prepare(scenario)
    checkpoint = of.scenario.checkpoint
    ruled = {tier.store for tier in checkpoint.tiers if _by_rule(tier)}
    if not ruled or len(of.jobs) == 1:
        return changed
    jobs = []
    for job, before in zip(changed.jobs, of.jobs, strict=True):
        spacing: dict[str, float] = {
            store: time for store, time in _spacing(before.checkpoint).items() if store in ruled
        }
        jobs.append(replace(job, checkpoint=_spaced(job.checkpoint, spacing)))
    return replace(changed, jobs=tuple(jobs))


def _spaced(checkpoint: Any, spacing: dict[str, float]) -> Any:
    """Return the closed form of checkpoints with other stepping between saves, by store [s]."""
    if hasattr(checkpoint, "_replace"):
        return checkpoint._replace(interval=spacing["remote"])
    rungs = (rung._replace(interval=spacing.get(rung.store, rung.interval)) for rung in checkpoint.rungs)
    return replace(checkpoint, rungs=tuple(rungs))


def _causes(prepared: Prepared, pinned: Scenario) -> list[Improvement]:
    """Return the scenario without each of its causes.

    A rollout is taken out of what has been prepared: the causes whose hazard it changes are drawn at their highest one,
    and described without it they would be other failures. So is a cause of a log, which no description can leave out.
    """
    entries = _written_out(pinned)
    stated = {entry.name for entry in entries if entry.use not in _KEPT}
    changes = []
    for source in prepared.sources:
        if source.is_condition:
            continue
        if source.name in stated:
            rest = [_unaware(entry, source.name) for entry in entries if getattr(entry, "name", "") != source.name]
            parts = {
                name: stock.model_copy(
                    update={"causes": tuple(cause for cause in stock.causes or () if cause != source.name) or None}
                )
                for name, stock in pinned.parts.items()
                if prepared.parts[name].causes - {source.name}
            }
            changed = _ready(pinned.model_copy(update={"failures": tuple(rest), "parts": parts}), prepared)
            changes.append(Improvement(source.name, "removed", changed))
        else:
            formula = source.recorded is None
            changes.append(Improvement(source.name, "removed", _dropped(prepared, source.name), has_formula=formula))
    return changes


def _written_out(scenario: Scenario) -> list[Any]:
    """Return the entries of ``failures``, with the causes of a bundle in its place."""
    entries: list[Any] = []
    gpus = scenario.cluster.gpus_of_a_node
    for entry in scenario.failures:
        choice: Any = entry
        is_bundle = choice.use in catalog.bundles()
        entries += choice.expand(catalog.bundle(choice.use), scenario.repair, gpus) if is_bundle else [choice]
    return entries


def _unaware(entry: Any, name: str) -> Any:
    """Return an entry that no longer changes the hazard of a cause, as a rollout may."""
    hazard = getattr(entry, "hazard", {})
    if name not in hazard:
        return entry
    return entry.model_copy(update={"hazard": {cause: ratio for cause, ratio in hazard.items() if cause != name}})


def _dropped(prepared: Prepared, name: str) -> Prepared:
    """Return a scenario that has been prepared with a cause, without it."""
    indices = [index for index, source in enumerate(prepared.sources) if source.name != name]
    repaired = prepared.upkeep.repaired
    upkeep = (
        replace(prepared.upkeep, repaired=tuple(repaired[index] for index in indices)) if repaired else prepared.upkeep
    )
    return replace(prepared.with_sources(tuple(prepared.sources[index] for index in indices)), upkeep=upkeep)


def _mtbf(scenario: Scenario, _: Prepared) -> tuple[Scenario, str]:
    """Make every life longer; what is planned keeps its dates, and a log what it says."""
    entries = _written_out(scenario)
    longer = [_longer(entry) if not getattr(entry, "planned", True) else entry for entry in entries]
    if longer == entries:
        raise NotApplicableError("no failure has a rate of its own")
    return scenario.model_copy(update={"failures": tuple(longer)}), "+10 %"


def _longer(cause: Any) -> Any:
    """Return a cause whose units live longer, by the same random numbers."""
    changes: dict[str, Any] = {"scale": cause.scale / _MORE}
    if getattr(cause, "onset", None) is not None:
        changes["onset"] = cause.onset._replace(per_second=cause.onset.per_second / _MORE)
    if getattr(cause, "batches", ()):
        changes["batches"] = tuple(
            batch if batch.law is None else batch.model_copy(update={"law": batch.law.scaled(_MORE)})
            for batch in cause.batches
        )
    return cause.model_copy(update=changes)


def _scaled(section: str) -> Callable[[Scenario, Prepared], tuple[Scenario, str]]:
    """Return the knob that shortens all times of a section which has a scale."""

    def knob(scenario: Scenario, _: Prepared) -> tuple[Scenario, str]:
        strategy = getattr(scenario, section)
        return scenario.model_copy(
            update={section: strategy.model_copy(update={"scale": _LESS * strategy.scale})}
        ), "-10 %"

    return knob


def _repair(scenario: Scenario, prepared: Prepared) -> tuple[Scenario, str]:
    """Shorten all repairs, those that causes have of their own too, without replacing these."""
    repair = prepared.repair
    shorter = repair.model_copy(update={"scale": _LESS * repair.scale})
    return scenario.model_copy(update={"failures": tuple(_written_out(scenario)), "repair": shorter}), "-10 %"


def _checkpoint(scenario: Scenario, _: Prepared) -> tuple[Scenario, str]:
    """Shorten stalls, writes and restores of every store."""
    checkpoint = scenario.checkpoint
    tiers = []
    for tier in checkpoint.tiers:
        times = {name: getattr(tier, name) for name in _TIMES if getattr(tier, name) is not None}
        rates = {name: getattr(tier, name) for name in _BANDWIDTHS if getattr(tier, name) is not None}
        changes = {name: _LESS * time for name, time in times.items()}
        tiers.append(tier.model_copy(update=changes | {name: rate / _LESS for name, rate in rates.items()}))
    return scenario.model_copy(update={"checkpoint": checkpoint.model_copy(update={"tiers": tuple(tiers)})}), "-10 %"


def _spares(scenario: Scenario, prepared: Prepared) -> tuple[Scenario, str]:
    """Keep a tenth more hot spares, at least one; whole units where jobs use these."""
    hot, whole = prepared.spares, prepared.units
    if not hot:
        raise NotApplicableError("there are no hot spares")
    size = whole.needed if whole is not None else 1
    nodes = prepared.nodes // len(whole.nodes[0]) * size if whole is not None else prepared.nodes
    idle = nodes - scenario.spares.total - sum(job.nodes for job in prepared.jobs)
    more = min(max(round((_MORE - 1) * hot / size), 1), idle // size) * size
    if more <= 0:
        raise NotApplicableError("the cluster has no idle nodes to give")
    spares = scenario.spares.model_copy(update={"hot": hot + more})
    return scenario.model_copy(update={"spares": spares}), f"{hot} to {hot + more} nodes"


def _step_time(scenario: Scenario, prepared: Prepared) -> tuple[Scenario, str]:
    """Make steps shorter; work of a fixed time, which is so many steps, with them."""
    if not all(job.tokens_per_second > 0 for job in prepared.jobs):
        raise NotApplicableError("the tokens of a step are not known; every job needs a batch and the time of its step")
    for index, job in enumerate(prepared.jobs):
        changes: dict[str, Any] = {"step_time": _LESS * job.step_time, "mfu": None, "calibration": None}
        work = scenario.jobs[index].work
        if not isinstance(work, str) and math.isfinite(job.target) and work.time:
            changes["work"] = work.model_copy(update={"time": _LESS * work.time})
        scenario = scenario.with_job(index, **changes)
    return scenario, "-10 %"


KNOBS: dict[str, Callable[[Scenario, Prepared], tuple[Scenario, str]]] = {
    "mtbf": _mtbf,
    "detection": _scaled("detection"),
    "restart": _scaled("recovery"),
    "checkpoint": _checkpoint,
    "repair": _repair,
    "spares": _spares,
    "step_time": _step_time,
}
"""Changes that make a knob better by a tenth, by name: from a prepared scenario to the changed one."""

METRICS = ("ettr", "goodput", "tokens_per_day")
"""The metrics in which a change is valued, where they are known; `ettr` always."""

SAME = 1e-9
"""Width of an interval over its mean that is but the rounding of sums."""


def worth(
    scenario: Scenario,
    replications: int = 16,
    *,
    command: str = "",
    processes: int = 0,
    progress: Callable[[int, int | None], None] | None = None,
    most_events: float = MOST_EVENTS,
) -> WorthDocument:
    """Return the document of what each cause and each knob of a scenario is worth.

    Changes are sorted by tokens per day where they are known, else by ETTR.

    Every change is simulated on the same replications as the scenario itself: lives and marks are addressed by cause,
    so those of all other causes stay what they were.

    Parameters
    ----------
    replications
        How many of each change; at least 2, or there are no intervals. Those of fewer than 8 are not to be relied on.

    Raises
    ------
    PathError
        If the scenario does not fit together.
    WorkError
        If more events are expected than may be.
    """
    prepared = prepare(scenario)
    changes = changes_of(prepared)
    variants = [prepared, *(change.prepared for change in changes.listed)]
    base, *ensembles = replicated(
        variants, first_replications(variants, replications), processes=processes, progress=progress,
        most_events=most_events,
    )  # fmt: skip
    simulated = [_simulated(change, ensemble, base) for change, ensemble in zip(changes.listed, ensembles, strict=True)]
    return _document(prepared, changes, base, simulated, command)


def _document(
    prepared: Prepared, changes: Changes, base: Ensemble, simulated: Sequence[_SimulatedChange], command: str
) -> WorthDocument:
    """Return the document of changes that were simulated, in the order of `Changes.listed`."""
    by = "tokens_per_day" if "tokens_per_day" in base.rows[0] else "ettr"
    price = _price(base, by)
    scale = _per_year(prepared, by) * price if price is not None else None
    of_causes = len(changes.causes) + (changes.all_causes is not None)
    causes, knobs = (
        _group(part, len(singles), _contributions(base.rows), by, scale)
        for part, singles in ((simulated[:of_causes], changes.causes), (simulated[of_causes:], changes.knobs))
    )
    form, cost = closed_form(prepared), prepared.upkeep.cost
    return WorthDocument(
        format=FORMAT,
        scenario=prepared.name,
        description=prepared.scenario.description,
        replications=len(base.rows),
        seed=prepared.seed,
        one_history=replays_a_log(prepared),
        by=by,
        base=_base(base),
        currency=cost.currency if cost is not None else None,
        price_of_work=price,
        one_point=_one_point(base),
        causes=causes,
        knobs=knobs,
        left_out=dict(changes.left_out),
        closed_form_reasons=list(form.reasons),
        closed_form_assumptions=list(form.assumptions),
        assumptions=list(prepared.scenario.assumptions),
        warnings=list(prepared.warnings),
        provenance=provenance(command, prepared.scenario),
    )


def _base(base: Ensemble) -> dict[str, WorthBase]:
    """Return what the scenario comes to as it is, by metric."""
    metrics, formula = summaries(base.rows), _formula(base.prepared)
    return {
        name: WorthBase(mean=metrics[name].mean, ci95=metrics[name].mean_ci95, closed_form=formula.get(name))
        for name in METRICS
        if name in metrics
    }


def _simulated(change: Improvement, ensemble: Ensemble, base: Ensemble) -> _SimulatedChange:
    """Return a change with what came of it, and the closed form of what it is worth."""
    formula = _less(_formula(change.prepared), _formula(base.prepared)) if change.has_formula else {}
    return _SimulatedChange(change, _contributions(ensemble.rows), formula)


def _contributions(rows: Sequence[Mapping[str, Ratio]]) -> _Table:
    return {name: contributions(column(rows, name)) for name in METRICS if name in rows[0]}


class _SimulatedChange(NamedTuple):
    """A change, what came of it, and the closed form of what it is worth."""

    change: Improvement
    table: _Table
    formula: dict[str, float]


def _group(
    simulated: Sequence[_SimulatedChange], singles: int, base: _Table, by: str, scale: float | None
) -> WorthGroup:
    """Return what changes of a kind are worth, alone and all at once: the first ones alone, a last one all at once."""
    row = functools.partial(_row, metrics=tuple(base), by=by, scale=scale)

    def alone(part: _SimulatedChange) -> WorthRow:
        name, text, counts = part.change.name, part.change.text, part.change.counts
        return row(name, text, [part.table], [base], part.formula, counts=counts)

    rows = sorted(
        map(alone, simulated[:singles]), key=lambda row: math.inf if (gain := row.gain[by]) is None else -gain.mean
    )
    if len(simulated) == singles:
        return WorthGroup(rows=rows, together=None, added=None, residual=None)
    together = simulated[singles]
    counted = [part for part in simulated[:singles] if part.change.counts]
    tables, bases = [part.table for part in counted], [base] * len(counted)
    formula = _added([part.formula for part in counted])
    rest = _less(together.formula, formula)
    return WorthGroup(
        rows=rows,
        together=alone(together),
        added=row("added", "these added up", tables, bases, formula),
        residual=row("residual", "all at once less these added up", [together.table, *bases[1:]], tables, rest),
    )


def _row(
    name: str, change: str, more: Sequence[_Table], less: Sequence[_Table], formula: dict[str, float], *,
    metrics: Sequence[str], by: str, scale: float | None, counts: bool = True,
) -> WorthRow:  # fmt: skip
    """Return what the sum of some tables is above that of others, as a row."""
    gain = {metric: _gain([table[metric] for table in more], [table[metric] for table in less]) for metric in metrics}
    return WorthRow(
        name=name,
        change=change,
        gain=gain,
        money_per_year=_times(gain[by], scale),
        closed_form=dict(formula),
        counts=counts,
    )


def _added(formulas: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the sum of closed forms, of the metrics that all of them have."""
    names = [name for name in formulas[0] if all(name in formula for formula in formulas)]
    return {name: math.fsum(formula[name] for formula in formulas) for name in names}


def _gain(more: Sequence[_Values | None], less: Sequence[_Values | None]) -> DifferenceSummary | None:
    """Return the sum of some metrics less that of others, over common replications; ``None`` if one is not known."""
    ours = [values for values in more if values is not None]
    theirs = [values for values in less if values is not None]
    if len(ours) < len(more) or len(theirs) < len(less):
        return None
    sums = [[Ratio(value, 1) for value in np.sum(values, axis=0).tolist()] for values in (ours, theirs)]
    # Variants without chance have one replication.
    gain = difference(*sums, is_exact=len(sums[0]) == 1)
    # Replications that all agree, because what makes the difference is rare, are no proof.
    if gain is None or (gain.ci95 is not None and gain.ci95[1] - gain.ci95[0] > SAME * abs(gain.mean)):
        return gain
    return gain.model_copy(update={"ci95": None, "resolved": False, "replications_to_resolve": None})


def _times(gain: DifferenceSummary | None, scale: float | None) -> DifferenceSummary | None:
    """Return a difference in another unit."""
    if gain is None or scale is None:
        return None
    ends = None if gain.ci95 is None else (scale * gain.ci95[0], scale * gain.ci95[1])
    return gain.model_copy(update={"mean": scale * gain.mean, "ci95": ends})


def _formula(prepared: Prepared) -> dict[str, float]:
    """Return the closed form of a scenario by metric; empty where no formula applies.

    Tokens per day are those of a job that runs all the time; several jobs have but one ETTR between them.
    """
    ettr = closed_form(prepared).ettr
    if ettr is None:
        return {}
    formula = {"ettr": ettr}
    job = prepared.jobs[0]
    if len(prepared.jobs) == 1 and job.tokens_per_second > 0 and math.isinf(job.target):
        formula["tokens_per_day"] = ettr * job.tokens_per_second * DAY
    return formula


def _less(ours: dict[str, float], theirs: dict[str, float]) -> dict[str, float]:
    """Return the difference of what both have."""
    return {name: ours[name] - theirs[name] for name in ours if name in theirs}


def _price(base: Ensemble, by: str) -> float | None:
    """Return what a token or, where tokens are not known, a productive GPU-second costs; ``None`` without prices."""
    if "cost" not in base.rows[0]:
        return None
    if by == "tokens_per_day":
        return means(base.rows)["cost_per_token"]
    productive = math.fsum(row["ettr"].amount for row in base.rows)
    return math.fsum(row["cost"].amount for row in base.rows) / productive if productive else None


def _per_year(prepared: Prepared, by: str) -> float:
    """Return the work of a year, in tokens or productive GPU-seconds, that one unit of a metric stands for."""
    return YEAR / DAY if by == "tokens_per_day" else YEAR * sum(job.gpus for job in prepared.jobs)


def _one_point(base: Ensemble) -> OnePoint | None:
    productive, requested = (math.fsum(row["ettr"][part] for row in base.rows) for part in (0, 1))
    if not productive:
        return None
    gpus = sum(job.gpus for job in base.prepared.jobs)
    part, seconds = 0.01 * requested / productive, requested / gpus
    money = (
        part * math.fsum(row["cost"].amount for row in base.rows) * YEAR / seconds if "cost" in base.rows[0] else None
    )
    return OnePoint(gpus=part * gpus, time_s=part * seconds / len(base.rows), money_per_year=money)

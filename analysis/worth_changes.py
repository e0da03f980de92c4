"""Changes of a scenario whose worth is asked for: a cause less, or a knob better by a tenth."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import sim
from sim import catalog, units

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim import Prepared, Scenario

__all__ = ["KNOBS", "Change", "Changes", "LeftOutError", "changes_of"]

_MORE, _LESS = 1.1, 0.9
_TIMES = ("stall", "write", "restore", "read_in")
_BANDWIDTHS = ("node_bandwidth", "aggregate", "network")
_KEPT = ("replay", "rollout")
"""Entries of ``failures`` that stay when a cause of theirs is removed."""


class Change(NamedTuple):
    """A scenario with one thing changed, or all of a kind.

    Parameters
    ----------
    name
        The cause that is gone, or the knob.
    told
        What is different, in words.
    prepared
        The changed scenario, ready to run.
    has_formula
        Whether a closed form may be asked for it.
    counts
        Whether it is one of those that are made all at once; the other ones are another reading of one that is.
    """

    name: str
    told: str
    prepared: Prepared
    has_formula: bool = True
    counts: bool = True


class Changes(NamedTuple):
    """All changes of a scenario: each cause removed, each knob better, and all of a kind at once.

    ``all_causes`` and ``all_knobs`` are ``None`` where fewer than two could be made together. ``left_out`` says why a
    change is not there, by name: it does not apply, or not together with the knobs before it.
    """

    causes: tuple[Change, ...]
    all_causes: Change | None
    knobs: tuple[Change, ...]
    all_knobs: Change | None
    left_out: dict[str, str]


class LeftOutError(ValueError):
    """A change that does not apply to a scenario; the message is the reason."""


def changes_of(prepared: Prepared) -> Changes:
    """Return the changes that can be made to a scenario.

    Intervals between saves stay what they are, also where a rule has chosen them: what a change is worth is then its
    own doing. Only the row ``checkpoint_by_rule`` lets the rule choose again.
    """
    left_out: dict[str, str] = {}
    held = _held(prepared)
    causes = _causes(prepared, held)
    everything = held.model_copy(update={"failures": ()})
    knobs: list[Change] = []
    together, at_once = held, prepared
    for name, knob in KNOBS.items():
        try:
            changed, told = knob(held, prepared)
            change = Change(name, told, _ready(changed, prepared))
        except (LeftOutError, sim.PathError) as error:
            left_out[name] = _reason(error)
            continue
        try:
            more = knob(together, prepared)[0]
            together, at_once = more, _ready(more, prepared)
        except (LeftOutError, sim.PathError) as error:
            left_out[name] = f"it does not fit with those before it: {_reason(error)}"
            continue
        knobs.append(change)
    made = len(knobs)
    if held is not prepared.scenario and any(knob.name == "checkpoint" for knob in knobs):
        changed, told = _checkpoint(prepared.scenario, prepared)
        knobs.append(Change("checkpoint_by_rule", f"{told}, by its rule", sim.prepare(changed), counts=False))
    return Changes(
        tuple(causes),
        Change("all", "removed", _ready(everything, prepared)) if len(causes) > 1 else None,
        tuple(knobs),
        Change("all", "all of these", at_once) if made > 1 else None,
        left_out,
    )


def _reason(error: Exception) -> str:
    """Return in one line why a change cannot be made."""
    if isinstance(error, sim.PathError):
        return f"{'.'.join(map(str, error.path))}: {error.rule}"
    return str(error)


# -------------------------------------------------------------------------------------------- intervals


def _held(prepared: Prepared) -> Scenario:
    """Return the scenario with the intervals that rules have chosen written out; the scenario itself if none has."""
    checkpoint: Any = prepared.scenario.checkpoint
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
    found = sim.prepare(scenario)
    checkpoint: Any = of.scenario.checkpoint
    ruled = {tier.store for tier in checkpoint.tiers if _by_rule(tier)}
    if not ruled or len(of.jobs) == 1:
        return found
    jobs = []
    for job, before in zip(found.jobs, of.jobs, strict=True):
        own = {store: time for store, time in _spacing(before.checkpoint).items() if store in ruled}
        jobs.append(replace(job, checkpoint=_spaced(job.checkpoint, own)))
    return replace(found, jobs=tuple(jobs))


def _spaced(checkpoint: Any, spacing: dict[str, float]) -> Any:
    """Return the closed form of checkpoints with other stepping between saves, by store [s]."""
    if hasattr(checkpoint, "_replace"):
        return checkpoint._replace(interval=spacing["remote"])
    rungs = (rung._replace(interval=spacing.get(rung.store, rung.interval)) for rung in checkpoint.rungs)
    return replace(checkpoint, rungs=tuple(rungs))


# ----------------------------------------------------------------------------------------------- causes


def _causes(prepared: Prepared, held: Scenario) -> list[Change]:
    """Return the scenario without each of its causes.

    A rollout is taken out of what has been prepared: the causes whose hazard it changes are drawn at their highest one,
    and described without it they would be other failures. So is a cause of a log, which no description can leave out.
    """
    entries = _written_out(held)
    stated = {entry.name for entry in entries if entry.use not in _KEPT}
    found = []
    for source in prepared.sources:
        if source.name in stated:
            rest = [_unaware(entry, source.name) for entry in entries if getattr(entry, "name", "") != source.name]
            changed = _ready(held.model_copy(update={"failures": tuple(rest)}), prepared)
            found.append(Change(source.name, "removed", changed))
        else:
            formula = source.recorded is None
            found.append(Change(source.name, "removed", _dropped(prepared, source.name), has_formula=formula))
    return found


def _written_out(scenario: Scenario) -> list[Any]:
    """Return the entries of ``failures``, with the causes of a bundle in its place."""
    found: list[Any] = []
    for entry in scenario.failures:
        choice: Any = entry
        is_bundle = choice.use in catalog.bundles()
        found += choice.expand(catalog.bundle(choice.use), scenario.repair) if is_bundle else [choice]
    return found


def _unaware(entry: Any, name: str) -> Any:
    """Return an entry that no longer changes the hazard of a cause, as a rollout may."""
    hazard = getattr(entry, "hazard", {})
    if name not in hazard:
        return entry
    return entry.model_copy(update={"hazard": {cause: ratio for cause, ratio in hazard.items() if cause != name}})


def _dropped(prepared: Prepared, name: str) -> Prepared:
    """Return a scenario that has been prepared with a cause, without it."""
    kept = [index for index, source in enumerate(prepared.sources) if source.name != name]
    repaired = prepared.upkeep.repaired
    upkeep = (
        replace(prepared.upkeep, repaired=tuple(repaired[index] for index in kept)) if repaired else prepared.upkeep
    )
    return replace(prepared.with_sources(tuple(prepared.sources[index] for index in kept)), upkeep=upkeep)


# ------------------------------------------------------------------------------------------------ knobs


def _mtbf(scenario: Scenario, prepared: Prepared) -> tuple[Scenario, str]:
    """Make every life longer; what is planned keeps its dates, and a log what it says."""
    del prepared
    entries = _written_out(scenario)
    longer = [_longer(entry) if not getattr(entry, "planned", True) else entry for entry in entries]
    if longer == entries:
        message = "no failure has a rate of its own"
        raise LeftOutError(message)
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

    def knob(scenario: Scenario, prepared: Prepared) -> tuple[Scenario, str]:
        del prepared
        strategy: Any = getattr(scenario, section)
        return scenario.model_copy(
            update={section: strategy.model_copy(update={"scale": _LESS * strategy.scale})}
        ), "-10 %"

    return knob


def _repair(scenario: Scenario, prepared: Prepared) -> tuple[Scenario, str]:
    """Shorten all repairs, those that causes have of their own too, without replacing these."""
    repair: Any = prepared.repair
    shorter = repair.model_copy(update={"scale": _LESS * repair.scale})
    return scenario.model_copy(update={"failures": tuple(_written_out(scenario)), "repair": shorter}), "-10 %"


def _checkpoint(scenario: Scenario, prepared: Prepared) -> tuple[Scenario, str]:
    """Shorten stalls, writes and restores of every store."""
    del prepared
    checkpoint: Any = scenario.checkpoint
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
        message = "there are no hot spares"
        raise LeftOutError(message)
    size = whole.needed if whole is not None else 1
    nodes = prepared.nodes // len(whole.nodes[0]) * size if whole is not None else prepared.nodes
    idle = nodes - scenario.spares.total - sum(job.nodes for job in prepared.jobs)
    more = min(max(round((_MORE - 1) * hot / size), 1), idle // size) * size
    if more <= 0:
        message = "the cluster has no idle nodes to give"
        raise LeftOutError(message)
    spares = scenario.spares.model_copy(update={"hot": hot + more})
    return scenario.model_copy(update={"spares": spares}), f"{hot} to {hot + more} nodes"


def _step_time(scenario: Scenario, prepared: Prepared) -> tuple[Scenario, str]:
    """Make steps shorter; work of a fixed time, which is so many steps, with them."""
    if not all(job.tokens_per_second > 0 for job in prepared.jobs):
        message = "the tokens of a step are not known; every job needs a batch and the time of its step"
        raise LeftOutError(message)
    for index, job in enumerate(prepared.jobs):
        changes: dict[str, Any] = {"step_time": _LESS * job.step_time, "mfu": None, "calibration": None}
        work: Any = scenario.jobs[index].work
        if math.isfinite(job.target) and work.time:
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
"""What may be made better by a tenth, by name: from the scenario and what it was prepared to, the changed one."""

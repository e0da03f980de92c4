"""The limits of a closed form: what it leaves out and can itself estimate, beyond a point of ETTR.

What is left out is estimated to first order, and low rather than high. What causes take whose strikes the form does not
know is bounded (`ettrick.sim.closed_form.strikes`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np

from ettrick.sim import catalog, steps
from ettrick.sim.closed_form.elastic import (
    down_time,
    lives_and_repairs,
    narrows,
    pipelines,
    pools_of,
    repairs_by_cause,
    rungs_of,
    takes_nodes,
)
from ettrick.sim.closed_form.strikes import down_at_once, pace_where_placed, restart_mean, unknown_costs, weighted
from ettrick.sim.failures.parts import Bundle
from ettrick.sim.failures.source import KNOWN, OF_ONE_NODE
from ettrick.sim.formulas.nodes import missing_nodes_pmf, starvation
from ettrick.sim.policies.detection.race import DetectionRace
from ettrick.sim.policies.recovery import Ladder
from ettrick.sim.policies.recovery.base import QUEUE
from ettrick.sim.prepare.failures import FailureRates
from ettrick.sim.scenario.laws import Fixed
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ettrick.sim.closed_form.elastic import Waits
    from ettrick.sim.engine.prepared import Prepared, PreparedJob
    from ettrick.sim.failures import FailureSource

# What a closed form takes for granted and a scenario breaks.


def broken_assumptions(prepared: Prepared, waits_of: Callable[[PreparedJob], Waits | None]) -> Iterator[str]:
    """Yield what the formula assumes and the scenario breaks, a line each; `waits_of` is `Renewal.waits`."""
    yield "long run: the first start and the horizon's edge are left out"
    yield from _of_lives(prepared)
    yield from _of_effects(prepared)
    yield from _of_repairs(prepared, waits_of)
    yield from (line for line, is_broken in _of_jobs(prepared).items() if is_broken)


def _of_jobs(prepared: Prepared) -> dict[str, bool]:
    """Return what a formula assumes of stores, power and jobs, and whether the scenario breaks it."""
    jobs, sources, elastic = prepared.jobs, prepared.sources, prepared.recovery.elastic
    upkeep = prepared.upkeep
    of_power = "failures at any time of the day and of the year: jobs step at the mean pace that power and heat allow"
    return _of_stores(prepared) | {
        "stops that are announced cost what failures cost: nothing is saved before": elastic
        and any(source.saves or source.recall for source in sources),
        "waits for parts in their long run, as if nodes that wait broke parts too": bool(prepared.parts),
        "the time that a preempted job is away is left out": any(source.away is not None for source in sources),
        "no periodic work": any(job.checkpoint.pauses for job in jobs),
        of_power: len({level.pace for level in upkeep.levels}) > 1,
        "power rises at once": upkeep.ramp < math.inf,
        "no job waits for another": len(jobs) > 1 or any(job.arrival for job in jobs),
        "the job never ends": any(math.isfinite(job.target) for job in jobs),
    }


def _of_stores(prepared: Prepared) -> dict[str, bool]:
    """Return what a formula assumes of stores, and whether the scenario breaks it."""
    jobs, elastic = prepared.jobs, prepared.recovery.elastic
    rungs = [rung for job in jobs for rung in job.checkpoint.rungs]
    several = len(rungs) > len(jobs)
    return {
        "the remote store is the only one": several and elastic,
        "each store saves by itself, and a failure takes the shards of one node": several and not elastic,
        "the store whose checkpoints are newest on average is read, though another may have a newer one": several
        and not elastic,
        "every checkpoint can be read": any(rung.corrupt for rung in rungs),
        "no save is in the way of another": any(rung.save_share for rung in rungs) and len(jobs) > 1,
    }


def _of_lives(prepared: Prepared) -> Iterator[str]:
    """Yield what a formula assumes of when parts fail and the scenario breaks."""
    if laws := _names(prepared, lambda source: source.law is not None and not source.law.memoryless):
        yield f"constant failure rates, but {_do(laws, 'age')}"
    if any(source.recorded is not None for source in prepared.sources):
        yield "constant failure rates, but a log is replayed: its mean rate is used"
    if once := _names(prepared, lambda source: source.renews == "never"):
        yield f"constant failure rates, but a part that had {' or '.join(once)} never has it again"
    if uneven := _names(prepared, lambda source: bool(source.variety) or source.tempo is not None):
        yield f"identical nodes and steady rates, but those of {', '.join(uneven)} are not"
    if left := _names(prepared, lambda source: source.residue is not None or source.hidden is not None):
        yield f"independent failures, but repairs leave faults behind ({', '.join(left)})"


def _of_effects(prepared: Prepared) -> Iterator[str]:
    """Yield what a formula assumes of what failures do to a job and the scenario breaks."""
    if any(map(_takes_several, prepared.sources)):
        yield "failures of single nodes, but incidents take several"
    steps_on = "a job steps at its healthy pace until it stops, but"
    if quiet := _names(prepared, lambda source: not source.effect.stops):
        yield f"{steps_on} {', '.join(quiet)} {'do' if len(quiet) > 1 else 'does'} not stop it"
    if narrow := _names(prepared, lambda source: source.of_fabric and source.cuts < 1):
        yield f"{steps_on} {_do(narrow, 'take')} bandwidth from it"
    if any(source.fix is not None or source.rollout is not None for source in prepared.sources):
        yield "no bugs and no rollouts"
    late = _names(prepared, lambda source: source.defer)
    if late and prepared.recovery.has_unexposed_phases:
        yield f"nothing fails in phases that failures cannot hit, but {_do(late, 'wait')} for their end"
    if out := _names(prepared, lambda source: source.store_out is not None):
        yield f"stores can be read at any time, but {_do(out, 'take')} them away for a while"


def _names(prepared: Prepared, kind: Callable[[FailureSource], bool]) -> list[str]:
    """Return the names of the sources of a kind."""
    return [source.name for source in prepared.sources if kind(source)]


def _do(names: list[str], verb: str) -> str:
    """Return that some do what a verb says."""
    return f"{', '.join(names)} {verb}{'s' if len(names) == 1 else ''}"


def _takes_several(source: FailureSource) -> bool:
    """Return whether one failure can stop several nodes at once."""
    shared = source.part != "job" and source.part not in OF_ONE_NODE
    return source.blast is not None or (shared and (source.cuts > 0 or not source.of_fabric))


def _of_repairs(prepared: Prepared, waits_of: Callable[[PreparedJob], Waits | None]) -> Iterator[str]:
    """Yield what a formula assumes of what is done after a failure and the scenario breaks."""
    recovery, first = prepared.recovery, prepared.jobs[0]
    repaired = list(filter(takes_nodes, prepared.sources))
    if recovery.elastic:
        yield from _of_elastic_repairs(prepared, repaired)
        return
    waits = waits_of(first) if repaired else None
    if repaired and waits is None:
        yield "a healthy node is always available"
    elif waits is not None and waits.total:
        share = waits.total / (1 + first.detection_mean / first.mtti)
        yield f"spares and repairs in their long run: {100 * share:.3g} % of the time is starved of nodes"
    if isinstance(recovery, Ladder):
        climbs = any(rung.budget is not None or rung.backoff is not None for rung in recovery.rungs)
        if len(recovery.rungs) > 1 or climbs or recovery.no_progress is not None:
            yield "no failed recovery attempt, no budget spent, no operator escalation"
        if recovery.evict is not None:
            yield "healthy nodes stay in their job, but those that are evicted need others"


def _of_elastic_repairs(prepared: Prepared, repaired: Sequence[FailureSource]) -> Iterator[str]:
    """Yield what the formula of elastic replicas assumes of repairs and the scenario breaks."""
    first = prepared.jobs[0]
    absence = prepared.recovery.absence_for(first.gpus, first.nodes, first.parts)
    if absence is not None and not absence.is_fixed:
        yield "stalls and absences are as long as their means"
    if any(source.repair is None or source.recorded is not None for source in repaired):
        yield "a healthy node is always available"
    if prepared.units is not None:
        yield "nodes are replaced one by one, but jobs use whole units"


# Failure rates used on jobs of other sizes than those that they were counted on, and two ways to let them grow.

SUPERLINEAR = 1.9

"""Power of the number of GPUs with which failures may grow beyond the range of their counts [-].

98,304 GPUs of one site failed every 18 min, where the rate of its jobs of 32,768 would make 50 min: an exponent of
1 + ln(50 / 18) / ln(98 / 32) (arXiv 2602.00277, from secondary readings that differ in whether the 18 min are measured;
the exponent is derived).
"""


@dataclass(frozen=True)
class Extrapolation:
    """A bundle of the catalog whose rates are used on a job of another size.

    Parameters
    ----------
    bundle
        Its name.
    counted_on_gpus
        Sizes of the smallest and the largest job that its failures were counted on [-].
    job, gpus
        The job that is the furthest away, and its size [-].
    ettr
        ETTR of the closed form for this job [-], with failures of GPUs and nodes in proportion to the GPUs, and those
        `kept` as often as in the job that they were counted on: as everywhere else.
    ettr_superlinear
        The same where those of the bundle that grow with the job do so with the power `SUPERLINEAR` from the largest of
        these sizes on; ``None`` for a job that is smaller.
    kept
        The causes of jobs, whose rate does not depend on the size.
    ettr_proportional
        ETTR with these in proportion to the GPUs too [-]; ``None`` where there are none.
    exponent, exponent_source
        The power of the number of GPUs that failures may grow with [-], and where it is from.
    """

    bundle: str
    counted_on_gpus: tuple[int, int]
    job: str
    gpus: int
    ettr: float
    ettr_superlinear: float | None
    kept: tuple[str, ...] = ()
    ettr_proportional: float | None = None
    exponent: float = SUPERLINEAR
    exponent_source: str = "derived from jobs of 32,768 and 98,304 GPUs of one site, arXiv 2602.00277"


def extrapolated(prepared: Prepared, ettr: Callable[[Prepared], float]) -> tuple[Extrapolation, ...]:
    """Return the bundles of a scenario whose rates were counted on jobs of other sizes.

    Parameters
    ----------
    prepared
        The scenario.
    ettr
        Function from a scenario to its expected ETTR [-].
    """
    rows = []
    for name in dict.fromkeys(choice.use for choice in prepared.scenario.failures if isinstance(choice, Bundle)):
        base = catalog.another_size(name, {job.name: job.gpus for job in prepared.jobs})
        counted = catalog.counted_on(name)
        if base is None or counted is None:
            continue
        alone = replace(prepared, jobs=tuple(job for job in prepared.jobs if job.name == base.name))
        unscaled = [
            source for source in prepared.sources if source.name in catalog.causes(name) and source.part == "job"
        ]
        faster = ettr(_scaled(alone, name, base.ratio ** (SUPERLINEAR - 1))) if base.ratio > 1 else None
        even = ettr(_scaled(alone, name, base.ratio, of_job=True)) if unscaled else None
        names = tuple(source.name for source in unscaled)
        rows.append(Extrapolation(name, counted, base.name, base.gpus, ettr(alone), faster, names, even))
    return tuple(rows)


def _scaled(prepared: Prepared, bundle: str, factor: float, *, of_job: bool = False) -> Prepared:
    """Return the scenario of one job with failures of a bundle `factor` times as often [-]: of its nodes, or of it."""
    names = catalog.causes(bundle)
    sources = tuple(
        replace(source, law=source.law.scaled(1 / factor))
        if source.name in names and (source.part == "job") == of_job and source.law is not None
        else source
        for source in prepared.sources
    )
    (job,) = prepared.jobs
    mtti, detection = FailureRates.of(prepared).interrupts(sources, job.nodes)
    return replace(prepared, sources=sources, jobs=(replace(job, mtti=mtti, detection_mean=detection),))


TOO_MUCH = 0.01

"""Share of a job's time that a form may leave out [-]: a point of ETTR, which is what decisions are made by."""


def why_not(
    prepared: Prepared, shares: Sequence[dict[str, float]], waits_of: Callable[[PreparedJob], Waits | None]
) -> tuple[str, ...]:
    """Return why a closed form does not apply to a scenario, a line each; nothing where it does.

    Parameters
    ----------
    prepared
        The scenario.
    shares
        What the form says of each job.
    waits_of
        What is known of how a job waits for nodes: `Renewal.waits`.
    """
    return (
        *_short_of_nodes(prepared, waits_of),
        *_short_by_logs(prepared),
        *_queue(prepared, shares),
        *_short_at_once(prepared),
        *_left_out(prepared, shares),
        *_unknown(prepared),
    )


def _short_of_nodes(prepared: Prepared, waits_of: Callable[[PreparedJob], Waits | None]) -> Iterator[str]:
    """Yield that nodes are too few, or not yet in their long run."""
    stays = narrows(prepared)
    if prepared.recovery.narrows_on:
        prepared = prepared.with_sources(tuple(source for source in prepared.sources if not stays(source)))
    prepared = _with_mean_repairs(prepared)
    recovery, lives = prepared.recovery, lives_and_repairs(prepared)
    if recovery.elastic or lives is None:
        return
    job = max(prepared.jobs, key=lambda job: job.nodes)
    waits = waits_of(job)
    if waits is None:
        yield from _starved(prepared, job, *lives)
        return
    # A shelf is full at the start, and in its long run when the first orders have come.
    repair, length = lives[1], prepared.warmup + prepared.horizon
    slow = max([repair, *(lead for plan in prepared.parts.values() for lead, _ in pipelines(plan.stock))])
    settling = 0.0 if prepared.stationary else min(slow / length, 1.0)
    if waits.total * settling > TOO_MUCH:
        what = "repairs" if slow == repair else "parts"
        yield (
            f"{what} take {_days(slow)} on average, and the horizon is {_days(length)}: how many nodes are in "
            f"repair has no long run in it, and in the long run the job waits {_percent(waits.total)} of the time"
        )


def _starved(prepared: Prepared, job: PreparedJob, life: float, repair: float) -> Iterator[str]:
    """Yield that a job has too few nodes, which live and are repaired for so long on average [s]."""
    recovery, length = prepared.recovery, prepared.warmup + prepared.horizon
    takers = [source for source in prepared.sources if takes_nodes(source)]
    cold = any(source.idle_hazard < 1 or source.clock == "busy" for source in takers)
    size, used, what, short = _as_units(prepared)
    needed, within = job.nodes // used, prepared.serving // size - _out_of_reach(prepared) // used
    # A size that is only asked about may be larger than the cluster.
    surplus = max(within - needed, 0)
    # From the start on no node is in repair for longer than the time so far.
    mean = repair if prepared.stationary else min(repair, length / 2)
    if prepared.units is not None:
        life = _life_of_units(prepared, takers, mean, mean / repair)

    def starved(mean: float, surplus: int) -> float:
        down = down_time(prepared, life, mean) if prepared.units is None else mean
        exposed = not cold and not recovery.has_unexposed_phases
        return starvation(life, down, needed, surplus, cold=cold, exposed=exposed).share

    named, idle = pools_of(prepared), _out_of_named_pools(prepared, needed, size, used)
    if not idle:
        share = starved(mean, surplus)
        if share > TOO_MUCH:
            yield (
                f"a job needs {needed:,} of {within:,} {what}, and more than the other {surplus:,} {short} "
                f"{_percent(share)} of the time: the closed form does not cover how long recovery "
                f"'{recovery.use}' waits for them"
            )
        return
    # An idle node gets into the pool by its repair alone, after a failure of its own.
    ages = (length * (np.arange(8) + 0.5) / 8).tolist()
    means = [repair if prepared.stationary else min(repair, age) for age in ages]
    ready = [int(surplus - idle * math.exp(-age / life)) for age in ages]
    share = _mean_or_bound(starved, means, ready)
    if share > TOO_MUCH:
        yield (
            f"recovery '{recovery.use}' takes nodes only from {' and '.join(named)}: {idle:,} of the {surplus:,} "
            f"{what} that the job does not use are idle and join these only after a repair of their own, so that the "
            f"job waits {_percent(share)} of the time"
        )


def _mean_or_bound(starved: Callable[[float, int], float], means: Sequence[float], ready: Sequence[int]) -> float:
    """Return the mean share of time without nodes over moments [-]; a bound of it, from their worst, if that is small.

    At each moment repairs have a mean [s], and some nodes are ready.
    """
    bound = starved(max(means), min(ready))
    return bound if bound <= TOO_MUCH else sum(map(starved, means, ready)) / len(means)


def _life_of_units(prepared: Prepared, takers: Sequence[FailureSource], repair: float, part: float) -> float:
    """Return the mean life of a unit [s] that is out for a mean repair [s], a `part` of that in the long run [-]."""
    _, up = _in_order(prepared, [source for source in takers if _takes_a_unit(prepared, source)], part)
    return repair * up / (1 - up) if up < 1 else math.inf


def _as_units(prepared: Prepared) -> tuple[int, int, str, str]:
    """Return the nodes of a unit that jobs use, those needed of it [-], and what units are and lack in words."""
    if prepared.units is None:
        return 1, 1, "nodes", "are in repair"
    size, needed = len(prepared.units.nodes[0]), prepared.units.needed
    short = "are in repair" if size == needed else f"have fewer than {needed} in working order"
    return size, needed, f"units of {size} nodes" if size > 1 else "nodes", short


def _out_of_named_pools(prepared: Prepared, needed: int, size: int, used: int) -> int:
    """Return the units that are idle and in no pool, where the recovery takes nodes from others alone [-]."""
    named = pools_of(prepared)
    if not named or "idle" in named or rungs_of(prepared):
        return 0
    reserved = sum(pool.nodes for pool in prepared.reserves.values()) // used
    return max(prepared.serving // size - needed - reserved, 0)


def _short_by_logs(prepared: Prepared) -> Iterator[str]:
    """Yield that the outages of logs leave too few nodes."""
    recovery = prepared.recovery
    logs = [source.recorded for source in prepared.sources if source.recorded is not None]
    # Which nodes are down is not looked at, only how many: all of them have to be within reach.
    if recovery.elastic or not logs or prepared.serving - _out_of_reach(prepared) < prepared.nodes:
        return
    job = max(prepared.jobs, key=lambda candidate: candidate.nodes)
    surplus = prepared.nodes - job.nodes
    count = sum(len(log.start) for log in logs)
    times = np.concatenate([log.start for log in logs] + [log.end for log in logs])
    order = np.argsort(times)
    down = np.cumsum(np.where(order < count, 1, -1))[:-1]
    lengths = np.diff(np.clip(times[order], prepared.warmup, prepared.warmup + prepared.horizon))
    share = float(lengths[down > surplus].sum()) / prepared.horizon
    if share > TOO_MUCH:
        yield (
            f"by the logs more than the {surplus:,} nodes that a job can spare are down {_percent(share)} of the time, "
            "and the form knows only how often outages begin"
        )


def _out_of_reach(prepared: Prepared) -> int:
    """Return the nodes of pools that the recovery never takes from [-]."""
    rungs = [rung for rung in rungs_of(prepared) if rung.keeps != "nothing"]
    pool_names = {*QUEUE, *pools_of(prepared), *(name for rung in rungs for name in rung.pools)}
    return sum(pool.nodes for name, pool in prepared.reserves.items() if name not in pool_names)


def _with_mean_repairs(prepared: Prepared) -> Prepared:
    """Return the scenario with one repair time where its tiers have a mean; what is blamed wrongly is left out."""
    repair = prepared.repair
    mean_time = getattr(repair, "mean_time", None)
    if mean_time is None:
        return prepared

    def by_tiers(source: FailureSource) -> bool:
        return source.repair is None and source.recorded is None and takes_nodes(source)

    rates = FailureRates.of(prepared)
    demand = sum(rates.rate(source, prepared.nodes) for source in filter(by_tiers, prepared.sources))
    sources = tuple(
        # What strikes a node on its way through the tiers is mended with it.
        replace(source, repair=Fixed.from_seconds(value=mean_time(source.tier, demand)), renews="at_return")
        if by_tiers(source)
        else source
        for source in prepared.sources
    )
    return prepared.with_sources(sources)


def availability(prepared: Prepared) -> dict[str, float]:
    r"""Return the availability of nodes and of domains in the long run, as the metrics of these names [-].

    A cause that takes a node every t and has it repaired in r leaves the part ``t / (t + r)`` if no life ends while the
    node is away, and ``exp(-r / t)`` if outages join (an infinite-server queue: L. Takacs, Introduction to the Theory
    of Queues, 1962). Those of single nodes are one cause, with the sum of their rates. Of a domain of m nodes, each
    down with probability q, jobs need n:

    .. math:: A = \sum_{k = 0}^{m - n} \binom{m}{k} q^k (1 - q)^{m - k} \prod_c \frac{t_c}{t_c + r_c}

    with the causes c that take the whole domain, and k = 0 alone where a repair drains it. Empty where nodes are not
    alike, wait for a repair, or fail together in other ways.
    """
    takers = [source for source in prepared.sources if takes_nodes(source)]
    shared = [source for source in takers if _takes_several(source)]
    waits = any(tier.crews for tier in getattr(prepared.repair, "tiers", ()))
    if waits or not all(map(_is_alike, takers)) or not all(_takes_a_unit(prepared, source) for source in shared):
        return {}
    node, domain = _in_order(prepared, shared)
    if math.isnan(node):
        return {}
    return {"node_availability": node} | ({} if prepared.units is None else {"domain_availability": domain})


def _is_alike(source: FailureSource) -> bool:
    """Return whether a source strikes all nodes alike, whatever they do, at any time."""
    changes = bool(source.variety) or source.tempo is not None or source.renews == "never"
    return not changes and source.idle_hazard == 1 and source.clock != "busy"


def _in_order(prepared: Prepared, shared: Sequence[FailureSource], part: float = 1.0) -> tuple[float, float]:
    """Return the availability of nodes and of units [-] where some causes take whole units; NaN where it is not known.

    Repairs last a `part` of their means [-].
    """
    rows, names = repairs_by_cause(_with_mean_repairs(prepared)), {source.name for source in shared}
    if not rows:
        return math.nan, math.nan
    units = prepared.units
    size = 1 if units is None else len(units.nodes[0])
    ratios = {name: rate * seconds * part for name, (rate, seconds) in rows.items()}
    # The rate of a shared part counts once for all its nodes.
    joined = {source.name for source in prepared.sources if source.outages_join}
    whole = 1.0
    alone = {False: 0.0, True: 0.0}
    for name, ratio in ratios.items():
        if name in names:
            whole *= math.exp(-size * ratio) if name in joined else 1 / (1 + size * ratio)
        else:
            alone[name in joined] += ratio
    up = math.exp(-alone[True]) / (1 + alone[False])
    spares = 0 if units is None or units.drains else size - units.needed
    return up * whole, float(missing_nodes_pmf(size, 1 - up)[: spares + 1].sum()) * whole


def _takes_a_unit(prepared: Prepared, source: FailureSource) -> bool:
    """Return whether each failure of a shared part takes all nodes of one unit that is used as a whole."""
    units, (offsets, nodes) = prepared.units, prepared.blast.get(source.part, ((), ()))
    if units is None or source.blast is not None or not len(nodes):
        return False
    unit_of = {node: index for index, unit in enumerate(units.nodes) for node in unit}
    hit = [{unit_of.get(int(node), -1) for node in nodes[start:end]} for start, end in pairwise(offsets)]
    return all(len(domain) == 1 for domain in hit) and set(np.diff(offsets).tolist()) == {len(units.nodes[0])}


def _queue(prepared: Prepared, shares: Sequence[dict[str, float]]) -> Iterator[str]:
    """Yield that jobs wait for one another, if each runs as the form says and starts once there are nodes for it."""
    units, serving = prepared.units, prepared.serving
    if units is not None:
        serving = serving // len(units.nodes[0]) * units.needed  # of each unit a job takes so many
    room = serving - sum(pool.nodes for pool in prepared.reserves.values())
    ends: list[tuple[float, int]] = []
    demand = waited = start = 0.0
    for job, job_shares in sorted(zip(prepared.jobs, shares, strict=True), key=lambda pair: pair[0].arrival):
        start = max(start, job.arrival)
        ends.sort()
        # First in, first out: no repair starts before an earlier one.
        while ends and sum(nodes for end, nodes in ends if end > start) + job.nodes > room:
            later = [end for end, _ in ends if end > start]
            if not later:
                break
            start = min(later)
        start = min(start, max(prepared.horizon, job.arrival))
        pace = job_shares["productive"]
        needs = job.target / pace if pace > 0 else math.inf
        ends.append((start + needs, job.nodes))
        waited += job.nodes * (start - job.arrival)
        demand += job.nodes * max(min(start + needs, prepared.horizon) - job.arrival, 0.0)
    if demand > 0 and waited / demand > TOO_MUCH:
        yield (
            f"jobs wait for one another {_percent(waited / demand)} of the time that they ask for: together they need "
            f"more than the {room:,} nodes outside reserves"
        )


def _short_at_once(prepared: Prepared) -> Iterator[str]:
    """Yield that failures which take several nodes leave too few."""
    several = [source.name for source in prepared.sources if takes_nodes(source) and _takes_several(source)]
    if prepared.recovery.elastic or not several:
        return
    job = max(prepared.jobs, key=lambda candidate: candidate.nodes)
    surplus = max(prepared.serving - _out_of_reach(prepared) - job.nodes, 0)
    takers = [source for source in _with_mean_repairs(prepared).sources if takes_nodes(source)]
    share = down_at_once(prepared, takers, surplus)
    if share > TOO_MUCH:
        yield (
            f"{_do(several, 'take')} several nodes at once: more than the other {surplus:,} that a job can spare are "
            f"in repair {_percent(share)} of the time"
        )


def _unknown(prepared: Prepared) -> Iterator[str]:
    """Yield that causes may take much of the time in ways that the form does not know."""
    causes = weighted(prepared.jobs, [unknown_costs(prepared, job) for job in prepared.jobs])
    total = sum(causes.values())
    if total > TOO_MUCH:
        names = [cause for cause, share in causes.items() if share > total / 4]
        yield (
            f"{', '.join(names)} may take up to {_percent(min(total, 1.0))} of the time by strikes that are not "
            "independent and at a constant rate, as the form assumes"
        )


def _left_out(prepared: Prepared, shares: Sequence[dict[str, float]]) -> Iterator[str]:
    """Yield what takes time of the jobs that the form does not count."""
    by_job = (
        chain(_of_sources(prepared, job, of_job), _of_the_job(prepared, job, of_job))
        for job, of_job in zip(prepared.jobs, shares, strict=True)
    )
    for what, share in weighted(prepared.jobs, by_job).items():
        if share > TOO_MUCH:
            yield f"{what} takes {_percent(share)} of the time, which the form leaves out"


def _of_sources(prepared: Prepared, job: PreparedJob, shares: dict[str, float]) -> Iterator[tuple[str, float]]:
    """Yield what sources cost a job in ways that are left out, and the share of its time [-]."""
    productive = shares["productive"]
    for source in prepared.sources:
        if source.away is None and source.store_out is None and source.effect.stops:
            continue
        rate = _rate(prepared, source, job)
        if source.away is not None:
            yield f"being away after {source.name}", _part(rate * source.away.mean_value)
        if source.store_out is not None:
            # Whoever takes the stores away has to restore from them itself.
            yield f"waiting for stores that {source.name} took away", _part(rate * source.store_out.mean_value)
        if source.effect.stops:
            continue
        lasting = prepared.horizon / 2 if source.detection_race is None else source.detection_race.mean_value
        if source.effect.heal is not None:
            lasting = min(lasting, source.effect.heal.mean_value)
        lost = _slower(source, job)
        if lost > 0 and math.isfinite(lasting):
            yield f"what {source.name} costs until it is noticed", productive * -math.expm1(-rate * lasting) * lost


def _slower(source: FailureSource, job: PreparedJob) -> float:
    """Return the part of a job's progress that a fault takes which does not stop it [-]."""
    effect = source.effect
    if effect.use in ("corrupt", "spike"):
        return 1.0
    if effect.bandwidth_left < 1:
        waits = job.communication
        return 0.0 if waits is None else 1 - steps.stated_pace(waits, effect.bandwidth_left)
    return 1 - effect.speed


def _of_the_job(prepared: Prepared, job: PreparedJob, shares: dict[str, float]) -> Iterator[tuple[str, float]]:
    """Yield what else costs a job time that is left out, and the share of it [-]."""
    productive = shares["productive"]
    yield "stepping on slower or farther nodes", productive * (1 - pace_where_placed(prepared, job))
    for pause in job.checkpoint.pauses:
        every = pause.period(job.step_time)
        yield "periodic work", productive * pause.seconds / every
    rate = 1 / job.mtti
    if prepared.preflight:
        yield "checks before a job", _part(rate * prepared.preflight)
    facility = prepared.upkeep.facility
    if facility is not None and prepared.upkeep.ramp < math.inf:
        risen = job.nodes * (facility.node.training - facility.node.idle) * facility.pue
        yield "waiting for the power to rise", _part(rate * risen / prepared.upkeep.ramp)
    length = min(prepared.horizon - job.arrival, job.target / productive if productive > 0 else math.inf)
    if length > 0:
        yield "the first start", min(restart_mean(prepared, job) / length, 1.0)
    yield from _of_store(prepared, job, productive)
    yield from _climbs(prepared, job, shares)


def _of_store(prepared: Prepared, job: PreparedJob, productive: float) -> Iterator[tuple[str, float]]:
    """Yield what a shared store and checkpoints that cannot be read cost a job, and the share of its time [-]."""
    rate = 1 / job.mtti
    remote = next(rung for rung in job.checkpoint.rungs if rung.store == "remote")
    if remote.save_share and not remote.drain:
        # Jobs that begin together save together, until a failure sets two apart; then they meet by chance.
        rivals, every = len(prepared.jobs) - 1, remote.period(job.step_time)
        store, apart = job.checkpoint.transfer[1] / remote.save_share, 2 * rate * prepared.horizon
        together = 0.0 if remote.staggers else -math.expm1(-apart) / apart if apart else 1.0
        late = together * max((rivals + 1) * store - remote.stall, 0.0)
        late += (1 - together) * rivals * remote.stall / every * max(2 * store - remote.stall, 0.0)
        yield "saving while others save", _part(productive * late / every)
    if len(job.checkpoint.rungs) == 1 and job.checkpoint.rungs[0].corrupt:
        # With several stores another one may have a checkpoint that is nearly as new.
        (rung,) = job.checkpoint.rungs
        again = rung.corrupt / (1 - rung.corrupt) if rung.corrupt < 1 else math.inf
        lost = min(rate * again * rung.period(job.step_time) * productive, 1.0)
        yield "going back behind checkpoints that cannot be read", lost


def _climbs(prepared: Prepared, job: PreparedJob, shares: dict[str, float]) -> Iterator[tuple[str, float]]:
    """Yield what it costs that recoveries fail until a rung has no budget left, or the operator is called."""
    recovery = prepared.recovery
    if not isinstance(recovery, Ladder):
        return
    rungs = recovery.rungs
    rate = 1 / job.mtti
    there = 1 - shares.get("starved", 0.0) - shares.get("queued", 0.0)
    # Of failures at a constant rate so many fall into a recovery, which is then attempted again.
    again = min((shares["detection"] + shares["restart"]) / there, 1.0) if there > 0 else 1.0
    operator = recovery.exhausted.mean_value
    first, last = (sum(rung.mean_times(job.gpus, job.nodes)) for rung in (rungs[0], rungs[-1]))
    budget = rungs[0].budget
    if budget:
        beyond = again**budget
        if not recovery.resets_on_progress:
            beyond = max(beyond, 1 - budget / max(rate * prepared.horizon, budget))
        dear = operator if rungs[-1].budget is not None else max(last - first, 0.0)
        yield "recovery after the budget of the first rung is spent", _part(beyond * rate * dear * recovery.scale)
    if recovery.no_progress is not None:
        called = again**recovery.no_progress
        yield (
            "waiting for the operator after restarts without progress",
            _part(called * rate * operator * recovery.scale),
        )


def _part(ratio: float) -> float:
    """Return the share of time of what takes so much of the rest [-]."""
    return ratio / (1 + ratio)


def _rate(prepared: Prepared, source: FailureSource, job: PreparedJob) -> float:
    """Return how often a cause strikes a job [1/s], noticed or not."""
    if source.detection_race is None:
        source = replace(source, detection_race=DetectionRace.by(KNOWN))
    return FailureRates.of(prepared).rate(source, job.nodes)


def _days(seconds: float) -> str:
    return f"{seconds / DAY:.3g} d"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"

"""The closed form of a job whose replicas leave one by one: what the theory of elastic replicas needs of a scenario."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick.sim.engine.prepared import SparePool
from ettrick.sim.formulas.elastic import elastic_shares, mean_wait, share_in_place
from ettrick.sim.formulas.nodes import domain_law, expected_pace, gives_up, missing_nodes_pmf, repairs_pmf, starvation
from ettrick.sim.formulas.queues import base_stock
from ettrick.sim.policies.contracts import OF_ONE_RANK, Pace
from ettrick.sim.policies.recovery import Ladder, Redundant
from ettrick.sim.policies.recovery.base import QUEUE, ExpectedFailure
from ettrick.sim.prepare.failures import FailureRates
from ettrick.sim.steps import Impairment, rerouted_pace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ettrick.sim.engine.prepared import Prepared, PreparedJob
    from ettrick.sim.failures import FailureSource
    from ettrick.sim.policies.recovery.base import RecoveryStrategy, SpareWait
    from ettrick.sim.policies.recovery.ladder import Rung
    from ettrick.sim.policies.repair import Stock
    from ettrick.sim.steps import StepPlan

_RARE = 1e-4

"""Probability below which a number of missing replicas is left out [-]."""


def elastic_form(prepared: Prepared) -> Callable[[PreparedJob], dict[str, float]]:
    """Return the function from a job to its expected shares [-], for a recovery that has absences."""
    recovery, first = prepared.recovery, prepared.jobs[0]
    # A replica that lost a process but no node does not wait for one.
    taking = min(_mtti(prepared, first, _sends_away) / _mtti(prepared, first, takes_nodes), 1.0)
    taking = taking if math.isfinite(taking) else 0.0
    wait = _wait(prepared) * taking
    leaving = {job.nodes: _leaving(prepared, job) for job in prepared.jobs}
    return lambda job: _elastic(job, recovery, leaving[job.nodes], wait, taking)


def _elastic(
    job: PreparedJob, recovery: RecoveryStrategy, leaving: float, wait: float, taking: float
) -> dict[str, float]:
    """Return the expected shares of a job whose replicas leave one by one.

    Of its failures the share `leaving` sends replicas away, of which the share `taking` takes nodes [-]; the others
    restart all. A replica that failed waits for a node for the mean time `wait` [s].
    """
    periodic, times = job.checkpoint, recovery.absence_for(job.gpus, job.nodes, job.parts)
    assert times is not None, "of a recovery that has absences"
    mtti = job.mtti / leaving if leaving > 0 else math.inf
    away = taking * times.away + (1 - taking) * times.in_place
    absent = 1 - share_in_place(1 / (mtti * job.parts), away + wait, job.detection_mean)
    redundant = recovery if isinstance(recovery, Redundant) else None
    pace, breach, fewest = 1.0, None, times.fewest
    if redundant is not None:
        breach, needed = redundant.breach(absent, job.replicas, job.stages)
        pace, fewest = 1 - redundant.overhead, job.parts - needed
    shares = elastic_shares(
        periodic.stepping(Pace(pace, job.step_time / pace)),
        periodic.stall,
        mtti,
        job.parts,
        stall=times.stall,
        absence=away,
        wait=wait,
        rejoin=times.rejoin,
        restart=times.restart + periodic.load,
        downtime=job.detection_mean,
        drain=periodic.drain,
        step=job.step_time / pace,
        fewest=fewest,
        others=job.mtti / (1 - leaving) if leaving < 1 else math.inf,
        breach=breach,
    )
    retained = _retained(job, recovery, mtti, absent, max(away + wait - times.stall, 0.0), times.fewest)
    if retained != 1:
        shares["degraded"] = (1 - retained) * shares["productive"]
        shares["productive"] *= retained
    return shares


def narrow_form(
    prepared: Prepared, shares: Callable[[PreparedJob], dict[str, float]]
) -> Callable[[PreparedJob], dict[str, float]] | None:
    r"""Return the function from a job whose domains run narrower while GPUs are repaired to its expected shares [-].

    Of the time that a rigid job is productive by `shares` it is so at the pace of the mean failure,

    .. math:: f = \frac{\lambda f^+ + \mu f^0}{\lambda + \mu}

    just after one domain lost a GPU (at the rate lambda), and at any time (other failures, at mu); the rest is
    degraded. ``None`` where a repair of GPUs has no law.

    References
    ----------
    Own: the time to the next failure does not depend on the pace, so that the pace of the time is that of the failures
    (R. W. Wolff, "Poisson arrivals see time averages", Operations Research 30 (1982)).
    """
    recovery: Any = prepared.recovery
    rows = repairs_by_cause(prepared.with_sources(tuple(filter(narrows(prepared), prepared.sources))))
    rate = sum(source_rate for source_rate, _ in (rows or {}).values())
    if rows is None:
        return None

    def narrow_shares(job: PreparedJob) -> dict[str, float]:
        full = shares(job)
        if not rate:
            return full
        repair = sum(source_rate * seconds for source_rate, seconds in rows.values()) / rate
        paces, lost = recovery.paces, rate * job.nodes
        law = domain_law(recovery.tensor, len(paces) - 1, recovery.tensor / rate, repair + job.detection_mean)
        # One more is missing of the domain that was struck, and none of one that is replaced.
        struck, usual = (
            expected_pace(paces, law, job.replicas, job.nodes // job.replicas, after=after, reshard=recovery.reshard)
            for after in (np.roll(law, 1), law)
        )
        pace = usual + (struck - usual) * min(lost * job.mtti, 1.0)
        return full | {"productive": pace * full["productive"], "degraded": (1 - pace) * full["productive"]}

    return narrow_shares


def narrows(prepared: Prepared) -> Callable[[FailureSource], bool]:
    """Return whether a source leaves nodes in their job with fewer GPUs."""
    return lambda source: takes_nodes(source) and source.fault in prepared.recovery.narrows_on


def _retained(
    job: PreparedJob, recovery: RecoveryStrategy, mtti: float, absent: float, away: float, fewest: int
) -> float:
    """Return what a job gets done relative to the replicas that are there, each `away` so long while others step."""
    work = job.plan.work if job.plan is not None else None
    if isinstance(recovery, Redundant):
        # What the whole job does, over the stages that are there: while it steps, and not in the stall of an absence.
        meanwhile = 1 - share_in_place(1 / (mtti * job.parts), away)
        pace = 1 - recovery.overhead
        return pace * recovery.mean_pace(meanwhile, job.replicas, job.stages, work) / (1 - meanwhile)
    if (job.keeps_batch or recovery.reroutes) and job.plan is not None:
        return _kept(job, job.plan, absent, fewest, reroutes=recovery.reroutes)
    return 1.0


def _kept(job: PreparedJob, plan: StepPlan, absent: float, fewest: int, *, reroutes: bool) -> float:
    """Return what a kept batch gets done, relative to the replicas that are there [-].

    A missing replica's share goes to the others by whole microbatches, or stage by stage if the job `reroutes`. Each
    set of replicas is `absent` for a share of the time [-], independently of the others.
    """
    work = plan.work
    ranks = work.data // job.replicas
    law = missing_nodes_pmf(job.replicas, absent)
    done = there = 0.0
    for missing in range(job.replicas - fewest + 1):
        if law[missing] > _RARE:
            there += law[missing] * (1 - missing / job.replicas)
            done += law[missing] * (
                rerouted_pace(work.microbatches, work.pipeline, work.data, missing * ranks)
                if reroutes
                else plan.pace(Impairment(missing=missing * ranks, keeps_batch=True))
            )
    return float(done / there) if there > 0 else 1.0


def _leaving(prepared: Prepared, job: PreparedJob) -> float:
    """Return the share of a job's failures that send replicas away [-]."""
    total, some = (_mtti(prepared, job, kind) for kind in (lambda _: True, _sends_away))
    return min(total / some, 1.0) if math.isfinite(total) else 0.0


def _mtti(prepared: Prepared, job: PreparedJob, kind: Callable[[FailureSource], bool]) -> float:
    """Return the mean time to interrupt of a job by the sources of a kind [s]."""
    return FailureRates.of(prepared).interrupts(filter(kind, prepared.sources), job.nodes)[0]


def takes_nodes(source: FailureSource) -> bool:
    """Return whether a node that fails is away for a while."""
    # A log says itself how long; with tiers of repair, it is unknown beforehand.
    return source.part != "job" and (
        source.recorded is not None or source.repair is None or source.repair.mean_value > 0
    )


def _sends_away(source: FailureSource) -> bool:
    """Return whether a failure sends the replica that it strikes away, with its nodes or without."""
    return takes_nodes(source) or (source.fault in OF_ONE_RANK and source.fix is None and source.effect.stops)


def _wait(prepared: Prepared) -> float:
    """Return the mean time until there is a node for one that failed [s]; 0 where unknown."""
    lives = _ups_and_downs(prepared)
    if lives is None:
        return 0.0
    named = pools_of(prepared)
    needed = sum(job.nodes for job in prepared.jobs)
    pools = _reserves(prepared, needed)
    used = [pools[name] for name in named if name in pools and pools[name].nodes]
    extra = sum(pool.nodes for pool in used)
    refills = "idle" not in named and any(pool.refills for pool in used)
    wait = mean_wait(needed, extra, *lives, pools["idle"].nodes if refills else 0)
    return wait + (used[0].delay if used else 0.0)


def repairs_by_cause(prepared: Prepared) -> dict[str, tuple[float, float]] | None:
    """Return at which rate each cause takes a node [1/s], and its mean repair [s]; ``None`` where one has no law."""
    repairs = {}
    for source in prepared.sources:
        if not takes_nodes(source) or source.detection_race is None:
            continue
        if source.repair is None or source.recorded is not None:
            return None
        repairs[source.name] = FailureRates.of(prepared).rate(source, 1), source.repair.mean_value
    for names, stock, demand in _demands(prepared, repairs):
        waits = [base_stock(demand, lead, level).wait for lead, level in pipelines(stock) if demand]
        wait = stock.share * sum(waits) / max(len(waits), 1)
        repairs |= {name: (repairs[name][0], repairs[name][1] + wait) for name in names}
    return repairs


def _demands(prepared: Prepared, rows: Mapping[str, tuple[float, float]]) -> Iterator[tuple[list[str], Stock, float]]:
    """Yield the causes of each stock of parts, and what they ask of it [1/s]: rows are rates of a node, and repairs."""
    for plan in prepared.parts.values():
        names = [name for name in rows if name in plan.causes]
        yield names, plan.stock, plan.stock.share * prepared.nodes * sum(rows[name][0] for name in names)


_DATES = 8

"""Times between two deliveries that stand for all."""


def pipelines(stock: Stock) -> list[tuple[float, int]]:
    """Return mean times that a part is on its way [s], and what is on the shelf and on its way, each as often.

    That is anything from above the reorder point to the stock (G. Hadley, T. M. Whitin, Analysis of Inventory Systems,
    1963: exact where lead times are constant), and the next delivery anything up to the time between two.
    """
    lates = [(stock.deliveries or 0.0) * (date + 0.5) / _DATES for date in range(_DATES if stock.deliveries else 1)]
    leads = [stock.lead.mean_value + late for late in lates]
    if stock.returns is not None:
        back = stock.returns.repaired
        leads = [back * stock.returns.time.mean_value + (1 - back) * lead for lead in leads]
    return [(lead, level) for lead in leads if lead for level in range(stock.least + 1, stock.stock + 1)]


def _short_by_parts(prepared: Prepared, spares: int) -> float:
    """Return the probability that more nodes than the spares are in repair, or wait for parts for it [-].

    What is on order has a Poisson law (Palm), and nodes wait for what of it exceeds the shelf: many at a time, where
    repairs alone would be spread. Both are taken as independent.
    """
    rows = repairs_by_cause(replace(prepared, parts={})) or {}
    law = repairs_pmf(prepared.nodes * sum(rate * repair for rate, repair in rows.values()), spares)
    for _, stock, demand in _demands(prepared, rows):
        on_the_way = pipelines(stock) if demand else []
        waiting = np.zeros(spares + 1)
        for lead, level in on_the_way:
            orders = repairs_pmf(demand * lead, level + spares)
            waiting += np.concatenate([[orders[: level + 1].sum()], orders[level + 1 :]])
        if on_the_way:
            law = np.convolve(law, waiting / len(on_the_way))[: spares + 1]
    return float(1 - law.sum())


def lives_and_repairs(prepared: Prepared) -> tuple[float, float] | None:
    """Return the mean life of a node and its mean repair [s]; ``None`` where repairs have no law, or nothing fails."""
    rows = (repairs_by_cause(prepared) or {}).values()
    rate = sum(source_rate for source_rate, _ in rows)
    return (1 / rate, sum(source_rate * repair for source_rate, repair in rows) / rate) if rate > 0 else None


def down_time(prepared: Prepared, life: float, repair: float) -> float:
    """Return how long a node is down that lives so long on average and is repaired in so long [s].

    Outages that join are one: a busy period of an infinite-server queue, of the mean (exp(repair / life) - 1) life.
    """
    joined = all(source.outages_join for source in prepared.sources if takes_nodes(source))
    return life * math.expm1(min(repair / life, _FAR)) if joined else repair


def _ups_and_downs(prepared: Prepared) -> tuple[float, float] | None:
    """Return the mean times that a node is up and that it is down [s]; ``None`` where they have no law."""
    lives = lives_and_repairs(prepared)
    return None if lives is None else (lives[0], down_time(prepared, *lives))


_FAR = 100.0

"""Mean repairs of a node that are open at once beyond which it is down for good [-]."""


# For which share of time a job has too few nodes, as far as theory knows it of a scenario.

_NEVER = 1e-6

"""Share of time that is negligible in a result [-]."""

_MOSTLY = 0.95

"""Share of time short of nodes from which on a job is hardly ever there to give up [-]."""

_MANY = 4_000

"""Hot spares times nodes that come later beyond which their chain takes too long to solve [-]."""


class Waits(NamedTuple):
    """The waits for nodes of a job, as shares of the time that is not detection [-].

    Parameters
    ----------
    starved
        Waiting with the nodes that are left.
    queued
        Waiting in the queue, after its patience.
    restart
        By how much longer the restarts from the queue are, the time until the job is eligible included.
    exposed
        Whether nodes that wait with their job can fail.
    """

    starved: float = 0.0
    queued: float = 0.0
    restart: float = 0.0
    exposed: bool = True

    @property
    def total(self) -> float:
        """All of it [-]."""
        return self.starved + self.queued + self.restart

    def unknown(self, source: FailureSource) -> float:
        """Return how often failures of a cause hit the job, relative to one that always has its nodes [-].

        While it waits no process runs: nodes fail like idle ones.
        """
        runs = self.exposed and source.part != "job" and source.clock != "busy"
        return 1 - self.total + (source.idle_hazard * self.starved if runs else 0.0)


def waits_for_nodes(prepared: Prepared, job: PreparedJob) -> Waits | None:
    """Return what a lack of nodes costs a job, nothing if it is negligible; ``None`` if that is not known.

    It is known (`ettrick.sim.formulas.nodes`) of a scenario's only job that can take any healthy node at once, and
    whose failures are all waited for in the same way: for as long as it takes, or for some time and then in the queue.
    Where nothing else is left, nodes may come after a delay too, if the job waits for them. What it does before it asks
    for nodes passes meanwhile. What is in the queue cannot be hit; nodes fail there as idle ones do.

    Parameters
    ----------
    prepared
        The scenario.
    job
        Its job, or one of another layout.
    """
    repairs, lives = repairs_by_cause(prepared), _ups_and_downs(prepared)
    if repairs is None or lives is None:
        return None if repairs is None else Waits()
    takers = [source for source in prepared.sources if source.name in repairs]
    wait = _wait_of_starved(prepared, job, takers, [repairs[source.name][0] for source in takers])
    # Nodes that serve no running job wear at the same rate, or not at all: on a clock that counts what is busy, too.
    hazards = {0.0 if source.clock == "busy" else source.idle_hazard for source in takers}
    if wait is None or len(prepared.jobs) > 1 or prepared.units is not None or hazards not in ({0.0}, {1.0}):
        return None
    spares, late, delay = _at_hand(prepared, job, wait)
    if spares is None or spares * late > _MANY:
        return None
    cold = hazards == {0.0}
    return _waits(prepared, job, lives, wait, (spares, late, delay), cold=cold)


def _waits(
    prepared: Prepared,
    job: PreparedJob,
    lives: tuple[float, float],
    wait: SpareWait,
    at_hand: tuple[int, int, float],
    *,
    cold: bool,
) -> Waits:
    """Return what a lack of nodes costs a job that waits in one way, with the nodes available (`_at_hand`)."""
    spares, late, delay = at_hand
    exposed = wait.exposed and not cold
    starved = starvation(
        *lives, job.nodes, spares, downtime=job.detection_mean, cold=cold, exposed=exposed, standby=late, delay=delay
    )
    share = starved.share / (1 - starved.detection)
    if prepared.parts and not late:
        share = _short_by_parts(prepared, spares)
    if share <= _NEVER:
        return Waits()
    if wait.before > 0:
        # What is left of a wait after some time, as if that were memoryless.
        share *= math.exp(-wait.before * starved.probability / starved.wait)
    if math.isinf(wait.patience) or late:
        return Waits(starved=share, exposed=exposed)
    return _impatient(share, lives, job.nodes, spares, wait, exposed=exposed)


def _impatient(
    share: float, lives: tuple[float, float], required: int, spares: int, wait: SpareWait, *, exposed: bool
) -> Waits:
    """Return what a lack of nodes for a `share` of time [-] costs a job that goes back to the queue after a while."""
    # A job that hardly ever runs is in the queue.
    part, often = gives_up(*lives, required, spares, wait.patience, exposed=exposed) if share < _MOSTLY else (0.0, 0.0)
    queued, often = share * (1 - part), share * often
    if not often:
        return Waits(share * part, queued, exposed=exposed)
    left = queued / often
    # Nodes may be there before the job is eligible, and the job eligible before they are.
    both = left * -math.expm1(-wait.delay / left) if left > 0 else 0.0
    return Waits(share * part, queued - often * both, often * (wait.delay + wait.more), exposed)


def _wait_of_starved(
    prepared: Prepared, job: PreparedJob, takers: Sequence[FailureSource], rates: Sequence[float]
) -> SpareWait | None:
    """Return how a job waits for nodes, its times the means over what takes them; ``None`` where ways differ."""
    recovery = prepared.recovery
    if recovery.elastic:
        return None
    waits: list[SpareWait | None] = [
        recovery.waits(ExpectedFailure(source.fault, job.gpus, job.nodes, 1)) for source in takers
    ]
    spare_waits = [wait for wait in waits if wait is not None]
    kinds = {(frozenset(wait.pools), wait.patience, wait.exposed, wait.fills) for wait in spare_waits}
    if len(spare_waits) < len(waits) or len(kinds) != 1:
        return None
    total = sum(rates)
    times = {
        name: sum(getattr(wait, name) * rate for wait, rate in zip(spare_waits, rates, strict=True)) / total
        for name in ("before", "delay", "more")
    }
    return spare_waits[0]._replace(**times)


def _at_hand(prepared: Prepared, job: PreparedJob, wait: SpareWait) -> tuple[int | None, int, float]:
    """Return the nodes that a job can take at once, those that come later, and when [s]; ``None`` if not known."""
    reserves = {name: pool for name, pool in _reserves(prepared, job.nodes).items() if pool.nodes}
    # A job that is back in the queue takes no others.
    named = wait.pools if math.isinf(wait.patience) else set(QUEUE) & set(wait.pools)
    if not set(reserves) <= set(named):
        return None, 0, 0.0
    late = [pool for pool in reserves.values() if pool.delay]
    spares = sum(pool.nodes for pool in reserves.values()) - sum(pool.nodes for pool in late)
    if not late:
        return spares, 0, 0.0
    pool = late[0]
    if len(late) > 1 or not pool.refills or pool.one_by_one or wait.fills or wait.before > 0:
        return None, 0, 0.0
    return spares, pool.nodes, pool.delay


def starved_at_most(prepared: Prepared) -> float | None:
    """Return an upper bound of the share of time that a rigid job waits for nodes [-], whatever its recovery.

    All jobs are taken for one, and a reserve for what is in it at the start and can be had at once. In the long run,
    for nodes that fail one by one at constant rates. ``None`` where repairs have no law, jobs use whole units, all that
    the recovery could take comes with a delay, or the jobs need more nodes than there are.

    Parameters
    ----------
    prepared
        The scenario.
    """
    repairs, lives = repairs_by_cause(prepared), _ups_and_downs(prepared)
    required = sum(job.nodes for job in prepared.jobs)
    if repairs is not None and lives is None:
        return 0.0
    if lives is None or prepared.units is not None or required > prepared.nodes:
        return None
    spares = _ready_spares(prepared, required)
    if spares is None:
        return None
    hazards = {source.idle_hazard for source in prepared.sources if source.name in (repairs or ())}
    return starvation(*lives, required, spares, cold=hazards <= {0.0}).share


def _ready_spares(prepared: Prepared, required: int) -> int | None:
    """Return the nodes that replace others at once [-]; ``None`` where all that could come with a delay."""
    pools = _reserves(prepared, required)
    used = [pool for name in _pools(prepared) if (pool := pools.get(name)) is not None and pool.nodes]
    ready = [pool.nodes for pool in used if not pool.delay]
    return sum(ready) if ready or not used else None


def _pools(prepared: Prepared) -> tuple[str, ...]:
    """Return the pools that a recovery names, or its first rung that keeps nodes; else those that the queue takes."""
    keeping = [rung for rung in rungs_of(prepared) if rung.keeps != "nothing"]
    return keeping[0].pools if keeping else pools_of(prepared, QUEUE)


def pools_of(prepared: Prepared, otherwise: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the pools that a recovery takes nodes from, if it names some."""
    named: tuple[str, ...] = getattr(prepared.recovery, "pools", otherwise)
    return named


def rungs_of(prepared: Prepared) -> tuple[Rung, ...]:
    """Return the rungs of a recovery; of one that is no ladder, none."""
    return prepared.recovery.rungs if isinstance(prepared.recovery, Ladder) else ()


def _reserves(prepared: Prepared, needed: int) -> dict[str, SparePool]:
    """Return the pools next to the nodes that are `needed`: those of the scenario, and what is idle."""
    # Jobs that wait for one another may ask for more nodes together than there are.
    idle = prepared.serving - needed - sum(pool.nodes for pool in prepared.reserves.values())
    return {"idle": SparePool(max(idle, 0)), **prepared.reserves}

"""The closed form of a job whose replicas leave one by one: what the theory of elastic replicas needs of a scenario."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sim.contracts import OF_ONE_RANK, Pace
from sim.perf import Impairment, rerouted_pace
from sim.places import Reserve
from sim.prepare_failures import prior
from sim.theory.availability import missing_nodes_pmf
from sim.theory.elastic import elastic_shares, mean_wait, share_in_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.failures import Source
    from sim.prepared import Prepared, PreparedJob
    from sim.recovery.base import Absence

__all__ = ["elastic_form", "idle_nodes", "lives_and_repairs", "repairs_by_cause", "success", "takes_nodes"]

_RARE = 1e-4
"""Probability below which a number of missing replicas is left out [-]."""


def elastic_form(prepared: Prepared) -> Callable[[PreparedJob], dict[str, float]]:
    """Return the function from a job to its expected shares [-], for a recovery that has absences."""
    recovery: Any = prepared.recovery
    one = prepared.jobs[0]
    # A replica that lost a process but no node does not wait for one.
    taking = min(_mtti(prepared, one, _sends_away) / _mtti(prepared, one, takes_nodes), 1.0)
    taking = taking if math.isfinite(taking) else 0.0
    wait = _wait(prepared) * taking
    leaving = {job.nodes: _leaving(prepared, job) for job in prepared.jobs}
    return lambda job: _elastic(
        job,
        recovery.absence_for(job.gpus, job.nodes, job.replicas),
        leaving[job.nodes],
        wait,
        taking=taking,
        reroutes=recovery.reroutes,
    )


def _elastic(
    job: PreparedJob, times: Absence, leaving: float, wait: float, *, taking: float, reroutes: bool
) -> dict[str, float]:
    """Return the expected shares of a job whose replicas leave one by one.

    Parameters
    ----------
    leaving, taking
        Share of its failures that send replicas away [-], of which a share takes nodes; the others restart all.
    wait
        Mean time until there is a node for one that failed [s].
    """
    periodic = job.checkpoint
    mtti = job.mtti / leaving if leaving > 0 else math.inf
    away = taking * times.away + (1 - taking) * times.in_place
    found = elastic_shares(
        periodic.stepping(Pace(1.0, job.step_time)),
        periodic.stall,
        mtti,
        job.replicas,
        stall=times.stall,
        absence=away,
        wait=wait,
        rejoin=times.rejoin,
        restart=times.restart + periodic.load,
        downtime=job.detection_mean,
        drain=periodic.drain,
        step=job.step_time,
        fewest=times.fewest,
        others=job.mtti / (1 - leaving) if leaving < 1 else math.inf,
    )
    if (job.keeps_batch or reroutes) and job.plan is not None:
        rate = 1 / (mtti * job.replicas)
        kept = _kept(job, 1 - share_in_place(rate, away + wait, job.detection_mean), times.fewest, reroutes=reroutes)
        found["degraded"] = (1 - kept) * found["productive"]
        found["productive"] *= kept
    return found


def _kept(job: PreparedJob, absent: float, fewest: int, *, reroutes: bool) -> float:
    """Return what a kept batch gets done, relative to the replicas that are there [-].

    A missing replica's share goes to the others by whole microbatches, or stage by stage if the job `reroutes`. Each
    set of replicas is `absent` for a share of the time [-], independently of the others.
    """
    assert job.plan is not None, "only of a job with a plan"
    work = job.plan.work
    each = work.data // job.replicas
    law = missing_nodes_pmf(job.replicas, absent)
    done = there = 0.0
    for missing in range(job.replicas - fewest + 1):
        if law[missing] > _RARE:
            there += law[missing] * (1 - missing / job.replicas)
            done += law[missing] * (
                rerouted_pace(work.microbatches, work.pipeline, work.data, missing * each)
                if reroutes
                else job.plan.pace(Impairment(missing=missing * each, keeps_batch=True))
            )
    return float(done / there) if there > 0 else 1.0


def _leaving(prepared: Prepared, job: PreparedJob) -> float:
    """Return the share of a job's failures that send replicas away [-]."""
    total, some = (_mtti(prepared, job, kind) for kind in (lambda _: True, _sends_away))
    return min(total / some, 1.0) if math.isfinite(total) else 0.0


def _mtti(prepared: Prepared, job: PreparedJob, kind: Callable[[Source], bool]) -> float:
    """Return the mean time to interrupt of a job by the sources of a kind [s]."""
    length = prepared.warmup + prepared.horizon
    return prior(list(filter(kind, prepared.sources)), job.nodes / prepared.nodes, length, success(prepared))[0]


def success(prepared: Prepared) -> float:
    """Return the probability that a repair removes a fault [-]."""
    repair: Any = prepared.repair
    return float(repair.success)


def takes_nodes(source: Source) -> bool:
    """Return whether a node that fails is away for a while."""
    # A log says itself how long; with tiers of repair, nobody knows beforehand.
    return source.part != "job" and (
        source.recorded is not None or source.repair is None or source.repair.mean_value > 0
    )


def _sends_away(source: Source) -> bool:
    """Return whether a failure sends the replica that it strikes away, with its nodes or without."""
    return takes_nodes(source) or (source.fault in OF_ONE_RANK and source.fix is None and source.effect.stops)


def _wait(prepared: Prepared) -> float:
    """Return the mean time until there is a node for one that failed [s]; 0 where nobody knows."""
    recovery: Any = prepared.recovery
    lives = lives_and_repairs(prepared)
    if lives is None:
        return 0.0
    needed = sum(each.nodes for each in prepared.jobs)
    pools = {"idle": Reserve(idle_nodes(prepared)), **prepared.reserves}
    used = [pools[name] for name in recovery.pools if name in pools and pools[name].nodes]
    extra = sum(pool.nodes for pool in used)
    refills = "idle" not in recovery.pools and any(pool.refills for pool in used)
    found = mean_wait(needed, extra, *lives, idle_nodes(prepared) if refills else 0)
    return found + (used[0].delay if used else 0.0)


def repairs_by_cause(prepared: Prepared) -> dict[str, tuple[float, float]] | None:
    """Return at which rate each cause takes a node [1/s], and its mean repair [s]; ``None`` where one has no law."""
    found = {}
    for source in prepared.sources:
        if not takes_nodes(source) or source.noticing is None:
            continue
        if source.repair is None or source.recorded is not None:
            return None
        mtti, _ = prior([source], 1 / prepared.nodes, prepared.warmup + prepared.horizon, success(prepared))
        found[source.name] = 1 / mtti, source.repair.mean_value
    return found


def lives_and_repairs(prepared: Prepared) -> tuple[float, float] | None:
    """Return the mean life of a node and its mean repair [s]; ``None`` where repairs have no law, or nothing fails."""
    rows = (repairs_by_cause(prepared) or {}).values()
    rate = sum(each for each, _ in rows)
    return (1 / rate, sum(each * repair for each, repair in rows) / rate) if rate > 0 else None


def idle_nodes(prepared: Prepared) -> int:
    """Return the nodes that neither a job needs nor a reserve has [-]."""
    needed = sum(each.nodes for each in prepared.jobs)
    # Jobs that wait for one another may ask for more nodes together than there are.
    return max(prepared.serving - needed - sum(reserve.nodes for reserve in prepared.reserves.values()), 0)

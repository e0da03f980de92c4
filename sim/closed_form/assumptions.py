"""What a closed form takes for granted and a scenario breaks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sim.closed_form.elastic import idle_nodes, lives_and_repairs, takes_nodes
from sim.places import Reserve
from sim.theory.starved import starvation

if TYPE_CHECKING:
    from sim.failures import Source
    from sim.prepared import Prepared

__all__ = ["broken_assumptions"]

_NEVER = 1e-6
"""Share of time that nobody would see in a result [-]."""


def broken_assumptions(prepared: Prepared) -> list[str]:
    """Return what the formula assumes and the scenario breaks, a line each."""
    broken = ["long run: the first start and the horizon's edge are left out"]
    laws = [source.name for source in prepared.sources if source.law is not None and not source.law.memoryless]
    if laws:
        broken.append(f"constant failure rates, but {', '.join(laws)} age")
    if any(source.recorded is not None for source in prepared.sources):
        broken.append("constant failure rates, but a log is replayed: its mean rate is used")
    uneven = [source.name for source in prepared.sources if source.variety or source.tempo is not None]
    if uneven:
        broken.append(f"nodes alike and steady rates, but those of {', '.join(uneven)} are not")
    left = [source.name for source in prepared.sources if source.residue is not None or source.hidden is not None]
    if left:
        broken.append(f"independent failures, but repairs leave faults behind ({', '.join(left)})")
    if any(source.blast is not None for source in prepared.sources):
        broken.append("failures of single nodes, but incidents take several")
    quiet = [source.name for source in prepared.sources if not source.effect.stops]
    if quiet:
        broken.append(f"a job steps at its healthy pace until it stops, but {', '.join(quiet)} do not stop it")
    narrow = [source.name for source in prepared.sources if source.of_fabric and source.cuts < 1]
    if narrow:
        broken.append(f"a job steps at its healthy pace until it stops, but {', '.join(narrow)} take bandwidth from it")
    if any(source.fix is not None or source.rollout is not None for source in prepared.sources):
        broken.append("no bugs and no rollouts")
    repaired = [source for source in prepared.sources if takes_nodes(source)]
    recovery: Any = prepared.recovery
    if recovery.elastic:
        broken += _assumptions_of_absences(prepared, repaired)
    elif repaired:
        broken += _of_nodes_at_hand(prepared)
    broken += _assumptions_of_copies(prepared)
    if not recovery.elastic and len(getattr(recovery, "rungs", ())) + (getattr(recovery, "no_progress", None) or 0) > 1:
        broken.append("failures are over before the next: no budget is spent, no way back in vain, no human is called")
    if any(source.saves or source.away is not None for source in prepared.sources):
        broken.append("stops that are announced cost what failures cost: nothing is saved before")
    if any(job.checkpoint.pauses for job in prepared.jobs):
        broken.append("no periodic work")
    if len(prepared.jobs) > 1 or any(job.arrival for job in prepared.jobs):
        broken.append("no job waits for another")
    if any(math.isfinite(job.target) for job in prepared.jobs):
        broken.append("the job never ends")
    return broken


def _of_nodes_at_hand(prepared: Prepared) -> list[str]:
    """Return that a formula takes nodes to be at hand; for how long they are not, where theory knows; else nothing."""
    assumed = "a healthy node is always at hand"
    share = _share_starved(prepared)
    if share is None:
        return [assumed]
    return [f"{assumed}: in the long run none is for {100 * share:.2g} % of the time"] if share > _NEVER else []


def _share_starved(prepared: Prepared) -> float | None:
    """Return for which share of time the one job of a scenario has too few nodes [-]; ``None`` where it is not known.

    It is known for a job that keeps its nodes, and takes at once any other that is there (`sim.theory.starved`).
    """
    recovery: Any = prepared.recovery
    pools, lives = getattr(recovery, "pools", None), lives_and_repairs(prepared)
    hazards = {source.idle_hazard for source in prepared.sources if takes_nodes(source)}
    if pools is None or lives is None or len(prepared.jobs) > 1 or prepared.units is not None or len(hazards) > 1:
        return None
    reserves = {"idle": Reserve(idle_nodes(prepared)), **prepared.reserves}
    left_out = [name for name, pool in reserves.items() if pool.nodes and name not in pools]
    job, cold = prepared.jobs[0], 0.0 in hazards
    if left_out or any(pool.delay for pool in reserves.values() if pool.nodes) or not (cold or 1.0 in hazards):
        return None
    spares = sum(pool.nodes for pool in reserves.values())
    return starvation(*lives, job.nodes, spares, downtime=job.detection_mean, cold=cold).share


def _assumptions_of_copies(prepared: Prepared) -> list[str]:
    """Return what a formula assumes of copies and the scenario breaks."""
    recovery: Any = prepared.recovery
    broken = []
    if any(len(job.checkpoint.rungs) > 1 for job in prepared.jobs):
        only = "the remote store is the only one"
        broken.append(
            only if recovery.elastic else "each store saves by itself, and a failure takes the copies of one node"
        )
    if any(rung.corrupt for job in prepared.jobs for rung in job.checkpoint.rungs):
        broken.append("every copy can be read")
    return broken


def _assumptions_of_absences(prepared: Prepared, repaired: list[Source]) -> list[str]:
    """Return what the formula for a job that shrinks assumes and the scenario breaks."""
    recovery: Any = prepared.recovery
    broken = []
    one = prepared.jobs[0]
    if not recovery.absence_for(one.gpus, one.nodes, one.replicas).is_fixed:
        broken.append("stalls and absences are as long as their means")
    if any(source.repair is None for source in repaired):
        broken.append("a healthy node is always at hand")
    if prepared.units is not None:
        broken.append("nodes are replaced one by one, but jobs use whole units")
    return broken

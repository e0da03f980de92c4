"""What a closed form takes for granted and a scenario breaks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sim.closed_form.elastic import takes_nodes
from sim.failures.source import OF_ONE_NODE

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.closed_form.starved import Waits
    from sim.failures import Source
    from sim.prepared import Prepared, PreparedJob

__all__ = ["broken_assumptions"]


def broken_assumptions(prepared: Prepared, waits_of: Callable[[PreparedJob], Waits | None]) -> list[str]:
    """Return what the formula assumes and the scenario breaks, a line each; `waits_of` is `Renewal.waits`."""
    recovery: Any = prepared.recovery
    broken = ["long run: the first start and the horizon's edge are left out"]
    broken += _of_lives(prepared)
    broken += _of_effects(prepared)
    repaired = [source for source in prepared.sources if takes_nodes(source)]
    if recovery.elastic:
        broken += _assumptions_of_absences(prepared, repaired)
    else:
        broken += _of_nodes_at_hand(prepared, waits_of) if repaired else []
        broken += _of_plans(prepared)
    broken += _assumptions_of_copies(prepared)
    if any(source.saves for source in prepared.sources):
        broken.append("stops that are announced cost what failures cost: nothing is saved before")
    if any(source.away is not None for source in prepared.sources):
        broken.append("the time that a preempted job is away is left out")
    if any(job.checkpoint.pauses for job in prepared.jobs):
        broken.append("no periodic work")
    if len(prepared.jobs) > 1 or any(job.arrival for job in prepared.jobs):
        broken.append("no job waits for another")
    if any(math.isfinite(job.target) for job in prepared.jobs):
        broken.append("the job never ends")
    return broken


def _of_lives(prepared: Prepared) -> list[str]:
    """Return what a formula assumes of when parts fail and the scenario breaks."""
    broken = []
    laws = _names(prepared, lambda source: source.law is not None and not source.law.memoryless)
    if laws:
        broken.append(f"constant failure rates, but {_do(laws, 'age')}")
    if any(source.recorded is not None for source in prepared.sources):
        broken.append("constant failure rates, but a log is replayed: its mean rate is used")
    once = _names(prepared, lambda source: source.renews == "never")
    if once:
        broken.append(f"constant failure rates, but a part that had {' or '.join(once)} never has it again")
    uneven = _names(prepared, lambda source: bool(source.variety) or source.tempo is not None)
    if uneven:
        broken.append(f"nodes alike and steady rates, but those of {', '.join(uneven)} are not")
    left = _names(prepared, lambda source: source.residue is not None or source.hidden is not None)
    if left:
        broken.append(f"independent failures, but repairs leave faults behind ({', '.join(left)})")
    return broken


def _of_effects(prepared: Prepared) -> list[str]:
    """Return what a formula assumes of what failures do to a job and the scenario breaks."""
    broken = []
    if any(map(_takes_several, prepared.sources)):
        broken.append("failures of single nodes, but incidents take several")
    steps_on = "a job steps at its healthy pace until it stops, but"
    quiet = _names(prepared, lambda source: not source.effect.stops)
    if quiet:
        broken.append(f"{steps_on} {', '.join(quiet)} {'do' if len(quiet) > 1 else 'does'} not stop it")
    narrow = _names(prepared, lambda source: source.of_fabric and source.cuts < 1)
    if narrow:
        broken.append(f"{steps_on} {_do(narrow, 'take')} bandwidth from it")
    if any(source.fix is not None or source.rollout is not None for source in prepared.sources):
        broken.append("no bugs and no rollouts")
    recovery: Any = prepared.recovery
    late = _names(prepared, lambda source: source.defer)
    if late and recovery.has_unexposed_phases:
        broken.append(f"nothing fails in phases that failures cannot hit, but {_do(late, 'wait')} for their end")
    out = _names(prepared, lambda source: source.store_out is not None)
    if out:
        broken.append(f"stores can be read at any time, but {_do(out, 'take')} them away for a while")
    return broken


def _names(prepared: Prepared, kind: Callable[[Source], bool]) -> list[str]:
    """Return the names of the sources of a kind."""
    return [source.name for source in prepared.sources if kind(source)]


def _do(names: list[str], verb: str) -> str:
    """Return that some do what a verb says."""
    return f"{', '.join(names)} {verb}{'s' if len(names) == 1 else ''}"


def _takes_several(source: Source) -> bool:
    """Return whether one failure can stop several nodes at once."""
    shared = source.part != "job" and source.part not in OF_ONE_NODE
    return source.blast is not None or (shared and (source.cuts > 0 or not source.of_fabric))


def _of_nodes_at_hand(prepared: Prepared, waits_of: Callable[[PreparedJob], Waits | None]) -> list[str]:
    """Return that a formula takes nodes to be at hand, or for how long they are not, if it knows."""
    job = prepared.jobs[0]
    waits = waits_of(job)
    if waits is None:
        return ["a healthy node is always at hand"]
    if not waits.total:
        return []
    share = waits.total / (1 + job.detection_mean / job.mtti)
    return [f"spares and repairs in their long run: {100 * share:.3g} % of the time is starved of nodes"]


def _of_plans(prepared: Prepared) -> list[str]:
    """Return what a formula assumes of what is done after a failure and the scenario breaks."""
    recovery: Any = prepared.recovery
    rungs, broken = getattr(recovery, "rungs", ()), []
    climbs = any(rung.budget is not None or rung.backoff is not None for rung in rungs)
    if len(rungs) > 1 or climbs or getattr(recovery, "no_progress", None) is not None:
        broken.append("failures are over before the next: no budget is spent, no way back in vain, no human is called")
    if getattr(recovery, "evict", None) is not None:
        broken.append("healthy nodes stay in their job, but those that are evicted need others")
    return broken


def _assumptions_of_copies(prepared: Prepared) -> list[str]:
    """Return what a formula assumes of copies and the scenario breaks."""
    recovery: Any = prepared.recovery
    broken = []
    if any(len(job.checkpoint.rungs) > 1 for job in prepared.jobs):
        if recovery.elastic:
            broken.append("the remote store is the only one")
        else:
            broken.append("each store saves by itself, and a failure takes the copies of one node")
            broken.append("the store whose copies are newest on average is read, though another may have a newer one")
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
    if any(source.repair is None or source.recorded is not None for source in repaired):
        broken.append("a healthy node is always at hand")
    if prepared.units is not None:
        broken.append("nodes are replaced one by one, but jobs use whole units")
    return broken

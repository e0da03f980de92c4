"""For which share of time a job has too few nodes, as far as theory knows it of a scenario."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sim.closed_form.elastic import lives_and_repairs, repairs_by_cause
from sim.places import Reserve
from sim.theory.starved import Starvation, starvation

if TYPE_CHECKING:
    from sim.prepared import Prepared, PreparedJob

__all__ = ["starved_at_most", "waits_for_nodes"]


_NEVER = 1e-6
"""Share of time that nobody would see in a result [-]."""


_PLENTY = Starvation(0.0, 0.0, 0.0, 0.0)


def waits_for_nodes(prepared: Prepared, job: PreparedJob) -> Starvation | None:
    """Return how a job waits for nodes, no waits if nobody would see them; ``None`` if that is not known.

    It is known (`sim.theory.starved`) of a scenario's only job that, before anything else and for as long as it takes,
    waits for nodes, and takes any healthy one at once.

    Parameters
    ----------
    prepared
        The scenario.
    job
        Its job, or one of another layout.
    """
    recovery: Any = prepared.recovery
    repairs, lives = repairs_by_cause(prepared), lives_and_repairs(prepared)
    if repairs is None or lives is None:
        return None if repairs is None else _PLENTY
    hazards = {
        0.0 if source.clock == "busy" else source.idle_hazard for source in prepared.sources if source.name in repairs
    }
    swaps_first = not recovery.elastic and getattr(recovery, "patience", math.inf) is None
    if not swaps_first or len(prepared.jobs) > 1 or prepared.units is not None or hazards not in ({0.0}, {1.0}):
        return None
    reserves = _reserves(prepared, job.nodes)
    if any(pool.nodes and (pool.delay or name not in recovery.pools) for name, pool in reserves.items()):
        return None
    spares = sum(pool.nodes for pool in reserves.values())
    cold = hazards == {0.0}
    # Nodes that wait with their job are hit like those outside.
    found = starvation(*lives, job.nodes, spares, downtime=job.detection_mean, cold=cold, exposed=not cold)
    return found if found.share > _NEVER else _PLENTY


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
    repairs, lives = repairs_by_cause(prepared), lives_and_repairs(prepared)
    required = sum(job.nodes for job in prepared.jobs)
    if repairs is not None and lives is None:
        return 0.0
    if lives is None or prepared.units is not None or required > prepared.nodes:
        return None
    reserves = _reserves(prepared, required)
    used = [reserves[name] for name in _pools(prepared) if name in reserves and reserves[name].nodes]
    ready = [pool.nodes for pool in used if not pool.delay]
    if used and not ready:
        return None
    cold = all(source.idle_hazard == 0.0 for source in prepared.sources if source.name in (repairs or ()))
    return starvation(*lives, required, sum(ready), cold=cold).share


def _pools(prepared: Prepared) -> tuple[str, ...]:
    """Return the pools that a recovery names, or its first rung that keeps nodes; else those that the queue takes."""
    recovery: Any = prepared.recovery
    keeping = [rung for rung in getattr(recovery, "rungs", ()) if rung.keeps != "nothing"]
    named: tuple[str, ...] | None = getattr(keeping[0] if keeping else recovery, "pools", None)
    return ("idle", "spare") if named is None else named


def _reserves(prepared: Prepared, needed: int) -> dict[str, Reserve]:
    """Return the pools beside the nodes that are `needed`: those of the scenario, and what is idle."""
    idle = prepared.serving - needed - sum(pool.nodes for pool in prepared.reserves.values())
    return {"idle": Reserve(max(idle, 0)), **prepared.reserves}

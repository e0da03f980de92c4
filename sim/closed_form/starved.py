"""For which share of time a job has too few nodes, as far as theory knows it of a scenario."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from sim.closed_form.elastic import lives_and_repairs, repairs_by_cause
from sim.places import Reserve
from sim.recovery.returns import QUEUE, Hit
from sim.theory.starved import gives_up, starvation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.failures import Source
    from sim.prepared import Prepared, PreparedJob
    from sim.recovery.returns import Wait

__all__ = ["Waits", "starved_at_most", "waits_for_nodes"]


_NEVER = 1e-6
"""Share of time that nobody would see in a result [-]."""

_MOSTLY = 0.95
"""Share of time short of nodes from which on a job is hardly ever there to give up [-]."""

_MANY = 4_000
"""Hot spares times nodes that come later beyond which their chain takes too long to solve [-]."""


class Waits(NamedTuple):
    """What a lack of nodes costs a job, as shares of the time that is not detection [-].

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

    def unknown(self, source: Source) -> float:
        """Return how often failures of a cause hit the job, relative to one that always has its nodes [-].

        While it waits no process runs: nodes fail like idle ones.
        """
        runs = self.exposed and source.part != "job" and source.clock != "busy"
        return 1 - self.total + (source.idle_hazard * self.starved if runs else 0.0)


def waits_for_nodes(prepared: Prepared, job: PreparedJob) -> Waits | None:
    """Return what a lack of nodes costs a job, nothing if nobody would see it; ``None`` if that is not known.

    It is known (`sim.theory.starved`) of a scenario's only job that can take any healthy node at once, and whose
    failures are all waited for in the same way: for as long as it takes, or for some time and then in the queue. Where
    nothing else is left, nodes may come after a delay too, if the job waits for them. What it does before it asks for
    nodes passes meanwhile. What is in the queue cannot be hit; nodes fail there as idle ones do.

    Parameters
    ----------
    prepared
        The scenario.
    job
        Its job, or one of another layout.
    """
    repairs, lives = repairs_by_cause(prepared), lives_and_repairs(prepared)
    if repairs is None or lives is None:
        return None if repairs is None else Waits()
    takers = [source for source in prepared.sources if source.name in repairs]
    wait = _wait(prepared, job, takers, [repairs[source.name][0] for source in takers])
    # Nodes that serve no running job wear at the same rate, or not at all: on a clock that counts what is busy, too.
    hazards = {0.0 if source.clock == "busy" else source.idle_hazard for source in takers}
    if wait is None or len(prepared.jobs) > 1 or prepared.units is not None or hazards not in ({0.0}, {1.0}):
        return None
    spares, late, delay = _at_hand(prepared, job, wait)
    if spares is None or spares * late > _MANY:
        return None
    cold = hazards == {0.0}
    exposed = wait.exposed and not cold
    found = starvation(
        *lives, job.nodes, spares, downtime=job.detection_mean, cold=cold, exposed=exposed, standby=late, delay=delay
    )
    if found.share <= _NEVER:
        return Waits()
    share = found.share / (1 - found.detection)
    if wait.before > 0:
        # What is left of a wait after some time, as if that were memoryless.
        share *= math.exp(-wait.before * found.probability / found.wait)
    if math.isinf(wait.patience) or late:
        return Waits(starved=share, exposed=exposed)
    return _impatient(share, lives, job.nodes, spares, wait, exposed=exposed)


def _impatient(
    share: float, lives: tuple[float, float], required: int, spares: int, wait: Wait, *, exposed: bool
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


def _wait(prepared: Prepared, job: PreparedJob, takers: Sequence[Source], rates: Sequence[float]) -> Wait | None:
    """Return how a job waits for nodes, its times the means over what takes them; ``None`` where ways differ."""
    recovery: Any = prepared.recovery
    if recovery.elastic:
        return None
    found: list[Wait | None] = [recovery.waits(Hit(source.fault, job.gpus, job.nodes, 1)) for source in takers]
    known = [each for each in found if each is not None]
    kinds = {(frozenset(each.pools), each.patience, each.exposed, each.fills) for each in known}
    if len(known) < len(found) or len(kinds) != 1:
        return None
    total = sum(rates)
    times = {
        name: sum(getattr(each, name) * rate for each, rate in zip(known, rates, strict=True)) / total
        for name in ("before", "delay", "more")
    }
    return known[0]._replace(**times)


def _at_hand(prepared: Prepared, job: PreparedJob, wait: Wait) -> tuple[int | None, int, float]:
    """Return the nodes that a job can take at once, those that come later, and when [s]; ``None`` if not known."""
    reserves = {name: pool for name, pool in _reserves(prepared, job.nodes).items() if pool.nodes}
    # A job that is back in the queue takes no others.
    named = wait.pools if math.isinf(wait.patience) else set(QUEUE) & set(wait.pools)
    late = [pool for pool in reserves.values() if pool.delay]
    ordinary = len(late) <= 1 and all(pool.refills and not pool.one_by_one for pool in late)
    if not set(reserves) <= set(named) or not ordinary or (late and (wait.fills or wait.before > 0)):
        return None, 0, 0.0
    spares = sum(pool.nodes for pool in reserves.values() if not pool.delay)
    return spares, *((late[0].nodes, late[0].delay) if late else (0, 0.0))


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

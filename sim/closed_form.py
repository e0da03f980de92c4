"""The closed form that stands beside a simulation, and what it assumes that the scenario does not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sim.contracts import Pace
from sim.theory import expected_shares

if TYPE_CHECKING:
    from sim.prepared import Prepared, PreparedJob

__all__ = ["ClosedForm", "closed_form"]


@dataclass(frozen=True)
class ClosedForm:
    """Expected shares of a job's time in the long run.

    Parameters
    ----------
    ettr
        Expected share of productive time [-]; ``None`` when no formula applies.
    shares
        Expected share by bucket [-].
    assumptions
        What the formula takes for granted and this scenario breaks.
    """

    ettr: float | None
    shares: dict[str, float]
    assumptions: tuple[str, ...]


def closed_form(prepared: Prepared) -> ClosedForm:
    """Return the expected ETTR of the jobs of a scenario, weighted by their GPUs."""
    recovery: Any = prepared.recovery
    times = recovery.expected_times()
    if times is None:
        return ClosedForm(None, {}, (f"no closed form for recovery '{recovery.use}' yet",))
    shares: dict[str, float] = {}
    gpus = sum(job.gpus for job in prepared.jobs)
    for job in prepared.jobs:
        for name, value in _shares(job, *times).items():
            shares[name] = shares.get(name, 0.0) + value * job.gpus / gpus
    return ClosedForm(shares["productive"], shares, tuple(_assumptions(prepared)))


def _shares(job: PreparedJob, wait: float, restart: float) -> dict[str, float]:
    """Return the expected shares of one job."""
    periodic = job.checkpoint
    down = job.detection_mean + wait
    shares = expected_shares(
        periodic.stepping(Pace(1.0, job.step_time)),
        periodic.stall,
        job.mtti,
        restart + periodic.restore,
        down,
        periodic.drain,
    )
    if wait > 0:
        # To the formula it is all time in which nothing can fail; to the reader only some of it is detection.
        moved = shares["detection"] * wait / down
        shares["detection"] -= moved
        shares["restart"] += moved
    return shares


def _assumptions(prepared: Prepared) -> list[str]:
    """Return what the formula assumes and the scenario breaks."""
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
    if any(
        source.repair is None or source.repair.mean_value > 0 for source in prepared.sources if source.part != "job"
    ):
        broken.append("a healthy node is always at hand")
    if len(prepared.jobs) > 1 or any(job.arrival for job in prepared.jobs):
        broken.append("no job waits for another")
    if any(math.isfinite(job.target) for job in prepared.jobs):
        broken.append("the job never ends")
    return broken

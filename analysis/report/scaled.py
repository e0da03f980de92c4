"""A scenario with more of everything, or with rarer failures: for closed forms, which are worked out at once."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import sim
from sim import catalog
from sim.fields import RuleError
from sim.perf import checkpoint_size

if TYPE_CHECKING:
    from sim import Prepared, PreparedJob

__all__ = ["Rates", "at_rate", "at_size", "interruption_rates", "shares_of", "with_nodes_at_hand"]


class Rates(NamedTuple):
    """How often the first job of a scenario is interrupted, and how that grows with its size.

    Parameters
    ----------
    gpus
        Size of the job [-].
    fixed
        Interruptions by what comes once a job, whatever its size [1/s].
    growing
        Interruptions by all else, at this size [1/s].
    """

    gpus: int
    fixed: float
    growing: float

    def mtti(self, gpus: float) -> float:
        """Return the mean time between interruptions of a job of a size [s]; infinite without any."""
        rate = self.fixed + self.growing * gpus / self.gpus
        return 1 / rate if rate > 0 else math.inf


def interruption_rates(prepared: Prepared, counted: str = "") -> Rates | None:
    """Return the rates of the first job; ``None`` where they cannot be told apart.

    Parameters
    ----------
    prepared
        The scenario.
    counted
        A failure bundle of the catalog: its causes alone. Empty for all of the scenario.
    """
    job = prepared.jobs[0]
    of_job = {source.name for source in prepared.sources if source.part == "job"}
    entries = [entry for entry in _written_out(prepared) if not counted or entry[0] == counted]
    fixed = _rate(prepared, [entry for _, entry in entries if getattr(entry, "name", "") in of_job])
    total = 1 / job.mtti if not counted else _rate(prepared, [entry for _, entry in entries])
    return None if fixed is None or total is None else Rates(job.gpus, fixed, max(total - fixed, 0.0))


def at_size(prepared: Prepared, gpus: float) -> Prepared | None:
    """Return the scenario with a first job of about so many GPUs, and as much more or less of everything else.

    Jobs, nodes, spares and parts grow together, replicas too; the time of a step, saves and the model stay. Intervals
    between saves that a rule chooses are chosen anew. ``None`` where its rates cannot be told apart.
    """
    rates = interruption_rates(prepared)
    if rates is None:
        return None
    first = prepared.jobs[0]
    ratio = max(round(first.nodes * gpus / first.gpus), 1) / first.nodes
    changes: dict[str, Any] = {
        "nodes": round(prepared.nodes * ratio),
        "sources": tuple(
            source if source.part == "job" else replace(source, units=max(round(source.units * ratio), 1))
            for source in prepared.sources
        ),
        "reserves": {
            name: pool._replace(nodes=math.ceil(pool.nodes * ratio)) for name, pool in prepared.reserves.items()
        },
    }
    mtti = rates.mtti(first.gpus * ratio)
    changes["jobs"] = tuple(_job(prepared, job, ratio, mtti * job.mtti / first.mtti) for job in prepared.jobs)
    if prepared.withheld:
        serving = sum(each.nodes for each in (*changes["jobs"], *changes["reserves"].values()))
        changes["withheld"] = max(changes["nodes"] - serving, 0)
    return replace(prepared, **changes)


def at_rate(prepared: Prepared, factor: float) -> Prepared:
    """Return the scenario with a `factor` times as long between failures of every cause [-].

    Intervals between saves that a rule chooses are chosen anew.
    """
    sources = tuple(
        source if source.law is None else replace(source, law=source.law.scaled(factor)) for source in prepared.sources
    )
    jobs = tuple(_job(prepared, job, 1.0, factor * job.mtti) for job in prepared.jobs)
    # Without its bundles the formula does not ask, each time, what else they might grow with.
    scenario = prepared.scenario.model_copy(update={"failures": ()})
    return replace(prepared, scenario=scenario, sources=sources, jobs=jobs)


def shares_of(prepared: Prepared) -> dict[str, float] | None:
    """Return the expected shares of the time of all jobs by bucket [-], and nothing else of the closed form.

    Those of `sim.closed_form`, weighted by GPUs as there; ``None`` if no formula describes the recovery.
    """
    formula = sim.job_shares(prepared, only_where_it_applies=False)
    if formula is None:
        return None
    gpus = sum(job.gpus for job in prepared.jobs)
    found: dict[str, float] = {}
    for job in prepared.jobs:
        for name, share in formula(job).items():
            found[name] = found.get(name, 0.0) + share * job.gpus / gpus
    return found


def with_nodes_at_hand(prepared: Prepared) -> Prepared:
    """Return the scenario as a formula sees it that knows of no waits for nodes."""
    # Of a repair without a law, nobody knows how long it keeps a node away: then the formula leaves waits out.
    sources = tuple(
        replace(source, repair=None) if source.repair is not None and source.repair.mean_value > 0 else source
        for source in prepared.sources
    )
    return replace(prepared, sources=sources)


def _job(prepared: Prepared, job: PreparedJob, ratio: float, mtti: float) -> PreparedJob:
    """Return a job of another size [-] and mean time to interrupt [s]."""
    nodes = max(round(job.nodes * ratio), 1)
    sized = replace(
        job,
        gpus=nodes * prepared.gpus_per_node,
        nodes=nodes,
        replicas=max(round(job.replicas * ratio), 1),
        mtti=mtti,
    )
    return replace(sized, checkpoint=_checkpoint(prepared, sized))


def _checkpoint(prepared: Prepared, job: PreparedJob) -> Any:
    """Return the checkpoints of a job of another size; those that it has where they cannot be worked out anew."""
    known: Any = job.checkpoint
    checkpoint: Any = prepared.scenario.checkpoint
    size = checkpoint_size(job.plan.work.shape) if job.plan is not None else None
    try:
        return checkpoint.build(
            job.mtti,
            job.step_time,
            nodes=job.nodes,
            replicas=job.replicas,
            size=size,
            periodic=getattr(known, "pauses", ()),
        )
    except RuleError:
        return known


def _written_out(prepared: Prepared) -> list[tuple[str, Any]]:
    """Return the entries of ``failures``, with the causes of a bundle in its place, each with what it was named by."""
    found: list[tuple[str, Any]] = []
    for entry in prepared.scenario.failures:
        choice: Any = entry
        is_bundle = choice.use in catalog.bundles()
        causes = choice.expand(catalog.bundle(choice.use), prepared.scenario.repair) if is_bundle else [choice]
        found += [(choice.use, cause) for cause in causes]
    return found


def _rate(prepared: Prepared, entries: list[Any]) -> float | None:
    """Return how often some entries alone interrupt the first job [1/s]; ``None`` where they cannot be alone."""
    if not entries:
        return 0.0
    try:
        alone = sim.examine(prepared.scenario.model_copy(update={"failures": tuple(entries)}))
    except sim.PathError:
        return None
    return 1 / alone.jobs[0].mtti

"""The closed form that stands beside a simulation: which one applies, what it assumes, what it says of each cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sim.closed_form.assumptions import broken_assumptions
from sim.closed_form.elastic import elastic_form
from sim.closed_form.extrapolation import Extrapolation, extrapolated
from sim.closed_form.limits import why_not
from sim.closed_form.renewal import Renewal
from sim.closed_form.starved import starved_at_most

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sim.prepared import Prepared, PreparedJob

__all__ = ["ClosedForm", "Extrapolation", "closed_form", "job_shares", "starved_at_most"]

_ELASTIC = "elastic replicas"


@dataclass(frozen=True)
class ClosedForm:
    """Expected shares of a job's time in the long run.

    Parameters
    ----------
    ettr
        Expected share of productive time [-]; ``None`` when no formula applies.
    reasons
        Why none applies, a line each; empty where one does.
    form
        Name of the formula; nothing when none applies.
    shares
        Expected share by bucket [-].
    assumptions
        What the formula takes for granted and this scenario breaks.
    waste
        Shares that are not productive [-] by order of the failure rate (`sim.theory.waste.ORDERS`), cause and bucket;
        empty where the formula does not tell causes apart.
    extrapolated
        Bundles of the catalog whose rates were counted on jobs of other sizes.
    """

    ettr: float | None
    shares: dict[str, float]
    assumptions: tuple[str, ...]
    form: str = ""
    waste: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None
    extrapolated: tuple[Extrapolation, ...] = ()
    reasons: tuple[str, ...] = ()


def closed_form(prepared: Prepared) -> ClosedForm:
    """Return the expected ETTR of the jobs of a scenario, weighted by their GPUs, and what is lost to each cause."""
    renewal = Renewal(prepared)
    formula = _formula(prepared, renewal)
    if formula is None:
        recovery: Any = prepared.recovery
        why = f": {recovery.no_formula}" if recovery.no_formula else ""
        return ClosedForm(None, {}, (), reasons=(f"no closed form for recovery '{recovery.use}'{why}",))
    each = [formula(job) for job in prepared.jobs]
    reasons = why_not(prepared, each, renewal.waits)
    if reasons:
        return ClosedForm(None, {}, (), reasons=reasons)
    shares = _weighted(prepared, each)
    return ClosedForm(
        shares["productive"],
        shares,
        tuple(broken_assumptions(prepared, renewal.waits)),
        renewal.name if renewal.applies else _ELASTIC,
        _waste(prepared, renewal) if renewal.applies else None,
        extrapolated(prepared, _ettr),
    )


def job_shares(
    prepared: Prepared, *, only_where_it_applies: bool = True
) -> Callable[[PreparedJob], dict[str, float]] | None:
    """Return the function from a job to its expected shares [-], which asks the scenario only once.

    A job may differ from those of the scenario in its step, checkpoint, number of replicas and plan. ``None`` if no
    formula applies to the scenario.

    Parameters
    ----------
    prepared
        The scenario.
    only_where_it_applies
        Whether that is asked. It need not be of variants of a scenario to which it applies, for curves of the formula.
    """
    renewal = Renewal(prepared)
    formula = _formula(prepared, renewal)
    if formula is None or not only_where_it_applies:
        return formula
    return None if why_not(prepared, [formula(job) for job in prepared.jobs], renewal.waits) else formula


def _formula(prepared: Prepared, renewal: Renewal) -> Callable[[PreparedJob], dict[str, float]] | None:
    """Return the formula that describes the recovery, if one does."""
    return renewal.shares if renewal.applies else _elastic(prepared)


def _elastic(prepared: Prepared) -> Callable[[PreparedJob], dict[str, float]] | None:
    """Return the formula of replicas that leave alone, if it applies."""
    recovery: Any = prepared.recovery
    one = prepared.jobs[0]
    return None if recovery.absence_for(one.gpus, one.nodes, one.replicas) is None else elastic_form(prepared)


def _weighted(prepared: Prepared, each: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the shares of all jobs, weighted by their GPUs."""
    shares: dict[str, float] = {}
    gpus = sum(job.gpus for job in prepared.jobs)
    for job, mine in zip(prepared.jobs, each, strict=True):
        for name, value in mine.items():
            shares[name] = shares.get(name, 0.0) + value * job.gpus / gpus
    return shares


def _ettr(prepared: Prepared) -> float:
    """Return the expected ETTR of a scenario that is known to have a formula [-]."""
    formula = _formula(prepared, Renewal(prepared))
    assert formula is not None
    return _weighted(prepared, [formula(job) for job in prepared.jobs])["productive"]


def _waste(prepared: Prepared, renewal: Renewal) -> dict[str, dict[str, dict[str, float]]]:
    """Return the shares that are not productive by order, cause and bucket, weighted by the GPUs of the jobs."""
    gpus = sum(job.gpus for job in prepared.jobs)
    table: dict[str, dict[str, dict[str, float]]] = {}
    for job in prepared.jobs:
        for order, causes in renewal.waste(job).items():
            for cause, buckets in causes.items():
                row = table.setdefault(order, {}).setdefault(cause, {})
                for bucket, value in buckets.items():
                    row[bucket] = row.get(bucket, 0.0) + value * job.gpus / gpus
    return table

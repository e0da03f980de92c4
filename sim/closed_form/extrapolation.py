"""Failure rates used on jobs of other sizes than those that they were counted on, and two ways to let them grow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sim import catalog
from sim.closed_form.elastic import success
from sim.failures.bundle import Bundle
from sim.prepare_failures import prior

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.prepared import Prepared

__all__ = ["SUPERLINEAR", "Extrapolation", "extrapolated"]

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
    counted
        Sizes of the smallest and the largest job that its failures were counted on [-].
    job, gpus
        The job that is the furthest away, and its size [-].
    linear
        ETTR of the closed form for this job [-], with failures in proportion to the GPUs: as everywhere else.
    superlinear
        The same where those of the bundle that grow with the job do so with the power `SUPERLINEAR` from the largest of
        these sizes on; ``None`` for a job that is smaller.
    exponent
        The power of the number of GPUs that failures may grow with [-].
    """

    bundle: str
    counted: tuple[int, int]
    job: str
    gpus: int
    linear: float
    superlinear: float | None
    exponent: float = SUPERLINEAR


def extrapolated(prepared: Prepared, ettr: Callable[[Prepared], float]) -> tuple[Extrapolation, ...]:
    """Return the bundles of a scenario whose rates were counted on jobs of other sizes.

    Parameters
    ----------
    prepared
        The scenario.
    ettr
        Function from a scenario to its expected ETTR [-].
    """
    found = []
    for name in dict.fromkeys(choice.use for choice in prepared.scenario.failures if isinstance(choice, Bundle)):
        counted = catalog.counted_on(name)
        if counted is None:
            continue
        smallest, largest = counted
        job = max(prepared.jobs, key=lambda each: max(each.gpus / largest, smallest / each.gpus))
        if smallest <= job.gpus <= largest:
            continue
        alone = replace(prepared, jobs=(job,))
        faster = ettr(_superlinear(alone, name, job.gpus / largest)) if job.gpus > largest else None
        found.append(Extrapolation(name, counted, job.name, job.gpus, ettr(alone), faster))
    return tuple(found)


def _superlinear(prepared: Prepared, bundle: str, ratio: float) -> Prepared:
    """Return the scenario with more failures of a bundle in its only job, which is `ratio` [-] times as large."""
    names, factor = catalog.causes(bundle), ratio ** (SUPERLINEAR - 1)
    sources = tuple(
        replace(source, law=source.law.scaled(1 / factor))
        if source.name in names and source.part != "job" and source.law is not None
        else source
        for source in prepared.sources
    )
    (job,) = prepared.jobs
    length = prepared.warmup + prepared.horizon
    mtti, detection = prior(list(sources), job.nodes / prepared.nodes, length, success(prepared))
    return replace(prepared, sources=sources, jobs=(replace(job, mtti=mtti, detection_mean=detection),))

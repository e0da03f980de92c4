"""From a cluster to its accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim import catalog
from sim.path_error import PathError

if TYPE_CHECKING:
    from sim.perf import Accelerator

__all__ = ["chip_of", "known_chips"]


def chip_of(cluster: Any, pool: int, precision: str, job: int | None = None) -> Accelerator:
    """Return the accelerator of a pool of hosts, which has to have a peak at a precision.

    Without it the job's precision is to blame if a job is named, else the pool's accelerator.

    Raises
    ------
    PathError
        If the catalog does not have it, or it does not have the precision.
    """
    accelerator = cluster.all_pools[pool].accelerator
    name = accelerator if isinstance(accelerator, str) else accelerator.like
    parts = catalog.accelerators()
    path: tuple[str | int, ...] = ("cluster", *(("pools", pool) if cluster.pools else ()), "accelerator")
    if name not in parts:
        at = path if isinstance(accelerator, str) else (*path, "like")
        raise PathError(at, catalog.unknown("accelerator", name, parts))
    chip = _resolved(accelerator)
    assert chip is not None, "the catalog has it"
    if precision not in chip.peak:
        rule = f"the catalog has no {precision} peak of {name} (it has {', '.join(chip.peak)})"
        raise PathError(path if job is None else ("jobs", job, "precision"), rule)
    return chip


def known_chips(cluster: Any) -> list[Accelerator] | None:
    """Return the accelerator of each pool of hosts; ``None`` if the catalog does not have all of them."""
    found = [_resolved(pool.accelerator) for pool in cluster.all_pools]
    return None if None in found else [chip for chip in found if chip is not None]


def _resolved(accelerator: Any) -> Accelerator | None:
    """Return an accelerator by name or description, if the catalog has it or what it is like."""
    parts = catalog.accelerators()
    if isinstance(accelerator, str):
        return parts.get(accelerator)
    base = parts.get(accelerator.like)
    return accelerator.changed(base) if base is not None else None

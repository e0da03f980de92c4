"""Why a job has no layout on a number of GPUs, and which numbers and sizes are closest to having one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.perf.layouts import groupings, smallest
from sim.perf.memory import memory_use

if TYPE_CHECKING:
    from sim.perf.layouts import Bounds
    from sim.perf.workload import Workload

__all__ = ["NoLayoutError", "why_none"]

_FARTHEST = 4096
"""Nodes on either side among which the nearest number of GPUs that can be laid out is looked for [-]."""


class NoLayoutError(ValueError):
    """A number of GPUs on which no layout of a job is possible."""


def why_none(name: str, base: Workload, bounds: Bounds, node: int, most: int, fewest: int) -> str:
    """Return in one line why a job has no layout at all, and what is closest.

    Parameters
    ----------
    name, base, bounds
        The job, its step, and where layouts were looked for.
    node, most
        GPUs of a node and of the cluster [-].
    fewest
        Sets of replicas that the recovery needs at least [-].
    """
    work = smallest(base, bounds)
    if work is None:
        near = " or ".join(f"{count:,}" for count in _near(base, bounds, node, most))
        wanted = f"{bounds.gpus:,} GPUs, {base.shape.layers} layers and {base.sequences:,} sequences"
        return f"job '{name}': no sizes of groups divide {wanted}" + (f"; nearest: {near}" if near else "")
    need = memory_use(work).total
    if need <= bounds.memory:
        return (
            f"job '{name}': no layout of {bounds.gpus:,} GPUs that fits leaves the {fewest} sets of replicas of "
            "recovery.min_replicas and keeps parallelism.within_domain"
        )
    sizes = ", ".join(f"{size} {getattr(work, size)}" for size in ("tensor", "context", "pipeline", "data"))
    helps = []
    if "parameters" not in bounds.shardings and _fits(base, bounds._replace(shardings=("parameters",))):
        helps.append("parameters divided among replicas")
    more = (bounds.gpus * 2**times for times in range(1, 8))
    enough = next((gpus for gpus in more if gpus <= most and _fits(base, bounds._replace(gpus=gpus))), None)
    helps += [f"{enough:,} GPUs"] if enough is not None else []
    return (
        f"job '{name}': no layout of {bounds.gpus:,} GPUs fits: the smallest needs {need / 1e9:,.1f} GB on GPUs of "
        f"{bounds.memory / 1e9:,.0f} GB ({sizes}, recompute full)"
        + (f"; it fits with {' or '.join(helps)}" if helps else "")
    )


def _fits(base: Workload, bounds: Bounds) -> bool:
    """Return whether any layout fits."""
    work = smallest(base, bounds)
    return work is not None and memory_use(work).total <= bounds.memory


def _near(base: Workload, bounds: Bounds, node: int, most: int) -> list[int]:
    """Return the nearest numbers of GPUs that sizes of groups divide, one on each side."""
    found = []
    for way in (-node, node):
        counts = (bounds.gpus + way * times for times in range(1, _FARTHEST))
        inside = (count for count in counts if 0 < count <= most)
        divide = (count for count in inside if any(True for _ in groupings(base, bounds._replace(gpus=count))))
        found += [next(divide, 0)]
    return [count for count in found if count]

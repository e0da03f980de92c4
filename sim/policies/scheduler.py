"""Schedulers: which queued jobs start now. Tested by the harness ``check_scheduler``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sim.scenario.fields import Strategy

if TYPE_CHECKING:
    from sim.policies.contracts import QueuedJob


class Fifo(Strategy):
    """Start jobs in the order in which they became eligible; stop at the first that does not fit."""

    use: Literal["fifo"] = "fifo"
    pick: Literal["lowest", "longest-idle", "random", "fewest-failures", "best-score"] = Field(
        "lowest", description="Which of the nodes that wait are taken first; a score comes from the lemon policy."
    )
    pack: Literal["leaf", "pod", "rack", "pdu", "cooling", "scale_up"] | None = Field(
        None,
        description="Domain that jobs are packed into: they start on as few of them as possible, the hot spares are "
        "spread over them, and a lost node is replaced from its own domain first.",
    )

    def select(self, queue: tuple[QueuedJob, ...], free: int) -> tuple[int, ...]:
        """Return the positions in `queue` of the jobs to start, given `free` nodes."""
        chosen = []
        for position, job in enumerate(queue):
            if job.nodes > free:
                break
            free -= job.nodes
            chosen.append(position)
        return tuple(chosen)


SCHEDULERS = {"fifo": Fifo}

"""The scheduler: its keys, and the algorithms that carry them out, one per file.

``planner`` answers the engine; ``backfill`` has the passes through the ``queue``; a pass asks the ``reservations``
where a job fits, the quotas whether its tenant may have that, and ``preemption`` whom to stop; ``nodes`` keeps the
books, ``profile`` the free nodes ahead.
"""

from __future__ import annotations

from ettrick.sim.policies.scheduler.keys import SCHEDULERS, Scheduler

__all__ = ["SCHEDULERS", "Scheduler"]

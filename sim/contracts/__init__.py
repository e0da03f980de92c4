"""What a strategy sees and what it answers.

Strategies are pure: they look at views, which hold what an operator would know (never the hidden truth), and
answer with a plan, a tuple of steps. The engine alone carries a plan out.
"""

from __future__ import annotations

from sim.contracts.checkpoint import CheckpointState, CheckpointStrategy, Damage, Pace, Progress, Restoration
from sim.contracts.ledger import CLUSTER_BUCKETS, FAULTS, JOB_BUCKETS, NO_FAILURE, OF_ONE_RANK, Bucket
from sim.contracts.plan import (
    ANY_POOL,
    Acquire,
    Background,
    Evict,
    Exposure,
    Keeps,
    Memory,
    Plan,
    PoolName,
    Requeue,
    Restore,
    Run,
    Save,
    Stall,
    Step,
)
from sim.contracts.recovery import RecoveryStrategy, SchedulerStrategy
from sim.contracts.repair import Course, LemonPolicy, RepairStrategy, Visit
from sim.contracts.views import ClusterView, FailureView, JobView, NodeView, QueuedJob

__all__ = [
    "ANY_POOL",
    "CLUSTER_BUCKETS",
    "FAULTS",
    "JOB_BUCKETS",
    "NO_FAILURE",
    "OF_ONE_RANK",
    "Acquire",
    "Background",
    "Bucket",
    "CheckpointState",
    "CheckpointStrategy",
    "ClusterView",
    "Course",
    "Damage",
    "Evict",
    "Exposure",
    "FailureView",
    "JobView",
    "Keeps",
    "LemonPolicy",
    "Memory",
    "NodeView",
    "Pace",
    "Plan",
    "PoolName",
    "Progress",
    "QueuedJob",
    "RecoveryStrategy",
    "RepairStrategy",
    "Requeue",
    "Restoration",
    "Restore",
    "Run",
    "Save",
    "SchedulerStrategy",
    "Stall",
    "Step",
    "Visit",
]

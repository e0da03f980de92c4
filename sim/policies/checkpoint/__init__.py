"""Checkpoint kinds: how progress is made durable, in closed form between events."""

from __future__ import annotations

from ettrick.sim.policies.checkpoint.ladder import LadderState, MultiLevelCheckpoint, Pause
from ettrick.sim.policies.checkpoint.periodic import Periodic
from ettrick.sim.policies.checkpoint.stores import StorePlan, cliques
from ettrick.sim.policies.checkpoint.tiers import Tier, Tiers

__all__ = [
    "CHECKPOINTS",
    "LadderState",
    "MultiLevelCheckpoint",
    "Pause",
    "Periodic",
    "StorePlan",
    "Tier",
    "Tiers",
    "cliques",
]

CHECKPOINTS = {"tiers": Tiers}

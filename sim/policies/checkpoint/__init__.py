"""Checkpoint kinds: how progress is made durable, in closed form between events."""

from __future__ import annotations

from sim.policies.checkpoint.ladder import Ladder, LadderState, Pause
from sim.policies.checkpoint.periodic import Periodic
from sim.policies.checkpoint.stores import Rung, cliques
from sim.policies.checkpoint.tiers import Tier, Tiers

__all__ = ["CHECKPOINTS", "Ladder", "LadderState", "Pause", "Periodic", "Rung", "Tier", "Tiers", "cliques"]

CHECKPOINTS = {"tiers": Tiers}

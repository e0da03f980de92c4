"""Checkpoint kinds: how progress is made durable, in closed form between events."""

from __future__ import annotations

from sim.checkpoint.ladder import Ladder, LadderState, Pause
from sim.checkpoint.periodic import Periodic
from sim.checkpoint.stores import Rung, cliques
from sim.checkpoint.tiers import Tier, Tiers

__all__ = ["CHECKPOINTS", "Ladder", "LadderState", "Pause", "Periodic", "Rung", "Tier", "Tiers", "cliques"]

CHECKPOINTS = {"tiers": Tiers}

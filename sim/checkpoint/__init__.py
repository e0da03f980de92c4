"""Checkpoint kinds: how progress is made durable, in closed form between events."""

from __future__ import annotations

from sim.checkpoint.tiers import Periodic, Tier, Tiers

__all__ = ["CHECKPOINTS", "Periodic", "Tier", "Tiers"]

CHECKPOINTS = {"tiers": Tiers}

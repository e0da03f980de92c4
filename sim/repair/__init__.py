"""Repair kinds: how a failed node comes back."""

from __future__ import annotations

from sim.repair.lemons import LEMONS, Score, Threshold
from sim.repair.simple import Simple
from sim.repair.tiers import Tiers

__all__ = ["LEMONS", "REPAIRS", "Score", "Simple", "Threshold", "Tiers"]

REPAIRS = {"simple": Simple, "tiers": Tiers}

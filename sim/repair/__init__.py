"""Repair kinds: how a failed node comes back."""

from __future__ import annotations

from sim.repair.simple import Simple

__all__ = ["REPAIRS", "Simple"]

REPAIRS = {"simple": Simple}

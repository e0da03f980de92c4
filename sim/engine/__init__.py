"""The engine: prepared scenario in, result of one replication out."""

from __future__ import annotations

from sim.engine.simulation import Simulation, simulate

__all__ = ["Simulation", "simulate"]

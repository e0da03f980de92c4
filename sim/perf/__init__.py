"""What a step costs: pure functions. This version counts floating-point operations."""

from __future__ import annotations

from sim.perf.flop import model_flop_per_token, step_time_from_mfu

__all__ = ["model_flop_per_token", "step_time_from_mfu"]

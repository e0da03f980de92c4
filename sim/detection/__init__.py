"""Detection kinds: from a failure to the moment when the job knows."""

from __future__ import annotations

from sim.detection.latency import Latency

__all__ = ["DETECTIONS", "Latency"]

DETECTIONS = {"latency": Latency}

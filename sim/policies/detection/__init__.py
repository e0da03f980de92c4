"""Detection kinds: from a fault to the moment when somebody notices it."""

from __future__ import annotations

from ettrick.sim.policies.detection.kinds import Latency, Observers

__all__ = ["DETECTIONS", "Latency", "Observers"]

DETECTIONS = {"latency": Latency, "observers": Observers}

"""Detection by a latency for each kind of fault, or by observers that each cover some classes of them."""

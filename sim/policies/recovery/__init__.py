"""Recovery strategies, from a failure to a plan: restarts of rigid jobs in one file, each of the others in its own."""

from __future__ import annotations

from ettrick.sim.policies.recovery.ladder import Ladder
from ettrick.sim.policies.recovery.narrow import Narrow
from ettrick.sim.policies.recovery.redundant import Redundant
from ettrick.sim.policies.recovery.restart import FullRestart, HotSpare, Standby
from ettrick.sim.policies.recovery.restart_smaller import RestartSmaller
from ettrick.sim.policies.recovery.shrink_rejoin import ShrinkRejoin

__all__ = [
    "RECOVERIES",
    "FullRestart",
    "HotSpare",
    "Ladder",
    "Narrow",
    "Redundant",
    "RestartSmaller",
    "ShrinkRejoin",
    "Standby",
]

RECOVERIES = {
    "full-restart": FullRestart,
    "hot-spare": HotSpare,
    "ladder": Ladder,
    "narrow": Narrow,
    "redundant": Redundant,
    "restart-smaller": RestartSmaller,
    "shrink-rejoin": ShrinkRejoin,
    "standby": Standby,
}

"""Recovery strategies: one per file, from a failure to a plan."""

from __future__ import annotations

from ettrick.sim.policies.recovery.full_restart import FullRestart
from ettrick.sim.policies.recovery.hot_spare import HotSpare
from ettrick.sim.policies.recovery.ladder import Ladder
from ettrick.sim.policies.recovery.narrow import Narrow
from ettrick.sim.policies.recovery.redundant import Redundant
from ettrick.sim.policies.recovery.restart_smaller import RestartSmaller
from ettrick.sim.policies.recovery.shrink_rejoin import ShrinkRejoin
from ettrick.sim.policies.recovery.standby import Standby

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

"""Recovery strategies: one per file, from a failure to a plan."""

from __future__ import annotations

from sim.recovery.full_restart import FullRestart
from sim.recovery.hot_spare import HotSpare
from sim.recovery.shrink_rejoin import ShrinkRejoin
from sim.recovery.standby import Standby

__all__ = ["RECOVERIES", "FullRestart", "HotSpare", "ShrinkRejoin", "Standby"]

RECOVERIES = {
    "full-restart": FullRestart,
    "hot-spare": HotSpare,
    "shrink-rejoin": ShrinkRejoin,
    "standby": Standby,
}

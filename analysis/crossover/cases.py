"""The rivals of the tables: Llama 3 on 16,384 GPUs with times of recovery presets, and a published run."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import sim
from analysis.crossover.rivals import Rivals
from sim import catalog, units

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GPUS", "PUBLISHED", "STORES", "at_scale", "preset_reconfigure", "published_case"]

GPUS = 16_384
"""GPUs of Llama 3 405B, on 2,048 nodes [-] (arXiv 2407.21783)."""

_NODES = GPUS // 8
_SPAN = 54 * 86400.0
_PLANNED = 47
"""Interruptions that were planned, in the 54 days [-] (arXiv 2407.21783, section 3.3.4)."""

STORES: Mapping[str, str] = {"remote": "a remote store, every 10 min", "peer-host": "a peer's memory, every 2 min"}
"""Where copies of the state are kept, by the names of the stores."""


class Published(NamedTuple):
    """A run of 3,000 steps on 8 nodes of 8 GPUs that was hit every 45 to 75 min, in three ways [s].

    Whole times by live migration, with a restart from a checkpoint every 100 steps, and with torchft.
    """

    migration: float = 405 * 60.0
    restart: float = 818 * 60.0
    elastic: float = 930 * 60.0
    between: float = 3600.0
    steps: int = 3000
    saves: int = 30


PUBLISHED = Published()
"""Llama 4 Scout on 64 H200 (clockwork.io, "Keeping distributed training running through failures", 2026)."""


def at_scale(replicas: int, store: str = "remote") -> Rivals:
    """Return the rivals on 16,384 GPUs at the rates of Llama 3.

    The restart in place is the first rung of `nvrx-in-job`, the absence and the stall of a return are those of
    `torchft-hsdp` for so many replicas, and copies of the state are kept as in `llama3-405b-54d` (``remote``) or in
    `nvrx-in-job` (``peer-host``). Times are means. Both detect in a minute, and any one replica may go on alone.
    """
    restart, tiers, step = _restart()
    absence = _elastic().absence_for(GPUS, _NODES, replicas)
    causes = catalog.bundle("llama3-table5")["causes"]
    of_job = sum(cause["count"] for cause in causes if cause["per"] == "job")
    of_nodes = sum(cause["count"] for cause in causes) - of_job
    tier = tiers[store]
    return Rivals(
        replicas=replicas,
        mtti=_SPAN / of_nodes,
        others=_SPAN / (of_job + _PLANNED),
        detection=60.0,
        restart=restart,
        absence=absence.away,
        rejoin=absence.rejoin,
        interval=units.parse(tier.interval, units.DURATION),
        write=tier.stall,
        drain=tier.write,
        restore=tier.restore,
        step=step,
        nodes=_NODES,
    )


def preset_reconfigure(replicas: int) -> float:
    """Return the reconfiguration time of `torchft-hsdp` on 16,384 GPUs [s]."""
    return float(_elastic().absence_for(GPUS, _NODES, replicas).stall)


def published_case(replicas: int) -> Rivals:
    """Return the rivals of the published run, with replicas of some of its 8 nodes.

    A step takes what it took with live migration, whose own cost of failures so counts as work. A restart, detection
    and restore included, takes what makes the published time of first-order costs: failures did not come while the job
    restarted. A replica restarts alone in the same time.
    """
    step = PUBLISHED.migration / PUBLISHED.steps
    interval = PUBLISHED.steps / PUBLISHED.saves * step
    restart = PUBLISHED.between * (1 - PUBLISHED.migration / PUBLISHED.restart) - interval / 2
    return Rivals(
        replicas=replicas,
        mtti=PUBLISHED.between,
        others=math.inf,
        detection=0.0,
        restart=restart,
        absence=restart,
        rejoin=0.0,
        interval=interval,
        write=0.0,
        drain=0.0,
        restore=0.0,
        step=step,
        nodes=8,
    )


@functools.cache
def _restart() -> tuple[float, dict[str, Any], float]:
    """Return of `nvrx-in-job` its restart [s] and stores by name, and the step of the job [s]."""
    prepared = _prepared("nvrx-in-job")
    recovery: Any = prepared.recovery
    checkpoint: Any = prepared.scenario.checkpoint
    tiers = {tier.store: tier for tier in checkpoint.tiers}
    return sum(recovery.rungs[0].mean_times(GPUS, _NODES)), tiers, prepared.jobs[0].step_time


@functools.cache
def _elastic() -> Any:
    """Return the recovery of `torchft-hsdp`."""
    return _prepared("torchft-hsdp").recovery


def _prepared(preset: str) -> sim.Prepared:
    """Return the scenario of Llama 3 with a recovery preset."""
    changes = (f"recovery={{use: {preset}}}", "checkpoint.from_preset=true")
    return sim.prepare(sim.load(sim.find("llama3-405b-54d"), changes))

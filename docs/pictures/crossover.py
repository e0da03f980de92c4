"""The tables of the crossover of elastic replicas and a restart in place: ``python docs/pictures/crossover.py``."""

from __future__ import annotations

import argparse
import bisect
import functools
import sys
from typing import TYPE_CHECKING, Any

from ettrick import sim
from ettrick.analysis.amounts import empty_table
from ettrick.analysis.terminal import console
from ettrick.analysis.validation.measures.crossover import (
    PUBLISHED,
    Rivals,
    expected_crossover,
    published_case,
    simulated_crossover,
)
from ettrick.sim import catalog, units
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console

GPUS = 16_384

"""GPUs of Llama 3 405B, on 2,048 nodes [-] (arXiv 2407.21783)."""


_NODES = GPUS // 8


_SPAN = 54 * DAY


_PLANNED = 47

"""Interruptions that were planned, in the 54 days [-] (arXiv 2407.21783, section 3.3.4)."""


STORES: Mapping[str, str] = {"remote": "a remote store, every 10 min", "peer-host": "a peer's memory, every 2 min"}

"""Where checkpoints are kept, by the names of the stores."""


def at_scale(replicas: int, store: str = "remote") -> Rivals:
    """Return the rivals on 16,384 GPUs at the rates of Llama 3.

    The restart in place is the first rung of `nvrx-in-job`, the absence and the stall of a return are those of
    `torchft-hsdp` for so many replicas, and checkpoints are kept as in `llama3-405b-54d` (``remote``) or in
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


_MOST_REPLICAS = 100_000

"""Replicas from which on nobody is asked [-]."""


def fewest_replicas(rivals_of: Callable[[int], Rivals], reconfigure: float) -> int | None:
    """Return the fewest replicas with which elasticity is expected to pay at a reconfiguration time [-].

    Parameters
    ----------
    rivals_of
        The rivals for a number of replicas.
    reconfigure
        Reconfiguration time [s]. More replicas are better only where it is shorter, together with a rejoin and a step,
        than an absence; beyond that an elastic job loses more the more of it stands still.

    Returns
    -------
    int or None
        ``None`` if no number of replicas pays.
    """
    most = 2
    while rivals_of(most).gain(reconfigure) <= 0:
        if most >= _MOST_REPLICAS:
            return None
        most *= 2
    return bisect.bisect_left(range(most), True, lo=2, key=lambda count: rivals_of(count).gain(reconfigure) > 0)


_REPLICAS = (2, 4, 8, 16, 32, 128)


_RECONFIGURE = (12.0, 100.0, 180.0)

"""That of `torchft-hsdp` on 16,384 and on 98,304 GPUs, and a longer one [s]."""


def main(arguments: list[str] | None = None) -> int:
    """Print the tables and return 0."""
    text = "The reconfiguration time below which elastic replicas do better than a restart in place."
    parser = argparse.ArgumentParser(prog="crossover", description=text)
    parser.add_argument("--replications", type=int, default=24, metavar="N", help="runs for each row (24)")
    parser.add_argument("--days", type=float, default=18.0, metavar="D", help="length of a run (18)")
    options = parser.parse_args(arguments)
    if options.replications < 2:
        parser.error(f"argument --replications: must be at least 2, got {options.replications}")
    out = console(sys.stdout)
    if options.days <= 0:
        parser.error(f"argument --days: must be above 0, got {options.days:g}")
    for store in STORES:
        _print_store(out, store, options.replications, options.days * DAY)
    _print_published(out)
    return 0


def _print_store(out: Console, store: str, replications: int, horizon: float) -> None:
    """Print the crossovers with checkpoints in one store."""
    first = at_scale(2, store)
    out.print(f"{GPUS:,} GPUs, checkpoints in {STORES[store]}, restart in {first.restart:.0f} s", style="bold")
    table = empty_table("replicas", "away", "closed form", "simulation", "apart", f"at {preset_reconfigure(2):.0f} s")
    for replicas in _REPLICAS:
        rivals = at_scale(replicas, store)
        gain = 100 * rivals.gain(preset_reconfigure(replicas))
        table.add_row(
            str(replicas), f"{rivals.absence:.0f} s", *_found(rivals, replications, horizon), f"{gain:+.2f} pt"
        )
    out.print(table)
    for seconds in _RECONFIGURE:
        fewest = fewest_replicas(lambda count: at_scale(count, store), seconds)
        words = "never pays" if fewest is None else f"pays from {fewest} replicas on"
        out.print(f"  a reconfiguration of {seconds:.0f} s {words}", highlight=False)
    out.print()


def _found(rivals: Rivals, replications: int, horizon: float) -> tuple[str, str, str]:
    """Return both crossovers and how many standard errors they are apart, as text."""
    expected = expected_crossover(rivals)
    seen = simulated_crossover(rivals, replications, horizon=horizon)
    ours = "none" if expected is None else f"{expected:.0f} s"
    if seen is None:
        return ours, "none", ""
    apart = "" if expected is None else f"{(seen.seconds - expected) / seen.error:+.1f} se"
    return ours, f"{seen.seconds:.0f} ± {seen.error:.1f} s", apart


def _print_published(out: Console) -> None:
    """Print what the published times of one run allow, by first-order costs."""
    lost, between = published_case(2).restart_cost, PUBLISHED.between
    ends = [f"{end / 60:.0f} min" for end in (PUBLISHED.migration, PUBLISHED.restart, PUBLISHED.elastic)]
    out.print("64 GPUs: {} by live migration, {} with restarts, {} elastic (published)".format(*ends), style="bold")
    out.print(f"  with restarts a failure costs {lost / 60:.0f} of {between / 60:.0f} min", highlight=False)
    table = empty_table("replicas", "failure costs", "in all", "away to lose", "slower to lose", f"for {ends[2]}")
    for replicas in (2, 4, 8):
        rivals = published_case(replicas)
        cost = rivals.elastic_cost(60.0)
        whole = PUBLISHED.migration / (1 - cost / between)
        # As much longer an absence as makes a failure as dear as a restart.
        away = rivals.absence + replicas * (lost - cost)
        slower = [f"{end / whole - 1:+.0%}" for end in (PUBLISHED.restart, PUBLISHED.elastic)]
        table.add_row(str(replicas), *(f"{time / 60:.0f} min" for time in (cost, whole, away)), *slower)
    out.print(table)
    out.print(
        "  elastic replicas, expected with a minute to reconfigure; to lose against restarts they", highlight=False
    )
    out.print("  have to be away for so long, or each step has to take so much longer", highlight=False)


if __name__ == "__main__":
    sys.exit(main())

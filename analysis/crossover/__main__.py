"""The tables of the crossover: ``python -m analysis.crossover``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from analysis.cells import empty_table
from analysis.console import console
from analysis.crossover.cases import GPUS, PUBLISHED, STORES, at_scale, preset_reconfigure, published_case
from analysis.crossover.search import expected_crossover, fewest_replicas, simulated_crossover

if TYPE_CHECKING:
    from rich.console import Console

    from analysis.crossover.rivals import Rivals

__all__ = ["main"]

_MINUTE, _DAY = 60.0, 86400.0
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
        _print_store(out, store, options.replications, options.days * _DAY)
    _print_published(out)
    return 0


def _print_store(out: Console, store: str, replications: int, horizon: float) -> None:
    """Print the crossovers with copies of the state in one store."""
    first = at_scale(2, store)
    out.print(f"{GPUS:,} GPUs, copies in {STORES[store]}, restart in {first.restart:.0f} s", style="bold")
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
        cost = rivals.elastic_cost(_MINUTE)
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

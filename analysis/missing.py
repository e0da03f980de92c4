"""How many nodes are missing at once, and how far that is from what independent nodes would do."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.theory import missing_nodes_pmf, quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sim import Result

__all__ = ["add_down_times", "log_csv", "nodes_down"]

LEVELS = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def add_down_times(times: dict[int, float], result: Result) -> None:
    """Add for how long how many nodes were down in a replication to what is in `times` [s]."""
    for count, seconds in result.down_times.items():
        times[count] = times.get(count, 0.0) + seconds


def nodes_down(times: Mapping[int, float], nodes: int) -> dict[str, Any]:
    """Return the distribution over time of the number of nodes that are down, pooled over replications.

    Parameters
    ----------
    times
        For how long how many were down, in all replications of a scenario [s].
    nodes
        Nodes of the cluster.

    Returns
    -------
    dict
        ``mean`` [-], the smallest numbers that are enough for 50, 90 and 99 % of the time, ``max``, the variance over
        that of independent nodes (``dispersion``; null if no node was ever down), and under ``independent`` what
        independent nodes with the same mean would need.
    """
    counts = np.array(sorted(times), dtype=np.int64)
    share = np.array([times[count] for count in counts])
    if not share.sum():
        return {}
    share /= share.sum()
    mean = float(counts @ share)
    unavailability = mean / nodes
    variance = float((counts - mean) ** 2 @ share)
    reached = np.cumsum(share)
    # A rounding error must not ask for one node more.
    found = {name: int(counts[np.searchsorted(reached, level * (1 - 1e-12))]) for name, level in LEVELS.items()}
    law = missing_nodes_pmf(nodes, unavailability)  # its quantiles in closed form would need scipy
    chance = nodes * unavailability * (1 - unavailability)
    return {
        "mean": mean,
        **found,
        "max": int(counts[share > 0][-1]),
        "dispersion": variance / chance if chance > 0 else None,
        "independent": {name: quantile(law, level) for name, level in LEVELS.items()},
    }


def log_csv(results: Iterable[Result], causes: Sequence[str]) -> str:
    """Return a CSV file of all stretches in which a node was down; times [s] after the warm-up."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("replication", "node", "start", "end", "cause"))
    for result in results:
        rows.writerows(
            (result.replication, outage.node, outage.start, outage.end, causes[outage.cause - 1])
            for outage in result.outages
        )
    return text.getvalue()

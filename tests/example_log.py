"""Makes the log that scenarios/replay.yaml replays: ``python -m tests.example_log > scenarios/logs/small-cluster.csv``.

Nothing in it was recorded anywhere. Nodes differ (their rates follow a gamma law), repairs are log-normal, and now and
then a switch takes eight neighbours down at once, so that intervals of one node overlap as they do in real logs.
"""

from __future__ import annotations

import sys

import numpy as np

from sim import rng
from sim.laws import Exponential, Gamma, Lognormal

NODES = 64
DAYS = 90.0
HOUR = 3600.0
CAUSES = ("gpu", "gpu", "gpu", "nic", "psu", "host")


def rows() -> list[tuple[float, float, str, str]]:
    """Return (start [h], end [h], unit, cause), sorted by start."""
    horizon = DAYS * 86400
    repair = Lognormal.from_seconds(median=14 * HOUR, sigma=1.6)
    found = []
    frailty = Gamma.from_seconds(shape=0.9, mean=1.0).ppf(rng.uniform(rng.stream(7, 0, "frailty"), range(NODES)))
    for node in range(NODES):
        life = Exponential.from_seconds(mean=30 * 86400 / max(frailty[node], 1e-3))
        time, number = 0.0, 0
        while (time := time + life.ppf_one(rng.uniform_one(rng.stream(7, 0, "life"), node, number))) < horizon:
            down = repair.ppf_one(rng.uniform_one(rng.stream(7, 0, "repair"), node, number))
            cause = CAUSES[int(6 * rng.uniform_one(rng.stream(7, 0, "cause"), node, number))]
            found.append((time / HOUR, (time + down) / HOUR, f"node{node:02d}", cause))
            time += down
            number += 1
    for index in range(8):
        start = horizon * rng.uniform_one(rng.stream(7, 0, "switch"), index)
        first = 8 * int(8 * rng.uniform_one(rng.stream(7, 0, "leaf"), index))
        found += [(start / HOUR, start / HOUR + 2.5, f"node{node:02d}", "switch") for node in range(first, first + 8)]
    return sorted(found)


def text() -> str:
    """Return the log as CSV."""
    lines = [f"{unit},{start:.3f},{end:.3f},{cause}" for start, end, unit, cause in rows()]
    return "\n".join(["unit,start,end,cause", *lines, ""])


if __name__ == "__main__":
    assert np.all(np.diff([row[0] for row in rows()]) >= 0)
    sys.stdout.write(text())

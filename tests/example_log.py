"""Makes the log that scenarios/replay.yaml replays, and the inventory: ``python -m tests.example_log scenarios/logs``.

Nothing in it was recorded anywhere. Nodes differ (their rates follow a gamma law), repairs are log-normal, and now and
then a switch takes eight neighbours down at once, so that intervals of one node overlap as they do in real logs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from sim import rng
from sim.scenario.laws import Exponential, Gamma, Lognormal

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


def texts() -> dict[str, str]:
    """Return the log and the inventory as CSV, by name of the file."""
    lines = [f"{unit},{start:.3f},{end:.3f},{cause}" for start, end, unit, cause in rows()]
    names = [f"node{node:02d},leaf{node // 8}" for node in range(NODES)]
    return {
        "small-cluster.csv": "\n".join(["unit,start,end,cause", *lines, ""]),
        "small-cluster-nodes.csv": "\n".join(["unit,leaf", *names, ""]),
    }


if __name__ == "__main__":
    assert np.all(np.diff([row[0] for row in rows()]) >= 0)
    for name, text in texts().items():
        (Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")

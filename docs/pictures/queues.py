"""Draw how long jobs wait as a cluster fills: ``python docs/pictures/queues.py FILE``.

The jobs of ``fleet-64-nodes`` arrive at several loads, and the same ones for each scheduler. A load at which the queue
grows without end has no mean wait, and no point.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ettrick import sim
from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.page.charts import draw, render
from ettrick.analysis.page.charts.data import ChartAxis, Curves, Series
from ettrick.analysis.results.run import document
from ettrick.sim.units import MINUTE

LOADS = (0.3, 0.5, 0.7, 0.9, 1.0, 1.1, 1.2)

SCHEDULERS = {"first in, first out": "{use: fifo}", "EASY backfill": "{use: easy}"}


def main(arguments: list[str] | None = None) -> int:
    """Draw the picture into a file."""
    parser = argparse.ArgumentParser(description="Draw how long jobs wait as a cluster fills.")
    parser.add_argument("file", type=Path, help="the picture: a file that ends in .svg, .png or .pdf")
    parser.add_argument("--replications", type=int, default=4, help="replications of each point")
    options = parser.parse_args(arguments)
    curves = [
        _curve(name, scheduler, hue, options.replications) for hue, (name, scheduler) in enumerate(SCHEDULERS.items())
    ]
    title = "Jobs wait ten times as long, or more, where the first one blocks the others"
    chart = Curves(title, ChartAxis("occupancy [%]"), ChartAxis("mean first wait [min]", is_log=True), tuple(curves))
    options.file.write_bytes(render(draw(chart), options.file.suffix))
    return 0


def _curve(name: str, scheduler: str, hue: int, replications: int) -> Series:
    """Return the mean first wait against occupancy, at each load with a mean."""
    points = []
    for load in LOADS:
        loads = [f"streams.{stream}.load={load}" for stream in range(3)]
        scenario = sim.load(sim.find("fleet-64-nodes"), [f"scheduler={scheduler}", *loads])
        metrics = document(replicate(sim.prepare(scenario), replications), command="").metrics
        wait, occupancy = metrics["wait_first"].mean, metrics["occupancy"].mean
        if wait and occupancy:
            points.append((100 * occupancy, wait / MINUTE))
    return Series(name, tuple(x for x, _ in points), tuple(y for _, y in points), hue=hue)


if __name__ == "__main__":
    sys.exit(main())

"""Reports made by hand, for tests of what they are written as."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from typer.testing import CliRunner

from ettrick import cli, sim
from ettrick.analysis.page.charts import data
from ettrick.analysis.page.model import Figure, FirstScreen, Header, Number, Report, Section, TableBlock
from ettrick.analysis.results.ensemble import Ensemble
from ettrick.sim import rng
from ettrick.sim.cluster.graph_file import GraphFile
from ettrick.sim.scenario.laws import Exponential, Gamma, Lognormal

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

# ----------------------------------------
# Makes the log that scenarios/replay.yaml replays, and the inventory: ``python -m tests.report_sample
# scenarios/logs``.
#
# Nothing in it was recorded anywhere. Nodes differ (their rates follow a gamma law), repairs are log-normal, and now
# and
# then a switch takes eight neighbours down at once, so that intervals of one node overlap as they do in real logs.

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


# ----------------------------------------
# A small network built by hand, as a file, and changes of it.

Document = dict[str, Any]


def imported(path: Path, rails: int = 1, **parameters: Any) -> GraphFile:
    """Validate parameters as a scenario would be."""
    return GraphFile.model_validate({"use": "graph-file", "file": str(path), "rails": rails, **parameters})


def written(folder: Path, graph: Any, suffix: str) -> Path:
    """Write a graph in the format of a suffix, as its own library does."""
    path = folder / f"graph{suffix}"
    if suffix == ".json":
        path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")), encoding="utf-8")
    else:
        nx.write_graphml(graph, path)
    return path


def two_tiers() -> Any:
    """Return four hosts of two rails, two leaf switches for each pair of hosts, two spines; built by hand."""
    graph: nx.Graph[str] = nx.Graph()
    for host in range(4):
        graph.add_node(f"h{host}", part="node")
    for pair in range(2):
        for rail in range(2):
            leaf = f"l{pair}{rail}"
            graph.add_node(leaf, part="leaf")
            graph.add_edges_from([(f"h{2 * pair}", leaf), (f"h{2 * pair + 1}", leaf)])
    for spine in ("s0", "s1"):
        graph.add_node(spine, part="spine")
        graph.add_edges_from([(spine, f"l{pair}{rail}") for pair in range(2) for rail in range(2)])
    return graph


def document() -> Document:
    """Return the graph of `two_tiers` as a node-link document."""
    return json.loads(json.dumps(nx.node_link_data(two_tiers(), edges="edges")))


def vertex(content: Document, name: str) -> Document:
    """Return the entry of a vertex."""
    return next(entry for entry in content["nodes"] if entry["id"] == name)


def edge(content: Document, one: str, other: str) -> Document:
    """Return the entry of an edge."""
    return next(entry for entry in content["edges"] if {entry["source"], entry["target"]} == {one, other})


def put(one: str, other: str | None = None, **values: Any) -> Callable[[Document], None]:
    """Return a change of what is said of a vertex, or of an edge."""
    return lambda content: (vertex(content, one) if other is None else edge(content, one, other)).update(values)


def join(one: str, other: str) -> Callable[[Document], None]:
    """Return a change that adds an edge."""
    return lambda content: content["edges"].append({"source": one, "target": other})


def drop(one: str, other: str) -> Callable[[Document], None]:
    """Return a change that takes an edge away."""
    return lambda content: content["edges"].remove(edge(content, one, other))


def add(*chain: str) -> Callable[[Document], None]:
    """Return a change that adds vertices in a chain from an old one."""

    def change(content: Document) -> None:
        content["nodes"].extend({"id": name} for name in chain[1:])
        for one, other in pairwise(chain):
            join(one, other)(content)

    return change


def together(*changes: Callable[[Document], None]) -> Callable[[Document], None]:
    """Return several changes as one."""

    def change(content: Document) -> None:
        for each in changes:
            each(content)

    return change


CHARTS = {
    "phases": data.Bars(
        "Failures take 6.9 % of the time",
        "% of the time",
        ("lost",),
        (
            data.Bar("lost work", (4.25,), ((4.0, 4.5),)),
            data.Bar("restarts", (2.75,)),
            data.Bar("shorter saves", (-0.125,)),
        ),
    ),
    "intervals": data.Intervals(
        "16 spares yield 1.5 percentage points more than none",
        "%",
        (
            data.Interval("no spares", 91.5, (91.25, 91.75), (90.0, 93.0)),
            data.Interval("8 spares", None, note="does not fit"),
            data.Interval("16 spares", 93.0, (92.75, 93.25), (91.5, 94.5)),
        ),
        (92.0, "target"),
    ),
    "bars": data.Bars(
        "GPUs cause most losses",
        "GPU-hours",
        ("lost work", "restarts"),
        (
            data.Bar("GPU", (1200.0, 800.5), ((1100.0, 1300.0), None)),
            data.Bar("switch", (300.25, None), ((250.0, 350.0), None)),
        ),
    ),
    "tornado": data.TornadoChart(
        "The failure rate matters most",
        "points of goodput",
        ("93.1 %", 93.1),
        (
            data.TornadoBar("failure rate", ("4", 1.5, (1.25, 1.75)), ("9", -2.5, (-2.75, -2.25))),
            data.TornadoBar("repair time", ("12 h", 0.25, None), ("3 d", -0.5, None)),
        ),
    ),
    "stack": data.Stack(
        "Attention takes a third of a step",
        "s",
        (data.StackPart("attention", 3.5, 0), data.StackPart("network", 6.25, 1), data.StackPart("bubble", 0.25, -1)),
    ),
    "curves": data.Curves(
        "Goodput falls with size",
        data.ChartAxis("GPUs", is_log=True),
        data.ChartAxis("goodput [%]"),
        (
            data.Series(
                "simulated", (1024.0, 4096.0, 16384.0), (98.5, 96.25, 91.0), ((98.0, 99.0), None, (90.0, 92.0))
            ),
            data.Series("formula", (1024.0, 4096.0, 16384.0), (98.75, None, 91.5), look="dashed", hue=-1),
        ),
        levels=((95.0, "target"),),
        edges=((10_000.0, "today"),),
        dots=(data.Dot("Llama 3", 16384.0, 90.0, "arXiv 2407.21783"),),
        shaded_from=(8192.0, "extrapolated"),
    ),
    "named places": data.Curves(
        "Copies in memory help",
        data.ChartAxis("store", ticks=((0.0, "remote"), (1.0, "own memory"))),
        data.ChartAxis("goodput [%]"),
        (data.Series("", (0.0, 1.0), (92.0, 94.5), ((91.0, 93.0), (94.0, 95.0))),),
    ),
    "steps": data.Curves(
        "Half of the runs end by day 50",
        data.ChartAxis("days"),
        data.ChartAxis("chance [%]"),
        (data.Series("4 spares", (40.0, 50.0, 60.0), (25.0, 50.0, 100.0), look="step"),),
    ),
    "front": data.FrontChart(
        "Two candidates are not beaten",
        data.ChartAxis("USD per million tokens"),
        data.ChartAxis("days to finish"),
        (
            data.FrontPoint("no spares", 1.5, 60.0, None, (59.0, 61.0), "front"),
            data.FrontPoint("32 spares", 1.75, 55.0, None, (54.5, 55.5), "front"),
            data.FrontPoint("64 spares", 2.0, 56.0, None, None, "behind"),
        ),
        lowest_x_is_best=True,
        lowest_y_is_best=True,
    ),
    "heat map": data.HeatMap(
        "Hangs lose most in detection",
        "GPU-hours",
        ("hang", "crash"),
        ("detection", "restart"),
        ((5000.0, 100.0), (None, 2500.0)),
        (("5,000", "100"), ("none", "2,500")),
        high_is_good=False,
    ),
}

"""One picture of each kind, by name. Its numbers are short in binary, so that files give them back as they are."""


def picture(name: str) -> Figure:
    """Return a picture of the sample."""
    key = name.replace(" ", "-")
    return Figure(key, CHARTS[name], f"What {name} shows, in words.", f"How to read {name}.")


def report(
    first: str | None = "phases",
    rest: tuple[str, ...] = ("intervals", "tornado"),
    tables: tuple[TableBlock, ...] = (),
) -> Report:
    """Return a report with these pictures; without a first one, of tables alone."""
    goodput = Number("93.1 %", 0.931, 0.01, ("run.json#/metrics/ettr/mean",))
    lost = Number("210 GPU-years", 6.6e9, 3.2e7, ("run.json#/a", "run.json#/b"), "(b - a) * 8760")
    first_screen = FirstScreen(
        "What is left of a month on 1,024 GPUs?",
        ("Of what is paid for, ", goodput, " becomes training."),
        ("At exactly this failure rate: ", lost, " are lost a year."),
        picture(first) if first is not None else None,
        (("GPUs cause two thirds: ", lost, "."), ("Restarts take 4 min each.",), ("Saves cost $3 | *nothing* else.",)),
        (("Serving is not part of it.",), ("Prices <are> round [numbers].",)),
        (("goodput", "what is left for training"),),
    )
    table = TableBlock(
        "Every cause",
        (Header("cause", is_number=False), Header("a|b")),
        (("gpu_*", "1,200"), ("switch", "300")),
        note="In GPU-hours.",
    )
    sections = (
        Section(
            "all", "1. Everything # else", ("A `text`.", ("- with ", goodput)), (table, *map(picture, rest), *tables)
        ),
        Section("none", "Nothing to see", (), (), ("small print",)),
    )
    return Report(
        "sample_study", first_screen, sections, None, ("ettrick 1.2", "ettrick run sample --out DIR", "sha256 ab")
    )


# ----------------------------------------
# A small scenario for tests of what stands on top of the simulator: 16 nodes, one cause, two days.

SMALL: dict[str, Any] = {
    "name": "small",
    "cluster": {"name": "tiny", "nodes": 16, "gpus_per_node": 8, "fabric": {"rails": 8}},
    "horizon": "2 d",
    "jobs": [{"name": "train", "gpus": 112, "step_time": "10 s"}],
    "failures": [{"use": "component", "name": "node", "part": "node", "rate": "200 per 1000 node-day"}],
    "detection": {"time": "2 min"},
    "checkpoint": {"tiers": [{"interval": "20 min", "mode": "blocking", "write": "30 s", "restore": "1 min"}]},
    "recovery": {"use": "hot-spare", "initialize": "3 min"},
    "spares": {"hot": 2},
    "repair": {"time": "4 h"},
}

YAML = sim.dump(SMALL)


def parse(**changes: Any) -> sim.Scenario:
    """Return the scenario with top-level keys replaced."""
    return sim.parse({**SMALL, **changes})


def prepare(**changes: Any) -> sim.Prepared:
    """Return the scenario with top-level keys replaced, ready to run."""
    return sim.prepare(parse(**changes))


def tally(prepared: sim.Prepared, *results: sim.Result) -> Ensemble:
    """Return what some replications come to."""
    found = Ensemble(prepared)
    for result in results:
        found.add(result)
    return found


def write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write the scenario into a folder, which becomes the working folder; return its name."""
    monkeypatch.chdir(folder)
    (folder / "small.yaml").write_text(YAML)
    return "small.yaml"


def call(*arguments: str) -> Any:
    """Run a command in this process; anything but an orderly end is an error."""
    result = CliRunner().invoke(cli.app, list(arguments), prog_name="ettrick")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result

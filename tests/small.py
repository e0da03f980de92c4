"""A small scenario for tests of what stands on top of the simulator: 16 nodes, one cause, two days."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

import cli
import sim
from analysis.runs import Tally

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


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


def tally(prepared: sim.Prepared, *results: sim.Result) -> Tally:
    """Return what some replications come to."""
    found = Tally(prepared)
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

"""The files that come with the program: every scenario and topology loads, and the example log can be made again."""

from __future__ import annotations

import json

import pytest

import sim
from tests import example_log


def test_example_log_is_what_its_recipe_makes() -> None:
    """The committed log and its inventory are the output of tests/example_log.py, byte for byte."""
    folder = sim.shipped("scenarios")["replay"].parent / "logs"
    for name, text in example_log.texts().items():
        assert (folder / name).read_text(encoding="utf-8") == text


def test_every_shipped_scenario_runs_short() -> None:
    """Each scenario loads and its first day plays with a closed ledger."""
    for path in sim.shipped("scenarios").values():
        scenario = sim.load(path, ["horizon=1 d"])
        result = sim.run(sim.prepare(scenario), 0)
        assert result.jobs[0].requested == scenario.jobs[0].gpus * 86400.0


def test_switch_trays_of_shipped_scenarios_fail() -> None:
    """Wherever scale-up domains have switch trays there is a source for each of them, at a rate that is assumed."""
    found = []
    for name, path in sim.shipped("scenarios").items():
        prepared = sim.examine(sim.load(path))
        trays = prepared.counts.get("switch_tray", 0)
        if trays:
            (source,) = (source for source in prepared.sources if source.part == "switch_tray")
            assert source.units == trays
            assert source.rate == pytest.approx(trays * 0.1 / 1000 / 86_400, rel=1e-12)
            assert any(
                "switch tray" in line and "no rate is published" in line for line in prepared.scenario.assumptions
            )
            assert not any("switch trays" in line for line in prepared.warnings)
            found.append(name)
    assert found == ["llama3-405b-gb200"]


def test_every_shipped_topology_builds() -> None:
    """Each topology can carry the quickstart's policies on a job of one scale-up domain, or one node."""
    for path in sim.shipped("topologies").values():
        cluster = sim.load_cluster(path)
        gpus = cluster.scale_up.used if cluster.scale_up is not None else cluster.hosts.gpus
        job = f"jobs=[{{name: one, gpus: {gpus}, step_time: 10 s}}]"
        scenario = sim.load(sim.find("quickstart"), [f"cluster={path}", job, "horizon=1 d", "spares.hot=0"])
        assert sim.prepare(scenario).nodes == scenario.cluster.counts()["node"]  # type: ignore[attr-defined]


def test_the_shipped_schema_is_current() -> None:
    """What editors complete from is what ``ettrick schema`` writes now."""
    path = sim.shipped("scenarios")["quickstart"].parent / "scenario.schema.json"
    assert json.loads(path.read_text(encoding="utf-8")) == sim.schema(), (
        "run: ettrick schema > scenarios/scenario.schema.json"
    )

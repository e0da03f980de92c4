"""Whatever somebody writes, it is refused with lines that say why, or it can be played."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ettrick import sim
from tests import harness
from tests.cases import cases
from tests.property.common import Scenario, examples, play
from tests.strategies import odd_scenarios, scenarios


@examples(120)
@given(odd_scenarios())
def test_a_scenario_is_refused_line_by_line_or_can_be_prepared(data: Scenario) -> None:
    """Nothing but a ScenarioError comes out of loading; what it lets pass is ready to run and dumps to itself."""
    before = json.dumps(data)
    scenario, lines = _read(data)
    assert json.dumps(data) == before, "what the user wrote was changed"
    if scenario is None:
        assert lines
        for line in lines:
            assert "\n" not in line
            assert line.startswith("scenario: ")
            assert line.count(": ") >= 2, "a place and a rule"
        return
    sim.prepare(scenario)
    assert sim.parse(scenario.dump()) == scenario


def _read(data: Scenario) -> tuple[sim.Scenario | None, tuple[str, ...]]:
    """Return the scenario, or the lines of its mistakes."""
    try:
        return sim.parse(data), ()
    except sim.ScenarioError as error:
        return None, error.lines


@examples(80)
@given(scenarios(fewest_sources=1, is_odd=True))
def test_what_is_not_refused_can_be_played(data: Scenario) -> None:
    """Parts that know nothing of one another: the rules of combinations let nothing pass that cannot be played."""
    scenario, _ = _read(data)
    if scenario is None:
        return
    result = play(sim.prepare(scenario))
    assert result.counts["failures"] == result.counts["masked"] + result.counts["outside"] + result.counts["hits"]


ELASTIC = {"use": "shrink-rejoin", "reconfigure": "1 s", "initialize": "1 s"}

NIC = {"use": "component", "name": "nic", "part": "nic", "rate": "1 per nic-day", "repair": "1 h"}

ROLLOUT = {"use": "rollout", "name": "roll", "nodes_per_day": 2, "duration": "1 h", "hazard": {"nic": 2}}

NINE = {"nodes": 9, "gpus_per_node": 1, "rack": {"nodes": 4}, "fabric": {"rails": 1}}

EIGHT = NINE | {"nodes": 8}

RAILS = EIGHT | {"gpus_per_node": 4, "fabric": {"rails": 4}}

FAILS = {"use": "component", "name": "cause", "rate": "1 per node-day"}


def test_replicas_that_share_a_unit_without_being_neighbours() -> None:
    """Two stages of four replicas, stage by stage: a rack of two nodes has one stage of two replicas."""
    changes: dict[str, Any] = {
        "cluster": {"nodes": 16, "gpus_per_node": 2, "rack": {"nodes": 2}, "fabric": {"rails": 2}},
        "spares": {"unit": "rack"},
        "recovery": ELASTIC,
    }
    job = {"name": "job", "gpus": 16, "parallelism": {"tensor": 2, "data": 4, "pipeline": 2}}
    _, lines = _read(harness.scenario(**changes, jobs=[job]))
    assert any("jobs.0.parallelism: replicas of 2 nodes share units of 2" in line for line in lines), lines
    job["parallelism"]["order"] = ["tensor", "context", "pipeline", "expert", "data"]  # type: ignore[index]
    assert _read(harness.scenario(**changes, jobs=[job]))[0] is not None, "neighbours in rank share nothing"
    changes["recovery"] = ELASTIC | {"use": "redundant", "redundancy": "templates"}
    _, lines = _read(harness.scenario(**changes, jobs=[job]))
    assert any("recovery.use: stages of job 'job' share units of 2 nodes" in line for line in lines), lines


def test_a_rollout_cannot_change_what_the_cables_decide() -> None:
    """Where traffic is rerouted, a NIC is no part of its node alone."""
    cluster: dict[str, Any] = {"nodes": 8, "gpus_per_node": 4, "fabric": {"rails": 4, "reroute": "scale_up"}}
    job = {"name": "job", "gpus": 8, "communication": 0.5}
    case = harness.scenario(cluster=cluster, jobs=[job], failures=[NIC, ROLLOUT])
    _, lines = _read(case)
    assert any("failures.1.hazard.nic: 'nic' is not a cause of single nodes" in line for line in lines), lines
    cluster["fabric"]["reroute"] = "none"
    assert _read(case)[0] is not None


@cases(
    ("cluster", "changes", "line"),
    [
        (EIGHT, {"failures": [FAILS | {"part": "core"}]}, "no part 'core'"),
        (EIGHT, {"failures": [FAILS | {"use": "incident", "part": "core"}]}, "no part 'core'"),
        (EIGHT, {"spares": {"unit": "core"}}, "spares.unit: a core has no nodes of its own"),
        (RAILS, {"spares": {"unit": "nic"}}, "spares.unit: a nic has no nodes of its own"),
        (NINE, {"spares": {"unit": "rack"}}, "spares.unit: 9 nodes do not fill 3 units of rack"),
        (EIGHT, {"failures": [FAILS | {"relapse": {"after": "0 s"}}]}, "relapse.after: must have a mean above zero"),
    ],
    ids=[
        "no cores to fail",
        "no cores for incidents",
        "no cores as units",
        "NICs as units",
        "a broken rack",
        "at once",
    ],
)
def test_parts_that_are_not_there(cluster: Scenario, changes: dict[str, Any], line: str) -> None:
    """Parts that the cluster has none of, units that share nodes or differ in size, faults without end."""
    _, lines = _read(harness.scenario(cluster=cluster, jobs=[{"name": "job", "gpus": 4}], **changes))
    assert any(line in each for each in lines), lines


@examples(60)
@given(st.integers(1, 120), st.sampled_from(("hot-spare", "full-restart")))
def test_a_bug_beside_a_checkpoint_does_not_strike_without_end(steps: int, recovery: str) -> None:
    """Where a restart takes no time, and rounding alone is between checkpoint and bug, a job waits for the fix."""
    case = harness.prepared(
        jobs=[{"name": "job", "gpus": 2, "step_time": "1.029 s", "arrival": "0.1 s"}],
        failures=[{"use": "bug", "name": "bug", "law": f"{1.029 * steps!r} s", "fix": "100 s"}],
        checkpoint={"tiers": [{"interval": "every 1 steps", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
        recovery={"use": recovery, "initialize": "0 s"},
    )
    assert play(case).events < 5_000

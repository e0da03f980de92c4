"""Whatever somebody writes, it is refused with lines that say why, or it can be played."""

from __future__ import annotations

import json

from hypothesis import given

import sim
from tests.property.common import Scenario, examples, play
from tests.strategies import odd_scenarios, scenarios


@examples(300)
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


@examples(100)
@given(scenarios(fewest_sources=1, is_odd=True))
def test_what_is_not_refused_can_be_played(data: Scenario) -> None:
    """Parts that know nothing of one another: the rules of combinations let nothing pass that cannot be played."""
    scenario, _ = _read(data)
    if scenario is None:
        return
    result = play(sim.prepare(scenario))
    assert result.counts["failures"] == result.counts["masked"] + result.counts["outside"] + result.counts["hits"]

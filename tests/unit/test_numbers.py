"""Random numbers looked up one by one or a column at once are the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from sim import rng
from sim.engine.lives import Numbers
from sim.failures import Source
from sim.failures.trace import life_key
from sim.failures.variety import Frailty, Variety, fleet_of
from sim.scenario.laws import Weibull
from tests.cases import cases


@cases("number", [0, 3, 63, 64, 1 << 40])
def test_a_column_holds_what_single_look_ups_give(number: int) -> None:
    """Whatever has been asked before: few, many, or more than a column is made for."""
    key = rng.stream(1, 2, "numbers")
    numbers = Numbers(key, 500)
    order = np.random.default_rng(1).permutation(500).tolist()
    for slot in [*order, *order]:
        assert numbers.get(slot, number) == rng.uniform_one(key, slot, number)
    assert (number in numbers.columns) == (number < 64), "the test must see both ways"


def test_lives_of_a_column_are_those_of_their_units() -> None:
    """Each unit with its own hazard ratio, to the accuracy that laws promise."""
    law = Weibull.from_seconds(shape=0.7, mean=1e6)
    source = Source("cause", "node", 300, law, variety=Variety(Frailty(shape=0.5)), slots_per_node=1)
    fleet = fleet_of(source, 1, 2)
    slots = np.arange(300)
    numbers = Numbers(life_key(source, 1, 2), 300, lambda each: fleet.lives(slots, each), fleet.life)
    single = [fleet.life(slot, rng.uniform_one(life_key(source, 1, 2), slot, 5)) for slot in range(300)]
    for _ in range(2):
        assert [numbers.get(slot, 5) for slot in range(300)] == pytest.approx(single, rel=1e-12)
    assert 5 in numbers.columns

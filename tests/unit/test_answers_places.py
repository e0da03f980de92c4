"""Windows, plateaus, and reasons: what a question says of a curve that is not simply passed."""

from __future__ import annotations

from tests.answers_tools import ask, common_noise, table_of, told
from tests.cases import cases

NOISE = common_noise(24, 0.01)
SPARES = {"title": "hot spares", "noun": "hot spares", "path": "spares.hot", "choices": [0, 4, 8, 16]}
EVERY = {"title": "interval", "choices": ["15 min", "30 min", "1 h", "2 h"]}


def test_a_rise_and_a_fall_are_one_window() -> None:
    """0.92, 0.97, 0.97, 0.92 is at least 0.95 from 60 % of the first step to 40 % of the last: one part."""
    course = {900.0: 0.92, 1800.0: 0.97, 3600.0: 0.97, 7200.0: 0.92}
    table = table_of({"every": EVERY}, lambda where: {"ettr": course[where["every"]] + NOISE / 100})
    _, rows = told(table, ask="threshold", at_least="95 %", along="every")
    # 15 min * 2^0.6 and 1 h * 2^0.4
    assert rows[0][0].startswith("from 22.7 minutes to 1.3")


def test_a_dip_leaves_two_parts() -> None:
    """What falls and rises again holds up to a place and from another one on."""
    course = {0: 0.97, 4: 0.93, 8: 0.93, 16: 0.97}
    table = table_of({"spares": SPARES}, lambda where: {"ettr": course[where["spares"]] + NOISE / 100})
    _, rows = told(table, ask="threshold", at_least="95 %", along="spares")
    assert rows[0][0] == "up to 2 from 12"


def test_the_combination_that_takes_least_comes_first() -> None:
    """In the sentence and in the table; the one that takes most, or is never enough, comes last."""
    table = table_of(
        {"spares": SPARES, "repair": {"title": "repair", "choices": ["6 h", "1 d", "2 d", "90 d"]}},
        lambda where: {
            "ettr": 0.9
            + 0.004 * where["spares"]
            - 0.008 * (where["repair"] / 172800) * (1 + (where["repair"] > 2e6))
            + NOISE / 100
        },
    )
    words, rows = told(table, ask="threshold", at_least="95 %", along="spares")
    # 12.5 + repair / 1 d whole spares; with 90 d never.
    assert [row[:2] for row in rows] == [
        ["6 h", "from 13"], ["1 d", "from 14"], ["2 d", "from 15"], ["90 d", "no value tried"],
    ]  # fmt: skip
    assert words.index("repair 6 h") < words.index("repair 90 d, no value tried")
    everywhere, _ = told(table, ask="threshold", at_least="10 %", along="spares")
    assert "any value tried is enough" in everywhere


def test_a_plateau_is_no_peak() -> None:
    """Of 2, 3, 3, 3 the highest is no place, and of the fall after equal values only the fall is told."""
    course = {0: 0.90, 4: 0.95, 8: 0.95, 16: 0.93}
    table = table_of({"spares": SPARES}, lambda where: {"ettr": course[where["spares"]] + NOISE})
    assert ask(table, ask="trend", along="spares").data["lines"][0]["course"] == "turns"
    course = {0: 0.95, 4: 0.95, 8: 0.95, 16: 0.93}
    extra = {place: common_noise(24, 1e-3, seed=place) for place in course}
    table = table_of(
        {"spares": SPARES}, lambda where: {"ettr": course[where["spares"]] + NOISE + extra[int(where["spares"])]}
    )
    answer = ask(table, ask="trend", along="spares")
    assert answer.data["lines"][0]["course"] == "falls"
    assert told(table, ask="trend", along="spares")[1][0][-2].startswith("8 to 16: -2.00 points")


def test_a_slope_of_small_steps_is_no_plateau() -> None:
    """Steps of which none is resolved may be a rise that is: neighbours alone do not make a plateau."""
    places = list(range(10))
    extra = {place: common_noise(24, 0.004, seed=place + 50) for place in places}
    table = table_of(
        {"spares": {"choices": places}},
        lambda where: {"ettr": 0.9 + 0.0009 * where["spares"] + NOISE + extra[int(where["spares"])]},
    )
    (found,) = ask(table, ask="trend", along="spares").data["lines"]
    assert not any(step["difference"]["resolved"] for step in found["steps"])
    assert found["course"] == "rises"


def test_no_step_is_the_largest_where_none_is_resolved() -> None:
    """Differences within their noise are not put in an order."""
    extra = {place: common_noise(24, 0.01, seed=place) for place in (0, 4, 8, 16)}
    table = table_of({"spares": SPARES}, lambda where: {"ettr": 0.9 + extra[int(where["spares"])]})
    assert told(table, ask="trend", along="spares")[1][0][-2:] == ["none", "no step is resolved"]


def test_what_cannot_be_compared_says_why() -> None:
    """A cell that cannot run has its trouble in the answer, also if it is the one to compare with."""
    table = table_of(
        {"way": {"choices": ["a", "b"]}}, lambda where: {} if where["way"] == "b" else {"ettr": 0.9 + NOISE}
    )
    assert told(table, ask="compare", axis="way")[0] == "way = b: no ETTR (no room for the job)."
    three = table_of(
        {"way": {"choices": ["a", "b", "c"]}}, lambda where: {} if where["way"] == "b" else {"ettr": 0.9 + NOISE}
    )
    assert ["b", "no mean", "cannot run"] in told(three, ask="compare", axis="way")[1]
    assert (
        told(three, ask="compare", axis="way", against="b")[0]
        == "way = b has no ETTR to compare with: no room for the job."
    )


@cases("count", [1, 2])
def test_few_replications_are_an_answer(count: int) -> None:
    """Of one replication there is no interval: nothing is resolved, and two or more would tell."""
    table = table_of(
        {"way": {"choices": ["a", "b"]}, "spares": SPARES},
        lambda where: {"ettr": 0.9 + 0.01 * (where["way"] == "a") + NOISE[:count]},
    )
    words, _ = told(table, ask="crossover", between="way", along="spares")
    assert words.startswith("“a” or “b” may have" if count == 1 else "“a” has the highest")

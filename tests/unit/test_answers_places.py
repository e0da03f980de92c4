"""Windows, plateaus, and reasons: what a question says of a curve that is not simply passed."""

from __future__ import annotations

from tests.answers_tools import ask, common_noise, table_of
from tests.cases import cases

NOISE = common_noise(24, 0.01)
SPARES = {"title": "hot spares", "path": "spares.hot", "choices": [0, 4, 8, 16]}
EVERY = {"title": "interval", "choices": ["15 min", "30 min", "1 h", "2 h"]}


def test_a_rise_and_a_fall_are_one_window() -> None:
    """0.92, 0.97, 0.97, 0.92 is at least 0.95 from 60 % of the first step to 40 % of the last: one part."""
    course = {900.0: 0.92, 1800.0: 0.97, 3600.0: 0.97, 7200.0: 0.92}
    table = table_of({"every": EVERY}, lambda where: {"ettr": course[where["every"]] + NOISE / 100})
    answer = ask(table, ask="threshold", at_least="95 %", along="every")
    # 15 min * 2^0.6 and 1 h * 2^0.4
    assert answer.sentences[0].startswith("ETTR is at least 95 % from interval = 22.7")
    assert " to 1.3" in answer.sentences[0]
    assert answer.sentences[0].endswith("is the best.")
    assert len(answer.sentences) == 1


def test_a_dip_leaves_two_parts() -> None:
    """What falls and rises again holds up to a place and from another one on."""
    course = {0: 0.97, 4: 0.93, 8: 0.93, 16: 0.97}
    table = table_of({"spares": SPARES}, lambda where: {"ettr": course[where["spares"]] + NOISE / 100})
    answer = ask(table, ask="threshold", at_least="95 %", along="spares")
    assert answer.sentences[0].startswith("ETTR is at least 95 % in 2 parts of the range of hot spares: up to ")
    assert " and from 12" in answer.sentences[0]


def test_an_interval_has_the_unit_of_its_value() -> None:
    """An end beyond the range is told in the unit of the place: 2 h are 120 min."""
    course = {900.0: 0.92, 1800.0: 0.952, 3600.0: 0.952, 7200.0: 0.951}
    table = table_of({"every": EVERY}, lambda where: {"ettr": course[where["every"]] + NOISE})
    answer = ask(table, ask="threshold", at_least="95 %", along="every")
    assert "min [" in answer.sentences[0]
    assert answer.sentences[0].split("[")[1].split("]")[0].endswith(", above 120")


def test_combinations_are_summed_up_first() -> None:
    """The first and the last place over the others, with which it is; and in how many it is never, or always, so."""
    table = table_of(
        {"spares": SPARES, "repair": {"title": "repair", "choices": ["6 h", "1 d", "2 d", "90 d"]}},
        lambda where: {
            "ettr": 0.9
            + 0.004 * where["spares"]
            - 0.008 * (where["repair"] / 172800) * (1 + (where["repair"] > 2e6))
            + NOISE / 100
        },
    )
    first = ask(table, ask="threshold", at_least="95 %", along="spares").sentences[0]
    # 12.5 + repair / 1 d whole spares; with 90 d never.
    assert first.startswith("In 3 of 4 combinations ETTR is at least 95 % from hot spares between 13 [")
    assert "(repair = 6 h) and 15 [" in first
    assert first.endswith("(repair = 2 d) on; never in 1.")
    everywhere = ask(table, ask="threshold", at_least="10 %", along="spares").sentences[0]
    assert everywhere == "ETTR is at least 10 % at every value in 4 of 4 combinations."


def test_a_plateau_is_no_peak() -> None:
    """Of 2, 3, 3, 3 the highest is no place, and of the fall after equal values only the fall is told."""
    course = {0: 0.90, 4: 0.95, 8: 0.95, 16: 0.93}
    table = table_of({"spares": SPARES}, lambda where: {"ettr": course[where["spares"]] + NOISE})
    last = ask(table, ask="trend", along="spares").sentences[-1]
    assert last.endswith("from 4 to 8, where it is the same in every replication.")
    course = {0: 0.95, 4: 0.95, 8: 0.95, 16: 0.93}
    extra = {place: common_noise(24, 1e-3, seed=place) for place in course}
    table = table_of(
        {"spares": SPARES}, lambda where: {"ettr": course[where["spares"]] + NOISE + extra[int(where["spares"])]}
    )
    answer = ask(table, ask="trend", along="spares")
    assert answer.data["lines"][0]["course"] == "falls"
    assert answer.sentences[-1] == "It falls, but from 0 to 8 there is no difference that could be resolved."
    assert answer.sentences[-2].startswith("The largest step is from 8 to 16: -2.00 points")


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
    answer = ask(table, ask="trend", along="spares")
    assert not any(sentence.startswith("The largest step") for sentence in answer.sentences)
    assert answer.sentences[-1] == "From 0 to 16 there is no difference that could be resolved."


def test_what_cannot_be_compared_says_why() -> None:
    """A cell that cannot run has its trouble in the answer, also if it is the one to compare with."""
    table = table_of(
        {"way": {"choices": ["a", "b"]}}, lambda where: {} if where["way"] == "b" else {"ettr": 0.9 + NOISE}
    )
    assert ask(table, ask="compare", axis="way").sentences[1] == "way = b: no ETTR (no room for the job)."
    three = table_of(
        {"way": {"choices": ["a", "b", "c"]}}, lambda where: {} if where["way"] == "b" else {"ettr": 0.9 + NOISE}
    )
    assert "way = b: no ETTR (no room for the job)." in ask(three, ask="compare", axis="way").sentences
    (sentence,) = ask(three, ask="compare", axis="way", against="b").sentences
    assert sentence == "way = b has no ETTR to compare with: no room for the job."


@cases("count", [1, 2])
def test_few_replications_are_an_answer(count: int) -> None:
    """Of one replication there is no interval: nothing is resolved, and two or more would tell."""
    table = table_of(
        {"way": {"choices": ["a", "b"]}, "spares": SPARES},
        lambda where: {"ettr": 0.9 + 0.01 * (where["way"] == "a") + NOISE[:count]},
    )
    answer = ask(table, ask="crossover", between="way", along="spares")
    if count == 1:
        assert answer.sentences[0].startswith("Not resolved on this range of hot spares: a or b may have")
        assert "two replications or more" in answer.sentences[1]
    else:
        assert answer.sentences[0].endswith("a has the highest ETTR at every value.")

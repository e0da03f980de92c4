"""Who is best along an axis rests on all candidates together, and what is not resolved is not asserted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pydantic import ValidationError

from analysis.study.questions.kinds import QUESTIONS
from analysis.study.questions.words import more_replications
from tests.answers_tools import ask, common_noise, table_of
from tests.cases import cases

if TYPE_CHECKING:
    from analysis.study.questions.question import Answer
    from analysis.study.table import Table

PLACES = (1000, 2000, 4000, 8000)
NOISE = common_noise(24, 0.01)


def contest(own: dict[str, tuple[float, ...]], noise: float = 0.0, noisy: dict[str, float] | None = None) -> Table:
    """Return a table of ways at four places, each with noise of its own beside the common one."""
    spread = {way: (noisy or {}).get(way, noise) for way in own}
    extra = {
        (way, place): common_noise(24, spread[way] or 1.0, seed=10 * row + column)
        for row, way in enumerate(own)
        for column, place in enumerate(PLACES)
    }

    def ettr(where: dict[str, Any]) -> dict[str, Any]:
        way, place = where["way"], where["gpus"]
        return {"ettr": 0.9 + own[way][PLACES.index(place)] + NOISE + (spread[way] > 0) * extra[way, place]}

    return table_of({"way": {"choices": list(own)}, "gpus": {"title": "GPUs", "choices": list(PLACES)}}, ettr)


def crossover(table: Table) -> Answer:
    """Return who is best along the places."""
    return ask(table, ask="crossover", between="way", along="gpus")


def test_a_third_that_is_noisier_may_be_best_too() -> None:
    """The first is 1 point ahead of the second for sure, 2 ahead of one whose mean is known to 5 points: not resolved.

    `best` says so of the same data, at each value.
    """
    table = contest({"a": (0.03,) * 4, "b": (0.02,) * 4, "c": (0.01,) * 4}, noisy={"c": 0.12})
    answer = crossover(table)
    assert [stage["may_be_best"] for stage in answer.data["lines"][0]["best"]] == [["a", "c"]] * 4
    assert answer.sentences[0] == "Not resolved on this range of GPUs: a or c may have the highest ETTR at any value."
    assert answer.data["lines"][0]["crossings"] == []
    alone = ask(table, ask="best", for_each=("gpus",)).data["groups"]
    assert [[rival["way"] for rival in group["may_be_best"]] for group in alone] == [["c"]] * 4


def test_who_may_be_best_is_who_may_be_best_by_the_other_question() -> None:
    """Of random contests, at every place: the same leader, the same rivals, the same distance to the second."""
    rng = np.random.default_rng(8)
    seen = set()
    for _ in range(5):
        table = contest({way: tuple(rng.uniform(0, 0.01, 4)) for way in "abcde"}, noise=0.006)
        groups = ask(table, ask="best", for_each=("gpus",)).data["groups"]
        for stage, group in zip(crossover(table).data["lines"][0]["best"], groups, strict=True):
            rivals = [rival["way"] for rival in group["may_be_best"]]
            assert stage["may_be_best"] == [group["best"]["way"], *rivals]
            assert stage["ahead_of_second"]["mean"] == group["order"][1]["behind"]
            assert stage["ahead_of_second"]["ci95"] == group["order"][1]["behind_ci95"]
            seen.add(bool(rivals))
    assert seen == {True, False}


def test_a_crossover_is_asserted_between_values_where_both_leads_are_resolved() -> None:
    """Level within their noise at 4000 and not at 2000 and 8000: they cross between those two, and no value is sure."""
    answer = crossover(contest({"a": (0.04, 0.02, 0.0, -0.02), "b": (0.02, 0.01, 0.00001, 0.01)}, noisy={"b": 1e-3}))
    (found,) = answer.data["lines"][0]["crossings"]
    assert (found["from"], found["to"], found["between"]) == ("a", "b", ["2000", "8000"])
    assert found["at_ci95"][0] < 4000 < found["at_ci95"][1]
    assert answer.sentences[0].startswith("a has the highest ETTR up to GPUs = ")
    assert answer.sentences[0].endswith("(between 2000 and 8000, not resolved at 4000), then b from there on.")


def test_a_lead_that_is_lost_to_nobody_for_sure_is_no_crossover() -> None:
    """A second mean that is higher at one end by less than its noise does not take over."""
    answer = crossover(contest({"a": (0.04, 0.02, 0.01, 0.0), "b": (0.0, 0.0, 0.0, 0.0001)}, noisy={"b": 1e-3}))
    assert answer.data["lines"][0]["crossings"] == []
    assert answer.sentences[0] == (
        "No crossover that is resolved on this range of GPUs: a has the highest ETTR up to GPUs = 4000, at 8000 it is "
        "not resolved (b or a may be ahead)."
    )


def test_a_third_that_may_be_ahead_between_two_leaves_their_crossing_open() -> None:
    """Where c may be best at 4000, the place at which a falls behind b is not where b becomes the best."""
    answer = crossover(
        contest(
            {"a": (0.04, 0.02, 0.0, -0.02), "b": (0.02, 0.01, 0.0, 0.01), "c": (-0.02, -0.02, 0.00002, -0.02)},
            noisy={"b": 1e-3, "c": 1e-3},
        )
    )
    (found,) = answer.data["lines"][0]["crossings"]
    assert (found["between"], found["at"]) == (["2000", "8000"], None)
    assert "up to GPUs = 2000, at 4000 it is not resolved (" in answer.sentences[0]
    assert answer.sentences[0].endswith("may be ahead), then b from 8000 on.")


def test_those_that_are_the_same_are_best_together() -> None:
    """Equal in every replication up to 2000: neither is ahead there, and that is no doubt that replications resolve."""
    answer = crossover(contest({"a": (0.1,) * 4, "b": (0.1, 0.1, 0.0, 0.2)}))
    assert [stage["may_be_best"] for stage in answer.data["lines"][0]["best"]] == [["a", "b"]] * 2 + [["a"], ["b"]]
    assert answer.sentences[0].startswith(
        "a and b (the same in every replication) have the highest ETTR up to GPUs = 2000, then a up to "
    )
    (found,) = crossover(contest({"a": (0.1,) * 4, "b": (0.0, 0.1, 0.2, 0.2)})).data["lines"][0]["crossings"]
    assert found["at"] == pytest.approx(2000)


def test_the_direction_is_one_of_two() -> None:
    """A wrong one is refused with both, and with nothing else to choose from."""
    for question in ({"ask": "best"}, {"ask": "crossover", "between": "way", "along": "gpus"}):
        with pytest.raises(ValidationError) as caught:
            QUESTIONS[question["ask"]].model_validate({**question, "direction": "up"})
        (error,) = caught.value.errors()
        assert error["ctx"]["expected"] == "'highest' or 'lowest'"


@cases(
    ("needed", "count", "text"),
    [
        (5, 4, "a few more replications"),
        (60, 4, "tens more replications"),
        (484, 8, "hundreds more replications"),
        (2462, 9, "thousands more replications"),
        (11, 10, "one more replication"),
        (9, 10, "one more replication"),
        (66, 24, "about 42 more replications"),
        (2478, 24, "about 2,500 more replications"),
        (None, 4, "more than 10,000 replications"),
    ],
)
def test_how_many_more_is_told_as_firmly_as_it_is_known(needed: int | None, count: int, text: str) -> None:
    """From fewer than ten replications an order of magnitude, from more two digits."""
    assert more_replications(needed, count) == text

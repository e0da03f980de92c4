"""Every question has the right answer where the right answer is known."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from analysis.statistics.estimates import t_quantile
from analysis.study.questions.kinds import QUESTIONS
from analysis.study.questions.question import scale_of
from sim.scenario.fields import RuleError
from tests.answers_tools import ask, broken, common_noise, table_of
from tests.cases import cases

SPARES = {"title": "hot spares", "path": "spares.hot", "choices": [0, 4, 8, 16]}
REPAIR = {"title": "repair time", "choices": ["6 h", "2 d"]}
SCALE = {"title": "GPUs", "range": {"min": 1000, "max": 16000, "step": 2, "scale": "log"}}
NOISE = common_noise(24, 0.01)


def line(slope: float, start: float = 0.9) -> Any:
    """Return a metric that is a line of the spares, with noise that all points have in common."""
    return lambda where: {"ettr": start + slope * where["spares"] + NOISE}


# ------------------------------------------------------------------------------------------ threshold


def test_a_threshold_is_where_the_line_passes_it() -> None:
    """0.9 + 0.004 s is 95 % at 12.5: of whole spares 13 are needed, and the interval is that of the mean over 0.004."""
    answer = ask(table_of({"spares": SPARES}, line(0.004)), ask="threshold", at_least="95 %", along="spares")
    (found,) = answer.data["lines"][0]["crossings"]
    half = t_quantile(0.95, 23) * 0.01 / math.sqrt(24) / 0.004
    assert found["at"] == pytest.approx(12.5)
    assert found["at_ci95"] == pytest.approx([12.5 - half, 12.5 + half])
    assert (found["between"], found["begins"]) == (["8", "16"], True)
    assert answer.sentences[0].startswith("ETTR is at least 95 % from hot spares = 13 [12, 14] on: 93.2 %")
    # The interval lies between 8 and 16, so it says already that 16 is sure and 8 is not.
    assert len(answer.sentences) == 1
    wide = table_of({"spares": SPARES}, lambda where: {"ettr": 0.9 + 0.004 * where["spares"] + 9 * NOISE})
    answer = ask(wide, ask="threshold", at_least="95 %", along="spares")
    assert answer.sentences[-1].startswith("For sure at no value")


def test_a_condition_may_hold_up_to_a_place() -> None:
    """The longer the repair the worse: it holds from the short end, and "at most" of a cost reads upside down."""
    table = table_of({"spares": SPARES}, lambda where: {"ettr": 0.99 - 0.004 * where["spares"] + NOISE})
    answer = ask(table, ask="threshold", at_least=0.95, along="spares")
    assert answer.sentences[0].startswith("ETTR is at least 95 % up to hot spares = 10 [8, 11]: 95.8 %")
    assert answer.data["lines"][0]["crossings"][0]["begins"] is False
    table = table_of({"spares": SPARES}, lambda where: {"cost": 100 - 4 * where["spares"] + NOISE}, metrics=("cost",))
    answer = ask(table, ask="threshold", at_most=80, along="spares")
    assert answer.sentences[0].startswith("Cost is at most 80 from hot spares = 5 [5, 6] on: 84.0")


@cases(
    ("level", "holds", "words"),
    [
        ("99 %", [False] * 4, "ETTR is never at least 99 % on this range of hot spares: 96.4 % [96.0, 96.8] at 16"),
        (
            "80 %",
            [True] * 4,
            "ETTR is at least 80 % on the whole range of hot spares: already at the first value, 90.0",
        ),
    ],
)
def test_never_and_always_are_answers(level: str, holds: list[bool], words: str) -> None:
    """Where the value is not passed on the range, the best or the worst value is told in place of a crossing."""
    answer = ask(table_of({"spares": SPARES}, line(0.004)), ask="threshold", at_least=level, along="spares")
    assert [point["holds"] for point in answer.data["lines"][0]["points"]] == holds
    assert answer.data["lines"][0]["crossings"] == []
    assert answer.sentences[0].startswith(words)


def test_between_values_a_threshold_is_sought_on_the_scale_of_the_axis() -> None:
    """What falls by 2 points with each doubling passes 95 % half a doubling after 96 %: at the geometric mean."""
    table = table_of({"gpus": SCALE}, lambda where: {"ettr": 1 - 0.02 * math.log2(where["gpus"] / 1000) + NOISE})
    answer = ask(table, ask="threshold", at_least=0.95, along="gpus")
    assert answer.data["lines"][0]["crossings"][0]["at"] == pytest.approx(1000 * 2**2.5)
    listed = {**SCALE, "range": None, "choices": [1000, 2000, 4000, 16000]}
    assert scale_of(table_of({"gpus": listed}, lambda where: {"ettr": [1.0]}), "gpus").is_log
    assert not scale_of(table_of({"spares": {"choices": [1, 2, 3, 4]}}, lambda where: {"ettr": [1.0]}), "spares").is_log


def test_every_combination_of_the_others_has_its_own_threshold() -> None:
    """A slower repair moves what is needed; times are told as times."""
    table = table_of(
        {"spares": SPARES, "repair": REPAIR},
        lambda where: {"ettr": 0.9 + 0.004 * where["spares"] - 0.008 * (where["repair"] > 86400) + NOISE},
    )
    answer = ask(table, ask="threshold", at_least=0.95, along="spares")
    assert [found["at"] for found in answer.data["lines"]] == [{"repair": "6 h"}, {"repair": "2 d"}]
    assert [found["crossings"][0]["at"] for found in answer.data["lines"]] == pytest.approx([12.5, 14.5])
    across = ask(table, ask="threshold", at_least=0.96, along="repair")
    assert any(
        text.startswith("hot spares = 16: ETTR is at least 96 % up to repair time = 27.0 h [below")
        for text in across.sentences
    )


def test_a_probability_is_judged_by_its_exact_interval() -> None:
    """40 of 40 finished in time is no certainty of 95 %: the exact interval begins at 0.025^(1/40) = 91 %."""
    table = table_of(
        {"spares": SPARES},
        lambda where: {
            "p_finish_by": [1.0] * (40 if where["spares"] > 4 else 20) + [0.0] * (0 if where["spares"] > 4 else 20)
        },
        metrics=("p_finish_by",),
    )
    (found,) = ask(table, ask="threshold", at_least=0.95, along="spares").data["lines"]
    assert found["points"][-1]["mean_ci95"][0] == pytest.approx(0.025 ** (1 / 40))
    assert [point["holds_for_sure"] for point in found["points"]] == [False] * 4
    (found,) = ask(table, ask="threshold", at_least=0.9, along="spares").data["lines"]
    assert [point["holds_for_sure"] for point in found["points"]] == [False, False, True, True]


def test_unknown_inputs_move_a_threshold_within_the_band_of_their_distribution() -> None:
    """1 - r u is 95 % at r = 0.05 / u: between 0.05 / 1.18 and 0.05 / 0.82 for 9 in 10 of all u between 0.8 and 1.2."""
    axes = {
        "rate": {"range": {"min": 0.02, "max": 0.1, "points": 17}},
        "factor": {"distribution": {"law": "uniform", "min": 0.8, "max": 1.2}},
    }
    table = table_of(
        axes, lambda where: {"ettr": 1 - where["rate"] * where["factor"] + NOISE / 100}, design={"draws": 40}
    )
    (found,) = ask(table, ask="threshold", at_least=0.95, along="rate").data["lines"]
    assert found["crossings"][0]["band90"] == pytest.approx([0.05 / 1.18, 0.05 / 0.82], rel=0.02)
    unsure = ask(table, ask="threshold", at_least=0.95, along="rate", over="parameters").data["lines"][0]["points"]
    # Sure of the luck to 0.05, sure of the input as well only to 0.05 / 1.18 = 0.0424.
    assert max(point["number"] for point in found["points"] if point["holds_for_sure"]) == pytest.approx(0.045)
    assert max(point["number"] for point in unsure if point["holds_for_sure"]) == pytest.approx(0.0400)


def test_values_without_a_mean_are_left_out_and_named() -> None:
    """A value that cannot run and one whose jobs did not finish are no places of a curve, and the answer says so."""
    table = table_of(
        {"spares": SPARES},
        lambda where: {} if where["spares"] == 0 else {"time_to_work": 86400 * (40 - where["spares"]) + NOISE},
        metrics=("time_to_work",),
    )
    ratios = [*table.cells[1].stated.metrics["time_to_work"][:-1], table.cells[1].stated.metrics["time_to_work"][0]]
    ratios[-1] = ratios[-1]._replace(amount=math.inf)
    table = broken(table, 1, metrics={"time_to_work": ratios}, censored=1)
    answer = ask(table, ask="threshold", at_most="30 d", along="spares")
    assert answer.data["lines"][0]["crossings"][0]["at"] == pytest.approx(10)
    assert answer.sentences[-1] == "Left out: 0 (no room for the job), 4 (a job was not finished in 1 replication)."


# --------------------------------------------------------------------------------------- best, compare


def test_the_best_is_named_with_those_that_may_be() -> None:
    """Of three that differ by far more, and far less, than their noise one is out and one may be the best too."""
    rng = np.random.default_rng(2)
    own = {"a": 0.0, "b": 1e-5, "c": 0.05}
    rows = {name: 0.9 - lag + NOISE + 0.001 * rng.normal(size=24) * (name == "b") for name, lag in own.items()}
    table = table_of({"way": {"choices": ["a", "b", "c"]}}, lambda where: {"ettr": rows[where["way"]]})
    (found,) = ask(table, ask="best").data["groups"]
    assert {found["best"]["way"], *(rival["way"] for rival in found["may_be_best"])} == {"a", "b"}
    assert found["order"][-1]["behind"] == pytest.approx(0.05, abs=1e-3)
    lowest = ask(table, ask="best", direction="lowest")
    assert lowest.data["groups"][0]["best"] == {"way": "c"}
    assert lowest.sentences[0].startswith("The lowest ETTR is 85.0 % [84.6, 85.4], with way = c.")
    assert lowest.sentences[1].startswith("It is the best of 3 for sure (95 % for all together)")


def test_a_best_is_sought_for_each_value_of_an_axis() -> None:
    """Where the best of one axis hangs on another, each value of the other has its own."""
    table = table_of(
        {"spares": SPARES, "repair": REPAIR},
        lambda where: {"ettr": 0.9 + 0.001 * where["spares"] * (1 if where["repair"] > 86400 else -1) + NOISE},
    )
    groups = ask(table, ask="best", for_each=("repair",)).data["groups"]
    assert [(group["at"]["repair"], group["best"]["spares"]) for group in groups] == [("6 h", "0"), ("2 d", "16")]


def test_a_comparison_is_paired() -> None:
    """Noise of 1 point that both have in common leaves a difference of 0.4 points without doubt."""
    answer = ask(table_of({"spares": SPARES}, line(0.001)), ask="compare", axis="spares", against="4")
    found = answer.data["lines"][0]["differences"]
    assert list(found) == ["0", "8", "16"]
    assert found["8"]["mean"] == pytest.approx(0.004)
    assert found["8"]["ci95"] == pytest.approx((0.004, 0.004))
    assert answer.sentences == (
        "ETTR is 90.4 % [90.0, 90.8] with hot spares = 4.",
        "hot spares = 0: -0.400 points [-0.400, -0.400].",
        "hot spares = 8: +0.400 points [0.400, 0.400].",
        "hot spares = 16: +1.20 points [1.20, 1.20].",
    )


def test_what_is_not_resolved_says_how_many_more_replications_would() -> None:
    """A difference of d with a spread of s takes the n with t s / sqrt(n) < d: 1 with a spread of 4 takes 64 in all."""
    other = common_noise(24, 0.004, seed=9)
    table = table_of(
        {"way": {"choices": ["a", "b", "c"]}},
        lambda where: {"ettr": 0.9 + NOISE + (0.001 + other) * (where["way"] == "b")},
    )
    needed = next(n for n in range(2, 1000) if t_quantile(0.95, n - 1) * 4 / math.sqrt(n) < 1)
    answer = ask(table, ask="compare", axis="way")
    assert answer.data["lines"][0]["differences"]["b"]["replications_to_resolve"] == needed
    assert answer.sentences[1].endswith(f"not resolved at this precision; about {needed - 24} more replications would.")
    assert answer.sentences[2] == "way = c: the same in every replication."


def test_a_difference_that_luck_hides_is_told_without_it() -> None:
    """A difference of 0.1 points in 1 point of known luck is not resolved as it is, and is with the luck taken out."""
    luck, rest = common_noise(24, 0.005, seed=21), common_noise(24, 1e-5, seed=22)
    table = table_of(
        {"way": {"choices": ["a", "b"]}},
        lambda where: {"ettr": 0.9 + (0.001 + 2 * luck + rest) * (where["way"] == "b")},
    )
    for number in (0, 1):
        table = broken(table, number, luck=[(value, 1.0) for value in luck])
    assert (
        "not resolved; with the luck of the failures taken out +0.100"
        in ask(table, ask="compare", axis="way").sentences[1]
    )


def test_money_has_its_currency() -> None:
    """Where the table knows the currency of its scenario the sentences say it."""
    table = table_of(
        {"spares": SPARES}, lambda where: {"cost": 2e6 + 1e4 * where["spares"] + 1e7 * NOISE}, metrics=("cost",)
    )
    object.__setattr__(table, "currency", "USD")
    assert ask(table, ask="best").sentences[0].startswith("The lowest cost is 2.00 M USD [1.96, 2.04]")


# ------------------------------------------------------------------------------- trend, crossover, pareto


def test_a_trend_tells_from_where_to_where_and_the_largest_step() -> None:
    """0.9 + 0.001 s rises all the way, most from 8 to 16; a hill turns at its top."""
    answer = ask(table_of({"spares": SPARES}, line(0.001)), ask="trend", along="spares")
    (found,) = answer.data["lines"]
    assert found["whole"]["difference"]["mean"] == pytest.approx(0.016)
    assert found["course"] == "rises"
    assert answer.sentences[0].startswith("From hot spares = 0 to 16 ETTR goes from 90.0 % [89.6, 90.4] to 91.6 %")
    assert answer.sentences[1] == "The largest step is from 8 to 16: +0.800 points [0.800, 0.800]."
    hill = table_of({"spares": SPARES}, lambda where: {"ettr": 0.9 - 0.001 * (where["spares"] - 8) ** 2 + NOISE})
    answer = ask(hill, ask="trend", along="spares")
    assert answer.data["lines"][0]["course"] == "turns"
    assert answer.sentences[-1] == "It turns on the way: the highest is 90.0 % [89.6, 90.4] at 8."


def test_noise_is_not_told_as_a_turn() -> None:
    """A step against the trend that its own noise explains leaves the course as it is."""
    own = {0.0: 0.0, 4.0: 0.05, 8.0: 0.0499, 16.0: 0.1}
    extra = common_noise(24, 0.01, seed=4)
    table = table_of(
        {"spares": SPARES},
        lambda where: {"ettr": 0.8 + own[where["spares"]] + NOISE + extra * (where["spares"] == 8)},
    )
    assert ask(table, ask="trend", along="spares").data["lines"][0]["course"] == "rises"


def test_a_crossover_is_where_two_lines_meet() -> None:
    """0.97 - 0.03 g and 0.94 - 0.015 g, g doublings of 1,000, meet after two: at 4,000, exactly on common failures."""
    lines = {"restart": (0.97, 0.03), "elastic": (0.935, 0.015)}

    def ettr(where: dict[str, Any]) -> dict[str, Any]:
        start, slope = lines[where["way"]]
        return {"ettr": start - slope * math.log2(where["gpus"] / 1000) + NOISE}

    table = table_of({"way": {"choices": ["restart", "elastic"]}, "gpus": SCALE}, ettr)
    answer = ask(table, ask="crossover", between="way", along="gpus")
    (found,) = answer.data["lines"][0]["crossings"]
    place = 1000 * 2 ** (0.035 / 0.015)
    assert (found["from"], found["to"], found["between"]) == ("restart", "elastic", ["4000", "8000"])
    assert found["at"] == pytest.approx(place)
    assert found["at_ci95"] == pytest.approx([place, place])
    assert [stage["best"] for stage in answer.data["lines"][0]["best"]] == ["restart"] * 3 + ["elastic"] * 2
    assert answer.sentences[0].startswith(
        "restart has the highest ETTR up to GPUs = 5,040 [5,040 to 5,040] (between 4000"
    )
    assert answer.sentences[0].endswith("then elastic from there on.")


def test_no_crossover_is_an_answer() -> None:
    """Lines that do not meet on the range leave the same choice best at every value."""
    table = table_of(
        {"way": {"choices": ["a", "b"]}, "gpus": SCALE},
        lambda where: {"cost": 1 + (where["way"] == "b") + NOISE},
        metrics=("cost",),
    )
    answer = ask(table, ask="crossover", between="way", along="gpus")
    assert answer.data["lines"][0]["crossings"] == []
    assert answer.sentences[0] == "There is no crossover on this range of GPUs: a has the lowest cost at every value."


def test_the_front_has_exactly_the_points_that_no_other_is_better_than() -> None:
    """Of ten points with two aims the front is that of its definition, pair by pair."""
    rng = np.random.default_rng(8)
    aims = rng.uniform(1, 2, size=(10, 2))
    table = table_of(
        {"way": {"choices": [f"w{index}" for index in range(10)]}},
        lambda where: {
            "ettr": aims[int(where["way"][1:]), 0] + NOISE / 1e3,
            "cost": aims[int(where["way"][1:]), 1] + NOISE / 1e3,
        },
        metrics=("ettr", "cost"),
    )
    found = ask(table, ask="pareto", metrics=("ettr", "cost")).data["front"]
    free = {
        f"w{index}"
        for index, (ettr, cost) in enumerate(aims)
        if not any(other[0] >= ettr and other[1] <= cost and tuple(other) != (ettr, cost) for other in aims)
    }
    assert {entry["at"]["way"] for entry in found} == free
    assert all(entry["for_sure"] for entry in found)
    worst = ask(table, ask="pareto", metrics=("ettr", "cost"), direction={"ettr": "lowest", "cost": "highest"})
    assert {entry["at"]["way"] for entry in worst.data["front"]}.isdisjoint(free)


def test_a_tie_in_one_aim_is_decided_by_the_other() -> None:
    """With the same cost only the higher ETTR is on the front; two points that are the same are there both."""
    ettr = {"a": 0.9, "b": 0.8, "c": 0.9}
    table = table_of(
        {"way": {"choices": ["a", "b", "c"]}}, lambda where: {"ettr": ettr[where["way"]] + NOISE, "cost": 1 + 0 * NOISE}
    )
    front = ask(table, ask="pareto", metrics=("ettr", "cost")).data["front"]
    assert [entry["at"]["way"] for entry in front] == ["a", "c"]


def test_a_place_on_the_front_may_be_luck() -> None:
    """Two points that differ by less than their noise: neither is on the front for sure, and the second may be too."""
    own = {0: common_noise(24, 0.01, seed=1), 4: common_noise(24, 0.01, seed=2), 16: NOISE}
    table = table_of(
        {"spares": {"choices": [0, 4, 16]}},
        lambda where: {"ettr": {0: 0.9, 4: 0.8999, 16: 0.95}[where["spares"]] + own[where["spares"]]},
    )
    answer = ask(table, ask="pareto", metrics=("ettr",), axes=("spares",))
    assert [(entry["spares"], entry["for_sure"]) for entry in answer.data["front"]] == [(16, True), (0, True)]
    assert [entry["spares"] for entry in answer.data["may_be_too"] if entry["at"]["spares"] == "4"] == [4]
    assert "1 other may belong to it too" in answer.sentences[-1]
    both = ask(table, ask="pareto", metrics=("ettr",), axes=("spares",), direction={"spares": "highest"})
    assert [entry["spares"] for entry in both.data["front"]] == [16]


# ----------------------------------------------------------------------------------------- sensitivity


def test_sensitivity_ranks_the_axes_by_what_each_alone_does() -> None:
    """In a - 3 x + y, x and y from -1 to 1, x moves the metric by 6 and y by 2."""
    axes = {"x": {"range": {"min": -1.0, "max": 1.0}}, "y": {"range": {"min": -1.0, "max": 1.0}}}

    def linear(where: dict[str, Any]) -> dict[str, Any]:
        return {"cost": 10 - 3 * where["x"] + where["y"] + NOISE}

    answer = ask(table_of(axes, linear, design={"use": "one-at-a-time"}, metrics=("cost",)), ask="sensitivity")
    assert [(row["axis"], row["swing"]) for row in answer.data["axes"]] == [
        ("x", pytest.approx(6)),
        ("y", pytest.approx(2)),
    ]
    assert answer.sentences[1] == "x moves it most: by 6.00 over its values."
    answer = ask(
        table_of(axes, linear, design={"use": "saltelli", "samples": 64}, metrics=("cost",)), ask="sensitivity"
    )
    # Var(3 x) is nine times Var(y).
    assert answer.data["axes"][0]["total"]["value"] == pytest.approx(0.9, abs=0.05)
    assert answer.data["kind"] == "sobol"
    grid = {name: {"choices": [0.0, 1.0]} for name in ("x", "y")}
    assert (
        "use one-at-a-time or saltelli"
        in ask(table_of(grid, linear, metrics=("cost",)), ask="sensitivity").sentences[0]
    )


# ----------------------------------------------------------------------------------------------- mistakes


@cases(
    ("question", "at", "rule"),
    [
        (
            {"ask": "threshold", "at_least": 0.9, "along": "spare"},
            "along",
            "'spare' is no axis; did you mean 'spares'?",
        ),
        ({"ask": "threshold", "at_least": 0.9, "along": "way"}, "along", "the values of way are not numbers"),
        ({"ask": "threshold", "at_least": 0.9, "along": "factor"}, "along", "the values of factor are not chosen"),
        ({"ask": "threshold", "at_least": "30 d", "along": "spares"}, "at_least", "is a unit of time, not of fraction"),
        ({"ask": "threshold", "at_least": 95, "along": "spares"}, "at_least", "did you mean '95 %'?"),
        ({"ask": "threshold", "metric": "time_to_work", "at_most": 30, "along": "spares"}, "at_most", "needs a unit"),
        ({"ask": "threshold", "metric": "cost", "at_most": "3 d", "along": "spares"}, "at_most", "must be a number"),
        ({"ask": "trend", "along": "wy"}, "along", "did you mean 'way'?"),
        ({"ask": "best", "for_each": ["ways"]}, "for_each", "did you mean 'way'?"),
        ({"ask": "compare", "axis": "way", "against": "c"}, "against", "'c' is no value of way"),
        ({"ask": "crossover", "between": "spares", "along": "spares"}, "along", "is the axis of choices too"),
        ({"ask": "pareto", "metrics": ["spares", "ettr"]}, "metrics", "spares is an axis: name it under axes"),
        ({"ask": "pareto", "metrics": ["ettr"], "axes": ["way"]}, "axes", "the values of way are not numbers"),
    ],
)
def test_a_question_that_the_axes_cannot_answer_is_refused_at_its_key(question: Any, at: str, rule: str) -> None:
    """The place is the key, and the rule has the nearest valid name."""
    axes = {
        "spares": SPARES,
        "way": {"choices": ["a", "b"]},
        "factor": {"distribution": {"law": "uniform", "min": 0.8, "max": 1.2}},
    }
    with pytest.raises(RuleError) as caught:
        ask(table_of(axes, lambda where: {"ettr": NOISE}), **question)
    assert caught.value.at == (at,)
    assert rule in str(caught.value)


def test_nothing_unknown_is_no_threshold_over_parameters() -> None:
    """Where no axis has a distribution there is no band to be clear of."""
    with pytest.raises(RuleError, match="no axis has a distribution"):
        ask(table_of({"spares": SPARES}, line(1)), ask="threshold", at_least=0.9, along="spares", over="parameters")


@cases(
    ("question", "rule"),
    [
        ({"ask": "threshold", "along": "spares"}, "give at_least or at_most, one of them"),
        ({"ask": "threshold", "along": "spares", "at_least": 1, "at_most": 1}, "give at_least or at_most, one of them"),
        ({"ask": "pareto", "metrics": ["ettr"]}, "give two or three aims, each once"),
        ({"ask": "pareto", "metrics": ["ettr", "ettr"]}, "give two or three aims, each once"),
        ({"ask": "pareto", "metrics": ["ettr", "cost"], "direction": {"cots": "lowest"}}, "did you mean 'cost'?"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(question: Any, rule: str) -> None:
    """Whatever the axes are."""
    with pytest.raises(ValidationError) as caught:
        QUESTIONS[question["ask"]].model_validate(question)
    assert rule in str(caught.value)


KEYS = {
    "best": {},
    "compare": {"axis": "spares"},
    "crossover": {"between": "way", "along": "spares"},
    "pareto": {"axes": ["spares"]},
    "sensitivity": {},
    "threshold": {"at_least": 0.5, "along": "spares"},
    "trend": {"along": "spares"},
}


def with_metric(kind: str, metric: str) -> dict[str, Any]:
    """Return a question of a kind about a metric."""
    told = {"metrics": [metric]} if kind == "pareto" else {"metric": metric}
    return {"ask": kind, **KEYS[kind], **told}


@cases("kind", QUESTIONS)
def test_a_metric_that_is_not_there_is_told_with_the_nearest(kind: str) -> None:
    """Every kind of question says it in one sentence, and no kind fails on a table without results."""
    axes = {"spares": SPARES, "way": {"choices": ["a", "b"]}}
    table = table_of(axes, lambda where: {"ettr": 0.9 + NOISE})
    (sentence,) = ask(table, **with_metric(kind, "etr")).sentences
    assert sentence.startswith("There is no metric etr; did you mean 'ettr'?")
    (sentence,) = ask(table, **with_metric(kind, "goodput")).sentences
    assert sentence == "No point has the metric goodput: the scenario does not say what it takes."
    nothing = table_of(axes, lambda where: {})
    assert ask(nothing, **with_metric(kind, "ettr")).sentences == ("No point has results.",)


@cases("kind", QUESTIONS)
@cases("design", ["one-at-a-time", "latin-hypercube", "grid"])
def test_every_question_has_an_answer_of_any_design(kind: str, design: str) -> None:
    """With holes, ties, a single replication and unknown inputs: sentences and plain data, never an error or NaN."""
    axes = {
        "spares": SPARES,
        "way": {"choices": ["a", "b"]},
        "factor": {"distribution": {"law": "between", "p05": 0.5, "p95": 2.0}},
    }
    told = {"use": design, **({"samples": 8} if design == "latin-hypercube" else {})}
    for count in (1, 24):
        table = table_of(
            axes,
            lambda where, count=count: (
                {} if where["spares"] == 16 and where["way"] == "b" else {"ettr": 0.9 + 0 * NOISE[:count]}
            ),
            design=told,
        )
        answer = ask(table, **with_metric(kind, "ettr"))
        assert answer.sentences
        assert all(sentence.endswith(".") for sentence in answer.sentences)
        assert "nan" not in f"{answer}".lower()


def test_the_page_has_every_question_with_every_key() -> None:
    """Each kind has a section, in which a table has a row for each key but `ask`, and no other."""
    text = (Path(__file__).parents[2] / "docs" / "reference" / "questions.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(sections) == list(QUESTIONS)
    for kind, question in QUESTIONS.items():
        keys = {field.alias or name for name, field in question.model_fields.items()} - {"ask"}
        assert set(re.findall(r"^\| `(\w+)` \|", sections[kind], re.MULTILINE)) == keys
        assert "\n> " in sections[kind]

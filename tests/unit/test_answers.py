"""Every question has the right answer where the right answer is known."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pydantic import ValidationError

from ettrick.analysis.amounts import NumberFormat, form_of
from ettrick.analysis.statistics.estimates import mean_interval, t_quantile
from ettrick.analysis.study.model import QUESTIONS
from ettrick.analysis.study.questions.along import Curve
from ettrick.analysis.study.questions.best import front_of
from ettrick.analysis.study.questions.question import clauses_of, is_log
from ettrick.analysis.study.table import JobRate
from ettrick.sim.scenario.fields import RuleError
from tests.cases import cases
from tests.sweep_tools import ask, broken, common_noise, table_of, worded

if TYPE_CHECKING:
    from ettrick.analysis.study.questions.question import Answer
    from ettrick.analysis.study.table import StudyTable

SPARES = {"title": "hot spares", "noun": "hot spares", "path": "spares.hot", "choices": [0, 4, 8, 16]}

REPAIR = {"title": "repair time", "choices": ["6 h", "2 d"]}

SCALE = {"title": "GPUs", "range": {"min": 1000, "max": 16000, "step": 2, "scale": "log"}}

NOISE = common_noise(24, 0.01)


def line(slope: float, start: float = 0.9) -> Any:
    """Return a metric that is a line of the spares, with noise that all points have in common."""
    return lambda where: {"ettr": start + slope * where["spares"] + NOISE}


def test_a_threshold_is_where_the_line_passes_it() -> None:
    """0.9 + 0.004 s is 95 % at 12.5: of whole spares 13 are needed, and the interval is that of the mean over 0.004."""
    answer = ask(table_of({"spares": SPARES}, line(0.004)), use="threshold", at_least="95 %", along="spares")
    (found,) = answer.data["lines"][0]["crossings"]
    half = t_quantile(0.95, 23) * 0.01 / math.sqrt(24) / 0.004
    assert found["at"] == pytest.approx(12.5)
    assert found["at_ci95"] == pytest.approx([12.5 - half, 12.5 + half])
    assert (found["between"], found["begins"]) == (["8", "16"], True)
    words, rows = worded(table_of({"spares": SPARES}, line(0.004)), use="threshold", at_least="95 %", along="spares")
    assert "9 to 16 hot spares (about 13" in words
    assert rows == [["from 13", "12 to 14", "16"]]
    wide = table_of({"spares": SPARES}, lambda where: {"ettr": 0.9 + 0.004 * where["spares"] + 9 * NOISE})
    words, rows = worded(wide, use="threshold", at_least="95 %", along="spares")
    assert "no evaluated value is clear of the bound" in words
    assert rows[0][-1] == "nowhere"


def test_a_condition_may_hold_up_to_a_place() -> None:
    """The longer the repair the worse: it holds from the short end, and "at most" of a cost reads upside down."""
    table = table_of({"spares": SPARES}, lambda where: {"ettr": 0.99 - 0.004 * where["spares"] + NOISE})
    answer = ask(table, use="threshold", at_least=0.95, along="spares")
    assert worded(table, use="threshold", at_least=0.95, along="spares")[1] == [["up to 10", "8 to 11", "0 to 8"]]
    assert answer.data["lines"][0]["crossings"][0]["begins"] is False
    table = table_of({"spares": SPARES}, lambda where: {"cost": 100 - 4 * where["spares"] + NOISE}, metrics=("cost",))
    assert worded(table, use="threshold", at_most=80, along="spares")[1][0][0] == "from 5"


@cases(
    ("level", "holds", "words"),
    [("99 %", [False] * 4, "no evaluated value is enough"), ("80 %", [True] * 4, "any evaluated value is enough")],
)
def test_never_and_always_are_answers(level: str, holds: list[bool], words: str) -> None:
    """Where the value is not passed on the range, that is said instead of a crossing."""
    answer = ask(table_of({"spares": SPARES}, line(0.004)), use="threshold", at_least=level, along="spares")
    assert [point["holds"] for point in answer.data["lines"][0]["points"]] == holds
    assert answer.data["lines"][0]["crossings"] == []
    assert (
        words in worded(table_of({"spares": SPARES}, line(0.004)), use="threshold", at_least=level, along="spares")[0]
    )


def test_between_values_a_threshold_is_sought_on_the_scale_of_the_axis() -> None:
    """What falls by 2 points with each doubling passes 95 % half a doubling after 96 %: at the geometric mean."""
    table = table_of({"gpus": SCALE}, lambda where: {"ettr": 1 - 0.02 * math.log2(where["gpus"] / 1000) + NOISE})
    answer = ask(table, use="threshold", at_least=0.95, along="gpus")
    assert answer.data["lines"][0]["crossings"][0]["at"] == pytest.approx(1000 * 2**2.5)
    listed = {**SCALE, "range": None, "choices": [1000, 2000, 4000, 16000]}
    assert is_log(table_of({"gpus": listed}, lambda where: {"ettr": [1.0]}), "gpus")
    assert not is_log(table_of({"spares": {"choices": [1, 2, 3, 4]}}, lambda where: {"ettr": [1.0]}), "spares")


@cases(
    ("path", "rate"), [("failures.0.scale", lambda x: 1e-5 + 3e-5 * x), ("failures.0.law.mean", lambda x: 1e-5 + 1 / x)]
)
def test_a_threshold_of_failures_is_an_mtti_and_an_mtbf(path: str, rate: Any) -> None:
    """The rate of a job is a straight line in a cause's rate: the MTTI at 95 % is its inverse, MTBF times units."""
    axis = {"path": path, "choices": [1, 2, 3, 4]}
    table = table_of({"rate": axis}, lambda where: {"ettr": 0.93 + 0.01 * where["rate"] + NOISE / 100})
    for number, x in enumerate((1, 2, 3, 4)):
        table = broken(table, number, job_rate=JobRate(rate(x), 8192, 1024))
    (found,) = ask(table, use="threshold", at_least=0.955, along="rate").data["lines"][0]["crossings"]
    mtti = 1 / rate(2.5)
    assert found["at"] == pytest.approx(2.5)
    shown = {key: found[key] for key in ("mtti_s", "mtbf_gpu_s", "mtbf_node_s")}
    assert shown == pytest.approx({"mtti_s": mtti, "mtbf_gpu_s": 8192 * mtti, "mtbf_node_s": 1024 * mtti})
    _, rows = worded(table, use="threshold", at_least=0.955, along="rate")
    assert rows[0][-2:] == [f"{float(f'{units * mtti / 3600:.3g}'):,g} h" for units in (8192, 1024)]
    other = broken(table, 2, job_rate=JobRate(rate(3), 4096, 512))
    assert "mtti_s" not in ask(other, use="threshold", at_least=0.955, along="rate").data["lines"][0]["crossings"][0]


def test_every_combination_of_the_others_has_its_own_threshold() -> None:
    """A slower repair moves what is needed; times are told as times."""
    table = table_of(
        {"spares": SPARES, "repair": REPAIR},
        lambda where: {"ettr": 0.9 + 0.004 * where["spares"] - 0.008 * (where["repair"] > 86400) + NOISE},
    )
    answer = ask(table, use="threshold", at_least=0.95, along="spares")
    assert [found["at"] for found in answer.data["lines"]] == [{"repair": "6 h"}, {"repair": "2 d"}]
    assert [found["crossings"][0]["at"] for found in answer.data["lines"]] == pytest.approx([12.5, 14.5])
    words, rows = worded(table, use="threshold", at_least=0.96, along="repair")
    assert ["16", "up to 27.0 hours"] in [row[:2] for row in rows]
    assert rows[0][0] == "16"
    assert words.startswith(
        "For the useful share of the time (ETTR) to be at least 96 %, with 16 hot spares, repair time"
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
    (found,) = ask(table, use="threshold", at_least=0.95, along="spares").data["lines"]
    assert found["points"][-1]["mean_ci95"][0] == pytest.approx(0.025 ** (1 / 40))
    assert [point["holds_with_certainty"] for point in found["points"]] == [False] * 4
    (found,) = ask(table, use="threshold", at_least=0.9, along="spares").data["lines"]
    assert [point["holds_with_certainty"] for point in found["points"]] == [False, False, True, True]


def test_unknown_inputs_move_a_threshold_within_the_band_of_their_distribution() -> None:
    """1 - r u is 95 % at r = 0.05 / u: between 0.05 / 1.18 and 0.05 / 0.82 for 9 in 10 of all u between 0.8 and 1.2."""
    axes = {
        "rate": {"range": {"min": 0.02, "max": 0.1, "points": 17}},
        "factor": {"distribution": {"use": "uniform", "min": 0.8, "max": 1.2}},
    }
    table = table_of(
        axes, lambda where: {"ettr": 1 - where["rate"] * where["factor"] + NOISE / 100}, design={"draws": 40}
    )
    (found,) = ask(table, use="threshold", at_least=0.95, along="rate").data["lines"]
    assert found["crossings"][0]["band90"] == pytest.approx([0.05 / 1.18, 0.05 / 0.82], rel=0.02)
    unsure = ask(table, use="threshold", at_least=0.95, along="rate", over="parameters").data["lines"][0]["points"]
    # Sure of the noise to 0.05, sure of the input as well only to 0.05 / 1.18 = 0.0424.
    assert max(point["number"] for point in found["points"] if point["holds_with_certainty"]) == pytest.approx(0.045)
    assert max(point["number"] for point in unsure if point["holds_with_certainty"]) == pytest.approx(0.0400)


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
    answer = ask(table, use="threshold", at_most="30 d", along="spares")
    assert answer.data["lines"][0]["crossings"][0]["at"] == pytest.approx(10)
    assert answer.data["lines"][0]["without_mean"] == {
        "0": "no room for the job",
        "4": "a job was not finished in 1 replication",
    }


def test_the_best_is_named_with_those_that_may_be() -> None:
    """Of three that differ by far more, and far less, than their noise one is out and one may be the best too."""
    rng = np.random.default_rng(2)
    own = {"a": 0.0, "b": 1e-5, "c": 0.05}
    rows = {name: 0.9 - lag + NOISE + 0.001 * rng.normal(size=24) * (name == "b") for name, lag in own.items()}
    table = table_of({"way": {"choices": ["a", "b", "c"]}}, lambda where: {"ettr": rows[where["way"]]})
    (found,) = ask(table, use="best").data["groups"]
    assert {found["best"]["way"], *(rival["way"] for rival in found["may_be_best"])} == {"a", "b"}
    assert found["order"][-1]["behind"] == pytest.approx(0.05, abs=1e-3)
    lowest = ask(table, use="best", direction="lowest")
    assert lowest.data["groups"][0]["best"] == {"way": "c"}
    words, _ = worded(table, use="best", direction="lowest")
    assert "85.0 % (84.6 to 85.4)" in words
    assert "“c”: " in words
    assert "too close" not in words


def test_a_best_is_sought_for_each_value_of_an_axis() -> None:
    """Where the best of one axis hangs on another, each value of the other has its own."""
    table = table_of(
        {"spares": SPARES, "repair": REPAIR},
        lambda where: {"ettr": 0.9 + 0.001 * where["spares"] * (1 if where["repair"] > 86400 else -1) + NOISE},
    )
    groups = ask(table, use="best", for_each=("repair",)).data["groups"]
    assert [(group["at"]["repair"], group["best"]["spares"]) for group in groups] == [("6 h", "0"), ("2 d", "16")]


def test_a_comparison_is_paired() -> None:
    """Noise of 1 point that both have in common leaves a difference of 0.4 percentage points without doubt."""
    answer = ask(table_of({"spares": SPARES}, line(0.001)), use="compare", axis="spares", against="4")
    found = answer.data["lines"][0]["differences"]
    assert list(found) == ["0", "8", "16"]
    assert found["8"]["mean"] == pytest.approx(0.004)
    assert found["8"]["ci95"] is None, "it is the same in all replications"
    _, rows = worded(table_of({"spares": SPARES}, line(0.001)), use="compare", axis="spares", against="4")
    assert rows == [
        ["0", "−0.400 percentage points", "clear"],
        ["8", "+0.400 percentage points", "clear"],
        ["16", "+1.20 percentage points", "clear"],
    ]


def test_what_is_not_resolved_says_how_many_more_replications_would() -> None:
    """A difference of d with a spread of s takes the n with t s / sqrt(n) < d: 1 with a spread of 4 takes 64 in all."""
    other = common_noise(24, 0.004, seed=9)
    table = table_of(
        {"way": {"choices": ["a", "b", "c"]}},
        lambda where: {"ettr": 0.9 + NOISE + (0.001 + other) * (where["way"] == "b")},
    )
    needed = next(n for n in range(2, 1000) if t_quantile(0.95, n - 1) * 4 / math.sqrt(n) < 1)
    answer = ask(table, use="compare", axis="way")
    assert answer.data["lines"][0]["differences"]["b"]["replications_to_resolve"] == needed
    _, rows = worded(table, use="compare", axis="way")
    assert [row[-1] for row in rows] == [
        f"too close to call (about {needed} replications needed)",
        "the same in every run",
    ]


def test_a_difference_that_sampling_error_hides_is_told_without_it() -> None:
    """A difference of 0.1 percentage points in 1 point of known noise is not resolved, and is with it taken out."""
    noise, rest = common_noise(24, 0.005, seed=21), common_noise(24, 1e-5, seed=22)
    table = table_of(
        {"way": {"choices": ["a", "b"]}},
        lambda where: {"ettr": 0.9 + (0.001 + 2 * noise + rest) * (where["way"] == "b")},
    )
    for number in (0, 1):
        table = broken(table, number, controls=[(value, 0.0, 1.0, 1.0) for value in noise])
    found = ask(table, use="compare", axis="way").data["lines"][0]["differences"]["b"]
    assert not found["resolved"]
    assert found["controlled"]["mean"] == pytest.approx(0.001, rel=0.05)
    assert found["controlled"]["ci95"][0] > 0


def test_a_trend_tells_from_where_to_where_and_the_largest_step() -> None:
    """0.9 + 0.001 s rises all the way, most from 8 to 16; a hill turns at its top."""
    answer = ask(table_of({"spares": SPARES}, line(0.001)), use="trend", along="spares")
    (found,) = answer.data["lines"]
    assert found["whole"]["difference"]["mean"] == pytest.approx(0.016)
    assert found["course"] == "rises"
    words, rows = worded(table_of({"spares": SPARES}, line(0.001)), use="trend", along="spares")
    assert "rises by 1.6" in words
    assert rows == [
        ["90.0 % at 0", "91.6 % at 16", "+1.60 percentage points", "8 to 16: +0.800 percentage points", "rises"]
    ]
    hill = table_of({"spares": SPARES}, lambda where: {"ettr": 0.9 - 0.001 * (where["spares"] - 8) ** 2 + NOISE})
    answer = ask(hill, use="trend", along="spares")
    assert answer.data["lines"][0]["course"] == "turns"
    words, _ = worded(hill, use="trend", along="spares")
    assert words.startswith(
        "From 0 to 8 hot spares the useful share of the time (ETTR) rises by 6.40 percentage points"
    )
    assert words.endswith("from there to 16 it falls by 6.40 percentage points.")


def test_a_trend_from_all_points_sees_what_its_ends_hide() -> None:
    """Both ends are alike, and what happens between them is told."""
    own = {0.0: 0.02, 4.0: -0.02, 8.0: 0.0, 16.0: 0.021}
    table = table_of({"spares": SPARES}, lambda where: {"ettr": 0.8 + own[where["spares"]] + NOISE})
    words, _ = worded(table, use="trend", along="spares")
    assert "falls by 4 percentage points, from there to 16 it rises by 4.10 percentage points" in words


WAYS = {"a": 0.0, "b": 0.0004, "c": 0.004}


def test_what_is_too_small_to_matter_is_equal() -> None:
    """A rival 0.04 points behind in every run is equal to the best, although it is clearly behind; 0.4 are not."""
    table = table_of({"way": {"choices": ["a", "b", "c"]}}, lambda where: {"ettr": 0.9 - WAYS[where["way"]] + NOISE})
    words, rows = worded(table, use="best")
    assert words.endswith("; equal within 0.1 percentage points: “b”.")
    assert [row[-1] for row in rows] == ["the best", "equal", "behind"]
    assert worded(table, use="compare", axis="way")[0].endswith("is equal within 0.1 percentage points with way “b”.")


def test_a_choice_is_compared_at_its_own_best() -> None:
    """With repairs of 6 h no spares are best, with 2 d the most: what a repair is worth is the difference of these."""
    table = table_of(
        {"spares": SPARES, "repair": REPAIR},
        lambda where: {"ettr": 0.9 + 0.001 * where["spares"] * (1 if where["repair"] > 86400 else -1) + NOISE},
    )
    (found,) = ask(table, use="compare", axis="repair", at_best=True).data["lines"]
    assert [found["best_at"][label]["spares"] for label in ("6 h", "2 d")] == ["0", "16"]
    assert found["differences"]["2 d"]["mean"] == pytest.approx(0.016)
    words, _ = worded(table, use="compare", axis="repair", at_best=True)
    assert words.startswith("Compared with repair time 6 h, each at its best hot spares, ")


@cases(
    ("question", "clauses"),
    [
        ("How many spares?", 1),
        ("How often should it be saved, and what is a copy in memory worth?", 2),
        ("Which strategy is best at 2,048 GPUs, and which at 131,072?", 2),
        ("What is lost to queues and failures, and does the order of ranks matter?", 2),
    ],
)
def test_a_question_has_clauses(question: str, clauses: int) -> None:
    """A clause begins at an "and" before a word that asks; a list of nouns makes none."""
    assert len(clauses_of(question)) == clauses


def test_noise_is_not_told_as_a_turn() -> None:
    """A step against the trend that its own noise explains leaves the course as it is."""
    own = {0.0: 0.0, 4.0: 0.05, 8.0: 0.0499, 16.0: 0.1}
    extra = common_noise(24, 0.01, seed=4)
    table = table_of(
        {"spares": SPARES},
        lambda where: {"ettr": 0.8 + own[where["spares"]] + NOISE + extra * (where["spares"] == 8)},
    )
    assert ask(table, use="trend", along="spares").data["lines"][0]["course"] == "rises"


def test_a_crossover_is_where_two_lines_meet() -> None:
    """0.97 - 0.03 g and 0.94 - 0.015 g, g doublings of 1,000, meet after two: at 4,000, exactly on common failures."""
    lines = {"restart": (0.97, 0.03), "elastic": (0.935, 0.015)}

    def ettr(where: dict[str, Any]) -> dict[str, Any]:
        start, slope = lines[where["way"]]
        return {"ettr": start - slope * math.log2(where["gpus"] / 1000) + NOISE}

    table = table_of({"way": {"choices": ["restart", "elastic"]}, "gpus": SCALE}, ettr)
    answer = ask(table, use="crossover", between="way", along="gpus")
    (found,) = answer.data["lines"][0]["crossings"]
    place = 1000 * 2 ** (0.035 / 0.015)
    assert (found["from"], found["to"], found["between"]) == ("restart", "elastic", ["4000", "8000"])
    assert found["at"] == pytest.approx(place)
    assert found["at_ci95"] == pytest.approx([place, place])
    assert [stage["best"] for stage in answer.data["lines"][0]["best"]] == ["restart"] * 3 + ["elastic"] * 2
    words, _ = worded(table, use="crossover", between="way", along="gpus")
    assert words.startswith("“restart” has the highest")
    assert "from GPUs 1,000 to 4,000, then “elastic” from GPUs 8,000 to 16,000" in words
    low, high = (place * 2 ** (side * 0.001 / 0.015) for side in (-1, 1))
    assert found["equal"] == pytest.approx([low, high])
    assert words.endswith("the best changes at about GPUs 4,810 to 5,280.")


def test_no_crossover_is_an_answer() -> None:
    """Lines that do not meet on the range leave the same choice best at every value."""
    table = table_of(
        {"way": {"choices": ["a", "b"]}, "gpus": SCALE},
        lambda where: {"cost": 1 + (where["way"] == "b") + NOISE},
        metrics=("cost",),
    )
    answer = ask(table, use="crossover", between="way", along="gpus")
    assert answer.data["lines"][0]["crossings"] == []
    words, _ = worded(table, use="crossover", between="way", along="gpus")
    assert words.startswith("“a” has the lowest cost per run from GPUs 1,000 to 16,000")
    assert "“b”" not in words


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
    found = ask(table, use="pareto", metrics=("ettr", "cost")).data["front"]
    free = {
        f"w{index}"
        for index, (ettr, cost) in enumerate(aims)
        if not any(other[0] >= ettr and other[1] <= cost and tuple(other) != (ettr, cost) for other in aims)
    }
    assert {entry["at"]["way"] for entry in found} == free
    assert all(entry["certain"] for entry in found)
    worst = ask(table, use="pareto", metrics=("ettr", "cost"), direction={"ettr": "lowest", "cost": "highest"})
    assert {entry["at"]["way"] for entry in worst.data["front"]}.isdisjoint(free)


def test_a_place_on_the_front_may_be_noise() -> None:
    """Two points that differ by less than their noise: neither is on the front for sure, and the second may be too."""
    own = {0: common_noise(24, 0.01, seed=1), 4: common_noise(24, 0.01, seed=2), 16: NOISE}
    table = table_of(
        {"spares": {"choices": [0, 4, 16]}},
        lambda where: {"ettr": {0: 0.9, 4: 0.8999, 16: 0.95}[where["spares"]] + own[where["spares"]]},
    )
    answer = ask(table, use="pareto", metrics=("ettr",), axes=("spares",))
    assert [(entry["spares"], entry["certain"]) for entry in answer.data["front"]] == [(16, True), (0, True)]
    assert [entry["spares"] for entry in answer.data["may_be_too"] if entry["at"]["spares"] == "4"] == [4]
    both = ask(table, use="pareto", metrics=("ettr",), axes=("spares",), direction={"spares": "highest"})
    assert [entry["spares"] for entry in both.data["front"]] == [16]


def test_sensitivity_ranks_the_axes_by_what_each_alone_does() -> None:
    """In a - 3 x + y, x and y from -1 to 1, x moves the metric by 6 and y by 2."""
    axes = {"x": {"range": {"min": -1.0, "max": 1.0}}, "y": {"range": {"min": -1.0, "max": 1.0}}}

    def linear(where: dict[str, Any]) -> dict[str, Any]:
        return {"cost": 10 - 3 * where["x"] + where["y"] + NOISE}

    answer = ask(table_of(axes, linear, design={"use": "one-at-a-time"}, metrics=("cost",)), use="sensitivity")
    assert [(row["axis"], row["swing"]) for row in answer.data["axes"]] == [
        ("x", pytest.approx(6)),
        ("y", pytest.approx(2)),
    ]
    answer = ask(
        table_of(axes, linear, design={"use": "saltelli", "samples": 64}, metrics=("cost",)), use="sensitivity"
    )
    # Var(3 x) is nine times Var(y).
    assert answer.data["axes"][0]["total"]["value"] == pytest.approx(0.9, abs=0.05)
    assert answer.data["kind"] == "sobol"
    grid = {name: {"choices": [0.0, 1.0]} for name in ("x", "y")}
    assert "use one-at-a-time or saltelli" in ask(table_of(grid, linear, metrics=("cost",)), use="sensitivity").silence


@cases(
    ("question", "at", "rule"),
    [
        (
            {"use": "threshold", "at_least": 0.9, "along": "spare"},
            "along",
            "unknown axis 'spare'; did you mean 'spares'?",
        ),
        ({"use": "threshold", "at_least": 0.9, "along": "way"}, "along", "the values of way are not numbers"),
        ({"use": "threshold", "at_least": 0.9, "along": "factor"}, "along", "the values of factor are not chosen"),
        ({"use": "threshold", "at_least": "30 d", "along": "spares"}, "at_least", "is a unit of time, not of fraction"),
        ({"use": "threshold", "at_least": 95, "along": "spares"}, "at_least", "did you mean '95 %'?"),
        ({"use": "threshold", "metric": "time_to_work", "at_most": 30, "along": "spares"}, "at_most", "needs a unit"),
        ({"use": "threshold", "metric": "cost", "at_most": "3 d", "along": "spares"}, "at_most", "must be a number"),
        ({"use": "trend", "along": "wy"}, "along", "did you mean 'way'?"),
        ({"use": "best", "for_each": ["ways"]}, "for_each", "did you mean 'way'?"),
        ({"use": "compare", "axis": "way", "against": "c"}, "against", "unknown value 'c' of way"),
        ({"use": "crossover", "between": "spares", "along": "spares"}, "along", "is the axis of choices too"),
        ({"use": "pareto", "metrics": ["spares", "ettr"]}, "metrics", "spares is an axis: name it under axes"),
        ({"use": "pareto", "metrics": ["ettr"], "axes": ["way"]}, "axes", "the values of way are not numbers"),
    ],
)
def test_a_question_that_the_axes_cannot_answer_is_refused_at_its_key(question: Any, at: str, rule: str) -> None:
    """The place is the key, and the rule has the nearest valid name."""
    axes = {
        "spares": SPARES,
        "way": {"choices": ["a", "b"]},
        "factor": {"distribution": {"use": "uniform", "min": 0.8, "max": 1.2}},
    }
    with pytest.raises(RuleError) as caught:
        ask(table_of(axes, lambda where: {"ettr": NOISE}), **question)
    assert caught.value.at == (at,)
    assert rule in str(caught.value)


def test_nothing_unknown_is_no_threshold_over_parameters() -> None:
    """Where no axis has a distribution there is no band to be clear of."""
    with pytest.raises(RuleError, match="no axis has a distribution"):
        ask(table_of({"spares": SPARES}, line(1)), use="threshold", at_least=0.9, along="spares", over="parameters")


@cases(
    ("question", "rule"),
    [
        ({"use": "threshold", "along": "spares"}, "give at_least or at_most, one of them"),
        ({"use": "threshold", "along": "spares", "at_least": 1, "at_most": 1}, "give at_least or at_most, one of them"),
        ({"use": "pareto", "metrics": ["ettr"]}, "give two or three aims, each once"),
        ({"use": "pareto", "metrics": ["ettr", "ettr"]}, "give two or three aims, each once"),
        ({"use": "pareto", "metrics": ["ettr", "cost"], "direction": {"cots": "lowest"}}, "did you mean 'cost'?"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(question: Any, rule: str) -> None:
    """Whatever the axes are."""
    with pytest.raises(ValidationError) as caught:
        QUESTIONS[question["use"]].model_validate(question)
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
    worded = {"metrics": [metric]} if kind == "pareto" else {"metric": metric}
    return {"use": kind, **KEYS[kind], **worded}


@cases("kind", QUESTIONS)
def test_a_metric_that_is_not_there_is_told_with_the_nearest(kind: str) -> None:
    """Every kind of question says it in one sentence, and no kind fails on a table without results."""
    axes = {"spares": SPARES, "way": {"choices": ["a", "b"]}}
    table = table_of(axes, lambda where: {"ettr": 0.9 + NOISE})
    sentence = ask(table, **with_metric(kind, "etr")).silence
    assert sentence.startswith("There is no metric etr; did you mean 'ettr'?")
    sentence = ask(table, **with_metric(kind, "goodput")).silence
    assert sentence == "No point has the metric goodput: the scenario does not say what it takes."
    nothing = table_of(axes, lambda where: {})
    assert ask(nothing, **with_metric(kind, "ettr")).silence == "No point has results."


@cases("kind", QUESTIONS)
@cases("design", ["one-at-a-time", "latin-hypercube", "grid"])
def test_every_question_has_an_answer_of_any_design(kind: str, design: str) -> None:
    """With holes, ties, a single replication and unknown inputs: sentences and plain data, never an error or NaN."""
    axes = {
        "spares": SPARES,
        "way": {"choices": ["a", "b"]},
        "factor": {"distribution": {"use": "between", "p05": 0.5, "p95": 2.0}},
    }
    stated = {"use": design, **({"samples": 8} if design == "latin-hypercube" else {})}
    for count in (1, 24):
        table = table_of(
            axes,
            lambda where, count=count: (
                {} if where["spares"] == 16 and where["way"] == "b" else {"ettr": 0.9 + 0 * NOISE[:count]}
            ),
            design=stated,
        )
        words, rows = worded(table, **with_metric(kind, "ettr"))
        assert words.endswith(".")
        assert not re.search(r"\b(nan|inf|None)\b", f"{words} {rows}")


def test_the_page_has_every_question_with_every_key() -> None:
    """Each kind has a section, in which a table has a row for each key but `ask`, and no other."""
    text = (Path(__file__).parents[2] / "docs" / "reference" / "questions.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(sections) == list(QUESTIONS)
    for kind, question in QUESTIONS.items():
        keys = {field.alias or name for name, field in question.model_fields.items()} - {"use"}
        assert set(re.findall(r"^\| `(\w+)` \|", sections[kind], re.MULTILINE)) == keys
        assert "\n> " in sections[kind]


# ----------------------------------------
# Where a curve crosses a level: exact on straight lines, and its interval covers as often as it says.

_TRIALS = 1000

_LEAST_COVERAGE = 0.95 - 3 * math.sqrt(0.95 * 0.05 / _TRIALS)


def test_a_straight_line_is_crossed_where_algebra_says() -> None:
    """``1 + 2 x = 4`` at 3/2; on a log scale ``1 + 2 ln x`` has 4 at e^(3/2)."""
    (crossing,) = Curve((0.0, 1.0, 2.0), (1.0, 3.0, 5.0), (None,) * 3).crossings(4.0)
    assert crossing.at == pytest.approx(1.5)
    assert (crossing.before, crossing.rises) == (1, True)
    places = (1.0, 2.0, 8.0)
    (crossing,) = Curve(places, tuple(1 + 2 * math.log(x) for x in places), (None,) * 3, is_log=True).crossings(4.0)
    assert crossing.at == pytest.approx(math.exp(1.5))


@cases("sign", [1.0, -1.0])
def test_the_interval_is_where_the_band_around_the_line_has_the_level(sign: float) -> None:
    """A band of half-width h around a slope b moves a crossing by h / b to either side, whichever way it runs."""
    places = (0.0, 1.0, 2.0, 3.0)
    means = tuple(sign * 2 * x for x in places)
    curve = Curve(places, means, tuple((mean - 0.5, mean + 0.5) for mean in means))
    (crossing,) = curve.crossings(sign * 2.6)
    assert (crossing.low, crossing.at, crossing.high) == pytest.approx((1.05, 1.3, 1.55))
    assert crossing.rises == (sign > 0)


def test_an_end_beyond_the_range_is_not_made_up() -> None:
    """Where the band still has the level in it at the last value, nobody knows how far the interval goes."""
    (crossing,) = Curve((0.0, 1.0), (0.0, 1.0), ((-0.6, 0.6), (0.4, 1.6))).crossings(0.5)
    assert (crossing.low, crossing.high) == (None, None)
    (crossing,) = Curve((0.0, 1.0), (0.0, 1.0), ((-0.2, 0.2), (0.4, 1.6))).crossings(0.5)
    assert crossing.low == pytest.approx(0.3 / 1.4)
    assert crossing.high is None


def test_every_crossing_of_a_hill_is_found() -> None:
    """A curve that goes up and down passes a level twice; one that stays on a side never does."""
    hill = Curve((0.0, 1.0, 2.0), (0.0, 2.0, 0.0), (None,) * 3)
    assert [(crossing.at, crossing.rises) for crossing in hill.crossings(1.0)] == [(0.5, True), (1.5, False)]
    assert hill.crossings(3.0) == hill.crossings(-1.0) == []


def test_the_interval_of_a_crossing_covers_it_at_95_percent() -> None:
    """Of a line measured with ten normal replications at each of five values, whether they are common or not."""
    rng = np.random.default_rng(11)
    places = np.arange(5.0)
    for common in (0.0, 0.4):
        covered = 0
        for _ in range(_TRIALS):
            noise = common * rng.normal(size=10) + 0.4 * rng.normal(size=(5, 10))
            rows = places[:, None] + noise
            curve = Curve(tuple(places), tuple(rows.mean(axis=1)), tuple(mean_interval(row) for row in rows))
            crossing = curve.crossings(2.3)[0]
            low = -math.inf if crossing.low is None else crossing.low
            high = math.inf if crossing.high is None else crossing.high
            covered += low <= 2.3 <= high
        assert covered / _TRIALS >= _LEAST_COVERAGE
        assert covered < _TRIALS  # an interval that is never wrong says nothing


@cases("half", [0.0031, 0.0099, 0.011, 0.029, 0.03, 0.4, 7.0, 123.0, 2900.0])
def test_what_is_told_of_an_interval_is_off_by_a_sixth_of_its_half_width_at_most(half: float) -> None:
    """Digits go as far as the interval deserves: rounding moves no end by more, and adds less than two digits."""
    form = NumberFormat("")
    for middle in np.random.default_rng(3).uniform(0, 1000 * half, 50).tolist():
        text = form.value(middle, (middle - half, middle + half))
        worded = [float(part.replace(",", "").replace("−", "-")) for part in re.findall(r"[−\d.,]+", text)]
        assert all(
            abs(number - truth) <= half / 6 * (1 + 1e-9)
            for number, truth in zip(worded, (middle, middle - half, middle + half), strict=True)
        )
        place = 10 ** math.floor(math.log10(half) - 1)
        assert all(abs(number / place - round(number / place)) < 1e-6 for number in worded)


@cases(
    ("metric", "value", "interval", "text"),
    [
        ("p_finish_by", 0.96, (0.90, 0.99), "96 % (90 to 99)"),
        ("ettr", 0.9421, (0.9398, 0.9444), "94.21 % (93.98 to 94.44)"),
        ("ettr", 0.999, (0.97, 1.028), "99.9 % (97.0 to 100.0)"),
        ("time_to_work", 2.6e6, (2.5e6, 2.7e6), "30.1 d (28.9 to 31.2)"),
        ("mtti", 10500.0, (9000.0, 12000.0), "2.9 h (2.5 to 3.3)"),
        ("tokens_per_day", 1.234e12, (1.2e12, 1.27e12), "1.23 T (1.20 to 1.27)"),
        ("cost_per_token", 1.234e-6, (1.1e-6, 1.4e-6), "1.23 USD (1.10 to 1.40)"),
        ("cost", 12.3e6, None, "12.3 M USD"),
        ("energy", 7.2e12, None, "2,000 MWh"),
        ("energy", 7.2e8, None, "0.200 MWh"),
        ("energy_per_token", 3.6, None, "1.00 kWh"),
        ("energy_per_token", 0.036, None, "0.0100 kWh"),
        ("carbon", 5.25e6, None, "5,250 t"),
        ("interruptions", 419.0, (411.0, 427.0), "419 (411 to 427)"),
        ("time_shares.lost_work", 0.0123, None, "1.23 %"),
    ],
)
def test_numbers_have_units_for_people(
    metric: str, value: float, interval: tuple[float, float] | None, text: str
) -> None:
    """Shares in percent and never above 100, times in days or hours, amounts with a prefix, money per million."""
    assert form_of(metric, [value], "USD").value(value, interval) == text


# ----------------------------------------
# Windows, plateaus, and reasons: what a question says of a curve that is not simply passed.

EVERY = {"title": "interval", "choices": ["15 min", "30 min", "1 h", "2 h"]}


def test_a_rise_and_a_fall_are_one_window() -> None:
    """0.92, 0.97, 0.97, 0.92 is at least 0.95 from 60 % of the first step to 40 % of the last: one part."""
    course = {900.0: 0.92, 1800.0: 0.97, 3600.0: 0.97, 7200.0: 0.92}
    table = table_of({"every": EVERY}, lambda where: {"ettr": course[where["every"]] + NOISE / 100})
    _, rows = worded(table, use="threshold", at_least="95 %", along="every")
    # 15 min * 2^0.6 and 1 h * 2^0.4
    assert rows[0][0].startswith("from 22.7 minutes to 1.3")


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
    words, rows = worded(table, use="threshold", at_least="95 %", along="spares")
    # 12.5 + repair / 1 d whole spares; with 90 d never.
    assert [row[:2] for row in rows] == [
        ["6 h", "from 13"], ["1 d", "from 14"], ["2 d", "from 15"], ["90 d", "no evaluated value"],
    ]  # fmt: skip
    assert words.index("repair 6 h") < words.index("repair 90 d, no evaluated value")
    everywhere, _ = worded(table, use="threshold", at_least="10 %", along="spares")
    assert "any evaluated value is enough" in everywhere


def test_a_plateau_is_no_peak() -> None:
    """Of 2, 3, 3, 3 the highest is no place, and of the fall after equal values only the fall is told."""
    course = {0: 0.90, 4: 0.95, 8: 0.95, 16: 0.93}
    table = table_of({"spares": SPARES}, lambda where: {"ettr": course[where["spares"]] + NOISE})
    assert ask(table, use="trend", along="spares").data["lines"][0]["course"] == "turns"
    course = {0: 0.95, 4: 0.95, 8: 0.95, 16: 0.93}
    extra = {place: common_noise(24, 1e-3, seed=place) for place in course}
    table = table_of(
        {"spares": SPARES}, lambda where: {"ettr": course[where["spares"]] + NOISE + extra[int(where["spares"])]}
    )
    answer = ask(table, use="trend", along="spares")
    assert answer.data["lines"][0]["course"] == "falls"
    assert worded(table, use="trend", along="spares")[1][0][-2].startswith("8 to 16: −2.00 percentage points")


def test_a_slope_of_small_steps_is_no_plateau() -> None:
    """Steps of which none is resolved may be a rise that is: neighbours alone do not make a plateau."""
    places = list(range(10))
    extra = {place: common_noise(24, 0.004, seed=place + 50) for place in places}
    table = table_of(
        {"spares": {"choices": places}},
        lambda where: {"ettr": 0.9 + 0.0009 * where["spares"] + NOISE + extra[int(where["spares"])]},
    )
    (found,) = ask(table, use="trend", along="spares").data["lines"]
    assert not any(step["difference"]["resolved"] for step in found["steps"])
    assert found["course"] == "rises"


def test_what_cannot_be_compared_says_why() -> None:
    """A cell that cannot run has its trouble in the answer, also if it is the one to compare with."""
    table = table_of(
        {"way": {"choices": ["a", "b"]}}, lambda where: {} if where["way"] == "b" else {"ettr": 0.9 + NOISE}
    )
    assert worded(table, use="compare", axis="way")[0] == "way = b: no ETTR (no room for the job)."
    three = table_of(
        {"way": {"choices": ["a", "b", "c"]}}, lambda where: {} if where["way"] == "b" else {"ettr": 0.9 + NOISE}
    )
    assert ["b", "no mean", "cannot run"] in worded(three, use="compare", axis="way")[1]
    assert (
        worded(three, use="compare", axis="way", against="b")[0]
        == "way = b has no ETTR to compare with: no room for the job."
    )


# ----------------------------------------
# Who is best along an axis rests on all candidates together, and what is not resolved is not asserted.

PLACES = (1000, 2000, 4000, 8000)


def contest(own: dict[str, tuple[float, ...]], noise: float = 0.0, noisy: dict[str, float] | None = None) -> StudyTable:
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


def crossover(table: StudyTable) -> Answer:
    """Return who is best along the places."""
    return ask(table, use="crossover", between="way", along="gpus")


def words_of(table: StudyTable) -> str:
    """Return the same in words."""
    return worded(table, use="crossover", between="way", along="gpus")[0]


def test_a_third_that_is_noisier_may_be_best_too() -> None:
    """The first is 1 point ahead of the second for sure, 2 ahead of one whose mean is known to 5 points: not resolved.

    `best` says so of the same data, at each value.
    """
    table = contest({"a": (0.03,) * 4, "b": (0.02,) * 4, "c": (0.01,) * 4}, noisy={"c": 0.12})
    answer = crossover(table)
    assert [stage["may_be_best"] for stage in answer.data["lines"][0]["best"]] == [["a", "c"]] * 4
    assert words_of(table).startswith("“a” or “c” has the highest useful share of the time (ETTR) (too close")
    assert answer.data["lines"][0]["crossings"] == []
    alone = ask(table, use="best", for_each=("gpus",)).data["groups"]
    assert [[rival["way"] for rival in group["may_be_best"]] for group in alone] == [["c"]] * 4


def test_who_may_be_best_is_who_may_be_best_by_the_other_question() -> None:
    """Of random contests, at every place: the same leader, the same rivals, the same distance to the second."""
    rng = np.random.default_rng(8)
    seen = set()
    for _ in range(5):
        table = contest({way: tuple(rng.uniform(0, 0.01, 4)) for way in "abcde"}, noise=0.006)
        groups = ask(table, use="best", for_each=("gpus",)).data["groups"]
        for stage, group in zip(crossover(table).data["lines"][0]["best"], groups, strict=True):
            rivals = [rival["way"] for rival in group["may_be_best"]]
            assert stage["may_be_best"] == [group["best"]["way"], *rivals]
            assert stage["ahead_of_second"]["mean"] == group["order"][1]["behind"]
            assert stage["ahead_of_second"]["ci95"] == group["order"][1]["behind_ci95"]
            seen.add(bool(rivals))
    assert seen == {True, False}


def test_a_crossover_is_asserted_between_values_where_both_leads_are_resolved() -> None:
    """Level within their noise at 4000 and not at 2000 and 8000: they cross between those two, and no value is sure."""
    table = contest({"a": (0.04, 0.02, 0.0, -0.02), "b": (0.02, 0.01, 0.00001, 0.01)}, noisy={"b": 1e-3})
    answer = crossover(table)
    (found,) = answer.data["lines"][0]["crossings"]
    assert (found["from"], found["to"], found["between"]) == ("a", "b", ["2000", "8000"])
    assert found["at_ci95"][0] < 4000 < found["at_ci95"][1]
    assert words_of(table).index("“a” has the highest") < words_of(table).index("then “b”")


def test_a_lead_that_is_lost_to_nobody_for_sure_is_no_crossover() -> None:
    """A second mean that is higher at one end by less than its noise does not take over: the two are equal there."""
    table = contest({"a": (0.04, 0.02, 0.01, 0.0), "b": (0.0, 0.0, 0.0, 0.0001)}, noisy={"b": 1e-3})
    answer = crossover(table)
    assert answer.data["lines"][0]["crossings"] == []
    assert words_of(table).endswith("“b” and “a” (equal) at GPUs 8,000.")


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


def test_those_that_are_the_same_are_best_together() -> None:
    """Equal in every replication up to 2000: neither is ahead there, and that is no doubt that replications resolve."""
    answer = crossover(contest({"a": (0.1,) * 4, "b": (0.1, 0.1, 0.0, 0.2)}))
    assert [stage["may_be_best"] for stage in answer.data["lines"][0]["best"]] == [["a", "b"]] * 2 + [["a"], ["b"]]
    (found,) = crossover(contest({"a": (0.1,) * 4, "b": (0.0, 0.1, 0.2, 0.2)})).data["lines"][0]["crossings"]
    assert found["at"] == pytest.approx(2000)


def test_the_direction_is_one_of_two() -> None:
    """A wrong one is refused with both, and with nothing else to choose from."""
    for question in ({"use": "best"}, {"use": "crossover", "between": "way", "along": "gpus"}):
        with pytest.raises(ValidationError) as caught:
            QUESTIONS[question["use"]].model_validate({**question, "direction": "up"})
        (error,) = caught.value.errors()
        assert error["ctx"]["expected"] == "'highest' or 'lowest'"


# ----------------------------------------
# Answers where points have unequal numbers of replications, as a precision leaves them; and the rule of the front.

MOST = 40

ASKED: dict[str, dict[str, Any]] = {
    "best": {},
    "compare": {"axis": "x"},
    "crossover": {"between": "y", "along": "x"},
    "pareto": {"metrics": ["ettr", "cost"]},
    "sensitivity": {},
    "threshold": {"along": "x", "at_least": "90 %"},
    "trend": {"along": "x"},
}

DESIGNS: dict[str, dict[str, Any]] = {
    "grid": {"use": "grid"},
    "one-at-a-time": {"use": "one-at-a-time"},
    "saltelli": {"use": "saltelli", "samples": 8},
}


def shorten(table: StudyTable, counts: list[int]) -> StudyTable:
    """Return a table of which each cell has its own number of replications, taken in turn from a list."""
    cells = []
    for place, cell in enumerate(table.cells):
        count = counts[place % len(counts)]
        metrics = {name: ratios[:count] for name, ratios in cell.stated.metrics.items()}
        cells.append(dataclasses.replace(cell, stated=dataclasses.replace(cell.stated, metrics=metrics)))
    return dataclasses.replace(table, cells=tuple(cells))


def noisy(design: dict[str, Any]) -> StudyTable:
    """Return a table of two metrics on two axes, each point with noise of its own."""
    rng = np.random.default_rng(11)

    def function(where: dict[str, Any]) -> dict[str, Any]:
        ettr = 0.88 + 0.01 * where["x"] + 0.005 * where["y"] + rng.normal(0, 0.004, MOST)
        return {"ettr": ettr.tolist(), "cost": (5 + where["y"] + rng.normal(0, 0.1, MOST)).tolist()}

    axes = {name: {"range": {"min": 1.0, "max": 3.0, "points": 3}} for name in ("x", "y")}
    return table_of(axes, function, design=design, metrics=("ettr", "cost"))


@cases("design", DESIGNS)
@cases("kind", QUESTIONS)
def test_every_question_is_answered_with_unequal_numbers(kind: str, design: str) -> None:
    """Cells that have more replications than others do not keep any question from its answer."""
    table = shorten(noisy(DESIGNS[design]), [12, MOST, 23])
    words, _ = worded(table, use=kind, **ASKED[kind])
    assert words.endswith(".")
    if kind == "pareto":
        assert ask(table, use=kind, **ASKED[kind]).data["replications"] == 12


@cases("design", ["one-at-a-time", "saltelli"])
def test_sensitivity_rests_on_the_common_replications(design: str) -> None:
    """What moves a metric is the same as if all points had stopped where the first one did."""
    table = noisy(DESIGNS[design])
    counts = [12, MOST] if design == "saltelli" else [12, *[MOST] * (len(table.cells) - 1)]
    unequal, cut = (ask(shorten(table, numbers), use="sensitivity").data for numbers in (counts, [12]))
    assert unequal["axes"] == cut["axes"]


def test_the_best_is_told_by_the_sample_that_ranks_it() -> None:
    """The first in order has the best of the means that are told, though all its replications would say otherwise."""
    rows = {0.0: [0.90, 0.92] * 6 + [0.5, 0.5], 1.0: [0.85, 0.86] * 6}
    table = table_of({"x": {"choices": [0.0, 1.0]}}, lambda where: {"ettr": rows[where["x"]], "cost": rows[where["x"]]})
    answer = ask(table, use="best")
    means = [row["mean"] for row in answer.data["groups"][0]["order"]]
    assert means == pytest.approx([0.91, 0.855])
    assert "91" in worded(table, use="best")[0]
    front = ask(table, use="pareto", metrics=["ettr", "cost"], direction={"cost": "highest"}).data["front"]
    assert [row["ettr"]["mean"] for row in front] == pytest.approx([0.91])


def test_a_crossover_never_has_a_first_that_is_behind() -> None:
    """Order and lead of the choices rest on the same replications."""
    rows = {"a": [0.90, 0.92] * 6 + [0.5, 0.5], "b": [0.85, 0.86] * 6}
    axes = {"who": {"choices": ["a", "b"]}, "x": {"choices": [1.0, 2.0]}}
    answer = ask(table_of(axes, lambda where: {"ettr": rows[where["who"]]}), use="crossover", between="who", along="x")
    for stage in answer.data["lines"][0]["best"]:
        assert stage["best"] == "a"
        assert stage["ahead_of_second"]["mean"] == pytest.approx(0.055)


def plain_front(aims: list[np.ndarray]) -> tuple[list[int], list[bool], list[int]]:
    """Return the front, who is on it for sure and who may be too, pair by pair as the rule says."""
    size = len(aims[0])
    pairs = size * (size - 1) // 2 * sum(aim.ndim > 1 for aim in aims)
    means = np.stack([aim if aim.ndim == 1 else aim.mean(axis=1) for aim in aims], axis=-1)
    below, same = np.zeros((2, size, size, len(aims)), dtype=bool)
    for place, aim in enumerate(aims):
        rows = aim[:, None] if aim.ndim == 1 else aim
        for ours in range(size):
            each = rows - rows[ours]
            half = 0.0
            if aim.ndim > 1:
                half = t_quantile(1 - 0.05 / pairs, rows.shape[1] - 1) * each.std(axis=1, ddof=1) / rows.shape[1] ** 0.5
            below[ours, :, place] = each.mean(axis=1) > half
            same[ours, :, place] = ~each.any(axis=1)
    ahead = np.array([(means <= row).all(axis=1) & (means < row).any(axis=1) for row in means])
    front = [row for row in np.lexsort(means.T[::-1]).tolist() if not ahead[row].any()]
    behind = (below | same).all(axis=2) & below.any(axis=2)
    sure = [bool(np.delete(below[row].any(axis=1), row).all()) for row in front]
    return front, sure, [row for row in range(size) if row not in front and not behind[:, row].any()]


@cases("seed", range(6))
def test_the_front_is_that_of_all_pairs(seed: int) -> None:
    """Comparisons that cannot matter are left out and change nothing: with ties, certain aims, much noise and none."""
    rng = np.random.default_rng(seed)
    size, count = int(rng.integers(2, 60)), int(rng.choice([3, 16, 64]))
    noise = rng.choice([0.0, 1e-4, 0.003, 0.05], size=size)[:, None] * rng.normal(0, 1, (2, size, count))
    first = 0.5 + rng.integers(0, 4, size)[:, None] / 64 + noise[0]
    second = (
        rng.integers(0, 6, size).astype(float) if seed % 2 else 100.0 + rng.integers(0, 4, size)[:, None] + noise[1]
    )
    found = front_of([first, second])
    assert (list(found.members), list(found.sure), list(found.maybe)) == plain_front([first, second])

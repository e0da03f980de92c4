"""What a search under budgets says: the sentence, tables and pictures, when nothing fits, and former documents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ettrick.analysis.page.chapters.optimum import against, format_optimum
from ettrick.analysis.page.chapters.search import (
    OptimumView,
    budget_picture,
    certainty,
    designs_table,
    funnel_picture,
    infeasible_table,
    neighbours_picture,
    nothing_fits,
)
from ettrick.analysis.page.charts import draw
from ettrick.analysis.page.model import plain
from ettrick.analysis.results.run import render
from ettrick.analysis.results.studies import OptimizeDocument
from tests.cases import cases
from tests.typed import PROVENANCE, present

if TYPE_CHECKING:
    from collections.abc import Sequence

TOKENS = "tokens_per_day"

AXES: dict[str, Any] = {
    "offer": {"title": "offer", "values": ["GB200 NVL72", "H100 HGX"]},
    "used": {"title": "used", "noun": "GPUs of a rack in use", "from": "64", "to": "72", "size": 3},
    "size": {"title": "size", "noun": "racks", "from": "40", "to": "416", "size": 9},
    "recovery": {"title": "recovery", "values": ["nvrx-in-job", "torchft-hsdp"]},
}


def trial(values: Sequence[str], mean: float | None, half: float = 2.5e9, **more: Any) -> dict[str, Any]:
    """Return a combination that was simulated; without a mean it cannot run."""
    aims = {TOKENS: None if mean is None else {"mean": mean, "ci95": [mean - half, mean + half]}}
    return {
        "values": dict(zip(AXES, values, strict=True)), "numbers": {}, "aims": aims, "conditions": [],
        "met": mean is not None, "closed_form": None, "trouble": "" if mean is not None else "no room",
    } | more  # fmt: skip


def gap(mean: float, half: float = 2e9) -> dict[str, Any]:
    """Return a difference from the answer."""
    return {"mean": mean, "ci95": [mean - half, mean + half]}


BEST = trial(["GB200 NVL72", "64", "384", "nvrx-in-job"], 1.3285e12, bound=1.38e12, used={"gpus": 27648})
TRIALS = [
    BEST,
    trial(["GB200 NVL72", "64", "416", "nvrx-in-job"], 1.3282e12, bound=1.38e12, used={"gpus": 29952}),
    trial(["GB200 NVL72", "68", "384", "nvrx-in-job"], 1.327e12, bound=1.37e12, used={"gpus": 27648}),
    trial(["GB200 NVL72", "64", "320", "nvrx-in-job"], 1.16e12, bound=1.22e12, used={"gpus": 23040}),
    trial(["GB200 NVL72", "64", "384", "torchft-hsdp"], 1.10e12, bound=1.12e12, used={"gpus": 27648}),
    trial(["GB200 NVL72", "72", "384", "nvrx-in-job"], None),
]


def curve(offer: str, points: dict[int, float]) -> list[dict[str, Any]]:
    """Return the bounds of an offer by the GPUs that its designs take."""
    return [{"values": {"offer": offer}, "used": used, "bound": bound} for used, bound in points.items()]


def design(**changes: Any) -> OptimizeDocument:
    """Return a document as `ettrick design` prints it, written by hand."""
    content: dict[str, Any] = {
        "format": 1, "study": "roadmap-100mw", "question": "What should 100 MW be built of?", "scenario": "gb200",
        "method": "bounds", "replications": 49, "aims": [{"name": TOKENS, "lowest": False, "is_axis": False}],
        "conditions": [], "axes": AXES, "answer": BEST, "settings": ["spares.hot=64"], "runner_up": TRIALS[1],
        "front": [], "trials": TRIALS, "combinations": 5046,
        "neighbours": [
            {"axis": "size", "to": "416", "status": "evaluated", "difference": gap(-0.3e9)},
            {"axis": "size", "to": "320", "status": "evaluated", "difference": gap(-168.5e9)},
            {"axis": "used", "to": "68", "status": "evaluated", "difference": gap(-1.5e9, 1e9)},
            {"axis": "used", "to": "72", "status": "cannot run", "reason": "units: 72 GPUs are 4 x 18"},
            {"axis": "recovery", "to": "torchft-hsdp", "status": "evaluated", "difference": gap(-228.5e9)},
        ],
        "confirmation": {
            "seed": 7, "replications": 64, "confirmed": True,
            "trials": [BEST | {"gain": {TOKENS: {"mean": 9e11, "ci95": [8.9e11, 9.1e11], "resolved": True,
                                                 "replications_to_resolve": None}}}],
            "as_it_is": trial(["GB200 NVL72", "64", "120", "nvrx-in-job"], 4.2e11),
        },
        "ties": [
            {"values": TRIALS[1]["values"], "kind": "statistical", "difference": gap(-0.3e9)},
            {"values": TRIALS[2]["values"], "kind": "model", "difference": gap(-1.5e9, 1e9)},
        ],
        "regret": {"value": 8e9, "relative": 0.006, "source": "bound", "confidence": 0.95},
        "gap_history": [{"simulated": 8, "replications": 16, "answer": 1.32e12, "gap": 6e10}],
        "funnel": {"listed": 5046, "infeasible": 4000, "dominated": 900, "below_bound": 123, "simulated": 23,
                   "tied": 2},
        "infeasible": [
            {"kind": "units", "axis": "used", "value": "72", "count": 12, "first": "72 GPUs are 4 x 18"},
            {"kind": "budget", "axis": "size", "value": "512", "count": 400, "first": "36,864 GPUs of 30,000"},
        ],
        "bound": {
            "kind": "renewal", "audit": {"candidates": 59, "violations": 0, "at_most": 0.0495}, "budget": "gpus",
            "curve": [*curve("GB200 NVL72", {10000: 0.5e12, 20000: 1.05e12, 27648: 1.38e12, 29952: 1.38e12}),
                      *curve("H100 HGX", {10000: 0.15e12, 20000: 0.27e12, 29952: 0.36e12})],
        },
        "budget": {
            "power": {"limit": 100e6, "used": 46e6, "binding": False},
            "gpus": {"limit": 30000, "used": 29952, "binding": True, "worth_per_percent": 1.2e10},
        },
        "derived": {"job GPUs": "24,576 of 27,648 owned", "batch": "1,920 sequences, as the scenario says"},
        "best_of": [
            {"axis": "offer", "value": "GB200 NVL72", "trial": 0},
            {"axis": "offer", "value": "H100 HGX", "trial": None, "bound": 3.6e11},
            {"axis": "recovery", "value": "nvrx-in-job", "trial": 0},
            {"axis": "recovery", "value": "torchft-hsdp", "trial": 4, "difference": gap(-228.5e9)},
        ],
        "provenance": PROVENANCE,
    }  # fmt: skip
    return OptimizeDocument.model_validate(content | changes)


def text_of(**changes: Any) -> str:
    """Return the text of a document in lines of any length."""
    return format_optimum(design(**changes), width=1000)


def test_the_answer_is_one_sentence_with_regret_budgets_and_both_kinds_of_ties() -> None:
    """The design, its value and interval, the distance from the best, what binds, what does not, and what ties."""
    expected = (
        "Best: offer “GB200 NVL72”, 64 GPUs of a rack in use, 384 racks, recovery “nvrx-in-job”: 1.3285 trillion "
        "tokens a day (1.3260 to 1.3310), at most 0.60 % from the best of 5,046 designs; GPUs bind, power does not "
        "(46 of 100 MW); one other ties, and one more differs by less than the error of the step model."
    )
    assert expected in text_of()


BUDGETS: dict[str, dict[str, Any]] = {
    name: {"limit": 2.0 * used, "used": used, "binding": False}
    for name, used in (("power", 3e6), ("gpus", 4096.0), ("capex", 1e9))
}


@cases(
    ("binding", "expected"),
    [
        (
            (),
            "power does not bind (3 of 6 MW), GPUs do not bind (4,096 of 8,192), capital does not bind "
            "(1 of 2 billion)",
        ),
        (("power",), "power binds, GPUs do not (4,096 of 8,192), capital does not (1 of 2 billion)"),
        (("power", "capex"), "power and capital bind, GPUs do not (4,096 of 8,192)"),
    ],
)
def test_budgets_that_bind_come_first(binding: tuple[str, ...], expected: str) -> None:
    """Each budget is named, with what is left of the others."""
    budget = {name: part | {"binding": name in binding} for name, part in BUDGETS.items()}
    assert f" designs; {expected}; one other ties" in text_of(budget=budget)


@cases(
    ("measured", "modelled", "expected"),
    [
        (0, 0, "46 of 100 MW)."),
        (2, 0, "; two others tie."),
        (0, 1, "; one other differs by less than the error of the step model."),
        (0, 3, "; three others differ by less than the error of the step model."),
        (12, 2, "; 12 others tie, and two more differ by less than the error of the step model."),
    ],
)
def test_kinds_of_ties_are_counted_apart(measured: int, modelled: int, expected: str) -> None:
    """A statistical tie is one of sampling error; a tie by the model has a difference that its error covers."""
    kinds = ["statistical"] * measured + ["model"] * modelled
    assert expected in text_of(ties=[{"values": BEST["values"], "kind": kind} for kind in kinds])


def test_designs_that_a_stopped_race_left_open_do_not_tie() -> None:
    """One whose interval passes what matters (0.5 % of the answer) may be better."""
    wide = {"values": TRIALS[1]["values"], "kind": "statistical", "difference": gap(-1e9, 12e9)}
    text = text_of(ties=[wide, *design().ties])
    assert "; one other ties, and one more differs by less than the error of the step model, and one more is" in text
    assert "one more is too close to call yet." in text
    assert designs_table(OptimumView(design(ties=[wide]))).rows[1][0] == "open"
    as_good = {"values": [BEST["values"], TRIALS[3]["values"]], "loss_below": None, "replications_to_resolve": None}
    assert "; one other is too close to call yet." in text_of(ties=[], as_good=as_good)


def test_a_search_that_was_stopped_claims_no_distance() -> None:
    """Without a regret the answer is the best so far."""
    assert "the best so far of 5,046 designs; how far it is from the best is not known;" in text_of(regret=None)


def test_the_limit_of_the_distance_and_the_audit_are_named() -> None:
    """Whether bounds or sampling error keep the distance open, and what the check of the bounds showed."""
    audit = {"candidates": 59, "violations": 2, "at_most": None}
    race = design(bound={"kind": "ideal", "audit": audit}, regret={"value": 1.0, "relative": 0.002, "source": "race"})
    first, second = map(plain, certainty(OptimumView(race)))
    assert "no design of the space is more than 0.20 % better than the answer; sampling error sets this limit" in first
    assert "59 designs that it had left out were simulated: 2 are above their bounds, which were dropped" in second
    assert "none is above its bound" in text_of()


def test_the_table_has_the_answer_ties_named_values_and_today() -> None:
    """Each design once, with the first reason to name it; what was not simulated has its bound."""
    rows = {row[0]: row for row in designs_table(OptimumView(design())).rows}
    assert list(rows) == [
        "answer", "tie", "tie by the step model", "best with H100 HGX", "best with torchft-hsdp", "scenario as it is"
    ]  # fmt: skip
    assert rows["best with H100 HGX"][1:] == ("H100 HGX", "-", "-", "-", "not simulated: at most 0.360 trillion", "")
    assert rows["tie by the step model"][-1] == "−0.11 % (−0.19 to −0.04)"


def test_a_budget_that_adds_nothing_says_so() -> None:
    """The worth of a binding budget is a part of the answer; below a ten-thousandth it is none."""
    assert "1 % more GPUs would add 0.90 % of training speed, by the formula." in text_of()
    budget = {"gpus": {"limit": 30000, "used": 29952, "binding": True, "worth_per_percent": 1e6}}
    nothing = "A larger budget of GPUs would add nothing, by the formula: something else is the limit."
    assert nothing in text_of(budget=budget)


def test_the_best_of_each_named_value_is_compared_with_the_answer() -> None:
    """By the paired difference, for means of other numbers of replications cannot be compared; else by the bound."""
    text = text_of()
    assert (
        "The best design for each offer, compared with the answer: “GB200 NVL72” is in the answer; “H100 HGX” reaches "
        "at most 0.360 trillion tokens a day (by the bound, not simulated)."
    ) in text
    assert (
        "for each recovery, compared with the answer: “nvrx-in-job” is in the answer; “torchft-hsdp” is worse by"
        in text
    )
    assert "“torchft-hsdp” is worse by 17.2 %." in text
    close = [*design().best_of[:3], {"axis": "recovery", "value": "b", "trial": 4, "difference": gap(1e9)}]
    assert "“nvrx-in-job” is in the answer; “b” is too close to call." in text_of(best_of=close)


def test_pictures_say_what_they_show() -> None:
    """Funnel, neighbours and bounds: titles are statements, and all can be drawn."""
    optimum = OptimumView(design())
    pictures = [present(make(optimum)) for make in (funnel_picture, neighbours_picture, budget_picture)]
    assert [picture.title for picture in pictures] == [
        "23 of 5,046 designs had to be simulated",
        "No neighbour is clearly better than the answer; one is too close to call",
        "No design beats the answer by more than 0.60 %",
    ]
    funnel, neighbours, bounds = (picture.chart for picture in pictures)
    assert [row.values[0] for row in funnel.rows] == [5046.0, 1046.0, 146.0, 23.0, 23.0, 3.0]
    assert neighbours.reference == (0.0, "the answer")
    assert [row.name for row in neighbours.rows][:2] == ["416 racks", "68 GPUs of a rack in use"]
    assert neighbours.unit == "% of the answer"
    assert "1 neighbour cannot run (72 GPUs of a rack in use: units: 72 GPUs are 4 x 18)." in pictures[1].caption
    assert [(series.name, series.look) for series in bounds.series] == [
        ("GB200 NVL72: bound", "dashed"),
        ("GB200 NVL72: best simulated", "line"),
        ("H100 HGX: bound", "dashed"),
    ]
    assert bounds.series[1].x == (23040.0, 27648.0, 29952.0)
    assert [name for _, name in bounds.edges] == ["budget: 30,000", "answer: 27,648"]
    for picture in pictures:
        assert draw(picture.chart).axes


def test_only_worse_neighbours_are_said_to_be_worse() -> None:
    """Without one whose interval holds zero every neighbour is worse."""
    neighbours = [{"axis": "size", "to": "320", "status": "evaluated", "difference": gap(-168.5e9)}]
    picture = present(neighbours_picture(OptimumView(design(neighbours=neighbours))))
    assert picture.title == "Every neighbour of the answer is worse"
    same = {"axis": "size", "to": "416", "status": "evaluated", "difference": {"mean": 0.0, "ci95": None}}
    picture = present(neighbours_picture(OptimumView(design(neighbours=[same, *design().neighbours[:1]]))))
    assert picture.title == "No neighbour is clearly better than the answer; one is equal and one is too close to call"


NOTHING: dict[str, Any] = {
    "answer": None, "trials": [], "runner_up": None, "neighbours": [], "ties": [], "best_of": [], "regret": None,
    "confirmation": None, "settings": [], "bound": None, "derived": {},
    "budget": {"power": {"limit": 1e5, "needed": 1.1e5}, "gpus": {"limit": 64, "needed": 72}},
    "funnel": {"listed": 12, "infeasible": 12, "dominated": 0, "below_bound": 0, "simulated": 0, "tied": 0},
}  # fmt: skip


def test_where_nothing_fits_the_smallest_change_of_each_budget_is_the_answer() -> None:
    """Nothing was simulated: the command ends with 1 and says what would help, and the table says why."""
    expected = "Each of these changes is enough: power 0.110 MW instead of 0.100 MW, or GPUs 72 instead of 64."
    empty = design(**NOTHING)
    assert against(empty) == [expected]
    text = format_optimum(empty, width=1000)
    assert expected in text
    assert "No design can run within the budgets." in text
    assert "36,864 GPUs of 30,000" in text
    one = {"power": {"limit": 1e5, "needed": 1.1e5}}
    (words,) = nothing_fits(OptimumView(design(**NOTHING | {"budget": one})))
    assert plain(words) == "The smallest change that lets a design run: power 0.110 MW instead of 0.100 MW."


def test_designs_that_cannot_run_are_listed_by_reason() -> None:
    """The most frequent reason first, with the value of its axis and the first complaint."""
    table = present(infeasible_table(OptimumView(design())))
    assert list(table.rows[0]) == ["size 512", "budget", "400", "36,864 GPUs of 30,000"]


def test_the_document_is_read_back_and_a_former_one_too() -> None:
    """JSON has every key; without the keys of a search with bounds the text is that of other methods."""
    content = json.loads(render(design()))
    assert json.loads(render(OptimizeDocument.model_validate(content))) == content
    assert {"answer", "ties", "regret", "gap_history", "funnel", "infeasible", "neighbours", "bound", "budget",
            "derived"} <= set(content)  # fmt: skip
    new = ("ties", "regret", "gap_history", "funnel", "infeasible", "bound", "budget", "derived", "best_of")
    former = {key: value for key, value in content.items() if key not in new} | {"method": "all"}
    text = format_optimum(OptimizeDocument.model_validate(former), width=1000)
    assert "The highest training speed is reached with offer “GB200 NVL72”" in text


def test_neighbours_on_two_axes_have_both_values() -> None:
    """Size and spares, or layout and a named axis, are moved together."""
    pair = {"axis": "size × recovery", "to": "320, torchft-hsdp", "status": "evaluated", "difference": gap(-3e11)}
    picture = present(neighbours_picture(OptimumView(design(neighbours=[pair]))))
    assert [row.name for row in picture.chart.rows] == ["320 racks, recovery “torchft-hsdp”"]


TORCHFT = {"recovery": "torchft-hsdp"}


@cases(
    ("changes", "expected"),
    [
        (
            {"status": "worse", "difference": gap(-228.5e9)},
            "Recovery “torchft-hsdp”: its best design (offer “GB200 NVL72”, 64 GPUs of a rack in use, 384 racks) was "
            "simulated and is worse than the answer by 17.20 % (17.05 to 17.35).",
        ),
        ({"status": "tie", "difference": gap(0.0)}, ") ties with the answer."),
        (
            {"status": "below the bound", "bound": 1.2e12},
            ") was not simulated, because it cannot be better than the answer; it reaches at most 1.20 trillion tokens "
            "a day.",
        ),
        ({"status": "misses a condition", "reason": "ettr >= 0.95: 0.93"}, "misses a condition; ettr >= 0.95: 0.93."),
        ({"status": "cannot run", "reason": "replicas share racks"}, ") cannot run: replicas share racks."),
        (
            {"status": "cannot run", "values": None, "reason": "strategy: no order keeps replicas whole"},
            "Recovery “torchft-hsdp”: no design with it can run: strategy: no order keeps replicas whole.",
        ),
    ],
)
def test_a_design_that_is_asked_about_has_its_reason(changes: dict[str, Any], expected: str) -> None:
    """Why not this one: it ties, lost the race, is below the bound, misses a condition, or cannot run."""
    asked = {"wanted": TORCHFT, "values": TRIALS[4]["values"]} | changes
    assert expected in text_of(explained=asked)

"""Why a design is not the answer: each status from a search written by hand, and wrong questions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from ettrick.analysis.contest.precision import Ties
from ettrick.analysis.optimize.evaluate import Trial
from ettrick.analysis.optimize.race import Raced
from ettrick.analysis.optimize.reasons import UnknownDesignError, explain, wanted_of
from ettrick.analysis.optimize.statement import is_tie
from ettrick.analysis.results.studies import Aim, AimResult
from ettrick.analysis.statistics.intervals import MeanEstimate
from ettrick.analysis.study.amounts import AxisPosition
from tests.cases import cases

if TYPE_CHECKING:
    from ettrick.analysis.optimize.evaluate import Evaluator
    from ettrick.analysis.results.studies import ExplainedDesign

NAMES = ("recovery", "spares")

ROWS = [
    ("requeue", "2"),
    ("in-job", "2"),
    ("in-job", "3"),
    ("in-job", "4"),
    ("torchft", "2"),
    ("pairs", "2"),
    ("old", "2"),
]
"""The answer is the second; the third ties, the fourth is worse, the others were not simulated or do not count."""

BOUNDS = [9.0, 10.4, 10.4, 10.4, 10.2, 10.3, 11.0]


def trial(*, trouble: str = "", is_usable: bool = True) -> Any:
    """Return what came of a candidate, without its conditions."""
    cell: Any = SimpleNamespace(stated=SimpleNamespace(trouble=trouble), drawn=())
    return Trial(0, (), cell, (), (MeanEstimate(0.95 if is_usable else 0.8),), (), is_usable and not trouble)


TRIALS = {1: trial(), 2: trial(), 3: trial(), 4: trial(trouble="replicas share racks"), 5: trial(is_usable=False)}


def asked(**wanted: str) -> ExplainedDesign:
    """Return why a design of the search is not its answer."""
    condition = SimpleNamespace(text="ettr >= 0.9", is_met=lambda mean: mean >= 0.9)
    problem = SimpleNamespace(
        aims=[Aim(name="ettr", lowest=False, is_axis=False)], conditions=[condition],
        ties=Ties.parse("1pt"),
    )  # fmt: skip
    bench = SimpleNamespace(
        problem=problem,
        candidates=[],
        labels=lambda row: {name: position.label for name, position in zip(NAMES, row, strict=True)},
        gain=lambda ours, theirs, _aim: SimpleNamespace(mean=-0.1 if ours is not theirs else 0.0, ci95=(-0.2, 0.0)),
    )
    infeasible = [SimpleNamespace(kind="units", axis="spares", value="9", count=7, first="9 racks of 8")]
    listing = SimpleNamespace(
        names=NAMES,
        candidates=[tuple(AxisPosition(label, None, ()) for label in row) for row in ROWS],
        kinds={"recovery": "named", "spares": "spares"},
        infeasible=infeasible,
    )
    means = {1: 10.0, 2: 9.99, 3: 9.5, 4: float("nan"), 5: 10.1}
    outcome = SimpleNamespace(best=1, regret=0.05, ties=(2,), unresolved=(), means=means)
    stakes: Any = SimpleNamespace(bench=bench, trials=TRIALS)
    raced = Raced(cast("Any", listing), np.array(BOUNDS), (), cast("Any", outcome), stakes, cast("Any", None))
    return explain(cast("Evaluator", bench), raced, wanted)


@cases(
    ("wanted", "status", "reason", "spares"),
    [
        ({"recovery": "in-job"}, "answer", "", "2"),
        ({"spares": "2"}, "answer", "", "2"),
        ({"recovery": "in-job", "spares": "3"}, "tie", "", "3"),
        ({"spares": "4"}, "worse", "", "4"),
        ({"recovery": "requeue"}, "below the bound", "", "2"),
        ({"recovery": "old"}, "not simulated", "", "2"),
        ({"recovery": "torchft"}, "cannot run", "replicas share racks", "2"),
        ({"recovery": "pairs"}, "misses a condition", "ettr >= 0.9", "2"),
    ],
)
def test_each_status_has_its_reason(wanted: dict[str, str], status: str, reason: str, spares: str) -> None:
    """Of several designs the answer is named first, then ties, the best that was simulated, the highest bound."""
    design = asked(**wanted)
    assert (design.status, design.reason) == (status, reason)
    assert design.values is not None
    assert design.values["spares"] == spares
    assert (design.difference is None) == (status in ("below the bound", "not simulated"))


@cases(
    ("mean", "ci95", "expected"),
    [(-0.005, (-0.006, -0.004), True), (-0.2, (-0.4, 0.1), True), (-0.2, (-0.3, -0.1), False), (0.0, None, True)],
)
def test_what_is_clearly_worse_is_no_tie(mean: float, ci95: tuple[float, float] | None, expected: bool) -> None:
    """A survivor ties if its difference is too small to matter, or may be none."""
    problem = SimpleNamespace(
        aims=[Aim(name="ettr", lowest=False, is_axis=False)],
        ties=Ties.parse("1pt"),
    )  # fmt: skip
    bench = cast("Evaluator", SimpleNamespace(problem=problem, candidates=[]))
    assert is_tie(bench, AimResult(mean=mean, ci95=ci95)) is expected


def test_values_that_no_design_has_name_the_first_complaint() -> None:
    """A value that cannot run says why, one that does not exist is refused, and combinations may be left out."""
    blamed = asked(spares="9")
    assert (blamed.values, blamed.status, blamed.reason) == (None, "cannot run", "units: 9 racks of 8")
    with pytest.raises(UnknownDesignError, match=r"recovery has no value 'torchf'; did you mean 'torchft'"):
        asked(recovery="torchf")
    assert "cannot be combined" in asked(recovery="old", spares="4").reason


def test_a_question_is_axes_with_values() -> None:
    """Several values are split at commas, and axes have to exist."""
    assert wanted_of("recovery=torchft, spares = 2", NAMES) == {"recovery": "torchft", "spares": "2"}
    with pytest.raises(UnknownDesignError, match=r"'torchft' is not AXIS=VALUE"):
        wanted_of("torchft", NAMES)
    with pytest.raises(UnknownDesignError, match=r"unknown axis 'spare'; did you mean 'spares'"):
        wanted_of("spare=2", NAMES)

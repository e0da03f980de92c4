"""A study of unlike clusters is led by what they make of what they take, and says what that was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import sim
from analysis.at_equal import study_headline, table_lines
from analysis.runs import RequestError
from analysis.study.amounts import Point, Value
from analysis.study.axis import Axis
from analysis.study.load import load_study
from analysis.study.table import Cell, Outcome, Table
from tests import small
from tests.cases import cases
from tests.unit.test_at_equal import COST, H100, JOB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from analysis.study.load import LoadedStudy


def study(tmp_path: Path, text: str, **changes: Any) -> LoadedStudy:
    """Return a study of the small scenario with something replaced."""
    described = {**small.SMALL, "jobs": [JOB], "cluster": H100, **changes}
    (tmp_path / "base.yaml").write_text(sim.dump(described), encoding="utf-8")
    (tmp_path / "study.yaml").write_text(f"name: s\nscenario: base.yaml\n{text}\n", encoding="utf-8")
    return load_study(tmp_path / "study.yaml")


SPARES = "vary: {spares.hot: {choices: [1, 2]}}"


@cases(
    ("kind", "headline"), [("gpus", "tokens_per_gpu_day"), ("power", "tokens_per_mw_day"), ("cost", "cost_per_token")]
)
def test_a_study_is_led_by_what_is_equal(kind: str, headline: str, tmp_path: Path) -> None:
    """The headline is known before anything is played, and the same as in a comparison."""
    assert study_headline(study(tmp_path, f"at_equal: {kind}\n{SPARES}", cost=COST)) == headline


def test_a_study_that_cannot_tell_is_refused_before_it_is_played(tmp_path: Path) -> None:
    """Without prices no cost is equal; without tokens GPU-time stands in, unless what varies changes a step."""
    with pytest.raises(RequestError, match=r"^at equal cost: s: prices are not known"):
        study_headline(study(tmp_path, f"at_equal: cost\n{SPARES}"))
    plain = small.SMALL["jobs"]
    assert study_headline(study(tmp_path, f"at_equal: gpus\n{SPARES}", jobs=plain)) == "cluster_goodput"
    for varied in ("cluster.accelerator: {choices: [h100, h200]}", "jobs.0.step_time: {choices: [10 s, 20 s]}"):
        with pytest.raises(RequestError, match=r"GPU-time alone compares nothing where .* differ"):
            study_headline(study(tmp_path, f"at_equal: gpus\nvary: {{{varied}}}", jobs=plain))


def test_points_that_cannot_run_say_nothing_of_the_others(tmp_path: Path) -> None:
    """The first point that can run decides."""
    impossible = "vary: {jobs.0.gpus: {choices: [1008, 112]}}"
    assert study_headline(study(tmp_path, f"at_equal: gpus\n{impossible}")) == "tokens_per_gpu_day"


def table(cells: Mapping[str, Sequence[sim.Ratio]], metric: str = "tokens_per_gpu_day") -> Table:
    """Return a table of one axis with the ratios of a metric for each of its values."""
    axis = Axis(choices=tuple(cells))
    rows = tuple(
        Cell(Outcome(Point(number, number, 0, (Value(label, None, ()),)), {metric: ratios}))
        for number, (label, ratios) in enumerate(cells.items())
    )
    return Table({"x": axis}, rows, (metric,), currency="USD")


def test_lines_of_a_study_have_the_mean_size_of_each_cell() -> None:
    """GPU-days of a mean replication by cell; of many, the smallest and the largest; equal sizes have one line."""
    unlike = table({"a": [sim.Ratio(9, 100), sim.Ratio(9, 300)], "b": [sim.Ratio(9, 50), sim.Ratio(9, 50)]})
    lines = table_lines("gpus", unlike)
    assert "x a: 200 GPU-days; x b: 50 GPU-days" in lines[0]
    assert "no cluster was made larger" in lines[1]
    many = table_lines("gpus", table({str(n): [sim.Ratio(9, 100 + n)] * 2 for n in range(20)}))
    assert "(the smallest and the largest): x 0: 100 GPU-days; x 19: 119 GPU-days" in many[0]
    assert len(table_lines("gpus", table({"a": [sim.Ratio(9, 100)], "b": [sim.Ratio(7, 100)]}))) == 1
    assert table_lines("cost", table({"a": [sim.Ratio(7, 100)]}, "cost_per_token"))[0].endswith("x a: 7 USD")
    assert table_lines("gpus", table({"a": []})) == ["at equal GPUs: no point has a tokens_per_gpu_day"]

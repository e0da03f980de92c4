"""Unlike clusters are compared by what they make of what they take, and never where that is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest
from typer.testing import CliRunner

from ettrick import cli, sim
from ettrick.analysis.contest.compare import Equal, Variant, at_equal_lines, compare, headline_at_equal
from ettrick.analysis.contest.precision import ReplicationsError
from ettrick.analysis.metrics import METRICS
from ettrick.analysis.ratios import ReplicationMetrics, job_ratios, ratios
from ettrick.analysis.results.models import TakenSummary
from ettrick.analysis.study.amounts import AxisPosition, Point
from ettrick.analysis.study.axis import Axis
from ettrick.analysis.study.load import load_study
from ettrick.analysis.study.table import Cell, PointResult, StudyTable
from ettrick.analysis.sweep.document import table_lines
from ettrick.analysis.sweep.sweep import study_headline
from tests import report_sample
from tests.cases import cases
from tests.documents import compare_document, format_comparison

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ettrick.analysis.study.load import LoadedStudy

DAY = 86400.0

BATCH = 7 * 2**20

JOB: dict[str, Any] = {
    "name": "train",
    "gpus": 112,
    "model": "llama3-8b",
    "batch": {"tokens": "7 Mi", "sequence": 8192},
    "parallelism": {"tensor": 8, "pipeline": 2, "data": 7},
    "step_time": "40 s",
}

BARE = {name: JOB[name] for name in ("name", "gpus", "batch", "step_time")}

"""The same without a model, so that the accelerator need not be known."""

H100 = {**report_sample.SMALL["cluster"], "accelerator": "h100"}

COST = {"gpu_hour": 2}


def prepared(**changes: Any) -> sim.Prepared:
    """Return a small scenario that trains tokens on accelerators whose power is known."""
    return report_sample.prepare(**({"jobs": [JOB], "cluster": H100} | changes))


def of(variant: sim.Prepared, replication: int = 0) -> dict[str, sim.Ratio]:
    """Return the metrics of a replication."""
    return ratios(variant, sim.run(variant, replication))


def test_without_failures_tokens_are_counted_by_hand() -> None:
    """Steps of a job that nothing interrupts, over the 128 GPUs and over 16 nodes at 8 kW with switches and PUE."""
    free = {**report_sample.SMALL["checkpoint"]["tiers"][0], "write": "0 s"}
    quiet = prepared(failures=[], checkpoint={"tiers": [free]})
    found = of(quiet)
    tokens = (2 * DAY - 180) / 40 * BATCH
    assert found["tokens_per_gpu_day"][:2] == pytest.approx((tokens, 128 * 2))
    switches = sum(quiet.scenario.cluster.counts().get(part, 0) for part in ("leaf", "spine", "core"))  # type: ignore[attr-defined]
    megawatts = (16 * 8e3 + switches * 690) * 1.2 / 1e6
    assert found["tokens_per_mw_day"][:2] == pytest.approx((tokens, megawatts * 2))


def test_idle_gpus_and_power_count_too() -> None:
    """The same job on twice the nodes makes half as much of a GPU-day, and of the nodes' part of a megawatt-day."""
    many = {**H100, "nodes": 32}
    power = {"switch": "0 W"}
    one, two = (prepared(failures=[], cluster=cluster, power=power) for cluster in (H100, many))
    for metric in ("tokens_per_gpu_day", "tokens_per_mw_day"):
        first, second = of(one)[metric], of(two)[metric]
        assert first.amount == second.amount > 0
        assert second.base == pytest.approx(2 * first.base)


def test_spares_that_idle_draw_the_power_that_is_built_for() -> None:
    """Provisioned power does not depend on what the nodes do: with failures the base is the same, the tokens fewer."""
    quiet, failing = of(prepared(failures=[])), of(prepared())
    assert failing["tokens_per_mw_day"].base == quiet["tokens_per_mw_day"].base
    assert failing["tokens_per_mw_day"].amount < quiet["tokens_per_mw_day"].amount
    assert failing["energy"].amount != quiet["energy"].amount


def test_the_megawatt_day_is_never_less_than_the_energy_used() -> None:
    """Energy over a replication is at most provisioned power times time."""
    variant = prepared()
    for replication in range(4):
        row = of(variant, replication)
        assert 0.2 < row["energy"].amount / (row["tokens_per_mw_day"].base * 1e6 * DAY) < 1


def test_jobs_share_gpus_and_power_as_they_share_the_cost() -> None:
    """Bases of the jobs add up to that of the cluster where a rule says how they share; without one there are none."""
    jobs = [
        {**JOB, "name": name, "gpus": gpus, "parallelism": {"tensor": 8, "data": gpus // 8}}
        for name, gpus in (("a", 56), ("b", 28 * 2))
    ]
    shared = prepared(jobs=jobs, cost={**COST, "allocation": "gpus"})
    result = sim.run(shared, 0)
    whole, parts = ratios(shared, result), ReplicationMetrics(shared, result).job_spending()
    for metric in ("tokens_per_gpu_day", "tokens_per_mw_day"):
        assert sum(part[metric].base for part in parts) == pytest.approx(whole[metric].base)
        assert sum(part[metric].amount for part in parts) == pytest.approx(whole[metric].amount)
    alone = prepared(jobs=jobs)
    assert ReplicationMetrics(alone, sim.run(alone, 0)).job_spending() == [{}, {}]
    assert "tokens_per_gpu_day" not in job_ratios(shared.jobs[0], result.jobs[0], [False])


@cases(
    "changes",
    [
        {},
        {"cost": COST},
        {"cluster": {**H100, "accelerator": "mine"}, "jobs": [BARE]},
        {"jobs": report_sample.SMALL["jobs"]},
        {"jobs": report_sample.SMALL["jobs"], "cluster": report_sample.SMALL["cluster"], "cost": COST},
    ],
)
def test_what_is_obtainable_is_what_a_run_has(changes: dict[str, Any]) -> None:
    """Before a run it is known which metrics it will have."""
    variant = prepared(**changes)
    asked = {"tokens_per_gpu_day", "tokens_per_mw_day", "cost_per_token", "cluster_goodput", "energy", "cost"}
    assert {name for name in asked if METRICS[name].lacks(variant) is None} == asked & set(of(variant))


NO_TOKENS: dict[str, Any] = {"jobs": report_sample.SMALL["jobs"]}

NO_POWER: dict[str, Any] = {"cluster": {**H100, "accelerator": "mine"}, "jobs": [BARE]}


def test_each_kind_has_its_headline() -> None:
    """GPUs, power and cost divide by what they are called after."""
    alike = dict.fromkeys("ab", prepared(cost=COST))
    headlines = [headline_at_equal(kind, alike, ("accelerator",)) for kind in get_args(Equal)]
    assert headlines == ["tokens_per_gpu_day", "tokens_per_mw_day", "cost_per_token"]


def test_gpu_time_stands_in_for_tokens_where_the_work_is_alike() -> None:
    """Without tokens, cluster goodput compares what differs in nothing that changes a GPU-hour; else it is refused."""
    known = dict.fromkeys("ab", prepared(**NO_TOKENS))
    assert headline_at_equal("gpus", known) == "cluster_goodput"
    with pytest.raises(ReplicationsError, match=r"a: the tokens .* not known.*where accelerator differ"):
        headline_at_equal("gpus", known, ("accelerator",))
    with pytest.raises(ReplicationsError, match=r"^at equal GPUs: b: the tokens"):
        headline_at_equal("gpus", {"a": prepared(), "b": prepared(**NO_TOKENS)})


@cases(
    ("kind", "changes", "line"),
    [
        ("power", NO_POWER, "b: it is not known what a node draws: give power.idle"),
        ("power", NO_TOKENS, "b: the tokens of every job are not known"),
        ("cost", {}, "b: prices are not known: give cost.gpu_hour"),
        ("cost", {**NO_TOKENS, "cost": COST}, "b: the tokens of every job are not known"),
    ],
)
def test_what_is_not_known_is_refused_by_name(kind: Any, changes: dict[str, Any], line: str) -> None:
    """The line names the variant and the key that would help."""
    with pytest.raises(ReplicationsError, match=f"^at equal {kind}: {line}"):
        headline_at_equal(kind, {"a": prepared(cost=COST), "b": prepared(**changes)})


def test_the_option_offers_its_choices() -> None:
    """A slip of the pen is answered with the nearest choice."""
    result: Any = CliRunner().invoke(cli.app, ["compare", "quickstart", "--at-equal", "pwoer"], prog_name="ettrick")
    (line,) = result.stderr.splitlines()
    assert result.exit_code == 2
    assert line.startswith("--at-equal: 'pwoer'")
    assert "did you mean 'power'" in line
    assert all(kind in line for kind in get_args(Equal))


def simulated(kind: Any, **other: Any) -> dict[str, Any]:
    """Return the document of two variants compared at equal something."""
    variants = [Variant("one", prepared(cost=COST)), Variant("two", prepared(**({"cost": COST} | other)))]
    found = compare(variants, 2, at_equal=kind, processes=1)
    content: dict[str, Any] = compare_document(found, {}, command="")
    return content


def test_a_larger_cluster_loses_at_equal_gpus_what_it_leaves_idle() -> None:
    """Tokens per day are as good with more spares, tokens per GPU-day are not: the order turns."""
    many = {"cluster": {**H100, "nodes": 32}, "spares": {"hot": 16}}
    plain, equal = simulated(None, **many), simulated("gpus", **many)
    assert plain["at_equal"] is None
    assert (plain["headline"], equal["headline"]) == ("goodput", "tokens_per_gpu_day")
    assert equal["order"] == ["one", "two"]
    assert equal["at_equal"]["variants"]["two"]["gpus"] == 256
    means = [equal["variants"][name]["metrics"]["tokens_per_gpu_day"]["mean"] for name in ("one", "two")]
    assert means[0] > 1.8 * means[1]


def test_the_lines_say_what_was_divided_by_what() -> None:
    """Each variant with its number; where sizes differ, that no cluster was scaled; in the text too."""
    content = simulated("gpus", cluster={**H100, "nodes": 32})
    worded = " ".join(content["at_equal"]["lines"])
    assert "one: 128 GPUs, 112 of them in jobs; two: 256 GPUs, 112 of them in jobs" in worded
    assert "no cluster was rescaled" in worded
    text = format_comparison(content, width=400)
    assert all(line[1:] in text for line in content["at_equal"]["lines"])
    assert "tokens per GPU-day on the same failures" in text
    assert len(simulated("gpus")["at_equal"]["lines"]) == 1


@cases(
    ("kind", "metric", "second", "count"),
    [
        ("power", "tokens_per_mw_day", {"megawatts": 0.4}, 2),
        ("power", "tokens_per_mw_day", {"gpus": 256}, 1),
        ("gpus", "tokens_per_gpu_day", {"megawatts": 0.4}, 1),
        ("gpus", "tokens_per_gpu_day", {"gpus": 256}, 2),
    ],
)
def test_sizes_differ_by_what_is_equal(kind: Any, metric: str, second: dict[str, Any], count: int) -> None:
    """Clusters of unlike power are as given at equal power, those of unlike GPUs at equal GPUs, and not the other."""
    first = {"gpus": 128, "in_jobs": 112, "megawatts": 0.2, "cost_per_day": None, "currency": ""}
    taken = {"one": TakenSummary(**first), "two": TakenSummary(**first | second)}
    assert len(at_equal_lines(kind, metric, taken)) == count


def test_a_comparison_refuses_before_it_plays() -> None:
    """Without prices nothing is simulated."""
    done: list[int] = []
    with pytest.raises(ReplicationsError, match="at equal cost: two: prices"):
        compare(
            [Variant("one", prepared(cost=COST)), Variant("two", prepared())],
            2,
            at_equal="cost",
            processes=1,
            progress=lambda count, _total: done.append(count),
        )
    assert not done


# A study of unlike clusters is led by what they make of what they take, and says what that was.


def study(tmp_path: Path, text: str, **changes: Any) -> LoadedStudy:
    """Return a study of the small scenario with something replaced."""
    described = {**report_sample.SMALL, "jobs": [JOB], "cluster": H100, **changes}
    (tmp_path / "base.yaml").write_text(sim.dump(described), encoding="utf-8")
    (tmp_path / "study.yaml").write_text(f"name: s\nscenario: base.yaml\n{text}\n", encoding="utf-8")
    return load_study(tmp_path / "study.yaml")


SPARES = "vary: {spares.hot: {choices: [1, 2]}}"


@cases(
    ("kind", "headline"), [("gpus", "tokens_per_gpu_day"), ("power", "tokens_per_mw_day"), ("cost", "cost_per_token")]
)
def test_a_study_is_led_by_what_is_equal(kind: str, headline: str, tmp_path: Path) -> None:
    """The headline is known before anything is simulated, and the same as in a comparison."""
    assert study_headline(study(tmp_path, f"at_equal: {kind}\n{SPARES}", cost=COST)) == headline


def test_a_study_that_cannot_tell_is_refused_before_it_is_played(tmp_path: Path) -> None:
    """Without prices no cost is equal; without tokens GPU-time stands in, unless what varies changes a step."""
    with pytest.raises(ReplicationsError, match=r"^at equal cost: s: prices are not known"):
        study_headline(study(tmp_path, f"at_equal: cost\n{SPARES}"))
    plain = report_sample.SMALL["jobs"]
    assert study_headline(study(tmp_path, f"at_equal: gpus\n{SPARES}", jobs=plain)) == "cluster_goodput"
    for varied in ("cluster.accelerator: {choices: [h100, h200]}", "jobs.0.step_time: {choices: [10 s, 20 s]}"):
        with pytest.raises(ReplicationsError, match=r"GPU-time on its own compares nothing where .* differ"):
            study_headline(study(tmp_path, f"at_equal: gpus\nvary: {{{varied}}}", jobs=plain))


def test_points_that_cannot_run_say_nothing_of_the_others(tmp_path: Path) -> None:
    """The first point that can run decides."""
    impossible = "vary: {jobs.0.gpus: {choices: [1008, 112]}}"
    assert study_headline(study(tmp_path, f"at_equal: gpus\n{impossible}")) == "tokens_per_gpu_day"


def table(cells: Mapping[str, Sequence[sim.Ratio]], metric: str = "tokens_per_gpu_day") -> StudyTable:
    """Return a table of one axis with the ratios of a metric for each of its values."""
    axis = Axis(choices=tuple(cells))
    rows = tuple(
        Cell(PointResult(Point(number, number, 0, (AxisPosition(label, None, ()),)), {metric: ratios}))
        for number, (label, ratios) in enumerate(cells.items())
    )
    return StudyTable({"x": axis}, rows, (metric,), currency="USD")


def test_lines_of_a_study_have_the_mean_size_of_each_cell() -> None:
    """GPU-days of a mean replication by cell; of many, the smallest and the largest; equal sizes have one line."""
    unlike = table({"a": [sim.Ratio(9, 100), sim.Ratio(9, 300)], "b": [sim.Ratio(9, 50), sim.Ratio(9, 50)]})
    lines = table_lines("gpus", unlike)
    assert "x a: 200 GPU-days; x b: 50 GPU-days" in lines[0]
    assert "no cluster was rescaled" in lines[1]
    many = table_lines("gpus", table({str(n): [sim.Ratio(9, 100 + n)] * 2 for n in range(20)}))
    assert ", smallest and largest: x 0: 100 GPU-days; x 19: 119 GPU-days" in many[0]
    assert len(table_lines("gpus", table({"a": [sim.Ratio(9, 100)], "b": [sim.Ratio(7, 100)]}))) == 1
    assert table_lines("cost", table({"a": [sim.Ratio(7, 100)]}, "cost_per_token"))[0].endswith("x a: 7 USD")
    assert table_lines("gpus", table({"a": []})) == ["at equal GPUs: no point has a tokens_per_gpu_day"]

"""What the answer of a report rests on: other sizes and rates, inputs with their sources, validation, provenance."""

from __future__ import annotations

import copy
import json
import math
import re
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from ettrick import sim
from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.page.build import footer, reproduction_section
from ettrick.analysis.page.chapters import inputs as basis
from ettrick.analysis.page.chapters import scale as frontier
from ettrick.analysis.page.chapters import validation
from ettrick.analysis.page.chapters.inputs import BASES, LABELS, stated_inputs
from ettrick.analysis.page.chapters.scale import BASES as KNOWN
from ettrick.analysis.page.chapters.scale import (
    FACTORS,
    Requirement,
    at_sizes,
    half_recovery,
    largest_measured,
    measured_points,
    waiting,
)
from ettrick.analysis.page.model import Figure, TableBlock, plain
from ettrick.analysis.page.report_data import (
    FolderResults,
    ReplayedScenario,
    ReportData,
    at_rate,
    at_size,
    interruption_rates,
)
from ettrick.analysis.results import run as documents
from ettrick.analysis.results.models import RunDocument
from ettrick.analysis.results.run import document, render
from ettrick.analysis.study.axis import Axis
from ettrick.analysis.validation.run import conventions
from tests.cases import cases
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ettrick.analysis.page.model import Section
    from ettrick.sim import Prepared, Scenario

SOFTWARE = '{use: job, name: software, rate: 1 per 10 job-day, source: "a log of ours", events: 12}'

HARDWARE = "{use: component, name: node, part: node, rate: 6.5 per 1000 node-day}"

TWICE = ("jobs.0.gpus=1984", "cluster.nodes=256", "spares.hot=8")


def scenario_of(*changes: str, name: str = "quickstart") -> Scenario:
    """Return a shipped scenario with changes."""
    return sim.load(
        sim.find(name), (f"failures=[{HARDWARE}, {SOFTWARE}]", *changes) if name == "quickstart" else changes
    )


def prepared_of(*changes: str, name: str = "quickstart") -> Prepared:
    """Return the same, ready to run."""
    return sim.prepare(scenario_of(*changes, name=name))


def ran(folder: Path, *changes: str, replications: int = 2) -> ReportData:
    """Return the results of a run in a folder."""
    scenario = scenario_of("horizon=4 d", *changes)
    (folder / "scenario.resolved.yaml").write_text(json.dumps(scenario.dump()), encoding="utf-8")
    found = replicate(sim.prepare(scenario), replications, processes=1)
    content = json.loads(render(document(found, command="ettrick run quickstart")))
    return ReportData(FolderResults(folder, "run", {"run.json": content}))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    """Return the results of a run of the quickstart, with software that fails too."""
    return ran(tmp_path_factory.mktemp("run"))


def grids(section: Section | None) -> dict[str, TableBlock]:
    """Return the tables of a section by title, those of its pictures among them."""
    found = [item.table if isinstance(item, Figure) else item for item in present(section).items]
    return {grid.title: grid for grid in found if grid is not None}


@cases(
    "change",
    [(), ("checkpoint.tiers.0.interval=optimal",), ("repair.time=6 d", "recovery.pools=[spare]", "horizon=2000 d")],
    ids=["stated", "by rule", "short of spares"],
)
def test_a_scenario_of_twice_the_size_is_the_scenario_that_describes_it(change: tuple[str, ...]) -> None:
    """Twice the job, the nodes and the spares by hand has the same time between interruptions and the same ETTR."""
    small, large = prepared_of(*change), prepared_of(*change, *TWICE)
    scaled = present(at_size(small, 1984))
    assert scaled.jobs[0].mtti == pytest.approx(large.jobs[0].mtti, rel=1e-12)
    assert sim.closed_form(scaled).shares == pytest.approx(sim.closed_form(large).shares, rel=1e-9)
    assert sim.closed_form(scaled).ettr != pytest.approx(sim.closed_form(small).ettr, rel=1e-3)


def test_hardware_fails_in_proportion_to_the_job_and_software_as_often_at_every_size() -> None:
    """At ten times the GPUs the rate is ten times that of the nodes plus once that of the job."""
    rates = present(interruption_rates(prepared_of()))
    day = 86400.0
    assert rates.growing * day == pytest.approx(124 * 6.5e-3, rel=1e-12)
    assert rates.fixed * day == pytest.approx(0.1, rel=1e-9)
    assert day / rates.mtti(9920) == pytest.approx(1240 * 6.5e-3 + 0.1, rel=1e-9)


def test_the_curves_by_size_go_through_the_closed_form_of_the_job_itself(run: ReportData) -> None:
    """At the size of the job the curves are its own formula, and the simulated point stands beside it."""
    section = present(frontier.scale_section(run))
    between, shares = (item.chart for item in section.items if isinstance(item, Figure))
    job, form = run.focus.prepared.jobs[0], sim.closed_form(run.focus.prepared)
    for chart, value, size in ((between, job.mtti, 3600.0), (shares, present(form.ettr), 0.01)):
        curve = chart.series[0]
        assert curve.y[curve.x.index(job.gpus)] == pytest.approx(value / size, rel=1e-9)
        assert list(curve.y) == sorted(curve.y, reverse=True)
    assert shares.series[-1].y == (pytest.approx(100 * run.main["metrics"]["ettr"]["mean"]),)
    assert between.shaded_from[0] == 32_768  # 98,304 GPUs may have been projected


def test_other_sizes_wait_for_nodes_as_rarely_as_the_job_itself() -> None:
    """Hence spares are worth the same at every size: the curves of two pools are one curve times a number.

    That number is what it is at the size of the job. No curve rises with the size, also
    where a pool in proportion would be starved, as one of a quarter of a node; and none is below nothing.
    """
    few, many = (
        ("repair.time=3 d", "recovery.pools=[spare]", "spares.hot=2", "cluster.nodes=126", "horizon=2000 d"),
        ("spares.hot=4",),
    )
    scarce, plenty = prepared_of(*few), prepared_of(*few[:2], "horizon=2000 d", *many)
    mine, others = (sim.closed_form(one).ettr or 0.0 for one in (scarce, plenty))
    ratio = mine / others
    assert ratio == pytest.approx((1 - (waiting(scarce) or 0.0)) / (1 - (waiting(plenty) or 0.0)), rel=0.01)
    assert ratio < 0.95
    found = at_sizes(scarce)
    for one, other in zip(found, at_sizes(plenty), strict=True):
        assert one.ettr == pytest.approx(ratio * (other.ettr or 0.0), rel=1e-6)
    shares = [size.ettr or 0.0 for size in found]
    assert shares == sorted(shares, reverse=True)
    here = next(size for size in found if size.gpus == 992)
    assert here.ettr == pytest.approx(sim.closed_form(scarce).ettr, rel=1e-9)


def test_a_size_may_have_more_nodes_than_the_fabric() -> None:
    """Where parts of the fabric fail, a doubled job is asked about too, and larger jobs yield less."""
    leaf = "{use: component, name: leaf, part: leaf, rate: 1 per leaf-year, repair: 8 h}"
    prepared = prepared_of("cluster.fabric.spine.oversubscription=2", f"failures=[{leaf}, {SOFTWARE}]")
    sizes = at_sizes(prepared)
    assert sizes[-1].gpus > 8 * len(present(prepared.network).pool_of_node)
    shares = [size.ettr or 0.0 for size in sizes]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] > 0


def test_places_of_the_frontier_are_closed_forms_of_scenarios_that_can_be_written() -> None:
    """A factor and a scale of all times of coming back are the scenario with these two changes."""
    for requirement, scale_of in ((Requirement(prepared_of()), 1.0), (Requirement(half_recovery(prepared_of())), 0.5)):
        for factor in (FACTORS[0], FACTORS[-1]):
            changes = [f"{part}.scale={scale_of}" for part in ("detection", "recovery")]
            changes += [f"failures.{index}.scale={1 / factor}" for index in (0, 1)]
            expected = sim.closed_form(prepared_of(*changes)).ettr
            assert requirement.values[FACTORS.index(factor)] == pytest.approx(expected, abs=1e-9)


def test_the_factor_for_a_level_leads_there_and_is_none_where_saves_alone_cost_more() -> None:
    """The closed form of the scenario with that factor has the level; 30 s every 30 min leave 98.4 % at best."""
    found = Requirement(prepared_of())
    factor = present(found.factor_for(0.97))
    assert sim.closed_form(at_rate(prepared_of(), factor)).ettr == pytest.approx(0.97, abs=1e-3)
    faster = present(Requirement(half_recovery(prepared_of())).factor_for(0.97))
    assert faster < factor
    assert found.factor_for(1800 / 1830) is None
    assert found.factor_for(0.983) == math.inf
    assert found.factor_for(0.1) == 0.0


def simulated(run: ReportData, away: float, outside: float, *, name: str = "here", asked: float | None = None) -> Any:
    """Return the results of a run whose simulation is `away` from its formula [-], and of a study that asks a level."""
    content = copy.deepcopy(run.main)
    ettr = content["closed_form"]["ettr"] + away
    content["closed_form"]["simulated"] |= {"ettr": ettr, "outside_ci95": outside}
    answer = SimpleNamespace(use="threshold", data={"metric": "ettr", "along": "rate", "at_least": asked})
    sweep = None if asked is None else SimpleNamespace(answers=[SimpleNamespace(use="best", data={}), answer])
    return SimpleNamespace(
        focus=ReplayedScenario(name, present(run.focus).scenario, 2, RunDocument.model_validate(content)), sweep=sweep
    )


def test_a_formula_that_is_off_says_so_and_one_that_is_far_off_draws_no_frontier(run: ReportData) -> None:
    """More than a point from the simulation, and beyond chance, what the formula says of other rates is no guide."""
    near, chance = frontier.section(simulated(run, -0.004, 0.002)), frontier.section(simulated(run, -0.05, 0.0))
    assert present(near).title.startswith("By the formula, which is 0.4 percentage points off here, ")
    assert present(chance).title.startswith("By the formula, 9")
    assert frontier.section(simulated(run, 0.05, 0.04)) is None
    assert frontier.section(simulated(run, -0.5, 0.49)) is None


def test_no_frontier_and_no_sizes_without_failures_or_without_a_formula(tmp_path: Path) -> None:
    """A scenario in which nothing fails needs no requirement; one that no formula describes has no frontier."""
    assert frontier.scale_section(ran(tmp_path, "failures=[]")) is None
    assert frontier.section(ran(tmp_path, "failures=[]")) is None
    job = "jobs=[{name: train, gpus: 992, step_time: 10 s, parallelism: {data: 992}}]"
    without = ran(tmp_path, job, "recovery={use: restart-smaller, launch: 1 min}", replications=1)
    assert sim.closed_form(present(without.focus).prepared).ettr is None
    assert frontier.section(without) is None
    section = present(frontier.scale_section(without))
    assert [series.name for series in section.items[1].chart.series] == ["simulated"]  # type: ignore[union-attr]


PUBLISHED = {
    ("mtti", "Llama 3 405B"): (54 * 86400 / 466, 54 * 86400 / 466),
    ("mtti", "Meta RSC-1, 1,024 GPUs"): (7.85 * 3600, 7.95 * 3600),
    ("mtti", "Meta RSC-1, 8 GPUs"): (47.65 * 86400, 47.75 * 86400),
    ("mtti", "Meta, 32,768 GPUs"): (24000 / 2.35 / 4096 * 3600, 24000 / 2.25 / 4000 * 3600),
    ("mtti", "Meta, 98,304 GPUs"): (17.5 * 60, 18.5 * 60),
    ("mtti", "OPT-175B"): (56.5 * 86400 / 95, 56.5 * 86400 / 85),
    ("ettr", "Llama 3 405B"): (0.90, 0.90),
    ("ettr", "OPT-175B"): (0.58, 0.60),
    ("ettr", "BLOOM"): (0.87, 0.92),
    ("ettr", "MegaScale"): (0.90, 0.90),
}

"""Ends of what is published, or of what rounds to it."""


def test_every_measured_point_has_a_source_and_is_inside_of_what_was_published() -> None:
    """No point without a source that says how it is known; bounds and doubts are marked as such."""
    seen = set()
    for quantity in ("mtti", "ettr"):
        for point in measured_points(quantity):
            assert point.source.strip()
            assert point.basis in KNOWN
            assert point.gpus > 0
            low, high = PUBLISHED.get((quantity, point.name), (0.0, math.inf))
            assert low * (1 - 1e-9) <= point.value <= high * (1 + 1e-9), point.name
            seen.add((quantity, point.name))
            assert point.range is None or point.range[0] <= point.value <= point.range[1]
    assert PUBLISHED.keys() <= seen
    assert [point.name for point in measured_points("ettr") if point.is_bound] == ["MegaScale", "Llama 3 405B"]
    assert largest_measured("ettr") == 16_384


def leaves(content: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of all values of plain data; laws, and other mappings of values, are looked into as well."""
    if isinstance(content, dict) and content:
        for key, value in content.items():
            if key not in LABELS:
                yield from leaves(value, f"{path}.{key}" if path else key)
    elif isinstance(content, list) and any(isinstance(part, dict) for part in content):
        for index, part in enumerate(content):
            yield from leaves(part, f"{path}.{index}")
    else:
        yield path


@cases(
    ("name", "changes"),
    [
        ("quickstart", ()),
        ("llama3-405b-54d", ()),
        ("recovery-16k", ("recovery.use=nvrx-in-process",)),
        ("airesim-defaults", ()),
        ("replay", ()),
    ],
)
def test_every_value_of_a_scenario_is_named_exactly_once(name: str, changes: tuple[str, ...]) -> None:
    """Each value of the dump is in one input, as itself or inside of a law; no input is invented or told twice."""
    scenario = scenario_of(*changes, name=name)
    paths = [one.path for one in stated_inputs(scenario)]
    assert max(Counter(paths).values()) == 1
    for leaf in leaves(scenario.dump()):
        assert sum(leaf == path or leaf.startswith(f"{path}.") for path in paths) == 1, leaf
    dumped = list(leaves(scenario.dump()))
    assert all(any(leaf == path or leaf.startswith(f"{path}.") for leaf in dumped) for path in paths)


def basis_of(scenario: Scenario) -> dict[str, tuple[str, str]]:
    """Return basis and source of inputs by path."""
    return {one.path: (one.basis, one.source) for one in stated_inputs(scenario)}


def test_an_assumption_is_the_source_of_values_that_it_names_and_of_no_others() -> None:
    """The same amount in another part, or another amount of the same part, is not what an assumption speaks of."""
    guesses = 'assumptions=["detection 300 s: a guess", "a save takes 31 s"]'
    worded = basis_of(scenario_of(guesses, "recovery.initialize=5 min"))
    assert worded["detection.time"] == ("assumed", "detection 300 s: a guess")  # 5 min, in other words
    assert worded["checkpoint.tiers.0.write"] == ("stated", "")  # 30 s
    assert worded["recovery.initialize"] == ("stated", "")


def test_inputs_say_what_was_measured_what_is_of_a_preset_and_what_was_left_out() -> None:
    """A rate with counted events is measured, a value of a preset is not the scenario's, a default is the program's."""
    worded = basis_of(scenario_of())
    assert worded["failures.1.rate"] == ("measured", "a log of ours")
    assert worded["failures.1.damage"] == ("default", "")
    assert worded["failures.0.rate"] == ("stated", "")
    changed = ("recovery.use=nvrx-in-process", "recovery.no_progress=9")
    preset = basis_of(scenario_of(*changed, name="recovery-16k"))
    assert preset["recovery.rungs.0.pools"][0] == "preset"
    assert preset["checkpoint.tiers.1.interval"][0] == "preset"
    assert preset["checkpoint.tiers.0.interval"][0] == "assumed"
    assert preset["recovery.no_progress"][0] == "stated"
    assert preset["failures.0.use"][0] == "measured"


def test_tables_of_inputs_hold_every_input_and_explain_every_basis(run: ReportData) -> None:
    """What is not in the tables of its part is in that of what was left out; no cell is empty."""
    tables = grids(basis.section(run))
    rows = [row for title, grid in tables.items() if title not in ("Meaning of the bases",) for row in grid.rows]
    named = {row[0] for row in rows}
    for _, one in basis.all_inputs(run):
        generic = ".".join("*" if part.isdigit() else part for part in one.path.split("."))
        assert one.path in named or generic in named
    assert all(cell for row in rows for cell in row)
    assert {row[0] for row in tables["Meaning of the bases"].rows} == BASES.keys()


STUDY = {
    "name": "unknowns",
    "scenario": "scenario.resolved.yaml",
    "vary": {
        "spares.hot": {"title": "spares", "choices": [2, 4]},
        "failures.0.rate": {
            "title": "rate",
            "distribution": {"use": "between", "p05": "5 per 1000 node-day", "p95": "8 per 1000 node-day"},
            "basis": "measured",
            "source": "forty failures",
        },
        "repair.time": {
            "distribution": {"use": "between", "p05": "6 h", "p95": "2 d"},
            "basis": "assumed",
        },
        "recovery.initialize": {
            "distribution": {"use": "uniform", "min": "3 min", "max": "5 min"},
            "basis": "measured",
            "source": "ten restarts",
        },
    },
}


def estimate(value: float) -> dict[str, Any]:
    """Return an estimate without an interval."""
    return {"value": value, "ci95": None}


def sensitivity(folder: Path, first: dict[str, float], study: dict[str, Any] | None = None) -> ReportData:
    """Return a sensitivity whose inputs bring 80 % of the variance, noise 15 %, and both together 5 %."""
    scenario = scenario_of("horizon=4 d")
    (folder / "scenario.resolved.yaml").write_text(json.dumps(scenario.dump()), encoding="utf-8")
    (folder / "study.resolved.yaml").write_text(json.dumps(study or STUDY), encoding="utf-8")
    content = {
        "study": "unknowns",
        "metric": "ettr",
        "replications": 2,
        "center": {
            "values": {
                "spares.hot": "4",
                "failures.0.rate": "6 per 1000 node-day",
                "repair.time": "1 d",
                "recovery.initialize": "4 min",
            }
        },
        "tornado": None,
        "indices": {
            "rows": 8,
            "reason": "",
            "variance": {
                name: {"variance": 1.0, "share": estimate(share)}
                for name, share in (("parameters", 0.8), ("noise", 0.15), ("both", 0.05))
            },
            "by_axis": [
                {"axis": axis, "first": estimate(share), "total": estimate(share)} for axis, share in first.items()
            ],
        },
        "indices_missing": "",
    }
    report_data = ReportData(FolderResults(folder, "sensitivity", {"sensitivity.json": content}))
    center = SimpleNamespace(values=content["center"]["values"])
    report_data.__dict__["sensitivity_document"] = SimpleNamespace(center=center, replications=content["replications"])
    return report_data


@cases("sums_to", [0.9, 1.3])
def test_shares_of_the_variance_are_those_of_the_groups_and_add_up_to_the_whole(tmp_path: Path, sums_to: float) -> None:
    """Measured, assumed and chosen inputs, what they do together, noise and both: 100 %, also of noisy estimates."""
    first = {"spares.hot": 0.2, "failures.0.rate": 0.2, "recovery.initialize": 0.1, "repair.time": sums_to - 0.5}
    report_data = sensitivity(tmp_path, first)
    section = present(basis.basis_section(report_data))
    shares = basis._shares(report_data.of("sensitivity.json") or {}, present(report_data.study).study.vary)
    parts = {name: 100 * share for name, share in (shares or {}).items()}
    assert sum(parts.values()) == pytest.approx(100, rel=1e-12)
    assert min(parts.values()) >= -1e-12
    shrunk = max(sums_to, 1.0)
    assert parts["measured inputs"] == pytest.approx(80 * 0.3 / shrunk)
    assert parts["assumed inputs"] == pytest.approx(80 * (sums_to - 0.5) / shrunk)
    assert parts["inputs only together"] == pytest.approx(80 * (1 - sums_to / shrunk))
    assert (parts["noise of one run"], parts["noise together with inputs"]) == (15, 5)
    assert all(name in plain(section.text[0]) for name in parts)


def test_without_indices_inputs_are_counted_and_the_command_that_weighs_them_is_named(tmp_path: Path) -> None:
    """The title counts every input that is not left out once; there is no share of any variance."""
    report_data = sensitivity(tmp_path, {})
    report_data.main["indices"], report_data.main["indices_missing"] = None, "one input alone"
    section = present(basis.basis_section(report_data))
    total = sum(one.basis != "default" for _, one in basis.all_inputs(report_data))
    assert section.title.startswith(f"{total} inputs: ")
    assert sum(int(count) for count in re.findall(r"[:,d] (\d+) ", section.title)) == total
    assert "ettrick sensitivity" in str(section.text[1])
    assert "one input alone" in section.notes[0]


@cases("basis_of_axis", ["measured", "published"])
def test_a_basis_that_somebody_vouches_for_needs_to_say_who(basis_of_axis: str) -> None:
    """Measured and published want a source; assumed does not, and another word is refused."""
    values = {"choices": [1, 2]}
    with pytest.raises(ValidationError, match="needs a source"):
        Axis.model_validate({**values, "basis": basis_of_axis})
    with pytest.raises(ValidationError, match="basis"):
        Axis.model_validate({**values, "basis": "guessed"})
    assert Axis.model_validate({**values, "basis": "assumed"}).basis == "assumed"
    assert Axis.model_validate({**values, "basis": basis_of_axis, "source": "a log"}).source == "a log"


def validated() -> dict[str, Any]:
    """Return the recorded run of two groups, in which one row has failed."""
    content = present(validation.recorded())
    found = documents.plain(content)
    found["groups"] = [group for group in found["groups"] if group["name"] in ("daly", "meta_rsc")]
    found["groups"][0]["rows"][0] |= {"verdict": "fail", "reason": "because we say so"}
    verdicts = Counter(row["verdict"] for group in found["groups"] for row in group["rows"])
    found["counts"] = {state: verdicts.get(state, 0) for state in ("pass", "fail", "skipped")}
    found["provenance"] = {"version": "1", "python": "3", "numpy": "2", "command": "ettrick validate"}
    return found


def test_a_validation_is_shown_whole_with_papers_inputs_tolerances_and_failures(tmp_path: Path) -> None:
    """Every row with all its cells, every paper, input and reason of a tolerance, what is left out, and what failed."""
    content = validated()
    report_data = ReportData(FolderResults(tmp_path, "validate", {"validate.json": content}))
    section = present(validation.section(report_data))
    tables = grids(section)
    cells = {cell for grid in tables.values() for row in grid.rows for cell in row}
    worded = "\n".join(cells)
    for group in content["groups"]:
        for row in group["rows"]:
            assert row["id"] in cells
            assert row["paper"] in worded
            assert row["tolerance"]["why"] in worded
            assert {row["where"], row["inputs"], row["quantity"], row["label"]} <= cells
        # Conventions are told once for a table: at its rows there is a letter at most.
        table = tables[f"{group['title']} ({group['name']})"]
        meant = {conventions(row["conventions"]) for row in group["rows"]}
        assert all(words in table.note for words in meant)
        assert not meant & {cell for row in table.rows for cell in row if cell}
        for row, shown in zip(group["rows"], table.rows, strict=True):
            letter = dict(zip((column.head for column in table.columns), shown, strict=True)).get("conventions")
            assert (letter is None) == (len(meant) == 1)
            words = conventions(row["conventions"]) or "none that matter"
            assert letter is None or re.search(rf"\b{letter}: {re.escape(words)}[;.]", table.note)
    assert "because we say so" in cells
    assert len(tables["Not checked"].rows) == len(content["not_checked"])
    total = sum(content["counts"].values())
    assert section.title == f"{total - 1} of {total} comparisons are within their limits"
    assert f"1 of {total} rows failed: {content['groups'][0]['rows'][0]['id']}" in section.text
    picture = present(validation.opening(report_data).picture)
    largest = [bar.values[0] for bar in picture.chart.rows]
    assert all(value is not None and 0 < value <= 100 for value in largest)


def test_a_report_says_what_made_it_and_how_to_make_it_again(run: ReportData, tmp_path: Path) -> None:
    """Version, command, seed, digest, every assumption and warning; with commands for the folder alone."""
    # What a queue that grows without end leaves of a metric: a mean and an interval that are null, and nothing else.
    metrics = {**run.main["metrics"], "wait_first": {"mean": None, "mean_ci95": None}}
    content = {**run.main, "warnings": ["mind the gap"], "metrics": metrics}
    run = ReportData(run.results._replace(documents={"run.json": content}))
    section = reproduction_section(run)
    worded = "\n".join(
        [*map(str, section.text), *(cell for grid in grids(section).values() for r in grid.rows for cell in r)]
    )
    provenance = {name: text for name, text in run.main["provenance"].items() if name != "sha256"}
    for text in (*provenance.values(), *run.main["assumptions"], *run.main["notes"], *run.main["warnings"]):
        assert text in worded
    assert "ettrick run DIR/scenario.resolved.yaml --replications 2 --out NEW" in worded
    assert [str(step).partition(".")[0] for step in section.text] == [str(n + 1) for n in range(len(section.text))]
    lines = "\n".join(footer(run))
    assert all(text in lines for text in provenance.values())
    assert f"seed {run.main['seed']}" in lines
    checked = ReportData(FolderResults(tmp_path, "validate", {"validate.json": validated()}))
    assert "ettrick validate --seed 1 --out NEW" in "\n".join(map(str, reproduction_section(checked).text))
    assert "seed 1" in footer(checked)[0]

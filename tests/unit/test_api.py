"""The public Python API: its surface is pinned, its results are those of the commands, its mistakes are one line."""

from __future__ import annotations

import functools
import inspect
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pydantic
import pytest
import yaml
from typer.testing import CliRunner

from ettrick import cli, sim
from ettrick.analysis import api
from ettrick.analysis.logs import pipeline
from ettrick.analysis.results.fitted import FitDocument
from ettrick.analysis.results.models import CompareDocument, RunDocument
from ettrick.analysis.results.studies import SweepDocument
from tests import report_sample
from tests.cases import cases

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = f"most_events: 'float' = {sim.MOST_EVENTS:.0f}.0"

CHANGES = "changes: 'Mapping[str, Any] | Iterable[str]' = ()"

SURFACE = {
    "Plot": "(title: 'str', figure: 'Any') -> None",
    "compare": "(scenarios: 'str | Path | Sequence[str | Path]', "
    "vary: 'Mapping[str, Sequence[Any]] | Iterable[str]' = (), "
    f"{CHANGES}, replications: 'int' = 32, *, processes: 'int' = 1, {EVENTS}) -> 'Results[CompareDocument]'",
    "fit": "(logs: 'str | Path | Sequence[str | Path]', *, inventory: 'str | Path' = '', nodes: 'int | None' = None, "
    "timezone: 'Sequence[str]' = (), kinds: 'Mapping[str, str] | None' = None, name: 'str' = 'fitted') -> "
    "'Results[FitDocument]'",
    "load": f"(scenario: 'str | Path', {CHANGES}) -> 'Scenario'",
    "prepare": "(scenario: 'str | Path | Scenario') -> 'Prepared'",
    "report": "(results: 'Results[Any] | str | Path', path: 'str | Path') -> 'Path'",
    "run": f"(prepared: 'Prepared', replication: 'int' = 0, *, {EVENTS}) -> 'Result'",
    "simulate": "(scenario: 'str | Path | Scenario | Prepared', replications: 'int | None' = None, *, "
    "precision: 'str | None' = None, metric: 'str | None' = None, processes: 'int' = 1, "
    f"{EVENTS}) -> 'Results[RunDocument]'",
    "sweep": f"(study: 'str | Path', {CHANGES}, replications: 'int | None' = None, *, "
    f"out: 'str | Path | None' = None, processes: 'int' = 1, {EVENTS}) -> 'Results[SweepDocument]'",
}

METHODS = {
    "to_json": "(self) -> 'str'",
    "to_dict": "(self) -> 'dict[str, Any]'",
    "to_columns": "(self) -> 'dict[str, list[Any]]'",
    "to_dataframe": "(self) -> 'Any'",
    "save": "(self, folder: 'str | Path', *, overwrite: 'bool' = False) -> 'Path'",
    "plots": "(self) -> 'dict[str, str]'",
    "plot": "(self, name: 'str | None' = None) -> 'Plot'",
}

STATISTICS = ["mean", "mean_low95", "mean_high95", "std", "p05", "p50", "p95"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of a small scenario."""
    path: Path = tmp_path_factory.mktemp("api") / "small.yaml"
    path.write_text(yaml.safe_dump(report_sample.SMALL))
    return path


@pytest.fixture(scope="module")
def found(small: Path) -> api.Results[RunDocument]:
    """Return four replications of it."""
    return api.simulate(small, 4)


def test_the_surface_is_pinned() -> None:
    """Names, parameters, their order and defaults: who changes one changes what the reference promises."""
    assert sorted([*SURFACE, "Results"]) == sorted(api.__all__)
    assert {name: str(inspect.signature(getattr(api, name))) for name in SURFACE} == SURFACE
    public = {name: each for name, each in vars(api.Results).items() if name[0] != "_" and inspect.isfunction(each)}
    assert {name: str(inspect.signature(each)) for name, each in public.items()} == METHODS
    for value in (*map(vars(api).get, SURFACE), *public.values()):
        assert value.__doc__, value


def test_an_import_brings_nothing_heavy() -> None:
    """Who imports the API waits for no simulator, no scipy and no matplotlib."""
    heavy = "{'sim', 'scipy', 'numpy', 'matplotlib', 'networkx', 'pydantic', 'typer'}"
    line = f"import ettrick.analysis.api, sys; print({heavy} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", line], text=True).strip() == "set()"


def test_results_are_those_of_the_command(small: Path, found: api.Results[RunDocument], tmp_path: Path) -> None:
    """The document of a run is that of ettrick run but for how it was made, and so is what it is saved as."""
    answer = CliRunner().invoke(cli.app, ["run", str(small), "-n", "4", "--json", "--out", str(tmp_path / "command")])
    ours, theirs = found.to_dict(), json.loads(answer.stdout)
    assert ours.pop("provenance")["scenario_sha256"] == theirs.pop("provenance")["scenario_sha256"]
    assert ours == theirs
    found.save(tmp_path / "api")
    assert sorted(path.name for path in (tmp_path / "api").iterdir()) == ["run.json", "scenario.resolved.yaml"]
    resolved = [(tmp_path / name / "scenario.resolved.yaml").read_text() for name in ("api", "command")]
    assert resolved[0] == resolved[1]
    # What a script prepares, and what it changes, is the same.
    prepared = api.prepare(api.load(small, {"seed": 1}))
    assert api.simulate(prepared, 4).document.metrics == found.document.metrics
    assert api.run(prepared, 2).counts == sim.run(prepared, 2).counts
    assert api.load(small, {"spares.hot": 1, "horizon": "3 d"}) == api.load(small, ["spares.hot=1", "horizon=3 d"])
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        found.document.replications = 5  # type: ignore[misc]


def test_tables_have_a_row_for_each_number(found: api.Results[RunDocument]) -> None:
    """The columns of a run are the metrics of the document; a notebook shows the same rows, escaped."""
    columns = found.to_columns()
    assert list(columns) == ["job", "metric", *STATISTICS]
    metrics = found.document.metrics
    assert dict(zip(columns["metric"], columns["mean"], strict=True)) == {key: row.mean for key, row in metrics.items()}
    low = dict(zip(columns["metric"], columns["mean_low95"], strict=True))
    assert low["ettr"] is not None
    assert low["ettr"] == (metrics["ettr"].mean_ci95 or (None,))[0]
    shown = found._repr_html_()
    assert shown.count("<tr>") == len(metrics) + 1
    assert f"<td>{metrics['ettr'].mean:.6g}</td>" in shown
    assert api._cell("a<b>") == "a&lt;b&gt;"


def test_a_data_frame_needs_pandas(found: api.Results[RunDocument], monkeypatch: pytest.MonkeyPatch) -> None:
    """With pandas numbers stay numbers in a frame; without it an error names the package and what does without."""
    frame = found.to_dataframe()  # lifelines brings pandas to who develops
    assert list(frame.columns) == list(found.to_columns())
    assert frame["mean"].dtype == float
    assert frame.query("metric == 'ettr'")["mean"].item() == found.document.metrics["ettr"].mean
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"^to_dataframe needs pandas \(pip install pandas\); to_columns does not$"):
        found.to_dataframe()


def test_compare_and_its_report(small: Path, tmp_path: Path) -> None:
    """Differences are those of the document; pictures and the report are made without a folder of one's own."""
    both = api.compare(str(small), {"checkpoint.tiers.0.interval": ["10 min", "2 h"]}, {"seed": 7}, 3)
    assert both.document.seed == 7
    assert isinstance(both.document, CompareDocument)
    columns = both.to_columns()
    assert list(columns) == ["variant", "metric", *STATISTICS, "difference", "difference_low95", "difference_high95"]
    last = "checkpoint.tiers.0.interval=2 h"
    assert {"checkpoint.tiers.0.interval=10 min", last} == set(both.document.variants)
    place = list(zip(columns["variant"], columns["metric"], strict=True)).index((last, "ettr"))
    apart = both.document.variants[last].difference["ettr"]
    assert columns["difference"][place] == (apart and apart.mean)
    found = [row.difference for row in both.document.variants.values()]
    ends = [
        (each and each.ci95) or (None, None) for row in found for each in (row.get(key) for key in columns["metric"])
    ]
    lows = [
        low for low, high in zip(columns["difference_low95"], columns["difference_high95"], strict=True) if low != high
    ]
    assert lows
    assert set(lows) <= {low for low, _ in ends}
    assert "at-a-glance" in both.plots()
    plot = both.plot("at-a-glance")
    assert plot.title == both.plots()["at-a-glance"]
    assert plot._repr_svg_().startswith("<?xml")
    assert plot.save(tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert api.report(both, tmp_path / "report.md").read_text().startswith("# ")
    names = ["compare.json", "variant-1.resolved.yaml", "variant-2.resolved.yaml"]
    assert sorted(path.name for path in both.save(tmp_path / "kept").iterdir()) == names


def test_sweep_goes_on_where_it_was(small: Path, tmp_path: Path) -> None:
    """A study is answered with or without a folder, and in the same one nothing is simulated twice."""
    study = tmp_path / "study.yaml"
    vary = {"spares.hot": {"choices": [0, 1]}}
    study.write_text(yaml.safe_dump({"name": "s", "scenario": str(small), "replications": 2, "vary": vary}))
    kept = api.sweep(study, out=tmp_path / "kept")
    assert isinstance(kept.document, SweepDocument)
    journal = (tmp_path / "kept" / "journal.jsonl").read_bytes()
    passing = api.sweep(study)
    assert api.sweep(study, out=tmp_path / "kept").document.cells == kept.document.cells == passing.document.cells
    assert (tmp_path / "kept" / "journal.jsonl").read_bytes() == journal
    columns = passing.to_columns()
    assert list(columns) == ["spares.hot", "metric", *STATISTICS]
    assert sorted(set(columns["spares.hot"])) == [0, 1]
    frame = passing.to_dataframe()
    assert {name for name in frame if frame[name].dtype.kind in "if"} == {"spares.hot", *STATISTICS}
    assert len(columns["metric"]) == 2 * len(passing.document.metrics)
    saved = passing.save(tmp_path / "saved")
    assert sorted(path.name for path in saved.iterdir()) == sorted(path.name for path in (tmp_path / "kept").iterdir())


def test_fit_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outages of a CSV come out as causes with rates, and the model is written beside the document."""
    # Two simulations of the model beside the data instead of many, and none of what the failures would cost.
    monkeypatch.setattr(pipeline, "_cost", lambda _folder, _document, _progress: None)
    monkeypatch.setattr(pipeline, "FitOptions", functools.partial(pipeline.FitOptions, simulations=2))
    lines = [f"n{k % 20},2026-01-{1 + k:02d} 0{k % 9}:00:00,2026-01-{1 + k:02d} 12:00:00,gpu" for k in range(12)]
    (tmp_path / "outages.csv").write_text("\n".join(["node,start,end,cause", *lines]) + "\n")
    fitted = api.fit(tmp_path / "outages.csv", nodes=20, timezone=["UTC"])
    assert isinstance(fitted.document, FitDocument)
    assert fitted.to_columns()["events"] == [row.events for row in fitted.document.causes] != []
    names = {path.name for path in fitted.save(tmp_path / "fit").iterdir()}
    assert {"fit.json", "failures.yaml"} <= names


@cases(
    ("call", "message"),
    [
        (
            lambda small, _: api.load("quickstrat"),
            "quickstrat: no such file or bundled scenario; did you mean",
        ),
        (lambda small, _: api.load(small, {"spare": 1}), "changes spare=1: spare: unknown key 'spare'; did you mean"),
        (lambda small, _: api.load(small, ["spare"]), "changes spare: needs path=value, for example horizon='30 d'"),
        (lambda small, _: api.load("spares-to-finish"), "spares-to-finish: is a study, not a scenario: use sweep"),
        (lambda small, _: api.sweep("quickstart"), "quickstart: is a scenario, not a study: use simulate"),
        (lambda small, _: api.sweep("spares-to-finish", {"x": 1}), "changes x=1: x: unknown key 'x'"),
        (lambda small, _: api.simulate(small, 2, processes=-1), "processes: must be a whole number from 0, got -1"),
        (lambda small, _: api.simulate(small, 2, most_events=1), "allow them with most_events, or simulate"),
        (lambda small, _: api.run(api.prepare(small), most_events=1), "allow them with most_events, or simulate"),
        (lambda small, _: api.compare(small, ["seed"]), "vary seed: needs path=value,value, for example recovery"),
        (lambda small, _: api.compare(small, {"seed": [1, 2]}, {"seed": 3}), "is varied too, by vary seed; set it"),
        (lambda small, _: api.fit([]), "logs: must name one file or more"),
        (lambda small, _: api.fit(__file__), "name its kind with kinds={'test_api.py'"),
        (
            lambda small, _: api.load(small, "seed=1"),
            "changes: a mapping or a list of texts, such as ['seed=1'], not one",
        ),
        (lambda small, _: api.simulate(small, 0), "replications: must be a whole number from 1, got 0"),
        (lambda small, _: api.simulate(small, 2.5), "replications: must be a whole number from 1, got 2.5"),
        (lambda small, _: api.simulate(small, 2, precision="1"), "'1' is not a precision: write 0.1pt"),
        (lambda small, _: api.compare(str(small)), "nothing to compare; add two values or more of a key to vary"),
        (lambda small, _: api.compare(str(small), {"seed": [1, 2]}, replications=1), "seed: is 1 and 2; variants meet"),
        (lambda small, _: api.sweep("spares"), "spares: no such file or bundled study"),
        (lambda small, _: api.fit("nowhere.log"), "nowhere.log: cannot be read"),
        (lambda small, _: api.report("nowhere", "x.html"), "nowhere: "),
        (lambda small, _: api.report("nowhere", "x.doc"), "x.doc: must end in .html, .md or .pptx"),
        (lambda _, found: found.plot("loses"), "unknown picture 'loses'; did you mean 'losses'?"),
        (lambda _, found: found.plot().save("x.doc"), "x.doc: must end in .svg, .png, .pdf"),
        (lambda small, found: found.save(small.parent), "is not empty; choose another folder, or pass overwrite=True"),
    ],
)
def test_mistakes_are_one_line(call: Any, message: str, small: Path, found: api.Results[RunDocument]) -> None:
    """What is wrong raises an error whose text is one line, of the command where it has one."""
    with pytest.raises((ValueError, TypeError, FileExistsError)) as error:
        call(small, found)
    assert message in str(error.value)
    assert "\n" not in str(error.value)

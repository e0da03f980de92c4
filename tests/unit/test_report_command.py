"""``ettrick report`` and ``ettrick plot``: from folders of results to files, and one line where there are none."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ettrick.analysis.page import build
from ettrick.analysis.page.formats import markdown
from ettrick.analysis.page.report_data import ReportData, ReportError, read_results
from tests import golden, report_sample
from tests.cases import cases, mistake_lines
from tests.report_folders import results

DONE, WRONG = 0, 2


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of the small scenario, in an empty working folder."""
    return report_sample.write(tmp_path, monkeypatch)


def call(*arguments: str) -> Any:
    """Run a command in this process."""
    return report_sample.call(*arguments)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a comparison of two variants, which stays as it is."""
    home = tmp_path_factory.mktemp("comparison")
    (home / "small.yaml").write_text(report_sample.YAML)
    vary = ("--vary", "recovery.initialize=3 min,30 min", "--replications", "3", "--out", str(home / "compared"))
    assert call("compare", str(home / "small.yaml"), *vary).exit_code == DONE
    return home / "compared"


@pytest.fixture
def compared(scenario: str, comparison: Path) -> str:
    """Return a copy of it in the working folder, beside the scenario."""
    shutil.copytree(comparison, "compared")
    return "compared"


def refused(result: Any, *words: str) -> None:
    """Check that a command ended with one line, status 2 and nothing on standard output."""
    assert (result.exit_code, result.stdout) == (WRONG, "")
    assert len(mistake_lines(result.stderr)) == 1
    for word in words:
        assert word in result.stderr


def test_compare_keeps_what_it_prints_and_scenarios_that_can_be_run(scenario: str) -> None:
    """The document is that of --json but for the command; each variant's file gives the variant's numbers again."""
    vary = ("--vary", "recovery.initialize=3 min,30 min", "--replications", "3")
    printed = json.loads(call("compare", scenario, *vary, "--json", "--out", "kept").stdout)
    assert json.loads(Path("kept/compare.json").read_text(encoding="utf-8")) == printed
    for number, name in enumerate(printed["variants"], start=1):
        alone = json.loads(call("run", f"kept/variant-{number}.resolved.yaml", "--replications", "3", "--json").stdout)
        assert alone["metrics"]["ettr"] == printed["variants"][name]["metrics"]["ettr"]


def test_compare_replaces_only_the_same_variants(scenario: str, compared: str) -> None:
    """More replications are the same comparison; another variant is not; with --overwrite files of old ones go."""
    same = ("compare", scenario, "--vary", "recovery.initialize=3 min,30 min", "--out", compared, "--replications")
    assert call(*same, "4").exit_code == DONE
    other = ("compare", scenario, "--vary", "recovery.initialize=3 min,20 min,30 min", "--out", compared)
    refused(call(*other, "--replications", "2"), f"--out {compared}", "--overwrite")
    assert call(*other, "--replications", "2", "--overwrite").exit_code == DONE
    assert len(list(Path(compared).glob("variant-*.resolved.yaml"))) == 3
    assert call(*same, "2", "--overwrite").exit_code == DONE
    assert sorted(path.name for path in Path(compared).iterdir()) == [
        "compare.json",
        "variant-1.resolved.yaml",
        "variant-2.resolved.yaml",
    ]


@pytest.mark.parametrize("kind", ["html", "md", "pptx"])
def test_report_is_written_beside_the_results_and_twice_the_same(compared: str, kind: str) -> None:
    """Without --out the file lies in the folder; the second time it is the same to the last byte."""
    if kind == "pptx":
        pytest.importorskip("pptx", reason="needs the extra report")
    result = call("report", compared, "--format", kind)
    assert (result.exit_code, result.stderr) == (DONE, "")
    path = Path(compared) / f"report.{kind}"
    assert result.stdout.startswith(f"{path}: ")
    assert result.stdout.rstrip().endswith({"html": "pictures", "md": "pictures as tables", "pptx": "slides"}[kind])
    first = path.read_bytes()
    assert len(first) > 1000
    assert call("report", compared, "--out", f"again.{kind}", "--quiet").stdout == ""
    assert Path(f"again.{kind}").read_bytes() == first


def test_report_of_a_file_that_cannot_be_is_refused(compared: str) -> None:
    """Another ending, a folder in the place of the file, and a format nobody knows."""
    refused(call("report", compared, "--out", "report.docx"), "--out report.docx", ".html", "--format")
    refused(call("report", compared, "--out", "."), "--out")
    Path("folder.html").mkdir()
    refused(call("report", compared, "--out", "folder.html"), "--out folder.html", "is a folder")
    refused(call("report", compared, "--format", "docx"), "docx")
    refused(call("report", compared, "--out", "report.html", "--format", "md"), "--format md", ".html")
    refused(call("report", compared, "--out", "report"), "--out report", "--format")
    assert call("report", compared, "--out", "report.txt", "--format", "md").exit_code == DONE
    assert not Path("report.html").exists()


def test_a_folder_without_results_is_refused() -> None:
    """Whatever is wrong with a folder is told in one line with its name."""
    refused(call("report", "nowhere"), "nowhere: no such folder")


@cases(
    ("files", "words"),
    [
        ({}, "holds no results"),
        ({"run.json": "{"}, "run.json cannot be read"),
        ({"run.json": "[]"}, "run.json is not a document"),
        ({"run.json": "{}"}, "run.json is not a document that this version"),
        ({"journal.jsonl": ""}, "not finished"),
    ],
)
def test_what_is_no_result_is_told(tmp_path: Path, files: dict[str, str], words: str) -> None:
    """Each kind of wrong folder has its own words."""
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ReportError, match=words):
        read_results(tmp_path)


def rewritten(folder: str, name: str, at: tuple[Any, ...], value: Any, *, is_old: bool) -> None:
    """Change one place of a document, or remove it (``...``); of an old one there is no checksum."""
    path = Path(folder, name)
    content = json.loads(path.read_text(encoding="utf-8"))
    holder = content
    for step in at[:-1]:
        holder = holder[step]
    if value is ...:
        del holder[at[-1]]
    else:
        holder[at[-1]] = value
    if is_old:
        del content["provenance"]["sha256"]
    path.write_text(json.dumps(content), encoding="utf-8")


VARIANT = ("variants", "recovery.initialize=3 min")


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (("replications",), "three", 'replications: must be a whole number, not "three"'),
        (("order",), ["nobody"], "names the variant 'nobody', which is not there"),
        ((*VARIANT, "metrics", "ettr", "mean"), [1], ".metrics.ettr.mean: must be a number, not [1]"),
        ((*VARIANT, "metrics", "ettr", "mean_ci95"), [0.5], "metrics.ettr.mean_ci95: list should have at least 2"),
        ((*VARIANT, "time_shares"), ..., "variants.recovery.initialize=3 min.time_shares: is missing"),
        ((*VARIANT, "per_job"), 7, "per_job: must be a mapping, not 7"),
        (("also_differ",), {"seed": {"nobody": 1}}, "names the variant 'nobody', which is not there"),
        (("stores",), {VARIANT[1]: {"gain": None}}, "stores.recovery.initialize=3 min.rest: is missing"),
    ],
)
def test_a_damaged_document_is_a_line_that_names_the_place(compared: str, at: Any, value: Any, words: str) -> None:
    """For a report and for a picture alike: file, path in the document, what should be there and what is."""
    rewritten(compared, "compare.json", at, value, is_old=True)
    refused(call("report", compared), f"{compared}: compare.json: ", words, "; write the results again")
    refused(call("plot", compared), f"{compared}: compare.json: ", words)


def test_a_document_whose_numbers_were_changed_is_refused(compared: str) -> None:
    """The shape is right, but the checksum does not fit: nobody reports a number that was not simulated."""
    rewritten(compared, "compare.json", (*VARIANT, "metrics", "ettr", "mean"), 0.999, is_old=False)
    refused(call("report", compared), "compare.json: was changed after it was written (provenance.sha256 does not fit)")


def test_a_document_of_the_release_before_is_reported(scenario: str) -> None:
    """It has no checksum, and why no closed form applies stands among the assumptions."""
    odd = ("--set", "jobs.0.periodic=[{every: 1 h, time: 5 min, name: evaluation}]")
    assert call("run", scenario, *odd, "--replications", "3", "--out", "old").exit_code == DONE
    path = Path("old/run.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    formula = content["closed_form"]
    assert formula["ettr"] is None
    formula["assumptions"] = formula.pop("reasons")
    del content["interrupted"], content["repair_from"], formula["applies"], content["provenance"]["sha256"]
    path.write_text(json.dumps(content), encoding="utf-8")
    assert call("report", "old", "--out", "old.md").exit_code == DONE
    assert formula["assumptions"][0] in Path("old.md").read_text(encoding="utf-8")


def test_what_does_not_fit_together_is_a_line_only_if_something_is_not_as_it_was_written(
    compared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a document without a checksum a failure is told in a line; of a whole one it is a fault of the program."""

    def broken(*_: Any) -> None:
        message = "mean"
        raise KeyError(message)

    monkeypatch.setattr(build, "explorer_data", broken)
    with pytest.raises(KeyError):
        call("report", compared)
    rewritten(compared, "compare.json", ("seed",), 1, is_old=True)
    refused(
        call("report", compared),
        "compare.json: no report can be made of it and of the other files of its folder (KeyError",
    )


def test_a_damaged_table_of_a_sweep_is_a_line(scenario: str) -> None:
    """A cell that is no number is named with its line and column."""
    Path("study.yaml").write_text(
        "name: s\nscenario: small.yaml\nvary: {spares.hot: {choices: [0, 1]}}\nreplications: 2\n"
    )
    assert call("sweep", "study.yaml", "--out", "found", "--executor", "serial").exit_code == DONE
    text = Path("found/results.csv").read_text(encoding="utf-8").splitlines()
    Path("found/results.csv").write_text("\n".join([text[0], text[1][:-1] + "x", *text[2:]]) + "\n", encoding="utf-8")
    last = text[0].split(",")[-1]
    with pytest.raises(ReportError, match=rf"^results.csv:2: {re.escape(last)} is not what ettrick sweep writes"):
        assert ReportData(read_results(Path("found"))).table
    refused(call("report", "found"), "results.csv:2: ")


def test_a_scenario_that_is_gone_is_told(compared: str) -> None:
    """Results without the scenario beside them cannot be played again, and the line says which file is missing."""
    for path in Path(compared).glob("variant-*"):
        path.unlink()
    refused(call("report", compared), f"{compared}: ", "variant-")


def test_pictures_are_listed_and_drawn_the_same_each_time(compared: str) -> None:
    """Every name of the list can be drawn; the first one twice, with the same bytes."""
    listed = call("plot", compared)
    assert listed.exit_code == DONE
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    assert names
    assert len(set(names)) == len(names)
    for target in ("one.svg", "two.svg"):
        assert call("plot", compared, names[0], "--out", target).exit_code == DONE
    assert Path("one.svg").read_bytes() == Path("two.svg").read_bytes()


def test_a_picture_that_is_not_there_is_refused_with_the_nearest_name(compared: str) -> None:
    """A slip of the pen is told with all names; so are an ending that is no picture's, and a name without a file."""
    names = [line.split()[0] for line in call("plot", compared).stdout.splitlines()]
    refused(call("plot", compared, "nope", "--out", "one.svg"), *names)
    name = names[0]
    refused(
        call("plot", compared, f"{name}x", "--out", "one.svg"), f"unknown picture '{name}x'", f"did you mean '{name}'"
    )
    refused(call("plot", compared, name, "--out", "one.gif"), "one.gif", ".svg, .png or .pdf")
    refused(call("plot", compared, name), "--out")


# ----------------------------------------
# Reports of small results, whole: their sentences, tables and pictures are those of files that somebody has read.

COMMON = {"reproduce", "inputs", "basis", "validation", "scale", "frontier", "the-cluster"}

OF_A_RUN = {"where-the-time-goes", "losses", "missing-nodes", "the-step", "closed-form"}


@pytest.mark.parametrize(
    "name", ["study", "single", "infeasible", "spares", "run", "calm", "three", "sensitivity", "optimize"]
)
def test_golden_reports(name: str) -> None:
    """All but what made it, its inputs, sizes and sources; and what every report says of one scenario stands once."""
    left = set() if name == "run" else OF_A_RUN
    report = build.report_of(results(name))
    kept = tuple(section for section in report.sections if section.key not in COMMON | left)
    report = dataclasses.replace(report, sections=kept, footer=())
    rows = [
        f"    {picture.key}.{field}: {json.dumps(rounded(value), ensure_ascii=False)}"
        for picture in report.pictures.values()
        for field, value in picture.chart._asdict().items()
    ]
    data = "\n".join(["# What its pictures draw", "", *rows, ""])
    golden.compare(f"report-{name}.md", f"{markdown.write(report).decode()}\n{data}")


def rounded(value: Any) -> Any:
    """Return what a picture draws with six digits."""
    if isinstance(value, tuple | list):
        return [rounded(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value

"""The documentation is true: its commands run, its generated page is current, and its tables name what exists."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main
from typer.testing import CliRunner

from ettrick import cli, sim
from ettrick.analysis.contest import runs
from ettrick.analysis.logs.formats import READERS
from ettrick.analysis.results import run as document
from ettrick.analysis.results.explained import results_schema
from ettrick.analysis.study.designs import DESIGNS
from ettrick.analysis.study.distributions import DISTRIBUTIONS
from ettrick.analysis.study.model import QUESTIONS
from ettrick.analysis.validation.table import load_table
from ettrick.sim import catalog
from ettrick.sim.cluster.spec import FABRICS
from ettrick.sim.formulas.goodput import efficiency, young_interval
from ettrick.sim.input.scenario import REGISTRIES
from ettrick.sim.policies.repair import LEMONS

ROOT = Path(__file__).resolve().parents[1]

DOCS = ROOT / "docs"

PAGES = [ROOT / "README.md", *sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)]

FILE = re.compile(r"^```\{code-block\} \w+\n:caption: (\S+)\n\n?(.*?)^```$", re.MULTILINE | re.DOTALL)


class Command(NamedTuple):
    """A command of a page, the exit status that the page states, and the output that it shows, from line `start` on.

    Without a text: more of the output of the command before.
    """

    text: str
    status: int
    shown: list[str]
    start: int


def commands(text: str) -> list[Command]:
    """Return the commands of all console blocks; ``echo $?`` states the status of the one before.

    A text block shows more of the output of the last command.
    """
    found: list[Command] = []
    inside = False
    for number, line in enumerate(text.splitlines()):
        last = found[-1] if found else None
        if line.startswith("```"):
            inside = line == "```console" or (line == "```text" and last is not None)
            if inside and line == "```text":
                found.append(Command("", last.status, [], number + 1))
        elif not inside:
            continue
        elif line == "$ echo $?":
            found[-1] = found[-1]._replace(status=-1)
        elif line.startswith("$ "):
            found.append(Command(line[2:], 0, [], number + 1))
        elif last is not None and last.text.endswith("\\"):
            found[-1] = last._replace(text=last.text[:-1] + line.removeprefix("> "), start=number + 1)
        elif last is not None and last.status == -1:
            found[-1] = last._replace(status=int(line))
        else:
            found[-1].shown.append(line)
    return [quick(*commands) for commands in pairwise([*found, Command("$", 0, [], 0)])]


def quick(command: Command, after: Command) -> Command:
    """Return a command with two replications if the page shows none of its output: they show as well that it runs."""
    if command.shown or not after.text or "--replications" in command.text:
        return command
    return command._replace(text=command.text.replace("ettrick run ", "ettrick run --replications 2 "))


def skeleton(line: str) -> str:
    """Return a line of output without what another machine may round differently: numbers, bars and rules."""
    return " ".join(re.sub(r"[\d.,]+", "#", re.sub(r"[█▏▎▍▌▋▊▉─]+", "", line)).split())


def pages_with_commands() -> list[Path]:
    """Return the pages that show at least one command."""
    return [page for page in PAGES if commands(page.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module")
def pages() -> dict[Path, str]:
    """Return the pages of the scenario reference as they would be written now, the index first."""
    return dict(generator().scenario_reference())


@cache
def generator(name: str = "_generate.py") -> Any:
    """Return the module docs/_generate.py, or another one there."""
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / name)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(str(DOCS))  # one needs another
        spec.loader.exec_module(module)
    return module


def rows(name: str) -> set[str]:
    """Return every word in code type in the first column of the tables of reference pages."""
    texts = [path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob(name)]
    cells = [cell for text in texts for cell in re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)]
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


def prepare_folder(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder of a reader, with the files that the page writes; there is no checkout around it."""
    for name, content in FILE.findall(page.read_text(encoding="utf-8")):
        (folder / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("COLUMNS", raising=False)  # of the terminal of these tests: pages show what a pipe gets


class Answer(NamedTuple):
    """What a command printed, and its exit status."""

    returncode: int
    stdout: str
    stderr: str


DEAR = (
    "a-fleet-in-ten-minutes",
    "a-study-in-ten-minutes",
    "cap-the-power",
    "check-ettrick",
    "choose-redundancy",
    "compare-recovery-strategies",
    "describe-your-cluster",
    "describe-your-failures",
    "describe-your-job",
    "describe-your-service",
    "find-the-best",
    "find-what-to-improve",
    "find-which-input-matters",
    "first-what-if",
    "fit-your-logs",
    "from-your-logs-to-an-answer",
    "judge-alarms",
    "make-a-report",
    "run-on-a-cluster",
    "share-a-checkpoint-store",
    "start-a-scenario",
    "stock-parts",
    "what-does-an-slo-cost",
    "write-a-scenario",
    "write-a-study",
)

"""Pages whose commands take more than two seconds: nightly."""


def answer_of(line: str, monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Run a command as a shell would: in this process, which saves its start, unless the line needs a shell."""
    words = shlex.split(line)
    if words[0] != "ettrick" or {"|", ">", "<", ";", "&&"} & set(words):
        # pipefail is not in every sh: a pipe's reader fails anyway on what is no JSON.
        run = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
        return Answer(run.returncode, run.stdout, run.stderr)
    monkeypatch.setattr(sys, "argv", words)
    result = CliRunner().invoke(cli.app, words[1:], prog_name="ettrick")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


@pytest.mark.timeout(300)  # some twenty commands, one after another
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.nightly] * (path.stem in DEAR), id=path.stem)
        for path in pages_with_commands()
    ],
)
def test_commands_of_the_page_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command ends as stated and prints what is shown: a refusal to the letter, a result but for its numbers."""
    prepare_folder(path, tmp_path, monkeypatch)
    for command in commands(path.read_text(encoding="utf-8")):
        if command.text:
            line = command.text
            assert re.match(r"(ettrick|python) ", line), f"not a command that the test may run: {line}"
            answer = answer_of(line, monkeypatch)
        assert answer.returncode == command.status, f"$ {line}\n{answer.stdout}{answer.stderr}"
        if command.status == 2:
            # A reader stands in the checkout, where paths are shown relative to it.
            assert answer.stderr.replace(f"{ROOT}{os.sep}", "").splitlines() == command.shown, f"$ {line}"
        else:
            printed = {skeleton(row) for row in (answer.stdout + answer.stderr).splitlines()}
            assert {skeleton(row) for row in command.shown} - {"…", ""} <= printed, f"$ {line}"


def test_transcripts_keep_their_elisions() -> None:
    """What a page leaves out stays out, and a row whose numbers change is found by its label."""
    from tests.docs_transcripts import merged

    printed = ["ETTR", "15 min   95.1 %", "30 min   96.9 %", "1 h      96.0 %", "a note"]
    assert merged(["ETTR", "…", "30 min   97.0 %", "…"], printed) == ["ETTR", "…", "30 min   96.9 %", "…"]
    assert merged(["ETTR", "15 min   95.1 %", "old note"], printed) == printed


def test_every_page_of_the_tutorial_and_the_how_tos_runs_something() -> None:
    """The pattern that finds commands finds some on each page that is made of them."""
    found = {path.stem for path in pages_with_commands()}
    wanted = {path.stem for folder in ("tutorial", "howto") for path in (DOCS / folder).glob("*.md")}
    wanted -= {path.stem for path in (DOCS / "tutorial").glob("*.ipynb")}  # run as notebooks, below
    assert wanted
    assert wanted <= found


def assert_current(pages: dict[Path, str]) -> None:
    """Check that an index and its folder have these pages and no other."""
    index = next(iter(pages))
    assert {path: path.read_text(encoding="utf-8") for path in (index, *index.with_suffix("").iterdir())} == pages


def test_scenario_reference_is_current(pages: dict[Path, str]) -> None:
    """The committed pages are what docs/_generate.py writes (make docs), and each part of a scenario has one."""
    assert_current(pages)
    listed = re.findall(r"^scenario/([\w-]+)$", next(iter(pages.values())), re.MULTILINE)
    keys = [name for name in sim.schema()["properties"] if name in listed]
    assert listed == [*keys, "laws", "phases", "bundled-names"]
    assert listed == [path.stem for path in pages][1:]


def test_the_table_of_engines_is_current() -> None:
    """The committed table has a word for each gap of the compiled loop (make docs)."""
    module = generator()
    page = module.SEMANTICS_PAGE.read_text(encoding="utf-8")
    assert module.engines(page) == page
    assert all(gap.words in page for gap in (*module.GAPS, *module.GAPS_OF_SOURCES))


def test_glossary_is_current() -> None:
    """The committed page has the terms of the first screen, in alphabetical order."""
    module = generator()
    names = re.findall(r"^\| \*\*(.+?)\*\*", module.glossary(), re.MULTILINE)
    assert names == sorted(names, key=str.casefold)
    assert module.GLOSSARY_PAGE.read_text(encoding="utf-8") == module.glossary()


@pytest.mark.nightly
def test_notebook_shows_what_its_page_does() -> None:
    """Each block of Python of the page runs, and page and notebook show what comes of it, but for numbers."""
    module = generator()
    page, kept = module.NOTEBOOK.with_suffix(".md").read_text(encoding="utf-8"), json.loads(module.NOTEBOOK.read_text())
    made = module.notebook(page)
    assert [skeleton(row) for row in module.with_outputs(page, made).splitlines()] == [
        skeleton(row) for row in page.splitlines()
    ]
    assert [cell["source"] for cell in kept["cells"]] == [cell["source"] for cell in made["cells"]]
    ours, theirs = ([cell.get("outputs", []) for cell in each["cells"]] for each in (made, kept))
    assert [[sorted(found.get("data", found)) for found in row] for row in ours] == [
        [sorted(found.get("data", found)) for found in row] for row in theirs
    ]


def test_pages_of_formulas_and_of_the_api_are_current() -> None:
    """The committed pages are what docs/_generate.py writes (make docs); their commands run as those of all pages."""
    module = generator()
    assert module.API_PAGE.read_text(encoding="utf-8") == module.api_reference()
    assert module.FORMULAS_PAGE.read_text(encoding="utf-8") == module.formulas_reference()


def test_the_table_of_features_is_derived() -> None:
    """The committed page is what docs/_generate.py writes: every name of a registry, rows and notes counted."""
    module = generator()
    try:
        page = module.features_reference()
    except FileNotFoundError:  # rows that replay a log are asked which scenario they use
        pytest.skip("skipped: reference data not present")
    assert module.FEATURES_PAGE.read_text(encoding="utf-8") == page
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][1:]
    names = {row[1].strip("`") for row in rows}
    for registry in (*REGISTRIES.values(), FABRICS, LEMONS, QUESTIONS, DESIGNS, DISTRIBUTIONS, catalog.models()):
        assert set(registry) <= names
    table = {row[1].strip("`"): row for row in rows if row[0] == "recovery presets"}
    known = load_table().rows
    for name in catalog.recoveries():
        *_, validated, calibrated, basis = table[name]
        assumed = sum("A" in note.partition(": ")[0] for note in catalog.recovery(name)["notes"])
        assert (f"assumed {assumed}" in basis) == (assumed > 0)
        labels = [row.label for row in known if row.arguments.get("preset") == name]
        counts = [0 if count == "–" else int(count) for count in (validated, calibrated)]
        assert sum(counts) >= len(labels)
        assert counts[1] >= labels.count("calibrated")
    assert sum(int(row[4]) for row in rows if row[0] == "recovery" and row[4] != "–") > 100


def test_reference_of_results_is_current() -> None:
    """Page and JSON Schema of what commands print are what docs/_generate_results.py writes (make docs)."""
    module = generator("_generate_results.py")
    assert_current(module.results_reference())
    assert json.loads(module.SCHEMA.read_text(encoding="utf-8")) == results_schema()


def test_scenario_reference_names_every_key(pages: dict[Path, str]) -> None:
    """Every property of every definition in the schema has a row."""
    named = set(re.findall(r"^\| `(\w+)` \|", "".join(pages.values()), re.MULTILINE))
    for definition in sim.schema()["$defs"].values():
        assert set(definition["properties"]) - {"use"} <= named


@cache
def documents() -> list[dict[str, Any]]:
    """Return documents of runs that have every metric between them."""
    watched = ["health.false_alarms=1 per node-day", "parts.any={stock: 9, lead: 1 d, causes: [faulty_gpu]}"]
    found = []
    for name, overrides in (
        (
            "llama3-405b-54d",
            ["horizon=1 d", "windows=12 h", "cost={gpu_hour: 2.5}", "power.carbon.intensity=400", *watched],
        ),
        ("quickstart", ["horizon=2 d", "jobs.0.work={time: 1 d}", "jobs.0.deadline=36 h", "spares.unit=node"]),
    ):
        prepared = sim.prepare(sim.load(sim.find(name), overrides))
        found.append(document.plain(document.document(runs.replicate(prepared, 2, processes=1), command="test")))
    return found


def test_metrics_page_names_every_metric_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables have a row for each metric and each count of the document."""
    monkeypatch.setattr(importlib.import_module("ettrick.sim.prepare.services"), "_REPLAYED", 2000)
    named = rows("metrics.md")
    fleet = sim.prepare(sim.load(sim.find("fleet-64-nodes"), ["horizon=1 d", "warmup=0 d"]))
    tiers = [{"below": "99 %", "share": "10 %"}]
    promised = {"name": "half", "at_least": "99 %", "window": "12 h", "credits": tiers, "bill": 1}
    service = sim.prepare(sim.load(sim.find("serve-llama3-70b"), ["horizon=1 d", f"targets={json.dumps([promised])}"]))
    contents = [
        *documents(),
        *(
            document.plain(document.document(runs.replicate(prepared, 2, processes=1), command="test"))
            for prepared in (fleet, service)
        ),
    ]
    metrics = {name.partition("@")[0] for content in contents for name in content["metrics"]}
    summary = {name for content in contents for entry in content["metrics"].values() for name in entry}
    assert metrics <= named
    text = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    first = re.findall(r"^\| `(\w+)`(?: \[[^]]+\])? \|", text, re.MULTILINE)
    # Fairness needs several tenants.
    assert set(first) - summary - {"fairness"} <= metrics | set(contents[0]["counts"])
    words = set(re.findall(r"`(\w+)`", text))
    assert set(contents[0]["counts"]) <= words
    assert summary <= words | {"mean"}


def test_buckets_page_names_every_bucket() -> None:
    """The tables have a row for each bucket of a job and of the cluster."""
    assert {*sim.JOB_BUCKETS, *sim.CLUSTER_BUCKETS} <= rows("buckets.md")


def test_formats_page_names_every_kind_of_log() -> None:
    """Each kind of log that `fit` reads has its row, and no other has."""
    text = (DOCS / "reference" / "formats.md").read_text(encoding="utf-8")
    table = text.partition("## Logs of")[2].partition("## Files of")[0]
    kinds = [
        kind for cell in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE) for kind in re.findall(r"`([^`]+)`", cell)
    ]
    assert sorted(kinds) == sorted(READERS)


def test_json_page_names_every_key() -> None:
    """The tables have a row for each key of the document, of a summary, of a window and of a job."""
    named = rows("json/*.md")
    for content in documents():
        parts = [content, content["metrics"]["mtti"], *content["windows"], *content["per_job"].values()]
        for part in parts:
            assert set(part) <= named
        text = (DOCS / "reference" / "json" / "run-document.md").read_text(encoding="utf-8")
        for key in ("provenance", "step", "closed_form"):
            assert set(content[key]) <= set(re.findall(r"`(\w+)`", text))


def test_counts_add_up_as_the_metrics_page_says() -> None:
    """Candidates, faults, failures and interruptions are conserved; each way for them to end is taken."""
    overrides = [
        "horizon=60 d",
        "warmup=10 d",
        "failures.0.rate=60 per 1000 node-day",
        "failures.0.interrupts=50 %",
        "failures.0.idle_hazard=50 %",
        "repair.time=6 d",
    ]
    prepared = sim.prepare(sim.load(sim.find("quickstart"), overrides))
    result = sim.run(prepared, 0)
    counts, job = result.counts, result.jobs[0]
    assert min(counts["suppressed"], counts["harmless"], counts["masked"], counts["outside"], job.merged) > 0
    assert counts["candidates"] == counts["suppressed"] + counts["faults"]
    assert counts["faults"] == counts["harmless"] + counts["failures"]
    assert counts["failures"] == counts["masked"] + counts["outside"] + counts["hits"]
    assert sum(job.interruptions.values()) == sum(job.disruptions.values()) + job.merged == counts["hits"]


def test_command_line_page_names_every_command_and_option() -> None:
    """The page has each command, and each option with the default that the program has."""
    text = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    group: Any = typer.main.get_command(cli.app)
    for name, command in group.commands.items():
        assert f"`ettrick {name}" in text
        for option in command.params:
            for flag in [*option.opts, *option.secondary_opts]:
                assert not flag.startswith("-") or re.search(rf"`{flag}\b", text), f"{name} {flag}"
    defaults = inspect.signature(cli.run).parameters
    for name in ("band", "jobs", "metric"):
        row = next(line for line in text.splitlines() if line.startswith(f"| `--{name} "))
        assert row.split("|")[2].strip(" `") == str(defaults[name].default)


def test_commands_that_are_only_named_exist() -> None:
    """What stands in the text, or in a block that no test runs, is a command, and has these options."""
    group: Any = typer.main.get_command(cli.app)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = [0, 0]
    for path in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        text = path.read_text(encoding="utf-8")
        said = re.findall(r"(?<!`)`((?:ettrick|make) [^`]+)`(?!`)", text)
        for block in re.findall(r"^```(?:sh|bash|text)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            lines = (line.strip().removeprefix("$ ") for line in block.replace("\\\n", " ").splitlines())
            said += [line for line in lines if line.startswith(("ettrick ", "make "))]
        for line in said:
            program, *words = shlex.split(line, comments=True)
            if program == "make":
                assert words[0] in targets, f"{path.name}: {line}"
                named[0] += 1
                continue
            command = group
            while hasattr(command, "commands") and words and words[0] in command.commands:
                command = command.commands[words.pop(0)]
            assert command is not group or words[0].startswith("-"), f"{path.name}: {line}"
            options = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)} | {
                "--help"
            }
            used = [] if "formula" in line else [word.partition("=")[0] for word in words if word.startswith("--")]
            assert set(used) <= options, f"{path.name}: {line}"
            named[1] += 1
    assert min(named) > 5


def test_llama3_page_computes_its_table() -> None:
    """Each ETTR of the table is that of the closed form at 466 interruptions in 54 days."""
    text = (DOCS / "explanation" / "llama3.md").read_text(encoding="utf-8")
    mtti = 54 * 86400 / 466
    found = re.findall(r"^\| (\d+) s \| ([\d.]+) min \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", text, re.M)
    assert len(found) == 4
    for save, interval, *shares in found:
        tau = young_interval(float(save), mtti)
        assert float(interval) == pytest.approx(tau / 60, abs=0.05)
        for restart, share in zip((2, 5, 10, 15), shares, strict=True):
            assert float(share) == pytest.approx(efficiency(tau, float(save), mtti, restart * 60), abs=0.0005)


def test_links_between_pages_lead_somewhere() -> None:
    """Each relative link of a page names a file that is there; sphinx checks the anchors."""
    for path in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8")):
            if not target.startswith(("http://", "https://")):
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_keys_that_may_be_left_out_are_not_called_required(pages: dict[Path, str]) -> None:
    """Of the keys at the top those that every scenario needs are; those of jobs, and detection, say when."""
    top = next(iter(pages.values())).split("## Top level")[1].split("\n## ")[0]
    rows = [row.split("|") for row in top.splitlines() if row.startswith("| `")]
    defaults = {row[1].strip(" `"): row[3].strip() for row in rows}
    assert {name for name, default in defaults.items() if default == "required"} == {"name", "cluster", "horizon"}
    assert defaults["services"] == "–"
    assert defaults["checkpoint"] == defaults["recovery"] == "required of jobs and streams"
    assert defaults["detection"] == "required, unless a preset of recovery brings it"

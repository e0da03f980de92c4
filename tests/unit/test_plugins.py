"""What other packages bring: any kind of strategy is found by its entry point, and a broken one is one line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from typer.testing import CliRunner

from ettrick import sim
from ettrick.analysis.page.build import report_of
from ettrick.analysis.study.load import load_study
from ettrick.analysis.study.model import Study, study_schema
from ettrick.analysis.sweep.task import model_digest
from ettrick.cli import app
from ettrick.sim import plugins
from ettrick.sim.compiled.lowering import uncovered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]

EXAMPLE = ROOT / "examples" / "plugin"

COPY = """
from typing import Literal
from {module} import {base}

class Mine{base}({base}):
    "A copy of what is built in."
    use: Literal["my-{name}"] = "my-{name}"
"""

KINDS = {
    "failures": ("ettrick.sim.failures.parts", "Component", "component"),
    "checkpoint": ("ettrick.sim.policies.checkpoint", "Tiers", "tiers"),
    "observers": ("ettrick.sim.policies.detection.watchers", "Heartbeat", "heartbeat"),
    "detection": ("ettrick.sim.policies.detection", "Observers", "observers"),
    "recovery": ("ettrick.sim.policies.recovery", "HotSpare", "hot-spare"),
    "repair": ("ettrick.sim.policies.repair", "RepairTiers", "tiers"),
    "lemons": ("ettrick.sim.policies.repair", "BlameThreshold", "threshold"),
    "fabric": ("ettrick.sim.cluster.fabric", "FatTree", "fat-tree"),
    "vary": ("ettrick.analysis.study.distributions", "UniformInput", "uniform"),
    "design": ("ettrick.analysis.study.designs", "LatinHypercube", "latin-hypercube"),
    "questions": ("ettrick.analysis.study.questions.best", "Best", "best"),
}
"""A built-in strategy of each kind: its module, its class, its name."""


def forget() -> None:
    """Let packages be looked for again."""
    plugins.found.cache_clear()
    plugins._loaded.clear()
    model_digest.cache_clear()


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Return what installs a package of one module with one entry point, and gives its name."""
    monkeypatch.syspath_prepend(tmp_path)
    modules: list[str] = []

    def install(kind: str, name: str, source: str, value: str = "", package: str = "") -> str:
        package = package or f"mine_{kind}_{len(modules)}_{tmp_path.name.replace('-', '_')}"
        (tmp_path / f"{package}.py").write_text(source)
        info = tmp_path / f"{package}-0.1.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n")
        (info / "entry_points.txt").write_text(f"[ettrick.{kind}]\n{name} = {package}{value and ':' + value}\n")
        modules.append(package)
        forget()
        return package

    yield install
    forget()
    for name in modules:
        sys.modules.pop(name, None)


def copied(bring: Callable[..., str], *kinds: str) -> None:
    """Install a copy of a built-in strategy of some kinds."""
    for kind in kinds:
        module, base, name = KINDS[kind]
        bring(kind, f"my-{name}", COPY.format(module=module, base=base, name=name), f"Mine{base}")


def scenario(prefix: str) -> list[str]:
    """Return changes of the quickstart that name a strategy of each kind, with a prefix before its name.

    All but the observer, whose name is a key of its random numbers.
    """
    return [
        f"failures=[{{use: {prefix}component, name: node, part: node, rate: 20 per 1000 node-days}}]",
        f"checkpoint={{use: {prefix}tiers, tiers: [{{interval: 1 h, mode: blocking, write: 30 s, restore: 60 s}}]}}",
        f"detection={{use: {prefix}observers, observers: [{{use: heartbeat}}]}}",
        f"recovery={{use: {prefix}hot-spare, initialize: 5 min}}",
        f"repair={{use: {prefix}tiers, tiers: [{{name: visit, time: 1 d}}], "
        f"lemons: [{{use: {prefix}threshold, failures: 3, window: 20 d}}], replacement: 3 d}}",
        f"cluster.fabric={{use: {prefix}fat-tree}}",
        "horizon=20 d",
    ]


STUDY = {
    "name": "study",
    "scenario": "quickstart",
    "vary": {"repair.time": {"distribution": {"use": "my-uniform", "min": "10 min", "max": "1 h"}}},
    "design": {"use": "my-latin-hypercube", "samples": 4},
    "metrics": ["goodput"],
    "questions": [{"use": "my-best", "metric": "goodput"}],
}


def test_a_strategy_of_any_kind_gives_the_numbers_of_what_it_is_a_copy_of(bring: Callable[..., str]) -> None:
    """Names of strategies decide nothing: of copies the ledger is that of what is built in, to the last bit."""
    copied(bring, *KINDS)
    mine, built_in = (sim.prepare(sim.load("quickstart", scenario(prefix))) for prefix in ("my-", ""))
    assert mine.recovery.use == "my-hot-spare"
    first, second = sim.run(mine, 0), sim.run(built_in, 0)
    assert first.cluster.tolist() == second.cluster.tolist()
    assert sum(first.jobs[0].interruptions.values()) > 3
    assert sim.parse(mine.scenario.dump()) == mine.scenario
    study = Study.model_validate(STUDY)
    assert (study.design.use, study.questions[0].use) == ("my-latin-hypercube", "my-best")


def test_schema_and_list_name_it_with_where_it_is_from(bring: Callable[..., str]) -> None:
    """Schemas of scenarios and studies accept its name and keys; the list has its first line and its package."""
    copied(bring, *KINDS)
    kinds = {name for part in sim.schema()["$defs"].values() for name in [_const(part)]}
    kinds |= {name for part in study_schema()["$defs"].values() for name in [_const(part)]}
    assert {f"my-{name}" for _, _, name in KINDS.values()} <= kinds
    listed = {name: line for entries in sim.inventory().values() for name, line in entries.items()}
    assert listed["my-hot-spare"].startswith("A copy of what is built in. (mine_recovery_")
    assert {f"my-{name}" for _, _, name in KINDS.values()} <= listed.keys()


def _const(part: dict[str, Any]) -> str:
    return str(part.get("properties", {}).get("use", {}).get("const", ""))


RECOVERY = """
from typing import Literal
from ettrick.sim.policies.contracts import *
from ettrick.sim.policies.recovery.base import RecoveryStrategy

class Mine(RecoveryStrategy):
    use: Literal["mine"] = "mine"
    def _start(self, job):
        return Restore("stores"), Run()
    def _plan(self, failure, job, cluster, memory):
        {body}
"""

BROKEN = {
    "raise OSError('no licence\\nfor you')": "OSError: no licence for you",
    "raise SystemExit(3)": "SystemExit: 3",
    "import a_module_that_is_not_there": "ModuleNotFoundError: No module named 'a_module_that_is_not_there'",
    "Other = 3": "AttributeError",
    "Mine = 3": "it is no subclass of ettrick.sim.policies.recovery.base.RecoveryStrategy",
    RECOVERY.replace('Literal["mine"] = "mine"', "str"): 'it needs the field use: Literal["mine"] = "mine"',
    RECOVERY.format(body="return (Run(),), memory").replace("_start", "_begin"): "it lacks _start",
}


@pytest.mark.parametrize("source", BROKEN)
def test_what_cannot_be_used_is_one_line_and_takes_nothing_down(source: str, bring: Callable[..., str]) -> None:
    """The scenario that names it is refused in a line; the schema, the list and all other scenarios work."""
    package = bring("recovery", "mine", source.replace("{body}", "pass"), "Mine")
    with pytest.raises(sim.ScenarioError) as refused:
        sim.load("quickstart", ["recovery={use: mine}"])
    (line,) = refused.value.lines
    assert line.startswith(
        f"--set recovery={{use: mine}}: recovery.use: recovery 'mine' of {package} 0.1 cannot be used"
    )
    assert BROKEN[source] in line
    with pytest.warns(UserWarning, match=f"recovery 'mine' of {package} 0.1"):
        sim.schema()
    assert package in sim.inventory()["recovery (recovery.use)"]["mine"]
    sim.load("quickstart")


def test_a_name_is_there_once(bring: Callable[..., str]) -> None:
    """What is built in keeps its name, and a name of two packages is of neither."""
    copied(bring, "recovery")
    built_in = sim.load("quickstart").recovery
    source = RECOVERY.format(body="pass").replace('"mine"', '"hot-spare"')
    bring("recovery", "hot-spare", source, "Mine", "shadow")
    assert type(sim.load("quickstart").recovery) is type(built_in)
    with pytest.warns(UserWarning, match="recovery 'hot-spare' of shadow 0.1 cannot be used: the name is built in"):
        sim.schema()
    listed = sim.inventory()["recovery (recovery.use)"]
    assert listed["hot-spare of shadow 0.1"].endswith("cannot be used: the name is built in")
    assert "shadow" not in listed["hot-spare"]
    for package in ("one", "two"):
        bring("recovery", "mine", RECOVERY.format(body="pass"), "Mine", package)
    with pytest.raises(sim.ScenarioError, match=r"recovery 'mine' of one 0\.1 and two 0\.1 .* the name is there twice"):
        sim.load("quickstart", ["recovery={use: mine}"])


PLANS = {
    "return None": "TypeError: cannot unpack",
    "return None, memory": "ValueError: a plan is a tuple of steps",
    "return ('run',), memory": "ValueError: a plan is a tuple of steps",
    "return (), memory": "ValueError: a plan ends, once, in Run or Requeue",
    "return (Run(), Run()), memory": "ValueError: a plan ends, once, in Run or Requeue",
    "return (Restore(), Run()), memory": "ValueError: a plan runs without the nodes that are missing",
    "return (Acquire(), Run()), memory": "ValueError: a plan that runs restores once",
    "return (Stall(Bucket.INITIALIZE, -1.0), Requeue(0.0)), memory": "ValueError: a time of a plan is below zero",
    "return (Evict(10**6, 1.0), Requeue(0.0)), memory": "ValueError: a plan evicts 1000000 of 124 nodes",
    "return 1 / (job.nodes - 124), memory": "ZeroDivisionError",
}


@pytest.mark.parametrize("body", PLANS)
def test_a_plan_that_cannot_be_followed_is_one_line(body: str, bring: Callable[..., str]) -> None:
    """So is what a strategy raises, with the file and line of the plugin where it was."""
    package = bring("recovery", "mine", RECOVERY.format(body=body), "Mine")
    prepared = sim.prepare(sim.load("quickstart", ["recovery={use: mine}", "horizon=5 d"]))
    with pytest.raises(sim.PluginError) as refused:
        sim.run(prepared, 0)
    assert str(refused.value).startswith(f"recovery 'mine' of {package} 0.1: {PLANS[body]}")
    assert "\n" not in str(refused.value)
    assert ("ZeroDivision" in str(refused.value)) == (f"({package}.py:11)" in str(refused.value))


def test_nothing_is_looked_for_before_it_is_asked_for(bring: Callable[..., str]) -> None:
    """A scenario of what is built in neither searches the packages nor imports one, however slow or broken it is."""
    package = bring("recovery", "mine", "raise SystemExit", "Mine")
    other = bring("recovery", "other", RECOVERY.format(body="pass").replace('"mine"', '"other"'), "Mine")
    sim.run(sim.prepare(sim.load("quickstart", ["horizon=5 d"])), 0)
    assert plugins.found.cache_info().currsize == 0
    sim.load("quickstart", ["recovery={use: other}"])
    assert package not in sys.modules
    assert other in sys.modules


def test_its_keys_are_checked_like_those_of_what_is_built_in(bring: Callable[..., str]) -> None:
    """What was written for another choice is dropped; an unknown key and a wrong value are named with their place."""
    source = RECOVERY.format(body="pass").replace('= "mine"', '= "mine"\n    launch: Duration')
    bring("recovery", "mine", f"from ettrick.sim.scenario.fields import Duration{source}", "Mine")
    sim.load("quickstart", ["recovery.use=mine", "recovery.launch=3 min"])
    for change, rule in {
        "{use: mine, lauch: 3 min}": "recovery.lauch: unknown key 'lauch'; did you mean 'launch'?",
        "{use: mine, launch: 3}": "recovery.launch: '3' needs a unit",
        "{use: mine}": "recovery.launch: is missing",
        "{use: min, launch: 3 s}": "recovery.use: 'min' is not a choice; did you mean 'mine'?",
    }.items():
        with pytest.raises(sim.ScenarioError) as refused:
            sim.load("quickstart", [f"recovery={change}"])
        (line,) = refused.value.lines
        assert rule in line


def test_machine_code_leaves_it_to_events(bring: Callable[..., str]) -> None:
    """What derives from a strategy that machine code knows may do something else."""
    copied(bring, "recovery", "lemons", "observers")
    prepared = sim.prepare(sim.load("quickstart"))
    assert uncovered(prepared) == ""
    changes = [change.replace("hot-spare", "my-hot-spare") for change in scenario("") if "recovery" in change]
    changed = sim.prepare(sim.load("quickstart", changes))
    assert uncovered(changed) == "recovery.use: my-hot-spare, of another package"
    nested = ["detection={use: observers, observers: [{use: my-heartbeat}]}"]
    assert "my-heartbeat" in uncovered(sim.prepare(sim.load("quickstart", nested)))
    with pytest.raises(ValueError, match="of another package"):
        sim.with_engine(replace(changed, engine="compiled"), 1000)


def test_a_sweep_of_another_version_of_a_plugin_is_another_sweep(bring: Callable[..., str], tmp_path: Path) -> None:
    """Results that are kept are those of the code of the plugins that the study uses, and of no others."""
    source = RECOVERY.format(body="pass")
    study = {
        **STUDY,
        "vary": {"recovery": {"path": "recovery", "choices": [{"use": "mine"}]}},
        "design": {"use": "grid"},
    }
    study["questions"] = []
    digests = [model_digest()]
    for text in (source, f"{source}\n# changed"):
        bring("recovery", "mine", text, "Mine", "versioned")
        bring("recovery", "unused", "raise SystemExit", "Mine", "unused")
        (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
        loaded = load_study(tmp_path / "study.yaml")
        assert loaded.packages == ("versioned",)
        digests.append(model_digest(loaded.packages))
    assert len(set(digests)) == 3
    assert model_digest() == digests[0], "what the study does not use"


def test_reports_have_its_chapters_and_formats(bring: Callable[..., str], tmp_path: Path) -> None:
    """A section at the end, one that raises is warned of and left out, and a format goes by the ending of the file."""
    result = CliRunner().invoke(
        app, ["run", "quickstart", "--replications", "2", "--quiet", "--out", str(tmp_path / "r")]
    )
    assert result.exit_code == 0, result.output
    plain = len(report_of(tmp_path / "r").sections)
    chapter = (
        "from ettrick.analysis.page.model import Section\n"
        "def mine(data):\n    return Section('mine', 'Mine', ('by hand',))\n"
    )
    bring("chapters", "mine", chapter, "mine")
    broken = bring("chapters", "broken", "def mine(data):\n    return data.nothing\n", "mine")
    bring("formats", "txt", "def write(report):\n    return report.sections[-1].title.encode()\n", "write")
    with pytest.warns(UserWarning, match=f"chapters 'broken' of {broken} 0.1: AttributeError"):
        sections = report_of(tmp_path / "r").sections
    assert (len(sections), sections[-1].key) == (plain + 1, "mine")
    with warnings.catch_warnings(action="ignore"):
        written = CliRunner().invoke(app, ["report", str(tmp_path / "r"), "--out", str(tmp_path / "r.txt")])
    assert written.exit_code == 0, written.output
    assert (tmp_path / "r.txt").read_text() == "Mine"


EXAMPLES = yaml.safe_load("""
name: every-kind
scenario: quickstart
set:
  horizon: 10 d
  failures: [{use: rented-node, name: rented}]
  checkpoint: {use: hourly}
  recovery: {use: reboot-first}
  cluster.fabric: {use: one-rail}
vary:
  detection: {path: detection, choices: {pager: {use: pager}, ping: {use: observers, observers: [{use: ping}]}}}
  repair:
    path: repair
    choices:
      next: {use: next-day}
      twice: {use: tiers, tiers: [{name: visit, time: 1 d}], lemons: [{use: twice}], replacement: 3 d}
  failures.0.scale: {distribution: {use: parabola, low: 0.5, high: 2}}
design: {use: diagonal}
metrics: [ettr]
replications: 2
questions: [{use: spread}]
""")
"""A study of a plugin of each kind."""


def example_entries() -> dict[str, dict[str, str]]:
    """Return the entry points of the example: by kind, names and where they are."""
    points = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    return {group.removeprefix("ettrick."): entries for group, entries in points.items()}


def play_the_example(answer: Callable[..., str], folder: Path) -> None:
    """Assert that the commands do what the example brings, given what runs one and returns its output."""
    (folder / "study.yaml").write_text(yaml.safe_dump(EXAMPLES))
    swept = answer("sweep", "study.yaml", "--out", "swept", "--executor", "serial")
    assert re.search(r"^Spread\n  ettr lies between 0\.\d+ and 0\.\d+\.$", swept, re.MULTILINE), swept
    cells = json.loads((folder / "swept" / "run.json").read_text())["cells"]
    assert [cell["values"] for cell in cells] == [
        {"detection": first, "repair": second, "failures.0.scale": cells[0]["values"]["failures.0.scale"]}
        for first, second in (("pager", "next"), ("ping", "twice"))
    ]
    assert all(cell["status"] == "ok" and 0.3 < cell["metrics"]["ettr"]["mean"] < 0.999 for cell in cells), cells
    answer("report", "swept", "--quiet", "--out", "titles.json")
    assert json.loads((folder / "titles.json").read_text())[-1] == "Who is responsible"
    listed = answer("list", "plugins")
    names = [name for entries in example_entries().values() for name in entries]
    assert all(re.search(rf"^  {name} .*\(ettrick-example 0\.1\.0\)$", listed, re.MULTILINE) for name in names), listed


def test_the_example_has_every_kind_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind that the page names has an example, and each has its part in a study, its report and the list."""
    page = (ROOT / "docs" / "howto" / "write-a-plugin.md").read_text()
    assert set(re.findall(r"`ettrick\.([a-z]+)`", page)) == example_entries().keys() == {*KINDS, "chapters", "formats"}
    info = tmp_path / "ettrick_example-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ettrick-example\nVersion: 0.1.0\n")
    groups = [
        "\n".join([f"[ettrick.{kind}]", *(f"{name} = {value}" for name, value in entries.items())])
        for kind, entries in example_entries().items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
    for folder in (tmp_path, EXAMPLE):
        monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(tmp_path)
    forget()

    def answer(*arguments: str) -> str:
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == 0, result.output
        return result.stdout

    try:
        play_the_example(answer, tmp_path)
    finally:
        forget()
        for name in ("every_kind", "reboot_first"):
            sys.modules.pop(name, None)


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_the_example_is_installed_and_runs(tmp_path: Path) -> None:
    """The package is built, passes its harness, and runs by the command, as any other."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--target", str(tmp_path / "site"), str(EXAMPLE)], check=True, cwd=tmp_path)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}{os.pathsep}{ROOT}"}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "1 passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE), "-n0")
    play_the_example(lambda *arguments: run("-c", "from ettrick.cli import app; app()", *arguments), tmp_path)


def test_an_error_is_blamed_on_the_plugin_that_raised_it(bring: Callable[..., str], tmp_path: Path) -> None:
    """Of several in one package and in one scenario, with its file and line; and on what gave a wrong answer."""
    source = """
from typing import Literal
from pydantic import field_validator
from ettrick.analysis.study.questions.question import Question
from ettrick.sim.policies.detection.kinds import Latency
from ettrick.sim.policies.repair import Simple

class Detect(Latency):
    use: Literal["mine"] = "mine"

    def unscaled(self, fault, kind):
        return helper(fault)

class Repair(Simple):
    use: Literal["fixer"] = "fixer"

def helper(fault):
    return {}[fault]

class Ask(Question):
    use: Literal["ask"] = "ask"

    def answer(self, table):
        return 1

class Refuse(Question):
    use: Literal["refuse"] = "refuse"

    @field_validator("use")
    @classmethod
    def no(cls, value):
        raise TypeError("no")
"""
    package = bring("repair", "fixer", source, "Repair", "several")
    (tmp_path / "several-0.1.dist-info" / "entry_points.txt").write_text(
        "[ettrick.repair]\nfixer = several:Repair\n[ettrick.detection]\nmine = several:Detect\n"
        "[ettrick.questions]\nask = several:Ask\nrefuse = several:Refuse\n"
    )
    forget()
    with pytest.raises(KeyError) as caught:
        sim.prepare(sim.load("quickstart", ["detection={use: mine}", "repair={use: fixer, time: 1 d}"]))
    assert re.match(
        r"detection 'mine' of several 0\.1: KeyError: .* \(several\.py:18\)$", str(plugins.blame(caught.value))
    )
    for question, line in (
        ("ask", "questions 'ask' of several 0.1: AttributeError: 'int' object has no attribute 'silence'"),
        ("refuse", "questions 'refuse' of several 0.1: TypeError: no"),
    ):
        study = {"name": "s", "scenario": "quickstart", "vary": {"spares.hot": {"choices": [0, 4]}},
                 "set": {"horizon": "2 d"}, "metrics": ["ettr"], "replications": 2,
                 "questions": [{"use": question}]}  # fmt: skip
        (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
        result = CliRunner().invoke(app, ["sweep", str(tmp_path / "study.yaml"), "--executor", "serial", "-q"])
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1), result.output
        assert line in result.stderr, package

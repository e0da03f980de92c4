"""The files that come with the program: every scenario and topology loads, and the example log can be made again."""

from __future__ import annotations

import copy
import json
import random
import re
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest
from typer.testing import CliRunner

from ettrick import sim
from ettrick.analysis.metrics import METRICS
from ettrick.analysis.ratios import ratios, time_shares
from ettrick.analysis.terminal import PLUGINS, format_inventory, kinds
from ettrick.cli import app
from ettrick.sim import yamlfile
from ettrick.sim.prepare import placement
from ettrick.sim.run import TRACES
from tests import report_sample
from tests.cases import SIMULATED, cases
from tests.pace import SEED, one_in

if TYPE_CHECKING:
    from pathlib import Path

# ----------------------------------------
# Every command on every shipped scenario.

COMMANDS = (
    "check @",
    "explain @ -n 0 -q",
    "explain @ --worth -n 8 -q --set @short",
    "run @ -n 1 -q --set @short",
    "compare @ --vary seed=1,2 -n 2 -q --set @short",
    "trace @ --out trace.json --to 1h --set @short",
    "kernels @",
    "layouts @ --top 1 -q",
    "topology place @",
    "topology show @",
    "explore @ --no-open",
)
"""What can be asked of a scenario."""

PAIRS = [(command, name) for command in COMMANDS for name in SIMULATED]
random.Random(SEED).shuffle(PAIRS)
PAIRS.sort(key=lambda pair: pair[0].startswith(("layouts", "explain")))  # for the night: they take seconds


@pytest.mark.parametrize(("command", "name"), one_in(len(PAIRS) // 4 + 1, PAIRS))
def test_every_command_answers_or_says_why_not(
    command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On any scenario that comes with Ettrick a command answers, or ends with a line: never with a traceback."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ettrick.analysis.page.explore.Server.serve_forever", lambda *_, **__: None)
    monkeypatch.setattr("ettrick.analysis.page.explore.Explorer.compile", lambda _: None)
    words = [word.replace("@short", "horizon=12 h").replace("@", name) for word in command.split()]
    result = CliRunner().invoke(app, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (0, 1, 2)
    assert result.exit_code == 0 or result.stderr
    assert result.exit_code == 0 or not result.stdout or "explain" in words, "an answer and a refusal"


@pytest.mark.parametrize("name", ["fleet-64-nodes", "serve-and-train"])
def test_a_scenario_without_named_jobs_has_no_kernels(name: str) -> None:
    """Streams and services have no step that a command could list: one line says so."""
    result = CliRunner().invoke(app, ["kernels", name])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith(f"{name}: has no named job (key 'jobs')")


# ----------------------------------------
# What `ettrick list` says: a line for each thing that comes with Ettrick, with its source.

WITH_SOURCE = (
    "scenarios",
    "studies",
    "topologies",
    "failure bundles (failures.use)",
    "recovery presets (recovery.use)",
    "models (jobs.model)",
    "accelerators (cluster.accelerator)",
)


@cases("kind", WITH_SOURCE)
def test_each_line_ends_with_its_source(kind: str) -> None:
    """What stands in a file or in the catalog has a text, and in brackets at its end where it comes from."""
    entries = sim.inventory()[kind]
    assert entries
    for name, text in entries.items():
        found = re.fullmatch(r"(?P<text>\S.*[^.]) \((?P<source>\S.+[^.])\)", text)
        assert found is not None, name
        assert len(found["source"]) <= 180, name


def test_sources_are_those_of_the_files() -> None:
    """A scenario that names a paper has it on its line; so has what extends it, and a study of it."""
    listing = sim.inventory()
    assert listing["scenarios"]["llama3-405b-54d"].endswith("(arXiv 2407.21783, and assumptions)")
    assert "2407.21783" in listing["scenarios"]["llama3-405b-16k"]
    assert listing["studies"]["spares-and-repair"].endswith("(llama3-405b-16k; arXiv 2407.21783, and assumptions)")
    assert "SIGCOMM" in listing["scenarios"]["leaf-dual-homed"]
    assert 'Llama 3 Herd of Models", arXiv 2407.21783)' in listing["topologies"]["h100-roce-24k"]
    assert "https:" not in "".join(listing["topologies"].values())


def test_without_a_terminal_lines_are_whole() -> None:
    """A pipe gets one line for each name, whatever its length, and no colours."""
    lines = format_inventory().split("\n")
    entries = [(name, text) for kind in sim.inventory().values() for name, text in kind.items()]
    assert len(lines) == len(entries) + len(sim.inventory())
    for name, text in entries:
        assert any(line.startswith(f"  {name} ") and line.endswith(f"  {text}") for line in lines), name
    assert "\x1b" not in "".join(lines)


def test_one_kind_can_be_listed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """All kinds one after the other are the whole list; each has a name of one word."""
    listing = sim.inventory()
    monkeypatch.setattr(sim, "inventory", lambda: listing)
    parts = [format_inventory(only=kind).rstrip("\n") for kind in kinds() if kind != PLUGINS]
    assert "\n".join(parts) == format_inventory().rstrip("\n")
    assert all(re.fullmatch("[a-z-]+", kind) for kind in kinds())
    result = report_sample.call("list", "lemon-policies")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["lemon", "threshold", "score"]
    both = [format_inventory(only=kind) for kind in ("failure-bundles", "failure-sources")]
    assert format_inventory(only="failures") == "\n".join(both), "by the key of a scenario"
    assert format_inventory(only="jobs.model") == format_inventory(only="model") == format_inventory(only="models")
    assert format_inventory(only=PLUGINS) == "no other package provides a plugin"


def test_a_kind_that_is_none_is_told_in_a_line() -> None:
    """The line has the nearest kind, and all of them."""
    result = report_sample.call("list", "studdies")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "did you mean 'studies'?" in result.stderr
    assert all(kind in result.stderr for kind in kinds())


# ----------------------------------------
# The JSON Schema of scenario files: valid, true of what is shipped, and false of what is wrong.

SCHEMA = sim.schema()

VALIDATOR = jsonschema.Draft7Validator(SCHEMA)

SCENARIOS = sim.shipped("scenarios")

SMALL = str(sim.shipped("topologies")["small-1k"])


def scenario(name: str) -> Any:
    """Return what a shipped file says, before anything is followed."""
    return yamlfile.load(SCENARIOS[name]).data


def put(data: Any, path: str, value: Any) -> Any:
    """Return a copy of `data` with a value at a dotted path, or without the key if there is no value."""
    data = copy.deepcopy(data)
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    holder = data
    for step in way:
        holder = holder[step]
    if value is None:
        del holder[last]
    else:
        holder[last] = value
    return data


def test_it_is_a_schema() -> None:
    """The schema is valid draft-07, which is what editors speak, and says so itself."""
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_every_reference_is_there() -> None:
    """Every ``$ref`` leads to a definition, and no definition is left over."""
    found: set[str] = set()

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            found.update(value for key, value in part.items() if key == "$ref")
            part = list(part.values())
        if isinstance(part, list):
            for item in part:
                walk(item)

    walk(SCHEMA)
    assert found == {f"#/$defs/{name}" for name in SCHEMA["$defs"]}


@cases("name", SCENARIOS)
def test_shipped_scenarios_fit(name: str) -> None:
    """Every shipped scenario fits the schema as it is written, and so does what it resolves to."""
    VALIDATOR.validate(scenario(name))
    VALIDATOR.validate(sim.load(SCENARIOS[name]).dump())


@cases(
    ("path", "value"),
    [
        ("horizn", "30 d"),
        ("horizon", None),
        ("horizon", 30),
        ("horizon", "30"),
        ("horizon", "-30 d"),
        ("horizon", True),
        ("jobs", []),
        ("jobs.0.gpu", 8),
        ("jobs.0.gpus", None),
        ("jobs.0.gpus", 64.5),
        ("jobs.0.mfu", 41),
        ("jobs.0.mfu", "a lot"),
        ("jobs.0.precision", "fp16"),
        ("jobs.0.parallelism", {"tensor": "8"}),
        ("jobs.0.work", "for ever"),
        ("failures.0.use", None),
        ("failures.0.use", "componet"),
        ("failures.0.rate", 6.5),
        ("failures.0.planned", "no"),
        ("checkpoint", "30 min"),
        ("checkpoint.tiers.0.mode", "sync"),
        ("recovery.use", None),
        ("recovery.use", "cold-spare"),
        ("recovery.delay", "10 s"),
        ("repair.time", {"mean": "1 d"}),
        ("repair.time", {"use": "weibull", "mean": "1 d"}),
        ("repair.time", {"use": "fixed"}),
        ("repair.time", "long"),
        ("cluster", {"nodes": 16, "fabric": {"radix": "big"}}),
        ("cluster", {"leaf": {"nodes": 4}}),
        ("seed", -1),
        ("extends", 3),
    ],
    ids=repr,
)
def test_wrong_scenarios_do_not_fit(path: str, value: Any) -> None:
    """An editor underlines unknown keys, wrong types, missing units, missing keys and unknown words."""
    assert not VALIDATOR.is_valid(put(scenario("quickstart"), path, value))


@cases(
    ("path", "value"),
    [
        ("cluster", {"extends": SMALL, "name": "mine"}),
        ("cluster", {"nodes": 128, "rack": {"nodes": 8}}),
        ("warmup", 0),
        ("jobs.0.gpus", "0.5 Ki"),
        ("jobs.0.work", {"time": "20 d"}),
        ("failures", []),
        ("failures.0.rate", 0),
        ("failures.0", {"use": "llama3-table5", "scale": {"cpu": 2}}),
        ("failures.0.interrupts", "50 %"),
        ("failures.0.interrupts", 0.5),
        ("repair.time", {"use": "empirical", "values": ["1 h", "3 h"]}),
        ("repair.time", "1h30m"),
        ("recovery", {"use": "full-restart", "initialize": {"use": "uniform", "low": 0, "high": "1 h"}}),
    ],
    ids=repr,
)
def test_right_scenarios_fit(tmp_path: Path, path: str, value: Any) -> None:
    """What the schema allows here, `load` reads too."""
    data = put(scenario("quickstart"), "cluster", SMALL)
    data = put(data, path, value)
    VALIDATOR.validate(data)
    file = tmp_path / "s.yaml"
    file.write_text(sim.dump(data), encoding="utf-8")
    sim.load(file)


# ----------------------------------------
# What scenarios have in common is worked out once, and nothing comes out differently for it.

_SAME_FAILURES = (
    "spares.hot=2",
    "detection.time=10 min",
    "repair.time=2 d",
    "checkpoint.tiers.0.interval=1 h",
    "recovery={use: full-restart, initialize: 10 min}",
)

_OTHER_FAILURES = ("failures.0.rate=13 per 1000 node-day", "horizon=31 d", "seed=2", "initial=stationary")

_TEMPLATE = sim.template(sim.find("quickstart"))


def _scenario(*changes: str) -> sim.Scenario:
    return sim.load(sim.find("quickstart"), changes)


def _prepared(*changes: str) -> sim.Prepared:
    return sim.prepare(_TEMPLATE.scenario(changes))


@cases("change", [*_SAME_FAILURES, *_OTHER_FAILURES])
def test_sharing_changes_no_result(change: str) -> None:
    """What was shared with another scenario gives the same result, to the last bit, as a run of its own."""
    desk = sim.TraceCache()
    first = _prepared()
    sim.run(first, 3, desk.trace(first, 3))
    prepared = _prepared(change)
    ours, alone = sim.run(prepared, 3, desk.trace(prepared, 3)), sim.run(sim.prepare(_scenario(change)), 3)
    for mine, theirs in zip(ours.jobs, alone.jobs, strict=True):
        assert np.array_equal(mine.totals, theirs.totals)
        assert mine.interruptions == theirs.interruptions


def test_a_cluster_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variants with the same cluster share its topology; another cluster has its own."""
    built: list[str] = []
    original = sim.ClusterSpec.build

    def build(self: sim.ClusterSpec) -> sim.Topology:
        built.append(self.name)
        return original(self)

    monkeypatch.setattr(sim.ClusterSpec, "build", build)
    placement._TOPOLOGIES.clear()
    placement._SITES.clear()
    for change in ("spares.hot=1", "spares.hot=2", "cluster.rack.nodes=2"):
        _prepared(change)
    assert len(built) == 2


def test_only_the_last_ones_are_kept() -> None:
    """Memory does not grow with the number of variants."""
    desk = sim.TraceCache()
    prepared = _prepared()
    for replication in range(TRACES + 5):
        desk.trace(prepared, replication)
    assert len(desk.traces) == TRACES


def test_a_template_makes_the_scenarios_of_its_file() -> None:
    """A file that was read once gives the same scenarios as one that is read each time."""
    for change in _SAME_FAILURES:
        assert _TEMPLATE.scenario([change]).dump() == _scenario(change).dump()
    assert _TEMPLATE.scenario().dump() == _scenario().dump()


def test_example_log_is_what_its_recipe_makes() -> None:
    """The committed log and its inventory are the output of tests/report_sample.py, byte for byte."""
    folder = sim.shipped("scenarios")["replay"].parent / "logs"
    for name, text in report_sample.texts().items():
        assert (folder / name).read_text(encoding="utf-8") == text


@pytest.mark.usefixtures("short_replays")
def test_every_shipped_scenario_runs_short() -> None:
    """Each scenario loads and its first half day plays with a closed ledger; studies know all metrics that it has."""
    for name in SIMULATED:
        scenario = sim.load(name, ["horizon=12 h", "warmup=0 s"])
        prepared = sim.prepare(scenario)
        result = sim.run(prepared, 0)
        assert {metric.partition("@")[0] for metric in ratios(prepared, result) | time_shares(result)} <= set(METRICS)
        if scenario.jobs:
            assert result.jobs[0].requested == scenario.jobs[0].gpus * 43200.0
        else:
            assert result.fleet.owned.sum() == result.owned


def test_switch_trays_of_shipped_scenarios_fail() -> None:
    """Wherever scale-up domains have switch trays there is a source for each of them, at a rate that is assumed."""
    found = []
    for name, path in sim.shipped("scenarios").items():
        prepared = sim.examine(sim.load(path))
        trays = prepared.counts.get("switch_tray", 0)
        if trays:
            (source,) = (source for source in prepared.sources if source.part == "switch_tray")
            assert source.units == trays
            assert source.rate == pytest.approx(trays * 0.1 / 1000 / 86_400, rel=1e-12)
            assert any(
                "switch tray" in line and "no rate is published" in line for line in prepared.scenario.assumptions
            )
            assert not any("switch trays" in line for line in prepared.warnings)
            found.append(name)
    assert found == ["llama3-405b-gb200", "mlperf-llama31-405b"]


def test_every_shipped_topology_builds() -> None:
    """Each topology can carry the quickstart's policies on a job of one scale-up domain, or one node."""
    for path in sim.shipped("topologies").values():
        cluster = sim.load_cluster(path)
        gpus = cluster.scale_up.used if cluster.scale_up is not None else cluster.hosts.gpus
        job = f"jobs=[{{name: one, gpus: {gpus}, step_time: 10 s}}]"
        scenario = sim.load(sim.find("quickstart"), [f"cluster={path}", job, "horizon=1 d", "spares.hot=0"])
        assert sim.prepare(scenario).nodes == scenario.cluster.counts()["node"]  # type: ignore[attr-defined]


def test_the_shipped_schema_is_current() -> None:
    """What editors complete from is what ``ettrick schema`` writes now."""
    path = sim.shipped("scenarios")["quickstart"].parent / "scenario.schema.json"
    assert json.loads(path.read_text(encoding="utf-8")) == sim.schema(), (
        "run: ettrick schema > scenarios/scenario.schema.json"
    )

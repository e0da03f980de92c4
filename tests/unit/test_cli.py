"""The command line: exit status, streams, one line for each mistake, and files that are whole or not there."""

from __future__ import annotations

import csv
import errno
import gzip
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer

from ettrick import cli, sim
from ettrick.analysis.commands.terminal import COMMAND_GROUPS
from ettrick.analysis.contest import runs
from ettrick.analysis.results import files
from ettrick.analysis.results.run import scenario_digest
from ettrick.sim import records
from ettrick.sim.engine.simulation import Simulation
from tests import report_sample
from tests.cases import cases, mistake_lines
from tests.pace import one_in
from tests.report_sample import call

if TYPE_CHECKING:
    from collections.abc import Callable

DONE, NO, WRONG = 0, 1, 2

FULL = Path("/dev/full")


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write the small scenario into an empty working folder; return its name."""
    return report_sample.write(tmp_path, monkeypatch)


def start(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    code = f"import sys; sys.argv[1:] = {list(arguments)!r}; from ettrick.cli import app; app()"
    defaults: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "check": False}
    return subprocess.run([sys.executable, "-c", code], **{**defaults, **options})


def refused(result: Any, *parts: str) -> None:
    """Check that a command ended as wrong input, with one line that holds `parts`, and nothing else."""
    assert result.exit_code == WRONG
    assert result.stdout == ""
    lines = mistake_lines(result.stderr)
    assert len(lines) == 1, result.stderr
    assert all(part in lines[0] for part in parts), lines[0]


def test_run_prints_tables(scenario: str) -> None:
    """A run ends with 0, its tables on standard output and nothing on standard error."""
    result = call("run", scenario, "--replications", "3", "--full")
    assert (result.exit_code, result.stderr) == (DONE, "")
    assert "Where every GPU-hour went" in result.stdout
    assert "3 replications of 2 d, seed 1" in result.stdout


def test_json_is_one_document_and_nothing_else(scenario: str) -> None:
    """With --json standard output is one JSON document, standard error is empty."""
    result = call("run", scenario, "--replications", "3", "--json", "--seed", "7")
    assert (result.exit_code, result.stderr) == (DONE, "")
    content = json.loads(result.stdout)
    assert (content["scenario"], content["replications"], content["seed"]) == ("small", 3, 7)


def test_set_and_seed_change_the_scenario(scenario: str) -> None:
    """--set replaces a value, --seed is short for one of them: same digest, same numbers."""
    by_set = json.loads(call("run", scenario, "--set", "seed=7", "--replications", "2", "--json").stdout)
    by_seed = json.loads(call("run", scenario, "--seed", "7", "--replications", "2", "--json").stdout)
    other = json.loads(call("run", scenario, "--replications", "2", "--json").stdout)
    assert by_set["metrics"] == by_seed["metrics"] != other["metrics"]
    assert by_set["provenance"]["scenario_sha256"] == by_seed["provenance"]["scenario_sha256"]


def test_check_accepts(scenario: str) -> None:
    """A valid scenario is named, with 0."""
    result = call("check", scenario)
    assert (result.exit_code, result.stderr) == (DONE, "")
    assert "'small'" in result.stdout


def test_schema_and_list() -> None:
    """Schema is one JSON document; list names what can be run."""
    assert json.loads(call("schema").stdout)["properties"]["horizon"]
    listing = call("list").stdout
    assert all(name in listing for name in ("quickstart", "hot-spare", "llama3-table5", "fat-tree"))


def test_version() -> None:
    """--version prints the installed version alone."""
    from importlib import metadata

    result = call("--version")
    assert (result.exit_code, result.stdout) == (DONE, metadata.version("ettrick") + "\n")


def test_options_are_named_as_elsewhere() -> None:
    """-h is help, -o out, -n replications, -V version; no summary is cut, no metavar is a type."""
    group: Any = typer.main.get_command(cli.app)
    commands = {(name,): command for name, command in group.commands.items()}
    commands |= {("topology", name): command for name, command in group.commands["topology"].commands.items()}
    assert group.context_settings["help_option_names"] == ["-h", "--help"], "of all its commands too"
    for path, command in commands.items():
        shown = call(*path, "-h")
        assert shown.exit_code == DONE
        assert not re.search(r"^  -.*<(str|path|int)", shown.stdout, re.MULTILINE), path
        flags = {flag for option in command.params for flag in option.opts}
        assert ("--out" in flags, "--replications" in flags) == ("-o" in flags, "-n" in flags), path
    assert "..." not in call("-h").stdout.partition("Options:")[2] + call("topology", "-h").stdout.partition("ds:")[2]
    assert call("-V").stdout == call("-v").stdout == call("--version").stdout
    assert call().exit_code == WRONG


def test_band_is_in_the_document(scenario: str) -> None:
    """--band fills band90 where a rate says on how many events it rests."""
    arguments = ("run", scenario, "--replications", "2", "--set", "failures.0.events=5", "--json")
    with_band = json.loads(call(*arguments, "--band", "20").stdout)["metrics"]["ettr"]["band90"]
    assert with_band[0] < with_band[1]
    assert json.loads(call(*arguments).stdout)["metrics"]["ettr"]["band90"] is None


def test_precision_reached(scenario: str) -> None:
    """A precision that is reached at the first decision ends with 0 after 30 replications."""
    result = call("run", scenario, "--precision", "20pt", "--json")
    assert result.exit_code == DONE
    assert json.loads(result.stdout)["replications"] == 30


def test_precision_not_reached(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A precision that is not reached at the limit ends with 1, its results, and one line that says so."""
    monkeypatch.setattr(runs, "MOST", 30)
    result = call("run", scenario, "--precision", "0.0001pt", "--json")
    assert result.exit_code == NO
    assert json.loads(result.stdout)["replications"] == 30
    assert result.stderr == "--precision 0.0001pt: not reached in 30 replications\n"


def test_a_job_that_can_never_start(scenario: str) -> None:
    """A job behind one that never ends: results, one line that says so, and 1."""
    jobs = [{**report_sample.SMALL["jobs"][0], "name": name} for name in ("first", "second")]
    Path(scenario).write_text(sim.dump({**report_sample.SMALL, "jobs": jobs}))
    result = call("run", scenario, "--replications", "2")
    assert result.exit_code == NO
    assert "small: 2 replications of 2 d" in result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("job 'second' can never start: no replication had enough free nodes")


def test_a_job_that_never_arrives(scenario: str) -> None:
    """A job that arrives when all is over either is refused as input or can never start: never a traceback."""
    result = call("run", scenario, "--set", "jobs.0.arrival=3 d", "--replications", "2")
    assert result.exit_code in (NO, WRONG)
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["run", "nowhere.yaml"], ["nowhere.yaml", "no such file"]),
        (["check", "nowhere.yaml"], ["nowhere.yaml", "no such file"]),
        (["run", "quickstrat"], ["quickstrat: no such file or bundled scenario; did you mean 'quickstart'?"]),
        (["check", "."], ["directory"]),
        (["run", "small.yaml", "--set", "horizon"], ["--set horizon", "path=value"]),
        (
            ["run", "small.yaml", "--set", "horizont=3 d"],
            ["--set horizont=3 d: unknown key 'horizont'; did you mean 'horizon'?"],
        ),
        (["run", "small.yaml", "--set", "horizon=3"], ["--set horizon=3: '3' needs a unit"]),
        (["check", "small.yaml", "--set", "jobs.0.gpus=113"], ["113 GPUs"]),
        (["run", "small.yaml", "--seed", "99999999999999999999"], ["seed"]),
        (["run", "small.yaml", "--precision", "3"], ["--precision: '3' is not a precision", "0.1pt"]),
        (["run", "small.yaml", "--precision", "1pt", "--metric", "mtti"], ["points are for shares", "2%"]),
        (["run", "small.yaml", "--metric", "etr"], ["no metric 'etr'", "did you mean 'ettr'"]),
        (["run", "small.yaml", "--precision", "1pt", "--metric", "etr"], ["no metric 'etr'", "did you mean 'ettr'"]),
        (["run", "small.yaml", "--band", "5"], ["--band", "at least 20"]),
        (["run", "small.yaml", "--out", "small.yaml"], ["--out small.yaml", "is a file"]),
        (["run", "small.yaml", "--out", "small.yaml/deep/er"], ["--out small.yaml/deep/er", "is a file"]),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], parts: list[str], scenario: str) -> None:
    """Each mistake is one line on standard error with 2, nothing is printed and nothing written."""
    refused(call(*arguments), *parts)
    assert sorted(path.name for path in Path().iterdir()) == ["small.yaml"]


def test_of_thousands_of_mistakes_twenty_are_shown_and_counted(scenario: str) -> None:
    """Whoever has 3,000 unknown keys sees the first of them and how many they are; of 20 all are seen."""
    for count, shown in ((20, 20), (3_000, 21)):
        Path(scenario).write_text(report_sample.YAML + "".join(f"x{number}: 1\n" for number in range(count)))
        result = call("check", scenario)
        *lines, fix = result.stderr.splitlines()
        assert (result.exit_code, len(lines), fix) == (WRONG, shown, "help: ettrick schema")
        assert all(f"x{number}: unknown key" in line for number, line in enumerate(lines[:20]))
    assert lines[20] == "... 3,000 mistakes; the first 20 are shown"


@cases(
    ("arguments", "fix"),
    [
        (["run", "nowhere"], "ettrick list scenarios"),
        (["sweep", "nowhere"], "ettrick list studies"),
        (["topology", "show", "nowhere"], "ettrick topology list"),
        (["run", "quickstart", "--set", "jobs.0.model=nothing"], "ettrick list models"),
        (["init", "x.yaml", "--recovery", "nothing"], "ettrick list recovery-presets"),
        (["check", "quickstart", "--set", "horizn=1 d"], "ettrick schema"),
        (["init", "small.yaml"], "ettrick init small.yaml --overwrite"),
        (
            ["run", "quickstart", "-n", "9000000", "--engine", "events"],
            "ettrick run quickstart -n 9000000 --engine events --yes",
        ),
    ],
)
def test_a_mistake_names_the_command_that_helps(
    arguments: list[str], fix: str, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line after the mistake is a command that can be typed as it is."""
    monkeypatch.setattr(sys, "argv", ["ettrick", *arguments])
    result = call(*arguments)
    assert (result.exit_code, result.stderr.splitlines()[1:]) == (WRONG, [f"help: {fix}"])


def test_help_shows_all_commands_and_options_in_groups() -> None:
    """Each command is in one group, options of run are in three; names have no braces, and defaults brackets."""
    group: Any = typer.main.get_command(cli.app)
    assert sorted(itertools.chain(*COMMAND_GROUPS.values())) == sorted(group.commands)
    shown = call("run", "-h").stdout
    assert re.findall(r"^(\w+):", shown, re.MULTILINE) == ["Usage", "Arguments", "Input", "Simulation", "Output"]
    assert "Usage: ettrick run [OPTIONS] SCENARIO\n" in shown
    assert "[default: 32; 8 for" in shown
    assert not re.search(r"x[<>]=|<str>|\[required|default: \(", shown)


@pytest.mark.parametrize("arguments", [["run"], ["run", "small.yaml", "--no-such-option"], ["no-such-command"]])
def test_usage_errors(arguments: list[str], scenario: str) -> None:
    """A misuse of the command line shows the usage and one line of error, with 2."""
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (WRONG, "")
    assert [line.startswith("Error: ") for line in result.stderr.splitlines()].count(True) == 1
    assert "Usage: ettrick" in result.stderr


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("--replications", "0", "must be at least 1"),
        ("--replications", "many", "must be a whole number"),
        ("--band", "-1", "must be at least 0"),
        ("--jobs", "-1", "must be at least 0"),
    ],
)
def test_a_wrong_value_of_an_option_is_one_line(option: str, value: str, rule: str, scenario: str) -> None:
    """The option and the rule, with 2."""
    result = call("run", "small.yaml", option, value)
    assert (result.exit_code, result.stdout, result.stderr) == (WRONG, "", f"{option}: {rule}\n")


def test_a_fault_of_the_program_is_not_blamed_on_the_user(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ValueError from inside the simulation is not reported as wrong input."""

    def broken(*arguments: Any, **options: Any) -> Any:
        message = "a defect"
        raise ValueError(message)

    for name in ("run", "run_block"):
        monkeypatch.setattr(runs, name, broken)
    with pytest.raises(ValueError, match="a defect"):
        call("run", scenario)


def test_out_holds_the_document_and_the_scenario(scenario: str) -> None:
    """--out makes folders, writes what --json prints, and a scenario with the same digest and the same numbers."""
    printed = call("run", scenario, "--set", "seed=3", "--replications", "2", "--json", "--out", "a/b").stdout
    assert sorted(path.name for path in Path("a/b").iterdir()) == ["run.json", "scenario.resolved.yaml"]
    assert Path("a/b/run.json").read_text() == printed
    written = "a/b/scenario.resolved.yaml"
    assert call("check", written).exit_code == DONE
    again = json.loads(call("run", written, "--replications", "2", "--json").stdout)
    first = json.loads(printed)
    assert first["provenance"].pop("command") != ""
    again["provenance"].pop("command")
    assert again == first
    assert scenario_digest(sim.load(written)) == first["provenance"]["scenario_sha256"]


def test_out_takes_the_same_scenario_again(scenario: str) -> None:
    """Another run of the same scenario replaces the first, also with more replications."""
    for count in ("2", "3"):
        assert call("run", scenario, "--replications", count, "--out", "found").exit_code == DONE
    assert json.loads(Path("found/run.json").read_text())["replications"] == 3


def test_out_refuses_another_run(scenario: str) -> None:
    """Another scenario's folder is left as it is, unless --overwrite says otherwise."""
    call("run", scenario, "--replications", "2", "--out", "found")
    before = Path("found/run.json").read_text()
    other = ("run", scenario, "--seed", "2", "--replications", "2", "--json", "--out", "found")
    refused(call(*other), "--out found", "--overwrite")
    assert Path("found/run.json").read_text() == before
    assert call(*other, "--overwrite").exit_code == DONE
    assert json.loads(Path("found/run.json").read_text())["seed"] == 2


def test_out_gives_no_results_away_for_fewer(scenario: str) -> None:
    """Fewer replications of the same scenario do not replace more without --overwrite or --force, which are one."""
    assert call("run", scenario, "--replications", "4", "--out", "found", "--node-log").exit_code == DONE
    before = Path("found/run.json").read_text()
    refused(
        call("run", scenario, "--replications", "3", "--out", "found"),
        "--out found: contains 4 replications of this, more than 3; choose another folder or add --overwrite",
    )
    assert Path("found/run.json").read_text() == before
    assert call("run", scenario, "--replications", "3", "--out", "found", "--force").exit_code == DONE
    assert json.loads(Path("found/run.json").read_text())["replications"] == 3
    assert not Path("found/nodes.csv").exists(), "the log of other replications"
    damaged = json.loads(Path("found/run.json").read_text()) | {"replications": "many"}
    Path("found/run.json").write_text(json.dumps(damaged))
    refused(call("run", scenario, "--replications", "3", "--out", "found"), "--out found: contains other results")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "quickstart", "--out", "@"],
        ["compare", "quickstart", "--vary", "spares.hot=0,4", "--out", "@"],
        ["sweep", "cost-and-spares", "--out", "@"],
        ["trace", "quickstart", "--out", "@/x.json"],
        ["topology", "export", "small-1k", "--format", "json", "--out", "@/x.json"],
        ["topology", "plot", "small-1k", "--out", "@/x.svg"],
        ["init", "@/x.yaml"],
    ],
    ids=["run", "compare", "sweep", "trace", "export", "plot", "init"],
)
@pytest.mark.parametrize("place", ["file", "/proc", "x" * 300])
def test_out_is_looked_at_before_anything_is_simulated(
    place: str, arguments: list[str], scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in the way, a file system that takes nothing, a name that is too long: a line, before the first event."""
    monkeypatch.setattr(Simulation, "run", lambda _: pytest.fail("simulated"))
    Path("file").touch()
    refused(call(*(argument.replace("@", place) for argument in arguments)), place)


@cases(
    "command",
    [
        "run quickstart -n 1 --out @/",
        "compare quickstart --vary spares.hot=0,4 --out @/",
        "sweep cost-and-spares --out @/",
        "validate --only no-row --out @/",
        "trace quickstart --out @",
        "trace quickstart --logs @/",
        "topology export small-1k --format json --out @",
        "topology plot small-1k --out @.svg",
        "kernels quickstart --csv @",
        "kernels quickstart --out @.svg",
        "layouts serve-llama3-70b --csv @",
        "report results",
        "report results --out @.html",
        "plot results where --out @.svg",
        "init @.yaml",
    ],
)
def test_no_command_replaces_what_it_did_not_write(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file or folder that is there stays as it is without --overwrite, and so does what a link leads to."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Simulation, "run", lambda _: pytest.fail("simulated"))
    Path("results").mkdir()
    name = next((word for word in command.split() if "@" in word), "results/report.html").replace("@", "there")
    Path("elsewhere").write_text("precious")
    if name.endswith("/"):
        Path(name).mkdir()
        Path(name, "file").write_text("precious")
    else:
        Path(name).symlink_to(Path("elsewhere").absolute())
    refused(call(*command.replace("@", "there").split()), "--overwrite")
    assert Path("elsewhere").read_text() == "precious"
    assert not name.endswith("/") or [path.name for path in Path(name).iterdir()] == ["file"]


def test_a_folder_takes_one_command_at_a_time(scenario: str) -> None:
    """While another program writes to it, and behind a link that leads nowhere, nothing is begun; one may follow it."""
    with files.reserved(Path("new/folder")):
        refused(call("run", scenario, "--out", "new/folder"), "--out new/folder: is in use: another program")
    assert not Path("new").exists()
    Path("link").symlink_to("nowhere")
    for out in ("link", "link/below"):
        refused(call("run", scenario, "--out", out), "link is a link that leads nowhere")
    for _ in range(2):
        assert call("run", scenario, "-n", "1", "--out", "new/folder").exit_code == DONE


def test_a_packed_file_that_unpacks_to_far_more_is_refused(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of logs and of traces it is one line, before more than that is unpacked; what is packed as logs are is read."""
    monkeypatch.setattr(records, "MIN_UNPACKED", 100_000)
    header = b"job,submit,run,gpus\n"
    for name, content in (("bomb", header + b"0" * 10**6), ("plain", header + b"a,0,60,8\n" * 3)):
        Path(f"{name}.csv.gz").write_bytes(gzip.compress(content))
    stream = "streams=[{use: trace, name: t, file: @.csv.gz}]"
    part = "unpacks to more than"
    refused(call("fit", "bomb.csv.gz", "--nodes", "4"), "bomb.csv.gz cannot be read", part)
    refused(call("check", "fleet-64-nodes", "--set", stream.replace("@", "bomb")), "bomb.csv.gz cannot be read", part)
    assert part not in call("check", "fleet-64-nodes", "--set", stream.replace("@", "plain")).stderr


@cases(
    ("cell", "written"),
    [
        *((text, f"'{text}") for text in ("=1+1", "+1+1", "-2+3", "@SUM(1)", "\t=1", "-5 min", "-inf s")),
        *((text, text) for text in ("-5", "+1.5e-3", "-.5", "-inf", "-", "a=1", "", "5 - 3")),
        (-5.0, "-5.0"),
    ],
)
def test_no_cell_of_csv_is_a_formula(cell: str | float, written: str) -> None:
    """What a spreadsheet would compute begins with an apostrophe; numbers stay numbers."""
    assert next(csv.reader([files.csv_text([[cell, 1]])])) == [written, "1"]


def test_what_writes_can_be_told_to_overwrite() -> None:
    """Each command with an option for files of its own has --overwrite; merge never replaces."""
    group: Any = typer.main.get_command(cli.app)
    commands = {**group.commands, **group.commands["topology"].commands}
    writing = {
        name
        for name, command in commands.items()
        if name != "merge"
        and {"--out", "--csv", "--logs"} & {text for option in command.params for text in option.opts}
    }
    overwriting = {
        name for name, command in commands.items() if any("--overwrite" in option.opts for option in command.params)
    }
    assert overwriting == writing | {"init"}


def test_what_the_system_does_not_do_is_one_line(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No room for temporary files is said with the folder and what names another; another file with its name."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(runs, "replicate", full)
    refused(call("run", scenario), "No space left on device", "TMPDIR")

    def gone(*_: Any, **__: Any) -> None:
        Path("gone").read_bytes()

    monkeypatch.setattr(runs, "replicate", gone)
    refused(call("run", scenario), "gone: No such file or directory")
    monkeypatch.setattr(tempfile, "tempdir", "nowhere/at/all")
    Path("nowhere").touch()
    refused(call("fit", "small.yaml"), "nowhere/at/all: ", "nowhere is a file", "TMPDIR")


@pytest.mark.parametrize("content", ["", "{}", "[1]", "null", '{"provenance": null}', "\udcff"])
def test_out_refuses_what_is_not_a_run(content: str, scenario: str) -> None:
    """A folder with a run.json that is none is refused, and left alone."""
    Path("found").mkdir()
    Path("found/run.json").write_text(content, errors="surrogateescape")
    refused(call("run", scenario, "--replications", "2", "--out", "found"), "contains other results")
    assert Path("found/run.json").read_bytes() == content.encode(errors="surrogateescape")


def test_out_keeps_what_else_is_there(scenario: str) -> None:
    """--overwrite replaces its own two files and touches no other."""
    Path("found").mkdir()
    Path("found/notes.txt").write_text("mine")
    refused(call("run", scenario, "--replications", "2", "--out", "found"), "contains other results")
    assert call("run", scenario, "--replications", "2", "--out", "found", "--overwrite").exit_code == DONE
    assert Path("found/notes.txt").read_text() == "mine"


@pytest.mark.parametrize("is_new", [True, False])
def test_disk_full_leaves_no_half_file(is_new: bool, scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk is full at the second file: the results, one line, 2, and a folder as it was before."""
    if not is_new:
        call("run", scenario, "--replications", "2", "--out", "found")
    before = Path("found/run.json").read_text() if not is_new else None
    original: Callable[..., int] = Path.write_text

    def full(path: Path, text: str, **options: Any) -> int:
        if "run.json" in path.name:
            original(path, text[:100], **options)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(path, text, **options)

    monkeypatch.setattr(Path, "write_text", full)
    result = call("run", scenario, "--replications", "3", "--out", "found")
    assert result.exit_code == WRONG
    assert "small: 3 replications of 2 d" in result.stdout
    assert result.stderr == "--out found: cannot be written (No space left on device)\n"
    if is_new:
        assert not Path("found").exists()
    else:
        assert Path("found/run.json").read_text() == before
        assert sorted(path.name for path in Path("found").iterdir()) == ["run.json", "scenario.resolved.yaml"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that cannot be written")
def test_out_where_nothing_can_be_written(scenario: str) -> None:
    """A file system that takes no folders is one line."""
    result = call("run", scenario, "--replications", "2", "--out", "/proc/ettrick")
    assert result.exit_code == WRONG
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("--out /proc/ettrick: cannot be written")


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "arguments", one_in(2, [["run", "quickstart", "--replications", "2"], ["run", "--help"], ["--help"], ["schema"]])
)
def test_full_standard_output(arguments: list[str]) -> None:
    """Standard output that takes nothing is one line and 2: no traceback, not even at the very end."""
    # Unbuffered output would hide what happens to the rest of the buffer at the end.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with FULL.open("w") as full:
        result = start(*arguments, stdout=full, env=environment)
    assert result.returncode == WRONG
    assert result.stderr == "standard output: cannot be written (No space left on device)\n"


def test_broken_pipe() -> None:
    """A reader that leaves early (head -1) hears no complaint."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = start("run", "quickstart", "--replications", "2", stdout=writer)
    finally:
        os.close(writer)
    assert result.stderr == ""


def test_terminal_without_the_characters() -> None:
    """An encoding that lacks the bars gets something else in their place, not a traceback."""
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    result = start("run", "quickstart", "--replications", "2", env=environment, encoding="latin-1")
    assert (result.returncode, result.stderr) == (DONE, "")
    assert "quickstart: 2 replications" in result.stdout


def imported(names: set[str], *arguments: str) -> set[str]:
    """Return which of the modules have been imported when a command has ended well."""
    code = (
        f"import sys; sys.argv[1:] = {list(arguments)!r}\n"
        "from ettrick import cli\n"
        "try:\n    cli.app()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print(*({names!r} & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stderr.split())


def test_help_imports_no_simulator() -> None:
    """--help does without the simulator and numpy."""
    assert imported({"ettrick.sim.load", "ettrick.analysis.api", "numpy"}, "run", "--help") == set()


def test_check_imports_nothing_heavy() -> None:
    """Check does without scipy, matplotlib, networkx, pandas, and what draws tables."""
    heavy = {"scipy", "matplotlib", "networkx", "pandas", "rich", "multiprocessing"}
    assert imported(heavy, "check", "quickstart") == set()


def test_a_short_run_does_without_what_is_slow_to_import() -> None:
    """A run imports nothing of scipy, whose import takes longer than a small run."""
    names = {"scipy.stats", "scipy.special", "matplotlib", "networkx", "pandas"}
    assert imported(names, "run", "quickstart", "--replications", "2") == set()


def test_one_replication_needs_no_scipy() -> None:
    """What has neither an interval nor a quantile does without scipy, and one process without others."""
    names = {"scipy", "multiprocessing", "concurrent.futures"}
    assert imported(names, "run", "quickstart", "--replications", "1") == set()

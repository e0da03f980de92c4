"""The text for people: nothing lost, nothing interpreted, nothing wider than the terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from ettrick import sim
from ettrick.analysis.contest.runs import band, replicate
from ettrick.analysis.terminal import ProgressBar, format_inventory
from ettrick.cli import app
from tests import report_sample
from tests.cases import cases
from tests.documents import document, format_run
from tests.pace import one_in


def show(prepared: sim.Prepared, replications: int = 3, width: int = 120, draws: int = 0) -> str:
    """Return what is printed for a scenario."""
    found = replicate(prepared, replications)
    bands = band(found, draws, replications=1) if draws else None
    return format_run(document(found, command="", bands=bands), prepared, width=width)


def section(text: str, title: str) -> list[str]:
    """Return the lines of one section, without its title."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith(title)) + 1
    end = next((index for index in range(start, len(lines)) if not lines[index]), len(lines))
    return lines[start:end]


def row(text: str, title: str, label: str) -> str:
    """Return the row of a section that begins with a label."""
    return next(line for line in section(text, title) if line.strip().startswith(label))


def shares(text: str) -> list[float]:
    """Return the percentages of the table of GPU-hours, the total last."""
    found = [re.search(r"([\d.]+) %", line) for line in section(text, "Where every GPU-hour went")]
    return [float(match[1]) for match in found if match]


def test_all_parts_are_there() -> None:
    """The scenario, ETTR with its interval, the table of GPU-hours, the causes and the closed form are printed."""
    text = show(report_sample.prepare())
    assert text.startswith("Of every hundred GPU-hours")
    assert "\nsmall\n" in text
    assert "128 GPUs (h100) in 16 nodes" in text
    assert "train: 112 GPUs, step 10.00 s" in text
    assert re.search(r"ETTR \(productive / requested\) +\d\d\.\d\d % +\d\d\.\d\d to \d\d\.\d\d %", text)
    assert "x runtime goodput" in text
    assert row(text, "Interruptions by cause", "node")
    assert re.search(r"reschedule \+ initialize \+ restore +[\d.]+ % +[\d.]+ % +[+-][\d.]+ pt", text)


@pytest.mark.parametrize("name", one_in(3, sorted(set(sim.shipped("scenarios")) - {"fleet-philly", "fleet-rsc1"})))
def test_a_run_fits_on_one_screen(name: str) -> None:
    """At 80 columns a shipped scenario takes 25 lines: the answer of its page first, in the end what to ask next."""
    prepared = sim.prepare(sim.load(sim.find(name)))
    content = document(replicate(prepared, 1 if prepared.streams else 2), command="")
    shown, full = (format_run(content, prepared, width=80, full=full, name=name) for full in (False, True))
    lines, answer = shown.splitlines(), full.split("\n\n")[0]
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    assert shown.startswith(f"{answer}\n\n{name}: ")
    assert answer.startswith("Of every hundred")
    assert lines[-1].split() == ["next", "--full", "|", "--out", "DIR", "|", "ettrick", "explain", name]


def test_bars_are_as_long_as_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars fill their column at the largest loss; what is left out is counted, and adds up with the rest."""
    monkeypatch.setenv("COLUMNS", "80")
    text = CliRunner().invoke(app, ["run", "llama3-405b-54d", "-n", "4"]).stdout
    head, *rows = text.split("\n\n")[2].splitlines()
    parts = [float(match[1]) for match in re.finditer(r"([\d.]+) %  [^ ]", "\n".join(rows))]
    assert parts[0] == max(parts)
    assert rows[0].count("█") == 16
    assert float(head.split()[2]) == pytest.approx(sum(parts), abs=0.02)
    assert re.match(r"  \d others", rows[-1])
    assert "Causes of interruptions: 3 of 19" in text


def test_no_doubt_is_only_in_full(tmp_path: Path) -> None:
    """Notes, targets that are missed, inputs that are not known exactly and a formula far off are on one screen."""
    file = tmp_path / "small.yaml"
    data = {**report_sample.SMALL, "targets": [{"name": "day", "at_least": "99.9 %", "window": "1 d"}]}
    data["failures"] = [{**report_sample.SMALL["failures"][0], "events": 5}]
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    command = ["run", str(file), "-n", "2", "--band", "20"]
    found = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    text = " ".join(CliRunner().invoke(app, command).stdout.split())
    assert all(re.split("[:;] ", note)[0] in text for note in found["notes"])
    assert re.search(r"target day: .* of the windows of 24 h miss the target", text)
    assert re.search(r"inputs ETTR .* to .* % \(90 %\): inputs are uncertain", text)
    assert "check closed form" in text


def test_shares_add_up() -> None:
    """The rows of the table of GPU-hours add up to its total, 100 %, but for the rounding of each row."""
    jobs = [{**report_sample.SMALL["jobs"][0], "name": name, "gpus": 64} for name in ("first", "second")]
    for prepared in (report_sample.prepare(), report_sample.prepare(jobs=jobs), report_sample.prepare(failures=[])):
        *rows, total = shares(show(prepared))
        assert total == 100
        assert sum(rows) == pytest.approx(100, abs=0.005 * len(rows) + 1e-9)


def test_no_markup() -> None:
    """Brackets in a user's text stay as they are, in titles, cells, notes and assumptions; a stray one is no error."""
    name, cause, job, note = "[bold]x[/x]", "[red]y[/]", "[/stray]", ":smile: [dev] [link=a]b"
    prepared = report_sample.prepare(
        name=name,
        description=note,
        jobs=[{**report_sample.SMALL["jobs"][0], "name": job, "work": {"time": "1 d"}}],
        failures=[{**report_sample.SMALL["failures"][0], "name": cause}],
        assumptions=[note],
    )
    text = show(prepared)
    assert f"\n{name}\n" in text
    assert all(part in text for part in (f"{job}: 112 GPUs", f"  - {note}", f"  {note}\n"))
    assert row(text, "Interruptions by cause", cause)
    assert row(text, "Jobs", job)


HOSTILE = "\x1b[2J\x1b]0;title\x07\x1b[8m\x9b31m\u202eevil\u2066\x7f"
"""Text that clears a screen, names a window, hides and reorders what follows."""

SHOWN = r"\x1b[2J\x1b]0;title\x07\x1b[8m\u009b31m\u202eevil\u2066\u007f"


def test_no_text_commands_the_terminal(tmp_path: Path) -> None:
    """Names and sentences of a scenario are shown with escapes on every command; what is styled is Ettrick's own."""
    file = tmp_path / "hostile.yaml"
    data = {
        **report_sample.SMALL,
        "name": HOSTILE,
        "description": HOSTILE,
        "assumptions": [HOSTILE],
        "jobs": [{**report_sample.SMALL["jobs"][0], "name": HOSTILE}],
        "failures": [{**report_sample.SMALL["failures"][0], "name": HOSTILE}],
    }
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    code = f"import sys; sys.argv[1:] = ['run', {str(file)!r}, '-n', '1']; from ettrick.cli import app; app()"
    text = COLOR.sub("", in_terminal(code, 80))
    assert not re.search(r"[^\n\t\x20-\x7e\xa0-\u2027\u202f-\u2065\u2070-\uffff]", text)
    for command in (["check"], ["explain", "-n", "0"], ["topology", "show"]):
        assert not re.search("[^\n -\x7e\xa0-\uffff]", CliRunner().invoke(app, [*command, str(file)]).output), command
    shown = CliRunner().invoke(app, ["run", str(file), "-n", "1"]).stdout
    assert f"\n{SHOWN}: 1 replication of" in shown
    document = CliRunner().invoke(app, ["run", str(file), "-n", "1", "--json"]).stdout
    assert json.loads(document)["scenario"] == HOSTILE
    assert not re.search("[\x7f-\x9f\u2028-\u202e]", document)
    assert not re.search("[^\n -\x7e]", CliRunner().invoke(app, ["run", HOSTILE]).stderr)


@pytest.mark.parametrize("width", [80, 200])
def test_width_is_respected(width: int) -> None:
    """No line is wider than asked for, and no table is folded."""
    jobs = [
        {**report_sample.SMALL["jobs"][0], "name": name, "gpus": 64, "work": {"time": "1 d"}} for name in ("a", "b")
    ]
    text = show(report_sample.prepare(jobs=jobs, windows="12 h"), width=width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert len(section(text, "Jobs")) == 4


def test_no_failures() -> None:
    """Without any failure there is no MTTI, no cause is listed, and nothing is charged to one: all is exact."""
    text = show(report_sample.prepare(failures=[]))
    assert re.search(r"MTTI +- ", text)
    assert "nothing is random" in text
    rare = [{**report_sample.SMALL["failures"][0], "rate": "1 per 1000000 node-day"}]
    assert re.search(r"MTTI +> 2 d", show(report_sample.prepare(failures=rare)))  # 3 x 2 d / ln 20
    assert "Interruptions by cause" not in text
    assert "failures  0 causes\n" in text


def test_several_jobs_have_a_row_each() -> None:
    """Jobs that wait and are censored are shown one by one, with a dash for what the data do not support."""
    jobs = [
        {**report_sample.SMALL["jobs"][0], "name": "short", "work": {"time": "10 h"}, "deadline": "1 d"},
        {**report_sample.SMALL["jobs"][0], "name": "long", "work": {"time": "90 h"}, "deadline": "4 d"},
    ]
    text = show(report_sample.prepare(jobs=jobs))
    assert row(text, "Jobs", "short").endswith("3 of 3 runs")
    assert row(text, "Jobs", "long").endswith("0 of 3 runs")
    assert re.search(r"time to finish +- +- +-", text)
    assert re.search(r"P\(finish by the deadline\) +50\.00 %", text)
    assert "job 'long' was not finished at the horizon in 3 of 3 replications" in text


def test_a_fabric_that_nobody_stated_is_printed() -> None:
    """Which one was chosen is in the head, and a warning where it is more than the plain one."""
    assert "  fabric " not in show(report_sample.prepare())
    chosen = report_sample.prepare(cluster={"nodes": 16})
    assert "  fabric    default: one tier of 64-port leaf switches, 8 rails of 400 Gb/s" in show(chosen)
    assert not chosen.warnings
    larger = report_sample.prepare(cluster={"nodes": 300}, spares={"hot": 2, "idle": "serve"})
    assert "  fabric    default: fat tree of 3 tiers of 64-port switches" in show(larger)
    assert "300 nodes get a fat tree of 3 tiers" in "".join(larger.warnings)


def test_all_null() -> None:
    """A job that never arrives leaves dashes, and no table of its hours."""
    text = show(report_sample.prepare(jobs=[{**report_sample.SMALL["jobs"][0], "arrival": "3 d"}]))
    assert re.search(r"ETTR \(productive / requested\) +- +- +-", text)
    assert "Where every GPU-hour went" not in text


def policies(**changes: object) -> str:
    """Return the line of the header that names the policies."""
    text = show(report_sample.prepare(**changes), replications=1)
    return next(line for line in text.splitlines() if line.startswith("  policies")).split(maxsplit=1)[1]


def test_policies_of_one_store() -> None:
    """A single store says how it is saved to: blocking or in the background."""
    assert policies() == ("checkpoint every 20 min (stall 30 s, then durable), recovery hot-spare, 2 hot spares")
    tier = {"interval": "20 min", "stall": "2 s", "write": "1 min", "restore": "1 min"}
    spares = {"hot": 1}
    assert policies(checkpoint={"tiers": [tier]}, spares=spares) == (
        "checkpoint every 20 min (stall 2 s, durable 1 min later), recovery hot-spare, 1 hot spare"
    )
    # A store that deletes old copies is no less the only one.
    assert policies(checkpoint={"tiers": [{**tier, "retain": 3}]}, spares=spares) == policies(
        checkpoint={"tiers": [tier]}, spares=spares
    )


def test_full_clocks_are_said_in_the_first_lines() -> None:
    """Beside jobs of a stream a cap is for the named one alone; without a stream, or without a cap, nothing is said."""
    stream = {"name": "others", "arrivals": {"rate": "1 per d"}, "gpus": 8, "work": "1 h"}
    keys: dict[str, Any] = {"power": {"cap": "75 kW", "idle": "2 kW", "training": "10 kW"}, "streams": [stream]}
    said = "  power     jobs of streams and services keep full clocks: caps, heat and ramps are for named jobs"
    for left_out, expected in ((None, True), ("power", False), ("streams", False)):
        one = report_sample.prepare(**{key: value for key, value in keys.items() if key != left_out})
        assert (said in show(one, replications=1).splitlines()) is expected
        assert any("keep full clocks" in line for line in one.warnings) is expected


def test_causes_by_whose_repair_applies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run and check say which causes have a repair other than the scenario's, and the document says it of each."""
    bundle = "failures=[{use: component-rates, keeps_repair: true}]"
    worded = (
        "repair  the bundle's: gpu, hbm, gpu_sram, gpu_system_processor and 4 more; "
        "the scenario's: silent_data_corruption, cpu, system_memory, ssd and 2 more"
    )
    name = report_sample.write(tmp_path, monkeypatch)
    found = report_sample.call("check", name, "--set", bundle)
    assert [" ".join(line.split()) for line in found.stdout.splitlines()[1:]] == [" ".join(worded.split())]
    printed = show(report_sample.prepare(failures=[{"use": "component-rates", "keeps_repair": True}]), 1)
    assert " ".join(worded.split()) in " ".join(printed.split())
    plain = report_sample.call("check", name)
    assert len(plain.stdout.splitlines()) == 1
    ran = json.loads(report_sample.call("run", name, "--set", bundle, "--replications", "1", "--json").stdout)[
        "repair_from"
    ]
    assert (ran["gpu"], ran["cpu"], "software" in ran) == ("bundle", "scenario", False)


def test_band_is_said() -> None:
    """A band of the rates is one line under the table, apart from the interval of the mean."""
    text = show(report_sample.prepare(failures=[{**report_sample.SMALL["failures"][0], "events": 5}]), draws=20)
    assert re.search(r"Failure rates known only from their counts: ETTR \d\d\.\d\d to \d\d\.\d\d % \(90 %\)", text)
    assert "known only" not in show(report_sample.prepare())


def test_lines_where_nobody_sees_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """What may take hours writes a line now and then into a log, with the time that is left; not when quiet."""
    worded = []
    for quiet in (False, True):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        with ProgressBar("tasks", quiet=quiet, lines=True) as progress:
            progress(40, 100)
            assert stream.getvalue() == ""
            progress.reported -= 60.0
            progress.first = 40, progress.first[1] - 60.0
            progress(70, 100)
        worded.append(stream.getvalue())
    assert worded == ["tasks: 70 of 100, about 60 s left\n", ""]


# ----------------------------------------
# What commands write to a real terminal, to a pipe, and to a shell that completes words.

COLOR = re.compile(r"\x1b\[[0-9;]*m")

ROOT = Path(__file__).parents[2]

RUN = "from ettrick.cli import app; app(['run', 'quickstart', '--replications', '2', '--jobs', '1'])"

LIST = """
import os
from ettrick.analysis.terminal import format_inventory
print(format_inventory(), end="|next|")
os.environ["NO_COLOR"] = "1"
print(format_inventory(), end="|next|")
os.environ["TERM"] = "dumb"
print(format_inventory())
"""

BAR = """
import time
from ettrick.analysis.terminal import ProgressBar
with ProgressBar("quiet", quiet=True) as quiet, ProgressBar("layouts", quiet=False) as progress:
    for each in (quiet, progress):
        each(1, 9)
    print("at once", flush=True)
    time.sleep(1.1)
    for each in (quiet, progress):
        each(5, 9)
"""


def in_terminal(code: str, columns: int) -> str:
    """Return what a program writes to a terminal, both streams together."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
        cwd=ROOT,
        env=kept | {"TERM": "xterm-256color", "COLUMNS": str(columns)},
    )
    os.close(follower)
    written = b""
    with suppress(OSError):  # what the end of a terminal looks like
        while part := os.read(leader, 65536):
            written += part
    os.close(leader)
    assert process.wait() == 0
    return written.decode().replace("\r\n", "\n")


def in_pipe(code: str) -> str:
    """Return what a program writes to a pipe, both streams together."""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ).stdout


def widest(text: str) -> int:
    """Return the length of the longest line as it is seen."""
    return max(len(COLOR.sub("", line)) for line in text.split("\n"))


def test_a_run_respects_the_terminal() -> None:
    """On a terminal of 80 columns no line is wider, and headings are set off by colour or weight."""
    text = in_terminal(RUN, 80)
    assert "quickstart: 2 replications" in text
    assert widest(text) <= 80
    assert COLOR.search(text)


def test_the_list_is_wrapped_for_a_terminal_and_whole_in_a_pipe() -> None:
    """A terminal of 80 columns gets lines that fit; with NO_COLOR no colours, and where it can do nothing no codes."""
    colored, plain, dumb = in_terminal(LIST, 80).split("|next|")
    whole = format_inventory()  # of a test, whose output is no terminal
    assert widest(whole) > 120
    for text in (colored, plain, dumb):
        assert widest(text) <= 80
        assert COLOR.sub("", text).split() == whole.split()
    assert COLOR.search(colored)
    assert not re.search(r"\x1b\[[0-9;]*[34][0-7]", plain)
    assert "\x1b" not in dumb + whole


def test_a_bar_is_for_terminals_and_for_what_takes_more_than_a_second() -> None:
    """After a second a terminal sees a bar; --quiet and pipes see nothing."""
    before, after = in_terminal(BAR, 80).split("at once")
    assert before == ""
    assert "layouts" in after
    assert "quiet" not in after
    assert in_pipe(BAR) == "at once\n"


def completed(*words: str) -> list[str]:
    """Return what bash is told to complete the last word to."""
    asked = {"_ETTRICK_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    result = CliRunner().invoke(app, [], prog_name="ettrick", env=asked)
    assert result.exit_code == 0
    return result.output.split()


@cases(
    ("words", "wanted"),
    [
        (("ettrick", "expla"), ["explain"]),
        (("ettrick", "run", "--prec"), ["--precision"]),
        (("ettrick", "run", "quick"), ["quickstart"]),
        (("ettrick", "sweep", "spares-"), ["spares-and-repair", "spares-to-finish"]),
        (("ettrick", "topology", "show", "gb200"), ["gb200-nvl72-10k", "gb200-nvl72-8rack"]),
        (("ettrick", "list", "acc"), ["accelerators"]),
        (("ettrick", "run", "./sc"), []),
    ],
)
def test_words_are_completed(words: tuple[str, ...], wanted: list[str]) -> None:
    """Commands, options, and names of scenarios, studies and clusters; paths are left to the shell."""
    assert completed(*words) == wanted

"""The text for people: nothing lost, nothing interpreted, nothing wider than the terminal."""

from __future__ import annotations

import io
import json
import re
import sys
from typing import TYPE_CHECKING

import pytest

from analysis.page.chapters.run import format_run as typed_format_run
from analysis.results.models import RunDocument
from analysis.results.run import document as typed_document
from analysis.runs import band, replicate
from analysis.terminal import Progress, console
from tests import small
from tests.typed import as_plain, of_plain

if TYPE_CHECKING:
    from pathlib import Path

    import sim

document = as_plain(typed_document)
format_run = of_plain(typed_format_run, RunDocument)


def show(prepared: sim.Prepared, replications: int = 3, width: int | None = None, draws: int = 0) -> str:
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
    text = show(small.prepare())
    assert text.startswith("small\n")
    assert "128 GPUs (h100) in 16 nodes" in text
    assert "train: 112 GPUs, step 10.00 s" in text
    assert re.search(r"ETTR \(productive / requested\) +\d\d\.\d\d % +\d\d\.\d\d\.\.\d\d\.\d\d %", text)
    assert "x runtime goodput" in text
    assert row(text, "Interruptions by cause", "node")
    assert row(text, "Closed form beside the simulation", "productive")


def test_shares_add_up() -> None:
    """The rows of the table of GPU-hours add up to its total, 100 %, but for the rounding of each row."""
    jobs = [{**small.SMALL["jobs"][0], "name": name, "gpus": 64} for name in ("first", "second")]
    for prepared in (small.prepare(), small.prepare(jobs=jobs), small.prepare(failures=[])):
        *rows, total = shares(show(prepared))
        assert total == 100
        assert sum(rows) == pytest.approx(100, abs=0.005 * len(rows) + 1e-9)


def test_no_markup() -> None:
    """Brackets in a user's text stay as they are, in titles, cells, notes and assumptions; a stray one is no error."""
    name, cause, job, note = "[bold]x[/x]", "[red]y[/]", "[/stray]", ":smile: [dev] [link=a]b"
    prepared = small.prepare(
        name=name,
        description=note,
        jobs=[{**small.SMALL["jobs"][0], "name": job, "work": {"time": "1 d"}}],
        failures=[{**small.SMALL["failures"][0], "name": cause}],
        assumptions=[note],
    )
    text = show(prepared)
    assert text.startswith(name + "\n")
    assert all(part in text for part in (f"{job}: 112 GPUs", f"  - {note}", f"  {note}\n"))
    assert row(text, "Interruptions by cause", cause)
    assert row(text, "Jobs", job)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_width_is_respected(width: int) -> None:
    """No line is wider than asked for; at 80 columns and more no table is folded."""
    jobs = [{**small.SMALL["jobs"][0], "name": name, "gpus": 64, "work": {"time": "1 d"}} for name in ("a", "b")]
    text = show(small.prepare(jobs=jobs, windows="12 h"), width=width)
    assert max(len(line) for line in text.splitlines()) <= width
    if width >= 80:
        assert len(section(text, "Jobs")) == 4


def test_no_failures() -> None:
    """Without any failure the MTTI is a bound, no cause is listed, and nothing is charged to one."""
    text = show(small.prepare(failures=[]))
    assert re.search(r"MTTI +> 2 d", text)  # 3 x 2 d / ln 20
    assert "Interruptions by cause" not in text
    assert "failures  0 causes\n" in text


def test_several_jobs_have_a_row_each() -> None:
    """Jobs that wait and are censored are shown one by one, with a dash for what the data do not support."""
    jobs = [
        {**small.SMALL["jobs"][0], "name": "short", "work": {"time": "10 h"}, "deadline": "1 d"},
        {**small.SMALL["jobs"][0], "name": "long", "work": {"time": "90 h"}, "deadline": "4 d"},
    ]
    text = show(small.prepare(jobs=jobs))
    assert row(text, "Jobs", "short").endswith("3 of 3 runs")
    assert row(text, "Jobs", "long").endswith("0 of 3 runs")
    assert re.search(r"time to finish +- +- +-", text)
    assert re.search(r"P\(finish by the deadline\) +50\.00 %", text)
    assert "job 'long' was not finished at the horizon in 3 of 3 replications" in text


def test_one_job_to_the_horizon_needs_no_list() -> None:
    """A single job without an end is the scenario: its numbers are not repeated."""
    assert "\nJobs" not in show(small.prepare())


def test_a_fabric_that_nobody_stated_is_printed() -> None:
    """Which one was chosen is in the head, and a warning where it is more than the plain one."""
    assert "  fabric " not in show(small.prepare())
    chosen = small.prepare(cluster={"nodes": 16})
    assert "  fabric    default: fat tree of 2 tiers of 64-port switches, 8 rails of 400 Gb/s" in show(chosen)
    assert not chosen.warnings
    larger = small.prepare(cluster={"nodes": 300}, spares={"hot": 2, "idle": "serve"})
    assert "  fabric    default: fat tree of 3 tiers of 64-port switches" in show(larger)
    assert "300 nodes get a fat tree of 3 tiers" in "".join(larger.warnings)


def test_whose_nodes_a_cluster_has_is_printed() -> None:
    """That they are those of jobs and spares, or that some are withheld."""
    derived = small.prepare(cluster={"gpus_per_node": 8})
    assert "128 GPUs (h100) in 16 nodes, those of jobs and spares\n" in show(derived)
    withheld = small.prepare(spares={"hot": 0, "idle": "withhold"})
    assert "128 GPUs (h100) in 16 nodes, 2 of them withheld\n" in show(withheld)
    alone = small.prepare(spares={"hot": 0}, cluster={**small.SMALL["cluster"], "nodes": 14})
    down = [document(replicate(each, 3), command="")["nodes_down"] for each in (withheld, alone)]
    assert down[0] == down[1], "nodes that nobody gets are not among those that are independent"


def test_all_null() -> None:
    """A job that never arrives leaves dashes, and no table of its hours."""
    text = show(small.prepare(jobs=[{**small.SMALL["jobs"][0], "arrival": "3 d"}]))
    assert re.search(r"ETTR \(productive / requested\) +- +- +-", text)
    assert "Where every GPU-hour went" not in text
    assert re.search(r"initialize \+ restore +[\d.]+ % +-$", text, re.MULTILINE)


def test_replay(tmp_path: Path) -> None:
    """A replayed log shows its causes, and how many of its intervals were joined."""
    (tmp_path / "log.csv").write_text("unit,start,end,cause\nn0,1,3,gpu\nn0,2,4,gpu\nn1,5,9,nic\n")
    prepared = small.prepare(failures=[{"use": "replay", "file": str(tmp_path / "log.csv"), "time_unit": "h"}])
    text = show(prepared)
    assert re.search(r"gpu +1\.0 +1\.0\.\.1\.0", row(text, "Interruptions by cause", "gpu"))
    assert "  - intervals of the log that were joined because they overlap: 1" in text


def policies(**changes: object) -> str:
    """Return the line of the header that names the policies."""
    text = show(small.prepare(**changes), replications=1)
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


def test_policies_of_several_stores() -> None:
    """Of several stores each is named with its rhythm, the quickest first; a live peer has none."""
    tiers = [
        {"interval": "10 min", "write": "30 s", "restore": "1 min"},
        {"store": "peer-host", "interval": "2 min", "write": "10 s", "restore": "5 s"},
    ]
    assert policies(checkpoint={"tiers": tiers}) == (
        "copies: peer-host every 2 min, remote every 10 min; recovery hot-spare; 2 hot spares"
    )
    job = {**small.SMALL["jobs"][0], "parallelism": {"tensor": 8, "data": 14}}
    live = {"tiers": [*tiers, {"store": "peer", "restore": "1 s"}]}
    assert policies(jobs=[job], checkpoint=live) == (
        "copies: peer, peer-host every 2 min, remote every 10 min; recovery hot-spare; 2 hot spares"
    )


def test_causes_by_whose_repair_applies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run and check say which causes have a repair other than the scenario's, and the document says it of each."""
    bundle = "failures=[{use: component-rates, keeps_repair: true}]"
    told = (
        "repair  the bundle's: gpu, hbm, gpu_sram, gpu_system_processor and 4 more; "
        "the scenario's: silent_data_corruption, cpu, system_memory, ssd and 2 more"
    )
    name = small.write(tmp_path, monkeypatch)
    found = small.call("check", name, "--set", bundle)
    assert [" ".join(line.split()) for line in found.stdout.splitlines()[1:]] == [" ".join(told.split())]
    printed = show(small.prepare(failures=[{"use": "component-rates", "keeps_repair": True}]), 1)
    assert " ".join(told.split()) in " ".join(printed.split())
    plain = small.call("check", name)
    assert len(plain.stdout.splitlines()) == 1
    ran = json.loads(small.call("run", name, "--set", bundle, "--replications", "1", "--json").stdout)["repair_from"]
    assert (ran["gpu"], ran["cpu"], "software" in ran) == ("bundle", "scenario", False)


def test_windows_one_row_each() -> None:
    """Four windows of half a day are four rows with their times."""
    rows = section(show(small.prepare(windows="12 h")), "ETTR over time")[2:]
    times = [line.split("  ")[0] for line in rows]
    assert times == ["0 s to 12 h", "12 h to 24 h", "24 h to 36 h", "36 h to 2 d"]
    assert all(re.search(r"\d\d\.\d\d %", line) for line in rows)


def test_many_windows_are_thinned() -> None:
    """Of 48 windows an even choice of twelve is shown, and the title says so."""
    text = show(small.prepare(windows="1 h"))
    assert "ETTR over time (12 of 48 windows)" in text
    rows = section(text, "ETTR over time")[2:]
    assert len(rows) == 12
    assert rows[1].startswith("4 h to 5 h")


def test_quantiles_only_where_supported() -> None:
    """Three runs show no column of quantiles; eighty do."""
    assert "of runs" not in show(small.prepare())
    assert "5 %..95 % of runs" in show(small.prepare(horizon="3 h"), replications=80)


def test_band_is_said() -> None:
    """A band of the rates is one line under the table, apart from the interval of the mean."""
    text = show(small.prepare(failures=[{**small.SMALL["failures"][0], "events": 5}]), draws=20)
    assert re.search(r"failure rates known only from their counts: ETTR \d\d\.\d\d\.\.\d\d\.\d\d % \(90 %\)", text)
    assert "known only" not in show(small.prepare())


def test_model_and_tokens() -> None:
    """With a model the chain ends in goodput, and tokens per day have a prefix."""
    job = {
        **small.SMALL["jobs"][0],
        "model": "llama3-405b",
        "batch": {"tokens": "1 Mi", "sequence": 8192},
        "parallelism": {"tensor": 8, "data": 14},
        "step_time": "60 s",
    }
    text = show(small.prepare(jobs=[job]))
    assert "tensor 8 x context 1 x pipeline 1 x data 14" in text
    assert re.search(r"= goodput \(effective MFU\) +\d", text)
    assert re.search(r"tokens per day +1\.\d+ G", text)  # 2^20 tokens a minute are 1.51e9 a day


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Return true."""
        return True


def test_color_only_on_a_terminal_without_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal gets colour, unless NO_COLOR is set; a pipe gets none."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    texts = []
    for stream, no_color in ((io.StringIO(), ""), (Terminal(), ""), (Terminal(), "1")):
        monkeypatch.setenv("NO_COLOR", no_color)
        out = console(stream)
        out.print("text", style="red")
        texts.append(stream.getvalue())
    assert "\x1b" not in texts[0]
    assert "\x1b[31m" in texts[1]
    assert "\x1b[31m" not in texts[2]


def test_bar_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar appears on a terminal after a second; never in a file, never when quiet, never at once."""
    shown = []
    for stream, quiet, waited in (
        (Terminal(), False, 2.0),
        (io.StringIO(), False, 2.0),
        (Terminal(), True, 2.0),
        (Terminal(), False, 0.0),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        with Progress("replications", quiet=quiet) as progress:
            progress.start -= waited
            progress(3, 10)
        shown.append((progress.bar is not None, "3/10" in stream.getvalue()))
    assert shown == [(True, True), (False, False), (False, False), (False, False)]


def test_lines_where_nobody_sees_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """What may take hours writes a line now and then into a log, with the time that is left; not when quiet."""
    told = []
    for quiet in (False, True):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        with Progress("tasks", quiet=quiet, lines=True) as progress:
            progress(40, 100)
            assert stream.getvalue() == ""
            assert progress.first is not None
            progress.told -= 60.0
            progress.first = 40, progress.first[1] - 60.0
            progress(70, 100)
        told.append(stream.getvalue())
    assert told == ["tasks: 70 of 100, about 60 s left\n", ""]

"""Job traces: what a row means, what is left out, and what is said of a row that cannot be used."""

from __future__ import annotations

import gzip
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from ettrick import cli, sim
from ettrick.analysis.contest.runs import replicate
from ettrick.sim import records
from ettrick.sim.input.job_trace import JobTraceTable, _TraceReader, read_jobs
from ettrick.sim.records import LogError
from ettrick.sim.scenario.fields import RuleError
from ettrick.sim.scenario.streams import OUTCOMES, JobTrace
from tests import harness
from tests.bench.fleets import NO_FAILURES
from tests.cases import cases
from tests.pace import SEED, budget

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"

needs_data = pytest.mark.skipif(not DATA.exists(), reason="skipped: reference data not present")

TABLE = "job,submit,gpus,run,limit,state,tenant,priority,partition\n"


def trace(folder: Path, content: str | bytes, name: str = "jobs.csv", **keys: Any) -> JobTraceTable:
    """Return the jobs of a file with some content."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_jobs(JobTrace.model_validate({"name": "t", "file": str(path), **keys}))


def complaint(folder: Path, content: str | bytes, name: str = "jobs.csv", **keys: Any) -> str:
    """Return what is said of a bad file, without its folder."""
    with pytest.raises(LogError) as error:
        trace(folder, content, name, **keys)
    return str(error.value).replace(f"{folder}/", "")


def test_the_table_of_jobs_is_read_without_a_map(tmp_path: Path) -> None:
    """Columns of the usual names need no map; jobs come in order of submission, ties in order of rows."""
    rows = "a,100,8,60,120,completed,x,5,p\nb,50,16,30,,failed,y,,q\nc,100,1,0.5,90,CANCELLED by 7,x,-2,p\n"
    jobs = trace(tmp_path, TABLE + rows)
    assert jobs.submit.tolist() == [0, 50, 50]
    assert jobs.gpus.tolist() == [16, 8, 1]
    assert jobs.run.tolist() == [30, 60, 0.5]
    assert jobs.limit.tolist() == [math.inf, 120, 90]
    assert [OUTCOMES[number] for number in jobs.outcome] == ["failed", "completed", "cancelled"]
    assert jobs.priority.tolist() == [0, 5, -2]
    assert [jobs.tenants[number] for number in jobs.tenant] == ["y", "x", "x"]
    assert [jobs.partitions[number] for number in jobs.partition] == ["q", "p", "p"]
    assert jobs.line.tolist() == [3, 2, 4]
    assert not jobs.notes


@cases(
    "mark, end",
    [(b"", b"\n"), (b"\xef\xbb\xbf", b"\n"), (b"", b"\r\n"), (b"\xef\xbb\xbf", b"\r\n"), (b"\xef\xbb\xbf", b"\r")],
)
def test_files_of_other_programs(mark: bytes, end: bytes, tmp_path: Path) -> None:
    """A byte order mark, and lines as Windows and old spreadsheets end them, change nothing."""
    rows = [b"submit,gpus,run,state", b"0,8,60,completed", b"5,8,30,failed"]
    jobs = trace(tmp_path, mark + end.join(rows) + end)
    assert (jobs.submit.tolist(), jobs.run.tolist(), jobs.line.tolist()) == ([0, 5], [60, 30], [2, 3])


def test_columns_units_and_dates(tmp_path: Path) -> None:
    """Columns may have other names, numbers another unit, and moments may be dates; run may be end less start."""
    jobs = trace(
        tmp_path,
        "when,n,hours\n0.5,8,2\n1.5,8,0.25\n",
        columns={"submit": "when", "gpus": "n", "run": "hours"},
        time_unit="h",
    )
    assert (jobs.submit.tolist(), jobs.run.tolist()) == ([0, 3600], [7200, 900])
    dates = "submit,gpus,start,end\n2026-11-20T10:00:00Z,8,2026-11-20T10:05:00Z,2026-11-20T11:05:00Z\n"
    jobs = trace(tmp_path, dates, origin="2026-11-20T09:00:00Z")
    assert (jobs.submit.tolist(), jobs.run.tolist()) == ([3600], [3600])
    with pytest.raises(RuleError, match="does not go with the moments"):
        trace(tmp_path, dates, origin=0.0)


def test_origin_leaves_out_what_is_before(tmp_path: Path) -> None:
    """Time zero is the first submission, or what is stated; jobs that ended before that are left out and counted."""
    rows = "submit,gpus,run\n100,8,1\n200,8,2\n300,8,3\n"
    assert trace(tmp_path, rows).submit.tolist() == [0, 100, 200]
    later = trace(tmp_path, rows, origin=150.0)
    assert (later.submit.tolist(), later.run.tolist()) == ([50, 150], [2, 3])
    assert "of 3 rows these are left out: 1 ended before the origin" in later.notes[0]
    # Without a start it is taken to run from its submission.
    cut = trace(tmp_path, rows, origin=100.25)
    assert (cut.under_way.tolist(), cut.run.tolist()) == ([True, False, False], [0.75, 2, 3])


def test_origin_carries_what_is_under_way(tmp_path: Path) -> None:
    """Jobs that run at the origin come first, with what is left of run and limit; then those that wait, then others."""
    rows = "submit,gpus,run,limit,start\n0,8,100,150,30\n10,8,500,,200\n20,8,100,400,25\n130,8,5,9,130\n40,8,60,70,40\n"
    jobs = trace(tmp_path, rows, origin=100.0)
    assert jobs.line.tolist() == [2, 4, 3, 5]
    assert jobs.under_way.tolist() == [True, True, False, False]
    assert jobs.submit.tolist() == [-100, -80, -90, 30]
    assert jobs.run.tolist() == [30, 25, 500, 5]
    assert jobs.limit.tolist() == [80, 325, math.inf, 9]
    swf = "1 10 5 100 16 -1 -1 -1 -1 -1 1 3 7 -1 0 2 -1 -1\n2 20 90 50 16 -1 -1 8 60 -1 0 3 -1 -1 0 -1 -1 -1\n"
    jobs = trace(tmp_path, swf, "a.swf", origin=50.0)
    assert (jobs.under_way.tolist(), jobs.run.tolist()) == ([True, False], [65, 50])


def test_a_cluster_is_not_empty_at_the_origin(tmp_path: Path) -> None:
    """A job of all nodes that runs from 0 to 36,000 s still has them at an origin of 10,000 s: others wait to 26,000 s.

    One that waits then, and would go first, does not have the nodes before that.
    """
    path = tmp_path / "jobs.csv"
    path.write_text("submit,gpus,run,start,priority\n0,32,36000,0,0\n9000,32,600,36000,5\n18000,32,3600,36600,0\n")
    log = {"name": "log", "use": "trace", "file": str(path), "origin": 10000, "restart": "0 s", "checkpoint": {}}
    case = harness.scenario(
        cluster={"nodes": 4, "gpus_per_node": 8}, horizon="30 h", jobs=[], streams=[log], failures=[]
    )
    result = sim.run(sim.prepare(sim.parse(case | {"scheduler": {"use": "easy", "depth": 0}})), 0, keeps_log=True)
    assert [(each.submit, each.start, each.end) for each in result.attempts] == [
        (-10000, 0, 26000),
        (-1000, 26000, 26600),
        (8000, 26600, 30200),
    ]
    assert result.fleet.job_sum("submitted_job").sum() == 1


def test_rows_of_no_use_are_counted(tmp_path: Path) -> None:
    """Jobs without GPUs, not over, or cancelled before they ran are no mistakes; a note has their number."""
    rows = "1,0,5,DONE\n2,8,,CANCELLED\n3,8,,RUNNING\n4,,,PENDING\n5,8,5,COMPLETED\n"
    jobs = trace(tmp_path, "submit,gpus,run,state\n" + rows)
    assert jobs.line.tolist() == [6]
    assert jobs.notes[0].endswith("of 5 rows these are left out: 1 never ran, 1 ask for no GPU, 2 are not over")


@cases(
    ("name", "content"),
    [
        ("a.swf", "1 0 9 0 0 -1 -1 8 60 -1 5 1 1 -1 1 1 -1 -1\n2 0 9 0 -1 -1 -1 8 60 -1 0 1 1 -1 1 1 -1 -1\n"
         "3 5 0 9 8 -1 -1 8 60 -1 0 1 1 -1 1 1 -1 -1\n"),
        ("a.csv", "submit,gpus,run,start,job_state\n"
         "0,16,0,None,CANCELLED\n0,16,0,Unknown,CANCELLED by 7\n5,8,9,5,FAILED\n"),
        ("b.csv", "submit,gpus,run,status\n0,16,0,CANCELLED\n0,16,0,KILLED\n5,8,0,FAILED\n"),
    ],
)  # fmt: skip
@cases("origin", [None, 0.0])
def test_jobs_that_were_cancelled_in_the_queue_never_ran(
    name: str, content: str, origin: float | None, tmp_path: Path
) -> None:
    """They hold nothing and no one waits for them, whether or not the log is cut; one that began is kept."""
    jobs = trace(tmp_path, content, name, origin=origin)
    assert jobs.gpus.tolist() == [8]
    assert "of 3 rows these are left out: 2 never ran" in jobs.notes[-1]


def test_the_last_row_of_a_job_counts(tmp_path: Path) -> None:
    """A job may be there while it runs and when it is over, in either order; steps of one that is not over are none."""
    rows = "1,0,8,1,RUNNING\n1,0,8,60,DONE\n2,5,8,30,DONE\n2,5,8,1,RUNNING\n3,9,8,1,RUNNING\n3.0,9,8,1,DONE\n"
    jobs = trace(tmp_path, "job,submit,gpus,run,state\n" + rows)
    assert jobs.run.tolist() == [60, 30]
    assert jobs.notes[0].endswith("1 are steps of jobs, 3 are not over")


@cases(
    ("name", "seconds"),
    [
        ("run_weeks", 604800), ("run_msec", 1e-3), ("run_usec", 1e-6), ("runMinutes", 60), ("runMs", 1e-3),
        ("runMSec", 1e-3), ("RunTimeSeconds", 1), ("run-min", 60), ("run.h", 3600), ("run/min", 60),
        ("Run (in min)", 60),
        ("timelimit_raw", 60),
        ("runtime", 1), ("items", 1),
    ],
)  # fmt: skip
def test_the_last_word_of_a_name_is_its_unit(name: str, seconds: float, tmp_path: Path) -> None:
    """Words end at signs, blanks and changes of case."""
    assert trace(tmp_path, f"submit,gpus,{name}\n0,8,6000\n", columns={"run": name}).run.tolist() == [6000 * seconds]


@cases(
    "gpus",
    [
        "8", "8.0", "8x H100", "8x 2080ti", "RTX 3090 x8", "8xA100-SXM4-40GB", "8 GPUs", "gpu:h100:8", "ngpus=8",
        "gpus=8", "cpu=64,nvidia_com_gpu=8", "gres/gpu:h100=8,gres/gpu=8", "8x 1g.5gb",
    ],
)  # fmt: skip
def test_how_people_write_eight_gpus(gpus: str, tmp_path: Path) -> None:
    """A number, with what it counts before or behind, or a list of resources."""
    assert trace(tmp_path, f'submit,gpus,run\n0,"{gpus}",60\n').gpus.tolist() == [8]


def test_columns_that_are_not_used_are_said(tmp_path: Path) -> None:
    """Whatever the other ones are called; start and end can be stated, and parts of GPUs are refused."""
    text = "submit,gpus,a,b,user\n0,8,5,65,x\n"
    jobs = trace(tmp_path, text, columns={"start": "a", "end": "b"})
    assert jobs.run.tolist() == [60]
    assert jobs.notes[0].endswith("end from 'b'; not used: user")
    assert "column 'plan_gpu' holds parts of GPUs" in complaint(
        tmp_path, "submit,plan_gpu,run\n0,50,5\n", columns={"gpus": "plan_gpu"}
    )


SWF = "; Version: 2.2\n;  MaxProcs: 256\n"


def test_the_standard_workload_format(tmp_path: Path) -> None:
    """Of 18 fields count 1 to 5, 8, 9, 11, 13 and 16; -1 is unknown; a job has the processors that it held."""
    rows = (
        "1 10 5 100 16 -1 -1 -1 -1 -1 1 3 7 -1 0 2 -1 -1\n"
        "2 20 -1 50 16 -1 -1 8 60 -1 0 3 -1 -1 0 -1 -1 -1\n"
        "\n"
        "3 30 -1 -1 0 -1 -1 8 60 -1 5 3 -1 -1 0 -1 -1 -1\n"
    )
    for name, content in (
        ("a.swf", (SWF + rows).encode()),
        ("a.swf.gz", gzip.compress((SWF + rows).encode())),
        ("b.txt", (SWF + rows).encode()),
    ):
        jobs = trace(tmp_path, content, name)
        assert jobs.submit.tolist() == [0, 10], name
        assert (jobs.gpus.tolist(), jobs.run.tolist(), jobs.limit.tolist()) == ([16, 16], [100, 50], [math.inf, 60])
        assert [OUTCOMES[number] for number in jobs.outcome] == ["completed", "failed"]
        assert [jobs.tenants[number] for number in jobs.tenant] == ["7", ""]
        assert jobs.notes[1].endswith("1 never ran")
        assert jobs.notes[0].endswith("1 jobs hold other processors than they asked for; those that they held count")


def test_columns_of_sacct_have_their_units(tmp_path: Path) -> None:
    """TimelimitRaw is minutes beside ElapsedRaw in seconds; steps are no jobs, and GPUs are those allocated."""
    head = "JobIDRaw|Submit|AllocTRES|ReqTRES|ElapsedRaw|TimelimitRaw|State\n"
    tres = "billing=64,cpu=64,gres/gpu:h100=8,gres/gpu=8,node=1"
    rows = (
        f"7|2025-03-01T00:00:00|{tres}|gres/gpu=4|3500|60|COMPLETED\n7.batch|2025-03-01T00:00:00|{tres}||3500||COMPLETED\n"
        f"7.0|2025-03-01T00:00:00|{tres}||3400||OUT_OF_ME+\n8|2025-03-01T00:10:00|cpu=4,node=1||5||COMPLETED\n"
        f"9|2025-03-01T00:20:00|{tres}||60|UNLIMITED|OUT_OF_ME+\n10|2025-03-01T00:30:00|||0|60|CANCELLED by 7\n"
    )
    jobs = trace(tmp_path, head + rows)
    assert (jobs.run.tolist(), jobs.limit.tolist(), jobs.gpus.tolist()) == ([3500, 60], [3600, math.inf], [8, 8])
    assert [OUTCOMES[number] for number in jobs.outcome] == ["completed", "failed"]
    columns, left_out = jobs.notes
    assert (
        "columns are job from 'JobIDRaw', submit, gpus from 'AllocTRES', run from 'ElapsedRaw', limit from" in columns
    )
    assert columns.endswith("state; not used: ReqTRES")
    assert left_out.endswith("of 6 rows these are left out: 2 are steps of jobs, 1 never ran, 1 ask for no GPU")
    # Numbers of jobs as pandas writes them are no steps.
    assert len(trace(tmp_path, "job,submit,gpus,run\n7.0,0,8,5\n8.0,1,8.0,5\n").submit) == 2


def test_units_stand_in_the_names_of_columns(tmp_path: Path) -> None:
    """Hours beside seconds, and moments in milliseconds; a setting that says otherwise is refused."""
    rows = "submit_ms;gpus;run_hours;limit_min\n1709971200000;8x H100;0.5;45\n1709971260000;4 GPUs;1;90\n"
    columns = {"submit": "submit_ms", "run": "run_hours", "limit": "limit_min"}
    jobs = trace(tmp_path, gzip.compress(rows.encode()), columns=columns)
    assert (jobs.submit.tolist(), jobs.gpus.tolist()) == ([0, 60], [8, 4])
    assert (jobs.run.tolist(), jobs.limit.tolist()) == ([1800, 3600], [2700, 5400])
    with pytest.raises(RuleError, match=r"is not the unit that the name of column 'submit_ms' states"):
        trace(tmp_path, rows, columns=columns, time_unit="s")


def test_settings_without_effect_are_refused(tmp_path: Path) -> None:
    """The Standard Workload Format has its own columns, and its times are seconds."""
    for keys in ({"columns": {"gpus": "n"}}, {"time_unit": "h"}):
        with pytest.raises(RuleError, match="has no effect: the Standard Workload Format has 18 fields"):
            trace(tmp_path, "1 10 5 100 16 -1 -1 -1 -1 -1 1 3 7 -1 0 2 -1 -1\n", "a.swf", **keys)


def test_states_of_other_systems(tmp_path: Path) -> None:
    """Succeeded and Terminated are done; a further word is one that the scenario says."""
    rows = "submit,gpus,run,state\n0,8,5,Succeeded\n1,8,5,Terminated\n2,8,5,NODE_FAI+\n3,8,5,Verdrängt\n4,8,,\n"
    jobs = trace(tmp_path, rows, states={"verdrängt": "cancelled", "": "not over"})
    assert [OUTCOMES[number] for number in jobs.outcome] == ["completed"] * 2 + ["cancelled"] * 2
    assert "unknown state 'Verdrängt'; say what it means, for example states: {verdrängt: " in complaint(tmp_path, rows)


def test_what_a_standard_workload_says_beyond_us(tmp_path: Path) -> None:
    """Jobs that wait for another one are counted; parts of a job are not jobs if it has its own line."""
    rows = (
        "1 0 0 100 8 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n1 -1 0 60 8 -1 -1 8 200 -1 2 1 1 1 1 1 -1 -1\n"
        "2 9 0 100 8 -1 -1 8 200 -1 1 1 1 1 1 1 1 30\n3 9 0 -1 8 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n"
    )
    waits, left_out = trace(tmp_path, rows, "a.swf").notes
    assert left_out.endswith("of 4 rows these are left out: 1 are steps of jobs, 1 completed after an unknown time")
    assert waits.endswith("1 jobs wait for another one (fields 17 and 18); here they are submitted when they were")


# What cannot be used.


@cases(
    ("content", "rule"),
    [
        ("submit,gpus,run\n-1,8,5\n", "jobs.csv:2: column 'submit' holds '-1', which is neither a number of zero or"),
        ("submit,gpus,run\n1,8,-5\n", "jobs.csv:2: column 'run' holds '-5', which is not a number of zero or more"),
        ("submit,gpus,run\n1,2.5,5\n", "jobs.csv:2: column 'gpus' holds '2.5', which is no whole number"),
        ("submit,gpus,run\n1,8,nan\n", "jobs.csv:2: column 'run' is empty"),
        ("submit,gpus,run\n1,8,\n", "jobs.csv:2: column 'run' is empty"),
        ("submit,gpus,run\n1,8\n", "jobs.csv:2: has 2 fields, and the header 3"),
        ("submit,gpus,run,limit\n1,8,5,0\n", "jobs.csv:2: column 'limit' holds '0', which must be above zero"),
        (
            "submit,gpus,run,state\n1,8,5,COMPLET+\n",
            "jobs.csv:2: unknown state 'COMPLET+'; say what it means, for exam",
        ),
        ("submit,gpus,run,state\n1,8,5,\n", "jobs.csv:2: unknown state ''; say what it means, for example states: {''"),
        ("submit,gpus,run,gpus\n1,8,5,1\n", "jobs.csv:1: column 'gpus' is there twice"),
        ("submit,gpus,run\n1709971200000,8,5\n", "holds '1709971200000'; these look like milliseconds since 1970"),
        (
            "submit,gpus,run\n45361.5,8,5\n45361.7,8,5\n",
            "jobs.csv: the moments go from 45361.5 to 45361.7; these look like",
        ),
        (
            "submit,gpus,run\n20250301,8,5\n20250302,8,5\n",
            "the moments go from 20250301 to 20250302; these look like dates",
        ),
        ("submit,gpus,run\n1709971200,8,5\n5,8,5\n", "the moments go from 5 to 1709971200; more than 20 years; one of"),
        ("submit,gpus,run\n2126-01-01,8,5\n2026-01-01,8,5\n", "from 2026-01-01T00:00:00 to 2126-01-01T00:00:00; more"),
        ("submit,gpus,run,start,end\n1,8,1,1,3601\n", "jobs.csv: most jobs take 3.6e+03 times as long from start to e"),
        ("job,submit,gpus,run\n7,1,8,5\n8,1,8,5\n7,2,8,5\n", "jobs.csv:4: job '7' is also in line 2"),
        ("submit,gpus,start,end\n1,8,20,10\n", "jobs.csv:2: the job ends (10) before it starts (20)"),
        ("submit,gpus,run\n1,8,5\n2026-11-20,8,5\n", "jobs.csv:3: column 'submit' holds '2026-11-20', but the moments"),
        ("submit,gpus\n1,8\n", "jobs.csv:1: has no column for the run or start"),
        ("when,gpus,run\n1,8,5\n", "columns: {submit: NAME}"),
        ("", "jobs.csv:1: has no header; the first line names the columns"),
        ("\n1,2\n", "jobs.csv:2: has no column for the submit (the header has: 1, 2)"),
        (gzip.compress(b"submit,gpus,run\n1,8,5\n")[:20], "jobs.csv cannot be read: the packed file was cut"),
        ("submit,gpus,run\n", "jobs.csv: has no jobs that can be used, of 0 rows"),
        (b"submit,gpus,run\n1,8,\xff\n", "jobs.csv:2: is not UTF-8 text (byte 0xff)"),
        (b"\x1f\x8b\x08\x00broken", "jobs.csv cannot be read"),
        ("; MaxProcs: 8\n1 2 3\n", "jobs.csv:2: has 3 fields, not 18"),
        (
            '{"submit": 0, "gpus": 8, "run": 5}\n',
            "jobs.csv:1: is JSON, and this is read from a table: CSV with a header",
        ),
    ],
)
def test_bad_rows_are_named(content: str | bytes, rule: str, tmp_path: Path) -> None:
    """What is wrong with a trace is said with file, line and rule."""
    assert rule in complaint(tmp_path, content)


def test_bad_rows_are_counted_and_ten_are_listed(tmp_path: Path) -> None:
    """All bad rows are counted, ten are listed in one line, and on request they are left out and counted."""
    rows = "submit,gpus,run\n" + "1,8,x\n" * 14 + "2,8,5\n"
    text = complaint(tmp_path, rows)
    assert text.startswith(
        "14 of 15 rows cannot be used (skip_bad_rows: true, or --skip-bad-rows, leaves them out): jobs.csv:2"
    )
    assert text.count("jobs.csv:") == 10
    assert text.endswith("; and 4 more")
    assert "\n" not in text
    jobs = trace(tmp_path, rows, skip_bad_rows=True)
    assert jobs.line.tolist() == [16]
    assert jobs.notes[0].endswith("of 15 rows these are left out: 14 cannot be used")


@cases(
    ("rows", "lines", "bad"),
    [
        ('1,8,5" disk,5\n2,8,x,5\n3,8,7" pc,5\n4,8,z,5\n', [2, 3, 4, 5], 0),
        ('1,8,"open,5\n2,8,x,5\n3,8,y,5\n', [3, 4], 1),
        ('1,8,"open,5\n2,8,"x",5\n3,8,y,5\n', [3, 4], 1),
        ('1,8,"two\nlines",5\n2,8,"d ""e""",5\n3,8,"a "b" c",5\n', [2, 4, 5], 0),
        ('1,8,"a,5\n' * 3 + "2,8,b,5\n" * 60, list(range(5, 65)), 3),
    ],
)
def test_a_quote_is_one_where_a_field_begins(rows: str, lines: list[int], bad: int, tmp_path: Path) -> None:
    """One inside a field is a letter of it; a quoted field that does not end is one bad row, not those below it."""
    jobs = trace(tmp_path, "submit,gpus,name,run\n" + rows, skip_bad_rows=True)
    assert jobs.line.tolist() == lines
    assert (f"{bad} cannot be used" in " ".join(jobs.notes)) == (bad > 0)


CELLS = st.one_of(
    st.integers(-2, 10**6).map(str),
    st.floats(0, 1e6).map(str),
    st.sampled_from(["", "nan", "inf", "-1", "1e400", "2026-11-20", "COMPLETED", "x", '"', "é", "1_0"]),
)


@settings(max_examples=budget(400), deadline=None)
@given(
    header=st.permutations(["job", "submit", "gpus", "run", "limit", "state"]),
    rows=st.lists(st.lists(CELLS, min_size=5, max_size=7), max_size=8),
    skip=st.booleans(),
)
@example(header=["submit", "gpus", "run", "job", "limit", "state"], rows=[["1", "8", "5", "", "", ""]], skip=False)
def test_any_table_is_read_or_explained(
    header: list[str], rows: list[list[str]], skip: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is in a table, it gives jobs that can be simulated, or one line that names the file."""
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text("\n".join(",".join(row) for row in [header, *rows]) + "\n", encoding="utf-8")
    stream = JobTrace.model_validate({"name": "t", "file": str(path), "skip_bad_rows": skip})
    try:
        jobs = read_jobs(stream)
    except LogError as error:
        line = str(error)
    else:
        line = ""
    if line:
        assert "any.csv" in line
        assert "\n" not in line
        return
    assert len(jobs.submit) > 0
    assert jobs.submit[0] == 0
    assert (np.diff(jobs.submit) >= 0).all()
    assert (jobs.gpus >= 1).all()
    assert (np.isfinite(jobs.run) & (jobs.run >= 0) & (jobs.limit > 0)).all()


FIELDS = {
    "job": ["1", "2", "7.batch", "7.0", ""],
    "submit": ["-5", "", "2026-11-20"],
    "gpus": ["0", "8x", "2.0", "H100 x 4", ""],
    "run": ["", "0", "00:10:00", "nan", "x"],
    "limit": ["", "UNLIMITED", "60", "1 h", "-1"],
    "state": ["RUNNING", "CANCELLED by 7", "FAILED", "", "odd"],
    "tenant": ["b", ""],
    "start": ["", "50", "2026-11-20"],
    "end": ["", "60", "1"],
    "priority": ["3", "-2.5", "high"],
}
"""Fields of each role that are not as most."""

PARTS_OF_SWF = ["-1", "0", "1", "2", "4", "5", "x"]


def odd_table(seed: int) -> tuple[str, str]:
    """Return name and content of a trace of which some rows have odd fields."""
    generator = random.Random(seed)
    odd = generator.choice([0.0, 0.01, 0.1])
    if generator.random() < 0.3:
        rows = [[f"{at}", f"{at}", "0", "60", "8", "-1", "-1", "8", "90", "-1", "1", *"1111111"] for at in range(30)]
        parts = [[generator.choice(PARTS_OF_SWF) if generator.random() < odd else word for word in row] for row in rows]
        return "a.swf", "\n".join(map(" ".join, parts))
    dated = generator.random() < 0.3
    roles = ["submit", "gpus", "run", *(role for role in [*FIELDS][:1] + [*FIELDS][4:] if generator.random() < 0.6)]
    lines = [",".join(roles)]
    for at in range(30):
        usual = {"submit": f"2026-11-20T10:{at:02}:00Z" if dated else f"{at}", "run": "5", "start": "90", "end": "95"}
        usual |= {
            "job": f"{at}",
            "gpus": "8",
            "limit": "9",
            "state": "COMPLETED",
            "tenant": f"{at % 3}",
            "priority": "1",
        }
        lines.append(",".join(generator.choice(FIELDS[r]) if generator.random() < odd else usual[r] for r in roles))
    return "a.csv", "\n".join(lines)


def test_blocks_of_rows_are_read_as_single_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of a block give what its rows give one by one: the same jobs, notes and complaints."""

    def outcome(seed: int, **keys: Any) -> str:
        name, content = odd_table(seed)
        try:
            jobs = trace(tmp_path, content, name, **keys)
        except (LogError, RuleError) as error:
            return str(error)
        return repr([column.tolist() if isinstance(column, np.ndarray) else column for column in jobs])

    seeds = range(60 * SEED, 60 * SEED + budget(960))
    keys: list[dict[str, Any]] = [{}, {"skip_bad_rows": True}, {"skip_bad_rows": True, "origin": 10}]
    with monkeypatch.context() as patch:
        patch.setattr(_TraceReader, "_take_all", lambda *_: False)
        expected = [outcome(seed, **keys[seed % 3]) for seed in seeds]
    for size in (1, 7, 1000):
        monkeypatch.setattr(records, "BLOCK", size)
        assert [outcome(seed, **keys[seed % 3]) for seed in seeds] == expected


# As a stream of a scenario.


def scenario(file: str, nodes: int, *, gpus_per_node: int = 1, **keys: Any) -> sim.Scenario:
    """Return a scenario that replays a trace."""
    return sim.parse(
        {
            "name": "replay",
            "cluster": {"name": "c", "nodes": nodes, "gpus_per_node": gpus_per_node},
            "horizon": "10 d",
            "streams": [{"name": "t", "use": "trace", "file": file, "restart": "0 s", "checkpoint": {}, **keys}],
            "detection": {"time": "0 s"},
            "checkpoint": {"tiers": [{"interval": "1 h", "mode": "blocking", "write": "1 s", "restore": "1 s"}]},
            "recovery": {"use": "full-restart", "initialize": "0 s"},
            "repair": {"time": "1 h"},
        }
    )


def test_a_replay_without_failures_needs_no_policies(tmp_path: Path) -> None:
    """Nothing has to be said of checkpoints, detection and recovery, and a run ends with its last job."""
    file = tmp_path / "jobs.csv"
    file.write_text("submit,gpus,run\n0,8,60\n0,8,90\n", encoding="utf-8")
    log = {"name": "log", "use": "trace", "file": str(file)}
    case = {"name": "r", "cluster": {"name": "c", "nodes": 1}, "horizon": "400 d", "streams": [log]}
    result = sim.run(sim.prepare(sim.parse(case)), 0, keeps_log=True)
    assert [(attempt.start, attempt.end) for attempt in result.attempts] == [(0, 60), (60, 150)]
    source = {"use": "component", "name": "node", "part": "node", "rate": "1 per 1000 node-days"}
    for more in ({"failures": [source]}, {"scheduler": {"use": "fifo", "preempt": {"mode": "requeue"}}}):
        with pytest.raises(sim.ScenarioError, match="checkpoint: is missing"):
            sim.parse({**case, **more})


def test_jobs_of_a_trace_alone_are_simulated_once(tmp_path: Path) -> None:
    """Where they are all that happens, each replication is the first one again, as it is when it is run by itself."""
    file = tmp_path / "jobs.csv"
    file.write_text("submit,gpus,run\n" + "".join(f"{at},{1 + at % 16},{60 + at % 7}\n" for at in range(99)))
    log = {"name": "log", "use": "trace", "file": str(file)}
    case = {"name": "r", "cluster": {"name": "c", "nodes": 3}, "horizon": "1 h", "streams": [log]}
    ready = sim.prepare(sim.parse(case))
    assert ready.is_replay
    for number, result in enumerate(replicate(ready, 3, processes=1, keeps_log=True).results):
        alone = sim.run(ready, number, keeps_log=True)
        assert (result.replication, result.attempts, result.events) == (number, alone.attempts, alone.events)
        assert (result.fleet.levels == alone.fleet.levels).all()
    assert not sim.prepare(sim.parse({**case, "scheduler": {"use": "fifo", "pick": "random"}})).is_replay
    rate = {"arrivals": {"rate": "1 per h"}, "gpus": 8, "work": "1 h"}
    assert not sim.prepare(sim.parse({**case, **NO_FAILURES, "streams": [log, {"name": "more", **rate}]})).is_replay


def test_scale_stretches_runs_and_thickens_arrivals(tmp_path: Path) -> None:
    """Scale.time multiplies run times and limits, scale.load divides times between arrivals; jobs stay the same."""
    file = tmp_path / "jobs.csv"
    file.write_text(TABLE + "a,0,8,60,120,completed,x,0,\nb,100,4,30,60,failed,y,0,\n", encoding="utf-8")
    plain = sim.prepare(scenario(str(file), 8)).streams[0]
    scaled = sim.prepare(scenario(str(file), 8, scale={"time": 2.0, "load": 4.0})).streams[0]
    for one, two in zip(plain.arrivals(1, 0, 1e9), scaled.arrivals(1, 5, 1e9), strict=True):
        changed = one._replace(submit=one.submit / 4, work=one.work * 2, limit=one.limit * 2, ends=one.ends * 2)
        assert two == changed
    assert list(plain.arrivals(1, 0, 100.0)) == list(plain.arrivals(1, 0, 1e9))[:1]


def test_limits_can_be_given_to_a_trace(tmp_path: Path) -> None:
    """A trace without limits gets them from the stream; both a column and a limit are refused."""
    file = tmp_path / "jobs.csv"
    file.write_text("submit,gpus,run\n0,8,60\n", encoding="utf-8")
    for limit, expected in ((None, math.inf), ("exact", 60), ({"factor": 2}, 120), ("1 h", 3600)):
        keys = {} if limit is None else {"limit": limit}
        (job,) = sim.prepare(scenario(str(file), 8, **keys)).streams[0].arrivals(1, 0, 1e9)
        assert job.limit == expected
    with pytest.raises(sim.ScenarioError, match="not both"):
        scenario(str(file), 8, limit="exact", columns={"limit": "x"})


def test_a_recorded_end_wins_over_a_limit(tmp_path: Path) -> None:
    """Of jobs that ran longer than their limit it is said, and they complete; one that its limit ended does not."""
    file = tmp_path / "jobs.csv"
    rows = "0,8,3500,60,completed\n1,8,7100,120,failed\n2,8,86430,86400,timeout\n3,8,10,60,completed\n"
    file.write_text(f"submit,gpus,run,limit,state\n{rows}", encoding="utf-8")
    prepared = sim.prepare(scenario(str(file), 8, restart="30 s"))
    (line,) = prepared.warnings
    assert "jobs.csv: 2 of 4 jobs with a limit ran longer (line 2: 3500 s, limit 1 min); they end as" in line
    assert [job.limit for job in prepared.streams[0].arrivals(1, 0, 1e9)] == [3530, 7130, 86400, 60]


@cases(("tie", "start"), [("latest-end", 100), ("earliest-end", 152), ("oldest", 100)])
def test_the_tie_of_a_best_fit(tie: str, start: float, tmp_path: Path) -> None:
    """Two nodes have a free GPU each, until 200 and 100 s: a job of 150 s beside the second one keeps it in use."""
    file = tmp_path / "jobs.csv"
    file.write_text("submit,gpus,run,limit\n0,3,200,200\n0,3,100,100\n2,1,150,150\n3,4,10,10\n", encoding="utf-8")
    case = {**scenario(str(file), 2, gpus_per_node=4).dump(), "scheduler": {"use": "easy", "share_tie": tie}}
    result = sim.run(sim.prepare(sim.parse(case)), 0, keeps_log=True)
    assert [attempt.start for attempt in result.attempts if attempt.job == 3] == [start]


def test_partitions_of_a_trace(tmp_path: Path) -> None:
    """That a scenario has none is said; a trace may be filtered to those that it has; events are those of its rows."""
    file = tmp_path / "jobs.csv"
    file.write_text("submit,gpus,run,partition,priority\n0,8,60,a,1.5\n1,8,60,b,2\n2,8,60,,1\n", encoding="utf-8")
    plain = sim.prepare(scenario(str(file), 8))
    assert "has 3 partitions (a, b, ), and the scenario none (partitions)" in plain.warnings[0]
    assert [job.priority for job in plain.streams[0].arrivals(1, 0, 1e9)] == [1.5, 2, 1]
    assert plain.expected_events == 12
    parted = {**scenario(str(file), 8, other_partitions="refuse").dump(), "partitions": [{"name": "a"}]}
    with pytest.raises(sim.ScenarioError, match="unknown partition 'b'"):
        sim.prepare(sim.parse(parted))
    parted["streams"][0]["other_partitions"] = "leave out"
    filtered = sim.prepare(sim.parse(parted))
    assert len(list(filtered.streams[0].arrivals(1, 0, 1e9))) == 2
    assert "jobs.csv: 1 jobs of other partitions are left out" in filtered.warnings[0]


def test_backfill_needs_limits(tmp_path: Path) -> None:
    """Reservations of jobs without limits are refused, with a way out."""
    file = tmp_path / "jobs.csv"
    file.write_text("submit,gpus,run\n0,8,60\n", encoding="utf-8")
    with pytest.raises(sim.ScenarioError, match=r"without a time limit, .*give them limits, for example limit: exact"):
        sim.parse({**scenario(str(file), 8).dump(), "scheduler": {"use": "easy"}})


def test_files_are_found_from_the_scenario_and_known_by_content(tmp_path: Path) -> None:
    """A relative name counts from the file of the scenario; a digest follows what is in the trace, not where it is."""
    from ettrick.analysis.results.run import scenario_digest

    digests = []
    for folder, rows in (("a", "0,8,60"), ("b", "0,8,60"), ("c", "0,8,61")):
        (tmp_path / folder / "data").mkdir(parents=True)
        (tmp_path / folder / "data" / "jobs.csv").write_text(f"submit,gpus,run\n{rows}\n", encoding="utf-8")
        own = scenario(str(tmp_path / folder / "data" / "jobs.csv"), 8).dump()
        text = sim.dump({**own, "streams": [{"name": "t", "use": "trace", "file": "data/jobs.csv"}]})
        (tmp_path / folder / "s.yaml").write_text(text, encoding="utf-8")
        digests.append(scenario_digest(sim.load(tmp_path / folder / "s.yaml")))
    assert digests[0] == digests[1] != digests[2]


# Public traces.


@needs_data
def test_the_synthetic_trace() -> None:
    """The 2,993 jobs of the Lublin-Feitelson model: published counts, and the offered work."""
    jobs = read_jobs(JobTrace(name="t", file=str(DATA / "swf" / "lublin_256_synthetic.swf.gz")))
    assert len(jobs.submit) == 2993
    assert jobs.gpus.max() == 256
    assert np.isinf(jobs.limit).all()
    assert not jobs.notes


@needs_data
@cases(
    ("name", "columns", "count", "gpus"),
    [
        ("nasa_ipsc_1993.csv.gz", {"submit": "submit_s", "gpus": "procs", "run": "run_s"}, 18_239, 128),
        ("philly_vc_jobs.csv", {"submit": "submit_s", "run": "duration_s", "tenant": "vc"}, 15_264, 64),
        ("helios_venus_2vc_sept2020.csv", {"submit": "submit_s", "run": "duration_s", "tenant": "vc"}, 1_867, 144),
    ],
)
def test_public_traces(name: str, columns: dict[str, str], count: int, gpus: int) -> None:
    """Every row of the public traces can be used; those of Helios end as published."""
    jobs = read_jobs(JobTrace.model_validate({"name": "t", "file": str(DATA / "fleet" / name), "columns": columns}))
    assert (len(jobs.submit), int(jobs.gpus.max())) == (count, gpus)
    assert all("; not used: user" in note for note in jobs.notes)
    if "helios" in name:
        # 786 completed, 491 failed, 589 cancelled and one lost its node.
        assert np.bincount(jobs.outcome).tolist() == [786, 491, 590]


def test_the_option_leaves_bad_rows_out(tmp_path: Path) -> None:
    """`run` ends with one line at a bad row; with --skip-bad-rows it warns and runs; without a trace it refuses."""
    (tmp_path / "jobs.csv").write_text("submit,gpus,run\n0,8,600\n10,8,x\n", encoding="utf-8")
    file = tmp_path / "s.yaml"
    file.write_text(sim.dump(scenario(str(tmp_path / "jobs.csv"), 8, skip_bad_rows=True).dump()), encoding="utf-8")
    command = ["run", str(file), "--set", "streams.0.skip_bad_rows=false", "-n", "1", "-q", "-j", "1"]
    refused, ran = CliRunner().invoke(cli.app, command), CliRunner().invoke(cli.app, [*command, "--skip-bad-rows"])
    assert (refused.exit_code, ran.exit_code) == (2, 0)
    assert "jobs.csv:3: column 'run' holds 'x'" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert "of 2 rows these are left out: 1 cannot be used" in ran.stderr
    none = CliRunner().invoke(cli.app, ["run", "quickstart", "--skip-bad-rows"])
    assert (none.exit_code, none.stderr.count("\n")) == (2, 1)

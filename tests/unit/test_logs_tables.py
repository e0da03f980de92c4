"""Tables from outside: inventories, outages and lives as spreadsheets, pandas and people write them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from ettrick.analysis.logs import pipeline
from ettrick.analysis.logs.pipeline import FitOptions
from ettrick.sim.records import LogError, count, duration, flag
from tests.cases import cases

if TYPE_CHECKING:
    from pathlib import Path

    from ettrick.analysis.logs.tables import Tables

H = 3600.0


@cases(
    ("text", "number"),
    [
        ("8", 8), ("8.0", 8), ("0", 0), ("8x H100", 8), ("8 x 2080ti", 8), ("8 × A100-80GB", 8), ("H100 x 8", 8),
        ("NVIDIA A100-SXM4-80GB x 4", 4), ("4 GPUs", 4), ("8 H100", 8), ("gpu:h100:8", 8), ("gpu:2080ti:4(S:0-1)", 4),
    ],
)  # fmt: skip
def test_numbers_of_gpus(text: str, number: int) -> None:
    """A number of things is whole, whatever stands beside it."""
    assert count(text) == number


@cases("text", ["4.5", "-8", "eight", "H100", "8 x 4", "8/8", "1e1", "8;8"])
def test_numbers_that_are_none(text: str) -> None:
    """What may be two numbers, or none, is refused: never 0, and never the first digit."""
    with pytest.raises(ValueError, match="no whole number"):
        count(text)


@cases(
    ("text", "seconds"),
    [
        ("90", 90), ("1.5e3", 1500), ("01:30:00", 1.5 * H), ("1-02:00:00", 26 * H), ("1 day, 2:00:00", 26 * H),
        ("0 days 01:30:00", 1.5 * H), ("2 days 00:00:00.5", 48 * H + 0.5), ("PT1H30M", 1.5 * H), ("P1DT2H", 26 * H),
        ("90 min", 1.5 * H), ("1h30m", 1.5 * H), ("45:30", 2730),
    ],
)  # fmt: skip
def test_lengths_of_time(text: str, seconds: float) -> None:
    """Slurm, Python, pandas, ISO 8601 and people write one length in their own ways."""
    assert duration(text) == pytest.approx(seconds)


@cases("text", ["soon", "-5", "nan", "90 parsecs", "1h30x", "", "1:2:3"])
def test_lengths_that_are_none(text: str) -> None:
    """What is no length of time is refused."""
    with pytest.raises(ValueError, match=r"\S"):
        duration(text)


@cases(
    ("words", "value"), [("True Y yes failed x 1.0 scheduled", True), ("False N no 0 OK alive NaN unplanned", False)]
)
def test_yes_and_no(words: str, value: bool) -> None:
    """Words for yes and no are a closed list."""
    assert {flag(word) for word in words.split()} == {value}
    with pytest.raises(ValueError, match="neither yes nor no"):
        flag("perhaps")


def read(folder: Path, text: str, *, inventory: bool = False) -> Tables:
    """Return what a table says, in UTC."""
    (folder / "table.csv").write_text(text)
    file = str(folder / "table.csv")
    tables, _ = pipeline.read(FitOptions([] if inventory else [file], file if inventory else "", ["UTC"]))
    return tables


def why(tables: Tables) -> dict[str, int]:
    """Return what was not used, by reason."""
    return {row.rule: row.number for row in tables.dropped}


@cases(
    ("row", "hours"),
    [
        ("n1,2025-03-01T01:00:00Z,2025-03-01T02:30:00Z,", 1.5),
        ("n1,2025-03-01 01:00:00,,1.5", 1.5),
        ("n1,2025-03-01T01:00:00Z,,01:30:00", 1.5),
        ("n1,2025-03-01T01:00:00Z,NaT,90 min", 1.5),
        ("n1,2025-03-01T01:00:00Z,2025-03-01T02:30:00Z,1.5", 1.5),
        ("n1,2025-03-01T01:00:00+01:00,,NaN", math.nan),
    ],
)
def test_an_outage(row: str, hours: float, tmp_path: Path) -> None:
    """The end of an outage is a moment or a length of time, in the unit of its column or its own."""
    (event,) = read(tmp_path, f"node,start,end,duration_h\n{row}\n").events
    assert (event.t_end - event.t) / H == pytest.approx(hours, nan_ok=True)


@cases(
    ("row", "reason"),
    [
        ("n1,2025-03-01T01:00:00Z,2025-03-01T02:00:00Z,1.5,", "its end and its duration contradict each other"),
        ("n1,2025-03-01,2025-03-02,,", "a date without a time of day"),
        ("n1,2025-03-01T03:00:00Z,2025-03-01T02:00:00Z,,", "ends before it starts"),
        ("n1,NaT,2025-03-01T02:00:00Z,,", "has no start"),
        ("n1,2025-03-01T01:00:00Z,,1:30,", "'1:30', which is hours and minutes, or minutes and seconds"),
        ("n1,2025-03-01T01:00:00Z,,,maybe", "'maybe', which is neither yes nor no"),
        ("n1,1740790800000,1740794400000,,", "these look like milliseconds since 1970"),
        ("n1,45717.04,45717.08,,", "these look like the days of a spreadsheet"),
        ("n1,03/01/2025 01:00,,1,", "'03/01/2025 01:00' is not a time such as"),
        ("g[1-,2025-03-01T01:00:00Z,,1,", "has a bracket that does not close"),
    ],
)
def test_an_outage_that_is_not_used(row: str, reason: str, tmp_path: Path) -> None:
    """What would have to be guessed is left out with its reason, and what is beside it is read."""
    text = f"node,start,end,duration_h,planned\n{row}\nn2,2025-03-02T00:00:00Z,2025-03-02T01:00:00Z,,\n"
    tables = read(tmp_path, text)
    assert [event.node for event in tables.events] == ["n2"]
    assert len(tables.dropped) == 1
    assert reason in tables.dropped[0].rule
    with pytest.raises(LogError, match=r"table.csv:2: no line of this log \(outages\) can be used"):
        read(tmp_path, "\n".join(text.splitlines()[:2]))


@cases(
    ("header", "row", "reason"),
    [
        ("node;start;duration_min", "n1;2025-03-01T01:00:00Z;1.250", "a thousands separator or a decimal one: write"),
        ("node;start;duration_min", "n1;2025-03-01T01:00:00Z;1.250,5", "a decimal comma: write '1250.5'"),
        ("node;start_h;duration_min", "n1;1.250;5", "'1250' or '1.25'"),
        ("node,start,duration_h", 'n1,2025-03-01T01:00:00Z,"1,5"', "a decimal comma: write '1.5'"),
        ("node,start,duration_h", 'n1,2025-03-01T01:00:00Z,1.250\nn1,2025-03-01T02:00:00Z,"0,5"', "'1250' or '1.25'"),
        ("node,start,duration_h", 'n1,2025-03-01T01:00:00Z,"1,250.5"', "a thousands separator: write '1250.5'"),
        ("node,start,end", "Total,2025-03-01T01:00:00Z,2025-03-01T02:00:00Z", "a row of totals"),
        ("node,start,end", "Summe: 3,2025-03-01T01:00:00Z,2025-03-01T02:00:00Z", "a row of totals"),
        ("node,start,end", ",2025-03-01T01:00:00Z,2025-03-01T02:00:00Z", "has no node"),
        (
            "node,start,end",
            "n4/n5,2025-03-01T01:00:00Z,2025-03-01T02:00:00Z",
            "'n4/n5', which is not the name of a node",
        ),
        ("node,start,end", "n1 (rack A),2025-03-01T01:00:00Z,2025-03-01T02:00:00Z", "which is not the name of a node"),
        ("node,start,end", "n008-n010,2025-03-01T01:00:00Z,2025-03-01T02:00:00Z", "write 'n[008-010]'"),
        ("node,start,end", "ALL,2025-03-01T01:00:00Z,2025-03-01T02:00:00Z", "'ALL', which is the name of no node"),
        ("node,start,duration (hh:mm:ss)", "n1,2025-03-01T01:00:00Z,1:30", "hours and minutes, or minutes and seconds"),
    ],
)
def test_fields_that_people_write(header: str, row: str, reason: str, tmp_path: Path) -> None:
    """A number that may be two, and what is beside the name of a node, is left out with what helps."""
    with pytest.raises(LogError) as error:
        read(tmp_path, f"{header}\n{row}\n")
    assert reason in str(error.value)


@cases(
    ("header", "row", "seconds"),
    [
        ("Node,Start,Duration (h)", "n1,2025-03-01 01:00,1.250", 4500),
        ("Node,Start,Duration [min]", "n1,2025-03-01 01:00,90", 5400),
        ("Host Name,Start Time,downtime_hours", "n1,2025-03-01 01:00,1.5", 5400),
        ("node,start,duration hours", "n1,2025-03-01 01:00,1.5", 5400),
        ("node,start,Duration (hh:mm)", "n1,2025-03-01 01:00,1:30", 5400),
        ("node,start,Duration (mm:ss)", "n1,2025-03-01 01:00,1:30", 90),
        ("node;start;duration_h", "n1;2025-03-01 01:00;0.125", 450),
        ("node,start (CET),end (CET)", "n1,2025-03-01 01:00,2025-03-01 02:00", 3600),
        ("node,start (UTC),end_utc", "n1,2025-03-01 01:00,2025-03-01 02:00", 3600),
    ],
)
def test_what_headers_say(header: str, row: str, seconds: float, tmp_path: Path) -> None:
    """A unit, a clock or a zone may stand in brackets or words behind the name of a column."""
    (event,) = read(tmp_path, f"{header}\n{row}\n").events
    assert (event.node, event.t_end - event.t) == ("n1", seconds)


def test_zones_in_headers(tmp_path: Path) -> None:
    """Universal time in a header needs no option; another zone does, and an hour that there was not is said."""
    file = tmp_path / "outages.csv"
    file.write_text("node,start (UTC),end (UTC)\nn1,2025-03-01 01:00,2025-03-01 02:00\n")
    for zones in ([], ["Europe/Berlin"]):
        assert pipeline.read(FitOptions([str(file)], zones=zones))[0].events[0].t == 1740790800
    file.write_text("node,start (CET),end (CET)\nn1,2025-03-30 02:30,2025-03-30 09:00\n")
    with pytest.raises(LogError, match=r"--timezone America/Chicago \(the header says 'start \(CET\)'\)"):
        pipeline.read(FitOptions([str(file)]))
    tables, _ = pipeline.read(FitOptions([str(file)], zones=["Europe/Berlin"]))
    assert any("1 local times lie in an hour that summer time skips" in text for text in tables.findings)


def test_columns_have_units_of_their_own(tmp_path: Path) -> None:
    """Hours beside seconds are hours beside seconds; a number without a unit is refused with what helps."""
    (event,) = read(tmp_path, "node,start_h,duration_s\nn1,10,1800\n").events
    assert (event.t, event.t_end) == (10 * H, 10 * H + 1800)
    with pytest.raises(LogError, match="call it duration_s, duration_min"):
        read(tmp_path, "node,start,duration\nn1,2025-03-01T01:00:00Z,5\n")
    (event,) = read(tmp_path, "node,start,duration\nn1,2025-03-01T01:00:00Z,5 min\n").events
    assert event.t_end - event.t == 300


def test_outages_that_are_repeated(tmp_path: Path) -> None:
    """A row that is there twice is one outage."""
    row = "n[1-2],2025-03-01T01:00:00Z,2025-03-01T02:00:00Z\n"
    tables = read(tmp_path, "node,start,end\n" + row + row)
    assert [event.node for event in tables.events] == ["n1", "n2"]
    assert why(tables) == {"an outage that is repeated": 2}


def test_an_inventory(tmp_path: Path) -> None:
    """A node is in service once at a time: a row that is repeated is none, and a new rack ends the time in the old."""
    text = (
        "node,gpus,rack,in_service,out_of_service\nn[1-2],8.0,r1,2025-01-01,\nn1,8x H100,r2,2025-02-01,9999-12-31\n"
        "n2,8,r1,2025-01-01,\nlogin,NaN,,2025-01-01,2025-03-01T12:00:00Z\n"
    )
    tables = read(tmp_path, text, inventory=True)
    rows = {(row.unit, row.rack): row for row in tables.exposure}
    assert {key: row.gpus for key, row in rows.items()} == {
        ("n1", "r1"): 8, ("n1", "r2"): 8, ("n2", "r1"): 8, ("login", ""): 0,
    }  # fmt: skip
    assert rows["n1", "r1"].t_exit == rows["n1", "r2"].t_enter
    assert rows["n1", "r2"].t_exit == math.inf
    assert why(tables) == {"a node that line 2 has too": 1}
    assert any("1 nodes enter service that never left it" in text for text in tables.findings)


@cases(
    ("text", "said"),
    [
        ("Host,GPU Count,Cabinet,Commissioned,Decommissioned\nn1,8,A1,2025-02-01,\nSumme,8,,,\n", "a row of totals"),
        ("HOSTNAMES|GRES\nn1|gpu:8\nlogin|(null)\n", "1 of 2 nodes have no GPUs, for example login"),
        ("node,rack\nn1,A1\n", "states GPUs of no node"),
        ("node,gpus,Out of Service\nn1,8,2025-02-01\n", "and not when they entered it"),
    ],
)
def test_what_an_inventory_lacks(text: str, said: str, tmp_path: Path) -> None:
    """Totals are no nodes, and what is not stated of nodes is said."""
    tables = read(tmp_path, text, inventory=True)
    assert any(said in line for line in (*tables.findings, *why(tables)))
    assert {row.unit for row in tables.exposure} <= {"n1", "login"}
    with pytest.raises(LogError, match=r"table.csv:2: 'n4/n5', which is not the name of a node"):
        read(tmp_path, "node,gpus\nn4/n5,8\n", inventory=True)


@cases("cell", ["4.5", "eight", "-1"])
def test_an_inventory_with_a_number_that_is_none(cell: str, tmp_path: Path) -> None:
    """The GPUs of a node are never taken for 0."""
    with pytest.raises(LogError, match=f"table.csv:3: '{cell}', which is no whole number"):
        read(tmp_path, f"node,gpus\nn1,8\nn2,{cell}\n", inventory=True)


def test_lives_of_parts(tmp_path: Path) -> None:
    """A serial number that is there twice is one part, of which the last that is said counts."""
    text = (
        "serial,start,end,failed\na,2024-01-01,,No\na,2024-01-01,2024-06-01,Y\nb,2024-01-01,2024-03-01,False\n"
        "b,2024-01-01,2024-03-01,False\nc,2024-01-01,2024-02-01,perhaps\na,2024-07-01,,N\nd,1890-01-01,2024-01-01,Y\n"
    )
    tables = read(tmp_path, text)
    assert [(life.part, life.failed) for life in tables.lives] == [("a", True), ("b", False), ("a", False)]
    assert why(tables) == {
        "a part that another row has too": 2, "'perhaps', which is neither yes nor no": 1,
        "a moment before 1990 or after 2100": 1,
    }  # fmt: skip


def test_ages_in_another_unit(tmp_path: Path) -> None:
    """Hours under the name of days make parts of many hundred years: refused with the reason."""
    text = "serial,life_days,entry,failed\na,900 d,,1\nb,43800,0,1\n"
    tables = read(tmp_path, text)
    assert [life.age for life in tables.lives] == [900 * 24 * H]
    assert why(tables) == {"an age of more than a hundred years; its unit is another one": 1}

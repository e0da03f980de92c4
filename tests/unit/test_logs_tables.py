"""Tables from outside: inventories, outages and lives as spreadsheets, pandas and people write them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from analysis.logs import pipeline
from analysis.logs.pipeline import Request
from sim.records import LogError, count, duration, flag
from tests.cases import cases

if TYPE_CHECKING:
    from pathlib import Path

    from analysis.logs.tables import Tables

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
    tables, _ = pipeline.read(Request([] if inventory else [file], file if inventory else "", ["UTC"]))
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
        ("n1,03/01/2025 01:00,,1,", "'03/01/2025 01:00' is no moment such as"),
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

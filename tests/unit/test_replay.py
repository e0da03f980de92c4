"""Recorded logs: what is joined, what is counted, and one clear line for each kind of bad log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import sim
from sim.failures import Replay, TraceError
from sim.failures.replay import Columns, read_log
from tests.harness import prepared, seconds

if TYPE_CHECKING:
    from pathlib import Path

    from sim.failures.replay import Log

HEADER = "unit,start,end,cause\n"


def read(folder: Path, text: str | bytes, columns: dict[str, str] | None = None, second: float = 1.0) -> Log:
    """Write a log and read it."""
    path = folder / "log.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_log(path, Columns(**(columns or {})), second)


def rows(log: Log) -> list[tuple[str, float, float, str]]:
    """Return (unit, start, end, cause) in order of time."""
    found = [
        (start, log.units[unit], end, cause)
        for cause, recorded in log.by_cause.items()
        for unit, start, end in zip(recorded.unit, recorded.start, recorded.end, strict=True)
    ]
    return [(unit, float(start), float(end), cause) for start, unit, end, cause in sorted(found)]


# ---------------------------------------------------------------------------------------------------- reading


def test_rows_become_outages(tmp_path: Path) -> None:
    """Units are numbered by first appearance, causes are kept apart, rows are sorted by start."""
    log = read(tmp_path, HEADER + "b,10,20,gpu\na,15,40,nic\nb,30,35,gpu\n")
    assert log.units == ("b", "a")
    assert log.merged == 0
    assert rows(log) == [("b", 10.0, 20.0, "gpu"), ("a", 15.0, 40.0, "nic"), ("b", 30.0, 35.0, "gpu")]
    assert log.by_cause["gpu"].unit.tolist() == [0, 0]
    assert log.by_cause["nic"].unit.tolist() == [1]


@pytest.mark.parametrize(
    ("text", "expected", "merged"),
    [
        ("a,10,20,x\na,15,30,y\n", [("a", 10, 30, "x")], 1),
        ("a,10,40,x\na,15,30,y\n", [("a", 10, 40, "x")], 1),
        ("a,10,20,x\na,20,30,y\n", [("a", 10, 30, "x")], 1),
        ("a,10,20,x\na,10,30,y\n", [("a", 10, 30, "x")], 1),
        ("a,10,20,x\na,15,30,y\na,30,31,z\na,40,50,x\n", [("a", 10, 31, "x"), ("a", 40, 50, "x")], 2),
        ("a,10,20,x\nb,15,30,y\na,18,19,x\n", [("a", 10, 20, "x"), ("b", 15, 30, "y")], 1),
        ("a,10,20,x\nb,15,30,y\n", [("a", 10, 20, "x"), ("b", 15, 30, "y")], 0),
        ("a,10,20,x\na,15,15,y\n", [("a", 10, 20, "x")], 1),
        ("a,10,10,x\na,15,15,x\n", [("a", 10, 10, "x"), ("a", 15, 15, "x")], 0),
    ],
    ids=["overlap", "inside", "touching", "same start", "chain", "two units", "apart", "zero in one", "zero lengths"],
)
def test_overlaps_of_one_unit_are_joined(
    tmp_path: Path, text: str, expected: list[tuple[str, float, float, str]], merged: int
) -> None:
    """Intervals of one unit that overlap or touch become one with the cause of the first, and are counted."""
    log = read(tmp_path, HEADER + text)
    assert rows(log) == expected
    assert log.merged == merged


def test_columns_and_unit_of_time(tmp_path: Path) -> None:
    """Other names of columns, further columns, another order and another unit of time."""
    text = "why,note,stop,from,host\nfan,x,2,1.5,n7\n"
    names = {"unit": "host", "start": "from", "end": "stop", "cause": "why"}
    assert rows(read(tmp_path, text, names, second=3600.0)) == [("n7", 5400.0, 7200.0, "fan")]


@pytest.mark.parametrize(("unit", "factor"), [("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86400.0)])
def test_time_units_of_a_scenario(tmp_path: Path, unit: str, factor: float) -> None:
    """The scenario names the unit of time of the log."""
    (tmp_path / "log.csv").write_text(HEADER + "a,1,3,x\n")
    replay = Replay.model_validate({"use": "replay", "file": str(tmp_path / "log.csv"), "time_unit": unit})
    assert rows(replay.read()) == [("a", factor, 3 * factor, "x")]


def test_causes_may_be_missing(tmp_path: Path) -> None:
    """Without a cause or its column an outage is 'recorded'; spaces and a byte-order mark do not matter."""
    assert [row[3] for row in rows(read(tmp_path, HEADER + "a,1,2,\nb,3,4\n"))] == ["recorded", "recorded"]
    assert rows(read(tmp_path, b"\xef\xbb\xbfunit,start,end\n a ,1,2\n")) == [("a", 1.0, 2.0, "recorded")]


# ------------------------------------------------------------------------------------------------- bad logs


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", r"log\.csv: .*empty"),
        (HEADER, r"log\.csv: the log has no rows"),
        ("unit,begin,end\na,1,2\n", r"log\.csv:1: no column 'start' \(the header has: unit, begin, end\)"),
        ("node,start,end\na,1,2\n", r"log\.csv:1: no column 'unit'"),
        ("unit,start\na,1\n", r"log\.csv:1: no column 'end'"),
        (HEADER + "a,1,2,x\n,3,4,x\n", r"log\.csv:3: column 'unit' is empty"),
        (HEADER + "a,soon,2,x\n", r"log\.csv:2: column 'start' holds 'soon', which is not a number"),
        (HEADER + "a,1,,x\n", r"log\.csv:2: column 'end' holds '', which is not a number"),
        (HEADER + "a,1\n", r"log\.csv:2: column 'end' holds ''"),
        (HEADER + "a,-1,2,x\n", r"log\.csv:2: column 'start' must be finite and not negative, not -1"),
        (HEADER + "a,1,inf,x\n", r"log\.csv:2: column 'end' must be finite"),
        (HEADER + "a,nan,2,x\n", r"log\.csv:2: column 'start' must be finite"),
        (HEADER + "a,5,4,x\n", r"log\.csv:2: .*ends \(4\) before it starts \(5\)"),
        (HEADER + "a,5,6,x\nb,4,9,x\n", r"log\.csv:3: rows must be .*: 4 comes after 5"),
        (b"unit,start,end\na,1,2\nb\xff,3,4\n", r"log\.csv:3: is not UTF-8 text \(byte 0xff\)"),
    ],
    ids=[
        "empty",
        "no rows",
        "no start",
        "no unit",
        "no end",
        "empty unit",
        "text",
        "no number",
        "short row",
        "negative",
        "infinite",
        "nan",
        "backwards",
        "unsorted",
        "not UTF-8",
    ],
)
def test_bad_logs(tmp_path: Path, text: str | bytes, match: str) -> None:
    """Every kind of bad log is one line that names the file, the line and the rule."""
    with pytest.raises(TraceError, match=match) as raised:
        read(tmp_path, text)
    assert "\n" not in str(raised.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file and a folder are named with the reason."""
    with pytest.raises(TraceError, match=r"nowhere\.csv.*[Nn]o such file"):
        read_log(tmp_path / "nowhere.csv", Columns(), 1.0)
    with pytest.raises(TraceError, match="directory"):
        read_log(tmp_path, Columns(), 1.0)


# -------------------------------------------------------------------------------------------------- replaying


def replay(folder: Path, text: str, **changes: Any) -> sim.Prepared:
    """Prepare a scenario that replays a log."""
    (folder / "log.csv").write_text(HEADER + text)
    return prepared(failures=[{"use": "replay", "file": str(folder / "log.csv")}], **changes)


def test_the_engine_follows_the_log(tmp_path: Path) -> None:
    """Node 0 is down from 250 to 400 s and node 1 from 950 on: 200 node-seconds, and the job waits for nobody."""
    case = replay(tmp_path, "a,250,400,gpu\nb,950,5000,nic\n", recovery={"use": "hot-spare", "initialize": "0 s"})
    result = sim.run(case, 0)
    assert case.merged_intervals == 0
    assert [source.name for source in case.sources] == ["gpu", "nic"]
    assert result.down_node_seconds == 200.0
    assert result.jobs[0].interruptions == {1: 1, 2: 1}
    assert "starved" not in seconds(result)


def test_joined_intervals_are_one_failure(tmp_path: Path) -> None:
    """Two overlapping outages interrupt once, and the count is kept for a warning."""
    case = replay(tmp_path, "a,250,400,gpu\na,300,450,gpu\n")
    result = sim.run(case, 0)
    assert case.merged_intervals == 1
    assert result.jobs[0].interruptions == {1: 1}
    assert result.down_node_seconds == 200.0


def test_an_outage_of_no_length_interrupts_and_takes_nothing(tmp_path: Path) -> None:
    """An outage that ends when it starts stops the job, and its node stays."""
    result = sim.run(replay(tmp_path, "a,250,250,gpu\n"), 0)
    assert result.jobs[0].interruptions == {1: 1}
    assert result.down_node_seconds == 0.0


def test_rows_at_or_after_the_horizon_are_left_out(tmp_path: Path) -> None:
    """A longer horizon sees more of the same log, and what was there stays."""
    text = "a,250,300,gpu\nb,1000,1200,gpu\n"
    assert sim.run(replay(tmp_path, text), 0).counts["failures"] == 1
    assert sim.run(replay(tmp_path, text, horizon="1500 s"), 0).counts["failures"] == 2


def test_more_units_than_nodes(tmp_path: Path) -> None:
    """A log of more units than the cluster has nodes is refused with both numbers."""
    text = "".join(f"n{number},{number},{number + 1},x\n" for number in range(5))
    with pytest.raises(sim.ScenarioError, match="5 units, but the cluster has 4 nodes"):
        replay(tmp_path, text)

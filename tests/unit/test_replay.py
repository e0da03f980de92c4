"""Recorded logs: what is joined, what is counted, and one clear line for each kind of bad log."""

from __future__ import annotations

import gzip
import math
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.stats

from ettrick import sim
from ettrick.sim.failures import Replay
from ettrick.sim.failures.replay import Columns, read_log
from tests.cases import cases
from tests.harness import prepared, seconds
from tests.intervals import LEAST, close

if TYPE_CHECKING:
    from pathlib import Path

    from ettrick.sim.failures.replay import ReplayedLog

HEADER = "unit,start,end,cause\n"


def read(folder: Path, text: str | bytes, columns: dict[str, str] | None = None, second: float = 1.0) -> ReplayedLog:
    """Write a log and read it."""
    path = folder / "log.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_log(path, Columns(**(columns or {})), second)


def rows(log: ReplayedLog) -> list[tuple[str, float, float, str]]:
    """Return (unit, start, end, cause) in order of time."""
    found = [
        (start, log.units[unit], end, cause)
        for cause, recorded in log.by_cause.items()
        for unit, start, end in zip(recorded.unit, recorded.start, recorded.end, strict=True)
    ]
    return [(unit, float(start), float(end), cause) for start, unit, end, cause in sorted(found)]


def test_rows_become_outages(tmp_path: Path) -> None:
    """Units are numbered by first appearance, causes are kept apart, rows are sorted by start."""
    log = read(tmp_path, HEADER + "b,10,20,gpu\na,15,40,nic\nb,30,35,gpu\n")
    assert log.units == ("b", "a")
    assert log.merged == 0
    assert rows(log) == [("b", 10.0, 20.0, "gpu"), ("a", 15.0, 40.0, "nic"), ("b", 30.0, 35.0, "gpu")]
    assert log.by_cause["gpu"].unit.tolist() == [0, 0]
    assert log.by_cause["nic"].unit.tolist() == [1]


@cases(
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
        ("a,10,,x\na,15,,y\n", [("a", 10, math.inf, "x")], 1),
        ("a,10,20,x\na,15,,y\n", [("a", 10, math.inf, "x")], 1),
        ("a,10,10,x\na,15,15,x\n", [("a", 10, 10, "x"), ("a", 15, 15, "x")], 0),
        ("n1.hpc.org,10,20,x\nN1,15,30,y\nn1,18,25,z\n", [("N1", 10, 30, "x")], 2),
    ],
    ids=[
        "overlap",
        "inside",
        "touching",
        "same start",
        "chain",
        "two units",
        "apart",
        "zero in one",
        "no ends",
        "no end",
        "zero lengths",
        "short, full and in other case",
    ],
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


@cases(("unit", "factor"), [("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86400.0)])
def test_time_units_of_a_scenario(tmp_path: Path, unit: str, factor: float) -> None:
    """The scenario names the unit of time of the log."""
    (tmp_path / "log.csv").write_text(HEADER + "a,1,3,x\n")
    replay = Replay.model_validate({"use": "replay", "file": str(tmp_path / "log.csv"), "time_unit": unit})
    assert rows(replay.read()) == [("a", factor, 3 * factor, "x")]


def test_causes_may_be_missing(tmp_path: Path) -> None:
    """Without a cause or its column an outage is 'recorded'; spaces and a byte-order mark do not matter."""
    assert [row[3] for row in rows(read(tmp_path, HEADER + "a,1,2,\nb,3,4,\n"))] == ["recorded", "recorded"]
    assert rows(read(tmp_path, b"\xef\xbb\xbfunit,start,end\n a ,1,2\n")) == [("a", 1.0, 2.0, "recorded")]


def test_rows_come_in_any_order_and_form(tmp_path: Path) -> None:
    """A log newest first, packed, with semicolons, quotes and host lists says the same; names may state units."""
    plain = 'unit;start_h;end_h;cause\nn[01-02];2;3;gpu\nn01;1;1.5;"nic;\nflap"\n'
    log = read(tmp_path, gzip.compress(plain.encode()), {"start": "start_h", "end": "end_h"})
    hour = 3600.0
    assert rows(log) == [
        ("n01", hour, 1.5 * hour, "nic;\nflap"),
        ("n01", 2 * hour, 3 * hour, "gpu"),
        ("n02", 2 * hour, 3 * hour, "gpu"),
    ]


def replay(folder: Path, text: str, log: dict[str, Any] | None = None, **changes: Any) -> sim.Prepared:
    """Prepare a scenario that replays a log, whose units are nodes in order of appearance unless `log` says more."""
    (folder / "log.csv").write_text(HEADER + text)
    stated = {"map": "first-appearance"} if log is None else log
    return prepared(failures=[{"use": "replay", "file": str(folder / "log.csv"), **stated}], **changes)


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


def test_an_outage_without_an_end_lasts(tmp_path: Path) -> None:
    """A node without an end, or with Slurm's, is down until the horizon, also if that is after the last row."""
    result = sim.run(replay(tmp_path, "a,250,,gpu\nb,300,Unknown,gpu\nc,320,330,gpu\n"), 0)
    assert result.down_node_seconds == 750.0 + 700.0 + 10.0
    assert sim.run(replay(tmp_path, "a,250,,gpu\n", horizon="5000 s"), 0).down_node_seconds == 4750.0


def test_more_units_than_nodes(tmp_path: Path) -> None:
    """A log of more units than the cluster has nodes is refused with both numbers."""
    text = "".join(f"n{number},{number},{number + 1},x\n" for number in range(5))
    with pytest.raises(sim.ScenarioError, match="5 units, but the cluster has 4 nodes"):
        replay(tmp_path, text)


def nodes_of(case: sim.Prepared, replication: int = 0) -> list[int]:
    """Return the node of each outage in order of time."""
    return [int(slot) for slot in sim.trace(case, replication).slot]


NODES, NAMED, EACH = 64, 32, 5

HALF = "".join(f"node{10 + 3 * (row % NAMED)},{100 + 100 * row},{100 + 100 * row},gpu\n" for row in range(NAMED * EACH))

"""Five outages of each of 32 nodes that are known by name; they take no time, so that the job keeps its nodes."""

HALVES = {
    "cluster": {"nodes": NODES, "gpus_per_node": 1, "fabric": {"rails": 1}},
    "jobs": [{"name": "job", "gpus": NODES // 2}],
    "horizon": "17000 s",
    "recovery": {"use": "hot-spare", "initialize": "0 s"},
}


def hits(case: sim.Prepared, replication: int = 0) -> int:
    """Return how many outages hit the job."""
    return sum(sim.run(case, replication).jobs[0].interruptions.values())


def test_a_log_that_leaves_too_few_nodes_has_no_closed_form(tmp_path: Path) -> None:
    """Three of 64 nodes are down from 10,000 s of 17,000 s on: a job of 61 does not lack any, one of 62 does."""
    log = "".join(f"{number},{9997 + number},,gpu\n" for number in (1, 2, 3))
    few, many = (
        replay(tmp_path, log, {"map": "number"}, **HALVES | {"jobs": [{"name": "job", "gpus": gpus}]})
        for gpus in (61, 62)
    )
    assert not any("by the logs" in line for line in sim.closed_form(few).reasons)
    (line,) = (line for line in sim.closed_form(many).reasons if "by the logs" in line)
    assert line.startswith("by the logs more than the 2 nodes that a job can spare are down 41.2 % of the time")
    starved = sim.run(many, 0).jobs[0].buckets[sim.JOB_BUCKETS.index("starved")] / (62 * 17000)
    assert starved == pytest.approx(0.412, abs=0.02)


def test_the_largest_job_says_how_many_nodes_can_be_spared(tmp_path: Path) -> None:
    """40 of 64 nodes are down at the end: with jobs of 30 and 20, more than the other 34 of the larger one."""
    jobs = [{"name": name, "gpus": gpus} for name, gpus in (("small", 20), ("large", 30))]
    log = "".join(f"{number},{10000 + number},,gpu\n" for number in range(40))
    case = replay(tmp_path, log, {"map": "number"}, **HALVES | {"jobs": jobs})
    (line,) = (line for line in sim.closed_form(case).reasons if "by the logs" in line)
    assert line.startswith("by the logs more than the 34 nodes that a job can spare are down 41 % of the time")


def test_a_job_on_half_of_the_cluster_meets_half_of_the_outages(tmp_path: Path) -> None:
    """How many of the named nodes are in the job is hypergeometric; the closed form expects a half.

    By first appearance all of them are: the job has the lowest nodes.
    """
    cases = [replay(tmp_path, HALF, {}, **HALVES, seed=seed) for seed in range(30)]
    found = np.array([hits(case) for case in cases]) / EACH
    law = scipy.stats.hypergeom(NODES, NAMED, NODES // 2)
    assert law.ppf(1e-6) <= found.min() < found.max() <= law.ppf(1 - 1e-6)
    assert close(found, law.mean(), law.var())
    assert cases[0].jobs[0].mtti == pytest.approx(cases[0].horizon / (EACH * law.mean()), rel=1e-12)
    assert hits(replay(tmp_path, HALF, None, **HALVES)) == NAMED * EACH


def test_names_are_placed_by_the_seed_alone(tmp_path: Path) -> None:
    """Each name has one node, the same in each replication, and another one with another seed."""
    case = replay(tmp_path, HALF, {}, **HALVES)
    first = nodes_of(case)
    assert first == nodes_of(case, 7)
    assert first == first[:NAMED] * EACH
    assert len(set(first)) == NAMED
    assert first != nodes_of(replay(tmp_path, HALF, {}, **HALVES, seed=2))


def test_names_that_are_placed_anew(tmp_path: Path) -> None:
    """With `spread_unknown: each` every replication has its own places, and every node is as likely."""
    case = replay(tmp_path, HALF, {"spread_unknown": "each"}, **HALVES)
    drawn = [nodes_of(case, replication) for replication in range(400)]
    assert all(one == one[:NAMED] * EACH and len(set(one)) == NAMED for one in drawn)
    counts = np.bincount([node for one in drawn for node in one[:NAMED]], minlength=NODES)
    # Each node is drawn with probability 1/2 in each replication, without replacement: its counts are binomial.
    assert np.abs(counts - 200).max() <= 5 * math.sqrt(400 / 4)
    # Which name is where varies too: the place of the first is uniform.
    assert scipy.stats.chisquare(np.bincount([one[0] // 8 for one in drawn], minlength=8)).pvalue > LEAST


def test_names_in_natural_order(tmp_path: Path) -> None:
    """Where every node is named the numbers in the names count, not their digits or their order in the log."""
    rows = "".join(
        f"rack{1 + node // 2}-n{9 + node % 2},{900 - node},{900 - node},gpu\n" for node in reversed(range(24))
    )
    cluster = {"nodes": 24, "gpus_per_node": 1, "fabric": {"rails": 1}}
    case = replay(tmp_path, rows, {}, cluster=cluster)
    assert nodes_of(case) == list(reversed(range(24)))
    assert case.warnings == ()


def test_an_inventory_says_which_node_is_which(tmp_path: Path) -> None:
    """By its order, whatever the names are; in the column that the log has, or the only one; some may not fail."""
    rows = "Carol.hpc.org,250,400,gpu\nbob,950,960,nic\n"
    for content in ("host\nalice\ncarol\ndave\nbob\n", "rack,unit\n1,alice\n1,carol\n2, dave\n2,bob\n"):
        (tmp_path / "nodes.csv").write_text(content)
        case = replay(tmp_path, rows, {"inventory": str(tmp_path / "nodes.csv")})
        assert nodes_of(case) == [1, 3]
        assert case.warnings == ()
    assert hits(case) == 1  # on nodes 0 and 1, then on 0 and 2
    assert sim.run(case, 0).down_node_seconds == 150.0 + 10.0


def test_a_simulation_is_replayed_by_the_numbers_of_its_nodes(tmp_path: Path) -> None:
    """What a simulation says of its nodes, replayed, takes the same nodes down at the same times."""
    case = prepared(
        failures=[{"use": "component", "name": "node", "part": "node", "rate": "1 per 4000 s"}], horizon="20000 s"
    )
    first = sim.run(case, 0, keeps_log=True)
    assert len(first.outages) > 5
    lines = (
        f"{node},{start!r},{end!r},node\n" for node, start, end, _ in sorted(first.outages, key=lambda row: row[1])
    )
    again = sim.run(replay(tmp_path, "".join(lines), {"map": "number"}, horizon="20000 s"), 0, keeps_log=True)
    assert [row[:3] for row in again.outages] == [row[:3] for row in first.outages]
    assert again.jobs[0].interruptions == first.jobs[0].interruptions
    with pytest.raises(sim.ScenarioError, match=r"log\.csv: '4' is not the number of a node, 0 to 3"):
        replay(tmp_path, "0,1,2,x\n4,2,3,x\n", {"map": "number"})


def test_two_logs_of_one_cluster(tmp_path: Path) -> None:
    """A name is the same node in both, whether all nodes are named together or only some."""
    (tmp_path / "one.csv").write_text(HEADER + "n7,1,2,gpu\nn1,3,4,gpu\n")
    (tmp_path / "two.csv").write_text(HEADER + "n10,5,6,nic\nn3,7,8,nic\nn1,9,10,nic\n")
    logs = [{"use": "replay", "file": str(tmp_path / name)} for name in ("one.csv", "two.csv")]
    assert nodes_of(prepared(failures=logs)) == [2, 0, 3, 1, 0]
    for extra in ({}, {"spread_unknown": "each"}):
        case = prepared(
            failures=[{**log, **extra} for log in logs],
            cluster={"nodes": 9, "gpus_per_node": 1, "fabric": {"rails": 1}},
        )
        found = nodes_of(case, 3)
        assert found[1] == found[4]
        assert len(set(found)) == 4


def test_what_is_assumed_is_said(tmp_path: Path) -> None:
    """That names are placed at random, and that time begins with the first outage; nothing where it is stated."""
    (line,) = replay(tmp_path, HALF, {}, **HALVES).warnings
    assert "log.csv: names 32 of 64 nodes; they are placed at random, the same in every replication" in line
    assert "inventory: FILE" in line
    (line,) = replay(tmp_path, HALF, {"spread_unknown": "each"}, **HALVES).warnings
    assert "again in each replication" in line
    assert replay(tmp_path, HALF, None, **HALVES).warnings == ()
    dates = "a,2026-11-20T09:00:00+02:00,,gpu\n"
    (line,) = replay(tmp_path, dates).warnings
    assert "log.csv: time 0 is the first outage, 2026-11-20T07:00:00Z; origin: DATE states another moment" in line
    stated = {"map": "first-appearance", "origin": "2026-11-20"}
    with pytest.raises(sim.ScenarioError, match=r"failures\.0\.origin: '2026-11-20' does not go with the moments"):
        replay(tmp_path, dates, stated)
    assert replay(tmp_path, dates, {**stated, "origin": "2026-11-20T06:50:00Z"}).warnings == ()


def test_a_log_that_does_not_cover_the_horizon(tmp_path: Path) -> None:
    """It is said if many outages all begin long before the horizon, and if all begin after it."""
    stated = {"map": "first-appearance", "time_unit": "s"}
    assert replay(tmp_path, HALF, stated, **HALVES).warnings == ()
    (line,) = replay(tmp_path, HALF, stated, **{**HALVES, "horizon": "6 h"}).warnings
    assert line == "the log ends long before the horizon: its last outage begins at 0.1852 of 0.25 d"
    few = "".join(HALF.splitlines(keepends=True)[:29])
    assert replay(tmp_path, few, stated, **HALVES).warnings == ()
    epoch = "".join(f"a,{1_770_000_000 + row},{1_770_000_000 + row},gpu\n" for row in range(5))
    (line,) = replay(tmp_path, epoch).warnings
    assert re.match(
        r"no outage of the log is simulated: the first begins at 2\.049e\+04 d, after 0\.01157 d; origin", line
    )
    assert replay(tmp_path, epoch, {"map": "first-appearance", "origin": 1_770_000_000}).warnings == ()


def test_dates_are_moments(tmp_path: Path) -> None:
    """Offsets count, so that the hour which a clock repeats in autumn is an hour; without them a day has 24 hours."""
    clock = "a,2026-10-25T02:30:00+02:00,2026-10-25T02:30:00+01:00,x\nb,2026-10-25T02:00:00Z,20261025T060000+0100,x\n"
    hour = 3600.0
    assert rows(read(tmp_path, HEADER + clock)) == [("a", 0.0, hour, "x"), ("b", 1.5 * hour, 4.5 * hour, "x")]
    local = "a,2026-10-25 00:30:00,2026-10-25 04:30,x\nb,2026-10-26,2026-10-27,x\n"
    assert rows(read(tmp_path, HEADER + local)) == [("a", 0.0, 4 * hour, "x"), ("b", 23.5 * hour, 47.5 * hour, "x")]


@cases("kind", ["numbers", "dates"])
def test_a_simulation_starts_at_the_origin(tmp_path: Path, kind: str) -> None:
    """What is over by then is left out, what has begun begins there, and the rate is that of the rest."""
    moments = [2.0, 3.0, 5.0, 9.0, 6.0, 6.5, 10.0, 11.0]
    if kind == "dates":
        start = datetime.fromisoformat("2026-11-20T00:00:00+01:00")
        texts = [(start + timedelta(hours=moment)).isoformat() for moment in moments]
        origin: float | str = (start + timedelta(hours=6)).astimezone(UTC).isoformat()
    else:
        texts, origin = [f"{moment:g}" for moment in moments], 6
    text = "".join(f"n{row},{texts[2 * row]},{texts[2 * row + 1]},x\n" for row in range(4))
    (tmp_path / "log.csv").write_text(HEADER + text)
    log = Replay.model_validate({"file": str(tmp_path / "log.csv"), "time_unit": "h", "origin": origin}).read()
    hour = 3600.0
    assert rows(log) == [("n1", 0.0, 3 * hour, "x"), ("n2", 0.0, hour / 2, "x"), ("n3", 4 * hour, 5 * hour, "x")]
    assert log.by_cause["x"].span == 4 * hour
    assert log.note == ""

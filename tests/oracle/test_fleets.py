"""Fleets against a second simulator, which was written from the documentation alone: every attempt, exactly."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import yaml

from ettrick import sim
from tests.cases import cases
from tests.oracle import fleets
from tests.pace import IS_FULL, SEED

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 100 if IS_FULL else 5
"""Scenarios of each of ten tests."""


@cases("part", range(10))
def test_every_attempt(part: int, tmp_path: Path) -> None:
    """Each job has the same nodes from when until when, and ends in the same state, whatever the keys of the queue."""
    for number in range(COUNT):
        seed = (SEED * 10 + part) * 1000 + number
        case, rows, log = draw_all(seed)
        file = write(tmp_path, case, rows, log)
        assert ours(file) == theirs(case, rows, log), f"seed {seed}: {file.read_text()}"


def scenario(draw: random.Random) -> dict[str, Any]:
    """Return a random scenario in plain numbers [s], as `fleets.simulate` takes it."""
    nodes = draw.randint(2, 8)
    scheduler: dict[str, Any] = {
        "head": draw.choice(["blocks", "passes"]),
        "share_nodes": draw.choice(["best-fit", "spread"]),
        "replacement": draw.choice(["first", "never"]),
        "cycle": draw.choice([0, 0, 0, 100, 70]),
        "at_limit": draw.choice(["kill", "kill", "kill", "run on"]),
        "overtime": draw.choice([0, 0, 0, 40]),
        "requeue": {
            "delay": draw.choice([0, 0, 50, 130]),
            "age": draw.choice(["reset", "keep"]),
            "holds_nodes": draw.random() < 0.3,
        },
        "order": {"then": draw.choice(["submit", "submit", "limit"])},
    }
    if scheduler["head"] == "passes":
        scheduler |= {"depth": draw.choice([0, 1, 1, 2, "all", "all"])}
    checkpoint: dict[str, Any] = draw.choice([{}, {"save": 7}, {"interval": 150, "save": 5, "restore": 11}])
    stream: dict[str, Any] = {
        "name": "log",
        "use": "trace",
        "file": "jobs.csv",
        "origin": 0,
        "restart": draw.choice([0, 0, 13]),
        "checkpoint": checkpoint,
    }
    if draw.random() < 0.2:
        stream["limit"] = "exact"
    if draw.random() < 0.15:
        stream["chain"] = {"limit": draw.choice([300, 700]), "notice": draw.choice([20, 60])}
    case: dict[str, Any] = {
        "name": "fleet",
        "cluster": {"name": "fleet", "nodes": nodes, "accelerator": "h100"},
        "horizon": 100_000,
        "streams": [stream],
        "scheduler": scheduler,
        "detection": {"time": draw.choice([0, 0, 20, 300])},
        "checkpoint": {"tiers": [{"interval": 1800, "write": 30, "restore": 60}]},
        "recovery": {"use": "full-restart", "initialize": 60},
    }
    if draw.random() < 0.3 and nodes % 2 == 0:
        case["cluster"]["rack"] = {"nodes": nodes // 2}
        scheduler |= {"pack": "rack", "need": "required"}
    if draw.random() < 0.35:
        case["partitions"] = partitions(draw, nodes)
    if draw.random() < 0.4:
        scheduler["preempt"] = {
            "mode": draw.choice(["requeue", "requeue", "cancel"]),
            "who": draw.choice(["priority", "priority", "tier", "none"]),
            "order": draw.choice(["youngest", "oldest", "smallest"]),
            "grace": draw.choice([0, 0, 30]),
            "exempt": draw.choice([0, 0, 200]),
        }
    if draw.random() < 0.3:
        case["tenants"] = tenants(draw, nodes)
        if "preempt" in scheduler:
            scheduler["preempt"]["reclaim"] = draw.choice(["none", "lower", "any"])
            scheduler["preempt"]["within"] = draw.choice(["cluster", "cluster", "tenant"])
    return case


def partitions(draw: random.Random, nodes: int) -> list[dict[str, Any]]:
    """Return two partitions: apart, nested or overlapping."""
    cut = draw.randint(1, nodes - 1)
    low = draw.choice([list(range(cut)), list(range(nodes)), list(range(min(nodes, cut + 1)))])
    entries: list[dict[str, Any]] = [{"name": "a", "nodes": low}, {"name": "b", "nodes": list(range(cut, nodes))}]
    for entry in entries:
        entry["tier"] = draw.choice([1, 1, 2])
        if draw.random() < 0.2:
            entry["limit"] = draw.choice([400, 900])
    return entries


def tenants(draw: random.Random, nodes: int) -> list[dict[str, Any]]:
    """Return two or three tenants with quotas."""
    entries = []
    rest = nodes
    for name in "xyz"[: draw.randint(2, 3)]:
        quota = draw.randint(0, rest)
        rest -= quota
        entry: dict[str, Any] = {"name": name, "nodes": quota}
        if draw.random() < 0.5:
            entry["borrow"] = draw.randint(0, 3)
        if draw.random() < 0.3:
            entry["lend"] = draw.randint(0, quota)
        entries.append(entry)
    return entries


def ceiling(case: dict[str, Any], row: dict[str, Any]) -> int:
    """Return how many nodes a job may have at most, by its partition, its domain and its quota."""
    count = case["cluster"]["nodes"]
    places = next(
        (set(entry["nodes"]) for entry in case.get("partitions", []) if entry["name"] == row.get("partition")), None
    )
    places = set(range(count)) if places is None else places
    rack = case["cluster"].get("rack", {}).get("nodes", count)
    most = max(sum(node // rack == domain for node in places) for domain in range(-(-count // rack)))
    if "tenant" in row:
        owners = {entry["name"]: entry for entry in case["tenants"]}
        own = owners.pop(row["tenant"])
        lent = sum(min(other["nodes"], other.get("lend", count)) for other in owners.values())
        most = min(most, own["nodes"] + min(own.get("borrow", count), lent))
    return int(most)


def jobs(draw: random.Random, case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a trace, all of jobs that could start in an empty cluster."""
    rows: list[dict[str, Any]] = []
    time = 0
    has_small = draw.random() < 0.5
    for _ in range(draw.randint(1, 12)):
        time += draw.choice([0, 10, 30, 110, 350])
        row: dict[str, Any] = {"submit": time, "priority": draw.choice([0, 0, 1, 2])}
        if "partitions" in case:
            row["partition"] = draw.choice(["a", "b"])
        if "tenants" in case:
            row["tenant"] = draw.choice([entry["name"] for entry in case["tenants"]])
        most = ceiling(case, row)
        if most < 1:
            continue
        row["gpus"] = draw.choice([1, 2, 4]) if has_small and draw.random() < 0.4 else 8 * draw.randint(1, most)
        row["run"] = draw.choice([50, 100, 300, 520, 1000, 1730])
        limits = [row["run"], row["run"] + 60, 2 * row["run"], 3000]
        row["limit"] = draw.choice(limits if case["scheduler"].get("depth") else [*limits, None])
        if draw.random() < 0.1:
            row["limit"] = max(10, row["run"] - 40)
        if row["limit"] is not None:
            row["limit"] = max(row["limit"], case["scheduler"]["cycle"])
        row["state"] = draw.choice(["completed", "completed", "completed", "failed", "cancelled"])
        rows.append(row)
    return rows


def outages(draw: random.Random, nodes: int) -> list[tuple[int, int, int]]:
    """Return outages of nodes (node, start, end), those of one node apart from one another."""
    rows = []
    for node in range(nodes):
        time = 0
        while draw.random() < 0.35:
            start = time + draw.choice([15, 101, 222, 500, 900, 2003])
            time = start + draw.choice([5, 60, 333, 1500, 6000])
            rows.append((node, start, time))
            time += 1
    return sorted(rows, key=lambda row: row[1])


def seconds(entry: Any) -> Any:
    """Return a part of a scenario with its numbers written as YAML of a scenario wants them."""
    times = {"horizon", "restart", "delay", "cycle", "grace", "exempt", "interval", "save", "restore", "write", "time",
             "initialize", "notice", "limit", "overtime"}  # fmt: skip
    if isinstance(entry, list):
        return [seconds(part) for part in entry]
    if not isinstance(entry, dict):
        return entry
    document = {}
    for key, part in entry.items():
        is_time = key in times and isinstance(part, int)
        document[key] = f"{part} s" if is_time else seconds(part)
        if key == "partitions":
            document[key] = [seconds(one) | {"nodes": ",".join(map(str, one["nodes"]))} for one in part]
    return document


def write(folder: Path, case: dict[str, Any], rows: fleets.Rows, log: fleets.Log) -> Path:
    """Write a scenario with its trace and its log; return its file."""
    columns = ["job", *rows[0]]
    lines = [
        ",".join("" if value is None else str(value) for value in [at, *row.values()]) for at, row in enumerate(rows)
    ]
    (folder / "jobs.csv").write_text("\n".join([",".join(columns), *lines]) + "\n")
    document = seconds(case)
    if log:
        (folder / "log.csv").write_text(
            "unit,start,end\n" + "".join(f"{node},{start},{end}\n" for node, start, end in log)
        )
        document["failures"] = [{"use": "replay", "file": "log.csv", "map": "number"}]
    (folder / "s.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return folder / "s.yaml"


def ours(file: Path) -> list[fleets.Attempt]:
    """Return the attempts of the product that end before the horizon."""
    result = sim.run(sim.prepare(sim.load(file)), 0, keeps_log=True)
    attempts = (one for one in result.attempts if one.state != "running")
    return sorted((one.job, one.start, one.end, one.state, one.nodes) for one in attempts)


def theirs(case: dict[str, Any], rows: fleets.Rows, log: fleets.Log) -> list[fleets.Attempt]:
    """Return those of the second simulator."""
    return fleets.Fleet(case, rows, log).simulate()


def draw_all(seed: int) -> tuple[dict[str, Any], fleets.Rows, fleets.Log]:
    """Return a random scenario, its trace and its log."""
    draw = random.Random(seed)
    while True:
        case = scenario(draw)
        rows = jobs(draw, case)
        if rows:
            return case, rows, outages(draw, case["cluster"]["nodes"]) if draw.random() < 0.6 else []

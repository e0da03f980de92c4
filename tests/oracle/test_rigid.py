"""The simulator equals a second implementation of rigid jobs, on random scenarios of whole seconds, in every number."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from ettrick import sim
from tests import pace
from tests.oracle import compare, rigid

if TYPE_CHECKING:
    from pathlib import Path

FAULTS = ["host", "gpu", "process", "hang"]


@dataclass(frozen=True)
class Drawn:
    """Random keys of a scenario: times are multiples of a grid, so that a coarse one makes ties."""

    random: random.Random
    grid: int
    gpus: int
    nodes: int

    def time(self, low: int, high: int) -> str:
        """Return a time between two limits."""
        return f"{self.random.randint(-(-low // self.grid), high // self.grid) * self.grid} s"

    def maybe(self, keys: dict[str, Any], chance: float = 0.4) -> dict[str, Any]:
        """Return the keys that are stated, each by chance."""
        return {key: value for key, value in keys.items() if self.random.random() < chance}

    def rows(self, horizon: int, cause: str) -> list[compare.Row]:
        """Return a log."""
        rows = []
        for _ in range(self.random.randint(1, 12)):
            start = int(self.time(1, horizon)[:-2])
            length = 0 if self.random.random() < 0.15 else int(self.time(1, 3000)[:-2])
            rows.append(
                (self.random.randrange(self.nodes), start, start + length, f"{cause}{self.random.randint(0, 2)}")
            )
        return sorted(rows, key=lambda row: row[1])

    def failures(self, horizon: int) -> tuple[list[dict[str, Any]], dict[str, list[compare.Row]]]:
        """Return sources, and the rows of those that are logs."""
        sources: list[dict[str, Any]] = []
        logs: dict[str, list[compare.Row]] = {}
        detection = {"detection": self.time(0, 600)}
        for index in range(self.random.randint(1, 3)):
            name = f"f{index}"
            law = {"name": name, "law": self.time(800, 5000), **self.maybe(detection)}
            kind = self.random.choice(["replay", "replay", "replay", "maintenance", "job", "component", "rack"])
            fault = self.maybe({"fault": self.random.choice(FAULTS)})
            if kind == "replay":
                logs[f"{name}.csv"] = self.rows(horizon, name)
                keys = {"use": kind, "file": f"{name}.csv", "time_unit": "s", "map": "number"}
                sources.append({**keys, **self.maybe(detection), **fault})
            elif kind == "maintenance":
                window = {"start": self.time(1, horizon), "duration": self.time(100, 3000)}
                window |= {"first": self.random.randrange(self.nodes), "units": 1}
                sources.append({"use": kind, "name": name, "saves": False, "windows": [window]})
            elif kind == "job":
                sources.append({"use": kind, **law, **fault, **self.maybe({"damage": "reboot"})})
            else:
                part = "node" if kind == "component" else "rack"
                keys = {"use": "component", "part": part, "repair": self.time(0, 2000), **law, **fault}
                keys["renews"] = self.random.choice(["at_failure", "at_return", "never"])
                if part == "node":
                    keys["clock"] = self.random.choice(["wall", "in_service", "busy"])
                sources.append({**keys, **self.maybe({"damage": "reboot"})})
        return sources, logs

    def tier(self, store: str, smallest: int, *, is_only: bool) -> dict[str, Any]:
        """Return a store of checkpoints; of several, saves are over before the next is due."""
        interval, write = self.time(100 if is_only else 300, 1500), self.time(0, 300)
        keys: dict[str, Any] = {"store": store, "interval": interval, "write": write}
        keys |= {"restore": self.time(0, 100), "mode": self.random.choice(["blocking", "async"])}
        if keys["mode"] == "async":
            keys["stall"] = self.time(0, 30)
        if store == "peer-host":
            keys |= self.maybe({"clique": self.random.randint(2, min(smallest, 3)), "jump": self.random.choice([1, 2])})
        return {**keys, **self.maybe({"when_busy": "skip", "retain": self.random.randint(1, 3)}, 0.25)}

    def pools(self, spares: dict[str, Any]) -> list[str]:
        """Return pools in any order; one of them has nodes at first."""
        pools = ["spare", "warm", "idle", "cold"]
        self.random.shuffle(pools)
        pools = pools[: self.random.randint(1, 4)]
        filled = {"hot": "spare"}.get(next(iter(spares), "idle"), next(iter(spares), "idle"))
        return pools if filled in pools else [*pools, filled]

    def rung(self, name: str, keeps: str, spares: dict[str, Any]) -> dict[str, Any]:
        """Return a rung of a ladder."""
        keys = {"name": name, "keeps": keeps, "stop": self.time(0, 60)}
        keys["launch"] = self.time(0, 300)
        options = {"budget": self.random.randint(0, 3), "handles": self.random.sample(FAULTS, 2), "except_first": True}
        keys |= self.maybe(options, 0.25)
        if keys["keeps"] == "nothing":
            backoff = {"first": self.time(10, 60), "most": self.time(100, 300)}
            return {**keys, **self.maybe({"delay": self.time(0, 100), "backoff": backoff})}
        return {
            **keys,
            **self.maybe({"pools": self.pools(spares)}, 0.3),
            **self.maybe({"patience": self.time(0, 900)}, 0.6),
        }

    def recovery(self, spares: dict[str, Any]) -> dict[str, Any]:
        """Return a recovery."""
        keys: dict[str, Any] = {"use": self.random.choice(["full-restart", "hot-spare", "standby", "ladder"])}
        keys |= self.maybe({"scale": 2}, 0.2)
        if keys["use"] == "full-restart":
            return {**keys, "initialize": self.time(0, 300), **self.maybe({"delay": self.time(0, 200)})}
        if keys["use"] == "standby":
            options = {"selection": self.time(0, 200), "pools": self.pools(spares)}
            return {**keys, "recovery": self.time(0, 300), **self.maybe(options)}
        if keys["use"] == "hot-spare":
            options = {"reschedule": self.time(0, 60), "pools": self.pools(spares), "patience": self.time(0, 900)}
            return {
                **keys,
                "initialize": self.time(0, 300),
                **self.maybe({**options, "requeue_delay": self.time(0, 100)}),
            }
        keeps = ["hosts", "processes", "hosts", "nothing"]
        names = "abc"[: self.random.randint(1, 3)]
        rungs = [self.rung(name, self.random.choice(keeps[: 4 if name == names[-1] else 3]), spares) for name in names]
        keys |= {"rungs": rungs, "exhausted": self.time(0, 900)}
        return {**keys, **self.maybe({"no_progress": self.random.randint(1, 3), "resets_on_progress": False}, 0.25)}

    def spares(self, count: int) -> dict[str, Any]:
        """Return spares of some nodes."""
        keys: dict[str, Any] = {}
        for pool in ("hot", "warm", "cold"):
            number = self.random.randint(0, count) if self.random.random() < 0.5 else 0
            count -= number
            if number and pool == "hot":
                keys[pool] = number
            elif number:
                keys[pool] = {"nodes": number, "delay": self.time(0, 300), **self.maybe({"refills": False}, 0.3)}
        return keys

    def jobs(self) -> tuple[list[dict[str, Any]], int]:
        """Return jobs, and how many nodes they leave."""
        jobs: list[dict[str, Any]] = []
        count = self.random.choice([1, 1, 1, 2, 3])
        for index in range(count):
            size = self.random.randint(1, max(1, self.nodes // (1 if count == 1 else 2)))
            options = {"work": {"time": self.time(1000, 6000)}, "arrival": self.time(0, 2000)}
            rhythm = {"name": "eval", "every": self.time(100, 900), "time": self.time(10, 60)}
            job = {"name": f"j{index}", "gpus": size * self.gpus, "step_time": "1 s", **self.maybe(options, 0.3)}
            jobs.append({**job, **self.maybe({"periodic": [rhythm]}, 0.15)})
        return jobs, self.nodes - sum(job["gpus"] for job in jobs) // self.gpus


def scenario(seed: int) -> tuple[dict[str, Any], dict[str, list[compare.Row]]]:
    """Return a random scenario and its logs."""
    source = random.Random(seed)
    drawn = Drawn(source, source.choice([1, 1, 1, 10, 50]), source.choice([1, 2]), source.randint(1, 6))
    horizon = int(drawn.time(3000, 15000)[:-2])
    jobs, over = drawn.jobs()
    spares = drawn.spares(over) if over > 0 else {}
    failures, logs = drawn.failures(horizon)
    smallest = min(job["gpus"] for job in jobs) // drawn.gpus
    kinds = ["host", "disk", "peer-host"] if smallest > 1 else ["host", "disk"]
    stores = ["remote", *(store for store in kinds if source.random() < 0.2)]
    is_only = len(stores) == 1 and not any("periodic" in job for job in jobs)
    if is_only:
        for job in jobs:
            job["step_time"] = source.choice(["1 s", "1 s", "7 s", "130 s"])
    keys = {
        "name": "drawn",
        "cluster": {
            "name": "c",
            "nodes": drawn.nodes,
            "gpus_per_node": drawn.gpus,
            "rack": {"nodes": source.randint(1, 3)},
        },
        "horizon": f"{horizon} s",
        "jobs": jobs,
        "failures": failures,
        "detection": {"time": drawn.time(0, 300), **drawn.maybe({"scale": 2}, 0.2)},
        "checkpoint": {"tiers": [drawn.tier(store, smallest, is_only=is_only) for store in stores]},
        "spares": spares,
        "recovery": drawn.recovery(spares),
        "repair": {"time": drawn.time(100, 2000), **drawn.maybe({"scale": 2}, 0.2)},
    }
    return keys, logs


def observed(folder: Path, keys: dict[str, Any], logs: dict[str, list[compare.Row]], engine: str) -> rigid.Account:
    """Return what the simulator gives."""
    prepared = sim.prepare(sim.load(compare.written(folder, keys | {"engine": engine}, logs)))
    result = sim.run(prepared, 0, keeps_log=True)
    names = compare.causes(prepared)
    account = rigid.Account(outside=compare.table(prepared, result.outside))
    for job in result.jobs:
        account.jobs |= {(job.name, *key): gpus for key, gpus in compare.table(prepared, job.totals).items()}
        account.interruptions |= {(job.name, names[cause]): count for cause, count in job.interruptions.items()}
        account.ends[job.name] = int(job.end) if job.finished else None
    account.log = sorted((row.node, int(row.start), int(row.end), names[row.cause]) for row in result.outages)
    return account


def unequal(expected: rigid.Account, account: rigid.Account) -> dict[str, Any]:
    """Return the tables that differ, with what differs in them."""
    tables = ("jobs", "interruptions", "outside")
    found = {name: compare.differences(getattr(account, name), getattr(expected, name)) for name in tables}
    if sorted(expected.log) != account.log:
        found["log"] = {"simulator": account.log, "here": sorted(expected.log)}
    if expected.ends != account.ends:
        found["ends"] = {"simulator": account.ends, "here": expected.ends}
    return {name: rows for name, rows in found.items() if rows}


@pytest.mark.parametrize("part", range(50 if pace.IS_FULL else 5))
def test_a_second_implementation_gives_the_same(tmp_path: Path, part: int) -> None:
    """Every bucket by cause, every interruption and every outage of random scenarios is that of the other program."""
    for number in range(20):
        seed = pace.SEED * 1_000_003 + 20 * part + number
        keys, logs = scenario(seed)
        found = unequal(rigid.simulate(keys, logs), observed(tmp_path, keys, logs, "events"))
        assert not found, f"seed {seed}: {found}, of {keys} {logs}"

"""The simulator equals a second implementation of jobs that shrink, in every number of random scenarios."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from ettrick import sim
from tests import pace
from tests.oracle import compare, elastic

if TYPE_CHECKING:
    from pathlib import Path

FAULTS = ["host", "gpu", "process", "hang", "switch", "storage"]


@dataclass(frozen=True)
class Drawn:
    """Random keys of a scenario: times are multiples of a grid, so that a coarse one makes ties."""

    random: random.Random
    grid: int

    def time(self, low: int, high: int) -> str:
        """Return a time between two limits."""
        return f"{self.random.randint(-(-low // self.grid), high // self.grid) * self.grid} s"

    def maybe(self, keys: dict[str, Any], chance: float = 0.4) -> dict[str, Any]:
        """Return the keys that are stated, each by chance."""
        return {key: value for key, value in keys.items() if self.random.random() < chance}

    def job(self) -> tuple[int, dict[str, Any]]:
        """Return the GPUs of a node, and a job whose replicas are nodes, share nodes, or have stages on several."""
        replicas, size, gpus = self.random.randint(1, 5), self.random.randint(1, 2), self.random.randint(1, 2)
        form = self.random.choice(["tensor", "pipeline", "shared"])
        layout = {"data": replicas, "tensor": size * gpus}
        if form == "pipeline":
            layout = {"data": replicas, "tensor": gpus, "pipeline": size}
        elif form == "shared":
            layout = {"data": replicas * size * gpus, "tensor": 1}
        job = {"name": "a", "gpus": replicas * size * gpus, "step_time": f"{self.random.choice([1, 1, 7, 10, 60])} s"}
        return gpus, {**job, "parallelism": layout}

    def rows(self, nodes: int, horizon: int, cause: str) -> list[compare.Row]:
        """Return a log whose outages of one node do not touch."""
        rows: list[compare.Row] = []
        for _ in range(self.random.randint(1, 10)):
            node, start = self.random.randrange(nodes), int(self.time(1, horizon)[:-2])
            end = start + int(self.time(0, self.random.choice([20, 300, 3000]))[:-2])
            if all(row[0] != node or row[2] < start or end < row[1] for row in rows):
                rows.append((node, start, end, f"{cause}{self.random.randint(0, 2)}"))
        return sorted(rows, key=lambda row: (row[1], row[3], row[0]))

    def failures(
        self, nodes: int, horizon: int, kind: str
    ) -> tuple[list[dict[str, Any]], dict[str, list[compare.Row]]]:
        """Return sources, and the rows of those that are logs."""
        sources: list[dict[str, Any]] = []
        logs: dict[str, list[compare.Row]] = {}
        for index in range(self.random.randint(1, 3)):
            name = f"f{index}"
            detection = self.maybe({"detection": self.time(0, 400)})
            law = {"name": name, "law": self.time(800, 5000), **detection}
            use = self.random.choice(["replay", "replay", "replay", "maintenance", "job", "component", "rack"])
            fault = self.maybe({"fault": self.random.choice(FAULTS)}, 0.6)
            if use == "replay":
                logs[f"{name}.csv"] = self.rows(nodes, horizon, name)
                log = {"use": use, "file": f"{name}.csv", "time_unit": "s", "map": "number"}
                sources.append({**log, **detection, **fault})
            elif use == "maintenance":
                window = {
                    "start": self.time(1, horizon),
                    "duration": self.time(100, 3000),
                    "first": self.random.randrange(nodes),
                }
                sources.append({"use": use, "name": name, "saves": False, "windows": [window]})
            elif use == "job":
                faults = ["hang", "storage"] if kind == "shrink-rejoin" else FAULTS
                sources.append(
                    {"use": use, **law, "fault": self.random.choice(faults), **self.maybe({"effect": "hang"})}
                )
            else:
                keys = {"use": "component", "part": {"component": "node"}.get(use, use), **law, **fault}
                keys["renews"] = self.random.choice(["at_failure", "at_return", "never"])
                if use == "component":
                    keys["clock"] = self.random.choice(["wall", "in_service", "busy"])
                sources.append({**keys, **self.maybe({"repair": self.time(0, 2000)}, 1 if use == "rack" else 0.5)})
        return sources, logs

    def recovery(self, replicas: int) -> dict[str, Any]:
        """Return a recovery."""
        keys: dict[str, Any] = {"use": self.random.choice(["shrink-rejoin", "shrink-rejoin", "restart-smaller"])}
        keys |= self.maybe({"scale": 2}, 0.15)
        keys |= self.maybe({"min_replicas": self.random.randint(1, replicas)}, 0.5)
        if keys["use"] == "restart-smaller":
            options = {"stop": self.time(0, 60), "rejoin": self.time(0, 200), "start_up": self.time(0, 200)}
            return {**keys, "launch": self.time(0, 300), **self.maybe({**options, "rejoin_keeps": "live"})}
        keys |= {"reconfigure": self.time(0, 60), "initialize": self.time(0, 200)}
        options = {"catch_up": self.time(0, 200), "rejoin": self.time(0, 60)}
        return {
            **keys,
            **self.maybe(options, 0.7),
            **self.maybe({"majority": True, "quorum_timeout": self.time(0, 900)}, 0.3),
        }

    def repair(self, nodes: int) -> dict[str, Any]:
        """Return repairs by one time, or by tiers, for a job of so many nodes.

        Nothing is said of who takes which of several nodes that are unblamed at one instant.
        """
        if self.random.random() < 0.6:
            return {"time": self.time(100, 2000), **self.maybe({"scale": 2}, 0.2)}
        tiers = [{"name": f"t{index}", "time": self.time(50, 900)} for index in range(self.random.randint(1, 3))]
        for tier in tiers[:-1]:
            tier |= self.maybe({"escalates": self.random.randint(0, 1), "fixes": self.random.randint(0, 1)})
        options: dict[str, Any] = {"qualification": {"time": self.time(10, 200), "finds": self.random.randint(0, 1)}}
        options["diagnosis"] = {"finds": self.random.randint(0, 1) if nodes == 1 else 1}
        return {"use": "tiers", "tiers": tiers, **self.maybe(options)}

    def spares(self, count: int) -> dict[str, Any]:
        """Return spares of some nodes."""
        keys: dict[str, Any] = {}
        for pool in ("hot", "warm"):
            number = self.random.randint(0, count) if self.random.random() < 0.5 else 0
            count -= number
            if number:
                keys[pool] = number if pool == "hot" else {"nodes": number, "delay": self.time(0, 300)}
        return keys


def scenario(seed: int) -> tuple[dict[str, Any], dict[str, list[compare.Row]]]:
    """Return a random scenario and its logs."""
    source = random.Random(seed)
    drawn = Drawn(source, source.choice([1, 1, 1, 10, 50]))
    gpus, job = drawn.job()
    over = source.choice([0, 0, 1, 2])
    nodes = -(-job["gpus"] // gpus) + over
    horizon = int(drawn.time(4000, 15000)[:-2])
    recovery = drawn.recovery(max(1, job["gpus"] // gpus // 2))
    failures, logs = drawn.failures(nodes, horizon, recovery["use"])
    interval, is_blocking = int(drawn.time(100, 1500)[:-2]), source.random() < 0.5
    tier: dict[str, Any] = {"store": "remote", "interval": f"{interval} s", "restore": drawn.time(0, 100)}
    tier |= {"mode": "blocking", "write": drawn.time(0, 60)} if is_blocking else {}
    tier |= {} if is_blocking else {"mode": "async", "stall": drawn.time(0, 30), "write": drawn.time(0, interval)}
    keys = {
        "name": "drawn",
        "cluster": {"name": "c", "nodes": nodes, "gpus_per_node": gpus, "rack": {"nodes": source.randint(1, 3)}},
        "horizon": f"{horizon} s",
        "jobs": [job],
        "failures": failures,
        "detection": {
            "time": drawn.time(0, 300),
            **drawn.maybe({"scale": 2}, 0.2),
            **drawn.maybe({"hang": drawn.time(0, 500)}, 0.2),
        },
        "checkpoint": {"tiers": [tier]},
        "spares": drawn.spares(over),
        "recovery": recovery,
        "repair": drawn.repair(job["gpus"] // gpus),
    }
    return keys, logs


def unequal(folder: Path, keys: dict[str, Any], logs: dict[str, list[compare.Row]]) -> dict[Any, tuple[float, float]]:
    """Return the numbers of the simulator that are not those of the second implementation."""
    prepared = sim.prepare(sim.load(compare.written(folder, keys | {"engine": "events"}, logs)))
    (job,) = sim.run(prepared, 0).jobs
    names = compare.causes(prepared)
    buckets, interruptions = elastic.simulate(keys, logs)
    expected = {key: float(gpus) for key, gpus in buckets.items()}
    expected |= {("interruptions", cause): count for cause, count in interruptions.items()}
    hits = {("interruptions", names[cause]): float(count) for cause, count in job.interruptions.items()}
    return compare.differences(compare.table(prepared, job.totals) | hits, expected)


@pytest.mark.parametrize("number", range(1000 if pace.IS_FULL else 40))
def test_a_second_implementation_gives_the_same(tmp_path: Path, number: int) -> None:
    """Every bucket by cause and every interruption of a random scenario is that of the other program."""
    keys, logs = scenario(pace.SEED * 1_000_003 + number)
    assert not unequal(tmp_path, keys, logs), f"{keys} {logs}"

"""The operators' world all at once: alarms, parts, a shared store, power and redundancy, with jobs and streams."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ettrick import sim
from ettrick.analysis.ratios import ReplicationMetrics
from ettrick.sim.policies.contracts import Bucket
from tests.engine_watch import Watch
from tests.property.common import MOST_EVENTS, Scenario, examples
from tests.strategies import Draw, maybe, moments, seconds, times

IDLE, TRAINING, PUE = 1e3, 5e3, 1.25
"""Power of a node [W], and what a facility draws for each watt."""


class _Watched(Watch):
    """A simulation that is looked at after every event, its stocks too, and has to end."""

    def look(self) -> None:
        """Assert it: of no stock is there less than nothing, and nobody waits for a part that lies on the shelf."""
        if not self.prepared.has_queue:
            super().look()
        assert self.events < MOST_EVENTS
        for shelf in self.repair.shelves:
            assert min(shelf.shelf.count, shelf.on_order) >= 0
            assert not (shelf.line and shelf.shelf.count)
            position = shelf.shelf.count + shelf.on_order - len(shelf.line)
            assert shelf.rule.least < position <= shelf.rule.stock
        stores = self.jobs.stores
        assert sum(each.speed * each.whole for each in stores.transfers) <= 1 + 1e-9


@st.composite
def _health(draw: Draw, horizon: float) -> dict[str, Any]:
    share = st.sampled_from((0.0, 0.4, 1.0))
    score = {"threshold": draw(st.sampled_from((1.5, 3.0))), "separation": 3.0, "every": "600 s"}
    known: dict[str, Any] = {"recall": draw(share), "precision": draw(st.sampled_from((0.3, 1.0)))}
    parts: dict[str, Any] = {
        "prediction": {"lead": draw(times(5, 200))} | draw(st.sampled_from((known, {"score": score}))),
        "false_alarms": f"{3 * 86_400 / horizon!r} per node-day",
        "test": draw(times(60, 600)),
        "preflight": {"time": draw(moments(0, 60)), "coverage": draw(share)},
        "checks": {"every": draw(seconds(200, horizon)), "time": draw(moments(0, 5)), "coverage": draw(share)},
    }
    return {key: value for key, value in parts.items() if draw(st.booleans())}


@st.composite
def _power(draw: Draw, nodes: int) -> dict[str, Any]:
    """Return caps from just above what idle nodes draw to above what all take."""
    cap = st.floats(1.05, 6.0).map(lambda part: f"{nodes * IDLE * PUE * part!r} W")
    parts: dict[str, Any] = {
        "cap": draw(cap),
        "rack_cap": f"{2 * IDLE * draw(st.floats(1.05, 6.0))!r} W",
        "curtail": [
            {"start": draw(moments(1, 2000)), "time": draw(seconds(1, 900)), "cap": draw(cap)}
            | draw(st.sampled_from(({}, {"every": "1000 s"})))
            for _ in range(draw(st.integers(1, 3)))
        ],
        "ambient": {"temperature": 22, "day": {"every": "1800 s", "factors": [0.9, 1.4]}, "slope": "2 %"},
        "ramp_per_minute": draw(st.sampled_from(("2 kW", "50 kW"))),
        "carbon": {"intensity": 400, "profile": {"every": "3000 s", "factors": [1.5, 0.5]}},
        "exponent": draw(st.sampled_from((0.3, 1.0))),
    }
    common = {"idle": f"{IDLE} W", "training": f"{TRAINING} W", "pue": PUE, "switch": "0 W"}
    return common | {key: value for key, value in parts.items() if draw(st.booleans())}


@st.composite
def _stock(draw: Draw) -> dict[str, Any]:
    stock = draw(st.integers(0, 4))
    found: dict[str, Any] = {"stock": stock, "lead": draw(times(60, 900)), "share": draw(st.sampled_from((0.5, 1.0)))}
    found |= {"reorder": draw(st.integers(-1, stock - 1))} if draw(st.booleans()) else {}
    found |= {"deliveries": draw(seconds(60, 900))} if draw(st.booleans()) else {}
    return found | ({"returns": {"time": draw(times(60, 900)), "repaired": 0.5}} if draw(st.booleans()) else {})


_LAUNCH = {"initialize": "40 s"}

RECOVERIES: dict[str, dict[str, Any]] = {
    "hot-spare": {"use": "hot-spare", **_LAUNCH},
    "full-restart": {"use": "full-restart", **_LAUNCH},
    **{
        redundancy: {"use": "redundant", "redundancy": redundancy, **_LAUNCH, "reconfigure": "9 s", "catch_up": "5 s"}
        for redundancy in ("peers", "templates", "pairs", "next-stage")
    },
}


@st.composite
def scenarios(draw: Draw) -> Scenario:
    """Return small sites with some of everything that an operator decides."""
    horizon = draw(st.integers(3_000, 8_000)) + 0.125
    kind = draw(st.sampled_from(tuple(RECOVERIES)))
    recovery = copy.deepcopy(RECOVERIES[kind])
    if recovery["use"] == "redundant":
        recovery["overhead"] = draw(st.sampled_from(("0 %", "20 %", "50 %")))
        recovery |= {"overhead": "50 %"} if kind == "pairs" else {"slowdown": 2.0} if kind == "next-stage" else {}
    job: dict[str, Any] = {"gpus": 8, "step_time": "3.5 s", "batch": {"tokens": 4096, "sequence": 64}}
    job["parallelism"] = {"tensor": 2, "pipeline": 2, "data": 2}
    jobs = [job | {"name": f"job-{number}"} for number in range(draw(st.integers(1, 2)))]
    nodes = 4 * len(jobs) + draw(st.integers(0, 4))
    nodes += nodes % 2
    tier: dict[str, Any] = {"interval": draw(seconds(100, 900)), "mode": draw(st.sampled_from(("blocking", "async")))}
    tier |= {"aggregate": "40 MB/s", "node_bandwidth": draw(st.sampled_from(("8 MB/s", "90 MB/s")))}
    if draw(st.booleans()):
        tier |= {"shares": "all", "stagger": draw(st.booleans()), "save_share": draw(st.sampled_from((0.4, 1.0)))}
    tier |= {"stall": draw(moments(1, 9))} if tier["mode"] == "async" else {}
    a_node = {"use": "component", "part": "node", "rate": f"{2 * 86_400 / horizon!r} per node-day"}
    causes = [
        {**a_node, "name": "crash"},
        {**a_node, "name": "wrong", "effect": "corrupt", "detection": "300 s"},
        {**a_node, "name": "slow", "effect": {"use": "slow", "factor": 0.5}, "detection": "300 s"},
        {**a_node, "name": "relapse", "relapse": {"after": {"use": "exponential", "mean": "200 s"}}},
        {"use": "job", "name": "storage", "fault": "storage", "store_out": "90 s", "rate": "20 per job-d"},
    ]
    repair = draw(st.sampled_from(({"time": "300 s"}, {"use": "tiers", "tiers": TIERS})))
    if "time" in repair:
        causes[3]["relapse"]["probability"] = 0.3
    data: dict[str, Any] = {
        "name": "drawn",
        "seed": draw(st.integers(0, 1_000)),
        "cluster": {"nodes": nodes, "gpus_per_node": 2, "rack": {"nodes": 2}, "fabric": {"rails": 1}},
        "horizon": f"{horizon!r} s",
        "jobs": jobs,
        "failures": [cause for cause in causes if not maybe(draw, 3)] or causes[:1],
        "detection": {"time": draw(times(5, 60))},
        "checkpoint": {"size": "1 GB", "tiers": [tier]},
        "recovery": recovery,
        "spares": {"hot": draw(st.integers(0, nodes - 4 * len(jobs)))},
        "repair": repair,
    }
    if draw(st.booleans()):
        data["health"] = draw(_health(horizon))
    if draw(st.booleans()):
        data["power"] = draw(_power(nodes))
    if _causes(data) and draw(st.booleans()):
        data["parts"] = {"shelf": draw(_stock()) | {"causes": _causes(data)}}
    if recovery["use"] != "redundant" and draw(st.booleans()):
        work = {"use": "exponential", "mean": "600 s"}
        # Jobs of streams do not stand still for checks.
        data.get("health", {}).pop("preflight", None)
        data.get("health", {}).get("checks", {}).pop("time", None)
        data["streams"] = [{"name": "s", "arrivals": {"rate": "20 per h"}, "gpus": {"1": 0.5, "4": 0.5}, "work": work}]
    if draw(st.booleans()):
        data["windows"] = draw(seconds(horizon / 9, horizon))
    if draw(st.booleans()):
        data["warmup"] = draw(seconds(1, horizon / 3))
    return data


TIERS = [{"name": "reset", "time": "60 s", "escalates": 0.5}, {"name": "swap", "time": "400 s", "crews": 1}]


def play(data: Scenario) -> tuple[sim.Prepared, sim.Result]:
    """Return a scenario that is played with an eye on every event."""
    prepared = sim.prepare(sim.parse(data))
    return prepared, _Watched(prepared, 0, sim.trace(prepared, 0)).run()


@examples(150)
@given(scenarios())
def test_all_that_an_operator_decides_at_once(data: Scenario) -> None:
    """Ledgers close, shares are shares, runs repeat, stocks are never below nothing, power not above its cap."""
    prepared, result = play(data)
    again = sim.run(prepared, 0)
    assert np.array_equal(again.cluster, result.cluster)
    assert again.counts == result.counts
    _check_power(data, prepared, result)


def _check_power(data: Scenario, prepared: sim.Prepared, result: sim.Result) -> None:
    """A cap bounds what is drawn; ramps, streams and tests of nodes that jobs do without are beyond it, as is said."""
    power = data.get("power", {})
    if "cap" not in power or "ramp_per_minute" in power or data.get("streams"):
        return
    energy = ReplicationMetrics(prepared, result).spending()["energy"]
    mean = energy.amount / energy.base / prepared.horizon
    tested = result.cluster[Bucket.QUALIFICATION] / 2 / prepared.horizon
    assert mean <= float(power["cap"].split()[0]) * (1 + 1e-9) + tested * (TRAINING - IDLE) * PUE


def _same(one: Scenario, other: Scenario) -> None:
    """Two scenarios have the same ledger, whatever the causes are called."""
    tables = [play(data)[1].cluster for data in (one, other)]
    assert tables[0] == pytest.approx(tables[1], rel=1e-9, abs=1e-6)


@examples(60)
@given(scenarios())
def test_limits_in_which_nothing_is_left_of_it(data: Scenario) -> None:
    """Stock without end is none, nor is a predictor that sees nothing, a cap above the peak, a store for one alone."""
    nodes = data["cluster"]["nodes"]
    for key, limit in {
        "parts": {"any": {"stock": 1000, "lead": "1 s", "causes": _causes(data)}} if _causes(data) else None,
        "health": {"prediction": {"recall": 0, "precision": 1, "lead": "60 s"}},
        "power": {"idle": "1 kW", "training": "5 kW", "cap": f"{nodes * TRAINING * 1.2 + 1e5} W"},
    }.items():
        without = {name: value for name, value in data.items() if name != key}
        if limit is not None:
            _same(without, {**without, key: limit})
    # Where the pace changes, a save that is due comes at once, and a shared one at the end of its step; a
    # sign makes a job save too.
    failures = [cause for cause in data["failures"] if cause["name"] in ("crash", "relapse")]
    if failures and data["recovery"]["use"] != "redundant":
        alone = data | {
            "jobs": data["jobs"][:1],
            "failures": failures,
            "streams": [],
            "parts": {},
            "power": None,
            "health": {},
        }
        tier = {key: value for key, value in data["checkpoint"]["tiers"][0].items() if key not in SHARING}
        _same(*(alone | {"checkpoint": {"size": "1 GB", "tiers": [tier | {"shares": each}]}} for each in SHARES))


SHARES, SHARING = ("restores", "all"), ("shares", "save_share", "stagger")


def _causes(data: Scenario) -> list[str]:
    return [cause["name"] for cause in data["failures"] if cause["use"] == "component"]

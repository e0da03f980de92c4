"""Every kind of failure source, with every option that shapes its draws, passes the shared check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sim
from sim.failures import SOURCES, Replay, draw_trace
from tests.cases import cases
from tests.harness import check_source, prepared
from tests.intervals import close
from tests.pace import one_in
from tests.source_checks import with_domains

if TYPE_CHECKING:
    from pathlib import Path

    from sim.failures import Source

DAY = 86400.0
HORIZON = 40 * DAY
COUNTS = {"node": 128, "gpu": 1024, "nic": 1024, "leaf": 16, "rack": 32, "pdu": 8}

WEIBULL = {"law": "weibull", "shape": 0.7, "mean": "60 d"}
LAWS: dict[str, dict[str, Any]] = {
    "weibull": WEIBULL,
    "wear-out": {"law": "weibull", "shape": 3, "scale": "60 d"},
    "lognormal": {"law": "lognormal", "median": "40 d", "sigma": 1.3},
    "gamma": {"law": "gamma", "shape": 0.6, "mean": "60 d"},
    "piecewise": {
        "law": "piecewise",
        "hazards": [{"until": "5 d", "rate": "1 per 20 d"}, {"until": "30 d", "rate": 0}, {"rate": "1 per 60 d"}],
    },
    "mixture": {
        "law": "mixture",
        "parts": [{"weight": "20 %", "law": {"law": "exponential", "mean": "8 d"}}, {"weight": 0.8, "law": WEIBULL}],
    },
    "empirical": {"law": "empirical", "values": ["3 d", "20 d", "21 d", "90 d", "150 d"]},
}
NODE = {"use": "component", "name": "node", "part": "node"}
RATE = {"rate": "2 per 100 node-d"}
RACK = {"use": "incident", "name": "rack", "part": "rack", "rate": "1 per 30 rack-d"}
CLUSTER = {"use": "incident", "name": "storm", "part": "cluster", "rate": "1 per 2 d"}
SICK = {"use": "defect", "name": "sick", "share": "20 %", "rate": "5 per 100 node-d"}
HOURS = {"period": "1 d", "factors": [0, 0.5, 2.5]}
LATE = {"law": "lognormal", "mean": "2 h", "sigma": 1}

CASES: dict[str, dict[str, Any]] = {
    "folded gpu": {"use": "component", "name": "gpu", "part": "gpu", "rate": "3 per 1000 gpu-d"},
    "part of no node": {**NODE, "part": "rack", "law": LAWS["wear-out"]},
    "scaled": {**NODE, **RATE, "scale": 2.5},
    "at return": {**NODE, "law": WEIBULL, "renews": "at_return"},
    "busy": {**NODE, "law": WEIBULL, "clock": "busy"},
    **{f"{name} node": {**NODE, "law": law} for name, law in LAWS.items()},
    **{
        f"{name} frailty": {**NODE, "law": LAWS[name], "frailty": {"shape": 0.8}}
        for name in ("weibull", "lognormal", "piecewise", "empirical")
    },
    "frailty of nodes": {**NODE, "part": "gpu", "law": WEIBULL, "scale": 0.2, "frailty": {"shape": 2}},
    "frailty of parts": {
        **NODE,
        "part": "gpu",
        "rate": "1 per 100 gpu-d",
        "frailty": {"shape": 0.5, "of": "part", "shared": "parts"},
    },
    "batch with a law": {**NODE, **RATE, "batches": [{"share": "30 %", "law": WEIBULL}]},
    "batch with a ratio": {**NODE, "law": LAWS["gamma"], "batches": [{"share": 0.25, "ratio": 6}]},
    "batches": {
        **NODE,
        **RATE,
        "batches": [{"share": 0.2, "ratio": 0.1}, {"share": 0.3, "law": LAWS["mixture"]}, {"share": 0.5, "ratio": 3}],
    },
    "folded batches": {
        "use": "component",
        "name": "gpu",
        "part": "gpu",
        "rate": "2 per 1000 gpu-d",
        "batches": [{"share": 0.3, "law": {"law": "exponential", "mean": "90 d"}}],
    },
    "covariate": {**NODE, "law": WEIBULL, "covariates": [{"name": "cooling", "ratios": [0.5, 1, 4], "stride": 8}]},
    "all differences": {
        **NODE,
        "law": LAWS["lognormal"],
        "frailty": {"shape": 3},
        "batches": [{"share": 0.4, "law": LAWS["wear-out"]}, {"share": 0.1, "ratio": 5}],
        "covariates": [{"name": "row", "ratios": [1, 2]}, {"name": "supply", "ratios": [0.5, 1.5], "stride": 3}],
    },
    "trend down": {**NODE, **RATE, "tempo": {"trend": {"exponent": 0.6, "reference": "60 d"}}},
    "trend up": {**NODE, "law": WEIBULL, "tempo": {"trend": {"exponent": 2, "reference": "60 d", "age": "20 d"}}},
    "calendar": {**NODE, **RATE, "tempo": {"calendar": HOURS}},
    "swings": {**NODE, **RATE, "tempo": {"swings": {"every": "3 d", "cv": 0.8, "shared": "room"}}},
    "all tempos": {
        **NODE,
        "law": LAWS["gamma"],
        "frailty": {"shape": 1},
        "tempo": {
            "trend": {"exponent": 0.8, "reference": "30 d", "age": "1 d"},
            "calendar": {"period": "7 d", "factors": [1, 1, 1, 1, 1, 0.2, 0.2]},
            "swings": {"every": "50 h", "cv": 0.5},
        },
    },
    "tempo at return": {**NODE, "law": WEIBULL, "renews": "at_return", "tempo": {"calendar": HOURS}},
    "whole rack": {**RACK, "repaired": "part"},
    "nodes of a rack": {**RACK, "size": {"nodes": 2}},
    "mean of a power domain": {**RACK, "name": "pdu", "part": "pdu", "size": {"mean": 4, "least": 2}},
    "share of a leaf": {**RACK, "part": "leaf", "law": WEIBULL, "rate": None, "size": {"share": "40 %"}},
    "values of a cluster": {**CLUSTER, "size": {"values": [1, 2, 200], "weights": [5, 2, 1]}},
    "equal values": {**CLUSTER, "size": {"values": [3, 3, 9]}},
    "rack with spread": {**RACK, "spread": LATE},
    "some of a rack with spread": {**RACK, "size": {"values": [1, 3]}, "spread": {"law": "exponential", "mean": "3 d"}},
    "cluster with spread": {
        **CLUSTER,
        "size": {"mean": 5},
        "spread": {"law": "mixture", "parts": [{"weight": 0.4, "law": "0 s"}, {"weight": 0.6, "law": LATE}]},
        "tempo": {"swings": {"every": "5 d", "cv": 1}},
    },
    "share of a cluster with spread": {
        **CLUSTER,
        "size": {"share": 0.01, "least": 3},
        "spread": {"law": "empirical", "values": ["0 s", "1 h", "2 d"]},
    },
    "defect": SICK,
    "exact defect": {**SICK, "exact": True},
    "defect that ages": {**SICK, "rate": None, "law": WEIBULL, "onset": "1 per 100 d"},
    "busy defect": {**SICK, "clock": "busy"},
    "job": {"use": "job", "name": "software", "rate": "2 per job-d"},
    "ageing job": {"use": "job", "name": "software", "law": {"law": "lognormal", "mean": "3 d", "sigma": 1}},
    "preemption": {"use": "preemption", "name": "others", "rate": "1 per job-d", "away": "4 h"},
    "ageing preemption": {
        "use": "preemption",
        "name": "others",
        "law": {"law": "lognormal", "mean": "3 d", "sigma": 1},
        "away": "4 h",
    },
    "loss spike": {"use": "loss-spike", "name": "spike", "rate": "1 per job-d"},
    "ageing loss spike": {"use": "loss-spike", "name": "spike", "law": {"law": "gamma", "shape": 0.6, "mean": "4 d"}},
    "bug": {"use": "bug", "name": "bug", "rate": "1 per job-d", "fix": "1 d"},
    "ageing bug": {"use": "bug", "name": "bug", "law": WEIBULL, "fix": "1 d"},
    "maintenance": {
        "use": "maintenance",
        "name": "windows",
        "part": "rack",
        "windows": [
            {"start": "20 d", "duration": "4 h", "first": 3, "units": 5},
            {"start": "2 d", "duration": "1 h"},
            {"start": "60 d", "duration": "1 d", "first": 31},
        ],
    },
    "rollout": {"use": "rollout", "name": "driver", "nodes_per_day": 20, "duration": "1 h", "hazard": {"node": 0.5}},
}
SHRINKING = {name for name, entry in CASES.items() if entry.get("exact") or (entry.get("part") == "cluster")}
"""Victims among all nodes, and an exact share of them, belong to the size of the cluster."""


def build(entry: dict[str, Any]) -> Source:
    """Return the source of an entry of a scenario, incidents with their domains."""
    kind: Any = SOURCES[entry["use"]]
    model = kind.model_validate({key: value for key, value in entry.items() if value is not None})
    source: Source = model.build(COUNTS, 3)
    return source if source.blast is None else with_domains(source, COUNTS["node"])


@pytest.mark.parametrize("name", one_in(2, CASES))
def test_a_source_draws_what_it_says(name: str) -> None:
    """Law, mean count, victims, both prefixes and names, for every kind and every option."""
    check_source(build(CASES[name]), HORIZON, grows=name not in SHRINKING)


def test_a_log_is_played_as_it_is(tmp_path: Path) -> None:
    """Each cause of a log is a source with its rows."""
    path = tmp_path / "log.csv"
    path.write_text("unit,start,end,cause\na,100,400,gpu\nb,200,300,nic\na,90000,95000,nic\nc,4000000,4000100,gpu\n")
    log = {"use": "replay", "file": str(path), "map": "first-appearance"}
    sources, merged = Replay.model_validate(log).build_all(COUNTS)
    assert merged == 0
    assert [source.name for source in sources] == ["gpu", "nic"]
    for source in sources:
        check_source(source, HORIZON)


WHAT_HAPPENS_LATER = {
    *("use", "name", "source", "events", "planned", "detection"),
    *("fault", "damage", "notice", "away", "store_out", "rewind"),
    *("idle_hazard", "interrupts", "defer", "effect", "repair", "tier", "relapse", "saves", "fix"),
}
"""Fields that shape no draw: the engine's tests deal with them."""


@cases("use", sorted(set(SOURCES) - {"replay", "rollout"}))
def test_no_option_is_left_out(use: str) -> None:
    """Each field of each kind that shapes draws is in some case above.

    A log has no option but its file, and a rollout draws nothing.
    """
    kind: Any = SOURCES[use]
    stated = {key for entry in CASES.values() if entry["use"] == use for key in entry}
    assert stated, f"no case of {use}"
    asked = set(kind.model_fields) - WHAT_HAPPENS_LATER
    if use == "defect":
        asked.remove("tempo")  # refused
    if use == "incident":
        asked.remove("clock")  # must be wall
    # One line multiplies the rates of all kinds.
    assert asked <= stated | {"scale"}


@pytest.mark.parametrize(
    "name", ["folded gpu", "scaled", "frailty of parts", "folded batches", "nodes of a rack", "equal values"]
)
def test_the_rate_of_a_source_is_its_mean_count(name: str) -> None:
    """With constant hazards the rate that the plans rest on is the mean number of candidates over time."""
    source = build(CASES[name])
    counts = np.array([len(draw_trace([source], HORIZON, 5, number).time) for number in range(100)])
    assert close(counts, source.rate * HORIZON)


# ------------------------------------------------------------------------------- what is not in the trace happens


def test_a_bug_strikes_although_it_is_not_in_the_trace() -> None:
    """A bug with a mean life of 100 s strikes a job of 1000 s, again and again until it is mended."""
    failures = [{"use": "bug", "name": "bug", "rate": "1 per 100 s", "fix": "300 s"}]
    case = prepared(
        failures=failures,
        checkpoint={"tiers": [{"interval": "100 s", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
    )
    assert sum(sim.run(case, number).jobs[0].interruptions.get(1, 0) for number in range(20)) > 20


def test_a_rollout_takes_each_node_once() -> None:
    """Every node is out for its 60 s, although the trace knows of nothing."""
    failures = [{"use": "rollout", "name": "driver", "nodes_per_day": 86400 / 100, "duration": "60 s"}]
    case = prepared(failures=failures, jobs=[{"name": "job", "gpus": 2, "arrival": "999 s"}])
    result = sim.run(case, 0, keeps_log=True)
    assert sorted(outage.node for outage in result.outages) == [0, 1, 2, 3]
    assert all(outage.end - outage.start == pytest.approx(60.0) for outage in result.outages)

"""Where a closed form is said to apply it is right: random scenarios, and kinds in which it cannot be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim.closed_form.strikes import expected_renewals
from ettrick.sim.scenario.laws import Exponential, Fixed, Gamma
from tests import harness
from tests.cases import cases
from tests.pace import SEED
from tests.property.common import drawn, play, prepare
from tests.strategies import scenarios

OFF = 0.03

"""Points of ETTR by which a form must not be off [-]."""


def simulated(case: sim.Prepared, count: int, first: int = 0) -> list[float]:
    """Return the ETTR of replications from a first one on [-]."""
    rows = [play(case, number).jobs for number in range(first, first + count)]
    return [sum(job.buckets[0] for job in jobs) / sum(job.requested for job in jobs) for jobs in rows]


def is_off(case: sim.Prepared, ettr: float) -> bool:
    """Return whether an ETTR is off by more than three points, and by more than five standard errors."""
    values = simulated(case, 4)
    if abs(np.mean(values) - ettr) > OFF / 2:
        values += simulated(case, 20, 4)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return abs(float(np.mean(values)) - ettr) > max(OFF, 5 * error)


def wrong_of(count: int) -> tuple[int, list[dict[str, Any]]]:
    """Return to how many of so many random scenarios the form applies, and those of them for which it is off."""
    applied, wrong = 0, []
    for number in range(count):
        data = drawn(scenarios(fewest_sources=number % 3), SEED * 100_000 + number)
        case = prepare(data)
        ettr = sim.closed_form(case).ettr
        applied += ettr is not None
        if ettr is not None and is_off(case, ettr):
            wrong.append(data)
    return applied, wrong


def test_a_few_random_scenarios() -> None:
    """The same in a push, of few: none of them is off."""
    assert wrong_of(12)[1] == []


@pytest.mark.nightly
def test_random_scenarios_to_which_the_form_applies() -> None:
    """Of 500, at most one in a hundred is off by more than three points and five standard errors."""
    applied, wrong = wrong_of(500)
    assert applied > 10
    assert len(wrong) <= 5, wrong


NODE: dict[str, Any] = {"use": "component", "name": "node", "part": "node", "rate": "1 per 10 node-d", "repair": "0 s"}

CHECKPOINT = {"tiers": [{"interval": "10 min", "mode": "blocking", "write": "5 s", "restore": "1 min"}]}

RESTART = {"use": "full-restart", "initialize": "2 min"}

SMALL: dict[str, Any] = {
    "cluster": {"nodes": 16, "gpus_per_node": 1, "rack": {"nodes": 4}, "fabric": {"rails": 1}},
    "horizon": "10 d",
    "jobs": [{"name": "job", "gpus": 12}],
    "detection": {"time": "1 min"},
    "checkpoint": CHECKPOINT,
    "recovery": RESTART,
    "repair": {"time": "1 h"},
}

FULL = {"jobs": [{"name": "job", "gpus": 16}]}

CREW = {"name": "swap", "time": "4 h", "crews": 1}

KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "a bug": ({"failures": [{"use": "bug", "name": "bug", "rate": "1 per job-d", "fix": "4 h"}]}, "bug (a bug)"),
    "no second life": (
        {"failures": [{**NODE, "rate": "2 per node-d", "renews": "never"}]},
        "node (no second life)",
    ),
    "incidents of the cluster, repaired by nodes": (
        {
            "failures": [
                {
                    "use": "incident",
                    "name": "all",
                    "part": "cluster",
                    "rate": "1 per 2 cluster-d",
                    "repaired": "nodes",
                    "repair": {"use": "exponential", "mean": "4 h"},
                },
            ]
        },
        "all takes several nodes at once",
    ),
    "no node over": (FULL | {"failures": [NODE | {"repair": "8 h"}]}, "repairs take 0.333 d"),
    "racks of which all are needed": (
        FULL | {"failures": [NODE | {"part": "rack", "rate": "1 per 10 rack-d", "repair": "6 h"}]},
        "node takes several nodes at once",
    ),
    "few periods of a fixed law": (
        {"failures": [{"use": "job", "name": "clock", "law": {"use": "fixed", "value": "6 d"}}], "detection": "6 h"},
        "clock (lives that age)",
    ),
    "crews": (
        FULL
        | {
            "cluster": SMALL["cluster"] | {"nodes": 20},
            "failures": [{"use": "component", "name": "node", "part": "node", "rate": "0.4 per node-d"}],
            "repair": {"use": "tiers", "tiers": [CREW]},
        },
        "more than the other 4",
    ),
    "parts": (
        FULL
        | {
            "cluster": SMALL["cluster"] | {"nodes": 20},
            "failures": [NODE | {"repair": "1 h"}],
            "parts": {"board": {"stock": 1, "lead": "6 d", "causes": ["node"]}},
        },
        "parts take",
    ),
    "a rollout": (
        {
            "failures": [{"use": "rollout", "name": "driver", "nodes_per_day": 64, "duration": "3 h", "batch": 16}],
            "horizon": "12 h",
        },
        "driver (a rollout)",
    ),
    "a log of bursts": (
        {
            "failures": [
                {
                    "use": "maintenance",
                    "name": "work",
                    "part": "node",
                    "windows": [{"start": f"{day} d", "duration": "1 h", "units": 12} for day in range(1, 10)],
                }
            ]
        },
        "work (a log or a window)",
    ),
}


@cases("name", KINDS)
def test_kinds_that_the_form_does_not_know(name: str) -> None:
    """No number, and the reason names what it does not know."""
    changes, reason = KINDS[name]
    data = harness.scenario(**{**SMALL, **changes})
    if "detection" in changes:
        data["detection"] = {"time": changes["detection"]}
    found = sim.closed_form(prepare(data))
    assert found.ettr is None
    assert any(reason in row for row in found.reasons), found.reasons


def test_renewals_are_those_of_theory() -> None:
    """Of a rate the mean, of a fixed life whole lives, of two exponential stages the closed form of Cox (1962)."""
    assert expected_renewals(Exponential.from_seconds(mean=10.0), 35.0) == pytest.approx(3.5, rel=1e-3)
    assert expected_renewals(Fixed.from_seconds(value=10.0), 35.0) == pytest.approx(3.0, rel=0.02)
    assert expected_renewals(Fixed.from_seconds(value=10.0), 5.0) == 0.0
    two = Gamma.model_validate({"mean": "10 s", "shape": 2.0})
    wanted = 3.5 - 0.25 + math.exp(-4 * 3.5) / 4
    assert expected_renewals(two, 35.0) == pytest.approx(wanted, rel=2e-3)

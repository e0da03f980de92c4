"""Optima of the simulator, found by the search, where theory or brute force says what they are."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import sim
from analysis.metrics import job_ratios
from analysis.optimize.play import Found, optimize
from analysis.optimize.search import place
from analysis.statistics.estimates import t_quantile
from analysis.study.load import load_study
from analysis.sweep.campaign import Campaign
from analysis.sweep.journal import Journal
from analysis.sweep.workers import Crew, Serial
from sim.formulas.goodput import optimal_interval
from tests import small
from tests.pace import SEED

if TYPE_CHECKING:
    from pathlib import Path

MTTI, WRITE = 10_000.0, 500.0
INTERVAL = "checkpoint.tiers.0.interval"
SAVING: dict[str, Any] = {
    "name": "saving",
    "cluster": {"name": "one", "nodes": 1, "gpus_per_node": 1, "fabric": {"rails": 1}},
    "horizon": f"{100 * MTTI!r} s",
    "jobs": [{"name": "job", "gpus": 1}],
    "failures": [{"use": "job", "name": "failure", "law": {"law": "exponential", "mean": f"{MTTI!r} s"}}],
    "checkpoint": {"tiers": [{"interval": "1 h", "mode": "blocking", "write": f"{WRITE!r} s", "restore": "0 s"}]},
    "recovery": {"use": "hot-spare", "initialize": "0 s"},
    "detection": {"time": "0 s"},
    "repair": {"time": "200 s"},
    "seed": SEED,
}
"""Failures of a constant rate and blocking writes: what the formula of the best interval assumes."""


def found_in(folder: Path, scenario: dict[str, Any], study: dict[str, Any]) -> Found:
    """Return what an optimisation of simulations finds."""
    (folder / "scenario.yaml").write_text(sim.dump(scenario))
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({"name": "study", "scenario": "scenario.yaml", **study}, sort_keys=False))
    with Journal(folder / "journal") as journal:
        return optimize(Campaign(load_study(path), journal, Crew(Serial())))


def best_interval(folder: Path, replications: int) -> Found:
    """Return the search for the best interval between 2 minutes and 8 hours."""
    study = {
        "vary": {INTERVAL: {"range": {"min": "2 min", "max": "8 h", "points": 7, "scale": "log"}}},
        "replications": replications,
        "optimize": {"maximize": "ettr", "confirm": 16},
    }
    return found_in(folder, SAVING, study)


@pytest.mark.parametrize("replications", [12, pytest.param(60, marks=pytest.mark.nightly)])
def test_the_best_interval_is_that_of_theory(tmp_path: Path, replications: int) -> None:
    """The top is within 3 of its standard errors, a tenth at most; with twice the write it would be 3 away at least.

    The closed form's answer, searched for in the same way, is the exact optimum to 2 %.
    """
    found = best_interval(tmp_path, replications)
    theory = optimal_interval(WRITE, MTTI)
    assert found.top is not None
    low, high = (math.log(end) for end in found.top.ci95)
    error = (high - low) / 2 / t_quantile(0.95, replications - 1)
    assert error < 0.1
    assert abs(math.log(found.top.number / theory)) <= 3 * error
    assert abs(math.log(found.top.number / optimal_interval(2 * WRITE, MTTI))) > 3 * error
    assert found.formula is not None
    assert found.formula.chosen[0].number == pytest.approx(theory, rel=0.02)


def test_the_fewest_nodes_that_finish_in_time_are_those_of_brute_force(tmp_path: Path) -> None:
    """Of 14 to 24 nodes for a job of 14: the first from which on 80 % of the same replications finish."""
    scenario = small.SMALL | {
        "horizon": "4 d",
        "jobs": [{"name": "train", "gpus": 112, "step_time": "10 s", "work": {"time": "30 h"}, "deadline": "46 h"}],
        "spares": {"hot": 0},
        "repair": {"time": "12 h"},
        "seed": SEED,
    }
    nodes = range(14, 25)
    study = {
        "vary": {"cluster.nodes": {"range": {"min": nodes[0], "max": nodes[-1], "step": 1}}},
        "replications": 20,
        "optimize": {"minimize": "cluster.nodes", "subject_to": ["p_finish_by >= 80 %"], "confirm": 16},
    }
    found = found_in(tmp_path, scenario, study)
    shares = [finished(scenario, number, 20) for number in nodes]
    enough = [share >= 0.8 for share in shares]
    first = len(enough) - len(list(itertools.takewhile(bool, reversed(enough))))
    assert 0 < first < len(nodes)
    assert found.edge is not None
    assert found.edge.answer is not None
    assert place(found.edge.answer) == nodes[first]
    by_nodes = {place(trial): trial.bounded[0].mean for trial in found.bench.candidates}
    assert all(by_nodes[number] == pytest.approx(shares[nodes.index(int(number))]) for number in by_nodes)


def finished(scenario: dict[str, Any], nodes: int, replications: int) -> float:
    """Return the share of replications in which the job was done by its deadline, without any of the machinery."""
    ready = sim.prepare(sim.parse(scenario | {"cluster": scenario["cluster"] | {"nodes": nodes}}))
    done = [
        job_ratios(ready.jobs[0], sim.run(ready, number).jobs[0], [False])["p_finish_by"].amount
        for number in range(replications)
    ]
    return sum(done) / replications

"""Single- and dual-homed rails: the shipped scenarios in which leaf switches die, against theory."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sim
from tests.harness import Z

RUNS = 24
YEAR = 365 * 86400.0
RATE = 0.08 / (365.25 * 86400)
"""Failures of one leaf switch [1/s]."""
OUT = 8 * 3600.0
"""How long it is out [s]."""


def shares(name: str) -> dict[str, np.ndarray]:
    """Return the share of the job's time in each bucket, (RUNS,)."""
    case = sim.prepare(sim.load(sim.find(name)))
    found = []
    for replication in range(RUNS):
        job = sim.run(case, replication).jobs[0]
        found.append(job.totals.sum(axis=(0, 2)) / job.requested)
    table = np.array(found)
    return {bucket: table[:, index] for index, bucket in enumerate(sim.JOB_BUCKETS)}


@pytest.fixture(scope="module")
def single() -> dict[str, np.ndarray]:
    """One cable to one switch."""
    return shares("leaf-single-homed")


@pytest.fixture(scope="module")
def dual() -> dict[str, np.ndarray]:
    """Two cables to two switches."""
    return shares("leaf-dual-homed")


def any_out(switches: int) -> tuple[float, float]:
    """Return mean and standard deviation of the share of a year in which at least one switch is out [-].

    Failures come as a Poisson process and each lasts the same time, so the number that is out is Poisson (Palm;
    M/D/infinity). Outages hardly overlap, so the time with any is nearly the number of failures times their length,
    which gives the spread.
    """
    failures = switches * RATE * YEAR
    return 1 - math.exp(-switches * RATE * OUT), math.sqrt(failures) * OUT / YEAR


def test_a_dead_leaf_switch_starves_a_job_of_single_homed_nodes(single: dict[str, np.ndarray]) -> None:
    """128 nodes are gone and 32 are left: the job waits until the switch is back, detection and restart aside."""
    expected, spread = any_out(120)
    waits = single["starved"] + single["detection"]
    assert abs(waits.mean() - expected) < Z * spread / math.sqrt(RUNS)
    assert single["degraded"].max() == 0


def test_a_dead_leaf_switch_slows_a_job_of_dual_homed_nodes(dual: dict[str, np.ndarray]) -> None:
    """Half the bandwidth for a tenth of the step: it takes 1.1 times as long; nothing waits, nothing restarts."""
    expected, spread = any_out(240)
    loss = 1 - 1 / 1.1
    assert abs(dual["degraded"].mean() - expected * loss) < Z * spread * loss / math.sqrt(RUNS)
    assert dual["starved"].max() == dual["lost_work"].max() == 0


def test_the_second_home_pays(single: dict[str, np.ndarray], dual: dict[str, np.ndarray]) -> None:
    """Goodput differs by what the formulas say: about 0.7 points a year."""
    gain = dual["productive"] - single["productive"]
    assert gain.mean() > Z * gain.std(ddof=1) / math.sqrt(RUNS)
    expected = any_out(120)[0] - any_out(240)[0] * (1 - 1 / 1.1)
    # Restarts and lost work of the single-homed job come on top: some 20 minutes of each of its 9.6 incidents.
    restarts = 120 * RATE * 20 * 60
    assert abs(gain.mean() - expected - restarts) < Z * gain.std(ddof=1) / math.sqrt(RUNS) + restarts / 2

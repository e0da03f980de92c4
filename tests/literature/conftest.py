"""Simulations that several files of published results look at."""

from __future__ import annotations

import pytest

import sim
from tests.literature.acceptance import fault_cluster
from tests.pace import SEED

TRACES = 60


@pytest.fixture(scope="session")
def infinitehbd_runs() -> list[sim.Result]:
    """Return simulated traces of 400 nodes and 348 days from the catalog's model of InfiniteHBD."""
    case = fault_cluster([{"use": "infinitehbd", "keeps_repair": True}], seed=SEED)
    return [sim.run(case, number, keeps_log=True) for number in range(TRACES)]

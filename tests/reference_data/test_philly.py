"""The laws of fleet-philly are those of the public trace: rates, medians and means of run times by size.

Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC 2019; jobs of at
least 20 min as in github stanford-futuredata/gavel, nodes of the virtual clusters as in github
S-Lab-System-Group/HeliosArtifact.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim.input.job_trace import JobTraceTable, read_jobs
from ettrick.sim.scenario.laws import Lognormal
from ettrick.sim.scenario.streams import Generated, JobTrace

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "fleet"

SIZES = {"one": (1, 1), "few": (2, 4), "node": (8, 8), "gang": (9, 64)}

DAY = 86400.0

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="skipped: reference data not present")


@pytest.fixture(scope="module")
def jobs() -> JobTraceTable:
    """Return the jobs of the trace."""
    columns = {"submit": "submit_s", "run": "duration_s", "tenant": "vc"}
    file = str(FOLDER / "philly_vc_jobs.csv")
    return read_jobs(JobTrace.model_validate({"name": "philly", "file": file, "columns": columns}))


def sized() -> dict[str, int]:
    """Return the nodes of the virtual clusters whose size is known."""
    with (FOLDER / "philly_vc_nodes.csv").open(encoding="utf-8") as file:
        return {row["vc"]: int(row["nodes"]) for row in csv.DictReader(file)}


def test_the_laws_are_fitted_to_the_trace(jobs: JobTraceTable) -> None:
    """Each stream has the rate of its sizes, the median and the mean of their run times, and their frequencies."""
    nodes = sized()
    vc = np.array(jobs.tenants)[jobs.tenant]
    known = np.isin(vc, list(nodes))
    # The clocks of the virtual clusters are not aligned, and some are cut: each has a time of its own.
    lasts = {name: jobs.submit[vc == name].max() for name in nodes}
    per_day = DAY / np.array([lasts.get(name, math.inf) for name in vc])
    scenario = sim.load(sim.find("fleet-philly"))
    assert int(known.sum()) == 15_230
    assert sum(nodes.values()) == 352
    for stream in scenario.streams:
        assert isinstance(stream, Generated)
        least, most = SIZES[stream.name]
        mine = known & (jobs.gpus >= least) & (jobs.gpus <= most)
        run, law = jobs.run[mine], stream.work
        assert isinstance(law, Lognormal)
        assert law.median == pytest.approx(np.median(run), rel=1e-3)
        assert law.mean_value == pytest.approx(run.mean(), rel=5e-3)
        assert law.sigma == pytest.approx(math.sqrt(2 * math.log(run.mean() / np.median(run))), abs=1e-3)
        assert stream.arrivals.rate * DAY == pytest.approx(per_day[mine].sum(), rel=1e-3)  # type: ignore[union-attr]
        if isinstance(stream.gpus, dict):
            counts = Counter(1 << round(math.log2(size)) if size not in (24,) else 24 for size in jobs.gpus[mine])
            shares = {int(size): weight for size, weight in stream.gpus.items()}
            assert counts.keys() == shares.keys()
            for size, count in counts.items():
                assert shares[size] == pytest.approx(count / mine.sum(), abs=3e-3)


def test_the_offered_load_is_that_of_the_trace(jobs: JobTraceTable) -> None:
    """The streams offer what the virtual clusters did, within the jobs of odd sizes that were left out."""
    nodes = sized()
    vc = np.array(jobs.tenants)[jobs.tenant]
    busy = sum(float((jobs.gpus * jobs.run)[vc == name].sum() / jobs.submit[vc == name].max()) for name in nodes)
    prepared = sim.prepare(sim.load(sim.find("fleet-philly")))
    assert sum(stream.rate * stream.mean_work for stream in prepared.streams) == pytest.approx(busy, rel=0.03)

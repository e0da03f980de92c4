"""Two accounts of the same nodes, what a job did and what its nodes were doing; what keeping checkpoints is worth."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim.policies.contracts import Bucket
from tests.harness import check_books, play, prepared, trace
from tests.pace import SEED, sample
from tests.typed import present

ON_ALL_NODES = (
    Bucket.PRODUCTIVE,
    Bucket.DEGRADED,
    Bucket.CHECKPOINT_STALL,
    Bucket.LOST_WORK,
    Bucket.INITIALIZE,
    Bucket.RESTORE,
    Bucket.AUXILIARY,
)

"""What a rigid job does with all of its nodes or not at all."""

HORIZON = 6000.0


def planned_case(generator: np.random.Generator) -> tuple[sim.Prepared, list[tuple[float, ...]]]:
    """Draw a job of all nodes but a spare or none, planned work, and failures with and without signs."""
    nodes, spares = int(generator.integers(2, 5)), int(generator.integers(0, 2))
    starts = np.sort(generator.uniform(50, HORIZON, size=4)).tolist()
    windows = [
        {"start": f"{start:.3f} s", "duration": f"{generator.uniform(5, 400):.3f} s", "first": index % nodes}
        for index, start in enumerate(starts)
    ]
    care: dict[str, Any] = {"use": "maintenance", "name": "care", "windows": windows}
    if generator.random() < 0.5:
        care["notice"] = f"{generator.uniform(0, 60):.3f} s"
    cause = {"use": "component", "part": "node", "law": {"use": "exponential", "mean": "1000 d"}, "renews": "never"}
    tier = {"interval": f"{generator.uniform(50, 500):.3f} s", "restore": "20 s", "write": "35.7 s"}
    tier |= {"mode": "async", "stall": "2.5 s"} if generator.random() < 0.5 else {"mode": "blocking"}
    rollout = {"use": "rollout", "name": "driver", "start": f"{generator.uniform(0, HORIZON):.3f} s"}
    rollout |= {"nodes_per_day": 300.0, "duration": "120 s"}
    case = prepared(
        cluster={"nodes": nodes + spares, "gpus_per_node": 1, "fabric": {"rails": 1}},
        jobs=[{"name": "job", "gpus": nodes}],
        failures=[care, {**cause, "name": "crash"}, *([rollout] if generator.random() < 0.5 else [])],
        health={"prediction": {"recall": 0.5, "precision": 1.0, "lead": f"{generator.uniform(0, 90):.3f} s"}},
        checkpoint={"tiers": [tier]},
        detection={"time": f"{generator.uniform(0, 60):.3f} s"},
        horizon=f"{HORIZON} s",
    )
    known = sim.trace(case, 0)
    rows = [tuple(row) for row in zip(known.time, known.source, known.slot, known.until, strict=True)]
    times = generator.uniform(0, HORIZON, size=int(generator.integers(0, 12))).tolist()
    return case, [*rows, *((time, 1, int(generator.integers(nodes + spares))) for time in times)]


@pytest.mark.parametrize("number", range(sample(100)))
def test_nobody_works_on_nodes_that_are_off(number: int) -> None:
    """Bucket by bucket the cluster has what the job had, and no second of its work falls into an outage of its nodes.

    All nodes are the job's, or all but one: while so many are down that a job cannot have its nodes, it does not step.
    """
    case, rows = planned_case(np.random.default_rng((SEED, number)))
    result = sim.run(case, 0, trace(rows), keeps_log=True, keeps_timeline=True)
    (job,) = result.jobs
    for bucket in ON_ALL_NODES:
        assert result.cluster[bucket] == pytest.approx(job.buckets[bucket], abs=1e-6), bucket
    check_books(result)
    spare = case.nodes - job.gpus
    edges = sorted({0.0, HORIZON, *(time for outage in result.outages for time in (outage.start, outage.end))})
    for span in present(result.timeline).spans:
        if span.bucket not in ON_ALL_NODES:
            continue
        for start, end in itertools.pairwise(edges):
            if min(end, span.end) - max(start, span.start) > 1e-6:
                down = sum(outage.start <= start and outage.end >= end for outage in result.outages)
                assert down <= spare, (span, start, end)


@pytest.mark.parametrize("number", range(sample(60)))
def test_keeping_more_checkpoints_never_costs_goodput(number: int) -> None:
    """ETTR does not fall with `retain`, whatever is wrong for how long, and whatever crashes meanwhile."""
    generator = np.random.default_rng((SEED, 7, number))
    cause = {"use": "component", "part": "node", "law": {"use": "exponential", "mean": "1000 d"}, "renews": "never"}
    latency = {"use": "fixed", "value": f"{generator.uniform(50, 1500):.3f} s"}
    sources = [{**cause, "name": "sdc", "effect": "corrupt", "detection": latency}, {**cause, "name": "crash"}]
    rows = [(float(generator.uniform(0, HORIZON)), 0, int(generator.integers(4)))]
    rows += [(float(generator.uniform(0, HORIZON)), 1, int(generator.integers(4))) for _ in range(3)]
    shares = []
    for retain in (1, 2, 3, 5, 9, 100):
        tier = {"interval": "120 s", "mode": "blocking", "write": "7 s", "restore": "20 s", "retain": retain}
        one = prepared(failures=sources, checkpoint={"tiers": [tier]}, horizon=f"{HORIZON} s")
        shares.append(float(play(one, rows).jobs[0].buckets[Bucket.PRODUCTIVE]))
    assert all(more >= less - 1e-6 for less, more in itertools.pairwise(shares)), shares

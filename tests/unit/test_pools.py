"""Clusters of several pools of hosts: what a job or service is modelled with is what it holds, and trays are nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ettrick import sim
from ettrick.sim import catalog
from ettrick.sim.prepare.services import services_of
from ettrick.sim.scenario.fields import PathError
from tests.cases import cases
from tests.typed import present

MODEL: dict[str, Any] = {
    "model": "llama3-8b",
    "batch": {"tokens": 1_048_576, "sequence": 8192},
    "parallelism": {"tensor": 8, "data": 4},
}

SERVICE: dict[str, Any] = {
    "name": "chat",
    "model": "llama3-70b",
    "replicas": 2,
    "parallelism": {"tensor": 8},
    "slo": {"ttft": "2 s", "tpot": "100 ms"},
    "demand": {"rate": "0.1 per s", "input": {"mean": 1000}, "output": {"mean": 200}},
}

BASE: dict[str, Any] = {
    "name": "mixed",
    "horizon": "1 d",
    "failures": [],
    "detection": {"time": "0 s"},
    "checkpoint": {"tiers": [{"interval": "1 h", "mode": "blocking", "write": "1 s", "restore": "1 s"}]},
    "recovery": {"use": "hot-spare", "initialize": "1 s"},
    "repair": {"time": "1 h"},
}


def pools(*names: str, count: int = 4) -> dict[str, Any]:
    """Return a cluster of pools of a few nodes of 8 GPUs each."""
    return {"gpus_per_node": 8, "pools": [{"count": count, "accelerator": name} for name in names]}


def prepared(**changes: Any) -> sim.Prepared:
    """Return a scenario of some jobs or services, ready to run."""
    return sim.prepare(sim.parse({**BASE, **changes}))


def test_a_job_on_the_second_pool_is_modelled_with_it() -> None:
    """Behind a job that fills the first pool it has step, memory and efficiencies of a cluster of the second."""
    first, second = {"name": "first", "gpus": 32, "step_time": "1 s"}, {"name": "second", "gpus": 32, **MODEL}
    case = prepared(cluster=pools("h100", "b200"), jobs=[first, second])
    alone = prepared(cluster=pools("b200"), jobs=[second])
    plan, wanted = case.jobs[1].plan, alone.jobs[0].plan
    assert (plan.machine.chip, plan.machine.shares) == (wanted.machine.chip, wanted.machine.shares)
    assert plan.time == pytest.approx(wanted.time, rel=1e-9)
    # Its pace where it sits is 1, and that of the pool of the first job is below.
    assert case.jobs[1].pool_paces[1] == 1.0 > case.jobs[1].pool_paces[0]
    assert sim.run(case, 0).jobs[1].buckets[sim.JOB_BUCKETS.index("degraded")] == 0.0


def test_check_says_which_pool_was_given() -> None:
    """Where a job or a service may start on several, a warning names the one; a partition of one pool needs none."""
    jobs = [{"name": "first", "gpus": 32, "step_time": "1 s"}, {"name": "second", "gpus": 32, **MODEL}]
    lines = prepared(cluster=pools("h100", "b200"), jobs=jobs).warnings
    assert any("'second' may start on h100 or b200 and is given b200 (pools.1)" in line for line in lines)
    partitions = [{"name": "old", "nodes": "0-3"}, {"name": "new", "nodes": "4-7"}]
    small = {"name": "small", "arrivals": {"rate": "1 per h"}, "gpus": 8, "work": "10 min", "limit": "1 h"}
    stream = {**small, "partition": "old"}
    case = prepared(
        cluster=pools("h100", "b200"), jobs=[{**jobs[1], "partition": "new"}], partitions=partitions, streams=[stream]
    )
    assert not [line for line in case.warnings if "may start on" in line]
    plan = present(case.jobs[0].plan)
    assert plan.machine.chip == catalog.accelerators()["b200"]


@pytest.mark.usefixtures("short_replays")
def test_a_service_on_the_second_pool_is_modelled_with_it() -> None:
    """Its partition is of the second pool: it has the replica of a cluster of that pool alone."""
    partitions = [{"name": "old", "nodes": "0-3"}, {"name": "new", "nodes": "4-7"}]
    case = prepared(
        cluster=pools("h100", "h200"), services=[{**SERVICE, "partition": "new"}], partitions=partitions, jobs=[]
    )
    assert services_of(case)[0].replica.chip == catalog.accelerators()["h200"]


@pytest.mark.usefixtures("short_replays")
def test_what_is_held_is_what_is_drawn() -> None:
    """A node in training draws what those of the second pool do, where only these train."""
    jobs = [{"name": "train", "gpus": 32, "step_time": "1 s", "partition": "new"}]
    partitions = [{"name": "old", "nodes": "0-3"}, {"name": "new", "nodes": "4-7"}]
    cluster = pools("h100", "b200")
    case = prepared(cluster=cluster, jobs=[*jobs, {"name": "old", "gpus": 8, "step_time": "1 s", "partition": "old"}],
                    partitions=partitions, services=[{**SERVICE, "partition": "old"}])  # fmt: skip
    facility = present(case.upkeep.facility)
    chips = catalog.accelerators()
    # Three nodes of the first pool (one of the job, two of the service), and four of the second.
    assert facility.node.training == pytest.approx(
        (3 * present(chips["h100"].node).training + 4 * present(chips["b200"].node).training) / 7
    )


def test_trays_and_domains_follow_from_the_accelerator() -> None:
    """A minimal cluster of GB200 has nodes of 4 GPUs and domains of 72, and says so first; of H100 8, and nothing."""
    job = {"name": "train", "gpus": 144, "step_time": "1 s"}
    case = prepared(cluster={"accelerator": "gb200"}, jobs=[job])
    assert (case.counts["node"], case.counts["gpu"], case.counts["scale_up"]) == (36, 144, 2)
    assert case.warnings[0].startswith("cluster: nodes of 4 GPUs and scale-up domains of 72, swapped by trays")
    plain = prepared(cluster={"accelerator": "h100"}, jobs=[job])
    assert (plain.counts["node"], "scale_up" in plain.counts) == (18, False)
    assert not [line for line in plain.warnings if line.startswith("cluster:")]
    few = prepared(cluster={"accelerator": "gb200", "nodes": 9}, jobs=[{**job, "gpus": 36}])
    assert few.counts["scale_up"] == 1, "one rack that is not full is a domain"


@cases(
    ("cluster", "rule"),
    [
        ({"accelerator": "gb200", "nodes": 40}, "nearest numbers of nodes: 36 or 54; or state scale_up"),
        ({"accelerator": "gb200", "nodes": 40, "scale_up": {"gpus": 72}}, "nearest numbers of nodes: 36 or 54"),
    ],
)
def test_domains_that_nodes_do_not_fill(cluster: dict[str, Any], rule: str) -> None:
    """They are refused, with the nearest number of nodes."""
    with pytest.raises((PathError, sim.ScenarioError), match=rule):
        prepared(cluster=cluster, jobs=[{"name": "train", "gpus": 72, "step_time": "1 s"}])


@cases("kind", ["component", "incident"])
def test_the_whole_cluster_is_a_part(kind: str) -> None:
    """A failure of the part cluster takes all nodes; a node's job waits for the repair of an hour, once in each run."""
    cause = {"use": kind, "name": "all", "part": "cluster", "law": {"use": "fixed", "value": "10 h"}, "repair": "1 h"}
    case = prepared(cluster={"nodes": 4}, jobs=[{"name": "train", "gpus": 16}], failures=[cause])
    for engine in ("events", "compiled"):
        job = sim.run(replace(case, engine=engine), 0).jobs[0]
        assert job.buckets[sim.JOB_BUCKETS.index("starved")] == pytest.approx(16 * 2 * 3600)  # GPU-seconds

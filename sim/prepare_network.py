"""From a cluster to what the engine knows of its network and its pools of hosts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sim import catalog
from sim.catalog import steps
from sim.failures.bundle import Bundle
from sim.prepare_chip import chip_of

if TYPE_CHECKING:
    from sim.failures import Source
    from sim.footprint import Network
    from sim.job_spec import JobSpec
    from sim.perf import Accelerator, StepPlan
    from sim.scenario import Scenario
    from sim.topology import Topology

__all__ = ["fabric_warnings", "needs_network", "network_of", "planned_bandwidth", "pool_paces", "relative_capacity"]

_NETWORK = ("network", "nic", "cable", "optic", "link", "switch")
"""Words in the names of causes that are the network's."""


def needs_network(scenario: Scenario, sources: tuple[Source, ...]) -> bool:
    """Return whether it makes a difference where in the network jobs sit."""
    cluster: Any = scenario.cluster
    if any(source.of_fabric for source in sources) or len(cluster.all_pools) > 1:
        return True
    worst = min(cluster.fabric.bandwidth(cluster.hosts).values())
    return any(
        job.may_wait and worst < planned_bandwidth(cluster, job.gpus // cluster.hosts.gpus) for job in scenario.jobs
    )


def network_of(scenario: Scenario, topology: Topology, sources: tuple[Source, ...]) -> Network:
    """Return what the engine knows of the fabric; the cables only if one of its parts can fail."""
    from sim.footprint import Network

    cluster: Any = scenario.cluster
    paths = topology.paths if any(source.of_fabric for source in sources) else None
    classes = topology.domains["leaf"] if paths is None else paths.class_of_node
    pods = np.zeros(int(classes.max()) + 1, dtype=np.int32)
    pods[classes] = topology.domains["pod"]
    pools = np.repeat(np.arange(len(cluster.all_pools)), [pool.count for pool in cluster.all_pools])
    return Network(classes.tolist(), pods, pools.tolist(), dict(topology.bandwidth), paths)


def planned_bandwidth(cluster: Any, nodes: int) -> float:
    """Return what a NIC of a job gets when it sits as closely together as it can [B/s]."""
    bandwidth: dict[str, float] = cluster.fabric.bandwidth(cluster.hosts)
    domains = cluster.fabric.domains(cluster.hosts)
    for level in ("leaf", "pod"):
        if nodes <= np.bincount(domains[level]).max():
            return bandwidth[level]
    return bandwidth["cluster"]


def pool_paces(scenario: Scenario, job: JobSpec, plan: StepPlan | None = None) -> tuple[float, ...]:
    """Return the pace of a job on the nodes of each pool of hosts, relative to the first [-].

    As the model of steps says of its layout, or else as their dense peaks.

    Raises
    ------
    PathError
        If the catalog does not know one of several accelerators, or its peak at the job's precision.
    """
    cluster: Any = scenario.cluster
    pools = cluster.all_pools
    if len(pools) == 1:
        return (1.0,)
    chips = [chip_of(cluster, index, job.precision) for index in range(len(pools))]
    if plan is not None:
        return tuple(plan.time / _on(plan, chip).time for chip in chips)
    peaks = [chip.peak[job.precision] for chip in chips]
    return tuple(peak / peaks[0] for peak in peaks)


def _on(plan: StepPlan, chip: Accelerator) -> StepPlan:
    """Return a plan on another accelerator, whose groups wait for its scale-up links where those are narrower."""
    work = plan.work
    links = plan.machine.links.with_scale_up(min(1.0, chip.scale_up / plan.machine.chip.scale_up))
    shares = steps.efficiencies(chip, work.precision, experts=work.shape.experts is not None)
    return replace(plan, machine=replace(plan.machine, chip=chip, shares=shares, links=links))


def relative_capacity(scenario: Scenario) -> float:
    """Return the mean peak of the cluster's GPUs, relative to that of the first pool, at the first job's precision [-].

    Raises
    ------
    PathError
        As `pool_paces`.
    """
    cluster: Any = scenario.cluster
    paces = pool_paces(scenario, scenario.jobs[0])
    total: float = sum(pool.count * pace for pool, pace in zip(cluster.all_pools, paces, strict=True))
    return total / float(cluster.hosts.nodes)


def fabric_warnings(scenario: Scenario) -> tuple[str, ...]:
    """Return a line for a fabric that was chosen and is larger than usual, or for each bundle that leaves one out.

    The latter are bundles whose network faults strike nodes, where the cables could spare those.
    """
    cluster: Any = scenario.cluster
    if not cluster.states_fabric and cluster.fabric != type(cluster.fabric)():
        return (f"cluster.fabric is not stated: {cluster.hosts.nodes:,} nodes get a {cluster.fabric.title}",)
    if cluster.fabric.reroute == "none" and cluster.fabric.homes == 1:
        return ()
    found = []
    for index, source in enumerate(scenario.failures):
        if not isinstance(source, Bundle):
            continue
        causes = [name for name in catalog.causes(source.use) if any(word in name for word in _NETWORK)]
        if causes:
            found.append(
                f"failures.{index}: '{source.use}' counts {', '.join(causes)} as faults of nodes, which second cables "
                "and rerouting do not spare; scale them down and add sources of nic, cable_node_leaf and leaf"
            )
    return tuple(found)

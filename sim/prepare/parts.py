"""The racks or scale-up domains that jobs use as wholes."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from sim import catalog
from sim.cluster.placement import Layout
from sim.engine.state_nodes import Units
from sim.scenario.fields import PathError, RuleError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sim.cluster import ClusterSpec
    from sim.input.scenario import Scenario
    from sim.steps import Accelerator


def sized(scenario: Scenario) -> Scenario:
    """Return a scenario whose cluster has as many nodes as its jobs and spares need, where it states none.

    These are rounded up to whole scale-up domains, and to whole units where jobs use those.

    Raises
    ------
    PathError
        If such a cluster cannot be built.
    """
    cluster = scenario.cluster
    if cluster.nodes is not None or cluster.pools:
        return scenario
    unit, scale_up = scenario.spares.unit, cluster.scale_up
    per_node, each = cluster.gpus_of_a_node, max(cluster.nodes_per_domain, 1)
    needed = sum(ceil(job.gpus / per_node) for job in scenario.jobs) + scenario.spares.total
    used = each if scale_up is None or scale_up.swap_unit == "tray" else max(scale_up.used // per_node, 1)
    nodes = ceil(needed / used) * each
    try:
        found = cluster.with_nodes(nodes)
        domains = {} if unit in (None, "node") else found.build().domains
        if unit is not None and unit in domains:
            size = found.domain_nodes.get(unit) or int(np.bincount(domains[unit]).max())
            found = cluster.with_nodes(ceil(nodes / size) * size)
    except RuleError as error:
        raise PathError(("cluster", *error.at), error.rule) from None
    return scenario.model_copy(update={"cluster": found})


def surplus_nodes(scenario: Scenario, counts: Mapping[str, int], units: Units | None) -> int:
    """Return the nodes beyond those of all jobs, whenever they arrive, and spares [-]; whole units of what is whole."""
    per_node = counts["gpu"] // counts["node"]
    needed = sum(nodes for _, nodes in _amounts(scenario, per_node))
    if units is not None:
        needed = ceil(needed / units.needed) * len(units.nodes[0])
    return max(counts["node"] - needed, 0)


def whole_units(scenario: Scenario, counts: Mapping[str, int]) -> Units | None:
    """Return what jobs use as wholes, if anything; refuse jobs and spares that are not whole units.

    Raises
    ------
    PathError
        At the first amount that does not fit.
    """
    cluster = scenario.cluster
    unit = scenario.spares.unit
    scale_up = cluster.scale_up
    per_node = counts["gpu"] // counts["node"]
    whole = scale_up if scale_up is not None and scale_up.swap_unit != "tray" and cluster.nodes_per_domain > 1 else None
    if unit is None and whole is None:
        return None
    if unit not in (None, *counts):
        raise PathError(("spares", "unit"), catalog.unknown("part", str(unit), counts))
    if whole is not None:
        if unit not in (None, "scale_up"):
            rule = f"is {unit}, but the cluster's scale-up domains are swapped whole (cluster.scale_up.swap_unit)"
            raise PathError(("spares", "unit"), rule)
        nodes = _units(cluster, "scale_up")
        found = Units(nodes, whole.used // per_node, whole.drains)
        _check_amounts(scenario, found, per_node, "scale-up domain")
        return found
    assert unit is not None
    nodes = _units(cluster, unit)
    size = len(nodes[0])
    if any(len(each) != size for each in nodes):
        rule = f"{counts['node']} nodes do not fill {len(nodes)} units of {unit}; whole units are needed"
        raise PathError(("spares", "unit"), rule)
    found = Units(nodes, size)
    _check_amounts(scenario, found, per_node, unit)
    return found


def _units(cluster: ClusterSpec, unit: str) -> tuple[tuple[int, ...], ...]:
    """Return the nodes of each unit that is used whole."""
    topology = cluster.build()
    if unit == "node":
        return tuple((node,) for node in range(topology.nodes))
    members: dict[int, list[int]] = {}
    for node, domain in enumerate(topology.domains[unit].tolist() if unit in topology.domains else ()):
        members.setdefault(domain, []).append(node)
    if not members or any(nodes[-1] - nodes[0] + 1 != len(nodes) for nodes in members.values()):
        raise PathError(("spares", "unit"), f"a {unit} has no nodes for itself alone: it cannot be used whole")
    return tuple(map(tuple, members.values()))


def _amounts(scenario: Scenario, per_node: int) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Yield path and number of nodes of everything that takes nodes."""
    yield ("spares", "hot"), scenario.spares.hot
    for index, job in enumerate(scenario.jobs):
        yield ("jobs", index, "gpus"), job.gpus // per_node
    for name in ("warm", "cold"):
        standby = getattr(scenario.spares, name)
        if standby is not None:
            yield ("spares", name, "nodes"), standby.nodes


def _check_amounts(scenario: Scenario, units: Units, per_node: int, unit: str) -> None:
    """Refuse jobs, spares and replicas that are not whole units, and jobs that too few units are there for."""
    size, each = units.needed, len(units.nodes[0])
    has = f"a {unit} has {size} nodes" if size == each else f"of the {each} nodes of a {unit} a job takes {size}"
    for path, nodes in _amounts(scenario, per_node):
        if nodes % size:
            below = nodes - nodes % size
            near = [f"{count * (per_node if path[-1] == 'gpus' else 1):,}" for count in (below, below + size) if count]
            raise PathError(path, f"{nodes} nodes are not a whole number of units: {has}; nearest: {' or '.join(near)}")
    capacity = len(units.nodes) * size
    for index, job in enumerate(scenario.jobs):
        nodes = job.gpus // per_node
        if nodes + scenario.spares.total > capacity:
            rule = (
                f"needs {nodes} nodes beside {scenario.spares.total} spares, but {has}: the cluster gives {capacity} "
                "in all, so it could never start"
            )
            raise PathError(("jobs", index, "gpus"), rule)
    if getattr(scenario.recovery, "elastic", False):
        _check_replicas(scenario, per_node, size)


def _check_replicas(scenario: Scenario, per_node: int, size: int) -> None:
    """Refuse replicas that share a unit where one may leave without the other."""
    for index, job in enumerate(scenario.jobs):
        if job.parallelism is None or job.gpus % per_node:
            continue  # for others to refuse
        groups = Layout(job.parallelism, per_node).group_of_host.reshape(-1, size)
        if (groups != groups[:, :1]).any():
            rule = (
                f"replicas of {job.gpus // per_node / job.parallelism.data:g} nodes share units of {size}, and with "
                f"recovery '{scenario.recovery.use}' they leave one by one; make replicas whole units, and neighbours "
                "in rank (order)"
            )
            raise PathError(("jobs", index, "parallelism"), rule)


# ----------------------------------------
# From a cluster to its accelerators.


def chip_of(cluster: ClusterSpec, pool: int, precision: str, job: int | None = None) -> Accelerator:
    """Return the accelerator of a pool of hosts, which has to have a peak at a precision.

    Without it the job's precision is to blame if a job is named, else the pool's accelerator.

    Raises
    ------
    PathError
        If the catalog does not have it, or it does not have the precision.
    """
    accelerator = cluster.all_pools[pool].accelerator
    name = accelerator if isinstance(accelerator, str) else accelerator.like
    parts = catalog.accelerators()
    path: tuple[str | int, ...] = ("cluster", *(("pools", pool) if cluster.pools else ()), "accelerator")
    if name not in parts:
        at = path if isinstance(accelerator, str) else (*path, "like")
        raise PathError(at, catalog.unknown("accelerator", name, parts))
    chip = _resolved(accelerator)
    assert chip is not None, "the catalog has it"
    if precision not in chip.peak:
        rule = f"the catalog has no {precision} peak of {name} (it has {', '.join(chip.peak)})"
        raise PathError(path if job is None else ("jobs", job, "precision"), rule)
    return chip


def known_chips(cluster: ClusterSpec) -> list[Accelerator] | None:
    """Return the accelerator of each pool of hosts; ``None`` if the catalog does not have all of them."""
    found = [_resolved(pool.accelerator) for pool in cluster.all_pools]
    return None if None in found else [chip for chip in found if chip is not None]


def _resolved(accelerator: Any) -> Accelerator | None:
    """Return an accelerator by name or description, if the catalog has it or what it is like."""
    parts = catalog.accelerators()
    if isinstance(accelerator, str):
        return parts.get(accelerator)
    base = parts.get(accelerator.like)
    return accelerator.changed(base) if base is not None else None

"""The parts of a cluster, their blast radius, and the places of jobs in it, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick.sim import FABRIC_PARTS, placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ettrick.sim import ClusterSpec, Scenario, Topology

_TIERS = ("node_leaf", "leaf_spine", "spine_core")


def describe(cluster: ClusterSpec) -> dict[str, Any]:
    """Return what there is to say about a cluster, ready for JSON.

    Returns
    -------
    dict
        Counts [-], bandwidths [B/s], shares [-], by name; ``when_one_fails`` has a row for each part class.
    """
    topology = cluster.build()
    fabric, counts = cluster.fabric, dict(topology.counts)
    pools = [
        {"nodes": pool.count, "gpus": pool.count * topology.gpus_per_node, "accelerator": str(pool.accelerator)}
        for pool in cluster.all_pools
    ]
    return {
        "name": topology.name,
        "gpus": counts["gpu"],
        "nodes": topology.nodes,
        "gpus_per_node": topology.gpus_per_node,
        "pools": pools,
        "fabric": {
            "use": fabric.use,
            "rails": topology.rails,
            "nic_bytes_per_s": fabric.nic,
            "cables_per_nic": fabric.homes,
            "reroute": fabric.reroute,
            "optical_tiers": [_TIERS[tier] for tier in topology.optical],
        },
        "scale_up": cluster.scale_up.model_dump() if cluster.scale_up is not None else None,
        "counts": counts,
        "domains": {name: _sizes(ids) for name, ids in topology.domains.items()},
        "bandwidth": {
            reach: {"bytes_per_s": rate, "of_nic": rate / fabric.nic} for reach, rate in topology.bandwidth.items()
        },
        "when_one_fails": {row.part: _failure(topology, row) for row in blasts(topology)},
    }


class BlastRadiusRow(NamedTuple):
    """The blast radius of a part alone: the class of part, how many there are, fewest and most nodes."""

    part: str
    units: int
    least: int
    most: int


def blasts(topology: Topology) -> list[BlastRadiusRow]:
    """Return what one failure of each class of parts takes."""
    sizes = {part: np.diff(topology.members(part).offsets) for part, units in topology.counts.items() if units}
    return [BlastRadiusRow(part, len(row), int(row.min()), int(row.max())) for part, row in sizes.items()]


def _sizes(ids: Any) -> dict[str, int]:
    """Return how many domains there are, and the fewest and most nodes of one."""
    sizes = np.bincount(ids)
    return {"count": int(sizes.size), "nodes_min": int(sizes.min()), "nodes_max": int(sizes.max())}


def _failure(topology: Topology, row: BlastRadiusRow) -> dict[str, Any]:
    """Return what one failure of a unit of a part class does, alone: from the unit that does least to the worst."""
    # Where no node is left there is no bandwidth to speak of.
    left = None
    if row.least < topology.nodes:
        left = float(topology.paths.left(row.part).min()) if row.part in FABRIC_PARTS else 1.0
    return {
        "units": row.units,
        "nodes_crashed_min": row.least,
        "nodes_crashed_max": row.most,
        "bandwidth_left_min": left,
    }


# Where each job of a scenario sits in the empty cluster.


def parts_named(texts: Sequence[str]) -> list[tuple[str, int]]:
    """Return part class and number of each unit that is named as ``spine:3``."""
    parts = []
    for text in texts:
        part, colon, unit = text.partition(":")
        if not (colon and unit.isdecimal()):
            raise ValueError(f"{text}: must be a part and a number, such as spine:3")
        parts.append((part, int(unit)))
    return parts


def describe_jobs(scenario: Scenario, failed: Sequence[tuple[str, int]] = ()) -> dict[str, Any]:
    """Return how far the groups of each job reach, what they get, and what a lost node takes, ready for JSON.

    `failed` are parts of the fabric that are out: part class and number of the unit.

    Returns
    -------
    dict
        By name of the job; jobs without a layout have ``None``. Bandwidths are of one GPU and direction [B/s].
    """
    return {job.name: _describe(scenario, index, failed) for index, job in enumerate(scenario.jobs)}


def _describe(scenario: Scenario, index: int, failed: Sequence[tuple[str, int]]) -> dict[str, Any] | None:
    place, layout = placement(scenario, index, failed), scenario.jobs[index].parallelism
    if place is None or layout is None:
        return None
    groups = {
        kind: {
            "size": span.size,
            "groups": span.groups,
            "reaches": span.level,
            "ranks_per_domain": span.per_domain,
            "bytes_per_s": place.bandwidth.get(kind),
        }
        for kind, span in place.spans.items()
    }
    lost = {name: list(numbers) for name, numbers in place.loss._asdict().items() if numbers}
    return {
        "gpus": layout.gpus,
        "order": list(layout.order),
        "groups": groups,
        "first_node_takes": lost,
        "nodes_cut_off": place.cut_off,
        "nodes_a_domain_can_lose": place.mates,
        "gpus_stranded_then": place.stranded,
    }

"""The placement of ranks: groups of ranks, the bandwidth of each kind of group, and the effect of a lost host."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from ettrick.sim.steps.workload import ORDER, coordinate_sizes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from ettrick.sim.scenario.model import Parallelism
    from ettrick.sim.steps.workload import GroupKind

Level: TypeAlias = Literal["scale_up", "leaf", "pod", "cluster"]
_DOMAINS: tuple[Level, ...] = ("scale_up", "leaf", "pod")
_LEVELS: tuple[Level, ...] = (*_DOMAINS, "cluster")


@dataclass(frozen=True)
class RankLayout:
    """Ranks of a job, and the hosts that they sit on: rank r is on host ``r // gpus_per_node``.

    A rank has five coordinates: tensor, context, expert', data' and pipeline, the first of ``parallelism.order`` being
    the one that varies fastest. expert' × data' is the number of replicas: experts are spread over expert' replicas,
    and over all GPUs of a context group, or of those of a tensor group too, where their number does not divide that of
    the replicas.

    Raises
    ------
    ValueError
        If the ranks do not fill whole hosts.
    """

    parallelism: Parallelism
    gpus_per_node: int

    def __post_init__(self) -> None:
        """Refuse a host that would be filled in part."""
        gpus, per_node = self.parallelism.gpus, self.gpus_per_node
        if gpus % per_node:
            near = " or ".join(str(hosts * per_node) for hosts in (gpus // per_node, gpus // per_node + 1) if hosts)
            raise ValueError(f"{gpus} GPUs are not a whole number of nodes of {per_node}; nearest: {near}")

    @property
    def hosts(self) -> int:
        """Number of hosts [-]."""
        return self.parallelism.gpus // self.gpus_per_node

    @cached_property
    def sizes(self) -> dict[GroupKind, int]:
        """Number of values of each coordinate, slowest first [-]."""
        shape = self.parallelism
        sizes = coordinate_sizes(
            shape.tensor, shape.context, shape.pipeline, shape.data, shape.expert, shape.expert_tensor
        )
        return {kind: sizes[kind] for kind in reversed(shape.order)}

    def joined(self, kind: GroupKind) -> tuple[GroupKind, ...]:
        """Return the coordinates in which the ranks of one group of a kind differ."""
        if kind == "data":
            return ("expert", "data")
        return self.parallelism.expert_covers if kind == "expert" else (kind,)

    def size(self, kind: GroupKind) -> int:
        """Return how many ranks a group of a kind has [-]."""
        return prod(self.sizes[name] for name in self.joined(kind))

    def coordinates(self, ranks: NDArray[np.int64]) -> dict[GroupKind, NDArray[np.int64]]:
        """Return the five coordinates of ranks, each of their shape [-]."""
        return dict(zip(self.sizes, np.unravel_index(ranks, tuple(self.sizes.values())), strict=True))

    def group(self, kind: GroupKind, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the group of a kind that each of some ranks is in; groups are numbered by their first ranks [-]."""
        return self._number(ranks, set(ORDER).difference(self.joined(kind)))

    def members(self, kind: GroupKind) -> NDArray[np.int64]:
        """Return the ranks of each group of a kind, ascending, (groups, size) [-]."""
        axes = sorted(range(len(ORDER)), key=lambda axis: list(self.sizes)[axis] in self.joined(kind))
        ranks = np.arange(self.parallelism.gpus, dtype=np.int64).reshape(tuple(self.sizes.values()))
        return ranks.transpose(axes).reshape(-1, self.size(kind))

    def _number(self, ranks: NDArray[np.int64], names: Collection[GroupKind]) -> NDArray[np.int64]:
        """Return one number for the values of some coordinates together, in the order of ranks."""
        number = np.zeros_like(ranks)
        for name, values in self.coordinates(ranks).items():
            if name in names:
                number = number * self.sizes[name] + values
        return number

    @cached_property
    def replica_of_rank(self) -> NDArray[np.int64]:
        """The replica of each rank, (gpus,); replicas are numbered by their first ranks [-]."""
        return self._number(np.arange(self.parallelism.gpus, dtype=np.int64), self.joined("data"))

    @cached_property
    def shared(self) -> int:
        """Replicas that the host with the most of them holds a part of [-]."""
        rows = np.sort(self.replica_of_rank.reshape(-1, self.gpus_per_node), axis=1)
        return 1 + int((rows[:, 1:] != rows[:, :-1]).sum(axis=1).max(initial=0))

    @cached_property
    def group_of_host(self) -> NDArray[np.int32]:
        """The failure group of each host, (hosts,); groups are numbered by their first hosts [-].

        Hosts that hold parts of one replica leave together, and so do the replicas that share a host. All failure
        groups have the same number of hosts.
        """
        rows = self.replica_of_rank.reshape(-1, self.gpus_per_node)
        label = np.arange(self.parallelism.data, dtype=np.int64)
        while True:
            lower = label.copy()
            np.minimum.at(lower, rows, label[rows].min(axis=1, keepdims=True))
            # A label is a replica of the same failure group, so that its own label may be taken: paths halve.
            lower = lower[lower]
            if np.array_equal(lower, label):
                break
            label = lower
        groups = np.unique(label[rows[:, 0]], return_inverse=True)[1].astype(np.int32)
        groups.setflags(write=False)
        sizes = np.bincount(groups)
        assert (sizes == sizes[0]).all(), "a layout looks the same from each replica"
        return groups

    @property
    def failure_groups(self) -> int:
        """Number of sets of replicas of which each can leave alone [-]."""
        return int(self.group_of_host.max()) + 1

    @cached_property
    def stage_of_host(self) -> NDArray[np.int64]:
        """The first pipeline stage that each host holds ranks of, (hosts,) [-]."""
        ranks = np.arange(self.parallelism.gpus, dtype=np.int64)
        stages: NDArray[np.int64] = self.coordinates(ranks)["pipeline"].reshape(-1, self.gpus_per_node).min(axis=1)
        return stages


def positions(layout: RankLayout, *, by_stage: bool = False) -> NDArray[np.int64]:
    """Return the position of each host in its job, (hosts,): failure groups one after another, or their stages [-]."""
    positions = np.empty(layout.hosts, dtype=np.int64)
    keys = (layout.stage_of_host, layout.group_of_host) if by_stage else (layout.group_of_host,)
    positions[np.lexsort(keys)] = np.arange(layout.hosts)
    return positions


class GroupLocality(NamedTuple):
    """The locality of the groups of one kind.

    Attributes
    ----------
    kind : str
        Which kind.
    size, groups : int
        Ranks of each group, and number of groups [-].
    level : str
        What holds the group that reaches farthest: its scale-up domain, its leaf switches, its pod or the cluster.
    per_domain : int
        Ranks of a group in one scale-up domain: the fewest, where groups are cut unevenly [-].
    domains : int
        Scale-up domains that a group has ranks in, at most [-].
    domain_gpus : int
        GPUs of the largest scale-up domain of the cluster [-].
    leaves, pods : int
        Sets of leaf switches, and pods, that a group has ranks in, at most [-]; as many as ranks if unknown.
    """

    kind: GroupKind
    size: int
    groups: int
    level: Level
    per_domain: int
    domains: int
    domain_gpus: int
    leaves: int = sys.maxsize
    pods: int = sys.maxsize

    def network(self, level_bandwidth: Mapping[str, float]) -> float:
        """Return what one rank gets through a NIC to the next one of its group [B/s].

        Where a NIC gets less between leaf switches or pods when all send at once, fewer do: of n ranks of a group in
        one of them only one has its neighbour outside, and gets n times as much. Tokens for experts go to all ranks:
        there n is 1.
        """
        bandwidth = level_bandwidth["leaf"]
        for level, count in (("pod", self.leaves), ("cluster", self.pods)):
            if _LEVELS.index(self.level) >= _LEVELS.index(level):
                ranks = 1.0 if self.kind == "expert" else max(1.0, self.size / count)
                bandwidth = min(bandwidth, ranks * level_bandwidth[level])
        return bandwidth


def spans(
    layout: RankLayout, domains: Mapping[str, NDArray[np.int32]], nodes: NDArray[np.integer]
) -> dict[GroupKind, GroupLocality]:
    """Return how far the groups of each kind reach; kinds whose groups are single ranks are left out.

    Parameters
    ----------
    domains : mapping of str to (nodes,) int32
        Domain of each node of the cluster: scale_up, leaf and pod.
    nodes : (hosts,) int
        Node of each host, in the order of ranks.
    """
    assert nodes.shape == (layout.hosts,), "one node per host"
    of_rank = {name: np.repeat(domains[name][nodes], layout.gpus_per_node) for name in _DOMAINS}
    largest = int(np.bincount(domains["scale_up"]).max()) * layout.gpus_per_node
    localities = {}
    for kind in ORDER:
        if layout.size(kind) > 1:
            ranks = layout.members(kind)
            level = _level([of_rank[name][ranks] for name in _DOMAINS])
            fewest, most = _cut(of_rank["scale_up"][ranks])
            leaves, pods = (_cut(of_rank[name][ranks])[1] for name in ("leaf", "pod"))
            size = layout.size(kind)
            localities[kind] = GroupLocality(kind, size, len(ranks), level, fewest, most, largest, leaves, pods)
    return localities


def _level(ids: list[NDArray[np.int32]]) -> Level:
    """Return the narrowest level that holds the group that reaches farthest; `ids` are (groups, size) per level."""
    open_groups = np.ones(len(ids[0]), dtype=np.bool_)
    for name, members in zip(_DOMAINS, ids, strict=True):
        open_groups &= (members != members[:, :1]).any(axis=1)
        if not open_groups.any():
            return name
    return "cluster"


def _cut(ids: NDArray[np.int32]) -> tuple[int, int]:
    """Return the fewest ranks of a group (a row) in one domain, and the most domains of a group."""
    rows = np.sort(ids, axis=1)
    begins = np.diff(rows, axis=1, prepend=rows[:, :1] - 1) != 0
    fewest = np.diff(np.flatnonzero(begins), append=rows.size).min()
    return int(fewest), int(begins.sum(axis=1).max())


def bandwidths(
    spans: Mapping[GroupKind, GroupLocality],
    level_bandwidth: Mapping[str, float],
    scale_up: float,
    nics_per_gpu: float,
    left: Mapping[str, float] = MappingProxyType({}),
) -> dict[GroupKind, float]:
    r"""Return what one GPU gets for the traffic of each kind of group [B/s].

    Inside a scale-up domain :math:`B = W`; else, with :math:`X` what the GPU's share of NICs gets to the next rank of
    the group and :math:`g` the ranks of a group in one domain,

    .. math:: B = \min(W, g X)

    for tensor, expert and data groups: of what a domain sends, each of its g ranks takes a g-th through its own NICs.
    That is exact for a hierarchical all-reduce, reduce-scatter or all-gather of large messages, and an upper bound for
    the all-to-all of experts. Neighbours in a ring (context) or a pipeline meet through one rank: there g is 1.

    Parameters
    ----------
    level_bandwidth : mapping of str to float
        What one NIC gets when all send at once: leaf, pod and cluster [B/s].
    scale_up : float
        W, of one GPU and direction [B/s].
    nics_per_gpu : float
        NICs of a node over its GPUs [-].
    left : mapping of str to float
        Share that failures leave at each level [-]; 1 where it is not said.
    """
    per_gpu = dict.fromkeys(spans, scale_up)
    for kind, span in spans.items():
        if span.level != "scale_up":
            ranks = 1 if kind in ("context", "pipeline") else span.per_domain
            through = span.network(level_bandwidth) * left.get(span.level, 1.0)
            per_gpu[kind] = min(scale_up, ranks * nics_per_gpu * through)
    return per_gpu


def cost_of_crossing(span: GroupLocality, scale_up: float, nic: float) -> str | None:
    """Return in one line what it costs that groups are cut; None if none is, or if the NICs are as fast.

    A GPU gets `scale_up` inside its domain, and `nic` through its share of NICs at the span's level [B/s].
    """
    if span.level == "scale_up" or nic >= scale_up:
        return None
    assert nic > 0, "the cost is that of a healthy fabric"
    return (
        f"{span.kind} groups of {span.size} span {span.domains} scale-up domains of {span.domain_gpus} GPUs: the "
        f"traffic between them gets {nic / 1e9:,.4g} GB/s a GPU instead of {scale_up / 1e9:,.4g} GB/s, "
        f"{scale_up / nic:.1f} times less"
    )


class HostLoss(NamedTuple):
    """Replicas and groups that lose a rank with a host, ascending; none of kinds whose groups are single ranks."""

    replicas: tuple[int, ...]
    tensor_groups: tuple[int, ...]
    context_groups: tuple[int, ...]
    expert_groups: tuple[int, ...]
    data_groups: tuple[int, ...]
    pipeline_groups: tuple[int, ...]


def loss_of_host(layout: RankLayout, host: int) -> HostLoss:
    """Return what a job loses a part of with one of its hosts."""
    assert 0 <= host < layout.hosts, "a host of the job"
    ranks = np.arange(host * layout.gpus_per_node, (host + 1) * layout.gpus_per_node, dtype=np.int64)
    groups = [layout.group(kind, ranks) if layout.size(kind) > 1 else ranks[:0] for kind in ORDER]
    # `numpy.unique` would import masked arrays.
    return HostLoss(*(tuple(sorted({*row.tolist()})) for row in (layout.replica_of_rank[ranks], *groups)))


def stranded_gpus(lost_gpus: NDArray[np.integer], gpus: int, use: int) -> int:
    """Count the healthy GPUs of scale-up domains of which too few are left [-].

    `lost_gpus` are the failed GPUs of each domain, (domains,); a job needs `use` of the `gpus` of a domain.
    """
    healthy = gpus - lost_gpus
    return int(healthy[healthy < use].sum())

"""Placement of ranks against a walk over all of them in plain Python, for layouts of any order."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sim.cluster.placement import Layout, loss_of_host, positions, spans, stranded_gpus
from sim.scenario.model import Parallelism
from tests.property.common import examples

KINDS = ("tensor", "context", "expert", "data", "pipeline")
LEVELS = ("scale_up", "leaf", "pod")

Group = tuple[int, ...]


class Walk(NamedTuple):
    """What a walk over all ranks finds: replicas in the order in which they are met, and groups of each kind."""

    replica: list[int]
    groups: dict[str, list[Group]]


def walk(shape: Parallelism) -> Walk:
    """Walk over all ranks, the last kind of the order in the outermost loop."""
    expert = shape.expert
    wide = shape.data % expert != 0
    if wide:
        expert //= shape.context
    sizes = {**shape.model_dump(include={"tensor", "context", "pipeline"}), "expert": expert}
    sizes["data"] = shape.data // expert
    slowest_first = shape.order[::-1]
    met: dict[tuple[int, int], int] = {}
    replica = []
    rows: dict[str, dict[Group, list[int]]] = {kind: {} for kind in KINDS}
    for rank, values in enumerate(itertools.product(*(range(sizes[kind]) for kind in slowest_first))):
        at = dict(zip(slowest_first, values, strict=True))
        replica.append(met.setdefault((at["expert"], at["data"]), len(met)))
        for kind in KINDS:
            same = set(KINDS) - {kind}
            same -= {"expert"} if kind == "data" else {"context"} if kind == "expert" and wide else set()
            rows[kind].setdefault(tuple(at[name] for name in sorted(same)), []).append(rank)
    return Walk(replica, {kind: [tuple(ranks) for ranks in found.values()] for kind, found in rows.items()})


def failure_groups(replica: list[int], each: int) -> list[set[int]]:
    """Return sets of hosts that leave together, by merging sets until nothing is shared."""
    merged: list[tuple[set[int], set[int]]] = []
    for host in range(len(replica) // each):
        hosts, replicas = {host}, set(replica[host * each : (host + 1) * each])
        for other in [one for one in merged if one[1] & replicas]:
            merged.remove(other)
            hosts |= other[0]
            replicas |= other[1]
        merged.append((hosts, replicas))
    return sorted((hosts for hosts, _ in merged), key=min)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Draw a small layout, with hosts that its ranks fill."""
    data, context = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    parts = [part for part in range(1, data + 1) if data % part == 0]
    shape = Parallelism.model_validate(
        {
            "tensor": draw(st.integers(1, 6)),
            "context": context,
            "pipeline": draw(st.integers(1, 4)),
            "data": data,
            "expert": draw(st.sampled_from([*parts, *(context * part for part in parts)])),
            "order": draw(st.permutations(KINDS)),
        }
    )
    each = draw(st.sampled_from([each for each in range(1, 17) if shape.gpus % each == 0]))
    return Layout(shape, each)


@examples(200)
@given(layouts())
def test_groups(layout: Layout) -> None:
    """Groups join the ranks that the walk joins, in the order in which it meets them; each rank is told its own."""
    found = walk(layout.parallelism)
    ranks = np.arange(layout.parallelism.gpus)
    for kind in layout.sizes:
        assert [tuple(row) for row in layout.members(kind).tolist()] == found.groups[kind]
        own = layout.group(kind, ranks)
        assert all(rank in found.groups[kind][own[rank]] for rank in ranks)
        assert layout.size(kind) == len(found.groups[kind][0])
    assert layout.replica_of_rank.tolist() == found.replica
    at = layout.coordinates(ranks)
    assert len(set(zip(*(values.tolist() for values in at.values()), strict=True))) == len(ranks)


@examples(200)
@given(layouts())
def test_what_leaves_together(layout: Layout) -> None:
    """Failure groups are what the merging of hosts and replicas ends with; they are alike, and stand side by side."""
    replica, each = walk(layout.parallelism).replica, layout.gpus_per_node
    expected = failure_groups(replica, each)
    assert layout.failure_groups == len(expected)
    assert [set(np.flatnonzero(layout.group_of_host == number).tolist()) for number in range(len(expected))] == expected
    assert len({len(hosts) for hosts in expected}) == 1
    place = positions(layout).tolist()
    assert sorted(range(layout.hosts), key=place.__getitem__) == [host for hosts in expected for host in sorted(hosts)]
    assert layout.shared == max(len(set(replica[first : first + each])) for first in range(0, len(replica), each))


@examples(100)
@given(layouts(), st.data())
def test_loss_of_a_host(layout: Layout, data: st.DataObject) -> None:
    """A lost host takes a rank of exactly the groups and replicas that have one there."""
    host = data.draw(st.integers(0, layout.hosts - 1))
    found = walk(layout.parallelism)
    lost = set(range(host * layout.gpus_per_node, (host + 1) * layout.gpus_per_node))
    loss = loss_of_host(layout, host)
    assert loss.replicas == tuple(sorted({found.replica[rank] for rank in lost}))
    for kind, groups in found.groups.items():
        expected = tuple(number for number, ranks in enumerate(groups) if lost & set(ranks) and len(ranks) > 1)
        assert getattr(loss, f"{kind}_groups") == expected


@examples(200)
@given(layouts(), st.data())
def test_spans(layout: Layout, data: st.DataObject) -> None:
    """Spans are those of the worst group, on any nodes, whether or not domains nest."""
    count = layout.hosts + data.draw(st.integers(0, 3))
    ids: dict[str, Any] = {}
    for level in LEVELS:
        most = data.draw(st.integers(0, 3))
        ids[level] = np.array(data.draw(st.lists(st.integers(0, most), min_size=count, max_size=count)), np.int32)
    nodes = data.draw(st.permutations(range(count)))[: layout.hosts]
    got = spans(layout, ids, np.array(nodes))
    groups = {kind: rows for kind, rows in walk(layout.parallelism).groups.items() if len(rows[0]) > 1}
    assert set(got) == set(groups)
    for kind, span in got.items():
        on = [[nodes[rank // layout.gpus_per_node] for rank in ranks] for ranks in groups[kind]]
        reached = [
            next((place for place, level in enumerate(LEVELS) if len({ids[level][node] for node in row}) == 1), 3)
            for row in on
        ]
        assert span.level == (*LEVELS, "cluster")[max(reached)]
        inside = [[ids["scale_up"][node] for node in row] for row in on]
        assert span.per_domain == min(row.count(domain) for row in inside for domain in row)
        assert span.domains == max(len(set(row)) for row in inside)
        assert (span.size, span.groups) == (len(on[0]), len(on))
        assert span.domain_gpus == max(np.bincount(ids["scale_up"])) * layout.gpus_per_node


@examples(50)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=10), st.integers(1, 12))
def test_stranded(lost: list[int], use: int) -> None:
    """Healthy GPUs are stranded one by one in domains that have too few of them."""
    expected = sum(1 for failed in lost for gpu in range(12) if gpu >= failed and 12 - failed < use)
    assert stranded_gpus(np.array(lost), 12, use) == expected

"""A simulation that recounts its network after every event: who is cut off, where jobs sit, how fast they step."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sim import catalog
from sim.cluster.left import FabricState
from tests.harness import _Watched
from tests.property.common import MOST_EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import sim
    from sim.cluster import Topology
    from sim.engine.job import Job
    from sim.engine.lives import Failure
    from sim.failures import FailureTrace


class Networked(_Watched):
    """A simulation that recounts its network after every event."""

    def __init__(self, case: sim.Prepared, replication: int, failures: FailureTrace) -> None:
        super().__init__(case, replication, failures)
        cluster: Any = case.scenario.cluster
        self.spec = cluster
        self.topology: Topology = cluster.build()
        self.paths = case.network.paths if case.network is not None else None
        self.cut: set[int] = set()
        """Nodes against which the fabric has an outage open."""
        self.parts: tuple[tuple[str, int], ...] | None = None
        self.fresh: FabricState | None = None
        self.recounted: set[int] = set()
        self.sizes = [max(Counter(self.topology.domains[level].tolist()).values()) for level in ("leaf", "pod")]
        self.most_out = 0
        if self.paths is not None:
            self.cut |= self._recount()
            self._listen()

    def _listen(self) -> None:
        """Note which nodes the fabric takes down, and which have a path again."""
        take_down: Callable[..., None] = self.failures.fabric._take_down
        let_return: Callable[[Sequence[int], float], bool] = self.failures.fabric._let_return

        def noted_down(failure: Failure, cut: list[int], outside: list[int]) -> None:
            assert not self.cut & set(cut), "a node is cut off twice"
            self.cut |= set(cut)
            take_down(failure, cut, outside)

        def noted_back(restored: Sequence[int], now: float) -> bool:
            assert self.cut >= set(restored), "a node has a path again that it never lost"
            self.cut -= set(restored)
            return let_return(restored, now)

        self.failures.fabric._take_down = noted_down  # type: ignore[method-assign,assignment]
        self.failures.fabric._let_return = noted_back  # type: ignore[method-assign]

    def _recount(self) -> set[int]:
        """Return the nodes that are cut off when the parts that are out fail in a fabric where none ever was mended."""
        assert self.paths is not None
        parts = tuple((failure.info.source.part, failure.slot) for failure in self.failures.fabric.out)
        if parts != self.parts:
            known = len(self.parts) if self.parts is not None else 0
            if self.fresh is None or parts[:known] != self.parts:
                known, self.fresh = 0, FabricState(self.paths)
            for part, unit in parts[known:]:
                self.fresh.fail(part, unit)
            self.parts = parts
            self.recounted = {node for node in range(self.cluster.nodes) if self.fresh.is_cut(node)}
        return self.recounted

    def look(self) -> None:
        """Look at every node and every job."""
        super().look()
        if self.paths is not None:
            self._check_cut()
        for job in self.jobs.all:
            if job.footprint is not None:
                self._check_footprint(job)
            if job.main.running and job.holding:
                self._check_pace(job)
        assert self.events < MOST_EVENTS, f"{self.events} events, and it is {self.kernel.now} of {self.end} s"

    def _check_cut(self) -> None:
        """A node is cut off while the fabric has an outage open against it, and what is out is not whole."""
        state = self.failures.fabric.state
        assert state is not None
        assert self.cut == {node for node in range(self.cluster.nodes) if state.is_cut(node)} == self._recount()
        assert all(self.cluster.outages[node] for node in self.cut)
        assert state.is_whole == (not self.failures.fabric.out)
        self.most_out = max(self.most_out, len(self.failures.fabric.out))
        if all(source.of_fabric for source in self.prepared.sources):
            assert sum(self.cluster.outages) == len(self.cut), "one outage each, and no other"

    def _check_footprint(self, job: Job) -> None:
        """Presence in leaf groups and pools is that of the job's positions."""
        assert job.footprint is not None
        network = job.footprint.network
        seated = [node for node in job.nodes if node >= 0]
        presence = Counter(network.class_of_node[node] for node in seated)
        assert job.footprint.presence.tolist() == [presence[kind] for kind in range(len(network.pod_of_class))]
        pools = Counter(network.pool_of_node[node] for node in seated)
        assert job.footprint.pools == [pools[pool] for pool in range(len(job.footprint.pools))]

    def _check_pace(self, job: Job) -> None:
        """A job steps as its slowest pool, its network and its slowest node allow, and blames what is out for it."""
        nodes = [node for node in job.nodes if node >= 0 and self.cluster.group[node] is job.main]
        whole, left = self._network_paces(job, nodes)
        own, causes = 1.0, set()
        for node in nodes:
            for fault in self.failures.silent.of_node.get(node, ()):
                own = min(own, fault.speed, _pace(job.spec.communication, fault.bandwidth))
                causes.add(fault.failure.info.cause)
        healthy = min([*self._pool_paces(nodes), whole])
        assert job.speed == pytest.approx(min(1.0, healthy, left, own), rel=1e-12)
        out = {failure.info.cause for failure in self.failures.fabric.out}
        assert job.slow_cause in causes | out | {0}
        if min(left, own) < min(healthy, 1.0):
            assert job.slow_cause in (out if left <= own else causes)
        else:
            assert job.slow_cause == 0

    def _network_paces(self, job: Job, nodes: list[int]) -> tuple[float, float]:
        """Return what the network allows nodes that step together, all well and as it is."""
        domains = self.topology.domains
        spread = [len({int(domains[level][node]) for node in nodes}) for level in ("leaf", "pod")]
        level = "leaf" if spread[0] == 1 else "pod" if spread[1] == 1 else "cluster"
        fits = [job.nodes_needed <= size for size in self.sizes]
        planned = "leaf" if fits[0] else "pod" if fits[1] else "cluster"
        bandwidth = self.topology.bandwidth[level] / self.topology.bandwidth[planned]
        share = 1.0
        if self.fresh is not None and self.paths is not None:
            here = [0] * self.paths.classes
            for node in nodes:
                here[int(self.paths.class_of_node[node])] += 1
            share = self.fresh.share(np.array(here), set(nodes).__contains__) or 1.0
        return _pace(job.spec.communication, bandwidth), _pace(job.spec.communication, bandwidth * share)

    def _pool_paces(self, nodes: list[int]) -> list[float]:
        """Return the pace of each node's accelerator, relative to those of the first pool."""
        peaks = [catalog.accelerators()[pool.accelerator].peak["bf16"] for pool in self.spec.all_pools]
        first = [sum(pool.count for pool in self.spec.all_pools[:index]) for index in range(len(peaks))]
        pools = {max(index for index, start in enumerate(first) if node >= start) for node in nodes}
        return [peaks[pool] / peaks[0] for pool in pools]


def _pace(share: float, bandwidth: float) -> float:
    return 1 / (1 - share + share / bandwidth) if share else 1.0

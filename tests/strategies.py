"""Hypothesis strategies: scenarios as plain data for ``ettrick.sim.parse``, small and with far too many failures.

Rates are set from the number of failures that they should cause, so that failures come in every phase of every
recovery. Times are odd numbers of milliseconds, so that coincidences are rare: ties have tests of their own.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections import Counter
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from ettrick.sim import catalog
from ettrick.sim.catalog import steps
from ettrick.sim.cluster import FABRIC_PARTS, ClusterSpec
from ettrick.sim.cluster.degraded import FabricState
from ettrick.sim.cluster.placement import RankLayout
from ettrick.sim.scenario.model import Parallelism
from ettrick.sim.steps import Constants, Experts, Machine, ModelShape, Workload, ideal_links, problems
from ettrick.sim.steps.workload import expert_sizes
from tests.harness import _Watched
from tests.property.common import MOST_EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ettrick import sim
    from ettrick.sim.cluster import Topology
    from ettrick.sim.cluster.degraded import ReachabilityChange
    from ettrick.sim.engine.holders import Job
    from ettrick.sim.engine.lives import FailureEvent
    from ettrick.sim.failures import FailureTrace

# ----------------------------------------
# A simulation that recounts its network after every event: who is cut off, where jobs sit, how fast they step.


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
        """Note which nodes every change of the fabric cuts off, and which have a path again."""
        self.fabric._take_out = self._noting(self.fabric._take_out)  # type: ignore[method-assign]
        self.fabric._put_back = self._noting(self.fabric._put_back)  # type: ignore[method-assign]

    def _noting(self, change_of: Callable[[FailureEvent], ReachabilityChange]) -> Callable[..., ReachabilityChange]:
        def change(failure: FailureEvent) -> ReachabilityChange:
            change = change_of(failure)
            assert not self.cut & set(change.cut), "a node is cut off twice"
            self.cut |= set(change.cut)
            assert self.cut >= set(change.restored), "a node has a path again that it never lost"
            self.cut -= set(change.restored)
            return change

        return change

    def _recount(self) -> set[int]:
        """Return the nodes that are cut off when the parts that are out fail in a fabric where none ever was mended."""
        assert self.paths is not None
        parts = tuple((failure.info.source.part, failure.slot) for failure in self.fabric.out)
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
        state = self.fabric.state
        assert state is not None
        assert self.cut == {node for node in range(self.cluster.nodes) if state.is_cut(node)} == self._recount()
        assert all(self.cluster.outages[node] for node in self.cut)
        assert state.is_whole == (not self.fabric.out)
        self.most_out = max(self.most_out, len(self.fabric.out))
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
        out = {failure.info.cause for failure in self.fabric.out}
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


# ----------------------------------------
# Hypothesis strategies: times, laws, what a fault does, and how a hazard changes in time, as plain data.

Draw = Any

PLAIN_LAWS = ("exponential", "weibull", "lognormal", "gamma", "fixed", "empirical")


def seconds(low: float, high: float) -> st.SearchStrategy[str]:
    """Return times between `low` and `high` [s] as text."""
    return st.integers(int(low * 1e3), int(high * 1e3)).map(lambda value: f"{value / 1e3!r} s")


def moments(low: float, high: float) -> st.SearchStrategy[str]:
    """Return the same, or no time at all."""
    return st.one_of(st.just("0 s"), seconds(low, high))


def per_day(mean: float) -> str:
    """Return the rate of events that are `mean` [s] apart as text."""
    return f"{86_400 / mean!r} per day"


def maybe(draw: Draw, one_in: int) -> bool:
    """Return true once in so many draws; false is the simpler case."""
    return bool(draw(st.integers(0, one_in - 1)) == one_in - 1)


def chances(*inside: float) -> st.SearchStrategy[float]:
    """Return probabilities: the ends as often as what is between."""
    return st.sampled_from((1.0, 0.0, *inside))


@st.composite
def laws(draw: Draw, mean: float, kinds: Sequence[str] = ()) -> dict[str, Any]:
    """Return laws with about this mean [s]."""
    kind = draw(st.sampled_from(kinds or (*PLAIN_LAWS, "piecewise", "mixture")))
    text = draw(seconds(0.7 * mean, 1.3 * mean))
    parameters: dict[str, Callable[[], dict[str, Any]]] = {
        "exponential": lambda: {"mean": text},
        "weibull": lambda: {"mean": text, "shape": draw(st.sampled_from((0.6, 1.0, 2.5)))},
        "lognormal": lambda: {"mean": text, "sigma": draw(st.sampled_from((0.3, 1.2)))},
        "gamma": lambda: {"mean": text, "shape": draw(st.sampled_from((0.7, 1.0, 3.0)))},
        "fixed": lambda: {"value": text},
        "empirical": lambda: {"values": draw(st.lists(seconds(0.1 * mean, 2 * mean), min_size=1, max_size=4))},
        "uniform": lambda: {"low": "0 s", "high": text},
        "piecewise": lambda: {
            "hazards": [
                {
                    "until": draw(seconds(0.1 * mean, 0.5 * mean)),
                    "rate": draw(st.sampled_from((0, per_day(0.3 * mean)))),
                },
                {"rate": per_day(mean)},
            ]
        },
        "mixture": lambda: {
            "parts": [
                {"weight": 0.25, "law": draw(laws(0.3 * mean, PLAIN_LAWS))},
                {"weight": "75 %", "law": draw(laws(mean, (*PLAIN_LAWS, "piecewise")))},
            ]
        },
    }
    return {"use": kind, **parameters[kind]()}


def times(*means: float) -> st.SearchStrategy[Any]:
    """Return fixed or random times with one of these means [s]; 0 is always among them."""
    kinds = ("exponential", "lognormal", "uniform", "fixed")
    return st.one_of(st.just("0 s"), *(laws(mean, kinds) for mean in means))


@st.composite
def effects(draw: Draw, horizon: float) -> str | dict[str, Any]:
    """Return what a fault does."""
    kind = draw(st.sampled_from(("hang", "slow", "degrade", "corrupt")))
    if kind in ("hang", "corrupt"):
        return str(kind)
    heals = {"heals": draw(times(300, horizon / 5))} if draw(st.booleans()) else {}
    if kind == "slow":
        return {"use": kind, "factor": draw(st.sampled_from((0.05, 0.5, 1.0))), **heals}
    return {"use": kind, "bandwidth": draw(st.sampled_from((0.1, 0.5, 1.0))), **heals}


@st.composite
def tempos(draw: Draw, horizon: float) -> dict[str, Any]:
    """Return hazards that change in time."""
    tempo: dict[str, Any] = {}
    kind = draw(st.sampled_from(("trend", "calendar", "swings", "all")))
    if kind in ("trend", "all"):
        exponent = draw(st.sampled_from((0.5, 1.0, 1.7)))
        tempo["trend"] = {"exponent": exponent, "reference": f"{horizon!r} s", "age": draw(moments(100, horizon))}
    if kind in ("calendar", "all"):
        factors = [1.0, *draw(st.lists(st.sampled_from((0.0, 0.5, 2.0)), max_size=3))]
        tempo["calendar"] = {"period": draw(seconds(horizon / 9, horizon)), "factors": factors}
    if kind in ("swings", "all"):
        tempo["swings"] = {
            "every": draw(seconds(horizon / 20, horizon)),
            "cv": draw(st.sampled_from((0.5, 2.0))),
            "shared": draw(st.sampled_from(("cluster", "hall"))),
        }
    return tempo


# ----------------------------------------
# Hypothesis strategies: small clusters of every kind, as plain data, and what the rest of a scenario must fit to.

PACKS = ("leaf", "pod", "rack", "pdu", "cooling", "scale_up")

GROWTH = (1, 2, 4)

"""A drawn cluster can be cabled with so many times its nodes too: tests let clusters grow."""


@dataclass(frozen=True)
class Fleet:
    """A cluster as data, and how its nodes are used.

    Parameters
    ----------
    cluster
        The cluster.
    unit
        What is used as a whole (``spares.unit``), if it is not said in the cluster.
    """

    cluster: dict[str, Any]
    unit: str | None = None

    @cached_property
    def spec(self) -> ClusterSpec:
        """The cluster, validated."""
        return ClusterSpec.model_validate(self.cluster)

    @property
    def gpus(self) -> int:
        """GPUs of a node [-]."""
        return self.spec.hosts.gpus

    @property
    def by_domain(self) -> bool:
        """Whether jobs use scale-up domains whole."""
        return self.spec.scale_up is not None and self.spec.scale_up.swap_unit == "domain"

    @property
    def whole(self) -> int:
        """Nodes that are used as one [-]."""
        if self.by_domain:
            assert self.spec.scale_up is not None
            return self.spec.scale_up.used // self.gpus
        rack = self.spec.rack.nodes
        return {None: 1, "node": 1, "rack": rack, "pdu": rack * self.spec.pdu.racks}[self.unit]

    @property
    def room(self) -> int:
        """Nodes that jobs and spares can have together [-]."""
        each = self.spec.nodes_per_domain if self.by_domain else self.whole
        return self.spec.hosts.nodes // each * self.whole

    @cached_property
    def units(self) -> dict[str, int]:
        """Number of units of each part that there is."""
        return {**{part: count for part, count in self.spec.counts().items() if count}, "cluster": 1}

    @cached_property
    def behind(self) -> dict[str, int]:
        """Nodes that one failed unit of a part takes alone, of the parts that take any."""
        return {part: self.spec.nodes_behind(part) for part in self.spec.stopping_parts}


@st.composite
def fleets(draw: Draw, *, new: bool, alike: bool) -> Fleet:
    """Return small clusters; parts have an age only where all is `new` otherwise.

    With `alike` all nodes are of one kind and stand in racks, not in scale-up domains.
    """
    unit = draw(st.sampled_from((None, None, None, None, "node", "rack", "pdu", *(() if alike else ("domain",)))))
    gpus = draw(st.sampled_from((1, 2, 8)))
    rack = draw(st.sampled_from((2, 4)))
    cluster: dict[str, Any] = {"gpus_per_node": gpus, "rack": {"nodes": rack}, "pdu": {"racks": 2}}
    cluster["cooling"] = {"racks": draw(st.sampled_from((1, 3)))}
    each, size = {None: 1, "node": 1, "rack": rack, "pdu": 2 * rack, "domain": 1}[unit], 1
    if unit == "domain" or not (alike or draw(st.integers(0, 4))):
        cluster["scale_up"], size = draw(_domains(gpus, whole=unit == "domain"))
        each = math.lcm(each, size)
    nodes = max(draw(st.integers(4, 40)) // each, 2) * each
    cluster["nodes"] = nodes
    cluster["fabric"] = draw(_fabrics(cluster))
    if not alike and maybe(draw, 4):
        del cluster["nodes"]
        cluster["pools"] = draw(_pools(nodes, size, new=new))
    return Fleet(cluster, None if unit == "domain" else unit)


@st.composite
def _domains(draw: Draw, gpus: int, *, whole: bool) -> tuple[dict[str, Any], int]:
    """Return scale-up domains of a few nodes, used whole or not, and their number of nodes."""
    nodes = draw(st.integers(2, 4))
    domain: dict[str, Any] = {"gpus": nodes * gpus, "switch_trays": draw(st.sampled_from((0, 2)))}
    if not whole:
        return domain | {"swap_unit": "tray"}, nodes
    # Jobs that need one node of each domain are no wholes of several, but have mates as well.
    domain["use"] = draw(st.integers(1, nodes)) * gpus
    domain["drain_unit"] = draw(st.sampled_from(("tray", "tray", "domain")))
    return domain, nodes


@st.composite
def _pools(draw: Draw, nodes: int, size: int, *, new: bool) -> list[dict[str, Any]]:
    """Return two kinds of nodes, either of them first, each with whole domains of `size` nodes."""
    first = size * draw(st.integers(1, nodes // size - 1))
    names = draw(st.permutations(("h100", "b200")))
    pools: list[dict[str, Any]] = [
        {"count": count, "accelerator": name} for count, name in zip((first, nodes - first), names, strict=True)
    ]
    for pool in pools:
        if new and draw(st.booleans()):
            pool["age"] = draw(seconds(100, 50_000))
    return pools


@st.composite
def _fabrics(draw: Draw, cluster: dict[str, Any]) -> dict[str, Any]:
    """Return fabrics of two or three tiers, one plane or two, with one spine or several."""
    gpus = cluster["gpus_per_node"]
    kind = draw(st.sampled_from(("fat-tree", "fat-tree", "dual-plane")))
    group, groups = ("segment", "segments") if kind == "dual-plane" else ("leaf", "leaf_groups")
    fabric: dict[str, Any] = {"use": kind, "radix": 1024}
    fabric["rails"] = draw(st.sampled_from(sorted({1, min(gpus, 2), gpus}, reverse=True)))
    fabric[group] = {"nodes": draw(st.sampled_from((2, 4, 8)))}
    if kind == "fat-tree" and maybe(draw, 4):
        fabric["leaf"]["switches"] = 1
    if fabric["rails"] > 1 and maybe(draw, 3):
        fabric["reroute"] = "scale_up"
    fabric["copper"] = maybe(draw, 3)
    fabric["spine"] = {"oversubscription": draw(st.sampled_from((1.0, 1.0, 2.0)))}
    switches = [fabric["spine"]]
    if maybe(draw, 3):
        fabric["spine"][groups] = draw(st.integers(1, 2))
        fabric["core"] = {"oversubscription": draw(st.sampled_from((1.0, 2.0)))}
        switches.append(fabric["core"])
    for tier in switches:
        number = draw(st.sampled_from((None, 2, 2, 4)))
        if number is not None:
            tier["switches"] = number
            if not _can_be_cabled(cluster, fabric):
                del tier["switches"]
    return fabric


def _can_be_cabled(cluster: dict[str, Any], fabric: dict[str, Any]) -> bool:
    """Return whether so many switches have links enough, for a larger cluster too."""
    try:
        for factor in GROWTH:
            ClusterSpec.model_validate({**cluster, "nodes": factor * cluster["nodes"], "fabric": fabric})
    except ValidationError:
        return False
    return True


# ----------------------------------------
# Hypothesis strategies: failure sources of every kind, as plain data.

WITHIN_A_NODE = ("node", "gpu", "nic")

SHARED = ("rack", "pdu", "cooling", "pod", "scale_up", "switch_tray")

PARTS = (*WITHIN_A_NODE, *SHARED, *FABRIC_PARTS)

MOST_AT_ONCE = 16

"""Units that one window of maintenance takes: there are hundreds of cables."""

MEMORYLESS = ("exponential",)

RESCALED = ("exponential", "weibull")

"""Laws that a hazard ratio merely stretches."""


@dataclass(frozen=True)
class Setting:
    """What the sources of a scenario have to fit to.

    Parameters
    ----------
    units
        Units of each part that there is, the whole cluster among them.
    behind
        Nodes that one failed unit takes alone, of the parts that take any.
    horizon
        Time that is simulated [s].
    memoryless
        Whether lives on the wall clock must not age.
    stationary
        Whether the simulation begins as after a long time.
    tiers
        Names of the tiers of repair, if there are any.
    """

    units: Mapping[str, int]
    behind: Mapping[str, int]
    horizon: float
    memoryless: bool = False
    stationary: bool = False
    tiers: tuple[str, ...] = ()

    def stops(self, part: str) -> bool:
        """Return whether one failed unit takes nodes with it; if not, it takes bandwidth from the jobs."""
        return part in self.behind

    def of_node(self, part: str) -> bool:
        """Return whether each unit of a part belongs to one node, which is repaired with it."""
        return part in WITHIN_A_NODE and self.stops(part)

    def some(self, draw: Draw, *, of_nodes: bool = True, stopping: bool = False) -> str:
        """Return a part; one of the fabric as often as any other."""
        kinds = (*((WITHIN_A_NODE,) if of_nodes else ()), SHARED, FABRIC_PARTS, FABRIC_PARTS)
        found = [[part for part in kind if part in (self.behind if stopping else self.units)] for kind in kinds]
        return str(draw(st.sampled_from(draw(st.sampled_from([parts for parts in found if parts])))))


@st.composite
def sources(draw: Draw, setting: Setting, count: int) -> list[dict[str, Any]]:
    """Return `count` sources."""
    kinds = ["component", "component", "component", "job", "bug", "maintenance", "rollout"]
    kinds += [] if setting.stationary else ["incident", "incident", "defect"]
    found: list[dict[str, Any]] = []
    for number in range(count):
        source = {"use": draw(st.sampled_from(kinds)), "name": f"cause-{number}"}
        source |= _DETAILS[source["use"]](draw, setting)
        if source["use"] not in ("maintenance", "rollout"):
            source["planned"] = draw(st.booleans())
            if maybe(draw, 4):
                source["detection"] = draw(times(60, 600))
        found.append(source)
    for source in found:
        if source["use"] == "rollout":
            _change_hazards(draw, setting, source, found)
    return found


def _component(draw: Draw, setting: Setting) -> dict[str, Any]:
    """Return parts that fail one by one."""
    part = setting.some(draw)
    own = setting.of_node(part)
    source: dict[str, Any] = {"part": part, "renews": draw(st.sampled_from(("at_failure", "at_return", "never")))}
    source["clock"] = draw(st.sampled_from(("wall", "in_service", "busy") if own else ("wall",)))
    _draw_habits(draw, setting, source, of_nodes=own, apart=own)
    differ = maybe(draw, 3) and not (setting.stationary and source["renews"] == "at_return")
    kinds = RESCALED if setting.stationary and differ else ()
    _draw_life(draw, setting, source, setting.units[part] * _between(draw, setting), kinds)
    if differ:
        _draw_variety(draw, setting, source, kinds)
    return source


def _incident(draw: Draw, setting: Setting) -> dict[str, Any]:
    """Return incidents of a domain."""
    part = "cluster" if maybe(draw, 4) else setting.some(draw, of_nodes=False, stopping=True)
    members = setting.units["node"] if part == "cluster" else setting.behind[part]
    source: dict[str, Any] = {"part": part, "clock": "wall"}
    spread = maybe(draw, 3)
    if spread:
        source["spread"] = draw(times(60, 2_000))
    source["repaired"] = "nodes" if spread else draw(st.sampled_from(("nodes", "part")))
    if draw(st.booleans()):
        source["size"] = draw(_sizes(members))
    apart = source["repaired"] == "nodes"
    _draw_habits(draw, setting, source, of_nodes=False, apart=apart)
    _draw_life(draw, setting, source, setting.units[part] * _between(draw, setting))
    return source


@st.composite
def _sizes(draw: Draw, members: int) -> dict[str, Any]:
    """Return laws of the number of nodes that an incident takes in a domain of `members`."""
    kind = draw(st.sampled_from(("nodes", "mean", "share", "values")))
    least = {} if maybe(draw, 2) else {"least": draw(st.integers(1, members))}
    if kind == "nodes":
        return {"nodes": draw(st.integers(1, members + 2))}
    if kind == "mean":
        return {"mean": least.get("least", 1) + draw(st.sampled_from((0.0, 0.5, 3.0))), **least}
    if kind == "share":
        return {"share": draw(st.sampled_from((0.01, 0.4, 1.0))), **least}
    values = draw(st.lists(st.integers(1, members + 2), min_size=1, max_size=3))
    weights = [draw(st.sampled_from((0.0, 1.0, 2.5))) for _ in values]
    return {"values": values, **({"weights": weights} if any(weights) else {})}


def _defect(draw: Draw, setting: Setting) -> dict[str, Any]:
    """Return hidden faults of some nodes."""
    source: dict[str, Any] = {"clock": draw(st.sampled_from(("wall", "busy"))), "exact": draw(st.booleans())}
    source["share"] = draw(st.sampled_from((0.0, 0.2, 1.0)))
    if draw(st.booleans()):
        source["onset"] = f"{86_400 * draw(st.sampled_from((0.5, 3.0))) / setting.horizon!r} per node-day"
    _draw_habits(draw, setting, source, of_nodes=True, apart=True, relapses=False, tempo=False)
    _draw_life(draw, setting, source, setting.horizon / draw(st.sampled_from((0.5, 3.0, 10.0))))
    return source


def _between(draw: Draw, setting: Setting) -> float:
    """Return the mean time between the failures of a source [s]."""
    return setting.horizon / float(draw(st.sampled_from((2, 10, 40))))


def _draw_habits(
    draw: Draw,
    setting: Setting,
    source: dict[str, Any],
    *,
    of_nodes: bool,
    apart: bool,
    relapses: bool = True,
    tempo: bool = True,
) -> None:
    """Draw what every cause has that strikes nodes; `apart` says that each node is repaired by itself."""
    source["interrupts"] = draw(st.sampled_from((1.0, 1.0, 0.6)))
    source["defer"] = maybe(draw, 4)
    if maybe(draw, 3):
        goes_on = setting.stops(source.get("part", "node")) or source.get("part") == "cluster"
        source["effect"] = draw(effects(setting.horizon)) if goes_on else "hang"
    by_tiers = bool(setting.tiers)
    if maybe(draw, 3) or (by_tiers and (setting.stationary or not apart)):
        source["repair"] = draw(times(100, 5_000))
        by_tiers = False
    if by_tiers and maybe(draw, 3):
        source["tier"] = draw(st.sampled_from(setting.tiers))
    if relapses and apart and not setting.stationary and maybe(draw, 4):
        source["relapse"] = {"after": draw(laws(draw(st.sampled_from((100.0, setting.horizon / 20)))))}
        if not by_tiers:
            source["relapse"]["probability"] = draw(st.sampled_from((0.0, 0.3, 0.9)))
    if tempo and source["clock"] == "wall" and not setting.stationary and maybe(draw, 4):
        source["tempo"] = draw(tempos(setting.horizon))


def _draw_life(draw: Draw, setting: Setting, source: dict[str, Any], life: float, kinds: Sequence[str] = ()) -> None:
    """Draw the law of a life of mean `life` [s], and the hazard of idle nodes where that is allowed."""
    on_wall = source["clock"] == "wall"
    bound = on_wall and setting.memoryless and not source["defer"]
    if draw(st.booleans()):
        source["rate"] = f"{86_400 / life!r} per {source.get('part', 'node')}-day"
        memoryless = True
    else:
        source["law"] = draw(laws(life, MEMORYLESS if bound else kinds))
        memoryless = source["law"]["use"] == "exponential"
    if memoryless or not on_wall:
        source["idle_hazard"] = draw(st.sampled_from((1.0, 0.3, 0.0)))
    if maybe(draw, 8):
        source["scale"] = draw(st.sampled_from((0.5, 2.0)))


def _draw_variety(draw: Draw, setting: Setting, source: dict[str, Any], kinds: Sequence[str]) -> None:
    """Let units differ."""
    ages = source["clock"] != "wall" or (not setting.memoryless and source.get("idle_hazard", 1.0) == 1.0)
    if maybe(draw, 2):
        source["frailty"] = {
            "shape": draw(st.sampled_from((0.3, 1.0, 5.0))),
            "of": draw(st.sampled_from(("node", "part"))),
            "shared": draw(st.sampled_from(("nodes", "others"))),
        }
    if maybe(draw, 2):
        batch: dict[str, Any] = {"share": draw(st.sampled_from((0.0, 0.3, 1.0)))}
        if draw(st.booleans()):
            batch["ratio"] = draw(st.sampled_from((0.2, 1.0, 5.0)))
        else:
            batch["law"] = draw(laws(setting.horizon, kinds if ages else MEMORYLESS))
        source["batches"] = [batch]


def _job(draw: Draw, setting: Setting) -> dict[str, Any]:
    """Return failures of jobs as a whole."""
    return {"law": draw(laws(_between(draw, setting))), "effect": draw(st.sampled_from(("crash", "hang")))}


def _bug(draw: Draw, setting: Setting) -> dict[str, Any]:
    """Return bugs that strike again until they are mended."""
    life = setting.horizon / draw(st.sampled_from((1, 5)))
    return {"law": draw(laws(life)), "fix": draw(times(300, setting.horizon / 10))}


def _maintenance(draw: Draw, setting: Setting) -> dict[str, Any]:
    """Return windows of maintenance, one after another."""
    part = "cluster" if maybe(draw, 8) else setting.some(draw)
    units = setting.units[part]
    windows = []
    start = draw(st.integers(0, int(setting.horizon / 2)))
    for _ in range(draw(st.integers(1, 3))):
        length = draw(st.integers(1, int(setting.horizon / 8)))
        first = draw(st.integers(0, units - 1))
        count = draw(st.integers(1, min(units - first, MOST_AT_ONCE)))
        windows.append({"start": f"{start + 0.375} s", "duration": f"{length} s", "first": first, "units": count})
        start += length + draw(st.integers(0, int(setting.horizon / 8)))
    return {"part": part, "windows": windows, "saves": draw(st.booleans())}


def _rollout(draw: Draw, setting: Setting) -> dict[str, Any]:
    """Return a change that is brought to the nodes; whose hazard it changes is drawn later."""
    nodes = setting.units["node"]
    return {
        "start": draw(moments(10, setting.horizon / 2)),
        "nodes_per_day": nodes * 86_400 / setting.horizon * draw(st.sampled_from((0.7, 3.0, 100.0))),
        "batch": draw(st.integers(1, max(nodes // 3, 1))),
        "duration": draw(seconds(1, setting.horizon / 20)),
        "mode": draw(st.sampled_from(("drain", "at_interruption"))),
    }


def _change_hazards(draw: Draw, setting: Setting, source: dict[str, Any], found: Sequence[Mapping[str, Any]]) -> None:
    """Let a rollout change the hazard of causes that strike single nodes at a constant rate, and watch a few first."""
    causes = [
        other["name"]
        for other in found
        if other["use"] in ("component", "defect")
        and setting.of_node(other.get("part", "node"))
        and other.get("renews") != "never"
        and ("rate" in other or other["law"]["use"] == "exponential")
        and all("law" not in batch for batch in other.get("batches", ()))
    ]
    if not causes or not draw(st.booleans()):
        return
    source["hazard"] = {draw(st.sampled_from(causes)): draw(chances(0.3, 4.0))}
    if draw(st.booleans()):
        source["canary"] = {
            "nodes": draw(st.integers(1, 4)),
            "soak": draw(seconds(1, 5_000)),
            "tolerates": draw(st.integers(0, 2)),
        }


_DETAILS = {
    "component": _component,
    "incident": _incident,
    "defect": _defect,
    "job": _job,
    "bug": _bug,
    "maintenance": _maintenance,
    "rollout": _rollout,
}


# ----------------------------------------
# Hypothesis strategies: repair, spares and detection, as plain data.


@st.composite
def detections(draw: Draw) -> dict[str, Any]:
    """Return detection times; what has none is never noticed."""
    found: dict[str, Any] = {"time": draw(times(30, 600))}
    for kind in ("hang", "slow", "degrade", "corrupt"):
        if draw(st.booleans()):
            found[kind] = draw(times(60, 3_000))
    return found


@st.composite
def repairs(draw: Draw, horizon: float) -> dict[str, Any]:
    """Return a single time of repair, or tiers."""
    if draw(st.booleans()):
        return {"time": draw(times(100, 1_000, 10_000))}
    tests = {"time": draw(times(60, 1_000)), "finds": draw(chances(0.7))} if draw(st.booleans()) else None
    names = ["reset", "reboot", "manual"][: draw(st.integers(1, 3))]
    tiers = [draw(_tiers(name)) for name in names]
    tiers[-1]["escalates"] = 0.0
    if tests is not None and tests["finds"] == 1.0 and tiers[-1]["fixes"] == 0.0:
        tiers[-1]["fixes"] = 0.5
    found: dict[str, Any] = {"use": "tiers", "tiers": tiers}
    if tests is not None:
        found["qualification"] = tests
    if maybe(draw, 2):
        found["diagnosis"] = {"finds": draw(chances(0.7)), "blames_other": draw(chances(0.3))}
    if maybe(draw, 2):
        found["lemons"] = draw(st.lists(_lemons(horizon), min_size=1, max_size=2))
        found["lemons_go_to"] = draw(st.sampled_from(("retirement", *names)))
        if draw(st.booleans()):
            found["replacement"] = draw(times(1_000, horizon / 4))
    return found


@st.composite
def _tiers(draw: Draw, name: str) -> dict[str, Any]:
    """Return one tier."""
    tier: dict[str, Any] = {
        "name": name,
        "time": draw(times(50, 1_000)),
        "escalates": draw(chances(0.3)),
        "fixes": draw(chances(0.5)),
    }
    if draw(st.booleans()):
        tier["crews"] = draw(st.integers(1, 3))
    return tier


@st.composite
def _lemons(draw: Draw, horizon: float) -> dict[str, Any]:
    """Return one lemon policy."""
    if draw(st.booleans()):
        return {"use": "threshold", "failures": draw(st.integers(1, 4)), "window": draw(seconds(100, horizon))}
    costs, regains = draw(st.sampled_from((20.0, 60.0))), draw(st.sampled_from((0.0, 50.0)))
    return {"use": "score", "blame_costs": costs, "regains": regains}


@st.composite
def spares(draw: Draw, nodes: int, unit: int) -> dict[str, Any]:
    """Return spares in multiples of `unit` nodes, fewer than `nodes` together."""
    left = nodes // unit - 1
    hot = draw(st.integers(0, min(3, left)))
    found: dict[str, Any] = {"hot": hot * unit}
    left -= hot
    for name in ("warm", "cold"):
        if left > 0 and maybe(draw, 3):
            count = draw(st.integers(1, min(2, left)))
            left -= count
            found[name] = {
                "nodes": count * unit,
                "delay": draw(moments(1, 1_000)),
                "one_by_one": draw(st.booleans()),
                "refills": draw(st.booleans()),
            }
    return found


RECOVERIES = ("full-restart", "hot-spare", "shrink-rejoin", "standby")

POOLS = ("spare", "warm", "idle", "cold")

EXPOSURES = (True, False, "processes", "nodes")


@st.composite
def _jobs(draw: Draw, number: int, fleet: Fleet, nodes: int, horizon: float, *, by_replica: bool) -> dict[str, Any]:
    """Return a job that fits on `nodes` nodes."""
    wholes = nodes // fleet.whole
    data = draw(st.integers(1, min(wholes, 5))) if by_replica else 1
    width = draw(st.integers(1, max(wholes // data, 1)))
    size = data * width * fleet.whole * fleet.gpus
    job: dict[str, Any] = {"name": f"job-{number}", "gpus": size}
    # Not none of it: who takes bandwidth from jobs that need none is refused.
    job["communication"] = draw(st.sampled_from((0.1, 0.5, 1.0)))
    if number:
        job["arrival"] = draw(seconds(0, 0.6 * horizon))
    if by_replica and (fleet.whole > 1 or draw(st.booleans())):
        # Replicas of whole units, side by side.
        job["parallelism"] = {"tensor": size // data, "data": data}
    elif by_replica or maybe(draw, 3):
        job["parallelism"] = draw(_layouts(size))
    kinds = ["horizon", "horizon", "time"]
    if draw(st.booleans()):
        job["step_time"] = draw(seconds(0.7, 90))
        kinds += ["steps"]
        if draw(st.booleans()):
            job["batch"] = {"tokens": 4096, "sequence": 64, "on_loss": draw(st.sampled_from(("shrink", "keep")))}
            kinds += ["tokens"]
    kind = draw(st.sampled_from(kinds))
    share = draw(st.sampled_from((0.05, 0.3, 0.9)))
    if kind != "horizon":
        step = float(job.get("step_time", "1 s").split()[0])
        steps = max(int(share * horizon / step), 1)
        job["work"] = {
            "time": {"time": f"{share * horizon!r} s"},
            "steps": {"steps": steps},
            "tokens": {"tokens": 4096 * steps},
        }[kind]
        if draw(st.booleans()):
            job["deadline"] = draw(seconds(0.1 * horizon, horizon))
    return job


@st.composite
def _layouts(draw: Draw, gpus: int) -> dict[str, Any]:
    """Return layouts of any order: replicas may share hosts, and need not sit side by side."""
    left = gpus
    layout: dict[str, Any] = {}
    for kind in draw(st.permutations(("tensor", "pipeline", "context"))):
        layout[kind] = draw(st.sampled_from([size for size in (1, 1, 2, 3, 4) if left % size == 0]))
        left //= layout[kind]
    layout["data"] = left
    if draw(st.booleans()):
        layout["order"] = draw(st.permutations(("tensor", "context", "expert", "data", "pipeline")))
    return layout


def _replicas(job: dict[str, Any], gpus_per_node: int) -> int:
    """Return how many sets of replicas of a job can leave alone [-]."""
    shape = Parallelism.model_validate(job.get("parallelism", {"tensor": job["gpus"]}))
    return RankLayout(shape, gpus_per_node).failure_groups


@st.composite
def _checkpoints(draw: Draw, jobs: Sequence[dict[str, Any]], *, can_fail: bool) -> dict[str, Any]:
    """Return periodic checkpoints whose interval every job can have."""
    tier: dict[str, Any] = {"restore": draw(moments(1, 300))}
    if draw(st.booleans()):
        stall = draw(moments(1, 200))
        tier |= {"mode": "blocking", "write": stall}
    else:
        stall = draw(moments(0.1, 20))
        tier |= {"mode": "async", "stall": stall, "write": draw(moments(1, 2_000))}
    intervals = [seconds(30, 3_000)]
    if all("step_time" in job for job in jobs):
        intervals.append(st.integers(1, 40).map(lambda count: f"every {count} steps"))
    if can_fail and stall != "0 s":
        intervals.append(st.sampled_from(("young", "daly", "optimal")))
    return {"tiers": [{**tier, "interval": draw(st.one_of(intervals))}]}


@st.composite
def _recoveries(draw: Draw, kind: str, reserves: dict[str, Any], replicas: int) -> dict[str, Any]:
    """Return a recovery strategy of one kind."""
    recovery: dict[str, Any] = {"use": kind}
    if kind != "standby":
        recovery["initialize"] = draw(times(60, 900))
    if kind == "full-restart":
        return recovery | {"delay": draw(moments(1, 600))}
    if draw(st.booleans()):
        pools = draw(st.permutations(POOLS))[: draw(st.integers(1, 4))]
        if not any(name == "idle" or reserves.get("hot" if name == "spare" else name) for name in pools):
            pools = [*pools, "idle"]
        recovery["pools"] = pools
    if kind == "standby":
        recovery |= {"recovery": draw(times(60, 900)), "selection": draw(times(30, 300))}
        return recovery | {"exposed": draw(st.sampled_from(EXPOSURES))}
    if kind == "hot-spare":
        recovery |= {"reschedule": draw(times(30, 300)), "exposed": draw(st.sampled_from((True, *EXPOSURES)))}
        if draw(st.booleans()):
            recovery |= {"patience": draw(moments(10, 2_000)), "requeue_delay": draw(moments(1, 300))}
        return recovery
    return recovery | {
        "reconfigure": draw(times(20)),
        "catch_up": draw(times(60)),
        "rejoin": draw(times(20)),
        "min_replicas": draw(st.integers(1, replicas)),
    }


@st.composite
def scenarios(
    draw: Draw,
    *,
    most_jobs: int = 3,
    recoveries: Sequence[str] = RECOVERIES,
    fewest_sources: int = 0,
    is_odd: bool = False,
    alike: bool = False,
) -> dict[str, Any]:
    """Return scenarios with up to `most_jobs` jobs and at least `fewest_sources` failure sources.

    They are valid, unless `is_odd`: then what the parts of a scenario demand of one another is forgotten. With `alike`
    nodes are of one kind, used one by one or by the rack, and jobs are not packed.
    """
    horizon = draw(st.integers(5_000, 40_000)) + 0.125
    initial = draw(st.sampled_from(("new", "new", "stationary")))
    fleet = draw(fleets(new=initial == "new", alike=alike))
    reserves = draw(spares(fleet.room, fleet.whole))
    held = sum(standby["nodes"] for standby in (reserves.get("warm"), reserves.get("cold")) if standby)
    kind = draw(st.sampled_from(recoveries))
    jobs = [
        draw(_jobs(number, fleet, fleet.room - reserves["hot"] - held, horizon, by_replica=kind == "shrink-rejoin"))
        for number in range(draw(st.integers(1, most_jobs)))
    ]
    recovery = draw(_recoveries(kind, reserves, min(_replicas(job, fleet.gpus) for job in jobs)))
    repair = draw(repairs(horizon))
    setting = Setting(
        units=fleet.units,
        behind=fleet.behind,
        horizon=horizon,
        memoryless=recovery.get("exposed", True) in (False, "none", "processes"),
        stationary=initial == "stationary",
        tiers=tuple(tier["name"] for tier in repair.get("tiers", ())),
    )
    if is_odd:
        tiers = draw(st.sampled_from((setting.tiers, (), ("reset",))))
        setting = replace(setting, memoryless=draw(st.booleans()), stationary=draw(st.booleans()), tiers=tiers)
    failures = draw(sources(setting, draw(st.integers(fewest_sources, 4))))
    data: dict[str, Any] = {
        "name": "drawn",
        "seed": draw(st.integers(0, 1_000)),
        "cluster": fleet.cluster,
        "horizon": f"{horizon!r} s",
        "initial": initial,
        "jobs": jobs,
        "failures": failures,
        "detection": draw(detections()),
        "checkpoint": draw(_checkpoints(jobs, can_fail=any(_interrupts(source, setting) for source in failures))),
        "recovery": recovery,
        "spares": reserves,
        "repair": repair,
        "scheduler": {"pick": draw(st.sampled_from(PICKS if "lemons" in repair or is_odd else PICKS[:-1]))},
    }
    if fleet.unit is not None:
        data["spares"]["unit"] = fleet.unit
    elif not (fleet.by_domain or alike) and maybe(draw, 3):
        data["scheduler"] = {"pack": draw(st.sampled_from(PACKS))}
    if draw(st.booleans()):
        data["warmup"] = draw(seconds(0, horizon / 3))
    if draw(st.booleans()):
        data["windows"] = draw(seconds(horizon / 9, horizon * 1.2))
    if maybe(draw, 4):
        data["health"] = draw(_health(horizon))
    names = [source["name"] for source in failures if source["use"] in ("component", "defect", "incident")]
    if names and initial == "new" and maybe(draw, 5):
        data["parts"] = {"any": {"stock": draw(st.integers(0, 3)), "lead": draw(times(horizon / 20)), "causes": names}}
        data["parts"]["any"] |= draw(st.sampled_from(({}, {"reorder": -1}, {"share": 0.5}, {"deliveries": "999 s"})))
        data["parts"]["any"] |= draw(st.sampled_from(({}, {"returns": {"time": "500 s", "repaired": 0.5}})))
    return data


@st.composite
def _health(draw: Draw, horizon: float) -> dict[str, Any]:
    """Return who looks for bad nodes before they fail, and how often wrongly."""
    share = st.sampled_from((0.3, 0.9, 1))
    parts: dict[str, Any] = {
        "prediction": {"recall": draw(share), "precision": draw(share), "lead": draw(times(200))},
        "false_alarms": f"{2 / horizon!r} per s",
        "preflight": {"time": draw(moments(0, 200)), "coverage": draw(share)},
        "checks": {"every": draw(seconds(100, horizon)), "time": draw(moments(0, 5)), "coverage": draw(share)},
    }
    return {"test": draw(times(horizon / 20)), **{key: value for key, value in parts.items() if draw(st.booleans())}}


PICKS = ("lowest", "longest-idle", "random", "fewest-failures", "best-score")


def _interrupts(source: dict[str, Any], setting: Setting) -> bool:
    """Return whether a source gives a job a mean time to interrupt for sure."""
    if source["use"] == "component" and not setting.stops(source["part"]):
        return False  # it takes bandwidth
    return source["use"] in ("component", "job", "bug", "incident") and "effect" not in source


ODD = (None, True, "", "0 s", "-1 s", "3", "5 parsec", "nan s", "1e300 y", -1, 0, 1, 0.5, 1e308, [], {}, "none", "rack")

"""Values that hardly anything takes."""

OTHER_PARTS = (*PARTS, "cluster", "job")


@st.composite
def odd_scenarios(draw: Draw) -> dict[str, Any]:
    """Return scenarios whose parts need not fit together, or with values that do not belong where they are."""
    data = draw(scenarios(fewest_sources=1, is_odd=draw(st.booleans())))
    kind = draw(st.sampled_from(("as it is", "unit", "part", "value", "value", "key", "other's")))
    data = copy.deepcopy(data)
    if kind == "unit":
        data["spares"]["unit"] = draw(st.sampled_from(OTHER_PARTS))
    elif kind == "part":
        draw(st.sampled_from(data["failures"]))["part"] = draw(st.sampled_from(OTHER_PARTS))
    elif kind != "as it is":
        places = list(_places(data))
        holder, key = draw(st.sampled_from(places))
        if kind == "value":
            holder[key] = draw(st.sampled_from(ODD))
        elif kind == "key":
            del holder[key]
        else:
            giver, name = draw(st.sampled_from(places))
            holder[key] = copy.deepcopy(giver[name])
    return data


def _places(data: Any) -> Any:
    """Yield holder and key of every value."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield data, key
        yield from itertools.chain(_places(value))


# ----------------------------------------
# Hypothesis strategies: steps of small and of large models, on machines of the catalog and on others.

POWERS = st.sampled_from((1, 2, 4, 8))


@st.composite
def shapes(draw: Draw) -> ModelShape:
    """Return a model: of the catalog, or a small one with or without experts."""
    if draw(st.booleans()):
        known: ModelShape = draw(st.sampled_from(list(catalog.models().values())))
        return known
    heads = draw(st.sampled_from((8, 12, 16, 64)))
    experts = Experts(
        count=draw(st.sampled_from((8, 12, 64))),
        active=draw(st.integers(1, 4)),
        ffn=draw(st.sampled_from((256, 4096))),
        shared=draw(st.sampled_from((0, 512))),
        domains=draw(st.sampled_from((0, 2))),
    )
    return ModelShape(
        layers=draw(st.integers(1, 40)),
        hidden=heads * draw(st.sampled_from((32, 128))),
        ffn=draw(st.sampled_from((1024, 16384))),
        heads=heads,
        kv_heads=draw(st.sampled_from((1, 4, heads))),
        vocabulary=draw(st.sampled_from((0, 1000, 200_000))),
        gated=draw(st.booleans()),
        tied=draw(st.booleans()),
        experts=draw(st.sampled_from((None, experts))),
        depths=draw(st.sampled_from((0, 0, 1))),
    )


@st.composite
def workloads(draw: Draw) -> Workload:
    """Return a step that can be: everything that has to be divided evenly is."""
    shape: ModelShape = draw(shapes())
    pipeline = draw(st.sampled_from([size for size in (1, 2, 3, 4, 6, 8) if size <= shape.layers]))
    data, microbatch = draw(POWERS), draw(POWERS)
    rounds = draw(st.integers(1, 40)) * draw(st.sampled_from((1, pipeline)))
    context = draw(POWERS)
    work = Workload(
        shape=shape,
        sequence=draw(st.sampled_from((256, 4096, 65536))),
        sequences=data * microbatch * rounds,
        microbatch=microbatch,
        tensor=draw(st.sampled_from([size for size in (1, 2, 4, 8) if shape.heads % size == 0])),
        context=context,
        pipeline=pipeline,
        data=data,
        **draw(_execution()),
    )
    if shape.experts is not None:
        choices = [
            size
            for size in (1, 2, 4, 8)
            if size in expert_sizes(work.tensor, context, data) and shape.experts.count % size == 0
        ]
        work = replace(work, expert=draw(st.sampled_from(choices)))
    if shape.experts is not None:
        work = replace(work, expert_load=draw(st.sampled_from((1.0, 1.0, 1.5, 0.8))))
    if draw(st.sampled_from((False, False, True))):
        work = replace(work, shape=replace(shape, lora=8, lora_everywhere=draw(st.booleans())))
    if work.context > 1:
        whole = gcd(work.context, shape.heads // work.tensor)
        work = replace(work, ulysses=draw(st.sampled_from(sorted({1, whole}))))
    if work.sharding == "parameters" and draw(st.booleans()):
        groups = [size for size in (2, 4) if work.data_ranks % size == 0]
        work = replace(work, shard_ranks=draw(st.sampled_from(groups))) if groups else work
    interleaved = [replace(work, virtual=pieces, schedule="1f1b") for pieces in (2, 3, 4)]
    chosen: Workload = draw(st.sampled_from([work, *(other for other in interleaved if not problems(other))]))
    assert problems(chosen) == []
    return chosen


@st.composite
def _execution(draw: Draw) -> dict[str, Any]:
    """Return how a step is executed."""
    schedule = draw(st.sampled_from(("1f1b", "1f1b", "zero-bubble-h1", "zero-bubble-h2")))
    flags = (
        *("sequence_parallel", "fused_attention", "overlap_tensor", "overlap_data", "offload_optimizer"),
        *("fused_elementwise", "keep_gathered"),
    )
    return {
        "precision": draw(st.sampled_from(("bf16", "fp8"))),
        "schedule": schedule,
        "recompute": draw(st.sampled_from(("none", "selective", "full"))),
        "sharding": draw(st.sampled_from(("none", "optimizer", "gradients", "parameters"))),
        "gradients": draw(st.sampled_from((None, "fp32", "bf16"))),
        "moments": draw(st.sampled_from(("fp32", "bf16", "fp8"))),
        "loss": draw(st.sampled_from(("fused", "vocab-parallel", "eager"))),
        "offload_layers": draw(st.sampled_from((0, 0, 2, 40))),
        "overlap_expert": draw(st.booleans()),
        "cuda_graphs": draw(st.sampled_from((False, True, "partial"))),
        **{name: draw(st.booleans()) for name in flags},
    }


@st.composite
def machines(draw: Draw, work: Workload) -> Machine:
    """Return an accelerator that has the precision, links of any width, and the fitted constants or any others."""
    names = [name for name, chip in catalog.accelerators().items() if work.precision in chip.peak]
    chip = catalog.accelerators()[draw(st.sampled_from(names))]
    network = draw(st.sampled_from((1e9, 25e9, 100e9)))
    links = ideal_links(work, chip.scale_up, network, draw(st.sampled_from((1, 4, 8, 72))))
    constants = steps.constants()
    if draw(st.booleans()):
        constants = Constants(**{entry.name: draw(_scaled(entry.name)) for entry in fields(Constants)})
    shares = steps.efficiencies(chip, work.precision, experts=work.shape.experts is not None)
    return Machine(chip, shares, links, constants)


def _scaled(name: str) -> st.SearchStrategy[float]:
    """Return any value of a constant: shares up to all, others around their default."""
    usual = float(getattr(Constants(), name))
    most = 1.0 if usual <= 1 and name not in ("launch", "latency", "overhead", "expert_launch") else 10 * usual
    least = 0.1 * most if name in ("scale_up", "network", "memory") else 0.0
    return st.floats(least, most)


@st.composite
def layouts(draw: Draw) -> Workload:
    """Return any sizes at all, most of which do not divide what they have to; sequences are even."""
    size = st.integers(1, 24)
    shape = draw(shapes())
    return Workload(
        shape=shape,
        sequence=2 * draw(st.integers(1, 200)),
        sequences=draw(st.integers(1, 200)),
        microbatch=draw(st.integers(1, 6)),
        tensor=draw(size),
        context=draw(st.integers(1, 6)),
        pipeline=draw(st.integers(1, 48)),
        data=draw(size),
        expert=draw(st.integers(1, 6)),
        virtual=draw(st.sampled_from((1, 1, 2, 3, 4))),
        schedule=draw(st.sampled_from(("1f1b", "1f1b", "zero-bubble-h1"))),
        sharding="parameters",
        shard_ranks=draw(st.integers(0, 6)),
    )

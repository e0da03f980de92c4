"""Layouts of a job on a number of GPUs or fewer: those that no other one beats."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ettrick.analysis.optimize.offers import RefusedError, data_width
from ettrick.sim.layouts import sizes_of
from ettrick.sim.prepare.placement import EmptyCluster
from ettrick.sim.prepare.step import PlacedJob
from ettrick.sim.scenario.model import Parallelism
from ettrick.sim.steps import StepPlan, ideal_links
from ettrick.sim.steps.memory import memory_use
from ettrick.sim.steps.plan import Bounds, grouped, variants
from ettrick.sim.steps.workload import divisors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ettrick.sim.cluster import ClusterSpec
    from ettrick.sim.scenario.model import JobSpec
    from ettrick.sim.steps import Links, Workload

_SLOWEST = 0.75
"""Tokens of a second over those of the fastest layout, with which one is a candidate on the same cluster [-]."""

_WIDEST_MICROBATCH = 4
"""Sequences of a microbatch up to which each size has a number of replicas of its own [-]."""

_FEWEST_TOKENS = 4096
"""Tokens of a sequence that a context rank keeps [-]."""


# Layouts of a job on one kind of cluster, the same for all sizes.


class Layout(NamedTuple):
    """A layout where it sits in the empty cluster: its step [s], and the nodes of a replica that leave together."""

    work: Workload
    time: float
    parallelism: Parallelism
    nodes: float

    @property
    def rate(self) -> float:
        """Tokens of a healthy second [1/s]."""
        return self.work.sequences * self.work.sequence / self.time

    def beats(self, rate: float, gpus: int, nodes: float) -> bool:
        """Return whether another layout is no better in anything."""
        return self.rate >= rate and self.work.gpus <= gpus and self.nodes <= nodes

    @property
    def label(self) -> str:
        """The sizes of its groups, its model chunks and microbatch, and what it computes again."""
        work = self.work
        sizes = [work.tensor, work.context, work.pipeline, work.data]
        more = [f"e{work.expert}"] if work.expert > 1 else []
        more += [f"v{work.virtual}"] if work.virtual > 1 else []
        more += [f"m{work.microbatch}"]
        again = " ".join(work.modules) or work.recompute
        return " ".join(["×".join(map(str, sizes)), *more, *([again] if again != "none" else [])])


class Groups:
    """The sizes of groups of a job, and which layouts of them fit; asked for once for all sizes of a cluster."""

    def __init__(self, spec: JobSpec, cluster: ClusterSpec) -> None:
        site = EmptyCluster(cluster, cluster.counts(), None, 0, None)
        case = PlacedJob(site, spec, 0)
        shape, batch = case.shape, spec.batch
        if shape is None or batch is None:
            raise RefusedError("check", f"job '{spec.name}' needs a model and a batch for its layouts")
        stated = spec.parallelism or Parallelism()
        layout = Parallelism(tensor=stated.expert_tensor, expert_tensor=stated.expert_tensor)
        self.base = case.workload(shape, batch, layout, spec.execution)
        self.machine = case.machine(shape, ideal_links(self.base, 1.0, 1.0, 1))
        self.bounds = Bounds(0, self.machine.chip.memory, site.domain, (spec.execution.sharding,))
        self.stated = stated
        self.works: dict[tuple[int, ...], tuple[list[Workload], float]] = {}
        self.links: dict[object, Links] = {}

    @functools.cached_property
    def sizes(self) -> list[tuple[int, int, int]]:
        """Tensor, context and pipeline: stages divide the layers, with or without both ends, or are a power of two."""
        layers, sequence = self.base.shape.layers, self.base.sequence
        stages = {*divisors(layers), *divisors(layers + 2), *(2**power for power in range(12))}
        tensors = [size for size in divisors(self.base.shape.heads) if size <= self.bounds.tensor]
        contexts = [1, *(2**power for power in range(1, 6) if sequence % 2 ** (power + 1) == 0)]
        contexts = [size for size in contexts if size == 1 or sequence >= size * _FEWEST_TOKENS]
        return list(itertools.product(tensors, contexts, sorted(size for size in stages if size <= layers)))

    def fitting(
        self, sizes: tuple[int, int, int], data: int, sequences: int, site: EmptyCluster
    ) -> tuple[list[Workload], float]:
        """Return the layouts of some groups that fit, of those that compute least again, and their ideal step [s]."""
        key = (*sizes, data, sequences)
        if key not in self.works:
            base = replace(self.base, sequences=sequences)
            works: list[Workload] = []
            for group in grouped(base, *sizes, data):
                links = site.ideal_links(group, self.stated, self.machine.chip)
                is_cut = any(getattr(links, kind).network > 0 for kind in self.stated.within_domain)
                if not is_cut and memory_use(replace(group, recompute="full")).total <= self.bounds.memory:
                    works += variants(group, base, self.bounds, least=True)
            times = [self.time(work, site.ideal_links(work, self.stated, self.machine.chip)) for work in works]
            self.works[key] = works, min(times, default=math.inf)
        return self.works[key]

    def time(self, work: Workload, links: Links) -> float:
        """Return the time of a step over some links [s]."""
        return StepPlan(work, replace(self.machine, links=links)).time

    def seated(self, works: Sequence[Workload], order: Sequence[str], site: EmptyCluster, size: float) -> Layout:
        """Return the fastest layout of some groups, with what these get where they sit."""
        first, used = works[0], site.units.needed if site.units is not None else 0
        sizes = (first.tensor, first.context, first.pipeline, first.data, first.expert)
        key = (sizes, tuple(order), used, repr(site.cluster.fabric), tuple(site.levels.values()))
        if key not in self.links:
            place = site.place(self._described(first, order))
            if place is None:
                raise RefusedError("units", f"{first.gpus:,} GPUs are not whole nodes")
            self.links[key] = site.links(place, self.machine.chip, first.ulysses)
        time, work = min(((self.time(work, self.links[key]), work) for work in works), key=lambda pair: pair[0])
        return Layout(work, time, self._described(work, order), size)

    def _described(self, work: Workload, order: Sequence[str]) -> Parallelism:
        """Return a layout as a job describes it."""
        content = {**sizes_of(work), "order": order, "within_domain": self.stated.within_domain}
        return Parallelism.model_validate(content)

    def rows(
        self, site: EmptyCluster, gpus: int, batch: tuple[int, int], step: int, *, whole: bool
    ) -> tuple[list[tuple[float, int, list[Workload]]], list[int], set[int]]:
        """Return ideal rate, GPUs of a replica and layouts of all groups of which some fit; how many do; `of` each."""
        rows: list[tuple[float, int, list[Workload]]] = []
        counts: list[int] = []
        multiples: set[int] = set()
        for sizes in self.sizes:
            replica = math.prod(sizes)
            if replica > gpus or (whole and replica % step):
                continue
            of = step // math.gcd(step, replica)
            multiples.add(of)
            for data, sequences in _widths(gpus // replica, batch, of, self.base.sequences):
                works, least = self.fitting(sizes, data, sequences, site)
                counts.append(len(works))
                rows += [(sequences * self.base.sequence / least, replica, works)] if works else []
        return rows, counts, multiples


def _order(stated: Parallelism, *, whole: bool) -> tuple[str, ...]:
    """Return the order of ranks: that of the job, with replicas last where these are to be whole units."""
    last = [kind for kind in stated.order if kind in ("expert", "data")]
    if not whole or stated.order[-len(last) :] == tuple(last):
        return stated.order
    return (*(kind for kind in stated.order if kind not in last), *last)


class Front(NamedTuple):
    """The layouts of a number of GPUs that no other one beats, fastest first.

    Attributes
    ----------
    fitting
        How many fit into memory.
    divides, multiple
        Whether any divide the batch, and what a batch has to be a multiple of for some to [sequences]; 0 for none.
    """

    layouts: tuple[Layout, ...]
    fitting: int
    divides: bool
    multiple: int


def front_of(groups: Groups, site: EmptyCluster, gpus: int, batch: tuple[int, int], step: int, *, whole: bool) -> Front:
    """Return the layouts on GPUs or fewer that none beats, of those within a quarter of the fastest.

    Jobs grow by `step` GPUs; with `whole`, so do replicas. Layouts are seated in the order of their ideal rates, which
    none exceeds, until no other can be among them: the result is exact.
    """
    order, front = _order(groups.stated, whole=whole), list[Layout]()
    rows, count, multiples = groups.rows(site, gpus, batch, step, whole=whole)
    for rate, replica, works in sorted(rows, key=lambda row: -row[0]):
        size = replica / site.gpus_per_node if whole else 0.0
        if rate < _SLOWEST * max((rival.rate for rival in front), default=0.0):
            break
        if any(rival.beats(rate, works[0].gpus, size) for rival in front):
            continue
        layout = groups.seated(works, order, site, size)
        if not any(rival.beats(layout.rate, layout.work.gpus, size) for rival in front):
            front = [rival for rival in front if not layout.beats(rival.rate, rival.work.gpus, rival.nodes)]
            front.append(layout)
    least = _SLOWEST * max((rival.rate for rival in front), default=0.0)
    layouts = sorted((rival for rival in front if rival.rate >= least), key=lambda rival: -rival.rate)
    return Front(tuple(layouts), sum(count), bool(count), min(multiples, default=0))


@functools.lru_cache(maxsize=100_000)
def _widths(most: int, batch: tuple[int, int], of: int, near: int) -> tuple[tuple[int, int], ...]:
    """Return numbers of replicas and sequences of a step: the most replicas for each size of a microbatch."""
    sizes = (2**power for power in range(_WIDEST_MICROBATCH.bit_length()))
    pairs = (data_width(most, batch, size, of=of, near=near) for size in sizes)
    return tuple(dict.fromkeys(pair for pair in pairs if pair[0]))

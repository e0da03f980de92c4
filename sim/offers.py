"""Offers of a cluster under budgets: the units in which it is owned, their spares, and the layouts of a job on them."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ettrick.sim.formulas import nodes
from ettrick.sim.formulas.arrays import enough_probability
from ettrick.sim.layouts import execution_of, modelled, sizes_of
from ettrick.sim.prepare.cost import facility_of
from ettrick.sim.prepare.failures import build_sources
from ettrick.sim.prepare.placement import EmptyCluster, sized, whole_units
from ettrick.sim.prepare.step import DoesNotFitError
from ettrick.sim.scenario.fields import PathError, RuleError
from ettrick.sim.scenario.model import Parallelism
from ettrick.sim.steps import StepPlan
from ettrick.sim.steps.memory import memory_use
from ettrick.sim.steps.plan import Bounds, grouped, variants
from ettrick.sim.steps.workload import divisors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ettrick.sim.cluster import ClusterSpec
    from ettrick.sim.input.scenario import Scenario
    from ettrick.sim.scenario.model import GlobalBatch, JobSpec
    from ettrick.sim.steps import Links, Workload

SPARE_LEVEL = 0.99
"""Share of the time for which spares are to be enough [-]."""

_SLOWEST = 0.75
"""Tokens of a second over those of the fastest layout, with which one is a candidate on the same cluster [-]."""

_WIDEST_MICROBATCH = 4
"""Sequences of a microbatch up to which each size has a number of replicas of its own [-]."""

_FEWEST_TOKENS = 4096
"""Tokens of a sequence that a context rank keeps [-]."""


# Formulas of counts: exact, and without a scenario.


def largest(fits: Callable[[int], bool]) -> int:
    """Return the largest number that fits, 0 for none; what is larger than one that does not fit does not either."""
    return nodes.fewest(lambda number: float(not fits(number + 1)), 0.5)


def data_width(
    most: int, sequences: tuple[int, int], microbatch: int = 1, *, of: int = 1, near: int | None = None
) -> tuple[int, int]:
    """Return the most replicas and the sequences of a step; 0 and 0 if none divide.

    Parameters
    ----------
    most
        Replicas that there are GPUs for [-].
    sequences
        Fewest and most sequences of a step.
    microbatch, of
        Sequences of a microbatch, and what the replicas have to be a multiple of [-].
    near
        Sequences that are wanted of those that are possible; without it as many as may be.
    """
    least, limit = sequences
    for width in range(min(most, limit // microbatch) // of * of, 0, -of):
        share = width * microbatch
        low, high = -(-least // share), limit // share
        if low <= high:
            wanted = high if near is None else min(max(round(near / share), low), high)
            return width, wanted * share
    return 0, 0


def unit_unavailability(size: int, needed: int, unavailability: float) -> float:
    """Return the probability that fewer nodes of a unit are up than a job needs of it [-]."""
    return 1.0 - enough_probability(nodes.missing_nodes_pmf(size, unavailability), size - needed)


def fewest_spares(owned: int, unavailability: float, level: float = SPARE_LEVEL) -> int:
    """Return the fewest of all units that have to be spares, for the others to be up for a share of the time [-]."""
    law = nodes.missing_nodes_pmf(owned, unavailability)
    return nodes.fewest(lambda spares: enough_probability(law, min(spares, owned)), level)


# Combinations that cannot be.


class RefusedError(ValueError):
    """A combination that cannot be."""

    def __init__(self, kind: str, rule: str) -> None:
        self.kind = kind
        super().__init__(rule)


def refusal_of(error: PathError) -> RefusedError:
    """Return the refusal that a mistake of a scenario amounts to."""
    head, rule = tuple(error.path[:2]), error.rule
    if isinstance(error, DoesNotFitError):
        kind = "memory"
    elif head[:1] == ("recovery",):
        kind = "strategy"
    elif "units" in rule or "scale_up" in error.path:
        kind = "units"
    elif head[:1] == ("spares",) or "spares" in rule:
        kind = "spares"
    elif head == ("cluster", "fabric"):
        kind = "fabric"
    else:
        kind = "divides" if "divide" in rule else "check"
    return RefusedError(kind, f"{'.'.join(map(str, error.path))}: {rule}")


def recounted(before: ClusterSpec, after: ClusterSpec) -> dict[str, int]:
    """Return the tiers whose stated number of switches another size does not keep, with that number."""
    tiers = {tier: [getattr(cluster.fabric, tier, None) for cluster in (before, after)] for tier in ("spine", "core")}
    return {
        tier: former.switches
        for tier, (former, latter) in tiers.items()
        if former is not None and latter is not None and former.switches != latter.switches
    }


def divided(gpus: int, step: int, batch: tuple[int, int], multiple: int) -> str:
    """Return the GPUs and sequences that replicas do not divide, in words, and the nearest batches that they would."""
    low, high = batch
    text = f"{gpus:,} GPUs in steps of {step:,}"
    if not high:
        return text
    text += f" and {low:,} sequences" if low == high else f" and {low:,} to {high:,} sequences"
    near = [f"{count:,}" for count in (low // multiple * multiple, -(-(high + 1) // multiple) * multiple) if count]
    return f"{text}; nearest: {' or '.join(near)}"


# Layouts of a job on one kind of cluster, the same for all sizes.


class JobChange(NamedTuple):
    """Other values of a job; of a layout also its name and its tokens of a healthy second [1/s]."""

    values: Mapping[str, object]
    label: str = ""
    rate: float = 0.0


class SeatedLayout(NamedTuple):
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

    def change(self, spec: JobSpec) -> JobChange:
        """Return a job with this layout, named by sizes of groups, model chunks, microbatch and recomputation."""
        work = self.work
        sizes = "×".join(str(size) for size in (work.tensor, work.context, work.pipeline, work.data))
        again = " ".join(work.modules) or work.recompute
        label = [
            sizes,
            f"e{work.expert}" if work.expert > 1 else "",
            f"v{work.virtual}" if work.virtual > 1 else "",
            f"m{work.microbatch}",
            again if again != "none" else "",
        ]
        values = {
            "gpus": work.gpus,
            "parallelism": self.parallelism,
            "execution": spec.execution.model_copy(update=execution_of(work)),
            "batch": _with_sequences(spec.batch, work.sequences),
        }
        return JobChange(values, " ".join(filter(None, label)), self.rate)


def _with_sequences(batch: GlobalBatch | None, sequences: int) -> GlobalBatch | None:
    """Return a batch of other sequences."""
    return None if batch is None else batch.model_copy(update={"tokens": sequences * batch.sequence})


class LayoutGroups:
    """The sizes of groups of a job, and which layouts of them fit; worked out once for all sizes of a cluster."""

    def __init__(self, spec: JobSpec, cluster: ClusterSpec) -> None:
        site = EmptyCluster(cluster, cluster.counts(), None, 0, None)
        _, self.base, self.machine = modelled(site, spec, 0)
        self.bounds = Bounds(0, self.machine.chip.memory, site.domain, (spec.execution.sharding,))
        self.stated = spec.parallelism or Parallelism()
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

    def seated(self, works: Sequence[Workload], order: Sequence[str], site: EmptyCluster, size: float) -> SeatedLayout:
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
        return SeatedLayout(work, time, self._described(work, order), size)

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


class LayoutFront(NamedTuple):
    """The layouts of a number of GPUs that no other one beats, fastest first.

    Attributes
    ----------
    fitting
        How many fit into memory.
    divides, multiple
        Whether any divide the batch, and what a batch has to be a multiple of for some to [sequences]; 0 for none.
    """

    layouts: tuple[SeatedLayout, ...]
    fitting: int
    divides: bool
    multiple: int


def front_of(
    groups: LayoutGroups, site: EmptyCluster, gpus: int, batch: tuple[int, int], step: int, *, whole: bool
) -> LayoutFront:
    """Return the layouts on GPUs or fewer that none beats, of those within a quarter of the fastest.

    Jobs grow by `step` GPUs; with `whole`, so do replicas. Layouts are seated in the order of their ideal rates, which
    none exceeds, until no other can be among them: the result is exact.
    """
    order, front = _order(groups.stated, whole=whole), list[SeatedLayout]()
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
    return LayoutFront(tuple(layouts), sum(count), bool(count), min(multiples, default=0))


class LayoutFronts:
    """Layouts that none beats, worked out once for all offers of as many GPUs in the same place."""

    def __init__(self) -> None:
        self._groups: dict[str, LayoutGroups] = {}
        self._fronts: dict[object, LayoutFront] = {}

    def of(self, offer: Offer, spec: JobSpec, scenario: Scenario, gpus: int) -> LayoutFront:
        """Return the layouts of a job on GPUs or fewer.

        Raises
        ------
        RefusedError
            If there are none.
        """
        cluster, step = scenario.cluster, offer.step * offer.gpus
        if cluster.nodes is None:
            cluster = offer.cluster(-(-(gpus // offer.gpus + scenario.spares.total) // offer.usable))
        fabric, counts, whole = cluster.fabric, cluster.counts(), scenario.recovery.elastic
        chip = cluster.all_pools[0].accelerator
        job = repr((chip, offer.gpus, cluster.nodes_per_domain, fabric.nic, fabric.rails, spec))
        key = (job, gpus, whole, step, offer.sequences, repr(fabric), counts["pod"] > 1, scenario.scheduler.pack)
        if key not in self._fronts:
            empty = scenario.model_copy(update={"jobs": (), "cluster": cluster})
            site = EmptyCluster.of(empty, counts, whole_units(empty, counts))
            if job not in self._groups:
                self._groups[job] = LayoutGroups(spec, cluster)
            self._fronts[key] = front_of(self._groups[job], site, gpus, offer.sequences, step, whole=whole)
        front = self._fronts[key]
        if front.layouts:
            return front
        if front.divides:
            raise RefusedError("memory", f"no layout on {gpus:,} GPUs or fewer fits into their memory")
        if not front.multiple:
            raise RefusedError("divides", f"no replica of {gpus:,} GPUs or fewer is whole units of {step:,}")
        rule = divided(gpus, step, offer.sequences, front.multiple)
        raise RefusedError("divides", f"no number of replicas divides {rule}")


@functools.lru_cache(maxsize=100_000)
def _widths(most: int, batch: tuple[int, int], of: int, near: int) -> tuple[tuple[int, int], ...]:
    """Return numbers of replicas and sequences of a step: the most replicas for each size of a microbatch."""
    sizes = (2**power for power in range(_WIDEST_MICROBATCH.bit_length()))
    pairs = (data_width(most, batch, size, of=of, near=near) for size in sizes)
    return tuple(dict.fromkeys(pair for pair in pairs if pair[0]))


# One combination of what is named: a scenario, and the units in which its cluster, its job and its spares grow.


@dataclass(frozen=True)
class Offer:
    """A scenario whose cluster may have any size.

    Parameters
    ----------
    scenario, budgets
        The scenario, which need not run, and the limits of what its cluster may take [W, GPUs, currency].
    sequences
        Fewest and most sequences of a step of its first job; 0 without a batch.
    size, usable
        Nodes of a unit that is owned, and those that jobs and spares take of it.
    step
        Nodes by which jobs and spares grow.
    """

    scenario: Scenario
    budgets: Mapping[str, float]
    sequences: tuple[int, int]
    size: int
    usable: int
    step: int

    @classmethod
    def of(cls, scenario: Scenario, budgets: Mapping[str, float], sequences: tuple[int, int] | None) -> Offer:
        """Return the offer of a scenario, in units of scale-up domains, of what is used whole, or of single nodes.

        Raises
        ------
        RefusedError
            If the GPUs that are used of a domain are not whole nodes.
        """
        cluster, unit, job = scenario.cluster, scenario.spares.unit, next(iter(scenario.jobs), None)
        if sequences is None:
            stated = job.batch.tokens // job.batch.sequence if job is not None and job.batch is not None else 0
            sequences = stated, stated
        size = max(cluster.nodes_per_domain, 1)
        if size > 1 and cluster.scale_up is not None and cluster.scale_up.swap_unit != "tray":
            if cluster.scale_up.used % cluster.gpus_of_a_node:
                rule = f"{cluster.scale_up.used} GPUs of a domain are not whole nodes of {cluster.gpus_of_a_node}"
                raise RefusedError("units", rule)
            used = cluster.scale_up.used // cluster.gpus_of_a_node
            return cls(scenario, budgets, sequences, size, used, used)
        if size == 1 and unit is not None and unit in cluster.domain_nodes:
            size = cluster.domain_nodes[unit]
            return cls(scenario, budgets, sequences, size, size, size)
        return cls(scenario, budgets, sequences, size, size, 1)

    @property
    def job(self) -> JobSpec | None:
        """The job that follows, if there are named jobs."""
        return next(iter(self.scenario.jobs), None)

    @property
    def gpus(self) -> int:
        """GPUs of a node [-]."""
        return self.scenario.cluster.gpus_of_a_node

    def nodes(self, job: JobSpec) -> int:
        """Return the nodes of a job."""
        return -(-job.gpus // self.gpus)

    def room(self, cluster: ClusterSpec) -> int:
        """Return the nodes of a cluster that jobs and spares may have [-]."""
        return cluster.hosts.nodes // self.size * self.usable

    def words(self, units: int) -> str:
        """Return a number of units that are owned, in words."""
        racks = self.scenario.cluster.rack.nodes == self.size > 1
        word = "node" if self.size == 1 else "rack" if racks else "domain"
        return f"{units:,} {word}{'' if units == 1 else 's'}"

    @functools.cached_property
    def _clusters(self) -> dict[int, ClusterSpec]:
        return {}

    def cluster(self, units: int) -> ClusterSpec:
        """Return the cluster of so many units, its switches counted."""
        if units not in self._clusters:
            try:
                self._clusters[units] = self.scenario.cluster.resized(units * self.size)
            except RuleError as error:
                kind = "fabric" if error.at[:1] == ("fabric",) else "units"
                raise RefusedError(kind, f"{self.words(units)}: {error.rule}") from None
        return self._clusters[units]

    def uncabled(self, units: int) -> str:
        """Return why the fabric cannot join so many units; empty where it can."""
        try:
            self.cluster(units)
        except RefusedError as error:
            return str(error) if error.kind == "fabric" else ""
        return ""

    def demand(self, cluster: ClusterSpec) -> dict[str, float]:
        """Return the part of each budget that a cluster takes [W, GPUs, currency]."""
        hosts, cost = cluster.hosts, self.scenario.cost
        demand = {"gpus": float(hosts.nodes * hosts.gpus)}
        if "capex" in self.budgets and cost is not None and cost.capex is not None:
            demand["capex"] = demand["gpus"] * cost.capex
        if "power" in self.budgets:
            site = EmptyCluster(cluster, cluster.counts(), None, 0, None)
            try:
                facility = facility_of(self.scenario, site)
            except PathError as error:
                raise RefusedError("budget", error.rule) from None
            if facility is None:
                raise RefusedError("budget", "it is not known what a node draws: give power.idle and power.training")
            demand["power"] = facility.provisioned(hosts.nodes)
        return demand

    def check_budgets(self, cluster: ClusterSpec) -> None:
        """Refuse a cluster that takes more than a budget has."""
        demand = self.demand(cluster)
        for name, limit in self.budgets.items():
            if demand[name] > limit:
                what = self.words(cluster.hosts.nodes // self.size)
                rule = f"{what}: {amount(name, demand[name])}, and the budget is {amount(name, limit)}"
                raise RefusedError("budget", rule)

    def most(self) -> int:
        """Return the most units that every budget and the fabric allow."""

        def fits(units: int) -> bool:
            try:
                self.check_budgets(self.cluster(units))
            except RefusedError:
                return False
            return True

        if self.scenario.cluster.pools:
            raise RefusedError("check", "a cluster of pools has no size that could be derived: give it nodes")
        units = largest(fits)
        if not units:
            self.check_budgets(self.cluster(1))
        return units

    def unavailability(self, cluster: ClusterSpec) -> float:
        """Return for which share of time a unit that jobs take whole, or a node, is short of healthy nodes [-]."""
        scenario = self.scenario.model_copy(update={"cluster": cluster})
        of_node = shared = 0.0
        for source in build_sources(scenario, cluster.counts())[0]:
            if source.part == "job" or source.repair is None or not source.effect.stops:
                continue
            down = source.rate * source.interrupts * source.repair.mean_value / cluster.hosts.nodes
            if source.slots_per_node:
                of_node += down
            elif not source.of_fabric:
                shared += down * cluster.nodes_behind(source.part)
        of_node, shared = of_node / (1 + of_node), shared / (1 + shared)
        if self.step == 1:
            return 1 - (1 - of_node) * (1 - shared)
        drains = self.scenario.cluster.scale_up is not None and self.scenario.cluster.scale_up.drains
        needed = self.size if drains else self.step
        return 1 - (1 - unit_unavailability(self.size, needed, of_node)) * (1 - shared)

    def spares(self, cluster: ClusterSpec | None) -> list[int]:
        """Return the fewest hot spares that are enough, and up to two units more and fewer [nodes].

        A job takes what they leave of a cluster; without one the cluster follows from both.
        """
        if cluster is not None:
            most = self.room(cluster) // self.step - 1
            owned = cluster.hosts.nodes // (self.size if self.step > 1 else 1)
            fewest = fewest_spares(owned, self.unavailability(cluster))
        else:
            most, scenario = 10**6, sized(self.scenario)
            needed = -(-sum(map(self.nodes, scenario.jobs)) // self.step)
            fewest = nodes.spares_needed(needed, self.unavailability(scenario.cluster), SPARE_LEVEL)
        counts = range(max(fewest - 2, 0), min(fewest + 2, most) + 1)
        if not counts:
            rule = f"{fewest:,} spares are needed for {SPARE_LEVEL:.0%} of the time, and that leaves nothing to a job"
            raise RefusedError("spares", rule)
        return [count * self.step for count in counts]

    def free(self, scenario: Scenario) -> int:
        """Return the GPUs that spares and other jobs leave to the first job [-]."""
        reserved = scenario.spares.total + sum(map(self.nodes, scenario.jobs[1:]))
        free = (self.room(scenario.cluster) - reserved) // self.step * self.step * self.gpus
        if free <= 0:
            rule = f"{reserved:,} nodes are for spares and other jobs, which leaves none to the job"
            raise RefusedError("units", rule)
        return free

    def widened(self, spec: JobSpec, gpus: int) -> JobChange:
        """Return a job on GPUs or fewer with as many of its replicas as these and its batch allow."""
        layout, batch, step = spec.parallelism, spec.batch, self.step * self.gpus
        if layout is None:
            return JobChange({"gpus": gpus})
        replica = layout.gpus // layout.data
        of = step // math.gcd(step, replica)
        data, sequences = gpus // replica // of * of, 0
        if batch is not None:
            near = batch.tokens // batch.sequence
            data, sequences = data_width(data, self.sequences, spec.execution.microbatch, of=of, near=near)
        if not data:
            rule = divided(gpus, step, self.sequences, of * spec.execution.microbatch)
            raise RefusedError("divides", f"no number of replicas of {replica:,} GPUs divides {rule}")
        parallelism = layout.model_copy(update={"data": data})
        batch = _with_sequences(batch, sequences)
        return JobChange({"gpus": data * replica, "parallelism": parallelism, "batch": batch})


def amount(budget: str, value: float) -> str:
    """Return an amount of a budget in words."""
    if budget == "power":
        return f"{value / 1e6:,.5g} MW"
    return f"{value:,.0f} GPUs" if budget == "gpus" else f"capex {value:,.6g}"

"""Offers of a cluster: the units in which it is owned, what a number of them takes of a budget, and who is down."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ettrick.sim.formulas import nodes
from ettrick.sim.formulas.arrays import enough_probability
from ettrick.sim.prepare.cost import facility_of
from ettrick.sim.prepare.failures import build_sources
from ettrick.sim.prepare.placement import EmptyCluster
from ettrick.sim.prepare.step import DoesNotFitError
from ettrick.sim.scenario.fields import PathError, RuleError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ettrick.analysis.study.amounts import AxisPosition
    from ettrick.sim import Scenario
    from ettrick.sim.cluster import ClusterSpec
    from ettrick.sim.scenario.model import JobSpec

LEVEL = 0.99
"""Share of the time for which spares are to be enough [-]."""


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


def usable_units(owned: int, unavailability: float, level: float = LEVEL) -> int:
    """Return how many of all units are usable at once for a share of the time [-]."""
    return owned - fewest_spares(owned, unavailability, level)


def fewest_spares(owned: int, unavailability: float, level: float = LEVEL) -> int:
    """Return the fewest of all units that have to be spares, for the others to be up for a share of the time [-]."""
    law = nodes.missing_nodes_pmf(owned, unavailability)
    return nodes.fewest(lambda spares: enough_probability(law, min(spares, owned)), level)


def usable_share(size: int, segment: int, unavailability: float) -> float:
    """Return the mean share of a unit's nodes that whole segments of it can use [-]."""
    law = nodes.missing_nodes_pmf(size, unavailability)
    up = size - np.arange(size + 1)
    return float(law @ (up // segment * segment)) / size


# One combination of what is named: a scenario, and the units in which its cluster, its job and its spares grow.


class RefusedError(ValueError):
    """A combination that cannot be."""

    def __init__(self, kind: str, rule: str) -> None:
        self.kind = kind
        super().__init__(rule)


def kind_of(error: PathError) -> tuple[str, str]:
    """Return which reason a mistake of a scenario stands for, and the mistake."""
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
    return kind, f"{'.'.join(map(str, error.path))}: {rule}"


def recounted(before: ClusterSpec, after: ClusterSpec) -> dict[str, int]:
    """Return the tiers whose stated number of switches another size does not keep, with that number."""
    tiers = {tier: [getattr(cluster.fabric, tier, None) for cluster in (before, after)] for tier in ("spine", "core")}
    return {
        tier: former.switches
        for tier, (former, latter) in tiers.items()
        if former is not None and latter is not None and former.switches != latter.switches
    }


def divided(gpus: int, step: int, batch: tuple[int, int], multiple: int) -> str:
    """Return what replicas do not divide, in words, and the nearest batches that they would."""
    low, high = batch
    text = f"{gpus:,} GPUs in steps of {step:,}"
    if not high:
        return text
    text += f" and {low:,} sequences" if low == high else f" and {low:,} to {high:,} sequences"
    near = [f"{count:,}" for count in (low // multiple * multiple, -(-(high + 1) // multiple) * multiple) if count]
    return f"{text}; nearest: {' or '.join(near)}"


@dataclass(frozen=True)
class Offer:
    """What is named, and what of it follows for sizes.

    Parameters
    ----------
    size, usable
        Nodes of a unit that is owned, and those that jobs and spares take of it.
    step
        Nodes by which jobs and spares grow.
    """

    values: Mapping[str, AxisPosition]
    scenario: Scenario
    size: int
    usable: int
    step: int

    @classmethod
    def of(cls, values: Mapping[str, AxisPosition], scenario: Scenario) -> Offer:
        """Return the units of a scenario: scale-up domains, those that are used whole, or single nodes."""
        cluster, unit = scenario.cluster, scenario.spares.unit
        size = max(cluster.nodes_per_domain, 1)
        if size > 1 and cluster.scale_up is not None and cluster.scale_up.swap_unit != "tray":
            if cluster.scale_up.used % cluster.gpus_of_a_node:
                rule = f"{cluster.scale_up.used} GPUs of a domain are not whole nodes of {cluster.gpus_of_a_node}"
                raise RefusedError("units", rule)
            used = cluster.scale_up.used // cluster.gpus_of_a_node
            return cls(values, scenario, size, used, used)
        if size == 1 and unit is not None and unit in cluster.domain_nodes:
            size = cluster.domain_nodes[unit]
            return cls(values, scenario, size, size, size)
        return cls(values, scenario, size, size, 1)

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

    def demand(self, cluster: ClusterSpec, budgets: Mapping[str, float]) -> dict[str, float]:
        """Return what a cluster takes of each budget [W, GPUs, currency]."""
        hosts, cost = cluster.hosts, self.scenario.cost
        demand = {"gpus": float(hosts.nodes * hosts.gpus)}
        if "capex" in budgets and cost is not None and cost.capex is not None:
            demand["capex"] = demand["gpus"] * cost.capex
        if "power" in budgets:
            site = EmptyCluster(cluster, cluster.counts(), None, 0, None)
            try:
                facility = facility_of(self.scenario, site)
            except PathError as error:
                raise RefusedError("budget", error.rule) from None
            if facility is None:
                raise RefusedError("budget", "it is not known what a node draws: give power.idle and power.training")
            demand["power"] = facility.provisioned(hosts.nodes)
        return demand

    def check_budgets(self, cluster: ClusterSpec, budgets: Mapping[str, float]) -> None:
        """Refuse a cluster that takes more than a budget has."""
        demand = self.demand(cluster, budgets)
        for name, limit in budgets.items():
            if demand[name] > limit:
                what = self.words(cluster.hosts.nodes // self.size)
                rule = f"{what}: {amount(name, demand[name])}, and the budget is {amount(name, limit)}"
                raise RefusedError("budget", rule)

    def most(self, budgets: Mapping[str, float]) -> int:
        """Return the most units that every budget and the fabric allow."""

        def fits(units: int) -> bool:
            try:
                self.check_budgets(self.cluster(units), budgets)
            except RefusedError:
                return False
            return True

        if self.scenario.cluster.pools:
            raise RefusedError("check", "a cluster of pools has no size that could be derived: give it nodes")
        units = largest(fits)
        if not units:
            self.check_budgets(self.cluster(1), budgets)
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


def amount(budget: str, value: float) -> str:
    """Return an amount of a budget in words."""
    if budget == "power":
        return f"{value / 1e6:,.5g} MW"
    return f"{value:,.0f} GPUs" if budget == "gpus" else f"capex {value:,.6g}"

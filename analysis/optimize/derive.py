"""The candidates of a problem: what is chosen, what follows from it, and why some of it cannot be.

Of every combination of the axes that a study lists, the derived ones follow in this order:

* *size*: units that are owned, scale-up domains or what jobs use whole, else nodes. The largest number that every
  budget and the fabric allow, by bisection on the cluster with its switches counted; 5, 10 and 15 % less; the number
  that the fastest layout uses of the largest; and where the goal divides by cost, power or GPUs, halves of the largest,
  of which nothing is owned that is not used.
* *spares*: the fewest units that are enough for `LEVEL` of the time, exposed like all others, and up to two more and
  fewer.
* *layout*: of every size of groups the most replicas that GPUs and batch allow; kept are those within a quarter of the
  fastest that no other beats on as many GPUs or fewer. Where single replicas leave, also what has smaller ones, in an
  order of ranks that keeps them whole. GPUs that are left are withheld: they are no spares in silence.
* *interval*: the optimum of stall and mean time to interrupt, and that times and over 1.4 and 1.96, to two digits.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick import sim
from ettrick.analysis.optimize.problem import Derived, NumericRange
from ettrick.analysis.study.amounts import AxisPosition, Point
from ettrick.analysis.study.model import where_labels
from ettrick.sim.formulas import goodput
from ettrick.sim.input import complaints
from ettrick.sim.units import DURATION, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from ettrick.analysis.optimize.problem import Domain, Problem
    from ettrick.sim import ClusterSpec, JobChange, Offer, Prepared, Scenario
    from ettrick.sim.scenario.model import JobSpec

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]
    Positions = Mapping[str, AxisPosition]
    """The values of some axes."""

NOT_HERE = AxisPosition("–", None, ())
"""The position on an axis that does not exist for the other choices."""

_ORDER = {"size": 1, "spares": 2, "layout": 3, "interval": 4}
"""The order in which derived values follow, after all others."""

_MOST_LISTED = 10**7
"""Combinations of what is not derived; more are a slip of the pen."""

_SHARES = (1.0, 0.95, 0.9, 0.85)
"""Sizes relative to the largest [-]."""

_APART = 1.4
"""Factor between two intervals [-]."""

_LAYOUTS = 8
"""Neighbours of a layout, those with the nearest steps [-]."""

_MOST_HELPED = 2**16
"""Units up to which a size with a candidate is looked for [-]."""


# What an answer is made of.


class Infeasible(NamedTuple):
    """Combinations that cannot be, for one reason.

    Attributes
    ----------
    kind
        ``budget``, ``fabric``, ``spares``, ``units``, ``divides``, ``memory``, ``strategy`` or ``check``.
    axis, value
        The value of an axis, or those of two, of which no combination is feasible; empty where none is to blame.
    count, first
        How many, and what is wrong with the first.
    """

    kind: str
    axis: str
    value: str
    count: int  # type: ignore[assignment]
    first: str


@dataclass(frozen=True)
class Listing:
    """The candidates of a problem.

    Parameters
    ----------
    names
        Axes that are chosen or derived, in the order of the study.
    candidates
        Of each a position per axis; `NOT_HERE` on those that do not apply.
    bases, base_of
        Examined scenarios, one for all that differ in no more than the interval, and the base of each candidate.
    step_time, tokens
        Time of a step [s] and its tokens; 0 where unknown.
    interval
        Time between saves to the remote store [s]; NaN for that of the base.
    used
        The part of each budget that each candidate takes [W, GPUs, currency].
    infeasible
        Combinations that cannot be, by reason.
    listed, dominated
        All that was looked at, and what another layout beats whatever fails.
    helps
        The smallest limit of each budget with which something is feasible, where nothing is.
    facts
        Consequences of the choices of each base, by name.
    shrinks
        Whether sizes are those that are used, so that they follow from all else.
    kinds, conditions
        The kind of each axis (``named``, ``ordered``, or what is derived), and those on which its existence depends.
    """

    names: tuple[str, ...]
    candidates: tuple[tuple[AxisPosition, ...], ...]
    bases: tuple[Prepared, ...]
    base_of: IntArray
    step_time: FloatArray
    tokens: FloatArray
    interval: FloatArray
    used: Mapping[str, FloatArray]
    infeasible: tuple[Infeasible, ...]
    listed: int
    dominated: int
    helps: Mapping[str, float]
    facts: tuple[Mapping[str, str], ...]
    kinds: Mapping[str, str]
    shrinks: bool
    conditions: Mapping[str, tuple[str, ...]]

    def derived(self, index: int) -> Mapping[str, str]:
        """Return the consequences of the choices of a candidate, by name."""
        return self.facts[int(self.base_of[index])]

    @functools.cached_property
    def _codes(self) -> IntArray:
        """The number of each label of an axis, (candidates, axes)."""
        numbers: list[dict[str, int]] = [{} for _ in self.names]
        rows = [[codes.setdefault(p.label, len(codes)) for codes, p in zip(numbers, row, strict=True)]
                for row in self.candidates]  # fmt: skip
        return np.array(rows, dtype=np.int64).reshape(-1, len(self.names))

    @functools.cached_property
    def _places(self) -> FloatArray:
        """The place of each candidate on ordered axes, on a log scale, and its step on the axis of layouts."""
        places = np.zeros((len(self.candidates), len(self.names)))
        for column, name in enumerate(self.names):
            numbers = [row[column].number for row in self.candidates]
            if self.kinds[name] == "layout":
                places[:, column] = np.log(np.maximum(self.step_time, 1e-9))
            elif self.kinds[name] != "named":
                places[:, column] = [0.0 if number is None else math.log1p(max(number, 0.0)) for number in numbers]
        return places

    def nearest(self, index: int, moves: Mapping[int, int]) -> int | None:
        """Return the candidate with other values on some axes (column: code) that differs least in what follows.

        Named values, and derived ones from which those that are moved follow, stay as they are.
        """
        codes, start = self._codes, self._codes[index]
        last = max(self.rank(column, is_moved=True) for column in moves)
        fits, free = np.ones(len(codes), dtype=bool), np.zeros(len(self.names), dtype=bool)
        for column in range(len(self.names)):
            if column in moves:
                fits &= codes[:, column] == moves[column]
            elif self.rank(column) > last or any(self._depends(column, place) for place in moves):
                free[column] = True
            else:
                fits &= codes[:, column] == start[column]
        rows = np.flatnonzero(fits)
        if not len(rows):
            return None
        apart = (codes[rows][:, free] != start[free]).sum(axis=1)
        far = np.abs(self._places[rows][:, free] - self._places[index][free]).sum(axis=1)
        return int(rows[np.lexsort((far, apart))[0]])

    def rank(self, column: int, *, is_moved: bool = False) -> int:
        """Return where an axis stands in the order in which values follow: named ones first; sizes that shrink last."""
        kind = self.kinds[self.names[column]]
        return len(_ORDER) + 1 if kind == "size" and self.shrinks and not is_moved else _ORDER.get(kind, 0)

    def _depends(self, column: int, place: int) -> bool:
        """Return whether an axis exists for some values of another one only."""
        return self.names[place] in self.conditions.get(self.names[column], ())


def neighbours(listing: Listing, index: int) -> list[tuple[int, str]]:
    """Return the candidates next to one, each with the axis, or the two axes, in which it was moved.

    They are one step away on ordered axes, have another value of named ones and another layout; pairs of size and
    spares, and of layout and each named axis, are moved together. Derived values stay, or are as near as can be.
    """
    moves = {name: list(_moves(listing, index, column)) for column, name in enumerate(listing.names)}
    column_of = {name: column for column, name in enumerate(listing.names)}
    moved: dict[int, str] = {}
    for name, codes in moves.items():
        for code in codes:
            _add(moved, listing.nearest(index, {column_of[name]: code}), name)
    for first, second in itertools.combinations(listing.names, 2):
        kinds = {listing.kinds[first], listing.kinds[second]}
        if kinds in ({"size", "spares"}, {"layout", "named"}):
            for pair in itertools.product(moves[first], moves[second]):
                at = dict(zip((column_of[first], column_of[second]), pair, strict=True))
                _add(moved, listing.nearest(index, at), f"{first} × {second}")
    moved.pop(index, None)
    return list(moved.items())


def _add(moved: dict[int, str], candidate: int | None, name: str) -> None:
    if candidate is not None:
        moved.setdefault(candidate, name)


def _moves(listing: Listing, index: int, column: int) -> Iterator[int]:
    """Yield the codes of an axis to which a candidate may move."""
    codes, start, columns = listing._codes[:, column], listing._codes[index], range(len(listing.names))
    kind, rank = listing.kinds[listing.names[column]], listing.rank(column, is_moved=True)
    if kind == "named":
        yield from (int(code) for code in np.unique(codes) if code != start[column])
        return
    before = [place for place in columns if place != column and (listing.rank(place) or -1) < rank]
    like = (listing._codes[:, before] == start[before]).all(axis=1) & (codes != start[column])
    place = listing._places[:, column]
    sides = (like,) if kind == "layout" else (like & (place < place[index]), like & (place > place[index]))
    for side in sides:
        rows = np.flatnonzero(side)
        near = rows[np.argsort(np.abs(place[rows] - place[index]), kind="stable")]
        yield from list(dict.fromkeys(codes[near].tolist()))[: _LAYOUTS if kind == "layout" else 1]


# The list itself.


class _Refusal(NamedTuple):
    """A combination that cannot be: its labels by axis, and why."""

    labels: Mapping[str, str]
    kind: str
    rule: str


class _Lister:
    """The candidates of a problem as they are made, and all that cannot be."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.axis_of = {domain.kind: name for name, domain in problem.domains.items() if isinstance(domain, Derived)}
        self.budgets = problem.spec.budget.limits if problem.spec.budget is not None else {}
        self.rows: list[tuple[tuple[AxisPosition, ...], int, float]] = []
        """Candidates: positions, number of the base, interval [s]."""
        self.seen: set[tuple[str, ...]] = set()
        self.bases: list[Prepared] = []
        self.facts: list[dict[str, str]] = []
        self.used: list[dict[str, float]] = []
        self.refusals: list[_Refusal] = []
        self.counts: Counter[tuple[str, str]] = Counter()
        """The number of combinations of each value of an axis, and of each pair of values."""
        self.fronts = sim.LayoutFronts()
        self.listed = self.dominated = 0
        self.follows = bool({"size", "layout"} & self.axis_of.keys())
        """Whether the job follows from the cluster."""
        aim = problem.aims[0].name
        self.shrinks = aim.startswith(("tokens_per_", "cost", "energy", "co2")) and aim != "tokens_per_day"
        """Whether the goal divides by what is owned, so that nothing is owned that is not used."""

    def offers(self) -> Sequence[tuple[Positions, Offer]]:
        """Return the offer of every combination of what is named."""
        loaded, batch, offers = self.problem.loaded, self.problem.spec.batch, []
        values: Positions
        for values in _named(self.problem):
            chosen = [values.get(name, NOT_HERE) for name in self.problem.domains]
            point = Point(0, 0, 0, self.problem.values(chosen, 0))
            try:
                scenario = loaded.template.scenario(loaded.overrides(point), must_run=False)
                sequences = None if batch is None else (batch.sequences[0], batch.sequences[1])
                offers.append((values, sim.Offer.of(scenario, self.budgets, sequences)))
            except sim.ScenarioError as error:
                kind = "units" if "scale_up" in str(error) else "check"
                self._refuse(values, sim.RefusedError(kind, error.lines[0]))
            except sim.RefusedError as error:
                self._refuse(values, error)
        return offers

    def _refuse(self, values: Positions, error: sim.RefusedError | sim.PathError) -> None:
        refusal = sim.refusal_of(error) if isinstance(error, sim.PathError) else error
        labels = {name: value.label for name, value in values.items() if value is not NOT_HERE}
        self.refusals.append(_Refusal(labels, refusal.kind, str(refusal)))
        self._count(labels)

    def _count(self, labels: Mapping[str, str]) -> None:
        self.listed += 1
        self.counts.update(labels.items())
        self.counts.update(_pairs(labels))

    def add(self, values: Positions, offer: Offer) -> None:
        """List the sizes of an offer; of derived ones the largest first: its fastest layout is on another one."""
        cluster = offer.scenario.cluster
        try:
            if "size" not in self.axis_of:
                self.add_size(values, offer, cluster if cluster.states_nodes else None, 0)
                return
            most = offer.most()
            used = self.add_size(values, offer, offer.cluster(most), most)
            sizes = {math.floor(most * share + 1e-9) for share in _SHARES} | {used}
            if self.shrinks:
                sizes |= {most >> power for power in range(1, most.bit_length())}
            for units in sorted(sizes - {most, 0}, reverse=True):
                self.add_size(values, offer, offer.cluster(units), units)
        except (sim.RefusedError, sim.PathError) as error:
            self._refuse(values, error)

    def add_size(self, values: Positions, offer: Offer, cluster: ClusterSpec | None, units: int) -> int:
        """List the spares of a size; return the fewest units that the fastest layout uses, 0 for none."""
        fastest = (0.0, 0)
        for hot in offer.spares(cluster) if "spares" in self.axis_of else [offer.scenario.spares.hot]:
            try:
                scenario = self._with_spares(offer, cluster, hot)
                for change in self._changes(offer, scenario, is_free=cluster is not None):
                    fastest = max(fastest, self._add_base(values, offer, scenario, change, units))
            except (sim.RefusedError, sim.PathError) as error:
                self._refuse(values, error)
        return -fastest[1]

    def _with_spares(self, offer: Offer, cluster: ClusterSpec | None, hot: int) -> Scenario:
        """Return the scenario with a cluster and spares; GPUs that a derived job leaves are withheld."""
        spares = offer.scenario.spares.model_copy(update={"hot": hot})
        if self.follows and "idle" not in spares.model_fields_set:
            spares = spares.model_copy(update={"idle": "withhold"})
        return offer.scenario.model_copy(update={"spares": spares, "cluster": cluster or offer.scenario.cluster})

    def _changes(self, offer: Offer, scenario: Scenario, *, is_free: bool) -> list[JobChange]:
        """Return the layouts of the job, or as many replicas as there is room for, or no change where none follows."""
        spec = offer.job
        if spec is None or not self.follows:
            return [sim.JobChange({})]
        gpus = offer.free(scenario) if is_free else spec.gpus
        if "layout" not in self.axis_of:
            return [offer.widened(spec, gpus)]
        front = self.fronts.of(offer, spec, scenario, gpus)
        self.listed += front.fitting - len(front.layouts)
        self.dominated += front.fitting - len(front.layouts)
        return [layout.change(spec) for layout in front.layouts]

    def _add_base(
        self, values: Positions, offer: Offer, scenario: Scenario, change: JobChange, units: int
    ) -> tuple[float, int]:
        """Examine the scenario of a layout and list its intervals; return its tokens of a second and -units used."""
        scenario = scenario.with_job(0, **change.values) if change.values else scenario
        used = -(-(scenario.spares.total + sum(map(offer.nodes, scenario.jobs))) // offer.usable)
        try:
            if units and self.shrinks and 0 < used < units:
                units = used
                scenario = scenario.model_copy(update={"cluster": offer.cluster(units)})
            scenario = sim.sized(scenario)
            offer.check_budgets(scenario.cluster)
            positions = {**values, **self._positions(offer, scenario, change, units)}
            labels = tuple(position.label for position in positions.values())
            if labels not in self.seen:
                self._add_rows(positions, sim.check(scenario))
                self.facts.append(_facts(offer, self.bases[-1], units))
                self.used.append(offer.demand(scenario.cluster))
            self.seen.add(labels)
        except (sim.RefusedError, sim.PathError) as error:
            self._refuse(values, error)
            return 0.0, 0
        return change.rate, -used

    def _add_rows(self, positions: dict[str, AxisPosition], prepared: Prepared) -> None:
        """List the intervals of a base."""
        intervals = _intervals(prepared) if "interval" in self.axis_of else {math.nan: NOT_HERE}
        self.bases.append(prepared)
        for interval, position in intervals.items():
            if "interval" in self.axis_of:
                positions[self.axis_of["interval"]] = position
            row = tuple(positions[name] for name in self.problem.domains)
            self.rows.append((row, len(self.bases) - 1, interval))
            self._count({name: at.label for name, at in positions.items() if at is not NOT_HERE})

    def _positions(self, offer: Offer, scenario: Scenario, change: JobChange, units: int) -> dict[str, AxisPosition]:
        """Return the positions on the axes of size, spares and layout, with all that they write to the scenario."""
        hot, settings = scenario.spares.hot, dict[str, list[tuple[str, Any]]](size=[], layout=[])
        if units:
            settings["size"] = [("cluster.nodes", scenario.cluster.hosts.nodes)]
            tiers = sim.recounted(offer.scenario.cluster, scenario.cluster)
            settings["size"] += [(f"cluster.fabric.{tier}.switches", None) for tier in tiers]
        followers = settings["layout" if "layout" in self.axis_of else "size"]
        if scenario.spares.idle != offer.scenario.spares.idle:
            followers.append(("spares.idle", scenario.spares.idle))
        if offer.job is not None and change.values:
            followers += _job_settings(offer.job, scenario.jobs[0])
        positions = {
            "size": AxisPosition(offer.words(units), float(scenario.cluster.hosts.nodes), tuple(settings["size"])),
            "spares": AxisPosition(f"{hot // offer.step:,}", float(hot // offer.step), (("spares.hot", hot),)),
            "layout": AxisPosition(change.label, None, tuple(settings["layout"])),
        }
        return {name: positions[kind] for kind, name in self.axis_of.items() if kind in positions}

    # ---------------------------------------------------------------------------------------- the answer

    def listing(self) -> Listing:
        """Return the list."""
        axes, domains = self.problem.loaded.study.vary, self.problem.domains
        base_of = np.array([base for _, base, _ in self.rows], dtype=np.int64)
        jobs = [next(((job.step_time, float(job.tokens)) for job in base.jobs), (0.0, 0.0)) for base in self.bases]
        of_base = np.array(jobs, dtype=float).reshape(-1, 2)
        return Listing(
            names=tuple(domains),
            candidates=tuple(positions for positions, _, _ in self.rows),
            bases=tuple(self.bases),
            base_of=base_of,
            step_time=of_base[base_of, 0],
            tokens=of_base[base_of, 1],
            interval=np.array([interval for _, _, interval in self.rows]),
            used={name: np.array([used[name] for used in self.used])[base_of] for name in self.budgets if self.used},
            infeasible=tuple(self._reasons()),
            listed=self.listed,
            dominated=self.dominated,
            helps={} if self.rows else _what_helps(self.problem),
            facts=tuple(self.facts),
            shrinks=self.shrinks and "size" in self.axis_of,
            kinds={name: _kind(domain) for name, domain in domains.items()},
            conditions={name: tuple(axes[name].where) for name in domains},
        )

    def _reasons(self) -> Iterator[Infeasible]:
        """Yield why combinations cannot be: first by values of which none can, then by pairs of these, then by kind."""
        left = self.refusals
        for items in (lambda labels: list(labels.items()), _pairs):
            counts = Counter(item for row in left for item in items(row.labels))
            for item, count in counts.items():
                is_only = all(name != item[0] or label == item[1] for name, label in self.counts)
                if count == self.counts[item] and not is_only:
                    yield from _by_kind([row for row in left if item in items(row.labels)], *item)
                    left = [row for row in left if item not in items(row.labels)]
        yield from _by_kind(left, "", "")


def _pairs(labels: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the pairs of values of two axes, named as one axis and one value."""
    pairs = itertools.combinations(labels.items(), 2)
    return [(f"{first} × {second}", f"{label}, {rival}") for (first, label), (second, rival) in pairs]


def _by_kind(refusals: Sequence[_Refusal], axis: str, value: str) -> Iterator[Infeasible]:
    """Yield a line for each kind of refusals."""
    for kind in dict.fromkeys(row.kind for row in refusals):
        rules = [row.rule for row in refusals if row.kind == kind]
        yield Infeasible(kind, axis, value, len(rules), rules[0])


def _kind(domain: Domain) -> str:
    """Return the kind of an axis: the one that it derives, or whether its values lie in an order."""
    if isinstance(domain, Derived):
        return domain.kind
    return "ordered" if isinstance(domain, NumericRange) else "named"


_SPREAD = 9
"""Values of a range without steps that are listed [-]."""


def _named(problem: Problem) -> Iterator[dict[str, AxisPosition]]:
    """Yield the combinations of what is not derived; of axes that do not exist there, `NOT_HERE`."""
    where = {name: axis.where for name, axis in problem.loaded.study.vary.items()}
    lists: dict[str, tuple[AxisPosition, ...]] = {}
    for name, domain in problem.domains.items():
        if isinstance(domain, NumericRange) and not domain.steps:
            lists[name] = tuple(domain.spread(_SPREAD))
        elif not isinstance(domain, Derived):
            lists[name] = domain.values
    count = math.prod(map(len, lists.values()))
    if count > _MOST_LISTED:
        rule = f"makes {count:,} combinations before any is derived, and at most {_MOST_LISTED:,} are listed: vary less"
        raise sim.ScenarioError([complaints.line(problem.loaded.document, ("vary",), rule)])
    first = [name for name in lists if not where[name]]
    for chosen in itertools.product(*(lists[name] for name in first)):
        values = dict(zip(first, chosen, strict=True))
        inner = {name: lists[name] if _exists(where[name], values) else (NOT_HERE,) for name in lists if where[name]}
        for more in itertools.product(*inner.values()):
            yield values | dict(zip(inner, more, strict=True))


def _exists(where: Mapping[str, Any], values: Mapping[str, AxisPosition]) -> bool:
    """Return whether an axis exists where others have some values."""
    return all(values[name].label in where_labels(content) for name, content in where.items())


def _job_settings(before: JobSpec, job: JobSpec) -> list[tuple[str, Any]]:
    """Return the settings that turn the description of the first job into another one."""
    settings: list[tuple[str, Any]] = [("jobs.0.gpus", job.gpus)]
    if job.parallelism is not None:
        settings += [("jobs.0.parallelism", job.parallelism.model_dump(mode="json", exclude_defaults=True))]
    former, latter = before.execution.model_dump(mode="json"), job.execution.model_dump(mode="json")
    settings += [(f"jobs.0.execution.{key}", value) for key, value in latter.items() if value != former[key]]
    if job.batch is not None and job.batch != before.batch:
        settings += [("jobs.0.batch.tokens", job.batch.tokens)]
    return settings


def _intervals(prepared: Prepared) -> dict[float, AxisPosition]:
    """Return the times between saves to the remote store that are listed, by time [s]."""
    if not prepared.jobs:
        raise sim.RefusedError("check", "no named job saves: there is no interval to derive")
    job, tiers = prepared.jobs[0], prepared.scenario.checkpoint.tiers
    index = next(place for place, tier in enumerate(tiers) if tier.store == "remote")
    rung = next(rung for rung in job.checkpoint.rungs if rung.store == "remote")
    optimum = float(goodput.optimal_interval(rung.stall, job.mtti))
    best = max(min(optimum, prepared.horizon), rung.drain, job.step_time)
    times = dict.fromkeys(float(f"{best * _APART**power:.2g}") for power in range(-2, 3))
    path = f"checkpoint.tiers.{index}.interval"
    return {
        time: AxisPosition(_time_text(time), time, ((path, f"{time:g} s"),)) for time in times if time >= job.step_time
    }


@functools.lru_cache(maxsize=1024)
def _time_text(time: float) -> str:
    """Return a time between saves as tables show it."""
    return show(time, DURATION)


def _facts(offer: Offer, prepared: Prepared, units: int) -> dict[str, str]:
    """Return the consequences of the choices, by name."""
    scenario, cluster, former = prepared.scenario, prepared.scenario.cluster, offer.scenario
    owned = f"{prepared.counts['gpu']:,} GPUs"
    facts = {"owned": f"{offer.words(units)}, {owned}" if units else owned}
    if units and (rule := offer.uncabled(units + 1)):
        facts["fabric"] = f"ends here: {rule}"
    for tier, stated in sim.recounted(former.cluster, cluster).items():
        facts[tier] = f"{prepared.counts[tier]:,} {tier} switches: the stated {stated:,} cannot be cabled"
    facts |= {"spares": f"{scenario.spares.hot:,} nodes"} if scenario.spares.hot else {}
    if not scenario.jobs:
        return facts
    job, before = scenario.jobs[0], former.jobs[0]
    facts["job"] = f"{job.gpus:,} GPUs"
    if job.parallelism is not None:
        facts["data"] = f"{job.parallelism.data:,} replicas of {job.gpus // job.parallelism.data:,} GPUs"
    if job.batch is not None and before.batch is not None:
        change = 100 * (job.batch.tokens / before.batch.tokens - 1)
        facts["batch"] = f"{job.batch.tokens // job.batch.sequence:,} sequences"
        if change:
            words = f"{abs(change):.2g} % {'larger' if change > 0 else 'smaller'}"
            facts["batch"] += f", {words} than the scenario's; what that does to learning is not modelled"
    left = offer.room(cluster) - scenario.spares.total - sum(map(offer.nodes, scenario.jobs))
    facts["unallocated"] = f"{max(left, 0) * offer.gpus:,} GPUs"
    return facts


def listed_of(problem: Problem) -> Listing:
    """Return the candidates of a problem.

    Raises
    ------
    ScenarioError
        With one line for each mistake: keys that are given twice, prices that are missing, steps that are measured.
    """
    lister = _Lister(problem)
    offers = lister.offers()
    wrong = dict.fromkeys((*_given_twice(lister), *_without_layouts(lister, offers), *_without_prices(lister, offers)))
    if wrong:
        raise sim.ScenarioError(wrong)
    for values, offer in offers:
        lister.add(values, offer)
    return lister.listing()


def _what_helps(problem: Problem) -> dict[str, float]:
    """Return the smallest limit of each budget with which a problem has a candidate, where it is above that of now."""
    needed: dict[str, float] = {}
    lister = _Lister(problem)
    limits, lister.budgets = lister.budgets, dict.fromkeys(lister.budgets, math.inf)
    for values, offer in lister.offers() if "size" in lister.axis_of else ():

        def is_none(units: int, values: Positions = values, offer: Offer = offer) -> bool:
            lister.used.clear()
            lister.seen.clear()
            try:
                if units <= _MOST_HELPED:
                    lister.add_size(values, offer, offer.cluster(units), units)
            except (sim.RefusedError, sim.PathError):
                return True
            return units <= _MOST_HELPED and not lister.used

        if not is_none(sim.largest(is_none) + 1) and lister.used:
            needed = {name: min(needed.get(name, math.inf), lister.used[0][name]) for name in limits}
    return {name: value for name, value in needed.items() if value > limits[name]}


_WRITES = {
    "size": ("cluster.nodes", "jobs.0.gpus"),
    "spares": ("spares.hot",),
    "layout": ("jobs.0.gpus", "jobs.0.parallelism", "jobs.0.execution.microbatch"),
    "interval": ("checkpoint.tiers.0.interval",),
}
"""Keys of the scenario that derived axes write, and nothing else may."""


def _given_twice(lister: _Lister) -> Iterator[str]:
    """Yield which other axes and values write to what is derived."""
    study, document = lister.problem.loaded.study, lister.problem.loaded.document
    targets = [(("vary", name), target) for name, axis in study.vary.items() for target in axis.targets(name)]
    targets += [(("set", key), key) for key in study.set]
    for kind, name in lister.axis_of.items():
        for path, (at, target) in itertools.product(_WRITES[kind], targets):
            if f"{target}.".startswith(f"{path}."):
                rule = f"{path} follows from the {kind} that {name} derives: give one of them"
                yield complaints.line(document, at, rule)


def _without_layouts(lister: _Lister, offers: Sequence[tuple[Positions, Offer]]) -> Iterator[str]:
    """Yield which jobs have no layouts that could be derived."""
    at = ("vary", lister.axis_of.get("layout", ""), "derive")
    for job in (offer.job for _, offer in offers if "layout" in lister.axis_of):
        if job is None or job.model is None or job.batch is None:
            yield complaints.line(lister.problem.loaded.document, at, "needs a job with a model and a batch")
        elif job.step_time is not None or job.mfu is not None:
            rule = f"the step of job '{job.name}' is stated (step_time or mfu), of one layout: leave it out"
            yield complaints.line(lister.problem.loaded.document, at, rule)


def _without_prices(lister: _Lister, offers: Sequence[tuple[Positions, Offer]]) -> Iterator[str]:
    """Yield why the budget of money cannot be kept."""
    document, at = lister.problem.loaded.document, ("optimize", "budget", "capex")
    costs = [offer.scenario.cost for _, offer in offers if "capex" in lister.budgets]
    if any(cost is None or cost.capex is None for cost in costs):
        yield complaints.line(document, at, "needs prices: give every choice its cost.capex, for each GPU")
    currencies = dict.fromkeys(cost.currency for cost in costs if cost is not None)
    if len(currencies) > 1:
        yield complaints.line(document, at, f"is of one currency, and prices are in {' and '.join(currencies)}")

"""What every failure source owes: its laws, its counts, its victims, and draws that depend on their address alone.

Laws are tested by goodness of fit, counts against a rival that knows nothing but what the scenario says and draws with
numpy's own generator.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ettrick.sim.failures import draw_trace
from ettrick.sim.failures.effects import Domains, Victims
from ettrick.sim.failures.trace import PARTS, fleet_of, hidden_at_start, life_key
from tests.intervals import LEAST, Z, agree, rival_seed
from tests.pace import sample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ettrick.sim.failures import FailureSource
    from ettrick.sim.failures.effects import BlastRadius, IncidentSize
    from ettrick.sim.failures.variety import Frailty, HazardModulation
    from ettrick.sim.scenario.law_model import LawModel

# ----------------------------------------
# A rival of the failure sources: the same words drawn with numpy's own generator, in the plainest way.
#
# It shares nothing with the simulator but the inverse CDF of laws, which have tests of their own.

CELLS = 4000

"""Pieces into which a horizon is cut to sum up a hazard that changes in time."""


def size_law(size: IncidentSize | None, members: int) -> NDArray[np.float64]:
    """Return how likely an incident takes 0 .. `members` nodes [-], shape (members + 1,)."""
    from scipy.stats import binom, geom

    law = np.zeros(members + 1)
    if size is None:
        law[members] = 1.0
    elif size.nodes is not None:
        law[min(size.nodes, members)] = 1.0
    elif size.mean is not None:
        # A geometric law that begins at `least`; what is larger than the domain takes all of it.
        more = geom(1 / (size.mean - size.least + 1), loc=size.least - 1)
        law[: members + 1] = more.pmf(np.arange(members + 1))
        law[members] += 1 - law.sum()
    elif size.share is not None:
        law = np.asarray(binom(members, size.share).pmf(np.arange(members + 1)))
        law[size.least] += law[: size.least].sum()
        law[: size.least] = 0.0
    else:
        assert size.values is not None
        weights = size.weights if size.weights is not None else (1.0,) * len(size.values)
        for value, weight in zip(size.values, weights, strict=True):
            law[min(value, members)] += weight / sum(weights)
    return law


def operational_time(
    tempo: HazardModulation | None, horizon: float, generator: np.random.Generator, replications: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times [s], shape (n,), and the summed-up hazard factor up to each [s], shape (replications, n)."""
    if tempo is None:
        times = np.array([0.0, horizon])
        return times, np.tile(times, (replications, 1))
    times = np.linspace(0.0, horizon, CELLS + 1)
    middle = (times[1:] + times[:-1]) / 2
    growth = np.diff(times)
    if tempo.trend is not None:
        trend = tempo.trend
        # The integral of exponent ((t + age) / reference)^(exponent - 1).
        growth = np.diff(trend.reference * ((times + trend.age) / trend.reference) ** trend.exponent)
    if tempo.calendar is not None:
        factors = np.array(tempo.calendar.factors)
        phase = middle % tempo.calendar.period / tempo.calendar.period
        growth = growth * factors[(phase * len(factors)).astype(np.int64)]
    levels = np.ones((replications, CELLS))
    if tempo.swings is not None:
        cv, every = tempo.swings.cv, tempo.swings.every
        drawn = generator.gamma(cv**-2, cv**2, size=(replications, math.ceil(horizon / every) + 1))
        levels = drawn[:, (middle / every).astype(np.int64)]
    sums = np.cumsum(levels * growth, axis=1)
    return times, np.concatenate([np.zeros((replications, 1)), sums], axis=1)


def counts_of(source: FailureSource, horizon: float, replications: int) -> NDArray[np.float64]:
    """Return numbers of candidates before the horizon, shape (replications,)."""
    generator = rival_seed()
    times, reached = operational_time(source.tempo, horizon, generator, replications)
    population = _Population(source, generator, replications)
    where, ends = population.lives(reached[:, -1])
    if source.hidden is not None:
        keep = population.has_fault(source.hidden.share, exact=source.hidden.exact)[where]
        where, ends = where[keep], ends[keep]
    replication = where // source.units
    if source.blast is None or source.blast.spread is None:
        return np.bincount(replication, minlength=replications).astype(np.float64)
    begin = np.array([np.interp(end, reached[number], times) for number, end in zip(replication, ends, strict=True)])
    sizes = size_law(source.blast.size, source.blast.members)
    taken = generator.choice(len(sizes), size=len(begin), p=sizes / sizes.sum())
    delays = source.blast.spread.ppf(generator.random(int(taken.sum())))
    inside = np.repeat(begin, taken) + delays < horizon
    return np.bincount(np.repeat(replication, taken)[inside], minlength=replications).astype(np.float64)


class _Population:
    """The units of a source in many replications at once, one after another."""

    def __init__(self, source: FailureSource, generator: np.random.Generator, replications: int) -> None:
        assert source.law is not None
        self.source = source
        self.generator = generator
        self.units = source.units
        self.replications = replications
        self.law = source.law
        self.slots = np.tile(np.arange(self.units), replications)
        self.nodes = self.slots // source.slots_per_node if source.slots_per_node else self.slots
        self.replication = np.repeat(np.arange(replications), self.units)
        self.ratio = np.ones(self.units * replications)
        self.which = np.zeros(self.units * replications, dtype=np.int64)
        self._vary()

    def _vary(self) -> None:
        variety = self.source.variety
        if variety.frailty is not None:
            self.ratio *= self._frailty(variety.frailty)
        left = self._each(self.nodes, self.generator.random)
        own_laws = 0
        for batch in variety.batches:
            mine = (left >= 0) & (left < batch.share)
            left -= batch.share
            if batch.ratio is not None:
                self.ratio[mine] *= batch.ratio
            else:
                own_laws += 1
                self.which[mine] = own_laws

    def _each(self, owner: NDArray[np.int64], draw: Callable[[int], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return one draw for each owner of each replication, shape (units * replications,)."""
        owners = int(owner.max()) + 1
        of_each: NDArray[np.float64] = draw(owners * self.replications)[self.replication * owners + owner]
        return of_each

    def _frailty(self, frailty: Frailty) -> NDArray[np.float64]:
        shape = frailty.shape
        owner = self.nodes if frailty.of == "node" else self.slots
        return self._each(owner, lambda size: self.generator.gamma(shape, 1 / shape, size=size))

    def has_fault(self, share: float, *, exact: bool) -> NDArray[np.bool_]:
        """Return which units have a hidden fault."""
        if not exact:
            return np.asarray(self.generator.random(self.ratio.size) < share, dtype=np.bool_)
        first = np.arange(self.units) < math.floor(self.units * share + 1e-9)
        return np.concatenate([self.generator.permutation(first) for _ in range(self.replications)])

    def lives(self, total: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return units and ends of the lives that end before `total` of their replication [s], shape (n,) each."""
        source = self.source
        laws = source.variety.laws(self.law)
        where = np.arange(self.ratio.size)
        age = np.zeros(self.ratio.size)
        found, ends = [where[:0]], [age[:0]]
        while where.size:
            # A hazard ratio h: the life that P(X > x)^h gives to a uniform number.
            number = 1 - (1 - self.generator.random(where.size)) ** (1 / self.ratio[where])
            number = np.clip(number, 1e-300, 1 - 2.0**-53)
            for index, law in enumerate(laws):
                mine = self.which[where] == index
                age[mine] += law.ppf(number[mine])
            inside = age < total[self.replication[where]]
            where, age = where[inside], age[inside]
            found.append(where)
            ends.append(age.copy())
            if not (source.all_known_ahead and source.renews == "at_failure"):
                break
        return np.concatenate(found), np.concatenate(ends)


Row: TypeAlias = tuple[float, int, int]


def check_source(source: FailureSource, horizon: float, seed: int = 1, *, grows: bool = True) -> None:
    """Assert that a source draws what it says, and that no draw depends on anything but its address.

    Parameters
    ----------
    source
        The source; an incident needs its domains (:func:`with_domains`).
    horizon
        Length of a simulation that has some candidates [s].
    seed
        Seed of the draws.
    grows
        Whether a larger cluster keeps every candidate. It cannot where numbers belong to the whole cluster (an exact
        share of hidden faults, victims among all nodes); the check then asserts what still holds, and that something
        does change.
    """
    if source.recorded is not None:
        _check_rows(source, horizon, seed)
        return
    if source.fix is not None or source.rollout is not None:
        _check_nothing_is_drawn(source, horizon, seed)
        return
    _check_law(source, horizon, seed)
    _check_counts(source, horizon, seed)
    if source.hidden is not None:
        _check_hidden(source, horizon, seed)
    if source.blast is not None:
        _check_victims(source, seed)
        if source.blast.spread is not None:
            _check_spread(source, horizon, seed)
    _check_longer(source, horizon, seed)
    _check_larger(source, horizon, seed, grows=grows)
    _check_names(source, horizon, seed)


def with_domains(source: FailureSource, nodes: int) -> FailureSource:
    """Return an incident whose domains are neighbours of equal size, the last perhaps smaller."""
    assert source.blast is not None
    members = -(-nodes // source.units)
    offsets = np.minimum(np.arange(source.units + 1) * members, nodes)
    return replace(source, blast=replace(source.blast, members=members, domains=Domains(offsets, np.arange(nodes))))


def _candidates(
    sources: Sequence[FailureSource], horizon: float, seed: int, replication: int = 0, index: int = 0
) -> list[Row]:
    """Return (time, slot, round) of the candidates of one source."""
    drawn = draw_trace(sources, horizon, seed, replication)
    mine = drawn.source == index
    return list(zip(drawn.time[mine].tolist(), drawn.slot[mine].tolist(), drawn.round[mine].tolist(), strict=True))


def _lives(source: FailureSource) -> FailureSource:
    """Return the source without what happens to its lives afterwards: all nodes have the fault, parts fail as one."""
    return replace(source, hidden=None, blast=None)


def _check_law(source: FailureSource, horizon: float, seed: int) -> None:
    """First lives follow their law in operational time, each unit with its hazard ratio; one life per unit."""
    many = replace(_lives(source), units=max(source.units, 4000), renews="never")
    length = 20 * horizon
    drawn = draw_trace([many], length, seed, 0)
    assert np.unique(drawn.slot).size == drawn.slot.size, "a unit that never renews fails once"
    assert np.isnan(drawn.until).all()
    lives, total = drawn.time, length
    if many.tempo is not None:
        clock = many.tempo.realise(length, seed, 0)
        lives, total = np.array([clock.elapsed(time) for time in drawn.time]), clock.total
    fleet = fleet_of(many, seed, 0)
    which = np.zeros(many.units, dtype=np.int64) if fleet.which is None else fleet.which
    ratio = np.ones(many.units) if fleet.ratio is None else fleet.ratio
    reach = np.zeros(many.units)
    number = np.zeros(len(lives))
    for index, law in enumerate(fleet.laws):
        reach[which == index] = law.cdf(np.nextafter([total], 0))[0]
        mine = which[drawn.slot] == index
        number[mine] = _numbers(law, lives[mine], ratio[drawn.slot][mine])
    # A unit with the hazard ratio h survives as P(X > x)^h.
    reach = 1 - (1 - reach) ** ratio
    assert len(lives) > 500, "too few lives to say anything of their law"
    assert abs(len(lives) - reach.sum()) <= Z * math.sqrt((reach * (1 - reach)).sum()) + 1e-9
    assert _fits(number / reach[drawn.slot])


def _numbers(law: LawModel, x: NDArray[np.float64], ratio: NDArray[np.float64] | float = 1.0) -> NDArray[np.float64]:
    """Return P(X <= x), uniform if `x` follows the law; where lives bunch, a number between both sides of the jump."""
    below, at = law.cdf(np.nextafter(x, 0)), law.cdf(x)
    # Rounding moves a time off the jump that it belongs to.
    jump = np.isin(np.round(x, 4), np.round(law.breaks, 4))
    near = np.where(jump, law.cdf(x * (1 + 1e-9) + 1e-6), at)
    below = np.where(jump, law.cdf(x * (1 - 1e-9) - 1e-6), below)
    below, at = 1 - (1 - below) ** ratio, 1 - (1 - near) ** ratio
    return np.asarray(below + np.random.default_rng(7).random(len(x)) * (at - below))


def _fits(numbers: NDArray[np.float64]) -> bool:
    """Return whether numbers look uniform (Kolmogorov-Smirnov)."""
    from scipy.stats import kstest

    return bool(kstest(numbers, "uniform").pvalue > LEAST)


def _check_counts(source: FailureSource, horizon: float, seed: int) -> None:
    """The mean number of candidates is that of the rival."""
    ours = np.array([len(_candidates([source], horizon, seed, number)) for number in range(sample(60))])
    assert ours.any(), "an empty trace shows nothing"
    assert agree(ours, counts_of(source, horizon, sample(200)))


def _check_hidden(source: FailureSource, horizon: float, seed: int) -> None:
    """Nodes that have the fault keep the lives that they would have if all had it; the share is the stated one."""
    found = np.array([hidden_at_start(source, seed, number) for number in range(300)])
    share = source.hidden.share
    if source.hidden.exact:
        assert (found.sum(axis=1) == math.floor(source.units * share + 1e-9)).all()
    else:
        error = math.sqrt(share * (1 - share) / found.size)
        assert abs(found.mean() - share) <= Z * error + 1e-9
    # Each node has it as often as any other: the largest of `units` deviations.
    error = math.sqrt(max(share * (1 - share), 1e-12) / len(found))
    assert abs(found.mean(axis=0) - found.mean()).max() <= 5 * error + 1e-9
    all_have_it = _candidates([replace(source, hidden=None, renews="never")], horizon, seed)
    assert _candidates([source], horizon, seed) == [row for row in all_have_it if found[0][row[1]]]


def _check_victims(source: FailureSource, seed: int) -> None:
    """An incident takes distinct nodes of its domain; sizes follow their law, and every member is equally likely."""
    from scipy.stats import chisquare

    blast = source.blast
    assert blast.domains is not None
    victims = Victims(blast, source.name, seed, 0)
    for part in range(source.units):
        members = _members(blast, part)
        for number in range(20):
            taken = victims.nodes(part, number)
            assert len(set(taken)) == len(taken) >= 1
            assert set(taken) <= set(members)
    members = _members(blast, 0)
    draws = 2000
    taken_nodes = [victims.nodes(0, number) for number in range(draws)]
    sizes = np.array([len(taken) for taken in taken_nodes])
    expected = draws * size_law(blast.size, len(members))
    observed = np.bincount(sizes, minlength=len(expected)).astype(np.float64)
    assert not observed[expected == 0].any(), "a size that cannot be"
    observed, expected = pooled(observed, expected)
    if len(expected) > 1:
        assert chisquare(observed, expected).pvalue > LEAST
    times = np.bincount(np.concatenate(taken_nodes) - members[0], minlength=len(members))
    share = sizes / len(members)
    # The largest of as many deviations as there are members.
    assert abs(times - share.sum()).max() <= 5 * math.sqrt(float((share * (1 - share)).sum())) + 1e-9


def _members(blast: BlastRadius, part: int) -> list[int]:
    assert blast.domains is not None
    offsets, nodes = blast.domains
    return list(nodes[offsets[part] : offsets[part + 1]].tolist())


def pooled(
    observed: NDArray[np.float64], expected: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Join neighbouring classes until at least five are expected in each, as the chi-square test needs."""
    group = np.zeros(len(expected), dtype=np.int64)
    number, within = 0, 0.0
    for index, each in enumerate(expected):
        if within >= 5 and expected[index:].sum() >= 5:
            number, within = number + 1, 0.0
        group[index] = number
        within += each
    return np.bincount(group, observed).astype(np.float64), np.bincount(group, expected).astype(np.float64)


def _check_spread(source: FailureSource, horizon: float, seed: int) -> None:
    """Each node that an incident takes fails once, after a delay by the law of the spread; others do not fail."""
    blast = source.blast
    victims = Victims(blast, source.name, seed, 0)
    length = 20 * horizon
    found: dict[tuple[int, int], dict[int, float]] = {}
    for time, node, number in _candidates([source], length, seed):
        children = found.setdefault((number % PARTS, number // PARTS), {})
        assert node not in children, "a node fails once in an incident"
        children[node] = time
    reach: list[float] = []
    delays: list[float] = []
    reached: list[float] = []
    for time, part, number in _candidates([_lives(source)], length, seed):
        children = found.pop((part, number), {})
        taken = victims.nodes(part, number)
        assert set(children) <= set(taken)
        share = float(blast.spread.cdf(np.nextafter([length - time], 0))[0])
        reach += [share] * len(taken)
        delays += [other - time for other in children.values()]
        reached += [share] * len(children)
    assert not found, "failures of incidents that never were"
    chance = np.array(reach)
    assert len(delays) > 200, "too few failures to say anything of their delays"
    assert abs(len(delays) - chance.sum()) <= Z * math.sqrt((chance * (1 - chance)).sum()) + 1e-9
    assert _fits(_numbers(blast.spread, np.maximum(delays, 0.0)) / np.array(reached))


def _check_longer(source: FailureSource, horizon: float, seed: int) -> None:
    """A longer horizon keeps every earlier candidate to the last bit."""
    short = _candidates([source], horizon, seed)
    assert short, "an empty trace shows nothing"
    longer = _candidates([source], 2.5 * horizon, seed)
    assert [row for row in longer if row[0] < horizon] == short
    most = source.units if source.hidden is None else int(hidden_at_start(source, seed, 0).sum())
    assert len(longer) > len(short) or len(short) == most


def _larger(source: FailureSource) -> FailureSource:
    """Return the source in a cluster of more than twice the size."""
    blast = source.blast
    if blast is None:
        return replace(source, units=2 * source.units + 1)
    assert blast.domains is not None
    if source.part == "cluster":
        nodes = 2 * blast.members + 1
        return with_domains(replace(source, blast=replace(blast, members=nodes)), nodes)
    units = 2 * source.units + 1
    offsets, nodes_before = blast.domains
    more = np.arange(1, units - source.units + 1) * blast.members
    domains = Domains(
        np.concatenate([offsets, offsets[-1] + more]), np.arange(len(nodes_before) + more[-1], dtype=np.int64)
    )
    return replace(source, units=units, blast=replace(blast, domains=domains))


def _check_larger(source: FailureSource, horizon: float, seed: int, *, grows: bool) -> None:
    """A larger cluster keeps every candidate to the last bit, or, where that is waived, the lives behind them."""
    before, after = source, _larger(source)
    kept = _kept(before, after, horizon, seed)
    assert kept is grows, "a larger cluster keeps its draws if and only if the caller says so"
    if not grows:
        assert _kept(_lives(before), _lives(after), horizon, seed), "the lives are kept in any case"


def _kept(before: FailureSource, after: FailureSource, horizon: float, seed: int) -> bool:
    """Return whether a larger cluster has the candidates of a smaller one, victims and all."""
    blast = before.blast
    small, large = _candidates([before], horizon, seed), _candidates([after], horizon, seed)
    slots = before.units
    if blast is not None and blast.spread is not None:
        slots = len(blast.domains.nodes)
    if sorted(row for row in large if row[1] < slots) != sorted(small):
        return False
    assert len(large) > len(small) or before.part == "cluster"
    if blast is None or blast.size is None or after.blast is None:
        return True
    ours, theirs = (Victims(each, before.name, seed, 0) for each in (blast, after.blast))
    everywhere = [(part, number) for part in range(before.units) for number in range(20)]
    return all(ours.nodes(*each) == theirs.nodes(*each) for each in everywhere)


def _check_names(source: FailureSource, horizon: float, seed: int) -> None:
    """Draws belong to a name, a seed and a replication, not to a place in a list; each address draws its own."""
    alone = _candidates([source], horizon, seed)
    other = replace(source, name=f"not {source.name}")
    assert _candidates([other, source], horizon, seed, index=1) == alone
    assert _candidates([source, other], horizon, seed, index=0) == alone
    assert _candidates([source], horizon, seed) == alone
    addresses = ((other, seed, 0), (source, seed + 1, 0), (source, seed, 1))
    assert source.law is not None
    bunches = any(len(law.breaks) for law in source.variety.laws(source.law))
    for rival, its_seed, replication in addresses:
        drawn = _candidates([rival], horizon, its_seed, replication)
        if bunches:
            assert drawn != alone
        else:
            assert {row[0] for row in alone}.isdisjoint(row[0] for row in drawn)
        assert life_key(rival, its_seed, replication) != life_key(source, seed, 0)
    blast = source.blast
    if blast is not None and blast.size is not None:
        choices = [
            [Victims(blast, each.name, its_seed, replication).nodes(0, number) for number in range(200)]
            for each, its_seed, replication in ((source, seed, 0), *addresses)
        ]
        assert all(choice != choices[0] for choice in choices[1:])


def _check_rows(source: FailureSource, horizon: float, seed: int) -> None:
    """A log is played as it is: its rows before the horizon, whatever seed, replication, name and neighbours."""
    log = source.recorded
    stated = sorted(zip(log.start.tolist(), log.unit.tolist(), log.end.tolist(), strict=True))
    for length in (horizon, math.inf):
        expected = [row for row in stated if row[0] < length]
        assert expected, "an empty log shows nothing"
        for its_seed, replication in ((seed, 0), (seed + 1, 0), (seed, 1)):
            other = replace(source, name="other")
            drawn = draw_trace([other, source], length, its_seed, replication)
            for index in (0, 1):
                mine = drawn.source == index
                columns = (drawn.time[mine], drawn.slot[mine], drawn.until[mine])
                assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
    assert source.law is None
    assert all(0 <= row[1] < source.units and row[0] < row[2] for row in stated)


def _check_nothing_is_drawn(source: FailureSource, horizon: float, seed: int) -> None:
    """What depends on jobs, or on a plan, is not in the trace."""
    drawn = draw_trace([source], 100 * horizon, seed, 0)
    assert drawn.time.size == 0
    assert drawn.initial == ()
    assert not source.all_known_ahead or source.law is None

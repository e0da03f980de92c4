"""Failures as data: every life that can end inside the horizon, drawn at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ettrick.sim import rng
from ettrick.sim.failures.effects import Victims
from ettrick.sim.failures.variety import BANDS, UnitPopulation, frailties
from ettrick.sim.quantiles import biased_quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from ettrick.sim.failures.source import FailureSource, OutageLog
    from ettrick.sim.scenario.law_model import LawModel

    _Indices: TypeAlias = NDArray[np.int64]
    _Times: TypeAlias = NDArray[np.float64]
    _Numbers: TypeAlias = tuple[_Indices, _Times]

ROUNDS = 1 << 20

"""Lives of one slot and generation; far beyond any horizon."""

PARTS = 1 << 24

"""Units of one class of part; far beyond any cluster."""

_FEW = 40
"""Look-ups that are sooner made one by one."""


# The units of a source in one replication.


def fleet_of(source: FailureSource, seed: int, replication: int) -> UnitPopulation:
    """Return the units of a source in one replication."""
    law, variety = source.law, source.variety
    assert law is not None
    if not variety:
        return UnitPopulation((law,), None, None)
    slots = np.arange(source.units, dtype=np.int64)
    # A rack is no node: where a part belongs to no single node, it shares no frailty with the node of its number.
    kind = "node" if source.slots_per_node else source.part
    nodes = slots // max(source.slots_per_node, 1)
    ratio = np.ones(source.units)
    which = np.zeros(source.units, dtype=np.int64)
    frailty = variety.frailty
    if frailty is not None:
        whose, units = (kind, nodes) if frailty.of == "node" else (source.part, slots)
        key = rng.stream(seed, replication, "frailty", whose, frailty.shared)
        ratio *= frailties(frailty.shape, key, int(units[-1]) + 1)[units]
    if variety.batches:
        number = rng.uniform(rng.stream(seed, replication, "batch", kind), range(int(nodes[-1]) + 1))[nodes]
        edge = 0.0
        law_number = 0
        for batch in variety.batches:
            is_of_batch = (number >= edge) & (number < edge + batch.share)
            edge += batch.share
            if batch.ratio is not None:
                ratio[is_of_batch] *= batch.ratio
            else:
                law_number += 1
                which[is_of_batch] = law_number
    return UnitPopulation(variety.laws(law), which if which.any() else None, None if (ratio == 1).all() else ratio)


def hidden_at_start(source: FailureSource, seed: int, replication: int) -> NDArray[np.bool_]:
    """Return which nodes have a hidden fault at the start, shape (units,).

    An exact share belongs to the whole cluster: a larger one does not keep it.
    """
    is_hidden = np.zeros(source.units, dtype=np.bool_)
    if source.hidden is None:
        return is_hidden
    number = rng.uniform(rng.stream(seed, replication, "hidden", source.name), range(source.units))
    if not source.hidden.exact:
        return number < source.hidden.share
    count = int(source.units * source.hidden.share + 1e-9)
    is_hidden[np.argpartition(number, count)[:count] if count < source.units else slice(None)] = True
    return is_hidden


def first_onsets(source: FailureSource, key: int, end: float) -> list[tuple[int, float]]:
    """Return when nodes catch a hidden fault for the first time, before `end` [s]: node and time [s].

    `key` is that of the stream "onset" of the source.
    """
    onset = source.hidden.onset if source.hidden is not None else None
    if onset is None:
        return []
    nodes, numbers = rng.below(key, source.units, 0, onset.reach(end))
    times = ((node, onset.ppf_one(number)) for node, number in zip(nodes.tolist(), numbers.tolist(), strict=True))
    return [(node, time) for node, time in times if time < end]


# Their lives.


@dataclass(frozen=True)
class InitialOutage:
    """A unit that is in repair when the simulation starts, and for how long still [s]."""

    source: int
    slot: int
    remaining: float


@dataclass(frozen=True)
class FailureTrace:
    """Candidates, arrays of shape (n,); those of a replication in order of time.

    ``time`` [s] is when the life would end if its clock never stopped; ``source`` and ``slot`` say whose it is,
    ``round`` which life of the slot. ``until`` [s] is the recorded end of an outage, or NaN.
    """

    time: NDArray[np.float64]
    source: NDArray[np.int64]
    slot: NDArray[np.int64]
    round: NDArray[np.int64]
    until: NDArray[np.float64]
    initial: tuple[InitialOutage, ...] = ()

    @property
    def columns(self) -> tuple[_Times, _Indices, _Indices, _Indices, _Times]:
        """The five arrays."""
        return self.time, self.source, self.slot, self.round, self.until

    def where(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> FailureTrace:
        """Return some of the candidates: by a condition, or by their positions."""
        time, source, slot, number, until = self.columns
        return FailureTrace(time[keep], source[keep], slot[keep], number[keep], until[keep], self.initial)


NOTICE = -2

"""Round of the rows at which jobs begin to save for a planned outage; lower ones are for other times of a save."""


def with_notices(trace: FailureTrace, sources: Sequence[FailureSource], save_times: Sequence[float]) -> FailureTrace:
    """Return a trace with a row at each time at which jobs have to begin to save for an outage that is known before.

    Of a job whose save takes the time number i of `save_times` [s] the round is `NOTICE` - i; ``until`` is when the
    outage begins [s].
    """
    is_noticed = [source.planned and source.saves and not math.isnan(source.notice) for source in sources]
    planned = np.flatnonzero(np.array([*is_noticed, False])[trace.source] & ~np.isnan(trace.until))
    rows = [np.empty((0, 5))]
    for index, seconds in enumerate(save_times):
        noticed = planned[[sources[source].notice >= seconds for source in trace.source[planned].tolist()]]
        strike = trace.time[noticed]
        # A save that began a rounding error too late would not be over in time.
        begin = np.where(strike - seconds + seconds > strike, np.nextafter(strike, -np.inf) - seconds, strike - seconds)
        columns = begin, trace.source[noticed], trace.slot[noticed], np.full(len(noticed), NOTICE - index), strike
        rows.append(np.column_stack(columns)[begin >= 0])
    notices = np.concatenate(rows).T
    order = np.argsort(np.concatenate((notices[0], trace.time)), kind="stable")
    time, source, slot, number, until = (
        np.concatenate((new.astype(old.dtype), old))[order] for new, old in zip(notices, trace.columns, strict=True)
    )
    return FailureTrace(time, source, slot, number, until, trace.initial)


def life_key(source: FailureSource, seed: int, replication: int) -> int:
    """Return the key of a source's lives; slot and round address one of them."""
    return rng.stream(seed, replication, "life", source.name)


def draw_trace(
    sources: Sequence[FailureSource], horizon: float, seed: int, replication: int, *, stationary: bool = False
) -> FailureTrace:
    """Draw all candidates of a replication.

    Parameters
    ----------
    sources, horizon
        The failure sources, and the length of the simulation, warm-up included [s].
    seed, replication
        Address of the random numbers.
    stationary
        Whether the first life of each part is what is left of one that began long ago.

    Returns
    -------
    FailureTrace
        Candidates before `horizon`. Of a source whose next life waits for a return, or whose clock can stop, only the
        first life is here: the engine adds the later ones. Of a hidden fault only the nodes that have it at the start.
        Bugs and rollouts depend on what jobs do, and are not here.
    """
    numbers = {} if stationary else _numbers(sources, horizon, seed, replication)
    parts = [_candidates([], [], [])]
    initial: list[InitialOutage] = []
    for index, source in enumerate(sources):
        if source.recorded is not None:
            rows = _recorded(source.recorded, horizon, seed, replication)
        elif source.law is not None and source.units and source.fix is None:
            rows = _draw_source(source, horizon, seed, replication, numbers.get(index), stationary=stationary)
            if stationary:
                outages = _initial_outages(source, index, seed, replication)
                initial += outages
                rows = _without_repairs(source, rows, outages)
        else:
            continue
        parts.append(replace(rows, source=np.full(len(rows.time), index, dtype=np.int64)))
    time, source_index, slot, number, until = map(np.concatenate, zip(*(part.columns for part in parts), strict=True))
    trace = FailureTrace(time, source_index, slot, number, until, tuple(initial))
    return trace.where(np.lexsort((slot, source_index, time)))


def _candidates(time: ArrayLike, slot: ArrayLike, number: ArrayLike, until: ArrayLike = math.nan) -> FailureTrace:
    """Return candidates of one source, the first one."""
    slots, rounds = (np.asarray(column, dtype=np.int64) for column in (slot, number))
    ends = np.full(len(slots), until, dtype=np.float64)
    return FailureTrace(np.asarray(time, dtype=np.float64), np.zeros_like(slots), slots, rounds, ends)


def _without_repairs(source: FailureSource, rows: FailureTrace, outages: list[InitialOutage]) -> FailureTrace:
    """Return the rows without units in repair at the start whose first life begins at their return."""
    if source.renews != "at_return":
        return rows
    return rows.where(~np.isin(rows.slot, [outage.slot for outage in outages]))


def _recorded(rows: OutageLog, horizon: float, seed: int, replication: int) -> FailureTrace:
    """Return the rows of a log that start before the horizon."""
    inside = rows.start < horizon
    unit = rows.placed(seed, replication)[inside]
    # Each outage of a unit has random numbers of its own.
    number = np.zeros(len(unit), dtype=np.int64)
    order = np.argsort(unit, kind="stable")
    first = np.searchsorted(unit[order], unit[order])
    number[order] = np.arange(len(unit)) - first
    return _candidates(rows.start[inside], unit, number, rows.end[inside])


def _numbers(sources: Sequence[FailureSource], horizon: float, seed: int, replication: int) -> dict[int, _Numbers]:
    """Return slots and numbers of the first lives of sources of equal new units; of all with as many units at once."""
    alike: dict[int, list[int]] = {}
    for index, source in enumerate(sources):
        if source.law is not None and source.units and not (source.variety or source.ages or source.tempo):
            alike.setdefault(source.units, []).append(index)
    numbers: dict[int, _Numbers] = {}
    for units, indices in alike.items():
        keys = [life_key(sources[index], seed, replication) for index in indices]
        reach = [law.reach(horizon) for index in indices if (law := sources[index].law) is not None]
        numbers.update(zip(indices, rng.below_each(keys, units, 0, reach), strict=True))
    return numbers


def _draw_source(
    source: FailureSource, horizon: float, seed: int, replication: int, numbers: _Numbers | None, *, stationary: bool
) -> FailureTrace:
    """Return the candidates of a source with a law."""
    tempo = source.tempo.realise(horizon, seed, replication) if source.tempo is not None else None
    times, slots, rounds = _draw_lives(
        source, horizon if tempo is None else tempo.total, seed, replication, numbers, stationary=stationary
    )
    if tempo is not None:
        times = np.fromiter(map(tempo.moment, times.tolist()), np.float64, len(times))
    rows = _candidates(times, slots, rounds)
    if tempo is not None:
        # Rounding may put the last life of all on the horizon itself.
        rows = rows.where(rows.time < horizon)
    if source.hidden is not None:
        rows = rows.where(hidden_at_start(source, seed, replication)[rows.slot])
    if source.blast is not None and source.blast.spread is not None:
        victims = Victims(source.blast, source.name, seed, replication)
        delay_key = rng.stream(seed, replication, "mark", source.name, "delay")
        rows = _scatter(rows, victims, source.blast.spread, delay_key, horizon)
    return rows


def _draw_lives(
    source: FailureSource, horizon: float, seed: int, replication: int, numbers: _Numbers | None, *, stationary: bool
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return times, slots and rounds of the lives that end before the horizon, round by round.

    Life r of slot i is a look-up of its own, so a longer horizon or more slots keep all that is here.
    """
    fleet = fleet_of(source, seed, replication)
    key = life_key(source, seed, replication)
    times, slots = _first_lives(source, fleet, key, horizon, seed, replication, numbers, stationary=stationary)
    all_times, all_slots = [times], [slots]
    all_rounds = [np.zeros(len(times), dtype=np.int64)]
    number = 0
    while len(slots) and source.all_known_ahead and source.renews == "at_failure":
        number += 1
        if len(slots) > _FEW:
            lives = fleet.lives(slots, rng.uniform(key, slots, number))
        else:
            lives = np.array([fleet.life(slot, rng.uniform_one(key, slot, number)) for slot in slots.tolist()])
        times = times + lives
        inside = times < horizon
        slots, times = slots[inside], times[inside]
        all_times.append(times)
        all_slots.append(slots)
        all_rounds.append(np.full(len(times), number, dtype=np.int64))
    return np.concatenate(all_times), np.concatenate(all_slots), np.concatenate(all_rounds)


def _first_lives(
    source: FailureSource,
    fleet: UnitPopulation,
    key: int,
    horizon: float,
    seed: int,
    replication: int,
    numbers: _Numbers | None,
    *,
    stationary: bool,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return ends and slots of the first lives that end before the horizon; the others are not even worked out."""
    if stationary:
        number, split = _met(source, seed, replication)
        slots = np.flatnonzero(split * fleet.least_met_lives(number) < horizon)
        times = split[slots] * np.fromiter(map(fleet.met_life, slots.tolist(), number[slots].tolist()), np.float64)
    elif source.ages:
        counts, years = zip(*source.ages, strict=True)
        ages = np.repeat(np.asarray(years), np.asarray(counts) * source.slots_per_node)
        slots, some = rng.below(key, source.units, 0, fleet.reach(horizon, source.units, ages))
        times = np.fromiter(map(fleet.residual, slots.tolist(), some.tolist(), ages[slots].tolist()), np.float64)
    else:
        slots, some = numbers or rng.below(key, source.units, 0, fleet.reach(horizon, source.units))
        times = fleet.lives(slots, some)
    inside = times < horizon
    return times[inside], slots[inside]


def _scatter(rows: FailureTrace, victims: Victims, spread: LawModel, delay_key: int, horizon: float) -> FailureTrace:
    """Replace each incident by the failures of the nodes that it takes, each with a delay of its own.

    The slot of such a failure is its node. In a domain of the whole cluster the nodes are drawn among all, so a larger
    cluster does not keep them; the incidents themselves it keeps.
    """
    failures: list[tuple[float, int, int]] = []
    for time, part, number in zip(rows.time.tolist(), rows.slot.tolist(), rows.round.tolist(), strict=True):
        # Unique among the failures of a node, whatever incident they came from, and the same in a larger cluster.
        incident = number * PARTS + part
        for node in victims.nodes(part, number):
            end = time + spread.ppf_one(rng.uniform_one(delay_key, node, incident))
            if end < horizon:
                failures.append((end, node, incident))
    times, nodes, incidents = zip(*failures, strict=True) if failures else ((), (), ())
    return _candidates(times, nodes, incidents)


def _met(source: FailureSource, seed: int, replication: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the uniform numbers of the lives in which units are met at the start, and of the places in these."""
    slots = range(source.units)
    length = rng.uniform(rng.stream(seed, replication, "initial length", source.name), slots)
    return length, rng.uniform(rng.stream(seed, replication, "initial split", source.name), slots)


def _initial_outages(source: FailureSource, index: int, seed: int, replication: int) -> list[InitialOutage]:
    """Return the units in repair at the start of a stationary simulation.

    One that renews at return is in repair with probability E[repair] / (E[life] + E[repair]). One that does not age and
    renews at failure is in as many repairs at once as a Poisson variable of the mean E[repair] / E[life] says. What
    remains of a repair follows the stationary excess of its law. One that ages and renews at failure is still
    in repair if the repair that began with its current life lasts longer than the age of that life: that overlooks
    the lives before it. Several sources on one node are taken as independent.
    """
    repair = source.repair
    if repair is None or source.law is None or source.part == "job" or not source.effect.stops:
        return []
    number = rng.uniform(rng.stream(seed, replication, "initial repair", source.name), range(source.units))
    fleet = fleet_of(source, seed, replication)
    is_memoryless = all(law.memoryless for law in fleet.laws)
    if source.renews == "at_return" or is_memoryless:
        ratio = repair.mean_value / fleet.mean_lives(source.units)
        open_repairs = _open_repairs(number, ratio, joins=is_memoryless and source.outages_join)
        repairs = _excesses(source, repair, open_repairs, seed, replication)
    else:
        repairs = _since_last_failures(fleet, repair, number, *_met(source, seed, replication))
    return [InitialOutage(index, slot, rest) for slot, rest in repairs if rest > 0]


def _excesses(
    source: FailureSource, repair: LawModel, open_repairs: Iterable[tuple[int, int, float]], seed: int, replication: int
) -> Iterator[tuple[int, float]]:
    """Yield the slots of open repairs, and what remains of each by the stationary excess of their law [s]."""
    split_key = rng.stream(seed, replication, "initial repair split", source.name)
    length_key = rng.stream(seed, replication, "initial repair length", source.name)
    for slot, count, rest in open_repairs:
        for place in range(count):
            u = rng.uniform_one(length_key, slot, place) if place else rest
            yield slot, rng.uniform_one(split_key, slot, place) * biased_quantile(repair.parameters, 0, u)


def _since_last_failures(
    fleet: UnitPopulation, repair: LawModel, number: _Times, met: _Times, split: _Times
) -> Iterator[tuple[int, float]]:
    """Yield slots whose repair may be longer than the age of their life, and what remains of that repair [s]."""
    longest = np.array([*(repair.ppf_one(u) for u in BANDS), math.inf])[np.searchsorted(BANDS, number)]
    late = np.flatnonzero((1 - split) * fleet.least_met_lives(met) < longest * (1 + 1e-9))
    columns = (late.tolist(), number[late].tolist(), met[late].tolist(), split[late].tolist())
    for slot, u, life, part in zip(*columns, strict=True):
        yield slot, repair.ppf_one(u) - (1 - part) * fleet.met_life(slot, life)


def _open_repairs(
    number: NDArray[np.float64], ratio: NDArray[np.float64], *, joins: bool
) -> Iterator[tuple[int, int, float]]:
    """Yield the slots in repair, in how many at once, and what of the uniform number of each is left, uniform again."""
    share = -np.expm1(-ratio) if joins else ratio / (1 + ratio)
    for slot in np.flatnonzero(number < share).tolist():
        u, low, count = float(number[slot]), 0.0, 1
        probability = float(ratio[slot] * math.exp(-ratio[slot]) if joins else share[slot])
        while u >= low + probability and probability > 0:
            low += probability
            count += 1
            probability *= ratio[slot] / count
        yield slot, count, min((u - low) / probability, 1.0) if probability > 0 else u

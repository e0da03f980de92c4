"""Failures as data: every life that can end inside the horizon, drawn at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sim import rng
from sim.laws import age_and_residual

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sim.failures.source import Source

__all__ = ["FailureTrace", "InitialOutage", "draw_trace", "life_key"]

ROUNDS = 1 << 20
"""Lives of one slot and generation; far beyond any horizon."""


@dataclass(frozen=True)
class InitialOutage:
    """A unit that is in repair when the simulation starts, and for how long still [s]."""

    source: int
    slot: int
    remaining: float


@dataclass(frozen=True)
class FailureTrace:
    """Candidates in order of time; arrays of shape (n,).

    ``time`` [s] is when the life would end if its clock never stopped; ``source`` and ``slot`` say whose it is,
    ``round`` which life of the slot. ``until`` [s] is the recorded end of an outage, or NaN.
    """

    time: NDArray[np.float64]
    source: NDArray[np.int64]
    slot: NDArray[np.int64]
    round: NDArray[np.int64]
    until: NDArray[np.float64]
    initial: tuple[InitialOutage, ...] = ()


def life_key(source: Source, seed: int, replication: int) -> int:
    """Return the key of a source's lives; slot and round address one of them."""
    return rng.stream(seed, replication, "life", source.name)


def draw_trace(
    sources: Sequence[Source], horizon: float, seed: int, replication: int, *, stationary: bool = False
) -> FailureTrace:
    """Draw all candidates of a replication.

    Parameters
    ----------
    sources
        The failure sources.
    horizon
        Length of the simulation, warm-up included [s].
    seed, replication
        Address of the random numbers.
    stationary
        Whether the first life of each part is what is left of one that began long ago.

    Returns
    -------
    FailureTrace
        Candidates before `horizon`. Of a source whose next life waits for a return, or whose clock can stop, only the
        first life is here: the engine adds the later ones.
    """
    parts: list[tuple[NDArray[np.float64], NDArray[np.int64], int, NDArray[np.int64], NDArray[np.float64]]] = []
    initial: list[InitialOutage] = []
    for index, source in enumerate(sources):
        if source.recorded is not None:
            inside = source.recorded.start < horizon
            rows = source.recorded
            zeros = np.zeros(int(inside.sum()), dtype=np.int64)
            parts.append((rows.start[inside], rows.unit[inside], index, zeros, rows.end[inside]))
        elif source.law is not None and source.units:
            times, slots, rounds = _draw_lives(source, horizon, seed, replication, stationary=stationary)
            if stationary:
                outages = _initial_outages(source, index, seed, replication)
                initial += outages
                if source.renews == "at_return":
                    # The first life of a unit in repair begins at its return.
                    alive = ~np.isin(slots, [outage.slot for outage in outages])
                    times, slots, rounds = times[alive], slots[alive], rounds[alive]
            parts.append((times, slots, index, rounds, np.full(len(times), np.nan)))
    if not parts:
        empty = np.empty(0)
        none = np.empty(0, dtype=np.int64)
        return FailureTrace(empty, none, none, none, empty)
    time = np.concatenate([part[0] for part in parts])
    slot = np.concatenate([part[1] for part in parts])
    source_index = np.concatenate([np.full(len(part[0]), part[2], dtype=np.int64) for part in parts])
    order = np.lexsort((slot, source_index, time))
    return FailureTrace(
        time=time[order],
        source=source_index[order],
        slot=slot[order],
        round=np.concatenate([part[3] for part in parts])[order],
        until=np.concatenate([part[4] for part in parts])[order],
        initial=tuple(initial),
    )


def _draw_lives(
    source: Source, horizon: float, seed: int, replication: int, *, stationary: bool
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return times, slots and rounds of the lives that end before the horizon, round by round.

    Life r of slot i is a look-up of its own, so a longer horizon or more slots keep all that is here.
    """
    law = source.law
    assert law is not None
    key = life_key(source, seed, replication)
    if stationary:
        slots = np.arange(source.units, dtype=np.int64)
        first = _first_residual(source, seed, replication)[1]
        inside = first < horizon
        slots, times = slots[inside], first[inside]
    else:
        reach = float(law.cdf(np.asarray([horizon]))[0])
        # The limits of rounding must not lose a life that ends just inside the horizon.
        slots, numbers = rng.below(key, source.units, 0, min(reach * (1 + 1e-12), 1.0))
        times = law.ppf(numbers)
        inside = times < horizon
        slots, times = slots[inside], times[inside]
    all_times, all_slots = [times], [slots]
    all_rounds = [np.zeros(len(times), dtype=np.int64)]
    number = 0
    while len(slots) and source.all_known_ahead and source.renews == "at_failure":
        number += 1
        times = times + law.ppf(rng.uniform(key, slots, number))
        inside = times < horizon
        slots, times = slots[inside], times[inside]
        all_times.append(times)
        all_slots.append(slots)
        all_rounds.append(np.full(len(times), number, dtype=np.int64))
    return np.concatenate(all_times), np.concatenate(all_slots), np.concatenate(all_rounds)


def _first_residual(source: Source, seed: int, replication: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return age and residual life [s] of every unit of a population that has run for a long time."""
    assert source.law is not None
    slots = range(source.units)
    length = rng.uniform(rng.stream(seed, replication, "initial length", source.name), slots)
    split = rng.uniform(rng.stream(seed, replication, "initial split", source.name), slots)
    return age_and_residual(source.law, length, split)


def _initial_outages(source: Source, index: int, seed: int, replication: int) -> list[InitialOutage]:
    """Return the units in repair at the start of a stationary simulation.

    A unit that renews at failure is still in repair if the repair that began with its current life lasts longer than
    the age of that life. One that renews at return is in repair with probability E[repair] / (E[life] + E[repair]),
    and what remains of the repair follows the stationary excess of its law. Several sources on one node are taken
    as independent.
    """
    repair = source.repair
    if repair is None or source.law is None or source.part == "job":
        return []
    slots = range(source.units)
    number = rng.uniform(rng.stream(seed, replication, "initial repair", source.name), slots)
    if source.renews == "at_return":
        share = repair.mean_value / (repair.mean_value + source.law.mean_value)
        down = np.flatnonzero(number < share)
        length = number[down] / share
        split = rng.uniform(rng.stream(seed, replication, "initial repair split", source.name), down)
        remaining = age_and_residual(repair, length, split)[1]
    else:
        age = _first_residual(source, seed, replication)[0]
        left = repair.ppf(number) - age
        down = np.flatnonzero(left > 0)
        remaining = left[down]
    return [InitialOutage(index, int(slot), float(rest)) for slot, rest in zip(down, remaining, strict=True)]

"""Keyed random numbers: the same address gives the same number, and different names give different streams."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from ettrick.sim import rng
from tests.cases import cases

MASK = (1 << 64) - 1

KEY = rng.stream(1, 0, "lives", "gpu")


def test_scalar_equals_vector() -> None:
    """The scalar look-up gives the same bits as the vectorised one, at every extreme of key, index and sub."""
    index = np.array([0, 1, 2, 16383, 16384, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1], dtype=np.uint64)
    for key, sub in product((0, 1, KEY, MASK, KEY + 2**64), (0, 1, 2**32, 2**64 - 1)):
        assert rng.uniform(key, index, sub).tolist() == [rng.uniform_one(key, int(i), sub) for i in index]


def test_numbers_stay_put() -> None:
    """The address alone decides: order, repetition, chunk, kind of index and size of the population do not."""
    whole = rng.uniform(KEY, range(50_000), 3)
    order = np.random.default_rng(5).permutation(50_000)
    assert np.array_equal(rng.uniform(KEY, order, 3), whole[order])
    assert np.array_equal(rng.uniform(KEY, np.arange(50_000, dtype=np.int32)[::-7], 3), whole[::-7])
    assert np.array_equal(rng.uniform(KEY, range(49_999, -1, -7), 3), whole[::-7])
    assert np.array_equal(rng.uniform(KEY, range(20_000, 45_000, 3), 3), whole[20_000:45_000:3])
    assert np.array_equal(rng.uniform(KEY, range(10), 3), whole[:10])
    assert rng.uniform(KEY, range(0)).shape == (0,)


def test_index_must_be_integer() -> None:
    """A float index is refused rather than rounded."""
    with pytest.raises(TypeError, match="integers, not float64"):
        rng.uniform(KEY, np.array([0.5]))


def test_extreme_hashes_give_numbers_inside_the_open_interval() -> None:
    """The smallest and the largest hash give 2^-53 and 1 - 2^-53, never 0 or 1."""
    hashes = np.array([0, MASK ^ (MASK >> 27) ^ (MASK >> 54)], dtype=np.uint64)  # the last step is still to come
    numbers = rng._to_uniform(hashes)
    assert numbers.tolist() == [2.0**-53, 1 - 2.0**-53]


def test_finaliser_is_a_bijection_with_its_published_constants() -> None:
    """Undoing the published steps of the finaliser returns its input."""
    start = np.arange(1000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = start.copy()
    rng._mix(mixed, np.empty_like(mixed))
    mixed ^= mixed >> np.uint64(27)

    def unshift(y: int, shift: int) -> int:
        x = y
        for _ in range(64 // shift):
            x = y ^ (x >> shift)
        return x

    for before, after in zip(start.tolist(), mixed.tolist(), strict=True):
        x = unshift(after, 27) * pow(0x1C69B3F74AC4AE35, -1, 1 << 64) & MASK
        x = unshift(x, 33) * pow(0x3C79AC492BA7B653, -1, 1 << 64) & MASK
        assert unshift(x, 27) == before


@cases("threshold", [-1.0, 0.0, 1e-4, 0.3, 1.0, 2.0])
@cases("count", [0, 1, 16384, 100_000])
def test_below_is_a_selection_from_the_whole(count: int, threshold: float) -> None:
    """Drawing the rare ones alone gives exactly the rare ones of all."""
    slots, numbers = rng.below(KEY, count, 2, threshold)
    whole = rng.uniform(KEY, range(count), 2)
    assert slots.dtype == np.int64
    assert np.array_equal(slots, np.flatnonzero(whole < threshold))
    assert np.array_equal(numbers, whole[whole < threshold])


@cases("count", [1, 5000, 20_000])
def test_below_of_several_streams_is_that_of_each(count: int) -> None:
    """Streams hashed together, whatever their number and thresholds, and thresholds of each slot."""
    keys, thresholds = [rng.stream(3, 0, name) for name in range(9)], [0.0, 1e-3, 0.5, 1.0, 1e-3, 0.3, 2.0, 0.1, 1e-4]
    found = rng.below_each(keys, count, 2, thresholds)
    for key, threshold, (slots, numbers) in zip(keys, thresholds, found, strict=True):
        expected = rng.below(key, count, 2, threshold)
        assert np.array_equal(slots, expected[0])
        assert np.array_equal(numbers, expected[1])
    limits = np.linspace(0, 1.1, count)
    whole = rng.uniform(KEY, range(count), 1)
    assert np.array_equal(rng.below(KEY, count, 1, limits)[0], np.flatnonzero(whole < limits))


def test_each_slot_may_have_a_draw_of_its_own() -> None:
    """A vector of sub-indices gives what single look-ups give."""
    index, sub = np.array([5, 0, 17, 5]), np.array([0, 9, 2**40, 1])
    single = [rng.uniform_one(KEY, *pair) for pair in zip(index.tolist(), sub.tolist(), strict=True)]
    assert rng.uniform(KEY, index, sub).tolist() == single


def test_below_never_holds_the_population() -> None:
    """Rare failures among four million parts need less than 1 MiB; all their numbers would be 32 MB."""
    rng.below(KEY, 10, 0, 0.5)
    tracemalloc.start()
    try:
        slots, _ = rng.below(KEY, 4_000_000, 0, 1e-5)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(slots) > 0
    assert peak < 2**20


def test_stream_encoding_is_unambiguous() -> None:
    """Order, grouping, number and type of the names all matter."""
    addresses: list[tuple[str | int, ...]] = [
        *((), ("",), ("", ""), ("a",), ("b",), ("a", "b"), ("b", "a"), ("ab",), ("a", "", "b"), ("a b",), ("é",)),
        *(("a", "sb"), ("as", "b"), ("i1",), ("a", 1), ("a", "1"), ("a1",), ("1:a",), ("1", "a")),
        *((0,), (1,), ("1",), (-1,), (10,), (1, 0), (0, 1), (2**32,), (2**64,), (2**64 + 1,), ("s1:a",), ("i1:0",)),
    ]
    keys = [rng.stream(seed, replication, *names) for seed, replication in ((1, 2), (2, 1)) for names in addresses]
    keys += [rng.stream(12, 0), rng.stream(1, 20), rng.stream(-1, 0)]
    assert len(set(keys)) == len(keys)
    assert all(0 <= key <= MASK for key in keys)
    assert rng.stream(1, 2, 3) == rng.stream(1, 2, np.int64(3))  # type: ignore[arg-type]


def test_stream_refuses_what_is_neither_text_nor_integer() -> None:
    """A float in a name is a mistake, not a new stream."""
    with pytest.raises(TypeError):
        rng.stream(1, 0, 0.5)  # type: ignore[arg-type]


def test_keys_are_the_same_in_every_process() -> None:
    """A fresh interpreter with another hash seed finds the same key."""
    code = "from ettrick.sim import rng; import sys; sys.stdout.write(str(rng.stream(1, 0, 'lives', 'gpu')))"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(rng.__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": salt},
        ).stdout
        for salt in ("1", "2")
    }
    assert found == {str(KEY)}


def test_streams_do_not_collide() -> None:
    """Streams of 200 names and 100 replications have 20,000 different keys."""
    keys = sorted(rng.stream(1, r, "source", f"name-{n}") for r, n in product(range(100), range(200)))
    assert all(first < second for first, second in pairwise(keys))


def test_a_million_numbers_take_milliseconds() -> None:
    """A million numbers take well under a tenth of a second even on a busy machine (about 6 ms on an idle one)."""
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        rng.uniform(KEY, range(1_000_000))
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.1


# ----------------------------------------
# Keyed random numbers look independent whatever neighbours are compared: slots, draws, keys, seeds, replications.
#
# The statistical checks form a battery that takes any mixer. The real one must pass all of them; each of a set of
# deliberately weak ones must fail, which shows that the battery can see what it is looking for.

Mixer = Callable[[int, NDArray[np.uint64], int], NDArray[np.float64]]

Check = Callable[[Mixer], Iterator[tuple[str, float]]]

SMALLEST_P = 1e-6  # about 100 two-sided p-values are looked at; a sound mixer fails one in 5,000 batteries

COUNT = 1 << 17


def counters(count: int = COUNT) -> NDArray[np.uint64]:
    """Return 0 .. count-1."""
    return np.arange(count, dtype=np.uint64)


def bits(numbers: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return the 52 random bits of each number."""
    return (numbers * 2.0**52).astype(np.uint64)


def chi_square(cells: NDArray[np.uint64], classes: int) -> float:
    """Return the p-value of equal class probabilities."""
    return float(stats.chisquare(np.bincount(cells.astype(np.int64), minlength=classes)).pvalue)


def pairs(name: str, first: NDArray[np.float64], second: NDArray[np.float64]) -> Iterator[tuple[str, float]]:
    """Yield p-values of independence of two sequences: 16 x 16 grids of the top and bottom bits, and correlation."""
    for label, shift in (("top", 48), ("bottom", 0)):
        row, column = ((bits(numbers) >> np.uint64(shift)) & np.uint64(15) for numbers in (first, second))
        yield f"{name}: {label} bits", chi_square(row * np.uint64(16) + column, 256)
    correlation = np.corrcoef(first, second)[0, 1]
    yield f"{name}: correlation", float(2 * stats.norm.sf(abs(correlation) * np.sqrt(len(first))))


def check_uniformity(mix: Mixer) -> Iterator[tuple[str, float]]:
    """Numbers of one stream, of one slot over many draws and of one slot over many keys are uniform."""
    sequences = {
        "index": mix(KEY, counters(), 0),
        "wide index": mix(KEY, counters() << np.uint64(40), 0),
        "sub": np.array([mix(KEY, counters(1), sub)[0] for sub in range(1 << 13)]),
        "key": np.array([mix(key, counters(1), 0)[0] for key in range(1 << 13)]),
    }
    for name, numbers in sequences.items():
        yield f"{name}: Kolmogorov-Smirnov", float(stats.kstest(numbers, "uniform").pvalue)
        yield f"{name}: top bits", chi_square(bits(numbers) >> np.uint64(44), 256)
        yield f"{name}: bottom bits", chi_square(bits(numbers) & np.uint64(255), 256)


def check_index_neighbours(mix: Mixer) -> Iterator[tuple[str, float]]:
    """Slots at several distances are independent."""
    index = counters()
    for distance in (1, 2, 3, 8, 72, 1024, 1 << 20, 1 << 32):
        yield from pairs(f"index + {distance}", mix(KEY, index, 0), mix(KEY, index + np.uint64(distance), 0))


def check_sub_neighbours(mix: Mixer) -> Iterator[tuple[str, float]]:
    """Draws of one slot are independent, also of the next slot's."""
    index = counters()
    for distance in (1, 2, 256):
        yield from pairs(f"sub + {distance}", mix(KEY, index, 0), mix(KEY, index, distance))
    yield from pairs("sub + 1, index - 1", mix(KEY, index + np.uint64(1), 0), mix(KEY, index, 1))


def check_key_neighbours(mix: Mixer) -> Iterator[tuple[str, float]]:
    """Streams of neighbouring keys are independent, raw or hashed from neighbouring seeds and replications."""
    index = counters()
    keys = {
        "key + 1": (KEY, KEY + 1),
        "key + 2^63": (KEY, KEY ^ (1 << 63)),
        "small keys": (0, 1),
        "seed + 1": (rng.stream(7, 0, "a"), rng.stream(8, 0, "a")),
        "replication + 1": (rng.stream(7, 0, "a"), rng.stream(7, 1, "a")),
    }
    for name, (first, second) in keys.items():
        yield from pairs(name, mix(first, index, 0), mix(second, index, 0))
    yield from pairs("key + 1, index - 1", mix(KEY, index + np.uint64(1), 0), mix(KEY + 1, index, 0))


def check_collisions(mix: Mixer) -> Iterator[tuple[str, float]]:
    """No number appears twice among neighbouring keys, slots and draws."""
    size = 1 << 13
    block = np.concatenate([mix(KEY + key, counters(size), sub) for key, sub in product(range(8), range(8))])
    collisions = len(block) - len(np.unique(block))
    yield "collisions", min(0.5, float(stats.poisson.sf(collisions - 1, len(block) ** 2 / 2**53)))


def check_rare_events(mix: Mixer) -> Iterator[tuple[str, float]]:
    """Counts of rare numbers per block of slots and draws are binomial: neither clustered nor spread too evenly."""
    probability, size = 1 / 256, 1 << 11
    for sub_step in (0, 1):
        blocks = [mix(KEY, counters(size) + np.uint64((1 - sub_step) * size * i), sub_step * i) for i in range(256)]
        hits = np.array([np.count_nonzero(block < probability) for block in blocks])
        dispersion = np.sum((hits - size * probability) ** 2) / (size * probability * (1 - probability))
        tail = float(stats.chi2.sf(dispersion, len(hits)))
        yield ("blocks of draws" if sub_step else "blocks of slots"), 2 * min(tail, 1 - tail)


def check_avalanche(mix: Mixer) -> Iterator[tuple[str, float]]:
    """Flipping any bit of key, index or sub flips each output bit with probability one half, within 6 sigma."""
    size = 1 << 11
    places = np.arange(52, dtype=np.uint64)[:, None]
    plain = counters(size)
    for bit in range(64):
        flip = 1 << bit
        # Counters with this bit clear: otherwise each pair would be seen twice.
        low = np.uint64(flip - 1)
        index = (plain & low) | ((plain & ~low) << np.uint64(1))
        changes = {
            "index": (mix(KEY, index, 0), mix(KEY, index | np.uint64(flip), 0)),
            "key": (mix(KEY, plain, 0), mix(KEY ^ flip, plain, 0)),
            "sub": (mix(KEY, plain, 0), mix(KEY, plain, flip)),
        }
        for name, (before, after) in changes.items():
            flipped = np.count_nonzero(((bits(before) ^ bits(after)) >> places) & np.uint64(1), axis=1)
            sigmas = np.max(np.abs(flipped - size / 2)) / np.sqrt(size / 4)
            yield f"{name} bit {bit}", 0.5 if sigmas < 6 else 0.0


BATTERY: tuple[Check, ...] = (
    check_uniformity,
    check_index_neighbours,
    check_sub_neighbours,
    check_key_neighbours,
    check_collisions,
    check_rare_events,
    check_avalanche,
)


def failures(check: Check, mix: Mixer) -> list[str]:
    """Return the parts of a check that a mixer fails; p-values too near 1 are as suspect as those near 0."""
    return [f"{name}: p = {p:.3g}" for name, p in check(mix) if not SMALLEST_P < p < 1 - SMALLEST_P]


def strong(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return splitmix64's finaliser of `x`: a sound one, so that only the plan around it is weak."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def as_numbers(x: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return hashes as numbers in (0, 1)."""
    return ((x >> np.uint64(11)) | np.uint64(1)).astype(np.float64) * 2.0**-53


def weak_weyl(key: int, index: NDArray[np.uint64], sub: int) -> NDArray[np.float64]:
    """Multiply only: a lattice."""
    return as_numbers((index + np.uint64((key + sub) & MASK)) * np.uint64(0x9E3779B97F4A7C15))


def weak_one_round(key: int, index: NDArray[np.uint64], sub: int) -> NDArray[np.float64]:
    """One multiplication and one shift."""
    x = (index ^ np.uint64((key ^ (sub * 0x9E3779B97F4A7C15)) & MASK)) * np.uint64(0xBF58476D1CE4E5B9)
    return as_numbers(x ^ (x >> np.uint64(32)))


def weak_sub_shifts_index(key: int, index: NDArray[np.uint64], sub: int) -> NDArray[np.float64]:
    """Draw s of slot i is draw 0 of slot i + s."""
    return as_numbers(strong(strong(index + np.uint64(sub)) ^ np.uint64((key * 0x9E3779B97F4A7C15) & MASK)))


def weak_key_shifts_index(key: int, index: NDArray[np.uint64], sub: int) -> NDArray[np.float64]:
    """Slot i of key k is slot i + 1 of key k - 1."""
    return as_numbers(strong(strong(index + np.uint64(key & MASK)) + np.uint64((sub * 0x9E3779B97F4A7C15) & MASK)))


def weak_key_after(key: int, index: NDArray[np.uint64], sub: int) -> NDArray[np.float64]:
    """Add the key to the finished hash."""
    mixed = strong(strong(index) + np.uint64((sub * 0x9E3779B97F4A7C15) & MASK))
    return as_numbers(mixed + np.uint64(key & MASK))


def weak_no_key(key: int, index: NDArray[np.uint64], sub: int) -> NDArray[np.float64]:
    """Forget the key."""
    return rng.uniform(0 * key, index, sub)


def weak_short(key: int, index: NDArray[np.uint64], sub: int) -> NDArray[np.float64]:
    """Use 32 bits only."""
    return (np.floor(rng.uniform(key, index, sub) * 2.0**32) + 0.5) * 2.0**-32


def weak_even(key: int, index: NDArray[np.uint64], sub: int) -> NDArray[np.float64]:
    """Stratify: every 16 slots fill the 16 sixteenths once, which is too even to be random."""
    return (((index + np.uint64(sub)) % np.uint64(16)).astype(np.float64) + rng.uniform(key, index, sub)) / 16


WEAK = (
    weak_weyl,
    weak_one_round,
    weak_sub_shifts_index,
    weak_key_shifts_index,
    weak_key_after,
    weak_no_key,
    weak_short,
    weak_even,
)


@pytest.mark.parametrize("check", BATTERY)
def test_numbers_look_independent(check: Check) -> None:
    """The mixer passes every check of the battery."""
    assert failures(check, rng.uniform) == []


@pytest.mark.parametrize("mix", WEAK)
def test_battery_turns_red_on_weak_mixers(mix: Mixer) -> None:
    """A deliberately weak mixer fails the battery."""
    assert any(failures(check, mix) for check in BATTERY)


@pytest.mark.parametrize("check", BATTERY)
def test_every_check_is_needed_for_something(check: Check) -> None:
    """Each check of the battery turns red for at least one weak mixer."""
    assert any(failures(check, mix) for mix in WEAK)


def test_streams_are_a_population_of_uniform_numbers() -> None:
    """The first number over successive seeds or replications is uniform, and independent of the next one's."""
    by_replication = np.array([rng.uniform_one(rng.stream(1, r, "a"), 0) for r in range(1 << 14)])
    by_seed = np.array([rng.uniform_one(rng.stream(s, 1, "a"), 0) for s in range(1 << 14)])
    for numbers in (by_replication, by_seed):
        assert stats.kstest(numbers, "uniform").pvalue > SMALLEST_P
        assert all(p > SMALLEST_P for _, p in pairs("next", numbers[:-1], numbers[1:]))
    assert all(p > SMALLEST_P for _, p in pairs("both", by_replication, by_seed))

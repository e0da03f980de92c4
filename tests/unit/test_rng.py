"""Keyed random numbers: the same address gives the same number, and different names give different streams."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tracemalloc
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

from sim import rng
from tests.cases import cases

MASK = (1 << 64) - 1
KEY = rng.stream(1, 0, "lives", "gpu")


# Addresses -------------------------------------------------------------------------------------------------------


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
    numbers = np.empty(2)
    rng._to_uniform(np.array([0, MASK], dtype=np.uint64), numbers)
    assert numbers.tolist() == [2.0**-53, 1 - 2.0**-53]


def test_finaliser_is_a_bijection_with_its_published_constants() -> None:
    """Undoing the published steps of the finaliser returns its input."""
    start = np.arange(1000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = start.copy()
    rng._finalise(mixed, np.empty_like(mixed))

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


# Streams ---------------------------------------------------------------------------------------------------------


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
    code = "from sim import rng; import sys; sys.stdout.write(str(rng.stream(1, 0, 'lives', 'gpu')))"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(rng.__file__).parents[1],
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

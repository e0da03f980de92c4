"""Keyed random numbers: pure look-ups instead of a generator with a state.

A number is addressed by ``(key, index, sub)``: which stream, which slot of it, which draw of that slot. The same
address gives the same number on every machine, in every process and in every order of use, so a larger population
or a longer horizon keeps each earlier draw, and one draw can be repeated alone.

The key is a cryptographic hash of names (:func:`stream`). The numbers are a counter-based hash of the address: two
rounds of a 64-bit finaliser with the key injected before each, and the sub-index between them::

    x = F(F(index + key) + key * A + (sub + 1) * B)        mod 2^64
    u = (2 * floor(x / 2^12) + 1) * 2^-53                  strictly between 0 and 1

For a given key and sub-index the map from index to `x` is a bijection: no two slots share a hash.

References
----------
J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011
(counter-based generators). G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators",
OOPSLA 2014 (counter plus finaliser, the golden-ratio increment). P. Evensen, "Moremur, Murmur, Moremixer", 2019
(the multipliers and shifts of the finaliser F).
"""

from __future__ import annotations

import hashlib
import itertools
import operator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

_MASK = (1 << 64) - 1

_MULTIPLIER_1 = 0x3C79AC492BA7B653

_MULTIPLIER_2 = 0x1C69B3F74AC4AE35

_KEY_FACTOR = 0xD1342543DE82EF95  # A, odd: spreads the key before it enters the second round

_SUB_FACTOR = 0x9E3779B97F4A7C15  # B, odd: 2^64 / golden ratio

_CHUNK = 1 << 14  # 128 KiB a buffer: the two that are in use stay in the second-level cache

_STEPS = np.arange(_CHUNK, dtype=np.uint64)


def stream(seed: int, replication: int, *names: str | int) -> int:
    """Return the 64-bit key of a named stream of random numbers.

    Parameters
    ----------
    seed
        Seed of the study.
    replication
        Index of the replication.
    *names
        Path of the stream, for example ``"lives", "gpu"``. Order, number and type matter: ``("a", "b")``, ``("ab",)``,
        ``(1,)`` and ``("1",)`` are four streams.

    Returns
    -------
    int
        Key in [0, 2^64), the same in every process.

    Raises
    ------
    TypeError
        If a part is neither text nor an integer.
    """
    return _key(hashlib.blake2b(encoded(seed, replication, *names), digest_size=8))


def streams(seed: int, replication: int, paths: Iterable[bytes]) -> NDArray[np.uint64]:
    """Return the keys of several streams, whose names are `encoded`: faster than one by one."""
    digest = hashlib.blake2b(encoded(seed, replication), digest_size=8)
    keys = bytearray()
    for path in paths:
        branch = digest.copy()
        branch.update(path)
        keys += branch.digest()
    return np.frombuffer(keys, "<u8")


def encoded(*parts: str | int) -> bytes:
    """Return texts and integers as bytes that nothing else gives: each after a type tag and its length.

    Raises
    ------
    TypeError
        If a part is neither text nor an integer.
    """
    encoding = b""
    for part in parts:
        tag, text = ("s", part) if isinstance(part, str) else ("i", str(operator.index(part)))
        content = text.encode()
        encoding += f"{tag}{len(content)}:".encode() + content
    return encoding


def _key(digest: hashlib.blake2b) -> int:
    return int.from_bytes(digest.digest(), "little")


def uniform_one(key: int, index: int, sub: int = 0) -> float:
    """Return one uniform number; equal to the last bit to :func:`uniform` at the same address.

    Compiled with its constants and arguments as 64-bit unsigned integers it returns the same bits: no operation mixes
    one of them with a signed number, and the masks then change nothing.

    Parameters
    ----------
    key
        Key of the stream, from :func:`stream`.
    index
        Slot within the stream; taken modulo 2^64, like `sub`.
    sub
        Draw within the slot.

    Returns
    -------
    float
        Uniform number in (0, 1) [-].
    """
    # The finaliser is written out twice: a function call would cost a fifth of the time.
    x = (index + key) & _MASK
    x = ((x ^ (x >> 27)) * _MULTIPLIER_1) & _MASK
    x = ((x ^ (x >> 33)) * _MULTIPLIER_2) & _MASK
    x = ((x ^ (x >> 27)) + key * _KEY_FACTOR + sub * _SUB_FACTOR + _SUB_FACTOR) & _MASK
    x = ((x ^ (x >> 27)) * _MULTIPLIER_1) & _MASK
    x = ((x ^ (x >> 33)) * _MULTIPLIER_2) & _MASK
    return (((x ^ (x >> 27)) >> 11) | 1) * 2.0**-53


def uniform(key: int, index: NDArray[np.integer] | range, sub: int | NDArray[np.integer] = 0) -> NDArray[np.float64]:
    """Return uniform numbers for many slots of a stream.

    Parameters
    ----------
    key
        Key of the stream, from :func:`stream`.
    index
        Slots, an integer array of shape (n,) or a range; in any order, repetitions allowed.
    sub
        Draw within the slot, or one for each, shape (n,).

    Returns
    -------
    NDArray[np.float64]
        Uniform numbers in (0, 1) [-], shape (n,): odd multiples of 2^-53.

    Raises
    ------
    TypeError
        If `index` does not hold integers.
    """
    if isinstance(index, np.ndarray) and not np.issubdtype(index.dtype, np.integer):
        raise TypeError(f"index must hold integers, not {index.dtype}")
    chunks = [_to_uniform(hashes) for _, hashes in _hash_chunks(key, index, sub)]
    return chunks[0] if len(chunks) == 1 else np.concatenate([np.empty(0), *chunks])


def below(
    key: int, count: int, sub: int, threshold: float | NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the slots of 0 .. count-1 whose uniform number is below a threshold, and those numbers.

    Equal to ``u = uniform(key, range(count), sub)`` followed by ``u < threshold``, without ever holding more than
    one chunk of a population: rare failures among millions of parts cost time, not memory.

    Parameters
    ----------
    key
        Key of the stream, from :func:`stream`.
    count
        Number of slots.
    sub
        Draw within the slot.
    threshold
        Probability [-], or one of each slot, shape (count,); values outside [0, 1] select none or all.

    Returns
    -------
    tuple[NDArray[np.int64], NDArray[np.float64]]
        Slots in ascending order, shape (m,), and their numbers, shape (m,).
    """
    most = _most(threshold)
    slots = [np.empty(0, dtype=np.int64)]
    numbers = [np.empty(0, dtype=np.float64)]
    for start, hashes in _hash_chunks(key, range(count), sub):
        hits = np.flatnonzero(hashes <= (most if most.ndim == 0 else most[start : start + len(hashes)]))
        if len(hits):
            chunk = _to_uniform(hashes[hits])
            hits += start
            inside = chunk < (threshold if isinstance(threshold, float) else threshold[hits])
            numbers.append(chunk[inside])
            slots.append(hits[inside])
    return np.concatenate(slots), np.concatenate(numbers)


def below_each(
    keys: Sequence[int], count: int, sub: int, thresholds: Sequence[float]
) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Return `below` of several streams, which is sooner than one after the other where there are few slots."""
    together = _CHUNK // count
    if together < 2:
        return [below(key, count, sub, threshold) for key, threshold in zip(keys, thresholds, strict=True)]
    draws = []
    for start in range(0, len(keys), together):
        some, limits = keys[start : start + together], np.array(thresholds[start : start + together])
        hashes = np.array([key & _MASK for key in some], dtype=np.uint64)[:, None] + _STEPS[:count]
        spare = np.empty_like(hashes)
        second = [(key * _KEY_FACTOR + (sub + 1) * _SUB_FACTOR) & _MASK for key in some]
        _hash(hashes, np.array(second, dtype=np.uint64)[:, None], spare)
        rows, slots = np.nonzero(hashes <= _most(limits)[:, None])
        numbers = _to_uniform(hashes[rows, slots])
        inside = numbers < limits[rows]
        rows, slots, numbers = rows[inside], slots[inside], numbers[inside]
        edges = itertools.pairwise(np.searchsorted(rows, range(len(some) + 1)).tolist())
        draws += [(slots[first:stop], numbers[first:stop]) for first, stop in edges]
    return draws


def _most(threshold: float | NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return the largest hash without its last step whose number may be below a threshold.

    That step leaves the first 27 bits as they are: they say of nearly all that they are too large.
    """
    first = np.clip(np.floor(np.multiply(threshold, 2.0**27)), 0, 2**27 - 1).astype(np.uint64)
    return np.asarray((first << np.uint64(37)) | np.uint64((1 << 37) - 1))


def _hash_chunks(
    key: int, index: NDArray[np.integer] | range, sub: int | NDArray[np.integer]
) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    """Yield the position of each chunk of `index` and its hashes but for their last step, in a buffer for all."""
    count = len(index)
    first = np.uint64(key & _MASK)
    single = sub if isinstance(sub, int) else 0
    second = np.uint64((key * _KEY_FACTOR + (single + 1) * _SUB_FACTOR) & _MASK)
    buffer = np.empty(min(count, _CHUNK), dtype=np.uint64)
    scratch = np.empty_like(buffer)
    if isinstance(index, range):
        steps = _STEPS if index.step == 1 else _STEPS * np.uint64(index.step & _MASK)
    for start in range(0, count, _CHUNK):
        length = min(_CHUNK, count - start)
        hashes, spare = buffer[:length], scratch[:length]
        if isinstance(index, range):
            np.add(steps[:length], np.uint64((index[start] + key) & _MASK), out=hashes)
        else:
            np.add(index[start : start + length].astype(np.uint64, copy=False), first, out=hashes)
        more = (
            np.uint64(0)
            if isinstance(sub, int)
            else sub[start : start + length].astype(np.uint64) * np.uint64(_SUB_FACTOR)
        )
        _hash(hashes, second + more, spare)
        yield start, hashes


def _hash(x: NDArray[np.uint64], second: NDArray[np.uint64] | np.uint64, spare: NDArray[np.uint64]) -> None:
    """Hash sums of key and index in place but for the last step; `second` enters between, `spare` is overwritten."""
    _mix(x, spare)
    np.right_shift(x, np.uint64(27), out=spare)
    x ^= spare
    x += second
    _mix(x, spare)


def _mix(x: NDArray[np.uint64], spare: NDArray[np.uint64]) -> None:
    """Apply the finaliser F but for its last step to `x` in place, shape (n,); `spare` is overwritten."""
    np.right_shift(x, np.uint64(27), out=spare)
    x ^= spare
    x *= np.uint64(_MULTIPLIER_1)
    np.right_shift(x, np.uint64(33), out=spare)
    x ^= spare
    x *= np.uint64(_MULTIPLIER_2)


def _to_uniform(hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the uniform numbers of hashes without their last step, shape (n,).

    Odd multiples of 2^-53 are exact. The usual (floor(x / 2^11) + 0.5) * 2^-53 is not: above one half the sum rounds
    to even, and the largest hash would give exactly 1.
    """
    last = hashes >> np.uint64(27)
    last ^= hashes
    last >>= np.uint64(11)
    last |= np.uint64(1)
    # Below 2^53 the signed view is the same number, and converts several times faster.
    return np.multiply(last.view(np.int64), 2.0**-53, dtype=np.float64)

"""How the ranks of a layout are numbered and divided: coordinates, divisors, and what divides next to what does not."""

from __future__ import annotations

from bisect import bisect
from math import isqrt
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ORDER",
    "GroupKind",
    "coordinate_sizes",
    "divisors",
    "expert_sizes",
    "experts_cover_context",
    "near",
    "near_divisors",
]

GroupKind: TypeAlias = Literal["tensor", "context", "expert", "data", "pipeline"]
"""Kinds of groups, and the coordinates of a rank."""
ORDER: tuple[GroupKind, ...] = get_args(GroupKind)
"""Coordinates of ranks as most stacks order them, from the fastest-varying to the slowest."""


def divisors(number: int) -> list[int]:
    """Return the divisors of a number, ascending."""
    small = [part for part in range(1, isqrt(number) + 1) if number % part == 0]
    return small + [number // part for part in reversed(small) if part * part != number]


def near(valid: Sequence[int], size: int) -> str:
    """Return the valid sizes (ascending) next to one, in words."""
    place = bisect(valid, size)
    return " or ".join(str(part) for part in valid[max(place - 1, 0) : place + 1])


def near_divisors(whole: int, size: int) -> str:
    """Return the divisors of a whole next to a size, in words."""
    return near(divisors(whole), size)


def experts_cover_context(data: int, expert: int) -> bool:
    """Return whether experts are spread over whole context groups too, and not over replicas alone."""
    return data % expert != 0


def expert_sizes(data: int, context: int) -> list[int]:
    """Return how many ranks experts can be spread over, ascending: a part of the replicas, or of those whole groups."""
    parts = divisors(data)
    return sorted({*parts, *(context * part for part in parts)})


def coordinate_sizes(tensor: int, context: int, pipeline: int, data: int, expert: int) -> dict[GroupKind, int]:
    """Return the number of values of each coordinate of a rank [-].

    Replicas have two: the one among those that experts are spread over, and which of such sets. Experts that are more
    than replicas take tensor ranks in, and leave one set.
    """
    among = min(expert // context if experts_cover_context(data, expert) else expert, data)
    return {"tensor": tensor, "context": context, "expert": among, "data": max(1, data // among), "pipeline": pipeline}

"""How much of the suite a push plays: a part that is always the same; `make nightly` plays all of it, drawn again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

SEED = int(os.environ.get("ETTRICK_SEED", "1"))

"""Seed of what the statistical tests draw."""

IS_FULL = "ETTRICK_SEED" in os.environ

"""Whether random examples are drawn again, and all of them."""


def budget(count: int) -> int:
    """Return how many random examples are tried: a sixteenth of them, unless a seed is given."""
    return count if IS_FULL else -(-count // 16)


def sample(count: int) -> int:
    """Return how many draws a test takes whose intervals follow from them: two in five per push."""
    return count if IS_FULL else -(-2 * count // 5)


def some(number: int, table: Iterable[Any]) -> list[Any]:
    """Return the rows of a table that is one test: each `number`-th per push, all of them if a seed is given."""
    return list(table)[:: 1 if IS_FULL else number]


def one_in(number: int, table: Iterable[Any]) -> list[Any]:
    """Return the rows of a table, of which each `number`-th is tried per push and the others are nightly.

    A tuple is a row of several parameters.
    """
    rows = (row if type(row) is tuple else (row,) for row in table)
    return [pytest.param(*row, marks=[pytest.mark.nightly] * (at % number > 0)) for at, row in enumerate(rows)]

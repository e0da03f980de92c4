"""Random numbers of one purpose, looked up one by one or, where many are asked for, a whole column at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim import rng

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Numbers"]

_COLUMNS = 64
_ONE_BY_ONE = 50
"""A look-up of its own costs about as much as fifty in a column."""


class Numbers:
    """The numbers of the slots of a source, by number of the life: the same as one by one, only sooner.

    `convert` makes something else of them, all at once (lives, for example); `convert_one` does so with one.
    """

    __slots__ = ("_asked", "_convert", "_convert_one", "_few", "_key", "_slots", "columns")

    def __init__(
        self,
        key: int,
        slots: int,
        convert: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
        convert_one: Callable[[int, float], float] | None = None,
    ) -> None:
        self._key = key
        self._slots = slots
        self._few = max(slots // _ONE_BY_ONE, 1)
        self.columns: dict[int, list[float]] = {}
        self._asked: dict[int, int] = {}
        self._convert = convert
        self._convert_one = convert_one

    def get(self, slot: int, number: int) -> float:
        """Return the number of a slot's life `number`."""
        column = self.columns.get(number)
        if column is not None:
            return column[slot]
        if number < _COLUMNS:
            asked = self._asked[number] = self._asked.get(number, 0) + 1
            if asked > self._few:
                column = self.columns[number] = self._column(number)
                return column[slot]
        found = rng.uniform_one(self._key, slot, number)
        return found if self._convert_one is None else self._convert_one(slot, found)

    def _column(self, number: int) -> list[float]:
        numbers = rng.uniform(self._key, range(self._slots), number)
        column: list[float] = (numbers if self._convert is None else self._convert(numbers)).tolist()
        return column

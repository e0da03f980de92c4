"""Numbers of many replications in little memory: rows of a few numbers each, without an object for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

__all__ = ["Rows"]

Row = TypeVar("Row", bound=tuple[float, ...])


class Rows(Sequence[Row]):
    """A sequence of rows, such as ratios, that are made when they are asked for; equal to any sequence of the same.

    Parameters
    ----------
    numbers
        One row after another.
    width
        Numbers of a row.
    make
        Makes a row of its numbers.
    """

    __slots__ = ("_make", "_numbers", "_width")

    def __init__(self, numbers: array[float], width: int, make: Callable[[Iterable[float]], Row]) -> None:
        self._numbers, self._width, self._make = numbers[:], width, make  # a copy has no room for what may follow

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._numbers) // self._width

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        """Return a row, or some of them."""
        if isinstance(index, slice):
            places = range(*index.indices(len(self)))
            if places.step != 1:
                return [self[place] for place in places]
            return Rows(self._numbers[places.start * self._width : places.stop * self._width], self._width, self._make)
        place = range(len(self))[index] * self._width
        return self._make(self._numbers[place : place + self._width])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.float64]:
        """Return the numbers, shape (n, width)."""
        # Always a copy: whoever changes an array does not mean to change what was simulated.
        return np.array(self._numbers, dtype=dtype or np.float64).reshape(-1, self._width)

    def __eq__(self, other: object) -> bool:
        """Return whether another sequence has the same rows."""
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

"""Rows of a few numbers each, one per replication, in little memory: no object is there for each of them."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from ettrick.sim import Ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

Row = TypeVar("Row")


class _Rows(Sequence[Row]):
    """A sequence of rows that are made when they are read; equal to any sequence of the same rows."""

    def __eq__(self, rows: object) -> bool:
        """Return whether another sequence has the same rows."""
        return isinstance(rows, Sequence) and list(self) == list(rows)

    __hash__ = None  # type: ignore[assignment]

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        """Return a row, or some of them."""
        numbers = range(len(self))[index]
        return self._some(numbers) if isinstance(numbers, range) else self._row(numbers)

    def _some(self, numbers: range) -> Sequence[Row]:
        return [self._row(number) for number in numbers]

    @abstractmethod
    def _row(self, number: int) -> Row: ...


class LazyRows(_Rows[Row]):
    """Rows of equally many numbers, such as ratios."""

    __slots__ = ("_make", "_numbers", "_width")

    def __init__(self, numbers: array[float], width: int, make: Callable[[Iterable[float]], Row]) -> None:
        self._numbers, self._width, self._make = numbers[:], width, make  # a copy has no room for what may follow

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._numbers) // self._width

    def _some(self, numbers: range) -> Sequence[Row]:
        if numbers.step != 1:
            return super()._some(numbers)
        return LazyRows(self._of(numbers.start, numbers.stop), self._width, self._make)

    def _row(self, number: int) -> Row:
        return self._make(self._of(number, number + 1))

    def _of(self, first: int, end: int) -> array[float]:
        return self._numbers[first * self._width : end * self._width]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.float64]:
        """Return the numbers, shape (n, width)."""
        # Always a copy: whoever changes an array does not mean to change what was simulated.
        return np.array(self._numbers, dtype=dtype or np.float64).reshape(-1, self._width)


_WIDTH = len(Ratio._fields)
_NOTHING = Ratio(0.0, 0.0)


class MetricTable(_Rows[Mapping[str, Ratio]]):
    """The metrics of all replications, 24 bytes each: a row for each, as `ettrick.analysis.ratios.ratios` has it."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._numbers = array("d")
        self._count = 0

    def append(self, row: Mapping[str, Ratio]) -> None:
        """Add the metrics of a replication, or those of a block of them, whose numbers are columns.

        One that another replication lacks, such as of a size, is nothing there.
        """
        if not row.keys() <= self._places.keys():
            self._widen(row)
        count = max(
            (np.size(ratio.amount) for ratio in row.values() if isinstance(ratio.amount, np.ndarray)), default=1
        )
        numbers = itertools.chain.from_iterable([row.get(name, _NOTHING) for name in self._places])
        if count == 1:
            self._numbers.extend(numbers)
        else:
            table = np.empty((count, len(self._places) * _WIDTH))
            for place, number in enumerate(numbers):
                table[:, place] = number
            self._numbers.frombytes(table.tobytes())
        self._count += count

    def _widen(self, names: Iterable[str]) -> None:
        """Let a row have further metrics: nothing so far."""
        before = self.numbers()
        for name in names:
            self._places.setdefault(name, len(self._places))
        after = np.zeros((self._count, len(self._places), _WIDTH))
        after[:, : before.shape[1]] = before
        self._numbers = array("d", after.tobytes())

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics, in the order in which they came."""
        return tuple(self._places)

    def numbers(self) -> npt.NDArray[np.float64]:
        """Return the numbers, shape (replications, metrics, 3)."""
        return np.array(self._numbers).reshape(self._count, len(self._places), _WIDTH)

    def __len__(self) -> int:
        """Return the number of replications."""
        return self._count

    def column(self, name: str) -> Sequence[Ratio]:
        """Return a metric of all replications."""
        place = _WIDTH * self._places[name]
        stride = _WIDTH * len(self._places)
        numbers = np.frombuffer(self._numbers).reshape(-1, stride)[:, place : place + _WIDTH]
        return LazyRows(array("d", numbers.tobytes()), _WIDTH, Ratio._make)

    def _row(self, number: int) -> Mapping[str, Ratio]:
        width = _WIDTH * len(self._places)
        numbers = self._numbers[number * width : (number + 1) * width]
        return {name: Ratio(*numbers[_WIDTH * place : _WIDTH * (place + 1)]) for name, place in self._places.items()}


def column(rows: Sequence[Mapping[str, Ratio]], name: str) -> Sequence[Ratio]:
    """Return a metric of all replications, of a table without an object for each."""
    return rows.column(name) if isinstance(rows, MetricTable) else [row[name] for row in rows]

"""What one store holds: its complete copies, and the one on its way."""

from __future__ import annotations

from typing import NamedTuple

from sim.checkpoint.series import TIE, whole

__all__ = ["Shelf"]


class Shelf(NamedTuple):
    """Copies of a store, by the work in them [s].

    The newest complete one holds ``newest``; of the ``copies`` that are kept each older one holds one interval less.
    ``good`` tells whether the newest is known to be readable. The copy on its way holds ``draining``, and is complete
    in ``drain_left`` [s].
    """

    newest: float = 0.0
    copies: int = 0
    good: bool = False
    draining: float = 0.0
    drain_left: float = 0.0

    def waited(self, seconds: float, limit: int) -> Shelf:
        """Return what is held `seconds` [s] later without a new save, of `limit` copies at most."""
        if not self.draining:
            return self
        if seconds >= self.drain_left:
            return Shelf(self.draining, min(self.copies + 1, limit))
        return self._replace(drain_left=self.drain_left - seconds)

    def work(self, number: int, spacing: float) -> float:
        """Return the work in the copy that `number` newer ones follow, at a `spacing` of the copies [s]."""
        return max(self.newest - number * spacing, 0.0)

    def without_end(self, spacing: float) -> Shelf:
        """Return what a store holds that keeps everything: copies at a `spacing` [s] since the job began."""
        return self._replace(copies=max(whole(self.newest / spacing), 0)) if self.newest else self

    def newer_than(self, work: float, spacing: float) -> int:
        """Return how many copies hold more than some `work` [s], were there no end of them."""
        beyond = self.newest - work
        return max(whole(beyond / spacing), 0) if beyond > TIE * self.newest else 0

    def cut(self, number: int, spacing: float) -> Shelf:
        """Return what is held without the `number` newest copies and the one on its way."""
        if number >= self.copies:
            return Shelf()
        if not number and not self.draining:
            return self
        return Shelf(self.work(number, spacing), self.copies - number, self.good and number == 0)

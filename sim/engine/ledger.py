"""Where every GPU-second went: buckets x causes x windows, and a sum that must close."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ettrick.sim.policies.contracts import Bucket

if TYPE_CHECKING:
    from numpy.typing import NDArray

BUCKETS = len(Bucket)


class LedgerError(AssertionError):
    """The buckets do not add up to the capacity: a defect of the program, never of the input."""


class RiskPiece:
    """A stretch of stepping whose work is not yet durable.

    ``work`` is in healthy seconds [s]; ``degraded`` is GPU time charged to the bucket of that name [GPU s]. Work
    that is known to be wrong, and stays, has the cause ``wrong``; of all other work that is 0.
    """

    __slots__ = ("cause", "degraded", "table", "work", "wrong")

    def __init__(self, work: float, degraded: float, cause: int, table: list[list[float]]) -> None:
        self.work = work
        self.degraded = degraded
        self.cause = cause
        self.table = table
        self.wrong = 0


class Account:
    """GPU-seconds of one job (or of the nodes outside jobs) by bucket and cause, one table per window.

    Charges go to the table of the current window. Work that is not durable yet is remembered in pieces, so that a
    rollback takes it out of the window in which it was earned.
    """

    __slots__ = ("absences", "absent", "causes", "gpus", "overhead", "risk", "table", "tables", "wrong")

    def __init__(self, causes: int, gpus: float, overhead: float = 0.0) -> None:
        self.causes = causes
        self.gpus = gpus
        self.overhead = overhead
        """GPU-time that redundancy takes of each second of work, without any failure [GPU s/s]."""
        self.risk: list[RiskPiece] = []
        self.wrong = 0.0
        """Wrong work that has stayed [s]."""
        self.absent = [0.0] * BUCKETS
        """GPU-seconds that were charged but belong to nodes that the job did not hold, by bucket [GPU s]."""
        self.absences: dict[tuple[int, int, int], float] = {}
        """The same by window, bucket and cause [GPU s]."""
        # Waiting is charged to `table` directly; only stepping needs more than a sum.
        self.tables: list[list[list[float]]] = []
        self.open_window()

    def open_window(self) -> None:
        """Send what comes to a new table."""
        self.table = [[0.0] * self.causes for _ in range(BUCKETS)]
        self.tables.append(self.table)

    def step(self, work: float, degraded: float, stalled: float, cause: int, at_risk: float) -> None:
        """Charge stepping.

        Parameters
        ----------
        work
            Healthy seconds of work done [s].
        degraded
            GPU time lost to a pace below the healthy one [GPU s]; what redundancy takes is beside it.
        stalled
            GPU time in the stalls of saves [GPU s].
        cause
            Cause of the degraded pace.
        at_risk
            Work of this job that is not durable now [s]; older pieces are forgotten.
        """
        table = self.table
        table[0][0] += work * self.gpus
        table[2][0] += stalled
        if degraded:
            table[1][cause] += degraded
        if self.overhead:
            table[1][0] += work * self.overhead
        risk = self.risk
        if risk:
            last = risk[-1]
            if last.table is table and not degraded and not last.degraded and not last.wrong:
                last.work += work
            else:
                risk.append(RiskPiece(work, degraded, cause, table))
        else:
            risk.append(RiskPiece(work, degraded, cause, table))
        if len(risk) == 1:
            piece = risk[0]
            if piece.degraded and piece.work > 0:
                piece.degraded *= min(at_risk / piece.work, 1.0)
            piece.work = at_risk
        else:
            self._forget(at_risk)

    def _forget(self, at_risk: float) -> None:
        """Keep only the newest `at_risk` seconds of work."""
        kept: list[RiskPiece] = []
        for piece in reversed(self.risk):
            if at_risk <= 0:
                break
            if piece.work > at_risk:
                piece.degraded *= at_risk / piece.work
                piece.work = at_risk
            at_risk -= piece.work
            kept.append(piece)
        self.risk = kept[::-1]

    def lose(self, work: float, cause: int) -> None:
        """Move the newest `work` seconds from where they are to lost work."""
        risk = self.risk
        while work > 0 and risk:
            piece = risk[-1]
            if work < piece.work:
                piece = self._split(piece, work)
                work = 0.0
            work -= piece.work
            self._move(piece, Bucket.LOST_WORK, cause)
            risk.pop()

    def accept(self, work: float, cause: int) -> None:
        """Move the newest `work` seconds, which are wrong and stay, from productive and degraded to wrong work."""
        for piece in self.risk[::-1]:
            if work <= 0:
                return
            if work < piece.work:
                piece = self._split(piece, work)
                work = 0.0
            work -= piece.work
            if not piece.wrong:
                self._move(piece, Bucket.WRONG_WORK, cause)
                piece.wrong = cause
                self.wrong += piece.work

    def _split(self, piece: RiskPiece, work: float) -> RiskPiece:
        """Cut the newest `work` seconds off a piece; return them, a piece of their own after it."""
        part = work / piece.work
        newest = RiskPiece(piece.work * part, piece.degraded * part, piece.cause, piece.table)
        newest.wrong = piece.wrong
        piece.work -= newest.work
        piece.degraded -= newest.degraded
        self.risk.insert(self.risk.index(piece) + 1, newest)
        return newest

    def _move(self, piece: RiskPiece, bucket: Bucket, cause: int) -> None:
        """Move the GPU-time of a piece to a bucket."""
        table, work, degraded = piece.table, piece.work * self.gpus, piece.degraded
        extra = piece.work * self.overhead
        if piece.wrong:
            self.wrong -= piece.work
            table[Bucket.WRONG_WORK][piece.wrong] -= work + degraded + extra
        else:
            table[Bucket.PRODUCTIVE][0] -= work
            table[Bucket.DEGRADED][piece.cause] -= degraded
            if extra:
                table[Bucket.DEGRADED][0] -= extra
        table[bucket][cause] += work + degraded
        if extra:
            table[bucket][cause] += extra

    def leave_out(self, bucket: int, cause: int, gpu_s: float) -> None:
        """Mark GPU-seconds that were charged as those of nodes that the job did not hold [GPU s]."""
        self.absent[bucket] += gpu_s
        key = len(self.tables) - 1, bucket, cause
        self.absences[key] = self.absences.get(key, 0.0) + gpu_s

    def totals(self) -> NDArray[np.float64]:
        """Return the GPU-seconds, shape (windows, buckets, causes)."""
        return np.asarray(self.tables, dtype=np.float64)

    def held(self) -> NDArray[np.float64]:
        """Return the GPU-seconds of nodes that the job held, and those that it queued for, shaped as `totals`."""
        held = self.totals()
        for place, gpu_s in self.absences.items():
            if place[1] != Bucket.QUEUED:
                held[place] -= gpu_s
        return held

    def close(self, capacity: float, what: str, scale: float = 0.0) -> None:
        """Check that the buckets add up to `capacity` [GPU s]; see :func:`check_sum`."""
        check_sum(float(self.totals().sum()), capacity, what, scale)


def check_sum(total: float, capacity: float, what: str, scale: float = 0.0) -> None:
    """Check that the buckets of something, which add up to `total` [GPU s], come to its `capacity` [GPU s].

    `scale` [GPU s] is the size of the amounts behind `capacity`, where that is a difference.

    Raises
    ------
    LedgerError
        If they do not, within 1e-9 of the larger of the two.
    """
    if abs(total - capacity) > 1e-9 * max(capacity, scale, 1.0):
        message = f"the buckets of {what} add up to {total!r} GPU s, but its capacity is {capacity!r} GPU s"
        raise LedgerError(message)

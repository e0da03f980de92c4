"""Schedulers: the shared check for each, and what first in, first out means."""

from __future__ import annotations

from typing import Any

import pytest

from sim.policies.contracts import QueuedJob
from sim.policies.scheduler import SCHEDULERS, Fifo
from tests.cases import cases
from tests.harness import check_scheduler

WORK_CONSERVING = {"fifo": False}


@pytest.mark.parametrize("name", sorted(SCHEDULERS))
def test_what_every_scheduler_owes(name: str) -> None:
    """Each registered scheduler passes the shared check for what it claims."""
    kind: Any = SCHEDULERS[name]
    check_scheduler(kind(), work_conserving=WORK_CONSERVING[name])


def queue(*sizes: int) -> tuple[QueuedJob, ...]:
    """Return a queue of jobs of these sizes."""
    return tuple(QueuedJob(f"job {index}", size, float(index)) for index, size in enumerate(sizes))


@cases(
    ("sizes", "free", "chosen"),
    [((), 5, ()), ((3, 2), 5, (0, 1)), ((3, 3, 1), 5, (0,)), ((6, 1), 5, ()), ((5, 1), 5, (0,)), ((1, 1, 1), 0, ())],
)
def test_fifo_by_hand(sizes: tuple[int, ...], free: int, chosen: tuple[int, ...]) -> None:
    """Jobs start in order until the first that does not fit; the next does not overtake it."""
    assert Fifo().select(queue(*sizes), free) == chosen


def test_the_check_finds_a_greedy_scheduler() -> None:
    """The shared check turns red for one that gives nodes away twice, and for one that starts nothing."""

    class Greedy:
        """Start everybody."""

        def select(self, queue: tuple[QueuedJob, ...], free: int) -> tuple[int, ...]:
            return tuple(range(len(queue)))

    class Lazy:
        """Start nobody."""

        def select(self, queue: tuple[QueuedJob, ...], free: int) -> tuple[int, ...]:
            return ()

    with pytest.raises(AssertionError, match="given away twice"):
        check_scheduler(Greedy(), work_conserving=False)
    with pytest.raises(AssertionError, match="does not start"):
        check_scheduler(Lazy(), work_conserving=False)
    with pytest.raises(AssertionError, match="left waiting"):
        check_scheduler(Fifo(), work_conserving=True)

"""The steps from one ETTR to another, bucket by bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from analysis.metrics import time_shares
from analysis.paired import Difference, difference
from analysis.report.sections.account import phase_name
from sim import JOB_BUCKETS, Ratio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sim import Result

__all__ = ["Bridge", "Step", "bridge_of"]

_PREFIX = "time_shares."
_PRODUCTIVE = f"{_PREFIX}productive"
_SMALLEST = 1e-9
"""Change of a share that is rounding [-]."""
_SEEN = 0.01
"""Part of the largest step below which a step is put together with others."""


class Step(NamedTuple):
    """What a bucket contributes to the change of ETTR.

    Parameters
    ----------
    bucket
        Its key.
    before, after
        Its share of the requested GPU-time in either scenario [-].
    found
        By how much it is smaller in the second one, which is a gain; ``None`` from a single replication.
    """

    bucket: str
    before: float
    after: float
    found: Difference | None

    @property
    def name(self) -> str:
        """What it is called."""
        return phase_name(self.bucket)

    @property
    def gain(self) -> float:
        """What ETTR gains by it [-]."""
        return self.before - self.after


class Bridge(NamedTuple):
    """From one ETTR to another.

    Parameters
    ----------
    before, after
        ETTR of either scenario [-].
    steps
        One for each bucket that changes, the largest gain first.
    drawn
        The same, with those that nobody would see put together.
    whole
        The difference of the two ETTR; ``None`` from a single replication.
    """

    before: float
    after: float
    steps: tuple[Step, ...]
    drawn: tuple[Step, ...]
    whole: Difference | None


def bridge_of(before: Sequence[Result], after: Sequence[Result]) -> Bridge | None:
    """Return how the shares of time lead from one scenario to another; ``None`` if a job never asked for anything.

    All buckets but ``productive`` are losses, and both scenarios' shares sum to one, so that what the losses fall by is
    what ETTR gains: ``sum(before - after) = ETTR(after) - ETTR(before)``.

    Parameters
    ----------
    before, after
        The same replications of both, in the same order, so that differences are paired.
    """
    ours, theirs = [time_shares(result) for result in after], [time_shares(result) for result in before]
    names = [f"{_PREFIX}{bucket}" for bucket in JOB_BUCKETS]
    first, second = _means(theirs, names), _means(ours, names)
    if first is None or second is None:
        return None
    steps = [
        Step(
            name.removeprefix(_PREFIX),
            first[name],
            second[name],
            difference([row[name] for row in theirs], [row[name] for row in ours]),
        )
        for name in names
        if name != _PRODUCTIVE and abs(second[name] - first[name]) > _SMALLEST
    ]
    steps.sort(key=lambda step: -step.gain)
    whole = difference([row[_PRODUCTIVE] for row in ours], [row[_PRODUCTIVE] for row in theirs])
    return Bridge(first[_PRODUCTIVE], second[_PRODUCTIVE], tuple(steps), _drawn(steps, theirs, ours), whole)


def _drawn(
    steps: Sequence[Step], before: Sequence[Mapping[str, Ratio]], after: Sequence[Mapping[str, Ratio]]
) -> tuple[Step, ...]:
    """Return the steps of the picture: the small ones, if there are several, as one with an interval of its own."""
    largest = max((abs(step.gain) for step in steps), default=0.0)
    small = [step for step in steps if abs(step.gain) < _SEEN * largest]
    if len(small) < 2:
        return tuple(steps)
    names = [f"{_PREFIX}{step.bucket}" for step in small]
    both = [
        [Ratio(sum(row[name].amount for name in names), row[_PRODUCTIVE].base) for row in rows]
        for rows in (before, after)
    ]
    found = difference(both[0], both[1])
    rest = Step("others", sum(step.before for step in small), sum(step.after for step in small), found)
    return (*(step for step in steps if step not in small), rest)


def _means(rows: Sequence[Mapping[str, Ratio]], names: Sequence[str]) -> dict[str, float] | None:
    """Return the shares over all replications, each a ratio of sums."""
    base = sum(row[_PRODUCTIVE].base for row in rows)
    return {name: sum(row[name].amount for row in rows) / base for name in names} if base else None

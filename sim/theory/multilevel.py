r"""Expected goodput of a job that saves to stores of several levels, under Poisson failures of several classes.

* Level l of L saves after every ``N_l tau`` of computing, ``N_1 = 1`` and ``N_(l+1) = n_l N_l``: a *pattern* of nested
  saves ends with one of every level. A save of level l blocks for its own write b_l, after those of the levels below.
* Faults of class l come at the rate lambda_l, in computing, saves and restarts alike. They destroy all copies below
  level l and return the job to the newest one of level l or above; what they destroyed is empty until its next save.
* A *downtime* d_l that no further fault restarts: one that comes in it joins the first. Then a *restart* u_x that ends
  with reading the copy of level x, as the worst of them needs it. A fault in it starts it over, with a new downtime.
  Of levels that hold the same step the lowest is read, as the quickest.

Between saves of level l the job tries to complete a *block*: the stretch from one such save to the next. Faults of
classes up to l return it to the start of the block, those above abort it; they are Poisson, so that the chance of
completing a block, and the time spent in it, follow from those of the blocks of level l - 1 of which it consists. With
one level the shares are those of `expected_shares`. All times [s]; shares of the job's wall clock [-].
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

from sim.theory.levels import checked_levels

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from sim.theory.broadcast import FloatArray
    from sim.theory.levels import Levels, PerLevel

__all__ = ["multilevel_shares"]

# A pass that succeeds less often than this gets nothing done; its chance is kept above, so that its inverse is finite.
_LEAST = 1e-60


class _Block(NamedTuple):
    """The chance to complete a block before a fault aborts it [-], and the time until either, by what is done [s]."""

    completed: FloatArray
    computing: FloatArray
    stalled: FloatArray
    restarting: FloatArray


@overload
def multilevel_shares(
    interval: float,
    counts: Sequence[float],
    writes: Sequence[float],
    rates: Sequence[float],
    restarts: Sequence[float],
    downtimes: Sequence[float] | None = ...,
    drains: Sequence[float] | None = ...,
) -> dict[str, float]: ...
@overload
def multilevel_shares(
    interval: npt.ArrayLike,
    counts: PerLevel,
    writes: PerLevel,
    rates: PerLevel,
    restarts: PerLevel,
    downtimes: PerLevel | None = ...,
    drains: PerLevel | None = ...,
) -> dict[str, FloatArray]: ...
def multilevel_shares(
    interval: npt.ArrayLike,
    counts: PerLevel,
    writes: PerLevel,
    rates: PerLevel,
    restarts: PerLevel,
    downtimes: PerLevel | None = None,
    drains: PerLevel | None = None,
) -> dict[str, float] | dict[str, FloatArray]:
    r"""Return where the wall clock of a job with nested saves goes [-].

    With ``Lambda = sum lambda_l``, a segment of tau and the stall B of its saves completes with ``exp(-Lambda (tau +
    B))``. A pass through a block of level l completes with A, the product over its blocks of level l - 1, and

    .. math::

        p_l = \frac{A}{1 - (1 - A)\, c_l\, q_l}, \quad
        c_l = \frac{\lambda_l}{\sum_{m \ge l} \lambda_m}, \quad
        q_l = \frac{e^{-\Lambda u}}{1 - (1 - e^{-\Lambda u}) \sum_{m \le l} \lambda_m / \Lambda}

    is the chance to complete the block: c_l that what ended a pass is of class l, q_l that its restart succeeds before
    a fault of a class above l. Times add up in the same way. At level L nothing aborts, and ``productive`` is the
    pattern's computing over the mean time to complete it, longer by ``1 + sum lambda_l d_l``. The rates in it are those
    of the worst fault in a downtime: classes up to l at ``sum_(k <= l) lambda_k exp(-d_k sum_(m > l) lambda_m)``.

    Exact without drains. A drain w_l of level l multiplies progress by ``exp(-lambda_l w_l)``: exact for one level,
    first order in ``Lambda w_l`` for several, where a fault of a lower class may also void a copy on its way.

    Parameters
    ----------
    interval : float or (n,) array
        Computing time between saves of level 1, tau [s].
    counts : sequence of L - 1 whole numbers or (n,) arrays
        Saves of level l for each one of level l + 1, n_l [-].
    writes : sequence of L floats or (n,) arrays
        Blocking time of the write of each level, b_l [s]. Where a higher save stands in for the lower ones, give what
        it takes beyond them.
    rates : sequence of L floats or (n,) arrays
        Faults of each class, lambda_l [1/s].
    restarts : sequence of L floats or (n,) arrays
        Restart from a copy of each level, reading it included, u_l [s].
    downtimes : sequence of L floats or (n,) arrays, optional
        Downtime after a fault of each class, d_l [s]; none if left out.
    drains : sequence of L floats or (n,) arrays, optional
        Time from the end of the blocking part to durability at each level, w_l [s], at most ``N_l tau``; none if left
        out.

    Returns
    -------
    dict of str to float or (n,) array
        Shares [-] named ``productive, checkpoint_stall, lost_work, detection, restart``. They sum to 1.

    Raises
    ------
    ValueError
        If a time or a rate is negative or not finite, `interval` is not positive, a count is not a whole number from 1,
        the sequences do not fit together, or a drain is longer than its level's spacing.

    References
    ----------
    PerLevel and classes: A. Moody, G. Bronevetsky, K. Mohror, B. R. de Supinski, "Design, modeling, and evaluation of a
    scalable multi-level checkpointing system", SC 2010, who solve a Markov chain over segments. Patterns: A. Benoit, A.
    Cavelan, V. Le Fèvre, Y. Robert, H. Sun, "Towards optimal multi-level checkpointing", IEEE Transactions on Computers
    66 (2017). The recursion over blocks is our own.
    """
    model = checked_levels(interval, counts, writes, rates, restarts, downtimes, drains)
    pattern = _pattern(model._replace(rates=_joined(model)))
    once = 1.0 + np.sum([rate * down for rate, down in zip(model.rates, model.downtimes, strict=True)], axis=0)
    total = (pattern.computing + pattern.stalled + pattern.restarting) * once
    work = model.interval * np.prod([np.ones_like(model.interval), *model.counts], axis=0)
    delay = np.sum([rate * drain for rate, drain in zip(model.rates, model.drains, strict=True)], axis=0)
    productive = work / total * np.exp(-delay)
    shares = {
        "productive": productive,
        "checkpoint_stall": pattern.stalled / total,
        # Never negative in exact arithmetic; the maximum removes the rounding.
        "lost_work": np.maximum(pattern.computing / total - productive, 0.0),
        "detection": 1.0 - 1.0 / once,
        "restart": pattern.restarting / total,
    }
    if model.interval.ndim == 0:
        return {name: float(share) for name, share in shares.items()}
    return shares


def _joined(model: Levels) -> list[FloatArray]:
    """Return the rates of the classes that downtimes end with [1/s]: the worst fault since the one that began each."""
    no_worse = []
    for level in range(1, model.levels + 1):
        escape = model.rate(level + 1, model.levels)
        begun = zip(model.rates[:level], model.downtimes[:level], strict=True)
        no_worse.append(sum((rate * np.exp(-escape * down) for rate, down in begun), np.zeros_like(escape)))
    return [no_worse[0], *(upper - lower for lower, upper in itertools.pairwise(no_worse))]


def _pattern(model: Levels) -> _Block:
    """Return the block from one save of the highest level to the next, begun with copies of all levels."""
    levels = range(1, model.levels + 1)
    total = model.rate(1, model.levels)
    # By the lowest level that holds a copy where a block begins, and by the highest that is saved where it ends.
    blocks: dict[tuple[int, int], _Block] = {}
    stall = np.zeros_like(model.interval)
    for end, write in zip(levels, model.writes, strict=True):
        stall = stall + write
        segment = _segment(model.interval, stall, total)
        blocks |= {(held, end): segment for held in levels}
    for level in levels:
        if level > 1:
            blocks = {
                (held, end): _chain(blocks, held, level - 1, end, model.counts[level - 2])
                for held in levels
                for end in range(level, model.levels + 1)
            }
        blocks = {(held, end): _repeated(model, blocks, level, held, end) for held, end in blocks}
    return blocks[1, model.levels]


def _segment(interval: FloatArray, stall: FloatArray, rate: FloatArray) -> _Block:
    """Return computing and then saves of `stall` [s], aborted by every fault."""
    completed = np.maximum(np.exp(-rate * (interval + stall)), _LEAST)
    computing = interval * _mean_survival(rate * interval)
    stalled = stall * np.exp(-rate * interval) * _mean_survival(rate * stall)
    return _Block(completed, computing, stalled, np.zeros_like(interval))


def _chain(blocks: dict[tuple[int, int], _Block], held: int, level: int, end: int, count: FloatArray) -> _Block:
    """Return `count` blocks of a `level` one after another, the last of which ends with saves up to level `end`."""
    first, middle, last = blocks[held, level], blocks[1, level], blocks[1, end]
    alone = blocks[held, end]
    between = np.maximum(count - 2.0, 0.0)
    passed = middle.completed**between
    # How many of those between the first and the last are begun, once the first is complete [-].
    begun = np.where(
        middle.completed < 1.0, (1.0 - passed) / np.where(middle.completed < 1.0, 1.0 - middle.completed, 1.0), between
    )
    times = [
        np.where(count == 1.0, one, head + first.completed * (begun * body + passed * tail))
        for one, head, body, tail in zip(alone[1:], first[1:], middle[1:], last[1:], strict=True)
    ]
    completed = np.where(count == 1.0, alone.completed, first.completed * passed * last.completed)
    return _Block(np.maximum(completed, _LEAST), *times)


def _repeated(model: Levels, passes: dict[tuple[int, int], _Block], level: int, held: int, end: int) -> _Block:
    """Return a block of a `level` that restarts after faults of classes up to it, from one pass through it."""
    above, own, upto = model.rate(level + 1, model.levels), model.rate(level, level), model.rate(1, level)
    ending = own + above
    share = np.divide(own, ending, out=np.zeros_like(own), where=ending > 0)
    abort = np.divide(above, ending, out=np.zeros_like(own), where=ending > 0)
    read = max(level, held)
    restart = model.restarts[read - 1]
    tries = -np.expm1(-(above + upto) * restart)
    # Attempts at the restart until one succeeds or a fault above the level ends it [-], and the chance of the latter.
    failing = np.divide(upto, above + upto, out=np.zeros_like(own), where=above + upto > 0)
    attempts = 1.0 / np.maximum(np.exp(-(above + upto) * restart) + tries * (1.0 - failing), _LEAST)
    given_up = tries * (1.0 - failing) * attempts
    spent = restart * _mean_survival((above + upto) * restart) * attempts

    def after(one: _Block, rest: _Block) -> _Block:
        """Return what a pass and, after a fault of the level's own class, a restart and the rest come to."""
        back = (1.0 - one.completed) * share
        again = back * (1.0 - given_up)
        times = [mine + again * theirs for mine, theirs in zip(one[1:], rest[1:], strict=True)]
        completed = one.completed + again * rest.completed
        return _Block(completed, times[0], times[1], times[2] + back * spent)

    once = passes[read, end]
    # 1 - (1 - A) c q, without the cancellation.
    ends = abort + share * given_up + once.completed * share * (1.0 - given_up)
    ends = np.where(ending > 0, ends, 1.0)
    back = (1.0 - once.completed) * share
    repeated = _Block(
        np.minimum(once.completed / ends, 1.0),
        once.computing / ends,
        once.stalled / ends,
        (once.restarting + back * spent) / ends,
    )
    return repeated if held == read else after(passes[held, end], repeated)


def _mean_survival(x: FloatArray) -> FloatArray:
    """Return ``(1 - exp(-x)) / x``, the mean of ``exp(-t)`` over [0, x]; 1 at zero."""
    return np.divide(-np.expm1(-x), x, out=np.ones_like(x), where=x > 0)

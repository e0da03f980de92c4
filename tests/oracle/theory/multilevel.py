"""Expected goodput of a job that saves to stores of several levels, and of one with copies in the memory of its nodes.

* Level l of L saves after every ``N_l tau`` of computing, ``N_1 = 1`` and ``N_(l+1) = n_l N_l``: a *pattern* of nested
  saves ends with one of every level. A save of level l blocks for its own write b_l, after those of the levels below.
* Faults of class l come at the rate lambda_l, in computing, saves and restarts alike. They destroy all copies below
  level l and return the job to the newest one of level l or above; what they destroyed is empty until its next save.
* A *downtime* d_l that no further fault restarts: one that comes in it joins the first. Then a *restart* u_x that ends
  with reading the copy of level x, as the worst of them needs it. A fault in it starts it over, with a new downtime.
  Of levels that hold the same step the lowest is read, as the quickest.

Between saves of level l the job tries to complete a *block*: the stretch from one such save to the next. Faults of
classes up to l return it to the start of the block, those above abort it; they are Poisson, so that the chance of
completing a block, and the time spent in it, follow from those of the blocks of level l - 1 of which it consists. All
times [s]; shares of the job's wall clock [-].
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Levels(NamedTuple):
    """Computing between saves of level 1 [s]; and by level or class: counts [-], rates [1/s], and restarts [s]."""

    interval: float
    counts: Sequence[float]
    writes: Sequence[float]
    rates: Sequence[float]
    restarts: Sequence[float]

    def rate(self, first: int, last: int) -> float:
        """Return the rate of the classes from `first` to `last`, counted from 1 [1/s]."""
        return sum(self.rates[first - 1 : last])


class _Block(NamedTuple):
    """The chance to complete a block before a fault aborts it [-], and the time until either, by what is done [s]."""

    completed: float
    computing: float
    stalled: float
    restarting: float


def multilevel_shares(
    interval: float,
    counts: Sequence[float],
    writes: Sequence[float],
    rates: Sequence[float],
    restarts: Sequence[float],
    downtimes: Sequence[float] | None = None,
    drains: Sequence[float] | None = None,
) -> dict[str, float]:
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
    interval
        Computing time between saves of level 1, tau [s].
    counts
        Saves of level l for each one of level l + 1, n_l [-]: L - 1 whole numbers.
    writes
        Blocking time of the write of each level, b_l [s].
    rates
        Faults of each class, lambda_l [1/s].
    restarts
        Restart from a copy of each level, reading it included, u_l [s].
    downtimes
        Downtime after a fault of each class, d_l [s]; none if left out.
    drains
        Time from the end of the blocking part to durability at each level, w_l [s]; none if left out.

    Returns
    -------
    dict of str to float
        Shares [-] named ``productive, checkpoint_stall, lost_work, detection, restart``. They sum to 1.

    References
    ----------
    Levels and classes: A. Moody, G. Bronevetsky, K. Mohror, B. R. de Supinski, "Design, modeling, and evaluation of a
    scalable multi-level checkpointing system", SC 2010, who solve a Markov chain over segments. Patterns: A. Benoit, A.
    Cavelan, V. Le Fèvre, Y. Robert, H. Sun, "Towards optimal multi-level checkpointing", IEEE Transactions on Computers
    66 (2017). The recursion over blocks is our own.
    """
    model = _Levels(interval, counts, writes, rates, restarts)
    down = [0.0] * len(writes) if downtimes is None else downtimes
    pattern = _pattern(model._replace(rates=_joined(model, down)))
    once = 1.0 + sum(rate * time for rate, time in zip(rates, down, strict=True))
    total = (pattern.computing + pattern.stalled + pattern.restarting) * once
    delay = 0.0 if drains is None else sum(rate * time for rate, time in zip(rates, drains, strict=True))
    productive = interval * math.prod(counts) / total * math.exp(-delay)
    return {
        "productive": productive,
        "checkpoint_stall": pattern.stalled / total,
        # Never negative in exact arithmetic; the maximum removes the rounding.
        "lost_work": max(pattern.computing / total - productive, 0.0),
        "detection": 1.0 - 1.0 / once,
        "restart": pattern.restarting / total,
    }


def _joined(model: _Levels, downtimes: Sequence[float]) -> list[float]:
    """Return the rates of the classes that downtimes end with [1/s]: the worst fault since the one that began each."""
    no_worse = [
        sum(
            rate * math.exp(-model.rate(level + 1, len(model.rates)) * down)
            for rate, down in zip(model.rates[:level], downtimes[:level], strict=True)
        )
        for level in range(1, len(model.rates) + 1)
    ]
    return [no_worse[0], *(upper - lower for lower, upper in itertools.pairwise(no_worse))]


def _pattern(model: _Levels) -> _Block:
    """Return the block from one save of the highest level to the next, begun with copies of all levels."""
    highest = len(model.writes)
    levels = range(1, highest + 1)
    total = model.rate(1, highest)
    # By the lowest level that holds a copy where a block begins, and by the highest that is saved where it ends.
    blocks: dict[tuple[int, int], _Block] = {}
    for end in levels:
        stall = sum(model.writes[:end])
        working = math.exp(-total * model.interval)
        segment = _Block(
            working * math.exp(-total * stall),
            model.interval * _mean_survival(total * model.interval),
            stall * working * _mean_survival(total * stall),
            0.0,
        )
        blocks |= {(held, end): segment for held in levels}
    for level in levels:
        if level > 1:
            blocks = {
                (held, end): _chain(blocks, held, level - 1, end, model.counts[level - 2])
                for held in levels
                for end in range(level, highest + 1)
            }
        blocks = {(held, end): _repeated(model, blocks, level, held, end) for held, end in blocks}
    return blocks[1, highest]


def _chain(blocks: dict[tuple[int, int], _Block], held: int, level: int, end: int, count: float) -> _Block:
    """Return `count` blocks of a `level` one after another, the last of which ends with saves up to level `end`."""
    if count == 1:
        return blocks[held, end]
    first, middle, last = blocks[held, level], blocks[1, level], blocks[1, end]
    passed = middle.completed ** (count - 2)
    # How many of those between the first and the last are begun, once the first is complete [-].
    begun = (1.0 - passed) / (1.0 - middle.completed) if middle.completed < 1.0 else count - 2
    times = (
        head + first.completed * (begun * body + passed * tail)
        for head, body, tail in zip(first[1:], middle[1:], last[1:], strict=True)
    )
    return _Block(first.completed * passed * last.completed, *times)


def _repeated(model: _Levels, passes: dict[tuple[int, int], _Block], level: int, held: int, end: int) -> _Block:
    """Return a block of a `level` that restarts after faults of classes up to it, from one pass through it."""
    own, upto, above = model.rate(level, level), model.rate(1, level), model.rate(level + 1, len(model.rates))
    share, abort = (own / (own + above), above / (own + above)) if own + above > 0 else (0.0, 1.0)
    read = max(level, held)
    restart, total = model.restarts[read - 1], upto + above
    tries = -math.expm1(-total * restart)
    # Attempts at the restart until one succeeds or a fault above the level ends it [-], and the chance of the latter.
    worse = above / total if above > 0 else 0.0
    attempts = 1.0 / (math.exp(-total * restart) + tries * worse)
    succeeds = 1.0 - tries * worse * attempts
    spent = restart * _mean_survival(total * restart) * attempts
    once = passes[read, end]
    # 1 - (1 - A) c q, without the cancellation.
    ends = abort + share * (1.0 - succeeds) + once.completed * share * succeeds
    back = (1.0 - once.completed) * share
    times = (once.computing, once.stalled, once.restarting + back * spent)
    again = _Block(min(once.completed / ends, 1.0), *(time / ends for time in times))
    if held == read:
        return again
    # The first pass reads another level; after a fault of the level's own class all are as those above.
    first = passes[held, end]
    back = (1.0 - first.completed) * share
    completed, computing, stalled, restarting = (
        mine + back * succeeds * theirs for mine, theirs in zip(first, again, strict=True)
    )
    return _Block(completed, computing, stalled, restarting + back * spent)


def _mean_survival(x: float) -> float:
    """Return ``(1 - exp(-x)) / x``, the mean of ``exp(-t)`` over [0, x]; 1 at zero."""
    return -math.expm1(-x) / x if x > 0 else 1.0


def restart_loss_rate(nodes: int, copies: int, life: float, restart: float, downtime: float = 0.0) -> float:
    r"""Return how often a group of nodes loses all its copies before the restart of its job has made them again [1/s].

    N nodes form groups of m, which divides N, that hold each other's shards.

    .. math:: f = \frac{N \gamma}{1 + m \gamma e} \prod_{i = 1}^{m - 1} \frac{x_i}{1 + x_i}, \quad
        x_i = (m - i)\, \gamma\, e, \quad e = d\, e^{\Lambda u} + \frac{e^{\Lambda u} - 1}{\Lambda}

    Every failure of the job starts the restart over, after another downtime, so that copies are missing for e on
    average, of all nodes lost meanwhile at once: with i of a group lost, ``x_i / (1 + x_i)`` is the chance that another
    one of it is before that is over. Exact in this but for failures of one downtime which share it, and for nodes lost
    again before they are back.

    Parameters
    ----------
    nodes, copies
        Nodes of the job, N, and those that hold each shard, its own included, m [-].
    life
        Mean time between the failures of a node, 1 / gamma [s]; Lambda is N gamma.
    restart
        Restart of the job from copies in memory, u [s].
    downtime
        Time until a failure is known, d [s].

    References
    ----------
    Own derivation, by the memorylessness of the time to the next failure. The groups: Z. Wang et al., "GEMINI: Fast
    failure recovery in distributed training with in-memory checkpoints", SOSP 2023.
    """
    total = nodes / life
    exposure = downtime * math.exp(total * restart) + math.expm1(total * restart) / total
    more = [left * exposure / life for left in range(1, copies)]
    return total / (1.0 + copies * exposure / life) * math.prod(one / (1.0 + one) for one in more)


def in_memory_shares(
    interval: float,
    count: int,
    writes: Sequence[float],
    restarts: Sequence[float],
    nodes: int,
    copies: int,
    life: float,
    downtime: float = 0.0,
) -> dict[str, float]:
    r"""Return where the time of a job goes that saves to the memory of its nodes, and less often outside them [-].

    Two levels of `multilevel_shares`. A lost node is a fault of class 1, or of class 2 if it was the last of its group:
    at `restart_loss_rate`. Approximate in that losses of groups come by themselves, and not in the restart of another
    failure: to first order in ``Lambda e``.

    Parameters
    ----------
    interval
        Computing time between saves to memory, tau [s].
    count
        Saves to memory for each one to the store outside [-].
    writes, restarts
        Blocking time of a save, and restart from a copy: in memory and outside [s].
    nodes, copies, life, downtime
        As for `restart_loss_rate`.
    """
    losing = restart_loss_rate(nodes, copies, life, restarts[0], downtime)
    return multilevel_shares(
        interval, (count,), writes, (nodes / life - losing, losing), restarts, (downtime, downtime)
    )

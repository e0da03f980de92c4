"""A synchronous job with periodic checkpoints under Poisson failures: its best interval, and the rest of its time.

The model, in the order in which a job lives it:

* Failures are Poisson with rate ``lambda = 1 / M``. A failure starts a *downtime* d: detection, or any stall that no
  further failure restarts (a failure during it merges into the open incident).
* A *restart* u follows. A failure during it starts over with a new downtime.
* Then cycles of ``tau`` computing and a blocking *write* b. A checkpoint becomes durable a *drain* w after its
  blocking part ends (the asynchronous part of the save, in parallel with computing), w <= tau. A failure returns the
  job to the newest durable checkpoint.

Failure to failure is one renewal cycle of mean length ``1 / lambda + d``; every share below is the mean time of its
kind in one cycle over that length, so it is exact for a job long against M, and has no first-order error. All times
[s]; shares of the job's wall clock [-]. Not in it: queueing, waits for nodes, stragglers, lost domains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.sim.formulas.arrays import (
    Expansion,
    FloatArray,
    Number,
    Values,
    decay,
    mean_decay,
    non_negative,
    plain,
    positive,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

# Best time between blocking checkpoints.
#
# The *interval* tau [s] is useful computing between two saves; the save itself is not part of it (Daly's convention;
# period = interval + write). The *write* delta [s] is the time for which a save blocks the job. M [s] is the mean time
# to interrupt of the whole job; infinity means that nothing fails. Restart, downtime and the asynchronous part of a
# save do not appear: under Poisson failures they scale every interval's progress alike and leave the optimum alone.

# Below this delta/M the Lambert function loses digits to cancellation and its series at the branch point is exact.
_SERIES_BELOW = 1e-6


def young_interval(write: Values, mtti: Values) -> Values:
    r"""Return the first-order optimum, ``tau = sqrt(2 delta M)``.

    Assumes ``delta << M``; near ``delta = M`` it is too long (it may exceed M, which no optimum does).

    Parameters
    ----------
    write : float or (n,) array
        Blocking time of one save, delta [s].
    mtti : float or (n,) array
        Mean time to interrupt, M [s].

    Returns
    -------
    float or (n,) array
        Computing time between saves, tau [s].

    Raises
    ------
    ValueError
        If `write` is negative or `mtti` is not positive.

    References
    ----------
    J. W. Young, "A first order approximation to the optimum checkpoint interval", Commun. ACM 17 (1974).
    """
    delta, m = _write_and_mtti(write, mtti)
    interval: Values = plain(_never_if_no_failures(np.sqrt(2.0 * delta * _finite(m)), m))
    return interval


def daly_interval(write: Values, mtti: Values) -> Values:
    r"""Return Daly's higher-order optimum.

    ``tau = sqrt(2 delta M) [1 + (1/3) sqrt(delta / 2M) + (1/9) (delta / 2M)] - delta`` for ``delta < 2 M``, else
    ``tau = M``.

    Parameters
    ----------
    write : float or (n,) array
        Blocking time of one save, delta [s].
    mtti : float or (n,) array
        Mean time to interrupt, M [s].

    Returns
    -------
    float or (n,) array
        Computing time between saves, tau [s].

    Raises
    ------
    ValueError
        If `write` is negative or `mtti` is not positive.

    References
    ----------
    J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
    Computer Systems 22 (2006).
    """
    delta, m = _write_and_mtti(write, mtti)
    ratio = delta / (2.0 * _finite(m))
    series = np.sqrt(2.0 * delta * _finite(m)) * (1.0 + np.sqrt(ratio) / 3.0 + ratio / 9.0) - delta
    interval: Values = plain(_never_if_no_failures(np.where(ratio < 1.0, series, m), m))
    return interval


def optimal_interval(write: Values, mtti: Values) -> Values:
    r"""Return the exact optimum, ``tau = M [1 + W0(-exp(-1 - delta / M))]``, W0 the Lambert function.

    It minimises the expected time per unit of work, ``(exp((tau + delta) / M) - 1) / tau``, whose stationary point
    solves ``1 - tau / M = exp(-(tau + delta) / M)``. Assumes Poisson failures that may also strike during the save.

    Parameters
    ----------
    write : float or (n,) array
        Blocking time of one save, delta [s].
    mtti : float or (n,) array
        Mean time to interrupt, M [s].

    Returns
    -------
    float or (n,) array
        Computing time between saves, tau [s], always below M; 0 for a free save, infinite if nothing fails.

    Raises
    ------
    ValueError
        If `write` is negative or `mtti` is not positive.

    References
    ----------
    The cost is J. T. Daly's (2006, see `daly_interval`); the Lambert form follows from its stationary point by
    ``x = tau / M - 1``. Series at the branch point: R. M. Corless et al., "On the Lambert W function", Advances in
    Computational Mathematics 5 (1996).
    """
    from scipy.special import lambertw

    delta, m = _write_and_mtti(write, mtti)
    loss = delta / _finite(m)
    p = np.sqrt(-2.0 * np.expm1(-loss))
    series = p - p**2 / 3.0 + 11.0 / 72.0 * p**3 - 43.0 / 540.0 * p**4
    argument: FloatArray = -np.exp(-1.0 - loss)
    exact = 1.0 + np.real(lambertw(argument, 0))
    interval: Values = plain(_never_if_no_failures(_finite(m) * np.where(loss < _SERIES_BELOW, series, exact), m))
    return interval


def _write_and_mtti(write: npt.ArrayLike, mtti: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    return non_negative("write", write), positive("mtti", mtti, infinite=True)


def _finite(m: FloatArray) -> FloatArray:
    """Return `m` with a stand-in for infinity, so that ``0 * inf`` is never computed."""
    return np.where(np.isinf(m), 1.0, m)


def _never_if_no_failures(tau: FloatArray, m: FloatArray) -> FloatArray:
    return np.where(np.isinf(m), np.inf, tau)


# Expected goodput: renewal theory of the model above.
#
# References
# `efficiency` with d = w = 0 is the inverse of J. T. Daly's wall clock, Future Generation Computer Systems 22 (2006);
# with w = 0 it is one minus the waste of G. Aupy, Y. Robert, F. Vivien, D. Zaidouni, arXiv:1207.6936 and 1302.3752
# (period tau + b). `expected_shares`: own, by the memorylessness of the running time left after a restart.


def efficiency(
    interval: Values,
    write: Values,
    mtti: Values,
    restart: Values,
    downtime: npt.ArrayLike = 0.0,
    drain: npt.ArrayLike = 0.0,
) -> Values:
    r"""Return the expected share of wall clock that becomes durable progress (ETTR without queueing) [-].

    ``E = lambda tau exp(-lambda (u + w)) / ((exp(lambda (tau + b)) - 1) (1 + lambda d))``: the number of checkpoints
    that become durable between two failures, times tau, over ``1 / lambda + d``. Without failures it is
    ``tau / (tau + b)``.

    Parameters
    ----------
    interval, write : float or (n,) array
        Computing time between saves, tau, and blocking time of one, b [s].
    mtti : float or (n,) array
        Mean time to interrupt of the job, M [s], not counting downtime; may be infinite.
    restart, downtime : float or (n,) array
        Restart that failures interrupt, u, and downtime that they do not, d [s].
    drain : float or (n,) array
        Time from the end of the blocking part to durability, w [s], at most `interval`.

    Returns
    -------
    float or (n,) array
        Share [-], in [0, 1].

    Raises
    ------
    ValueError
        If a time is negative or not finite, `interval` or `mtti` is not positive, or `drain` exceeds `interval`.
    """
    tau, b, rate, u, d, w = _model(interval, write, mtti, restart, downtime, drain)
    y = rate * (tau + b)
    share: Values = plain(tau / (tau + b) * np.exp(-rate * (u + w) - y) / _mean_survival(y) / (1.0 + rate * d))
    return share


def expected_shares(
    interval: Values,
    write: Values,
    mtti: Values,
    restart: Values,
    downtime: npt.ArrayLike = 0.0,
    drain: npt.ArrayLike = 0.0,
) -> dict[str, Values]:
    r"""Return where the wall clock goes: `efficiency` (as ``productive``) and what became of the rest [-].

    With ``P = tau + b`` and everything over ``1 + lambda d``:

    * ``detection = lambda d``, ``restart = 1 - exp(-lambda u)``; what remains, ``exp(-lambda u)``, is running time;
    * of that, ``(1 - exp(-lambda tau)) / (1 - exp(-lambda P))`` is computing, and the rest of it,
      ``checkpoint_stall``, is blocked in saves: all of them, also those whose save or work was void later;
    * ``lost_work`` is computing that never became durable: ``computing - productive``.

    Arguments and errors are those of `efficiency`.

    Returns
    -------
    dict of str to float or (n,) array
        Shares [-] named ``productive, checkpoint_stall, lost_work, detection, restart``. They sum to 1.
    """
    tau, b, rate, u, d, w = _model(interval, write, mtti, restart, downtime, drain)
    y = rate * (tau + b)
    cycle = 1.0 + rate * d
    # Per second of period: the time spent running, cut off by failures, is exp(-rate u) / (P mean_survival(P)).
    running = np.exp(-rate * u) / cycle / ((tau + b) * _mean_survival(y))
    shares = {
        "productive": running * tau * np.exp(-rate * w - y),
        "checkpoint_stall": running * b * np.exp(-rate * tau) * _mean_survival(rate * b),
        # Never negative in exact arithmetic; the maximum removes the rounding.
        "lost_work": running * tau * np.maximum(_mean_survival(rate * tau) - np.exp(-rate * w - y), 0.0),
        "detection": rate * d / cycle,
        "restart": -np.expm1(-rate * u) / cycle,
    }
    return {name: plain(share) for name, share in shares.items()}


def first_order_efficiency(interval: Values, write: Values, mtti: Values, restart: Values) -> Values:
    r"""Return the first-order ETTR, ``(1 - (u0 + dt / 2) / M) / (1 + w / dt)`` [-].

    Good while ``u0 + dt << M``; at high loss it is too low, and below zero beyond ``u0 + dt / 2 = M``.

    Parameters
    ----------
    interval : float or (n,) array
        Computing time between saves, dt [s].
    write : float or (n,) array
        Blocking time of one save, w [s].
    mtti : float or (n,) array
        Mean time to interrupt of the job, ``M = 1 / (N rf)`` [s]; may be infinite.
    restart : float or (n,) array
        Restart, u0 [s].

    Returns
    -------
    float or (n,) array
        Share [-].

    Raises
    ------
    ValueError
        If a time is negative or not finite, or `interval` or `mtti` is not positive.

    References
    ----------
    A. Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters", HPCA 2025,
    arXiv:2410.21680v2 (the first version has no w and charges queueing per interruption).
    """
    dt, w, rate, u0, _, _ = _model(interval, write, mtti, restart, 0.0, 0.0)
    share: Values = plain((1.0 - rate * (u0 + dt / 2.0)) / (1.0 + w / dt))
    return share


def expected_wallclock(work: Values, interval: Values, write: Values, restart: Values, mtti: Values) -> Values:
    r"""Return the expected time to finish a fixed amount of work [s].

    ``Tw = M exp(R / M) (exp((tau + delta) / M) - 1) Ts / tau``, for work long against tau; every segment is taken to
    end in a save, and the last one is not rounded up.

    Parameters
    ----------
    work : float or (n,) array
        Computing time without failures and saves, Ts [s].
    interval : float or (n,) array
        Computing time between saves, tau [s].
    write : float or (n,) array
        Blocking time of one save, delta [s].
    restart : float or (n,) array
        Restart that failures interrupt, R [s].
    mtti : float or (n,) array
        Mean time to interrupt of the job, M [s]; may be infinite.

    Returns
    -------
    float or (n,) array
        Wall clock, Tw [s]; infinite where it passes the largest float.

    Raises
    ------
    ValueError
        If a time is negative or not finite, or `interval` or `mtti` is not positive.

    References
    ----------
    J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
    Computer Systems 22 (2006).
    """
    tau, delta, rate, r, _, _ = _model(interval, write, mtti, restart, 0.0, 0.0)
    y = rate * (tau + delta)
    with np.errstate(over="ignore"):
        growth = np.exp(rate * r + y) * _mean_survival(y)
        wallclock: Values = plain(non_negative("work", work) * (tau + delta) / tau * growth)
        return wallclock


def _model(
    interval: npt.ArrayLike,
    write: npt.ArrayLike,
    mtti: npt.ArrayLike,
    restart: npt.ArrayLike,
    downtime: npt.ArrayLike,
    drain: npt.ArrayLike,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return tau, b, lambda, u, d, w, checked and of one shape."""
    tau, b, rate, u, d, w = np.broadcast_arrays(
        positive("interval", interval),
        non_negative("write", write),
        1.0 / positive("mtti", mtti, infinite=True),
        non_negative("restart", restart),
        non_negative("downtime", downtime),
        non_negative("drain", drain),
    )
    if np.any(w > tau):
        message = f"drain must not exceed interval (one save would overtake the next), got {drain!r} and {interval!r}"
        raise ValueError(message)
    return tau, b, rate, u, d, w


def _mean_survival(x: FloatArray) -> FloatArray:
    """Return ``(1 - exp(-x)) / x``, the mean of ``exp(-t)`` over [0, x]; 1 at zero."""
    return np.divide(-np.expm1(-x), x, out=np.ones_like(x), where=x > 0)


# Expected goodput of a job whose failures differ: classes of them, each with its own times and its own checkpoints.
#
# The model is that of this module, but a failure belongs to a class c with the probability p_c, whatever came before
# (independent Poisson processes of rates ``lambda_c = p_c lambda`` are one process whose points are of classes).
#
# * A failure of class c starts a *downtime* of mean d_c, in which further failures merge into it.
# * A *restart* U_c of any law follows, of independent times, and within it a *pause* in which nothing can fail. A
#   failure during the restart starts over with a downtime and a restart of its own class.
# * A failure that ends running takes the job back to the newest durable copy in the store of its class.
#
# A restart is survived with the probability ``E exp(-lambda U_c)``, the Laplace transform of its law: its mean alone
# does not give. With ``phi = sum p_c E exp(-lambda U_c)`` and ``D`` the mean of downtimes and pauses,
#
# .. math::
#
#     E = \frac{\lambda \tau e^{-\lambda w}\, \phi}{(e^{\lambda (\tau + b)} - 1)(1 + \lambda D)}
#
# is exact for one store: with restarts of one fixed length u, ``phi = exp(-lambda u)``, it is
# `ettrick.sim.formulas.efficiency`. All times [s]; shares of the job's wall clock [-]. Not in it: queueing, waits for
# nodes, stragglers, lost domains.
#
# Of several stores, an incident leaves all that any of its failures leaves, and recovers as those failures do. Quickest
# first, each store is then taken by itself: with g the pace at which work comes about under all incidents that end with
# quicker stores, its saves are ``P = tau / g`` apart in running time, and of each second
# ``lambda_s exp(-lambda_s (w + P - h)) (tau - h + tau a / (1 - a))`` is durable, ``a = exp(-lambda_s P)``; times
# ``s / (1 - (1 - s) a)`` where a save, with the chance 1 - s, is cut off in its drain by a failure that leaves quicker
# stores alone, and the next one is an interval away. That is approximate: P is taken as fixed, and a store that has
# lost its checkpoints as filled again at once.
#
# References
# Own derivation, by the memorylessness of the time to the next failure and of its class. Several stores: own, as first
# by A. Moody et al., "Design, modeling, and evaluation of a scalable multi-level checkpointing system", SC 2010; here
# the saves of one store need not be multiples of another's.

_ROUNDING = 1e-9

"""By how much sums of probabilities may be off [-]."""


class CheckpointStore(NamedTuple):
    """A store of checkpoints.

    Parameters
    ----------
    interval
        Stepping between two saves, tau [s].
    write
        Blocking time of one save, b [s].
    drain
        From the end of the blocking part to durability, w [s], at most `interval`.
    head
        By how much the first save after a restart comes earlier than an interval, h [s]: it has none to wait for.
    """

    interval: float
    write: float = 0.0
    drain: float = 0.0
    head: float = 0.0


class FailureClass(NamedTuple):
    """Failures of one class.

    Parameters
    ----------
    share
        Share of all failures that are of the class, p [-].
    downtime
        Mean time until they are known, d [s].
    survival
        Probability that a restart is not interrupted, ``E exp(-lambda U)`` [-].
    pause
        Mean time within a restart in which nothing can fail, as far as restarts come to it, h [s].
    store
        Which store they leave, by its place among the stores.
    """

    share: float
    downtime: Number
    survival: Number
    pause: Number = 0.0
    store: int = 0


class ClassShares(NamedTuple):
    """Shares of a job's time [-]: what no failure decides, and what is lost to each class, in the order of these."""

    productive: Number
    checkpoint_stall: Number
    detection: tuple[Number, ...]
    restart: tuple[Number, ...]
    lost_work: tuple[Number, ...]

    def up_to(self, order: int) -> ClassShares:
        """Return the numbers without terms beyond an order in the rates, of shares that were worked out as expansions.

        Raises
        ------
        TypeError
            If they are plain numbers.
        """
        return ClassShares(
            _cut(self.productive, order),
            _cut(self.checkpoint_stall, order),
            *(tuple(_cut(part, order) for part in parts) for parts in self[2:]),
        )


def _cut(value: Number, order: int) -> float:
    """Return an expansion up to an order."""
    if not isinstance(value, Expansion):
        raise TypeError("plain numbers have no orders; give the rate as an Expansion")
    return value.up_to(order)


def shares_of_classes(rate: Number, classes: Sequence[FailureClass], stores: Sequence[CheckpointStore]) -> ClassShares:
    r"""Return where the time of a job goes whose failures are of several classes [-].

    Of one store it is exact. Of several it errs by less than 0.001 while 0.9 of the time is productive, and by less
    than 0.01 at 0.7.

    Parameters
    ----------
    rate
        Failures of the job, lambda [1/s]; an `Expansion` gives the shares as expansions in it.
    classes
        The classes of failures; their shares sum to 1. Without failures it does not matter which.
    stores
        The stores, the one whose checkpoints are newest first.

    Raises
    ------
    ValueError
        If a time or a rate is negative or not finite, an `interval` is not positive, or a `drain` exceeds it; if a
        probability is not between 0 and 1, or a class names a store that there is not.
    """
    _check(rate, classes, stores)
    levels = _levels(classes, len(stores))
    tries = [_tries(levels, place) for place in range(len(stores))]
    # Of an incident, by the store that it has come to: restart attempts, and failed ones [-].
    attempts = [_dot((level.share for level in levels), (row[place] for row in tries)) for place in range(len(stores))]
    failed = [number * (1.0 - level.survival) for number, level in zip(attempts, levels, strict=True)]
    failures = 1.0 + _dot(failed)
    down = failures * _dot((row.share for row in classes), (row.downtime for row in classes))
    running = 1.0 / (failures + rate * (down + _dot(attempts, (level.pause for level in levels))))
    ends = [[number * level.survival for number, level in zip(row, levels, strict=True)] for row in tries]
    stepping, losses = _losses(rate, levels, ends, stores)
    lost = tuple(running * (row.share * _dot(ends[row.store], losses)) for row in classes)
    return ClassShares(
        productive=running * stepping - _dot(lost),
        checkpoint_stall=running * (1.0 - stepping),
        detection=tuple(running * (rate * (failures * (row.share * row.downtime))) for row in classes),
        restart=tuple(running * _restarting(rate, row, levels, failed) for row in classes),
        lost_work=lost,
    )


class _Level(NamedTuple):
    """The common part of the classes of one store: their number, and their mean survival and pause."""

    share: float
    survival: Number
    pause: Number


def _levels(classes: Sequence[FailureClass], stores: int) -> list[_Level]:
    """Return the classes of each store as one; of a store that none leaves, a restart that takes no time."""
    levels = []
    for place in range(stores):
        rows = [row for row in classes if row.store == place]
        share = sum(row.share for row in rows)
        if share == 0:
            levels.append(_Level(0.0, 1.0, 0.0))
            continue
        parts = [row.share / share for row in rows]
        survival, pause = _dot(parts, (row.survival for row in rows)), _dot(parts, (row.pause for row in rows))
        levels.append(_Level(share, survival, pause))
    return levels


def _tries(levels: Sequence[_Level], first: int) -> list[Number]:
    """Return how often an incident that begins at a level tries to restart at each level [-].

    What a failure destroys is gone until the job runs again: a later one leads from level r to s > r with the share of
    s, and leaves the job where it is with the share of all others.
    """
    tries: list[Number] = []
    for place, level in enumerate(levels):
        if place < first or (place > first and level.share == 0):
            tries.append(0.0)
            continue
        earlier = _dot(number * (1.0 - levels[before].survival) for before, number in enumerate(tries))
        entries = level.share * earlier if place > first else 1.0
        staying = sum(row.share for row in levels[: place + 1])
        tries.append(entries / _chance(1.0 - (1.0 - level.survival) * staying))
    return tries


def _restarting(rate: Number, row: FailureClass, levels: Sequence[_Level], failed: Sequence[Number]) -> Number:
    """Return the time that failures of a class keep a job in restarts, for each second of running [-]."""
    direct = row.share * (1.0 + _dot(failed[: row.store + 1])) * (1.0 - row.survival + rate * row.pause)
    later = zip(levels[row.store + 1 :], failed[row.store + 1 :], strict=True)
    return direct + row.share * _dot(number * (1.0 - level.survival + rate * level.pause) for level, number in later)


def _dot(values: Iterable[Number], factors: Iterable[Number] | None = None) -> Number:
    """Return the sum of numbers, or of their products with others."""
    total: Number = 0.0
    for value in values if factors is None else (left * right for left, right in zip(values, factors, strict=True)):
        total = total + value
    return total


def _losses(
    rate: Number, levels: Sequence[_Level], ends: Sequence[Sequence[Number]], stores: Sequence[CheckpointStore]
) -> tuple[Number, list[Number]]:
    """Return the share of running time that is stepping, and the part of it that an incident of each store makes void.

    The part [-] is what would be lost if all incidents were such.
    """
    # Whatever leaves a store leaves all quicker ones too.
    reaching = [_dot((level.share for level in levels), (row[place] for row in ends)) for place in range(len(stores))]
    leaving = [_dot(reaching[place:]) for place in range(len(stores))]
    stalls: Number = 0.0
    for store, share in zip(stores, leaving, strict=True):
        cut = mean_decay(rate * (share * store.interval)) / mean_decay(rate * (share * (store.interval + store.write)))
        # Of a running time that failures cut off so much is stepping.
        part = store.interval * cut / (store.interval + store.write)
        if store.head:
            part = 1.0 - (1.0 - part) * decay(rate * (-share * store.head))
        stalls = stalls + 1.0 / part - 1.0
    stepping = 1.0 / (1.0 + stalls)
    pace, plain = stepping, 1.0 / (1.0 + sum(store.write / store.interval for store in stores))
    losses: list[Number] = []
    for place, (store, level, share) in enumerate(zip(stores, levels, leaving, strict=True)):
        if level.share == 0:
            losses.append(0.0)
            continue
        hazard = rate * share
        period = store.interval / (plain if place == 0 else pace)
        durable = store.interval * decay(hazard * (store.drain + period)) / (period * mean_decay(hazard * period))
        if store.head:
            first = hazard * ((store.interval - store.head) * decay(hazard * (store.drain + period)))
            durable = (first + durable * decay(hazard * period)) * decay(hazard * -store.head)
        # Failures that leave quicker stores alone cut off saves on their way: the one before is an interval older.
        whole = decay(rate * ((1.0 - share) * store.drain))
        durable = durable * whole / _chance(1.0 - (1.0 - whole) * decay(hazard * period))
        losses.append(_lost((pace - durable) / _chance(share), pace, reaching[place]))
        pace = pace - reaching[place] * losses[-1]
    return stepping, losses


def _lost(lost: Number, pace: Number, share: Number) -> Number:
    """Return what is lost: neither below zero, by rounding, nor, with its `share` of failures, more than there is."""
    if isinstance(lost, Expansion) or isinstance(pace, Expansion) or isinstance(share, Expansion):
        return lost
    return min(max(lost, 0.0), pace / max(share, 1e-100))


def _chance(value: Number) -> Number:
    """Return a probability [-], no smaller than its inverse can bear."""
    return value if isinstance(value, Expansion) else max(value, 1e-100)


def _check(rate: Number, classes: Sequence[FailureClass], stores: Sequence[CheckpointStore]) -> None:
    """Refuse times and rates that cannot be."""
    if not isinstance(rate, Expansion):
        non_negative("rate", rate)
    for row in classes:
        for name, value in (("downtime", row.downtime), ("pause", row.pause)):
            if not isinstance(value, Expansion):
                non_negative(name, value)
        for name, value in (("share", row.share), ("survival", row.survival)):
            if not isinstance(value, Expansion) and not 0.0 <= value <= 1.0 + _ROUNDING:
                raise ValueError(f"{name} must be between 0 and 1, got {value!r}")
        if not 0 <= row.store < len(stores):
            message = f"store must be the place of one of {len(stores)} stores, counted from 0, got {row.store!r}"
            raise ValueError(message)
    total = sum(row.share for row in classes)
    if classes and abs(total - 1.0) > _ROUNDING:
        raise ValueError(f"the shares of the classes sum to {total:g}, not to 1")
    for store in stores:
        positive("interval", store.interval)
        non_negative("write", store.write)
        non_negative("drain", store.drain)
        if store.drain > store.interval:
            raise ValueError(f"drain must not exceed interval (one save would overtake the next), got {store}")


# Failures of which some show signs: the job saves first. Some signs are false.
#
# Failures without signs strike at a rate mu, alarms at a rate nu, Lambda = mu + nu. At an alarm the job saves, which
# takes b as any save and begins again at each alarm meanwhile, and then restarts; a failure loses all since the newest
# save. Failures and alarms strike restarts too. From one end of a restart to the next,
#
# .. math::
#
#     E = \frac{\tau k + (\nu / \Lambda) s a}
#              {1 / \Lambda + (\nu / \Lambda) m + (e^{\Lambda u} - 1) / \Lambda}, \quad
#     k = \frac{1}{e^{\Lambda (\tau + b)} - 1}, \quad
#     a = \frac{(1 - e^{-\Lambda \tau}) / \Lambda - \tau e^{-\Lambda (\tau + b)}}{1 - e^{-\Lambda (\tau + b)}}
#
# with q = exp(-Lambda b), s = q / (1 - (1 - q) nu / Lambda) the chance that such a save succeeds, and
# m = (1 - q) / (Lambda (1 - (1 - q) nu / Lambda)) its mean time. Of a recall r and a precision p of failures at a rate
# lambda, mu = (1 - r) lambda and nu = r lambda / p; to the first order the best interval is ``sqrt(2 b / mu)``.
#
# References
# First order: G. Aupy, Y. Robert, F. Vivien, D. Zaidouni, "Checkpointing algorithms and fault prediction", Journal of
# Parallel and Distributed Computing 74 (2014); there the job goes on after an alarm, and here its node is drained.


def predicted_efficiency(interval: Values, write: Values, missed: Values, alarms: Values, restart: Values) -> Values:
    """Return the share of productive time of a job that saves and restarts at each alarm.

    Parameters
    ----------
    interval, write : float or (n,) array
        Computing time between saves, tau, and blocking time of one, b [s].
    missed, alarms : float or (n,) array
        Failures without signs, mu, and alarms, nu; together above zero [1/s].
    restart : float or (n,) array
        Restart, u [s].

    Returns
    -------
    float or (n,) array
        Productive share of the job's time [-].

    Raises
    ------
    ValueError
        If an amount is negative, or nothing ever stops the job.
    """
    tau, b, u = positive("interval", interval), non_negative("write", write), non_negative("restart", restart)
    nu = non_negative("alarms", alarms)
    rate = positive("missed + alarms", non_negative("missed", missed) + nu)
    share, cut = nu / rate, -np.expm1(-rate * b)
    again = 1.0 - cut * share
    whole = -np.expm1(-rate * (tau + b))
    ahead = (-np.expm1(-rate * tau) / rate - tau * (1.0 - whole)) / whole
    productive = tau * (1.0 - whole) / whole + share * (1.0 - cut) / again * ahead
    with np.errstate(over="ignore"):  # a restart that never ends leaves nothing
        fraction: Values = plain(productive * rate / (1.0 + share * cut / again + np.expm1(rate * u)))
    return fraction


# Where the time that is not productive goes, by cause: to the first and second order in the failure rate, and exact.
#
# To the first order each cause c costs, of each second, its rate times what one of its failures costs,
#
# .. math::
#
#     \lambda_c \left( d_c + h_c + E U_c + \frac{\tau}{\tau + b} \Bigl( \frac{\tau}{2} + b + w \Bigr) \right)
#
# with detection d, pauses h, restarts U, and the lost work of half an interval, a save and a drain (a failure in a save
# loses a whole interval). What is left out is of the order of the square of the rate times these times: failures that
# strike restarts, and the saves and losses that a job does not have while it is down. The second order has most of it.
#
# References
# J. W. Young, "A first order approximation to the optimum checkpoint interval", Communications of the ACM 17 (1974):
# the first order of a job without downtime. T. Herault, Y. Robert (editors), "Fault-Tolerance Techniques for High-
# Performance Computing", Springer, 2015, chapter 1: the waste of periodic saves.

ORDERS = ("first", "second", "exact")

"""The orders to which waste is computed, the crudest first."""


def waste_by_class(
    rate: float, classes: Callable[[Number], Sequence[FailureClass]], stores: Sequence[CheckpointStore]
) -> dict[str, ClassShares]:
    """Return the shares of a job's time by order: what its failures cost, class by class [-].

    Parameters
    ----------
    rate
        Failures of the job, lambda [1/s].
    classes
        The classes of failures at a rate, which restarts and pauses depend on. It is asked with a number and with an
        `Expansion`; `ettrick.sim.formulas.arrays.decay` bears both.
    stores
        As for `shares_of_classes`.

    Returns
    -------
    dict of str to ClassShares
        By the names in `ORDERS`. The shares of each sum to 1.

    Raises
    ------
    ValueError
        As for `shares_of_classes`.

    References
    ----------
    As for this module.
    """
    exact = shares_of_classes(rate, classes(rate), stores)
    growing = Expansion(0.0, rate)
    orders = shares_of_classes(growing, classes(growing), stores)
    return {"first": orders.up_to(1), "second": orders.up_to(2), "exact": exact}

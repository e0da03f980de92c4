r"""Expected goodput of a rigid job that replaces failed nodes by hot spares and waits when there is none left.

The model, in the order in which a failure is lived through. R nodes are needed, s stand by, and each that is up fails
at the rate ``1 / L``; k of all are in repair, each for r.

* Everybody waits for a *downtime* d, until the failure is known; failures meanwhile merge into it. Its repair begins.
* If a spare is up it steps in at once. If none is, the job is *starved*: it waits for the first node that comes back.
* A *restart* u follows, and cycles of computing and saving, as in `sim.theory.goodput`.

Without downtime this is exact. Nodes fail whatever the job does, so k is a birth-death chain of its own (its law needs
the mean of repairs only: independent nodes, or BCMP), and the job is starved exactly while k > s. On the clock that
stands still meanwhile, failures of the job are Poisson with the rate ``R / L``, whatever k is, so its shares there are
those of a job that always finds a spare: the two factors multiply. What is subtle is who fails while the job waits:
its other nodes do, if it is *exposed* then. With a downtime the chain is that of the other times, and repairs and
spares go on in the downtimes of each state k in proportion to their mean: an error of the order d / r. All times [s];
shares of the job's wall clock [-]. Not in it: queues of repair, nodes that share a failure, lives that age.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sim.theory.broadcast import FloatArray, non_negative, positive
from sim.theory.counts import from_ratios, whole

__all__ = ["Starvation", "gives_up", "starvation"]

_ROUNDING = 1e-15
"""Probability, relative to the largest, that no sum of others can feel [-]."""


class Starvation(NamedTuple):
    """How often and how long a job waits for nodes.

    Parameters
    ----------
    share
        Share of time in which the job waits [-].
    probability
        Probability that a failure finds no node that is there at once [-].
    wait
        Mean wait of a failure, those without one included [s].
    detection
        Share of time in which failures are not known yet [-].
    """

    share: float
    probability: float
    wait: float
    detection: float


def starvation(
    life: float,
    repair: float,
    required: int,
    spares: int,
    *,
    downtime: float = 0.0,
    cold: bool = False,
    exposed: bool = True,
    standby: int = 0,
    delay: float = 0.0,
) -> Starvation:
    r"""Return for which share of time a job waits for nodes, how often, and how long a failure makes it wait.

    Births from k nodes in repair ``(n_k (1 + (n_k - 1) d / L) + i_k (1 + beta_k)) / L`` with n_k of the job's nodes and
    i_k others up, deaths ``k (1 + beta_k) / r``. The wait of a failure is the share starved over the rate of failures.

    Parameters
    ----------
    life, repair
        Mean time between the failures of a node that is up, L (may be infinite), and until it is back, r [s].
    required, spares
        Nodes that the job needs, R, and hot spares, s [-].
    downtime
        Time until a failure is known, d [s].
    cold
        Whether nodes outside the job cannot fail.
    exposed
        Whether the job's other nodes can fail while it waits. If they cannot, one node is missing at most, and with
        cold spares the share is Erlang's loss formula.
    standby, delay
        Nodes that step in after a delay [s] when no hot spare is left; nodes that come back are hot spares first. With
        `standby` the chain has two dimensions, the hot spares being the other one, and is solved as linear equations,
        for repairs and delays that are exponential. For pools of some hundred nodes.

    Returns
    -------
    Starvation
        Shares, probability and mean wait. Of a job that never runs, to machine precision, the probability is 1 and the
        wait infinite.

    Raises
    ------
    ValueError
        If a time is negative or not finite, `life` is not positive, `required` is no whole number from 1, or `spares`
        or `standby` none from 0.

    References
    ----------
    Own derivation. The chain: J. Taylor and R. R. P. Jackson, Operational Research Quarterly 5 (1954); insensitivity:
    F. Baskett et al., J. ACM 22 (1975); loss formula: A. K. Erlang (1917).
    """
    rate, mean_repair = 1.0 / float(positive("life", life, infinite=True)), float(non_negative("repair", repair))
    r, s = int(whole("required", required, 1)), int(whole("spares", spares, 0))
    c, late = int(whole("standby", standby, 0)), float(non_negative("delay", delay))
    d = float(non_negative("downtime", downtime))
    if late == 0.0:
        s, c = s + c, 0
    if rate == 0.0 or mean_repair == 0.0:
        # Nobody is ever in repair: a failed node takes its own place again, or a standby node would not be asked for.
        s, c, mean_repair = max(s, 1), 0, 0.0
    states = _states(r, s, c)
    waits = (states.missing > 0) | (states.coming > 0)
    up = np.where(waits & (not exposed), 0.0, r - states.missing)
    noticing = up * rate * d
    pause = 1.0 + noticing
    failing = up * rate * (1.0 + np.maximum(up - 1.0, 0.0) * rate * d)
    outside = 0.0 if cold else rate * pause
    if mean_repair == 0.0:
        law = np.where(states.down == 0, 1.0, 0.0)
    elif c == 0:
        births, deaths = failing + outside * states.hot, states.down * pause / mean_repair
        law = from_ratios(births[:-1] / deaths[1:])
    else:
        others = (outside * states.hot, outside * states.standby)
        law = _two_kinds(states, failing, *others, states.down * pause / mean_repair, pause / late)
    total, running = float(law @ pause), float(law[~waits].sum())
    empty = float(law[~waits & (states.hot == 0)].sum())
    starved = float(law[waits].sum())
    failures = running * r * rate
    # Where far more nodes are in repair than there are spares, the probability to run is below the smallest number.
    return Starvation(
        share=starved / total,
        probability=empty / running if running > 0 else 1.0,
        wait=starved / failures if failures > 0 else 0.0 if rate == 0 else math.inf,
        detection=float(law @ noticing) / total,
    )


def gives_up(
    life: float,
    repair: float,
    required: int,
    spares: int,
    patience: float,
    *,
    exposed: bool = True,
) -> tuple[float, float]:
    r"""Return which part of its starved time a job with patience waits for [-], and how often it gives up in it [1/s].

    While j nodes are missing, the next one fails at ``b_j = (R - j) / L`` if the job's nodes are exposed, and one is
    back at ``d_j = (s + j) / r``. A wait ends when none is missing; a failure begins it anew, patience included. With A
    the generator of j between two failures, a job that begins to wait when j are missing

    .. math:: f = e^{A p} 1 + B f, \quad g = G 1 + B g, \quad G = A^{-1} (e^{A p} - 1), \quad B_{i, j + 1} = G_{ij} b_j

    gives up with the probability f_j, and waits g_j on average until then or until its nodes are there. Exact for
    exponential repairs.

    Parameters
    ----------
    life, repair, required, spares, exposed
        As for `starvation`; all spares are at hand at once.
    patience
        How long a job waits, p [s].

    Raises
    ------
    ValueError
        As for `starvation`.
    """
    from scipy.linalg import expm

    rate, mean_repair = 1.0 / float(positive("life", life)), float(positive("repair", repair))
    r, s = int(whole("required", required, 1)), int(whole("spares", spares, 0))
    wait = float(non_negative("patience", patience))
    missing = np.arange(1, r + 1, dtype=np.float64)
    failing = (r - missing) * rate if exposed else np.zeros(r)
    repaired = (s + missing) / mean_repair
    law = from_ratios(failing[:-1] / repaired[1:])
    # The first entry is one missing node more than none; what is as rare as rounding is left out.
    most = max(int(np.flatnonzero(law > _ROUNDING * law.max())[-1]) + 1, 1)
    law, failing, repaired = law[:most] / law[:most].sum(), failing[:most], repaired[:most]
    failing[-1] = 0.0
    ended = np.diag(repaired[1:], -1) - np.diag(failing + repaired)
    left = expm(ended * wait)
    stay = np.linalg.solve(ended, left - np.eye(most))
    again = np.zeros((most, most))
    again[:, 1:] = (stay * failing)[:, :-1]
    whole_wait = np.linalg.solve(np.eye(most) - again, np.column_stack([left.sum(axis=1), stay.sum(axis=1)]))
    # As often as the last missing node is back a wait begins.
    given_up, waited = law[0] * repaired[0] * whole_wait[0]
    return min(float(waited), 1.0), float(given_up)


class _States(NamedTuple):
    """All states of the nodes, as arrays: in repair, missing in the job, up outside it, and on their way to it."""

    down: FloatArray
    missing: FloatArray
    hot: FloatArray
    standby: FloatArray
    coming: FloatArray


def _states(required: int, spares: int, standby: int) -> _States:
    """Return the states that can be reached: hot spares go first and come back first."""
    rows = []
    for down in range(spares + standby + 1):
        left = spares + standby - down
        for hot in range(max(spares - down, 0), min(spares, left) + 1):
            rows += [(down, 0, hot, left - hot, coming) for coming in range(1 + (standby > 0))]
    rows += [(spares + standby + missing, missing, 0, 0, 0) for missing in range(1, required + 1)]
    return _States(*np.array(rows, dtype=np.float64).T)


def _two_kinds(
    states: _States, failing: FloatArray, hot: FloatArray, standby: FloatArray, repaired: FloatArray, ready: FloatArray
) -> FloatArray:
    """Return the long-run law of states with two kinds of spares: the solution of ``p Q = 0, sum p = 1``.

    The last five are rates: of failures in the job and of the spares, of repairs, and at which a node that comes is
    there [1/s].
    """
    from scipy.sparse import csc_matrix, diags
    from scipy.sparse.linalg import spsolve

    keys = [tuple(map(int, key)) for key in zip(states.down, states.hot, states.coming, strict=True)]
    number = {key: place for place, key in enumerate(keys)}
    full = int(states.hot.max())
    moves: list[tuple[int, int, float]] = []

    def move(place: int, down: int, spares: int, coming: int, rate: float) -> None:
        if rate > 0:
            # Who waits for a repair does not wait for a standby node as well.
            moves.append((place, number.get((down, spares, coming), number[down, spares, 0]), rate))

    for place, (down, spares, coming) in enumerate(keys):
        if down + 1 <= keys[-1][0]:
            calls = int(coming or (spares == 0 and states.standby[place] > 0))
            move(place, down + 1, max(spares - 1, 0), calls, float(failing[place]))
        move(place, down + 1, spares - 1, coming, float(hot[place]))
        move(place, down + 1, spares, coming, float(standby[place]))
        back = 0 if states.missing[place] > 0 else min(spares + 1, full)
        move(place, down - 1, back, coming, float(repaired[place]))
        move(place, down, spares, 0, float(ready[place]) * coming)
    source, target, rate = (np.array(column) for column in zip(*moves, strict=True))
    size = len(keys)
    flow = csc_matrix((rate, (target, source)), shape=(size, size)) - diags(np.bincount(source, rate, size))
    # One equation follows from the others. Take out that of the most probable state, or digits are lost; where repairs
    # balance failures and most spares are hot is a first guess.
    law, usual = np.zeros(size), -1
    guess = int(np.argmax(states.hot - np.abs(failing - repaired) / failing.max() * size))
    while guess != usual:
        usual, chosen = guess, np.eye(1, size, guess)[0]
        law = np.maximum(spsolve((diags(1.0 - chosen) @ flow + diags(chosen)).tocsc(), chosen), 0.0)
        guess = int(np.argmax(law)) if law.max() > 1.0 else usual
    return np.asarray(law / law.sum())

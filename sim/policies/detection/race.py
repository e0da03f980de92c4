"""The race of detectors: the earliest of those that watch and cover a fault notices it.

Observer i covers a fault with the probability c_i and then needs a time of its law F_i, independent of the others. The
fault is noticed at T = min T_i over those that cover it, so that P(T > t) = prod_i (1 - c_i F_i(t)). What none of them
covers, which has the probability prod_i (1 - c_i), waits for an operator.

Every number is asked for by the name of its observer: to add an observer changes nothing that the others see.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.sim.scenario.laws import Fixed, draw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ettrick.sim.scenario.law_model import LawModel

HUMAN = "human"

"""Name of whoever notices what no observer covers."""

_LEAST, _MOST = sys.float_info.min, 1 - 2.0**-53

# Between these quantiles a law is smooth enough for one Gauss rule: close where its tails bend.
_QUANTILES = np.array([1e-9, 1e-6, 1e-4, 1e-2, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1 - 1e-4, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12])

_NODES = 24


class Detector(NamedTuple):
    """A detector: covers a fault with a probability `coverage` [-], and notices it after a time of `law`."""

    name: str
    coverage: float
    law: LawModel


class DetectorDraw(NamedTuple):
    """An observer as it is asked: its least time [s], and the names of its numbers."""

    least: float
    observer: Detector
    covers: str
    latency: str

    @property
    def certain(self) -> bool:
        """Whether it covers every fault."""
        return self.observer.coverage >= 1


@dataclass(frozen=True)
class DetectionRace:
    """Time from a fault to the moment when somebody notices it.

    Parameters
    ----------
    observers
        Who watches; each has a name of its own.
    human
        Law of the time after which an operator notices what none of them covers; ``None`` if it stays undetected.
    """

    observers: tuple[Detector, ...]
    human: LawModel | None = None
    fixed: float | None = field(init=False, repr=False, compare=False)
    """The time [s], if it needs no random number; infinite if undetected."""
    contenders: tuple[DetectorDraw, ...] = field(init=False, repr=False, compare=False)
    """The detectors that can be the first, by the least possible time."""

    def __post_init__(self) -> None:
        """Put those who can be the first in order."""
        names = [observer.name for observer in self.observers]
        assert len(set(names)) == len(names)
        object.__setattr__(self, "contenders", _in_order(self.observers))
        object.__setattr__(self, "fixed", self._fixed())

    @classmethod
    def by(cls, law: LawModel) -> DetectionRace:
        """Return that one observer without a name notices everything after a time of `law`."""
        return cls((Detector("", 1.0, law),))

    def _fixed(self) -> float | None:
        """Return the time [s], if it needs no random number."""
        if not self.contenders:
            if self.human is None:
                return math.inf
            return self.human.value if isinstance(self.human, Fixed) else None
        first = self.contenders[0]
        # Whoever could only come later than a certain and fixed time has been left out.
        return first.observer.law.value if first.certain and isinstance(first.observer.law, Fixed) else None

    def draw(self, mark: Callable[[str], float]) -> float:
        """Return the time until a fault is noticed [s], by its marks; infinite if undetected."""
        return self.fixed if self.fixed is not None else self.found(mark)[0]

    def found(self, mark: Callable[[str], float]) -> tuple[float, str]:
        """Return the time until a fault is noticed [s], and the name of the observer.

        Parameters
        ----------
        mark
            ``mark(purpose)`` is a uniform number in (0, 1) that belongs to this fault and purpose.
        """
        best, who = math.inf, ""
        for least, observer, covers, latency in self.contenders:
            if least >= best:
                break
            if observer.coverage < 1 and mark(covers) >= observer.coverage:
                continue
            time = draw(observer.law, mark, latency)
            if time < best:
                best, who = time, observer.name
        if best == math.inf and self.human is not None:
            return draw(self.human, mark, f"detection {HUMAN}"), HUMAN
        return best, who

    @property
    def certain(self) -> float:
        """Probability that somebody notices [-]."""
        return 1.0 if self.human is not None else 1.0 - self._missed

    @property
    def _missed(self) -> float:
        """Probability that no observer covers a fault [-]."""
        return math.prod(1 - contender.observer.coverage for contender in self.contenders)

    @functools.cached_property
    def mean_value(self) -> float:
        """Mean time until a fault is noticed, of those that are [s]; infinite if none ever is.

        With h the mean of the operator, and m = prod (1 - c_i) what no observer covers, it is the integral of
        ``prod (1 - c_i F_i(t)) - m`` over all t, plus ``m h``.
        """
        if not self.certain:
            return math.inf
        observers = [contender.observer for contender in self.contenders]
        if len(observers) == 1:
            covered = observers[0].coverage * observers[0].law.mean_value
        else:
            covered = _integral(lambda t: _above(observers, t), _grid([observer.law for observer in observers]))
        late = self._missed * self.human.mean_value if self.human is not None else 0.0
        return (covered + late) / self.certain

    def shares(self) -> dict[str, float]:
        """Return the probability that each observer is the one who notices, by name [-].

        For observer i it is the integral of ``c_i prod_j (1 - c_j F_j(t))`` over F_i, with j all others; of two at the
        same time it is the one that is asked first.
        """
        shares = {observer.name: 0.0 for observer in self.observers}
        for place, contender in enumerate(self.contenders):
            observer = contender.observer
            if len(self.contenders) == 1:
                shares[observer.name] = observer.coverage
                continue
            rest = [(rival.observer, index < place) for index, rival in enumerate(self.contenders) if index != place]
            times = _grid([contender.observer.law for contender in self.contenders])
            before = np.nextafter(times, -np.inf)
            cuts = np.unique(np.concatenate([[0.0, 1.0], observer.law.cdf(before), observer.law.cdf(times)]))
            shares[observer.name] = observer.coverage * _integral(_others_later(observer.law, rest), cuts)
        if self.human is not None:
            shares[HUMAN] = self._missed
        return shares

    def scaled(self, factor: float) -> DetectionRace:
        """Return the same with every time multiplied by a positive `factor` [-]."""
        if factor == 1:
            return self
        observers = tuple(observer._replace(law=observer.law.scaled(factor)) for observer in self.observers)
        return DetectionRace(observers, self.human.scaled(factor) if self.human is not None else None)


def _in_order(observers: Sequence[Detector]) -> tuple[DetectorDraw, ...]:
    """Return the observers that can be the first, by their least possible time."""
    contenders = sorted(
        (
            DetectorDraw(
                observer.law.ppf_one(_LEAST),
                observer,
                f"detection {observer.name} covers",
                f"detection {observer.name}".strip(),
            )
            for observer in observers
            if observer.coverage > 0
        ),
        key=lambda contender: contender.least,
    )
    surest = min(
        (contender for contender in contenders if contender.certain),
        key=lambda contender: contender.observer.law.ppf_one(_MOST),
        default=None,
    )
    if surest is None:
        return tuple(contenders)
    bound = surest.observer.law.ppf_one(_MOST)
    return tuple(contender for contender in contenders if contender.least < bound or contender is surest)


def _survival(law: LawModel, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P(X > t) [-] at `times` [s], shape (n,), right in its tail too."""
    return np.asarray(np.exp(-law.cumulative_hazard(times)), dtype=np.float64)


def _above(observers: Sequence[Detector], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that a fault is noticed, and later than `times` [s]; shape (n,) [-].

    It is ``prod (1 - c_i F_i) - prod (1 - c_i)``, as a sum of positive terms: nothing cancels in the tail.
    """
    probability = np.zeros(len(times))
    missed = 1.0
    for observer in observers:
        later = observer.coverage * _survival(observer.law, times)
        probability = probability * (1 - observer.coverage + later) + missed * later
        missed *= 1 - observer.coverage
    return probability


def _others_later(
    law: LawModel, rest: Sequence[tuple[Detector, bool]]
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return a function of uniform numbers [-]: the probability that none in `rest` comes before that time of `law`.

    With each goes whether it wins where both notice at the same time.
    """

    def later(u: NDArray[np.float64]) -> NDArray[np.float64]:
        times = law.ppf(np.clip(u, _LEAST, _MOST))
        probability = np.ones(len(u))
        for observer, wins_ties in rest:
            after = times if wins_ties else np.nextafter(times, -np.inf)
            probability = probability * (1 - observer.coverage + observer.coverage * _survival(observer.law, after))
        return probability

    return later


def _grid(laws: Sequence[LawModel]) -> NDArray[np.float64]:
    """Return times [s] from zero between which all `laws` are smooth, out to where nothing is left of their means."""
    bends = [np.array([0.0, *itertools.chain.from_iterable(law.breaks for law in laws)])]
    for law in laws:
        bends += [law.ppf(_QUANTILES), law.length_biased_ppf(_QUANTILES)]
    return np.unique(np.concatenate(bends))


@functools.cache
def _legendre(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.polynomial.legendre.leggauss(count)


def _integral(function: Callable[[NDArray[np.float64]], NDArray[np.float64]], grid: NDArray[np.float64]) -> float:
    """Return the integral of a function over an ascending `grid` between whose points it is smooth, shape (n,).

    Gauss-Legendre over the logarithm, since tails span decades; over the first piece from zero plainly.
    """
    nodes, weights = _legendre(_NODES)
    low, high = grid[:-1], grid[1:]
    start = low > 0
    safe = np.where(start, low, 1.0)
    ratio = np.log(high / safe)
    part = (nodes[None, :] + 1) / 2
    plain = low[:, None] + part * (high - low)[:, None]
    curved = safe[:, None] * np.exp(part * ratio[:, None])
    times = np.where(start[:, None], np.clip(curved, low[:, None], high[:, None]), plain)
    widths = np.where(start[:, None], times * ratio[:, None], (high - low)[:, None])
    values = function(times.ravel()).reshape(times.shape)
    return float(np.sum(values * widths * weights[None, :] / 2))

"""Goodput with gaps of any law: the exponential limit, gaps played one by one, and the best intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import special

from sim.laws import Lognormal, Uniform, Weibull
from sim.theory import expected_shares, optimal_interval
from sim.theory.renewal import law_interval, law_shares, measured_interval, measured_shares
from tests.intervals import rival_seed

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

HOUR = 3600.0


def exponential(mean: float) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return the survival of exponential gaps."""
    return weibull(1.0, mean)


def fixed(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the survival of gaps of 1000 s; a save that is complete in the instant of a failure counts."""
    return np.asarray(x <= 1000.0, dtype=np.float64)


def weibull(shape: float, mean: float) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return the survival of Weibull gaps."""
    scale = mean / math.gamma(1 + 1 / shape)

    def survival(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.exp(-((x / scale) ** shape)), dtype=np.float64)

    return survival


def same(ours: dict[str, float], theirs: dict[str, float], error: float) -> None:
    """All shares agree."""
    assert list(ours) == ["productive", "checkpoint_stall", "lost_work", "detection", "restart"]
    assert ours == pytest.approx(theirs, abs=error)


# ------------------------------------------------------------------------------------------------------------ a law


@pytest.mark.parametrize("mean", [100 * HOUR, HOUR, 600.0, 60.0])
@pytest.mark.parametrize("times", [(0.0, 0.0, 0.0), (120.0, 60.0, 0.0), (300.0, 0.0, 500.0)])
def test_exponential_gaps_are_the_theory_of_poisson_failures(mean: float, times: tuple[float, float, float]) -> None:
    """All shares are those of `expected_shares`, to 1e-9, from light to hopeless."""
    restart, downtime, drain = times
    ours = law_shares(exponential(mean), mean, 500.0, 20.0, restart, downtime, drain)
    same(ours, expected_shares(500.0, 20.0, mean, restart, downtime, drain), 1e-9)


@pytest.mark.parametrize("shape", [0.4, 0.7, 1.5, 4.0])
def test_the_integrals_are_those_of_the_law(shape: float) -> None:
    """Of a Weibull law the time before u and the time running are incomplete gamma functions: cut off or all of it."""
    mean, restart = HOUR, 400.0
    scale = mean / math.gamma(1 + 1 / shape)
    shares = law_shares(weibull(shape, mean), mean, 900.0, 30.0, restart)
    before = scale * math.gamma(1 + 1 / shape) * special.gammainc(1 / shape, (restart / scale) ** shape)
    assert shares["restart"] == pytest.approx(before / mean, abs=1e-10)
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-12)


def test_a_fixed_gap_by_hand() -> None:
    """Every 1000 s a failure: 100 s of restart, 8 cycles of 100 + 10 s, 20 s of the next; a drain of 30 s voids one."""
    shares = law_shares(fixed, 1000.0, 100.0, 10.0, 100.0, 250.0)
    hand = {"productive": 800, "checkpoint_stall": 80, "lost_work": 20, "detection": 250, "restart": 100}
    same(shares, {name: seconds / 1250 for name, seconds in hand.items()}, 1e-12)
    late = law_shares(fixed, 1000.0, 100.0, 10.0, 100.0, 250.0, drain=30.0)
    same(
        late, {name: seconds / 1250 for name, seconds in (hand | {"productive": 700, "lost_work": 120}).items()}, 1e-12
    )
    same(measured_shares([1000.0], 100.0, 10.0, 100.0, 250.0, 30.0), late, 1e-12)


@pytest.mark.parametrize(
    "law",
    [
        Weibull.from_seconds(shape=0.7, mean=HOUR),
        Weibull.from_seconds(shape=1.5, mean=HOUR),
        Lognormal.from_seconds(median=HOUR, sigma=1.0),
        Uniform.from_seconds(low=600.0, high=2 * HOUR),
    ],
    ids=["weibull 0.7", "weibull 1.5", "lognormal", "uniform"],
)
@pytest.mark.parametrize("times", [(600.0, 20.0, 120.0, 60.0, 200.0), (60.0, 2.0, 0.0, 0.0, 60.0)])
def test_every_law_of_the_simulator(law: Any, times: tuple[float, ...]) -> None:
    """Of 200,000 gaps at evenly spaced quantiles the table gives the shares of the law, to what the spacing allows."""
    gaps = law.ppf((np.arange(200_000) + 0.5) / 200_000)
    interval, write, restart, downtime, drain = times
    ours = law_shares(lambda x: 1 - law.cdf(x), law.mean_value, interval, write, restart, downtime, drain)
    # A sum of survivals is off by one gap in 200,000 at most for each save; the far end of the law weighs more.
    same(measured_shares(gaps, interval, write, restart, downtime, drain), ours, 5e-4)


def test_early_failures_of_a_young_job_spare_the_old_one() -> None:
    """With one and the same mean, gaps of shape 0.5 lose less than exponential ones, and those of shape 2 more."""
    shares = [law_shares(weibull(shape, HOUR), HOUR, 600.0, 30.0)["lost_work"] for shape in (0.5, 1.0, 2.0)]
    assert shares[0] < shares[1] < shares[2]


# ---------------------------------------------------------------------------------------------------------- a table


def played(gaps: list[float], interval: float, write: float, restart: float, downtime: float, drain: float) -> Any:
    """Return the shares of gaps played one after another, event by event."""
    spent = dict.fromkeys(("productive", "checkpoint_stall", "lost_work", "detection", "restart"), 0.0)
    for gap in gaps:
        spent["detection"] += downtime
        spent["restart"] += min(gap, restart)
        now, at_risk, durable = restart, 0.0, []
        while now < gap:
            stepped = min(interval, gap - now)
            now += stepped
            at_risk += stepped
            blocked = min(write, gap - now)
            now += blocked
            spent["checkpoint_stall"] += blocked
            if stepped == interval and blocked == write:
                durable.append((now + drain, at_risk))
        saved = max((work for moment, work in durable if moment <= gap), default=0.0)
        spent["productive"] += saved
        spent["lost_work"] += at_risk - saved
    total = sum(spent.values())
    return {name: seconds / total for name, seconds in spent.items()}


@pytest.mark.parametrize("number", range(6))
def test_a_table_is_its_gaps_one_by_one(number: int) -> None:
    """Played event by event, gaps of every length give the same shares, to rounding."""
    generator = rival_seed(number)
    gaps = generator.exponential(generator.uniform(50, 2000), 200)
    gaps[:3] = 0.0
    interval = float(generator.uniform(20, 400))
    times = (interval, *generator.uniform(0, 100, 3).tolist(), float(generator.uniform(0, interval)))
    same(measured_shares(gaps, *times), played(gaps.tolist(), *times), 1e-12)


def test_a_save_in_the_instant_of_a_failure_counts() -> None:
    """A gap of 7 cycles holds 7 saves, even of lengths that no float holds."""
    for cycle in (0.1, 1 / 3, 7.7):
        assert measured_shares([7 * cycle + 0.3], 0.9 * cycle, 0.1 * cycle, 0.3)["lost_work"] == pytest.approx(0.0)


def test_nodes_together_are_poisson_and_one_is_not() -> None:
    """Failures of 400 old nodes with lives of shape 0.7 lose what Poisson failures do, those of one node far less.

    A fifth of a gap between saves; the tables have 40,000 gaps of the superposition, and as many of one node.
    """
    generator = rival_seed(7)
    nodes, gaps = 400, 40_000
    mean, count = float(nodes), gaps // nodes
    lives = generator.weibull(0.7, (nodes, 3 * count + 200)) * mean / math.gamma(1 + 1 / 0.7)
    # Nodes that have long been there: the first 50 lives are past.
    failing = np.cumsum(lives, axis=1) - 50 * mean
    failing = np.sort(failing[(failing > 0) & (failing < count * mean)])
    together = np.diff(failing)
    poisson = expected_shares(0.2, 0.01, 1.0, 0.1)["productive"]
    several = measured_shares(together, 0.2, 0.01, 0.1)["productive"]
    one = measured_shares(lives[:, :count].ravel() / mean, 0.2, 0.01, 0.1)["productive"]
    # A ratio of sums over gaps: the spread of a gap's progress that its length does not explain.
    saves = 0.2 * np.floor(np.maximum(together - 0.1, 0) / 0.21)
    error = float(np.std(saves - several * together, ddof=1)) / math.sqrt(together.size) / float(together.mean())
    assert abs(several - poisson) <= 4 * error
    assert one - poisson > 20 * error


# ---------------------------------------------------------------------------------------------------- best intervals


@pytest.mark.parametrize("write", [1.0, 60.0, 1000.0])
@pytest.mark.parametrize("drain", [0.0, 700.0])
def test_the_best_interval_of_exponential_gaps(write: float, drain: float) -> None:
    """It is the exact optimum of Poisson failures, or the drain where that is longer, whatever the restart."""
    best = max(optimal_interval(write, HOUR), drain)
    assert law_interval(exponential(HOUR), HOUR, write, 200.0, drain) == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("shape", [0.5, 0.7, 1.5, 3.0])
@pytest.mark.parametrize("write", [5.0, 300.0])
def test_no_interval_beats_the_searched_one(shape: float, write: float) -> None:
    """Of 200 intervals from a twentieth to twenty times it none leaves more."""
    survival = weibull(shape, HOUR)
    best = law_interval(survival, HOUR, write, 100.0)
    most = law_shares(survival, HOUR, best, write, 100.0)["productive"]
    for factor in np.geomspace(0.05, 20, 200):
        assert law_shares(survival, HOUR, best * factor, write, 100.0)["productive"] <= most + 1e-9


def test_the_best_interval_of_gaps_that_never_vary() -> None:
    """A failure every 1000 s and a write of 10 s: one save, complete just in time, is all that one can wish for."""
    assert measured_interval([1000.0], 10.0) == pytest.approx(990.0, rel=1e-6)
    assert law_interval(fixed, 1000.0, 10.0) == pytest.approx(990.0, rel=1e-6)


@pytest.mark.parametrize("number", range(8))
def test_no_interval_of_the_grid_beats_the_searched_one(number: int) -> None:
    """Of a few gaps the share jumps where one more save fits; still none of 160 around Young's leaves more."""
    gaps = rival_seed(number).exponential(HOUR, 7)
    write = 1.0
    young = math.sqrt(2 * write * float(gaps.mean()))
    most = measured_shares(gaps, measured_interval(gaps, write), write)["productive"]
    for interval in np.geomspace(young / 40, young * 40, 160):
        assert measured_shares(gaps, float(interval), write)["productive"] <= most


def test_the_best_interval_of_a_table_is_that_of_its_law() -> None:
    """Of 100,000 gaps at quantiles of a law it is as good as the law's own, to 1e-5 of a share."""
    law = Weibull.from_seconds(shape=0.7, mean=HOUR)
    gaps = law.ppf((np.arange(100_000) + 0.5) / 100_000)
    survival = weibull(0.7, HOUR)
    ours = measured_interval(gaps, 30.0, 60.0)
    best = law_interval(survival, HOUR, 30.0, 60.0)
    assert law_shares(survival, HOUR, ours, 30.0, 60.0)["productive"] == pytest.approx(
        law_shares(survival, HOUR, best, 30.0, 60.0)["productive"], abs=1e-5
    )


# ------------------------------------------------------------------------------------------------------- what cannot be


@pytest.mark.parametrize(
    ("times", "match"),
    [
        ((0.0, 1.0, 1.0), "mean must be positive"),
        ((HOUR, 0.0, 1.0), "interval must be positive"),
        ((HOUR, 1.0, -1.0), "write must be finite"),
        ((HOUR, 1.0, 1.0, math.nan), "restart must be finite"),
        ((HOUR, 1.0, 1.0, 0.0, -1.0), "downtime must be finite"),
        ((HOUR, 1.0, 1.0, 0.0, 0.0, 2.0), "drain must not exceed interval"),
        ((HOUR / 2, 60.0, 1.0), "it must be the integral of survival"),
        ((HOUR, 1e-9, 0.0), "too short beside gaps"),
    ],
)
def test_impossible_times(times: tuple[float, ...], match: str) -> None:
    """What cannot be meant is refused in one line, a mean that does not belong to the survival included."""
    with pytest.raises(ValueError, match=match):
        law_shares(exponential(HOUR), *times)


@pytest.mark.parametrize("gaps", [[], [0.0, 0.0], [-1.0, 2.0], [math.inf]])
def test_impossible_tables(gaps: list[float]) -> None:
    """A table holds gaps, not all of them zero."""
    with pytest.raises(ValueError, match="gaps must be"):
        measured_shares(gaps, 1.0, 1.0)
    with pytest.raises(ValueError, match="gaps must be"):
        measured_interval(gaps, 1.0)


def test_free_saves_have_no_best_interval() -> None:
    """The search needs a write to balance lost work against."""
    with pytest.raises(ValueError, match="write must be positive"):
        measured_interval([HOUR], 0.0)
    with pytest.raises(ValueError, match="write must be positive"):
        law_interval(exponential(HOUR), HOUR, 0.0)

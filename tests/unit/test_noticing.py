"""Who notices a fault, and when: the minimum of independent times, against its exact distribution."""

from __future__ import annotations

import itertools
import math
import pickle
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from sim.policies.detection.noticing import Noticing, Observer
from sim.scenario.laws import Empirical, Exponential, Fixed, Gamma, Lognormal, Mixture, MixturePart, Uniform, Weibull
from tests.cases import cases
from tests.detection_checks import marks, times
from tests.intervals import LEAST, Z, close
from tests.pace import one_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.scenario.law_model import LawModel

N = 20_000


def fixed(value: float) -> Fixed:
    """Return the law of one time [s]."""
    return Fixed.from_seconds(value=value)


def exponential(mean: float) -> Exponential:
    """Return an exponential law of a mean [s]."""
    return Exponential.from_seconds(mean=mean)


def uniform(low: float, high: float) -> Uniform:
    """Return a uniform law between two times [s]."""
    return Uniform.from_seconds(low=low, high=high)


def watched(*observers: tuple[float, LawModel], human: LawModel | None = None) -> Noticing:
    """Return observers called a, b, c ... of these coverages and laws."""
    named = zip("abcdef", observers, strict=False)
    return Noticing(tuple(Observer(name, *observer) for name, observer in named), human)


def recording(asked: list[str], value: float = 0.5) -> Callable[[str], float]:
    """Return marks that are all the same, and that write down what they are asked for."""

    def mark(purpose: str) -> float:
        asked.append(purpose)
        return value

    return mark


LAWS = {
    "fixed": fixed(40.0),
    "exponential": exponential(50.0),
    "uniform": uniform(20.0, 90.0),
    "weibull": Weibull.from_seconds(shape=0.6, scale=70.0),
    "gamma": Gamma.from_seconds(shape=3.0, mean=60.0),
    "lognormal": Lognormal.from_seconds(median=30.0, sigma=1.0),
    "empirical": Empirical.from_seconds(values=(10.0, 30.0, 30.0, 200.0)),
    "mixture": Mixture(
        parts=(
            MixturePart(weight="40 %", law={"law": "fixed", "value": "25 s"}),
            MixturePart(weight="60 %", law={"law": "exponential", "mean": "80 s"}),
        )
    ),
}


# ------------------------------------------------------------------------------------------------- one observer


def test_one_observer_is_its_law() -> None:
    """A single observer who covers all gives the time of its law at the number called ``detection``."""
    law = exponential(300.0)
    noticing = Noticing.by(law)
    asked: list[str] = []
    assert noticing.draw(recording(asked, 0.25)) == law.ppf_one(0.25)
    assert asked == ["detection"]
    assert noticing.mean_value == law.mean_value
    assert noticing.certain == 1


@cases(
    ("noticing", "time"),
    [
        (Noticing.by(fixed(7.0)), 7.0),
        (watched((1.0, fixed(9.0)), (1.0, uniform(9.0, 20.0))), 9.0),
        (watched((1.0, uniform(9.0, 20.0)), (1.0, fixed(9.0))), 9.0),
        (watched((1.0, uniform(50.0, 60.0)), (0.3, exponential(1.0)), (1.0, fixed(0.0))), 0.0),
        (watched(human=fixed(30.0)), 30.0),
        (watched((0.0, fixed(1.0))), math.inf),
        (watched(), math.inf),
    ],
)
def test_fixed_times_need_no_number(noticing: Noticing, time: float) -> None:
    """Where one certain and fixed time comes before all others, no number is asked for."""
    asked: list[str] = []
    assert noticing.fixed == time
    assert noticing.draw(recording(asked)) == time == noticing.found(recording(asked))[0]
    assert not asked
    assert noticing.mean_value == time


# ------------------------------------------------------------------------------------------- several observers


def test_only_those_are_asked_who_can_be_first() -> None:
    """Whoever cannot come before a time that is already known is not asked; coverage is asked for only if uncertain."""
    noticing = watched((0.5, uniform(10.0, 20.0)), (1.0, uniform(5.0, 40.0)), (1.0, uniform(40.0, 90.0)))
    asked: list[str] = []
    assert noticing.found(recording(asked, 0.1)) == (8.5, "b")
    assert asked == ["detection b"]
    asked.clear()
    assert noticing.found(recording(asked, 0.4)) == (14.0, "a")
    assert asked == ["detection b", "detection a covers", "detection a"]


def test_a_human_comes_last() -> None:
    """A human is asked for what no observer covers, and for nothing else, however quick the human would be."""
    noticing = watched((0.5, uniform(100.0, 200.0)), human=uniform(0.0, 10.0))
    asked: list[str] = []
    assert noticing.found(recording(asked, 0.4)) == (140.0, "a")
    assert asked == ["detection a covers", "detection a"]
    asked.clear()
    assert noticing.found(recording(asked, 0.6)) == (6.0, "human")
    assert asked == ["detection a covers", "detection human"]
    assert noticing.certain == 1
    assert noticing.shares() == {"a": 0.5, "human": 0.5}
    assert noticing.mean_value == pytest.approx(0.5 * 150 + 0.5 * 5)


def test_of_two_at_the_same_time_the_first_asked_wins() -> None:
    """Of equal times one observer is named, and the shares say the same."""
    sample = Empirical.from_seconds(values=(1.0, 2.0))
    noticing = watched((0.5, sample), (0.5, sample))
    assert noticing.found(recording([], 0.4)) == (1.0, "a")
    # a covers half; b is first where a does not cover, or where a has 2 s and b 1 s.
    assert noticing.shares() == pytest.approx({"a": 0.5 - 0.25 * 0.25, "b": 0.25 + 0.25 * 0.25})


def test_the_minimum_has_its_distribution() -> None:
    """Drawn times have the distribution 1 - prod (1 - c_i F_i), given that somebody covers the fault (KS)."""
    observers = ((0.7, LAWS["lognormal"]), (0.4, LAWS["exponential"]), (0.8, LAWS["weibull"]))
    noticing = watched(*observers)
    drawn = times(noticing, N)

    def noticed_by(x: np.ndarray) -> np.ndarray:
        above = np.prod([1 - coverage * law.cdf(x) for coverage, law in observers], axis=0)
        return (1 - above) / noticing.certain

    assert stats.kstest(drawn[np.isfinite(drawn)], noticed_by).pvalue > LEAST


@pytest.mark.parametrize(("first", "second"), one_in(3, list(itertools.combinations(LAWS, 2))))
def test_mean_and_shares_are_those_of_draws(first: str, second: str) -> None:
    """Mean, coverage and shares of two observers agree with 20,000 draws, for every pair of laws."""
    noticing = watched((0.6, LAWS[first]), (0.75, LAWS[second]))
    drawn = times(noticing, N)
    assert close(drawn[np.isfinite(drawn)], noticing.mean_value)
    assert noticing.certain == pytest.approx(1 - 0.4 * 0.25)
    shares = noticing.shares()
    assert math.fsum(shares.values()) == pytest.approx(noticing.certain, rel=1e-6)
    found = [noticing.found(marks(index))[1] for index in range(2000)]
    for name, share in shares.items():
        assert abs(found.count(name) / 2000 - share) <= Z * math.sqrt(share * (1 - share) / 2000)


def test_exponential_times_in_closed_form() -> None:
    """Of exponential times, the minimum has the sum of the rates, and each is first in proportion to its own."""
    noticing = watched((1.0, exponential(10.0)), (1.0, exponential(20.0)), (1.0, exponential(5.0)))
    total = 1 / 10 + 1 / 20 + 1 / 5
    assert noticing.mean_value == pytest.approx(1 / total, rel=1e-9)
    assert noticing.shares() == pytest.approx({"a": 0.1 / total, "b": 0.05 / total, "c": 0.2 / total}, rel=1e-6)
    partly = watched((0.5, exponential(10.0)), (0.3, exponential(20.0)))
    both = 1 / (1 / 10 + 1 / 20)
    mean = (0.15 * both + 0.35 * 10 + 0.15 * 20) / 0.65
    assert partly.mean_value == pytest.approx(mean, rel=1e-9)
    assert partly.shares() == pytest.approx({"a": 0.35 + 0.15 * 2 / 3, "b": 0.15 + 0.15 / 3}, rel=1e-6)


def test_uniform_times_in_closed_form() -> None:
    """The least of n uniform times has the mean 1 / (n + 1) of their range."""
    for count in (2, 3, 5):
        noticing = watched(*((1.0, uniform(0.0, 60.0)) for _ in range(count)))
        assert noticing.mean_value == pytest.approx(60 / (count + 1), rel=1e-9)


def test_a_heavy_tail_cut_by_a_timeout() -> None:
    """E[min(X, c)] of a lognormal X is its partial mean below c and c times the rest, to 1e-6."""
    phi = NormalDist().cdf
    mu, sigma = math.log(900.0), 1.685
    law = Lognormal.from_seconds(median=900.0, sigma=sigma)
    for limit in (10.0, 615.0, 1e5):
        below = math.exp(mu + sigma**2 / 2) * phi((math.log(limit) - mu) / sigma - sigma)
        mean = below + limit * (1 - phi((math.log(limit) - mu) / sigma))
        assert watched((1.0, law), (1.0, fixed(limit))).mean_value == pytest.approx(mean, rel=1e-6)


def test_samples_are_counted_out() -> None:
    """The mean of the minimum of two samples is that of all their pairs."""
    first, second = (1.0, 5.0, 9.0, 30.0), (2.0, 5.0, 7.0)
    noticing = watched(
        (1.0, Empirical.from_seconds(values=first)),
        (1.0, Empirical.from_seconds(values=second)),
    )
    pairs = [min(pair) for pair in itertools.product(first, second)]
    assert noticing.mean_value == pytest.approx(math.fsum(pairs) / len(pairs), rel=1e-9)


def test_one_more_observer_never_makes_it_later() -> None:
    """On the same faults, another observer changes nothing of what the others see: no fault is noticed later."""
    laws = list(LAWS.values())
    for count in range(1, len(laws)):
        fewer = Noticing(tuple(Observer(str(index), 0.5, law) for index, law in enumerate(laws[:count])))
        more = Noticing((*fewer.observers, Observer("new", 0.8, laws[count])))
        before, after = times(fewer, 1000), times(more, 1000)
        assert np.all(after <= before)
        assert np.any(after < before)


def test_scale_pickle_and_order() -> None:
    """A scale multiplies every time; a copy through pickle is the same; the order of observers makes no difference."""
    noticing = watched((0.6, LAWS["lognormal"]), (0.75, LAWS["mixture"]), human=exponential(1e4))
    assert times(noticing.scaled(2.5), 500) == pytest.approx(2.5 * times(noticing, 500), rel=1e-12)
    assert noticing.scaled(2.5).mean_value == pytest.approx(2.5 * noticing.mean_value, rel=1e-9)
    copy = pickle.loads(pickle.dumps(noticing))
    assert copy == noticing
    assert np.array_equal(times(copy, 500), times(noticing, 500))
    turned = Noticing(noticing.observers[::-1], noticing.human)
    assert np.array_equal(times(turned, 500), times(noticing, 500))

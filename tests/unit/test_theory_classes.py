"""Shares of a job whose failures are of classes: limits, identities, and the exact two levels beside them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.formulas.arrays import Expansion, decay, mean_decay, real
from sim.formulas.goodput import ClassShares, FailureClass, Store, expected_shares, shares_of_classes
from tests.cases import cases
from tests.oracle.theory.multilevel import multilevel_shares

MINUTE, HOUR = 60.0, 3600.0
TIMES = st.floats(0.0, 3000.0)
RATES = st.floats(1e-7, 1e-3)


def total(shares: ClassShares) -> float:
    """Return the sum of all shares."""
    return sum(map(real, (shares.productive, shares.checkpoint_stall, *(part for row in shares[2:] for part in row))))


def fixed(rate: float, share: float, restart: float, downtime: float = 0.0, store: int = 0) -> FailureClass:
    """Return a class whose restarts all take one time."""
    return FailureClass(share, downtime, decay(rate * restart), store=store)


@given(RATES, TIMES, TIMES, st.floats(60.0, 9000.0), st.floats(0.0, 300.0), st.floats(0.0, 1.0))
@settings(max_examples=200, deadline=None)
def test_classes_that_are_alike_are_one(
    rate: float, restart: float, downtime: float, interval: float, write: float, share: float
) -> None:
    """However failures that are alike are divided into classes, the shares are those of `expected_shares`."""
    drain = interval / 3
    classes = [fixed(rate, part, restart, downtime) for part in (share, 1 - share)]
    found = shares_of_classes(rate, classes, [Store(interval, write, drain)])
    wanted = expected_shares(interval, write, 1 / rate, restart, downtime, drain)
    assert found.productive == pytest.approx(wanted["productive"], rel=1e-9, abs=1e-12)
    assert found.checkpoint_stall == pytest.approx(wanted["checkpoint_stall"], rel=1e-9, abs=1e-12)
    for parts, name in zip(found[2:], ("detection", "restart", "lost_work"), strict=True):
        assert sum(map(real, parts)) == pytest.approx(wanted[name], rel=1e-9, abs=1e-9)
        for part, of_all in zip(parts, (share, 1 - share), strict=True):
            assert part == pytest.approx(of_all * wanted[name], rel=1e-9, abs=1e-9)


@given(
    RATES,
    st.lists(st.tuples(st.floats(0.01, 1.0), TIMES, TIMES, st.integers(0, 2)), min_size=1, max_size=5),
    st.floats(0.0, 60.0),
)
@settings(max_examples=200, deadline=None)
def test_shares_are_shares(rate: float, rows: list[tuple[float, float, float, int]], write: float) -> None:
    """Whatever the classes and stores, no share is negative and all sum to 1; expansions sum to 1 at every order."""
    whole = sum(row[0] for row in rows)
    stores = [Store(60.0, write, 20.0), Store(700.0, write, 300.0), Store(5000.0, write)]
    shares = [row[0] / whole for row in rows]
    classes = [
        fixed(rate, share, restart, downtime, store)
        for share, (_, restart, downtime, store) in zip(shares, rows, strict=True)
    ]
    found = shares_of_classes(rate, classes, stores)
    assert total(found) == pytest.approx(1.0, abs=1e-9)
    assert min(map(real, (found.productive, found.checkpoint_stall, *(p for row in found[2:] for p in row)))) >= -1e-12
    growing = Expansion(0.0, rate)
    classes = [row._replace(survival=decay(growing * rows[index][1])) for index, row in enumerate(classes)]
    orders = shares_of_classes(growing, classes, stores)
    for order in (0, 1, 2):
        assert total(orders.up_to(order)) == pytest.approx(1.0, abs=1e-9 * max(1.0, (rate * 3000) ** 2))


@cases("mtti", [10 * HOUR, HOUR, 10 * MINUTE])
def test_a_restart_counts_by_its_laplace_transform(mtti: float) -> None:
    """One job by hand, 200,000 failures: two classes, one with exponential restarts, of which the mean would mislead.

    Tolerance: 4.5 standard errors of the ratio of productive time to all time (7e-6 of misses).
    """
    rate, interval, write, mean = 1 / mtti, 600.0, 10.0, 900.0
    draws = np.random.default_rng([7, round(mtti)])
    n = 200_000
    gaps = draws.exponential(mtti, n)
    second = draws.random(n) < 0.4
    restarts = np.where(second, draws.exponential(mean, n), 60.0)
    # Each failure is followed by a downtime, then by its restart unless the next failure comes first.
    running = np.maximum(gaps - restarts, 0.0)
    productive = interval * np.floor(running / (interval + write))
    length = gaps + np.where(second, 30.0, 200.0)
    ratio = productive.sum() / length.sum()
    error = np.std(productive - ratio * length) / math.sqrt(n) / length.mean()
    classes = [fixed(rate, 0.6, 60.0, 200.0), FailureClass(0.4, 30.0, 1 / (1 + rate * mean))]
    found = shares_of_classes(rate, classes, [Store(interval, write)])
    assert abs(real(found.productive) - ratio) <= 4.5 * error
    in_vain = np.minimum(gaps, restarts)[second].sum() / length.sum()
    assert real(found.restart[1]) == pytest.approx(in_vain, rel=4.5 * 1.5 / math.sqrt(0.4 * n))
    if mtti < HOUR:
        by_mean = [classes[0], fixed(rate, 0.4, mean, 30.0)]
        wrong = real(shares_of_classes(rate, by_mean, [Store(interval, write)]).productive)
        assert abs(wrong - ratio) > 9 * error, "the mean of the restart does not tell"


@cases("count", [2, 5, 20])
@cases(("mtti", "bound"), [(20 * HOUR, 2e-4), (4 * HOUR, 6e-4), (1.2 * HOUR, 3e-3), (20 * MINUTE, 1e-2)])
def test_two_levels_are_nearly_the_exact_ones(mtti: float, bound: float, count: int) -> None:
    """Of nested saves the form that takes stores one by one is as close to the exact shares as it says."""
    rate, interval, writes, restarts, downtime = 1 / mtti, 300.0, (2.0, 20.0), (60.0, 300.0), 20.0
    rates = [0.9 * rate, 0.1 * rate]
    exact = multilevel_shares(interval, [count], list(writes), rates, list(restarts), [downtime] * 2)
    classes = [fixed(rate, 0.9, restarts[0], downtime, 0), fixed(rate, 0.1, restarts[1], downtime, 1)]
    stores = [Store(interval, writes[0]), Store(count * interval, writes[1])]
    found = shares_of_classes(rate, classes, stores)
    assert real(found.productive) == pytest.approx(float(exact["productive"]), abs=bound)
    only = [row._replace(store=1) for row in classes]
    assert real(shares_of_classes(rate, only, stores).productive) < real(found.productive)


def test_without_failures_only_saves_cost() -> None:
    """At a rate of zero the share of stepping is 1 / (1 + sum b / tau), with classes or without."""
    stores = [Store(100.0, 1.0), Store(1000.0, 30.0)]
    for classes in ([], [fixed(0.0, 1.0, 60.0, 10.0)]):
        found = shares_of_classes(0.0, classes, stores)
        assert found.productive == pytest.approx(1 / (1 + 0.01 + 0.03), rel=1e-12)
        assert total(found) == pytest.approx(1.0, rel=1e-12)


def test_hopeless_jobs_get_nothing_done() -> None:
    """Where nothing is ever durable the productive share is zero and nothing overflows."""
    stores = [Store(60.0, 1.0, 30.0), Store(36_000.0, 60.0, 30_000.0)]
    classes = [fixed(0.1, 0.5, 9000.0), fixed(0.1, 0.5, 90_000.0, store=1)]
    found = shares_of_classes(0.1, classes, stores)
    assert 0 <= real(found.productive) < 1e-6
    assert total(found) == pytest.approx(1.0, abs=1e-9)


@cases(
    ("change", "words"),
    [
        ({"rate": -1.0}, "rate must be finite and not negative"),
        ({"share": 0.5}, "sum to 0.5, not to 1"),
        ({"share": -0.5}, "share must be between 0 and 1"),
        ({"share": 1.5}, "share must be between 0 and 1"),
        ({"survival": 1.5}, "survival must be between 0 and 1"),
        ({"survival": -0.5}, "survival must be between 0 and 1"),
        ({"store": 1}, "place of one of 1 stores"),
        ({"store": -1}, "place of one of 1 stores"),
        ({"downtime": math.inf}, "downtime must be finite"),
        ({"drain": 700.0}, "drain must not exceed interval"),
        ({"interval": 0.0}, "interval must be positive"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, float], words: str) -> None:
    """Rates, times, shares, chances, stores and drains that there cannot be: one line says which."""
    values = {"share": 1.0, "downtime": 0.0, "survival": 0.9, "store": 0}
    row = FailureClass(**{name: change.get(name, value) for name, value in values.items()})  # type: ignore[arg-type]
    store = Store(change.get("interval", 600.0), 0.0, change.get("drain", 0.0))
    with pytest.raises(ValueError, match=words):
        shares_of_classes(change.get("rate", 1e-4), [row], [store])


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(1, 3), st.floats(-1, 1))
@settings(max_examples=100, deadline=None)
def test_expansions_are_power_series(a: float, b: float, c: float, d: float) -> None:
    """Sum, product, quotient, decay and its mean agree with their values at a small scale to the third order."""
    scale = 1e-3
    one, other = Expansion(a, b, d), Expansion(c, a, b)
    small, hazard = scale * (b + d * scale), Expansion(0.0, b, d)

    def at(value: Expansion) -> float:
        return value.zeroth + scale * (value.first + scale * value.second)

    pairs = {
        "sum": (at(one + other), at(one) + at(other)),
        "difference": (at(2.0 - one), 2.0 - at(one)),
        "product": (at(one * other), at(one) * at(other)),
        "quotient": (at(one / other), at(one) / at(other)),
        "inverse": (at(1.0 / other), 1.0 / at(other)),
        "decay": (at(decay(hazard)), math.exp(-small)),  # type: ignore[arg-type]
        "mean": (at(mean_decay(hazard)), -math.expm1(-small) / small if small else 1.0),  # type: ignore[arg-type]
    }
    for name, (found, wanted) in pairs.items():
        assert found == pytest.approx(wanted, abs=2e-8), name
    with pytest.raises(TypeError, match="have no orders"):
        shares_of_classes(1e-4, [], [Store(60.0)]).up_to(1)

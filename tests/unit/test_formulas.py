"""Shares of a job whose failures are of classes: limits, identities, and the exact two levels beside them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from docs.pictures.mathematics import PICTURE, efficiency_of, main, simulated
from ettrick import sim
from ettrick.sim.formulas.arrays import Expansion, decay, mean_decay, real
from ettrick.sim.formulas.goodput import (
    ORDERS,
    CheckpointStore,
    ClassShares,
    FailureClass,
    efficiency,
    first_order_efficiency,
    optimal_interval,
    shares_of_classes,
    waste_by_class,
)
from tests.cases import cases
from tests.intervals import Z
from tests.oracle.theory.multilevel import multilevel_shares
from tests.property.common import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ettrick.sim.formulas.arrays import Number

# ----------------------------------------
# The page of the mathematics: its picture is current, it names all of the theory, and what it derives is so.

DOCS = Path(sim.__file__).parents[2] / "docs" / "explanation"

PAGE = (DOCS / "mathematics.md").read_text(encoding="utf-8")

THEORY = {path.stem for path in (Path(sim.__file__).parent / "formulas").glob("[a-z]*.py")}

PLUMBING = {"arrays"}

"""Modules of theory that say nothing of jobs."""


@pytest.mark.parametrize(("interval", "mtti"), [(300.0, 600.0), (1800.0, 7200.0), (10_800.0, 12 * 86_400.0)])
def test_the_dots_are_the_job_of_the_lines(interval: float, mtti: float) -> None:
    """A dot is where the line is, within its interval and the end of a run, and has the place that it was given."""
    dot = simulated(interval, mtti, 77.0, replications=8)
    # Half of a 95 % interval of 8 is 2.36 standard errors; Student's law has wider tails than the normal one.
    error = dot.half / 2.36
    assert abs(dot.mean - efficiency_of(interval, mtti)) <= 2 * Z * error + min(interval, mtti) / (400 * mtti)
    assert dot.place == 77.0
    assert abs(dot.mean - efficiency_of(interval, mtti / 4)) > 2 * Z * error


def test_a_folder_that_is_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A picture that can be written is, with status 0; one that cannot is one line and the status 2."""
    monkeypatch.setattr("docs.pictures.mathematics.picture", lambda: "drawn")
    assert main([str(tmp_path)]) == 0
    assert (tmp_path / PICTURE).read_text(encoding="utf-8") == "drawn"
    assert main([str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_the_page_names_all_of_the_theory() -> None:
    """Each module of theory about jobs or nodes stands on the page, and nothing that is named like one is missing."""
    named = set(re.findall(r"`([a-z_]+)`", PAGE))
    assert named >= THEORY - PLUMBING, THEORY - PLUMBING - named
    assert named - {"run", "explain"} <= THEORY


def test_the_share_at_the_best_interval() -> None:
    """At the exact optimum E is (1 - tau / M) e^(-lambda (u + w)) / (1 + lambda d), and nearly its expansion."""
    for write, mtti in ((5.0, 86_400.0), (60.0, 3600.0), (600.0, 900.0)):
        best = optimal_interval(write, mtti)
        found = efficiency(best, write, mtti, 100.0, 50.0, 30.0)
        assert found == pytest.approx((1 - best / mtti) * math.exp(-130 / mtti) / (1 + 50 / mtti), rel=1e-9)
    light = efficiency(optimal_interval(1.0, 1e6), 1.0, 1e6, 100.0, 50.0, 30.0)
    assert light == pytest.approx(1 - math.sqrt(2e-6) - 180e-6, abs=3e-6)


def test_the_expansion_of_the_share() -> None:
    """The second-order terms of the page are those of the formula: what is left falls with the cube of the rate."""
    tau, write, restart, drain, downtime = 100.0, 9.0, 20.0, 30.0, 15.0
    left = []
    for rate in (2e-5, 1e-5):
        y, z, v = rate * (tau + write), rate * (restart + drain), rate * downtime
        second = y**2 / 12 + z**2 / 2 + v**2 + y * z / 2 + v * z + v * y / 2
        page = tau / (tau + write) * (1 - (y / 2 + z + v) + second)
        left.append(page - efficiency(tau, write, 1 / rate, restart, downtime, drain))
    assert left[0] / left[1] == pytest.approx(8, rel=0.01)


@cases(("power", "ratio", "share"), [(1.0, 1.0, 20), (2.0, 0.5, 42)])
def test_the_peak_of_goodput(power: float, ratio: float, share: int) -> None:
    """At N* without restarts b / tau is 1 / x, and E is 20 % for x = 1 and 42 % for x = 2, as the page says."""

    def mtti_of(log_size: float) -> float:
        return 36_000.0 * math.exp(-power * log_size)

    def minus_done(log_size: float) -> float:
        mtti = mtti_of(log_size)
        return -math.exp(log_size) * efficiency(optimal_interval(60.0, mtti), 60.0, mtti, 0.0)

    mtti = mtti_of(minimize_scalar(minus_done, bounds=(0.0, 10.0), method="bounded", options={"xatol": 1e-9}).x)
    best = optimal_interval(60.0, mtti)
    assert 60.0 / best == pytest.approx(ratio, rel=1e-5)
    assert round(100 * efficiency(best, 60.0, mtti, 0.0)) == share
    assert f"{share} %" in PAGE
    if power == 1.0:
        assert mtti / 60.0 == pytest.approx(1.25, abs=0.01)


MINUTE, HOUR = 60.0, 3600.0

TIMES = st.floats(0.0, 3000.0)

RATES = st.floats(1e-7, 1e-3)


def total(shares: ClassShares) -> float:
    """Return the sum of all shares."""
    return sum(map(real, (shares.productive, shares.checkpoint_stall, *(part for row in shares[2:] for part in row))))


def fixed(rate: float, share: float, restart: float, downtime: float = 0.0, store: int = 0) -> FailureClass:
    """Return a class whose restarts all take one time."""
    return FailureClass(share, downtime, decay(rate * restart), store=store)


@given(
    RATES,
    st.lists(st.tuples(st.floats(0.01, 1.0), TIMES, TIMES, st.integers(0, 2)), min_size=1, max_size=5),
    st.floats(0.0, 60.0),
)
@examples(200)
def test_shares_are_shares(rate: float, rows: list[tuple[float, float, float, int]], write: float) -> None:
    """Whatever the classes and stores, no share is negative and all sum to 1; expansions sum to 1 at every order."""
    whole = sum(row[0] for row in rows)
    stores = [CheckpointStore(60.0, write, 20.0), CheckpointStore(700.0, write, 300.0), CheckpointStore(5000.0, write)]
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
    found = shares_of_classes(rate, classes, [CheckpointStore(interval, write)])
    assert abs(real(found.productive) - ratio) <= 4.5 * error
    in_vain = np.minimum(gaps, restarts)[second].sum() / length.sum()
    assert real(found.restart[1]) == pytest.approx(in_vain, rel=4.5 * 1.5 / math.sqrt(0.4 * n))
    if mtti < HOUR:
        by_mean = [classes[0], fixed(rate, 0.4, mean, 30.0)]
        wrong = real(shares_of_classes(rate, by_mean, [CheckpointStore(interval, write)]).productive)
        assert abs(wrong - ratio) > 9 * error, "the mean of the restart does not tell"


@cases("count", [2, 5, 20])
@cases(("mtti", "bound"), [(20 * HOUR, 2e-4), (4 * HOUR, 6e-4), (1.2 * HOUR, 3e-3), (20 * MINUTE, 1e-2)])
def test_two_levels_are_nearly_the_exact_ones(mtti: float, bound: float, count: int) -> None:
    """Of nested saves the form that takes stores one by one is as close to the exact shares as it says."""
    rate, interval, writes, restarts, downtime = 1 / mtti, 300.0, (2.0, 20.0), (60.0, 300.0), 20.0
    rates = [0.9 * rate, 0.1 * rate]
    exact = multilevel_shares(interval, [count], list(writes), rates, list(restarts), [downtime] * 2)
    classes = [fixed(rate, 0.9, restarts[0], downtime, 0), fixed(rate, 0.1, restarts[1], downtime, 1)]
    stores = [CheckpointStore(interval, writes[0]), CheckpointStore(count * interval, writes[1])]
    found = shares_of_classes(rate, classes, stores)
    assert real(found.productive) == pytest.approx(float(exact["productive"]), abs=bound)
    only = [row._replace(store=1) for row in classes]
    assert real(shares_of_classes(rate, only, stores).productive) < real(found.productive)


def test_hopeless_jobs_get_nothing_done() -> None:
    """Where nothing is ever durable the productive share is zero and nothing overflows."""
    stores = [CheckpointStore(60.0, 1.0, 30.0), CheckpointStore(36_000.0, 60.0, 30_000.0)]
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
    store = CheckpointStore(change.get("interval", 600.0), 0.0, change.get("drain", 0.0))
    with pytest.raises(ValueError, match=words):
        shares_of_classes(change.get("rate", 1e-4), [row], [store])


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(1, 3), st.floats(-1, 1))
@examples(100)
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
        shares_of_classes(1e-4, [], [CheckpointStore(60.0)]).up_to(1)


# ----------------------------------------
# Waste by class and order: first and second order are the Taylor terms of the exact one, by hand and in the limit.

ROWS = ((0.5, 20.0, 120.0, 0.0, 0), (0.3, 600.0, 60.0, 150.0, 0), (0.2, 60.0, 400.0, 30.0, 1))

"""Share, downtime, restart, pause and store of each class."""

STORES = (CheckpointStore(600.0, 3.0, 40.0), CheckpointStore(3600.0, 60.0, 300.0))


def classes(rate: Number, stores: int = 2) -> list[FailureClass]:
    """Return the classes at a rate, in as many stores."""
    return [
        FailureClass(share, downtime, decay(rate * restart), pause, min(store, stores - 1))
        for share, downtime, restart, pause, store in ROWS
    ]


@cases("stores", [1, 2])
def test_orders_are_those_of_the_exact_shares(stores: int) -> None:
    """With ten times fewer failures the first order errs 100 times less, the second 1000 times: Taylor's remainder."""
    errors: dict[str, list[dict[str, float]]] = {"first": [], "second": []}
    for mtti in (100 * HOUR, 1000 * HOUR):
        found = waste_by_class(1 / mtti, lambda rate: classes(rate, stores), STORES[:stores])
        for order, rows in errors.items():
            rows.append(
                {
                    f"{name} {index}": abs(real(one) - real(exact))
                    for name in ("detection", "restart", "lost_work")
                    for index, (one, exact) in enumerate(
                        zip(getattr(found[order], name), getattr(found["exact"], name), strict=True)
                    )
                }
            )
    for order, power in (("first", 2), ("second", 3)):
        for name, coarse in errors[order][0].items():
            fine = errors[order][1][name]
            assert fine == pytest.approx(coarse / 10**power, rel=0.15, abs=1e-14), (order, name)


def test_first_order_by_hand() -> None:
    """One store: lambda_c (d + h + u + tau / (tau + b) (tau / 2 + b + w)); stalls less those that a job down lacks."""
    rate, store = 1 / (5 * HOUR), STORES[0]
    found = waste_by_class(rate, lambda each: classes(each, 1), STORES[:1])["first"]
    period = store.interval + store.write
    for index, (share, downtime, restart, pause, _) in enumerate(ROWS):
        each = share * rate
        assert found.detection[index] == pytest.approx(each * downtime, rel=1e-12)
        assert found.restart[index] == pytest.approx(each * (restart + pause), rel=1e-12)
        # Computing of a running time, less what becomes durable.
        lost = each * store.interval / period * (period / 2 + store.drain + store.write / 2)
        assert found.lost_work[index] == pytest.approx(lost, rel=1e-12)
    down = sum(share * (downtime + restart + pause) for share, downtime, restart, pause, _ in ROWS)
    stall = store.write / period * (1 - rate * down) - rate * store.interval * store.write / period / 2
    assert found.checkpoint_stall == pytest.approx(stall, rel=1e-12)


def test_the_published_first_order_is_ours() -> None:
    """Without saves that block, the first order is 1 - (u0 + dt / 2) / M of arXiv 2410.21680."""
    found = waste_by_class(
        1 / (10 * HOUR), lambda rate: [FailureClass(1.0, 0.0, decay(rate * 5 * MINUTE))], [CheckpointStore(HOUR)]
    )
    wanted = first_order_efficiency(HOUR, 0.0, 10 * HOUR, 5 * MINUTE)
    assert found["first"].productive == pytest.approx(wanted, rel=1e-12)


def test_the_orders_close_in_on_the_exact() -> None:
    """At 4 h between failures each order is nearer to the exact productive share than the one before."""

    def of(rate: Number) -> Sequence[FailureClass]:
        return classes(rate)

    found = waste_by_class(1 / (4 * HOUR), of, STORES)
    assert tuple(found) == ORDERS
    first, second, exact = (real(found[order].productive) for order in ORDERS)
    assert abs(first - exact) > 5 * abs(second - exact)
    assert first < exact, "to the first order failures strike a job that is down"

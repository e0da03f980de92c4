"""Waste by class and order: first and second order are the Taylor terms of the exact one, by hand and in the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sim.formulas.arrays import decay, real
from sim.formulas.goodput import ORDERS, FailureClass, Store, first_order_efficiency, waste_by_class
from tests.cases import cases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.formulas.arrays import Number

MINUTE, HOUR = 60.0, 3600.0
ROWS = ((0.5, 20.0, 120.0, 0.0, 0), (0.3, 600.0, 60.0, 150.0, 0), (0.2, 60.0, 400.0, 30.0, 1))
"""Share, downtime, restart, pause and store of each class."""
STORES = (Store(600.0, 3.0, 40.0), Store(3600.0, 60.0, 300.0))


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
        1 / (10 * HOUR), lambda rate: [FailureClass(1.0, 0.0, decay(rate * 5 * MINUTE))], [Store(HOUR)]
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

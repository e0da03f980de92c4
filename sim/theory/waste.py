r"""Where the time that is not productive goes, by cause: to the first and second order in the failure rate, and exact.

To the first order each cause c costs, of each second, its rate times what one of its failures costs,

.. math::

    \lambda_c \left( d_c + h_c + E U_c + \frac{\tau}{\tau + b} \Bigl( \frac{\tau}{2} + b + w \Bigr) \right)

with detection d, pauses h, restarts U, and the lost work of half an interval, a save and a drain (a failure in a save
loses a whole interval). What is left out is of the order of the square of the rate times these times: failures that
strike restarts, and the saves and losses that a job does not have while it is down. The second order has most of it.

References
----------
J. W. Young, "A first order approximation to the optimum checkpoint interval", Communications of the ACM 17 (1974): the
first order of a job without downtime. T. Herault, Y. Robert (editors), "Fault-Tolerance Techniques for High-Performance
Computing", Springer, 2015, chapter 1: the waste of periodic saves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.theory.classes import ClassShares, shares_of_classes
from sim.theory.expansion import Expansion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sim.theory.classes import FailureClass, Store
    from sim.theory.expansion import Number

__all__ = ["ORDERS", "waste_by_class"]

ORDERS = ("first", "second", "exact")
"""How far waste is worked out, the crudest first."""


def waste_by_class(
    rate: float, classes: Callable[[Number], Sequence[FailureClass]], stores: Sequence[Store]
) -> dict[str, ClassShares]:
    """Return the shares of a job's time by order: what its failures cost, class by class [-].

    Parameters
    ----------
    rate
        Failures of the job, lambda [1/s].
    classes
        The classes of failures at a rate, which restarts and pauses depend on. It is asked with a number and with an
        `Expansion`; `sim.theory.expansion.decay` bears both.
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

"""Port arithmetic of folded Clos networks, against exact fractions and exhaustive search."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from sim.cluster.fabric import downlinks, fewest_switches, uplinks
from tests.cases import cases

RATIOS = [f"{tenths / 10}" for tenths in range(10, 81)]


@cases("ratio", RATIOS)
def test_uplinks_are_the_exact_quotient_rounded_up(ratio: str) -> None:
    """Binary fractions add no cable where the decimal quotient is whole."""
    for down in range(1, 577):
        assert uplinks(down, float(ratio)) == ceil(down / Fraction(ratio))


@cases("ratio", RATIOS)
def test_downlinks_are_the_most_that_fit(ratio: str) -> None:
    """One more link down would leave too few ports for the links up."""
    for radix in range(2, 130):
        down = downlinks(radix, float(ratio))
        assert down + ceil(down / Fraction(ratio)) <= radix
        assert down + 1 + ceil((down + 1) / Fraction(ratio)) > radix


def test_top_tier_uses_every_port() -> None:
    """A top switch has no links up."""
    assert downlinks(64, None) == 64


def test_switches_suffice_and_never_more_than_double() -> None:
    """The rule that favours even spreading stays within twice the plain quotient, prime uplinks included."""
    for each in range(1, 70):
        for links in range(each, 40 * each, each):
            switches = fewest_switches(links, each, 64)
            assert links <= switches * 64
            assert switches <= 2 * ceil(links / 64)

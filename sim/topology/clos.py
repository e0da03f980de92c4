"""Port arithmetic of folded Clos networks, shared by the kinds that have tiers of switches."""

from __future__ import annotations

from math import ceil, floor

__all__ = ["downlinks", "fewest_switches", "uplinks"]


def uplinks(down: int, oversubscription: float) -> int:
    """Return the links up [-] of a switch with `down` links down: the quotient, rounded up to whole cables."""
    # The small number keeps a whole quotient whole when the division is off in its last digit.
    return ceil(down / oversubscription - 1e-9)


def downlinks(radix: int, oversubscription: float | None) -> int:
    """Return the most links down [-] of a switch whose links up must fit too (None: top tier, no links up)."""
    if oversubscription is None:
        return radix
    return floor(radix * oversubscription / (1 + oversubscription) + 1e-9)


def fewest_switches(links: int, uplinks_each: int, ports: int) -> int:
    """Return how many switches of `ports` take `links` from lower switches of `uplinks_each`.

    Published designs give a lower switch as many links to one upper switch as to any other, so the number is the next
    divisor of `uplinks_each`. If that would more than double the switches (because `uplinks_each` is prime, say),
    it is the plain quotient and the links are spread as evenly as they go.

    The result may exceed `uplinks_each`; a lower switch then cannot reach every upper one, which is for the caller to
    judge.

    Examples
    --------
    Three scalable units of the DGX SuperPOD have 768 links from leaves of 32 uplinks; 12 spines of 64 ports would do.

    >>> fewest_switches(768, 32, 64)
    16
    """
    needed = ceil(links / ports)
    even = next((number for number in range(needed, uplinks_each + 1) if uplinks_each % number == 0), needed)
    return even if even <= 2 * needed else needed

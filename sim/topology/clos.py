"""Port arithmetic of folded Clos networks, shared by the kinds that have tiers of switches."""

from __future__ import annotations

from math import ceil, floor

__all__ = ["core_tier", "downlinks", "fewest_switches", "spine_tier", "uplinks"]


def uplinks(down: int, oversubscription: float) -> int:
    """Return the links up [-] of a switch with `down` links down: the quotient, rounded up to whole cables."""
    # The small number keeps a whole quotient whole when the division is off in its last digit.
    return max(ceil(down / oversubscription - 1e-9), 1)


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


def spine_tier(
    leaves: int, leaf_up: int, radix: int, above: float | None, switches: int | None, what: tuple[str, str]
) -> tuple[int, int]:
    """Return the spines that join leaf switches, and uplinks of each [-].

    Parameters
    ----------
    leaves, leaf_up
        Leaf switches of a pod (and plane), and uplinks of each [-].
    radix
        Ports of a spine at the speed of these links [-].
    above
        Links down over links up of a spine; None for the top tier.
    switches
        How many spines there shall be; None for the fewest.
    what
        What the leaf switches are counted by, and the key that makes them fewer; for the message.

    Raises
    ------
    ValueError
        If the ports do not suffice, or a leaf switch cannot reach every spine.
    """
    ports = downlinks(radix, above)
    if ports < 1:
        msg = f"spine radix {radix} leaves no port for a leaf switch"
        raise ValueError(msg)
    links = leaves * leaf_up
    spines = switches or fewest_switches(links, leaf_up, ports)
    down = ceil(links / spines)
    if spines > leaf_up or down > ports:
        msg = (
            f"spine radix {radix} is too small: {leaves} leaf switches per {what[0]} of {leaf_up} uplinks each on "
            f"{spines} spines need {down} links down of {ports} possible, and at most {leaf_up} spines: "
            f"lower {what[1]} or raise radix"
        )
        raise ValueError(msg)
    return spines, uplinks(down, above) if above else 0


def core_tier(pods: int, spines: int, spine_up: int, radix: int, switches: int | None) -> tuple[int, int]:
    """Return groups of spines that share cores, and the cores of each group [-].

    Fewer groups mean more paths between two spines, so the first number that can be cabled is taken. `switches` is how
    many cores there shall be in all; None for the fewest.

    Raises
    ------
    ValueError
        If no number of groups can be cabled.
    """
    for groups in (number for number in range(1, spines + 1) if radix and spines % number == 0):
        links = pods * (spines // groups) * spine_up
        if switches is None:
            cores = fewest_switches(links, spine_up, radix)
        elif switches % groups == 0:
            cores = switches // groups
        else:
            continue
        if cores <= spine_up and ceil(links / cores) <= radix:
            return groups, cores
    wanted = f"core.switches = {switches}" if switches else "any number of core switches"
    some = "pod" if pods == 1 else "pods"
    msg = (
        f"core radix {radix} is too small for {pods} {some} of {spines} spines of {spine_up} uplinks each with {wanted}"
    )
    raise ValueError(msg)

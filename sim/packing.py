"""Which nodes of a cluster a job takes so that it sits closely together."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["gather", "spread"]


def gather(waiting: Sequence[int], count: int, domain_of: Sequence[int]) -> list[int]:
    """Return `count` of the nodes that wait, in rising order, from as few domains as that takes.

    Of the domains that could hold all of them, the one with the fewest waiting nodes is taken (best fit: large gaps are
    kept for large jobs). Otherwise whole domains are taken, the fullest first, and the last part is a best fit again.

    Parameters
    ----------
    waiting
        Nodes that are free, at least `count`.
    count
        How many are needed [-].
    domain_of
        Domain of each node of the cluster.
    """
    left = Counter(domain_of[node] for node in waiting)
    chosen: set[int] = set()
    amount: dict[int, int] = {}
    needed = count
    while needed:
        enough = [(nodes, domain) for domain, nodes in left.items() if nodes >= needed]
        _, domain = min(enough) if enough else max((nodes, -domain) for domain, nodes in left.items())
        domain = domain if enough else -domain
        amount[domain] = min(left.pop(domain), needed)
        needed -= amount[domain]
        chosen.add(domain)
    taken = []
    for node in sorted(waiting):
        domain = domain_of[node]
        if amount.get(domain, 0):
            amount[domain] -= 1
            taken.append(node)
    return taken


def spread(nodes: Iterable[int], count: int, domain_of: Sequence[int]) -> list[int]:
    """Return `count` nodes in rising order, the last ones of each domain, as even a share of each as there is.

    Larger domains give more, by the method of largest remainders; of equal remainders the first domain gives.
    """
    members: dict[int, list[int]] = {}
    for node in nodes:
        members.setdefault(domain_of[node], []).append(node)
    total = sum(map(len, members.values()))
    quota = {domain: count * len(inside) / total for domain, inside in members.items()}
    shares = {domain: int(share) for domain, share in quota.items()}
    rest = count - sum(shares.values())
    for domain in sorted(quota, key=lambda each: (shares[each] - quota[each], each))[:rest]:
        shares[domain] += 1
    return sorted(node for domain, inside in members.items() for node in inside[len(inside) - shares[domain] :])

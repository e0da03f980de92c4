"""What scenarios that differ in a few values have in common: topologies and failures, worked out once."""

from __future__ import annotations

import hashlib
import pickle
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from sim.failures.effects import CRASH
from sim.prepare import complete
from sim.run import trace

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from sim.failures import FailureTrace, Source
    from sim.load import Template
    from sim.prepared import Prepared
    from sim.topology import ClusterSpec, Topology

__all__ = ["Shared"]

_CLUSTERS = 4
_TRACES = 128
"""Those used last that are kept; a trace of 12,500 nodes and 90 days takes about a megabyte."""

Item = TypeVar("Item")


class _Latest(Generic[Item]):
    """The values that were asked for last, by key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[Hashable, Item] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Item]) -> Item:
        """Return the value of a key, made if it is not there."""
        if key not in self._known:
            self._known[key] = make()
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]


class Shared:
    """Prepares scenarios and draws failures, and keeps what the next scenario may have in common with the last ones.

    What comes out is the same, to the last bit, as without.
    """

    def __init__(self) -> None:
        self._topologies: _Latest[Topology] = _Latest(_CLUSTERS)
        self._traces: _Latest[FailureTrace] = _Latest(_TRACES)
        self._last: tuple[Prepared, bytes] | None = None

    def prepare(self, template: Template, overrides: Iterable[str] = ()) -> Prepared:
        """Work out what all replications of a scenario share, as :func:`sim.prepare`; mistakes as :func:`sim.load`."""
        return complete(template.examined(overrides), self._topology)

    def trace(self, prepared: Prepared, replication: int) -> FailureTrace:
        """Return the failures of a replication, as :func:`sim.trace`."""
        if self._last is None or self._last[0] is not prepared:
            self._last = prepared, failures_digest(prepared)
        return self._traces.get((self._last[1], replication), lambda: trace(prepared, replication))

    def _topology(self, cluster: ClusterSpec) -> Topology:
        return self._topologies.get((cluster.model_dump_json(), _stamp(cluster)), cluster.build)


def _stamp(cluster: ClusterSpec) -> tuple[int, int] | None:
    """Return when the file of a fabric was changed, and how long it is; ``None`` without one."""
    file = getattr(cluster.fabric, "file", None)
    if file is None:
        return None
    try:
        found = Path(file).stat()
    except (OSError, ValueError):  # for those to say who read it
        return None
    return found.st_mtime_ns, found.st_size


def failures_digest(prepared: Prepared) -> bytes:
    """Return a digest of everything that the failures of a replication are drawn from."""
    told = (
        [_drawn_from(source, stationary=prepared.stationary) for source in prepared.sources],
        prepared.warmup + prepared.horizon,
        prepared.seed,
        prepared.stationary,
    )
    return hashlib.blake2b(pickle.dumps(told), digest_size=16).digest()


def _drawn_from(source: Source, *, stationary: bool) -> Source:
    """Return a source without what matters only once a failure is there: who notices it, what is done about it."""
    plain = replace(
        source,
        repair_from="",
        detection=None,
        noticing=None,
        away=None,
        store_out=None,
        residue=None,
        tier="",
        events=None,
    )
    return plain if stationary else replace(plain, repair=None, effect=CRASH)

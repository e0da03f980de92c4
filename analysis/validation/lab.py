"""The laboratory of the table: one seed, some cores, replications that rows share, and deliberate errors."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ettrick import sim
from ettrick.analysis.contest.runs import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ettrick.sim import Prepared, Result

_T = TypeVar("_T")


class MeasuredQuantity(NamedTuple):
    """Our value of a quantity.

    Parameters
    ----------
    error
        Standard error of the mean [unit of the row]; 0 for what is not random.
    replications
        Independent replications behind it; 0 for what is not random.
    expected
        What theory says, where the row leaves its value to be computed.
    """

    value: float
    error: float = 0.0
    replications: int = 0
    expected: float | None = None


def estimate(values: Iterable[float], expected: float | None = None) -> MeasuredQuantity:
    """Return mean and standard error of one value per independent replication."""
    array = np.fromiter(values, dtype=np.float64)
    error = float(array.std(ddof=1)) / float(np.sqrt(array.size)) if array.size > 1 else 0.0
    return MeasuredQuantity(float(array.mean()), error, array.size, expected)


class ScenarioRunner:
    """Runs scenarios for the measures of rows.

    Parameters
    ----------
    broken
        What changes every scenario before it is run, in a check that the table sees a defect; ``None`` for nothing.
    """

    def __init__(self, seed: int = 1, processes: int = 0, broken: Callable[[Prepared], Prepared] | None = None) -> None:
        self.seed = seed
        self.processes = processes
        self._broken = broken
        self._done: dict[tuple[Callable[..., Any], str, int], tuple[Any, ...]] = {}
        self._prepared: dict[str, Prepared] = {}

    def scenario(self, data: Mapping[str, Any]) -> Prepared:
        """Return a scenario written as plain data, prepared; with the seed of the laboratory, and broken if it is."""
        key = json.dumps(data, sort_keys=True)
        return self._made(key, lambda: sim.parse({**data, "seed": self.seed}))

    def shipped(self, name: str, changes: Iterable[str] = ()) -> Prepared:
        """Return a scenario that comes with the program, with changes ``a.b=c``, prepared."""
        changes = (*changes, f"seed={self.seed}")
        return self._made(json.dumps([name, *changes]), lambda: sim.load(sim.find(name), changes))

    def _made(self, key: str, scenario: Callable[[], sim.Scenario]) -> Prepared:
        if key not in self._prepared:
            prepared = sim.prepare(scenario())
            self._prepared[key] = prepared if self._broken is None else self._broken(prepared)
        return self._prepared[key]

    def each(self, function: Callable[[Prepared, int], _T], prepared: Prepared, replications: int) -> tuple[_T, ...]:
        """Return what a function makes of each of the first replications; what earlier rows asked is not run again."""
        key = next((key for key, earlier in self._prepared.items() if earlier is prepared), None)
        done = self._done.get((function, key, replications)) if key is not None else None
        if done is None:
            with contextlib.closing(in_order(function, prepared, range(replications), self.processes)) as source:
                done = tuple(source)
            if key is not None:
                self._done[function, key, replications] = done
        return done

    def results(self, prepared: Prepared, replications: int) -> tuple[Result, ...]:
        """Return the first replications of a scenario."""
        return self.each(sim.run, prepared, replications)

    def ettr(self, prepared: Prepared, replications: int) -> list[float]:
        """Return the productive share of the requested time of the first job, by replication [-]."""
        jobs = [result.jobs[0] for result in self.results(prepared, replications)]
        return [float(job.buckets[sim.Bucket.PRODUCTIVE]) / job.requested for job in jobs]


def seconds(value: float) -> str:
    """Return a time as text that is read back to the same number."""
    return f"{float(value)!r} s"


def bare(name: str, **changes: Any) -> dict[str, Any]:
    """Return plain data of a small cluster of one GPU a node, where nothing costs time that the changes do not name."""
    base: dict[str, Any] = {
        "name": name,
        "cluster": {"nodes": 4, "gpus_per_node": 1, "fabric": {"rails": 1}},
        "jobs": [{"name": f"{name} job", "gpus": 1}],
        "detection": {"time": "0 s"},
        "checkpoint": {"tiers": [{"interval": "1 h", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
        "recovery": {"use": "hot-spare", "initialize": "0 s"},
        "repair": {"time": "0 s"},
        "scheduler": {"use": "fifo"},
    }
    return base | changes

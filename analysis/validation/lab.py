"""Where rows are measured: one seed, some cores, replications that rows share, and what is broken on purpose."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

import sim
from analysis.runs import in_order
from analysis.validation.row import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sim import Prepared, Result


class Lab:
    """Runs scenarios for the measures of rows.

    Parameters
    ----------
    seed
        Of all scenarios.
    processes
        Worker processes at most; 0 for one per core. The numbers do not depend on it.
    broken
        What changes every scenario before it is run, in a check that the table sees a defect; ``None`` for nothing.
    """

    def __init__(self, seed: int = 1, processes: int = 0, broken: Callable[[Prepared], Prepared] | None = None) -> None:
        self.seed = seed
        self.processes = processes
        self._broken = broken
        self._done: dict[tuple[str, int], tuple[Result, ...]] = {}
        self._prepared: dict[str, Prepared] = {}

    def scenario(self, data: Mapping[str, Any]) -> Prepared:
        """Return a scenario written as plain data, prepared; with the seed of the laboratory, and broken if it is."""
        key = json.dumps(data, sort_keys=True)
        if key not in self._prepared:
            self._prepared[key] = self._made(sim.parse({**data, "seed": self.seed}))
        return self._prepared[key]

    def shipped(self, name: str, changes: Iterable[str] = ()) -> Prepared:
        """Return a scenario that comes with the program, with changes ``a.b=c``, prepared."""
        changes = (*changes, f"seed={self.seed}")
        key = json.dumps([name, *changes])
        if key not in self._prepared:
            self._prepared[key] = self._made(sim.load(sim.find(name), changes))
        return self._prepared[key]

    def results(self, prepared: Prepared, replications: int) -> tuple[Result, ...]:
        """Return the first replications of a scenario; those of earlier rows are not simulated again."""
        key = next((key for key, known in self._prepared.items() if known is prepared), None)
        done = self._done.get((key, replications)) if key is not None else None
        if done is None:
            with contextlib.closing(in_order(sim.run, prepared, range(replications), self.processes)) as source:
                done = tuple(source)
            if key is not None:
                self._done[key, replications] = done
        return done

    def _made(self, scenario: sim.Scenario) -> Prepared:
        prepared = sim.prepare(scenario)
        return prepared if self._broken is None else self._broken(prepared)


def estimate(values: Iterable[float], expected: float | None = None) -> Estimate:
    """Return mean and standard error of one value per independent replication."""
    array = np.fromiter(values, dtype=np.float64)
    error = float(array.std(ddof=1)) / float(np.sqrt(array.size)) if array.size > 1 else 0.0
    return Estimate(float(array.mean()), error, array.size, expected)

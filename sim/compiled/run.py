"""Runs replications by the compiled loop: compiles it, fills the arrays, and makes a result of what comes out."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import math
import os
import shutil
import sys
import tempfile
import threading
import warnings
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick.sim import cache, rng
from ettrick.sim.compiled import state
from ettrick.sim.compiled.lowering import VISITS, Lowered, uncovered
from ettrick.sim.engine.ledger import BUCKETS, check_sum
from ettrick.sim.engine.lives import FailureCounts
from ettrick.sim.engine.nodes import PLACES, NodeState
from ettrick.sim.engine.prepared import EngineError
from ettrick.sim.engine.result import JobResult, Outages, Result
from ettrick.sim.failures.trace import FailureTrace, draw_trace, first_onsets, hidden_at_start, with_notices
from ettrick.sim.policies.checkpoint import Periodic
from ettrick.sim.policies.contracts import Bucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ettrick.sim.engine.prepared import Prepared

    Column = NDArray[Any]
    Values = dict[str, Any]

_BYTES = sum(state.ARRAYS[name].itemsize * size.times for name, size in state.SIZES.items() if size.unit == "room")
"""The memory per event of the arrays that grow with the events [B]."""

_ALL_COUNTS = (*sorted(FailureCounts.__slots__), "hidden_at_end", "tainted_at_end", "unnoticed_at_end")

_COUNTS = [name for name in _ALL_COUNTS if name in state.Scalars.__annotations__]

_OUTCOME = [
    *_COUNTS, "window", "edges", "events", "down_node_seconds", "end_of_job", "arrival",
    "committed", "at_risk", "counts_steps", "running_seconds", "node_seconds", "excess", "start", "is_finished",
    "given_up", "cause", "merged",
]  # fmt: skip
"""The scalars that say what came out."""

_TABLES = (
    "table", "others_table", "absent", "edge", "down_time", "repairs_begun", "interrupted", "disrupted", "latencies",
    "restored",
)  # fmt: skip
"""The arrays that say it."""


# ----------------------------------------
# Whether the compiled loop is there, and worth its start.

_EVENT = 2e-5
"""The cost of an event in the event engine, about [s]."""

_MOST_STATE = 2e9
"""Size of the arrays of one scenario [bytes]; each process has its own."""

_LOAD, _COMPILE = 0.7, 15.0
"""The time to load the machine code, and to make it once [s]."""


def why_events(prepared: Prepared, replications: int) -> str:
    """Return why events are to simulate so many replications; nothing where the compiled loop does."""
    if prepared.engine == "events":
        return prepared.engine_reason or "engine: events"
    if importlib.util.find_spec("numba") is None:
        return "numba is not installed: pip install 'ettrick[speed]'"
    missing = uncovered(prepared)
    size = _size(prepared)
    if not missing and size > _MOST_STATE:
        missing = f"its arrays would take {size / 1e9:.1f} GB of memory, and {_MOST_STATE / 1e9:g} GB are allowed"
    if missing or prepared.engine == "compiled":
        return missing
    saved = prepared.expected_events * replications * _EVENT
    if saved < _LOAD or not (is_cached() or saved > 2 * _COMPILE):
        return "the run is too short to repay loading compiled code"
    return ""


def refuse(reason: str) -> None:
    """Refuse a scenario that insists on machine code, if there is a reason."""
    if reason:
        raise EngineError(f"engine: compiled cannot simulate this scenario ({reason}); use engine: auto")


def _size(prepared: Prepared) -> float:
    """Return about how large the arrays of a scenario are [bytes]."""
    windows = prepared.horizon / prepared.windows if prepared.windows else 1.0
    tables = 2 * 8 * BUCKETS * (len(prepared.sources) + 1) * windows
    pools = prepared.nodes * 8 * PLACES
    return _room(prepared) * _BYTES + prepared.nodes * state.ARRAYS["nodes"].itemsize + pools + tables


def _room(prepared: Prepared) -> int:
    """Return for how many events, and entries in each list, there is room at first."""
    return int(prepared.expected_events) + 1000 + 2 * prepared.nodes


def is_cached() -> bool:
    """Return whether the machine code of this version is available, in this process or in a folder that is of use."""
    if "ettrick.sim.compiled.machine" in sys.modules:
        return True
    return os.access(cache_folder(), os.W_OK) and any(cache_folder().glob("*/*.nbi"))


def cache_folder() -> Path:
    """Return where machine code of this version of the loop is kept: one folder for each state of its source."""
    return cache.cache_folder() / f"compiled-{_digest()}"


@functools.cache
def _digest() -> str:
    """Return a digest of all that is compiled: the cache of numba itself sees no change of what a function calls."""
    folder = Path(state.__file__).parents[1]
    files = ["quantiles.py", "rng.py", "engine/kernel.py", "engine/lives.py", "engine/silent.py", "failures/trace.py"]
    files += ["policies/contracts.py", "policies/recovery/phases.py", "policies/recovery/ladder.py"]
    files += [f"policies/checkpoint/{name}.py" for name in ("ladder", "periodic", "stores")]
    files += [f"compiled/{name}.py" for name in ("state", "nodes", "repairs", "ladders", "jobs", "loop", "machine")]
    # The files of an interpreter, of another version of numba and of other sources are none of each other's business.
    versions = f"{folder} {sys.implementation.cache_tag} {metadata.version('numba')}"
    return hashlib.blake2b(f"{versions} {cache.files_digest(folder, files)}".encode(), digest_size=8).hexdigest()


@functools.cache
def machine_code(
    progress: Callable[[int, int | None], None] | None = None,
) -> tuple[Callable[[int], None], Callable[[int], None]]:
    """Return the compiled loop and what resets its arrays; both get the address of the scalars.

    Code that cannot be kept is made again; code that cannot be read is thrown away. `progress` is called with how many
    functions are compiled, and their number.

    Raises
    ------
    ImportError
        If numba is not installed.
    """
    folder, again = cache_folder(), f"the simulation loop is compiled again, some {_COMPILE:.0f} s"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_writable = os.access(folder, os.W_OK)
    except OSError:
        is_writable = False
    if not is_writable:
        warnings.warn(f"{folder} cannot be written to: {again}", stacklevel=2)
        # For the processes that this one starts, too.
        os.environ["XDG_CACHE_HOME"] = _scratch().name
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
    elif not is_cached():
        warnings.warn(f"the simulation loop is compiled, once for each version: some {_COMPILE:.0f} s", stacklevel=2)
    # By name too: numba has read its settings if somebody else has imported it.
    os.environ["NUMBA_CACHE_DIR"] = importlib.import_module("numba").config.CACHE_DIR = str(folder)
    machine = importlib.import_module("ettrick.sim.compiled.machine")
    try:
        machine.prepare(progress)
    except Exception as error:  # whatever a damaged file makes numba say
        warnings.warn(f"{folder} cannot be read ({type(error).__name__}): {again}", stacklevel=2)
        shutil.rmtree(folder, ignore_errors=True)
        machine.prepare(progress)
    return machine.simulate_at, machine.reset_at


@functools.cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """Return a folder that is there as long as this process."""
    return tempfile.TemporaryDirectory(prefix="ettrick-")


# ----------------------------------------
# Replications of one scenario.

_COLUMNS = ("time", "source", "slot", "round", "until")
"""The columns of a failure that is drawn."""

_MOST_KEPT = 5e8
"""Size of the arrays that are kept for the next replication [bytes]."""

_of_thread = threading.local()
"""Keeps the workspaces that a thread made last, the newest first: variants of a comparison take turns."""


class TooLargeError(MemoryError):
    """A replication needs larger arrays than are allowed."""


def workspace(prepared: Prepared) -> Workspace:
    """Return the arrays in which this thread simulates a scenario that is covered; those of the last ones are kept."""
    benches: list[Workspace] = _of_thread.__dict__.setdefault("benches", [])
    bench = next((bench for bench in benches if bench.prepared is prepared), None)
    if bench is None:
        refuse(uncovered(prepared))
        bench = Workspace(prepared)
        while benches and sum(workspace.size for workspace in benches) + bench.size > _MOST_KEPT:
            del benches[-1]
        benches.insert(0, bench)
    return bench


def drop_workspaces() -> None:
    """Drop what this thread keeps of scenarios that do not come again: memory that was just used is the fastest."""
    _of_thread.__dict__.pop("benches", None)


class Workspace:
    """The arrays in which replications of one scenario run one after another."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        self.visits = VISITS
        self.scale = 1
        self.run_code, self.reset_code = machine_code()
        self._lay_out()

    def run(
        self,
        replication: int,
        trace: FailureTrace | None = None,
        *,
        keeps_log: bool = False,
        keeps_events: bool = False,
    ) -> Result:
        """Simulate one replication.

        Without a `trace` its failures are drawn. With `keeps_events` the array ``logged`` has the events in order.
        """
        self._simulate(replication, trace, keeps_log=keeps_log, keeps_events=keeps_events)
        values = dict(zip(_OUTCOME, self.outcome[0].tolist(), strict=True))
        result = self._result(replication, values, {name: self.arrays[name].copy() for name in _TABLES})
        return replace(result, outages=self._outages()) if keeps_log else result

    def block(self, replications: range) -> Result:
        """Simulate replications one after another; return their results as columns."""
        count = len(replications)
        scalars = np.empty(count, self.scalars.dtype)
        tables = {name: np.empty((count, len(self.arrays[name])), self.arrays[name].dtype) for name in _TABLES}
        rows = scalars.view(np.uint8).reshape(count, -1)
        for place, replication in enumerate(replications):
            self._simulate(replication, None)
            rows[place] = self.scalars.view(np.uint8)
            for name, table in tables.items():
                table[place] = self.arrays[name]
        return self._result(replications.start, {name: scalars[name].copy() for name in _OUTCOME}, tables)

    def _simulate(
        self, replication: int, trace: FailureTrace | None, *, keeps_log: bool = False, keeps_events: bool = False
    ) -> None:
        """Simulate one replication; where an array is too small, again with larger ones."""
        while True:
            self.lowered.scalars["downtimes_room"] = self.lowered.scalars["log_room"] = 0
            if keeps_log:
                self._log("downtime", _room(self.prepared) * self.scale, "downtimes_room")
            if keeps_events:
                self._log("logged", 1_000_000, "log_room")
            try:
                self._reset(replication, trace)
                self.run_code(self.address)
            except state.FullError:
                self._grow()
            else:
                return

    def _grow(self) -> None:
        """Make the arrays larger."""
        if 4 * self.size > _MOST_STATE:
            raise TooLargeError(f"'{self.prepared.name}' needs more than {self.size / 1e9:.1f} GB")
        self.scale *= 4
        self.visits *= 2
        self._lay_out()

    def _lay_out(self) -> None:
        """Make the arrays."""
        self.lowered = lowered = Lowered(self.prepared, self.visits)
        self.arrays = self._empty_arrays()
        self.own: dict[str, Column] = {}
        self.places = np.array([source * lowered.purposes + purpose for source, purpose in lowered.needs], np.int64)
        sources = enumerate(self.prepared.sources)
        self.hidden = [(index, source) for index, source in sources if source.hidden is not None]
        self.size = sum(array.nbytes for array in self.arrays.values())
        rooms = [name for name in state.Scalars.__annotations__ if name.endswith("room")]
        lowered.scalars[rooms] = _room(self.prepared) * self.scale
        lowered.scalars["visits_room"] = len(self.arrays["visits"])
        self._gather()
        self.outcome = self.scalars[_OUTCOME]
        self.address = self.scalars.ctypes.data
        for name, array in self.arrays.items():
            lowered.scalars[f"{name}_at"] = array.ctypes.data

    def _gather(self) -> None:
        """Put the arrays that a copy restores into one record, next to what it is at the start."""
        lowered, arrays = self.lowered, self.arrays
        restored = {name: arrays[name] for name, size in state.SIZES.items() if size.is_restored}
        parts = {"scalars": lowered.scalars, **restored}
        record = np.dtype([(name, part.dtype, part.shape) for name, part in parts.items()], align=True)
        start, copy = np.zeros(1, record), np.empty(1, record)
        for name in parts:
            if name in lowered.arrays:
                start[name] = lowered.arrays[name]
        start["scalars"] = lowered.scalars
        start["clocks"]["at"], start["clocks"]["since"] = math.inf, lowered.scalars["arrival"]
        start["edge"][0, 0] = self.prepared.warmup
        start["phase"][0, 0] = (Bucket.QUEUED, math.inf, -1)
        lowered.scalars, self.scalars = start["scalars"][0], copy["scalars"][0]
        arrays |= {name: copy[name][0] for name in restored}
        # As bytes: field by field, numpy would take ten times as long.
        self.start, self.restored = start.view(np.uint8), copy.view(np.uint8)

    def _empty_arrays(self) -> dict[str, Column]:
        """Return the arrays that are there from the start: those of the scenario that are shared, and new ones."""
        lowered, prepared, templates = self.lowered, self.prepared, self.lowered.arrays
        causes = lowered.sources + 1
        windows = int(prepared.horizon // prepared.windows) + 2 if prepared.windows else 1
        units = {
            "room": _room(prepared) * self.scale,
            "nodes": prepared.nodes,
            "job": lowered.job.nodes,
            "causes": causes,
            "keys": causes * lowered.purposes,
            "steps": lowered.most_steps,
            "stops": len(templates["periods"]),
            "stores": len(templates["shelves"]),
            "rungs": len(templates["rung_of"]),
            "windows": windows,
            "table": windows * BUCKETS * causes,
            "buckets": BUCKETS,
            "block": state.BLOCK,
            "clocks": 3,
        }
        arrays: dict[str, Column] = {}
        for name, size in state.SIZES.items():
            if size is state.SHARED:
                arrays[name] = templates[name]
            else:
                length = len(templates[name]) if size is state.COPIED else units[size.unit] * size.times + size.extra
                arrays[name] = np.empty(length, state.ARRAYS[name])
        return arrays

    def _log(self, name: str, length: int, room: str) -> None:
        """Let an array be there to be written into."""
        array = self.arrays.get(name)
        if array is None or len(array) < length:
            self.arrays[name] = array = np.empty(length, state.ARRAYS[name])
        self.lowered.scalars[f"{name}_at"], self.lowered.scalars[room] = array.ctypes.data, length

    def _reset(self, replication: int, trace: FailureTrace | None) -> None:
        """Put the arrays back to the start of a replication."""
        lowered, arrays, prepared, scalars = self.lowered, self.arrays, self.prepared, self.scalars[0]
        self.restored[:] = self.start
        arrays["keys"].view(np.uint64)[self.places] = rng.streams(prepared.seed, replication, lowered.needs.values())
        if prepared.scheduler.pick == "random":
            scalars["pick_key"] = np.uint64(rng.stream(prepared.seed, replication, "pick")).astype(np.int64)
        if self.hidden:
            self._fill_hidden(replication)
        if trace is None and lowered.draws:
            scalars["draws"] = True
        else:
            columns = self._columns(replication, trace)
            rows = np.empty(len(columns[0]), state.ARRAYS["trace"])
            for name, column in zip(_COLUMNS, columns, strict=True):
                rows[name] = column
            scalars["rows"] = self._put("trace", rows)
            self._put("trace_order", np.arange(len(rows)))
        self.reset_code(self.address)

    def _columns(self, replication: int, trace: FailureTrace | None) -> list[Column]:
        """Return the failures of a trace, or of one that is drawn, and write down who is in repair at the start."""
        prepared, scalars = self.prepared, self.scalars[0]
        if trace is None:
            end = float(scalars["end"])
            trace = draw_trace(prepared.sources, end, prepared.seed, replication, stationary=prepared.stationary)
        trace = with_notices(trace, prepared.sources, [self.lowered.job.checkpoint.save_time()])
        if trace.initial:
            outages = [(outage.source, outage.slot, 0, outage.remaining, 0, 0) for outage in trace.initial]
            scalars["outages"] = self._put("initial", np.array(outages, state.ARRAYS["initial"]))
        return [getattr(trace, name) for name in _COLUMNS]

    def _fill_hidden(self, replication: int) -> None:
        """Write down which nodes have a hidden fault at the start, and when others get one."""
        lowered, prepared, scalars = self.lowered, self.prepared, self.scalars[0]
        faults: list[Column] = []
        sleepers: list[tuple[int, int, int, float, int, int]] = []
        onsets: list[tuple[int, int, int, float, int, int]] = []
        for index, source in self.hidden:
            lowered.origins["first_having"][index] = sum(map(len, faults))
            faults.append(hidden_at_start(source, prepared.seed, replication))
            sleepers += [(index, node, 0, 0.0, 0, 0) for node in np.flatnonzero(faults[-1]).tolist()]
            if lowered.origins["onset"][index] >= 0:
                key = rng.stream(prepared.seed, replication, "onset", source.name)
                lowered.origins["onset_key"][index] = np.uint64(key).astype(np.int64)
                times = first_onsets(source, key, float(scalars["end"]))
                onsets += [(index, node, 0, time, 0, 0) for node, time in times]
        self._put("having", np.concatenate(faults).astype(np.int64))
        scalars["dormant"] = self._put("sleeper", np.array(sleepers, state.ARRAYS["sleeper"]))
        scalars["onsets"] = self._put("caught", np.array(onsets, state.ARRAYS["caught"]))

    def _put(self, name: str, values: Column) -> int:
        """Let an array be that of this replication; return its length."""
        self.own[name] = array = np.ascontiguousarray(values)
        self.scalars[0][f"{name}_at"] = array.ctypes.data
        return len(array)

    def _result(self, replication: int, values: Values, tables: dict[str, Column]) -> Result:
        """Return what came out: of one replication, or of a block of them with columns as values."""
        prepared = self.prepared
        windows, edges = int(np.max(values["window"])) + 1, int(np.max(values["edges"]))
        assert np.all(values["edges"] == edges)
        shape = windows, BUCKETS, self.lowered.sources + 1
        totals, outside = (_reshaped(tables[name], shape) for name in ("table", "others_table"))
        warmup, end = prepared.warmup, tables["edge"].T[edges - 1]
        job = self._job_result(values, tables, totals, end)
        owned = prepared.nodes * prepared.gpus_per_node * (end - warmup)
        of_job = np.zeros(BUCKETS) + (totals.sum(axis=(-3, -1)) - tables["absent"])
        check_sum(outside.sum(axis=(-3, -2, -1)), owned - of_job.sum(axis=-1), "the cluster", owned)
        nothing = 0 * values["merged"]
        down = tables["down_time"]
        reached = np.flatnonzero(~np.isnan(np.fmax.reduce(down, axis=0) if down.ndim > 1 else down))
        return Result(
            replication=replication,
            edges=tables["edge"][..., :edges] - warmup,
            owned=owned,
            capacity=owned * prepared.capacity,
            jobs=(job,),
            cluster=of_job + outside.sum(axis=(-3, -1)),
            outside=outside,
            node_seconds=prepared.serving * (end - warmup),
            down_node_seconds=values["down_node_seconds"],
            counts={name: values.get(name, nothing) for name in _ALL_COUNTS},
            repairs=_by_cause(tables["repairs_begun"]),
            down_times=dict(zip(reached.tolist(), np.nan_to_num(down[..., reached]).T, strict=True)),
            events=values["events"],
        )

    def _job_result(self, values: Values, tables: dict[str, Column], totals: Column, end: float) -> JobResult:
        """Return what came out for the job; `totals` are its GPU-seconds by window, bucket and cause."""
        job, warmup = self.lowered.job, self.prepared.warmup
        stop = np.fmin(values["end_of_job"], end)  # it is NaN if the end came first
        requested = job.gpus * np.maximum(stop - values["arrival"], 0.0)
        check_sum(totals.sum(axis=(-3, -2, -1)), requested, f"job '{job.name}'")
        work = values["committed"] + values["at_risk"]
        steps = 0.0
        if job.step_time > 0:
            steps = np.where(values["counts_steps"], work * (1.0 / job.step_time), work / job.step_time)[()]
        return JobResult(
            name=job.name,
            gpus=job.gpus,
            requested=requested,
            totals=totals,
            work=work,
            at_risk=values["at_risk"],
            running=values["running_seconds"],
            node_seconds=values["node_seconds"],
            latencies=_by_cause(tables["disrupted"], tables["latencies"]),
            excess=values["excess"],
            arrival=values["arrival"] - warmup,
            start=values["start"] - warmup,
            end=stop - warmup,
            finished=values["is_finished"],
            # False is below true: unfinished, and there is an amount of work to finish.
            censored=values["is_finished"] < (job.target < math.inf),
            interruptions=_by_cause(tables["interrupted"]),
            disruptions=_by_cause(tables["disrupted"]),
            merged=values["merged"],
            steps=steps,
            restores=self._restores(tables["restored"]),
            accepted=0,
            given_up=values["given_up"] - warmup,
            given_up_for=values["cause"] * (values["given_up"] < math.inf),
        )

    def _outages(self) -> Outages:
        """Return when nodes were down, times after the warm-up; those that are down at the end until then."""
        nodes, end = self.arrays["nodes"], self.arrays["edge"][self.scalars["edges"][0] - 1]
        still = np.flatnonzero(nodes["outages"] * (nodes["place"] != NodeState.WITHHELD))
        rows = np.empty(int(self.scalars["downtimes"][0]) + len(still), state.ARRAYS["downtime"])
        rows[: len(rows) - len(still)] = self.arrays["downtime"][: len(rows) - len(still)]
        last = rows[len(rows) - len(still) :]
        last["node"], last["cause"] = still, nodes["down_cause"][still]
        last["start"], last["end"] = nodes["down_since"][still], end
        shift = self.prepared.warmup
        rows = rows[np.lexsort((rows["node"], rows["start"]))]
        rows = rows[rows["end"] >= shift]
        for name in ("start", "end"):
            rows[name] -= shift
        return Outages(rows)

    def _restores(self, counts: Column) -> dict[str, int]:
        """Return how often the job has read each store."""
        checkpoint = self.lowered.job.checkpoint
        names = ["remote"] if isinstance(checkpoint, Periodic) else [store.store for store in checkpoint.stores]
        stores = [*names, "peer"]
        return {stores[place]: count for place, count in _by_cause(counts).items()}


def _reshaped(table: Column, shape: tuple[int, ...]) -> Column:
    """Return the first numbers of a table, or of each row of one, in a shape."""
    return table[..., : math.prod(shape)].reshape(*table.shape[:-1], *shape)


def _by_cause(counts: Column, values: Column | None = None) -> dict[int, Any]:
    """Return counts by their place, or other values, without places of which nothing was counted."""
    places = np.flatnonzero(counts.reshape(-1, counts.shape[-1]).any(axis=0))
    columns = np.where(counts, counts if values is None else values, 0).T[places]
    return dict(zip(places.tolist(), columns if columns.ndim > 1 else columns.tolist(), strict=True))

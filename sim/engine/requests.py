"""A replica request by request: admission, chunked prefill, decoding, eviction; times to first token and per token.

Reading and decoding take the times of :mod:`ettrick.sim.steps.serving`; :mod:`ettrick.sim.engine.iterations` has the
loop.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from dataclasses import dataclass, replace
from importlib import metadata
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.sim.cache import cache_folder, keep, simulator_digest
from ettrick.sim.engine import native
from ettrick.sim.engine.iterations import ReplayColumns, ReplayState, serve
from ettrick.sim.steps.serving import cache_room, decode, least_prefill, prefill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from ettrick.sim.steps.serving import Replica


_TWO_SIDED = 1.96
"""Standard deviations beyond which lie 5 % of a normal law [-]."""

_BATCHES = 20
"""Batches of a replay whose means are taken for independent."""

_OF_BATCHES = 2.0930
"""The same as `_TWO_SIDED` of Student's law with 19 degrees of freedom [-]."""


class Request(NamedTuple):
    """A request: its arrival [s], tokens of its prompt and of its answer [-]."""

    arrival: float
    input: int
    output: int


class RequestTable(NamedTuple):
    """Requests in the order of their arrival, as columns; arrays of shape (requests,).

    Parameters
    ----------
    arrival
        As in the requests [s].
    input, output
        As in the requests [-].
    """

    arrival: NDArray[np.float64]
    input: NDArray[np.int64]
    output: NDArray[np.int64]

    @classmethod
    def of(cls, requests: Iterable[Request]) -> RequestTable:
        """Return requests as columns."""
        arrival, prompt, answer = tuple(zip(*requests, strict=True)) or ((), (), ())
        return cls(np.array(arrival, np.float64), np.array(prompt, np.int64), np.array(answer, np.int64))

    @property
    def prompts(self) -> RequestTable:
        """The same as replicas see them that only read prompts: with answers of one token."""
        return self._replace(output=np.ones_like(self.output))


@dataclass(frozen=True)
class Served:
    """The outcomes of requests, in the order of their arrival; arrays of shape (requests,).

    Parameters
    ----------
    first, last
        Times of the first and the last token [s].
    arrival, output
        As in the requests.
    evictions
        How often a sequence lost its keys and values for want of room, and was computed again [-].
    busy
        Time in which there was an iteration [s].
    sequence_seconds
        Integral of the number of sequences that are decoded [s].
    """

    arrival: NDArray[np.float64]
    output: NDArray[np.float64]
    first: NDArray[np.float64]
    last: NDArray[np.float64]
    evictions: int
    busy: float
    sequence_seconds: float

    @property
    def ttft(self) -> NDArray[np.float64]:
        """Time to the first token [s]."""
        return self.first - self.arrival

    @property
    def tpot(self) -> NDArray[np.float64]:
        """A request's own mean time per token after the first [s]; 0 where there is one token."""
        times: NDArray[np.float64] = (self.last - self.first) / np.maximum(self.output - 1, 1)
        return times

    def attainment(self, ttft: float, tpot: float) -> float:
        """Return the share of requests whose TTFT and own mean TPOT are within the limits [-]."""
        return float(np.mean(self.within(ttft, tpot)))

    def within(self, ttft: float, tpot: float) -> NDArray[np.bool_]:
        """Return which requests have TTFT and own mean TPOT within the limits."""
        in_slo: NDArray[np.bool_] = (self.ttft <= ttft) & (self.tpot <= tpot)
        return in_slo

    def doubt(self, ttft: float, tpot: float) -> float:
        """Return the half-width of the 95 % interval of :meth:`attainment` [-].

        That of the means of `_BATCHES` batches, because requests that miss the limits come together, and never less
        than Wilson's of independent requests: where none of n missed, as many as z² / (n + z²) may.

        References
        ----------
        A. M. Law, "Simulation Modeling and Analysis", 5th ed. (2015), section 9.5.3 (batch means); E. B. Wilson,
        Journal of the American Statistical Association 22 (1927), 209.
        """
        within = self.within(ttft, tpot)
        count, share, square = len(within), float(np.mean(within)), _TWO_SIDED**2
        least = _TWO_SIDED * math.sqrt(share * (1 - share) * count + square / 4) / (count + square)
        if count < 2 * _BATCHES:
            return least
        means = np.array([np.mean(batch) for batch in np.array_split(within, _BATCHES)])
        return max(least, _OF_BATCHES * float(means.std(ddof=1)) / math.sqrt(_BATCHES))


class RequestError(ValueError):
    """A request that no replica of this kind can serve."""


def replay(replica: Replica, requests: RequestTable | Iterable[Request], longest: int = 0, hit: float = 0.0) -> Served:
    """Serve requests first come, first served by one replica.

    Parameters
    ----------
    requests
        In order of arrival.
    longest
        Tokens of the longest answer, for engines that reserve room; a request's own answer counts where it is longer.
    hit
        Share of each prompt that a prefix cache holds [-].

    Raises
    ------
    RequestError
        If arrivals are not in order, a request has no token, or one alone exceeds the room for keys and values.
    """
    table = requests if isinstance(requests, RequestTable) else RequestTable.of(requests)
    state, need = _state(replica, table, longest, hit)
    count, most = state.count, min(state.seats, state.count)
    floats = np.full((_FLOATS, max(count, most) + 1), np.nan)
    floats[0, : count + 1] = [*table.arrival, math.inf]
    floats[_FLOATS - 1, 0] = 0.0
    ints = np.zeros((len(ReplayColumns._fields) - _FLOATS, floats.shape[1]), np.int64)
    ints[:3, :count] = need, table.input, table.output
    captured = replace(replica, engine=replace(replica.engine, is_eager=False))
    state, first, last = _serve(captured, state, floats, ints)
    return Served(
        table.arrival,
        table.output.astype(np.float64),
        first[:count],
        np.maximum(first, last)[:count],  # of one token the last is the first, which later stages still make
        state.evictions,
        state.busy,
        state.sequence_seconds,
    )


_FLOATS = ReplayColumns._fields.index("need")
"""Columns of a replay that are no integers; the last one is that of empty steps [-]."""

_MANY = 5000
"""Requests for which machine code is worth its start [-]."""


def _serve(
    replica: Replica, state: ReplayState, floats: NDArray[np.float64], ints: NDArray[np.int64]
) -> tuple[ReplayState, NDArray[np.float64], NDArray[np.float64]]:
    """Return the state after all requests, and their first and last tokens [s]; by machine code where available."""

    def empty(batch: int) -> float:
        return float(decode(replica, float(batch), 0.0).total)

    code = native.machine_code() if state.count >= _MANY else None
    if code is None:
        columns = ReplayColumns(*floats.tolist(), *ints.tolist())._replace(end=[])
        serve(state, columns)
        while math.isnan(columns.empty[state.batch]):
            columns.empty[state.batch] = empty(state.batch)
            serve(state, columns)
        return state, np.array(columns.first), np.array(columns.last)
    record = native.record_of(state)
    code(record, floats, ints)
    while math.isnan(floats[-1, record["batch"][0]]):
        floats[-1, record["batch"][0]] = empty(record["batch"][0])
        code(record, floats, ints)
    return ReplayState(*record[0].item()), floats[1], floats[2]


def room_and_needs(replica: Replica, requests: RequestTable, longest: int) -> tuple[float, NDArray[np.int64]]:
    """Return the tokens of context that fit, and those that each request needs before it ends, or reserves [-].

    Raises
    ------
    RequestError
        If arrivals are not in order, a request has no token, or one alone exceeds the room for keys and values.
    """
    token_bytes = float(replica.cache_bytes(1.0))
    room = replica.data * cache_room(replica) / token_bytes if token_bytes else math.inf
    least = longest if replica.engine.admission == "reserve" else 0
    arrival, prompt, answer = requests
    needs = prompt + np.maximum(answer, least)
    is_early = np.append(False, arrival[1:] < arrival[:-1])
    is_empty = (prompt < 1) | (answer < 1)
    for row in np.flatnonzero(is_early | is_empty | (needs > room))[:1]:
        if is_early[row]:
            message = f"request {row + 1} arrives at {arrival[row]} s, before the one above it: sort them by time"
            raise RequestError(message)
        if is_empty[row]:
            raise RequestError(f"request {row + 1} has no token to read, or none to make")
        raise RequestError(f"request {row + 1} needs room for {needs[row]:,} tokens; there is {room:,.0f}")
    return room, needs


def _state(replica: Replica, requests: RequestTable, longest: int, hit: float) -> tuple[ReplayState, NDArray[np.int64]]:
    """Return the state before the first request, and the tokens that each needs before it ends, or reserves [-]."""
    engine, shape = replica.engine, replica.shape
    captured = replace(replica, engine=replace(engine, is_eager=False))
    room, need = room_and_needs(replica, requests, longest)
    many = float(replica.pipeline)  # so that no stage waits
    step = float(decode(captured, many, 1e6).total - decode(captured, many, 0.0).total)
    small, large = float(prefill(replica, 1000.0, hit)), float(prefill(replica, 2000.0, hit))
    square = (large - 2 * small) / 2e6
    floor, host = 0.0, 0.0
    if engine.is_eager:
        floor = float(decode(replica, 0.0, 0.0).total)
        host = float(decode(replica, 1.0, 0.0).host) / replica.pipeline
    state = ReplayState(
        count=len(requests.arrival),
        chunk=engine.chunk * replica.data,
        seats=engine.sequences * replica.data,
        reserves=engine.admission == "reserve",
        data=replica.data,
        pipeline=replica.pipeline,
        room=room,
        per_token=step / (many * float(shape.attended(1e6))),
        is_bent=bool(shape.windowed or shape.recurrent),
        layers=float(shape.layers),
        full=float(shape.layers - shape.windowed - shape.recurrent),
        windowed=float(shape.windowed),
        window=float(shape.window),
        linear=small / 1000 - 1000 * square,
        square=square,
        least=least_prefill(replica),
        floor=floor,
        host=host,
    )
    return state, need


# Replays depend on the service alone: their outcome stays on the disk.

_REPAYS = 2
"""Services with replays on the disk at least: for as long as those of three take, machine code is made [-]."""

_Point = tuple[float, float, float]


def cached_curve(content: bytes, loads: Sequence[float], make: Callable[[], Iterable[_Point]]) -> tuple[_Point, ...]:
    """Return the load, attainment and doubt of replays from the user's cache; where it has none, make and keep them.

    Parameters
    ----------
    content
        The inputs of the replays, of which, with the code, the digest is made.
    loads
        The loads of the curve.
    make
        The replays, of some seconds.
    """
    folder = cache_folder() / "replays"
    made_by = f"{simulator_digest()} {np.__version__} {metadata.version('scipy')}"
    file = folder / f"{hashlib.blake2b(content + made_by.encode(), digest_size=16).hexdigest()}.json"
    with contextlib.suppress(OSError, ValueError, TypeError):
        curve = tuple((float(load), float(share), float(doubt)) for load, share, doubt in json.loads(file.read_bytes()))
        if tuple(load for load, *_ in curve) == tuple(loads):
            return curve
    if len(list(folder.glob("*.json"))) >= _REPAYS:
        native.make()
    curve = tuple(make())
    keep(file, json.dumps(curve).encode())
    return curve

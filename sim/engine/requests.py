"""A replica request by request: admission, chunked prefill, decoding, eviction; times to first token and per token.

An iteration reads up to `chunk` tokens of prompts and makes one token for every sequence that is being decoded; both
take the times of :mod:`ettrick.sim.steps.serving`. While no prompt waits, nothing is decided until a sequence ends, a
request arrives or room runs out, and the iterations until then are one sum: the time of a step is affine in the tokens
of context, which grow by the same number in each.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections import deque
from dataclasses import dataclass, replace
from functools import cache
from heapq import heappop, heappush
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

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


def replay(replica: Replica, requests: Iterable[Request], longest: int = 0, hit: float = 0.0) -> Served:
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
    loop = _Eager if replica.engine.is_eager else _Loop
    return loop(replica, list(requests), longest, hit).run()


def room_and_needs(replica: Replica, requests: Sequence[Request], longest: int) -> tuple[float, list[int]]:
    """Return the tokens of context that fit, and those that each request needs before it ends, or reserves [-].

    Raises
    ------
    RequestError
        If arrivals are not in order, a request has no token, or one alone exceeds the room for keys and values.
    """
    token_bytes = float(replica.cache_bytes(1.0))
    room = replica.data * cache_room(replica) / token_bytes if token_bytes else math.inf
    least = longest if replica.engine.admission == "reserve" else 0
    needs = [request.input + max(least, request.output) for request in requests]
    before = -math.inf
    for index, request in enumerate(requests):
        if request.arrival < before:
            message = f"request {index + 1} arrives at {request.arrival} s, before the one above it: sort them by time"
            raise RequestError(message)
        before = request.arrival
        if request.input < 1 or request.output < 1:
            raise RequestError(f"request {index + 1} has no token to read, or none to make")
        if needs[index] > room:
            raise RequestError(f"request {index + 1} needs room for {needs[index]:,} tokens; there is {room:,.0f}")
    return room, needs


class _Loop:
    """State between two iterations."""

    def __init__(self, replica: Replica, requests: list[Request], longest: int, hit: float = 0.0) -> None:
        self.requests = requests
        engine, data = replica.engine, replica.data
        self.chunk = engine.chunk * data
        self.seats = engine.sequences * data
        self.reserves = engine.admission == "reserve"
        self.room, self.needs = room_and_needs(replica, requests, longest)
        """Tokens of context that fit, and those that each request needs before it ends, or reserves [-]."""
        self.replica = replica
        self.empty: dict[int, float] = {}
        """Time of a decode step by batch, without any context [s]."""
        many = float(replica.pipeline)  # so that no stage waits
        step = float(decode(replica, many, 1e6).total - decode(replica, many, 0.0).total)
        self.per_token = step / (many * float(replica.shape.attended(1e6)))
        """The time that a token of context adds to a step [s]."""
        self.is_bent = bool(replica.shape.windowed or replica.shape.recurrent)
        """Whether not all of a context is looked at."""
        small, large = float(prefill(replica, 1000.0, hit)), float(prefill(replica, 2000.0, hit))
        self.square = (large - 2 * small) / 2e6
        self.linear = small / 1000 - 1000 * self.square
        self.least = least_prefill(replica)
        count = len(requests)
        self.first = np.full(count, np.nan)
        self.last = np.full(count, np.nan)
        self.now = 0.0
        self.iteration = 0
        self.waiting: deque[int] = deque()
        self.read = 0
        """Tokens of the first waiting prompt that have been read."""
        self.made = [0] * count
        """Tokens that a request had when it was evicted."""
        self.ends: list[tuple[int, int]] = []
        """Heap of the sequences that are decoded: iteration after which they end, and request."""
        self.context = 0
        self.reserved = 0
        self.entered: dict[int, int] = {}
        """Sequences that are decoded, oldest first, and the iteration in which their prompt was read."""
        self.evictions = 0
        self.busy = self.sequence_seconds = 0.0

    def run(self) -> Served:
        """Serve all."""
        arrivals, ends, waiting = [*(request.arrival for request in self.requests), math.inf], self.ends, self.waiting
        coming, count = 0, len(self.requests)
        while coming < count or waiting or ends:
            if not waiting and not ends:
                self.now = max(self.now, arrivals[coming])
            while arrivals[coming] <= self.now:
                waiting.append(coming)
                coming += 1
            parts = self._admit() if waiting else []
            if parts or not ends:
                self._mixed(parts)
            else:
                self._decode(arrivals[coming])
        return Served(
            np.array(arrivals[:-1]),
            np.array([float(request.output) for request in self.requests]),
            self.first,
            self.last,
            self.evictions,
            self.busy,
            self.sequence_seconds,
        )

    def _admit(self) -> list[tuple[int, int, int]]:
        """Return what the next iteration reads of prompts: request, first token and the one after the last."""
        parts: list[tuple[int, int, int]] = []
        budget = self.chunk - len(self.ends)
        while self.waiting and budget > 0:
            index = self.waiting[0]
            request = self.requests[index]
            prompt = request.input + self.made[index]
            if not self.read:
                demand = self.reserved + self.needs[index] if self.reserves else self.context + prompt
                if len(self.ends) + len(parts) >= self.seats or demand > self.room:
                    break
                self.reserved += self.needs[index]
                self.context += prompt
            stop = min(prompt, self.read + budget)
            parts.append((index, self.read, stop))
            budget -= stop - self.read
            self.read = stop
            if stop < prompt:
                break
            self.waiting.popleft()
            self.read = 0
        return parts

    def _mixed(self, parts: list[tuple[int, int, int]]) -> None:
        """Do one iteration that reads prompts."""
        # As in the closed form, ranks of data-parallel attention read at the same time, and share the work evenly.
        # Stages of a pipeline work on other sequences meanwhile; the last ones are still to come for what was read.
        work = sum(self.linear * (stop - start) + self.square * (stop**2 - start**2) for _, start, stop in parts)
        seconds = work / self.replica.data / self.replica.pipeline
        passing = seconds * (self.replica.pipeline - 1)
        batch = len(self.ends)
        seconds = seconds + self._step(batch, self.context) if batch else max(seconds, self.least)
        self._pass(seconds, 1, batch)
        for index, _, stop in parts:
            request = self.requests[index]
            if stop < request.input + self.made[index]:
                continue
            if not self.made[index]:
                self.first[index] = self.now + passing
            left = request.output - self.made[index] - 1
            if left <= 0:
                self._leave(index, request.input + self.made[index])
            else:
                self.entered[index] = self.iteration
                heappush(self.ends, (self.iteration + left, index))
        self._finish()

    def _decode(self, arrival: float) -> None:
        """Do iterations until a sequence ends, somebody arrives or room runs out."""
        batch = len(self.ends)
        steps = most = self.ends[0][0] - self.iteration
        if not self.reserves:
            fitting = int((self.room - self.context) // batch)
            if fitting < 1:
                self._evict()
                return
            steps = min(steps, fitting)
        first_step = self._step(batch, self.context)
        growth = self._step(batch, self.context + batch) - first_step
        if self.now + steps * first_step + growth * steps * (steps - 1) / 2 > arrival:
            # Smallest k with k t + g k (k - 1) / 2 >= what is left.
            left = max(arrival - self.now, 0.0)
            if growth > 0:
                linear = first_step - growth / 2
                root = (math.sqrt(linear * linear + 2 * growth * left) - linear) / growth
            else:
                root = left / first_step
            steps = min(steps, max(1, math.ceil(root * (1 - 1e-12))))
        self._pass(steps * first_step + growth * steps * (steps - 1) / 2, steps, batch)
        if steps == most:
            self._finish()

    def _step(self, batch: int, context: int) -> float:
        """Return the time of a decode step [s]."""
        base = self.empty.get(batch)
        if base is None:
            base = self.empty[batch] = float(decode(self.replica, float(batch), 0.0).total)
        if self.is_bent:
            return base + self.per_token * batch * float(self.replica.shape.attended(context / batch))
        return base + self.per_token * context

    def _pass(self, seconds: float, steps: int, batch: int) -> None:
        self.now += seconds
        self.busy += seconds
        self.sequence_seconds += seconds * batch
        self.iteration += steps
        self.context += steps * batch

    def _finish(self) -> None:
        """Let sequences go whose last token was made."""
        ends = self.ends
        while ends and ends[0][0] <= self.iteration:
            _, index = heappop(ends)
            del self.entered[index]
            request = self.requests[index]
            self._leave(index, request.input + request.output - 1)

    def _leave(self, index: int, tokens: int) -> None:
        self.last[index] = max(self.now, self.first[index])
        self.context -= tokens
        self.reserved -= self.needs[index]

    def _evict(self) -> None:
        """Take the room of the sequence that came last; its prompt and tokens will be read again."""
        index = next(reversed(self.entered))
        request = self.requests[index]
        tokens = self.made[index] + 1 + self.iteration - self.entered.pop(index)
        self.ends[:] = sorted(entry for entry in self.ends if entry[1] != index)
        self.context -= request.input + tokens - 1
        self.reserved -= self.needs[index]
        self.made[index] = tokens
        if self.read:
            # The prompt that is half read goes on after it.
            half = self.waiting[0]
            self.context -= self.requests[half].input + self.made[half]
            self.reserved -= self.needs[half]
            self.read = 0
        self.waiting.appendleft(index)
        self.evictions += 1


class _Eager(_Loop):
    """The same where the host launches every kernel: a step takes no less than that, whatever its context."""

    def __init__(self, replica: Replica, requests: list[Request], longest: int, hit: float = 0.0) -> None:
        captured = replace(replica.engine, is_eager=False)
        super().__init__(replace(replica, engine=captured), requests, longest, hit)
        self.least = least_prefill(replica)
        self.floor, self.host = float(decode(replica, 0.0, 0.0).total), float(decode(replica, 1.0, 0.0).host)
        self.host /= replica.pipeline

    def _step(self, batch: int, context: int) -> float:
        return max(super()._step(batch, context), self.floor + batch * self.host)


# Replays take seconds and depend on the service alone: their outcome stays on the disk.

_FILES = 256
"""Such curves on the disk at most, some hundred bytes each [-]."""

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

    Notes
    -----
    Files may be deleted at any time; where no file can be written or read, the curve is made anew.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ettrick" / "replays"
    file = folder / f"{hashlib.blake2b(content + _made_by(), digest_size=16).hexdigest()}.json"
    with contextlib.suppress(OSError, ValueError, TypeError):
        curve = tuple((float(load), float(share), float(doubt)) for load, share, doubt in json.loads(file.read_bytes()))
        if tuple(load for load, *_ in curve) == tuple(loads):
            return curve
    curve = tuple(make())
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{file.stem}.{os.getpid()}"
        part.write_text(json.dumps(curve), encoding="ascii")
        part.replace(file)
        for oldest in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)[:-_FILES]:
            oldest.unlink()
    return curve


@cache
def _made_by() -> bytes:
    """Return a digest of the simulator, and of the packages that it draws requests with."""
    digest = hashlib.blake2b(" ".join(map(metadata.version, ("numpy", "scipy"))).encode())
    paths = Path(__file__).parents[1].rglob("*")
    for path in sorted(path for path in paths if path.suffix in (".py", ".yaml", ".csv")):
        digest.update(path.read_bytes())
    return digest.digest()

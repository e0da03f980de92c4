"""The iterations of a replica's replay, one after another; :func:`serve` is their loop.

An iteration reads up to `chunk` tokens of prompts and makes one token for every sequence that is being decoded. While
no prompt waits, nothing is decided until a sequence ends, a request arrives or room runs out, and the iterations until
then are one sum: the time of a step is affine in the tokens of context, which grow by the same number in each.

The same functions run in Python, on lists, and as machine code, on arrays, which `ettrick.sim.engine.native` makes of
them: to the same bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple


@dataclass(slots=True)
class ReplayState:
    """The single numbers of a replay.

    Parameters
    ----------
    count
        Requests [-].
    chunk, seats
        Tokens of prompts that an iteration reads at most, and sequences decoded together at most [-].
    reserves
        Whether room for the longest answer is kept from the start.
    data, pipeline
        Ranks with sequences of their own, and stages [-].
    room
        Tokens of context that fit [-].
    per_token
        Time that a token of context adds to a step [s].
    is_bent
        Whether not all of a context is looked at: of `layers` layers, `full` look at all, `windowed` at a `window`.
    linear, square
        Time to read a token of a prompt, and what is added by each token before it, twice [s].
    least
        Time of an iteration that only reads, at least [s].
    floor, host
        Time of a step at least, and more of it for each sequence [s].
    now, iteration
        Time, and iterations until then [s, -].
    arrived, admitted
        The next requests to arrive, and to be read for the first time [-].
    evicted, entered
        Requests in these two columns [-].
    read
        Tokens of the first waiting prompt that have been read [-].
    batch, context, reserved
        Sequences that are decoded, their tokens, and those that they need before they end [-].
    evictions, busy, sequence_seconds
        As in the outcome.
    """

    count: int
    chunk: int
    seats: int
    reserves: bool
    data: int
    pipeline: int
    room: float
    per_token: float
    is_bent: bool
    layers: float
    full: float
    windowed: float
    window: float
    linear: float
    square: float
    least: float
    floor: float
    host: float
    now: float = 0.0
    iteration: int = 0
    arrived: int = 0
    admitted: int = 0
    evicted: int = 0
    entered: int = 0
    read: int = 0
    batch: int = 0
    context: int = 0
    reserved: int = 0
    evictions: int = 0
    busy: float = 0.0
    sequence_seconds: float = 0.0


class ReplayColumns(NamedTuple):
    """The numbers of each request.

    Parameters
    ----------
    arrival, first, last
        Times of arrival, of the first and of the last token [s]; after the last request comes one at infinity.
    empty
        Time of a decode step without any context, by batch; NaN until it is asked for [s].
    need
        Tokens that it needs before it ends, or reserves [-].
    prompt, answer
        Tokens to read and to make [-]; tokens made before an eviction are read again.
    begin
        Iteration in which its prompt was read [-].
    whole, evicted, entered
        Requests whose prompts this iteration reads to the end; those evicted, which are read before all others, the
        last one first; those that entered, oldest first, some of which have ended [-].
    end
        Heap of the sequences that are decoded: the iteration after which one ends, times `count`, and the request [-].
    """

    arrival: list[float]
    first: list[float]
    last: list[float]
    empty: list[float]
    need: list[int]
    prompt: list[int]
    answer: list[int]
    begin: list[int]
    whole: list[int]
    evicted: list[int]
    entered: list[int]
    end: list[int]


def serve(s: ReplayState, c: ReplayColumns) -> None:
    """Do iterations until all requests are served, or the time of a step is not known."""
    while s.admitted < s.count or s.evicted or s.batch:
        if math.isnan(c.empty[s.batch]):
            return
        if not s.batch and not s.evicted and s.admitted == s.arrived:
            s.now = max(s.now, c.arrival[s.arrived])
        while c.arrival[s.arrived] <= s.now:
            s.arrived += 1
        if (s.admitted < s.arrived or s.evicted) and _read(s, c):
            continue
        if s.batch:
            _decode(s, c, c.arrival[s.arrived])
        else:
            _mix(s, c, 0.0, 0)


def _read(s: ReplayState, c: ReplayColumns) -> bool:
    """Do an iteration that reads prompts, if one is admitted; return whether."""
    budget, seats = s.chunk - s.batch, s.seats - s.batch
    before, start, work, whole = budget, s.read, 0.0, 0
    while budget > 0 and (s.evicted or s.admitted < s.arrived):
        index = _head(s, c)
        prompt = c.prompt[index]
        if not start:
            demand = s.reserved + c.need[index] if s.reserves else s.context + prompt
            if whole >= seats or demand > s.room:
                break
            s.reserved += c.need[index]
            s.context += prompt
        stop = start + budget
        if stop >= prompt:
            stop = prompt
            _dequeue(s)
            c.whole[whole] = index
            whole += 1
        work += s.linear * (stop - start) + s.square * (stop * stop - start * start)
        budget -= stop - start
        start = stop if stop < prompt else 0
    s.read = start
    if budget == before:
        return False
    _mix(s, c, work, whole)
    return True


def _head(s: ReplayState, c: ReplayColumns) -> int:
    """Return the first request that waits."""
    return c.evicted[s.evicted - 1] if s.evicted else s.admitted


def _dequeue(s: ReplayState) -> None:
    """Take the first request from those that wait."""
    if s.evicted:
        s.evicted -= 1
    else:
        s.admitted += 1


def _mix(s: ReplayState, c: ReplayColumns, work: float, whole: int) -> None:
    """Do one iteration that reads prompts in a time that one rank takes [s], so many of them to the end."""
    # As in the closed form, ranks of data-parallel attention read at the same time, and share the work evenly.
    # Stages of a pipeline work on other sequences meanwhile; the last ones are still to come for what was read.
    seconds = work / s.data / s.pipeline
    passing = seconds * (s.pipeline - 1)
    if s.batch:
        seconds += _step(s, c, s.context)
    elif seconds < s.least:
        seconds = s.least
    _pass(s, seconds, 1)
    for row in range(whole):
        index = c.whole[row]
        if math.isnan(c.first[index]):
            c.first[index] = s.now + passing
        left = c.answer[index] - 1
        if left:
            c.begin[index] = s.iteration
            c.entered[s.entered] = index
            s.entered += 1
            push(s, c, (s.iteration + left) * s.count + index)
        else:
            _leave(s, c, index)
    _finish(s, c)


def _decode(s: ReplayState, c: ReplayColumns, arrival: float) -> None:
    """Do iterations until a sequence ends, a request arrives or room runs out."""
    batch, context = s.batch, s.context
    steps = most = c.end[0] // s.count - s.iteration
    if not s.reserves:
        fitting = int((s.room - context) / batch)
        if fitting * batch > s.room - context:
            fitting -= 1  # the quotient was rounded
        if fitting < 1:
            _evict(s, c)
            return
        if fitting < steps:
            steps = fitting
    first = _step(s, c, context)
    growth = _step(s, c, context + batch) - first
    even, uneven = steps * first, growth * steps * (steps - 1) / 2
    if s.now + even + uneven > arrival:
        steps = min(steps, _steps_until(max(arrival - s.now, 0.0), first, growth))
        even, uneven = steps * first, growth * steps * (steps - 1) / 2
    _pass(s, even + uneven, steps)
    if steps == most:
        _finish(s, c)


def _step(s: ReplayState, c: ReplayColumns, context: int) -> float:
    """Return the time of a decode step [s]."""
    batch = s.batch
    seconds = c.empty[batch]
    if s.is_bent:
        tokens = context / batch
        attended = (s.full * tokens + s.windowed * min(tokens, s.window)) / s.layers
        seconds += s.per_token * batch * attended
    else:
        seconds += s.per_token * context
    least = s.floor + batch * s.host
    return seconds if seconds > least else least


def _steps_until(seconds: float, first: float, growth: float) -> int:
    """Return the fewest steps, the first of some length and each longer than the one before, that take a time [s]."""
    root = seconds / first
    if growth > 0:
        # k t + g k (k - 1) / 2 = what is left.
        linear = first - growth / 2
        root = (math.sqrt(linear * linear + 2 * growth * seconds) - linear) / growth
    return max(1, math.ceil(root * (1 - 1e-12)))


def _pass(s: ReplayState, seconds: float, steps: int) -> None:
    """Pass the time of some steps."""
    batch = s.batch
    s.now += seconds
    s.busy += seconds
    s.sequence_seconds += seconds * batch
    s.iteration += steps
    s.context += steps * batch


def _finish(s: ReplayState, c: ReplayColumns) -> None:
    """Let sequences go whose last token was made."""
    over = (s.iteration + 1) * s.count
    while s.batch and c.end[0] < over:
        _leave(s, c, pop(s, c) % s.count)


def _leave(s: ReplayState, c: ReplayColumns, index: int) -> None:
    """Give the room of a sequence back that has ended."""
    c.last[index] = s.now
    s.context -= c.prompt[index] + c.answer[index] - 1
    s.reserved -= c.need[index]


def _evict(s: ReplayState, c: ReplayColumns) -> None:
    """Take the room of the sequence that came last; its prompt and tokens will be read again."""
    s.entered -= 1
    while not math.isnan(c.last[c.entered[s.entered]]):
        s.entered -= 1
    index = c.entered[s.entered]
    drop(s, c, (c.begin[index] + c.answer[index] - 1) * s.count + index)
    tokens = 1 + s.iteration - c.begin[index]
    s.context -= c.prompt[index] + tokens - 1
    s.reserved -= c.need[index]
    c.prompt[index] += tokens
    c.answer[index] -= tokens
    if s.read:
        # The prompt that is half read goes on after it.
        half = _head(s, c)
        s.context -= c.prompt[half]
        s.reserved -= c.need[half]
        s.read = 0
    c.evicted[s.evicted] = index
    s.evicted += 1
    s.evictions += 1


# The heap in Python; machine code has its own.


def push(s: ReplayState, c: ReplayColumns, key: int) -> None:
    """Put a sequence among those that are decoded."""
    s.batch += 1
    heappush(c.end, key)


def pop(s: ReplayState, c: ReplayColumns) -> int:
    """Take the sequence that ends first."""
    s.batch -= 1
    return heappop(c.end)


def drop(s: ReplayState, c: ReplayColumns, key: int) -> None:
    """Take one sequence."""
    s.batch -= 1
    c.end.remove(key)
    c.end.sort()
